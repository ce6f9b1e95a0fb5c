// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: the build role, driven by messages as main would, against the
 * kernel; the launcher's and main's halves are played here.
 */
#include "netpool/base/plan.h"
#include "netpool/base/util.h"
#include "netpool/build.h"
#include "netpool/netns.h"
#include "tests/lib/nsworld.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

#define SLOTS 512

/* ---- what the others would do --------------------------------------------- */

static struct eg_conf conf;
static struct eg_role_ctx ctx;
static int held[EG_FD_KIND_COUNT][SLOTS];
static int nats;

/* What main was told, by type. */
static struct {
	unsigned int n[EG_MSG_COUNT], error[EG_MSG_COUNT];
	struct eg_bm_slot slot; /* the last of BUILT ARMED ... */
	struct eg_bm_slot event;
	struct eg_bm_gateway gateway; /* the last */
	struct eg_bm_scan scan[SLOTS];
	struct eg_bm_host host;
} told;

int eg_role_send(struct eg_role_ctx *c, enum eg_role to, uint16_t type,
		 uint64_t cookie, const void *body, size_t len, int fd)
{
	const struct eg_bm_slot *s = body;

	(void)c;
	(void)cookie;
	assert_int_equal(to, EG_ROLE_MAIN);
	assert_true(type < EG_MSG_COUNT);
	assert_true(len >= eg_msg_spec[type].min && len <= eg_msg_spec[type].max);
	assert_true(fd < 0 || eg_msg_spec[type].fd);
	if (type == EG_BM_SLOT)
		memcpy(&told.scan[told.n[type]], body, len);
	told.n[type]++;
	if (type == EG_BM_GATEWAY || type == EG_BM_GATEWAY_UP) {
		memcpy(&told.gateway, body, len);
		assert_true(type == EG_BM_GATEWAY_UP ||
			    !told.gateway.error == (fd >= 0));
		told.error[type] += told.gateway.error != 0;
	} else if (type == EG_BM_HOST) {
		memcpy(&told.host, body, len);
	} else if (type == EG_BM_EVENT) {
		memcpy(&told.event, body, len);
	} else if (len == sizeof(told.slot)) {
		memcpy(&told.slot, body, len);
		told.error[type] += s->error != 0;
	}
	return 0;
}

int eg_role_hold(struct eg_role_ctx *c, enum eg_fd_kind kind, uint32_t index,
		 int fd)
{
	(void)c;
	eg_close_p(&held[kind][index]);
	held[kind][index] = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	return 0;
}

void eg_role_drop(struct eg_role_ctx *c, enum eg_fd_kind kind, uint32_t index)
{
	(void)c;
	eg_close_p(&held[kind][index]);
}

static int slot_nat(int fd, const struct eg_conf *c, uint32_t slot,
		    const struct eg_guest *g, struct eg_err *err)
{
	(void)c;
	(void)slot;
	(void)g;
	(void)err;
	assert_true(fd >= 0);
	nats++;
	return 0;
}

static void on_turn(void *arg)
{
	(void)arg;
	eg_loop_stop(ctx.loop);
}

/*
 * Run the loop until @n messages of a type have come, or a minute: the
 * kernel ends namespaces one after the other, those of others first.
 */
static void wait_for(enum eg_msg_type type, unsigned int n)
{
	struct eg_timer *t = eg_timer_new(ctx.loop, on_turn, NULL);
	int64_t end = eg_boot_ns() + 60 * EG_NSEC_PER_SEC;

	while (told.n[type] < n && eg_boot_ns() < end) {
		eg_timer_set(t, 2000);
		(void)eg_loop_run(ctx.loop);
	}
	eg_timer_free(t);
	if (told.n[type] < n)
		fail_msg("%s: %u of %u came", eg_msg_spec[type].name,
			 told.n[type], n);
}

static void say(enum eg_msg_type type, const void *body, size_t len)
{
	struct eg_msg m = {.type = (uint16_t)type,
			   .cookie = 1,
			   .body = body,
			   .len = len,
			   .fd = -1};

	memset(&told, 0, sizeof(told));
	np_build_ops.on_msg(&ctx, EG_ROLE_MAIN, &m);
}

static void say_slot(enum eg_msg_type type, uint32_t slot, uint64_t gen)
{
	struct eg_mb_slot m = {.slot = slot, .generation = gen};

	say(type, &m, sizeof(m));
}

/* As far as the kernel sees it, the process has died. */
static void stop(void)
{
	np_build_ops.stop(&ctx);
	eg_loop_free(ctx.loop);
	memset(&ctx, 0, sizeof(ctx));
}

static void start(void)
{
	struct eg_err err = {0};

	stop();
	ctx.ops = &np_build_ops;
	ctx.conf = &conf;
	assert_int_equal(eg_loop_new(&ctx.loop), 0);
	if (np_build_ops.open(&ctx, &err) || np_build_ops.start(&ctx, &err))
		fail_msg("%s", err.text);
}

static void gateway(uint32_t n, bool adopted)
{
	struct eg_mb_gateway g = {.gateway = n};

	say(EG_MB_GATEWAY, &g, sizeof(g));
	wait_for(EG_BM_GATEWAY, 1);
	if (told.gateway.error)
		fail_msg("%s", told.gateway.text);
	assert_int_equal(told.gateway.adopted, adopted);
	say(EG_MB_GATEWAY_UP, &g, sizeof(g));
	wait_for(EG_BM_GATEWAY_UP, 1);
	if (told.gateway.error)
		fail_msg("%s", told.gateway.text);
}

static void build(uint32_t first, uint32_t count)
{
	struct eg_mb_slots b = {.first = first, .count = count};

	say(EG_MB_BUILD, &b, sizeof(b));
	wait_for(EG_BM_BUILT, count);
}

static bool joinable(const char *name)
{
	return !nsw_run("ip netns exec %s true 2>/dev/null", name);
}

/* ---- tests ----------------------------------------------------------------- */

static void test_start(void **state)
{
	(void)state;
	start();
	np_build_ops.on_go(&ctx);
	assert_true(held[EG_FD_HOST_NFT][0] >= 0);
	assert_true(held[EG_FD_HOST_LOG][0] >= 0);
	np_build_ops.on_peer(&ctx, EG_ROLE_MAIN);
	wait_for(EG_BM_HOST, 1);
	assert_int_equal(told.host.count, 1);
	gateway(0, false);
	gateway(1, false);
	for (uint32_t i = 0; i < 2; i++) {
		assert_true(held[EG_FD_GATEWAY][i] >= 0);
		assert_true(held[EG_FD_NFLOG][i] >= 0);
		assert_true(held[EG_FD_PACKET][i] >= 0);
		assert_true(held[EG_FD_DNS_UDP][i] >= 0);
		assert_true(held[EG_FD_DNS_TCP][i] >= 0);
	}
	/* the links' own addresses are the host's */
	wait_for(EG_BM_HOST, 1);
	assert_int_equal(told.host.count, 3);
	gateway(0, true);
}

static void test_life(void **state)
{
	struct eg_mb_guest g = {
		.slot = 300,
		.generation = 9001,
		.guest = {.mode = EG_GUEST_TAP,
			  .mac = {6, 0, 0xac, 0x10, 0, 2},
			  .addr_len = 30,
			  .address = 0xac100002,
			  .gateway = 0xac100001,
			  .owner_uid = UINT32_MAX,
			  .owner_gid = UINT32_MAX,
			  .tap = "tap0"},
	};

	(void)state;
	build(300, 1);
	assert_int_equal(told.slot.error, 0);
	assert_true(held[EG_FD_SLOT][300] >= 0);
	build(300, 1); /* it is: perhaps a former main was not told */
	assert_int_equal(told.slot.error, 0);
	say_slot(EG_MB_ARM, 300, 9001);
	assert_int_equal(told.slot.error, 0);
	assert_int_equal(held[EG_FD_SLOT][300], -1);
	assert_true(joinable("eg-00300.9001"));
	say_slot(EG_MB_ARM, 300, 9002);
	assert_int_equal(told.slot.error, -ESTALE);
	if (!access("/dev/net/tun", R_OK | W_OK)) {
		say(EG_MB_GUEST, &g, sizeof(g));
		assert_int_equal(told.slot.error, 0);
		assert_int_equal(nats, 1);
		assert_int_equal(
			nsw_run("ip netns exec eg-00300.9001 ip link show tap0 >/dev/null"),
			0);
	} else {
		printf("SKIP test_life's tap: no /dev/net/tun\n");
	}
	say_slot(EG_MB_DOWN, 300, 9000); /* stale: nothing happens */
	assert_int_equal(told.slot.error, -ESTALE);
	assert_int_equal(
		nsw_run("ip netns exec eg-gw-01 ip link show eg-00300 | grep -q '<.*,UP'"),
		0);
	say_slot(EG_MB_DOWN, 300, 9001);
	assert_int_equal(told.slot.error, 0);
	assert_int_not_equal(
		nsw_run("ip netns exec eg-gw-01 ip link show eg-00300 | grep -q '<.*,UP'"),
		0);
	say_slot(EG_MB_SCRAP, 300, 8000);
	assert_int_equal(told.slot.error, -ESTALE);
	say_slot(EG_MB_SCRAP, 300, 9001);
	wait_for(EG_BM_SCRAPPED, 1);
	assert_int_equal(told.slot.error, 0);
	assert_int_equal(told.slot.lingering, 0);
	assert_false(joinable("eg-00300.9001"));
	assert_int_not_equal(
		nsw_run("ip netns exec eg-gw-01 ip link show eg-00300 2>/dev/null"),
		0);
	/* the slot anew: the old path still leads nowhere */
	build(300, 1);
	say_slot(EG_MB_ARM, 300, 9005);
	assert_int_equal(told.slot.error, 0);
	assert_false(joinable("eg-00300.9001"));
	assert_true(joinable("eg-00300.9005"));
	build(300, 1);
	assert_int_equal(told.slot.error, -EEXIST);
}

static void test_lingering(void **state)
{
	struct np_netns_ref ref;
	struct eg_err err;
	int ns;

	(void)state;
	build(301, 1);
	say_slot(EG_MB_ARM, 301, 9010);
	ns = np_netns_open(conf.netns, "eg-00301.9010", &err);
	assert_true(ns >= 0);
	np_netns_remember(ns, &ref);
	say_slot(EG_MB_SCRAP, 301, 9010);
	wait_for(EG_BM_SCRAPPED, 1);
	assert_int_equal(told.slot.error, 0);
	assert_int_equal(told.slot.lingering, ref.bytes ? 1 : 0);
	/* held, but nothing is in it */
	assert_int_not_equal(nsw_inside(ns, "ip link show eth0 2>/dev/null"), 0);
	(void)close(ns);
}

/* Many at once, other commands in between; links go as a group. */
static void test_many(void **state)
{
	struct eg_mb_slots b = {.first = 0, .count = 200};
	int64_t t = eg_boot_ns();

	(void)state;
	say(EG_MB_BUILD, &b, sizeof(b));
	wait_for(EG_BM_BUILT, 1);
	assert_true(told.n[EG_BM_BUILT] < 200); /* we are heard in between */
	wait_for(EG_BM_BUILT, 200);
	assert_int_equal(told.error[EG_BM_BUILT], 0);
	printf("  built by messages: %.3f ms a slot\n",
	       (double)(eg_boot_ns() - t) / 1e6 / 200);
	t = eg_boot_ns();
	for (uint32_t i = 0; i < 200; i++)
		say_slot(EG_MB_SCRAP, i, 0);
	wait_for(EG_BM_SCRAPPED, 200);
	assert_int_equal(told.error[EG_BM_SCRAPPED], 0);
	printf("  scrapped by messages: %.3f ms a slot\n",
	       (double)(eg_boot_ns() - t) / 1e6 / 200);
	assert_int_equal(
		nsw_run("test $(ip netns exec eg-gw-00 ip -o link | grep -c eg-00) = 0"),
		0);
	for (uint32_t i = 0; i < 200; i++)
		assert_int_equal(held[EG_FD_SLOT][i], -1);
}

static void test_events(void **state)
{
	(void)state;
	build(302, 1);
	say_slot(EG_MB_ARM, 302, 9020);
	memset(&told, 0, sizeof(told));
	assert_int_equal(
		nsw_run("ip netns exec eg-00302.9020 ip link set eth0 down"), 0);
	wait_for(EG_BM_EVENT, 1);
	assert_int_equal(told.event.slot, 302);
	assert_int_equal(told.event.generation, 9020);
	assert_int_equal(told.event.error, 0);
	assert_int_equal(told.event.carrier, 0);
	memset(&told, 0, sizeof(told));
	assert_int_equal(nsw_run("ip netns exec eg-00302.9020 ip link del eth0"),
			 0);
	wait_for(EG_BM_EVENT, 1);
	assert_int_equal(told.event.error, -ENODEV);
	say_slot(EG_MB_SCRAP, 302, 9020);
	wait_for(EG_BM_SCRAPPED, 1);
	assert_int_equal(told.slot.error, 0);
}

/* ---- namespaces of callers ---- */

static void give_init_net(int ns)
{
	int fd = fcntl(ns, F_DUPFD_CLOEXEC, 3);

	np_build_ops.on_fd(&ctx, EG_FD_INIT_NET, 0, &fd);
	eg_close_p(&fd);
}

static int adopt(uint32_t slot, uint64_t gen, const char *path)
{
	struct eg_mb_guest g = {.slot = slot,
				.generation = gen,
				.guest = {.mode = EG_GUEST_ADOPT,
					  .ifname = "eth0"}};

	(void)snprintf(g.guest.netns_path, sizeof(g.guest.netns_path), "%s",
		       path);
	say(EG_MB_GUEST, &g, sizeof(g));
	wait_for(EG_BM_GUEST, 1);
	return told.slot.error;
}

static void not_adopted(const char *path, const char *why)
{
	assert_int_equal(adopt(303, 9041, path), -EINVAL);
	if (!strstr(told.slot.text, path) || !strstr(told.slot.text, why))
		fail_msg("%s", told.slot.text);
}

static void test_adopt(void **state)
{
	struct eg_err err;
	int other = -1, home;

	(void)state;
	conf.adopt_dirs = 1;
	(void)snprintf(conf.adopt_from[0], EG_PATH, "/run/netns");
	assert_int_equal(nsw_run("ip netns add his"), 0);
	/* process 1's namespace is not known: nothing is adopted */
	not_adopted("/run/netns/his", "process 1's");
	home = np_netns_self(&err);
	assert_int_equal(np_netns_make(home, NULL, NULL, &other, &err), 0);
	give_init_net(other);
	assert_int_equal(
		nsw_run("cd /run/netns && touch host init && mount --bind /proc/self/ns/net host && mount --bind /proc/%d/fd/%d init",
			(int)getpid(), other),
		0);
	(void)close(home);
	(void)close(other);
	build(304, 1);
	say_slot(EG_MB_ARM, 304, 9040);
	not_adopted("/run/netns/host", "is the host's");
	not_adopted("/run/netns/init", "is process 1's");
	not_adopted("/run/netns/eg-gw-00", "is a gateway's");
	not_adopted("/run/netns/eg-00304.9040", "is a slot's");
	not_adopted("/run/netns/none", "does not exist");
	not_adopted("/etc/passwd", "is not below");
	/* from all three states: unbuilt, idle, armed */
	for (int i = 0; i < 3; i++) {
		uint64_t gen = 9050 + (uint64_t)i;

		if (i > 0)
			build(303, 1);
		if (i > 1)
			say_slot(EG_MB_ARM, 303, gen);
		if (adopt(303, gen, "/run/netns/his"))
			fail_msg("%s", told.slot.text);
		assert_int_equal(held[EG_FD_SLOT][303], -1);
		assert_false(joinable("eg-00303.9052"));
		assert_int_equal(
			nsw_run("ip netns exec his ip addr show eth0 | grep -q 10.200.4.190/30"),
			0);
		assert_int_equal(adopt(305, 9060, "/run/netns/his"), -EEXIST);
		say_slot(EG_MB_DOWN, 303, gen + 1);
		assert_int_equal(told.slot.error, -ESTALE);
		say_slot(EG_MB_DOWN, 303, gen);
		assert_int_equal(told.slot.error, 0);
		say_slot(EG_MB_SCRAP, 303, gen);
		wait_for(EG_BM_SCRAPPED, 1);
		assert_int_equal(told.slot.error, 0);
		assert_int_equal(told.slot.lingering, 0);
		assert_int_equal(
			nsw_run("test $(ip netns exec his ip -o link | wc -l) = 1"),
			0);
	}
}

/* Its end is noticed, also by a successor, which finds the link again. */
static void test_adopt_gone(void **state)
{
	(void)state;
	assert_int_equal(adopt(303, 9070, "/run/netns/his"), 0);
	memset(&told, 0, sizeof(told));
	assert_int_equal(nsw_run("ip netns del his"), 0);
	wait_for(EG_BM_EVENT, 1);
	assert_int_equal(told.event.slot, 303);
	assert_int_equal(told.event.generation, 9070);
	assert_int_equal(told.event.error, -ENODEV);
	/* another main asks again and is told again */
	say_slot(EG_MB_ADOPTED, 303, 9070);
	wait_for(EG_BM_EVENT, 1);
	assert_int_equal(told.event.error, -ENODEV);
	say_slot(EG_MB_SCRAP, 303, 9070);
	wait_for(EG_BM_SCRAPPED, 1);
	assert_int_equal(told.slot.error, 0);
	/* for the tests that follow: one that lives, one that ends */
	assert_int_equal(nsw_run("ip netns add his && ip netns add brief"), 0);
	assert_int_equal(adopt(303, 9080, "/run/netns/his"), 0);
	assert_int_equal(adopt(305, 9081, "/run/netns/brief"), 0);
	say_slot(EG_MB_SCRAP, 304, 9040);
	wait_for(EG_BM_SCRAPPED, 1);
	assert_int_equal(told.slot.error, 0);
}

static void found_again(unsigned int n)
{
	unsigned int at = 0;

	for (unsigned int i = 0; i < n; i++)
		if (told.scan[i].state == EG_SCAN_ADOPTED) {
			assert_int_equal(told.scan[i].slot, 303);
			assert_int_equal(told.scan[i].generation, 0);
			at++;
		}
	assert_int_equal(at, 1);
	say_slot(EG_MB_ADOPTED, 303, 9080);
	assert_int_equal(told.n[EG_BM_EVENT], 0);
	say_slot(EG_MB_ADOPTED, 305, 9081); /* it has ended meanwhile */
	assert_int_equal(told.n[EG_BM_EVENT], 1);
	assert_int_equal(told.event.slot, 305);
	assert_int_equal(told.event.generation, 9081);
	assert_int_equal(told.event.error, -ENODEV);
}

/* All that the launcher holds and build is told of. */
static void give_back(void)
{
	for (int k = EG_FD_GATEWAY; k < EG_FD_KIND_COUNT; k++)
		for (uint32_t i = 0; k != EG_FD_NFT && i < SLOTS; i++) {
			int fd = held[k][i] < 0 ? -1
						: fcntl(held[k][i],
							F_DUPFD_CLOEXEC, 3);

			if (fd >= 0)
				np_build_ops.on_fd(&ctx, (enum eg_fd_kind)k, i,
						   &fd);
			eg_close_p(&fd);
		}
}

/* Build dies and is started again; the launcher hands back what it holds. */
static void test_restart(void **state)
{
	struct eg_mb_slots none = {.first = 510, .count = 5};

	(void)state;
	build(10, 2);
	say_slot(EG_MB_ARM, 11, 9030);
	assert_int_equal(
		nsw_run("ip netns del brief && for i in $(seq 1000); do ip netns exec eg-gw-01 ip link show eg-00305 >/dev/null 2>&1 || exit 0; sleep 0.02; done; exit 1"),
		0);
	start(); /* the old state is forgotten, as by a new process */
	/* dies once more, half-way through leaving a gateway's sockets */
	eg_close_p(&held[EG_FD_GATEWAY][0]);
	eg_close_p(&held[EG_FD_DNS_TCP][0]);
	give_back();
	np_build_ops.on_go(&ctx);
	np_build_ops.on_peer(&ctx, EG_ROLE_MAIN);
	assert_int_equal(nsw_run("touch /run/netns/eg-00400.9999"), 0);
	say(EG_MB_SCAN, NULL, 0);
	wait_for(EG_BM_SCAN_END, 1);
	assert_int_equal(told.n[EG_BM_SLOT], 4);
	assert_int_equal(told.scan[0].slot, 10);
	assert_int_equal(told.scan[0].state, EG_SCAN_IDLE);
	assert_int_equal(told.scan[1].slot, 11);
	assert_int_equal(told.scan[1].state, EG_SCAN_NAMED);
	assert_int_equal(told.scan[1].generation, 9030);
	assert_int_equal(told.scan[2].slot, 300);
	assert_int_equal(told.n[EG_BM_EVENT], 0);
	assert_int_equal(access("/run/netns/eg-00400.9999", F_OK), -1);
	found_again(4);
	gateway(0, true);
	gateway(1, true);
	assert_true(held[EG_FD_GATEWAY][0] >= 0);
	assert_true(held[EG_FD_DNS_TCP][0] >= 0);
	say_slot(EG_MB_SCRAP, 11, 9030);
	wait_for(EG_BM_SCRAPPED, 1);
	assert_int_equal(told.slot.error, 0);
	assert_false(joinable("eg-00011.9030"));
	say(EG_MB_BUILD, &none, sizeof(none));
	assert_int_equal(told.slot.error, -EINVAL);
}

/* The whole tree is killed: named slots live, idle ones are gone. */
static void test_killed(void **state)
{
	(void)state;
	for (int k = 0; k < EG_FD_KIND_COUNT; k++)
		for (uint32_t i = 0; i < SLOTS; i++)
			eg_close_p(&held[k][i]);
	start();
	np_build_ops.on_go(&ctx);
	np_build_ops.on_peer(&ctx, EG_ROLE_MAIN);
	gateway(0, true);
	gateway(1, true);
	assert_true(held[EG_FD_NFLOG][1] >= 0);
	say(EG_MB_SCAN, NULL, 0);
	wait_for(EG_BM_SCAN_END, 1);
	assert_int_equal(told.n[EG_BM_SLOT], 2);
	assert_int_equal(told.scan[0].slot, 300);
	found_again(2);
	say_slot(EG_MB_SCRAP, 305, 9081);
	wait_for(EG_BM_SCRAPPED, 1);
	assert_int_equal(told.slot.error, 0);
	/* no record of this one: main does not know its generation */
	say_slot(EG_MB_SCRAP, 303, 0);
	wait_for(EG_BM_SCRAPPED, 1);
	assert_int_equal(told.slot.error, 0);
	assert_int_equal(
		nsw_run("test $(ip netns exec his ip -o link | wc -l) = 1"), 0);
	/* the left-over link of an idle slot does not stop a new one */
	build(10, 1);
	assert_int_equal(told.slot.error, 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_start),
		cmocka_unit_test(test_life),
		cmocka_unit_test(test_lingering),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_events),
		cmocka_unit_test(test_adopt),
		cmocka_unit_test(test_adopt_gone),
		cmocka_unit_test(test_restart),
		cmocka_unit_test(test_killed),
	};
	int r;

	if (nsw_enter("build_test"))
		return 0;
	nsw_conf(&conf, SLOTS, 256);
	memset(held, 0xff, sizeof(held));
	np_build_hooks.slot_nat = slot_nat;
	r = cmocka_run_group_tests(tests, NULL, NULL);
	stop();
	return r;
}
