/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: NFLOG, the kernel's copies of the packets it logged.
 *
 * Two halves. Binding needs CAP_NET_ADMIN and is done by build, inside the
 * namespace, before the first packet can come; reading needs nothing and is
 * done here.
 *
 * Loss is never hidden: NETLINK_NO_ENOBUFS stays off, and F_SEQ makes the
 * kernel number the packets of the group. ENOBUFS only says that something
 * was lost; the gap between two numbers says how many packets, exactly
 * (measured: 20,000 packets, 50 delivered, one ENOBUFS, gap 19,950). What no
 * number shows: packets of the time in which nobody was bound, and an
 * allocation failure in the kernel; the rules' own `sent` counter has these.
 */
#ifndef AU_NFLOG_H
#define AU_NFLOG_H

#include "netpool/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AU_NFLOG_PREFIX 64 /* of the rule's prefix kept; ours are reasons */

/* One logged packet; pointers are valid during the call only. */
struct au_nflog_pkt {
	uint32_t mark, indev;
	uint32_t seq;
	bool has_seq;
	int64_t time_ns; /* wall clock; 0: the kernel gave none */
	const uint8_t *payload;
	size_t caplen;
	const uint8_t *hw; /* link header as received, or NULL */
	size_t hwlen;
	uint16_t hwtype;   /* ARPHRD_* */
	uint16_t protocol; /* EtherType */
	char prefix[AU_NFLOG_PREFIX];
};

typedef void (*au_nflog_cb)(void *arg, const struct au_nflog_pkt *p);

struct au_nflog {
	int fd;
	bool have_seq;
	uint32_t next_seq;
	uint64_t gap;	    /* packets the kernel could not deliver */
	uint64_t packets;   /* delivered */
	uint64_t nobufs;    /* times the kernel said so; a sign only */
	uint64_t malformed; /* messages that were not as they should be */
	au_nflog_cb cb;
	void *arg;
};

/**
 * au_nflog_bind() - become the listener of a group (CAP_NET_ADMIN)
 * @fd:		nfnetlink socket, created in the namespace, borrowed
 * @snaplen:	octets kept of each packet, from its IP header on
 *
 * Return: 0; -EPERM also when another process holds the group.
 */
int au_nflog_bind(int fd, uint16_t group, uint32_t snaplen, struct eg_err *err);

/* au_nflog_init() - read from @fd, borrowed; @cb gets each packet. */
void au_nflog_init(struct au_nflog *n, int fd, au_nflog_cb cb, void *arg);

/**
 * au_nflog_read() - read datagrams until there is none or @max are done
 *
 * Return: datagrams read (0: nothing was there), or negative errno when the
 * socket is no longer usable.
 */
int au_nflog_read(struct au_nflog *n, int max);

/* au_nflog_parse() - one datagram; what au_nflog_read() calls. */
void au_nflog_parse(struct au_nflog *n, const void *buf, size_t len);

#endif
