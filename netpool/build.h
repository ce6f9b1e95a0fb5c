/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: the build role: namespaces, mounts, links, taps, conntrack.
 *
 * It alone makes calls that wait for rtnl, a mount lock or an RCU grace
 * period. It decides nothing: main asks with EG_MB_*, it answers EG_BM_*.
 *
 * EG_BM_EVENT as sent from here: error -ENODEV, the slot's link is gone;
 * error 0, `carrier` is the new state of the tap (slots with one) or of the
 * sandbox end (the others).
 */
#ifndef NP_BUILD_H
#define NP_BUILD_H

#include "netpool/base/role.h"

extern const struct eg_role_ops np_build_ops;

/*
 * What netpool may not call by itself (it does not include rules/); main.c
 * fills this in before the role runs. A hook that is NULL is an error of
 * whoever needs it, never silently skipped.
 */
struct np_build_hooks {
	/* rl_slot_nat(); @fd is an nfnetlink socket inside the slot */
	int (*slot_nat)(int fd, const struct eg_conf *conf, uint32_t slot,
			const struct eg_guest *guest, struct eg_err *err);
	/* host table away; @fd is an nfnetlink socket, borrowed */
	int (*host_purge)(int fd, const struct eg_conf *conf, struct eg_err *err);
};

extern struct np_build_hooks np_build_hooks;

#endif
