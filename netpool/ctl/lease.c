// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressctl: lease, release, renew, phase.
 */
#include "netpool/base/ini.h"
#include "netpool/base/util.h"
#include "netpool/ctl/ct.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <string.h>

#define POLICY_FILE (256 * 1024)

static const struct ct_option lease_options[] = {
	{ "--id", "ID", "your name for it; repeating the call is then harmless" },
	{ "--policy", "NAME", "policy, NAME, NAME@sha256:HEX or sha256:HEX" },
	{ "--policy-file", "F", "policy from a file" },
	{ "--phase", "P[,P]", "phases of the policy" },
	{ "--ttl", "TIME", "30s, 10m, 1h ..." },
	{ "--on-expiry", "WHAT", "release or hold" },
	{ "--run", "R", "run it belongs to" },
	{ "--tenant", "T", "tenant it belongs to" },
	{ "--label", "K=V", "label; may be given again" },
	{ "--guest", "MODE", "veth, tap, route, adopt" },
	{ "--tap", "NAME", "name of the tap" },
	{ "--owner", "UID", "who may open the tap" },
	{ "--guest-address", "CIDR", "address of the guest" },
	{ "--guest-gateway", "A", "its gateway, an address of the tap" },
	{ "--guest-mac", "M", "its Ethernet address" },
	{ "--netns", "PATH", "adopt: your namespace, below [lease] adopt_from" },
	{ "--interface", "NAME", "adopt: of the link made in it, else eth0" },
	{ "--report", NULL, "report mode, which is not served yet" },
	{ "--deny", "HOW", "reject or drop" },
};

static int lease_run(const struct ct_args *a);

const struct ct_command ct_lease = {
	.name = "lease",
	.usage = "(--policy NAME | --policy-file F) [--id ID] [--ttl 1h] [--phase P[,P]] [--run R] [...]",
	.help = "lease a namespace",
	.options = lease_options, .noptions = EG_ARRAY_SIZE(lease_options),
	.run = lease_run,
};

static const char *opt(const struct ct_args *a, const char *name)
{
	return ct_opt(&ct_lease, a, name);
}

static void put(json_t *j, const char *key, const char *value)
{
	if (value)
		(void)json_object_set_new(j, key, json_string(value));
}

static int put_policy_file(json_t *j, const char *file)
{
	EG_CLEANUP_FD int fd = open(file, O_RDONLY | O_CLOEXEC);
	EG_CLEANUP_FREE char *text = NULL;
	struct eg_err err = { 0 };
	size_t len;
	json_t *s;

	if (fd < 0) {
		(void)fprintf(stderr, "egressctl: %s: %s\n", file,
			      strerror(errno));
		return CT_FAILED;
	}
	if (eg_ini_read(file, fd, POLICY_FILE, &text, &len, &err)) {
		(void)fprintf(stderr, "egressctl: %s\n", err.text);
		return CT_FAILED;
	}
	s = json_stringn(text, len);
	if (!s) {
		(void)fprintf(stderr, "egressctl: %s is not UTF-8\n", file);
		return CT_FAILED;
	}
	(void)json_object_set_new(j, "policy_text", s);
	return CT_OK;
}

json_t *ct_labels(const struct ct_command *c, const struct ct_args *a)
{
	json_t *labels = json_object();

	for (unsigned int i = 0; i < a->nrepeat; i++) {
		const char *eq = strchr(a->repeat[i], '=');
		char key[128];

		if (!eq || eq == a->repeat[i] ||
		    (size_t)(eq - a->repeat[i]) >= sizeof(key)) {
			(void)ct_usage(c, "--label '%s' is not K=V",
				       a->repeat[i]);
			json_decref(labels);
			return NULL;
		}
		(void)snprintf(key, sizeof(key), "%.*s",
			       (int)(eq - a->repeat[i]), a->repeat[i]);
		(void)json_object_set_new(labels, key, json_string(eq + 1));
	}
	return labels;
}

static int put_guest(json_t *j, const struct ct_args *a)
{
	json_t *g = json_object();
	const char *owner = opt(a, "--owner");

	put(g, "mode", opt(a, "--guest"));
	put(g, "tap", opt(a, "--tap"));
	put(g, "address", opt(a, "--guest-address"));
	put(g, "gateway", opt(a, "--guest-gateway"));
	put(g, "mac", opt(a, "--guest-mac"));
	put(g, "netns_path", opt(a, "--netns"));
	put(g, "interface", opt(a, "--interface"));
	if (owner) {
		char *end;
		long n = strtol(owner, &end, 10);

		if (*end || end == owner || n < 0) {
			json_decref(g);
			return ct_usage(&ct_lease, "--owner '%s' is not a uid",
					owner);
		}
		(void)json_object_set_new(g, "owner_uid", json_integer(n));
	}
	if (json_object_size(g))
		(void)json_object_set_new(j, "guest", g);
	else
		json_decref(g);
	return CT_OK;
}

static int body_make(json_t *j, const struct ct_args *a)
{
	const char *ttl = opt(a, "--ttl"), *file = opt(a, "--policy-file");
	int r = CT_OK;

	if (!opt(a, "--policy") == !file)
		return ct_usage(&ct_lease,
				"one of --policy and --policy-file is needed");
	put(j, "policy", opt(a, "--policy"));
	put(j, "phase", opt(a, "--phase"));
	put(j, "on_expiry", opt(a, "--on-expiry"));
	put(j, "run", opt(a, "--run"));
	put(j, "tenant", opt(a, "--tenant"));
	put(j, "deny", opt(a, "--deny"));
	if (opt(a, "--report"))
		put(j, "enforce", "report");
	if (ttl) {
		long s = ct_seconds(ttl);

		if (s < 1)
			return ct_usage(&ct_lease,
					"--ttl '%s': a time such as 90s, 10m, 1h is accepted",
					ttl);
		(void)json_object_set_new(j, "ttl_s", json_integer(s));
	}
	if (file)
		r = put_policy_file(j, file);
	if (!r && a->nrepeat) {
		json_t *labels = ct_labels(&ct_lease, a);

		if (!labels)
			return CT_USAGE;
		(void)json_object_set_new(j, "labels", labels);
	}
	return r ? r : put_guest(j, a);
}

int ct_lease_done(json_t *j)
{
	if (ct_json)
		ct_print_json(j);
	else
		ct_print_lease(j);
	json_decref(j);
	return CT_OK;
}

static int lease_run(const struct ct_args *a)
{
	const char *id = opt(a, "--id");
	EG_CLEANUP_FREE char *path = id ? ct_path("/v1/leases/%s", id) :
					  strdup("/v1/leases");
	EG_CLEANUP_FREE char *body = NULL;
	json_t *j = json_object(), *lease = NULL;
	int r = body_make(j, a);

	if (!r)
		body = json_dumps(j, JSON_COMPACT);
	json_decref(j);
	if (!r)
		r = ct_ask(id ? "PUT" : "POST", path, body, &lease);
	return r ? r : ct_lease_done(lease);
}

static const struct ct_option fence_options[] = {
	{ "--generation", "N", "only if it is still this generation" },
};

/* The path of a call, with the generation the caller means. */
static void fenced(char *buf, size_t cap, const char *fmt, const char *id,
		   const char *generation)
{
	EG_CLEANUP_FREE char *path = ct_path(fmt, id);
	EG_CLEANUP_FREE char *fence =
		generation ? ct_path("?generation=%s", generation) : NULL;

	(void)snprintf(buf, cap, "%s%s", path ? path : "", fence ? fence : "");
}

static int release_run(const struct ct_args *a)
{
	json_t *j = NULL;
	char full[1024];
	int r;

	fenced(full, sizeof(full), "/v1/leases/%s", a->pos[0], a->opt[0]);
	r = ct_ask("DELETE", full, NULL, &j);
	if (r)
		return r;
	if (ct_json)
		ct_print_json(j);
	else
		(void)printf("released %s (slot %lld, generation %lld)\n",
			     ct_str(j, "id"), ct_int(j, "slot"),
			     ct_int(j, "generation"));
	json_decref(j);
	return CT_OK;
}

const struct ct_command ct_release = {
	.name = "release", .usage = "ID [--generation N]",
	.help = "give a lease back; answers when nothing can pass any more",
	.options = fence_options, .noptions = EG_ARRAY_SIZE(fence_options),
	.min = 1, .max = 1, .run = release_run,
};

static const struct ct_option renew_options[] = {
	{ "--ttl", "TIME", "from now on" },
	{ "--generation", "N", "only if it is still this generation" },
};

static int renew_run(const struct ct_args *a);

const struct ct_command ct_renew = {
	.name = "renew", .usage = "ID --ttl TIME [--generation N]",
	.help = "give a lease more time",
	.options = renew_options, .noptions = EG_ARRAY_SIZE(renew_options),
	.min = 1, .max = 1, .run = renew_run,
};

static int renew_run(const struct ct_args *a)
{
	char path[1024];
	long s = a->opt[0] ? ct_seconds(a->opt[0]) : -1;
	json_t *j = NULL;
	char body[64];
	int r;

	if (s < 1)
		return ct_usage(&ct_renew,
				"--ttl: a time such as 90s, 10m, 1h is needed");
	fenced(path, sizeof(path), "/v1/leases/%s/renew", a->pos[0], a->opt[1]);
	(void)snprintf(body, sizeof(body), "{\"ttl_s\":%ld}", s);
	r = ct_ask("POST", path, body, &j);
	return r ? r : ct_lease_done(j);
}

static int phase_run(const struct ct_args *a)
{
	EG_CLEANUP_FREE char *body = NULL;
	json_t *q = json_pack("{s:s}", "phase", a->pos[1]), *j = NULL;
	char path[1024];
	int r;

	fenced(path, sizeof(path), "/v1/leases/%s/phase", a->pos[0], a->opt[0]);

	body = q ? json_dumps(q, JSON_COMPACT) : NULL;
	json_decref(q);
	r = ct_ask("POST", path, body, &j);
	return r ? r : ct_lease_done(j);
}

const struct ct_command ct_phase = {
	.name = "phase", .usage = "ID P[,P] [--generation N]",
	.help = "move a lease to another phase of its policy",
	.options = fence_options, .noptions = EG_ARRAY_SIZE(fence_options),
	.min = 2, .max = 2, .run = phase_run,
};
