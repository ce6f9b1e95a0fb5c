// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: domain names: text and wire, comparison, order of labels
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "netpool/base/name.h"

#include <errno.h>
#include <string.h>

static struct eg_name parse(const char *text)
{
	struct eg_name n;
	struct eg_err err = {0};

	if (eg_name_parse(text, &n, &err))
		fail_msg("'%s': %s", text, err.text);
	return n;
}

static struct eg_name wire(const char *w, size_t len)
{
	struct eg_name n;

	memset(&n, 0xaa, sizeof(n));
	assert_int_equal(eg_name_from_wire((const uint8_t *)w, len, &n), len);
	return n;
}

static void text(void **state)
{
	static const char *const bad[] = {"",	 ".",	       "..",   "a..b",
					  ".a",	 "a b",	       "a\nb", "a/b",
					  "a*b", "\xc3\xa9.x", "a\\.b"};
	struct eg_name n = {.len = 3};
	struct eg_err err = {0};
	char buf[EG_NAME_TEXT];

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(eg_name_parse(bad[i], &n, &err), -EINVAL);
		assert_int_equal(n.len, 3);
	}
	n = parse("WWW.Example.COM.");
	assert_int_equal(n.len, 17);
	assert_memory_equal(n.wire, "\3www\7example\3com", 17);
	assert_string_equal(eg_name_format(&n, buf), "www.example.com");
	n = parse("_x-1");
	assert_int_equal(eg_name_labels(&n), 1);
}

static void limits(void **state)
{
	char t[300];
	struct eg_err err = {0};
	struct eg_name n;

	(void)state;
	memset(t, 'a', sizeof(t));
	t[63] = '\0';
	(void)parse(t);
	t[63] = 'a';
	t[64] = '\0';
	assert_int_equal(eg_name_parse(t, &n, &err), -EINVAL);
	memset(t, 'a', sizeof(t));
	for (int i = 63; i < 256; i += 64)
		t[i] = '.';
	t[253] = '\0';
	n = parse(t);
	assert_int_equal(n.len, 255);
	assert_int_equal(n.wire[254], 0);
	t[253] = 'a';
	t[254] = '\0';
	assert_int_equal(eg_name_parse(t, &n, &err), -EINVAL);
	/* 127 labels of one octet */
	for (int i = 0; i < 254; i++)
		t[i] = i & 1 ? '.' : 'a';
	t[253] = '\0';
	n = parse(t);
	assert_int_equal(eg_name_labels(&n), 127);
	assert_int_equal(n.len, 255);
}

static void from_wire(void **state)
{
	uint8_t w[300];
	struct eg_name n = {.len = 9};

	(void)state;
	assert_int_equal(eg_name_from_wire((const uint8_t *)"", 1, &n), 1);
	assert_int_equal(n.len, 1);
	assert_int_equal(eg_name_from_wire((const uint8_t *)"", 0, &n), -EBADMSG);
	assert_int_equal(eg_name_from_wire((const uint8_t *)"\3ab", 3, &n),
			 -EBADMSG);
	assert_int_equal(eg_name_from_wire((const uint8_t *)"\3abc", 4, &n),
			 -EBADMSG);
	assert_int_equal(eg_name_from_wire((const uint8_t *)"\300\14", 2, &n),
			 -EBADMSG);
	assert_int_equal(eg_name_from_wire((const uint8_t *)"\100a", 2, &n),
			 -EBADMSG);
	assert_int_equal(eg_name_from_wire((const uint8_t *)"\1a\0zz", 5, &n), 3);
	/* 255 octets fit, 256 do not */
	memset(w, 'a', sizeof(w));
	w[0] = w[64] = w[128] = 63;
	w[192] = 61;
	w[254] = 0;
	assert_int_equal(eg_name_from_wire(w, sizeof(w), &n), 255);
	assert_int_equal(n.len, 255);
	w[192] = 62;
	w[254] = 'a';
	w[255] = 0;
	assert_int_equal(eg_name_from_wire(w, sizeof(w), &n), -EBADMSG);
}

static void escaped(void **state)
{
	struct eg_name n = wire("\14evil.example\3com", 18), other;
	char buf[EG_NAME_TEXT], longest[EG_NAME_TEXT];
	uint8_t w[255];

	(void)state;
	assert_string_equal(eg_name_format(&n, buf), "evil\\.example.com");
	n = wire("\4a\0\n\\\3c\377d", 10);
	assert_string_equal(eg_name_format(&n, buf), "a\\000\\010\\092.c\\255d");
	other = parse("evil.example.com");
	n = wire("\14evil.example\3com", 18);
	assert_false(eg_name_equal(&n, &other));
	n = wire("", 1);
	assert_string_equal(eg_name_format(&n, buf), ".");
	/* the longest text there is */
	memset(w, 0xff, sizeof(w));
	w[0] = w[64] = w[128] = 63;
	w[192] = 61;
	w[254] = 0;
	assert_int_equal(eg_name_from_wire(w, 255, &n), 255);
	assert_int_equal(strlen(eg_name_format(&n, longest)), 250 * 4 + 3);
}

static void compare(void **state)
{
	struct eg_name a = wire("\1A\2bC", 6), b = parse("a.bc");
	struct eg_name c = wire("\3a\2b\1c", 7), d = parse("a.b.c");

	(void)state;
	assert_false(eg_name_equal(&c, &d));
	assert_true(eg_name_equal(&a, &b));
	assert_int_equal(eg_name_hash(&a), eg_name_hash(&b));
	eg_name_lower(&a);
	assert_memory_equal(a.wire, b.wire, b.len);
	/* only ASCII is folded: 0xc1 and 0xe1 differ, '@' and '`' as well */
	a = wire("\1\301", 3);
	b = wire("\1\341", 3);
	assert_false(eg_name_equal(&a, &b));
	a = wire("\1@", 3);
	b = wire("\1`", 3);
	assert_false(eg_name_equal(&a, &b));
	a = wire("\1[", 3);
	b = wire("\1{", 3);
	assert_false(eg_name_equal(&a, &b));
}

static void below(void **state)
{
	struct eg_name com = parse("example.com"), root = wire("", 1);
	struct eg_name n;

	(void)state;
	n = parse("EXAMPLE.com");
	assert_int_equal(eg_name_below(&n, &com), 0);
	n = parse("x.example.com");
	assert_int_equal(eg_name_below(&n, &com), 1);
	n = parse("z.y.x.Example.Com");
	assert_int_equal(eg_name_below(&n, &com), 3);
	n = parse("evilexample.com");
	assert_int_equal(eg_name_below(&n, &com), -1);
	n = parse("com");
	assert_int_equal(eg_name_below(&n, &com), -1);
	n = parse("example.com.evil");
	assert_int_equal(eg_name_below(&n, &com), -1);
	n = wire("\21x\7example\7com.net\4evil", 24);
	assert_int_equal(eg_name_below(&n, &com), -1);
	/* the suffix's octets end the name, but inside a label */
	n = wire("\15x\7example\3com", 15);
	assert_int_equal(eg_name_below(&n, &com), -1);
	assert_int_equal(eg_name_below(&com, &root), 2);
	assert_int_equal(eg_name_below(&root, &root), 0);
}

static void plain_labels(void **state)
{
	struct eg_name n = wire("\3a_b\3c d\3com", 13);

	(void)state;
	assert_true(eg_name_ldh(&n, 0));
	assert_false(eg_name_ldh(&n, 1));
	n = wire("\3a-b\3c d\3com", 13);
	assert_true(eg_name_ldh(&n, 1));
	assert_false(eg_name_ldh(&n, 2));
	n = parse("a.b");
	assert_true(eg_name_ldh(&n, 9));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(text),		cmocka_unit_test(limits),
		cmocka_unit_test(from_wire),	cmocka_unit_test(escaped),
		cmocka_unit_test(compare),	cmocka_unit_test(below),
		cmocka_unit_test(plain_labels),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
