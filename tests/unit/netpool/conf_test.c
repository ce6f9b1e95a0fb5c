// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: egressd.conf: defaults, every refusal, and that what is printed
 * parses to the same values.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "netpool/conf.h"
#include "netpool/conf_key.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[64], resolv[128], path[128];
static struct eg_conf a, b; /* about 250 kB each */

static void put(const char *name, const char *text, char full[128])
{
	FILE *f;

	(void)snprintf(full, 128, "%s/%s", dir, name);
	f = fopen(full, "we");
	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

static int setup(void **state)
{
	(void)state;
	(void)snprintf(dir, sizeof(dir), "/tmp/eg-conf-XXXXXX");
	if (!mkdtemp(dir))
		return -1;
	put("resolv.conf",
	    "# made here\nsearch x.example\nnameserver fd00::1\n"
	    "nameserver 198.51.100.53\n\tnameserver\t127.0.0.53 \noptions x\n",
	    resolv);
	(void)snprintf(path, sizeof(path), "%s/egressd.conf", dir);
	return 0;
}

static int teardown(void **state)
{
	char cmd[128];

	(void)state;
	for (int i = 0; i < 3; i++) {
		static const char *const names[] = {"resolv.conf", "deny",
						    "always-deny"};

		(void)snprintf(cmd, sizeof(cmd), "%s/%s", dir, names[i]);
		(void)unlink(cmd);
	}
	return rmdir(dir);
}

static int parse(const char *text, struct eg_conf *c, struct eg_err *err)
{
	memset(c, 0, sizeof(*c));
	*err = (struct eg_err){0};
	return np_conf_parse(text, strlen(text), path, resolv, c, err);
}

static void accepts(const char *text)
{
	struct eg_err err;

	if (parse(text, &a, &err))
		fail_msg("refused: %s", err.text);
}

/* @want: what the sentence has to begin with after the path, or hold. */
static void refuses(const char *text, const char *want)
{
	struct eg_err err;
	int rc = parse(text, &a, &err);

	if (!rc)
		fail_msg("accepted: %s", text);
	assert_int_equal(rc, err.code);
	if (!strstr(err.text, want))
		fail_msg("'%s' does not say '%s'", err.text, want);
	if (strncmp(err.text, path, strlen(path)))
		fail_msg("'%s' does not name its file", err.text);
	assert_int_equal(a.magic, 0); /* not written */
}

static void defaults(void **state)
{
	struct eg_err err = {0};
	char text[EG_PREFIX_TEXT];

	(void)state;
	assert_int_equal(np_conf_defaults(path, resolv, &a, &err), 0);
	assert_int_equal(a.magic, EG_CONF_MAGIC);
	assert_int_equal(a.size, sizeof(a));
	assert_string_equal(eg_prefix_format(a.prefix, text), "10.200.0.0/16");
	assert_int_equal(a.slots, 16384);
	assert_int_equal(a.gateways, 64);
	assert_int_equal(a.prefill, -1);
	assert_int_equal(a.memory_budget_pct, 25);
	assert_int_equal(a.armed, 256);
	assert_true(a.masquerade);
	assert_true(a.upstream_system);
	assert_int_equal(a.upstreams, 2);
	assert_int_equal(a.upstream[0].addr, 0xc6336435);
	assert_int_equal(a.upstream[1].addr, 0x7f000035);
	assert_int_equal(a.upstream[1].port, 53);
	assert_int_equal(a.max_ttl, 3600);
	assert_int_equal(a.dns_rate, 200);
	assert_int_equal(a.dns_burst, 400);
	assert_int_equal(a.keep_records_s, 400 * 86400);
	assert_int_equal(a.max_ttl_s, 86400);
	assert_int_equal(a.adopt_dirs, 3);
	assert_string_equal(a.api_socket, "/run/egressd/api.sock");
	assert_string_equal(a.read_socket, "/run/egressd/read.sock");
	assert_string_equal(a.audit_dir, "/var/lib/egressd/audit");
	assert_string_equal(a.file, path);
	assert_string_equal(a.deny_file, "");
	assert_int_equal(a.admin_gid, UINT32_MAX);
	assert_int_equal(a.metrics_port, 0);
	assert_true(a.role_uid[EG_ROLE_API] && a.role_uid[EG_ROLE_DNS]);
	assert_int_equal(a.role_uid[EG_ROLE_MAIN], 0);
	assert_int_equal(eg_conf_denied(&a, 0xa9fea9fe)->class, EG_DENY_METADATA);
	assert_int_equal(eg_conf_denied(&a, 0xa9fea97b)->class, EG_DENY_RESERVED);
	assert_int_equal(eg_conf_denied(&a, 0x0a000001)->class, EG_DENY_PRIVATE);
	assert_null(eg_conf_denied(&a, 0xc6336401));
}

/* Print, parse the output, and compare; permits' lines are the text's. */
static void round_trip(const char *text)
{
	struct eg_err err;
	char *out = NULL, *again = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&out, &len);

	accepts(text);
	np_conf_print(&a, f);
	assert_int_equal(fclose(f), 0);
	if (parse(out, &b, &err))
		fail_msg("printed form refused: %s\n%s", err.text, out);
	for (uint32_t i = 0; i < EG_CONF_PERMITS; i++) {
		a.permit_private[i].line = b.permit_private[i].line = 0;
		a.permit_host[i].line = b.permit_host[i].line = 0;
	}
	f = open_memstream(&again, &len);
	np_conf_print(&b, f);
	assert_int_equal(fclose(f), 0);
	assert_string_equal(out, again);
	assert_memory_equal(&a, &b, sizeof(a)); /* padding is zero as well */
	free(out);
	free(again);
}

static void printed_is_parsed(void **state)
{
	(void)state;
	round_trip("");
	round_trip("[pool]\nprefix=172.30.0.0/20\nslots=1000\n"
		   "slots_per_gateway=100\nprefill=12\nmemory_budget=3G\n"
		   "armed=0\nnetns_names=none\n"
		   "[uplink]\nmode=host\nmasquerade=no\n"
		   "link_prefix=172.31.0.0/27\nmtu=1400\n"
		   "[dns]\nupstream=192.0.2.1,192.0.2.2:5353\nmin_ttl=5s\n"
		   "max_ttl=90s\ngrace=0\ndeny_rcode=refused\nrate=50\n"
		   "burst=60\n"
		   "[rules]\ndeny=drop\nalways_deny_file=builtin\n"
		   "permit_private=10.3.0.10/32 tcp/6443,443/tcp "
		   "tenant=acme,beta ; why\n"
		   "permit_private = 10.4.0.0/16 udp/5000-6000\n"
		   "permit_host=172.31.0.1 tcp/8081\n"
		   "[audit]\ndir=/a\nsnaplen=256\nmax_lease_bytes=10M\n"
		   "max_total_bytes=1T\nkeep_records=3d\nkeep_pcap=61s\n"
		   "[lease]\ndefault_ttl=10m\nmax_ttl=11m\ntombstone=0\n"
		   "adopt_from=/x:y\n"
		   "[api]\nsocket=s/a\ngroup=0\nread_socket=s/b\n"
		   "read_group=12\nadmin_group=root\nadopt_uids=1001, root\n"
		   "require_fence=yes\n"
		   "[metrics]\nlisten=127.0.0.1:9477\n"
		   "[roles]\napi=5\ndns=6:7\naudit=nobody\n"
		   "[paths]\nrun=r\nstate=/s/\nnetns=n/\npolicies=p\n");
	assert_int_equal(a.permits_private, 3);
	assert_int_equal(a.gateways, 10);
	assert_int_equal(a.role_gid[EG_ROLE_DNS], 7);
}

static void relative_paths(void **state)
{
	char want[256];
	struct eg_err err = {0};

	(void)state;
	accepts("[paths]\npolicies=policy.d/\nrun=/x/\n");
	(void)snprintf(want, sizeof(want), "%s/policy.d", dir);
	assert_string_equal(a.policies, want);
	assert_string_equal(a.run, "/x");
	assert_string_equal(a.api_socket, "/x/api.sock");
	/* a relative file name: its directory is made absolute */
	assert_int_equal(np_conf_parse("[paths]\nrun=r\n", 14, "e.conf", resolv,
				       &a, &err),
			 0);
	assert_int_equal(a.run[0], '/');
	assert_int_equal(np_conf_parse("[paths]\nrun=r\n", 14, "/e.conf",
				       resolv, &a, &err),
			 0);
	assert_string_equal(a.run, "/r");
	refuses("[paths]\nrun=a b\n", ":2:5: [paths] run: path 'a b' holds");
	refuses("[paths]\nrun=\n", ":2:5: [paths] run: the path is empty");
	refuses("[paths]\nrun=/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n",
		"longer than 107 bytes");
}

static void unknown(void **state)
{
	(void)state;
	refuses("[pol]\n", ":1:2: there is no section [pol]; did you mean "
			   "[pool]?");
	refuses("[zebra]\n", ":1:2: there is no section [zebra]; sections are");
	refuses("[pool]\nslot = 4\n",
		":2:1: [pool] has no key 'slot'; did you mean 'slots'?");
	refuses("[pool]\nupstream = system\n", "it belongs in [dns]");
	refuses("[dns]\nzzz = 1\n", "its keys are upstream, min_ttl, max_ttl");
	refuses("[pool]\nslots=4\n[dns]\n[pool]\nslots=5\n",
		":5:1: [pool] slots stands in line 2 already");
}

static void values(void **state)
{
	(void)state;
	refuses("[pool]\nslots=0\n", ":2:7: [pool] slots: '0' is not a number "
				     "from 1 to 16384");
	refuses("[pool]\nslots=16385\n", "'16385' is not a number from 1");
	refuses("[pool]\nslots=99999999999999999999999\n", "is not a number");
	refuses("[pool]\nslots=-1\n", "'-1' is not a number");
	refuses("[pool]\nslots_per_gateway=257\n", "from 1 to 256");
	refuses("[pool]\nprefill=some\n", "'some' is not auto, all or");
	refuses("[pool]\nmemory_budget=0%\n", "is not 1% to 95%");
	refuses("[pool]\nmemory_budget=12\n", "neither a share");
	refuses("[pool]\nnetns_names=all\n", "'all' is not leased or none");
	refuses("[pool]\nprefix=10.200.0.1/16\n",
		"has host bits set; the prefix would be 10.200.0.0/16");
	refuses("[uplink]\nmode=bridge\n", "'bridge' is not host");
	refuses("[uplink]\nmasquerade=true\n", "'true' is neither yes nor no");
	refuses("[uplink]\nmtu=100\n", "neither auto nor a number from 576");
	refuses("[dns]\nmin_ttl=1w\n", "'1w' is not a duration; write 90s");
	refuses("[dns]\nmin_ttl=2d\n", "out of range; 1s to 1d");
	refuses("[dns]\nupstream=\n", "upstream is system or ADDRESS");
	refuses("[dns]\nupstream=::1\n", "'::1' is not ADDRESS or");
	refuses("[dns]\nupstream=192.0.2.1:0\n", "is not ADDRESS or");
	refuses("[dns]\nupstream=0.0.0.0\n", "not the address of a name");
	refuses("[dns]\ndeny_rcode=x\n", "'x' is not nxdomain or refused");
	refuses("[audit]\nmax_lease_bytes=5X\n", "'5X' is not a size");
	refuses("[audit]\nmax_lease_bytes=99999999999T\n", "is too large");
	refuses("[api]\ngroup=no-such-group\n", "there is no group 'no-such");
	refuses("[api]\ngroup=\n", "the group is empty");
	refuses("[api]\nadopt_uids=no-such-user\n", "there is no user");
	refuses("[metrics]\nlisten=127.0.0.1\n", "is not ADDRESS:PORT");
	refuses("[roles]\ndns=no-such-user\n", "there is no user");
	refuses("[pool]\nslots: 4\n", ":2:6: ':' does not separate");
}

static void contradictions(void **state)
{
	(void)state;
	refuses("[pool]\nprefix=10.200.0.0/24\nslots=256\n",
		":2:8: [pool] prefix 10.200.0.0/24 holds 64 slots (a /30 "
		"each), but slots is 256; a /22 would do, or slots = 64");
	refuses("[pool]\nprefix=10.200.0.0/31\nslots=1\n", "no room for one");
	refuses("[pool]\nslots=1000\nslots_per_gateway=1\n",
		"make 1000 gateways; 256 is the most: slots_per_gateway of at "
		"least 4 would do");
	refuses("[uplink]\nlink_prefix=10.201.0.0/26\n",
		"too small for the links of 64 gateways (a /31 each); a /25");
	refuses("[uplink]\nlink_prefix=10.200.9.0/24\n",
		":2:13: [uplink] link_prefix 10.200.9.0/24 overlaps [pool] "
		"prefix 10.200.0.0/16");
	refuses("[pool]\nprefix=169.254.0.0/16\n", "which is always denied");
	refuses("[pool]\nprefix=100.100.0.0/16\n", "overlaps 100.100.100.200");
	refuses("[dns]\nmin_ttl=2h\n", "[dns] min_ttl = 7200 is above max_ttl");
	refuses("[lease]\nmax_ttl=1m\n", ":2:9: [lease] default_ttl = 3600");
	refuses("[dns]\nrate=500\n", "[dns] rate = 500 is above burst = 400");
	refuses("[dns]\nupstream=10.200.0.1\n",
		":2:10: [dns] upstream 10.200.0.1 is an address of egressd");
	refuses("[dns]\nupstream=10.201.0.1\n", "is an address of egressd");
	refuses("[roles]\napi=0\n", "[roles] api is root (0:0)");
	refuses("[roles]\napi=9\ndns=9\n", "api and dns are both uid 9");
	refuses("[api]\nsocket=/s\nread_socket=/s\n", "are both '/s'");
	refuses("[paths]\nrun=/r\nstate=/r/state\n", "lies in run '/r'");
	accepts("[paths]\nrun=/r\nstate=/run\n");
}

static void permits(void **state)
{
	(void)state;
	accepts("[rules]\npermit_private = 10.3.0.10/32 tcp/6443 "
		"tenant=acme,beta      ; repeatable\n"
		"permit_host = 10.201.0.1 tcp/8081\n");
	assert_int_equal(a.permits_private, 1);
	assert_int_equal(a.permit_private[0].line, 2);
	assert_string_equal(a.permit_private[0].tenants, "acme,beta");
	assert_int_equal(a.permits_host, 1);
	refuses("[rules]\npermit_private=10.3.0.10/32\n",
		":2:16: [rules] permit_private: permit_private wants PREFIX");
	refuses("[rules]\npermit_private=10.3.0.10/32 6443\n",
		"'6443' is not a protocol and port");
	refuses("[rules]\npermit_private=10.3.0.10/32 tcp/1 x\n",
		"'x' is not tenant=NAME");
	refuses("[rules]\npermit_private=10.3.0.10/32 tcp/1 tenant=a,\n",
		"is not tenant=NAME");
	refuses("[rules]\npermit_private=10.3.0.10/32 tcp/1 tenant=a b\n",
		"'b' is one word too many");
	refuses("[rules]\npermit_host=10.3.0.0/24 tcp/1\n",
		"is not one address of this host");
	refuses("[rules]\npermit_private=10.200.3.0/24 tcp/1\n",
		":2:1: [rules] permit_private 10.200.3.0/24 overlaps [pool]");
	refuses("[rules]\npermit_private=10.0.0.0/8 tcp/1\n", "overlaps");
	refuses("[rules]\npermit_private=10.201.0.0/31 tcp/1\n", "link_prefix");
	refuses("[rules]\npermit_host=169.254.169.254 tcp/80\n",
		"overlaps always denied 169.254.169.254/32, which nothing can");
	refuses("[rules]\npermit_private=100.64.0.0/10 tcp/80\n",
		"overlaps always denied 100.100.100.200/32");
	refuses("[rules]\npermit_private=10.3.0.1 udp/1-100\n", "names port 53");
}

static void resolvers(void **state)
{
	struct eg_err err = {0};
	char empty[128];

	(void)state;
	put("deny", "nameserver fd00::1\nnameserver\n", empty);
	/* no resolver is no reason not to start: leases must be taken over */
	assert_int_equal(np_conf_defaults(path, empty, &a, &err), 0);
	assert_int_equal(a.upstreams, 0);
	assert_int_equal(np_conf_defaults(path, "/no/such", &a, &err), 0);
	assert_int_equal(a.upstreams, 0);
	assert_int_equal(np_conf_defaults(path, "/dev/null/x", &a, &err),
			 -ENOTDIR);
	assert_non_null(strstr(err.text, "cannot open '/dev/null/x'"));
}

static void deny_file(void **state)
{
	struct eg_err err;
	char file[128];

	(void)state;
	refuses("[rules]\nalways_deny_file=nope\n", "cannot open");
	put("deny",
	    "203.0.113.0/24 reserved # x\n\n# y\n"
	    "203.0.113.9 metadata;z\nExample.COM metadata\n"
	    "2001:db8::/32 reserved\n",
	    file);
	/* the place is in that file */
	assert_true(parse("[rules]\nalways_deny_file=deny\n", &a, &err) < 0);
	assert_non_null(strstr(err.text, "/deny:4:1: 'metadata;z' is not"));
	put("deny",
	    "203.0.113.0/24 reserved # x\n\n# y\r\n"
	    "203.0.113.9 metadata ;z\nExample.COM metadata\n"
	    "2001:db8::/32 reserved",
	    file);
	round_trip("[rules]\nalways_deny_file=deny\n");
	assert_string_equal(a.deny_file, file);
	assert_int_equal(a.denies, 2);
	assert_int_equal(a.deny_names, 1);
	assert_int_equal(a.deny[0].dst.len, 32); /* longest first */
	put("always-deny", "192.0.2.1 metadata\n", file);
	accepts(""); /* beside the configuration: found without a key */
	assert_int_equal(a.denies, 1);
	assert_int_equal(unlink(file), 0);
}

static void deny_lines(void **state)
{
	static const char *const bad[] = {
		"1.2.3.4",
		"1.2.3.4 evil",
		"1.2.3.4 metadata extra",
		"1.2.3.4/33 reserved",
		"1.2.3.1/24 reserved",
		"fd00::g metadata",
		"fd00::/129 metadata",
		"a..b metadata",
		"1.2.3.4 metadata\n1.2.3.4 private",
	};
	struct eg_err err;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		memset(&a, 0, sizeof(a));
		err = (struct eg_err){0};
		assert_true(np_conf_deny_parse(&a, "d", bad[i], strlen(bad[i]),
					       &err) < 0);
		assert_memory_equal(err.text, "d:", 2);
	}
}

static char *slurp(const char *name, size_t *len)
{
	FILE *f = fopen(name, "re");
	char *text = calloc(1, 65536);

	if (!f)
		fail_msg("run from the project's root: no %s", name);
	*len = fread(text, 1, 65535, f);
	(void)fclose(f);
	return text;
}

/* The file we ship, the list we compile in: the same. */
static void shipped_deny(void **state)
{
	const char *in = np_conf_deny_builtin();
	struct eg_err err = {0};
	size_t len;
	char *text = slurp("conf/always-deny", &len);

	(void)state;
	memset(&a, 0, sizeof(a));
	memset(&b, 0, sizeof(b));
	if (np_conf_deny_parse(&a, "conf/always-deny", text, len, &err) ||
	    np_conf_deny_parse(&b, "builtin", in, strlen(in), &err))
		fail_msg("%s", err.text);
	assert_memory_equal(&a, &b, sizeof(a));
	free(text);
}

/* The sample: valid as it is, every key in it, every value the default. */
static void shipped_conf(void **state)
{
	struct eg_err err = {0};
	char *def = NULL, *save, *key;
	size_t len;
	char *text = slurp("conf/egressd.conf", &len);
	FILE *f = open_memstream(&def, &len);

	(void)state;
	accepts(text);
	assert_int_equal(np_conf_defaults(path, resolv, &b, &err), 0);
	memcpy(b.policies, a.policies, sizeof(b.policies)); /* relative */
	assert_memory_equal(&a, &b, sizeof(a));
	np_conf_print(&a, f);
	(void)fclose(f);
	for (key = strtok_r(def, "\n", &save); key;
	     key = strtok_r(NULL, "\n", &save)) {
		char *eq = strstr(key, " =");

		if (*key == '#' || *key == '[' || !eq)
			continue;
		eq[2] = '\0';
		if (!strstr(text, key))
			fail_msg("conf/egressd.conf lacks '%s'", key);
	}
	assert_non_null(strstr(text, "#permit_private ="));
	assert_non_null(strstr(text, "#permit_host ="));
	free(def);
	free(text);
}

static void load(void **state)
{
	struct eg_err err = {0};

	(void)state;
	assert_int_equal(np_conf_load("/no/such.conf", &a, &err), -ENOENT);
	assert_non_null(strstr(err.text, "'/no/such.conf'"));
	assert_int_equal(np_conf_load("/tmp", &a, &err), -EISDIR);
}

static void host(void **state)
{
	struct eg_prefix p[] = {{0xc0a80001, 32}, {0x0ac80503, 32}};
	struct eg_prefix link = {0x0ac90005, 32}, all = {0x0a000000, 8};
	struct eg_err err = {0};

	(void)state;
	accepts("");
	assert_int_equal(np_conf_check_host(&a, p, 1, &err), 0);
	assert_int_equal(np_conf_check_host(&a, p, 2, &err), -EADDRINUSE);
	assert_non_null(strstr(err.text, "[pool] prefix 10.200.0.0/16 overlaps "
					 "10.200.5.3/32"));
	assert_int_equal(np_conf_check_host(&a, &link, 1, &err), -EADDRINUSE);
	assert_non_null(strstr(err.text, "link_prefix"));
	assert_int_equal(np_conf_check_host(&a, &all, 1, &err), -EADDRINUSE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(defaults),
		cmocka_unit_test(printed_is_parsed),
		cmocka_unit_test(relative_paths),
		cmocka_unit_test(unknown),
		cmocka_unit_test(values),
		cmocka_unit_test(contradictions),
		cmocka_unit_test(permits),
		cmocka_unit_test(resolvers),
		cmocka_unit_test(deny_file),
		cmocka_unit_test(deny_lines),
		cmocka_unit_test(shipped_deny),
		cmocka_unit_test(shipped_conf),
		cmocka_unit_test(load),
		cmocka_unit_test(host),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
