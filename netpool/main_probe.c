// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: links and sockets by netpool, the table by rules (main_probe.h)
 */
#include "netpool/main_probe.h"
#include "netpool/base/util.h"
#include "rules/kernel.h"

#include <errno.h>
#include <linux/netlink.h>
#include <sys/socket.h>

void np_main_probe(const struct eg_conf *conf, struct np_probe *ret)
{
	EG_CLEANUP_FD int fd = -1;

	np_probe(ret);
	if (ret->netns.code)
		return;
	fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER);
	if (fd < 0)
		(void)eg_err_sys(
			&ret->nft, -errno,
			"no netfilter netlink socket (CONFIG_NETFILTER_NETLINK)");
	else
		(void)rl_probe(fd, conf, &ret->nft);
}
