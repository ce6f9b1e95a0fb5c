/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: what upstreams have said of names, for as long as it holds.
 *
 * One cache is shared by all leases for names of exact entries; a lease has
 * one of its own for names it reached through a wildcard, so that nobody
 * learns from timing what a neighbour asked, or pushes a neighbour's names
 * out. An entry is raw: addresses and chain as they came, vetted each time
 * they are used, since what one policy permits another does not. It never
 * answers by itself whether a name is allowed.
 */
#ifndef DG_CACHE_H
#define DG_CACHE_H

#include "dnsguard/walk.h"

#define DG_CACHE_SHARED 8192  /* distinct exact names of all policies in use */
#define DG_CACHE_PRIVATE 64   /* wildcard names of one lease at a time */
#define DG_CHAIN_OCTETS (DG_CHAIN * EG_NAME_WIRE)

enum dg_kind {
	DG_KIND_ADDRS,
	DG_KIND_NODATA,
	DG_KIND_NXDOMAIN,
	DG_KIND_FAIL, /* every upstream failed */
	DG_KIND_COUNT,
};

struct dg_entry {
	struct eg_name name; /* lower case */
	enum dg_kind kind;
	enum dg_ede ede;     /* DG_KIND_FAIL: why */
	uint32_t ttl;	     /* as it came */
	int64_t expires;     /* ns */
	uint32_t rotate;     /* where the next answer starts */
	uint32_t naddrs;
	uint32_t addr[DG_REPLY_ADDRS];
	uint32_t nchain;
	uint8_t *chain; /* nchain names, packed; NULL when there are none */
	/* the cache's own */
	uint64_t hash;
	uint32_t next, newer, older;
};

struct dg_cache;

int dg_cache_new(struct dg_cache **ret, uint32_t entries);
void dg_cache_free(struct dg_cache *c);

/* dg_cache_find() - borrowed until the next put; NULL: unknown, expired. */
struct dg_entry *dg_cache_find(struct dg_cache *c, const struct eg_name *name,
			       int64_t now);

/**
 * dg_cache_put() - keep what is known now of a name
 * @r:		addresses and chain; ignored unless @kind is DG_KIND_ADDRS
 *
 * The entry least recently used makes room. Return: the entry, valid until
 * the next put even when @ttl is 0; NULL when out of memory.
 */
struct dg_entry *dg_cache_put(struct dg_cache *c, const struct eg_name *name,
			      enum dg_kind kind, const struct dg_reply *r,
			      uint32_t ttl, int64_t now);

/* dg_entry_chain() - next name of the packed chain; *at starts as 0. */
bool dg_entry_chain(const struct dg_entry *e, size_t *at, uint32_t *index,
		    struct eg_name *ret);

#endif
