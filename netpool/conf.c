// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: egressd.conf: the table of keys, reading and printing by it
 * (see conf.h)
 *
 * A new key is one line of keys[], one field of struct eg_conf, and its
 * paragraph in conf/egressd.conf; a test compares the three.
 */
#include "netpool/conf.h"
#include "netpool/base/ini.h"
#include "netpool/base/log.h"
#include "netpool/base/util.h"
#include "netpool/base/value.h"
#include "netpool/conf_key.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#define DAY 86400U
#define YEAR (365 * DAY)

static const char *const words_names[] = {"leased", "none", NULL};
static const char *const words_rcode[] = {"nxdomain", "refused", NULL};
static const char *const words_deny[] = {"reject", "drop", NULL};

#define KEY(sec, key, default_, type, field_, ...)                             \
	{                                                                      \
		.section = (sec), .name = (key), .def = (default_),            \
		.parse = np_parse_##type, .print = np_print_##type,            \
		.off = offsetof(struct eg_conf, field_), __VA_ARGS__           \
	}

static const struct np_conf_key keys[] = {
	KEY("pool", "prefix", "10.200.0.0/16", prefix, prefix, ),
	KEY("pool", "slots", "16384", uint, slots, .min = 1, .max = EG_SLOTS_MAX),
	/* interface indexes of a gateway's slots, and its /22, end at 256 */
	KEY("pool", "slots_per_gateway", "256", uint, slots_per_gateway,
	    .min = 1, .max = 256),
	KEY("pool", "prefill", "auto", prefill, prefill, ),
	KEY("pool", "memory_budget", "25%", budget, memory_budget, ),
	KEY("pool", "armed", "256", uint, armed, .max = EG_SLOTS_MAX),
	KEY("pool", "netns_names", "leased", word, netns_names,
	    .words = words_names),

	KEY("uplink", "mode", "host", mode, magic, ),
	KEY("uplink", "masquerade", "yes", bool, masquerade, ),
	KEY("uplink", "link_prefix", "10.201.0.0/24", prefix, link_prefix, ),
	/* RFC 791: every host takes 576 octets */
	KEY("uplink", "mtu", "auto", mtu, mtu, .min = 576, .max = 65535),

	KEY("dns", "upstream", "system", upstream, upstream, ),
	KEY("dns", "min_ttl", "60", duration, min_ttl, .min = 1, .max = DAY),
	KEY("dns", "max_ttl", "3600", duration, max_ttl, .min = 1, .max = 7 * DAY),
	KEY("dns", "grace", "60", duration, grace, .max = 3600),
	KEY("dns", "deny_rcode", "nxdomain", word, deny_refused,
	    .words = words_rcode),
	KEY("dns", "rate", "200", uint, dns_rate, .min = 1, .max = 1000000),
	KEY("dns", "burst", "400", uint, dns_burst, .min = 1, .max = 1000000),

	KEY("rules", "deny", "reject", word, deny_drop, .words = words_deny),
	KEY("rules", "always_deny_file", "always-deny", deny_file, deny_file, ),
	KEY("rules", "permit_private", NULL, permit, permit_private,
	    .repeat = true),
	KEY("rules", "permit_host", NULL, permit, permit_host, .repeat = true),

	KEY("audit", "dir", "", path, audit_dir, ),
	/* headers of a TCP SYN with options are 74 octets of a frame */
	KEY("audit", "snaplen", "128", uint, snaplen, .min = 80, .max = 65535),
	KEY("audit", "max_lease_bytes", "", size, max_lease_bytes, ),
	KEY("audit", "max_total_bytes", "", size, max_total_bytes, ),
	KEY("audit", "keep_records", "400d", duration, keep_records_s,
	    .min = 60, .max = 50 * YEAR),
	KEY("audit", "keep_pcap", "30d", duration, keep_pcap_s, .min = 60,
	    .max = 50 * YEAR),

	KEY("lease", "default_ttl", "1h", duration, default_ttl_s, .min = 1,
	    .max = YEAR),
	KEY("lease", "max_ttl", "24h", duration, max_ttl_s, .min = 1, .max = YEAR),
	KEY("lease", "tombstone", "1h", duration, tombstone_s, .max = 30 * DAY),
	KEY("lease", "adopt_from", "/run/netns:/var/run/netns:/run/docker/netns",
	    adopt_from, adopt_from, ),

	KEY("api", "socket", "", path, api_socket, ),
	KEY("api", "group", "egressd", group, api_gid, ),
	KEY("api", "read_socket", "", path, read_socket, ),
	KEY("api", "read_group", "egressd-audit", group, read_gid, ),
	KEY("api", "admin_group", "", group, admin_gid, ),
	KEY("api", "adopt_uids", "", uids, adopt_uid, ),
	KEY("api", "require_fence", "no", bool, require_fence, ),

	KEY("metrics", "listen", "", listen, metrics_addr, ),

	KEY("roles", "api", "egressd-api", role, role_uid[EG_ROLE_API], ),
	KEY("roles", "dns", "egressd-dns", role, role_uid[EG_ROLE_DNS], ),
	KEY("roles", "audit", "egressd-audit", role, role_uid[EG_ROLE_AUDIT], ),

	KEY("paths", "run", "/run/egressd", path, run, ),
	KEY("paths", "state", "/var/lib/egressd", path, state, ),
	KEY("paths", "netns", "/run/netns", path, netns, ),
	KEY("paths", "policies", "/etc/egressd/policy.d", path, policies, ),
};
_Static_assert(EG_ARRAY_SIZE(keys) <= NP_CONF_KEYS, "room for every key");
_Static_assert(EG_ROLE_DNS == EG_ROLE_API + 1 && EG_ROLE_AUDIT == EG_ROLE_API + 2,
	       "fallback uids follow the roles' numbers");

static const char *const sections[] = {"pool",	"uplink", "dns", "rules",
				       "audit", "lease",  "api", "metrics",
				       "roles", "paths"};

size_t np_conf_key_at(const char *section, const char *name)
{
	size_t i = 0;

	while (i < EG_ARRAY_SIZE(keys) &&
	       (strcmp(keys[i].section, section) || strcmp(keys[i].name, name)))
		i++;
	return i < EG_ARRAY_SIZE(keys) ? i : 0;
}

/* "a, b, c" of the names that hold; for messages. */
static const char *key_list(const char *section, char *buf, size_t cap)
{
	size_t used = 0;

	buf[0] = '\0';
	for (size_t i = 0; i < EG_ARRAY_SIZE(keys); i++)
		if (!strcmp(keys[i].section, section) && used < cap)
			used += (size_t)snprintf(buf + used, cap - used, "%s%s",
						 used ? ", " : "", keys[i].name);
	return buf;
}

static int on_section(void *arg, const struct eg_ini_entry *e, struct eg_err *err)
{
	const char *near =
		eg_nearest(e->section, sections, EG_ARRAY_SIZE(sections));

	(void)arg;
	for (size_t i = 0; i < EG_ARRAY_SIZE(sections); i++)
		if (!strcmp(e->section, sections[i]))
			return 0;
	if (near)
		return eg_ini_err(err, -EINVAL, e->file, e->line, e->col,
				  "there is no section [%s]; did you mean [%s]?",
				  e->section, near);
	return eg_ini_err(
		err, -EINVAL, e->file, e->line, e->col,
		"there is no section [%s]; sections are pool, uplink, dns, rules, audit, lease, api, metrics, roles and paths",
		e->section);
}

/* The sentence for a key that is not in the table. */
static int unknown_key(const struct eg_ini_entry *e, struct eg_err *err)
{
	const char *names[EG_ARRAY_SIZE(keys)], *near;
	char list[220];
	size_t n = 0;

	for (size_t i = 0; i < EG_ARRAY_SIZE(keys); i++)
		if (!strcmp(keys[i].section, e->section))
			names[n++] = keys[i].name;
	near = eg_nearest(e->key, names, n);
	if (near)
		return eg_ini_err(err, -EINVAL, e->file, e->line, 1,
				  "[%s] has no key '%s'; did you mean '%s'?",
				  e->section, e->key, near);
	for (size_t i = 0; i < EG_ARRAY_SIZE(keys); i++)
		if (!strcmp(keys[i].name, e->key))
			return eg_ini_err(
				err, -EINVAL, e->file, e->line, 1,
				"[%s] has no key '%s'; it belongs in [%s]",
				e->section, e->key, keys[i].section);
	return eg_ini_err(err, -EINVAL, e->file, e->line, 1,
			  "[%s] has no key '%s'; its keys are %s", e->section,
			  e->key, key_list(e->section, list, sizeof(list)));
}

static int on_entry(void *arg, const struct eg_ini_entry *e, struct eg_err *err)
{
	struct np_conf_ctx *c = arg;
	size_t i = np_conf_key_at(e->section, e->key);
	int rc;

	if (strcmp(keys[i].section, e->section) || strcmp(keys[i].name, e->key))
		return unknown_key(e, err);
	if (c->line[i] && !keys[i].repeat)
		return eg_ini_err(
			err, -EINVAL, e->file, e->line, 1,
			"[%s] %s stands in line %u already; it takes one value",
			e->section, e->key, c->line[i]);
	c->line[i] = c->now_line = e->line;
	c->col[i] = e->col;
	rc = keys[i].parse(c, &keys[i], e->value, err);
	if (rc) {
		(void)eg_err_wrap(err, "[%s] %s", e->section, e->key);
		(void)eg_ini_at(err, e->file, e->line, e->col);
	}
	return rc;
}

/* What the file did not say. */
static int set_defaults(struct np_conf_ctx *c, struct eg_err *err)
{
	c->defaulting = true;
	c->now_line = 0;
	for (size_t i = 0; i < EG_ARRAY_SIZE(keys); i++) {
		int rc;

		if (c->line[i] || !keys[i].def)
			continue;
		rc = keys[i].parse(c, &keys[i], keys[i].def, err);
		if (rc) {
			(void)eg_err_wrap(err, "%s: default of [%s] %s", c->file,
					  keys[i].section, keys[i].name);
			return rc;
		}
	}
	return 0;
}

/* "DIR/NAME" into a path field that is empty. */
static int derive(char field[EG_PATH], const char *dir, const char *name,
		  struct eg_err *err)
{
	char full[2 * EG_PATH];

	if (field[0])
		return 0;
	(void)snprintf(full, sizeof(full), "%s/%s", dir, name);
	if (strlen(full) >= EG_PATH)
		return eg_err_set(
			err, -ENAMETOOLONG,
			"path '%s' is longer than %d bytes; choose a shorter directory in [paths]",
			full, EG_PATH - 1);
	memset(field, 0, EG_PATH);
	memcpy(field, full, strlen(full));
	return 0;
}

static int derive_all(struct np_conf_ctx *c, struct eg_err *err)
{
	struct eg_conf *conf = c->conf;
	int rc;

	rc = derive(conf->audit_dir, conf->state, "audit", err);
	if (!rc)
		rc = derive(conf->api_socket, conf->run, "api.sock", err);
	if (!rc)
		rc = derive(conf->read_socket, conf->run, "read.sock", err);
	if (!rc)
		rc = np_conf_deny_load(c, err);
	if (!rc && conf->upstream_system) {
		rc = np_conf_resolv(c, err);
		if (rc)
			(void)np_conf_at_key(c, rc, "dns", "upstream", NULL, err);
	}
	conf->gateways = (conf->slots + conf->slots_per_gateway - 1) /
			 conf->slots_per_gateway;
	conf->magic = EG_CONF_MAGIC;
	conf->size = sizeof(*conf);
	return rc;
}

/* Where relative paths start: the file's directory, made absolute. */
static int set_dir(struct np_conf_ctx *c, const char *path, struct eg_err *err)
{
	const char *slash = strrchr(path, '/');
	EG_CLEANUP_FREE char *dir = NULL, *real = NULL;

	if (slash)
		dir = strndup(path, slash == path ? 1 : (size_t)(slash - path));
	else
		dir = strdup(".");
	if (!dir)
		return -ENOMEM;
	real = *dir == '/' ? strdup(dir) : realpath(dir, NULL);
	if (!real)
		return eg_err_sys(err, -errno, "directory '%s' of '%s'", dir,
				  path);
	if (strlen(real) >= sizeof(c->dir))
		return eg_err_set(err, -ENAMETOOLONG,
				  "path '%.100s...' is too long", path);
	if (strcmp(real, "/"))
		memcpy(c->dir, real, strlen(real) + 1);
	return 0;
}

static int parse_into(struct np_conf_ctx *c, const char *text, size_t len,
		      struct eg_err *err)
{
	static const struct eg_ini_ops ops = {on_section, on_entry};
	const char *base = strrchr(c->file, '/');
	int rc = set_dir(c, c->file, err);

	if (rc)
		return rc;
	rc = np_conf_path(c, base ? base + 1 : c->file, c->conf->file, err);
	if (rc)
		return rc;
	rc = eg_ini_parse(c->file, text, len, &ops, c, err);
	if (!rc)
		rc = set_defaults(c, err);
	if (!rc)
		rc = derive_all(c, err);
	return rc ? rc : np_conf_check(c, err);
}

int np_conf_parse(const char *text, size_t len, const char *path,
		  const char *resolv, struct eg_conf *ret, struct eg_err *err)
{
	EG_CLEANUP_FREE struct np_conf_ctx *c = calloc(1, sizeof(*c));
	EG_CLEANUP_FREE struct eg_conf *conf = calloc(1, sizeof(*conf));
	int rc;

	if (!c || !conf)
		return eg_err_sys(err, -ENOMEM, "cannot read '%s'", path);
	c->conf = conf;
	c->file = path;
	c->resolv = resolv ? resolv : NP_CONF_RESOLV;
	rc = parse_into(c, text, len, err);
	if (!rc)
		memcpy(ret, conf, sizeof(*ret));
	return rc;
}

int np_conf_load(const char *path, struct eg_conf *ret, struct eg_err *err)
{
	EG_CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	EG_CLEANUP_FREE char *text = NULL;
	size_t len;
	int rc;

	if (fd < 0)
		return eg_err_sys(err, -errno, "cannot open configuration '%s'",
				  path);
	rc = eg_ini_read(path, fd, NP_CONF_TEXT, &text, &len, err);
	if (rc)
		return rc;
	return np_conf_parse(text, len, path, NULL, ret, err);
}

int np_conf_defaults(const char *path, const char *resolv, struct eg_conf *ret,
		     struct eg_err *err)
{
	return np_conf_parse("", 0, path, resolv, ret, err);
}

void np_conf_print(const struct eg_conf *conf, FILE *f)
{
	const char *section = "";

	fprintf(f, "# effective configuration of %s\n", conf->file);
	for (size_t i = 0; i < EG_ARRAY_SIZE(keys); i++) {
		const struct np_conf_key *k = &keys[i];

		if (strcmp(section, k->section))
			fprintf(f, "\n[%s]\n", k->section);
		section = k->section;
		if (k->repeat) {
			k->print(conf, k, f);
			continue;
		}
		fprintf(f, "%s = ", k->name);
		k->print(conf, k, f);
		fputc('\n', f);
	}
}
