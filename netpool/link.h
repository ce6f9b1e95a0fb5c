/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: links, addresses, neighbours, routes and rules as messages.
 *
 * The np_link_* builders append to the socket's batch (rtnl.h); nothing
 * happens before np_rtnl_commit(). Links are born in their final namespace
 * under their final name, index, address and group: moving or renaming one
 * costs an RCU grace period each.
 */
#ifndef NP_LINK_H
#define NP_LINK_H

#include "netpool/base/addr.h"
#include "netpool/base/proto.h"
#include "netpool/rtnl.h"

#include <stdbool.h>

/* Interface group links wait in for one common RTM_DELLINK. */
#define NP_GROUP_SCRAP 0xe6e
/* Links per group deletion: it holds rtnl about 0.3 ms for each. */
#define NP_DELETE_MAX 256

struct np_link {
	uint32_t index, flags, mtu, group;
	uint32_t peer; /* index of a pair's other end, in its namespace */
	bool carrier;
	char name[EG_IFNAME];
	char kind[16];
	uint8_t mac[EG_MAC_LEN];
};

struct np_veth {
	const char *name, *peer_name;
	/* 0: the kernel's choice; it ignores peer_index without index. */
	uint32_t index, peer_index;
	const uint8_t *mac, *peer_mac;
	int peer_ns; /* the peer is born there */
	uint32_t mtu;
	uint32_t group; /* of this end, 0: EG_LINK_GROUP, which the peer's is */
};

/* np_link_veth() - both ends, one queue each, down. */
void np_link_veth(struct np_rtnl *r, const struct np_veth *v);

/* IPv4 device settings by netlink; an unset one is left alone. */
struct np_inet_conf {
	uint32_t key; /* IPV4_DEVCONF_* */
	uint32_t value;
};

struct np_link_change {
	bool up, down, noarp;
	bool no_ipv6_addr; /* addr_gen_mode none */
	uint32_t mtu, group;
	const uint8_t *mac;
	const struct np_inet_conf *inet;
	size_t ninet;
};

/*
 * np_link_change() - the kernel takes flags before IPv4 and IPv6 settings:
 * what must be in place before a link is up goes into a message before.
 */
void np_link_change(struct np_rtnl *r, uint32_t index,
		    const struct np_link_change *c, const char *what,
		    int tolerate);

void np_link_addr(struct np_rtnl *r, uint32_t index, uint32_t addr, uint8_t len);
/* np_link_addr_del() - an address that is not there is success. */
void np_link_addr_del(struct np_rtnl *r, uint32_t index, uint32_t addr,
		      uint8_t len);
/* np_link_neigh() - permanent: no ARP, not counted by the neighbour table. */
void np_link_neigh(struct np_rtnl *r, uint32_t index, uint32_t addr,
		   const uint8_t mac[EG_MAC_LEN]);

struct np_route {
	struct eg_prefix dst;
	uint32_t via;	/* 0: on the link */
	uint32_t index; /* of the link */
	uint32_t table; /* 0: main */
	bool local;	/* RTN_LOCAL, for TPROXY */
	bool onlink;	/* the gateway needs no route of its own */
	bool only;	/* -EEXIST when there is one to that destination */
};

/* np_link_route() - replaces a route of the same destination unless `only`. */
void np_link_route(struct np_rtnl *r, const struct np_route *route);

/* np_link_rule() - packets with @mark under @mask look into @table. */
void np_link_rule(struct np_rtnl *r, uint32_t priority, uint32_t mark,
		  uint32_t mask, uint32_t table);

/* np_link_proxy_delay() - answer proxied ARP at once on that link. */
void np_link_proxy_delay(struct np_rtnl *r, uint32_t index);

/* np_link_delete() - a link that is not there is success. */
void np_link_delete(struct np_rtnl *r, uint32_t index);

/**
 * np_link_delete_many() - delete links in groups of NP_DELETE_MAX
 *
 * Commits by itself; the batch must be empty. Missing links are success.
 */
int np_link_delete_many(struct np_rtnl *r, const uint32_t *index, size_t n,
			struct eg_err *err);

/* np_link_get() - by @index, or by @name when @index is 0; -ENODEV. */
int np_link_get(struct np_rtnl *r, uint32_t index, const char *name,
		struct np_link *ret, struct eg_err *err);

/* np_link_parse() - an RTM_NEWLINK or RTM_DELLINK message; false: neither. */
bool np_link_parse(const struct nlmsghdr *h, struct np_link *ret);

/* np_link_list() - all links; @cb gets NULL when the list starts over. */
int np_link_list(struct np_rtnl *r,
		 void (*cb)(void *arg, const struct np_link *l), void *arg,
		 struct eg_err *err);

/**
 * np_link_addrs() - IPv4 addresses of the namespace, sorted, no doubles
 *
 * Return: 0; -E2BIG when there are more than @max.
 */
int np_link_addrs(struct np_rtnl *r, uint32_t *ret, size_t max, size_t *ret_n,
		  struct eg_err *err);

/**
 * np_link_default_mtu() - MTU of the link the main default route leaves by
 *
 * Return: 0; -ENETUNREACH when there is no default route.
 */
int np_link_default_mtu(struct np_rtnl *r, uint32_t *ret, struct eg_err *err);

/**
 * np_link_tap() - a persistent tap in the namespace the process is in
 * @owner, @group:	who may attach: with both set, who is both; UINT32_MAX
 *			for one: it does not count; for both: nobody but root
 *
 * One that is there under this name is taken. Return: 0, -EBUSY when
 * somebody has it open.
 */
int np_link_tap(const char *name, uint32_t index, uint32_t owner,
		uint32_t group, struct eg_err *err);

#endif
