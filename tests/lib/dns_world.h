/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd tests: a DNS guard in a world without sockets: what it does is put
 * into lists, what time it is the test says, policies are built in memory.
 */
#ifndef TESTS_DNS_WORLD_H
#define TESTS_DNS_WORLD_H

#include "dnsguard/guard.h"

#define DW_LIST 1024
#define DW_ENTRIES 64

struct dw_reply {
	struct dg_client to;
	size_t len;
	uint8_t msg[DG_ANSWER_MAX];
};

struct dw_send {
	uint32_t req, server;
	bool tcp;
	size_t len;
	uint8_t msg[DG_ASK_MAX];
};

struct dw_pin {
	uint64_t cookie;
	struct eg_dm_pin m;
};

struct dw {
	struct eg_conf conf;
	struct dg_guard *guard;
	int64_t now, wall;
	bool main_away, audit_full;
	struct rl_prog *prog;
	uint8_t digest;
	size_t nreplies, nsends, npins, ndenials, nnames, nsilences;
	struct dw_reply reply[DW_LIST];
	struct dw_send send[DW_LIST];
	struct dw_pin pin[DW_LIST];
	struct eg_da_denial denial[DW_LIST];
	struct eg_da_name name[DW_LIST];
};

/* dw_new() - a world of 512 slots, two upstreams, the usual denied ranges. */
struct dw *dw_new(void);
void dw_free(struct dw *w);
/* dw_start() - make the guard; the configuration is final. */
void dw_start(struct dw *w);

/* dw_entry() - add an entry to the policy being built; its name in text. */
struct rl_entry *dw_entry(struct dw *w, enum rl_kind kind, const char *name);
void dw_lease(struct dw *w, uint32_t slot, uint64_t generation, uint32_t phases);
void dw_advance(struct dw *w, int64_t ms);
struct dg_client dw_client(const struct dw *w, uint32_t slot);

/* dw_name() - name from text with \DDD escapes, case kept. */
struct eg_name dw_name(const char *text);
/* dw_query() - a query message; returns its length. */
size_t dw_query(uint8_t *buf, uint16_t id, const struct eg_name *name,
		uint16_t type, uint16_t class, bool edns);

/* dw_shift() - forget the first of a list. */
#define dw_shift(list, n)                                                      \
	memmove(&(list)[0], &(list)[1], --(n) * sizeof((list)[0]))

#endif
