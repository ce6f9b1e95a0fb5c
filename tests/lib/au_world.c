// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd tests: what the tests of audit share (see au_world.h)
 */
#include "tests/lib/au_world.h"

#include <fcntl.h>
#include <pcap/pcap.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

struct eg_conf *au_world_conf(void)
{
	struct eg_conf *c = calloc(1, sizeof(*c));

	assert_non_null(c);
	c->magic = EG_CONF_MAGIC;
	c->size = sizeof(*c);
	c->prefix = (struct eg_prefix){0x0ac80000, 16}; /* 10.200/16 */
	c->link_prefix = (struct eg_prefix){0x0ac90000, 24};
	c->slots = 512;
	c->slots_per_gateway = 256;
	c->gateways = 2;
	c->snaplen = 128;
	c->read_gid = UINT32_MAX;
	memset(c->host_id, 0xa1, sizeof(c->host_id));
	memset(c->boot_id, 0xb2, sizeof(c->boot_id));
	return c;
}

int au_world_dir(char path[64])
{
	int fd;

	(void)snprintf(path, 64, "/tmp/egressd-audit-XXXXXX");
	assert_non_null(mkdtemp(path));
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(fd >= 0);
	return fd;
}

void au_world_rmdir(const char *path)
{
	char cmd[128];

	assert_int_equal(strncmp(path, "/tmp/egressd-audit-", 19), 0);
	(void)snprintf(cmd, sizeof(cmd), "rm -rf %s", path);
	assert_int_equal(au_world_run(cmd), 0);
}

int au_world_run(const char *cmd)
{
	char line[4096];

	(void)snprintf(line, sizeof(line), "{ %s; } >/dev/null 2>&1", cmd);
	return system(line);
}

bool au_world_netns(void)
{
	return !unshare(CLONE_NEWNET) && !au_world_run("ip link set lo up");
}

json_t *au_world_lines(const char *dir, const char *file)
{
	json_t *all = json_array();
	char path[256], line[8192];
	FILE *f;

	(void)snprintf(path, sizeof(path), "%s/%s", dir, file);
	f = fopen(path, "re");
	if (!f)
		return all;
	while (fgets(line, sizeof(line), f)) {
		size_t len = strlen(line);
		json_t *j;

		assert_true(len <= 4096 && line[len - 1] == '\n');
		for (size_t i = 0; i < len - 1; i++)
			assert_true((unsigned char)line[i] >= 0x20 &&
				    line[i] != 0x7f);
		j = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
		assert_non_null(j);
		json_array_append_new(all, j);
	}
	(void)fclose(f);
	return all;
}

size_t au_world_pcap(const char *dir, const char *file, uint64_t *offset,
		     uint32_t *caplen, size_t max)
{
	char path[256], err[PCAP_ERRBUF_SIZE];
	struct pcap_pkthdr *h;
	const u_char *data;
	uint64_t at = 24;
	size_t n = 0;
	pcap_t *p;
	int r;

	(void)snprintf(path, sizeof(path), "%s/%s", dir, file);
	p = pcap_open_offline_with_tstamp_precision(
		path, PCAP_TSTAMP_PRECISION_NANO, err);
	assert_non_null(p);
	assert_int_equal(pcap_datalink(p), DLT_EN10MB);
	while ((r = pcap_next_ex(p, &h, &data)) == 1) {
		if (n < max) {
			offset[n] = at;
			caplen[n] = h->caplen;
		}
		n++;
		at += 16 + h->caplen;
	}
	assert_int_equal(r, PCAP_ERROR_BREAK); /* end, not "truncated" */
	pcap_close(p);
	return n;
}
