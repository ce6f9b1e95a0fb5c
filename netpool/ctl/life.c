// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressctl: spec, fork, revoke, annotate.
 */
#include "netpool/base/util.h"
#include "netpool/ctl/ct.h"

#include <jansson.h>
#include <string.h>

/* POST of @body (consumed) to a path with the id; the lease that is answered. */
static int post(const char *fmt, const char *id, json_t *body, json_t **ret)
{
	EG_CLEANUP_FREE char *path = ct_path(fmt, id);
	EG_CLEANUP_FREE char *text = body ? json_dumps(body, JSON_COMPACT) :
					    NULL;

	json_decref(body);
	if (!text) {
		(void)fprintf(stderr, "egressctl: an argument is not UTF-8\n");
		return CT_FAILED;
	}
	return ct_ask("POST", path, text, ret);
}

/* ---- spec ------------------------------------------------------------------------ */

static int spec_run(const struct ct_args *a)
{
	EG_CLEANUP_FREE char *path = ct_path("/v1/leases/%s/spec", a->pos[0]);
	json_t *j = NULL;
	int r = ct_ask("GET", path, NULL, &j);

	if (r)
		return r;
	ct_print_json(j);
	json_decref(j);
	return CT_OK;
}

const struct ct_command ct_spec = {
	.name = "spec", .usage = "ID",
	.help = "the lease request that makes such a lease on any host",
	.min = 1, .max = 1, .run = spec_run,
};

/* ---- fork ------------------------------------------------------------------------ */

static const struct ct_option fork_options[] = {
	{ "--id", "NEW", "your name for it; repeating the call is then harmless" },
	{ "--ttl", "TIME", "its time, if not the parent's" },
	{ "--phase", "P[,P]", "its phases, if not the parent's" },
};

static int fork_run(const struct ct_args *a);

const struct ct_command ct_fork = {
	.name = "fork", .usage = "ID [--id NEW] [--ttl TIME] [--phase P[,P]]",
	.help = "lease another like this one, live or ended, same policy by digest",
	.options = fork_options, .noptions = EG_ARRAY_SIZE(fork_options),
	.min = 1, .max = 1, .run = fork_run,
};

static int fork_run(const struct ct_args *a)
{
	const char *ttl = ct_opt(&ct_fork, a, "--ttl");
	long s = ttl ? ct_seconds(ttl) : 0;
	json_t *j = NULL, *body;
	int r;

	if (s < !!ttl)
		return ct_usage(&ct_fork,
				"--ttl '%s': a time such as 90s, 10m, 1h is accepted",
				ttl);
	body = json_pack("{s:s*, s:s*}", "id", ct_opt(&ct_fork, a, "--id"),
			 "phase", ct_opt(&ct_fork, a, "--phase"));
	if (body && ttl)
		(void)json_object_set_new(body, "ttl_s", json_integer(s));
	r = post("/v1/leases/%s/fork", a->pos[0], body, &j);
	return r ? r : ct_lease_done(j);
}

/* ---- revoke ---------------------------------------------------------------------- */

static const struct ct_option revoke_options[] = {
	{ "--reason", "TEXT", "why; kept with the lease and its evidence" },
};

static int revoke_run(const struct ct_args *a)
{
	json_t *j = NULL;
	int r = post("/v1/leases/%s/revoke", a->pos[0],
		     json_pack("{s:s*}", "reason", a->opt[0]), &j);

	if (r)
		return r;
	if (ct_json)
		ct_print_json(j);
	else
		(void)printf("revoked %s (slot %lld, generation %lld): nothing of it passes\n",
			     ct_str(j, "id"), ct_int(j, "slot"),
			     ct_int(j, "generation"));
	json_decref(j);
	return CT_OK;
}

const struct ct_command ct_revoke = {
	.name = "revoke", .usage = "ID [--reason TEXT]",
	.help = "let nothing of a lease pass any more; it keeps slot and evidence",
	.options = revoke_options, .noptions = EG_ARRAY_SIZE(revoke_options),
	.min = 1, .max = 1, .run = revoke_run,
};

/* ---- annotate ---------------------------------------------------------------------- */

static const struct ct_option annotate_options[] = {
	{ "--label", "K=V", "label to add or replace; may be given again" },
};

static int annotate_run(const struct ct_args *a);

const struct ct_command ct_annotate = {
	.name = "annotate", .usage = "ID --label K=V...",
	.help = "add labels to a lease, or replace their values",
	.options = annotate_options, .noptions = EG_ARRAY_SIZE(annotate_options),
	.min = 1, .max = 1, .run = annotate_run,
};

static int annotate_run(const struct ct_args *a)
{
	json_t *j = NULL, *labels = ct_labels(&ct_annotate, a);
	int r;

	if (!labels)
		return CT_USAGE;
	if (!json_object_size(labels)) {
		json_decref(labels);
		return ct_usage(&ct_annotate, "--label K=V is needed");
	}
	r = post("/v1/leases/%s/annotate", a->pos[0],
		 json_pack("{s:o}", "labels", labels), &j);
	return r ? r : ct_lease_done(j);
}
