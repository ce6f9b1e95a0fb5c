// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: what main.c lends to build and purge (see build.h)
 */
#include "netpool/build.h"

struct np_build_hooks np_build_hooks;
