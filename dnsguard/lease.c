// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: what the guard knows of one lease (see lease.h)
 */
#include "dnsguard/lease.h"
#include "dnsguard/build.h"
#include "netpool/base/util.h"

#include <string.h>

bool dg_bucket_take(struct dg_bucket *b, int64_t now, uint32_t rate,
		    uint32_t burst)
{
	int64_t step = EG_NSEC_PER_SEC / (rate ? rate : 1);

	if (b->full < now)
		b->full = now;
	if (b->full - now > step * ((int64_t)burst - 1))
		return false;
	b->full += step;
	return true;
}

void dg_lease_unpin(struct dg_lease *l)
{
	for (size_t i = 0; i < DG_PIN_BUCKETS; i++) {
		struct dg_pinset *s;

		while ((s = l->pins[i])) {
			l->pins[i] = s->next;
			free(s->pin);
			free(s);
		}
	}
	l->npins = 0;
}

void dg_lease_clear(struct dg_lease *l, struct dg_policies *policies)
{
	dg_lease_unpin(l);
	dg_policies_put(policies, l->policy);
	l->policy = NULL;
	dg_cache_free(l->cache);
	l->cache = NULL;
	free(l->seen);
	l->seen = NULL;
	l->nseen = l->seen_size = l->npatterns = 0;
	l->live = false;
}

/* Forget what has run out. */
static void expire(struct dg_lease *l, struct dg_pinset *s, int64_t now)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < s->count; i++)
		if (s->pin[i].until > now)
			s->pin[kept++] = s->pin[i];
	l->npins -= s->count - kept;
	s->count = kept;
}

/* Sets without a live pin go too. */
static void expire_all(struct dg_lease *l, int64_t now)
{
	for (size_t i = 0; i < DG_PIN_BUCKETS; i++) {
		struct dg_pinset **at = &l->pins[i], *s;

		while ((s = *at)) {
			expire(l, s, now);
			if (s->count) {
				at = &s->next;
				continue;
			}
			*at = s->next;
			free(s->pin);
			free(s);
		}
	}
}

struct dg_pinset *dg_lease_pins(struct dg_lease *l, const struct eg_name *name,
				int64_t now)
{
	struct dg_pinset *s = l->pins[eg_name_hash(name) % DG_PIN_BUCKETS];

	while (s && !eg_name_equal(&s->name, name))
		s = s->next;
	if (s)
		expire(l, s, now);
	return s;
}

int64_t dg_pinset_until(const struct dg_pinset *s, uint32_t addr)
{
	for (uint32_t i = 0; s && i < s->count; i++)
		if (s->pin[i].addr == addr)
			return s->pin[i].until;
	return 0;
}

/* The live pins with the longest life left, @max of them. */
static uint32_t sticky(const struct dg_pinset *s, uint32_t max,
		       uint32_t ret[EG_PIN_ADDRS])
{
	int64_t until[EG_PIN_ADDRS] = {0};
	uint32_t n = 0;

	max = eg_min_u32(max, EG_PIN_ADDRS);
	if (!max)
		return 0;

	for (uint32_t i = 0; s && i < s->count; i++) {
		uint32_t at = n;

		if (n && n == max && s->pin[i].until <= until[n - 1])
			continue;
		if (n < max)
			n++;
		else
			at--;
		for (; at && until[at - 1] < s->pin[i].until; at--) {
			until[at] = until[at - 1];
			ret[at] = ret[at - 1];
		}
		until[at] = s->pin[i].until;
		ret[at] = s->pin[i].addr;
	}
	return n;
}

uint32_t dg_lease_choose(struct dg_lease *l, const struct dg_pinset *s,
			 const uint32_t *addr, uint32_t n, uint32_t start,
			 uint32_t max, int64_t now, uint32_t ret[EG_PIN_ADDRS])
{
	uint32_t fresh = 0, count = eg_min_u32(n, max);

	for (uint32_t i = 0; i < count; i++) {
		ret[i] = addr[(start + i) % n];
		fresh += !dg_pinset_until(s, ret[i]);
	}
	if (l->npins + fresh > DG_PINS_LEASE) {
		bool empty = s && !s->count;

		expire_all(l, now); /* frees sets without live pins */
		if (empty)
			s = NULL;
	}
	if (s && s->count + fresh > DG_PINS_NAME)
		return sticky(s, max, ret);
	if (l->npins + fresh > DG_PINS_LEASE)
		return s ? sticky(s, max, ret) : 0;
	return count;
}

static struct dg_pinset *make_set(struct dg_lease *l, const struct eg_name *name)
{
	struct dg_pinset **at = &l->pins[eg_name_hash(name) % DG_PIN_BUCKETS];
	struct dg_pinset *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->name = *name;
	eg_name_lower(&s->name);
	s->next = *at;
	*at = s;
	return s;
}

static struct dg_pin *pin_slot(struct dg_lease *l, struct dg_pinset *s,
			       uint32_t addr, bool *ret_new)
{
	for (uint32_t i = 0; i < s->count; i++)
		if (s->pin[i].addr == addr)
			return &s->pin[i];
	if (s->count == s->room) {
		uint32_t room = s->room ? s->room * 2 : EG_PIN_ADDRS;
		struct dg_pin *p = realloc(s->pin, room * sizeof(*p));

		if (!p)
			return NULL;
		s->pin = p;
		s->room = room;
	}
	*ret_new = true;
	l->npins++;
	s->pin[s->count] = (struct dg_pin){.addr = addr};
	return &s->pin[s->count++];
}

struct dg_pinset *dg_lease_pinned(struct dg_lease *l, const struct eg_name *name,
				  const uint32_t *addr, uint32_t n,
				  int64_t until, int64_t now, bool *ret_new)
{
	struct dg_pinset *s = dg_lease_pins(l, name, now);

	*ret_new = false;
	if (!s)
		s = make_set(l, name);
	for (uint32_t i = 0; s && i < n; i++) {
		struct dg_pin *p = pin_slot(l, s, addr[i], ret_new);

		if (!p)
			return NULL;
		if (p->until < until)
			p->until = until;
	}
	return s;
}

/* 64 bits of (pattern, name); two names that meet cost a guest nothing. */
static uint64_t seen_hash(uint32_t entry, const struct eg_name *name)
{
	static uint64_t key; /* guests choose the names */
	struct eg_name lower = *name;
	uint64_t h;

	while (!key)
		dg_random(&key, sizeof(key));
	h = key ^ entry;
	eg_name_lower(&lower);
	for (size_t i = 0; i < lower.len; i++) {
		h = (h ^ lower.wire[i]) * 0x9fb21c651e98df25ULL;
		h ^= h >> 32;
	}
	return h ? h : 1;
}

static uint64_t *seen_at(uint64_t *table, uint32_t size, uint64_t h)
{
	uint32_t i = (uint32_t)(h >> 7) & (size - 1);

	while (table[i] && table[i] != h)
		i = (i + 1) & (size - 1);
	return &table[i];
}

/* Keep the table at most half full. */
static bool seen_grow(struct dg_lease *l)
{
	uint32_t size = l->seen_size ? l->seen_size * 2 : 64;
	uint64_t *table;

	if (l->nseen * 2 < l->seen_size)
		return true;
	table = calloc(size, sizeof(*table));
	if (!table)
		return false;
	for (uint32_t i = 0; l->seen && i < l->seen_size; i++)
		if (l->seen[i])
			*seen_at(table, size, l->seen[i]) = l->seen[i];
	free(l->seen);
	l->seen = table;
	l->seen_size = size;
	return true;
}

static uint32_t *pattern_names(struct dg_lease *l, uint32_t entry)
{
	uint32_t i = 0;

	while (i < l->npatterns && l->pattern[i].entry != entry)
		i++;
	if (i == DG_PATTERNS)
		i--; /* the last one is shared by all further patterns */
	if (i == l->npatterns) {
		l->pattern[i].entry = entry;
		l->pattern[i].names = 0;
		l->npatterns++;
	}
	return &l->pattern[i].names;
}

bool dg_lease_name(struct dg_lease *l, uint32_t entry, uint32_t max,
		   const struct eg_name *name)
{
	uint64_t h = seen_hash(entry, name), *at;
	uint32_t *names;

	if (l->seen && *seen_at(l->seen, l->seen_size, h))
		return true;
	names = pattern_names(l, entry);
	if (*names >= (max ? max : DG_NAMES) || l->nseen >= DG_NAMES_LEASE ||
	    !seen_grow(l) || !l->seen)
		return false;
	at = seen_at(l->seen, l->seen_size, h);
	*at = h;
	(*names)++;
	l->nseen++;
	return true;
}
