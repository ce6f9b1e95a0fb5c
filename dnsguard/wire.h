/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: numbers of the DNS wire format, and octets in and out.
 */
#ifndef DG_WIRE_H
#define DG_WIRE_H

#include <stdint.h>

#define DG_HDR 12	  /* RFC 1035 section 4.1.1 */
#define DG_UDP_MIN 512	  /* RFC 1035 section 2.3.4: what any client takes */
#define DG_EDNS_SIZE 1232 /* what fits every path unfragmented (DNS flag day) */

#define DG_QR 0x8000U
#define DG_OPCODE 0x7800U
#define DG_AA 0x0400U
#define DG_TC 0x0200U
#define DG_RD 0x0100U
#define DG_RA 0x0080U
#define DG_CD 0x0010U
#define DG_RCODE 0x000fU

enum dg_rcode {
	DG_NOERROR = 0,
	DG_FORMERR = 1,
	DG_SERVFAIL = 2,
	DG_NXDOMAIN = 3,
	DG_NOTIMP = 4,
	DG_REFUSED = 5,
	DG_BADVERS = 16, /* RFC 6891 section 6.1.3 */
};

#define DG_T_A 1U
#define DG_T_NS 2U
#define DG_T_CNAME 5U
#define DG_T_SOA 6U
#define DG_T_PTR 12U
#define DG_T_MX 15U
#define DG_T_TXT 16U
#define DG_T_AAAA 28U
#define DG_T_SRV 33U
#define DG_T_DNAME 39U
#define DG_T_OPT 41U
#define DG_T_SVCB 64U
#define DG_T_HTTPS 65U
#define DG_C_IN 1U

/* Extended DNS errors, RFC 8914 section 4. */
enum dg_ede {
	DG_EDE_NONE = -1,
	DG_EDE_OTHER = 0,
	DG_EDE_BLOCKED = 15,
	DG_EDE_PROHIBITED = 18,
	DG_EDE_UNREACHABLE = 22,
	DG_EDE_NETWORK = 23,
};

static inline uint16_t dg_get16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

static inline uint32_t dg_get32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 |
	       (uint32_t)p[2] << 8 | p[3];
}

static inline void dg_put16(uint8_t *p, unsigned int v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
}

static inline void dg_put32(uint8_t *p, uint32_t v)
{
	dg_put16(p, v >> 16);
	dg_put16(p + 2, v & 0xffff);
}

#endif
