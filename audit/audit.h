/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: the audit role: evidence of what was denied.
 *
 * No capability, its own uid, its root is the audit directory. It reads what
 * the kernel logged in each gateway (nflog.h), frames that are not IPv4
 * (packet.h), the guard's denials, and writes them into a directory for each
 * lease (files.h) that is sealed when the lease ends (seal.h).
 *
 * The law: denied = suppressed + sent, lost = sent - logged, per slot and
 * reason. sent is the kernel's count (or the guard's, or for frames ours),
 * logged is what has been written out. It is exact at a read-out: the kernel
 * keeps packets up to its flush time, so a question waits AU_SETTLE_US, then
 * the gateway's socket is read until it is empty, the lease's file is
 * written, and the answer goes.
 *
 * A restart: main announces its leases again; until it has been quiet about
 * that, no packet is read (the kernel's buffers hold them), so that none is
 * taken for a stranger's.
 */
#ifndef AU_AUDIT_H
#define AU_AUDIT_H

#include "netpool/base/role.h"

/* The kernel's flush time is 10 ms; a tick of CONFIG_HZ=100 and some more. */
#define AU_SETTLE_US 25000

extern const struct eg_role_ops au_role_ops;

/**
 * au_start_at() - what the start operation does, for a directory that is not
 *		   the root
 * @dirfd:	the audit directory, taken on success
 */
int au_start_at(struct eg_role_ctx *ctx, int dirfd, struct eg_err *err);

/* au_done() - write everything and free the role's state. */
void au_done(struct eg_role_ctx *ctx);

#endif
