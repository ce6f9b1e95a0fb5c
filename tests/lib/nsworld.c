// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd tests: a private host (see nsworld.h)
 */
#include "tests/lib/nsworld.h"
#include "netpool/base/util.h"

#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

int nsw_enter(const char *test)
{
	if (geteuid()) {
		printf("SKIP %s: needs root\n", test);
		return -1;
	}
	if (unshare(CLONE_NEWNET | CLONE_NEWNS) < 0 ||
	    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("tmpfs", "/run", "tmpfs", 0, "mode=755") < 0) {
		printf("SKIP %s: no namespaces of its own: %s\n", test,
		       strerror(errno));
		return -1;
	}
	if (mkdir("/run/egressd", 0755) < 0 || nsw_run("ip link set lo up") != 0) {
		printf("SKIP %s: needs ip(8)\n", test);
		return -1;
	}
	return 0;
}

void nsw_conf(struct eg_conf *c, uint32_t slots, uint32_t per)
{
	memset(c, 0, sizeof(*c));
	c->magic = EG_CONF_MAGIC;
	c->size = sizeof(*c);
	c->prefix = (struct eg_prefix){0x0ac80000, 16};	     /* 10.200/16 */
	c->link_prefix = (struct eg_prefix){0x0ac90000, 24}; /* 10.201.0/24 */
	c->slots = slots;
	c->slots_per_gateway = per;
	c->gateways = (slots + per - 1) / per;
	c->netns_names = EG_NETNS_LEASED;
	(void)snprintf(c->run, sizeof(c->run), "/run/egressd");
	(void)snprintf(c->netns, sizeof(c->netns), "/run/netns");
}

__attribute__((format(printf, 4, 0))) static int
run(char *out, size_t cap, int ns, const char *fmt, va_list ap)
{
	char cmd[1024];
	int p[2], status = -1;
	size_t n = 0;
	pid_t pid;

	(void)vsnprintf(cmd, sizeof(cmd), fmt, ap);
	if (pipe(p) < 0)
		return -1;
	(void)fflush(stdout);
	pid = fork();
	if (!pid) {
		if (ns >= 0 && setns(ns, CLONE_NEWNET) < 0)
			_exit(126);
		if (out)
			(void)dup2(p[1], 1);
		(void)close(p[0]);
		(void)close(p[1]);
		(void)execl("/bin/sh", "sh", "-c", cmd, (char *)NULL);
		_exit(127);
	}
	(void)close(p[1]);
	while (out && n < cap - 1) {
		ssize_t r = read(p[0], out + n, cap - 1 - n);

		if (r <= 0)
			break;
		n += (size_t)r;
	}
	if (out)
		out[n] = '\0';
	(void)close(p[0]);
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int nsw_run(const char *fmt, ...)
{
	va_list ap;
	int r;

	va_start(ap, fmt);
	r = run(NULL, 0, -1, fmt, ap);
	va_end(ap);
	return r;
}

int nsw_read(char *buf, size_t cap, const char *fmt, ...)
{
	va_list ap;
	int r;

	va_start(ap, fmt);
	r = run(buf, cap, -1, fmt, ap);
	va_end(ap);
	return r;
}

int nsw_inside(int ns, const char *fmt, ...)
{
	va_list ap;
	int r;

	va_start(ap, fmt);
	r = run(NULL, 0, ns, fmt, ap);
	va_end(ap);
	return r;
}

int nsw_mounts(const char *part)
{
	FILE *f = fopen("/proc/self/mountinfo", "re");
	char line[1024];
	int n = 0;

	while (f && fgets(line, sizeof(line), f))
		n += strstr(line, part) != NULL;
	if (f)
		(void)fclose(f);
	return n;
}
