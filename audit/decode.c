// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: what a denied packet was (see decode.h)
 */
#include "audit/decode.h"
#include "netpool/base/util.h"

#include <net/ethernet.h>
#include <netinet/in.h>
#include <string.h>

#define VLAN_TAGS 2   /* looked through; a third is the EtherType shown */
#define IP6_HEADERS 8 /* extension headers walked; more is nobody's need */

static uint16_t get16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

static uint32_t get32(const uint8_t *p)
{
	return (uint32_t)get16(p) << 16 | get16(p + 2);
}

/* Transport header of the first fragment; @len octets are there. */
static void transport(const uint8_t *p, size_t len, struct au_decoded *d)
{
	switch (d->proto) {
	case IPPROTO_TCP:
	case IPPROTO_UDP:
	case IPPROTO_SCTP:
	case IPPROTO_DCCP:
	case IPPROTO_UDPLITE:
		if (len < 4)
			return;
		d->sport = get16(p);
		d->dport = get16(p + 2);
		d->has_ports = true;
		if (d->proto == IPPROTO_TCP && len >= 14) {
			d->flags = p[13];
			d->has_flags = true;
		}
		return;
	case IPPROTO_ICMP:
	case IPPROTO_ICMPV6:
		if (len < 2)
			return;
		d->icmp_type = p[0];
		d->icmp_code = p[1];
		d->has_icmp = true;
		return;
	default: /* a number from the wire, not an enumeration of ours */
		return;
	}
}

static void ip4(const uint8_t *p, size_t len, struct au_decoded *d)
{
	size_t ihl, total;

	if (len < 20 || p[0] >> 4 != 4)
		return;
	ihl = (size_t)(p[0] & 15) * 4;
	total = get16(p + 2);
	d->has_ip4 = true;
	d->wire_len = (uint32_t)total;
	d->proto = p[9];
	d->src = get32(p + 12);
	d->dst = get32(p + 16);
	if (total < len)
		len = total; /* padding of short frames is no payload */
	if (ihl < 20 || ihl > len || get16(p + 6) & 0x1fff)
		return; /* broken header, or not the first fragment */
	transport(p + ihl, len - ihl, d);
}

static bool ip6_extension(uint8_t next)
{
	return next == IPPROTO_HOPOPTS || next == IPPROTO_ROUTING ||
	       next == IPPROTO_DSTOPTS || next == IPPROTO_FRAGMENT;
}

static void ip6(const uint8_t *p, size_t len, struct au_decoded *d)
{
	size_t at = 40, hdr;

	if (len < at || p[0] >> 4 != 6)
		return;
	d->has_ip6 = true;
	d->wire_len = 40U + get16(p + 4);
	d->proto = p[6];
	memcpy(d->src6, p + 8, 16);
	memcpy(d->dst6, p + 24, 16);
	for (int i = 0; i < IP6_HEADERS && ip6_extension(d->proto); i++) {
		if (len - at < 8)
			return;
		if (d->proto == IPPROTO_FRAGMENT && get16(p + at + 2) & 0xfff8)
			return;
		hdr = d->proto == IPPROTO_FRAGMENT ? 8 : (p[at + 1] + 1U) * 8;
		if (hdr > len - at)
			return;
		d->proto = p[at];
		at += hdr;
	}
	transport(p + at, len - at, d);
}

static void arp(const uint8_t *p, size_t len, struct au_decoded *d)
{
	/* Ethernet and IPv4 only, RFC 826 */
	if (len < 28 || get16(p) != 1 || get16(p + 2) != ETHERTYPE_IP ||
	    p[4] != 6 || p[5] != 4)
		return;
	d->has_arp = true;
	d->arp_op = get16(p + 6);
	d->src = get32(p + 14);
	d->dst = get32(p + 24);
}

void au_decode_ip4(const uint8_t *p, size_t caplen, struct au_decoded *ret)
{
	memset(ret, 0, sizeof(*ret));
	ip4(p, caplen, ret);
}

void au_decode_frame(const uint8_t *p, size_t caplen, struct au_decoded *ret)
{
	size_t at = AU_ETH_LEN;

	memset(ret, 0, sizeof(*ret));
	if (caplen < at)
		return;
	memcpy(ret->dmac, p, 6);
	memcpy(ret->smac, p + 6, 6);
	ret->ethertype = get16(p + 12);
	for (int i = 0; i < VLAN_TAGS && (ret->ethertype == ETHERTYPE_VLAN ||
					  ret->ethertype == 0x88a8);
	     i++) {
		if (caplen - at < 4)
			return;
		if (!i)
			ret->vlan = get16(p + at);
		ret->has_vlan = true;
		ret->ethertype = get16(p + at + 2);
		at += 4;
	}
	if (ret->ethertype == ETHERTYPE_IP)
		ip4(p + at, caplen - at, ret);
	else if (ret->ethertype == ETHERTYPE_IPV6)
		ip6(p + at, caplen - at, ret);
	else if (ret->ethertype == ETHERTYPE_ARP)
		arp(p + at, caplen - at, ret);
}

const char *au_proto_name(uint8_t proto)
{
	static const char *const name[256] = {
		[IPPROTO_ICMP] = "icmp",       [IPPROTO_IGMP] = "igmp",
		[IPPROTO_IPIP] = "ipip",       [IPPROTO_TCP] = "tcp",
		[IPPROTO_UDP] = "udp",	       [IPPROTO_DCCP] = "dccp",
		[IPPROTO_IPV6] = "ipv6",       [IPPROTO_GRE] = "gre",
		[IPPROTO_ESP] = "esp",	       [IPPROTO_AH] = "ah",
		[IPPROTO_ICMPV6] = "icmpv6",   [IPPROTO_SCTP] = "sctp",
		[IPPROTO_UDPLITE] = "udplite",
	};

	return name[proto];
}

const char *au_flags_format(uint8_t flags, char buf[AU_TCP_TEXT])
{
	size_t n = 0;

	for (unsigned int i = 0; i < 8; i++)
		if (flags >> i & 1)
			buf[n++] = "FSRPAUEC"[i];
	buf[n] = '\0';
	return buf;
}
