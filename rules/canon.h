/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: the canonical text of a policy, version 1, and its digest.
 *
 * Two texts with the same meaning have the same canonical text: comments,
 * blanks, line numbers and order are gone, names are in lower case, ports
 * merged and explicit, every phase has one section (in alphabetical order)
 * with its entries sorted, what [allow] says already is not said again by a
 * phase, and includes are written out. It is a policy itself and parses to
 * the same canonical text. What enforcement does not need but people do
 * (name, description, why=) is part of it. The policy's digest is SHA-256
 * over this text.
 */
#ifndef RL_CANON_H
#define RL_CANON_H

#include "rules/policy.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define RL_CANON_VERSION 1

/**
 * rl_canon_text() - the canonical text
 * @ret:	NUL-terminated, to be free()d
 */
int rl_canon_text(const struct rl_prog *p, char **ret, size_t *ret_len);

/* rl_canon_is() - does it begin as a canonical text does? */
bool rl_canon_is(const char *text, size_t len);

/* rl_canon_digest() - SHA-256 over it; 0 or -ENOMEM. */
int rl_canon_digest(const struct rl_prog *p, uint8_t ret[EG_DIGEST]);

/* rl_policy_print() - the canonical text to a stream. */
int rl_policy_print(const struct rl_prog *p, FILE *f);

#endif
