/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: what is done to "the host": the namespace the daemon starts in.
 *
 * The host keeps one link a gateway and a route to its slots; it forwards.
 * Whatever is changed there that is not a link of ours is written down
 * first in the file host.before below [paths] run, so that a purge can put
 * it back: one line each, "sysctl KEY VALUE", "mkdir DIR", "mount DIR".
 */
#ifndef NP_HOST_H
#define NP_HOST_H

#include "netpool/base/conf.h"
#include "netpool/base/err.h"
#include "netpool/rtnl.h"

#include <stdbool.h>

#define NP_HOST_BEFORE "host.before"

/**
 * np_host_alone() - no other egressd serves this host
 *
 * Links, table and log group on the host are there once, so two daemons cannot
 * share one, whatever their directories. Waits two seconds for a reader of the
 * group that has just been killed.
 *
 * Return: 0; -EBUSY.
 */
int np_host_alone(struct eg_err *err);

/**
 * np_host_forward() - have the host forward IPv4
 * @ret_changed: it did not before, and the old value has been written down
 */
int np_host_forward(const struct eg_conf *conf, bool *ret_changed,
		    struct eg_err *err);

/* np_host_netns_dir() - prepare [paths] netns, writing down what was made. */
int np_host_netns_dir(const struct eg_conf *conf, struct eg_err *err);

/**
 * np_host_mtu() - [uplink] mtu, else that of the default route's link
 *
 * A host without default route has 1500, the Ethernet default.
 */
int np_host_mtu(const struct eg_conf *conf, struct np_rtnl *r, uint32_t *ret,
		struct eg_err *err);

/**
 * np_host_restore() - undo what host.before says, then remove the file
 *
 * A directory that is still in use by others is left with its mount.
 */
int np_host_restore(const struct eg_conf *conf, struct eg_err *err);

#endif
