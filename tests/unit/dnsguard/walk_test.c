// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd tests: the strict walker, and that whatever it accepts ldns reads
 * the same way.
 */
#include "dnsguard/build.h"
#include "dnsguard/walk.h"
#include "netpool/base/util.h"
#include "tests/lib/dns_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>
#include <ldns/ldns.h>

static size_t ask(uint8_t *buf, const char *name, bool edns)
{
	struct eg_name n = dw_name(name);

	return dw_query(buf, 7, &n, DG_T_A, DG_C_IN, edns);
}

static void plain_queries(void **state)
{
	struct dg_query q;
	uint8_t b[600];
	size_t n;

	(void)state;
	n = ask(b, "Ok.Example", false);
	assert_int_equal(dg_walk_query(b, n, &q), DG_QUERY_OK);
	assert_int_equal(q.id, 7);
	assert_int_equal(q.qtype, DG_T_A);
	assert_false(q.has_opt);
	assert_int_equal(q.qlen, 16);
	assert_memory_equal(q.name.wire, "\2Ok\7Example", 12);
	n = ask(b, "ok.example", true);
	assert_int_equal(dg_walk_query(b, n, &q), DG_QUERY_OK);
	assert_true(q.has_opt);
	assert_int_equal(q.opt_size, 1232);
	n = ask(b, ".", false);
	assert_int_equal(dg_walk_query(b, n, &q), DG_QUERY_OK);
	assert_int_equal(q.name.len, 1);
}

/* Cases 1, 4, 5: pointers and odd labels in a question. */
static void bad_labels(void **state)
{
	static const uint8_t head[] = {0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0};
	static const uint8_t tails[][8] = {
		{0xc0, 0x0c, 0, 1, 0, 1}, /* itself */
		{0xc0, 0x04, 0, 1, 0, 1}, /* the header */
		{0x01, 'a', 0xc0, 0x0c, 0, 1, 0, 1},
		{0x41, 'a', 0, 0, 1, 0, 1, 0},
		{0x80, 'a', 0, 0, 1, 0, 1, 0},
		{0x3f, 'a', 0, 0, 1, 0, 1, 0}, /* beyond the end */
	};
	struct dg_query q;
	uint8_t b[20];

	(void)state;
	memcpy(b, head, sizeof(head));
	for (size_t i = 0; i < EG_ARRAY_SIZE(tails); i++) {
		memcpy(b + 12, tails[i], 8);
		assert_int_equal(dg_walk_query(b, i < 2 ? 18 : 20, &q),
				 DG_QUERY_FORMERR);
		assert_false(q.has_question);
	}
}

/* A name of 255 octets passes, of 256 does not. */
static void long_names(void **state)
{
	struct dg_query q;
	uint8_t b[600] = {0, 7, 1, 0, 0, 1};
	size_t at = 12;

	(void)state;
	for (int i = 0; i < 127; i++) {
		b[at++] = 1;
		b[at++] = 'a';
	}
	b[at] = 0;
	dg_put16(b + at + 1, 1);
	dg_put16(b + at + 3, 1);
	assert_int_equal(dg_walk_query(b, at + 5, &q), DG_QUERY_OK);
	assert_int_equal(q.name.len, 255);
	b[12] = 2;
	memmove(b + 14, b + 13, at + 5 - 13);
	assert_int_equal(dg_walk_query(b, at + 6, &q), DG_QUERY_FORMERR);
}

/* Case 17: short datagrams, and counts that lie. */
static void short_and_lying(void **state)
{
	struct dg_query q;
	uint8_t b[600];
	size_t n = ask(b, "ok.example", true);

	(void)state;
	for (size_t i = 0; i < 12; i++)
		assert_int_equal(dg_walk_query(b, i, &q), DG_QUERY_DROP);
	for (size_t i = 12; i < n; i++)
		assert_int_equal(dg_walk_query(b, i, &q), DG_QUERY_FORMERR);
	memset(b + 4, 0xff, 8);
	assert_int_equal(dg_walk_query(b, 12, &q), DG_QUERY_FORMERR);
	assert_int_equal(dg_walk_query(b, n, &q), DG_QUERY_FORMERR);
}

/* Cases 10, 11, 13, 14, 16: counts, trailing octets, QR, opcode, class. */
static void wrong_shape(void **state)
{
	struct dg_query q;
	uint8_t b[700] = {0};
	size_t n = ask(b, "ok.example", false);

	(void)state;
	for (int at = 5; at <= 11; at += 2) {
		b[at]++;
		assert_int_equal(dg_walk_query(b, n, &q), DG_QUERY_FORMERR);
		b[at]--;
	}
	b[5] = 0;
	assert_int_equal(dg_walk_query(b, n, &q), DG_QUERY_FORMERR);
	b[5] = 1;
	assert_int_equal(dg_walk_query(b, n + 100, &q), DG_QUERY_FORMERR);
	b[2] |= 0x80;
	assert_int_equal(dg_walk_query(b, n, &q), DG_QUERY_DROP);
	b[2] = 0x28;
	assert_int_equal(dg_walk_query(b, n, &q), DG_QUERY_NOTIMP);
	b[2] = 1;
	for (unsigned int c = 0; c < 256; c++) {
		b[n - 1] = (uint8_t)c;
		assert_int_equal(dg_walk_query(b, n, &q),
				 c == 1 ? DG_QUERY_OK : DG_QUERY_CLASS);
	}
}

/* Case 19, 20: OPT records that lie; many options. */
static void opt_records(void **state)
{
	static uint8_t b[65536];
	struct dg_query q;
	size_t n = ask(b, "ok.example", true), rd = n - 2;

	(void)state;
	dg_put16(b + rd, 4);
	assert_int_equal(dg_walk_query(b, n, &q), DG_QUERY_FORMERR);
	dg_put16(b + n, 3);
	dg_put16(b + n + 2, 0);
	assert_int_equal(dg_walk_query(b, n + 4, &q), DG_QUERY_OK);
	dg_put16(b + n + 2, 1); /* option longer than the rdata */
	assert_int_equal(dg_walk_query(b, n + 4, &q), DG_QUERY_FORMERR);
	dg_put16(b + rd, 65535);
	assert_int_equal(dg_walk_query(b, n + 4, &q), DG_QUERY_FORMERR);
	dg_put16(b + rd, 64000);
	memset(b + n, 0, 64000); /* 16,000 empty options */
	assert_int_equal(dg_walk_query(b, n + 64000, &q), DG_QUERY_OK);
	dg_put16(b + rd, 0);
	b[n - 5] = 1; /* version */
	assert_int_equal(dg_walk_query(b, n, &q), DG_QUERY_BADVERS);
	b[n - 5] = 0;
	b[n - 9] = 1; /* not OPT */
	assert_int_equal(dg_walk_query(b, n, &q), DG_QUERY_FORMERR);
	b[n - 9] = 41;
	memmove(b + n - 10, b + n - 11, 11);
	memcpy(b + n - 11, "\1a", 2); /* not at the root */
	assert_int_equal(dg_walk_query(b, n + 1, &q), DG_QUERY_FORMERR);
}

/* ---- replies ------------------------------------------------------------ */

struct reply {
	uint8_t b[70000];
	size_t n;
	struct eg_name name;
};

static struct reply *begin(const char *name)
{
	static struct reply r;

	r.name = dw_name(name);
	r.n = dw_query(r.b, 7, &r.name, DG_T_A, DG_C_IN, false);
	dg_put16(r.b + 2, DG_QR | DG_RA);
	return &r;
}

static void add(struct reply *r, int count_at, const void *owner, size_t olen,
		unsigned int type, const void *rdata, size_t rdlen)
{
	memcpy(r->b + r->n, owner, olen);
	r->n += olen;
	dg_put16(r->b + r->n, type);
	dg_put16(r->b + r->n + 2, type == DG_T_OPT ? 1232 : DG_C_IN);
	dg_put32(r->b + r->n + 4, type == DG_T_OPT ? 0 : 60);
	dg_put16(r->b + r->n + 8, (unsigned int)rdlen);
	memcpy(r->b + r->n + 10, rdata, rdlen);
	r->n += 10 + rdlen;
	dg_put16(r->b + count_at, dg_get16(r->b + count_at) + 1U);
}

static enum dg_reply_verdict judge(const struct reply *r, struct dg_reply *out)
{
	return dg_walk_reply(r->b, r->n, 7, &r->name, true, out);
}

#define QNAME "\xc0\x0c", 2

/* Cases 50, 52: rdata that does not fit its type. */
static void rdata_sizes(void **state)
{
	static const struct {
		unsigned int type;
		const char *rdata;
		size_t len;
		enum dg_reply_verdict want;
	} t[] = {
		{DG_T_A, "\1\2\3\4", 4, DG_REPLY_OK},
		{DG_T_A, "\1\2\3\4\5", 5, DG_REPLY_BAD},
		{DG_T_A, "\1\2\3", 3, DG_REPLY_BAD},
		{DG_T_A, "", 0, DG_REPLY_BAD},
		{DG_T_AAAA, "\1\2\3\4", 4, DG_REPLY_BAD},
		{DG_T_CNAME, "\1a\0", 3, DG_REPLY_OK},
		{DG_T_CNAME, "\1a\0x", 4, DG_REPLY_BAD},
		{DG_T_CNAME, "\1a", 2, DG_REPLY_BAD},
		{DG_T_CNAME, "\xc0\x0c", 2, DG_REPLY_OK},
		{DG_T_CNAME, "\xc0", 1, DG_REPLY_BAD},
		{DG_T_CNAME, "\xc0\x02", 2, DG_REPLY_BAD},
		{DG_T_TXT, "\2ab", 3, DG_REPLY_OK},
		{DG_T_TXT, "\3ab", 3, DG_REPLY_BAD},
		{DG_T_MX, "\0\1\1a\0", 5, DG_REPLY_OK},
		{DG_T_MX, "\0\1", 2, DG_REPLY_BAD},
		{DG_T_SRV, "\0\1\0\1\0\1\0", 7, DG_REPLY_OK},
		{DG_T_OPT, "", 0, DG_REPLY_BAD}, /* in the answer section */
		{65280, "\1\2\3", 3, DG_REPLY_OK},
	};
	struct dg_reply out;

	(void)state;
	for (size_t i = 0; i < EG_ARRAY_SIZE(t); i++) {
		struct reply *r = begin("ok.example");

		add(r, 6, QNAME, t[i].type, t[i].rdata, t[i].len);
		assert_int_equal(judge(r, &out), t[i].want);
	}
}

static void reply_counts(void **state)
{
	struct dg_reply out;
	struct reply *r = begin("ok.example");

	(void)state;
	add(r, 6, QNAME, DG_T_A, "\1\2\3\4", 4);
	add(r, 10, "", 1, DG_T_OPT, "", 0);
	assert_int_equal(judge(r, &out), DG_REPLY_OK);
	assert_int_equal(out.naddrs, 1);
	assert_int_equal(out.addr[0], 0x01020304);
	for (size_t n = 12; n < r->n; n++) /* cut anywhere */
		assert_int_not_equal(
			dg_walk_reply(r->b, n, 7, &r->name, true, &out),
			DG_REPLY_OK);
	r->b[7]++;
	assert_int_equal(judge(r, &out), DG_REPLY_BAD);
	r->b[7] = 0;
	assert_int_equal(judge(r, &out), DG_REPLY_BAD);
	r->b[7] = 1;
	add(r, 10, "", 1, DG_T_OPT, "", 0);
	assert_int_equal(judge(r, &out), DG_REPLY_BAD); /* two OPT */
}

/* A reply to something else is not an answer, whatever it holds. */
static void reply_matching(void **state)
{
	struct reply *r = begin("ok.example");
	struct dg_reply out;

	(void)state;
	r->b[1] ^= 1;
	assert_int_equal(judge(r, &out), DG_REPLY_IGNORE);
	r->b[1] ^= 1;
	r->b[2] &= 0x7f;
	assert_int_equal(judge(r, &out), DG_REPLY_IGNORE);
	r->b[2] |= 0x80;
	r->b[13] = 'O';
	assert_int_equal(judge(r, &out), DG_REPLY_CASE);
	assert_int_equal(dg_walk_reply(r->b, r->n, 7, &r->name, false, &out),
			 DG_REPLY_OK);
	r->b[13] = 'x';
	assert_int_equal(judge(r, &out), DG_REPLY_IGNORE);
	r->b[13] = 'o';
	r->b[2] |= 2;
	assert_int_equal(judge(r, &out), DG_REPLY_TC);
}

/* Case 2: a chain of pointers, each to the one before, named by many. */
static void pointer_bomb(void **state)
{
	struct reply *r = begin("ok.example");
	struct dg_reply out;
	struct timespec a, b;
	uint8_t chain[16002];
	size_t at = r->n + 12;
	int64_t ns;

	(void)state;
	for (size_t i = 0; i < sizeof(chain); i += 2)
		dg_put16(chain + i,
			 0xc000U | (unsigned int)(i ? at + i - 2 : 12));
	add(r, 6, QNAME, 65280, chain, sizeof(chain));
	for (int i = 0; i < 3200; i++) {
		uint8_t owner[2];

		dg_put16(owner, 0xc000U | 0x3ff0);
		add(r, 6, owner, 2, DG_T_A, "\1\2\3\4", 4);
	}
	assert_true(r->n > 65000 && r->n < sizeof(r->b));
	(void)clock_gettime(CLOCK_MONOTONIC, &a);
	assert_int_equal(judge(r, &out), DG_REPLY_BAD);
	(void)clock_gettime(CLOCK_MONOTONIC, &b);
	ns = (b.tv_sec - a.tv_sec) * EG_NSEC_PER_SEC + b.tv_nsec - a.tv_nsec;
	assert_true(ns < 1000000);
}

static void forward_pointers(void **state)
{
	struct reply *r = begin("ok.example");
	struct dg_reply out;
	uint8_t owner[2];

	(void)state;
	dg_put16(owner, (unsigned int)(0xc000 | r->n)); /* itself */
	add(r, 6, owner, 2, DG_T_A, "\1\2\3\4", 4);
	assert_int_equal(judge(r, &out), DG_REPLY_BAD);
	r = begin("ok.example");
	dg_put16(owner, (unsigned int)(0xc000 | (r->n + 12))); /* its rdata */
	add(r, 6, owner, 2, 65280, "\0", 1);
	assert_int_equal(judge(r, &out), DG_REPLY_BAD);
}

/* ---- the same with ldns ------------------------------------------------- */

static uint64_t rng_state = 88172645463325252ULL;

static uint32_t rng(void)
{
	rng_state ^= rng_state << 13;
	rng_state ^= rng_state >> 7;
	rng_state ^= rng_state << 17;
	return (uint32_t)(rng_state >> 16);
}

/* A random but well-formed start; then some octets are changed. */
static void random_reply(struct reply *r)
{
	static const char *const names[] = {"\xc0\x0c", "\1c\xc0\x0c",
					    "\1c\1d\0"};
	static const size_t lens[] = {2, 4, 5};
	int n = 1 + (int)(rng() % 6);

	for (int i = 0; i < n; i++) {
		uint32_t o = rng() % 3, t = rng() % 3;

		if (rng() % 2)
			add(r, 6, names[o], lens[o], DG_T_A, "\1\2\3\4", 4);
		else
			add(r, 6, names[o], lens[o], DG_T_CNAME, names[t],
			    lens[t]);
	}
	for (uint32_t k = rng() % 3; k; k--)
		r->b[12 + rng() % (r->n - 12)] = (uint8_t)rng();
}

/* Is there a type whose rdata we leave alone and ldns does not? */
static bool opaque_type(const struct reply *r)
{
	size_t at = 12 + (size_t)r->name.len + 4;

	for (unsigned int i = 0; i < dg_get16(r->b + 6); i++) {
		unsigned int type;

		while (r->b[at] && r->b[at] < 0xc0)
			at += 1U + r->b[at];
		at += r->b[at] ? 2 : 1;
		type = dg_get16(r->b + at);
		if (type != DG_T_A && type != DG_T_CNAME)
			return true;
		at += 10U + dg_get16(r->b + at + 8);
	}
	return false;
}

static void compare(const struct reply *r, const struct dg_reply *out)
{
	ldns_pkt *p = NULL;
	ldns_rr_list *an;

	if (opaque_type(r))
		return;
	assert_int_equal(ldns_wire2pkt(&p, r->b, r->n), LDNS_STATUS_OK);
	assert_int_equal(ldns_pkt_qdcount(p), 1);
	an = ldns_pkt_answer(p);
	assert_int_equal(ldns_rr_list_rr_count(an), dg_get16(r->b + 6));
	for (uint32_t i = 0; i < out->naddrs; i++) {
		bool found = false;

		for (size_t k = 0; k < ldns_rr_list_rr_count(an); k++) {
			ldns_rr *rr = ldns_rr_list_rr(an, k);

			if (ldns_rr_get_type(rr) == LDNS_RR_TYPE_A &&
			    ldns_rr_get_class(rr) == LDNS_RR_CLASS_IN)
				found |= dg_get32(ldns_rdf_data(ldns_rr_rdf(
						 rr, 0))) == out->addr[i];
		}
		assert_true(found);
	}
	ldns_pkt_free(p);
}

static void ldns_agrees(void **state)
{
	unsigned int accepted = 0;
	struct dg_reply out;

	(void)state;
	for (int i = 0; i < 200000; i++) {
		struct reply *r = begin("ok.example");

		random_reply(r);
		if (judge(r, &out) != DG_REPLY_OK)
			continue;
		accepted++;
		compare(r, &out);
	}
	assert_true(accepted > 50000);
	print_message("ldns agrees on %u accepted replies of 200000\n", accepted);
}

static void ldns_agrees_on_queries(void **state)
{
	unsigned int accepted = 0;

	(void)state;
	for (int i = 0; i < 200000; i++) {
		struct dg_query q;
		ldns_pkt *p = NULL;
		ldns_rdf *owner;
		uint8_t b[600];
		size_t n = ask(b, "a.Bc.example", rng() % 2);

		for (uint32_t k = rng() % 3; k; k--)
			b[rng() % n] = (uint8_t)rng();
		if (dg_walk_query(b, n, &q) != DG_QUERY_OK)
			continue;
		accepted++;
		assert_int_equal(ldns_wire2pkt(&p, b, n), LDNS_STATUS_OK);
		owner = ldns_rr_owner(ldns_rr_list_rr(ldns_pkt_question(p), 0));
		assert_int_equal(ldns_rdf_size(owner), q.name.len);
		assert_memory_equal(ldns_rdf_data(owner), q.name.wire,
				    q.name.len);
		ldns_pkt_free(p);
	}
	assert_true(accepted > 50000);
	print_message("ldns agrees on %u accepted queries of 200000\n", accepted);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(plain_queries),
		cmocka_unit_test(bad_labels),
		cmocka_unit_test(long_names),
		cmocka_unit_test(short_and_lying),
		cmocka_unit_test(wrong_shape),
		cmocka_unit_test(opt_records),
		cmocka_unit_test(rdata_sizes),
		cmocka_unit_test(reply_counts),
		cmocka_unit_test(reply_matching),
		cmocka_unit_test(pointer_bomb),
		cmocka_unit_test(forward_pointers),
		cmocka_unit_test(ldns_agrees),
		cmocka_unit_test(ldns_agrees_on_queries),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
