// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: the always-deny file: what no policy can allow
 *
 * One entry a line: `ADDRESS|PREFIX|NAME CLASS # comment`. A name stands for
 * itself and everything below it. The longest prefix that holds an address
 * gives its class. IPv6 entries are checked and kept aside: gateways carry
 * no IPv6.
 */
#include "netpool/base/ini.h"
#include "netpool/base/log.h"
#include "netpool/base/util.h"
#include "netpool/conf_key.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#define DENY_TEXT (256 * 1024) /* 1,280 entries with long comments */
#define DENY_LINE 512
#define DENY_WORD 256
#define QUOTE 96

static const char *const class_names[] = {
	[EG_DENY_METADATA] = "metadata",
	[EG_DENY_PRIVATE] = "private",
	[EG_DENY_RESERVED] = "reserved",
};
_Static_assert(EG_ARRAY_SIZE(class_names) == EG_DENY_CLASS_COUNT, "classes");

/* The entries of conf/always-deny; a test holds the two together. */
static const char builtin[] = "169.254.169.254 metadata\n"
			      "169.254.170.2 metadata\n"
			      "169.254.170.23 metadata\n"
			      "100.100.100.200 metadata\n"
			      "192.0.0.192 metadata\n"
			      "168.63.129.16 metadata\n"
			      "fd00:ec2::254 metadata\n"
			      "fd00:ec2::23 metadata\n"
			      "fd20:ce::254 metadata\n"
			      "fd00:42::42 metadata\n"
			      "metadata metadata\n"
			      "metadata.google.internal metadata\n"
			      "metadata.goog metadata\n"
			      "instance-data metadata\n"
			      "instance-data.ec2.internal metadata\n"
			      "metadata.azure.internal metadata\n"
			      "metadata.azure.com metadata\n"
			      "metadata.packet.net metadata\n"
			      "metadata.platformequinix.com metadata\n"
			      "metadata.tencentyun.com metadata\n"
			      "metadata.oraclecloud.com metadata\n"
			      "rancher-metadata metadata\n"
			      "0.0.0.0/8 reserved\n"
			      "127.0.0.0/8 reserved\n"
			      "169.254.0.0/16 reserved\n"
			      "192.0.0.0/24 reserved\n"
			      "192.88.99.0/24 reserved\n"
			      "198.18.0.0/15 reserved\n"
			      "224.0.0.0/4 reserved\n"
			      "240.0.0.0/4 reserved\n"
			      "localhost reserved\n"
			      "10.0.0.0/8 private\n"
			      "172.16.0.0/12 private\n"
			      "192.168.0.0/16 private\n"
			      "100.64.0.0/10 private\n";

const char *np_conf_deny_builtin(void)
{
	return builtin;
}

/* Longest prefix first, then by address. */
static int insert_prefix(struct eg_conf *conf, struct eg_prefix p,
			 uint8_t class, struct eg_err *err)
{
	struct eg_conf_deny *d = conf->deny;
	char text[EG_PREFIX_TEXT];
	uint32_t i = 0;

	while (i < conf->denies &&
	       (d[i].dst.len > p.len ||
		(d[i].dst.len == p.len && d[i].dst.addr < p.addr)))
		i++;
	if (i < conf->denies && d[i].dst.len == p.len && d[i].dst.addr == p.addr) {
		if (d[i].class == class)
			return 0;
		return eg_err_set(err, -EINVAL,
				  "%s is %s here and %s in an earlier line",
				  eg_prefix_format(p, text), class_names[class],
				  class_names[d[i].class]);
	}
	if (conf->denies == EG_CONF_DENY_ADDRS)
		return eg_err_set(
			err, -E2BIG,
			"more than %d prefixes; join them into larger ones",
			EG_CONF_DENY_ADDRS);
	memmove(&d[i + 1], &d[i], (conf->denies - i) * sizeof(*d));
	memset(&d[i], 0, sizeof(*d));
	d[i].dst.addr = p.addr;
	d[i].dst.len = p.len;
	d[i].class = class;
	conf->denies++;
	return 0;
}

static int insert_name(struct eg_conf *conf, const struct eg_name *name,
		       uint8_t class, struct eg_err *err)
{
	struct eg_conf_deny_name *d = &conf->deny_name[conf->deny_names];

	if (conf->deny_names == EG_CONF_DENY_NAMES)
		return eg_err_set(err, -E2BIG, "more than %d names",
				  EG_CONF_DENY_NAMES);
	d->name.len = name->len;
	memcpy(d->name.wire, name->wire, sizeof(d->name.wire));
	d->class = class;
	conf->deny_names++;
	return 0;
}

/* Is this well-formed IPv6, with or without a length? */
static bool ipv6(const char *text)
{
	char addr[INET6_ADDRSTRLEN] = "";
	size_t n = strcspn(text, "/"), m;
	struct in6_addr in;

	if (n >= sizeof(addr))
		return false;
	memcpy(addr, text, n);
	if (inet_pton(AF_INET6, addr, &in) != 1)
		return false;
	if (!text[n])
		return true;
	m = strspn(text + n + 1, "0123456789");
	return m && m <= 3 && !text[n + 1 + m] &&
	       strtoul(text + n + 1, NULL, 10) <= 128;
}

static int parse_entry(struct eg_conf *conf, const char *dst, const char *class,
		       struct eg_err *err)
{
	struct eg_prefix p = {0};
	struct eg_name name;
	char q[QUOTE];
	uint8_t cl = 0;
	int rc;

	while (cl < EG_DENY_CLASS_COUNT && strcmp(class, class_names[cl]))
		cl++;
	if (cl == EG_DENY_CLASS_COUNT)
		return eg_err_set(
			err, -EINVAL,
			"'%s' is not a class; classes are metadata, private and reserved",
			eg_escape(q, sizeof(q), class, strlen(class)));
	if (strchr(dst, ':')) {
		if (ipv6(dst))
			return 0;
		return eg_err_set(err, -EINVAL, "'%s' is not an IPv6 prefix",
				  eg_escape(q, sizeof(q), dst, strlen(dst)));
	}
	if (!dst[strspn(dst, "0123456789./")]) {
		rc = eg_prefix_parse(dst, &p, err);
		return rc ? rc : insert_prefix(conf, p, cl, err);
	}
	rc = eg_name_parse(dst, &name, err);
	return rc ? rc : insert_name(conf, &name, cl, err);
}

/* One line without its end; blank ones and comments are nothing. */
static int parse_line(struct eg_conf *conf, const char *s, size_t n,
		      struct eg_err *err)
{
	char word[3][DENY_WORD];
	int words = 0;

	if (n > DENY_LINE || memchr(s, '\0', n))
		return eg_err_set(err, -EINVAL,
				  "the line is longer than %d bytes or holds a NUL",
				  DENY_LINE);
	for (size_t i = 0; i < n;) {
		size_t len = 0;

		if (s[i] == ' ' || s[i] == '\t' || s[i] == '\r') {
			i++;
			continue;
		}
		if (s[i] == '#' || s[i] == ';')
			break;
		while (i + len < n && !strchr(" \t\r", s[i + len]))
			len++;
		if (words == 3 || len >= DENY_WORD)
			return eg_err_set(
				err, -EINVAL,
				"write ADDRESS|PREFIX|NAME CLASS # comment");
		memcpy(word[words], s + i, len);
		word[words++][len] = '\0';
		i += len;
	}
	if (!words)
		return 0;
	if (words != 2)
		return eg_err_set(err, -EINVAL,
				  "write ADDRESS|PREFIX|NAME CLASS # comment");
	return parse_entry(conf, word[0], word[1], err);
}

int np_conf_deny_parse(struct eg_conf *conf, const char *file, const char *text,
		       size_t len, struct eg_err *err)
{
	uint32_t line = 0;

	conf->denies = conf->deny_names = 0;
	for (size_t at = 0; at < len;) {
		const char *nl = memchr(text + at, '\n', len - at);
		size_t n = nl ? (size_t)(nl - text) - at : len - at;
		int rc;

		line++;
		rc = parse_line(conf, text + at, n, err);
		if (rc) {
			(void)eg_ini_at(err, file, line, 1);
			return rc;
		}
		at += n + 1;
	}
	return 0;
}

int np_conf_deny_load(struct np_conf_ctx *c, struct eg_err *err)
{
	EG_CLEANUP_FREE char *text = NULL;
	EG_CLEANUP_FD int fd = -1;
	struct eg_conf *conf = c->conf;
	size_t len;
	int rc;

	if (!c->deny_builtin)
		fd = open(conf->deny_file, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (fd < 0 && !c->deny_builtin && (c->deny_named || errno != ENOENT))
		return np_conf_at_key(
			c,
			eg_err_sys(err, -errno,
				   "[rules] always_deny_file: cannot open '%s'",
				   conf->deny_file),
			"rules", "always_deny_file", NULL, err);
	if (fd < 0) {
		memset(conf->deny_file, 0, sizeof(conf->deny_file));
		return np_conf_deny_parse(conf, "builtin", builtin,
					  sizeof(builtin) - 1, err);
	}
	rc = eg_ini_read(conf->deny_file, fd, DENY_TEXT, &text, &len, err);
	if (rc)
		return rc;
	return np_conf_deny_parse(conf, conf->deny_file, text, len, err);
}
