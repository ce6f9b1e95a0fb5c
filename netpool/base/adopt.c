// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: which namespaces of callers may be adopted (see adopt.h)
 */
#include "netpool/base/adopt.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

bool eg_adopt_may(const struct eg_conf *conf, uint32_t uid)
{
	for (uint32_t i = 0; i < conf->adopt_uids; i++)
		if (conf->adopt_uid[i] == uid)
			return true;
	return !uid;
}

/* One component, up to a slash or the end; what is wrong with it, or NULL. */
static const char *component_bad(const char *s, size_t n)
{
	if (!n)
		return "has an empty component";
	if (s[0] == '.' && (n == 1 || (n == 2 && s[1] == '.')))
		return "has the component '.' or '..'";
	for (size_t i = 0; i < n; i++)
		if (s[i] <= ' ' || s[i] > '~')
			return "has blanks or characters that are not ASCII";
	return NULL;
}

static const char *text_bad(const char *path)
{
	const char *why = NULL;

	if (strnlen(path, EG_NETNS_PATH) == EG_NETNS_PATH)
		return "is longer than 127 octets";
	if (path[0] != '/')
		return "is not absolute";
	while (!why && *path) {
		size_t n = strcspn(++path, "/");

		why = component_bad(path, n);
		path += n;
	}
	return why;
}

int eg_adopt_text(const char *path, struct eg_err *err)
{
	const char *why = text_bad(path);
	char shown[64];
	size_t n = 0;

	if (!why)
		return 0;
	for (; n < sizeof(shown) - 1 && path[n]; n++)
		shown[n] = path[n] < ' ' || path[n] > '~' ? '?' : path[n];
	shown[n] = '\0';
	return eg_err_set(
		err, -EINVAL,
		"guest.netns_path '%s' %s; an absolute path without '.', '..' and '//' is accepted",
		shown, why);
}

/* The part of @path below @dir, NULL when it is not below. */
static const char *below(const char *path, const char *dir)
{
	size_t n = strlen(dir);

	while (n && dir[n - 1] == '/')
		n--;
	if (strncmp(path, dir, n) || path[n] != '/')
		return NULL;
	return path + n + 1;
}

static void list_dirs(const struct eg_conf *conf, char *buf, size_t cap)
{
	size_t n = 0;

	(void)snprintf(buf, cap, "none is");
	for (uint32_t i = 0; i < conf->adopt_dirs && n < cap; i++)
		n += (size_t)snprintf(buf + n, cap - n, "%s%s", i ? ", " : "",
				      conf->adopt_from[i]);
}

int eg_adopt_path(const struct eg_conf *conf, const char *path,
		  uint32_t *ret_dir, const char **ret_rel, struct eg_err *err)
{
	const char *rel = NULL;
	char dirs[128];
	int r = eg_adopt_text(path, err);

	if (r)
		return r;
	for (uint32_t i = 0; i < conf->adopt_dirs; i++) {
		const char *rest = below(path, conf->adopt_from[i]);

		if (rest && (!rel || rest > rel)) {
			rel = rest;
			*ret_dir = i;
		}
	}
	if (rel) {
		*ret_rel = rel;
		return 0;
	}
	list_dirs(conf, dirs, sizeof(dirs));
	return eg_err_set(
		err, -EINVAL,
		"guest.netns_path '%s' is not below a directory of [lease] adopt_from, which are %s",
		path, dirs);
}

bool eg_ifname_ok(const char *name)
{
	size_t n = strnlen(name, EG_IFNAME);

	if (!n || n == EG_IFNAME || !strcmp(name, "lo"))
		return false;
	for (size_t i = 0; i < n; i++) {
		char c = name[i];
		bool alnum = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
			     (c >= 'A' && c <= 'Z');

		if (!alnum && (!i || !strchr("._-", c)))
			return false;
	}
	return true;
}
