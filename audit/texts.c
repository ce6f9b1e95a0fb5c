// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: policy texts by digest (see texts.h)
 */
#include "audit/texts.h"
#include "netpool/base/digest.h"
#include "netpool/base/util.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define NAME_MAX_TEXT (EG_SHA256_HEX + sizeof(".policy"))
#define TMP ".new"

static const char *name_of(const uint8_t digest[EG_DIGEST],
			   char buf[NAME_MAX_TEXT])
{
	(void)eg_hex(buf, digest, EG_DIGEST);
	(void)strncat(buf, ".policy", NAME_MAX_TEXT - strlen(buf) - 1);
	return buf;
}

int au_texts_open(const struct au_files *f, const uint8_t digest[EG_DIGEST])
{
	char name[NAME_MAX_TEXT];

	return au_files_read(f, AU_POLICIES, name_of(digest, name));
}

static bool there(const struct au_files *f, const struct au_text *t)
{
	EG_CLEANUP_FD int fd = au_texts_open(f, t->digest);
	struct stat st;

	return fd >= 0 && !fstat(fd, &st) && (uint64_t)st.st_size == t->len;
}

static int read_all(int fd, char *p, size_t len, uint64_t at)
{
	while (len) {
		ssize_t n = pread(fd, p, len, (off_t)at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -EBADMSG;
		p += n;
		at += (uint64_t)n;
		len -= (size_t)n;
	}
	return 0;
}

/* The whole text at its name or not at all. */
static int put(struct au_files *f, const char *name, const char *text, size_t len)
{
	EG_CLEANUP_FD int fd = -1;
	char to[AU_PATH_TEXT];
	int r = au_files_mkdir(f, AU_POLICIES);

	if (r)
		return r;
	fd = au_files_create(f, AU_POLICIES, TMP, O_TRUNC);
	if (fd < 0)
		return fd;
	for (size_t done = 0; done < len;) {
		ssize_t n = write(fd, text + done, len - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -ENOSPC;
		done += (size_t)n;
	}
	(void)snprintf(to, sizeof(to), "%s/%s", AU_POLICIES, name);
	return renameat(au_files_dirfd(f), AU_POLICIES "/" TMP,
			au_files_dirfd(f), to) < 0
		       ? -errno
		       : 0;
}

static int store(struct au_files *f, const struct au_text *t)
{
	EG_CLEANUP_FREE char *text = NULL;
	uint8_t digest[EG_DIGEST];
	char name[NAME_MAX_TEXT];
	int r;

	if (!t->len || t->len > AU_TEXT_MAX)
		return -EBADMSG;
	if (there(f, t))
		return 0;
	text = malloc((size_t)t->len);
	if (!text)
		return -ENOMEM;
	r = read_all(t->fd, text, (size_t)t->len, t->offset);
	if (r)
		return r;
	eg_sha256_of(text, (size_t)t->len, digest);
	if (memcmp(digest, t->digest, EG_DIGEST))
		return -EBADMSG;
	return put(f, name_of(digest, name), text, (size_t)t->len);
}

int au_texts_keep(struct au_texts *t, struct au_files *f,
		  const struct eg_ma_policy *m, int *fd)
{
	struct au_text one = {.fd = *fd, .offset = m->offset, .len = m->len};
	int r;

	memcpy(one.digest, m->digest, EG_DIGEST);
	r = store(f, &one);
	if (!r || r == -EBADMSG)
		return r;
	for (unsigned int i = 0; i < t->n; i++)
		if (!memcmp(t->wait[i].digest, one.digest, EG_DIGEST))
			return r;
	if (t->n == AU_TEXTS_WAIT)
		return -ENOBUFS;
	one.fd = eg_steal_fd(fd);
	t->wait[t->n++] = one;
	return r;
}

int au_texts_retry(struct au_texts *t, struct au_files *f)
{
	int first = 0;

	for (unsigned int i = 0; i < t->n;) {
		int r = store(f, &t->wait[i]);

		if (r && r != -EBADMSG) {
			first = first ? first : r;
			i++;
			continue;
		}
		eg_close_p(&t->wait[i].fd);
		t->wait[i] = t->wait[--t->n];
	}
	return first;
}

void au_texts_done(struct au_texts *t)
{
	while (t->n)
		eg_close_p(&t->wait[--t->n].fd);
}
