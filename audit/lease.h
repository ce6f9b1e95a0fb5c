/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: what audit knows of each lease.
 *
 * A lease is known by (slot, generation); packets name it by slot and epoch,
 * the 24 bits of the generation in their mark. Several generations of a slot
 * may be open at once: a packet of an ended lease that comes late goes into
 * that lease's file as long as it has not been sealed, never into the
 * next one's.
 *
 * What every record of a lease repeats is written as JSON once, when main
 * announces it. Nothing here allocates for a packet; names (at most
 * AU_NAMES a lease and AU_NAME_BYTES in all) and frame accounting are made
 * when messages of siblings come.
 */
#ifndef AU_LEASE_H
#define AU_LEASE_H

#include "audit/files.h"
#include "netpool/base/proto.h"

#define AU_GENERATIONS 4 /* of one slot, open at once */
#define AU_NAMES 256	 /* addresses of a lease whose name is remembered */
#define AU_NAME_BYTES (64U << 20) /* of names in all leases */
#define AU_SPANS 64	   /* changes of phase or policy kept of a lease */
#define AU_LABELS_TEXT 896 /* of labels in a record; all are in the manifest */
#define AU_SEEN 64	   /* distinct frames of a lease with a sure record */
#define AU_FRAME_RATE 50   /* other frames of a lease a second, and burst */

/* The last name that led a lease to an address. */
struct au_name {
	char *text;	    /* escaped, as eg_name_format() */
	int64_t learned_ns; /* boot clock */
	uint32_t lifetime_s;
	bool hostname; /* may stand in a policy */
};

/* A policy and phase in force from a moment on. */
struct au_span {
	int64_t from_ns; /* wall clock */
	uint8_t digest[EG_DIGEST];
	char phase[EG_PHASES * EG_PHASE];
};

/* Frames that are not IPv4, counted here because no rule sees them. */
struct au_frames {
	uint64_t denied, suppressed, sent;
	uint32_t held; /* suppressed since the last record */
};

struct au_lease {
	uint32_t slot;
	uint64_t generation;
	uint8_t uid[EG_UID];
	char id[EG_ID];
	int64_t created_ns;
	bool report, drop, probe;
	bool ending;		     /* main has said END */
	bool capped_said;	     /* so that it is said once */
	bool sealed;		     /* found sealed after a restart */
	uint8_t manifest[EG_DIGEST]; /* then */
	char *who;		     /* members "lease" to "tenant" */
	char *labels;		     /* member "labels", perhaps cut */
	char *all_labels;	     /* member "labels", never cut */
	char *request;		     /* members "parent" to "request" */
	char *phase;		     /* members "phase" and "policy" */
	struct au_span *span;
	uint32_t spans, spans_lost;
	uint32_t first[AU_LAYER_COUNT]; /* bit per reason: main was told */
	struct au_log log;
	struct au_frames frame[EG_REASONS];
	uint32_t seen[AU_SEEN], nseen;
	uint32_t tokens; /* of the frame rate */
	int64_t tokens_ns;
	uint32_t names, names_cap;
	uint32_t *addr; /* [names], host order */
	struct au_name *name;
	struct eg_ma_end *end; /* the request to seal */
	uint64_t end_cookie;
};

struct au_leases {
	uint32_t slots;
	struct au_lease **at; /* [slots][AU_GENERATIONS] */
	size_t name_bytes;
};

int au_leases_init(struct au_leases *t, uint32_t slots);
void au_leases_done(struct au_leases *t);

/**
 * au_lease_add() - main announces a lease, for the first time or again
 * @wall_ns:	now; a change of policy or phase is in force from here; a
 *		change of labels or of the rest of the request holds at once
 * @ret_new:	it was not known
 *
 * Return: the lease, NULL with @err set.
 */
struct au_lease *au_lease_add(struct au_leases *t, const struct eg_conf *conf,
			      const struct eg_ma_lease *m, int64_t wall_ns,
			      bool *ret_new, struct eg_err *err);

struct au_lease *au_lease_find(struct au_leases *t, uint32_t slot,
			       uint64_t generation);
struct au_lease *au_lease_epoch(struct au_leases *t, uint32_t slot,
				uint32_t epoch);

/* au_lease_newest() - of a slot: whom a frame without mark belongs to. */
struct au_lease *au_lease_newest(struct au_leases *t, uint32_t slot);

/* au_lease_remove() - forget it; its log must be closed. */
void au_lease_remove(struct au_leases *t, struct au_lease *l);

/* au_lease_dir() - "2026-11-30/<uid>". */
const char *au_lease_dir(const uint8_t uid[EG_UID], int64_t created_ns,
			 char buf[AU_DIR_TEXT]);

/* au_lease_span() - remember what is in force from @from_ns on. */
int au_lease_span(struct au_lease *l, int64_t from_ns,
		  const uint8_t digest[EG_DIGEST], const char *phase);

/* au_lease_name() - this name led the lease to these addresses. */
void au_lease_name(struct au_leases *t, struct au_lease *l,
		   const struct eg_da_name *n, int64_t now_ns);
const struct au_name *au_lease_name_of(const struct au_lease *l, uint32_t addr);

/**
 * au_lease_frame() - count a frame; is it to be recorded?
 * @key:	hash of what makes it distinct
 *
 * The first of each key has a record (up to AU_SEEN keys), the rest
 * AU_FRAME_RATE a second.
 */
bool au_lease_frame(struct au_lease *l, enum eg_reason reason, uint32_t key,
		    int64_t now_ns);

#endif
