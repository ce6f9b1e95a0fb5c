/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: policy text to program, in the unprivileged api role.
 *
 * The grammar (conf/policy.d has examples): sections [policy] (name,
 * description, include), [host] (host = NAME ADDRESS), [allow] and [allow
 * PHASE...] (allow = DESTINATION [PROTO/PORT,...] [OPTION...]) and [deny]
 * (deny = DESTINATION [until=] [why=]). One bad entry refuses the policy.
 *
 * An included policy's entries, phases and hosts become the includer's, under
 * the line of the include; its name and description do not. Naming the
 * phase list of an include's section is not possible: phases are matched by
 * name.
 */
#ifndef RL_PARSE_H
#define RL_PARSE_H

#include "netpool/base/conf.h"
#include "netpool/base/err.h"
#include "rules/policy.h"

#include <stddef.h>
#include <stdint.h>

#define RL_WARNINGS 64	   /* more are counted */
#define RL_INCLUDE_DEPTH 8 /* deeper is a loop or a maze */
#define RL_INCLUDES 64	   /* in one policy, however nested */
#define RL_NAME_PORTS 16   /* of one name: a pin is one element a port */
#define RL_MAX_NAMES 65535 /* distinct names one wildcard may be asked for */

struct rl_warning {
	uint32_t line;
	char text[220];
};

struct rl_warnings {
	uint32_t n, more; /* kept, and left out for want of room */
	struct rl_warning w[RL_WARNINGS];
};

struct rl_parse_env {
	/* NULL: destinations are not compared with the host's own lists. */
	const struct eg_conf *conf;
	const char *name; /* the file's stem, NULL: text without a file */
	int64_t now;	  /* wall seconds, to warn of entries that ended */
	/**
	 * include() - text of another policy; valid until the parse ends
	 *
	 * NULL: includes are refused. Return: 0, or negative with a sentence.
	 */
	int (*include)(void *arg, const char *name, const char **ret_text,
		       size_t *ret_len, struct eg_err *err);
	void *arg;
};

/**
 * rl_policy_parse() - one policy
 * @file:	name for messages
 * @ret:	to be free()d; written on success only
 * @w:		what is legal but worth a look; may be NULL
 *
 * Return: 0, or negative errno with "FILE:LINE:COL: sentence".
 */
int rl_policy_parse(const char *text, size_t len, const char *file,
		    const struct rl_parse_env *env, struct rl_prog **ret,
		    struct rl_warnings *w, struct eg_err *err);

/**
 * rl_policy_permitted() - does this host let a tenant have these entries?
 *
 * Private destinations need permit_private, the host's own permit_host, on
 * each of their ports. A prefix that is broader than a private range is let
 * through: the kernel takes the private part out of it. Return: 0, or -EPERM
 * naming entry, line and the line egressd.conf would need.
 */
int rl_policy_permitted(const struct rl_prog *p, const struct eg_conf *conf,
			const char *tenant, struct eg_err *err);

#endif
