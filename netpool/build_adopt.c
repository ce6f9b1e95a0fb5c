// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: slots whose sandbox end lies in a caller's namespace (guest mode
 * adopt), in the build role.
 *
 * Making one: the path is opened (adopt.h), the descriptor compared with every
 * namespace nobody may have, the slot's own pair and namespace given up (an
 * unbuilt slot, which main prefers, has none), a new pair born with one end
 * in each of gateway and namespace, and the descriptor closed. Nothing of
 * this process keeps the caller's namespace alive afterwards: its owner may
 * delete it at any time, the kernel then deletes the pair, and that the
 * gateway's end has gone is how it is noticed. For the same reason release
 * needs nothing of it: deleting the gateway's end takes the other end with
 * its address, routes and neighbour entry out of it, if it still exists.
 *
 * What tells such a slot again: to this process its state; to its successor
 * the group of the link in the gateway; whose it is, main says
 * (EG_MB_ADOPTED), which has the record. A link in that group that nobody
 * has a record of was made in the moment before a kill -9: main hears of it
 * by EG_BM_SLOT and has it scrapped.
 */
#include "netpool/adopt.h"
#include "netpool/base/adopt.h"
#include "netpool/base/log.h"
#include "netpool/base/plan.h"
#include "netpool/base/util.h"
#include "netpool/build_state.h"
#include "netpool/link.h"
#include "netpool/slot.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

/* A gateway of the last run that has not been opened yet has a name only. */
static bool is_gateway(struct np_build *b, uint32_t i, int ns)
{
	EG_CLEANUP_FD int named = -1;
	char name[EG_IFNAME];
	struct eg_err why;

	if (b->gate[i].gw.ns >= 0)
		return np_adopt_same(b->gate[i].gw.ns, ns);
	named = np_netns_open(b->conf->netns, eg_plan_gw_name(name, i), &why);
	return np_adopt_same(named, ns);
}

/* Whose is it, of those that nobody may have? NULL: none's. */
static const char *not_to_be_had(struct np_build *b, int ns)
{
	if (b->init_net < 0)
		return "cannot be told from process 1's, which egressd was not allowed to look up when it started";
	if (np_adopt_same(b->w.home, ns))
		return "is the host's";
	if (np_adopt_same(b->init_net, ns))
		return "is process 1's";
	for (uint32_t i = 0; i < b->conf->gateways; i++)
		if (is_gateway(b, i, ns))
			return "is a gateway's";
	for (uint32_t i = 0; i < b->conf->slots; i++)
		if (np_adopt_same(b->slot[i].ns, ns) ||
		    (b->slot[i].ino && b->slot[i].ino == np_netns_ino(ns)))
			return "is a slot's";
	return NULL;
}

static int open_checked(struct np_build *b, const struct eg_guest *g,
			struct eg_err *err)
{
	EG_CLEANUP_FD int ns = np_adopt_open(b->conf, g->netns_path, err);
	const char *whose;

	if (ns < 0)
		return ns;
	whose = not_to_be_had(b, ns);
	if (whose)
		return eg_err_set(
			err, -EINVAL,
			"guest.netns_path '%s' %s; a network namespace of yours is accepted",
			g->netns_path, whose);
	return eg_steal_fd(&ns);
}

/* The pair and the namespace the slot was built with. */
static int give_up_own(struct np_build *b, struct np_gateway *gw, uint32_t slot,
		       struct eg_err *err)
{
	struct np_slot *s = &b->slot[slot];
	int r;

	if (s->state == NP_SLOT_NONE)
		return 0;
	np_link_delete(gw->rtnl, eg_plan_ifindex(b->conf, slot));
	r = np_rtnl_commit(gw->rtnl, err);
	if (!r)
		r = np_slots_let_go(s, err);
	if (!r)
		s->state = NP_SLOT_NONE;
	return r;
}

int np_slots_adopt(struct np_build *b, const struct eg_mb_guest *m,
		   struct eg_err *err)
{
	struct np_gateway *gw =
		&b->gate[eg_plan_gateway(b->conf, m->slot)].gw;
	struct np_slot *s = &b->slot[m->slot];
	EG_CLEANUP_FD int ns = -1;
	struct eg_err why = {0};
	int r;

	if (s->state == NP_SLOT_SCRAP || s->state == NP_SLOT_ADOPTED)
		return eg_err_set(err, -EBUSY, "slot %u is not free", m->slot);
	if (!m->generation || !eg_ifname_ok(m->guest.ifname))
		return eg_err_set(err, -EBADMSG,
				  "main sent a guest without generation or interface");
	ns = open_checked(b, &m->guest, err);
	if (ns < 0)
		return ns;
	r = give_up_own(b, gw, m->slot, err);
	if (r)
		return r;
	r = np_slot_adopt(&b->w, gw, m->slot, ns, m->guest.ifname, &why);
	if (r)
		return eg_err_set(err, r, "guest.netns_path '%s' %s",
				  m->guest.netns_path, why.text);
	s->state = NP_SLOT_ADOPTED;
	s->generation = m->generation;
	s->gone = false;
	s->carrier = true;
	return 0;
}

void np_slots_adopted(struct np_build *b, const struct eg_mb_slot *m)
{
	struct np_slot *s;
	struct eg_err err = {0};
	int r = np_slots_check(b, m->slot, m->generation, &err);

	if (!r && b->slot[m->slot].state != NP_SLOT_NONE &&
	    b->slot[m->slot].state != NP_SLOT_ADOPTED)
		r = eg_err_set(&err, -EINVAL,
			       "slot %u has a namespace of its own", m->slot);
	if (r) {
		eg_error("%s", err.text);
		return;
	}
	s = &b->slot[m->slot];
	s->state = NP_SLOT_ADOPTED;
	s->generation = m->generation;
	s->gone = false;
	np_slots_link_check(b, m->slot);
}

void np_slots_found(struct np_build *b, uint32_t slot)
{
	struct np_slot *s = &b->slot[slot];
	struct eg_bm_scan m = {.slot = slot, .state = EG_SCAN_ADOPTED};

	if (s->state != NP_SLOT_NONE)
		return;
	s->state = NP_SLOT_ADOPTED;
	s->generation = 0;
	s->gone = false;
	np_build_tell(b, EG_BM_SLOT, 0, &m, sizeof(m), -1);
}
