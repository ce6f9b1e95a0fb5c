/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: the effective configuration as one flat value.
 *
 * The launcher parses egressd.conf once, before any role runs, and hands
 * every role the same read-only sealed memory holding this structure; no
 * role parses configuration. It holds no pointers. The parser and printer
 * are netpool/conf.c.
 */
#ifndef EG_CONF_H
#define EG_CONF_H

#include "netpool/base/addr.h"
#include "netpool/base/name.h"
#include "netpool/base/proto.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EG_CONF_MAGIC 0x65676366U
#define EG_PATH 108		/* as long as a unix socket path may be */
#define EG_CONF_UPSTREAMS 8	/* more resolvers than resolv.conf allows */
#define EG_CONF_PERMITS 256	/* permit_private and permit_host lines */
#define EG_CONF_DENY_ADDRS 1024 /* prefixes of the always-deny file */
#define EG_CONF_DENY_NAMES 256	/* names of the always-deny file */
#define EG_CONF_ADOPT_DIRS 8
#define EG_CONF_ADOPT_UIDS 16

enum eg_netns_names { EG_NETNS_LEASED, EG_NETNS_NONE };

/* What a class of the always-deny file means for packets and answers. */
enum eg_deny_class {
	EG_DENY_METADATA,
	EG_DENY_PRIVATE,
	EG_DENY_RESERVED,
	EG_DENY_CLASS_COUNT,
};

struct eg_conf_upstream {
	uint32_t addr; /* host order */
	uint16_t port;
};

struct eg_conf_permit {
	struct eg_prefix dst;
	uint8_t proto;
	uint16_t lo, hi;
	char tenants[256]; /* comma-separated, empty: everyone */
	uint32_t line;
};

struct eg_conf_deny {
	struct eg_prefix dst;
	uint8_t class; /* enum eg_deny_class */
};

struct eg_conf_deny_name {
	struct eg_name name; /* itself and everything below */
	uint8_t class;
};

struct eg_conf {
	uint32_t magic, size;

	/* [pool] */
	struct eg_prefix prefix;
	uint32_t slots, slots_per_gateway, gateways;
	int32_t prefill;	/* -1 auto, -2 all, else a number */
	uint64_t memory_budget; /* bytes, 0: use the percentage */
	uint32_t memory_budget_pct;
	uint32_t armed;	     /* named slots kept ready */
	uint8_t netns_names; /* enum eg_netns_names */

	/* [uplink] */
	bool masquerade;
	struct eg_prefix link_prefix;
	uint32_t mtu; /* 0: that of the default route's link */

	/* [dns] */
	bool upstream_system;
	uint32_t upstreams;
	struct eg_conf_upstream upstream[EG_CONF_UPSTREAMS];
	uint32_t min_ttl, max_ttl, grace; /* seconds */
	bool deny_refused;		  /* deny_rcode=refused */
	uint32_t dns_rate, dns_burst;	  /* queries per slot and second */

	/* [rules] */
	bool deny_drop;
	char deny_file[EG_PATH]; /* always-deny file; empty: built in */
	uint32_t denies, deny_names, permits_private, permits_host;
	struct eg_conf_deny deny[EG_CONF_DENY_ADDRS]; /* longest first */
	struct eg_conf_deny_name deny_name[EG_CONF_DENY_NAMES];
	struct eg_conf_permit permit_private[EG_CONF_PERMITS];
	struct eg_conf_permit permit_host[EG_CONF_PERMITS];

	/* [audit] */
	char audit_dir[EG_PATH];
	uint32_t snaplen;
	uint64_t max_lease_bytes, max_total_bytes; /* 0: no limit */
	uint32_t keep_records_s, keep_pcap_s;

	/* [lease] */
	uint32_t default_ttl_s, max_ttl_s, tombstone_s;
	uint32_t adopt_dirs;
	char adopt_from[EG_CONF_ADOPT_DIRS][EG_PATH];

	/* [api] */
	char api_socket[EG_PATH], read_socket[EG_PATH];
	uint32_t api_gid, read_gid, admin_gid; /* UINT32_MAX: none */
	uint32_t adopt_uids;
	uint32_t adopt_uid[EG_CONF_ADOPT_UIDS];
	bool require_fence;

	/* [metrics] */
	uint32_t metrics_addr;
	uint16_t metrics_port; /* 0: off */

	/* [roles]: uid of each unprivileged role */
	uint32_t role_uid[EG_ROLE_COUNT], role_gid[EG_ROLE_COUNT];

	/* [paths] */
	char run[EG_PATH], state[EG_PATH], netns[EG_PATH], policies[EG_PATH];
	char file[EG_PATH]; /* where it was read from */

	/* what the host has room for, filled by the launcher (preflight.h) */
	uint32_t slots_cap;	 /* slots that may live; 0: all */
	char slots_cap_why[200]; /* the key, what it is and what is needed */

	/* persistent identity, filled by the launcher from the state dir */
	uint8_t host_id[16], boot_id[16];
};

/**
 * eg_conf_denied() - the always-deny entry an address falls under
 *
 * Return: the longest prefix that holds @addr, NULL when none does.
 */
static inline const struct eg_conf_deny *
eg_conf_denied(const struct eg_conf *conf, uint32_t addr)
{
	for (uint32_t i = 0; i < conf->denies; i++)
		if (eg_prefix_has(conf->deny[i].dst, addr))
			return &conf->deny[i];
	return NULL;
}

#endif
