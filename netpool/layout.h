/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: does what is there belong to this configuration?
 *
 * Everything of a slot is arithmetic on its number and a few settings: the
 * layout. It is kept in the file "layout" below [paths] run, because namespaces
 * and links that were made under another one must not be taken for slots of
 * this one.
 */
#ifndef NP_LAYOUT_H
#define NP_LAYOUT_H

#include "netpool/base/conf.h"
#include "netpool/base/err.h"

/**
 * np_layout_settle() - clear away what a run with other settings left
 *
 * Under the same layout that is gateways and slots beyond the numbers there
 * are now; under another one, or where none is known, all of them. A lease
 * that this would end is a reason not to start.
 *
 * Return: 0; -EBUSY: there is a lease, and the sentence says what to do.
 */
int np_layout_settle(const struct eg_conf *conf, int home, struct eg_err *err);

#endif
