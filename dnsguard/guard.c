// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: the DNS guard's decisions (see guard.h)
 *
 * Two tables carry what is in progress. A waiter is one query of one guest;
 * all waiters are in one list in order of arrival, which is the order of
 * their deadlines. A flight is one upstream request and has the request's
 * number; its waiters hang off it.
 */
#include "dnsguard/guard.h"
#include "dnsguard/vet.h"
#include "netpool/base/plan.h"
#include "netpool/base/util.h"

#include <errno.h>
#include <string.h>

#define MS 1000000LL
#define NONE UINT32_MAX
#define OWNER_SHARED UINT32_MAX
#define DG_ENDED 256 /* leases whose counters are kept after their end */

enum wait_state { W_FREE, W_UP, W_PIN };

struct waiter {
	enum wait_state state;
	uint32_t serial;       /* a late pin must not find the next user */
	uint32_t newer, older; /* order of arrival */
	uint32_t next;	       /* in the flight, or in the free list */
	uint32_t flight;
	int64_t deadline;
	uint64_t generation;
	struct dg_client client;
	struct dg_query q;
	uint32_t ttl, lifetime, naddrs;
	uint32_t addr[EG_PIN_ADDRS];
	uint32_t evidence_len;
	uint8_t evidence[EG_DNS_EVIDENCE]; /* starts with the question */
};

struct flight {
	bool used, tail;	/* tail: asks the end of a cut chain */
	uint64_t generation;	/* of the owner, for a private name */
	uint32_t owner;		/* slot, or OWNER_SHARED */
	uint32_t first;		/* waiter */
	struct eg_name name;	/* the question's, in the first asker's case */
	struct dg_reply so_far; /* chain and TTL of the first part */
};

struct dg_guard {
	const struct eg_conf *conf;
	const struct dg_ops *ops;
	void *arg;
	int64_t now, wall;
	int (*up_send)(void *arg, uint32_t req, uint32_t server, bool tcp,
		       const uint8_t *msg, size_t len);
	void (*up_close)(void *arg, uint32_t req);
	struct dg_up *up;
	struct dg_policies policies;
	struct dg_cache *cache;
	struct dg_tree *denied; /* conf->deny_name and special names */
	uint8_t *denied_reason; /* by node; 0: nothing */
	uint32_t rate, burst, miss_rate;
	uint64_t unleased;
	uint32_t newest, oldest, free, flights;
	/* Generation a slot had last: what is older comes too late. */
	uint64_t *last;
	/* Leases that ended last: their counters can still be asked for. */
	struct {
		uint32_t slot;
		uint64_t generation;
	} ended[DG_ENDED];
	uint32_t nended;
	uint32_t unused; /* waiters from here on have never been used */
	uint64_t flight_hash[DG_UP_REQUESTS]; /* scanned for the same name */
	struct flight flight[DG_UP_REQUESTS];
	struct waiter waiter[DG_WAITERS];
	struct dg_lease **lease; /* by slot */
};

/*
 * Special-use names (RFC 6761, 7686, 8375, 9462, and what clouds call their
 * inside): a wildcard never reaches them, only an entry that writes the name.
 */
static const char *const special_names[] = {
	"localhost", "local",	"internal",	 "onion",
	"home.arpa", "invalid", "resolver.arpa",
};
#define REASON_SPECIAL 0xff /* in denied_reason: wildcards only */

/* ---- denials ----------------------------------------------------------- */

/* What a denial is about besides its lease and client. */
struct denial {
	enum eg_reason reason;
	enum dg_rcode rcode;
	const struct eg_name *name; /* NULL: none could be read */
	uint16_t qtype;
	const uint8_t *query;
	size_t len;
	bool has_addr;
	uint32_t addr;
	enum eg_reason class; /* of the address */
};

static void fill_denial(const struct dg_guard *g, const struct dg_lease *l,
			const struct dg_client *c, const struct denial *d,
			struct eg_da_denial *m)
{
	m->slot = l->slot;
	m->generation = l->generation;
	m->reason = (uint8_t)d->reason;
	m->rcode = (uint8_t)d->rcode;
	m->tcp = c->tcp;
	m->deny_class = (uint8_t)d->class;
	m->time_ns = g->wall;
	m->mono_ns = g->now;
	m->src = c->src;
	m->dst = c->dst;
	m->sport = c->sport;
	m->dport = c->dport;
	m->qtype = d->qtype;
	m->has_addr = d->has_addr;
	m->addr = d->addr;
	m->suppressed = l->held[d->reason];
	m->name.len = 1;
	if (d->name) {
		m->name.len = d->name->len;
		memcpy(m->name.wire, d->name->wire, d->name->len);
	}
	m->len = (uint32_t)(d->len < EG_DNS_EVIDENCE ? d->len : EG_DNS_EVIDENCE);
	memcpy(m->query, d->query, m->len);
}

/* Count a denial; record it unless its reason has had its share. */
static void deny(struct dg_guard *g, struct dg_lease *l,
		 const struct dg_client *c, const struct denial *d)
{
	struct eg_reason_counts *n = &l->count[d->reason];
	struct eg_da_denial m = {0};

	n->denied++;
	if (dg_bucket_take(&l->record[d->reason], g->now, DG_RECORDS, DG_RECORDS)) {
		fill_denial(g, l, c, d, &m);
		if (!g->ops->denial(g->arg, &m)) {
			n->sent++;
			l->held[d->reason] = 0;
			return;
		}
	}
	n->suppressed++;
	l->held[d->reason]++;
}

/* ---- answers ----------------------------------------------------------- */

static void send_answer(struct dg_guard *g, const struct dg_client *c,
			const struct dg_query *q, const uint8_t *question,
			const struct dg_answer *a)
{
	uint8_t msg[DG_ANSWER_MAX];
	size_t len = dg_build_answer(q, question, a, msg);

	g->ops->reply(g->arg, c, msg, len);
}

static const struct dg_answer answer_nodata = {
	.rcode = DG_NOERROR,
	.soa = true,
	.ede = DG_EDE_NONE,
};

/* What a guest is told of a denial. */
static struct dg_answer answer_denied(const struct dg_guard *g,
				      enum eg_reason reason)
{
	return (struct dg_answer){
		.rcode = g->conf->deny_refused ? DG_REFUSED : DG_NXDOMAIN,
		.soa = !g->conf->deny_refused,
		.ede = DG_EDE_BLOCKED,
		.ede_text = eg_reason_name(reason),
	};
}

static struct dg_answer answer_fail(enum dg_ede ede, const char *text)
{
	return (struct dg_answer){
		.rcode = DG_SERVFAIL, .ede = ede, .ede_text = text};
}

/* ---- waiters ----------------------------------------------------------- */

static uint32_t windex(const struct dg_guard *g, const struct waiter *w)
{
	return (uint32_t)(w - g->waiter);
}

static uint64_t cookie_of(const struct dg_guard *g, const struct waiter *w)
{
	return (uint64_t)w->serial << 32 | windex(g, w);
}

/* The lease a waiter belongs to, while it lasts. */
static struct dg_lease *lease_of(struct dg_guard *g, const struct waiter *w)
{
	struct dg_lease *l = g->lease[w->client.slot];

	return l && l->live && l->generation == w->generation ? l : NULL;
}

static struct waiter *wait_begin(struct dg_guard *g, struct dg_lease *l,
				 const struct dg_client *c,
				 const struct dg_query *q, const uint8_t *msg,
				 size_t len)
{
	struct waiter *w;

	if ((g->free == NONE && g->unused == DG_WAITERS) ||
	    l->waiting >= DG_WAITERS_LEASE)
		return NULL;
	/* One never used before: its memory is not touched until then. */
	w = &g->waiter[g->free == NONE ? g->unused++ : g->free];
	if (windex(g, w) == g->free)
		g->free = w->next;
	w->older = g->newest;
	w->newer = NONE;
	if (g->newest != NONE)
		g->waiter[g->newest].newer = windex(g, w);
	else
		g->oldest = windex(g, w);
	g->newest = windex(g, w);
	w->next = w->flight = NONE;
	w->deadline = g->now + DG_DEADLINE_MS * MS;
	w->generation = l->generation;
	w->client = *c;
	w->q = *q;
	w->naddrs = 0;
	w->evidence_len =
		(uint32_t)(len < EG_DNS_EVIDENCE ? len : EG_DNS_EVIDENCE);
	memcpy(w->evidence, msg, w->evidence_len);
	l->waiting++;
	return w;
}

static void leave_flight(struct dg_guard *g, struct waiter *w)
{
	uint32_t *at;

	if (w->flight == NONE)
		return;
	at = &g->flight[w->flight].first;
	while (*at != windex(g, w))
		at = &g->waiter[*at].next;
	*at = w->next;
	w->flight = NONE;
}

/* The counters of the lease, if it is still the same one. */
static void set_state(struct dg_guard *g, struct waiter *w, enum wait_state state)
{
	struct dg_lease *l = lease_of(g, w);

	if (l && w->state == W_UP)
		l->asking--;
	if (l && state == W_UP)
		l->asking++;
	w->state = state;
}

static void wait_end(struct dg_guard *g, struct waiter *w)
{
	struct dg_lease *l = lease_of(g, w);

	leave_flight(g, w);
	set_state(g, w, W_FREE);
	if (l)
		l->waiting--;
	if (w->newer != NONE)
		g->waiter[w->newer].older = w->older;
	else
		g->newest = w->older;
	if (w->older != NONE)
		g->waiter[w->older].newer = w->newer;
	else
		g->oldest = w->newer;
	w->serial++;
	w->next = g->free;
	g->free = windex(g, w);
}

static void wait_answer(struct dg_guard *g, struct waiter *w,
			const struct dg_answer *a)
{
	struct dg_lease *l = lease_of(g, w);

	if (l) {
		l->answered++;
		send_answer(g, &w->client, &w->q, w->evidence + DG_HDR, a);
	} else {
		g->ops->silence(g->arg, &w->client);
	}
	wait_end(g, w);
}

static void wait_fail(struct dg_guard *g, struct waiter *w, enum dg_ede ede,
		      const char *text)
{
	struct dg_answer a = answer_fail(ede, text);

	wait_answer(g, w, &a);
}

/* Denied after all: record it and say so. */
static void wait_deny(struct dg_guard *g, struct waiter *w, enum eg_reason reason,
		      enum eg_reason class, const uint32_t *addr)
{
	struct dg_answer a = answer_denied(g, reason);
	struct dg_lease *l = lease_of(g, w);
	struct denial d = {.reason = reason,
			   .rcode = a.rcode,
			   .name = &w->q.name,
			   .qtype = w->q.qtype,
			   .query = w->evidence,
			   .len = w->evidence_len,
			   .has_addr = addr,
			   .addr = addr ? *addr : 0,
			   .class = class};

	if (l)
		deny(g, l, &w->client, &d);
	wait_answer(g, w, &a);
}

/* ---- policy ------------------------------------------------------------ */

/* Is the name, or one above it, denied to everyone? NONE: no. */
static uint8_t always_denied(const struct dg_guard *g, const struct eg_name *name)
{
	uint8_t worst = EG_REASON_NONE;
	struct dg_path path;

	dg_tree_walk(g->denied, name, &path);
	for (uint32_t d = 0; d < path.depth; d++) {
		uint8_t r = g->denied_reason[path.node[d]];

		if (r && (!worst || worst == REASON_SPECIAL ||
			  r == EG_REASON_METADATA))
			worst = r;
	}
	return worst;
}

/* NONE: allowed, or an ancestor (v->ancestor); else the reason. */
static enum eg_reason decide(const struct dg_guard *g, const struct dg_lease *l,
			     const struct eg_name *name, struct rl_verdict *v)
{
	uint8_t always = always_denied(g, name);

	dg_index_lookup(l->policy->index, l->phases, g->wall / EG_NSEC_PER_SEC,
			name, v);
	if (always == REASON_SPECIAL ? v->wildcard && !v->has_host
				     : always != EG_REASON_NONE) {
		v->allowed = v->ancestor = false;
		return always == EG_REASON_METADATA ? EG_REASON_METADATA
						    : EG_REASON_DNS_DENIED;
	}
	if (l->closed) {
		v->allowed = v->ancestor = false;
		return l->closed;
	}
	if (name->len == 1)
		v->ancestor = false; /* the root tells nobody anything */
	if (v->allowed || v->ancestor)
		return EG_REASON_NONE;
	return EG_REASON_DNS_DENIED;
}

/* Why a CNAME target may not be on the way; NONE: it may. */
static enum eg_reason vet_hop(const struct dg_guard *g, const struct dg_lease *l,
			      uint32_t flags, const struct eg_name *hop)
{
	uint8_t always = always_denied(g, hop);
	struct rl_verdict v;

	if (always == EG_REASON_METADATA)
		return EG_REASON_METADATA;
	if (always != EG_REASON_NONE)
		return EG_REASON_REBIND;
	dg_index_lookup(l->policy->index, l->phases, g->wall / EG_NSEC_PER_SEC,
			hop, &v);
	if (v.denied || ((flags & RL_F_CHAIN_LISTED) && !v.allowed))
		return EG_REASON_DNS_DENIED;
	return EG_REASON_NONE;
}

static enum eg_reason vet_chain(const struct dg_guard *g,
				const struct dg_lease *l, uint32_t flags,
				const struct dg_entry *e)
{
	enum eg_reason r = EG_REASON_NONE;
	struct eg_name hop;
	uint32_t index = 0;
	size_t at = 0;

	while (!r && dg_entry_chain(e, &at, &index, &hop))
		r = vet_hop(g, l, flags, &hop);
	return r;
}

/* What vetting leaves of an answer's addresses. */
struct vetted {
	uint32_t n, addr[DG_REPLY_ADDRS];
	bool stripped, whole; /* whole: nothing of it may be used */
	enum eg_reason class; /* of the gravest address taken out */
	uint32_t bad;
};

static void vet_addrs(const struct dg_guard *g, const struct rl_verdict *v,
		      const uint32_t *addr, uint32_t n, struct vetted *ret)
{
	memset(ret, 0, offsetof(struct vetted, addr));
	ret->stripped = ret->whole = false;
	ret->class = EG_REASON_NONE;
	for (uint32_t i = 0; i < n; i++) {
		enum eg_reason r =
			dg_vet_addr(g->conf, addr[i], v->private, v->nprivate);
		bool grave = r == EG_REASON_METADATA || r == EG_REASON_RESERVED;

		if (r == EG_REASON_NONE) {
			ret->addr[ret->n++] = addr[i];
			continue;
		}
		if (!ret->stripped || (grave && !ret->whole) ||
		    (r == EG_REASON_METADATA && ret->class != EG_REASON_METADATA)) {
			ret->class = r;
			ret->bad = addr[i];
		}
		ret->stripped = true;
		ret->whole |= grave;
	}
}

/* ---- from addresses to the answer -------------------------------------- */

static void ask_pin(struct dg_guard *g, struct waiter *w)
{
	struct eg_dm_pin m = {.slot = w->client.slot,
			      .naddrs = w->naddrs,
			      .generation = w->generation,
			      .lifetime_s = w->lifetime};

	memcpy(m.addr, w->addr, w->naddrs * sizeof(m.addr[0]));
	m.name.len = w->q.name.len;
	memcpy(m.name.wire, w->q.name.wire, w->q.name.len);
	eg_name_lower(&m.name);
	set_state(g, w, W_PIN);
	if (g->ops->pin(g->arg, cookie_of(g, w), &m))
		wait_fail(g, w, DG_EDE_OTHER, "pin not possible");
}

static uint32_t clamp(uint32_t v, uint32_t lo, uint32_t hi)
{
	return v < lo ? lo : v > hi ? hi : v;
}

/* Seconds a pin has to live: longer than anybody keeps the answer. */
static uint32_t pin_lifetime(const struct dg_guard *g, uint32_t flags,
			     uint32_t ttl, uint32_t shown)
{
	const struct eg_conf *c = g->conf;
	uint32_t life = clamp(ttl, c->min_ttl, c->max_ttl) + c->grace;

	if (flags & RL_F_HOLD_RUN)
		life = eg_max_u32(life, c->max_ttl_s); /* no lease is longer */
	return eg_max_u32(eg_max_u32(life, shown), DG_TTL_MIN);
}

/* Vetted addresses: choose, ask for pins. */
static void serve_vetted(struct dg_guard *g, struct dg_lease *l,
			 struct waiter *w, const struct vetted *vet,
			 uint32_t flags, uint32_t ttl, uint32_t rotate)
{
	struct dg_pinset *s = dg_lease_pins(l, &w->q.name, g->now);

	w->naddrs = dg_lease_choose(l, s, vet->addr, vet->n, rotate,
				    dg_build_room(&w->q), g->now, w->addr);
	if (!w->naddrs) {
		struct denial d = {.reason = EG_REASON_QUOTA,
				   .rcode = DG_SERVFAIL,
				   .name = &w->q.name,
				   .qtype = w->q.qtype,
				   .query = w->evidence,
				   .len = w->evidence_len};

		deny(g, l, &w->client, &d);
		wait_fail(g, w, DG_EDE_OTHER, "quota: too many pins");
		return;
	}
	w->ttl = clamp(ttl, DG_TTL_MIN, DG_TTL_MAX);
	w->lifetime = pin_lifetime(g, flags, ttl, w->ttl);
	ask_pin(g, w);
}

/* Addresses of an allowed name, from upstream or [host], to one waiter. */
static void serve_addrs(struct dg_guard *g, struct dg_lease *l, struct waiter *w,
			const struct rl_verdict *v, const uint32_t *addr,
			uint32_t n, uint32_t ttl, uint32_t rotate)
{
	struct vetted vet;

	vet_addrs(g, v, addr, n, &vet);
	if (vet.whole || (vet.stripped && !vet.n)) {
		wait_deny(g, w,
			  vet.class == EG_REASON_METADATA ? EG_REASON_METADATA
							  : EG_REASON_REBIND,
			  vet.class, &vet.bad);
		return;
	}
	if (vet.stripped) {
		struct denial d = {.reason = EG_REASON_REBIND,
				   .rcode = DG_NOERROR,
				   .name = &w->q.name,
				   .qtype = w->q.qtype,
				   .query = w->evidence,
				   .len = w->evidence_len,
				   .has_addr = true,
				   .addr = vet.bad,
				   .class = vet.class};

		deny(g, l, &w->client, &d);
	}
	serve_vetted(g, l, w, &vet, v->flags, ttl, rotate);
}

/* What is known of a name, to one waiter whose policy has just been asked. */
static void serve_entry(struct dg_guard *g, struct dg_lease *l, struct waiter *w,
			const struct rl_verdict *v, struct dg_entry *e)
{
	struct dg_answer a = answer_nodata;
	enum eg_reason r;
	int64_t left;

	switch (e->kind) {
	case DG_KIND_NODATA:
		wait_answer(g, w, &a);
		return;
	case DG_KIND_NXDOMAIN:
		a.rcode = DG_NXDOMAIN;
		wait_answer(g, w, &a);
		return;
	case DG_KIND_FAIL:
		wait_fail(g, w, e->ede, "upstream failed");
		return;
	case DG_KIND_ADDRS:
	case DG_KIND_COUNT:
		break;
	}
	r = vet_chain(g, l, v->flags, e);
	if (r) {
		wait_deny(g, w, r, EG_REASON_NONE, NULL);
		return;
	}
	left = e->expires > g->now ? (e->expires - g->now) / EG_NSEC_PER_SEC : 0;
	serve_addrs(g, l, w, v, e->addr, e->naddrs, (uint32_t)left, e->rotate);
	e->rotate += DG_ANSWER_ADDRS < e->naddrs ? DG_ANSWER_ADDRS : 1;
}

static void on_ack(struct dg_guard *g, struct dg_lease *l, struct waiter *w)
{
	int64_t until = g->now + (int64_t)w->lifetime * EG_NSEC_PER_SEC;
	struct eg_da_name m = {.slot = l->slot,
			       .naddrs = w->naddrs,
			       .generation = l->generation,
			       .lifetime_s = w->lifetime};
	struct dg_answer a = {.rcode = DG_NOERROR,
			      .ede = DG_EDE_NONE,
			      .ttl = w->ttl,
			      .naddrs = w->naddrs};
	bool fresh = true;
	struct dg_pinset *s = dg_lease_pinned(l, &w->q.name, w->addr, w->naddrs,
					      until, g->now, &fresh);

	memcpy(a.addr, w->addr, sizeof(a.addr));
	if (fresh || !s || g->now - s->told >= DG_NAME_AGAIN_S * EG_NSEC_PER_SEC) {
		memcpy(m.addr, w->addr, w->naddrs * sizeof(m.addr[0]));
		m.name.len = w->q.name.len;
		memcpy(m.name.wire, w->q.name.wire, w->q.name.len);
		eg_name_lower(&m.name);
		g->ops->name(g->arg, &m);
		if (s)
			s->told = g->now;
	}
	wait_answer(g, w, &a);
}

void dg_guard_pinned(struct dg_guard *g, uint64_t cookie,
		     const struct eg_md_pinned *m)
{
	uint32_t i = (uint32_t)cookie;
	struct dg_lease *l;
	struct waiter *w;

	if (i >= DG_WAITERS)
		return;
	w = &g->waiter[i];
	if (w->state != W_PIN || w->serial != cookie >> 32 ||
	    w->client.slot != m->slot || w->generation != m->generation)
		return;
	l = lease_of(g, w);
	if (!l || m->error == -ESTALE) {
		g->ops->silence(g->arg, &w->client);
		wait_end(g, w);
	} else if (!m->error) {
		on_ack(g, l, w);
	} else if (m->error == -EACCES || m->error == -EPERM) {
		/* main knows more: the host's addresses, the tenant's permits */
		wait_deny(g, w, EG_REASON_REBIND, EG_REASON_PRIVATE, &w->addr[0]);
	} else {
		wait_fail(g, w, DG_EDE_OTHER, "pin failed");
	}
}

void dg_guard_main_lost(struct dg_guard *g)
{
	uint32_t i = g->oldest;

	while (i != NONE) {
		struct waiter *w = &g->waiter[i];

		i = w->newer;
		if (w->state == W_PIN)
			wait_fail(g, w, DG_EDE_OTHER, "pin not possible");
	}
}

/* ---- upstream ---------------------------------------------------------- */

static uint64_t flight_hash(uint32_t owner, const struct eg_name *name)
{
	return (uint64_t)eg_name_hash(name) << 32 | owner;
}

static struct flight *find_flight(struct dg_guard *g, uint32_t owner,
				  const struct eg_name *name)
{
	uint64_t h = flight_hash(owner, name);

	for (uint32_t i = 0; g->flights && i < DG_UP_REQUESTS; i++) {
		struct flight *f = &g->flight[i];

		if (g->flight_hash[i] == h && f->used && f->owner == owner &&
		    eg_name_equal(&f->name, name))
			return f;
	}
	return NULL;
}

/* Occupy flight @i, which is the request's number. */
static struct flight *take_flight(struct dg_guard *g, uint32_t i,
				  uint32_t owner, const struct eg_name *name)
{
	struct flight *f = &g->flight[i];

	f->used = true;
	f->tail = false;
	f->owner = owner;
	f->generation = 0;
	f->first = NONE;
	f->name = *name;
	g->flight_hash[i] = flight_hash(owner, name);
	g->flights++;
	return f;
}

static void join_flight(struct dg_guard *g, struct flight *f, struct waiter *w)
{
	w->flight = (uint32_t)(f - g->flight);
	w->next = f->first;
	f->first = windex(g, w);
	set_state(g, w, W_UP);
}

/* Wildcard names are cached and asked apart for each lease. */
static struct dg_cache *cache_for(struct dg_guard *g, struct dg_lease *l,
				  bool wildcard)
{
	if (!wildcard)
		return g->cache;
	if (!l->cache && dg_cache_new(&l->cache, DG_CACHE_PRIVATE))
		return NULL;
	return l->cache;
}

/* Requests run short: a lease that has many has to wait. */
static uint32_t asking_limit(const struct dg_guard *g)
{
	return g->flights > DG_UP_REQUESTS * 3 / 4 ? DG_ASKING_TIGHT
						   : DG_ASKING_LEASE;
}

static void wait_rate(struct dg_guard *g, struct dg_lease *l, struct waiter *w,
		      bool reply)
{
	struct denial d = {.reason = EG_REASON_RATE,
			   .rcode = reply ? DG_SERVFAIL : DG_NOERROR,
			   .name = &w->q.name,
			   .qtype = w->q.qtype,
			   .query = w->evidence,
			   .len = w->evidence_len};

	deny(g, l, &w->client, &d);
	if (reply) {
		wait_fail(g, w, DG_EDE_OTHER, "rate: too many at once");
		return;
	}
	g->ops->silence(g->arg, &w->client);
	wait_end(g, w);
}

static void ask_upstream(struct dg_guard *g, struct dg_lease *l,
			 struct waiter *w, bool wildcard)
{
	uint32_t owner = wildcard ? l->slot : OWNER_SHARED;
	struct flight *f;
	int r;

	if (l->asking >= asking_limit(g)) {
		wait_rate(g, l, w, true);
		return;
	}
	f = find_flight(g, owner, &w->q.name);
	if (f && (!wildcard || f->generation == l->generation)) {
		join_flight(g, f, w);
		return;
	}
	if (!dg_bucket_take(&l->misses, g->now, g->miss_rate, g->burst)) {
		wait_rate(g, l, w, false);
		return;
	}
	r = dg_up_ask(g->up, &w->q.name, g->now);
	if (r < 0) {
		wait_fail(g, w, DG_EDE_NETWORK, "no upstream");
		return;
	}
	f = take_flight(g, (uint32_t)r, owner, &w->q.name);
	f->generation = wildcard ? l->generation : 0;
	join_flight(g, f, w);
}

/* Give what has been learned to everyone who waits for it. */
static void serve_flight(struct dg_guard *g, struct flight *f, struct dg_entry *e)
{
	while (f->first != NONE) {
		struct waiter *w = &g->waiter[f->first];
		struct dg_lease *l = lease_of(g, w);
		struct rl_verdict v;
		enum eg_reason r;

		leave_flight(g, w);
		if (!l) {
			wait_end(g, w);
			continue;
		}
		r = decide(g, l, &w->q.name, &v);
		if (r || !v.allowed)
			wait_deny(g, w, r ? r : EG_REASON_DNS_DENIED,
				  EG_REASON_NONE, NULL);
		else if (!e)
			wait_fail(g, w, DG_EDE_OTHER, "out of memory");
		else
			serve_entry(g, l, w, &v, e);
	}
}

/* Put the chain and TTL of the first part in front of the second's. */
static bool splice(const struct flight *f, struct dg_reply *r)
{
	uint32_t head = f->so_far.nchain;

	if (!f->tail)
		return true;
	if (head + r->nchain > DG_CHAIN)
		return false;
	memmove(&r->chain[head], &r->chain[0], r->nchain * sizeof(r->chain[0]));
	memcpy(&r->chain[0], &f->so_far.chain[0], head * sizeof(r->chain[0]));
	r->nchain += head;
	r->ttl = eg_min_u32(r->ttl, f->so_far.ttl);
	return true;
}

/* One more request for the end of a cut chain; true: it is on its way. */
static bool ask_tail(struct dg_guard *g, struct flight *f,
		     const struct dg_reply *r)
{
	struct flight *t;
	int n;

	if (!r->cut || f->tail || f->first == NONE)
		return false;
	n = dg_up_ask(g->up, &r->chain[r->nchain - 1], g->now);
	if (n < 0)
		return false;
	t = take_flight(g, (uint32_t)n, f->owner, &f->name);
	t->tail = true;
	t->generation = f->generation;
	t->so_far = *r;
	t->first = f->first;
	for (uint32_t i = t->first; i != NONE; i = g->waiter[i].next)
		g->waiter[i].flight = (uint32_t)n;
	return true;
}

/* Sort a reply into what is kept of it. */
static enum dg_kind classify(const struct dg_reply *r, uint32_t *ret_ttl)
{
	uint32_t neg =
		r->has_soa ? eg_min_u32(r->neg_ttl, DG_NEG_MAX) : DG_NEG_NO_SOA;

	if (r->long_chain) {
		*ret_ttl = DG_FAIL_TTL;
		return DG_KIND_FAIL;
	}
	if (r->naddrs) {
		*ret_ttl = r->ttl;
		return DG_KIND_ADDRS;
	}
	*ret_ttl = neg;
	return r->rcode == DG_NXDOMAIN ? DG_KIND_NXDOMAIN : DG_KIND_NODATA;
}

/* Cache of a flight's owner; NULL: the owner is gone. */
static struct dg_cache *cache_of_flight(struct dg_guard *g,
					const struct flight *f)
{
	struct dg_lease *l;

	if (f->owner == OWNER_SHARED)
		return g->cache;
	l = g->lease[f->owner];
	if (!l || !l->live || l->generation != f->generation)
		return NULL;
	return cache_for(g, l, true);
}

static void on_up_done(void *arg, uint32_t req, const struct dg_reply *r,
		       enum dg_ede why)
{
	struct dg_guard *g = arg;
	struct flight f = g->flight[req];
	struct dg_reply full;
	struct dg_entry *e = NULL;
	struct dg_cache *c;
	enum dg_kind kind = DG_KIND_FAIL;
	uint32_t ttl = DG_FAIL_TTL;

	/* The number is free already; the tail's request may get it anew. */
	g->flight[req].used = false;
	g->flights--;
	if (r) {
		full = *r;
		if (!splice(&f, &full))
			full.long_chain = true;
		if (ask_tail(g, &f, &full))
			return;
		kind = classify(&full, &ttl);
	}
	c = cache_of_flight(g, &f);
	if (c)
		e = dg_cache_put(c, &f.name, kind, r ? &full : NULL, ttl, g->now);
	if (e && kind == DG_KIND_FAIL)
		e->ede = why == DG_EDE_NONE ? DG_EDE_OTHER : why;
	/* Waiters look for themselves in their flight: put the list back. */
	g->flight[req].first = f.first;
	for (uint32_t i = f.first; i != NONE; i = g->waiter[i].next)
		g->waiter[i].flight = req;
	serve_flight(g, &g->flight[req], e);
}

/* ---- queries ----------------------------------------------------------- */

/* An allowed name and type A: from [host], the cache, or upstream. */
static void resolve(struct dg_guard *g, struct dg_lease *l,
		    const struct dg_client *c, const struct dg_query *q,
		    const struct rl_verdict *v, const uint8_t *msg, size_t len)
{
	struct waiter *w = wait_begin(g, l, c, q, msg, len);
	struct dg_cache *cache;
	struct dg_entry *e;

	if (!w) {
		struct dg_answer a =
			answer_fail(DG_EDE_OTHER, "rate: too many at once");
		struct denial d = {.reason = EG_REASON_RATE,
				   .rcode = DG_SERVFAIL,
				   .name = &q->name,
				   .qtype = q->qtype,
				   .query = msg,
				   .len = len};

		deny(g, l, c, &d);
		l->answered++;
		send_answer(g, c, q, msg + DG_HDR, &a);
		return;
	}
	if (v->has_host) {
		serve_addrs(g, l, w, v, &v->host_addr, 1, DG_TTL_MAX, 0);
		return;
	}
	cache = cache_for(g, l, v->wildcard);
	if (!cache) {
		wait_fail(g, w, DG_EDE_OTHER, "out of memory");
		return;
	}
	e = dg_cache_find(cache, &q->name, g->now);
	if (e)
		serve_entry(g, l, w, v, e);
	else
		ask_upstream(g, l, w, v->wildcard);
}

/* Deny one query; @answer NULL: in silence. */
static void refuse(struct dg_guard *g, struct dg_lease *l,
		   const struct dg_client *c, const struct dg_query *q,
		   enum eg_reason reason, const struct dg_answer *answer,
		   const uint8_t *msg, size_t len)
{
	struct denial d = {.reason = reason,
			   .rcode = answer ? answer->rcode : DG_NOERROR,
			   .name = &q->name,
			   .qtype = q->qtype,
			   .query = msg,
			   .len = len};

	/* A guest at its rate of refusals gets none: it costs a record less. */
	if (!dg_bucket_take(&l->denied, g->now, g->rate, g->burst)) {
		d.reason = EG_REASON_RATE;
		answer = NULL;
	}
	deny(g, l, c, &d);
	if (!answer) {
		g->ops->silence(g->arg, c);
		return;
	}
	l->answered++;
	send_answer(g, c, q, msg + DG_HDR, answer);
}

/* The names of a query that asked several have a record each. */
static void refuse_many(struct dg_guard *g, struct dg_lease *l,
			const struct dg_client *c, const struct dg_query *q,
			const struct dg_answer *answer, const uint8_t *msg,
			size_t len)
{
	struct eg_name name[DG_QUESTIONS];
	uint16_t type[DG_QUESTIONS];
	size_t n = dg_walk_questions(msg, len, name, type);
	struct dg_query first = *q;

	for (size_t i = 1; i < n; i++) {
		struct denial d = {.reason = EG_REASON_DNS_MALFORMED,
				   .rcode = answer->rcode,
				   .name = &name[i],
				   .qtype = type[i],
				   .query = msg,
				   .len = len};

		deny(g, l, c, &d);
	}
	if (n) {
		first.name = name[0];
		first.qtype = type[0];
	}
	refuse(g, l, c, &first, EG_REASON_DNS_MALFORMED, answer, msg, len);
}

static void on_malformed(struct dg_guard *g, struct dg_lease *l,
			 const struct dg_client *c, const struct dg_query *q,
			 enum dg_rcode rcode, const uint8_t *msg, size_t len)
{
	struct dg_answer a = {.rcode = rcode, .ede = DG_EDE_NONE};

	if (!q->has_question)
		refuse_many(g, l, c, q, &a, msg, len);
	else
		refuse(g, l, c, q, EG_REASON_DNS_MALFORMED, &a, msg, len);
}

/* AAAA, HTTPS, SVCB: what stock clients ask beside A; no denial. */
static bool quiet_type(uint16_t qtype)
{
	return qtype == DG_T_AAAA || qtype == DG_T_HTTPS || qtype == DG_T_SVCB;
}

static void on_question(struct dg_guard *g, struct dg_lease *l,
			const struct dg_client *c, const struct dg_query *q,
			const uint8_t *msg, size_t len)
{
	struct dg_answer a = answer_nodata;
	struct rl_verdict v;
	enum eg_reason r = decide(g, l, &q->name, &v);

	if (!r && v.allowed && v.wildcard &&
	    (q->name.len > DG_NAME_MAX ||
	     !dg_lease_name(l, v.entry, v.max_names, &q->name)))
		r = EG_REASON_QUOTA;
	if (r) {
		a = answer_denied(g, r);
		refuse(g, l, c, q, r, &a, msg, len);
		return;
	}
	if (v.allowed && q->qtype != DG_T_A && !quiet_type(q->qtype)) {
		refuse(g, l, c, q, EG_REASON_DNS_TYPE, &a, msg, len);
		return;
	}
	if (!dg_bucket_take(&l->allowed, g->now, g->rate, g->burst)) {
		struct denial d = {.reason = EG_REASON_RATE,
				   .name = &q->name,
				   .qtype = q->qtype,
				   .query = msg,
				   .len = len};

		deny(g, l, c, &d);
		g->ops->silence(g->arg, c);
		return;
	}
	if (v.allowed && q->qtype == DG_T_A) {
		resolve(g, l, c, q, &v, msg, len);
		return;
	}
	l->answered++;
	send_answer(g, c, q, msg + DG_HDR, &a);
}

static void on_unleased(struct dg_guard *g, const struct dg_client *c,
			const uint8_t *msg, size_t len)
{
	struct dg_answer a = {.rcode = DG_REFUSED,
			      .ede = DG_EDE_PROHIBITED,
			      .ede_text = "unleased"};
	struct dg_query q;

	g->unleased++;
	if (dg_walk_query(msg, len, &q) == DG_QUERY_DROP)
		g->ops->silence(g->arg, c);
	else
		send_answer(g, c, &q, msg + DG_HDR, &a);
}

bool dg_guard_knows(const struct dg_guard *g, const struct dg_client *c)
{
	const struct dg_lease *l =
		c->slot < g->conf->slots ? g->lease[c->slot] : NULL;

	return l && l->live && (!c->epoch || c->epoch == eg_epoch(l->generation));
}

void dg_guard_query(struct dg_guard *g, const struct dg_client *c,
		    const uint8_t *msg, size_t len)
{
	struct dg_lease *l = c->slot < g->conf->slots ? g->lease[c->slot] : NULL;
	struct dg_answer refused = {.rcode = DG_REFUSED, .ede = DG_EDE_NONE};
	enum dg_query_verdict v;
	struct dg_query q;

	if (!l || !l->live) {
		on_unleased(g, c, msg, len);
		return;
	}
	if (!dg_guard_knows(g, c)) {
		/* Of a former tenant: the present one gets no answer to it. */
		g->unleased++;
		g->ops->silence(g->arg, c);
		return;
	}
	l->queries++;
	v = dg_walk_query(msg, len, &q);
	if (c->src != eg_plan_addr(g->conf, c->slot)) {
		refuse(g, l, c, &q, EG_REASON_SPOOFED, NULL, msg, len);
		return;
	}
	switch (v) {
	case DG_QUERY_OK:
		on_question(g, l, c, &q, msg, len);
		break;
	case DG_QUERY_DROP:
		refuse(g, l, c, &q, EG_REASON_DNS_MALFORMED, NULL, msg, len);
		break;
	case DG_QUERY_FORMERR:
		on_malformed(g, l, c, &q, DG_FORMERR, msg, len);
		break;
	case DG_QUERY_NOTIMP:
		on_malformed(g, l, c, &q, DG_NOTIMP, msg, len);
		break;
	case DG_QUERY_BADVERS:
		on_malformed(g, l, c, &q, DG_BADVERS, msg, len);
		break;
	case DG_QUERY_CLASS:
	case DG_QUERY_VERDICT_COUNT:
		refuse(g, l, c, &q, EG_REASON_DNS_TYPE, &refused, msg, len);
		break;
	}
}

/* ---- leases ------------------------------------------------------------ */

uint64_t dg_guard_live(const struct dg_guard *g, uint32_t slot)
{
	const struct dg_lease *l = slot < g->conf->slots ? g->lease[slot] : NULL;

	return l && l->live ? l->generation : 0;
}

/* Queries of a lease that ends are answered by nobody. */
static void drop_waiters(struct dg_guard *g, const struct dg_lease *l)
{
	uint32_t i = l->waiting ? g->oldest : NONE;

	while (i != NONE) {
		struct waiter *w = &g->waiter[i];

		i = w->newer;
		if (w->client.slot != l->slot || w->generation != l->generation)
			continue;
		g->ops->silence(g->arg, &w->client);
		wait_end(g, w);
	}
}

static void end_lease(struct dg_guard *g, struct dg_lease *l)
{
	drop_waiters(g, l);
	dg_lease_clear(l, &g->policies);
}

static enum eg_reason closed_for(const struct eg_md_lease *m)
{
	return m->closed < EG_REASON_COUNT ? (enum eg_reason)m->closed :
					     EG_REASON_DNS_DENIED;
}

/* Same lease, other phase or policy: what was pinned main decides anew. */
static void update_lease(struct dg_guard *g, struct dg_lease *l,
			 const struct eg_md_lease *m, struct dg_policy *policy)
{
	if (l->policy == policy && l->phases == m->phases &&
	    l->report == !!m->report && l->closed == closed_for(m)) {
		dg_policies_put(&g->policies, policy);
		return;
	}
	dg_lease_unpin(l);
	dg_policies_put(&g->policies, l->policy);
	l->policy = policy;
	l->phases = m->phases;
	l->report = m->report;
	l->closed = closed_for(m);
}

int dg_guard_lease(struct dg_guard *g, const struct eg_md_lease *m,
		   struct dg_policy *policy)
{
	struct dg_lease *l;
	int r = 0;

	if (m->slot >= g->conf->slots) {
		r = -EBADMSG;
		goto put;
	}
	l = g->lease[m->slot];
	if (m->generation < g->last[m->slot] ||
	    (m->generation == g->last[m->slot] && (!l || !l->live)))
		goto put; /* over already */
	if (!l) {
		l = g->lease[m->slot] = calloc(1, sizeof(*l));
		r = l ? 0 : -ENOMEM;
		if (r)
			goto put;
	}
	g->last[m->slot] = m->generation;
	if (l->live && m->generation == l->generation) {
		update_lease(g, l, m, policy);
		return 0;
	}
	if (l->live)
		end_lease(g, l);
	*l = (struct dg_lease){.generation = m->generation,
			       .slot = m->slot,
			       .phases = m->phases,
			       .live = true,
			       .report = m->report,
			       .closed = closed_for(m),
			       .policy = policy};
	return 0;
put:
	dg_policies_put(&g->policies, policy);
	return r;
}

/* Of @slot's ended lease nothing is kept that a later one does not need. */
static void forget(struct dg_guard *g, uint32_t slot, uint64_t generation)
{
	struct dg_lease *l = g->lease[slot];

	if (!l || l->live || l->generation != generation)
		return;
	free(l);
	g->lease[slot] = NULL;
}

void dg_guard_unlease(struct dg_guard *g, uint32_t slot, uint64_t generation)
{
	uint32_t at = g->nended % DG_ENDED;

	if (dg_guard_live(g, slot) != generation || !generation)
		return;
	end_lease(g, g->lease[slot]);
	if (g->nended++ >= DG_ENDED)
		forget(g, g->ended[at].slot, g->ended[at].generation);
	g->ended[at].slot = slot;
	g->ended[at].generation = generation;
}

void dg_guard_pins(struct dg_guard *g, const struct eg_dm_pin *m)
{
	bool fresh;

	if (!m->generation || dg_guard_live(g, m->slot) != m->generation ||
	    m->naddrs > EG_PIN_ADDRS)
		return;
	(void)dg_lease_pinned(g->lease[m->slot], &m->name, m->addr, m->naddrs,
			      g->now + (int64_t)m->lifetime_s * EG_NSEC_PER_SEC,
			      g->now, &fresh);
}

bool dg_guard_stats(const struct dg_guard *g, uint32_t slot,
		    uint64_t generation, struct eg_dm_stats *ret)
{
	const struct dg_lease *l = slot < g->conf->slots ? g->lease[slot] : NULL;

	memset(ret, 0, sizeof(*ret));
	ret->slot = slot;
	ret->generation = generation;
	if (!l || l->generation != generation)
		return false;
	memcpy(ret->dns, l->count, sizeof(l->count));
	ret->queries = l->queries;
	ret->answered = l->answered;
	return true;
}

uint64_t dg_guard_unleased(const struct dg_guard *g)
{
	return g->unleased;
}

/* ---- life -------------------------------------------------------------- */

static int add_denied(struct dg_guard *g, const struct eg_name *name,
		      uint8_t reason)
{
	struct dg_path path;
	uint8_t *at;
	int r = dg_tree_add(g->denied, name, &path);

	if (r)
		return r;
	at = &g->denied_reason[path.node[path.depth - 1]];
	if (*at != EG_REASON_METADATA)
		*at = reason;
	return 0;
}

static int build_denied(struct dg_guard *g)
{
	const struct eg_conf *c = g->conf;
	uint32_t nodes = 1 + 2 * EG_ARRAY_SIZE(special_names);
	struct eg_name name;
	int r;

	for (uint32_t i = 0; i < c->deny_names; i++)
		nodes += eg_name_labels(&c->deny_name[i].name);
	g->denied_reason = calloc(nodes, 1);
	if (!g->denied_reason)
		return -ENOMEM;
	r = dg_tree_new(&g->denied, nodes);
	for (size_t i = 0; !r && i < EG_ARRAY_SIZE(special_names); i++) {
		r = eg_name_parse(special_names[i], &name, NULL);
		if (!r)
			r = add_denied(g, &name, REASON_SPECIAL);
	}
	for (uint32_t i = 0; !r && i < c->deny_names; i++)
		r = add_denied(g, &c->deny_name[i].name,
			       c->deny_name[i].class == EG_DENY_METADATA
				       ? EG_REASON_METADATA
				       : EG_REASON_DNS_DENIED);
	return r;
}

static int on_up_send(void *arg, uint32_t req, uint32_t server, bool tcp,
		      const uint8_t *msg, size_t len)
{
	struct dg_guard *g = arg;

	return g->up_send(g->arg, req, server, tcp, msg, len);
}

static void on_up_close(void *arg, uint32_t req)
{
	struct dg_guard *g = arg;

	g->up_close(g->arg, req);
}

static const struct dg_up_ops up_ops = {
	.send = on_up_send,
	.close = on_up_close,
	.done = on_up_done,
};

static void init_tables(struct dg_guard *g)
{
	g->newest = g->oldest = NONE;
	g->free = NONE;
	g->rate = g->conf->dns_rate ? g->conf->dns_rate : DG_RATE;
	g->burst = g->conf->dns_burst ? g->conf->dns_burst : DG_BURST;
	/* Upstream sees two fifths: 20 a second at the default of 50. */
	g->miss_rate = eg_max_u32(1, g->rate * 2 / 5);
}

int dg_guard_new(struct dg_guard **ret, const struct eg_conf *conf,
		 const struct dg_ops *ops,
		 int (*send)(void *arg, uint32_t req, uint32_t server, bool tcp,
			     const uint8_t *msg, size_t len),
		 void (*close)(void *arg, uint32_t req), void *arg)
{
	struct dg_guard *g = calloc(1, sizeof(*g));
	int r;

	if (!g)
		return -ENOMEM;
	g->conf = conf;
	g->ops = ops;
	g->arg = arg;
	init_tables(g);
	g->up_send = send;
	g->up_close = close;
	g->lease = calloc(conf->slots, sizeof(struct dg_lease *));
	g->last = calloc(conf->slots, sizeof(*g->last));
	r = g->lease && g->last ? 0 : -ENOMEM;
	if (!r)
		r = dg_cache_new(&g->cache, DG_CACHE_SHARED);
	if (!r)
		r = build_denied(g);
	if (!r)
		r = dg_up_new(&g->up, conf->upstreams, &up_ops, g);
	if (r) {
		dg_guard_free(g);
		return r;
	}
	*ret = g;
	return 0;
}

void dg_guard_free(struct dg_guard *g)
{
	if (!g)
		return;
	dg_up_free(g->up);
	for (uint32_t i = 0; g->lease && i < g->conf->slots; i++) {
		if (g->lease[i])
			dg_lease_clear(g->lease[i], &g->policies);
		free(g->lease[i]);
	}
	free(g->lease);
	free(g->last);
	dg_cache_free(g->cache);
	dg_tree_free(g->denied);
	free(g->denied_reason);
	free(g);
}

void dg_guard_time(struct dg_guard *g, int64_t now, int64_t wall)
{
	g->now = now;
	g->wall = wall;
}

void dg_guard_tick(struct dg_guard *g)
{
	dg_up_tick(g->up, g->now);
	while (g->oldest != NONE && g->waiter[g->oldest].deadline <= g->now) {
		struct waiter *w = &g->waiter[g->oldest];

		wait_fail(g, w,
			  w->state == W_PIN ? DG_EDE_OTHER : DG_EDE_UNREACHABLE,
			  w->state == W_PIN ? "pin not acknowledged"
					    : "no answer in time");
	}
}

int64_t dg_guard_next(const struct dg_guard *g)
{
	int64_t next = dg_up_next(g->up);

	if (g->oldest != NONE && g->waiter[g->oldest].deadline < next)
		next = g->waiter[g->oldest].deadline;
	return next;
}

bool dg_guard_busy(const struct dg_guard *g)
{
	return g->oldest != NONE || g->flights;
}

struct dg_up *dg_guard_up(struct dg_guard *g)
{
	return g->up;
}

struct dg_policies *dg_guard_policies(struct dg_guard *g)
{
	return &g->policies;
}
