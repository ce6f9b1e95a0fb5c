/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: the deny path, the same in a gateway and in the host's guard.
 *
 *   deny      count in `denied`, or in `unattributed` when that cannot be
 *   decide whether to log -> emit (log and count in `sent`, in one rule)
 *                         -> or count in `suppressed`
 *   verdict   reject or drop; what is logged has no say in it
 *
 * Every packet takes exactly one way, so per (link, mark)
 *     denied = suppressed + sent
 * and a counter element that cannot be made (memory) makes the packet count
 * as `unattributed`, unlogged, instead of vanishing.
 */
#ifndef RL_DENY_H
#define RL_DENY_H

#include "rules/batch.h"
#include "rules/expr.h"

#define RL_C_DENY "deny"
#define RL_C_WEIGH "weigh"
#define RL_C_EMIT "emit"
#define RL_C_VERDICT "verdict"
#define RL_UNATTRIBUTED "unattributed"

/* Keys of the counters: reasons a link can have, times the links. 6144 is
 * three quarters of a power of two, which is what the kernel's hash sizes
 * its buckets for; anything above would double them. */
#define RL_COUNTER_SIZE 6144

/* rl_deny_sets() - counters, and sets bounding the log. */
void rl_deny_sets(struct rl_nl *nl);

/* rl_deny_count() - rules of chain `deny` (then -> weigh) and `emit`. */
void rl_deny_count(struct rl_nl *nl);
void rl_deny_emit(struct rl_nl *nl, uint16_t group, uint32_t snaplen);

/* rl_deny_suppress() - end of the chain that weighs: not logged. */
void rl_deny_suppress(struct rl_nl *nl, const char *chain);

/* rl_reason() - finish a rule: mark with the reason, deny. */
void rl_reason(struct rl_rule *r, uint8_t reason);

#endif
