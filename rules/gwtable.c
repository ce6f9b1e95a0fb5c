// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: the static table of a gateway
 *
 * Made once, with the gateway; afterwards only plain set elements come and
 * go (a rule or a verdict element would make the kernel walk all chains).
 *
 *   prerouting -450  `enter`    whose packet is it? -> `own` for a slot's own
 *   prerouting -300  `guard`    port 53 to the DNS guard
 *   prerouting -150  `decide`   everything else; policy drop
 *   forward, input   accept only what `decide` or `guard` marked; policy drop
 *   output -300      `answer`   the guard's answers are not tracked
 *
 * A condition whose payload cannot be read breaks its rule, so each test that
 * must hold is written as "what fits goes on", never "what does not is
 * denied": a packet nothing fits falls to the denying end of its chain.
 *
 * Pin sets come first in the table: the kernel finds a set by walking the
 * list. Sets that packets fill have a size, which costs up to 32 octets an
 * element at creation (buckets for 4/3 of it, rounded up to a power of two:
 * the sizes here are three quarters of powers of two). Why so many: a counter
 * has a key for each reason a link can have, now and in a lease being
 * scrubbed (3 x 6144, 0.6 MB); `seen` shares 48 a link, which only the rate
 * limit has to make up for (12288, 0.4 MB); the rest has at most two keys a
 * link and a third for the lease being scrubbed (4 x 768, 0.1 MB).
 */
#include "rules/deny.h"
#include "rules/gw.h"

#include "netpool/base/reason.h"
#include "netpool/base/util.h"

#include <netinet/in.h> /* before linux/netfilter.h */

#include <linux/if_arp.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/rtnetlink.h>
#include <netinet/ip_icmp.h>
#include <stdio.h>

#define NH NFT_PAYLOAD_NETWORK_HEADER
#define TH NFT_PAYLOAD_TRANSPORT_HEADER
#define LL NFT_PAYLOAD_LL_HEADER

#define EPOCH_BITS (~EG_MARK_LOW)
#define PORT_DNS 53
#define IFINDEX_LO 1

/* Destinations that leave a log entry whatever the rate: of a gateway; a
 * lease makes SHARE at once and as many again in an hour. */
#define SEEN_SIZE 12288
#define SEEN_TIMEOUT_S 3600
#define SHARE 512

/* Sets with one element a link and epoch, or two a link. */
#define LINK_SIZE 768

/* ICMP rejects of a slot: a second, and at once. */
#define ICMP_S 50

/* Queries of a slot when the configuration leaves it at 0 (api: default). */
#define DNS_S 200

#define FIELDS(...)                                                            \
	{                                                                      \
		__VA_ARGS__                                                    \
	}

#define C_WEIGH_PORT RL_C_WEIGH "_port"
#define C_WEIGH_RATE RL_C_WEIGH "_rate"

/* ---- sets ---------------------------------------------------------------- */

static void slot_sets(struct rl_gw *gw)
{
	char name[RL_SET_NAME];
	struct rl_set set = {
		.name = name,
		.flags = NFT_SET_TIMEOUT,
		.type = RL_T3(RL_T_IPADDR, RL_T_PROTO, RL_T_SERVICE),
		.len = 12,
		.gc_s = 60, /* the default second wakes the CPU for each set */
		.field = FIELDS(4, 1, 2),
		.nfields = 3,
	};

	for (uint32_t i = 0; i < gw->count; i++) {
		rl_set_name(name, 'p', i);
		rl_set(gw->nl, &set);
	}
	set.flags = NFT_SET_INTERVAL;
	set.gc_s = 0;
	for (uint32_t i = 0; i < gw->count; i++) {
		rl_set_name(name, 'x', i);
		rl_set(gw->nl, &set);
	}
}

/* What a lease is made of, and who may send from where. */
static void lease_sets(struct rl_nl *nl, uint32_t count)
{
	const struct rl_set sets[] = {
		{.name = "lease",
		 .flags = NFT_SET_MAP,
		 .type = RL_T_IFINDEX,
		 .len = 4,
		 .data_type = RL_T_MARK,
		 .data_len = 4},
		{.name = "live",
		 .type = RL_T2(RL_T_IFINDEX, RL_T_MARK),
		 .len = 8,
		 .field = FIELDS(4, 4),
		 .nfields = 2},
		{.name = "source",
		 .type = RL_T3(RL_T_IFINDEX, RL_T_IPADDR, RL_T_ETHER),
		 .len = 16,
		 .size = count,
		 .field = FIELDS(4, 4, 6),
		 .nfields = 3},
		{.name = "quiet", .type = RL_T_IFINDEX, .len = 4},
		{.name = "report", .type = RL_T_IFINDEX, .len = 4},
		{.name = "tx",
		 .type = RL_T2(RL_T_IFINDEX, RL_T_MARK),
		 .len = 8,
		 .field = FIELDS(4, 4),
		 .nfields = 2},
		{.name = "rx",
		 .type = RL_T2(RL_T_IFINDEX, RL_T_MARK),
		 .len = 8,
		 .field = FIELDS(4, 4),
		 .nfields = 2},
		{.name = "newflows", .type = RL_T_IFINDEX, .len = 4},
		{.name = "flows", .type = RL_T_IFINDEX, .len = 4},
	};

	for (size_t i = 0; i < EG_ARRAY_SIZE(sets); i++)
		rl_set(nl, &sets[i]);
}

static void denied_sets(struct rl_nl *nl)
{
	struct rl_set set = {
		.flags = NFT_SET_INTERVAL, .type = RL_T_IPADDR, .len = 4};
	static const char *const name[] = {"metadata", "host", "reserved",
					   "private"};

	for (size_t i = 0; i < EG_ARRAY_SIZE(name); i++) {
		set.name = name[i];
		rl_set(nl, &set);
	}
}

/* Sets that packets fill; every one bounded, every key starts with the link. */
static void packet_sets(struct rl_nl *nl)
{
	const struct rl_set sets[] = {
		{.name = "seen",
		 .flags = NFT_SET_EVAL | NFT_SET_TIMEOUT,
		 .type = RL_T2(RL_T3(RL_T2(RL_T_IFINDEX, RL_T_MARK),
				     RL_T_IPADDR, RL_T_PROTO),
			       RL_T_SERVICE),
		 .len = 20,
		 .size = SEEN_SIZE,
		 .timeout_s = SEEN_TIMEOUT_S,
		 .gc_s = 60,
		 .field = FIELDS(4, 4, 4, 1, 2),
		 .nfields = 5},
		{.name = "share",
		 .flags = NFT_SET_EVAL,
		 .type = RL_T2(RL_T_IFINDEX, RL_T_MARK),
		 .len = 8,
		 .size = LINK_SIZE,
		 .field = FIELDS(4, 4),
		 .nfields = 2},
		{.name = "lograte",
		 .flags = NFT_SET_EVAL,
		 .type = RL_T2(RL_T_IFINDEX, RL_T_MARK),
		 .len = 8,
		 .size = LINK_SIZE,
		 .field = FIELDS(4, 4),
		 .nfields = 2},
		{.name = "dnsrate",
		 .flags = NFT_SET_EVAL,
		 .type = RL_T2(RL_T_IFINDEX, RL_T_PROTO),
		 .len = 8,
		 .size = LINK_SIZE,
		 .field = FIELDS(4, 1),
		 .nfields = 2},
		{.name = "icmprate",
		 .flags = NFT_SET_EVAL,
		 .type = RL_T_IFINDEX,
		 .len = 4,
		 .size = LINK_SIZE},
	};

	for (size_t i = 0; i < EG_ARRAY_SIZE(sets); i++)
		rl_set(nl, &sets[i]);
}

static void fill_source(struct rl_gw *gw)
{
	for (uint32_t i = 0; i < gw->count; i++) {
		uint32_t slot = gw->first + i;
		uint8_t mac[EG_MAC_LEN];
		struct rl_elem e = {0};

		eg_plan_mac_slot(mac, slot);
		rl_key_host(&e.key, eg_plan_ifindex(gw->conf, slot));
		rl_key_addr(&e.key, eg_plan_addr(gw->conf, slot));
		rl_key_mac(&e.key, mac);
		rl_add(gw->nl, "source", &e);
	}
}

void rl_ranges_put(struct rl_nl *nl, const char *set, const struct rl_ranges *r)
{
	for (size_t i = 0; i < r->n; i++) {
		struct rl_elem lo = {0}, hi = {.interval_end = true};

		rl_key_addr(&lo.key, r->v[i].lo);
		rl_add(nl, set, &lo);
		if (r->v[i].hi == UINT32_MAX)
			break; /* open to the end of the space */
		rl_key_addr(&hi.key, r->v[i].hi + 1);
		rl_add(nl, set, &hi);
	}
}

void rl_gwtable_denied(struct rl_gw *gw, bool flush)
{
	const struct {
		const char *set;
		const struct rl_ranges *r;
	} all[] = {
		{"metadata", &gw->space.metadata},
		{"host", &gw->space.host},
		{"reserved", &gw->space.reserved},
		{"private", &gw->space.private},
	};

	for (size_t i = 0; i < EG_ARRAY_SIZE(all); i++) {
		/* the host's addresses are known to rl_gw_host() alone: what
		 * a former main put there stays until then */
		if (flush && all[i].r == &gw->space.host)
			continue;
		if (flush)
			rl_flush(gw->nl, all[i].set);
		rl_ranges_put(gw->nl, all[i].set, all[i].r);
	}
}

/* ---- rules --------------------------------------------------------------- */

static void on_link(struct rl_rule *r, uint32_t ifindex)
{
	rl_meta(r, NFT_META_IIF, R1);
	rl_eq32(r, R1, ifindex);
}

static void on_proto(struct rl_rule *r, uint8_t proto)
{
	rl_meta(r, NFT_META_L4PROTO, R1);
	rl_eq8(r, R1, proto);
}

static void on_low_mark(struct rl_rule *r, uint8_t low)
{
	rl_meta(r, NFT_META_MARK, R1);
	rl_mask(r, R1, EG_MARK_LOW, 0);
	rl_eq32(r, R1, low);
}

static void on_ct_state(struct rl_rule *r, uint32_t bits)
{
	rl_ct(r, NFT_CT_STATE, R1);
	rl_mask(r, R1, bits, 0);
	rl_ne32(r, R1, 0);
}

/* (link . ct mark) is that of a lease in force. */
static void on_live(struct rl_rule *r, uint32_t link)
{
	rl_meta(r, link, R1);
	rl_ct(r, NFT_CT_MARK, R2);
	rl_in(r, "live", R1);
}

static void set_low_mark(struct rl_rule *r, uint8_t low)
{
	rl_meta(r, NFT_META_MARK, R1);
	rl_mask(r, R1, EPOCH_BITS, low);
	rl_meta_set(r, NFT_META_MARK, R1);
}

/* link . epoch, as `share`, `lograte` and the head of `seen` are keyed */
static void load_link_epoch(struct rl_rule *r)
{
	rl_meta(r, NFT_META_IIF, R1);
	rl_meta(r, NFT_META_MARK, R2);
	rl_mask(r, R2, EPOCH_BITS, 0);
}

/* What comes from the world or the gateway itself is not decided by the
 * prerouting chains; `forward` and `input` are. */
static void pass_links(struct rl_nl *nl, const char *chain)
{
	struct rl_rule r;

	rl_rule(&r, nl, chain);
	on_link(&r, EG_IFINDEX_UPLINK);
	rl_accept(&r);
	rl_done(&r);
	rl_rule(&r, nl, chain);
	on_link(&r, IFINDEX_LO);
	rl_accept(&r);
	rl_done(&r);
}

static void rules_enter(struct rl_nl *nl)
{
	uint32_t zero = 0;
	struct rl_rule r;

	rl_rule(&r, nl, "enter");
	rl_imm(&r, R1, &zero, sizeof(zero));
	rl_meta_set(&r, NFT_META_MARK, R1);
	rl_done(&r);
	pass_links(nl, "enter");

	rl_rule(&r, nl, "enter");
	rl_meta(&r, NFT_META_IIF, R1);
	rl_map(&r, "lease", R1, R1);
	rl_meta_set(&r, NFT_META_MARK, R1);
	rl_done(&r);

	rl_rule(&r, nl, "enter");
	uint16_t ether = ARPHRD_ETHER;
	rl_meta(&r, NFT_META_IIFTYPE, R1);
	rl_cmp(&r, NFT_CMP_EQ, R1, &ether, sizeof(ether));
	rl_meta(&r, NFT_META_IIF, R1);
	rl_payload(&r, NH, 12, 4, R2);
	rl_payload(&r, LL, 6, 6, R3);
	rl_in(&r, "source", R1);
	rl_goto(&r, "own");
	rl_done(&r);

	rl_rule(&r, nl, "enter");
	rl_reason(&r, EG_REASON_SPOOFED);
	rl_done(&r);
}

/* A packet that is the slot's own: whole, plain, and of a lease. */
static void rules_own(struct rl_nl *nl)
{
	static const uint8_t frag[2] = {0x3f, 0xff}; /* MF and offset */
	static const uint8_t none[2];
	static const uint8_t words = 0x0f, five = 5, one = 1;
	struct rl_rule r;

	rl_rule(&r, nl, "own");
	rl_payload(&r, NH, 6, 2, R1);
	rl_mask_raw(&r, R1, frag, sizeof(frag));
	rl_cmp(&r, NFT_CMP_NEQ, R1, none, sizeof(none));
	rl_reason(&r, EG_REASON_FRAGMENT);
	rl_done(&r);

	/* five words of header: more are options */
	rl_rule(&r, nl, "own");
	rl_payload(&r, NH, 0, 1, R1);
	rl_mask_raw(&r, R1, &words, sizeof(words));
	rl_cmp(&r, NFT_CMP_NEQ, R1, &five, sizeof(five));
	rl_reason(&r, EG_REASON_INVALID);
	rl_done(&r);

	rl_rule(&r, nl, "own");
	rl_payload(&r, NH, 8, 1, R1);
	rl_cmp(&r, NFT_CMP_LTE, R1, &one, sizeof(one));
	rl_reason(&r, EG_REASON_INVALID);
	rl_done(&r);

	rl_rule(&r, nl, "own");
	rl_meta(&r, NFT_META_MARK, R1);
	rl_eq32(&r, R1, 0);
	rl_reason(&r, EG_REASON_UNLEASED);
	rl_done(&r);
}

/* Destinations routing would swallow before a socket sees them, so that the
 * guard cannot answer and `decide` has to: 0/8, 127/8, 224/3. */
static void rules_not_dns(struct rl_nl *nl, const char *chain)
{
	static const uint8_t head[] = {0, 127, 224};
	static const uint8_t mask[] = {0xff, 0xff, 0xe0};
	struct rl_rule r;

	for (size_t i = 0; i < sizeof(head); i++) {
		rl_rule(&r, nl, chain);
		rl_payload(&r, NH, 16, 1, R1);
		if (mask[i] != 0xff)
			rl_mask_raw(&r, R1, &mask[i], 1);
		rl_eq8(&r, R1, head[i]);
		rl_accept(&r);
		rl_done(&r);
	}
}

static void rule_dns_rate(struct rl_gw *gw, const char *chain, bool syn_only)
{
	uint32_t rate = gw->conf->dns_rate ? gw->conf->dns_rate : DNS_S;
	const struct rl_stateful over = {
		.kind = RL_STATE_LIMIT,
		.over = true,
		.rate = rate,
		.burst = gw->conf->dns_burst ? gw->conf->dns_burst : 2 * rate,
	};
	static const uint8_t syn_ack = 0x12, syn = 0x02;
	struct rl_rule r;

	rl_rule(&r, gw->nl, chain);
	if (syn_only) {
		rl_payload(&r, TH, 13, 1, R1);
		rl_mask_raw(&r, R1, &syn_ack, 1);
		rl_cmp(&r, NFT_CMP_EQ, R1, &syn, 1);
	}
	rl_meta(&r, NFT_META_IIF, R1);
	rl_meta(&r, NFT_META_L4PROTO, R2);
	rl_dynset(&r, "dnsrate", R1, true, &over);
	rl_reason(&r, EG_REASON_RATE);
	rl_done(&r);
}

/* Untracked and to the guard's socket. Without one, tproxy breaks the rule
 * and the next drops: no reset, no port unreachable, so that a resolver
 * waits and asks again instead of failing at once. */
static void rules_handover(struct rl_nl *nl, const char *chain)
{
	struct rl_rule r;

	rl_rule(&r, nl, chain);
	rl_notrack(&r);
	rl_tproxy(&r, PORT_DNS);
	set_low_mark(&r, EG_MARK_DNS);
	rl_accept(&r);
	rl_done(&r);
	rl_rule(&r, nl, chain);
	rl_count_here(&r);
	rl_drop(&r);
	rl_done(&r);
}

static void rules_guard(struct rl_gw *gw)
{
	static const struct {
		uint8_t proto;
		const char *chain;
	} kind[] = {{IPPROTO_UDP, "dnsudp"}, {IPPROTO_TCP, "dnstcp"}};
	struct rl_rule r;

	pass_links(gw->nl, "guard");
	rules_not_dns(gw->nl, "guard");
	for (size_t i = 0; i < EG_ARRAY_SIZE(kind); i++) {
		rl_rule(&r, gw->nl, "guard");
		on_proto(&r, kind[i].proto);
		rl_payload(&r, TH, 2, 2, R1);
		rl_eq16be(&r, R1, PORT_DNS);
		rl_goto(&r, kind[i].chain);
		rl_done(&r);
		rule_dns_rate(gw, kind[i].chain, kind[i].proto == IPPROTO_TCP);
		rules_handover(gw->nl, kind[i].chain);
	}
}

static void rule_dest_in(struct rl_nl *nl, const char *set, uint8_t reason)
{
	struct rl_rule r;

	rl_rule(&r, nl, "decide");
	rl_payload(&r, NH, 16, 4, R1);
	rl_in(&r, set, R1);
	rl_reason(&r, reason);
	rl_done(&r);
}

/* Addresses no policy opens; established flows included, so that an address
 * that becomes the host's own while a flow lives is closed too. */
static void rules_always_denied(struct rl_nl *nl)
{
	static const struct {
		uint32_t type;
		uint8_t reason;
	} fib[] = {
		{RTN_LOCAL, EG_REASON_HOST},
		{RTN_BROADCAST, EG_REASON_RESERVED},
		{RTN_ANYCAST, EG_REASON_RESERVED},
		{RTN_MULTICAST, EG_REASON_RESERVED},
	};
	struct rl_rule r;

	rule_dest_in(nl, "metadata", EG_REASON_METADATA);
	rule_dest_in(nl, "host", EG_REASON_HOST);
	rule_dest_in(nl, "reserved", EG_REASON_RESERVED);
	for (size_t i = 0; i < EG_ARRAY_SIZE(fib); i++) {
		rl_rule(&r, nl, "decide");
		rl_fib_type(&r, R1);
		rl_eq32(&r, R1, fib[i].type);
		rl_reason(&r, fib[i].reason);
		rl_done(&r);
	}
}

/* Flows: of this lease they pass; of an earlier one, or of none, never. */
static void rules_flows(struct rl_nl *nl)
{
	static const uint8_t flags = 0x17, syn = 0x02; /* FIN SYN RST ACK */
	struct rl_rule r;

	rl_rule(&r, nl, "decide");
	on_ct_state(&r, NF_CT_STATE_BIT(IP_CT_ESTABLISHED));
	on_live(&r, NFT_META_IIF);
	set_low_mark(&r, EG_MARK_PASS);
	rl_accept(&r);
	rl_done(&r);

	rl_rule(&r, nl, "decide");
	on_ct_state(&r, NF_CT_STATE_BIT(IP_CT_RELATED));
	on_proto(&r, IPPROTO_ICMP);
	on_live(&r, NFT_META_IIF);
	set_low_mark(&r, EG_MARK_PASS);
	rl_accept(&r);
	rl_done(&r);

	rl_rule(&r, nl, "decide");
	on_ct_state(&r, NF_CT_STATE_INVALID_BIT);
	rl_reason(&r, EG_REASON_INVALID);
	rl_done(&r);

	/* with tcp_loose a segment in the middle would start a flow */
	rl_rule(&r, nl, "decide");
	on_ct_state(&r, NF_CT_STATE_BIT(IP_CT_NEW));
	on_proto(&r, IPPROTO_TCP);
	rl_payload(&r, TH, 13, 1, R1);
	rl_mask_raw(&r, R1, &flags, 1);
	rl_cmp(&r, NFT_CMP_NEQ, R1, &syn, 1);
	rl_reason(&r, EG_REASON_INVALID);
	rl_done(&r);

	rl_rule(&r, nl, "decide");
	on_ct_state(&r, NF_CT_STATE_BIT(IP_CT_ESTABLISHED) |
				NF_CT_STATE_BIT(IP_CT_RELATED));
	rl_reason(&r, EG_REASON_NOT_ALLOWED);
	rl_done(&r);
}

/* A new flow to the slot's own chain, which knows addresses with a port (or
 * for icmp a type); in other protocols what lies there is no port. */
static void rules_decide(struct rl_nl *nl)
{
	static const uint8_t ported[] = {IPPROTO_TCP,  IPPROTO_UDP,
					 IPPROTO_ICMP, IPPROTO_SCTP,
					 IPPROTO_DCCP, IPPROTO_UDPLITE};
	struct rl_rule r;

	pass_links(nl, "decide");
	rl_rule(&r, nl, "decide");
	on_low_mark(&r, EG_MARK_DNS);
	rl_accept(&r);
	rl_done(&r);
	rules_always_denied(nl);
	rules_flows(nl);
	for (size_t i = 0; i < sizeof(ported); i++) {
		rl_rule(&r, nl, "decide");
		on_proto(&r, ported[i]);
		rl_jump(&r, "own_sets");
		rl_done(&r);
	}
	rule_dest_in(nl, "private", EG_REASON_PRIVATE);
	rl_rule(&r, nl, "decide");
	rl_reason(&r, EG_REASON_NOT_ALLOWED);
	rl_done(&r);
	rl_rule(&r, nl, "own_sets");
	rl_meta(&r, NFT_META_IIF, R1);
	rl_vmap(&r, "slots", R1);
	rl_done(&r);
}

static void rule_slot(struct rl_nl *nl, const char *chain, const char *set,
		      bool icmp)
{
	struct rl_rule r;

	rl_rule(&r, nl, chain);
	rl_meta(&r, NFT_META_L4PROTO, R1);
	if (icmp)
		rl_eq8(&r, R1, IPPROTO_ICMP);
	else
		rl_ne8(&r, R1, IPPROTO_ICMP);
	rl_payload(&r, NH, 16, 4, R1);
	rl_meta(&r, NFT_META_L4PROTO, R2);
	rl_payload(&r, TH, icmp ? 0 : 2, icmp ? 1 : 2, R3);
	rl_in(&r, set, R1);
	rl_goto(&r, "pass");
	rl_done(&r);
}

static void slot_chains(struct rl_gw *gw)
{
	char chain[RL_SET_NAME], set[RL_SET_NAME];
	const struct rl_set map = {.name = "slots",
				   .flags = NFT_SET_MAP,
				   .type = RL_T_IFINDEX,
				   .len = 4,
				   .data_type = RL_T_VERDICT,
				   .size = gw->count};

	rl_set(gw->nl, &map);
	for (uint32_t i = 0; i < gw->count; i++) {
		const struct rl_chain c = {
			.name = rl_set_name(chain, 's', i),
		};

		rl_chain(gw->nl, &c);
		rule_slot(gw->nl, chain, rl_set_name(set, 'p', i), false);
		rule_slot(gw->nl, chain, rl_set_name(set, 'x', i), false);
		rule_slot(gw->nl, chain, rl_set_name(set, 'p', i), true);
		rule_slot(gw->nl, chain, rl_set_name(set, 'x', i), true);
	}
	for (uint32_t i = 0; i < gw->count; i++) {
		struct rl_elem e = {.chain = rl_set_name(chain, 's', i)};

		rl_key_host(&e.key, EG_IFINDEX_SLOT + i);
		rl_add(gw->nl, "slots", &e);
	}
}

/* A new flow that the policy allows: within the lease's quota it gets the
 * lease's epoch as its mark, by which it lives and dies. */
static void rules_pass(struct rl_nl *nl)
{
	static const char *const quota[] = {"newflows", "flows"};
	struct rl_rule r;

	for (size_t i = 0; i < EG_ARRAY_SIZE(quota); i++) {
		rl_rule(&r, nl, "pass");
		rl_meta(&r, NFT_META_IIF, R1);
		rl_in(&r, quota[i], R1);
		rl_reason(&r, EG_REASON_QUOTA);
		rl_done(&r);
	}
	rl_rule(&r, nl, "pass");
	rl_goto(&r, "admit");
	rl_done(&r);

	rl_rule(&r, nl, "admit");
	rl_meta(&r, NFT_META_MARK, R1);
	rl_mask(&r, R1, EPOCH_BITS, 0);
	rl_ct_set(&r, NFT_CT_MARK, R1);
	set_low_mark(&r, EG_MARK_PASS);
	rl_accept(&r);
	rl_done(&r);
}

/* ---- the deny path of a gateway ------------------------------------------ */

/* link . epoch . destination . protocol . port: a destination of a lease */
static void load_seen(struct rl_rule *r, bool port)
{
	load_link_epoch(r);
	rl_payload(r, NH, 16, 4, R3);
	rl_meta(r, NFT_META_L4PROTO, R4);
	if (port)
		rl_payload(r, TH, 2, 2, R5);
	else
		rl_meta(r, NFT_META_L4PROTO, R5); /* a constant will do */
}

/*
 * A destination not seen yet, within the lease's share, is logged and
 * remembered; so each leaves evidence however fast others are repeated.
 * Protocols without ports have one entry a destination. Whatever cannot be
 * remembered falls to the rate.
 */
static void rules_new_dest(struct rl_nl *nl, const char *chain, bool port)
{
	const struct rl_stateful share = {.kind = RL_STATE_LIMIT,
					  .rate = SHARE,
					  .unit = SEEN_TIMEOUT_S,
					  .burst = SHARE};
	struct rl_rule r;

	rl_rule(&r, nl, chain);
	load_seen(&r, port);
	rl_in(&r, "seen", R1);
	rl_goto(&r, C_WEIGH_RATE);
	rl_done(&r);

	rl_rule(&r, nl, chain);
	load_link_epoch(&r);
	rl_dynset(&r, "share", R1, true, &share);
	load_seen(&r, port);
	rl_dynset(&r, "seen", R1, false, NULL);
	rl_goto(&r, RL_C_EMIT);
	rl_done(&r);

	rl_rule(&r, nl, chain);
	rl_goto(&r, C_WEIGH_RATE);
	rl_done(&r);
}

static void rules_weigh(struct rl_nl *nl)
{
	const struct rl_stateful rate = {.kind = RL_STATE_LIMIT,
					 .rate = RL_LOG_S,
					 .burst = RL_LOG_BURST(RL_LOG_S)};
	static const uint8_t ported[] = {IPPROTO_TCP, IPPROTO_UDP};
	struct rl_rule r;

	for (size_t i = 0; i < sizeof(ported); i++) {
		rl_rule(&r, nl, RL_C_WEIGH);
		on_proto(&r, ported[i]);
		rl_goto(&r, C_WEIGH_PORT);
		rl_done(&r);
	}
	rules_new_dest(nl, RL_C_WEIGH, false);
	rules_new_dest(nl, C_WEIGH_PORT, true);

	rl_rule(&r, nl, C_WEIGH_RATE);
	load_link_epoch(&r);
	rl_dynset(&r, "lograte", R1, true, &rate);
	rl_goto(&r, RL_C_EMIT);
	rl_done(&r);
	rl_deny_suppress(nl, C_WEIGH_RATE);
}

/* What is never answered: its sender is not known to be the slot (spoofed),
 * or an answer would be amplification or noise. */
static void rules_verdict(struct rl_nl *nl)
{
	static const uint8_t silent[] = {EG_REASON_SPOOFED, EG_REASON_FRAGMENT,
					 EG_REASON_UNLEASED, EG_REASON_RATE};
	const struct rl_stateful rate = {
		.kind = RL_STATE_LIMIT, .rate = ICMP_S, .burst = ICMP_S};
	struct rl_rule r;

	/* report mode: what is only not listed has been logged and passes */
	rl_rule(&r, nl, RL_C_VERDICT);
	on_low_mark(&r, EG_REASON_NOT_ALLOWED);
	rl_meta(&r, NFT_META_IIF, R1);
	rl_in(&r, "report", R1);
	on_ct_state(&r, NF_CT_STATE_BIT(IP_CT_NEW));
	rl_goto(&r, "admit");
	rl_done(&r);

	rl_rule(&r, nl, RL_C_VERDICT);
	rl_meta(&r, NFT_META_IIF, R1);
	rl_in(&r, "quiet", R1);
	rl_drop(&r);
	rl_done(&r);
	for (size_t i = 0; i < sizeof(silent); i++) {
		rl_rule(&r, nl, RL_C_VERDICT);
		on_low_mark(&r, silent[i]);
		rl_drop(&r);
		rl_done(&r);
	}
	rl_rule(&r, nl, RL_C_VERDICT);
	on_proto(&r, IPPROTO_TCP);
	rl_reject_tcp(&r);
	rl_done(&r);
	rl_rule(&r, nl, RL_C_VERDICT);
	rl_meta(&r, NFT_META_IIF, R1);
	rl_dynset(&r, "icmprate", R1, true, &rate);
	rl_reject_icmp(&r, ICMP_PKT_FILTERED);
	rl_done(&r);
	rl_rule(&r, nl, RL_C_VERDICT);
	rl_drop(&r);
	rl_done(&r);
}

/* ---- beyond prerouting --------------------------------------------------- */

/* Counting is a rule of its own that ends in no verdict: an element that is
 * missing breaks nothing but the count. */
static void rules_forward(struct rl_nl *nl)
{
	struct rl_rule r;

	rl_rule(&r, nl, "forward");
	rl_meta(&r, NFT_META_IIF, R1);
	rl_meta(&r, NFT_META_MARK, R2);
	rl_in(&r, "tx", R1);
	rl_done(&r);
	rl_rule(&r, nl, "forward");
	on_low_mark(&r, EG_MARK_PASS);
	rl_meta(&r, NFT_META_OIF, R1);
	rl_eq32(&r, R1, EG_IFINDEX_UPLINK);
	rl_accept(&r);
	rl_done(&r);

	rl_rule(&r, nl, "forward");
	on_link(&r, EG_IFINDEX_UPLINK);
	on_ct_state(&r, NF_CT_STATE_BIT(IP_CT_ESTABLISHED));
	on_live(&r, NFT_META_OIF);
	rl_goto(&r, "back");
	rl_done(&r);
	rl_rule(&r, nl, "forward");
	on_link(&r, EG_IFINDEX_UPLINK);
	on_ct_state(&r, NF_CT_STATE_BIT(IP_CT_RELATED));
	on_proto(&r, IPPROTO_ICMP);
	on_live(&r, NFT_META_OIF);
	rl_goto(&r, "back");
	rl_done(&r);

	rl_rule(&r, nl, "back");
	rl_meta(&r, NFT_META_OIF, R1);
	rl_ct(&r, NFT_CT_MARK, R2);
	rl_in(&r, "rx", R1);
	rl_done(&r);
	rl_rule(&r, nl, "back");
	rl_accept(&r);
	rl_done(&r);
}

static void rules_local(struct rl_nl *nl)
{
	static const uint8_t proto[] = {IPPROTO_UDP, IPPROTO_TCP};
	struct rl_rule r;

	for (size_t i = 0; i < sizeof(proto); i++) {
		rl_rule(&r, nl, "input");
		on_low_mark(&r, EG_MARK_DNS);
		on_proto(&r, proto[i]);
		rl_payload(&r, TH, 2, 2, R1);
		rl_eq16be(&r, R1, PORT_DNS);
		rl_accept(&r);
		rl_done(&r);

		/* the query was not tracked; its answer must not be either */
		rl_rule(&r, nl, "answer");
		on_proto(&r, proto[i]);
		rl_payload(&r, TH, 0, 2, R1);
		rl_eq16be(&r, R1, PORT_DNS);
		rl_meta(&r, NFT_META_OIF, R1);
		uint32_t up = EG_IFINDEX_UPLINK;
		rl_cmp(&r, NFT_CMP_NEQ, R1, &up, sizeof(up));
		rl_notrack(&r);
		rl_done(&r);
	}
}

static void chains(struct rl_nl *nl)
{
	static const struct rl_chain all[] = {
		{.name = "pass"},
		{.name = "admit"},
		{.name = "own"},
		{.name = "own_sets"},
		{.name = "dnsudp"},
		{.name = "dnstcp"},
		{.name = "back"},
		{.name = RL_C_DENY},
		{.name = RL_C_WEIGH},
		{.name = C_WEIGH_PORT},
		{.name = C_WEIGH_RATE},
		{.name = RL_C_EMIT},
		{.name = RL_C_VERDICT},
		{"forward", "filter", NF_INET_FORWARD, 0, true},
		{"input", "filter", NF_INET_LOCAL_IN, 0, true},
		{"enter", "filter", NF_INET_PRE_ROUTING, -450, false},
		{"guard", "filter", NF_INET_PRE_ROUTING, -300, false},
		{"decide", "filter", NF_INET_PRE_ROUTING, -150, true},
		{"answer", "filter", NF_INET_LOCAL_OUT, -300, false},
	};

	for (size_t i = 0; i < EG_ARRAY_SIZE(all); i++)
		rl_chain(nl, &all[i]);
}

void rl_gwtable_comment(const struct rl_gw *gw, char *buf, size_t cap)
{
	const struct eg_conf *c = gw->conf;

	/* everything baked into rules or static elements; sets that are
	 * filled again by rl_gw_adopt() are not part of it */
	(void)snprintf(
		buf, cap,
		"egressd layout %d prefix %08x/%u link %08x/%u slots %u+%u dns %u/%u snaplen %u",
		RL_LAYOUT, c->prefix.addr, c->prefix.len, c->link_prefix.addr,
		c->link_prefix.len, gw->first, gw->count, c->dns_rate,
		c->dns_burst, c->snaplen);
}

void rl_gwtable_put(struct rl_gw *gw)
{
	struct rl_nl *nl = gw->nl;
	char comment[160];

	rl_gwtable_comment(gw, comment, sizeof(comment));
	rl_table_gone(nl);
	rl_table(nl, comment);
	/*
	 * The kernel finds a set by walking the table's list from its
	 * beginning: the shared ones, which every lease and release asks,
	 * stand before the two of each slot.
	 */
	lease_sets(nl, gw->count);
	denied_sets(nl);
	rl_deny_sets(nl);
	packet_sets(nl);
	slot_sets(gw);
	chains(nl);
	fill_source(gw);
	rl_gwtable_denied(gw, false);
	rules_pass(nl);
	slot_chains(gw);
	rules_enter(nl);
	rules_own(nl);
	rules_guard(gw);
	rules_decide(nl);
	rl_deny_count(nl);
	rules_weigh(nl);
	rl_deny_emit(nl, EG_NFLOG_GROUP, gw->conf->snaplen);
	rules_verdict(nl);
	rules_forward(nl);
	rules_local(nl);
}
