// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: others that make and end namespaces in a loop, for the bench.
 *
 *   churn net|mnt [SECONDS]
 *
 * Each turn a child makes a namespace of that kind and ends with it; `mnt`
 * first makes all mounts private and then one of its own, as every start of a
 * container does. Prints the number of turns when it ends, after SECONDS (600)
 * or on SIGTERM.
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t stopped;

static void stop(int sig)
{
	(void)sig;
	stopped = 1;
}

/* In the child. Its mounts are its own before it makes one. */
static int turn(bool net)
{
	if (net)
		return unshare(CLONE_NEWNET) < 0;
	return unshare(CLONE_NEWNS) < 0 ||
	       mount("", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	       mount("churn", "/tmp", "tmpfs", 0, NULL) < 0;
}

int main(int argc, char **argv)
{
	struct sigaction on_term = {.sa_handler = stop};
	bool net = argc > 1 && !strcmp(argv[1], "net");
	unsigned long turns = 0;
	time_t end;

	if (argc < 2 || argc > 3 || (!net && strcmp(argv[1], "mnt") != 0)) {
		(void)fprintf(stderr, "usage: churn net|mnt [SECONDS]\n");
		return 2;
	}
	(void)sigaction(SIGTERM, &on_term, NULL);
	end = time(NULL) + (argc == 3 ? strtol(argv[2], NULL, 10) : 600);
	while (!stopped && time(NULL) < end) {
		pid_t p = fork();
		int st = 0;

		if (!p)
			_exit(turn(net));
		while (p > 0 && waitpid(p, &st, 0) < 0 && errno == EINTR)
			;
		if (p < 0 || st) {
			(void)fprintf(stderr, "churn: no %s namespace\n",
				      argv[1]);
			return 1;
		}
		turns++;
	}
	(void)printf("%lu\n", turns);
	return 0;
}
