// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: facts in, findings out (see preflight.h)
 *
 * One function a check, in a table in the order of the list. A check starts
 * as OK and says what it looked at in any case: an operator reads the list
 * to see what has been considered, too.
 */
#include "netpool/preflight.h"
#include "netpool/base/plan.h"
#include "netpool/base/util.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/*
 * Descriptors. The launcher holds one for each idle slot and six a gateway,
 * and duplicates of up to 256 while a role that starts again is fed; build
 * holds each slot's namespace and five a gateway, and one more for a slot
 * with a tap; main one a gateway and one for each distinct policy. In the
 * other roles connections and open evidence are what counts: with less than
 * FD_BASE they would turn clients and guests away.
 */
#define FD_GATEWAY 6
#define FD_BASE 288
#define FD_CLIENTS 4352 /* dns: connections of guests, questions upstream */

/*
 * Namespaces beside ours: those of other programs of root (each service
 * with PrivateNetwork has one), the probe's, and ours that are being
 * destroyed, which count until the kernel has done so.
 */
#define NETNS_SPARE 64
#define MOUNTS_SPARE 64
/* Threads of one monitor of a virtual machine: its own and one a CPU. */
#define THREADS_SLOT 4
/* Flows of a sandbox that works: terraform has 10 operations at a time. */
#define FLOWS_FEW 16
#define FLOWS_GOOD 128
/* The largest buffer a role asks for (NFLOG of a gateway). */
#define RCVBUF_MAX (8ULL << 20)

static const char *const check_names[] = {
	[NP_CHECK_DESCRIPTORS] = "descriptors",
	[NP_CHECK_NAMESPACES] = "namespaces",
	[NP_CHECK_USERNS] = "user-namespace",
	[NP_CHECK_MOUNTS] = "mounts",
	[NP_CHECK_SYSCTLS] = "sysctls",
	[NP_CHECK_FORWARD] = "forwarding",
	[NP_CHECK_UPLINK] = "uplink",
	[NP_CHECK_NFT] = "nftables",
	[NP_CHECK_NFLOG] = "nflog",
	[NP_CHECK_CONNTRACK] = "conntrack",
	[NP_CHECK_VETH] = "veth",
	[NP_CHECK_TUN] = "tun",
	[NP_CHECK_FLOWS] = "flows",
	[NP_CHECK_MEMORY] = "memory",
	[NP_CHECK_NEIGHBOURS] = "neighbours",
	[NP_CHECK_BUFFERS] = "buffers",
	[NP_CHECK_PROCESSES] = "processes",
	[NP_CHECK_TUNNELS] = "tunnels",
	[NP_CHECK_GATEWAYS] = "gateways",
	[NP_CHECK_MANAGERS] = "managers",
};
_Static_assert(EG_ARRAY_SIZE(check_names) == NP_CHECK_COUNT, "check names");

const char *np_check_name(enum np_check check)
{
	return (unsigned int)check < NP_CHECK_COUNT ? check_names[check] : "?";
}

/* ---- words ------------------------------------------------------------------ */

#define PRINT_INTO(name, field)                                                \
	static void __attribute__((format(printf, 2, 3)))                      \
	name(struct np_finding *f, const char *fmt, ...)                       \
	{                                                                      \
		va_list ap;                                                    \
		va_start(ap, fmt);                                             \
		(void)vsnprintf(f->field, sizeof(f->field), fmt, ap);          \
		va_end(ap);                                                    \
	}
PRINT_INTO(need, need)
PRINT_INTO(text, text)
PRINT_INTO(fix, fix)

static void have(struct np_finding *f, const char *key, uint64_t value)
{
	(void)snprintf(f->key, sizeof(f->key), "%s", key);
	if (value == NP_UNKNOWN)
		(void)snprintf(f->have, sizeof(f->have), "unknown");
	else
		(void)snprintf(f->have, sizeof(f->have), "%" PRIu64, value);
}

static bool below(uint64_t value, uint64_t least)
{
	return value != NP_UNKNOWN && value < least;
}

static uint64_t max_u64(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* No more than @slots fit: degraded, or refused when that is none. */
static void fits(const struct eg_conf *c, struct np_finding *f, int64_t slots)
{
	if (slots >= c->slots)
		return;
	f->level = slots > 0 ? NP_DEGRADED : NP_REFUSED;
	f->slots = slots > 0 ? (uint32_t)slots : 0;
}

/* ---- sizes ------------------------------------------------------------------ */

uint64_t np_descriptors(const struct eg_conf *conf, uint32_t slots)
{
	return (uint64_t)slots + FD_GATEWAY * conf->gateways + FD_BASE;
}

uint64_t np_budget(const struct eg_conf *conf, uint64_t mem_total)
{
	return conf->memory_budget ? conf->memory_budget
				   : mem_total / 100 * conf->memory_budget_pct;
}

uint32_t np_prefill(const struct eg_conf *conf, uint64_t mem_total)
{
	uint64_t n = conf->slots;

	if (conf->prefill >= 0)
		n = (uint64_t)conf->prefill;
	else if (conf->prefill == -1)
		n = np_budget(conf, mem_total) / EG_SLOT_BYTES;
	return n < conf->slots ? (uint32_t)n : conf->slots;
}

/* ---- limits that bound the pool ---------------------------------------------- */

static void check_descriptors(const struct eg_conf *c, const struct np_facts *x,
			      struct np_finding *f)
{
	uint64_t all = np_descriptors(c, c->slots), most = x->nofile_hard;
	uint64_t taps = all + c->slots + FD_CLIENTS;

	have(f, "RLIMIT_NOFILE", most);
	need(f, "%" PRIu64, all);
	text(f,
	     "%u slots behind %u gateways (hard limit%s; the soft one is raised at start)",
	     c->slots, c->gateways, x->pid ? " of the egressd that runs" : "");
	if (x->can_raise && below(most, all) && x->nr_open != NP_UNKNOWN)
		most = max_u64(most, x->nr_open); /* the launcher does it */
	if (below(most, all)) {
		fits(c, f, (int64_t)most - (int64_t)np_descriptors(c, 0));
		text(f,
		     "one for each of %u slots, %d for each of %u gateways, %d for clients and evidence: there is room for %u slots",
		     c->slots, FD_GATEWAY, c->gateways, FD_BASE, f->slots);
		fix(f,
		    "LimitNOFILE=%" PRIu64 " in the unit (%" PRIu64
		    " where all leases have taps), or ulimit -Hn %" PRIu64
		    " before the start",
		    all, taps, all);
	} else if (below(most, taps)) {
		f->level = NP_NOTE;
		text(f,
		     "enough for %u slots; a lease in tap mode takes one more, and connections of clients and guests come on top",
		     c->slots);
		fix(f, "LimitNOFILE=%" PRIu64 " in the unit", taps);
	}
}

static void check_namespaces(const struct eg_conf *c, const struct np_facts *x,
			     struct np_finding *f)
{
	uint64_t least = (uint64_t)c->slots + c->gateways + NETNS_SPARE;
	uint64_t good = least + c->slots;

	have(f, "user.max_net_namespaces", x->max_net_namespaces);
	need(f, "%" PRIu64, least);
	text(f, "one for each of %u slots and %u gateways, and %d for others; ",
	     c->slots, c->gateways, NETNS_SPARE);
	if (x->net_namespaces != NP_UNKNOWN)
		text(f,
		     "one for each of %u slots and %u gateways, and %d for others; about %" PRIu64
		     " are in being now",
		     c->slots, c->gateways, NETNS_SPARE, x->net_namespaces);
	if (below(x->max_net_namespaces, least)) {
		fits(c, f,
		     (int64_t)x->max_net_namespaces -
			     (int64_t)(c->gateways + NETNS_SPARE));
		text(f,
		     "network namespaces: %u slots, %u gateways and %d for others want one each; there is room for %u slots",
		     c->slots, c->gateways, NETNS_SPARE, f->slots);
	} else if (below(x->max_net_namespaces, good)) {
		f->level = NP_NOTE;
		need(f, "%" PRIu64, good);
		text(f,
		     "enough for the pool, but a namespace counts until the kernel has destroyed it: after a release of many at once new slots wait");
	}
	if (f->level != NP_OK)
		fix(f,
		    "sysctl -w user.max_net_namespaces=%" PRIu64
		    " (in /etc/sysctl.d/egressd.conf to keep it)",
		    good);
}

static void check_userns(const struct eg_conf *c, const struct np_facts *x,
			 struct np_finding *f)
{
	(void)c;
	have(f, "user namespace", 0);
	(void)snprintf(f->have, sizeof(f->have), "%s",
		       x->user_namespace ? "one of its own" : "the initial one");
	need(f, "the initial one");
	text(f, "root here is root of the host");
	if (!x->user_namespace)
		return;
	f->level = NP_REFUSED;
	text(f,
	     "root of a user namespace may not enlarge socket buffers (SO_RCVBUFFORCE), without which evidence and queries would be lost");
	fix(f,
	    "start egressd outside of the container's user namespace (userns-remap, rootless)");
}

static void check_mounts(const struct eg_conf *c, const struct np_facts *x,
			 struct np_finding *f)
{
	uint64_t mounts = x->mounts == NP_UNKNOWN ? 0 : x->mounts;
	uint64_t others = mounts + c->gateways + MOUNTS_SPARE;
	uint64_t least = others + c->slots;

	have(f, "fs.mount-max", x->mount_max);
	need(f, "%" PRIu64, least);
	text(f,
	     "%u gateways and each leased or armed slot have a name in %s; %" PRIu64
	     " mounts of others",
	     c->gateways, c->netns, mounts);
	if (c->netns_names == EG_NETNS_NONE) {
		need(f, "%" PRIu64, others);
		text(f, "netns_names = none: only gateways have names");
	} else if (below(x->mount_max, least)) {
		fits(c, f, (int64_t)x->mount_max - (int64_t)others);
		text(f,
		     "a leased slot has a name in %s, which is a mount; beside %" PRIu64
		     " others there is room for %u",
		     c->netns, others, f->slots);
		fix(f,
		    "sysctl -w fs.mount-max=%" PRIu64
		    ", or [pool] netns_names = none",
		    least);
	}
}

/* ---- what the host must let us do --------------------------------------------- */

static void check_sysctls(const struct eg_conf *c, const struct np_facts *x,
			  struct np_finding *f)
{
	(void)c;
	have(f, "/proc/sys/net", 0);
	(void)snprintf(f->have, sizeof(f->have), "%s",
		       x->sysctl_error ? strerror(x->sysctl_error) : "writable");
	need(f, "writable");
	text(f, "gateways' settings are written there");
	if (!x->sysctl_error)
		return;
	f->level = NP_REFUSED;
	text(f,
	     "gateways' settings (rp_filter, tcp_loose, ip_forward ...) are written there and read back");
	fix(f,
	    x->sysctl_error == EROFS
		    ? "mount -o remount,rw /proc/sys (a container: run it privileged, or on the host)"
		    : "a kernel with CONFIG_SYSCTL and CONFIG_INET, and /proc mounted");
}

static void check_forward(const struct eg_conf *c, const struct np_facts *x,
			  struct np_finding *f)
{
	have(f, "net.ipv4.ip_forward", x->ip_forward);
	need(f, "1");
	text(f, "the host forwards between gateways and its uplink");
	if (x->ip_forward)
		return;
	f->level = NP_NOTE;
	text(f,
	     "egressd turns it on at start and writes that into %s/host.before; --purge turns it off again",
	     c->run);
	fix(f, "sysctl -w net.ipv4.ip_forward=1 to have it on at all times");
}

static void check_uplink(const struct eg_conf *c, const struct np_facts *x,
			 struct np_finding *f)
{
	(void)c;
	have(f, "default route", 0);
	need(f, "a link that forwards");
	if (!x->uplink[0]) {
		f->level = NP_NOTE;
		(void)snprintf(f->have, sizeof(f->have), "none");
		text(f,
		     "only what the host has a route for can be reached from a sandbox; the MTU is taken as 1500");
		fix(f, "ip route add default via ADDRESS, or [uplink] mtu");
		return;
	}
	(void)snprintf(f->have, sizeof(f->have), "%.15s", x->uplink);
	text(f, "allowed traffic leaves by %.15s", x->uplink);
	/* With ip_forward 0 turning it on sets it for every link. */
	if (x->ip_forward == 1 && !x->uplink_forwarding) {
		f->level = NP_DEGRADED;
		(void)snprintf(f->key, sizeof(f->key),
			       "net.ipv4.conf.%.15s.forwarding", x->uplink);
		(void)snprintf(f->have, sizeof(f->have), "0");
		need(f, "1");
		text(f,
		     "the host does not forward what comes in by its default route: no answer reaches a sandbox");
		fix(f, "sysctl -w %s=1", f->key);
	}
}

/* One try of the kernel; @level is what its failure means. */
static void tried(const struct np_facts *x, const struct eg_err *e,
		  enum np_level level, struct np_finding *f)
{
	need(f, "works");
	(void)snprintf(f->have, sizeof(f->have), "works");
	text(f, "tried in a scratch namespace");
	if (!x->probe.tried) {
		f->level = NP_NOTE;
		(void)snprintf(f->have, sizeof(f->have), "not tried");
		text(f, "only root may try it");
	} else if (e->code) {
		f->level = level;
		(void)snprintf(f->have, sizeof(f->have), "%s",
			       strerror(-e->code));
		text(f, "%.300s", e->text);
	}
}

static void check_nft(const struct eg_conf *c, const struct np_facts *x,
		      struct np_finding *f)
{
	const struct np_probe *p = &x->probe;

	(void)c;
	have(f, "nf_tables", 0);
	tried(x, p->netns.code ? &p->netns : &p->nft, NP_REFUSED, f);
	if (f->level == NP_OK)
		text(f,
		     "the whole table of a gateway, TPROXY included, was taken by a scratch namespace");
	if (f->level == NP_REFUSED)
		fix(f,
		    "modprobe nf_tables nft_tproxy nft_fib_inet nft_ct nft_log nft_masq, or a kernel with the option named");
}

static void check_nflog(const struct eg_conf *c, const struct np_facts *x,
			struct np_finding *f)
{
	(void)c;
	have(f, "nfnetlink_log", 0);
	tried(x, &x->probe.nflog, NP_REFUSED, f);
	if (f->level == NP_REFUSED)
		fix(f, "modprobe nfnetlink_log (CONFIG_NETFILTER_NETLINK_LOG)");
}

static void check_conntrack(const struct eg_conf *c, const struct np_facts *x,
			    struct np_finding *f)
{
	(void)c;
	have(f, "nf_conntrack_netlink", 0);
	tried(x, &x->probe.conntrack, NP_REFUSED, f);
	if (f->level == NP_REFUSED)
		fix(f, "modprobe nf_conntrack_netlink (CONFIG_NF_CT_NETLINK)");
}

static void check_veth(const struct eg_conf *c, const struct np_facts *x,
		       struct np_finding *f)
{
	(void)c;
	have(f, "veth", 0);
	tried(x, &x->probe.veth, NP_REFUSED, f);
	if (f->level == NP_REFUSED)
		fix(f, "modprobe veth (CONFIG_VETH)");
}

static void check_tun(const struct eg_conf *c, const struct np_facts *x,
		      struct np_finding *f)
{
	(void)c;
	have(f, "/dev/net/tun", 0);
	tried(x, &x->probe.tun, NP_DEGRADED, f);
	if (f->level == NP_DEGRADED)
		fix(f,
		    "needed for guests in tap and route mode: modprobe tun (CONFIG_TUN); in a container: --device /dev/net/tun");
}

/* ---- sizes that are worth knowing ----------------------------------------------- */

static void check_flows(const struct eg_conf *c, const struct np_facts *x,
			struct np_finding *f)
{
	uint64_t good = (uint64_t)c->slots * FLOWS_GOOD;
	uint64_t each = x->conntrack_max / c->slots;

	have(f, "net.netfilter.nf_conntrack_max", x->conntrack_max);
	need(f, "%" PRIu64, good);
	if (x->conntrack_max == NP_UNKNOWN || !x->conntrack_max) {
		text(f,
		     "not limited, or connection tracking is not loaded yet: it is at the first start");
		return;
	}
	text(f,
	     "the host's own table holds the flows of all %u slots: %" PRIu64
	     " for each when all work; limits.flows of a lease bounds one",
	     c->slots, each);
	if (each >= FLOWS_GOOD)
		return;
	f->level = each < FLOWS_FEW ? NP_DEGRADED : NP_NOTE;
	fix(f,
	    "sysctl -w net.netfilter.nf_conntrack_max=%" PRIu64
	    " (in the host's own namespace; a flow takes about 300 octets)",
	    good);
}

static void check_memory(const struct eg_conf *c, const struct np_facts *x,
			 struct np_finding *f)
{
	uint64_t total = x->mem_total == NP_UNKNOWN ? 0 : x->mem_total;
	uint32_t slots = np_prefill(c, total);
	uint64_t want = (uint64_t)slots * EG_SLOT_BYTES, is, mb = 1000000;
	uint64_t ours = x->names * EG_SLOT_BYTES;

	is = want > ours ? want - ours : 0; /* still to be taken */
	have(f, "MemAvailable", NP_UNKNOWN);
	if (x->mem_available != NP_UNKNOWN)
		(void)snprintf(f->have, sizeof(f->have), "%" PRIu64 " MB",
			       x->mem_available / mb);
	need(f, "%" PRIu64 " MB", is / mb);
	text(f, "%u of %u slots are built ahead, estimated at %u kB each",
	     slots, c->slots, EG_SLOT_BYTES / 1000);
	if (below(x->mem_available, is)) {
		f->level = NP_DEGRADED;
		text(f,
		     "%u slots built ahead take about %" PRIu64
		     " MB of kernel memory, which cannot be swapped: the host may run out of it",
		     slots, want / mb);
		fix(f,
		    "[pool] prefill = %" PRIu64
		    ", a lower memory_budget, or more memory",
		    x->mem_available / EG_SLOT_BYTES * 9 / 10);
	} else if (c->prefill == -1 && slots < c->slots) {
		f->level = NP_NOTE;
		text(f,
		     "memory_budget (%" PRIu64
		     " MB) holds %u of %u slots, estimated at %u kB each; more are not built",
		     np_budget(c, total) / mb, slots, c->slots,
		     EG_SLOT_BYTES / 1000);
		fix(f, "[pool] memory_budget = %" PRIu64 "M, or prefill = all",
		    (uint64_t)c->slots * EG_SLOT_BYTES / 1048576 + 1);
	}
}

static void check_neighbours(const struct eg_conf *c, const struct np_facts *x,
			     struct np_finding *f)
{
	(void)c;
	have(f, "net.ipv4.neigh.default.gc_thresh3", x->gc_thresh3);
	if (x->gc_thresh3 == NP_UNKNOWN)
		(void)snprintf(f->have, sizeof(f->have),
			       "not shown in this namespace");
	need(f, "any");
	text(f,
	     "not needed: both ends of every link have permanent entries, which the kernel does not count against it");
}

static void check_buffers(const struct eg_conf *c, const struct np_facts *x,
			  struct np_finding *f)
{
	(void)c;
	have(f, "net.core.rmem_max", x->rmem_max);
	need(f, "any");
	text(f,
	     "not needed: buffers of up to %llu MB are made past it with SO_RCVBUFFORCE",
	     RCVBUF_MAX >> 20);
}

static void check_processes(const struct eg_conf *c, const struct np_facts *x,
			    struct np_finding *f)
{
	uint64_t good = (uint64_t)c->slots * THREADS_SLOT;

	have(f, "kernel.pid_max", x->pid_max);
	need(f, "%" PRIu64, good);
	text(f, "%d threads for each of %u virtual machines", THREADS_SLOT,
	     c->slots);
	if (below(x->pid_max, good)) {
		f->level = NP_NOTE;
		text(f,
		     "a hint: %u monitors of virtual machines with %d threads each would not fit; egressd itself is six processes",
		     c->slots, THREADS_SLOT);
		fix(f, "sysctl -w kernel.pid_max=%" PRIu64, good);
	} else if (below(x->threads_max, good)) {
		f->level = NP_NOTE;
		have(f, "kernel.threads-max", x->threads_max);
		fix(f, "sysctl -w kernel.threads-max=%" PRIu64, good);
	}
}

static void check_tunnels(const struct eg_conf *c, const struct np_facts *x,
			  struct np_finding *f)
{
	(void)c;
	have(f, "net.core.fb_tunnels_only_for_init_net", x->fb_tunnels);
	need(f, "any");
	text(f,
	     "no tunnel modules are loaded that put links into every namespace");
	if (!x->tunnel_links)
		return;
	text(f,
	     "%u tunnel modules are loaded; their links are kept out of new namespaces",
	     x->tunnel_links);
	if (x->fb_tunnels != 0)
		return;
	f->level = NP_NOTE;
	need(f, "1 or 2");
	text(f,
	     "%u tunnel modules (tunl0, gre0, sit0 ...) put a link each into every namespace: slots take longer and more memory",
	     x->tunnel_links);
	fix(f, "sysctl -w net.core.fb_tunnels_only_for_init_net=2");
}

/* Nothing to judge: so that nobody looks for these on the host. */
static void check_gateways(const struct eg_conf *c, const struct np_facts *x,
			   struct np_finding *f)
{
	(void)c;
	have(f, "rp_filter, nf_conntrack_tcp_loose", x->uplink_rp_filter);
	need(f, "any");
	text(f,
	     "rp_filter 1, tcp_loose 0, no redirects, source routes or route_localnet are set in each gateway and read back; the host's own values are left alone (shown: rp_filter of the uplink)");
}

static void check_managers(const struct eg_conf *c, const struct np_facts *x,
			   struct np_finding *f)
{
	have(f, "udev, networkd, NetworkManager", 0);
	(void)snprintf(f->have, sizeof(f->have), "%s%s%s",
		       x->udev ? "udev " : "", x->networkd ? "networkd " : "",
		       x->network_manager ? "NetworkManager" : "");
	need(f, "leave eg-gw-* alone");
	text(f, "nobody here follows new links");
	if (!f->have[0])
		(void)snprintf(f->have, sizeof(f->have), "none runs");
	if (!x->udev && !x->networkd && !x->network_manager)
		return;
	f->level = NP_NOTE;
	text(f,
	     "they see the %u links eg-gw-* of the host (none of the slots') and must not configure them",
	     c->gateways);
	if (x->network_manager)
		fix(f,
		    "/etc/NetworkManager/conf.d/egressd.conf: [keyfile] unmanaged-devices=interface-name:eg-gw-*");
	else if (x->networkd)
		fix(f,
		    "/etc/systemd/network/05-egressd.network: [Match] Name=eg-gw-* [Link] Unmanaged=yes");
	else
		fix(f,
		    "/etc/udev/rules.d/70-egressd.rules: SUBSYSTEM==\"net\", KERNEL==\"eg-gw-*\", ENV{NM_UNMANAGED}=\"1\"");
}

/* ---- the list ---------------------------------------------------------------- */

typedef void check_fn(const struct eg_conf *c, const struct np_facts *x,
		      struct np_finding *f);

static check_fn *const checks[] = {
	[NP_CHECK_DESCRIPTORS] = check_descriptors,
	[NP_CHECK_NAMESPACES] = check_namespaces,
	[NP_CHECK_USERNS] = check_userns,
	[NP_CHECK_MOUNTS] = check_mounts,
	[NP_CHECK_SYSCTLS] = check_sysctls,
	[NP_CHECK_FORWARD] = check_forward,
	[NP_CHECK_UPLINK] = check_uplink,
	[NP_CHECK_NFT] = check_nft,
	[NP_CHECK_NFLOG] = check_nflog,
	[NP_CHECK_CONNTRACK] = check_conntrack,
	[NP_CHECK_VETH] = check_veth,
	[NP_CHECK_TUN] = check_tun,
	[NP_CHECK_FLOWS] = check_flows,
	[NP_CHECK_MEMORY] = check_memory,
	[NP_CHECK_NEIGHBOURS] = check_neighbours,
	[NP_CHECK_BUFFERS] = check_buffers,
	[NP_CHECK_PROCESSES] = check_processes,
	[NP_CHECK_TUNNELS] = check_tunnels,
	[NP_CHECK_GATEWAYS] = check_gateways,
	[NP_CHECK_MANAGERS] = check_managers,
};
_Static_assert(EG_ARRAY_SIZE(checks) == NP_CHECK_COUNT, "checks");

void np_preflight(const struct eg_conf *conf, const struct np_facts *f,
		  struct np_preflight *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->slots = conf->slots;
	for (unsigned int i = 0; i < NP_CHECK_COUNT; i++) {
		struct np_finding *x = &ret->finding[i];

		x->check = (enum np_check)i;
		checks[i](conf, f, x);
		if (x->level > ret->worst)
			ret->worst = x->level;
		if (x->slots && x->slots < ret->slots) {
			ret->slots = x->slots;
			ret->limit = x->check;
		}
	}
}

int np_preflight_refuse(const struct np_preflight *p, struct eg_err *err)
{
	for (unsigned int i = 0; i < NP_CHECK_COUNT; i++) {
		const struct np_finding *f = &p->finding[i];

		if (f->level == NP_REFUSED)
			return eg_err_set(err, -EOPNOTSUPP,
					  "%s is %s, needed: %s; %.200s; %.160s",
					  f->key, f->have, f->need, f->text,
					  f->fix);
	}
	return 0;
}
