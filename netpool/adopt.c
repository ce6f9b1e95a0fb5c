// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: opening a namespace that a caller made (see adopt.h)
 */
#include "netpool/adopt.h"
#include "netpool/base/adopt.h"
#include "netpool/base/util.h"
#include "netpool/netns.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>

static int refuse(struct eg_err *err, const char *path, const char *why)
{
	return eg_err_set(
		err, -EINVAL,
		"guest.netns_path '%s' %s; a network namespace of yours is accepted",
		path, why);
}

static const char *why_not(int error)
{
	switch (error) {
	case ENOENT:
		return "does not exist";
	case ELOOP:
		return "leads through a symbolic link";
	case EXDEV:
		return "leads out of its directory";
	case ENOTDIR:
		return "leads through what is no directory";
	case EACCES:
		return "lies in a directory that only its owner may search";
	case EAGAIN:
		return "was changed while it was looked up";
	default:
		return NULL;
	}
}

/* A reference to whatever is there; nothing is opened by it. */
static int reference(const char *dir, const char *rel)
{
	struct open_how how = {
		.flags = O_PATH | O_CLOEXEC,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS |
			   RESOLVE_NO_MAGICLINKS,
	};
	EG_CLEANUP_FD int at = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	long fd;

	if (at < 0)
		return -errno;
	fd = syscall(SYS_openat2, at, rel, &how, sizeof(how));
	return fd < 0 ? -errno : (int)fd;
}

int np_adopt_open(const struct eg_conf *conf, const char *path,
		  struct eg_err *err)
{
	EG_CLEANUP_FD int ref = -1, fd = -1;
	const char *rel, *why;
	char self[40];
	struct statfs fs;
	uint32_t dir;
	int r = eg_adopt_path(conf, path, &dir, &rel, err);

	if (r)
		return r;
	ref = reference(conf->adopt_from[dir], rel);
	if (ref < 0) {
		why = why_not(-ref);
		return refuse(err, path, why ? why : strerror(-ref));
	}
	if (fstatfs(ref, &fs) < 0 || fs.f_type != NSFS_MAGIC)
		return refuse(err, path, "is not a namespace");
	(void)snprintf(self, sizeof(self), "/proc/self/fd/%d", ref);
	fd = open(self, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return refuse(err, path, strerror(errno));
	if (!np_netns_is(fd))
		return refuse(err, path, "is a namespace of another kind");
	return eg_steal_fd(&fd);
}

bool np_adopt_same(int a, int b)
{
	struct stat x, y;

	return a >= 0 && b >= 0 && !fstat(a, &x) && !fstat(b, &y) &&
	       x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}
