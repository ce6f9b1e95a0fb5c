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
#include "netpool/state.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define SLOT_KERNEL_BYTES 480000U /* namespace and veth pair, upper figure */

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

/* prefill=auto: as many slots as the memory budget holds. */
static uint32_t prefill_count(const struct eg_conf *c)
{
	uint64_t budget = c->memory_budget;
	uint64_t pages = (uint64_t)sysconf(_SC_PHYS_PAGES);
	uint64_t n;

	if (c->prefill >= 0)
		return eg_min_u32((uint32_t)c->prefill, c->slots);
	if (c->prefill == -2)
		return c->slots;
	if (!budget)
		budget = pages * (uint64_t)sysconf(_SC_PAGESIZE) / 100 *
			 c->memory_budget_pct;
	n = budget / SLOT_KERNEL_BYTES;
	return n < c->slots ? (uint32_t)n : c->slots;
}

int np_pool_init(struct np_main *m, struct eg_err *err)
{
	uint32_t n = m->conf->slots;

	m->slot = calloc(n, sizeof(*m->slot));
	m->id_hash = calloc(n, sizeof(*m->id_hash));
	m->event = calloc(NP_EVENTS, sizeof(*m->event));
	m->pending = calloc(NP_PENDING, sizeof(*m->pending));
	if (!m->slot || !m->id_hash || !m->event || !m->pending)
		return eg_err_set(err, -ENOMEM, "out of memory for %u slots", n);
	m->prefill = prefill_count(m->conf);
	m->count.started_ns = eg_wall_ns();
	/*
	 * Cursors of a former main must be told apart and stay in order: a
	 * thousand numbers a second are more than there are events.
	 */
	m->event_base = m->event_seq =
		(uint64_t)(m->count.started_ns / 1000000);
	m->count.memory_budget = (uint64_t)m->prefill * SLOT_KERNEL_BYTES;
	eg_info("pool: %u slots, %u to be prebuilt, about %llu MB of kernel memory",
		n, m->prefill,
		(unsigned long long)(m->count.memory_budget / 1000000));
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
static void slot_scrap(struct np_main *m, uint32_t k)
{
	m->slot[k].state = NP_BAD;
	m->slot[k].retry = 0;
	(void)np_pool_ask(m, EG_MB_SCRAP, k);
}

static uint32_t slots_alive(const struct np_main *m)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < m->conf->slots; i++)
		if (m->slot[i].state != NP_EMPTY && m->slot[i].state != NP_BAD)
			n++;
	return n;
}

/* Is this one to be built now? A bad one after its pause. */
static bool buildable(const struct np_main *m, uint32_t slot, int64_t now)
{
	const struct np_slot *s = &m->slot[slot];

	return m->gw[eg_plan_gateway(m->conf, slot)].state == NP_GW_UP &&
	       (s->state == NP_EMPTY ||
		(s->state == NP_BAD && s->retry && s->retry <= now));
}

static void build_some(struct np_main *m)
{
	int64_t now = eg_boot_ns();
	uint32_t n = m->conf->slots, seen = 0, room;

	if (m->building >= NP_BUILD_WINDOW / 2)
		return; /* ask in halves of the window, not slot by slot */
	room = m->prefill - eg_min_u32(m->prefill, slots_alive(m));
	room = eg_min_u32(room, NP_BUILD_WINDOW - m->building);
	for (; room && seen < n; seen++) {
		uint32_t k = m->next_build;
		struct eg_mb_slots q = {.first = k, .count = 1};

		m->next_build = (k + 1) % n;
		if (!buildable(m, k, now))
			continue;
		if (m->slot[k].generation) { /* once named: not as it was */
			slot_scrap(m, k);
			continue;
		}
		if (eg_role_send(m->ctx, EG_ROLE_BUILD, EG_MB_BUILD, 0, &q,
				 sizeof(q), -1))
			return;
		m->slot[k].state = NP_BUILDING;
		m->building++;
		room--;
	}
}

static void arm_some(struct np_main *m)
{
	uint32_t want = m->conf->armed;

	while (m->idle.count && m->armed.count + m->arming < want) {
		uint32_t k = m->idle.head - 1;
		uint64_t gen = np_pool_generation(m);

		if (!gen)
			return;
		m->slot[k].generation = gen;
		if (np_pool_ask(m, EG_MB_ARM, k))
			return;
		(void)list_pop(m, &m->idle);
		m->slot[k].state = NP_ARMING;
		m->arming++;
	}
}

void np_pool_run(struct np_main *m)
{
	if (!m->build_up || !m->loaded)
		return;
	arm_some(m);
	build_some(m);
}

uint32_t np_pool_take(struct np_main *m, bool *slow)
{
	uint32_t k = list_pop(m, &m->armed);

	*slow = false;
	if (k != UINT32_MAX)
		return k;
	*slow = true;
	if (!m->idle.count)
		return UINT32_MAX;
	/* Not named yet: the lease waits for build. */
	k = m->idle.head - 1;
	m->slot[k].generation = np_pool_generation(m);
	if (!m->slot[k].generation || np_pool_ask(m, EG_MB_ARM, k))
		return UINT32_MAX;
	(void)list_pop(m, &m->idle);
	return k;
}

void np_pool_give(struct np_main *m, uint32_t slot)
{
	m->slot[slot].state = NP_EMPTY;
	m->slot[slot].lease = NULL;
	m->slot[slot].generation = 0;
	np_pool_run(m);
}

static void slot_bad(struct np_main *m, uint32_t k, const struct eg_bm_slot *a)
{
	struct np_slot *s = &m->slot[k];
	uint16_t shift = s->failures < 5 ? s->failures : 5;

	s->state = NP_BAD;
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
 * with every slot leased is ready, too, once its gateways have come back.
 */
static void say_ready(struct np_main *m)
{
	struct eg_mp_pool p;

	if (m->ready_said)
		return;
	np_pool_count(m, &p);
	if (!p.armed && !p.idle &&
	    (p.gateways_up < p.gateways || p.leased + p.releasing < p.slots))
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
		m->slot[k].state = NP_IDLE;
		m->slot[k].failures = 0;
		list_push(m, &m->idle, k);
		if (!m->building && slots_alive(m) >= m->prefill)
			np_pool_say(m);
	}
	np_pool_run(m);
	say_ready(m);
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
	m->arming--;
	if (a->error) {
		slot_bad(m, a->slot, a);
	} else {
		s->state = NP_ARMED;
		list_push(m, &m->armed, a->slot);
	}
	np_pool_run(m);
	say_ready(m);
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
	struct np_slot *s = &m->slot[k];

	if (s->gone)
		s->scan = 0;
	if (s->lease) {
		(void)np_lease_take_over(m, s->lease);
	} else if (s->gone || s->doubt) {
		slot_scrap(m, k);
	} else if (s->scan == 1 + EG_SCAN_NAMED) {
		/*
		 * Named, no record: it was armed and never leased, since the
		 * record is written before the caller hears of a lease and
		 * removed after the name.
		 */
		s->state = NP_ARMED;
		list_push(m, &m->armed, k);
	} else if (s->scan == 1 + EG_SCAN_IDLE) {
		s->state = NP_IDLE;
		s->generation = 0;
		list_push(m, &m->idle, k);
	} else {
		s->state = NP_EMPTY;
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

	if (s->lease)
		np_release_again(m, s->lease);
	else if (s->state == NP_BUILDING)
		s->state = NP_EMPTY; /* one that was finished is kept */
	else if (s->state == NP_ARMING || (s->state == NP_BAD && !s->retry))
		slot_scrap(m, k); /* named or not: unknown */
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
	m->building = m->arming = 0;
	np_pool_run(m);
}

static void on_scan(struct np_main *m, const struct eg_bm_scan *a)
{
	struct np_slot *s;

	if (a->slot >= m->conf->slots || m->scanned)
		return;
	s = &m->slot[a->slot];
	if (a->state == EG_SCAN_IDLE) {
		if (!s->scan)
			s->scan = 1 + EG_SCAN_IDLE;
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
	list_remove(m, s->state == NP_IDLE ? &m->idle : &m->armed, k);
	slot_scrap(m, k);
}

static void on_event(struct np_main *m, const struct eg_bm_slot *a)
{
	struct np_slot *s = &m->slot[a->slot];

	if (s->generation != a->generation)
		return;
	if (a->error == -ENODEV && !s->lease)
		slot_broken(m, a->slot);
	if (a->error == -ENODEV && s->scan)
		s->gone = true;
	if (s->state != NP_LEASED || !s->lease || s->lease->l.state == EG_LEASE_LOST)
		return;
	if (a->error == -ENODEV) {
		s->lease->l.state = EG_LEASE_LOST;
		np_event(m, EG_EV_GUEST_GONE, EG_CAUSE_KERNEL, s->lease,
			 "the link of the sandbox is gone");
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
		np_lease_guest(m, a);
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
	uint32_t by[NP_SLOT_STATE_COUNT] = {0}, lost = 0, up = 0;

	for (uint32_t k = 0; k < m->conf->slots; k++) {
		const struct np_slot *s = &m->slot[k];

		by[s->state]++;
		if (s->lease && s->lease->l.state == EG_LEASE_LOST)
			lost++;
	}
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
	ret->memory_used = (uint64_t)slots_alive(m) * SLOT_KERNEL_BYTES;
}
