// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: role main: messages in, decisions out.
 *
 * Holds CAP_NET_ADMIN and nothing else. Reads fixed-layout messages from its
 * siblings and kernel replies; parses nothing anybody wrote. See state.h for
 * the theory.
 */
#include "netpool/main_role.h"
#include "netpool/base/log.h"
#include "netpool/base/util.h"
#include "netpool/main_enforce.h"
#include "netpool/state.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define TICK_US 20000  /* times TICK_SHARES: how exact deadlines are */
#define TICK_SHARES 10 /* of the slots, one a tick */

static void tombs_tick(struct np_main *m, int64_t now)
{
	EG_CLEANUP_FD int dir = np_record_dir(m);

	np_tombs_tick(m->tombs, dir, now);
}

static void on_tick(void *arg)
{
	struct np_main *m = arg;
	int64_t now = eg_boot_ns();

	/*
	 * A share of the slots each time: looking at 16,384 leases at once
	 * would hold up the next one for milliseconds.
	 */
	for (uint32_t i = 0; i <= m->conf->slots / TICK_SHARES; i++) {
		uint32_t k = m->next_tick;

		m->next_tick = (k + 1) % m->conf->slots;
		if (m->slot[k].lease)
			np_release_tick(m, m->slot[k].lease, now);
		else
			np_pool_tick(m, k, now);
	}
	if (m->next_tick <= m->conf->slots / TICK_SHARES) { /* once a round */
		tombs_tick(m, now);
		np_stats_tick(m, now);
		np_fill_tick(m, now);
	}
	m->trickle = m->ticks++ & 1; /* some 25 a second */
	np_pool_run(m);
	eg_timer_set(m->tick, TICK_US);
}

/* The last moment in which there is a /proc. */
static int main_open(struct eg_role_ctx *ctx, struct eg_err *err)
{
	struct np_main *m = calloc(1, sizeof(*m));

	if (!m)
		return eg_err_set(err, -ENOMEM, "out of memory");
	np_fill_open(&m->fill);
	ctx->priv = m;
	return 0;
}

static int main_start(struct eg_role_ctx *ctx, struct eg_err *err)
{
	struct np_main *m = ctx->priv;
	int r;

	m->ctx = ctx;
	m->conf = ctx->conf;
	m->k = &np_enforcer_kernel;
	m->run_fd = -1;
	r = np_pool_init(m, err);
	if (r)
		return r;
	m->tick = eg_timer_new(ctx->loop, on_tick, m);
	if (!m->tick)
		return eg_err_set(err, -ENOMEM, "out of memory");
	return 0;
}

static void main_on_fd(struct eg_role_ctx *ctx, enum eg_fd_kind kind,
		       uint32_t index, int *fd)
{
	struct np_main *m = ctx->priv;
	struct eg_err err = {0};

	(void)index;
	if (kind == EG_FD_RUN) {
		eg_close_p(&m->run_fd);
		m->run_fd = eg_steal_fd(fd);
	} else if (kind == EG_FD_HOST_NFT && !m->host_handle) {
		if (m->k->host(m, eg_steal_fd(fd), &err))
			eg_error("host guard: %s", err.text);
	}
}

static void leases_announce(struct np_main *m, bool dns, bool audit)
{
	for (uint32_t k = 0; k < m->conf->slots; k++)
		if (m->slot[k].state == NP_LEASED && m->slot[k].lease &&
		    m->slot[k].lease->step == NP_STEP_NONE)
			np_lease_announce(m, m->slot[k].lease, dns, audit);
}

static void main_on_peer(struct eg_role_ctx *ctx, enum eg_role peer)
{
	struct np_main *m = ctx->priv;

	if (!m->go) {
		m->peer_seen[peer] = true;
		return;
	}
	if (peer == EG_ROLE_BUILD)
		np_pool_start(m);
	else if (peer == EG_ROLE_DNS)
		leases_announce(m, true, false);
	else if (peer == EG_ROLE_AUDIT) {
		np_prog_untold(m);
		leases_announce(m, false, true);
	}
	if (!m->peer_seen[peer]) {
		m->peer_seen[peer] = true;
		return;
	}
	np_event(m, EG_EV_ROLE, EG_CAUSE_RESTART, NULL, "%s is back",
		 eg_role_name(peer));
	m->count.role_restarts[peer]++;
}

static void main_on_go(struct eg_role_ctx *ctx)
{
	struct np_main *m = ctx->priv;

	m->go = true;
	np_fill_begin(m);
	(void)np_pool_generation(m); /* asks for the first block */
	eg_timer_set(m->tick, TICK_US);
	if (ctx->peer[EG_ROLE_BUILD])
		np_pool_start(m);
}

static void on_pin(struct np_main *m, const struct eg_msg *msg)
{
	const struct eg_dm_pin *q = msg->body;
	struct eg_md_pinned a = {.slot = q->slot, .generation = q->generation};
	struct np_lease *l = np_lease_at(m, q->slot, q->generation);
	struct eg_err err = {0};
	int64_t begin = eg_boot_ns();

	if (!l || l->step != NP_STEP_NONE || l->l.state != EG_LEASE_LEASED)
		a.error = -ESTALE;
	else
		a.error = m->k->pin(m, l, q, &err);
	if (a.error && a.error != -ESTALE) {
		m->count.pins_failed++;
		eg_warning("pin for slot %u: %s", q->slot, err.text);
	} else if (!a.error) {
		m->count.pins_total++;
		m->count.pin_ns_sum += (uint64_t)(eg_boot_ns() - begin);
	}
	(void)eg_role_send(m->ctx, EG_ROLE_DNS, EG_MD_PINNED, msg->cookie, &a,
			   sizeof(a), -1);
}

static void from_api(struct np_main *m, struct eg_msg *msg)
{
	struct eg_mp_pool pool;

	if (msg->type == EG_PM_LEASE)
		np_lease_request(m, msg->cookie, &msg->fd, msg->body);
	else if (msg->type == EG_PM_GET)
		np_lease_get(m, msg->cookie, msg->body);
	else if (msg->type == EG_PM_LIST)
		np_lease_list(m, msg->cookie, msg->body);
	else if (msg->type == EG_PM_RELEASE)
		np_release_request(m, msg->cookie, msg->body);
	else if (msg->type == EG_PM_RENEW)
		np_lease_renew(m, msg->cookie, msg->body);
	else if (msg->type == EG_PM_PHASE)
		np_lease_phase(m, msg->cookie, msg->body);
	else if (msg->type == EG_PM_REVOKE)
		np_lease_revoke(m, msg->cookie, msg->body);
	else if (msg->type == EG_PM_ANNOTATE)
		np_lease_annotate(m, msg->cookie, msg->body);
	else if (msg->type == EG_PM_STATS)
		np_stats_request(m, msg->cookie, msg->body);
	else if (msg->type == EG_PM_EVENTS)
		np_event_list(m, msg->cookie, msg->body);
	else if (msg->type == EG_PM_POOL) {
		np_pool_count(m, &pool);
		(void)eg_role_send(m->ctx, EG_ROLE_API, EG_MP_POOL, msg->cookie,
				   &pool, sizeof(pool), -1);
	}
}

static void from_dns(struct np_main *m, struct eg_msg *msg)
{
	if (msg->type == EG_DM_PIN)
		on_pin(m, msg);
	else if (msg->type == EG_DM_STATS && msg->cookie)
		np_stats_dns(m, msg->cookie, msg->body);
	else if (msg->type == EG_DM_STATS)
		np_release_dns(m, msg->body);
	else if (msg->type == EG_DM_READY && m->go)
		leases_announce(m, true, false);
}

static void on_first(struct np_main *m, const struct eg_am_first *f)
{
	struct np_lease *l = np_lease_at(m, f->slot, f->generation);

	if (!l || f->reason >= EG_REASON_COUNT)
		return;
	np_event(m, EG_EV_FIRST_DENIAL, EG_CAUSE_KERNEL, l, "%s",
		 eg_reason_name((enum eg_reason)f->reason));
	eg_warning("first denial EGRESSD_LEASE=%s EGRESSD_RUN=%s EGRESSD_REASON=%s",
		   l->l.req.id, l->l.req.run,
		   eg_reason_name((enum eg_reason)f->reason));
}

static void from_audit(struct np_main *m, struct eg_msg *msg)
{
	if (msg->type == EG_AM_STATS)
		np_stats_audit(m, msg->cookie, msg->body);
	else if (msg->type == EG_AM_SEALED)
		np_release_sealed(m, msg->body);
	else if (msg->type == EG_AM_FIRST)
		on_first(m, msg->body);
}

static void main_on_msg(struct eg_role_ctx *ctx, enum eg_role from,
			struct eg_msg *msg)
{
	struct np_main *m = ctx->priv;

	switch (from) {
	case EG_ROLE_BUILD:
		np_pool_on_build(m, msg);
		break;
	case EG_ROLE_API:
		from_api(m, msg);
		break;
	case EG_ROLE_DNS:
		from_dns(m, msg);
		break;
	case EG_ROLE_AUDIT:
		from_audit(m, msg);
		break;
	case EG_ROLE_LAUNCHER:
	case EG_ROLE_MAIN:
	case EG_ROLE_COUNT:
		break;
	}
}

static void main_on_ctl(struct eg_role_ctx *ctx, struct eg_msg *msg)
{
	if (msg->type == EG_CTL_RESERVED)
		np_pool_generations(ctx->priv, msg->body);
}

const struct eg_role_ops np_main_ops = {
	.role = EG_ROLE_MAIN,
	.open = main_open,
	.start = main_start,
	.on_fd = main_on_fd,
	.on_peer = main_on_peer,
	.on_go = main_on_go,
	.on_msg = main_on_msg,
	.on_ctl = main_on_ctl,
};
