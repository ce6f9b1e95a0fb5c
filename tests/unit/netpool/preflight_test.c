// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The preflight: every check by table, and facts from a tree made here.
 */
#include "netpool/base/util.h"
#include "netpool/preflight.h"

#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static struct eg_conf conf;
static struct np_facts facts;
static struct np_preflight out;

/* A host that has everything, for 16,384 slots. */
static int good(void **state)
{
	(void)state;
	memset(&conf, 0, sizeof(conf));
	conf.slots = 16384;
	conf.slots_per_gateway = 256;
	conf.gateways = 64;
	conf.prefill = -2;
	conf.memory_budget_pct = 25;
	(void)snprintf(conf.netns, sizeof(conf.netns), "/run/netns");
	(void)snprintf(conf.run, sizeof(conf.run), "/run/egressd");
	facts = (struct np_facts){
		.nofile_soft = 1024,
		.nofile_hard = 1048576,
		.nr_open = 1048576,
		.max_net_namespaces = 100000,
		.net_namespaces = 3,
		.mount_max = 100000,
		.mounts = 30,
		.mem_total = 64ULL << 30,
		.mem_available = 60ULL << 30,
		.ip_forward = 1,
		.uplink = "eth0",
		.uplink_forwarding = 1,
		.uplink_rp_filter = 1,
		.conntrack_max = 4194304,
		.gc_thresh3 = 1024,
		.pid_max = 4194304,
		.threads_max = 1000000,
		.rmem_max = 212992,
		.probe.tried = true,
	};
	return 0;
}

struct row {
	const char *name;
	enum np_check check;
	enum np_level level;
	uint32_t slots; /* that fit, 0: not limited */
	uint64_t *fact, value;
	const char *have, *need, *fix; /* parts that must be there */
};

static void check_row(const struct row *r)
{
	const struct np_finding *f;

	(void)good(NULL);
	if (r->fact)
		*r->fact = r->value;
	np_preflight(&conf, &facts, &out);
	f = &out.finding[r->check];
	if (f->level != r->level || f->slots != r->slots)
		fail_msg("%s: level %d slots %u: %s", r->name, (int)f->level,
			 f->slots, f->text);
	if (!strstr(f->have, r->have) || !strstr(f->need, r->need) ||
	    !strstr(f->fix, r->fix))
		fail_msg("%s: '%s' '%s' '%s'", r->name, f->have, f->need, f->fix);
	assert_int_equal(out.slots, r->slots ? r->slots : 16384);
	for (unsigned int i = 0; i < NP_CHECK_COUNT; i++) {
		assert_int_equal(out.finding[i].check, i);
		assert_true(out.finding[i].key[0] && out.finding[i].have[0]);
		assert_true(out.finding[i].need[0] && out.finding[i].text[0]);
		/* What is not in order says what to do. */
		if (out.finding[i].level > NP_NOTE)
			assert_true(out.finding[i].fix[0]);
	}
}

static void test_limits(void **state)
{
	const struct row rows[] = {
		{"all of it", NP_CHECK_DESCRIPTORS, NP_OK, 0, NULL, 0,
		 "1048576", "17056", ""},
		{"descriptors unknown", NP_CHECK_DESCRIPTORS, NP_OK, 0,
		 &facts.nofile_hard, NP_UNKNOWN, "unknown", "", ""},
		{"no descriptor for taps", NP_CHECK_DESCRIPTORS, NP_NOTE, 0,
		 &facts.nofile_hard, 20000, "20000", "", "LimitNOFILE="},
		{"exactly enough", NP_CHECK_DESCRIPTORS, NP_NOTE, 0,
		 &facts.nofile_hard, 17056, "17056", "17056", ""},
		{"one too few", NP_CHECK_DESCRIPTORS, NP_DEGRADED, 16383,
		 &facts.nofile_hard, 17055, "17055", "17056", "LimitNOFILE=17056"},
		{"1024", NP_CHECK_DESCRIPTORS, NP_DEGRADED, 352,
		 &facts.nofile_hard, 1024, "1024", "17056", "ulimit -Hn 17056"},
		{"not one slot", NP_CHECK_DESCRIPTORS, NP_REFUSED, 0,
		 &facts.nofile_hard, 672, "672", "17056", "LimitNOFILE="},
		{"namespaces", NP_CHECK_NAMESPACES, NP_OK, 0,
		 &facts.max_net_namespaces, 32896, "32896", "16512", ""},
		{"no room for dying ones", NP_CHECK_NAMESPACES, NP_NOTE, 0,
		 &facts.max_net_namespaces, 32895, "32895", "32896",
		 "sysctl -w user.max_net_namespaces=32896"},
		{"namespaces for fewer", NP_CHECK_NAMESPACES, NP_DEGRADED, 872,
		 &facts.max_net_namespaces, 1000, "1000", "16512",
		 "user.max_net_namespaces=32896"},
		{"namespaces for none", NP_CHECK_NAMESPACES, NP_REFUSED, 0,
		 &facts.max_net_namespaces, 128, "128", "16512", "sysctl -w"},
		{"no namespace at all", NP_CHECK_NAMESPACES, NP_REFUSED, 0,
		 &facts.max_net_namespaces, 0, "0", "16512", "sysctl -w"},
		{"namespaces unknown", NP_CHECK_NAMESPACES, NP_OK, 0,
		 &facts.max_net_namespaces, NP_UNKNOWN, "unknown", "", ""},
		{"mounts for fewer", NP_CHECK_MOUNTS, NP_DEGRADED, 9842,
		 &facts.mount_max, 10000, "10000", "16542",
		 "sysctl -w fs.mount-max=16542"},
		{"mounts for none", NP_CHECK_MOUNTS, NP_REFUSED, 0,
		 &facts.mount_max, 100, "100", "", "netns_names = none"},
	};

	(void)state;
	for (size_t i = 0; i < EG_ARRAY_SIZE(rows); i++)
		check_row(&rows[i]);
}

static void test_host(void **state)
{
	const struct row rows[] = {
		{"forwards", NP_CHECK_FORWARD, NP_OK, 0, NULL, 0, "1", "1", ""},
		{"does not yet", NP_CHECK_FORWARD, NP_NOTE, 0,
		 &facts.ip_forward, 0, "0", "1", "net.ipv4.ip_forward=1"},
		{"uplink does not", NP_CHECK_UPLINK, NP_DEGRADED, 0,
		 &facts.uplink_forwarding, 0, "0", "1",
		 "net.ipv4.conf.eth0.forwarding=1"},
		{"flows", NP_CHECK_FLOWS, NP_OK, 0, &facts.conntrack_max,
		 2097152, "2097152", "2097152", ""},
		{"few flows", NP_CHECK_FLOWS, NP_NOTE, 0, &facts.conntrack_max,
		 262144, "262144", "2097152", "nf_conntrack_max=2097152"},
		{"too few flows", NP_CHECK_FLOWS, NP_DEGRADED, 0,
		 &facts.conntrack_max, 262143, "262143", "2097152",
		 "nf_conntrack_max=2097152"},
		{"flows unlimited", NP_CHECK_FLOWS, NP_OK, 0,
		 &facts.conntrack_max, 0, "0", "", ""},
		{"flows unknown", NP_CHECK_FLOWS, NP_OK, 0,
		 &facts.conntrack_max, NP_UNKNOWN, "unknown", "", ""},
		{"memory", NP_CHECK_MEMORY, NP_OK, 0, &facts.mem_available,
		 7864320000, "7864 MB", "7864 MB", ""},
		{"no memory", NP_CHECK_MEMORY, NP_DEGRADED, 0,
		 &facts.mem_available, 1000000000, "1000 MB", "7864 MB",
		 "prefill = 1874"},
		{"neighbours", NP_CHECK_NEIGHBOURS, NP_OK, 0, &facts.gc_thresh3,
		 1, "1", "any", ""},
		{"not shown here", NP_CHECK_NEIGHBOURS, NP_OK, 0,
		 &facts.gc_thresh3, NP_UNKNOWN, "not shown", "any", ""},
		{"pid_max", NP_CHECK_PROCESSES, NP_NOTE, 0, &facts.pid_max,
		 32768, "32768", "65536", "kernel.pid_max=65536"},
		{"threads-max", NP_CHECK_PROCESSES, NP_NOTE, 0, &facts.threads_max,
		 32768, "32768", "65536", "kernel.threads-max=65536"},
	};

	(void)state;
	for (size_t i = 0; i < EG_ARRAY_SIZE(rows); i++)
		check_row(&rows[i]);
}

/* Findings that take more than one number. */
static void test_others(void **state)
{
	struct eg_err err = {0};

	(void)state;
	(void)good(NULL);
	np_preflight(&conf, &facts, &out);
	assert_int_equal(out.worst, NP_OK);
	assert_int_equal(np_preflight_refuse(&out, &err), 0);

	facts.sysctl_error = EROFS;
	np_preflight(&conf, &facts, &out);
	assert_int_equal(out.finding[NP_CHECK_SYSCTLS].level, NP_REFUSED);
	assert_int_equal(np_preflight_refuse(&out, &err), -EOPNOTSUPP);
	assert_non_null(strstr(err.text, "/proc/sys/net is Read-only"));
	assert_non_null(strstr(err.text, "remount,rw /proc/sys"));

	(void)good(NULL);
	facts.uplink[0] = '\0';
	facts.user_namespace = true;
	facts.tunnel_links = 3;
	facts.fb_tunnels = 0;
	facts.udev = facts.networkd = true;
	np_preflight(&conf, &facts, &out);
	assert_int_equal(out.finding[NP_CHECK_UPLINK].level, NP_NOTE);
	assert_int_equal(out.finding[NP_CHECK_USERNS].level, NP_REFUSED);
	assert_int_equal(out.finding[NP_CHECK_TUNNELS].level, NP_NOTE);
	assert_int_equal(out.finding[NP_CHECK_MANAGERS].level, NP_NOTE);
	assert_string_equal(out.finding[NP_CHECK_MANAGERS].have,
			    "udev networkd ");
	assert_non_null(strstr(out.finding[NP_CHECK_MANAGERS].fix, "Unmanaged"));

	/* Turning ip_forward on sets it for every link. */
	(void)good(NULL);
	facts.ip_forward = facts.uplink_forwarding = 0;
	np_preflight(&conf, &facts, &out);
	assert_int_equal(out.finding[NP_CHECK_UPLINK].level, NP_OK);
}

/* The smallest room counts, and says which key it is. */
static void test_smallest(void **state)
{
	(void)state;
	(void)good(NULL);
	facts.nofile_hard = 10000;
	facts.max_net_namespaces = 5000;
	np_preflight(&conf, &facts, &out);
	assert_int_equal(out.worst, NP_DEGRADED);
	assert_int_equal(out.slots, 4872);
	assert_int_equal(out.limit, NP_CHECK_NAMESPACES);
	/* The launcher may raise what it may raise. */
	facts.can_raise = true;
	facts.max_net_namespaces = NP_UNKNOWN;
	np_preflight(&conf, &facts, &out);
	assert_int_equal(out.slots, 16384);
	facts.nr_open = 16000;
	np_preflight(&conf, &facts, &out);
	assert_int_equal(out.slots, 16000 - 384 - 288);
	/* No names, no mounts. */
	(void)good(NULL);
	conf.netns_names = EG_NETNS_NONE;
	facts.mount_max = 1000;
	np_preflight(&conf, &facts, &out);
	assert_int_equal(out.slots, 16384);
}

static void test_probe(void **state)
{
	struct eg_err err = {0};

	(void)state;
	(void)good(NULL);
	facts.probe.tried = false;
	np_preflight(&conf, &facts, &out);
	assert_int_equal(out.worst, NP_NOTE);
	assert_string_equal(out.finding[NP_CHECK_VETH].have, "not tried");

	facts.probe.tried = true;
	(void)eg_err_set(&facts.probe.tun, -ENOENT, "cannot open /dev/net/tun");
	np_preflight(&conf, &facts, &out);
	assert_int_equal(out.worst, NP_DEGRADED);
	assert_int_equal(np_preflight_refuse(&out, &err), 0);

	(void)eg_err_set(&facts.probe.nft, -ENOENT,
			 "a rule of chain x: CONFIG_NFT_TPROXY is missing");
	np_preflight(&conf, &facts, &out);
	assert_int_equal(np_preflight_refuse(&out, &err), -EOPNOTSUPP);
	assert_non_null(strstr(err.text, "CONFIG_NFT_TPROXY"));
	/* Without a namespace the table has not been tried. */
	(void)eg_err_set(&facts.probe.netns, -ENOSPC, "no network namespace");
	np_preflight(&conf, &facts, &out);
	assert_non_null(
		strstr(out.finding[NP_CHECK_NFT].text, "no network namespace"));
}

static void test_prefill(void **state)
{
	(void)state;
	(void)good(NULL);
	assert_int_equal(np_prefill(&conf, 1ULL << 30), 16384); /* all */
	conf.prefill = 100;
	assert_int_equal(np_prefill(&conf, 1ULL << 30), 100);
	conf.prefill = 20000;
	assert_int_equal(np_prefill(&conf, 1ULL << 30), 16384);
	conf.prefill = -1;
	assert_int_equal(np_budget(&conf, 4000000000), 1000000000);
	assert_int_equal(np_prefill(&conf, 4000000000), 2083);
	conf.memory_budget = 480000 * 7 + 1;
	assert_int_equal(np_prefill(&conf, 4000000000), 7);
	/* What a budget holds is worth a note, with the one that holds all. */
	np_preflight(&conf, &facts, &out);
	assert_int_equal(out.finding[NP_CHECK_MEMORY].level, NP_NOTE);
	assert_non_null(strstr(out.finding[NP_CHECK_MEMORY].fix,
			       "memory_budget = 7501M"));
	/* Slots that live already are paid for. */
	conf.prefill = -2;
	facts.names = 16000;
	facts.mem_available = 384ULL * 480000;
	np_preflight(&conf, &facts, &out);
	assert_int_equal(out.finding[NP_CHECK_MEMORY].level, NP_OK);
}

/* ---- facts ------------------------------------------------------------------ */

static char root[64];

static void put(const char *path, const char *text)
{
	char full[256];
	FILE *f;

	(void)snprintf(full, sizeof(full), "%s%s", root, path);
	for (char *p = full + strlen(root) + 1; (p = strchr(p, '/')); p++) {
		*p = '\0';
		(void)mkdir(full, 0755);
		*p = '/';
	}
	f = fopen(full, "we");
	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

static void tree_make(void)
{
	put("/proc/self/limits",
	    "Limit                     Soft Limit           Hard Limit           Units     \n"
	    "Max processes             96365                96365                processes \n"
	    "Max open files            1024                 4096                 files     \n");
	put("/proc/77/limits",
	    "Max open files            65536                unlimited            files     \n");
	put("/proc/self/status", "Name:\tx\nCapEff:\t000001ffffffffff\n");
	put("/proc/self/uid_map", "         0          0 4294967295\n");
	put("/proc/self/mountinfo",
	    "22 1 0:21 / / rw - ext4 /dev/vda rw\n"
	    "23 22 0:4 net:[1] /run/netns/eg-gw-00 rw - nsfs nsfs rw\n"
	    "24 22 0:4 net:[2] /run/netns/eg-00517.90211 rw - nsfs nsfs rw\n"
	    "25 22 0:4 net:[3] /run/netns/mine rw - nsfs nsfs rw\n");
	put("/proc/meminfo", "MemTotal:       24684084 kB\nMemFree: 1 kB\n"
			     "MemAvailable:   24169424 kB\n");
	put("/proc/slabinfo",
	    "slabinfo - version: 2.1\n"
	    "net_namespace        299    343   4288    7    8 : x\n");
	put("/proc/net/route",
	    "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\n"
	    "eth1\t0002000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\n"
	    "eth0\t00000000\t0102000A\t0003\t0\t0\t0\t00000000\t0\n");
	put("/proc/sys/net/ipv4/ip_forward", "0\n");
	put("/proc/sys/net/ipv4/conf/eth0/forwarding", "1\n");
	put("/proc/sys/user/max_net_namespaces", "96365\n");
	put("/proc/sys/kernel/pid_max", "no number\n");
	put("/sys/class/net/sit0", "");
	put("/run/udev/control", "");
}

static void test_facts(void **state)
{
	struct np_facts x;

	(void)state;
	(void)good(NULL);
	(void)snprintf(root, sizeof(root), "/tmp/eg-facts-XXXXXX");
	assert_non_null(mkdtemp(root));
	tree_make();
	np_facts_read(root, &conf, 0, &x);
	assert_int_equal(x.nofile_soft, 1024);
	assert_int_equal(x.nofile_hard, 4096);
	assert_true(x.can_raise && !x.user_namespace);
	assert_int_equal(x.mounts, 2);
	assert_int_equal(x.names, 1);
	assert_int_equal(x.net_namespaces, 299);
	assert_int_equal(x.mem_total, 24684084ULL * 1024);
	assert_int_equal(x.mem_available, 24169424ULL * 1024);
	assert_string_equal(x.uplink, "eth0");
	assert_int_equal(x.uplink_forwarding, 1);
	assert_true(x.uplink_rp_filter == NP_UNKNOWN);
	assert_int_equal(x.ip_forward, 0);
	assert_int_equal(x.sysctl_error, 0);
	assert_int_equal(x.max_net_namespaces, 96365);
	assert_true(x.pid_max == NP_UNKNOWN);
	assert_true(x.conntrack_max == NP_UNKNOWN);
	assert_int_equal(x.tunnel_links, 1);
	assert_true(x.udev && !x.networkd && !x.network_manager);
	assert_false(x.probe.tried);
	/* Another process's limits, and a map that is not the whole. */
	put("/proc/self/uid_map", "         0     100000      65536\n");
	np_facts_read(root, &conf, 77, &x);
	assert_true(x.nofile_hard > 1ULL << 40 && x.nofile_hard != NP_UNKNOWN);
	assert_true(x.user_namespace);
}

/* Nothing there: nothing known, and only what must be there refuses. */
static void test_no_facts(void **state)
{
	struct np_facts x;

	(void)state;
	(void)good(NULL);
	np_facts_read("/nonexistent", &conf, 0, &x);
	assert_true(x.nofile_hard == NP_UNKNOWN && x.mounts == NP_UNKNOWN);
	assert_int_equal(x.sysctl_error, ENOENT);
	np_preflight(&conf, &x, &out);
	for (unsigned int i = 0; i < NP_CHECK_COUNT; i++)
		assert_true(out.finding[i].level < NP_DEGRADED ||
			    i == NP_CHECK_SYSCTLS);
}

static int tree_gone(void **state)
{
	char cmd[128];

	(void)state;
	if (!root[0])
		return 0;
	(void)snprintf(cmd, sizeof(cmd), "rm -rf '%s'", root);
	return system(cmd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_limits), cmocka_unit_test(test_host),
		cmocka_unit_test(test_others), cmocka_unit_test(test_smallest),
		cmocka_unit_test(test_probe),  cmocka_unit_test(test_prefill),
		cmocka_unit_test(test_facts),  cmocka_unit_test(test_no_facts),
	};

	return cmocka_run_group_tests(tests, NULL, tree_gone);
}
