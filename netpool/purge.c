// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: purge (see purge.h)
 *
 * Gateways first: deleting their links cuts every slot at once, also one
 * whose namespace some process still holds. Then names, then the host.
 */
#include "netpool/purge.h"
#include "netpool/base/fault.h"
#include "netpool/base/log.h"
#include "netpool/base/plan.h"
#include "netpool/base/util.h"
#include "netpool/build.h"
#include "netpool/conntrack.h"
#include "netpool/gateway.h"
#include "netpool/host.h"
#include "netpool/link.h"
#include "netpool/netns.h"
#include "netpool/slot.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define PURGE_LINKS 32768 /* both kinds of link a namespace could hold */
#define PURGE_DEPTH 4	  /* of directories below run */
#define LOCK_FILE "lock"

/* The first error is the one reported. */
struct result {
	int code;
	struct eg_err err;
};

static void note(struct result *res, int code, const struct eg_err *err)
{
	if (code >= 0)
		return;
	if (res->code)
		eg_warning("%s", err->text);
	else
		res->err = *err;
	if (!res->code)
		res->code = code;
}

static bool gateway_parse(const char *name, uint32_t *ret)
{
	char again[EG_IFNAME];
	unsigned int n;

	if (sscanf(name, "eg-gw-%3u", &n) != 1 || n >= EG_GATEWAYS_MAX ||
	    strcmp(eg_plan_gw_name(again, n), name))
		return false;
	*ret = n;
	return true;
}

/* What is to go: numbers from these on. */
struct above {
	uint32_t gateways, slots;
};

struct links {
	const struct above *host; /* NULL: in a gateway */
	size_t n;
	uint32_t index[PURGE_LINKS];
};

/* In a gateway all links of the group; in the host only ends of gateways. */
static void see_link(void *arg, const struct np_link *l)
{
	struct links *s = arg;
	uint32_t number;

	if (!l)
		s->n = 0;
	else if ((l->group == EG_LINK_GROUP || l->group == EG_ADOPT_GROUP ||
		  l->group == NP_GROUP_SCRAP) &&
		 !strcmp(l->kind, "veth") && s->n < PURGE_LINKS &&
		 (!s->host || (gateway_parse(l->name, &number) &&
			       number >= s->host->gateways)))
		s->index[s->n++] = l->index;
}

static int links_delete(const struct above *host, struct eg_err *err)
{
	EG_CLEANUP_FREE struct links *s = malloc(sizeof(*s));
	struct np_rtnl *r;
	int e;

	if (!s)
		return eg_err_set(err, -ENOMEM, "out of memory");
	s->host = host;
	s->n = 0;
	e = np_rtnl_open(&r, err);
	if (e)
		/* cppcheck-suppress memleak ; scope cleanup frees it */
		return e;
	e = np_link_list(r, see_link, s, err);
	if (!e && s->n)
		e = np_link_delete_many(r, s->index, s->n, err);
	np_rtnl_close(r);
	return e;
}

static int gateway_inside(void *arg, struct eg_err *err)
{
	(void)arg;
	return links_delete(NULL, err);
}

static int gateway_purge(const struct eg_conf *conf, int home, const char *name,
			 struct eg_err *err)
{
	EG_CLEANUP_FD int fd = np_netns_open(conf->netns, name, err);

	if (fd == -EBADF || fd == -ENOENT)
		return 0; /* a dead pin: only the file is left */
	return fd < 0 ? fd : np_netns_run(home, fd, gateway_inside, NULL, err);
}

static bool name_is_above(const char *name, const struct above *a)
{
	uint64_t generation;
	uint32_t number;

	return gateway_parse(name, &number) ? number >= a->gateways :
	       np_slot_parse(name, &number, &generation) && number >= a->slots;
}

/* @cut: only the links of gateways; else: remove the names. */
static void names_purge(const struct eg_conf *conf, int home, bool cut,
			const struct above *a, struct result *res)
{
	DIR *d = opendir(conf->netns);
	struct dirent *e;
	uint32_t number;
	struct eg_err err;

	if (!d)
		return; /* never made */
	while ((e = readdir(d))) {
		if (!name_is_above(e->d_name, a))
			continue;
		if (!cut)
			note(res, np_netns_unname(conf->netns, e->d_name, &err),
			     &err);
		else if (gateway_parse(e->d_name, &number))
			note(res, gateway_purge(conf, home, e->d_name, &err),
			     &err);
	}
	(void)closedir(d);
}

static void above_purge(const struct eg_conf *conf, int home,
			const struct above *a, struct result *res)
{
	struct eg_err why;

	names_purge(conf, home, true, a, res);
	note(res, links_delete(a, &why), &why);
	names_purge(conf, home, false, a, res);
}

int np_purge_above(const struct eg_conf *conf, int home, uint32_t gateways,
		   uint32_t slots, struct eg_err *err)
{
	const struct above a = {gateways, slots};
	struct result res = {0};

	above_purge(conf, home, &a, &res);
	if (res.code && err)
		*err = res.err;
	return res.code;
}

static int flows_purge(const struct eg_conf *conf, struct eg_err *err)
{
	struct np_ct *ct;
	int r = np_ct_open(&ct, err);

	if (r)
		return r;
	r = np_ct_delete_range(ct, conf->prefix, NULL, err);
	np_ct_close(ct);
	return r;
}

static int table_purge(const struct eg_conf *conf, int home, struct eg_err *err)
{
	const struct np_world w = {.conf = conf, .home = home};
	EG_CLEANUP_FD int fd = -1;

	if (!np_build_hooks.host_purge)
		return eg_err_set(err, -EOPNOTSUPP,
				  "this build cannot remove the host's table");
	fd = np_nfnetlink(&w, home, err);
	return fd < 0 ? fd : np_build_hooks.host_purge(fd, conf, err);
}

/* Remove what is in a directory, staying on its device. */
static int empty_dir(int fd, dev_t dev, int depth, struct eg_err *err)
{
	DIR *d = fdopendir(fd); /* takes fd */
	struct dirent *e;
	int r = 0;

	if (!d) {
		(void)close(fd);
		return eg_err_sys(err, -errno, "cannot read the run directory");
	}
	while (!r && (e = readdir(d))) {
		struct stat st;
		int sub, flags = 0;

		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") ||
		    (!depth && !strcmp(e->d_name, LOCK_FILE)) ||
		    fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) ||
		    st.st_dev != dev)
			continue;
		if (S_ISDIR(st.st_mode) && depth < PURGE_DEPTH) {
			flags = AT_REMOVEDIR;
			sub = openat(dirfd(d), e->d_name,
				     O_RDONLY | O_DIRECTORY | O_CLOEXEC |
					     O_NOFOLLOW);
			if (sub >= 0)
				r = empty_dir(sub, dev, depth + 1, err);
		}
		if (!r &&
		    EG_CALL("empty the run directory",
			    unlinkat(dirfd(d), e->d_name, flags)) < 0 &&
		    errno != ENOENT)
			r = eg_err_sys(err, -errno,
				       "cannot remove %s from the run directory",
				       e->d_name);
	}
	(void)closedir(d);
	return r;
}

static int run_purge(const struct eg_conf *conf, struct eg_err *err)
{
	const char *slash = strchr(conf->run + 1, '/');
	struct stat st;
	int fd;

	/* A run directory such as "/run" or "/tmp" holds others' files. */
	if (conf->run[0] != '/' || !slash || !slash[1])
		return eg_err_set(
			err, -EINVAL,
			"will not empty the run directory '%s': it is not egressd's own; give one such as /run/egressd",
			conf->run);
	fd = open(conf->run, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 && errno == ENOENT)
		return 0;
	if (fd < 0 || fstat(fd, &st) < 0)
		return eg_err_sys(err, -errno, "cannot open %s", conf->run);
	return empty_dir(fd, st.st_dev, 0, err);
}

int np_purge(const struct eg_conf *conf, struct eg_err *err)
{
	const struct above all = {0, 0};
	struct result res = {0};
	struct eg_err why;
	EG_CLEANUP_FD int home = np_netns_self(err);

	if (home < 0)
		return home;
	above_purge(conf, home, &all, &res);
	note(&res, flows_purge(conf, &why), &why);
	note(&res, table_purge(conf, home, &why), &why);
	note(&res, np_host_restore(conf, &why), &why);
	note(&res, run_purge(conf, &why), &why);
	if (res.code && err)
		*err = res.err;
	return res.code;
}
