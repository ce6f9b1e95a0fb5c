/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: what the roles say to each other.
 *
 * A message is one SOCK_SEQPACKET datagram: struct eg_msg_hdr, then a body of
 * fixed layout whose size is in eg_msg_spec[]. A few carry a counted tail;
 * theirs is a range. At most one descriptor goes with a message. A body
 * holds no pointers; text fields are NUL-terminated arrays and the receiver
 * terminates them again. A message of the wrong size, type or direction is a
 * broken sibling: the receiver closes the channel and the launcher restarts
 * the sender.
 *
 * Naming: the letters say who talks: C launcher (control), M main, B build,
 * P api, D dns, A audit; EG_MB_* goes from main to build, EG_BM_* back.
 *
 * Everything about a lease carries (slot, generation): the receiver compares
 * both with what it holds and treats a stale pair as a no-op.
 */
#ifndef EG_PROTO_H
#define EG_PROTO_H

#include "netpool/base/addr.h"
#include "netpool/base/name.h"
#include "netpool/base/reason.h"

#include <stdbool.h>
#include <stdint.h>

enum eg_role {
	EG_ROLE_LAUNCHER,
	EG_ROLE_MAIN,
	EG_ROLE_BUILD,
	EG_ROLE_API,
	EG_ROLE_DNS,
	EG_ROLE_AUDIT,
	EG_ROLE_COUNT,
};

const char *eg_role_name(enum eg_role role);

#define EG_MSG_MAX                                                             \
	65536	    /* body; the largest, EG_DA_DENIAL, is < 2 KiB;            \
		     * EG_MP_LEASE with labels is about 14 KiB */
#define EG_ID 128   /* lease id, run, tenant: 127 and NUL */
#define EG_PHASE 32 /* phase name: 31 and NUL */
#define EG_PHASES 16
#define EG_LABELS 32
#define EG_LABEL_KEY 64
#define EG_LABEL_VALUE 257
#define EG_DIGEST 32 /* SHA-256 */
#define EG_UID 16    /* UUIDv7 */
#define EG_POLICY_NAME 64
#define EG_IFNAME 16
#define EG_NETNS_PATH 128 /* of a lease's namespace: 127 and NUL */
#define EG_REASONS 24 /* room for EG_REASON_COUNT, 8-aligned */
#define EG_SLOTS_MAX 16384
#define EG_GATEWAYS_MAX 256
#define EG_PIN_ADDRS 16 /* addresses of one answer (dns.md C4) */
#define EG_PIN_PORTS 8

_Static_assert(EG_REASON_COUNT <= EG_REASONS, "reasons fit the counters");

struct eg_msg_hdr {
	uint16_t type;	 /* enum eg_msg_type */
	uint16_t magic;	 /* EG_MSG_MAGIC */
	uint32_t len;	 /* of the body */
	uint64_t cookie; /* an answer repeats its question's */
};
#define EG_MSG_MAGIC 0xe6d1

enum eg_msg_type {
	EG_MSG_NONE,
	/* launcher <-> every role */
	EG_CTL_HELLO,	 /* role: my loop runs, send what I need */
	EG_CTL_CONF,	 /* launcher: + fd, sealed struct eg_conf */
	EG_CTL_PEER,	 /* launcher: + fd, a channel to the named role */
	EG_CTL_FD,	 /* launcher: + fd, a held descriptor */
	EG_CTL_GO,	 /* launcher: all of the above has been sent */
	EG_CTL_READY,	 /* role: privilege dropped, serving */
	EG_CTL_HOLD,	 /* role: + fd, keep a duplicate of this */
	EG_CTL_DROP,	 /* role: let go of what you hold under that key */
	EG_CTL_RESERVE,	 /* main: next block of a persistent counter */
	EG_CTL_RESERVED, /* launcher: the block, durable already */
	EG_CTL_POLICY,	 /* launcher to api: + fd, one policy file */
	EG_CTL_POLICIES, /* launcher to api: end of the list of files */
	EG_CTL_STATE,	 /* main: daemon-wide state ("ready") */
	EG_CTL_STOP,	 /* launcher: finish and exit */
	/* main <-> build */
	EG_MB_GATEWAY,	  /* make or adopt gateway, links down */
	EG_BM_GATEWAY,	  /* + fd, its nfnetlink socket */
	EG_MB_GATEWAY_UP, /* table is in place: bring its link up */
	EG_BM_GATEWAY_UP,
	EG_MB_BUILD, /* build idle slots */
	EG_BM_BUILT,
	EG_MB_ARM, /* name a built slot */
	EG_BM_ARMED,
	EG_MB_GUEST, /* make tap and NAT for a lease in tap/route mode */
	EG_BM_GUEST,
	EG_MB_ADOPTED, /* a lease of mode adopt was taken over: watch its link */
	EG_MB_DOWN, /* link down */
	EG_BM_DOWN,
	EG_MB_SCRAP, /* conntrack, link, name, namespace away */
	EG_BM_SCRAPPED,
	EG_MB_SCAN, /* what is there? BM_SLOT for each, then end */
	EG_BM_SLOT,
	EG_BM_SCAN_END,
	EG_BM_EVENT, /* a slot's link vanished or lost its carrier */
	EG_BM_HOST,  /* addresses of the host, at start and when changed */
	/* main <-> api */
	EG_PM_LEASE, /* + fd, sealed policy program */
	EG_PM_GET,
	EG_PM_LIST,
	EG_PM_RELEASE,
	EG_PM_RENEW,
	EG_PM_PHASE,
	EG_PM_STATS,
	EG_PM_POOL,
	EG_PM_EVENTS,
	EG_MP_LEASE, /* status and lease */
	EG_MP_STATS,
	EG_MP_POOL,
	EG_MP_EVENT,
	EG_MP_END, /* of a list; status */
	/* main <-> dns */
	EG_MD_LEASE, /* + fd, sealed policy program */
	EG_MD_UNLEASE,
	EG_MD_PINS, /* adopted pins after a restart */
	EG_MD_STATS,
	EG_DM_PIN,
	EG_MD_PINNED,
	EG_DM_STATS,
	EG_DM_READY,
	/* main <-> audit */
	EG_MA_LEASE,
	EG_MA_PHASE,
	EG_MA_STATS, /* drain, then tell what has been logged */
	EG_MA_END,   /* the lease is over: drain, seal */
	EG_AM_STATS,
	EG_AM_SEALED,
	EG_AM_FIRST, /* first denial of a reason in a lease */
	/* dns -> audit */
	EG_DA_DENIAL, /* + the query's octets as tail */
	EG_DA_NAME,   /* this name led that slot to that address */
	/* api <-> audit */
	EG_PA_OPEN, /* an evidence file of a lease, by uid */
	EG_AP_OPEN, /* + fd, read-only */
	EG_MSG_COUNT,
};

struct eg_msg_spec {
	const char *name;
	uint32_t min, max; /* body size */
	bool fd;	   /* carries exactly one descriptor on success */
};
extern const struct eg_msg_spec eg_msg_spec[EG_MSG_COUNT];

/* ---- control ---------------------------------------------------------- */

/* What the launcher keeps for others, keyed (kind, index). */
enum eg_fd_kind {
	EG_FD_LOCK,	/* launcher's own */
	EG_FD_RUN,	/* directory: lease records; to main */
	EG_FD_API,	/* listening socket; to api */
	EG_FD_API_READ, /* listening socket; to api */
	EG_FD_METRICS,	/* listening socket; to api */
	EG_FD_GATEWAY,	/* namespace of gateway [index]; to build */
	EG_FD_NFT,	/* nfnetlink socket in gateway [index]; to main */
	EG_FD_NFLOG,	/* bound NFLOG socket of gateway [index]; to audit */
	EG_FD_PACKET,	/* packet socket of gateway [index]; to audit */
	EG_FD_DNS_UDP,	/* transparent socket of gateway [index]; to dns */
	EG_FD_DNS_TCP,	/* listening socket of gateway [index]; to dns */
	EG_FD_SLOT,	/* namespace of idle slot [index]; to build */
	EG_FD_HOST_NFT, /* nfnetlink socket in the host namespace; to main */
	EG_FD_HOST_LOG, /* NFLOG socket in the host namespace; to audit */
	EG_FD_INIT_NET, /* namespace of process 1, not to be had; to build */
	EG_FD_KIND_COUNT,
};

struct eg_ctl_hello {
	uint32_t role, pid;
};

struct eg_ctl_peer {
	uint32_t role;
};

struct eg_ctl_key {
	uint32_t kind; /* enum eg_fd_kind */
	uint32_t index;
};

struct eg_ctl_ready {
	uint64_t caps; /* effective = permitted set, as read back */
	uint32_t uid, gid;
	uint32_t no_new_privs;
	uint32_t ok; /* 0: text says why not, the launcher gives up */
	char text[256];
};

enum eg_counter { EG_COUNTER_GENERATION, EG_COUNTER_COUNT };

struct eg_ctl_reserve {
	uint32_t counter;
	uint32_t want;
};

struct eg_ctl_reserved {
	uint32_t counter;
	uint32_t pad;
	uint64_t first, end; /* [first, end) is the caller's */
};

struct eg_ctl_policy {
	char name[EG_POLICY_NAME]; /* the file's stem */
};

struct eg_ctl_state {
	uint32_t ready; /* 1: leases are served */
	uint32_t slots; /* built so far */
	char text[256];
};

/* ---- leases ------------------------------------------------------------ */

enum eg_guest_mode {
	EG_GUEST_VETH,
	EG_GUEST_TAP,
	EG_GUEST_ROUTE,
	EG_GUEST_ADOPT,
	EG_GUEST_COUNT,
};

enum eg_lease_state {
	EG_LEASE_NONE,
	EG_LEASE_LEASED,
	EG_LEASE_EXPIRED,
	EG_LEASE_REVOKED,
	EG_LEASE_RELEASING,
	EG_LEASE_LOST,
	EG_LEASE_RELEASED, /* tombstone */
	EG_LEASE_STATE_COUNT,
};

enum eg_on_expiry { EG_EXPIRY_RELEASE, EG_EXPIRY_HOLD };
enum eg_deny_verdict { EG_DENY_DEFAULT, EG_DENY_REJECT, EG_DENY_DROP };

struct eg_guest {
	uint8_t mode; /* enum eg_guest_mode */
	uint8_t mac[EG_MAC_LEN];
	uint8_t addr_len; /* prefix length of address */
	uint32_t address, gateway;
	uint32_t owner_uid, owner_gid; /* UINT32_MAX: none */
	char tap[EG_IFNAME];
	char ifname[EG_IFNAME];		/* adopt: of the link in there */
	char netns_path[EG_NETNS_PATH]; /* adopt: as the caller named it */
};

struct eg_label {
	char key[EG_LABEL_KEY];
	char value[EG_LABEL_VALUE];
	char pad[7];
};

/* What a client asks for; strings are checked by api and again by main. */
struct eg_lease_req {
	char id[EG_ID]; /* empty: the daemon makes one */
	char run[EG_ID], tenant[EG_ID];
	char policy_name[EG_POLICY_NAME];
	char phase[EG_PHASES * EG_PHASE]; /* as asked, "init,plan" */
	uint8_t policy_digest[EG_DIGEST];
	uint8_t request_digest[EG_DIGEST];
	uint32_t phases; /* bit per phase of the program */
	uint32_t ttl_s;	 /* 0: default */
	uint8_t on_expiry, report, deny, nlabels;
	uint32_t owner;			    /* peer uid */
	uint32_t flows, new_flows_s, log_s; /* 0: default */
	struct eg_guest guest;
	struct eg_label label[EG_LABELS];
};

struct eg_lease {
	uint8_t uid[EG_UID];
	uint64_t generation;
	uint32_t slot, gateway;
	uint8_t state; /* enum eg_lease_state */
	uint8_t slow;  /* no armed slot was there */
	uint8_t netns_volatile;
	uint8_t pad;
	uint32_t mtu;
	uint8_t enforced_digest[EG_DIGEST];
	int64_t created_ns, expires_ns; /* wall clock, for people */
	int64_t created_boot_ns, expires_boot_ns;
	char netns[EG_NETNS_PATH];
	struct eg_lease_req req; /* last: main keeps no unused labels */
};

/* Why a mutating call was refused; the API's codes (api.md section 1). */
enum eg_status {
	EG_OK,
	EG_OK_CREATED,
	EG_E_BAD_REQUEST,
	EG_E_BAD_POLICY,
	EG_E_BAD_PHASE,
	EG_E_FORBIDDEN,
	EG_E_REVOKED,
	EG_E_NOT_FOUND,
	EG_E_GONE,
	EG_E_CURSOR_GONE,
	EG_E_EXISTS,
	EG_E_STALE,
	EG_E_BUSY,
	EG_E_EXHAUSTED,
	EG_E_UNAVAILABLE,
	EG_E_INTERNAL,
	EG_STATUS_COUNT,
};

/* ---- main <-> build ----------------------------------------------------- */

struct eg_mb_gateway {
	uint32_t gateway;
};

struct eg_bm_gateway {
	uint32_t gateway;
	int32_t error;	  /* 0 or negative errno */
	uint32_t adopted; /* it was there: keep its table */
	uint32_t mtu;
	char text[256];
};

struct eg_mb_slots {
	uint32_t first, count; /* within one gateway */
};

struct eg_mb_slot {
	uint32_t slot;
	uint32_t pad;
	uint64_t generation;
};

struct eg_mb_guest {
	uint32_t slot;
	uint32_t pad;
	uint64_t generation;
	struct eg_guest guest;
};

/* Answer to BUILD, ARM, GUEST, DOWN, SCRAP. */
struct eg_bm_slot {
	uint32_t slot;
	int32_t error;
	uint64_t generation;
	uint32_t lingering; /* SCRAPPED: a process still holds it */
	uint32_t carrier;   /* EVENT */
	char text[256];
};

/* ADOPTED: a link into a namespace that is not ours; generation 0: unknown */
enum eg_scan_state { EG_SCAN_IDLE, EG_SCAN_NAMED, EG_SCAN_ADOPTED };

struct eg_bm_scan {
	uint32_t slot;
	uint32_t state;	     /* enum eg_scan_state */
	uint64_t generation; /* of a named one */
};

#define EG_HOST_ADDRS 1024 /* a host with more is refused by name */

struct eg_bm_host {
	uint32_t count;
	uint32_t addr[EG_HOST_ADDRS];
};

/* ---- main <-> api ------------------------------------------------------- */

/* Which lease: by id, or by uid when has_uid; 0 generation: any. */
struct eg_pm_which {
	char id[EG_ID];
	uint8_t uid[EG_UID];
	uint8_t has_uid, has_fence_uid;
	uint8_t fence_uid[EG_UID];
	uint8_t admin; /* the peer is root or in admin_group */
	uint8_t pad[5];
	uint64_t generation;
	uint32_t peer_uid;
	uint32_t ttl_s;	 /* RENEW */
	uint32_t phases; /* PHASE; api resolves the names */
	uint32_t pad2;
	char phase[EG_PHASES * EG_PHASE]; /* PHASE */
};

struct eg_pm_lease {
	struct eg_lease_req req;
};

struct eg_pm_list {
	uint32_t after; /* first slot to look at */
	uint32_t limit; /* leases to send, at most 256 a call */
};

struct eg_mp_lease {
	uint32_t status; /* enum eg_status */
	uint32_t pad;
	char text[256];
	struct eg_lease lease; /* valid when status is EG_OK* */
};

struct eg_reason_counts {
	uint64_t denied, suppressed, sent; /* the kernel's or the guard's */
	uint64_t logged, lost;
};

struct eg_pin_info {
	struct eg_name name;
	uint32_t addr;
	uint16_t port;
	uint8_t proto;
	uint32_t left_s;
};

struct eg_mp_stats {
	uint32_t status;
	uint32_t slot;
	uint64_t generation;
	char text[256];
	uint64_t unattributed; /* of the whole gateway */
	struct eg_reason_counts packet[EG_REASONS];
	struct eg_reason_counts dns[EG_REASONS];
	uint64_t tx_bytes, tx_packets, rx_bytes, rx_packets;
	uint32_t npins, pad; /* live pins in all; the first are listed */
	struct eg_pin_info pin[32];
};

struct eg_mp_pool {
	uint32_t slots, building, idle, armed, leased, releasing, bad, lost;
	uint32_t gateways, gateways_up, lingering, pad;
	uint64_t leases_total, slow_total, exhausted_total, released_total;
	uint64_t pins_total, pins_failed, pin_ns_sum, generation;
	uint64_t memory_budget, memory_used; /* used: estimate of `built` */
	int64_t started_ns;
	uint32_t ready, pad2;
	uint64_t role_restarts[8];
	uint64_t lease_us_bucket[16]; /* powers of two from 1 us */
	/* the fill (fill.c) */
	uint32_t slots_cap; /* slots the host has room for */
	uint32_t prefill;   /* slots the pool is filled to */
	uint32_t built;	    /* slots that live: idle, armed, leased, releasing */
	uint32_t fill_rate; /* slots built in the last second */
	uint32_t filled, pad3;
	uint64_t built_total, fill_ns; /* since main started */
	uint64_t memory_prefill;       /* estimate for `prefill` slots */
	uint64_t memory_measured;      /* kernel memory the fill has taken */
	uint64_t memory_slot;	       /* the same for one slot; 0: too few */
};

enum eg_event_type {
	EG_EV_LEASED,
	EG_EV_PHASE,
	EG_EV_POLICY,
	EG_EV_RENEWED,
	EG_EV_EXPIRING,
	EG_EV_EXPIRED,
	EG_EV_REVOKED,
	EG_EV_RELEASED,
	EG_EV_SEALED,
	EG_EV_FIRST_DENIAL,
	EG_EV_GUEST_GONE,
	EG_EV_WATCHDOG,
	EG_EV_LOSS,
	EG_EV_POOL,
	EG_EV_ROLE,
	EG_EV_COUNT,
};

enum eg_cause {
	EG_CAUSE_API,
	EG_CAUSE_EXPIRY,
	EG_CAUSE_REVOCATION,
	EG_CAUSE_RESTART,
	EG_CAUSE_PURGE,
	EG_CAUSE_KERNEL,
	EG_CAUSE_COUNT,
};

struct eg_event {
	uint64_t seq; /* from 1, per boot of the daemon's state */
	int64_t time_ns;
	uint8_t type, cause, reason, has_lease;
	uint32_t slot;
	uint64_t generation;
	uint8_t uid[EG_UID];
	char lease[EG_ID];
	char text[128];
};

struct eg_pm_events {
	uint64_t after;
	uint32_t limit; /* at most 256 */
	int32_t type;	/* -1: all */
};

struct eg_mp_end {
	uint32_t status;
	uint32_t next;	     /* LIST: where to go on, 0: done */
	uint64_t oldest_seq; /* EVENTS */
	uint64_t last_seq;
	char text[256];
};

/* ---- main <-> dns ------------------------------------------------------- */

struct eg_md_lease {
	uint32_t slot;
	uint32_t phases;
	uint64_t generation;
	uint8_t digest[EG_DIGEST];
	uint8_t report, pad[7];
};

struct eg_md_unlease {
	uint32_t slot;
	uint32_t pad;
	uint64_t generation;
};

struct eg_port {
	uint8_t proto; /* IPPROTO_* */
	uint8_t pad;
	uint16_t lo, hi; /* host order; for icmp the type, lo == hi */
};

/*
 * Pin these addresses for this slot. main looks `name` up in the lease's own
 * policy again and pins the ports it finds there, never ones it is told.
 */
struct eg_dm_pin {
	uint32_t slot;
	uint32_t naddrs; /* 1..EG_PIN_ADDRS */
	uint64_t generation;
	uint32_t lifetime_s;	     /* of the pin: clamped TTL and grace */
	uint32_t addr[EG_PIN_ADDRS]; /* host order */
	struct eg_name name;	     /* the question's name */
};

struct eg_md_pinned {
	uint32_t slot;
	int32_t error; /* 0, or negative errno; ESTALE: lease is over */
	uint64_t generation;
};

struct eg_dm_stats {
	uint32_t slot;
	uint32_t pad;
	uint64_t generation;
	struct eg_reason_counts dns[EG_REASONS]; /* logged, lost unused */
	uint64_t queries, answered;
};

/* ---- audit -------------------------------------------------------------- */

struct eg_ma_lease {
	struct eg_lease lease;
	char phase_names[EG_PHASES * EG_PHASE];
};

struct eg_ma_stats {
	uint32_t slot;
	uint32_t pad;
	uint64_t generation;
};

struct eg_ma_end {
	uint32_t slot;
	uint32_t cause; /* enum eg_cause */
	uint64_t generation;
	struct eg_reason_counts packet[EG_REASONS]; /* denied suppressed sent */
	struct eg_reason_counts dns[EG_REASONS];
};

struct eg_am_stats {
	uint32_t slot;
	uint32_t known; /* 0: audit has no such lease */
	uint64_t generation;
	uint64_t packet_logged[EG_REASONS];
	uint64_t dns_logged[EG_REASONS];
	/* ipv6, neighbour, ethertype: seen by audit's packet sockets alone */
	uint64_t packet_denied[EG_REASONS];
	uint64_t packet_suppressed[EG_REASONS];
	/*
	 * Of the whole gateway since audit started: packets the kernel could
	 * not deliver (sequence gaps), frames its packet socket dropped,
	 * records whose lease had been sealed.
	 */
	uint64_t gw_gap, gw_frames_lost, gw_unattributed;
};

struct eg_am_sealed {
	uint32_t slot;
	int32_t error;
	uint64_t generation;
	uint64_t packet_logged[EG_REASONS];
	uint64_t dns_logged[EG_REASONS];
	uint8_t manifest[EG_DIGEST];
};

struct eg_am_first {
	uint32_t slot;
	uint32_t reason;
	uint64_t generation;
};

#define EG_DNS_EVIDENCE 512 /* octets of a query kept as evidence */

struct eg_da_denial {
	uint32_t slot;
	uint8_t reason, rcode, tcp, deny_class;
	uint64_t generation;
	int64_t time_ns, mono_ns;
	uint32_t src, dst; /* host order: guest, and whom it asked */
	uint16_t sport, dport;
	uint16_t qtype, has_addr;
	uint32_t addr;	     /* rebind: the address stripped */
	uint32_t suppressed; /* repeats held back before this one */
	struct eg_name name;
	uint32_t len; /* octets of the tail */
	uint8_t query[EG_DNS_EVIDENCE];
};

struct eg_da_name {
	uint32_t slot;
	uint32_t naddrs;
	uint64_t generation;
	uint32_t addr[EG_PIN_ADDRS];
	uint32_t lifetime_s;
	struct eg_name name;
};

enum eg_evidence {
	EG_FILE_DENIALS,
	EG_FILE_PCAP,
	EG_FILE_ACCESS,
	EG_FILE_MANIFEST,
	EG_FILE_COUNT,
};

struct eg_pa_open {
	uint8_t uid[EG_UID];
	int64_t created_ns;
	uint32_t file;	/* enum eg_evidence */
	uint32_t flush; /* write what is buffered first */
};

struct eg_ap_open {
	int32_t error;
	uint32_t file;
	uint64_t size;
};

#endif
