/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: egressd.conf to struct eg_conf and back.
 */
#ifndef NP_CONF_H
#define NP_CONF_H

#include "netpool/base/conf.h"
#include "netpool/base/err.h"

#include <stddef.h>
#include <stdio.h>

/* np_conf_defaults() - what an empty file means; no file is read. */
int np_conf_defaults(struct eg_conf *ret, struct eg_err *err);

/**
 * np_conf_parse() - text of a configuration
 * @path:	names it in errors; relative paths in it start at its directory
 *
 * All or nothing: *ret is written on success only.
 */
int np_conf_parse(const char *text, size_t len, const char *path,
		  struct eg_conf *ret, struct eg_err *err);

/* np_conf_load() - the same from a file. */
int np_conf_load(const char *path, struct eg_conf *ret, struct eg_err *err);

/* np_conf_print() - the effective configuration, in a form that parses. */
void np_conf_print(const struct eg_conf *c, FILE *out);

/**
 * np_conf_check_host() - do our prefixes collide with the host's networks?
 * @net:	networks of the host's interfaces, with the host's address
 */
int np_conf_check_host(const struct eg_conf *c, const struct eg_prefix *net,
		       size_t n, struct eg_err *err);

#endif
