// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd tests: the guard on real sockets: a gateway and a sandbox in
 * namespaces of their own, UDP and TCP, a whole role loop with an upstream
 * in the gateway's namespace. Port 53 is bound directly, without TPROXY.
 *
 * The guest's calls and the loop run in one process: the loop is stepped
 * until the guest's socket is readable.
 */
#include "dnsguard/listen.h"
#include "dnsguard/sock.h"
#include "netpool/base/plan.h"
#include "netpool/base/util.h"
#include "tests/lib/dns_world.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <cmocka.h>

extern char **environ;

#define GUEST "10.200.0.2"
#define GATEWAY "10.200.0.1"

struct rig {
	struct dw *w;
	struct eg_loop *loop;
	struct dg_listen *listen;
	struct dg_sock *sock;
	struct dg_guard *guard;
	struct eg_timer *step;
	int gw_ns, guest_ns, upstream;
	unsigned int pins, denials;
};

static struct rig rig;

static int ip(const char *args)
{
	char copy[256], *argv[32], *save;
	pid_t pid;
	int n = 0, status;

	(void)snprintf(copy, sizeof(copy), "ip %s", args);
	for (char *t = strtok_r(copy, " ", &save); t && n < 31;
	     t = strtok_r(NULL, " ", &save))
		argv[n++] = t;
	argv[n] = NULL;
	if (posix_spawnp(&pid, "ip", NULL, NULL, argv, environ))
		return -1;
	return waitpid(pid, &status, 0) == pid ? status : -1;
}

static struct sockaddr_in sin4(const char *a, uint16_t port)
{
	return (struct sockaddr_in){.sin_family = AF_INET,
				    .sin_port = htons(port),
				    .sin_addr.s_addr = inet_addr(a)};
}

/* ---- the guard's side --------------------------------------------------- */

static void op_reply(void *arg, const struct dg_client *to, const uint8_t *msg,
		     size_t len)
{
	struct rig *r = arg;

	dg_listen_reply(r->listen, to, msg, len);
}

static void op_silence(void *arg, const struct dg_client *to)
{
	struct rig *r = arg;

	dg_listen_silence(r->listen, to);
}

/* Pins to acknowledge in the next step. */
static struct {
	uint64_t cookie;
	struct eg_md_pinned ack;
} pending[128];
static unsigned int npending;

static int op_pin(void *arg, uint64_t cookie, const struct eg_dm_pin *m)
{
	struct rig *r = arg;

	r->pins++;
	if (npending == EG_ARRAY_SIZE(pending))
		return -ENOBUFS;
	pending[npending].cookie = cookie;
	pending[npending++].ack = (struct eg_md_pinned){
		.slot = m->slot, .generation = m->generation};
	return 0;
}

static int op_denial(void *arg, const struct eg_da_denial *m)
{
	struct rig *r = arg;

	(void)m;
	r->denials++;
	return 0;
}

static void op_name(void *arg, const struct eg_da_name *m)
{
	(void)arg;
	(void)m;
}

static const struct dg_ops ops = {op_reply, op_silence, op_pin, op_denial,
				  op_name};

static void turn(struct rig *r)
{
	dg_guard_time(r->guard, eg_loop_now_ns(r->loop), eg_wall_ns());
}

static void on_query(void *arg, const struct dg_client *from,
		     const uint8_t *msg, size_t len)
{
	struct rig *r = arg;

	turn(r);
	dg_guard_query(r->guard, from, msg, len);
}

static const struct dg_listen_ops listen_ops = {.query = on_query};

static int up_send(void *arg, uint32_t req, uint32_t server, bool tcp,
		   const uint8_t *msg, size_t len)
{
	struct rig *r = arg;

	return dg_sock_send(r->sock, req, server, tcp, msg, len);
}

static void up_close(void *arg, uint32_t req)
{
	struct rig *r = arg;

	dg_sock_close(r->sock, req);
}

static void on_up_datagram(void *arg, uint32_t req, const uint8_t *msg, size_t len)
{
	struct rig *r = arg;

	turn(r);
	dg_up_on_datagram(dg_guard_up(r->guard), req, msg, len,
			  eg_loop_now_ns(r->loop));
}

static void on_up_stream(void *arg, uint32_t req, const uint8_t *msg, size_t len)
{
	struct rig *r = arg;

	turn(r);
	dg_up_on_stream(dg_guard_up(r->guard), req, msg, len,
			eg_loop_now_ns(r->loop));
}

static void on_up_error(void *arg, uint32_t req)
{
	struct rig *r = arg;

	turn(r);
	dg_up_on_error(dg_guard_up(r->guard), req, eg_loop_now_ns(r->loop));
}

static const struct dg_sock_ops sock_ops = {on_up_datagram, on_up_stream,
					    on_up_error};

static void on_step(void *arg)
{
	struct rig *r = arg;

	turn(r);
	while (npending) {
		npending--;
		dg_guard_pinned(r->guard, pending[npending].cookie,
				&pending[npending].ack);
	}
	dg_listen_flush(r->listen);
	eg_loop_stop(r->loop);
}

/* Run the loop in small steps until @fd is readable, at most @ms. */
static bool pump(int fd, int ms)
{
	for (int i = 0; i < ms; i++) {
		struct pollfd p = {.fd = fd, .events = POLLIN};

		eg_timer_set(rig.step, 1000);
		(void)eg_loop_run(rig.loop);
		if (fd >= 0 && poll(&p, 1, 0) > 0)
			return true;
	}
	return false;
}

/* ---- the world ---------------------------------------------------------- */

static int bound(int type, const char *addr, uint16_t port)
{
	struct sockaddr_in sa = sin4(addr, port);
	int one = 1, fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(
		setsockopt(fd, IPPROTO_IP, IP_TRANSPARENT, &one, sizeof(one)), 0);
	assert_int_equal(
		setsockopt(fd, IPPROTO_IP, IP_PKTINFO, &one, sizeof(one)), 0);
	assert_int_equal(setsockopt(fd, IPPROTO_IP, IP_RECVORIGDSTADDR, &one,
				    sizeof(one)),
			 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	if (type == SOCK_STREAM)
		assert_int_equal(listen(fd, 64), 0);
	return fd;
}

static bool make_links(void)
{
	char cmd[128];

	if (unshare(CLONE_NEWNET))
		return false;
	rig.guest_ns = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	(void)ip("link set lo up");
	if (unshare(CLONE_NEWNET))
		return false;
	rig.gw_ns = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	(void)snprintf(cmd, sizeof(cmd), "link set eth0 netns /proc/%d/fd/%d",
		       getpid(), rig.guest_ns);
	return !ip("link set lo up") &&
	       !ip("link add gw0 index 1000 type veth peer name eth0") &&
	       !ip(cmd) && !ip("addr add " GATEWAY "/30 dev gw0") &&
	       !ip("link set gw0 up") && !setns(rig.guest_ns, CLONE_NEWNET) &&
	       !ip("addr add " GUEST "/30 dev eth0") &&
	       !ip("addr add 10.200.0.3/32 dev lo") && !ip("link set eth0 up") &&
	       !ip("route add default via " GATEWAY) &&
	       !setns(rig.gw_ns, CLONE_NEWNET);
}

static int setup(void **state)
{
	struct eg_md_lease m = {.slot = 0, .generation = 5};
	struct dg_policy *p;
	struct dw *w = dw_new();

	(void)state;
	rig.w = w;
	if (geteuid() || !make_links())
		return 0; /* each test says that it is skipped */
	w->conf.upstreams = 1;
	w->conf.upstream[0] = (struct eg_conf_upstream){0x7f000001, 5300};
	(void)dw_entry(w, RL_EXACT, "ok.example");
	(void)dw_entry(w, RL_EXACT, "big.example");
	assert_int_equal(eg_loop_new(&rig.loop), 0);
	rig.step = eg_timer_new(rig.loop, on_step, &rig);
	assert_int_equal(dg_listen_new(&rig.listen, rig.loop, &w->conf,
				       &listen_ops, &rig),
			 0);
	assert_int_equal(dg_sock_new(&rig.sock, rig.loop, w->conf.upstream, 1,
				     &sock_ops, &rig),
			 0);
	w->conf.dns_rate = w->conf.dns_burst = 100000;
	assert_int_equal(dg_guard_new(&rig.guard, &w->conf, &ops, up_send,
				      up_close, &rig),
			 0);
	turn(&rig);
	assert_int_equal(dg_policies_add(dg_guard_policies(rig.guard), w->prog,
					 NULL, &p),
			 0);
	assert_int_equal(dg_guard_lease(rig.guard, &m, p), 0);
	assert_int_equal(dg_listen_add(rig.listen, 0, false,
				       bound(SOCK_DGRAM, "0.0.0.0", 53)),
			 0);
	assert_int_equal(dg_listen_add(rig.listen, 0, true,
				       bound(SOCK_STREAM, "0.0.0.0", 53)),
			 0);
	rig.upstream = bound(SOCK_DGRAM, "127.0.0.1", 5300);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	dg_guard_free(rig.guard);
	dg_listen_free(rig.listen);
	dg_sock_free(rig.sock);
	eg_timer_free(rig.step);
	eg_loop_free(rig.loop);
	dw_free(rig.w);
	return 0;
}

#define NEED_RIG()                                                                  \
	do {                                                                        \
		if (!rig.guard) {                                                   \
			print_message(                                              \
				"SKIP %s: needs root, ip and network namespaces\n", \
				__func__);                                          \
			skip();                                                     \
		}                                                                   \
	} while (0)

/* A socket of the sandbox. */
static int guest(int type, const char *from)
{
	struct sockaddr_in sa = sin4(from, 0);
	int fd;

	assert_int_equal(setns(rig.guest_ns, CLONE_NEWNET), 0);
	fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);
	assert_int_equal(setns(rig.gw_ns, CLONE_NEWNET), 0);
	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	return fd;
}

static int guest_connected(int type, const char *to)
{
	struct sockaddr_in sa = sin4(to, 53);
	int fd = guest(type, GUEST);

	assert_int_equal(connect(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	return fd;
}

static size_t question(uint8_t *b, uint16_t id, const char *name)
{
	struct eg_name n = dw_name(name);

	return dw_query(b, id, &n, DG_T_A, DG_C_IN, false);
}

/* Answer what the upstream was asked with one address. */
static void upstream_answers(void)
{
	struct sockaddr_in from;
	socklen_t flen = sizeof(from);
	uint8_t b[600];
	ssize_t n;

	assert_true(pump(rig.upstream, 1000));
	n = recvfrom(rig.upstream, b, sizeof(b), 0, (struct sockaddr *)&from,
		     &flen);
	assert_true(n > 11);
	n -= 11;
	dg_put16(b + 2, DG_QR | DG_RD | DG_RA);
	dg_put16(b + 6, 1);
	dg_put16(b + 10, 0);
	memcpy(b + n, "\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4\xcb\0\x71\7", 16);
	n += 16;
	assert_int_equal(sendto(rig.upstream, b, (size_t)n, 0,
				(struct sockaddr *)&from, flen),
			 n);
}

/* ---- tests -------------------------------------------------------------- */

static void udp(void **state)
{
	uint8_t b[600];
	ssize_t n;
	int fd;

	(void)state;
	NEED_RIG();
	fd = guest_connected(SOCK_DGRAM, GATEWAY);
	n = (ssize_t)question(b, 0x4242, "evil.test");
	assert_int_equal(send(fd, b, (size_t)n, 0), n);
	assert_true(pump(fd, 1000));
	n = recv(fd, b, sizeof(b), 0);
	assert_true(n > 12);
	assert_int_equal(dg_get16(b), 0x4242);
	assert_int_equal(b[3] & 0xf, DG_NXDOMAIN);
	assert_int_equal(rig.denials, 1);
	n = (ssize_t)question(b, 0x4243, "ok.example");
	assert_int_equal(send(fd, b, (size_t)n, 0), n);
	upstream_answers();
	assert_true(pump(fd, 1000));
	n = recv(fd, b, sizeof(b), 0);
	assert_int_equal(b[3] & 0xf, DG_NOERROR);
	assert_int_equal(dg_get16(b + 6), 1);
	assert_int_equal(rig.pins, 1);
	(void)close(fd);
}

/* A source that is not the slot's gets nothing. */
static void spoofed(void **state)
{
	struct sockaddr_in sa = sin4(GATEWAY, 53);
	uint8_t b[600];
	size_t n = question(b, 1, "evil.test");
	unsigned int before = rig.denials;
	int fd;

	(void)state;
	NEED_RIG();
	fd = guest(SOCK_DGRAM, "10.200.0.3");
	(void)sendto(fd, b, n, 0, (struct sockaddr *)&sa, sizeof(sa));
	assert_false(pump(fd, 50));
	assert_true(rig.denials <= before + 1);
	(void)close(fd);
}

static size_t framed(uint8_t *b, uint16_t id, const char *name)
{
	size_t n = question(b + 2, id, name);

	dg_put16(b, (unsigned int)n);
	return n + 2;
}

/* Read exactly one answer of a stream. */
static size_t read_answer(int fd, uint8_t *b)
{
	size_t got = 0, want = 2;

	while (got < want) {
		ssize_t n;

		assert_true(pump(fd, 1000));
		n = recv(fd, b + got, want - got, 0);
		assert_true(n > 0);
		got += (size_t)n;
		if (got >= 2)
			want = 2U + dg_get16(b);
	}
	return want - 2;
}

/* One octet at a time, several at once, half-closed. */
static void tcp(void **state)
{
	uint8_t b[8192];
	size_t n = framed(b, 7, "evil.test"), all = 0;
	int fd;

	(void)state;
	NEED_RIG();
	fd = guest_connected(SOCK_STREAM, GATEWAY);
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(send(fd, b + i, 1, 0), 1);
		(void)pump(-1, 1);
	}
	(void)read_answer(fd, b);
	assert_int_equal(dg_get16(b + 2), 7);
	assert_int_equal(b[5] & 0xf, DG_NXDOMAIN);
	for (uint16_t i = 0; i < 60; i++)
		all += framed(b + all, i, i % 2 ? "ok.example" : "evil.test");
	assert_int_equal(send(fd, b, all, 0), all);
	assert_int_equal(shutdown(fd, SHUT_WR), 0);
	for (int i = 0; i < 60; i++)
		(void)read_answer(fd, b);
	assert_true(pump(fd, 1000));
	assert_int_equal(recv(fd, b, sizeof(b), 0), 0);
	(void)close(fd);
}

/* The 65th query of a connection is not answered; the 64 before it are. */
static void tcp_query_limit(void **state)
{
	uint8_t b[8192];
	size_t all = 0;
	int fd;

	(void)state;
	NEED_RIG();
	fd = guest_connected(SOCK_STREAM, GATEWAY);
	for (uint16_t i = 0; i < 100; i++)
		all += framed(b + all, i, "evil.test");
	assert_int_equal(send(fd, b, all, 0), all);
	for (int i = 0; i < DG_TCP_QUERIES; i++)
		(void)read_answer(fd, b);
	assert_true(pump(fd, 1000));
	assert_int_equal(recv(fd, b, sizeof(b), 0), 0);
	(void)close(fd);
	(void)pump(-1, 5);
}

static void tcp_oversize(void **state)
{
	uint8_t b[600];
	size_t n = framed(b, 9, "evil.test");
	int fd;

	(void)state;
	NEED_RIG();
	fd = guest_connected(SOCK_STREAM, GATEWAY);
	dg_put16(b, 65508);
	assert_int_equal(send(fd, b, n, 0), n);
	(void)read_answer(fd, b);
	assert_int_equal(b[5] & 0xf, DG_FORMERR);
	assert_true(pump(fd, 1000));
	assert_int_equal(recv(fd, b, sizeof(b), 0), 0);
	(void)close(fd);
	(void)pump(-1, 5);
}

static void tcp_connection_limit(void **state)
{
	int fd[DG_TCP_SLOT + 1];
	uint8_t b[16];

	(void)state;
	NEED_RIG();
	for (int i = 0; i <= DG_TCP_SLOT; i++)
		fd[i] = guest_connected(SOCK_STREAM, GATEWAY);
	assert_true(pump(fd[DG_TCP_SLOT], 1000));
	assert_true(recv(fd[DG_TCP_SLOT], b, sizeof(b), 0) <= 0);
	assert_false(pump(fd[0], 20));
	dg_listen_cut(rig.listen, 0);
	assert_true(pump(fd[0], 1000));
	for (int i = 0; i <= DG_TCP_SLOT; i++)
		(void)close(fd[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(udp),
		cmocka_unit_test(spoofed),
		cmocka_unit_test(tcp),
		cmocka_unit_test(tcp_query_limit),
		cmocka_unit_test(tcp_oversize),
		cmocka_unit_test(tcp_connection_limit),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
