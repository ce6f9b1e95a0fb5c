// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd tests: DNS scenarios in virtual time, read from tests/replay.
 *
 * A file holds scenarios, each begun by `scenario TITLE`; a line is a verb
 * and words. Verbs that do:
 *
 *   conf KEY VALUE...         before the first lease: rate burst upstreams
 *                             permit denyname refused
 *   allow|deny NAME [OPT...]  an entry: *.x **.x; private= max_names= chain
 *                             hold until= phase=   |  host NAME ADDRESS
 *   lease SLOT GEN [PHASES]   unlease SLOT GEN
 *   query SLOT NAME TYPE [id= edns tcp src= class=]    raw SLOT HEX...
 *   flood SLOT NAME TYPE N    names may hold %, the number of the query
 *   reply [RECORD...] [rcode= soa= tc badid badcase qr0 rdlen trail]
 *                             RECORD: a:OWNER:ADDR:TTL cname:OWNER:TARGET:TTL
 *                             ch:OWNER:ADDR:TTL, many:N; owner @: the question
 *   refused                   the upstream's socket reports an error
 *   ack [ERRNO]   advance MS   main away|back   audit full|ok   drain
 *
 * and verbs that expect, each taking the oldest of its kind:
 *
 *   upstream NAME [udp|tcp] [server=N]   no-upstream   same-case
 *   pin SLOT [ADDR...] [life=N] [count=N]   no-pin
 *   answer SLOT RCODE [ADDR...] [count=N ttl= ede= id= name=]   silence
 *   record REASON [NAME] [addr= held=]   no-record
 *   stats SLOT GEN REASON DENIED SUPPRESSED SENT   replies N
 *
 * At a scenario's end nothing may be left over but what `drain` threw away,
 * and denied = suppressed + sent for every lease.
 */
#include "netpool/base/util.h"
#include "tests/lib/dns_world.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define WORDS 48
#define REPLY_MAX 20000

struct play {
	struct dw *w;
	const char *file;
	int line, scenarios;
	char title[128];
	char *word[WORDS];
	int n;
	struct dw_send ask; /* the request being answered */
	struct dw_pin pin;
	uint8_t msg[REPLY_MAX];
	size_t len;
};

static void __attribute__((noreturn, format(printf, 2, 3)))
fail_at(const struct play *p, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	fail_msg("%s:%d (%s): %s", p->file, p->line, p->title, text);
	abort();
}

static long num(const struct play *p, const char *t)
{
	char *end;
	long v = strtol(t, &end, 0);

	if (*end || end == t)
		fail_at(p, "'%s' is not a number", t);
	return v;
}

static uint32_t addr(const struct play *p, const char *t)
{
	uint32_t a = 0;

	if (eg_addr_parse(t, &a, NULL))
		fail_at(p, "'%s' is not an address", t);
	return a;
}

/* Value of option KEY= among the words from @from on, or NULL. */
static const char *opt(const struct play *p, int from, const char *key)
{
	size_t n = strlen(key);

	for (int i = from; i < p->n; i++)
		if (!strncmp(p->word[i], key, n) &&
		    (p->word[i][n] == '=' || !p->word[i][n]))
			return p->word[i][n] ? p->word[i] + n + 1 : "";
	return NULL;
}

static uint16_t type_of(const struct play *p, const char *t)
{
	static const struct {
		const char *name;
		uint16_t type;
	} types[] = {{"A", 1},	    {"NS", 2},	  {"PTR", 12},	 {"MX", 15},
		     {"TXT", 16},   {"AAAA", 28}, {"SRV", 33},	 {"SVCB", 64},
		     {"HTTPS", 65}, {"ANY", 255}, {"DNSKEY", 48}};

	for (size_t i = 0; i < EG_ARRAY_SIZE(types); i++)
		if (!strcmp(types[i].name, t))
			return types[i].type;
	fail_at(p, "unknown type '%s'", t);
}

static unsigned int rcode_of(const struct play *p, const char *t)
{
	static const char *const names[] = {"NOERROR",	"FORMERR", "SERVFAIL",
					    "NXDOMAIN", "NOTIMP",  "REFUSED"};

	for (unsigned int i = 0; i < EG_ARRAY_SIZE(names); i++)
		if (!strcmp(names[i], t))
			return i;
	if (!strcmp(t, "BADVERS"))
		return DG_BADVERS;
	fail_at(p, "unknown rcode '%s'", t);
}

/* ---- verbs that do ------------------------------------------------------ */

static void do_conf(struct play *p)
{
	struct eg_conf *c = &p->w->conf;
	const char *k = p->word[1], *v = p->n > 2 ? p->word[2] : "";

	if (!strcmp(k, "rate"))
		c->dns_rate = (uint32_t)num(p, v);
	else if (!strcmp(k, "burst"))
		c->dns_burst = (uint32_t)num(p, v);
	else if (!strcmp(k, "upstreams"))
		c->upstreams = (uint32_t)num(p, v);
	else if (!strcmp(k, "refused"))
		c->deny_refused = true;
	else if (!strcmp(k, "denyname"))
		c->deny_name[c->deny_names++].name = dw_name(v);
	else if (strcmp(k, "permit") ||
		 eg_prefix_parse(v, &c->permit_private[c->permits_private++].dst,
				 NULL))
		fail_at(p, "bad conf '%s'", k);
}

static void do_entry(struct play *p)
{
	const char *name = p->word[1], *v;
	enum rl_kind kind = RL_EXACT;
	struct rl_entry *e;

	if (!strncmp(name, "**.", 3)) {
		kind = RL_MANY;
		name += 3;
	} else if (!strncmp(name, "*.", 2)) {
		kind = RL_ONE;
		name += 2;
	}
	e = dw_entry(p->w, p->word[0][0] == 'h' ? RL_HOST : kind, name);
	if (p->word[0][0] == 'd')
		e->flags |= RL_F_DENY;
	if (p->word[0][0] == 'h')
		e->dst = (struct eg_prefix){addr(p, p->word[2]), 32};
	if ((v = opt(p, 2, "private")) &&
	    eg_prefix_parse(v, &e->private[e->nprivate++], NULL))
		fail_at(p, "bad private");
	if ((v = opt(p, 2, "max_names")))
		e->max_names = (uint32_t)num(p, v);
	if ((v = opt(p, 2, "until")))
		e->until = p->w->wall / EG_NSEC_PER_SEC + num(p, v);
	if ((v = opt(p, 2, "phase")))
		e->phases = (uint32_t)num(p, v);
	if (opt(p, 2, "chain"))
		e->flags |= RL_F_CHAIN_LISTED;
	if (opt(p, 2, "hold"))
		e->flags |= RL_F_HOLD_RUN;
	if (opt(p, 2, "underscore"))
		e->flags |= RL_F_UNDERSCORE;
}

static void do_query(struct play *p)
{
	uint32_t slot = (uint32_t)num(p, p->word[1]);
	struct dg_client c = dw_client(p->w, slot);
	struct eg_name name = dw_name(p->word[2]);
	const char *v;
	uint16_t id = 0x1234, class = 1;
	uint8_t buf[600];
	size_t len;

	if ((v = opt(p, 4, "id")))
		id = (uint16_t)num(p, v);
	if ((v = opt(p, 4, "class")))
		class = (uint16_t)num(p, v);
	if ((v = opt(p, 4, "src")))
		c.src = addr(p, v);
	c.tcp = opt(p, 4, "tcp");
	len = dw_query(buf, id, &name, type_of(p, p->word[3]), class,
		       opt(p, 4, "edns"));
	dg_guard_query(p->w->guard, &c, buf, len);
}

static void do_flood(struct play *p)
{
	uint32_t slot = (uint32_t)num(p, p->word[1]);
	struct dg_client c = dw_client(p->w, slot);
	long count = num(p, p->word[4]);
	char *mark = strchr(p->word[2], '%');

	for (long i = 0; i < count; i++) {
		struct eg_name name;
		char text[300];
		uint8_t buf[600];

		if (mark)
			(void)snprintf(text, sizeof(text), "%.*s%ld%s",
				       (int)(mark - p->word[2]), p->word[2], i,
				       mark + 1);
		else
			(void)snprintf(text, sizeof(text), "%s", p->word[2]);
		name = dw_name(text);
		dg_guard_query(p->w->guard, &c, buf,
			       dw_query(buf, (uint16_t)i, &name,
					type_of(p, p->word[3]), 1, false));
	}
}

static void do_raw(struct play *p)
{
	uint32_t slot = (uint32_t)num(p, p->word[1]);
	struct dg_client c = dw_client(p->w, slot);
	uint8_t buf[4096];
	size_t len = 0;

	for (int i = 2; i < p->n; i++)
		for (const char *h = p->word[i]; h[0] && h[1]; h += 2) {
			char two[3] = {h[0], h[1], 0};

			buf[len++] = (uint8_t)strtoul(two, NULL, 16);
		}
	dg_guard_query(p->w->guard, &c, buf, len);
}

static size_t put_owner(struct play *p, const char *owner)
{
	struct eg_name n;

	if (!strcmp(owner, "@")) {
		dg_put16(p->msg + p->len, 0xc00c);
		return 2;
	}
	n = dw_name(owner);
	memcpy(p->msg + p->len, n.wire, n.len);
	return n.len;
}

static void put_rr(struct play *p, const char *owner, unsigned int type,
		   unsigned int class, uint32_t ttl, const void *rdata,
		   size_t rdlen)
{
	uint8_t *m;

	p->len += put_owner(p, owner);
	m = p->msg + p->len;
	dg_put16(m, type);
	dg_put16(m + 2, class);
	dg_put32(m + 4, ttl);
	dg_put16(m + 8, (unsigned int)rdlen);
	memcpy(m + 10, rdata, rdlen);
	p->len += 10 + rdlen;
}

static void put_addr(struct play *p, const char *owner, uint32_t a,
		     uint32_t ttl, unsigned int class)
{
	uint8_t b[4];

	dg_put32(b, a);
	put_rr(p, owner, DG_T_A, class, ttl, b, 4);
}

/* One RECORD of a reply; how many answers it made. */
static unsigned int put_record(struct play *p, const char *text)
{
	char copy[512], *f[4] = {NULL}, *save = NULL;
	int n = 0;

	(void)snprintf(copy, sizeof(copy), "%s", text);
	for (char *t = strtok_r(copy, ":", &save); t && n < 4;
	     t = strtok_r(NULL, ":", &save))
		f[n++] = t;
	if (n == 2 && !strcmp(f[0], "many")) {
		for (long i = 0; i < num(p, f[1]); i++)
			put_addr(p, "@", 0xcb007100 + (uint32_t)i, 300, DG_C_IN);
		return (unsigned int)num(p, f[1]);
	}
	if (n != 4)
		return 0;
	if (!strcmp(f[0], "a")) {
		put_addr(p, f[1], addr(p, f[2]), (uint32_t)num(p, f[3]), DG_C_IN);
	} else if (!strcmp(f[0], "ch")) {
		put_addr(p, f[1], addr(p, f[2]), (uint32_t)num(p, f[3]), 3);
	} else if (!strcmp(f[0], "cname")) {
		struct eg_name t = dw_name(f[2]);

		put_rr(p, f[1], DG_T_CNAME, DG_C_IN, (uint32_t)num(p, f[3]),
		       t.wire, t.len);
	} else {
		return 0;
	}
	return 1;
}

/* Case 50: an A record whose rdata hides a whole record. */
static unsigned int put_hidden(struct play *p)
{
	static const uint8_t rdata[20] = {93, 184, 216, 34, 0xc0, 0x0c, 0,
					  1,  0,   1,	0,  0,	  0,	60,
					  0,  4,   10,	0,  0,	  1};

	put_rr(p, "@", DG_T_A, DG_C_IN, 60, rdata, sizeof(rdata));
	put_addr(p, "@", 0x08080808, 60, DG_C_IN);
	return 2;
}

static void put_soa(struct play *p, uint32_t ttl)
{
	uint8_t rdata[22] = {0};

	dg_put32(rdata + 18, ttl);
	put_rr(p, "@", DG_T_SOA, DG_C_IN, ttl, rdata, sizeof(rdata));
}

static void flip_case(uint8_t *m)
{
	for (size_t i = DG_HDR + 1; m[i]; i++)
		if (isalpha(m[i]))
			m[i] ^= 0x20;
}

/* Our question without its OPT, as a reply's beginning. */
static void begin_reply(struct play *p)
{
	memcpy(p->msg, p->ask.msg, p->ask.len);
	p->len = p->ask.len - 11;
	dg_put16(p->msg + 2, DG_QR | DG_RD | DG_RA);
	dg_put16(p->msg + 10, 0);
}

static void do_reply(struct play *p)
{
	unsigned int answers = 0, flags = DG_QR | DG_RD | DG_RA;
	const char *v;

	if (!p->ask.len)
		fail_at(p, "nothing was asked");
	begin_reply(p);
	for (int i = 1; i < p->n; i++)
		answers += put_record(p, p->word[i]);
	if (opt(p, 1, "rdlen"))
		answers += put_hidden(p);
	dg_put16(p->msg + 6, answers);
	if ((v = opt(p, 1, "soa"))) {
		put_soa(p, (uint32_t)num(p, v));
		dg_put16(p->msg + 8, 1);
	}
	if ((v = opt(p, 1, "rcode")))
		flags |= rcode_of(p, v);
	if (opt(p, 1, "tc"))
		flags |= DG_TC;
	if (opt(p, 1, "qr0"))
		flags &= ~DG_QR;
	dg_put16(p->msg + 2, flags);
	if (opt(p, 1, "badid"))
		p->msg[0] ^= 1;
	if (opt(p, 1, "badcase"))
		flip_case(p->msg);
	if (opt(p, 1, "trail"))
		p->msg[p->len++] = 0;
	if (p->ask.tcp)
		dg_up_on_stream(dg_guard_up(p->w->guard), p->ask.req, p->msg,
				p->len, p->w->now);
	else
		dg_up_on_datagram(dg_guard_up(p->w->guard), p->ask.req, p->msg,
				  p->len, p->w->now);
}

static int errno_of(const struct play *p, const char *t)
{
	static const struct {
		const char *name;
		int code;
	} codes[] = {{"ESTALE", ESTALE},
		     {"ENOSPC", ENOSPC},
		     {"EACCES", EACCES},
		     {"ENOENT", ENOENT}};

	for (size_t i = 0; i < EG_ARRAY_SIZE(codes); i++)
		if (!strcmp(codes[i].name, t))
			return codes[i].code;
	fail_at(p, "unknown errno '%s'", t);
}

static void do_ack(struct play *p)
{
	struct eg_md_pinned m = {.slot = p->pin.m.slot,
				 .generation = p->pin.m.generation};

	if (p->n > 1)
		m.error = -errno_of(p, p->word[1]);
	dg_guard_pinned(p->w->guard, p->pin.cookie, &m);
}

static void do_drain(struct play *p)
{
	struct dw *w = p->w;

	w->nreplies = w->nsends = w->npins = w->ndenials = 0;
}

/* ---- verbs that expect -------------------------------------------------- */

static void want_upstream(struct play *p)
{
	struct eg_name want = dw_name(p->word[1]), got;
	const char *v;

	if (!p->w->nsends)
		fail_at(p, "nothing was sent upstream");
	p->ask = p->w->send[0];
	dw_shift(p->w->send, p->w->nsends);
	if (eg_name_from_wire(p->ask.msg + DG_HDR, p->ask.len - DG_HDR, &got) < 0 ||
	    !eg_name_equal(&want, &got))
		fail_at(p, "another name was asked");
	if (opt(p, 2, "tcp") ? !p->ask.tcp : p->ask.tcp)
		fail_at(p, "asked over %s", p->ask.tcp ? "TCP" : "UDP");
	if ((v = opt(p, 2, "server")) && num(p, v) != (long)p->ask.server)
		fail_at(p, "server %u was asked", p->ask.server);
	/* Nothing of the guest's is in it: 12 + name + 4 + 11, RD only. */
	if (p->ask.len != DG_HDR + (size_t)got.len + 15 ||
	    dg_get16(p->ask.msg + 2) != DG_RD ||
	    dg_get16(p->ask.msg + p->ask.len - 8) != DG_EDNS_SIZE)
		fail_at(p, "the query is not of our own making");
}

static void want_same_case(struct play *p)
{
	for (size_t i = DG_HDR + 1; p->ask.msg[i]; i++)
		if (isupper(p->ask.msg[i]))
			fail_at(p, "an exempt name was sent with case");
}

static void want_pin(struct play *p)
{
	struct eg_dm_pin *m = &p->pin.m;
	const char *v;
	uint32_t n = 0;

	if (!p->w->npins)
		fail_at(p, "no pin was asked for");
	p->pin = p->w->pin[0];
	dw_shift(p->w->pin, p->w->npins);
	if (m->slot != (uint32_t)num(p, p->word[1]))
		fail_at(p, "pin for slot %u", m->slot);
	for (int i = 2; i < p->n; i++) {
		bool found = false;

		if (strchr(p->word[i], '='))
			continue;
		n++;
		for (uint32_t k = 0; k < m->naddrs; k++)
			found |= m->addr[k] == addr(p, p->word[i]);
		if (!found)
			fail_at(p, "%s is not pinned", p->word[i]);
	}
	if (n && n != m->naddrs)
		fail_at(p, "%u addresses pinned", m->naddrs);
	if ((v = opt(p, 2, "count")) && num(p, v) != (long)m->naddrs)
		fail_at(p, "%u addresses pinned", m->naddrs);
	if ((v = opt(p, 2, "life")) && num(p, v) != (long)m->lifetime_s)
		fail_at(p, "pinned for %u s", m->lifetime_s);
}

struct seen {
	struct eg_name name;
	uint32_t n, ttl, addr[64];
	int ede;
};

/* Read back an answer of ours; it has one layout. */
static void read_answer(const struct play *p, const struct dw_reply *r,
			struct seen *s)
{
	size_t at = DG_HDR;

	memset(s, 0, sizeof(*s));
	s->ede = -1;
	if (dg_get16(r->msg + 4)) {
		int n = eg_name_from_wire(r->msg + at, r->len - at, &s->name);

		if (n < 0)
			fail_at(p, "bad question in the answer");
		at += (size_t)n + 4;
	}
	s->n = dg_get16(r->msg + 6);
	for (uint32_t i = 0; i < s->n; i++, at += 16) {
		s->ttl = dg_get32(r->msg + at + 6);
		s->addr[i] = dg_get32(r->msg + at + 12);
	}
	if (dg_get16(r->msg + 8))
		at += 34;
	if (dg_get16(r->msg + 10)) {
		if (dg_get16(r->msg + at + 9) >= 6)
			s->ede = dg_get16(r->msg + at + 15);
		at += 11U + dg_get16(r->msg + at + 9);
	}
	if (at != r->len)
		fail_at(p, "answer of %zu octets, %zu understood", r->len, at);
}

static void check_addrs(const struct play *p, const struct seen *s)
{
	uint32_t n = 0;

	for (int i = 3; i < p->n; i++) {
		bool found = false;

		if (strchr(p->word[i], '='))
			continue;
		n++;
		for (uint32_t k = 0; k < s->n; k++)
			found |= s->addr[k] == addr(p, p->word[i]);
		if (!found)
			fail_at(p, "%s is not in the answer", p->word[i]);
	}
	if (!opt(p, 3, "count") && n != s->n)
		fail_at(p, "%u addresses in the answer", s->n);
}

static void want_answer(struct play *p)
{
	struct dw_reply *r = &p->w->reply[0];
	unsigned int rcode;
	struct eg_name name;
	const char *v;
	struct seen s;

	if (!p->w->nreplies)
		fail_at(p, "no answer was sent");
	read_answer(p, r, &s);
	rcode = dg_get16(r->msg + 2) & DG_RCODE;
	if (r->to.slot != (uint32_t)num(p, p->word[1]))
		fail_at(p, "answer to slot %u", r->to.slot);
	if (rcode != (rcode_of(p, p->word[2]) & DG_RCODE))
		fail_at(p, "rcode %u", rcode);
	check_addrs(p, &s);
	if ((v = opt(p, 3, "count")) && num(p, v) != (long)s.n)
		fail_at(p, "%u addresses in the answer", s.n);
	if ((v = opt(p, 3, "ttl")) && num(p, v) != (long)s.ttl)
		fail_at(p, "ttl %u", s.ttl);
	if ((v = opt(p, 3, "ede")) && num(p, v) != s.ede)
		fail_at(p, "ede %d", s.ede);
	if ((v = opt(p, 3, "id")) && num(p, v) != dg_get16(r->msg))
		fail_at(p, "id %u", dg_get16(r->msg));
	if ((v = opt(p, 3, "name"))) {
		name = dw_name(v);
		if (memcmp(name.wire, s.name.wire, name.len))
			fail_at(p, "the question's case was not kept");
	}
	dw_shift(p->w->reply, p->w->nreplies);
}

static void want_record(struct play *p)
{
	const struct eg_da_denial *d = &p->w->denial[0];
	char text[EG_NAME_TEXT];
	const char *v;

	if (!p->w->ndenials)
		fail_at(p, "no record");
	if (strcmp(eg_reason_name((enum eg_reason)d->reason), p->word[1]))
		fail_at(p, "reason %s",
			eg_reason_name((enum eg_reason)d->reason));
	eg_name_format(&d->name, text);
	if (p->n > 2 && !strchr(p->word[2], '=') && strcmp(text, p->word[2]))
		fail_at(p, "record of %s", text);
	if ((v = opt(p, 2, "addr")) && (!d->has_addr || d->addr != addr(p, v)))
		fail_at(p, "record without that address");
	if ((v = opt(p, 2, "held")) && num(p, v) != (long)d->suppressed)
		fail_at(p, "%u held back", d->suppressed);
	dw_shift(p->w->denial, p->w->ndenials);
}

static void want_stats(struct play *p)
{
	const struct eg_reason_counts *c;
	struct eg_dm_stats s;
	enum eg_reason r = eg_reason_by_name(p->word[3]);

	if (r == EG_REASON_COUNT ||
	    !dg_guard_stats(p->w->guard, (uint32_t)num(p, p->word[1]),
			    (uint64_t)num(p, p->word[2]), &s))
		fail_at(p, "no such lease or reason");
	c = &s.dns[r];
	if ((long)c->denied != num(p, p->word[4]) ||
	    (long)c->suppressed != num(p, p->word[5]) ||
	    (long)c->sent != num(p, p->word[6]))
		fail_at(p, "denied %ju suppressed %ju sent %ju",
			(uintmax_t)c->denied, (uintmax_t)c->suppressed,
			(uintmax_t)c->sent);
}

/* ---- the interpreter ---------------------------------------------------- */

static void end_scenario(struct play *p)
{
	struct dw *w = p->w;
	struct eg_dm_stats s;

	if (!w)
		return;
	if (w->nreplies || w->nsends || w->npins || w->ndenials)
		fail_at(p,
			"left over: %zu answers, %zu upstream, %zu pins, %zu records",
			w->nreplies, w->nsends, w->npins, w->ndenials);
	for (uint32_t slot = 0; w->guard && slot < w->conf.slots; slot++) {
		uint64_t gen = dg_guard_live(w->guard, slot);

		if (!gen || !dg_guard_stats(w->guard, slot, gen, &s))
			continue;
		for (int r = 0; r < EG_REASON_COUNT; r++)
			if (s.dns[r].denied != s.dns[r].suppressed + s.dns[r].sent)
				fail_at(p, "the law is broken");
	}
	dw_free(w);
	p->w = NULL;
}

static void need(struct play *p, size_t n, const char *what)
{
	if (n)
		fail_at(p, "%zu %s where none belongs", n, what);
}

static void do_lease(struct play *p)
{
	uint32_t slot = (uint32_t)num(p, p->word[1]);
	uint64_t gen = (uint64_t)num(p, p->word[2]);

	if (p->word[0][0] == 'l')
		dw_lease(p->w, slot, gen,
			 p->n > 3 ? (uint32_t)num(p, p->word[3]) : 0);
	else
		dg_guard_unlease(p->w->guard, slot, gen);
}

static void do_refused(struct play *p)
{
	dg_up_on_error(dg_guard_up(p->w->guard), p->ask.req, p->w->now);
}

static void do_advance(struct play *p)
{
	dw_advance(p->w, num(p, p->word[1]));
}

static void do_main(struct play *p)
{
	p->w->main_away = !strcmp(p->word[1], "away");
	if (p->w->main_away)
		dg_guard_main_lost(p->w->guard);
}

static void do_audit(struct play *p)
{
	p->w->audit_full = !strcmp(p->word[1], "full");
}

static void want_no_upstream(struct play *p)
{
	need(p, p->w->nsends, "upstream queries");
}

static void want_no_pin(struct play *p)
{
	need(p, p->w->npins, "pins");
}

static void want_silence(struct play *p)
{
	need(p, p->w->nreplies, "answers");
}

static void want_no_record(struct play *p)
{
	need(p, p->w->ndenials, "records");
}

static void want_replies(struct play *p)
{
	if (p->w->nreplies != (size_t)num(p, p->word[1]))
		fail_at(p, "%zu answers", p->w->nreplies);
}

static const struct {
	const char *verb;
	void (*run)(struct play *p);
	int min; /* words */
} verbs[] = {
	{"conf", do_conf, 2},
	{"allow", do_entry, 2},
	{"deny", do_entry, 2},
	{"host", do_entry, 3},
	{"lease", do_lease, 3},
	{"unlease", do_lease, 3},
	{"query", do_query, 4},
	{"flood", do_flood, 5},
	{"raw", do_raw, 2},
	{"reply", do_reply, 1},
	{"refused", do_refused, 1},
	{"ack", do_ack, 1},
	{"advance", do_advance, 2},
	{"main", do_main, 2},
	{"audit", do_audit, 2},
	{"drain", do_drain, 1},
	{"upstream", want_upstream, 2},
	{"no-upstream", want_no_upstream, 1},
	{"same-case", want_same_case, 1},
	{"pin", want_pin, 2},
	{"no-pin", want_no_pin, 1},
	{"answer", want_answer, 3},
	{"silence", want_silence, 1},
	{"record", want_record, 2},
	{"no-record", want_no_record, 1},
	{"stats", want_stats, 7},
	{"replies", want_replies, 2},
};

static void run_line(struct play *p)
{
	for (size_t i = 0; i < EG_ARRAY_SIZE(verbs); i++) {
		if (strcmp(verbs[i].verb, p->word[0]))
			continue;
		if (p->n < verbs[i].min)
			fail_at(p, "'%s' needs more words", p->word[0]);
		verbs[i].run(p);
		return;
	}
	fail_at(p, "unknown verb '%s'", p->word[0]);
}

static void run_file(struct play *p, FILE *f)
{
	char line[8192], *save;

	while (fgets(line, sizeof(line), f)) {
		p->line++;
		line[strcspn(line, "#\n")] = 0;
		if (!strncmp(line, "scenario ", 9)) {
			end_scenario(p);
			(void)snprintf(p->title, sizeof(p->title), "%.120s",
				       line + 9);
			p->w = dw_new();
			p->scenarios++;
			continue;
		}
		p->n = 0;
		for (char *t = strtok_r(line, " \t", &save); t && p->n < WORDS;
		     t = strtok_r(NULL, " \t", &save))
			p->word[p->n++] = t;
		if (p->n)
			run_line(p);
	}
	end_scenario(p);
}

static void all_scenarios(void **state)
{
	static struct play p;
	struct dirent **list;
	int n = scandir("tests/replay", &list, NULL, alphasort), total = 0;

	(void)state;
	assert_true(n > 0);
	for (int i = 0; i < n; i++) {
		char path[300];
		FILE *f;

		(void)snprintf(path, sizeof(path), "tests/replay/%s",
			       list[i]->d_name);
		if (!strstr(path, ".rpl")) {
			free(list[i]);
			continue;
		}
		f = fopen(path, "re");
		assert_non_null(f);
		memset(&p, 0, sizeof(p));
		p.file = path;
		run_file(&p, f);
		(void)fclose(f);
		print_message("%s: %d scenarios\n", path, p.scenarios);
		total += p.scenarios;
		free(list[i]);
	}
	free(list);
	assert_true(total >= 25);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_scenarios),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
