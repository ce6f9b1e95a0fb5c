/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: the state of the build role, shared by build.c (the role, its
 * gateways and the host), build_slot.c (its slots) and build_adopt.c (those
 * of them in namespaces of callers). Nobody else's.
 *
 * A slot here is NONE, IDLE (built, held by descriptor), NAMED (armed or
 * leased; its name holds it), ADOPTED (leased; its sandbox end lies in a
 * caller's namespace, which nothing here holds) or SCRAP (queued for its
 * end). (slot, generation) of a command is compared with the name's; a stale one is
 * answered -ESTALE and does nothing.
 *
 * In a large pool (EG_MANY_SLOTS) the namespace of an ended lease, without
 * link and name, is held a while as the slot's `grave`: its end is then at a
 * time of our choosing, when the slot is built again or nothing else happens.
 * There is at most one for a slot that has no other namespace, so memory
 * and descriptors stay within the pool's.
 */
#ifndef NP_BUILD_STATE_H
#define NP_BUILD_STATE_H

#include "netpool/base/role.h"
#include "netpool/conntrack.h"
#include "netpool/gateway.h"
#include "netpool/netns.h"

#define NP_NO_SLOT UINT32_MAX
#define NP_JOBS_MAX 1024 /* EG_MB_BUILD commands waiting; main sends few */

enum np_slot_state {
	NP_SLOT_NONE,
	NP_SLOT_IDLE,
	NP_SLOT_NAMED,
	NP_SLOT_ADOPTED,
	NP_SLOT_SCRAP,
};

struct np_build;

struct np_slot {
	struct np_build *b;
	uint8_t state;	  /* enum np_slot_state */
	bool rewatch;	  /* taken over: has it a tap? */
	bool carrier;	  /* of the gateway's end */
	bool tap_carrier; /* of the tap */
	bool gone;	  /* that its link has gone has been told */
	uint8_t tries;	  /* looks left before it counts as lingering */
	int ns;	      /* of IDLE; the name holds a NAMED one */
	uint64_t ino; /* of the namespace, to tell it by */
	int grave;    /* namespace of its last lease, of NONE; see below */
	int tap_fd; /* monitor inside, -1: no tap */
	struct eg_io *tap_io;
	uint64_t generation; /* of NAMED, ADOPTED (0: not yet told) and SCRAP */
	uint64_t cookie;     /* of SCRAP */
	uint32_t next;	     /* in a list of scraps */
	struct np_netns_ref ref;
};

/* Slots in the order they came, linked by np_slot.next. */
struct np_list {
	uint32_t first, last;
};

struct np_gate {
	struct np_build *b;
	struct np_gateway gw;
	bool held;	  /* the launcher has its namespace and sockets */
	bool pending;	  /* EG_MB_GATEWAY waits for the NFLOG group */
	uint64_t cookie;  /* of the pending command */
	int64_t give_up;  /* boot ns */
	struct eg_io *io; /* of gw.monitor */
	struct np_list scrap;
};

struct np_job {
	uint32_t next, end; /* slots left of an EG_MB_BUILD */
	uint64_t cookie;
};

struct np_build {
	struct eg_role_ctx *ctx;
	const struct eg_conf *conf;
	struct np_world w;
	struct np_ct *ct; /* in the host */
	uint32_t mtu;
	int init_net; /* process 1's namespace, -1: not known */

	/* host */
	int host_fd; /* RTMGRP_IPV4_IFADDR monitor */
	struct eg_io *host_io;
	struct eg_timer *host_quiet;
	struct eg_bm_host host;
	unsigned int have; /* 1 << EG_FD_HOST_*: the launcher holds it */
	bool host_log_wanted;
	int64_t host_log_until;

	/* slots */
	struct np_slot *slot;
	struct np_job job[NP_JOBS_MAX];
	size_t njobs;
	uint32_t rewatch; /* next slot to look at, NP_NO_SLOT: none */
	struct np_list linger;
	struct eg_timer *work, *linger_timer;
	struct eg_timer *reaper; /* of graves nobody builds on */
	uint32_t reap_next;
	int64_t scrapped_ns; /* the last time */

	struct eg_timer *retry; /* NFLOG groups not yet free */
	struct np_gate gate[EG_GATEWAYS_MAX];
};

/* np_build_tell() - to main; without one there is nobody to tell. */
void np_build_tell(struct np_build *b, uint16_t type, uint64_t cookie,
		   const void *body, size_t len, int fd);

/* build_slot.c */
int np_slots_init(struct np_build *b, struct eg_err *err);
void np_slots_free(struct np_build *b);
/* np_slots_held() - an idle slot's namespace comes back; *fd is taken. */
void np_slots_held(struct np_build *b, uint32_t slot, int *fd);
/* np_slots_new_main() - what the last main had asked for is forgotten. */
void np_slots_new_main(struct np_build *b);
/* np_slots_watch() - follow a gateway's links; it has been opened. */
int np_slots_watch(struct np_build *b, struct np_gate *g, struct eg_err *err);

void np_slots_build(struct np_build *b, uint64_t cookie,
		    const struct eg_mb_slots *m);
void np_slots_arm(struct np_build *b, uint64_t cookie,
		  const struct eg_mb_slot *m);
void np_slots_guest(struct np_build *b, uint64_t cookie,
		    const struct eg_mb_guest *m);
void np_slots_down(struct np_build *b, uint64_t cookie,
		   const struct eg_mb_slot *m);
void np_slots_scrap(struct np_build *b, uint64_t cookie,
		    const struct eg_mb_slot *m);
void np_slots_scan(struct np_build *b, uint64_t cookie);

/* np_slots_check() - is it about a slot that exists here, of this generation?
 */
int np_slots_check(struct np_build *b, uint32_t slot, uint64_t generation,
		   struct eg_err *err);
/* np_slots_let_go() - name and descriptors; the namespace goes unless held. */
int np_slots_let_go(struct np_slot *s, struct eg_err *err);
/* np_slots_link_check() - tell main if a live slot's link is gone. */
void np_slots_link_check(struct np_build *b, uint32_t slot);

/* build_adopt.c */
/* np_slots_adopt() - EG_MB_GUEST in mode adopt; -EINVAL, -EEXIST: refused. */
int np_slots_adopt(struct np_build *b, const struct eg_mb_guest *m,
		   struct eg_err *err);
/* np_slots_adopted() - EG_MB_ADOPTED; answered by an event if it is gone. */
void np_slots_adopted(struct np_build *b, const struct eg_mb_slot *m);
/* np_slots_found() - a gateway has a link in EG_ADOPT_GROUP for this slot. */
void np_slots_found(struct np_build *b, uint32_t slot);

#endif
