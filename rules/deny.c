// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: the deny path (see deny.h)
 *
 * dynset breaks the rule when its element cannot be made, and goes on both
 * when it made one and when it found one: that is what "in the same rule"
 * relies on (net/netfilter/nft_dynset.c).
 */
#include "rules/deny.h"

#include "netpool/base/reason.h"

#include <netinet/in.h> /* before linux/netfilter.h */

#include <linux/netfilter/nf_tables.h>

static const struct rl_stateful counting = {.kind = RL_STATE_COUNTER};

void rl_deny_sets(struct rl_nl *nl)
{
	struct rl_set set = {
		.flags = NFT_SET_EVAL,
		.type = RL_T2(RL_T_IFINDEX, RL_T_MARK),
		.len = 8,
		.size = RL_COUNTER_SIZE,
		.field = {4, 4},
		.nfields = 2,
	};

	set.name = "denied";
	rl_set(nl, &set);
	set.name = "suppressed";
	rl_set(nl, &set);
	set.name = "sent";
	rl_set(nl, &set);
	rl_counter(nl, RL_UNATTRIBUTED);
}

static void count_in(struct rl_rule *r, const char *set)
{
	rl_meta(r, NFT_META_IIF, R1);
	rl_meta(r, NFT_META_MARK, R2);
	rl_dynset(r, set, R1, false, &counting);
}

/* What a counter element could not be made for. */
static void unattributed(struct rl_nl *nl, const char *chain)
{
	struct rl_rule r;

	rl_rule(&r, nl, chain);
	rl_count(&r, RL_UNATTRIBUTED);
	rl_goto(&r, RL_C_VERDICT);
	rl_done(&r);
}

void rl_deny_count(struct rl_nl *nl)
{
	struct rl_rule r;

	rl_rule(&r, nl, RL_C_DENY);
	count_in(&r, "denied");
	rl_goto(&r, RL_C_WEIGH);
	rl_done(&r);
	unattributed(nl, RL_C_DENY);
}

void rl_deny_emit(struct rl_nl *nl, uint16_t group, uint32_t snaplen)
{
	struct rl_rule r;

	rl_rule(&r, nl, RL_C_EMIT);
	count_in(&r, "sent");
	rl_log(&r, group, snaplen);
	rl_goto(&r, RL_C_VERDICT);
	rl_done(&r);
	unattributed(nl, RL_C_EMIT);
}

void rl_deny_suppress(struct rl_nl *nl, const char *chain)
{
	struct rl_rule r;

	rl_rule(&r, nl, chain);
	count_in(&r, "suppressed");
	rl_goto(&r, RL_C_VERDICT);
	rl_done(&r);
	unattributed(nl, chain);
}

void rl_reason(struct rl_rule *r, uint8_t reason)
{
	rl_meta(r, NFT_META_MARK, R1);
	rl_mask(r, R1, ~EG_MARK_LOW, reason);
	rl_meta_set(r, NFT_META_MARK, R1);
	rl_goto(r, RL_C_DENY);
}
