/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: what a sandbox sends that is not IPv4.
 *
 * IPv6 is off in gateways, and ARP, VLAN tags and odd EtherTypes never meet
 * a netfilter hook, so one packet socket a gateway sees them: a filter in
 * the kernel lets through, of what comes in from slot links, frames that are
 * not IPv4, that carry a VLAN tag, and IPv4 sent to another host's Ethernet
 * address (the stack drops it before any hook). Nothing here decides
 * anything: the gateway has already dropped them by not knowing them.
 *
 * The socket is made by build inside the gateway (CAP_NET_RAW is not needed
 * to read it). Its statistics give received and dropped frames; a drop
 * cannot be given to a slot and is counted for the gateway.
 */
#ifndef AU_PACKET_H
#define AU_PACKET_H

#include "netpool/base/err.h"
#include "netpool/base/reason.h"

#include <stddef.h>
#include <stdint.h>

#define AU_FRAME_MAX 2048 /* octets kept of a frame; snaplen is below */

struct au_frame_in {
	uint32_t ifindex;
	enum eg_reason reason;
	const uint8_t *data; /* tags the kernel took out are back in */
	size_t caplen;
	size_t len; /* on the wire */
};

typedef void (*au_packet_cb)(void *arg, const struct au_frame_in *f);

struct au_packet {
	int fd;
	uint32_t snaplen;
	uint64_t frames;  /* read */
	uint64_t dropped; /* by the kernel, socket buffer full */
	au_packet_cb cb;
	void *arg;
};

/**
 * au_packet_open() - a filtered packet socket for the current namespace
 *
 * Needs CAP_NET_RAW in the namespace. Return: the descriptor, close-on-exec
 * and non-blocking, or negative errno.
 */
int au_packet_open(struct eg_err *err);

/**
 * au_packet_filter() - filter, auxiliary data and bind for a socket made by
 *			socket(AF_PACKET, SOCK_RAW, 0) in the namespace
 */
int au_packet_filter(int fd, struct eg_err *err);

/* au_packet_init() - read from @fd, borrowed. */
void au_packet_init(struct au_packet *p, int fd, uint32_t snaplen,
		    au_packet_cb cb, void *arg);

/* au_packet_read() - at most @max frames; frames read or negative errno. */
int au_packet_read(struct au_packet *p, int max);

/* au_packet_stats() - fetch the drops since the last call into ->dropped. */
void au_packet_stats(struct au_packet *p);

/* au_packet_reason() - reason of a frame by its EtherType. */
enum eg_reason au_packet_reason(uint16_t ethertype, int tagged);

#endif
