// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: links, addresses, neighbours, routes (see link.h)
 */
#include "netpool/link.h"
#include "netpool/base/fault.h"
#include "netpool/base/plan.h"
#include "netpool/base/util.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fib_rules.h>
#include <linux/if.h>
#include <linux/if_link.h>
#include <linux/if_tun.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>

#include <netlink/attr.h>
#include <netlink/msg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

/* Attribute helpers: a failure spoils the batch, checked once at commit. */
static void put(struct np_rtnl *r, struct nl_msg *m, int type, const void *data,
		size_t len)
{
	if (m && nla_put(m, type, (int)len, data))
		np_rtnl_spoil(r, -EMSGSIZE);
}

static void put_u32(struct np_rtnl *r, struct nl_msg *m, int type, uint32_t v)
{
	put(r, m, type, &v, sizeof(v));
}

static void put_addr(struct np_rtnl *r, struct nl_msg *m, int type, uint32_t addr)
{
	put_u32(r, m, type, htonl(addr));
}

static void put_text(struct np_rtnl *r, struct nl_msg *m, int type, const char *s)
{
	put(r, m, type, s, s ? strlen(s) + 1 : 0);
}

static struct nlattr *nest(struct np_rtnl *r, struct nl_msg *m, int type)
{
	struct nlattr *a = m ? nla_nest_start(m, type) : NULL;

	if (m && !a)
		np_rtnl_spoil(r, -EMSGSIZE);
	return a;
}

static void nest_end(struct nl_msg *m, struct nlattr *a)
{
	if (m && a)
		(void)nla_nest_end(m, a);
}

/* What both ends of a pair have in common. */
static void put_end(struct np_rtnl *r, struct nl_msg *m, const char *name,
		    const uint8_t *mac, uint32_t mtu, uint32_t group)
{
	put_text(r, m, IFLA_IFNAME, name);
	put(r, m, IFLA_ADDRESS, mac, EG_MAC_LEN);
	put_u32(r, m, IFLA_MTU, mtu);
	put_u32(r, m, IFLA_GROUP, group ? group : EG_LINK_GROUP);
	/* The default is one queue of each sort per possible CPU. */
	put_u32(r, m, IFLA_NUM_TX_QUEUES, 1);
	put_u32(r, m, IFLA_NUM_RX_QUEUES, 1);
}

void np_link_veth(struct np_rtnl *r, const struct np_veth *v)
{
	struct ifinfomsg self = {.ifi_index = (int)v->index};
	struct ifinfomsg far = {.ifi_index = (int)v->peer_index};
	struct nlattr *info, *data, *peer;
	struct nl_msg *m;

	m = np_rtnl_add(r, RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, &self,
			sizeof(self), "make a veth pair", 0);
	put_end(r, m, v->name, v->mac, v->mtu, v->group);
	info = nest(r, m, IFLA_LINKINFO);
	put_text(r, m, IFLA_INFO_KIND, "veth");
	data = nest(r, m, IFLA_INFO_DATA);
	peer = nest(r, m, VETH_INFO_PEER);
	if (m && nlmsg_append(m, &far, sizeof(far), NLMSG_ALIGNTO))
		np_rtnl_spoil(r, -EMSGSIZE);
	put_end(r, m, v->peer_name, v->peer_mac, v->mtu, EG_LINK_GROUP);
	put_u32(r, m, IFLA_NET_NS_FD, (uint32_t)v->peer_ns);
	nest_end(m, peer);
	nest_end(m, data);
	nest_end(m, info);
}

/* Without IPv6 in the kernel its settings would be refused. */
static bool have_ipv6(void)
{
	static int have = -1;

	if (have < 0)
		have = !access("/proc/sys/net/ipv6", F_OK);
	return have;
}

static void put_spec(struct np_rtnl *r, struct nl_msg *m,
		     const struct np_link_change *c)
{
	struct nlattr *spec = nest(r, m, IFLA_AF_SPEC), *af, *conf;
	uint8_t none = IN6_ADDR_GEN_MODE_NONE;

	if (c->ninet) {
		af = nest(r, m, AF_INET);
		conf = nest(r, m, IFLA_INET_CONF);
		for (size_t i = 0; i < c->ninet; i++)
			put_u32(r, m, (int)c->inet[i].key, c->inet[i].value);
		nest_end(m, conf);
		nest_end(m, af);
	}
	if (c->no_ipv6_addr && have_ipv6()) {
		af = nest(r, m, AF_INET6);
		put(r, m, IFLA_INET6_ADDR_GEN_MODE, &none, sizeof(none));
		nest_end(m, af);
	}
	nest_end(m, spec);
}

void np_link_change(struct np_rtnl *r, uint32_t index,
		    const struct np_link_change *c, const char *what,
		    int tolerate)
{
	struct ifinfomsg hdr = {.ifi_index = (int)index};
	struct nl_msg *m;

	if (c->up || c->down)
		hdr.ifi_change |= IFF_UP;
	if (c->up)
		hdr.ifi_flags |= IFF_UP;
	if (c->noarp) {
		hdr.ifi_change |= IFF_NOARP;
		hdr.ifi_flags |= IFF_NOARP;
	}
	m = np_rtnl_add(r, RTM_SETLINK, 0, &hdr, sizeof(hdr), what, tolerate);
	if (c->mac)
		put(r, m, IFLA_ADDRESS, c->mac, EG_MAC_LEN);
	if (c->mtu)
		put_u32(r, m, IFLA_MTU, c->mtu);
	if (c->group)
		put_u32(r, m, IFLA_GROUP, c->group);
	if (c->ninet || (c->no_ipv6_addr && have_ipv6()))
		put_spec(r, m, c);
}

static struct nl_msg *addr_msg(struct np_rtnl *r, uint16_t type, uint16_t flags,
			       uint32_t index, uint32_t addr, uint8_t len,
			       const char *what, int tolerate)
{
	struct ifaddrmsg hdr = {
		.ifa_family = AF_INET, .ifa_prefixlen = len, .ifa_index = index};
	struct nl_msg *m =
		np_rtnl_add(r, type, flags, &hdr, sizeof(hdr), what, tolerate);

	put_addr(r, m, IFA_LOCAL, addr);
	put_addr(r, m, IFA_ADDRESS, addr);
	return m;
}

void np_link_addr(struct np_rtnl *r, uint32_t index, uint32_t addr, uint8_t len)
{
	(void)addr_msg(r, RTM_NEWADDR, NLM_F_CREATE | NLM_F_REPLACE, index,
		       addr, len, "give a link its address", 0);
}

void np_link_addr_del(struct np_rtnl *r, uint32_t index, uint32_t addr,
		      uint8_t len)
{
	(void)addr_msg(r, RTM_DELADDR, 0, index, addr, len,
		       "take a link's address away", -EADDRNOTAVAIL);
}

void np_link_neigh(struct np_rtnl *r, uint32_t index, uint32_t addr,
		   const uint8_t mac[EG_MAC_LEN])
{
	struct ndmsg hdr = {.ndm_family = AF_INET,
			    .ndm_ifindex = (int)index,
			    .ndm_state = NUD_PERMANENT};
	struct nl_msg *m =
		np_rtnl_add(r, RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_REPLACE, &hdr,
			    sizeof(hdr), "make a neighbour entry", 0);

	put_addr(r, m, NDA_DST, addr);
	put(r, m, NDA_LLADDR, mac, EG_MAC_LEN);
}

void np_link_route(struct np_rtnl *r, const struct np_route *route)
{
	struct rtmsg hdr = {
		.rtm_family = AF_INET,
		.rtm_dst_len = route->dst.len,
		.rtm_table = RT_TABLE_UNSPEC,
		.rtm_protocol = RTPROT_STATIC,
		.rtm_scope = route->local ? RT_SCOPE_HOST
			     : route->via ? RT_SCOPE_UNIVERSE
					  : RT_SCOPE_LINK,
		.rtm_type = route->local ? RTN_LOCAL : RTN_UNICAST,
		.rtm_flags = route->onlink ? RTNH_F_ONLINK : 0,
	};
	uint16_t flags = route->only ? NLM_F_CREATE | NLM_F_EXCL
				     : NLM_F_CREATE | NLM_F_REPLACE;
	struct nl_msg *m = np_rtnl_add(r, RTM_NEWROUTE, flags, &hdr,
				       sizeof(hdr), "make a route", 0);

	if (route->dst.len)
		put_addr(r, m, RTA_DST, route->dst.addr);
	if (route->via)
		put_addr(r, m, RTA_GATEWAY, route->via);
	put_u32(r, m, RTA_OIF, route->index);
	put_u32(r, m, RTA_TABLE, route->table ? route->table : RT_TABLE_MAIN);
}

void np_link_rule(struct np_rtnl *r, uint32_t priority, uint32_t mark,
		  uint32_t mask, uint32_t table)
{
	struct fib_rule_hdr hdr = {.family = AF_INET, .action = FR_ACT_TO_TBL};
	struct nl_msg *m =
		np_rtnl_add(r, RTM_NEWRULE, NLM_F_CREATE | NLM_F_EXCL, &hdr,
			    sizeof(hdr), "make a routing rule", -EEXIST);

	put_u32(r, m, FRA_PRIORITY, priority);
	put_u32(r, m, FRA_FWMARK, mark);
	put_u32(r, m, FRA_FWMASK, mask);
	put_u32(r, m, FRA_TABLE, table);
}

void np_link_proxy_delay(struct np_rtnl *r, uint32_t index)
{
	struct ndtmsg hdr = {.ndtm_family = AF_INET};
	struct nl_msg *m = np_rtnl_add(r, RTM_SETNEIGHTBL, 0, &hdr, sizeof(hdr),
				       "set the delay of proxied ARP", 0);
	struct nlattr *parms;
	uint64_t zero = 0;

	put_text(r, m, NDTA_NAME, "arp_cache");
	parms = nest(r, m, NDTA_PARMS);
	put_u32(r, m, NDTPA_IFINDEX, index);
	put(r, m, NDTPA_PROXY_DELAY, &zero, sizeof(zero));
	nest_end(m, parms);
}

void np_link_delete(struct np_rtnl *r, uint32_t index)
{
	struct ifinfomsg hdr = {.ifi_index = (int)index};

	(void)np_rtnl_add(r, RTM_DELLINK, 0, &hdr, sizeof(hdr), "delete a link",
			  -ENODEV);
}

static int delete_group(struct np_rtnl *r, const uint32_t *index, size_t n,
			struct eg_err *err)
{
	struct np_link_change scrap = {.group = NP_GROUP_SCRAP};
	struct ifinfomsg hdr = {0};
	struct nl_msg *m;
	int e = 0;

	for (size_t i = 0; i < n && !e; i++) {
		np_link_change(r, index[i], &scrap, "mark a link for deletion",
			       -ENODEV);
		if (!np_rtnl_room(r))
			e = np_rtnl_commit(r, err);
	}
	if (!e)
		e = np_rtnl_commit(r, err);
	if (e)
		return e;
	/* ENODEV: all of them had gone by themselves. */
	m = np_rtnl_add(r, RTM_DELLINK, 0, &hdr, sizeof(hdr),
			"delete a group of links", -ENODEV);
	put_u32(r, m, IFLA_GROUP, NP_GROUP_SCRAP);
	return np_rtnl_commit(r, err);
}

int np_link_delete_many(struct np_rtnl *r, const uint32_t *index, size_t n,
			struct eg_err *err)
{
	int e = 0;

	if (n == 1) {
		np_link_delete(r, index[0]);
		return np_rtnl_commit(r, err);
	}
	for (size_t i = 0; i < n && !e; i += NP_DELETE_MAX)
		e = delete_group(r, index + i,
				 n - i < NP_DELETE_MAX ? n - i : NP_DELETE_MAX,
				 err);
	return e;
}

static uint32_t attr_u32(struct nlattr *a)
{
	return a && nla_len(a) >= (int)sizeof(uint32_t) ? nla_get_u32(a) : 0;
}

static void attr_text(struct nlattr *a, char *dst, size_t cap)
{
	if (a)
		(void)nla_strlcpy(dst, a, cap);
}

static struct nlattr *attr(const struct nlmsghdr *h, size_t hdrlen, int type)
{
	return nlmsg_find_attr((struct nlmsghdr *)(uintptr_t)h, (int)hdrlen,
			       type);
}

bool np_link_parse(const struct nlmsghdr *h, struct np_link *ret)
{
	const struct ifinfomsg *i = NLMSG_DATA(h);
	struct np_link l = {0};
	struct nlattr *a;

	if ((h->nlmsg_type != RTM_NEWLINK && h->nlmsg_type != RTM_DELLINK) ||
	    h->nlmsg_len < NLMSG_LENGTH(sizeof(*i)))
		return false;
	l.index = (uint32_t)i->ifi_index;
	l.flags = i->ifi_flags;
	l.carrier = i->ifi_flags & IFF_LOWER_UP;
	attr_text(attr(h, sizeof(*i), IFLA_IFNAME), l.name, sizeof(l.name));
	l.mtu = attr_u32(attr(h, sizeof(*i), IFLA_MTU));
	l.group = attr_u32(attr(h, sizeof(*i), IFLA_GROUP));
	l.peer = attr_u32(attr(h, sizeof(*i), IFLA_LINK));
	a = attr(h, sizeof(*i), IFLA_ADDRESS);
	if (a && nla_len(a) == EG_MAC_LEN)
		memcpy(l.mac, nla_data(a), EG_MAC_LEN);
	a = attr(h, sizeof(*i), IFLA_LINKINFO);
	if (a)
		attr_text(nla_find(nla_data(a), nla_len(a), IFLA_INFO_KIND),
			  l.kind, sizeof(l.kind));
	*ret = l;
	return true;
}

struct one_link {
	struct np_link link;
	bool found;
};

static void take_link(void *arg, const struct nlmsghdr *h)
{
	struct one_link *o = arg;

	if (h && np_link_parse(h, &o->link))
		o->found = true;
}

int np_link_get(struct np_rtnl *r, uint32_t index, const char *name,
		struct np_link *ret, struct eg_err *err)
{
	struct ifinfomsg hdr = {.ifi_index = (int)index};
	struct one_link o = {0};
	struct nl_msg *m;
	int e;

	m = np_rtnl_add(r, RTM_GETLINK, 0, &hdr, sizeof(hdr), "look up a link",
			0);
	if (!index)
		put_text(r, m, IFLA_IFNAME, name);
	e = np_rtnl_get(r, take_link, &o, err);
	if (e)
		return e;
	if (!o.found)
		return eg_err_set(err, -ENODEV, "the kernel names no link");
	*ret = o.link;
	return 0;
}

struct list {
	void (*cb)(void *arg, const struct np_link *l);
	void *arg;
};

static void list_link(void *arg, const struct nlmsghdr *h)
{
	struct list *list = arg;
	struct np_link l;

	if (!h)
		list->cb(list->arg, NULL);
	else if (np_link_parse(h, &l))
		list->cb(list->arg, &l);
}

int np_link_list(struct np_rtnl *r,
		 void (*cb)(void *arg, const struct np_link *l), void *arg,
		 struct eg_err *err)
{
	struct ifinfomsg hdr = {.ifi_family = AF_UNSPEC};
	struct list list = {cb, arg};

	return np_rtnl_dump(r, RTM_GETLINK, &hdr, sizeof(hdr), list_link, &list,
			    err);
}

struct addrs {
	uint32_t *addr;
	size_t n, max;
	bool more;
};

static void take_addr(void *arg, const struct nlmsghdr *h)
{
	struct addrs *s = arg;
	struct nlattr *a;
	uint32_t v;
	size_t i;

	if (!h) {
		s->n = 0;
		return;
	}
	a = h->nlmsg_type == RTM_NEWADDR
		    ? attr(h, sizeof(struct ifaddrmsg), IFA_LOCAL)
		    : NULL;
	if (!a || nla_len(a) != sizeof(v))
		return;
	v = ntohl(nla_get_u32(a));
	for (i = 0; i < s->n && s->addr[i] < v; i++)
		;
	if (i < s->n && s->addr[i] == v)
		return;
	if (s->n == s->max) {
		s->more = true;
		return;
	}
	memmove(s->addr + i + 1, s->addr + i, (s->n - i) * sizeof(v));
	s->addr[i] = v;
	s->n++;
}

int np_link_addrs(struct np_rtnl *r, uint32_t *ret, size_t max, size_t *ret_n,
		  struct eg_err *err)
{
	struct ifaddrmsg hdr = {.ifa_family = AF_INET};
	struct addrs s = {.addr = ret, .max = max};
	int e = np_rtnl_dump(r, RTM_GETADDR, &hdr, sizeof(hdr), take_addr, &s,
			     err);

	if (e)
		return e;
	*ret_n = s.n;
	if (s.more)
		return eg_err_set(
			err, -E2BIG,
			"the host has more than %zu IPv4 addresses; egressd can deny that many by name",
			max);
	return 0;
}

struct best_route {
	uint32_t index, metric;
	bool found;
};

static void take_default(void *arg, const struct nlmsghdr *h)
{
	const struct rtmsg *rt;
	struct best_route *b = arg;
	uint32_t oif, metric;

	if (!h) {
		b->found = false;
		return;
	}
	rt = NLMSG_DATA(h);
	if (h->nlmsg_type != RTM_NEWROUTE ||
	    h->nlmsg_len < NLMSG_LENGTH(sizeof(*rt)) || rt->rtm_dst_len ||
	    rt->rtm_table != RT_TABLE_MAIN || rt->rtm_type != RTN_UNICAST)
		return;
	oif = attr_u32(attr(h, sizeof(*rt), RTA_OIF));
	metric = attr_u32(attr(h, sizeof(*rt), RTA_PRIORITY));
	if (!oif || (b->found && metric >= b->metric))
		return;
	b->index = oif;
	b->metric = metric;
	b->found = true;
}

int np_link_default_mtu(struct np_rtnl *r, uint32_t *ret, struct eg_err *err)
{
	struct rtmsg hdr = {.rtm_family = AF_INET};
	struct best_route b = {0};
	struct np_link l;
	int e = np_rtnl_dump(r, RTM_GETROUTE, &hdr, sizeof(hdr), take_default,
			     &b, err);

	if (e)
		return e;
	if (!b.found)
		return eg_err_set(err, -ENETUNREACH,
				  "the host has no default route");
	e = np_link_get(r, b.index, NULL, &l, err);
	if (!e)
		*ret = l.mtu;
	return e;
}

static int tap_setup(int fd, const char *name, uint32_t index, uint32_t owner,
		     uint32_t group, struct eg_err *err)
{
	struct ifreq ifr = {.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR};
	unsigned int want = index;

	(void)snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%s", name);
	if (ioctl(fd, TUNSETIFINDEX, &want) < 0)
		return eg_err_sys(err, -errno, "cannot choose a tap's index");
	if (EG_CALL("make a tap", ioctl(fd, TUNSETIFF, &ifr)) < 0)
		return eg_err_sys(err, -errno, "cannot make the tap %.15s", name);
	/*
	 * A new tap has neither, and then the kernel lets everybody attach;
	 * with both set, who attaches has to be both. -1 is refused.
	 */
	if (owner == UINT32_MAX && group == UINT32_MAX)
		owner = 0;
	if ((owner != UINT32_MAX &&
	     EG_CALL("own a tap",
		     ioctl(fd, TUNSETOWNER, (unsigned long)owner)) < 0) ||
	    (group != UINT32_MAX &&
	     ioctl(fd, TUNSETGROUP, (unsigned long)group) < 0))
		return eg_err_sys(err, -errno,
				  "cannot give the tap %.15s to uid %u gid %u",
				  name, owner, group);
	if (EG_CALL("keep a tap", ioctl(fd, TUNSETPERSIST, 1UL)) < 0)
		return eg_err_sys(err, -errno, "cannot keep the tap %.15s", name);
	return 0;
}

int np_link_tap(const char *name, uint32_t index, uint32_t owner,
		uint32_t group, struct eg_err *err)
{
	EG_CLEANUP_FD int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC);

	if (fd < 0)
		return eg_err_sys(err, -errno, "cannot open /dev/net/tun");
	return tap_setup(fd, name, index, owner, group, err);
}
