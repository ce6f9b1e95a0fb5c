// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: the policy parser (see parse.h; the language is egress-policy(5))
 *
 * A pure function of text, configuration and included texts. Words of an
 * entry are separated by blanks: destination, ports, options; why= takes the
 * rest of the line. Every error says where and what would be accepted.
 */
#include "rules/parse.h"
#include "netpool/base/ini.h"
#include "netpool/base/util.h"
#include "rules/canon.h"

#include <ctype.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PIN_PORTS 16 /* a pin is one element for each address and port */
#define BROAD_LEN 16 /* prefixes shorter than this are warned about */

struct parse {
	const struct rl_parse_env *env;
	const char *file;
	struct rl_prog *p;
	uint32_t room; /* entries allocated */
	struct rl_warnings *w;
	unsigned int depth;
	bool named;
};

/* Whole services behind one suffix: what they let out, said in a warning. */
static const struct {
	const char *suffix, *what;
} broad[] = {
	{ "amazonaws.com", "every bucket and queue of every AWS customer" },
	{ "googleapis.com", "every bucket and project of Google Cloud" },
	{ "windows.net", "every storage account of Azure" },
	{ "azure.com", "every service of Azure" },
	{ "cloudfront.net", "every CloudFront customer" },
	{ "github.com", "every repository and gist" },
	{ "githubusercontent.com", "every repository's and gist's files" },
	{ "gitlab.com", "every repository and snippet" },
	{ "bitbucket.org", "every repository" },
	{ "fastly.net", "every Fastly customer" },
	{ "azureedge.net", "every Azure CDN customer" },
	{ "herokuapp.com", "every Heroku application" },
	{ "vercel.app", "every Vercel application" },
	{ "workers.dev", "every Cloudflare worker" },
	{ "pages.dev", "every Cloudflare page" },
	{ "web.app", "every Firebase site" },
	{ "ngrok.io", "a tunnel of anyone" },
};

/* Public suffixes of two labels under which a wildcard needs a third. */
static const char *const two_level[] = {
	"co.uk",  "org.uk", "ac.uk",  "gov.uk", "com.au", "net.au",
	"org.au", "co.jp",  "co.nz",  "com.br", "co.in",  "co.za",
	"com.cn", "com.tr", "com.mx", "co.kr",	"com.sg", "github.io",
};

static void warn(struct parse *s, const struct eg_ini_pos *pos,
		 const char *fmt, ...) __attribute__((format(printf, 3, 4)));

static void warn(struct parse *s, const struct eg_ini_pos *pos,
		 const char *fmt, ...)
{
	char text[160];
	va_list ap;

	if (!s->w || s->w->n++ >= RL_WARNINGS)
		return;
	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	(void)snprintf(s->w->text[s->w->n - 1], sizeof(s->w->text[0]),
		       "line %u: %s", pos->line, text);
}

/* ---- destinations ------------------------------------------------------------------- */

static bool looks_like_address(const char *t)
{
	return t[strspn(t, "0123456789./")] == '\0';
}

static int wildcard_check(const struct eg_name *n, const char *text,
			  struct eg_err *err)
{
	struct eg_name two;

	if (eg_name_labels(n) < 2)
		return eg_err_set(err, -EINVAL,
				  "'%.80s': a wildcard needs at least two labels after it, such as *.example.com",
				  text);
	for (size_t i = 0; i < EG_ARRAY_SIZE(two_level); i++)
		if (!eg_name_parse(two_level[i], &two, NULL) &&
		    eg_name_equal(n, &two))
			return eg_err_set(err, -EINVAL,
					  "'%.80s': %s is a public suffix, anyone can register below it; name one label more",
					  text, two_level[i]);
	return 0;
}

int rl_dest_parse(const char *text, struct rl_entry *ret, struct eg_err *err)
{
	const char *name = text;
	int r;

	if (looks_like_address(text)) {
		ret->kind = RL_PREFIX;
		return eg_prefix_parse(text, &ret->dst, err);
	}
	ret->kind = RL_EXACT;
	if (!strncmp(text, "**.", 3)) {
		ret->kind = RL_MANY;
		name = text + 3;
	} else if (!strncmp(text, "*.", 2)) {
		ret->kind = RL_ONE;
		name = text + 2;
	}
	if (strchr(name, '*'))
		return eg_err_set(err, -EINVAL,
				  "'%.80s': '*' stands for a whole first label only: *.example.com (one label) or **.example.com (one or more)",
				  text);
	r = eg_name_parse(name, &ret->name, err);
	if (r)
		return eg_err_wrap(err, "'%.80s'", text);
	if (ret->kind != RL_EXACT)
		return wildcard_check(&ret->name, text, err);
	if (eg_name_labels(&ret->name) < 2)
		return eg_err_set(err, -EINVAL,
				  "'%.80s': a name has at least two labels", text);
	return 0;
}

/* ---- ports --------------------------------------------------------------------------- */

static bool number(const char *t, size_t n, unsigned int max,
		   unsigned int *ret)
{
	unsigned int v = 0;

	if (!n || n > 5)
		return false;
	for (size_t i = 0; i < n; i++) {
		if (!isdigit((unsigned char)t[i]))
			return false;
		v = v * 10 + (unsigned int)(t[i] - '0');
	}
	*ret = v;
	return v <= max;
}

static int proto_parse(const char *t, size_t n, struct eg_err *err)
{
	static const struct {
		const char *name;
		uint8_t proto;
	} names[] = {
		{ "tcp", IPPROTO_TCP },	  { "udp", IPPROTO_UDP },
		{ "icmp", IPPROTO_ICMP }, { "sctp", IPPROTO_SCTP },
		{ "dccp", IPPROTO_DCCP }, { "udplite", IPPROTO_UDPLITE },
	};
	unsigned int v;

	for (size_t i = 0; i < EG_ARRAY_SIZE(names); i++)
		if (strlen(names[i].name) == n && !strncmp(names[i].name, t, n))
			return names[i].proto;
	if (number(t, n, 254, &v) && v)
		return (int)v;
	return eg_err_set(err, -EINVAL,
			  "'%.*s' is not a protocol; tcp, udp, icmp, sctp or a number from 1 to 254 is accepted",
			  (int)(n < 40 ? n : 40), t);
}

static bool proto_has_ports(uint8_t p)
{
	return p == IPPROTO_TCP || p == IPPROTO_UDP || p == IPPROTO_SCTP ||
	       p == IPPROTO_DCCP || p == IPPROTO_UDPLITE;
}

/* "443", "8000-8099"; for icmp a type. */
static int range_parse(const char *t, size_t n, struct eg_port *p,
		       struct eg_err *err)
{
	const char *dash = memchr(t, '-', n);
	size_t first = dash ? (size_t)(dash - t) : n;
	unsigned int lo, hi, max = p->proto == IPPROTO_ICMP ? 255 : 65535;
	unsigned int min = p->proto == IPPROTO_ICMP ? 0 : 1;

	if (!number(t, first, max, &lo) ||
	    (dash && !number(dash + 1, n - first - 1, max, &hi)))
		return eg_err_set(err, -EINVAL,
				  "'%.*s' is not a %s; %u to %u or LO-HI is accepted",
				  (int)(n < 40 ? n : 40), t,
				  p->proto == IPPROTO_ICMP ? "type" : "port",
				  min, max);
	if (!dash)
		hi = lo;
	if (lo < min || hi < lo)
		return eg_err_set(err, -EINVAL,
				  "'%.*s': a range goes from the smaller to the larger, from %u on",
				  (int)(n < 40 ? n : 40), t, min);
	p->lo = (uint16_t)lo;
	p->hi = (uint16_t)hi;
	if ((p->proto == IPPROTO_TCP || p->proto == IPPROTO_UDP) && lo <= 53 &&
	    hi >= 53)
		return eg_err_set(err, -EINVAL,
				  "'%.*s' contains port 53, which always goes to the DNS guard; leave it out",
				  (int)(n < 40 ? n : 40), t);
	return 0;
}

/* "tcp/443" or, as people also write it, "443/tcp"; "gre" alone. */
static int port_parse(const char *t, size_t n, struct eg_port *ret,
		      struct eg_err *err)
{
	const char *slash = memchr(t, '/', n);
	struct eg_port p = { .lo = 0, .hi = 65535 };
	const char *proto = t, *range = slash ? slash + 1 : NULL;
	size_t pn = slash ? (size_t)(slash - t) : n;
	size_t rn = slash ? n - pn - 1 : 0;
	int r;

	if (slash && pn && isdigit((unsigned char)*t) && rn &&
	    isalpha((unsigned char)*range)) {
		proto = range;
		range = t;
		r = (int)pn;
		pn = rn;
		rn = (size_t)r;
	}
	r = proto_parse(proto, pn, err);
	if (r < 0)
		return r;
	p.proto = (uint8_t)r;
	if (!proto_has_ports(p.proto) && p.proto != IPPROTO_ICMP && range)
		return eg_err_set(err, -EINVAL,
				  "protocol %u has no ports; write it alone",
				  p.proto);
	if (!range && (proto_has_ports(p.proto) || p.proto == IPPROTO_ICMP))
		return eg_err_set(err, -EINVAL,
				  "'%.*s' lacks its %s: %.*s/NUMBER",
				  (int)(n < 40 ? n : 40), t,
				  p.proto == IPPROTO_ICMP ? "type" : "port",
				  (int)(pn < 20 ? pn : 20), proto);
	r = range ? range_parse(range, rn, &p, err) : 0;
	if (!r)
		*ret = p;
	return r;
}

static int ports_parse(struct rl_entry *e, const char *t, struct eg_err *err)
{
	while (*t) {
		size_t n = strcspn(t, ",");
		int r;

		if (e->nports >= RL_PORTS)
			return eg_err_set(err, -E2BIG,
					  "more than %d ports in one entry; write a second entry",
					  RL_PORTS);
		r = port_parse(t, n, &e->port[e->nports], err);
		if (r)
			return r;
		e->nports++;
		t += n + (t[n] == ',');
	}
	return 0;
}

/* ---- options ------------------------------------------------------------------------------ */

static int opt_private(struct rl_entry *e, const char *v, struct eg_err *err)
{
	char one[32];

	if (e->kind == RL_PREFIX)
		return eg_err_set(err, -EINVAL,
				  "private= belongs to a name; an address entry needs permit_private alone");
	while (*v) {
		size_t n = strcspn(v, ",");

		if (e->nprivate >= RL_PRIVATE || n >= sizeof(one))
			return eg_err_set(err, -EINVAL,
					  "private= takes up to %d prefixes separated by ','",
					  RL_PRIVATE);
		memcpy(one, v, n);
		one[n] = '\0';
		if (eg_prefix_parse(one, &e->private[e->nprivate++], err))
			return -EINVAL;
		v += n + (v[n] == ',');
	}
	return 0;
}

static int opt_hold(struct rl_entry *e, const char *v, struct eg_err *err)
{
	if (strcmp(v, "run") != 0)
		return eg_err_set(err, -EINVAL,
				  "hold=%.40s: run is accepted", v);
	e->flags |= RL_F_HOLD_RUN;
	return 0;
}

static int opt_chain(struct rl_entry *e, const char *v, struct eg_err *err)
{
	if (strcmp(v, "listed") != 0)
		return eg_err_set(err, -EINVAL,
				  "chain=%.40s: listed is accepted", v);
	e->flags |= RL_F_CHAIN_LISTED;
	return 0;
}

static int opt_underscore(struct rl_entry *e, const char *v,
			  struct eg_err *err)
{
	if (strcmp(v, "yes") != 0)
		return eg_err_set(err, -EINVAL,
				  "underscore=%.40s: yes is accepted", v);
	e->flags |= RL_F_UNDERSCORE;
	return 0;
}

static int opt_max_names(struct rl_entry *e, const char *v, struct eg_err *err)
{
	unsigned int n;

	if (!number(v, strlen(v), 65535, &n) || !n)
		return eg_err_set(err, -EINVAL,
				  "max_names=%.40s: 1 to 65535 is accepted", v);
	if (e->kind != RL_ONE && e->kind != RL_MANY)
		return eg_err_set(err, -EINVAL,
				  "max_names= belongs to a wildcard; this entry names one destination");
	e->max_names = n;
	return 0;
}

static int opt_types(struct rl_entry *e, const char *v, struct eg_err *err)
{
	static const char *const names[] = { "A", "AAAA", "SRV",
					     "CAA", "MX", "TXT" };

	while (*v) {
		size_t n = strcspn(v, ","), i;

		for (i = 0; i < EG_ARRAY_SIZE(names); i++)
			if (strlen(names[i]) == n && !strncmp(names[i], v, n))
				break;
		if (i == EG_ARRAY_SIZE(names))
			return eg_err_set(err, -EINVAL,
					  "types=%.40s: A, AAAA, SRV, CAA, MX and TXT are accepted",
					  v);
		e->types |= 1U << i;
		v += n + (v[n] == ',');
	}
	return 0;
}

static int opt_tls(struct rl_entry *e, const char *v, struct eg_err *err)
{
	if (!strcmp(v, "any"))
		e->tls = RL_TLS_ANY;
	else if (!strcmp(v, "sni"))
		return eg_err_set(err, -ENOTSUP,
				  "tls=sni needs the SNI gate, which this version does not have; any is accepted");
	else
		return eg_err_set(err, -EINVAL,
				  "tls=%.40s: sni or any is accepted", v);
	return 0;
}

/* The entry ends when that day (UTC) begins. */
static int opt_until(struct rl_entry *e, const char *v, struct eg_err *err)
{
	struct tm tm = { 0 }, back;
	int n = 0;
	time_t t;

	if (sscanf(v, "%4d-%2d-%2d%n", &tm.tm_year, &tm.tm_mon, &tm.tm_mday,
		   &n) != 3 ||
	    n != 10 || v[n])
		goto bad;
	tm.tm_year -= 1900;
	tm.tm_mon -= 1;
	back = tm;
	t = timegm(&back);
	if (t <= 0 || back.tm_mday != tm.tm_mday || back.tm_mon != tm.tm_mon)
		goto bad;
	e->until = t;
	return 0;
bad:
	return eg_err_set(err, -EINVAL,
			  "until=%.40s: a date such as 2027-03-01 is accepted",
			  v);
}

static const struct {
	const char *key;
	int (*parse)(struct rl_entry *e, const char *v, struct eg_err *err);
} entry_options[] = {
	{ "private", opt_private },   { "hold", opt_hold },
	{ "chain", opt_chain },	      { "underscore", opt_underscore },
	{ "max_names", opt_max_names }, { "types", opt_types },
	{ "tls", opt_tls },	      { "until", opt_until },
};

static int option_parse(struct rl_entry *e, const char *word,
			struct eg_err *err)
{
	const char *eq = strchr(word, '=');
	size_t n = eq ? (size_t)(eq - word) : 0;

	for (size_t i = 0; eq && i < EG_ARRAY_SIZE(entry_options); i++)
		if (strlen(entry_options[i].key) == n &&
		    !strncmp(entry_options[i].key, word, n)) {
			if (!eq[1])
				return eg_err_set(err, -EINVAL,
						  "%s= lacks its value",
						  entry_options[i].key);
			return entry_options[i].parse(e, eq + 1, err);
		}
	return eg_err_set(err, -EINVAL,
			  "'%.60s' is not an option; private=, hold=, chain=, max_names=, types=, tls=, underscore=, until= and why= are accepted",
			  word);
}

/* ---- entries ---------------------------------------------------------------------------------- */

/* Shift the column of an error to the word it is about. */
static int at_word(const struct eg_ini_pos *pos, size_t off, int r)
{
	((struct eg_ini_pos *)(uintptr_t)pos)->col += (unsigned int)off;
	return r;
}

/* What can never be allowed, by nobody, is refused as early as here. */
static int denied_check(const struct parse *s, const struct rl_entry *e,
			struct eg_err *err)
{
	const struct eg_conf *c = s->env->conf;
	char b[EG_PREFIX_TEXT], d[EG_NAME_TEXT];

	if (!c)
		return 0;
	for (uint32_t i = 0; e->kind == RL_PREFIX && i < c->denies; i++)
		if (c->deny[i].class != EG_DENY_PRIVATE &&
		    c->deny[i].dst.len <= e->dst.len &&
		    eg_prefix_has(c->deny[i].dst, e->dst.addr))
			return eg_err_set(err, -EPERM,
					  "%s is %s and can be allowed by no policy",
					  eg_prefix_format(e->dst, b),
					  c->deny[i].class == EG_DENY_METADATA ?
						  "a credential or platform endpoint (metadata)" :
						  "reserved");
	for (uint32_t i = 0; e->kind != RL_PREFIX && i < c->deny_names; i++)
		if (eg_name_below(&e->name, &c->deny_name[i].name) >= 0)
			return eg_err_set(err, -EPERM,
					  "%.120s is in the always-deny list (metadata) and can be allowed by no policy",
					  eg_name_format(&e->name, d));
	if (e->kind == RL_PREFIX &&
	    (eg_prefix_has(c->prefix, e->dst.addr) ||
	     eg_prefix_has(c->link_prefix, e->dst.addr)))
		return eg_err_set(err, -EPERM,
				  "%s lies in egressd's own addresses, which are always denied",
				  eg_prefix_format(e->dst, b));
	return 0;
}

static void broad_check(struct parse *s, struct rl_entry *e,
			const struct eg_ini_pos *pos)
{
	char b[EG_PREFIX_TEXT];
	struct eg_name n;

	if (e->flags & RL_F_DENY)
		return;
	if (e->kind == RL_PREFIX && e->dst.len < BROAD_LEN) {
		e->flags |= RL_F_BROAD;
		warn(s, pos, "%s lets out %llu addresses",
		     eg_prefix_format(e->dst, b), 1ULL << (32 - e->dst.len));
	}
	for (size_t i = 0; e->kind != RL_PREFIX && i < EG_ARRAY_SIZE(broad);
	     i++) {
		int below;

		if (eg_name_parse(broad[i].suffix, &n, NULL))
			continue;
		below = eg_name_below(&e->name, &n);
		if (below == 0) {
			e->flags |= RL_F_BROAD;
			warn(s, pos, "%s%s lets out to %s",
			     e->kind == RL_ONE	? "*." :
			     e->kind == RL_MANY ? "**." : "",
			     broad[i].suffix, broad[i].what);
		}
	}
}

static int pin_ports_check(const struct rl_entry *e, struct eg_err *err)
{
	unsigned int n = 0;

	if (e->kind == RL_PREFIX || e->flags & RL_F_DENY)
		return 0;
	for (unsigned int i = 0; i < e->nports; i++) {
		const struct eg_port *p = &e->port[i];

		if (!proto_has_ports(p->proto) && p->proto != IPPROTO_ICMP)
			return eg_err_set(err, -EINVAL,
					  "protocol %u of a name; a name entry may list tcp, udp, sctp and icmp, other protocols need an address",
					  p->proto);
		n += (unsigned int)(p->hi - p->lo) + 1;
	}
	if (n > PIN_PORTS)
		return eg_err_set(err, -E2BIG,
				  "%u ports for one name; a name entry may have %d (each address of an answer is pinned on each port), an address entry any range",
				  n, PIN_PORTS);
	return 0;
}

static struct rl_entry *entry_new(struct parse *s, struct eg_err *err)
{
	if (s->p->nentries >= RL_ENTRIES) {
		(void)eg_err_set(err, -E2BIG, "more than %d entries",
				 RL_ENTRIES);
		return NULL;
	}
	if (s->p->nentries == s->room) {
		uint32_t room = s->room ? 2 * s->room : 32;
		struct rl_prog *p = realloc(s->p, sizeof(*p) +
					    room * sizeof(p->entry[0]));

		if (!p) {
			(void)eg_err_set(err, -ENOMEM, "out of memory");
			return NULL;
		}
		s->p = p;
		s->room = room;
	}
	memset(&s->p->entry[s->p->nentries], 0, sizeof(struct rl_entry));
	return &s->p->entry[s->p->nentries];
}

static int word_parse(struct parse *s, struct rl_entry *e, char *word,
		      unsigned int index, struct eg_err *err)
{
	int r;

	if (!index) {
		r = rl_dest_parse(word, e, err);
		return r ? r : denied_check(s, e, err);
	}
	if (index == 1 && !strchr(word, '='))
		return ports_parse(e, word, err);
	return option_parse(e, word, err);
}

/* The words of an allow or deny line. */
static int words_parse(struct parse *s, struct rl_entry *e, const char *value,
		       const struct eg_ini_pos *pos, struct eg_err *err)
{
	char word[EG_INI_LINE + 1];
	const char *t = value + strspn(value, " \t");
	unsigned int index = 0;

	while (*t) {
		size_t n = strcspn(t, " \t");
		int r;

		if (index && !strncmp(t, "why=", 4)) {
			if (strlen(t + 4) >= RL_WHY)
				return at_word(pos, (size_t)(t - value),
					       eg_err_set(err, -E2BIG,
							  "why= of more than %d bytes",
							  RL_WHY - 1));
			memcpy(e->why, t + 4, strlen(t + 4));
			return 0;
		}
		memcpy(word, t, n);
		word[n] = '\0';
		r = word_parse(s, e, word, index++, err);
		if (r)
			return at_word(pos, (size_t)(t - value), r);
		t += n;
		t += strspn(t, " \t");
	}
	if (!index)
		return eg_err_set(err, -EINVAL,
				  "an empty entry; DESTINATION [PORTS] [OPTIONS] is accepted");
	return 0;
}

static int entry_parse(struct parse *s, const char *value, uint32_t phases,
		       bool deny, const struct eg_ini_pos *pos,
		       struct eg_err *err)
{
	struct rl_entry *e = entry_new(s, err);
	int r;

	if (!e)
		return -ENOMEM;
	e->phases = phases;
	e->line = pos->line;
	e->flags = deny ? RL_F_DENY : 0;
	r = words_parse(s, e, value, pos, err);
	if (!r && !e->nports && !deny)
		e->port[e->nports++] =
			(struct eg_port){ .proto = IPPROTO_TCP, .lo = 443,
					  .hi = 443 };
	if (!r)
		r = pin_ports_check(e, err);
	if (r)
		return r;
	broad_check(s, e, pos);
	s->p->nentries++;
	return 0;
}

static int host_parse(struct parse *s, const char *value,
		      const struct eg_ini_pos *pos, struct eg_err *err)
{
	struct rl_entry *e = entry_new(s, err);
	char name[300] = "", addr[32] = "", rest[4] = "";
	int r;

	if (!e)
		return -ENOMEM;
	if (sscanf(value, "%299s %31s %3s", name, addr, rest) != 2)
		return eg_err_set(err, -EINVAL,
				  "'%.80s': NAME ADDRESS is accepted", value);
	e->phases = RL_PHASES_ALL;
	e->line = pos->line;
	r = eg_name_parse(name, &e->name, err);
	if (!r)
		r = eg_addr_parse(addr, &e->dst.addr, err);
	if (r)
		return r;
	e->kind = RL_HOST;
	e->dst.len = 32;
	r = denied_check(s, e, err);
	if (!r)
		s->p->nentries++;
	return r;
}

/* ---- sections ------------------------------------------------------------------------------------ */

static bool phase_ok(const char *t, size_t n)
{
	if (!n || n >= EG_PHASE || !islower((unsigned char)*t))
		return false;
	for (size_t i = 0; i < n; i++)
		if (!islower((unsigned char)t[i]) &&
		    !isdigit((unsigned char)t[i]) && t[i] != '-')
			return false;
	return true;
}

static int phase_bit(struct parse *s, const char *t, size_t n,
		     struct eg_err *err)
{
	struct rl_prog *p = s->p;

	if (!phase_ok(t, n))
		return eg_err_set(err, -EINVAL,
				  "'%.*s' is not a phase; a small letter, then small letters, digits and '-', at most 32, is accepted",
				  (int)(n < 40 ? n : 40), t);
	if (n == 9 && !strncmp(t, "preflight", 9))
		return eg_err_set(err, -EINVAL,
				  "phase preflight is reserved; it has every phase's entries by itself");
	for (uint32_t i = 0; i < p->nphases; i++)
		if (strlen(p->phase[i]) == n && !strncmp(p->phase[i], t, n))
			return (int)i;
	if (p->nphases >= EG_PHASES)
		return eg_err_set(err, -E2BIG, "more than %d phases",
				  EG_PHASES);
	memcpy(p->phase[p->nphases], t, n);
	return (int)p->nphases++;
}

/* "allow" or "allow plan apply" to bits. */
static int phases_of(struct parse *s, const char *section, uint32_t *ret,
		     struct eg_err *err)
{
	const char *t = section + 5;

	*ret = 0;
	while (*(t += strspn(t, " "))) {
		size_t n = strcspn(t, " ");
		int bit = phase_bit(s, t, n, err);

		if (bit < 0)
			return bit;
		*ret |= 1U << bit;
		t += n;
	}
	if (!*ret)
		*ret = RL_PHASES_ALL;
	return 0;
}

static bool policy_name_ok(const char *v)
{
	size_t n = strlen(v);

	if (!n || n >= EG_POLICY_NAME || !isalnum((unsigned char)*v))
		return false;
	for (size_t i = 0; i < n; i++)
		if (!isalnum((unsigned char)v[i]) && !strchr("._-", v[i]))
			return false;
	return true;
}

static int on_setting(void *arg, const char *section, const char *key,
		      const char *value, const struct eg_ini_pos *pos,
		      struct eg_err *err);

static int include_parse(struct parse *s, const char *name, struct eg_err *err)
{
	const char *file = s->file, *text = NULL;
	size_t len = 0;
	int r;

	if (s->depth >= RL_INCLUDE_DEPTH)
		return eg_err_set(err, -ELOOP,
				  "include of %.60s: more than %d deep, or in a circle",
				  name, RL_INCLUDE_DEPTH);
	if (s->env->include)
		text = s->env->include(s->env->arg, name, &len);
	if (!text)
		return eg_err_set(err, -ENOENT,
				  "include = %.60s: there is no such policy",
				  name);
	s->depth++;
	s->file = name;
	r = eg_ini_parse(text, len, name, on_setting, s, err);
	s->file = file;
	s->depth--;
	return r;
}

static int policy_setting(struct parse *s, const char *key, const char *value,
			  struct eg_err *err)
{
	struct rl_prog *p = s->p;

	if (!strcmp(key, "include"))
		return include_parse(s, value, err);
	if (!strcmp(key, "name")) {
		if (!policy_name_ok(value))
			return eg_err_set(err, -EINVAL,
					  "name = %.60s: letters, digits, '.', '_' and '-', at most %d, are accepted",
					  value, EG_POLICY_NAME - 1);
		if (!s->depth && s->named && strcmp(p->name, value) != 0 &&
		    p->name[0])
			return eg_err_set(err, -EINVAL,
					  "name = %.60s, but the file is %s.policy; the two must agree",
					  value, p->name);
		if (!s->depth)
			memcpy(p->name, value, strlen(value) + 1);
		return 0;
	}
	if (!strcmp(key, "description")) {
		if (!s->depth)
			(void)snprintf(p->description, sizeof(p->description),
				       "%.255s", value);
		return 0;
	}
	return eg_err_set(err, -EINVAL,
			  "[policy] has no key '%s'; it has name, description and include",
			  key);
}

static int on_setting(void *arg, const char *section, const char *key,
		      const char *value, const struct eg_ini_pos *pos,
		      struct eg_err *err)
{
	struct parse *s = arg;
	bool allow = !strncmp(section, "allow", 5) &&
		     (!section[5] || section[5] == ' ');
	uint32_t phases;
	int r;

	if (!strcmp(section, "policy"))
		return policy_setting(s, key, value, err);
	if (allow && !strcmp(key, "allow")) {
		r = phases_of(s, section, &phases, err);
		return r ? r : entry_parse(s, value, phases, false, pos, err);
	}
	if (!strcmp(section, "deny") && !strcmp(key, "deny"))
		return entry_parse(s, value, RL_PHASES_ALL, true, pos, err);
	if (!strcmp(section, "host") && !strcmp(key, "host"))
		return host_parse(s, value, pos, err);
	if (allow || !strcmp(section, "deny") || !strcmp(section, "host"))
		return eg_err_set(err, -EINVAL,
				  "[%s] has no key '%s'; it has %.5s", section,
				  key, allow ? "allow" : section);
	return eg_err_set(err, -EINVAL,
			  "there is no section [%s]; policy, host, allow, allow PHASE.. and deny are accepted",
			  section);
}

static void stem(const char *file, char ret[EG_POLICY_NAME])
{
	const char *base = strrchr(file, '/');
	size_t n;

	base = base ? base + 1 : file;
	n = strlen(base);
	if (n > 7 && !strcmp(base + n - 7, ".policy"))
		n -= 7;
	if (n >= EG_POLICY_NAME)
		n = EG_POLICY_NAME - 1;
	memcpy(ret, base, n);
	ret[n] = '\0';
	if (!policy_name_ok(ret))
		ret[0] = '\0';
}

int rl_policy_parse(const char *text, size_t len, const char *file,
		    const struct rl_parse_env *env, struct rl_prog **ret,
		    struct rl_warnings *w, struct eg_err *err)
{
	struct parse s = { .env = env, .file = file, .w = w,
			   .p = calloc(1, sizeof(*s.p)) };
	size_t flen = strlen(file);
	int r;

	if (!s.p)
		return eg_err_set(err, -ENOMEM, "out of memory");
	if (w)
		w->n = 0;
	if (len > RL_POLICY_TEXT) {
		free(s.p);
		return eg_err_set(err, -EFBIG,
				  "%s: %zu bytes; a policy has at most %d",
				  file, len, RL_POLICY_TEXT);
	}
	s.p->magic = RL_PROG_MAGIC;
	s.p->version = RL_PROG_VERSION;
	stem(file, s.p->name);
	s.named = flen > 7 && !strcmp(file + flen - 7, ".policy");
	r = eg_ini_parse(text, len, file, on_setting, &s, err);
	if (!r && !strcmp(s.p->name, "none"))
		r = eg_err_set(err, -EINVAL,
			       "%s: the name none is the built-in policy's",
			       file);
	if (!r && !s.p->name[0])
		memcpy(s.p->name, "inline", 7);
	s.p->size = sizeof(*s.p) +
		    (uint64_t)s.p->nentries * sizeof(s.p->entry[0]);
	if (!r && rl_canon_digest(s.p, s.p->digest))
		r = eg_err_set(err, -ENOMEM, "out of memory");
	if (!r)
		r = rl_prog_check(s.p, s.p->size, err);
	if (r) {
		free(s.p);
		return r;
	}
	*ret = s.p;
	return 0;
}

/* ---- private destinations -------------------------------------------------------------------------- */

/*
 * Does a permit_private line serve this? An address entry must lie inside it;
 * of a name's private= a part is enough, since an answer has to be in both.
 */
static bool permitted(const struct eg_conf *c, struct eg_prefix want,
		      bool part, const struct eg_port *port,
		      const char *tenant)
{
	for (uint32_t i = 0; i < c->permits_private; i++) {
		const struct eg_conf_permit *p = &c->permit_private[i];

		if (((part && eg_prefix_overlap(p->dst, want)) ||
		     (p->dst.len <= want.len &&
		      eg_prefix_has(p->dst, want.addr))) &&
		    p->proto == port->proto && p->lo <= port->lo &&
		    p->hi >= port->hi && eg_tenant_listed(p->tenants, tenant))
			return true;
	}
	return false;
}

static bool in_private(const struct eg_conf *c, struct eg_prefix p)
{
	for (uint32_t i = 0; i < c->denies; i++)
		if (c->deny[i].class == EG_DENY_PRIVATE &&
		    c->deny[i].dst.len <= p.len &&
		    eg_prefix_has(c->deny[i].dst, p.addr))
			return true;
	return false;
}

static int entry_permitted(const struct rl_entry *e, struct eg_prefix want,
			   const struct eg_conf *conf, const char *tenant,
			   struct eg_err *err)
{
	char b[EG_PREFIX_TEXT], text[1600];

	for (unsigned int i = 0; i < e->nports; i++)
		if (!permitted(conf, want, e->kind != RL_PREFIX, &e->port[i],
			       tenant))
			return eg_err_set(err, -EPERM,
					  "line %u: '%.100s' reaches the private %s; egressd.conf would need permit_private = %s %s/%u%s%.60s",
					  e->line,
					  rl_entry_format(e, text, sizeof(text)),
					  eg_prefix_format(want, b), b,
					  e->port[i].proto == IPPROTO_UDP ?
						  "udp" : "tcp",
					  e->port[i].lo,
					  *tenant ? " tenant=" : "", tenant);
	return 0;
}

int rl_policy_permitted(const struct rl_prog *p, const struct eg_conf *conf,
			const char *tenant, struct eg_err *err)
{
	for (uint32_t i = 0; i < p->nentries; i++) {
		const struct rl_entry *e = &p->entry[i];
		int r = 0;

		if (e->flags & RL_F_DENY || e->kind == RL_HOST)
			continue;
		if (e->kind == RL_PREFIX && in_private(conf, e->dst))
			r = entry_permitted(e, e->dst, conf, tenant, err);
		for (unsigned int k = 0; !r && k < e->nprivate; k++)
			r = entry_permitted(e, e->private[k], conf, tenant,
					    err);
		if (r)
			return r;
	}
	return 0;
}
