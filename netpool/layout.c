// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: the layout of what is there (see layout.h)
 *
 * The file is written after everything of another layout has gone: a crash in
 * between only clears away once more. Leases are known by the names of their
 * records alone; what is in them is main's.
 */
#include "netpool/layout.h"
#include "netpool/base/fault.h"
#include "netpool/base/log.h"
#include "netpool/base/util.h"
#include "netpool/purge.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#define LAYOUT_TEXT (EG_PATH + 96)

static void layout_text(char buf[LAYOUT_TEXT], const struct eg_conf *c)
{
	char pool[EG_ADDR_TEXT], link[EG_ADDR_TEXT];

	(void)snprintf(buf, LAYOUT_TEXT,
		       "prefix %s/%u link_prefix %s/%u slots_per_gateway %u netns %s\n",
		       eg_addr_format(c->prefix.addr, pool), c->prefix.len,
		       eg_addr_format(c->link_prefix.addr, link),
		       c->link_prefix.len, c->slots_per_gateway, c->netns);
}

/* "" when there is none. */
static int layout_read(int run, char buf[LAYOUT_TEXT], struct eg_err *err)
{
	EG_CLEANUP_FD int fd =
		openat(run, "layout", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	ssize_t n = fd < 0 && errno == ENOENT ? 0 :
		    fd < 0		      ? -1 :
						read(fd, buf, LAYOUT_TEXT - 1);

	if (n < 0)
		return eg_err_sys(err, -errno, "cannot read the layout");
	buf[n] = '\0';
	return 0;
}

static int layout_write(int run, const char *text, struct eg_err *err)
{
	EG_CLEANUP_FD int fd = -1;
	ssize_t n = (ssize_t)strlen(text);

	fd = EG_CALL("create the layout",
		     openat(run, ".layout.new", O_WRONLY | O_CREAT | O_TRUNC |
							O_CLOEXEC | O_NOFOLLOW,
			    0600));
	if (fd < 0 || write(fd, text, (size_t)n) != n ||
	    EG_CALL("rename the layout",
		    renameat(run, ".layout.new", run, "layout")) < 0)
		return eg_err_sys(err, errno ? -errno : -ENOSPC,
				  "cannot write the layout");
	return 0;
}

/* Records of leases of slots from @slots on, as "SLOT.GENERATION". */
static uint32_t leases_above(int run, uint32_t slots)
{
	int fd = openat(run, "leases", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;
	uint32_t n = 0;

	while (d && (e = readdir(d))) {
		unsigned long long generation;
		unsigned int slot;
		int used = 0;

		if (sscanf(e->d_name, "%u.%llu%n", &slot, &generation, &used) ==
			    2 &&
		    !e->d_name[used] && slot >= slots)
			n++;
	}
	if (d)
		(void)closedir(d);
	else
		eg_close_p(&fd);
	return n;
}

static int settle(const struct eg_conf *conf, int home, int run,
		  struct eg_err *err)
{
	char have[LAYOUT_TEXT], want[LAYOUT_TEXT];
	uint32_t n;
	bool same;
	int r = layout_read(run, have, err);

	if (r)
		return r;
	layout_text(want, conf);
	/* Leases without a layout are of a version that kept none. */
	same = !strcmp(have, want) || (!have[0] && leases_above(run, 0));
	n = leases_above(run, same ? conf->slots : 0);
	if (n && same)
		return eg_err_set(
			err, -EBUSY,
			"%u leases are of slots from %u on, which [pool] slots does not have any more; set the former number until they are released, or end them with egressd --purge",
			n, conf->slots);
	if (n)
		return eg_err_set(
			err, -EBUSY,
			"%u leases were made under other settings (%.*s); start with those until they are released, or end them with egressd --purge",
			n, (int)strcspn(have, "\n"), have);
	r = np_purge_above(conf, home, same ? conf->gateways : 0,
			   same ? conf->slots : 0, err);
	if (r || !strcmp(have, want))
		return r;
	if (have[0])
		eg_notice("the pool was laid out otherwise (%.*s); it is made anew",
			  (int)strcspn(have, "\n"), have);
	return layout_write(run, want, err);
}

int np_layout_settle(const struct eg_conf *conf, int home, struct eg_err *err)
{
	EG_CLEANUP_FD int run =
		open(conf->run, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (run < 0)
		return eg_err_sys(err, -errno, "cannot open %s", conf->run);
	return settle(conf, home, run, err);
}
