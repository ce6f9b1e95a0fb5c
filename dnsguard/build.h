/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: the builder: vetted values in, DNS octets out.
 *
 * Nothing a guest sent reaches an upstream and nothing an upstream sent
 * reaches a guest: both messages are made here. The guest gets back its id,
 * its question octet by octet (letter case included) and its RD and CD bits;
 * upstream sees an id, a case pattern and an OPT record of our own.
 *
 * An answer of DG_ANSWER_ADDRS addresses fits DG_UDP_MIN for every name
 * shorter than 229 octets; for longer names addresses are left out. There
 * is never a reason to set TC.
 */
#ifndef DG_BUILD_H
#define DG_BUILD_H

#include "dnsguard/walk.h"
#include "netpool/base/proto.h"

#define DG_ANSWER_MAX DG_UDP_MIN
#define DG_ANSWER_ADDRS EG_PIN_ADDRS
#define DG_ASK_MAX (DG_HDR + EG_NAME_WIRE + 4 + 11)
#define DG_NEG_TTL 10	   /* of denials and local negative answers, seconds */
#define DG_EDE_TEXT_MAX 64 /* advice to keep it short, RFC 8914 section 2 */

/* One answer to a guest. */
struct dg_answer {
	enum dg_rcode rcode;
	bool soa; /* negative: with our SOA of DG_NEG_TTL seconds */
	enum dg_ede ede;
	const char *ede_text; /* under DG_EDE_TEXT_MAX octets, may be NULL */
	uint32_t ttl;	      /* shown with the addresses */
	uint32_t naddrs;
	uint32_t addr[DG_ANSWER_ADDRS];
};

/* How many addresses an answer to this query can carry. */
uint32_t dg_build_room(const struct dg_query *q);

/**
 * dg_build_answer() - make the message a guest gets
 * @question:	the question section as the guest sent it, q->qlen octets;
 *		ignored when !q->has_question
 *
 * Return: octets written, never more than DG_ANSWER_MAX.
 */
size_t dg_build_answer(const struct dg_query *q, const uint8_t *question,
		       const struct dg_answer *a, uint8_t ret[DG_ANSWER_MAX]);

/**
 * dg_build_ask() - make the message an upstream gets: type A, class IN
 * @name:	in the letter case to be sent
 */
size_t dg_build_ask(uint16_t id, const struct eg_name *name,
		    uint8_t ret[DG_ASK_MAX]);

/* dg_build_case() - give each letter a random case (dns 0x20). */
void dg_build_case(struct eg_name *name);

/**
 * dg_random() - octets from getrandom(2)
 *
 * Buffered, since a call costs more than what is needed of it. There is no
 * answer to a kernel without randomness: the process ends.
 */
void dg_random(void *buf, size_t len);

#endif
