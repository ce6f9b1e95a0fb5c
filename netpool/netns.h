/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: network namespaces: making, entering, naming and letting go.
 *
 * A namespace is a descriptor. A name is a bind mount of it on an empty file
 * below [paths] netns, made exclusively, so that a name that once existed is
 * never silently joined to something else. Presence of the file proves
 * nothing (a dead pin is an ordinary file): np_netns_open() asks the kernel.
 *
 * Entering is an act of the whole (single-threaded) process. Whatever happens
 * inside, the process is back in its own namespace when np_netns_run() or
 * np_netns_make() returns; if it cannot be brought back it aborts, because a
 * privileged process in the wrong namespace does harm with every call.
 */
#ifndef NP_NETNS_H
#define NP_NETNS_H

#include "netpool/base/err.h"

#include <stdbool.h>
#include <stdint.h>

typedef int (*np_netns_fn)(void *arg, struct eg_err *err);

/* np_netns_self() - descriptor of the namespace the process is in. */
int np_netns_self(struct eg_err *err);

/**
 * np_netns_make() - a new network namespace
 * @home:	the process's own namespace, to come back to
 * @fn:		called inside the new one, may be NULL
 * @ret_fd:	its descriptor; only on success, else the namespace is gone
 *
 * Return: 0, @fn's error, -ENOSPC when user.max_net_namespaces is reached.
 */
int np_netns_make(int home, np_netns_fn fn, void *arg, int *ret_fd,
		  struct eg_err *err);

/* np_netns_run() - call @fn inside @ns and come back to @home. */
int np_netns_run(int home, int ns, np_netns_fn fn, void *arg, struct eg_err *err);

/* np_netns_is() - is the descriptor a network namespace? */
bool np_netns_is(int fd);

/* np_netns_ino() - its number, while it lives; 0: not to be had. */
uint64_t np_netns_ino(int fd);

/**
 * np_netns_prepare() - make @dir a directory whose mounts propagate
 *
 * Does what `ip netns add` does, under the same lock, so that the bind mount
 * of the directory on itself is made once, whoever comes first.
 *
 * @ret_made:	NP_MADE_DIR, NP_MADE_MOUNT: what was not there before
 */
#define NP_MADE_DIR 1U
#define NP_MADE_MOUNT 2U
int np_netns_prepare(const char *dir, unsigned int *ret_made, struct eg_err *err);

/* np_netns_missing() - what np_netns_prepare() would have to make now */
unsigned int np_netns_missing(const char *dir);

/* np_netns_name() - -EEXIST when anything of that name is there. */
int np_netns_name(const char *dir, const char *name, int fd, struct eg_err *err);

/**
 * np_netns_unname() - the name is gone afterwards; none there is success
 *
 * Only the mount and the empty file go: a process that holds the namespace
 * keeps it.
 */
int np_netns_unname(const char *dir, const char *name, struct eg_err *err);

/**
 * np_netns_open() - open a name
 *
 * Return: descriptor; -ENOENT, or -EBADF when the file is no network
 * namespace (a stale pin).
 */
int np_netns_open(const char *dir, const char *name, struct eg_err *err);

/*
 * A namespace remembered without keeping it alive (an nsfs file handle).
 * Kernels that cannot do this leave it empty and np_netns_lives() says no.
 */
struct np_netns_ref {
	uint32_t bytes; /* 0: none */
	int32_t type;
	uint8_t handle[32];
};

void np_netns_remember(int fd, struct np_netns_ref *ret);

/* np_netns_lives() - does somebody still hold it? @any: any nsfs file. */
bool np_netns_lives(const struct np_netns_ref *ref, int any);

#endif
