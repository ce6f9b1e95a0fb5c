/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: SHA-256, by nettle, behind a header that does not show it.
 */
#ifndef EG_DIGEST_H
#define EG_DIGEST_H

#include <stddef.h>
#include <stdint.h>

#define EG_SHA256 32
#define EG_SHA256_HEX 65

struct eg_sha256 {
	_Alignas(16) uint8_t state[128]; /* nettle's context */
};

void eg_sha256_init(struct eg_sha256 *h);
void eg_sha256_add(struct eg_sha256 *h, const void *data, size_t len);
void eg_sha256_done(struct eg_sha256 *h, uint8_t ret[EG_SHA256]);

/* eg_sha256() - of one block. */
void eg_sha256(const void *data, size_t len, uint8_t ret[EG_SHA256]);

/* eg_hex() - lower case, terminated; buf holds 2 * len + 1. */
const char *eg_hex(char *buf, const void *data, size_t len);

#endif
