// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: what is known of a lease (see find.h)
 */
#include "audit/find.h"
#include "netpool/base/stamp.h"
#include "netpool/base/util.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- a live one ------------------------------------------------------------- */

/* Did an earlier address have this name? Then it has been written. */
static bool named_before(const struct au_lease *l, uint32_t at)
{
	for (uint32_t i = 0; i < at; i++)
		if (!strcmp(l->name[i].text, l->name[at].text))
			return true;
	return false;
}

static void name_write(struct eg_jsonw *w, const struct au_lease *l, uint32_t at)
{
	char a[EG_ADDR_TEXT];

	eg_jsonw_object(w, NULL);
	eg_jsonw_str(w, "name", l->name[at].text);
	eg_jsonw_array(w, "addresses");
	for (uint32_t i = at; i < l->names; i++)
		if (!strcmp(l->name[i].text, l->name[at].text))
			eg_jsonw_str(w, NULL, eg_addr_format(l->addr[i], a));
	eg_jsonw_end(w);
	eg_jsonw_end(w);
}

/* Names that led the lease somewhere, with where. */
static void names_write(struct eg_jsonw *w, const struct au_lease *l)
{
	size_t begin = w->len;
	uint64_t more = 0;

	eg_jsonw_array(w, "names");
	for (uint32_t i = 0; i < l->names; i++) {
		struct eg_jsonw before = *w;

		if (named_before(l, i))
			continue;
		name_write(w, l, i);
		if (!w->overflow && w->len - begin <= AU_NAMES_TEXT)
			continue;
		*w = before;
		more++;
	}
	eg_jsonw_end(w);
	if (more)
		eg_jsonw_u64(w, "names_more", more);
}

void au_doc_write(struct eg_jsonw *w, const struct au_lease *l,
		  const char *labels, bool names)
{
	eg_jsonw_members(w, l->who, strlen(l->who));
	eg_jsonw_members(w, labels, strlen(labels));
	eg_jsonw_members(w, l->request, strlen(l->request));
	if (names)
		names_write(w, l);
}

static long doc_build(const struct au_lease *l, char *buf, size_t cap)
{
	struct eg_jsonw w;

	eg_jsonw_init(&w, buf, cap);
	eg_jsonw_object(&w, NULL);
	au_doc_write(&w, l, l->all_labels, true);
	eg_jsonw_end(&w);
	return eg_jsonw_done(&w);
}

int au_doc_open(const struct au_lease *l)
{
	EG_CLEANUP_FREE char *buf = malloc(AU_DOC_MAX);
	EG_CLEANUP_FD int fd = memfd_create("egressd-lease", MFD_CLOEXEC);
	long n;

	if (!buf || fd < 0)
		return buf ? -errno : -ENOMEM;
	n = doc_build(l, buf, AU_DOC_MAX);
	if (n < 0)
		return (int)n;
	if (write(fd, buf, (size_t)n) != n || lseek(fd, 0, SEEK_SET) < 0)
		return -EIO;
	return eg_steal_fd(&fd);
}

struct au_lease *au_lease_uid(const struct au_leases *t,
			      const uint8_t uid[EG_UID])
{
	for (size_t i = 0; i < (size_t)t->slots * AU_GENERATIONS; i++)
		if (t->at[i] && !memcmp(t->at[i]->uid, uid, EG_UID))
			return t->at[i];
	return NULL;
}

struct au_lease *au_lease_id(const struct au_leases *t, const char *id)
{
	struct au_lease *best = NULL;

	for (size_t i = 0; i < (size_t)t->slots * AU_GENERATIONS; i++) {
		struct au_lease *l = t->at[i];

		if (l && !strcmp(l->id, id) &&
		    (!best || l->generation > best->generation))
			best = l;
	}
	return best;
}

/* ---- an ended one ------------------------------------------------------------- */

int au_find_begin(struct au_find *s, struct au_files *f, const char *id)
{
	struct stat st;

	/* Ids have no character that JSON would escape. */
	(void)snprintf(s->key, sizeof(s->key), ",\"lease\":\"%s\",", id);
	s->fd = au_files_read(f, ".", AU_CHAIN_FILE);
	if (s->fd < 0)
		return s->fd;
	if (fstat(s->fd, &st) < 0) {
		eg_close_p(&s->fd);
		return -errno;
	}
	s->end = st.st_size;
	return 0;
}

/* The last line of a piece that has the key; its uid. */
static int last_hit(const char *buf, size_t len, const char *key,
		    uint8_t ret[EG_UID])
{
	const char *hit = NULL, *from = buf, *p, *nl;
	char uid[EG_UUID_TEXT];

	while ((p = memmem(from, (size_t)(buf + len - from), key, strlen(key)))) {
		hit = p;
		from = p + 1;
	}
	if (!hit)
		return -ENOENT;
	while (hit > buf && hit[-1] != '\n')
		hit--;
	nl = memchr(hit, '\n', (size_t)(buf + len - hit));
	/* A line without an end was never finished. */
	if (!nl ||
	    au_scan_text(hit, (size_t)(nl - hit), "\"uid\":\"", uid, sizeof(uid)))
		return -ENOENT;
	return eg_uuid_parse(uid, ret) ? -EBADMSG : 0;
}

int au_find_step(struct au_find *s, uint8_t ret_uid[EG_UID])
{
	EG_CLEANUP_FREE char *buf = malloc(AU_FIND_BYTES);
	int64_t from = s->end > AU_FIND_BYTES ? s->end - AU_FIND_BYTES : 0;
	const char *begin, *nl;
	ssize_t n;
	int r;

	if (!buf)
		return -ENOMEM;
	n = pread(s->fd, buf, (size_t)(s->end - from), from);
	if (n < 0)
		return -errno;
	begin = buf;
	if (from) { /* the line that begins earlier belongs to the next piece */
		nl = memchr(buf, '\n', (size_t)n);
		if (!nl)
			return -EBADMSG;
		begin = nl + 1;
	}
	r = last_hit(begin, (size_t)(buf + n - begin), s->key, ret_uid);
	if (r != -ENOENT)
		return r;
	s->end = from + (begin - buf);
	return from ? 1 : -ENOENT;
}

void au_find_end(struct au_find *s)
{
	eg_close_p(&s->fd);
}
