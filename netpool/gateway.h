/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: a gateway: the namespace that holds the far ends of its slots'
 * links, the table that decides for them, and the sockets of dns and audit.
 *
 * Made in this order, so that nothing passes before it may: namespace, its
 * sysctls (IPv6 off before the first link, or links cost quadratic time),
 * its name, one veth to the host with both ends down. The link comes up by
 * np_gateway_up(), which main asks for when the table is in force.
 */
#ifndef NP_GATEWAY_H
#define NP_GATEWAY_H

#include "netpool/base/conf.h"
#include "netpool/base/err.h"
#include "netpool/conntrack.h"
#include "netpool/rtnl.h"

#include <stdbool.h>

struct np_gateway {
	uint32_t number;
	uint32_t mtu;
	int ns;		      /* -1: not there */
	bool adopted;	      /* it was there already */
	struct np_rtnl *rtnl; /* inside; NULL: not opened */
	struct np_ct *ct;     /* inside */
	int monitor;	      /* RTMGRP_LINK, inside */
	unsigned int have;    /* 1 << EG_FD_*: sockets the launcher holds */
};

/* Where the process works from. */
struct np_world {
	const struct eg_conf *conf;
	int home;	      /* namespace of the host */
	struct np_rtnl *rtnl; /* in the host */
};

void np_gateway_init(struct np_gateway *gw, uint32_t number);

/**
 * np_gateway_open() - adopt the gateway or make it
 *
 * gw->ns, when set, is adopted; else a namespace under the gateway's name;
 * else one is made. Settings are asserted in either case and a missing link
 * is made again. Idempotent.
 */
int np_gateway_open(const struct np_world *w, struct np_gateway *gw,
		    uint32_t mtu, struct eg_err *err);

/* np_gateway_up() - both ends up, host route to the slots, default route. */
int np_gateway_up(const struct np_world *w, struct np_gateway *gw,
		  struct eg_err *err);

/* np_gateway_close() - lets go of what the process holds, no more. */
void np_gateway_close(struct np_gateway *gw);

/* Sockets opened inside; the caller owns and passes them on. */
struct np_gateway_sockets {
	int nflog, packet, dns_udp, dns_tcp;
};

/**
 * np_gateway_sockets() - all of them but those it has, or none
 *
 * Return: 0; -EPERM when another process still reads the NFLOG group (try
 * again: it may be exiting).
 */
int np_gateway_sockets(const struct np_world *w, const struct np_gateway *gw,
		       struct np_gateway_sockets *ret, struct eg_err *err);
void np_gateway_sockets_close(struct np_gateway_sockets *s);

/* np_nfnetlink() - a bound nfnetlink socket inside @ns; descriptor. */
int np_nfnetlink(const struct np_world *w, int ns, struct eg_err *err);

/* np_nflog() - a socket bound to an NFLOG group inside @ns; descriptor. */
int np_nflog(const struct np_world *w, int ns, uint16_t group,
	     struct eg_err *err);

/**
 * np_gateway_ranges() - the prefixes that exactly cover a gateway's slots
 *
 * Return: how many, at most 32.
 */
size_t np_gateway_ranges(const struct eg_conf *conf, uint32_t number,
			 struct eg_prefix ret[32]);

#endif
