/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: the plan: everything about a slot is arithmetic on its number.
 *
 * Slot k has the /30 at prefix + 4k; .1 is its gateway and DNS server (an
 * address nobody owns: the gateway's end of the link is unnumbered and the
 * neighbour entry in the slot permanent), .2 the sandbox. Gateway
 * g = k / slots_per_gateway holds the far ends of its slots' links under
 * interface indexes EG_IFINDEX_SLOT + k % slots_per_gateway, so that a rule,
 * a socket or a logged packet identifies the slot without a table. A packet
 * in an old capture names its slot for ever.
 */
#ifndef EG_PLAN_H
#define EG_PLAN_H

#include "netpool/base/conf.h"

#include <stdio.h>

#define EG_IFINDEX_SLOT 1000  /* first slot link of a gateway */
#define EG_IFINDEX_UPLINK 900 /* the gateway's link to the host */
#define EG_IFINDEX_ETH0 20    /* the sandbox end in its namespace: above lo and
			       * the fallback tunnels (tunl0, gre0, sit0 ...)
			       * a host's modules put into every namespace */
#define EG_IFINDEX_TAP 21     /* a lease's tap beside it */
#define EG_NFLOG_GROUP 1      /* in each gateway */
#define EG_NFLOG_GROUP_HOST 4217 /* in the host: rarely taken by others */
#define EG_DNS_TABLE 100      /* routing table of packets for the guard */
#define EG_LINK_GROUP 0xe6d   /* interface group of every link of ours */
#define EG_ADOPT_GROUP 0xe6f  /* ... but gateways' ends of adopted namespaces */
#define EG_SLOT_IFNAME "eth0"
#define EG_UPLINK_IFNAME "up0"
#define EG_TABLE "egressd"    /* nftables table, here and in the host */
#define EG_NETNS_NAME 40
/*
 * From this many slots on the end of a namespace is dear: the kernel looks
 * for each dying one in every living one (unhash_nsid(); 8 ms of its only
 * thread for that at 16,384, measured). Ends are then spread out.
 */
#define EG_MANY_SLOTS 2048
/* Kernel memory of a slot, namespace and veth pair: the upper figure of
 * 300 to 480 kB that were measured. */
#define EG_SLOT_BYTES 480000U

static inline uint32_t eg_plan_gateway(const struct eg_conf *c, uint32_t slot)
{
	return slot / c->slots_per_gateway;
}

static inline uint32_t eg_plan_ifindex(const struct eg_conf *c, uint32_t slot)
{
	return EG_IFINDEX_SLOT + slot % c->slots_per_gateway;
}

/* eg_plan_slot() - slot of a link in a gateway; UINT32_MAX: not a slot's. */
static inline uint32_t eg_plan_slot(const struct eg_conf *c, uint32_t gateway,
				    uint32_t ifindex)
{
	uint32_t slot;

	if (ifindex < EG_IFINDEX_SLOT ||
	    ifindex >= EG_IFINDEX_SLOT + c->slots_per_gateway)
		return UINT32_MAX;
	slot = gateway * c->slots_per_gateway + (ifindex - EG_IFINDEX_SLOT);
	return slot < c->slots ? slot : UINT32_MAX;
}

/* Slots of a gateway: [first, first + count). */
static inline uint32_t eg_plan_first(const struct eg_conf *c, uint32_t gateway)
{
	return gateway * c->slots_per_gateway;
}

static inline uint32_t eg_plan_count(const struct eg_conf *c, uint32_t gateway)
{
	uint32_t left = c->slots - eg_plan_first(c, gateway);

	return left < c->slots_per_gateway ? left : c->slots_per_gateway;
}

static inline uint32_t eg_plan_subnet(const struct eg_conf *c, uint32_t slot)
{
	return c->prefix.addr + 4 * slot;
}

static inline uint32_t eg_plan_gw_addr(const struct eg_conf *c, uint32_t slot)
{
	return eg_plan_subnet(c, slot) + 1;
}

static inline uint32_t eg_plan_addr(const struct eg_conf *c, uint32_t slot)
{
	return eg_plan_subnet(c, slot) + 2;
}

/* The gateway's link to the host is a /31: even end in the gateway. */
static inline uint32_t eg_plan_link_gw(const struct eg_conf *c, uint32_t gw)
{
	return c->link_prefix.addr + 2 * gw;
}

static inline uint32_t eg_plan_link_host(const struct eg_conf *c, uint32_t gw)
{
	return c->link_prefix.addr + 2 * gw + 1;
}

/* Locally administered: 0a:e6 kind number(3) end. */
static inline void eg_plan_mac(uint8_t mac[EG_MAC_LEN], uint8_t kind,
			       uint32_t number, uint8_t end)
{
	mac[0] = 0x0a;
	mac[1] = 0xe6;
	mac[2] = kind;
	mac[3] = (uint8_t)(number >> 8);
	mac[4] = (uint8_t)number;
	mac[5] = end;
}

/* eg_plan_mac_ours() - was it made by the function above? */
static inline bool eg_plan_mac_ours(const uint8_t mac[EG_MAC_LEN])
{
	return mac[0] == 0x0a && mac[1] == 0xe6 && mac[2] <= 1;
}

/* The slot link's end in the gateway (1) and in the sandbox (2). */
static inline void eg_plan_mac_gw(uint8_t mac[EG_MAC_LEN], uint32_t slot)
{
	eg_plan_mac(mac, 0, slot, 1);
}

static inline void eg_plan_mac_slot(uint8_t mac[EG_MAC_LEN], uint32_t slot)
{
	eg_plan_mac(mac, 0, slot, 2);
}

/* The gateway's link: end in the host (1), in the gateway (2). */
static inline void eg_plan_mac_link(uint8_t mac[EG_MAC_LEN], uint32_t gw,
				    bool host_end)
{
	eg_plan_mac(mac, 1, gw, host_end ? 1 : 2);
}

static inline const char *eg_plan_ifname(char buf[EG_IFNAME], uint32_t slot)
{
	(void)snprintf(buf, EG_IFNAME, "eg-%05u", slot % 100000);
	return buf;
}

/* The host's end of a gateway's link, and the gateway's namespace. */
static inline const char *eg_plan_gw_name(char buf[EG_IFNAME], uint32_t gw)
{
	(void)snprintf(buf, EG_IFNAME, "eg-gw-%02u", gw % 1000);
	return buf;
}

/* File name under [paths] netns; unique for ever by its generation. */
static inline const char *eg_plan_netns(char buf[EG_NETNS_NAME], uint32_t slot,
					uint64_t generation)
{
	(void)snprintf(buf, EG_NETNS_NAME, "eg-%05u.%llu", slot,
		       (unsigned long long)generation);
	return buf;
}

#endif
