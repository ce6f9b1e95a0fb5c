// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: text forms of times and unique ids (see stamp.h)
 */
#include "netpool/base/stamp.h"
#include "netpool/base/util.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#define SECONDS_A_DAY 86400
#define LAST_SECOND 253402300799LL /* 9999-12-31T23:59:59Z */

static const char hexdigit[] = "0123456789abcdef";

static char *decimal(char *p, uint32_t v, unsigned int digits)
{
	for (unsigned int i = digits; i--; v /= 10)
		p[i] = (char)('0' + v % 10);
	return p + digits;
}

/*
 * date() - proleptic Gregorian date of a day number; the year is counted
 *	    from March so that the leap day is its last
 */
static char *date(char *p, uint32_t day)
{
	uint32_t z = day + 719468, era = z / 146097, doe = z % 146097;
	uint32_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
	uint32_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
	uint32_t mp = (5 * doy + 2) / 153, month = mp < 10 ? mp + 3 : mp - 9;

	p = decimal(p, yoe + era * 400 + (month <= 2), 4);
	*p++ = '-';
	p = decimal(p, month, 2);
	*p++ = '-';
	return decimal(p, doy - (153 * mp + 2) / 5 + 1, 2);
}

static int64_t clamp_seconds(int64_t wall_ns)
{
	if (wall_ns < 0)
		return 0;
	if (wall_ns / EG_NSEC_PER_SEC > LAST_SECOND)
		return LAST_SECOND;
	return wall_ns / EG_NSEC_PER_SEC;
}

static char *stamp(int64_t wall_ns, char *p)
{
	int64_t s = clamp_seconds(wall_ns);
	uint32_t rest = (uint32_t)(s % SECONDS_A_DAY);

	p = date(p, (uint32_t)(s / SECONDS_A_DAY));
	*p++ = 'T';
	p = decimal(p, rest / 3600, 2);
	*p++ = ':';
	p = decimal(p, rest / 60 % 60, 2);
	*p++ = ':';
	p = decimal(p, rest % 60, 2);
	*p++ = '.';
	return p;
}

static uint32_t fraction(int64_t wall_ns)
{
	return wall_ns < 0 ? 0 : (uint32_t)(wall_ns % EG_NSEC_PER_SEC);
}

const char *eg_stamp_ms(int64_t wall_ns, char buf[EG_STAMP_TEXT])
{
	char *p = stamp(wall_ns, buf);

	p = decimal(p, fraction(wall_ns) / 1000000, 3);
	memcpy(p, "Z", 2);
	return buf;
}

const char *eg_stamp_ns(int64_t wall_ns, char buf[EG_STAMP_TEXT])
{
	char *p = stamp(wall_ns, buf);

	p = decimal(p, fraction(wall_ns), 9);
	memcpy(p, "Z", 2);
	return buf;
}

const char *eg_stamp_date(int64_t wall_ns, char buf[EG_DATE_TEXT])
{
	int64_t s = clamp_seconds(wall_ns);

	*date(buf, (uint32_t)(s / SECONDS_A_DAY)) = '\0';
	return buf;
}

int eg_uuid_make(int64_t wall_ns, uint8_t ret[16])
{
	uint64_t ms = (uint64_t)wall_ns / 1000000;
	uint64_t part = (uint64_t)wall_ns % 1000000 * 4096 / 1000000;
	uint8_t u[16];
	ssize_t n;

	do
		n = getrandom(u + 8, 8, 0);
	while (n < 0 && errno == EINTR);
	if (n != 8)
		return n < 0 ? -errno : -EIO;
	for (unsigned int i = 0; i < 6; i++)
		u[i] = (uint8_t)(ms >> (40 - 8 * i));
	u[6] = (uint8_t)(0x70 | part >> 8);
	u[7] = (uint8_t)part;
	u[8] = (uint8_t)(0x80 | (u[8] & 0x3f));
	memcpy(ret, u, sizeof(u));
	return 0;
}

const char *eg_uuid_format(const uint8_t uuid[16], char buf[EG_UUID_TEXT])
{
	char *p = buf;

	for (unsigned int i = 0; i < 16; i++) {
		if (i == 4 || i == 6 || i == 8 || i == 10)
			*p++ = '-';
		*p++ = hexdigit[uuid[i] >> 4];
		*p++ = hexdigit[uuid[i] & 15];
	}
	*p = '\0';
	return buf;
}

static int nibble(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

int eg_uuid_parse(const char *text, uint8_t ret[16])
{
	uint8_t u[16];

	for (unsigned int i = 0; i < 16; i++) {
		int hi, lo;

		if ((i == 4 || i == 6 || i == 8 || i == 10) && *text++ != '-')
			return -EINVAL;
		hi = nibble(text[0]);
		lo = hi < 0 ? -1 : nibble(text[1]);
		if (lo < 0)
			return -EINVAL;
		u[i] = (uint8_t)(hi << 4 | lo);
		text += 2;
	}
	if (*text)
		return -EINVAL;
	memcpy(ret, u, sizeof(u));
	return 0;
}
