// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: after a purge the host is as it was before the first start
 */
#include "netpool/base/plan.h"
#include "netpool/base/util.h"
#include "netpool/build.h"
#include "netpool/host.h"
#include "netpool/netns.h"
#include "netpool/purge.h"
#include "netpool/slot.h"
#include "tests/lib/nsworld.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define STATE                                                                  \
	"ip -o link | sed 's/@.*//'; ip route; ip rule; ip -o addr;"           \
	"cat /proc/sys/net/ipv4/ip_forward; ls /run /run/egressd;"             \
	"cut -d' ' -f3- /proc/self/mountinfo"

static struct eg_conf conf;
static struct np_world w = {.conf = &conf, .home = -1};
static char before[65536], after[65536];
static int purged;

static int host_purge(int fd, const struct eg_conf *c, struct eg_err *err)
{
	(void)fd;
	(void)c;
	(void)err;
	purged++;
	return 0;
}

static void fill(struct np_netns_ref ref[3])
{
	struct np_gateway gw;
	struct eg_err err;
	bool changed;

	np_gateway_init(&gw, 0);
	assert_int_equal(np_host_netns_dir(&conf, &err), 0);
	assert_int_equal(np_host_forward(&conf, &changed, &err), 0);
	assert_int_equal(np_gateway_open(&w, &gw, 1500, &err), 0);
	assert_int_equal(np_gateway_up(&w, &gw, &err), 0);
	for (uint32_t i = 0; i < 2; i++) {
		char name[EG_NETNS_NAME];
		int fd = -1;

		assert_int_equal(np_slot_make(&w, &gw, i, &fd, &err), 0);
		assert_int_equal(np_netns_name(conf.netns,
					       eg_plan_netns(name, i, 40 + i),
					       fd, &err),
				 0);
		np_netns_remember(fd, &ref[i]);
		(void)close(fd);
	}
	np_netns_remember(gw.ns, &ref[2]);
	np_gateway_close(&gw);
	assert_int_equal(
		nsw_run("mkdir -p /run/egressd/leases;"
			"touch /run/egressd/leases/1 /run/egressd/api.sock"),
		0);
}

static void purge(void)
{
	struct eg_err err = {0};

	if (np_purge(&conf, &err))
		fail_msg("%s", err.text);
}

static void test_all_gone(void **state)
{
	struct np_netns_ref ref[3];
	bool lives = true;

	(void)state;
	(void)nsw_read(before, sizeof(before), STATE);
	fill(ref);
	(void)nsw_read(after, sizeof(after), STATE);
	assert_string_not_equal(before, after);
	purge();
	(void)nsw_read(after, sizeof(after), STATE);
	assert_string_equal(before, after);
	assert_int_equal(purged, 1);
	/* namespaces die in the background */
	for (int i = 0; i < 100 && lives; i++) {
		lives = false;
		for (int k = 0; k < 3; k++)
			lives |= np_netns_lives(&ref[k], w.home);
		if (lives)
			(void)usleep(20000);
	}
	assert_false(lives);
	purge(); /* again: nothing to do */
	(void)nsw_read(after, sizeof(after), STATE);
	assert_string_equal(before, after);
}

/* What is others' stays. */
static void test_foreign(void **state)
{
	struct np_netns_ref ref[3];

	(void)state;
	fill(ref);
	assert_int_equal(
		nsw_run("ip netns add other; ip link add foreign group 3693 type veth peer name f2;"
			"touch /run/netns/eg-not-ours"),
		0);
	purge();
	assert_int_equal(
		nsw_run("ip netns exec other true && ip link show foreign >/dev/null && test -e /run/netns/eg-not-ours"),
		0);
	assert_int_equal(nsw_mounts(" /run/netns "), 1);
	assert_int_equal(
		nsw_run("ip netns del other; ip link del foreign; rm /run/netns/eg-not-ours"),
		0);
}

static void test_refused(void **state)
{
	struct eg_conf c = conf;
	struct eg_err err = {0};

	(void)state;
	(void)snprintf(c.run, sizeof(c.run), "/run");
	assert_int_equal(np_purge(&c, &err), -EINVAL);
	assert_non_null(strstr(err.text, "'/run'"));
	assert_int_equal(nsw_run("test -d /run/egressd"), 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_gone),
		cmocka_unit_test(test_foreign),
		cmocka_unit_test(test_refused),
	};
	struct eg_err err;

	if (nsw_enter("purge_test"))
		return 0;
	nsw_conf(&conf, 256, 256);
	np_build_hooks.host_purge = host_purge;
	w.home = np_netns_self(&err);
	if (np_rtnl_open(&w.rtnl, &err) ||
	    nsw_run("echo 0 > /proc/sys/net/ipv4/ip_forward"))
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
