// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: reading sets, counters and the table back (batch.h)
 *
 * A dump that a commit interrupts carries NLM_F_DUMP_INTR and is worth
 * nothing: it is read to its end and begun anew. Elements are asked for one
 * message each, since a list would stop at the first that is absent.
 */
#include "rules/nl.h"

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

/* Answers to this many questions, each an skb of a page or two, fit the
 * receive buffer. */
#define GETS_AT_ONCE 32
/* A dump that races with commits is restarted this often. */
#define DUMP_TRIES 16

/* ---- reading ------------------------------------------------------------- */

static void parse_key(const struct nlattr *a, struct rl_key *k)
{
	const struct nlattr *in;

	each_nested(in, a)
	{
		uint16_t len = mnl_attr_get_payload_len(in);

		if (mnl_attr_get_type(in) != NFTA_DATA_VALUE ||
		    len > sizeof(k->b))
			continue;
		memcpy(k->b, mnl_attr_get_payload(in), len);
		k->len = (uint8_t)len;
	}
}

static uint64_t attr_be64(const struct nlattr *a)
{
	return mnl_attr_get_payload_len(a) >= sizeof(uint64_t)
		       ? be64toh(mnl_attr_get_u64(a))
		       : 0;
}

/* NFTA_EXPR_DATA of a counter. */
static void parse_counter(const struct nlattr *a, struct rl_found *f)
{
	const struct nlattr *in;

	each_nested(in, a)
	{
		if (mnl_attr_get_type(in) == NFTA_COUNTER_BYTES)
			f->bytes = attr_be64(in);
		else if (mnl_attr_get_type(in) == NFTA_COUNTER_PACKETS)
			f->packets = attr_be64(in);
	}
}

static void parse_state(const struct nlattr *a, struct rl_found *f)
{
	const struct nlattr *in, *data = NULL;
	bool counter = false;

	each_nested(in, a)
	{
		if (mnl_attr_get_type(in) == NFTA_EXPR_NAME)
			counter = !strcmp(mnl_attr_get_str(in), "counter");
		else if (mnl_attr_get_type(in) == NFTA_EXPR_DATA)
			data = in;
	}
	if (counter && data)
		parse_counter(data, f);
}

static void parse_elem(const struct nlattr *a, struct rl_found *f)
{
	const struct nlattr *in;
	struct rl_key data = {0};

	memset(f, 0, sizeof(*f));
	f->present = true;
	each_nested(in, a)
	{
		switch (mnl_attr_get_type(in)) {
		case NFTA_SET_ELEM_KEY:
			parse_key(in, &f->key);
			break;
		case NFTA_SET_ELEM_KEY_END:
			parse_key(in, &f->end);
			break;
		case NFTA_SET_ELEM_DATA:
			parse_key(in, &data);
			memcpy(&f->data, data.b, sizeof(f->data));
			break;
		case NFTA_SET_ELEM_TIMEOUT:
			f->timeout_ms = attr_be64(in);
			break;
		case NFTA_SET_ELEM_EXPIRATION:
			f->left_ms = attr_be64(in);
			break;
		case NFTA_SET_ELEM_EXPR:
			parse_state(in, f);
			break;
		default:
			break;
		}
	}
}

static const struct nlattr *elem_list(const struct nlmsghdr *nlh)
{
	const struct nlattr *a;

	if (nlh->nlmsg_type != (NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_NEWSETELEM))
		return NULL;
	each_attr(a, nlh,
		  sizeof(struct nfgenmsg)) if (mnl_attr_get_type(a) ==
					       NFTA_SET_ELEM_LIST_ELEMENTS) return a;
	return NULL;
}

static void put_ask(struct rl_nl *nl, const struct rl_ask *ask)
{
	struct nlmsghdr *nlh = rl_msg(nl, NFT_MSG_GETSETELEM, 0);
	struct nlattr *list, *el;

	if (!nlh)
		return;
	mnl_attr_put_strz(nlh, NFTA_SET_ELEM_LIST_TABLE, nl->table);
	mnl_attr_put_strz(nlh, NFTA_SET_ELEM_LIST_SET, ask->set);
	list = mnl_attr_nest_start(nlh, NFTA_SET_ELEM_LIST_ELEMENTS);
	el = mnl_attr_nest_start(nlh, NFTA_LIST_ELEM);
	rl_put_key(nlh, NFTA_SET_ELEM_KEY, &ask->key);
	mnl_attr_nest_end(nlh, el);
	mnl_attr_nest_end(nlh, list);
	rl_msg_end(nl, nlh);
}

/* One answer of a group of questions; true when it counted. */
static bool take_answer(const struct rl_nl *nl, const struct nlmsghdr *nlh,
			struct rl_found *found, size_t n, int *rc)
{
	uint32_t i = nlh->nlmsg_seq - nl->first;
	const struct nlattr *list = elem_list(nlh), *a;

	if (i >= n)
		return false;
	if (nlh->nlmsg_type == NLMSG_ERROR &&
	    mnl_nlmsg_get_payload_len(nlh) >= sizeof(struct nlmsgerr)) {
		const struct nlmsgerr *e = mnl_nlmsg_get_payload(nlh);

		if (e->error && e->error != -ENOENT)
			*rc = e->error;
		return true;
	}
	if (!list)
		return false;
	each_nested(a, list) parse_elem(a, &found[i]);
	return true;
}

static int get_group(struct rl_nl *nl, const struct rl_ask *ask,
		     struct rl_found *found, size_t n, struct eg_err *err)
{
	size_t answers = 0;
	int rc = 0;

	memset(found, 0, n * sizeof(*found));
	nl->len = 0;
	nl->error = 0;
	nl->list = 0;
	nl->first = nl->seq + 1;
	for (size_t i = 0; i < n; i++)
		put_ask(nl, &ask[i]);
	if (nl->error)
		return eg_err_set(err, nl->error, "out of memory for a query");
	rc = rl_send(nl, "reading set elements", err);
	if (rc)
		return rc;
	while (answers < n) {
		const struct nlmsghdr *nlh = (const struct nlmsghdr *)nl->rbuf;
		ssize_t got = rl_receive(nl);
		int left = (int)got;

		if (got <= 0)
			return eg_err_sys(err, got ? (int)got : -EPROTO,
					  "reading set elements of table %s",
					  nl->table);
		for (; mnl_nlmsg_ok(nlh, left); nlh = mnl_nlmsg_next(nlh, &left))
			answers += take_answer(nl, nlh, found, n, &rc);
	}
	return rc ? eg_err_sys(err, rc, "reading set elements of table %s",
			       nl->table)
		  : 0;
}

int rl_get(struct rl_nl *nl, const struct rl_ask *ask, struct rl_found *found,
	   size_t n, struct eg_err *err)
{
	int rc = 0;

	for (size_t i = 0; !rc && i < n; i += GETS_AT_ONCE) {
		size_t k = n - i < GETS_AT_ONCE ? n - i : GETS_AT_ONCE;

		rc = get_group(nl, ask + i, found + i, k, err);
	}
	return rc;
}

static int dump_put(struct rl_dump *d, const struct nlattr *a)
{
	size_t cap = d->cap ? 2 * d->cap : 64;
	struct rl_found *v;

	if (d->n == d->cap) {
		v = realloc(d->v, cap * sizeof(*v));
		if (!v)
			return -ENOMEM;
		d->v = v;
		d->cap = cap;
	}
	parse_elem(a, &d->v[d->n++]);
	return 0;
}

/* 1: all read, 0: more to come, -EINTR: start again. */
static int dump_msg(const struct rl_nl *nl, const struct nlmsghdr *nlh,
		    struct rl_dump *d)
{
	const struct nlattr *list = elem_list(nlh), *a;
	int rc = 0;

	if (nlh->nlmsg_seq != nl->seq)
		return 0;
	if (nlh->nlmsg_flags & NLM_F_DUMP_INTR)
		return -EINTR;
	if (nlh->nlmsg_type == NLMSG_DONE) {
		const int *e = mnl_nlmsg_get_payload(nlh);

		return mnl_nlmsg_get_payload_len(nlh) >= sizeof(*e) && *e < 0
			       ? *e
			       : 1;
	}
	if (nlh->nlmsg_type == NLMSG_ERROR)
		return ((const struct nlmsgerr *)mnl_nlmsg_get_payload(nlh))->error;
	if (list)
		each_nested(a, list) if (!rc) rc = dump_put(d, a);
	return rc;
}

/* A dump that was cut short has to be read to its end before the socket can
 * start another one; it is, since each recv makes the kernel go on. */
static int dump_once(struct rl_nl *nl, const char *set, struct rl_dump *d,
		     struct eg_err *err)
{
	struct nlmsghdr *nlh;
	int rc = 0, failed = 0;

	nl->len = 0;
	nl->error = 0;
	nl->list = 0;
	d->n = 0;
	nlh = rl_msg(nl, NFT_MSG_GETSETELEM, NLM_F_DUMP);
	if (!nlh)
		return eg_err_set(err, nl->error, "out of memory for a dump");
	mnl_attr_put_strz(nlh, NFTA_SET_ELEM_LIST_TABLE, nl->table);
	mnl_attr_put_strz(nlh, NFTA_SET_ELEM_LIST_SET, set);
	rl_msg_end(nl, nlh);
	rc = rl_send(nl, "listing a set", err);
	while (!rc) {
		ssize_t n = rl_receive(nl);
		int left = (int)n;

		if (n <= 0)
			return n ? (int)n : -EPROTO;
		nlh = (struct nlmsghdr *)nl->rbuf;
		for (; rc != 1 && mnl_nlmsg_ok(nlh, left);
		     nlh = mnl_nlmsg_next(nlh, &left)) {
			rc = dump_msg(nl, nlh, d);
			if (rc < 0 && nlh->nlmsg_type != NLMSG_DONE &&
			    nlh->nlmsg_type != NLMSG_ERROR) {
				failed = failed ? failed : rc;
				rc = 0; /* read on to the end */
			} else if (rc < 0) {
				return failed ? failed : rc;
			}
		}
	}
	return failed ? failed : rc < 0 ? rc : 0;
}

int rl_dump(struct rl_nl *nl, const char *set, struct rl_dump *ret,
	    struct eg_err *err)
{
	int rc = -EINTR;

	for (int i = 0; i < DUMP_TRIES && (rc == -EINTR || rc == -ENOBUFS); i++)
		rc = dump_once(nl, set, ret, err);
	if (rc) {
		ret->n = 0;
		return eg_err_sys(err, rc, "listing set %s of table %s", set,
				  nl->table);
	}
	return 0;
}

void rl_dump_free(struct rl_dump *d)
{
	free(d->v);
	*d = (struct rl_dump){0};
}

/* Ask for one object and find its answer in nl->rbuf. */
static int ask_one(struct rl_nl *nl, uint16_t reply, const char *what,
		   const struct nlmsghdr **ret, struct eg_err *err)
{
	int rc = rl_send(nl, what, err);

	while (!rc) {
		ssize_t n = rl_receive(nl);
		int left = (int)n;
		const struct nlmsghdr *nlh = (const struct nlmsghdr *)nl->rbuf;

		if (n <= 0)
			return eg_err_sys(err, n ? (int)n : -EPROTO, "%s", what);
		for (; mnl_nlmsg_ok(nlh, left); nlh = mnl_nlmsg_next(nlh, &left)) {
			if (nlh->nlmsg_seq != nl->seq)
				continue;
			if (nlh->nlmsg_type == NLMSG_ERROR)
				return eg_err_sys(
					err,
					((const struct nlmsgerr *)
						 mnl_nlmsg_get_payload(nlh))
						->error,
					"%s", what);
			if (nlh->nlmsg_type != (NFNL_SUBSYS_NFTABLES << 8 | reply))
				continue;
			*ret = nlh;
			return 0;
		}
	}
	return rc;
}

int rl_counter_get(struct rl_nl *nl, const char *name, uint64_t *packets,
		   struct eg_err *err)
{
	const struct nlmsghdr *reply = NULL;
	struct rl_found f = {0};
	struct nlmsghdr *nlh;
	const struct nlattr *a;
	int rc;

	nl->len = 0;
	nl->error = 0;
	nl->list = 0;
	nlh = rl_msg(nl, NFT_MSG_GETOBJ, 0);
	if (!nlh)
		return eg_err_set(err, nl->error, "out of memory for a query");
	mnl_attr_put_strz(nlh, NFTA_OBJ_TABLE, nl->table);
	mnl_attr_put_strz(nlh, NFTA_OBJ_NAME, name);
	mnl_attr_put_u32(nlh, NFTA_OBJ_TYPE, htonl(NFT_OBJECT_COUNTER));
	rl_msg_end(nl, nlh);
	rc = ask_one(nl, NFT_MSG_NEWOBJ, "reading a counter", &reply, err);
	if (rc)
		return rc;
	each_attr(a, reply, sizeof(struct nfgenmsg)) if (mnl_attr_get_type(a) ==
							 NFTA_OBJ_DATA)
		parse_counter(a, &f);
	*packets = f.packets;
	return 0;
}

/* libnftnl's user data: type, length, value; ours is one text. */
static void comment_of(const struct nlattr *a, char *buf, size_t cap)
{
	const uint8_t *d = mnl_attr_get_payload(a);
	size_t len = mnl_attr_get_payload_len(a);

	if (len < 3 || d[0] != NFTNL_UDATA_TABLE_COMMENT || d[1] > len - 2)
		return;
	(void)snprintf(buf, cap, "%.*s", (int)d[1], (const char *)d + 2);
}

int rl_table_comment(struct rl_nl *nl, char *buf, size_t cap, struct eg_err *err)
{
	const struct nlmsghdr *reply = NULL;
	struct nlmsghdr *nlh;
	const struct nlattr *a;
	int rc;

	nl->len = 0;
	nl->error = 0;
	nl->list = 0;
	nlh = rl_msg(nl, NFT_MSG_GETTABLE, 0);
	if (!nlh)
		return eg_err_set(err, nl->error, "out of memory for a query");
	mnl_attr_put_strz(nlh, NFTA_TABLE_NAME, nl->table);
	rl_msg_end(nl, nlh);
	rc = ask_one(nl, NFT_MSG_NEWTABLE, "looking for our table", &reply, err);
	if (rc)
		return rc;
	buf[0] = '\0';
	each_attr(a, reply, sizeof(struct nfgenmsg)) if (mnl_attr_get_type(a) ==
							 NFTA_TABLE_USERDATA)
		comment_of(a, buf, cap);
	return 0;
}
