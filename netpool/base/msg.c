// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: channels between roles (see msg.h)
 */
#include "netpool/base/msg.h"
#include "netpool/base/fault.h"
#include "netpool/base/util.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#define CHAN_SNDBUF (1 << 20) /* asked for; the kernel may give less */
#define CHAN_TURN 64	      /* messages read per readiness event */

struct queued {
	struct queued *next;
	int fd;
	size_t len;
	char data[]; /* header and body */
};

struct eg_chan {
	struct eg_loop *loop;
	struct eg_io *io;
	const struct eg_chan_ops *ops;
	void *arg;
	int fd;
	bool dead;    /* on_close has been called */
	bool in_read; /* freeing is put off until the read loop is left */
	bool freed;
	struct queued *head, **tail;
	size_t nqueued;
	_Alignas(16) char buf[sizeof(struct eg_msg_hdr) + EG_MSG_MAX];
};

int eg_chan_pair(int ret[2])
{
	int size = CHAN_SNDBUF;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK,
		       0, ret) < 0)
		return -errno;
	for (int i = 0; i < 2; i++)
		/* Best effort: a smaller buffer only means more queueing. */
		(void)setsockopt(ret[i], SOL_SOCKET, SO_SNDBUF, &size,
				 sizeof(size));
	return 0;
}

static void chan_destroy(struct eg_chan *c)
{
	struct queued *q;

	eg_io_free(c->io);
	eg_close_p(&c->fd);
	while ((q = c->head)) {
		c->head = q->next;
		eg_close_p(&q->fd);
		free(q);
	}
	free(c);
}

void eg_chan_free(struct eg_chan *c)
{
	if (!c)
		return;
	c->dead = true;
	if (c->in_read)
		c->freed = true;
	else
		chan_destroy(c);
}

static void chan_fail(struct eg_chan *c, const char *why)
{
	if (c->dead)
		return;
	c->dead = true;
	eg_io_set(c->io, 0);
	c->ops->on_close(c->arg, c, why);
}

static int send_parts(int sock, const void *head, size_t hlen, const void *body,
		      size_t len, int fd)
{
	union {
		struct cmsghdr h;
		char b[CMSG_SPACE(sizeof(int))];
	} ctl = {0};
	struct iovec iov[2] = {
		{.iov_base = (void *)(uintptr_t)head, .iov_len = hlen},
		{.iov_base = (void *)(uintptr_t)body, .iov_len = len},
	};
	struct msghdr mh = {.msg_iov = iov, .msg_iovlen = len ? 2 : 1};

	if (fd >= 0) {
		mh.msg_control = ctl.b;
		mh.msg_controllen = sizeof(ctl.b);
		ctl.h.cmsg_level = SOL_SOCKET;
		ctl.h.cmsg_type = SCM_RIGHTS;
		ctl.h.cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(&ctl.h), &fd, sizeof(int));
	}
	while (sendmsg(sock, &mh, MSG_NOSIGNAL) < 0)
		if (errno != EINTR)
			return -errno;
	return 0;
}

/* EAGAIN: full. ETOOMANYREFS: too many descriptors in flight; later. */
static bool try_later(int r)
{
	return r == -EAGAIN || r == -ENOBUFS || r == -ETOOMANYREFS;
}

/* Send from the queue; 0, -EAGAIN, or the socket's error. */
static int queue_run(struct eg_chan *c)
{
	while (c->head) {
		struct queued *q = c->head;
		int r = send_parts(c->fd, q->data, q->len, NULL, 0, q->fd);

		if (try_later(r))
			return -EAGAIN;
		if (r)
			return r;
		c->head = q->next;
		if (!c->head)
			c->tail = &c->head;
		c->nqueued--;
		eg_close_p(&q->fd);
		free(q);
	}
	return 0;
}

static int queue_add(struct eg_chan *c, const struct eg_msg_hdr *h,
		     const void *body, size_t len, int fd)
{
	struct queued *q;

	if (c->nqueued >= EG_CHAN_QUEUE)
		return -ENOBUFS;
	q = malloc(sizeof(*q) + sizeof(*h) + len);
	if (!q)
		return -ENOMEM;
	q->next = NULL;
	q->len = sizeof(*h) + len;
	memcpy(q->data, h, sizeof(*h));
	if (len)
		memcpy(q->data + sizeof(*h), body, len);
	q->fd = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (fd >= 0 && q->fd < 0) {
		free(q);
		return -errno;
	}
	*c->tail = q;
	c->tail = &q->next;
	c->nqueued++;
	eg_io_set(c->io, EG_READ | EG_WRITE);
	return 0;
}

int eg_chan_send(struct eg_chan *c, uint16_t type, uint64_t cookie,
		 const void *body, size_t len, int fd)
{
	struct eg_msg_hdr h = {.type = type,
			       .magic = EG_MSG_MAGIC,
			       .len = (uint32_t)len,
			       .cookie = cookie};
	int r;

	if (!c || c->dead)
		return -EPIPE;
	if (type >= EG_MSG_COUNT || len < eg_msg_spec[type].min ||
	    len > eg_msg_spec[type].max)
		return -EMSGSIZE;
	r = EG_STEP(eg_msg_spec[type].name);
	if (r)
		return r;
	if (c->head)
		return queue_add(c, &h, body, len, fd);
	r = send_parts(c->fd, &h, sizeof(h), body, len, fd);
	return try_later(r) ? queue_add(c, &h, body, len, fd) : r;
}

size_t eg_chan_queued(const struct eg_chan *c)
{
	return c->nqueued;
}

int eg_chan_flush(struct eg_chan *c, int ms)
{
	struct pollfd p = {.fd = c->fd, .events = POLLOUT};
	int64_t end = eg_boot_ns() + (int64_t)ms * 1000000;
	int r;

	while ((r = queue_run(c)) == -EAGAIN) {
		if (eg_boot_ns() >= end)
			return -ETIMEDOUT;
		(void)poll(&p, 1, 10);
	}
	return r;
}

static int take_fd(struct msghdr *mh)
{
	int fd = -1;

	for (struct cmsghdr *cm = CMSG_FIRSTHDR(mh); cm;
	     cm = CMSG_NXTHDR(mh, cm)) {
		if (cm->cmsg_level != SOL_SOCKET || cm->cmsg_type != SCM_RIGHTS)
			continue;
		/* The buffer has room for one; the kernel closes the rest. */
		memcpy(&fd, CMSG_DATA(cm), sizeof(fd));
	}
	return fd;
}

/* Check a datagram against the table; NULL when it is in order. */
static const char *msg_check(const struct eg_msg_hdr *h, size_t got, int fd,
			     int flags)
{
	const struct eg_msg_spec *s;

	if (flags & (MSG_TRUNC | MSG_CTRUNC))
		return "a message was truncated";
	if (got < sizeof(*h) || h->magic != EG_MSG_MAGIC)
		return "a message without header";
	if (h->type == EG_MSG_NONE || h->type >= EG_MSG_COUNT)
		return "a message of unknown type";
	s = &eg_msg_spec[h->type];
	if (h->len != got - sizeof(*h) || h->len < s->min || h->len > s->max)
		return "a message of the wrong size";
	if (fd >= 0 && !s->fd)
		return "a descriptor where none belongs";
	return NULL;
}

/* One datagram; false when there is nothing more to do now. */
static bool chan_read(struct eg_chan *c)
{
	union {
		struct cmsghdr h;
		char b[CMSG_SPACE(sizeof(int))];
	} ctl;
	struct iovec iov = {.iov_base = c->buf, .iov_len = sizeof(c->buf)};
	struct msghdr mh = {.msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = ctl.b,
			    .msg_controllen = sizeof(ctl.b)};
	struct eg_msg_hdr h = {0};
	struct eg_msg m;
	const char *bad;
	ssize_t n = recvmsg(c->fd, &mh, MSG_CMSG_CLOEXEC);

	if (n < 0) {
		if (errno != EAGAIN && errno != EINTR)
			chan_fail(c, strerror(errno));
		return false;
	}
	if (!n) {
		chan_fail(c, "closed");
		return false;
	}
	m.fd = take_fd(&mh);
	memcpy(&h, c->buf, (size_t)n < sizeof(h) ? (size_t)n : sizeof(h));
	bad = msg_check(&h, (size_t)n, m.fd, mh.msg_flags);
	if (bad) {
		eg_close_p(&m.fd);
		chan_fail(c, bad);
		return false;
	}
	m.type = h.type;
	m.cookie = h.cookie;
	m.len = h.len;
	m.body = c->buf + sizeof(h);
	c->ops->on_msg(c->arg, c, &m);
	eg_close_p(&m.fd);
	return !c->dead;
}

/* Read until empty or @max messages; the channel may be gone afterwards. */
static void chan_turn(struct eg_chan *c, size_t max)
{
	c->in_read = true;
	for (size_t i = 0; !c->dead && i < max; i++)
		if (!chan_read(c))
			break;
	c->in_read = false;
	if (c->freed)
		chan_destroy(c);
}

void eg_chan_drain(struct eg_chan *c)
{
	if (c && !c->in_read && !c->dead)
		chan_turn(c, EG_CHAN_QUEUE);
}

static void chan_on_io(void *arg, int fd, int what)
{
	struct eg_chan *c = arg;

	(void)fd;
	if (what & EG_WRITE) {
		int r;

		c->in_read = true; /* on_close may free the channel */
		r = queue_run(c);

		if (!r)
			eg_io_set(c->io, EG_READ);
		else if (r != -EAGAIN)
			chan_fail(c, strerror(-r));
	}
	chan_turn(c, CHAN_TURN);
}

int eg_chan_new(struct eg_chan **ret, struct eg_loop *loop, int fd,
		const struct eg_chan_ops *ops, void *arg)
{
	struct eg_chan *c = calloc(1, sizeof(*c));

	if (!c)
		return -ENOMEM;
	c->loop = loop;
	c->ops = ops;
	c->arg = arg;
	c->fd = fd;
	c->tail = &c->head;
	c->io = eg_io_new(loop, fd, EG_READ, chan_on_io, c);
	if (!c->io) {
		free(c);
		return -ENOMEM;
	}
	*ret = c;
	return 0;
}
