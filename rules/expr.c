// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: an assembler for nf_tables rules (see expr.h)
 *
 * libnftnl's typed setters return nothing and so hide a failed allocation;
 * nftnl_expr_set() does not, and is what is used here throughout.
 */
#include "rules/expr.h"

#include <netinet/in.h> /* before linux/netfilter.h */
#include <stdio.h>	/* libnftnl/expr.h needs FILE */

#include <arpa/inet.h>
#include <errno.h>
#include <libnftnl/expr.h>
#include <libnftnl/rule.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <string.h>

static void fail(struct rl_rule *r, int error)
{
	if (!r->error)
		r->error = error;
	rl_fail(r->nl, r->error);
}

void rl_rule(struct rl_rule *r, struct rl_nl *nl, const char *chain)
{
	memset(r, 0, sizeof(*r));
	r->nl = nl;
	r->r = nftnl_rule_alloc();
	if (!r->r || nftnl_rule_set_str(r->r, NFTNL_RULE_TABLE, rl_nl_table(nl)) ||
	    nftnl_rule_set_str(r->r, NFTNL_RULE_CHAIN, chain))
		fail(r, -ENOMEM);
}

void rl_done(struct rl_rule *r)
{
	struct nlmsghdr *nlh = NULL;

	if (!r->error)
		nlh = rl_msg(r->nl, NFT_MSG_NEWRULE,
			     0x400 | 0x800 /* NLM_F_CREATE | NLM_F_APPEND */);
	if (nlh) {
		nftnl_rule_nlmsg_build_payload(nlh, r->r);
		rl_msg_end(r->nl, nlh);
	}
	if (r->r)
		nftnl_rule_free(r->r);
	r->r = NULL;
}

static struct nftnl_expr *begin(struct rl_rule *r, const char *name)
{
	struct nftnl_expr *e;

	if (r->error)
		return NULL;
	if (r->n == RL_EXPRS) {
		fail(r, -EOVERFLOW);
		return NULL;
	}
	e = nftnl_expr_alloc(name);
	if (!e)
		fail(r, -ENOMEM);
	return e;
}

static void put(struct rl_rule *r, struct nftnl_expr *e, uint16_t attr,
		const void *data, uint32_t len)
{
	if (e && nftnl_expr_set(e, attr, data, len))
		fail(r, -ENOMEM);
}

static void put32(struct rl_rule *r, struct nftnl_expr *e, uint16_t attr,
		  uint32_t v)
{
	put(r, e, attr, &v, sizeof(v));
}

static void puts_(struct rl_rule *r, struct nftnl_expr *e, uint16_t attr,
		  const char *text)
{
	put(r, e, attr, text, (uint32_t)strlen(text) + 1);
}

static void end(struct rl_rule *r, struct nftnl_expr *e)
{
	if (!e)
		return;
	if (r->error) {
		nftnl_expr_free(e);
		return;
	}
	nftnl_rule_add_expr(r->r, e);
	r->n++;
}

/* ---- loads --------------------------------------------------------------- */

void rl_meta(struct rl_rule *r, uint32_t key, uint32_t reg)
{
	struct nftnl_expr *e = begin(r, "meta");

	put32(r, e, NFTNL_EXPR_META_KEY, key);
	put32(r, e, NFTNL_EXPR_META_DREG, reg);
	end(r, e);
}

void rl_ct(struct rl_rule *r, uint32_t key, uint32_t reg)
{
	struct nftnl_expr *e = begin(r, "ct");

	put32(r, e, NFTNL_EXPR_CT_KEY, key);
	put32(r, e, NFTNL_EXPR_CT_DREG, reg);
	end(r, e);
}

void rl_payload(struct rl_rule *r, uint32_t base, uint32_t off, uint32_t len,
		uint32_t reg)
{
	struct nftnl_expr *e = begin(r, "payload");

	put32(r, e, NFTNL_EXPR_PAYLOAD_BASE, base);
	put32(r, e, NFTNL_EXPR_PAYLOAD_OFFSET, off);
	put32(r, e, NFTNL_EXPR_PAYLOAD_LEN, len);
	put32(r, e, NFTNL_EXPR_PAYLOAD_DREG, reg);
	end(r, e);
}

void rl_imm(struct rl_rule *r, uint32_t reg, const void *data, uint32_t len)
{
	struct nftnl_expr *e = begin(r, "immediate");

	put32(r, e, NFTNL_EXPR_IMM_DREG, reg);
	put(r, e, NFTNL_EXPR_IMM_DATA, data, len);
	end(r, e);
}

void rl_fib_type(struct rl_rule *r, uint32_t reg)
{
	struct nftnl_expr *e = begin(r, "fib");

	put32(r, e, NFTNL_EXPR_FIB_RESULT, NFT_FIB_RESULT_ADDRTYPE);
	put32(r, e, NFTNL_EXPR_FIB_FLAGS, NFTA_FIB_F_DADDR);
	put32(r, e, NFTNL_EXPR_FIB_DREG, reg);
	end(r, e);
}

static void bitwise(struct rl_rule *r, uint32_t reg, const void *mask,
		    const void *xor_, uint32_t len)
{
	struct nftnl_expr *e = begin(r, "bitwise");

	put32(r, e, NFTNL_EXPR_BITWISE_SREG, reg);
	put32(r, e, NFTNL_EXPR_BITWISE_DREG, reg);
	put32(r, e, NFTNL_EXPR_BITWISE_OP, NFT_BITWISE_BOOL);
	put32(r, e, NFTNL_EXPR_BITWISE_LEN, len);
	put(r, e, NFTNL_EXPR_BITWISE_MASK, mask, len);
	put(r, e, NFTNL_EXPR_BITWISE_XOR, xor_, len);
	end(r, e);
}

void rl_mask(struct rl_rule *r, uint32_t reg, uint32_t mask, uint32_t xor_)
{
	bitwise(r, reg, &mask, &xor_, sizeof(mask));
}

void rl_mask_raw(struct rl_rule *r, uint32_t reg, const void *mask, uint32_t len)
{
	static const uint8_t zero[16];

	bitwise(r, reg, mask, zero, len);
}

/* ---- conditions ---------------------------------------------------------- */

void rl_cmp(struct rl_rule *r, uint32_t op, uint32_t reg, const void *data,
	    uint32_t len)
{
	struct nftnl_expr *e = begin(r, "cmp");

	put32(r, e, NFTNL_EXPR_CMP_SREG, reg);
	put32(r, e, NFTNL_EXPR_CMP_OP, op);
	put(r, e, NFTNL_EXPR_CMP_DATA, data, len);
	end(r, e);
}

void rl_eq32(struct rl_rule *r, uint32_t reg, uint32_t v)
{
	rl_cmp(r, NFT_CMP_EQ, reg, &v, sizeof(v));
}

void rl_ne32(struct rl_rule *r, uint32_t reg, uint32_t v)
{
	rl_cmp(r, NFT_CMP_NEQ, reg, &v, sizeof(v));
}

void rl_eq8(struct rl_rule *r, uint32_t reg, uint8_t v)
{
	rl_cmp(r, NFT_CMP_EQ, reg, &v, sizeof(v));
}

void rl_ne8(struct rl_rule *r, uint32_t reg, uint8_t v)
{
	rl_cmp(r, NFT_CMP_NEQ, reg, &v, sizeof(v));
}

void rl_eq16be(struct rl_rule *r, uint32_t reg, uint16_t v)
{
	uint16_t be = htons(v);

	rl_cmp(r, NFT_CMP_EQ, reg, &be, sizeof(be));
}

/* Big-endian addresses lo <= reg <= hi, as nft prints a range. */
void rl_between(struct rl_rule *r, uint32_t reg, uint32_t lo, uint32_t hi)
{
	uint32_t l = htonl(lo), h = htonl(hi);

	rl_cmp(r, NFT_CMP_GTE, reg, &l, sizeof(l));
	rl_cmp(r, NFT_CMP_LTE, reg, &h, sizeof(h));
}

static void lookup(struct rl_rule *r, const char *set, uint32_t reg,
		   const uint32_t *dreg)
{
	struct nftnl_expr *e = begin(r, "lookup");

	put32(r, e, NFTNL_EXPR_LOOKUP_SREG, reg);
	puts_(r, e, NFTNL_EXPR_LOOKUP_SET, set);
	if (dreg)
		put32(r, e, NFTNL_EXPR_LOOKUP_DREG, *dreg);
	end(r, e);
}

void rl_in(struct rl_rule *r, const char *set, uint32_t reg)
{
	lookup(r, set, reg, NULL);
}

void rl_map(struct rl_rule *r, const char *map, uint32_t reg, uint32_t dreg)
{
	lookup(r, map, reg, &dreg);
}

void rl_vmap(struct rl_rule *r, const char *map, uint32_t reg)
{
	static const uint32_t verdict = NFT_REG_VERDICT;

	lookup(r, map, reg, &verdict);
}

void rl_limit(struct rl_rule *r, const struct rl_stateful *limit)
{
	struct nftnl_expr *e = r->error ? NULL : rl_stateful_expr(limit);

	if (!e)
		fail(r, -ENOMEM);
	end(r, e);
}

void rl_dynset(struct rl_rule *r, const char *set, uint32_t reg, bool update,
	       const struct rl_stateful *state)
{
	struct nftnl_expr *e = begin(r, "dynset"), *s = NULL;

	put32(r, e, NFTNL_EXPR_DYNSET_SREG_KEY, reg);
	put32(r, e, NFTNL_EXPR_DYNSET_OP,
	      update ? NFT_DYNSET_OP_UPDATE : NFT_DYNSET_OP_ADD);
	puts_(r, e, NFTNL_EXPR_DYNSET_SET_NAME, set);
	if (e && state) {
		s = rl_stateful_expr(state);
		if (!s)
			fail(r, -ENOMEM);
		else if (nftnl_expr_set(e, NFTNL_EXPR_DYNSET_EXPR, s, 0)) {
			nftnl_expr_free(s);
			fail(r, -ENOMEM);
		}
	}
	end(r, e);
}

/* ---- actions ------------------------------------------------------------- */

void rl_meta_set(struct rl_rule *r, uint32_t key, uint32_t reg)
{
	struct nftnl_expr *e = begin(r, "meta");

	put32(r, e, NFTNL_EXPR_META_KEY, key);
	put32(r, e, NFTNL_EXPR_META_SREG, reg);
	end(r, e);
}

void rl_ct_set(struct rl_rule *r, uint32_t key, uint32_t reg)
{
	struct nftnl_expr *e = begin(r, "ct");

	put32(r, e, NFTNL_EXPR_CT_KEY, key);
	put32(r, e, NFTNL_EXPR_CT_SREG, reg);
	end(r, e);
}

void rl_count(struct rl_rule *r, const char *counter)
{
	struct nftnl_expr *e = begin(r, "objref");

	put32(r, e, NFTNL_EXPR_OBJREF_IMM_TYPE, NFT_OBJECT_COUNTER);
	puts_(r, e, NFTNL_EXPR_OBJREF_IMM_NAME, counter);
	end(r, e);
}

void rl_count_here(struct rl_rule *r)
{
	end(r, begin(r, "counter"));
}

void rl_log(struct rl_rule *r, uint16_t group, uint32_t snaplen)
{
	struct nftnl_expr *e = begin(r, "log");

	put(r, e, NFTNL_EXPR_LOG_GROUP, &group, sizeof(group));
	put32(r, e, NFTNL_EXPR_LOG_SNAPLEN, snaplen);
	end(r, e);
}

void rl_notrack(struct rl_rule *r)
{
	end(r, begin(r, "notrack"));
}

void rl_tproxy(struct rl_rule *r, uint16_t port)
{
	uint16_t be = htons(port);
	struct nftnl_expr *e;

	rl_imm(r, R1, &be, sizeof(be));
	e = begin(r, "tproxy");
	put32(r, e, NFTNL_EXPR_TPROXY_FAMILY, NFPROTO_IPV4);
	put32(r, e, NFTNL_EXPR_TPROXY_REG_PORT, R1);
	end(r, e);
}

static void reject(struct rl_rule *r, uint32_t type, uint8_t code)
{
	struct nftnl_expr *e = begin(r, "reject");

	put32(r, e, NFTNL_EXPR_REJECT_TYPE, type);
	put(r, e, NFTNL_EXPR_REJECT_CODE, &code, sizeof(code));
	end(r, e);
}

void rl_reject_tcp(struct rl_rule *r)
{
	reject(r, NFT_REJECT_TCP_RST, 0);
}

void rl_reject_icmp(struct rl_rule *r, uint8_t code)
{
	reject(r, NFT_REJECT_ICMP_UNREACH, code);
}

void rl_nat(struct rl_rule *r, bool dnat, uint32_t addr)
{
	uint32_t be = htonl(addr);
	struct nftnl_expr *e;

	rl_imm(r, R1, &be, sizeof(be));
	e = begin(r, "nat");
	put32(r, e, NFTNL_EXPR_NAT_TYPE, dnat ? NFT_NAT_DNAT : NFT_NAT_SNAT);
	put32(r, e, NFTNL_EXPR_NAT_FAMILY, NFPROTO_IPV4);
	put32(r, e, NFTNL_EXPR_NAT_REG_ADDR_MIN, R1);
	end(r, e);
}

void rl_masquerade(struct rl_rule *r)
{
	end(r, begin(r, "masq"));
}

static void verdict(struct rl_rule *r, int code, const char *chain)
{
	struct nftnl_expr *e = begin(r, "immediate");

	put32(r, e, NFTNL_EXPR_IMM_DREG, NFT_REG_VERDICT);
	put32(r, e, NFTNL_EXPR_IMM_VERDICT, (uint32_t)code);
	if (chain)
		puts_(r, e, NFTNL_EXPR_IMM_CHAIN, chain);
	end(r, e);
}

void rl_accept(struct rl_rule *r)
{
	verdict(r, NF_ACCEPT, NULL);
}

void rl_drop(struct rl_rule *r)
{
	verdict(r, NF_DROP, NULL);
}

void rl_goto(struct rl_rule *r, const char *chain)
{
	verdict(r, NFT_GOTO, chain);
}

void rl_jump(struct rl_rule *r, const char *chain)
{
	verdict(r, NFT_JUMP, chain);
}
