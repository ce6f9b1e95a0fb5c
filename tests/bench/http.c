// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: the bench's HTTP client (see http.h)
 */
#include "tests/bench/http.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#define QUESTION_MAX 4096

static int http_connect(struct http *h)
{
	const struct timeval limit = {.tv_sec = HTTP_TIMEOUT_S};
	struct sockaddr_un to = {.sun_family = AF_UNIX};

	if (strlen(h->path) >= sizeof(to.sun_path))
		return -ENAMETOOLONG;
	memcpy(to.sun_path, h->path, strlen(h->path) + 1);
	h->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (h->fd < 0)
		return -errno;
	(void)setsockopt(h->fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	if (connect(h->fd, (const struct sockaddr *)&to, sizeof(to)) < 0) {
		int r = -errno;

		(void)close(h->fd);
		h->fd = -1;
		return r;
	}
	return 0;
}

/* Where the head ends and how much follows it; 0: not all of it is here. */
static size_t head_end(struct http *h, size_t *ret_body)
{
	const char *end, *p;

	h->buf[h->len] = '\0';
	end = strstr(h->buf, "\r\n\r\n");
	if (!end)
		return 0;
	*ret_body = 0;
	p = strcasestr(h->buf, "\r\nContent-Length:");
	if (p && p < end)
		*ret_body = strtoul(p + strlen("\r\nContent-Length:"), NULL, 10);
	return (size_t)(end - h->buf) + 4;
}

static int answer(struct http *h)
{
	size_t head = 0, body = 0;

	while (!head || h->len < head + body) {
		ssize_t n;

		if (h->len == HTTP_MAX || body > HTTP_MAX)
			return -EMSGSIZE;
		n = recv(h->fd, h->buf + h->len, HTTP_MAX - h->len, 0);
		if (n < 0)
			return -errno;
		if (!n)
			return -ECONNRESET;
		h->len += (size_t)n;
		if (!head)
			head = head_end(h, &body);
	}
	h->buf[h->len] = '\0';
	h->body = h->buf + head;
	if (strncmp(h->buf, "HTTP/1.1 ", 9) != 0)
		return -EPROTO;
	return (int)strtol(h->buf + 9, NULL, 10);
}

static int once(struct http *h, const char *question, size_t len)
{
	int r = 0;

	h->len = 0;
	if (h->fd < 0)
		r = http_connect(h);
	if (!r && send(h->fd, question, len, MSG_NOSIGNAL) != (ssize_t)len)
		r = -EPIPE;
	if (!r)
		r = answer(h);
	if (r < 0 && h->fd >= 0) {
		(void)close(h->fd);
		h->fd = -1;
	}
	return r;
}

int http_ask(struct http *h, const char *method, const char *url, const char *body)
{
	char q[QUESTION_MAX];
	bool fresh = h->fd < 0;
	int r, n;

	n = snprintf(q, sizeof(q),
		     "%s %s HTTP/1.1\r\nHost: egressd\r\n"
		     "Content-Type: application/json\r\n"
		     "Content-Length: %zu\r\n\r\n%s",
		     method, url, body ? strlen(body) : 0, body ? body : "");
	if (n < 0 || (size_t)n >= sizeof(q))
		return -EMSGSIZE;
	r = once(h, q, (size_t)n);
	/* The server closes a connection that was silent for a minute. */
	if ((r == -EPIPE || r == -ECONNRESET) && !fresh && !h->len)
		r = once(h, q, (size_t)n);
	return r;
}

long http_number(const struct http *h, const char *key)
{
	char want[64];
	const char *p;
	int n = snprintf(want, sizeof(want), "\"%s\":", key);

	p = n > 0 && (size_t)n < sizeof(want) ? strstr(h->body, want) : NULL;
	return p ? strtol(p + n, NULL, 10) : -1;
}
