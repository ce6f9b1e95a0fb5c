// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Policy prefixes to disjoint boxes, and the shadow of pins: pure.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "rules/compile.h"
#include "rules/pins.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#define A4(a, b, c, d)                                                         \
	((uint32_t)(a) << 24 | (uint32_t)(b) << 16 | (uint32_t)(c) << 8 |      \
	 (uint32_t)(d))
#define MAX 512

static struct eg_conf conf;
static struct rl_space space;
static struct rl_prog *prog;
static struct rl_box *box;
static size_t nbox;
static struct eg_err err;

static int setup(void **state)
{
	(void)state;
	memset(&conf, 0, sizeof(conf));
	conf.prefix = (struct eg_prefix){A4(10, 200, 0, 0), 16};
	conf.link_prefix = (struct eg_prefix){A4(10, 201, 0, 0), 24};
	conf.deny[0] = (struct eg_conf_deny){{A4(168, 63, 129, 16), 32},
					     EG_DENY_METADATA};
	conf.denies = 1;
	assert_int_equal(rl_space_init(&space, &conf, NULL, 0), 0);
	prog = calloc(1, sizeof(*prog) + MAX * sizeof(struct rl_entry));
	return prog ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	rl_space_free(&space);
	free(prog);
	free(box);
	box = NULL;
	return 0;
}

static struct rl_entry *add(uint32_t addr, uint8_t len, uint8_t proto,
			    uint16_t lo, uint16_t hi)
{
	struct rl_entry *e = &prog->entry[prog->nentries++];

	e->kind = RL_PREFIX;
	e->phases = RL_PHASES_ALL;
	e->dst = (struct eg_prefix){addr, len};
	e->nports = 1;
	e->port[0] = (struct eg_port){.proto = proto, .lo = lo, .hi = hi};
	return e;
}

static int compile_as(uint32_t phases, const char *tenant)
{
	free(box);
	box = NULL;
	nbox = 0;
	return rl_compile(&conf, &space, prog, phases, tenant, 1000, &box,
			  &nbox, &err);
}

static size_t hits(uint32_t addr, uint8_t proto, uint16_t port)
{
	size_t n = 0;

	for (size_t i = 0; i < nbox; i++)
		n += box[i].proto == proto && addr >= box[i].lo &&
		     addr <= box[i].hi && port >= box[i].plo &&
		     port <= box[i].phi;
	return n;
}

static void disjoint(void)
{
	for (size_t i = 0; i < nbox; i++)
		for (size_t k = i + 1; k < nbox; k++)
			assert_false(box[i].proto == box[k].proto &&
				     box[i].lo <= box[k].hi &&
				     box[k].lo <= box[i].hi &&
				     box[i].plo <= box[k].phi &&
				     box[k].plo <= box[i].phi);
}

static void test_merge(void **state)
{
	(void)state;
	add(A4(198, 51, 100, 0), 25, IPPROTO_TCP, 443, 443);
	add(A4(198, 51, 100, 128), 25, IPPROTO_TCP, 443, 443);
	add(A4(198, 51, 100, 7), 32, IPPROTO_TCP, 443, 443);
	assert_int_equal(compile_as(0, NULL), 0);
	assert_int_equal(nbox, 1);
	assert_int_equal(box[0].lo, A4(198, 51, 100, 0));
	assert_int_equal(box[0].hi, A4(198, 51, 100, 255));
}

static void test_overlap(void **state)
{
	(void)state;
	add(A4(198, 51, 100, 0), 24, IPPROTO_TCP, 443, 443);
	add(A4(198, 51, 100, 64), 26, IPPROTO_TCP, 400, 500);
	add(A4(198, 51, 100, 64), 26, IPPROTO_UDP, 443, 443);
	assert_int_equal(compile_as(0, NULL), 0);
	disjoint();
	assert_int_equal(nbox, 4);
	assert_int_equal(hits(A4(198, 51, 100, 70), IPPROTO_TCP, 450), 1);
	assert_int_equal(hits(A4(198, 51, 100, 7), IPPROTO_TCP, 450), 0);
	assert_int_equal(hits(A4(198, 51, 100, 7), IPPROTO_TCP, 443), 1);
	assert_int_equal(hits(A4(198, 51, 100, 70), IPPROTO_UDP, 443), 1);
}

static void test_everything(void **state)
{
	(void)state;
	add(0, 0, IPPROTO_TCP, 0, 65535);
	assert_int_equal(compile_as(0, NULL), 0);
	disjoint();
	assert_int_equal(hits(A4(8, 8, 8, 8), IPPROTO_TCP, 443), 1);
	assert_int_equal(hits(A4(1, 0, 0, 0), IPPROTO_TCP, 65535), 1);
	assert_int_equal(hits(A4(223, 255, 255, 255), IPPROTO_TCP, 0), 1);
	assert_int_equal(hits(A4(168, 63, 129, 16), IPPROTO_TCP, 80), 0);
	assert_int_equal(hits(A4(168, 63, 129, 17), IPPROTO_TCP, 80), 1);
	assert_int_equal(hits(A4(127, 0, 0, 1), IPPROTO_TCP, 80), 0);
	assert_int_equal(hits(A4(10, 200, 0, 1), IPPROTO_TCP, 80), 0);
	assert_int_equal(hits(A4(10, 3, 0, 10), IPPROTO_TCP, 80), 0);
	assert_int_equal(hits(A4(192, 168, 1, 1), IPPROTO_TCP, 80), 0);
	assert_int_equal(hits(UINT32_MAX, IPPROTO_TCP, 80), 0);
	assert_int_equal(hits(0, IPPROTO_TCP, 80), 0);
}

static void test_end_of_space(void **state)
{
	struct rl_ranges r = {0};

	(void)state;
	assert_int_equal(rl_ranges_add(&r, UINT32_MAX, UINT32_MAX), 0);
	assert_int_equal(rl_ranges_add(&r, 0xfffffff0, UINT32_MAX), 0);
	assert_int_equal(rl_ranges_add(&r, 0, 0), 0);
	assert_int_equal(rl_ranges_add(&r, 0xffffffe0, 0xffffffef), 0);
	rl_ranges_norm(&r);
	assert_int_equal(r.n, 2);
	assert_int_equal(r.v[1].lo, 0xffffffe0);
	assert_true(rl_ranges_has(&r, UINT32_MAX));
	assert_true(rl_ranges_has(&r, 0));
	assert_false(rl_ranges_has(&r, 1));
	assert_false(rl_ranges_has(&r, 0xffffffdf));
	rl_ranges_free(&r);
	/* the sweep too, were the end of the space not reserved */
	rl_ranges_free(&space.reserved);
	add(A4(255, 255, 255, 0), 24, IPPROTO_TCP, 1, 1);
	add(A4(255, 255, 255, 255), 32, IPPROTO_TCP, 1, 2);
	assert_int_equal(compile_as(0, NULL), 0);
	disjoint();
	assert_int_equal(hits(UINT32_MAX, IPPROTO_TCP, 2), 1);
	assert_int_equal(hits(UINT32_MAX, IPPROTO_TCP, 1), 1);
	assert_int_equal(hits(UINT32_MAX - 1, IPPROTO_TCP, 2), 0);
	assert_int_equal(hits(UINT32_MAX - 1, IPPROTO_TCP, 1), 1);
}

static void test_deny_and_phases(void **state)
{
	struct rl_entry *e;

	(void)state;
	add(A4(198, 51, 100, 0), 24, IPPROTO_TCP, 443, 443);
	e = add(A4(198, 51, 100, 7), 32, IPPROTO_TCP, 80, 80);
	e->flags = RL_F_DENY;
	e = add(A4(203, 0, 113, 1), 32, IPPROTO_TCP, 443, 443);
	e->phases = 2;
	e = add(A4(203, 0, 113, 2), 32, IPPROTO_TCP, 443, 443);
	e->until = 1000; /* over now */
	assert_int_equal(compile_as(0, NULL), 0);
	assert_int_equal(hits(A4(198, 51, 100, 7), IPPROTO_TCP, 443), 0);
	assert_int_equal(hits(A4(198, 51, 100, 6), IPPROTO_TCP, 443), 1);
	assert_int_equal(hits(A4(203, 0, 113, 1), IPPROTO_TCP, 443), 0);
	assert_int_equal(hits(A4(203, 0, 113, 2), IPPROTO_TCP, 443), 0);
	assert_int_equal(compile_as(2, NULL), 0);
	assert_int_equal(hits(A4(203, 0, 113, 1), IPPROTO_TCP, 443), 1);
	assert_int_equal(compile_as(4, NULL), 0);
	assert_int_equal(hits(A4(203, 0, 113, 1), IPPROTO_TCP, 443), 0);
}

static void test_private(void **state)
{
	(void)state;
	conf.permit_private[0] = (struct eg_conf_permit){
		.dst = {A4(10, 3, 0, 0), 24},
		.proto = IPPROTO_TCP,
		.lo = 6443,
		.hi = 6443,
		.tenants = "acme,beta",
	};
	conf.permits_private = 1;
	add(0, 0, IPPROTO_TCP, 6443, 6443);
	assert_int_equal(compile_as(0, "acme"), 0);
	assert_int_equal(hits(A4(10, 3, 0, 10), IPPROTO_TCP, 6443), 0);
	add(A4(10, 0, 0, 0), 8, IPPROTO_TCP, 1, 65535);
	assert_int_equal(compile_as(0, "acme"), 0);
	disjoint();
	assert_int_equal(hits(A4(10, 3, 0, 10), IPPROTO_TCP, 6443), 1);
	assert_int_equal(hits(A4(10, 3, 0, 10), IPPROTO_TCP, 443), 0);
	assert_int_equal(hits(A4(10, 3, 1, 10), IPPROTO_TCP, 6443), 0);
	assert_int_equal(compile_as(0, "beta"), 0);
	assert_int_equal(hits(A4(10, 3, 0, 10), IPPROTO_TCP, 6443), 1);
	assert_int_equal(compile_as(0, "bet"), 0);
	assert_int_equal(hits(A4(10, 3, 0, 10), IPPROTO_TCP, 6443), 0);
	assert_int_equal(compile_as(0, NULL), 0);
	assert_int_equal(hits(A4(10, 3, 0, 10), IPPROTO_TCP, 6443), 0);
}

static void test_icmp_key(void **state)
{
	(void)state;
	add(A4(198, 51, 100, 7), 32, IPPROTO_ICMP, 8, 8);
	assert_int_equal(compile_as(0, NULL), 0);
	assert_int_equal(nbox, 1);
	assert_int_equal(box[0].plo, 0x800);
	assert_int_equal(box[0].phi, 0x800);
}

static void test_too_many(void **state)
{
	(void)state;
	/* 500 ranges, each broken up by 500 others: far over the limit */
	for (uint32_t i = 0; i < MAX; i++)
		add(A4(198, 51, 100, 0) + 2 * i, (uint8_t)(i % 2 ? 16 : 32),
		    IPPROTO_TCP, (uint16_t)(4 * i), (uint16_t)(4 * i + 1));
	assert_int_equal(compile_as(0, NULL), -E2BIG);
	assert_null(box);
}

/* Against the definition, on random policies in a small space. */
static void test_random(void **state)
{
	uint32_t seed = 12345;

	(void)state;
	for (int round = 0; round < 200; round++) {
		prog->nentries = 0;
		for (int i = 0; i < 12; i++) {
			uint32_t r = seed = seed * 1664525 + 1013904223;
			uint8_t len = (uint8_t)(26 + (r >> 8) % 7);
			uint32_t a = A4(198, 51, 100, (r >> 16) & 63);
			uint16_t lo = (uint16_t)((r >> 24) & 7);
			struct rl_entry *e;

			e = add(a & eg_prefix_mask(len), len, IPPROTO_TCP, lo,
				(uint16_t)(lo + (r & 3)));
			e->flags = (r & 0xf0) == 0x10 ? RL_F_DENY : 0;
		}
		assert_int_equal(compile_as(0, NULL), 0);
		disjoint();
		for (uint32_t a = 0; a < 64; a++)
			for (uint16_t p = 0; p < 12; p++) {
				uint32_t addr = A4(198, 51, 100, a);
				bool allow = false, deny = false;

				for (uint32_t i = 0; i < prog->nentries; i++) {
					struct rl_entry *e = &prog->entry[i];

					if (!eg_prefix_has(e->dst, addr))
						continue;
					if (e->flags)
						deny = true;
					else if (p >= e->port[0].lo &&
						 p <= e->port[0].hi)
						allow = true;
				}
				assert_int_equal(hits(addr, IPPROTO_TCP, p),
						 allow && !deny);
			}
	}
}

static void test_denied(void **state)
{
	(void)state;
	assert_int_equal(rl_space_denied(&space, A4(168, 63, 129, 16)),
			 EG_REASON_METADATA);
	assert_int_equal(rl_space_denied(&space, A4(10, 200, 3, 1)),
			 EG_REASON_HOST);
	assert_int_equal(rl_space_denied(&space, A4(10, 201, 0, 255)),
			 EG_REASON_HOST);
	assert_int_equal(rl_space_denied(&space, A4(255, 255, 255, 255)),
			 EG_REASON_RESERVED);
	assert_int_equal(rl_space_denied(&space, A4(10, 3, 0, 1)),
			 EG_REASON_NONE);
}

static void test_pins(void **state)
{
	struct rl_pins p = {0};

	(void)state;
	assert_null(rl_pins_find(&p, 1, 6, 443));
	for (uint32_t i = 0; i < RL_PINS_MAX; i++) {
		assert_int_equal(rl_pins_room(&p, 1, 100), 0);
		rl_pins_put(&p, &(struct rl_pin_ent){ .addr = i, .proto = 6,
						      .port = 443,
						      .until_ms = 200 + i });
	}
	assert_int_equal(rl_pins_live(&p, 100), RL_PINS_MAX);
	assert_int_equal(rl_pins_room(&p, 1, 100), -ENOSPC);
	assert_non_null(rl_pins_find(&p, 4095, 6, 443));
	assert_null(rl_pins_find(&p, 4095, 17, 443));
	assert_null(rl_pins_find(&p, 4096, 6, 443));
	/* those that ended by 1200 make room: 200 .. 1200 */
	assert_int_equal(rl_pins_room(&p, 1001, 1200), 0);
	assert_null(rl_pins_find(&p, 1000, 6, 443));
	assert_non_null(rl_pins_find(&p, 1001, 6, 443));
	assert_int_equal(rl_pins_room(&p, 1002, 1200), -ENOSPC);
	rl_pins_clear(&p);
	assert_int_equal(rl_pins_live(&p, 0), 0);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_merge),
		T(test_overlap),
		T(test_everything),
		T(test_end_of_space),
		T(test_deny_and_phases),
		T(test_private),
		T(test_icmp_key),
		T(test_too_many),
		T(test_random),
		T(test_denied),
		T(test_pins),
	};

	return cmocka_run_group_tests_name("rules/compile", tests, NULL, NULL);
}
