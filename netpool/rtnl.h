/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: rtnetlink transport.
 *
 * The one place that sends and receives rtnetlink. Messages are collected
 * and go out in ONE sendmsg: rtnetlink handles them one after the other
 * inside that call, so that the answers are in the socket when it returns.
 * Every message asks for an acknowledgement and every one is awaited, in
 * order, by sequence number; a batch is not a transaction: messages after a
 * failed one are still carried out, and the caller undoes what must not be.
 * The kernel's own explanation (extended acknowledgement) ends up in the
 * error's sentence. The socket belongs to the namespace it was opened in.
 */
#ifndef NP_RTNL_H
#define NP_RTNL_H

#include "netpool/base/err.h"

#include <stddef.h>
#include <stdint.h>

struct np_rtnl;
struct nl_msg;
struct nlmsghdr;

/*
 * Messages a batch holds: their acknowledgements (about 1 kB of accounted
 * memory each) fit the smallest receive buffer, 212,992 octets.
 */
#define NP_BATCH_MAX 64

/* np_rtnl_open() - a socket in the namespace the process is in. */
int np_rtnl_open(struct np_rtnl **ret, struct eg_err *err);
void np_rtnl_close(struct np_rtnl *r);

/**
 * np_rtnl_add() - append a message with its fixed header
 * @what:	for the error sentence, "make the link eth0"; static storage
 * @tolerate:	negative errno that counts as success, 0: none
 *
 * Return: the message, for attributes; NULL once the batch has failed (no
 * memory, full), which np_rtnl_commit() then reports.
 */
struct nl_msg *np_rtnl_add(struct np_rtnl *r, uint16_t type, uint16_t flags,
			   const void *hdr, size_t len, const char *what,
			   int tolerate);

/* np_rtnl_spoil() - building failed; the commit will say so. */
void np_rtnl_spoil(struct np_rtnl *r, int error);

/* np_rtnl_room() - messages that may still be added. */
size_t np_rtnl_room(const struct np_rtnl *r);

/**
 * np_rtnl_commit() - send what was collected, await every answer
 *
 * Return: 0 or the first error that is not tolerated. The batch is empty
 * afterwards in any case.
 */
int np_rtnl_commit(struct np_rtnl *r, struct eg_err *err);

typedef void (*np_rtnl_cb)(void *arg, const struct nlmsghdr *h);

/**
 * np_rtnl_dump() - all objects of a kind
 *
 * A dump the kernel says was interrupted by a change is repeated; @cb may
 * therefore see objects twice, and is called with NULL when it starts over.
 */
int np_rtnl_dump(struct np_rtnl *r, uint16_t type, const void *hdr, size_t len,
		 np_rtnl_cb cb, void *arg, struct eg_err *err);

/**
 * np_rtnl_get() - send the one collected message and take its reply
 */
int np_rtnl_get(struct np_rtnl *r, np_rtnl_cb cb, void *arg, struct eg_err *err);

/**
 * np_rtnl_monitor() - a non-blocking socket subscribed to groups
 * @groups:	RTMGRP_* mask
 *
 * Return: descriptor, read with np_rtnl_events().
 */
int np_rtnl_monitor(uint32_t groups, struct eg_err *err);

/**
 * np_rtnl_events() - hand what is waiting on a monitor to @cb, bounded
 *
 * Return: 0; -ENOBUFS when notices were lost: the caller looks for itself.
 */
int np_rtnl_events(int fd, np_rtnl_cb cb, void *arg);

#endif
