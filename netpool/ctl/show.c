// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressctl: objects for people: show, ls, events, metrics, version.
 */
#include "netpool/base/util.h"
#include "netpool/ctl/ct.h"

#include <jansson.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

const char *ct_str(json_t *j, const char *key)
{
	const char *s = json_string_value(json_object_get(j, key));

	return s ? s : "";
}

long long ct_int(json_t *j, const char *key)
{
	return json_integer_value(json_object_get(j, key));
}

/* The daemon escapes hostile text already; a terminal gets it once more. */
void ct_put(FILE *f, const char *text, int width)
{
	int n = 0;

	for (const char *p = text; *p; p++, n++) {
		unsigned char c = (unsigned char)*p;

		(void)fputc(c < 0x20 || c >= 0x7f ? '?' : c, f);
	}
	for (; n < width; n++)
		(void)fputc(' ', f);
}

void ct_print_json(json_t *j)
{
	(void)json_dumpf(j, stdout, JSON_INDENT(2) | JSON_ENSURE_ASCII);
	(void)fputc('\n', stdout);
}

static void field(const char *name, const char *value)
{
	if (!*value)
		return;
	(void)printf("%-10s ", name);
	ct_put(stdout, value, 0);
	(void)fputc('\n', stdout);
}

static void print_guest(json_t *g)
{
	if (!strcmp(ct_str(g, "mode"), "veth"))
		return;
	if (!strcmp(ct_str(g, "mode"), "adopt")) {
		field("guest", "adopt, in a namespace of the caller's");
		return;
	}
	(void)printf("%-10s %s %s, address %s, gateway %s, mac %s\n", "guest",
		     ct_str(g, "mode"), ct_str(g, "tap"), ct_str(g, "address"),
		     ct_str(g, "gateway"), ct_str(g, "mac"));
}

static void print_denied(json_t *denied)
{
	const char *reason;
	json_t *c;

	json_object_foreach(denied, reason, c)
		(void)printf("%-10s %-14s %lld, logged %lld, suppressed %lld, lost %lld\n",
			     "denied", reason, ct_int(c, "total"),
			     ct_int(c, "logged"), ct_int(c, "suppressed"),
			     ct_int(c, "lost"));
}

static void print_pins(json_t *pins)
{
	size_t i;
	json_t *p;

	json_array_foreach(pins, i, p)
		(void)printf("%-10s %s %s %s/%lld, %lld s left\n", "pin",
			     ct_str(p, "name"), ct_str(p, "address"),
			     ct_str(p, "proto"), ct_int(p, "port"),
			     ct_int(p, "left_s"));
}

static void print_warnings(json_t *list)
{
	size_t i;
	json_t *w;

	json_array_foreach(list, i, w) {
		(void)printf("%-10s policy line %lld: ", "warning",
			     ct_int(w, "line"));
		ct_put(stdout, ct_str(w, "text"), 0);
		(void)fputc('\n', stdout);
	}
}

void ct_print_lease(json_t *j)
{
	json_t *policy = json_object_get(j, "policy");
	json_t *dns = json_array_get(json_object_get(j, "dns"), 0);
	json_t *traffic = json_object_get(j, "traffic");

	field("lease", ct_str(j, "id"));
	field("uid", ct_str(j, "uid"));
	(void)printf("%-10s %lld, generation %lld, %s\n", "slot",
		     ct_int(j, "slot"), ct_int(j, "generation"),
		     ct_str(j, "state"));
	field("netns", ct_str(j, "netns"));
	(void)printf("%-10s %s on %s, gateway and DNS %s\n", "address",
		     ct_str(j, "address"), ct_str(j, "interface"),
		     json_string_value(dns) ? json_string_value(dns) : "");
	print_guest(json_object_get(j, "guest"));
	(void)printf("%-10s %s%s%s\n", "policy", ct_str(policy, "name"),
		     *ct_str(policy, "phase") ? ", phase " : "",
		     ct_str(policy, "phase"));
	field("parent", ct_str(json_object_get(j, "parent"), "id"));
	field("revoked", ct_str(json_object_get(j, "revoked"), "reason"));
	field("run", ct_str(j, "run"));
	field("tenant", ct_str(j, "tenant"));
	(void)printf("%-10s %s (%lld s left)\n", "expires",
		     ct_str(j, "expires"), ct_int(j, "ttl_left_s"));
	field("evidence", ct_str(j, "audit"));
	if (traffic)
		(void)printf("%-10s out %lld bytes, in %lld bytes\n",
			     "traffic", ct_int(traffic, "tx_bytes"),
			     ct_int(traffic, "rx_bytes"));
	print_warnings(json_object_get(j, "warnings"));
	print_pins(json_object_get(j, "pins"));
	print_denied(json_object_get(j, "denied"));
}

static int show_run(const struct ct_args *a)
{
	EG_CLEANUP_FREE char *path = ct_path("/v1/leases/%s", a->pos[0]);
	json_t *j = NULL;
	int r = ct_ask("GET", path, NULL, &j);

	if (r)
		return r;
	return ct_lease_done(j);
}

const struct ct_command ct_show = {
	.name = "show", .usage = "ID",
	.help = "one lease with its traffic, pins and denials",
	.min = 1, .max = 1, .run = show_run,
};

/* ---- ls --------------------------------------------------------------------------- */

static const struct ct_option ls_options[] = {
	{ "--run", "R", "leases of this run" },
	{ "--tenant", "T", "leases of this tenant" },
	{ "--label", "K=V", "leases with this label" },
	{ "--state", "S", "leased, expired, revoked, releasing, lost" },
	{ "-q", NULL, "ids only" },
};

static void ls_print(json_t *leases, bool quiet)
{
	size_t i;
	json_t *l;

	json_array_foreach(leases, i, l) {
		if (quiet) {
			(void)puts(ct_str(l, "id"));
			continue;
		}
		ct_put(stdout, ct_str(l, "id"), 25);
		(void)printf(" %5lld %-9s %-15s ", ct_int(l, "slot"),
			     ct_str(l, "state"), ct_str(l, "address"));
		ct_put(stdout, ct_str(json_object_get(l, "policy"), "name"),
		       16);
		(void)printf(" %6llds ", ct_int(l, "ttl_left_s"));
		ct_put(stdout, ct_str(l, "run"), 0);
		(void)fputc('\n', stdout);
	}
}

static int ls_run(const struct ct_args *a);

const struct ct_command ct_ls = {
	.name = "ls", .usage = "[--run R] [--tenant T] [--label K=V] [-q]",
	.help = "the leases there are",
	.options = ls_options, .noptions = EG_ARRAY_SIZE(ls_options),
	.run = ls_run,
};

static int ls_run(const struct ct_args *a)
{
	static const char *const keys[] = { "run", "tenant", "label", "state" };
	char next[32] = "0", path[1600];
	bool quiet = ct_opt(&ct_ls, a, "-q") != NULL, first = true;
	int r = CT_OK;

	while (!r && next[0]) {
		json_t *j = NULL;
		size_t n = (size_t)snprintf(path, sizeof(path),
					    "/v1/leases?after=%s", next);

		for (size_t i = 0; i < EG_ARRAY_SIZE(keys); i++) {
			EG_CLEANUP_FREE char *v = a->opt[i] ?
				ct_path("=%s", a->opt[i]) : NULL;

			if (v && n < sizeof(path))
				n += (size_t)snprintf(path + n,
						      sizeof(path) - n,
						      "&%s%s", keys[i], v);
		}
		r = ct_ask("GET", path, NULL, &j);
		if (r)
			break;
		(void)snprintf(next, sizeof(next), "%s", ct_str(j, "next"));
		if (ct_json)
			ct_print_json(json_object_get(j, "leases"));
		else {
			if (first && !quiet &&
			    json_array_size(json_object_get(j, "leases")))
				(void)printf("%-25s %5s %-9s %-15s %-16s %7s %s\n",
					     "LEASE", "SLOT", "STATE",
					     "ADDRESS", "POLICY", "LEFT",
					     "RUN");
			ls_print(json_object_get(j, "leases"), quiet);
		}
		first = false;
		json_decref(j);
	}
	return r;
}

/* ---- events ---------------------------------------------------------------------------- */

static const struct ct_option events_options[] = {
	{ "--follow", NULL, "wait for more until interrupted" },
	{ "--type", "T", "only this type" },
};

static void events_print(json_t *events)
{
	size_t i;
	json_t *e;

	json_array_foreach(events, i, e) {
		if (ct_json) {
			(void)json_dumpf(e, stdout,
					 JSON_COMPACT | JSON_ENSURE_ASCII);
			(void)fputc('\n', stdout);
			continue;
		}
		(void)printf("%s %-12s %-10s ", ct_str(e, "time"),
			     ct_str(e, "type"), ct_str(e, "cause"));
		ct_put(stdout, ct_str(e, "lease"), 20);
		(void)fputc(' ', stdout);
		ct_put(stdout, ct_str(e, "text"), 0);
		(void)fputc('\n', stdout);
	}
	(void)fflush(stdout);
}

static int events_run(const struct ct_args *a)
{
	EG_CLEANUP_FREE char *type = a->opt[1] ? ct_path("&type=%s", a->opt[1])
					       : NULL;
	char after[64] = "0", path[256];

	for (;;) {
		json_t *j = NULL, *list;
		size_t n;
		int r;

		(void)snprintf(path, sizeof(path), "/v1/events?after=%s%s",
			       after, type ? type : "");
		r = ct_ask("GET", path, NULL, &j);
		if (r)
			return r;
		list = json_object_get(j, "events");
		n = json_array_size(list);
		events_print(list);
		(void)snprintf(after, sizeof(after), "%s", ct_str(j, "next"));
		json_decref(j);
		if (!n && !a->opt[0])
			return CT_OK;
		if (!n)
			(void)sleep(1);
	}
}

const struct ct_command ct_events = {
	.name = "events", .usage = "[--follow] [--type T]",
	.help = "what happened, oldest first",
	.options = events_options, .noptions = EG_ARRAY_SIZE(events_options),
	.run = events_run,
};

/* ---- metrics, version --------------------------------------------------------------------- */

static int metrics_run(const struct ct_args *a)
{
	struct ct_reply r;
	int e = ct_call("GET", "/metrics", NULL, &r);

	(void)a;
	if (e)
		return e;
	(void)fwrite(r.text ? r.text : "", 1, r.len,
		     r.status == 200 ? stdout : stderr);
	e = r.status == 200 ? CT_OK : CT_FAILED;
	ct_reply_free(&r);
	return e;
}

const struct ct_command ct_metrics = {
	.name = "metrics", .usage = "", .help = "metrics as Prometheus reads them",
	.run = metrics_run,
};

static int version_run(const struct ct_args *a)
{
	json_t *j = NULL;

	if (ct_json) {
		j = json_pack("{s:s}", "egressctl", EG_VERSION);
		ct_print_json(j);
		json_decref(j);
		return CT_OK;
	}
	(void)printf("egressctl %s\n", EG_VERSION);
	/* --version works without a daemon, the command asks for its too. */
	if (a && access(ct_socket, F_OK) == 0 &&
	    !ct_ask("GET", "/v1/version", NULL, &j)) {
		(void)printf("egressd %s\n", ct_str(j, "version"));
		json_decref(j);
	}
	return CT_OK;
}

const struct ct_command ct_version = {
	.name = "version", .usage = "", .help = "versions of egressctl and the daemon",
	.run = version_run,
};
