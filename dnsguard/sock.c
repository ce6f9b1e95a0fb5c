// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: the sockets of the upstream engine (see sock.h)
 */
#include "dnsguard/sock.h"
#include "netpool/base/util.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#define TURN 16		   /* datagrams of one socket in one turn */
#define DATAGRAM_MAX 4096  /* more than the 1232 we announce */

struct conn {
	struct dg_sock *s;
	struct eg_io *io;
	int fd;
	bool tcp, sent;
	uint32_t serial; /* tells a closed and reused entry */
	size_t out_len, got;
	uint8_t out[2 + DG_ASK_MAX];
	uint8_t *in; /* TCP: 2 + DG_UP_TCP_MAX octets */
};

struct dg_sock {
	struct eg_loop *loop;
	const struct dg_sock_ops *ops;
	void *arg;
	uint32_t nservers;
	struct eg_conf_upstream server[EG_CONF_UPSTREAMS];
	uint8_t datagram[DATAGRAM_MAX];
	struct conn conn[DG_UP_REQUESTS];
};

int dg_sock_new(struct dg_sock **ret, struct eg_loop *loop,
		const struct eg_conf_upstream *server, uint32_t nservers,
		const struct dg_sock_ops *ops, void *arg)
{
	struct dg_sock *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->loop = loop;
	s->ops = ops;
	s->arg = arg;
	s->nservers = eg_min_u32(nservers, EG_CONF_UPSTREAMS);
	memcpy(s->server, server, s->nservers * sizeof(*server));
	for (uint32_t i = 0; i < DG_UP_REQUESTS; i++) {
		s->conn[i].fd = -1;
		s->conn[i].s = s;
	}
	*ret = s;
	return 0;
}

void dg_sock_close(struct dg_sock *s, uint32_t req)
{
	struct conn *c = &s->conn[req];

	eg_io_free(c->io);
	c->io = NULL;
	eg_close_p(&c->fd);
	free(c->in);
	c->in = NULL;
	c->serial++;
}

void dg_sock_free(struct dg_sock *s)
{
	if (!s)
		return;
	for (uint32_t i = 0; i < DG_UP_REQUESTS; i++)
		dg_sock_close(s, i);
	free(s);
}

static void on_udp(struct conn *c, uint32_t req)
{
	struct dg_sock *s = c->s;
	uint32_t serial = c->serial;

	for (int i = 0; i < TURN && c->serial == serial; i++) {
		ssize_t n = recv(c->fd, s->datagram, sizeof(s->datagram), 0);

		if (n >= 0) {
			s->ops->datagram(s->arg, req, s->datagram, (size_t)n);
			continue;
		}
		if (errno != EAGAIN && errno != EINTR)
			s->ops->error(s->arg, req);
		return;
	}
}

/* The connection stands: a fresh one takes the whole question at once. */
static void on_tcp_write(struct conn *c, uint32_t req)
{
	ssize_t n = send(c->fd, c->out, c->out_len, MSG_NOSIGNAL);

	if (n != (ssize_t)c->out_len) {
		c->s->ops->error(c->s->arg, req);
		return;
	}
	c->sent = true;
	eg_io_set(c->io, EG_READ);
}

static void on_tcp_read(struct conn *c, uint32_t req)
{
	size_t want = c->got < 2 ? 2 : 2U + dg_get16(c->in);
	ssize_t n;

	if (want > 2U + DG_UP_TCP_MAX) {
		c->s->ops->error(c->s->arg, req);
		return;
	}
	n = recv(c->fd, c->in + c->got, want - c->got, 0);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		c->s->ops->error(c->s->arg, req);
		return;
	}
	c->got += (size_t)n;
	if (c->got > 2 && c->got == want)
		c->s->ops->stream(c->s->arg, req, c->in + 2, want - 2);
	else if (c->got == 2 && !dg_get16(c->in))
		c->s->ops->error(c->s->arg, req);
}

static void on_io(void *arg, int fd, int what)
{
	struct conn *c = arg;
	uint32_t req = (uint32_t)(c - c->s->conn);

	(void)fd;
	(void)what;
	if (!c->tcp)
		on_udp(c, req);
	else if (!c->sent)
		on_tcp_write(c, req);
	else
		on_tcp_read(c, req);
}

static int open_socket(const struct eg_conf_upstream *to, bool tcp)
{
	struct sockaddr_in sa = { .sin_family = AF_INET,
				  .sin_port = htons(to->port),
				  .sin_addr.s_addr = htonl(to->addr) };
	EG_CLEANUP_FD int fd = socket(AF_INET,
				      (tcp ? SOCK_STREAM : SOCK_DGRAM) |
					      SOCK_CLOEXEC | SOCK_NONBLOCK,
				      0);

	if (fd < 0)
		return -errno;
	if (connect(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0 &&
	    errno != EINPROGRESS)
		return -errno;
	return eg_steal_fd(&fd);
}

int dg_sock_send(struct dg_sock *s, uint32_t req, uint32_t server, bool tcp,
		 const uint8_t *msg, size_t len)
{
	struct conn *c = &s->conn[req];

	dg_sock_close(s, req);
	if (server >= s->nservers || len > DG_ASK_MAX)
		return -EINVAL;
	c->fd = open_socket(&s->server[server], tcp);
	if (c->fd < 0) {
		int r = c->fd;

		c->fd = -1;
		return r;
	}
	c->tcp = tcp;
	c->sent = false;
	c->got = 0;
	if (tcp) {
		c->in = malloc(2 + DG_UP_TCP_MAX);
		dg_put16(c->out, (unsigned int)len);
		memcpy(c->out + 2, msg, len);
		c->out_len = len + 2;
	} else if (send(c->fd, msg, len, MSG_NOSIGNAL) < 0) {
		int r = -errno;

		dg_sock_close(s, req);
		return r;
	}
	if (!tcp || c->in)
		c->io = eg_io_new(s->loop, c->fd, tcp ? EG_WRITE : EG_READ,
				  on_io, c);
	if (c->io)
		return 0;
	dg_sock_close(s, req);
	return -ENOMEM;
}
