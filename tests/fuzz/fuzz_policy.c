// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: fuzz the policy parser; what it accepts must pass its own check,
 * print canonically, and parse to the same canonical text and digest
 */
#include "netpool/conf_key.h"
#include "rules/canon.h"
#include "rules/parse.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int include(void *arg, const char *name, const char **ret_text,
		   size_t *ret_len, struct eg_err *err)
{
	static const char text[] = "[allow init]\nallow = in.example\n";

	(void)arg;
	if (strcmp(name, "base"))
		return eg_err_set(err, -1, "no '%s'", name);
	*ret_text = text;
	*ret_len = sizeof(text) - 1;
	return 0;
}

static void again(const struct rl_prog *p, struct rl_parse_env *env)
{
	struct rl_prog *q = NULL;
	struct eg_err err = { 0 };
	char *text, *more;
	size_t len, more_len;

	if (rl_prog_check(p, p->size, &err) || rl_canon_text(p, &text, &len))
		abort();
	/* every phase repeats its entries: it may outgrow the limits */
	if (len <= RL_POLICY_TEXT &&
	    rl_policy_parse(text, len, "canon", env, &q, NULL, &err))
		abort();
	if (q) {
		if (rl_canon_text(q, &more, &more_len) || strcmp(text, more) ||
		    memcmp(p->digest, q->digest, EG_DIGEST))
			abort();
		free(more);
	}
	free(q);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct eg_conf conf;
	struct rl_warnings w;
	struct rl_parse_env env = { .conf = &conf, .now = 1800000000,
				    .include = include };
	struct eg_err err = { 0 };
	struct rl_prog *p = NULL;
	const char *deny = np_conf_deny_builtin();

	if (!conf.denies &&
	    np_conf_deny_parse(&conf, "builtin", deny, strlen(deny), NULL))
		abort();
	conf.prefix = (struct eg_prefix){ 0x0ac80000, 16 };
	conf.link_prefix = (struct eg_prefix){ 0x0ac90000, 24 };
	if (rl_policy_parse((const char *)data, size, "f", &env, &p, &w,
			    &err)) {
		if (!err.code || !err.text[0])
			abort();
		return 0;
	}
	(void)rl_policy_permitted(p, &conf, "acme", &err);
	again(p, &env);
	free(p);
	return 0;
}
