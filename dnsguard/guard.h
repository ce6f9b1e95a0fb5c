/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: the DNS guard's decisions, without sockets or a clock.
 *
 * The life of a query:
 *
 *   walked -> policy asked -> denied, or answered from here (NODATA)
 *     -> cache, or one upstream request that all who ask the same share
 *     -> policy asked again (it may have changed), chain and addresses vetted
 *     -> main asked to pin -> acknowledged -> answered
 *
 * Invariants:
 * - An address leaves only after main has acknowledged its pin for that
 *   slot and generation; failure or the deadline is SERVFAIL.
 * - Every waiting query carries (slot, generation): what comes back after
 *   the lease has ended does nothing and is sent to nobody.
 * - denied = suppressed + sent, for each slot and reason.
 *
 * An answer with an address of class metadata or reserved (loopback and the
 * like) is denied as a whole: such an answer is an attack, and its other
 * addresses are part of it. Addresses that are private, the host's or a
 * neighbour's are taken out and recorded as `rebind`; when nothing is left
 * the answer is NXDOMAIN.
 *
 * What runs in here is bounded: waiting queries, requests, names and pins
 * have named limits, and a lease at its limits costs others nothing.
 */
#ifndef DG_GUARD_H
#define DG_GUARD_H

#include "dnsguard/lease.h"
#include "dnsguard/upstream.h"

#define DG_WAITERS 8192 /* queries in progress, of all leases */
#define DG_WAITERS_LEASE 64
#define DG_ASKING_LEASE 32  /* of those, waiting for an upstream */
#define DG_ASKING_TIGHT 4   /* when requests run short: others first */
#define DG_DEADLINE_MS 3000 /* clients give up at 5 s, musl's second try 2.5 */
#define DG_RATE 50	    /* queries a second; [dns] may say otherwise */
#define DG_BURST 200
#define DG_RECORDS 20 /* denial records a second, slot and reason */
#define DG_TTL_MIN 5  /* shown to guests, seconds */
#define DG_TTL_MAX 60
#define DG_NEG_MAX 30	   /* negative answers are kept so long, seconds */
#define DG_NEG_NO_SOA 1	   /* RFC 2308 section 5: hardly at all */
#define DG_FAIL_TTL 1	   /* RFC 9520 */
#define DG_NAME_AGAIN_S 10 /* an unchanged name is told audit once in */

/* Who asked, and where the answer goes; @conn is the listener's. */
struct dg_client {
	uint32_t slot;
	uint32_t src, dst; /* host order */
	uint16_t sport, dport;
	bool tcp;
	uint64_t conn; /* TCP: the connection; UDP: 0 */
	uint32_t gateway, ifindex;
	uint32_t epoch; /* of the lease the packet came under; 0: not known */
};

struct dg_ops {
	void (*reply)(void *arg, const struct dg_client *to, const uint8_t *msg,
		      size_t len);
	/* no answer will come for a query of this client */
	void (*silence)(void *arg, const struct dg_client *to);
	int (*pin)(void *arg, uint64_t cookie, const struct eg_dm_pin *pin);
	int (*denial)(void *arg, const struct eg_da_denial *d);
	void (*name)(void *arg, const struct eg_da_name *n);
};

struct dg_guard;

/* dg_guard_new() - @conf and @up_ops are borrowed for the guard's life. */
int dg_guard_new(struct dg_guard **ret, const struct eg_conf *conf,
		 const struct dg_ops *ops,
		 int (*send)(void *arg, uint32_t req, uint32_t server, bool tcp,
			     const uint8_t *msg, size_t len),
		 void (*close)(void *arg, uint32_t req), void *arg);
void dg_guard_free(struct dg_guard *g);

/* dg_guard_time() - what time it is, before any event of a turn. */
void dg_guard_time(struct dg_guard *g, int64_t now, int64_t wall);
/* dg_guard_tick() - let deadlines and timeouts happen. */
void dg_guard_tick(struct dg_guard *g);
/* dg_guard_next() - when the next is due, INT64_MAX: none. */
int64_t dg_guard_next(const struct dg_guard *g);
/* dg_guard_busy() - is anything in progress that a tick may be due for? */
bool dg_guard_busy(const struct dg_guard *g);

/* The upstream engine, for the sockets' events. */
struct dg_up *dg_guard_up(struct dg_guard *g);
struct dg_policies *dg_guard_policies(struct dg_guard *g);

/**
 * dg_guard_lease() - a slot has a lease, or its lease has changed
 * @policy:	reference, taken always
 *
 * Repeating it changes nothing; an older generation is ignored.
 */
int dg_guard_lease(struct dg_guard *g, const struct eg_md_lease *m,
		   struct dg_policy *policy);
void dg_guard_unlease(struct dg_guard *g, uint32_t slot, uint64_t generation);
/* dg_guard_live() - generation of a slot's lease, 0: none. */
uint64_t dg_guard_live(const struct dg_guard *g, uint32_t slot);

/* dg_guard_query() - octets from a slot's link. */
/*
 * dg_guard_knows() - is the lease that query came under the one in force here?
 *
 * Not when main's message of it is still to be read, nor when the query
 * waited in the socket until its lease was over.
 */
bool dg_guard_knows(const struct dg_guard *g, const struct dg_client *from);
void dg_guard_query(struct dg_guard *g, const struct dg_client *from,
		    const uint8_t *msg, size_t len);

/* dg_guard_pinned() - main's answer to ops->pin. */
void dg_guard_pinned(struct dg_guard *g, uint64_t cookie,
		     const struct eg_md_pinned *m);
/* dg_guard_pins() - pins main found in the kernel after a restart. */
void dg_guard_pins(struct dg_guard *g, const struct eg_dm_pin *m);
/* dg_guard_main_lost() - no pin that was asked for will be answered. */
void dg_guard_main_lost(struct dg_guard *g);

/* dg_guard_stats() - false: nothing is known of that lease. */
bool dg_guard_stats(const struct dg_guard *g, uint32_t slot,
		    uint64_t generation, struct eg_dm_stats *ret);

/* Queries from slots without a lease. */
uint64_t dg_guard_unleased(const struct dg_guard *g);

#endif
