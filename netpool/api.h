/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: the api role: HTTP/1.1 and JSON for local clients.
 */
#ifndef NP_API_H
#define NP_API_H

#include "netpool/base/role.h"

extern const struct eg_role_ops np_api_ops;

#endif
