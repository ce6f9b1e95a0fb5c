// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: namespaces and their names, against the kernel
 */
#include "netpool/base/util.h"
#include "netpool/netns.h"
#include "netpool/sysctl.h"
#include "tests/lib/nsworld.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

#define DIR "/run/netns"

static int home = -1;

static ino_t ino(int fd)
{
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	return st.st_ino;
}

static void assert_home(void)
{
	struct eg_err err;
	int fd = np_netns_self(&err);

	assert_int_equal(ino(fd), ino(home));
	(void)close(fd);
}

static int fail_inside(void *arg, struct eg_err *err)
{
	*(int *)arg += 1;
	return eg_err_set(err, -EDOM, "inside");
}

static void test_make(void **state)
{
	struct eg_err err = {0};
	int fd = -1, calls = 0;

	(void)state;
	assert_int_equal(np_netns_make(home, NULL, NULL, &fd, &err), 0);
	assert_true(np_netns_is(fd));
	assert_int_not_equal(ino(fd), ino(home));
	assert_home();
	assert_int_equal(np_netns_run(home, fd, fail_inside, &calls, &err),
			 -EDOM);
	assert_home();
	(void)close(fd);
	fd = -1;
	assert_int_equal(np_netns_make(home, fail_inside, &calls, &fd, &err),
			 -EDOM);
	assert_int_equal(fd, -1);
	assert_int_equal(calls, 2);
	assert_string_equal(err.text, "inside");
	assert_home();
	/* not a namespace, a namespace of another sort */
	fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	assert_false(np_netns_is(fd));
	assert_true(np_netns_run(home, fd, fail_inside, &calls, &err) < 0);
	(void)close(fd);
	fd = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
	assert_false(np_netns_is(fd));
	(void)close(fd);
	assert_home();
}

/* Eight processes at once: the directory is mounted on itself once. */
static void test_prepare_race(void **state)
{
	unsigned int made = 99;
	struct eg_err err = {0};
	pid_t pid[8];

	(void)state;
	for (size_t i = 0; i < EG_ARRAY_SIZE(pid); i++) {
		pid[i] = fork();
		if (!pid[i])
			_exit(np_netns_prepare(DIR, &made, &err) ? 1 : 0);
	}
	for (size_t i = 0; i < EG_ARRAY_SIZE(pid); i++) {
		int st = -1;

		assert_int_equal(waitpid(pid[i], &st, 0), pid[i]);
		assert_int_equal(st, 0);
	}
	assert_int_equal(nsw_mounts(" " DIR " "), 1);
	assert_int_equal(np_netns_prepare(DIR, &made, &err), 0);
	assert_int_equal(made, 0);
	/* and ip(8) finds it prepared */
	assert_int_equal(nsw_run("ip netns add other"), 0);
	assert_int_equal(nsw_mounts(" " DIR " "), 1);
	assert_int_equal(nsw_run("ip netns del other"), 0);
}

static void test_name(void **state)
{
	struct eg_err err = {0};
	int fd = -1, again;

	(void)state;
	assert_int_equal(np_netns_make(home, NULL, NULL, &fd, &err), 0);
	assert_int_equal(np_netns_name(DIR, "eg-00001.7", fd, &err), 0);
	assert_int_equal(np_netns_name(DIR, "eg-00001.7", fd, &err), -EEXIST);
	assert_non_null(strstr(err.text, "eg-00001.7"));
	again = np_netns_open(DIR, "eg-00001.7", &err);
	assert_true(again >= 0);
	assert_int_equal(ino(again), ino(fd));
	(void)close(again);
	assert_int_equal(nsw_run("ip netns exec eg-00001.7 true"), 0);
	(void)close(fd);
	/* the name alone keeps it */
	assert_int_equal(nsw_run("ip netns exec eg-00001.7 true"), 0);
	assert_int_equal(np_netns_unname(DIR, "eg-00001.7", &err), 0);
	assert_int_equal(np_netns_unname(DIR, "eg-00001.7", &err), 0);
	assert_int_equal(np_netns_open(DIR, "eg-00001.7", &err), -ENOENT);
	assert_int_not_equal(
		nsw_run("ip netns exec eg-00001.7 true 2>/dev/null"), 0);
	assert_int_equal(nsw_mounts("eg-00001"), 0);
}

/* Presence of a file proves nothing. */
static void test_stale(void **state)
{
	struct eg_err err = {0};
	int fd;

	(void)state;
	fd = open(DIR "/eg-00002.9", O_CREAT | O_CLOEXEC | O_RDONLY, 0);
	(void)close(fd);
	assert_int_equal(np_netns_open(DIR, "eg-00002.9", &err), -EBADF);
	assert_int_equal(np_netns_unname(DIR, "eg-00002.9", &err), 0);
	assert_int_equal(mkfifo(DIR "/eg-00002.9", 0600), 0);
	assert_int_equal(np_netns_open(DIR, "eg-00002.9", &err), -EBADF);
	assert_int_equal(np_netns_unname(DIR, "eg-00002.9", &err), 0);
	assert_int_equal(symlink("/proc/self/ns/net", DIR "/eg-00002.9"), 0);
	assert_int_equal(np_netns_open(DIR, "eg-00002.9", &err), -EBADF);
	assert_int_equal(np_netns_unname(DIR, "eg-00002.9", &err), 0);
	assert_int_equal(access("/proc/self/ns/net", F_OK), 0);
	/* a mount of another sort of namespace */
	fd = open("/proc/self/ns/uts", O_RDONLY | O_CLOEXEC);
	assert_int_equal(np_netns_name(DIR, "eg-00002.9", fd, &err), 0);
	(void)close(fd);
	assert_int_equal(np_netns_open(DIR, "eg-00002.9", &err), -EBADF);
	assert_int_equal(np_netns_unname(DIR, "eg-00002.9", &err), 0);
}

static void test_lingering(void **state)
{
	struct np_netns_ref ref;
	struct eg_err err = {0};
	int fd = -1, held;

	(void)state;
	assert_int_equal(np_netns_make(home, NULL, NULL, &fd, &err), 0);
	np_netns_remember(fd, &ref);
	if (!ref.bytes) {
		printf("SKIP test_lingering: kernel without nsfs handles\n");
		(void)close(fd);
		return;
	}
	held = dup(fd);
	(void)close(fd);
	assert_true(np_netns_lives(&ref, home));
	(void)close(held);
	assert_false(np_netns_lives(&ref, home));
}

static void test_sysctl(void **state)
{
	struct eg_err err = {0};
	uint32_t v = 9;

	(void)state;
	assert_int_equal(np_sysctl_set("ipv4/ip_forward", 1, &err), 0);
	assert_int_equal(np_sysctl_get("ipv4/ip_forward", &v, &err), 0);
	assert_int_equal(v, 1);
	assert_int_equal(np_sysctl_set("ipv4/ip_forward", 0, &err), 0);
	assert_int_equal(np_sysctl_set("ipv4/no_such_key", 0, &err), -ENOENT);
	assert_non_null(strstr(err.text, "no_such_key"));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_make),
		cmocka_unit_test(test_prepare_race),
		cmocka_unit_test(test_name),
		cmocka_unit_test(test_stale),
		cmocka_unit_test(test_lingering),
		cmocka_unit_test(test_sysctl),
	};
	struct eg_err err;

	if (nsw_enter("netns_test"))
		return 0;
	home = np_netns_self(&err);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
