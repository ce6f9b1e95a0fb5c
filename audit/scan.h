/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: reading back what we wrote.
 *
 * After a restart the numbers of a lease go on where its file ends. The
 * lines are ours and of known form, so the few values that are needed are
 * found by their keys: in front of "time" nothing hostile can stand, and
 * "layer" is searched from the end, where the only text of others is inside
 * strings, whose quotes are escaped. A file of a long lease has millions of
 * lines; parsing each as JSON would take minutes. The last line, the one a
 * crash may have cut, is parsed in full.
 */
#ifndef AU_SCAN_H
#define AU_SCAN_H

#include "netpool/base/proto.h"
#include "netpool/base/stamp.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AU_RECORD_MAX 4096 /* api.md section 1: a record with its newline */

enum au_layer { AU_PACKET, AU_DNS, AU_LOG, AU_LAYER_COUNT };

const char *au_layer_name(enum au_layer l);

/* What one line says. */
struct au_line {
	uint64_t hseq, seq;
	enum au_layer layer;
	enum eg_reason reason; /* EG_REASON_NONE in layer log */
	uint64_t suppressed;
	char time[EG_STAMP_TEXT];
	bool has_pcap;
	uint32_t pcap_no; /* 1: denials.pcap, n: denials-n.pcap */
	uint64_t pcap_offset, pcap_caplen;
};

/* au_scan_line() - 0, or -EBADMSG when it is no line of ours. */
int au_scan_line(const char *line, size_t len, struct au_line *ret);

/* au_scan_valid() - is it one whole JSON object? */
bool au_scan_valid(const char *line, size_t len);

/* au_scan_u64() - number behind the first @key ("\"hseq\":"); 0 or -ENOENT. */
int au_scan_u64(const char *line, size_t len, const char *key, uint64_t *ret);

/* au_scan_text() - text behind @key up to the next quote; 0 or -ENOENT. */
int au_scan_text(const char *line, size_t len, const char *key, char *ret,
		 size_t cap);

/**
 * au_scan_last() - last whole line of a file
 * @buf:	of @cap octets; the line, terminated, without its newline
 *
 * Return: its length, 0 when there is none, negative errno.
 */
long au_scan_last(int fd, char *buf, size_t cap);

#endif
