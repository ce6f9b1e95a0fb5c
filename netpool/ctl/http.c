// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressctl: HTTP over the daemon's unix socket, by libcurl.
 */
#include "netpool/base/util.h"
#include "netpool/ctl/ct.h"

#include <curl/curl.h>
#include <jansson.h>
#include <string.h>

#define REPLY_MAX (256UL << 20) /* a capture; larger ones are read on the host */
#define WAIT_S 120L

static size_t on_data(char *data, size_t size, size_t n, void *arg)
{
	struct ct_reply *r = arg;
	size_t len = size * n;
	char *p;

	if (r->len + len > REPLY_MAX)
		return 0;
	p = realloc(r->text, r->len + len + 1);
	if (!p)
		return 0;
	memcpy(p + r->len, data, len);
	r->text = p;
	r->len += len;
	p[r->len] = '\0';
	return len;
}

void ct_reply_free(struct ct_reply *r)
{
	free(r->text);
	memset(r, 0, sizeof(*r));
}

static void request(CURL *h, const char *method, const char *body)
{
	(void)curl_easy_setopt(h, CURLOPT_UNIX_SOCKET_PATH, ct_socket);
	(void)curl_easy_setopt(h, CURLOPT_CUSTOMREQUEST, method);
	(void)curl_easy_setopt(h, CURLOPT_TIMEOUT, WAIT_S);
	(void)curl_easy_setopt(h, CURLOPT_NOSIGNAL, 1L);
	(void)curl_easy_setopt(h, CURLOPT_PROXY, "");
	(void)curl_easy_setopt(h, CURLOPT_WRITEFUNCTION, on_data);
	if (body) {
		(void)curl_easy_setopt(h, CURLOPT_POSTFIELDS, body);
		(void)curl_easy_setopt(h, CURLOPT_POSTFIELDSIZE,
				       (long)strlen(body));
	}
}

int ct_call(const char *method, const char *path, const char *body,
	    struct ct_reply *ret)
{
	CURL *h = curl_easy_init();
	char url[2048], error[CURL_ERROR_SIZE] = "";
	const char *type = NULL;
	CURLcode c;

	memset(ret, 0, sizeof(*ret));
	if (!h || snprintf(url, sizeof(url), "http://egressd%s", path) >=
			  (int)sizeof(url)) {
		(void)fprintf(stderr, "egressctl: the request is too long\n");
		curl_easy_cleanup(h);
		return CT_FAILED;
	}
	request(h, method, body);
	(void)curl_easy_setopt(h, CURLOPT_URL, url);
	(void)curl_easy_setopt(h, CURLOPT_ERRORBUFFER, error);
	(void)curl_easy_setopt(h, CURLOPT_WRITEDATA, ret);
	c = curl_easy_perform(h);
	(void)curl_easy_getinfo(h, CURLINFO_RESPONSE_CODE, &ret->status);
	(void)curl_easy_getinfo(h, CURLINFO_CONTENT_TYPE, &type);
	(void)snprintf(ret->type, sizeof(ret->type), "%s", type ? type : "");
	curl_easy_cleanup(h);
	if (c == CURLE_OK)
		return CT_OK;
	(void)fprintf(stderr,
		      "egressctl: the daemon cannot be reached at %s: %s\n",
		      ct_socket, error[0] ? error : curl_easy_strerror(c));
	ct_reply_free(ret);
	return CT_UNREACHABLE;
}

char *ct_path(const char *fmt, const char *value)
{
	char *esc = curl_easy_escape(NULL, value, 0), *out = NULL;
	size_t n = strlen(fmt) + (esc ? strlen(esc) : 0) + 1;
	const char *at = strstr(fmt, "%s");

	if (esc && at)
		out = malloc(n);
	if (out)
		(void)snprintf(out, n, "%.*s%s%s", (int)(at - fmt), fmt, esc,
			       at + 2);
	curl_free(esc);
	return out;
}

static int refused(const struct ct_reply *r, json_t *j)
{
	json_t *e = json_object_get(j, "error");

	(void)fputs("egressctl: ", stderr);
	if (json_is_object(e)) {
		ct_put(stderr, ct_str(e, "message"), 0);
		(void)fprintf(stderr, " (%s)\n", ct_str(e, "code"));
	} else {
		(void)fprintf(stderr, "the daemon answered with status %ld\n",
			      r->status);
	}
	return CT_FAILED;
}

int ct_ask(const char *method, const char *path, const char *body,
	   struct json_t **ret)
{
	struct ct_reply r;
	json_t *j;
	int e = path ? ct_call(method, path, body, &r) : CT_FAILED;

	if (e)
		return e;
	j = json_loadb(r.text ? r.text : "", r.len, 0, NULL);
	if (r.status < 200 || r.status > 299) {
		e = refused(&r, j);
		json_decref(j);
		j = NULL;
	}
	ct_reply_free(&r);
	*ret = j;
	return e;
}
