// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: tests of the packet socket over a real veth pair in a network
 * namespace of the test's own: what is let through by the filter, and as
 * what it is counted.
 */
#include "audit/decode.h"
#include "audit/packet.h"
#include "netpool/base/plan.h"
#include "tests/lib/au_world.h"

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

struct got {
	unsigned int n[EG_REASON_COUNT], frames;
	uint32_t ifindex;
	uint8_t last[AU_FRAME_MAX];
	size_t caplen, len;
};

static void take(void *arg, const struct au_frame_in *f)
{
	struct got *g = arg;

	g->n[f->reason]++;
	g->frames++;
	g->ifindex = f->ifindex;
	g->caplen = f->caplen;
	g->len = f->len;
	memcpy(g->last, f->data, f->caplen);
}

/* s1 is the slot link (index 1000), p1 the sandbox's end; u1 an uplink. */
static bool ready(const char *test)
{
	if (au_world_netns() &&
	    !au_world_run("ip link add s1 index 1000 type veth peer name p1 &&"
			  "ip link add u1 index 900 type veth peer name u2 &&"
			  "for i in s1 p1 u1 u2; do"
			  " echo 1 > /proc/sys/net/ipv6/conf/$i/disable_ipv6;"
			  " ip link set $i arp off; ip link set $i up; done;"
			  "ip link set s1 address 0a:e6:00:00:00:01;"
			  "ip link set p1 address 0a:e6:00:00:00:02"))
		return true;
	print_message("SKIP %s: no network namespace or no veth\n", test);
	return false;
}

static void send_frame(const char *dev, const void *frame, size_t len)
{
	struct sockaddr_ll to = {.sll_family = AF_PACKET,
				 .sll_halen = 6,
				 .sll_ifindex = (int)if_nametoindex(dev)};
	int s = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);

	assert_true(s >= 0);
	assert_int_equal(
		sendto(s, frame, len, 0, (struct sockaddr *)&to, sizeof(to)),
		(ssize_t)len);
	close(s);
}

static void frame(uint8_t *f, size_t len, uint8_t dst_last, uint16_t type)
{
	memset(f, 0, len);
	memcpy(f, "\x0a\xe6\x00\x00\x00\x01", 6);
	f[5] = dst_last;
	memcpy(f + 6, "\x0a\xe6\x00\x00\x00\x02", 6);
	f[12] = (uint8_t)(type >> 8);
	f[13] = (uint8_t)type;
}

static void read_all(struct au_packet *p)
{
	struct pollfd pf = {.fd = p->fd, .events = POLLIN};

	while (poll(&pf, 1, 50) > 0)
		assert_true(au_packet_read(p, 16) >= 0);
}

static void test_classes(void **state)
{
	struct eg_err err = {0};
	struct got g = {0};
	struct au_packet p;
	struct au_decoded d;
	uint8_t f[200];
	int fd;

	(void)state;
	if (!ready("audit/packet classes"))
		skip();
	fd = au_packet_open(&err);
	if (fd < 0)
		fail_msg("%s", err.text);
	au_packet_init(&p, fd, 128, take, &g);
	frame(f, sizeof(f), 1, ETH_P_IPV6);
	f[14] = 0x60;
	for (int i = 0; i < 5; i++)
		send_frame("p1", f, 100);
	frame(f, sizeof(f), 1, ETH_P_ARP);
	for (int i = 0; i < 3; i++)
		send_frame("p1", f, 60);
	frame(f, sizeof(f), 1, 0x88b5);
	send_frame("p1", f, 60);
	frame(f, sizeof(f), 1, ETH_P_IP); /* the rules' business */
	f[14] = 0x45;
	send_frame("p1", f, 60);
	frame(f, sizeof(f), 7, ETH_P_IP); /* to nobody here: no hook sees it */
	f[14] = 0x45;
	send_frame("p1", f, 60);
	frame(f, sizeof(f), 1, ETH_P_ARP);
	send_frame("u2", f, 60); /* the uplink's own */
	send_frame("s1", f, 60); /* outgoing on the slot's link */
	read_all(&p);
	assert_int_equal(g.n[EG_REASON_IPV6], 5);
	assert_int_equal(g.n[EG_REASON_NEIGHBOUR], 4);
	assert_int_equal(g.n[EG_REASON_ETHERTYPE], 1);
	assert_int_equal(g.frames, 10);
	assert_int_equal(g.ifindex, EG_IFINDEX_SLOT);
	/* a tag, which the kernel takes out of the frame, and IPv4 in it */
	frame(f, sizeof(f), 1, ETH_P_8021Q);
	f[15] = 42;
	f[16] = 0x08;
	f[18] = 0x45;
	send_frame("p1", f, 190);
	read_all(&p);
	assert_int_equal(g.n[EG_REASON_ETHERTYPE], 2);
	au_decode_frame(g.last, g.caplen, &d);
	assert_true(d.has_vlan && d.has_ip4);
	assert_int_equal(d.vlan, 42);
	assert_int_equal(g.caplen, 128 + 14);
	assert_int_equal(g.len, 190);
	close(fd);
}

/* Frames read and frames dropped are all there were. */
static void test_drops(void **state)
{
	struct eg_err err = {0};
	struct got g = {0};
	struct au_packet p;
	uint8_t f[60];
	int fd, size = 4096;

	(void)state;
	if (!ready("audit/packet drops"))
		skip();
	fd = au_packet_open(&err);
	assert_true(fd >= 0);
	assert_int_equal(
		setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)),
		0);
	au_packet_init(&p, fd, 128, take, &g);
	frame(f, sizeof(f), 1, ETH_P_IPV6);
	for (int i = 0; i < 2000; i++)
		send_frame("p1", f, sizeof(f));
	read_all(&p);
	au_packet_stats(&p);
	au_packet_stats(&p); /* reading resets the kernel's counters */
	assert_true(p.dropped > 0);
	assert_int_equal(p.frames + p.dropped, 2000);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_classes),
		cmocka_unit_test(test_drops),
	};

	return cmocka_run_group_tests_name("audit/packet", tests, NULL, NULL);
}
