/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: network sysctls of the namespace the process is in.
 */
#ifndef NP_SYSCTL_H
#define NP_SYSCTL_H

#include "netpool/base/err.h"

#include <stdint.h>

/**
 * np_sysctl_set() - write a value below /proc/sys/net and read it back
 * @key:	path below /proc/sys/net, with slashes
 *
 * Return: 0; -ENOENT when this kernel has no such key; -EIO when the value
 * read back is another.
 */
int np_sysctl_set(const char *key, uint32_t value, struct eg_err *err);

/* np_sysctl_get() - read a number. */
int np_sysctl_get(const char *key, uint32_t *ret, struct eg_err *err);

#endif
