// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The host's persistent identity: ids stay, generations never repeat.
 */
#include "netpool/identity.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[64];

static int setup(void **state)
{
	(void)state;
	(void)snprintf(dir, sizeof(dir), "/tmp/eg-identity.XXXXXX");
	return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
	static const char *const names[] = { "host_id", "generation",
					     ".generation.new" };
	char path[128];

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
		(void)unlink(path);
	}
	return rmdir(dir);
}

static void put(const char *name, const char *text)
{
	char path[128];
	FILE *f;

	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "w");
	assert_non_null(f);
	(void)fputs(text, f);
	(void)fclose(f);
}

static void test_host_id_stays(void **state)
{
	uint8_t a[16], b[16];

	(void)state;
	assert_int_equal(np_host_id(dir, a, NULL), 0);
	assert_int_equal(np_host_id(dir, b, NULL), 0);
	assert_memory_equal(a, b, 16);
}

static void test_broken_host_id_is_named(void **state)
{
	struct eg_err err = { 0 };
	uint8_t a[16];

	(void)state;
	put("host_id", "not hexadecimal\n");
	assert_int_equal(np_host_id(dir, a, &err), -EBADMSG);
	assert_non_null(strstr(err.text, "host_id"));
}

static void test_blocks_never_overlap(void **state)
{
	uint64_t first, end, last = 0;

	(void)state;
	for (int i = 0; i < 20; i++) {
		assert_int_equal(np_generation_reserve(dir, 1000, &first, &end,
						       NULL), 0);
		assert_true(first > 0 && first >= last);
		assert_int_equal(end - first, 1000);
		last = end;
	}
}

/* Nothing may start again at 1 because a file could not be understood. */
static void test_broken_counter_is_refused(void **state)
{
	static const char *const bad[] = { "", "x\n", "12", "12 \n", "0\n",
					   "12\n13\n" };
	uint64_t first = 77, end = 78;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct eg_err err = { 0 };
		int r;

		put("generation", bad[i]);
		r = np_generation_reserve(dir, 10, &first, &end, &err);
		if (i == 5) {
			assert_int_equal(r, 0); /* first line counts */
			continue;
		}
		assert_int_equal(r, -EBADMSG);
		assert_int_equal(first, 77);
	}
}

static void test_exhausted(void **state)
{
	uint64_t first, end;

	(void)state;
	put("generation", "18446744073709551610\n");
	assert_int_equal(np_generation_reserve(dir, 100, &first, &end, NULL),
			 -ERANGE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_host_id_stays, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_broken_host_id_is_named,
						setup, teardown),
		cmocka_unit_test_setup_teardown(test_blocks_never_overlap,
						setup, teardown),
		cmocka_unit_test_setup_teardown(test_broken_counter_is_refused,
						setup, teardown),
		cmocka_unit_test_setup_teardown(test_exhausted, setup,
						teardown),
	};

	return cmocka_run_group_tests_name("netpool/identity", tests, NULL,
					   NULL);
}
