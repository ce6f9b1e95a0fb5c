// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: address, prefix and Ethernet address values
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "netpool/base/addr.h"
#include "netpool/base/util.h"

#include <errno.h>
#include <string.h>

static void addresses(void **state)
{
	static const char *const bad[] = {
		"",	      "1",
		"1.2.3",      "1.2.3.4.5",
		"1.2.3.256",  "1.2.3.04",
		"01.2.3.4",   "1.2.3.4 ",
		" 1.2.3.4",   "1.2.3.",
		".1.2.3",     "1..2.3",
		"0x7f.0.0.1", "127.1",
		"1.2.3.4/32", "1.2.3.1000",
		"1.2.3.-1",   "1.2.3.+1",
		"::1",	      "00.0.0.0",
		"1.2.3.4\n",  "99999999999999999999",
	};
	struct eg_err err = {0};
	char buf[EG_ADDR_TEXT];
	uint32_t a = 7;

	(void)state;
	for (size_t i = 0; i < EG_ARRAY_SIZE(bad); i++) {
		assert_int_equal(eg_addr_parse(bad[i], &a, &err), -EINVAL);
		assert_int_equal(a, 7);
	}
	/* foreign bytes are not passed on raw */
	assert_int_equal(eg_addr_parse("\x1b[2J", &a, &err), -EINVAL);
	assert_memory_equal(err.text, "'\\x1b[2J' is", 12);
	assert_int_equal(eg_addr_parse("0.0.0.0", &a, &err), 0);
	assert_int_equal(a, 0);
	assert_int_equal(eg_addr_parse("255.255.255.255", &a, &err), 0);
	assert_int_equal(a, UINT32_MAX);
	assert_string_equal(eg_addr_format(a, buf), "255.255.255.255");
	assert_int_equal(eg_addr_parse("10.200.8.22", &a, &err), 0);
	assert_int_equal(a, 0x0ac80816);
	assert_string_equal(eg_addr_format(a, buf), "10.200.8.22");
}

static void prefixes(void **state)
{
	static const char *const bad[] = {
		"",
		"10.0.0.0/",
		"10.0.0.0/33",
		"10.0.0.0/08",
		"10.0.0.0/8 ",
		"10.0.0.0//8",
		"10.0.0.0/8/8",
		"10.0.0/8",
		"10.0.0.0/-1",
		"10.0.0.0/a",
		"/8",
		"10.0.0.0/100",
		"10.0.0.1/8",
	};
	struct eg_prefix p = {7, 7};
	struct eg_err err = {0};
	char buf[EG_PREFIX_TEXT];

	(void)state;
	for (size_t i = 0; i < EG_ARRAY_SIZE(bad); i++) {
		assert_int_equal(eg_prefix_parse(bad[i], &p, &err), -EINVAL);
		assert_int_equal(p.addr, 7); /* written on success only */
		assert_int_equal(p.len, 7);
	}
	assert_non_null(strstr(err.text, "the prefix would be 10.0.0.0/8"));
	assert_int_equal(eg_prefix_parse("0.0.0.0/0", &p, &err), 0);
	assert_string_equal(eg_prefix_format(p, buf), "0.0.0.0/0");
	assert_int_equal(eg_prefix_last(p), UINT32_MAX);
	assert_true(eg_prefix_has(p, 0xffffffff));
	assert_int_equal(eg_prefix_parse("255.255.255.255", &p, &err), 0);
	assert_string_equal(eg_prefix_format(p, buf), "255.255.255.255/32");
	assert_int_equal(eg_prefix_last(p), UINT32_MAX);
	assert_int_equal(eg_prefix_parse("10.1.2.0/23", &p, &err), 0);
	assert_true(eg_prefix_has(p, 0x0a0103ff));
	assert_false(eg_prefix_has(p, 0x0a010400));
}

static void overlaps(void **state)
{
	struct eg_prefix all = {0, 0}, ten = {0x0a000000, 8};
	struct eg_prefix one = {0x0a010203, 32}, next = {0x0b000000, 8};

	(void)state;
	assert_true(eg_prefix_overlap(all, one));
	assert_true(eg_prefix_overlap(one, all));
	assert_true(eg_prefix_overlap(ten, one));
	assert_true(eg_prefix_overlap(one, one));
	assert_false(eg_prefix_overlap(ten, next));
	assert_false(eg_prefix_overlap(next, one));
}

static void macs(void **state)
{
	static const char *const bad[] = {
		"",
		"06:00:ac:10:00",
		"06-00-ac-10-00-02",
		"06:00:ac:10:00:0g",
		"06:00:ac:10:00:02:",
		"6:0:ac:10:0:2",
		"06:00:ac:10:00:2 ",
		"060:0ac:100:00:0:2x",
		"07:00:ac:10:00:02",
		"ff:ff:ff:ff:ff:ff",
	};
	uint8_t mac[EG_MAC_LEN] = {1};
	struct eg_err err = {0};
	char buf[EG_MAC_TEXT];

	(void)state;
	for (size_t i = 0; i < EG_ARRAY_SIZE(bad); i++) {
		assert_int_equal(eg_mac_parse(bad[i], mac, &err), -EINVAL);
		assert_int_equal(mac[0], 1);
	}
	assert_int_equal(eg_mac_parse("06:00:AC:10:00:02", mac, &err), 0);
	assert_string_equal(eg_mac_format(mac, buf), "06:00:ac:10:00:02");
	/* all zeros is no station's address */
	assert_int_equal(eg_mac_parse("00:00:00:00:00:00", mac, &err), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(addresses),
		cmocka_unit_test(prefixes),
		cmocka_unit_test(overlaps),
		cmocka_unit_test(macs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
