/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: the host-wide sequence of records, dense over restarts.
 *
 * A number is given to a record when it is written out, not when it is made,
 * so that what a full disk refused has none. Before a file gets its batch
 * the state file (".hseq" in the audit directory) gets the first number and
 * the name of that file; the next batch overwrites both. However the process
 * ends, the last whole line of that one file tells the next process where to
 * go on: no hole, no number twice.
 *
 * A host that loses power may lose what the kernel had not written yet. The
 * state is made durable (fdatasync) once every AU_STATE_BLOCK numbers; when
 * the boot id has changed without an orderly end, numbering starts at the
 * end of that block, and a record says which numbers were left out.
 */
#ifndef AU_STATE_H
#define AU_STATE_H

#include "netpool/base/err.h"

#include <stdbool.h>
#include <stdint.h>

#define AU_STATE_FILE ".hseq"
#define AU_CHAIN_FILE "chain.jsonl"
#define AU_STATE_BLOCK 65536 /* at 50,000 records a second one sync a second */
#define AU_DIR_TEXT 64	     /* "2026-11-30/" and a UUID, or "host/..." */
#define AU_PATH_TEXT 96	     /* that and a file's name */

struct au_state {
	int dirfd; /* borrowed */
	int fd;
	uint64_t next;	  /* the number the next record gets */
	uint64_t durable; /* no number from here on was ever given out */
	uint64_t skipped_from, skipped_to; /* [from, to), equal: none */
	uint8_t boot_id[16];
};

/**
 * au_state_open() - find out where the sequence goes on
 *
 * Return: 0, or negative errno when the directory does not let us; the
 * caller may try again.
 */
int au_state_open(struct au_state *s, int dirfd, const uint8_t boot_id[16],
		  struct eg_err *err);

/**
 * au_state_begin() - numbers from s->next on are about to go to @path
 * @count:	at most so many
 */
int au_state_begin(struct au_state *s, const char *path, uint32_t count);

/* au_state_close() - an orderly end. */
void au_state_close(struct au_state *s);

#endif
