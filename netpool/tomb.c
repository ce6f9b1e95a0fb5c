// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: tombstones (see tomb.h)
 *
 * In memory: a list by age and two hashes. All live equally long, so the
 * oldest is the next to go and nothing is ever searched for.
 *
 * On disk (memory-backed, like all records): segments leases/NUMBER.tombs to
 * which fixed heads and ids are appended. A segment is full after SEGMENT of
 * them and is removed when the last of them is over: one file and one write
 * a release, instead of a file of a page each.
 */
#include "netpool/tomb.h"
#include "netpool/base/log.h"
#include "netpool/base/util.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define BUCKETS 32768U /* a power of two */
#define SEGMENT 4096U  /* tombstones in a file */
#define MAGIC 0x65677462U
#define SUFFIX ".tombs"

struct tomb_head {
	uint32_t magic;
	uint32_t sum; /* of the rest of the head and the id */
	int64_t until_boot_ns;
	uint64_t generation;
	uint8_t uid[EG_UID];
	uint32_t id_len;
	uint32_t pad;
};

struct np_tombs {
	struct np_tomb *oldest, *newest;
	size_t count;
	uint32_t segment;    /* the one appended to */
	uint32_t in_segment; /* how many it has */
	int fd;		     /* of it, -1: not opened */
	struct np_tomb *by_id[BUCKETS], *by_uid[BUCKETS];
};

static uint32_t hash(const void *data, size_t len)
{
	const uint8_t *p = data;
	uint32_t h = 2166136261U;

	while (len--)
		h = (h ^ *p++) * 16777619U;
	return h;
}

static struct np_tomb **id_bucket(const struct np_tombs *t, const char *id)
{
	return (struct np_tomb **)&t->by_id[hash(id, strlen(id)) % BUCKETS];
}

static struct np_tomb **uid_bucket(const struct np_tombs *t,
				   const uint8_t uid[EG_UID])
{
	return (struct np_tomb **)&t->by_uid[hash(uid, EG_UID) % BUCKETS];
}

struct np_tombs *np_tombs_new(void)
{
	struct np_tombs *t = calloc(1, sizeof(*t));

	if (t)
		t->fd = -1;
	return t;
}

const struct np_tomb *np_tombs_id(const struct np_tombs *t, const char *id)
{
	const struct np_tomb *b = *id_bucket(t, id);

	while (b && strcmp(b->id, id) != 0)
		b = b->id_next;
	return b;
}

const struct np_tomb *np_tombs_uid(const struct np_tombs *t,
				   const uint8_t uid[EG_UID])
{
	const struct np_tomb *b = *uid_bucket(t, uid);

	while (b && memcmp(b->uid, uid, EG_UID) != 0)
		b = b->uid_next;
	return b;
}

size_t np_tombs_count(const struct np_tombs *t)
{
	return t->count;
}

static void segment_name(char buf[32], uint32_t segment)
{
	(void)snprintf(buf, 32, "%010u" SUFFIX, segment);
}

/* ---- in memory ------------------------------------------------------------- */

static struct np_tomb *insert(struct np_tombs *t, const struct tomb_head *h,
			      const char *id, uint32_t segment)
{
	struct np_tomb *b = calloc(1, sizeof(*b) + h->id_len + 1);
	struct np_tomb **at;

	if (!b)
		return NULL;
	b->until_boot_ns = h->until_boot_ns;
	b->generation = h->generation;
	b->segment = segment;
	memcpy(b->uid, h->uid, EG_UID);
	memcpy(b->id, id, h->id_len);
	at = id_bucket(t, b->id);
	b->id_next = *at;
	*at = b;
	at = uid_bucket(t, b->uid);
	b->uid_next = *at;
	*at = b;
	if (t->newest)
		t->newest->next = b;
	else
		t->oldest = b;
	t->newest = b;
	t->count++;
	return b;
}

static void unhash(struct np_tombs *t, struct np_tomb *b)
{
	struct np_tomb **at = id_bucket(t, b->id);

	while (*at != b)
		at = &(*at)->id_next;
	*at = b->id_next;
	at = uid_bucket(t, b->uid);
	while (*at != b)
		at = &(*at)->uid_next;
	*at = b->uid_next;
}

/* The oldest goes; with the last of its segment the file does. */
static void drop_oldest(struct np_tombs *t, int dir)
{
	struct np_tomb *b = t->oldest;
	char name[32];

	unhash(t, b);
	t->oldest = b->next;
	if (!t->oldest)
		t->newest = NULL;
	t->count--;
	if (b->segment != t->segment &&
	    (!t->oldest || t->oldest->segment != b->segment)) {
		segment_name(name, b->segment);
		(void)unlinkat(dir, name, 0);
	}
	free(b);
}

void np_tombs_tick(struct np_tombs *t, int dir, int64_t now)
{
	while (t->oldest && now >= t->oldest->until_boot_ns)
		drop_oldest(t, dir);
}

void np_tombs_free(struct np_tombs *t)
{
	if (!t)
		return;
	while (t->oldest) {
		struct np_tomb *b = t->oldest;

		t->oldest = b->next;
		free(b);
	}
	eg_close_p(&t->fd);
	free(t);
}

/* ---- on disk --------------------------------------------------------------- */

static uint32_t head_sum(const struct tomb_head *h, const char *id)
{
	struct tomb_head c = *h;

	c.magic = c.sum = 0;
	return hash(&c, sizeof(c)) ^ hash(id, h->id_len);
}

static int segment_open(struct np_tombs *t, int dir)
{
	char name[32];

	if (t->fd >= 0 && t->in_segment < SEGMENT)
		return 0;
	eg_close_p(&t->fd);
	t->segment++;
	t->in_segment = 0;
	segment_name(name, t->segment);
	t->fd = openat(dir, name,
		       O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC |
			       O_NOFOLLOW,
		       0600);
	return t->fd < 0 ? -errno : 0;
}

static int append(struct np_tombs *t, const struct tomb_head *h, const char *id)
{
	uint8_t buf[sizeof(*h) + EG_ID];
	size_t n = sizeof(*h) + h->id_len;
	ssize_t w;

	memcpy(buf, h, sizeof(*h));
	memcpy(buf + sizeof(*h), id, h->id_len);
	do
		w = write(t->fd, buf, n);
	while (w < 0 && errno == EINTR);
	t->in_segment++;
	if (w == (ssize_t)n)
		return 0;
	/* What follows a half record could not be read: a new file. */
	t->in_segment = SEGMENT;
	return w < 0 ? -errno : -ENOSPC;
}

int np_tombs_add(struct np_tombs *t, int dir, const struct eg_lease *l,
		 int64_t until_boot_ns)
{
	struct tomb_head h = {
		.magic = MAGIC,
		.until_boot_ns = until_boot_ns,
		.generation = l->generation,
		.id_len = (uint32_t)strnlen(l->req.id, EG_ID - 1)};
	int r = segment_open(t, dir);

	memcpy(h.uid, l->uid, EG_UID);
	h.sum = head_sum(&h, l->req.id);
	while (t->count >= NP_TOMBS)
		drop_oldest(t, dir);
	if (!insert(t, &h, l->req.id, t->segment))
		return -ENOMEM;
	return r ? r : append(t, &h, l->req.id);
}

/* One record off the buffer; 0: no whole one, else its length. */
static size_t take(struct np_tombs *t, const uint8_t *p, size_t left,
		   uint32_t segment)
{
	struct tomb_head h;
	const char *id = (const char *)p + sizeof(h);

	if (left < sizeof(h))
		return 0;
	memcpy(&h, p, sizeof(h));
	if (h.magic != MAGIC || h.id_len >= EG_ID || !h.id_len ||
	    left - sizeof(h) < h.id_len || memchr(id, 0, h.id_len) ||
	    h.sum != head_sum(&h, id))
		return 0;
	(void)insert(t, &h, id, segment);
	return sizeof(h) + h.id_len;
}

static void load_segment(struct np_tombs *t, int dir, uint32_t segment)
{
	static uint8_t buf[SEGMENT * (sizeof(struct tomb_head) + EG_ID)];
	EG_CLEANUP_FD int fd = -1;
	size_t len = 0, at = 0, n = 0;
	char name[32];
	ssize_t r;

	segment_name(name, segment);
	fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return;
	while ((r = read(fd, buf + len, sizeof(buf) - len)) > 0)
		len += (size_t)r;
	do {
		n = take(t, buf + at, len - at, segment);
		at += n;
	} while (n);
	if (at < len)
		eg_warning("tombstones %s: %zu octets at %zu are no record",
			   name, len - at, at);
	if (!at)
		(void)unlinkat(dir, name, 0); /* nobody would remove it later */
}

static int compare(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

void np_tombs_load(struct np_tombs *t, int dir)
{
	/* Twice what NP_TOMBS need; more are somebody else's files. */
	static uint32_t found[2 * NP_TOMBS / SEGMENT + 2];
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;
	size_t n = 0;

	if (!d) {
		eg_close_p(&fd);
		return;
	}
	while ((e = readdir(d)) && n < EG_ARRAY_SIZE(found)) {
		char name[32];
		uint32_t segment;

		if (sscanf(e->d_name, "%10u" SUFFIX, &segment) != 1)
			continue;
		segment_name(name, segment);
		if (!strcmp(name, e->d_name))
			found[n++] = segment;
	}
	(void)closedir(d);
	qsort(found, n, sizeof(found[0]), compare);
	for (size_t i = 0; i < n; i++)
		load_segment(t, dir, found[i]);
	if (n)
		t->segment = found[n - 1]; /* the next is a new one */
}
