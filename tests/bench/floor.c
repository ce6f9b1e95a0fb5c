// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: the raw floor of a pool, for the bench.
 *
 *   floor SLOTS [PER_GATEWAY]
 *
 * What the kernel alone takes for as many slots, in a bare loop: gateways
 * with IPv6 off there; per slot unshare(CLONE_NEWNET), its descriptor kept,
 * one veth pair born in its two final namespaces under its final names and
 * indexes with one queue each, both ends up; nothing else. No library: one
 * message buffer, one socket in the slot and one that stays in each gateway.
 *
 * Prints a line "mark SLOTS NANOSECONDS" every MARK slots, both since the
 * start, then "cpu NANOSECONDS" of the process and "done", and keeps all of it
 * until its standard input ends.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/if.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define SLOTS_MAX 16384
#define PER_GATEWAY 256
#define MARK 128
#define INDEX_SLOT 20	   /* the slot's end */
#define INDEX_GATEWAY 1000 /* the first link of a gateway */

static int slot_ns[SLOTS_MAX];
static int gateway_ns[SLOTS_MAX], gateway_rtnl[SLOTS_MAX];

/* Messages of one batch, each to be acknowledged. */
struct batch {
	_Alignas(struct nlmsghdr) char buf[1024];
	uint32_t len, count;
};

static void die(const char *what, int error)
{
	(void)fprintf(stderr, "floor: %s: %s\n", what, strerror(error));
	exit(1);
}

static uint64_t now_ns(clockid_t clock)
{
	struct timespec t;

	(void)clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000U + (uint64_t)t.tv_nsec;
}

/* ---- messages ------------------------------------------------------------- */

static void *grow(struct batch *b, size_t len)
{
	void *p = b->buf + b->len;

	if (b->len + NLMSG_ALIGN(len) > sizeof(b->buf))
		die("message", EMSGSIZE);
	memset(p, 0, NLMSG_ALIGN(len));
	b->len += (uint32_t)NLMSG_ALIGN(len);
	return p;
}

static struct nlmsghdr *begin(struct batch *b, uint16_t flags, uint32_t index)
{
	struct nlmsghdr *h = grow(b, NLMSG_LENGTH(sizeof(struct ifinfomsg)));
	struct ifinfomsg *i = NLMSG_DATA(h);

	h->nlmsg_type = RTM_NEWLINK;
	h->nlmsg_flags = (uint16_t)(NLM_F_REQUEST | NLM_F_ACK | flags);
	h->nlmsg_seq = ++b->count;
	i->ifi_index = (int)index;
	return h;
}

static void end(struct batch *b, struct nlmsghdr *h)
{
	h->nlmsg_len = (uint32_t)(b->buf + b->len - (char *)h);
}

static struct rtattr *put(struct batch *b, unsigned short type,
			  const void *data, size_t len)
{
	struct rtattr *a = grow(b, RTA_LENGTH(len));

	a->rta_type = type;
	a->rta_len = (unsigned short)RTA_LENGTH(len);
	if (len)
		memcpy(RTA_DATA(a), data, len);
	return a;
}

static void nest_end(struct batch *b, struct rtattr *a)
{
	a->rta_len = (unsigned short)(b->buf + b->len - (char *)a);
}

static void put_end(struct batch *b, const char *name)
{
	uint32_t one = 1;

	(void)put(b, IFLA_IFNAME, name, strlen(name) + 1);
	(void)put(b, IFLA_NUM_TX_QUEUES, &one, sizeof(one));
	(void)put(b, IFLA_NUM_RX_QUEUES, &one, sizeof(one));
}

static void put_pair(struct batch *b, const char *peer, uint32_t peer_index,
		     int peer_ns)
{
	struct nlmsghdr *h = begin(b, NLM_F_CREATE | NLM_F_EXCL, INDEX_SLOT);
	struct rtattr *info, *data, *far;
	struct ifinfomsg *i;

	put_end(b, "eth0");
	info = put(b, IFLA_LINKINFO, NULL, 0);
	(void)put(b, IFLA_INFO_KIND, "veth", sizeof("veth"));
	data = put(b, IFLA_INFO_DATA, NULL, 0);
	far = put(b, VETH_INFO_PEER, NULL, 0);
	i = grow(b, sizeof(*i));
	i->ifi_index = (int)peer_index;
	put_end(b, peer);
	(void)put(b, IFLA_NET_NS_FD, &peer_ns, sizeof(peer_ns));
	nest_end(b, far);
	nest_end(b, data);
	nest_end(b, info);
	end(b, h);
}

static void put_up(struct batch *b, uint32_t index)
{
	struct nlmsghdr *h = begin(b, 0, index);
	struct ifinfomsg *i = NLMSG_DATA(h);

	i->ifi_flags = i->ifi_change = IFF_UP;
	end(b, h);
}

static int rtnl_open(void)
{
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	int one = 1;

	if (fd < 0)
		die("socket", errno);
	(void)setsockopt(fd, SOL_NETLINK, NETLINK_CAP_ACK, &one, sizeof(one));
	return fd;
}

/* One send; an answer comes for every message. */
static void commit(int fd, struct batch *b, const char *what)
{
	_Alignas(struct nlmsghdr) char answer[4096];
	uint32_t acked = 0;

	if (send(fd, b->buf, b->len, 0) < 0)
		die(what, errno);
	while (acked < b->count) {
		ssize_t n = recv(fd, answer, sizeof(answer), 0);
		unsigned int left = (unsigned int)n;
		struct nlmsghdr *h = (struct nlmsghdr *)answer;

		if (n <= 0)
			die(what, n < 0 ? errno : EPIPE);
		for (; NLMSG_OK(h, left); h = NLMSG_NEXT(h, left)) {
			const struct nlmsgerr *e = NLMSG_DATA(h);

			if (h->nlmsg_type != NLMSG_ERROR)
				die(what, EPROTO);
			if (e->error)
				die(what, -e->error);
			acked++;
		}
	}
}

/* ---- namespaces ----------------------------------------------------------- */

static int ns_new(void)
{
	int fd;

	if (unshare(CLONE_NEWNET) < 0)
		die("unshare", errno);
	fd = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		die("/proc/thread-self/ns/net", errno);
	return fd;
}

static void no_ipv6(const char *path)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 && errno == ENOENT)
		return; /* a kernel without IPv6 */
	if (fd < 0 || write(fd, "1", 1) != 1)
		die(path, errno);
	(void)close(fd);
}

static void gateway_make(uint32_t g)
{
	gateway_ns[g] = ns_new();
	no_ipv6("/proc/sys/net/ipv6/conf/all/disable_ipv6");
	no_ipv6("/proc/sys/net/ipv6/conf/default/disable_ipv6");
	gateway_rtnl[g] = rtnl_open();
}

static void slot_make(uint32_t k, uint32_t per_gateway)
{
	uint32_t g = k / per_gateway, index = INDEX_GATEWAY + k % per_gateway;
	struct batch in = {.len = 0}, out = {.len = 0};
	char name[IFNAMSIZ];
	int rtnl;

	(void)snprintf(name, sizeof(name), "fl-%05u", k % 100000);
	slot_ns[k] = ns_new();
	put_pair(&in, name, index, gateway_ns[g]);
	put_up(&in, INDEX_SLOT);
	rtnl = rtnl_open();
	commit(rtnl, &in, "veth pair");
	(void)close(rtnl);
	put_up(&out, index);
	commit(gateway_rtnl[g], &out, "gateway's end");
}

static void descriptors(void)
{
	struct rlimit rl;

	if (getrlimit(RLIMIT_NOFILE, &rl) < 0)
		die("getrlimit", errno);
	rl.rlim_cur = rl.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &rl) < 0)
		die("setrlimit", errno);
}

static uint32_t number(const char *s, uint32_t max)
{
	char *rest;
	unsigned long n = strtoul(s, &rest, 10);

	if (!*s || *rest || !n || n > max)
		die(s, EINVAL);
	return (uint32_t)n;
}

int main(int argc, char **argv)
{
	uint32_t slots, per_gateway = PER_GATEWAY;
	uint64_t t0 = now_ns(CLOCK_MONOTONIC);
	char c;

	if (argc < 2 || argc > 3) {
		(void)fprintf(stderr, "usage: floor SLOTS [PER_GATEWAY]\n");
		return 2;
	}
	slots = number(argv[1], SLOTS_MAX);
	if (argc == 3)
		per_gateway = number(argv[2], SLOTS_MAX);
	descriptors();
	for (uint32_t g = 0; g < (slots + per_gateway - 1) / per_gateway; g++)
		gateway_make(g);
	(void)printf("mark 0 %" PRIu64 "\n", now_ns(CLOCK_MONOTONIC) - t0);
	for (uint32_t k = 0; k < slots; k++) {
		slot_make(k, per_gateway);
		if ((k + 1) % MARK == 0 || k + 1 == slots)
			(void)printf("mark %u %" PRIu64 "\n", k + 1,
				     now_ns(CLOCK_MONOTONIC) - t0);
	}
	(void)printf("cpu %" PRIu64 "\ndone\n", now_ns(CLOCK_PROCESS_CPUTIME_ID));
	(void)fflush(stdout);
	while (read(STDIN_FILENO, &c, 1) > 0)
		;
	return 0;
}
