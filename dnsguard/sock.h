/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: the sockets of the upstream engine.
 *
 * A UDP question gets a socket of its own, connected, so that the kernel
 * picks an unpredictable port and drops what comes from elsewhere. TCP is
 * one connection a question, of which DG_UP_TCP_MAX octets are read at most.
 * A request has at most one socket at a time, so DG_UP_REQUESTS bounds them.
 */
#ifndef DG_SOCK_H
#define DG_SOCK_H

#include "dnsguard/upstream.h"
#include "netpool/base/loop.h"

struct dg_sock_ops {
	void (*datagram)(void *arg, uint32_t req, const uint8_t *msg,
			 size_t len);
	void (*stream)(void *arg, uint32_t req, const uint8_t *msg,
		       size_t len);
	void (*error)(void *arg, uint32_t req);
};

struct dg_sock;

int dg_sock_new(struct dg_sock **ret, struct eg_loop *loop,
		const struct eg_conf_upstream *server, uint32_t nservers,
		const struct dg_sock_ops *ops, void *arg);
void dg_sock_free(struct dg_sock *s);

/* As dg_up_ops wants them. */
int dg_sock_send(struct dg_sock *s, uint32_t req, uint32_t server, bool tcp,
		 const uint8_t *msg, size_t len);
void dg_sock_close(struct dg_sock *s, uint32_t req);

#endif
