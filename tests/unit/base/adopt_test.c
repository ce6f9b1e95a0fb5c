// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: who may have which namespace adopted, as text
 */
#include "netpool/base/adopt.h"
#include "netpool/base/util.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct eg_conf conf = {
	.adopt_dirs = 4,
	.adopt_from = {"/run/netns", "/var/run/netns", "/run/netns/deep",
		       "/slash/"},
	.adopt_uids = 2,
	.adopt_uid = {1001, 7},
};

static void test_may(void **state)
{
	(void)state;
	assert_true(eg_adopt_may(&conf, 0));
	assert_true(eg_adopt_may(&conf, 1001));
	assert_true(eg_adopt_may(&conf, 7));
	assert_false(eg_adopt_may(&conf, 1000));
	assert_false(eg_adopt_may(&conf, UINT32_MAX)); /* no credentials */
}

static void test_text(void **state)
{
	static const struct {
		const char *path, *why;
	} bad[] = {
		{"", "not absolute"},
		{"run/netns/x", "not absolute"},
		{"/", "empty component"},
		{"//", "empty component"},
		{"/run//netns", "empty component"},
		{"/run/netns/", "empty component"},
		{"/run/./x", "'.' or '..'"},
		{"/run/netns/.", "'.' or '..'"},
		{"/run/netns/..", "'.' or '..'"},
		{"/../run/netns/x", "'.' or '..'"},
		{"/run/netns/a/../x", "'.' or '..'"},
		{"/run/netns/a b", "blanks"},
		{"/run/netns/a\n", "blanks"},
		{"/run/netns/\x1b[2J", "blanks"},
		{"/run/netns/\xc3\xa4", "blanks"},
		{"/run/netns/\x7f", "blanks"},
	};
	char line[EG_NETNS_PATH + 8];
	struct eg_err err;

	(void)state;
	assert_int_equal(eg_adopt_text("/a", &err), 0);
	assert_int_equal(eg_adopt_text("/run/netns/cni-0_1.2@x", &err), 0);
	assert_int_equal(eg_adopt_text("/run/netns/...", &err), 0);
	assert_int_equal(eg_adopt_text("/run/netns/..a/.b", &err), 0);
	for (size_t i = 0; i < EG_ARRAY_SIZE(bad); i++) {
		assert_int_equal(eg_adopt_text(bad[i].path, &err), -EINVAL);
		if (!strstr(err.text, bad[i].why))
			fail_msg("%s", err.text);
		for (const char *c = err.text; *c; c++)
			assert_true(*c >= ' ' && *c <= '~');
	}
	memset(line, 'a', sizeof(line));
	line[0] = '/';
	assert_int_equal(eg_adopt_text(line, &err), -EINVAL); /* no end */
	line[EG_NETNS_PATH] = '\0';
	assert_int_equal(eg_adopt_text(line, &err), -EINVAL);
	assert_non_null(strstr(err.text, "127 octets"));
	line[EG_NETNS_PATH - 1] = '\0';
	assert_int_equal(eg_adopt_text(line, &err), 0);
}

static void is(const char *path, uint32_t dir, const char *rel)
{
	const char *got = NULL;
	uint32_t at = 99;
	struct eg_err err = {0};

	if (eg_adopt_path(&conf, path, &at, &got, &err))
		fail_msg("%s", err.text);
	assert_int_equal(at, dir);
	assert_string_equal(got, rel);
}

static void is_not(const char *path)
{
	const char *got = NULL;
	uint32_t at = 99;
	struct eg_err err = {0};

	assert_int_equal(eg_adopt_path(&conf, path, &at, &got, &err), -EINVAL);
	assert_null(got);
	assert_int_equal(at, 99);
	if (!strstr(err.text, path))
		fail_msg("does not name %s: %s", path, err.text);
}

static void test_path(void **state)
{
	struct eg_conf none = {0};
	struct eg_err err;
	const char *rel;
	uint32_t dir;

	(void)state;
	is("/run/netns/x", 0, "x");
	is("/var/run/netns/x", 1, "x");
	is("/run/netns/deep/x", 2, "x"); /* the longest */
	is("/run/netns/deeper/x", 0, "deeper/x");
	is("/run/netns/deep", 0, "deep");
	is("/slash/a/b", 3, "a/b");
	is_not("/run/netns");
	is_not("/run/netnsx/y");
	is_not("/run/netn/s");
	is_not("/proc/1/ns/net");
	is_not("/run/netns/../../proc/1/ns/net");
	(void)eg_adopt_path(&conf, "/etc/x", &dir, &rel, &err);
	assert_non_null(strstr(err.text, "/run/netns, /var/run/netns, "));
	assert_int_equal(eg_adopt_path(&none, "/run/netns/x", &dir, &rel, &err),
			 -EINVAL);
	assert_non_null(strstr(err.text, "none is"));
}

static void test_ifname(void **state)
{
	static const char bad[][EG_IFNAME + 1] = {
		"",	 "lo",	     "a/b", "a b", "a:1", "a%d", ".",
		"..",	 "-x",	     "a\n", "a\x80", "0123456789abcdef",
	};

	(void)state;
	assert_true(eg_ifname_ok("eth0"));
	assert_true(eg_ifname_ok("net1.100"));
	assert_true(eg_ifname_ok("0123456789abcde"));
	for (size_t i = 0; i < EG_ARRAY_SIZE(bad); i++)
		assert_false(eg_ifname_ok(bad[i]));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_may), cmocka_unit_test(test_text),
		cmocka_unit_test(test_path), cmocka_unit_test(test_ifname),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
