// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: the configuration (see conf.h).
 *
 * One table row a key: where it goes, how it is read and printed. A row's
 * reader gets the text and says what would be accepted; the adapter adds
 * file, line and column. What concerns several keys is checked at the end.
 *
 * Files the configuration names: always_deny_file (denylist.c reads it) and,
 * for upstream=system, /etc/resolv.conf.
 */
#include "netpool/conf.h"
#include "netpool/base/ini.h"
#include "netpool/base/util.h"
#include "netpool/denylist.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <inttypes.h>
#include <limits.h>
#include <netinet/in.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>

#define RESOLV_CONF "/etc/resolv.conf"
#define FALLBACK_UID 60800 /* unassigned by Debian and systemd; + role */

struct ctx {
	struct eg_conf *c;
	const char *path;
	char deny_file[EG_PATH];
	bool deny_file_set;
	unsigned int prefix_line, link_line;
};

struct row;
typedef int (*reader)(struct ctx *x, const struct row *r, const char *v,
		      const struct eg_ini_pos *pos, struct eg_err *err);
typedef void (*printer)(const struct eg_conf *c, const struct row *r,
			FILE *out);

struct row {
	const char *section, *key;
	reader read;
	printer print;
	size_t off;
	uint64_t min, max; /* of numbers */
};

static void *field(struct eg_conf *c, const struct row *r)
{
	return (char *)c + r->off;
}

static const void *cfield(const struct eg_conf *c, const struct row *r)
{
	return (const char *)c + r->off;
}

/* ---- readers and printers of one kind of value ------------------------------- */

static bool digits(const char *v, uint64_t *ret, const char **end)
{
	uint64_t n = 0;

	if (!isdigit((unsigned char)*v))
		return false;
	for (; isdigit((unsigned char)*v); v++) {
		if (n > (UINT64_MAX - 9) / 10)
			return false;
		n = n * 10 + (uint64_t)(*v - '0');
	}
	*ret = n;
	*end = v;
	return true;
}

static int read_u32(struct ctx *x, const struct row *r, const char *v,
		    const struct eg_ini_pos *pos, struct eg_err *err)
{
	const char *end;
	uint64_t n;

	(void)pos;
	if (!digits(v, &n, &end) || *end || n < r->min || n > r->max)
		return eg_err_set(err, -EINVAL,
				  "%s=%.64s: a number from %" PRIu64 " to %" PRIu64 " is accepted",
				  r->key, v, r->min, r->max);
	*(uint32_t *)field(x->c, r) = (uint32_t)n;
	return 0;
}

static void print_u32(const struct eg_conf *c, const struct row *r, FILE *out)
{
	(void)fprintf(out, "%" PRIu32, *(const uint32_t *)cfield(c, r));
}

/* "90s", "10m", "1h", "30d"; seconds without a unit. */
static bool duration(const char *v, uint64_t *ret)
{
	static const struct {
		char unit;
		uint32_t s;
	} units[] = { { 's', 1 }, { 'm', 60 }, { 'h', 3600 }, { 'd', 86400 } };
	const char *end;
	uint64_t n;

	if (!digits(v, &n, &end) || n > UINT32_MAX)
		return false;
	*ret = n;
	if (!*end)
		return true;
	for (size_t i = 0; i < EG_ARRAY_SIZE(units); i++)
		if (*end == units[i].unit && !end[1]) {
			*ret = n * units[i].s;
			return true;
		}
	return false;
}

static int read_time(struct ctx *x, const struct row *r, const char *v,
		     const struct eg_ini_pos *pos, struct eg_err *err)
{
	uint64_t n;

	(void)pos;
	if (!duration(v, &n) || n < r->min || n > r->max)
		return eg_err_set(err, -EINVAL,
				  "%s=%.64s: a time such as 90s, 10m, 1h or 30d is accepted, from %" PRIu64 "s to %" PRIu64 "s",
				  r->key, v, r->min, r->max);
	*(uint32_t *)field(x->c, r) = (uint32_t)n;
	return 0;
}

static void print_time(const struct eg_conf *c, const struct row *r, FILE *out)
{
	(void)fprintf(out, "%" PRIu32 "s", *(const uint32_t *)cfield(c, r));
}

/* "512M"; the empty text is no limit. */
static bool size_parse(const char *v, uint64_t *ret)
{
	static const char units[] = "KMGT";
	const char *end, *u;
	uint64_t n;

	if (!*v) {
		*ret = 0;
		return true;
	}
	if (!digits(v, &n, &end))
		return false;
	u = *end ? strchr(units, *end) : NULL;
	if (*end && (!u || end[1]))
		return false;
	for (; u && u >= units; u--) {
		if (n > UINT64_MAX / 1024)
			return false;
		n *= 1024;
	}
	*ret = n;
	return true;
}

static int read_size(struct ctx *x, const struct row *r, const char *v,
		     const struct eg_ini_pos *pos, struct eg_err *err)
{
	(void)pos;
	if (!size_parse(v, field(x->c, r)))
		return eg_err_set(err, -EINVAL,
				  "%s=%.64s: a size such as 500M or 20G is accepted, nothing for no limit",
				  r->key, v);
	return 0;
}

static void print_size(const struct eg_conf *c, const struct row *r, FILE *out)
{
	uint64_t n = *(const uint64_t *)cfield(c, r);

	if (n)
		(void)fprintf(out, "%" PRIu64, n);
}

static int read_bool(struct ctx *x, const struct row *r, const char *v,
		     const struct eg_ini_pos *pos, struct eg_err *err)
{
	bool *b = field(x->c, r);

	(void)pos;
	if (!strcmp(v, "yes"))
		*b = true;
	else if (!strcmp(v, "no"))
		*b = false;
	else
		return eg_err_set(err, -EINVAL,
				  "%s=%.64s: yes or no is accepted", r->key, v);
	return 0;
}

static void print_bool(const struct eg_conf *c, const struct row *r, FILE *out)
{
	(void)fputs(*(const bool *)cfield(c, r) ? "yes" : "no", out);
}

static int read_prefix(struct ctx *x, const struct row *r, const char *v,
		       const struct eg_ini_pos *pos, struct eg_err *err)
{
	int ret = eg_prefix_parse(v, field(x->c, r), err);

	if (!strcmp(r->key, "prefix"))
		x->prefix_line = pos->line;
	else
		x->link_line = pos->line;
	return ret ? eg_err_wrap(err, "%s", r->key) : 0;
}

static void print_prefix(const struct eg_conf *c, const struct row *r,
			 FILE *out)
{
	char b[EG_PREFIX_TEXT];

	(void)fputs(eg_prefix_format(*(const struct eg_prefix *)cfield(c, r),
				     b), out);
}

/* A path; relative ones start at the configuration's own directory. */
static int path_put(const struct ctx *x, const char *v, char ret[EG_PATH],
		    const char *key, struct eg_err *err)
{
	const char *slash = strrchr(x->path, '/');
	EG_CLEANUP_FREE char *base = NULL;
	char dir[PATH_MAX], full[PATH_MAX];
	int n;

	if (!*v)
		return eg_err_set(err, -EINVAL, "%s is empty; a path is accepted",
				  key);
	(void)snprintf(dir, sizeof(dir), "%.*s",
		       slash ? (int)(slash - x->path) : 1,
		       slash ? x->path : ".");
	/* Roles change their root and directory: only absolute stays true. */
	base = *v == '/' ? NULL : realpath(dir[0] ? dir : "/", NULL);
	n = snprintf(full, sizeof(full), "%s%s%s",
		     *v == '/' ? "" : base ? base : dir, *v == '/' ? "" : "/",
		     v);
	if (n <= 0 || n >= EG_PATH)
		return eg_err_set(err, -ENAMETOOLONG,
				  "%s: the path is longer than %d bytes", key,
				  EG_PATH - 1);
	memcpy(ret, full, (size_t)n + 1);
	return 0;
}

static int read_path(struct ctx *x, const struct row *r, const char *v,
		     const struct eg_ini_pos *pos, struct eg_err *err)
{
	(void)pos;
	return path_put(x, v, field(x->c, r), r->key, err);
}

static void print_path(const struct eg_conf *c, const struct row *r, FILE *out)
{
	(void)fputs(cfield(c, r), out);
}

/* ---- single keys ------------------------------------------------------------------ */

static int read_prefill(struct ctx *x, const struct row *r, const char *v,
			const struct eg_ini_pos *pos, struct eg_err *err)
{
	const char *end;
	uint64_t n;

	(void)pos;
	if (!strcmp(v, "auto"))
		x->c->prefill = -1;
	else if (!strcmp(v, "all"))
		x->c->prefill = -2;
	else if (digits(v, &n, &end) && !*end && n <= EG_SLOTS_MAX)
		x->c->prefill = (int32_t)n;
	else
		return eg_err_set(err, -EINVAL,
				  "%s=%.64s: auto, all or a number of slots is accepted",
				  r->key, v);
	return 0;
}

static void print_prefill(const struct eg_conf *c, const struct row *r,
			  FILE *out)
{
	(void)r;
	if (c->prefill < 0)
		(void)fputs(c->prefill == -1 ? "auto" : "all", out);
	else
		(void)fprintf(out, "%" PRId32, c->prefill);
}

static int read_budget(struct ctx *x, const struct row *r, const char *v,
		       const struct eg_ini_pos *pos, struct eg_err *err)
{
	const char *end;
	uint64_t n;

	(void)pos;
	if (digits(v, &n, &end) && !strcmp(end, "%") && n >= 1 && n <= 100) {
		x->c->memory_budget_pct = (uint32_t)n;
		x->c->memory_budget = 0;
		return 0;
	}
	if (!*v || !size_parse(v, &x->c->memory_budget) ||
	    !x->c->memory_budget)
		return eg_err_set(err, -EINVAL,
				  "%s=%.64s: a share such as 25%% or a size such as 8G is accepted",
				  r->key, v);
	return 0;
}

static void print_budget(const struct eg_conf *c, const struct row *r,
			 FILE *out)
{
	(void)r;
	if (c->memory_budget)
		(void)fprintf(out, "%" PRIu64, c->memory_budget);
	else
		(void)fprintf(out, "%" PRIu32 "%%", c->memory_budget_pct);
}

static int read_names(struct ctx *x, const struct row *r, const char *v,
		      const struct eg_ini_pos *pos, struct eg_err *err)
{
	(void)pos;
	(void)x;
	if (!strcmp(v, "none"))
		return eg_err_set(err, -ENOTSUP,
				  "%s=none is not served yet; leased is", r->key);
	if (strcmp(v, "leased") != 0)
		return eg_err_set(err, -EINVAL,
				  "%s=%.64s: leased is accepted", r->key, v);
	return 0;
}

static void print_names(const struct eg_conf *c, const struct row *r, FILE *out)
{
	(void)c;
	(void)r;
	(void)fputs("leased", out);
}

static int read_mode(struct ctx *x, const struct row *r, const char *v,
		     const struct eg_ini_pos *pos, struct eg_err *err)
{
	(void)x;
	(void)pos;
	if (strcmp(v, "host") != 0)
		return eg_err_set(err, -EINVAL,
				  "%s=%.64s: host is accepted", r->key, v);
	return 0;
}

static void print_mode(const struct eg_conf *c, const struct row *r, FILE *out)
{
	(void)c;
	(void)r;
	(void)fputs("host", out);
}

static int upstream_one(struct eg_conf *c, const char *v, size_t n,
			struct eg_err *err)
{
	char text[64], *colon;
	struct eg_conf_upstream u = { .port = 53 };
	const char *end;
	uint64_t port;

	if (c->upstreams >= EG_CONF_UPSTREAMS)
		return eg_err_set(err, -E2BIG,
				  "more than %d upstream servers",
				  EG_CONF_UPSTREAMS);
	if (n >= sizeof(text))
		return eg_err_set(err, -EINVAL, "upstream is too long");
	memcpy(text, v, n);
	text[n] = '\0';
	colon = strchr(text, ':');
	if (colon) {
		*colon = '\0';
		if (!digits(colon + 1, &port, &end) || *end || !port ||
		    port > 65535)
			return eg_err_set(err, -EINVAL,
					  "'%s' is not a port; 1 to 65535 is accepted",
					  colon + 1);
		u.port = (uint16_t)port;
	}
	if (eg_addr_parse(text, &u.addr, err))
		return -EINVAL;
	c->upstream[c->upstreams++] = u;
	return 0;
}

static int read_upstream(struct ctx *x, const struct row *r, const char *v,
			 const struct eg_ini_pos *pos, struct eg_err *err)
{
	(void)pos;
	x->c->upstreams = 0;
	x->c->upstream_system = !strcmp(v, "system");
	if (x->c->upstream_system)
		return 0;
	while (*v) {
		size_t n = strcspn(v, ",");
		size_t lead = strspn(v, " ");
		size_t len = n - lead;

		while (len && v[lead + len - 1] == ' ')
			len--;
		if (upstream_one(x->c, v + lead, len, err))
			return eg_err_wrap(err, "%s", r->key);
		v += n + (v[n] == ',');
	}
	if (!x->c->upstreams)
		return eg_err_set(err, -EINVAL,
				  "%s is empty; system or ADDRESS[:PORT],... is accepted",
				  r->key);
	return 0;
}

static void print_upstream(const struct eg_conf *c, const struct row *r,
			   FILE *out)
{
	char b[EG_ADDR_TEXT];

	(void)r;
	if (c->upstream_system)
		(void)fputs("system", out);
	for (uint32_t i = 0; !c->upstream_system && i < c->upstreams; i++)
		(void)fprintf(out, "%s%s:%u", i ? "," : "",
			      eg_addr_format(c->upstream[i].addr, b),
			      c->upstream[i].port);
}

/* Two words, one of which sets the flag. */
static int read_choice(struct ctx *x, const struct row *r, const char *v,
		       const char *off, const char *on, struct eg_err *err)
{
	bool *b = field(x->c, r);

	if (!strcmp(v, off))
		*b = false;
	else if (!strcmp(v, on))
		*b = true;
	else
		return eg_err_set(err, -EINVAL, "%s=%.64s: %s or %s is accepted",
				  r->key, v, off, on);
	return 0;
}

static int read_rcode(struct ctx *x, const struct row *r, const char *v,
		      const struct eg_ini_pos *pos, struct eg_err *err)
{
	(void)pos;
	return read_choice(x, r, v, "nxdomain", "refused", err);
}

static void print_rcode(const struct eg_conf *c, const struct row *r, FILE *out)
{
	(void)fputs(*(const bool *)cfield(c, r) ? "refused" : "nxdomain", out);
}

static int read_deny(struct ctx *x, const struct row *r, const char *v,
		     const struct eg_ini_pos *pos, struct eg_err *err)
{
	(void)pos;
	return read_choice(x, r, v, "reject", "drop", err);
}

static void print_deny(const struct eg_conf *c, const struct row *r, FILE *out)
{
	(void)fputs(*(const bool *)cfield(c, r) ? "drop" : "reject", out);
}

static int read_denyfile(struct ctx *x, const struct row *r, const char *v,
			 const struct eg_ini_pos *pos, struct eg_err *err)
{
	(void)pos;
	x->deny_file_set = true;
	return path_put(x, v, x->deny_file, r->key, err);
}

/* "10.3.0.10/32 tcp/6443 tenant=acme,beta" */
static int permit_parse(const char *v, struct eg_conf_permit *p,
			struct eg_err *err)
{
	char dst[32] = "", port[32] = "", opt[300] = "", rest[8] = "";
	const char *end;
	uint64_t n;
	int k = sscanf(v, "%31s %31s %299s %7s", dst, port, opt, rest);

	if (k < 2 || k > 3 || (k == 3 && strncmp(opt, "tenant=", 7) != 0))
		return eg_err_set(err, -EINVAL,
				  "'%.100s': ADDRESS[/LEN] tcp/PORT[-PORT] [tenant=T,..] is accepted",
				  v);
	if (eg_prefix_parse(dst, &p->dst, err))
		return -EINVAL;
	if (!strncmp(port, "tcp/", 4))
		p->proto = IPPROTO_TCP;
	else if (!strncmp(port, "udp/", 4))
		p->proto = IPPROTO_UDP;
	else
		return eg_err_set(err, -EINVAL,
				  "'%s': tcp/PORT or udp/PORT is accepted", port);
	if (!digits(port + 4, &n, &end) || !n || n > 65535)
		goto bad;
	p->lo = p->hi = (uint16_t)n;
	if (*end == '-') {
		if (!digits(end + 1, &n, &end) || n < p->lo || n > 65535)
			goto bad;
		p->hi = (uint16_t)n;
	}
	if (*end)
		goto bad;
	if (k == 3 && strlen(opt + 7) >= sizeof(p->tenants))
		return eg_err_set(err, -E2BIG, "tenant= is too long");
	if (k == 3)
		memcpy(p->tenants, opt + 7, strlen(opt + 7) + 1);
	return 0;
bad:
	return eg_err_set(err, -EINVAL, "'%s': a port from 1 to 65535 or LO-HI is accepted",
			  port);
}

static int read_permit(struct ctx *x, const struct row *r, const char *v,
		       const struct eg_ini_pos *pos, struct eg_err *err)
{
	bool host = !strcmp(r->key, "permit_host");
	uint32_t *n = host ? &x->c->permits_host : &x->c->permits_private;
	struct eg_conf_permit *p = host ? x->c->permit_host :
					  x->c->permit_private;

	if (*n >= EG_CONF_PERMITS)
		return eg_err_set(err, -E2BIG, "more than %d %s lines",
				  EG_CONF_PERMITS, r->key);
	memset(&p[*n], 0, sizeof(p[*n]));
	p[*n].line = pos->line;
	if (permit_parse(v, &p[*n], err))
		return eg_err_wrap(err, "%s", r->key);
	if (host && p[*n].dst.len != 32)
		return eg_err_set(err, -EINVAL,
				  "%s opens one service: a single address is accepted, not %.40s",
				  r->key, v);
	(*n)++;
	return 0;
}

static int read_adopt(struct ctx *x, const struct row *r, const char *v,
		      const struct eg_ini_pos *pos, struct eg_err *err)
{
	(void)pos;
	x->c->adopt_dirs = 0;
	while (*v) {
		size_t n = strcspn(v, ":");

		if (x->c->adopt_dirs >= EG_CONF_ADOPT_DIRS || *v != '/' ||
		    n >= EG_PATH)
			return eg_err_set(err, -EINVAL,
					  "%s: up to %d absolute directories separated by ':' are accepted",
					  r->key, EG_CONF_ADOPT_DIRS);
		memcpy(x->c->adopt_from[x->c->adopt_dirs], v, n);
		x->c->adopt_from[x->c->adopt_dirs++][n] = '\0';
		v += n + (v[n] == ':');
	}
	return 0;
}

static void print_adopt(const struct eg_conf *c, const struct row *r, FILE *out)
{
	(void)r;
	for (uint32_t i = 0; i < c->adopt_dirs; i++)
		(void)fprintf(out, "%s%s", i ? ":" : "", c->adopt_from[i]);
}

static bool gid_find(const char *v, uint32_t *ret)
{
	struct group *g;
	const char *end;
	uint64_t n;

	if (digits(v, &n, &end) && !*end && n < UINT32_MAX) {
		*ret = (uint32_t)n;
		return true;
	}
	g = getgrnam(v);
	if (g)
		*ret = g->gr_gid;
	return g != NULL;
}

static bool uid_find(const char *v, uint32_t *ret, uint32_t *gid)
{
	struct passwd *p;
	const char *end;
	uint64_t n;

	if (digits(v, &n, &end) && !*end && n && n < UINT32_MAX) {
		*ret = *gid = (uint32_t)n;
		return true;
	}
	p = getpwnam(v);
	if (p) {
		*ret = p->pw_uid;
		*gid = p->pw_gid;
	}
	return p != NULL;
}

static int read_group(struct ctx *x, const struct row *r, const char *v,
		      const struct eg_ini_pos *pos, struct eg_err *err)
{
	(void)pos;
	if (!*v) {
		*(uint32_t *)field(x->c, r) = UINT32_MAX;
		return 0;
	}
	if (!gid_find(v, field(x->c, r)))
		return eg_err_set(err, -ENOENT,
				  "%s=%.64s: there is no such group; make it (groupadd --system) or give a number",
				  r->key, v);
	return 0;
}

static void print_group(const struct eg_conf *c, const struct row *r, FILE *out)
{
	uint32_t g = *(const uint32_t *)cfield(c, r);

	if (g != UINT32_MAX)
		(void)fprintf(out, "%" PRIu32, g);
}

static int read_uids(struct ctx *x, const struct row *r, const char *v,
		     const struct eg_ini_pos *pos, struct eg_err *err)
{
	(void)pos;
	x->c->adopt_uids = 0;
	while (*v) {
		const char *end = v;
		uint64_t n;

		if (x->c->adopt_uids >= EG_CONF_ADOPT_UIDS ||
		    !digits(v, &n, &end) || n >= UINT32_MAX ||
		    (*end && *end != ','))
			return eg_err_set(err, -EINVAL,
					  "%s=%.64s: up to %d numeric uids separated by ',' are accepted",
					  r->key, v, EG_CONF_ADOPT_UIDS);
		x->c->adopt_uid[x->c->adopt_uids++] = (uint32_t)n;
		v = end + (*end == ',');
	}
	return 0;
}

static void print_uids(const struct eg_conf *c, const struct row *r, FILE *out)
{
	(void)r;
	for (uint32_t i = 0; i < c->adopt_uids; i++)
		(void)fprintf(out, "%s%" PRIu32, i ? "," : "",
			      c->adopt_uid[i]);
}

static int read_listen(struct ctx *x, const struct row *r, const char *v,
		       const struct eg_ini_pos *pos, struct eg_err *err)
{
	struct eg_conf *one = calloc(1, sizeof(*one));
	int ret = 0;

	(void)pos;
	x->c->metrics_port = 0;
	if (!one)
		return eg_err_set(err, -ENOMEM, "out of memory");
	if (*v && (!strchr(v, ':') || upstream_one(one, v, strlen(v), err)))
		ret = eg_err_set(err, -EINVAL,
				 "%s=%.64s: ADDRESS:PORT is accepted, nothing for off",
				 r->key, v);
	if (!ret && *v) {
		x->c->metrics_addr = one->upstream[0].addr;
		x->c->metrics_port = one->upstream[0].port;
	}
	free(one);
	return ret;
}

static void print_listen(const struct eg_conf *c, const struct row *r,
			 FILE *out)
{
	char b[EG_ADDR_TEXT];

	(void)r;
	if (c->metrics_port)
		(void)fprintf(out, "%s:%u", eg_addr_format(c->metrics_addr, b),
			      c->metrics_port);
}

static int read_user(struct ctx *x, const struct row *r, const char *v,
		     const struct eg_ini_pos *pos, struct eg_err *err)
{
	uint32_t role = (uint32_t)r->min;

	(void)pos;
	if (!uid_find(v, &x->c->role_uid[role], &x->c->role_gid[role]))
		return eg_err_set(err, -ENOENT,
				  "%s=%.64s: there is no such user; make it (useradd --system) or give a uid above 0",
				  r->key, v);
	return 0;
}

static void print_user(const struct eg_conf *c, const struct row *r, FILE *out)
{
	(void)fprintf(out, "%" PRIu32, c->role_uid[r->min]);
}

#define OFF(f) offsetof(struct eg_conf, f)
#define PERIOD_MAX (100ULL * 365 * 86400)

/* Sections together and in the order they are printed. */
static const struct row rows[] = {
	{ "pool", "prefix", read_prefix, print_prefix, OFF(prefix), 0, 0 },
	{ "pool", "slots", read_u32, print_u32, OFF(slots), 1, EG_SLOTS_MAX },
	{ "pool", "slots_per_gateway", read_u32, print_u32,
	  OFF(slots_per_gateway), 1, 256 },
	{ "pool", "prefill", read_prefill, print_prefill, 0, 0, 0 },
	{ "pool", "memory_budget", read_budget, print_budget, 0, 0, 0 },
	{ "pool", "armed", read_u32, print_u32, OFF(armed), 1, EG_SLOTS_MAX },
	{ "pool", "netns_names", read_names, print_names, 0, 0, 0 },
	{ "uplink", "mode", read_mode, print_mode, 0, 0, 0 },
	{ "uplink", "masquerade", read_bool, print_bool, OFF(masquerade), 0, 0 },
	{ "uplink", "link_prefix", read_prefix, print_prefix, OFF(link_prefix),
	  0, 0 },
	{ "uplink", "mtu", read_u32, print_u32, OFF(mtu), 0, 65535 },
	{ "dns", "upstream", read_upstream, print_upstream, 0, 0, 0 },
	{ "dns", "min_ttl", read_time, print_time, OFF(min_ttl), 1, 86400 },
	{ "dns", "max_ttl", read_time, print_time, OFF(max_ttl), 1, 604800 },
	{ "dns", "grace", read_time, print_time, OFF(grace), 0, 86400 },
	{ "dns", "deny_rcode", read_rcode, print_rcode, OFF(deny_refused), 0, 0 },
	{ "dns", "rate", read_u32, print_u32, OFF(dns_rate), 1, 1000000 },
	{ "dns", "burst", read_u32, print_u32, OFF(dns_burst), 1, 1000000 },
	{ "rules", "deny", read_deny, print_deny, OFF(deny_drop), 0, 0 },
	{ "rules", "always_deny_file", read_denyfile, NULL, 0, 0, 0 },
	{ "rules", "permit_private", read_permit, NULL, 0, 0, 0 },
	{ "rules", "permit_host", read_permit, NULL, 0, 0, 0 },
	{ "audit", "dir", read_path, print_path, OFF(audit_dir), 0, 0 },
	{ "audit", "snaplen", read_u32, print_u32, OFF(snaplen), 64, 65535 },
	{ "audit", "max_lease_bytes", read_size, print_size,
	  OFF(max_lease_bytes), 0, 0 },
	{ "audit", "max_total_bytes", read_size, print_size,
	  OFF(max_total_bytes), 0, 0 },
	{ "audit", "keep_records", read_time, print_time, OFF(keep_records_s),
	  3600, PERIOD_MAX },
	{ "audit", "keep_pcap", read_time, print_time, OFF(keep_pcap_s), 3600,
	  PERIOD_MAX },
	{ "lease", "default_ttl", read_time, print_time, OFF(default_ttl_s), 1,
	  365 * 86400 },
	{ "lease", "max_ttl", read_time, print_time, OFF(max_ttl_s), 1,
	  365 * 86400 },
	{ "lease", "tombstone", read_time, print_time, OFF(tombstone_s), 0,
	  7 * 86400 },
	{ "lease", "adopt_from", read_adopt, print_adopt, 0, 0, 0 },
	{ "api", "socket", read_path, print_path, OFF(api_socket), 0, 0 },
	{ "api", "group", read_group, print_group, OFF(api_gid), 0, 0 },
	{ "api", "read_socket", read_path, print_path, OFF(read_socket), 0, 0 },
	{ "api", "read_group", read_group, print_group, OFF(read_gid), 0, 0 },
	{ "api", "admin_group", read_group, print_group, OFF(admin_gid), 0, 0 },
	{ "api", "adopt_uids", read_uids, print_uids, 0, 0, 0 },
	{ "api", "require_fence", read_bool, print_bool, OFF(require_fence), 0,
	  0 },
	{ "metrics", "listen", read_listen, print_listen, 0, 0, 0 },
	{ "roles", "api", read_user, print_user, 0, EG_ROLE_API, 0 },
	{ "roles", "dns", read_user, print_user, 0, EG_ROLE_DNS, 0 },
	{ "roles", "audit", read_user, print_user, 0, EG_ROLE_AUDIT, 0 },
	{ "paths", "run", read_path, print_path, OFF(run), 0, 0 },
	{ "paths", "state", read_path, print_path, OFF(state), 0, 0 },
	{ "paths", "netns", read_path, print_path, OFF(netns), 0, 0 },
	{ "paths", "policies", read_path, print_path, OFF(policies), 0, 0 },
};

/* ---- one setting ------------------------------------------------------------------- */

/* Edit distance of short words, for "did you mean". */
static unsigned int distance(const char *a, const char *b)
{
	unsigned int row[64], n = (unsigned int)strlen(b);

	if (n >= EG_ARRAY_SIZE(row))
		return UINT32_MAX;
	for (unsigned int j = 0; j <= n; j++)
		row[j] = j;
	for (unsigned int i = 1; *a; a++, i++) {
		unsigned int diag = row[0];

		row[0] = i;
		for (unsigned int j = 1; j <= n; j++) {
			unsigned int sub = diag + (*a != b[j - 1]);

			diag = row[j];
			row[j] = eg_min_u32(eg_min_u32(row[j], row[j - 1]) + 1,
					    sub);
		}
	}
	return row[n];
}

static int unknown(const char *section, const char *key, struct eg_err *err)
{
	const struct row *best = NULL;
	unsigned int d, least = UINT32_MAX;
	bool known = false;
	char list[200] = "";
	size_t n = 0;

	for (size_t i = 0; i < EG_ARRAY_SIZE(rows); i++) {
		if (strcmp(rows[i].section, section) != 0)
			continue;
		known = true;
		d = distance(key, rows[i].key);
		if (d < least) {
			least = d;
			best = &rows[i];
		}
		if (n < sizeof(list))
			n += (size_t)snprintf(list + n, sizeof(list) - n,
					      "%s%s", n ? ", " : "",
					      rows[i].key);
	}
	if (!known)
		return eg_err_set(err, -EINVAL,
				  "there is no section [%s]; pool, uplink, dns, rules, audit, lease, api, metrics, roles and paths are accepted",
				  section);
	if (best && least <= 2)
		return eg_err_set(err, -EINVAL,
				  "[%s] has no key '%s'; did you mean '%s'?",
				  section, key, best->key);
	return eg_err_set(err, -EINVAL, "[%s] has no key '%s'; it has %s",
			  section, key, list);
}

static int on_setting(void *arg, const char *section, const char *key,
		      const char *value, const struct eg_ini_pos *pos,
		      struct eg_err *err)
{
	for (size_t i = 0; i < EG_ARRAY_SIZE(rows); i++)
		if (!strcmp(rows[i].section, section) &&
		    !strcmp(rows[i].key, key))
			return rows[i].read(arg, &rows[i], value, pos, err);
	return unknown(section, key, err);
}

/* ---- the whole ------------------------------------------------------------------------ */

static void users_default(struct eg_conf *c)
{
	static const enum eg_role roles[] = { EG_ROLE_API, EG_ROLE_DNS,
					      EG_ROLE_AUDIT };
	char name[32];

	for (size_t i = 0; i < EG_ARRAY_SIZE(roles); i++) {
		enum eg_role r = roles[i];

		(void)snprintf(name, sizeof(name), "egressd-%s",
			       eg_role_name(r));
		if (!uid_find(name, &c->role_uid[r], &c->role_gid[r]))
			c->role_uid[r] = c->role_gid[r] = FALLBACK_UID + r;
	}
	if (!gid_find("egressd", &c->api_gid))
		c->api_gid = 0;
	if (!gid_find("egressd-audit", &c->read_gid))
		c->read_gid = 0;
	c->admin_gid = UINT32_MAX;
}

static void paths_default(struct eg_conf *c)
{
	(void)snprintf(c->run, EG_PATH, "/run/egressd");
	(void)snprintf(c->state, EG_PATH, "/var/lib/egressd");
	(void)snprintf(c->netns, EG_PATH, "/run/netns");
	(void)snprintf(c->policies, EG_PATH, "/etc/egressd/policy.d");
	c->adopt_dirs = 3;
	(void)snprintf(c->adopt_from[0], EG_PATH, "/run/netns");
	(void)snprintf(c->adopt_from[1], EG_PATH, "/var/run/netns");
	(void)snprintf(c->adopt_from[2], EG_PATH, "/run/docker/netns");
}

/* Paths that follow from others unless they are given. */
static void paths_derive(struct eg_conf *c)
{
	if (!c->audit_dir[0])
		(void)snprintf(c->audit_dir, EG_PATH, "%.90s/audit", c->state);
	if (!c->api_socket[0])
		(void)snprintf(c->api_socket, EG_PATH, "%.90s/api.sock",
			       c->run);
	if (!c->read_socket[0])
		(void)snprintf(c->read_socket, EG_PATH, "%.90s/read.sock",
			       c->run);
}

static void values_default(struct eg_conf *c)
{
	memset(c, 0, sizeof(*c));
	c->magic = EG_CONF_MAGIC;
	c->size = sizeof(*c);
	c->prefix = (struct eg_prefix){ 0x0ac80000, 16 };      /* 10.200/16 */
	c->link_prefix = (struct eg_prefix){ 0x0ac90000, 24 }; /* 10.201.0/24 */
	c->slots = EG_SLOTS_MAX;
	c->slots_per_gateway = 256;
	c->prefill = -1;
	c->memory_budget_pct = 25;
	c->armed = 256;
	c->masquerade = true;
	c->upstream_system = true;
	c->min_ttl = 60;
	c->max_ttl = 3600;
	c->grace = 60;
	c->dns_rate = 200;
	c->dns_burst = 400;
	c->snaplen = 128;
	c->keep_records_s = 400 * 86400;
	c->keep_pcap_s = 30 * 86400;
	c->default_ttl_s = 3600;
	c->max_ttl_s = 86400;
	c->tombstone_s = 3600;
	users_default(c);
	paths_default(c);
}

/* nameserver lines of resolv.conf(5); IPv6 ones are passed over. */
static int upstream_system(struct eg_conf *c, struct eg_err *err)
{
	FILE *f = fopen(RESOLV_CONF, "re");
	char line[256], addr[64];
	uint32_t a;

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "nameserver %63s", addr) == 1 &&
		    !eg_addr_parse(addr, &a, NULL) &&
		    c->upstreams < EG_CONF_UPSTREAMS)
			c->upstream[c->upstreams++] =
				(struct eg_conf_upstream){ a, 53 };
	if (f)
		(void)fclose(f);
	(void)err;
	/* None is no error: names are then answered with SERVFAIL. */
	return 0;
}

static int pool_check(const struct ctx *x, struct eg_err *err)
{
	struct eg_conf *c = x->c;
	uint64_t room = (1ULL << (32 - c->prefix.len)) / 4;
	char b[EG_PREFIX_TEXT], d[EG_PREFIX_TEXT];
	uint8_t want = 30;

	if (room < c->slots) {
		while ((1ULL << (32 - want)) / 4 < c->slots)
			want--;
		return eg_err_set(err, -EINVAL,
				  "%s:%u: [pool] prefix=%s holds %llu slots (a /30 each), slots=%u need a /%u; make the prefix larger or slots at most %llu",
				  x->path, x->prefix_line,
				  eg_prefix_format(c->prefix, b),
				  (unsigned long long)room, c->slots, want,
				  (unsigned long long)room);
	}
	c->gateways = (c->slots + c->slots_per_gateway - 1) /
		      c->slots_per_gateway;
	if (c->gateways > EG_GATEWAYS_MAX)
		return eg_err_set(err, -EINVAL,
				  "%s: slots=%u with slots_per_gateway=%u need %u gateways; at most %d are accepted, so slots_per_gateway at least %u",
				  x->path, c->slots, c->slots_per_gateway,
				  c->gateways, EG_GATEWAYS_MAX,
				  (c->slots + EG_GATEWAYS_MAX - 1) /
					  EG_GATEWAYS_MAX);
	if ((1ULL << (32 - c->link_prefix.len)) < 2ULL * c->gateways)
		return eg_err_set(err, -EINVAL,
				  "%s:%u: [uplink] link_prefix=%s is too small for %u gateways (two addresses each)",
				  x->path, x->link_line,
				  eg_prefix_format(c->link_prefix, b),
				  c->gateways);
	if (eg_prefix_overlap(c->prefix, c->link_prefix))
		return eg_err_set(err, -EINVAL,
				  "%s:%u: [uplink] link_prefix=%s overlaps [pool] prefix=%s",
				  x->path, x->link_line,
				  eg_prefix_format(c->link_prefix, b),
				  eg_prefix_format(c->prefix, d));
	return 0;
}

static int permits_check(const struct ctx *x, struct eg_err *err)
{
	const struct eg_conf *c = x->c;
	char b[EG_PREFIX_TEXT], d[EG_PREFIX_TEXT];

	for (uint32_t i = 0; i < c->permits_private; i++) {
		const struct eg_conf_permit *p = &c->permit_private[i];

		if (eg_prefix_overlap(p->dst, c->prefix) ||
		    eg_prefix_overlap(p->dst, c->link_prefix))
			return eg_err_set(err, -EINVAL,
					  "%s:%u: permit_private=%s overlaps the pool's own addresses, which are never allowed",
					  x->path, p->line,
					  eg_prefix_format(p->dst, b));
		for (uint32_t k = 0; k < c->denies; k++)
			if (c->deny[k].class != EG_DENY_PRIVATE &&
			    eg_prefix_overlap(p->dst, c->deny[k].dst))
				return eg_err_set(err, -EINVAL,
						  "%s:%u: permit_private=%s overlaps %s of the always-deny list, which nothing can allow",
						  x->path, p->line,
						  eg_prefix_format(p->dst, b),
						  eg_prefix_format(c->deny[k].dst,
								   d));
	}
	return 0;
}

static int whole_check(struct ctx *x, struct eg_err *err)
{
	struct eg_conf *c = x->c;
	char b[EG_ADDR_TEXT];
	int r = pool_check(x, err);

	if (r)
		return r;
	if (c->min_ttl > c->max_ttl)
		return eg_err_set(err, -EINVAL,
				  "%s: [dns] min_ttl=%us is more than max_ttl=%us",
				  x->path, c->min_ttl, c->max_ttl);
	if (c->default_ttl_s > c->max_ttl_s)
		return eg_err_set(err, -EINVAL,
				  "%s: [lease] default_ttl=%us is more than max_ttl=%us",
				  x->path, c->default_ttl_s, c->max_ttl_s);
	for (uint32_t i = 0; i < c->upstreams; i++)
		if (eg_prefix_has(c->prefix, c->upstream[i].addr) ||
		    eg_prefix_has(c->link_prefix, c->upstream[i].addr))
			return eg_err_set(err, -EINVAL,
					  "%s: [dns] upstream=%s is one of egressd's own addresses; name the host's resolver",
					  x->path,
					  eg_addr_format(c->upstream[i].addr,
							 b));
	return permits_check(x, err);
}

static int deny_load(struct ctx *x, struct eg_err *err)
{
	struct eg_err e = { 0 };
	int r;

	if (!x->deny_file_set &&
	    path_put(x, "always-deny", x->deny_file, "always_deny_file", &e))
		return np_denylist_builtin(x->c, err);
	r = np_denylist_load(x->deny_file, x->c, err);
	if (r == -ENOENT && !x->deny_file_set)
		return np_denylist_builtin(x->c, err);
	return r;
}

int np_conf_parse(const char *text, size_t len, const char *path,
		  struct eg_conf *ret, struct eg_err *err)
{
	EG_CLEANUP_FREE struct eg_conf *c = malloc(sizeof(*c));
	struct ctx x = { .c = c, .path = path };
	int r;

	if (!c)
		return eg_err_set(err, -ENOMEM, "out of memory");
	values_default(c);
	r = eg_ini_parse(text, len, path, on_setting, &x, err);
	if (r)
		return r;
	paths_derive(c);
	(void)snprintf(c->file, sizeof(c->file), "%.*s", EG_PATH - 1, path);
	if (c->upstream_system)
		r = upstream_system(c, err);
	if (!r)
		r = deny_load(&x, err);
	if (!r)
		r = whole_check(&x, err);
	if (!r)
		memcpy(ret, c, sizeof(*ret));
	return r;
}

int np_conf_defaults(struct eg_conf *ret, struct eg_err *err)
{
	return np_conf_parse("", 0, "/etc/egressd/egressd.conf", ret, err);
}

int np_conf_load(const char *path, struct eg_conf *ret, struct eg_err *err)
{
	EG_CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
	EG_CLEANUP_FREE char *text = NULL;
	size_t len;
	int r;

	if (fd < 0)
		return eg_err_sys(err, -errno, "open %s", path);
	r = eg_ini_load(fd, path, EG_INI_FILE, &text, &len, err);
	return r ? r : np_conf_parse(text, len, path, ret, err);
}

static void permits_print(const char *key, const struct eg_conf_permit *p,
			  uint32_t n, FILE *out)
{
	char b[EG_PREFIX_TEXT];

	for (uint32_t i = 0; i < n; i++) {
		(void)fprintf(out, "%s = %s %s/%u", key,
			      eg_prefix_format(p[i].dst, b),
			      p[i].proto == IPPROTO_TCP ? "tcp" : "udp",
			      p[i].lo);
		if (p[i].hi != p[i].lo)
			(void)fprintf(out, "-%u", p[i].hi);
		if (p[i].tenants[0])
			(void)fprintf(out, " tenant=%s", p[i].tenants);
		(void)fputc('\n', out);
	}
}

void np_conf_print(const struct eg_conf *c, FILE *out)
{
	const char *section = "";

	for (size_t i = 0; i < EG_ARRAY_SIZE(rows); i++) {
		const struct row *r = &rows[i];

		if (strcmp(section, r->section) != 0) {
			(void)fprintf(out, "%s[%s]\n", *section ? "\n" : "",
				      r->section);
			section = r->section;
		}
		if (!strcmp(r->key, "permit_private"))
			permits_print(r->key, c->permit_private,
				      c->permits_private, out);
		else if (!strcmp(r->key, "permit_host"))
			permits_print(r->key, c->permit_host, c->permits_host,
				      out);
		if (!r->print)
			continue;
		(void)fprintf(out, "%s = ", r->key);
		r->print(c, r, out);
		(void)fputc('\n', out);
	}
}

int np_conf_check_host(const struct eg_conf *c, const struct eg_prefix *net,
		       size_t n, struct eg_err *err)
{
	char b[EG_PREFIX_TEXT], d[EG_ADDR_TEXT];

	for (size_t i = 0; i < n; i++) {
		struct eg_prefix wide = { net[i].addr &
						  eg_prefix_mask(net[i].len),
					  net[i].len };
		bool pool = eg_prefix_overlap(c->prefix, wide);

		if (!net[i].len ||
		    (!pool && !eg_prefix_overlap(c->link_prefix, wide)))
			continue;
		return eg_err_set(err, -EADDRINUSE,
				  "[%s] %s=%s overlaps the host's own address %s/%u; choose a private prefix the host does not use",
				  pool ? "pool" : "uplink",
				  pool ? "prefix" : "link_prefix",
				  eg_prefix_format(pool ? c->prefix :
							  c->link_prefix, b),
				  eg_addr_format(net[i].addr, d), net[i].len);
	}
	return 0;
}
