/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Test world of the rules: a gateway's namespace (the test's own), slots and
 * an Internet in namespaces held by children, joined by veth pairs with the
 * planned indexes. Included by one test program each.
 */
#ifndef RL_TEST_WORLD_H
#define RL_TEST_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "rules/gw.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <linux/netlink.h>
#include <net/ethernet.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define UNUSED __attribute__((unused))
#define A4(a, b, c, d)                                                         \
	((uint32_t)(a) << 24 | (uint32_t)(b) << 16 | (uint32_t)(c) << 8 |      \
	 (uint32_t)(d))

struct ns {
	pid_t pid;
	int fd;
};

static struct eg_conf conf;
static struct eg_err err;

UNUSED static void conf_init(uint32_t slots)
{
	memset(&conf, 0, sizeof(conf));
	conf.prefix = (struct eg_prefix){A4(10, 200, 0, 0), 16};
	conf.link_prefix = (struct eg_prefix){A4(10, 201, 0, 0), 24};
	conf.slots = slots;
	conf.slots_per_gateway = 256;
	conf.gateways = (slots + 255) / 256;
	conf.snaplen = 128;
	conf.masquerade = true;
	conf.dns_rate = 20;
	conf.dns_burst = 40;
	conf.deny[0] = (struct eg_conf_deny){{A4(169, 254, 169, 254), 32},
					     EG_DENY_METADATA};
	conf.deny[1] =
		(struct eg_conf_deny){{A4(198, 18, 0, 0), 15}, EG_DENY_RESERVED};
	conf.denies = 2;
}

UNUSED __attribute__((format(printf, 1, 2))) static void sh(const char *fmt, ...)
{
	char cmd[512];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(cmd, sizeof(cmd), fmt, ap);
	va_end(ap);
	if (system(cmd))
		fail_msg("failed: %s", cmd);
}

/* Some checks use the nft command, which a test machine may lack. */
UNUSED static bool have_nft(const char *test)
{
	if (!system("command -v nft >/dev/null 2>&1"))
		return true;
	printf("[  SKIPPED ] %s: no nft on this machine\n", test);
	return false;
}

UNUSED static int nfnl(void)
{
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER);

	assert_true(fd >= 0);
	return fd;
}

UNUSED static struct ns ns_make(void)
{
	struct ns n;
	int p[2];
	char path[64], c = 0;

	assert_int_equal(pipe(p), 0);
	n.pid = fork();
	if (!n.pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (unshare(CLONE_NEWNET) || system("ip link set lo up") ||
		    write(p[1], &c, 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	assert_int_equal(read(p[0], &c, 1), 1);
	close(p[0]);
	close(p[1]);
	(void)snprintf(path, sizeof(path), "/proc/%d/ns/net", n.pid);
	n.fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(n.fd >= 0);
	return n;
}

UNUSED static void ns_end(struct ns *n)
{
	kill(n->pid, SIGKILL);
	waitpid(n->pid, NULL, 0);
	close(n->fd);
}

static int home = -1;

UNUSED static void enter(const struct ns *n)
{
	if (home < 0)
		home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	assert_int_equal(setns(n ? n->fd : home, CLONE_NEWNET), 0);
}

/* `ip` (or any command) inside a namespace. */
UNUSED static void in(const struct ns *n, const char *cmd)
{
	enter(n);
	sh("%s", cmd);
	enter(NULL);
}

UNUSED static int sock_in(const struct ns *n, int domain, int type, int proto)
{
	int fd;

	enter(n);
	fd = socket(domain, type | SOCK_CLOEXEC, proto);
	enter(NULL);
	assert_true(fd >= 0);
	return fd;
}

UNUSED static struct sockaddr_in sin4(uint32_t addr, uint16_t port)
{
	return (struct sockaddr_in){.sin_family = AF_INET,
				    .sin_addr.s_addr = htonl(addr),
				    .sin_port = htons(port)};
}

UNUSED static int listen_at(const struct ns *n, uint32_t addr, uint16_t port)
{
	struct sockaddr_in a = sin4(addr, port);
	int one = 1, fd = sock_in(n, AF_INET, SOCK_STREAM, 0);

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(listen(fd, 16), 0);
	return fd;
}

UNUSED static bool readable(int fd, int ms)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, ms) == 1;
}

/* Connect within @ms: a descriptor, or negative errno. */
UNUSED static int dial(const struct ns *n, uint32_t addr, uint16_t port, int ms)
{
	struct sockaddr_in a = sin4(addr, port);
	int fd = sock_in(n, AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	struct pollfd p = {.fd = fd, .events = POLLOUT};
	int e = 0;
	socklen_t len = sizeof(e);

	if (connect(fd, (struct sockaddr *)&a, sizeof(a)) && errno != EINPROGRESS)
		e = errno;
	else if (poll(&p, 1, ms) != 1)
		e = ETIMEDOUT;
	else
		getsockopt(fd, SOL_SOCKET, SO_ERROR, &e, &len);
	if (!e)
		return fd;
	close(fd);
	return -e;
}

/* ---- frames -------------------------------------------------------------- */

struct pkt {
	uint32_t src, dst;
	uint16_t sport, dport, frag;
	uint8_t proto, ttl, flags;
	bool options, bad_mac;
	uint8_t icmp_type;
};

static uint16_t csum(const void *data, size_t len, uint32_t sum)
{
	const uint8_t *p = data;

	for (size_t i = 0; i + 1 < len; i += 2)
		sum += (uint32_t)(p[i] << 8 | p[i + 1]);
	if (len & 1)
		sum += (uint32_t)p[len - 1] << 8;
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~sum;
}

static size_t l4(const struct pkt *k, uint8_t *p)
{
	uint32_t pseudo = (k->src >> 16) + (k->src & 0xffff) + (k->dst >> 16) +
			  (k->dst & 0xffff) + k->proto;
	size_t len = k->proto == IPPROTO_TCP ? 20 : 8, at = 6;
	uint16_t c;

	memset(p, 0, 20);
	if (k->proto == IPPROTO_ICMP) {
		p[0] = k->icmp_type;
		at = 2;
		pseudo = 0;
	} else {
		p[0] = (uint8_t)(k->sport >> 8);
		p[1] = (uint8_t)k->sport;
		p[2] = (uint8_t)(k->dport >> 8);
		p[3] = (uint8_t)k->dport;
		pseudo += (uint32_t)len;
	}
	if (k->proto == IPPROTO_UDP)
		p[5] = 8;
	if (k->proto == IPPROTO_TCP) {
		p[12] = 0x50;
		p[13] = k->flags;
		at = 16;
	}
	c = csum(p, len, pseudo);
	p[at] = (uint8_t)(c >> 8);
	p[at + 1] = (uint8_t)c;
	return len;
}

static size_t frame(const struct pkt *k, uint32_t slot, uint8_t *f)
{
	size_t ihl = k->options ? 24 : 20, len;
	uint8_t *ip = f + 14;
	uint32_t s = htonl(k->src), d = htonl(k->dst);
	uint16_t c;

	memset(f, 0, 128);
	eg_plan_mac_gw(f, slot);
	eg_plan_mac_slot(f + 6, slot);
	f[5 + 6] ^= k->bad_mac ? 0x40 : 0;
	f[12] = 8;
	len = ihl + l4(k, ip + ihl);
	ip[0] = (uint8_t)(0x40 | ihl / 4);
	ip[3] = (uint8_t)len;
	ip[6] = (uint8_t)(k->frag >> 8);
	ip[7] = (uint8_t)k->frag;
	ip[8] = k->ttl ? k->ttl : 64;
	ip[9] = k->proto;
	memcpy(ip + 12, &s, 4);
	memcpy(ip + 16, &d, 4);
	if (k->options)
		memset(ip + 20, 1, 4); /* four no-operations */
	c = csum(ip, ihl, 0);
	ip[10] = (uint8_t)(c >> 8);
	ip[11] = (uint8_t)c;
	return 14 + len;
}

/* A packet socket on eth0 of a slot. */
UNUSED static int packet_sock(const struct ns *n)
{
	struct sockaddr_ll a = {.sll_family = AF_PACKET,
				.sll_ifindex = EG_IFINDEX_ETH0,
				.sll_protocol = 0};
	int fd = sock_in(n, AF_PACKET, SOCK_RAW, 0);

	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	return fd;
}

UNUSED static void inject(int fd, uint32_t slot, const struct pkt *k)
{
	uint8_t f[128];
	size_t len = frame(k, slot, f);

	assert_int_equal(send(fd, f, len, 0), len);
}

/* ---- the world ----------------------------------------------------------- */

/* Gateway end @slot of a slot link, and the slot's own end configured. */
UNUSED static void slot_link(uint32_t slot, struct ns *n)
{
	uint8_t mg[6], ms[6];
	char g[EG_MAC_TEXT], s[EG_MAC_TEXT], gw[EG_ADDR_TEXT], me[EG_ADDR_TEXT];
	char cmd[400];

	eg_plan_mac_gw(mg, slot);
	eg_plan_mac_slot(ms, slot);
	eg_mac_format(mg, g);
	eg_mac_format(ms, s);
	eg_addr_format(eg_plan_gw_addr(&conf, slot), gw);
	eg_addr_format(eg_plan_addr(&conf, slot), me);
	sh("ip link add eg-%05u index %u address %s type veth peer name eth0 index 20 address %s netns %d",
	   slot, eg_plan_ifindex(&conf, slot), g, s, n->pid);
	sh("ip link set eg-%05u up; ip route add %s/32 dev eg-%05u; ip neigh add %s lladdr %s dev eg-%05u nud permanent",
	   slot, me, slot, me, s, slot);
	(void)snprintf(
		cmd, sizeof(cmd),
		"ip addr add %s/30 dev eth0; ip link set eth0 up; ip neigh add %s lladdr %s dev eth0 nud permanent; ip route add default via %s",
		me, gw, g, gw);
	in(n, cmd);
}

UNUSED static void world_link(struct ns *w)
{
	sh("ip link add up0 index 900 type veth peer name w0 netns %d", w->pid);
	sh("ip addr add 10.201.0.0/31 dev up0; ip link set up0 up; ip route add default via 10.201.0.1");
	in(w,
	   "ip addr add 10.201.0.1/31 dev w0; ip link set w0 up; ip route add 10.200.0.0/16 via 10.201.0.0; ip addr add 198.51.100.7/32 dev lo; ip addr add 198.51.100.8/32 dev lo; ip addr add 10.3.0.10/32 dev lo; ip addr add 169.254.169.254/32 dev lo");
}

/* Skips a whole program by name where there is no root. */
#define NEEDS_ROOT(n)                                                        \
	do {                                                                 \
		if (geteuid()) {                                             \
			printf("skip: needs root\n[  SKIPPED ] %zu test(s)\n", \
			       (size_t)(n));                                  \
			return 0;                                            \
		}                                                            \
	} while (0)

UNUSED static void gateway_ns(void)
{
	home = -1;
	if (unshare(CLONE_NEWNET)) {
		printf("[  SKIPPED ] needs root: cannot make a network namespace\n");
		exit(0);
	}
	sh("ip link set lo up; sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0 net.ipv4.icmp_ratelimit=0 net.ipv4.icmp_msgs_per_sec=100000");
	sh("ip rule add fwmark 0xfe/0xff lookup %d; ip route add local 0.0.0.0/0 dev lo table %d",
	   EG_DNS_TABLE, EG_DNS_TABLE);
}

#endif
