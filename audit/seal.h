/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: closing the evidence of a lease for good.
 *
 * manifest.json says what the directory holds: counts, first and last
 * record, policies and when they were in force, size and SHA-256 of each
 * file, and the SHA-256 of the manifest sealed before it on this host. One
 * line for each goes to chain.jsonl in the audit directory, which is the
 * authority: a manifest that is not in the chain was never finished and is
 * made anew. Editing or removing any file, manifest or line breaks the chain
 * from there on; an edit of the newest is found against the head, which is
 * also in main's event and in the journal.
 *
 * A file is hashed in slices, a turn of the loop each, so that the seal of a
 * large one holds nobody up.
 */
#ifndef AU_SEAL_H
#define AU_SEAL_H

#include "audit/lease.h"

#define AU_MANIFEST "manifest.json"
#define AU_MANIFEST_MAX 65536 /* api.md section 1 */

struct au_chain {
	uint64_t n;		 /* manifests sealed */
	uint64_t size;		 /* of the file */
	uint8_t head[EG_DIGEST]; /* of the last one; zeros: none yet */
};

/* What is sealed besides the lease itself. */
struct au_seal_facts {
	const struct eg_conf *conf;
	int64_t wall_ns;
	uint32_t cause; /* enum eg_cause */
	struct eg_reason_counts packet[EG_REASONS];
	struct eg_reason_counts dns[EG_REASONS];
};

struct au_seal;

/* au_chain_load() - where the chain ends; half a line is removed. */
int au_chain_load(struct au_files *f, struct au_chain *c, struct eg_err *err);

/**
 * au_chain_find() - is this lease sealed already?
 *
 * Looks at the newest lines (1 MiB, some thousands of leases): a lease found
 * sealed after a restart was sealed just before it.
 */
bool au_chain_find(struct au_files *f, const uint8_t uid[EG_UID],
		   uint8_t ret[EG_DIGEST]);

/* au_seal_begin() - @l's log must be closed; NULL when out of memory. */
struct au_seal *au_seal_begin(struct au_lease *l,
			      const struct au_seal_facts *facts);

/**
 * au_seal_step() - go on for at most @bytes octets
 *
 * Return: 1 not finished; 0 sealed, @ret is the manifest's digest; negative
 * errno: it could not be, the chain is as before.
 */
int au_seal_step(struct au_seal *s, struct au_files *f, struct au_chain *c,
		 size_t bytes, uint8_t ret[EG_DIGEST], struct eg_err *err);
void au_seal_free(struct au_seal *s);

#endif
