// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: network namespaces (see netns.h)
 */
#include "netpool/netns.h"
#include "netpool/base/conf.h"
#include "netpool/base/fault.h"
#include "netpool/base/util.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/nsfs.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>

#define NETNS_PATH (EG_PATH + 64) /* directory, slash, name */

int np_netns_self(struct eg_err *err)
{
	int fd = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return eg_err_sys(err, -errno,
				  "cannot open /proc/thread-self/ns/net");
	return fd;
}

/* There is no safe way to go on from the wrong namespace. */
static void go_home(int home)
{
	if (setns(home, CLONE_NEWNET) < 0) {
		perror("egressd: cannot return to the own network namespace");
		abort();
	}
}

int np_netns_make(int home, np_netns_fn fn, void *arg, int *ret_fd,
		  struct eg_err *err)
{
	EG_CLEANUP_FD int fd = -1;
	int r;

	if (EG_CALL("make a namespace", unshare(CLONE_NEWNET)) < 0) {
		if (errno == ENOSPC)
			return eg_err_set(
				err, -ENOSPC,
				"no more network namespaces: raise the sysctl user.max_net_namespaces");
		return eg_err_sys(err, -errno, "cannot make a network namespace");
	}
	r = fd = np_netns_self(err);
	if (r >= 0 && fn)
		r = fn(arg, err);
	go_home(home);
	if (r < 0)
		return r;
	*ret_fd = eg_steal_fd(&fd);
	return 0;
}

int np_netns_run(int home, int ns, np_netns_fn fn, void *arg, struct eg_err *err)
{
	int r;

	if (setns(ns, CLONE_NEWNET) < 0)
		return eg_err_sys(err, -errno,
				  "cannot enter a network namespace");
	r = fn(arg, err);
	go_home(home);
	return r;
}

bool np_netns_is(int fd)
{
	return ioctl(fd, NS_GET_NSTYPE) == CLONE_NEWNET;
}

/* The part under the lock; @dir exists. */
static int make_shared(const char *dir, unsigned int *made, struct eg_err *err)
{
	while (EG_CALL("share mounts",
		       mount("", dir, "none", MS_SHARED | MS_REC, NULL)) < 0) {
		/* EINVAL: not a mount point yet. */
		if (errno != EINVAL || *made & NP_MADE_MOUNT)
			return eg_err_sys(err, -errno,
					  "cannot share mounts below %s", dir);
		if (EG_CALL("mount the directory of names on itself",
			    mount(dir, dir, "none", MS_BIND | MS_REC, NULL)) < 0)
			return eg_err_sys(err, -errno,
					  "cannot mount %s on itself", dir);
		*made |= NP_MADE_MOUNT;
	}
	return 0;
}

int np_netns_prepare(const char *dir, unsigned int *ret_made, struct eg_err *err)
{
	EG_CLEANUP_FD int lock = -1;
	unsigned int made = 0;
	int r;

	if (!EG_CALL("make the directory of names", mkdir(dir, 0755)))
		made |= NP_MADE_DIR;
	else if (errno != EEXIST)
		return eg_err_sys(err, -errno, "cannot make %s", dir);
	lock = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (lock < 0)
		return eg_err_sys(err, -errno, "cannot open %s", dir);
	/* Released when the descriptor closes; ip(8) takes the same one. */
	if (flock(lock, LOCK_EX) < 0)
		return eg_err_sys(err, -errno, "cannot lock %s", dir);
	r = make_shared(dir, &made, err);
	if (!r)
		*ret_made = made;
	return r;
}

unsigned int np_netns_missing(const char *dir)
{
	struct statx st;

	if (statx(AT_FDCWD, dir, 0, STATX_TYPE, &st) < 0)
		return NP_MADE_DIR | NP_MADE_MOUNT;
	return st.stx_attributes & STATX_ATTR_MOUNT_ROOT ? 0 : NP_MADE_MOUNT;
}

static int path_of(char path[NETNS_PATH], const char *dir, const char *name,
		   struct eg_err *err)
{
	int n = snprintf(path, NETNS_PATH, "%s/%s", dir, name);

	if (n < 0 || n >= NETNS_PATH)
		return eg_err_set(err, -ENAMETOOLONG,
				  "the path %s/%s is too long", dir, name);
	return 0;
}

int np_netns_name(const char *dir, const char *name, int fd, struct eg_err *err)
{
	char path[NETNS_PATH], src[32];
	int file, r = path_of(path, dir, name, err);

	if (r)
		return r;
	file = EG_CALL("make a name",
		       open(path, O_RDONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0));
	if (file < 0)
		return eg_err_sys(err, -errno, "cannot make the name %s", path);
	(void)close(file);
	(void)snprintf(src, sizeof(src), "/proc/self/fd/%d", fd);
	if (EG_CALL("mount a namespace",
		    mount(src, path, "none", MS_BIND, NULL)) < 0) {
		r = eg_err_sys(err, -errno, "cannot mount a namespace on %s",
			       path);
		(void)unlink(path); /* ours, made exclusively above */
	}
	return r;
}

int np_netns_unname(const char *dir, const char *name, struct eg_err *err)
{
	char path[NETNS_PATH];
	int r = path_of(path, dir, name, err);

	if (r)
		return r;
	/* EINVAL: a file without mount (a stale pin); ENOENT: no name. */
	if (EG_CALL("unmount a name",
		    umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW)) < 0 &&
	    errno != EINVAL && errno != ENOENT)
		return eg_err_sys(err, -errno, "cannot unmount %s", path);
	if (EG_CALL("remove a name", unlink(path)) < 0 && errno != ENOENT)
		return eg_err_sys(err, -errno, "cannot remove %s", path);
	return 0;
}

int np_netns_open(const char *dir, const char *name, struct eg_err *err)
{
	EG_CLEANUP_FD int fd = -1;
	char path[NETNS_PATH];
	int r = path_of(path, dir, name, err);

	if (r)
		return r;
	/* O_NONBLOCK: somebody may have put a FIFO there. */
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0) {
		/* The file of a dead pin has mode 0: not even root without
		 * CAP_DAC_OVERRIDE reads it. */
		if (errno == EACCES || errno == ELOOP || errno == ENXIO)
			return eg_err_set(err, -EBADF,
					  "%s is not a network namespace", path);
		return eg_err_sys(err, -errno, "cannot open %s", path);
	}
	if (!np_netns_is(fd))
		return eg_err_set(err, -EBADF, "%s is not a network namespace",
				  path);
	return eg_steal_fd(&fd);
}

uint64_t np_netns_ino(int fd)
{
	struct stat st;

	return fstat(fd, &st) < 0 ? 0 : st.st_ino;
}

union handle {
	struct file_handle h;
	uint8_t bytes[sizeof(struct file_handle) +
		      sizeof(((struct np_netns_ref *)0)->handle)];
};

void np_netns_remember(int fd, struct np_netns_ref *ret)
{
	union handle u = {.h.handle_bytes = sizeof(ret->handle)};
	int mnt;

	memset(ret, 0, sizeof(*ret));
	if (name_to_handle_at(fd, "", &u.h, &mnt, AT_EMPTY_PATH) < 0)
		return; /* kernel without nsfs handles */
	ret->bytes = u.h.handle_bytes;
	ret->type = u.h.handle_type;
	memcpy(ret->handle, u.h.f_handle, ret->bytes);
}

bool np_netns_lives(const struct np_netns_ref *ref, int any)
{
	union handle u = {.h.handle_bytes = ref->bytes,
			  .h.handle_type = ref->type};
	int fd;

	if (!ref->bytes)
		return false;
	memcpy(u.h.f_handle, ref->handle, ref->bytes);
	fd = open_by_handle_at(any, &u.h, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	(void)close(fd);
	return true;
}
