// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The gateway's table with real packets: a gateway, two slots and an Internet
 * in namespaces of the test's own.
 */
#include "netpool/base/util.h"
#include "tests/unit/rules/world.h"

#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_log.h>
#include <netinet/ip_icmp.h>

#define GEN_A 0x500000011ULL
#define GEN_B 0x500000022ULL
#define FAST_MS 500

#define WEB A4(198, 51, 100, 7)
#define WEB2 A4(198, 51, 100, 8)
#define INTERNAL A4(10, 3, 0, 10)
#define METADATA A4(169, 254, 169, 254)

static struct ns slot[2], world;
static struct rl_gw *gw;
static struct rl_prog *prog;
static int web = -1;

static struct rl_prog *program(void)
{
	struct rl_prog *p = calloc(1, sizeof(*p) + 8 * sizeof(p->entry[0]));

	assert_non_null(p);
	return p;
}

static void allow(struct rl_prog *p, uint32_t addr, uint8_t len, uint8_t proto,
		  uint16_t lo, uint16_t hi, uint32_t phases)
{
	struct rl_entry *e = &p->entry[p->nentries++];

	*e = (struct rl_entry){.kind = RL_PREFIX,
			       .phases = phases,
			       .nports = 1,
			       .dst = {addr, len}};
	e->port[0] = (struct eg_port){.proto = proto, .lo = lo, .hi = hi};
}

#define OK(call)                                                               \
	do {                                                                   \
		int rc_ = (call);                                              \
		if (rc_)                                                       \
			fail_msg("%s: %d %s", #call, rc_, err.text);           \
	} while (0)

static int setup(void **state)
{
	(void)state;
	conf_init(2);
	gateway_ns();
	world = ns_make();
	world_link(&world);
	OK(rl_gw_open(&gw, &conf, 0, nfnl(), &err));
	OK(rl_gw_install(gw, &err));
	for (uint32_t i = 0; i < 2; i++) {
		slot[i] = ns_make();
		slot_link(i, &slot[i]);
	}
	prog = program();
	web = listen_at(&world, 0, 443);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	rl_gw_close(gw);
	gw = NULL;
	free(prog);
	close(web);
	for (int i = 0; i < 2; i++)
		ns_end(&slot[i]);
	ns_end(&world);
	return 0;
}

static struct rl_lease lease(uint32_t s, uint64_t generation)
{
	return (struct rl_lease){.slot = s, .generation = generation};
}

static void lease_slot(uint32_t s, uint64_t generation)
{
	struct rl_lease l = lease(s, generation);

	OK(rl_gw_lease(gw, &l, prog, &err));
}

static void pin(uint32_t s, uint64_t generation, uint32_t addr, uint16_t port)
{
	struct eg_port p = {.proto = IPPROTO_TCP, .lo = port, .hi = port};

	OK(rl_gw_pin(gw, s, generation, NULL, &addr, 1, &p, 1, 60, &err));
}

static struct eg_reason_counts counts[EG_REASONS];
static uint64_t unattributed;

/* All denials of a lease; checks the law on the way. */
static uint64_t denied(uint32_t s, uint64_t generation)
{
	uint64_t n = 0, parts = 0;

	OK(rl_gw_counters(gw, s, generation, counts, &unattributed, &err));
	for (size_t i = 0; i < EG_REASONS; i++) {
		n += counts[i].denied;
		parts += counts[i].suppressed + counts[i].sent;
	}
	assert_int_equal(n, parts + unattributed);
	return n;
}

/* ---- the deny matrix ----------------------------------------------------- */

static const struct {
	const char *name;
	struct pkt p;
	enum eg_reason want;
} matrix[] = {
	{"tcp raw address",
	 {.dst = WEB, .proto = IPPROTO_TCP, .dport = 443, .flags = 2},
	 EG_REASON_NOT_ALLOWED},
	{"udp raw address",
	 {.dst = WEB, .proto = IPPROTO_UDP, .dport = 443},
	 EG_REASON_NOT_ALLOWED},
	{"icmp echo",
	 {.dst = WEB, .proto = IPPROTO_ICMP, .icmp_type = 8},
	 EG_REASON_NOT_ALLOWED},
	{"gre", {.dst = WEB, .proto = 47}, EG_REASON_NOT_ALLOWED},
	{"proto 253", {.dst = WEB, .proto = 253}, EG_REASON_NOT_ALLOWED},
	{"sctp", {.dst = WEB, .proto = IPPROTO_SCTP, .dport = 9}, EG_REASON_COUNT},
	{"dot",
	 {.dst = A4(8, 8, 8, 8), .proto = IPPROTO_TCP, .dport = 853, .flags = 2},
	 EG_REASON_NOT_ALLOWED},
	{"metadata",
	 {.dst = METADATA, .proto = IPPROTO_TCP, .dport = 80, .flags = 2},
	 EG_REASON_METADATA},
	{"metadata udp",
	 {.dst = METADATA, .proto = IPPROTO_UDP, .dport = 80},
	 EG_REASON_METADATA},
	{"link-local",
	 {.dst = A4(169, 254, 1, 1), .proto = IPPROTO_UDP, .dport = 123},
	 EG_REASON_RESERVED},
	{"private 10/8",
	 {.dst = INTERNAL, .proto = IPPROTO_TCP, .dport = 443, .flags = 2},
	 EG_REASON_PRIVATE},
	{"private 172.16/12",
	 {.dst = A4(172, 31, 255, 255), .proto = IPPROTO_UDP, .dport = 1},
	 EG_REASON_PRIVATE},
	{"private 192.168/16",
	 {.dst = A4(192, 168, 0, 1), .proto = IPPROTO_ICMP, .icmp_type = 8},
	 EG_REASON_PRIVATE},
	{"shared 100.64/10",
	 {.dst = A4(100, 64, 0, 1), .proto = IPPROTO_TCP, .dport = 1, .flags = 2},
	 EG_REASON_PRIVATE},
	{"benchmark 198.18/15",
	 {.dst = A4(198, 19, 0, 1), .proto = IPPROTO_TCP, .dport = 1, .flags = 2},
	 EG_REASON_RESERVED},
	{"loopback",
	 {.dst = A4(127, 0, 0, 1), .proto = IPPROTO_TCP, .dport = 80, .flags = 2},
	 EG_REASON_RESERVED},
	{"loopback dns",
	 {.dst = A4(127, 0, 0, 53), .proto = IPPROTO_UDP, .dport = 53},
	 EG_REASON_RESERVED},
	{"zero",
	 {.dst = A4(0, 1, 2, 3), .proto = IPPROTO_UDP, .dport = 9},
	 EG_REASON_RESERVED},
	{"multicast",
	 {.dst = A4(239, 1, 1, 1), .proto = IPPROTO_UDP, .dport = 9},
	 EG_REASON_RESERVED},
	{"multicast dns",
	 {.dst = A4(224, 0, 0, 251), .proto = IPPROTO_UDP, .dport = 53},
	 EG_REASON_RESERVED},
	{"class e",
	 {.dst = A4(240, 0, 0, 1), .proto = IPPROTO_UDP, .dport = 9},
	 EG_REASON_RESERVED},
	{"broadcast",
	 {.dst = UINT32_MAX, .proto = IPPROTO_UDP, .dport = 67},
	 EG_REASON_RESERVED},
	{"other slot",
	 {.dst = A4(10, 200, 0, 6), .proto = IPPROTO_TCP, .dport = 80, .flags = 2},
	 EG_REASON_HOST},
	{"own gateway",
	 {.dst = A4(10, 200, 0, 1), .proto = IPPROTO_TCP, .dport = 80, .flags = 2},
	 EG_REASON_HOST},
	{"gateway's link",
	 {.dst = A4(10, 201, 0, 0), .proto = IPPROTO_TCP, .dport = 80, .flags = 2},
	 EG_REASON_HOST},
	{"host's link",
	 {.dst = A4(10, 201, 0, 1), .proto = IPPROTO_TCP, .dport = 22, .flags = 2},
	 EG_REASON_HOST},
	{"host's address",
	 {.dst = A4(203, 0, 113, 9), .proto = IPPROTO_TCP, .dport = 22, .flags = 2},
	 EG_REASON_HOST},
	{"spoofed neighbour",
	 {.src = A4(10, 200, 0, 6),
	  .dst = WEB,
	  .proto = IPPROTO_TCP,
	  .dport = 443,
	  .flags = 2},
	 EG_REASON_SPOOFED},
	{"spoofed public",
	 {.src = A4(8, 8, 8, 8), .dst = WEB, .proto = IPPROTO_UDP, .dport = 53},
	 EG_REASON_SPOOFED},
	{"spoofed loopback",
	 {.src = A4(127, 0, 0, 1), .dst = WEB, .proto = IPPROTO_UDP, .dport = 9},
	 EG_REASON_SPOOFED},
	{"foreign mac",
	 {.bad_mac = true, .dst = WEB, .proto = IPPROTO_TCP, .dport = 443, .flags = 2},
	 EG_REASON_SPOOFED},
	{"first fragment",
	 {.frag = 0x2000, .dst = WEB, .proto = IPPROTO_UDP, .dport = 443},
	 EG_REASON_FRAGMENT},
	{"lone fragment",
	 {.frag = 0x0010, .dst = WEB, .proto = IPPROTO_UDP, .dport = 443},
	 EG_REASON_FRAGMENT},
	{"fragment of dns",
	 {.frag = 0x2000, .dst = WEB, .proto = IPPROTO_UDP, .dport = 53},
	 EG_REASON_FRAGMENT},
	{"options",
	 {.options = true, .dst = WEB, .proto = IPPROTO_UDP, .dport = 443},
	 EG_REASON_INVALID},
	{"ttl 1",
	 {.ttl = 1, .dst = WEB, .proto = IPPROTO_UDP, .dport = 443},
	 EG_REASON_INVALID},
	{"ack without flow",
	 {.dst = WEB, .proto = IPPROTO_TCP, .dport = 443, .flags = 0x10},
	 EG_REASON_INVALID},
	{"null scan",
	 {.dst = WEB, .proto = IPPROTO_TCP, .dport = 443, .flags = 0},
	 EG_REASON_INVALID},
	{"xmas scan",
	 {.dst = WEB, .proto = IPPROTO_TCP, .dport = 443, .flags = 0x29},
	 EG_REASON_INVALID},
	{"icmp redirect",
	 {.dst = WEB, .proto = IPPROTO_ICMP, .icmp_type = 5},
	 EG_REASON_INVALID},
};

static void test_matrix(void **state)
{
	uint32_t host = A4(203, 0, 113, 9);
	uint64_t before, after;
	int fd;

	(void)state;
	lease_slot(0, GEN_A);
	OK(rl_gw_host(gw, &host, 1, &err));
	fd = packet_sock(&slot[0]);
	for (size_t i = 0; i < sizeof(matrix) / sizeof(matrix[0]); i++) {
		struct pkt p = matrix[i].p;
		uint64_t was[EG_REASONS];
		bool same = true;

		if (!p.src)
			p.src = A4(10, 200, 0, 2);
		p.sport = (uint16_t)(20000 + i);
		before = denied(0, GEN_A);
		for (size_t k = 0; k < EG_REASONS; k++)
			was[k] = counts[k].denied;
		inject(fd, 0, &p);
		after = denied(0, GEN_A);
		if (after != before + 1)
			fail_msg("%s: denied %llu times", matrix[i].name,
				 (unsigned long long)(after - before));
		if (matrix[i].want != EG_REASON_COUNT)
			same = counts[matrix[i].want].denied ==
			       was[matrix[i].want] + 1;
		for (size_t k = 0; !same && k < EG_REASONS; k++)
			if (counts[k].denied != was[k])
				fail_msg("%s: denied as %s, not %s",
					 matrix[i].name,
					 eg_reason_name((enum eg_reason)k),
					 eg_reason_name(matrix[i].want));
	}
	assert_int_equal(unattributed, 0);
	/* nothing of it was taken for the other slot */
	assert_int_equal(denied(1, GEN_B), 0);
	close(fd);
}

static void test_unleased(void **state)
{
	struct pkt p = {.src = A4(10, 200, 0, 2),
			.dst = WEB,
			.proto = IPPROTO_UDP,
			.dport = 53};
	int fd;

	(void)state;
	fd = packet_sock(&slot[0]);
	inject(fd, 0, &p);
	p.dport = 443;
	inject(fd, 0, &p);
	assert_int_equal(denied(0, 0), 2);
	assert_int_equal(counts[EG_REASON_UNLEASED].denied, 2);
	close(fd);
}

/* ---- what is allowed ----------------------------------------------------- */

static void test_pin_connect(void **state)
{
	uint64_t tb, tp, rb, rp;
	uint32_t bad[] = {METADATA, A4(10, 200, 9, 9), A4(10, 201, 0, 1),
			  A4(127, 0, 0, 1)};
	struct eg_port p = {.proto = IPPROTO_TCP, .lo = 443, .hi = 443};
	int fd;

	(void)state;
	lease_slot(0, GEN_A);
	lease_slot(1, GEN_B);
	/* a denied call fails at once, by a reset */
	assert_int_equal(dial(&slot[0], WEB, 443, FAST_MS), -ECONNREFUSED);
	pin(0, GEN_A, WEB, 443);
	fd = dial(&slot[0], WEB, 443, FAST_MS);
	assert_true(fd >= 0);
	close(fd);
	/* another port, another address, another slot: not */
	assert_int_equal(dial(&slot[0], WEB, 444, FAST_MS), -ECONNREFUSED);
	assert_int_equal(dial(&slot[0], WEB2, 443, FAST_MS), -ECONNREFUSED);
	assert_int_equal(dial(&slot[1], WEB, 443, FAST_MS), -ECONNREFUSED);
	OK(rl_gw_traffic(gw, 0, GEN_A, &tb, &tp, &rb, &rp, &err));
	assert_true(tp >= 3 && rp >= 1 && tb > rb && rb > 0);
	OK(rl_gw_traffic(gw, 1, GEN_B, &tb, &tp, &rb, &rp, &err));
	assert_int_equal(tp + rp, 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(
			rl_gw_pin(gw, 0, GEN_A, NULL, &bad[i], 1, &p, 1, 60, &err),
			-EPERM);
	bad[0] = WEB2;
	assert_int_equal(rl_gw_pin(gw, 0, GEN_B, NULL, bad, 1, &p, 1, 60, &err),
			 -ESTALE);
	p.hi = 508;
	assert_int_equal(rl_gw_pin(gw, 0, GEN_A, NULL, bad, 1, &p, 1, 60, &err),
			 -E2BIG);
	assert_int_equal(dial(&slot[0], WEB2, 443, FAST_MS), -ECONNREFUSED);
}

static void ping_ok(const struct ns *n, bool want)
{
	struct sockaddr_in to = sin4(WEB, 0);
	int fd = sock_in(n, AF_INET, SOCK_RAW, IPPROTO_ICMP);
	struct icmphdr h = {.type = ICMP_ECHO};
	uint8_t buf[256];
	bool ok = false;

	h.checksum = htons(csum(&h, sizeof(h), 0));
	assert_int_equal(sendto(fd, &h, sizeof(h), 0, (struct sockaddr *)&to,
				sizeof(to)),
			 sizeof(h));
	while (!ok && readable(fd, 200) && recv(fd, buf, sizeof(buf), 0) >= 28)
		ok = buf[20] == ICMP_ECHOREPLY;
	assert_int_equal(ok, want);
	close(fd);
}

static void test_policy(void **state)
{
	struct rl_lease l = lease(0, GEN_A);
	int fd;

	(void)state;
	allow(prog, A4(198, 51, 100, 0), 24, IPPROTO_TCP, 440, 450, 1);
	allow(prog, A4(198, 51, 100, 7), 32, IPPROTO_TCP, 443, 443, 1);
	allow(prog, A4(198, 51, 100, 7), 32, IPPROTO_ICMP, 8, 8, 2);
	l.phases = 1;
	OK(rl_gw_lease(gw, &l, prog, &err));
	ping_ok(&slot[0], false);
	fd = dial(&slot[0], WEB2, 443, FAST_MS);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(dial(&slot[0], WEB2, 451, FAST_MS), -ECONNREFUSED);
	pin(0, GEN_A, WEB2, 8443);
	assert_int_equal(rl_gw_pins(gw, 0, (struct rl_pin[4]){0}, 4), 1);
	l.phases = 2;
	OK(rl_gw_rephase(gw, &l, prog, &err));
	assert_int_equal(dial(&slot[0], WEB2, 443, FAST_MS), -ECONNREFUSED);
	assert_int_equal(rl_gw_pins(gw, 0, (struct rl_pin[4]){0}, 4), 0);
	ping_ok(&slot[0], true);
	l.phases = 3;
	OK(rl_gw_rephase(gw, &l, prog, &err));
	fd = dial(&slot[0], WEB, 443, FAST_MS);
	assert_true(fd >= 0);
	close(fd);
	/* the host's own address closes even a listed one */
	OK(rl_gw_host(gw, (uint32_t[]){WEB}, 1, &err));
	assert_int_equal(dial(&slot[0], WEB, 443, FAST_MS), -ECONNREFUSED);
}

static void test_quiet_and_report(void **state)
{
	struct rl_lease l = lease(0, GEN_A);
	int fd;

	(void)state;
	l.drop = true;
	OK(rl_gw_lease(gw, &l, prog, &err));
	assert_int_equal(dial(&slot[0], WEB, 443, 200), -ETIMEDOUT);
	l.drop = false;
	l.report = true;
	OK(rl_gw_rephase(gw, &l, prog, &err));
	fd = dial(&slot[0], WEB, 443, FAST_MS);
	assert_true(fd >= 0);
	close(fd);
	denied(0, GEN_A);
	assert_true(counts[EG_REASON_NOT_ALLOWED].denied >= 2);
	assert_int_equal(dial(&slot[0], INTERNAL, 443, FAST_MS), -ECONNREFUSED);
}

static void test_quota(void **state)
{
	struct rl_lease l = lease(0, GEN_A);
	int fd[4];

	(void)state;
	l.flows = 2;
	allow(prog, A4(198, 51, 100, 0), 24, IPPROTO_TCP, 443, 443,
	      RL_PHASES_ALL);
	OK(rl_gw_lease(gw, &l, prog, &err));
	for (int i = 0; i < 2; i++) {
		fd[i] = dial(&slot[0], WEB, 443, FAST_MS);
		assert_true(fd[i] >= 0);
	}
	assert_int_equal(dial(&slot[0], WEB, 443, FAST_MS), -ECONNREFUSED);
	denied(0, GEN_A);
	assert_int_equal(counts[EG_REASON_QUOTA].denied, 1);
	close(fd[0]);
	close(fd[1]);
	OK(rl_gw_unlease(gw, 0, GEN_A, &err));
	OK(rl_gw_scrub(gw, 0, GEN_A, &err));
}

/* ---- the end of a lease -------------------------------------------------- */

static bool passes(int from, int to)
{
	char c = 'x';

	if (send(from, &c, 1, MSG_NOSIGNAL | MSG_DONTWAIT) != 1)
		return false;
	return readable(to, 150) && recv(to, &c, 1, MSG_DONTWAIT) == 1;
}

static void test_unlease_cuts(void **state)
{
	int c, s, c2;

	(void)state;
	lease_slot(0, GEN_A);
	pin(0, GEN_A, WEB, 443);
	c = dial(&slot[0], WEB, 443, FAST_MS);
	assert_true(c >= 0);
	s = accept4(web, NULL, NULL, SOCK_CLOEXEC);
	assert_true(passes(c, s) && passes(s, c));
	OK(rl_gw_unlease(gw, 0, GEN_A, &err));
	assert_false(passes(s, c));
	assert_false(passes(c, s));
	OK(rl_gw_unlease(gw, 0, GEN_A, &err)); /* again: nothing to do */
	OK(rl_gw_scrub(gw, 0, GEN_A, &err));
	/* the next tenant: nothing of the former one works */
	lease_slot(0, GEN_B);
	assert_false(passes(s, c));
	assert_false(passes(c, s));
	assert_int_equal(dial(&slot[0], WEB, 443, FAST_MS), -ECONNREFUSED);
	assert_int_equal(rl_gw_unlease(gw, 0, GEN_A, &err), -ESTALE);
	pin(0, GEN_B, WEB, 443);
	c2 = dial(&slot[0], WEB, 443, FAST_MS);
	assert_true(c2 >= 0);
	assert_false(passes(s, c));
	close(c);
	close(c2);
	close(s);
}

static size_t elements(const char *set)
{
	struct rl_dump d = {0};
	size_t n;

	OK(rl_dump(gw->nl, set, &d, &err));
	n = d.n;
	rl_dump_free(&d);
	return n;
}

static void test_scrub(void **state)
{
	static const char *const all[] = {
		"p000",	 "x000",   "lease", "live",	  "tx",	     "rx",
		"quiet", "report", "flows", "newflows",	  "lograte", "share",
		"sent",	 "denied", "seen",  "suppressed", "dnsrate", "icmprate",
	};
	struct rl_lease l = lease(0, GEN_A);
	struct pkt p = {.src = A4(10, 200, 0, 2),
			.dst = WEB,
			.proto = IPPROTO_UDP,
			.dport = 53};
	int fd;

	(void)state;
	l.flows = 10;
	l.new_flows_s = 10;
	l.log_s = 5;
	allow(prog, A4(203, 0, 113, 0), 24, IPPROTO_TCP, 1, 9, RL_PHASES_ALL);
	OK(rl_gw_lease(gw, &l, prog, &err));
	pin(0, GEN_A, WEB, 443);
	fd = packet_sock(&slot[0]);
	inject(fd, 0, &p);
	for (uint16_t i = 0; i < 300; i++) {
		p.dport = (uint16_t)(1000 + i % 20);
		inject(fd, 0, &p);
	}
	assert_int_equal(denied(0, GEN_A), 300);
	assert_true(elements("seen") == 20 && elements("p000") == 1);
	assert_int_equal(rl_gw_scrub(gw, 0, GEN_B, &err), -ESTALE);
	OK(rl_gw_unlease(gw, 0, GEN_A, &err));
	OK(rl_gw_scrub(gw, 0, GEN_A, &err));
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (elements(all[i]))
			fail_msg("set %s is not empty", all[i]);
	assert_int_equal(denied(0, GEN_A), 0);
	close(fd);
}

/* ---- a new main ---------------------------------------------------------- */

static size_t reported;

static void on_pin(void *arg, const struct rl_pin *p)
{
	(void)arg;
	assert_int_equal(p->port, 443);
	assert_true(p->left_s > 50 && p->left_s <= 60);
	reported++;
}

static void test_takeover(void **state)
{
	struct rl_lease l = lease(0, GEN_A);
	struct rl_elem e = {0};
	int c, s;

	(void)state;
	allow(prog, A4(203, 0, 113, 0), 24, IPPROTO_TCP, 1, 9, RL_PHASES_ALL);
	lease_slot(0, GEN_A);
	pin(0, GEN_A, WEB, 443);
	pin(0, GEN_A, WEB2, 443);
	c = dial(&slot[0], WEB, 443, FAST_MS);
	s = accept4(web, NULL, NULL, SOCK_CLOEXEC);
	assert_int_equal(dial(&slot[0], INTERNAL, 443, FAST_MS), -ECONNREFUSED);
	rl_gw_close(gw);
	gw = NULL;
	assert_true(passes(c, s) && passes(s, c));
	OK(rl_gw_open(&gw, &conf, 0, nfnl(), &err));
	OK(rl_gw_adopt(gw, &err));
	/* somebody broke it meanwhile */
	rl_key_host(&e.key, 1000);
	rl_begin(gw->nl);
	rl_del(gw->nl, "lease", &e);
	rl_flush(gw->nl, "x000");
	OK(rl_commit(gw->nl, "test", &err));
	reported = 0;
	OK(rl_gw_take_over(gw, &l, prog, on_pin, NULL, &err));
	assert_int_equal(reported, 2);
	assert_int_equal(elements("lease"), 1);
	assert_int_equal(elements("x000"), 1);
	assert_true(passes(c, s) && passes(s, c));
	assert_true(denied(0, GEN_A) >= 1);
	close(c);
	close(s);
	c = dial(&slot[0], WEB2, 443, FAST_MS);
	assert_true(c >= 0);
	close(c);
	/* a main that took nothing over can still end a lease */
	rl_gw_close(gw);
	OK(rl_gw_open(&gw, &conf, 0, nfnl(), &err));
	assert_int_equal(rl_gw_unlease(gw, 0, GEN_B, &err), -ESTALE);
	OK(rl_gw_unlease(gw, 0, GEN_A, &err));
	OK(rl_gw_scrub(gw, 0, GEN_A, &err));
	conf.snaplen++;
	assert_int_equal(rl_gw_adopt(gw, &err), -EPROTO);
	rl_begin(gw->nl);
	rl_table_gone(gw->nl);
	OK(rl_commit(gw->nl, "test", &err));
	assert_int_equal(rl_gw_adopt(gw, &err), -ENOENT);
}

/* ---- pins and batches ---------------------------------------------------- */

static uint64_t pin_left(uint32_t addr)
{
	struct rl_ask ask = {.set = "p000"};
	struct rl_found f;

	rl_key_addr(&ask.key, addr);
	rl_key_u8(&ask.key, IPPROTO_TCP);
	rl_key_port(&ask.key, 443);
	OK(rl_get(gw->nl, &ask, &f, 1, &err));
	return f.present ? f.left_ms : 0;
}

static void test_pin_lifetimes(void **state)
{
	struct eg_port p = {.proto = IPPROTO_TCP, .lo = 443, .hi = 443};
	uint32_t a = WEB;

	(void)state;
	lease_slot(0, GEN_A);
	for (int refresh = 0; refresh < 2; refresh++) {
		if (refresh && !gw->refresh)
			break; /* this kernel has only the other way */
		bool can = gw->refresh;

		gw->refresh = refresh;
		a = WEB + (uint32_t)refresh;
		OK(rl_gw_pin(gw, 0, GEN_A, NULL, &a, 1, &p, 1, 100, &err));
		assert_true(pin_left(a) > 99000);
		OK(rl_gw_pin(gw, 0, GEN_A, NULL, &a, 1, &p, 1, 50, &err));
		assert_true(pin_left(a) > 98000);
		OK(rl_gw_pin(gw, 0, GEN_A, NULL, &a, 1, &p, 1, 200, &err));
		assert_true(pin_left(a) > 198000 && pin_left(a) <= 200000);
		a = WEB2 + 8 + (uint32_t)refresh;
		OK(rl_gw_pin(gw, 0, GEN_A, NULL, &a, 1, &p, 1, 1, &err));
		usleep(1200000);
		assert_int_equal(pin_left(a), 0);
		OK(rl_gw_pin(gw, 0, GEN_A, NULL, &a, 1, &p, 1, 30, &err));
		assert_true(pin_left(a) > 29000);
		gw->refresh = can;
	}
	assert_int_equal(rl_gw_pin(gw, 0, GEN_A, NULL, &a, 1, &p, 1, 0, &err), -EINVAL);
}

static void test_pin_cap(void **state)
{
	struct eg_port p = {.proto = IPPROTO_TCP, .lo = 443, .hi = 443};
	uint32_t a[64];

	(void)state;
	lease_slot(0, GEN_A);
	for (uint32_t i = 0; i < RL_PINS_MAX; i += 64) {
		for (uint32_t k = 0; k < 64; k++)
			a[k] = A4(203, 0, 0, 0) + i + k;
		OK(rl_gw_pin(gw, 0, GEN_A, NULL, a, 64, &p, 1, 600, &err));
	}
	assert_int_equal(elements("p000"), RL_PINS_MAX);
	a[0] = WEB;
	assert_int_equal(rl_gw_pin(gw, 0, GEN_A, NULL, a, 1, &p, 1, 600, &err),
			 -ENOSPC);
	/* what is there may still be extended */
	OK(rl_gw_pin(gw, 0, GEN_A, NULL, a + 1, 1, &p, 1, 600, &err));
	assert_int_equal(elements("p000"), RL_PINS_MAX);
}

static void test_failed_batch(void **state)
{
	struct rl_elem e = {.has_data = true, .data = 256}, bad = {0};

	(void)state;
	rl_key_host(&e.key, 1000);
	rl_key_host(&bad.key, 1000);
	rl_begin(gw->nl);
	rl_add(gw->nl, "lease", &e);
	rl_add(gw->nl, "nosuchset", &bad);
	assert_int_equal(rl_commit(gw->nl, "testing", &err), -ENOENT);
	assert_non_null(strstr(err.text, "nosuchset"));
	assert_int_equal(elements("lease"), 0);
	/* what cannot be put together is not sent at all */
	for (int i = 0; i < 12; i++)
		rl_key_host(&bad.key, 1);
	rl_begin(gw->nl);
	rl_add(gw->nl, "lease", &e);
	rl_add(gw->nl, "live", &bad);
	assert_int_equal(rl_commit(gw->nl, "testing", &err), -EOVERFLOW);
	assert_int_equal(elements("lease"), 0);
	/* thousands of errors: still one answer, and the socket goes on */
	rl_begin(gw->nl);
	for (int i = 0; i < 4000; i++)
		rl_flush(gw->nl, "nosuchset");
	assert_true(rl_commit(gw->nl, "testing", &err) < 0);
	lease_slot(0, GEN_A);
	assert_int_equal(elements("lease"), 1);
	{
		struct rl_lease l = lease(0, GEN_B);

		assert_int_equal(rl_gw_lease(gw, &l, prog, &err), -EBUSY);
		l.slot = 9;
		assert_int_equal(rl_gw_lease(gw, &l, prog, &err), -EINVAL);
		l.slot = 1;
		l.generation = 1ULL << 24;
		assert_int_equal(rl_gw_lease(gw, &l, prog, &err), -EINVAL);
	}
}

/* ---- the log ------------------------------------------------------------- */

static void nflog_cmd(int fd, uint16_t type, const void *data, uint16_t len)
{
	struct {
		struct nlmsghdr n;
		struct nfgenmsg g;
		struct nlattr a;
		uint8_t data[8];
	} m = {0};
	char answer[256];

	m.n.nlmsg_len =
		(uint32_t)(NLMSG_LENGTH(sizeof(m.g)) + 4U + (len + 3U) / 4 * 4);
	m.n.nlmsg_type = NFNL_SUBSYS_ULOG << 8 | NFULNL_MSG_CONFIG;
	m.n.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK;
	m.g.res_id = htons(EG_NFLOG_GROUP);
	m.a.nla_len = (uint16_t)(4 + len);
	m.a.nla_type = type;
	memcpy(m.data, data, len);
	assert_true(send(fd, &m, m.n.nlmsg_len, 0) > 0);
	assert_true(recv(fd, answer, sizeof(answer), 0) > 0);
}

static int nflog_open(void)
{
	struct nfulnl_msg_config_cmd cmd = {.command = NFULNL_CFG_CMD_BIND};
	struct nfulnl_msg_config_mode mode = {.copy_range = htonl(64),
					      .copy_mode = NFULNL_COPY_PACKET};
	int fd = nfnl(), big = 64 << 20;
	uint32_t flush = htonl(1);

	setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &big, sizeof(big));
	nflog_cmd(fd, NFULA_CFG_CMD, &cmd, sizeof(cmd));
	nflog_cmd(fd, NFULA_CFG_MODE, &mode, 6);
	nflog_cmd(fd, NFULA_CFG_TIMEOUT, &flush, sizeof(flush));
	return fd;
}

/* Packets logged so far, all with this mark. */
static uint64_t nflog_count(int fd, uint32_t mark)
{
	static char buf[1 << 18];
	uint64_t n = 0;
	ssize_t len;

	while (readable(fd, 200) && (len = recv(fd, buf, sizeof(buf), 0)) > 0) {
		struct nlmsghdr *h = (struct nlmsghdr *)buf;
		uint32_t left = (uint32_t)len;

		for (; NLMSG_OK(h, left); h = NLMSG_NEXT(h, left)) {
			struct nlattr *a = (void *)((char *)NLMSG_DATA(h) + 4);
			char *end = (char *)h + h->nlmsg_len;

			if (h->nlmsg_type !=
			    (NFNL_SUBSYS_ULOG << 8 | NFULNL_MSG_PACKET))
				continue;
			n++;
			for (; (char *)a < end && a->nla_len >= 4;
			     a = (void *)((char *)a + ((a->nla_len + 3) & ~3)))
				if (a->nla_type == NFULA_MARK)
					assert_int_equal(
						ntohl(*(uint32_t *)(a + 1)),
						mark);
		}
	}
	return n;
}

static void test_law_and_log(void **state)
{
	struct pkt p = {.src = A4(10, 200, 0, 2),
			.dst = WEB,
			.proto = IPPROTO_TCP,
			.dport = 443,
			.flags = 2};
	uint64_t sent;
	int fd, log;

	(void)state;
	lease_slot(0, GEN_A);
	log = nflog_open();
	fd = packet_sock(&slot[0]);
	for (uint32_t i = 0; i < 20000; i++) {
		p.sport = (uint16_t)(1024 + i % 60000);
		p.dport = (uint16_t)(1000 + i % 700); /* over the share of 512 */
		inject(fd, 0, &p);
	}
	assert_int_equal(denied(0, GEN_A), 20000);
	assert_int_equal(counts[EG_REASON_NOT_ALLOWED].denied, 20000);
	sent = counts[EG_REASON_NOT_ALLOWED].sent;
	/* share, burst of the rate, and what either refills meanwhile */
	assert_true(sent >= 612 && sent < 2000);
	assert_int_equal(unattributed, 0);
	assert_int_equal(
		nflog_count(log, eg_epoch(GEN_A) << 8 | EG_REASON_NOT_ALLOWED),
		sent);
	close(fd);
	close(log);
}

/* No room for a counter: unlogged, but not lost. */
static void test_unattributed(void **state)
{
	struct pkt p = {.src = A4(10, 200, 0, 2),
			.dst = WEB,
			.proto = IPPROTO_TCP,
			.dport = 443,
			.flags = 2};
	static const char *const set[] = {"sent", "denied"};
	int fd;

	(void)state;
	lease_slot(0, GEN_A);
	fd = packet_sock(&slot[0]);
	for (uint64_t k = 0; k < 2; k++) {
		rl_begin(gw->nl);
		for (uint32_t i = 0; i < 6144 - k; i++) {
			struct rl_elem e = {.state.kind = RL_STATE_COUNTER};

			rl_key_host(&e.key, 9999);
			rl_key_host(&e.key, i);
			rl_add(gw->nl, set[k], &e);
		}
		OK(rl_commit(gw->nl, "filling", &err));
		p.sport = (uint16_t)(1 + k);
		p.dst = k ? INTERNAL : WEB; /* a reason not counted yet */
		inject(fd, 0, &p);
		OK(rl_gw_counters(gw, 0, GEN_A, counts, &unattributed, &err));
		assert_int_equal(unattributed, k + 1);
		assert_int_equal(counts[EG_REASON_NOT_ALLOWED].denied, 1);
		assert_int_equal(counts[EG_REASON_NOT_ALLOWED].sent, 0);
		assert_int_equal(counts[EG_REASON_PRIVATE].denied, 0);
	}
	close(fd);
}

/* ---- port 53 ------------------------------------------------------------- */

static uint64_t dns_round(const struct ns *n, int guard, uint32_t server)
{
	struct sockaddr_in to = sin4(server, 53), from;
	socklen_t len = sizeof(from);
	int c = sock_in(n, AF_INET, SOCK_DGRAM, 0), r;
	char buf[16];
	uint64_t ok = 0;

	assert_int_equal(connect(c, (struct sockaddr *)&to, sizeof(to)), 0);
	assert_int_equal(send(c, "ask", 3, 0), 3);
	if (guard >= 0 && readable(guard, 300) &&
	    recvfrom(guard, buf, sizeof(buf), 0, (struct sockaddr *)&from,
		     &len) == 3) {
		int one = 1;

		/* answer from the address that was asked */
		r = sock_in(NULL, AF_INET, SOCK_DGRAM, 0);
		setsockopt(r, SOL_IP, IP_TRANSPARENT, &one, sizeof(one));
		setsockopt(r, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
		assert_int_equal(bind(r, (struct sockaddr *)&to, sizeof(to)), 0);
		assert_int_equal(sendto(r, "answer", 6, 0,
					(struct sockaddr *)&from, len),
				 6);
		close(r);
		ok = readable(c, 300) && recv(c, buf, sizeof(buf), 0) == 6;
	} else {
		/* no answer, and no error either */
		assert_false(readable(c, 100));
	}
	close(c);
	return ok;
}

static void test_dns(void **state)
{
	struct sockaddr_in any = sin4(0, 53);
	struct pkt p = {.src = A4(10, 200, 0, 2),
			.dst = A4(8, 8, 8, 8),
			.sport = 999,
			.proto = IPPROTO_UDP,
			.dport = 53};
	int guard, tcp, one = 1, fd, s;
	char buf[64];
	FILE *f;

	(void)state;
	lease_slot(0, GEN_A);
	lease_slot(1, GEN_B);
	assert_int_equal(dns_round(&slot[0], -1, A4(8, 8, 8, 8)), 0);
	assert_int_equal(denied(0, GEN_A), 0);
	guard = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	setsockopt(guard, SOL_IP, IP_TRANSPARENT, &one, sizeof(one));
	setsockopt(guard, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	assert_int_equal(bind(guard, (struct sockaddr *)&any, sizeof(any)), 0);
	assert_int_equal(dns_round(&slot[0], guard, A4(8, 8, 8, 8)), 1);
	assert_int_equal(dns_round(&slot[0], guard, A4(10, 200, 0, 1)), 1);
	assert_int_equal(dns_round(&slot[0], guard, METADATA), 1);
	assert_int_equal(dns_round(&slot[0], guard, INTERNAL), 1);
	assert_int_equal(denied(0, GEN_A), 0);
	/* TCP likewise */
	tcp = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	setsockopt(tcp, SOL_IP, IP_TRANSPARENT, &one, sizeof(one));
	assert_int_equal(bind(tcp, (struct sockaddr *)&any, sizeof(any)), 0);
	assert_int_equal(listen(tcp, 4), 0);
	fd = dial(&slot[0], A4(1, 1, 1, 1), 53, FAST_MS);
	assert_true(fd >= 0);
	s = accept4(tcp, NULL, NULL, SOCK_CLOEXEC);
	assert_true(passes(fd, s) && passes(s, fd));
	close(fd);
	close(s);
	close(tcp);
	/* with the listener gone: silence, not a reset */
	assert_int_equal(dial(&slot[0], A4(1, 1, 1, 1), 53, 200), -ETIMEDOUT);
	assert_int_equal(denied(0, GEN_A), 0);
	/* neither the query nor the answer is tracked */
	f = fopen("/proc/thread-self/net/nf_conntrack", "r");
	if (f) {
		assert_null(fgets(buf, sizeof(buf), f));
		(void)fclose(f);
	}
	/* a flood is one slot's own trouble */
	fd = packet_sock(&slot[0]);
	for (int i = 0; i < 200; i++)
		inject(fd, 0, &p);
	assert_true(denied(0, GEN_A) > 100);
	assert_int_equal(counts[EG_REASON_RATE].denied, denied(0, GEN_A));
	while (readable(guard, 50))
		(void)recv(guard, buf, sizeof(buf), 0);
	assert_int_equal(dns_round(&slot[1], guard, A4(8, 8, 8, 8)), 1);
	close(fd);
	close(guard);
}

/* ---- listing, probing ---------------------------------------------------- */

static void test_listing(void **state)
{
	struct rl_lease l = lease(0, GEN_A);

	(void)state;
	if (!have_nft("test_listing"))
		skip();
	allow(prog, A4(198, 51, 100, 0), 24, IPPROTO_TCP, 440, 450,
	      RL_PHASES_ALL);
	OK(rl_gw_lease(gw, &l, prog, &err));
	pin(0, GEN_A, WEB, 443);
	sh("nft list table ip egressd > /tmp/rl-list.$PPID && for want in "
	   "'elements = { 198.51.100.0/24 . tcp . 440-450 }' "
	   "'198.51.100.7 . tcp . 443 timeout 1m' "
	   "'elements = { \"eg-00000\" : 0x00001100 }' "
	   "'iif . ct mark @live' "
	   "'ip daddr . meta l4proto . th dport @p000 goto pass' "
	   "'ct state new tcp flags != syn' 'ip hdrlength != 5' "
	   "'policy drop' 'notrack tproxy to :53' "
	   "'\"eg-00000\" . 10.200.0.2 . 0a:e6:00:00:00:02'; do "
	   "grep -qF \"$want\" /tmp/rl-list.$PPID || { echo missing: $want; exit 1; }; done; rm /tmp/rl-list.$PPID");
}

static void test_probe(void **state)
{
	struct rl_nl *nl;
	struct ns n;
	char text[64];
	int fd;

	(void)state;
	n = ns_make();
	fd = sock_in(&n, AF_NETLINK, SOCK_RAW, NETLINK_NETFILTER);
	OK(rl_probe(fd, &conf, &err));
	OK(rl_nl_open(&nl, fd, true, NFPROTO_IPV4, EG_TABLE, &err));
	assert_int_equal(rl_table_comment(nl, text, sizeof(text), &err), -ENOENT);
	rl_nl_close(nl);
	ns_end(&n);
	fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	assert_true(rl_probe(fd, &conf, &err) < 0);
	close(fd);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_matrix),
		T(test_unleased),
		T(test_pin_connect),
		T(test_policy),
		T(test_quiet_and_report),
		T(test_quota),
		T(test_unlease_cuts),
		T(test_scrub),
		T(test_takeover),
		T(test_pin_lifetimes),
		T(test_pin_cap),
		T(test_failed_batch),
		T(test_unattributed),
		T(test_law_and_log),
		T(test_dns),
		T(test_listing),
		T(test_probe),
	};

	NEEDS_ROOT(EG_ARRAY_SIZE(tests));
	return cmocka_run_group_tests_name("rules/gateway", tests, NULL, NULL);
}
