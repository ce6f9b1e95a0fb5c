/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: structured log lines on standard error.
 *
 * One line a message: "<N>" (syslog priority, only when standard error is a
 * journal stream), time, role, level, text. Only role files, main.c and the
 * command-line tools log above debug; library-like code returns errors.
 * Hostile bytes never go in raw: quote them with eg_escape() first.
 */
#ifndef EG_LOG_H
#define EG_LOG_H

#include <stddef.h>

enum eg_log_level {
	EG_LOG_ERROR,
	EG_LOG_WARNING,
	EG_LOG_NOTICE,
	EG_LOG_INFO,
	EG_LOG_DEBUG,
	EG_LOG_LEVEL_COUNT,
};

/* eg_log_init() - name the process in its lines and set the threshold. */
void eg_log_init(const char *who, enum eg_log_level max);

void eg_log(enum eg_log_level level, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

#define eg_error(...) eg_log(EG_LOG_ERROR, __VA_ARGS__)
#define eg_warning(...) eg_log(EG_LOG_WARNING, __VA_ARGS__)
#define eg_notice(...) eg_log(EG_LOG_NOTICE, __VA_ARGS__)
#define eg_info(...) eg_log(EG_LOG_INFO, __VA_ARGS__)
#define eg_debug(...) eg_log(EG_LOG_DEBUG, __VA_ARGS__)

/**
 * eg_escape() - make untrusted text printable: control bytes, quotes,
 *		 backslashes and everything above 0x7e become \xNN
 * @dst:	buffer of @cap bytes, always terminated
 * @src:	@len bytes
 *
 * Return: @dst.
 */
const char *eg_escape(char *dst, size_t cap, const void *src, size_t len);

#endif
