/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: inside of the api role: a call and how it is answered.
 *
 * A call is one HTTP request. Its route's handler answers at once, or asks
 * main or audit and returns; the connection is suspended meanwhile and goes
 * on when the answer, or the deadline, has come. Every answer is JSON; an
 * error is {"error":{"code","message","detail"}}.
 */
#ifndef NP_API_HTTP_H
#define NP_API_HTTP_H

#include "netpool/base/role.h"
#include "rules/parse.h"
#include "rules/policy.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define API_BODY (300 * 1024)	/* a policy as text is the largest, 256 KiB */
#define API_CALLS 1024		/* connections at once, of all sockets */
#define API_URL 512		/* ids are 127 octets; no path is longer */
#define API_LIST 1000		/* objects of one page */
#define API_WAIT_NS (10 * EG_NSEC_PER_SEC)
#define API_RELEASE_NS (40 * EG_NSEC_PER_SEC) /* steps of a release, each 5 s */

struct api;
struct call;
struct json_t;
struct MHD_Connection;

enum api_method { API_GET, API_PUT, API_POST, API_DELETE, API_METHODS };

/* Where an answer of main or audit goes on; returns true when it was last. */
typedef bool (*api_then)(struct api *a, struct call *c, struct eg_msg *m);

/* Where a call goes on; it has answered, or asks anew, when that returns. */
typedef void (*api_go)(struct api *a, struct call *c);

struct call {
	struct call *next;
	struct api *a;
	struct MHD_Connection *conn;
	uint64_t cookie; /* 0: not waiting */
	enum eg_role asked; /* whom it waits for */
	int64_t deadline;
	enum api_method method;
	bool read_only, metrics, suspended, done, ndjson;
	uint32_t peer_uid, peer_gid, peer_pid;
	bool admin;
	char url[API_URL];
	char *seg[8]; /* path segments, decoded, in url */
	unsigned int nseg;
	char *body;
	size_t len;
	/* the answer */
	unsigned int status;
	char *text;
	size_t text_len;
	const char *type;
	int file; /* answer with this file's octets; -1: none */
	uint64_t file_size;
	bool retry_after;
	char allow[48]; /* of 405: the Allow header */
	/* while waiting */
	api_then then;
	struct eg_mp_lease *lease; /* of a call that needs two answers */
	struct json_t *list;	   /* array under way */
	char *phase;		   /* asked for, while the lease is looked up */
	const char *lease_id;	   /* of the path, while a text is fetched */
	api_go go;		   /* where it goes on with text or object */
	char *policy_text;	   /* fetched by digest, checked against it */
	size_t policy_len;
	bool text_asked;
	int text_error;
	uint8_t want[EG_DIGEST]; /* of this policy */
	struct json_t *doc, *fork; /* of the lease asked for; body of fork */
	bool has_digest;	   /* compared in place of the body's */
	uint8_t digest[EG_DIGEST];
	uint32_t limit;
	uint32_t next_slot;
	uint32_t evidence;
};

struct policy {
	struct policy *next;
	char name[EG_POLICY_NAME]; /* "": known by digest only */
	struct rl_prog *prog;
	struct rl_warnings *warnings; /* NULL: none */
	char *text;
	bool current; /* of its name */
	bool fresh;   /* seen in the list that is being read */
};

struct api {
	struct eg_role_ctx *ctx;
	void *daemon[3]; /* MHD: api, read, metrics */
	struct eg_io *io[3];
	struct eg_timer *timer;
	struct call *calls; /* waiting */
	uint64_t cookie;
	unsigned int ncalls;
	struct policy *policies;
	unsigned int npolicies;
	uint64_t requests;
};

/* ---- answering ---------------------------------------------------------------- */

/* api_json() - answer with a JSON value; it is consumed. */
void api_json(struct call *c, unsigned int status, struct json_t *j);
void api_text(struct call *c, unsigned int status, const char *type,
	      char *text, size_t len);
void api_error(struct call *c, enum eg_status st, struct json_t *detail,
	       const char *fmt, ...) __attribute__((format(printf, 4, 5)));
void api_http_error(struct call *c, unsigned int status, const char *code,
		    const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
unsigned int api_status(enum eg_status st);
const char *api_code(enum eg_status st);

/* api_ask() - send to a role and wait; answers itself when that fails. */
void api_ask(struct call *c, enum eg_role to, uint16_t type, const void *body,
	     size_t len, int fd, int64_t wait_ns, api_then then);
const char *api_arg(struct call *c, const char *name);
/*
 * api_unknown_arg() - the first query argument that is not @listed in @args,
 * or that is there a second time; NULL: there is none
 */
const char *api_unknown_arg(struct call *c, const char *args,
			    bool (*listed)(const char *args, const char *name));

/* ---- routes ---------------------------------------------------------------------- */

void api_dispatch(struct api *a, struct call *c);
bool api_evidence_open(struct api *a, struct call *c, const struct eg_lease *l);
void api_metrics(struct call *c, const struct eg_mp_pool *p);

/* api_which() - from the path and the fences; false: an error is answered */
bool api_which(struct call *c, struct eg_pm_which *w, bool change);

/* api_page_args() - limit= and a numeric after=; false when refused */
bool api_page_args(struct call *c, uint64_t *after);

/* api_lease_answer() - main's answer is the call's */
bool api_lease_answer(struct api *a, struct call *c, struct eg_msg *m);

/* api_lease_make() - lease as the body says; @id of the path, or NULL */
void api_lease_make(struct api *a, struct call *c, const char *id);

/* api_body_member() - a body that is an object with one known member */
struct json_t *api_body_member(struct call *c, const char *name,
			       struct json_t **ret);

void api_r_spec(struct api *a, struct call *c);
void api_r_fork(struct api *a, struct call *c);
void api_r_revoke(struct api *a, struct call *c);
void api_r_annotate(struct api *a, struct call *c);

/* api_find() - look for a lease, live or ended; goes on with c->doc */
void api_find(struct call *c, api_go go);

/* ---- requests (pure) ---------------------------------------------------------------- */

/**
 * api_request_parse() - body of PUT and POST /v1/leases
 * @id:		from the path, NULL: "id" may be in the body
 * @ret_text:	policy_text, malloc'ed, or NULL
 *
 * Fills everything but policy_digest and phases. -EINVAL with the member,
 * its value and what would be accepted.
 *
 * With @ret_text, @policy is empty or says the digest the text must have. A
 * spec is a request: `parent` is taken over, `names` is information.
 */
int api_request_parse(const char *body, size_t len, const char *id,
		      struct eg_lease_req *ret, char policy[256],
		      char **ret_text, struct eg_err *err);
bool api_id_ok(const char *id);

/* api_labels_parse() - an object of strings; at most EG_LABELS */
int api_labels_parse(const struct json_t *v, struct eg_label label[EG_LABELS],
		     uint32_t *ret_n, struct eg_err *err);

/* ---- objects (pure) -------------------------------------------------------------------- */

struct json_t *api_lease_json(const struct eg_conf *conf,
			      const struct eg_lease *l);
/* api_state_is() - may a lease in a list be in that state? */
bool api_state_is(const char *name);
void api_stats_json(struct json_t *lease, const struct eg_mp_stats *s);
struct json_t *api_pool_json(const struct eg_conf *conf,
			     const struct eg_mp_pool *p);
struct json_t *api_event_json(const struct eg_conf *conf,
			      const struct eg_event *e);
void api_uid_format(const uint8_t uid[EG_UID], char buf[37]);
bool api_uid_parse(const char *text, uint8_t uid[EG_UID]);
void api_time_format(int64_t ns, char buf[32]);

/* api_lease() - a lease with the warnings of its policy */
struct json_t *api_lease(struct api *a, const struct eg_lease *l);

/* ---- policies ------------------------------------------------------------------------------ */

void api_policy_file(struct api *a, const char *name, int fd);
void api_policy_end(struct api *a);
/* NAME, NAME@sha256:HEX, sha256:HEX; NULL with the sentence in err */
const struct rl_prog *api_policy_find(struct api *a, const char *ref,
				      struct eg_err *err);
/* text to a program that is kept by digest */
const struct rl_prog *api_policy_text(struct api *a, const char *text,
				      size_t len, const char *file,
				      struct eg_err *err);
/* is it the policy of this reference? says why not */
bool api_policy_is(const struct rl_prog *p, const char *ref, struct eg_err *err);
/* is it the reference and the text of the built-in policy? */
bool api_policy_builtin(const char *ref, const char *text);
/* the canonical text, malloc'ed; NULL: out of memory */
char *api_policy_canon(const struct rl_prog *p);
/*
 * Get the text of a policy that @ref names by digest and that is not in
 * memory: audit has every one that was ever in force. False: there is nothing
 * to get (or it has been tried); else the call goes on at @go.
 */
bool api_policy_fetch(struct api *a, struct call *c, const char *ref,
		      api_go go);
/* was it there? says why not */
bool api_policy_has_text(struct call *c, struct eg_err *err);
/* the text that was fetched becomes a policy known by its digest */
bool api_policy_fetched(struct api *a, struct call *c, struct eg_err *err);
const struct policy *api_policy_by_digest(struct api *a,
					  const uint8_t digest[EG_DIGEST]);
void api_policy_free(struct api *a);

#endif
