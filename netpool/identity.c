// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: host id, boot id, generation counter (see identity.h)
 */
#include "netpool/identity.h"
#include "netpool/base/fault.h"
#include "netpool/base/util.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define STATE_TEXT 128

/* A whole small file, terminated; length or negative errno. */
static int file_read(const char *path, char *buf, size_t cap)
{
	EG_CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	ssize_t n;

	if (fd < 0)
		return -errno;
	n = read(fd, buf, cap - 1);
	if (n < 0)
		return -errno;
	buf[n] = '\0';
	return (int)n;
}

/* Replace a file atomically; it and its directory are on disk afterwards. */
static int file_replace(const char *dir, const char *name, const char *text,
			struct eg_err *err)
{
	EG_CLEANUP_FD int dfd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	EG_CLEANUP_FD int fd = -1;
	char tmp[64];
	size_t len = strlen(text);

	if (dfd < 0)
		return eg_err_sys(err, -errno, "open directory %s", dir);
	(void)snprintf(tmp, sizeof(tmp), ".%s.new", name);
	fd = EG_CALL("create a state file",
		     openat(dfd, tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC |
					      O_NOFOLLOW, 0600));
	if (fd < 0)
		return eg_err_sys(err, -errno, "create %s/%s", dir, tmp);
	if (write(fd, text, len) != (ssize_t)len || fsync(fd) < 0)
		return eg_err_sys(err, errno ? -errno : -EIO, "write %s/%s",
				  dir, tmp);
	if (EG_CALL("rename a state file",
		    renameat(dfd, tmp, dfd, name)) < 0 ||
	    fsync(dfd) < 0)
		return eg_err_sys(err, -errno, "replace %s/%s", dir, name);
	return 0;
}

static int hex_parse(const char *text, uint8_t ret[16])
{
	unsigned int n = 0;

	for (; *text && *text != '\n' && n < 32; text++) {
		int v;

		if (*text == '-')
			continue;
		if (*text >= '0' && *text <= '9')
			v = *text - '0';
		else if (*text >= 'a' && *text <= 'f')
			v = *text - 'a' + 10;
		else
			return -EINVAL;
		ret[n / 2] = (uint8_t)(n & 1 ? ret[n / 2] << 4 | v : v);
		n++;
	}
	return n == 32 && (!*text || *text == '\n') ? 0 : -EINVAL;
}

int np_host_id(const char *dir, uint8_t ret[16], struct eg_err *err)
{
	char path[PATH_MAX], text[STATE_TEXT] = "";
	int r;

	(void)snprintf(path, sizeof(path), "%s/host_id", dir);
	r = file_read(path, text, sizeof(text));
	if (r >= 0) {
		if (hex_parse(text, ret))
			return eg_err_set(
				err, -EBADMSG,
				"%s does not hold 32 hexadecimal digits; restore it from a backup, or remove it to make this a new host in every collector",
				path);
		return 0;
	}
	if (r != -ENOENT)
		return eg_err_sys(err, r, "read %s", path);
	if (getrandom(ret, 16, 0) != 16)
		return eg_err_sys(err, -errno, "getrandom");
	for (int i = 0; i < 16; i++)
		(void)snprintf(text + 2 * i, 3, "%02x", ret[i]);
	text[32] = '\n';
	text[33] = '\0';
	return file_replace(dir, "host_id", text, err);
}

int np_boot_id(uint8_t ret[16], struct eg_err *err)
{
	static const char path[] = "/proc/sys/kernel/random/boot_id";
	char text[STATE_TEXT] = "";
	int r = file_read(path, text, sizeof(text));

	if (r < 0)
		return eg_err_sys(err, r, "read %s", path);
	if (hex_parse(text, ret))
		return eg_err_set(err, -EBADMSG, "%s is not an id", path);
	return 0;
}

int np_generation_reserve(const char *dir, uint32_t want, uint64_t *ret_first,
			  uint64_t *ret_end, struct eg_err *err)
{
	char path[PATH_MAX], text[STATE_TEXT] = "";
	uint64_t next = 1;
	int r, used = 0;

	(void)snprintf(path, sizeof(path), "%s/generation", dir);
	r = file_read(path, text, sizeof(text));
	if (r < 0 && r != -ENOENT)
		return eg_err_sys(err, r, "read %s", path);
	if (r >= 0 && (sscanf(text, "%" SCNu64 "%n", &next, &used) != 1 ||
		       text[used] != '\n' || !next))
		return eg_err_set(
			err, -EBADMSG,
			"%s does not hold a number; write one larger than every generation ever seen on this host",
			path);
	if (next > UINT64_MAX - want)
		return eg_err_set(err, -ERANGE, "%s is exhausted", path);
	(void)snprintf(text, sizeof(text), "%" PRIu64 "\n", next + want);
	r = file_replace(dir, "generation", text, err);
	if (r)
		return r;
	*ret_first = next;
	*ret_end = next + want;
	return 0;
}
