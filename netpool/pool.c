// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: the pool: gateways come up, slots are built and armed.
 *
 * Order at start: build says what is there (SCAN), the records say what is
 * leased, then gateway after gateway is made or adopted. A gateway's table is
 * in the kernel, default drop acknowledged, before build is told to bring its
 * link up, and only then are its slots built or taken over. At most
 * NP_BUILD_WINDOW slots are asked of build at a time, so that arming for a
 * lease never queues behind more than that.
 */
#include "netpool/base/log.h"
#include "netpool/base/plan.h"
#include "netpool/base/reason.h"
#include "netpool/base/util.h"
#include "netpool/preflight.h"
#include "netpool/state.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define NP_QUIET_NS (EG_NSEC_PER_SEC / 3) /* without a lease or release */
#define NP_KIND_SEEN 4 /* equal requests before slots are armed for them */

static void list_push(struct np_main *m, struct np_list *l, uint32_t slot)
{
	m->slot[slot].next = 0;
	if (l->tail)
		m->slot[l->tail - 1].next = slot + 1;
	else
		l->head = slot + 1;
	l->tail = slot + 1;
	l->count++;
}

static uint32_t list_pop(struct np_main *m, struct np_list *l)
{
	uint32_t slot = l->head - 1;

	if (!l->head)
		return UINT32_MAX;
	l->head = m->slot[slot].next;
	if (!l->head)
		l->tail = 0;
	l->count--;
	return slot;
}

/* Rare: a slot that broke while it waited for a lease. */
static void list_remove(struct np_main *m, struct np_list *l, uint32_t slot)
{
	struct np_list rest = {0};
	uint32_t k;

	while ((k = list_pop(m, l)) != UINT32_MAX)
		if (k != slot)
			list_push(m, &rest, k);
	*l = rest;
}

/* What the configuration asks for, and no more than the host has room for. */
static uint32_t prefill_count(const struct eg_conf *c)
{
	uint32_t n = np_prefill(c, (uint64_t)sysconf(_SC_PHYS_PAGES) *
					   (uint64_t)sysconf(_SC_PAGESIZE));

	return c->slots_cap ? eg_min_u32(n, c->slots_cap) : n;
}

void np_slot_set(struct np_main *m, uint32_t slot, enum np_slot_state state)
{
	m->by[m->slot[slot].state]--;
	m->slot[slot].state = (uint8_t)state;
	m->by[state]++;
}

int np_pool_init(struct np_main *m, struct eg_err *err)
{
	uint32_t n = m->conf->slots;

	m->slot = calloc(n, sizeof(*m->slot));
	m->id_hash = calloc(n, sizeof(*m->id_hash));
	m->uid_hash = calloc(n, sizeof(*m->uid_hash));
	m->event = calloc(NP_EVENTS, sizeof(*m->event));
	m->pending = calloc(NP_PENDING, sizeof(*m->pending));
	m->tombs = np_tombs_new();
	if (!m->slot || !m->id_hash || !m->uid_hash || !m->event || !m->pending || !m->tombs)
		return eg_err_set(err, -ENOMEM, "out of memory for %u slots", n);
	m->by[NP_EMPTY] = n;
	m->prefill = prefill_count(m->conf);
	m->count.started_ns = eg_wall_ns();
	/*
	 * Cursors of a former main must be told apart and stay in order: a
	 * thousand numbers a second are more than there are events.
	 */
	m->event_base = m->event_seq =
		(uint64_t)(m->count.started_ns / 1000000);
	eg_info("pool: %u slots, %u to be prebuilt, about %llu MB of kernel memory (estimate)%s%s",
		n, m->prefill,
		(unsigned long long)m->prefill * EG_SLOT_BYTES / 1000000,
		m->conf->slots_cap ? "; no more fit: " : "",
		m->conf->slots_cap_why);
	return 0;
}

/* ---- generations ---------------------------------------------------------- */

static void generations_ask(struct np_main *m)
{
	struct eg_ctl_reserve q = {.counter = EG_COUNTER_GENERATION,
				   .want = NP_RESERVE};

	if (m->gen_asked)
		return;
	m->gen_asked =
		!eg_chan_send(m->ctx->ctl, EG_CTL_RESERVE, 0, &q, sizeof(q), -1);
}

void np_pool_generations(struct np_main *m, const struct eg_ctl_reserved *r)
{
	m->gen_asked = false;
	if (r->end <= r->first)
		return;
	if (m->gen_next >= m->gen_end)
		m->gen_next = r->first;
	/* Blocks follow each other unless somebody else took one between. */
	if (m->gen_end && m->gen_end != r->first && m->gen_next < m->gen_end)
		m->gen_next = r->first;
	m->gen_end = r->end;
	np_pool_run(m);
}

uint64_t np_pool_generation(struct np_main *m)
{
	if (m->gen_end - m->gen_next < NP_RESERVE / 2)
		generations_ask(m);
	/* Epoch 0 means "no lease" in the kernel's marks. */
	while (m->gen_next < m->gen_end && !eg_epoch(m->gen_next))
		m->gen_next++;
	if (m->gen_next >= m->gen_end)
		return 0;
	m->count.generation = m->gen_next;
	return m->gen_next++;
}

/* ---- building ---------------------------------------------------------------- */

int np_pool_ask(struct np_main *m, uint16_t type, uint32_t slot)
{
	struct eg_mb_slot q = {.slot = slot,
			       .generation = m->slot[slot].generation};

	return eg_role_send(m->ctx, EG_ROLE_BUILD, type, 0, &q, sizeof(q), -1);
}

/*
 * Whatever it is, it goes: EMPTY when build says so, asked again by whoever
 * build is then.
 */
void np_pool_scrap(struct np_main *m, uint32_t k)
{
	np_slot_set(m, k, NP_BAD);
	m->slot[k].retry = 0; /* EMPTY once it has been scrapped */
	if (np_pool_ask(m, EG_MB_SCRAP, k))
		eg_warning("slot %u waits for build to be scrapped", k);
}

/* Slots that take kernel memory, or are about to. */
static uint32_t slots_alive(const struct np_main *m)
{
	return m->conf->slots - m->by[NP_EMPTY] - m->by[NP_BAD];
}

/* Nothing of it is left: the one that has been so the longest is built next. */
static void slot_empty(struct np_main *m, uint32_t k)
{
	np_slot_set(m, k, NP_EMPTY);
	m->slot[k].generation = 0;
	m->slot[k].tap = 0;
	list_push(m, &m->empty, k);
}

/*
 * Leases come and go, and there are enough for a while: a slot that was
 * used is built again later. Its former namespace then ends (build_slot.c),
 * which in a large pool would take a CPU from those who lease.
 */
static bool build_later(struct np_main *m, uint32_t k)
{
	uint32_t stock = m->idle.count + m->armed.count + m->tapped.count;

	if (!m->slot[k].used || m->conf->slots < EG_MANY_SLOTS ||
	    stock < m->prefill / 4 ||
	    eg_boot_ns() - m->busy_ns > NP_QUIET_NS)
		return false;
	if (!m->trickle)
		return true;
	m->trickle--;
	return false;
}

static void build_some(struct np_main *m)
{
	uint32_t room;

	if (m->building >= NP_BUILD_WINDOW / 2)
		return; /* ask in halves of the window, not slot by slot */
	room = m->prefill - eg_min_u32(m->prefill, slots_alive(m));
	room = eg_min_u32(room, NP_BUILD_WINDOW - m->building);
	for (; room && m->empty.count; room--) {
		uint32_t k = m->empty.head - 1;
		struct eg_mb_slots q = {.first = k, .count = 1};

		if (build_later(m, k))
			return;
		if (eg_role_send(m->ctx, EG_ROLE_BUILD, EG_MB_BUILD, 0, &q,
				 sizeof(q), -1))
			return;
		(void)list_pop(m, &m->empty);
		np_slot_set(m, k, NP_BUILDING);
		m->building++;
	}
}

void np_pool_tick(struct np_main *m, uint32_t k, int64_t now)
{
	const struct np_slot *s = &m->slot[k];

	/* retry 0: it is being scrapped and comes back by np_pool_give(). */
	if (s->state != NP_BAD || !s->retry || s->retry > now)
		return;
	if (s->generation)
		np_pool_scrap(m, k); /* once named: not as it was built */
	else
		slot_empty(m, k);
}

/* Name the first idle one; @tap: of the guest kind it is to have a tap for. */
static bool arm_one(struct np_main *m, uint32_t tap)
{
	uint32_t k = m->idle.head - 1;
	uint64_t gen = np_pool_generation(m);

	if (!gen)
		return false;
	m->slot[k].generation = gen;
	if (np_pool_ask(m, EG_MB_ARM, k))
		return false;
	(void)list_pop(m, &m->idle);
	np_slot_set(m, k, NP_ARMING);
	m->slot[k].tap = tap;
	if (tap)
		m->tapping++;
	else
		m->arming++;
	return true;
}

/* Plain ones first; never more with a tap than there are others. */
static void arm_some(struct np_main *m)
{
	uint32_t want = m->conf->armed, taps = m->tapped.count + m->tapping;

	while (m->idle.count && m->armed.count + m->arming < want)
		if (!arm_one(m, 0))
			return;
	for (; m->kind.number && taps < want && m->idle.count > taps; taps++)
		if (!arm_one(m, m->kind.number))
			return;
}

static void untap(struct np_main *m, uint32_t n)
{
	while (n-- && m->tapped.count)
		np_pool_scrap(m, list_pop(m, &m->tapped));
}

/* Is it what slots are armed for? If others ask for another kind, change. */
static bool kind_is(struct np_main *m, const struct eg_guest *g)
{
	struct np_guest_kind *k = &m->kind;

	if (g->mode != EG_GUEST_TAP && g->mode != EG_GUEST_ROUTE)
		return false;
	if (k->number && !memcmp(&k->guest, g, sizeof(*g))) {
		k->others = 0;
		return true;
	}
	if (!k->others || memcmp(&k->other, g, sizeof(*g)) != 0)
		k->others = 0;
	k->other = *g;
	if (++k->others < NP_KIND_SEEN)
		return false;
	k->guest = *g;
	k->number++;
	k->others = 0;
	untap(m, UINT32_MAX);
	return false;
}

void np_pool_run(struct np_main *m)
{
	if (!m->build_up || !m->loaded)
		return;
	arm_some(m);
	build_some(m);
}

uint32_t np_pool_take(struct np_main *m, const struct eg_guest *guest,
		      bool *slow)
{
	bool tap = guest->mode != EG_GUEST_VETH;
	uint32_t k;

	*slow = false;
	if (kind_is(m, guest) && m->tapped.count)
		return list_pop(m, &m->tapped);
	k = list_pop(m, &m->armed);
	*slow = tap || k == UINT32_MAX;
	if (k != UINT32_MAX)
		return k;
	if (!m->idle.count) {
		/* The last ones are made for others: not for long. */
		untap(m, NP_BUILD_WINDOW);
		return UINT32_MAX;
	}
	/* Not named yet: the lease waits for build. */
	k = m->idle.head - 1;
	m->slot[k].generation = np_pool_generation(m);
	if (!m->slot[k].generation || np_pool_ask(m, EG_MB_ARM, k))
		return UINT32_MAX;
	(void)list_pop(m, &m->idle);
	return k;
}

uint32_t np_pool_take_bare(struct np_main *m, bool *slow)
{
	uint32_t k;
	uint64_t gen;

	*slow = false;
	if (!m->empty.count && !m->idle.count)
		return list_pop(m, m->armed.count ? &m->armed : &m->tapped);
	gen = np_pool_generation(m);
	if (!gen)
		return UINT32_MAX;
	k = list_pop(m, m->empty.count ? &m->empty : &m->idle);
	m->slot[k].generation = gen;
	return k;
}

void np_pool_give(struct np_main *m, uint32_t slot)
{
	m->slot[slot].lease = NULL;
	m->slot[slot].used = true;
	slot_empty(m, slot);
	np_pool_run(m);
}

static void slot_bad(struct np_main *m, uint32_t k, const struct eg_bm_slot *a)
{
	struct np_slot *s = &m->slot[k];
	uint16_t shift = s->failures < 5 ? s->failures : 5;

	np_slot_set(m, k, NP_BAD);
	s->failures++;
	s->retry = eg_boot_ns() + (NP_RETRY_NS << shift);
	eg_warning("slot %u: %s%.160s (tried again in %lld s)", k,
		   a->text[0] ? "" : strerror(-a->error), a->text,
		   (long long)((NP_RETRY_NS << shift) / EG_NSEC_PER_SEC));
}

void np_pool_say(struct np_main *m)
{
	struct eg_ctl_state st = {.ready = 1};
	struct eg_mp_pool p;

	np_pool_count(m, &p);
	st.slots = p.idle + p.armed + p.leased;
	(void)snprintf(
		st.text, sizeof(st.text),
		"%u of %u slots built, %u armed, %u leased, gateways %u of %u",
		st.slots, m->conf->slots, p.armed, p.leased, p.gateways_up,
		p.gateways);
	(void)eg_chan_send(m->ctx->ctl, EG_CTL_STATE, 0, &st, sizeof(st), -1);
}

/*
 * From the first usable slot on leases are served. A pool that is taken over
 * with every slot leased that may live is ready, too, once its gateways have
 * come back.
 */
static void say_ready(struct np_main *m)
{
	struct eg_mp_pool p;

	if (m->ready_said)
		return;
	np_pool_count(m, &p);
	/* One that is being named (in p.idle) is not to be had yet. */
	if (!m->armed.count && !m->idle.count &&
	    (p.gateways_up < p.gateways || p.leased + p.releasing < m->prefill))
		return;
	m->ready_said = true;
	np_pool_say(m);
}

static void on_built(struct np_main *m, const struct eg_bm_slot *a)
{
	uint32_t k = a->slot;

	if (m->slot[k].state != NP_BUILDING)
		return;
	m->building--;
	if (a->error) {
		slot_bad(m, k, a);
	} else {
		np_slot_set(m, k, NP_IDLE);
		m->slot[k].failures = 0;
		list_push(m, &m->idle, k);
		np_fill_built(m);
		if (!m->building && slots_alive(m) >= m->prefill)
			np_pool_say(m);
	}
	np_pool_run(m);
	say_ready(m);
}

/* The end of arming, one way or the other. */
static void arming_done(struct np_main *m, const struct eg_bm_slot *a)
{
	struct np_slot *s = &m->slot[a->slot];

	if (s->tap)
		m->tapping--;
	else
		m->arming--;
	if (a->error) {
		np_pool_scrap(m, a->slot);
	} else {
		np_slot_set(m, a->slot, NP_ARMED);
		list_push(m, s->tap ? &m->tapped : &m->armed, a->slot);
	}
	np_pool_run(m);
	say_ready(m);
}

static int ask_guest(struct np_main *m, uint32_t k, const struct eg_guest *g)
{
	struct eg_mb_guest q = {.slot = k,
				.generation = m->slot[k].generation,
				.guest = *g};

	return eg_role_send(m->ctx, EG_ROLE_BUILD, EG_MB_GUEST, 0, &q,
			    sizeof(q), -1);
}

/* A tap made ahead, or the answer that a slot found named has none. */
static void on_guest(struct np_main *m, const struct eg_bm_slot *a)
{
	struct np_slot *s = &m->slot[a->slot];

	if (s->lease || s->state != NP_ARMING || a->generation != s->generation) {
		np_lease_guest(m, a);
		return;
	}
	if (a->error && s->tap == m->kind.number) {
		eg_warning("taps are not made ahead: %.160s", a->text);
		m->kind = (struct np_guest_kind){0};
	}
	arming_done(m, a);
	if (!a->error && s->tap != m->kind.number && s->tap)
		untap(m, UINT32_MAX); /* the kind has changed meanwhile */
}

static void on_armed(struct np_main *m, const struct eg_bm_slot *a)
{
	struct np_slot *s = &m->slot[a->slot];

	if (a->generation != s->generation)
		return; /* stale */
	if (s->lease && s->lease->step == NP_STEP_ARM) {
		np_lease_armed(m, a->slot, a->error);
		return;
	}
	if (s->state != NP_ARMING)
		return;
	if (!a->error && s->tap && s->tap == m->kind.number &&
	    !ask_guest(m, a->slot, &m->kind.guest))
		return; /* on_guest() goes on */
	if (!a->error && s->tap) {
		/* The kind has changed: a plain one, then. */
		s->tap = 0;
		m->tapping--;
		m->arming++;
	}
	arming_done(m, a);
}

/* ---- gateways ------------------------------------------------------------------ */

static void gateway_ask(struct np_main *m, uint32_t g)
{
	struct eg_mb_gateway q = {.gateway = g};

	if (m->gw[g].state != NP_GW_NONE)
		return;
	if (!eg_role_send(m->ctx, EG_ROLE_BUILD, EG_MB_GATEWAY, 0, &q,
			  sizeof(q), -1))
		m->gw[g].state = NP_GW_ASKED;
}

static void on_gateway(struct np_main *m, struct eg_msg *msg)
{
	const struct eg_bm_gateway *a = msg->body;
	struct eg_mb_gateway q = {.gateway = a->gateway};
	struct np_gateway *gw;
	struct eg_err err = {0};
	int r;

	if (a->gateway >= m->conf->gateways)
		return;
	gw = &m->gw[a->gateway];
	if (a->error || msg->fd < 0) {
		eg_error("gateway %u: %.250s", a->gateway, a->text);
		gw->state = NP_GW_BAD;
		return;
	}
	gw->adopted = a->adopted;
	gw->mtu = a->mtu;
	r = m->k->gateway_open(m, a->gateway, eg_steal_fd(&msg->fd),
			       gw->adopted, &err);
	if (!r)
		r = m->k->host_addrs(m, a->gateway, &err);
	if (r) {
		/* No table, no link: fail closed. */
		eg_error("gateway %u: %s", a->gateway, err.text);
		gw->state = NP_GW_BAD;
		return;
	}
	gw->state = NP_GW_RAISING;
	(void)eg_role_send(m->ctx, EG_ROLE_BUILD, EG_MB_GATEWAY_UP, 0, &q,
			   sizeof(q), -1);
}

/* A slot of a gateway that has just come up, as the scan found it. */
static void slot_found(struct np_main *m, uint32_t k)
{
	static const struct eg_guest plain = {.mode = EG_GUEST_VETH};
	struct np_slot *s = &m->slot[k];

	if (s->gone)
		s->scan = 0;
	if (s->lease) {
		(void)np_lease_take_over(m, s->lease);
	} else if (s->gone || s->doubt) {
		np_pool_scrap(m, k);
	} else if (s->scan == 1 + EG_SCAN_NAMED) {
		/*
		 * Named, no record: it was armed and never leased, since the
		 * record is written before the caller hears of a lease and
		 * removed after the name. If it was armed with a tap, build
		 * says so.
		 */
		np_slot_set(m, k, NP_ARMING);
		m->arming++;
		if (ask_guest(m, k, &plain)) {
			m->arming--;
			np_pool_scrap(m, k);
		}
	} else if (s->scan == 1 + EG_SCAN_IDLE) {
		np_slot_set(m, k, NP_IDLE);
		s->generation = 0;
		list_push(m, &m->idle, k);
	} else if (s->scan == 1 + EG_SCAN_ADOPTED) {
		/* Wired into a caller's namespace, and died before the record. */
		s->generation = 0;
		np_pool_scrap(m, k);
	} else {
		slot_empty(m, k);
	}
	s->scan = 0;
	s->gone = s->doubt = false;
}

static void on_gateway_up(struct np_main *m, const struct eg_bm_gateway *a)
{
	struct np_gateway *gw;
	uint32_t first, n;

	if (a->gateway >= m->conf->gateways)
		return;
	gw = &m->gw[a->gateway];
	if (a->error) {
		eg_error("gateway %u: %.250s", a->gateway, a->text);
		gw->state = NP_GW_BAD;
		return;
	}
	if (gw->state != NP_GW_RAISING)
		return;
	gw->state = NP_GW_UP;
	/* Build makes the next one while this one's leases are taken over. */
	if (a->gateway + 1 < m->conf->gateways)
		gateway_ask(m, a->gateway + 1);
	first = eg_plan_first(m->conf, a->gateway);
	n = eg_plan_count(m->conf, a->gateway);
	for (uint32_t k = first; k < first + n; k++)
		slot_found(m, k);
	np_pool_run(m);
	say_ready(m);
}

/* ---- start and take-over ---------------------------------------------------------- */

/* A build that started again answers none of the old questions. */
static void slot_ask_again(struct np_main *m, uint32_t k)
{
	struct np_slot *s = &m->slot[k];

	if (s->state == NP_LEASED &&
	    s->lease->l.req.guest.mode == EG_GUEST_ADOPT &&
	    s->lease->step == NP_STEP_NONE)
		(void)np_pool_ask(m, EG_MB_ADOPTED, k);
	else if (s->lease)
		np_release_again(m, s->lease);
	else if (s->state == NP_BUILDING)
		slot_empty(m, k); /* one that was finished is kept */
	else if (s->state == NP_ARMING || (s->state == NP_BAD && !s->retry))
		np_pool_scrap(m, k); /* named or not: unknown */
}

void np_pool_start(struct np_main *m)
{
	m->build_up = true;
	/* A build that started again looks for itself what there is. */
	(void)eg_role_send(m->ctx, EG_ROLE_BUILD, EG_MB_SCAN, 0, NULL, 0, -1);
	for (uint32_t g = 0; g < m->conf->gateways; g++)
		if (m->gw[g].state == NP_GW_ASKED ||
		    m->gw[g].state == NP_GW_RAISING) {
			m->gw[g].state = NP_GW_NONE;
			gateway_ask(m, g);
		}
	for (uint32_t k = 0; k < m->conf->slots; k++)
		slot_ask_again(m, k);
	m->building = m->arming = m->tapping = 0;
	np_pool_run(m);
}

static void on_scan(struct np_main *m, const struct eg_bm_scan *a)
{
	struct np_slot *s;

	if (a->slot >= m->conf->slots)
		return;
	s = &m->slot[a->slot];
	/* Links are seen when their gateway is opened, after the scan. */
	if (a->state == EG_SCAN_ADOPTED &&
	    m->gw[eg_plan_gateway(m->conf, a->slot)].state == NP_GW_UP)
		return;
	if (a->state != EG_SCAN_ADOPTED && m->scanned)
		return;
	if (a->state != EG_SCAN_NAMED) {
		if (!s->scan)
			s->scan = (uint8_t)(1 + a->state);
		return;
	}
	s->scan = 1 + EG_SCAN_NAMED;
	s->generation = a->generation;
}

static void on_scan_end(struct np_main *m)
{
	struct eg_err err = {0};

	if (m->scanned)
		return;
	m->scanned = true;
	if (np_record_load(m, &err))
		eg_error("lease records: %s", err.text);
	m->loaded = true;
	if (m->conf->gateways)
		gateway_ask(m, 0);
}

static void on_host(struct np_main *m, const struct eg_bm_host *a)
{
	struct eg_err err = {0};

	m->host_naddrs = eg_min_u32(a->count, EG_HOST_ADDRS);
	memcpy(m->host_addr, a->addr, m->host_naddrs * sizeof(a->addr[0]));
	for (uint32_t g = 0; g < m->conf->gateways; g++)
		if (m->gw[g].handle && m->k->host_addrs(m, g, &err))
			eg_error("gateway %u, host addresses: %s", g, err.text);
}

/* A scrap outside a release: after a half-made arming. */
static void on_scrapped(struct np_main *m, const struct eg_bm_slot *a)
{
	struct np_slot *s = &m->slot[a->slot];

	if (!a->generation && a->lingering) {
		m->count.lingering++; /* a grave that did not close */
		return;
	}
	if (s->state != NP_BAD || s->lease) {
		np_release_build(m, EG_BM_SCRAPPED, a);
	} else if (a->error && a->error != -EALREADY) {
		slot_bad(m, a->slot, a);
	} else if (!a->error) {
		np_record_drop(m, a->slot, s->generation);
		np_pool_give(m, a->slot);
	}
}

/* Somebody took the link of a slot that waits for its lease. */
static void slot_broken(struct np_main *m, uint32_t k)
{
	struct np_slot *s = &m->slot[k];

	if (s->state != NP_IDLE && s->state != NP_ARMED)
		return;
	list_remove(m,
		    s->state == NP_IDLE ? &m->idle :
		    s->tap		? &m->tapped :
					  &m->armed,
		    k);
	np_pool_scrap(m, k);
}

static void on_event(struct np_main *m, const struct eg_bm_slot *a)
{
	struct np_slot *s = &m->slot[a->slot];
	struct eg_err err = {0};

	if (s->generation != a->generation)
		return;
	if (a->error == -ENODEV && !s->lease)
		slot_broken(m, a->slot);
	if (a->error == -ENODEV && s->scan)
		s->gone = true;
	if (s->state != NP_LEASED || !s->lease || s->lease->l.state == EG_LEASE_LOST)
		return;
	if (a->error == -ENODEV) {
		/* A revoked one stays that: nothing of it passes anyway. */
		if (s->lease->l.state != EG_LEASE_REVOKED)
			s->lease->l.state = EG_LEASE_LOST;
		np_event(m, EG_EV_GUEST_GONE, EG_CAUSE_KERNEL, s->lease,
			 "the link of the sandbox is gone");
		if (np_record_write(m, s->lease, &err))
			eg_error("record of %s: %s", s->lease->l.req.id,
				 err.text);
	} else {
		np_event(m, EG_EV_GUEST_GONE, EG_CAUSE_KERNEL, s->lease, "%s",
			 a->carrier ? "carrier is back" : "carrier lost");
	}
}

void np_pool_on_build(struct np_main *m, struct eg_msg *msg)
{
	const struct eg_bm_slot *a = msg->body;

	if (msg->len == sizeof(*a) && a->slot >= m->conf->slots)
		return;
	if (msg->type == EG_BM_GATEWAY)
		on_gateway(m, msg);
	else if (msg->type == EG_BM_GATEWAY_UP)
		on_gateway_up(m, msg->body);
	else if (msg->type == EG_BM_BUILT)
		on_built(m, a);
	else if (msg->type == EG_BM_ARMED)
		on_armed(m, a);
	else if (msg->type == EG_BM_GUEST)
		on_guest(m, a);
	else if (msg->type == EG_BM_DOWN)
		np_release_build(m, EG_BM_DOWN, a);
	else if (msg->type == EG_BM_SCRAPPED)
		on_scrapped(m, a);
	else if (msg->type == EG_BM_SLOT)
		on_scan(m, msg->body);
	else if (msg->type == EG_BM_SCAN_END)
		on_scan_end(m);
	else if (msg->type == EG_BM_HOST)
		on_host(m, msg->body);
	else if (msg->type == EG_BM_EVENT)
		on_event(m, a);
}

void np_pool_count(struct np_main *m, struct eg_mp_pool *ret)
{
	const uint32_t *by = m->by;
	uint32_t lost = 0, up = 0;

	for (uint32_t k = 0; by[NP_LEASED] && k < m->conf->slots; k++)
		if (m->slot[k].lease &&
		    m->slot[k].lease->l.state == EG_LEASE_LOST)
			lost++;
	for (uint32_t g = 0; g < m->conf->gateways; g++)
		if (m->gw[g].state == NP_GW_UP)
			up++;
	*ret = m->count;
	ret->slots = m->conf->slots;
	ret->building = by[NP_BUILDING];
	ret->idle = by[NP_IDLE] + by[NP_ARMING];
	ret->armed = by[NP_ARMED];
	ret->leased = by[NP_LEASED];
	ret->releasing = by[NP_RELEASING];
	ret->bad = by[NP_BAD];
	ret->lost = lost;
	ret->gateways = m->conf->gateways;
	ret->gateways_up = up;
	ret->ready = m->ready_said;
	np_fill_count(m, ret);
}
