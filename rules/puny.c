// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: A-labels for messages (RFC 3492; no IDNA mapping beyond ASCII
 * lower case, so it is a suggestion and never used for matching)
 */
#include "rules/entry.h"

#include <stdio.h>
#include <string.h>

#define LABEL_POINTS 63
#define BASE 36
#define TMIN 1
#define TMAX 26
#define SKEW 38
#define DAMP 700

/* Code point at *s, which moves on; the text is known to be UTF-8. */
static uint32_t next_point(const char **s)
{
	const unsigned char *p = (const unsigned char *)*s;
	unsigned int more = p[0] < 0x80	  ? 0
			    : p[0] < 0xe0 ? 1
			    : p[0] < 0xf0 ? 2
					  : 3;
	uint32_t c = more ? p[0] & (0x3fU >> more) : p[0];

	for (unsigned int i = 1; i <= more; i++)
		c = c << 6 | (p[i] & 0x3fU);
	*s += more + 1;
	return c;
}

/* RFC 3492 section 6.1. */
static uint32_t adapt(uint32_t delta, uint32_t points, bool first)
{
	uint32_t k = 0;

	delta = first ? delta / DAMP : delta / 2;
	delta += delta / points;
	for (; delta > (BASE - TMIN) * TMAX / 2; k += BASE)
		delta /= BASE - TMIN;
	return k + (BASE - TMIN + 1) * delta / (delta + SKEW);
}

/* One generalised variable-length integer (section 3.3); octets written. */
static size_t put_delta(char *dst, size_t room, uint32_t delta, uint32_t bias)
{
	static const char digits[] = "abcdefghijklmnopqrstuvwxyz0123456789";
	size_t n = 0;

	for (uint32_t k = BASE; n < room; k += BASE) {
		uint32_t t = k <= bias		? TMIN
			     : k >= bias + TMAX ? TMAX
						: k - bias;

		if (delta < t) {
			dst[n++] = digits[delta];
			return n;
		}
		dst[n++] = digits[t + (delta - t) % (BASE - t)];
		delta = (delta - t) / (BASE - t);
	}
	return room + 1;
}

/* Section 6.3. Return: octets, 0 when they do not fit. */
static size_t encode(const uint32_t *cp, uint32_t n, char *dst, size_t room)
{
	uint32_t next = 0x80, delta = 0, bias = 72, basic = 0, done;
	size_t used = 0;

	for (uint32_t i = 0; i < n; i++)
		if (cp[i] < 0x80 && used < room)
			dst[used++] = (char)cp[i];
	basic = done = (uint32_t)used;
	if (basic && used < room)
		dst[used++] = '-';
	while (done < n) {
		uint32_t m = UINT32_MAX;

		for (uint32_t i = 0; i < n; i++)
			if (cp[i] >= next && cp[i] < m)
				m = cp[i];
		delta += (m - next) * (done + 1);
		next = m;
		for (uint32_t i = 0; i < n; i++) {
			if (cp[i] < next)
				delta++;
			if (cp[i] != next)
				continue;
			used += put_delta(dst + used, room - used, delta, bias);
			if (used > room)
				return 0;
			bias = adapt(delta, done + 1, done == basic);
			delta = 0;
			done++;
		}
		delta++;
		next++;
	}
	return used;
}

bool rl_puny(const char *text, char *buf, size_t cap)
{
	size_t used = 0;

	while (*text) {
		uint32_t cp[LABEL_POINTS], n = 0;
		bool wide = false;
		size_t w;

		while (*text && *text != '.') {
			uint32_t c = next_point(&text);

			if (n == LABEL_POINTS)
				return false;
			if (c >= 'A' && c <= 'Z')
				c += 32;
			wide = wide || c >= 0x80;
			cp[n++] = c;
		}
		if (used + 4 + 64 + 2 > cap)
			return false;
		if (wide) {
			memcpy(buf + used, "xn--", 4);
			used += 4;
			w = encode(cp, n, buf + used, 59);
			if (!w)
				return false;
			used += w;
		} else {
			for (uint32_t i = 0; i < n; i++)
				buf[used++] = (char)cp[i];
		}
		if (*text)
			buf[used++] = *text++;
	}
	buf[used] = '\0';
	return true;
}
