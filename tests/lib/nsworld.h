/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd tests: a private host.
 *
 * nsw_enter() puts the test process into network and mount namespaces of its
 * own with an empty /run, so that "the host" is something it may change.
 */
#ifndef NSWORLD_H
#define NSWORLD_H

#include "netpool/base/conf.h"

#include <stddef.h>

/* Return: 0, or prints why the test is skipped and returns -1. */
int nsw_enter(const char *test);

/* nsw_conf() - @slots slots in gateways of @per, paths below /run. */
void nsw_conf(struct eg_conf *c, uint32_t slots, uint32_t per);

/* nsw_run() - run a shell command (tests only); its exit status. */
int nsw_run(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* nsw_read() - its standard output, at most @cap - 1 octets, terminated. */
int nsw_read(char *buf, size_t cap, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* nsw_inside() - the same inside a namespace given by descriptor. */
int nsw_inside(int ns, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* nsw_mounts() - mounts whose path contains @part. */
int nsw_mounts(const char *part);

#endif
