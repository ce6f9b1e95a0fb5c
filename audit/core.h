/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: the state of the audit role, shared by audit.c (messages) and
 * sink.c (what is denied). Nobody else includes this.
 */
#ifndef AU_CORE_H
#define AU_CORE_H

#include "audit/find.h"
#include "audit/lease.h"
#include "audit/nflog.h"
#include "audit/packet.h"
#include "audit/record.h"
#include "audit/seal.h"
#include "audit/texts.h"
#include "netpool/base/role.h"

/*
 * Datagrams or frames a turn and gateway: up to 100 packets each, about
 * 2 ms of work, so that one gateway's flood delays another's record by no
 * more than that a turn.
 */
#define AU_TURN 4
#define AU_TURN_FRAMES 64
/* More than a socket's buffer holds: a drain sees all that was there. */
#define AU_DRAIN 512
#define AU_DRAIN_FRAMES 8192
#define AU_FLUSH_US 25000  /* a record is on disk this soon, api.md: 100 ms */
#define AU_RETRY_US 250000 /* a disk that refused is tried again */
#define AU_STRAY_RATE 10   /* records a second of frames without lease */

struct au;

/* What comes from one gateway; index EG_GATEWAYS_MAX is the host's guard. */
struct au_source {
	struct au *au;
	uint32_t gateway; /* UINT32_MAX: the host */
	int log_fd, packet_fd;
	struct eg_io *log_io, *packet_io;
	struct au_nflog nflog;
	struct au_packet packet;
	uint64_t gap_before, drops_before; /* of sockets replaced since */
	uint64_t gap_said, drops_said;	   /* a record says so */
	uint64_t unattributed;
	uint32_t strays;
	int64_t strays_s;
};

/* A question of main that waits for the kernel's own buffer to be flushed. */
struct au_request {
	uint32_t slot;
	bool end;
	uint64_t generation, cookie;
	int64_t due_ns;
};

#define AU_FINDS 64 /* searches waiting; more are asked to come again */

/* A question for a lease that is not live, or not known to be yet. */
struct au_search {
	struct eg_pa_lease q;
	struct au_find find; /* by id, once it has begun */
	bool begun;
	uint64_t cookie;
};

struct au_job {
	struct au_job *next;
	struct au_seal *seal;
	struct au_lease *lease;
};

struct au {
	struct eg_role_ctx *ctx;
	const struct eg_conf *conf;
	struct au_files *files;
	struct au_leases leases;
	struct au_texts texts;
	struct au_chain chain;
	bool chain_bad;
	struct au_source source[EG_GATEWAYS_MAX + 1];
	bool reading; /* leases are known: packets may be read */
	int64_t started_ns, last_lease_ns;
	struct eg_timer *read_timer, *flush_timer, *request_timer, *seal_timer,
		*find_timer;
	bool flush_armed;
	struct au_request *request; /* ring */
	uint32_t requests, request_head, request_cap;
	struct au_job *jobs, **jobs_tail;
	struct au_search search[AU_FINDS]; /* the first is under way */
	unsigned int searches;
	struct au_log host; /* what has no lease, by date */
	int trouble;	    /* errno the disk refuses with, said once */
	uint8_t frame[AU_PACKET_MAX];
	char line[AU_RECORD_MAX];
};

/* au_sink_packet() etc. - callbacks of the readers; @arg is the source. */
void au_sink_packet(void *arg, const struct au_nflog_pkt *p);
void au_sink_frame(void *arg, const struct au_frame_in *f);
void au_sink_dns(struct au *au, const struct eg_da_denial *d);

/* au_sink_gaps() - a marker in the host's file where records are missing. */
void au_sink_gaps(struct au *au, struct au_source *s);

/* au_sink_summary() - layer log record in a lease's file. */
void au_sink_summary(struct au *au, struct au_lease *l,
		     const struct au_seal_facts *facts);

/* au_trouble() - remember and say what the disk does; 0: it works. */
void au_trouble(struct au *au, int r);

void au_flush_soon(struct au *au);

#endif
