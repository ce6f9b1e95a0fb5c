/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: INI text through inih, guarded.
 *
 * inih bends its input silently: it cuts sections at 49 bytes and lines at
 * 199, joins indented lines to the value before, takes ':' for '=', and
 * leaves "# why" in a value. The adapter looks at every line first, refuses
 * what would be bent with file, line and column, strips comments by one rule,
 * and then lets inih see the structure only: section and key. Values go
 * around it by reference, so no limit of inih can touch them.
 *
 * The rules: lines of at most EG_INI_LINE bytes, UTF-8 without control
 * characters but tab; sections "[name]" of at most EG_INI_SECTION bytes;
 * "key = value", only '=' separates, nothing is indented; '#' and ';' begin a
 * comment at the start of a line or after a blank.
 */
#ifndef EG_INI_H
#define EG_INI_H

#include "netpool/base/err.h"

#include <stddef.h>

#define EG_INI_LINE 1024
#define EG_INI_SECTION 48
#define EG_INI_KEY 48
#define EG_INI_FILE (1 << 20) /* no configuration of ours comes near */

/* Where a value stands, for errors: line and column count from 1. */
struct eg_ini_pos {
	const char *file;
	unsigned int line, col;
};

/**
 * eg_ini_cb - one setting; a section without any is announced with key NULL
 *
 * Return: 0 to go on; a negative errno with @err set ends the parse. The
 * adapter puts "FILE:LINE:COL: " in front of the sentence.
 */
typedef int (*eg_ini_cb)(void *arg, const char *section, const char *key,
			 const char *value, const struct eg_ini_pos *pos,
			 struct eg_err *err);

/* eg_ini_parse() - @len bytes of text, named @file in errors. */
int eg_ini_parse(const char *text, size_t len, const char *file, eg_ini_cb cb,
		 void *arg, struct eg_err *err);

/* eg_ini_load() - a whole file, at most EG_INI_FILE bytes; free(*ret_text). */
int eg_ini_load(int fd, const char *file, size_t max, char **ret_text,
		size_t *ret_len, struct eg_err *err);

#endif
