/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressctl: shared by its subcommands.
 *
 * Exit status: 0, 1 refused or failed, 2 usage, 3 daemon not reachable.
 */
#ifndef CT_H
#define CT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct json_t;

enum { CT_OK = 0, CT_FAILED = 1, CT_USAGE = 2, CT_UNREACHABLE = 3 };

#define CT_OPTIONS 24
#define CT_REPEAT 32 /* --label: as many as a lease may have */

/* An option of a subcommand; value NULL: a flag. */
struct ct_option {
	const char *name, *value, *help;
};

struct ct_args {
	const char *pos[4]; /* positional, at most */
	unsigned int npos;
	const char *opt[CT_OPTIONS]; /* last value given, by row; "" a flag */
	const char *repeat[CT_REPEAT]; /* values of --label */
	unsigned int nrepeat;
	char **rest; /* after "--" */
	int nrest;
};

struct ct_command {
	const char *name;
	const char *usage; /* after the name */
	const char *help;
	const struct ct_option *options;
	size_t noptions;
	unsigned int min, max; /* positional arguments */
	bool rest;	       /* takes "-- COMMAND..." */
	int (*run)(const struct ct_args *a);
};

extern const struct ct_command ct_lease, ct_release, ct_renew, ct_phase, ct_ls,
	ct_show, ct_pool, ct_events, ct_exec, ct_debug, ct_denials,
	ct_spec, ct_fork, ct_revoke, ct_annotate, ct_check_config, ct_check_policy, ct_doctor, ct_metrics, ct_version;

extern const char *ct_socket; /* --socket */
extern bool ct_json;	      /* --json */

/* ct_opt() - value of an option by its name; NULL when not given. */
const char *ct_opt(const struct ct_command *c, const struct ct_args *a,
		   const char *name);

/* ct_labels() - of --label K=V; NULL when one is not, which has been said */
struct json_t *ct_labels(const struct ct_command *c, const struct ct_args *a);

/* ct_usage() - say what is wrong and how it goes; returns CT_USAGE. */
int ct_usage(const struct ct_command *c, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* ct_seconds() - "90s", "10m", "1h", "2d"; -1 when it is not one. */
long ct_seconds(const char *text);

/* ---- http.c ----------------------------------------------------------------- */

struct ct_reply {
	long status;
	char *text;
	size_t len;
	char type[80];
};

/**
 * ct_call() - one request over the unix socket
 * @path:	as in the API, escaped
 *
 * Return: CT_OK with a reply (whatever its status), or CT_UNREACHABLE, said.
 */
int ct_call(const char *method, const char *path, const char *body,
	    struct ct_reply *ret);
void ct_reply_free(struct ct_reply *r);

/* ct_ask() - the same for JSON: says an error and returns its exit status. */
int ct_ask(const char *method, const char *path, const char *body,
	   struct json_t **ret);

/* ct_path() - printf of a path with one escaped segment or value */
char *ct_path(const char *fmt, const char *value);

/* ---- show.c ------------------------------------------------------------------- */

void ct_print_lease(struct json_t *j);
/* ct_lease_done() - print a lease as was asked for, let it go; CT_OK */
int ct_lease_done(struct json_t *j);
void ct_print_json(struct json_t *j);
const char *ct_str(struct json_t *j, const char *key);
long long ct_int(struct json_t *j, const char *key);
/* text from the daemon, safe on a terminal */
void ct_put(FILE *f, const char *text, int width);

#endif
