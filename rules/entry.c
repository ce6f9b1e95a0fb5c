// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: one line of a policy (see entry.h)
 *
 *   allow = DESTINATION [PORTS] [OPTION...]
 *   host  = NAME ADDRESS [until=] [why=]
 *   deny  = DESTINATION [until=] [why=]
 */
#include "rules/entry.h"
#include "netpool/base/log.h"
#include "netpool/base/util.h"
#include "netpool/base/value.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define QUOTE 100
#define BROAD_LEN 16 /* prefixes shorter than this are worth a warning */

/* What a word of the line is quoted as, and where it stands. */
struct word {
	const char *at; /* into the entry's value */
	char text[EG_INI_LINE + 1];
};

enum {
	ON_NAME = 1, /* exact names */
	ON_WILD = 2,
	ON_PREFIX = 4,
	ON_HOST = 8,
	ON_DENY = 16, /* as well */
};

static int bad(const struct rl_line *l, const char *at, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/*
 * Refuse: the sentence for the word at @at. It goes into JSON, and cutting
 * foreign text to length may have cut a character in two: ASCII only.
 */
static int bad(const struct rl_line *l, const char *at, const char *fmt, ...)
{
	char text[EG_ERR_TEXT];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	for (char *p = text; *p; p++)
		if (*p & 0x80)
			*p = '?';
	return eg_ini_err(l->err, -EINVAL, l->e->file, l->e->line,
			  l->e->col + (uint32_t)(at - l->e->value), "%s", text);
}

/* Refuse with the sentence another parser has put into l->err. */
static int bad_at(const struct rl_line *l, const char *at)
{
	(void)eg_ini_at(l->err, l->e->file, l->e->line,
			l->e->col + (uint32_t)(at - l->e->value));
	return -EINVAL;
}

void rl_warn(struct rl_warnings *w, uint32_t line, const char *fmt, ...)
{
	va_list ap;

	if (!w)
		return;
	if (w->n == RL_WARNINGS) {
		w->more++;
		return;
	}
	w->w[w->n].line = line;
	va_start(ap, fmt);
	(void)vsnprintf(w->w[w->n].text, sizeof(w->w[w->n].text), fmt, ap);
	va_end(ap);
	w->n++;
}

enum rl_list rl_entry_list(const struct rl_entry *e)
{
	if (e->flags & RL_F_DENY)
		return RL_LIST_DENY;
	return e->kind == RL_HOST ? RL_LIST_HOST : RL_LIST_ALLOW;
}

/* Next word of the value; false at its end. */
static bool next_word(const char **p, struct word *w)
{
	size_t n;

	*p += strspn(*p, " \t");
	n = strcspn(*p, " \t");
	if (!n)
		return false;
	w->at = *p;
	memcpy(w->text, *p, n);
	w->text[n] = '\0';
	*p += n;
	return true;
}

static const char *quote(char buf[QUOTE], const char *text)
{
	return eg_escape(buf, QUOTE, text, strlen(text));
}

/* ---- destinations -------------------------------------------------------- */

/* What people write in place of a name. */
static int not_a_name(const struct rl_line *l, const struct word *w)
{
	const char *colon = strchr(w->text, ':');
	unsigned char in6[16];
	char q[QUOTE];

	if (strstr(w->text, "://"))
		return bad(l, w->at,
			   "'%s' is a URL; write the host's name and tcp/PORT",
			   quote(q, w->text));
	if (inet_pton(AF_INET6, w->text, in6) == 1 || w->text[0] == '[' ||
	    (colon && strchr(colon + 1, ':')))
		return bad(l, w->at,
			   "'%s' is IPv6, which sandboxes do not have; write IPv4 or a name",
			   quote(q, w->text));
	if (colon)
		return bad(l, w->at,
			   "'%s' joins host and port; write '%.*s tcp/%.5s'",
			   quote(q, w->text),
			   (int)(colon - w->text) > 60 ? 60
						       : (int)(colon - w->text),
			   w->text, colon + 1);
	return bad(l, w->at,
		   "'%s' holds a '/', so it is neither a name nor a prefix; paths cannot be filtered here",
		   quote(q, w->text));
}

/* Is the last label something inet_aton() would take for a number? */
static bool numeric_end(const struct eg_name *n)
{
	size_t i = 0, last = 0;
	uint8_t len, k = 1;

	for (; n->wire[i]; i += 1U + n->wire[i])
		last = i;
	len = n->wire[last];
	if (len >= 2 && n->wire[last + 1] == '0' && n->wire[last + 2] == 'x')
		return true;
	while (k <= len && n->wire[last + k] >= '0' && n->wire[last + k] <= '9')
		k++;
	return k > len;
}

static bool hyphen_edge(const struct eg_name *n)
{
	for (size_t i = 0; n->wire[i]; i += 1U + n->wire[i])
		if (n->wire[i + 1] == '-' || n->wire[i + n->wire[i]] == '-')
			return true;
	return false;
}

/* Names that no policy may allow, whatever their shape. */
static int check_forbidden(const struct rl_line *l, const struct word *w,
			   const struct rl_entry *e)
{
	const char *why = rl_dest_special(&e->name);
	const struct eg_conf *conf = l->env->conf;
	char q[QUOTE], text[EG_NAME_TEXT];

	if (why)
		return bad(l, w->at, "'%s' cannot be allowed: %s",
			   quote(q, w->text), why);
	for (uint32_t i = 0; conf && i < conf->deny_names; i++)
		if (eg_name_below(&e->name, &conf->deny_name[i].name) >= 0)
			return bad(
				l, w->at,
				"'%s' can never be allowed: %.100s is %s in the always-deny list",
				quote(q, w->text),
				eg_name_format(&conf->deny_name[i].name, text),
				conf->deny_name[i].class == EG_DENY_METADATA
					? "a metadata service"
					: "always denied");
	return 0;
}

/* How many labels have to be there, and what they may be. */
static int check_shape(const struct rl_line *l, const struct word *w,
		       const struct rl_entry *e)
{
	bool wild = e->kind == RL_ONE || e->kind == RL_MANY;
	unsigned int labels = eg_name_labels(&e->name);
	char q[QUOTE];

	if (numeric_end(&e->name))
		return bad(l, w->at,
			   "'%s' ends in a number, so programs take it for an address; write A.B.C.D or A.B.C.D/N",
			   quote(q, w->text));
	if (hyphen_edge(&e->name))
		return bad(l, w->at,
			   "a label of '%s' begins or ends with '-', which host names may not",
			   quote(q, w->text));
	if (wild && e->name.len + 2 > EG_NAME_WIRE)
		return bad(l, w->at,
			   "'%s' leaves no room for a label in front: a name has 255 octets at most",
			   quote(q, w->text));
	if (l->list == RL_LIST_DENY)
		return 0;
	if (labels < 2)
		return bad(
			l, w->at,
			wild ? "'%s' would cover a whole top-level domain; at least two labels follow the wildcard"
			     : "'%s' is a single label; write the full name with its domain",
			quote(q, w->text));
	if (wild && rl_dest_public_suffix(&e->name))
		return bad(l, w->at,
			   "'%s' would cover every registrant of that domain; at least three labels follow the wildcard here",
			   quote(q, w->text));
	return check_forbidden(l, w, e);
}

static int parse_name(const struct rl_line *l, const struct word *w,
		      struct rl_entry *e)
{
	const char *name = w->text;
	char q[QUOTE], puny[512];

	e->kind = l->list == RL_LIST_HOST ? RL_HOST : RL_EXACT;
	if (!strncmp(name, "**.", 3)) {
		e->kind = RL_MANY;
		name += 3;
	} else if (!strncmp(name, "*.", 2)) {
		e->kind = RL_ONE;
		name += 2;
	}
	if (strchr(name, '*') || (name != w->text && !*name))
		return bad(l, w->at,
			   "'%s': a wildcard is the whole first label, *.SUFFIX (one label) or **.SUFFIX (one or more)",
			   quote(q, w->text));
	if (name != w->text && l->list == RL_LIST_HOST)
		return bad(l, w->at, "'%s': [host] answers for exact names only",
			   quote(q, w->text));
	for (const char *p = name; *p; p++)
		if ((*p & 0x80) && rl_puny(name, puny, sizeof(puny)))
			return bad(l, w->at,
				   "the name is not ASCII; write its A-label: %.*s%.200s",
				   (int)(name - w->text), w->text, puny);
	if (eg_name_parse(name, &e->name, l->err))
		return bad_at(l, w->at);
	return check_shape(l, w, e);
}

/* The first always-denied prefix of a class never permitted around @p. */
static const struct eg_conf_deny *never(const struct eg_conf *conf,
					struct eg_prefix p, bool inside)
{
	for (uint32_t i = 0; conf && i < conf->denies; i++) {
		const struct eg_conf_deny *d = &conf->deny[i];

		if (d->class == EG_DENY_PRIVATE)
			continue;
		if (inside ? d->dst.len <= p.len && eg_prefix_has(d->dst, p.addr)
			   : eg_prefix_overlap(d->dst, p))
			return d;
	}
	return NULL;
}

/* Could a packet to @p ever be let through on this host? */
static int check_prefix(const struct rl_line *l, const char *at,
			struct eg_prefix p)
{
	const struct eg_conf *conf = l->env->conf;
	const struct eg_conf_deny *d = never(conf, p, true);
	char text[EG_PREFIX_TEXT], deny[EG_PREFIX_TEXT];

	if (d)
		return bad(
			l, at,
			"%s can never be allowed: it lies in %s, which is %s in the always-deny list",
			eg_prefix_format(p, text), eg_prefix_format(d->dst, deny),
			d->class == EG_DENY_METADATA ? "metadata" : "reserved");
	if (conf && p.len >= conf->prefix.len &&
	    eg_prefix_has(conf->prefix, p.addr))
		return bad(l, at,
			   "%s can never be allowed: it lies in the pool's own prefix %s",
			   eg_prefix_format(p, text),
			   eg_prefix_format(conf->prefix, deny));
	return 0;
}

static void set_prefix(struct eg_prefix *dst, struct eg_prefix src)
{
	dst->addr = src.addr;
	dst->len = src.len;
}

static int parse_dst(const struct rl_line *l, const struct word *w,
		     struct rl_entry *e)
{
	struct eg_prefix p;

	if (w->text[strspn(w->text, "0123456789./")]) {
		if (strpbrk(w->text, ":/"))
			return not_a_name(l, w);
		return parse_name(l, w, e);
	}
	if (l->list == RL_LIST_HOST)
		return bad(l, w->at, "[host] wants NAME ADDRESS, the name first");
	if (eg_prefix_parse(w->text, &p, l->err))
		return bad_at(l, w->at);
	e->kind = RL_PREFIX;
	set_prefix(&e->dst, p);
	return l->list == RL_LIST_DENY ? 0 : check_prefix(l, w->at, p);
}

/* The address of a [host] line. */
static int parse_host_addr(const struct rl_line *l, const char **p,
			   struct rl_entry *e)
{
	struct word w;
	uint32_t addr;

	if (!next_word(p, &w))
		return bad(l, *p, "the address is missing: host = NAME ADDRESS");
	if (eg_addr_parse(w.text, &addr, l->err))
		return bad_at(l, w.at);
	e->dst.addr = addr;
	e->dst.len = 32;
	return check_prefix(l, w.at, e->dst);
}

/* ---- ports --------------------------------------------------------------- */

bool rl_ports_add(struct eg_port *list, uint32_t *n, uint32_t max,
		  const struct eg_port *add)
{
	struct eg_port p = {.proto = add->proto, .lo = add->lo, .hi = add->hi};
	uint32_t i = 0, k;

	/* An ICMP type is not a range, so neighbours stay apart. */
	while (i < *n && (list[i].proto < p.proto ||
			  (list[i].proto == p.proto &&
			   (p.proto == IPPROTO_ICMP ? list[i].lo < p.lo
						    : list[i].hi + 1 < p.lo))))
		i++;
	for (k = i; k < *n && list[k].proto == p.proto &&
		    (p.proto == IPPROTO_ICMP ? list[k].lo == p.lo
					     : list[k].lo <= p.hi + 1);
	     k++) {
		p.lo = list[k].lo < p.lo ? list[k].lo : p.lo;
		p.hi = list[k].hi > p.hi ? list[k].hi : p.hi;
	}
	if (k == i && *n == max)
		return false;
	memmove(&list[i + 1], &list[k], (*n - k) * sizeof(*list));
	list[i] = p;
	*n = *n - (k - i) + 1;
	return true;
}

static int parse_port(const struct rl_line *l, const char *at, const char *text,
		      struct rl_entry *e)
{
	struct eg_port p;
	uint32_t n = e->nports;

	if (eg_port_parse(text, &p, l->err))
		return bad_at(l, at);
	if (p.proto != IPPROTO_ICMP && p.proto != IPPROTO_SCTP &&
	    p.lo <= EG_GUEST_DNS_PORT && p.hi >= EG_GUEST_DNS_PORT)
		return bad(l, at,
			   "'%.40s' names port 53, which always goes to the DNS guard; leave it out",
			   text);
	if (!rl_ports_add(e->port, &n, RL_PORTS, &p))
		return bad(l, at,
			   "more than %d ports and ranges; write another entry for the rest",
			   RL_PORTS);
	e->nports = (uint8_t)n;
	return 0;
}

static int parse_ports(const struct rl_line *l, const struct word *w,
		       struct rl_entry *e)
{
	const char *p = w->text;
	uint32_t total = 0;

	if (l->list != RL_LIST_ALLOW)
		return bad(
			l, w->at,
			l->list == RL_LIST_DENY
				? "a deny entry takes no ports: it denies the destination altogether"
				: "a host entry takes no ports; its allow entry does");
	for (;;) {
		char one[EG_PORT_TEXT] = "";
		size_t n = strcspn(p, ",");
		int rc;

		memcpy(one, p, n < sizeof(one) - 1 ? n : sizeof(one) - 1);
		rc = parse_port(l, w->at + (p - w->text), one, e);
		if (rc)
			return rc;
		if (!p[n])
			break;
		p += n + 1;
	}
	for (uint8_t i = 0; i < e->nports; i++)
		total += e->port[i].hi - e->port[i].lo + 1U;
	if (e->kind != RL_PREFIX && total > RL_NAME_PORTS)
		return bad(l, w->at,
			   "a name takes at most %d ports, not %u: a pin is one element a port; name the ports, or use a prefix",
			   RL_NAME_PORTS, total);
	return 0;
}

/* ---- options ------------------------------------------------------------- */

bool rl_prefixes_add(struct eg_prefix *list, uint32_t *n, uint32_t max,
		     struct eg_prefix p)
{
	uint32_t keep = 0, i = 0;

	for (i = 0; i < *n; i++)
		if (list[i].len <= p.len && eg_prefix_has(list[i], p.addr))
			return true;
	for (i = 0; i < *n; i++)
		if (!eg_prefix_has(p, list[i].addr))
			keep++;
	if (keep == max)
		return false;
	for (i = keep = 0; i < *n; i++)
		if (!eg_prefix_has(p, list[i].addr))
			list[keep++] = list[i];
	for (i = keep; i && list[i - 1].addr > p.addr; i--)
		list[i] = list[i - 1];
	set_prefix(&list[i], p);
	*n = keep + 1;
	return true;
}

/* private=PREFIX[,...] */
static int opt_private(const struct rl_line *l, const char *at,
		       const char *value, struct rl_entry *e)
{
	struct eg_prefix list[RL_PRIVATE] = {0};
	uint32_t n = 0;

	for (;;) {
		char one[EG_PREFIX_TEXT + 8] = "", text[EG_PREFIX_TEXT];
		size_t len = strcspn(value, ",");
		const struct eg_conf_deny *d;
		struct eg_prefix p;

		memcpy(one, value, len < sizeof(one) ? len : sizeof(one) - 1);
		if (eg_prefix_parse(one, &p, l->err))
			return bad_at(l, at);
		d = never(l->env->conf, p, false);
		if (d)
			return bad(l, at,
				   "private=%s reaches into %s, which nothing can allow",
				   one, eg_prefix_format(d->dst, text));
		if (check_prefix(l, at, p))
			return -EINVAL;
		if (!rl_prefixes_add(list, &n, RL_PRIVATE, p))
			return bad(l, at,
				   "private= takes at most %d prefixes; use a larger one",
				   RL_PRIVATE);
		if (!value[len])
			break;
		value += len + 1;
	}
	for (uint32_t i = 0; i < n; i++)
		set_prefix(&e->private[i], list[i]);
	e->nprivate = (uint8_t)n;
	return 0;
}

static int opt_hold(const struct rl_line *l, const char *at, const char *value,
		    struct rl_entry *e)
{
	if (strcmp(value, "run"))
		return bad(l, at,
			   "hold=%.40s: hold=run is what there is (pins stay until the lease ends)",
			   value);
	e->flags |= RL_F_HOLD_RUN;
	return 0;
}

static int opt_chain(const struct rl_line *l, const char *at, const char *value,
		     struct rl_entry *e)
{
	if (strcmp(value, "listed"))
		return bad(l, at,
			   "chain=%.40s: chain=listed is what there is (every CNAME on the way is listed too)",
			   value);
	e->flags |= RL_F_CHAIN_LISTED;
	return 0;
}

static int opt_max_names(const struct rl_line *l, const char *at,
			 const char *value, struct rl_entry *e)
{
	uint64_t v;

	if (eg_uint_parse(value, 1, RL_MAX_NAMES, &v, NULL))
		return bad(l, at, "max_names=%.40s is not a number from 1 to %d",
			   value, RL_MAX_NAMES);
	e->max_names = (uint32_t)v;
	return 0;
}

static const char *const type_names[] = {"A",	"AAAA", "SRV",
					 "CAA", "MX",	"TXT"};

static int opt_types(const struct rl_line *l, const char *at, const char *value,
		     struct rl_entry *e)
{
	uint32_t types = 0;

	for (;;) {
		size_t n = strcspn(value, ","), i = 0;

		while (i < EG_ARRAY_SIZE(type_names) &&
		       (strlen(type_names[i]) != n ||
			strncmp(type_names[i], value, n)))
			i++;
		if (i == EG_ARRAY_SIZE(type_names))
			return bad(l, at,
				   "types=: '%.*s' is none of A, AAAA, SRV, CAA, MX and TXT",
				   (int)(n > 40 ? 40 : n), value);
		types |= 1U << i;
		if (!value[n])
			break;
		value += n + 1;
	}
	if (types & RL_TYPE_TXT)
		rl_warn(l->w, l->line,
			"types=TXT lets answers carry text back, as DNS tunnels do");
	e->types = types;
	return 0;
}

static int opt_tls(const struct rl_line *l, const char *at, const char *value,
		   struct rl_entry *e)
{
	if (!strcmp(value, "sni"))
		e->tls = RL_TLS_SNI;
	else if (!strcmp(value, "any"))
		e->tls = RL_TLS_ANY;
	else
		return bad(l, at, "tls=%.40s is neither sni nor any", value);
	return 0;
}

/* A date, or a date and time of day in UTC; the entry ends as it begins. */
static int opt_until(const struct rl_line *l, const char *at, const char *value,
		     struct rl_entry *e)
{
	struct tm tm = {0}, back;
	const char *end = strptime(value, "%Y-%m-%d", &tm);
	char again[40], date[40];
	time_t t;

	if (end && *end)
		end = strptime(end, "T%H:%M:%SZ", &tm);
	t = end && !*end ? timegm(&tm) : -1;
	if (t <= 0 || !gmtime_r(&t, &back))
		goto bad;
	(void)strftime(date, sizeof(date), "%Y-%m-%d", &back);
	(void)strftime(again, sizeof(again), "%Y-%m-%dT%H:%M:%SZ", &back);
	if (strcmp(value, date) && strcmp(value, again))
		goto bad; /* February 30th and the like */
	if (l->env->now && t <= l->env->now)
		rl_warn(l->w, l->line, "the entry ended with until=%s", value);
	e->until = t;
	return 0;
bad:
	return bad(l, at,
		   "until=%.40s is not a date; write 2027-03-01 or 2027-03-01T12:00:00Z (UTC)",
		   value);
}

static int opt_underscore(const struct rl_line *l, const char *at,
			  const char *value, struct rl_entry *e)
{
	bool yes;

	if (eg_bool_parse(value, &yes, l->err))
		return bad_at(l, at);
	if (yes)
		e->flags |= RL_F_UNDERSCORE;
	return 0;
}

static int opt_why(const struct rl_line *l, const char *at, const char *value,
		   struct rl_entry *e)
{
	size_t n = strlen(value);

	if (!n || n >= RL_WHY)
		return bad(l, at, "why= takes 1 to %d bytes of text", RL_WHY - 1);
	memcpy(e->why, value, n);
	return 0;
}

static const struct option {
	const char *name;
	unsigned int on;
	int (*parse)(const struct rl_line *l, const char *at, const char *value,
		     struct rl_entry *e);
} options[] = {
	{"private", ON_NAME | ON_WILD, opt_private},
	{"hold", ON_NAME | ON_WILD, opt_hold},
	{"chain", ON_NAME | ON_WILD, opt_chain},
	{"max_names", ON_WILD, opt_max_names},
	{"types", ON_NAME | ON_WILD, opt_types},
	{"tls", ON_NAME | ON_WILD, opt_tls},
	{"until", ON_NAME | ON_WILD | ON_PREFIX | ON_HOST | ON_DENY, opt_until},
	{"underscore", ON_WILD, opt_underscore},
	{"why", ON_NAME | ON_WILD | ON_PREFIX | ON_HOST | ON_DENY, opt_why},
};

static int unknown_option(const struct rl_line *l, const struct word *w)
{
	const char *names[EG_ARRAY_SIZE(options)], *near;
	char name[EG_INI_LINE + 1], q[QUOTE];

	for (size_t i = 0; i < EG_ARRAY_SIZE(options); i++)
		names[i] = options[i].name;
	memcpy(name, w->text, strlen(w->text) + 1);
	name[strcspn(name, "=")] = '\0';
	near = eg_nearest(name, names, EG_ARRAY_SIZE(names));
	if (near)
		return bad(l, w->at, "there is no option '%s'; did you mean %s=?",
			   quote(q, name), near);
	return bad(l, w->at,
		   "there is no option '%s'; options are private, hold, chain, max_names, types, tls, until, underscore and why",
		   quote(q, name));
}

/* Does this option make sense for this entry? */
static int check_option(const struct rl_line *l, const struct word *w,
			const struct option *o, const struct rl_entry *e)
{
	static const char *const what[] = {
		[RL_EXACT] = "an exact name", [RL_ONE] = "a wildcard",
		[RL_MANY] = "a wildcard",     [RL_PREFIX] = "an address",
		[RL_HOST] = "a [host] entry",
	};
	static const unsigned int bit[] = {
		[RL_EXACT] = ON_NAME, [RL_ONE] = ON_WILD,
		[RL_MANY] = ON_WILD,  [RL_PREFIX] = ON_PREFIX,
		[RL_HOST] = ON_HOST,
	};
	unsigned int want = l->list == RL_LIST_DENY ? ON_DENY : bit[e->kind];

	if (o->on & want)
		return 0;
	return bad(l, w->at, "%s= has no meaning for %s", o->name,
		   want == ON_DENY ? "a deny entry" : what[e->kind]);
}

/* One `name=value` word; `why=` takes the rest of the line. */
static int parse_option(const struct rl_line *l, const struct word *w,
			const char **rest, unsigned int *seen, struct rl_entry *e)
{
	const char *eq = strchr(w->text, '=');
	size_t n = (size_t)(eq - w->text), i = 0;
	const char *value = eq + 1;
	int rc;

	while (i < EG_ARRAY_SIZE(options) &&
	       (strlen(options[i].name) != n ||
		strncmp(options[i].name, w->text, n)))
		i++;
	if (i == EG_ARRAY_SIZE(options))
		return unknown_option(l, w);
	if (*seen & 1U << i)
		return bad(l, w->at, "%s= stands twice", options[i].name);
	*seen |= 1U << i;
	rc = check_option(l, w, &options[i], e);
	if (rc)
		return rc;
	if (options[i].parse == opt_why) {
		value = w->at + n + 1;
		value += strspn(value, " \t");
		*rest = value + strlen(value);
	}
	return options[i].parse(l, w->at, value, e);
}

/* ---- the line ------------------------------------------------------------ */

static void warn_broad(const struct rl_line *l, struct rl_entry *e)
{
	const char *what = e->kind == RL_PREFIX ? NULL : rl_dest_broad(e);
	char text[EG_NAME_TEXT], prefix[EG_PREFIX_TEXT];
	struct eg_name local;

	if (e->kind == RL_PREFIX && e->dst.len < BROAD_LEN) {
		rl_warn(l->w, l->line, "%s is %s",
			eg_prefix_format(e->dst, prefix),
			e->dst.len
				? "very broad: more than 65,536 addresses"
				: "the whole Internet, private and always-denied addresses excepted");
		e->flags |= RL_F_BROAD;
	}
	if (e->kind == RL_PREFIX)
		return;
	if (what) {
		rl_warn(l->w, l->line, "%s%.100s reaches %s",
			e->kind == RL_ONE    ? "*."
			: e->kind == RL_MANY ? "**."
					     : "",
			eg_name_format(&e->name, text), what);
		e->flags |= RL_F_BROAD;
	}
	if (!eg_name_parse("local", &local, NULL) &&
	    eg_name_below(&e->name, &local) > 0)
		rl_warn(l->w, l->line,
			"%.100s is under .local, which many resolvers look up by multicast",
			eg_name_format(&e->name, text));
}

int rl_entry_parse(const struct rl_line *l, struct rl_entry *ret)
{
	unsigned int seen = 0;
	const char *p = l->e->value;
	struct word w;
	int rc;

	memset(ret, 0, sizeof(*ret));
	ret->phases = l->phases;
	ret->line = l->line;
	if (l->list == RL_LIST_DENY)
		ret->flags = RL_F_DENY;
	if (!next_word(&p, &w))
		return bad(l, p, "the destination is missing");
	rc = parse_dst(l, &w, ret);
	if (!rc && l->list == RL_LIST_HOST)
		rc = parse_host_addr(l, &p, ret);
	while (!rc && next_word(&p, &w)) {
		if (strchr(w.text, '='))
			rc = parse_option(l, &w, &p, &seen, ret);
		else if (seen || ret->nports)
			rc = bad(l, w.at,
				 "'%.40s' is not an option; ports come once, right after the destination, without blanks",
				 w.text);
		else
			rc = parse_ports(l, &w, ret);
	}
	if (rc || l->list != RL_LIST_ALLOW)
		return rc;
	if (!ret->nports) {
		ret->port[0] = (struct eg_port){
			.proto = IPPROTO_TCP, .lo = 443, .hi = 443};
		ret->nports = 1;
	}
	if (ret->kind != RL_PREFIX && !ret->types)
		ret->types = RL_TYPES_DEFAULT;
	warn_broad(l, ret);
	return 0;
}

/* ---- canonical text ------------------------------------------------------ */

struct out {
	char *buf;
	size_t used;
};

static void put(struct out *o, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

static void put(struct out *o, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(o->buf + o->used, RL_ENTRY_TEXT - o->used, fmt, ap);
	va_end(ap);
	if (n > 0)
		o->used += (size_t)n;
	if (o->used >= RL_ENTRY_TEXT)
		o->used = RL_ENTRY_TEXT - 1;
}

static void put_dst(struct out *o, const struct rl_entry *e)
{
	char name[EG_NAME_TEXT], prefix[EG_PREFIX_TEXT], addr[EG_ADDR_TEXT];

	if (e->kind == RL_PREFIX) {
		put(o, "%s", eg_prefix_format(e->dst, prefix));
		return;
	}
	put(o, "%s%s",
	    e->kind == RL_ONE	 ? "*."
	    : e->kind == RL_MANY ? "**."
				 : "",
	    eg_name_format(&e->name, name));
	if (e->kind == RL_HOST)
		put(o, " %s", eg_addr_format(e->dst.addr, addr));
}

static void put_until(struct out *o, int64_t until)
{
	time_t t = (time_t)until;
	char text[40] = "";
	struct tm tm;

	if (gmtime_r(&t, &tm))
		(void)strftime(text, sizeof(text),
			       until % 86400 ? "%Y-%m-%dT%H:%M:%SZ" : "%Y-%m-%d",
			       &tm);
	put(o, " until=%s", text);
}

static void put_types(struct out *o, uint32_t types)
{
	const char *sep = " types=";

	for (size_t i = 0; i < EG_ARRAY_SIZE(type_names); i++) {
		if (!(types & 1U << i))
			continue;
		put(o, "%s%s", sep, type_names[i]);
		sep = ",";
	}
}

static void put_lists(struct out *o, const struct rl_entry *e)
{
	char port[EG_PORT_TEXT], prefix[EG_PREFIX_TEXT];

	for (uint8_t i = 0; i < e->nports; i++)
		put(o, "%s%s", i ? "," : " ", eg_port_format(&e->port[i], port));
	for (uint8_t i = 0; i < e->nprivate; i++)
		put(o, "%s%s", i ? "," : " private=",
		    eg_prefix_format(e->private[i], prefix));
}

size_t rl_entry_format(const struct rl_entry *e, char buf[RL_ENTRY_TEXT])
{
	struct out o = {.buf = buf};

	put_dst(&o, e);
	put_lists(&o, e);
	if (e->flags & RL_F_HOLD_RUN)
		put(&o, " hold=run");
	if (e->flags & RL_F_CHAIN_LISTED)
		put(&o, " chain=listed");
	if (e->max_names)
		put(&o, " max_names=%u", e->max_names);
	if (e->types && e->types != RL_TYPES_DEFAULT)
		put_types(&o, e->types);
	if (e->tls)
		put(&o, " tls=%s", e->tls == RL_TLS_SNI ? "sni" : "any");
	if (e->until)
		put_until(&o, e->until);
	if (e->flags & RL_F_UNDERSCORE)
		put(&o, " underscore=yes");
	if (e->why[0])
		put(&o, " why=%s", e->why);
	return o.used;
}
