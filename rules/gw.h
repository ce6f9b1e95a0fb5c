/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: names shared by the files that make up a gateway's table.
 */
#ifndef RL_GW_H
#define RL_GW_H

#include "netpool/base/conf.h"
#include "netpool/base/err.h"
#include "rules/batch.h"

#define RL_TABLE_VERSION "v1" /* a set of this name marks the layout */

/* Elements every set of a gateway may need; sizes are given up front to the
 * kernel, which reserves 32 octets for each: about 1 MiB a gateway. */
#define RL_COUNTERS_PER_SLOT 16 /* reasons a slot is likely to collect */
#define RL_SEEN_PER_LEASE 64U	/* first packets recorded whatever the rate */
#define RL_LOG_RATE 50U		/* records a slot and second after that */
#define RL_LOG_BURST 100U
#define RL_ICMP_RATE 50U /* ICMP errors a slot and second */

/* "p007", "x007", "s007": a slot's sets and chain, by index in the gateway. */
#define RL_NAME 8
const char *rl_gw_name(char buf[RL_NAME], char kind, uint32_t index);

/* The three kinds of always-denied addresses, as sets of a gateway. */
struct rl_ranges;

/* rl_gw_build() - the whole static table into a batch. */
void rl_gw_build(struct rl_batch *b, const struct eg_conf *conf,
		 uint32_t gateway);

/* rl_host_elems() - elements of `host`: pool, links, the host's addresses. */
void rl_host_elems(struct rl_batch *b, const struct eg_conf *conf,
		   const uint32_t *addr, size_t n);

/* One interval set from prefixes and addresses, merged; used by both tables. */
struct rl_range {
	uint32_t lo, hi;
};
size_t rl_ranges_merge(struct rl_range *r, size_t n);
void rl_ranges_elems(struct rl_batch *b, uint16_t family, const char *set,
		     const struct rl_range *r, size_t n);
size_t rl_ranges_class(const struct eg_conf *conf, uint8_t class,
		       struct rl_range *ret, size_t cap);

#endif
