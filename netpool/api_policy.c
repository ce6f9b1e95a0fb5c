// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: the policies the api role knows: by name, and every text by digest.
 *
 * Files come from the launcher as descriptors, all of them between one end
 * marker and the next. A file that does not parse keeps its former text in
 * force and is reported; a file that is gone takes its name away, while the
 * text stays known by its digest for leases that were made from it.
 */
#include "netpool/api_http.h"
#include "netpool/base/digest.h"
#include "netpool/base/ini.h"
#include "netpool/base/log.h"
#include "netpool/base/util.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define POLICIES_MAX 4096 /* texts kept; an orchestrator has a few dozen */

static struct policy *by_name(struct api *a, const char *name)
{
	for (struct policy *p = a->policies; p; p = p->next)
		if (p->current && !strcmp(p->name, name))
			return p;
	return NULL;
}

static struct policy *by_digest(struct api *a, const uint8_t *digest)
{
	for (struct policy *p = a->policies; p; p = p->next)
		if (!memcmp(p->prog->digest, digest, EG_DIGEST))
			return p;
	return NULL;
}

const struct policy *api_policy_by_digest(struct api *a,
					  const uint8_t digest[EG_DIGEST])
{
	return by_digest(a, digest);
}

static int include(void *arg, const char *name, const char **ret_text,
		   size_t *ret_len, struct eg_err *err)
{
	struct policy *p = by_name(arg, name);

	if (!p || !p->text)
		return eg_err_set(err, -ENOENT,
				  "there is no policy '%.64s' to include",
				  name);
	*ret_text = p->text;
	*ret_len = strlen(p->text);
	return 0;
}

/* Keep a program; takes @prog. The one already known wins. */
static struct policy *keep(struct api *a, const char *name,
			   struct rl_prog *prog, const struct rl_warnings *w,
			   const char *text, size_t len)
{
	struct policy *p = by_digest(a, prog->digest);

	if (p && (!*name || !strcmp(p->name, name))) {
		free(prog);
		return p;
	}
	if (a->npolicies >= POLICIES_MAX || !(p = calloc(1, sizeof(*p)))) {
		free(prog);
		return NULL;
	}
	p->text = strndup(text, len);
	p->prog = prog;
	if (w->n && (p->warnings = malloc(sizeof(*w))))
		memcpy(p->warnings, w, sizeof(*w));
	(void)snprintf(p->name, sizeof(p->name), "%s", name);
	p->next = a->policies;
	a->policies = p;
	a->npolicies++;
	return p;
}

static void make_current(struct api *a, struct policy *p)
{
	struct policy *old = by_name(a, p->name);

	if (old && old != p)
		old->current = false;
	p->current = p->fresh = true;
}

void api_policy_file(struct api *a, const char *name, int fd)
{
	EG_CLEANUP_FREE char *text = NULL;
	struct rl_parse_env env = { .conf = a->ctx->conf, .include = include,
				    .arg = a, .name = name,
				    .now = eg_wall_ns() / EG_NSEC_PER_SEC };
	static struct rl_warnings w; /* large; filled by every parse */
	struct eg_err err = { 0 };
	struct rl_prog *prog = NULL;
	struct policy *old = by_name(a, name), *p = NULL;
	char file[EG_POLICY_NAME + 8];
	size_t len;
	int r;

	(void)snprintf(file, sizeof(file), "%.63s.policy", name);
	r = eg_ini_read(file, fd, RL_POLICY_TEXT, &text, &len, &err);
	if (!r)
		r = rl_policy_parse(text, len, file, &env, &prog, &w, &err);
	if (!r)
		p = keep(a, name, prog, &w, text, len);
	if (p) {
		make_current(a, p);
		return;
	}
	if (old)
		old->fresh = true;
	eg_error("policy %s%s", r ? err.text : "cannot be kept",
		 old ? "; its former text stays in force" : "");
}

void api_policy_end(struct api *a)
{
	unsigned int n = 0;

	for (struct policy *p = a->policies; p; p = p->next) {
		if (p->current && !p->fresh && p->name[0])
			p->current = false;
		p->fresh = false;
		n += p->current;
	}
	eg_info("%u policies", n);
}

const struct rl_prog *api_policy_find(struct api *a, const char *ref,
				      struct eg_err *err)
{
	const char *at = strstr(ref, "sha256:");
	const struct rl_prog *none;
	uint8_t digest[EG_DIGEST];
	struct policy *p = NULL;
	char name[EG_POLICY_NAME] = "";

	(void)rl_prog_none(&none);
	if (!strcmp(ref, "none"))
		return none;
	if (at && (at == ref || at[-1] == '@')) {
		if (!eg_digest_parse(at, digest)) {
			(void)eg_err_set(err, -EINVAL,
					 "policy '%.100s': sha256: and 64 hexadecimal digits are accepted",
					 ref);
			return NULL;
		}
		p = by_digest(a, digest);
		if (at > ref && (size_t)(at - ref) <= sizeof(name))
			memcpy(name, ref, (size_t)(at - ref) - 1);
		if (p && at > ref && strcmp(p->prog->name, name) != 0)
			p = NULL;
	} else {
		p = by_name(a, ref);
	}
	if (!p) {
		char list[200] = "none";
		size_t used = 4;

		for (const struct policy *q = a->policies; q; q = q->next)
			if (q->current && used < sizeof(list))
				used += (size_t)snprintf(list + used,
							 sizeof(list) - used,
							 ", %s", q->name);
		(void)eg_err_set(err, -ENOENT,
				 "there is no policy '%.100s'; known are %s",
				 ref, list);
		return NULL;
	}
	return p->prog;
}

const struct rl_prog *api_policy_text(struct api *a, const char *text,
				      size_t len, const char *file,
				      struct eg_err *err)
{
	static struct rl_warnings w; /* large; filled by every parse */
	struct rl_parse_env env = { .conf = a->ctx->conf, .include = include,
				    .arg = a,
				    .now = eg_wall_ns() / EG_NSEC_PER_SEC };
	struct rl_prog *prog;
	struct policy *p;

	if (rl_policy_parse(text, len, file, &env, &prog, &w, err))
		return NULL;
	p = keep(a, "", prog, &w, text, len);
	if (!p)
		(void)eg_err_set(err, -ENOMEM,
				 "no room for another policy text");
	return p ? p->prog : NULL;
}

void api_policy_free(struct api *a)
{
	while (a->policies) {
		struct policy *p = a->policies;

		a->policies = p->next;
		free(p->prog);
		free(p->warnings);
		free(p->text);
		free(p);
	}
}
