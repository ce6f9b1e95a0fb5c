// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: the end of a lease, in the order that makes it safe.
 *
 *  1. one batch takes the slot's `lease` and `live` elements: nothing passes
 *     from here, in either direction, established flows included;
 *  2. DOWN: build takes the link down;
 *  3. DNS: the guard forgets the slot and tells its last counters;
 *  4. SEAL: the kernel's counters are read (final now: no packet can come
 *     any more), audit drains its socket, writes the rest and seals;
 *  5. SCRAP: pins, addresses and counters leave the tables, proven by a dump;
 *     build deletes conntrack entries, the link, the name, and lets the
 *     namespace go.
 *
 * Each step waits for its answer until a deadline; a role that is away costs
 * its part of the evidence, said as an event, never the release. The record
 * is removed last, so that a main which starts in between goes on.
 */
#include "netpool/base/log.h"
#include "netpool/base/util.h"
#include "netpool/state.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static void step_next(struct np_main *m, struct np_lease *l);

static void step_set(struct np_lease *l, enum np_step step)
{
	l->step = step;
	l->step_deadline = eg_boot_ns() + NP_STEP_NS;
}

void np_release(struct np_main *m, struct np_lease *l, enum eg_cause cause)
{
	struct np_slot *s = &m->slot[l->l.slot];
	struct eg_err err = {0};

	if (s->state == NP_RELEASING)
		return;
	m->busy_ns = eg_boot_ns();
	/* The kernel first, whatever else happens. */
	if (m->k->unlease(m, l, &err))
		eg_error("slot %u: %s; its link goes down", l->l.slot, err.text);
	np_slot_set(m, l->l.slot, NP_RELEASING);
	l->l.state = EG_LEASE_RELEASING;
	l->cause = (uint8_t)cause;
	if (np_record_write(m, l, &err))
		eg_error("record of %s: %s", l->l.req.id, err.text);
	step_set(l, NP_STEP_DOWN);
	if (np_pool_ask(m, EG_MB_DOWN, l->l.slot))
		eg_warning("slot %u: build is away, release waits", l->l.slot);
}

static void step_dns(struct np_main *m, struct np_lease *l)
{
	struct eg_md_unlease u = {.slot = l->l.slot,
				  .generation = l->l.generation};

	step_set(l, NP_STEP_DNS);
	if (eg_role_send(m->ctx, EG_ROLE_DNS, EG_MD_STATS, 0, &u, sizeof(u), -1) ||
	    eg_role_send(m->ctx, EG_ROLE_DNS, EG_MD_UNLEASE, 0, &u, sizeof(u), -1))
		step_next(m, l);
}

static void step_seal(struct np_main *m, struct np_lease *l)
{
	struct eg_ma_end e = {.slot = l->l.slot,
			      .cause = l->cause,
			      .generation = l->l.generation};
	struct eg_err err = {0};
	uint64_t lost_track;

	step_set(l, NP_STEP_SEAL);
	if (m->k->counters(m, l, l->packet, &lost_track, &err))
		eg_error("slot %u, counters: %s", l->l.slot, err.text);
	memcpy(e.packet, l->packet, sizeof(e.packet));
	memcpy(e.dns, l->dns, sizeof(e.dns));
	if (eg_role_send(m->ctx, EG_ROLE_AUDIT, EG_MA_END, 0, &e, sizeof(e), -1))
		step_next(m, l);
}

static void step_scrap(struct np_main *m, struct np_lease *l)
{
	struct eg_err err = {0};

	step_set(l, NP_STEP_SCRAP);
	if (m->k->scrub(m, l, &err)) {
		eg_error("slot %u: %s", l->l.slot, err.text);
		np_event(m, EG_EV_WATCHDOG, EG_CAUSE_KERNEL, l,
			 "left in the kernel: %.90s", err.text);
	}
	(void)np_pool_ask(m, EG_MB_SCRAP, l->l.slot);
}

static void tomb_add(struct np_main *m, const struct np_lease *l)
{
	EG_CLEANUP_FD int dir = np_record_dir(m);
	int r;

	/* A main that died between the tombstone and the record's end. */
	if (np_tombs_uid(m->tombs, l->l.uid))
		return;
	r = np_tombs_add(m->tombs, dir, &l->l,
			 eg_boot_ns() + m->conf->tombstone_s * EG_NSEC_PER_SEC);
	if (r)
		eg_warning("that lease id %s was used is not kept: %s",
			   l->l.req.id, strerror(-r));
}

static void release_done(struct np_main *m, struct np_lease *l)
{
	uint32_t slot = l->l.slot;

	l->l.state = EG_LEASE_RELEASED;
	tomb_add(m, l);
	np_record_remove(m, l);
	m->count.released_total++;
	np_event(m, EG_EV_RELEASED, (enum eg_cause)l->cause, l, "slot %u", slot);
	for (unsigned int i = 0; i < NP_WAITERS; i++)
		if (l->waiter[i].set)
			np_lease_reply(m, l->waiter[i].cookie, EG_OK, &l->l,
				       "%s", "");
	np_lease_expired(m, l);
	np_pool_give(m, slot);
}

static void step_next(struct np_main *m, struct np_lease *l)
{
	switch (l->step) {
	case NP_STEP_DOWN:
		step_dns(m, l);
		break;
	case NP_STEP_DNS:
		step_seal(m, l);
		break;
	case NP_STEP_SEAL:
		step_scrap(m, l);
		break;
	case NP_STEP_SCRAP:
		release_done(m, l);
		break;
	case NP_STEP_NONE:
	case NP_STEP_ARM:
	case NP_STEP_GUEST:
		break;
	}
}

void np_release_build(struct np_main *m, uint16_t type,
		      const struct eg_bm_slot *a)
{
	struct np_lease *l = np_lease_at(m, a->slot, a->generation);
	enum np_step want = type == EG_BM_DOWN ? NP_STEP_DOWN : NP_STEP_SCRAP;

	if (!l || l->step != want)
		return;
	if (a->error == -EALREADY)
		return; /* asked twice; the first is answered */
	if (a->error) {
		/* Stays in this step; asked again at the deadline. */
		eg_error("slot %u: %.150s", a->slot, a->text);
		return;
	}
	if (type == EG_BM_SCRAPPED)
		m->count.lingering += a->lingering;
	step_next(m, l);
}

void np_release_dns(struct np_main *m, const struct eg_dm_stats *s)
{
	struct np_lease *l = np_lease_at(m, s->slot, s->generation);

	if (!l || l->step != NP_STEP_DNS)
		return;
	memcpy(l->dns, s->dns, sizeof(l->dns));
	step_next(m, l);
}

void np_release_sealed(struct np_main *m, const struct eg_am_sealed *s)
{
	struct np_lease *l = np_lease_at(m, s->slot, s->generation);
	uint64_t lost = 0;

	if (!l || l->step != NP_STEP_SEAL)
		return;
	for (unsigned int i = 0; i < EG_REASON_COUNT; i++) {
		if (l->packet[i].sent > s->packet_logged[i])
			lost += l->packet[i].sent - s->packet_logged[i];
		if (l->dns[i].sent > s->dns_logged[i])
			lost += l->dns[i].sent - s->dns_logged[i];
	}
	if (lost)
		np_event(m, EG_EV_LOSS, EG_CAUSE_KERNEL, l,
			 "%llu denials were not recorded",
			 (unsigned long long)lost);
	if (s->error)
		np_event(m, EG_EV_SEALED, (enum eg_cause)l->cause, l,
			 "not sealed: %s", strerror(-s->error));
	else
		np_event(m, EG_EV_SEALED, (enum eg_cause)l->cause, l,
			 "%02x%02x%02x%02x", s->manifest[0], s->manifest[1],
			 s->manifest[2], s->manifest[3]);
	step_next(m, l);
}

void np_release_request(struct np_main *m, uint64_t cookie,
			const struct eg_pm_which *w)
{
	struct np_lease *l = np_lease_which(m, cookie, w, true);

	if (!l)
		return;
	if (l->step == NP_STEP_ARM || l->step == NP_STEP_GUEST) {
		np_lease_reply(m, cookie, EG_E_BUSY, NULL,
			       "the lease is being made; ask again");
		return;
	}
	for (unsigned int i = 0; i < NP_WAITERS; i++)
		if (!l->waiter[i].set) {
			l->waiter[i] = (struct np_waiter){.cookie = cookie,
							  .set = true};
			np_release(m, l, EG_CAUSE_API);
			return;
		}
	np_lease_reply(m, cookie, EG_E_BUSY, NULL, "the lease is being released");
}

/* A step whose answer did not come. */
static void step_late(struct np_main *m, struct np_lease *l)
{
	step_set(l, l->step);
	if (l->step == NP_STEP_DOWN)
		(void)np_pool_ask(m, EG_MB_DOWN, l->l.slot);
	else if (l->step == NP_STEP_SCRAP)
		(void)np_pool_ask(m, EG_MB_SCRAP, l->l.slot);
	else if (l->step == NP_STEP_ARM || l->step == NP_STEP_GUEST)
		np_lease_late(m, l);
	else if (l->step == NP_STEP_DNS || l->step == NP_STEP_SEAL) {
		np_event(m, EG_EV_LOSS, EG_CAUSE_KERNEL, l, "%s did not answer",
			 l->step == NP_STEP_DNS ? "dns" : "audit");
		step_next(m, l);
	}
}

void np_release_again(struct np_main *m, struct np_lease *l)
{
	if (l->step == NP_STEP_ARM || l->step == NP_STEP_GUEST ||
	    l->step == NP_STEP_DOWN || l->step == NP_STEP_SCRAP)
		step_late(m, l);
}

static void warn_expiry(struct np_main *m, struct np_lease *l, int64_t now)
{
	int64_t left = l->l.expires_boot_ns - now;
	int64_t ttl = l->l.req.ttl_s * EG_NSEC_PER_SEC;

	if (!l->said_80 && left <= ttl / 5) {
		l->said_80 = true;
		np_event(m, EG_EV_EXPIRING, EG_CAUSE_EXPIRY, l,
			 "80 %% of its time is over, %lld s left",
			 (long long)(left / EG_NSEC_PER_SEC));
	}
	if (!l->said_60 && left <= 60 * EG_NSEC_PER_SEC &&
	    ttl > 60 * EG_NSEC_PER_SEC) {
		l->said_60 = true;
		np_event(m, EG_EV_EXPIRING, EG_CAUSE_EXPIRY, l, "60 s left");
	}
}

/* on_expiry=hold: nothing new, what is established may finish. */
static void lease_hold(struct np_main *m, struct np_lease *l)
{
	struct eg_err err = {0};

	/* Counts from here to max_ttl, then it is released all the same. */
	l->l.expires_boot_ns =
		l->l.created_boot_ns + m->conf->max_ttl_s * EG_NSEC_PER_SEC;
	if (!np_lease_close(m, l, EG_LEASE_EXPIRED, &err))
		return;
	eg_error("lease %s cannot be held: %s; released", l->l.req.id, err.text);
	np_release(m, l, EG_CAUSE_EXPIRY);
}

static void lease_expire(struct np_main *m, struct np_lease *l)
{
	bool hold = l->l.req.on_expiry == EG_EXPIRY_HOLD &&
		    l->l.state == EG_LEASE_LEASED;

	np_event(m, EG_EV_EXPIRED, EG_CAUSE_EXPIRY, l, "%s",
		 hold ? "held: established flows may finish" : "");
	if (hold)
		lease_hold(m, l);
	else
		np_release(m, l, EG_CAUSE_EXPIRY);
}

void np_release_tick(struct np_main *m, struct np_lease *l, int64_t now)
{
	if (l->step != NP_STEP_NONE) {
		if (now >= l->step_deadline)
			step_late(m, l);
		return;
	}
	if (m->slot[l->l.slot].state != NP_LEASED)
		return;
	if (now >= l->l.expires_boot_ns)
		lease_expire(m, l);
	else if (l->l.state == EG_LEASE_LEASED)
		warn_expiry(m, l, now);
}
