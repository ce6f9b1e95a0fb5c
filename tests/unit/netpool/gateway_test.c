// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: gateways and their sockets, against the kernel
 */
#include "netpool/base/plan.h"
#include "netpool/base/util.h"
#include "netpool/gateway.h"
#include "netpool/host.h"
#include "netpool/link.h"
#include "netpool/netns.h"
#include "netpool/sysctl.h"
#include "tests/lib/nsworld.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cmocka.h>

/* A closed port that refuses has been reached. */
#define REACH                                                                  \
	"timeout 2 bash -c 'exec 3<>/dev/tcp/10.201.0.2/9' 2>&1 | grep -q refused"

static struct eg_conf conf;
static struct np_world w = {.conf = &conf, .home = -1};

static void test_ranges(void **state)
{
	struct eg_conf c;
	struct eg_prefix p[32];

	(void)state;
	nsw_conf(&c, 16384, 256);
	assert_int_equal(np_gateway_ranges(&c, 63, p), 1);
	assert_int_equal(p[0].addr, 0x0ac8fc00);
	assert_int_equal(p[0].len, 22);
	nsw_conf(&c, 300, 100);
	/* 100 slots from 10.200.1.144: /28 /27 /26 /25 /25 ... exact cover */
	for (uint32_t g = 0; g < 3; g++) {
		size_t n = np_gateway_ranges(&c, g, p);
		uint32_t at = c.prefix.addr + 400 * g;

		for (size_t i = 0; i < n; i++) {
			assert_int_equal(p[i].addr, at);
			assert_int_equal(p[i].addr & ~eg_prefix_mask(p[i].len),
					 0);
			at = eg_prefix_last(p[i]) + 1;
		}
		assert_int_equal(at, c.prefix.addr + 400 * (g + 1));
	}
	nsw_conf(&c, 1, 256);
	assert_int_equal(np_gateway_ranges(&c, 0, p), 1);
	assert_int_equal(p[0].len, 30);
}

static void test_host(void **state)
{
	struct eg_err err = {0};
	bool changed = false;
	uint32_t v = 0, mtu = 0;

	(void)state;
	assert_int_equal(np_sysctl_set("ipv4/ip_forward", 0, &err), 0);
	assert_int_equal(np_host_netns_dir(&conf, &err), 0);
	assert_int_equal(np_host_forward(&conf, &changed, &err), 0);
	assert_true(changed);
	assert_int_equal(np_host_forward(&conf, &changed, &err), 0);
	assert_false(changed);
	assert_int_equal(nsw_run("test $(wc -l < /run/egressd/host.before) = 3"),
			 0);
	assert_int_equal(np_host_mtu(&conf, w.rtnl, &mtu, &err), 0);
	assert_int_equal(mtu, 1500);
	conf.mtu = 1440;
	assert_int_equal(np_host_mtu(&conf, w.rtnl, &mtu, &err), 0);
	assert_int_equal(mtu, 1440);
	conf.mtu = 0;
	assert_int_equal(np_host_restore(&conf, &err), 0);
	assert_int_equal(np_sysctl_get("ipv4/ip_forward", &v, &err), 0);
	assert_int_equal(v, 0);
	assert_int_equal(access("/run/netns", F_OK), -1);
	assert_int_equal(nsw_mounts("/run/netns"), 0);
	assert_int_equal(np_host_restore(&conf, &err), 0);
	assert_int_equal(np_host_netns_dir(&conf, &err), 0);
	assert_int_equal(np_host_forward(&conf, &changed, &err), 0);
}

static void test_gateway(void **state)
{
	struct eg_err err = {0};
	struct np_gateway gw;
	struct np_link l;

	(void)state;
	np_gateway_init(&gw, 1);
	if (np_gateway_open(&w, &gw, 1440, &err))
		fail_msg("%s", err.text);
	assert_false(gw.adopted);
	/* down until told otherwise */
	assert_int_equal(np_link_get(w.rtnl, 0, "eg-gw-01", &l, &err), 0);
	assert_int_equal(l.flags & 1, 0);
	assert_int_equal(l.mtu, 1440);
	assert_int_equal(np_link_get(gw.rtnl, EG_IFINDEX_UPLINK, NULL, &l, &err),
			 0);
	assert_string_equal(l.name, "up0");
	assert_int_equal(l.flags & 1, 0);
	if (np_gateway_up(&w, &gw, &err))
		fail_msg("%s", err.text);
	assert_int_equal(nsw_run(REACH), 0);
	assert_int_equal(
		nsw_run("ip route | grep -q '^10.200.4.0/22 via 10.201.0.2 dev eg-gw-01'"),
		0);
	assert_int_equal(nsw_run("ip neigh | grep -q '^10.201.0.2 .*PERMANENT'"),
			 0);
	assert_int_equal(
		nsw_inside(gw.ns,
			   "ip route | grep -q '^default via 10.201.0.3 dev up0'"),
		0);
	assert_int_equal(
		nsw_inside(gw.ns,
			   "ip rule | grep -q '^100:.*fwmark 0xfe/0xff lookup 100'"),
		0);
	assert_int_equal(
		nsw_inside(gw.ns,
			   "ip route show table 100 | grep -q '^local default dev lo'"),
		0);
	assert_int_equal(
		nsw_inside(gw.ns,
			   "test $(cat /proc/sys/net/ipv4/ip_forward) = 1 -a $(cat /proc/sys/net/ipv4/icmp_ratelimit) = 0 -a $(cat /proc/sys/net/ipv4/conf/up0/send_redirects) = 0 -a $(cat /proc/sys/net/netfilter/nf_conntrack_tcp_loose) = 0"),
		0);
	assert_int_equal(nsw_inside(gw.ns, "test $(ip -6 addr | wc -l) = 0"), 0);
	assert_int_equal(
		nsw_run("test $(ip -6 addr show dev eg-gw-01 | wc -l) = 0"), 0);
	np_gateway_close(&gw);
}

/* Found by its name, as it was; a link that went is made again. */
static void test_adopt(void **state)
{
	struct eg_err err = {0};
	struct np_gateway gw;

	(void)state;
	np_gateway_init(&gw, 1);
	assert_int_equal(np_gateway_open(&w, &gw, 1500, &err), 0);
	assert_true(gw.adopted);
	assert_int_equal(gw.mtu, 1440);
	assert_int_equal(nsw_run(REACH), 0);
	/* asking again changes nothing */
	assert_int_equal(np_gateway_open(&w, &gw, 1500, &err), 0);
	assert_int_equal(np_gateway_up(&w, &gw, &err), 0);
	assert_int_equal(nsw_run("ip link del eg-gw-01"), 0);
	assert_int_equal(np_gateway_open(&w, &gw, 1500, &err), 0);
	assert_int_equal(np_gateway_up(&w, &gw, &err), 0);
	assert_int_equal(nsw_run(REACH), 0);
	np_gateway_close(&gw);
	/* a dead pin is not a gateway, a foreign link not ours to delete */
	assert_int_equal(
		nsw_run("touch /run/netns/eg-gw-00; ip link add eg-gw-00 type veth peer xx"),
		0);
	np_gateway_init(&gw, 0);
	assert_int_equal(np_gateway_open(&w, &gw, 1500, &err), -EEXIST);
	assert_non_null(strstr(err.text, "eg-gw-00"));
	np_gateway_close(&gw);
	assert_int_equal(nsw_run("ip link del eg-gw-00"), 0);
	np_gateway_init(&gw, 0);
	assert_int_equal(np_gateway_open(&w, &gw, 1500, &err), 0);
	np_gateway_close(&gw);
}

static void test_sockets(void **state)
{
	struct np_gateway_sockets s, t;
	struct eg_err err = {0};
	struct np_gateway gw;
	struct sockaddr_in sa;
	socklen_t len = sizeof(sa);
	int all[4];

	(void)state;
	np_gateway_init(&gw, 0);
	assert_int_equal(np_gateway_open(&w, &gw, 1500, &err), 0);
	if (np_gateway_sockets(&w, &gw, &s, &err))
		fail_msg("%s", err.text);
	all[0] = s.nflog;
	all[1] = s.packet;
	all[2] = s.dns_udp;
	all[3] = s.dns_tcp;
	for (size_t i = 0; i < 4; i++) {
		assert_true(fcntl(all[i], F_GETFD) & FD_CLOEXEC);
		assert_true(fcntl(all[i], F_GETFL) & O_NONBLOCK);
	}
	assert_int_equal(getsockname(s.dns_udp, (struct sockaddr *)&sa, &len), 0);
	assert_int_equal(ntohs(sa.sin_port), 53);
	/* one listener a group, as the kernel has it */
	assert_int_equal(np_gateway_sockets(&w, &gw, &t, &err), -EPERM);
	np_gateway_sockets_close(&s);
	if (np_gateway_sockets(&w, &gw, &s, &err))
		fail_msg("%s", err.text);
	np_gateway_sockets_close(&s);
	np_gateway_close(&gw);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ranges),	cmocka_unit_test(test_host),
		cmocka_unit_test(test_gateway), cmocka_unit_test(test_adopt),
		cmocka_unit_test(test_sockets),
	};
	struct eg_err err;

	if (nsw_enter("gateway_test"))
		return 0;
	nsw_conf(&conf, 512, 256);
	w.home = np_netns_self(&err);
	if (np_rtnl_open(&w.rtnl, &err))
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
