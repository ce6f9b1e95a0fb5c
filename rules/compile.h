/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: from a policy's prefixes to what a kernel set holds (pure).
 *
 * An interval set refuses overlapping elements, two entries of a policy may
 * overlap, and some addresses are never allowed. So the union of all wanted
 * (address range x protocol x port range), minus what is denied, is computed
 * here as disjoint boxes; the kernel gets exactly those. Ranges are closed
 * ([lo, hi]), so that 255.255.255.255 is an end like any other.
 */
#ifndef RL_COMPILE_H
#define RL_COMPILE_H

#include "netpool/base/conf.h"
#include "netpool/base/err.h"
#include "netpool/base/reason.h"
#include "rules/policy.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Elements of one slot's prefix set; a policy that needs more is a mistake:
 * it would take the kernel milliseconds to load on the lease path. */
#define RL_BOXES 4096

/* Host addresses followed live; a host with more is not one of ours. */
#define RL_HOST_ADDRS 4096

struct rl_range {
	uint32_t lo, hi; /* closed, host order */
};

/* A sorted list of disjoint ranges once rl_ranges_norm() has run. */
struct rl_ranges {
	struct rl_range *v;
	size_t n, cap;
};

/* One element of a prefix set; icmp: plo == phi == type << 8 (key layout). */
struct rl_box {
	uint32_t lo, hi;
	uint16_t plo, phi;
	uint8_t proto;
};

/* The address space as this host sees it, apart from any policy. */
struct rl_space {
	struct rl_ranges metadata, host, reserved, private;
};

int rl_ranges_add(struct rl_ranges *r, uint32_t lo, uint32_t hi);
int rl_ranges_prefix(struct rl_ranges *r, struct eg_prefix p);
void rl_ranges_norm(struct rl_ranges *r);
bool rl_ranges_has(const struct rl_ranges *r, uint32_t addr);
void rl_ranges_free(struct rl_ranges *r);

/**
 * rl_space_init() - always-denied and private addresses of this host
 * @addr:	@n addresses of the host itself, besides pool and link prefix
 *
 * Return: 0 or -ENOMEM; rl_space_free() in either case.
 */
int rl_space_init(struct rl_space *s, const struct eg_conf *conf,
		  const uint32_t *addr, size_t n);
void rl_space_free(struct rl_space *s);

/* rl_space_denied() - reason an address is never reachable, 0: none. */
enum eg_reason rl_space_denied(const struct rl_space *s, uint32_t addr);

/* rl_phase_wanted() - does an entry count in these phases, at this time? */
bool rl_phase_wanted(const struct rl_entry *e, uint32_t phases, int64_t now);

/* rl_port_key() - port field of a set key: icmp has its type in the upper
 * octet, since it is read as one octet from the start of the header. */
static inline uint16_t rl_port_key(uint8_t proto, uint16_t port)
{
	uint32_t key = port;

	return (uint16_t)(proto == 1 /* IPPROTO_ICMP */ ? key << 8 : key);
}

/**
 * rl_compile() - what a policy allows by address
 * @tenant:	of the lease, for permit_private's tenants=; NULL: none
 * @now:	wall seconds, for until=
 * @ret:	disjoint boxes, sorted by protocol and address; caller frees
 *
 * Private space counts only for an entry that lies within it (0.0.0.0/0 does
 * not open 10/8), and of that the part the host's permit_private contains.
 *
 * Return: 0; -ENOMEM; -E2BIG when the result exceeds RL_BOXES.
 */
int rl_compile(const struct eg_conf *conf, const struct rl_space *space,
	       const struct rl_prog *prog, uint32_t phases, const char *tenant,
	       int64_t now, struct rl_box **ret, size_t *ret_n,
	       struct eg_err *err);

#endif
