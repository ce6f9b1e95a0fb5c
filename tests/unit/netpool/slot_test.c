// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: slots and taps, against the kernel, with the time a slot takes
 */
#include "netpool/base/loop.h"
#include "netpool/base/plan.h"
#include "netpool/base/util.h"
#include "netpool/host.h"
#include "netpool/link.h"
#include "netpool/netns.h"
#include "netpool/slot.h"
#include "tests/lib/nsworld.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

#include <cmocka.h>

#define SLOTS 256

static struct eg_conf conf;
static struct np_world w = {.conf = &conf, .home = -1};
static struct np_gateway gw;
static int ns[SLOTS];

static void test_parse(void **state)
{
	static const char *const bad[] = {
		"eg-00001.0",
		"eg-1.5",
		"eg-00001.05",
		"eg-00001.5x",
		"eg-00001",
		"eg-gw-00",
		"eg-16384.1",
		"xx-00001.5",
		"eg-00001.",
		"eg-+0001.5",
		"eg-00001.18446744073709551616",
	};
	uint64_t gen = 0;
	uint32_t slot = 0;

	(void)state;
	assert_true(np_slot_parse("eg-00517.90211", &slot, &gen));
	assert_int_equal(slot, 517);
	assert_int_equal(gen, 90211);
	for (size_t i = 0; i < EG_ARRAY_SIZE(bad); i++)
		assert_false(np_slot_parse(bad[i], &slot, &gen));
}

/* Everything about one slot, and that packets find their way. */
static void test_one(void **state)
{
	struct eg_err err = {0};
	struct np_link l;
	int again = -1;

	(void)state;
	if (np_slot_make(&w, &gw, 5, &ns[5], &err))
		fail_msg("%s", err.text);
	assert_int_equal(np_link_get(gw.rtnl, 1005, NULL, &l, &err), 0);
	assert_string_equal(l.name, "eg-00005");
	assert_int_equal(l.group, EG_LINK_GROUP);
	assert_true(l.carrier);
	assert_true(l.flags & IFF_NOARP);
	assert_int_equal(
		nsw_inside(ns[5],
			   "ip addr show eth0 | grep -q 'inet 10.200.0.22/30'"),
		0);
	assert_int_equal(
		nsw_inside(ns[5], "test $(ip -6 addr show eth0 | wc -l) = 0"), 0);
	assert_int_equal(
		nsw_inside(ns[5],
			   "ip neigh | grep -q '^10.200.0.21 .*lladdr 0a:e6:00:00:05:01 PERMANENT'"),
		0);
	assert_int_equal(
		nsw_inside(ns[5],
			   "ip -d link show eth0 | grep -q 'addrgenmode none numtxqueues 1 numrxqueues 1'"),
		0);
	assert_int_equal(
		nsw_inside(gw.ns,
			   "test $(ip addr show eg-00005 | grep -c inet) = 0"),
		0);
	/* to the host's end of the gateway's link: refused is reached */
	assert_int_equal(
		nsw_inside(ns[5],
			   "timeout 2 bash -c 'exec 3<>/dev/tcp/10.201.0.1/9' 2>&1 | grep -q refused"),
		0);
	/* the gateway's end is still there: it is deleted, then made anew */
	if (np_slot_make(&w, &gw, 5, &again, &err))
		fail_msg("%s", err.text);
	assert_int_not_equal(nsw_inside(ns[5], "ip link show eth0 2>/dev/null"),
			     0);
	(void)close(ns[5]);
	ns[5] = again;
	assert_int_equal(np_slot_down(&w, &gw, 5, &err), 0);
	assert_int_equal(np_link_get(gw.rtnl, 1005, NULL, &l, &err), 0);
	assert_false(l.flags & IFF_UP);
	np_link_delete(gw.rtnl, 1005);
	assert_int_equal(np_rtnl_commit(gw.rtnl, &err), 0);
	assert_int_equal(np_slot_down(&w, &gw, 5, &err), 0);
	eg_close_p(&ns[5]);
}

/* The floor: namespace and pair, both ends up, no addresses. */
static double floor_ms(void)
{
	int64_t t = eg_boot_ns();

	for (uint32_t i = 0; i < SLOTS; i++) {
		const struct np_link_change up = {.up = true};
		static const uint8_t a[6] = {2, 0, 0, 0, 0, 1};
		struct np_rtnl *r = NULL;
		struct eg_err err;
		char name[EG_IFNAME];
		struct np_veth v = {.name = "eth0",
				    .peer_name = eg_plan_ifname(name, i),
				    .index = 20,
				    .peer_index = 1000 + i,
				    .mac = a,
				    .peer_mac = a,
				    .peer_ns = gw.ns,
				    .mtu = 1500};

		assert_int_equal(unshare(CLONE_NEWNET), 0);
		ns[i] = np_netns_self(&err);
		assert_int_equal(np_rtnl_open(&r, &err), 0);
		np_link_veth(r, &v);
		np_link_change(r, 20, &up, "up", 0);
		assert_int_equal(np_rtnl_commit(r, &err), 0);
		np_rtnl_close(r);
		assert_int_equal(setns(w.home, CLONE_NEWNET), 0);
		np_link_change(gw.rtnl, 1000 + i, &up, "up", 0);
		assert_int_equal(np_rtnl_commit(gw.rtnl, &err), 0);
	}
	return (double)(eg_boot_ns() - t) / 1e6 / SLOTS;
}

static void empty(void)
{
	uint32_t index[SLOTS];
	struct eg_err err;
	int64_t t = eg_boot_ns();

	for (uint32_t i = 0; i < SLOTS; i++)
		index[i] = 1000 + i;
	assert_int_equal(np_link_delete_many(gw.rtnl, index, SLOTS, &err), 0);
	for (uint32_t i = 0; i < SLOTS; i++)
		eg_close_p(&ns[i]);
	printf("  deleting %d slots' links: %.3f ms a slot\n", SLOTS,
	       (double)(eg_boot_ns() - t) / 1e6 / SLOTS);
}

static void test_fill(void **state)
{
	struct eg_err err = {0};
	double base = floor_ms(), full;
	int64_t t;

	(void)state;
	empty();
	t = eg_boot_ns();
	for (uint32_t i = 0; i < SLOTS; i++)
		if (np_slot_make(&w, &gw, i, &ns[i], &err))
			fail_msg("%s", err.text);
	full = (double)(eg_boot_ns() - t) / 1e6 / SLOTS;
	printf("  %d slots: %.3f ms a slot, bare namespace and pair %.3f ms, ratio %.2f\n",
	       SLOTS, full, base, full / base);
	assert_int_equal(
		nsw_inside(gw.ns, "test $(ip -o link | grep -c 'eg-[0-9]') = 256"),
		0);
	empty();
	assert_int_equal(
		nsw_inside(gw.ns, "test $(ip -o link | grep -c 'eg-[0-9]') = 0"),
		0);
}

static int attach(void *arg, struct eg_err *err)
{
	struct ifreq ifr = {.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR};
	int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC);

	(void)err;
	(void)snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "tap0");
	if (fd < 0 || ioctl(fd, TUNSETIFF, &ifr) < 0)
		return -errno;
	*(int *)arg = fd;
	return 0;
}

static void test_tap(void **state)
{
	struct eg_guest g = {.mode = EG_GUEST_TAP,
			     .mac = {6, 0, 0xac, 0x10, 0, 2},
			     .addr_len = 30,
			     .address = 0xac100002,
			     .gateway = 0xac100001,
			     .owner_uid = 1001,
			     .owner_gid = UINT32_MAX,
			     .tap = "tap0"};
	struct eg_err err = {0};
	bool carrier = true;
	int fd = -1, mon;

	(void)state;
	if (access("/dev/net/tun", R_OK | W_OK)) {
		printf("SKIP test_tap: no /dev/net/tun\n");
		return;
	}
	assert_int_equal(np_slot_make(&w, &gw, 7, &ns[7], &err), 0);
	assert_int_equal(np_slot_tap_monitor(&w, ns[7], &carrier, &err), -ENODEV);
	if (np_slot_guest(&w, 1500, 7, ns[7], &g, &err))
		fail_msg("%s", err.text);
	if (np_slot_guest(&w, 1500, 7, ns[7], &g, &err)) /* again */
		fail_msg("%s", err.text);
	assert_int_equal(
		nsw_inside(ns[7],
			   "ip addr show tap0 | grep -q 'inet 172.16.0.1/30'"),
		0);
	assert_int_equal(
		nsw_inside(ns[7], "ip link show tap0 | grep -q 06:00:ac:10:00:01"),
		0);
	assert_int_equal(
		nsw_inside(ns[7],
			   "ip neigh | grep -q '172.16.0.2 .*06:00:ac:10:00:02 PERMANENT'"),
		0);
	assert_int_equal(
		nsw_inside(ns[7], "ip -d link show tap0 | grep -q 'user 1001'"),
		0);
	assert_int_equal(
		nsw_inside(ns[7],
			   "test $(cat /proc/sys/net/ipv4/conf/tap0/forwarding)$(cat /proc/sys/net/ipv4/conf/eth0/forwarding) = 11"),
		0);
	mon = np_slot_tap_monitor(&w, ns[7], &carrier, &err);
	assert_true(mon >= 0);
	assert_false(carrier);
	assert_int_equal(np_netns_run(w.home, ns[7], attach, &fd, &err), 0);
	assert_int_equal(np_slot_guest(&w, 1500, 7, ns[7], &g, &err), -EBUSY);
	(void)close(fd);
	(void)close(mon);
	/* nonsense */
	g.gateway = 0xac100005;
	assert_int_equal(np_slot_guest(&w, 1500, 7, ns[7], &g, &err), -EINVAL);
	(void)snprintf(g.tap, sizeof(g.tap), "eth0");
	assert_int_equal(np_slot_guest(&w, 1500, 7, ns[7], &g, &err), -EINVAL);
	eg_close_p(&ns[7]);
}

static void test_route(void **state)
{
	struct eg_guest g = {.mode = EG_GUEST_ROUTE,
			     .mac = {6, 0, 0xac, 0x10, 0, 2},
			     .owner_uid = UINT32_MAX,
			     .owner_gid = UINT32_MAX,
			     .tap = "tap0"};
	struct eg_err err = {0};

	(void)state;
	if (access("/dev/net/tun", R_OK | W_OK)) {
		printf("SKIP test_route: no /dev/net/tun\n");
		return;
	}
	assert_int_equal(np_slot_make(&w, &gw, 8, &ns[8], &err), 0);
	for (int i = 0; i < 2; i++)
		if (np_slot_guest(&w, 1500, 8, ns[8], &g, &err))
			fail_msg("%s", err.text);
	assert_int_equal(
		nsw_inside(ns[8], "test $(ip -4 addr show dev eth0 | wc -l) = 0"),
		0);
	assert_int_equal(
		nsw_inside(ns[8], "ip route | grep -q '^10.200.0.34 dev tap0'"),
		0);
	assert_int_equal(
		nsw_inside(ns[8],
			   "ip route | grep -q '^default via 10.200.0.33 dev eth0'"),
		0);
	assert_int_equal(
		nsw_inside(ns[8],
			   "ip neigh | grep -q '^10.200.0.33 dev eth0 lladdr 0a:e6:00:00:08:01 PERMANENT'"),
		0);
	assert_int_equal(
		nsw_inside(ns[8],
			   "test $(cat /proc/sys/net/ipv4/conf/tap0/proxy_arp)$(cat /proc/sys/net/ipv4/neigh/tap0/proxy_delay) = 10"),
		0);
	eg_close_p(&ns[8]);
}

/* A caller's namespace: what is made hangs on the link, all else is his. */
static void test_adopt(void **state)
{
	struct eg_err err = {0};
	struct np_link l;
	int his = -1;

	(void)state;
	assert_int_equal(np_netns_make(w.home, NULL, NULL, &his, &err), 0);
	if (np_slot_adopt(&w, &gw, 9, his, "net1", &err))
		fail_msg("%s", err.text);
	assert_int_equal(np_link_get(gw.rtnl, 1009, NULL, &l, &err), 0);
	assert_string_equal(l.name, "eg-00009");
	assert_int_equal(l.group, EG_ADOPT_GROUP);
	assert_true(l.carrier);
	assert_true(l.flags & IFF_NOARP);
	assert_int_equal(
		nsw_inside(his,
			   "ip addr show net1 | grep -q 'inet 10.200.0.38/30'"),
		0);
	assert_int_equal(
		nsw_inside(his,
			   "test $(ip -6 addr show net1 | wc -l) = 0 && ip -d link show net1 | grep -q 'addrgenmode none'"),
		0);
	assert_int_equal(
		nsw_inside(his,
			   "ip route | grep -q '^default via 10.200.0.37 dev net1'"),
		0);
	assert_int_equal(
		nsw_inside(his, "ip link show lo | grep -q 'state DOWN'"), 0);
	/* to the host's end of the gateway's link: refused is reached */
	assert_int_equal(
		nsw_inside(his,
			   "timeout 2 bash -c 'exec 3<>/dev/tcp/10.201.0.1/9' 2>&1 | grep -q refused"),
		0);
	/* taken */
	assert_int_equal(np_slot_adopt(&w, &gw, 10, his, "net2", &err), -EEXIST);
	assert_non_null(strstr(err.text, "net1"));
	/* a gateway, and the host, have links of ours as well */
	assert_int_equal(np_slot_adopt(&w, &gw, 10, gw.ns, "net2", &err),
			 -EEXIST);
	assert_int_equal(np_slot_adopt(&w, &gw, 10, w.home, "net2", &err),
			 -EEXIST);
	np_link_delete(gw.rtnl, 1009);
	assert_int_equal(np_rtnl_commit(gw.rtnl, &err), 0);
	assert_int_equal(
		nsw_inside(his, "test $(ip -o link | grep -vc lo:) = 0"), 0);
	assert_int_equal(
		nsw_inside(his,
			   "test $(ip -o route show table all | wc -l)$(ip neigh | wc -l) = 00"),
		0);
	(void)close(his);
}

static void test_adopt_refused(void **state)
{
	struct eg_err err = {0};
	struct np_link l;
	int his = -1;

	(void)state;
	assert_int_equal(np_netns_make(w.home, NULL, NULL, &his, &err), 0);
	assert_int_equal(
		nsw_inside(his,
			   "ip link add net1 type bridge && ip link set net1 up && ip addr add 10.9.9.1/24 dev net1 && ip route add default via 10.9.9.2"),
		0);
	assert_int_equal(np_slot_adopt(&w, &gw, 9, his, "net1", &err), -EINVAL);
	assert_non_null(strstr(err.text, "a link named net1"));
	assert_int_equal(np_slot_adopt(&w, &gw, 9, his, "eth0", &err), -EINVAL);
	assert_non_null(strstr(err.text, "default route"));
	assert_int_equal(
		nsw_inside(his, "ip route | grep -q '^default via 10.9.9.2 dev net1' && test $(ip -o link | wc -l) = 2"),
		0);
	assert_int_equal(np_link_get(gw.rtnl, 1009, NULL, &l, &err), -ENODEV);
	/* a default route of lower rank is no obstacle, and is his again */
	assert_int_equal(
		nsw_inside(his, "ip route replace default via 10.9.9.2 metric 7 && ip route del default metric 0"),
		0);
	if (np_slot_adopt(&w, &gw, 9, his, "eth0", &err))
		fail_msg("%s", err.text);
	/* its end is the link's end */
	(void)close(his);
	for (int i = 0; i < 1000; i++) { /* the kernel takes its time */
		if (np_link_get(gw.rtnl, 1009, NULL, &l, &err) == -ENODEV)
			return;
		(void)usleep(20000);
	}
	fail_msg("a link outlives the namespace of its other end");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parse), cmocka_unit_test(test_one),
		cmocka_unit_test(test_fill),  cmocka_unit_test(test_tap),
		cmocka_unit_test(test_route), cmocka_unit_test(test_adopt),
		cmocka_unit_test(test_adopt_refused),
	};
	struct eg_err err;

	if (nsw_enter("slot_test"))
		return 0;
	nsw_conf(&conf, SLOTS, SLOTS);
	memset(ns, 0xff, sizeof(ns));
	w.home = np_netns_self(&err);
	np_gateway_init(&gw, 0);
	if (np_rtnl_open(&w.rtnl, &err) || np_host_netns_dir(&conf, &err) ||
	    np_gateway_open(&w, &gw, 1500, &err) || np_gateway_up(&w, &gw, &err)) {
		printf("%s\n", err.text);
		return 1;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
