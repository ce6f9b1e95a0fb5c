/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: an index over policy programs, and the cache of mapped programs.
 *
 * A guest decides how often a name is looked up and which; the cost must not
 * depend on the size of the policy. All names and suffixes of a program are
 * kept in a tree of labels (struct dg_tree: one hash node a distinct
 * suffix), walked from the root label down; a name whose suffix is not in
 * the tree costs one probe. Semantics are those of rl_prog_lookup(), but for
 * the ports, which are main's business: nports is always 0.
 *
 * Programs are shared by digest: thousands of leases have the same policy.
 */
#ifndef DG_POLICY_H
#define DG_POLICY_H

#include "rules/policy.h"

#define DG_LABELS 128 /* labels a name of 255 octets can have, and the root */
#define DG_TREE_NONE UINT32_MAX

struct dg_tree;

/* The nodes that exist on the way from the root down to a name. */
struct dg_path {
	uint32_t depth;		  /* nodes; the first is the root */
	uint32_t labels;	  /* of the name */
	uint32_t node[DG_LABELS]; /* indexes, in order of insertion */
};

/* dg_tree_new() - room for @nodes nodes at most. */
int dg_tree_new(struct dg_tree **ret, uint32_t nodes);
void dg_tree_free(struct dg_tree *t);

/**
 * dg_tree_add() - make the nodes of a name and all its suffixes
 * @ret:	the path; depth is labels + 1
 *
 * Return: 0, or -ENOSPC when the room is used up.
 */
int dg_tree_add(struct dg_tree *t, const struct eg_name *name,
		struct dg_path *ret);

/* dg_tree_walk() - the nodes of a name's suffixes, as far as they exist. */
void dg_tree_walk(const struct dg_tree *t, const struct eg_name *name,
		  struct dg_path *ret);

/* A mapped program and its index. */
struct dg_policy {
	uint32_t refs;
	struct dg_policy *next;
	const struct rl_prog *prog;
	struct dg_index *index;
	void (*release)(const struct rl_prog *prog);
};

struct dg_index;

/**
 * dg_index_new() - index a checked program
 * @prog:	borrowed; must outlive the index
 */
int dg_index_new(struct dg_index **ret, const struct rl_prog *prog);
void dg_index_free(struct dg_index *ix);

/* dg_index_lookup() - as rl_prog_lookup(), without ports. */
void dg_index_lookup(const struct dg_index *ix, uint32_t phases, int64_t now,
		     const struct eg_name *name, struct rl_verdict *ret);

#define DG_POLICY_BUCKETS 1024 /* at worst every lease has its own text */

struct dg_policies {
	struct dg_policy *bucket[DG_POLICY_BUCKETS]; /* by digest */
	uint32_t count;
};

/* dg_policies_get() - a reference to a cached program, NULL: not there. */
struct dg_policy *dg_policies_get(struct dg_policies *ps,
				  const uint8_t digest[EG_DIGEST]);

/**
 * dg_policies_add() - index a program and cache it under its digest
 * @prog:	taken on success; @release lets go of it
 */
int dg_policies_add(struct dg_policies *ps, const struct rl_prog *prog,
		    void (*release)(const struct rl_prog *prog),
		    struct dg_policy **ret);

/* dg_policies_put() - give a reference back; the last one frees. */
void dg_policies_put(struct dg_policies *ps, struct dg_policy *p);

#endif
