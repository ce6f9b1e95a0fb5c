// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: the builder (see build.h)
 */
#include "dnsguard/build.h"
#include "netpool/base/util.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define OPT_LEN 11
#define ADDR_RR 16 /* pointer to the question, fixed part, address */
#define SOA_RDATA 22 /* two root names and five numbers */
#define SOA_RR (12 + SOA_RDATA)
#define OPTION_EDE 15
#define QNAME_POINTER (0xc000U | DG_HDR)

#define RANDOM_POOL 4096

void dg_random(void *buf, size_t len)
{
	static uint8_t pool[RANDOM_POOL];
	static size_t left;
	uint8_t *dst = buf;

	while (len) {
		size_t n = len < left ? len : left;

		if (!n) {
			ssize_t r = getrandom(pool, sizeof(pool), 0);

			if (r < 0 && errno != EINTR)
				abort();
			left = r < 0 ? 0 : (size_t)r;
			continue;
		}
		memcpy(dst, pool + left - n, n);
		memset(pool + left - n, 0, n);
		dst += n;
		len -= n;
		left -= n;
	}
}

void dg_build_case(struct eg_name *name)
{
	uint8_t bits[(EG_NAME_WIRE + 7) / 8];

	dg_random(bits, sizeof(bits));
	for (size_t i = 0; i < name->len; i++) {
		uint8_t c = name->wire[i] | 0x20;

		/* Length octets are below 64 and never letters. */
		if (name->wire[i] >= 'A' && c >= 'a' && c <= 'z')
			name->wire[i] = bits[i / 8] >> i % 8 & 1 ?
						c :
						(uint8_t)(c & ~0x20);
	}
}

static size_t put_opt(uint8_t *p, unsigned int ext_rcode, size_t rdlen)
{
	p[0] = 0; /* root */
	dg_put16(p + 1, DG_T_OPT);
	dg_put16(p + 3, DG_EDNS_SIZE);
	p[5] = (uint8_t)ext_rcode;
	p[6] = 0;	    /* version */
	dg_put16(p + 7, 0); /* DO = 0 */
	dg_put16(p + 9, (unsigned int)rdlen);
	return OPT_LEN;
}

size_t dg_build_ask(uint16_t id, const struct eg_name *name,
		    uint8_t ret[DG_ASK_MAX])
{
	size_t n = DG_HDR;

	memset(ret, 0, DG_HDR);
	dg_put16(ret, id);
	dg_put16(ret + 2, DG_RD);
	dg_put16(ret + 4, 1);
	dg_put16(ret + 10, 1);
	memcpy(ret + n, name->wire, name->len);
	n += name->len;
	dg_put16(ret + n, DG_T_A);
	dg_put16(ret + n + 2, DG_C_IN);
	n += 4;
	return n + put_opt(ret + n, 0, 0);
}

uint32_t dg_build_room(const struct dg_query *q)
{
	size_t used = DG_HDR + (size_t)q->qlen + (q->has_opt ? OPT_LEN : 0);

	return eg_min_u32(DG_ANSWER_ADDRS,
			  (uint32_t)((DG_ANSWER_MAX - used) / ADDR_RR));
}

static size_t put_rr(uint8_t *p, unsigned int owner, unsigned int type,
		     uint32_t ttl, size_t rdlen)
{
	dg_put16(p, owner);
	dg_put16(p + 2, type);
	dg_put16(p + 4, DG_C_IN);
	dg_put32(p + 6, ttl);
	dg_put16(p + 10, (unsigned int)rdlen);
	return 12;
}

/*
 * A zone of nobody: stub resolvers only look at the numbers, and the root as
 * both names keeps the message small and tells nothing.
 */
static size_t put_soa(uint8_t *p)
{
	size_t n = put_rr(p, QNAME_POINTER, DG_T_SOA, DG_NEG_TTL, SOA_RDATA);

	memset(p + n, 0, SOA_RDATA);
	dg_put32(p + n + 2, 1);	 /* serial */
	dg_put32(p + n + 6, 3600); /* refresh, retry, expire: nobody's use */
	dg_put32(p + n + 10, 600);
	dg_put32(p + n + 14, 86400);
	dg_put32(p + n + 18, DG_NEG_TTL);
	return n + SOA_RDATA;
}

static size_t put_ede(uint8_t *p, const struct dg_answer *a, size_t room)
{
	size_t text = a->ede_text ? strlen(a->ede_text) : 0;

	if (a->ede == DG_EDE_NONE || room < 6)
		return 0;
	if (text >= DG_EDE_TEXT_MAX || text > room - 6)
		text = 0;
	dg_put16(p, OPTION_EDE);
	dg_put16(p + 2, (unsigned int)(2 + text));
	dg_put16(p + 4, (unsigned int)a->ede);
	if (text)
		memcpy(p + 6, a->ede_text, text);
	return 6 + text;
}

static size_t put_addrs(const struct dg_query *q, const struct dg_answer *a,
			uint8_t *p, uint32_t *ret_count)
{
	uint32_t count = eg_min_u32(a->naddrs, dg_build_room(q));
	size_t n = 0;

	for (uint32_t i = 0; i < count; i++) {
		n += put_rr(p + n, QNAME_POINTER, DG_T_A, a->ttl, 4);
		dg_put32(p + n, a->addr[i]);
		n += 4;
	}
	*ret_count = count;
	return n;
}

size_t dg_build_answer(const struct dg_query *q, const uint8_t *question,
		       const struct dg_answer *a, uint8_t ret[DG_ANSWER_MAX])
{
	unsigned int flags = DG_QR | DG_RA | (q->flags & (DG_RD | DG_CD)) |
			     (q->flags & DG_OPCODE) |
			     ((unsigned int)a->rcode & DG_RCODE);
	uint32_t answers = 0;
	size_t n = DG_HDR;

	memset(ret, 0, DG_HDR);
	dg_put16(ret, q->id);
	dg_put16(ret + 2, flags);
	if (q->has_question) {
		dg_put16(ret + 4, 1);
		memcpy(ret + n, question, q->qlen);
		n += q->qlen;
		n += put_addrs(q, a, ret + n, &answers);
		dg_put16(ret + 6, answers);
		if (a->soa) {
			n += put_soa(ret + n);
			dg_put16(ret + 8, 1);
		}
	}
	if (q->has_opt) {
		size_t ede = put_ede(ret + n + OPT_LEN, a,
				     DG_ANSWER_MAX - n - OPT_LEN);

		n += put_opt(ret + n, (unsigned int)a->rcode >> 4, ede) + ede;
		dg_put16(ret + 10, 1);
	}
	return n;
}
