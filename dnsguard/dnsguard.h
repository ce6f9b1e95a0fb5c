/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: the dns role: wires sockets, siblings and the guard together.
 */
#ifndef DG_DNSGUARD_H
#define DG_DNSGUARD_H

#include "netpool/base/role.h"

extern const struct eg_role_ops dg_role_ops;

#endif
