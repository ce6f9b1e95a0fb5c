/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: an assembler for nf_tables rules.
 *
 * rl_rule() opens a rule, the helpers append one expression each, rl_done()
 * puts it into the batch. A rule that lacked a condition would let through
 * what it should not, so the first allocation or attribute that fails sticks:
 * the rule is not emitted and rl_commit() refuses the whole batch.
 *
 * Registers: 1 is the first (sixteen octets; also the verdict-free result of
 * a load), R2, R3 ... the four-octet ones behind its first word; that is how
 * nft lays out a concatenation, so it can print what is built here.
 */
#ifndef RL_EXPR_H
#define RL_EXPR_H

#include "rules/batch.h"

#include <stdbool.h>
#include <stdint.h>

struct nftnl_rule;

#define R1 1U /* NFT_REG_1 */
#define R2 9U /* NFT_REG32_01 ... */
#define R3 10U
#define R4 11U
#define R5 12U

#define RL_EXPRS 24 /* of one rule: bounds the size of its message */

struct rl_rule {
	struct rl_nl *nl;
	struct nftnl_rule *r;
	unsigned int n;
	int error;
};

void rl_rule(struct rl_rule *r, struct rl_nl *nl, const char *chain);
void rl_done(struct rl_rule *r);

/* loads */
void rl_meta(struct rl_rule *r, uint32_t key, uint32_t reg);
void rl_ct(struct rl_rule *r, uint32_t key, uint32_t reg);
void rl_payload(struct rl_rule *r, uint32_t base, uint32_t off, uint32_t len,
		uint32_t reg);
void rl_imm(struct rl_rule *r, uint32_t reg, const void *data, uint32_t len);
void rl_fib_type(struct rl_rule *r, uint32_t reg);
void rl_mask(struct rl_rule *r, uint32_t reg, uint32_t mask, uint32_t xor_);
void rl_mask_raw(struct rl_rule *r, uint32_t reg, const void *mask, uint32_t len);

/* conditions */
void rl_cmp(struct rl_rule *r, uint32_t op, uint32_t reg, const void *data,
	    uint32_t len);
void rl_eq32(struct rl_rule *r, uint32_t reg, uint32_t v); /* host order */
void rl_ne32(struct rl_rule *r, uint32_t reg, uint32_t v);
void rl_eq8(struct rl_rule *r, uint32_t reg, uint8_t v);
void rl_ne8(struct rl_rule *r, uint32_t reg, uint8_t v);
void rl_eq16be(struct rl_rule *r, uint32_t reg, uint16_t v);
void rl_between(struct rl_rule *r, uint32_t reg, uint32_t lo, uint32_t hi);
void rl_in(struct rl_rule *r, const char *set, uint32_t reg);
void rl_map(struct rl_rule *r, const char *map, uint32_t reg, uint32_t dreg);
void rl_vmap(struct rl_rule *r, const char *map, uint32_t reg);
void rl_limit(struct rl_rule *r, const struct rl_stateful *limit);

/* add to or refresh in a set; the rule goes on if that worked (and, with a
 * limit, if the limit matches) */
void rl_dynset(struct rl_rule *r, const char *set, uint32_t reg, bool update,
	       const struct rl_stateful *state);

/* actions */
void rl_meta_set(struct rl_rule *r, uint32_t key, uint32_t reg);
void rl_ct_set(struct rl_rule *r, uint32_t key, uint32_t reg);
void rl_count(struct rl_rule *r, const char *counter);
void rl_count_here(struct rl_rule *r);
void rl_log(struct rl_rule *r, uint16_t group, uint32_t snaplen);
void rl_notrack(struct rl_rule *r);
void rl_tproxy(struct rl_rule *r, uint16_t port);
void rl_reject_tcp(struct rl_rule *r);
void rl_reject_icmp(struct rl_rule *r, uint8_t code);
void rl_nat(struct rl_rule *r, bool dnat, uint32_t addr);
void rl_masquerade(struct rl_rule *r);
void rl_accept(struct rl_rule *r);
void rl_drop(struct rl_rule *r);
void rl_goto(struct rl_rule *r, const char *chain);
void rl_jump(struct rl_rule *r, const char *chain);

#endif
