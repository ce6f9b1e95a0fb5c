// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: can this kernel do what a gateway's table needs?
 *
 * Asked by doing it: the whole table goes into a scratch namespace and away
 * again. What the kernel cannot do it names (an expression, an attribute),
 * and the transport turns that into the option to build it with.
 */
#include "rules/gw.h"

#include "netpool/base/util.h"

#include <netinet/in.h> /* before linux/netfilter.h */

#include <errno.h>
#include <linux/netfilter.h>

int rl_probe(int fd, const struct eg_conf *conf, struct eg_err *err)
{
	struct rl_gw gw = {.conf = conf, .count = eg_plan_count(conf, 0)};
	int rc = rl_nl_open(&gw.nl, fd, false, NFPROTO_IPV4, EG_TABLE, err);

	if (rc)
		return rc;
	rc = rl_space_init(&gw.space, conf, NULL, 0);
	if (rc)
		eg_err_set(err, rc, "out of memory for a probe");
	if (!rc) {
		rl_begin(gw.nl);
		rl_gwtable_put(&gw);
		rc = rl_commit(gw.nl, "probing this kernel's nftables", err);
	}
	if (!rc) {
		rl_begin(gw.nl);
		rl_table_gone(gw.nl);
		rc = rl_commit(gw.nl, "removing the probe's table", err);
	}
	rl_space_free(&gw.space);
	rl_nl_close(gw.nl);
	return rc;
}
