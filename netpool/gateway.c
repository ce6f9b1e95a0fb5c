// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: gateways (see gateway.h)
 *
 * Sockets are opened by entering the namespace for the moment of socket(2):
 * a socket keeps the namespace it was created in.
 */
#include "netpool/gateway.h"
#include "netpool/base/plan.h"
#include "netpool/base/util.h"
#include "netpool/link.h"
#include "netpool/netns.h"
#include "netpool/sysctl.h"

#include <errno.h>
#include <linux/ip.h>
#include <linux/rtnetlink.h>
#include <stdio.h>
#include <string.h>

#define DNS_RULE_PRIORITY 100 /* after `local` (0), before `main` (32766) */
#define LO_IFINDEX 1
#define ICMP_PER_SLOT 64 /* errors a second the kernel may send a slot */

void np_gateway_init(struct np_gateway *gw, uint32_t number)
{
	*gw = (struct np_gateway){.number = number, .ns = -1, .monitor = -1};
}

void np_gateway_close(struct np_gateway *gw)
{
	np_rtnl_close(gw->rtnl);
	np_ct_close(gw->ct);
	gw->rtnl = NULL;
	gw->ct = NULL;
	eg_close_p(&gw->monitor);
	eg_close_p(&gw->ns);
}

struct setting {
	const char *key;
	uint32_t value;
	bool optional; /* not in every kernel or configuration */
};

/*
 * IPv4 settings of a new namespace are inherited from the initial one, so
 * each is set. ip_forward comes first: changing it resets others.
 */
static const struct setting settings[] = {
	{"ipv6/conf/all/disable_ipv6", 1, true},
	{"ipv6/conf/default/disable_ipv6", 1, true},
	{"ipv4/ip_forward", 1, false},
	/* A second opinion behind the table's own source check. */
	{"ipv4/conf/all/rp_filter", 1, false},
	{"ipv4/conf/default/rp_filter", 1, false},
	{"ipv4/conf/all/accept_redirects", 0, false},
	{"ipv4/conf/default/accept_redirects", 0, false},
	{"ipv4/conf/all/send_redirects", 0, false},
	{"ipv4/conf/default/send_redirects", 0, false},
	{"ipv4/conf/all/accept_source_route", 0, false},
	{"ipv4/conf/default/accept_source_route", 0, false},
	{"ipv4/conf/all/route_localnet", 0, false},
	{"ipv4/conf/default/route_localnet", 0, false},
	{"ipv4/conf/all/accept_local", 0, false},
	{"ipv4/conf/default/accept_local", 0, false},
	{"ipv4/conf/all/proxy_arp", 0, false},
	{"ipv4/conf/default/proxy_arp", 0, false},
	{"ipv4/conf/all/arp_ignore", 1, false},
	{"ipv4/conf/default/arp_ignore", 1, false},
	{"ipv4/conf/all/arp_filter", 1, false},
	{"ipv4/conf/default/arp_filter", 1, false},
	/* Guests must not be able to fill the host's kernel log. */
	{"ipv4/conf/all/log_martians", 0, false},
	{"ipv4/conf/default/log_martians", 0, false},
	/* Rejects are limited per slot by the table. */
	{"ipv4/icmp_ratelimit", 0, false},
	/* Slots' fragments are dropped before reassembly; what is left is
	 * the world's answers. Low first: it may not exceed high. */
	{"ipv4/ipfrag_low_thresh", 768 << 10, false},
	{"ipv4/ipfrag_high_thresh", 1 << 20, false},
	/* A flow's state begins with its SYN (revocation relies on it). */
	{"netfilter/nf_conntrack_tcp_loose", 0, true},
	{"netfilter/nf_conntrack_tcp_timeout_established", 3600, true},
	{"netfilter/nf_conntrack_log_invalid", 0, true},
};

static int set_one(const struct setting *s, struct eg_err *err)
{
	struct eg_err why = {0};
	int r = np_sysctl_set(s->key, s->value, &why);

	if (!r || (r == -ENOENT && s->optional))
		return 0;
	return eg_err_set(err, r, "%s", why.text);
}

struct inside {
	const struct np_world *w;
	struct np_gateway *gw;
};

/* Inside the gateway: open what the process keeps there, assert settings. */
static int configure(void *arg, struct eg_err *err)
{
	const struct inside *in = arg;
	struct np_gateway *gw = in->gw;
	uint32_t icmp = ICMP_PER_SLOT * eg_plan_count(in->w->conf, gw->number);
	struct setting rate[] = {
		/* Of the namespace since 6.13, of the host before. */
		{"ipv4/icmp_msgs_per_sec", icmp, true},
		{"ipv4/icmp_msgs_burst", icmp, true},
	};
	int r = 0;

	/* Loads connection tracking, which the last settings belong to. */
	if (!gw->ct)
		r = np_ct_open(&gw->ct, err);
	for (size_t i = 0; !r && i < EG_ARRAY_SIZE(settings); i++)
		r = set_one(&settings[i], err);
	for (size_t i = 0; !r && i < EG_ARRAY_SIZE(rate); i++)
		r = set_one(&rate[i], err);
	if (!r && !gw->rtnl)
		r = np_rtnl_open(&gw->rtnl, err);
	if (!r && gw->monitor < 0) {
		gw->monitor = np_rtnl_monitor(RTMGRP_LINK, err);
		if (gw->monitor < 0)
			r = gw->monitor;
	}
	return r;
}

/* Packets the table hands to the guard are delivered here: TPROXY. */
static int guard_route(struct np_gateway *gw, struct eg_err *err)
{
	struct np_link_change up = {.up = true};
	struct np_route all = {
		.index = LO_IFINDEX, .table = EG_DNS_TABLE, .local = true};

	np_link_change(gw->rtnl, LO_IFINDEX, &up, "bring lo up", 0);
	np_link_route(gw->rtnl, &all);
	np_link_rule(gw->rtnl, DNS_RULE_PRIORITY, EG_MARK_DNS, EG_MARK_LOW,
		     EG_DNS_TABLE);
	return np_rtnl_commit(gw->rtnl, err);
}

static int uplink_make(const struct np_world *w, struct np_gateway *gw,
		       struct eg_err *err)
{
	uint8_t mac[EG_MAC_LEN], host_mac[EG_MAC_LEN];
	char name[EG_IFNAME];
	struct np_veth v = {
		.name = EG_UPLINK_IFNAME,
		.peer_name = eg_plan_gw_name(name, gw->number),
		.index = EG_IFINDEX_UPLINK,
		.mac = mac,
		.peer_mac = host_mac,
		.peer_ns = w->home,
		.mtu = gw->mtu,
	};

	eg_plan_mac_link(mac, gw->number, false);
	eg_plan_mac_link(host_mac, gw->number, true);
	np_link_veth(gw->rtnl, &v);
	return np_rtnl_commit(gw->rtnl, err);
}

/* Also of a link that is there: who made it may have died before this. */
static int uplink_addr(const struct np_world *w, struct np_gateway *gw,
		       struct eg_err *err)
{
	np_link_addr(gw->rtnl, EG_IFINDEX_UPLINK,
		     eg_plan_link_gw(w->conf, gw->number), 31);
	return np_rtnl_commit(gw->rtnl, err);
}

/* Settings of the host's end, which come with the link. */
static const struct np_inet_conf host_conf[] = {
	{IPV4_DEVCONF_FORWARDING, 1},	       {IPV4_DEVCONF_RP_FILTER, 1},
	{IPV4_DEVCONF_ACCEPT_REDIRECTS, 0},    {IPV4_DEVCONF_SEND_REDIRECTS, 0},
	{IPV4_DEVCONF_ACCEPT_SOURCE_ROUTE, 0}, {IPV4_DEVCONF_ROUTE_LOCALNET, 0},
	{IPV4_DEVCONF_ACCEPT_LOCAL, 0},	       {IPV4_DEVCONF_PROXY_ARP, 0},
	{IPV4_DEVCONF_ARP_IGNORE, 1},	       {IPV4_DEVCONF_ARPFILTER, 1},
};

static int host_link(const struct np_world *w, uint32_t number,
		     struct np_link *ret, struct eg_err *err)
{
	char name[EG_IFNAME];
	int r = np_link_get(w->rtnl, 0, eg_plan_gw_name(name, number), ret, err);

	return r ? eg_err_wrap(err, "link %s", name) : 0;
}

static int host_end(const struct np_world *w, struct np_gateway *gw,
		    struct eg_err *err)
{
	const struct np_link_change set = {
		.no_ipv6_addr = true,
		.inet = host_conf,
		.ninet = EG_ARRAY_SIZE(host_conf),
	};
	struct eg_err why = {0};
	struct np_link l;
	char key[64];
	int r = host_link(w, gw->number, &l, err);

	if (r)
		return r;
	np_link_change(w->rtnl, l.index, &set, "set up the host's end", 0);
	np_link_addr(w->rtnl, l.index, eg_plan_link_host(w->conf, gw->number),
		     31);
	r = np_rtnl_commit(w->rtnl, err);
	if (r)
		return r;
	(void)snprintf(key, sizeof(key), "ipv6/conf/%s/disable_ipv6", l.name);
	r = np_sysctl_set(key, 1, &why);
	if (r && r != -ENOENT)
		return eg_err_set(err, r, "%s", why.text);
	return 0;
}

/* Delete a link of the gateway's name that an earlier life left behind. */
static int host_leftover(const struct np_world *w, uint32_t number,
			 struct eg_err *err)
{
	struct np_link l;
	struct eg_err why;

	if (host_link(w, number, &l, &why))
		return 0;
	if (l.group != EG_LINK_GROUP || strcmp(l.kind, "veth"))
		return eg_err_set(
			err, -EEXIST,
			"the host has a link %s that is not egressd's; rename it",
			l.name);
	np_link_delete(w->rtnl, l.index);
	return np_rtnl_commit(w->rtnl, err);
}

static int uplink(const struct np_world *w, struct np_gateway *gw,
		  struct eg_err *err)
{
	struct eg_err why = {0};
	struct np_link l;
	int r = 0;

	if (!np_link_get(gw->rtnl, EG_IFINDEX_UPLINK, NULL, &l, &why))
		gw->mtu = l.mtu;
	else
		r = uplink_make(w, gw, err);
	if (r == -EEXIST) {
		r = host_leftover(w, gw->number, err);
		if (!r)
			r = uplink_make(w, gw, err);
	}
	if (!r)
		r = uplink_addr(w, gw, err);
	return r ? r : host_end(w, gw, err);
}

/* The namespace: given, found under its name, or made and named. */
static int find_or_make(const struct np_world *w, struct np_gateway *gw,
			struct eg_err *err)
{
	struct inside in = {w, gw};
	struct eg_err why = {0};
	char name[EG_IFNAME];
	int r = 0;

	(void)eg_plan_gw_name(name, gw->number);
	if (gw->ns < 0) {
		r = np_netns_open(w->conf->netns, name, &why);
		gw->ns = r < 0 ? -1 : r;
		/* A stale pin is no namespace: clear it away. */
		if (r == -EBADF)
			r = np_netns_unname(w->conf->netns, name, &why);
		if (r < 0 && r != -ENOENT)
			return eg_err_set(err, r, "%s", why.text);
	}
	gw->adopted = gw->ns >= 0;
	if (gw->adopted)
		return np_netns_run(w->home, gw->ns, configure, &in, err);
	r = np_netns_make(w->home, configure, &in, &gw->ns, err);
	if (!r)
		r = np_netns_name(w->conf->netns, name, gw->ns, err);
	return r;
}

int np_gateway_open(const struct np_world *w, struct np_gateway *gw,
		    uint32_t mtu, struct eg_err *err)
{
	int r;

	gw->mtu = mtu;
	r = find_or_make(w, gw, err);
	if (!r)
		r = guard_route(gw, err);
	if (!r)
		r = uplink(w, gw, err);
	return r;
}

size_t np_gateway_ranges(const struct eg_conf *conf, uint32_t number,
			 struct eg_prefix ret[32])
{
	uint32_t at = eg_plan_subnet(conf, eg_plan_first(conf, number));
	uint32_t left = 4 * eg_plan_count(conf, number);
	size_t n = 0;

	/* The largest aligned block that fits, again and again. */
	while (left && n < 32) {
		uint8_t bits = 2;

		while (bits < 31 && 2U << bits <= left &&
		       !(at & ((2U << bits) - 1)))
			bits++;
		ret[n].addr = at;
		ret[n].len = (uint8_t)(32 - bits);
		n++;
		at += 1U << bits;
		left -= 1U << bits;
	}
	return n;
}

static int host_up(const struct np_world *w, const struct np_gateway *gw,
		   struct eg_err *err)
{
	const struct np_link_change up = {.up = true};
	struct eg_prefix range[32];
	uint8_t mac[EG_MAC_LEN];
	struct np_link l;
	size_t n = np_gateway_ranges(w->conf, gw->number, range);
	int r = host_link(w, gw->number, &l, err);

	if (r)
		return r;
	eg_plan_mac_link(mac, gw->number, false);
	np_link_change(w->rtnl, l.index, &up, "bring the host's end up", 0);
	np_link_neigh(w->rtnl, l.index, eg_plan_link_gw(w->conf, gw->number),
		      mac);
	for (size_t i = 0; i < n; i++) {
		struct np_route to = {
			.dst = range[i],
			.via = eg_plan_link_gw(w->conf, gw->number),
			.index = l.index,
		};

		np_link_route(w->rtnl, &to);
	}
	return np_rtnl_commit(w->rtnl, err);
}

int np_gateway_up(const struct np_world *w, struct np_gateway *gw,
		  struct eg_err *err)
{
	const struct np_link_change up = {.up = true};
	uint32_t via = eg_plan_link_host(w->conf, gw->number);
	struct np_route out = {.via = via, .index = EG_IFINDEX_UPLINK};
	uint8_t mac[EG_MAC_LEN];
	int r;

	eg_plan_mac_link(mac, gw->number, true);
	np_link_change(gw->rtnl, EG_IFINDEX_UPLINK, &up,
		       "bring the gateway's link up", 0);
	np_link_neigh(gw->rtnl, EG_IFINDEX_UPLINK, via, mac);
	np_link_route(gw->rtnl, &out);
	r = np_rtnl_commit(gw->rtnl, err);
	return r ? r : host_up(w, gw, err);
}
