/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: taking everything egressd ever made off this host.
 */
#ifndef NP_PURGE_H
#define NP_PURGE_H

#include "netpool/base/conf.h"
#include "netpool/base/err.h"

/**
 * np_purge() - namespaces, links, mounts, table, routes, sysctls, run files
 *
 * No daemon may run (the caller holds the lock). Idempotent: what is not
 * there is no error. Goes on after a failure and reports the first one.
 * Things of others are left: only names and links of egressd's own form are
 * touched. Below [paths] run everything goes but the file "lock", which the
 * caller holds, and the directory itself.
 *
 * The host's nftables table is removed by np_build_hooks.host_purge.
 */
int np_purge(const struct eg_conf *conf, struct eg_err *err);

/**
 * np_purge_above() - gateways from number @gateways on, slots from @slots on
 * @home: the host's namespace
 *
 * Their links and names; what a run with other [pool] settings left. 0 and
 * 0: all of them.
 */
int np_purge_above(const struct eg_conf *conf, int home, uint32_t gateways,
		   uint32_t slots, struct eg_err *err);

#endif
