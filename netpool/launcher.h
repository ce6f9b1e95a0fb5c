/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: the launcher, the process that starts the others.
 */
#ifndef NP_LAUNCHER_H
#define NP_LAUNCHER_H

#include "netpool/base/conf.h"
#include "netpool/base/err.h"
#include "netpool/preflight.h"

/* What the launcher needs from parts it must not include. */
struct np_launcher_hooks {
	/* can this kernel do what a gateway needs? unshares (np_probe()) */
	void (*probe)(const struct eg_conf *conf, struct np_probe *ret);
};

/**
 * np_launch() - run the daemon in the foreground until it is told to end
 * @conf:	parsed and checked; identity is filled in here
 *
 * Return: exit status. Leases stay in place whatever happens.
 */
int np_launch(struct eg_conf *conf, const struct np_launcher_hooks *hooks);

/**
 * np_launch_lock() - take the daemon's lock for the life of this process
 *
 * Return: 0; -EBUSY with the pid of the egressd that runs.
 */
int np_launch_lock(const struct eg_conf *conf, struct eg_err *err);

/**
 * np_launch_probe() - run a probe in a child that ends afterwards
 *
 * Return: 0 with what it found, negative errno when the child itself failed.
 */
int np_launch_probe(const struct eg_conf *conf,
		    void (*probe)(const struct eg_conf *conf,
				  struct np_probe *ret),
		    struct np_probe *ret, struct eg_err *err);

/* np_launch_unlock() - remove the lock file and the run directory (purge). */
void np_launch_unlock(const struct eg_conf *conf);

#endif
