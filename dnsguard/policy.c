// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: policy index and cache (see policy.h)
 */
#include "dnsguard/policy.h"
#include "dnsguard/build.h"
#include "netpool/base/util.h"

#include <errno.h>
#include <string.h>

struct node {
	uint64_t hash;
	uint32_t next; /* in the bucket */
	uint8_t len;
	uint8_t wire[EG_NAME_WIRE]; /* the suffix, lower case */
};

struct dg_tree {
	uint64_t seed;
	uint32_t count, max, mask;
	uint32_t *bucket;
	struct node *node;
};

static uint8_t fold(uint8_t c)
{
	return c >= 'A' && c <= 'Z' ? (uint8_t)(c + 32) : c;
}

int dg_tree_new(struct dg_tree **ret, uint32_t nodes)
{
	struct dg_tree *t = calloc(1, sizeof(*t));
	uint32_t size = 16;

	if (!t)
		return -ENOMEM;
	while (size < nodes * 2)
		size *= 2;
	t->max = nodes;
	t->mask = size - 1;
	t->bucket = malloc(size * sizeof(*t->bucket));
	t->node = malloc((nodes ? nodes : 1) * sizeof(*t->node));
	if (!t->bucket || !t->node) {
		dg_tree_free(t);
		return -ENOMEM;
	}
	memset(t->bucket, 0xff, size * sizeof(*t->bucket));
	dg_random(&t->seed, sizeof(t->seed));
	*ret = t;
	return 0;
}

void dg_tree_free(struct dg_tree *t)
{
	if (!t)
		return;
	free(t->bucket);
	free(t->node);
	free(t);
}

/* Hash of a label on top of the hash of what follows it. */
static uint64_t hash_label(uint64_t h, const uint8_t *label)
{
	for (unsigned int i = 0; i <= label[0]; i++)
		h = (h ^ fold(label[i])) * 0x100000001b3ULL;
	return h ^ h >> 29;
}

static bool suffix_equal(const struct node *n, const uint8_t *wire, size_t len)
{
	if (n->len != len)
		return false;
	for (size_t i = 0; i < len; i++)
		if (n->wire[i] != fold(wire[i]))
			return false;
	return true;
}

static uint32_t find(const struct dg_tree *t, uint64_t hash,
		     const uint8_t *wire, size_t len)
{
	uint32_t i = t->bucket[hash & t->mask];

	while (i != DG_TREE_NONE && (t->node[i].hash != hash ||
				     !suffix_equal(&t->node[i], wire, len)))
		i = t->node[i].next;
	return i;
}

static uint32_t insert(struct dg_tree *t, uint64_t hash, const uint8_t *wire,
		       size_t len)
{
	struct node *n = &t->node[t->count];

	n->hash = hash;
	n->len = (uint8_t)len;
	for (size_t i = 0; i < len; i++)
		n->wire[i] = fold(wire[i]);
	n->next = t->bucket[hash & t->mask];
	t->bucket[hash & t->mask] = t->count;
	return t->count++;
}

/* Offsets of the labels, the root's last; how many, the root not counted. */
static uint32_t label_starts(const struct eg_name *name, uint8_t start[DG_LABELS])
{
	uint32_t n = 0;
	size_t i = 0;

	while (i < name->len && name->wire[i] && n < DG_LABELS - 1) {
		start[n++] = (uint8_t)i;
		i += 1U + name->wire[i];
	}
	start[n] = (uint8_t)i;
	return n;
}

int dg_tree_add(struct dg_tree *t, const struct eg_name *name, struct dg_path *ret)
{
	uint8_t start[DG_LABELS];
	uint64_t h = t->seed;

	ret->labels = label_starts(name, start);
	ret->depth = 0;
	for (uint32_t k = ret->labels + 1; k-- > 0;) {
		const uint8_t *wire = name->wire + start[k];
		size_t len = (size_t)(name->len - start[k]);
		uint32_t i;

		h = hash_label(h, wire);
		i = find(t, h, wire, len);
		if (i == DG_TREE_NONE) {
			if (t->count == t->max)
				return -ENOSPC;
			i = insert(t, h, wire, len);
		}
		ret->node[ret->depth++] = i;
	}
	return 0;
}

void dg_tree_walk(const struct dg_tree *t, const struct eg_name *name,
		  struct dg_path *ret)
{
	uint8_t start[DG_LABELS];
	uint64_t h = t->seed;

	ret->labels = label_starts(name, start);
	ret->depth = 0;
	for (uint32_t k = ret->labels + 1; k-- > 0;) {
		const uint8_t *wire = name->wire + start[k];
		uint32_t i;

		h = hash_label(h, wire);
		i = find(t, h, wire, (size_t)(name->len - start[k]));
		if (i == DG_TREE_NONE)
			return;
		ret->node[ret->depth++] = i;
	}
}

/*
 * What the program has at a node. Entries of one node are a list in order
 * of the program, so that the first that matches is the lowest.
 */
struct at {
	uint32_t first, last;  /* entries with exactly this name or suffix */
	uint32_t below_phases; /* of allowed exact names under it */
	bool below_common, below_until;
};

struct dg_index {
	const struct rl_prog *prog;
	struct dg_tree *tree;
	struct at *at;	/* by node */
	uint32_t *next; /* by entry */
};

static bool named(const struct rl_entry *e)
{
	return e->kind == RL_EXACT || e->kind == RL_ONE || e->kind == RL_MANY ||
	       e->kind == RL_HOST;
}

static bool exact(const struct rl_entry *e)
{
	return e->kind == RL_EXACT || e->kind == RL_HOST;
}

static bool active(const struct rl_entry *e, uint32_t phases, int64_t now)
{
	if (e->until && now >= e->until)
		return false;
	return e->phases == RL_PHASES_ALL || (e->phases & phases);
}

/* Names above an allowed exact one exist as far as a guest may know. */
static void index_ancestors(struct dg_index *ix, const struct rl_entry *e,
			    const struct dg_path *path)
{
	if (e->kind != RL_EXACT || (e->flags & RL_F_DENY))
		return;
	for (uint32_t d = 0; d + 1 < path->depth; d++) {
		struct at *a = &ix->at[path->node[d]];

		if (e->until)
			a->below_until = true;
		else if (e->phases == RL_PHASES_ALL)
			a->below_common = true;
		else
			a->below_phases |= e->phases;
	}
}

static void index_entry(struct dg_index *ix, uint32_t i,
			const struct dg_path *path)
{
	struct at *a = &ix->at[path->node[path->depth - 1]];

	ix->next[i] = DG_TREE_NONE;
	if (a->first == DG_TREE_NONE)
		a->first = i;
	else
		ix->next[a->last] = i;
	a->last = i;
	index_ancestors(ix, &ix->prog->entry[i], path);
}

static uint32_t nodes_needed(const struct rl_prog *prog)
{
	uint32_t n = 1;

	for (uint32_t i = 0; i < prog->nentries; i++)
		if (named(&prog->entry[i]))
			n += eg_name_labels(&prog->entry[i].name);
	return n;
}

int dg_index_new(struct dg_index **ret, const struct rl_prog *prog)
{
	struct dg_index *ix = calloc(1, sizeof(*ix));
	uint32_t nodes = nodes_needed(prog);
	struct dg_path path = {0};
	int r = -ENOMEM;

	if (!ix)
		return -ENOMEM;
	ix->prog = prog;
	ix->at = calloc(nodes, sizeof(*ix->at));
	ix->next = calloc(prog->nentries + 1U, sizeof(*ix->next));
	if (!ix->at || !ix->next || (r = dg_tree_new(&ix->tree, nodes)))
		goto bad;
	for (uint32_t i = 0; i < nodes; i++)
		ix->at[i].first = DG_TREE_NONE;
	for (uint32_t i = 0; i < prog->nentries; i++) {
		if (!named(&prog->entry[i]))
			continue;
		r = dg_tree_add(ix->tree, &prog->entry[i].name, &path);
		if (r)
			goto bad;
		index_entry(ix, i, &path);
	}
	*ret = ix;
	return 0;
bad:
	dg_index_free(ix);
	return r;
}

void dg_index_free(struct dg_index *ix)
{
	if (!ix)
		return;
	dg_tree_free(ix->tree);
	free(ix->at);
	free(ix->next);
	free(ix);
}

static bool label_chars(const struct eg_name *n, uint32_t labels, bool underscore)
{
	struct eg_name copy;

	if (eg_name_ldh(n, labels))
		return true;
	if (!underscore)
		return false;
	copy = *n;
	for (size_t i = 0; i < copy.len; i++)
		if (copy.wire[i] == '_') /* 0x5f: above any length octet */
			copy.wire[i] = '-';
	return eg_name_ldh(&copy, labels);
}

/*
 * Does the entry of a suffix match the name @below labels under it? A deny
 * entry matches whatever octets the labels hold; an allow only host names.
 */
static bool matches(const struct rl_entry *e, uint32_t below,
		    const struct eg_name *name)
{
	if (exact(e))
		return !below;
	if (e->kind == RL_ONE ? below != 1 : !below)
		return false;
	return (e->flags & RL_F_DENY) ||
	       label_chars(name, below, e->flags & RL_F_UNDERSCORE);
}

static void merge_private(struct rl_verdict *v, const struct rl_entry *e)
{
	for (uint32_t i = 0; i < e->nprivate && i < RL_PRIVATE; i++)
		if (v->nprivate < EG_ARRAY_SIZE(v->private))
			v->private[v->nprivate++] = e->private[i];
}

/* Add a matching entry; a [host] entry gives an address, it allows nothing. */
static void merge(struct rl_verdict *v, const struct rl_entry *e, uint32_t i)
{
	bool first = !v->allowed;

	if (e->flags & RL_F_DENY) {
		v->denied = true;
		return;
	}
	if (e->kind == RL_HOST) {
		v->has_host = true;
		v->host_addr = e->dst.addr;
		return;
	}
	v->wildcard = (first || v->wildcard) && !exact(e);
	v->allowed = true;
	if (first || i < v->entry)
		v->entry = i;
	v->flags |= e->flags;
	v->types |= e->types;
	v->max_names = eg_max_u32(v->max_names, e->max_names);
	merge_private(v, e);
}

static bool until_below(const struct dg_index *ix, uint32_t phases, int64_t now,
			const struct eg_name *name)
{
	for (uint32_t i = 0; i < ix->prog->nentries; i++) {
		const struct rl_entry *e = &ix->prog->entry[i];

		if (e->kind == RL_EXACT && !(e->flags & RL_F_DENY) &&
		    active(e, phases, now) && eg_name_below(&e->name, name) > 0)
			return true;
	}
	return false;
}

static bool is_ancestor(const struct dg_index *ix, const struct dg_path *path,
			uint32_t phases, int64_t now, const struct eg_name *name)
{
	const struct at *a;

	if (path->depth != path->labels + 1)
		return false;
	a = &ix->at[path->node[path->depth - 1]];
	return a->below_common || (a->below_phases & phases) ||
	       (a->below_until && until_below(ix, phases, now, name));
}

void dg_index_lookup(const struct dg_index *ix, uint32_t phases, int64_t now,
		     const struct eg_name *name, struct rl_verdict *ret)
{
	struct dg_path path = {0};

	memset(ret, 0, sizeof(*ret));
	dg_tree_walk(ix->tree, name, &path);
	for (uint32_t d = 0; d < path.depth; d++) {
		uint32_t i = ix->at[path.node[d]].first;

		for (; i != DG_TREE_NONE; i = ix->next[i]) {
			const struct rl_entry *e = &ix->prog->entry[i];

			if (active(e, phases, now) &&
			    matches(e, path.labels - d, name))
				merge(ret, e, i);
		}
	}
	if (ret->denied)
		ret->allowed = ret->has_host = false;
	else if (!ret->allowed)
		ret->ancestor = is_ancestor(ix, &path, phases, now, name);
}

static struct dg_policy **bucket_of(struct dg_policies *ps,
				    const uint8_t digest[EG_DIGEST])
{
	return &ps->bucket[(digest[0] << 8 | digest[1]) % DG_POLICY_BUCKETS];
}

struct dg_policy *dg_policies_get(struct dg_policies *ps,
				  const uint8_t digest[EG_DIGEST])
{
	for (struct dg_policy *p = *bucket_of(ps, digest); p; p = p->next)
		if (!memcmp(p->prog->digest, digest, EG_DIGEST)) {
			p->refs++;
			return p;
		}
	return NULL;
}

int dg_policies_add(struct dg_policies *ps, const struct rl_prog *prog,
		    void (*release)(const struct rl_prog *prog),
		    struct dg_policy **ret)
{
	struct dg_policy **head = bucket_of(ps, prog->digest);
	struct dg_policy *p = calloc(1, sizeof(*p));
	int r;

	if (!p)
		return -ENOMEM;
	r = dg_index_new(&p->index, prog);
	if (r) {
		free(p);
		return r;
	}
	p->refs = 1;
	p->prog = prog;
	p->release = release;
	p->next = *head;
	*head = p;
	ps->count++;
	*ret = p;
	return 0;
}

void dg_policies_put(struct dg_policies *ps, struct dg_policy *p)
{
	struct dg_policy **at;

	if (!p || --p->refs)
		return;
	at = bucket_of(ps, p->prog->digest);
	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	ps->count--;
	dg_index_free(p->index);
	if (p->release)
		p->release(p->prog);
	free(p);
}
