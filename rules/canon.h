/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: the canonical form of a policy, over which its digest is made.
 *
 * Two texts that mean the same have the same canonical form: comments,
 * blanks, order of entries and of ports do not matter. It begins with
 * "canon 1"; a change of the form is a new number.
 */
#ifndef RL_CANON_H
#define RL_CANON_H

#include "rules/policy.h"

#include <stddef.h>

/**
 * rl_canon() - canonical text of a program
 *
 * Return: malloc'ed, terminated; NULL when out of memory.
 */
char *rl_canon(const struct rl_prog *p, size_t *ret_len);

/* rl_canon_digest() - SHA-256 of it; -ENOMEM. */
int rl_canon_digest(const struct rl_prog *p, uint8_t ret[EG_DIGEST]);

/* rl_entry_format() - one entry as a line of a policy, without "allow = ". */
const char *rl_entry_format(const struct rl_entry *e, char *buf, size_t cap);

#endif
