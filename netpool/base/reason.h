/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: the one vocabulary of denial reasons.
 *
 * The number is a kernel contract: gateways put it in the low octet of the
 * packet mark of a packet they deny (the upper 24 bits hold the lease's
 * epoch), where NFLOG reports it and where the counters are keyed by it.
 * Numbers are therefore never reused or renumbered, only added.
 */
#ifndef EG_REASON_H
#define EG_REASON_H

#include <stdint.h>

enum eg_reason {
	EG_REASON_NONE = 0,
	EG_REASON_METADATA,
	EG_REASON_PRIVATE,
	EG_REASON_RESERVED,
	EG_REASON_NOT_ALLOWED,
	EG_REASON_UNLEASED,
	EG_REASON_SPOOFED,
	EG_REASON_HOST,
	EG_REASON_NEIGHBOUR,
	EG_REASON_IPV6,
	EG_REASON_ETHERTYPE,
	EG_REASON_FRAGMENT,
	EG_REASON_INVALID,
	EG_REASON_RATE,
	EG_REASON_DNS_DENIED,
	EG_REASON_DNS_TYPE,
	EG_REASON_DNS_MALFORMED,
	EG_REASON_REBIND,
	EG_REASON_PIN_EXPIRED,
	EG_REASON_QUOTA,
	EG_REASON_REVOKED,
	EG_REASON_SNI,
	EG_REASON_COUNT,
};

/* Low octet of the mark for what is not a denial. */
#define EG_MARK_DNS 0xfe  /* handed to the guard */
#define EG_MARK_PASS 0xff /* allowed by the deciding chain */
#define EG_MARK_LOW 0xffU
#define EG_EPOCH_SHIFT 8
#define EG_EPOCH_MASK 0xffffffU

/* eg_epoch() - the 24 bits of a generation that live in marks. */
static inline uint32_t eg_epoch(uint64_t generation)
{
	return (uint32_t)(generation & EG_EPOCH_MASK);
}

/* eg_reason_name() - "not-allowed"; "none" for 0; never NULL. */
const char *eg_reason_name(enum eg_reason r);

/* eg_reason_by_name() - EG_REASON_COUNT when there is none of that name. */
enum eg_reason eg_reason_by_name(const char *name);

#endif
