/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: the guard's side towards the guests: transparent sockets in each
 * gateway.
 *
 * The role that builds gateways binds them to port 53 of every address
 * there, with IP_TRANSPARENT, IP_PKTINFO and IP_RECVORIGDSTADDR, and hands
 * them over. TPROXY delivers every packet of a slot to port 53 here,
 * whatever its destination. Kernel facts relied upon:
 *
 * - UDP: IP_PKTINFO tells the arrival link and the destination in the
 *   packet, which TPROXY does not rewrite; an answer sent with ipi_spec_dst
 *   and ipi_ifindex has that address as its source and leaves by that link.
 * - TCP: an accepted socket's own name is the destination the guest asked;
 *   getsockopt(IP_PKTOPTIONS) yields an IP_PKTINFO whose ipi_ifindex is the
 *   link the SYN came by, when the listener had IP_PKTINFO set before.
 *
 * A guest is known by its link, never by an address.
 */
#ifndef DG_LISTEN_H
#define DG_LISTEN_H

#include "dnsguard/guard.h"
#include "netpool/base/loop.h"

#define DG_QUERY_MAX 4096    /* octets; stock queries have less than 300 */
#define DG_TCP_SLOT 4	     /* connections of one slot */
#define DG_TCP_QUERIES 64    /* of one connection, then it is closed */
#define DG_TCP_IDLE_S 10
#define DG_TCP_CONNS 4096    /* of all slots */
#define DG_ACCEPT_PAUSE_MS 1000 /* when descriptors run out */

struct dg_listen_ops {
	void (*query)(void *arg, const struct dg_client *from,
		      const uint8_t *msg, size_t len);
};

struct dg_listen_stats {
	uint64_t udp_in, udp_out, udp_lost, strangers;
	uint64_t accepted, refused, idle, paused;
};

struct dg_listen;

int dg_listen_new(struct dg_listen **ret, struct eg_loop *loop,
		  const struct eg_conf *conf, const struct dg_listen_ops *ops,
		  void *arg);
void dg_listen_free(struct dg_listen *l);

/* dg_listen_add() - serve a gateway's socket; @fd is taken on success. */
int dg_listen_add(struct dg_listen *l, uint32_t gateway, bool tcp, int fd);

/* dg_listen_reply() - UDP answers wait for dg_listen_flush(). */
void dg_listen_reply(struct dg_listen *l, const struct dg_client *to,
		     const uint8_t *msg, size_t len);
void dg_listen_silence(struct dg_listen *l, const struct dg_client *to);
void dg_listen_flush(struct dg_listen *l);

/* dg_listen_cut() - close a slot's connections: its lease has changed. */
void dg_listen_cut(struct dg_listen *l, uint32_t slot);

const struct dg_listen_stats *dg_listen_stats(const struct dg_listen *l);

#endif
