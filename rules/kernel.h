/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: what main asks of the kernel's packet filter.
 *
 * One struct rl_gw a gateway: an nfnetlink socket that lives in the gateway's
 * namespace and the shadow of what has been put there. Every change is one
 * batch; nf_tables handles it inside sendmsg(2), so that the answer is in the
 * socket's buffer when the call returns and nothing here ever waits for
 * another process, rtnl or a disk. All or nothing; nothing is replayed.
 *
 * Mark layout (kernel contract, reason.h): epoch << 8 | reason; EG_MARK_PASS
 * and EG_MARK_DNS in the low octet for what is let through.
 */
#ifndef RL_KERNEL_H
#define RL_KERNEL_H

#include "netpool/base/conf.h"
#include "netpool/base/err.h"
#include "netpool/base/proto.h"
#include "rules/policy.h"

#include <stddef.h>
#include <stdint.h>

struct rl_gw;

/* What the gateway enforces for one lease, apart from its policy. */
struct rl_lease {
	uint32_t slot;
	uint64_t generation; /* the kernel sees eg_epoch() of it */
	uint32_t phases;
	bool drop;   /* silent drop in place of reject */
	bool report; /* issue of report mode: non-private passes, logged */
	/*
	 * Nothing passes, established flows included, but the slot stays the
	 * lease's: what it sends is denied as `revoked`, counted and logged.
	 */
	bool revoked;
	/* log_s 0: 50; flows and new_flows_s 0: not limited here */
	uint32_t flows, new_flows_s, log_s;
	const char *tenant; /* for permit_private tenants=; NULL: none */
};

/* A name and the policy it is allowed by. */
struct rl_pin_name {
	const struct rl_prog *prog;
	const struct eg_name *name;
};

/* One live pin as found in the kernel. */
struct rl_pin {
	uint32_t slot, addr;
	uint8_t proto;
	uint16_t port;
	uint32_t left_s;
};

/**
 * rl_gw_open() - wrap the nfnetlink socket of a gateway
 * @fd:		taken, also on failure
 */
int rl_gw_open(struct rl_gw **ret, const struct eg_conf *conf,
	       uint32_t gateway, int fd, struct eg_err *err);
void rl_gw_close(struct rl_gw *gw); /* NULL is fine */

/**
 * rl_gw_install() - the whole static table of a gateway, default drop first
 *
 * One transaction; replaces a table of ours that is there. Must be
 * acknowledged before the gateway's link comes up.
 */
int rl_gw_install(struct rl_gw *gw, struct eg_err *err);

/**
 * rl_gw_adopt() - is the table of this layout and version already there?
 *
 * Also refreshes the always-denied sets from the configuration, but for the
 * host's addresses: rl_gw_host() has to follow before any pin.
 *
 * Return: 0; -ENOENT when there is none, -EPROTO when it is another version.
 */
int rl_gw_adopt(struct rl_gw *gw, struct eg_err *err);

/* rl_gw_host() - replace the host's addresses in the always-denied sets. */
int rl_gw_host(struct rl_gw *gw, const uint32_t *addr, size_t n,
	       struct eg_err *err);

/**
 * rl_gw_lease() - from here on the slot may do what its policy says
 *
 * Plain set elements only: the lease map, `live`, and the policy's addresses
 * (their union, minus what is always denied). Adding is one batch.
 */
int rl_gw_lease(struct rl_gw *gw, const struct rl_lease *l,
		const struct rl_prog *prog, struct eg_err *err);

/**
 * rl_gw_rephase() - other phases or another policy for a live lease
 *
 * One transaction replaces the address entries; pins of ports the new phases
 * do not allow go. Flows no longer allowed are not cut here, unless the lease
 * is revoked by it.
 */
int rl_gw_rephase(struct rl_gw *gw, const struct rl_lease *l,
		  const struct rl_prog *prog, struct eg_err *err);

/* rl_gw_unlease() - first step of release: nothing passes after this. */
int rl_gw_unlease(struct rl_gw *gw, uint32_t slot, uint64_t generation,
		  struct eg_err *err);

/**
 * rl_gw_scrub() - last step: pins, addresses, counters of the slot are gone
 *
 * Proven: returns -EBUSY if a dump still shows an element of the slot.
 */
int rl_gw_scrub(struct rl_gw *gw, uint32_t slot, uint64_t generation,
		struct eg_err *err);

/**
 * rl_gw_pin() - let a slot reach addresses on ports for a while
 * @who:	the name that led there, so that a change of phase knows what
 *		is still allowed; NULL: allowed in every phase
 * @port:	ranges are expanded, at most 64 elements a call in all
 * @lifetime_s:	1..; a live pin is extended, never shortened
 *
 * Return: 0 when the kernel has acknowledged all of it. -EPERM: an address is
 * always denied or belongs to the pool or the host; -ENOSPC: the slot's cap
 * (4096); -ESTALE: the slot is not leased under this generation. Predicted in
 * user space: a failing batch would cost a thousand good ones.
 */
int rl_gw_pin(struct rl_gw *gw, uint32_t slot, uint64_t generation,
	      const struct rl_pin_name *who, const uint32_t *addr, size_t naddrs, const struct eg_port *port,
	      size_t nports, uint32_t lifetime_s, struct eg_err *err);

/**
 * rl_gw_counters() - denied, suppressed and sent of a lease, by reason
 * @c:		EG_REASONS entries; logged and lost are left alone
 * @unattributed: of the whole gateway
 */
int rl_gw_counters(struct rl_gw *gw, uint32_t slot, uint64_t generation,
		   struct eg_reason_counts *c, uint64_t *unattributed,
		   struct eg_err *err);

/* rl_gw_traffic() - bytes and packets allowed, guest to world and back. */
int rl_gw_traffic(struct rl_gw *gw, uint32_t slot, uint64_t generation,
		  uint64_t *tx_bytes, uint64_t *tx_packets,
		  uint64_t *rx_bytes, uint64_t *rx_packets,
		  struct eg_err *err);

/**
 * rl_gw_take_over() - make the shadow of a lease from the kernel's state
 *
 * After a restart: the slot's elements must be there; missing ones are put
 * back in one batch. Live pins are kept and reported through @cb (may be
 * NULL).
 */
int rl_gw_take_over(struct rl_gw *gw, const struct rl_lease *l,
		    const struct rl_prog *prog,
		    void (*cb)(void *arg, const struct rl_pin *pin), void *arg,
		    struct eg_err *err);

/* rl_gw_pins() - live pins in the shadow, at most @max; returns how many. */
size_t rl_gw_pins(struct rl_gw *gw, uint32_t slot, struct rl_pin *ret,
		  size_t max);

/* rl_addr_denied() - reason an address can never be pinned, 0: it can. */
enum eg_reason rl_addr_denied(const struct eg_conf *conf, uint32_t addr);

/* ---- the host's own namespace ------------------------------------------- */

struct rl_host;

int rl_host_open(struct rl_host **ret, const struct eg_conf *conf, int fd,
		 struct eg_err *err);
void rl_host_close(struct rl_host *h);

/* rl_host_install() - guard and masquerade, one batch; idempotent. */
int rl_host_install(struct rl_host *h, struct eg_err *err);

/* rl_host_remove() - the table is gone afterwards (purge). */
int rl_host_remove(struct rl_host *h, struct eg_err *err);

/* ---- a slot's own namespace (tap mode), called by build ------------------ */

/**
 * rl_slot_nat() - 1:1 NAT between guest address and .2, port 53 handed on
 * @fd:		nfnetlink socket inside the slot's namespace, borrowed
 */
int rl_slot_nat(int fd, const struct eg_conf *conf, uint32_t slot,
		const struct eg_guest *guest, struct eg_err *err);

/**
 * rl_probe() - can this kernel do what the gateway's table needs?
 * @fd:		nfnetlink socket in a scratch namespace, borrowed
 *
 * Installs the whole table there. Return: 0, or an error whose sentence names
 * the kernel option that is missing.
 */
int rl_probe(int fd, const struct eg_conf *conf, struct eg_err *err);

#endif
