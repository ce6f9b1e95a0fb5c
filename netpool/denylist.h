/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: the always-deny list: what no policy can allow, as data.
 *
 * A line: ADDRESS|PREFIX|NAME CLASS [# comment]; class metadata, private or
 * reserved. A name stands for itself and everything below it. IPv6 addresses
 * are accepted and checked, and kept out of the packet filter, where IPv6 is
 * off altogether.
 */
#ifndef NP_DENYLIST_H
#define NP_DENYLIST_H

#include "netpool/base/conf.h"
#include "netpool/base/err.h"

#include <stddef.h>

int np_denylist_parse(const char *text, size_t len, const char *file,
		      struct eg_conf *c, struct eg_err *err);

/* np_denylist_load() - -ENOENT without a word when there is no such file. */
int np_denylist_load(const char *path, struct eg_conf *c, struct eg_err *err);

/* np_denylist_builtin() - the list we ship, for a host without the file. */
int np_denylist_builtin(struct eg_conf *c, struct eg_err *err);

#endif
