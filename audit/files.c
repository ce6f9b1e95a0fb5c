// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: the evidence files (see files.h)
 */
#include "audit/files.h"
#include "audit/recover.h"
#include "netpool/base/digest.h"
#include "netpool/base/stamp.h"
#include "netpool/base/util.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <pcap/pcap.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define JSON_BUF 16384 /* four records of the greatest size, 16 usual ones */
#define PCAP_BUF 16384
#define LINES 64      /* in one buffer; more are flushed first */
#define HEAD_MAX 192  /* what stands in front of the host-wide number */
#define SNAPLEN 65535 /* said in the header; frames are never longer */
#define MODE_FILE 0640
#define MODE_DIR 0750

struct line {
	uint16_t len;
	uint8_t layer, reason;
	uint64_t pcap_end; /* of its packet; 0: it has none */
};

struct au_out {
	struct au_out *prev, *next; /* most recently used first */
	struct au_log *log;
	int json_fd, pcap_fd;
	size_t json_len, pcap_len, nlines;
	uint64_t pcap_tail; /* end of what is buffered, as offset */
	struct line line[LINES];
	char json[JSON_BUF];
	uint8_t pcap[PCAP_BUF];
};

struct au_files {
	int dirfd;
	const struct eg_conf *conf;
	struct au_state state;
	bool state_open;
	struct au_out *head, *tail, *spare;
	unsigned int open;
	pcap_t *dead;
	FILE *stream;
	pcap_dumper_t *dumper;
	uint8_t *sink; /* where libpcap's octets go */
	size_t sink_len, sink_cap;
	uint8_t header[AU_PCAP_HEADER];
	char head_text[HEAD_MAX];
	size_t head_len;
	char stage[JSON_BUF + LINES * (HEAD_MAX + 24)];
};

/* ---- directories ----------------------------------------------------------- */

/*
 * open_below() - openat2(2) that follows no link at any component, since a
 *		  name in the audit directory may be an administrator's
 */
static int open_below(int dirfd, const char *path, int flags, int mode)
{
	struct open_how how = {.flags = (uint32_t)(flags | O_CLOEXEC),
			       .mode = (uint32_t)mode,
			       .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS |
					  RESOLVE_NO_MAGICLINKS};
	int fd = (int)syscall(SYS_openat2, dirfd, path, &how, sizeof(how));

	return fd < 0 ? -errno : fd;
}

static int join(char buf[AU_PATH_TEXT], const char *dir, const char *name)
{
	int n = snprintf(buf, AU_PATH_TEXT, "%s/%s", dir, name);

	return n < 0 || n >= AU_PATH_TEXT ? -ENAMETOOLONG : 0;
}

/* Readers of evidence are a group; without one, nobody else may read. */
static void give_to_group(const struct au_files *f, int fd, mode_t mode)
{
	if (f->conf->read_gid != UINT32_MAX)
		/* Fails only where the group is not ours: stays private. */
		(void)!fchown(fd, (uid_t)-1, f->conf->read_gid);
	(void)fchmod(fd, mode);
}

static int mkdir_one(struct au_files *f, const char *path)
{
	EG_CLEANUP_FD int fd = -1;

	if (mkdirat(f->dirfd, path, 0700) < 0)
		return errno == EEXIST ? 0 : -errno;
	fd = open_below(f->dirfd, path, O_RDONLY | O_DIRECTORY, 0);
	if (fd < 0)
		return fd;
	give_to_group(f, fd, MODE_DIR);
	return 0;
}

int au_files_mkdir(struct au_files *f, const char *dir)
{
	char above[AU_DIR_TEXT];
	const char *slash = strchr(dir, '/');
	int r = 0;

	if (slash) {
		memcpy(above, dir, (size_t)(slash - dir));
		above[slash - dir] = '\0';
		r = mkdir_one(f, above);
	}
	return r ? r : mkdir_one(f, dir);
}

int au_files_create(struct au_files *f, const char *dir, const char *name,
		    int flags)
{
	EG_CLEANUP_FD int fd = -1;
	char path[AU_PATH_TEXT];
	struct stat st;
	int r = join(path, dir, name);

	if (r)
		return r;
	fd = open_below(f->dirfd, path, flags | O_RDWR | O_CREAT | O_NONBLOCK,
			0600);
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	if ((st.st_mode & 0777) != MODE_FILE)
		give_to_group(f, fd, MODE_FILE);
	return eg_steal_fd(&fd);
}

int au_files_read(const struct au_files *f, const char *dir, const char *name)
{
	char path[AU_PATH_TEXT];
	int r = join(path, dir, name);

	if (r)
		return r;
	return open_below(f->dirfd, path, O_RDONLY | O_NONBLOCK, 0);
}

int au_files_dirfd(const struct au_files *f)
{
	return f->dirfd;
}

const char *au_pcap_name(uint32_t no, char buf[AU_PCAP_NAME])
{
	if (no < 2)
		(void)snprintf(buf, AU_PCAP_NAME, "denials.pcap");
	else
		(void)snprintf(buf, AU_PCAP_NAME, "denials-%u.pcap", no);
	return buf;
}

/* ---- libpcap into a buffer --------------------------------------------------- */

static ssize_t sink_write(void *cookie, const char *buf, size_t len)
{
	struct au_files *f = cookie;

	if (!f->sink || len > f->sink_cap - f->sink_len)
		return 0;
	memcpy(f->sink + f->sink_len, buf, len);
	f->sink_len += len;
	return (ssize_t)len;
}

static int dumper_open(struct au_files *f, struct eg_err *err)
{
	cookie_io_functions_t io = {.write = sink_write};

	f->dead = pcap_open_dead_with_tstamp_precision(
		DLT_EN10MB, SNAPLEN, PCAP_TSTAMP_PRECISION_NANO);
	f->stream = fopencookie(f, "w", io);
	if (!f->dead || !f->stream)
		return eg_err_set(err, -ENOMEM, "no memory for libpcap");
	/* Unbuffered: each octet is in the sink when pcap_dump() returns. */
	(void)setvbuf(f->stream, NULL, _IONBF, 0);
	f->sink = f->header;
	f->sink_cap = sizeof(f->header);
	f->dumper = pcap_dump_fopen(f->dead, f->stream);
	if (!f->dumper || f->sink_len != AU_PCAP_HEADER)
		return eg_err_set(err, -EINVAL, "libpcap: %s",
				  pcap_geterr(f->dead));
	f->sink = NULL;
	return 0;
}

static void dump(struct au_files *f, struct au_out *o, const struct au_cap *cap)
{
	struct pcap_pkthdr h = {.caplen = cap->caplen, .len = cap->len};

	h.ts.tv_sec = cap->wall_ns / EG_NSEC_PER_SEC;
	h.ts.tv_usec = cap->wall_ns % EG_NSEC_PER_SEC; /* nanoseconds */
	f->sink = o->pcap;
	f->sink_len = o->pcap_len;
	f->sink_cap = sizeof(o->pcap);
	pcap_dump((u_char *)f->dumper, &h, cap->data);
	o->pcap_len = f->sink_len;
	f->sink = NULL;
}

/* ---- open logs ----------------------------------------------------------------- */

static void unlink_out(struct au_files *f, struct au_out *o)
{
	if (o->prev)
		o->prev->next = o->next;
	else
		f->head = o->next;
	if (o->next)
		o->next->prev = o->prev;
	else
		f->tail = o->prev;
	o->prev = o->next = NULL;
}

static void push_out(struct au_files *f, struct au_out *o)
{
	o->next = f->head;
	if (f->head)
		f->head->prev = o;
	else
		f->tail = o;
	f->head = o;
}

/* What the disk did not take: its lines never had a place, nor numbers. */
static void discard(struct au_out *o)
{
	struct au_log *log = o->log;

	log->disk_lost += o->nlines;
	log->seq -= o->nlines;
	if (o->pcap_fd >= 0 && log->pcap_size > log->pcap_good &&
	    !ftruncate(o->pcap_fd, (off_t)log->pcap_good))
		log->pcap_size = log->pcap_good;
	o->json_len = o->pcap_len = o->nlines = 0;
}

static void close_out(struct au_files *f, struct au_out *o)
{
	if (o->nlines)
		discard(o);
	unlink_out(f, o);
	o->log->out = NULL;
	eg_close_p(&o->json_fd);
	eg_close_p(&o->pcap_fd);
	f->open--;
	o->next = f->spare;
	f->spare = o;
}

/* The buffers come from a list that only ever grows to AU_OPEN_MAX. */
static struct au_out *new_out(struct au_files *f)
{
	struct au_out *o;

	if (f->open >= AU_OPEN_MAX && f->tail)
		au_log_close(f, f->tail->log);
	o = f->spare;
	if (o)
		f->spare = o->next;
	else
		o = malloc(sizeof(*o));
	if (!o)
		return NULL;
	o->prev = o->next = NULL;
	o->json_fd = o->pcap_fd = -1;
	o->json_len = o->pcap_len = o->nlines = 0;
	return o;
}

static int open_pcap(struct au_files *f, struct au_log *log, struct au_out *o)
{
	char name[AU_PCAP_NAME];

	o->pcap_fd = au_files_create(f, log->dir,
				     au_pcap_name(log->pcap_no, name), 0);
	if (o->pcap_fd < 0)
		return o->pcap_fd;
	o->pcap_tail = log->pcap_size;
	if (!log->pcap_size) {
		memcpy(o->pcap, f->header, sizeof(f->header));
		o->pcap_len = sizeof(f->header);
		o->pcap_tail = sizeof(f->header);
	}
	return 0;
}

static bool as_left(int fd, uint64_t size)
{
	struct stat st;

	return !fstat(fd, &st) && (uint64_t)st.st_size == size;
}

/*
 * retake() - the files are not as we left them: take over what is there
 *
 * Counts and numbers never go back: what was logged stays logged, wherever
 * its file has gone.
 */
static int retake(struct au_files *f, struct au_log *log)
{
	struct au_log was = *log;
	int r = au_recover(f, log, f->header, NULL);

	for (unsigned int i = 0; i < AU_LAYER_COUNT; i++)
		for (unsigned int j = 0; j < EG_REASONS; j++) {
			if (log->logged[i][j] < was.logged[i][j])
				log->logged[i][j] = was.logged[i][j];
			if (log->suppressed[i][j] < was.suppressed[i][j])
				log->suppressed[i][j] = was.suppressed[i][j];
		}
	if (log->seq < was.seq)
		log->seq = was.seq;
	return r;
}

/*
 * open_log() - first record since it was closed, or ever
 *
 * If the files are not as we left them (an administrator moved them away),
 * what is there now is taken over as after a restart.
 */
static int open_log(struct au_files *f, struct au_log *log)
{
	struct au_out *o = new_out(f);
	int r = o ? au_files_mkdir(f, log->dir) : -ENOMEM;

	if (!o)
		return r;
	if (!r) {
		o->json_fd = au_files_create(f, log->dir, AU_JSONL, 0);
		r = o->json_fd < 0 ? o->json_fd : 0;
	}
	if (!r && !as_left(o->json_fd, log->json_size))
		r = retake(f, log);
	if (!r)
		r = open_pcap(f, log, o);
	if (!r && log->pcap_size && !as_left(o->pcap_fd, log->pcap_size)) {
		r = retake(f, log);
		eg_close_p(&o->pcap_fd);
		if (!r)
			r = open_pcap(f, log, o);
	}
	if (r) {
		eg_close_p(&o->json_fd);
		eg_close_p(&o->pcap_fd);
		o->next = f->spare;
		f->spare = o;
		return r;
	}
	o->log = log;
	log->out = o;
	f->open++;
	push_out(f, o);
	return 0;
}

int au_log_init(struct au_files *f, struct au_log *log, const char *dir,
		struct eg_err *err)
{
	memset(log, 0, sizeof(*log));
	log->pcap_no = 1;
	(void)snprintf(log->dir, sizeof(log->dir), "%s", dir);
	return au_recover(f, log, f->header, err);
}

/* ---- records -------------------------------------------------------------------- */

static bool fits(const struct au_out *o, uint32_t caplen)
{
	return o->nlines < LINES &&
	       o->json_len + AU_RECORD_MAX <= sizeof(o->json) &&
	       o->pcap_len + AU_PCAP_RECORD + caplen <= sizeof(o->pcap);
}

static bool over_limit(const struct au_files *f, struct au_log *log)
{
	uint64_t max = f->conf->max_lease_bytes;

	log->capped =
		max &&
		log->json_size + log->pcap_size + log->former_pcap_bytes >= max;
	return log->capped;
}

int au_log_room(struct au_files *f, struct au_log *log, uint32_t caplen,
		uint64_t *ret_offset)
{
	int r = 0;

	if (caplen > AU_PACKET_MAX)
		r = -EMSGSIZE;
	else if (over_limit(f, log))
		r = -EDQUOT;
	else if (!log->out)
		r = open_log(f, log);
	if (!r && !fits(log->out, caplen)) {
		r = au_log_flush(f, log);
		if (fits(log->out, caplen))
			r = 0;
		else if (!r)
			r = -ENOBUFS;
	}
	if (r) {
		log->disk_lost++;
		return r;
	}
	*ret_offset = log->out->pcap_tail;
	if (f->head != log->out) {
		unlink_out(f, log->out);
		push_out(f, log->out);
	}
	return 0;
}

void au_log_put(struct au_files *f, struct au_log *log, enum au_layer layer,
		enum eg_reason reason, const char *line, size_t len,
		const struct au_cap *cap)
{
	struct au_out *o = log->out;
	struct line *l = &o->line[o->nlines++];

	*l = (struct line){.len = (uint16_t)len,
			   .layer = (uint8_t)layer,
			   .reason = (uint8_t)reason};
	memcpy(o->json + o->json_len, line, len);
	o->json_len += len;
	log->seq++;
	if (!cap)
		return;
	dump(f, o, cap);
	o->pcap_tail += AU_PCAP_RECORD + cap->caplen;
	l->pcap_end = o->pcap_tail;
}

/*
 * flush_pcap() - packets first, all of the buffer or none of it
 *
 * A short write is taken back, so that readers find whole records while the
 * disk is full; where that fails too, the next attempt overwrites it.
 */
static int flush_pcap(struct au_out *o)
{
	struct au_log *log = o->log;
	size_t done = 0;
	int r = 0;

	while (done < o->pcap_len && !r) {
		ssize_t n = pwrite(o->pcap_fd, o->pcap + done, o->pcap_len - done,
				   (off_t)(log->pcap_size + done));

		if (n > 0)
			done += (size_t)n;
		else if (!n || errno != EINTR)
			r = n ? -errno : -ENOSPC;
	}
	if (r) {
		(void)!ftruncate(o->pcap_fd, (off_t)log->pcap_size);
		return r;
	}
	log->pcap_size += done;
	o->pcap_len = 0;
	return 0;
}

/* Put head and number in front of each line; ends[] are the lines' ends. */
static size_t stage_lines(struct au_files *f, const struct au_out *o,
			  size_t ends[LINES])
{
	const char *line = o->json;
	size_t n = 0;

	for (size_t i = 0; i < o->nlines; i++) {
		memcpy(f->stage + n, f->head_text, f->head_len);
		n += f->head_len;
		n += (size_t)snprintf(f->stage + n, 24, "%llu,",
				      (unsigned long long)(f->state.next + i));
		memcpy(f->stage + n, line + 1, o->line[i].len - 1U);
		n += o->line[i].len - 1U;
		f->stage[n++] = '\n';
		ends[i] = n;
		line += o->line[i].len;
	}
	return n;
}

static void count_line(struct au_log *log, const struct line *l,
		       const char *text, size_t len, uint64_t hseq)
{
	uint64_t v;

	log->logged[l->layer][l->reason]++;
	log->hseq_last = hseq;
	(void)au_scan_text(text, len, ",\"time\":\"", log->last_time,
			   sizeof(log->last_time));
	if (!log->hseq_first) {
		log->hseq_first = hseq;
		memcpy(log->first_time, log->last_time, sizeof(log->first_time));
		if (!au_scan_u64(text, len, "\"seq\":", &v))
			log->first_seq = v;
	}
	if (l->pcap_end)
		log->pcap_good = l->pcap_end;
}

/* The first @n lines are on disk. */
static void lines_done(struct au_files *f, struct au_out *o, size_t n,
		       size_t bytes)
{
	const char *text = o->json;

	for (size_t i = 0; i < n; i++) {
		count_line(o->log, &o->line[i], text, o->line[i].len,
			   f->state.next++);
		text += o->line[i].len;
	}
	o->log->json_size += bytes;
	o->json_len -= (size_t)(text - o->json);
	memmove(o->json, text, o->json_len);
	o->nlines -= n;
	memmove(o->line, o->line + n, o->nlines * sizeof(o->line[0]));
}

static int flush_json(struct au_files *f, struct au_out *o)
{
	size_t ends[LINES], len = stage_lines(f, o, ends), n = 0, done = 0;
	uint64_t at = o->log->json_size;
	int r = 0;

	while (done < len && !r) {
		ssize_t w = pwrite(o->json_fd, f->stage + done, len - done,
				   (off_t)(at + done));

		if (w > 0)
			done += (size_t)w;
		else if (!w || errno != EINTR)
			r = w ? -errno : -ENOSPC;
	}
	while (n < o->nlines && ends[n] <= done)
		n++;
	lines_done(f, o, n, n ? ends[n - 1] : 0);
	if (r && done)
		/* Half a line; if it stays, the next attempt overwrites it. */
		(void)!ftruncate(o->json_fd, (off_t)o->log->json_size);
	return r;
}

int au_files_ready(struct au_files *f)
{
	int r = 0;

	if (!f->state_open) {
		r = au_state_open(&f->state, f->dirfd, f->conf->boot_id, NULL);
		f->state_open = !r;
	}
	return r;
}

struct au_state *au_files_state(struct au_files *f)
{
	(void)au_files_ready(f); /* if not, its descriptor is -1 */
	return &f->state;
}

int au_log_flush(struct au_files *f, struct au_log *log)
{
	struct au_out *o = log->out;
	char path[AU_PATH_TEXT];
	int r;

	if (!o || !o->nlines)
		return 0;
	r = flush_pcap(o);
	if (!r)
		r = au_files_ready(f);
	if (!r)
		r = join(path, log->dir, AU_JSONL);
	if (!r)
		r = au_state_begin(&f->state, path, (uint32_t)o->nlines);
	return r ? r : flush_json(f, o);
}

void au_log_close(struct au_files *f, struct au_log *log)
{
	if (!log->out)
		return;
	(void)au_log_flush(f, log); /* what it leaves is counted as lost */
	close_out(f, log->out);
}

int au_files_flush(struct au_files *f)
{
	int first = 0;

	for (struct au_out *o = f->head; o; o = o->next) {
		int r = au_log_flush(f, o->log);

		if (r && !first)
			first = r;
	}
	return first;
}

bool au_files_dirty(const struct au_files *f)
{
	for (const struct au_out *o = f->head; o; o = o->next)
		if (o->nlines)
			return true;
	return false;
}

/* ---- life --------------------------------------------------------------------- */

static void make_head(struct au_files *f)
{
	char host[EG_HEX16_TEXT], boot[EG_HEX16_TEXT];
	int n = snprintf(
		f->head_text, sizeof(f->head_text),
		"{\"v\":1,\"kind\":\"denial\",\"host_id\":\"%s\",\"boot_id\":\"%s\",\"hseq\":",
		eg_hex(host, f->conf->host_id, 16),
		eg_hex(boot, f->conf->boot_id, 16));

	f->head_len = (size_t)n;
}

int au_files_new(struct au_files **ret, const struct eg_conf *conf, int dirfd,
		 struct eg_err *err)
{
	struct au_files *f = calloc(1, sizeof(*f));
	int r;

	if (!f)
		return eg_err_set(err, -ENOMEM, "no memory for evidence files");
	f->conf = conf;
	f->dirfd = -1;
	f->state.fd = -1;
	make_head(f);
	r = dumper_open(f, err);
	if (r) {
		au_files_free(f);
		return r;
	}
	f->dirfd = dirfd;
	/* A disk that is full now may have room later: not the end. */
	(void)au_files_ready(f);
	*ret = f;
	return 0;
}

void au_files_free(struct au_files *f)
{
	struct au_out *o;

	if (!f)
		return;
	while (f->head)
		au_log_close(f, f->head->log);
	while ((o = f->spare)) {
		f->spare = o->next;
		free(o);
	}
	if (f->state_open)
		au_state_close(&f->state);
	if (f->dumper)
		pcap_dump_close(f->dumper); /* closes the stream too */
	else if (f->stream)
		(void)fclose(f->stream);
	if (f->dead)
		pcap_close(f->dead);
	eg_close_p(&f->dirfd);
	free(f);
}
