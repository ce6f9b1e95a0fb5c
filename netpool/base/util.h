/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: small things every file needs: array sizes, scope cleanup for
 * descriptors and heap memory, and the steal helper through which a guarded
 * descriptor leaves its scope.
 */
#ifndef EG_UTIL_H
#define EG_UTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#define EG_ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define EG_NSEC_PER_SEC 1000000000LL

static inline void eg_close_p(int *fd)
{
	if (*fd >= 0)
		(void)close(*fd); /* nothing to do about a failed close */
	*fd = -1;
}

static inline void eg_free_p(void *p)
{
	void **ptr = p;

	free(*ptr);
	*ptr = NULL;
}

/* Scope cleanup; a variable so marked starts as -1 or NULL. */
#define EG_CLEANUP_FD __attribute__((cleanup(eg_close_p)))
#define EG_CLEANUP_FREE __attribute__((cleanup(eg_free_p)))

/* eg_steal_fd() - take a descriptor out of a guarded variable. */
static inline int eg_steal_fd(int *fd)
{
	int r = *fd;

	*fd = -1;
	return r;
}

static inline uint32_t eg_min_u32(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static inline uint32_t eg_max_u32(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

#endif
