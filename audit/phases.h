/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: which policy and phase was in force when, over restarts.
 *
 * A lease that never changes needs no file. At its first change
 * phases.jsonl gets a line for what was in force before and one for each
 * change; a restarted audit reads it back, and the manifest lists it.
 */
#ifndef AU_PHASES_H
#define AU_PHASES_H

#include "audit/lease.h"

/* au_phases_store() - the last change of @l; negative errno: not written. */
int au_phases_store(struct au_files *f, const struct au_lease *l);

/* au_phases_load() - earlier changes of a lease just announced. */
int au_phases_load(struct au_files *f, struct au_lease *l, int64_t wall_ns);

#endif
