// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: opening what a client names, against the kernel: what it is and
 * where it lies decide, also while it changes.
 */
#include "netpool/adopt.h"
#include "netpool/base/util.h"
#include "netpool/netns.h"
#include "tests/lib/nsworld.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

#define DIR "/run/adopt"
#define RACE_TURNS 3000 /* about 50 ms */

static struct eg_conf conf = {.adopt_dirs = 2,
			      .adopt_from = {"/run/later", DIR}};
static int home, good, bad;

static void sh(const char *cmd)
{
	if (nsw_run("%s", cmd))
		fail_msg("%s", cmd);
}

static void refused(const char *path, const char *why)
{
	struct eg_err err = {0};

	assert_int_equal(np_adopt_open(&conf, path, &err), -EINVAL);
	if (!strstr(err.text, why) || !strstr(err.text, path))
		fail_msg("%s", err.text);
}

static void test_opens(void **state)
{
	EG_CLEANUP_FD int fd = -1, again = -1;
	struct eg_err err;

	(void)state;
	fd = np_adopt_open(&conf, DIR "/good", &err);
	assert_true(fd >= 0);
	assert_true(np_adopt_same(fd, good));
	assert_false(np_adopt_same(fd, home));
	assert_false(np_adopt_same(fd, -1));
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	assert_false(fcntl(fd, F_GETFL) & O_PATH); /* it is for use */
	again = np_adopt_open(&conf, DIR "/sub/good", &err);
	assert_true(np_adopt_same(again, good));
}

/* The directory need not be there when the daemon starts, and may be a link */
static void test_dir_later(void **state)
{
	EG_CLEANUP_FD int fd = -1;
	struct eg_err err;

	(void)state;
	refused("/run/later/good", "does not exist");
	sh("ln -s " DIR " /run/later");
	fd = np_adopt_open(&conf, "/run/later/good", &err);
	assert_true(np_adopt_same(fd, good));
	refused("/run/later/link", "symbolic link");
	sh("rm /run/later");
}

static void test_refuses(void **state)
{
	(void)state;
	refused(DIR "/none", "does not exist");
	refused(DIR "/file", "is not a namespace");
	refused(DIR "/fifo", "is not a namespace"); /* and does not wait */
	refused(DIR "/sub", "is not a namespace");
	refused(DIR "/uts", "namespace of another kind");
	refused(DIR "/link", "symbolic link");
	refused(DIR "/linkdir/good", "symbolic link");
	refused(DIR "/proc/self/ns/net", "symbolic link");
	refused(DIR "/good/x", "no directory");
	refused(DIR "/../adopt/good", "'..'");
	refused("/run/outside", "is not below");
	refused("/proc/self/ns/net", "is not below");
}

static int inodes(void)
{
	char buf[32];

	assert_int_equal(nsw_read(buf, sizeof(buf), "ls /proc/%d/fd | wc -l",
				  (int)getpid()),
			 0);
	return atoi(buf);
}

/*
 * DIR/cur is by turns a directory with the good one in it and a link to a
 * directory with the bad one: never the bad one.
 */
static void test_race(void **state)
{
	int hits = 0, before = inodes(), st;
	pid_t pid;

	(void)state;
	sh("ln -s /run/evil " DIR "/cur");
	pid = fork();
	if (!pid)
		for (;;)
			(void)renameat2(AT_FDCWD, DIR "/sub", AT_FDCWD,
					DIR "/cur", RENAME_EXCHANGE);
	for (int i = 0; i < RACE_TURNS; i++) {
		struct eg_err err = {0};
		EG_CLEANUP_FD int fd =
			np_adopt_open(&conf, DIR "/cur/good", &err);

		assert_true(fd >= 0 || fd == -EINVAL);
		if (fd < 0)
			continue;
		assert_true(np_adopt_same(fd, good));
		hits++;
	}
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, &st, 0), pid);
	printf("  %d of %d opened, all the right one\n", hits, RACE_TURNS);
	assert_true(hits < RACE_TURNS);
	assert_int_equal(inodes(), before);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_opens), cmocka_unit_test(test_dir_later),
		cmocka_unit_test(test_refuses), cmocka_unit_test(test_race),
	};
	struct eg_err err;

	if (nsw_enter("adopt_test"))
		return 0;
	home = np_netns_self(&err);
	if (np_netns_make(home, NULL, NULL, &good, &err) ||
	    np_netns_make(home, NULL, NULL, &bad, &err) ||
	    nsw_run("mkdir -p " DIR "/sub /run/evil " DIR "/proc && cd " DIR
		    " && touch good file uts sub/good /run/evil/good /run/outside"
		    " && mkfifo fifo && ln -s good link && ln -s sub linkdir"
		    " && mount --bind /proc/$PPID/fd/%d good"
		    " && mount --bind /proc/$PPID/fd/%d sub/good"
		    " && mount --bind /proc/$PPID/fd/%d /run/evil/good"
		    " && mount --bind /proc/$PPID/fd/%d /run/outside"
		    " && mount --bind /proc/self/ns/uts uts"
		    " && mount --rbind /proc proc",
		    good, good, bad, good)) {
		printf("the namespaces and files of the test cannot be made\n");
		return 1;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
