// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd tests: the dns role's side of the messages between roles.
 */
#include "dnsguard/dnsguard.h"
#include "netpool/base/util.h"
#include "rules/policy.h"
#include "tests/lib/dns_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

struct rig {
	struct dw *w;
	struct eg_role_ctx ctx;
	struct eg_chan *main_end; /* ours */
	struct eg_timer *step;
	uint16_t type; /* last message that came */
	uint64_t cookie;
	struct eg_dm_stats stats;
};

static void on_msg(void *arg, struct eg_chan *c, struct eg_msg *m)
{
	struct rig *r = arg;

	(void)c;
	r->type = m->type;
	r->cookie = m->cookie;
	if (m->type == EG_DM_STATS)
		memcpy(&r->stats, m->body, sizeof(r->stats));
}

static void on_close(void *arg, struct eg_chan *c, const char *why)
{
	(void)arg;
	(void)c;
	fail_msg("channel closed: %s", why);
}

static const struct eg_chan_ops chan_ops = {on_msg, on_close};

/* The role's end goes through the role, as its runtime would do. */
static void to_role(void *arg, struct eg_chan *c, struct eg_msg *m)
{
	struct rig *r = arg;

	(void)c;
	dg_role_ops.on_msg(&r->ctx, EG_ROLE_MAIN, m);
}

static const struct eg_chan_ops role_chan_ops = {to_role, on_close};

static void on_step(void *arg)
{
	eg_loop_stop(arg);
}

static void pump(struct rig *r)
{
	for (int i = 0; i < 3; i++) {
		eg_timer_set(r->step, 1000);
		assert_int_equal(eg_loop_run(r->ctx.loop), 0);
	}
}

static void begin(struct rig *r)
{
	struct eg_err err = {0};
	int fd[2];

	memset(r, 0, sizeof(*r));
	r->w = dw_new();
	r->ctx.ops = &dg_role_ops;
	r->ctx.conf = &r->w->conf;
	assert_int_equal(eg_loop_new(&r->ctx.loop), 0);
	r->step = eg_timer_new(r->ctx.loop, on_step, r->ctx.loop);
	assert_int_equal(dg_role_ops.start(&r->ctx, &err), 0);
	assert_int_equal(eg_chan_pair(fd), 0);
	assert_int_equal(
		eg_chan_new(&r->main_end, r->ctx.loop, fd[0], &chan_ops, r), 0);
	assert_int_equal(eg_chan_new(&r->ctx.peer[EG_ROLE_MAIN], r->ctx.loop,
				     fd[1], &role_chan_ops, r),
			 0);
	dg_role_ops.on_peer(&r->ctx, EG_ROLE_MAIN);
	pump(r);
}

static void end(struct rig *r)
{
	dg_role_ops.stop(&r->ctx);
	eg_chan_free(r->main_end);
	eg_chan_free(r->ctx.peer[EG_ROLE_MAIN]);
	eg_timer_free(r->step);
	eg_loop_free(r->ctx.loop);
	dw_free(r->w);
}

static void lease(struct rig *r, uint32_t slot, uint64_t generation, int fd,
		  const uint8_t digest[EG_DIGEST])
{
	struct eg_md_lease m = {.slot = slot, .generation = generation};

	memcpy(m.digest, digest, EG_DIGEST);
	assert_int_equal(
		eg_chan_send(r->main_end, EG_MD_LEASE, 0, &m, sizeof(m), fd), 0);
	pump(r);
}

static void ask_stats(struct rig *r, uint32_t slot, uint64_t generation)
{
	struct eg_md_unlease m = {.slot = slot, .generation = generation};

	r->type = 0;
	assert_int_equal(
		eg_chan_send(r->main_end, EG_MD_STATS, 77, &m, sizeof(m), -1), 0);
	pump(r);
	assert_int_equal(r->type, EG_DM_STATS);
	assert_int_equal(r->cookie, 77);
	assert_int_equal(r->stats.slot, slot);
	assert_int_equal(r->stats.generation, generation);
}

/* READY on a new main, leases with a program, stats also after the end. */
static void life(void **state)
{
	const struct rl_prog *none;
	struct eg_md_unlease u = {.slot = 3, .generation = 9};
	struct rig r;
	EG_CLEANUP_FD int fd = -1;

	(void)state;
	begin(&r);
	assert_int_equal(r.type, EG_DM_READY);
	(void)rl_prog_none(&none);
	fd = rl_prog_seal(none);
	assert_true(fd >= 0);
	lease(&r, 3, 9, fd, none->digest);
	lease(&r, 3, 9, fd, none->digest); /* replayed */
	lease(&r, 4, 10, fd, none->digest);
	ask_stats(&r, 3, 9);
	assert_int_equal(
		eg_chan_send(r.main_end, EG_MD_UNLEASE, 0, &u, sizeof(u), -1), 0);
	ask_stats(&r, 3, 9);
	ask_stats(&r, 400, 1234);
	end(&r);
}

/* A program that is not the lease's, or none at all, leaves it unleased. */
static void bad_programs(void **state)
{
	static const uint8_t other[EG_DIGEST] = {1, 2, 3};
	const struct rl_prog *none;
	struct rig r;
	EG_CLEANUP_FD int fd = -1;
	int pair[2];

	(void)state;
	begin(&r);
	(void)rl_prog_none(&none);
	fd = rl_prog_seal(none);
	lease(&r, 3, 9, fd, other);
	assert_int_equal(eg_chan_pair(pair), 0);
	lease(&r, 3, 9, pair[0], none->digest);
	lease(&r, 3, 9, fd, none->digest);
	ask_stats(&r, 3, 9);
	(void)close(pair[0]);
	(void)close(pair[1]);
	end(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(life),
		cmocka_unit_test(bad_programs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
