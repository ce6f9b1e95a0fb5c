// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressctl: exec and debug: run a command inside a lease's namespace, or in
 * its gateway.
 *
 * Entering a namespace takes CAP_SYS_ADMIN: root only. For exec the command
 * gets a mount namespace of its own in which /etc/resolv.conf names the
 * guard, and /sys shows the interfaces of the lease; nothing of that is seen
 * outside. The exit status is the command's (126 not executable, 127 not
 * found, as a shell does).
 */
#include "netpool/base/util.h"
#include "netpool/ctl/ct.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

static int failed(const char *what)
{
	(void)fprintf(stderr, "egressctl: %s: %s%s\n", what, strerror(errno),
		      errno == EPERM ? "; this needs root" : "");
	return CT_FAILED;
}

static int enter(const char *path)
{
	EG_CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return failed(path);
	if (setns(fd, CLONE_NEWNET) < 0)
		return failed("enter the namespace");
	return CT_OK;
}

/* A file that is bound over /etc/resolv.conf in our mount namespace only. */
static int resolv_conf(const char *dns)
{
	char text[64], path[64], target[4096];
	EG_CLEANUP_FD int fd = memfd_create("resolv.conf", MFD_CLOEXEC);
	int n = snprintf(text, sizeof(text), "nameserver %s\n", dns);

	if (fd < 0 || write(fd, text, (size_t)n) != n)
		return failed("resolv.conf");
	(void)fchmod(fd, 0644);
	if (mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) < 0)
		return failed("own mount namespace");
	/* A link is followed: what is bound over is where it leads. */
	if (!realpath("/etc/resolv.conf", target))
		return CT_OK; /* there is none to be replaced */
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (mount(path, target, NULL, MS_BIND, NULL) == 0)
		return CT_OK;
	/* A memory file cannot be bound everywhere: a tmpfs of one file then. */
	if (mount("egressctl", "/mnt", "tmpfs", 0, "size=64k,mode=755") < 0)
		return failed("bind resolv.conf");
	fd = eg_steal_fd(&fd);
	{
		EG_CLEANUP_FD int f = open("/mnt/resolv.conf", O_WRONLY |
					   O_CREAT | O_CLOEXEC, 0644);

		(void)close(fd);
		if (f < 0 || write(f, text, (size_t)n) != n)
			return failed("resolv.conf");
	}
	if (mount("/mnt/resolv.conf", target, NULL, MS_BIND, NULL) < 0)
		return failed("bind resolv.conf");
	(void)umount2("/mnt", MNT_DETACH);
	return CT_OK;
}

static int run_command(char **argv)
{
	(void)execvp(argv[0], argv);
	(void)fprintf(stderr, "egressctl: %s: %s\n", argv[0], strerror(errno));
	return errno == ENOENT ? 127 : 126;
}

static int lease_get(const char *id, json_t **ret)
{
	EG_CLEANUP_FREE char *path = ct_path("/v1/leases/%s", id);

	return ct_ask("GET", path, NULL, ret);
}

static int exec_run(const struct ct_args *a)
{
	const char *dns;
	json_t *j = NULL;
	int r = lease_get(a->pos[0], &j);

	if (r)
		return r;
	dns = json_string_value(json_array_get(json_object_get(j, "dns"), 0));
	r = enter(ct_str(j, "netns"));
	if (!r && unshare(CLONE_NEWNS) < 0)
		r = failed("own mount namespace");
	if (!r)
		r = resolv_conf(dns ? dns : "127.0.0.1");
	json_decref(j);
	return r ? r : run_command(a->rest);
}

const struct ct_command ct_exec = {
	.name = "exec", .usage = "ID -- COMMAND [ARG...]",
	.help = "run a command inside the lease's namespace (root)",
	.min = 1, .max = 1, .rest = true, .run = exec_run,
};

static int debug_run(const struct ct_args *a)
{
	json_t *j = NULL;
	int r = lease_get(a->pos[0], &j);

	if (r)
		return r;
	r = enter(ct_str(j, "gateway_netns"));
	json_decref(j);
	return r ? r : run_command(a->rest);
}

const struct ct_command ct_debug = {
	.name = "debug", .usage = "ID -- COMMAND [ARG...]",
	.help = "run a command in the lease's gateway: nft, tcpdump, conntrack (root)",
	.min = 1, .max = 1, .rest = true, .run = debug_run,
};
