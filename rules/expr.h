/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: an assembler for rules, sets and elements.
 *
 * Every step can fail for want of memory. A rule under construction keeps
 * its first failure and rl_rule_take() returns NULL then, which spoils the
 * batch: a rule that lacks a condition is never sent.
 *
 * Registers are the 4-byte ones (NFT_REG32_00 + n); a key of several fields
 * is one field in each register from 0 on, padded with zeros as the kernel
 * loads them.
 */
#ifndef RL_EXPR_H
#define RL_EXPR_H

#include "netpool/base/addr.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct nftnl_rule;
struct nftnl_set;
struct nftnl_chain;
struct nftnl_obj;
struct nftnl_set_elem;

struct rl_rule {
	struct nftnl_rule *r;
	bool failed;
};

void rl_rule_begin(struct rl_rule *x, uint16_t family, const char *table,
		   const char *chain);
struct nftnl_rule *rl_rule_take(struct rl_rule *x);

/* Loads. */
void rl_meta(struct rl_rule *x, uint32_t key, unsigned int reg);
void rl_meta_set(struct rl_rule *x, uint32_t key, unsigned int reg);
void rl_ct(struct rl_rule *x, uint32_t key, unsigned int reg);
void rl_ct_set(struct rl_rule *x, uint32_t key, unsigned int reg);
void rl_payload(struct rl_rule *x, uint32_t base, uint32_t off, uint32_t len,
		unsigned int reg);
void rl_imm(struct rl_rule *x, unsigned int reg, const void *data,
	    uint32_t len);
void rl_imm_u32(struct rl_rule *x, unsigned int reg, uint32_t value);
void rl_fib_type(struct rl_rule *x, unsigned int reg);

/* reg = (reg & mask) ^ xor, host order */
void rl_bitwise(struct rl_rule *x, unsigned int reg, uint32_t mask,
		uint32_t xor_with);
/* the same on bytes as they are in the register */
void rl_bitwise_raw(struct rl_rule *x, unsigned int reg, const void *mask,
		    uint32_t len);

/* Tests; a rule whose test fails ends there. */
void rl_cmp(struct rl_rule *x, uint32_t op, unsigned int reg,
	    const void *data, uint32_t len);
void rl_cmp_u8(struct rl_rule *x, uint32_t op, unsigned int reg, uint8_t v);
void rl_cmp_u32(struct rl_rule *x, uint32_t op, unsigned int reg, uint32_t v);
void rl_cmp_be16(struct rl_rule *x, uint32_t op, unsigned int reg, uint16_t v);
void rl_lookup(struct rl_rule *x, const char *set, unsigned int reg,
	       bool inverted);
/* map: result into @dreg; verdict map: rl_lookup_verdict() */
void rl_lookup_map(struct rl_rule *x, const char *set, unsigned int reg,
		   unsigned int dreg);
void rl_lookup_verdict(struct rl_rule *x, const char *set, unsigned int reg);

/* Statements. */
void rl_dynset_counter(struct rl_rule *x, const char *set, unsigned int reg,
		       bool update);
void rl_dynset_limit(struct rl_rule *x, const char *set, unsigned int reg,
		     uint64_t rate, uint64_t unit_s, uint32_t burst,
		     bool over);
void rl_dynset_connlimit(struct rl_rule *x, const char *set, unsigned int reg,
			 uint32_t count);
void rl_dynset_add(struct rl_rule *x, const char *set, unsigned int reg,
		   uint64_t timeout_ms);
void rl_counter(struct rl_rule *x);
void rl_counter_named(struct rl_rule *x, const char *name);
void rl_log(struct rl_rule *x, uint16_t group, uint32_t snaplen);
void rl_notrack(struct rl_rule *x);
void rl_tproxy(struct rl_rule *x, unsigned int port_reg);
void rl_reject(struct rl_rule *x, uint32_t type, uint8_t code);
void rl_masquerade(struct rl_rule *x);
/* dnat/snat to the address in reg; port in port_reg unless it is negative */
void rl_nat(struct rl_rule *x, uint32_t type, unsigned int reg, int port_reg);
void rl_verdict(struct rl_rule *x, int verdict, const char *chain);

/* ---- chains, sets, elements ---------------------------------------------------- */

#define RL_NO_HOOK UINT32_MAX

/* type: "filter" or "nat"; policy: 0 drop, 1 accept */
struct nftnl_chain *rl_chain(const char *table, const char *name,
			     const char *type, uint32_t hook, int32_t prio,
			     uint32_t policy);

struct rl_set_spec {
	const char *table, *name;
	uint32_t key_type;    /* data type number of nft, for its output */
	uint32_t key_len;
	uint32_t flags;	      /* NFT_SET_* */
	uint32_t size;	      /* 0: none declared */
	uint32_t gc_ms;	      /* 0: default */
	uint64_t timeout_ms;  /* default of the set, 0: none */
	uint32_t data_type, data_len; /* of a map; NFT_DATA_VERDICT, 0 */
	uint8_t field[4];     /* lengths of the fields of an interval key */
	uint8_t nfields;
};

/* nft's data type numbers, as it prints them */
enum rl_type {
	RL_T_IPADDR = 7,
	RL_T_ETHERADDR = 9,
	RL_T_PROTO = 12,
	RL_T_SERVICE = 13,
	RL_T_MARK = 19,
	RL_T_IFINDEX = 20,
	RL_T_IFNAME = 41,
};
#define RL_T2(a, b) ((uint32_t)(a) << 6 | (uint32_t)(b))
#define RL_T3(a, b, c) (RL_T2(a, b) << 6 | (uint32_t)(c))
#define RL_T4(a, b, c, d) (RL_T3(a, b, c) << 6 | (uint32_t)(d))
#define RL_T5(a, b, c, d, e) (RL_T4(a, b, c, d) << 6 | (uint32_t)(e))

struct nftnl_set *rl_set(const struct rl_set_spec *spec, uint32_t id);

/* A set that only carries elements of an existing one. */
struct nftnl_set *rl_elems(const char *table, const char *name);

void rl_elems_free(struct nftnl_set *s);

/* Add an element; false (out of memory) leaves the caller to spoil. */
bool rl_elem(struct nftnl_set *s, const void *key, uint32_t len,
	     uint64_t timeout_ms);
bool rl_elem_range(struct nftnl_set *s, const void *lo, const void *hi,
		   uint32_t len);
bool rl_elem_end(struct nftnl_set *s, const void *key, uint32_t len);
bool rl_elem_data(struct nftnl_set *s, const void *key, uint32_t len,
		  const void *data, uint32_t dlen);
bool rl_elem_goto(struct nftnl_set *s, const void *key, uint32_t len,
		  const char *chain);
struct nftnl_obj *rl_counter_obj(const char *table, const char *name);

/* What an element in an answer holds. */
struct rl_elem_info {
	const uint8_t *key;
	uint32_t key_len;
	uint64_t timeout_ms, expires_ms; /* 0: none */
	uint64_t bytes, packets;	 /* of its counter */
};
int rl_elem_parse(const void *nlh,
		  int (*cb)(const struct rl_elem_info *e, void *arg),
		  void *arg);

#endif
