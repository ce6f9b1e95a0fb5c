// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: what the kernel can do, by doing it (see preflight.h)
 *
 * Runs in a child that has nothing but itself: the namespace, the links and
 * the sockets made here go with it. Each part is tried whatever became of
 * the others, so that an operator hears of everything at once.
 */
#include "netpool/base/plan.h"
#include "netpool/base/util.h"
#include "netpool/conntrack.h"
#include "netpool/gateway.h"
#include "netpool/link.h"
#include "netpool/netns.h"
#include "netpool/preflight.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

/* Both ends in the scratch namespace, made as slots' links are. */
static void probe_veth(int self, struct eg_err *err)
{
	static const uint8_t mac[EG_MAC_LEN] = {0x0a, 0xe6, 0xff, 0, 0, 1};
	static const uint8_t peer[EG_MAC_LEN] = {0x0a, 0xe6, 0xff, 0, 0, 2};
	const struct np_veth v = {.name = "probe0",
				  .peer_name = "probe1",
				  .index = EG_IFINDEX_SLOT,
				  .mac = mac,
				  .peer_mac = peer,
				  .peer_ns = self,
				  .mtu = 1500};
	struct np_rtnl *r;

	if (np_rtnl_open(&r, err))
		return;
	np_link_veth(r, &v);
	(void)np_rtnl_commit(r, err);
	np_rtnl_close(r);
}

void np_probe(struct np_probe *ret)
{
	EG_CLEANUP_FD int self = -1;
	struct np_world w = {.home = -1};
	struct np_ct *ct = NULL;
	int log;

	memset(ret, 0, sizeof(*ret));
	ret->tried = true;
	if (unshare(CLONE_NEWNET) < 0) {
		(void)eg_err_sys(
			&ret->netns, -errno,
			"no network namespace can be made (CONFIG_NET_NS and user.max_net_namespaces)");
		/* Anything tried now would be done to the host. */
		ret->nflog = ret->conntrack = ret->veth = ret->tun = ret->netns;
		return;
	}
	self = np_netns_self(&ret->netns);
	if (self < 0)
		return;
	w.home = self;
	log = np_nflog(&w, self, EG_NFLOG_GROUP, &ret->nflog);
	eg_close_p(&log);
	if (!np_ct_open(&ct, &ret->conntrack))
		np_ct_close(ct);
	probe_veth(self, &ret->veth);
	(void)np_link_tap("probe2", EG_IFINDEX_TAP, UINT32_MAX, UINT32_MAX,
			  &ret->tun);
}
