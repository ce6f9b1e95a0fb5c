// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: what this host is, from its own files (see preflight.h)
 *
 * Every path starts with the caller's root, so that a test brings a tree of
 * its own. What is not there or not a number stays NP_UNKNOWN.
 */
#include "netpool/base/util.h"
#include "netpool/preflight.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define FACT_PATH 256
#define FACT_LINE 4096 /* of mountinfo: two paths */

static FILE *fact_open(const char *root, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

static FILE *fact_open(const char *root, const char *fmt, ...)
{
	char path[FACT_PATH];
	va_list ap;
	int n = snprintf(path, sizeof(path), "%s", root);

	if (n < 0 || n >= (int)sizeof(path))
		return NULL;
	va_start(ap, fmt);
	(void)vsnprintf(path + n, sizeof(path) - (size_t)n, fmt, ap);
	va_end(ap);
	return fopen(path, "re");
}

/* The first number of a file; closes it. */
static uint64_t number(FILE *f)
{
	uint64_t v;

	if (!f)
		return NP_UNKNOWN;
	if (fscanf(f, "%" SCNu64, &v) != 1)
		v = NP_UNKNOWN;
	(void)fclose(f);
	return v;
}

static bool there(const char *root, const char *path)
{
	char full[FACT_PATH];

	(void)snprintf(full, sizeof(full), "%s%s", root, path);
	return !access(full, F_OK);
}

/* /proc/PID/NAME, of the calling process for 0. */
static FILE *proc_open(const char *root, uint32_t pid, const char *name)
{
	if (!pid)
		return fact_open(root, "/proc/self/%s", name);
	return fact_open(root, "/proc/%u/%s", pid, name);
}

static uint64_t limit_value(const char *word)
{
	char *end;
	uint64_t v = strtoull(word, &end, 10);

	/* "unlimited" is no number and more than any need. */
	return end == word ? NP_UNKNOWN - 1 : v;
}

static void read_limits(const char *root, struct np_facts *x)
{
	FILE *f = proc_open(root, x->pid, "limits");
	char line[160], soft[32], hard[32];

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "Max open files %31s %31s", soft, hard) == 2) {
			x->nofile_soft = limit_value(soft);
			x->nofile_hard = limit_value(hard);
		}
	if (f)
		(void)fclose(f);
	x->nr_open = number(fact_open(root, "/proc/sys/fs/nr_open"));
}

static void read_process(const char *root, struct np_facts *x)
{
	FILE *f = proc_open(root, 0, "status");
	unsigned long long caps;
	char line[160];
	uint64_t in, out, n;

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "CapEff: %llx", &caps) == 1)
			x->can_raise = caps >> CAP_SYS_RESOURCE & 1;
	if (f)
		(void)fclose(f);
	f = proc_open(root, 0, "uid_map");
	if (!f)
		return; /* a kernel without user namespaces */
	x->user_namespace = fscanf(f, "%" SCNu64 "%" SCNu64 "%" SCNu64, &in,
				   &out, &n) == 3 &&
			    (in || out || n != UINT32_MAX);
	(void)fclose(f);
}

/* Column 2 of the slab's line; only root may read it. */
static uint64_t read_namespaces(const char *root)
{
	FILE *f = fact_open(root, "/proc/slabinfo");
	uint64_t v, ret = NP_UNKNOWN;
	char line[256];

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "net_namespace %" SCNu64, &v) == 1)
			ret = v;
	if (f)
		(void)fclose(f);
	return ret;
}

static void read_mounts(const char *root, const struct eg_conf *c,
			struct np_facts *x)
{
	FILE *f = fact_open(root, "/proc/self/mountinfo");
	char line[FACT_LINE], ours[EG_PATH + 8];

	(void)snprintf(ours, sizeof(ours), " %s/eg-", c->netns);
	if (!f)
		return;
	x->mounts = 0;
	while (fgets(line, sizeof(line), f)) {
		const char *p = strstr(line, ours);

		if (!p)
			x->mounts++;
		else if (strncmp(p + strlen(ours), "gw-", 3) != 0)
			x->names++;
	}
	(void)fclose(f);
}

static void read_memory(const char *root, struct np_facts *x)
{
	FILE *f = fact_open(root, "/proc/meminfo");
	char line[128];
	uint64_t v;

	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "MemTotal: %" SCNu64, &v) == 1)
			x->mem_total = v * 1024;
		else if (sscanf(line, "MemAvailable: %" SCNu64, &v) == 1)
			x->mem_available = v * 1024;
	}
	if (f)
		(void)fclose(f);
}

/* The link of the route to 0.0.0.0/0: column 1 where 2 and 8 are zero. */
static void read_uplink(const char *root, struct np_facts *x)
{
	FILE *f = fact_open(root, "/proc/net/route");
	unsigned int dst, mask;
	char line[256], name[EG_IFNAME];

	while (f && !x->uplink[0] && fgets(line, sizeof(line), f))
		if (sscanf(line, "%15s %x %*x %*x %*d %*d %*d %x", name, &dst,
			   &mask) == 3 &&
		    !dst && !mask)
			memcpy(x->uplink, name, sizeof(name));
	if (f)
		(void)fclose(f);
	if (!x->uplink[0])
		return;
	x->uplink_forwarding = number(fact_open(
		root, "/proc/sys/net/ipv4/conf/%s/forwarding", x->uplink));
	x->uplink_rp_filter = number(fact_open(
		root, "/proc/sys/net/ipv4/conf/%s/rp_filter", x->uplink));
}

static void read_tunnels(const char *root, struct np_facts *x)
{
	static const char *const links[] = {"tunl0",   "gre0",	  "gretap0",
					    "erspan0", "ip_vti0", "ip6_vti0",
					    "sit0",    "ip6tnl0", "ip6gre0"};
	char path[64];

	x->fb_tunnels = number(fact_open(
		root, "/proc/sys/net/core/fb_tunnels_only_for_init_net"));
	for (size_t i = 0; i < EG_ARRAY_SIZE(links); i++) {
		(void)snprintf(path, sizeof(path), "/sys/class/net/%s", links[i]);
		if (there(root, path))
			x->tunnel_links++;
	}
}

static void read_sysctls(const char *root, struct np_facts *x)
{
	static const char base[] = "/proc/sys/net/ipv4/ip_forward";
	char full[FACT_PATH];

	(void)snprintf(full, sizeof(full), "%s%s", root, base);
	/* EROFS where a container's /proc/sys is read-only, even for root. */
	x->sysctl_error = access(full, W_OK) < 0 ? errno : 0;
	x->ip_forward = number(fact_open(root, "%s", base));
	x->max_net_namespaces =
		number(fact_open(root, "/proc/sys/user/max_net_namespaces"));
	x->mount_max = number(fact_open(root, "/proc/sys/fs/mount-max"));
	x->conntrack_max = number(
		fact_open(root, "/proc/sys/net/netfilter/nf_conntrack_max"));
	x->gc_thresh3 = number(
		fact_open(root, "/proc/sys/net/ipv4/neigh/default/gc_thresh3"));
	x->pid_max = number(fact_open(root, "/proc/sys/kernel/pid_max"));
	x->threads_max = number(fact_open(root, "/proc/sys/kernel/threads-max"));
	x->rmem_max = number(fact_open(root, "/proc/sys/net/core/rmem_max"));
}

void np_facts_read(const char *root, const struct eg_conf *conf, uint32_t pid,
		   struct np_facts *ret)
{
	*ret = (struct np_facts){
		.pid = pid,
		.nofile_soft = NP_UNKNOWN,
		.nofile_hard = NP_UNKNOWN,
		.mounts = NP_UNKNOWN,
		.mem_total = NP_UNKNOWN,
		.mem_available = NP_UNKNOWN,
		.uplink_forwarding = NP_UNKNOWN,
		.uplink_rp_filter = NP_UNKNOWN,
	};
	read_limits(root, ret);
	read_process(root, ret);
	ret->net_namespaces = read_namespaces(root);
	read_mounts(root, conf, ret);
	read_memory(root, ret);
	read_sysctls(root, ret);
	read_uplink(root, ret);
	read_tunnels(root, ret);
	ret->udev = there(root, "/run/udev/control");
	ret->networkd = there(root, "/run/systemd/netif/state");
	ret->network_manager = there(root, "/run/NetworkManager");
}
