// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: policy prefixes to disjoint boxes (see compile.h)
 *
 * A sweep over addresses, one protocol at a time: every place where an
 * allowed, denied, private or permitted range begins or ends is a breakpoint;
 * between two neighbouring ones nothing changes, so the ports allowed there
 * are one sorted list. Neighbouring stretches with the same list are joined.
 */
#include "rules/compile.h"

#include "netpool/base/util.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>

/* Work bound of one sweep: about 20 ms; only heavily overlapping policies
 * come near it (their number of steps grows with the square). */
#define SWEEP_STEPS 16000000UL

/* Ports of one stretch of addresses: at most this many ranges. */
#define STRETCH_PORTS 1024

/* Never a destination, whatever the configuration says: "this network",
 * loopback, link-local, multicast, reserved (RFC 6890, RFC 5771). */
static const struct eg_prefix builtin_reserved[] = {
	{0x00000000, 8}, {0x7f000000, 8}, {0xa9fe0000, 16},
	{0xe0000000, 4}, {0xf0000000, 4},
};

/* RFC 1918 and the shared address space of RFC 6598. */
static const struct eg_prefix builtin_private[] = {
	{0x0a000000, 8},
	{0xac100000, 12},
	{0xc0a80000, 16},
	{0x64400000, 10},
};

int rl_ranges_add(struct rl_ranges *r, uint32_t lo, uint32_t hi)
{
	size_t cap = r->cap ? 2 * r->cap : 16;
	struct rl_range *v;

	if (r->n == r->cap) {
		v = realloc(r->v, cap * sizeof(*v));
		if (!v)
			return -ENOMEM;
		r->v = v;
		r->cap = cap;
	}
	r->v[r->n++] = (struct rl_range){.lo = lo, .hi = hi};
	return 0;
}

int rl_ranges_prefix(struct rl_ranges *r, struct eg_prefix p)
{
	return rl_ranges_add(r, p.addr, eg_prefix_last(p));
}

static int range_cmp(const void *a, const void *b)
{
	const struct rl_range *x = a, *y = b;

	if (x->lo != y->lo)
		return x->lo < y->lo ? -1 : 1;
	return x->hi == y->hi ? 0 : x->hi < y->hi ? -1 : 1;
}

/* Sort, and join what overlaps or touches. */
void rl_ranges_norm(struct rl_ranges *r)
{
	size_t k = 0;

	if (!r->n)
		return;
	qsort(r->v, r->n, sizeof(*r->v), range_cmp);
	for (size_t i = 1; i < r->n; i++) {
		/* hi + 1 may wrap: then nothing can lie beyond it */
		if (r->v[k].hi == UINT32_MAX || r->v[i].lo <= r->v[k].hi + 1)
			r->v[k].hi = eg_max_u32(r->v[k].hi, r->v[i].hi);
		else
			r->v[++k] = r->v[i];
	}
	r->n = k + 1;
}

bool rl_ranges_has(const struct rl_ranges *r, uint32_t addr)
{
	size_t lo = 0, hi = r->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (addr < r->v[mid].lo)
			hi = mid;
		else if (addr > r->v[mid].hi)
			lo = mid + 1;
		else
			return true;
	}
	return false;
}

void rl_ranges_free(struct rl_ranges *r)
{
	free(r->v);
	memset(r, 0, sizeof(*r));
}

static int add_class(struct rl_ranges *r, const struct eg_conf *conf,
		     uint8_t class)
{
	int rc = 0;

	for (uint32_t i = 0; !rc && i < conf->denies; i++)
		if (conf->deny[i].class == class)
			rc = rl_ranges_prefix(r, conf->deny[i].dst);
	return rc;
}

static int add_all(struct rl_ranges *r, const struct eg_prefix *p, size_t n)
{
	int rc = 0;

	for (size_t i = 0; !rc && i < n; i++)
		rc = rl_ranges_prefix(r, p[i]);
	return rc;
}

int rl_space_init(struct rl_space *s, const struct eg_conf *conf,
		  const uint32_t *addr, size_t n)
{
	int rc;

	memset(s, 0, sizeof(*s));
	rc = add_class(&s->metadata, conf, EG_DENY_METADATA);
	if (!rc)
		rc = add_class(&s->reserved, conf, EG_DENY_RESERVED);
	if (!rc)
		rc = add_all(&s->reserved, builtin_reserved,
			     EG_ARRAY_SIZE(builtin_reserved));
	if (!rc)
		rc = add_class(&s->private, conf, EG_DENY_PRIVATE);
	if (!rc)
		rc = add_all(&s->private, builtin_private,
			     EG_ARRAY_SIZE(builtin_private));
	if (!rc)
		rc = rl_ranges_prefix(&s->host, conf->prefix);
	if (!rc)
		rc = rl_ranges_prefix(&s->host, conf->link_prefix);
	for (size_t i = 0; !rc && i < n; i++)
		rc = rl_ranges_add(&s->host, addr[i], addr[i]);
	rl_ranges_norm(&s->metadata);
	rl_ranges_norm(&s->host);
	rl_ranges_norm(&s->reserved);
	rl_ranges_norm(&s->private);
	return rc;
}

void rl_space_free(struct rl_space *s)
{
	rl_ranges_free(&s->metadata);
	rl_ranges_free(&s->host);
	rl_ranges_free(&s->reserved);
	rl_ranges_free(&s->private);
}

enum eg_reason rl_space_denied(const struct rl_space *s, uint32_t addr)
{
	if (rl_ranges_has(&s->metadata, addr))
		return EG_REASON_METADATA;
	if (rl_ranges_has(&s->host, addr))
		return EG_REASON_HOST;
	if (rl_ranges_has(&s->reserved, addr))
		return EG_REASON_RESERVED;
	return EG_REASON_NONE;
}

bool rl_phase_wanted(const struct rl_entry *e, uint32_t phases, int64_t now)
{
	if (e->until && now >= e->until)
		return false;
	return e->phases == RL_PHASES_ALL || (e->phases & phases);
}

/* ---- the sweep ----------------------------------------------------------- */

/* An allowed (range x ports), before anything is taken away. */
struct want {
	uint32_t lo, hi;
	uint16_t plo, phi;
	uint8_t proto;
	bool private; /* the entry lies within private space */
};

struct ports {
	size_t n;
	struct {
		uint32_t lo, hi;
	} v[STRETCH_PORTS];
};

struct sweep {
	const struct eg_conf *conf;
	const char *tenant;
	const struct rl_space *space;
	struct rl_ranges deny;
	struct want *want;
	size_t nwant;
	uint32_t *cut; /* first address of each stretch, sorted */
	size_t ncut;
	const struct want **active;
	size_t nactive;
	unsigned long steps;
	struct rl_box *box;
	size_t nbox, boxcap;
	struct ports now, before;
};

static void sweep_free(struct sweep *s)
{
	rl_ranges_free(&s->deny);
	free(s->want);
	free(s->cut);
	free(s->active);
	free(s->box);
}

static int want_cmp(const void *a, const void *b)
{
	const struct want *x = a, *y = b;

	if (x->proto != y->proto)
		return x->proto < y->proto ? -1 : 1;
	return x->lo == y->lo ? 0 : x->lo < y->lo ? -1 : 1;
}

static int u32_cmp(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return *x == *y ? 0 : *x < *y ? -1 : 1;
}

static bool within(const struct rl_ranges *r, uint32_t lo, uint32_t hi)
{
	for (size_t i = 0; i < r->n; i++)
		if (lo >= r->v[i].lo && hi <= r->v[i].hi)
			return true;
	return false;
}

/* One policy entry to wants (allow) or to the denied ranges. A denied prefix
 * is denied on every port: deny wins over every allow. */
static int sweep_entry(struct sweep *s, const struct rl_entry *e)
{
	uint32_t last = eg_prefix_last(e->dst);

	if (e->flags & RL_F_DENY)
		return rl_ranges_add(&s->deny, e->dst.addr, last);
	for (uint8_t i = 0; i < e->nports && i < RL_PORTS; i++) {
		const struct eg_port *p = &e->port[i];

		s->want[s->nwant++] = (struct want){
			.lo = e->dst.addr,
			.hi = last,
			.proto = p->proto,
			.plo = p->lo,
			.phi = p->hi,
			.private = within(&s->space->private, e->dst.addr, last),
		};
	}
	return 0;
}

static int sweep_collect(struct sweep *s, const struct rl_prog *prog,
			 uint32_t phases, int64_t now)
{
	size_t n = 0;
	int rc = 0;

	for (uint32_t i = 0; i < prog->nentries; i++)
		n += prog->entry[i].nports;
	s->want = calloc(n + 1, sizeof(*s->want));
	s->active = calloc(n + 1, sizeof(const struct want *));
	if (!s->want || !s->active)
		return -ENOMEM;
	for (uint32_t i = 0; !rc && i < prog->nentries; i++) {
		const struct rl_entry *e = &prog->entry[i];

		if (e->kind == RL_PREFIX && rl_phase_wanted(e, phases, now))
			rc = sweep_entry(s, e);
	}
	qsort(s->want, s->nwant, sizeof(*s->want), want_cmp);
	return rc;
}

static int sweep_deny(struct sweep *s)
{
	const struct rl_ranges *all[] = {&s->space->metadata, &s->space->host,
					 &s->space->reserved};
	int rc = 0;

	for (size_t k = 0; k < EG_ARRAY_SIZE(all); k++)
		for (size_t i = 0; !rc && i < all[k]->n; i++)
			rc = rl_ranges_add(&s->deny, all[k]->v[i].lo,
					   all[k]->v[i].hi);
	rl_ranges_norm(&s->deny);
	return rc;
}

static void cut_at(struct sweep *s, uint32_t lo, uint32_t hi)
{
	s->cut[s->ncut++] = lo;
	if (hi != UINT32_MAX)
		s->cut[s->ncut++] = hi + 1;
}

static int sweep_cuts(struct sweep *s)
{
	const struct rl_ranges *priv = &s->space->private;
	size_t k = 0;

	s->cut = calloc(
		2 * (s->nwant + s->deny.n + priv->n + s->conf->permits_private) +
			1,
		sizeof(*s->cut));
	if (!s->cut)
		return -ENOMEM;
	for (size_t i = 0; i < s->nwant; i++)
		cut_at(s, s->want[i].lo, s->want[i].hi);
	for (size_t i = 0; i < s->deny.n; i++)
		cut_at(s, s->deny.v[i].lo, s->deny.v[i].hi);
	for (size_t i = 0; i < priv->n; i++)
		cut_at(s, priv->v[i].lo, priv->v[i].hi);
	for (uint32_t i = 0; i < s->conf->permits_private; i++) {
		struct eg_prefix p = s->conf->permit_private[i].dst;

		cut_at(s, p.addr, eg_prefix_last(p));
	}
	qsort(s->cut, s->ncut, sizeof(*s->cut), u32_cmp);
	for (size_t i = 1; i < s->ncut; i++)
		if (s->cut[i] != s->cut[k])
			s->cut[++k] = s->cut[i];
	s->ncut = s->ncut ? k + 1 : 0;
	return 0;
}

/* Comma-separated list of tenants; empty admits everybody. */
static bool tenant_in(const char *list, const char *tenant)
{
	size_t len = tenant ? strlen(tenant) : 0;

	if (!*list)
		return true;
	while (len && *list) {
		size_t n = strcspn(list, ",");

		if (n == len && !memcmp(list, tenant, n))
			return true;
		list += n + (list[n] == ',');
	}
	return false;
}

static int port_put(struct ports *p, uint32_t lo, uint32_t hi)
{
	if (p->n == STRETCH_PORTS)
		return -E2BIG;
	p->v[p->n].lo = lo;
	p->v[p->n++].hi = hi;
	return 0;
}

/* What the host's permit_private leaves of a private want at an address. */
static int port_permitted(struct sweep *s, const struct want *w, uint32_t at)
{
	int rc = 0;

	for (uint32_t i = 0; !rc && i < s->conf->permits_private; i++) {
		const struct eg_conf_permit *p = &s->conf->permit_private[i];
		uint32_t lo = eg_max_u32(p->lo, w->plo);
		uint32_t hi = eg_min_u32(p->hi, w->phi);

		s->steps++;
		if (p->proto == w->proto && lo <= hi &&
		    eg_prefix_has(p->dst, at) && tenant_in(p->tenants, s->tenant))
			rc = port_put(&s->now, lo, hi);
	}
	return rc;
}

static int port_cmp(const void *a, const void *b)
{
	return u32_cmp(a, b); /* the low end comes first in the pair */
}

static void ports_norm(struct ports *p)
{
	size_t k = 0;

	if (!p->n)
		return;
	qsort(p->v, p->n, sizeof(p->v[0]), port_cmp);
	for (size_t i = 1; i < p->n; i++) {
		if (p->v[i].lo <= p->v[k].hi + 1)
			p->v[k].hi = eg_max_u32(p->v[k].hi, p->v[i].hi);
		else
			p->v[++k] = p->v[i];
	}
	p->n = k + 1;
}

/* The ports allowed at an address, from the wants active there. */
static int sweep_ports(struct sweep *s, uint32_t at)
{
	bool private = rl_ranges_has(&s->space->private, at);
	size_t keep = 0;
	int rc = 0;

	s->now.n = 0;
	for (size_t i = 0; i < s->nactive; i++)
		if (s->active[i]->hi >= at)
			s->active[keep++] = s->active[i];
	s->steps += s->nactive + 1;
	s->nactive = keep;
	if (rl_ranges_has(&s->deny, at))
		return 0;
	for (size_t i = 0; !rc && i < keep; i++) {
		const struct want *w = s->active[i];

		if (!private)
			rc = port_put(&s->now, w->plo, w->phi);
		else if (w->private)
			rc = port_permitted(s, w, at);
		if (s->now.n == STRETCH_PORTS)
			ports_norm(&s->now);
	}
	ports_norm(&s->now);
	return rc;
}

static int box_put(struct sweep *s, const struct rl_box *b)
{
	size_t cap = s->boxcap ? 2 * s->boxcap : 64;
	struct rl_box *v;

	if (s->nbox == RL_BOXES)
		return -E2BIG;
	if (s->nbox == s->boxcap) {
		v = realloc(s->box, cap * sizeof(*v));
		if (!v)
			return -ENOMEM;
		s->box = v;
		s->boxcap = cap;
	}
	s->box[s->nbox++] = *b;
	return 0;
}

/* Emit [lo, hi] with s->now, or lengthen the boxes of the stretch before. */
static int sweep_emit(struct sweep *s, uint8_t proto, uint32_t lo, uint32_t hi)
{
	size_t n = s->now.n;
	bool same = n && n == s->before.n && s->nbox >= n &&
		    s->box[s->nbox - 1].proto == proto &&
		    s->box[s->nbox - 1].hi + 1 == lo &&
		    !memcmp(s->now.v, s->before.v, n * sizeof(s->now.v[0]));
	int rc = 0;

	for (size_t i = 0; !rc && i < n; i++) {
		struct rl_box b = {
			.lo = lo,
			.hi = hi,
			.proto = proto,
			.plo = rl_port_key(proto, (uint16_t)s->now.v[i].lo),
			.phi = rl_port_key(proto, (uint16_t)s->now.v[i].hi),
		};

		if (same)
			s->box[s->nbox - n + i].hi = hi;
		else
			rc = box_put(s, &b);
	}
	s->before.n = n;
	memcpy(s->before.v, s->now.v, n * sizeof(s->now.v[0]));
	return rc;
}

/* All stretches for the wants [from, to), which share one protocol. */
static int sweep_proto(struct sweep *s, size_t from, size_t to)
{
	size_t next = from;
	int rc = 0;

	s->nactive = 0;
	s->before.n = 0;
	for (size_t c = 0; !rc && c < s->ncut; c++) {
		uint32_t lo = s->cut[c];
		uint32_t hi = c + 1 < s->ncut ? s->cut[c + 1] - 1 : UINT32_MAX;

		while (next < to && s->want[next].lo <= lo)
			s->active[s->nactive++] = &s->want[next++];
		rc = sweep_ports(s, lo);
		if (!rc)
			rc = sweep_emit(s, s->want[from].proto, lo, hi);
		if (s->steps > SWEEP_STEPS)
			rc = -E2BIG;
	}
	return rc;
}

static int sweep_all(struct sweep *s)
{
	size_t from = 0;
	int rc = 0;

	while (!rc && from < s->nwant) {
		size_t to = from;

		while (to < s->nwant && s->want[to].proto == s->want[from].proto)
			to++;
		rc = sweep_proto(s, from, to);
		from = to;
	}
	return rc;
}

int rl_compile(const struct eg_conf *conf, const struct rl_space *space,
	       const struct rl_prog *prog, uint32_t phases, const char *tenant,
	       int64_t now, struct rl_box **ret, size_t *ret_n,
	       struct eg_err *err)
{
	struct sweep *s = calloc(1, sizeof(*s));
	int rc;

	if (!s)
		return eg_err_set(err, -ENOMEM, "out of memory for a policy");
	s->conf = conf;
	s->tenant = tenant;
	s->space = space;
	rc = sweep_collect(s, prog, phases, now);
	if (!rc)
		rc = sweep_deny(s);
	if (!rc)
		rc = sweep_cuts(s);
	if (!rc)
		rc = sweep_all(s);
	if (!rc) {
		*ret = s->box;
		*ret_n = s->nbox;
		s->box = NULL;
	} else if (rc == -E2BIG) {
		eg_err_set(err, rc,
			   "policy %.64s needs more than %d address ranges in the kernel; merge its prefixes or ports",
			   prog->name, RL_BOXES);
	} else {
		eg_err_set(err, rc, "out of memory for policy %.64s", prog->name);
	}
	sweep_free(s);
	free(s);
	return rc;
}
