// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: can this kernel do what we need? The real tables, in a scratch
 * namespace; and where that fails, each part alone, to name what is missing.
 */
#include "netpool/base/plan.h"
#include "netpool/base/util.h"
#include "rules/batch.h"
#include "rules/expr.h"
#include "rules/gw.h"
#include "rules/kernel.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <stdio.h>
#include <string.h>

#define IP RL_FAMILY_IP
#define PT "egressd_probe"

static void part_tproxy(struct rl_rule *x)
{
	uint16_t port = htons(53);

	rl_meta(x, NFT_META_L4PROTO, 0);
	rl_cmp_u8(x, NFT_CMP_EQ, 0, 17);
	rl_imm(x, 0, &port, sizeof(port));
	rl_tproxy(x, 0);
}

static void part_log(struct rl_rule *x)
{
	rl_log(x, 1, 64);
}

static void part_reject(struct rl_rule *x)
{
	rl_reject(x, NFT_REJECT_ICMP_UNREACH, 13);
}

static void part_fib(struct rl_rule *x)
{
	rl_fib_type(x, 0);
}

static void part_ct(struct rl_rule *x)
{
	rl_ct(x, NFT_CT_STATE, 0);
}

static void part_notrack(struct rl_rule *x)
{
	rl_notrack(x);
}

static const struct {
	const char *option;
	void (*put)(struct rl_rule *x);
} parts[] = {
	{ "CONFIG_NFT_CT and CONFIG_NF_CONNTRACK", part_ct },
	{ "CONFIG_NFT_LOG and CONFIG_NETFILTER_NETLINK_LOG", part_log },
	{ "CONFIG_NFT_REJECT_INET (reject in prerouting, Linux 5.9)",
	  part_reject },
	{ "CONFIG_NFT_FIB_IPV4", part_fib },
	{ "CONFIG_NFT_CT (notrack)", part_notrack },
	{ "CONFIG_NFT_TPROXY", part_tproxy },
};

static int part_try(struct rl_nft *n, void (*put)(struct rl_rule *x))
{
	struct rl_batch *b = rl_batch_new(n);
	struct eg_err err = { 0 };
	struct rl_rule x;

	if (!b)
		return -ENOMEM;
	rl_batch_table(b, IP, PT, "table");
	rl_batch_chain(b, IP, rl_chain(PT, "pre", "filter",
				       NF_INET_PRE_ROUTING, -300, NF_ACCEPT),
		       "chain");
	rl_rule_begin(&x, IP, PT, "pre");
	put(&x);
	rl_batch_rule(b, IP, rl_rule_take(&x), "rule");
	return rl_batch_commit(b, &err);
}

static int name_missing(struct rl_nft *n, const struct eg_err *why,
			struct eg_err *err)
{
	for (size_t i = 0; i < EG_ARRAY_SIZE(parts); i++) {
		int r = part_try(n, parts[i].put);

		if (r)
			return eg_err_sys(err, r,
					  "this kernel cannot do what egressd needs; %s is missing",
					  parts[i].option);
	}
	return eg_err_set(err, why->code,
			  "this kernel refuses the table of a gateway: %.250s",
			  why->text);
}

int rl_probe(int fd, const struct eg_conf *conf, struct eg_err *err)
{
	struct eg_err why = { 0 };
	struct rl_host *h = NULL;
	struct rl_gw *gw = NULL;
	struct rl_nft *n = NULL;
	int r = rl_gw_open(&gw, conf, 0, dup(fd), &why);

	if (!r)
		r = rl_gw_install(gw, &why);
	if (!r)
		r = rl_host_open(&h, conf, dup(fd), &why);
	if (!r)
		r = rl_host_install(h, &why);
	if (r && !rl_nft_open(&n, dup(fd), &why))
		r = name_missing(n, &why, err);
	else if (r && err)
		*err = why;
	rl_nft_close(n);
	rl_host_close(h);
	rl_gw_close(gw);
	return r;
}
