// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: guarded INI (see ini.h)
 */
#include "netpool/base/ini.h"
#include "netpool/base/util.h"

#include <errno.h>
#include <ini.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct parse {
	const char *p, *end;
	const char *file;
	unsigned int line; /* of the line inih is at */
	unsigned int col;  /* of its value */
	char value[EG_INI_LINE + 1];
	char section[EG_INI_SECTION + 1];
	eg_ini_cb cb;
	void *arg;
	struct eg_err err;
	int failed;
};

static int bad(struct parse *s, unsigned int col, const char *what)
{
	if (!s->failed)
		s->failed = eg_err_set(&s->err, -EINVAL, "%s:%u:%u: %s",
				       s->file, s->line, col, what);
	return s->failed;
}

/* Octets of the UTF-8 sequence at @p, 0 when it is not one (RFC 3629). */
static size_t utf8(const unsigned char *p, size_t n)
{
	size_t len = p[0] < 0x80 ? 1 :
		     p[0] >= 0xc2 && p[0] < 0xe0 ? 2 :
		     p[0] >= 0xe0 && p[0] < 0xf0 ? 3 :
		     p[0] >= 0xf0 && p[0] < 0xf5 ? 4 : 0;

	if (!len || len > n)
		return 0;
	for (size_t i = 1; i < len; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) ||
	    (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f))
		return 0;
	return len;
}

static int bytes_check(struct parse *s, const char *line, size_t n)
{
	for (size_t i = 0; i < n;) {
		unsigned char c = (unsigned char)line[i];
		size_t k = utf8((const unsigned char *)line + i, n - i);

		if (!k)
			return bad(s, (unsigned int)i + 1,
				   "a byte that is not UTF-8");
		if ((c < 0x20 && c != '\t') || c == 0x7f)
			return bad(s, (unsigned int)i + 1,
				   c == '\r' ?
					   "a carriage return; lines end with a line feed only" :
					   "a control character");
		i += k;
	}
	return 0;
}

/* Length without a comment and trailing blanks. */
static size_t comment_strip(const char *line, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if ((line[i] == '#' || line[i] == ';') &&
		    (!i || line[i - 1] == ' ' || line[i - 1] == '\t')) {
			n = i;
			break;
		}
	while (n && (line[n - 1] == ' ' || line[n - 1] == '\t'))
		n--;
	return n;
}

/* "[name]" to the form inih is given. */
static int section_line(struct parse *s, const char *line, size_t n, char *out,
			size_t cap)
{
	const char *close = memchr(line, ']', n);

	if (!close)
		return bad(s, (unsigned int)n, "a section without its ']'");
	if (close + 1 != line + n)
		return bad(s, (unsigned int)(close - line) + 2,
			   "text after the section's ']'");
	if (n - 2 > EG_INI_SECTION)
		return bad(s, EG_INI_SECTION + 2,
			   "a section name of more than 48 bytes");
	if (n == 2 || line[1] == ' ' || line[n - 2] == ' ')
		return bad(s, 2, "a section name that is empty or has blanks at its ends");
	memcpy(s->section, line + 1, n - 2);
	s->section[n - 2] = '\0';
	(void)snprintf(out, cap, "%.*s\n", (int)n, line);
	return 0;
}

static bool key_byte(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       (c >= '0' && c <= '9') || c == '_' || c == '-';
}

/* "key = value": the value is kept aside, inih gets "key=1". */
static int key_line(struct parse *s, const char *line, size_t n, char *out,
		    size_t cap)
{
	size_t k = 0, v;

	while (k < n && key_byte(line[k]))
		k++;
	v = k;
	while (v < n && (line[v] == ' ' || line[v] == '\t'))
		v++;
	if (!k)
		return bad(s, 1, "a line that is neither [section] nor key = value");
	if (v < n && line[v] == ':')
		return bad(s, (unsigned int)v + 1,
			   "':' after a key; '=' separates key and value");
	if (v >= n || line[v] != '=')
		return bad(s, (unsigned int)v + 1,
			   "a key without '='; write key = value");
	if (k > EG_INI_KEY)
		return bad(s, 1, "a key of more than 48 bytes");
	if (!s->section[0])
		return bad(s, 1, "a key before any [section]");
	v++;
	while (v < n && (line[v] == ' ' || line[v] == '\t'))
		v++;
	s->col = (unsigned int)v + 1;
	memcpy(s->value, line + v, n - v);
	s->value[n - v] = '\0';
	(void)snprintf(out, cap, "%.*s=1\n", (int)k, line);
	return 0;
}

/* fgets for inih: one checked line, comments and blank lines as empty. */
static char *reader(char *out, int cap, void *arg)
{
	struct parse *s = arg;
	const char *nl;
	size_t n;

	if (s->failed || s->p >= s->end)
		return NULL;
	nl = memchr(s->p, '\n', (size_t)(s->end - s->p));
	n = nl ? (size_t)(nl - s->p) : (size_t)(s->end - s->p);
	s->line++;
	if (n > EG_INI_LINE) {
		(void)bad(s, EG_INI_LINE + 1, "a line of more than 1024 bytes");
		return NULL;
	}
	if (!bytes_check(s, s->p, n)) {
		size_t len = comment_strip(s->p, n);

		out[0] = '\n';
		out[1] = '\0';
		if (len && (s->p[0] == ' ' || s->p[0] == '\t'))
			(void)bad(s, 1, "an indented line; a value ends with its line");
		else if (len && s->p[0] == '[')
			(void)section_line(s, s->p, len, out, (size_t)cap);
		else if (len)
			(void)key_line(s, s->p, len, out, (size_t)cap);
	}
	s->p += n + (nl ? 1 : 0);
	return s->failed ? NULL : out;
}

static int handler(void *user, const char *section, const char *key,
		   const char *value)
{
	struct parse *s = user;
	struct eg_ini_pos pos = { .file = s->file, .line = s->line,
				  .col = s->col };
	struct eg_err e = { 0 };
	int r;

	/* inih must have seen what we saw. */
	if (!key || strcmp(section, s->section) || strcmp(value, "1")) {
		(void)bad(s, 1, "the line is read in two ways");
		return 0;
	}
	r = s->cb(s->arg, section, key, s->value, &pos, &e);
	if (r && !s->failed)
		s->failed = eg_err_set(&s->err, r, "%s:%u:%u: %s", s->file,
				       pos.line, pos.col, e.text);
	return !r;
}

int eg_ini_parse(const char *text, size_t len, const char *file, eg_ini_cb cb,
		 void *arg, struct eg_err *err)
{
	struct parse s = { .p = text, .end = text + len, .file = file,
			   .cb = cb, .arg = arg };

	if (len >= 3 && !memcmp(text, "\xef\xbb\xbf", 3))
		return eg_err_set(err, -EINVAL,
				  "%s:1:1: a byte order mark; save the file as plain UTF-8",
				  file);
	(void)ini_parse_stream(reader, &s, handler, &s);
	if (s.failed) {
		if (err)
			*err = s.err;
		return s.failed;
	}
	return 0;
}

int eg_ini_load(int fd, const char *file, size_t max, char **ret_text,
		size_t *ret_len, struct eg_err *err)
{
	EG_CLEANUP_FREE char *buf = malloc(max + 1);
	size_t n = 0;
	ssize_t r;

	if (!buf)
		return eg_err_set(err, -ENOMEM, "out of memory");
	while (n <= max && (r = read(fd, buf + n, max + 1 - n)) != 0) {
		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return eg_err_sys(err, -errno, "read %s", file);
		n += (size_t)r;
	}
	if (n > max)
		return eg_err_set(err, -EFBIG,
				  "%s is larger than %zu bytes, the most that is read",
				  file, max);
	*ret_text = realloc(buf, n + 1);
	if (!*ret_text)
		*ret_text = buf;
	buf = NULL;
	(*ret_text)[n] = '\0';
	*ret_len = n;
	return 0;
}
