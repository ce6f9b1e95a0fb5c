/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: inside of the configuration parser: one table entry a key, and
 * the value types the table is made of. Only netpool/conf*.c include this.
 */
#ifndef NP_CONF_KEY_H
#define NP_CONF_KEY_H

#include "netpool/conf.h"

#include <stdbool.h>

#define NP_CONF_KEYS 64 /* room; the table is checked against it */
#define NP_CONF_DIR 4096

struct np_conf_key;

/* State of one parse. */
struct np_conf_ctx {
	struct eg_conf *conf;
	const char *file, *resolv;
	char dir[NP_CONF_DIR]; /* absolute; of the configuration file */
	bool defaulting;       /* the value is the table's, not the file's */
	bool deny_named;       /* always_deny_file is in the file */
	bool deny_builtin;
	uint32_t now_line; /* of the entry being parsed, 0: default */
	uint32_t line[NP_CONF_KEYS], col[NP_CONF_KEYS]; /* 0: not there */
};

typedef int np_conf_parse_fn(struct np_conf_ctx *c, const struct np_conf_key *k,
			     const char *text, struct eg_err *err);
typedef void np_conf_print_fn(const struct eg_conf *conf,
			      const struct np_conf_key *k, FILE *f);

struct np_conf_key {
	const char *section, *name;
	const char *def; /* text, parsed like the file's; NULL: none */
	np_conf_parse_fn *parse;
	np_conf_print_fn *print;
	size_t off;		  /* of the field in struct eg_conf */
	uint32_t min, max;	  /* numbers and durations */
	const char *const *words; /* enumerations, by value */
	bool repeat; /* may stand more than once; print writes lines */
};

/* Value types (conf_value.c). Errors are sentences without a position. */
np_conf_parse_fn np_parse_uint, np_parse_duration, np_parse_size, np_parse_bool,
	np_parse_word, np_parse_prefix, np_parse_path, np_parse_prefill,
	np_parse_budget, np_parse_mtu, np_parse_upstream, np_parse_deny_file,
	np_parse_permit, np_parse_adopt_from, np_parse_group, np_parse_uids,
	np_parse_listen, np_parse_role, np_parse_mode;
np_conf_print_fn np_print_uint, np_print_duration, np_print_size, np_print_bool,
	np_print_word, np_print_prefix, np_print_path, np_print_prefill,
	np_print_budget, np_print_mtu, np_print_upstream, np_print_deny_file,
	np_print_permit, np_print_adopt_from, np_print_group, np_print_uids,
	np_print_listen, np_print_role, np_print_mode;

/* np_conf_path() - @text against the configuration's directory. */
int np_conf_path(const struct np_conf_ctx *c, const char *text,
		 char ret[EG_PATH], struct eg_err *err);

/* np_conf_resolv() - upstream servers out of c->resolv. */
int np_conf_resolv(struct np_conf_ctx *c, struct eg_err *err);

/* np_conf_deny_load() - fill deny[] and deny_name[] (conf_deny.c). */
int np_conf_deny_load(struct np_conf_ctx *c, struct eg_err *err);

/* np_conf_deny_parse() - the same from text; IPv6 lines are checked only. */
int np_conf_deny_parse(struct eg_conf *conf, const char *file, const char *text,
		       size_t len, struct eg_err *err);

/* np_conf_deny_builtin() - text of the list compiled in. */
const char *np_conf_deny_builtin(void);

/* np_conf_check() - keys against each other (conf_check.c). */
int np_conf_check(struct np_conf_ctx *c, struct eg_err *err);

/**
 * np_conf_at_key() - put the place in front of the sentence in @err
 * @other:	of the two keys the first that the file sets; else the file alone
 *
 * Return: @rc.
 */
int np_conf_at_key(struct np_conf_ctx *c, int rc, const char *section,
		   const char *name, const char *other, struct eg_err *err);

/* np_conf_key_at() - index of a key in the table; it must be there. */
size_t np_conf_key_at(const char *section, const char *name);

#endif
