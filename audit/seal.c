// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: closing the evidence of a lease (see seal.h)
 */
#include "audit/seal.h"
#include "audit/find.h"
#include "audit/record.h"
#include "netpool/base/digest.h"
#include "netpool/base/jsonw.h"
#include "netpool/base/stamp.h"
#include "netpool/base/util.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define FILES_MAX 64 /* in one manifest: savefiles go on after crashes */
#define FILE_NAME 24
#define LINE_MAX_CHAIN AU_LINE_CHAIN
#define FIND_BYTES (1 << 20)
#define TMP ".manifest.tmp"
#define DIGEST_TEXT (7 + EG_SHA256_HEX) /* "sha256:" in front */

static const char *const cause_names[] = {
	[EG_CAUSE_API] = "api",
	[EG_CAUSE_EXPIRY] = "expiry",
	[EG_CAUSE_REVOCATION] = "revocation",
	[EG_CAUSE_RESTART] = "restart",
	[EG_CAUSE_PURGE] = "purge",
	[EG_CAUSE_KERNEL] = "kernel",
};
_Static_assert(EG_ARRAY_SIZE(cause_names) == EG_CAUSE_COUNT, "cause names");

struct sealed_file {
	char name[FILE_NAME];
	uint64_t bytes;
	uint8_t digest[EG_DIGEST];
};

struct au_seal {
	struct au_lease *lease;
	struct au_seal_facts facts;
	struct sealed_file file[FILES_MAX];
	unsigned int files;
	uint32_t step; /* 0 jsonl, 1 phases, 1 + n the nth savefile */
	int fd;	       /* of the file being hashed */
	struct eg_sha256 sha;
};

static const char *digest_text(const uint8_t d[EG_DIGEST], char buf[DIGEST_TEXT])
{
	memcpy(buf, "sha256:", 7);
	(void)eg_hex(buf + 7, d, EG_DIGEST);
	return buf;
}

static int digest_parse(const char *text, uint8_t ret[EG_DIGEST])
{
	static const char hex[] = "0123456789abcdef";

	if (strlen(text) != DIGEST_TEXT - 1 || memcmp(text, "sha256:", 7))
		return -EBADMSG;
	text += 7;
	for (unsigned int i = 0; i < EG_DIGEST; i++) {
		const char *hi = strchr(hex, text[2 * i]);
		const char *lo = strchr(hex, text[2 * i + 1]);

		if (!hi || !lo)
			return -EBADMSG;
		ret[i] = (uint8_t)((hi - hex) << 4 | (lo - hex));
	}
	return 0;
}

static int write_all(int fd, const char *p, size_t len, uint64_t at)
{
	while (len) {
		ssize_t n = pwrite(fd, p, len, (off_t)at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -ENOSPC;
		p += n;
		at += (uint64_t)n;
		len -= (size_t)n;
	}
	return 0;
}

/* ---- the chain ------------------------------------------------------------- */

static int chain_open(struct au_files *f)
{
	return au_files_create(f, ".", AU_CHAIN_FILE, 0);
}

int au_chain_load(struct au_files *f, struct au_chain *c, struct eg_err *err)
{
	char buf[LINE_MAX_CHAIN * 2], text[DIGEST_TEXT];
	EG_CLEANUP_FD int fd = au_files_read(f, ".", AU_CHAIN_FILE);
	struct stat st;
	long n;

	memset(c, 0, sizeof(*c));
	if (fd == -ENOENT)
		return 0;
	if (fd < 0)
		return eg_err_sys(err, fd, "%s", AU_CHAIN_FILE);
	if (fstat(fd, &st) < 0)
		return eg_err_sys(err, -errno, "%s", AU_CHAIN_FILE);
	c->size = (uint64_t)st.st_size;
	while (c->size) { /* back to the last newline */
		if (pread(fd, buf, 1, (off_t)c->size - 1) != 1)
			return eg_err_set(err, -EIO, "%s: read", AU_CHAIN_FILE);
		if (buf[0] == '\n')
			break;
		c->size--;
	}
	n = au_scan_last(fd, buf, sizeof(buf));
	if (n <= 0)
		return (int)n;
	if (au_scan_u64(buf, (size_t)n, "\"n\":", &c->n) ||
	    au_scan_text(buf, (size_t)n, "\"manifest\":\"", text, sizeof(text)) ||
	    digest_parse(text, c->head))
		return eg_err_set(
			err, -EBADMSG,
			"the last line of %s is not one of ours; move the file away to begin a new chain",
			AU_CHAIN_FILE);
	return 0;
}

bool au_chain_find(struct au_files *f, const uint8_t uid[EG_UID],
		   uint8_t ret[EG_DIGEST])
{
	char key[EG_UUID_TEXT + 8] = "\"uid\":\"", text[DIGEST_TEXT];
	EG_CLEANUP_FD int fd = au_files_read(f, ".", AU_CHAIN_FILE);
	EG_CLEANUP_FREE char *buf = fd < 0 ? NULL : malloc(FIND_BYTES);
	struct stat st;
	const char *p;
	off_t from;
	ssize_t n;

	if (!buf || fstat(fd, &st) < 0)
		return false;
	from = st.st_size > FIND_BYTES ? st.st_size - FIND_BYTES : 0;
	n = pread(fd, buf, FIND_BYTES, from);
	if (n <= 0)
		return false;
	(void)eg_uuid_format(uid, key + 7);
	p = memmem(buf, (size_t)n, key, strlen(key));
	return p &&
	       !au_scan_text(p, (size_t)(buf + n - p), "\"manifest\":\"", text,
			     sizeof(text)) &&
	       !digest_parse(text, ret);
}

/* Half a line behind our end goes; an end before it is not our doing. */
static int chain_as_left(int fd, const struct au_chain *c)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	if ((uint64_t)st.st_size < c->size)
		return -ESTALE;
	if ((uint64_t)st.st_size > c->size && ftruncate(fd, (off_t)c->size) < 0)
		return -errno;
	return 0;
}

static int chain_append(struct au_seal *s, struct au_files *f, struct au_chain *c,
			uint64_t hseq, const uint8_t digest[EG_DIGEST])
{
	char buf[LINE_MAX_CHAIN], text[DIGEST_TEXT], uid[EG_UUID_TEXT];
	char stamp[EG_STAMP_TEXT], id[EG_HEX16_TEXT];
	EG_CLEANUP_FD int fd = chain_open(f);
	struct eg_jsonw w;
	long n;
	int r;

	if (fd < 0)
		return fd;
	r = chain_as_left(fd, c);
	if (r)
		return r;
	eg_jsonw_init(&w, buf, sizeof(buf) - 1);
	eg_jsonw_object(&w, NULL);
	eg_jsonw_u64(&w, "v", 1);
	eg_jsonw_str(&w, "kind", "seal");
	eg_jsonw_str(&w, "host_id", eg_hex(id, s->facts.conf->host_id, 16));
	eg_jsonw_u64(&w, "hseq", hseq);
	eg_jsonw_u64(&w, "n", c->n + 1);
	eg_jsonw_str(&w, "time", eg_stamp_ns(s->facts.wall_ns, stamp));
	eg_jsonw_str(&w, "uid", eg_uuid_format(s->lease->uid, uid));
	eg_jsonw_str(&w, "lease", s->lease->id);
	eg_jsonw_str(&w, "dir", s->lease->log.dir);
	eg_jsonw_str(&w, "manifest", digest_text(digest, text));
	eg_jsonw_str(&w, "previous", digest_text(c->head, text));
	eg_jsonw_end(&w);
	n = eg_jsonw_done(&w);
	if (n < 0)
		return (int)n;
	buf[n++] = '\n';
	r = write_all(fd, buf, (size_t)n, c->size);
	if (r) {
		(void)!ftruncate(fd, (off_t)c->size); /* or overwritten */
		return r;
	}
	c->size += (uint64_t)n;
	c->n++;
	memcpy(c->head, digest, EG_DIGEST);
	return 0;
}

/* ---- the manifest ------------------------------------------------------------ */

static void put_lease(struct eg_jsonw *w, const struct au_seal *s,
		      const char *labels, bool names)
{
	const struct au_lease *l = s->lease;
	char stamp[EG_STAMP_TEXT];

	au_doc_write(w, l, labels, names);
	eg_jsonw_str(w, "created", eg_stamp_ns(l->created_ns, stamp));
	eg_jsonw_str(w, "sealed", eg_stamp_ns(s->facts.wall_ns, stamp));
	eg_jsonw_str(w, "cause",
		     s->facts.cause < EG_CAUSE_COUNT ? cause_names[s->facts.cause]
						     : "unknown");
}

static void put_policies(struct eg_jsonw *w, const struct au_seal *s)
{
	const struct au_lease *l = s->lease;
	char stamp[EG_STAMP_TEXT], text[DIGEST_TEXT];

	eg_jsonw_array(w, "policies");
	for (uint32_t i = 0; i < l->spans; i++) {
		int64_t to = i + 1 < l->spans ? l->span[i + 1].from_ns
					      : s->facts.wall_ns;

		eg_jsonw_object(w, NULL);
		eg_jsonw_str(w, "policy", digest_text(l->span[i].digest, text));
		eg_jsonw_str(w, "phase", l->span[i].phase);
		eg_jsonw_str(w, "from", eg_stamp_ns(l->span[i].from_ns, stamp));
		eg_jsonw_str(w, "to", eg_stamp_ns(to, stamp));
		eg_jsonw_end(w);
	}
	eg_jsonw_end(w);
	if (l->spans_lost)
		eg_jsonw_u64(w, "policies_left_out", l->spans_lost);
}

static void put_records(struct eg_jsonw *w, const struct au_seal *s)
{
	const struct au_log *g = &s->lease->log;

	eg_jsonw_object(w, "counts");
	au_counts_write(w, "packet", s->facts.packet);
	au_counts_write(w, "dns", s->facts.dns);
	eg_jsonw_end(w);
	eg_jsonw_object(w, "records");
	if (g->seq) {
		eg_jsonw_u64(w, "first_seq", g->first_seq);
		eg_jsonw_u64(w, "last_seq", g->seq);
		eg_jsonw_u64(w, "first_hseq", g->hseq_first);
		eg_jsonw_u64(w, "last_hseq", g->hseq_last);
		eg_jsonw_str(w, "first_time", g->first_time);
		eg_jsonw_str(w, "last_time", g->last_time);
	}
	eg_jsonw_u64(w, "disk_lost", g->disk_lost);
	eg_jsonw_u64(w, "damaged", g->damaged);
	eg_jsonw_bool(w, "capped", g->capped);
	eg_jsonw_end(w);
}

static void put_files(struct eg_jsonw *w, const struct au_seal *s)
{
	char text[DIGEST_TEXT];

	eg_jsonw_array(w, "files");
	for (unsigned int i = 0; i < s->files; i++) {
		eg_jsonw_object(w, NULL);
		eg_jsonw_str(w, "name", s->file[i].name);
		eg_jsonw_u64(w, "bytes", s->file[i].bytes);
		eg_jsonw_str(w, "sha256",
			     digest_text(s->file[i].digest, text) + 7);
		eg_jsonw_end(w);
	}
	eg_jsonw_end(w);
}

static long build_with(const struct au_seal *s, const struct au_chain *c,
		       uint64_t hseq, const char *labels, bool names,
		       char *buf, size_t cap)
{
	char text[DIGEST_TEXT], id[EG_HEX16_TEXT];
	struct eg_jsonw w;
	long n;

	eg_jsonw_init(&w, buf, cap - 1);
	eg_jsonw_object(&w, NULL);
	eg_jsonw_u64(&w, "v", 1);
	eg_jsonw_str(&w, "kind", "manifest");
	eg_jsonw_str(&w, "host_id", eg_hex(id, s->facts.conf->host_id, 16));
	eg_jsonw_str(&w, "boot_id", eg_hex(id, s->facts.conf->boot_id, 16));
	eg_jsonw_u64(&w, "hseq", hseq);
	eg_jsonw_u64(&w, "n", c->n + 1);
	eg_jsonw_str(&w, "previous", digest_text(c->head, text));
	put_lease(&w, s, labels, names);
	put_policies(&w, s);
	put_records(&w, s);
	put_files(&w, s);
	eg_jsonw_end(&w);
	n = eg_jsonw_done(&w);
	if (n < 0)
		return n;
	buf[n++] = '\n';
	return n;
}

/*
 * Names and labels of the greatest size leave no room for the rest: first
 * the names go, then labels are cut, as in records.
 */
static long build(const struct au_seal *s, const struct au_chain *c,
		  uint64_t hseq, char *buf, size_t cap)
{
	const struct au_lease *l = s->lease;
	long n = build_with(s, c, hseq, l->all_labels, true, buf, cap);

	if (n < 0)
		n = build_with(s, c, hseq, l->all_labels, false, buf, cap);
	return n < 0 ? build_with(s, c, hseq, l->labels, false, buf, cap) : n;
}

static int rename_manifest(struct au_files *f, const char *dir)
{
	char from[AU_PATH_TEXT], to[AU_PATH_TEXT];

	(void)snprintf(from, sizeof(from), "%s/%s", dir, TMP);
	(void)snprintf(to, sizeof(to), "%s/%s", dir, AU_MANIFEST);
	return renameat(au_files_dirfd(f), from, au_files_dirfd(f), to) < 0
		       ? -errno
		       : 0;
}

static int write_manifest(struct au_files *f, const char *dir, const char *buf,
			  size_t len)
{
	EG_CLEANUP_FD int fd = -1;
	int r = au_files_mkdir(f, dir);

	if (r)
		return r;
	fd = au_files_create(f, dir, TMP, O_TRUNC);
	if (fd < 0)
		return fd;
	r = write_all(fd, buf, len, 0);
	return r ? r : rename_manifest(f, dir);
}

static int finish(struct au_seal *s, struct au_files *f, struct au_chain *c,
		  uint8_t ret[EG_DIGEST])
{
	static char buf[AU_MANIFEST_MAX];
	struct au_state *st = au_files_state(f);
	uint64_t hseq = st->next;
	uint8_t digest[EG_DIGEST];
	long n = build(s, c, hseq, buf, sizeof(buf));
	int r;

	if (n < 0)
		return (int)n;
	r = au_state_begin(st, AU_CHAIN_FILE, 1);
	if (!r)
		r = write_manifest(f, s->lease->log.dir, buf, (size_t)n);
	if (r)
		return r;
	eg_sha256_of(buf, (size_t)n, digest);
	r = chain_append(s, f, c, hseq, digest);
	if (r)
		return r;
	st->next++;
	memcpy(ret, digest, EG_DIGEST);
	return 0;
}

/* ---- hashing ------------------------------------------------------------------ */

static const char *file_name(uint32_t step, char buf[AU_PCAP_NAME])
{
	if (step == 0)
		return AU_JSONL;
	if (step == 1)
		return AU_PHASES;
	return au_pcap_name(step - 1, buf);
}

/* Open the next file there is; false: there is none left. */
static bool next_file(struct au_seal *s, struct au_files *f)
{
	char name[AU_PCAP_NAME];

	while (s->step <= s->lease->log.pcap_no + 1 && s->files < FILES_MAX) {
		struct sealed_file *sf = &s->file[s->files];

		(void)snprintf(sf->name, sizeof(sf->name), "%s",
			       file_name(s->step++, name));
		s->fd = au_files_read(f, s->lease->log.dir, sf->name);
		if (s->fd < 0)
			continue; /* a lease without denials has none */
		sf->bytes = 0;
		eg_sha256_init(&s->sha);
		return true;
	}
	return false;
}

/* At most @bytes of the open file; 1 more to come, 0 done. */
static int hash_some(struct au_seal *s, size_t *bytes)
{
	static uint8_t buf[65536];
	struct sealed_file *sf = &s->file[s->files];

	while (*bytes) {
		size_t want = *bytes < sizeof(buf) ? *bytes : sizeof(buf);
		ssize_t n = read(s->fd, buf, want);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (!n) {
			eg_sha256_done(&s->sha, sf->digest);
			eg_close_p(&s->fd);
			s->files++;
			return 0;
		}
		eg_sha256_add(&s->sha, buf, (size_t)n);
		sf->bytes += (uint64_t)n;
		*bytes -= (size_t)n;
	}
	return 1;
}

struct au_seal *au_seal_begin(struct au_lease *l,
			      const struct au_seal_facts *facts)
{
	struct au_seal *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->lease = l;
	s->facts = *facts;
	s->fd = -1;
	return s;
}

int au_seal_step(struct au_seal *s, struct au_files *f, struct au_chain *c,
		 size_t bytes, uint8_t ret[EG_DIGEST], struct eg_err *err)
{
	int r = 0;

	while (!r && (s->fd >= 0 || next_file(s, f)))
		r = hash_some(s, &bytes);
	if (r > 0)
		return 1;
	if (!r)
		r = finish(s, f, c, ret);
	if (r)
		return eg_err_sys(err, r, "seal of %s", s->lease->log.dir);
	return 0;
}

void au_seal_free(struct au_seal *s)
{
	if (!s)
		return;
	eg_close_p(&s->fd);
	free(s);
}
