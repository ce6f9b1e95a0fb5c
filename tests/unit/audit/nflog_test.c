// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: tests of NFLOG reading against the real kernel, in a network
 * namespace of the test's own: every packet arrives with mark and number,
 * and what a small buffer loses is exactly the gap.
 */
#include "audit/nflog.h"
#include "tests/lib/au_world.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netlink.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define GROUP 1
#define MARK 0x12345604U

struct got {
	uint64_t n, payload, marks, ports;
	size_t caplen;
};

static void take(void *arg, const struct au_nflog_pkt *p)
{
	struct got *g = arg;

	g->n++;
	g->marks += p->mark == MARK;
	g->caplen = p->caplen;
	g->ports += p->caplen >= 28 && p->payload[9] == 17;
	g->payload += p->caplen;
}

static bool ready(const char *test)
{
	if (au_world_netns() &&
	    !au_world_run(
		    "nft add table inet t &&"
		    "nft 'add chain inet t c { type filter hook output priority 0; }' &&"
		    "nft 'add rule inet t c udp dport 9999 meta mark set 0x12345604 log prefix \"not-allowed\" group 1' &&"
		    "nft 'add rule inet t c udp dport 9999 counter drop'"))
		return true;
	print_message("SKIP %s: no network namespace or no nft\n", test);
	return false;
}

static int open_bound(uint32_t snaplen)
{
	struct eg_err err = {0};
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK,
			NETLINK_NETFILTER);

	assert_true(fd >= 0);
	if (au_nflog_bind(fd, GROUP, snaplen, &err))
		fail_msg("%s", err.text);
	return fd;
}

static void send_some(int n)
{
	struct sockaddr_in to = {.sin_family = AF_INET,
				 .sin_port = htons(9999),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	char body[300] = "x";
	int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	assert_true(s >= 0);
	for (int i = 0; i < n; i++) /* EPERM: the rule drops it */
		(void)sendto(s, body, sizeof(body), 0, (struct sockaddr *)&to,
			     sizeof(to));
	close(s);
}

/* Until it has been quiet for longer than the flush time. */
static void read_all(struct au_nflog *n)
{
	struct pollfd p = {.fd = n->fd, .events = POLLIN};

	while (poll(&p, 1, 60) > 0)
		assert_true(au_nflog_read(n, 8) >= 0);
}

static void test_all(void **state)
{
	struct au_nflog n;
	struct got g = {0};
	int fd;

	(void)state;
	if (!ready("audit/nflog all"))
		skip();
	fd = open_bound(64);
	au_nflog_init(&n, fd, take, &g);
	for (int i = 0; i < 50; i++) {
		send_some(100);
		assert_true(au_nflog_read(&n, 64) >= 0);
	}
	read_all(&n);
	assert_int_equal(g.n, 5000);
	assert_int_equal(g.marks, 5000);
	assert_int_equal(g.caplen, 64);
	assert_int_equal(n.gap, 0);
	assert_int_equal(n.malformed, 0);
	close(fd);
}

/* A buffer for a few datagrams: delivered + gap = sent, whatever happened. */
static void test_loss(void **state)
{
	struct au_nflog n;
	struct got g = {0};
	int fd, size = 4096;

	(void)state;
	if (!ready("audit/nflog loss"))
		skip();
	fd = open_bound(128);
	assert_int_equal(
		setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)),
		0);
	au_nflog_init(&n, fd, take, &g);
	send_some(1);
	read_all(&n);
	assert_int_equal(g.n, 1);
	send_some(20000);
	read_all(&n);
	send_some(1); /* its number shows what is missing in front of it */
	read_all(&n);
	print_message("delivered %llu, gap %llu, ENOBUFS %llu\n",
		      (unsigned long long)g.n, (unsigned long long)n.gap,
		      (unsigned long long)n.nobufs);
	assert_true(n.gap > 0);
	assert_true(n.nobufs > 0);
	assert_int_equal(g.n + n.gap, 20002);
	close(fd);
}

static void test_second_bind(void **state)
{
	struct eg_err err = {0};
	int fd, fd2;

	(void)state;
	if (!ready("audit/nflog second bind"))
		skip();
	fd = open_bound(128);
	fd2 = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER);
	assert_int_equal(au_nflog_bind(fd2, GROUP, 128, &err), -EPERM);
	assert_non_null(strstr(err.text, "group 1"));
	close(fd2);
	close(fd);
}

/* Random octets and cut messages: no crash, no callback out of bounds. */
static void test_garbage(void **state)
{
	uint8_t *buf = aligned_alloc(8, 512);
	struct got g = {0};
	struct au_nflog n;
	unsigned int seed = 5;

	(void)state;
	au_nflog_init(&n, -1, take, &g);
	for (int round = 0; round < 100000; round++) {
		size_t len = (size_t)rand_r(&seed) % 512;
		uint32_t nl = (uint32_t)rand_r(&seed) % 600;

		for (size_t i = 0; i < len; i++)
			buf[i] = (uint8_t)(rand_r(&seed) >> 5);
		if (len > 24) {
			uint16_t type = 4 << 8, alen = (uint16_t)(nl % 64);

			memcpy(buf, &nl, 4);
			memcpy(buf + 4, &type, 2);
			memcpy(buf + 20, &alen, 2);
		}
		au_nflog_parse(&n, buf, len);
	}
	assert_true(n.malformed > 0);
	free(buf);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all),
		cmocka_unit_test(test_loss),
		cmocka_unit_test(test_second_bind),
		cmocka_unit_test(test_garbage),
	};

	return cmocka_run_group_tests_name("audit/nflog", tests, NULL, NULL);
}
