// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The state of main without a kernel: a fake enforcer that records what it is
 * asked, and siblings at the other end of real channels that answer like
 * build, dns and audit do. Shows order, fencing, idempotence and what happens
 * when somebody fails or is away.
 */
#include "netpool/state.h"
#include "netpool/base/plan.h"
#include "netpool/base/util.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define SLOTS 8

struct world {
	struct eg_loop *loop;
	struct eg_conf conf;
	struct eg_role_ctx ctx;
	struct np_main *m;
	struct eg_chan *far[EG_ROLE_COUNT]; /* the siblings' ends */
	struct eg_chan *far_ctl;
	char dir[64];
	char log[4096]; /* what happened, in order */
	bool build_fails, build_mute, dns_mute, audit_mute, enforcer_fails;
	int guest_error;
	uint64_t gen;
	struct eg_mp_lease reply;
	struct eg_mp_end end;
	unsigned int replies, ends;
	unsigned int said; /* messages in either direction */
};

static struct world w;

static void note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void note(const char *fmt, ...)
{
	size_t n = strlen(w.log);
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(w.log + n, sizeof(w.log) - n, fmt, ap);
	va_end(ap);
}

/* ---- the fake enforcer ------------------------------------------------------ */

static int f_gateway(struct np_main *m, uint32_t g, int fd, bool adopted,
		     struct eg_err *err)
{
	(void)adopted;
	(void)err;
	eg_close_p(&fd);
	m->gw[g].handle = &w;
	note("table%u ", g);
	return 0;
}

static void f_close(struct np_main *m, uint32_t g)
{
	m->gw[g].handle = NULL;
}

static int f_host(struct np_main *m, int fd, struct eg_err *err)
{
	(void)m;
	(void)err;
	eg_close_p(&fd);
	return 0;
}

static int f_addrs(struct np_main *m, uint32_t g, struct eg_err *err)
{
	(void)m;
	(void)g;
	(void)err;
	return 0;
}

static int f_map(struct np_main *m, int fd, struct np_prog *p,
		 struct eg_err *err)
{
	uint8_t b = 0;

	(void)m;
	if (fd < 0 || pread(fd, &b, 1, 0) != 1)
		return eg_err_set(err, -EBADMSG, "no program");
	memset(p->digest, b, EG_DIGEST);
	return 0;
}

static void f_unmap(struct np_prog *p)
{
	(void)p;
}

static bool f_text(const struct np_prog *p, struct eg_ma_policy *ret)
{
	memset(ret, 0, sizeof(*ret));
	memcpy(ret->digest, p->digest, EG_DIGEST);
	ret->len = 1;
	return true;
}

static int f_none(int *fd)
{
	*fd = memfd_create("none", MFD_CLOEXEC);
	return *fd < 0 || write(*fd, "n", 1) != 1 ? -EIO : 0;
}

static void f_names(const struct np_prog *p, uint32_t phases, char *buf)
{
	(void)p;
	(void)phases;
	buf[0] = '\0';
}

static void f_digest(const struct np_prog *p, uint32_t phases, uint8_t *ret)
{
	memcpy(ret, p->digest, EG_DIGEST);
	ret[0] = (uint8_t)phases;
}

#define ENFORCER_CALL(name)                                                \
	static int f_##name(struct np_main *m, struct np_lease *l,         \
			    struct eg_err *err)                            \
	{                                                                  \
		(void)m;                                                   \
		note(#name "%u ", l->l.slot);                              \
		return w.enforcer_fails ? eg_err_set(err, -EIO, "kernel said no") : \
					  0;                               \
	}
ENFORCER_CALL(lease)
ENFORCER_CALL(rephase)
ENFORCER_CALL(unlease)
ENFORCER_CALL(scrub)
ENFORCER_CALL(take_over)

static int f_pin(struct np_main *m, struct np_lease *l,
		 const struct eg_dm_pin *p, struct eg_err *err)
{
	(void)m;
	(void)l;
	(void)p;
	(void)err;
	return 0;
}

static int f_counters(struct np_main *m, struct np_lease *l,
		      struct eg_reason_counts *c, uint64_t *u,
		      struct eg_err *err)
{
	(void)m;
	(void)l;
	(void)err;
	*u = 0;
	c[EG_REASON_METADATA].denied = 3;
	c[EG_REASON_METADATA].suppressed = 1;
	c[EG_REASON_METADATA].sent = 2;
	return 0;
}

static void f_stats(struct np_main *m, struct np_lease *l,
		    struct eg_mp_stats *s)
{
	(void)m;
	(void)l;
	(void)s;
}

static const struct np_enforcer fake = {
	.gateway_open = f_gateway, .gateway_close = f_close, .host = f_host,
	.host_addrs = f_addrs, .prog_map = f_map, .prog_unmap = f_unmap,
	.prog_text = f_text,
	.prog_none = f_none, .phase_names = f_names, .digest = f_digest,
	.lease = f_lease, .rephase = f_rephase, .unlease = f_unlease,
	.scrub = f_scrub, .take_over = f_take_over, .pin = f_pin,
	.counters = f_counters, .stats = f_stats,
};

/* ---- the siblings -------------------------------------------------------------- */

static void answer(enum eg_role who, uint16_t type, const void *b, size_t n,
		   int fd)
{
	assert_int_equal(eg_chan_send(w.far[who], type, 0, b, n, fd), 0);
}

static void as_build(struct eg_msg *m)
{
	const struct eg_mb_slot *s = m->body;
	struct eg_bm_slot a = { .error = w.build_fails ? -EIO : 0 };
	struct eg_bm_gateway g = { .mtu = 1500 };
	int fd;

	if (m->type == EG_MB_GUEST && w.guest_error)
		a.error = w.guest_error;

	if (m->type == EG_MB_SCAN) {
		answer(EG_ROLE_BUILD, EG_BM_SCAN_END, NULL, 0, -1);
	} else if (m->type == EG_MB_GATEWAY || m->type == EG_MB_GATEWAY_UP) {
		g.gateway = ((const struct eg_mb_gateway *)m->body)->gateway;
		fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
		if (m->type == EG_MB_GATEWAY_UP)
			note("up%u ", g.gateway);
		answer(EG_ROLE_BUILD, m->type == EG_MB_GATEWAY ?
			       EG_BM_GATEWAY : EG_BM_GATEWAY_UP,
		       &g, sizeof(g), m->type == EG_MB_GATEWAY ? fd : -1);
		close(fd);
	} else if (m->type == EG_MB_BUILD) {
		a.slot = ((const struct eg_mb_slots *)m->body)->first;
		answer(EG_ROLE_BUILD, EG_BM_BUILT, &a, sizeof(a), -1);
	} else {
		a.slot = s->slot;
		a.generation = s->generation;
		if (m->type == EG_MB_DOWN)
			note("down%u ", s->slot);
		if (m->type == EG_MB_SCRAP)
			note("scrap%u ", s->slot);
		if (m->type == EG_MB_GUEST)
			note("guest%u ", s->slot);
		if (m->type == EG_MB_ADOPTED) {
			note("adopted%u.%llu ", s->slot,
			     (unsigned long long)s->generation);
			return;
		}
		answer(EG_ROLE_BUILD, m->type == EG_MB_ARM   ? EG_BM_ARMED :
				      m->type == EG_MB_GUEST ? EG_BM_GUEST :
				      m->type == EG_MB_DOWN  ? EG_BM_DOWN :
							       EG_BM_SCRAPPED,
		       &a, sizeof(a), -1);
	}
}

static void as_dns(struct eg_msg *m)
{
	const struct eg_md_unlease *u = m->body;
	struct eg_dm_stats s = { .slot = u->slot, .generation = u->generation };

	if (m->type == EG_MD_LEASE)
		note("dns+%u ", u->slot);
	if (m->type == EG_MD_UNLEASE)
		note("dns-%u ", u->slot);
	if (m->type == EG_MD_STATS)
		answer(EG_ROLE_DNS, EG_DM_STATS, &s, sizeof(s), -1);
}

static void as_audit(struct eg_msg *m)
{
	const struct eg_ma_end *e = m->body;
	struct eg_am_sealed s = { 0 };

	if (m->type == EG_MA_POLICY)
		note("text ");
	if (m->type == EG_MA_LEASE)
		note("audit+ ");
	if (m->type != EG_MA_END)
		return;
	note("seal%u ", e->slot);
	assert_int_equal(e->packet[EG_REASON_METADATA].denied, 3);
	s.slot = e->slot;
	s.generation = e->generation;
	s.packet_logged[EG_REASON_METADATA] = 2;
	answer(EG_ROLE_AUDIT, EG_AM_SEALED, &s, sizeof(s), -1);
}

static void as_api(struct eg_msg *m)
{
	if (m->type == EG_MP_LEASE) {
		memcpy(&w.reply, m->body, sizeof(w.reply));
		w.replies++;
	} else if (m->type == EG_MP_END) {
		memcpy(&w.end, m->body, sizeof(w.end));
		w.ends++;
	}
}

static void far_on_msg(void *arg, struct eg_chan *c, struct eg_msg *m)
{
	(void)arg;
	w.said++;
	if (c == w.far[EG_ROLE_BUILD] && !w.build_mute)
		as_build(m);
	else if (c == w.far[EG_ROLE_DNS] && !w.dns_mute)
		as_dns(m);
	else if (c == w.far[EG_ROLE_AUDIT] && !w.audit_mute)
		as_audit(m);
	else if (c == w.far[EG_ROLE_API])
		as_api(m);
	else if (c == w.far_ctl && m->type == EG_CTL_RESERVE) {
		struct eg_ctl_reserved r = { .first = w.gen,
					     .end = w.gen + NP_RESERVE };

		w.gen = r.end;
		np_pool_generations(w.m, &r);
	}
}

static void near_on_msg(void *arg, struct eg_chan *c, struct eg_msg *m)
{
	(void)arg;
	w.said++;
	if (c == w.ctx.peer[EG_ROLE_BUILD])
		np_pool_on_build(w.m, m);
	else if (c == w.ctx.peer[EG_ROLE_DNS] && m->type == EG_DM_STATS)
		np_release_dns(w.m, m->body);
	else if (c == w.ctx.peer[EG_ROLE_AUDIT] && m->type == EG_AM_SEALED)
		np_release_sealed(w.m, m->body);
}

static void closed(void *arg, struct eg_chan *c, const char *why)
{
	(void)arg;
	(void)c;
	fail_msg("channel closed: %s", why);
}

static const struct eg_chan_ops far_ops = { far_on_msg, closed };
static const struct eg_chan_ops near_ops = { near_on_msg, closed };

static void stop(void *arg)
{
	eg_loop_stop(arg);
}

/* Until nobody has said anything for a while, however slow the machine. */
static void settle(void)
{
	struct eg_timer *t = eg_timer_new(w.loop, stop, w.loop);
	unsigned int before;

	do {
		before = w.said;
		eg_timer_set(t, 20000);
		assert_int_equal(eg_loop_run(w.loop), 0);
	} while (w.said != before);
	eg_timer_free(t);
}

static void tick_at(int64_t now)
{
	for (uint32_t k = 0; k < SLOTS; k++)
		if (w.m->slot[k].lease)
			np_release_tick(w.m, w.m->slot[k].lease, now);
	settle();
}

static void connect_pair(struct eg_chan **near, struct eg_chan **far)
{
	int sv[2];

	assert_int_equal(eg_chan_pair(sv), 0);
	assert_int_equal(eg_chan_new(near, w.loop, sv[0], &near_ops, NULL), 0);
	assert_int_equal(eg_chan_new(far, w.loop, sv[1], &far_ops, NULL), 0);
}

static void main_open(void)
{
	struct eg_err err = { 0 };

	w.m = calloc(1, sizeof(*w.m));
	w.m->ctx = &w.ctx;
	w.m->conf = &w.conf;
	w.m->k = &fake;
	w.m->run_fd = open(w.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	w.ctx.priv = w.m;
	assert_int_equal(np_pool_init(w.m, &err), 0);
	w.m->go = true;
	(void)np_pool_generation(w.m);
	np_pool_start(w.m);
	settle();
}

static void main_close(void)
{
	for (uint32_t k = 0; k < SLOTS; k++)
		if (w.m->slot[k].lease)
			np_lease_expired(w.m, w.m->slot[k].lease);
	np_tombs_free(w.m->tombs);
	eg_close_p(&w.m->run_fd);
	free(w.m->slot);
	free(w.m->id_hash);
	free(w.m->uid_hash);
	np_events_free(w.m);
	free(w.m->pending);
	free(w.m);
}

static int setup(void **state)
{
	static const enum eg_role roles[] = { EG_ROLE_BUILD, EG_ROLE_API,
					      EG_ROLE_DNS, EG_ROLE_AUDIT };
	char sub[80];

	(void)state;
	memset(&w, 0, sizeof(w));
	w.gen = 1;
	(void)snprintf(w.dir, sizeof(w.dir), "/tmp/eg-lease.XXXXXX");
	assert_non_null(mkdtemp(w.dir));
	(void)snprintf(sub, sizeof(sub), "%s/leases", w.dir);
	assert_int_equal(mkdir(sub, 0700), 0);
	w.conf.slots = SLOTS;
	w.conf.slots_per_gateway = 4;
	w.conf.gateways = 2;
	w.conf.prefill = -2;
	w.conf.armed = 2;
	w.conf.default_ttl_s = 3600;
	w.conf.max_ttl_s = 86400;
	w.conf.tombstone_s = 3600;
	w.conf.prefix = (struct eg_prefix){ 0x0ac80000, 16 };
	(void)snprintf(w.conf.netns, sizeof(w.conf.netns), "/run/netns");
	w.conf.adopt_dirs = 1;
	(void)snprintf(w.conf.adopt_from[0], EG_PATH, "/run/cni");
	w.conf.adopt_uids = 1;
	w.conf.adopt_uid[0] = 1001;
	assert_int_equal(eg_loop_new(&w.loop), 0);
	w.ctx.loop = w.loop;
	w.ctx.conf = &w.conf;
	for (size_t i = 0; i < EG_ARRAY_SIZE(roles); i++)
		connect_pair(&w.ctx.peer[roles[i]], &w.far[roles[i]]);
	connect_pair(&w.ctx.ctl, &w.far_ctl);
	main_open();
	return 0;
}

static int teardown(void **state)
{
	char cmd[160];

	(void)state;
	main_close();
	for (unsigned int i = 0; i < EG_ROLE_COUNT; i++) {
		eg_chan_free(w.ctx.peer[i]);
		eg_chan_free(w.far[i]);
	}
	eg_chan_free(w.ctx.ctl);
	eg_chan_free(w.far_ctl);
	eg_loop_free(w.loop);
	(void)snprintf(cmd, sizeof(cmd), "rm -rf %s", w.dir);
	return system(cmd); /* a test may */
}

static struct eg_lease_req request(const char *id, uint8_t digest)
{
	struct eg_lease_req q = { .ttl_s = 600, .owner = 1000 };

	(void)snprintf(q.id, sizeof(q.id), "%s", id);
	memset(q.request_digest, digest, EG_DIGEST);
	return q;
}

static uint32_t lease_as(const struct eg_lease_req *q)
{
	int fd = memfd_create("prog", MFD_CLOEXEC);

	assert_int_equal(write(fd, "p", 1), 1);
	np_lease_request(w.m, 1, &fd, q);
	eg_close_p(&fd);
	settle();
	return w.reply.status;
}

static uint32_t lease(const char *id, uint8_t digest)
{
	struct eg_lease_req q = request(id, digest);

	return lease_as(&q);
}

static uint32_t lease_guest(const char *id, const struct eg_guest *g)
{
	struct eg_lease_req q = request(id, 1);

	q.guest = *g;
	return lease_as(&q);
}

static uint32_t adopt(const char *id, uint32_t owner, const char *path)
{
	struct eg_lease_req q = request(id, 1);

	q.owner = owner;
	q.guest.mode = EG_GUEST_ADOPT;
	(void)snprintf(q.guest.ifname, sizeof(q.guest.ifname), "eth0");
	(void)snprintf(q.guest.netns_path, sizeof(q.guest.netns_path), "%s",
		       path);
	return lease_as(&q);
}

static uint32_t release(const char *id, uint32_t peer, uint64_t generation)
{
	struct eg_pm_which q = { .peer_uid = peer, .generation = generation };

	(void)snprintf(q.id, sizeof(q.id), "%s", id);
	np_release_request(w.m, 2, &q);
	settle();
	return w.reply.status;
}

/* ---- tests ------------------------------------------------------------------------ */

static void test_table_before_link(void **state)
{
	(void)state;
	assert_string_equal(w.log, "table0 up0 table1 up1 ");
	assert_int_equal(w.m->armed.count, 2);
	assert_int_equal(w.m->idle.count, SLOTS - 2);
}

static void test_lease_and_release_in_order(void **state)
{
	(void)state;
	w.log[0] = '\0';
	assert_int_equal(lease("a", 1), EG_OK_CREATED);
	assert_int_equal(w.reply.lease.slow, 0);
	assert_string_equal(w.reply.lease.netns, "/run/netns/eg-00000.1");
	assert_string_equal(w.log, "lease0 dns+0 text audit+ ");
	w.log[0] = '\0';
	assert_int_equal(release("a", 1000, 0), EG_OK);
	assert_string_equal(w.log, "unlease0 down0 dns-0 seal0 scrub0 scrap0 ");
	assert_int_equal(w.m->slot[0].lease == NULL, 1);
	assert_int_equal(release("a", 1000, 0), EG_E_GONE);
}

static void test_put_is_idempotent(void **state)
{
	uint64_t generation;

	(void)state;
	assert_int_equal(lease("a", 1), EG_OK_CREATED);
	generation = w.reply.lease.generation;
	assert_int_equal(lease("a", 1), EG_OK);
	assert_int_equal(w.reply.lease.generation, generation);
	assert_int_equal(lease("a", 2), EG_E_EXISTS);
	assert_int_equal(release("a", 1000, 0), EG_OK);
	assert_int_equal(lease("a", 1), EG_E_GONE); /* tombstone */
}

static void test_fences(void **state)
{
	(void)state;
	assert_int_equal(lease("a", 1), EG_OK_CREATED);
	assert_int_equal(release("a", 1000, 999), EG_E_STALE);
	assert_int_equal(release("a", 1001, 0), EG_E_FORBIDDEN);
	assert_int_equal(release("b", 1000, 0), EG_E_NOT_FOUND);
	assert_int_equal(release("a", 0, 0), EG_OK); /* root may */
}

static void test_generations_are_new_for_ever(void **state)
{
	uint64_t last = 0;
	char id[16];

	(void)state;
	for (int i = 0; i < 3 * SLOTS; i++) {
		(void)snprintf(id, sizeof(id), "l%d", i);
		assert_int_equal(lease(id, 1), EG_OK_CREATED);
		assert_true(w.reply.lease.generation != last);
		for (uint32_t k = 0; k < SLOTS; k++)
			if (w.m->slot[k].lease)
				assert_true(eg_epoch(w.m->slot[k].generation));
		last = w.reply.lease.generation;
		assert_int_equal(release(id, 1000, 0), EG_OK);
	}
}

static void test_exhausted_at_once(void **state)
{
	char id[16];

	(void)state;
	for (int i = 0; i < SLOTS; i++) {
		(void)snprintf(id, sizeof(id), "l%d", i);
		assert_int_equal(lease(id, 1), EG_OK_CREATED);
	}
	assert_int_equal(lease("more", 1), EG_E_EXHAUSTED);
	assert_int_equal(release("l3", 1000, 0), EG_OK);
	settle(); /* it is built again */
	assert_int_equal(lease("more", 1), EG_OK_CREATED);
}

static void test_kernel_refusal_leaves_nothing(void **state)
{
	(void)state;
	w.enforcer_fails = true;
	assert_int_equal(lease("a", 1), EG_E_INTERNAL);
	assert_non_null(strstr(w.reply.text, "kernel said no"));
	w.enforcer_fails = false;
	assert_null(np_lease_find(w.m, "a"));
	assert_int_equal(lease("a", 1), EG_OK_CREATED);
	settle();
	assert_int_equal(w.m->armed.count, 2); /* the scrapped one is back */
}

static void test_release_without_dns_and_audit(void **state)
{
	(void)state;
	assert_int_equal(lease("a", 1), EG_OK_CREATED);
	w.dns_mute = w.audit_mute = true;
	w.replies = 0;
	(void)release("a", 1000, 0);
	assert_int_equal(w.replies, 0);
	tick_at(eg_boot_ns() + 2 * NP_STEP_NS);
	tick_at(eg_boot_ns() + 4 * NP_STEP_NS);
	assert_int_equal(w.replies, 1);
	assert_int_equal(w.reply.status, EG_OK);
}

static void test_release_waits_for_build(void **state)
{
	(void)state;
	assert_int_equal(lease("a", 1), EG_OK_CREATED);
	w.build_mute = true;
	w.replies = 0;
	(void)release("a", 1000, 0);
	assert_int_equal(w.replies, 0);
	assert_non_null(strstr(w.log, "unlease0")); /* nothing passes already */
	w.build_mute = false;
	tick_at(eg_boot_ns() + 2 * NP_STEP_NS);
	assert_int_equal(w.reply.status, EG_OK);
}

static void test_expiry(void **state)
{
	(void)state;
	assert_int_equal(lease("a", 1), EG_OK_CREATED);
	tick_at(eg_boot_ns() + 599 * EG_NSEC_PER_SEC);
	assert_non_null(np_lease_find(w.m, "a"));
	tick_at(eg_boot_ns() + 601 * EG_NSEC_PER_SEC);
	assert_null(np_lease_find(w.m, "a"));
}

static void test_records_survive_main(void **state)
{
	uint64_t generation;
	uint8_t uid[EG_UID];

	(void)state;
	assert_int_equal(lease("a", 1), EG_OK_CREATED);
	assert_int_equal(lease("b", 1), EG_OK_CREATED);
	generation = w.reply.lease.generation;
	memcpy(uid, w.reply.lease.uid, EG_UID);
	assert_int_equal(release("a", 1000, 0), EG_OK);
	main_close();
	w.build_mute = true; /* only the records, no gateway comes up */
	main_open();
	w.build_mute = false;
	{
		struct eg_err err = { 0 };

		assert_int_equal(np_record_load(w.m, &err), 0);
	}
	assert_non_null(np_lease_find(w.m, "b"));
	assert_null(np_lease_find(w.m, "a"));
	assert_int_equal(np_lease_find(w.m, "b")->l.generation, generation);
	assert_memory_equal(np_lease_find(w.m, "b")->l.uid, uid, EG_UID);
	w.m->loaded = true;
	assert_int_equal(lease("a", 1), EG_E_GONE); /* the tombstone, too */
}

/* ---- what comes late ------------------------------------------------------------- */

static void from_build(uint16_t type, uint32_t slot, uint64_t generation, int error)
{
	struct eg_bm_slot a = { .slot = slot, .generation = generation,
				.error = error, .lingering = 1 };

	answer(EG_ROLE_BUILD, type, &a, sizeof(a), -1);
	settle();
}

/* Everything build can say of a lease that is over, while the next one has
 * the slot: nothing of it is heard. */
static void test_late_answers_of_build(void **state)
{
	static const uint16_t type[] = { EG_BM_SCRAPPED, EG_BM_DOWN,
					 EG_BM_ARMED,	 EG_BM_GUEST,
					 EG_BM_BUILT,	 EG_BM_EVENT };
	uint64_t old, now;
	uint32_t slot;

	(void)state;
	w.conf.slots_per_gateway = 4;
	for (int i = 0; i < SLOTS; i++) { /* only one is ever free */
		char id[8];

		(void)snprintf(id, sizeof(id), "l%d", i);
		assert_int_equal(lease(id, 1), EG_OK_CREATED);
	}
	slot = np_lease_find(w.m, "l3")->l.slot;
	old = np_lease_find(w.m, "l3")->l.generation;
	assert_int_equal(release("l3", 1000, 0), EG_OK);
	assert_int_equal(lease("next", 1), EG_OK_CREATED);
	assert_int_equal(w.reply.lease.slot, slot);
	now = w.reply.lease.generation;
	for (size_t i = 0; i < EG_ARRAY_SIZE(type); i++)
		for (int error = 0; error >= -ENODEV; error -= ENODEV) {
			w.log[0] = '\0';
			w.replies = 0;
			from_build(type[i], slot, old, error);
			assert_string_equal(w.log, "");
			assert_int_equal(w.replies, 0);
			assert_int_equal(w.m->slot[slot].state, NP_LEASED);
			assert_int_equal(w.m->slot[slot].generation, now);
			assert_non_null(np_lease_find(w.m, "next"));
			assert_int_equal(np_lease_find(w.m, "next")->l.state,
					 EG_LEASE_LEASED);
			assert_int_equal(w.m->count.lingering, 0);
		}
	/* and of the present one, what is not being waited for */
	from_build(EG_BM_SCRAPPED, slot, now, 0);
	from_build(EG_BM_DOWN, slot, now, 0);
	assert_int_equal(w.m->slot[slot].state, NP_LEASED);
	assert_int_equal(w.m->count.lingering, 0);
}

/* Late counters and seals: of the same slot, another lease's. */
static void test_late_answers_of_dns_and_audit(void **state)
{
	struct eg_dm_stats s = { 0 };
	struct eg_am_sealed sealed = { 0 };
	struct np_lease *l;

	(void)state;
	assert_int_equal(lease("a", 1), EG_OK_CREATED);
	l = np_lease_find(w.m, "a");
	s.slot = sealed.slot = l->l.slot;
	s.generation = sealed.generation = l->l.generation - 1;
	w.dns_mute = true;
	(void)release("a", 1000, 0);
	assert_int_equal(l->step, NP_STEP_DNS);
	answer(EG_ROLE_DNS, EG_DM_STATS, &s, sizeof(s), -1);
	settle();
	assert_int_equal(l->step, NP_STEP_DNS);
	w.audit_mute = true;
	s.generation++;
	answer(EG_ROLE_DNS, EG_DM_STATS, &s, sizeof(s), -1);
	settle();
	assert_int_equal(l->step, NP_STEP_SEAL);
	answer(EG_ROLE_AUDIT, EG_AM_SEALED, &sealed, sizeof(sealed), -1);
	settle();
	assert_int_equal(l->step, NP_STEP_SEAL);
	sealed.generation++;
	answer(EG_ROLE_AUDIT, EG_AM_SEALED, &sealed, sizeof(sealed), -1);
	settle();
	assert_null(np_lease_find(w.m, "a"));
}

/* ---- revoked, held, annotated ---------------------------------------------------- */

static uint32_t revoke_lease(const char *id, uint32_t peer, const char *why)
{
	struct eg_pm_which q = { .peer_uid = peer };

	(void)snprintf(q.id, sizeof(q.id), "%s", id);
	(void)snprintf(q.why, sizeof(q.why), "%s", why);
	np_lease_revoke(w.m, 3, &q);
	settle();
	return w.reply.status;
}

static void restart(void)
{
	struct eg_err err = { 0 };

	main_close();
	w.build_mute = true; /* only the records, no gateway comes up */
	main_open();
	w.build_mute = false;
	assert_int_equal(np_record_load(w.m, &err), 0);
}

/* How many policy programs are kept for a next main. */
static unsigned int programs(void)
{
	char cmd[160];
	unsigned int n = 0;
	FILE *f;

	(void)snprintf(cmd, sizeof(cmd), "ls %s/leases | grep -c prog$", w.dir);
	f = popen(cmd, "r");
	assert_int_equal(fscanf(f, "%u", &n), 1);
	(void)pclose(f);
	return n;
}

static void test_revoke(void **state)
{
	struct eg_pm_which q = { .ttl_s = 5, .id = "a" };
	struct np_lease *l;

	(void)state;
	assert_int_equal(lease("a", 1), EG_OK_CREATED);
	assert_int_equal(revoke_lease("a", 1001, ""), EG_E_FORBIDDEN);
	assert_int_equal(revoke_lease("a", 1000, "two\nlines"), EG_E_BAD_REQUEST);
	w.log[0] = '\0';
	assert_int_equal(revoke_lease("a", 1000, "why"), EG_OK);
	/* one batch, then whom it concerns */
	assert_string_equal(w.log, "rephase0 dns+0 text audit+ ");
	assert_int_equal(w.reply.lease.state, EG_LEASE_REVOKED);
	assert_string_equal(w.reply.lease.revoked_why, "why");
	assert_int_equal(programs(), 1); /* the old one has gone */
	assert_int_equal(revoke_lease("a", 1000, "other"), EG_OK);
	assert_string_equal(w.reply.lease.revoked_why, "why");
	np_lease_renew(w.m, 4, &q);
	settle();
	assert_int_equal(w.reply.status, EG_E_REVOKED);
	np_lease_phase(w.m, 4, &q);
	settle();
	assert_int_equal(w.reply.status, EG_E_REVOKED);
	restart();
	l = np_lease_find(w.m, "a");
	assert_non_null(l);
	assert_int_equal(l->l.state, EG_LEASE_REVOKED);
	assert_string_equal(l->l.revoked_why, "why");
}

static void test_kernel_refuses_to_revoke(void **state)
{
	(void)state;
	assert_int_equal(lease("a", 1), EG_OK_CREATED);
	w.enforcer_fails = true;
	assert_int_equal(revoke_lease("a", 1000, ""), EG_E_INTERNAL);
	w.enforcer_fails = false;
	assert_int_equal(np_lease_find(w.m, "a")->l.state, EG_LEASE_LEASED);
	assert_int_equal(np_lease_find(w.m, "a")->prog->digest[0], 'p');
	assert_int_equal(revoke_lease("a", 1000, ""), EG_OK);
	assert_int_equal(release("a", 1000, 0), EG_OK);
	assert_int_equal(programs(), 0);
}

static void test_hold(void **state)
{
	struct eg_lease_req q = request("a", 1);
	int fd = memfd_create("prog", MFD_CLOEXEC);

	(void)state;
	assert_int_equal(write(fd, "p", 1), 1);
	q.on_expiry = EG_EXPIRY_HOLD;
	q.phases = 1; /* which `none` does not have */
	np_lease_request(w.m, 1, &fd, &q);
	eg_close_p(&fd);
	settle();
	w.log[0] = '\0';
	tick_at(eg_boot_ns() + 601 * EG_NSEC_PER_SEC);
	assert_string_equal(w.log, "rephase0 dns+0 text audit+ ");
	assert_int_equal(np_lease_find(w.m, "a")->l.state, EG_LEASE_EXPIRED);
	tick_at(eg_boot_ns() + 86000 * EG_NSEC_PER_SEC);
	assert_non_null(np_lease_find(w.m, "a"));
	tick_at(eg_boot_ns() + 86401 * EG_NSEC_PER_SEC); /* max_ttl */
	assert_null(np_lease_find(w.m, "a"));
}

static uint32_t annotate(unsigned int n, unsigned int from)
{
	struct eg_pm_annotate *q = calloc(1, sizeof(*q));

	(void)snprintf(q->which.id, sizeof(q->which.id), "a");
	q->nlabels = n;
	for (unsigned int i = 0; i < n && i < EG_LABELS; i++) {
		(void)snprintf(q->label[i].key, EG_LABEL_KEY, "k%u", from + i);
		(void)snprintf(q->label[i].value, EG_LABEL_VALUE, "v%u-%u",
			       from + i, n);
	}
	np_lease_annotate(w.m, 3, q);
	free(q);
	settle();
	return w.reply.status;
}

static void test_annotate(void **state)
{
	(void)state;
	assert_int_equal(lease("a", 1), EG_OK_CREATED);
	assert_int_equal(annotate(3, 0), EG_OK);
	assert_int_equal(w.reply.lease.req.nlabels, 3);
	assert_int_equal(annotate(2, 2), EG_OK); /* one of them is new */
	assert_int_equal(w.reply.lease.req.nlabels, 4);
	assert_string_equal(w.reply.lease.req.label[2].value, "v2-2");
	assert_int_equal(annotate(29, 10), EG_E_BAD_REQUEST);
	assert_int_equal(annotate(33, 0), EG_E_BAD_REQUEST);
	assert_int_equal(annotate(28, 10), EG_OK);
	assert_int_equal(np_lease_find(w.m, "a")->l.req.nlabels, 32);
	restart();
	assert_int_equal(np_lease_find(w.m, "a")->l.req.nlabels, 32);
	assert_string_equal(np_lease_find(w.m, "a")->l.req.label[31].value,
			    "v37-28");
}

static void test_broken_record_is_moved_aside(void **state)
{
	char path[128];
	struct stat st;
	FILE *f;

	(void)state;
	(void)snprintf(path, sizeof(path), "%s/leases/0.77", w.dir);
	f = fopen(path, "w");
	(void)fputs("not a record", f);
	(void)fclose(f);
	{
		struct eg_err err = { 0 };

		assert_int_equal(np_record_load(w.m, &err), 0);
	}
	assert_int_equal(stat(path, &st), -1);
	(void)snprintf(path, sizeof(path), "%s/leases/0.77.bad", w.dir);
	assert_int_equal(stat(path, &st), 0);
}

static void test_adopt_for_whom(void **state)
{
	(void)state;
	w.log[0] = '\0';
	assert_int_equal(adopt("a", 1000, "/run/cni/x"), EG_E_FORBIDDEN);
	assert_non_null(strstr(w.reply.text, "you are uid 1000"));
	assert_int_equal(adopt("a", UINT32_MAX, "/run/cni/x"), EG_E_FORBIDDEN);
	assert_int_equal(adopt("a", 1001, "/run/netns/x"), EG_E_BAD_REQUEST);
	assert_non_null(strstr(w.reply.text, "/run/netns/x"));
	assert_non_null(strstr(w.reply.text, "/run/cni"));
	assert_int_equal(adopt("a", 0, "/run/cni/../x"), EG_E_BAD_REQUEST);
	assert_string_equal(w.log, ""); /* nobody was asked anything */
	assert_int_equal(w.m->armed.count, 2);
	assert_int_equal(adopt("a", 1001, "/run/cni/x"), EG_OK_CREATED);
	assert_int_equal(adopt("b", 0, "/run/cni/y"), EG_OK_CREATED);
	assert_string_equal(w.reply.lease.netns, "/run/cni/y");
	assert_int_equal(w.reply.lease.netns_volatile, 1);
}

/* The wiring before the rules; the cheapest sort of slot is taken. */
/* Taps are made ahead once several leases have wanted the same. */
static void test_taps_made_ahead(void **state)
{
	struct eg_guest snap = {.mode = EG_GUEST_TAP, .tap = "tap0"};
	struct eg_guest other = {.mode = EG_GUEST_TAP, .tap = "tap1"};
	char id[16];

	(void)state;
	for (int i = 0; i < 4; i++) {
		(void)snprintf(id, sizeof(id), "t%d", i);
		w.log[0] = '\0';
		assert_int_equal(lease_guest(id, &snap), EG_OK_CREATED);
		assert_non_null(strstr(w.log, "guest"));
		assert_int_equal(w.reply.lease.slow, 1); /* it waited */
		assert_int_equal(release(id, 1000, 0), EG_OK);
	}
	settle();
	assert_int_equal(w.m->tapped.count, 2);
	assert_int_equal(w.m->armed.count, 2); /* others find theirs, too */
	w.log[0] = '\0';
	assert_int_equal(lease_guest("fast", &snap), EG_OK_CREATED);
	assert_int_equal(w.reply.lease.slow, 0);
	assert_memory_equal(w.log, "lease", 5); /* before any guest */
	/* One of another kind changes nothing, four do. */
	assert_int_equal(lease_guest("o", &other), EG_OK_CREATED);
	assert_int_equal(w.reply.lease.slow, 1);
	assert_int_equal(release("o", 1000, 0), EG_OK);
	settle();
	assert_int_equal(w.m->kind.number, 1);
	for (int i = 0; i < 4; i++) {
		(void)snprintf(id, sizeof(id), "o%d", i);
		assert_int_equal(lease_guest(id, &other), EG_OK_CREATED);
		assert_int_equal(release(id, 1000, 0), EG_OK);
	}
	settle();
	assert_int_equal(w.m->kind.number, 2);
	assert_int_equal(lease_guest("last", &other), EG_OK_CREATED);
	assert_int_equal(w.reply.lease.slow, 0);
}

/* A pool whose last slots have taps still serves those who want none. */
static void test_taps_give_way(void **state)
{
	struct eg_guest snap = {.mode = EG_GUEST_TAP, .tap = "tap0"};
	unsigned int got = 0;
	char id[16];

	(void)state;
	for (int i = 0; i < 4; i++) {
		assert_int_equal(lease_guest("t", &snap), EG_OK_CREATED);
		assert_int_equal(release("t", 1000, 0), EG_OK);
		np_tombs_tick(w.m->tombs, -1, INT64_MAX);
	}
	settle();
	assert_true(w.m->tapped.count > 0);
	for (int i = 0; got < SLOTS && i < 4 * SLOTS; i++) {
		(void)snprintf(id, sizeof(id), "l%d", i);
		got += lease(id, 1) == EG_OK_CREATED;
		settle();
	}
	assert_int_equal(got, SLOTS);
}

/* What cannot be made ahead is not tried for ever, and nothing is lost. */
static void test_taps_that_fail(void **state)
{
	struct eg_guest snap = {.mode = EG_GUEST_TAP, .tap = "tap0"};
	uint32_t built = 0;

	(void)state;
	for (int i = 0; i < 4; i++) {
		w.guest_error = i == 3 ? -EIO : 0; /* from the last one on */
		assert_int_equal(lease_guest("t", &snap),
				 i == 3 ? EG_E_INTERNAL : EG_OK_CREATED);
		if (i < 3)
			assert_int_equal(release("t", 1000, 0), EG_OK);
		np_tombs_tick(w.m->tombs, -1, INT64_MAX);
	}
	settle();
	settle();
	assert_int_equal(w.m->kind.number, 0);
	assert_int_equal(w.m->tapped.count + w.m->tapping + w.m->arming, 0);
	built = w.m->idle.count + w.m->armed.count;
	assert_int_equal(built, SLOTS);
	w.guest_error = 0;
}

static void test_adopt_life(void **state)
{
	(void)state;
	w.log[0] = '\0';
	assert_int_equal(adopt("a", 0, "/run/cni/x"), EG_OK_CREATED);
	/* all are built, two of them armed: an idle one */
	assert_string_equal(w.log, "guest2 lease2 dns+2 text audit+ ");
	assert_int_equal(w.reply.lease.slow, 0);
	assert_int_equal(w.m->armed.count, 2);
	w.log[0] = '\0';
	assert_int_equal(release("a", 0, 0), EG_OK);
	assert_string_equal(w.log, "unlease2 down2 dns-2 seal2 scrub2 scrap2 ");
	w.m->prefill = 0; /* what is given back stays unbuilt */
	assert_int_equal(lease("v", 1), EG_OK_CREATED);
	assert_int_equal(release("v", 1000, 0), EG_OK);
	w.log[0] = '\0';
	assert_int_equal(adopt("b", 0, "/run/cni/x"), EG_OK_CREATED);
	assert_string_equal(w.log, "guest0 lease0 dns+0 text audit+ ");
	for (int i = 0; i < SLOTS - 1; i++) { /* idle ones, then armed ones */
		char id[16];

		(void)snprintf(id, sizeof(id), "l%d", i);
		assert_int_equal(adopt(id, 0, "/run/cni/y"), EG_OK_CREATED);
		assert_true(w.reply.lease.generation > 0);
	}
	assert_int_equal(adopt("c", 0, "/run/cni/z"), EG_E_EXHAUSTED);
}

static void test_adopt_refused_by_build(void **state)
{
	static const struct {
		int error;
		enum eg_status st;
	} row[] = { { -EINVAL, EG_E_BAD_REQUEST },
		    { -EEXIST, EG_E_EXISTS },
		    { -EIO, EG_E_INTERNAL } };

	(void)state;
	for (size_t i = 0; i < EG_ARRAY_SIZE(row); i++) {
		w.guest_error = row[i].error;
		assert_int_equal(adopt("a", 0, "/run/cni/x"), row[i].st);
		assert_null(np_lease_find(w.m, "a"));
	}
	w.guest_error = 0;
	settle();
	assert_int_equal(w.m->armed.count + w.m->idle.count, SLOTS);
	assert_int_equal(adopt("a", 0, "/run/cni/x"), EG_OK_CREATED);
}

/* Its link is gone: lost, kept until released; also over a restart. */
static void test_adopt_lost(void **state)
{
	struct eg_bm_slot gone = { .error = -ENODEV };
	uint64_t generation;
	struct eg_event e;
	uint32_t slot;

	(void)state;
	assert_int_equal(adopt("a", 0, "/run/cni/x"), EG_OK_CREATED);
	slot = gone.slot = w.reply.lease.slot;
	generation = w.reply.lease.generation;
	gone.generation = generation + 1; /* another's */
	answer(EG_ROLE_BUILD, EG_BM_EVENT, &gone, sizeof(gone), -1);
	settle();
	assert_int_equal(np_lease_find(w.m, "a")->l.state, EG_LEASE_LEASED);
	gone.generation = generation;
	answer(EG_ROLE_BUILD, EG_BM_EVENT, &gone, sizeof(gone), -1);
	settle();
	assert_int_equal(np_lease_find(w.m, "a")->l.state, EG_LEASE_LOST);
	assert_true(np_event_get(w.m, w.m->event_seq, &e));
	assert_int_equal(e.type, EG_EV_GUEST_GONE);
	assert_string_equal(e.lease, "a");
	assert_string_equal(e.text, "the link of the sandbox is gone");
	assert_false(np_event_get(w.m, w.m->event_seq + 1, &e));
	main_close();
	w.log[0] = '\0';
	main_open();
	assert_int_equal(np_lease_find(w.m, "a")->l.state, EG_LEASE_LOST);
	assert_int_equal(release("a", 0, 0), EG_OK);
	settle();
	assert_null(w.m->slot[slot].lease);
}

/* A new main tells build whose links there are; so it does a new build. */
static void test_adopt_taken_over(void **state)
{
	char want[64];

	(void)state;
	assert_int_equal(adopt("a", 0, "/run/cni/x"), EG_OK_CREATED);
	(void)snprintf(want, sizeof(want), "adopted%u.%llu ",
		       w.reply.lease.slot,
		       (unsigned long long)w.reply.lease.generation);
	main_close();
	w.log[0] = '\0';
	main_open();
	assert_int_equal(np_lease_find(w.m, "a")->l.state, EG_LEASE_LEASED);
	assert_non_null(strstr(w.log, want));
	assert_true(strstr(w.log, "take_over") < strstr(w.log, want));
	w.log[0] = '\0';
	np_pool_start(w.m); /* build has started again */
	settle();
	assert_string_equal(w.log, want);
}

/* A link without a record, found when its gateway is opened. */
static void test_adopt_without_record(void **state)
{
	struct eg_bm_scan found = { .slot = 5, .state = EG_SCAN_ADOPTED };

	(void)state;
	main_close();
	w.build_mute = true;
	w.log[0] = '\0';
	main_open();
	answer(EG_ROLE_BUILD, EG_BM_SLOT, &found, sizeof(found), -1);
	settle();
	w.build_mute = false;
	np_pool_start(w.m);
	settle();
	assert_non_null(strstr(w.log, "scrap5 "));
	assert_int_equal(w.m->armed.count + w.m->idle.count, SLOTS);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_table_before_link),
		T(test_lease_and_release_in_order),
		T(test_put_is_idempotent),
		T(test_fences),
		T(test_generations_are_new_for_ever),
		T(test_exhausted_at_once),
		T(test_kernel_refusal_leaves_nothing),
		T(test_release_without_dns_and_audit),
		T(test_release_waits_for_build),
		T(test_expiry),
		T(test_records_survive_main),
		T(test_broken_record_is_moved_aside),
		T(test_taps_made_ahead),
		T(test_taps_give_way),
		T(test_taps_that_fail),
		T(test_adopt_for_whom),
		T(test_adopt_life),
		T(test_adopt_refused_by_build),
		T(test_adopt_lost),
		T(test_adopt_taken_over),
		T(test_adopt_without_record),
		T(test_late_answers_of_build),
		T(test_late_answers_of_dns_and_audit),
		T(test_revoke),
		T(test_kernel_refuses_to_revoke),
		T(test_hold),
		T(test_annotate),
	};

	return cmocka_run_group_tests_name("netpool/lease", tests, NULL, NULL);
}
