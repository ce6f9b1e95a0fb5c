// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: the table inside a slot that has a tap.
 *
 * Every guest of a snapshot has the same address; here it becomes the slot's
 * own .2 and back. Its resolver is usually its own gateway, an address of the
 * tap: port 53 of that is handed on to the real gateway, where the guard is.
 * A restored guest still holds flows of its former life: conntrack calls
 * them invalid and would not translate them, so they are answered with a
 * reset (TCP) or dropped here, and do not look like spoofing outside.
 *
 * Nothing here is trusted for enforcement: a root in the sandbox may change
 * it, and reaches no further.
 */
#include "netpool/base/plan.h"
#include "netpool/base/util.h"
#include "rules/batch.h"
#include "rules/expr.h"
#include "rules/kernel.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_nat.h>
#include <linux/netfilter/nf_tables.h>
#include <netinet/in.h>
#include <string.h>

#define IP RL_FAMILY_IP
#define T EG_TABLE
#define NH NFT_PAYLOAD_NETWORK_HEADER
#define TH NFT_PAYLOAD_TRANSPORT_HEADER

static void addr_is(struct rl_rule *x, uint32_t off, uint32_t addr)
{
	uint32_t be = htonl(addr);

	rl_payload(x, NH, off, 4, 0);
	rl_cmp(x, NFT_CMP_EQ, 0, &be, sizeof(be));
}

static void nat_to(struct rl_rule *x, uint32_t type, uint32_t addr)
{
	uint32_t be = htonl(addr);

	rl_imm(x, 0, &be, sizeof(be));
	rl_nat(x, type, 0, -1);
}

static void name_is(struct rl_rule *x, uint32_t key, const char *name)
{
	char buf[EG_IFNAME] = { 0 };

	memcpy(buf, name, strnlen(name, sizeof(buf) - 1));
	rl_meta(x, key, 0);
	rl_cmp(x, NFT_CMP_EQ, 0, buf, sizeof(buf));
}

static void add(struct rl_batch *b, struct rl_rule *x, const char *what)
{
	rl_batch_rule(b, IP, rl_rule_take(x), what);
}

static void resolver_rules(struct rl_batch *b, uint32_t tap_addr, uint32_t gw)
{
	static const uint8_t protos[] = { IPPROTO_UDP, IPPROTO_TCP };
	struct rl_rule x;

	for (size_t i = 0; i < EG_ARRAY_SIZE(protos); i++) {
		rl_rule_begin(&x, IP, T, "dst");
		addr_is(&x, 16, tap_addr);
		rl_meta(&x, NFT_META_L4PROTO, 0);
		rl_cmp_u8(&x, NFT_CMP_EQ, 0, protos[i]);
		rl_payload(&x, TH, 2, 2, 0);
		rl_cmp_be16(&x, NFT_CMP_EQ, 0, 53);
		nat_to(&x, NFT_NAT_DNAT, gw);
		add(b, &x, "resolver");
	}
}

static void invalid_rules(struct rl_batch *b, const char *tap)
{
	struct rl_rule x;

	for (int tcp = 1; tcp >= 0; tcp--) {
		rl_rule_begin(&x, IP, T, "old");
		name_is(&x, NFT_META_IIFNAME, tap);
		rl_ct(&x, NFT_CT_STATE, 0);
		rl_bitwise(&x, 0, 1, 0); /* invalid */
		rl_cmp_u32(&x, NFT_CMP_NEQ, 0, 0);
		if (tcp) {
			rl_meta(&x, NFT_META_L4PROTO, 0);
			rl_cmp_u8(&x, NFT_CMP_EQ, 0, IPPROTO_TCP);
			rl_reject(&x, NFT_REJECT_TCP_RST, 0);
		} else {
			rl_verdict(&x, NF_DROP, NULL);
		}
		add(b, &x, "flows of a former life");
	}
}

int rl_slot_nat(int fd, const struct eg_conf *conf, uint32_t slot,
		const struct eg_guest *guest, struct eg_err *err)
{
	int own = dup(fd), r;
	struct rl_batch *b;
	struct rl_nft *n;
	struct rl_rule x;

	if (own < 0)
		return eg_err_sys(err, -errno, "dup");
	r = rl_nft_open(&n, own, err);
	if (r)
		return r;
	b = rl_batch_new(n);
	if (!b) {
		rl_nft_close(n);
		return eg_err_set(err, -ENOMEM, "out of memory");
	}
	rl_batch_table(b, IP, T, "table");
	rl_batch_chain(b, IP, rl_chain(T, "dst", "nat", NF_INET_PRE_ROUTING,
				       -100, NF_ACCEPT), "chain dst");
	rl_batch_chain(b, IP, rl_chain(T, "src", "nat", NF_INET_POST_ROUTING,
				       100, NF_ACCEPT), "chain src");
	rl_batch_chain(b, IP, rl_chain(T, "old", "filter", NF_INET_FORWARD, 0,
				       NF_ACCEPT), "chain old");
	resolver_rules(b, guest->gateway, eg_plan_gw_addr(conf, slot));
	rl_rule_begin(&x, IP, T, "dst");
	name_is(&x, NFT_META_IIFNAME, EG_SLOT_IFNAME);
	addr_is(&x, 16, eg_plan_addr(conf, slot));
	nat_to(&x, NFT_NAT_DNAT, guest->address);
	add(b, &x, "to the guest");
	rl_rule_begin(&x, IP, T, "src");
	name_is(&x, NFT_META_OIFNAME, EG_SLOT_IFNAME);
	addr_is(&x, 12, guest->address);
	nat_to(&x, NFT_NAT_SNAT, eg_plan_addr(conf, slot));
	add(b, &x, "from the guest");
	invalid_rules(b, guest->tap);
	r = rl_batch_commit(b, err);
	rl_nft_close(n);
	return r;
}
