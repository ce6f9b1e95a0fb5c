/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: value types for IPv4 addresses, prefixes and Ethernet addresses.
 *
 * Addresses are uint32_t in HOST byte order everywhere inside the project;
 * conversion happens only where a byte array is built or read. Text forms
 * are strict: four decimal octets without leading zeros, no inet_aton
 * shorthands (0x7f.1, 127.1), a prefix has no host bits set.
 */
#ifndef EG_ADDR_H
#define EG_ADDR_H

#include "netpool/base/err.h"

#include <stdbool.h>
#include <stdint.h>

#define EG_ADDR_TEXT 16	  /* "255.255.255.255" and NUL */
#define EG_PREFIX_TEXT 20 /* "255.255.255.255/32", NUL, and what gcc fears */
#define EG_MAC_TEXT 18
#define EG_MAC_LEN 6

struct eg_prefix {
	uint32_t addr; /* host order, host bits zero */
	uint8_t len;   /* 0..32 */
};

/* eg_addr_parse() - 0, or -EINVAL with what would be accepted. */
int eg_addr_parse(const char *text, uint32_t *ret, struct eg_err *err);
const char *eg_addr_format(uint32_t addr, char buf[EG_ADDR_TEXT]);

/* eg_prefix_parse() - "A.B.C.D/N"; a bare address is a /32. */
int eg_prefix_parse(const char *text, struct eg_prefix *ret, struct eg_err *err);
const char *eg_prefix_format(struct eg_prefix p, char buf[EG_PREFIX_TEXT]);

/* eg_tenant_listed() - is @tenant in a comma-separated list? empty: all are */
bool eg_tenant_listed(const char *list, const char *tenant);

/* eg_mac_parse() - six colon-separated octets, unicast. */
int eg_mac_parse(const char *text, uint8_t ret[EG_MAC_LEN], struct eg_err *err);
const char *eg_mac_format(const uint8_t mac[EG_MAC_LEN], char buf[EG_MAC_TEXT]);

static inline uint32_t eg_prefix_mask(uint8_t len)
{
	return len ? ~0U << (32 - len) : 0;
}

static inline uint32_t eg_prefix_last(struct eg_prefix p)
{
	return p.addr | ~eg_prefix_mask(p.len);
}

static inline bool eg_prefix_has(struct eg_prefix p, uint32_t addr)
{
	return (addr & eg_prefix_mask(p.len)) == p.addr;
}

static inline bool eg_prefix_overlap(struct eg_prefix a, struct eg_prefix b)
{
	return eg_prefix_has(a, b.addr) || eg_prefix_has(b, a.addr);
}

#endif
