// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: nf_tables transport (see batch.h)
 *
 * Putting it together; answer.c sends it, query.c reads back. The length of
 * an attribute is 16 bits, so element lists are split over messages.
 */
#include "rules/nl.h"

#include "netpool/base/util.h"

#include <netinet/in.h> /* before linux/netfilter.h */

#include <arpa/inet.h>
#include <errno.h>
#include <libmnl/libmnl.h>
#include <libnftnl/chain.h>
#include <libnftnl/common.h>
#include <libnftnl/expr.h>
#include <libnftnl/object.h>
#include <libnftnl/set.h>
#include <libnftnl/table.h>
#include <libnftnl/udata.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <stdio.h>
#include <string.h>

/* A whole gateway is about 1 MiB; 16 MiB is a bug. */
#define BATCH_MAX (16U << 20)
/* Room for the answers of a group of questions (query.c). */
#define RCVBUF (1 << 20)
/* Octets of one element list message: well under the 16-bit attribute. */
#define LIST_MAX 48000
/* One element: two keys, data, a stateful expression, headers. */
#define ELEM_ROOM 512

/* ---- keys ---------------------------------------------------------------- */

static void key_put(struct rl_key *k, const void *v, size_t len, size_t room)
{
	if (k->len + room > sizeof(k->b)) {
		k->len = UINT8_MAX; /* refused when the element is built */
		return;
	}
	memset(k->b + k->len, 0, room);
	memcpy(k->b + k->len, v, len);
	k->len = (uint8_t)(k->len + room);
}

void rl_key_host(struct rl_key *k, uint32_t v)
{
	key_put(k, &v, sizeof(v), sizeof(v));
}

void rl_key_addr(struct rl_key *k, uint32_t addr)
{
	uint32_t be = htonl(addr);

	key_put(k, &be, sizeof(be), sizeof(be));
}

void rl_key_u8(struct rl_key *k, uint8_t v)
{
	key_put(k, &v, 1, 4);
}

void rl_key_port(struct rl_key *k, uint16_t v)
{
	uint16_t be = htons(v);

	key_put(k, &be, sizeof(be), 4);
}

void rl_key_mac(struct rl_key *k, const uint8_t mac[EG_MAC_LEN])
{
	key_put(k, mac, EG_MAC_LEN, 8);
}

void rl_key_name(struct rl_key *k, const char *ifname)
{
	key_put(k, ifname, strnlen(ifname, 15), 16);
}

/* ---- socket -------------------------------------------------------------- */

int rl_buffer(int fd, int force, int plain, int size)
{
	/* FORCE needs CAP_NET_ADMIN; without it sysctl limits apply. */
	if (!setsockopt(fd, SOL_SOCKET, force, &size, sizeof(size)))
		return 0;
	return setsockopt(fd, SOL_SOCKET, plain, &size, sizeof(size));
}

size_t rl_send_room(int fd)
{
	int size = 0;
	socklen_t len = sizeof(size);

	if (getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, &len) || size < 64)
		return 0;
	return (size_t)size - 32; /* netlink_sendmsg() keeps 32 */
}

int rl_nl_open(struct rl_nl **ret, int fd, bool own, uint8_t family,
	       const char *table, struct eg_err *err)
{
	int one = 1;
	struct rl_nl *nl = calloc(1, sizeof(*nl));

	if (nl)
		nl->rbuf = malloc(RL_RBUF);
	if (!nl || !nl->rbuf) {
		free(nl);
		if (own)
			eg_close_p(&fd);
		return eg_err_set(err, -ENOMEM,
				  "out of memory for an nfnetlink socket");
	}
	nl->fd = fd;
	nl->own = own;
	nl->family = family;
	nl->table = table;
	nl->sndbuf = rl_send_room(fd);
	/* Best effort: without them errors only say less. */
	(void)setsockopt(fd, SOL_NETLINK, NETLINK_CAP_ACK, &one, sizeof(one));
	(void)setsockopt(fd, SOL_NETLINK, NETLINK_EXT_ACK, &one, sizeof(one));
	(void)rl_buffer(fd, SO_RCVBUFFORCE, SO_RCVBUF, RCVBUF);
	if (!nl->sndbuf) {
		rl_nl_close(nl);
		return eg_err_set(err, -EBADF,
				  "descriptor %d is not a usable netlink socket",
				  fd);
	}
	*ret = nl;
	return 0;
}

void rl_nl_close(struct rl_nl *nl)
{
	if (!nl)
		return;
	if (nl->own)
		eg_close_p(&nl->fd);
	free(nl->buf);
	free(nl->rbuf);
	free(nl);
}

uint8_t rl_nl_family(const struct rl_nl *nl)
{
	return nl->family;
}

const char *rl_nl_table(const struct rl_nl *nl)
{
	return nl->table;
}

/* ---- putting a batch together -------------------------------------------- */

void rl_fail(struct rl_nl *nl, int error)
{
	if (!nl->error)
		nl->error = error;
}

bool rl_room(struct rl_nl *nl, size_t need)
{
	size_t cap = nl->cap ? nl->cap : RL_ROOM;
	uint8_t *p;

	if (nl->error)
		return false;
	while (cap < nl->len + need)
		cap *= 2;
	if (cap > BATCH_MAX) {
		rl_fail(nl, -EMSGSIZE);
		return false;
	}
	if (cap == nl->cap)
		return true;
	p = realloc(nl->buf, cap);
	if (!p) {
		rl_fail(nl, -ENOMEM);
		return false;
	}
	memset(p + nl->cap, 0, cap - nl->cap);
	nl->buf = p;
	nl->cap = cap;
	return true;
}

void rl_batch_shrink(struct rl_nl *nl)
{
	if (nl->cap <= RL_KEEP)
		return;
	free(nl->buf);
	nl->buf = NULL;
	nl->len = nl->cap = 0;
}

void rl_close_list(struct rl_nl *nl)
{
	struct nlmsghdr *nlh;
	struct nlattr *nest;

	if (!nl->list)
		return;
	nlh = (struct nlmsghdr *)(nl->buf + nl->list);
	nest = (struct nlattr *)(nl->buf + nl->nest);
	nl->list = 0;
	mnl_attr_nest_end(nlh, nest);
	nl->last_msg = nl->len;
	nl->len += mnl_nlmsg_size(mnl_nlmsg_get_payload_len(nlh));
}

/* A header for the next message; the caller adds and calls rl_msg_end(). */
struct nlmsghdr *rl_msg(struct rl_nl *nl, uint16_t type, uint16_t flags)
{
	rl_close_list(nl);
	if (!rl_room(nl, RL_ROOM))
		return NULL;
	return nftnl_nlmsg_build_hdr((char *)nl->buf + nl->len, type,
				     nl->family, flags, ++nl->seq);
}

void rl_msg_end(struct rl_nl *nl, struct nlmsghdr *nlh)
{
	nl->last_msg = nl->len;
	nl->len += mnl_nlmsg_size(mnl_nlmsg_get_payload_len(nlh));
}

void rl_begin(struct rl_nl *nl)
{
	nl->len = 0;
	nl->error = 0;
	nl->list = 0;
	if (!rl_room(nl, RL_ROOM))
		return;
	nl->first = ++nl->seq;
	nftnl_batch_begin((char *)nl->buf, nl->seq);
	rl_msg_end(nl, (struct nlmsghdr *)nl->buf);
}

void rl_table(struct rl_nl *nl, const char *comment)
{
	struct nftnl_udata_buf *ud = NULL;
	struct nftnl_table *t = nftnl_table_alloc();
	struct nlmsghdr *nlh = rl_msg(nl, NFT_MSG_NEWTABLE, NLM_F_CREATE);
	bool ok = t && !nftnl_table_set_str(t, NFTNL_TABLE_NAME, nl->table);

	if (ok && comment) {
		ud = nftnl_udata_buf_alloc(256);
		ok = ud &&
		     nftnl_udata_put_strz(ud, NFTNL_UDATA_TABLE_COMMENT, comment) &&
		     !nftnl_table_set_data(t, NFTNL_TABLE_USERDATA,
					   nftnl_udata_buf_data(ud),
					   nftnl_udata_buf_len(ud));
	}
	if (!ok)
		rl_fail(nl, -ENOMEM);
	if (ok && nlh) {
		nftnl_table_nlmsg_build_payload(nlh, t);
		rl_msg_end(nl, nlh);
	}
	if (ud)
		nftnl_udata_buf_free(ud);
	if (t)
		nftnl_table_free(t);
}

/* Also when there is none: made and deleted in the same transaction. */
void rl_table_gone(struct rl_nl *nl)
{
	struct nlmsghdr *nlh;

	rl_table(nl, NULL);
	nlh = rl_msg(nl, NFT_MSG_DELTABLE, 0);
	if (!nlh)
		return;
	mnl_attr_put_strz(nlh, NFTA_TABLE_NAME, nl->table);
	rl_msg_end(nl, nlh);
}

/* nft keeps byte orders in user data; without them it prints a map's data
 * or a plain key the wrong way round. 1: host, 2: network, 0: mixed. */
static uint32_t byteorder(uint32_t type, bool concat)
{
	if (concat)
		return 0;
	switch (type) {
	case RL_T_MARK:
	case RL_T_IFINDEX:
	case RL_T_IFNAME:
		return 1;
	default:
		return 2;
	}
}

static bool set_userdata(struct nftnl_set *s, const struct rl_set *set)
{
	struct nftnl_udata_buf *ud = nftnl_udata_buf_alloc(64);
	bool ok;

	ok = ud && nftnl_udata_put_u32(ud, NFTNL_UDATA_SET_KEYBYTEORDER,
				       byteorder(set->type, set->nfields > 0));
	if (ok && (set->flags & NFT_SET_MAP))
		ok = nftnl_udata_put_u32(ud, NFTNL_UDATA_SET_DATABYTEORDER,
					 byteorder(set->data_type, false));
	if (ok)
		ok = !nftnl_set_set_data(s, NFTNL_SET_USERDATA,
					 nftnl_udata_buf_data(ud),
					 nftnl_udata_buf_len(ud));
	if (ud)
		nftnl_udata_buf_free(ud);
	return ok;
}

/* nftnl_set_set_u32() hides a failed allocation; this does not. */
static bool set_u32(struct nftnl_set *s, uint16_t attr, uint32_t v)
{
	return !nftnl_set_set_data(s, attr, &v, sizeof(v));
}

static bool set_u64(struct nftnl_set *s, uint16_t attr, uint64_t v)
{
	return !nftnl_set_set_data(s, attr, &v, sizeof(v));
}

static bool set_fill(struct nftnl_set *s, struct rl_nl *nl,
		     const struct rl_set *set)
{
	uint32_t flags = set->flags | (set->nfields ? NFT_SET_CONCAT : 0);
	bool ok = !nftnl_set_set_str(s, NFTNL_SET_TABLE, nl->table) &&
		  !nftnl_set_set_str(s, NFTNL_SET_NAME, set->name) &&
		  set_u32(s, NFTNL_SET_FLAGS, flags) &&
		  set_u32(s, NFTNL_SET_KEY_TYPE, set->type) &&
		  set_u32(s, NFTNL_SET_KEY_LEN, set->len) &&
		  set_u32(s, NFTNL_SET_ID, nl->seq) && set_userdata(s, set);

	if (set->flags & NFT_SET_MAP)
		ok = ok && set_u32(s, NFTNL_SET_DATA_TYPE, set->data_type) &&
		     set_u32(s, NFTNL_SET_DATA_LEN, set->data_len);
	if (set->size)
		ok = ok && set_u32(s, NFTNL_SET_DESC_SIZE, set->size);
	if (set->timeout_s)
		ok = ok &&
		     set_u64(s, NFTNL_SET_TIMEOUT, 1000ULL * set->timeout_s);
	if (set->gc_s)
		ok = ok && set_u32(s, NFTNL_SET_GC_INTERVAL, 1000 * set->gc_s);
	if (set->nfields)
		ok = ok && !nftnl_set_set_data(s, NFTNL_SET_DESC_CONCAT,
					       set->field, set->nfields);
	return ok;
}

void rl_set(struct rl_nl *nl, const struct rl_set *set)
{
	struct nlmsghdr *nlh = rl_msg(nl, NFT_MSG_NEWSET, NLM_F_CREATE);
	struct nftnl_set *s = nftnl_set_alloc();

	if (!s || !set_fill(s, nl, set)) {
		rl_fail(nl, -ENOMEM);
	} else if (nlh) {
		nftnl_set_nlmsg_build_payload(nlh, s);
		rl_msg_end(nl, nlh);
	}
	if (s)
		nftnl_set_free(s);
}

static bool chain_fill(struct nftnl_chain *c, struct rl_nl *nl,
		       const struct rl_chain *chain)
{
	uint32_t policy = chain->drop ? NF_DROP : NF_ACCEPT;

	if (nftnl_chain_set_str(c, NFTNL_CHAIN_TABLE, nl->table) ||
	    nftnl_chain_set_str(c, NFTNL_CHAIN_NAME, chain->name))
		return false;
	if (!chain->type)
		return true;
	return !nftnl_chain_set_str(c, NFTNL_CHAIN_TYPE, chain->type) &&
	       !nftnl_chain_set_data(c, NFTNL_CHAIN_HOOKNUM, &chain->hook,
				     sizeof(chain->hook)) &&
	       !nftnl_chain_set_data(c, NFTNL_CHAIN_PRIO, &chain->prio,
				     sizeof(chain->prio)) &&
	       !nftnl_chain_set_data(c, NFTNL_CHAIN_POLICY, &policy,
				     sizeof(policy));
}

void rl_chain(struct rl_nl *nl, const struct rl_chain *chain)
{
	struct nlmsghdr *nlh = rl_msg(nl, NFT_MSG_NEWCHAIN, NLM_F_CREATE);
	struct nftnl_chain *c = nftnl_chain_alloc();

	if (!c || !chain_fill(c, nl, chain)) {
		rl_fail(nl, -ENOMEM);
	} else if (nlh) {
		nftnl_chain_nlmsg_build_payload(nlh, c);
		rl_msg_end(nl, nlh);
	}
	if (c)
		nftnl_chain_free(c);
}

void rl_counter(struct rl_nl *nl, const char *name)
{
	struct nlmsghdr *nlh = rl_msg(nl, NFT_MSG_NEWOBJ, NLM_F_CREATE);
	struct nlattr *nest;

	if (!nlh)
		return;
	mnl_attr_put_strz(nlh, NFTA_OBJ_TABLE, nl->table);
	mnl_attr_put_strz(nlh, NFTA_OBJ_NAME, name);
	mnl_attr_put_u32(nlh, NFTA_OBJ_TYPE, htonl(NFT_OBJECT_COUNTER));
	nest = mnl_attr_nest_start(nlh, NFTA_OBJ_DATA);
	mnl_attr_nest_end(nlh, nest);
	rl_msg_end(nl, nlh);
}

/* ---- elements ------------------------------------------------------------ */

static bool expr_u64(struct nftnl_expr *e, uint16_t attr, uint64_t v)
{
	return !nftnl_expr_set(e, attr, &v, sizeof(v));
}

static bool expr_u32(struct nftnl_expr *e, uint16_t attr, uint32_t v)
{
	return !nftnl_expr_set(e, attr, &v, sizeof(v));
}

static bool fill_limit(struct nftnl_expr *e, const struct rl_stateful *s)
{
	return expr_u64(e, NFTNL_EXPR_LIMIT_RATE, s->rate) &&
	       expr_u64(e, NFTNL_EXPR_LIMIT_UNIT, s->unit ? s->unit : 1) &&
	       expr_u32(e, NFTNL_EXPR_LIMIT_BURST, s->burst) &&
	       expr_u32(e, NFTNL_EXPR_LIMIT_TYPE, NFT_LIMIT_PKTS) &&
	       expr_u32(e, NFTNL_EXPR_LIMIT_FLAGS, s->over ? NFT_LIMIT_F_INV : 0);
}

static bool fill_flows(struct nftnl_expr *e, const struct rl_stateful *s)
{
	return expr_u32(e, NFTNL_EXPR_CONNLIMIT_COUNT, s->burst) &&
	       expr_u32(e, NFTNL_EXPR_CONNLIMIT_FLAGS, NFT_CONNLIMIT_F_INV);
}

/* NULL when it cannot be made whole. */
struct nftnl_expr *rl_stateful_expr(const struct rl_stateful *s)
{
	static const char *const name[] = {
		[RL_STATE_COUNTER] = "counter",
		[RL_STATE_LIMIT] = "limit",
		[RL_STATE_FLOWS] = "connlimit",
	};
	struct nftnl_expr *e;
	bool ok = false;

	if (s->kind == RL_STATE_NONE)
		return NULL;
	e = nftnl_expr_alloc(name[s->kind]);
	if (!e)
		return NULL;
	switch (s->kind) {
	case RL_STATE_NONE:
		break;
	case RL_STATE_COUNTER:
		ok = true;
		break;
	case RL_STATE_LIMIT:
		ok = fill_limit(e, s);
		break;
	case RL_STATE_FLOWS:
		ok = fill_flows(e, s);
		break;
	}
	if (ok)
		return e;
	nftnl_expr_free(e);
	return NULL;
}

void rl_put_key(struct nlmsghdr *nlh, uint16_t type, const struct rl_key *k)
{
	struct nlattr *nest = mnl_attr_nest_start(nlh, type);

	mnl_attr_put(nlh, NFTA_DATA_VALUE, k->len, k->b);
	mnl_attr_nest_end(nlh, nest);
}

static void put_data(struct nlmsghdr *nlh, const struct rl_elem *e)
{
	struct nlattr *data = mnl_attr_nest_start(nlh, NFTA_SET_ELEM_DATA);

	if (e->chain) {
		struct nlattr *v = mnl_attr_nest_start(nlh, NFTA_DATA_VERDICT);

		mnl_attr_put_u32(nlh, NFTA_VERDICT_CODE,
				 htonl((uint32_t)NFT_GOTO));
		mnl_attr_put_strz(nlh, NFTA_VERDICT_CHAIN, e->chain);
		mnl_attr_nest_end(nlh, v);
	} else {
		mnl_attr_put_u32(nlh, NFTA_DATA_VALUE, e->data);
	}
	mnl_attr_nest_end(nlh, data);
}

static void put_state(struct rl_nl *nl, struct nlmsghdr *nlh,
		      const struct rl_stateful *s)
{
	struct nftnl_expr *x = rl_stateful_expr(s);
	struct nlattr *nest;

	if (!x) {
		rl_fail(nl, -ENOMEM);
		return;
	}
	nest = mnl_attr_nest_start(nlh, NFTA_SET_ELEM_EXPR);
	nftnl_expr_build_payload(nlh, x);
	mnl_attr_nest_end(nlh, nest);
	nftnl_expr_free(x);
}

/* The list under construction fits @set and type, or a new one. */
static struct nlmsghdr *list_open(struct rl_nl *nl, uint16_t type, const char *set)
{
	struct nlmsghdr *nlh;

	if (nl->list) {
		nlh = (struct nlmsghdr *)(nl->buf + nl->list);
		if (nl->list_type != type || strcmp(nl->list_set, set) ||
		    nlh->nlmsg_len > LIST_MAX)
			rl_close_list(nl);
	}
	if (!nl->list) {
		nlh = rl_msg(nl, type,
			     type == NFT_MSG_NEWSETELEM ? NLM_F_CREATE : 0);
		if (!nlh)
			return NULL;
		mnl_attr_put_strz(nlh, NFTA_SET_ELEM_LIST_TABLE, nl->table);
		mnl_attr_put_strz(nlh, NFTA_SET_ELEM_LIST_SET, set);
		nl->list = nl->len;
		nl->list_type = type;
		(void)snprintf(nl->list_set, sizeof(nl->list_set), "%s", set);
		nl->nest = (size_t)((uint8_t *)mnl_attr_nest_start(
					    nlh, NFTA_SET_ELEM_LIST_ELEMENTS) -
				    nl->buf);
	}
	/* the list grows beyond nl->len: make room behind what it holds */
	nlh = (struct nlmsghdr *)(nl->buf + nl->list);
	if (!rl_room(nl, nlh->nlmsg_len + ELEM_ROOM))
		return NULL;
	return (struct nlmsghdr *)(nl->buf + nl->list);
}

static void put_elem(struct rl_nl *nl, struct nlmsghdr *nlh,
		     const struct rl_elem *e)
{
	struct nlattr *nest = mnl_attr_nest_start(nlh, NFTA_LIST_ELEM);
	uint32_t flags = e->interval_end ? NFT_SET_ELEM_INTERVAL_END : 0;

	if (flags)
		mnl_attr_put_u32(nlh, NFTA_SET_ELEM_FLAGS, htonl(flags));
	rl_put_key(nlh, NFTA_SET_ELEM_KEY, &e->key);
	if (e->end.len)
		rl_put_key(nlh, NFTA_SET_ELEM_KEY_END, &e->end);
	if (e->timeout_ms)
		mnl_attr_put_u64(nlh, NFTA_SET_ELEM_TIMEOUT,
				 htobe64(e->timeout_ms));
	if (e->has_data || e->chain)
		put_data(nlh, e);
	if (e->state.kind != RL_STATE_NONE)
		put_state(nl, nlh, &e->state);
	mnl_attr_nest_end(nlh, nest);
}

static void elem(struct rl_nl *nl, uint16_t type, const char *set,
		 const struct rl_elem *e)
{
	struct nlmsghdr *nlh;

	if (e->key.len > sizeof(e->key.b) || e->end.len > sizeof(e->end.b) ||
	    !e->key.len) {
		rl_fail(nl, -EOVERFLOW);
		return;
	}
	nlh = list_open(nl, type, set);
	if (nlh)
		put_elem(nl, nlh, e);
}

void rl_add(struct rl_nl *nl, const char *set, const struct rl_elem *e)
{
	elem(nl, NFT_MSG_NEWSETELEM, set, e);
}

void rl_del(struct rl_nl *nl, const char *set, const struct rl_elem *e)
{
	elem(nl, NFT_MSG_DELSETELEM, set, e);
}

/* Deleting with no element named empties the set (nf_tables_delsetelem). */
void rl_flush(struct rl_nl *nl, const char *set)
{
	struct nlmsghdr *nlh = rl_msg(nl, NFT_MSG_DELSETELEM, 0);

	if (!nlh)
		return;
	mnl_attr_put_strz(nlh, NFTA_SET_ELEM_LIST_TABLE, nl->table);
	mnl_attr_put_strz(nlh, NFTA_SET_ELEM_LIST_SET, set);
	rl_msg_end(nl, nlh);
}
