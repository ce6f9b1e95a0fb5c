// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: the composition root: command line, roles, wiring. Nothing else.
 */
#include "audit/audit.h"
#include "dnsguard/dnsguard.h"
#include "netpool/api.h"
#include "netpool/base/fault.h"
#include "netpool/base/log.h"
#include "netpool/base/plan.h"
#include "netpool/base/role.h"
#include "netpool/base/util.h"
#include "netpool/build.h"
#include "netpool/conf.h"
#include "netpool/host.h"
#include "netpool/launcher.h"
#include "netpool/main_probe.h"
#include "netpool/main_role.h"
#include "netpool/purge.h"
#include "rules/kernel.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#define DEFAULT_CONF "/etc/egressd/egressd.conf"

static const char usage_text[] =
	"usage: egressd [-c FILE] [--check | --print-config | --purge]\n"
	"       egressd --help | --version\n"
	"\n"
	"The network a host gives to code it does not trust: a pool of network\n"
	"namespaces leased to sandboxes, default deny, names by allowlist, every\n"
	"denial recorded. Runs in the foreground; leases outlive it.\n"
	"\n"
	"  -c, --config FILE  configuration (default " DEFAULT_CONF ")\n"
	"      --check        check the configuration and exit\n"
	"      --print-config print the effective configuration and exit\n"
	"      --purge        remove everything egressd ever made on this host:\n"
	"                     leases, namespaces, links, tables, routes, run files;\n"
	"                     evidence and the generation counter stay\n"
	"  -h, --help         this text\n"
	"  -V, --version      version\n";

enum action { RUN, CHECK, PRINT, PURGE, ROLE, HELP, VERSION };

struct args {
	enum action action;
	const char *conf, *role;
};

struct option_row {
	const char *name, *alias;
	enum action action;
	bool value;
};

/* -c sets no action; it is told apart by its name. */
static const struct option_row options[] = {
	{"--config", "-c", RUN, true},		{"--check", NULL, CHECK, false},
	{"--print-config", NULL, PRINT, false}, {"--purge", NULL, PURGE, false},
	{"--role", NULL, ROLE, true},		{"--help", "-h", HELP, false},
	{"--version", "-V", VERSION, false},
};

static int args_parse(int argc, char **argv, struct args *a)
{
	*a = (struct args){.action = RUN, .conf = DEFAULT_CONF};
	for (int i = 1; i < argc; i++) {
		const struct option_row *o = NULL;

		for (size_t k = 0; k < EG_ARRAY_SIZE(options); k++)
			if (!strcmp(argv[i], options[k].name) ||
			    (options[k].alias &&
			     !strcmp(argv[i], options[k].alias)))
				o = &options[k];
		if (!o || (o->value && i + 1 >= argc)) {
			(void)fprintf(stderr, "egressd: %s '%s'\n\n%s",
				      o ? "a value is missing after"
					: "there is no argument",
				      argv[i], usage_text);
			return -EINVAL;
		}
		if (o->action == RUN) {
			a->conf = argv[++i];
			continue;
		}
		if (o->value)
			a->role = argv[++i];
		a->action = o->action;
	}
	return 0;
}

static int host_purge(int fd, const struct eg_conf *conf, struct eg_err *err)
{
	struct rl_host *h;
	int r = rl_host_open(&h, conf, dup(fd), err);

	if (r)
		return r;
	r = rl_host_remove(h, err);
	rl_host_close(h);
	return r;
}

static const struct eg_role_ops *const role_ops[] = {
	&np_main_ops, &np_build_ops, &np_api_ops, &dg_role_ops, &au_role_ops,
};

static int role_run(const char *name)
{
	eg_fault_role(name);
	np_build_hooks.slot_nat = rl_slot_nat;
	np_build_hooks.host_purge = host_purge;
	for (size_t i = 0; i < EG_ARRAY_SIZE(role_ops); i++)
		if (!strcmp(eg_role_name(role_ops[i]->role), name))
			return eg_role_run(role_ops[i]);
	(void)fprintf(stderr, "egressd: '%s' is not a role\n", name);
	return 2;
}

static int purge(const struct eg_conf *conf)
{
	struct eg_err err = {0};
	int r;

	eg_fault_role("purge");
	r = np_launch_lock(conf, &err);
	np_build_hooks.host_purge = host_purge;
	if (r >= 0)
		r = np_host_alone(&err);
	if (r >= 0)
		r = np_purge(conf, &err);
	if (r < 0) {
		(void)fprintf(stderr, "egressd: purge: %s\n", err.text);
		return 1;
	}
	np_launch_unlock(conf);
	return 0;
}

static int conf_action(const struct args *a)
{
	static const struct np_launcher_hooks hooks = {.probe = np_main_probe};
	static struct eg_conf conf; /* some hundred KB */
	struct eg_err err = {0};

	if (np_conf_load(a->conf, &conf, &err)) {
		(void)fprintf(stderr, "egressd: %s\n", err.text);
		return 1;
	}
	if (a->action == CHECK) {
		(void)printf("%s: in order\n", a->conf);
		return 0;
	}
	if (a->action == PRINT) {
		np_conf_print(&conf, stdout);
		return 0;
	}
	if (a->action == PURGE)
		return purge(&conf);
	eg_log_init("egressd",
		    getenv("EGRESSD_DEBUG") ? EG_LOG_DEBUG : EG_LOG_INFO);
	eg_fault_role("launcher");
	return np_launch(&conf, &hooks);
}

int main(int argc, char **argv)
{
	struct args a;

	if (args_parse(argc, argv, &a))
		return 2;
	if (a.action == HELP) {
		(void)fputs(usage_text, stdout);
		return 0;
	}
	if (a.action == VERSION) {
		(void)printf("egressd %s\n", EG_VERSION);
		return 0;
	}
	return a.action == ROLE ? role_run(a.role) : conf_action(&a);
}
