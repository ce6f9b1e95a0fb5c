// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The host's guard and the table of a slot in tap mode, with real packets.
 */
#include "netpool/base/util.h"
#include "tests/unit/rules/world.h"

#include <linux/netfilter.h>

#define OK(call)                                                               \
	do {                                                                   \
		int rc_ = (call);                                              \
		if (rc_)                                                       \
			fail_msg("%s: %d %s", #call, rc_, err.text);           \
	} while (0)

#define GW_SIDE A4(10, 200, 0, 2)
#define GUEST A4(172, 16, 0, 2)

static struct ns gw, net;
static struct rl_host *host;
static struct rl_nl *nl;

/* This namespace is the host: eg-gw-00 (index 50) to a gateway in which
 * anything may be sent, n0 to an Internet at 198.51.100.7. */
static int setup(void **state)
{
	(void)state;
	conf_init(2);
	gateway_ns();
	gw = ns_make();
	net = ns_make();
	sh("ip link add eg-gw-00 index 50 address 0a:e6:00:00:00:01 type veth peer name eth0 index 20 address 0a:e6:00:00:00:02 netns %d",
	   gw.pid);
	sh("ip addr add 10.201.0.1/31 dev eg-gw-00; ip link set eg-gw-00 up; ip route add 10.200.0.0/22 via 10.201.0.0; ip neigh add 10.201.0.0 lladdr 0a:e6:00:00:00:02 dev eg-gw-00 nud permanent");
	in(&gw,
	   "ip addr add 10.201.0.0/31 dev eth0; ip addr add 10.200.0.2/32 dev lo; ip link set eth0 up; ip route add default via 10.201.0.1 src 10.200.0.2; ip route replace 10.201.0.1/32 dev eth0 src 10.200.0.2");
	sh("ip link add n0 type veth peer name eth0 netns %d; ip addr add 203.0.113.1/24 dev n0; ip link set n0 up; ip route add 198.51.100.0/24 via 203.0.113.2",
	   net.pid);
	in(&net,
	   "ip addr add 203.0.113.2/24 dev eth0; ip link set eth0 up; ip addr add 198.51.100.7/32 dev lo; ip route add 10.200.0.0/16 via 203.0.113.1");
	OK(rl_host_open(&host, &conf, nfnl(), &err));
	OK(rl_host_install(host, &err));
	OK(rl_host_install(host, &err)); /* again: the same */
	OK(rl_nl_open(&nl, nfnl(), true, NFPROTO_INET, EG_TABLE, &err));
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	rl_nl_close(nl);
	rl_host_close(host);
	ns_end(&gw);
	ns_end(&net);
	return 0;
}

static uint64_t dropped(enum eg_reason r)
{
	struct rl_ask ask = {.set = "denied"};
	struct rl_found f;

	rl_key_host(&ask.key, 50);
	rl_key_host(&ask.key, r);
	OK(rl_get(nl, &ask, &f, 1, &err));
	return f.packets;
}

static void test_guard(void **state)
{
	static const struct {
		struct pkt p;
		enum eg_reason want;
	} all[] = {
		{{.dst = A4(10, 201, 0, 1)}, EG_REASON_HOST},
		{{.dst = A4(203, 0, 113, 1)}, EG_REASON_HOST},
		{{.dst = A4(10, 200, 3, 2)}, EG_REASON_HOST},
		{{.dst = A4(169, 254, 169, 254)}, EG_REASON_METADATA},
		{{.src = A4(10, 200, 4, 2), .dst = A4(198, 51, 100, 7)},
		 EG_REASON_SPOOFED},
		{{.src = A4(8, 8, 8, 8), .dst = A4(198, 51, 100, 7)},
		 EG_REASON_SPOOFED},
	};
	int fd, l;

	(void)state;
	if (!have_nft("test_guard"))
		skip();
	/* a port some other tool publishes on the host's own address */
	sh("nft 'add table ip other; add chain ip other pre { type nat hook prerouting priority -100; }; add rule ip other pre ip daddr 203.0.113.1 tcp dport 8080 dnat to 198.51.100.7:443'");
	l = listen_at(&net, 0, 443);
	fd = packet_sock(&gw);
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		struct pkt p = all[i].p;
		uint64_t was = dropped(all[i].want);

		p.proto = IPPROTO_TCP;
		p.flags = 2;
		p.sport = (uint16_t)(1000 + i);
		p.dport = 8080;
		p.src = p.src ? p.src : GW_SIDE;
		inject(fd, 0, &p);
		assert_int_equal(dropped(all[i].want), was + 1);
	}
	assert_int_equal(dial(&gw, A4(203, 0, 113, 1), 8080, 200), -ETIMEDOUT);
	close(fd);
	fd = dial(&gw, A4(198, 51, 100, 7), 443, 5000);
	assert_true(fd >= 0);
	close(fd);
	close(l);
}

static void test_masquerade(void **state)
{
	struct sockaddr_in peer;
	socklen_t len = sizeof(peer);
	char text[64];
	int l, c, s;

	(void)state;
	l = listen_at(&net, 0, 443);
	c = dial(&gw, A4(198, 51, 100, 7), 443, 5000);
	assert_true(c >= 0);
	s = accept4(l, (struct sockaddr *)&peer, &len, SOCK_CLOEXEC);
	assert_int_equal(ntohl(peer.sin_addr.s_addr), A4(203, 0, 113, 1));
	close(c);
	close(s);
	close(l);
	/* nobody outside starts anything towards a gateway */
	l = listen_at(&gw, 0, 7777);
	assert_int_equal(dial(&net, GW_SIDE, 7777, 200), -ETIMEDOUT);
	close(l);
	OK(rl_host_remove(host, &err));
	OK(rl_host_remove(host, &err));
	assert_int_equal(rl_table_comment(nl, text, sizeof(text), &err), -ENOENT);
}

static void test_permit(void **state)
{
	int l, c;

	(void)state;
	l = listen_at(NULL, A4(10, 201, 0, 1), 8081);
	assert_int_equal(dial(&gw, A4(10, 201, 0, 1), 8081, 200), -ETIMEDOUT);
	conf.permit_host[0] = (struct eg_conf_permit){
		.dst = {A4(10, 201, 0, 1), 32},
		.proto = IPPROTO_TCP,
		.lo = 8081,
		.hi = 8081,
	};
	conf.permits_host = 1;
	OK(rl_host_install(host, &err));
	c = dial(&gw, A4(10, 201, 0, 1), 8081, 5000);
	assert_true(c >= 0);
	close(c);
	close(l);
}

/*
 * This namespace is the slot: tap0 (a veth standing for it) to a guest,
 * eth0 to a gateway.
 */
static void test_slot_nat(void **state)
{
	struct eg_guest g = {.mode = EG_GUEST_TAP,
			     .address = GUEST,
			     .gateway = A4(172, 16, 0, 1),
			     .addr_len = 30,
			     .tap = "tap0"};
	struct sockaddr_in peer, to;
	socklen_t len = sizeof(peer);
	struct pkt p = {.src = GUEST,
			.dst = A4(198, 51, 100, 7),
			.proto = IPPROTO_TCP,
			.sport = 5,
			.dport = 443,
			.flags = 0x10};
	struct ns guest, out;
	uint8_t f[2048];
	int l, c, s, fd, raw;

	(void)state;
	conf_init(2);
	gateway_ns();
	guest = ns_make();
	out = ns_make();
	sh("ip link add tap0 index 60 address 0a:e6:00:00:00:01 type veth peer name eth0 index 20 address 0a:e6:00:00:00:02 netns %d; ip addr add 172.16.0.1/30 dev tap0; ip link set tap0 up",
	   guest.pid);
	in(&guest,
	   "ip addr add 172.16.0.2/30 dev eth0; ip link set eth0 up; ip route add default via 172.16.0.1");
	sh("ip link add eth0 type veth peer name eth0 index 20 netns %d; ip addr add 10.200.0.2/30 dev eth0; ip link set eth0 up; ip route add default via 10.200.0.1",
	   out.pid);
	in(&out,
	   "ip addr add 10.200.0.1/30 dev eth0; ip link set eth0 up; ip addr add 198.51.100.7/32 dev lo");
	c = nfnl();
	OK(rl_slot_nat(c, &conf, 0, &g, &err));
	OK(rl_slot_nat(c, &conf, 0, &g, &err));
	g.mode = EG_GUEST_ROUTE;
	assert_int_equal(rl_slot_nat(c, &conf, 0, &g, &err), -EINVAL);
	close(c);

	l = listen_at(&out, 0, 443);
	c = dial(&guest, A4(198, 51, 100, 7), 443, 2000);
	assert_true(c >= 0);
	s = accept4(l, (struct sockaddr *)&peer, &len, SOCK_CLOEXEC);
	assert_int_equal(ntohl(peer.sin_addr.s_addr), A4(10, 200, 0, 2));
	close(c);
	close(s);
	close(l);
	/* the resolver of a snapshot is its own gateway */
	to = sin4(0, 53);
	fd = sock_in(&out, AF_INET, SOCK_DGRAM, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	to = sin4(A4(172, 16, 0, 1), 53);
	c = sock_in(&guest, AF_INET, SOCK_DGRAM, 0);
	assert_int_equal(connect(c, (struct sockaddr *)&to, sizeof(to)), 0);
	assert_int_equal(send(c, "q", 1, 0), 1);
	assert_true(readable(fd, 500));
	assert_int_equal(
		recvfrom(fd, f, sizeof(f), 0, (struct sockaddr *)&peer, &len), 1);
	assert_int_equal(sendto(fd, "a", 1, 0, (struct sockaddr *)&peer, len), 1);
	assert_true(readable(c, 500));
	close(c);
	close(fd);
	/* a segment of a flow from before the snapshot: a reset, and nothing
	 * with the guest's address outside */
	raw = sock_in(&out, AF_PACKET, SOCK_DGRAM, htons(ETH_P_IP));
	fd = packet_sock(&guest);
	inject(fd, 0, &p);
	while (readable(raw, 200))
		if (recv(raw, f, sizeof(f), 0) >= 20)
			assert_int_not_equal(f[12], 172);
	close(raw);
	close(fd);
	ns_end(&guest);
	ns_end(&out);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_guard),
		T(test_masquerade),
		T(test_permit),
		cmocka_unit_test(test_slot_nat),
	};

	NEEDS_ROOT(EG_ARRAY_SIZE(tests));
	return cmocka_run_group_tests_name("rules/host", tests, NULL, NULL);
}
