// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: the answer cache (see cache.h)
 *
 * A fixed array of entries, a hash over it and a list in order of use.
 */
#include "dnsguard/cache.h"
#include "dnsguard/build.h"
#include "netpool/base/util.h"

#include <errno.h>
#include <string.h>

#define NONE UINT32_MAX

struct dg_cache {
	uint64_t seed;
	uint32_t size, used, mask;
	uint32_t newest, oldest;
	uint32_t *bucket;
	struct dg_entry *entry;
};

int dg_cache_new(struct dg_cache **ret, uint32_t entries)
{
	struct dg_cache *c = calloc(1, sizeof(*c));
	uint32_t size = 16;

	if (!c)
		return -ENOMEM;
	while (size < entries)
		size *= 2;
	c->size = entries;
	c->mask = size - 1;
	c->newest = c->oldest = NONE;
	c->bucket = malloc(size * sizeof(*c->bucket));
	c->entry = calloc(entries, sizeof(*c->entry));
	if (!c->bucket || !c->entry) {
		dg_cache_free(c);
		return -ENOMEM;
	}
	memset(c->bucket, 0xff, size * sizeof(*c->bucket));
	dg_random(&c->seed, sizeof(c->seed));
	*ret = c;
	return 0;
}

void dg_cache_free(struct dg_cache *c)
{
	if (!c)
		return;
	for (uint32_t i = 0; c->entry && i < c->used; i++)
		free(c->entry[i].chain);
	free(c->bucket);
	free(c->entry);
	free(c);
}

/* Keyed: guests choose the names that get here through wildcards. */
static uint64_t hash_name(uint64_t seed, const struct eg_name *lower)
{
	uint64_t h = seed ^ lower->len;

	for (size_t i = 0; i < lower->len; i++) {
		h = (h ^ lower->wire[i]) * 0x9fb21c651e98df25ULL;
		h ^= h >> 32;
	}
	return h;
}

static void unlink_use(struct dg_cache *c, struct dg_entry *e)
{
	if (e->newer != NONE)
		c->entry[e->newer].older = e->older;
	else
		c->newest = e->older;
	if (e->older != NONE)
		c->entry[e->older].newer = e->newer;
	else
		c->oldest = e->newer;
}

static void link_newest(struct dg_cache *c, struct dg_entry *e)
{
	uint32_t i = (uint32_t)(e - c->entry);

	e->newer = NONE;
	e->older = c->newest;
	if (c->newest != NONE)
		c->entry[c->newest].newer = i;
	else
		c->oldest = i;
	c->newest = i;
}

static struct dg_entry *find(struct dg_cache *c, const struct eg_name *lower,
			     uint64_t h)
{
	uint32_t i = c->bucket[h & c->mask];

	for (; i != NONE; i = c->entry[i].next) {
		struct dg_entry *e = &c->entry[i];

		if (e->hash == h && e->name.len == lower->len &&
		    !memcmp(e->name.wire, lower->wire, lower->len))
			return e;
	}
	return NULL;
}

struct dg_entry *dg_cache_find(struct dg_cache *c, const struct eg_name *name,
			       int64_t now)
{
	struct eg_name lower = *name;
	struct dg_entry *e;

	eg_name_lower(&lower);
	e = find(c, &lower, hash_name(c->seed, &lower));
	if (!e || e->expires <= now)
		return NULL;
	unlink_use(c, e);
	link_newest(c, e);
	return e;
}

static void unlink_hash(struct dg_cache *c, struct dg_entry *e)
{
	uint32_t *at = &c->bucket[e->hash & c->mask];
	uint32_t i = (uint32_t)(e - c->entry);

	while (*at != i)
		at = &c->entry[*at].next;
	*at = e->next;
}

/* An entry for a new name: a fresh one, or the longest unused. */
static struct dg_entry *take(struct dg_cache *c, const struct eg_name *lower,
			     uint64_t h)
{
	struct dg_entry *e;
	uint32_t *bucket = &c->bucket[h & c->mask];

	if (c->used < c->size) {
		e = &c->entry[c->used++];
	} else {
		e = &c->entry[c->oldest];
		unlink_use(c, e);
		unlink_hash(c, e);
	}
	e->name = *lower;
	e->hash = h;
	e->rotate = 0;
	e->next = *bucket;
	*bucket = (uint32_t)(e - c->entry);
	link_newest(c, e);
	return e;
}

static bool pack_chain(struct dg_entry *e, const struct dg_reply *r)
{
	size_t n = 0, at = 0;

	for (uint32_t i = 0; i < r->nchain; i++)
		n += r->chain[i].len;
	if (!n)
		return true;
	e->chain = malloc(n);
	if (!e->chain)
		return false;
	for (uint32_t i = 0; i < r->nchain; i++) {
		memcpy(e->chain + at, r->chain[i].wire, r->chain[i].len);
		at += r->chain[i].len;
	}
	e->nchain = r->nchain;
	return true;
}

struct dg_entry *dg_cache_put(struct dg_cache *c, const struct eg_name *name,
			      enum dg_kind kind, const struct dg_reply *r,
			      uint32_t ttl, int64_t now)
{
	struct eg_name lower = *name;
	struct dg_entry *e;
	uint64_t h;

	eg_name_lower(&lower);
	h = hash_name(c->seed, &lower);
	e = find(c, &lower, h);
	if (!e)
		e = take(c, &lower, h);
	free(e->chain);
	e->chain = NULL;
	e->nchain = 0;
	e->naddrs = 0;
	e->kind = kind;
	e->ttl = ttl;
	e->expires = now + (int64_t)ttl * EG_NSEC_PER_SEC;
	if (kind != DG_KIND_ADDRS || !r)
		return e;
	if (!pack_chain(e, r)) {
		e->expires = 0; /* half an entry must not be found */
		return NULL;
	}
	e->naddrs = r->naddrs;
	memcpy(e->addr, r->addr, r->naddrs * sizeof(e->addr[0]));
	return e;
}

bool dg_entry_chain(const struct dg_entry *e, size_t *at, uint32_t *index,
		    struct eg_name *ret)
{
	int n;

	if (*index >= e->nchain)
		return false;
	n = eg_name_from_wire(e->chain + *at, EG_NAME_WIRE, ret);
	if (n < 0)
		return false; /* cannot be: packed by us */
	*at += (size_t)n;
	(*index)++;
	return true;
}
