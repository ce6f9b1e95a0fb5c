/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: nf_tables transport: one table, one socket, one transaction.
 *
 * A transaction is put together between rl_begin() and rl_commit() and goes
 * out as one datagram. nf_tables works it off inside sendmsg(2), so every
 * answer is in the receive buffer when that returns: nothing here waits. The
 * first thing that goes wrong while putting it together (memory, a key too
 * long, a failed attribute) sticks: rl_commit() then sends nothing. All or
 * nothing, nothing is replayed.
 *
 * Only the last message asks for an acknowledgement (one for each would
 * overflow the buffer); errors come unasked and each names its message, which
 * is still here, so the sentence can say what was being added.
 */
#ifndef RL_BATCH_H
#define RL_BATCH_H

#include "netpool/base/addr.h"
#include "netpool/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct nlmsghdr;
struct rl_nl;

/* nft's data type numbers (its datatype.h), combined six bits a field. */
#define RL_T_IPADDR 7U
#define RL_T_ETHER 9U
#define RL_T_PROTO 12U
#define RL_T_SERVICE 13U
#define RL_T_MARK 19U
#define RL_T_IFINDEX 20U
#define RL_T_IFNAME 41U
#define RL_T_VERDICT 0xffffff00U
#define RL_T2(a, b) ((a) << 6 | (b))
#define RL_T3(a, b, c) (RL_T2(a, b) << 6 | (c))

#define RL_KEY 36 /* longest key: an interface name and four words */

/* A set key: each field is padded to four octets, as nft does. */
struct rl_key {
	uint8_t b[RL_KEY];
	uint8_t len;
};

void rl_key_host(struct rl_key *k, uint32_t v);	   /* ifindex, mark */
void rl_key_addr(struct rl_key *k, uint32_t addr); /* network order */
void rl_key_u8(struct rl_key *k, uint8_t v);
void rl_key_port(struct rl_key *k, uint16_t v);
void rl_key_mac(struct rl_key *k, const uint8_t mac[EG_MAC_LEN]);
void rl_key_name(struct rl_key *k, const char *ifname);

/* Stateful expression of a set element. */
enum rl_state {
	RL_STATE_NONE,
	RL_STATE_COUNTER,
	RL_STATE_LIMIT, /* token bucket; over: matches above it */
	RL_STATE_FLOWS, /* matches above a number of connections */
};

struct rl_stateful {
	enum rl_state kind;
	bool over;
	uint64_t rate;	/* per unit */
	uint64_t unit;	/* seconds; 0: one */
	uint32_t burst; /* packets; RL_STATE_FLOWS: the number */
};

#define RL_SET_FIELDS 5

struct rl_set {
	const char *name;
	uint32_t flags; /* NFT_SET_* */
	uint32_t type, len;
	uint32_t data_type, data_len;
	uint32_t size; /* 0: none declared */
	uint32_t timeout_s, gc_s;
	uint8_t field[RL_SET_FIELDS]; /* of a concatenation, in octets */
	uint8_t nfields;
};

struct rl_chain {
	const char *name;
	const char *type; /* NULL: not a base chain */
	uint32_t hook;
	int32_t prio;
	bool drop; /* policy */
};

struct rl_elem {
	struct rl_key key, end; /* end.len 0: no closing key */
	bool interval_end;
	uint64_t timeout_ms;
	bool has_data;
	uint32_t data;	   /* mark, host order */
	const char *chain; /* verdict map: goto this */
	struct rl_stateful state;
};

/* An element as the kernel shows it. */
struct rl_found {
	bool present;
	struct rl_key key, end;
	uint32_t data;
	uint64_t timeout_ms, left_ms;
	uint64_t packets, bytes;
};

struct rl_dump {
	struct rl_found *v;
	size_t n, cap;
};

/**
 * rl_nl_open() - wrap an nfnetlink socket
 * @fd:		taken when @own (also on failure), else borrowed
 * @family:	NFPROTO_* of the table
 * @table:	kept by reference
 */
int rl_nl_open(struct rl_nl **ret, int fd, bool own, uint8_t family,
	       const char *table, struct eg_err *err);
void rl_nl_close(struct rl_nl *nl);

void rl_begin(struct rl_nl *nl);

/**
 * rl_commit() - send what has been put together, read every answer
 * @what:	for the sentence: "leasing slot 5"
 *
 * Return: 0 when the kernel has acknowledged all of it; else nothing of it is
 * in the kernel and the error is the first message's that failed.
 */
int rl_commit(struct rl_nl *nl, const char *what, struct eg_err *err);

/* rl_fail() - make the transaction under construction fail. */
void rl_fail(struct rl_nl *nl, int error);

/* ---- statements ---------------------------------------------------------- */

/* rl_table() - make the table; @comment may be NULL (kept as nft does). */
void rl_table(struct rl_nl *nl, const char *comment);
void rl_table_gone(struct rl_nl *nl);
void rl_set(struct rl_nl *nl, const struct rl_set *set);
void rl_chain(struct rl_nl *nl, const struct rl_chain *chain);
void rl_counter(struct rl_nl *nl, const char *name);
void rl_add(struct rl_nl *nl, const char *set, const struct rl_elem *e);
void rl_del(struct rl_nl *nl, const char *set, const struct rl_elem *e);
void rl_flush(struct rl_nl *nl, const char *set);

/* For expr.c: a message with at least RL_ROOM octets behind its header. */
#define RL_ROOM 16384U
struct nlmsghdr *rl_msg(struct rl_nl *nl, uint16_t type, uint16_t flags);
void rl_msg_end(struct rl_nl *nl, struct nlmsghdr *nlh);
uint8_t rl_nl_family(const struct rl_nl *nl);
const char *rl_nl_table(const struct rl_nl *nl);
struct nftnl_expr;
struct nftnl_expr *rl_stateful_expr(const struct rl_stateful *s);

/* ---- questions ----------------------------------------------------------- */

/**
 * rl_get() - look up @n elements, each by its own set and key
 * @found:	@n answers; `present` false when there is no such element
 */
struct rl_ask {
	const char *set;
	struct rl_key key;
};
int rl_get(struct rl_nl *nl, const struct rl_ask *ask, struct rl_found *found,
	   size_t n, struct eg_err *err);

/* rl_dump() - all elements of a set; restarted when a commit ran between. */
int rl_dump(struct rl_nl *nl, const char *set, struct rl_dump *ret,
	    struct eg_err *err);
void rl_dump_free(struct rl_dump *d);

/* rl_counter_get() - packets of a named counter. */
int rl_counter_get(struct rl_nl *nl, const char *name, uint64_t *packets,
		   struct eg_err *err);

/**
 * rl_table_comment() - the comment of the table
 *
 * Return: 0; -ENOENT without a table. An absent comment is the empty text.
 */
int rl_table_comment(struct rl_nl *nl, char *buf, size_t cap, struct eg_err *err);

#endif
