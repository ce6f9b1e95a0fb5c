// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: compiling the addresses of a policy (see compile.h)
 *
 * A sweep over the address line for each protocol: between two neighbouring
 * end points the set of ports is the same for every address, so the union and
 * the differences are taken there on ports alone, and neighbours with equal
 * ports are joined again.
 */
#include "rules/compile.h"
#include "netpool/base/util.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#define PORTS_SPAN 64 /* disjoint port ranges at one address */

struct boxes {
	struct rl_box *b;
	size_t n, cap;
};

static int push(struct boxes *v, struct rl_box b)
{
	if (v->n == v->cap) {
		size_t cap = v->cap ? 2 * v->cap : 64;
		struct rl_box *p = realloc(v->b, cap * sizeof(*p));

		if (!p)
			return -ENOMEM;
		v->b = p;
		v->cap = cap;
	}
	v->b[v->n++] = b;
	return 0;
}

static bool in_force(const struct rl_entry *e, uint32_t phases, int64_t now)
{
	return e->kind == RL_PREFIX &&
	       (e->phases == RL_PHASES_ALL || e->phases & phases) &&
	       (!e->until || now < e->until);
}

static int push_entry(struct boxes *v, const struct rl_entry *e)
{
	struct rl_box b = { .lo = e->dst.addr, .hi = eg_prefix_last(e->dst) };
	int r = 0;

	for (unsigned int i = 0; !r && i < e->nports; i++) {
		bool ports = e->port[i].proto == IPPROTO_TCP ||
			     e->port[i].proto == IPPROTO_UDP ||
			     e->port[i].proto == IPPROTO_SCTP ||
			     e->port[i].proto == IPPROTO_DCCP ||
			     e->port[i].proto == IPPROTO_UDPLITE ||
			     e->port[i].proto == IPPROTO_ICMP;

		b.proto = e->port[i].proto;
		b.plo = ports ? e->port[i].lo : 0;
		b.phi = ports ? e->port[i].hi : 0;
		r = push(v, b);
	}
	return r;
}

static int push_prefix(struct boxes *v, struct eg_prefix p)
{
	struct rl_box b = { .lo = p.addr, .hi = eg_prefix_last(p),
			    .proto = 0, .plo = 0, .phi = 65535 };

	return push(v, b); /* protocol 0: any */
}

/* Is this private prefix opened for that box by the operator? */
static bool permits(const struct eg_conf_permit *p, const struct rl_box *b)
{
	return p->dst.addr <= b->lo && eg_prefix_last(p->dst) >= b->hi &&
	       p->proto == b->proto && p->lo <= b->plo && p->hi >= b->phi;
}

/* A private destination counts only where policy and host both name it. */
static bool private_named(const struct eg_conf *c, const struct rl_box *b)
{
	for (uint32_t i = 0; i < c->denies; i++) {
		struct eg_prefix d = c->deny[i].dst;

		if (c->deny[i].class != EG_DENY_PRIVATE || d.addr > b->lo ||
		    eg_prefix_last(d) < b->hi)
			continue;
		for (uint32_t k = 0; k < c->permits_private; k++)
			if (permits(&c->permit_private[k], b))
				return true;
	}
	return false;
}

struct input {
	struct boxes allow, named, deny, private;
};

static int gather(struct input *in, const struct rl_prog *p, uint32_t phases,
		  int64_t now, const struct eg_conf *c)
{
	int r = push_prefix(&in->deny, c->prefix);

	if (!r)
		r = push_prefix(&in->deny, c->link_prefix);
	for (uint32_t i = 0; !r && i < c->denies; i++)
		r = push_prefix(c->deny[i].class == EG_DENY_PRIVATE ?
					&in->private : &in->deny,
				c->deny[i].dst);
	for (uint32_t i = 0; !r && i < p->nentries; i++) {
		const struct rl_entry *e = &p->entry[i];

		if (!in_force(e, phases, now))
			continue;
		if (!(e->flags & RL_F_DENY))
			r = push_entry(&in->allow, e);
		else if (e->nports)
			r = push_entry(&in->deny, e);
		else
			r = push_prefix(&in->deny, e->dst);
	}
	for (size_t i = 0; !r && i < in->allow.n; i++)
		if (private_named(c, &in->allow.b[i]))
			r = push(&in->named, in->allow.b[i]);
	return r;
}

/* Disjoint, sorted port ranges. */
struct ports {
	struct {
		uint32_t lo, hi;
	} r[PORTS_SPAN];
	unsigned int n;
};

static int ports_add(struct ports *p, uint32_t lo, uint32_t hi)
{
	unsigned int i = 0, k;

	while (i < p->n && p->r[i].hi + 1 < lo)
		i++;
	k = i;
	while (k < p->n && p->r[k].lo <= hi + 1) {
		lo = p->r[k].lo < lo ? p->r[k].lo : lo;
		hi = p->r[k].hi > hi ? p->r[k].hi : hi;
		k++;
	}
	if (k == i && p->n == PORTS_SPAN)
		return -E2BIG;
	memmove(&p->r[i + 1], &p->r[k], (p->n - k) * sizeof(p->r[0]));
	p->n = p->n - (k - i) + 1;
	p->r[i].lo = lo;
	p->r[i].hi = hi;
	return 0;
}

static int ports_cut(struct ports *p, uint32_t lo, uint32_t hi)
{
	struct ports out = { .n = 0 };
	int r = 0;

	for (unsigned int i = 0; !r && i < p->n; i++) {
		if (p->r[i].lo < lo)
			r = ports_add(&out, p->r[i].lo,
				      eg_min_u32(p->r[i].hi, lo - 1));
		if (!r && p->r[i].hi > hi)
			r = ports_add(&out, eg_max_u32(p->r[i].lo, hi + 1),
				      p->r[i].hi);
	}
	*p = out;
	return r;
}

static bool covers(const struct rl_box *b, uint32_t addr, uint8_t proto)
{
	return b->lo <= addr && addr <= b->hi &&
	       (!b->proto || b->proto == proto);
}

/* The ports open at one address. */
static int ports_at(const struct input *in, uint32_t addr, uint8_t proto,
		    struct ports *ret)
{
	bool private = false;
	int r = 0;

	ret->n = 0;
	for (size_t i = 0; i < in->private.n; i++)
		private = private || covers(&in->private.b[i], addr, proto);
	const struct boxes *from = private ? &in->named : &in->allow;

	for (size_t i = 0; !r && i < from->n; i++)
		if (covers(&from->b[i], addr, proto))
			r = ports_add(ret, from->b[i].plo, from->b[i].phi);
	for (size_t i = 0; !r && i < in->deny.n; i++)
		if (covers(&in->deny.b[i], addr, proto))
			r = ports_cut(ret, in->deny.b[i].plo,
				      in->deny.b[i].phi);
	return r;
}

static int u64_order(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* All addresses at which something begins or has just ended, sorted. */
static uint64_t *end_points(const struct input *in, size_t *ret_n)
{
	const struct boxes *all[] = { &in->allow, &in->deny, &in->private };
	size_t n = 0, m = 0;
	uint64_t *e;

	for (size_t i = 0; i < EG_ARRAY_SIZE(all); i++)
		n += 2 * all[i]->n;
	e = calloc(n ? n : 1, sizeof(*e));
	if (!e)
		return NULL;
	n = 0;
	for (size_t i = 0; i < EG_ARRAY_SIZE(all); i++)
		for (size_t k = 0; k < all[i]->n; k++) {
			e[n++] = all[i]->b[k].lo;
			e[n++] = (uint64_t)all[i]->b[k].hi + 1;
		}
	qsort(e, n, sizeof(*e), u64_order);
	for (size_t i = 0; i < n; i++)
		if (!i || e[i] != e[i - 1])
			e[m++] = e[i];
	*ret_n = m;
	return e;
}

static bool ports_equal(const struct ports *a, const struct ports *b)
{
	return a->n == b->n && !memcmp(a->r, b->r, a->n * sizeof(a->r[0]));
}

static int emit(struct boxes *out, uint32_t lo, uint64_t end, uint8_t proto,
		const struct ports *p)
{
	int r = 0;

	for (unsigned int i = 0; !r && i < p->n; i++) {
		struct rl_box b = { .lo = lo, .hi = (uint32_t)(end - 1),
				    .proto = proto,
				    .plo = (uint16_t)p->r[i].lo,
				    .phi = (uint16_t)p->r[i].hi };

		r = out->n >= RL_BOXES ? -E2BIG : push(out, b);
	}
	return r;
}

static int sweep(const struct input *in, const uint64_t *e, size_t n,
		 uint8_t proto, struct boxes *out)
{
	struct ports held = { .n = 0 }, here;
	uint64_t from = 0;
	int r = 0;

	for (size_t i = 0; !r && i < n; i++) {
		here.n = 0;
		if (e[i] <= UINT32_MAX)
			r = ports_at(in, (uint32_t)e[i], proto, &here);
		if (r || ports_equal(&held, &here))
			continue;
		if (held.n)
			r = emit(out, (uint32_t)from, e[i], proto, &held);
		held = here;
		from = e[i];
	}
	/* The last point is one past everything: nothing is held there. */
	return r;
}

static int sweep_all(const struct input *in, struct boxes *out)
{
	bool done[256] = { false };
	size_t n;
	EG_CLEANUP_FREE uint64_t *e = end_points(in, &n);
	int r = e ? 0 : -ENOMEM;

	for (size_t i = 0; !r && i < in->allow.n; i++) {
		uint8_t proto = in->allow.b[i].proto;

		if (done[proto])
			continue;
		done[proto] = true;
		r = sweep(in, e, n, proto, out);
	}
	return r;
}

int rl_compile(const struct rl_prog *p, uint32_t phases, int64_t now,
	       const struct eg_conf *conf, struct rl_box **ret, size_t *ret_n,
	       struct eg_err *err)
{
	struct input in = { 0 };
	struct boxes out = { 0 };
	int r = gather(&in, p, phases, now, conf);

	if (!r)
		r = sweep_all(&in, &out);
	free(in.allow.b);
	free(in.named.b);
	free(in.deny.b);
	free(in.private.b);
	if (r) {
		free(out.b);
		return eg_err_sys(err, r, "addresses of policy %s (at most %d ranges)",
				  p->name, RL_BOXES);
	}
	*ret = out.b;
	*ret_n = out.n;
	return 0;
}

void rl_box_format(const struct rl_box *b, char buf[80])
{
	char lo[EG_ADDR_TEXT], hi[EG_ADDR_TEXT];

	(void)snprintf(buf, 80, "%s-%s proto %u port %u-%u",
		       eg_addr_format(b->lo, lo), eg_addr_format(b->hi, hi),
		       b->proto, b->plo, b->phi);
}
