// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: the guarded inih adapter: every silent bend of inih is refused by
 * file, line and column, and what is accepted arrives unbent.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "netpool/base/ini.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct seen {
	char text[8192];
	int stop_at; /* entry whose handler fails, 0: none */
	int entries;
};

static int on_section(void *arg, const struct eg_ini_entry *e, struct eg_err *err)
{
	struct seen *s = arg;
	size_t n = strlen(s->text);

	(void)err;
	(void)snprintf(s->text + n, sizeof(s->text) - n, "[%s]", e->section);
	return 0;
}

static int on_entry(void *arg, const struct eg_ini_entry *e, struct eg_err *err)
{
	struct seen *s = arg;
	size_t n = strlen(s->text);

	(void)snprintf(s->text + n, sizeof(s->text) - n, "%s.%s=<%s>@%u:%u;",
		       e->section, e->key, e->value, e->line, e->col);
	if (++s->entries == s->stop_at)
		return eg_ini_err(err, -EINVAL, e->file, e->line, e->col,
				  "no '%s' here", e->key);
	return 0;
}

static const struct eg_ini_ops ops = {on_section, on_entry};

static int run(const char *text, size_t len, struct seen *s, struct eg_err *err)
{
	*err = (struct eg_err){0};
	*s = (struct seen){.stop_at = s->stop_at};
	return eg_ini_parse("f.conf", text, len, &ops, s, err);
}

static void accepts(const char *text, const char *want)
{
	struct seen s = {0};
	struct eg_err err;
	int rc = run(text, strlen(text), &s, &err);

	if (rc)
		fail_msg("refused: %s", err.text);
	assert_string_equal(s.text, want);
}

static void refuses_n(const char *text, size_t len, const char *want)
{
	struct seen s = {0};
	struct eg_err err;

	assert_true(run(text, len, &s, &err) < 0);
	assert_int_equal(err.code, -EINVAL);
	if (strncmp(err.text, want, strlen(want)))
		fail_msg("'%s' does not begin with '%s'", err.text, want);
	assert_string_equal(s.text, ""); /* nothing was handed out before */
}

static void refuses(const char *text, const char *want)
{
	refuses_n(text, strlen(text), want);
}

static void plain(void **state)
{
	(void)state;
	accepts("", "");
	accepts("\n\n \t\n", "");
	accepts("[a]\nk = v\n", "[a]a.k=<v>@2:5;");
	accepts("[a]\nk=v", "[a]a.k=<v>@2:3;"); /* no final newline */
	accepts("[a]\nk=\nk =   \n", "[a]a.k=<>@2:3;a.k=<>@3:4;");
	accepts("[a]\nk = b = c\n", "[a]a.k=<b = c>@2:5;");
	accepts("[a]\nk = b: c\n", "[a]a.k=<b: c>@2:5;");
	accepts("[allow init plan]\nallow = x\n",
		"[allow init plan]allow init plan.allow=<x>@2:9;");
}

static void repeats(void **state)
{
	(void)state;
	accepts("[a]\nk=1\nk=2\n[b]\n[a]\nk=3\n",
		"[a]a.k=<1>@2:3;a.k=<2>@3:3;[b][a]a.k=<3>@6:3;");
}

static void comments(void **state)
{
	(void)state;
	accepts("# x\n; y\n  # indented\n[a] # why\nk = v # why\nl = v ; why\n"
		"m = v#w;x\nn = # only\no = a\t;b\n",
		"[a]a.k=<v>@5:5;a.l=<v>@6:5;a.m=<v#w;x>@7:5;a.n=<>@8:4;"
		"a.o=<a>@9:5;");
}

/* Written out again as "k = #x" it would be a comment. */
static void comment_sign_first(void **state)
{
	(void)state;
	refuses("[a]\nk =#x\n", "f.conf:2:4: the value begins with '#'");
	refuses("[a]\nk=;\n", "f.conf:2:3: the value begins with ';'");
}

static void line_ends(void **state)
{
	(void)state;
	accepts("[a]\r\nk = v\r\n\r\n", "[a]a.k=<v>@2:5;");
	refuses("[a]\nk = a\rb\n", "f.conf:2:6: a carriage return");
	refuses("[a]\nk = v\r", "f.conf:2:6: a carriage return");
	refuses("[a]\nk = v\r\r\n", "f.conf:2:6: a carriage return");
}

static void byte_order_mark(void **state)
{
	(void)state;
	accepts("\xef\xbb\xbf[a]\nk = v\n", "[a]a.k=<v>@2:5;");
	refuses("[a]\n\xef\xbb\xbfk = v\n", "f.conf:2:1: control character");
	refuses("\xff\xfe[\n", "f.conf:1:1: byte 0xff is not UTF-8");
}

/* inih cuts lines at 199 bytes and goes on with the rest as another line. */
static void long_lines(void **state)
{
	char text[2 * EG_INI_LINE], want[3 * EG_INI_LINE];

	(void)state;
	for (size_t n = 90; n <= EG_INI_LINE - 2; n += 11) {
		memset(text, 0, sizeof(text));
		memcpy(text, "[a]\nk=", 6);
		for (size_t i = 0; i < n; i++)
			text[6 + i] = "x; [=]:#|"[i % 9] == ' '
					      ? 'y'
					      : "x; [=]:#|"[i % 9];
		(void)snprintf(want, sizeof(want), "[a]a.k=<%s>@2:3;", text + 6);
		accepts(text, want);
	}
	memset(text, 'x', sizeof(text));
	memcpy(text, "[a]\nk=", 6);
	text[4 + EG_INI_LINE] = '\0';
	(void)snprintf(want, sizeof(want), "[a]a.k=<%s>@2:3;", text + 6);
	accepts(text, want);
	text[4 + EG_INI_LINE] = 'x';
	text[5 + EG_INI_LINE] = '\0';
	refuses(text, "f.conf:2:1025: the line is longer than 1024 bytes");
	text[4] = '#'; /* a comment as well */
	refuses(text, "f.conf:2:1025: the line is longer than 1024 bytes");
}

/* Blanks at a cut must survive. */
static void blanks_at_cuts(void **state)
{
	char text[600], want[700];

	(void)state;
	memset(text, ' ', sizeof(text));
	memcpy(text, "[a]\nk=", 6);
	text[6] = 'x';
	text[500] = 'y';
	text[501] = '\0';
	(void)snprintf(want, sizeof(want), "[a]a.k=<%s>@2:3;", text + 6);
	accepts(text, want);
}

/* inih keeps 49 bytes of a section without a word. */
static void sections(void **state)
{
	char text[128], want[256];

	(void)state;
	memset(text, 's', sizeof(text));
	text[0] = '[';
	memcpy(text + 1 + EG_INI_SECTION, "]\nk=v\n", 7);
	(void)snprintf(want, sizeof(want), "%.*s%.*s.k=<v>@2:3;",
		       EG_INI_SECTION + 2, text, EG_INI_SECTION, text + 1);
	accepts(text, want);
	memset(text, 's', sizeof(text));
	text[0] = '[';
	memcpy(text + 2 + EG_INI_SECTION, "]\nk=v\n", 7);
	refuses(text, "f.conf:1:2: the section is longer than 48 bytes");
	refuses("[a\nk=v\n", "f.conf:1:3: the section's closing ']'");
	refuses("[a # ]\n", "f.conf:1:3: the section's closing ']'");
	refuses("[]\n", "f.conf:1:2: the section has no name");
	refuses("[ a]\n", "f.conf:1:2: ' ' cannot be in a section");
	refuses("[a ]\n", "f.conf:1:3: ' ' cannot be in a section");
	refuses("[a=b]\n", "f.conf:1:3: '=' cannot be in a section");
	refuses("[a] k = v\n", "f.conf:1:4: ' k = v' follows the section's");
	refuses("[a]]\n", "f.conf:1:4: ']' follows the section's");
}

static void indented(void **state)
{
	(void)state;
	refuses("[a]\nk = v\n  w\n", "f.conf:3:1: the line is indented");
	refuses("[a]\nk = v\n\tl = w\n", "f.conf:3:1: the line is indented");
	refuses(" [a]\n", "f.conf:1:1: the line is indented");
}

static void separators(void **state)
{
	(void)state;
	refuses("[a]\nk: v\n", "f.conf:2:2: ':' does not separate; write 'k =");
	refuses("[a]\nk : v = 1\n", "f.conf:2:3: ':' does not separate");
	refuses("[a]\nk:v=1\n", "f.conf:2:2: ':' does not separate");
	refuses("[a]\njust words\n", "f.conf:2:1: 'just words' is neither");
	refuses("[a]\nk # = v\n", "f.conf:2:1: 'k' is neither");
}

static void keys(void **state)
{
	char text[128];

	(void)state;
	refuses("k = v\n", "f.conf:1:1: key 'k' stands before any [section]");
	refuses("[a]\n = v\n", "f.conf:2:1: the line is indented");
	refuses("[a]\n= v\n", "f.conf:2:1: there is no key before '='");
	refuses("[a]\nk l = v\n", "f.conf:2:2: ' ' cannot be in a key");
	refuses("[a]\nk[0] = v\n", "f.conf:2:2: '[' cannot be in a key");
	memset(text, 'k', sizeof(text));
	memcpy(text, "[a]\n", 4);
	memcpy(text + 4 + EG_INI_KEY + 1, "=v\n", 4);
	refuses(text, "f.conf:2:1: the key is longer than 48 bytes");
}

static void bytes(void **state)
{
	(void)state;
	refuses_n("[a]\nk = v\0w\n", 12, "f.conf:2:6: a NUL byte");
	refuses("[a]\nk = \x1b[2J\n", "f.conf:2:5: control character U+001B");
	refuses("# \x7f\n", "f.conf:1:3: control character U+007F");
	refuses("[a]\nk = \xc3\n", "f.conf:2:5: byte 0xc3 is not UTF-8");
	refuses("[a]\nk = \xc0\xaf\n", "f.conf:2:5: byte 0xc0 is not UTF-8");
	refuses("[a]\nk = \xed\xa0\x80\n", "f.conf:2:5: byte 0xed");
	refuses("[a]\nk = \xf4\x90\x80\x80\n", "f.conf:2:5: byte 0xf4");
	refuses("# \xe2\x80\xae\n", "f.conf:1:3: control character U+202E");
	refuses("# \xc2\x85\n", "f.conf:1:3: control character U+0085");
	accepts("[a]\nk = \xc3\xa9\xe2\x82\xac\xf0\x9f\x8c\x8d\n",
		"[a]a.k=<\xc3\xa9\xe2\x82\xac\xf0\x9f\x8c\x8d>@2:5;");
}

/* The whole text is scanned first: a late fault hands nothing out. */
static void all_or_nothing(void **state)
{
	(void)state;
	refuses("[a]\nk = v\nl = w\nbroken\n", "f.conf:4:1: 'broken'");
}

static void handler_stops(void **state)
{
	struct seen s = {.stop_at = 2};
	const char *text = "[a]\nk=1\nl=2\nm=3\n";
	struct eg_err err;

	(void)state;
	assert_int_equal(run(text, strlen(text), &s, &err), -EINVAL);
	assert_string_equal(err.text, "f.conf:3:3: no 'l' here");
	assert_int_equal(s.entries, 2);
}

static void from_descriptor(void **state)
{
	int fd = memfd_create("ini", MFD_CLOEXEC);
	struct eg_err err = {0};
	size_t len = 0;
	char *text = NULL;

	(void)state;
	assert_int_equal(write(fd, "[a]\nk=v\n", 8), 8);
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	assert_int_equal(eg_ini_read("f", fd, 8, &text, &len, &err), 0);
	assert_int_equal(len, 8);
	assert_string_equal(text, "[a]\nk=v\n");
	free(text);
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	assert_int_equal(eg_ini_read("f", fd, 7, &text, &len, &err), -EFBIG);
	assert_non_null(strstr(err.text, "larger than 7 bytes"));
	close(fd);
	assert_int_equal(eg_ini_read("f", fd, 7, &text, &len, &err), -EBADF);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(plain),
		cmocka_unit_test(repeats),
		cmocka_unit_test(comments),
		cmocka_unit_test(comment_sign_first),
		cmocka_unit_test(line_ends),
		cmocka_unit_test(byte_order_mark),
		cmocka_unit_test(long_lines),
		cmocka_unit_test(blanks_at_cuts),
		cmocka_unit_test(sections),
		cmocka_unit_test(indented),
		cmocka_unit_test(separators),
		cmocka_unit_test(keys),
		cmocka_unit_test(bytes),
		cmocka_unit_test(all_or_nothing),
		cmocka_unit_test(handler_stops),
		cmocka_unit_test(from_descriptor),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
