/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: a slot's namespace and link.
 *
 * The sandbox end, eth0, has the slot's .2 of its /30; the gateway's end has
 * no address (TPROXY needs none, and addresses cost time at each add), takes
 * no part in ARP, and has permanent neighbour entries on either side. All
 * of it is done by two batches, one inside the new namespace and one inside
 * the gateway; a pair cannot be created up in the message that makes it.
 *
 * Guests behind a tap:
 *
 * - tap: the guest has a fixed address (a snapshot's), the tap the guest's
 *   gateway address; the slot translates 1:1 to .2 (rules/).
 * - route: the guest itself has .2 and its gateway is .1. The slot then has
 *   no address at all: .1 is on no link of it, so that queries to .1 reach
 *   the gateway's guard; the tap answers ARP for .1 by proxy, and .2 is
 *   routed to the tap.
 *
 * A namespace a caller made (mode adopt) gets the sandbox end and what
 * belongs to it, and nothing else: its lo, its other links and its settings
 * are the caller's. The gateway's end is in EG_ADOPT_GROUP, which tells such
 * a slot from one with a namespace of its own after the death of everything.
 */
#ifndef NP_SLOT_H
#define NP_SLOT_H

#include "netpool/gateway.h"

/* The tap's address in every slot: a restored guest has it in its cache. */
extern const uint8_t np_tap_mac[EG_MAC_LEN]; /* 06:00:ac:10:00:01 */

/**
 * np_slot_make() - namespace and link, up on both ends
 * @ret_ns:	its descriptor
 *
 * A left-over gateway end of the same slot is deleted and the attempt
 * repeated once. On failure nothing is left.
 */
int np_slot_make(const struct np_world *w, struct np_gateway *gw, uint32_t slot,
		 int *ret_ns, struct eg_err *err);

/**
 * np_slot_guest() - the tap of a guest in tap or route mode
 *
 * Idempotent while nobody has the tap open.
 */
int np_slot_guest(const struct np_world *w, uint32_t mtu, uint32_t slot, int ns,
		  const struct eg_guest *guest, struct eg_err *err);

/**
 * np_slot_adopt() - the slot's link with its sandbox end in a caller's
 * namespace
 * @ns:		that namespace
 * @ifname:	of the sandbox end in there
 *
 * Everything the namespace gets hangs on the link and goes with it. The
 * slot's own pair must be gone. On failure nothing is left: -EINVAL, -EEXIST
 * (it has a lease) with a sentence that continues one about the namespace.
 */
int np_slot_adopt(const struct np_world *w, struct np_gateway *gw,
		  uint32_t slot, int ns, const char *ifname,
		  struct eg_err *err);

/* np_slot_down() - the gateway's end goes down; a missing link is down. */
int np_slot_down(const struct np_world *w, struct np_gateway *gw, uint32_t slot,
		 struct eg_err *err);

/**
 * np_slot_tap_monitor() - watch the links of a slot that has a tap
 * @ret_carrier: has the tap a carrier now?
 *
 * Return: descriptor of an RTMGRP_LINK monitor inside, -ENODEV: no tap.
 */
int np_slot_tap_monitor(const struct np_world *w, int ns, bool *ret_carrier,
			struct eg_err *err);

/**
 * np_slot_parse() - the name of a slot's namespace, "eg-00517.90211"
 *
 * Strict: only what eg_plan_netns() writes. Return: is it one?
 */
bool np_slot_parse(const char *name, uint32_t *ret_slot,
		   uint64_t *ret_generation);

#endif
