// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: the guarded inih adapter (see ini.h)
 *
 * One classifier serves both passes. In the second pass feed_line() is
 * inih's "fgets": it makes `key=|piece|` lines of at most FEED_PIECE bytes of
 * value each; the bars keep inih from trimming or reading a comment sign at
 * a cut, and on_pair() takes them off and joins the pieces.
 */
#include "netpool/base/ini.h"
#include "netpool/base/log.h"
#include "netpool/base/util.h"

#include <errno.h>
#include <ini.h>
#include <stdio.h>
#include <string.h>

#define FEED_PIECE 100 /* + key + "=||\n" stays below inih's 200 */
#define QUOTE 72       /* bytes of foreign text shown in a message */

enum line_kind { LINE_BLANK, LINE_SECTION, LINE_PAIR };

struct line {
	enum line_kind kind;
	const char *name, *value; /* into the text, not terminated */
	size_t name_len, value_len;
	uint32_t col; /* of the section's name or of the value, from 1 */
};

struct reader {
	const char *file, *text;
	size_t len, at;
	uint32_t lineno;
	const struct eg_ini_ops *ops;
	void *arg;
	struct eg_err *err;
	int rc;
	/* second pass */
	struct line cur;
	size_t fed; /* bytes of cur's value given to inih */
	bool pending;
	char section[EG_INI_SECTION + 1], key[EG_INI_KEY + 1];
	char value[EG_INI_LINE + 1];
	size_t value_len;
};

int eg_ini_err(struct eg_err *err, int code, const char *file, uint32_t line,
	       uint32_t col, const char *fmt, ...)
{
	char text[EG_ERR_TEXT];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return eg_err_set(err, code, "%s:%u:%u: %s", file, line, col, text);
}

int eg_ini_at(struct eg_err *err, const char *file, uint32_t line, uint32_t col)
{
	char text[EG_ERR_TEXT];

	if (!err)
		return -EINVAL;
	memcpy(text, err->text, sizeof(text));
	return eg_ini_err(err, err->code, file, line, col, "%s", text);
}

static int refuse(struct reader *r, size_t at, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* The sentence for byte @at (from 0) of the current line. */
static int refuse(struct reader *r, size_t at, const char *fmt, ...)
{
	char text[EG_ERR_TEXT];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return eg_ini_err(r->err, -EINVAL, r->file, r->lineno, (uint32_t)at + 1,
			  "%s", text);
}

static bool blank(char c)
{
	return c == ' ' || c == '\t';
}

static bool word(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
}

/*
 * Octets of the UTF-8 sequence at @s, 0 when it is not one (RFC 3629: no
 * overlong forms, no surrogates); the code point goes to *ret.
 */
static size_t utf8(const unsigned char *s, size_t n, uint32_t *ret)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	size_t len = s[0] < 0xc2   ? 0
		     : s[0] < 0xe0 ? 2
		     : s[0] < 0xf0 ? 3
		     : s[0] < 0xf5 ? 4
				   : 0;
	uint32_t c;

	if (!len || len > n)
		return 0;
	c = s[0] & (0xffU >> (len + 1));
	for (size_t i = 1; i < len; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (s[i] & 0x3fU);
	}
	if (c < least[len] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
		return 0;
	*ret = c;
	return len;
}

/* Code points that make a reviewer see another text than the parser does. */
static bool deceiving(uint32_t c)
{
	return (c >= 0x80 && c < 0xa0) || c == 0x61c || c == 0xfeff ||
	       (c >= 0x200b && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) ||
	       (c >= 0x2060 && c <= 0x206f);
}

static int check_bytes(struct reader *r, const char *s, size_t n)
{
	for (size_t i = 0; i < n;) {
		unsigned char c = (unsigned char)s[i];
		uint32_t cp = c;
		size_t len = 1;

		if (c >= 0x80)
			len = utf8((const unsigned char *)s + i, n - i, &cp);
		if (!len)
			return refuse(r, i, "byte 0x%02x is not UTF-8", c);
		if (!c)
			return refuse(r, i, "a NUL byte cannot be in this file");
		if (c == '\r')
			return refuse(
				r, i,
				"a carriage return stands inside a line; lines end with LF or CR LF");
		if ((c < 0x20 && c != '\t') || c == 0x7f || deceiving(cp))
			return refuse(
				r, i,
				"control character U+%04X cannot be in this file",
				cp);
		i += len;
	}
	return 0;
}

/* Length without the comment and without blanks at the end. */
static size_t cut_comment(const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if ((s[i] == '#' || s[i] == ';') && (!i || blank(s[i - 1])))
			n = i;
	while (n && blank(s[n - 1]))
		n--;
	return n;
}

static int classify_section(struct reader *r, const char *s, size_t n,
			    struct line *ret)
{
	const char *end = memchr(s, ']', n);
	char quoted[QUOTE];
	size_t len;

	if (!end)
		return refuse(r, n, "the section's closing ']' is missing");
	len = (size_t)(end - s) - 1;
	if (len > EG_INI_SECTION)
		return refuse(r, 1, "the section is longer than %d bytes",
			      EG_INI_SECTION);
	if (!len)
		return refuse(r, 1, "the section has no name");
	for (size_t i = 1; i <= len; i++)
		if (!word(s[i]) && (s[i] != ' ' || i == 1 || i == len))
			return refuse(
				r, i,
				"'%s' cannot be in a section; letters, digits, '_', '-', '.' and single blanks between words can",
				eg_escape(quoted, sizeof(quoted), s + i, 1));
	if (len + 2 < n)
		return refuse(r, len + 2,
			      "'%s' follows the section's ']'; begin a new line",
			      eg_escape(quoted, sizeof(quoted), s + len + 2,
					n - len - 2));
	*ret = (struct line){
		.kind = LINE_SECTION, .name = s + 1, .name_len = len, .col = 2};
	return 0;
}

static int classify_pair(struct reader *r, const char *s, size_t n,
			 struct line *ret)
{
	const char *eq = memchr(s, '=', n);
	size_t len, at, klen = 0;
	char quoted[QUOTE];

	while (klen < n && word(s[klen]))
		klen++;
	for (len = klen; len < n && blank(s[len]); len++)
		;
	if (len < n && s[len] == ':')
		return refuse(r, len, "':' does not separate; write '%s = VALUE'",
			      eg_escape(quoted, sizeof(quoted), s, klen));
	if (!eq)
		return refuse(
			r, 0,
			"'%s' is neither [SECTION] nor KEY = VALUE: there is no '='",
			eg_escape(quoted, sizeof(quoted), s, n));
	if (!klen && s == eq)
		return refuse(r, 0, "there is no key before '='");
	if (s + len != eq)
		return refuse(
			r, klen,
			"'%s' cannot be in a key; letters, digits, '_', '-' and '.' can",
			eg_escape(quoted, sizeof(quoted), s + klen, 1));
	if (klen > EG_INI_KEY)
		return refuse(r, 0, "the key is longer than %d bytes",
			      EG_INI_KEY);
	if (!r->section[0])
		return refuse(r, 0, "key '%.*s' stands before any [section]",
			      (int)klen, s);
	for (at = len + 1; at < n && blank(s[at]); at++)
		;
	if (at < n && (s[at] == '#' || s[at] == ';'))
		return refuse(r, at,
			      "the value begins with '%c'; put a blank in front to make it a comment",
			      s[at]);
	*ret = (struct line){.kind = LINE_PAIR,
			     .name = s,
			     .name_len = klen,
			     .value = s + at,
			     .value_len = n - at,
			     .col = (uint32_t)at + 1};
	return 0;
}

static int classify(struct reader *r, const char *s, size_t n, struct line *ret)
{
	int rc;

	ret->kind = LINE_BLANK;
	if (n > EG_INI_LINE)
		return refuse(r, EG_INI_LINE,
			      "the line is longer than %d bytes", EG_INI_LINE);
	rc = check_bytes(r, s, n);
	if (rc < 0)
		return rc;
	n = cut_comment(s, n);
	if (!n)
		return 0;
	if (blank(s[0]))
		return refuse(
			r, 0,
			"the line is indented, which would continue the line before; begin it in column 1");
	if (s[0] == '[')
		return classify_section(r, s, n, ret);
	return classify_pair(r, s, n, ret);
}

/* Next line of the text; 0 at its end, 1 with *ret, or negative. */
static int next_line(struct reader *r, struct line *ret)
{
	const char *s = r->text + r->at, *nl;
	size_t n;
	int rc;

	if (r->at >= r->len)
		return 0;
	nl = memchr(s, '\n', r->len - r->at);
	n = nl ? (size_t)(nl - s) : r->len - r->at;
	r->at += n + (nl ? 1 : 0);
	r->lineno++;
	if (nl && n && s[n - 1] == '\r')
		n--;
	rc = classify(r, s, n, ret);
	if (rc < 0)
		return rc;
	if (ret->kind == LINE_SECTION) {
		memcpy(r->section, ret->name, ret->name_len);
		r->section[ret->name_len] = '\0';
	}
	return 1;
}

static void rewind_text(struct reader *r)
{
	r->at = r->len >= 3 && !memcmp(r->text, "\xef\xbb\xbf", 3) ? 3 : 0;
	r->lineno = 0;
	r->section[0] = '\0';
}

static int deliver(struct reader *r, bool pair)
{
	struct eg_ini_entry e = {
		.file = r->file,
		.section = r->section,
		.key = pair ? r->key : NULL,
		.value = pair ? r->value : NULL,
		.line = r->lineno,
		.col = r->cur.col,
	};

	if (pair)
		return r->ops->entry(r->arg, &e, r->err);
	return r->ops->section ? r->ops->section(r->arg, &e, r->err) : 0;
}

/* Move to the next line inih has to see; false when there is none. */
static bool advance(struct reader *r)
{
	do {
		int rc = next_line(r, &r->cur);

		if (rc <= 0) {
			r->rc = rc;
			return false;
		}
	} while (r->cur.kind == LINE_BLANK);
	r->fed = r->value_len = 0;
	if (r->cur.kind == LINE_SECTION) {
		r->rc = deliver(r, false);
		return r->rc >= 0;
	}
	memcpy(r->key, r->cur.name, r->cur.name_len);
	r->key[r->cur.name_len] = '\0';
	return true;
}

/* inih's reader callback: fgets() over the normalised text. */
static char *feed_line(char *str, int num, void *stream)
{
	struct reader *r = stream;
	size_t n;
	int w;

	if (r->rc < 0)
		return NULL;
	if (r->pending && r->fed == r->cur.value_len) {
		/* on_pair() has not seen the last piece: do not spin */
		r->rc = refuse(r, 0, "inih skipped this line");
		return NULL;
	}
	if (!r->pending && !advance(r))
		return NULL;
	if (r->cur.kind == LINE_SECTION) {
		w = snprintf(str, (size_t)num, "[%s]\n", r->section);
	} else {
		n = r->cur.value_len - r->fed;
		if (n > FEED_PIECE)
			n = FEED_PIECE;
		w = snprintf(str, (size_t)num, "%s=|%.*s|\n", r->key, (int)n,
			     r->cur.value + r->fed);
		r->fed += n;
		r->pending = true;
	}
	if (w < 0 || w >= num) {
		r->rc = refuse(r, 0,
			       "inih was built for lines of %d bytes only", num);
		return NULL;
	}
	return str;
}

/* inih's handler: one piece of a value; 0 makes inih note the line. */
static int on_pair(void *user, const char *section, const char *name,
		   const char *value)
{
	struct reader *r = user;
	size_t n = value ? strlen(value) : 0;

	if (r->rc < 0)
		return 0;
	if (!r->pending || n < 2 || value[0] != '|' || value[n - 1] != '|' ||
	    strcmp(section, r->section) || strcmp(name, r->key) ||
	    r->value_len + n - 2 != r->fed) {
		r->rc = refuse(r, 0, "inih read this line differently");
		return 0;
	}
	memcpy(r->value + r->value_len, value + 1, n - 2);
	r->value_len += n - 2;
	r->value[r->value_len] = '\0';
	if (r->value_len < r->cur.value_len)
		return 1;
	r->pending = false;
	r->rc = deliver(r, true);
	return r->rc >= 0;
}

int eg_ini_parse(const char *file, const char *text, size_t len,
		 const struct eg_ini_ops *ops, void *arg, struct eg_err *err)
{
	struct reader r = {.file = file,
			   .text = text,
			   .len = len,
			   .ops = ops,
			   .arg = arg,
			   .err = err};
	struct line line;
	int rc;

	rewind_text(&r);
	do
		rc = next_line(&r, &line);
	while (rc > 0);
	if (rc < 0)
		return rc;
	rewind_text(&r);
	rc = ini_parse_stream(feed_line, &r, on_pair, &r);
	if (r.rc < 0)
		return r.rc;
	if (rc || r.pending)
		return refuse(&r, 0, "inih did not accept the text (%d)", rc);
	return 0;
}

int eg_ini_read(const char *file, int fd, size_t max, char **ret,
		size_t *ret_len, struct eg_err *err)
{
	EG_CLEANUP_FREE char *buf = malloc(max + 2);
	size_t used = 0;

	if (!buf)
		return eg_err_sys(err, -ENOMEM, "cannot read '%s'", file);
	while (used <= max) {
		ssize_t n = read(fd, buf + used, max + 1 - used);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return eg_err_sys(err, -errno, "cannot read '%s'", file);
		if (!n)
			break;
		used += (size_t)n;
	}
	if (used > max)
		return eg_err_set(
			err, -EFBIG,
			"'%s' is larger than %zu bytes, which is the most such a file may have",
			file, max);
	buf[used] = '\0';
	*ret_len = used;
	*ret = buf;
	buf = NULL;
	return 0;
}
