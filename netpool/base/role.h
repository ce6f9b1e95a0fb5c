/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: the life of a role, the same for all of them.
 *
 * A role is the same binary, executed anew by the launcher as
 * `egressd --role NAME` with one end of its control channel as descriptor
 * EG_ROLE_FD, so that it inherits neither heap nor layout. It passes four
 * stages:
 *
 *  1. started: root with the launcher's bounding set. Has said HELLO.
 *     Must not read anything but the control channel.
 *  2. configured: has mapped the sealed configuration. Opens what it cannot
 *     open later (ops->open). Must not have parsed anything foreign.
 *  3. dropped: chrooted where its row of the table says so, own uid and gid,
 *     no supplementary groups but those it needs, exactly its capabilities,
 *     ambient and bounding sets empty, no_new_privs set; read back and
 *     compared, the role ends if they differ. Must not open anything more.
 *  4. serving: READY has been sent, peers and held descriptors arrive, the
 *     loop runs until the control channel closes.
 *
 * When the control channel closes the launcher is dead or wants us dead:
 * the role exits at once and leaves the kernel's state as it is.
 */
#ifndef EG_ROLE_H
#define EG_ROLE_H

#include "netpool/base/conf.h"
#include "netpool/base/err.h"
#include "netpool/base/loop.h"
#include "netpool/base/msg.h"
#include "netpool/base/proto.h"

#define EG_ROLE_FD 3

struct eg_role_ctx;

struct eg_role_ops {
	enum eg_role role;
	/* stage 2, may be NULL; failure ends the role with its sentence */
	int (*open)(struct eg_role_ctx *ctx, struct eg_err *err);
	/* stage 4, before any other callback: set up, timers, state */
	int (*start)(struct eg_role_ctx *ctx, struct eg_err *err);
	/* a held descriptor; take it by setting *fd to -1 */
	void (*on_fd)(struct eg_role_ctx *ctx, enum eg_fd_kind kind,
		      uint32_t index, int *fd);
	/* ctx->peer[role] is a fresh channel (first time or after a restart) */
	void (*on_peer)(struct eg_role_ctx *ctx, enum eg_role peer);
	/* everything the launcher had at the start has been delivered */
	void (*on_go)(struct eg_role_ctx *ctx);
	/* a message from a peer; keep m->fd by setting it to -1 */
	void (*on_msg)(struct eg_role_ctx *ctx, enum eg_role from,
		       struct eg_msg *m);
	/* control messages the runtime does not handle (RESERVED, POLICY) */
	void (*on_ctl)(struct eg_role_ctx *ctx, struct eg_msg *m);
	/* EG_CTL_STOP: flush what must be flushed; the role exits after */
	void (*stop)(struct eg_role_ctx *ctx);
};

struct eg_role_ctx {
	const struct eg_role_ops *ops;
	struct eg_loop *loop;
	struct eg_chan *ctl;
	const struct eg_conf *conf;
	struct eg_chan *peer[EG_ROLE_COUNT]; /* NULL while there is none */
	void *priv;			     /* the role's own state */
	int exit_status;
};

/* eg_role_run() - run a role until it ends; returns its exit status. */
int eg_role_run(const struct eg_role_ops *ops);

/**
 * eg_role_send() - send to a peer; a missing peer is -ENOTCONN
 *
 * A full queue means the peer is stuck: that is logged once and reported.
 */
int eg_role_send(struct eg_role_ctx *ctx, enum eg_role to, uint16_t type,
		 uint64_t cookie, const void *body, size_t len, int fd);

/* eg_role_hold() - have the launcher keep a duplicate of @fd. */
int eg_role_hold(struct eg_role_ctx *ctx, enum eg_fd_kind kind, uint32_t index,
		 int fd);
void eg_role_drop(struct eg_role_ctx *ctx, enum eg_fd_kind kind, uint32_t index);

/* Capabilities a role keeps, as a bit mask of CAP_*. */
uint64_t eg_role_caps(enum eg_role role);

/**
 * eg_priv_drop() - stage 3
 * @root:	directory to chroot into, NULL: none
 * @keep:	capability mask
 *
 * All or nothing: on failure the caller must exit.
 */
int eg_priv_drop(const char *root, uint32_t uid, uint32_t gid,
		 const uint32_t *groups, size_t ngroups, uint64_t keep,
		 struct eg_err *err);

/* eg_priv_read() - effective capabilities, as the kernel reports them. */
int eg_priv_read(uint64_t *effective, uint64_t *permitted);

/* eg_caps_format() - "cap_net_admin,cap_sys_admin" or "none". */
const char *eg_caps_format(uint64_t caps, char *buf, size_t cap);

#endif
