// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd tests: the builder: what fits, what is echoed, what ldns reads.
 */
#include "dnsguard/build.h"
#include "netpool/base/util.h"
#include "tests/lib/dns_world.h"

#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>
#include <ldns/ldns.h>

static size_t make(const struct eg_name *name, bool edns,
		   const struct dg_answer *a, struct dg_query *q,
		   uint8_t out[DG_ANSWER_MAX])
{
	uint8_t b[600];
	size_t n = dw_query(b, 0xabcd, name, DG_T_A, DG_C_IN, edns);

	assert_int_equal(dg_walk_query(b, n, q), DG_QUERY_OK);
	return dg_build_answer(q, b + DG_HDR, a, out);
}

static void sixteen_fit(void **state)
{
	struct dg_answer a = {
		.ede = DG_EDE_NONE, .ttl = 60, .naddrs = DG_ANSWER_ADDRS};
	uint8_t out[DG_ANSWER_MAX];

	(void)state;
	for (unsigned int len = 1; len <= 127; len++) {
		struct eg_name n = {0};
		struct dg_query q;
		size_t got;
		ldns_pkt *p;

		for (unsigned int i = 0; i < len; i++) {
			n.wire[2 * i] = 1;
			n.wire[2 * i + 1] = 'a';
		}
		n.len = (uint8_t)(2 * len + 1);
		got = make(&n, true, &a, &q, out);
		assert_true(got <= DG_ANSWER_MAX);
		assert_int_equal(ldns_wire2pkt(&p, out, got), LDNS_STATUS_OK);
		assert_int_equal(ldns_pkt_ancount(p),
				 n.len <= 229 ? 16 : dg_build_room(&q));
		assert_true(ldns_pkt_ancount(p) >= 14);
		assert_false(ldns_pkt_tc(p));
		ldns_pkt_free(p);
	}
}

static void echo(void **state)
{
	struct dg_answer a = {.rcode = DG_NXDOMAIN,
			      .soa = true,
			      .ede = DG_EDE_BLOCKED,
			      .ede_text = "dns-denied"};
	struct eg_name n = dw_name("EvIl.tEsT");
	uint8_t out[DG_ANSWER_MAX];
	struct dg_query q;
	ldns_pkt *p;
	size_t got = make(&n, true, &a, &q, out);

	(void)state;
	assert_int_equal(dg_get16(out), 0xabcd);
	assert_memory_equal(out + DG_HDR, n.wire, n.len);
	assert_int_equal(ldns_wire2pkt(&p, out, got), LDNS_STATUS_OK);
	assert_int_equal(ldns_pkt_get_rcode(p), LDNS_RCODE_NXDOMAIN);
	assert_true(ldns_pkt_ra(p) && ldns_pkt_rd(p) && !ldns_pkt_aa(p));
	assert_int_equal(ldns_pkt_nscount(p), 1);
	assert_int_equal(ldns_rr_ttl(ldns_rr_list_rr(ldns_pkt_authority(p), 0)),
			 DG_NEG_TTL);
	assert_true(ldns_pkt_edns(p));
	assert_int_equal(ldns_pkt_edns_udp_size(p), DG_EDNS_SIZE);
	assert_false(ldns_pkt_edns_do(p));
	ldns_pkt_free(p);
	got = make(&n, false, &a, &q, out);
	assert_int_equal(dg_get16(out + 10), 0); /* no OPT unasked */
	n = dw_name(".");
	assert_true(make(&n, false, &a, &q, out) < 60); /* case 47 */
}

static void badvers(void **state)
{
	struct dg_answer a = {.rcode = DG_BADVERS, .ede = DG_EDE_NONE};
	struct eg_name n = dw_name("a.test");
	uint8_t out[DG_ANSWER_MAX];
	struct dg_query q;
	ldns_pkt *p;
	size_t got = make(&n, true, &a, &q, out);

	(void)state;
	assert_int_equal(ldns_wire2pkt(&p, out, got), LDNS_STATUS_OK);
	assert_int_equal(ldns_pkt_get_rcode(p), 0);
	assert_int_equal(ldns_pkt_edns_extended_rcode(p), 1);
	ldns_pkt_free(p);
}

static void upstream_query(void **state)
{
	struct eg_name n = dw_name("abcdefghijklmnopqrstuvwxyz.0-9.test");
	struct eg_name first = n;
	uint8_t out[DG_ASK_MAX];
	unsigned int upper = 0, changed = 0;
	ldns_pkt *p;
	size_t got;

	(void)state;
	for (int i = 0; i < 100; i++) {
		dg_build_case(&n);
		assert_true(eg_name_equal(&n, &first));
		changed += memcmp(&n, &first, sizeof(n)) != 0;
		for (unsigned int k = 0; k < n.len; k++)
			upper += isupper(n.wire[k]) != 0;
	}
	assert_true(changed > 90);
	assert_in_range(upper, 1200, 1800); /* half of 100 * 30 */
	got = dg_build_ask(77, &n, out);
	assert_int_equal(ldns_wire2pkt(&p, out, got), LDNS_STATUS_OK);
	assert_int_equal(ldns_pkt_id(p), 77);
	assert_true(ldns_pkt_rd(p) && ldns_pkt_edns(p));
	assert_false(ldns_pkt_edns_do(p));
	ldns_pkt_free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sixteen_fit),
		cmocka_unit_test(echo),
		cmocka_unit_test(badvers),
		cmocka_unit_test(upstream_query),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
