// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: sending a transaction, and what the kernel says to it (batch.h)
 *
 * Kernel contract (net/netfilter/nfnetlink.c): every failing message gets an
 * NLMSG_ERROR of its sequence number and the whole batch is aborted;
 * acknowledgements are delivered after commit or abort. A failing commit is
 * reported under the sequence number of the begin message. A datagram larger
 * than the send buffer is refused with EMSGSIZE.
 */
#include "rules/nl.h"

#include "netpool/base/fault.h"
#include "netpool/base/util.h"

#include <netinet/in.h> /* before linux/netfilter.h */

#include <arpa/inet.h>
#include <errno.h>
#include <libmnl/libmnl.h>
#include <stdio.h> /* libnftnl needs FILE */

#include <libnftnl/common.h>
#include <libnftnl/udata.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <string.h>

bool rl_attr_fits(const struct nlattr *a, const void *tail)
{
	return mnl_attr_ok(a, (int)((const char *)tail - (const char *)a));
}

/* ---- what was being added ------------------------------------------------ */

/* Which kernel option an expression or set type comes from. */
static const struct {
	const char *expr, *option;
} options[] = {
	{"tproxy", "CONFIG_NFT_TPROXY"},
	{"notrack", "CONFIG_NFT_CT"},
	{"ct", "CONFIG_NFT_CT"},
	{"fib", "CONFIG_NFT_FIB_IPV4 and CONFIG_NFT_FIB_INET"},
	{"log", "CONFIG_NFT_LOG and CONFIG_NETFILTER_NETLINK_LOG"},
	{"limit", "CONFIG_NFT_LIMIT"},
	{"connlimit", "CONFIG_NFT_CONNLIMIT"},
	{"reject", "CONFIG_NFT_REJECT and CONFIG_NFT_REJECT_INET"},
	{"nat", "CONFIG_NFT_NAT"},
	{"masq", "CONFIG_NFT_MASQ"},
	{"objref", "CONFIG_NF_TABLES"},
};

static const char *msg_name(uint16_t type)
{
	switch (type & 0xff) {
	case NFT_MSG_NEWTABLE:
		return "table";
	case NFT_MSG_DELTABLE:
		return "removal of table";
	case NFT_MSG_NEWSET:
		return "set";
	case NFT_MSG_NEWCHAIN:
		return "chain";
	case NFT_MSG_NEWRULE:
		return "a rule of chain";
	case NFT_MSG_NEWSETELEM:
		return "elements of set";
	case NFT_MSG_DELSETELEM:
		return "removal of elements of set";
	case NFT_MSG_NEWOBJ:
		return "counter";
	default:
		return "message";
	}
}

/* The name of the object in a message: the second attribute but for tables
 * (NFTA_*_TABLE is 1 and the name 2, or 3 for a chain, after its handle). */
static const char *msg_object(const struct nlmsghdr *nlh)
{
	uint16_t want = 2, type = nlh->nlmsg_type & 0xff;
	const struct nlattr *a;

	if (type == NFT_MSG_NEWTABLE || type == NFT_MSG_DELTABLE)
		want = NFTA_TABLE_NAME;
	else if (type == NFT_MSG_NEWCHAIN)
		want = NFTA_CHAIN_NAME;
	each_attr(a, nlh,
		  sizeof(struct nfgenmsg)) if (mnl_attr_get_type(a) ==
					       want) return mnl_attr_get_str(a);
	return "";
}

static const struct nlmsghdr *msg_by_seq(const struct rl_nl *nl, uint32_t seq)
{
	int left = (int)nl->len;
	const struct nlmsghdr *nlh = (const struct nlmsghdr *)nl->buf;

	for (; mnl_nlmsg_ok(nlh, left); nlh = mnl_nlmsg_next(nlh, &left))
		if (nlh->nlmsg_seq == seq)
			return nlh;
	return NULL;
}

/* The kernel points at the nested attribute it could not take; for a rule
 * that is one expression, whose name tells the missing option. */
static const char *bad_expr(const struct nlmsghdr *nlh, uint32_t offset)
{
	const struct nlattr *a, *in;

	if (offset < sizeof(*nlh) || offset + sizeof(*a) > nlh->nlmsg_len)
		return NULL;
	a = (const struct nlattr *)((const uint8_t *)nlh + offset);
	if (!mnl_attr_ok(a, (int)(nlh->nlmsg_len - offset)) ||
	    !(a->nla_type & NLA_F_NESTED))
		return NULL;
	each_nested(in, a) if (mnl_attr_get_type(in) ==
			       NFTA_EXPR_NAME) return mnl_attr_get_str(in);
	return NULL;
}

static const char *option_of(const char *expr)
{
	for (size_t i = 0; expr && i < EG_ARRAY_SIZE(options); i++)
		if (!strcmp(options[i].expr, expr))
			return options[i].option;
	return NULL;
}

/* Attributes of an error follow the (capped) header it quotes. */
static void ext_ack(const struct nlmsghdr *nlh, const char **text,
		    uint32_t *offset)
{
	const struct nlmsgerr *e = mnl_nlmsg_get_payload(nlh);
	size_t skip = sizeof(*e);
	const struct nlattr *a;

	if (!(nlh->nlmsg_flags & NLM_F_ACK_TLVS))
		return;
	if (!(nlh->nlmsg_flags & NLM_F_CAPPED))
		skip += mnl_nlmsg_get_payload_len(&e->msg);
	each_attr(a, nlh, skip)
	{
		if (mnl_attr_get_type(a) == NLMSGERR_ATTR_MSG &&
		    !mnl_attr_validate(a, MNL_TYPE_NUL_STRING))
			*text = mnl_attr_get_str(a);
		else if (mnl_attr_get_type(a) == NLMSGERR_ATTR_OFFS &&
			 !mnl_attr_validate(a, MNL_TYPE_U32))
			*offset = mnl_attr_get_u32(a);
	}
}

static int explain(const struct rl_nl *nl, const struct nlmsghdr *reply,
		   const char *what, struct eg_err *err)
{
	const struct nlmsgerr *e = mnl_nlmsg_get_payload(reply);
	const struct nlmsghdr *m = msg_by_seq(nl, reply->nlmsg_seq);
	const char *text = NULL, *expr = NULL, *option;
	uint32_t offset = 0;

	ext_ack(reply, &text, &offset);
	if (m && (m->nlmsg_type & 0xff) == NFT_MSG_NEWRULE)
		expr = bad_expr(m, offset);
	option = option_of(expr);
	if (e->error == -EPERM)
		return eg_err_set(
			err, e->error,
			"%s: not permitted to change nftables (CAP_NET_ADMIN in the namespace is needed)",
			what);
	if (option && (e->error == -ENOENT || e->error == -EOPNOTSUPP))
		return eg_err_set(
			err, e->error,
			"%s: the kernel cannot do '%s' in nftables (%s needed)",
			what, expr, option);
	if (!m || (m->nlmsg_type >> 8) != NFNL_SUBSYS_NFTABLES)
		return eg_err_sys(err, e->error, "%s: kernel refused", what);
	if (e->error == -ENFILE) /* whose own text misleads */
		return eg_err_set(err, e->error, "%s: set '%s' is full", what,
				  msg_object(m));
	return eg_err_sys(err, e->error, "%s: kernel refused %s '%s'%s%s%s%s",
			  what, msg_name(m->nlmsg_type), msg_object(m),
			  expr ? " at expression " : "", expr ? expr : "",
			  text ? ": " : "", text ? text : "");
}

/* ---- sending ------------------------------------------------------------- */

int rl_send(struct rl_nl *nl, const char *what, struct eg_err *err)
{
	ssize_t n;

	if (nl->len > nl->sndbuf) {
		/* the kernel doubles the value it is given */
		(void)rl_buffer(nl->fd, SO_SNDBUFFORCE, SO_SNDBUF,
				(int)nl->len + 4096);
		nl->sndbuf = rl_send_room(nl->fd);
		if (nl->len > nl->sndbuf)
			return eg_err_set(
				err, -EMSGSIZE,
				"%s: a batch of %zu octets is larger than the socket's send buffer (%zu); raise net.core.wmem_max",
				what, nl->len, nl->sndbuf);
	}
	do
		n = send(nl->fd, nl->buf, nl->len, 0);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return eg_err_sys(err, -errno, "%s: cannot send to nf_tables",
				  what);
	return 0;
}

/* One datagram of answers; 0 when there is none left. */
ssize_t rl_receive(struct rl_nl *nl)
{
	ssize_t n;

	do
		n = recv(nl->fd, nl->rbuf, RL_RBUF, MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == EAGAIN ? 0 : -errno;
	return n;
}

/* Walk one datagram; true when the last message's answer was in it. */
static bool acks(struct rl_nl *nl, ssize_t n, const char *what, int *rc,
		 struct eg_err *err)
{
	const struct nlmsghdr *nlh = (const struct nlmsghdr *)nl->rbuf;
	int left = (int)n;
	bool done = false;

	for (; mnl_nlmsg_ok(nlh, left); nlh = mnl_nlmsg_next(nlh, &left)) {
		const struct nlmsgerr *e = mnl_nlmsg_get_payload(nlh);

		/* answers to something earlier are stale */
		if (nlh->nlmsg_type != NLMSG_ERROR ||
		    nlh->nlmsg_seq - nl->first > nl->seq - nl->first ||
		    mnl_nlmsg_get_payload_len(nlh) < sizeof(*e))
			continue;
		if (e->error && !*rc)
			*rc = explain(nl, nlh, what, err);
		/* the end message, one further, never answers */
		if (nlh->nlmsg_seq == nl->seq - 1)
			done = true;
	}
	return done;
}

static int collect(struct rl_nl *nl, const char *what, struct eg_err *err)
{
	bool done = false, lost = false;
	int rc = 0;

	while (!done) {
		ssize_t n = rl_receive(nl);

		if (!n)
			break;
		if (n == -ENOBUFS) {
			lost = true; /* so many errors: failed in any case */
			continue;
		}
		if (n < 0)
			return eg_err_sys(err, (int)n,
					  "%s: cannot read the kernel's answer",
					  what);
		done = acks(nl, n, what, &rc, err);
	}
	if (rc)
		return rc;
	if (lost)
		return eg_err_set(err, -ENOBUFS,
				  "%s: the kernel's answer was lost", what);
	if (!done)
		return eg_err_set(err, -EPROTO,
				  "%s: the kernel did not acknowledge the batch",
				  what);
	return 0;
}

int rl_commit(struct rl_nl *nl, const char *what, struct eg_err *err)
{
	struct nlmsghdr *last;
	int rc;

	rl_close_list(nl);
	if (!rl_room(nl, RL_ROOM) || nl->error)
		return eg_err_set(err, nl->error,
				  nl->error == -ENOMEM
					  ? "%s: out of memory"
					  : "%s: cannot be put into one batch",
				  what);
	if (!nl->last_msg) /* nothing but the begin message */
		return 0;
	last = (struct nlmsghdr *)(nl->buf + nl->last_msg);
	last->nlmsg_flags |= NLM_F_ACK;
	nftnl_batch_end((char *)nl->buf + nl->len, ++nl->seq);
	nl->len += ((struct nlmsghdr *)(nl->buf + nl->len))->nlmsg_len;
	rc = EG_STEP(what);
	if (rc)
		return eg_err_sys(err, rc, "%s", what);
	rc = rl_send(nl, what, err);
	if (!rc)
		rc = EG_STEP("an answer of nf_tables");
	if (!rc)
		rc = collect(nl, what, err);
	rl_batch_shrink(nl);
	return rc;
}
