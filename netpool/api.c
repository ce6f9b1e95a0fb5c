// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: the api role: libmicrohttpd in our event loop.
 *
 * No capability, own uid, empty root. It parses what local clients write and
 * says to main, in messages of fixed layout, what they want; main decides.
 * libmicrohttpd runs without threads: its epoll descriptor is one of ours,
 * and a connection that waits for main is suspended.
 */
#include "netpool/api.h"
#include "netpool/api_http.h"
#include "netpool/base/log.h"
#include "netpool/base/util.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <microhttpd.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define CONN_IDLE_S 60	 /* a client that says nothing for this long goes */
#define GROUPS_MAX 256

enum { SOCK_API, SOCK_READ, SOCK_METRICS };

struct listener {
	struct api *a;
	int kind;
};
static struct listener listeners[3];

/* ---- answers -------------------------------------------------------------------- */

void api_text(struct call *c, unsigned int status, const char *type,
	      char *text, size_t len)
{
	free(c->text);
	c->status = status;
	c->type = type;
	c->text = text;
	c->text_len = len;
	c->done = true;
}

void api_json(struct call *c, unsigned int status, struct json_t *j)
{
	char *text = j ? json_dumps(j, JSON_COMPACT) : NULL;
	size_t n = text ? strlen(text) : 0;
	char *line = text ? realloc(text, n + 2) : NULL;

	json_decref(j);
	if (!line) {
		free(text);
		api_text(c, 500, "application/json", NULL, 0);
		return;
	}
	line[n] = '\n';
	line[n + 1] = '\0';
	api_text(c, status, "application/json", line, n + 1);
}

static const struct {
	unsigned int http;
	const char *code;
} statuses[] = {
	[EG_OK] = { 200, "ok" },
	[EG_OK_CREATED] = { 201, "created" },
	[EG_E_BAD_REQUEST] = { 400, "bad-request" },
	[EG_E_BAD_POLICY] = { 422, "bad-policy" },
	[EG_E_BAD_PHASE] = { 422, "bad-phase" },
	[EG_E_FORBIDDEN] = { 403, "forbidden" },
	[EG_E_REVOKED] = { 403, "revoked" },
	[EG_E_NOT_FOUND] = { 404, "not-found" },
	[EG_E_GONE] = { 410, "gone" },
	[EG_E_CURSOR_GONE] = { 410, "cursor-gone" },
	[EG_E_EXISTS] = { 409, "exists" },
	[EG_E_STALE] = { 409, "stale-generation" },
	[EG_E_BUSY] = { 409, "busy" },
	[EG_E_EXHAUSTED] = { 503, "exhausted" },
	[EG_E_UNAVAILABLE] = { 503, "unavailable" },
	[EG_E_INTERNAL] = { 500, "internal" },
};
_Static_assert(EG_ARRAY_SIZE(statuses) == EG_STATUS_COUNT, "statuses");

unsigned int api_status(enum eg_status st)
{
	return (unsigned int)st < EG_STATUS_COUNT ? statuses[st].http : 500;
}

const char *api_code(enum eg_status st)
{
	return (unsigned int)st < EG_STATUS_COUNT ? statuses[st].code :
						    "internal";
}

static void error_json(struct call *c, unsigned int status, const char *code,
		       const char *text, json_t *detail)
{
	json_t *e = json_pack("{s:s, s:s, s:o}", "code", code, "message", text,
			      "detail", detail ? detail : json_object());

	if (!e) /* a message that is not UTF-8 */
		e = json_pack("{s:s, s:s, s:{}}", "code", code, "message",
			      "(not printable)", "detail");
	c->retry_after = status == 503;
	api_json(c, status, json_pack("{s:o}", "error", e));
}

void api_error(struct call *c, enum eg_status st, struct json_t *detail,
	       const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	error_json(c, api_status(st), api_code(st), text, detail);
}

void api_http_error(struct call *c, unsigned int status, const char *code,
		    const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	error_json(c, status, code, text, NULL);
}

const char *api_arg(struct call *c, const char *name)
{
	return MHD_lookup_connection_value(c->conn, MHD_GET_ARGUMENT_KIND,
					   name);
}

struct arg_search {
	const char *args, *bad;
	bool (*listed)(const char *args, const char *name);
	const char *seen[16];
	unsigned int n;
};

static enum MHD_Result arg_next(void *cls, enum MHD_ValueKind kind,
				const char *name, const char *value)
{
	struct arg_search *s = cls;

	(void)kind;
	(void)value;
	if (!s->listed(s->args, name) || s->n == EG_ARRAY_SIZE(s->seen))
		s->bad = name;
	for (unsigned int i = 0; !s->bad && i < s->n; i++)
		if (!strcmp(s->seen[i], name))
			s->bad = name;
	if (s->bad)
		return MHD_NO;
	s->seen[s->n++] = name;
	return MHD_YES;
}

const char *api_unknown_arg(struct call *c, const char *args,
			    bool (*listed)(const char *args, const char *name))
{
	struct arg_search s = { .args = args, .listed = listed };

	(void)MHD_get_connection_values(c->conn, MHD_GET_ARGUMENT_KIND,
					arg_next, &s);
	return s.bad;
}

/* ---- waiting ----------------------------------------------------------------------- */

static void kick(struct api *a)
{
	eg_timer_set(a->timer, 0);
}

static void call_unlink(struct api *a, struct call *c)
{
	for (struct call **p = &a->calls; *p; p = &(*p)->next)
		if (*p == c) {
			*p = c->next;
			break;
		}
	c->cookie = 0;
}

/* The answer is there: let the connection go on. */
static void call_finish(struct api *a, struct call *c)
{
	call_unlink(a, c);
	if (c->suspended) {
		c->suspended = false;
		MHD_resume_connection(c->conn);
		kick(a);
	}
}

void api_ask(struct call *c, enum eg_role to, uint16_t type, const void *body,
	     size_t len, int fd, int64_t wait_ns, api_then then)
{
	struct api *a = c->a;
	bool waiting = c->cookie != 0;

	if (!waiting) {
		c->cookie = ++a->cookie;
		c->next = a->calls;
		a->calls = c;
	}
	c->then = then;
	c->asked = to;
	c->deadline = eg_boot_ns() + wait_ns;
	if (!eg_role_send(a->ctx, to, type, c->cookie, body, len, fd))
		return;
	api_error(c, EG_E_UNAVAILABLE, NULL,
		  "the part of egressd that answers this is starting again; ask again in a moment");
	call_finish(a, c);
}

static void on_answer(struct api *a, struct eg_msg *m)
{
	struct call *c;

	for (c = a->calls; c; c = c->next)
		if (c->cookie == m->cookie)
			break;
	if (c && c->then(a, c, m))
		call_finish(a, c);
}

static void call_fail(struct api *a, struct call *c, const char *why)
{
	json_decref(c->list);
	c->list = NULL;
	api_error(c, EG_E_UNAVAILABLE, NULL,
		  "%s; ask again, the call can be repeated", why);
	call_finish(a, c);
}

static void calls_expire(struct api *a)
{
	int64_t now = eg_boot_ns();
	struct call *c = a->calls, *next;

	for (; c; c = next) {
		next = c->next;
		if (now >= c->deadline)
			call_fail(a, c, "no answer in time");
	}
}

/* ---- libmicrohttpd -------------------------------------------------------------------- */

static void run_all(struct api *a)
{
	int64_t next = 200000; /* us: expiry of calls is this exact */

	for (int i = 0; i < 3; i++) {
		MHD_UNSIGNED_LONG_LONG ms;

		if (!a->daemon[i])
			continue;
		(void)MHD_run(a->daemon[i]);
		if (MHD_get_timeout(a->daemon[i], &ms) == MHD_YES &&
		    (int64_t)ms * 1000 < next)
			next = (int64_t)ms * 1000;
	}
	eg_timer_set(a->timer, next);
}

static void on_epoll(void *arg, int fd, int what)
{
	(void)fd;
	(void)what;
	run_all(arg);
}

static void on_timer(void *arg)
{
	calls_expire(arg);
	run_all(arg);
}

/* Root and members of the admin group may change any lease. */
static bool peer_is_admin(int fd, const struct eg_conf *conf, uint32_t uid,
			  uint32_t gid)
{
	gid_t groups[GROUPS_MAX];
	socklen_t len = sizeof(groups);

	if (!uid)
		return true;
	if (conf->admin_gid == UINT32_MAX)
		return false;
	if (gid == conf->admin_gid)
		return true;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &len) < 0)
		return false;
	for (size_t i = 0; i < len / sizeof(groups[0]); i++)
		if (groups[i] == conf->admin_gid)
			return true;
	return false;
}

static void peer_identify(struct call *c)
{
	const union MHD_ConnectionInfo *ci =
		MHD_get_connection_info(c->conn,
					MHD_CONNECTION_INFO_CONNECTION_FD);
	struct ucred cred = { .uid = UINT32_MAX, .gid = UINT32_MAX };
	socklen_t len = sizeof(cred);

	if (ci && !getsockopt(ci->connect_fd, SOL_SOCKET, SO_PEERCRED, &cred,
			      &len) &&
	    !c->metrics) {
		c->peer_uid = cred.uid;
		c->peer_gid = cred.gid;
		c->peer_pid = (uint32_t)cred.pid;
		c->admin = peer_is_admin(ci->connect_fd, c->a->ctx->conf,
					 cred.uid, cred.gid);
	} else {
		c->peer_uid = c->peer_gid = UINT32_MAX;
	}
}

/* Cut the path at its slashes, in place. */
static void segments(struct call *c)
{
	char *p = c->url;

	while (*p && c->nseg < EG_ARRAY_SIZE(c->seg)) {
		size_t n = strcspn(p, "/");

		if (n)
			c->seg[c->nseg++] = p;
		if (!p[n])
			break;
		p[n] = '\0';
		p += n + 1;
	}
}

static struct call *call_new(struct listener *l, struct MHD_Connection *conn,
			     const char *url, const char *method)
{
	static const char *const names[] = { "GET", "PUT", "POST", "DELETE" };
	struct call *c;
	const char *accept;

	if (l->a->ncalls >= API_CALLS || !(c = calloc(1, sizeof(*c))))
		return NULL;
	c->a = l->a;
	c->conn = conn;
	c->file = -1;
	c->read_only = l->kind != SOCK_API;
	c->metrics = l->kind == SOCK_METRICS;
	c->method = API_METHODS;
	for (unsigned int i = 0; i < API_METHODS; i++)
		if (!strcmp(method, names[i]))
			c->method = (enum api_method)i;
	if (!strcmp(method, "HEAD")) /* the library leaves the body out */
		c->method = API_GET;
	if (strlen(url) < sizeof(c->url))
		memcpy(c->url, url, strlen(url) + 1);
	segments(c);
	accept = MHD_lookup_connection_value(conn, MHD_HEADER_KIND, "Accept");
	c->ndjson = accept && strstr(accept, "application/x-ndjson");
	peer_identify(c);
	l->a->ncalls++;
	return c;
}

static bool body_add(struct call *c, const char *data, size_t len)
{
	char *p;

	if (c->len + len > API_BODY)
		return false;
	p = realloc(c->body, c->len + len + 1);
	if (!p)
		return false;
	memcpy(p + c->len, data, len);
	c->body = p;
	c->len += len;
	p[c->len] = '\0';
	return true;
}

static enum MHD_Result respond(struct call *c)
{
	struct MHD_Response *r;
	enum MHD_Result ok;

	if (c->file >= 0) {
		r = MHD_create_response_from_fd64(c->file_size, c->file);
		if (r)
			c->file = -1; /* the response closes it */
	} else {
		r = MHD_create_response_from_buffer(c->text_len,
						    c->text ? c->text : "",
						    MHD_RESPMEM_MUST_COPY);
	}
	if (!r)
		return MHD_NO;
	(void)MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE,
				      c->type ? c->type : "application/json");
	if (c->allow[0])
		(void)MHD_add_response_header(r, MHD_HTTP_HEADER_ALLOW,
					      c->allow);
	if (c->retry_after)
		(void)MHD_add_response_header(r, "Retry-After", "1");
	ok = MHD_queue_response(c->conn, c->status ? c->status : 500, r);
	MHD_destroy_response(r);
	return ok;
}

static enum MHD_Result on_request(void *cls, struct MHD_Connection *conn,
				  const char *url, const char *method,
				  const char *version, const char *data,
				  size_t *len, void **con_cls)
{
	struct listener *l = cls;
	struct call *c = *con_cls;

	(void)version;
	if (!c) {
		c = call_new(l, conn, url, method);
		*con_cls = c;
		return c ? MHD_YES : MHD_NO;
	}
	if (c->done)
		return respond(c);
	if (*len) {
		if (!body_add(c, data, *len) && !c->status)
			c->status = 413;
		*len = 0;
		return MHD_YES;
	}
	l->a->requests++;
	if (c->status == 413)
		api_http_error(c, 413, "bad-request",
			       "the body is larger than %d octets, the most that is read",
			       API_BODY);
	else
		api_dispatch(l->a, c);
	if (c->done)
		return respond(c);
	c->suspended = true;
	MHD_suspend_connection(conn);
	return MHD_YES;
}

static void on_completed(void *cls, struct MHD_Connection *conn,
			 void **con_cls, enum MHD_RequestTerminationCode code)
{
	struct call *c = *con_cls;

	(void)cls;
	(void)conn;
	(void)code;
	if (!c)
		return;
	if (c->cookie)
		call_unlink(c->a, c);
	c->a->ncalls--;
	json_decref(c->list);
	eg_close_p(&c->file);
	free(c->body);
	free(c->text);
	free(c->lease);
	free(c->phase);
	free(c->policy_text);
	json_decref(c->doc);
	json_decref(c->fork);
	free(c);
	*con_cls = NULL;
}

static void listen_start(struct api *a, int kind, int fd)
{
	const union MHD_DaemonInfo *info;
	struct MHD_Daemon *d;

	listeners[kind] = (struct listener){ .a = a, .kind = kind };
	d = MHD_start_daemon(MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0, NULL,
			     NULL, on_request, &listeners[kind],
			     MHD_OPTION_LISTEN_SOCKET, fd,
			     MHD_OPTION_NOTIFY_COMPLETED, on_completed, NULL,
			     MHD_OPTION_CONNECTION_TIMEOUT,
			     (unsigned int)CONN_IDLE_S,
			     MHD_OPTION_CONNECTION_LIMIT,
			     (unsigned int)API_CALLS,
			     MHD_OPTION_END);
	info = d ? MHD_get_daemon_info(d, MHD_DAEMON_INFO_EPOLL_FD) : NULL;
	if (!info) {
		eg_error("HTTP on descriptor %d cannot start", fd);
		return;
	}
	a->daemon[kind] = d;
	a->io[kind] = eg_io_new(a->ctx->loop, info->epoll_fd, EG_READ,
				on_epoll, a);
}

/* ---- the role ------------------------------------------------------------------------------ */

static int api_start(struct eg_role_ctx *ctx, struct eg_err *err)
{
	struct api *a = calloc(1, sizeof(*a));

	if (!a)
		return eg_err_set(err, -ENOMEM, "out of memory");
	a->ctx = ctx;
	a->timer = eg_timer_new(ctx->loop, on_timer, a);
	if (!a->timer) {
		free(a);
		return eg_err_set(err, -ENOMEM, "out of memory");
	}
	ctx->priv = a;
	return 0;
}

static void api_on_fd(struct eg_role_ctx *ctx, enum eg_fd_kind kind,
		      uint32_t index, int *fd)
{
	struct api *a = ctx->priv;
	int which = kind == EG_FD_API	   ? SOCK_API :
		    kind == EG_FD_API_READ ? SOCK_READ :
		    kind == EG_FD_METRICS  ? SOCK_METRICS :
					     -1;

	(void)index;
	if (which < 0 || a->daemon[which])
		return;
	listen_start(a, which, eg_steal_fd(fd));
}

/* What was asked of a role that has started again is not answered any more. */
static void api_on_peer(struct eg_role_ctx *ctx, enum eg_role peer)
{
	struct api *a = ctx->priv;
	struct call *c = a->calls, *next;

	for (; c; c = next) {
		next = c->next;
		if (c->asked == peer)
			call_fail(a, c, "the part of egressd that answers this has started again");
	}
}

static void api_on_go(struct eg_role_ctx *ctx)
{
	kick(ctx->priv);
}

static void api_on_msg(struct eg_role_ctx *ctx, enum eg_role from,
		       struct eg_msg *m)
{
	(void)from;
	on_answer(ctx->priv, m);
}

static void api_on_ctl(struct eg_role_ctx *ctx, struct eg_msg *m)
{
	struct api *a = ctx->priv;

	if (m->type == EG_CTL_POLICY && m->fd >= 0) {
		struct eg_ctl_policy p;

		memcpy(&p, m->body, sizeof(p));
		p.name[sizeof(p.name) - 1] = '\0';
		api_policy_file(a, p.name, m->fd);
	} else if (m->type == EG_CTL_POLICIES) {
		api_policy_end(a);
	}
}

static void api_stop(struct eg_role_ctx *ctx)
{
	struct api *a = ctx->priv;

	while (a->calls) {
		struct call *c = a->calls;

		api_error(c, EG_E_UNAVAILABLE, NULL, "egressd is ending");
		call_finish(a, c);
	}
	for (int i = 0; i < 3; i++) {
		if (a->daemon[i])
			(void)MHD_run(a->daemon[i]);
		eg_io_free(a->io[i]);
		if (a->daemon[i])
			MHD_stop_daemon(a->daemon[i]);
	}
	eg_timer_free(a->timer);
	api_policy_free(a);
	free(a);
}

const struct eg_role_ops np_api_ops = {
	.role = EG_ROLE_API,
	.start = api_start,
	.on_fd = api_on_fd,
	.on_peer = api_on_peer,
	.on_go = api_on_go,
	.on_msg = api_on_msg,
	.on_ctl = api_on_ctl,
	.stop = api_stop,
};
