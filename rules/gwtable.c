// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: the table of a gateway.
 *
 * Order, which no policy can change (the numbers are hook priorities in
 * prerouting):
 *
 *  -450 pre     before defragmentation: whose packet is it? Source address
 *               and MAC must be the slot's own; no fragments, no IP options,
 *               no TTL of 1; no lease, no traffic.
 *  -300 raw     port 53, whatever the destination, goes to the guard,
 *               untracked, under a limit of the link's own.
 *  -150 decide  after conntrack and before routing can swallow anything:
 *               always-denied destinations (established flows included),
 *               flows of the lease in `live`, then the slot's own sets.
 *     0 fwd,inp accept what was marked and replies to it, and drop the rest.
 *
 * Every denial passes `deny`: counted by (link, mark), where the mark is the
 * lease's epoch and the reason; then either logged and counted as `sent` by
 * the very rule that logs, or counted as `suppressed`. So denied = suppressed
 * + sent holds by construction; what finds no room for its counter is in
 * `unattributed`. A limit never decides a verdict.
 *
 * All verdicts are static. What a lease or a pin adds is plain set elements,
 * which the kernel takes without looking at the rules again. Pin sets come
 * first: the kernel finds a set by walking the table's list.
 */
#include "netpool/base/plan.h"
#include "netpool/base/reason.h"
#include "netpool/base/util.h"
#include "rules/expr.h"
#include "rules/gw.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#define IP RL_FAMILY_IP
#define T EG_TABLE
#define LL NFT_PAYLOAD_LL_HEADER
#define NH NFT_PAYLOAD_NETWORK_HEADER
#define TH NFT_PAYLOAD_TRANSPORT_HEADER
#define IFINDEX_LO 1

#define CT_INVALID 1U
#define CT_ESTABLISHED 2U
#define CT_RELATED 4U
#define CT_NEW 8U

#define PIN_GC_MS 60000U  /* collectors run for every set: seldom is enough */
#define SEEN_MS 600000U	  /* a destination is "new" again after this */
#define SHARE_MS 3600000U
#define RATE_MS 60000U

const char *rl_gw_name(char buf[RL_NAME], char kind, uint32_t index)
{
	(void)snprintf(buf, RL_NAME, "%c%03u", kind, index % 1000);
	return buf;
}

/* ---- ranges --------------------------------------------------------------------- */

static int range_order(const void *a, const void *b)
{
	const struct rl_range *x = a, *y = b;

	return x->lo < y->lo ? -1 : x->lo > y->lo;
}

size_t rl_ranges_merge(struct rl_range *r, size_t n)
{
	size_t m = 0;

	qsort(r, n, sizeof(*r), range_order);
	for (size_t i = 0; i < n; i++) {
		/* Adjacent ones join too, up to the end of the address space. */
		if (m && (r[m - 1].hi == UINT32_MAX ||
			  r[i].lo <= r[m - 1].hi + 1)) {
			if (r[i].hi > r[m - 1].hi)
				r[m - 1].hi = r[i].hi;
			continue;
		}
		r[m++] = r[i];
	}
	return m;
}

void rl_ranges_elems(struct rl_batch *b, uint16_t family, const char *set,
		     const struct rl_range *r, size_t n)
{
	struct nftnl_set *s = n ? rl_elems(T, set) : NULL;
	bool ok = s != NULL;

	if (!n)
		return;
	for (size_t i = 0; ok && i < n; i++) {
		uint32_t lo = htonl(r[i].lo), end = htonl(r[i].hi + 1);

		ok = rl_elem(s, &lo, sizeof(lo), 0);
		if (ok && r[i].hi != UINT32_MAX)
			ok = rl_elem_end(s, &end, sizeof(end));
	}
	if (!ok)
		rl_batch_spoil(b, -ENOMEM);
	rl_batch_elems(b, family, s, set);
}

size_t rl_ranges_class(const struct eg_conf *conf, uint8_t class,
		       struct rl_range *ret, size_t cap)
{
	size_t n = 0;

	for (uint32_t i = 0; i < conf->denies && n < cap; i++)
		if (conf->deny[i].class == class)
			ret[n++] = (struct rl_range){
				conf->deny[i].dst.addr,
				eg_prefix_last(conf->deny[i].dst)
			};
	return rl_ranges_merge(ret, n);
}

void rl_host_elems(struct rl_batch *b, const struct eg_conf *conf,
		   const uint32_t *addr, size_t n)
{
	struct rl_range r[EG_HOST_ADDRS + 2];
	size_t m = 0;

	r[m++] = (struct rl_range){ conf->prefix.addr,
				    eg_prefix_last(conf->prefix) };
	r[m++] = (struct rl_range){ conf->link_prefix.addr,
				    eg_prefix_last(conf->link_prefix) };
	for (size_t i = 0; i < n && m < EG_ARRAY_SIZE(r); i++)
		r[m++] = (struct rl_range){ addr[i], addr[i] };
	m = rl_ranges_merge(r, m);
	rl_ranges_elems(b, IP, "host", r, m);
}

/* ---- sets --------------------------------------------------------------------------- */

struct build {
	struct rl_batch *b;
	const struct eg_conf *c;
	uint32_t gw, first, n;
	uint32_t set_id;
};

static void set(struct build *w, struct rl_set_spec spec)
{
	spec.table = T;
	rl_batch_set(w->b, IP, rl_set(&spec, ++w->set_id), "a set");
}

#define PIN_KEY RL_T3(RL_T_IPADDR, RL_T_PROTO, RL_T_SERVICE)
#define LINK_MARK RL_T2(RL_T_IFINDEX, RL_T_MARK)

static void slot_sets(struct build *w)
{
	char name[RL_NAME];

	for (uint32_t i = 0; i < w->n; i++)
		set(w, (struct rl_set_spec){ .name = rl_gw_name(name, 'p', i),
					     .key_type = PIN_KEY,
					     .key_len = 12,
					     .flags = NFT_SET_TIMEOUT,
					     .gc_ms = PIN_GC_MS });
	for (uint32_t i = 0; i < w->n; i++)
		set(w, (struct rl_set_spec){ .name = rl_gw_name(name, 'x', i),
					     .key_type = PIN_KEY,
					     .key_len = 12,
					     .flags = NFT_SET_INTERVAL,
					     .field = { 4, 1, 2 },
					     .nfields = 3 });
}

static void counter_set(struct build *w, const char *name, uint32_t per_slot)
{
	set(w, (struct rl_set_spec){ .name = name, .key_type = LINK_MARK,
				     .key_len = 8, .flags = NFT_SET_EVAL,
				     .size = w->n * per_slot });
}

static void rate_set(struct build *w, const char *name, uint32_t type,
		     uint32_t len, uint32_t size, uint64_t timeout)
{
	set(w, (struct rl_set_spec){ .name = name, .key_type = type,
				     .key_len = len,
				     .flags = NFT_SET_EVAL | NFT_SET_TIMEOUT,
				     .size = size, .timeout_ms = timeout,
				     .gc_ms = PIN_GC_MS });
}

static void state_sets(struct build *w)
{
	set(w, (struct rl_set_spec){ .name = "lease",
				     .key_type = RL_T_IFINDEX, .key_len = 4,
				     .data_type = RL_T_MARK, .data_len = 4 });
	set(w, (struct rl_set_spec){ .name = "live", .key_type = LINK_MARK,
				     .key_len = 8 });
	set(w, (struct rl_set_spec){ .name = "quiet",
				     .key_type = RL_T_IFINDEX, .key_len = 4 });
	counter_set(w, "denied", RL_COUNTERS_PER_SLOT);
	counter_set(w, "sent", RL_COUNTERS_PER_SLOT);
	counter_set(w, "suppressed", RL_COUNTERS_PER_SLOT);
	counter_set(w, "tx", 4);
	counter_set(w, "rx", 4);
	rate_set(w, "seen",
		 RL_T5(RL_T_IFINDEX, RL_T_MARK, RL_T_IPADDR, RL_T_PROTO,
		       RL_T_SERVICE),
		 20, w->n * RL_SEEN_PER_LEASE, SEEN_MS);
	rate_set(w, "share", LINK_MARK, 8, w->n * 4, SHARE_MS);
	rate_set(w, "lograte", RL_T_IFINDEX, 4, w->n * 2, RATE_MS);
	rate_set(w, "icmprate", RL_T_IFINDEX, 4, w->n * 2, RATE_MS);
	rate_set(w, "dnsrate", RL_T2(RL_T_IFINDEX, RL_T_PROTO), 8, w->n * 4,
		 RATE_MS);
	rl_batch_obj(w->b, IP, rl_counter_obj(T, "unattributed"),
		     "counter unattributed");
	rl_batch_obj(w->b, IP, rl_counter_obj(T, "stray"), "counter stray");
}

static void class_set(struct build *w, const char *name, int class)
{
	struct rl_range r[EG_CONF_DENY_ADDRS];
	size_t n;

	set(w, (struct rl_set_spec){ .name = name, .key_type = RL_T_IPADDR,
				     .key_len = 4,
				     .flags = NFT_SET_INTERVAL });
	if (class < 0)
		return;
	n = rl_ranges_class(w->c, (uint8_t)class, r, EG_ARRAY_SIZE(r));
	rl_ranges_elems(w->b, IP, name, r, n);
}

static void byte_set(struct build *w, const char *name, uint32_t type,
		     uint32_t len, const uint8_t *v, size_t n)
{
	struct nftnl_set *s = rl_elems(T, name);
	bool ok = s != NULL;

	set(w, (struct rl_set_spec){ .name = name, .key_type = type,
				     .key_len = len });
	for (size_t i = 0; ok && i < n; i++) {
		uint32_t wide = v[i];

		ok = len == 1 ? rl_elem(s, &v[i], 1, 0)
			      : rl_elem(s, &wide, 4, 0);
	}
	if (!ok)
		rl_batch_spoil(w->b, -ENOMEM);
	rl_batch_elems(w->b, IP, s, name);
}

static void fixed_sets(struct build *w)
{
	static const uint8_t ports[] = { IPPROTO_TCP, IPPROTO_UDP,
					 IPPROTO_SCTP, IPPROTO_DCCP,
					 IPPROTO_UDPLITE };
	/* Nobody is to be answered, or answering would be abused. */
	static const uint8_t silent[] = { EG_REASON_SPOOFED,
					  EG_REASON_FRAGMENT, EG_REASON_RATE,
					  EG_REASON_UNLEASED };

	class_set(w, "metadata", EG_DENY_METADATA);
	class_set(w, "reserved", EG_DENY_RESERVED);
	class_set(w, "private", EG_DENY_PRIVATE);
	class_set(w, "host", -1);
	rl_host_elems(w->b, w->c, NULL, 0);
	byte_set(w, "ports", RL_T_PROTO, 1, ports, sizeof(ports));
	byte_set(w, "silent", RL_T_MARK, 4, silent, sizeof(silent));
}

/* The slots' own addresses, and which chain asks which sets. */
static void link_sets(struct build *w)
{
	struct nftnl_set *src = rl_elems(T, "source");
	struct nftnl_set *slots = rl_elems(T, "slots");
	bool ok = src && slots;
	char name[RL_NAME];

	set(w, (struct rl_set_spec){ .name = "source",
				     .key_type = RL_T3(RL_T_IFINDEX,
						       RL_T_IPADDR,
						       RL_T_ETHERADDR),
				     .key_len = 16 });
	set(w, (struct rl_set_spec){ .name = "slots",
				     .key_type = RL_T_IFINDEX, .key_len = 4,
				     .data_type = 0xffffff00U });
	for (uint32_t i = 0; ok && i < w->n; i++) {
		struct {
			uint32_t ifindex, addr;
			uint8_t mac[8];
		} k = { .ifindex = EG_IFINDEX_SLOT + i,
			.addr = htonl(eg_plan_addr(w->c, w->first + i)) };

		eg_plan_mac_slot(k.mac, w->first + i);
		ok = rl_elem(src, &k, sizeof(k), 0) &&
		     rl_elem_goto(slots, &k.ifindex, 4,
				  rl_gw_name(name, 's', i));
	}
	if (!ok)
		rl_batch_spoil(w->b, -ENOMEM);
	rl_batch_elems(w->b, IP, src, "source");
	rl_batch_elems(w->b, IP, slots, "slots");
}

/* ---- pieces of rules ------------------------------------------------------------------- */

static void begin(struct rl_rule *x, const char *chain)
{
	rl_rule_begin(x, IP, T, chain);
}

static void add(struct build *w, struct rl_rule *x, const char *what)
{
	rl_batch_rule(w->b, IP, rl_rule_take(x), what);
}

static void to(struct build *w, struct rl_rule *x, const char *chain)
{
	rl_verdict(x, NFT_GOTO, chain);
	add(w, x, chain);
}

/* Put the reason into the mark and go to `deny`. */
static void deny(struct build *w, struct rl_rule *x, enum eg_reason reason)
{
	rl_meta(x, NFT_META_MARK, 0);
	rl_bitwise(x, 0, ~EG_MARK_LOW, reason);
	rl_meta_set(x, NFT_META_MARK, 0);
	to(w, x, "deny");
}

static void iif_is(struct rl_rule *x, uint32_t ifindex)
{
	rl_meta(x, NFT_META_IIF, 0);
	rl_cmp_u32(x, NFT_CMP_EQ, 0, ifindex);
}

static void proto_is(struct rl_rule *x, uint8_t proto)
{
	rl_meta(x, NFT_META_L4PROTO, 0);
	rl_cmp_u8(x, NFT_CMP_EQ, 0, proto);
}

static void proto_has_ports(struct rl_rule *x)
{
	rl_meta(x, NFT_META_L4PROTO, 0);
	rl_lookup(x, "ports", 0, false);
}

static void mark_low_is(struct rl_rule *x, uint32_t low)
{
	rl_meta(x, NFT_META_MARK, 0);
	rl_bitwise(x, 0, EG_MARK_LOW, 0);
	rl_cmp_u32(x, NFT_CMP_EQ, 0, low);
}

static void ct_state(struct rl_rule *x, uint32_t bits)
{
	rl_ct(x, NFT_CT_STATE, 0);
	rl_bitwise(x, 0, bits, 0);
	rl_cmp_u32(x, NFT_CMP_NEQ, 0, 0);
}

/* (link, epoch) of the packet in registers 0 and 1 */
static void link_epoch(struct rl_rule *x)
{
	rl_meta(x, NFT_META_MARK, 1);
	rl_bitwise(x, 1, ~EG_MARK_LOW, 0);
	rl_meta(x, NFT_META_IIF, 0);
}

static void link_mark(struct rl_rule *x)
{
	rl_meta(x, NFT_META_IIF, 0);
	rl_meta(x, NFT_META_MARK, 1);
}

/* Packets of the host's side and of the gateway itself are not ours. */
static void not_from_slots(struct build *w, const char *chain)
{
	static const uint32_t links[] = { EG_IFINDEX_UPLINK, IFINDEX_LO };
	struct rl_rule x;

	for (size_t i = 0; i < EG_ARRAY_SIZE(links); i++) {
		begin(&x, chain);
		iif_is(&x, links[i]);
		rl_verdict(&x, NF_ACCEPT, NULL);
		add(w, &x, chain);
	}
}

/* ---- chains --------------------------------------------------------------------------------- */

static void base_chain(struct build *w, const char *name, uint32_t hook,
		       int32_t prio, uint32_t policy)
{
	rl_batch_chain(w->b, IP, rl_chain(T, name, "filter", hook, prio,
					  policy), "a base chain");
}

static void chain(struct build *w, const char *name)
{
	rl_batch_chain(w->b, IP, rl_chain(T, name, NULL, RL_NO_HOOK, 0, 0),
		       "a chain");
}

static void chains(struct build *w)
{
	static const char *const names[] = { "deny",	  "deny_log",
					     "deny_rep",  "deny_send",
					     "deny_end",  "dns",
					     "pass",	  "pass_new" };
	char name[RL_NAME];

	for (size_t i = 0; i < EG_ARRAY_SIZE(names); i++)
		chain(w, names[i]);
	for (uint32_t i = 0; i < w->n; i++)
		chain(w, rl_gw_name(name, 's', i));
	/* Default drop first: nothing is forwarded before it is in force. */
	base_chain(w, "fwd", NF_INET_FORWARD, 0, NF_DROP);
	base_chain(w, "inp", NF_INET_LOCAL_IN, 0, NF_DROP);
	base_chain(w, "pre", NF_INET_PRE_ROUTING, -450, NF_ACCEPT);
	base_chain(w, "raw", NF_INET_PRE_ROUTING, -300, NF_ACCEPT);
	base_chain(w, "decide", NF_INET_PRE_ROUTING, -150, NF_ACCEPT);
}

static void pre_rules(struct build *w)
{
	static const uint8_t frag[2] = { 0x3f, 0xff }, none[2];
	static const uint8_t ihl = 0x0f;
	struct rl_rule x;

	not_from_slots(w, "pre");
	begin(&x, "pre");
	rl_imm_u32(&x, 0, 0);
	rl_meta_set(&x, NFT_META_MARK, 0);
	add(w, &x, "pre: clear mark");
	begin(&x, "pre");
	rl_meta(&x, NFT_META_IIF, 0);
	rl_lookup_map(&x, "lease", 0, 1);
	rl_meta_set(&x, NFT_META_MARK, 1);
	add(w, &x, "pre: epoch");
	begin(&x, "pre");
	rl_meta(&x, NFT_META_IIF, 0);
	rl_payload(&x, NH, 12, 4, 1);
	rl_payload(&x, LL, 6, 6, 2);
	rl_lookup(&x, "source", 0, true);
	deny(w, &x, EG_REASON_SPOOFED);
	begin(&x, "pre");
	rl_payload(&x, NH, 6, 2, 0);
	rl_bitwise_raw(&x, 0, frag, 2);
	rl_cmp(&x, NFT_CMP_NEQ, 0, none, 2);
	deny(w, &x, EG_REASON_FRAGMENT);
	begin(&x, "pre");
	rl_payload(&x, NH, 0, 1, 0);
	rl_bitwise_raw(&x, 0, &ihl, 1);
	rl_cmp_u8(&x, NFT_CMP_GT, 0, 5);
	deny(w, &x, EG_REASON_INVALID);
	begin(&x, "pre");
	rl_payload(&x, NH, 8, 1, 0);
	rl_cmp_u8(&x, NFT_CMP_LTE, 0, 1);
	deny(w, &x, EG_REASON_INVALID);
	begin(&x, "pre");
	rl_meta(&x, NFT_META_MARK, 0);
	rl_cmp_u32(&x, NFT_CMP_EQ, 0, 0);
	deny(w, &x, EG_REASON_UNLEASED);
}

static void raw_rules(struct build *w)
{
	static const uint8_t protos[] = { IPPROTO_UDP, IPPROTO_TCP };
	struct rl_rule x;

	not_from_slots(w, "raw");
	for (size_t i = 0; i < EG_ARRAY_SIZE(protos); i++) {
		begin(&x, "raw");
		proto_is(&x, protos[i]);
		rl_payload(&x, TH, 2, 2, 0);
		rl_cmp_be16(&x, NFT_CMP_EQ, 0, 53);
		to(w, &x, "dns");
	}
}

static void dns_limit(struct build *w, bool tcp)
{
	static const uint8_t flags = 0x17; /* FIN SYN RST ACK */
	struct rl_rule x;

	begin(&x, "dns");
	proto_is(&x, tcp ? IPPROTO_TCP : IPPROTO_UDP);
	if (tcp) { /* connections, not their segments */
		rl_payload(&x, TH, 13, 1, 0);
		rl_bitwise_raw(&x, 0, &flags, 1);
		rl_cmp_u8(&x, NFT_CMP_EQ, 0, 0x02);
	}
	rl_meta(&x, NFT_META_IIF, 0);
	rl_meta(&x, NFT_META_L4PROTO, 1);
	rl_dynset_limit(&x, "dnsrate", 0, w->c->dns_rate, 1, w->c->dns_burst,
			true);
	deny(w, &x, EG_REASON_RATE);
}

static void dns_rules(struct build *w)
{
	static const uint8_t protos[] = { IPPROTO_UDP, IPPROTO_TCP };
	uint16_t port = htons(53);
	struct rl_rule x;

	dns_limit(w, false);
	dns_limit(w, true);
	for (size_t i = 0; i < EG_ARRAY_SIZE(protos); i++) {
		begin(&x, "dns");
		proto_is(&x, protos[i]);
		rl_notrack(&x);
		rl_imm(&x, 0, &port, sizeof(port));
		rl_tproxy(&x, 0);
		rl_meta(&x, NFT_META_MARK, 0);
		rl_bitwise(&x, 0, ~EG_MARK_LOW, EG_MARK_DNS);
		rl_meta_set(&x, NFT_META_MARK, 0);
		rl_verdict(&x, NF_ACCEPT, NULL);
		add(w, &x, "dns: to the guard");
	}
	/*
	 * No socket listens: the tproxy statement ended its rule. Silence, so
	 * that a resolver waits and asks again instead of failing at once.
	 */
	begin(&x, "dns");
	rl_verdict(&x, NF_DROP, NULL);
	add(w, &x, "dns: nobody listens");
}

static void decide_denied(struct build *w)
{
	static const struct {
		const char *set;
		enum eg_reason reason;
	} sets[] = { { "metadata", EG_REASON_METADATA },
		     { "host", EG_REASON_HOST },
		     { "reserved", EG_REASON_RESERVED } };
	static const struct {
		uint32_t type;
		enum eg_reason reason;
	} types[] = { { RTN_LOCAL, EG_REASON_HOST },
		      { RTN_BROADCAST, EG_REASON_RESERVED },
		      { RTN_ANYCAST, EG_REASON_RESERVED },
		      { RTN_MULTICAST, EG_REASON_RESERVED } };
	struct rl_rule x;

	for (size_t i = 0; i < EG_ARRAY_SIZE(sets); i++) {
		begin(&x, "decide");
		rl_payload(&x, NH, 16, 4, 0);
		rl_lookup(&x, sets[i].set, 0, false);
		deny(w, &x, sets[i].reason);
	}
	for (size_t i = 0; i < EG_ARRAY_SIZE(types); i++) {
		begin(&x, "decide");
		rl_fib_type(&x, 0);
		rl_cmp_u32(&x, NFT_CMP_EQ, 0, types[i].type);
		deny(w, &x, types[i].reason);
	}
}

static void live_pass(struct build *w, uint32_t state, int proto)
{
	struct rl_rule x;

	begin(&x, "decide");
	ct_state(&x, state);
	if (proto >= 0)
		proto_is(&x, (uint8_t)proto);
	rl_meta(&x, NFT_META_IIF, 0);
	rl_ct(&x, NFT_CT_MARK, 1);
	rl_lookup(&x, "live", 0, false);
	to(w, &x, "pass");
}

static void decide_rules(struct build *w)
{
	static const uint8_t flags = 0x17;
	struct rl_rule x;

	not_from_slots(w, "decide");
	begin(&x, "decide");
	mark_low_is(&x, EG_MARK_DNS);
	rl_verdict(&x, NF_ACCEPT, NULL);
	add(w, &x, "decide: dns");
	decide_denied(w);
	live_pass(w, CT_ESTABLISHED, -1);
	live_pass(w, CT_RELATED, IPPROTO_ICMP);
	/* Flows of an ended lease, and what conntrack does not understand. */
	begin(&x, "decide");
	ct_state(&x, CT_INVALID | CT_ESTABLISHED | CT_RELATED);
	deny(w, &x, EG_REASON_INVALID);
	begin(&x, "decide");
	proto_is(&x, IPPROTO_TCP);
	rl_payload(&x, TH, 13, 1, 0);
	rl_bitwise_raw(&x, 0, &flags, 1);
	rl_cmp_u8(&x, NFT_CMP_NEQ, 0, 0x02);
	deny(w, &x, EG_REASON_INVALID);
	begin(&x, "decide");
	rl_meta(&x, NFT_META_IIF, 0);
	rl_lookup_verdict(&x, "slots", 0);
	add(w, &x, "decide: the slot's own chain");
}

/* What no set of the slot matched; every slot's chain ends here. */
static void rest_rules(struct build *w, const char *name)
{
	struct rl_rule x;

	begin(&x, name);
	rl_payload(&x, NH, 16, 4, 0);
	rl_lookup(&x, "private", 0, false);
	deny(w, &x, EG_REASON_PRIVATE);
	begin(&x, name);
	deny(w, &x, EG_REASON_NOT_ALLOWED);
}

static void slot_match(struct build *w, const char *name, const char *set,
		       int proto)
{
	struct rl_rule x;

	begin(&x, name);
	if (proto == IPPROTO_ICMP) {
		proto_is(&x, IPPROTO_ICMP);
		rl_payload(&x, TH, 0, 1, 2); /* type; a pad octet follows */
	} else if (proto < 0) {
		proto_has_ports(&x);
		rl_payload(&x, TH, 2, 2, 2);
	} else {
		rl_meta(&x, NFT_META_L4PROTO, 0);
		rl_lookup(&x, "ports", 0, true);
		rl_cmp_u8(&x, NFT_CMP_NEQ, 0, IPPROTO_ICMP);
		rl_imm_u32(&x, 2, 0);
	}
	rl_payload(&x, NH, 16, 4, 0);
	rl_meta(&x, NFT_META_L4PROTO, 1);
	rl_lookup(&x, set, 0, false);
	to(w, &x, "pass_new");
}

static void slot_rules(struct build *w)
{
	char s[RL_NAME], p[RL_NAME], xs[RL_NAME];
	struct rl_rule x;

	for (uint32_t i = 0; i < w->n; i++) {
		(void)rl_gw_name(s, 's', i);
		(void)rl_gw_name(p, 'p', i);
		(void)rl_gw_name(xs, 'x', i);
		slot_match(w, s, p, -1);
		slot_match(w, s, xs, -1);
		slot_match(w, s, p, IPPROTO_ICMP);
		slot_match(w, s, xs, IPPROTO_ICMP);
		slot_match(w, s, xs, 0);
		begin(&x, s);
		to(w, &x, "rest");
	}
}

static void pass_rules(struct build *w)
{
	struct rl_rule x;

	begin(&x, "pass_new");
	rl_meta(&x, NFT_META_MARK, 0);
	rl_bitwise(&x, 0, ~EG_MARK_LOW, 0);
	rl_ct_set(&x, NFT_CT_MARK, 0);
	to(w, &x, "pass");
	begin(&x, "pass");
	link_epoch(&x);
	rl_dynset_counter(&x, "tx", 0, false);
	add(w, &x, "pass: count");
	begin(&x, "pass");
	rl_meta(&x, NFT_META_MARK, 0);
	rl_bitwise(&x, 0, ~EG_MARK_LOW, EG_MARK_PASS);
	rl_meta_set(&x, NFT_META_MARK, 0);
	rl_verdict(&x, NF_ACCEPT, NULL);
	add(w, &x, "pass");
}

static void reply_rule(struct build *w, uint32_t state, int proto, bool count)
{
	struct rl_rule x;

	begin(&x, "fwd");
	iif_is(&x, EG_IFINDEX_UPLINK);
	ct_state(&x, state);
	if (proto >= 0)
		proto_is(&x, (uint8_t)proto);
	rl_meta(&x, NFT_META_OIF, 0);
	rl_ct(&x, NFT_CT_MARK, 1);
	rl_lookup(&x, "live", 0, false);
	if (count)
		rl_dynset_counter(&x, "rx", 0, false);
	rl_verdict(&x, NF_ACCEPT, NULL);
	add(w, &x, "fwd: replies");
}

static void forward_rules(struct build *w)
{
	struct rl_rule x;

	begin(&x, "fwd");
	mark_low_is(&x, EG_MARK_PASS);
	rl_verdict(&x, NF_ACCEPT, NULL);
	add(w, &x, "fwd: decided");
	reply_rule(w, CT_ESTABLISHED, -1, true);
	reply_rule(w, CT_ESTABLISHED, -1, false); /* no room for a counter */
	reply_rule(w, CT_RELATED, IPPROTO_ICMP, false);
	begin(&x, "fwd");
	rl_counter_named(&x, "stray");
	add(w, &x, "fwd: stray");
	begin(&x, "inp");
	mark_low_is(&x, EG_MARK_DNS);
	rl_verdict(&x, NF_ACCEPT, NULL);
	add(w, &x, "inp: dns");
	begin(&x, "inp");
	iif_is(&x, IFINDEX_LO);
	rl_verdict(&x, NF_ACCEPT, NULL);
	add(w, &x, "inp: lo");
}

/* ---- the deny path -------------------------------------------------------------------------- */

/* Count in @set by (link, mark) and go on; what has no room, unattributed. */
static void count_or_not(struct build *w, const char *name, const char *set,
			 const char *next)
{
	struct rl_rule x;

	begin(&x, name);
	link_mark(&x);
	rl_dynset_counter(&x, set, 0, false);
	to(w, &x, next);
	begin(&x, name);
	rl_counter_named(&x, "unattributed");
	to(w, &x, "deny_end");
}

/* Key of `seen`: link, epoch, destination, protocol, port or 0. */
static void seen_key(struct rl_rule *x, bool ports)
{
	link_epoch(x);
	rl_payload(x, NH, 16, 4, 2);
	rl_meta(x, NFT_META_L4PROTO, 3);
	if (ports)
		rl_payload(x, TH, 2, 2, 4);
	else
		rl_imm_u32(x, 4, 0);
}

static void seen_rules(struct build *w, bool ports)
{
	struct rl_rule x;

	begin(&x, "deny_log");
	if (ports)
		proto_has_ports(&x);
	seen_key(&x, ports);
	rl_lookup(&x, "seen", 0, false);
	to(w, &x, "deny_rep");
	begin(&x, "deny_log");
	if (ports)
		proto_has_ports(&x);
	link_epoch(&x);
	rl_dynset_limit(&x, "share", 0, 1, 3600, RL_SEEN_PER_LEASE, false);
	seen_key(&x, ports);
	rl_dynset_add(&x, "seen", 0, SEEN_MS);
	to(w, &x, "deny_send");
}

static void log_rules(struct build *w)
{
	struct rl_rule x;

	count_or_not(w, "deny", "denied", "deny_log");
	seen_rules(w, true);
	seen_rules(w, false);
	begin(&x, "deny_log");
	to(w, &x, "deny_rep");
	begin(&x, "deny_rep");
	rl_meta(&x, NFT_META_IIF, 0);
	rl_dynset_limit(&x, "lograte", 0, RL_LOG_RATE, 1, RL_LOG_BURST, false);
	to(w, &x, "deny_send");
	count_or_not(w, "deny_rep", "suppressed", "deny_end");
	begin(&x, "deny_send");
	link_mark(&x);
	rl_dynset_counter(&x, "sent", 0, false);
	rl_log(&x, EG_NFLOG_GROUP, w->c->snaplen);
	to(w, &x, "deny_end");
	count_or_not(w, "deny_send", "suppressed", "deny_end");
}

static void verdict_rules(struct build *w)
{
	struct rl_rule x;

	begin(&x, "deny_end");
	rl_meta(&x, NFT_META_MARK, 0);
	rl_bitwise(&x, 0, EG_MARK_LOW, 0);
	rl_lookup(&x, "silent", 0, false);
	rl_verdict(&x, NF_DROP, NULL);
	add(w, &x, "deny_end: silent reasons");
	begin(&x, "deny_end");
	rl_meta(&x, NFT_META_IIF, 0);
	rl_lookup(&x, "quiet", 0, false);
	rl_verdict(&x, NF_DROP, NULL);
	add(w, &x, "deny_end: leases that drop");
	begin(&x, "deny_end");
	proto_is(&x, IPPROTO_TCP);
	rl_reject(&x, NFT_REJECT_TCP_RST, 0);
	add(w, &x, "deny_end: reset");
	begin(&x, "deny_end");
	rl_meta(&x, NFT_META_IIF, 0);
	rl_dynset_limit(&x, "icmprate", 0, RL_ICMP_RATE, 1, RL_ICMP_RATE,
			false);
	rl_reject(&x, NFT_REJECT_ICMP_UNREACH, 13);
	add(w, &x, "deny_end: administratively prohibited");
	begin(&x, "deny_end");
	rl_verdict(&x, NF_DROP, NULL);
	add(w, &x, "deny_end: drop");
}

void rl_gw_build(struct rl_batch *b, const struct eg_conf *conf,
		 uint32_t gateway)
{
	struct build w = { .b = b, .c = conf, .gw = gateway,
			   .first = eg_plan_first(conf, gateway),
			   .n = eg_plan_count(conf, gateway) };

	rl_batch_table(b, IP, T, "table " T);
	slot_sets(&w);
	state_sets(&w);
	chains(&w);
	chain(&w, "rest");
	fixed_sets(&w);
	link_sets(&w);
	set(&w, (struct rl_set_spec){ .name = RL_TABLE_VERSION,
				      .key_type = RL_T_MARK, .key_len = 4 });
	pre_rules(&w);
	raw_rules(&w);
	dns_rules(&w);
	decide_rules(&w);
	slot_rules(&w);
	rest_rules(&w, "rest");
	/* A link that is not in the map falls through to the same end. */
	rest_rules(&w, "decide");
	pass_rules(&w);
	forward_rules(&w);
	log_rules(&w);
	verdict_rules(&w);
}
