// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: the host-wide sequence of records (see state.h)
 */
#include "audit/state.h"
#include "audit/scan.h"
#include "netpool/base/util.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#define MAGIC "egseq01"

/* The file; this host's byte order, it never leaves the host. */
struct image {
	char magic[8];
	uint64_t next;
	uint64_t durable;
	uint8_t boot_id[16];
	uint32_t clean;
	uint32_t sum; /* of everything else: a torn write is not believed */
	char path[AU_PATH_TEXT];
};

/* FNV-1a: against accident, not against malice. */
static uint32_t checksum(const struct image *im)
{
	struct image c = *im;
	const uint8_t *p = (const uint8_t *)&c;
	uint32_t h = 2166136261U;

	c.sum = 0;
	for (size_t i = 0; i < sizeof(c); i++)
		h = (h ^ p[i]) * 16777619U;
	return h;
}

static int store(struct au_state *s, const char *path, bool clean)
{
	struct image im = {.magic = MAGIC,
			   .next = s->next,
			   .durable = s->durable,
			   .clean = clean};
	ssize_t n;

	memcpy(im.boot_id, s->boot_id, sizeof(im.boot_id));
	(void)strncpy(im.path, path, sizeof(im.path) - 1);
	im.sum = checksum(&im);
	n = pwrite(s->fd, &im, sizeof(im), 0);
	if (n != (ssize_t)sizeof(im))
		return n < 0 ? -errno : -ENOSPC;
	return 0;
}

/* Number behind the last line of @path; 0 when it has no line. */
static uint64_t after_last(int dirfd, const char *path)
{
	static char buf[AU_RECORD_MAX * 2];
	EG_CLEANUP_FD int fd =
		openat(dirfd, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	uint64_t v;
	long n = fd < 0 ? 0 : au_scan_last(fd, buf, sizeof(buf));

	if (n <= 0 || au_scan_u64(buf, (size_t)n, ",\"hseq\":", &v))
		return 0;
	return v + 1;
}

static bool load(struct au_state *s, struct image *im)
{
	return pread(s->fd, im, sizeof(*im), 0) == (ssize_t)sizeof(*im) &&
	       !memcmp(im->magic, MAGIC, sizeof(im->magic)) &&
	       im->sum == checksum(im) &&
	       memchr(im->path, '\0', sizeof(im->path));
}

/* No state file of ours: the chain is the only other memory of numbers. */
static void start_without(struct au_state *s)
{
	uint64_t v = after_last(s->dirfd, AU_CHAIN_FILE);

	s->next = v ? v : 1;
}

static void resume(struct au_state *s, const struct image *im)
{
	uint64_t v = im->path[0] ? after_last(s->dirfd, im->path) : 0;

	s->next = v > im->next ? v : im->next;
	if (im->clean || !memcmp(im->boot_id, s->boot_id, sizeof(s->boot_id)))
		return;
	if (im->durable > s->next) {
		s->skipped_from = s->next;
		s->skipped_to = s->next = im->durable;
	}
}

/* Reserve the block beyond @upto and make that durable. */
static int reserve(struct au_state *s, uint64_t upto, const char *path)
{
	uint64_t old = s->durable;
	int r;

	s->durable = upto + AU_STATE_BLOCK;
	r = store(s, path, false);
	if (!r && fdatasync(s->fd) < 0)
		r = -errno;
	if (r)
		s->durable = old;
	return r;
}

int au_state_open(struct au_state *s, int dirfd, const uint8_t boot_id[16],
		  struct eg_err *err)
{
	struct image im;
	struct stat st;
	int r;

	*s = (struct au_state){.dirfd = dirfd, .fd = -1};
	memcpy(s->boot_id, boot_id, sizeof(s->boot_id));
	s->fd = openat(dirfd, AU_STATE_FILE,
		       O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (s->fd < 0)
		return eg_err_sys(err, -errno, "%s", AU_STATE_FILE);
	if (fstat(s->fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		eg_close_p(&s->fd);
		return eg_err_set(err, -EINVAL, "%s is not a plain file",
				  AU_STATE_FILE);
	}
	if (load(s, &im))
		resume(s, &im);
	else
		start_without(s);
	r = reserve(s, s->next, "");
	if (r) {
		eg_close_p(&s->fd);
		return eg_err_sys(err, r, "%s", AU_STATE_FILE);
	}
	return 0;
}

int au_state_begin(struct au_state *s, const char *path, uint32_t count)
{
	if (s->fd < 0)
		return -EBADF;
	if (s->next + count > s->durable)
		return reserve(s, s->next + count, path);
	return store(s, path, false);
}

void au_state_close(struct au_state *s)
{
	if (s->fd < 0)
		return;
	(void)store(s, "", true); /* else the last file is read again */
	eg_close_p(&s->fd);
}
