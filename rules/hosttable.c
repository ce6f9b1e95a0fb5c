// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: the guard in the host's own namespace, and masquerading
 *
 * Second and independent of the gateways: from their links nothing whose
 * destination is the host, metadata, the pool or the link prefix, and only
 * the gateway's own range as source. It sits in prerouting at raw priority,
 * before any DNAT (a port published on the host's own address would never
 * reach input), and the same chains run again in input and forward, on what
 * a DNAT made of the packet. Base chains accept what they do not drop: this
 * table never decides about anybody else's traffic.
 *
 * table inet egressd: gateway links are told by name (eg-gw-*), since the
 * indexes of links in the host are not ours to choose.
 */
#include "rules/compile.h"
#include "rules/deny.h"
#include "rules/kernel.h"

#include "netpool/base/plan.h"
#include "netpool/base/reason.h"
#include "netpool/base/util.h"

#include <netinet/in.h> /* before linux/netfilter.h */

#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/rtnetlink.h>
#include <string.h>

#define NH NFT_PAYLOAD_NETWORK_HEADER
#define TH NFT_PAYLOAD_TRANSPORT_HEADER
#define GW_PREFIX "eg-gw-"
#define C_NAME 16 /* "gw-00255" */

/* A guard that drops at all means a gateway failed: few lines say enough. */
#define HOST_LOG_S 50
#define LINK_SIZE 384 /* three quarters of 512; a gateway has one link */

struct rl_host {
	const struct eg_conf *conf;
	struct rl_nl *nl;
};

int rl_host_open(struct rl_host **ret, const struct eg_conf *conf, int fd,
		 struct eg_err *err)
{
	struct rl_host *h = calloc(1, sizeof(*h));
	int rc;

	if (!h) {
		eg_close_p(&fd);
		return eg_err_set(err, -ENOMEM, "out of memory for the guard");
	}
	h->conf = conf;
	rc = rl_nl_open(&h->nl, fd, true, NFPROTO_INET, EG_TABLE, err);
	if (rc) {
		free(h);
		return rc;
	}
	*ret = h;
	return 0;
}

void rl_host_close(struct rl_host *h)
{
	if (!h)
		return;
	rl_nl_close(h->nl);
	free(h);
}

static void sets(struct rl_nl *nl, uint32_t gateways)
{
	const struct rl_set all[] = {
		{.name = "permit",
		 .flags = NFT_SET_INTERVAL,
		 .type = RL_T3(RL_T_IPADDR, RL_T_PROTO, RL_T_SERVICE),
		 .len = 12,
		 .field = {4, 1, 2},
		 .nfields = 3},
		{.name = "metadata",
		 .flags = NFT_SET_INTERVAL,
		 .type = RL_T_IPADDR,
		 .len = 4},
		{.name = "ours",
		 .flags = NFT_SET_INTERVAL,
		 .type = RL_T_IPADDR,
		 .len = 4},
		{.name = "gateways",
		 .flags = NFT_SET_MAP,
		 .type = RL_T_IFNAME,
		 .len = 16,
		 .data_type = RL_T_VERDICT,
		 .size = gateways},
		{.name = "lograte",
		 .flags = NFT_SET_EVAL,
		 .type = RL_T_IFINDEX,
		 .len = 4,
		 .size = LINK_SIZE},
	};

	for (size_t i = 0; i < EG_ARRAY_SIZE(all); i++)
		rl_set(nl, &all[i]);
	rl_deny_sets(nl);
}

static void put_prefixes(struct rl_host *h)
{
	struct rl_space space;
	struct rl_ranges *r[] = {&space.metadata, &space.host};
	static const char *const set[] = {"metadata", "ours"};

	if (rl_space_init(&space, h->conf, NULL, 0))
		rl_fail(h->nl, -ENOMEM);
	for (size_t k = 0; k < EG_ARRAY_SIZE(r); k++)
		for (size_t i = 0; i < r[k]->n; i++) {
			struct rl_elem lo = {0};
			struct rl_elem hi = {.interval_end = true};

			rl_key_addr(&lo.key, r[k]->v[i].lo);
			rl_add(h->nl, set[k], &lo);
			if (r[k]->v[i].hi == UINT32_MAX)
				break;
			rl_key_addr(&hi.key, r[k]->v[i].hi + 1);
			rl_add(h->nl, set[k], &hi);
		}
	rl_space_free(&space);
}

/* permit_host lines, as disjoint boxes (they may overlap each other). */
static void put_permits(struct rl_host *h)
{
	for (uint32_t i = 0; i < h->conf->permits_host; i++) {
		const struct eg_conf_permit *p = &h->conf->permit_host[i];
		struct rl_elem e = {0};
		bool twice = false;

		for (uint32_t k = 0; k < i; k++) {
			const struct eg_conf_permit *q = &h->conf->permit_host[k];

			twice = twice || (q->proto == p->proto &&
					  q->lo <= p->hi && p->lo <= q->hi &&
					  eg_prefix_overlap(q->dst, p->dst));
		}
		if (twice) {
			rl_fail(h->nl, -EEXIST);
			return;
		}
		rl_key_addr(&e.key, p->dst.addr);
		rl_key_u8(&e.key, p->proto);
		rl_key_port(&e.key, p->lo);
		rl_key_addr(&e.end, eg_prefix_last(p->dst));
		rl_key_u8(&e.end, p->proto);
		rl_key_port(&e.end, p->hi);
		rl_add(h->nl, "permit", &e);
	}
}

static void from_gateway(struct rl_rule *r, uint32_t key, uint32_t op)
{
	rl_meta(r, key, R1);
	rl_cmp(r, op, R1, GW_PREFIX, sizeof(GW_PREFIX) - 1);
}

static void ipv4(struct rl_rule *r)
{
	static const uint8_t v4 = NFPROTO_IPV4;

	rl_meta(r, NFT_META_NFPROTO, R1);
	rl_cmp(r, NFT_CMP_EQ, R1, &v4, sizeof(v4));
}

/* Whose link it is decides what may be the source; a link nobody knows, IPv6
 * and anything else falls to the denying end. */
static void rules_guard(struct rl_nl *nl)
{
	static const uint8_t v6 = NFPROTO_IPV6;
	struct rl_rule r;

	rl_rule(&r, nl, "guard");
	rl_meta(&r, NFT_META_NFPROTO, R1);
	rl_cmp(&r, NFT_CMP_EQ, R1, &v6, sizeof(v6));
	rl_reason(&r, EG_REASON_IPV6);
	rl_done(&r);
	rl_rule(&r, nl, "guard");
	rl_meta(&r, NFT_META_IIFNAME, R1);
	rl_vmap(&r, "gateways", R1);
	rl_done(&r);
	rl_rule(&r, nl, "guard");
	rl_reason(&r, EG_REASON_SPOOFED);
	rl_done(&r);
}

static void rules_gateway(struct rl_host *h)
{
	const struct eg_conf *c = h->conf;
	char name[EG_IFNAME];

	for (uint32_t g = 0; g < c->gateways; g++) {
		uint32_t first = eg_plan_first(c, g);
		uint32_t last = first + eg_plan_count(c, g) - 1;
		struct rl_chain chain = {
			.name = eg_plan_gw_name(name, g),
		};
		struct rl_elem e = {.chain = name};
		struct rl_rule r;

		rl_chain(h->nl, &chain);
		rl_rule(&r, h->nl, name);
		ipv4(&r);
		rl_payload(&r, NH, 12, 4, R1);
		rl_between(&r, R1, eg_plan_subnet(c, first),
			   eg_plan_subnet(c, last) + 3);
		rl_goto(&r, "dest");
		rl_done(&r);
		rl_rule(&r, h->nl, name);
		rl_reason(&r, EG_REASON_SPOOFED);
		rl_done(&r);
		rl_key_name(&e.key, name);
		rl_add(h->nl, "gateways", &e);
	}
}

static void rule_dest(struct rl_nl *nl, const char *set, uint8_t reason)
{
	struct rl_rule r;

	rl_rule(&r, nl, "dest");
	ipv4(&r);
	rl_payload(&r, NH, 16, 4, R1);
	rl_in(&r, set, R1);
	rl_reason(&r, reason);
	rl_done(&r);
}

static void rules_dest(struct rl_nl *nl)
{
	static const uint8_t ported[] = {IPPROTO_TCP, IPPROTO_UDP};
	struct rl_rule r;

	for (size_t i = 0; i < sizeof(ported); i++) {
		rl_rule(&r, nl, "dest");
		ipv4(&r);
		rl_meta(&r, NFT_META_L4PROTO, R1);
		rl_eq8(&r, R1, ported[i]);
		rl_payload(&r, NH, 16, 4, R1);
		rl_meta(&r, NFT_META_L4PROTO, R2);
		rl_payload(&r, TH, 2, 2, R3);
		rl_in(&r, "permit", R1);
		rl_accept(&r);
		rl_done(&r);
	}
	rule_dest(nl, "metadata", EG_REASON_METADATA);
	rule_dest(nl, "ours", EG_REASON_HOST);
	rl_rule(&r, nl, "dest");
	rl_fib_type(&r, R1);
	rl_eq32(&r, R1, RTN_LOCAL);
	rl_reason(&r, EG_REASON_HOST);
	rl_done(&r);
}

static void rules_deny(struct rl_nl *nl, uint32_t snaplen)
{
	const struct rl_stateful rate = {.kind = RL_STATE_LIMIT,
					 .rate = HOST_LOG_S,
					 .burst = 2 * HOST_LOG_S};
	struct rl_rule r;

	rl_deny_count(nl);
	rl_rule(&r, nl, RL_C_WEIGH);
	rl_meta(&r, NFT_META_IIF, R1);
	rl_dynset(&r, "lograte", R1, true, &rate);
	rl_goto(&r, RL_C_EMIT);
	rl_done(&r);
	rl_deny_suppress(nl, RL_C_WEIGH);
	rl_deny_emit(nl, EG_NFLOG_GROUP_HOST, snaplen);
	rl_rule(&r, nl, RL_C_VERDICT);
	rl_drop(&r);
	rl_done(&r);
}

static void rules_base(struct rl_nl *nl)
{
	static const char *const base[] = {"prerouting", "input", "forward"};
	struct rl_rule r;

	for (size_t i = 0; i < EG_ARRAY_SIZE(base); i++) {
		rl_rule(&r, nl, base[i]);
		from_gateway(&r, NFT_META_IIFNAME, NFT_CMP_EQ);
		rl_jump(&r, "guard");
		rl_done(&r);
	}
	/* towards a gateway: answers only */
	rl_rule(&r, nl, "forward");
	from_gateway(&r, NFT_META_OIFNAME, NFT_CMP_EQ);
	rl_ct(&r, NFT_CT_STATE, R1);
	rl_mask(&r, R1,
		NF_CT_STATE_BIT(IP_CT_ESTABLISHED) |
			NF_CT_STATE_BIT(IP_CT_RELATED),
		0);
	rl_eq32(&r, R1, 0);
	rl_drop(&r);
	rl_done(&r);
}

static void rules_nat(struct rl_host *h)
{
	struct rl_rule r;

	if (!h->conf->masquerade)
		return;
	rl_rule(&r, h->nl, "postrouting");
	ipv4(&r);
	from_gateway(&r, NFT_META_OIFNAME, NFT_CMP_NEQ);
	rl_payload(&r, NH, 12, 4, R1);
	rl_between(&r, R1, h->conf->prefix.addr, eg_prefix_last(h->conf->prefix));
	rl_masquerade(&r);
	rl_done(&r);
}

static void chains(struct rl_host *h)
{
	static const struct rl_chain all[] = {
		{.name = "guard"},
		{.name = "dest"},
		{.name = RL_C_DENY},
		{.name = RL_C_WEIGH},
		{.name = RL_C_EMIT},
		{.name = RL_C_VERDICT},
		{"prerouting", "filter", NF_INET_PRE_ROUTING, -300, false},
		{"input", "filter", NF_INET_LOCAL_IN, 0, false},
		{"forward", "filter", NF_INET_FORWARD, 0, false},
		{"postrouting", "nat", NF_INET_POST_ROUTING, 100, false},
	};
	size_t n = EG_ARRAY_SIZE(all);

	for (size_t i = 0; i < n - !h->conf->masquerade; i++)
		rl_chain(h->nl, &all[i]);
}

int rl_host_install(struct rl_host *h, struct eg_err *err)
{
	rl_begin(h->nl);
	rl_table_gone(h->nl);
	rl_table(h->nl, "egressd guard");
	sets(h->nl, h->conf->gateways);
	chains(h);
	put_prefixes(h);
	put_permits(h);
	rules_gateway(h);
	rules_guard(h->nl);
	rules_dest(h->nl);
	rules_deny(h->nl, h->conf->snaplen);
	rules_base(h->nl);
	rules_nat(h);
	return rl_commit(h->nl, "installing the host's guard", err);
}

int rl_host_remove(struct rl_host *h, struct eg_err *err)
{
	rl_begin(h->nl);
	rl_table_gone(h->nl);
	return rl_commit(h->nl, "removing the host's guard", err);
}
