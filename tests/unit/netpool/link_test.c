// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: the rtnetlink transport and its builders, against the kernel
 */
#include "netpool/base/plan.h"
#include "netpool/base/util.h"
#include "netpool/conntrack.h"
#include "netpool/link.h"
#include "netpool/netns.h"
#include "tests/lib/nsworld.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/ip.h>
#include <linux/rtnetlink.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

static int home = -1;
static struct np_rtnl *rt;

static const uint8_t mac_a[6] = {0x0a, 0xe6, 9, 0, 0, 1};
static const uint8_t mac_b[6] = {0x0a, 0xe6, 9, 0, 0, 2};

static struct np_veth pair(const char *a, const char *b, uint32_t ia,
			   uint32_t ib, int ns)
{
	return (struct np_veth){.name = a,
				.peer_name = b,
				.index = ia,
				.peer_index = ib,
				.mac = mac_a,
				.peer_mac = mac_b,
				.peer_ns = ns,
				.mtu = 1400};
}

static int open_rtnl(void *arg, struct eg_err *err)
{
	return np_rtnl_open(arg, err);
}

static void test_veth(void **state)
{
	const struct np_link_change up = {.up = true};
	struct np_veth v;
	struct np_rtnl *in = NULL;
	struct eg_err err = {0};
	struct np_link l;
	int ns = -1;

	(void)state;
	assert_int_equal(np_netns_make(home, open_rtnl, &in, &ns, &err), 0);
	v = pair("va", "vb", 500, 600, ns);
	np_link_veth(rt, &v);
	np_link_change(rt, 500, &up, "up", 0);
	np_link_addr(rt, 500, 0xc0000201, 30);
	np_link_neigh(rt, 500, 0xc0000202, mac_b);
	assert_int_equal(np_rtnl_commit(rt, &err), 0);
	assert_int_equal(np_link_get(rt, 500, NULL, &l, &err), 0);
	assert_string_equal(l.name, "va");
	assert_string_equal(l.kind, "veth");
	assert_int_equal(l.mtu, 1400);
	assert_int_equal(l.group, EG_LINK_GROUP);
	assert_memory_equal(l.mac, mac_a, 6);
	assert_false(l.carrier);
	assert_int_equal(np_link_get(in, 0, "vb", &l, &err), 0);
	assert_int_equal(l.index, 600);
	assert_int_equal(l.group, EG_LINK_GROUP);
	assert_memory_equal(l.mac, mac_b, 6);
	assert_int_equal(
		nsw_run("ip -d link show va | grep -q 'numtxqueues 1 numrxqueues 1'"),
		0);
	assert_int_equal(nsw_run("ip neigh show 192.0.2.2 | grep -q PERMANENT"),
			 0);
	np_link_change(in, 600, &up, "up", 0);
	assert_int_equal(np_rtnl_commit(in, &err), 0);
	assert_int_equal(np_link_get(rt, 500, NULL, &l, &err), 0);
	assert_true(l.carrier);
	np_link_delete(rt, 500);
	np_link_delete(rt, 500); /* gone: no error */
	assert_int_equal(np_rtnl_commit(rt, &err), 0);
	assert_int_equal(np_link_get(rt, 500, NULL, &l, &err), -ENODEV);
	np_rtnl_close(in);
	(void)close(ns);
}

/* The first failure is told, with the kernel's text; the rest still runs. */
static void test_errors(void **state)
{
	const struct np_link_change up = {.up = true};
	struct eg_err err = {0};
	struct np_veth v = pair("va", "vb", 500, 501, home);
	struct np_route r = {.via = 0x01020304, .index = 500};

	(void)state;
	np_link_veth(rt, &v);
	assert_int_equal(np_rtnl_commit(rt, &err), 0);
	np_link_veth(rt, &v);
	np_link_change(rt, 500, &up, "bring va up", 0);
	assert_int_equal(np_rtnl_commit(rt, &err), -EEXIST);
	assert_non_null(strstr(err.text, "make a veth pair"));
	assert_int_equal(nsw_run("ip link show va | grep -q '<.*UP'"), 0);
	v = pair("vc", "vd", 500, 0, home);
	np_link_veth(rt, &v);
	assert_int_equal(np_rtnl_commit(rt, &err), -EEXIST);
	v = pair("vc", "vd", 700, 500, home); /* the peer's index */
	np_link_veth(rt, &v);
	assert_int_equal(np_rtnl_commit(rt, &err), -EBUSY);
	np_link_route(rt, &r);
	assert_int_equal(np_rtnl_commit(rt, &err), -ENETUNREACH);
	assert_non_null(strstr(err.text, "("));
	np_link_change(rt, 4711, &up, "bring nothing up", -ENODEV);
	assert_int_equal(np_rtnl_commit(rt, &err), 0);
	np_link_change(rt, 4711, &up, "bring nothing up", 0);
	assert_int_equal(np_rtnl_commit(rt, &err), -ENODEV);
	/* more than a batch holds is refused as a whole */
	for (int i = 0; i <= NP_BATCH_MAX; i++)
		np_link_delete(rt, 500);
	assert_int_equal(np_rtnl_commit(rt, &err), -E2BIG);
	assert_int_equal(nsw_run("ip link show va >/dev/null"), 0);
	np_link_delete(rt, 500);
	assert_int_equal(np_rtnl_commit(rt, &err), 0);
	assert_int_equal(np_rtnl_commit(rt, &err), 0); /* empty */
}

static void count(void *arg, const struct np_link *l)
{
	uint32_t *n = arg;

	*n = l ? *n + (l->group == EG_LINK_GROUP) : 0;
}

static void test_delete_many(void **state)
{
	struct eg_err err = {0};
	uint32_t index[300], n = 0;

	(void)state;
	for (uint32_t i = 0; i < 300; i++) {
		char a[EG_IFNAME], b[EG_IFNAME];
		struct np_veth v = pair(a, b, 1000 + i, 2000 + i, home);

		(void)snprintf(a, sizeof(a), "a%u", i);
		(void)snprintf(b, sizeof(b), "b%u", i);
		index[i] = 1000 + i;
		np_link_veth(rt, &v);
		assert_int_equal(np_rtnl_commit(rt, &err), 0);
	}
	np_link_delete(rt, 1007); /* one has gone by itself */
	assert_int_equal(np_rtnl_commit(rt, &err), 0);
	assert_int_equal(np_link_list(rt, count, &n, &err), 0);
	assert_int_equal(n, 598);
	assert_int_equal(np_link_delete_many(rt, index, 299, &err), 0);
	n = 0;
	assert_int_equal(np_link_list(rt, count, &n, &err), 0);
	assert_int_equal(n, 2);
	assert_int_equal(np_link_delete_many(rt, index + 299, 1, &err), 0);
	assert_int_equal(np_link_delete_many(rt, index, 300, &err), 0);
	n = 0;
	assert_int_equal(np_link_list(rt, count, &n, &err), 0);
	assert_int_equal(n, 0);
}

static void test_addresses(void **state)
{
	uint32_t addr[8] = {0}, mtu = 0;
	struct eg_err err = {0};
	size_t n = 0;

	(void)state;
	assert_int_equal(np_link_default_mtu(rt, &mtu, &err), -ENETUNREACH);
	assert_int_equal(nsw_run("ip link add v0 mtu 1440 type veth peer v1;"
				 "ip addr add 192.0.2.9/24 dev v0;"
				 "ip addr add 192.0.2.9/32 dev v1;"
				 "ip addr add 10.9.9.9/24 dev v0;"
				 "ip link set v0 up; ip link set v1 up;"
				 "ip route add default via 192.0.2.1"),
			 0);
	assert_int_equal(np_link_addrs(rt, addr, 8, &n, &err), 0);
	assert_int_equal(n, 3);
	assert_int_equal(addr[0], 0x0a090909);
	assert_int_equal(addr[1], 0x7f000001);
	assert_int_equal(addr[2], 0xc0000209);
	assert_int_equal(np_link_addrs(rt, addr, 2, &n, &err), -E2BIG);
	assert_int_equal(np_link_default_mtu(rt, &mtu, &err), 0);
	assert_int_equal(mtu, 1440);
	assert_int_equal(nsw_run("ip link del v0"), 0);
}

static void udp_flow(const char *src, const char *dst, uint16_t port)
{
	struct sockaddr_in sa = {.sin_family = AF_INET};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	(void)inet_pton(AF_INET, src, &sa.sin_addr);
	assert_int_equal(bind(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	(void)inet_pton(AF_INET, dst, &sa.sin_addr);
	sa.sin_port = htons(port);
	(void)sendto(fd, "x", 1, 0, (struct sockaddr *)&sa, sizeof(sa));
	(void)close(fd);
}

static int entries(const char *src)
{
	char buf[16] = "";

	(void)nsw_read(buf, sizeof(buf),
		       "conntrack -L 2>/dev/null | grep -c 'src=%s dst=127.0.0.1'",
		       src);
	return atoi(buf);
}

/* Deleting one source's entries leaves its neighbours' alone. */
static void test_conntrack(void **state)
{
	static const char *const src[] = {"127.0.0.2", "127.0.0.3", "127.0.1.2"};
	struct np_ct *ct = NULL;
	struct eg_err err = {0};
	size_t n = 0;

	(void)state;
	if (nsw_run("which conntrack nft >/dev/null")) {
		printf("SKIP test_conntrack: needs conntrack(8) and nft(8)\n");
		return;
	}
	assert_int_equal(
		nsw_run("nft 'table ip t { chain o { type filter hook output priority 0; ct state new accept; }; }'"),
		0);
	assert_int_equal(np_ct_open(&ct, &err), 0);
	for (size_t i = 0; i < 3; i++)
		for (uint16_t p = 9000; p < 9020; p++)
			udp_flow(src[i], "127.0.0.1", p);
	assert_int_equal(entries("127.0.0.2"), 20);
	assert_int_equal(np_ct_delete(ct, 0x7f000002, &err), 0);
	assert_int_equal(entries("127.0.0.2"), 0);
	assert_int_equal(entries("127.0.0.3"), 20);
	assert_int_equal(entries("127.0.1.2"), 20);
	/* nothing there is no failure */
	assert_int_equal(np_ct_delete(ct, 0x7f000002, &err), 0);
	assert_int_equal(np_ct_delete_range(ct, (struct eg_prefix){0x7f000000, 24},
					    &n, &err),
			 0);
	assert_int_equal(n, 20);
	assert_int_equal(entries("127.0.0.3"), 0);
	assert_int_equal(entries("127.0.1.2"), 20);
	np_ct_close(ct);
	assert_int_equal(nsw_run("nft delete table ip t"), 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_veth),
		cmocka_unit_test(test_errors),
		cmocka_unit_test(test_delete_many),
		cmocka_unit_test(test_addresses),
		cmocka_unit_test(test_conntrack),
	};
	struct eg_err err;
	int r;

	if (nsw_enter("link_test"))
		return 0;
	home = np_netns_self(&err);
	if (np_rtnl_open(&rt, &err))
		return 1;
	r = cmocka_run_group_tests(tests, NULL, NULL);
	np_rtnl_close(rt);
	return r;
}
