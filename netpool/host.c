// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: changes to the host and their undoing (see host.h)
 *
 * A line is written and synced before the change it describes is made, and
 * one that is there already is kept: after a crash and a second start the
 * file still holds what was before the first.
 */
#include "netpool/host.h"
#include "netpool/base/fault.h"
#include "netpool/base/loop.h"
#include "netpool/base/plan.h"
#include "netpool/base/util.h"
#include "netpool/gateway.h"
#include "netpool/link.h"
#include "netpool/netns.h"
#include "netpool/sysctl.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>

#define BEFORE_MAX 4096 /* three lines of a path each need a tenth of it */
#define ALONE_NS (2 * EG_NSEC_PER_SEC)
#define ALONE_US 20000
#define MTU_DEFAULT 1500
#define FORWARD "ipv4/ip_forward"

static int before_path(char path[EG_PATH + 16], const struct eg_conf *conf)
{
	return snprintf(path, EG_PATH + 16, "%s/%s", conf->run, NP_HOST_BEFORE);
}

/* The whole file into @buf, terminated; length, 0 when there is none. */
static int before_read(const struct eg_conf *conf, char buf[BEFORE_MAX],
		       struct eg_err *err)
{
	EG_CLEANUP_FD int fd = -1;
	char path[EG_PATH + 16];
	ssize_t n;

	buf[0] = '\0';
	(void)before_path(path, conf);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 && errno == ENOENT)
		return 0;
	n = fd < 0 ? -1 : read(fd, buf, BEFORE_MAX - 1);
	if (n < 0)
		return eg_err_sys(err, -errno, "cannot read %s", path);
	buf[n] = '\0';
	return (int)n;
}

/* Add a line unless one with the same first @key octets is there. */
static int before_add(const struct eg_conf *conf, const char *line, size_t key,
		      struct eg_err *err)
{
	EG_CLEANUP_FD int fd = -1;
	char buf[BEFORE_MAX], path[EG_PATH + 16];
	int r = before_read(conf, buf, err);
	size_t n = strlen(line);

	if (r < 0)
		return r;
	for (char *p = buf; p && *p;) {
		if (!strncmp(p, line, key))
			return 0;
		p = strchr(p, '\n');
		if (p)
			p++;
	}
	(void)before_path(path, conf);
	fd = EG_CALL("create host.before",
		     open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC |
				O_NOFOLLOW, 0600));
	if (fd < 0 ||
	    EG_CALL("write host.before", write(fd, line, n)) != (ssize_t)n ||
	    fsync(fd) < 0)
		return eg_err_sys(err, -errno, "cannot write %s", path);
	return 0;
}

int np_host_alone(struct eg_err *err)
{
	const struct np_world w = {.home = np_netns_self(NULL)};
	int64_t until = eg_boot_ns() + ALONE_NS;
	int home = w.home, fd = -1;

	while (home >= 0) {
		fd = np_nflog(&w, home, EG_NFLOG_GROUP_HOST, NULL);
		if (fd != -EPERM || eg_boot_ns() >= until)
			break;
		(void)usleep(ALONE_US);
	}
	eg_close_p(&home);
	if (fd >= 0)
		(void)close(fd);
	/* What else may be wrong with it is said where it is needed. */
	return fd == -EPERM
		       ? eg_err_set(
				 err, -EBUSY,
				 "another egressd serves this host (its NFLOG group %u is being read); stop that one first",
				 EG_NFLOG_GROUP_HOST)
		       : 0;
}

int np_host_forward(const struct eg_conf *conf, bool *ret_changed,
		    struct eg_err *err)
{
	uint32_t old = 0;
	char line[64];
	int r = np_sysctl_get(FORWARD, &old, err);

	if (r)
		return r;
	if (!old) {
		(void)snprintf(line, sizeof(line), "sysctl " FORWARD " %u\n",
			       old);
		r = before_add(conf, line, strlen("sysctl " FORWARD " "), err);
		if (!r)
			r = np_sysctl_set(FORWARD, 1, err);
	}
	if (!r)
		*ret_changed = !old;
	return r;
}

int np_host_netns_dir(const struct eg_conf *conf, struct eg_err *err)
{
	unsigned int missing = np_netns_missing(conf->netns), made;
	char line[EG_PATH + 16];
	int r = 0;

	if (missing & NP_MADE_DIR) {
		(void)snprintf(line, sizeof(line), "mkdir %s\n", conf->netns);
		r = before_add(conf, line, strlen(line), err);
	}
	if (!r && missing & NP_MADE_MOUNT) {
		(void)snprintf(line, sizeof(line), "mount %s\n", conf->netns);
		r = before_add(conf, line, strlen(line), err);
	}
	return r ? r : np_netns_prepare(conf->netns, &made, err);
}

int np_host_mtu(const struct eg_conf *conf, struct np_rtnl *r, uint32_t *ret,
		struct eg_err *err)
{
	struct eg_err why = {0};
	uint32_t mtu = MTU_DEFAULT;
	int e;

	if (conf->mtu) {
		*ret = conf->mtu;
		return 0;
	}
	e = np_link_default_mtu(r, &mtu, &why);
	if (e && e != -ENETUNREACH)
		return eg_err_set(err, e, "%s", why.text);
	*ret = mtu;
	return 0;
}

static bool dir_empty(const char *path)
{
	DIR *d = opendir(path);
	struct dirent *e;
	bool empty = d != NULL;

	while (d && (e = readdir(d)))
		if (strcmp(e->d_name, ".") && strcmp(e->d_name, ".."))
			empty = false;
	if (d)
		(void)closedir(d);
	return empty;
}

/* One line of host.before, without its newline. */
static int undo(char *line, struct eg_err *err)
{
	char key[64];
	uint32_t value;

	if (sscanf(line, "sysctl %63s %u", key, &value) == 2)
		return np_sysctl_set(key, value, err);
	if (!strncmp(line, "mount ", 6)) {
		if (dir_empty(line + 6) &&
		    EG_CALL("unmount the directory of names",
			    umount2(line + 6, MNT_DETACH)) < 0 &&
		    errno != EINVAL)
			return eg_err_sys(err, -errno, "cannot unmount %s",
					  line + 6);
		return 0;
	}
	if (!strncmp(line, "mkdir ", 6)) {
		if (EG_CALL("remove the directory of names",
			    rmdir(line + 6)) < 0 && errno != ENOENT &&
		    errno != ENOTEMPTY && errno != EBUSY)
			return eg_err_sys(err, -errno, "cannot remove %s",
					  line + 6);
		return 0;
	}
	return eg_err_set(err, -EBADMSG, "%s holds the line '%.40s'",
			  NP_HOST_BEFORE, line);
}

int np_host_restore(const struct eg_conf *conf, struct eg_err *err)
{
	char buf[BEFORE_MAX], path[EG_PATH + 16];
	int n = before_read(conf, buf, err);

	/* Last change first. */
	while (n > 0) {
		char *line;
		int r;

		if (buf[n - 1] == '\n')
			buf[--n] = '\0';
		line = strrchr(buf, '\n');
		line = line ? line + 1 : buf;
		r = undo(line, err);
		if (r)
			return r;
		n = (int)(line - buf);
		*line = '\0';
	}
	if (n < 0)
		return n;
	(void)before_path(path, conf);
	if (EG_CALL("remove host.before", unlink(path)) < 0 && errno != ENOENT)
		return eg_err_sys(err, -errno, "cannot remove %s", path);
	return 0;
}
