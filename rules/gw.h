/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: what gwtable.c, gateway.c and the tests share about a gateway.
 *
 * The shadow: for each slot the generation that holds it, the boxes of its
 * prefix set and its pins. It is changed only after the kernel acknowledged
 * the same change.
 */
#ifndef RL_GW_H
#define RL_GW_H

#include "netpool/base/plan.h"
#include "rules/batch.h"
#include "rules/compile.h"
#include "rules/kernel.h"
#include "rules/pins.h"

/* Raised whenever the static table changes its meaning. */
#define RL_LAYOUT 2

#define RL_SET_NAME 8 /* "p000" .. "x16383" */

/* Log entries a lease gets by default: packets a second, and at once. */
#define RL_LOG_S 50
#define RL_LOG_BURST(s) (2 * (s))

struct rl_slot {
	bool leased, known; /* known: generation holds something to scrub */
	uint64_t generation;
	struct rl_lease lease;
	struct rl_box *box;
	size_t nbox;
	struct rl_pins pins;
};

struct rl_gw {
	const struct eg_conf *conf;
	uint32_t gateway, first, count;
	struct rl_nl *nl;
	struct rl_space space;
	bool refresh; /* re-adding an element refreshes its timeout (6.12) */
	struct rl_slot *slot;
};

/* rl_gwtable_put() - the whole static table into the open batch. */
void rl_gwtable_put(struct rl_gw *gw);

/* rl_gwtable_denied() - (re)fill the always-denied sets from gw->space. */
void rl_gwtable_denied(struct rl_gw *gw, bool flush);

/* rl_gwtable_comment() - layout and what the rules were made from. */
void rl_gwtable_comment(const struct rl_gw *gw, char *buf, size_t cap);

/* rl_ranges_put() - ranges as elements of an interval set, all disjoint. */
void rl_ranges_put(struct rl_nl *nl, const char *set, const struct rl_ranges *r);

static inline const char *rl_set_name(char buf[RL_SET_NAME], char kind,
				      uint32_t index)
{
	(void)snprintf(buf, RL_SET_NAME, "%c%03u", kind, index % 1000000);
	return buf;
}

#endif
