// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Tombstones: found by id and uid, forgotten in order, bounded, and what a
 * new main finds of them, also when the last write was cut short.
 */
#include "netpool/base/util.h"
#include "netpool/tomb.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SEGMENT 4096

static char path[] = "/tmp/tomb-XXXXXX";
static int dir = -1;

static struct eg_lease lease(uint32_t n)
{
	struct eg_lease l = {.generation = n + 1};

	(void)snprintf(l.req.id, sizeof(l.req.id), "run-%u", n);
	memcpy(l.uid, &n, sizeof(n));
	return l;
}

static void add(struct np_tombs *t, uint32_t n, int64_t until)
{
	struct eg_lease l = lease(n);

	assert_int_equal(np_tombs_add(t, dir, &l, until), 0);
}

static unsigned int files(void)
{
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY);
	DIR *d = fdopendir(fd);
	unsigned int n = 0;
	struct dirent *e;

	while ((e = readdir(d)))
		n += e->d_name[0] != '.';
	(void)closedir(d);
	return n;
}

static int fresh(void **state)
{
	(void)state;
	(void)strcpy(path + strlen(path) - 6, "XXXXXX");
	if (!mkdtemp(path))
		return -1;
	dir = open(path, O_RDONLY | O_DIRECTORY);
	return dir < 0;
}

static int gone(void **state)
{
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY);
	DIR *d = fdopendir(fd);
	struct dirent *e;

	(void)state;
	while ((e = readdir(d)))
		(void)unlinkat(dir, e->d_name, 0);
	(void)closedir(d);
	(void)close(dir);
	return rmdir(path);
}

static void test_found_until_over(void **state)
{
	struct np_tombs *t = np_tombs_new();
	struct eg_lease l = lease(7);

	(void)state;
	add(t, 7, 100);
	add(t, 8, 200);
	assert_non_null(np_tombs_id(t, "run-7"));
	assert_null(np_tombs_id(t, "run-9"));
	assert_int_equal(np_tombs_uid(t, l.uid)->generation, 8);
	np_tombs_tick(t, dir, 99);
	assert_int_equal(np_tombs_count(t), 2);
	np_tombs_tick(t, dir, 100);
	assert_null(np_tombs_id(t, "run-7"));
	assert_null(np_tombs_uid(t, l.uid));
	assert_non_null(np_tombs_id(t, "run-8"));
	np_tombs_free(t);
}

static void test_a_new_main_finds_them(void **state)
{
	struct np_tombs *t = np_tombs_new();
	uint32_t n = 2 * SEGMENT + 10;

	(void)state;
	for (uint32_t i = 0; i < n; i++)
		add(t, i, 1000 + i);
	assert_int_equal(files(), 3);
	np_tombs_free(t);
	t = np_tombs_new();
	np_tombs_load(t, dir);
	assert_int_equal(np_tombs_count(t), n);
	assert_int_equal(np_tombs_id(t, "run-5000")->generation, 5001);
	/* The next goes into a file of its own, and files go when empty. */
	add(t, n, 1000 + n);
	assert_int_equal(files(), 4);
	np_tombs_tick(t, dir, 1000 + SEGMENT);
	assert_int_equal(files(), 3);
	np_tombs_tick(t, dir, 1000 + n - 1);
	assert_int_equal(np_tombs_count(t), 1);
	assert_int_equal(files(), 1);
	np_tombs_free(t);
}

static void test_a_cut_record_ends_its_file(void **state)
{
	struct np_tombs *t = np_tombs_new();
	struct stat st;
	int fd;

	(void)state;
	for (uint32_t i = 0; i < 3; i++)
		add(t, i, 1000);
	np_tombs_free(t);
	fd = openat(dir, "0000000001.tombs", O_RDWR);
	assert_int_equal(fstat(fd, &st), 0);
	for (off_t len = st.st_size - 1; len >= 0; len--) {
		assert_int_equal(ftruncate(fd, len), 0);
		t = np_tombs_new();
		np_tombs_load(t, dir);
		assert_int_equal(np_tombs_count(t), len / (st.st_size / 3));
		np_tombs_free(t);
	}
	(void)close(fd);
	assert_int_equal(files(), 0); /* an empty one is of no use */
}

static void test_a_flipped_octet_is_no_record(void **state)
{
	struct np_tombs *t = np_tombs_new();
	uint8_t c;
	int fd;

	(void)state;
	add(t, 1, 1000);
	add(t, 2, 1000);
	np_tombs_free(t);
	fd = openat(dir, "0000000001.tombs", O_RDWR);
	assert_int_equal(pread(fd, &c, 1, 20), 1);
	c ^= 4;
	assert_int_equal(pwrite(fd, &c, 1, 20), 1);
	t = np_tombs_new();
	np_tombs_load(t, dir);
	assert_int_equal(np_tombs_count(t), 0);
	np_tombs_free(t);
	(void)close(fd);
}

static void test_bounded(void **state)
{
	struct np_tombs *t = np_tombs_new();

	(void)state;
	for (uint32_t i = 0; i < NP_TOMBS + 10; i++)
		add(t, i, INT64_MAX);
	assert_int_equal(np_tombs_count(t), NP_TOMBS);
	assert_null(np_tombs_id(t, "run-9"));
	assert_non_null(np_tombs_id(t, "run-10"));
	assert_true(files() <= NP_TOMBS / SEGMENT + 1);
	np_tombs_free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_found_until_over, fresh,
						gone),
		cmocka_unit_test_setup_teardown(test_a_new_main_finds_them,
						fresh, gone),
		cmocka_unit_test_setup_teardown(test_a_cut_record_ends_its_file,
						fresh, gone),
		cmocka_unit_test_setup_teardown(
			test_a_flipped_octet_is_no_record, fresh, gone),
		cmocka_unit_test_setup_teardown(test_bounded, fresh, gone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
