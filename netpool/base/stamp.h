/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: text forms of times and unique ids.
 *
 * Times are wall clock nanoseconds since 1970, always shown in UTC as
 * RFC 3339 says. Written by hand because records need one each and
 * gmtime_r(3) with strftime(3) takes longer than the rest of a record.
 */
#ifndef EG_STAMP_H
#define EG_STAMP_H

#include <stddef.h>
#include <stdint.h>

#define EG_STAMP_TEXT 40 /* "2026-11-30T21:04:05.123456789Z" and room */
#define EG_DATE_TEXT 16	 /* "2026-11-30" and room */
#define EG_UUID_TEXT 37	 /* 36 and NUL */
#define EG_HEX16_TEXT 33 /* a host or boot id */

/* Times outside the years 1970..9999 are shown as the nearest of these. */
const char *eg_stamp_ms(int64_t wall_ns, char buf[EG_STAMP_TEXT]);
const char *eg_stamp_ns(int64_t wall_ns, char buf[EG_STAMP_TEXT]);
const char *eg_stamp_date(int64_t wall_ns, char buf[EG_DATE_TEXT]);

/**
 * eg_uuid_make() - a UUIDv7 (RFC 9562 section 5.7): milliseconds, their
 *		   fraction in 12 bits (method 3), 62 random bits
 *
 * Return: 0, or negative errno of getrandom(2).
 */
int eg_uuid_make(int64_t wall_ns, uint8_t ret[16]);
const char *eg_uuid_format(const uint8_t uuid[16], char buf[EG_UUID_TEXT]);

/* eg_uuid_parse() - 8-4-4-4-12 in either case; -EINVAL otherwise. */
int eg_uuid_parse(const char *text, uint8_t ret[16]);

#endif
