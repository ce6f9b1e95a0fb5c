// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: SHA-256 (see digest.h)
 */
#include "netpool/base/digest.h"

#include <nettle/sha2.h>

_Static_assert(sizeof(struct sha256_ctx) <= sizeof(struct eg_sha256),
	       "nettle's context fits");

static struct sha256_ctx *ctx(struct eg_sha256 *h)
{
	return (struct sha256_ctx *)(void *)h->state;
}

void eg_sha256_init(struct eg_sha256 *h)
{
	sha256_init(ctx(h));
}

void eg_sha256_add(struct eg_sha256 *h, const void *data, size_t len)
{
	sha256_update(ctx(h), len, data);
}

void eg_sha256_done(struct eg_sha256 *h, uint8_t ret[EG_SHA256])
{
	sha256_digest(ctx(h), EG_SHA256, ret);
}

void eg_sha256(const void *data, size_t len, uint8_t ret[EG_SHA256])
{
	struct eg_sha256 h;

	eg_sha256_init(&h);
	eg_sha256_add(&h, data, len);
	eg_sha256_done(&h, ret);
}

const char *eg_hex(char *buf, const void *data, size_t len)
{
	static const char digits[] = "0123456789abcdef";
	const uint8_t *p = data;

	for (size_t i = 0; i < len; i++) {
		buf[2 * i] = digits[p[i] >> 4];
		buf[2 * i + 1] = digits[p[i] & 15];
	}
	buf[2 * len] = '\0';
	return buf;
}
