/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: policy text to a program, in the unprivileged api role.
 *
 * One bad entry refuses the whole policy, with file, line and column.
 */
#ifndef RL_PARSE_H
#define RL_PARSE_H

#include "netpool/base/conf.h"
#include "netpool/base/err.h"
#include "rules/policy.h"

#include <stddef.h>

#define RL_WARNINGS 32
#define RL_INCLUDE_DEPTH 4 /* an include of an include of an include */

struct rl_warnings {
	unsigned int n; /* may be more than are kept */
	char text[RL_WARNINGS][200];
};

struct rl_parse_env {
	const struct eg_conf *conf; /* always-denied names and addresses */
	/* text of another policy by name, NULL when there is none */
	const char *(*include)(void *arg, const char *name, size_t *ret_len);
	void *arg;
};

/**
 * rl_policy_parse() - parse and compile
 * @file:	names the text in errors; its stem is the policy's name unless
 *		[policy] gives one
 * @ret:	malloc'ed program with its digest; free() it
 */
int rl_policy_parse(const char *text, size_t len, const char *file,
		    const struct rl_parse_env *env, struct rl_prog **ret,
		    struct rl_warnings *w, struct eg_err *err);

/**
 * rl_policy_permitted() - has the host's permit_private what this one needs?
 *
 * Return: 0; -EPERM naming the entry, its line, and the line that
 * egressd.conf lacks.
 */
int rl_policy_permitted(const struct rl_prog *p, const struct eg_conf *conf,
			const char *tenant, struct eg_err *err);

/**
 * rl_dest_parse() - "ec2.us-east-1.amazonaws.com" or "192.0.2.0/24" alone
 * @ret:	kind, name and dst are set
 */
int rl_dest_parse(const char *text, struct rl_entry *ret, struct eg_err *err);

#endif
