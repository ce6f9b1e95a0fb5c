/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: does this host have what the configuration needs?
 *
 * One list, two readers. The launcher goes through it before anything is
 * made and refuses to start, or starts with fewer slots, saying so;
 * `egressctl doctor` prints all of it. Three parts, so that the judging can
 * be tested without a host:
 *
 *   np_facts_read()  what the host is, from files below /proc, /sys and /run
 *   np_probe()       what its kernel can do, by doing it in a scratch
 *                    namespace that nobody else sees
 *   np_preflight()   facts and configuration in, findings out; it calls
 *                    nothing and changes nothing
 *
 * A finding that is not OK names the key, the value it has, the value that
 * is needed and what to type. Facts that cannot be read (a key the kernel
 * does not show in this namespace, a file only root may read) are unknown and
 * never a reason to refuse.
 */
#ifndef NP_PREFLIGHT_H
#define NP_PREFLIGHT_H

#include "netpool/base/conf.h"
#include "netpool/base/err.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#define NP_UNKNOWN UINT64_MAX
#define NP_FINDING_VALUE 96 /* a number, or a few words */
#define NP_FINDING_TEXT 320 /* two sentences */

/* What the kernel can do, each by doing it; code 0: it works. */
struct np_probe {
	bool tried; /* false: nothing is known (not root) */
	struct eg_err netns, nft, nflog, conntrack, veth, tun;
};
_Static_assert(sizeof(struct np_probe) <= PIPE_BUF, "one write to a pipe");

struct np_facts {
	/* RLIMIT_NOFILE of process `pid` (0: the one that asks) */
	uint32_t pid;
	uint64_t nofile_soft, nofile_hard, nr_open;
	bool can_raise; /* CAP_SYS_RESOURCE: the launcher raises it itself */

	bool user_namespace; /* not the initial one */
	uint64_t max_net_namespaces;
	uint64_t net_namespaces; /* in being, dying ones included, about */

	uint64_t mount_max, mounts; /* mounts: without the names of ours */
	uint64_t names;		    /* slots named in [paths] netns */

	uint64_t mem_total, mem_available; /* octets */

	int sysctl_error; /* errno of writing below /proc/sys/net; 0: may */
	uint64_t ip_forward;
	char uplink[EG_IFNAME]; /* of the default route; empty: none */
	uint64_t uplink_forwarding, uplink_rp_filter;

	uint64_t conntrack_max;
	uint64_t gc_thresh3;
	uint64_t pid_max, threads_max;
	uint64_t rmem_max;
	uint64_t fb_tunnels;   /* net.core.fb_tunnels_only_for_init_net */
	uint32_t tunnel_links; /* fallback tunnels every namespace gets */
	bool udev, networkd, network_manager;

	struct np_probe probe;
};

enum np_level {
	NP_OK,
	NP_NOTE,     /* works; worth knowing or improving */
	NP_DEGRADED, /* works with less: fewer slots, a guest mode missing */
	NP_REFUSED,  /* cannot work: start refuses */
	NP_LEVEL_COUNT,
};

/* Order is that of the list; the first that refuses is what start says. */
enum np_check {
	NP_CHECK_DESCRIPTORS,
	NP_CHECK_NAMESPACES,
	NP_CHECK_USERNS,
	NP_CHECK_MOUNTS,
	NP_CHECK_SYSCTLS,
	NP_CHECK_FORWARD,
	NP_CHECK_UPLINK,
	NP_CHECK_NFT,
	NP_CHECK_NFLOG,
	NP_CHECK_CONNTRACK,
	NP_CHECK_VETH,
	NP_CHECK_TUN,
	NP_CHECK_FLOWS,
	NP_CHECK_MEMORY,
	NP_CHECK_NEIGHBOURS,
	NP_CHECK_BUFFERS,
	NP_CHECK_PROCESSES,
	NP_CHECK_TUNNELS,
	NP_CHECK_GATEWAYS,
	NP_CHECK_MANAGERS,
	NP_CHECK_COUNT,
};

struct np_finding {
	enum np_check check;
	enum np_level level;
	uint32_t slots; /* DEGRADED: no more than these can live; else 0 */
	char key[48];	/* sysctl, limit, file or kernel option */
	char have[NP_FINDING_VALUE], need[NP_FINDING_VALUE];
	char text[NP_FINDING_TEXT]; /* what follows from it */
	char fix[NP_FINDING_TEXT];  /* what to type or write; empty: nothing */
};

struct np_preflight {
	enum np_level worst;
	uint32_t slots; /* that fit; conf->slots when nothing limits them */
	enum np_check limit; /* which check says so, if fewer */
	struct np_finding finding[NP_CHECK_COUNT];
};

/**
 * np_facts_read() - read what is known without changing anything
 * @root:	prefix of /proc, /sys and /run; "" but in tests
 * @pid:	whose limits count, 0: the calling process's
 *
 * Does not touch ret->probe but to clear it.
 */
void np_facts_read(const char *root, const struct eg_conf *conf, uint32_t pid,
		   struct np_facts *ret);

/**
 * np_probe() - links and sockets a gateway needs, in a scratch namespace
 *
 * Unshares the network namespace of the caller, who has to be a child that
 * ends afterwards. Fills everything but `nft`, which is the packet filter's
 * to try, in the namespace the caller then is in.
 */
void np_probe(struct np_probe *ret);

/* np_preflight() - judge; see the head of this file. */
void np_preflight(const struct eg_conf *conf, const struct np_facts *f,
		  struct np_preflight *ret);

/* np_preflight_refuse() - the first refusal as an error; 0: there is none. */
int np_preflight_refuse(const struct np_preflight *p, struct eg_err *err);

const char *np_check_name(enum np_check check);

/* np_descriptors() - RLIMIT_NOFILE that @slots living slots take */
uint64_t np_descriptors(const struct eg_conf *conf, uint32_t slots);

/* np_budget() - [pool] memory_budget in octets on a host with @mem_total */
uint64_t np_budget(const struct eg_conf *conf, uint64_t mem_total);

/**
 * np_prefill() - slots to be built ahead, as [pool] prefill says
 * @mem_total:	octets the host has, for prefill = auto
 */
uint32_t np_prefill(const struct eg_conf *conf, uint64_t mem_total);

#endif
