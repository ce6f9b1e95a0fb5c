/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: a channel between two roles.
 *
 * A channel is one end of a SOCK_SEQPACKET pair. Sending never blocks: what
 * the socket does not take is queued, in order, up to EG_CHAN_QUEUE
 * messages; beyond that eg_chan_send() returns -ENOBUFS and the caller
 * decides (a peer that far behind is broken or flooded). Receiving checks
 * size, magic, type and descriptor count against eg_msg_spec[] before
 * anybody looks at the body; anything wrong closes the channel, as does end
 * of file, and the owner is told once through on_close.
 */
#ifndef EG_MSG_H
#define EG_MSG_H

#include "netpool/base/loop.h"
#include "netpool/base/proto.h"

#include <stddef.h>

#define EG_CHAN_QUEUE                                                          \
	65536 /* four messages a slot while a pool is taken over */

struct eg_msg {
	uint16_t type; /* enum eg_msg_type */
	uint64_t cookie;
	const void *body; /* aligned for any structure of proto.h */
	size_t len;
	int fd; /* -1, or owned by the receiver until it takes it */
};

struct eg_chan;

struct eg_chan_ops {
	/* A handler that keeps m->fd sets it to -1; else it is closed. */
	void (*on_msg)(void *arg, struct eg_chan *c, struct eg_msg *m);
	/* Last call for this channel; the handler eg_chan_free()s it. */
	void (*on_close)(void *arg, struct eg_chan *c, const char *why);
};

/* eg_chan_pair() - two connected ends, non-blocking, close-on-exec. */
int eg_chan_pair(int ret[2]);

/**
 * eg_chan_new() - wrap one end
 * @fd:		taken on success
 */
int eg_chan_new(struct eg_chan **ret, struct eg_loop *loop, int fd,
		const struct eg_chan_ops *ops, void *arg);
void eg_chan_free(struct eg_chan *c);

/**
 * eg_chan_send() - send or queue one message
 * @fd:		descriptor to pass, borrowed (duplicated when queued); -1: none
 *
 * Return: 0, -ENOBUFS, -EPIPE, -EMSGSIZE.
 */
int eg_chan_send(struct eg_chan *c, uint16_t type, uint64_t cookie,
		 const void *body, size_t len, int fd);

/* eg_chan_queued() - messages waiting; 0 when the peer keeps up. */
size_t eg_chan_queued(const struct eg_chan *c);

/**
 * eg_chan_drain() - handle what has already arrived, without waiting
 *
 * For a role that sees an effect (a packet of a lease) before the message
 * that announces it: the message was sent first, so it is in the socket.
 * Not to be called from a handler of the same channel.
 */
void eg_chan_drain(struct eg_chan *c);

/* eg_chan_flush() - block until the queue is empty or @ms have passed. */
int eg_chan_flush(struct eg_chan *c, int ms);

#endif
