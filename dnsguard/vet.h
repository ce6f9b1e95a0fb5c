/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: may this address be in an answer?
 *
 * Applied to every address of every answer before a pin is asked for; main
 * applies its own table again, since this role parses hostile octets. A
 * name of the policy may lead to a private address only when its entry has a
 * private= prefix with it and the host's permit_private has it too; metadata
 * and reserved addresses are for nobody.
 */
#ifndef DG_VET_H
#define DG_VET_H

#include "netpool/base/conf.h"
#include "netpool/base/reason.h"

#include <stdint.h>

/**
 * dg_vet_addr() - classify an IPv4 address of an answer
 * @private:	the entry's private= prefixes
 *
 * Return: EG_REASON_NONE when it may be shown, else why not: METADATA,
 * RESERVED, PRIVATE, NEIGHBOUR (the pool), HOST (link prefix, upstreams).
 */
enum eg_reason dg_vet_addr(const struct eg_conf *conf, uint32_t addr,
			   const struct eg_prefix *private, size_t nprivate);

/**
 * dg_vet_addr6() - classify an IPv6 address of an answer
 * @a:	16 octets, network order
 *
 * Only global unicast (2000::/3) passes, without its special blocks and
 * without any form that has an IPv4 address inside (mapped, compatible,
 * NAT64, 6to4, Teredo, ISATAP): even around a public address such a form
 * would go around the IPv4 pins. METADATA is told apart, also embedded.
 */
enum eg_reason dg_vet_addr6(const struct eg_conf *conf, const uint8_t a[16]);

#endif
