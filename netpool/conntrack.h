/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: deleting connection tracking entries.
 *
 * A gateway only ever confirms entries whose originator is a slot (nothing
 * from outside is let in), in tap mode too, where the slot's own namespace
 * has translated the guest's address to .2 before. So "all entries of a
 * slot" are those whose original source is its .2, in the gateway and, for
 * the masquerade, in the host.
 *
 * The kernel walks its whole hash for every deletion by filter (0.8 ms at
 * 262,144 buckets), hence this is build's work and never main's.
 */
#ifndef NP_CONNTRACK_H
#define NP_CONNTRACK_H

#include "netpool/base/addr.h"

#include <stddef.h>

struct np_ct;

/*
 * np_ct_open() - ctnetlink socket in the namespace the process is in
 *
 * Asks once, so that connection tracking is loaded afterwards and its
 * sysctls exist.
 */
int np_ct_open(struct np_ct **ret, struct eg_err *err);
void np_ct_close(struct np_ct *ct);

/* np_ct_delete() - entries originated by @source; none is success. */
int np_ct_delete(struct np_ct *ct, uint32_t source, struct eg_err *err);

/**
 * np_ct_delete_many() - entries originated by any of @n sources
 *
 * None is success, and costs no walk where the namespace tracks nothing at
 * all. Otherwise by filter or by one dump, whichever walks less.
 */
int np_ct_delete_many(struct np_ct *ct, const uint32_t *source, size_t n,
		      struct eg_err *err);

/**
 * np_ct_delete_range() - entries originated inside a prefix, one dump
 * @ret_n:	how many were deleted, may be NULL
 */
int np_ct_delete_range(struct np_ct *ct, struct eg_prefix sources,
		       size_t *ret_n, struct eg_err *err);

#endif
