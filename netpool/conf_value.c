// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: value types of egressd.conf: text to field and field to text
 *
 * Each pair is inverse of the other. Fields are assigned one by one, never as
 * whole structures: struct eg_conf goes to processes with less privilege and
 * must not carry bytes of our stack in its padding.
 */
#include "netpool/base/ini.h"
#include "netpool/base/log.h"
#include "netpool/base/util.h"
#include "netpool/base/value.h"
#include "netpool/conf_key.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <inttypes.h>
#include <pwd.h>
#include <string.h>

#define QUOTE 160
#define RESOLV_TEXT (64 * 1024) /* glibc reads three lines of it */
#define DNS_PORT 53
#define NO_ID UINT32_MAX

/* np_parse_word() also fills fields of two values. */
_Static_assert(sizeof(bool) == 1, "a word's field is one byte");

static void *field(struct eg_conf *conf, const struct np_conf_key *k)
{
	return (char *)conf + k->off;
}

static const void *cfield(const struct eg_conf *conf, const struct np_conf_key *k)
{
	return (const char *)conf + k->off;
}

static const char *quote(char buf[QUOTE], const char *text)
{
	return eg_escape(buf, QUOTE, text, strlen(text));
}

/*
 * Copy the next word of *p, up to a byte of @sep, into @buf.
 * Return: 1; 0 when there is none; -E2BIG when it does not fit.
 */
static int next_word(const char **p, const char *sep, char *buf, size_t cap)
{
	size_t n;

	*p += strspn(*p, sep);
	n = strcspn(*p, sep);
	if (!n)
		return 0;
	if (n >= cap)
		return -E2BIG;
	memcpy(buf, *p, n);
	buf[n] = '\0';
	*p += n;
	return 1;
}

int np_parse_uint(struct np_conf_ctx *c, const struct np_conf_key *k,
		  const char *text, struct eg_err *err)
{
	uint32_t *f = field(c->conf, k);
	uint64_t v;
	int rc = eg_uint_parse(text, k->min, k->max, &v, err);

	if (!rc)
		*f = (uint32_t)v;
	return rc;
}

void np_print_uint(const struct eg_conf *conf, const struct np_conf_key *k,
		   FILE *f)
{
	fprintf(f, "%u", *(const uint32_t *)cfield(conf, k));
}

int np_parse_duration(struct np_conf_ctx *c, const struct np_conf_key *k,
		      const char *text, struct eg_err *err)
{
	return eg_duration_parse(text, k->min, k->max, field(c->conf, k), err);
}

void np_print_duration(const struct eg_conf *conf, const struct np_conf_key *k,
		       FILE *f)
{
	char buf[EG_DURATION_TEXT];

	fputs(eg_duration_format(*(const uint32_t *)cfield(conf, k), buf), f);
}

/* Bytes; the empty value is 0, no limit. */
int np_parse_size(struct np_conf_ctx *c, const struct np_conf_key *k,
		  const char *text, struct eg_err *err)
{
	uint64_t *f = field(c->conf, k);

	*f = 0;
	return *text ? eg_size_parse(text, f, err) : 0;
}

void np_print_size(const struct eg_conf *conf, const struct np_conf_key *k,
		   FILE *f)
{
	uint64_t v = *(const uint64_t *)cfield(conf, k);
	char buf[EG_SIZE_TEXT];

	if (v)
		fputs(eg_size_format(v, buf), f);
}

int np_parse_bool(struct np_conf_ctx *c, const struct np_conf_key *k,
		  const char *text, struct eg_err *err)
{
	return eg_bool_parse(text, field(c->conf, k), err);
}

void np_print_bool(const struct eg_conf *conf, const struct np_conf_key *k,
		   FILE *f)
{
	fputs(*(const bool *)cfield(conf, k) ? "yes" : "no", f);
}

/* One of k->words; its index goes to a field of one byte. */
int np_parse_word(struct np_conf_ctx *c, const struct np_conf_key *k,
		  const char *text, struct eg_err *err)
{
	char list[128] = "", q[QUOTE];
	uint8_t *f = field(c->conf, k);
	size_t used = 0;

	for (uint8_t i = 0; k->words[i]; i++) {
		if (!strcmp(text, k->words[i])) {
			*f = i;
			return 0;
		}
		if (used < sizeof(list))
			used += (size_t)snprintf(list + used,
						 sizeof(list) - used, "%s%s",
						 i ? " or " : "", k->words[i]);
	}
	return eg_err_set(err, -EINVAL, "'%s' is not %s", quote(q, text), list);
}

void np_print_word(const struct eg_conf *conf, const struct np_conf_key *k,
		   FILE *f)
{
	fputs(k->words[*(const uint8_t *)cfield(conf, k)], f);
}

/* [uplink] mode has one value today and no field. */
int np_parse_mode(struct np_conf_ctx *c, const struct np_conf_key *k,
		  const char *text, struct eg_err *err)
{
	char q[QUOTE];

	(void)c;
	(void)k;
	if (!strcmp(text, "host"))
		return 0;
	return eg_err_set(err, -EINVAL, "'%s' is not host, the one mode there is",
			  quote(q, text));
}

void np_print_mode(const struct eg_conf *conf, const struct np_conf_key *k,
		   FILE *f)
{
	(void)conf;
	(void)k;
	fputs("host", f);
}

int np_parse_prefix(struct np_conf_ctx *c, const struct np_conf_key *k,
		    const char *text, struct eg_err *err)
{
	struct eg_prefix *f = field(c->conf, k), p;
	int rc = eg_prefix_parse(text, &p, err);

	if (rc)
		return rc;
	f->addr = p.addr;
	f->len = p.len;
	return 0;
}

void np_print_prefix(const struct eg_conf *conf, const struct np_conf_key *k,
		     FILE *f)
{
	const struct eg_prefix *p = cfield(conf, k);
	char buf[EG_PREFIX_TEXT];

	fputs(eg_prefix_format(*p, buf), f);
}

int np_conf_path(const struct np_conf_ctx *c, const char *text,
		 char ret[EG_PATH], struct eg_err *err)
{
	char full[NP_CONF_DIR + EG_INI_LINE], q[QUOTE];
	size_t n;

	if (!*text)
		return eg_err_set(err, -EINVAL, "the path is empty");
	if (strpbrk(text, " \t"))
		return eg_err_set(err, -EINVAL,
				  "path '%s' holds a blank; paths here may not",
				  quote(q, text));
	(void)snprintf(full, sizeof(full), "%s%s%s", *text == '/' ? "" : c->dir,
		       *text == '/' ? "" : "/", text);
	n = strlen(full);
	while (n > 1 && full[n - 1] == '/')
		full[--n] = '\0';
	if (n >= EG_PATH)
		return eg_err_set(
			err, -ENAMETOOLONG,
			"path '%s' is longer than %d bytes, which is what a unix socket's path may have",
			quote(q, full), EG_PATH - 1);
	memset(ret, 0, EG_PATH);
	memcpy(ret, full, n);
	return 0;
}

/* A path; the empty default is derived later from [paths]. */
int np_parse_path(struct np_conf_ctx *c, const struct np_conf_key *k,
		  const char *text, struct eg_err *err)
{
	char *f = field(c->conf, k);

	memset(f, 0, EG_PATH);
	if (!*text && k->def && !*k->def)
		return 0;
	return np_conf_path(c, text, f, err);
}

void np_print_path(const struct eg_conf *conf, const struct np_conf_key *k,
		   FILE *f)
{
	fputs((const char *)cfield(conf, k), f);
}

int np_parse_prefill(struct np_conf_ctx *c, const struct np_conf_key *k,
		     const char *text, struct eg_err *err)
{
	uint64_t v;
	char q[QUOTE];

	(void)k;
	if (!strcmp(text, "auto") || !strcmp(text, "all")) {
		c->conf->prefill = text[1] == 'u' ? -1 : -2;
		return 0;
	}
	if (eg_uint_parse(text, 0, EG_SLOTS_MAX, &v, NULL))
		return eg_err_set(
			err, -EINVAL,
			"'%s' is not auto, all or a number of slots up to %d",
			quote(q, text), EG_SLOTS_MAX);
	c->conf->prefill = (int32_t)v;
	return 0;
}

void np_print_prefill(const struct eg_conf *conf, const struct np_conf_key *k,
		      FILE *f)
{
	(void)k;
	if (conf->prefill >= 0)
		fprintf(f, "%d", conf->prefill);
	else
		fputs(conf->prefill == -1 ? "auto" : "all", f);
}

int np_parse_budget(struct np_conf_ctx *c, const struct np_conf_key *k,
		    const char *text, struct eg_err *err)
{
	size_t n = strlen(text);
	char num[8] = "", q[QUOTE];
	uint64_t v;

	(void)k;
	c->conf->memory_budget = 0;
	c->conf->memory_budget_pct = 0;
	if (n && text[n - 1] == '%') {
		if (n < sizeof(num))
			memcpy(num, text, n - 1);
		if (eg_uint_parse(num, 1, 95, &v, NULL))
			return eg_err_set(
				err, -EINVAL,
				"'%s' is not 1%% to 95%% of the host's memory",
				quote(q, text));
		c->conf->memory_budget_pct = (uint32_t)v;
		return 0;
	}
	if (eg_size_parse(text, &v, NULL) || v < 1024 * 1024)
		return eg_err_set(
			err, -EINVAL,
			"'%s' is neither a share such as 25%% nor a size of at least 1M such as 4G",
			quote(q, text));
	c->conf->memory_budget = v;
	return 0;
}

void np_print_budget(const struct eg_conf *conf, const struct np_conf_key *k,
		     FILE *f)
{
	char buf[EG_SIZE_TEXT];

	(void)k;
	if (conf->memory_budget)
		fputs(eg_size_format(conf->memory_budget, buf), f);
	else
		fprintf(f, "%u%%", conf->memory_budget_pct);
}

int np_parse_mtu(struct np_conf_ctx *c, const struct np_conf_key *k,
		 const char *text, struct eg_err *err)
{
	uint64_t v = 0;
	char q[QUOTE];

	if (strcmp(text, "auto") && eg_uint_parse(text, k->min, k->max, &v, NULL))
		return eg_err_set(err, -EINVAL,
				  "'%s' is neither auto nor a number from %u to %u",
				  quote(q, text), k->min, k->max);
	c->conf->mtu = (uint32_t)v;
	return 0;
}

void np_print_mtu(const struct eg_conf *conf, const struct np_conf_key *k,
		  FILE *f)
{
	(void)k;
	if (conf->mtu)
		fprintf(f, "%u", conf->mtu);
	else
		fputs("auto", f);
}

/* ADDRESS or ADDRESS:PORT. */
static int parse_endpoint(const char *text, uint16_t port, uint32_t *ret_addr,
			  uint16_t *ret_port, struct eg_err *err)
{
	const char *colon = strchr(text, ':');
	size_t n = colon ? (size_t)(colon - text) : strlen(text);
	char host[EG_ADDR_TEXT] = "", q[QUOTE];
	uint64_t v = port;
	uint32_t addr;

	if (n < sizeof(host))
		memcpy(host, text, n);
	if (eg_addr_parse(host, &addr, NULL) ||
	    (colon ? eg_uint_parse(colon + 1, 1, 65535, &v, NULL) : !port))
		return eg_err_set(err, -EINVAL, "'%s' is not %s", quote(q, text),
				  port ? "ADDRESS or ADDRESS:PORT (IPv4)"
				       : "ADDRESS:PORT (IPv4)");
	*ret_addr = addr;
	*ret_port = (uint16_t)v;
	return 0;
}

static int add_upstream(struct eg_conf *conf, const char *text, struct eg_err *err)
{
	struct eg_conf_upstream u = {0};
	char q[QUOTE];
	int rc = parse_endpoint(text, DNS_PORT, &u.addr, &u.port, err);

	if (rc)
		return rc;
	if (!(u.addr >> 24) || u.addr >> 28 >= 14)
		return eg_err_set(err, -EINVAL,
				  "'%s' is not the address of a name server",
				  quote(q, text));
	if (conf->upstreams == EG_CONF_UPSTREAMS)
		return eg_err_set(
			err, -E2BIG,
			"more than %d name servers; the first few are all that is ever asked",
			EG_CONF_UPSTREAMS);
	conf->upstream[conf->upstreams].addr = u.addr;
	conf->upstream[conf->upstreams++].port = u.port;
	return 0;
}

int np_parse_upstream(struct np_conf_ctx *c, const struct np_conf_key *k,
		      const char *text, struct eg_err *err)
{
	char word[64];
	int rc;

	(void)k;
	c->conf->upstreams = 0;
	c->conf->upstream_system = !strcmp(text, "system");
	if (c->conf->upstream_system)
		return 0; /* np_conf_resolv() later */
	while ((rc = next_word(&text, ", \t", word, sizeof(word))) > 0) {
		rc = add_upstream(c->conf, word, err);
		if (rc)
			return rc;
	}
	if (rc < 0 || !c->conf->upstreams)
		return eg_err_set(
			err, -EINVAL,
			"upstream is system or ADDRESS[:PORT],... of IPv4 name servers");
	return 0;
}

void np_print_upstream(const struct eg_conf *conf, const struct np_conf_key *k,
		       FILE *f)
{
	char buf[EG_ADDR_TEXT];

	(void)k;
	if (conf->upstream_system)
		fputs("system # ", f);
	for (uint32_t i = 0; i < conf->upstreams; i++)
		fprintf(f, "%s%s:%u", i ? "," : "",
			eg_addr_format(conf->upstream[i].addr, buf),
			conf->upstream[i].port);
}

/* One line of resolv.conf (resolv.conf(5)); IPv6 servers are passed over. */
static int resolv_line(struct np_conf_ctx *c, const char *line, struct eg_err *err)
{
	char word[64];

	if (next_word(&line, " \t\r", word, sizeof(word)) <= 0 ||
	    strcmp(word, "nameserver") ||
	    next_word(&line, " \t\r", word, sizeof(word)) <= 0 ||
	    strchr(word, ':') || c->conf->upstreams == EG_CONF_UPSTREAMS)
		return 0;
	return add_upstream(c->conf, word, err);
}

int np_conf_resolv(struct np_conf_ctx *c, struct eg_err *err)
{
	EG_CLEANUP_FD int fd = open(c->resolv, O_RDONLY | O_CLOEXEC);
	EG_CLEANUP_FREE char *text = NULL;
	char *p, *nl;
	size_t len;
	int rc;

	/*
	 * A host that has no resolver yet (or none at all) still gets its
	 * daemon: leases have to be taken over. Names are answered SERVFAIL,
	 * and the start says so.
	 */
	if (fd < 0 && errno == ENOENT)
		return 0;
	if (fd < 0)
		return eg_err_sys(err, -errno,
				  "upstream=system: cannot open '%s'", c->resolv);
	rc = eg_ini_read(c->resolv, fd, RESOLV_TEXT, &text, &len, err);
	if (rc)
		return rc;
	for (p = text; p; p = nl ? nl + 1 : NULL) {
		nl = strchr(p, '\n');
		if (nl)
			*nl = '\0';
		rc = resolv_line(c, p, err);
		if (rc)
			return eg_err_wrap(err, "upstream=system: %s", c->resolv);
	}
	return 0;
}

/* Absent, `builtin`, or a path; read by np_conf_deny_load(). */
int np_parse_deny_file(struct np_conf_ctx *c, const struct np_conf_key *k,
		       const char *text, struct eg_err *err)
{
	(void)k;
	c->deny_named = !c->defaulting;
	c->deny_builtin = !strcmp(text, "builtin");
	if (c->deny_builtin)
		return 0;
	return np_conf_path(c, text, c->conf->deny_file, err);
}

void np_print_deny_file(const struct eg_conf *conf, const struct np_conf_key *k,
			FILE *f)
{
	(void)k;
	fputs(conf->deny_file[0] ? conf->deny_file : "builtin", f);
}

/* The same characters as an API client may use for a tenant. */
static bool tenants_valid(const char *s)
{
	static const char first[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

	for (;;) {
		size_t n = strcspn(s, ",");

		if (!n || n >= EG_ID || !strchr(first, *s))
			return false;
		for (size_t i = 0; i < n; i++)
			if (!strchr(first, s[i]) && !strchr("._:@/+=-", s[i]))
				return false;
		if (!s[n])
			return true;
		s += n + 1;
	}
}

/* "tcp/6443,tcp/443": one permit a port, all else alike. */
static int add_permits(struct np_conf_ctx *c, const struct np_conf_key *k,
		       const struct eg_conf_permit *like, const char *ports,
		       struct eg_err *err)
{
	bool host = k->off == offsetof(struct eg_conf, permit_host);
	uint32_t *n = host ? &c->conf->permits_host : &c->conf->permits_private;
	struct eg_conf_permit *list = field(c->conf, k), *p;
	struct eg_port port;
	char word[EG_PORT_TEXT];
	int rc;

	while ((rc = next_word(&ports, ",", word, sizeof(word))) > 0) {
		rc = eg_port_parse(word, &port, err);
		if (rc)
			return rc;
		if (*n == EG_CONF_PERMITS)
			return eg_err_set(
				err, -E2BIG,
				"more than %d %s ports; use prefixes and port ranges",
				EG_CONF_PERMITS, k->name);
		p = &list[(*n)++];
		p->dst.addr = like->dst.addr;
		p->dst.len = like->dst.len;
		p->proto = port.proto;
		p->lo = port.lo;
		p->hi = port.hi;
		p->line = like->line;
		memcpy(p->tenants, like->tenants, sizeof(p->tenants));
	}
	if (rc < 0)
		return eg_err_set(err, -EINVAL,
				  "a port is longer than '%s' could be",
				  "sctp/65535-65535");
	return 0;
}

/* PREFIX PORTS [tenant=NAME,...] */
int np_parse_permit(struct np_conf_ctx *c, const struct np_conf_key *k,
		    const char *text, struct eg_err *err)
{
	bool host = k->off == offsetof(struct eg_conf, permit_host);
	struct eg_conf_permit p = {0};
	char dst[64], ports[512], opt[sizeof(p.tenants) + 16] = "", q[QUOTE];
	int rc;

	if (next_word(&text, " \t", dst, sizeof(dst)) <= 0 ||
	    next_word(&text, " \t", ports, sizeof(ports)) <= 0)
		return eg_err_set(
			err, -EINVAL, "%s wants %s PORTS%s", k->name,
			host ? "ADDRESS" : "PREFIX",
			", such as 10.3.0.10/32 tcp/6443,tcp/443 tenant=acme");
	rc = eg_prefix_parse(dst, &p.dst, err);
	if (rc)
		return rc;
	if (host && p.dst.len != 32)
		return eg_err_set(err, -EINVAL,
				  "'%s' is not one address of this host",
				  quote(q, dst));
	rc = next_word(&text, " \t", opt, sizeof(opt));
	if (rc > 0 && !strncmp(opt, "tenant=", 7) && tenants_valid(opt + 7) &&
	    strlen(opt + 7) < sizeof(p.tenants))
		memcpy(p.tenants, opt + 7, strlen(opt + 7));
	else if (rc)
		return eg_err_set(
			err, -EINVAL,
			"'%s' is not tenant=NAME,... (%zu bytes of names at most)",
			quote(q, rc < 0 ? text : opt), sizeof(p.tenants) - 1);
	if (text[strspn(text, " \t")])
		return eg_err_set(err, -EINVAL, "'%s' is one word too many",
				  quote(q, text + strspn(text, " \t")));
	p.line = c->now_line;
	return add_permits(c, k, &p, ports, err);
}

void np_print_permit(const struct eg_conf *conf, const struct np_conf_key *k,
		     FILE *f)
{
	bool host = k->off == offsetof(struct eg_conf, permit_host);
	uint32_t n = host ? conf->permits_host : conf->permits_private;
	const struct eg_conf_permit *p = cfield(conf, k);

	for (; n; n--, p++) {
		struct eg_port port = {
			.proto = p->proto, .lo = p->lo, .hi = p->hi};
		char dst[EG_PREFIX_TEXT], text[EG_PORT_TEXT];

		fprintf(f, "%s = %s %s%s%s\n", k->name,
			eg_prefix_format(p->dst, dst),
			eg_port_format(&port, text),
			p->tenants[0] ? " tenant=" : "", p->tenants);
	}
}

int np_parse_adopt_from(struct np_conf_ctx *c, const struct np_conf_key *k,
			const char *text, struct eg_err *err)
{
	char word[EG_PATH];
	int rc;

	(void)k;
	memset(c->conf->adopt_from, 0, sizeof(c->conf->adopt_from));
	c->conf->adopt_dirs = 0;
	while ((rc = next_word(&text, ":", word, sizeof(word))) > 0) {
		if (c->conf->adopt_dirs == EG_CONF_ADOPT_DIRS)
			return eg_err_set(err, -E2BIG, "more than %d directories",
					  EG_CONF_ADOPT_DIRS);
		rc = np_conf_path(c, word,
				  c->conf->adopt_from[c->conf->adopt_dirs], err);
		if (rc)
			return rc;
		c->conf->adopt_dirs++;
	}
	if (rc < 0)
		return eg_err_set(err, -ENAMETOOLONG,
				  "a directory is longer than %d bytes",
				  EG_PATH - 1);
	return 0;
}

void np_print_adopt_from(const struct eg_conf *conf,
			 const struct np_conf_key *k, FILE *f)
{
	(void)k;
	for (uint32_t i = 0; i < conf->adopt_dirs; i++)
		fprintf(f, "%s%s", i ? ":" : "", conf->adopt_from[i]);
}

int np_parse_group(struct np_conf_ctx *c, const struct np_conf_key *k,
		   const char *text, struct eg_err *err)
{
	uint32_t *f = field(c->conf, k);
	const struct group *g;
	char q[QUOTE];
	uint64_t v;

	if (!*text) {
		if (k->def && *k->def)
			return eg_err_set(
				err, -EINVAL,
				"the group is empty; write its name or number");
		*f = NO_ID;
		return 0;
	}
	if (!eg_uint_parse(text, 0, NO_ID - 1, &v, NULL)) {
		*f = (uint32_t)v;
		return 0;
	}
	g = getgrnam(text);
	if (!g && !c->defaulting)
		return eg_err_set(
			err, -ENOENT,
			"there is no group '%s' on this host; create it, or write another name or a number",
			quote(q, text));
	*f = g ? g->gr_gid : 0;
	return 0;
}

void np_print_group(const struct eg_conf *conf, const struct np_conf_key *k,
		    FILE *f)
{
	uint32_t v = *(const uint32_t *)cfield(conf, k);

	if (v != NO_ID)
		fprintf(f, "%u", v);
}

/* A user by name or number; its primary group too when it is known. */
static int find_user(const char *text, uint32_t *ret_uid, uint32_t *ret_gid,
		     struct eg_err *err)
{
	const struct passwd *pw;
	char q[QUOTE];
	uint64_t v;

	if (!eg_uint_parse(text, 0, NO_ID - 1, &v, NULL)) {
		pw = getpwuid((uid_t)v);
		*ret_uid = (uint32_t)v;
		*ret_gid = pw ? pw->pw_gid : (uint32_t)v;
		return 0;
	}
	pw = getpwnam(text);
	if (!pw)
		return eg_err_set(
			err, -ENOENT,
			"there is no user '%s' on this host; create it, or write another name or a number",
			quote(q, text));
	*ret_uid = pw->pw_uid;
	*ret_gid = pw->pw_gid;
	return 0;
}

int np_parse_uids(struct np_conf_ctx *c, const struct np_conf_key *k,
		  const char *text, struct eg_err *err)
{
	uint32_t gid;
	char word[64];
	int rc;

	(void)k;
	c->conf->adopt_uids = 0;
	while ((rc = next_word(&text, ", \t", word, sizeof(word))) > 0) {
		if (c->conf->adopt_uids == EG_CONF_ADOPT_UIDS)
			return eg_err_set(err, -E2BIG, "more than %d users",
					  EG_CONF_ADOPT_UIDS);
		rc = find_user(word, &c->conf->adopt_uid[c->conf->adopt_uids],
			       &gid, err);
		if (rc)
			return rc;
		c->conf->adopt_uids++;
	}
	return rc < 0 ? eg_err_set(err, -EINVAL, "a user name is too long") : 0;
}

void np_print_uids(const struct eg_conf *conf, const struct np_conf_key *k,
		   FILE *f)
{
	(void)k;
	for (uint32_t i = 0; i < conf->adopt_uids; i++)
		fprintf(f, "%s%u", i ? "," : "", conf->adopt_uid[i]);
}

int np_parse_listen(struct np_conf_ctx *c, const struct np_conf_key *k,
		    const char *text, struct eg_err *err)
{
	(void)k;
	c->conf->metrics_addr = 0;
	c->conf->metrics_port = 0;
	if (!*text)
		return 0;
	return parse_endpoint(text, 0, &c->conf->metrics_addr,
			      &c->conf->metrics_port, err);
}

void np_print_listen(const struct eg_conf *conf, const struct np_conf_key *k,
		     FILE *f)
{
	char buf[EG_ADDR_TEXT];

	(void)k;
	if (conf->metrics_port)
		fprintf(f, "%s:%u", eg_addr_format(conf->metrics_addr, buf),
			conf->metrics_port);
}

/* Which role a key of [roles] is about: its field is that of the uid. */
static uint32_t role_of(const struct np_conf_key *k)
{
	return (uint32_t)((k->off - offsetof(struct eg_conf, role_uid)) /
			  sizeof(uint32_t));
}

/* NAME, UID or UID:GID; an absent default user is a fixed number. */
int np_parse_role(struct np_conf_ctx *c, const struct np_conf_key *k,
		  const char *text, struct eg_err *err)
{
	uint32_t role = role_of(k), uid, gid;
	const char *colon = strchr(text, ':');
	uint64_t a, b;
	char num[16] = "";
	int rc;

	if (colon && (size_t)(colon - text) < sizeof(num)) {
		memcpy(num, text, (size_t)(colon - text));
		if (!eg_uint_parse(num, 0, NO_ID - 1, &a, NULL) &&
		    !eg_uint_parse(colon + 1, 0, NO_ID - 1, &b, NULL)) {
			c->conf->role_uid[role] = (uint32_t)a;
			c->conf->role_gid[role] = (uint32_t)b;
			return 0;
		}
	}
	rc = find_user(text, &uid, &gid, c->defaulting ? NULL : err);
	if (rc && c->defaulting)
		uid = gid = NP_CONF_UID_FALLBACK + role - EG_ROLE_API;
	else if (rc)
		return rc;
	c->conf->role_uid[role] = uid;
	c->conf->role_gid[role] = gid;
	return 0;
}

void np_print_role(const struct eg_conf *conf, const struct np_conf_key *k,
		   FILE *f)
{
	uint32_t role = role_of(k);

	fprintf(f, "%u:%u", conf->role_uid[role], conf->role_gid[role]);
}
