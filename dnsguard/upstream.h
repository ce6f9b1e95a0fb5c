/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: asking upstream, as a state machine without sockets.
 *
 * A request is one question of type A. It is sent over UDP from a fresh
 * socket with a fresh id and a fresh case pattern to the preferred server,
 * after DG_UP_UDP_MS or at once when the server fails to the next one, at
 * most DG_UP_SENDS times (twice when there are fewer than three servers).
 * It goes over TCP to the same server when the reply is truncated, when it
 * differs from the question in letter case only, or when DG_UP_BAD datagrams
 * that answer something else have come in: somebody may be guessing. Names
 * some server folds three times are asked without the case pattern.
 * Datagrams that do not match are counted and never end the wait. All is
 * over after DG_UP_TOTAL_MS.
 *
 * Time is what the caller says; sockets are the caller's (sock.h).
 */
#ifndef DG_UPSTREAM_H
#define DG_UPSTREAM_H

#include "dnsguard/build.h"
#include "netpool/base/conf.h"

#define DG_UP_REQUESTS 1024 /* in flight, of all leases */
#define DG_UP_SENDS 3
#define DG_UP_BAD 10
#define DG_UP_EXEMPT 3	    /* case mismatches before a name is let off */
#define DG_UP_UDP_MS 800    /* clients give up after 5 s; see the total */
#define DG_UP_TCP_MS 1000
#define DG_UP_TOTAL_MS 2800 /* below the guest's deadline, guard.h */
#define DG_UP_TCP_MAX 16384 /* octets of a reply read over TCP */

struct dg_up_ops {
	/*
	 * Send to server[index]: UDP from a new connected socket, TCP over a
	 * new connection. Earlier sockets of the request are closed first.
	 * 0 or negative errno.
	 */
	int (*send)(void *arg, uint32_t req, uint32_t server, bool tcp,
		    const uint8_t *msg, size_t len);
	void (*close)(void *arg, uint32_t req);
	/* The request is over and its number free; @r NULL: failed. */
	void (*done)(void *arg, uint32_t req, const struct dg_reply *r,
		     enum dg_ede why);
};

struct dg_up_stats {
	uint64_t asked, answered, failed, ignored, folded, over_tcp, timeouts;
};

struct dg_up;

int dg_up_new(struct dg_up **ret, uint32_t nservers,
	      const struct dg_up_ops *ops, void *arg);
void dg_up_free(struct dg_up *up);

/**
 * dg_up_ask() - start a request
 *
 * Never calls done() itself. Return: its number, below DG_UP_REQUESTS;
 * -EBUSY when all are in use, -EHOSTUNREACH when there is no server.
 */
int dg_up_ask(struct dg_up *up, const struct eg_name *name, int64_t now);

void dg_up_on_datagram(struct dg_up *up, uint32_t req, const uint8_t *msg,
		       size_t len, int64_t now);
void dg_up_on_stream(struct dg_up *up, uint32_t req, const uint8_t *msg,
		     size_t len, int64_t now);
/* The socket failed: refused, closed, or the reply was too long. */
void dg_up_on_error(struct dg_up *up, uint32_t req, int64_t now);

/* dg_up_tick() - let timeouts happen. */
void dg_up_tick(struct dg_up *up, int64_t now);
/* dg_up_next() - when the next timeout is due, INT64_MAX: never. */
int64_t dg_up_next(const struct dg_up *up);

const struct dg_up_stats *dg_up_stats(const struct dg_up *up);

#endif
