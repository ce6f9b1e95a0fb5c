// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: sockets towards the guests (see listen.h)
 */
#include "dnsguard/listen.h"
#include "netpool/base/plan.h"
#include "netpool/base/util.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#define BATCH 32   /* datagrams of one call */
#define BATCHES 4  /* calls of one turn: others want theirs */
#define ACCEPTS 16 /* connections of one turn */
#define OUT_MAX (DG_TCP_QUERIES * (2 + DG_ANSWER_MAX))
#define CTL_IN                                                                 \
	(CMSG_SPACE(sizeof(struct in_pktinfo)) +                               \
	 CMSG_SPACE(sizeof(struct sockaddr_in)) + CMSG_SPACE(sizeof(uint32_t)))
#define CTL_OUT CMSG_SPACE(sizeof(struct in_pktinfo))

struct gate {
	struct dg_listen *l;
	uint32_t gateway;
	int udp, tcp;
	struct eg_io *udp_io, *tcp_io;
};

/* One connection of a guest; its handle is (serial, index). */
struct conn {
	struct dg_listen *l;
	struct eg_io *io;
	int fd;
	uint32_t index, serial;
	struct dg_client client;
	uint32_t queries, pending;
	bool last;	/* no more is taken; closed when all is answered */
	bool eof;	/* the guest has said all, or the connection broke */
	bool drain;	/* all is answered: read and discard until it closes */
	bool inside;	/* its own handler runs: closing waits */
	int64_t active; /* ns; accepted, or last whole query */
	size_t in_len, out_len, out_at, out_cap;
	uint8_t *out;
	uint8_t in[2 + DG_QUERY_MAX];
};

struct in_slot {
	struct sockaddr_in from;
	struct iovec iov;
	_Alignas(struct cmsghdr) uint8_t ctl[CTL_IN];
	uint8_t msg[DG_QUERY_MAX];
};

struct out_slot {
	struct sockaddr_in to;
	struct iovec iov;
	_Alignas(struct cmsghdr) uint8_t ctl[CTL_OUT];
	uint8_t msg[DG_ANSWER_MAX];
};

struct dg_listen {
	struct eg_loop *loop;
	const struct eg_conf *conf;
	const struct dg_listen_ops *ops;
	void *arg;
	struct dg_listen_stats stats;
	struct eg_timer *idle, *resume;
	struct gate *gate; /* by gateway */
	uint8_t *slot_conns;
	uint32_t conns, next_serial, hint;
	struct conn *conn[DG_TCP_CONNS];
	uint32_t nout, out_gateway; /* answers waiting for one gateway */
	struct mmsghdr hdr_in[BATCH], hdr_out[BATCH];
	struct in_slot in[BATCH];
	struct out_slot out[BATCH];
};

/* ---- UDP --------------------------------------------------------------- */

void dg_listen_flush(struct dg_listen *l)
{
	struct gate *g = &l->gate[l->out_gateway];
	uint32_t at = 0;

	while (at < l->nout) {
		int n = sendmmsg(g->udp, l->hdr_out + at, l->nout - at, 0);

		if (n > 0) {
			at += (uint32_t)n;
			l->stats.udp_out += (uint32_t)n;
			continue;
		}
		if (n < 0 && errno == EINTR)
			continue;
		/* Full or unroutable: that one is lost, the guest asks again */
		at++;
		l->stats.udp_lost++;
	}
	l->nout = 0;
}

static void reply_udp(struct dg_listen *l, const struct dg_client *to,
		      const uint8_t *msg, size_t len)
{
	struct in_pktinfo pi = {.ipi_ifindex = (int)to->ifindex,
				.ipi_spec_dst.s_addr = htonl(to->dst)};
	struct out_slot *o;
	struct msghdr *h;
	struct cmsghdr *cm;

	if (to->gateway >= l->conf->gateways || l->gate[to->gateway].udp < 0)
		return;
	if (l->nout == BATCH || (l->nout && l->out_gateway != to->gateway))
		dg_listen_flush(l);
	l->out_gateway = to->gateway;
	o = &l->out[l->nout];
	h = &l->hdr_out[l->nout++].msg_hdr;
	memset(o->ctl, 0, sizeof(o->ctl));
	memcpy(o->msg, msg, len);
	o->to = (struct sockaddr_in){.sin_family = AF_INET,
				     .sin_port = htons(to->sport),
				     .sin_addr.s_addr = htonl(to->src)};
	o->iov = (struct iovec){.iov_base = o->msg, .iov_len = len};
	*h = (struct msghdr){.msg_name = &o->to,
			     .msg_namelen = sizeof(o->to),
			     .msg_iov = &o->iov,
			     .msg_iovlen = 1,
			     .msg_control = o->ctl,
			     .msg_controllen = sizeof(o->ctl)};
	cm = CMSG_FIRSTHDR(h);
	cm->cmsg_level = IPPROTO_IP;
	cm->cmsg_type = IP_PKTINFO;
	cm->cmsg_len = CMSG_LEN(sizeof(pi));
	memcpy(CMSG_DATA(cm), &pi, sizeof(pi));
}

/* Arrival link, destination and mark out of the control messages. */
static void read_control(struct msghdr *h, struct dg_client *c)
{
	for (struct cmsghdr *cm = CMSG_FIRSTHDR(h); cm; cm = CMSG_NXTHDR(h, cm)) {
		struct in_pktinfo pi;
		struct sockaddr_in sa;
		uint32_t mark;

		if (cm->cmsg_level == SOL_SOCKET && cm->cmsg_type == SO_MARK &&
		    cm->cmsg_len >= CMSG_LEN(sizeof(mark))) {
			memcpy(&mark, CMSG_DATA(cm), sizeof(mark));
			c->epoch = mark >> EG_EPOCH_SHIFT;
		}
		if (cm->cmsg_level != IPPROTO_IP)
			continue;
		if (cm->cmsg_type == IP_PKTINFO &&
		    cm->cmsg_len >= CMSG_LEN(sizeof(pi))) {
			memcpy(&pi, CMSG_DATA(cm), sizeof(pi));
			c->ifindex = (uint32_t)pi.ipi_ifindex;
			if (!c->dst)
				c->dst = ntohl(pi.ipi_addr.s_addr);
		} else if (cm->cmsg_type == IP_ORIGDSTADDR &&
			   cm->cmsg_len >= CMSG_LEN(sizeof(sa))) {
			memcpy(&sa, CMSG_DATA(cm), sizeof(sa));
			c->dst = ntohl(sa.sin_addr.s_addr);
			c->dport = ntohs(sa.sin_port);
		}
	}
}

static void on_datagram(struct gate *g, struct in_slot *s, struct mmsghdr *m)
{
	struct dg_listen *l = g->l;
	struct dg_client c = {.src = ntohl(s->from.sin_addr.s_addr),
			      .sport = ntohs(s->from.sin_port),
			      .dport = 53,
			      .gateway = g->gateway};
	size_t len = m->msg_len;

	read_control(&m->msg_hdr, &c);
	c.slot = eg_plan_slot(l->conf, g->gateway, c.ifindex);
	if (c.slot == UINT32_MAX || m->msg_hdr.msg_namelen != sizeof(s->from)) {
		l->stats.strangers++;
		return;
	}
	/* Longer than any query: judged by its header alone, as malformed. */
	if ((m->msg_hdr.msg_flags & MSG_TRUNC) && len > DG_HDR)
		len = DG_HDR;
	l->stats.udp_in++;
	l->ops->query(l->arg, &c, s->msg, len);
}

static void on_udp(void *arg, int fd, int what)
{
	struct gate *g = arg;
	struct dg_listen *l = g->l;
	int n = BATCH;

	(void)what;
	for (int b = 0; b < BATCHES && n == BATCH; b++) {
		for (int i = 0; i < BATCH; i++) {
			struct in_slot *s = &l->in[i];

			s->iov = (struct iovec){.iov_base = s->msg,
						.iov_len = sizeof(s->msg)};
			l->hdr_in[i].msg_hdr = (struct msghdr){
				.msg_name = &s->from,
				.msg_namelen = sizeof(s->from),
				.msg_iov = &s->iov,
				.msg_iovlen = 1,
				.msg_control = s->ctl,
				.msg_controllen = sizeof(s->ctl),
			};
		}
		n = recvmmsg(fd, l->hdr_in, BATCH, MSG_DONTWAIT, NULL);
		for (int i = 0; i < n; i++)
			on_datagram(g, &l->in[i], &l->hdr_in[i]);
	}
	dg_listen_flush(l);
}

/* ---- TCP --------------------------------------------------------------- */

static void conn_close(struct conn *c)
{
	struct dg_listen *l = c->l;

	l->conn[c->index] = NULL;
	l->slot_conns[c->client.slot]--;
	l->conns--;
	eg_io_free(c->io);
	eg_close_p(&c->fd);
	free(c->out);
	free(c);
}

static struct conn *conn_find(struct dg_listen *l, uint64_t handle)
{
	struct conn *c = l->conn[(uint32_t)handle % DG_TCP_CONNS];

	return c && c->serial == handle >> 32 ? c : NULL;
}

static void conn_arm(struct conn *c)
{
	eg_io_set(c->io, (c->last && !c->drain ? 0 : EG_READ) |
				 (c->out_at < c->out_len ? EG_WRITE : 0));
}

/* Send what is there; closes the connection when all is done or it broke. */
static void conn_flush(struct conn *c)
{
	while (c->out_at < c->out_len) {
		ssize_t n =
			send(c->fd, c->out + c->out_at, c->out_len - c->out_at,
			     MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n > 0) {
			c->out_at += (size_t)n;
			continue;
		}
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		conn_close(c);
		return;
	}
	if (c->out_at == c->out_len)
		c->out_at = c->out_len = 0;
	if (c->last && !c->pending && !c->out_len) {
		if (c->eof) {
			conn_close(c);
			return;
		}
		/*
		 * Closing with octets unread would reset the connection and
		 * take the answers with it; the idle timer ends the wait.
		 */
		if (!c->drain)
			(void)shutdown(c->fd, SHUT_WR);
		c->drain = true;
	}
	conn_arm(c);
}

static bool conn_room(struct conn *c, size_t len)
{
	size_t cap = c->out_cap ? c->out_cap : 2048;
	uint8_t *p;

	while (cap < c->out_len + len && cap < OUT_MAX)
		cap *= 2;
	if (cap < c->out_len + len)
		return false;
	if (cap == c->out_cap)
		return true;
	p = realloc(c->out, cap);
	if (!p)
		return false;
	c->out = p;
	c->out_cap = cap;
	return true;
}

static void reply_tcp(struct dg_listen *l, const struct dg_client *to,
		      const uint8_t *msg, size_t len)
{
	struct conn *c = conn_find(l, to->conn);

	if (!c)
		return;
	c->pending--;
	if (conn_room(c, len + 2)) {
		dg_put16(c->out + c->out_len, (unsigned int)len);
		memcpy(c->out + c->out_len + 2, msg, len);
		c->out_len += len + 2;
	} else {
		c->last = true;
	}
	if (!c->inside)
		conn_flush(c);
}

void dg_listen_reply(struct dg_listen *l, const struct dg_client *to,
		     const uint8_t *msg, size_t len)
{
	if (len > DG_ANSWER_MAX)
		return;
	if (to->tcp)
		reply_tcp(l, to, msg, len);
	else
		reply_udp(l, to, msg, len);
}

void dg_listen_silence(struct dg_listen *l, const struct dg_client *to)
{
	struct conn *c = to->tcp ? conn_find(l, to->conn) : NULL;

	if (!c)
		return;
	c->pending--;
	if (!c->inside)
		conn_flush(c);
}

/* Hand one message to the guard. */
static void conn_query(struct conn *c, const uint8_t *msg, size_t len)
{
	c->queries++;
	c->pending++;
	c->active = eg_loop_now_ns(c->l->loop);
	if (c->queries >= DG_TCP_QUERIES)
		c->last = true;
	c->l->ops->query(c->l->arg, &c->client, msg, len);
}

/* Whole messages in the buffer; what is left moves to its front. */
static void conn_consume(struct conn *c)
{
	size_t at = 0;

	while (!c->last && c->in_len - at >= 2) {
		size_t len = dg_get16(c->in + at);

		if (len > DG_QUERY_MAX) {
			if (c->in_len - at < 2 + DG_HDR)
				break;
			/* its header alone: FORMERR, and the end */
			c->last = true;
			conn_query(c, c->in + at + 2, DG_HDR);
			break;
		}
		if (c->in_len - at < 2 + len)
			break;
		conn_query(c, c->in + at + 2, len);
		at += 2 + len;
	}
	memmove(c->in, c->in + at, c->in_len - at);
	c->in_len -= at;
}

static void on_conn(void *arg, int fd, int what)
{
	struct conn *c = arg;
	ssize_t n;

	c->inside = true;
	if ((what & EG_READ) && (!c->last || c->drain)) {
		if (c->drain)
			c->in_len = 0;
		n = recv(fd, c->in + c->in_len, sizeof(c->in) - c->in_len,
			 MSG_DONTWAIT);
		if (n > 0 && !c->drain) {
			c->in_len += (size_t)n;
			conn_consume(c);
		} else if (!n || (n < 0 && errno != EAGAIN && errno != EINTR)) {
			/* half-closed: answers still go out */
			c->last = c->eof = true;
		}
	}
	c->inside = false;
	conn_flush(c);
}

/* Who is at the other end of an accepted socket? */
static int conn_identify(struct dg_listen *l, int fd, struct dg_client *c)
{
	struct sockaddr_in sa = {0};
	socklen_t len = sizeof(sa);
	/* TTL and TOS may come along */
	_Alignas(struct cmsghdr) uint8_t ctl[128] = {0};
	struct msghdr h = {.msg_control = ctl};
	socklen_t clen = sizeof(ctl);

	if (getpeername(fd, (struct sockaddr *)&sa, &len) < 0)
		return -errno;
	c->src = ntohl(sa.sin_addr.s_addr);
	c->sport = ntohs(sa.sin_port);
	if (getsockopt(fd, IPPROTO_IP, IP_PKTOPTIONS, ctl, &clen) < 0)
		return -errno;
	h.msg_controllen = clen;
	read_control(&h, c);
	len = sizeof(sa);
	if (getsockname(fd, (struct sockaddr *)&sa, &len) < 0)
		return -errno;
	c->dst = ntohl(sa.sin_addr.s_addr);
	c->dport = ntohs(sa.sin_port);
	c->slot = eg_plan_slot(l->conf, c->gateway, c->ifindex);
	return c->slot == UINT32_MAX ? -ENODEV : 0;
}

int dg_listen_conn(struct dg_listen *l, int fd, const struct dg_client *who)
{
	struct conn *c;
	uint32_t i = l->hint;

	if (l->conns == DG_TCP_CONNS || l->slot_conns[who->slot] >= DG_TCP_SLOT)
		return -EBUSY;
	c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	while (l->conn[i])
		i = (i + 1) % DG_TCP_CONNS;
	l->hint = (i + 1) % DG_TCP_CONNS;
	c->l = l;
	c->fd = fd;
	c->index = i;
	c->serial = ++l->next_serial;
	c->client = *who;
	c->client.tcp = true;
	c->client.conn = (uint64_t)c->serial << 32 | i;
	c->active = eg_loop_now_ns(l->loop);
	c->io = eg_io_new(l->loop, fd, EG_READ, on_conn, c);
	if (!c->io) {
		free(c);
		return -ENOMEM;
	}
	l->conn[i] = c;
	l->slot_conns[who->slot]++;
	if (!l->conns++)
		eg_timer_set(l->idle, 1000000);
	return 0;
}

static void on_accepted(struct gate *g, int fd)
{
	struct dg_listen *l = g->l;
	struct dg_client c = {.gateway = g->gateway};

	if (conn_identify(l, fd, &c)) {
		l->stats.strangers++;
		(void)close(fd);
		return;
	}
	if (dg_listen_conn(l, fd, &c)) {
		l->stats.refused++;
		(void)close(fd);
		return;
	}
	l->stats.accepted++;
}

/* Level-triggered: without a pause a full descriptor table would spin. */
static void pause_accept(struct dg_listen *l)
{
	for (uint32_t i = 0; i < l->conf->gateways; i++)
		if (l->gate[i].tcp_io)
			eg_io_set(l->gate[i].tcp_io, 0);
	eg_timer_set(l->resume, DG_ACCEPT_PAUSE_MS * 1000);
	l->stats.paused++;
}

static void on_resume(void *arg)
{
	struct dg_listen *l = arg;

	for (uint32_t i = 0; i < l->conf->gateways; i++)
		if (l->gate[i].tcp_io)
			eg_io_set(l->gate[i].tcp_io, EG_READ);
}

static void on_tcp(void *arg, int fd, int what)
{
	struct gate *g = arg;

	(void)what;
	for (int i = 0; i < ACCEPTS; i++) {
		int s = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (s >= 0) {
			on_accepted(g, s);
			continue;
		}
		if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS ||
		    errno == ENOMEM)
			pause_accept(g->l);
		if (errno != EINTR && errno != ECONNABORTED)
			return;
	}
}

static void on_idle(void *arg)
{
	struct dg_listen *l = arg;
	int64_t now = eg_loop_now_ns(l->loop);

	for (uint32_t i = 0; l->conns && i < DG_TCP_CONNS; i++) {
		struct conn *c = l->conn[i];

		if (!c || now - c->active < DG_TCP_IDLE_S * EG_NSEC_PER_SEC)
			continue;
		l->stats.idle++;
		conn_close(c);
	}
	if (l->conns)
		eg_timer_set(l->idle, 1000000);
}

void dg_listen_cut(struct dg_listen *l, uint32_t slot)
{
	if (slot >= l->conf->slots || !l->slot_conns[slot])
		return;
	for (uint32_t i = 0; i < DG_TCP_CONNS; i++)
		if (l->conn[i] && l->conn[i]->client.slot == slot)
			conn_close(l->conn[i]);
}

/* ---- life -------------------------------------------------------------- */

int dg_listen_add(struct dg_listen *l, uint32_t gateway, bool tcp, int fd)
{
	struct gate *g;
	struct eg_io *io;
	int flags = fcntl(fd, F_GETFL);

	if (gateway >= l->conf->gateways)
		return -ERANGE;
	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
		return -errno;
	g = &l->gate[gateway];
	io = eg_io_new(l->loop, fd, EG_READ, tcp ? on_tcp : on_udp, g);
	if (!io)
		return -ENOMEM;
	eg_io_free(tcp ? g->tcp_io : g->udp_io);
	eg_close_p(tcp ? &g->tcp : &g->udp);
	if (tcp) {
		g->tcp_io = io;
		g->tcp = fd;
	} else {
		g->udp_io = io;
		g->udp = fd;
	}
	return 0;
}

int dg_listen_new(struct dg_listen **ret, struct eg_loop *loop,
		  const struct eg_conf *conf, const struct dg_listen_ops *ops,
		  void *arg)
{
	struct dg_listen *l = calloc(1, sizeof(*l));

	if (!l)
		return -ENOMEM;
	l->loop = loop;
	l->conf = conf;
	l->ops = ops;
	l->arg = arg;
	l->gate = calloc(conf->gateways, sizeof(*l->gate));
	l->slot_conns = calloc(conf->slots, 1);
	l->idle = eg_timer_new(loop, on_idle, l);
	l->resume = eg_timer_new(loop, on_resume, l);
	for (uint32_t i = 0; l->gate && i < conf->gateways; i++)
		l->gate[i] =
			(struct gate){.l = l, .gateway = i, .udp = -1, .tcp = -1};
	if (!l->gate || !l->slot_conns || !l->idle || !l->resume) {
		dg_listen_free(l);
		return -ENOMEM;
	}
	*ret = l;
	return 0;
}

void dg_listen_free(struct dg_listen *l)
{
	if (!l)
		return;
	for (uint32_t i = 0; i < DG_TCP_CONNS; i++)
		if (l->conn[i])
			conn_close(l->conn[i]);
	for (uint32_t i = 0; l->gate && i < l->conf->gateways; i++) {
		eg_io_free(l->gate[i].udp_io);
		eg_io_free(l->gate[i].tcp_io);
		eg_close_p(&l->gate[i].udp);
		eg_close_p(&l->gate[i].tcp);
	}
	eg_timer_free(l->idle);
	eg_timer_free(l->resume);
	free(l->gate);
	free(l->slot_conns);
	free(l);
}

const struct dg_listen_stats *dg_listen_stats(const struct dg_listen *l)
{
	return &l->stats;
}
