/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: the strict walker: hostile DNS octets in, vetted values out.
 *
 * Every octet of a guest's query and of an upstream's reply goes through
 * here before anybody else looks at it. The walker is pure: no allocation, no
 * state, time bounded by the message's length. It accepts less than the
 * standards allow and all that stock resolvers send:
 *
 * - a question holds no compression pointer; in replies a pointer goes
 *   strictly backward, never into the header, at most DG_WALK_HOPS for a
 *   name and DG_WALK_HOPS_ALL for a message;
 * - label types other than plain and pointer are errors (RFC 6891 sec. 5);
 * - RDLENGTH is exact: A is 4 octets, AAAA 16, a name in rdata ends where
 *   the rdata ends, so that no parser can see another record than we do
 *   (RFC 9267 section 5);
 * - exactly one question, the counts match the records, nothing follows the
 *   last one; at most one OPT, at the root, in the additional section.
 *
 * What comes out are values; nothing points into the message afterwards.
 */
#ifndef DG_WALK_H
#define DG_WALK_H

#include "dnsguard/wire.h"
#include "netpool/base/name.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DG_WALK_HOPS 16	      /* names in the wild need 2 or 3 */
#define DG_WALK_HOPS_ALL 2000 /* 16 KiB of records with one pointer each */
#define DG_CHAIN 8	      /* CNAME hops; the longest seen in the wild is 7 */
#define DG_CNAMES 32	      /* CNAME records looked at in one reply */
#define DG_REPLY_ADDRS 64     /* kept of one reply; 16 are shown at a time */
#define DG_QUESTIONS 4	      /* names recorded of a many-question query */

struct dg_query {
	uint16_t id;
	uint16_t flags; /* as received */
	uint16_t qtype, qclass;
	bool has_question; /* name, qtype, qclass and qlen are set */
	bool has_opt;
	uint16_t opt_size; /* largest UDP answer the guest takes */
	uint16_t qlen;	   /* octets of the question section */
	struct eg_name name; /* case as sent */
};

enum dg_query_verdict {
	DG_QUERY_OK,
	DG_QUERY_DROP,	  /* too short or itself a reply: never answered */
	DG_QUERY_FORMERR,
	DG_QUERY_NOTIMP,
	DG_QUERY_BADVERS,
	DG_QUERY_CLASS, /* well-formed, but not class IN: REFUSED */
	DG_QUERY_VERDICT_COUNT,
};

/**
 * dg_walk_query() - judge a datagram or TCP message of a guest
 * @ret:	always written; fields beyond id and flags only as far as the
 *		walk came (has_question, has_opt)
 */
enum dg_query_verdict dg_walk_query(const uint8_t *msg, size_t len,
				    struct dg_query *ret);

/**
 * dg_walk_questions() - the names a refused query asked, for its record
 *
 * Return: how many of at most DG_QUESTIONS questions could be read.
 */
size_t dg_walk_questions(const uint8_t *msg, size_t len,
			 struct eg_name ret[DG_QUESTIONS],
			 uint16_t ret_type[DG_QUESTIONS]);

enum dg_reply_verdict {
	DG_REPLY_OK,
	DG_REPLY_IGNORE, /* not an answer to what was asked: keep waiting */
	DG_REPLY_CASE,	 /* answers it but for the case of the name */
	DG_REPLY_TC,	 /* truncated: ask over TCP */
	DG_REPLY_BAD,	 /* answers it and is malformed: this server failed */
	DG_REPLY_VERDICT_COUNT,
};

struct dg_reply {
	uint16_t rcode; /* with the extended bits of OPT */
	bool has_soa;	/* negative answers: neg_ttl is set */
	bool cut;	/* a CNAME chain whose end is not in here */
	bool long_chain; /* more than DG_CHAIN hops, or a loop */
	uint32_t nchain, naddrs;
	uint32_t naddrs_seen; /* naddrs before the cap */
	uint32_t ttl;	      /* minimum over chain and addresses */
	uint32_t neg_ttl;     /* RFC 2308 section 5 */
	uint32_t addr[DG_REPLY_ADDRS]; /* host order, no duplicates */
	struct eg_name chain[DG_CHAIN]; /* targets, in order */
};

/**
 * dg_walk_reply() - judge a reply to a question of ours
 * @id:		the id we sent
 * @name:	the name we sent, in the case we sent it
 * @exact_case:	compare the question's octets, not letters
 * @ret:	written for DG_REPLY_OK only
 *
 * Only type A is ever asked. Addresses are those of the name the chain of
 * CNAMEs from @name ends at, in whatever order the records came.
 */
enum dg_reply_verdict dg_walk_reply(const uint8_t *msg, size_t len,
				    uint16_t id, const struct eg_name *name,
				    bool exact_case, struct dg_reply *ret);

#endif
