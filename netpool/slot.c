// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: a slot's namespace and link (see slot.h)
 */
#include "netpool/slot.h"
#include "netpool/base/plan.h"
#include "netpool/base/util.h"
#include "netpool/link.h"
#include "netpool/netns.h"

#include <errno.h>
#include <linux/ip.h>
#include <linux/rtnetlink.h>
#include <stdio.h>
#include <string.h>

#define LO_IFINDEX 1
#define SLOT_PREFIX_LEN 30

const uint8_t np_tap_mac[EG_MAC_LEN] = {0x06, 0x00, 0xac, 0x10, 0x00, 0x01};

/*
 * A new namespace inherits its IPv4 settings from the initial one; what a
 * sandbox sees must not depend on the host. By netlink: writing /proc/sys in
 * thousands of namespaces is quadratic.
 */
static const struct np_inet_conf eth0_conf[] = {
	{IPV4_DEVCONF_FORWARDING, 0},	       {IPV4_DEVCONF_RP_FILTER, 0},
	{IPV4_DEVCONF_ACCEPT_REDIRECTS, 0},    {IPV4_DEVCONF_SEND_REDIRECTS, 0},
	{IPV4_DEVCONF_ACCEPT_SOURCE_ROUTE, 0}, {IPV4_DEVCONF_ROUTE_LOCALNET, 0},
	{IPV4_DEVCONF_PROXY_ARP, 0},	       {IPV4_DEVCONF_ARP_IGNORE, 0},
};

struct making {
	const struct np_world *w;
	const struct np_gateway *gw;
	uint32_t slot;
};

static void add_pair(struct np_rtnl *r, const struct making *m)
{
	uint8_t mac[EG_MAC_LEN], gw_mac[EG_MAC_LEN];
	char name[EG_IFNAME];
	struct np_veth v = {
		.name = EG_SLOT_IFNAME,
		.peer_name = eg_plan_ifname(name, m->slot),
		.index = EG_IFINDEX_ETH0,
		.peer_index = eg_plan_ifindex(m->w->conf, m->slot),
		.mac = mac,
		.peer_mac = gw_mac,
		.peer_ns = m->gw->ns,
		.mtu = m->gw->mtu,
	};

	eg_plan_mac_slot(mac, m->slot);
	eg_plan_mac_gw(gw_mac, m->slot);
	np_link_veth(r, &v);
}

/* The sandbox end, whoever's namespace it lies in; all but the default route */
static void add_sandbox_end(struct np_rtnl *r, const struct making *m,
			    uint32_t index)
{
	static const struct np_link_change quiet = {
		.no_ipv6_addr = true,
		.inet = eth0_conf,
		.ninet = EG_ARRAY_SIZE(eth0_conf),
	};
	static const struct np_link_change up = {.up = true};
	const struct eg_conf *c = m->w->conf;
	uint8_t gw_mac[EG_MAC_LEN];

	np_link_change(r, index, &quiet, "set up the sandbox end", 0);
	np_link_change(r, index, &up, "bring the sandbox end up", 0);
	np_link_addr(r, index, eg_plan_addr(c, m->slot), SLOT_PREFIX_LEN);
	eg_plan_mac_gw(gw_mac, m->slot);
	np_link_neigh(r, index, eg_plan_gw_addr(c, m->slot), gw_mac);
}

/* Inside the new namespace: the pair, and its sandbox end. */
static int make_inside(void *arg, struct eg_err *err)
{
	static const struct np_link_change up = {.up = true};
	const struct making *m = arg;
	struct np_route out = {.via = eg_plan_gw_addr(m->w->conf, m->slot),
			       .index = EG_IFINDEX_ETH0};
	struct np_rtnl *r;
	int e = np_rtnl_open(&r, err);

	if (e)
		return e;
	add_pair(r, m);
	add_sandbox_end(r, m, EG_IFINDEX_ETH0);
	np_link_change(r, LO_IFINDEX, &up, "bring lo up", 0);
	np_link_route(r, &out);
	e = np_rtnl_commit(r, err);
	np_rtnl_close(r);
	return e;
}

/* Inside the gateway: the far end up, and the way to .2. */
static int gateway_end(const struct making *m, struct eg_err *err)
{
	/* No ARP: nothing a slot sends enters the neighbour table. */
	static const struct np_link_change up = {.up = true, .noarp = true};
	const struct eg_conf *c = m->w->conf;
	uint32_t index = eg_plan_ifindex(c, m->slot);
	struct np_route to = {
		.dst = {eg_plan_addr(c, m->slot), 32},
		.index = index,
	};
	struct np_rtnl *r = m->gw->rtnl;
	uint8_t mac[EG_MAC_LEN];

	eg_plan_mac_slot(mac, m->slot);
	np_link_change(r, index, &up, "bring the gateway's end up", 0);
	np_link_neigh(r, index, to.dst.addr, mac);
	np_link_route(r, &to);
	return np_rtnl_commit(r, err);
}

/* Delete what an earlier life of the slot left in the gateway. */
static int leftover(const struct making *m, struct eg_err *err)
{
	struct np_rtnl *r = m->gw->rtnl;
	char name[EG_IFNAME];
	struct np_link l;
	struct eg_err why;

	np_link_delete(r, eg_plan_ifindex(m->w->conf, m->slot));
	/* The name under another index: slots_per_gateway has changed. */
	if (!np_rtnl_commit(r, err) &&
	    !np_link_get(r, 0, eg_plan_ifname(name, m->slot), &l, &why)) {
		np_link_delete(r, l.index);
		return np_rtnl_commit(r, err);
	}
	return 0;
}

int np_slot_make(const struct np_world *w, struct np_gateway *gw, uint32_t slot,
		 int *ret_ns, struct eg_err *err)
{
	struct making m = {w, gw, slot};
	EG_CLEANUP_FD int ns = -1;
	struct eg_err why = {0};
	int r;

	r = np_netns_make(w->home, make_inside, &m, &ns, &why);
	if (r == -EEXIST || r == -EBUSY) { /* name taken, index taken */
		r = leftover(&m, err);
		if (!r)
			r = np_netns_make(w->home, make_inside, &m, &ns, &why);
	}
	if (!r)
		r = gateway_end(&m, &why);
	if (r && ns >= 0) {
		/* Deleting it now beats waiting for the namespace's end. */
		np_link_delete(gw->rtnl, eg_plan_ifindex(w->conf, slot));
		(void)np_rtnl_commit(gw->rtnl, NULL);
	}
	if (r)
		return eg_err_set(err, r, "slot %u: %s", slot, why.text);
	*ret_ns = eg_steal_fd(&ns);
	return 0;
}

/* ---- namespaces of callers ----------------------------------------------- */

struct adopting {
	struct making m;
	const char *ifname;
	uint32_t index; /* of the sandbox end */
	bool taken;	/* there is a link of that name */
	bool ours;	/* there is a link of egressd's, */
	bool refused;	/* the namespace is not as it has to be */
	struct np_link link; /* this one */
};

static void survey_link(void *arg, const struct np_link *l)
{
	struct adopting *a = arg;

	if (!l) { /* the dump starts over */
		a->taken = a->ours = false;
		return;
	}
	if (!strcmp(l->name, a->ifname))
		a->taken = true;
	if (!strcmp(l->kind, "veth") && eg_plan_mac_ours(l->mac)) {
		a->ours = true;
		a->link = *l;
	}
}

/*
 * One namespace, one lease: there is one default route. A link of egressd's
 * tells, whoever made it and whatever this process has forgotten; gateways,
 * slots and the host have one, too.
 */
static int survey_inside(void *arg, struct eg_err *err)
{
	struct adopting *a = arg;
	struct np_rtnl *r;
	int e = np_rtnl_open(&r, err);

	if (e)
		return e;
	e = np_link_list(r, survey_link, a, err);
	np_rtnl_close(r);
	if (e)
		return e;
	if (a->ours)
		return eg_err_set(
			err, -EEXIST,
			"has a link of egressd's already, %s: a namespace has one lease at a time",
			a->link.name);
	if (a->taken)
		return eg_err_set(
			err, -EINVAL,
			"has a link named %s already; another guest.interface is accepted",
			a->ifname);
	return 0;
}

/* By the index the kernel chose: names are the sandbox's to change. */
static int adopt_inside(void *arg, struct eg_err *err)
{
	struct adopting *a = arg;
	struct np_route out = {
		.via = eg_plan_gw_addr(a->m.w->conf, a->m.slot),
		.index = a->index,
		.only = true,
	};
	struct np_rtnl *r;
	int e = np_rtnl_open(&r, err);

	if (e)
		return e;
	add_sandbox_end(r, &a->m, a->index);
	e = np_rtnl_commit(r, err);
	if (!e) {
		np_link_route(r, &out);
		e = np_rtnl_commit(r, err);
		a->refused = e == -EEXIST;
		if (a->refused)
			e = eg_err_set(
				err, -EINVAL,
				"has a default route already; one without is accepted");
	}
	np_rtnl_close(r);
	return e;
}

/* From the gateway, so that its end gets its index and the other any. */
static int adopt_pair(struct adopting *a, int ns, struct eg_err *err)
{
	uint8_t mac[EG_MAC_LEN], gw_mac[EG_MAC_LEN];
	const struct making *m = &a->m;
	uint32_t index = eg_plan_ifindex(m->w->conf, m->slot);
	char name[EG_IFNAME];
	struct np_veth v = {
		.name = eg_plan_ifname(name, m->slot),
		.peer_name = a->ifname,
		.index = index,
		.mac = gw_mac,
		.peer_mac = mac,
		.peer_ns = ns,
		.mtu = m->gw->mtu,
		.group = EG_ADOPT_GROUP,
	};
	struct np_link l = {0};
	int r;

	eg_plan_mac_slot(mac, m->slot);
	eg_plan_mac_gw(gw_mac, m->slot);
	np_link_veth(m->gw->rtnl, &v);
	r = np_rtnl_commit(m->gw->rtnl, err);
	if (r == -EEXIST || r == -EBUSY) { /* as for a slot of our own */
		r = leftover(m, err);
		if (!r) {
			np_link_veth(m->gw->rtnl, &v);
			r = np_rtnl_commit(m->gw->rtnl, err);
		}
	}
	if (!r)
		r = np_link_get(m->gw->rtnl, index, NULL, &l, err);
	if (!r)
		a->index = l.peer;
	return r;
}

int np_slot_adopt(const struct np_world *w, struct np_gateway *gw,
		  uint32_t slot, int ns, const char *ifname, struct eg_err *err)
{
	struct adopting a = {.m = {w, gw, slot}, .ifname = ifname};
	struct eg_err why = {0};
	int r = np_netns_run(w->home, ns, survey_inside, &a, err);

	if (r)
		return r;
	r = adopt_pair(&a, ns, &why);
	if (!r)
		r = np_netns_run(w->home, ns, adopt_inside, &a, &why);
	if (!r)
		r = gateway_end(&a.m, &why);
	if (!r)
		return 0;
	np_link_delete(gw->rtnl, eg_plan_ifindex(w->conf, slot));
	(void)np_rtnl_commit(gw->rtnl, NULL);
	if (a.refused)
		return eg_err_set(err, r, "%s", why.text);
	/* The kernel's EINVAL is not the caller's mistake. */
	return eg_err_set(err, r == -ENOMEM ? r : -EIO, "cannot be wired: %s",
			  why.text);
}

int np_slot_down(const struct np_world *w, struct np_gateway *gw, uint32_t slot,
		 struct eg_err *err)
{
	static const struct np_link_change down = {.down = true};

	np_link_change(gw->rtnl, eg_plan_ifindex(w->conf, slot), &down,
		       "take a slot's link down", -ENODEV);
	return np_rtnl_commit(gw->rtnl, err);
}

/* ---- guests behind a tap ------------------------------------------------- */

struct guest {
	const struct np_world *w;
	const struct eg_guest *g;
	uint32_t slot, mtu;
};

static const struct np_inet_conf forward_conf[] = {
	{IPV4_DEVCONF_FORWARDING, 1},
};

static const struct np_inet_conf tap_conf[] = {
	{IPV4_DEVCONF_FORWARDING, 1},	       {IPV4_DEVCONF_RP_FILTER, 1},
	{IPV4_DEVCONF_ACCEPT_REDIRECTS, 0},    {IPV4_DEVCONF_SEND_REDIRECTS, 0},
	{IPV4_DEVCONF_ACCEPT_SOURCE_ROUTE, 0}, {IPV4_DEVCONF_ROUTE_LOCALNET, 0},
	{IPV4_DEVCONF_ARP_IGNORE, 1},	       {IPV4_DEVCONF_PROXY_ARP, 0},
};

static const struct np_inet_conf proxy_conf[] = {
	{IPV4_DEVCONF_PROXY_ARP, 1},
};

static void add_tap(struct np_rtnl *r, const struct guest *g)
{
	static const struct np_link_change up = {.up = true};
	static const struct np_link_change forward = {
		.inet = forward_conf,
		.ninet = EG_ARRAY_SIZE(forward_conf),
	};
	const struct np_link_change tap = {
		.mac = np_tap_mac,
		.mtu = g->mtu,
		.group = EG_LINK_GROUP,
		.no_ipv6_addr = true,
		.inet = tap_conf,
		.ninet = EG_ARRAY_SIZE(tap_conf),
	};

	np_link_change(r, EG_IFINDEX_ETH0, &forward, "let eth0 forward", 0);
	np_link_change(r, EG_IFINDEX_TAP, &tap, "set up the tap", 0);
	np_link_change(r, EG_IFINDEX_TAP, &up, "bring the tap up", 0);
}

static void add_nat_guest(struct np_rtnl *r, const struct guest *g)
{
	np_link_addr(r, EG_IFINDEX_TAP, g->g->gateway, g->g->addr_len);
	np_link_neigh(r, EG_IFINDEX_TAP, g->g->address, g->g->mac);
}

static void add_routed_guest(struct np_rtnl *r, const struct guest *g)
{
	static const struct np_link_change proxy = {
		.inet = proxy_conf,
		.ninet = EG_ARRAY_SIZE(proxy_conf),
	};
	const struct eg_conf *c = g->w->conf;
	uint32_t addr = eg_plan_addr(c, g->slot);
	uint32_t via = eg_plan_gw_addr(c, g->slot);
	struct np_route to_gw = {.dst = {via, 32}, .index = EG_IFINDEX_ETH0};
	struct np_route out = {
		.via = via, .index = EG_IFINDEX_ETH0, .onlink = true};
	struct np_route to_guest = {.dst = {addr, 32}, .index = EG_IFINDEX_TAP};
	uint8_t gw_mac[EG_MAC_LEN];

	/* With its last address a link loses its routes and neighbours, the
	 * permanent ones, too; and the gateway answers no ARP. */
	np_link_addr_del(r, EG_IFINDEX_ETH0, addr, SLOT_PREFIX_LEN);
	eg_plan_mac_gw(gw_mac, g->slot);
	np_link_neigh(r, EG_IFINDEX_ETH0, via, gw_mac);
	np_link_route(r, &to_gw);
	np_link_route(r, &out);
	np_link_change(r, EG_IFINDEX_TAP, &proxy, "proxy ARP on the tap", 0);
	np_link_proxy_delay(r, EG_IFINDEX_TAP);
	np_link_route(r, &to_guest);
	np_link_neigh(r, EG_IFINDEX_TAP, addr, g->g->mac);
}

static int guest_inside(void *arg, struct eg_err *err)
{
	const struct guest *g = arg;
	struct np_rtnl *r;
	int e = np_link_tap(g->g->tap, EG_IFINDEX_TAP, g->g->owner_uid,
			    g->g->owner_gid, err);

	if (!e)
		e = np_rtnl_open(&r, err);
	if (e)
		return e;
	add_tap(r, g);
	if (g->g->mode == EG_GUEST_ROUTE)
		add_routed_guest(r, g);
	else
		add_nat_guest(r, g);
	e = np_rtnl_commit(r, err);
	np_rtnl_close(r);
	return e;
}

static int guest_check(const struct eg_guest *g, struct eg_err *err)
{
	struct eg_prefix net = {0, g->addr_len};

	if (g->mode != EG_GUEST_TAP && g->mode != EG_GUEST_ROUTE)
		return eg_err_set(err, -EOPNOTSUPP, "guest mode %u has no tap",
				  g->mode);
	if (!memchr(g->tap, 0, sizeof(g->tap)) || !*g->tap ||
	    strpbrk(g->tap, "/: \t\n%") || !strcmp(g->tap, EG_SLOT_IFNAME) ||
	    !strcmp(g->tap, "lo") || *g->tap == '.')
		return eg_err_set(
			err, -EINVAL,
			"the tap's name must be 1 to 15 characters without '/', ':', '%%' or blanks, and not eth0 or lo");
	if (g->mode == EG_GUEST_ROUTE)
		return 0;
	if (g->addr_len < 1 || g->addr_len > 31)
		return eg_err_set(err, -EINVAL,
				  "the guest's prefix length %u is not in 1..31",
				  g->addr_len);
	net.addr = g->address & eg_prefix_mask(g->addr_len);
	if (g->address == g->gateway || !eg_prefix_has(net, g->gateway))
		return eg_err_set(
			err, -EINVAL,
			"the guest's gateway is not another address of its prefix");
	return 0;
}

int np_slot_guest(const struct np_world *w, uint32_t mtu, uint32_t slot, int ns,
		  const struct eg_guest *guest, struct eg_err *err)
{
	struct guest g = {w, guest, slot, mtu};
	int r = guest_check(guest, err);

	return r ? r : np_netns_run(w->home, ns, guest_inside, &g, err);
}

struct tap_watch {
	int fd;
	bool carrier;
};

static int watch_inside(void *arg, struct eg_err *err)
{
	struct tap_watch *t = arg;
	struct np_link l;
	struct np_rtnl *r;
	int e = np_rtnl_open(&r, err);

	if (e)
		return e;
	/* Subscribe first: no change may fall in between. */
	t->fd = np_rtnl_monitor(RTMGRP_LINK, err);
	e = t->fd < 0 ? t->fd : np_link_get(r, EG_IFINDEX_TAP, NULL, &l, err);
	np_rtnl_close(r);
	if (e)
		eg_close_p(&t->fd);
	else
		t->carrier = l.carrier;
	return e;
}

int np_slot_tap_monitor(const struct np_world *w, int ns, bool *ret_carrier,
			struct eg_err *err)
{
	struct tap_watch t = {.fd = -1};
	int r = np_netns_run(w->home, ns, watch_inside, &t, err);

	if (r)
		return r;
	*ret_carrier = t.carrier;
	return t.fd;
}

bool np_slot_parse(const char *name, uint32_t *ret_slot, uint64_t *ret_generation)
{
	char again[EG_NETNS_NAME];
	unsigned long long gen;
	unsigned int slot;

	if (sscanf(name, "eg-%5u.%20llu", &slot, &gen) != 2 ||
	    slot >= EG_SLOTS_MAX || !gen)
		return false;
	if (strcmp(eg_plan_netns(again, slot, gen), name))
		return false;
	*ret_slot = slot;
	*ret_generation = gen;
	return true;
}
