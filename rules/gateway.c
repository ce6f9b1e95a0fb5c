// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: what comes and goes in a gateway's table (see kernel.h, gw.h)
 *
 * The set elements of a lease on link L with epoch mark E = epoch << 8:
 *
 *   lease      L : E          unleased without it
 *   live       L . E          its flows live while it is there
 *   tx, rx     L . E|0xff, L . E   traffic counters
 *   lograte    L . E          its own log rate
 *   quiet, report, newflows, flows   L, as the lease says
 *   revoked    L              all of it is denied; then it has no `live`
 *   xNNN       the policy's addresses;  pNNN  its pins, each with a timeout
 *
 * Packets add, under L . E|reason: denied, suppressed, sent; under L . E:
 * share, seen; under L: icmprate, dnsrate.
 *
 * Takeover reads back what a former main left; nothing in the kernel depends
 * on this process or its socket being there.
 */
#include "netpool/base/loop.h"
#include "netpool/base/util.h"
#include "rules/gw.h"

#include <netinet/in.h> /* before linux/netfilter.h */

#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <stdio.h>
#include <string.h>

#define PIN_BATCH 64	     /* elements one rl_gw_pin() may make (kernel.h) */
#define PIN_LIFE_MAX 604800U /* a week; leases end after a day at most */
/* An element of `seen` that is about to expire cannot be deleted safely. */
#define SEEN_LEFT_MS 2000
#define WHAT 80

static int64_t boot_ms(void)
{
	return eg_boot_ns() / 1000000;
}

static int64_t wall_s(void)
{
	return eg_wall_ns() / EG_NSEC_PER_SEC;
}

static uint32_t epoch_mark(uint64_t generation)
{
	return eg_epoch(generation) << EG_EPOCH_SHIFT;
}

/* ---- opening ------------------------------------------------------------- */

int rl_gw_open(struct rl_gw **ret, const struct eg_conf *conf, uint32_t gateway,
	       int fd, struct eg_err *err)
{
	struct rl_gw *gw = calloc(1, sizeof(*gw));
	int rc;

	if (!gw) {
		eg_close_p(&fd);
		return eg_err_set(err, -ENOMEM, "out of memory for gateway %u",
				  gateway);
	}
	gw->conf = conf;
	gw->gateway = gateway;
	gw->first = eg_plan_first(conf, gateway);
	gw->count = eg_plan_count(conf, gateway);
	rc = rl_nl_open(&gw->nl, fd, true, NFPROTO_IPV4, EG_TABLE, err);
	if (rc) {
		rl_gw_close(gw);
		return rc;
	}
	gw->slot = calloc(gw->count, sizeof(*gw->slot));
	rc = gw->slot ? rl_space_init(&gw->space, conf, NULL, 0) : -ENOMEM;
	if (rc) {
		rl_gw_close(gw);
		return eg_err_set(err, rc, "out of memory for gateway %u",
				  gateway);
	}
	*ret = gw;
	return 0;
}

static void slot_forget(struct rl_slot *s)
{
	free(s->box);
	rl_pins_clear(&s->pins);
	memset(s, 0, sizeof(*s));
}

void rl_gw_close(struct rl_gw *gw)
{
	if (!gw)
		return;
	for (uint32_t i = 0; gw->slot && i < gw->count; i++)
		slot_forget(&gw->slot[i]);
	free(gw->slot);
	rl_space_free(&gw->space);
	rl_nl_close(gw->nl);
	free(gw);
}

static int slot_of(struct rl_gw *gw, uint32_t slot, struct rl_slot **ret,
		   struct eg_err *err)
{
	if (slot < gw->first || slot - gw->first >= gw->count)
		return eg_err_set(err, -EINVAL,
				  "slot %u is not of gateway %u (%u to %u)",
				  slot, gw->gateway, gw->first,
				  gw->first + gw->count - 1);
	*ret = &gw->slot[slot - gw->first];
	return 0;
}

/* ---- the table ----------------------------------------------------------- */

static void pin_key(struct rl_key *k, uint32_t addr, uint8_t proto, uint16_t port)
{
	rl_key_addr(k, addr);
	rl_key_u8(k, proto);
	rl_key_port(k, port);
}

/*
 * Does adding an element that is there refresh its timeout? Kernel 6.12 and
 * later do; before, it is silently ignored. Asked of this very kernel with an
 * element nobody can match (0.0.0.0, protocol 0), since distributions port
 * such changes back.
 */
static int probe_refresh(struct rl_gw *gw, struct eg_err *err)
{
	static const uint64_t life[] = {100000, 200000};
	struct rl_ask ask = {.set = "p000"};
	struct rl_elem e = {0};
	struct rl_found f;
	int rc = 0;

	pin_key(&e.key, 0, 0, 0);
	ask.key = e.key;
	for (size_t i = 0; !rc && i < EG_ARRAY_SIZE(life); i++) {
		e.timeout_ms = life[i];
		rl_begin(gw->nl);
		rl_add(gw->nl, ask.set, &e);
		rc = rl_commit(gw->nl, "probing set timeouts", err);
	}
	if (!rc)
		rc = rl_get(gw->nl, &ask, &f, 1, err);
	if (rc)
		return rc;
	gw->refresh = f.present && f.left_ms > life[0];
	rl_begin(gw->nl);
	rl_del(gw->nl, ask.set, &e);
	return rl_commit(gw->nl, "probing set timeouts", err);
}

int rl_gw_install(struct rl_gw *gw, struct eg_err *err)
{
	char what[WHAT];
	int rc;

	(void)snprintf(what, sizeof(what), "installing the rules of gateway %u",
		       gw->gateway);
	rl_begin(gw->nl);
	rl_gwtable_put(gw);
	rc = rl_commit(gw->nl, what, err);
	if (rc)
		return rc;
	for (uint32_t i = 0; i < gw->count; i++)
		slot_forget(&gw->slot[i]);
	return probe_refresh(gw, err);
}

int rl_gw_adopt(struct rl_gw *gw, struct eg_err *err)
{
	char have[256], want[256];
	int rc = rl_table_comment(gw->nl, have, sizeof(have), err);

	if (rc)
		return rc;
	rl_gwtable_comment(gw, want, sizeof(want));
	if (strcmp(have, want))
		return eg_err_set(
			err, -EPROTO,
			"the rules of gateway %u are of another version or configuration (%.100s)",
			gw->gateway, have);
	rl_begin(gw->nl);
	rl_gwtable_denied(gw, true);
	rc = rl_commit(gw->nl, "refreshing the always-denied addresses", err);
	return rc ? rc : probe_refresh(gw, err);
}

int rl_gw_host(struct rl_gw *gw, const uint32_t *addr, size_t n,
	       struct eg_err *err)
{
	struct rl_space space;
	int rc;

	if (n > RL_HOST_ADDRS)
		return eg_err_set(
			err, -E2BIG,
			"the host has %zu addresses; at most %d are followed",
			n, RL_HOST_ADDRS);
	rc = rl_space_init(&space, gw->conf, addr, n);
	if (!rc) {
		rl_begin(gw->nl);
		rl_flush(gw->nl, "host");
		rl_ranges_put(gw->nl, "host", &space.host);
		rc = rl_commit(gw->nl, "replacing the host's addresses", err);
	} else {
		eg_err_set(err, rc, "out of memory for the host's addresses");
	}
	if (rc) {
		rl_space_free(&space);
		return rc;
	}
	rl_space_free(&gw->space);
	gw->space = space;
	return 0;
}

enum eg_reason rl_addr_denied(const struct eg_conf *conf, uint32_t addr)
{
	struct rl_space space;
	enum eg_reason r = EG_REASON_RESERVED; /* no memory: closed */

	if (!rl_space_init(&space, conf, NULL, 0))
		r = rl_space_denied(&space, addr);
	rl_space_free(&space);
	return r;
}

/* ---- the elements of a lease --------------------------------------------- */

/* Everything plain a lease can have; made, looked for and deleted alike. */
enum part {
	PART_LEASE,
	PART_LIVE,
	PART_TX,
	PART_RX,
	PART_LOGRATE,
	PART_QUIET,
	PART_REPORT,
	PART_NEWFLOWS,
	PART_FLOWS,
	PART_REVOKED,
	PARTS,
};

static const char *const part_set[PARTS] = {
	[PART_LEASE] = "lease",	    [PART_LIVE] = "live",
	[PART_TX] = "tx",	    [PART_RX] = "rx",
	[PART_LOGRATE] = "lograte", [PART_QUIET] = "quiet",
	[PART_REPORT] = "report",   [PART_NEWFLOWS] = "newflows",
	[PART_FLOWS] = "flows",	    [PART_REVOKED] = "revoked",
};

static void part_key(struct rl_key *k, enum part p, uint32_t link, uint32_t mark)
{
	rl_key_host(k, link);
	switch (p) {
	case PART_LIVE:
	case PART_RX:
	case PART_LOGRATE:
		rl_key_host(k, mark);
		break;
	case PART_TX:
		rl_key_host(k, mark | EG_MARK_PASS);
		break;
	case PART_LEASE:
	case PART_QUIET:
	case PART_REPORT:
	case PART_NEWFLOWS:
	case PART_FLOWS:
	case PART_REVOKED:
	case PARTS:
		break;
	}
}

/* Does the lease have this part, and with what in it? */
static bool part_fill(struct rl_elem *e, enum part p, const struct rl_lease *l,
		      uint32_t link)
{
	uint32_t mark = epoch_mark(l->generation);
	uint32_t log_s = l->log_s ? l->log_s : RL_LOG_S;

	memset(e, 0, sizeof(*e));
	part_key(&e->key, p, link, mark);
	switch (p) {
	case PART_LEASE:
		e->has_data = true;
		e->data = mark;
		return true;
	case PART_LIVE:
		return !l->revoked;
	case PART_REVOKED:
		return l->revoked;
	case PART_TX:
	case PART_RX:
		e->state.kind = RL_STATE_COUNTER;
		return true;
	case PART_LOGRATE:
		e->state = (struct rl_stateful){
			.kind = RL_STATE_LIMIT,
			.rate = log_s,
			.burst = RL_LOG_BURST(log_s),
		};
		return true;
	case PART_QUIET:
		return l->drop;
	case PART_REPORT:
		return l->report;
	case PART_NEWFLOWS:
		e->state = (struct rl_stateful){
			.kind = RL_STATE_LIMIT,
			.over = true,
			.rate = l->new_flows_s,
			.burst = 2 * l->new_flows_s,
		};
		return l->new_flows_s != 0;
	case PART_FLOWS:
		e->state = (struct rl_stateful){
			.kind = RL_STATE_FLOWS,
			.burst = l->flows,
		};
		return l->flows != 0;
	case PARTS:
		break;
	}
	return false;
}

static void box_elem(struct rl_elem *e, const struct rl_box *b)
{
	memset(e, 0, sizeof(*e));
	pin_key(&e->key, b->lo, b->proto, b->plo);
	pin_key(&e->end, b->hi, b->proto, b->phi);
}

static int box_cmp(const void *a, const void *b)
{
	const struct rl_box *x = a, *y = b;
	const uint32_t v[][2] = {{x->proto, y->proto},
				 {x->lo, y->lo},
				 {x->hi, y->hi},
				 {x->plo, y->plo},
				 {x->phi, y->phi}};

	for (size_t i = 0; i < EG_ARRAY_SIZE(v); i++)
		if (v[i][0] != v[i][1])
			return v[i][0] < v[i][1] ? -1 : 1;
	return 0;
}

/* What is in @a and not in @b (both sorted) is deleted or added. */
static void boxes_diff(struct rl_nl *nl, const char *set, bool add,
		       const struct rl_box *a, size_t na,
		       const struct rl_box *b, size_t nb)
{
	struct rl_elem e;
	size_t k = 0;

	for (size_t i = 0; i < na; i++) {
		while (k < nb && box_cmp(&b[k], &a[i]) < 0)
			k++;
		if (k < nb && !box_cmp(&b[k], &a[i]))
			continue;
		box_elem(&e, &a[i]);
		if (add)
			rl_add(nl, set, &e);
		else
			rl_del(nl, set, &e);
	}
}

static int compile(struct rl_gw *gw, const struct rl_lease *l,
		   const struct rl_prog *prog, struct rl_box **box, size_t *n,
		   struct eg_err *err)
{
	int rc = rl_compile(gw->conf, &gw->space, prog, l->phases, l->tenant,
			    wall_s(), box, n, err);

	if (!rc && *n)
		qsort(*box, *n, sizeof(**box), box_cmp);
	return rc;
}

static void slot_holds(struct rl_slot *s, const struct rl_lease *l,
		       struct rl_box *box, size_t nbox)
{
	s->leased = true;
	s->known = true;
	s->generation = l->generation;
	s->lease = *l;
	s->lease.tenant = NULL; /* not ours to keep */
	free(s->box);
	s->box = box;
	s->nbox = nbox;
}

static int lease_valid(struct rl_gw *gw, const struct rl_lease *l,
		       struct rl_slot **s, struct eg_err *err)
{
	int rc = slot_of(gw, l->slot, s, err);

	if (!rc && !eg_epoch(l->generation))
		rc = eg_err_set(
			err, -EINVAL,
			"generation %llu has no epoch (its low 24 bits are 0)",
			(unsigned long long)l->generation);
	return rc;
}

int rl_gw_lease(struct rl_gw *gw, const struct rl_lease *l,
		const struct rl_prog *prog, struct eg_err *err)
{
	char what[WHAT], set[RL_SET_NAME];
	struct rl_box *box = NULL;
	struct rl_slot *s;
	struct rl_elem e;
	size_t nbox = 0;
	int rc = lease_valid(gw, l, &s, err);

	if (rc)
		return rc;
	if (s->known)
		return eg_err_set(err, -EBUSY,
				  "slot %u still holds generation %llu",
				  l->slot, (unsigned long long)s->generation);
	rc = compile(gw, l, prog, &box, &nbox, err);
	if (rc)
		return rc;
	rl_begin(gw->nl);
	rl_set_name(set, 'x', l->slot - gw->first);
	boxes_diff(gw->nl, set, true, box, nbox, NULL, 0);
	for (enum part p = 0; p < PARTS; p++)
		if (part_fill(&e, p, l, eg_plan_ifindex(gw->conf, l->slot)))
			rl_add(gw->nl, part_set[p], &e);
	(void)snprintf(what, sizeof(what), "leasing slot %u", l->slot);
	rc = rl_commit(gw->nl, what, err);
	if (rc)
		free(box);
	else
		slot_holds(s, l, box, nbox);
	return rc;
}

/* Is a port anything in these phases could have pinned? */
static bool port_pinnable(const struct rl_prog *prog, uint32_t phases,
			  int64_t now, uint8_t proto, uint16_t key)
{
	for (uint32_t i = 0; i < prog->nentries; i++) {
		const struct rl_entry *e = &prog->entry[i];

		if ((e->flags & RL_F_DENY) || e->kind == RL_PREFIX ||
		    !rl_phase_wanted(e, phases, now))
			continue;
		for (uint8_t k = 0; k < e->nports && k < RL_PORTS; k++)
			if (e->port[k].proto == proto &&
			    key >= rl_port_key(proto, e->port[k].lo) &&
			    key <= rl_port_key(proto, e->port[k].hi))
				return true;
	}
	return false;
}

/* Pins go by a pair that works whether the kernel still has them or not: a
 * bare delete of an expired element would abort the batch. */
static void pin_drop(struct rl_nl *nl, const char *set,
		     const struct rl_pin_ent *p)
{
	struct rl_elem e = {.timeout_ms = 60000};

	pin_key(&e.key, p->addr, p->proto, p->port);
	rl_add(nl, set, &e);
	e.timeout_ms = 0;
	rl_del(nl, set, &e);
}

static bool pin_stays(const struct rl_pin_ent *p, const struct rl_lease *l,
		      const struct rl_prog *prog)
{
	/*
	 * The name that led there must be allowed in the new phases, too. Of
	 * a pin taken over after a restart the name is not known: it goes, and
	 * the guest's next query brings it back if it may.
	 */
	if (p->phases != RL_PHASES_ALL && !(p->phases & l->phases))
		return false;
	return port_pinnable(prog, l->phases, wall_s(), p->proto, p->port);
}

static void rephase_pins(struct rl_gw *gw, struct rl_slot *s,
			 const struct rl_lease *l, const struct rl_prog *prog,
			 bool commit)
{
	char set[RL_SET_NAME];

	rl_set_name(set, 'p', l->slot - gw->first);
	for (size_t i = 0; i < s->pins.cap; i++) {
		struct rl_pin_ent *p = &s->pins.v[i];

		if (!p->until_ms || pin_stays(p, l, prog))
			continue;
		if (commit)
			p->until_ms = 1; /* dead, keeps its place */
		else
			pin_drop(gw->nl, set, p);
	}
}

/* Parts that a lease may gain or lose while it lives. */
static void rephase_parts(struct rl_gw *gw, const struct rl_slot *s,
			  const struct rl_lease *l)
{
	static const enum part may[] = {PART_LIVE, PART_QUIET, PART_REPORT,
					PART_REVOKED};
	uint32_t link = eg_plan_ifindex(gw->conf, l->slot);
	struct rl_elem e;

	for (size_t i = 0; i < EG_ARRAY_SIZE(may); i++) {
		bool had = part_fill(&e, may[i], &s->lease, link);
		bool has = part_fill(&e, may[i], l, link);

		if (has && !had)
			rl_add(gw->nl, part_set[may[i]], &e);
		else if (had && !has)
			rl_del(gw->nl, part_set[may[i]], &e);
	}
}

static int leased_as(struct rl_gw *gw, uint32_t slot, uint64_t generation,
		     struct rl_slot **s, struct eg_err *err)
{
	int rc = slot_of(gw, slot, s, err);

	if (!rc && (!(*s)->leased || (*s)->generation != generation))
		rc = eg_err_set(err, -ESTALE,
				"slot %u is not leased under generation %llu",
				slot, (unsigned long long)generation);
	return rc;
}

int rl_gw_rephase(struct rl_gw *gw, const struct rl_lease *l,
		  const struct rl_prog *prog, struct eg_err *err)
{
	char what[WHAT], set[RL_SET_NAME];
	struct rl_box *box = NULL;
	struct rl_slot *s;
	size_t nbox = 0;
	int rc = leased_as(gw, l->slot, l->generation, &s, err);

	if (!rc)
		rc = compile(gw, l, prog, &box, &nbox, err);
	if (rc)
		return rc;
	rl_begin(gw->nl);
	rl_set_name(set, 'x', l->slot - gw->first);
	/* what stays is not touched, so allowed traffic never misses it */
	boxes_diff(gw->nl, set, false, s->box, s->nbox, box, nbox);
	boxes_diff(gw->nl, set, true, box, nbox, s->box, s->nbox);
	rephase_pins(gw, s, l, prog, false);
	rephase_parts(gw, s, l);
	(void)snprintf(what, sizeof(what), "changing the rules of slot %u",
		       l->slot);
	rc = rl_commit(gw->nl, what, err);
	if (rc) {
		free(box);
		return rc;
	}
	rephase_pins(gw, s, l, prog, true);
	slot_holds(s, l, box, nbox);
	return 0;
}

/* ---- the end of a lease -------------------------------------------------- */

/*
 * Which parts are in the kernel, asked rather than remembered: a main that
 * has not taken the lease over must be able to end it too. The lease map's
 * key has no epoch, so another lease's element is told by its data.
 */
static int parts_found(struct rl_gw *gw, uint32_t slot, uint64_t generation,
		       struct rl_found found[PARTS], struct eg_err *err)
{
	uint32_t link = eg_plan_ifindex(gw->conf, slot);
	struct rl_ask ask[PARTS] = {0};
	int rc;

	for (enum part p = 0; p < PARTS; p++) {
		ask[p].set = part_set[p];
		part_key(&ask[p].key, p, link, epoch_mark(generation));
	}
	rc = rl_get(gw->nl, ask, found, PARTS, err);
	if (!rc && found[PART_LEASE].present &&
	    found[PART_LEASE].data != epoch_mark(generation))
		rc = eg_err_set(err, -ESTALE,
				"slot %u is leased under another generation",
				slot);
	return rc;
}

static void parts_del(struct rl_gw *gw, uint32_t slot, uint64_t generation,
		      const struct rl_found found[PARTS], enum part from,
		      enum part to)
{
	uint32_t link = eg_plan_ifindex(gw->conf, slot);

	for (enum part p = from; p <= to; p++) {
		struct rl_elem e = {0};

		part_key(&e.key, p, link, epoch_mark(generation));
		if (found[p].present)
			rl_del(gw->nl, part_set[p], &e);
	}
}

int rl_gw_unlease(struct rl_gw *gw, uint32_t slot, uint64_t generation,
		  struct eg_err *err)
{
	struct rl_found found[PARTS] = {0};
	char what[WHAT];
	struct rl_slot *s;
	int rc = slot_of(gw, slot, &s, err);

	if (rc)
		return rc;
	if (s->known && s->generation != generation)
		return eg_err_set(err, -ESTALE,
				  "slot %u is not leased under generation %llu",
				  slot, (unsigned long long)generation);
	if (s->known && !s->leased)
		return 0;
	if (s->leased) {
		found[PART_LEASE].present = true;
		found[PART_LIVE].present = !s->lease.revoked;
	} else {
		rc = parts_found(gw, slot, generation, found, err);
	}
	if (rc)
		return rc;
	rl_begin(gw->nl);
	parts_del(gw, slot, generation, found, PART_LEASE, PART_LIVE);
	(void)snprintf(what, sizeof(what), "ending the lease of slot %u", slot);
	rc = rl_commit(gw->nl, what, err);
	if (!rc)
		s->leased = false;
	return rc;
}

/* Reasons packets are denied for in a gateway's table. */
static const uint8_t kernel_reason[] = {
	EG_REASON_METADATA,    EG_REASON_PRIVATE,  EG_REASON_RESERVED,
	EG_REASON_NOT_ALLOWED, EG_REASON_UNLEASED, EG_REASON_SPOOFED,
	EG_REASON_HOST,	       EG_REASON_FRAGMENT, EG_REASON_INVALID,
	EG_REASON_RATE,	       EG_REASON_QUOTA,	   EG_REASON_REVOKED,
};
#define KERNEL_REASONS EG_ARRAY_SIZE(kernel_reason)

static const char *const count_set[] = {"denied", "suppressed", "sent"};
#define COUNTS EG_ARRAY_SIZE(count_set)

/*
 * What a link is denied for that no lease has, as it is between the end of
 * its lease and the moment it goes down. Nobody's, and gone with the link.
 */
static const uint8_t bare_reason[] = {EG_REASON_UNLEASED, EG_REASON_SPOOFED,
				      EG_REASON_FRAGMENT, EG_REASON_INVALID};
#define BARE_REASONS EG_ARRAY_SIZE(bare_reason)

/* Everything packets of a lease and its link can have made, by exact key. */
#define MADE ((KERNEL_REASONS + BARE_REASONS) * COUNTS + 6)

static void ask_counters(struct rl_ask *ask, uint32_t link, uint32_t mark)
{
	for (size_t i = 0; i < KERNEL_REASONS * COUNTS; i++) {
		ask[i].set = count_set[i % COUNTS];
		rl_key_host(&ask[i].key, link);
		rl_key_host(&ask[i].key, mark | kernel_reason[i / COUNTS]);
	}
}

static void ask_made(struct rl_ask ask[MADE], uint32_t link, uint32_t mark)
{
	static const uint8_t dns[] = {IPPROTO_UDP, IPPROTO_TCP};
	const uint32_t marks[] = {mark, 0};
	size_t n = KERNEL_REASONS * COUNTS;

	ask_counters(ask, link, mark);
	for (size_t i = 0; i < BARE_REASONS * COUNTS; i++) {
		ask[n].set = count_set[i % COUNTS];
		rl_key_host(&ask[n].key, link);
		rl_key_host(&ask[n++].key, bare_reason[i / COUNTS]);
	}
	for (size_t i = 0; i < EG_ARRAY_SIZE(marks); i++) {
		ask[n].set = "share";
		rl_key_host(&ask[n].key, link);
		rl_key_host(&ask[n++].key, marks[i]);
	}
	/* The lease's own is one of its parts; this is of what came after. */
	ask[n].set = "lograte";
	rl_key_host(&ask[n].key, link);
	rl_key_host(&ask[n++].key, 0);
	ask[n].set = "icmprate";
	rl_key_host(&ask[n++].key, link);
	for (size_t i = 0; i < sizeof(dns); i++) {
		ask[n].set = "dnsrate";
		rl_key_host(&ask[n].key, link);
		rl_key_u8(&ask[n++].key, dns[i]);
	}
}

static uint32_t key_word(const struct rl_key *k, size_t word)
{
	uint32_t v = 0;

	if (k->len >= 4 * (word + 1))
		memcpy(&v, k->b + 4 * word, sizeof(v));
	return v;
}

/* `seen` is shared by the gateway: only when the lease was denied anything
 * is it listed. Entries about to expire are left to do so; being keyed by
 * the epoch they mean nothing to the next lease. */
static int scrub_seen(struct rl_gw *gw, uint32_t link, uint32_t mark,
		      struct eg_err *err)
{
	struct rl_dump d = {0};
	int rc = rl_dump(gw->nl, "seen", &d, err);

	rl_begin(gw->nl);
	for (size_t i = 0; !rc && i < d.n; i++) {
		struct rl_elem e = {.key = d.v[i].key};

		if (key_word(&e.key, 0) == link &&
		    (key_word(&e.key, 1) == mark || !key_word(&e.key, 1)) &&
		    d.v[i].left_ms > SEEN_LEFT_MS)
			rl_del(gw->nl, "seen", &e);
	}
	rl_dump_free(&d);
	return rc ? rc : rl_commit(gw->nl, "forgetting denied destinations", err);
}

static int scrub_batch(struct rl_gw *gw, uint32_t slot, uint64_t generation,
		       const struct rl_ask ask[MADE], struct rl_found *made,
		       struct eg_err *err)
{
	struct rl_found found[PARTS];
	char set[RL_SET_NAME], what[WHAT];
	int rc = parts_found(gw, slot, generation, found, err);

	if (rc)
		return rc;
	rl_begin(gw->nl);
	rl_flush(gw->nl, rl_set_name(set, 'p', slot - gw->first));
	rl_flush(gw->nl, rl_set_name(set, 'x', slot - gw->first));
	parts_del(gw, slot, generation, found, PART_LEASE, PARTS - 1);
	for (size_t i = 0; i < MADE; i++) {
		struct rl_elem e = {.key = ask[i].key};

		if (made[i].present)
			rl_del(gw->nl, ask[i].set, &e);
	}
	(void)snprintf(what, sizeof(what), "scrubbing slot %u", slot);
	return rl_commit(gw->nl, what, err);
}

static int left_over(uint32_t slot, const char *set, struct eg_err *err)
{
	return eg_err_set(err, -EBUSY,
			  "slot %u is not clean: set %s still holds elements of it",
			  slot, set);
}

/* The proof: both sets of the slot listed, everything else asked for. */
static int scrub_proof(struct rl_gw *gw, uint32_t slot, uint64_t generation,
		       const struct rl_ask ask[MADE], struct rl_found *made,
		       struct eg_err *err)
{
	struct rl_found found[PARTS];
	struct rl_dump d = {0};
	char set[RL_SET_NAME];
	int rc = parts_found(gw, slot, generation, found, err);

	for (enum part p = 0; !rc && p < PARTS; p++)
		if (found[p].present)
			rc = left_over(slot, part_set[p], err);
	if (!rc)
		rc = rl_get(gw->nl, ask, made, MADE, err);
	for (size_t i = 0; !rc && i < MADE; i++)
		if (made[i].present)
			rc = left_over(slot, ask[i].set, err);
	for (const char *k = "px"; !rc && *k; k++) {
		rl_set_name(set, *k, slot - gw->first);
		rc = rl_dump(gw->nl, set, &d, err);
		if (!rc && d.n)
			rc = left_over(slot, set, err);
	}
	rl_dump_free(&d);
	return rc;
}

int rl_gw_scrub(struct rl_gw *gw, uint32_t slot, uint64_t generation,
		struct eg_err *err)
{
	uint32_t mark = epoch_mark(generation), link;
	struct rl_ask ask[MADE] = {0};
	struct rl_found made[MADE];
	bool denied = false;
	struct rl_slot *s;
	int rc = slot_of(gw, slot, &s, err);

	if (rc)
		return rc;
	if (s->known && s->generation != generation)
		return eg_err_set(
			err, -ESTALE,
			"slot %u holds another lease than generation %llu",
			slot, (unsigned long long)generation);
	link = eg_plan_ifindex(gw->conf, slot);
	ask_made(ask, link, mark);
	rc = rl_get(gw->nl, ask, made, MADE, err);
	for (size_t i = 0; !rc && i < MADE; i++)
		denied = denied || made[i].present;
	if (!rc)
		rc = scrub_batch(gw, slot, generation, ask, made, err);
	if (!rc && denied)
		rc = scrub_seen(gw, link, mark, err);
	if (!rc)
		rc = scrub_proof(gw, slot, generation, ask, made, err);
	if (!rc)
		slot_forget(s);
	return rc;
}

/* ---- pins ---------------------------------------------------------------- */

struct pin_plan {
	struct rl_pin_ent v[PIN_BATCH];
	size_t n;
	size_t fresh; /* of them, those that add to the live ones */
};

/* The phases in which a name may be reached there; all, without a name. */
static uint16_t pin_phases(const struct rl_pin_name *who, uint8_t proto,
			   uint16_t port)
{
	return who ? (uint16_t)rl_prog_name_phases(who->prog, wall_s(),
						   who->name, proto, port)
		   : RL_PHASES_ALL;
}

static int pin_one(struct pin_plan *plan, struct rl_slot *s,
		   const struct rl_pin_name *who, uint32_t addr,
		   uint8_t proto, uint16_t port, int64_t now, int64_t until_ms,
		   struct eg_err *err)
{
	uint16_t key = rl_port_key(proto, port);
	struct rl_pin_ent *have = rl_pins_find(&s->pins, addr, proto, key);

	if (have && have->until_ms >= until_ms) {
		/* Another name may lead here in other phases. */
		have->phases |= pin_phases(who, proto, port);
		return 0;
	}
	if (plan->n == PIN_BATCH)
		return eg_err_set(
			err, -E2BIG,
			"more than %d pins in one request; the entry's port ranges are too wide for names",
			PIN_BATCH);
	plan->fresh += !have || have->until_ms <= now;
	plan->v[plan->n++] = (struct rl_pin_ent){
		.addr = addr,
		.proto = proto,
		.port = key,
		.phases = pin_phases(who, proto, port),
		.until_ms = until_ms,
	};
	return 0;
}

static int pin_plan(struct pin_plan *plan, struct rl_slot *s,
		    const struct rl_pin_name *who, const uint32_t *addr,
		    size_t naddrs,
		    const struct eg_port *port, size_t nports, int64_t now,
		    int64_t until_ms, struct eg_err *err)
{
	int rc = 0;

	for (size_t i = 0; i < naddrs; i++)
		for (size_t k = 0; k < nports; k++)
			for (uint32_t p = port[k].lo; !rc && p <= port[k].hi; p++)
				rc = pin_one(plan, s, who, addr[i],
					     port[k].proto, (uint16_t)p, now,
					     until_ms, err);
	return rc;
}

static int pin_permitted(struct rl_gw *gw, const uint32_t *addr, size_t n,
			 struct eg_err *err)
{
	char text[EG_ADDR_TEXT];

	for (size_t i = 0; i < n; i++) {
		enum eg_reason r = rl_space_denied(&gw->space, addr[i]);

		if (r != EG_REASON_NONE)
			return eg_err_set(err, -EPERM,
					  "%s is never reachable (%s)",
					  eg_addr_format(addr[i], text),
					  eg_reason_name(r));
	}
	return 0;
}

/* Before 6.12 adding what is there leaves its old timeout, and a bare delete
 * of what has just expired aborts the batch: add, delete, add does neither. */
static void pin_put(struct rl_gw *gw, const char *set,
		    const struct rl_pin_ent *p, uint64_t life_ms)
{
	struct rl_elem e = {.timeout_ms = life_ms};

	pin_key(&e.key, p->addr, p->proto, p->port);
	rl_add(gw->nl, set, &e);
	if (gw->refresh)
		return;
	e.timeout_ms = 0;
	rl_del(gw->nl, set, &e);
	e.timeout_ms = life_ms;
	rl_add(gw->nl, set, &e);
}

static int pin_send(struct rl_gw *gw, struct rl_slot *s, uint32_t slot,
		    const struct pin_plan *plan, uint64_t life_ms,
		    struct eg_err *err)
{
	char set[RL_SET_NAME], what[WHAT];
	int rc;

	rl_set_name(set, 'p', slot - gw->first);
	rl_begin(gw->nl);
	for (size_t i = 0; i < plan->n; i++)
		pin_put(gw, set, &plan->v[i], life_ms);
	(void)snprintf(what, sizeof(what), "pinning %zu addresses for slot %u",
		       plan->n, slot);
	rc = rl_commit(gw->nl, what, err);
	for (size_t i = 0; !rc && i < plan->n; i++)
		rl_pins_put(&s->pins, &plan->v[i]);
	return rc;
}

int rl_gw_pin(struct rl_gw *gw, uint32_t slot, uint64_t generation,
	      const struct rl_pin_name *who, const uint32_t *addr, size_t naddrs, const struct eg_port *port,
	      size_t nports, uint32_t lifetime_s, struct eg_err *err)
{
	uint64_t life_ms = 1000ULL * eg_min_u32(lifetime_s, PIN_LIFE_MAX);
	int64_t now = boot_ms();
	struct pin_plan plan;
	struct rl_slot *s;
	int rc = leased_as(gw, slot, generation, &s, err);

	if (!rc && s->lease.revoked)
		rc = eg_err_set(err, -ESTALE, "slot %u is revoked", slot);
	if (!rc && !lifetime_s)
		rc = eg_err_set(err, -EINVAL,
				"a pin needs a lifetime of at least 1 s");
	if (!rc)
		rc = pin_permitted(gw, addr, naddrs, err);
	plan.n = plan.fresh = 0;
	if (!rc)
		rc = pin_plan(&plan, s, who, addr, naddrs, port, nports, now,
			      now + (int64_t)life_ms, err);
	if (rc || !plan.n)
		return rc;
	rc = rl_pins_room(&s->pins, plan.fresh, now);
	if (rc)
		return eg_err_set(
			err, rc,
			rc == -ENOSPC
				? "slot %u already has %zu of at most %d pinned addresses"
				: "out of memory for pins of slot %u (%zu of %d)",
			slot, rl_pins_live(&s->pins, now), RL_PINS_MAX);
	return pin_send(gw, s, slot, &plan, life_ms, err);
}

size_t rl_gw_pins(struct rl_gw *gw, uint32_t slot, struct rl_pin *ret, size_t max)
{
	int64_t now = boot_ms();
	struct rl_slot *s;
	size_t n = 0;

	if (slot_of(gw, slot, &s, NULL))
		return 0;
	for (size_t i = 0; i < s->pins.cap && n < max; i++) {
		const struct rl_pin_ent *p = &s->pins.v[i];

		if (p->until_ms <= now)
			continue;
		ret[n++] = (struct rl_pin){
			.slot = slot,
			.addr = p->addr,
			.proto = p->proto,
			.port = p->proto == IPPROTO_ICMP
					? (uint16_t)(p->port >> 8)
					: p->port,
			.left_s = (uint32_t)((p->until_ms - now) / 1000),
		};
	}
	return n;
}

/* ---- reading ------------------------------------------------------------- */

int rl_gw_counters(struct rl_gw *gw, uint32_t slot, uint64_t generation,
		   struct eg_reason_counts *c, uint64_t *unattributed,
		   struct eg_err *err)
{
	struct rl_ask ask[KERNEL_REASONS * COUNTS] = {0};
	struct rl_found found[KERNEL_REASONS * COUNTS];
	uint64_t lost = 0;
	struct rl_slot *s;
	int rc = slot_of(gw, slot, &s, err);

	if (rc)
		return rc;
	ask_counters(ask, eg_plan_ifindex(gw->conf, slot),
		     epoch_mark(generation));
	rc = rl_get(gw->nl, ask, found, KERNEL_REASONS * COUNTS, err);
	if (!rc)
		rc = rl_counter_get(gw->nl, "unattributed", &lost, err);
	if (rc)
		return rc;
	for (size_t i = 0; i < EG_REASONS; i++)
		c[i].denied = c[i].suppressed = c[i].sent = 0;
	for (size_t i = 0; i < KERNEL_REASONS; i++) {
		struct eg_reason_counts *r = &c[kernel_reason[i]];

		r->denied = found[COUNTS * i].packets;
		r->suppressed = found[COUNTS * i + 1].packets;
		r->sent = found[COUNTS * i + 2].packets;
	}
	*unattributed = lost;
	return 0;
}

int rl_gw_traffic(struct rl_gw *gw, uint32_t slot, uint64_t generation,
		  uint64_t *tx_bytes, uint64_t *tx_packets, uint64_t *rx_bytes,
		  uint64_t *rx_packets, struct eg_err *err)
{
	struct rl_ask ask[2] = {{.set = "tx"}, {.set = "rx"}};
	struct rl_found found[2];
	struct rl_slot *s;
	int rc = slot_of(gw, slot, &s, err);

	if (rc)
		return rc;
	part_key(&ask[0].key, PART_TX, eg_plan_ifindex(gw->conf, slot),
		 epoch_mark(generation));
	part_key(&ask[1].key, PART_RX, eg_plan_ifindex(gw->conf, slot),
		 epoch_mark(generation));
	rc = rl_get(gw->nl, ask, found, 2, err);
	if (rc)
		return rc;
	*tx_bytes = found[0].bytes;
	*tx_packets = found[0].packets;
	*rx_bytes = found[1].bytes;
	*rx_packets = found[1].packets;
	return 0;
}

/* ---- takeover ------------------------------------------------------------ */

static uint16_t key_port(const struct rl_key *k)
{
	return (uint16_t)(k->b[8] << 8 | k->b[9]);
}

static uint32_t key_addr(const struct rl_key *k)
{
	return (uint32_t)k->b[0] << 24 | (uint32_t)k->b[1] << 16 |
	       (uint32_t)k->b[2] << 8 | k->b[3];
}

static int adopt_pins(struct rl_slot *s, const struct rl_dump *d)
{
	int64_t now = boot_ms();
	int rc = rl_pins_room(&s->pins, d->n, now);

	for (size_t i = 0; !rc && i < d->n; i++)
		if (d->v[i].key.len == 12 && d->v[i].left_ms)
			rl_pins_put(&s->pins,
				    &(struct rl_pin_ent){
					    .addr = key_addr(&d->v[i].key),
					    .proto = d->v[i].key.b[4],
					    .port = key_port(&d->v[i].key),
					    .until_ms = now +
							(int64_t)d->v[i].left_ms });
	return rc;
}

static void report_pins(struct rl_gw *gw, uint32_t slot,
			void (*cb)(void *arg, const struct rl_pin *pin),
			void *arg)
{
	struct rl_pin *pin = calloc(RL_PINS_MAX, sizeof(*pin));
	size_t n = pin ? rl_gw_pins(gw, slot, pin, RL_PINS_MAX) : 0;

	for (size_t i = 0; i < n; i++)
		cb(arg, &pin[i]);
	free(pin);
}

/* The boxes that are in the kernel, as a former main put them. */
static int adopt_boxes(const struct rl_dump *d, struct rl_box **ret)
{
	struct rl_box *box = calloc(d->n + 1, sizeof(*box));

	if (!box)
		return -ENOMEM;
	for (size_t i = 0; i < d->n; i++)
		box[i] = (struct rl_box){
			.lo = key_addr(&d->v[i].key),
			.hi = key_addr(d->v[i].end.len ? &d->v[i].end
						       : &d->v[i].key),
			.proto = d->v[i].key.b[4],
			.plo = key_port(&d->v[i].key),
			.phi = key_port(d->v[i].end.len ? &d->v[i].end
							: &d->v[i].key),
		};
	qsort(box, d->n, sizeof(*box), box_cmp);
	*ret = box;
	return 0;
}

/* Put back what is missing, take away what the lease does not have. */
static int mend(struct rl_gw *gw, const struct rl_lease *l,
		const struct rl_found found[PARTS], const struct rl_box *have,
		size_t nhave, const struct rl_box *want, size_t nwant,
		struct eg_err *err)
{
	uint32_t link = eg_plan_ifindex(gw->conf, l->slot);
	char set[RL_SET_NAME], what[WHAT];
	struct rl_elem e;

	rl_begin(gw->nl);
	rl_set_name(set, 'x', l->slot - gw->first);
	boxes_diff(gw->nl, set, false, have, nhave, want, nwant);
	boxes_diff(gw->nl, set, true, want, nwant, have, nhave);
	for (enum part p = 0; p < PARTS; p++) {
		bool has = part_fill(&e, p, l, link);

		if (has && !found[p].present)
			rl_add(gw->nl, part_set[p], &e);
		else if (!has && found[p].present)
			rl_del(gw->nl, part_set[p], &e);
	}
	(void)snprintf(what, sizeof(what), "taking over slot %u", l->slot);
	return rl_commit(gw->nl, what, err);
}

int rl_gw_take_over(struct rl_gw *gw, const struct rl_lease *l,
		    const struct rl_prog *prog,
		    void (*cb)(void *arg, const struct rl_pin *pin), void *arg,
		    struct eg_err *err)
{
	struct rl_box *have = NULL, *want = NULL;
	struct rl_found found[PARTS];
	struct rl_dump px = {0};
	char set[RL_SET_NAME];
	struct rl_slot *s;
	size_t nhave = 0, nwant = 0;
	int rc = lease_valid(gw, l, &s, err);

	if (rc)
		return rc;
	slot_forget(s);
	rc = parts_found(gw, l->slot, l->generation, found, err);
	if (!rc)
		rc = compile(gw, l, prog, &want, &nwant, err);
	if (!rc)
		rc = rl_dump(gw->nl, rl_set_name(set, 'x', l->slot - gw->first),
			     &px, err);
	if (!rc)
		rc = adopt_boxes(&px, &have);
	nhave = px.n;
	if (!rc)
		rc = rl_dump(gw->nl, rl_set_name(set, 'p', l->slot - gw->first),
			     &px, err);
	if (!rc)
		rc = adopt_pins(s, &px);
	if (!rc)
		rc = mend(gw, l, found, have, nhave, want, nwant, err);
	free(have);
	rl_dump_free(&px);
	if (rc) {
		free(want);
		rl_pins_clear(&s->pins);
		return rc;
	}
	slot_holds(s, l, want, nwant);
	if (cb)
		report_pins(gw, l->slot, cb, arg);
	return 0;
}
