/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: what a denied packet was, from the octets that were kept of it.
 *
 * Every octet comes from the sandbox. Nothing is believed: a length field
 * only ever narrows what is looked at, never beyond what was captured, and a
 * packet that is broken or cut yields the fields in front of the break.
 */
#ifndef AU_DECODE_H
#define AU_DECODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AU_ETH_LEN 14

/* TCP flag octet, RFC 9293 section 3.1. */
#define AU_TCP_TEXT 9 /* "FSRPAUEC" and NUL */

struct au_decoded {
	bool has_ip4, has_ip6, has_ports, has_flags, has_icmp, has_arp;
	uint8_t proto; /* IP protocol; of IPv6 the last header recognised */
	uint8_t flags;
	uint8_t icmp_type, icmp_code;
	uint16_t sport, dport;
	uint32_t src, dst; /* host order; of ARP the protocol addresses */
	uint8_t src6[16], dst6[16];
	uint16_t arp_op;
	uint16_t ethertype; /* frames only; behind VLAN tags */
	uint16_t vlan;	    /* outermost tag control, with has_vlan */
	bool has_vlan;
	uint8_t smac[6], dmac[6]; /* frames only */
	uint32_t wire_len;	  /* of the IP packet by its header, or 0 */
};

/* au_decode_ip4() - an IPv4 packet; fields that are not there stay zero. */
void au_decode_ip4(const uint8_t *p, size_t caplen, struct au_decoded *ret);

/* au_decode_frame() - an Ethernet frame, tags included. */
void au_decode_frame(const uint8_t *p, size_t caplen, struct au_decoded *ret);

/* au_proto_name() - "tcp"; NULL for one without a name here. */
const char *au_proto_name(uint8_t proto);

/* au_flags_format() - "SA": F S R P A U E C in this order. */
const char *au_flags_format(uint8_t flags, char buf[AU_TCP_TEXT]);

#endif
