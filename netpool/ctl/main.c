// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressctl: command line of egressd: subcommands and their options, by table.
 */
#include "netpool/base/util.h"
#include "netpool/ctl/ct.h"

#include <ctype.h>
#include <stdarg.h>
#include <string.h>

const char *ct_socket = "/run/egressd/api.sock";
bool ct_json;

static const struct ct_command *const commands[] = {
	&ct_lease,	&ct_release,	  &ct_renew,	    &ct_phase,
	&ct_ls,		&ct_show,	  &ct_exec,	    &ct_debug,
	&ct_denials,	&ct_events,	  &ct_pool,	    &ct_metrics,
	&ct_check_config, &ct_check_policy, &ct_doctor,	    &ct_version,
};

static void usage_all(FILE *f)
{
	(void)fprintf(f, "usage: egressctl [--socket PATH] [--json] COMMAND ...\n\n");
	for (size_t i = 0; i < EG_ARRAY_SIZE(commands); i++)
		(void)fprintf(f, "  %-13s %s\n", commands[i]->name,
			      commands[i]->help);
	(void)fprintf(f, "\n'egressctl COMMAND --help' shows the options of one. The socket is\n"
			 "--socket, else $EGRESSD_SOCKET, else %s.\n"
			 "Exit status: 0, 1 refused or failed, 2 usage, 3 daemon not reachable.\n",
		      "/run/egressd/api.sock");
}

static void usage_one(FILE *f, const struct ct_command *c)
{
	(void)fprintf(f, "usage: egressctl %s %s\n\n%s\n", c->name, c->usage,
		      c->help);
	for (size_t i = 0; i < c->noptions; i++) {
		const struct ct_option *o = &c->options[i];
		char left[40];

		(void)snprintf(left, sizeof(left), "%s %s", o->name,
			       o->value ? o->value : "");
		(void)fprintf(f, "  %-26s %s\n", left, o->help);
	}
}

int ct_usage(const struct ct_command *c, const char *fmt, ...)
{
	va_list ap;

	(void)fprintf(stderr, "egressctl %s: ", c->name);
	va_start(ap, fmt);
	(void)vfprintf(stderr, fmt, ap);
	va_end(ap);
	(void)fprintf(stderr,
		      "\nusage: egressctl %s %s\n'egressctl %s --help' explains the options\n",
		      c->name, c->usage, c->name);
	return CT_USAGE;
}

const char *ct_opt(const struct ct_command *c, const struct ct_args *a,
		   const char *name)
{
	for (size_t i = 0; i < c->noptions; i++)
		if (!strcmp(c->options[i].name, name))
			return a->opt[i];
	return NULL;
}

long ct_seconds(const char *text)
{
	long n = 0;

	if (!isdigit((unsigned char)*text))
		return -1;
	for (; isdigit((unsigned char)*text) && n < 1000000000; text++)
		n = n * 10 + (*text - '0');
	if (!*text || (!strcmp(text, "s")))
		return n;
	if (!strcmp(text, "m"))
		return n * 60;
	if (!strcmp(text, "h"))
		return n * 3600;
	if (!strcmp(text, "d"))
		return n * 86400;
	return -1;
}

static int option_take(const struct ct_command *c, struct ct_args *a,
		       char **argv, int argc, int *i)
{
	const char *eq = strchr(argv[*i], '=');
	size_t n = eq ? (size_t)(eq - argv[*i]) : strlen(argv[*i]);
	const char *v = "";

	for (size_t k = 0; k < c->noptions; k++) {
		const struct ct_option *o = &c->options[k];

		if (strlen(o->name) != n || strncmp(o->name, argv[*i], n) != 0)
			continue;
		if (!o->value && eq)
			return ct_usage(c, "%s takes no value", o->name);
		if (o->value) {
			if (!eq && *i + 1 >= argc)
				return ct_usage(c, "%s lacks its %s", o->name,
						o->value);
			v = eq ? eq + 1 : argv[++*i];
		}
		a->opt[k] = v;
		if (!strcmp(o->name, "--label")) {
			if (a->nrepeat >= CT_REPEAT)
				return ct_usage(c, "more than %d labels",
						CT_REPEAT);
			a->repeat[a->nrepeat++] = v;
		}
		return CT_OK;
	}
	return ct_usage(c, "there is no option '%s'", argv[*i]);
}

static int args_parse(const struct ct_command *c, int argc, char **argv,
		      struct ct_args *a)
{
	memset(a, 0, sizeof(*a));
	for (int i = 0; i < argc; i++) {
		int r = CT_OK;

		if (!strcmp(argv[i], "--")) {
			if (!c->rest)
				return ct_usage(c, "'--' does not belong here");
			a->rest = argv + i + 1;
			a->nrest = argc - i - 1;
			break;
		}
		if (!strcmp(argv[i], "--json")) { /* also behind the command */
			ct_json = true;
			continue;
		}
		/* Negative numbers and lone dashes are no options of ours. */
		if (argv[i][0] == '-' && argv[i][1])
			r = option_take(c, a, argv, argc, &i);
		else if (a->npos < c->max)
			a->pos[a->npos++] = argv[i];
		else
			r = ct_usage(c, "'%s' is one argument too many",
				     argv[i]);
		if (r)
			return r;
	}
	if (a->npos < c->min)
		return ct_usage(c, "an argument is missing");
	if (c->rest && !a->nrest)
		return ct_usage(c, "-- COMMAND is missing");
	return CT_OK;
}

static int run(const struct ct_command *c, int argc, char **argv)
{
	struct ct_args a;
	int r;

	for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
		if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
			usage_one(stdout, c);
			return CT_OK;
		}
	r = args_parse(c, argc, argv, &a);
	return r ? r : c->run(&a);
}

static int global_option(int argc, char **argv, int *i)
{
	if (!strcmp(argv[*i], "--json")) {
		ct_json = true;
	} else if (!strcmp(argv[*i], "--socket")) {
		if (*i + 1 >= argc) {
			(void)fprintf(stderr,
				      "egressctl: --socket lacks its PATH\n");
			return CT_USAGE;
		}
		ct_socket = argv[++*i];
	} else if (!strncmp(argv[*i], "--socket=", 9)) {
		ct_socket = argv[*i] + 9;
	} else {
		(void)fprintf(stderr, "egressctl: there is no option '%s'\n\n",
			      argv[*i]);
		usage_all(stderr);
		return CT_USAGE;
	}
	return CT_OK;
}

int main(int argc, char **argv)
{
	const char *env = getenv("EGRESSD_SOCKET");
	int i;

	if (env && *env)
		ct_socket = env;
	for (i = 1; i < argc && argv[i][0] == '-'; i++) {
		if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
			usage_all(stdout);
			return CT_OK;
		}
		if (!strcmp(argv[i], "--version"))
			return ct_version.run(NULL);
		if (global_option(argc, argv, &i))
			return CT_USAGE;
	}
	for (size_t k = 0; i < argc && k < EG_ARRAY_SIZE(commands); k++)
		if (!strcmp(argv[i], commands[k]->name))
			return run(commands[k], argc - i - 1, argv + i + 1);
	if (i < argc)
		(void)fprintf(stderr, "egressctl: there is no command '%s'\n\n",
			      argv[i]);
	usage_all(stderr);
	return CT_USAGE;
}
