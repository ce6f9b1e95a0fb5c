// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: error values and escaping of foreign text
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "netpool/base/err.h"
#include "netpool/base/log.h"

#include <errno.h>
#include <string.h>

static void set(void **state)
{
	struct eg_err err = {0};

	(void)state;
	assert_int_equal(eg_err_set(NULL, -EIO, "x"), -EIO);
	assert_int_equal(eg_err_set(&err, -EIO, "no '%s'", "x"), -EIO);
	assert_int_equal(err.code, -EIO);
	assert_string_equal(err.text, "no 'x'");
	assert_int_equal(eg_err_sys(&err, -ENOENT, "open"), -ENOENT);
	assert_string_equal(err.text, "open: No such file or directory");
	assert_int_equal(eg_err_sys(NULL, -ENOENT, "open"), -ENOENT);
}

static void wrap(void **state)
{
	struct eg_err err = {0};
	char longer[2 * EG_ERR_TEXT];

	(void)state;
	(void)eg_err_set(&err, -EIO, "cause");
	assert_int_equal(eg_err_wrap(&err, "in %d", 7), -EIO);
	assert_string_equal(err.text, "in 7: cause");
	/* a text that fits is never cut for want of context */
	memset(longer, 'x', sizeof(longer));
	longer[EG_ERR_TEXT - 11] = '\0';
	(void)eg_err_set(&err, -EIO, "%s", longer);
	(void)eg_err_wrap(&err, "context");
	assert_int_equal(strlen(err.text), EG_ERR_TEXT - 2);
	longer[EG_ERR_TEXT - 11] = 'x';
	longer[sizeof(longer) - 1] = '\0';
	(void)eg_err_set(&err, -EIO, "%s", longer);
	(void)eg_err_wrap(&err, "%s", longer);
	assert_int_equal(strlen(err.text), EG_ERR_TEXT - 1);
	(void)eg_err_sys(&err, -EIO, "%s", longer);
	assert_int_equal(strlen(err.text), EG_ERR_TEXT - 1);
}

static void escape(void **state)
{
	char buf[16];

	(void)state;
	assert_string_equal(eg_escape(buf, sizeof(buf), "a\"\\\n\xff", 5),
			    "a\\x22\\x5c\\x0a");
	assert_string_equal(eg_escape(buf, sizeof(buf), "a\0b", 3), "a\\x00b");
	assert_string_equal(eg_escape(buf, 4, "abcd", 4), "abc");
	assert_string_equal(eg_escape(buf, 6, "ab\n", 3), "ab");
	/* what fits is not cut short: 15 plain octets and the NUL */
	assert_string_equal(eg_escape(buf, sizeof(buf), "0123456789abcdefg", 17),
			    "0123456789abcde");
	assert_string_equal(eg_escape(buf, 1, "abc", 3), "");
	buf[0] = 'k';
	(void)eg_escape(buf, 0, "abc", 3);
	assert_int_equal(buf[0], 'k');
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(set),
		cmocka_unit_test(wrap),
		cmocka_unit_test(escape),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
