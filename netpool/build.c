// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: the build role: dispatch, gateways, the host (see build.h)
 *
 * What must outlive this process is held by the launcher: a gateway's
 * sockets and its namespace. All of it comes back through on_fd, the sockets
 * only to be counted: those that are held are in use by dns and audit, and a
 * second one could not be bound. After the death of the whole tree nothing is
 * held; gateways are then found by their names and the sockets made anew,
 * which for NFLOG has to wait until the last reader of the group has exited.
 *
 * "The host" is the namespace the process is started in.
 */
#include "netpool/build.h"
#include "netpool/base/log.h"
#include "netpool/base/plan.h"
#include "netpool/base/util.h"
#include "netpool/build_state.h"
#include "netpool/host.h"
#include "netpool/layout.h"
#include "netpool/link.h"

#include <errno.h>
#include <linux/rtnetlink.h>
#include <stdio.h>
#include <string.h>

#define LOG_TRY_US 100000 /* between two tries for a group */
#define LOG_TRY_NS (3 * EG_NSEC_PER_SEC)
#define GATEWAY_HELD                                                           \
	(1U << EG_FD_GATEWAY | 1U << EG_FD_NFLOG | 1U << EG_FD_PACKET |        \
	 1U << EG_FD_DNS_UDP | 1U << EG_FD_DNS_TCP)
#define HOST_QUIET_US 50000 /* addresses come and go in bursts */

void np_build_tell(struct np_build *b, uint16_t type, uint64_t cookie,
		   const void *body, size_t len, int fd)
{
	/* An absent main scans when it comes; a full queue is logged there. */
	(void)eg_role_send(b->ctx, EG_ROLE_MAIN, type, cookie, body, len, fd);
}

/* ---- gateways ------------------------------------------------------------- */

static void gateway_answer(struct np_gate *g, int error, const struct eg_err *e)
{
	struct np_build *b = g->b;
	struct eg_bm_gateway m = {.gateway = g->gw.number,
				  .error = error,
				  .adopted = g->gw.adopted,
				  .mtu = g->gw.mtu};
	EG_CLEANUP_FD int nft = -1;
	struct eg_err err = {0};

	g->pending = false;
	if (!error) {
		nft = np_nfnetlink(&b->w, g->gw.ns, &err);
		m.error = nft < 0 ? nft : 0;
		e = &err;
	}
	if (m.error)
		(void)snprintf(m.text, sizeof(m.text), "%.*s",
			       (int)sizeof(m.text) - 1, e->text);
	else
		(void)eg_role_hold(b->ctx, EG_FD_NFT, g->gw.number, nft);
	np_build_tell(b, EG_BM_GATEWAY, g->cookie, &m, sizeof(m), nft);
}

/* Leave one with the launcher; -1: it is there already. */
static int socket_hold(struct np_gate *g, enum eg_fd_kind kind, int fd)
{
	int r = fd < 0 ? 0 : eg_role_hold(g->b->ctx, kind, g->gw.number, fd);

	if (!r)
		g->gw.have |= 1U << kind;
	return r;
}

static int gateway_hold(struct np_gate *g, struct eg_err *err)
{
	struct np_gateway_sockets s;
	int r;

	if (g->held)
		return 0;
	r = np_gateway_sockets(&g->b->w, &g->gw, &s, err);
	if (r)
		return r;
	r = socket_hold(g, EG_FD_NFLOG, s.nflog);
	if (!r)
		r = socket_hold(g, EG_FD_PACKET, s.packet);
	if (!r)
		r = socket_hold(g, EG_FD_DNS_UDP, s.dns_udp);
	if (!r)
		r = socket_hold(g, EG_FD_DNS_TCP, s.dns_tcp);
	if (!r)
		r = socket_hold(g, EG_FD_GATEWAY, g->gw.ns);
	np_gateway_sockets_close(&s);
	if (r)
		return eg_err_sys(err, r,
				  "cannot leave sockets with the launcher");
	g->held = true;
	return 0;
}

static int gateway_open(struct np_gate *g, struct eg_err *err)
{
	int r = 0;

	if (!g->gw.rtnl) {
		r = np_gateway_open(&g->b->w, &g->gw, g->b->mtu, err);
		if (!r)
			r = np_slots_watch(g->b, g, err);
	} else {
		g->gw.adopted = true; /* main has been restarted */
	}
	return r;
}

/* Open what is missing and answer, or wait for the log group. */
static void gateway_try(struct np_gate *g)
{
	struct np_build *b = g->b;
	struct eg_err err = {0};
	bool half = !g->gw.rtnl;
	int r = gateway_open(g, &err);

	if (!r) {
		half = false;
		r = gateway_hold(g, &err);
	}
	if (r == -EPERM && g->gw.rtnl && eg_boot_ns() < g->give_up) {
		g->pending = true;
		eg_timer_set(b->retry, LOG_TRY_US);
		return;
	}
	if (r)
		(void)eg_err_wrap(&err, "gateway %u", g->gw.number);
	if (r && half) {
		/* A later try starts over; a name that was made is found. */
		eg_io_free(g->io);
		g->io = NULL;
		np_gateway_close(&g->gw);
	}
	gateway_answer(g, r, &err);
}

static void on_gateway(struct np_build *b, uint64_t cookie, uint32_t number)
{
	struct np_gate *g = &b->gate[number];

	g->cookie = cookie;
	g->give_up = eg_boot_ns() + LOG_TRY_NS;
	gateway_try(g);
}

static void on_gateway_up(struct np_build *b, uint64_t cookie, uint32_t number)
{
	struct np_gate *g = &b->gate[number];
	struct eg_bm_gateway m = {
		.gateway = number, .adopted = g->gw.adopted, .mtu = g->gw.mtu};
	struct eg_err err = {0};

	if (!g->gw.rtnl)
		m.error = eg_err_set(&err, -ENOENT, "gateway %u is not there",
				     number);
	else
		m.error = np_gateway_up(&b->w, &g->gw, &err);
	if (m.error)
		(void)snprintf(m.text, sizeof(m.text), "%.*s",
			       (int)sizeof(m.text) - 1, err.text);
	np_build_tell(b, EG_BM_GATEWAY_UP, cookie, &m, sizeof(m), -1);
}

/* ---- the host ------------------------------------------------------------- */

static void host_tell(struct np_build *b, bool always)
{
	static struct eg_bm_host now;
	struct eg_err err;
	size_t n = 0;
	int r;

	memset(&now, 0, sizeof(now));
	r = np_link_addrs(b->w.rtnl, now.addr, EG_HOST_ADDRS, &n, &err);
	if (r)
		eg_error("%s", err.text);
	if (r && r != -E2BIG)
		return;
	now.count = (uint32_t)n;
	if (!always && !memcmp(&now, &b->host, sizeof(now)))
		return;
	b->host = now;
	np_build_tell(b, EG_BM_HOST, 0, &now, sizeof(now), -1);
}

static void on_host_quiet(void *arg)
{
	host_tell(arg, false);
}

static void ignore(void *arg, const struct nlmsghdr *h)
{
	(void)arg;
	(void)h;
}

static void on_host_addr(void *arg, int fd, int what)
{
	struct np_build *b = arg;

	(void)what;
	/* Only that something changed: the list itself is asked for. */
	(void)np_rtnl_events(fd, ignore, NULL);
	eg_timer_set(b->host_quiet, HOST_QUIET_US);
}

static int host_nft(struct np_build *b, struct eg_err *err)
{
	EG_CLEANUP_FD int fd = np_nfnetlink(&b->w, b->w.home, err);

	if (fd < 0)
		return fd;
	return eg_role_hold(b->ctx, EG_FD_HOST_NFT, 0, fd);
}

static void host_log_try(struct np_build *b)
{
	EG_CLEANUP_FD int fd = -1;
	struct eg_err err = {0};

	fd = np_nflog(&b->w, b->w.home, EG_NFLOG_GROUP_HOST, &err);
	if (fd == -EPERM && eg_boot_ns() < b->host_log_until) {
		eg_timer_set(b->retry, LOG_TRY_US);
		return;
	}
	b->host_log_wanted = false;
	if (fd < 0)
		eg_error("what the host's own guard drops is not logged: %s",
			 err.text);
	else
		(void)eg_role_hold(b->ctx, EG_FD_HOST_LOG, 0, fd);
}

static void on_retry(void *arg)
{
	struct np_build *b = arg;

	if (b->host_log_wanted)
		host_log_try(b);
	for (uint32_t i = 0; i < b->conf->gateways; i++)
		if (b->gate[i].pending)
			gateway_try(&b->gate[i]);
}

static int host_prepare(struct np_build *b, struct eg_err *err)
{
	bool changed = false;
	int r = np_host_netns_dir(b->conf, err);

	if (!r)
		r = np_layout_settle(b->conf, b->w.home, err);
	if (!r)
		r = np_host_forward(b->conf, &changed, err);
	if (changed)
		eg_notice("the host did not forward IPv4: net.ipv4.ip_forward is 1 now, a purge puts it back");
	if (!r)
		r = np_rtnl_open(&b->w.rtnl, err);
	if (!r)
		r = np_ct_open(&b->ct, err);
	if (!r)
		r = np_host_mtu(b->conf, b->w.rtnl, &b->mtu, err);
	return r;
}

static int host_watch(struct np_build *b, struct eg_err *err)
{
	size_t n;
	int r;

	b->host_fd = np_rtnl_monitor(RTMGRP_IPV4_IFADDR, err);
	if (b->host_fd < 0)
		return b->host_fd;
	b->host_quiet = eg_timer_new(b->ctx->loop, on_host_quiet, b);
	b->host_io =
		eg_io_new(b->ctx->loop, b->host_fd, EG_READ, on_host_addr, b);
	if (!b->host_quiet || !b->host_io)
		return eg_err_set(err, -ENOMEM, "out of memory");
	r = np_link_addrs(b->w.rtnl, b->host.addr, EG_HOST_ADDRS, &n, err);
	if (!r)
		b->host.count = (uint32_t)n;
	return r;
}

/* ---- the role ------------------------------------------------------------- */

static int build_open(struct eg_role_ctx *ctx, struct eg_err *err)
{
	struct np_build *b = calloc(1, sizeof(*b));

	if (!b)
		return eg_err_set(err, -ENOMEM, "out of memory");
	ctx->priv = b;
	b->ctx = ctx;
	b->conf = ctx->conf;
	b->w.conf = ctx->conf;
	b->host_fd = -1;
	b->init_net = -1;
	b->w.home = np_netns_self(err);
	if (b->w.home < 0)
		return b->w.home;
	for (uint32_t i = 0; i < EG_GATEWAYS_MAX; i++) {
		b->gate[i].b = b;
		b->gate[i].scrap.first = NP_NO_SLOT;
		np_gateway_init(&b->gate[i].gw, i);
	}
	return 0;
}

static int build_start(struct eg_role_ctx *ctx, struct eg_err *err)
{
	struct np_build *b = ctx->priv;
	int r;

	b->retry = eg_timer_new(ctx->loop, on_retry, b);
	if (!b->retry)
		return eg_err_set(err, -ENOMEM, "out of memory");
	r = np_slots_init(b, err);
	if (!r)
		r = host_prepare(b, err);
	if (!r)
		r = host_watch(b, err);
	return r;
}

static void build_on_fd(struct eg_role_ctx *ctx, enum eg_fd_kind kind,
			uint32_t index, int *fd)
{
	struct np_build *b = ctx->priv;

	if (!b)
		return;
	if (kind == EG_FD_SLOT) {
		np_slots_held(b, index, fd);
	} else if (kind == EG_FD_INIT_NET) {
		eg_close_p(&b->init_net);
		b->init_net = eg_steal_fd(fd);
	} else if (kind == EG_FD_HOST_NFT || kind == EG_FD_HOST_LOG) {
		b->have |= 1U << kind;
	} else if (index < b->conf->gateways) {
		struct np_gate *g = &b->gate[index];

		if (kind == EG_FD_GATEWAY && g->gw.ns < 0 && np_netns_is(*fd))
			g->gw.ns = eg_steal_fd(fd);
		g->gw.have |= 1U << kind;
		g->held = (g->gw.have & GATEWAY_HELD) == GATEWAY_HELD;
	}
}

/* A gateway that was held is opened at once: slots' commands need it. */
static void build_on_go(struct eg_role_ctx *ctx)
{
	struct np_build *b = ctx->priv;
	struct eg_err err = {0};

	for (uint32_t i = 0; i < b->conf->gateways; i++)
		if (b->gate[i].gw.ns >= 0 && gateway_open(&b->gate[i], &err))
			eg_error("gateway %u: %s", i, err.text);
	if (!(b->have & 1U << EG_FD_HOST_NFT) && host_nft(b, &err))
		eg_error("%s", err.text);
	if (b->have & 1U << EG_FD_HOST_LOG)
		return;
	b->host_log_wanted = true;
	b->host_log_until = eg_boot_ns() + LOG_TRY_NS;
	host_log_try(b);
}

static void build_on_peer(struct eg_role_ctx *ctx, enum eg_role peer)
{
	struct np_build *b = ctx->priv;

	if (peer != EG_ROLE_MAIN || !b)
		return;
	np_slots_new_main(b);
	for (uint32_t i = 0; i < b->conf->gateways; i++)
		b->gate[i].pending = false;
	host_tell(b, true);
}

static void build_on_msg(struct eg_role_ctx *ctx, enum eg_role from,
			 struct eg_msg *m)
{
	struct np_build *b = ctx->priv;
	const struct eg_mb_gateway *g = m->body;

	if (from != EG_ROLE_MAIN || !b) /* !b: stopped */
		return;
	switch (m->type) {
	case EG_MB_GATEWAY:
	case EG_MB_GATEWAY_UP:
		if (g->gateway >= b->conf->gateways)
			eg_error("main asks for gateway %u of %u", g->gateway,
				 b->conf->gateways);
		else if (m->type == EG_MB_GATEWAY)
			on_gateway(b, m->cookie, g->gateway);
		else
			on_gateway_up(b, m->cookie, g->gateway);
		break;
	case EG_MB_BUILD:
		np_slots_build(b, m->cookie, m->body);
		break;
	case EG_MB_ARM:
		np_slots_arm(b, m->cookie, m->body);
		break;
	case EG_MB_GUEST:
		np_slots_guest(b, m->cookie, m->body);
		break;
	case EG_MB_ADOPTED:
		np_slots_adopted(b, m->body);
		break;
	case EG_MB_DOWN:
		np_slots_down(b, m->cookie, m->body);
		break;
	case EG_MB_SCRAP:
		np_slots_scrap(b, m->cookie, m->body);
		break;
	case EG_MB_SCAN:
		np_slots_scan(b, m->cookie);
		break;
	default: /* not an enum of ours alone: a number from a sibling */
		eg_error("main sent message %u, which is not build's", m->type);
	}
}

static void build_stop(struct eg_role_ctx *ctx)
{
	struct np_build *b = ctx->priv;

	if (!b)
		return;
	ctx->priv = NULL;
	np_slots_free(b);
	for (uint32_t i = 0; i < EG_GATEWAYS_MAX; i++) {
		eg_io_free(b->gate[i].io);
		np_gateway_close(&b->gate[i].gw);
	}
	eg_io_free(b->host_io);
	eg_timer_free(b->host_quiet);
	eg_timer_free(b->retry);
	eg_close_p(&b->host_fd);
	np_ct_close(b->ct);
	np_rtnl_close(b->w.rtnl);
	eg_close_p(&b->init_net);
	eg_close_p(&b->w.home);
	free(b);
}

const struct eg_role_ops np_build_ops = {
	.role = EG_ROLE_BUILD,
	.open = build_open,
	.start = build_start,
	.on_fd = build_on_fd,
	.on_peer = build_on_peer,
	.on_go = build_on_go,
	.on_msg = build_on_msg,
	.stop = build_stop,
};
