/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: SHA-256, at once or in pieces, and its hexadecimal text.
 */
#ifndef EG_DIGEST_H
#define EG_DIGEST_H

#include "netpool/base/proto.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EG_DIGEST_HEX (2 * EG_DIGEST + 1)
#define EG_SHA256_HEX EG_DIGEST_HEX
#define EG_DIGEST_TEXT (7 + EG_DIGEST_HEX) /* "sha256:" in front */

/* Room for the library's state; checked against it when compiled. */
struct eg_sha256 {
	uint64_t opaque[16];
};

void eg_sha256_init(struct eg_sha256 *h);
void eg_sha256_add(struct eg_sha256 *h, const void *data, size_t len);
void eg_sha256_done(struct eg_sha256 *h, uint8_t ret[EG_DIGEST]);

/* eg_hex() - lower case, terminated; @buf holds 2 * len + 1. */
const char *eg_hex(char *buf, const void *data, size_t len);

/* eg_sha256_of() - digest of one block. */
void eg_sha256_of(const void *data, size_t len, uint8_t ret[EG_DIGEST]);

/* eg_digest_format() - "sha256:" and 64 lower-case digits. */
const char *eg_digest_format(const uint8_t d[EG_DIGEST],
			     char buf[EG_DIGEST_TEXT]);

/* eg_digest_parse() - the same text back; false when it is anything else. */
bool eg_digest_parse(const char *text, uint8_t ret[EG_DIGEST]);

#endif
