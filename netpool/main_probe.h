/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: the probe of the kernel that start and `egressctl doctor` share.
 */
#ifndef NP_MAIN_PROBE_H
#define NP_MAIN_PROBE_H

#include "netpool/preflight.h"

/**
 * np_main_probe() - np_probe(), and a gateway's whole table in its namespace
 *
 * For np_launch_probe(): the caller is a child that ends afterwards.
 */
void np_main_probe(const struct eg_conf *conf, struct np_probe *ret);

#endif
