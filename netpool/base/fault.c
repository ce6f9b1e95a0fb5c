// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: numbered points of a test build (see fault.h)
 *
 * Both files are opened when the process knows its role, before it drops what
 * opening them needs; a chroot later does not matter.
 */
#include "netpool/base/fault.h"

#ifdef EG_FAULT

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FAULT_LINE 64

enum action { COUNT, KILL_ROLE, KILL_ALL, FAIL };

static struct {
	const char *role;
	pid_t pid;
	int spec, log;
	char line[FAULT_LINE];
	unsigned long passed;
	/* of the line */
	enum action action;
	unsigned long number;
	int error;
} f = {.spec = -1, .log = -1};

void eg_fault_role(const char *role)
{
	const char *path = getenv("EGRESSD_FAULT");
	char log[4096];

	if (!path)
		return;
	f.role = role;
	f.pid = getpid();
	(void)snprintf(log, sizeof(log), "%s.log", path);
	f.spec = open(path, O_RDWR | O_CLOEXEC);
	f.log = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
}

/* The line into f; false when it is not about this role. */
static bool line_parse(const char *line)
{
	char role[16], action[16];

	f.number = 0;
	if (sscanf(line, "%15s %15s %lu", role, action, &f.number) < 2 ||
	    strcmp(role, f.role))
		return false;
	if (!strcmp(action, "kill-role"))
		f.action = KILL_ROLE;
	else if (!strcmp(action, "kill-all"))
		f.action = KILL_ALL;
	else if (sscanf(action, "fail=%d", &f.error) == 1)
		f.action = FAIL;
	else
		f.action = COUNT;
	return true;
}

static bool line_read(void)
{
	char now[FAULT_LINE] = "";
	ssize_t n = pread(f.spec, now, sizeof(now) - 1, 0);

	if (n <= 0)
		return false;
	if (memcmp(now, f.line, sizeof(now))) {
		memcpy(f.line, now, sizeof(now));
		f.passed = 0;
	}
	return line_parse(now);
}

int eg_fault_point(const char *what)
{
	static const char blank[FAULT_LINE - 1] = "\n";
	char text[160];
	int saved = errno, n;

	if (f.spec < 0 || getpid() != f.pid || !line_read())
		return 0;
	f.passed++;
	n = snprintf(text, sizeof(text), "%lu %s %.100s\n", f.passed, f.role,
		     what);
	/* A lost line only makes a report shorter. */
	(void)!write(f.log, text, (size_t)n);
	errno = saved;
	if (f.passed != f.number || f.action == COUNT)
		return 0;
	if (f.action == FAIL)
		return -f.error;
	/* Once: whoever starts in our place shall not meet it again. */
	(void)!pwrite(f.spec, blank, sizeof(blank), 0);
	(void)kill(f.action == KILL_ALL ? 0 : f.pid, SIGKILL);
	for (;;)
		(void)pause();
}

int eg_fault_call(const char *what)
{
	int r = eg_fault_point(what);

	if (r)
		errno = -r;
	return r != 0;
}

#endif
