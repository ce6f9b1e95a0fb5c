/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: the evidence files of a lease, and of the host.
 *
 * A log is a pair: denials.jsonl and denials.pcap in one directory below the
 * audit directory. It is opened at its first record, so that a lease
 * without denials costs nothing, and of all logs at most AU_OPEN_MAX are
 * open, the least recently used one making room.
 *
 * A record is in the buffer of its log until the next flush, which writes
 * the packets first, then the lines: whatever ends the process between two
 * system calls, each line on disk has its packet. What a line does not have
 * is dropped again at the next start (half a line, packets behind the last
 * line's), so that both files always end with a whole record. If lines point
 * at packets that are gone (power loss), or the savefile is not one of ours,
 * packets go on in denials-2.pcap: an offset never means two packets.
 *
 * When the disk refuses, what is buffered stays and is tried again; what
 * finds no room in the buffer is lost and counted, before it has a number.
 * Only lines that are written out count as logged.
 *
 * The savefile's octets are made by libpcap (nanosecond magic, Ethernet)
 * writing into the buffer; this file knows them only as 24 octets of header
 * and 16 in front of each packet, which is what makes the offsets known.
 */
#ifndef AU_FILES_H
#define AU_FILES_H

#include "audit/scan.h"
#include "audit/state.h"
#include "netpool/base/conf.h"

#define AU_OPEN_MAX 512	   /* logs open at once: two descriptors each */
#define AU_PACKET_MAX 4096 /* octets of one frame in a savefile */
#define AU_PCAP_HEADER 24
#define AU_PCAP_RECORD 16

#define AU_JSONL "denials.jsonl"
#define AU_PHASES "phases.jsonl" /* changes of policy and phase, if any */
#define AU_PCAP_NAME 24		 /* "denials-4294967295.pcap" and NUL */

struct au_files;
struct au_out;

struct au_log {
	char dir[AU_DIR_TEXT]; /* below the audit directory */
	struct au_out *out;    /* while it is open */
	uint64_t seq;	       /* last number given; 0: none */
	uint64_t hseq_first, hseq_last;
	uint64_t first_seq;
	char first_time[EG_STAMP_TEXT], last_time[EG_STAMP_TEXT];
	uint64_t logged[AU_LAYER_COUNT][EG_REASONS];	 /* written out */
	uint64_t suppressed[AU_LAYER_COUNT][EG_REASONS]; /* as records say */
	uint64_t disk_lost;	       /* records the disk did not take */
	uint64_t damaged;	       /* lines found that are not ours */
	uint64_t json_size, pcap_size; /* on disk */
	uint64_t pcap_good; /* end of the last packet whose line is written */
	uint32_t pcap_no;   /* file packets go to; from 1 */
	uint64_t former_pcap_bytes; /* in files before that one */
	bool capped;		    /* max_lease_bytes is reached */
};

/* One packet for the savefile. */
struct au_cap {
	int64_t wall_ns;
	const uint8_t *data;
	uint32_t caplen, len;
};

/**
 * au_files_new() - all logs of an audit directory
 * @dirfd:	the audit directory, taken on success
 */
int au_files_new(struct au_files **ret, const struct eg_conf *conf, int dirfd,
		 struct eg_err *err);

/* au_files_free() - what is buffered is written, the sequence closed. */
void au_files_free(struct au_files *f);

int au_files_dirfd(const struct au_files *f);
struct au_state *au_files_state(struct au_files *f);

/* au_files_ready() - can numbers be given out? 0, or why not. */
int au_files_ready(struct au_files *f);

/* au_files_read() - open an evidence file for a reader; fd or -errno. */
int au_files_read(const struct au_files *f, const char *dir, const char *name);

/* au_files_mkdir() - the directory of a log, and the one above it. */
int au_files_mkdir(struct au_files *f, const char *dir);

/* au_files_create() - new file below a log's directory: fd or -errno. */
int au_files_create(struct au_files *f, const char *dir, const char *name,
		    int flags);

/**
 * au_log_init() - name a log and take over what is there of it
 *
 * Numbers and counts go on where its files end; a record cut by a crash is
 * removed. Return: 0, also when there is nothing; negative errno.
 */
int au_log_init(struct au_files *f, struct au_log *log, const char *dir,
		struct eg_err *err);

/**
 * au_log_room() - be ready to take one record
 * @caplen:	of its packet; 0: it has none
 * @ret_offset:	where the packet's record header will be
 *
 * Return: 0; negative errno: the record is lost, and counted as that.
 */
int au_log_room(struct au_files *f, struct au_log *log, uint32_t caplen,
		uint64_t *ret_offset);

/**
 * au_log_put() - the record for which room was made, nothing in between
 * @line:	JSON object beginning with {"seq":, without "v" to "hseq"
 * @cap:	its packet, or NULL
 */
void au_log_put(struct au_files *f, struct au_log *log, enum au_layer layer,
		enum eg_reason reason, const char *line, size_t len,
		const struct au_cap *cap);

/* au_log_flush() - write out; negative errno when some of it stays. */
int au_log_flush(struct au_files *f, struct au_log *log);

/* au_log_close() - flush and close; what the disk refuses is lost. */
void au_log_close(struct au_files *f, struct au_log *log);

/* au_files_flush() - write out all; the first error, 0: nothing is left. */
int au_files_flush(struct au_files *f);
bool au_files_dirty(const struct au_files *f);

/* au_pcap_name() - "denials.pcap", "denials-2.pcap". */
const char *au_pcap_name(uint32_t no, char buf[AU_PCAP_NAME]);

#endif
