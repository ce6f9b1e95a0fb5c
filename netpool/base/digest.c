// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: SHA-256 through nettle (see digest.h)
 */
#include "netpool/base/digest.h"

#include <nettle/sha2.h>
#include <string.h>

_Static_assert(sizeof(struct sha256_ctx) <= sizeof(struct eg_sha256),
	       "room for nettle's state");
_Static_assert(SHA256_DIGEST_SIZE == EG_DIGEST, "digest size");

static struct sha256_ctx *ctx(struct eg_sha256 *h)
{
	return (struct sha256_ctx *)(void *)h->opaque;
}

void eg_sha256_init(struct eg_sha256 *h)
{
	memset(h, 0, sizeof(*h));
	sha256_init(ctx(h));
}

void eg_sha256_add(struct eg_sha256 *h, const void *data, size_t len)
{
	sha256_update(ctx(h), len, data);
}

void eg_sha256_done(struct eg_sha256 *h, uint8_t ret[EG_DIGEST])
{
	sha256_digest(ctx(h), EG_DIGEST, ret);
}

void eg_sha256_of(const void *data, size_t len, uint8_t ret[EG_DIGEST])
{
	struct eg_sha256 h;

	eg_sha256_init(&h);
	eg_sha256_add(&h, data, len);
	eg_sha256_done(&h, ret);
}

const char *eg_digest_format(const uint8_t d[EG_DIGEST], char buf[EG_DIGEST_TEXT])
{
	static const char hex[] = "0123456789abcdef";

	memcpy(buf, "sha256:", 7);
	for (int i = 0; i < EG_DIGEST; i++) {
		buf[7 + 2 * i] = hex[d[i] >> 4];
		buf[8 + 2 * i] = hex[d[i] & 15];
	}
	buf[EG_DIGEST_TEXT - 1] = '\0';
	return buf;
}

static int hexval(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return -1;
}

bool eg_digest_parse(const char *text, uint8_t ret[EG_DIGEST])
{
	uint8_t d[EG_DIGEST];

	if (strlen(text) != EG_DIGEST_TEXT - 1 || memcmp(text, "sha256:", 7))
		return false;
	for (int i = 0; i < EG_DIGEST; i++) {
		int hi = hexval(text[7 + 2 * i]), lo = hexval(text[8 + 2 * i]);

		if (hi < 0 || lo < 0)
			return false;
		d[i] = (uint8_t)(hi << 4 | lo);
	}
	memcpy(ret, d, EG_DIGEST);
	return true;
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
