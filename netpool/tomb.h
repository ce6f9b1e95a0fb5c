/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: tombstones: ids of released leases, which answer 410 for a while.
 *
 * A late retry of a PUT must not make a second lease, so a released id is
 * kept for [lease] tombstone, over restarts of main too. At some hundred
 * releases a second that is more than a million in an hour: NP_TOMBS are
 * kept, and the oldest go first when there are more.
 */
#ifndef NP_TOMB_H
#define NP_TOMB_H

#include "netpool/base/proto.h"

#include <stdbool.h>

#define NP_TOMBS 131072U /* some 15 MB when the ids are ordinary ones */

struct np_main;
struct np_lease;
struct np_tombs;

struct np_tomb {
	struct np_tomb *next; /* younger */
	struct np_tomb *id_next, *uid_next;
	int64_t until_boot_ns;
	uint64_t generation;
	uint32_t segment; /* the file it is in */
	uint8_t uid[EG_UID];
	char id[]; /* NUL-terminated */
};

/* np_tombs_new() - NULL: out of memory */
struct np_tombs *np_tombs_new(void);
void np_tombs_free(struct np_tombs *t);

/*
 * np_tombs_load() - what a former main has left under the run directory
 * @dir:	directory of the records, borrowed
 *
 * A record cut short by a crash ends its file; what comes before counts.
 */
void np_tombs_load(struct np_tombs *t, int dir);

/*
 * np_tombs_add() - @l has been released
 *
 * Return: 0; negative errno: kept in memory only, or (-ENOMEM) not at all.
 */
int np_tombs_add(struct np_tombs *t, int dir, const struct eg_lease *l,
		 int64_t until_boot_ns);

/* np_tombs_tick() - forget those whose time is over; @dir as above. */
void np_tombs_tick(struct np_tombs *t, int dir, int64_t now);

const struct np_tomb *np_tombs_id(const struct np_tombs *t, const char *id);
const struct np_tomb *np_tombs_uid(const struct np_tombs *t,
				   const uint8_t uid[EG_UID]);
size_t np_tombs_count(const struct np_tombs *t);

#endif
