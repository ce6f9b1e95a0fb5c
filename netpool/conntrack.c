// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: deleting connection tracking entries (see conntrack.h)
 *
 * IPCTNL_MSG_CT_DELETE with CTA_FILTER deletes by parts of a tuple; kernels
 * since 5.8 know it. Without CTA_FILTER the same message would mean "the one
 * entry of this tuple", so a kernel that ignored the filter would answer
 * with an error rather than delete too much.
 */
#include "netpool/conntrack.h"
#include "netpool/base/fault.h"
#include "netpool/base/util.h"

#include <arpa/inet.h>
#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#define CT_MSG 512
#define CT_BUF 32768
#define CT_BATCH 1024 /* entries remembered between two dumps */
#define CT_ROUNDS 4096

/*
 * Bits of CTA_FILTER_ORIG_FLAGS, from the kernel's nf_internals.h; the uapi
 * header names the attribute but not its bits.
 */
#define CT_FILTER_IP_SRC (1U << 0)

/* What deletions cost here, in nanoseconds; only their ratios matter. */
#define CT_WALK_NS 700000U /* through an empty hash of 262,144 buckets */
#define CT_SKIP_NS 30U	   /* an entry the kernel's filter passes over */
#define CT_DUMP_NS 1000U   /* an entry that is sent to us */

struct tuple {
	uint32_t id;	  /* network order, as it came */
	uint16_t len;	  /* of the attribute's payload */
	uint8_t data[96]; /* payload of CTA_TUPLE_ORIG */
};

struct np_ct {
	struct mnl_socket *sk;
	uint32_t seq;
	_Alignas(struct nlmsghdr) char buf[CT_BUF];
	struct eg_prefix want; /* sources in it, and if not NULL in ... */
	const uint32_t *source;
	size_t nsource;
	uint32_t count; /* answer of counted() */
	size_t n;
	bool more;
	struct tuple tuple[CT_BATCH];
};

int np_ct_open(struct np_ct **ret, struct eg_err *err)
{
	struct np_ct *ct = malloc(sizeof(*ct));
	int r;

	if (!ct)
		return eg_err_set(err, -ENOMEM, "out of memory");
	ct->seq = (uint32_t)time(NULL);
	ct->sk = mnl_socket_open2(NETLINK_NETFILTER, SOCK_CLOEXEC);
	if (!ct->sk || mnl_socket_bind(ct->sk, 0, MNL_SOCKET_AUTOPID) < 0) {
		r = eg_err_sys(err, -errno, "cannot open a conntrack socket");
		np_ct_close(ct);
		return r;
	}
	/* 0.0.0.0 originates nothing. */
	r = np_ct_delete(ct, 0, err);
	if (r) {
		np_ct_close(ct);
		return r;
	}
	*ret = ct;
	return 0;
}

void np_ct_close(struct np_ct *ct)
{
	if (!ct)
		return;
	if (ct->sk)
		(void)mnl_socket_close(ct->sk);
	free(ct);
}

static struct nlmsghdr *start(struct np_ct *ct, void *buf, uint16_t type,
			      uint16_t flags)
{
	struct nlmsghdr *h = mnl_nlmsg_put_header(buf);
	struct nfgenmsg *g;

	h->nlmsg_type = (uint16_t)(NFNL_SUBSYS_CTNETLINK << 8 | type);
	h->nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags);
	h->nlmsg_seq = ++ct->seq;
	g = mnl_nlmsg_put_extra_header(h, sizeof(*g));
	g->nfgen_family = AF_INET;
	g->version = NFNETLINK_V0;
	return h;
}

static int talk(struct np_ct *ct, const struct nlmsghdr *h, mnl_cb_t cb)
{
	unsigned int port = mnl_socket_get_portid(ct->sk);
	ssize_t n;
	int r;

	if (mnl_socket_sendto(ct->sk, h, h->nlmsg_len) < 0)
		return -errno;
	do {
		n = mnl_socket_recvfrom(ct->sk, ct->buf, sizeof(ct->buf));
		if (n < 0 && errno == EINTR) {
			r = MNL_CB_OK;
			continue;
		}
		if (n < 0)
			return -errno;
		r = mnl_cb_run(ct->buf, (size_t)n, ct->seq, port, cb, ct);
	} while (r > MNL_CB_STOP);
	return r < 0 ? -errno : 0;
}

int np_ct_delete(struct np_ct *ct, uint32_t source, struct eg_err *err)
{
	_Alignas(struct nlmsghdr) char buf[CT_MSG] = {0};
	struct nlmsghdr *h = start(ct, buf, IPCTNL_MSG_CT_DELETE, NLM_F_ACK);
	struct nlattr *tuple, *ip, *filter;
	char text[EG_ADDR_TEXT];
	int r;

	tuple = mnl_attr_nest_start(h, CTA_TUPLE_ORIG);
	ip = mnl_attr_nest_start(h, CTA_TUPLE_IP);
	mnl_attr_put_u32(h, CTA_IP_V4_SRC, htonl(source));
	mnl_attr_nest_end(h, ip);
	mnl_attr_nest_end(h, tuple);
	filter = mnl_attr_nest_start(h, CTA_FILTER);
	mnl_attr_put_u32(h, CTA_FILTER_ORIG_FLAGS, CT_FILTER_IP_SRC);
	mnl_attr_nest_end(h, filter);
	r = EG_STEP("delete flows");
	if (!r)
		r = talk(ct, h, NULL);
	/* ENOENT: nothing matched, where a kernel says so. */
	if (r && r != -ENOENT)
		return eg_err_sys(err, r, "cannot delete conntrack entries of %s",
				  eg_addr_format(source, text));
	return 0;
}

/* Callbacks of the attribute walks: attributes by number, up to MAX. */
#define CT_ATTRS (CTA_MAX + 1)

static int by_type(const struct nlattr *a, void *arg)
{
	const struct nlattr **tb = arg;

	if (mnl_attr_get_type(a) < CT_ATTRS)
		tb[mnl_attr_get_type(a)] = a;
	return MNL_CB_OK;
}

/* Original source of an entry; false when it has none. */
static bool source_of(const struct nlattr *tuple, uint32_t *ret)
{
	const struct nlattr *t[CT_ATTRS] = {0}, *ip[CT_ATTRS] = {0};
	const struct nlattr *src;

	(void)mnl_attr_parse_nested(tuple, by_type, t);
	if (!t[CTA_TUPLE_IP])
		return false;
	(void)mnl_attr_parse_nested(t[CTA_TUPLE_IP], by_type, ip);
	src = ip[CTA_IP_V4_SRC];
	if (!src || mnl_attr_get_payload_len(src) != sizeof(uint32_t))
		return false;
	*ret = ntohl(mnl_attr_get_u32(src));
	return true;
}

static bool wanted(const struct np_ct *ct, uint32_t src)
{
	if (!ct->source)
		return eg_prefix_has(ct->want, src);
	for (size_t i = 0; i < ct->nsource; i++)
		if (ct->source[i] == src)
			return true;
	return false;
}

static int on_entry(const struct nlmsghdr *h, void *arg)
{
	struct np_ct *ct = arg;
	const struct nlattr *tb[CT_ATTRS] = {0}, *orig, *id;
	struct tuple *t;
	uint32_t src;

	(void)mnl_attr_parse(h, sizeof(struct nfgenmsg), by_type, tb);
	orig = tb[CTA_TUPLE_ORIG];
	id = tb[CTA_ID];
	if (!orig || !id || !source_of(orig, &src) ||
	    !wanted(ct, src) ||
	    mnl_attr_get_payload_len(orig) > sizeof(t->data))
		return MNL_CB_OK;
	if (ct->n == CT_BATCH) {
		ct->more = true;
		return MNL_CB_OK;
	}
	t = &ct->tuple[ct->n++];
	t->id = mnl_attr_get_u32(id);
	t->len = mnl_attr_get_payload_len(orig);
	memcpy(t->data, mnl_attr_get_payload(orig), t->len);
	return MNL_CB_OK;
}

static int delete_one(struct np_ct *ct, const struct tuple *t)
{
	_Alignas(struct nlmsghdr) char buf[CT_MSG] = {0};
	struct nlmsghdr *h = start(ct, buf, IPCTNL_MSG_CT_DELETE, NLM_F_ACK);
	int r;

	mnl_attr_put(h, CTA_TUPLE_ORIG | NLA_F_NESTED, t->len, t->data);
	mnl_attr_put_u32(h, CTA_ID, t->id);
	r = EG_STEP("delete a flow");
	if (!r)
		r = talk(ct, h, NULL);
	return r == -ENOENT ? 0 : r; /* it has ended meanwhile */
}

/* Dump and delete what is wanted, until nothing of it is left. */
static int delete_dumped(struct np_ct *ct, size_t *ret_n, struct eg_err *err)
{
	_Alignas(struct nlmsghdr) char buf[CT_MSG];
	size_t total = 0;
	int r = 0;

	for (int i = 0; i < CT_ROUNDS; i++) {
		memset(buf, 0, sizeof(buf));
		ct->n = 0;
		ct->more = false;
		r = talk(ct, start(ct, buf, IPCTNL_MSG_CT_GET, NLM_F_DUMP),
			 on_entry);
		/* An interrupted dump is no error here: what it showed is
		 * deleted, and it is read again. */
		if (r == -EINTR) {
			r = 0;
			ct->more = true;
		}
		for (size_t k = 0; k < ct->n && !r; k++)
			r = delete_one(ct, &ct->tuple[k]);
		total += ct->n;
		if (r || !ct->more)
			break;
	}
	if (r)
		return eg_err_sys(err, r, "cannot delete conntrack entries");
	if (ret_n)
		*ret_n = total;
	return 0;
}

int np_ct_delete_range(struct np_ct *ct, struct eg_prefix sources,
		       size_t *ret_n, struct eg_err *err)
{
	ct->want = sources;
	ct->source = NULL;
	return delete_dumped(ct, ret_n, err);
}

static int on_stats(const struct nlmsghdr *h, void *arg)
{
	struct np_ct *ct = arg;
	const struct nlattr *tb[CT_ATTRS] = {0}, *n;

	(void)mnl_attr_parse(h, sizeof(struct nfgenmsg), by_type, tb);
	n = tb[CTA_STATS_GLOBAL_ENTRIES];
	if (n && mnl_attr_get_payload_len(n) == sizeof(uint32_t))
		ct->count = ntohl(mnl_attr_get_u32(n));
	return MNL_CB_STOP;
}

/* Entries of the namespace, those under way included. */
static int counted(struct np_ct *ct, struct eg_err *err)
{
	_Alignas(struct nlmsghdr) char buf[CT_MSG] = {0};
	int r;

	ct->count = UINT32_MAX; /* unless it is told */
	r = talk(ct, start(ct, buf, IPCTNL_MSG_CT_GET_STATS, 0), on_stats);
	return r ? eg_err_sys(err, r, "cannot count conntrack entries") : 0;
}

int np_ct_delete_many(struct np_ct *ct, const uint32_t *source, size_t n,
		      struct eg_err *err)
{
	int r = counted(ct, err);

	if (r || !ct->count)
		return r;
	if (n * (CT_WALK_NS + (uint64_t)CT_SKIP_NS * ct->count) >
	    CT_WALK_NS + (uint64_t)CT_DUMP_NS * ct->count) {
		ct->source = source;
		ct->nsource = n;
		r = delete_dumped(ct, NULL, err);
		ct->source = NULL;
		return r;
	}
	for (size_t i = 0; i < n && !r; i++)
		r = np_ct_delete(ct, source[i], err);
	return r;
}
