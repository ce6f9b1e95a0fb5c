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
#include "rules/canon.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

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
	if (!strcmp(ref, "none") || api_policy_is(none, ref, NULL))
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
	if (!p && at) {
		(void)eg_err_set(err, -ENOENT,
				 "policy '%.160s' was never in force on this host, or under another name",
				 ref);
		return NULL;
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

/* The digest in a reference, and the name in front of it (may be empty). */
static bool ref_split(const char *ref, char name[EG_POLICY_NAME],
		      uint8_t digest[EG_DIGEST])
{
	const char *at = strstr(ref, "sha256:");
	size_t n = at ? (size_t)(at - ref) : 0;

	if (!at || (n && at[-1] != '@') || n > EG_POLICY_NAME ||
	    !eg_digest_parse(at, digest))
		return false;
	memset(name, 0, EG_POLICY_NAME);
	if (n)
		memcpy(name, ref, n - 1);
	return true;
}

bool api_policy_is(const struct rl_prog *p, const char *ref, struct eg_err *err)
{
	char name[EG_POLICY_NAME], text[EG_DIGEST_TEXT];
	uint8_t digest[EG_DIGEST];

	if (ref_split(ref, name, digest) &&
	    !memcmp(p->digest, digest, EG_DIGEST) &&
	    (!name[0] || !strcmp(name, p->name)))
		return true;
	(void)eg_err_set(err, -EINVAL,
			 "policy '%.160s': policy_text is %s%s%s", ref, p->name,
			 p->name[0] ? "@" : "",
			 eg_digest_format(p->digest, text));
	return false;
}

char *api_policy_canon(const struct rl_prog *p)
{
	size_t len;
	const char *text = rl_prog_text(p, &len);
	char *copy = NULL;

	if (len)
		return strndup(text, len);
	/* the built-in one carries none */
	return rl_canon_text(p, &copy, &len) ? NULL : copy;
}

bool api_policy_builtin(const char *ref, const char *text)
{
	const struct rl_prog *none;
	EG_CLEANUP_FREE char *canon = NULL;

	(void)rl_prog_none(&none);
	if (!api_policy_is(none, ref, NULL))
		return false;
	canon = api_policy_canon(none);
	return canon && !strcmp(canon, text);
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

/* ---- texts that are not in memory --------------------------------------------- */

/* The whole text, if it is the one of the digest asked for. */
static int text_read(struct call *c, int fd, uint64_t size)
{
	uint8_t digest[EG_DIGEST];
	size_t done = 0;

	if (!size || size > RL_CANON_TEXT)
		return -EBADMSG;
	c->policy_text = malloc((size_t)size + 1);
	if (!c->policy_text)
		return -ENOMEM;
	while (done < size) {
		ssize_t n = pread(fd, c->policy_text + done, size - done,
				  (off_t)done);

		if (n <= 0)
			return n ? -errno : -EBADMSG;
		done += (size_t)n;
	}
	c->policy_text[size] = '\0';
	c->policy_len = (size_t)size;
	eg_sha256_of(c->policy_text, c->policy_len, digest);
	return memcmp(digest, c->want, EG_DIGEST) ? -EBADMSG : 0;
}

static bool text_opened(struct api *a, struct call *c, struct eg_msg *m)
{
	const struct eg_ap_open *o = m->body;

	if (m->type != EG_AP_OPEN)
		return false;
	c->text_error = o->error ? o->error : text_read(c, m->fd, o->size);
	if (c->text_error) {
		free(c->policy_text);
		c->policy_text = NULL;
	}
	c->go(a, c);
	return c->done;
}

bool api_policy_fetch(struct api *a, struct call *c, const char *ref, api_go go)
{
	struct eg_pa_open q = { .file = EG_FILE_POLICY };
	const struct rl_prog *none;
	char name[EG_POLICY_NAME];

	(void)rl_prog_none(&none);
	if (c->text_asked || !ref_split(ref, name, q.digest) ||
	    by_digest(a, q.digest) ||
	    !memcmp(none->digest, q.digest, EG_DIGEST))
		return false;
	memcpy(c->want, q.digest, EG_DIGEST);
	c->text_asked = true;
	c->go = go;
	api_ask(c, EG_ROLE_AUDIT, EG_PA_OPEN, &q, sizeof(q), -1, API_WAIT_NS,
		text_opened);
	return true;
}

bool api_policy_has_text(struct call *c, struct eg_err *err)
{
	char digest[EG_DIGEST_TEXT];
	int r = c->text_error;

	if (c->policy_text)
		return true;
	(void)eg_digest_format(c->want, digest);
	if (r == -ENOENT)
		(void)eg_err_set(err, r,
				 "policy %s was never in force on this host",
				 digest);
	else
		(void)eg_err_set(err, r, "policy %s: its text cannot be read: %s",
				 digest,
				 r == -EBADMSG ?
					 "it is not the one of its digest" :
					 strerror(-r));
	return false;
}

bool api_policy_fetched(struct api *a, struct call *c, struct eg_err *err)
{
	const struct rl_prog *p;

	if (!api_policy_has_text(c, err))
		return false;
	p = api_policy_text(a, c->policy_text, c->policy_len, "policy", err);
	if (!p)
		return false;
	if (!memcmp(p->digest, c->want, EG_DIGEST))
		return true;
	(void)eg_err_set(err, -EBADMSG,
			 "this version reads the policy's text differently");
	return false;
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
