// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: reading back what we wrote (see scan.h)
 */
#include "audit/scan.h"
#include "netpool/base/util.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>
#include <sys/stat.h>

static const char *const layer_names[] = {
	[AU_PACKET] = "packet",
	[AU_DNS] = "dns",
	[AU_LOG] = "log",
};
_Static_assert(EG_ARRAY_SIZE(layer_names) == AU_LAYER_COUNT, "layer names");

const char *au_layer_name(enum au_layer l)
{
	return layer_names[l];
}

static const char *find(const char *line, size_t len, const char *key)
{
	const char *p = memmem(line, len, key, strlen(key));

	return p ? p + strlen(key) : NULL;
}

static const char *find_last(const char *line, size_t len, const char *key)
{
	const char *end = line + len, *p, *last = NULL;

	while ((p = find(line, (size_t)(end - line), key)))
		line = last = p;
	return last;
}

static int number(const char *p, const char *end, uint64_t *ret)
{
	uint64_t v = 0;
	const char *start = p;

	for (; p < end && *p >= '0' && *p <= '9'; p++) {
		if (v > (UINT64_MAX - 9) / 10)
			return -ERANGE;
		v = v * 10 + (uint64_t)(*p - '0');
	}
	if (p == start)
		return -ENOENT;
	*ret = v;
	return 0;
}

static int text(const char *p, const char *end, char *ret, size_t cap)
{
	const char *q = memchr(p, '"', (size_t)(end - p));

	if (!q || (size_t)(q - p) >= cap)
		return -ENOENT;
	memcpy(ret, p, (size_t)(q - p));
	ret[q - p] = '\0';
	return 0;
}

int au_scan_u64(const char *line, size_t len, const char *key, uint64_t *ret)
{
	const char *p = find(line, len, key);

	return p ? number(p, line + len, ret) : -ENOENT;
}

int au_scan_text(const char *line, size_t len, const char *key, char *ret,
		 size_t cap)
{
	const char *p = find(line, len, key);

	return p ? text(p, line + len, ret, cap) : -ENOENT;
}

static int scan_layer(const char *line, size_t len, struct au_line *l)
{
	const char *p = find_last(line, len, ",\"layer\":\"");
	char name[24];

	if (!p || text(p, line + len, name, sizeof(name)))
		return -EBADMSG;
	for (unsigned int i = 0; i < AU_LAYER_COUNT; i++)
		if (!strcmp(name, layer_names[i])) {
			l->layer = (enum au_layer)i;
			return 0;
		}
	return -EBADMSG;
}

static int scan_reason(const char *line, size_t len, struct au_line *l)
{
	const char *p = find_last(line, len, ",\"reason\":\"");
	char name[24];

	l->reason = EG_REASON_NONE;
	if (l->layer == AU_LOG)
		return 0;
	if (!p || text(p, line + len, name, sizeof(name)))
		return -EBADMSG;
	l->reason = eg_reason_by_name(name);
	return l->reason == EG_REASON_COUNT ? -EBADMSG : 0;
}

/* "pcap":{"file":"denials.pcap","offset":24,"caplen":60} */
static void scan_pcap(const char *line, size_t len, struct au_line *l)
{
	static const char stem[] = "denials";
	const char *end = line + len;
	const char *p = find_last(line, len, ",\"pcap\":{\"file\":\"");
	uint64_t no = 1;

	if (!p || (size_t)(end - p) < sizeof(stem) ||
	    memcmp(p, stem, sizeof(stem) - 1))
		return;
	p += sizeof(stem) - 1;
	if (*p == '-' && number(p + 1, end, &no))
		return;
	if (au_scan_u64(p, (size_t)(end - p), "\"offset\":", &l->pcap_offset) ||
	    au_scan_u64(p, (size_t)(end - p), "\"caplen\":", &l->pcap_caplen))
		return;
	l->pcap_no = (uint32_t)no;
	l->has_pcap = true;
}

int au_scan_line(const char *line, size_t len, struct au_line *ret)
{
	struct au_line l = {0};
	const char *p;
	int r;

	if (len < 2 || line[0] != '{' || line[len - 1] != '}')
		return -EBADMSG;
	if (au_scan_u64(line, len, ",\"hseq\":", &l.hseq) ||
	    au_scan_u64(line, len, ",\"seq\":", &l.seq) ||
	    au_scan_text(line, len, ",\"time\":\"", l.time, sizeof(l.time)))
		return -EBADMSG;
	r = scan_layer(line, len, &l);
	if (!r)
		r = scan_reason(line, len, &l);
	if (r)
		return r;
	scan_pcap(line, len, &l);
	p = find_last(line, len, ",\"suppressed\":");
	if (p && l.layer != AU_LOG && number(p, line + len, &l.suppressed))
		l.suppressed = 0;
	*ret = l;
	return 0;
}

bool au_scan_valid(const char *line, size_t len)
{
	json_t *j = json_loadb(line, len, JSON_REJECT_DUPLICATES, NULL);
	bool ok = json_is_object(j);

	json_decref(j);
	return ok;
}

long au_scan_last(int fd, char *buf, size_t cap)
{
	struct stat st;
	size_t want;
	ssize_t n;
	char *nl;

	if (fstat(fd, &st) < 0)
		return -errno;
	want = st.st_size < (off_t)cap ? (size_t)st.st_size : cap;
	n = pread(fd, buf, want, st.st_size - (off_t)want);
	if (n < 0)
		return -errno;
	/* What follows the last newline is half a line. */
	nl = memrchr(buf, '\n', (size_t)n);
	if (!nl)
		return 0;
	*nl = '\0';
	n = nl - buf;
	nl = memrchr(buf, '\n', (size_t)n);
	if (nl) {
		n -= nl + 1 - buf;
		memmove(buf, nl + 1, (size_t)n + 1);
	}
	return n;
}
