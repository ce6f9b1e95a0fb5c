// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: the assembler (see expr.h)
 */
#include "rules/expr.h"
#include "netpool/base/util.h"

#include <arpa/inet.h>
#include <errno.h>
#include <libnftnl/chain.h>
#include <libnftnl/expr.h>
#include <libnftnl/object.h>
#include <libnftnl/rule.h>
#include <libnftnl/set.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_nat.h>
#include <linux/netfilter/nf_tables.h>
#include <string.h>

static uint32_t reg32(unsigned int n)
{
	return NFT_REG32_00 + n;
}

void rl_rule_begin(struct rl_rule *x, uint16_t family, const char *table,
		   const char *chain)
{
	x->failed = false;
	x->r = nftnl_rule_alloc();
	if (!x->r) {
		x->failed = true;
		return;
	}
	nftnl_rule_set_u32(x->r, NFTNL_RULE_FAMILY, family);
	if (nftnl_rule_set_str(x->r, NFTNL_RULE_TABLE, table) ||
	    nftnl_rule_set_str(x->r, NFTNL_RULE_CHAIN, chain))
		x->failed = true;
}

struct nftnl_rule *rl_rule_take(struct rl_rule *x)
{
	struct nftnl_rule *r = x->r;

	x->r = NULL;
	if (!x->failed)
		return r;
	if (r)
		nftnl_rule_free(r);
	return NULL;
}

static struct nftnl_expr *expr(struct rl_rule *x, const char *name)
{
	struct nftnl_expr *e = x->failed ? NULL : nftnl_expr_alloc(name);

	if (!e)
		x->failed = true;
	return e;
}

static void put(struct rl_rule *x, struct nftnl_expr *e)
{
	nftnl_rule_add_expr(x->r, e);
}

static void set_str(struct rl_rule *x, struct nftnl_expr *e, uint16_t attr,
		    const char *s)
{
	if (nftnl_expr_set_str(e, attr, s))
		x->failed = true;
}

static void set_data(struct rl_rule *x, struct nftnl_expr *e, uint16_t attr,
		     const void *data, uint32_t len)
{
	if (nftnl_expr_set(e, attr, data, len))
		x->failed = true;
}

/* ---- loads --------------------------------------------------------------------- */

void rl_meta(struct rl_rule *x, uint32_t key, unsigned int reg)
{
	struct nftnl_expr *e = expr(x, "meta");

	if (!e)
		return;
	nftnl_expr_set_u32(e, NFTNL_EXPR_META_KEY, key);
	nftnl_expr_set_u32(e, NFTNL_EXPR_META_DREG, reg32(reg));
	put(x, e);
}

void rl_meta_set(struct rl_rule *x, uint32_t key, unsigned int reg)
{
	struct nftnl_expr *e = expr(x, "meta");

	if (!e)
		return;
	nftnl_expr_set_u32(e, NFTNL_EXPR_META_KEY, key);
	nftnl_expr_set_u32(e, NFTNL_EXPR_META_SREG, reg32(reg));
	put(x, e);
}

void rl_ct(struct rl_rule *x, uint32_t key, unsigned int reg)
{
	struct nftnl_expr *e = expr(x, "ct");

	if (!e)
		return;
	nftnl_expr_set_u32(e, NFTNL_EXPR_CT_KEY, key);
	nftnl_expr_set_u32(e, NFTNL_EXPR_CT_DREG, reg32(reg));
	put(x, e);
}

void rl_ct_set(struct rl_rule *x, uint32_t key, unsigned int reg)
{
	struct nftnl_expr *e = expr(x, "ct");

	if (!e)
		return;
	nftnl_expr_set_u32(e, NFTNL_EXPR_CT_KEY, key);
	nftnl_expr_set_u32(e, NFTNL_EXPR_CT_SREG, reg32(reg));
	put(x, e);
}

void rl_payload(struct rl_rule *x, uint32_t base, uint32_t off, uint32_t len,
		unsigned int reg)
{
	struct nftnl_expr *e = expr(x, "payload");

	if (!e)
		return;
	nftnl_expr_set_u32(e, NFTNL_EXPR_PAYLOAD_BASE, base);
	nftnl_expr_set_u32(e, NFTNL_EXPR_PAYLOAD_OFFSET, off);
	nftnl_expr_set_u32(e, NFTNL_EXPR_PAYLOAD_LEN, len);
	nftnl_expr_set_u32(e, NFTNL_EXPR_PAYLOAD_DREG, reg32(reg));
	put(x, e);
}

void rl_imm(struct rl_rule *x, unsigned int reg, const void *data, uint32_t len)
{
	struct nftnl_expr *e = expr(x, "immediate");

	if (!e)
		return;
	nftnl_expr_set_u32(e, NFTNL_EXPR_IMM_DREG, reg32(reg));
	set_data(x, e, NFTNL_EXPR_IMM_DATA, data, len);
	put(x, e);
}

void rl_imm_u32(struct rl_rule *x, unsigned int reg, uint32_t value)
{
	rl_imm(x, reg, &value, sizeof(value));
}

void rl_fib_type(struct rl_rule *x, unsigned int reg)
{
	struct nftnl_expr *e = expr(x, "fib");

	if (!e)
		return;
	nftnl_expr_set_u32(e, NFTNL_EXPR_FIB_RESULT, NFT_FIB_RESULT_ADDRTYPE);
	nftnl_expr_set_u32(e, NFTNL_EXPR_FIB_FLAGS, NFTA_FIB_F_DADDR);
	nftnl_expr_set_u32(e, NFTNL_EXPR_FIB_DREG, reg32(reg));
	put(x, e);
}

static void bitwise(struct rl_rule *x, unsigned int reg, const void *mask,
		    const void *xor_with, uint32_t len)
{
	struct nftnl_expr *e = expr(x, "bitwise");

	if (!e)
		return;
	nftnl_expr_set_u32(e, NFTNL_EXPR_BITWISE_SREG, reg32(reg));
	nftnl_expr_set_u32(e, NFTNL_EXPR_BITWISE_DREG, reg32(reg));
	nftnl_expr_set_u32(e, NFTNL_EXPR_BITWISE_OP, NFT_BITWISE_BOOL);
	nftnl_expr_set_u32(e, NFTNL_EXPR_BITWISE_LEN, len);
	set_data(x, e, NFTNL_EXPR_BITWISE_MASK, mask, len);
	set_data(x, e, NFTNL_EXPR_BITWISE_XOR, xor_with, len);
	put(x, e);
}

void rl_bitwise(struct rl_rule *x, unsigned int reg, uint32_t mask,
		uint32_t xor_with)
{
	bitwise(x, reg, &mask, &xor_with, sizeof(mask));
}

void rl_bitwise_raw(struct rl_rule *x, unsigned int reg, const void *mask,
		    uint32_t len)
{
	static const uint8_t zero[16];

	bitwise(x, reg, mask, zero, len);
}

/* ---- tests ---------------------------------------------------------------------- */

void rl_cmp(struct rl_rule *x, uint32_t op, unsigned int reg, const void *data,
	    uint32_t len)
{
	struct nftnl_expr *e = expr(x, "cmp");

	if (!e)
		return;
	nftnl_expr_set_u32(e, NFTNL_EXPR_CMP_SREG, reg32(reg));
	nftnl_expr_set_u32(e, NFTNL_EXPR_CMP_OP, op);
	set_data(x, e, NFTNL_EXPR_CMP_DATA, data, len);
	put(x, e);
}

void rl_cmp_u8(struct rl_rule *x, uint32_t op, unsigned int reg, uint8_t v)
{
	rl_cmp(x, op, reg, &v, sizeof(v));
}

void rl_cmp_u32(struct rl_rule *x, uint32_t op, unsigned int reg, uint32_t v)
{
	rl_cmp(x, op, reg, &v, sizeof(v));
}

void rl_cmp_be16(struct rl_rule *x, uint32_t op, unsigned int reg, uint16_t v)
{
	uint16_t be = htons(v);

	rl_cmp(x, op, reg, &be, sizeof(be));
}

static struct nftnl_expr *lookup(struct rl_rule *x, const char *set,
				 unsigned int reg)
{
	struct nftnl_expr *e = expr(x, "lookup");

	if (!e)
		return NULL;
	nftnl_expr_set_u32(e, NFTNL_EXPR_LOOKUP_SREG, reg32(reg));
	set_str(x, e, NFTNL_EXPR_LOOKUP_SET, set);
	return e;
}

void rl_lookup(struct rl_rule *x, const char *set, unsigned int reg,
	       bool inverted)
{
	struct nftnl_expr *e = lookup(x, set, reg);

	if (!e)
		return;
	if (inverted)
		nftnl_expr_set_u32(e, NFTNL_EXPR_LOOKUP_FLAGS,
				   NFT_LOOKUP_F_INV);
	put(x, e);
}

void rl_lookup_map(struct rl_rule *x, const char *set, unsigned int reg,
		   unsigned int dreg)
{
	struct nftnl_expr *e = lookup(x, set, reg);

	if (!e)
		return;
	nftnl_expr_set_u32(e, NFTNL_EXPR_LOOKUP_DREG, reg32(dreg));
	put(x, e);
}

void rl_lookup_verdict(struct rl_rule *x, const char *set, unsigned int reg)
{
	struct nftnl_expr *e = lookup(x, set, reg);

	if (!e)
		return;
	nftnl_expr_set_u32(e, NFTNL_EXPR_LOOKUP_DREG, NFT_REG_VERDICT);
	put(x, e);
}

/* ---- statements ------------------------------------------------------------------- */

static struct nftnl_expr *dynset(struct rl_rule *x, const char *set,
				 unsigned int reg, uint32_t op)
{
	struct nftnl_expr *e = expr(x, "dynset");

	if (!e)
		return NULL;
	set_str(x, e, NFTNL_EXPR_DYNSET_SET_NAME, set);
	nftnl_expr_set_u32(e, NFTNL_EXPR_DYNSET_OP, op);
	nftnl_expr_set_u32(e, NFTNL_EXPR_DYNSET_SREG_KEY, reg32(reg));
	return e;
}

static void dynset_stateful(struct rl_rule *x, struct nftnl_expr *d,
			    struct nftnl_expr *inner)
{
	if (d && inner) {
		nftnl_expr_add_expr(d, NFTNL_EXPR_DYNSET_EXPRESSIONS, inner);
		put(x, d);
		return;
	}
	if (d)
		nftnl_expr_free(d);
	if (inner)
		nftnl_expr_free(inner);
	x->failed = true;
}

static struct nftnl_expr *counter_expr(void)
{
	struct nftnl_expr *c = nftnl_expr_alloc("counter");

	if (c) {
		nftnl_expr_set_u64(c, NFTNL_EXPR_CTR_PACKETS, 0);
		nftnl_expr_set_u64(c, NFTNL_EXPR_CTR_BYTES, 0);
	}
	return c;
}

void rl_dynset_counter(struct rl_rule *x, const char *set, unsigned int reg,
		       bool update)
{
	dynset_stateful(x, dynset(x, set, reg, update ? NFT_DYNSET_OP_UPDATE :
							NFT_DYNSET_OP_ADD),
			counter_expr());
}

void rl_dynset_limit(struct rl_rule *x, const char *set, unsigned int reg,
		     uint64_t rate, uint64_t unit_s, uint32_t burst, bool over)
{
	struct nftnl_expr *l = nftnl_expr_alloc("limit");

	if (l) {
		nftnl_expr_set_u64(l, NFTNL_EXPR_LIMIT_RATE, rate);
		nftnl_expr_set_u64(l, NFTNL_EXPR_LIMIT_UNIT, unit_s);
		nftnl_expr_set_u32(l, NFTNL_EXPR_LIMIT_BURST, burst);
		nftnl_expr_set_u32(l, NFTNL_EXPR_LIMIT_TYPE, NFT_LIMIT_PKTS);
		nftnl_expr_set_u32(l, NFTNL_EXPR_LIMIT_FLAGS,
				   over ? NFT_LIMIT_F_INV : 0);
	}
	dynset_stateful(x, dynset(x, set, reg, NFT_DYNSET_OP_UPDATE), l);
}

void rl_dynset_connlimit(struct rl_rule *x, const char *set, unsigned int reg,
			 uint32_t count)
{
	struct nftnl_expr *c = nftnl_expr_alloc("connlimit");

	if (c) {
		nftnl_expr_set_u32(c, NFTNL_EXPR_CONNLIMIT_COUNT, count);
		nftnl_expr_set_u32(c, NFTNL_EXPR_CONNLIMIT_FLAGS,
				   NFT_CONNLIMIT_F_INV);
	}
	dynset_stateful(x, dynset(x, set, reg, NFT_DYNSET_OP_ADD), c);
}

void rl_dynset_add(struct rl_rule *x, const char *set, unsigned int reg,
		   uint64_t timeout_ms)
{
	struct nftnl_expr *d = dynset(x, set, reg, NFT_DYNSET_OP_ADD);

	if (!d)
		return;
	if (timeout_ms)
		nftnl_expr_set_u64(d, NFTNL_EXPR_DYNSET_TIMEOUT, timeout_ms);
	put(x, d);
}

void rl_counter(struct rl_rule *x)
{
	struct nftnl_expr *e = x->failed ? NULL : counter_expr();

	if (!e)
		x->failed = true;
	else
		put(x, e);
}

void rl_counter_named(struct rl_rule *x, const char *name)
{
	struct nftnl_expr *e = expr(x, "objref");

	if (!e)
		return;
	nftnl_expr_set_u32(e, NFTNL_EXPR_OBJREF_IMM_TYPE, NFT_OBJECT_COUNTER);
	set_str(x, e, NFTNL_EXPR_OBJREF_IMM_NAME, name);
	put(x, e);
}

void rl_log(struct rl_rule *x, uint16_t group, uint32_t snaplen)
{
	struct nftnl_expr *e = expr(x, "log");

	if (!e)
		return;
	nftnl_expr_set_u16(e, NFTNL_EXPR_LOG_GROUP, group);
	nftnl_expr_set_u32(e, NFTNL_EXPR_LOG_SNAPLEN, snaplen);
	put(x, e);
}

void rl_notrack(struct rl_rule *x)
{
	struct nftnl_expr *e = expr(x, "notrack");

	if (e)
		put(x, e);
}

void rl_tproxy(struct rl_rule *x, unsigned int port_reg)
{
	struct nftnl_expr *e = expr(x, "tproxy");

	if (!e)
		return;
	nftnl_expr_set_u32(e, NFTNL_EXPR_TPROXY_FAMILY, NFPROTO_IPV4);
	nftnl_expr_set_u32(e, NFTNL_EXPR_TPROXY_REG_PORT, reg32(port_reg));
	put(x, e);
}

void rl_reject(struct rl_rule *x, uint32_t type, uint8_t code)
{
	struct nftnl_expr *e = expr(x, "reject");

	if (!e)
		return;
	nftnl_expr_set_u32(e, NFTNL_EXPR_REJECT_TYPE, type);
	nftnl_expr_set_u8(e, NFTNL_EXPR_REJECT_CODE, code);
	put(x, e);
}

void rl_masquerade(struct rl_rule *x)
{
	struct nftnl_expr *e = expr(x, "masq");

	if (e)
		put(x, e);
}

void rl_nat(struct rl_rule *x, uint32_t type, unsigned int reg, int port_reg)
{
	struct nftnl_expr *e = expr(x, "nat");

	if (!e)
		return;
	nftnl_expr_set_u32(e, NFTNL_EXPR_NAT_TYPE, type);
	nftnl_expr_set_u32(e, NFTNL_EXPR_NAT_FAMILY, NFPROTO_IPV4);
	nftnl_expr_set_u32(e, NFTNL_EXPR_NAT_REG_ADDR_MIN, reg32(reg));
	if (port_reg >= 0)
		nftnl_expr_set_u32(e, NFTNL_EXPR_NAT_REG_PROTO_MIN,
				   reg32((unsigned int)port_reg));
	put(x, e);
}

void rl_verdict(struct rl_rule *x, int verdict, const char *chain)
{
	struct nftnl_expr *e = expr(x, "immediate");

	if (!e)
		return;
	nftnl_expr_set_u32(e, NFTNL_EXPR_IMM_DREG, NFT_REG_VERDICT);
	nftnl_expr_set_u32(e, NFTNL_EXPR_IMM_VERDICT, (uint32_t)verdict);
	if (chain)
		set_str(x, e, NFTNL_EXPR_IMM_CHAIN, chain);
	put(x, e);
}

/* ---- chains and sets ---------------------------------------------------------------- */

struct nftnl_chain *rl_chain(const char *table, const char *name,
			     const char *type, uint32_t hook, int32_t prio,
			     uint32_t policy)
{
	struct nftnl_chain *c = nftnl_chain_alloc();
	int bad;

	if (!c)
		return NULL;
	bad = nftnl_chain_set_str(c, NFTNL_CHAIN_TABLE, table) ||
	      nftnl_chain_set_str(c, NFTNL_CHAIN_NAME, name);
	if (hook != RL_NO_HOOK) {
		bad = bad || nftnl_chain_set_str(c, NFTNL_CHAIN_TYPE, type);
		nftnl_chain_set_u32(c, NFTNL_CHAIN_HOOKNUM, hook);
		nftnl_chain_set_s32(c, NFTNL_CHAIN_PRIO, prio);
		nftnl_chain_set_u32(c, NFTNL_CHAIN_POLICY, policy);
	}
	if (!bad)
		return c;
	nftnl_chain_free(c);
	return NULL;
}

static bool set_names(struct nftnl_set *s, const char *table, const char *name)
{
	return !nftnl_set_set_str(s, NFTNL_SET_TABLE, table) &&
	       !nftnl_set_set_str(s, NFTNL_SET_NAME, name);
}

struct nftnl_set *rl_set(const struct rl_set_spec *spec, uint32_t id)
{
	struct nftnl_set *s = nftnl_set_alloc();
	uint32_t flags = spec->flags;
	bool ok;

	if (!s)
		return NULL;
	ok = set_names(s, spec->table, spec->name);
	if (spec->nfields) {
		flags |= NFT_SET_CONCAT;
		ok = ok && !nftnl_set_set_data(s, NFTNL_SET_DESC_CONCAT,
					       spec->field, spec->nfields);
	}
	nftnl_set_set_u32(s, NFTNL_SET_ID, id);
	nftnl_set_set_u32(s, NFTNL_SET_KEY_TYPE, spec->key_type);
	nftnl_set_set_u32(s, NFTNL_SET_KEY_LEN, spec->key_len);
	if (spec->data_type) {
		flags |= NFT_SET_MAP;
		nftnl_set_set_u32(s, NFTNL_SET_DATA_TYPE, spec->data_type);
		if (spec->data_len)
			nftnl_set_set_u32(s, NFTNL_SET_DATA_LEN,
					  spec->data_len);
	}
	nftnl_set_set_u32(s, NFTNL_SET_FLAGS, flags);
	if (spec->size)
		nftnl_set_set_u32(s, NFTNL_SET_DESC_SIZE, spec->size);
	if (spec->gc_ms)
		nftnl_set_set_u32(s, NFTNL_SET_GC_INTERVAL, spec->gc_ms);
	if (spec->timeout_ms)
		nftnl_set_set_u64(s, NFTNL_SET_TIMEOUT, spec->timeout_ms);
	if (ok)
		return s;
	nftnl_set_free(s);
	return NULL;
}

struct nftnl_set *rl_elems(const char *table, const char *name)
{
	struct nftnl_set *s = nftnl_set_alloc();

	if (s && !set_names(s, table, name)) {
		nftnl_set_free(s);
		return NULL;
	}
	return s;
}

void rl_elems_free(struct nftnl_set *s)
{
	if (s)
		nftnl_set_free(s);
}

static struct nftnl_set_elem *elem_new(const void *key, uint32_t len)
{
	struct nftnl_set_elem *e = nftnl_set_elem_alloc();

	if (e && nftnl_set_elem_set(e, NFTNL_SET_ELEM_KEY, key, len)) {
		nftnl_set_elem_free(e);
		return NULL;
	}
	return e;
}

bool rl_elem(struct nftnl_set *s, const void *key, uint32_t len,
	     uint64_t timeout_ms)
{
	struct nftnl_set_elem *e = s ? elem_new(key, len) : NULL;

	if (!e)
		return false;
	if (timeout_ms)
		nftnl_set_elem_set_u64(e, NFTNL_SET_ELEM_TIMEOUT, timeout_ms);
	nftnl_set_elem_add(s, e);
	return true;
}

bool rl_elem_range(struct nftnl_set *s, const void *lo, const void *hi,
		   uint32_t len)
{
	struct nftnl_set_elem *e = s ? elem_new(lo, len) : NULL;

	if (!e)
		return false;
	if (nftnl_set_elem_set(e, NFTNL_SET_ELEM_KEY_END, hi, len)) {
		nftnl_set_elem_free(e);
		return false;
	}
	nftnl_set_elem_add(s, e);
	return true;
}

bool rl_elem_end(struct nftnl_set *s, const void *key, uint32_t len)
{
	struct nftnl_set_elem *e = s ? elem_new(key, len) : NULL;

	if (!e)
		return false;
	nftnl_set_elem_set_u32(e, NFTNL_SET_ELEM_FLAGS,
			       NFT_SET_ELEM_INTERVAL_END);
	nftnl_set_elem_add(s, e);
	return true;
}

bool rl_elem_data(struct nftnl_set *s, const void *key, uint32_t len,
		  const void *data, uint32_t dlen)
{
	struct nftnl_set_elem *e = s ? elem_new(key, len) : NULL;

	if (!e)
		return false;
	if (nftnl_set_elem_set(e, NFTNL_SET_ELEM_DATA, data, dlen)) {
		nftnl_set_elem_free(e);
		return false;
	}
	nftnl_set_elem_add(s, e);
	return true;
}

bool rl_elem_goto(struct nftnl_set *s, const void *key, uint32_t len,
		  const char *chain)
{
	struct nftnl_set_elem *e = s ? elem_new(key, len) : NULL;

	if (!e)
		return false;
	nftnl_set_elem_set_u32(e, NFTNL_SET_ELEM_VERDICT, (uint32_t)NFT_GOTO);
	if (nftnl_set_elem_set_str(e, NFTNL_SET_ELEM_CHAIN, chain)) {
		nftnl_set_elem_free(e);
		return false;
	}
	nftnl_set_elem_add(s, e);
	return true;
}

struct nftnl_obj *rl_counter_obj(const char *table, const char *name)
{
	struct nftnl_obj *o = nftnl_obj_alloc();

	if (!o)
		return NULL;
	nftnl_obj_set_str(o, NFTNL_OBJ_TABLE, table);
	nftnl_obj_set_str(o, NFTNL_OBJ_NAME, name);
	nftnl_obj_set_u32(o, NFTNL_OBJ_TYPE, NFT_OBJECT_COUNTER);
	nftnl_obj_set_u64(o, NFTNL_OBJ_CTR_PKTS, 0);
	nftnl_obj_set_u64(o, NFTNL_OBJ_CTR_BYTES, 0);
	return o;
}

/* ---- reading elements ------------------------------------------------------------------ */

struct walk {
	int (*cb)(const struct rl_elem_info *e, void *arg);
	void *arg;
};

static int expr_counter(struct nftnl_expr *e, void *arg)
{
	struct rl_elem_info *i = arg;

	if (nftnl_expr_is_set(e, NFTNL_EXPR_CTR_PACKETS) &&
	    !strcmp(nftnl_expr_get_str(e, NFTNL_EXPR_NAME), "counter")) {
		i->packets = nftnl_expr_get_u64(e, NFTNL_EXPR_CTR_PACKETS);
		i->bytes = nftnl_expr_get_u64(e, NFTNL_EXPR_CTR_BYTES);
	}
	return 0;
}

static int walk_elem(struct nftnl_set_elem *e, void *arg)
{
	struct walk *w = arg;
	struct rl_elem_info i = { 0 };

	i.key = nftnl_set_elem_get(e, NFTNL_SET_ELEM_KEY, &i.key_len);
	if (!i.key)
		return 0;
	if (nftnl_set_elem_is_set(e, NFTNL_SET_ELEM_TIMEOUT))
		i.timeout_ms = nftnl_set_elem_get_u64(e, NFTNL_SET_ELEM_TIMEOUT);
	if (nftnl_set_elem_is_set(e, NFTNL_SET_ELEM_EXPIRATION))
		i.expires_ms =
			nftnl_set_elem_get_u64(e, NFTNL_SET_ELEM_EXPIRATION);
	if (nftnl_set_elem_is_set(e, NFTNL_SET_ELEM_EXPR) ||
	    nftnl_set_elem_is_set(e, NFTNL_SET_ELEM_EXPRESSIONS))
		(void)nftnl_set_elem_expr_foreach(e, expr_counter, &i);
	return w->cb(&i, w->arg);
}

int rl_elem_parse(const void *nlh,
		  int (*cb)(const struct rl_elem_info *e, void *arg),
		  void *arg)
{
	struct nftnl_set *s = nftnl_set_alloc();
	struct walk w = { .cb = cb, .arg = arg };
	int r;

	if (!s)
		return -ENOMEM;
	r = nftnl_set_elems_nlmsg_parse(nlh, s) < 0 ? -EBADMSG :
		nftnl_set_elem_foreach(s, walk_elem, &w);
	nftnl_set_free(s);
	return r;
}
