/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: nfnetlink transactions.
 *
 * A batch is built whole, sent with one sendmsg(2) and answered before that
 * call returns: the kernel works on a batch in the caller's context and has
 * queued every acknowledgement when it is done. So committing is a plain
 * call that never waits for anybody, and a batch is all or nothing.
 *
 * Only the last message asks for an acknowledgement; a message that fails is
 * reported in any case. Everything queued is read before the call returns,
 * so that nothing of one batch is ever taken for an answer to the next. A
 * failed batch is forgotten, never sent again. An allocation or attribute
 * that failed while building makes commit refuse the whole batch.
 */
#ifndef RL_BATCH_H
#define RL_BATCH_H

#include "netpool/base/err.h"

#include <stddef.h>
#include <stdint.h>

struct nlmsghdr;
struct nftnl_table;
struct nftnl_chain;
struct nftnl_rule;
struct nftnl_set;
struct nftnl_obj;
struct rl_batch;

#define RL_FAMILY_IP 2	  /* NFPROTO_IPV4 */
#define RL_FAMILY_INET 1  /* NFPROTO_INET */

struct rl_nft; /* a socket in one namespace */

/* rl_nft_open() - wrap an nfnetlink socket; @fd is taken, also on failure. */
int rl_nft_open(struct rl_nft **ret, int fd, struct eg_err *err);
/* rl_nft_detach() - the same without closing the descriptor. */
void rl_nft_detach(struct rl_nft *n);
void rl_nft_close(struct rl_nft *n);

/* rl_nft_batches() - own batches committed; the kernel's generation id grows by it. */
uint64_t rl_nft_batches(const struct rl_nft *n);

struct rl_batch *rl_batch_new(struct rl_nft *n);
void rl_batch_free(struct rl_batch *b);

/*
 * Adding to a batch: the object is consumed, NULL (an allocation failed)
 * spoils the batch. `what` is a constant text for errors.
 */
void rl_batch_table(struct rl_batch *b, uint16_t family, const char *table,
		    const char *what);
void rl_batch_del_table(struct rl_batch *b, uint16_t family,
			const char *table, const char *what);
void rl_batch_chain(struct rl_batch *b, uint16_t family, struct nftnl_chain *c,
		    const char *what);
void rl_batch_rule(struct rl_batch *b, uint16_t family, struct nftnl_rule *r,
		   const char *what);
void rl_batch_set(struct rl_batch *b, uint16_t family, struct nftnl_set *s,
		  const char *what);
/* Elements: those of @s are added or deleted; it is consumed. */
void rl_batch_elems(struct rl_batch *b, uint16_t family, struct nftnl_set *s,
		    const char *what);
void rl_batch_del_elems(struct rl_batch *b, uint16_t family,
			struct nftnl_set *s, const char *what);
/* All elements of a set, which must exist. */
void rl_batch_flush(struct rl_batch *b, uint16_t family, const char *table,
		    const char *set, const char *what);
void rl_batch_obj(struct rl_batch *b, uint16_t family, struct nftnl_obj *o,
		  const char *what);
/* rl_batch_spoil() - mark it as not to be sent. */
void rl_batch_spoil(struct rl_batch *b, int error);

/**
 * rl_batch_commit() - send, read the kernel's answer, free the batch
 *
 * Return: 0, or the negative errno of the first message that failed, with
 * what it was about and the kernel's own words in @err.
 */
int rl_batch_commit(struct rl_batch *b, struct eg_err *err);

/**
 * rl_nft_ask() - a dump, or single elements by key
 * @nlh:	complete request
 * @cb:		called for each answer; non-zero ends with that value
 *
 * A dump that was interrupted by a change (NLM_F_DUMP_INTR) is asked again,
 * at most RL_DUMP_TRIES times; @restart is called before each.
 */
#define RL_DUMP_TRIES 5
int rl_nft_ask(struct rl_nft *n, struct nlmsghdr *nlh,
	       int (*cb)(const struct nlmsghdr *nlh, void *arg),
	       void (*restart)(void *arg), void *arg, struct eg_err *err);

/**
 * rl_nft_get_elems() - look single elements up, all keys in one send
 * @s:		set with the keys wanted; borrowed
 * @cb:		for each element that is there
 *
 * Keys that are not there are no error.
 */
int rl_nft_get_elems(struct rl_nft *n, uint16_t family, struct nftnl_set **s,
		     size_t count,
		     int (*cb)(const struct nlmsghdr *nlh, void *arg),
		     void *arg, struct eg_err *err);

/* rl_nft_dump_set() - all elements of one set. */
int rl_nft_dump_set(struct rl_nft *n, uint16_t family, const char *table,
		    const char *set,
		    int (*cb)(const struct nlmsghdr *nlh, void *arg),
		    void (*restart)(void *arg), void *arg, struct eg_err *err);

/* rl_nft_counter() - packets of a named counter. */
int rl_nft_counter(struct rl_nft *n, uint16_t family, const char *table,
		   const char *name, uint64_t *ret, struct eg_err *err);

/* rl_nft_has_table(), rl_nft_has_set() - 1, 0 or negative errno. */
int rl_nft_has_table(struct rl_nft *n, uint16_t family, const char *table,
		     struct eg_err *err);
int rl_nft_has_set(struct rl_nft *n, uint16_t family, const char *table,
		   const char *set, struct eg_err *err);

#endif
