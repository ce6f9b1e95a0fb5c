// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: the dns role
 *
 * Has no capability and an empty root; it opens nothing but sockets to the
 * configured upstreams. Its listening sockets come from the launcher, which
 * holds them across restarts, so that queries queue while there is no role.
 * Leases come from main, which replays them when it hears EG_DM_READY;
 * replaying is harmless, since everything is keyed by slot and generation.
 *
 * While main is away an answer with addresses cannot be given: SERVFAIL.
 * While audit is away its records wait in a ring of RING_MAX; what does not
 * fit counts as suppressed.
 */
#include "dnsguard/dnsguard.h"
#include "dnsguard/guard.h"
#include "dnsguard/listen.h"
#include "dnsguard/sock.h"
#include "netpool/base/log.h"
#include "netpool/base/util.h"

#include <errno.h>
#include <string.h>

#define TICK_US 10000 /* how late a deadline may be noticed */
#define RING_MAX 4096 /* records kept while audit restarts, about 4 MiB */

struct ring_item {
	uint16_t type;
	uint32_t len;
	union {
		struct eg_da_denial denial;
		struct eg_da_name name;
	} u;
};

struct dg_role {
	struct eg_role_ctx *ctx;
	struct dg_guard *guard;
	struct dg_listen *listen;
	struct dg_sock *sock;
	struct eg_timer *tick;
	bool ticking;
	uint32_t ring_first, ring_count;
	struct ring_item ring[RING_MAX];
};

/* Before an event reaches the guard, and after. */
static void turn_begin(struct dg_role *d)
{
	dg_guard_time(d->guard, eg_loop_now_ns(d->ctx->loop), eg_wall_ns());
}

static void turn_end(struct dg_role *d)
{
	dg_listen_flush(d->listen);
	if (d->ticking || !dg_guard_busy(d->guard))
		return;
	d->ticking = true;
	eg_timer_set(d->tick, TICK_US);
}

static void on_tick(void *arg)
{
	struct dg_role *d = arg;

	d->ticking = false;
	eg_chan_drain(d->ctx->peer[EG_ROLE_MAIN]); /* see main_first() */
	turn_begin(d);
	dg_guard_tick(d->guard);
	turn_end(d);
}

/* ---- to audit ---------------------------------------------------------- */

static int ring_add(struct dg_role *d, uint16_t type, const void *body, size_t len)
{
	struct ring_item *i;

	if (d->ring_count == RING_MAX)
		return -ENOBUFS;
	i = &d->ring[(d->ring_first + d->ring_count++) % RING_MAX];
	i->type = type;
	i->len = (uint32_t)len;
	memcpy(&i->u, body, len);
	return 0;
}

/* Send what waits; stops where the channel does. */
static void ring_flush(struct dg_role *d)
{
	while (d->ring_count) {
		struct ring_item *i = &d->ring[d->ring_first];

		if (eg_role_send(d->ctx, EG_ROLE_AUDIT, i->type, 0, &i->u,
				 i->len, -1))
			return;
		d->ring_first = (d->ring_first + 1) % RING_MAX;
		d->ring_count--;
	}
}

static int to_audit(struct dg_role *d, uint16_t type, const void *body, size_t len)
{
	if (d->ring_count)
		ring_flush(d);
	if (!d->ring_count && d->ctx->peer[EG_ROLE_AUDIT] &&
	    !eg_role_send(d->ctx, EG_ROLE_AUDIT, type, 0, body, len, -1))
		return 0;
	return ring_add(d, type, body, len);
}

static int op_denial(void *arg, const struct eg_da_denial *m)
{
	return to_audit(arg, EG_DA_DENIAL, m,
			offsetof(struct eg_da_denial, query) + m->len);
}

static void op_name(void *arg, const struct eg_da_name *m)
{
	/* A name that finds no room is told again with the next answer. */
	(void)to_audit(arg, EG_DA_NAME, m, sizeof(*m));
}

/* ---- to guests, main and upstreams ------------------------------------- */

static void op_reply(void *arg, const struct dg_client *to, const uint8_t *msg,
		     size_t len)
{
	struct dg_role *d = arg;

	dg_listen_reply(d->listen, to, msg, len);
}

static void op_silence(void *arg, const struct dg_client *to)
{
	struct dg_role *d = arg;

	dg_listen_silence(d->listen, to);
}

static int op_pin(void *arg, uint64_t cookie, const struct eg_dm_pin *m)
{
	struct dg_role *d = arg;

	if (!d->ctx->peer[EG_ROLE_MAIN])
		return -ENOTCONN;
	return eg_role_send(d->ctx, EG_ROLE_MAIN, EG_DM_PIN, cookie, m,
			    sizeof(*m), -1);
}

static const struct dg_ops guard_ops = {
	.reply = op_reply,
	.silence = op_silence,
	.pin = op_pin,
	.denial = op_denial,
	.name = op_name,
};

static int up_send(void *arg, uint32_t req, uint32_t server, bool tcp,
		   const uint8_t *msg, size_t len)
{
	struct dg_role *d = arg;

	return dg_sock_send(d->sock, req, server, tcp, msg, len);
}

static void up_close(void *arg, uint32_t req)
{
	struct dg_role *d = arg;

	if (d->sock)
		dg_sock_close(d->sock, req);
}

/*
 * What main has said comes before what an upstream says: a lease that is over
 * is answered nothing, and asks for no pin.
 */
static void main_first(struct dg_role *d)
{
	eg_chan_drain(d->ctx->peer[EG_ROLE_MAIN]);
	turn_begin(d);
}

static void on_up_datagram(void *arg, uint32_t req, const uint8_t *msg, size_t len)
{
	struct dg_role *d = arg;

	main_first(d);
	dg_up_on_datagram(dg_guard_up(d->guard), req, msg, len,
			  eg_loop_now_ns(d->ctx->loop));
	turn_end(d);
}

static void on_up_stream(void *arg, uint32_t req, const uint8_t *msg, size_t len)
{
	struct dg_role *d = arg;

	main_first(d);
	dg_up_on_stream(dg_guard_up(d->guard), req, msg, len,
			eg_loop_now_ns(d->ctx->loop));
	turn_end(d);
}

static void on_up_error(void *arg, uint32_t req)
{
	struct dg_role *d = arg;

	main_first(d);
	dg_up_on_error(dg_guard_up(d->guard), req, eg_loop_now_ns(d->ctx->loop));
	turn_end(d);
}

static const struct dg_sock_ops sock_ops = {
	.datagram = on_up_datagram,
	.stream = on_up_stream,
	.error = on_up_error,
};

static void on_query(void *arg, const struct dg_client *from,
		     const uint8_t *msg, size_t len)
{
	struct dg_role *d = arg;

	/* main said it before the packet could come */
	if (!dg_guard_knows(d->guard, from))
		eg_chan_drain(d->ctx->peer[EG_ROLE_MAIN]);
	turn_begin(d);
	dg_guard_query(d->guard, from, msg, len);
	if (!d->ticking && dg_guard_busy(d->guard)) {
		d->ticking = true;
		eg_timer_set(d->tick, TICK_US);
	}
}

static const struct dg_listen_ops listen_ops = {
	.query = on_query,
};

/* ---- from main --------------------------------------------------------- */

/* The program of a lease: the cached one, or the one that came with it. */
static int get_policy(struct dg_role *d, const struct eg_md_lease *m, int fd,
		      struct dg_policy **ret, struct eg_err *err)
{
	struct dg_policies *ps = dg_guard_policies(d->guard);
	const struct rl_prog *prog;
	int r;

	*ret = m->closed ? NULL : dg_policies_get(ps, m->digest);
	if (*ret)
		return 0;
	r = rl_prog_map(fd, &prog, err);
	if (r)
		return r;
	/* A closed lease keeps its policy's name, but `none` is in force. */
	if (m->closed && (*ret = dg_policies_get(ps, prog->digest))) {
		rl_prog_unmap(prog);
		return 0;
	}
	if (!m->closed && memcmp(prog->digest, m->digest, EG_DIGEST))
		r = eg_err_set(err, -EBADMSG,
			       "the program's digest is not the lease's");
	else
		r = dg_policies_add(ps, prog, rl_prog_unmap, ret);
	if (r)
		rl_prog_unmap(prog);
	return r;
}

static void end_lease(struct dg_role *d, uint32_t slot, uint64_t generation)
{
	if (!generation || dg_guard_live(d->guard, slot) != generation)
		return;
	dg_guard_unlease(d->guard, slot, generation);
	dg_listen_cut(d->listen, slot);
}

static void on_lease(struct dg_role *d, const struct eg_msg *m)
{
	const struct eg_md_lease *l = m->body;
	uint64_t live = dg_guard_live(d->guard, l->slot);
	struct dg_policy *p;
	struct eg_err err = {0};
	int r;

	if (live > l->generation)
		return;
	if (live && live < l->generation)
		end_lease(d, l->slot, live);
	r = get_policy(d, l, m->fd, &p, &err);
	if (r) {
		/* Without its policy a slot is unleased here: fails closed. */
		end_lease(d, l->slot, l->generation);
		eg_error("slot %u: no policy for its lease: %s", l->slot,
			 err.code ? err.text : strerror(-r));
		return;
	}
	r = dg_guard_lease(d->guard, l, p);
	if (r)
		eg_error("slot %u: lease not taken: %s", l->slot, strerror(-r));
}

static void on_unlease(struct dg_role *d, const struct eg_md_unlease *m)
{
	end_lease(d, m->slot, m->generation);
}

static void on_stats(struct dg_role *d, const struct eg_msg *m)
{
	const struct eg_md_unlease *which = m->body;
	struct eg_dm_stats s;

	/* All zero for a lease nobody here knows: it has asked nothing. */
	(void)dg_guard_stats(d->guard, which->slot, which->generation, &s);
	(void)eg_role_send(d->ctx, EG_ROLE_MAIN, EG_DM_STATS, m->cookie, &s,
			   sizeof(s), -1);
}

static void role_on_msg(struct eg_role_ctx *ctx, enum eg_role from,
			struct eg_msg *m)
{
	struct dg_role *d = ctx->priv;

	if (from != EG_ROLE_MAIN) {
		eg_warning("message %u from %s, which has none for dns",
			   m->type, eg_role_name(from));
		return;
	}
	turn_begin(d);
	switch (m->type) {
	case EG_MD_LEASE:
		on_lease(d, m);
		break;
	case EG_MD_UNLEASE:
		on_unlease(d, m->body);
		break;
	case EG_MD_PINS:
		dg_guard_pins(d->guard, m->body);
		break;
	case EG_MD_STATS:
		on_stats(d, m);
		break;
	case EG_MD_PINNED:
		dg_guard_pinned(d->guard, m->cookie, m->body);
		break;
	default: /* not an enum here: whatever else came over the channel */
		eg_warning("message %u from main is not for dns", m->type);
		break;
	}
	turn_end(d);
}

/* ---- life -------------------------------------------------------------- */

static int role_start(struct eg_role_ctx *ctx, struct eg_err *err)
{
	const struct eg_conf *c = ctx->conf;
	struct dg_role *d = calloc(1, sizeof(*d));
	int r;

	if (!d)
		return eg_err_set(err, -ENOMEM, "out of memory");
	d->ctx = ctx;
	ctx->priv = d;
	d->tick = eg_timer_new(ctx->loop, on_tick, d);
	r = d->tick ? 0 : -ENOMEM;
	if (!r)
		r = dg_sock_new(&d->sock, ctx->loop, c->upstream, c->upstreams,
				&sock_ops, d);
	if (!r)
		r = dg_listen_new(&d->listen, ctx->loop, c, &listen_ops, d);
	if (!r)
		r = dg_guard_new(&d->guard, c, &guard_ops, up_send, up_close, d);
	if (r)
		return eg_err_sys(err, r, "cannot set up the DNS guard");
	if (!c->upstreams)
		eg_warning(
			"no upstream resolver is configured: allowed names will not resolve; set [dns] upstream");
	return 0;
}

static void role_on_fd(struct eg_role_ctx *ctx, enum eg_fd_kind kind,
		       uint32_t index, int *fd)
{
	struct dg_role *d = ctx->priv;
	int r;

	if (kind != EG_FD_DNS_UDP && kind != EG_FD_DNS_TCP)
		return;
	r = dg_listen_add(d->listen, index, kind == EG_FD_DNS_TCP, *fd);
	if (r)
		eg_error("gateway %u: its DNS socket is not served: %s", index,
			 strerror(-r));
	else
		*fd = -1;
}

static void role_on_peer(struct eg_role_ctx *ctx, enum eg_role peer)
{
	struct dg_role *d = ctx->priv;

	turn_begin(d);
	if (peer == EG_ROLE_MAIN) {
		/* What the old main was asked, the new one never heard. */
		dg_guard_main_lost(d->guard);
		(void)eg_role_send(ctx, EG_ROLE_MAIN, EG_DM_READY, 0, NULL, 0,
				   -1);
	} else if (peer == EG_ROLE_AUDIT) {
		ring_flush(d);
	}
	turn_end(d);
}

static void role_stop(struct eg_role_ctx *ctx)
{
	struct dg_role *d = ctx->priv;

	if (!d)
		return;
	ring_flush(d);
	dg_listen_flush(d->listen);
	dg_guard_free(d->guard);
	dg_listen_free(d->listen);
	dg_sock_free(d->sock);
	eg_timer_free(d->tick);
	free(d);
	ctx->priv = NULL;
}

const struct eg_role_ops dg_role_ops = {
	.role = EG_ROLE_DNS,
	.start = role_start,
	.on_fd = role_on_fd,
	.on_peer = role_on_peer,
	.on_msg = role_on_msg,
	.stop = role_stop,
};
