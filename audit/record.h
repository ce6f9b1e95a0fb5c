/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: one denial as a line of JSON (api.md section 6).
 *
 * `reason` is the law's: what the kernel or the guard counted. What audit
 * knows better is in `detail` and changes no count:
 *   pin-expired	the address was pinned for `name`, its time is over
 *   lease-sealed	came after the lease's manifest was written
 * `hint` says what would allow it, where one line of policy could and where
 * saying so is safe: never for metadata, spoofed or reserved destinations,
 * never with a name that may not stand in a policy.
 */
#ifndef AU_RECORD_H
#define AU_RECORD_H

#include "audit/decode.h"
#include "audit/lease.h"
#include "audit/scan.h"

struct au_record {
	const struct au_lease *lease; /* NULL: it has none */
	uint32_t slot;		      /* UINT32_MAX: not known */
	uint32_t gateway;	      /* UINT32_MAX: the host's own guard */
	int64_t wall_ns, mono_ns;
	enum au_layer layer;
	enum eg_reason reason;
	const char *verdict;
	const char *detail; /* or NULL */
	uint64_t suppressed;
	/* layer packet, and the addresses of layer dns */
	const struct au_decoded *d;
	bool frame; /* not from NFLOG: the Ethernet fields matter */
	const struct au_name *name;
	const struct eg_da_denial *dns; /* layer dns */
	bool has_cap, rebuilt;
	uint32_t pcap_no, caplen;
	uint64_t offset;
};

/* au_verdict() - what happened to a packet denied for this reason. */
const char *au_verdict(const struct au_lease *l, enum eg_reason reason);

/* au_verdict_dns() - what the guard answered. */
const char *au_verdict_dns(const struct au_lease *l, uint8_t rcode);

/**
 * au_record_build() - the record, from {"seq": on
 *
 * Return: its length; -EMSGSIZE cannot happen with @cap of AU_RECORD_ROOM,
 * labels make room when all else is as long as it may be.
 */
long au_record_build(const struct au_record *r, uint64_t seq, char *buf,
		     size_t cap);

/* What is left of AU_RECORD_MAX for it. */
#define AU_RECORD_ROOM (AU_RECORD_MAX - 192)

/* au_counts_write() - member @key: counts per reason, those that are 0 left out */
struct eg_jsonw;
void au_counts_write(struct eg_jsonw *w, const char *key,
		     const struct eg_reason_counts c[EG_REASONS]);

/**
 * au_record_summary() - layer log: the counts of a lease at its end
 */
long au_record_summary(const struct au_lease *l, uint64_t seq, int64_t wall_ns,
		       int64_t mono_ns,
		       const struct eg_reason_counts packet[EG_REASONS],
		       const struct eg_reason_counts dns[EG_REASONS], char *buf,
		       size_t cap);

/* au_record_gap() - layer log: records of a gateway that never came. */
long au_record_gap(uint32_t gateway, uint64_t seq, int64_t wall_ns,
		   int64_t mono_ns, const char *what, uint64_t lost, char *buf,
		   size_t cap);

#endif
