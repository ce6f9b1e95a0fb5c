// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: tests of time and id texts.
 */
#include "netpool/base/loop.h"
#include "netpool/base/stamp.h"
#include "netpool/base/util.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

static void test_stamp(void **state)
{
	char b[EG_STAMP_TEXT];

	(void)state;
	assert_string_equal(eg_stamp_ns(0, b), "1970-01-01T00:00:00.000000000Z");
	assert_string_equal(eg_stamp_ns(1796072645123456789LL, b),
			    "2026-11-30T21:04:05.123456789Z");
	assert_string_equal(eg_stamp_ms(1796072645123999999LL, b),
			    "2026-11-30T21:04:05.123Z");
	assert_string_equal(eg_stamp_date(951782400LL * EG_NSEC_PER_SEC, b),
			    "2000-02-29");
	assert_string_equal(eg_stamp_ms(-5, b), "1970-01-01T00:00:00.000Z");
	assert_string_equal(eg_stamp_ns(INT64_MAX, b),
			    "2262-04-11T23:47:16.854775807Z");
}

/* The C library's calendar says the same, day by day over 290 years. */
static void test_calendar(void **state)
{
	(void)state;
	for (int64_t day = 0; day < 106000; day++) {
		time_t t = (time_t)(day * 86400 + 86399);
		char mine[EG_STAMP_TEXT], libc[64];
		struct tm tm;

		assert_non_null(gmtime_r(&t, &tm));
		assert_true(strftime(libc, sizeof(libc),
				     "%Y-%m-%dT%H:%M:%S.000Z", &tm));
		assert_string_equal(eg_stamp_ms(t * EG_NSEC_PER_SEC, mine), libc);
	}
}

static void test_uuid(void **state)
{
	uint8_t a[16], b[16], c[16];
	char text[EG_UUID_TEXT];

	(void)state;
	assert_int_equal(eg_uuid_make(1796072645123456789LL, a), 0);
	assert_int_equal(eg_uuid_make(1796072645123956789LL, b), 0);
	assert_true(memcmp(a, b, 8) < 0); /* ordered within a millisecond */
	assert_int_equal(a[6] >> 4, 7);
	assert_int_equal(a[8] >> 6, 2);
	assert_int_equal(strlen(eg_uuid_format(a, text)), 36);
	assert_int_equal(eg_uuid_parse(text, c), 0);
	assert_memory_equal(a, c, 16);
	assert_int_equal(
		eg_uuid_parse("0192F1C4-0000-7000-8000-00000000000a", c), 0);
	assert_int_equal(eg_uuid_parse("", c), -EINVAL);
	assert_int_equal(eg_uuid_parse("0192f1c4000070008000000000000000", c),
			 -EINVAL);
	assert_int_equal(eg_uuid_parse("0192f1c4-0000-7000-8000-00000000000", c),
			 -EINVAL);
	assert_int_equal(eg_uuid_parse("0192f1c4-0000-7000-8000-0000000000000", c),
			 -EINVAL);
	assert_int_equal(eg_uuid_parse("0192f1c4-0000-7000-8000-0000000000g0", c),
			 -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stamp),
		cmocka_unit_test(test_calendar),
		cmocka_unit_test(test_uuid),
	};

	return cmocka_run_group_tests_name("base/stamp", tests, NULL, NULL);
}
