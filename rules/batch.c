// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: nfnetlink transactions (see batch.h)
 *
 * The only file that sees nf_tables message headers.
 */
#include "rules/batch.h"
#include "netpool/base/util.h"

#include <errno.h>
#include <libmnl/libmnl.h>
#include <libnftnl/chain.h>
#include <libnftnl/common.h>
#include <libnftnl/object.h>
#include <libnftnl/rule.h>
#include <libnftnl/set.h>
#include <libnftnl/table.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define MSG_ROOM 65536	     /* no single message is larger: 16-bit lengths */
#define BATCH_MAX (16U << 20) /* a whole gateway is about 1 MiB */
#define RCVBUF (1 << 20)
#define READ_TURNS 4096 /* acknowledgements read for one batch, at most */

struct rl_nft {
	int fd;
	uint32_t seq;
	uint64_t batches;
	size_t sndbuf;
};

struct label {
	uint32_t seq;
	const char *what;
};

struct rl_batch {
	struct rl_nft *n;
	char *buf;
	size_t len, cap;
	struct label *label;
	size_t nlabels, label_cap;
	struct nlmsghdr *last; /* offset kept as a pointer only until growth */
	size_t last_off;
	int spoilt;
};

int rl_nft_open(struct rl_nft **ret, int fd, struct eg_err *err)
{
	struct rl_nft *n = calloc(1, sizeof(*n));
	int one = 1, size = RCVBUF;

	if (!n) {
		eg_close_p(&fd);
		return eg_err_set(err, -ENOMEM, "out of memory");
	}
	n->fd = fd;
	/* Words of the kernel beside its number; older ones have fewer. */
	(void)setsockopt(fd, SOL_NETLINK, NETLINK_EXT_ACK, &one, sizeof(one));
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)))
		(void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size,
				 sizeof(size));
	*ret = n;
	return 0;
}

void rl_nft_detach(struct rl_nft *n)
{
	free(n);
}

void rl_nft_close(struct rl_nft *n)
{
	if (!n)
		return;
	eg_close_p(&n->fd);
	free(n);
}

uint64_t rl_nft_batches(const struct rl_nft *n)
{
	return n->batches;
}

/* ---- building ------------------------------------------------------------------ */

void rl_batch_spoil(struct rl_batch *b, int error)
{
	if (!b->spoilt)
		b->spoilt = error;
}

/* Room for one more message; NULL spoils. */
static char *batch_room(struct rl_batch *b)
{
	size_t cap = b->cap ? b->cap : (size_t)2 * MSG_ROOM;
	char *p;

	while (cap < b->len + 2 * (size_t)MSG_ROOM)
		cap *= 2;
	if (cap > BATCH_MAX) {
		rl_batch_spoil(b, -E2BIG);
		return NULL;
	}
	if (cap != b->cap) {
		p = realloc(b->buf, cap);
		if (!p) {
			rl_batch_spoil(b, -ENOMEM);
			return NULL;
		}
		b->buf = p;
		b->cap = cap;
	}
	return b->buf + b->len;
}

static void batch_mark(struct rl_batch *b, int begin)
{
	char *at = batch_room(b);
	struct nlmsghdr *h;

	if (!at)
		return;
	h = begin ? nftnl_batch_begin(at, ++b->n->seq)
		  : nftnl_batch_end(at, ++b->n->seq);
	b->len += NLMSG_ALIGN(h->nlmsg_len);
}

struct rl_batch *rl_batch_new(struct rl_nft *n)
{
	struct rl_batch *b = calloc(1, sizeof(*b));

	if (!b)
		return NULL;
	b->n = n;
	batch_mark(b, 1);
	return b;
}

void rl_batch_free(struct rl_batch *b)
{
	if (!b)
		return;
	free(b->buf);
	free(b->label);
	free(b);
}

/* Begin a message; NULL when the batch is spoilt. */
static struct nlmsghdr *msg_begin(struct rl_batch *b, uint16_t type,
				  uint16_t family, uint16_t flags,
				  const char *what)
{
	char *at = b->spoilt ? NULL : batch_room(b);

	if (!at)
		return NULL;
	if (b->nlabels == b->label_cap) {
		size_t cap = b->label_cap ? 2 * b->label_cap : 16;
		struct label *l = realloc(b->label, cap * sizeof(*l));

		if (!l) {
			rl_batch_spoil(b, -ENOMEM);
			return NULL;
		}
		b->label = l;
		b->label_cap = cap;
	}
	b->label[b->nlabels++] = (struct label){ ++b->n->seq, what };
	return nftnl_nlmsg_build_hdr(at, type, family, flags, b->n->seq);
}

static void msg_end(struct rl_batch *b, struct nlmsghdr *h)
{
	/*
	 * libnftnl puts attributes without a bound; the room behind every
	 * message is one whole message, and a longer one spoils the batch.
	 */
	if (h->nlmsg_len > MSG_ROOM) {
		rl_batch_spoil(b, -EMSGSIZE);
		return;
	}
	b->last_off = b->len;
	b->len += NLMSG_ALIGN(h->nlmsg_len);
}

static void table_msg(struct rl_batch *b, uint16_t type, uint16_t flags,
		      uint16_t family, const char *table, const char *what)
{
	struct nftnl_table *t = nftnl_table_alloc();
	struct nlmsghdr *h;

	if (!t || nftnl_table_set_str(t, NFTNL_TABLE_NAME, table)) {
		rl_batch_spoil(b, -ENOMEM);
	} else {
		h = msg_begin(b, type, family, flags, what);
		if (h) {
			nftnl_table_nlmsg_build_payload(h, t);
			msg_end(b, h);
		}
	}
	if (t)
		nftnl_table_free(t);
}

void rl_batch_table(struct rl_batch *b, uint16_t family, const char *table,
		    const char *what)
{
	table_msg(b, NFT_MSG_NEWTABLE, NLM_F_CREATE, family, table, what);
}

void rl_batch_del_table(struct rl_batch *b, uint16_t family, const char *table,
			const char *what)
{
	table_msg(b, NFT_MSG_DELTABLE, 0, family, table, what);
}

void rl_batch_chain(struct rl_batch *b, uint16_t family, struct nftnl_chain *c,
		    const char *what)
{
	struct nlmsghdr *h;

	if (!c) {
		rl_batch_spoil(b, -ENOMEM);
		return;
	}
	h = msg_begin(b, NFT_MSG_NEWCHAIN, family, NLM_F_CREATE, what);
	if (h) {
		nftnl_chain_nlmsg_build_payload(h, c);
		msg_end(b, h);
	}
	nftnl_chain_free(c);
}

void rl_batch_rule(struct rl_batch *b, uint16_t family, struct nftnl_rule *r,
		   const char *what)
{
	struct nlmsghdr *h;

	if (!r) {
		rl_batch_spoil(b, -ENOMEM);
		return;
	}
	h = msg_begin(b, NFT_MSG_NEWRULE, family, NLM_F_CREATE | NLM_F_APPEND,
		      what);
	if (h) {
		nftnl_rule_nlmsg_build_payload(h, r);
		msg_end(b, h);
	}
	nftnl_rule_free(r);
}

void rl_batch_set(struct rl_batch *b, uint16_t family, struct nftnl_set *s,
		  const char *what)
{
	struct nlmsghdr *h;

	if (!s) {
		rl_batch_spoil(b, -ENOMEM);
		return;
	}
	h = msg_begin(b, NFT_MSG_NEWSET, family, NLM_F_CREATE, what);
	if (h) {
		nftnl_set_nlmsg_build_payload(h, s);
		msg_end(b, h);
	}
	nftnl_set_free(s);
}

/*
 * An element list is one nested attribute of at most 64 KiB: the iterator
 * fills a message, the next one goes on where it stopped.
 */
static void elems_msg(struct rl_batch *b, uint16_t type, uint16_t flags,
		      uint16_t family, struct nftnl_set *s, const char *what)
{
	struct nftnl_set_elems_iter *it;
	struct nlmsghdr *h;
	int more = 1;

	it = s ? nftnl_set_elems_iter_create(s) : NULL;
	if (!it)
		rl_batch_spoil(b, -ENOMEM);
	while (it && more && !b->spoilt) {
		h = msg_begin(b, type, family, flags, what);
		if (!h)
			break;
		more = nftnl_set_elems_nlmsg_build_payload_iter(h, it) > 0;
		msg_end(b, h);
	}
	if (it)
		nftnl_set_elems_iter_destroy(it);
	if (s)
		nftnl_set_free(s);
}

void rl_batch_elems(struct rl_batch *b, uint16_t family, struct nftnl_set *s,
		    const char *what)
{
	elems_msg(b, NFT_MSG_NEWSETELEM, NLM_F_CREATE, family, s, what);
}

void rl_batch_del_elems(struct rl_batch *b, uint16_t family,
			struct nftnl_set *s, const char *what)
{
	elems_msg(b, NFT_MSG_DELSETELEM, 0, family, s, what);
}

void rl_batch_flush(struct rl_batch *b, uint16_t family, const char *table,
		    const char *set, const char *what)
{
	struct nftnl_set *s = nftnl_set_alloc();
	struct nlmsghdr *h;

	if (!s || nftnl_set_set_str(s, NFTNL_SET_TABLE, table) ||
	    nftnl_set_set_str(s, NFTNL_SET_NAME, set)) {
		rl_batch_spoil(b, -ENOMEM);
	} else {
		/* DELSETELEM without elements takes all of them. */
		h = msg_begin(b, NFT_MSG_DELSETELEM, family, 0, what);
		if (h) {
			nftnl_set_elems_nlmsg_build_payload(h, s);
			msg_end(b, h);
		}
	}
	if (s)
		nftnl_set_free(s);
}

void rl_batch_obj(struct rl_batch *b, uint16_t family, struct nftnl_obj *o,
		  const char *what)
{
	struct nlmsghdr *h;

	if (!o) {
		rl_batch_spoil(b, -ENOMEM);
		return;
	}
	h = msg_begin(b, NFT_MSG_NEWOBJ, family, NLM_F_CREATE, what);
	if (h) {
		nftnl_obj_nlmsg_build_payload(h, o);
		msg_end(b, h);
	}
	nftnl_obj_free(o);
}

/* ---- sending ---------------------------------------------------------------------- */

/* The kernel copies a batch into one buffer: it must fit the send buffer. */
static int sndbuf_fit(struct rl_nft *n, size_t len)
{
	int size = (int)(len + 4096) * 2;

	if (len + 4096 <= n->sndbuf)
		return 0;
	if (setsockopt(n->fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size)))
		return -errno;
	n->sndbuf = len + 4096;
	return 0;
}

static int send_all(struct rl_nft *n, const void *buf, size_t len)
{
	struct sockaddr_nl sa = { .nl_family = AF_NETLINK };
	int r = sndbuf_fit(n, len);
	ssize_t k;

	if (r)
		return r;
	do {
		k = sendto(n->fd, buf, len, 0, (struct sockaddr *)&sa,
			   sizeof(sa));
	} while (k < 0 && errno == EINTR);
	if (k < 0)
		return -errno;
	return (size_t)k == len ? 0 : -EIO;
}

/* The kernel's words in an error, NULL when it had none. */
static const char *ext_ack_text(const struct nlmsghdr *h)
{
	const struct nlmsgerr *e = mnl_nlmsg_get_payload(h);
	size_t len = mnl_nlmsg_get_payload_len(h), off = sizeof(*e);
	const char *base = (const char *)e;
	const struct nlattr *a;

	if (!(h->nlmsg_flags & NLM_F_ACK_TLVS))
		return NULL;
	if (!(h->nlmsg_flags & NLM_F_CAPPED))
		off += e->msg.nlmsg_len - sizeof(e->msg);
	off = NLMSG_ALIGN(off);
	while (off + sizeof(*a) <= len) {
		a = (const struct nlattr *)(const void *)(base + off);
		if (a->nla_len < sizeof(*a) || a->nla_len > len - off)
			return NULL;
		if (mnl_attr_get_type(a) == NLMSGERR_ATTR_MSG &&
		    mnl_attr_validate(a, MNL_TYPE_NUL_STRING) >= 0)
			return mnl_attr_get_str(a);
		off += NLMSG_ALIGN(a->nla_len);
	}
	return NULL;
}

static const char *label_of(const struct rl_batch *b, uint32_t seq)
{
	for (size_t i = 0; i < b->nlabels; i++)
		if (b->label[i].seq == seq)
			return b->label[i].what;
	return "the batch";
}

struct acks {
	const struct rl_batch *b;
	int error;
	bool acked;
	struct eg_err *err;
};

static void ack_one(struct acks *a, const struct nlmsghdr *h, uint32_t last)
{
	const struct nlmsgerr *e = mnl_nlmsg_get_payload(h);
	const char *text;

	if (h->nlmsg_type != NLMSG_ERROR ||
	    mnl_nlmsg_get_payload_len(h) < sizeof(*e))
		return;
	if (!e->error) {
		if (h->nlmsg_seq == last)
			a->acked = true;
		return;
	}
	if (a->error)
		return; /* the first one is the cause */
	a->error = e->error;
	text = ext_ack_text(h);
	(void)eg_err_set(a->err, e->error, "%s: %s%s%s",
			 label_of(a->b, h->nlmsg_seq), strerror(-e->error),
			 text ? ": " : "", text ? text : "");
}

/* Everything that is queued; the answer is complete already. */
static int acks_read(struct rl_nft *n, struct acks *a, uint32_t last)
{
	static _Alignas(struct nlmsghdr) char buf[65536];

	for (int i = 0; i < READ_TURNS; i++) {
		ssize_t k = recv(n->fd, buf, sizeof(buf), MSG_DONTWAIT);
		int len = (int)k;

		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0 && errno == ENOBUFS) {
			/* Thousands of failures; what fitted says enough. */
			if (!a->error)
				a->error = -ENOBUFS;
			continue;
		}
		if (k < 0)
			return errno == EAGAIN ? 0 : -errno;
		for (struct nlmsghdr *h = (struct nlmsghdr *)buf;
		     mnl_nlmsg_ok(h, len); h = mnl_nlmsg_next(h, &len))
			ack_one(a, h, last);
	}
	return -EOVERFLOW;
}

int rl_batch_commit(struct rl_batch *b, struct eg_err *err)
{
	struct rl_nft *n;
	struct nlmsghdr *h;
	struct acks a = { .b = b, .err = err };
	uint32_t last;
	int r;

	if (!b)
		return eg_err_set(err, -ENOMEM, "out of memory for a batch");
	n = b->n;
	if (!b->spoilt && !b->nlabels) {
		rl_batch_free(b);
		return 0;
	}
	if (!b->spoilt) {
		h = (struct nlmsghdr *)(void *)(b->buf + b->last_off);
		h->nlmsg_flags |= NLM_F_ACK;
		last = h->nlmsg_seq;
		batch_mark(b, 0);
	}
	if (b->spoilt) {
		r = eg_err_sys(err, b->spoilt, "building a batch (%s)",
			       b->nlabels ? b->label[b->nlabels - 1].what : "");
		rl_batch_free(b);
		return r;
	}
	r = send_all(n, b->buf, b->len);
	if (r)
		(void)eg_err_sys(err, r, "sending a batch of %zu bytes", b->len);
	else
		r = acks_read(n, &a, last);
	if (!r)
		r = a.error;
	if (!r && !a.acked)
		r = eg_err_set(err, -EPROTO,
			       "the kernel did not acknowledge the batch");
	if (!r)
		n->batches++;
	rl_batch_free(b);
	return r;
}

/* ---- asking --------------------------------------------------------------------------- */

/* Read answers until the end of a dump, an error or silence. */
static int answers_read(struct rl_nft *n, bool dump, bool *ret_again,
			int (*cb)(const struct nlmsghdr *, void *), void *arg)
{
	static _Alignas(struct nlmsghdr) char buf[65536];
	int result = 0;

	for (int i = 0; i < READ_TURNS; i++) {
		ssize_t k = recv(n->fd, buf, sizeof(buf), MSG_DONTWAIT);
		int len = (int)k;

		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0)
			return errno == EAGAIN ? result : -errno;
		for (struct nlmsghdr *h = (struct nlmsghdr *)buf;
		     mnl_nlmsg_ok(h, len); h = mnl_nlmsg_next(h, &len)) {
			if (h->nlmsg_flags & NLM_F_DUMP_INTR)
				*ret_again = true;
			if (h->nlmsg_type == NLMSG_DONE)
				return result;
			if (h->nlmsg_type == NLMSG_ERROR) {
				const struct nlmsgerr *e =
					mnl_nlmsg_get_payload(h);

				if (e->error && dump)
					return e->error;
				if (e->error && e->error != -ENOENT && !result)
					result = e->error;
				continue;
			}
			if (!result)
				result = cb(h, arg);
		}
	}
	return -EOVERFLOW;
}

int rl_nft_ask(struct rl_nft *n, struct nlmsghdr *nlh,
	       int (*cb)(const struct nlmsghdr *nlh, void *arg),
	       void (*restart)(void *arg), void *arg, struct eg_err *err)
{
	bool again = true;
	int r = 0;

	for (int i = 0; again && i < RL_DUMP_TRIES; i++) {
		again = false;
		if (restart)
			restart(arg);
		nlh->nlmsg_seq = ++n->seq;
		r = send_all(n, nlh, nlh->nlmsg_len);
		if (!r)
			r = answers_read(n, true, &again, cb, arg);
		if (r)
			return eg_err_sys(err, r, "asking nf_tables");
	}
	if (again)
		return eg_err_set(err, -EAGAIN,
				  "the table changed during each of %d dumps",
				  RL_DUMP_TRIES);
	return 0;
}

int rl_nft_dump_set(struct rl_nft *n, uint16_t family, const char *table,
		    const char *set,
		    int (*cb)(const struct nlmsghdr *nlh, void *arg),
		    void (*restart)(void *arg), void *arg, struct eg_err *err)
{
	char buf[1024];
	struct nftnl_set *s = nftnl_set_alloc();
	struct nlmsghdr *h;
	int r;

	if (!s || nftnl_set_set_str(s, NFTNL_SET_TABLE, table) ||
	    nftnl_set_set_str(s, NFTNL_SET_NAME, set)) {
		if (s)
			nftnl_set_free(s);
		return eg_err_set(err, -ENOMEM, "out of memory");
	}
	h = nftnl_nlmsg_build_hdr(buf, NFT_MSG_GETSETELEM, family, NLM_F_DUMP,
				  0);
	nftnl_set_elems_nlmsg_build_payload(h, s);
	nftnl_set_free(s);
	r = rl_nft_ask(n, h, cb, restart, arg, err);
	return r ? eg_err_wrap(err, "set %s", set) : 0;
}

int rl_nft_get_elems(struct rl_nft *n, uint16_t family, struct nftnl_set **s,
		     size_t count,
		     int (*cb)(const struct nlmsghdr *nlh, void *arg),
		     void *arg, struct eg_err *err)
{
	EG_CLEANUP_FREE char *buf = malloc(count * 1024 + 1024);
	size_t len = 0;
	bool again = false;
	int r;

	if (!buf)
		return eg_err_set(err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < count; i++) {
		struct nlmsghdr *h =
			nftnl_nlmsg_build_hdr(buf + len, NFT_MSG_GETSETELEM,
					      family, 0, ++n->seq);

		nftnl_set_elems_nlmsg_build_payload(h, s[i]);
		len += NLMSG_ALIGN(h->nlmsg_len);
	}
	r = send_all(n, buf, len);
	if (!r)
		r = answers_read(n, false, &again, cb, arg);
	return r ? eg_err_sys(err, r, "reading elements") : 0;
}

static int counter_msg(const struct nlmsghdr *h, void *arg)
{
	struct nftnl_obj *o = nftnl_obj_alloc();

	if (!o)
		return -ENOMEM;
	if (!nftnl_obj_nlmsg_parse(h, o))
		*(uint64_t *)arg = nftnl_obj_get_u64(o, NFTNL_OBJ_CTR_PKTS);
	nftnl_obj_free(o);
	return 0;
}

int rl_nft_counter(struct rl_nft *n, uint16_t family, const char *table,
		   const char *name, uint64_t *ret, struct eg_err *err)
{
	char buf[512];
	struct nftnl_obj *o = nftnl_obj_alloc();
	struct nlmsghdr *h;
	bool again = false;
	int r;

	if (!o)
		return eg_err_set(err, -ENOMEM, "out of memory");
	nftnl_obj_set_str(o, NFTNL_OBJ_TABLE, table);
	nftnl_obj_set_str(o, NFTNL_OBJ_NAME, name);
	nftnl_obj_set_u32(o, NFTNL_OBJ_TYPE, NFT_OBJECT_COUNTER);
	h = nftnl_nlmsg_build_hdr(buf, NFT_MSG_GETOBJ, family, 0, ++n->seq);
	nftnl_obj_nlmsg_build_payload(h, o);
	nftnl_obj_free(o);
	r = send_all(n, h, h->nlmsg_len);
	if (!r)
		r = answers_read(n, false, &again, counter_msg, ret);
	return r ? eg_err_sys(err, r, "counter %s", name) : 0;
}

static int count_one(const struct nlmsghdr *h, void *arg)
{
	(void)h;
	++*(int *)arg;
	return 0;
}

int rl_nft_has_table(struct rl_nft *n, uint16_t family, const char *table,
		     struct eg_err *err)
{
	char buf[512];
	struct nftnl_table *t = nftnl_table_alloc();
	struct nlmsghdr *h;
	bool again = false;
	int r, found = 0;

	if (!t || nftnl_table_set_str(t, NFTNL_TABLE_NAME, table)) {
		if (t)
			nftnl_table_free(t);
		return eg_err_set(err, -ENOMEM, "out of memory");
	}
	h = nftnl_nlmsg_build_hdr(buf, NFT_MSG_GETTABLE, family, 0, ++n->seq);
	nftnl_table_nlmsg_build_payload(h, t);
	nftnl_table_free(t);
	r = send_all(n, h, h->nlmsg_len);
	if (!r)
		r = answers_read(n, false, &again, count_one, &found);
	return r ? eg_err_sys(err, r, "looking for table %s", table) : found;
}

int rl_nft_has_set(struct rl_nft *n, uint16_t family, const char *table,
		   const char *set, struct eg_err *err)
{
	char buf[512];
	struct nftnl_set *s = nftnl_set_alloc();
	struct nlmsghdr *h;
	bool again = false;
	int r, found = 0;

	if (!s || nftnl_set_set_str(s, NFTNL_SET_TABLE, table) ||
	    nftnl_set_set_str(s, NFTNL_SET_NAME, set)) {
		if (s)
			nftnl_set_free(s);
		return eg_err_set(err, -ENOMEM, "out of memory");
	}
	h = nftnl_nlmsg_build_hdr(buf, NFT_MSG_GETSET, family, 0, ++n->seq);
	nftnl_set_nlmsg_build_payload(h, s);
	nftnl_set_free(s);
	r = send_all(n, h, h->nlmsg_len);
	if (!r)
		r = answers_read(n, false, &again, count_one, &found);
	return r ? eg_err_sys(err, r, "looking for set %s", set) : found;
}
