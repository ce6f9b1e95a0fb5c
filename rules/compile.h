/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: the addresses of a policy as the kernel will be told them.
 *
 * Pure: a program, phases and the host's configuration in, a list of boxes
 * (address range x protocol x port range) out: the mathematical union of the
 * address entries in force, less what deny entries, the always-deny list, the
 * pool's own addresses and unpermitted private ranges take away. No two boxes
 * of the result overlap, as an interval set wants it; the order is stable.
 */
#ifndef RL_COMPILE_H
#define RL_COMPILE_H

#include "netpool/base/conf.h"
#include "rules/policy.h"

#include <stddef.h>
#include <stdint.h>

#define RL_BOXES 4096 /* elements of one slot; more is a mistake in a policy */

struct rl_box {
	uint32_t lo, hi; /* addresses, host order, inclusive */
	uint8_t proto;
	uint16_t plo, phi; /* ports; icmp: type; others: 0, 0 */
};

/**
 * rl_compile() - address entries of @p in @phases
 * @now:	wall seconds, for until=
 * @ret:	malloc'ed, free() it; may be NULL when there is none
 *
 * Return: 0; -E2BIG when the result has more than RL_BOXES boxes.
 */
int rl_compile(const struct rl_prog *p, uint32_t phases, int64_t now,
	       const struct eg_conf *conf, struct rl_box **ret, size_t *ret_n,
	       struct eg_err *err);

/* rl_program_print() - the stable printed form, one box a line. */
void rl_box_format(const struct rl_box *b, char buf[80]);

#endif
