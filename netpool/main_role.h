/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: role main, wired: state, packet filter, messages.
 */
#ifndef NP_MAIN_ROLE_H
#define NP_MAIN_ROLE_H

#include "netpool/base/role.h"

extern const struct eg_role_ops np_main_ops;

#endif
