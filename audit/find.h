/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: what is known of a lease, live or ended.
 *
 * A live lease is described from memory; of an ended one the manifest says
 * the same. The uid of a lease says its directory. Its id is looked for in
 * chain.jsonl from the end backwards, which finds the last lease of that id
 * as long as the chain reaches back, over any restart: AU_FIND_BYTES a turn,
 * so that a chain of years holds nobody up.
 */
#ifndef AU_FIND_H
#define AU_FIND_H

#include "audit/lease.h"
#include "netpool/base/jsonw.h"

#define AU_DOC_MAX 65536
#define AU_FIND_BYTES (1 << 20)
#define AU_LINE_CHAIN 1024	  /* a line of chain.jsonl at most */
#define AU_NAMES_TEXT (12 * 1024) /* of names in a manifest */

/**
 * au_doc_write() - members: who, labels, parent, request, names
 * @labels:	l->labels or l->all_labels
 * @names:	false: leave them out
 */
void au_doc_write(struct eg_jsonw *w, const struct au_lease *l,
		  const char *labels, bool names);

/* au_doc_open() - the same as an object in a file; fd or negative errno. */
int au_doc_open(const struct au_lease *l);

/* au_lease_uid(), au_lease_id() - a live lease; NULL: there is none. */
struct au_lease *au_lease_uid(const struct au_leases *t,
			      const uint8_t uid[EG_UID]);
struct au_lease *au_lease_id(const struct au_leases *t, const char *id);

/* A search under way. */
struct au_find {
	char key[EG_ID + 16];
	int fd;
	int64_t end; /* what is before it has not been looked at */
};

/* au_find_begin() - 0; -ENOENT: nothing was ever sealed. */
int au_find_begin(struct au_find *s, struct au_files *f, const char *id);

/**
 * au_find_step() - look at the next piece
 *
 * Return: 1, go on; 0, found; -ENOENT; another negative errno.
 */
int au_find_step(struct au_find *s, uint8_t ret_uid[EG_UID]);
void au_find_end(struct au_find *s);

#endif
