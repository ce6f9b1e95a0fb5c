// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd tests: the guard over long times and under load: what scenarios
 * of a few lines cannot show.
 */
#include "netpool/base/util.h"
#include "tests/lib/dns_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#define UNIVERSE 4000 /* addresses a service rotates through */

/* What the kernel would hold: until when each address is pinned. */
static int64_t kernel[UNIVERSE];
static uint64_t seed = 7;

static uint32_t rng(void)
{
	seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return (uint32_t)(seed >> 33);
}

static void query(struct dw *w, const char *name)
{
	struct eg_name n = dw_name(name);
	struct dg_client c = dw_client(w, 1);
	uint8_t b[600];

	dg_guard_query(w->guard, &c, b,
		       dw_query(b, 1, &n, DG_T_A, DG_C_IN, true));
}

/* Answer the oldest upstream query with @n addresses from @first on. */
static void answer(struct dw *w, const uint32_t *addr, uint32_t n, uint32_t ttl)
{
	uint8_t b[4096];
	struct dw_send s = w->send[0];
	size_t len = s.len - 11;

	dw_shift(w->send, w->nsends);
	memcpy(b, s.msg, len);
	dg_put16(b + 2, DG_QR | DG_RA);
	dg_put16(b + 6, n);
	dg_put16(b + 10, 0);
	for (uint32_t i = 0; i < n; i++, len += 16) {
		memcpy(b + len, "\xc0\x0c\0\1\0\1", 6);
		dg_put32(b + len + 6, ttl);
		dg_put16(b + len + 10, 4);
		dg_put32(b + len + 12, addr[i]);
	}
	dg_up_on_datagram(dg_guard_up(w->guard), s.req, b, len, w->now);
}

static uint32_t base(void)
{
	return 0x12000000;
}

static void ack_all(struct dw *w)
{
	while (w->npins) {
		struct dw_pin p = w->pin[0];
		struct eg_md_pinned m = {.slot = p.m.slot,
					 .generation = p.m.generation};

		dw_shift(w->pin, w->npins);
		for (uint32_t i = 0; i < p.m.naddrs; i++) {
			uint32_t k = p.m.addr[i] - base();
			int64_t until = w->now + (int64_t)p.m.lifetime_s *
							 EG_NSEC_PER_SEC;

			if (k < UNIVERSE && kernel[k] < until)
				kernel[k] = until;
		}
		dg_guard_pinned(w->guard, p.cookie, &m);
	}
}

static unsigned int live_pins(const struct dw *w)
{
	unsigned int n = 0;

	for (int i = 0; i < UNIVERSE; i++)
		n += kernel[i] > w->now;
	return n;
}

/*
 * Every address shown is pinned for as long as it may be kept: @hold s for
 * a client that ignores the TTL. Pins of the name never pass their cap.
 */
static void rotate(uint32_t per_answer, uint32_t ttl, int64_t hold)
{
	struct dw *w = dw_new();
	unsigned int answered = 0, most = 0;

	memset(kernel, 0, sizeof(kernel));
	(void)dw_entry(w, RL_EXACT, "s3.example");
	dw_lease(w, 1, 1, 0);
	for (int second = 0; second < 3600; second++) {
		uint32_t addr[16];

		for (uint32_t i = 0; i < per_answer; i++)
			addr[i] = base() + rng() % UNIVERSE;
		query(w, "s3.example");
		if (w->nsends)
			answer(w, addr, per_answer, ttl);
		ack_all(w);
		assert_int_equal(w->nreplies, 1);
		for (uint32_t i = 0; i < dg_get16(w->reply[0].msg + 6); i++) {
			uint32_t a =
				dg_get32(w->reply[0].msg + 12 + 16 + 16 * i + 12);

			assert_true(kernel[a - base()] >=
				    w->now + hold * EG_NSEC_PER_SEC);
			answered++;
		}
		most = eg_max_u32(most, live_pins(w));
		assert_true(most <= DG_PINS_NAME);
		w->nreplies = 0;
		w->nnames = 0;
		dw_advance(w, 1000);
	}
	assert_true(answered >= 3600 * per_answer * 9 / 10);
	print_message("%u addresses an answer, TTL %u: at most %u pins\n",
		      per_answer, ttl, most);
	dw_free(w);
}

/* Case 92. */
static void rotation(void **state)
{
	(void)state;
	rotate(8, 5, 60);
	rotate(16, 0, 60);
}

/* 4,096 pins a lease: beyond it names without pins get SERVFAIL. */
static void lease_cap(void **state)
{
	struct dw *w = dw_new();
	uint32_t addr[16];
	struct eg_dm_stats s;

	(void)state;
	w->conf.dns_rate = w->conf.dns_burst = 100000;
	(void)dw_entry(w, RL_ONE, "example");
	w->prog->entry[0].max_names = 1000;
	dw_lease(w, 1, 1, 0);
	for (uint32_t i = 0; i < 257; i++) {
		char name[32];

		(void)snprintf(name, sizeof(name), "n%u.example", i);
		for (uint32_t k = 0; k < 16; k++)
			addr[k] = base() + i * 16 + k;
		query(w, name);
		answer(w, addr, 16, 600);
		ack_all(w);
		assert_int_equal(w->nreplies, 1);
		assert_int_equal(w->reply[0].msg[3] & 0xf,
				 i < 256 ? DG_NOERROR : DG_SERVFAIL);
		w->nreplies = w->ndenials = w->nnames = 0;
	}
	assert_true(dg_guard_stats(w->guard, 1, 1, &s));
	assert_int_equal(s.dns[EG_REASON_QUOTA].denied, 1);
	query(w, "n0.example"); /* has pins: goes on */
	if (w->nsends)
		answer(w, addr, 16, 600);
	ack_all(w);
	assert_int_equal(w->reply[0].msg[3] & 0xf, DG_NOERROR);
	dw_free(w);
}

/* Pins adopted after a restart count. */
static void adopted(void **state)
{
	struct eg_dm_pin m = {
		.slot = 1, .naddrs = 16, .generation = 1, .lifetime_s = 1000};
	struct dw *w = dw_new();
	uint32_t addr[16];

	(void)state;
	memset(kernel, 0, sizeof(kernel));
	(void)dw_entry(w, RL_EXACT, "s3.example");
	dw_lease(w, 1, 1, 0);
	m.name = dw_name("s3.example");
	for (uint32_t i = 0; i < 16; i++) {
		for (uint32_t k = 0; k < 16; k++) {
			m.addr[k] = base() + 16 * i + k;
			kernel[16 * i + k] = w->now + 1000 * EG_NSEC_PER_SEC;
		}
		dg_guard_pins(w->guard, &m);
	}
	for (uint32_t k = 0; k < 16; k++)
		addr[k] = base() + 3000 + k;
	query(w, "s3.example");
	answer(w, addr, 16, 60);
	assert_int_equal(w->npins, 1);
	assert_true(w->pin[0].m.addr[0] < base() + 256); /* sticky */
	dw_free(w);
}

/* What a refused name costs: walk, lookup, decision, record, answer. */
static void denied_cost(void **state)
{
	struct eg_name n = dw_name("exfil.attacker.test");
	struct dw *w = dw_new();
	struct timespec a, b;
	struct dg_client c;
	uint8_t q[600];
	size_t len;
	double ns;

	(void)state;
	w->conf.dns_rate = w->conf.dns_burst = 1000000000;
	for (int i = 0; i < 60; i++) {
		char name[40];

		(void)snprintf(name, sizeof(name), "svc%d.eu.example.com", i);
		(void)dw_entry(w, i % 8 ? RL_EXACT : RL_ONE, name);
	}
	dw_lease(w, 1, 1, 0);
	c = dw_client(w, 1);
	len = dw_query(q, 1, &n, DG_T_A, DG_C_IN, true);
	(void)clock_gettime(CLOCK_MONOTONIC, &a);
	for (int i = 0; i < 1000000; i++) {
		dg_guard_query(w->guard, &c, q, len);
		w->nreplies = 0;
	}
	(void)clock_gettime(CLOCK_MONOTONIC, &b);
	ns = ((double)(b.tv_sec - a.tv_sec) * 1e9 +
	      (double)(b.tv_nsec - a.tv_nsec)) /
	     1e6;
	print_message("denied query: %.0f ns\n", ns);
	assert_true(ns < 20000); /* the parse budget, generously */
	dw_free(w);
}

/* ---- whose query it is ----------------------------------------------------------- */

/* A query under the mark of a lease; how many answers it got. */
static size_t asked_under(struct dw *w, uint32_t epoch, const char *name)
{
	struct eg_name n = dw_name(name);
	struct dg_client c = dw_client(w, 1);
	uint8_t b[600];

	c.epoch = epoch;
	w->nreplies = 0;
	dg_guard_query(w->guard, &c, b,
		       dw_query(b, 1, &n, DG_T_A, DG_C_IN, true));
	return w->nreplies;
}

/* One that waited until its slot was the next tenant's is nobody's. */
static void of_a_former_tenant(void **state)
{
	struct dw *w = dw_new();
	struct dg_client c;

	(void)state;
	(void)dw_entry(w, RL_EXACT, "app.example");
	dw_lease(w, 1, 7, 0);
	c = dw_client(w, 1);
	assert_true(dg_guard_knows(w->guard, &c)); /* an old kernel: no mark */
	c.epoch = 7;
	assert_true(dg_guard_knows(w->guard, &c));
	c.epoch = 8; /* main's message is still to be read */
	assert_false(dg_guard_knows(w->guard, &c));
	assert_int_equal(asked_under(w, 7, "denied.example"), 1);
	assert_int_equal(asked_under(w, 6, "denied.example"), 0);
	assert_int_equal(w->ndenials, 1); /* nor is it held against the present one */
	assert_int_equal(asked_under(w, 6, "app.example"), 0);
	assert_int_equal(w->nsends, 0);
	assert_int_equal(asked_under(w, 0, "denied.example"), 1);
	dg_guard_unlease(w->guard, 1, 7);
	c.epoch = 7;
	assert_false(dg_guard_knows(w->guard, &c));
	dw_free(w);
}

/* A lease that is closed is denied everything for that reason. */
static void closed(void **state)
{
	struct dw *w = dw_new();
	struct eg_md_lease m = {.slot = 1, .generation = 7};

	(void)state;
	(void)dw_entry(w, RL_EXACT, "app.example");
	dw_lease(w, 1, 7, 0);
	assert_int_equal(asked_under(w, 7, "app.example"), 0);
	assert_int_equal(w->nsends, 1); /* asked on */
	m.closed = EG_REASON_REVOKED;
	memcpy(m.digest, w->prog->digest, EG_DIGEST);
	assert_int_equal(dg_guard_lease(w->guard, &m,
					dg_policies_get(dg_guard_policies(w->guard),
							m.digest)),
			 0);
	w->nreplies = 0;
	answer(w, (const uint32_t[]){base()}, 1, 60);
	assert_int_equal(w->npins, 0); /* what was under way gets no pin */
	assert_int_equal(w->nreplies, 1);
	assert_int_equal(w->ndenials, 1);
	assert_int_equal(w->denial[0].reason, EG_REASON_REVOKED);
	assert_int_equal(asked_under(w, 7, "app.example"), 1);
	assert_int_equal(w->ndenials, 2);
	assert_int_equal(w->denial[1].reason, EG_REASON_REVOKED);
	assert_int_equal(w->nsends, 0);
	dw_free(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rotation),
		cmocka_unit_test(lease_cap),
		cmocka_unit_test(adopted),
		cmocka_unit_test(denied_cost),
		cmocka_unit_test(of_a_former_tenant),
		cmocka_unit_test(closed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
