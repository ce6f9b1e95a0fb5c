// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: the Ethernet frame that backs a record (see frame.h)
 */
#include "audit/frame.h"
#include "audit/decode.h"
#include "netpool/base/plan.h"

#include <netinet/in.h>
#include <string.h>

static void put16(uint8_t *p, uint32_t v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
}

static void put32(uint8_t *p, uint32_t v)
{
	put16(p, v >> 16);
	put16(p + 2, v & 0xffff);
}

static void link_header(uint8_t *out, uint32_t slot)
{
	memset(out, 0, AU_ETH_LEN);
	if (slot != UINT32_MAX) {
		eg_plan_mac_gw(out, slot);
		eg_plan_mac_slot(out + 6, slot);
	}
	put16(out + 12, 0x0800);
}

size_t au_frame_ip4(uint8_t *out, size_t cap, const uint8_t *hw, size_t hwlen,
		    uint32_t slot, const uint8_t *pkt, size_t len)
{
	if (hw && hwlen == AU_ETH_LEN)
		memcpy(out, hw, AU_ETH_LEN);
	else
		link_header(out, slot);
	if (len > cap - AU_ETH_LEN)
		len = cap - AU_ETH_LEN;
	memcpy(out + AU_ETH_LEN, pkt, len);
	return AU_ETH_LEN + len;
}

/* RFC 1071; @len may be odd. */
static uint32_t sum(const uint8_t *p, size_t len, uint32_t s)
{
	for (; len > 1; len -= 2, p += 2)
		s += (uint32_t)(p[0] << 8 | p[1]);
	return len ? s + (uint32_t)(p[0] << 8) : s;
}

static uint32_t fold(uint32_t s)
{
	while (s >> 16)
		s = (s & 0xffff) + (s >> 16);
	return ~s & 0xffff;
}

static void ip4_header(uint8_t *p, const struct eg_da_denial *d, uint8_t proto,
		       size_t payload)
{
	memset(p, 0, 20);
	p[0] = 0x45;
	put16(p + 2, (uint32_t)(20 + payload));
	p[6] = 0x40; /* don't fragment, as resolvers' sockets send */
	p[8] = 64;
	p[9] = proto;
	put32(p + 12, d->src);
	put32(p + 16, d->dst);
	put16(p + 10, fold(sum(p, 20, 0)));
}

/* Checksum over the pseudo header and @len octets from @p on. */
static uint32_t transport_sum(const uint8_t *ip, const uint8_t *p, size_t len)
{
	return fold(sum(p, len, sum(ip + 12, 8, ip[9] + (uint32_t)len)));
}

static size_t udp(uint8_t *ip, const struct eg_da_denial *d, size_t len)
{
	uint8_t *p = ip + 20;
	uint32_t c;

	ip4_header(ip, d, IPPROTO_UDP, 8 + len);
	put16(p, d->sport);
	put16(p + 2, d->dport);
	put16(p + 4, (uint32_t)(8 + len));
	put16(p + 6, 0);
	memcpy(p + 8, d->query, len);
	c = transport_sum(ip, p, 8 + len);
	put16(p + 6, c ? c : 0xffff); /* RFC 768: zero means none */
	return 20 + 8 + len;
}

/* As one segment, so that readers see DNS over TCP. */
static size_t tcp(uint8_t *ip, const struct eg_da_denial *d, size_t len)
{
	uint8_t *p = ip + 20;

	ip4_header(ip, d, IPPROTO_TCP, 22 + len);
	memset(p, 0, 20);
	put16(p, d->sport);
	put16(p + 2, d->dport);
	put32(p + 4, 1);
	put32(p + 8, 1);
	p[12] = 5 << 4;
	p[13] = 0x18; /* PSH ACK */
	put16(p + 14, 0xffff);
	put16(p + 20, (uint32_t)len);
	memcpy(p + 22, d->query, len);
	put16(p + 16, transport_sum(ip, p, 22 + len));
	return 20 + 22 + len;
}

size_t au_frame_dns(uint8_t out[AU_DNS_FRAME], const struct eg_da_denial *d)
{
	size_t len = d->len < EG_DNS_EVIDENCE ? d->len : EG_DNS_EVIDENCE;

	link_header(out, d->slot);
	return AU_ETH_LEN + (d->tcp ? tcp(out + AU_ETH_LEN, d, len)
				    : udp(out + AU_ETH_LEN, d, len));
}
