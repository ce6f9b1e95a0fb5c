// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: tests of the JSON writer: whatever bytes go in, one line of
 * valid JSON comes out that a terminal can show.
 */
#include "netpool/base/jsonw.h"

#include <errno.h>
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void test_shape(void **state)
{
	char buf[256];
	struct eg_jsonw w;

	(void)state;
	eg_jsonw_init(&w, buf, sizeof(buf));
	eg_jsonw_object(&w, NULL);
	eg_jsonw_u64(&w, "a", 0);
	eg_jsonw_i64(&w, "b", INT64_MIN);
	eg_jsonw_array(&w, "c");
	eg_jsonw_str(&w, NULL, "x\"\\\n");
	eg_jsonw_bool(&w, NULL, true);
	eg_jsonw_object(&w, NULL);
	eg_jsonw_end(&w);
	eg_jsonw_i64(&w, NULL, -7);
	eg_jsonw_end(&w);
	eg_jsonw_members(&w, "\"d\":1,\"e\":2", 11);
	eg_jsonw_members(&w, "", 0);
	eg_jsonw_null(&w, "f");
	eg_jsonw_u64(&w, "g", UINT64_MAX);
	eg_jsonw_end(&w);
	assert_true(eg_jsonw_done(&w) > 0);
	assert_string_equal(buf,
			    "{\"a\":0,\"b\":-9223372036854775808,"
			    "\"c\":[\"x\\\"\\\\\\n\",true,{},-7],\"d\":1,\"e\":2,"
			    "\"f\":null,\"g\":18446744073709551615}");
}

static void test_overflow(void **state)
{
	char buf[64];

	(void)state;
	/* Every capacity: never a byte beyond it, and the answer is right. */
	for (size_t cap = 0; cap <= sizeof(buf); cap++) {
		struct eg_jsonw w;
		long n;

		memset(buf, 'Z', sizeof(buf));
		eg_jsonw_init(&w, buf, cap);
		eg_jsonw_object(&w, NULL);
		eg_jsonw_str(&w, "key", "value\x01");
		eg_jsonw_end(&w);
		n = eg_jsonw_done(&w);
		assert_int_equal(n, cap > 21 ? 21 : -EMSGSIZE);
		for (size_t i = cap; i < sizeof(buf); i++)
			assert_int_equal(buf[i], 'Z');
	}
}

static void test_unbalanced(void **state)
{
	char buf[64];
	struct eg_jsonw w;

	(void)state;
	eg_jsonw_init(&w, buf, sizeof(buf));
	eg_jsonw_object(&w, NULL);
	assert_int_equal(eg_jsonw_done(&w), -EMSGSIZE);
	eg_jsonw_init(&w, buf, sizeof(buf));
	eg_jsonw_end(&w);
	assert_int_equal(eg_jsonw_done(&w), -EMSGSIZE);
	eg_jsonw_init(&w, buf, sizeof(buf));
	for (int i = 0; i < EG_JSONW_DEPTH + 1; i++)
		eg_jsonw_array(&w, NULL);
	assert_true(w.overflow);
}

static const char *encode(char *buf, size_t cap, const void *p, size_t len)
{
	struct eg_jsonw w;

	eg_jsonw_init(&w, buf, cap);
	eg_jsonw_array(&w, NULL);
	eg_jsonw_bytes(&w, NULL, p, len);
	eg_jsonw_end(&w);
	assert_true(eg_jsonw_done(&w) > 0);
	return buf;
}

static void test_hostile(void **state)
{
	static const struct {
		const char *in, *out;
		size_t len;
	} t[] = {
		{"\x00", "[\"\\u0000\"]", 1},
		{"\x1b[2J", "[\"\\u001b[2J\"]", 4},
		{"\x7f", "[\"\\u007f\"]", 1},
		{"\xc2\x9b", "[\"\\u009b\"]", 2},
		{"\xe2\x80\xae", "[\"\\u202e\"]", 3},
		{"\xe2\x80\x8b", "[\"\\u200b\"]", 3},
		{"\xe2\x81\xa6", "[\"\\u2066\"]", 3},
		{"\xef\xbb\xbf", "[\"\\ufeff\"]", 3},
		{"\xf3\xa0\x81\x81", "[\"\\udb40\\udc41\"]", 4},
		{"\xff", "[\"\\\\xff\"]", 1},
		{"\x9b", "[\"\\\\x9b\"]", 1},
		{"\xc0\x80", "[\"\\\\xc0\\\\x80\"]", 2},
		{"\xed\xa0\x80", "[\"\\\\xed\\\\xa0\\\\x80\"]", 3},
		{"\xf4\x90\x80\x80", "[\"\\\\xf4\\\\x90\\\\x80\\\\x80\"]", 4},
		{"\xe2\x82", "[\"\\\\xe2\\\\x82\"]", 2},
		{"\xc3\xa9\xe2\x82\xac", "[\"\xc3\xa9\xe2\x82\xac\"]", 5},
		{"\xf0\x9f\x98\x80", "[\"\xf0\x9f\x98\x80\"]", 4},
	};
	char buf[256];

	(void)state;
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++)
		assert_string_equal(encode(buf, sizeof(buf), t[i].in, t[i].len),
				    t[i].out);
}

/* Random bytes: valid JSON by another parser, no byte a terminal acts on. */
static void test_random(void **state)
{
	char buf[1024];
	uint8_t in[64];
	unsigned int seed = 1;

	(void)state;
	for (int round = 0; round < 20000; round++) {
		size_t len = (size_t)rand_r(&seed) % sizeof(in);
		json_t *j;

		for (size_t i = 0; i < len; i++)
			in[i] = (uint8_t)((unsigned int)rand_r(&seed) >> 7);
		encode(buf, sizeof(buf), in, len);
		for (const char *p = buf; *p; p++)
			assert_true((uint8_t)*p >= 0x20 && *p != 0x7f);
		j = json_loads(buf, JSON_ALLOW_NUL, NULL);
		assert_non_null(j);
		json_decref(j);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shape),
		cmocka_unit_test(test_overflow),
		cmocka_unit_test(test_unbalanced),
		cmocka_unit_test(test_hostile),
		cmocka_unit_test(test_random),
	};

	return cmocka_run_group_tests_name("base/jsonw", tests, NULL, NULL);
}
