// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: network sysctls (see sysctl.h)
 *
 * /proc/sys/net shows the namespace of whoever looks. Every key costs a
 * dentry per namespace, and their hash chains grow with the number of
 * namespaces that share a name: this is for the host and the gateways, never
 * for slots, whose devices are configured by netlink.
 */
#include "netpool/sysctl.h"
#include "netpool/base/fault.h"
#include "netpool/base/util.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

static int key_open(const char *key, int flags, struct eg_err *err)
{
	char path[160];
	int fd, n = snprintf(path, sizeof(path), "/proc/sys/net/%s", key);

	if (n < 0 || (size_t)n >= sizeof(path))
		return eg_err_set(err, -ENAMETOOLONG, "sysctl name too long");
	fd = open(path, flags | O_CLOEXEC);
	if (fd < 0)
		return eg_err_sys(err, -errno, "cannot open %s", path);
	return fd;
}

int np_sysctl_get(const char *key, uint32_t *ret, struct eg_err *err)
{
	EG_CLEANUP_FD int fd = key_open(key, O_RDONLY, err);
	char buf[32];
	unsigned long v;
	char *end;
	ssize_t n;

	if (fd < 0)
		return fd;
	n = read(fd, buf, sizeof(buf) - 1);
	if (n < 0)
		return eg_err_sys(err, -errno, "cannot read sysctl net/%s", key);
	buf[n] = '\0';
	errno = 0;
	v = strtoul(buf, &end, 10);
	if (errno || end == buf || v > UINT32_MAX)
		return eg_err_set(err, -EBADMSG,
				  "sysctl net/%s is not a number", key);
	*ret = (uint32_t)v;
	return 0;
}

int np_sysctl_set(const char *key, uint32_t value, struct eg_err *err)
{
	EG_CLEANUP_FD int fd = key_open(key, O_WRONLY, err);
	char buf[16];
	uint32_t got = 0;
	int n, r;

	if (fd < 0)
		return fd;
	n = snprintf(buf, sizeof(buf), "%u", value);
	if (EG_CALL(key, write(fd, buf, (size_t)n)) != n)
		return eg_err_sys(err, -errno, "cannot set sysctl net/%s to %u",
				  key, value);
	r = np_sysctl_get(key, &got, err);
	if (r)
		return r;
	if (got != value)
		return eg_err_set(err, -EIO,
				  "sysctl net/%s is %u after being set to %u",
				  key, got, value);
	return 0;
}
