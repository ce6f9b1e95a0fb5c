// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: taking over the files of a log (see recover.h)
 */
#include "audit/recover.h"
#include "netpool/base/util.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#define CHUNK 65536 /* several records of the greatest size */

/*
 * Packets behind the last line's are what one flush had written when the
 * process ended, one buffer at most. More of them are no crash: somebody
 * removed lines, and nothing is cut.
 */
#define ORPHANS_MAX 32768

/* What the lines say in all. */
struct found {
	uint64_t good;	   /* end of the last whole line */
	uint64_t last_end; /* of the packet of the last line that has one */
};

static void take_line(struct au_log *log, struct found *fd,
		      const struct au_line *l)
{
	log->seq = l->seq;
	log->hseq_last = l->hseq;
	if (!log->hseq_first) {
		log->hseq_first = l->hseq;
		log->first_seq = l->seq;
		memcpy(log->first_time, l->time, sizeof(l->time));
	}
	memcpy(log->last_time, l->time, sizeof(l->time));
	log->logged[l->layer][l->reason]++;
	log->suppressed[l->layer][l->reason] += l->suppressed;
	if (l->has_pcap) {
		log->pcap_no = l->pcap_no;
		fd->last_end = l->pcap_offset + AU_PCAP_RECORD + l->pcap_caplen;
	}
}

/* Whole lines of @buf; returns octets used. */
static size_t take_lines(struct au_log *log, struct found *fd, const char *buf,
			 size_t len)
{
	size_t used = 0;
	const char *nl;

	while ((nl = memchr(buf + used, '\n', len - used))) {
		size_t n = (size_t)(nl - (buf + used));
		struct au_line l;

		if (au_scan_line(buf + used, n, &l))
			log->damaged++;
		else
			take_line(log, fd, &l);
		used += n + 1;
	}
	return used;
}

static int read_lines(int file, struct au_log *log, struct found *fd)
{
	static char buf[CHUNK];
	uint64_t at = 0;
	size_t have = 0;

	for (;;) {
		ssize_t n = pread(file, buf + have, sizeof(buf) - have,
				  (off_t)(at + have));
		size_t used;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (!n)
			break;
		have += (size_t)n;
		used = take_lines(log, fd, buf, have);
		if (!used && have == sizeof(buf))
			return -EFBIG; /* no file of ours has such lines */
		have -= used;
		at += used;
		memmove(buf, buf + used, have);
	}
	fd->good = at;
	return 0;
}

/*
 * A last line with its newline that is no JSON is what a machine leaves
 * that lost power: a block that was never written. Cut as half a line is.
 */
static int check_last(int file, uint64_t *good)
{
	static char buf[AU_RECORD_MAX * 2];
	long n = au_scan_last(file, buf, sizeof(buf));

	if (n < 0)
		return (int)n;
	if (n && !au_scan_valid(buf, (size_t)n))
		*good -= (uint64_t)n + 1;
	return 0;
}

static int recover_json(struct au_files *f, struct au_log *log, struct found *fd)
{
	EG_CLEANUP_FD int file = -1;
	struct stat st;
	int r;

	r = au_files_read(f, log->dir, AU_JSONL);
	if (r < 0)
		return r;
	(void)close(r);
	file = au_files_create(f, log->dir, AU_JSONL, 0);
	if (file < 0)
		return file;
	if (fstat(file, &st) < 0)
		return -errno;
	r = read_lines(file, log, fd);
	if (!r)
		r = check_last(file, &fd->good);
	if (r)
		return r;
	if ((uint64_t)st.st_size != fd->good &&
	    ftruncate(file, (off_t)fd->good) < 0)
		return -errno;
	log->json_size = fd->good;
	return 0;
}

/* End of the last whole packet record within @size octets. */
static uint64_t walk_pcap(int file, uint64_t size)
{
	uint64_t at = AU_PCAP_HEADER;
	uint32_t h[4];

	while (at + sizeof(h) <= size) {
		if (pread(file, h, sizeof(h), (off_t)at) != sizeof(h) ||
		    h[2] > AU_PACKET_MAX || at + sizeof(h) + h[2] > size)
			break;
		at += sizeof(h) + h[2];
	}
	return at;
}

static void next_pcap(struct au_log *log, uint64_t size)
{
	log->former_pcap_bytes += size;
	log->pcap_no++;
	log->pcap_size = 0;
	log->pcap_good = 0;
}

/* Does the savefile go on, and from where? */
static int judge_pcap(int file, struct au_log *log, uint64_t last_end,
		      const uint8_t header[AU_PCAP_HEADER])
{
	uint8_t got[AU_PCAP_HEADER];
	struct stat st;
	uint64_t size, keep;

	if (fstat(file, &st) < 0)
		return -errno;
	size = (uint64_t)st.st_size;
	keep = last_end ? last_end : AU_PCAP_HEADER;
	if (size < AU_PCAP_HEADER && !last_end) {
		keep = 0; /* died while writing the header */
	} else if (pread(file, got, sizeof(got), 0) != (ssize_t)sizeof(got) ||
		   memcmp(got, header, sizeof(got))) {
		next_pcap(log, size); /* not ours: left alone */
		return 0;
	} else if (size > keep + ORPHANS_MAX) {
		next_pcap(log, size);
		return 0;
	} else if (size < keep) {
		keep = walk_pcap(file, size);
		if (ftruncate(file, (off_t)keep) < 0)
			return -errno;
		next_pcap(log, keep);
		return 0;
	}
	if (size != keep && ftruncate(file, (off_t)keep) < 0)
		return -errno;
	log->pcap_size = log->pcap_good = keep;
	return 0;
}

static uint64_t size_of(struct au_files *f, struct au_log *log, uint32_t no)
{
	char name[AU_PCAP_NAME];
	EG_CLEANUP_FD int fd = au_files_read(f, log->dir, au_pcap_name(no, name));
	struct stat st;

	return fd < 0 || fstat(fd, &st) < 0 ? 0 : (uint64_t)st.st_size;
}

/*
 * recover_pcap() - from the savefile of the last line on
 *
 * A later number may be there already, made by an earlier recovery and
 * without a line yet; it is judged in its turn.
 */
static int recover_pcap(struct au_files *f, struct au_log *log,
			uint64_t last_end, const uint8_t header[AU_PCAP_HEADER])
{
	char name[AU_PCAP_NAME];

	for (uint32_t i = 1; i < log->pcap_no; i++)
		log->former_pcap_bytes += size_of(f, log, i);
	for (;;) {
		uint32_t no = log->pcap_no;
		EG_CLEANUP_FD int file = -1;
		int r = au_files_read(f, log->dir, au_pcap_name(no, name));

		if (r == -ENOENT && !last_end)
			return 0;
		if (r == -ENOENT) {
			next_pcap(log, 0);
			last_end = 0;
			continue;
		}
		if (r < 0)
			return r;
		(void)close(r);
		file = au_files_create(f, log->dir, name, 0);
		r = file < 0 ? file : judge_pcap(file, log, last_end, header);
		if (r || log->pcap_no == no)
			return r;
		last_end = 0;
	}
}

int au_recover(struct au_files *f, struct au_log *log,
	       const uint8_t header[AU_PCAP_HEADER], struct eg_err *err)
{
	struct found found = {0};
	int r;

	log->seq = log->hseq_first = log->hseq_last = log->first_seq = 0;
	log->json_size = log->pcap_size = log->pcap_good = 0;
	log->former_pcap_bytes = log->damaged = 0;
	log->pcap_no = 1;
	memset(log->logged, 0, sizeof(log->logged));
	memset(log->suppressed, 0, sizeof(log->suppressed));
	r = recover_json(f, log, &found);
	if (r && r != -ENOENT)
		return eg_err_sys(err, r, "%s/%s", log->dir, AU_JSONL);
	r = recover_pcap(f, log, found.last_end, header);
	if (r)
		return eg_err_sys(err, r, "the savefile in %s", log->dir);
	return 0;
}
