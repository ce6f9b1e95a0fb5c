// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressctl: check-config, check-policy. They need no daemon.
 */
#include "netpool/base/digest.h"
#include "netpool/base/ini.h"
#include "netpool/base/util.h"
#include "netpool/conf.h"
#include "netpool/ctl/ct.h"
#include "rules/canon.h"
#include "rules/parse.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define DEFAULT_CONF "/etc/egressd/egressd.conf"

static struct eg_conf conf; /* some hundred KB */

static int check_config_run(const struct ct_args *a)
{
	const char *file = a->npos ? a->pos[0] : DEFAULT_CONF;
	struct eg_err err = { 0 };

	if (np_conf_load(file, &conf, &err)) {
		(void)fprintf(stderr, "egressctl: %s\n", err.text);
		return CT_FAILED;
	}
	(void)printf("%s: in order: %u slots behind %u gateways\n", file,
		     conf.slots, conf.gateways);
	return CT_OK;
}

const struct ct_command ct_check_config = {
	.name = "check-config", .usage = "[FILE]",
	.help = "check a configuration (default " DEFAULT_CONF ")",
	.max = 1, .run = check_config_run,
};

/* ---- check-policy ----------------------------------------------------------------- */

static const struct ct_option policy_options[] = {
	{ "--print", NULL, "print the canonical form and the digest" },
	{ "--can-i", "DEST[:PORT]", "would it be allowed (tcp)" },
	{ "--phase", "P[,P]", "in these phases" },
	{ "--config", "F", "egressd.conf, for permit_private and always-deny" },
	{ "--tenant", "T", "whose permit_private lines count, with --config" },
};

static int policy_run(const struct ct_args *a);

const struct ct_command ct_check_policy = {
	.name = "check-policy",
	.usage = "FILE [--print] [--can-i DEST[:PORT]] [--phase P] [--config F [--tenant T]]",
	.help = "check a policy file",
	.options = policy_options, .noptions = EG_ARRAY_SIZE(policy_options),
	.min = 1, .max = 1, .run = policy_run,
};

/* Other policies beside the file, for include. */
static char include_dir[4096];

static int include(void *arg, const char *name, const char **ret_text,
		   size_t *ret_len, struct eg_err *err)
{
	EG_CLEANUP_FD int fd = -1;
	char path[4400], *text; /* kept until the process ends */
	int r;

	(void)arg;
	(void)snprintf(path, sizeof(path), "%s%s.policy", include_dir, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return eg_err_sys(err, -errno, "include %.200s", path);
	r = eg_ini_read(path, fd, RL_POLICY_TEXT, &text, ret_len, err);
	if (!r)
		*ret_text = text;
	return r;
}

static bool ports_have(const struct eg_port *p, unsigned int n, unsigned int port)
{
	for (unsigned int i = 0; i < n; i++)
		if (p[i].proto == IPPROTO_TCP && p[i].lo <= port &&
		    p[i].hi >= port)
			return true;
	return false;
}

static int answer(bool ok, const char *dest, unsigned int port, unsigned int line)
{
	if (ok)
		(void)printf("yes: %s tcp/%u, by line %u\n", dest, port, line);
	else
		(void)printf("no: %s tcp/%u; it would take: allow = %s tcp/%u\n",
			     dest, port, dest, port);
	return ok ? CT_OK : CT_FAILED;
}

static int can_i(const struct rl_prog *p, const char *text, uint32_t phases)
{
	char dest[300];
	const char *colon = strrchr(text, ':');
	unsigned int port = 443;
	struct rl_verdict v;
	struct eg_name name;
	struct eg_err err = { 0 };
	uint32_t addr;

	(void)snprintf(dest, sizeof(dest), "%.*s",
		       colon ? (int)(colon - text) : 299, text);
	if (colon)
		port = (unsigned int)strtoul(colon + 1, NULL, 10);
	if (!port || port > 65535)
		return ct_usage(&ct_check_policy, "--can-i '%s': no port", text);
	if (!eg_addr_parse(dest, &addr, NULL)) {
		for (uint32_t i = 0; i < p->nentries; i++)
			if (p->entry[i].kind == RL_PREFIX &&
			    !(p->entry[i].flags & RL_F_DENY) &&
			    (p->entry[i].phases == RL_PHASES_ALL ||
			     p->entry[i].phases & phases) &&
			    eg_prefix_has(p->entry[i].dst, addr) &&
			    ports_have(p->entry[i].port, p->entry[i].nports,
				       port))
				return answer(true, dest, port,
					      p->entry[i].line);
		return answer(false, dest, port, 0);
	}
	if (eg_name_parse(dest, &name, &err))
		return ct_usage(&ct_check_policy, "--can-i: %s", err.text);
	rl_prog_lookup(p, phases, time(NULL), &name, &v);
	return answer(v.allowed && ports_have(v.port, v.nports, port), dest,
		      port, v.allowed ? p->entry[v.entry].line : 0);
}

static void print_canon(const struct rl_prog *p)
{
	char text[EG_DIGEST_TEXT];

	(void)rl_policy_print(p, stdout);
	(void)printf("# digest %s\n", eg_digest_format(p->digest, text));
}

static int policy_check(const struct ct_args *a, const char *text, size_t len)
{
	struct rl_parse_env env = { .conf = &conf, .include = include,
				    .now = time(NULL) };
	struct rl_warnings w = { 0 };
	struct eg_err err = { 0 };
	uint32_t phases = 0;
	struct rl_prog *p;
	int r = CT_OK;

	if (rl_policy_parse(text, len, a->pos[0], &env, &p, &w, &err)) {
		(void)fprintf(stderr, "egressctl: %s\n", err.text);
		return CT_FAILED;
	}
	for (uint32_t i = 0; i < w.n; i++)
		(void)fprintf(stderr, "%s:%u: warning: %s\n", a->pos[0],
			      w.w[i].line, w.w[i].text);
	if (a->opt[3] && rl_policy_permitted(p, &conf,
					    a->opt[4] ? a->opt[4] : "", &err)) {
		(void)fprintf(stderr, "egressctl: %s: %s\n", a->pos[0],
			      err.text);
		r = CT_FAILED;
	}
	if (!r && a->opt[2] && rl_prog_phases(p, a->opt[2], &phases, &err))
		r = ct_usage(&ct_check_policy, "--phase: %s", err.text);
	if (!r && a->opt[0])
		print_canon(p);
	else if (!r && !a->opt[1])
		(void)printf("%s: in order: policy %s, %u entries\n",
			     a->pos[0], p->name, p->nentries);
	if (!r && a->opt[1])
		r = can_i(p, a->opt[1], phases);
	free(p);
	return r;
}

static int policy_run(const struct ct_args *a)
{
	EG_CLEANUP_FREE char *text = NULL;
	EG_CLEANUP_FD int fd = open(a->pos[0], O_RDONLY | O_CLOEXEC);
	const char *slash = strrchr(a->pos[0], '/');
	struct eg_err err = { 0 };
	size_t len;
	int r = a->opt[3] ? np_conf_load(a->opt[3], &conf, &err) :
			    np_conf_defaults(DEFAULT_CONF, NP_CONF_RESOLV, &conf,
					     &err);

	if (!r && fd < 0)
		r = eg_err_sys(&err, -errno, "%s", a->pos[0]);
	if (slash)
		(void)snprintf(include_dir, sizeof(include_dir), "%.*s",
			       (int)(slash + 1 - a->pos[0]), a->pos[0]);
	if (!r)
		r = eg_ini_read(a->pos[0], fd, RL_POLICY_TEXT, &text, &len,
				&err);
	if (r) {
		(void)fprintf(stderr, "egressctl: %s\n", err.text);
		return CT_FAILED;
	}
	return policy_check(a, text, len);
}
