/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: what the guard knows of one lease.
 *
 * Rate buckets, the guard's counters of denials, a shadow of the pins main
 * has acknowledged, and the budget of names reached through wildcards. All
 * of it is bounded by named constants and freed with the lease, except the
 * counters, which stay readable until the slot's next lease.
 *
 * The shadow exists to keep a promise: no address handed out is evicted
 * while a client may still hold it. Instead of adding a 257th pin for a
 * name, answers are made of its live ones ("sticky").
 */
#ifndef DG_LEASE_H
#define DG_LEASE_H

#include "dnsguard/cache.h"
#include "dnsguard/policy.h"
#include "netpool/base/proto.h"

#define DG_PINS_NAME 256     /* S3-like rotation stays below (dns TTL 5 s) */
#define DG_PINS_LEASE 4096   /* pins of a lease; main counts them too */
#define DG_NAME_MAX 128	     /* octets of a name under a wildcard */
#define DG_NAMES 256	     /* default of max_names= */
#define DG_NAMES_LEASE 65536 /* wildcard names of a lease; 1 MiB at worst */
#define DG_PATTERNS 64	     /* wildcard entries a lease uses at a time */
#define DG_PIN_BUCKETS 64

/* A token bucket as one number (GCRA): the time the bucket is full again. */
struct dg_bucket {
	int64_t full;
};

/* dg_bucket_take() - one token; false: none left. */
bool dg_bucket_take(struct dg_bucket *b, int64_t now, uint32_t rate,
		    uint32_t burst);

struct dg_pin {
	uint32_t addr;
	int64_t until; /* ns */
};

/* Pins of one name, lower case. */
struct dg_pinset {
	struct dg_pinset *next;
	uint32_t count, room;
	int64_t told; /* when audit was last told of this name */
	struct dg_pin *pin;
	struct eg_name name;
};

struct dg_lease {
	uint64_t generation;
	uint32_t slot, phases;
	bool live, report;
	enum eg_reason closed; /* every name is denied for it; NONE: no */
	struct dg_policy *policy;

	struct dg_bucket allowed, denied, misses;
	struct dg_bucket record[EG_REASON_COUNT];
	uint32_t held[EG_REASON_COUNT]; /* records held back since the last */
	struct eg_reason_counts count[EG_REASON_COUNT];
	uint64_t queries, answered;
	uint32_t asking;  /* queries waiting for an upstream */
	uint32_t waiting; /* queries waiting for anything */

	struct dg_cache *cache; /* names through wildcards; NULL: none yet */
	uint32_t npins;
	struct dg_pinset *pins[DG_PIN_BUCKETS];
	uint64_t *seen; /* hash set of (pattern, name) */
	uint32_t nseen, seen_size;
	uint32_t npatterns;
	struct {
		uint32_t entry, names;
	} pattern[DG_PATTERNS];
};

/* dg_lease_clear() - forget everything but the counters. */
void dg_lease_clear(struct dg_lease *l, struct dg_policies *policies);
/* dg_lease_unpin() - forget the shadow of pins. */
void dg_lease_unpin(struct dg_lease *l);

struct dg_pinset *dg_lease_pins(struct dg_lease *l, const struct eg_name *name,
				int64_t now);

/* Until when an address is pinned for a name; 0: it is not. */
int64_t dg_pinset_until(const struct dg_pinset *s, uint32_t addr);

/**
 * dg_lease_choose() - which addresses to answer with and pin
 * @s:		live pins of the name, may be NULL
 * @addr:	vetted candidates
 * @start:	rotation
 * @max:	at most this many, no more than EG_PIN_ADDRS
 *
 * Return: how many were chosen; 0: the lease's cap leaves nothing.
 */
uint32_t dg_lease_choose(struct dg_lease *l, const struct dg_pinset *s,
			 const uint32_t *addr, uint32_t n, uint32_t start,
			 uint32_t max, int64_t now, uint32_t ret[EG_PIN_ADDRS]);

/**
 * dg_lease_pinned() - main has pinned these
 *
 * Lifetimes only ever grow. Return: the name's pins, NULL: out of memory
 * (the kernel has them; the shadow then knows fewer than there are).
 * *ret_new says whether an address was not pinned before.
 */
struct dg_pinset *dg_lease_pinned(struct dg_lease *l, const struct eg_name *name,
				  const uint32_t *addr, uint32_t n,
				  int64_t until, int64_t now, bool *ret_new);

/**
 * dg_lease_name() - may this name be asked through this wildcard?
 * @entry:	the wildcard's number in the policy
 * @max:	its max_names, 0: DG_NAMES
 *
 * A name that has been asked before may always be asked again.
 */
bool dg_lease_name(struct dg_lease *l, uint32_t entry, uint32_t max,
		   const struct eg_name *name);

#endif
