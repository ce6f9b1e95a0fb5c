// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: what changes in a gateway: leases and pins (see kernel.h)
 *
 * The shadow. For every slot main keeps what it has put into the kernel: the
 * lease, the boxes of its policy, the pins with the name that led there and
 * the time they end. It is there because a failing batch costs a thousand
 * good ones and because a full or missing element must be known before it is
 * asked for; the kernel's element timeouts and ours run from the same moment,
 * and the form of a refresh is one that succeeds whether the element is still
 * there or has just gone.
 *
 * Refreshing a pin: from kernel 6.12 on adding an element again moves its
 * timeout; before, that is accepted and does nothing, so there the batch is
 * add, delete, add (the first add makes the delete of an element that has
 * just expired succeed). Which it is, is tried once at start.
 */
#include "netpool/base/loop.h"
#include "netpool/base/plan.h"
#include "netpool/base/reason.h"
#include "netpool/base/util.h"
#include "rules/compile.h"
#include "rules/expr.h"
#include "rules/gw.h"
#include "rules/kernel.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter/nf_tables.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#define IP RL_FAMILY_IP
#define T EG_TABLE
#define PINS_MAX 4096 /* of one slot; dns.md's figure, counted here */
#define PIN_CALL 64   /* elements of one call: 16 addresses x 4 ports */

struct pin {
	uint32_t addr;
	uint16_t port; /* icmp: type */
	uint8_t proto;
	uint16_t name; /* index + 1 in the slot's names, 0: unknown */
	int64_t end_ns; /* BOOTTIME */
};

struct slot {
	uint64_t generation; /* 0: not leased */
	bool quiet;
	struct pin *pin;
	uint32_t npins, cap;
	struct eg_name *name;
	uint16_t nnames, name_cap;
};

struct rl_gw {
	const struct eg_conf *conf;
	struct rl_nft *nft;
	uint32_t gw, first, n;
	bool refresh_moves; /* adding again moves the timeout */
	struct slot *slot;
};

struct pin_key {
	uint32_t addr;
	uint8_t proto[4];
	uint8_t port[4];
};

struct link_key {
	uint32_t ifindex, mark;
};

static struct pin_key pin_key(uint32_t addr, uint8_t proto, uint16_t port)
{
	struct pin_key k = { .addr = htonl(addr), .proto = { proto } };
	uint16_t be = htons(port);

	if (proto == IPPROTO_ICMP)
		k.port[0] = (uint8_t)port; /* the type octet, as loaded */
	else
		memcpy(k.port, &be, sizeof(be));
	return k;
}

static struct slot *slot_of(struct rl_gw *gw, uint32_t slot)
{
	return slot - gw->first < gw->n ? &gw->slot[slot - gw->first] : NULL;
}

static uint32_t ifindex_of(const struct rl_gw *gw, uint32_t slot)
{
	return EG_IFINDEX_SLOT + (slot - gw->first);
}

static struct link_key link_key(const struct rl_gw *gw, uint32_t slot,
				uint64_t generation, uint32_t low)
{
	return (struct link_key){ ifindex_of(gw, slot),
				  eg_epoch(generation) << EG_EPOCH_SHIFT |
					  low };
}

/* ---- open and install ------------------------------------------------------------ */

int rl_gw_open(struct rl_gw **ret, const struct eg_conf *conf, uint32_t gateway,
	       int fd, struct eg_err *err)
{
	struct rl_gw *gw = calloc(1, sizeof(*gw));
	int r;

	if (!gw) {
		eg_close_p(&fd);
		return eg_err_set(err, -ENOMEM, "out of memory");
	}
	gw->conf = conf;
	gw->gw = gateway;
	gw->first = eg_plan_first(conf, gateway);
	gw->n = eg_plan_count(conf, gateway);
	gw->slot = calloc(gw->n, sizeof(*gw->slot));
	r = rl_nft_open(&gw->nft, fd, err);
	if (!r && !gw->slot)
		r = eg_err_set(err, -ENOMEM, "out of memory");
	if (r) {
		rl_gw_close(gw);
		return r;
	}
	*ret = gw;
	return 0;
}

static void slot_forget(struct slot *s)
{
	free(s->pin);
	free(s->name);
	memset(s, 0, sizeof(*s));
}

void rl_gw_close(struct rl_gw *gw)
{
	if (!gw)
		return;
	for (uint32_t i = 0; gw->slot && i < gw->n; i++)
		slot_forget(&gw->slot[i]);
	free(gw->slot);
	rl_nft_close(gw->nft);
	free(gw);
}

static int probe_found(const struct rl_elem_info *e, void *arg)
{
	*(uint64_t *)arg = e->expires_ms;
	return 0;
}

static int probe_msg(const struct nlmsghdr *h, void *arg)
{
	return rl_elem_parse(h, probe_found, arg);
}

/* Does adding an element again move its timeout? Tried, not guessed. */
static int refresh_probe(struct rl_gw *gw, struct eg_err *err)
{
	static const uint64_t ms[] = { 60000, 600000 };
	struct pin_key k = pin_key(0xc0000201, IPPROTO_TCP, 9);
	uint64_t left = 0;
	char name[RL_NAME];
	int r = 0;

	(void)rl_gw_name(name, 'p', 0);
	for (int i = 0; !r && i < 2; i++) {
		struct rl_batch *b = rl_batch_new(gw->nft);
		struct nftnl_set *s = rl_elems(T, name);

		if (!b || !rl_elem(s, &k, sizeof(k), ms[i]))
			return eg_err_set(err, -ENOMEM, "out of memory");
		rl_batch_elems(b, IP, s, "refresh probe");
		r = rl_batch_commit(b, err);
	}
	if (!r)
		r = rl_nft_dump_set(gw->nft, IP, T, name, probe_msg, NULL,
				    &left, err);
	gw->refresh_moves = left > ms[0];
	if (!r) {
		struct rl_batch *b = rl_batch_new(gw->nft);

		if (b)
			rl_batch_flush(b, IP, T, name, "refresh probe");
		r = rl_batch_commit(b, err);
	}
	return r;
}

int rl_gw_install(struct rl_gw *gw, struct eg_err *err)
{
	struct rl_batch *b = rl_batch_new(gw->nft);
	int has = rl_nft_has_table(gw->nft, IP, T, err);
	int r;

	if (has < 0 || !b) {
		rl_batch_free(b);
		return has < 0 ? has : eg_err_set(err, -ENOMEM, "out of memory");
	}
	if (has)
		rl_batch_del_table(b, IP, T, "former table");
	rl_gw_build(b, gw->conf, gw->gw);
	r = rl_batch_commit(b, err);
	if (r)
		return eg_err_wrap(err, "table of gateway %u", gw->gw);
	return refresh_probe(gw, err);
}

int rl_gw_adopt(struct rl_gw *gw, struct eg_err *err)
{
	int has = rl_nft_has_table(gw->nft, IP, T, err);

	if (has < 0)
		return has;
	if (!has)
		return eg_err_set(err, -ENOENT, "there is no table");
	has = rl_nft_has_set(gw->nft, IP, T, RL_TABLE_VERSION, err);
	if (has < 0)
		return has;
	if (!has)
		return eg_err_set(err, -EPROTO,
				  "the table is of another version");
	/* Old pins must not be touched to find out: the safe form then. */
	gw->refresh_moves = false;
	return 0;
}

int rl_gw_host(struct rl_gw *gw, const uint32_t *addr, size_t n,
	       struct eg_err *err)
{
	struct rl_batch *b = rl_batch_new(gw->nft);

	if (!b)
		return eg_err_set(err, -ENOMEM, "out of memory");
	rl_batch_flush(b, IP, T, "host", "the host's addresses");
	rl_host_elems(b, gw->conf, addr, n);
	return rl_batch_commit(b, err);
}

/* ---- a lease ------------------------------------------------------------------------ */

static void lease_elems(struct rl_batch *b, const struct rl_gw *gw,
			const struct rl_lease *l)
{
	struct link_key k = link_key(gw, l->slot, l->generation, 0);
	struct nftnl_set *lease = rl_elems(T, "lease");
	struct nftnl_set *live = rl_elems(T, "live");

	if (!rl_elem_data(lease, &k.ifindex, 4, &k.mark, 4) ||
	    !rl_elem(live, &k, sizeof(k), 0))
		rl_batch_spoil(b, -ENOMEM);
	rl_batch_elems(b, IP, lease, "lease element");
	rl_batch_elems(b, IP, live, "live element");
	if (l->drop) {
		struct nftnl_set *q = rl_elems(T, "quiet");

		if (!rl_elem(q, &k.ifindex, 4, 0))
			rl_batch_spoil(b, -ENOMEM);
		rl_batch_elems(b, IP, q, "quiet element");
	}
}

static void box_elems(struct rl_batch *b, const char *set,
		      const struct rl_box *box, size_t n)
{
	struct nftnl_set *s = n ? rl_elems(T, set) : NULL;
	bool ok = true;

	if (!n)
		return;
	for (size_t i = 0; ok && i < n; i++) {
		struct pin_key lo = pin_key(box[i].lo, box[i].proto,
					    box[i].plo);
		struct pin_key hi = pin_key(box[i].hi, box[i].proto,
					    box[i].phi);

		ok = rl_elem_range(s, &lo, &hi, sizeof(lo));
	}
	if (!ok)
		rl_batch_spoil(b, -ENOMEM);
	rl_batch_elems(b, IP, s, "addresses of the policy");
}

static int compile(const struct rl_gw *gw, const struct rl_lease *l,
		   const struct rl_prog *prog, struct rl_box **box, size_t *n,
		   struct eg_err *err)
{
	return rl_compile(prog, l->phases, eg_wall_ns() / EG_NSEC_PER_SEC,
			  gw->conf, box, n, err);
}

int rl_gw_lease(struct rl_gw *gw, const struct rl_lease *l,
		const struct rl_prog *prog, struct eg_err *err)
{
	struct slot *s = slot_of(gw, l->slot);
	EG_CLEANUP_FREE struct rl_box *box = NULL;
	struct rl_batch *b;
	char name[RL_NAME];
	size_t n = 0;
	int r;

	if (!s || s->generation || !eg_epoch(l->generation))
		return eg_err_set(err, -EBUSY, "slot %u is leased already",
				  l->slot);
	r = compile(gw, l, prog, &box, &n, err);
	if (r)
		return r;
	b = rl_batch_new(gw->nft);
	if (!b)
		return eg_err_set(err, -ENOMEM, "out of memory");
	box_elems(b, rl_gw_name(name, 'x', l->slot - gw->first), box, n);
	lease_elems(b, gw, l);
	r = rl_batch_commit(b, err);
	if (r)
		return r;
	s->generation = l->generation;
	s->quiet = l->drop;
	return 0;
}

static bool pin_allowed(const struct slot *s, const struct pin *p,
			const struct rl_prog *prog, uint32_t phases)
{
	struct rl_verdict v;

	if (!p->name)
		return false;
	rl_prog_lookup(prog, phases, eg_wall_ns() / EG_NSEC_PER_SEC,
		       &s->name[p->name - 1], &v);
	for (uint32_t i = 0; v.allowed && i < v.nports; i++)
		if (v.port[i].proto == p->proto && v.port[i].lo <= p->port &&
		    v.port[i].hi >= p->port)
			return true;
	return false;
}

/*
 * Pins that stay are put back with the time they have left: the set is
 * flushed as a whole, which cannot fail over an element that has just gone.
 */
static void pins_again(struct rl_batch *b, struct slot *s, const char *set,
		       const struct rl_prog *prog, uint32_t phases)
{
	int64_t now = eg_boot_ns();
	struct nftnl_set *e = rl_elems(T, set);
	bool ok = e != NULL, any = false;
	uint32_t kept = 0;

	for (uint32_t i = 0; ok && i < s->npins; i++) {
		struct pin p = s->pin[i];
		struct pin_key k = pin_key(p.addr, p.proto, p.port);

		if (p.end_ns <= now || !pin_allowed(s, &p, prog, phases))
			continue;
		ok = rl_elem(e, &k, sizeof(k),
			     (uint64_t)(p.end_ns - now) / 1000000 + 1);
		s->pin[kept++] = p;
		any = true;
	}
	s->npins = kept;
	if (!ok)
		rl_batch_spoil(b, -ENOMEM);
	if (any || !ok)
		rl_batch_elems(b, IP, e, "pins that stay");
	else
		rl_elems_free(e);
}

int rl_gw_rephase(struct rl_gw *gw, const struct rl_lease *l,
		  const struct rl_prog *prog, struct eg_err *err)
{
	struct slot *s = slot_of(gw, l->slot);
	EG_CLEANUP_FREE struct rl_box *box = NULL;
	char xname[RL_NAME], pname[RL_NAME];
	struct rl_batch *b;
	size_t n = 0;
	int r;

	if (!s || s->generation != l->generation)
		return eg_err_set(err, -ESTALE, "slot %u has another lease",
				  l->slot);
	r = compile(gw, l, prog, &box, &n, err);
	if (r)
		return r;
	b = rl_batch_new(gw->nft);
	if (!b)
		return eg_err_set(err, -ENOMEM, "out of memory");
	(void)rl_gw_name(xname, 'x', l->slot - gw->first);
	(void)rl_gw_name(pname, 'p', l->slot - gw->first);
	rl_batch_flush(b, IP, T, xname, "former addresses");
	rl_batch_flush(b, IP, T, pname, "former pins");
	box_elems(b, xname, box, n);
	pins_again(b, s, pname, prog, l->phases);
	return rl_batch_commit(b, err);
}

int rl_gw_unlease(struct rl_gw *gw, uint32_t slot, uint64_t generation,
		  struct eg_err *err)
{
	struct slot *s = slot_of(gw, slot);
	struct link_key k;
	struct nftnl_set *lease, *live, *quiet;
	struct rl_batch *b;
	bool ok;
	int r;

	if (!s || s->generation != generation)
		return eg_err_set(err, -ESTALE,
				  "slot %u is not leased under generation %llu",
				  slot, (unsigned long long)generation);
	k = link_key(gw, slot, generation, 0);
	b = rl_batch_new(gw->nft);
	lease = rl_elems(T, "lease");
	live = rl_elems(T, "live");
	if (!b)
		return eg_err_set(err, -ENOMEM, "out of memory");
	ok = rl_elem(lease, &k.ifindex, 4, 0) && rl_elem(live, &k, sizeof(k), 0);
	rl_batch_del_elems(b, IP, lease, "lease element");
	rl_batch_del_elems(b, IP, live, "live element");
	if (s->quiet) {
		quiet = rl_elems(T, "quiet");
		ok = ok && rl_elem(quiet, &k.ifindex, 4, 0);
		rl_batch_del_elems(b, IP, quiet, "quiet element");
	}
	if (!ok)
		rl_batch_spoil(b, -ENOMEM);
	r = rl_batch_commit(b, err);
	if (r)
		return r;
	s->generation = 0;
	s->quiet = false;
	return 0;
}

/* ---- scrubbing -------------------------------------------------------------------------- */

struct collect {
	uint32_t ifindex;
	struct nftnl_set *s; /* NULL: only count */
	uint32_t found;
	bool failed;
};

static int collect_elem(const struct rl_elem_info *e, void *arg)
{
	struct collect *c = arg;
	uint32_t ifindex;

	if (e->key_len < sizeof(ifindex))
		return 0;
	memcpy(&ifindex, e->key, sizeof(ifindex));
	if (ifindex != c->ifindex)
		return 0;
	c->found++;
	if (c->s && !rl_elem(c->s, e->key, e->key_len, 0))
		c->failed = true;
	return 0;
}

static int collect_msg(const struct nlmsghdr *h, void *arg)
{
	return rl_elem_parse(h, collect_elem, arg);
}

static const char *const link_sets[] = { "denied", "sent", "suppressed",
					 "tx",	   "rx",   "seen",
					 "share" };

/* Delete the elements of a link from one set; timed ones may race away. */
static int set_scrub(struct rl_gw *gw, const char *set, uint32_t ifindex,
		     struct eg_err *err)
{
	for (int try = 0; try < 3; try++) {
		struct collect c = { .ifindex = ifindex,
				     .s = rl_elems(T, set) };
		struct rl_batch *b = rl_batch_new(gw->nft);
		int r;

		if (!c.s || !b)
			return eg_err_set(err, -ENOMEM, "out of memory");
		r = rl_nft_dump_set(gw->nft, IP, T, set, collect_msg, NULL, &c,
				    err);
		if (r || c.failed)
			rl_batch_spoil(b, r ? r : -ENOMEM);
		rl_batch_del_elems(b, IP, c.s, set);
		if (!r && !c.found) {
			rl_batch_free(b);
			return 0;
		}
		r = rl_batch_commit(b, err);
		if (r != -ENOENT)
			return r;
	}
	return 0; /* what is left has a timeout and an epoch of the past */
}

static int any_elem(const struct rl_elem_info *e, void *arg)
{
	(void)e;
	++*(uint32_t *)arg;
	return 0;
}

static int any_msg(const struct nlmsghdr *h, void *arg)
{
	return rl_elem_parse(h, any_elem, arg);
}

static void any_restart(void *arg)
{
	*(uint32_t *)arg = 0;
}

/* The proof: the slot's own sets are empty, by the kernel's word. */
static int scrub_check(struct rl_gw *gw, uint32_t slot, const char *pname,
		       const char *xname, struct eg_err *err)
{
	const char *names[] = { pname, xname };

	for (size_t i = 0; i < EG_ARRAY_SIZE(names); i++) {
		uint32_t n = 0;
		int r = rl_nft_dump_set(gw->nft, IP, T, names[i], any_msg,
					any_restart, &n, err);

		if (r)
			return r;
		if (n)
			return eg_err_set(err, -EBUSY,
					  "slot %u: %u elements left in %s",
					  slot, n, names[i]);
	}
	return 0;
}

int rl_gw_scrub(struct rl_gw *gw, uint32_t slot, uint64_t generation,
		struct eg_err *err)
{
	struct slot *s = slot_of(gw, slot);
	char pname[RL_NAME], xname[RL_NAME];
	struct rl_batch *b;
	int r;

	if (!s || s->generation)
		return eg_err_set(err, -EBUSY, "slot %u is still leased", slot);
	(void)generation;
	b = rl_batch_new(gw->nft);
	if (!b)
		return eg_err_set(err, -ENOMEM, "out of memory");
	(void)rl_gw_name(pname, 'p', slot - gw->first);
	(void)rl_gw_name(xname, 'x', slot - gw->first);
	rl_batch_flush(b, IP, T, pname, "pins");
	rl_batch_flush(b, IP, T, xname, "addresses");
	r = rl_batch_commit(b, err);
	for (size_t i = 0; !r && i < EG_ARRAY_SIZE(link_sets); i++)
		r = set_scrub(gw, link_sets[i], ifindex_of(gw, slot), err);
	slot_forget(s);
	return r ? r : scrub_check(gw, slot, pname, xname, err);
}

/* ---- pins ---------------------------------------------------------------------------------- */

static struct pin *pin_find(struct slot *s, uint32_t addr, uint8_t proto,
			    uint16_t port)
{
	for (uint32_t i = 0; i < s->npins; i++)
		if (s->pin[i].addr == addr && s->pin[i].port == port &&
		    s->pin[i].proto == proto)
			return &s->pin[i];
	return NULL;
}

static void pins_expire(struct slot *s, int64_t now)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < s->npins; i++)
		if (s->pin[i].end_ns > now)
			s->pin[kept++] = s->pin[i];
	s->npins = kept;
}

/* Room for @more pins and one name; names only grow during a lease. */
static int shadow_room(struct slot *s, uint32_t more)
{
	if (s->npins + more > s->cap) {
		uint32_t cap = s->cap ? 2 * s->cap : 16;
		struct pin *p;

		while (cap < s->npins + more)
			cap *= 2;
		p = realloc(s->pin, cap * sizeof(*p));
		if (!p)
			return -ENOMEM;
		s->pin = p;
		s->cap = cap;
	}
	if (s->nnames == s->name_cap) {
		uint16_t cap = (uint16_t)(s->name_cap ? 2 * s->name_cap : 4);
		struct eg_name *n = s->name_cap >= PINS_MAX ?
					    NULL :
					    realloc(s->name, cap * sizeof(*n));

		if (!n)
			return -ENOMEM;
		s->name = n;
		s->name_cap = cap;
	}
	return 0;
}

/* Index + 1 of a name; unused names are dropped when many have piled up. */
static uint16_t name_index(struct slot *s, const struct eg_name *name)
{
	for (uint16_t i = 0; i < s->nnames; i++)
		if (eg_name_equal(&s->name[i], name))
			return (uint16_t)(i + 1);
	s->name[s->nnames++] = *name;
	return s->nnames;
}

static void names_compact(struct slot *s)
{
	bool used[PINS_MAX + 1] = { false };
	uint16_t map[PINS_MAX + 1] = { 0 }, kept = 0;

	for (uint32_t i = 0; i < s->npins; i++)
		used[s->pin[i].name] = true;
	for (uint16_t i = 0; i < s->nnames; i++)
		if (used[i + 1]) {
			s->name[kept] = s->name[i];
			map[i + 1] = ++kept;
		}
	for (uint32_t i = 0; i < s->npins; i++)
		s->pin[i].name = map[s->pin[i].name];
	s->nnames = kept;
}

struct want {
	struct pin p[PIN_CALL];
	uint32_t n;
};

static int want_fill(struct want *w, const uint32_t *addr, size_t naddrs,
		     const struct eg_port *port, size_t nports,
		     struct eg_err *err)
{
	w->n = 0;
	for (size_t i = 0; i < naddrs; i++)
		for (size_t k = 0; k < nports; k++)
			for (uint32_t p = port[k].lo; p <= port[k].hi; p++) {
				if (w->n == PIN_CALL)
					return eg_err_set(err, -E2BIG,
							  "more than %d elements in one pin",
							  PIN_CALL);
				w->p[w->n++] = (struct pin){
					.addr = addr[i], .port = (uint16_t)p,
					.proto = port[k].proto };
			}
	return 0;
}

/*
 * One element to make live until now + life. A pin that already lasts as long
 * needs nothing; false is out of memory.
 */
static bool want_elem(struct rl_gw *gw, struct slot *s, const struct pin *p,
		      int64_t now, uint32_t life, struct nftnl_set **add,
		      struct nftnl_set **del, const char *set)
{
	struct pin *old = pin_find(s, p->addr, p->proto, p->port);
	struct pin_key k = pin_key(p->addr, p->proto, p->port);

	if (old && old->end_ns >= now + (life - 1) * EG_NSEC_PER_SEC)
		return true;
	if (!*add)
		*add = rl_elems(T, set);
	if (old && !gw->refresh_moves) {
		if (!*del)
			*del = rl_elems(T, set);
		if (!rl_elem(*del, &k, sizeof(k), 0))
			return false;
	}
	return rl_elem(*add, &k, sizeof(k), (uint64_t)life * 1000);
}

/* add, delete, add of what is there already: valid whatever has expired */
static bool refresh_first(struct rl_batch *b, struct slot *s,
			  const struct want *w, const char *set, int64_t now,
			  uint32_t life)
{
	struct nftnl_set *e = rl_elems(T, set);
	bool ok = e != NULL, any = false;

	for (uint32_t i = 0; ok && i < w->n; i++) {
		struct pin *old = pin_find(s, w->p[i].addr, w->p[i].proto,
					   w->p[i].port);
		struct pin_key k = pin_key(w->p[i].addr, w->p[i].proto,
					   w->p[i].port);

		if (!old || old->end_ns >= now + (life - 1) * EG_NSEC_PER_SEC)
			continue;
		ok = rl_elem(e, &k, sizeof(k), (uint64_t)life * 1000);
		any = true;
	}
	if (!ok)
		rl_batch_spoil(b, -ENOMEM);
	if (any)
		rl_batch_elems(b, IP, e, "pins, before refreshing");
	else
		rl_elems_free(e);
	return ok;
}

static int pin_commit(struct rl_gw *gw, struct slot *s, uint32_t slot,
		      const struct want *w, int64_t now, uint32_t life,
		      struct eg_err *err)
{
	struct nftnl_set *add = NULL, *del = NULL;
	struct rl_batch *b = rl_batch_new(gw->nft);
	char set[RL_NAME];
	bool ok = true;

	if (!b)
		return eg_err_set(err, -ENOMEM, "out of memory");
	(void)rl_gw_name(set, 'p', slot - gw->first);
	for (uint32_t i = 0; ok && i < w->n; i++)
		ok = want_elem(gw, s, &w->p[i], now, life, &add, &del, set);
	if (!ok)
		rl_batch_spoil(b, -ENOMEM);
	if (del)
		ok = ok && refresh_first(b, s, w, set, now, life);
	if (del)
		rl_batch_del_elems(b, IP, del, "pins, refreshing");
	if (add)
		rl_batch_elems(b, IP, add, "pins");
	return rl_batch_commit(b, err);
}

int rl_gw_pin(struct rl_gw *gw, uint32_t slot, uint64_t generation,
	      const struct eg_name *name, const uint32_t *addr, size_t naddrs,
	      const struct eg_port *port, size_t nports, uint32_t lifetime_s,
	      struct eg_err *err)
{
	struct slot *s = slot_of(gw, slot);
	int64_t now = eg_boot_ns();
	struct want w;
	uint16_t index;
	int r;

	if (!s || !generation || s->generation != generation)
		return eg_err_set(err, -ESTALE,
				  "slot %u is not leased under generation %llu",
				  slot, (unsigned long long)generation);
	if (!lifetime_s)
		return eg_err_set(err, -EINVAL,
				  "a pin without a lifetime would be permanent");
	r = want_fill(&w, addr, naddrs, port, nports, err);
	if (r)
		return r;
	if (s->npins + w.n > PINS_MAX)
		pins_expire(s, now);
	if (s->npins + w.n > PINS_MAX)
		return eg_err_set(err, -ENOSPC, "slot %u has %u live pins", slot,
				  s->npins);
	if (s->nnames >= PINS_MAX - 1) {
		pins_expire(s, now);
		names_compact(s);
	}
	if (shadow_room(s, w.n))
		return eg_err_set(err, -ENOMEM, "out of memory");
	r = pin_commit(gw, s, slot, &w, now, lifetime_s, err);
	if (r)
		return r;
	index = name ? name_index(s, name) : 0;
	for (uint32_t i = 0; i < w.n; i++) {
		struct pin *p = pin_find(s, w.p[i].addr, w.p[i].proto,
					 w.p[i].port);
		int64_t end = now + lifetime_s * EG_NSEC_PER_SEC;

		if (!p) {
			p = &s->pin[s->npins++];
			*p = w.p[i];
		}
		if (end > p->end_ns)
			p->end_ns = end;
		p->name = index;
	}
	return 0;
}

size_t rl_gw_pins(struct rl_gw *gw, uint32_t slot, struct rl_pin *ret,
		  size_t max)
{
	struct slot *s = slot_of(gw, slot);
	int64_t now = eg_boot_ns();
	size_t n = 0;

	if (!s)
		return 0;
	pins_expire(s, now);
	for (uint32_t i = 0; i < s->npins && n < max; i++)
		ret[n++] = (struct rl_pin){
			.slot = slot, .addr = s->pin[i].addr,
			.proto = s->pin[i].proto, .port = s->pin[i].port,
			.left_s = (uint32_t)((s->pin[i].end_ns - now) /
					     EG_NSEC_PER_SEC),
			.name = s->pin[i].name ? &s->name[s->pin[i].name - 1] :
						 NULL };
	return n;
}

enum eg_reason rl_addr_denied(const struct eg_conf *conf, uint32_t addr)
{
	static const enum eg_reason reasons[] = {
		[EG_DENY_METADATA] = EG_REASON_METADATA,
		[EG_DENY_PRIVATE] = EG_REASON_PRIVATE,
		[EG_DENY_RESERVED] = EG_REASON_RESERVED,
	};
	enum eg_reason found = EG_REASON_NONE;

	if (eg_prefix_has(conf->prefix, addr) ||
	    eg_prefix_has(conf->link_prefix, addr))
		return EG_REASON_HOST;
	for (uint32_t i = 0; i < conf->denies; i++) {
		enum eg_reason r;

		if (!eg_prefix_has(conf->deny[i].dst, addr))
			continue;
		r = reasons[conf->deny[i].class];
		/* Metadata wins, and private is the mildest. */
		if (r == EG_REASON_METADATA)
			return r;
		if (found == EG_REASON_NONE || found == EG_REASON_PRIVATE)
			found = r;
	}
	return found;
}

/* ---- counters -------------------------------------------------------------------------------- */

struct count {
	struct eg_reason_counts *c;
	size_t off; /* of the field in it */
	uint32_t ifindex, epoch;
};

static int count_elem(const struct rl_elem_info *e, void *arg)
{
	struct count *c = arg;
	struct link_key k;
	uint32_t reason;

	if (e->key_len != sizeof(k))
		return 0;
	memcpy(&k, e->key, sizeof(k));
	reason = k.mark & EG_MARK_LOW;
	if (k.ifindex != c->ifindex || k.mark >> EG_EPOCH_SHIFT != c->epoch ||
	    reason >= EG_REASONS)
		return 0;
	memcpy((char *)&c->c[reason] + c->off, &e->packets,
	       sizeof(e->packets));
	return 0;
}

static int count_msg(const struct nlmsghdr *h, void *arg)
{
	return rl_elem_parse(h, count_elem, arg);
}

/* Every reason of one set by key: no walk over other slots' elements. */
static int counts_get(struct rl_gw *gw, const char *set, struct count *c,
		      struct eg_err *err)
{
	struct nftnl_set *s[EG_REASON_COUNT];
	size_t n = 0;
	int r = 0;

	for (uint32_t i = 1; !r && i < EG_REASON_COUNT; i++) {
		struct link_key k = { c->ifindex,
				      c->epoch << EG_EPOCH_SHIFT | i };

		s[n] = rl_elems(T, set);
		if (!s[n] || !rl_elem(s[n], &k, sizeof(k), 0))
			r = eg_err_set(err, -ENOMEM, "out of memory");
		n++;
	}
	if (!r)
		r = rl_nft_get_elems(gw->nft, IP, s, n, count_msg, c, err);
	for (size_t i = 0; i < n; i++)
		rl_elems_free(s[i]);
	return r;
}

int rl_gw_counters(struct rl_gw *gw, uint32_t slot, uint64_t generation,
		   struct eg_reason_counts *c, uint64_t *unattributed,
		   struct eg_err *err)
{
	static const struct {
		const char *set;
		size_t off;
	} sets[] = {
		/* Innermost first: a packet between two reads is then never
		 * sent without having been denied. */
		{ "sent", offsetof(struct eg_reason_counts, sent) },
		{ "suppressed", offsetof(struct eg_reason_counts, suppressed) },
	};
	struct count q = { .c = c, .ifindex = ifindex_of(gw, slot),
			   .epoch = eg_epoch(generation) };
	int r = 0;

	for (unsigned int i = 0; i < EG_REASONS; i++)
		c[i].denied = c[i].suppressed = c[i].sent = 0;
	for (size_t i = 0; !r && i < EG_ARRAY_SIZE(sets); i++) {
		q.off = sets[i].off;
		r = counts_get(gw, sets[i].set, &q, err);
	}
	q.off = offsetof(struct eg_reason_counts, denied);
	if (!r)
		r = counts_get(gw, "denied", &q, err);
	*unattributed = 0;
	if (!r)
		r = rl_nft_counter(gw->nft, IP, T, "unattributed", unattributed,
				   err);
	return r;
}

struct traffic {
	struct link_key k;
	uint64_t bytes, packets;
};

static int traffic_elem(const struct rl_elem_info *e, void *arg)
{
	struct traffic *t = arg;

	if (e->key_len == sizeof(t->k) && !memcmp(e->key, &t->k, sizeof(t->k))) {
		t->bytes = e->bytes;
		t->packets = e->packets;
	}
	return 0;
}

static int traffic_msg(const struct nlmsghdr *h, void *arg)
{
	return rl_elem_parse(h, traffic_elem, arg);
}

static int traffic_get(struct rl_gw *gw, const char *set, struct traffic *t,
		       struct eg_err *err)
{
	struct nftnl_set *s = rl_elems(T, set);
	int r = s && rl_elem(s, &t->k, sizeof(t->k), 0) ?
			rl_nft_get_elems(gw->nft, IP, &s, 1, traffic_msg, t,
					 err) :
			eg_err_set(err, -ENOMEM, "out of memory");

	rl_elems_free(s);
	return r;
}

int rl_gw_traffic(struct rl_gw *gw, uint32_t slot, uint64_t generation,
		  uint64_t *tx_bytes, uint64_t *tx_packets, uint64_t *rx_bytes,
		  uint64_t *rx_packets, struct eg_err *err)
{
	struct traffic tx = { .k = link_key(gw, slot, generation, 0) };
	struct traffic rx = tx;
	int r = traffic_get(gw, "tx", &tx, err);

	if (!r)
		r = traffic_get(gw, "rx", &rx, err);
	*tx_bytes = tx.bytes;
	*tx_packets = tx.packets;
	*rx_bytes = rx.bytes;
	*rx_packets = rx.packets;
	return r;
}

/* ---- after a restart ---------------------------------------------------------------------------- */

struct adopt {
	struct rl_gw *gw;
	struct slot *s;
	uint32_t slot;
	int64_t now;
	void (*cb)(void *arg, const struct rl_pin *pin);
	void *arg;
	int error;
};

static int adopt_pin(const struct rl_elem_info *e, void *arg)
{
	struct adopt *a = arg;
	struct pin_key k;
	uint16_t be;
	struct pin p = { 0 };
	struct rl_pin info;

	if (e->key_len != sizeof(k) || a->error)
		return 0;
	memcpy(&k, e->key, sizeof(k));
	memcpy(&be, k.port, sizeof(be));
	p.addr = ntohl(k.addr);
	p.proto = k.proto[0];
	p.port = p.proto == IPPROTO_ICMP ? k.port[0] : ntohs(be);
	p.end_ns = a->now + (int64_t)e->expires_ms * 1000000;
	if (a->s->npins >= PINS_MAX || shadow_room(a->s, 1)) {
		a->error = -ENOMEM;
		return 0;
	}
	a->s->pin[a->s->npins++] = p;
	info = (struct rl_pin){ .slot = a->slot, .addr = p.addr,
				.proto = p.proto, .port = p.port,
				.left_s = (uint32_t)(e->expires_ms / 1000) };
	if (a->cb)
		a->cb(a->arg, &info);
	return 0;
}

static int adopt_msg(const struct nlmsghdr *h, void *arg)
{
	return rl_elem_parse(h, adopt_pin, arg);
}

static void adopt_restart(void *arg)
{
	((struct adopt *)arg)->s->npins = 0;
}

/* The lease's elements, put again where they are: adding is idempotent. */
static int lease_again(struct rl_gw *gw, const struct rl_lease *l,
		       const struct rl_box *box, size_t n, struct eg_err *err)
{
	struct rl_batch *b = rl_batch_new(gw->nft);
	char name[RL_NAME];

	if (!b)
		return eg_err_set(err, -ENOMEM, "out of memory");
	(void)rl_gw_name(name, 'x', l->slot - gw->first);
	rl_batch_flush(b, IP, T, name, "former addresses");
	box_elems(b, name, box, n);
	lease_elems(b, gw, l);
	return rl_batch_commit(b, err);
}

int rl_gw_take_over(struct rl_gw *gw, const struct rl_lease *l,
		    const struct rl_prog *prog,
		    void (*cb)(void *arg, const struct rl_pin *pin), void *arg,
		    struct eg_err *err)
{
	struct slot *s = slot_of(gw, l->slot);
	EG_CLEANUP_FREE struct rl_box *box = NULL;
	struct adopt a = { .gw = gw, .s = s, .slot = l->slot,
			   .now = eg_boot_ns(), .cb = cb, .arg = arg };
	char name[RL_NAME];
	size_t n = 0;
	int r;

	if (!s || s->generation)
		return eg_err_set(err, -EBUSY, "slot %u is leased already",
				  l->slot);
	r = compile(gw, l, prog, &box, &n, err);
	if (!r)
		r = lease_again(gw, l, box, n, err);
	if (!r)
		r = rl_nft_dump_set(gw->nft, IP, T,
				    rl_gw_name(name, 'p', l->slot - gw->first),
				    adopt_msg, adopt_restart, &a, err);
	if (!r && a.error)
		r = eg_err_set(err, a.error, "out of memory");
	if (r)
		return r;
	s->generation = l->generation;
	s->quiet = l->drop;
	return 0;
}
