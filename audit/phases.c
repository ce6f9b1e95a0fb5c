// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: which policy and phase was in force when (see phases.h)
 */
#include "audit/phases.h"
#include "netpool/base/digest.h"
#include "netpool/base/jsonw.h"
#include "netpool/base/stamp.h"
#include "netpool/base/util.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define LINE 1024
#define FILE_MAX (64 * 1024) /* AU_SPANS lines and then some */

static long span_line(const struct au_span *s, char *buf, size_t cap)
{
	char digest[EG_SHA256_HEX];
	struct eg_jsonw w;
	long n;

	eg_jsonw_init(&w, buf, cap - 1);
	eg_jsonw_object(&w, NULL);
	eg_jsonw_u64(&w, "v", 1);
	eg_jsonw_str(&w, "kind", "policy");
	eg_jsonw_i64(&w, "from_ns", s->from_ns);
	eg_jsonw_str(&w, "policy", eg_hex(digest, s->digest, EG_DIGEST));
	eg_jsonw_str(&w, "phase", s->phase);
	eg_jsonw_end(&w);
	n = eg_jsonw_done(&w);
	if (n > 0)
		buf[n++] = '\n';
	return n;
}

int au_phases_store(struct au_files *f, const struct au_lease *l)
{
	EG_CLEANUP_FD int fd = -1;
	char buf[LINE];
	struct stat st;
	uint32_t i;
	int r = au_files_mkdir(f, l->log.dir);

	if (r)
		return r;
	fd = au_files_create(f, l->log.dir, AU_PHASES, O_APPEND);
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (st.st_size > FILE_MAX - LINE)
		return -EFBIG;
	for (i = st.st_size ? l->spans - 1 : 0; i < l->spans; i++) {
		long n = span_line(&l->span[i], buf, sizeof(buf));

		if (n < 0)
			return (int)n;
		if (write(fd, buf, (size_t)n) != n)
			return -ENOSPC;
	}
	return 0;
}

static int nibble(char c)
{
	return c >= '0' && c <= '9'   ? c - '0'
	       : c >= 'a' && c <= 'f' ? c - 'a' + 10
				      : -1;
}

static int parse_digest(const char *text, uint8_t ret[EG_DIGEST])
{
	if (strlen(text) != 2 * EG_DIGEST)
		return -EBADMSG;
	for (unsigned int i = 0; i < EG_DIGEST; i++) {
		int hi = nibble(text[2 * i]), lo = nibble(text[2 * i + 1]);

		if (hi < 0 || lo < 0)
			return -EBADMSG;
		ret[i] = (uint8_t)(hi << 4 | lo);
	}
	return 0;
}

/* One line; one that is cut or not ours is passed over. */
static void take_line(struct au_lease *l, const char *line, size_t len)
{
	json_t *j = json_loadb(line, len, 0, NULL);
	const char *policy = NULL, *phase = NULL;
	uint8_t digest[EG_DIGEST];
	json_int_t from = 0;

	if (j &&
	    !json_unpack(j, "{s:I, s:s, s:s}", "from_ns", &from, "policy",
			 &policy, "phase", &phase) &&
	    !parse_digest(policy, digest))
		/* Out of memory: the manifest then lacks this change. */
		(void)au_lease_span(l, from, digest, phase);
	json_decref(j);
}

int au_phases_load(struct au_files *f, struct au_lease *l, int64_t wall_ns)
{
	EG_CLEANUP_FREE char *buf = NULL;
	EG_CLEANUP_FREE struct au_span *now = NULL;
	EG_CLEANUP_FD int fd = au_files_read(f, l->log.dir, AU_PHASES);
	const struct au_span *last;
	char *line, *nl;
	ssize_t n;

	if (fd < 0)
		return fd == -ENOENT ? 0 : fd;
	buf = malloc(FILE_MAX);
	now = malloc(sizeof(*now));
	if (!buf || !now || !l->spans)
		return -ENOMEM;
	n = read(fd, buf, FILE_MAX);
	if (n < 0)
		/* cppcheck-suppress memleak ; scope cleanup frees it */
		return -errno;
	*now = l->span[l->spans - 1];
	l->spans = 0;
	for (line = buf; (nl = memchr(line, '\n', (size_t)(buf + n - line)));
	     line = nl + 1)
		take_line(l, line, (size_t)(nl - line));
	last = l->spans ? &l->span[l->spans - 1] : NULL;
	if (last && !memcmp(last->digest, now->digest, EG_DIGEST) &&
	    !strcmp(last->phase, now->phase))
		return 0;
	return au_lease_span(l, last ? wall_ns : now->from_ns, now->digest,
			     now->phase);
}
