// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: the life of a role (see role.h for its four stages)
 */
#include "netpool/base/role.h"
#include "netpool/base/log.h"
#include "netpool/base/util.h"

#include <cap-ng.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#define BIT(c) (1ULL << (c))

/*
 * What each role keeps. launcher: to give children their uids and to signal
 * them; everything else it ever needs comes back with the execution of a
 * child as root inside the bounding set. main: nf_tables. build: namespaces
 * and mounts (SYS_ADMIN), links (NET_ADMIN), port 53 in a new gateway
 * (NET_BIND_SERVICE), and the socket there that sees what is not IPv4
 * (NET_RAW: packet(7) asks for it and for nothing else).
 */
static const uint64_t role_caps[] = {
	[EG_ROLE_LAUNCHER] = BIT(CAP_SETUID) | BIT(CAP_SETGID) | BIT(CAP_KILL),
	[EG_ROLE_MAIN] = BIT(CAP_NET_ADMIN),
	[EG_ROLE_BUILD] = BIT(CAP_NET_ADMIN) | BIT(CAP_SYS_ADMIN) |
			  BIT(CAP_NET_BIND_SERVICE) | BIT(CAP_NET_RAW),
	[EG_ROLE_API] = 0,
	[EG_ROLE_DNS] = 0,
	[EG_ROLE_AUDIT] = 0,
};
_Static_assert(EG_ARRAY_SIZE(role_caps) == EG_ROLE_COUNT, "caps of each role");

uint64_t eg_role_caps(enum eg_role role)
{
	return role_caps[role];
}

const char *eg_caps_format(uint64_t caps, char *buf, size_t cap)
{
	size_t n = 0;

	(void)snprintf(buf, cap, "none");
	for (unsigned int i = 0; i < 64 && n < cap; i++) {
		const char *name =
			caps & BIT(i) ? capng_capability_to_name(i) : NULL;

		if (name)
			n += (size_t)snprintf(buf + n, cap - n, "%scap_%s",
					      n ? "," : "", name);
	}
	return buf;
}

int eg_priv_read(uint64_t *effective, uint64_t *permitted)
{
	char line[128];
	FILE *f = fopen("/proc/thread-self/status", "re");
	int found = 0;
	unsigned long long v;

	/* After a chroot there is no /proc; capget(2) always works. */
	if (!f) {
		*effective = *permitted = 0;
		capng_get_caps_process();
		for (unsigned int i = 0; i <= CAP_LAST_CAP; i++) {
			if (capng_have_capability(CAPNG_EFFECTIVE, i))
				*effective |= BIT(i);
			if (capng_have_capability(CAPNG_PERMITTED, i))
				*permitted |= BIT(i);
		}
		return 0;
	}
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "CapEff: %llx", &v) == 1) {
			*effective = v;
			found |= 1;
		} else if (sscanf(line, "CapPrm: %llx", &v) == 1) {
			*permitted = v;
			found |= 2;
		}
	}
	(void)fclose(f);
	return found == 3 ? 0 : -EIO;
}

static int drop_ids(uint32_t uid, uint32_t gid, const uint32_t *groups,
		    size_t ngroups, struct eg_err *err)
{
	gid_t g[8];

	if (ngroups > EG_ARRAY_SIZE(g))
		return eg_err_set(err, -E2BIG, "too many groups for a role");
	for (size_t i = 0; i < ngroups; i++)
		g[i] = groups[i];
	if (setgroups(ngroups, g) < 0)
		return eg_err_sys(err, -errno, "setgroups");
	if (setresgid(gid, gid, gid) < 0)
		return eg_err_sys(err, -errno, "setresgid %u", gid);
	if (setresuid(uid, uid, uid) < 0)
		return eg_err_sys(err, -errno, "setresuid %u", uid);
	return 0;
}

int eg_priv_drop(const char *root, uint32_t uid, uint32_t gid,
		 const uint32_t *groups, size_t ngroups, uint64_t keep,
		 struct eg_err *err)
{
	uint64_t eff, perm;
	int r;

	if (root && (chroot(root) < 0 || chdir("/") < 0))
		return eg_err_sys(err, -errno, "chroot to %s", root);
	capng_clear(CAPNG_SELECT_ALL);
	if (capng_apply(CAPNG_SELECT_BOUNDS) || capng_apply(CAPNG_SELECT_AMBIENT))
		return eg_err_set(err, -EPERM,
				  "cannot empty the bounding and ambient sets");
	r = drop_ids(uid, gid, groups, ngroups, err);
	if (r)
		return r;
	for (unsigned int i = 0; i <= CAP_LAST_CAP; i++)
		if (keep & BIT(i))
			(void)capng_update(CAPNG_ADD,
					   CAPNG_EFFECTIVE | CAPNG_PERMITTED, i);
	if ((keep || !uid) && capng_apply(CAPNG_SELECT_CAPS))
		return eg_err_set(err, -EPERM, "cannot set the capabilities");
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return eg_err_sys(err, -errno, "no_new_privs");
	r = eg_priv_read(&eff, &perm);
	if (r || eff != keep || perm != keep || getuid() != uid ||
	    geteuid() != uid || getgid() != gid)
		return eg_err_set(
			err, -EPERM,
			"privileges after the drop are not those of the role (capabilities %#llx, wanted %#llx)",
			(unsigned long long)perm, (unsigned long long)keep);
	return 0;
}

static void peer_on_msg(void *arg, struct eg_chan *c, struct eg_msg *m)
{
	struct eg_role_ctx *ctx = arg;

	for (unsigned int i = 0; i < EG_ROLE_COUNT; i++)
		if (ctx->peer[i] == c)
			ctx->ops->on_msg(ctx, (enum eg_role)i, m);
}

static void peer_on_close(void *arg, struct eg_chan *c, const char *why)
{
	struct eg_role_ctx *ctx = arg;

	for (unsigned int i = 0; i < EG_ROLE_COUNT; i++)
		if (ctx->peer[i] == c) {
			eg_debug("channel to %s: %s",
				   eg_role_name((enum eg_role)i), why);
			ctx->peer[i] = NULL;
		}
	eg_chan_free(c);
}

static const struct eg_chan_ops peer_ops = {.on_msg = peer_on_msg,
					    .on_close = peer_on_close};

static void ctl_peer(struct eg_role_ctx *ctx, struct eg_msg *m)
{
	const struct eg_ctl_peer *p = m->body;
	struct eg_chan *c;

	if (p->role >= EG_ROLE_COUNT || m->fd < 0)
		return;
	if (eg_chan_new(&c, ctx->loop, m->fd, &peer_ops, ctx)) {
		eg_error("out of memory for the channel to %s",
			 eg_role_name((enum eg_role)p->role));
		return;
	}
	m->fd = -1;
	eg_chan_free(ctx->peer[p->role]);
	ctx->peer[p->role] = c;
	if (ctx->ops->on_peer)
		ctx->ops->on_peer(ctx, (enum eg_role)p->role);
}

static int conf_map(struct eg_role_ctx *ctx, int fd, struct eg_err *err)
{
	int want = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_SEAL;
	void *p;

	if (fd < 0 || (fcntl(fd, F_GET_SEALS) & want) != want)
		return eg_err_set(err, -EBADMSG,
				  "the configuration is not in sealed memory");
	p = mmap(NULL, sizeof(*ctx->conf), PROT_READ, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		return eg_err_sys(err, -errno, "map the configuration");
	ctx->conf = p;
	if (ctx->conf->magic != EG_CONF_MAGIC ||
	    ctx->conf->size != sizeof(*ctx->conf))
		return eg_err_set(err, -EBADMSG,
				  "the configuration is another version's");
	return 0;
}

/* Stage 3: what is particular to each role beside its capabilities. */
static int role_drop(struct eg_role_ctx *ctx, struct eg_err *err)
{
	const struct eg_conf *c = ctx->conf;
	enum eg_role role = ctx->ops->role;
	uint32_t groups[2], uid, gid;
	size_t n = 0;
	char empty[EG_PATH + 8];
	const char *root = empty;

	if (!c) /* configure() has mapped it */
		return eg_err_set(err, -EINVAL, "no configuration");
	uid = c->role_uid[role];
	gid = c->role_gid[role];
	(void)snprintf(empty, sizeof(empty), "%s/empty", c->run);
	if (role == EG_ROLE_BUILD)
		root = NULL; /* mounts, /proc/sys, /dev/net/tun */
	if (role == EG_ROLE_AUDIT) {
		root = c->audit_dir;
		/* to own its files; never root's group */
		if (c->read_gid != UINT32_MAX && c->read_gid)
			groups[n++] = c->read_gid; /* to own its files */
	}
	return eg_priv_drop(root, uid, gid, groups, n, eg_role_caps(role), err);
}

static int configure(struct eg_role_ctx *ctx, int fd, struct eg_err *err)
{
	int r = conf_map(ctx, fd, err);

	if (!r && ctx->ops->open)
		r = ctx->ops->open(ctx, err);
	if (!r)
		r = role_drop(ctx, err);
	if (!r && ctx->ops->start)
		r = ctx->ops->start(ctx, err);
	return r;
}

static void ctl_conf(struct eg_role_ctx *ctx, struct eg_msg *m)
{
	struct eg_ctl_ready rd = {0};
	struct eg_err err = {0};
	uint64_t eff = 0, perm = 0;
	int r = ctx->conf ? -EEXIST : configure(ctx, m->fd, &err);

	(void)eg_priv_read(&eff, &perm);
	rd.caps = eff | perm;
	rd.uid = getuid();
	rd.gid = getgid();
	rd.no_new_privs = (uint32_t)prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0);
	rd.ok = !r;
	(void)snprintf(rd.text, sizeof(rd.text), "%.250s", err.text);
	(void)eg_chan_send(ctx->ctl, EG_CTL_READY, 0, &rd, sizeof(rd), -1);
	if (r) {
		ctx->exit_status = 1;
		eg_loop_stop(ctx->loop);
	}
}

static void ctl_fd(struct eg_role_ctx *ctx, struct eg_msg *m)
{
	const struct eg_ctl_key *k = m->body;

	if (m->fd >= 0 && k->kind < EG_FD_KIND_COUNT && ctx->ops->on_fd)
		ctx->ops->on_fd(ctx, (enum eg_fd_kind)k->kind, k->index, &m->fd);
}

static void ctl_on_msg(void *arg, struct eg_chan *c, struct eg_msg *m)
{
	struct eg_role_ctx *ctx = arg;

	(void)c;
	if (ctx->exit_status)
		return; /* it could not start: nothing is done any more */
	if (!ctx->conf && m->type != EG_CTL_CONF)
		return; /* stage 1 listens to nothing else */
	if (m->type == EG_CTL_CONF)
		ctl_conf(ctx, m);
	else if (m->type == EG_CTL_PEER)
		ctl_peer(ctx, m);
	else if (m->type == EG_CTL_FD)
		ctl_fd(ctx, m);
	else if (m->type == EG_CTL_GO) {
		if (ctx->ops->on_go)
			ctx->ops->on_go(ctx);
	} else if (m->type == EG_CTL_STOP) {
		if (ctx->ops->stop)
			ctx->ops->stop(ctx);
		eg_loop_stop(ctx->loop);
	} else if (ctx->ops->on_ctl) {
		ctx->ops->on_ctl(ctx, m);
	}
}

static void ctl_on_close(void *arg, struct eg_chan *c, const char *why)
{
	struct eg_role_ctx *ctx = arg;

	(void)c;
	(void)why;
	/*
	 * The launcher is gone. The kernel's state stays as it is, and
	 * nobody may hold a log group when the next launcher binds it.
	 */
	if (ctx->ops->role == EG_ROLE_AUDIT && ctx->ops->stop)
		ctx->ops->stop(ctx); /* what was received is written */
	_exit(0);
}

static const struct eg_chan_ops ctl_ops = {.on_msg = ctl_on_msg,
					   .on_close = ctl_on_close};

int eg_role_run(const struct eg_role_ops *ops)
{
	struct eg_role_ctx ctx = {.ops = ops};
	struct eg_ctl_hello hello = {.role = ops->role,
				     .pid = (uint32_t)getpid()};
	char who[32];

	(void)snprintf(who, sizeof(who), "egressd[%s]", eg_role_name(ops->role));
	eg_log_init(who, getenv("EGRESSD_DEBUG") ? EG_LOG_DEBUG : EG_LOG_INFO);
	(void)prctl(PR_SET_NAME, who); /* 15 bytes of it, for ps */
	if (fcntl(EG_ROLE_FD, F_SETFD, FD_CLOEXEC) < 0 || eg_loop_new(&ctx.loop) ||
	    eg_chan_new(&ctx.ctl, ctx.loop, EG_ROLE_FD, &ctl_ops, &ctx)) {
		eg_error("a role is started by egressd itself, not by hand");
		return 2;
	}
	(void)eg_chan_send(ctx.ctl, EG_CTL_HELLO, 0, &hello, sizeof(hello), -1);
	if (eg_loop_run(ctx.loop))
		ctx.exit_status = 1;
	(void)eg_chan_flush(ctx.ctl, 500);
	for (unsigned int i = 0; i < EG_ROLE_COUNT; i++) {
		if (ctx.peer[i])
			(void)eg_chan_flush(ctx.peer[i], 200);
		eg_chan_free(ctx.peer[i]);
	}
	eg_chan_free(ctx.ctl);
	eg_loop_free(ctx.loop);
	return ctx.exit_status;
}

int eg_role_send(struct eg_role_ctx *ctx, enum eg_role to, uint16_t type,
		 uint64_t cookie, const void *body, size_t len, int fd)
{
	int r;

	if (!ctx->peer[to])
		return -ENOTCONN;
	r = eg_chan_send(ctx->peer[to], type, cookie, body, len, fd);
	if (r && r != -EPIPE) /* its death is told elsewhere */
		eg_warning("%s to %s: %s", eg_msg_spec[type].name,
			   eg_role_name(to), strerror(-r));
	return r;
}

int eg_role_hold(struct eg_role_ctx *ctx, enum eg_fd_kind kind, uint32_t index,
		 int fd)
{
	struct eg_ctl_key k = {.kind = kind, .index = index};

	return eg_chan_send(ctx->ctl, EG_CTL_HOLD, 0, &k, sizeof(k), fd);
}

void eg_role_drop(struct eg_role_ctx *ctx, enum eg_fd_kind kind, uint32_t index)
{
	struct eg_ctl_key k = {.kind = kind, .index = index};

	/* A full queue keeps a descriptor a little longer, no more. */
	(void)eg_chan_send(ctx->ctl, EG_CTL_DROP, 0, &k, sizeof(k), -1);
}
