/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: one line of a policy: text to struct rl_entry and back, and what
 * is known of destinations. Internal to rules/.
 */
#ifndef RL_ENTRY_H
#define RL_ENTRY_H

#include "netpool/base/ini.h"
#include "rules/parse.h"

#include <stdbool.h>

#define RL_ENTRY_TEXT 2048 /* a name escaped throughout, and all options */
#define RL_TYPE_A 1U
#define RL_TYPE_AAAA 2U
#define RL_TYPE_TXT 32U
#define RL_TYPES_DEFAULT (RL_TYPE_A | RL_TYPE_AAAA)
#define RL_TYPES_ALL 63U

enum rl_list { RL_LIST_ALLOW, RL_LIST_HOST, RL_LIST_DENY };

/* Where an entry stands, and where to complain. */
struct rl_line {
	const struct eg_ini_entry *e;
	const struct rl_parse_env *env;
	enum rl_list list;
	uint32_t phases;
	uint32_t line; /* to be recorded: that of an include in the includer */
	struct rl_warnings *w;
	struct eg_err *err;
};

int rl_entry_parse(const struct rl_line *l, struct rl_entry *ret);

/* rl_entry_format() - canonical text, without "allow = "; its length. */
size_t rl_entry_format(const struct rl_entry *e, char buf[RL_ENTRY_TEXT]);

/* rl_entry_list() - the list an entry belongs to. */
enum rl_list rl_entry_list(const struct rl_entry *e);

/* rl_entry_matches() - does this entry speak of @name? */
bool rl_entry_matches(const struct rl_entry *e, const struct eg_name *name);

/**
 * rl_ports_add() - union: @list stays sorted, overlaps and neighbours merged
 *
 * Return: false when there is no room; the list is as it was.
 */
bool rl_ports_add(struct eg_port *list, uint32_t *n, uint32_t max,
		  const struct eg_port *p);

/* rl_prefixes_add() - the same for prefixes; what is contained goes. */
bool rl_prefixes_add(struct eg_prefix *list, uint32_t *n, uint32_t max,
		     struct eg_prefix p);

void rl_warn(struct rl_warnings *w, uint32_t line, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* rl_dest_special() - why nobody may allow this name, NULL: one may. */
const char *rl_dest_special(const struct eg_name *n);

/* rl_dest_public_suffix() - do strangers register directly below @n? */
bool rl_dest_public_suffix(const struct eg_name *n);

/* rl_dest_broad() - why an entry reaches further than it looks, or NULL. */
const char *rl_dest_broad(const struct rl_entry *e);

/**
 * rl_puny() - A-label form of a UTF-8 name, for a message
 *
 * Return: false when it is not UTF-8 or does not fit.
 */
bool rl_puny(const char *text, char *buf, size_t cap);

#endif
