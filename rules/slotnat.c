// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: the small table in the namespace of a slot in tap mode
 *
 * The guest has a fixed address (a snapshot's), the slot's link knows only
 * .2: 1:1 NAT between them. Port 53 of the tap's own address goes on to the
 * gateway, since a snapshot's resolver is usually its own gateway and such a
 * query would never leave the namespace. Packets conntrack cannot place (the
 * flows a restored guest still holds) would not be translated and would look
 * spoofed outside: TCP gets a reset, the rest is dropped. Nothing here is
 * trusted for enforcement.
 */
#include "rules/expr.h"
#include "rules/kernel.h"

#include "netpool/base/plan.h"
#include "netpool/base/util.h"

#include <netinet/in.h> /* before linux/netfilter.h */

#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nf_tables.h>
#include <stdio.h>
#include <string.h>

#define NH NFT_PAYLOAD_NETWORK_HEADER
#define TH NFT_PAYLOAD_TRANSPORT_HEADER
#define PORT_DNS 53

static void on_name(struct rl_rule *r, uint32_t key, const char *name)
{
	char padded[EG_IFNAME] = {0};

	(void)snprintf(padded, sizeof(padded), "%s", name);
	rl_meta(r, key, R1);
	rl_cmp(r, NFT_CMP_EQ, R1, padded, sizeof(padded));
}

static void on_addr(struct rl_rule *r, uint32_t offset, uint32_t addr)
{
	rl_payload(r, NH, offset, 4, R1);
	rl_between(r, R1, addr, addr);
}

static void rules_dnat(struct rl_nl *nl, const struct eg_guest *g,
		       uint32_t gw_addr, uint32_t addr)
{
	static const uint8_t proto[] = {IPPROTO_UDP, IPPROTO_TCP};
	struct rl_rule r;

	for (size_t i = 0; i < sizeof(proto); i++) {
		rl_rule(&r, nl, "prerouting");
		on_name(&r, NFT_META_IIFNAME, g->tap);
		on_addr(&r, 16, g->gateway);
		rl_meta(&r, NFT_META_L4PROTO, R1);
		rl_eq8(&r, R1, proto[i]);
		rl_payload(&r, TH, 2, 2, R1);
		rl_eq16be(&r, R1, PORT_DNS);
		rl_nat(&r, true, gw_addr);
		rl_done(&r);
	}
	rl_rule(&r, nl, "prerouting");
	on_name(&r, NFT_META_IIFNAME, EG_SLOT_IFNAME);
	on_addr(&r, 16, addr);
	rl_nat(&r, true, g->address);
	rl_done(&r);
	rl_rule(&r, nl, "postrouting");
	on_name(&r, NFT_META_OIFNAME, EG_SLOT_IFNAME);
	on_addr(&r, 12, g->address);
	rl_nat(&r, false, addr);
	rl_done(&r);
}

static void unplaced(struct rl_rule *r, bool invalid)
{
	static const uint8_t tcp = IPPROTO_TCP;

	rl_ct(r, NFT_CT_STATE, R1);
	rl_mask(r, R1,
		invalid ? NF_CT_STATE_INVALID_BIT : NF_CT_STATE_BIT(IP_CT_NEW),
		0);
	rl_ne32(r, R1, 0);
	rl_meta(r, NFT_META_L4PROTO, R1);
	rl_eq8(r, R1, tcp);
}

/* Also what conntrack would pick up in the middle of a flow (tcp_loose). */
static void rules_unplaced(struct rl_nl *nl, const struct eg_guest *g)
{
	static const uint8_t flags = 0x17, syn = 0x02;
	struct rl_rule r;

	rl_rule(&r, nl, "forward");
	on_name(&r, NFT_META_IIFNAME, g->tap);
	unplaced(&r, true);
	rl_reject_tcp(&r);
	rl_done(&r);
	rl_rule(&r, nl, "forward");
	on_name(&r, NFT_META_IIFNAME, g->tap);
	unplaced(&r, false);
	rl_payload(&r, TH, 13, 1, R1);
	rl_mask_raw(&r, R1, &flags, 1);
	rl_cmp(&r, NFT_CMP_NEQ, R1, &syn, 1);
	rl_reject_tcp(&r);
	rl_done(&r);
	rl_rule(&r, nl, "forward");
	rl_ct(&r, NFT_CT_STATE, R1);
	rl_mask(&r, R1, NF_CT_STATE_INVALID_BIT, 0);
	rl_ne32(&r, R1, 0);
	rl_drop(&r);
	rl_done(&r);
}

int rl_slot_nat(int fd, const struct eg_conf *conf, uint32_t slot,
		const struct eg_guest *guest, struct eg_err *err)
{
	static const struct rl_chain all[] = {
		{"forward", "filter", NF_INET_FORWARD, 0, false},
		{"prerouting", "nat", NF_INET_PRE_ROUTING, -100, false},
		{"postrouting", "nat", NF_INET_POST_ROUTING, 100, false},
	};
	struct rl_nl *nl;
	int rc;

	if (guest->mode != EG_GUEST_TAP || !guest->tap[0])
		return eg_err_set(
			err, -EINVAL,
			"slot %u: only a guest in tap mode has an address to translate",
			slot);
	rc = rl_nl_open(&nl, fd, false, NFPROTO_IPV4, EG_TABLE, err);
	if (rc)
		return rc;
	rl_begin(nl);
	rl_table_gone(nl);
	rl_table(nl, "egressd tap");
	for (size_t i = 0; i < EG_ARRAY_SIZE(all); i++)
		rl_chain(nl, &all[i]);
	rules_dnat(nl, guest, eg_plan_gw_addr(conf, slot),
		   eg_plan_addr(conf, slot));
	rules_unplaced(nl, guest);
	rc = rl_commit(nl, "translating the guest's address", err);
	rl_nl_close(nl);
	return rc;
}
