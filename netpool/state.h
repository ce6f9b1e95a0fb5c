/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: the state of role main: every slot, every lease.
 *
 * main decides and nobody else. Its inputs are messages of fixed layout and
 * the kernel's answers; its outputs are nftables batches (through the
 * enforcer ops, so that this part neither includes nor needs the packet
 * filter) and messages. No call it makes can wait for rtnl, a mount lock or
 * a disk: those belong to `build`, which is asked and answers.
 *
 * A slot's life:
 *
 *   EMPTY -> BUILDING -> IDLE -> ARMING -> ARMED -> LEASED -> RELEASING -> EMPTY
 *
 * with BAD (after a failed build; tried again after a while) beside it. A
 * slot gets its generation when it is armed, because the generation is part
 * of its name. Release goes through the steps of enum np_step, each of which
 * waits for somebody's answer or its deadline; the order is the design's and
 * is what makes it safe: nothing passes after the first.
 *
 * A slot that was touched on the way to a lease that never came to be is
 * BAD until build has scrapped it; nobody else gets it, also after a restart.
 *
 * Everything is kept so that a new main finds it again: leases in records
 * under the run directory (record.h), idle and armed slots by asking build,
 * pins and counters in the kernel itself.
 */
#ifndef NP_STATE_H
#define NP_STATE_H

#include "netpool/base/conf.h"
#include "netpool/base/err.h"
#include "netpool/base/role.h"
#include "netpool/tomb.h"

#include <stdbool.h>
#include <stdint.h>

#define NP_EVENTS 65536	      /* events kept for cursors (api.md) */
#define NP_WAITERS 8	      /* callers waiting for one release */
#define NP_PENDING 1024	      /* statistics under way at once */
#define NP_BUILD_WINDOW 32    /* slots asked of build and not answered */
#define NP_RESERVE (1U << 20) /* generations taken from the counter at once */
#define NP_STEP_NS (5 * EG_NSEC_PER_SEC)   /* deadline of one release step */
#define NP_RETRY_NS (10 * EG_NSEC_PER_SEC) /* before a bad slot is retried */

enum np_slot_state {
	NP_EMPTY,
	NP_BUILDING,
	NP_IDLE,
	NP_ARMING,
	NP_ARMED,
	NP_LEASED,
	NP_RELEASING,
	NP_BAD,
	NP_SLOT_STATE_COUNT,
};

/* What a release (or a lease being made) waits for. */
enum np_step {
	NP_STEP_NONE,
	NP_STEP_ARM,   /* lease: name being made */
	NP_STEP_GUEST, /* lease: tap being made */
	NP_STEP_DOWN,  /* release: link going down */
	NP_STEP_DNS,   /* release: the guard's last counters */
	NP_STEP_SEAL,  /* release: audit drains and seals */
	NP_STEP_SCRAP, /* release: link, name, namespace go */
};

/* A policy program in use, shared by digest; opaque to all but the enforcer. */
struct np_prog {
	struct np_prog *next;
	uint32_t refs;
	int fd; /* sealed memory, to pass on to dns and audit */
	bool told; /* this audit has its text */
	const void *map;
	uint8_t digest[EG_DIGEST];
};

struct np_waiter {
	uint64_t cookie;
	bool set;
};

/* Names that led a lease to addresses lately: for people, not for deciding. */
#define NP_RECENT 16 /* 4 KiB a lease that asks for names at all */
struct np_recent {
	uint32_t next;
	uint32_t addr[NP_RECENT];
	struct eg_name name[NP_RECENT];
};

struct np_lease {
	struct np_prog *prog;
	uint32_t phases;
	enum np_step step;
	uint8_t cause; /* enum eg_cause of the release */
	bool said_80, said_60;
	int64_t step_deadline;
	struct np_waiter waiter[NP_WAITERS];
	struct eg_reason_counts packet[EG_REASONS], dns[EG_REASONS];
	struct np_recent *recent; /* NULL until the first pin */
	uint32_t hash_next; /* slot + 1 of the next in the id bucket, 0: end */
	uint32_t uid_next;  /* the same for the uid */
	struct eg_lease l;  /* only as many labels as it has: keep last */
};

struct np_slot {
	uint8_t state;	   /* enum np_slot_state */
	uint8_t scan;	   /* 1 + enum eg_scan_state while taking over */
	bool gone;	   /* the scan found no link of it */
	bool doubt;	   /* somebody may have used it: never to be leased */
	bool used;	   /* empty, and was leased before */
	uint16_t failures; /* builds in a row */
	uint32_t next;	   /* of the list it is in, slot + 1 */
	uint32_t tap; /* number of the guest kind it has a tap for, 0: none */
	uint64_t generation;
	int64_t retry;
	struct np_lease *lease;
};

/*
 * What leases that want a tap ask for lately. Making a tap takes rtnl and
 * more than a lease may take, and nearly all leases of a host want the same
 * (a snapshot's): once that is seen, slots are armed with it.
 */
struct np_guest_kind {
	struct eg_guest guest, other;
	uint32_t number; /* a new one for each, 0: none known */
	uint32_t others; /* requests in a row for `other` */
};

enum np_gw_state {
	NP_GW_NONE,
	NP_GW_ASKED,
	NP_GW_RAISING,
	NP_GW_UP,
	NP_GW_BAD
};

struct np_gateway {
	uint8_t state; /* enum np_gw_state */
	bool adopted;
	uint32_t mtu;
	void *handle; /* the enforcer's */
};

struct np_list {
	uint32_t head, tail, count; /* slot + 1; 0: empty */
};

struct np_pending {
	uint64_t cookie; /* of the api's question, 0: free */
	int64_t deadline;
	uint32_t slot;
	uint64_t generation;
	bool dns, audit; /* still to answer */
	struct eg_mp_stats s;
};

#define NP_FILL_SAMPLES 6 /* of on_tick(): the last second */

/* The fill of the pool and what it takes (fill.c). */
struct np_fill {
	int meminfo; /* /proc/meminfo, opened before the root was left */
	bool over;
	int64_t begin_ns, last_ns, end_ns; /* 0: not yet */
	uint64_t built;			   /* slots, builds that worked */
	uint64_t base, taken; /* octets: before the fill, since then */
	uint64_t slot;	      /* octets a slot, 0: not known */
	unsigned int at;      /* the oldest sample */
	struct {
		int64_t ns;
		uint64_t built;
	} sample[NP_FILL_SAMPLES];
};

struct np_main;

/* The packet filter, as main sees it. All calls are one batch each. */
struct np_enforcer {
	int (*gateway_open)(struct np_main *m, uint32_t gw, int fd,
			    bool adopted, struct eg_err *err);
	void (*gateway_close)(struct np_main *m, uint32_t gw);
	int (*host)(struct np_main *m, int fd, struct eg_err *err);
	int (*host_addrs)(struct np_main *m, uint32_t gw, struct eg_err *err);
	int (*prog_map)(struct np_main *m, int fd, struct np_prog *p,
			struct eg_err *err);
	void (*prog_unmap)(struct np_prog *p);
	/* which policy, and where its text lies; false: it has none */
	bool (*prog_text)(const struct np_prog *p, struct eg_ma_policy *ret);
	int (*prog_none)(int *ret_fd); /* the built-in policy, sealed */
	void (*phase_names)(const struct np_prog *p, uint32_t phases,
			    char buf[EG_PHASES * EG_PHASE]);
	void (*digest)(const struct np_prog *p, uint32_t phases,
		       uint8_t ret[EG_DIGEST]);
	int (*lease)(struct np_main *m, struct np_lease *l, struct eg_err *err);
	int (*rephase)(struct np_main *m, struct np_lease *l, struct eg_err *err);
	int (*unlease)(struct np_main *m, struct np_lease *l, struct eg_err *err);
	int (*scrub)(struct np_main *m, struct np_lease *l, struct eg_err *err);
	int (*take_over)(struct np_main *m, struct np_lease *l,
			 struct eg_err *err);
	int (*pin)(struct np_main *m, struct np_lease *l,
		   const struct eg_dm_pin *pin, struct eg_err *err);
	int (*counters)(struct np_main *m, struct np_lease *l,
			struct eg_reason_counts *c, uint64_t *unattributed,
			struct eg_err *err);
	void (*stats)(struct np_main *m, struct np_lease *l,
		      struct eg_mp_stats *s);
};

struct np_main {
	struct eg_role_ctx *ctx;
	const struct eg_conf *conf;
	const struct np_enforcer *k;
	void *host_handle; /* the enforcer's */
	int run_fd;
	bool go, scanned, loaded, ready_said, build_up;
	bool peer_seen[EG_ROLE_COUNT]; /* a second channel: it started again */
	struct np_gateway gw[EG_GATEWAYS_MAX];
	struct np_slot *slot;
	struct np_list idle, armed, empty; /* empty: of gateways that are up */
	struct np_list tapped;		   /* armed, with a tap of `kind` */
	struct np_guest_kind kind;
	int64_t busy_ns;  /* when a lease was last made or released */
	uint32_t ticks;
	uint32_t trickle; /* slots that may be built again all the same */
	uint32_t by[NP_SLOT_STATE_COUNT];  /* slots in each state */
	uint32_t next_tick;		   /* slot the next tick begins at */
	uint32_t building, arming, tapping, prefill;
	uint64_t gen_next, gen_end;
	bool gen_asked;
	uint32_t *id_hash, *uid_hash; /* buckets of slot + 1 */
	struct np_tombs *tombs;
	struct np_prog *progs;
	struct np_pending *pending;
	uint8_t **event; /* ring; packed (event.c) */
	uint64_t event_base, event_seq; /* first is event_base + 1 */
	struct eg_timer *tick;
	uint32_t host_naddrs;
	uint32_t host_addr[EG_HOST_ADDRS];
	struct eg_mp_pool count; /* counters; states are counted when asked */
	struct np_fill fill;
};

/* ---- pool.c -------------------------------------------------------------- */

int np_pool_init(struct np_main *m, struct eg_err *err);
void np_pool_start(struct np_main *m); /* build's channel is there */
void np_pool_run(struct np_main *m);   /* build and arm what is missing */
void np_pool_on_build(struct np_main *m, struct eg_msg *msg);
/* np_slot_set() - the only way a slot changes its state */
void np_slot_set(struct np_main *m, uint32_t slot, enum np_slot_state state);
/* np_pool_tick() - a bad slot after its pause */
void np_pool_tick(struct np_main *m, uint32_t slot, int64_t now);
/*
 * np_pool_take() - an armed slot for such a guest, or an idle one
 * @slow:	the lease has to wait for build
 *
 * Return: its number; UINT32_MAX: none. With a tap when slot.tap says so.
 */
uint32_t np_pool_take(struct np_main *m, const struct eg_guest *guest,
		      bool *slow);
/* np_pool_take_bare() - a slot whose own namespace is not needed, with a
 * generation; `slow` is always false */
uint32_t np_pool_take_bare(struct np_main *m, bool *slow);
void np_pool_scrap(struct np_main *m, uint32_t slot); /* BAD until build has */
void np_pool_give(struct np_main *m, uint32_t slot);  /* EMPTY again */
void np_pool_generations(struct np_main *m, const struct eg_ctl_reserved *r);
uint64_t np_pool_generation(struct np_main *m); /* 0: none left */
void np_pool_count(struct np_main *m, struct eg_mp_pool *ret);
int np_pool_ask(struct np_main *m, uint16_t type, uint32_t slot);
void np_pool_say(struct np_main *m);

/* ---- fill.c -------------------------------------------------------------- */

/* np_fill_open() - what is read of the host's memory; before dropping */
void np_fill_open(struct np_fill *f);
void np_fill_begin(struct np_main *m);			/* building may start */
void np_fill_built(struct np_main *m);			/* one more slot */
void np_fill_tick(struct np_main *m, int64_t now);	/* rate, end of it */
void np_fill_count(struct np_main *m, struct eg_mp_pool *p); /* add to it */

/* ---- lease.c -------------------------------------------------------------- */

struct np_lease *np_lease_find(struct np_main *m, const char *id);
struct np_lease *np_lease_uid(struct np_main *m, const uint8_t uid[EG_UID]);
struct np_lease *np_lease_at(struct np_main *m, uint32_t slot,
			     uint64_t generation);
void np_lease_request(struct np_main *m, uint64_t cookie, int *fd,
		      const struct eg_lease_req *req);
void np_lease_armed(struct np_main *m, uint32_t slot, int error);
void np_lease_late(struct np_main *m, struct np_lease *l);
void np_lease_guest(struct np_main *m, const struct eg_bm_slot *a);
void np_lease_expired(struct np_main *m, struct np_lease *l);
void np_lease_announce(struct np_main *m, struct np_lease *l, bool dns,
		       bool audit);
int np_lease_insert(struct np_main *m, struct np_lease *l);
int np_lease_take_over(struct np_main *m, struct np_lease *l);
void np_lease_reply(struct np_main *m, uint64_t cookie, enum eg_status st,
		    const struct eg_lease *l, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));
void np_lease_renew(struct np_main *m, uint64_t cookie,
		    const struct eg_pm_which *w);
void np_lease_revoke(struct np_main *m, uint64_t cookie,
		     const struct eg_pm_which *w);
void np_lease_annotate(struct np_main *m, uint64_t cookie,
		       const struct eg_pm_annotate *q);
int np_lease_close(struct np_main *m, struct np_lease *l,
		   enum eg_lease_state state, struct eg_err *err);
void np_lease_phase(struct np_main *m, uint64_t cookie,
		    const struct eg_pm_which *w);
void np_lease_get(struct np_main *m, uint64_t cookie,
		  const struct eg_pm_which *w);
void np_lease_list(struct np_main *m, uint64_t cookie,
		   const struct eg_pm_list *q);
void np_lease_free(struct np_lease *l);
size_t np_lease_size(unsigned int nlabels);
struct np_lease *np_lease_which(struct np_main *m, uint64_t cookie,
				const struct eg_pm_which *w, bool change);

/* ---- release.c ------------------------------------------------------------- */

void np_release(struct np_main *m, struct np_lease *l, enum eg_cause cause);
void np_release_request(struct np_main *m, uint64_t cookie,
			const struct eg_pm_which *w);
/* np_release_again() - ask a build that started again what it was asked */
void np_release_again(struct np_main *m, struct np_lease *l);
void np_release_build(struct np_main *m, uint16_t type,
		      const struct eg_bm_slot *a);
void np_release_dns(struct np_main *m, const struct eg_dm_stats *s);
void np_release_sealed(struct np_main *m, const struct eg_am_sealed *s);
void np_release_tick(struct np_main *m, struct np_lease *l, int64_t now);

/* ---- stats.c ---------------------------------------------------------------- */

void np_stats_request(struct np_main *m, uint64_t cookie,
		      const struct eg_pm_which *w);
void np_stats_dns(struct np_main *m, uint64_t cookie,
		  const struct eg_dm_stats *s);
void np_stats_audit(struct np_main *m, uint64_t cookie,
		    const struct eg_am_stats *s);
void np_stats_tick(struct np_main *m, int64_t now);

/* ---- prog.c ------------------------------------------------------------------ */

/* np_prog_get() - by descriptor (taken); shared when the digest is known. */
int np_prog_get(struct np_main *m, int *fd, struct np_prog **ret,
		struct eg_err *err);
void np_prog_put(struct np_main *m, struct np_prog *p);

/* np_prog_tell() - audit keeps the text of what is enforced, once. */
void np_prog_tell(struct np_main *m, struct np_prog *p);
/* np_prog_untold() - audit is another one. */
void np_prog_untold(struct np_main *m);

/* ---- record.c ------------------------------------------------------------------ */

int np_record_write(struct np_main *m, const struct np_lease *l,
		    struct eg_err *err);
void np_record_remove(struct np_main *m, const struct np_lease *l);
/* np_record_unprog() - the lease that lets go of @p is the last to have it */
void np_record_unprog(struct np_main *m, const struct np_prog *p);
/* np_record_making() - from here on the slot is no longer as it was armed */
int np_record_making(struct np_main *m, const struct np_lease *l,
		     struct eg_err *err);
/* np_record_drop() - the slot's own record, whatever it says */
void np_record_drop(struct np_main *m, uint32_t slot, uint64_t generation);
int np_record_prog(struct np_main *m, const struct np_prog *p,
		   struct eg_err *err);
/* np_record_dir() - the directory of records, opened; negative errno */
int np_record_dir(struct np_main *m);
/* np_record_load() - all leases and tombstones; broken ones are moved aside */
int np_record_load(struct np_main *m, struct eg_err *err);

/* ---- event.c --------------------------------------------------------------------- */

void np_event(struct np_main *m, enum eg_event_type type, enum eg_cause cause,
	      const struct np_lease *l, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));
void np_event_list(struct np_main *m, uint64_t cookie,
		   const struct eg_pm_events *q);
/* np_event_get() - one of the ring; false: not there any more */
bool np_event_get(const struct np_main *m, uint64_t seq, struct eg_event *ret);
void np_events_free(struct np_main *m);
const char *np_event_name(enum eg_event_type type);

#endif
