/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: the text of every policy that was in force, by its digest.
 *
 * main hands over the program it enforces before it announces the lease; the
 * canonical text is in it, and the policy's digest is the SHA-256 of this
 * text. It becomes policies/HEX.policy below the audit directory, written
 * once and never changed: the file's name says what must be in it, and the
 * manifests, which name policies by digest, thereby seal it. Files stay as
 * long as the evidence that names them.
 *
 * A text the disk refuses waits, as the descriptor it came by, and is tried
 * again; AU_TEXTS_WAIT of them, since a host has a few dozen policies.
 */
#ifndef AU_TEXTS_H
#define AU_TEXTS_H

#include "audit/files.h"
#include "netpool/base/proto.h"

#define AU_POLICIES "policies"
#define AU_TEXTS_WAIT 64
#define AU_TEXT_MAX (4 << 20) /* a policy in 16 phases, written out */

struct au_text {
	uint8_t digest[EG_DIGEST];
	int fd;
	uint64_t offset, len;
};

/* Those that wait. */
struct au_texts {
	unsigned int n;
	struct au_text wait[AU_TEXTS_WAIT];
};

/**
 * au_texts_keep() - keep one text
 * @fd:		taken when the text has to wait
 *
 * Return: 0, it is on disk; -EBADMSG, it is not the digest's; another
 * negative errno: it waits, or (-ENOBUFS) finds no room to.
 */
int au_texts_keep(struct au_texts *t, struct au_files *f,
		  const struct eg_ma_policy *m, int *fd);

/* au_texts_retry() - write those that wait; 0: none is left. */
int au_texts_retry(struct au_texts *t, struct au_files *f);
void au_texts_done(struct au_texts *t);

/* au_texts_open() - for a reader; fd or negative errno. */
int au_texts_open(const struct au_files *f, const uint8_t digest[EG_DIGEST]);

#endif
