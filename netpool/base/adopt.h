/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: which namespaces of callers may be adopted, and by whom: the part
 * that is text. What a path leads to is asked of the kernel (netpool/adopt.h).
 *
 * A path is accepted in one form only, "/DIR/NAME[/NAME...]": absolute, of
 * printable ASCII without blanks, no empty component, no "." and no "..".
 * The directory must be one of [lease] adopt_from as it is written there,
 * so that nothing has to be resolved to compare the two.
 */
#ifndef EG_ADOPT_H
#define EG_ADOPT_H

#include "netpool/base/conf.h"
#include "netpool/base/err.h"

/* eg_adopt_may() - root, and who is listed in [api] adopt_uids */
bool eg_adopt_may(const struct eg_conf *conf, uint32_t uid);

/**
 * eg_adopt_text() - is it of the accepted form?
 * @path:	need not be terminated within EG_NETNS_PATH: refused then
 *
 * Return: 0 or -EINVAL.
 */
int eg_adopt_text(const char *path, struct eg_err *err);

/**
 * eg_adopt_path() - of the accepted form, and below adopt_from
 * @ret_dir:	index of the (longest) directory
 * @ret_rel:	the rest of @path, without a leading slash
 *
 * Return: 0 or -EINVAL.
 */
int eg_adopt_path(const struct eg_conf *conf, const char *path,
		  uint32_t *ret_dir, const char **ret_rel, struct eg_err *err);

/* eg_ifname_ok() - can a link be given this name? At most 15 octets, not lo. */
bool eg_ifname_ok(const char *name);

#endif
