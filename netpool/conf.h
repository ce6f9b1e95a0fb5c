/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: egressd.conf to struct eg_conf and back.
 *
 * All or nothing: a configuration with one unknown key, one value out of
 * range or one contradiction between keys is refused with FILE:LINE:COL and a
 * sentence that says what would be accepted. What np_conf_print() writes is a
 * configuration that parses to the same values (line numbers of permits
 * aside, which are those of the text).
 *
 * Users: [roles] api=, dns= and audit= take a user's name, a number or
 * UID:GID. By default they are the users egressd-api, egressd-dns and
 * egressd-audit where the host has them, else the fixed uids 60801, 60802 and
 * 60803 (and gids alike), which Debian and systemd leave unassigned. Groups:
 * a default group the host lacks is gid 0 (root alone); one that the file
 * names must exist.
 *
 * Reads what the file refers to: the always-deny file, resolv.conf for
 * upstream=system, passwd and group. Called by the launcher before any role
 * runs, and by --check.
 */
#ifndef NP_CONF_H
#define NP_CONF_H

#include "netpool/base/conf.h"
#include "netpool/base/err.h"

#include <stddef.h>
#include <stdio.h>

#define NP_CONF_TEXT (128 * 1024)  /* 512 permit lines and their comments */
#define NP_CONF_UID_FALLBACK 60801 /* api; dns and audit follow */
#define NP_CONF_RESOLV "/etc/resolv.conf"

/**
 * np_conf_load() - read and check a configuration file
 * @ret:	written only on success (about 250 kB: not for the stack)
 */
int np_conf_load(const char *path, struct eg_conf *ret, struct eg_err *err);

/**
 * np_conf_parse() - the same from text
 * @path:	where the text is from: for messages, and relative paths in
 *		it are relative to this file's directory
 * @resolv:	resolv.conf for upstream=system
 */
int np_conf_parse(const char *text, size_t len, const char *path,
		  const char *resolv, struct eg_conf *ret, struct eg_err *err);

/* np_conf_defaults() - what an empty egressd.conf at @path would mean. */
int np_conf_defaults(const char *path, const char *resolv, struct eg_conf *ret,
		     struct eg_err *err);

/* np_conf_print() - the effective configuration, every key of it. */
void np_conf_print(const struct eg_conf *conf, FILE *f);

/**
 * np_conf_check_host() - does the pool collide with the running host?
 * @host:	addresses of the host (as /32) or its routes, without our own
 *
 * Return: 0, or -EADDRINUSE naming the first that prefix or link_prefix
 * overlaps.
 */
int np_conf_check_host(const struct eg_conf *conf, const struct eg_prefix *host,
		       size_t n, struct eg_err *err);

#endif
