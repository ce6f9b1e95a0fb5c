// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: numbers, durations, sizes, ports, and the nearest word
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "netpool/base/util.h"
#include "netpool/base/value.h"

#include <errno.h>
#include <string.h>

static void numbers(void **state)
{
	static const char *const bad[] = {"",
					  "x",
					  "1x",
					  " 1",
					  "1 ",
					  "+1",
					  "-1",
					  "11",
					  "0x1",
					  "1.0",
					  "18446744073709551617"};
	struct eg_err err = {0};
	uint64_t v = 7;

	(void)state;
	for (size_t i = 0; i < EG_ARRAY_SIZE(bad); i++)
		assert_int_equal(eg_uint_parse(bad[i], 0, 10, &v, &err), -EINVAL);
	assert_int_equal(v, 7);
	assert_int_equal(eg_uint_parse("010", 0, 10, &v, &err), 0);
	assert_int_equal(v, 10);
	assert_int_equal(eg_uint_parse("99999999999999999999", 0,
				       UINT64_MAX - 1, &v, &err),
			 -EINVAL);
}

static void durations(void **state)
{
	static const struct {
		const char *text;
		uint32_t s;
		const char *back;
	} good[] = {
		{"0", 0, "0s"},		 {"90", 90, "90s"},
		{"90s", 90, "90s"},	 {"60s", 60, "1m"},
		{"10m", 600, "10m"},	 {"24h", 86400, "1d"},
		{"30d", 2592000, "30d"},
	};
	char buf[EG_DURATION_TEXT];
	struct eg_err err = {0};
	uint32_t v = 0;

	(void)state;
	for (size_t i = 0; i < EG_ARRAY_SIZE(good); i++) {
		assert_int_equal(eg_duration_parse(good[i].text, 0, UINT32_MAX,
						   &v, &err),
				 0);
		assert_int_equal(v, good[i].s);
		assert_string_equal(eg_duration_format(v, buf), good[i].back);
	}
	assert_int_equal(eg_duration_parse("1h30m", 0, 99999, &v, &err), -EINVAL);
	assert_int_equal(eg_duration_parse("h", 0, 99999, &v, &err), -EINVAL);
	assert_int_equal(eg_duration_parse("49711d", 0, UINT32_MAX, &v, &err),
			 -EINVAL);
	assert_int_equal(eg_duration_parse("99999999999999999999d", 0,
					   UINT32_MAX, &v, &err),
			 -EINVAL);
	assert_int_equal(eg_duration_parse("2h", 60, 3600, &v, &err), -EINVAL);
	assert_string_equal(err.text, "'2h' is out of range; 1m to 1h is "
				      "accepted");
}

static void sizes(void **state)
{
	static const struct {
		const char *text;
		uint64_t n;
		const char *back;
	} good[] = {
		{"0", 0, "0"},
		{"4096", 4096, "4K"},
		{"1000", 1000, "1000"},
		{"10M", 10 << 20, "10M"},
		{"2G", 2ULL << 30, "2G"},
		{"3T", 3ULL << 40, "3T"},
		{"2048G", 2ULL << 40, "2T"},
	};
	struct eg_err err = {0};
	char buf[EG_SIZE_TEXT];
	uint64_t v = 0;

	(void)state;
	for (size_t i = 0; i < EG_ARRAY_SIZE(good); i++) {
		assert_int_equal(eg_size_parse(good[i].text, &v, &err), 0);
		assert_int_equal(v, good[i].n);
		assert_string_equal(eg_size_format(v, buf), good[i].back);
	}
	assert_int_equal(eg_size_parse("", &v, &err), -EINVAL);
	assert_int_equal(eg_size_parse("K", &v, &err), -EINVAL);
	assert_int_equal(eg_size_parse("1k", &v, &err), -EINVAL);
	assert_int_equal(eg_size_parse("1KB", &v, &err), -EINVAL);
	assert_int_equal(eg_size_parse("8388608T", &v, &err), -EINVAL);
	assert_int_equal(eg_size_parse("99999999999999999999", &v, &err),
			 -EINVAL);
}

static void ports(void **state)
{
	static const char *const good[][2] = {
		{"tcp/443", "tcp/443"},	     {"443/tcp", "tcp/443"},
		{"UDP/5-6", "udp/5-6"},	     {"5-6/udp", "udp/5-6"},
		{"6/17", "tcp/17"},	     {"icmp/0", "icmp/0"},
		{"132/65535", "sctp/65535"}, {"1/8", "icmp/8"},
	};
	static const char *const bad[] = {
		"",	     "/",      "tcp",	    "443",	"tcp/",
		"/443",	     "tcp/x",  "tcp/1-",    "tcp/-1",	"tcp/0",
		"tcp/1/2",   "x/1",    "255/1",	    "443/6666", "tcp/2-1",
		"tcp/65536", "tcp /1", "icmp/8-8x",
	};
	struct eg_err err = {0};
	char buf[EG_PORT_TEXT];
	struct eg_port p;

	(void)state;
	for (size_t i = 0; i < EG_ARRAY_SIZE(good); i++) {
		assert_int_equal(eg_port_parse(good[i][0], &p, &err), 0);
		assert_true(eg_port_valid(&p));
		assert_string_equal(eg_port_format(&p, buf), good[i][1]);
	}
	for (size_t i = 0; i < EG_ARRAY_SIZE(bad); i++)
		if (eg_port_parse(bad[i], &p, &err) != -EINVAL)
			fail_msg("accepted '%s'", bad[i]);
}

static void nearest(void **state)
{
	static const char *const names[] = {"slots", "prefix", "prefill"};

	(void)state;
	assert_string_equal(eg_nearest("slot", names, 3), "slots");
	assert_string_equal(eg_nearest("slots", names, 3), "slots");
	assert_string_equal(eg_nearest("perfix", names, 3), "prefix");
	assert_string_equal(eg_nearest("prefilll", names, 3), "prefill");
	assert_null(eg_nearest("zebra", names, 3));
	assert_null(eg_nearest("a word that is far too long to be any of "
			       "these names here",
			       names, 3));
	assert_null(eg_nearest("x", names, 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers), cmocka_unit_test(durations),
		cmocka_unit_test(sizes),   cmocka_unit_test(ports),
		cmocka_unit_test(nearest),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
