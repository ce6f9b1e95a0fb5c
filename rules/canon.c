// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: canonical form of policies (see canon.h)
 */
#include "rules/canon.h"
#include "netpool/base/digest.h"
#include "netpool/base/util.h"

#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define LINE 2048 /* 255-octet name escaped, eight ports, four prefixes */

static void add(char *buf, size_t cap, size_t *n, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

static void add(char *buf, size_t cap, size_t *n, const char *fmt, ...)
{
	va_list ap;
	int k;

	if (*n >= cap)
		return;
	va_start(ap, fmt);
	k = vsnprintf(buf + *n, cap - *n, fmt, ap);
	va_end(ap);
	*n += k > 0 ? (size_t)k : 0;
}

static const char *proto_name(uint8_t proto, char buf[8])
{
	switch (proto) {
	case IPPROTO_TCP:
		return "tcp";
	case IPPROTO_UDP:
		return "udp";
	case IPPROTO_ICMP:
		return "icmp";
	case IPPROTO_SCTP:
		return "sctp";
	case IPPROTO_DCCP:
		return "dccp";
	case IPPROTO_UDPLITE:
		return "udplite";
	default: /* a number from a policy, not an enumeration of ours */
		(void)snprintf(buf, 8, "%u", proto);
		return buf;
	}
}

static int port_order(const struct eg_port *a, const struct eg_port *b)
{
	if (a->proto != b->proto)
		return a->proto < b->proto ? -1 : 1;
	if (a->lo != b->lo)
		return a->lo < b->lo ? -1 : 1;
	return a->hi < b->hi ? -1 : a->hi > b->hi;
}

static void ports_format(const struct rl_entry *e, char *buf, size_t cap,
			 size_t *n)
{
	struct eg_port p[RL_PORTS];
	char num[8];

	memcpy(p, e->port, sizeof(p));
	for (unsigned int i = 1; i < e->nports; i++)
		for (unsigned int k = i; k && port_order(&p[k - 1], &p[k]) > 0;
		     k--) {
			struct eg_port t = p[k];

			p[k] = p[k - 1];
			p[k - 1] = t;
		}
	for (unsigned int i = 0; i < e->nports; i++) {
		add(buf, cap, n, "%s%s", i ? "," : " ",
		    proto_name(p[i].proto, num));
		if (p[i].lo == 0 && p[i].hi == 65535)
			continue; /* the whole protocol */
		add(buf, cap, n, "/%u", p[i].lo);
		if (p[i].hi != p[i].lo)
			add(buf, cap, n, "-%u", p[i].hi);
	}
}

static void types_format(uint32_t types, char *buf, size_t cap, size_t *n)
{
	static const char *const names[] = { "A", "AAAA", "SRV",
					     "CAA", "MX", "TXT" };
	bool first = true;

	for (unsigned int i = 0; types && i < EG_ARRAY_SIZE(names); i++)
		if (types & 1U << i) {
			add(buf, cap, n, "%s%s", first ? " types=" : ",",
			    names[i]);
			first = false;
		}
}

const char *rl_entry_format(const struct rl_entry *e, char *buf, size_t cap)
{
	static const char *const lead[] = { [RL_EXACT] = "", [RL_ONE] = "*.",
					    [RL_MANY] = "**.",
					    [RL_PREFIX] = "", [RL_HOST] = "" };
	char name[EG_NAME_TEXT], p[EG_PREFIX_TEXT];
	size_t n = 0;

	buf[0] = '\0';
	if (e->kind == RL_PREFIX)
		add(buf, cap, &n, "%s", eg_prefix_format(e->dst, p));
	else
		add(buf, cap, &n, "%s%s", lead[e->kind],
		    eg_name_format(&e->name, name));
	if (e->kind == RL_HOST) {
		add(buf, cap, &n, " %s", eg_addr_format(e->dst.addr, p));
		return buf;
	}
	ports_format(e, buf, cap, &n);
	for (unsigned int i = 0; i < e->nprivate; i++)
		add(buf, cap, &n, "%s%s", i ? "," : " private=",
		    eg_prefix_format(e->private[i], p));
	if (e->flags & RL_F_HOLD_RUN)
		add(buf, cap, &n, " hold=run");
	if (e->flags & RL_F_CHAIN_LISTED)
		add(buf, cap, &n, " chain=listed");
	if (e->flags & RL_F_UNDERSCORE)
		add(buf, cap, &n, " underscore=yes");
	if (e->max_names)
		add(buf, cap, &n, " max_names=%" PRIu32, e->max_names);
	types_format(e->types, buf, cap, &n);
	if (e->tls != RL_TLS_DEFAULT)
		add(buf, cap, &n, " tls=%s", e->tls == RL_TLS_SNI ? "sni" : "any");
	if (e->until)
		add(buf, cap, &n, " until=%" PRId64, e->until);
	return buf;
}

static void phases_format(const struct rl_prog *p, uint32_t phases, char *buf,
			  size_t cap, size_t *n)
{
	/* In the order of their names: the order in the text is free. */
	uint32_t done = 0;

	if (phases == RL_PHASES_ALL)
		return;
	for (;;) {
		uint32_t best = UINT32_MAX;

		for (uint32_t i = 0; i < p->nphases; i++)
			if (phases & ~done & 1U << i &&
			    (best == UINT32_MAX ||
			     strcmp(p->phase[i], p->phase[best]) < 0))
				best = i;
		if (best == UINT32_MAX)
			return;
		done |= 1U << best;
		add(buf, cap, n, " %s", p->phase[best]);
	}
}

static int line_order(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static char *entry_line(const struct rl_prog *p, const struct rl_entry *e)
{
	char line[LINE], text[LINE - 600];
	size_t n = 0;

	add(line, sizeof(line), &n, "%s",
	    e->kind == RL_HOST	     ? "host" :
	    e->flags & RL_F_DENY ? "deny" : "allow");
	phases_format(p, e->phases, line, sizeof(line), &n);
	add(line, sizeof(line), &n, ": %s",
	    rl_entry_format(e, text, sizeof(text)));
	return strdup(line);
}

char *rl_canon(const struct rl_prog *p, size_t *ret_len)
{
	char **line = calloc(p->nentries + 1U, sizeof(*line));
	size_t total = 128, n = 0;
	char *out = NULL;
	uint32_t i;

	for (i = 0; line && i < p->nentries; i++) {
		line[i] = entry_line(p, &p->entry[i]);
		if (!line[i])
			break;
		total += strlen(line[i]) + 1;
	}
	if (line && i == p->nentries)
		out = malloc(total);
	if (out) {
		qsort(line, p->nentries, sizeof(*line), line_order);
		add(out, total, &n, "canon 1\npolicy %s\n", p->name);
		for (i = 0; i < p->nentries; i++)
			if (!i || strcmp(line[i - 1], line[i]) != 0)
				add(out, total, &n, "%s\n", line[i]);
		*ret_len = n;
	}
	for (i = 0; line && i < p->nentries; i++)
		free(line[i]);
	free(line);
	return out;
}

int rl_canon_digest(const struct rl_prog *p, uint8_t ret[EG_DIGEST])
{
	size_t len;
	EG_CLEANUP_FREE char *text = rl_canon(p, &len);

	if (!text)
		return -ENOMEM;
	eg_sha256(text, len, ret);
	return 0;
}
