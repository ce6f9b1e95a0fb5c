// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: log lines (see log.h)
 */
#include "netpool/base/log.h"
#include "netpool/base/util.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char *const level_names[] = {
	[EG_LOG_ERROR] = "error",   [EG_LOG_WARNING] = "warning",
	[EG_LOG_NOTICE] = "notice", [EG_LOG_INFO] = "info",
	[EG_LOG_DEBUG] = "debug",
};
_Static_assert(EG_ARRAY_SIZE(level_names) == EG_LOG_LEVEL_COUNT, "log levels");

/* syslog(3) priorities, for the journal's "<N>" prefix */
static const int level_prio[] = {3, 4, 5, 6, 7};

static char log_who[32] = "egressd";
static enum eg_log_level log_max = EG_LOG_INFO;
static bool log_journal;

void eg_log_init(const char *who, enum eg_log_level max)
{
	(void)snprintf(log_who, sizeof(log_who), "%s", who);
	log_max = max;
	log_journal = getenv("JOURNAL_STREAM") != NULL;
}

void eg_log(enum eg_log_level level, const char *fmt, ...)
{
	char line[1024], when[32] = "";
	struct timespec ts;
	struct tm tm;
	va_list ap;

	if (level > log_max)
		return;
	va_start(ap, fmt);
	(void)vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	if (log_journal) {
		(void)fprintf(stderr, "<%d>%s: %s\n", level_prio[level],
			      log_who, line);
		return;
	}
	(void)clock_gettime(CLOCK_REALTIME, &ts);
	if (gmtime_r(&ts.tv_sec, &tm))
		(void)strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%S", &tm);
	(void)fprintf(stderr, "%s.%03ldZ %s %s: %s\n", when,
		      ts.tv_nsec / 1000000, log_who, level_names[level], line);
}

const char *eg_escape(char *dst, size_t cap, const void *src, size_t len)
{
	static const char hex[] = "0123456789abcdef";
	const unsigned char *p = src;
	size_t n = 0;

	if (!cap)
		return dst;
	for (size_t i = 0; i < len && n + 1 < cap; i++) {
		if (p[i] >= 0x20 && p[i] < 0x7f && p[i] != '"' && p[i] != '\\') {
			dst[n++] = (char)p[i];
			continue;
		}
		if (n + 5 > cap) /* never half an escape */
			break;
		dst[n++] = '\\';
		dst[n++] = 'x';
		dst[n++] = hex[p[i] >> 4];
		dst[n++] = hex[p[i] & 15];
	}
	dst[n] = '\0';
	return dst;
}
