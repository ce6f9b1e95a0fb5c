// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: rtnetlink transport (see rtnl.h)
 *
 * libnl gives the socket its address and builds the messages; the sending
 * of several at once and the strict matching of answers are ours: libnl's
 * receive loop stops at the first error and would leave the other
 * acknowledgements of a batch in the socket.
 */
#include "netpool/rtnl.h"
#include "netpool/base/fault.h"
#include "netpool/base/util.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>
#include <netlink/socket.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>

#define RTNL_MSG 1024	  /* the largest message built here is below 600 */
#define RTNL_BUF 32768	  /* what the kernel packs into one dump datagram */
#define RTNL_TIMEOUT_S 10 /* rtnl may be held long; an answer is never lost */
#define RTNL_DUMP_TRIES 16
#define RTNL_EVENTS_TURN 64
#define RTNL_MONITOR_BUF (1 << 20)

struct np_rtnl {
	struct nl_sock *sk;
	int fd;
	uint32_t seq, port;
	int spoilt;
	size_t n;
	struct nl_msg *msg[NP_BATCH_MAX];
	const char *what[NP_BATCH_MAX];
	int tolerate[NP_BATCH_MAX];
	_Alignas(struct nlmsghdr) char buf[RTNL_BUF];
};

static void set_options(int fd)
{
	struct timeval tv = {.tv_sec = RTNL_TIMEOUT_S};
	int on = 1;

	/* All of them are refinements an older kernel may lack. */
	(void)setsockopt(fd, SOL_NETLINK, NETLINK_EXT_ACK, &on, sizeof(on));
	(void)setsockopt(fd, SOL_NETLINK, NETLINK_CAP_ACK, &on, sizeof(on));
	(void)setsockopt(fd, SOL_NETLINK, NETLINK_GET_STRICT_CHK, &on,
			 sizeof(on));
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
}

int np_rtnl_open(struct np_rtnl **ret, struct eg_err *err)
{
	struct np_rtnl *r = malloc(sizeof(*r));
	int e;

	if (!r)
		return eg_err_set(err, -ENOMEM, "out of memory");
	memset(r, 0, offsetof(struct np_rtnl, buf));
	r->sk = nl_socket_alloc();
	if (!r->sk) {
		free(r);
		return eg_err_set(err, -ENOMEM, "out of memory");
	}
	e = nl_connect(r->sk, NETLINK_ROUTE);
	if (e < 0) {
		nl_socket_free(r->sk);
		free(r);
		return eg_err_set(err, -EIO,
				  "cannot open an rtnetlink socket: %s",
				  nl_geterror(e));
	}
	r->fd = nl_socket_get_fd(r->sk);
	r->port = nl_socket_get_local_port(r->sk);
	set_options(r->fd);
	*ret = r;
	return 0;
}

static void batch_clear(struct np_rtnl *r)
{
	for (size_t i = 0; i < r->n; i++)
		nlmsg_free(r->msg[i]);
	r->n = 0;
	r->spoilt = 0;
}

void np_rtnl_close(struct np_rtnl *r)
{
	if (!r)
		return;
	batch_clear(r);
	nl_socket_free(r->sk);
	free(r);
}

struct nl_msg *np_rtnl_add(struct np_rtnl *r, uint16_t type, uint16_t flags,
			   const void *hdr, size_t len, const char *what,
			   int tolerate)
{
	struct nl_msg *m;

	if (r->spoilt)
		return NULL;
	if (r->n == NP_BATCH_MAX) {
		r->spoilt = -E2BIG;
		return NULL;
	}
	m = nlmsg_alloc_size(RTNL_MSG);
	if (!m) {
		r->spoilt = -ENOMEM;
		return NULL;
	}
	r->msg[r->n] = m;
	r->what[r->n] = what;
	r->tolerate[r->n] = tolerate;
	r->n++;
	if (!nlmsg_put(m, r->port, 0, type, 0, flags) ||
	    nlmsg_append(m, (void *)(uintptr_t)hdr, len, NLMSG_ALIGNTO)) {
		r->spoilt = -EMSGSIZE;
		return NULL;
	}
	return m;
}

void np_rtnl_spoil(struct np_rtnl *r, int error)
{
	if (!r->spoilt)
		r->spoilt = error;
}

size_t np_rtnl_room(const struct np_rtnl *r)
{
	return NP_BATCH_MAX - r->n;
}

/* Number @n messages from @from on and send them together. */
static int batch_send(struct np_rtnl *r, size_t from, size_t n, uint16_t flags,
		      struct eg_err *err)
{
	struct sockaddr_nl to = {.nl_family = AF_NETLINK};
	struct iovec iov[NP_BATCH_MAX] = {0};
	struct msghdr mh = {.msg_name = &to,
			    .msg_namelen = sizeof(to),
			    .msg_iov = iov,
			    .msg_iovlen = n};

	for (size_t i = 0; i < n; i++) {
		struct nlmsghdr *h = nlmsg_hdr(r->msg[from + i]);

		h->nlmsg_seq = ++r->seq;
		h->nlmsg_flags =
			(uint16_t)(h->nlmsg_flags | NLM_F_REQUEST | flags);
		iov[i].iov_base = h;
		iov[i].iov_len = NLMSG_ALIGN(h->nlmsg_len);
	}
	while (sendmsg(r->fd, &mh, 0) < 0)
		if (errno != EINTR)
			return eg_err_sys(err, -errno,
					  "cannot send to rtnetlink");
	return 0;
}

/* One datagram from the kernel; its length or negative errno. */
static int receive(struct np_rtnl *r, struct eg_err *err)
{
	struct sockaddr_nl from = {0};
	struct iovec iov = {.iov_base = r->buf, .iov_len = sizeof(r->buf)};
	struct msghdr mh = {.msg_name = &from,
			    .msg_namelen = sizeof(from),
			    .msg_iov = &iov,
			    .msg_iovlen = 1};
	ssize_t n;

	do {
		n = recvmsg(r->fd, &mh, 0);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return eg_err_sys(err, errno == EAGAIN ? -ETIMEDOUT : -errno,
				  "no answer from rtnetlink");
	if (mh.msg_flags & MSG_TRUNC || from.nl_pid)
		return eg_err_set(
			err, -EBADMSG,
			"an answer of rtnetlink is not its own or too long");
	return (int)n;
}

/* The text the kernel attached to an acknowledgement, or NULL. */
static const char *ack_text(const struct nlmsghdr *h)
{
	const struct nlmsgerr *e = NLMSG_DATA(h);
	size_t skip = sizeof(*e);
	struct nlattr *a;

	if (!(h->nlmsg_flags & NLM_F_ACK_TLVS))
		return NULL;
	if (!(h->nlmsg_flags & NLM_F_CAPPED))
		skip += NLMSG_ALIGN(e->msg.nlmsg_len) - NLMSG_HDRLEN;
	if (NLMSG_HDRLEN + skip >= h->nlmsg_len)
		return NULL;
	a = nla_find((struct nlattr *)(uintptr_t)((const char *)e + skip),
		     (int)(h->nlmsg_len - NLMSG_HDRLEN - skip),
		     NLMSGERR_ATTR_MSG);
	if (!a || nla_len(a) < 1 || ((char *)nla_data(a))[nla_len(a) - 1])
		return NULL;
	return nla_data(a);
}

/* Judge one acknowledgement; the first bad one sets the sentence. */
static int ack_check(const struct nlmsghdr *h, const char *what, int tolerate,
		     struct eg_err *err)
{
	const struct nlmsgerr *e = NLMSG_DATA(h);
	const char *text;

	if (!e->error || (tolerate && e->error == tolerate))
		return 0;
	text = ack_text(h);
	if (text)
		return eg_err_set(err, e->error, "cannot %s: %s (%.200s)", what,
				  strerror(-e->error), text);
	return eg_err_sys(err, e->error, "cannot %s", what);
}

/* Walk the acknowledgements of one datagram; *got counts them. */
static int acks_walk(struct np_rtnl *r, int n, size_t *got, int *failed,
		     struct eg_err *err)
{
	for (struct nlmsghdr *h = (struct nlmsghdr *)r->buf; nlmsg_ok(h, n);
	     h = nlmsg_next(h, &n)) {
		int e;

		if (h->nlmsg_type != NLMSG_ERROR || *got >= r->n ||
		    h->nlmsg_len < NLMSG_LENGTH(sizeof(struct nlmsgerr)) ||
		    h->nlmsg_seq != nlmsg_hdr(r->msg[*got])->nlmsg_seq || h->nlmsg_pid != r->port)
			return eg_err_set(err, -EBADMSG,
					  "rtnetlink answered out of turn");
		e = ack_check(h, r->what[*got], r->tolerate[*got],
			      *failed ? NULL : err);
		if (e && !*failed)
			*failed = e;
		(*got)++;
	}
	return 0;
}

/* Send @n messages and await their answers; *got counts all there were. */
static int batch_part(struct np_rtnl *r, size_t n, size_t *got, int *failed,
		      struct eg_err *err)
{
	size_t end = *got + n;
	int e = batch_send(r, *got, n, NLM_F_ACK, err);

	while (e >= 0 && *got < end) {
		e = receive(r, err);
		if (e >= 0)
			e = acks_walk(r, e, got, failed, err);
	}
	return e;
}

int np_rtnl_commit(struct np_rtnl *r, struct eg_err *err)
{
	size_t got = 0;
	int failed = 0, n = 0;

	if (r->spoilt)
		n = eg_err_sys(err, r->spoilt, "cannot build netlink messages");
	while (n >= 0 && got < r->n) {
		/* A test that stops in between wants states one by one. */
		n = EG_STEP(r->what[got]);
		if (n)
			n = eg_err_sys(err, n, "cannot %s", r->what[got]);
		else
			n = batch_part(r, EG_ONE_BY_ONE ? 1 : r->n, &got,
				       &failed, err);
	}
	batch_clear(r);
	return n < 0 ? n : failed;
}

/* Messages of a reply; 1: complete, 0: more to come. */
static int reply_walk(struct np_rtnl *r, int n, np_rtnl_cb cb, void *arg,
		      bool *intr, struct eg_err *err)
{
	for (struct nlmsghdr *h = (struct nlmsghdr *)r->buf; nlmsg_ok(h, n);
	     h = nlmsg_next(h, &n)) {
		if (h->nlmsg_seq != r->seq || h->nlmsg_pid != r->port)
			return eg_err_set(err, -EBADMSG,
					  "rtnetlink answered out of turn");
		if (h->nlmsg_flags & NLM_F_DUMP_INTR)
			*intr = true;
		if (h->nlmsg_type == NLMSG_DONE)
			return 1;
		if (h->nlmsg_type == NLMSG_ERROR) {
			int e = ack_check(h, r->what[0], 0, err);

			return e ? e : 1;
		}
		cb(arg, h);
	}
	return 0;
}

static int reply_take(struct np_rtnl *r, np_rtnl_cb cb, void *arg, bool *intr,
		      struct eg_err *err)
{
	int n;

	do {
		n = receive(r, err);
		if (n >= 0)
			n = reply_walk(r, n, cb, arg, intr, err);
	} while (!n);
	return n < 0 ? n : 0;
}

int np_rtnl_dump(struct np_rtnl *r, uint16_t type, const void *hdr, size_t len,
		 np_rtnl_cb cb, void *arg, struct eg_err *err)
{
	for (int i = 0; i < RTNL_DUMP_TRIES; i++) {
		bool intr = false;
		int e;

		if (i)
			cb(arg, NULL);
		(void)np_rtnl_add(r, type, 0, hdr, len, "list kernel objects", 0);
		e = r->spoilt ? eg_err_sys(err, r->spoilt,
					   "cannot build a netlink message")
			      : batch_send(r, 0, 1, NLM_F_DUMP, err);
		if (!e)
			e = reply_take(r, cb, arg, &intr, err);
		batch_clear(r);
		if (e || !intr)
			return e;
	}
	return eg_err_set(err, -EAGAIN,
			  "the kernel's lists change too fast to be read");
}

int np_rtnl_get(struct np_rtnl *r, np_rtnl_cb cb, void *arg, struct eg_err *err)
{
	bool intr = false;
	int e;

	if (r->spoilt || r->n != 1)
		e = eg_err_sys(err, r->spoilt ? r->spoilt : -EINVAL,
			       "cannot build a netlink message");
	else
		e = batch_send(r, 0, 1, NLM_F_ACK, err);
	if (!e)
		e = reply_take(r, cb, arg, &intr, err);
	batch_clear(r);
	return e;
}

int np_rtnl_monitor(uint32_t groups, struct eg_err *err)
{
	struct sockaddr_nl sa = {.nl_family = AF_NETLINK, .nl_groups = groups};
	EG_CLEANUP_FD int fd = -1;
	int size = RTNL_MONITOR_BUF;

	fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK,
		    NETLINK_ROUTE);
	if (fd < 0 || bind(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0)
		return eg_err_sys(err, -errno, "cannot watch rtnetlink");
	/* A smaller buffer only means that we look for ourselves earlier. */
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size));
	return eg_steal_fd(&fd);
}

int np_rtnl_events(int fd, np_rtnl_cb cb, void *arg)
{
	_Alignas(struct nlmsghdr) static char buf[RTNL_BUF];

	for (int i = 0; i < RTNL_EVENTS_TURN; i++) {
		ssize_t n = recv(fd, buf, sizeof(buf), 0);
		int left = (int)n;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN ? 0 : -errno;
		for (struct nlmsghdr *h = (struct nlmsghdr *)buf;
		     nlmsg_ok(h, left); h = nlmsg_next(h, &left))
			cb(arg, h);
	}
	return 0;
}
