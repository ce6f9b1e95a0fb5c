// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: the strict walker (see walk.h)
 */
#include "dnsguard/walk.h"

#include <string.h>

#define RR_FIXED 10	  /* type, class, ttl, rdlength */
#define TTL_MAX INT32_MAX /* RFC 2181 section 8 */
#define OPCODE_QUERY 0

/* A message being walked; the budget of pointer hops is the message's. */
struct walk {
	const uint8_t *msg;
	size_t len, at;
	unsigned int hops;
};

struct rr {
	struct eg_name owner;
	uint16_t type, class;
	uint32_t ttl;
	size_t rdata, rdend; /* offsets */
};

/* One CNAME of a reply. */
struct hop {
	struct eg_name owner, target;
	uint32_t ttl;
};

/*
 * Read a name at *at, following pointers when @pointers; *at moves behind it.
 * A pointer must go below the start of the labels it ends: each jump then
 * leaves strictly less message to read from, and loops cannot be written.
 */
static bool take_name(struct walk *w, size_t *at, size_t end, bool pointers,
		      struct eg_name *ret)
{
	size_t p = *at, floor = *at, n = 0, stop = end;
	unsigned int hops = 0;
	bool jumped = false;

	for (;;) {
		uint8_t c;

		if (p >= stop)
			return false;
		c = w->msg[p];
		if (c >= 0xc0) {
			size_t to;

			if (!pointers || p + 2 > stop || ++hops > DG_WALK_HOPS ||
			    ++w->hops > DG_WALK_HOPS_ALL)
				return false;
			to = (size_t)(c & 0x3f) << 8 | w->msg[p + 1];
			if (to < DG_HDR || to >= floor)
				return false;
			if (!jumped)
				*at = p + 2;
			jumped = true;
			stop = floor; /* labels may not run into themselves */
			floor = p = to;
			continue;
		}
		if (c > EG_NAME_LABEL || n + 1U + c > EG_NAME_WIRE ||
		    p + 1U + c > stop)
			return false;
		memcpy(ret->wire + n, w->msg + p, 1U + c);
		n += 1U + c;
		p += 1U + c;
		if (!c)
			break;
	}
	if (!jumped)
		*at = p;
	ret->len = (uint8_t)n;
	return true;
}

static bool take_question(struct walk *w, struct eg_name *name, uint16_t *type,
			  uint16_t *class)
{
	if (!take_name(w, &w->at, w->len, false, name) || w->at + 4 > w->len)
		return false;
	*type = dg_get16(w->msg + w->at);
	*class = dg_get16(w->msg + w->at + 2);
	w->at += 4;
	return true;
}

static bool take_rr(struct walk *w, struct rr *r)
{
	const uint8_t *p;

	if (!take_name(w, &w->at, w->len, true, &r->owner) ||
	    w->len - w->at < RR_FIXED)
		return false;
	p = w->msg + w->at;
	r->type = dg_get16(p);
	r->class = dg_get16(p + 2);
	r->ttl = dg_get32(p + 4);
	if (r->ttl > TTL_MAX)
		r->ttl = 0;
	r->rdata = w->at + RR_FIXED;
	if (w->len - r->rdata < dg_get16(p + 8))
		return false;
	r->rdend = r->rdata + dg_get16(p + 8);
	w->at = r->rdend;
	return true;
}

/* The options of an OPT record fill its rdata exactly. */
static bool opt_exact(const struct walk *w, const struct rr *r)
{
	size_t p = r->rdata;

	while (p < r->rdend) {
		if (r->rdend - p < 4)
			return false;
		p += 4U + dg_get16(w->msg + p + 2);
	}
	return p == r->rdend;
}

/* The only record a query may carry besides its question. */
static bool take_query_opt(struct walk *w, struct dg_query *q,
			   uint8_t *ret_version)
{
	struct rr r;

	if (w->at >= w->len || w->msg[w->at] || !take_rr(w, &r) ||
	    r.type != DG_T_OPT || !opt_exact(w, &r))
		return false;
	/* OPT keeps its version where others have a TTL: read the octet. */
	q->has_opt = true;
	q->opt_size = r.class < DG_UDP_MIN ? DG_UDP_MIN : r.class;
	*ret_version = w->msg[r.rdata - RR_FIXED + 5];
	return true;
}

enum dg_query_verdict dg_walk_query(const uint8_t *msg, size_t len,
				    struct dg_query *ret)
{
	struct walk w = {.msg = msg, .len = len, .at = DG_HDR};
	uint8_t version = 0;
	uint16_t arcount;

	memset(ret, 0, offsetof(struct dg_query, name));
	ret->name.len = 1;
	ret->name.wire[0] = 0;
	if (len < DG_HDR)
		return DG_QUERY_DROP;
	ret->id = dg_get16(msg);
	ret->flags = dg_get16(msg + 2);
	if (ret->flags & DG_QR)
		return DG_QUERY_DROP;
	if ((ret->flags & DG_OPCODE) != OPCODE_QUERY)
		return DG_QUERY_NOTIMP;
	arcount = dg_get16(msg + 10);
	if (dg_get16(msg + 4) != 1 || dg_get16(msg + 6) || dg_get16(msg + 8) ||
	    arcount > 1)
		return DG_QUERY_FORMERR;
	if (!take_question(&w, &ret->name, &ret->qtype, &ret->qclass)) {
		ret->name.len = 1;
		ret->name.wire[0] = 0;
		return DG_QUERY_FORMERR;
	}
	ret->has_question = true;
	ret->qlen = (uint16_t)(w.at - DG_HDR);
	if (arcount && !take_query_opt(&w, ret, &version))
		return DG_QUERY_FORMERR;
	if (w.at != len)
		return DG_QUERY_FORMERR;
	if (version)
		return DG_QUERY_BADVERS;
	return ret->qclass == DG_C_IN ? DG_QUERY_OK : DG_QUERY_CLASS;
}

size_t dg_walk_questions(const uint8_t *msg, size_t len,
			 struct eg_name ret[DG_QUESTIONS],
			 uint16_t ret_type[DG_QUESTIONS])
{
	struct walk w = {.msg = msg, .len = len, .at = DG_HDR};
	uint16_t class;
	size_t n = 0, want;

	if (len < DG_HDR)
		return 0;
	want = dg_get16(msg + 4);
	if (want > DG_QUESTIONS)
		want = DG_QUESTIONS;
	while (n < want && take_question(&w, &ret[n], &ret_type[n], &class))
		n++;
	return n;
}

/* A name in rdata, @skip octets in, that ends where the rdata ends. */
static bool name_exact(struct walk *w, const struct rr *r, size_t skip,
		       struct eg_name *ret)
{
	size_t at = r->rdata + skip;

	return at < r->rdend && take_name(w, &at, r->rdend, true, ret) &&
	       at == r->rdend;
}

/* Two names and five numbers, RFC 1035 section 3.3.13. */
static bool soa_exact(struct walk *w, const struct rr *r, uint32_t *minimum)
{
	struct eg_name n;
	size_t at = r->rdata;

	for (int i = 0; i < 2; i++)
		if (!take_name(w, &at, r->rdend, true, &n))
			return false;
	if (r->rdend - at != 20)
		return false;
	*minimum = dg_get32(w->msg + at + 16);
	return true;
}

static bool txt_exact(const struct walk *w, const struct rr *r)
{
	size_t p = r->rdata;

	while (p < r->rdend)
		p += 1U + w->msg[p];
	return p == r->rdend && r->rdend > r->rdata;
}

/* Does the rdata of a known type have its form, whatever the class? */
static bool rdata_exact(struct walk *w, const struct rr *r)
{
	struct eg_name n;
	uint32_t minimum;

	switch (r->type) {
	case DG_T_A:
		return r->rdend - r->rdata == 4;
	case DG_T_AAAA:
		return r->rdend - r->rdata == 16;
	case DG_T_NS:
	case DG_T_CNAME:
	case DG_T_PTR:
	case DG_T_DNAME:
		return name_exact(w, r, 0, &n);
	case DG_T_MX:
		return name_exact(w, r, 2, &n);
	case DG_T_SRV:
		return name_exact(w, r, 6, &n);
	case DG_T_SOA:
		return soa_exact(w, r, &minimum);
	case DG_T_TXT:
		return txt_exact(w, r);
	default:
		return true; /* opaque, and never used */
	}
}

/* What the first pass over the records gathers. */
struct gather {
	struct hop hop[DG_CNAMES];
	size_t nhops;
	size_t answers; /* offset of the answer section */
	uint16_t nanswers;
	bool has_opt, has_soa;
	uint8_t ext_rcode;
	uint32_t neg_ttl;
};

static bool gather_opt(struct walk *w, const struct rr *r, size_t start,
		       struct gather *g)
{
	if (g->has_opt || w->msg[start] || !opt_exact(w, r))
		return false;
	g->has_opt = true;
	g->ext_rcode = w->msg[r->rdata - RR_FIXED + 4];
	return true;
}

static bool gather_cname(struct walk *w, const struct rr *r, struct gather *g)
{
	struct hop *h;

	if (g->nhops == DG_CNAMES)
		return false;
	h = &g->hop[g->nhops++];
	h->owner = r->owner;
	h->ttl = r->ttl;
	return name_exact(w, r, 0, &h->target);
}

/* The SOA of a negative answer; a second one changes nothing. */
static bool gather_soa(struct walk *w, const struct rr *r, struct gather *g)
{
	uint32_t minimum;

	if (!soa_exact(w, r, &minimum))
		return false;
	if (!g->has_soa)
		g->neg_ttl = r->ttl < minimum ? r->ttl : minimum;
	g->has_soa = true;
	return true;
}

enum section { ANSWER, AUTHORITY, ADDITIONAL };

static bool gather_rr(struct walk *w, enum section s, struct gather *g)
{
	size_t start = w->at;
	struct rr r;

	if (!take_rr(w, &r))
		return false;
	if (r.type == DG_T_OPT)
		return s == ADDITIONAL && gather_opt(w, &r, start, g);
	/* RFC 5452 section 9.1: other classes are not ours to use */
	if (r.class != DG_C_IN)
		return rdata_exact(w, &r);
	if (s == ANSWER && r.type == DG_T_CNAME)
		return gather_cname(w, &r, g);
	if (s == AUTHORITY && r.type == DG_T_SOA)
		return gather_soa(w, &r, g);
	return rdata_exact(w, &r);
}

static bool gather_all(struct walk *w, struct gather *g)
{
	uint16_t counts[3] = {dg_get16(w->msg + 6), dg_get16(w->msg + 8),
			      dg_get16(w->msg + 10)};

	memset(g, 0, sizeof(*g));
	g->answers = w->at;
	g->nanswers = counts[0];
	for (int s = ANSWER; s <= ADDITIONAL; s++)
		for (unsigned int i = 0; i < counts[s]; i++)
			if (!gather_rr(w, (enum section)s, g))
				return false;
	return w->at == w->len;
}

static const struct hop *find_hop(const struct gather *g,
				  const struct eg_name *owner)
{
	for (size_t i = 0; i < g->nhops; i++)
		if (eg_name_equal(&g->hop[i].owner, owner))
			return &g->hop[i];
	return NULL;
}

/* Follow the CNAMEs from @name; the name at the end, NULL: too many. */
static const struct eg_name *
follow(const struct gather *g, const struct eg_name *name, struct dg_reply *ret)
{
	const struct hop *h;

	while ((h = find_hop(g, name))) {
		if (ret->nchain == DG_CHAIN) {
			ret->long_chain = true;
			return NULL;
		}
		ret->chain[ret->nchain++] = h->target;
		if (h->ttl < ret->ttl)
			ret->ttl = h->ttl;
		name = &h->target;
	}
	return name;
}

static void add_addr(struct dg_reply *ret, uint32_t addr, uint32_t ttl)
{
	ret->naddrs_seen++;
	if (ttl < ret->ttl)
		ret->ttl = ttl;
	for (uint32_t i = 0; i < ret->naddrs; i++)
		if (ret->addr[i] == addr)
			return;
	if (ret->naddrs < DG_REPLY_ADDRS)
		ret->addr[ret->naddrs++] = addr;
}

/* Second pass, over octets the first has accepted: the end's addresses. */
static void collect(struct walk *w, const struct gather *g,
		    const struct eg_name *end, struct dg_reply *ret)
{
	struct rr r;

	w->at = g->answers;
	w->hops = 0;
	for (uint16_t i = 0; i < g->nanswers; i++) {
		if (!take_rr(w, &r))
			return; /* cannot be: it was read before */
		if (r.type == DG_T_A && r.class == DG_C_IN &&
		    eg_name_equal(&r.owner, end))
			add_addr(ret, dg_get32(w->msg + r.rdata), r.ttl);
	}
}

/* Is this an answer to our question? OK: go on; otherwise the verdict. */
static enum dg_reply_verdict match_question(struct walk *w, uint16_t id,
					    const struct eg_name *name,
					    bool exact_case)
{
	uint16_t flags, type, class;
	struct eg_name asked;

	if (w->len < DG_HDR || dg_get16(w->msg) != id)
		return DG_REPLY_IGNORE;
	flags = dg_get16(w->msg + 2);
	if (!(flags & DG_QR) || (flags & DG_OPCODE) != OPCODE_QUERY ||
	    dg_get16(w->msg + 4) != 1)
		return DG_REPLY_IGNORE;
	if (!take_question(w, &asked, &type, &class) || type != DG_T_A ||
	    class != DG_C_IN || !eg_name_equal(&asked, name))
		return DG_REPLY_IGNORE;
	if (exact_case && memcmp(asked.wire, name->wire, name->len))
		return DG_REPLY_CASE;
	return flags & DG_TC ? DG_REPLY_TC : DG_REPLY_OK;
}

enum dg_reply_verdict dg_walk_reply(const uint8_t *msg, size_t len, uint16_t id,
				    const struct eg_name *name, bool exact_case,
				    struct dg_reply *ret)
{
	struct walk w = {.msg = msg, .len = len, .at = DG_HDR};
	enum dg_reply_verdict v = match_question(&w, id, name, exact_case);
	const struct eg_name *end;
	struct gather g;

	if (v != DG_REPLY_OK)
		return v;
	if (!gather_all(&w, &g))
		return DG_REPLY_BAD;
	memset(ret, 0, offsetof(struct dg_reply, addr));
	ret->ttl = TTL_MAX;
	ret->rcode = dg_get16(msg + 2) & DG_RCODE;
	ret->rcode |= (uint16_t)((uint16_t)g.ext_rcode << 4);
	ret->has_soa = g.has_soa;
	ret->neg_ttl = g.neg_ttl;
	end = follow(&g, name, ret);
	if (!end)
		return DG_REPLY_OK;
	collect(&w, &g, end, ret);
	ret->cut = ret->nchain && !ret->naddrs && !ret->has_soa &&
		   ret->rcode == DG_NOERROR;
	return DG_REPLY_OK;
}
