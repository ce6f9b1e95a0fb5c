// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: tests of decoding: right on whole packets, quiet on broken ones,
 * and never a byte beyond what was captured (each buffer is of exact size,
 * for the address sanitizer).
 */
#include "audit/decode.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const uint8_t syn[] = {
	0x45, 0,  0,   60, 0,	 0,    0x40, 0,	   64,	 6,    0, 0, 10, 200,
	8,    22, 198, 51, 100,	 7,    0x9d, 0x78, 0x01, 0xbb, 0, 0, 0,	 1,
	0,    0,  0,   0,  0xa0, 0x02, 0xff, 0xff, 0,	 0,    0, 0,
};

static void test_tcp(void **state)
{
	struct au_decoded d;
	char flags[AU_TCP_TEXT];

	(void)state;
	au_decode_ip4(syn, sizeof(syn), &d);
	assert_true(d.has_ip4 && d.has_ports && d.has_flags);
	assert_int_equal(d.src, 0x0ac80816);
	assert_int_equal(d.dst, 0xc6336407);
	assert_int_equal(d.sport, 40312);
	assert_int_equal(d.dport, 443);
	assert_int_equal(d.wire_len, 60);
	assert_string_equal(au_flags_format(d.flags, flags), "S");
	assert_string_equal(au_flags_format(0xff, flags), "FSRPAUEC");
	assert_string_equal(au_proto_name(6), "tcp");
	assert_null(au_proto_name(253));
}

/* Every length: fields appear as their octets do, none is made up. */
static void test_truncated(void **state)
{
	(void)state;
	for (size_t n = 0; n <= sizeof(syn); n++) {
		uint8_t *p = malloc(n ? n : 1);
		struct au_decoded d;

		memcpy(p, syn, n);
		au_decode_ip4(p, n, &d);
		assert_int_equal(d.has_ip4, n >= 20);
		assert_int_equal(d.has_ports, n >= 24);
		assert_int_equal(d.has_flags, n >= 34);
		free(p);
	}
}

static void test_broken(void **state)
{
	uint8_t p[sizeof(syn)];
	struct au_decoded d;

	(void)state;
	memcpy(p, syn, sizeof(p));
	p[0] = 0x4f; /* options up to beyond the capture */
	au_decode_ip4(p, sizeof(p), &d);
	assert_true(d.has_ip4 && !d.has_ports);
	p[0] = 0x41; /* header shorter than a header */
	au_decode_ip4(p, sizeof(p), &d);
	assert_true(d.has_ip4 && !d.has_ports);
	p[0] = 0x45;
	p[6] = 0; /* a later fragment has no ports */
	p[7] = 1;
	au_decode_ip4(p, sizeof(p), &d);
	assert_true(d.has_ip4 && !d.has_ports);
	p[7] = 0;
	p[3] = 21; /* total length cuts what looks like ports */
	au_decode_ip4(p, sizeof(p), &d);
	assert_true(d.has_ip4 && !d.has_ports);
	p[0] = 0x65;
	au_decode_ip4(p, sizeof(p), &d);
	assert_false(d.has_ip4);
}

static void test_frames(void **state)
{
	static const uint8_t arp[] = {
		0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0,  1, 8, 6,
		0,    1,    8,	  0,	6,    4,    0, 1, 2, 0, 0,  0, 0, 1,
		10,   0,    0,	  2,	0,    0,    0, 0, 0, 0, 10, 0, 0, 1,
	};
	static const uint8_t v6[] = {
		0x33, 0x33, 0,	  0,	0,    2, 2, 0, 0, 0,  0, 1,   0x81, 0,
		0x20, 5,    0x86, 0xdd, 0x60, 0, 0, 0, 0, 16, 0, 255, /* hop-by-hop */
		0xfe, 0x80, 0,	  0,	0,    0, 0, 0, 0, 0,  0, 0,   0,    0,
		0,    1,    0xff, 2,	0,    0, 0, 0, 0, 0,  0, 0,   0,    0,
		0,    0,    0,	  2,	58,   0, 5, 2, 0, 0,  1, 0,   133,  0,
		0,    0,    0,	  0,	0,    0,
	};
	struct au_decoded d;

	(void)state;
	for (size_t n = 0; n <= sizeof(arp); n++) {
		uint8_t *p = malloc(n ? n : 1);

		memcpy(p, arp, n);
		au_decode_frame(p, n, &d);
		assert_int_equal(d.has_arp, n == sizeof(arp));
		free(p);
	}
	assert_int_equal(d.dst, 0x0a000001);
	for (size_t n = 0; n <= sizeof(v6); n++) {
		uint8_t *p = malloc(n ? n : 1);

		memcpy(p, v6, n);
		au_decode_frame(p, n, &d);
		assert_int_equal(d.has_ip6, n >= 58);
		assert_int_equal(d.has_icmp, n >= 68);
		free(p);
	}
	assert_true(d.has_vlan);
	assert_int_equal(d.vlan & 0xfff, 5);
	assert_int_equal(d.ethertype, 0x86dd);
	assert_int_equal(d.proto, 58);
	assert_int_equal(d.icmp_type, 133);
}

static void test_random(void **state)
{
	unsigned int seed = 7;

	(void)state;
	for (int round = 0; round < 200000; round++) {
		size_t n = (size_t)rand_r(&seed) % 96;
		uint8_t *p = malloc(n ? n : 1);
		struct au_decoded d;

		for (size_t i = 0; i < n; i++)
			p[i] = (uint8_t)(rand_r(&seed) >> 6);
		if (n > 13 && round & 1)
			memcpy(p + 12, round & 2 ? "\x86\xdd" : "\x08\x00", 2);
		if (n > 14)
			p[14] = (uint8_t)(round & 2 ? 0x60 : 0x45);
		au_decode_frame(p, n, &d);
		au_decode_ip4(p, n, &d);
		free(p);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tcp),    cmocka_unit_test(test_truncated),
		cmocka_unit_test(test_broken), cmocka_unit_test(test_frames),
		cmocka_unit_test(test_random),
	};

	return cmocka_run_group_tests_name("audit/decode", tests, NULL, NULL);
}
