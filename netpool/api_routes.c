// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: the routes of the API, one table row each.
 */
#include "netpool/api_http.h"
#include "netpool/base/log.h"
#include "netpool/base/util.h"
#include "rules/canon.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void (*route_fn)(struct api *a, struct call *c);

struct route {
	enum api_method method;
	const char *path; /* segments; an asterisk is any one */
	route_fn handle;
	bool trail; /* who did what: recorded */
};

static json_t *warnings_json(const struct rl_warnings *w)
{
	json_t *j = json_array();

	for (uint32_t i = 0; i < w->n; i++)
		(void)json_array_append_new(j, json_pack("{s:i, s:s}", "line",
							 (int)w->w[i].line,
							 "text",
							 w->w[i].text));
	return j;
}

json_t *api_lease(struct api *a, const struct eg_lease *l)
{
	const struct policy *p = api_policy_by_digest(a, l->req.policy_digest);
	json_t *j = api_lease_json(a->ctx->conf, l);

	if (p && p->warnings)
		(void)json_object_set_new(j, "warnings",
					  warnings_json(p->warnings));
	return j;
}

/* ---- which lease ------------------------------------------------------------------ */

/* From the path and the fences; false when an error has been answered. */
static bool which(struct call *c, struct eg_pm_which *w, bool change)
{
	const char *id = c->seg[2], *gen = api_arg(c, "generation"),
		   *uid = api_arg(c, "uid");
	char *end = NULL;

	memset(w, 0, sizeof(*w));
	w->peer_uid = c->peer_uid;
	w->admin = c->admin;
	if (!strncmp(id, "uid:", 4)) {
		w->has_uid = 1;
		if (!api_uid_parse(id + 4, w->uid)) {
			api_error(c, EG_E_BAD_REQUEST, NULL,
				  "'%.60s' is not a uid; uid: and 36 characters are accepted",
				  id);
			return false;
		}
	} else if (!api_id_ok(id)) {
		api_error(c, EG_E_BAD_REQUEST, NULL,
			  "id '%.60s': letters, digits, '.', '_', '-', at most 127, not ending in '.', are accepted",
			  id);
		return false;
	} else {
		(void)snprintf(w->id, sizeof(w->id), "%s", id);
	}
	if (gen) {
		errno = 0;
		w->generation = strtoull(gen, &end, 10);
		if (errno || *end || !*gen || !w->generation) {
			api_error(c, EG_E_BAD_REQUEST, NULL,
				  "generation '%.40s' is not a number above 0",
				  gen);
			return false;
		}
	}
	if (uid) {
		w->has_fence_uid = 1;
		if (!api_uid_parse(uid, w->fence_uid)) {
			api_error(c, EG_E_BAD_REQUEST, NULL,
				  "uid '%.40s' is not a uid", uid);
			return false;
		}
	}
	if (change && c->a->ctx->conf->require_fence && !gen && !uid &&
	    !w->has_uid) {
		api_error(c, EG_E_BAD_REQUEST, NULL,
			  "[api] require_fence=yes: ?generation= or ?uid= is needed");
		return false;
	}
	return true;
}

static bool lease_answer(struct api *a, struct call *c, struct eg_msg *m)
{
	const struct eg_mp_lease *r = m->body;
	char text[256];

	if (m->type != EG_MP_LEASE)
		return false;
	if (r->status == EG_OK || r->status == EG_OK_CREATED) {
		api_json(c, api_status((enum eg_status)r->status),
			 api_lease(a, &r->lease));
		return true;
	}
	(void)snprintf(text, sizeof(text), "%.255s", r->text);
	api_error(c, (enum eg_status)r->status, NULL, "%s", text);
	return true;
}

/* ---- making a lease -------------------------------------------------------------------- */

static void bad_policy(struct call *c, enum eg_status st,
		       const struct eg_err *err)
{
	unsigned int line = 0, col = 0;
	const char *p = strchr(err->text, ':');

	/* FILE:LINE:COL: sentence */
	if (p)
		(void)sscanf(p, ":%u:%u:", &line, &col);
	api_error(c, st,
		  line ? json_pack("{s:i, s:i}", "line", (int)line, "column",
				   (int)col) :
			 NULL,
		  "%s", err->text);
}

static const struct rl_prog *lease_policy(struct api *a, struct call *c,
					  struct eg_lease_req *q,
					  const char *ref, const char *text)
{
	const struct rl_prog *p;
	struct eg_err err = { 0 };

	p = text ? api_policy_text(a, text, strlen(text), "policy_text", &err) :
		   api_policy_find(a, ref, &err);
	if (p && rl_policy_permitted(p, a->ctx->conf, q->tenant, &err)) {
		(void)eg_err_wrap(&err, "policy %s", p->name);
		p = NULL;
	}
	if (!p) {
		bad_policy(c, EG_E_BAD_POLICY, &err);
		return NULL;
	}
	if (rl_prog_phases(p, q->phase, &q->phases, &err)) {
		bad_policy(c, EG_E_BAD_PHASE, &err);
		return NULL;
	}
	(void)snprintf(q->policy_name, sizeof(q->policy_name), "%s", p->name);
	memcpy(q->policy_digest, p->digest, EG_DIGEST);
	return p;
}

static void lease_make(struct api *a, struct call *c, const char *id)
{
	static struct eg_pm_lease m; /* large */
	EG_CLEANUP_FREE char *text = NULL;
	EG_CLEANUP_FD int fd = -1;
	const struct rl_prog *p;
	struct eg_err err = { 0 };
	char ref[256];

	if (id && !api_id_ok(id)) {
		api_error(c, EG_E_BAD_REQUEST, NULL,
			  "id '%.60s': letters, digits, '.', '_', '-', at most 127, not ending in '.', are accepted",
			  id);
		return;
	}
	if (api_request_parse(c->body ? c->body : "", c->len, id, &m.req, ref,
			      &text, &err)) {
		api_error(c, EG_E_BAD_REQUEST, NULL, "%s", err.text);
		return;
	}
	p = lease_policy(a, c, &m.req, ref, text);
	if (!p)
		return;
	m.req.owner = c->peer_uid;
	fd = rl_prog_seal(p);
	if (fd < 0) {
		api_error(c, EG_E_INTERNAL, NULL, "sealed memory: %s",
			  strerror(-fd));
		return;
	}
	api_ask(c, EG_ROLE_MAIN, EG_PM_LEASE, &m, sizeof(m), fd, API_WAIT_NS,
		lease_answer);
}

static void r_lease_put(struct api *a, struct call *c)
{
	lease_make(a, c, c->seg[2]);
}

static void r_lease_post(struct api *a, struct call *c)
{
	lease_make(a, c, NULL);
}

/* ---- one lease --------------------------------------------------------------------------- */

static bool show_stats(struct api *a, struct call *c, struct eg_msg *m)
{
	const struct eg_mp_stats *s = m->body;
	json_t *j;

	if (m->type != EG_MP_STATS)
		return false;
	j = api_lease(a, &c->lease->lease);
	if (s->status == EG_OK)
		api_stats_json(j, s);
	else
		(void)json_object_set_new(j, "denied", json_null());
	api_json(c, 200, j);
	return true;
}

static bool show_lease(struct api *a, struct call *c, struct eg_msg *m)
{
	const struct eg_mp_lease *r = m->body;
	struct eg_pm_which w = { .has_uid = 1 };

	if (m->type != EG_MP_LEASE || r->status != EG_OK)
		return lease_answer(a, c, m);
	c->lease = malloc(sizeof(*c->lease));
	if (!c->lease)
		return lease_answer(a, c, m);
	memcpy(c->lease, r, sizeof(*r));
	memcpy(w.uid, r->lease.uid, EG_UID);
	api_ask(c, EG_ROLE_MAIN, EG_PM_STATS, &w, sizeof(w), -1, API_WAIT_NS,
		show_stats);
	return false;
}

static void r_lease_get(struct api *a, struct call *c)
{
	struct eg_pm_which w;

	(void)a;
	if (which(c, &w, false))
		api_ask(c, EG_ROLE_MAIN, EG_PM_GET, &w, sizeof(w), -1,
			API_WAIT_NS, show_lease);
}

static void r_lease_delete(struct api *a, struct call *c)
{
	struct eg_pm_which w;

	(void)a;
	if (which(c, &w, true))
		api_ask(c, EG_ROLE_MAIN, EG_PM_RELEASE, &w, sizeof(w), -1,
			API_RELEASE_NS, lease_answer);
}

/* A body that is one object with one known member. */
static json_t *body_member(struct call *c, const char *name, json_t **ret)
{
	json_error_t je;
	json_t *j = json_loadb(c->body ? c->body : "", c->len,
			       JSON_REJECT_DUPLICATES, &je);
	const char *key;
	json_t *v;

	if (!json_is_object(j)) {
		api_error(c, EG_E_BAD_REQUEST, NULL,
			  "the body is not a JSON object with '%s'", name);
		json_decref(j);
		return NULL;
	}
	json_object_foreach(j, key, v)
		if (strcmp(key, name) != 0) {
			api_error(c, EG_E_BAD_REQUEST, NULL,
				  "there is no member '%.40s'; %s is accepted",
				  key, name);
			json_decref(j);
			return NULL;
		}
	*ret = json_object_get(j, name);
	return j;
}

static void r_renew(struct api *a, struct call *c)
{
	struct eg_pm_which w;
	json_t *v, *j;
	json_int_t ttl;

	(void)a;
	if (!which(c, &w, true))
		return;
	j = body_member(c, "ttl_s", &v);
	if (!j)
		return;
	ttl = json_integer_value(v);
	if (!json_is_integer(v) || ttl < 1 || ttl > 365 * 86400) {
		api_error(c, EG_E_BAD_REQUEST, NULL,
			  "ttl_s: a whole number of seconds from 1 on is accepted");
	} else {
		w.ttl_s = (uint32_t)ttl;
		api_ask(c, EG_ROLE_MAIN, EG_PM_RENEW, &w, sizeof(w), -1,
			API_WAIT_NS, lease_answer);
	}
	json_decref(j);
}

/* The lease's own policy knows its phases. */
static bool phase_lease(struct api *a, struct call *c, struct eg_msg *m)
{
	const struct eg_mp_lease *r = m->body;
	const struct policy *p;
	const struct rl_prog *prog;
	struct eg_err err = { 0 };
	struct eg_pm_which w;

	if (m->type != EG_MP_LEASE || r->status != EG_OK)
		return lease_answer(a, c, m);
	p = api_policy_by_digest(a, r->lease.req.policy_digest);
	(void)rl_prog_none(&prog);
	if (p)
		prog = p->prog;
	else if (memcmp(prog->digest, r->lease.req.policy_digest,
			EG_DIGEST) != 0) {
		api_error(c, EG_E_BAD_POLICY, NULL,
			  "the text of the lease's policy is not known any more; put it under its name again");
		return true;
	}
	if (!which(c, &w, true))
		return true;
	(void)snprintf(w.phase, sizeof(w.phase), "%s", c->phase ? c->phase : "");
	if (rl_prog_phases(prog, w.phase, &w.phases, &err)) {
		bad_policy(c, EG_E_BAD_PHASE, &err);
		return true;
	}
	api_ask(c, EG_ROLE_MAIN, EG_PM_PHASE, &w, sizeof(w), -1, API_WAIT_NS,
		lease_answer);
	return false;
}

static void r_phase(struct api *a, struct call *c)
{
	struct eg_pm_which w;
	const char *s;
	json_t *v, *j;

	if (!which(c, &w, true))
		return;
	j = body_member(c, "phase", &v);
	if (!j)
		return;
	s = json_string_value(v);
	if (!s || strlen(s) >= sizeof(w.phase)) {
		api_error(c, EG_E_BAD_REQUEST, NULL,
			  "phase: a string such as \"plan\" or \"init,plan\" is accepted");
	} else {
		c->phase = strdup(s);
		w.generation = 0;
		api_ask(c, EG_ROLE_MAIN, EG_PM_GET, &w, sizeof(w), -1,
			API_WAIT_NS, phase_lease);
	}
	json_decref(j);
	(void)a;
}

/* ---- lists -------------------------------------------------------------------------------------- */

static bool list_wanted(struct call *c, const struct eg_lease *l)
{
	const char *run = api_arg(c, "run"), *tenant = api_arg(c, "tenant"),
		   *label = api_arg(c, "label"), *state = api_arg(c, "state");
	json_t *j;
	bool ok;

	if (run && strcmp(run, l->req.run) != 0)
		return false;
	if (tenant && strcmp(tenant, l->req.tenant) != 0)
		return false;
	if (state) {
		j = api_lease_json(c->a->ctx->conf, l);
		ok = !strcmp(json_string_value(json_object_get(j, "state")),
			     state);
		json_decref(j);
		if (!ok)
			return false;
	}
	if (!label)
		return true;
	for (unsigned int i = 0; i < l->req.nlabels; i++) {
		size_t n = strlen(l->req.label[i].key);

		if (!strncmp(label, l->req.label[i].key, n) &&
		    label[n] == '=' &&
		    !strcmp(label + n + 1, l->req.label[i].value))
			return true;
	}
	return false;
}

/* A list as one object, or as lines. */
static void list_answer(struct call *c, const char *name, json_t *next)
{
	json_t *list = c->list;
	char *out = NULL;
	size_t len = 0, i;
	json_t *v;

	c->list = NULL;
	if (!c->ndjson) {
		api_json(c, 200, json_pack("{s:o, s:o}", name, list, "next",
					   next));
		return;
	}
	json_array_foreach(list, i, v) {
		char *line = json_dumps(v, JSON_COMPACT);
		size_t n = line ? strlen(line) : 0;
		char *p = line ? realloc(out, len + n + 2) : NULL;

		if (p) {
			memcpy(p + len, line, n);
			p[len + n] = '\n';
			p[len + n + 1] = '\0';
			out = p;
			len += n + 1;
		}
		free(line);
	}
	json_decref(list);
	json_decref(next);
	api_text(c, 200, "application/x-ndjson", out, len);
}

static void list_more(struct call *c);

static bool list_next(struct api *a, struct call *c, struct eg_msg *m)
{
	const struct eg_mp_lease *r = m->body;
	const struct eg_mp_end *e = m->body;
	char after[16];

	if (m->type == EG_MP_LEASE) {
		if (r->status == EG_OK &&
		    json_array_size(c->list) < c->limit &&
		    list_wanted(c, &r->lease)) {
			(void)json_array_append_new(c->list,
						    api_lease(a, &r->lease));
			c->next_slot = r->lease.slot + 1;
		}
		return false;
	}
	if (m->type != EG_MP_END)
		return false;
	if (json_array_size(c->list) < c->limit && e->next) {
		c->next_slot = e->next;
		list_more(c);
		return c->done;
	}
	(void)snprintf(after, sizeof(after), "%u", c->next_slot);
	list_answer(c, "leases",
		    json_array_size(c->list) < c->limit ? json_null() :
							  json_string(after));
	return true;
}

static void list_more(struct call *c)
{
	struct eg_pm_list q = { .after = c->next_slot, .limit = 256 };

	api_ask(c, EG_ROLE_MAIN, EG_PM_LIST, &q, sizeof(q), -1, API_WAIT_NS,
		list_next);
}

/* limit= and a numeric after=; false when refused. */
static bool page_args(struct call *c, uint64_t *after)
{
	const char *limit = api_arg(c, "limit"), *from = api_arg(c, "after");
	char *end = NULL;

	c->limit = API_LIST;
	if (limit) {
		unsigned long n = strtoul(limit, &end, 10);

		if (*end || !n || n > API_LIST) {
			api_error(c, EG_E_BAD_REQUEST, NULL,
				  "limit '%.20s': 1 to %d is accepted", limit,
				  API_LIST);
			return false;
		}
		c->limit = (uint32_t)n;
	}
	if (after)
		*after = 0;
	if (from && after) {
		*after = strtoull(from, &end, 10);
		if (*end || !*from) {
			api_error(c, EG_E_BAD_REQUEST, NULL,
				  "after '%.40s' is not a cursor of this list",
				  from);
			return false;
		}
	}
	return true;
}

static void r_lease_list(struct api *a, struct call *c)
{
	uint64_t after;

	(void)a;
	if (!page_args(c, &after))
		return;
	c->next_slot = after > UINT32_MAX ? UINT32_MAX : (uint32_t)after;
	c->list = json_array();
	list_more(c);
}

/* BOOT.SEQ, as events carry it. */
static void cursor_format(const struct eg_conf *c, uint64_t seq, char buf[40])
{
	(void)snprintf(buf, 40, "%02x%02x%02x%02x.%llu", c->boot_id[0],
		       c->boot_id[1], c->boot_id[2], c->boot_id[3],
		       (unsigned long long)seq);
}

/* after=BOOT.SEQ of this boot; false when an error has been answered. */
static bool cursor_arg(struct call *c, uint64_t *seq)
{
	const char *from = api_arg(c, "after"), *dot;
	char boot[40], *end;

	*seq = 0;
	if (!from || !strcmp(from, "0"))
		return true;
	dot = strchr(from, '.');
	cursor_format(c->a->ctx->conf, 0, boot);
	*seq = dot ? strtoull(dot + 1, &end, 10) : 0;
	if (!dot || !dot[1] || *end) {
		api_error(c, EG_E_BAD_REQUEST, NULL,
			  "after '%.40s' is not a cursor; one such as %s is accepted, or 0",
			  from, boot);
		return false;
	}
	if (strncmp(from, boot, strlen(boot) - 1) != 0) {
		api_error(c, EG_E_CURSOR_GONE, NULL,
			  "cursor '%.40s' is of another boot of this host",
			  from);
		return false;
	}
	return true;
}

static bool events_next(struct api *a, struct call *c, struct eg_msg *m)
{
	const struct eg_mp_end *e = m->body;
	char cursor[40];

	if (m->type == EG_MP_EVENT) {
		(void)json_array_append_new(c->list,
					    api_event_json(a->ctx->conf,
							   m->body));
		return false;
	}
	if (m->type != EG_MP_END)
		return false;
	cursor_format(a->ctx->conf,
		      e->status == EG_E_CURSOR_GONE ? e->oldest_seq :
						      e->last_seq,
		      cursor);
	if (e->status == EG_E_CURSOR_GONE) {
		json_decref(c->list);
		c->list = NULL;
		api_error(c, EG_E_CURSOR_GONE, json_pack("{s:s}", "oldest", cursor),
			  "no event of that number is kept; the oldest is after %s",
			  cursor);
		return true;
	}
	list_answer(c, "events", json_string(cursor));
	return true;
}

static void r_events(struct api *a, struct call *c)
{
	static const char *const names[] = {
		"leased",  "phase",    "policy", "renewed",	 "expiring",
		"expired", "revoked",  "released", "sealed",	 "first-denial",
		"guest-gone", "watchdog", "loss", "pool", "role",
	};
	struct eg_pm_events q = { .type = -1 };
	const char *type = api_arg(c, "type");

	(void)a;
	if (!page_args(c, NULL) || !cursor_arg(c, &q.after))
		return;
	q.limit = eg_min_u32(c->limit, 256);
	for (size_t i = 0; type && i < EG_ARRAY_SIZE(names); i++)
		if (!strcmp(type, names[i]))
			q.type = (int32_t)i;
	if (type && *type && q.type < 0) {
		api_error(c, EG_E_BAD_REQUEST, NULL,
			  "there is no event type '%.40s'", type);
		return;
	}
	c->list = json_array();
	api_ask(c, EG_ROLE_MAIN, EG_PM_EVENTS, &q, sizeof(q), -1, API_WAIT_NS,
		events_next);
}

/* ---- the daemon ------------------------------------------------------------------------------ */

static bool pool_answer(struct api *a, struct call *c, struct eg_msg *m)
{
	if (m->type != EG_MP_POOL)
		return false;
	api_json(c, 200, api_pool_json(a->ctx->conf, m->body));
	return true;
}

static void r_pool(struct api *a, struct call *c)
{
	(void)a;
	api_ask(c, EG_ROLE_MAIN, EG_PM_POOL, NULL, 0, -1, API_WAIT_NS,
		pool_answer);
}

static bool ready_answer(struct api *a, struct call *c, struct eg_msg *m)
{
	const struct eg_mp_pool *p = m->body;

	(void)a;
	if (m->type != EG_MP_POOL)
		return false;
	if (p->ready)
		api_json(c, 200, json_pack("{s:b}", "ready", 1));
	else
		api_error(c, EG_E_UNAVAILABLE, NULL,
			  "the pool has no slot yet");
	return true;
}

static void r_ready(struct api *a, struct call *c)
{
	(void)a;
	api_ask(c, EG_ROLE_MAIN, EG_PM_POOL, NULL, 0, -1, API_WAIT_NS,
		ready_answer);
}

static bool metrics_answer(struct api *a, struct call *c, struct eg_msg *m)
{
	(void)a;
	if (m->type != EG_MP_POOL)
		return false;
	api_metrics(c, m->body);
	return true;
}

static void r_metrics(struct api *a, struct call *c)
{
	(void)a;
	api_ask(c, EG_ROLE_MAIN, EG_PM_POOL, NULL, 0, -1, API_WAIT_NS,
		metrics_answer);
}

static void r_health(struct api *a, struct call *c)
{
	bool ok = a->ctx->peer[EG_ROLE_MAIN] && a->ctx->peer[EG_ROLE_AUDIT];

	if (ok)
		api_json(c, 200, json_pack("{s:s}", "status", "ok"));
	else
		api_error(c, EG_E_UNAVAILABLE, NULL,
			  "a role of egressd is starting again");
}

static void r_version(struct api *a, struct call *c)
{
	(void)a;
	api_json(c, 200, json_pack("{s:s, s:s, s:i}", "name", "egressd",
				   "version", EG_VERSION, "api", 1));
}

/* ---- policies ---------------------------------------------------------------------------------- */

static json_t *policy_json(const struct rl_prog *p, const char *text,
			   bool current)
{
	char digest[80] = "sha256:";
	json_t *phases = json_array();

	for (int i = 0; i < EG_DIGEST; i++)
		(void)snprintf(digest + 7 + 2 * (size_t)i, 3, "%02x",
			       p->digest[i]);
	for (uint32_t i = 0; i < p->nphases; i++)
		(void)json_array_append_new(phases, json_string(p->phase[i]));
	return json_pack("{s:s, s:s, s:s, s:o, s:i, s:b, s:o*}", "name",
			 p->name, "description", p->description, "digest",
			 digest, "phases", phases, "entries", (int)p->nentries,
			 "current", current ? 1 : 0, "text",
			 text ? json_string(text) : NULL);
}

static void r_policy_list(struct api *a, struct call *c)
{
	const struct rl_prog *none;

	c->list = json_array();
	(void)rl_prog_none(&none);
	(void)json_array_append_new(c->list, policy_json(none, NULL, true));
	for (const struct policy *p = a->policies; p; p = p->next)
		if (p->current)
			(void)json_array_append_new(c->list,
						    policy_json(p->prog, NULL,
								true));
	list_answer(c, "policies", json_null());
}

static void r_policy_get(struct api *a, struct call *c)
{
	struct eg_err err = { 0 };
	const struct rl_prog *p = api_policy_find(a, c->seg[2], &err);
	const struct policy *kept = p ? api_policy_by_digest(a, p->digest) :
					NULL;

	if (!p)
		api_error(c, EG_E_NOT_FOUND, NULL, "%s", err.text);
	else
		api_json(c, 200, policy_json(p, kept ? kept->text : NULL,
					     !kept || kept->current));
}

static void r_policy_check(struct api *a, struct call *c)
{
	EG_CLEANUP_FREE char *canon = NULL;
	struct rl_parse_env env = { .conf = a->ctx->conf,
				    .now = eg_wall_ns() / EG_NSEC_PER_SEC };
	struct rl_warnings w = { 0 };
	struct eg_err err = { 0 };
	struct rl_prog *p;
	json_t *v, *j = body_member(c, "policy_text", &v), *out;
	const char *text = json_string_value(v);
	size_t n;

	if (!j)
		return;
	if (!text) {
		api_error(c, EG_E_BAD_REQUEST, NULL,
			  "policy_text: a string is accepted");
	} else if (rl_policy_parse(text, strlen(text), "policy_text", &env, &p,
				   &w, &err)) {
		bad_policy(c, EG_E_BAD_POLICY, &err);
	} else {
		(void)rl_canon_text(p, &canon, &n);
		out = policy_json(p, NULL, false);
		(void)json_object_set_new(out, "canonical",
					  json_string(canon ? canon : ""));
		(void)json_object_set_new(out, "warnings", warnings_json(&w));
		free(p);
		api_json(c, 200, out);
	}
	json_decref(j);
}

/* ---- evidence ------------------------------------------------------------------------------------ */

static bool evidence_lease(struct api *a, struct call *c, struct eg_msg *m)
{
	static const uint8_t zero[EG_UID];
	const struct eg_mp_lease *r = m->body;

	if (m->type != EG_MP_LEASE)
		return false;
	/* An ended lease of the last while: its tombstone knows the uid. */
	if (r->status != EG_OK &&
	    (r->status != EG_E_GONE || !memcmp(r->lease.uid, zero, EG_UID)))
		return lease_answer(a, c, m);
	return api_evidence_open(a, c, &r->lease);
}

static void evidence(struct call *c, enum eg_evidence file)
{
	struct eg_pm_which w;
	struct eg_lease l = { 0 };

	if (!which(c, &w, false))
		return;
	c->evidence = file;
	if (w.has_uid) {
		/* Any lease ever: the directory follows from the uid alone. */
		memcpy(l.uid, w.uid, EG_UID);
		(void)api_evidence_open(c->a, c, &l);
		return;
	}
	api_ask(c, EG_ROLE_MAIN, EG_PM_GET, &w, sizeof(w), -1, API_WAIT_NS,
		evidence_lease);
}

static void r_denials(struct api *a, struct call *c)
{
	(void)a;
	evidence(c, EG_FILE_DENIALS);
}

static void r_pcap(struct api *a, struct call *c)
{
	(void)a;
	evidence(c, EG_FILE_PCAP);
}

static void r_manifest(struct api *a, struct call *c)
{
	(void)a;
	evidence(c, EG_FILE_MANIFEST);
}

/* ---- the table ------------------------------------------------------------------------------------ */

static const struct route routes[] = {
	{ API_PUT, "v1/leases/*", r_lease_put, true },
	{ API_POST, "v1/leases", r_lease_post, true },
	{ API_GET, "v1/leases", r_lease_list, false },
	{ API_GET, "v1/leases/*", r_lease_get, false },
	{ API_DELETE, "v1/leases/*", r_lease_delete, true },
	{ API_POST, "v1/leases/*/renew", r_renew, true },
	{ API_POST, "v1/leases/*/phase", r_phase, true },
	{ API_GET, "v1/leases/*/denials", r_denials, false },
	{ API_GET, "v1/leases/*/denials.pcap", r_pcap, false },
	{ API_GET, "v1/leases/*/manifest", r_manifest, false },
	{ API_GET, "v1/policies", r_policy_list, false },
	{ API_POST, "v1/policies/check", r_policy_check, false },
	{ API_GET, "v1/policies/*", r_policy_get, false },
	{ API_GET, "v1/events", r_events, false },
	{ API_GET, "v1/pool", r_pool, false },
	{ API_GET, "v1/version", r_version, false },
	{ API_GET, "healthz", r_health, false },
	{ API_GET, "readyz", r_ready, false },
	{ API_GET, "metrics", r_metrics, false },
};

static bool path_matches(const char *path, const struct call *c)
{
	for (unsigned int i = 0; i < c->nseg; i++) {
		size_t n = strcspn(path, "/");

		if (!n)
			return false;
		if ((n != 1 || *path != '*') &&
		    (strlen(c->seg[i]) != n || strncmp(path, c->seg[i], n) != 0))
			return false;
		path += n + (path[n] == '/');
	}
	return c->nseg && !*path;
}

static void trail(const struct call *c, const char *path)
{
	char id[160] = "";

	if (c->nseg > 2)
		(void)eg_escape(id, sizeof(id), c->seg[2], strlen(c->seg[2]));
	eg_info("api uid=%u pid=%u call=%s %s lease=%s", c->peer_uid,
		c->peer_pid,
		c->method == API_PUT	? "PUT" :
		c->method == API_DELETE ? "DELETE" :
					  "POST",
		path, id);
}

void api_dispatch(struct api *a, struct call *c)
{
	const struct route *found = NULL;
	bool path = false;

	for (size_t i = 0; i < EG_ARRAY_SIZE(routes) && !found; i++) {
		if (!path_matches(routes[i].path, c))
			continue;
		path = true;
		if (routes[i].method == c->method)
			found = &routes[i];
	}
	if (c->metrics && found && found->handle != r_metrics &&
	    found->handle != r_health) {
		found = NULL;
		path = false;
	}
	if (!path)
		api_http_error(c, 404, "not-found", "there is no such path");
	else if (!found)
		api_http_error(c, 405, "bad-request",
			       "this path does not take that method");
	else if (c->read_only && c->method != API_GET)
		api_error(c, EG_E_FORBIDDEN, NULL,
			  "this socket serves GET only");
	else {
		if (found->trail)
			trail(c, found->path);
		found->handle(a, c);
	}
}
