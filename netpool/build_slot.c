// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: slots in the build role (see build_state.h)
 *
 * Short commands (name, tap, link down, scan) are carried out where they are
 * received. Building and scrapping take about a millisecond a slot and are
 * queued: one timer takes a bounded piece off the queues each turn, scraps
 * first (they free what the next lease needs), so that a short command never
 * waits for more than one piece. Scraps of one gateway are deleted together:
 * alone a link costs 16 ms of RCU grace, in a group 0.3 ms.
 */
#include "netpool/base/log.h"
#include "netpool/base/plan.h"
#include "netpool/base/util.h"
#include "netpool/build.h"
#include "netpool/build_state.h"
#include "netpool/link.h"
#include "netpool/slot.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>

#define BUILD_TURN 4  /* slots built before other commands are heard */
#define BUILD_NS (EG_NSEC_PER_SEC / 50) /* ... and at most as long */
#define SCRAP_TURN 64 /* links deleted together: 20 ms of rtnl */
#define WATCH_TURN 16 /* slots looked at for a tap after a restart */
/*
 * A closed socket lets go of its namespace after an RCU grace period, some
 * 10 ms, under load more: that is not somebody holding it.
 */
#define LINGER_US 20000
#define LINGER_TRIES 5
#define REAP_US 20000 /* between two looks at the graves, ... */
#define REAP_TURN 2   /* ... how many end at one, ... */
#define REAP_SCAN 2048 /* ... how far is looked, ... */
#define REAP_NS EG_NSEC_PER_SEC /* ... and how long after the last scrap */

static void work_kick(struct np_build *b)
{
	eg_timer_set(b->work, 0);
}

static uint32_t number_of(const struct np_slot *s)
{
	return (uint32_t)(s - s->b->slot);
}

static struct np_gate *gate_of(struct np_build *b, uint32_t slot)
{
	return &b->gate[eg_plan_gateway(b->conf, slot)];
}

/* ---- lists ---------------------------------------------------------------- */

static void list_add(struct np_build *b, struct np_list *l, uint32_t slot)
{
	b->slot[slot].next = NP_NO_SLOT;
	if (l->first == NP_NO_SLOT)
		l->first = slot;
	else
		b->slot[l->last].next = slot;
	l->last = slot;
}

static uint32_t list_take(struct np_build *b, struct np_list *l)
{
	uint32_t slot = l->first;

	if (slot != NP_NO_SLOT)
		l->first = b->slot[slot].next;
	return slot;
}

/* ---- answers -------------------------------------------------------------- */

static void answer(struct np_build *b, uint16_t type, uint64_t cookie,
		   uint32_t slot, uint64_t generation, int error,
		   const struct eg_err *err)
{
	struct eg_bm_slot m = {
		.slot = slot, .generation = generation, .error = error};

	if (error)
		(void)snprintf(m.text, sizeof(m.text), "%.*s",
			       (int)sizeof(m.text) - 1, err->text);
	np_build_tell(b, type, cookie, &m, sizeof(m), -1);
}

static void event(struct np_slot *s, int error, bool carrier, const char *text)
{
	struct eg_bm_slot m = {.slot = number_of(s),
			       .generation = s->generation,
			       .error = error,
			       .carrier = carrier};

	(void)snprintf(m.text, sizeof(m.text), "%s", text);
	np_build_tell(s->b, EG_BM_EVENT, 0, &m, sizeof(m), -1);
}

int np_slots_check(struct np_build *b, uint32_t slot, uint64_t generation,
		   struct eg_err *err)
{
	const struct np_slot *s;

	if (slot >= b->conf->slots)
		return eg_err_set(err, -EINVAL, "slot %u is not below %u", slot,
				  b->conf->slots);
	s = &b->slot[slot];
	if (s->generation && generation && s->generation != generation)
		return eg_err_set(err, -ESTALE,
				  "slot %u is of generation %llu, not %llu",
				  slot, (unsigned long long)s->generation,
				  (unsigned long long)generation);
	if (!gate_of(b, slot)->gw.rtnl)
		return eg_err_set(err, -ENOENT,
				  "the gateway of slot %u is not there", slot);
	return 0;
}

/* ---- taps ----------------------------------------------------------------- */

static void tap_unwatch(struct np_slot *s)
{
	eg_io_free(s->tap_io);
	s->tap_io = NULL;
	eg_close_p(&s->tap_fd);
}

static void on_tap_link(void *arg, const struct nlmsghdr *h)
{
	bool *carrier = arg;
	struct np_link l;

	if (np_link_parse(h, &l) && l.index == EG_IFINDEX_TAP)
		*carrier = h->nlmsg_type == RTM_NEWLINK && l.carrier;
}

static void on_tap(void *arg, int fd, int what)
{
	struct np_slot *s = arg;
	bool carrier = s->tap_carrier;

	(void)what;
	/* Notices lost here were changes there and back: the last counts. */
	(void)np_rtnl_events(fd, on_tap_link, &carrier);
	if (carrier == s->tap_carrier)
		return;
	s->tap_carrier = carrier;
	event(s, 0, carrier,
	      carrier ? "the tap has a carrier" : "the tap lost its carrier");
}

/*
 * A slot's namespace, to be closed by the caller. An idle one is held; a
 * named one is opened by its name each time: at 16,384 leases with a tap
 * each, two descriptors a slot would be more than a process may have.
 */
static int slot_open(struct np_slot *s, struct eg_err *err)
{
	char name[EG_NETNS_NAME];
	int fd;

	if (s->ns < 0)
		return np_netns_open(s->b->conf->netns,
				     eg_plan_netns(name, number_of(s),
						   s->generation),
				     err);
	fd = fcntl(s->ns, F_DUPFD_CLOEXEC, 0);
	return fd < 0 ? eg_err_sys(err, -errno, "cannot open a namespace") : fd;
}

/* From here the name holds the namespace. */
static void slot_named(struct np_slot *s, uint64_t generation)
{
	np_netns_remember(s->ns, &s->ref);
	s->ino = np_netns_ino(s->ns);
	if (s->b->conf->netns_names == EG_NETNS_LEASED) {
		eg_role_drop(s->b->ctx, EG_FD_SLOT, number_of(s));
		eg_close_p(&s->ns);
	}
	s->state = NP_SLOT_NAMED;
	s->generation = generation;
}

/*
 * The monitor keeps the namespace alive like any socket inside; it is closed
 * before the slot is let go.
 */
static int tap_watch(struct np_slot *s, int ns, struct eg_err *err)
{
	struct np_build *b = s->b;
	int fd;

	if (s->tap_io)
		return 0;
	fd = np_slot_tap_monitor(&b->w, ns, &s->tap_carrier, err);
	if (fd < 0)
		return fd;
	s->tap_fd = fd;
	s->tap_io = eg_io_new(b->ctx->loop, fd, EG_READ, on_tap, s);
	if (s->tap_io)
		return 0;
	eg_close_p(&s->tap_fd);
	return eg_err_set(err, -ENOMEM, "out of memory");
}

/* A piece of the slots taken over after a restart. */
static bool rewatch_some(struct np_build *b)
{
	struct eg_err err;
	int n = 0;

	for (; b->rewatch < b->conf->slots && n < WATCH_TURN; b->rewatch++) {
		struct np_slot *s = &b->slot[b->rewatch];
		EG_CLEANUP_FD int ns = -1;
		int r;

		if (!s->rewatch)
			continue;
		s->rewatch = false;
		n++;
		r = ns = slot_open(s, &err);
		if (r >= 0)
			r = tap_watch(s, ns, &err);
		if (r && r != -ENODEV) /* most have no tap */
			eg_warning("slot %u: its tap is not watched: %s",
				   b->rewatch, err.text);
	}
	if (b->rewatch >= b->conf->slots)
		b->rewatch = NP_NO_SLOT;
	return b->rewatch != NP_NO_SLOT;
}

/* ---- links' ends ---------------------------------------------------------- */

static bool is_live(const struct np_slot *s)
{
	return s->state == NP_SLOT_IDLE || s->state == NP_SLOT_NAMED ||
	       s->state == NP_SLOT_ADOPTED;
}

static void link_gone(struct np_slot *s)
{
	if (s->gone)
		return;
	s->gone = true;
	event(s, -ENODEV, false, "the slot's link is gone");
}

/* A notice may be older than the slot's present link: ask. */
void np_slots_link_check(struct np_build *b, uint32_t slot)
{
	struct np_slot *s = &b->slot[slot];
	struct eg_err why;
	struct np_link l;

	if (is_live(s) &&
	    np_link_get(gate_of(b, slot)->gw.rtnl,
			eg_plan_ifindex(b->conf, slot), NULL, &l,
			&why) == -ENODEV)
		link_gone(s);
}

static void on_link(void *arg, const struct nlmsghdr *h)
{
	struct np_gate *g = arg;
	struct np_slot *s;
	struct np_link l;
	uint32_t slot;

	if (!np_link_parse(h, &l))
		return;
	if (l.index == EG_IFINDEX_UPLINK && h->nlmsg_type == RTM_DELLINK)
		eg_error("gateway %u has lost its link to the host",
			 g->gw.number);
	slot = eg_plan_slot(g->b->conf, g->gw.number, l.index);
	if (slot == UINT32_MAX)
		return;
	s = &g->b->slot[slot];
	if (h->nlmsg_type == RTM_DELLINK) {
		np_slots_link_check(g->b, slot);
		return;
	}
	/* A link we took down has no carrier either: not an event. */
	if (!is_live(s) || !(l.flags & IFF_UP) || l.carrier == s->carrier)
		return;
	s->carrier = l.carrier;
	if (!s->tap_io && s->state != NP_SLOT_IDLE)
		event(s, 0, l.carrier,
		      l.carrier ? "the sandbox end is up"
				: "the sandbox end is down");
}

struct seen {
	struct np_gate *g;
	uint8_t here[EG_SLOTS_MAX / 8];
};

static void see_link(void *arg, const struct np_link *l)
{
	struct seen *seen = arg;
	uint32_t slot;

	if (!l) {
		memset(seen->here, 0, sizeof(seen->here));
		return;
	}
	slot = eg_plan_slot(seen->g->b->conf, seen->g->gw.number, l->index);
	if (slot == UINT32_MAX)
		return;
	seen->here[slot / 8] |= (uint8_t)(1U << slot % 8);
	if (l->group == EG_ADOPT_GROUP)
		np_slots_found(seen->g->b, slot);
	if (l->flags & IFF_UP)
		seen->g->b->slot[slot].carrier = l->carrier;
}

/* Look at all of a gateway's links: at its opening and when notices are lost */
static void links_check(struct np_gate *g)
{
	const struct eg_conf *c = g->b->conf;
	uint32_t first = eg_plan_first(c, g->gw.number);
	struct seen seen = {.g = g};
	struct eg_err err;

	if (np_link_list(g->gw.rtnl, see_link, &seen, &err)) {
		eg_error("gateway %u: %s", g->gw.number, err.text);
		return;
	}
	for (uint32_t i = first; i < first + eg_plan_count(c, g->gw.number); i++)
		if (is_live(&g->b->slot[i]) && !(seen.here[i / 8] >> i % 8 & 1))
			link_gone(&g->b->slot[i]);
}

static void on_monitor(void *arg, int fd, int what)
{
	struct np_gate *g = arg;

	(void)what;
	if (np_rtnl_events(fd, on_link, g) == -ENOBUFS)
		links_check(g);
}

int np_slots_watch(struct np_build *b, struct np_gate *g, struct eg_err *err)
{
	if (!g->io) {
		g->io = eg_io_new(b->ctx->loop, g->gw.monitor, EG_READ,
				  on_monitor, g);
		if (!g->io)
			return eg_err_set(err, -ENOMEM, "out of memory");
	}
	links_check(g);
	return 0;
}

/* ---- building ------------------------------------------------------------- */

/* The end of a namespace, unless somebody else holds it. */
static void grave_close(struct np_slot *s)
{
	struct eg_bm_slot m = {.slot = number_of(s), .lingering = 1};

	if (s->grave < 0)
		return;
	eg_close_p(&s->grave);
	if (s->ref.bytes && np_netns_lives(&s->ref, s->b->w.home))
		np_build_tell(s->b, EG_BM_SCRAPPED, 0, &m, sizeof(m), -1);
	s->ref.bytes = 0;
}

static void on_reap(void *arg)
{
	struct np_build *b = arg;
	uint32_t n = 0;

	eg_timer_set(b->reaper, REAP_US);
	if (eg_boot_ns() - b->scrapped_ns < REAP_NS)
		return;
	for (uint32_t i = 0; i < REAP_SCAN && n < REAP_TURN; i++) {
		struct np_slot *s = &b->slot[b->reap_next];

		b->reap_next = (b->reap_next + 1) % b->conf->slots;
		n += s->grave >= 0;
		grave_close(s);
	}
}

static void build_one(struct np_build *b, uint32_t slot, uint64_t cookie)
{
	struct np_slot *s = &b->slot[slot];
	struct eg_err err = {0};
	int r = np_slots_check(b, slot, 0, &err);

	if (!r && s->state == NP_SLOT_IDLE) {
		/* Built for somebody who did not live to hear of it. */
		answer(b, EG_BM_BUILT, cookie, slot, 0, 0, &err);
		return;
	}
	if (!r && s->state != NP_SLOT_NONE)
		r = eg_err_set(&err, -EEXIST, "slot %u is there already", slot);
	if (!r)
		grave_close(s);
	if (!r)
		r = np_slot_make(&b->w, &gate_of(b, slot)->gw, slot, &s->ns,
				 &err);
	if (!r) {
		s->state = NP_SLOT_IDLE;
		s->generation = 0;
		s->ref.bytes = 0;
		s->gone = false;
		s->carrier = true;
		(void)eg_role_hold(b->ctx, EG_FD_SLOT, slot, s->ns);
	}
	answer(b, EG_BM_BUILT, cookie, slot, 0, r, &err);
}

/* At least a turn, and no less time than scraps have had. */
static bool build_some(struct np_build *b, int64_t scrapped_ns)
{
	int64_t until = eg_boot_ns() +
			(scrapped_ns < BUILD_NS ? scrapped_ns : BUILD_NS);

	for (int n = 0;
	     b->njobs && (n < BUILD_TURN || eg_boot_ns() < until); n++) {
		struct np_job *j = &b->job[0];

		build_one(b, j->next++, j->cookie);
		if (j->next >= j->end)
			memmove(j, j + 1, --b->njobs * sizeof(*j));
	}
	return b->njobs;
}

void np_slots_build(struct np_build *b, uint64_t cookie,
		    const struct eg_mb_slots *m)
{
	struct eg_err err;

	if (!m->count || m->first >= b->conf->slots ||
	    m->count > b->conf->slots - m->first) {
		(void)eg_err_set(&err, -EINVAL,
				 "there are no slots %u to %u: %u are configured",
				 m->first, m->first + m->count - 1,
				 b->conf->slots);
		answer(b, EG_BM_BUILT, cookie, m->first, 0, err.code, &err);
		return;
	}
	if (b->njobs == NP_JOBS_MAX) {
		(void)eg_err_set(&err, -ENOBUFS,
				 "more than %u build commands wait", NP_JOBS_MAX);
		answer(b, EG_BM_BUILT, cookie, m->first, 0, err.code, &err);
		return;
	}
	b->job[b->njobs++] = (struct np_job){
		.next = m->first, .end = m->first + m->count, .cookie = cookie};
	work_kick(b);
}

/* ---- short commands ------------------------------------------------------- */

static int arm(struct np_build *b, const struct eg_mb_slot *m, struct eg_err *err)
{
	char name[EG_NETNS_NAME];
	struct np_slot *s;
	int r = np_slots_check(b, m->slot, m->generation, err);

	if (r)
		return r;
	s = &b->slot[m->slot];
	if (s->state != NP_SLOT_IDLE)
		return eg_err_set(err, -EINVAL, "slot %u is not idle", m->slot);
	if (!m->generation)
		return eg_err_set(err, -EINVAL, "generation 0 has no name");
	if (b->conf->netns_names == EG_NETNS_LEASED) {
		r = np_netns_name(b->conf->netns,
				  eg_plan_netns(name, m->slot, m->generation),
				  s->ns, err);
		if (r)
			return r;
	}
	slot_named(s, m->generation);
	return 0;
}

void np_slots_arm(struct np_build *b, uint64_t cookie, const struct eg_mb_slot *m)
{
	struct eg_err err = {0};
	int r = arm(b, m, &err);

	answer(b, EG_BM_ARMED, cookie, m->slot, m->generation, r, &err);
}

static int nat(struct np_slot *s, int ns, const struct eg_guest *g,
	       struct eg_err *err)
{
	struct np_build *b = s->b;
	EG_CLEANUP_FD int fd = -1;

	if (!np_build_hooks.slot_nat)
		return eg_err_set(err, -EOPNOTSUPP,
				  "this build has no address translation");
	fd = np_nfnetlink(&b->w, ns, err);
	if (fd < 0)
		return fd;
	return np_build_hooks.slot_nat(fd, b->conf, number_of(s), g, err);
}

/* eth0 is all that mode veth needs; a slot with more is not for it. */
static int no_tap(struct np_slot *s, int ns, struct eg_err *err)
{
	int r = tap_watch(s, ns, err);

	s->rewatch = false;
	if (r)
		return r == -ENODEV ? 0 : r;
	return eg_err_set(err, -EEXIST, "slot %u has a tap", number_of(s));
}

static int guest(struct np_build *b, const struct eg_mb_guest *m,
		 struct eg_err *err)
{
	EG_CLEANUP_FD int ns = -1;
	struct np_slot *s;
	int r = np_slots_check(b, m->slot, m->generation, err);

	if (r)
		return r;
	if (m->guest.mode == EG_GUEST_ADOPT)
		return np_slots_adopt(b, m, err);
	s = &b->slot[m->slot];
	if (!is_live(s))
		return eg_err_set(err, -ENOENT, "slot %u is not built", m->slot);
	ns = slot_open(s, err);
	if (ns < 0)
		return ns;
	if (m->guest.mode == EG_GUEST_VETH)
		return no_tap(s, ns, err);
	r = np_slot_guest(&b->w, gate_of(b, m->slot)->gw.mtu, m->slot, ns,
			  &m->guest, err);
	if (!r && m->guest.mode == EG_GUEST_TAP)
		r = nat(s, ns, &m->guest, err);
	return r ? r : tap_watch(s, ns, err);
}

void np_slots_guest(struct np_build *b, uint64_t cookie,
		    const struct eg_mb_guest *m)
{
	struct eg_err err = {0};
	int r = guest(b, m, &err);

	answer(b, EG_BM_GUEST, cookie, m->slot, m->generation, r, &err);
}

void np_slots_down(struct np_build *b, uint64_t cookie,
		   const struct eg_mb_slot *m)
{
	struct eg_err err = {0};
	int r = np_slots_check(b, m->slot, m->generation, &err);

	if (!r)
		r = np_slot_down(&b->w, &gate_of(b, m->slot)->gw, m->slot, &err);
	answer(b, EG_BM_DOWN, cookie, m->slot, m->generation, r, &err);
}

/* ---- scrapping ------------------------------------------------------------ */

void np_slots_scrap(struct np_build *b, uint64_t cookie,
		    const struct eg_mb_slot *m)
{
	struct eg_err err = {0};
	struct np_slot *s;
	int r = np_slots_check(b, m->slot, m->generation, &err);

	if (!r && b->slot[m->slot].state == NP_SLOT_SCRAP)
		r = eg_err_set(&err, -EALREADY,
			       "slot %u is being scrapped already", m->slot);
	if (r) {
		answer(b, EG_BM_SCRAPPED, cookie, m->slot, m->generation, r,
		       &err);
		return;
	}
	/* A slot not known here may still have a link and a name. */
	s = &b->slot[m->slot];
	s->state = NP_SLOT_SCRAP;
	s->generation = m->generation;
	s->cookie = cookie;
	list_add(b, &gate_of(b, m->slot)->scrap, m->slot);
	work_kick(b);
}

/* Nothing of the slots may be found by the next ones' packets. */
static int forget_flows(struct np_gate *g, const uint32_t *slot, size_t n,
			struct eg_err *err)
{
	uint32_t addr[SCRAP_TURN];
	int r;

	for (size_t i = 0; i < n; i++)
		addr[i] = eg_plan_addr(g->b->conf, slot[i]);
	r = np_ct_delete_many(g->gw.ct, addr, n, err);
	return r ? r : np_ct_delete_many(g->b->ct, addr, n, err);
}

int np_slots_let_go(struct np_slot *s, struct eg_err *err)
{
	struct np_build *b = s->b;
	uint32_t slot = number_of(s);
	char name[EG_NETNS_NAME];
	int r = 0;

	if (s->ns >= 0)
		np_netns_remember(s->ns, &s->ref);
	tap_unwatch(s);
	if (s->state == NP_SLOT_SCRAP && s->grave < 0 &&
	    b->conf->slots >= EG_MANY_SLOTS)
		s->grave = slot_open(s, NULL);
	if (s->generation && b->conf->netns_names == EG_NETNS_LEASED)
		r = np_netns_unname(b->conf->netns,
				    eg_plan_netns(name, slot, s->generation),
				    err);
	eg_role_drop(b->ctx, EG_FD_SLOT, slot);
	eg_close_p(&s->ns);
	s->ino = 0;
	s->rewatch = false;
	return r;
}

static void scrap_done(struct np_slot *s, int error, bool lingering,
		       const struct eg_err *err)
{
	struct eg_bm_slot m = {.slot = number_of(s),
			       .generation = s->generation,
			       .error = error,
			       .lingering = lingering};

	if (error)
		(void)snprintf(m.text, sizeof(m.text), "%.*s",
			       (int)sizeof(m.text) - 1, err->text);
	/* A failed scrap is asked for again; until then it keeps its place. */
	s->state = error ? NP_SLOT_NAMED : NP_SLOT_NONE;
	s->gone = true; /* asked for, not to be told */
	if (!error) {
		s->generation = 0;
		if (s->grave < 0)
			s->ref.bytes = 0;
	}
	np_build_tell(s->b, EG_BM_SCRAPPED, s->cookie, &m, sizeof(m), -1);
}

/* Up to SCRAP_TURN slots of one gateway, their links in one deletion. */
static void scrap_gate(struct np_gate *g)
{
	struct np_build *b = g->b;
	uint32_t index[SCRAP_TURN], slot[SCRAP_TURN];
	struct eg_err err = {0};
	size_t n = 0;
	int r = 0;

	while (n < SCRAP_TURN && g->scrap.first != NP_NO_SLOT) {
		slot[n] = list_take(b, &g->scrap);
		index[n] = eg_plan_ifindex(b->conf, slot[n]);
		n++;
	}
	b->scrapped_ns = eg_boot_ns();
	/* Link first: with it gone no packet can make a new entry. */
	r = np_link_delete_many(g->gw.rtnl, index, n, &err);
	if (!r)
		r = forget_flows(g, slot, n, &err);
	for (size_t i = 0; i < n; i++) {
		struct np_slot *s = &b->slot[slot[i]];
		int e = r ? r : np_slots_let_go(s, &err);

		if (!e && s->grave < 0 && s->ref.bytes &&
		    np_netns_lives(&s->ref, b->w.home)) {
			s->tries = LINGER_TRIES;
			list_add(b, &b->linger, slot[i]);
			eg_timer_set(b->linger_timer, LINGER_US);
			continue;
		}
		scrap_done(s, e, false, &err);
	}
}

/* Look at those whose namespace was still there; @last: for good. */
static void linger_check(struct np_build *b, bool last)
{
	struct np_list again = {.first = NP_NO_SLOT};
	uint32_t slot;

	while ((slot = list_take(b, &b->linger)) != NP_NO_SLOT) {
		struct np_slot *s = &b->slot[slot];
		bool lives = np_netns_lives(&s->ref, b->w.home);

		if (!lives || last || !--s->tries)
			scrap_done(s, 0, lives, NULL);
		else
			list_add(b, &again, slot);
	}
	b->linger = again;
	if (again.first != NP_NO_SLOT)
		eg_timer_set(b->linger_timer, LINGER_US);
}

static void on_linger(void *arg)
{
	linger_check(arg, false);
}

/* A piece of the first gateway that has any. Return: is there more? */
static bool scrap_some(struct np_build *b)
{
	bool done = false;

	for (uint32_t i = 0; i < b->conf->gateways; i++) {
		if (b->gate[i].scrap.first == NP_NO_SLOT)
			continue;
		if (done)
			return true;
		scrap_gate(&b->gate[i]);
		done = true;
		if (b->gate[i].scrap.first != NP_NO_SLOT)
			return true;
	}
	return false;
}

static void on_work(void *arg)
{
	struct np_build *b = arg;
	int64_t began = eg_boot_ns();
	bool more = scrap_some(b);

	more |= build_some(b, eg_boot_ns() - began);
	if (b->rewatch != NP_NO_SLOT)
		more |= rewatch_some(b);
	if (more)
		work_kick(b);
}

/* ---- taking stock --------------------------------------------------------- */

static void unname_stale(struct np_build *b, const char *name, const char *why)
{
	struct eg_err err;

	if (np_netns_unname(b->conf->netns, name, &err))
		eg_error("%s", err.text);
	else
		eg_notice("removed %s/%s: %s", b->conf->netns, name, why);
}

/* A name of ours: take its namespace, or clear a dead pin away. */
static void scan_name(struct np_build *b, const char *name, uint32_t slot,
		      uint64_t generation)
{
	struct np_slot *s = &b->slot[slot];
	char old[EG_NETNS_NAME];
	struct eg_err err;
	int fd;

	if (s->state == NP_SLOT_NAMED && s->generation >= generation) {
		if (s->generation > generation)
			unname_stale(b, name, "the slot has a later one");
		return;
	}
	fd = np_netns_open(b->conf->netns, name, &err);
	if (fd == -EBADF)
		unname_stale(b, name, "no network namespace is mounted there");
	else if (fd < 0 && fd != -ENOENT)
		eg_error("%s", err.text);
	if (fd < 0)
		return;
	if (s->state == NP_SLOT_NAMED)
		unname_stale(b, eg_plan_netns(old, slot, s->generation),
			     "the slot has a later one");
	tap_unwatch(s);
	eg_close_p(&s->ns);
	s->ns = fd;
	slot_named(s, generation);
	s->gone = false;
	s->rewatch = true;
}

static void scan_dir(struct np_build *b)
{
	DIR *d = opendir(b->conf->netns);
	struct dirent *e;

	if (!d) {
		eg_error("cannot read %s: %s", b->conf->netns, strerror(errno));
		return;
	}
	while ((e = readdir(d))) {
		uint64_t generation;
		uint32_t slot;

		if (!np_slot_parse(e->d_name, &slot, &generation))
			continue;
		if (slot < b->conf->slots)
			scan_name(b, e->d_name, slot, generation);
		else
			unname_stale(b, e->d_name, "there are fewer slots now");
	}
	(void)closedir(d);
}

void np_slots_scan(struct np_build *b, uint64_t cookie)
{
	/* What is on its way out must not be reported as there. */
	while (scrap_some(b))
		;
	linger_check(b, true);
	scan_dir(b);
	for (uint32_t i = 0; i < b->conf->slots; i++) {
		struct np_slot *s = &b->slot[i];
		struct eg_bm_scan m = {.slot = i, .generation = s->generation};

		if (!is_live(s))
			continue;
		m.state = s->state == NP_SLOT_IDLE    ? EG_SCAN_IDLE :
			  s->state == NP_SLOT_ADOPTED ? EG_SCAN_ADOPTED :
							EG_SCAN_NAMED;
		np_build_tell(b, EG_BM_SLOT, cookie, &m, sizeof(m), -1);
	}
	np_build_tell(b, EG_BM_SCAN_END, cookie, NULL, 0, -1);
	for (uint32_t i = 0; i < b->conf->gateways; i++)
		if (b->gate[i].gw.rtnl)
			links_check(&b->gate[i]);
	b->rewatch = 0;
	work_kick(b);
}

void np_slots_held(struct np_build *b, uint32_t slot, int *fd)
{
	struct np_slot *s;

	if (slot >= b->conf->slots || !np_netns_is(*fd)) {
		eg_role_drop(b->ctx, EG_FD_SLOT, slot);
		return;
	}
	s = &b->slot[slot];
	if (s->state != NP_SLOT_NONE)
		return;
	s->ns = eg_steal_fd(fd);
	s->state = NP_SLOT_IDLE;
	s->carrier = true;
}

void np_slots_new_main(struct np_build *b)
{
	b->njobs = 0;
	for (uint32_t i = 0; i < b->conf->slots; i++)
		b->slot[i].gone = false; /* the last one was told */
}

int np_slots_init(struct np_build *b, struct eg_err *err)
{
	b->slot = calloc(b->conf->slots, sizeof(*b->slot));
	b->work = eg_timer_new(b->ctx->loop, on_work, b);
	b->linger_timer = eg_timer_new(b->ctx->loop, on_linger, b);
	b->reaper = eg_timer_new(b->ctx->loop, on_reap, b);
	if (!b->slot || !b->work || !b->linger_timer || !b->reaper)
		return eg_err_set(err, -ENOMEM, "out of memory");
	for (uint32_t i = 0; i < b->conf->slots; i++) {
		b->slot[i].b = b;
		b->slot[i].ns = -1;
		b->slot[i].tap_fd = -1;
		b->slot[i].grave = -1;
	}
	if (b->conf->slots >= EG_MANY_SLOTS)
		eg_timer_set(b->reaper, REAP_US);
	b->linger.first = NP_NO_SLOT;
	b->rewatch = NP_NO_SLOT;
	return 0;
}

/* The kernel's objects stay; only this process lets go. */
void np_slots_free(struct np_build *b)
{
	for (uint32_t i = 0; b->slot && i < b->conf->slots; i++) {
		tap_unwatch(&b->slot[i]);
		eg_close_p(&b->slot[i].ns);
		eg_close_p(&b->slot[i].grave);
	}
	eg_timer_free(b->reaper);
	eg_timer_free(b->work);
	eg_timer_free(b->linger_timer);
	free(b->slot);
}
