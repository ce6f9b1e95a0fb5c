/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd tests: what the tests of audit share: a directory of their own, a
 * configuration, network namespaces, and reading evidence back.
 */
#ifndef TESTS_AU_WORLD_H
#define TESTS_AU_WORLD_H

#include "netpool/base/conf.h"

#include <jansson.h>
#include <stdbool.h>

/* Configuration of 512 slots in two gateways; identity made up. */
struct eg_conf *au_world_conf(void);

/* A fresh directory below /tmp: descriptor, and its path in @path. */
int au_world_dir(char path[64]);
void au_world_rmdir(const char *path);

/*
 * A network namespace of one's own, lo up; false when this process may not
 * (the caller skips by name).
 */
bool au_world_netns(void);

/* Run a command, all output to /dev/null; its exit status. */
int au_world_run(const char *cmd);

/* Each line of a file as JSON array; fails the test on anything else. */
json_t *au_world_lines(const char *dir, const char *file);

/*
 * Packets of a savefile, as libpcap reads them; fails on a truncated file.
 * The i-th packet's record header is at offset[i].
 */
size_t au_world_pcap(const char *dir, const char *file, uint64_t *offset,
		     uint32_t *caplen, size_t max);

#endif
