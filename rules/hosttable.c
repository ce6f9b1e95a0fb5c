// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: the second guard, in the host's own namespace, and masquerade.
 *
 * Independent of the gateways: were a gateway's table gone, still nothing of
 * a sandbox reaches the host, metadata, another slot or leaves under another
 * gateway's addresses. In prerouting at raw priority, before any DNAT (a
 * port published on the host's own address never reaches input), and once
 * more in input and forward. Links are known by name (eg-gw-NN) and by the
 * prefix that belongs to each.
 */
#include "netpool/base/plan.h"
#include "netpool/base/reason.h"
#include "netpool/base/util.h"
#include "rules/expr.h"
#include "rules/gw.h"
#include "rules/kernel.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#define INET RL_FAMILY_INET
#define T EG_TABLE
#define NH NFT_PAYLOAD_NETWORK_HEADER
#define LINKS "eg-gw-"

struct rl_host {
	const struct eg_conf *conf;
	struct rl_nft *nft;
};

int rl_host_open(struct rl_host **ret, const struct eg_conf *conf, int fd,
		 struct eg_err *err)
{
	struct rl_host *h = calloc(1, sizeof(*h));
	int r;

	if (!h) {
		eg_close_p(&fd);
		return eg_err_set(err, -ENOMEM, "out of memory");
	}
	h->conf = conf;
	r = rl_nft_open(&h->nft, fd, err);
	if (r)
		free(h);
	else
		*ret = h;
	return r;
}

void rl_host_close(struct rl_host *h)
{
	if (!h)
		return;
	rl_nft_close(h->nft);
	free(h);
}

struct hb {
	struct rl_batch *b;
	const struct eg_conf *c;
};

static void add(struct hb *w, struct rl_rule *x, const char *what)
{
	rl_batch_rule(w->b, INET, rl_rule_take(x), what);
}

/* Interface names are compared in their first octets: every link of ours. */
static void from_links(struct rl_rule *x, uint32_t key, uint32_t op)
{
	rl_meta(x, key, 0);
	rl_cmp(x, op, 0, LINKS, sizeof(LINKS) - 1);
}

static void ipv4(struct rl_rule *x)
{
	rl_meta(x, NFT_META_NFPROTO, 0);
	rl_cmp_u8(x, NFT_CMP_EQ, 0, NFPROTO_IPV4);
}

/* Count, record in the host's own log group, drop. */
static void deny(struct hb *w, struct rl_rule *x, enum eg_reason reason)
{
	rl_imm_u32(x, 0, reason);
	rl_meta_set(x, NFT_META_MARK, 0);
	rl_counter(x);
	rl_log(x, EG_NFLOG_GROUP_HOST, w->c->snaplen);
	rl_verdict(x, NF_DROP, NULL);
	add(w, x, "guard");
}

static void begin(struct rl_rule *x, const char *chain)
{
	rl_rule_begin(x, INET, T, chain);
}

static void sets(struct hb *w)
{
	struct rl_range r[EG_CONF_DENY_ADDRS];
	struct rl_range own[2] = {
		{ w->c->prefix.addr, eg_prefix_last(w->c->prefix) },
		{ w->c->link_prefix.addr, eg_prefix_last(w->c->link_prefix) },
	};
	static const char *const names[] = { "metadata", "own" };
	size_t n;

	for (size_t i = 0; i < EG_ARRAY_SIZE(names); i++) {
		struct rl_set_spec s = { .table = T, .name = names[i],
					 .key_type = RL_T_IPADDR, .key_len = 4,
					 .flags = NFT_SET_INTERVAL };

		rl_batch_set(w->b, INET, rl_set(&s, (uint32_t)i + 1), names[i]);
	}
	n = rl_ranges_class(w->c, EG_DENY_METADATA, r, EG_ARRAY_SIZE(r));
	rl_ranges_elems(w->b, INET, "metadata", r, n);
	n = rl_ranges_merge(own, 2);
	rl_ranges_elems(w->b, INET, "own", own, n);
}

static void to_set(struct hb *w, const char *chain, const char *set,
		   enum eg_reason reason)
{
	struct rl_rule x;

	begin(&x, chain);
	from_links(&x, NFT_META_IIFNAME, NFT_CMP_EQ);
	ipv4(&x);
	rl_payload(&x, NH, 16, 4, 0);
	rl_lookup(&x, set, 0, false);
	deny(w, &x, reason);
}

/* Each gateway may use the addresses of its own slots, and its link's. */
static void own_source(struct hb *w)
{
	struct rl_set_spec s = { .table = T, .name = "from",
				 .key_type = RL_T2(RL_T_IFNAME, RL_T_IPADDR),
				 .key_len = 20, .flags = NFT_SET_INTERVAL,
				 .field = { 16, 4 }, .nfields = 2 };
	struct nftnl_set *e = rl_elems(T, "from");
	bool ok = e != NULL;
	struct rl_rule x;

	rl_batch_set(w->b, INET, rl_set(&s, 3), "from");
	for (uint32_t g = 0; ok && g < w->c->gateways; g++) {
		struct {
			char name[16];
			uint32_t addr;
		} lo = { .name = "" }, hi = { .name = "" };
		uint32_t first = eg_plan_subnet(w->c,
						eg_plan_first(w->c, g));
		uint32_t n = eg_plan_count(w->c, g);

		(void)eg_plan_gw_name(lo.name, g);
		(void)eg_plan_gw_name(hi.name, g);
		lo.addr = htonl(first);
		hi.addr = htonl(first + 4 * n - 1);
		ok = rl_elem_range(e, &lo, &hi, sizeof(lo));
		lo.addr = hi.addr = htonl(eg_plan_link_gw(w->c, g));
		ok = ok && rl_elem_range(e, &lo, &hi, sizeof(lo));
	}
	if (!ok)
		rl_batch_spoil(w->b, -ENOMEM);
	rl_batch_elems(w->b, INET, e, "from");
	begin(&x, "pre");
	from_links(&x, NFT_META_IIFNAME, NFT_CMP_EQ);
	ipv4(&x);
	rl_meta(&x, NFT_META_IIFNAME, 0);
	rl_payload(&x, NH, 12, 4, 4);
	rl_lookup(&x, "from", 0, true);
	deny(w, &x, EG_REASON_SPOOFED);
}

static void pre_rules(struct hb *w)
{
	struct rl_rule x;

	begin(&x, "pre");
	from_links(&x, NFT_META_IIFNAME, NFT_CMP_EQ);
	rl_meta(&x, NFT_META_NFPROTO, 0);
	rl_cmp_u8(&x, NFT_CMP_NEQ, 0, NFPROTO_IPV4);
	deny(w, &x, EG_REASON_IPV6);
	own_source(w);
	to_set(w, "pre", "metadata", EG_REASON_METADATA);
	to_set(w, "pre", "own", EG_REASON_HOST);
	begin(&x, "pre");
	from_links(&x, NFT_META_IIFNAME, NFT_CMP_EQ);
	ipv4(&x);
	rl_fib_type(&x, 0);
	rl_cmp_u32(&x, NFT_CMP_EQ, 0, RTN_LOCAL);
	deny(w, &x, EG_REASON_HOST);
}

static void later_rules(struct hb *w)
{
	struct rl_rule x;

	begin(&x, "in");
	from_links(&x, NFT_META_IIFNAME, NFT_CMP_EQ);
	deny(w, &x, EG_REASON_HOST);
	to_set(w, "fwd", "metadata", EG_REASON_METADATA);
	begin(&x, "fwd");
	from_links(&x, NFT_META_IIFNAME, NFT_CMP_EQ);
	from_links(&x, NFT_META_OIFNAME, NFT_CMP_EQ);
	deny(w, &x, EG_REASON_HOST);
	/* Nobody out there begins a conversation with a sandbox. */
	begin(&x, "fwd");
	from_links(&x, NFT_META_OIFNAME, NFT_CMP_EQ);
	rl_ct(&x, NFT_CT_STATE, 0);
	rl_bitwise(&x, 0, 2U | 4U, 0); /* established, related */
	rl_cmp_u32(&x, NFT_CMP_EQ, 0, 0);
	rl_counter(&x);
	rl_verdict(&x, NF_DROP, NULL);
	add(w, &x, "inbound");
}

static void nat_rules(struct hb *w)
{
	struct rl_range pool = { w->c->prefix.addr,
				 eg_prefix_last(w->c->prefix) };
	uint32_t lo = htonl(pool.lo), mask = htonl(eg_prefix_mask(w->c->prefix.len));
	struct rl_rule x;

	if (!w->c->masquerade)
		return;
	begin(&x, "nat");
	ipv4(&x);
	from_links(&x, NFT_META_OIFNAME, NFT_CMP_NEQ);
	rl_payload(&x, NH, 12, 4, 0);
	rl_bitwise_raw(&x, 0, &mask, 4);
	rl_cmp(&x, NFT_CMP_EQ, 0, &lo, 4);
	rl_masquerade(&x);
	add(w, &x, "masquerade");
}

static void host_build(struct hb *w)
{
	rl_batch_table(w->b, INET, T, "table inet " T);
	sets(w);
	rl_batch_chain(w->b, INET, rl_chain(T, "pre", "filter",
					    NF_INET_PRE_ROUTING, -300,
					    NF_ACCEPT), "chain pre");
	rl_batch_chain(w->b, INET, rl_chain(T, "in", "filter",
					    NF_INET_LOCAL_IN, 0, NF_ACCEPT),
		       "chain in");
	rl_batch_chain(w->b, INET, rl_chain(T, "fwd", "filter",
					    NF_INET_FORWARD, 0, NF_ACCEPT),
		       "chain fwd");
	rl_batch_chain(w->b, INET, rl_chain(T, "nat", "nat",
					    NF_INET_POST_ROUTING, 100,
					    NF_ACCEPT), "chain nat");
	pre_rules(w);
	later_rules(w);
	nat_rules(w);
}

int rl_host_install(struct rl_host *h, struct eg_err *err)
{
	int has = rl_nft_has_table(h->nft, INET, T, err), r;
	struct hb w = { .c = h->conf };

	if (has < 0)
		return has;
	w.b = rl_batch_new(h->nft);
	if (!w.b)
		return eg_err_set(err, -ENOMEM, "out of memory");
	/* Deleted and made in one transaction: never a moment without. */
	if (has)
		rl_batch_del_table(w.b, INET, T, "former table");
	host_build(&w);
	r = rl_batch_commit(w.b, err);
	return r ? eg_err_wrap(err, "the host's table") : 0;
}

int rl_host_remove(struct rl_host *h, struct eg_err *err)
{
	int has = rl_nft_has_table(h->nft, INET, T, err);
	struct rl_batch *b;

	if (has <= 0)
		return has;
	b = rl_batch_new(h->nft);
	if (b)
		rl_batch_del_table(b, INET, T, "the host's table");
	return rl_batch_commit(b, err);
}
