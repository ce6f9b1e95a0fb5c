/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: what the host remembers across reboots: its id and the counter
 * of generations. Both live in the state directory, each a small text file
 * replaced atomically and synced before use.
 */
#ifndef NP_IDENTITY_H
#define NP_IDENTITY_H

#include "netpool/base/err.h"

#include <stdint.h>

/**
 * np_host_id() - the host's random 128-bit id, made at first use
 * @dir:	state directory
 */
int np_host_id(const char *dir, uint8_t ret[16], struct eg_err *err);

/* np_boot_id() - this boot's id, as the kernel gives it. */
int np_boot_id(uint8_t ret[16], struct eg_err *err);

/**
 * np_generation_reserve() - take the next @want generations for ever
 *
 * The file is advanced and synced before the block is handed out, so a block
 * is skipped by a crash and never handed out twice, also when the run
 * directory has been emptied.
 */
int np_generation_reserve(const char *dir, uint32_t want, uint64_t *ret_first,
			  uint64_t *ret_end, struct eg_err *err);

#endif
