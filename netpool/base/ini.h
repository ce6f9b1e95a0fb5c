/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: INI text, read through inih but guarded.
 *
 * inih bends its input without a word: sections over 49 bytes and lines over
 * 199 are cut, an indented line continues the value before it, ':' separates
 * like '=', `# why` stays in the value while `; why` does not, text after a
 * section's ']' and keys before any section pass. In a file that says what a
 * sandbox may reach, each of these is a hole. So the whole text is scanned
 * first and refused with file, line and column if any line could be read in
 * two ways; only then is inih fed, line by line, with values cut into pieces
 * shorter than any limit it may have been built with, and what it hands back
 * is compared with what the scan saw.
 *
 * The format, then: `[section]`, `key = value`, blank lines. '#' and ';' begin
 * a comment at the start of a line or after a blank; no value begins with
 * one. Lines end with LF or CR LF; the last may lack it. UTF-8; a byte order
 * mark in front is skipped. Sections and keys may repeat: their order is kept.
 */
#ifndef EG_INI_H
#define EG_INI_H

#include "netpool/base/err.h"

#include <stddef.h>
#include <stdint.h>

#define EG_INI_LINE 1024  /* no honest line of ours is longer */
#define EG_INI_SECTION 48 /* inih keeps 49 */
#define EG_INI_KEY 48	  /* inih keeps 49 */

struct eg_ini_entry {
	const char *file, *section;
	const char *key, *value; /* NULL for a section's head */
	uint32_t line, col;	 /* of the value; of the section's name */
};

struct eg_ini_ops {
	/* At each [section], also an empty one; may be NULL. */
	int (*section)(void *arg, const struct eg_ini_entry *e,
		       struct eg_err *err);
	/* At each key; text is valid during the call only. */
	int (*entry)(void *arg, const struct eg_ini_entry *e, struct eg_err *err);
};

/**
 * eg_ini_parse() - scan, then read @text
 * @file:	name for messages
 *
 * A handler that returns negative ends the parse; its sentence should come
 * from eg_ini_err(). Return: 0, or negative errno with "FILE:LINE:COL: ...".
 */
int eg_ini_parse(const char *file, const char *text, size_t len,
		 const struct eg_ini_ops *ops, void *arg, struct eg_err *err);

/**
 * eg_ini_read() - a whole file of at most @max bytes from a descriptor
 * @ret:	NUL-terminated, to be free()d
 *
 * Return: 0; -EFBIG when it is larger.
 */
int eg_ini_read(const char *file, int fd, size_t max, char **ret,
		size_t *ret_len, struct eg_err *err);

/* eg_ini_err() - eg_err_set() with "FILE:LINE:COL: " in front. */
int eg_ini_err(struct eg_err *err, int code, const char *file, uint32_t line,
	       uint32_t col, const char *fmt, ...)
	__attribute__((format(printf, 6, 7)));

/* eg_ini_at() - put "FILE:LINE:COL: " in front of the sentence in @err. */
int eg_ini_at(struct eg_err *err, const char *file, uint32_t line, uint32_t col);

#endif
