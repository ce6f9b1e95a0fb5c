// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: a JSON writer into a caller's buffer (see jsonw.h)
 */
#include "netpool/base/jsonw.h"

#include <errno.h>
#include <string.h>

static const char hex[] = "0123456789abcdef";

void eg_jsonw_init(struct eg_jsonw *w, char *buf, size_t cap)
{
	*w = (struct eg_jsonw){.buf = buf, .cap = cap};
	if (!cap)
		w->overflow = true;
}

/* One byte is always kept for the terminator. */
static void put(struct eg_jsonw *w, const char *text, size_t len)
{
	if (w->overflow || len >= w->cap - w->len) {
		w->overflow = true;
		return;
	}
	memcpy(w->buf + w->len, text, len);
	w->len += len;
}

static void put_u16(struct eg_jsonw *w, uint32_t u)
{
	char e[6] = {'\\',
		     'u',
		     hex[u >> 12 & 15],
		     hex[u >> 8 & 15],
		     hex[u >> 4 & 15],
		     hex[u & 15]};

	put(w, e, sizeof(e));
}

static void put_code_point(struct eg_jsonw *w, uint32_t cp)
{
	if (cp < 0x10000) {
		put_u16(w, cp);
		return;
	}
	cp -= 0x10000;
	put_u16(w, 0xd800 | cp >> 10);
	put_u16(w, 0xdc00 | (cp & 0x3ff));
}

/*
 * Code points that make a terminal or a reader show something else than
 * what is there: C1 controls, soft hyphen, bidi marks and overrides,
 * zero-width characters, separators, interlinear annotation, variation
 * selectors, tags, non-characters.
 */
static bool hides(uint32_t cp)
{
	static const struct {
		uint32_t lo, hi;
	} range[] = {
		{0x80, 0x9f},	     {0xad, 0xad},     {0x34f, 0x34f},
		{0x61c, 0x61c},	     {0x115f, 0x1160}, {0x17b4, 0x17b5},
		{0x180b, 0x180f},    {0x200b, 0x200f}, {0x2028, 0x202e},
		{0x2060, 0x206f},    {0x3164, 0x3164}, {0xe000, 0xf8ff},
		{0xfdd0, 0xfdef},    {0xfe00, 0xfe0f}, {0xfeff, 0xfeff},
		{0xffa0, 0xffa0},    {0xfff0, 0xfffb}, {0xfffe, 0xffff},
		{0xe0000, 0x10ffff},
	};

	for (size_t i = 0; i < sizeof(range) / sizeof(range[0]); i++)
		if (cp >= range[i].lo && cp <= range[i].hi)
			return true;
	return false;
}

/*
 * utf8() - one multi-byte sequence by Unicode table 3-7: no overlong form,
 *	    no surrogate, nothing above U+10FFFF
 *
 * Return: its length, 0 when @p does not begin one.
 */
static size_t utf8(const uint8_t *p, size_t left, uint32_t *ret)
{
	uint8_t lo = 0x80, hi = 0xbf;
	size_t n;

	if (p[0] >= 0xc2 && p[0] <= 0xdf)
		n = 2;
	else if (p[0] >= 0xe0 && p[0] <= 0xef)
		n = 3;
	else if (p[0] >= 0xf0 && p[0] <= 0xf4)
		n = 4;
	else
		return 0;
	if (p[0] == 0xe0)
		lo = 0xa0;
	else if (p[0] == 0xed)
		hi = 0x9f;
	else if (p[0] == 0xf0)
		lo = 0x90;
	else if (p[0] == 0xf4)
		hi = 0x8f;
	if (left < n || p[1] < lo || p[1] > hi)
		return 0;
	*ret = (uint32_t)p[0] & (0x7fU >> n);
	*ret = *ret << 6 | (p[1] & 0x3f);
	for (size_t i = 2; i < n; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		*ret = *ret << 6 | (p[i] & 0x3f);
	}
	return n;
}

static void put_ascii(struct eg_jsonw *w, uint8_t c)
{
	char e[2] = {'\\', 0};

	switch (c) {
	case '"':
	case '\\':
		e[1] = (char)c;
		break;
	case '\n':
		e[1] = 'n';
		break;
	case '\r':
		e[1] = 'r';
		break;
	case '\t':
		e[1] = 't';
		break;
	default:
		put_u16(w, c);
		return;
	}
	put(w, e, 2);
}

static bool plain(uint8_t c)
{
	return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

static void put_escaped(struct eg_jsonw *w, const uint8_t *p, size_t len)
{
	size_t i = 0, run;
	uint32_t cp;

	while (i < len && !w->overflow) {
		for (run = i; run < len && plain(p[run]); run++)
			;
		if (run > i)
			put(w, (const char *)p + i, run - i);
		i = run;
		if (i >= len)
			break;
		if (p[i] < 0x80) {
			put_ascii(w, p[i++]);
			continue;
		}
		run = utf8(p + i, len - i, &cp);
		if (!run) {
			char e[5] = {'\\', '\\', 'x', hex[p[i] >> 4],
				     hex[p[i] & 15]};

			put(w, e, sizeof(e));
			run = 1;
		} else if (hides(cp)) {
			put_code_point(w, cp);
		} else {
			put(w, (const char *)p + i, run);
		}
		i += run;
	}
}

static void quoted(struct eg_jsonw *w, const void *data, size_t len)
{
	put(w, "\"", 1);
	put_escaped(w, data, len);
	put(w, "\"", 1);
}

/* Comma and key in front of any value. */
static void lead(struct eg_jsonw *w, const char *key)
{
	if (w->comma)
		put(w, ",", 1);
	if (key) {
		quoted(w, key, strlen(key));
		put(w, ":", 1);
	}
	w->comma = true;
}

static void open_level(struct eg_jsonw *w, const char *key, bool array)
{
	lead(w, key);
	if (w->depth == EG_JSONW_DEPTH) {
		w->overflow = true;
		return;
	}
	w->arrays &= ~(1U << w->depth);
	w->arrays |= (uint32_t)array << w->depth;
	w->depth++;
	put(w, array ? "[" : "{", 1);
	w->comma = false;
}

void eg_jsonw_object(struct eg_jsonw *w, const char *key)
{
	open_level(w, key, false);
}

void eg_jsonw_array(struct eg_jsonw *w, const char *key)
{
	open_level(w, key, true);
}

void eg_jsonw_end(struct eg_jsonw *w)
{
	if (!w->depth) {
		w->overflow = true;
		return;
	}
	w->depth--;
	put(w, w->arrays >> w->depth & 1 ? "]" : "}", 1);
	w->comma = true;
}

void eg_jsonw_bytes(struct eg_jsonw *w, const char *key, const void *data,
		    size_t len)
{
	lead(w, key);
	quoted(w, data, len);
}

void eg_jsonw_str(struct eg_jsonw *w, const char *key, const char *text)
{
	eg_jsonw_bytes(w, key, text, strlen(text));
}

void eg_jsonw_u64(struct eg_jsonw *w, const char *key, uint64_t v)
{
	char digits[20];
	size_t n = sizeof(digits);

	do {
		digits[--n] = (char)('0' + v % 10);
		v /= 10;
	} while (v);
	lead(w, key);
	put(w, digits + n, sizeof(digits) - n);
}

void eg_jsonw_i64(struct eg_jsonw *w, const char *key, int64_t v)
{
	if (v >= 0) {
		eg_jsonw_u64(w, key, (uint64_t)v);
		return;
	}
	lead(w, key);
	put(w, "-", 1);
	w->comma = false;
	eg_jsonw_u64(w, NULL, -(uint64_t)v);
}

void eg_jsonw_bool(struct eg_jsonw *w, const char *key, bool v)
{
	lead(w, key);
	put(w, v ? "true" : "false", v ? 4 : 5);
}

void eg_jsonw_null(struct eg_jsonw *w, const char *key)
{
	lead(w, key);
	put(w, "null", 4);
}

void eg_jsonw_members(struct eg_jsonw *w, const char *text, size_t len)
{
	if (!len)
		return;
	lead(w, NULL);
	put(w, text, len);
}

long eg_jsonw_done(struct eg_jsonw *w)
{
	if (w->cap)
		w->buf[w->overflow ? 0 : w->len] = '\0';
	if (w->overflow || w->depth)
		return -EMSGSIZE;
	return (long)w->len;
}
