// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: the sockets that live in a gateway (see gateway.h)
 *
 * They are made here, with privilege, and used without any by dns and audit;
 * everything that needs a capability (transparent addresses, port 53, a
 * buffer beyond the limit, the NFLOG bind) is done before they leave.
 */
#include "netpool/base/plan.h"
#include "netpool/base/proto.h"
#include "netpool/base/util.h"
#include "netpool/gateway.h"
#include "netpool/netns.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <libmnl/libmnl.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_log.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#define NFLOG_RCVBUF (8 << 20)	/* a burst of 8,000 denials of all slots */
#define NFLOG_NLBUF (64 << 10)	/* the kernel takes at most 128 KiB */
#define NFLOG_FLUSH_CS 2	/* hundredths of a second */
#define NFLOG_COPY 65531	/* the whole packet; audit cuts */
#define PACKET_RCVBUF (1 << 20) /* counts matter more than contents */
#define DNS_RCVBUF (4 << 20)	/* while dns restarts queries queue here */
#define DNS_BACKLOG 1024	/* 256 slots; 16 connections each are let in */
#ifndef SO_RCVMARK
#define SO_RCVMARK 75 /* headers before Linux 5.19 */
#endif
#define DNS_PORT 53
#define TRIES 64 /* log messages between us and an answer */

static int fail(struct eg_err *err, const char *what)
{
	return eg_err_sys(err, -errno, "cannot %s", what);
}

/* ---- nfnetlink ----------------------------------------------------------- */

struct open_one {
	int (*open)(const struct open_one *o, struct eg_err *err);
	uint16_t group;
	int fd;
};

static int open_inside(void *arg, struct eg_err *err)
{
	struct open_one *o = arg;

	o->fd = o->open(o, err);
	return o->fd < 0 ? o->fd : 0;
}

static int nfnl_open(const struct open_one *o, struct eg_err *err)
{
	struct sockaddr_nl sa = {.nl_family = AF_NETLINK};
	EG_CLEANUP_FD int fd = -1;

	(void)o;
	fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER);
	if (fd < 0 || bind(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0)
		return fail(err, "open an nfnetlink socket");
	return eg_steal_fd(&fd);
}

int np_nfnetlink(const struct np_world *w, int ns, struct eg_err *err)
{
	struct open_one o = {.open = nfnl_open, .fd = -1};
	int r = np_netns_run(w->home, ns, open_inside, &o, err);

	return r ? r : o.fd;
}

/* ---- NFLOG --------------------------------------------------------------- */

static struct nlmsghdr *log_msg(void *buf, uint16_t group, uint32_t seq)
{
	struct nlmsghdr *h = mnl_nlmsg_put_header(buf);
	struct nfgenmsg *g;

	h->nlmsg_type = NFNL_SUBSYS_ULOG << 8 | NFULNL_MSG_CONFIG;
	h->nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK;
	h->nlmsg_seq = seq;
	g = mnl_nlmsg_put_extra_header(h, sizeof(*g));
	g->nfgen_family = AF_UNSPEC;
	g->version = NFNETLINK_V0;
	g->res_id = htons(group);
	return h;
}

/* Send and await the answer; packets logged meanwhile are passed over. */
static int log_talk(int fd, struct nlmsghdr *h)
{
	_Alignas(struct nlmsghdr) static char buf[NFLOG_NLBUF];

	if (send(fd, h, h->nlmsg_len, 0) < 0)
		return -errno;
	for (int i = 0; i < TRIES; i++) {
		ssize_t n = recv(fd, buf, sizeof(buf), 0);
		struct nlmsghdr *a = (struct nlmsghdr *)buf;

		if (n < 0 && errno != ENOBUFS && errno != EINTR)
			return -errno;
		if (n < (ssize_t)NLMSG_LENGTH(sizeof(struct nlmsgerr)) ||
		    a->nlmsg_type != NLMSG_ERROR || a->nlmsg_seq != h->nlmsg_seq)
			continue;
		return ((struct nlmsgerr *)NLMSG_DATA(a))->error;
	}
	return -ETIMEDOUT;
}

static int log_bind(int fd, uint16_t group)
{
	_Alignas(struct nlmsghdr) char buf[256] = {0};
	struct nfulnl_msg_config_cmd cmd = {.command = NFULNL_CFG_CMD_BIND};
	struct nlmsghdr *h = log_msg(buf, group, 1);

	mnl_attr_put(h, NFULA_CFG_CMD, sizeof(cmd), &cmd);
	return log_talk(fd, h);
}

static int log_setup(int fd, uint16_t group)
{
	_Alignas(struct nlmsghdr) char buf[256] = {0};
	struct nfulnl_msg_config_mode mode = {
		.copy_range = htonl(NFLOG_COPY),
		.copy_mode = NFULNL_COPY_PACKET,
	};
	struct nlmsghdr *h = log_msg(buf, group, 2);

	mnl_attr_put(h, NFULA_CFG_MODE, sizeof(mode), &mode);
	mnl_attr_put_u32(h, NFULA_CFG_NLBUFSIZ, htonl(NFLOG_NLBUF));
	mnl_attr_put_u32(h, NFULA_CFG_TIMEOUT, htonl(NFLOG_FLUSH_CS));
	mnl_attr_put_u16(h, NFULA_CFG_FLAGS,
			 htons(NFULNL_CFG_F_SEQ | NFULNL_CFG_F_SEQ_GLOBAL));
	return log_talk(fd, h);
}

static int nflog_open(const struct open_one *o, struct eg_err *err)
{
	EG_CLEANUP_FD int fd = nfnl_open(o, err);
	struct timeval tv = {.tv_sec = 5};
	int size = NFLOG_RCVBUF, r;

	if (fd < 0)
		return fd;
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)) < 0)
		return fail(err, "enlarge the buffer of an NFLOG socket");
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	r = log_bind(fd, o->group);
	/* EBUSY in place of EPERM: seen where the old one is being freed. */
	if (r == -EPERM || r == -EBUSY)
		return eg_err_set(
			err, -EPERM,
			"another process reads NFLOG group %u in this namespace",
			o->group);
	if (!r)
		r = log_setup(fd, o->group);
	if (r)
		return eg_err_sys(err, r, "cannot bind NFLOG group %u", o->group);
	if (fcntl(fd, F_SETFL, O_NONBLOCK) < 0)
		return fail(err, "make an NFLOG socket non-blocking");
	return eg_steal_fd(&fd);
}

int np_nflog(const struct np_world *w, int ns, uint16_t group, struct eg_err *err)
{
	struct open_one o = {.open = nflog_open, .group = group, .fd = -1};
	int r = np_netns_run(w->home, ns, open_inside, &o, err);

	return r ? r : o.fd;
}

/* ---- packet socket ------------------------------------------------------- */

/*
 * What the table's hooks never see: anything but IPv4, and IPv4 in a VLAN;
 * coming in from a slot. Loads from SKF_AD_OFF are the kernel's extensions.
 */
#define AD(x) ((uint32_t)(SKF_AD_OFF + (x)))
static const struct sock_filter not_ipv4[] = {
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, AD(SKF_AD_PKTTYPE)),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PACKET_OUTGOING, 7, 0),
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, AD(SKF_AD_IFINDEX)),
	BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, EG_IFINDEX_SLOT, 0, 5),
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, AD(SKF_AD_VLAN_TAG_PRESENT)),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 2),
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, AD(SKF_AD_PROTOCOL)),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ETH_P_IP, 1, 0),
	BPF_STMT(BPF_RET | BPF_K, 0xffff),
	BPF_STMT(BPF_RET | BPF_K, 0),
};
_Static_assert(EG_IFINDEX_UPLINK < EG_IFINDEX_SLOT, "uplink is filtered out");

static int packet_open(struct eg_err *err)
{
	struct sockaddr_ll sa = {.sll_family = AF_PACKET,
				 .sll_protocol = htons(ETH_P_ALL)};
	struct sock_fprog prog = {
		.len = EG_ARRAY_SIZE(not_ipv4),
		.filter = (struct sock_filter *)(uintptr_t)not_ipv4,
	};
	EG_CLEANUP_FD int fd = -1;
	int size = PACKET_RCVBUF, on = 1;

	/* Protocol 0: nothing arrives before the filter is in place. */
	fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return fail(err, "open a packet socket");
	if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof(prog)) < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)) < 0 ||
	    setsockopt(fd, SOL_PACKET, PACKET_AUXDATA, &on, sizeof(on)) < 0)
		return fail(err, "set up a packet socket");
	if (bind(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0)
		return fail(err, "bind a packet socket");
	return eg_steal_fd(&fd);
}

/* ---- DNS ----------------------------------------------------------------- */

static int dns_open(int type, struct eg_err *err)
{
	struct sockaddr_in sa = {.sin_family = AF_INET,
				 .sin_port = htons(DNS_PORT)};
	EG_CLEANUP_FD int fd = -1;
	int on = 1, size = DNS_RCVBUF;

	fd = socket(AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return fail(err, "open a DNS socket");
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
	    setsockopt(fd, IPPROTO_IP, IP_TRANSPARENT, &on, sizeof(on)) < 0 ||
	    setsockopt(fd, IPPROTO_IP, IP_PKTINFO, &on, sizeof(on)) < 0)
		return fail(err, "make a DNS socket transparent");
	if (type == SOCK_DGRAM &&
	    (setsockopt(fd, IPPROTO_IP, IP_RECVORIGDSTADDR, &on, sizeof(on)) < 0 ||
	     setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)) < 0))
		return fail(err, "set up a DNS socket");
	/*
	 * With the mark a query says which lease it came under, so that one
	 * which waited here is not taken for the next tenant's. Linux 5.19;
	 * before, the slot is all there is.
	 */
	if (type == SOCK_DGRAM)
		(void)setsockopt(fd, SOL_SOCKET, SO_RCVMARK, &on, sizeof(on));
	if (bind(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0)
		return fail(err, "bind port 53 in a gateway");
	if (type == SOCK_STREAM && listen(fd, DNS_BACKLOG) < 0)
		return fail(err, "listen on port 53 in a gateway");
	return eg_steal_fd(&fd);
}

void np_gateway_sockets_close(struct np_gateway_sockets *s)
{
	eg_close_p(&s->nflog);
	eg_close_p(&s->packet);
	eg_close_p(&s->dns_udp);
	eg_close_p(&s->dns_tcp);
}

struct all {
	struct np_gateway_sockets s;
	unsigned int have;
};

static bool lacks(const struct all *a, enum eg_fd_kind kind)
{
	return !(a->have & 1U << kind);
}

static int all_inside(void *arg, struct eg_err *err)
{
	const struct open_one log = {.group = EG_NFLOG_GROUP};
	struct all *a = arg;
	int r = 0;

	if (lacks(a, EG_FD_NFLOG))
		r = a->s.nflog = nflog_open(&log, err);
	if (r >= 0 && lacks(a, EG_FD_PACKET))
		r = a->s.packet = packet_open(err);
	if (r >= 0 && lacks(a, EG_FD_DNS_UDP))
		r = a->s.dns_udp = dns_open(SOCK_DGRAM, err);
	if (r >= 0 && lacks(a, EG_FD_DNS_TCP))
		r = a->s.dns_tcp = dns_open(SOCK_STREAM, err);
	if (r < 0)
		np_gateway_sockets_close(&a->s);
	return r < 0 ? r : 0;
}

int np_gateway_sockets(const struct np_world *w, const struct np_gateway *gw,
		       struct np_gateway_sockets *ret, struct eg_err *err)
{
	struct all a = {.s = {-1, -1, -1, -1}, .have = gw->have};
	int r = np_netns_run(w->home, gw->ns, all_inside, &a, err);

	if (!r)
		*ret = a.s;
	return r;
}
