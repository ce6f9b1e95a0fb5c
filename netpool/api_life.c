// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: a lease as the model of another (spec, fork), its end by order
 * (revoke), and what is said about it (annotate).
 *
 * A spec is a lease request, complete and valid on any host: the policy by
 * its text and digest, everything else as the lease has it, defaults written
 * out. It has no id, so that it can be posted as it is; `parent` goes over to
 * what is leased from it, `names` is information. Audit says what a lease,
 * live or ended, was asked with, and has the text of every policy ever in
 * force, so neither depends on what named policies are today.
 *
 * A fork is a request made from its parent's spec, by digest. Repeated under
 * its id it is compared by the body of the fork and its parent's uid, not by
 * the spec, which changes while the parent lives.
 */
#include "netpool/api_http.h"
#include "netpool/base/digest.h"
#include "netpool/base/util.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* ---- the lease -------------------------------------------------------------------- */

static void find_failed(struct call *c, int error)
{
	if (error == -ENOENT)
		api_error(c, EG_E_NOT_FOUND, NULL,
			  "there is no such lease, nor sealed evidence of one");
	else if (error == -EBUSY)
		api_error(c, EG_E_UNAVAILABLE, NULL,
			  "too many ended leases are being looked for; ask again");
	else
		api_error(c, EG_E_INTERNAL, NULL, "evidence: %s",
			  strerror(-error));
}

/* Is it the one the caller means? */
static bool fences_hold(struct call *c)
{
	json_int_t gen = json_integer_value(json_object_get(c->doc,
							    "generation"));
	const char *uid = json_string_value(json_object_get(c->doc, "uid"));
	const char *want = api_arg(c, "uid");
	struct eg_pm_which w;

	if (!api_which(c, &w, false))
		return false;
	if (w.generation && w.generation != (uint64_t)gen) {
		api_error(c, EG_E_STALE, NULL,
			  "generation %llu is not this lease's, which is %llu",
			  (unsigned long long)w.generation,
			  (unsigned long long)gen);
		return false;
	}
	if (want && (!uid || strcmp(uid, want) != 0)) {
		api_error(c, EG_E_STALE, NULL, "uid is not this lease's");
		return false;
	}
	return true;
}

static bool found(struct api *a, struct call *c, struct eg_msg *m)
{
	const struct eg_ap_lease *r = m->body;

	if (m->type != EG_AP_LEASE)
		return false;
	if (r->error) {
		find_failed(c, r->error);
		return true;
	}
	c->doc = m->fd < 0 ? NULL : json_loadfd(m->fd, 0, NULL);
	if (!json_is_object(c->doc))
		api_error(c, EG_E_INTERNAL, NULL,
			  "the evidence of this lease cannot be read");
	else if (fences_hold(c))
		c->go(a, c);
	return c->done;
}

void api_find(struct call *c, api_go go)
{
	struct eg_pm_which w;
	struct eg_pa_lease q = { .has_uid = 0 };

	if (!api_which(c, &w, false))
		return;
	memcpy(q.id, w.id, sizeof(q.id));
	memcpy(q.uid, w.uid, sizeof(q.uid));
	q.has_uid = w.has_uid;
	c->go = go;
	api_ask(c, EG_ROLE_AUDIT, EG_PA_LEASE, &q, sizeof(q), -1, API_WAIT_NS,
		found);
}

static const char *doc_policy(const struct call *c)
{
	const char *ref = json_string_value(json_object_get(
		json_object_get(c->doc, "request"), "policy"));

	return ref ? ref : "";
}

/* The request without text and names; NULL: an error has been answered. */
static json_t *request_make(struct call *c)
{
	static const char *const texts[] = { "run", "tenant" };
	json_t *j = json_deep_copy(json_object_get(c->doc, "request"));

	if (json_object_get(c->doc, "labels_more")) {
		api_error(c, EG_E_GONE, NULL,
			  "the labels of this lease had no room in its evidence, so it cannot be made again as it was");
		json_decref(j);
		return NULL;
	}
	for (size_t i = 0; i < EG_ARRAY_SIZE(texts); i++) {
		json_t *v = json_object_get(c->doc, texts[i]);

		if (json_string_length(v))
			(void)json_object_set(j, texts[i], v);
	}
	(void)json_object_set(j, "labels", json_object_get(c->doc, "labels"));
	return j;
}

/* ---- spec ------------------------------------------------------------------------- */

static void spec_answer(struct call *c, const char *text)
{
	json_t *j = request_make(c);
	json_t *names = json_object_get(c->doc, "names");

	if (!j)
		return;
	(void)json_object_set_new(j, "policy_text", json_string(text));
	(void)json_object_set(j, "parent", json_object_get(c->doc, "parent"));
	if (names)
		(void)json_object_set(j, "names", names);
	else
		(void)json_object_set_new(j, "names", json_array());
	api_json(c, 200, j);
}

static void spec_fetched(struct api *a, struct call *c)
{
	struct eg_err err = { 0 };

	(void)a;
	if (api_policy_has_text(c, &err))
		spec_answer(c, c->policy_text);
	else
		api_error(c, EG_E_GONE, NULL, "%s", err.text);
}

static bool made_somehow(struct call *c)
{
	if (json_is_object(json_object_get(c->doc, "request")))
		return true;
	api_error(c, EG_E_GONE, NULL,
		  "the evidence of this lease does not say how it was made");
	return false;
}

static void spec_found(struct api *a, struct call *c)
{
	EG_CLEANUP_FREE char *text = NULL;
	const struct rl_prog *p;
	struct eg_err err = { 0 };

	if (!made_somehow(c) ||
	    api_policy_fetch(a, c, doc_policy(c), spec_fetched))
		return;
	p = api_policy_find(a, doc_policy(c), &err);
	text = p ? api_policy_canon(p) : NULL;
	if (text)
		spec_answer(c, text);
	else
		api_error(c, EG_E_INTERNAL, NULL, "%s",
			  p ? "out of memory" : err.text);
}

void api_r_spec(struct api *a, struct call *c)
{
	(void)a;
	api_find(c, spec_found);
}

/* ---- fork ------------------------------------------------------------------------- */

/* "names" says what becomes of the parent's names; so far, nothing. */
static bool names_ok(struct call *c, const json_t *v)
{
	const char *s = json_string_value(v);

	if (!v || (s && !strcmp(s, "none")))
		return true;
	if (s && !strcmp(s, "resolve"))
		api_error(c, EG_E_BAD_REQUEST, NULL,
			  "names 'resolve' is not served yet; none is accepted: each name is resolved when the guest asks for it");
	else
		api_error(c, EG_E_BAD_REQUEST, NULL,
			  "names '%.40s': none is accepted",
			  s ? s : "(not a string)");
	return false;
}

/* The body; false when an error has been answered. */
static bool fork_body(struct call *c)
{
	static const char *const known[] = { "id", "ttl_s", "phase", "names" };
	const char *key;
	json_error_t je;
	json_t *v;

	c->fork = c->len ? json_loadb(c->body, c->len, JSON_REJECT_DUPLICATES,
				      &je) :
			   json_object();
	if (!json_is_object(c->fork)) {
		api_error(c, EG_E_BAD_REQUEST, NULL,
			  "the body is not a JSON object");
		return false;
	}
	json_object_foreach(c->fork, key, v) {
		size_t i = 0;

		while (i < EG_ARRAY_SIZE(known) && strcmp(known[i], key) != 0)
			i++;
		if (i < EG_ARRAY_SIZE(known))
			continue;
		api_error(c, EG_E_BAD_REQUEST, NULL,
			  "there is no member '%.40s'; id, ttl_s, phase, names are accepted, the rest is the parent's",
			  key);
		return false;
	}
	return names_ok(c, json_object_get(c->fork, "names"));
}

/* What a repetition is compared by: the body, and whose fork it is. */
static int fork_digest(struct call *c)
{
	json_t *j = json_copy(c->fork);
	char *text = NULL;

	(void)json_object_set(j, "fork_of", json_object_get(c->doc, "uid"));
	text = json_dumps(j, JSON_SORT_KEYS | JSON_COMPACT);
	json_decref(j);
	if (!text)
		return -ENOMEM;
	eg_sha256_of(text, strlen(text), c->digest);
	c->has_digest = true;
	free(text);
	return 0;
}

static void fork_found(struct api *a, struct call *c)
{
	static const char *const own[] = { "id", "ttl_s", "phase" };
	json_t *j = made_somehow(c) ? request_make(c) : NULL;
	char *text;

	if (!j)
		return;
	for (size_t i = 0; i < EG_ARRAY_SIZE(own); i++)
		if (json_object_get(c->fork, own[i]))
			(void)json_object_set(j, own[i],
					      json_object_get(c->fork, own[i]));
	(void)json_object_set_new(
		j, "parent",
		json_pack("{s:O, s:O}", "id", json_object_get(c->doc, "lease"),
			  "uid", json_object_get(c->doc, "uid")));
	text = fork_digest(c) ? NULL : json_dumps(j, JSON_COMPACT);
	json_decref(j);
	if (!text) {
		api_error(c, EG_E_INTERNAL, NULL, "out of memory");
		return;
	}
	free(c->body);
	c->body = text;
	c->len = strlen(text);
	api_lease_make(a, c, NULL);
}

void api_r_fork(struct api *a, struct call *c)
{
	(void)a;
	if (fork_body(c))
		api_find(c, fork_found);
}

/* ---- revoke, annotate ---------------------------------------------------------------- */

static bool line_of_text(const char *s)
{
	for (; *s; s++)
		if ((unsigned char)*s < 0x20 || *s == 0x7f)
			return false;
	return true;
}

/* {"reason":".."}, or no body at all. */
static bool revoke_why(struct call *c, char why[EG_WHY])
{
	json_t *v = NULL, *j = c->len ? api_body_member(c, "reason", &v) :
					json_object();
	const char *s = json_string_value(v);
	bool ok = j && (!v || (s && strlen(s) < EG_WHY &&
			       strlen(s) == json_string_length(v) &&
			       line_of_text(s)));

	if (j && !ok)
		api_error(c, EG_E_BAD_REQUEST, NULL,
			  "reason: a line of text of at most %d octets is accepted",
			  EG_WHY - 1);
	if (ok && s)
		memcpy(why, s, strlen(s) + 1);
	json_decref(j);
	return ok;
}

void api_r_revoke(struct api *a, struct call *c)
{
	struct eg_pm_which w;

	(void)a;
	if (api_which(c, &w, true) && revoke_why(c, w.why))
		api_ask(c, EG_ROLE_MAIN, EG_PM_REVOKE, &w, sizeof(w), -1,
			API_WAIT_NS, api_lease_answer);
}

void api_r_annotate(struct api *a, struct call *c)
{
	static struct eg_pm_annotate q; /* large; filled anew */
	struct eg_err err = { 0 };
	json_t *v, *j;

	(void)a;
	memset(&q, 0, sizeof(q));
	if (!api_which(c, &q.which, true))
		return;
	j = api_body_member(c, "labels", &v);
	if (!j)
		return;
	if (!v || api_labels_parse(v, q.label, &q.nlabels, &err))
		api_error(c, EG_E_BAD_REQUEST, NULL, "%s",
			  v ? err.text :
			      "labels: an object of strings is accepted");
	else
		api_ask(c, EG_ROLE_MAIN, EG_PM_ANNOTATE, &q, sizeof(q), -1,
			API_WAIT_NS, api_lease_answer);
	json_decref(j);
}
