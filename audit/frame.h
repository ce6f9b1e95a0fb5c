/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: the Ethernet frame that backs a record.
 *
 * NFLOG gives an IP packet, mostly with the link header it came under; the
 * DNS guard gives the octets of a query and what the socket said about it.
 * Savefiles hold frames, so what is missing is put in front: from the plan
 * for the link header, and rebuilt for DNS.
 */
#ifndef AU_FRAME_H
#define AU_FRAME_H

#include "netpool/base/proto.h"

#include <stddef.h>
#include <stdint.h>

/* Link, IPv4, TCP, the length of DNS over TCP, and the query kept. */
#define AU_DNS_FRAME (14 + 20 + 20 + 2 + EG_DNS_EVIDENCE)

/**
 * au_frame_ip4() - link header and packet
 * @hw:		link header of NFLOG, used when it is a whole Ethernet header
 * @slot:	else the addresses of its link; UINT32_MAX: zeros
 *
 * Return: octets written, at most @cap.
 */
size_t au_frame_ip4(uint8_t *out, size_t cap, const uint8_t *hw, size_t hwlen,
		    uint32_t slot, const uint8_t *pkt, size_t len);

/* au_frame_dns() - a denied query as it was sent, headers rebuilt. */
size_t au_frame_dns(uint8_t out[AU_DNS_FRAME], const struct eg_da_denial *d);

#endif
