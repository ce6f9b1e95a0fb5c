// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: the always-deny list (see denylist.h)
 */
#include "netpool/denylist.h"
#include "netpool/base/ini.h"
#include "netpool/base/util.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#define LINE 512

static const char *const class_names[] = {
	[EG_DENY_METADATA] = "metadata",
	[EG_DENY_PRIVATE] = "private",
	[EG_DENY_RESERVED] = "reserved",
};
_Static_assert(EG_ARRAY_SIZE(class_names) == EG_DENY_CLASS_COUNT, "classes");

/* The same entries as conf/always-deny, which says why; a test compares. */
static const char builtin[] =
	"169.254.169.254 metadata\n"
	"169.254.170.2 metadata\n"
	"169.254.170.23 metadata\n"
	"100.100.100.200 metadata\n"
	"192.0.0.192 metadata\n"
	"168.63.129.16 metadata\n"
	"fd00:ec2::254 metadata\n"
	"fd00:ec2::23 metadata\n"
	"metadata.google.internal metadata\n"
	"metadata.goog metadata\n"
	"metadata metadata\n"
	"instance-data metadata\n"
	"instance-data.ec2.internal metadata\n"
	"metadata.tencentyun.com metadata\n"
	"metadata.platformequinix.com metadata\n"
	"0.0.0.0/8 reserved\n"
	"127.0.0.0/8 reserved\n"
	"169.254.0.0/16 reserved\n"
	"192.0.0.0/24 reserved\n"
	"192.88.99.0/24 reserved\n"
	"198.18.0.0/15 reserved\n"
	"224.0.0.0/4 reserved\n"
	"240.0.0.0/4 reserved\n"
	"10.0.0.0/8 private\n"
	"100.64.0.0/10 private\n"
	"172.16.0.0/12 private\n"
	"192.168.0.0/16 private\n";

static bool is_v6(const char *text)
{
	char addr[64];
	struct in6_addr a;
	size_t n = strcspn(text, "/");

	if (n >= sizeof(addr))
		return false;
	memcpy(addr, text, n);
	addr[n] = '\0';
	return inet_pton(AF_INET6, addr, &a) == 1;
}

static bool is_v4(const char *text)
{
	return text[strspn(text, "0123456789./")] == '\0';
}

static int entry_add(struct eg_conf *c, const char *what, uint8_t class,
		     struct eg_err *err)
{
	if (is_v6(what))
		return 0;
	if (is_v4(what)) {
		if (c->denies >= EG_CONF_DENY_ADDRS)
			return eg_err_set(err, -E2BIG,
					  "more than %d addresses",
					  EG_CONF_DENY_ADDRS);
		c->deny[c->denies].class = class;
		return eg_prefix_parse(what, &c->deny[c->denies++].dst, err);
	}
	if (c->deny_names >= EG_CONF_DENY_NAMES)
		return eg_err_set(err, -E2BIG, "more than %d names",
				  EG_CONF_DENY_NAMES);
	c->deny_name[c->deny_names].class = class;
	return eg_name_parse(what, &c->deny_name[c->deny_names++].name, err);
}

static int line_parse(struct eg_conf *c, const char *line, struct eg_err *err)
{
	char what[300] = "", class[32] = "", rest[4] = "";
	int n = sscanf(line, "%299s %31s %3s", what, class, rest);

	if (n <= 0 || what[0] == '#' || what[0] == ';')
		return 0;
	if (n == 3 && rest[0] != '#' && rest[0] != ';')
		n = 0;
	for (uint8_t k = 0; n >= 2 && k < EG_DENY_CLASS_COUNT; k++)
		if (!strcmp(class, class_names[k]))
			return entry_add(c, what, k, err);
	return eg_err_set(err, -EINVAL,
			  "'%.80s': ADDRESS, PREFIX or NAME and one of metadata, private, reserved is accepted",
			  line);
}

int np_denylist_parse(const char *text, size_t len, const char *file,
		      struct eg_conf *c, struct eg_err *err)
{
	const char *p = text, *end = text + len;
	unsigned int no = 0;
	char line[LINE];

	c->denies = c->deny_names = 0;
	while (p < end) {
		const char *nl = memchr(p, '\n', (size_t)(end - p));
		size_t n = nl ? (size_t)(nl - p) : (size_t)(end - p);
		int r;

		no++;
		if (n >= sizeof(line) || memchr(p, 0, n))
			return eg_err_set(err, -EINVAL,
					  "%s:%u: a line of more than %d bytes, or one with a NUL",
					  file, no, LINE - 1);
		memcpy(line, p, n);
		line[n] = '\0';
		r = line_parse(c, line, err);
		if (r)
			return eg_err_wrap(err, "%s:%u", file, no);
		p += n + (nl ? 1 : 0);
	}
	return 0;
}

int np_denylist_load(const char *path, struct eg_conf *c, struct eg_err *err)
{
	EG_CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
	EG_CLEANUP_FREE char *text = NULL;
	size_t len;
	int r;

	if (fd < 0)
		return eg_err_sys(err, -errno, "always_deny_file %s", path);
	r = eg_ini_load(fd, path, EG_INI_FILE, &text, &len, err);
	return r ? r : np_denylist_parse(text, len, path, c, err);
}

int np_denylist_builtin(struct eg_conf *c, struct eg_err *err)
{
	return np_denylist_parse(builtin, sizeof(builtin) - 1, "built-in list",
				 c, err);
}
