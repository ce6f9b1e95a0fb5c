/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: the enforcer main uses: rules/ behind the ops of state.h. This
 * file and main_role.c are part of the composition root: the only ones of
 * netpool that may see the packet filter.
 */
#ifndef NP_MAIN_ENFORCE_H
#define NP_MAIN_ENFORCE_H

#include "netpool/state.h"

extern const struct np_enforcer np_enforcer_kernel;

#endif
