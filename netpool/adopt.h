/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: opening a namespace that a caller made.
 *
 * The path comes from a client, the process that opens it (build) may enter
 * and change every network namespace of the host: the deputy that must not be
 * confused. Hence:
 *
 * - The text is checked by api, again by main, and here (base/adopt.h); it is
 *   compared, never resolved, edited or split by us.
 * - The kernel resolves it, once, with openat2(2): below the directory the
 *   administrator named, through no symbolic link and no magic link. So a
 *   component that is exchanged meanwhile leads to what it is at that
 *   moment, below that directory, or to an error; there is no second look.
 * - It is opened as a mere reference (O_PATH): no driver, FIFO or automount
 *   notices. Only when that descriptor lies on nsfs is it opened for use,
 *   through itself and not through the path.
 * - What it is, and that it is none of those nobody may have, is asked of
 *   that descriptor alone, and that descriptor alone is used.
 *
 * The directory is opened for each call and not once at the start: others
 * make it when they start (/run/docker/netns) and mount on it later
 * (`ip netns add` on /run/netns), and a descriptor from before sees none of
 * it. It is the administrator's word, links in it are followed; whoever can
 * exchange it is root already.
 */
#ifndef NP_ADOPT_H
#define NP_ADOPT_H

#include "netpool/base/conf.h"
#include "netpool/base/err.h"

#include <stdbool.h>

/**
 * np_adopt_open() - a caller's network namespace
 *
 * Return: descriptor; -EINVAL with a sentence that names the path and what
 * is accepted, whatever was wrong with it.
 */
int np_adopt_open(const struct eg_conf *conf, const char *path,
		  struct eg_err *err);

/* np_adopt_same() - are both the same namespace? A bad descriptor is none. */
bool np_adopt_same(int a, int b);

#endif
