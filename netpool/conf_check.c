// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: the keys of a configuration against each other and against the
 * running host (see conf.h)
 */
#include "netpool/base/ini.h"
#include "netpool/base/plan.h"
#include "netpool/conf_key.h"

#include <errno.h>
#include <string.h>

#define SLOT_ADDRS 4U /* a /30 */
#define LINK_ADDRS 2U /* a /31 */

int np_conf_at_key(struct np_conf_ctx *c, int rc, const char *section,
		   const char *name, const char *other, struct eg_err *err)
{
	size_t i = np_conf_key_at(section, name);
	char text[EG_ERR_TEXT];

	if (!c->line[i] && other)
		i = np_conf_key_at(section, other);
	if (!err)
		return rc;
	if (c->line[i]) {
		(void)eg_ini_at(err, c->file, c->line[i], c->col[i]);
		return rc;
	}
	memcpy(text, err->text, sizeof(text));
	return eg_err_set(err, rc, "%s: %s", c->file, text);
}

static uint64_t prefix_size(struct eg_prefix p)
{
	return 1ULL << (32 - p.len);
}

/* Longest prefix that holds @n addresses. */
static uint8_t len_for(uint64_t n)
{
	uint8_t len = 32;

	while (len && (1ULL << (32 - len)) < n)
		len--;
	return len;
}

static int check_pool(struct np_conf_ctx *c, struct eg_err *err)
{
	const struct eg_conf *f = c->conf;
	uint64_t need = (uint64_t)f->slots * SLOT_ADDRS;
	char text[EG_PREFIX_TEXT];
	uint64_t room = prefix_size(f->prefix);

	if (room < SLOT_ADDRS)
		return np_conf_at_key(
			c,
			eg_err_set(err, -EINVAL,
				   "[pool] prefix %s has no room for one slot, which takes a /30",
				   eg_prefix_format(f->prefix, text)),
			"pool", "prefix", "slots", err);
	if (room >= need)
		return 0;
	return np_conf_at_key(
		c,
		eg_err_set(err, -EINVAL,
			   "[pool] prefix %s holds %u slots (a /30 each), but slots is %u; a /%u would do, or slots = %u",
			   eg_prefix_format(f->prefix, text),
			   (uint32_t)(room / SLOT_ADDRS), f->slots,
			   len_for(need), (uint32_t)(room / SLOT_ADDRS)),
		"pool", "prefix", "slots", err);
}

static int check_gateways(struct np_conf_ctx *c, struct eg_err *err)
{
	const struct eg_conf *f = c->conf;
	uint32_t least = (f->slots + EG_GATEWAYS_MAX - 1) / EG_GATEWAYS_MAX;

	if (f->gateways <= EG_GATEWAYS_MAX)
		return 0;
	return np_conf_at_key(
		c,
		eg_err_set(err, -EINVAL,
			   "[pool] slots = %u and slots_per_gateway = %u make %u gateways; %d is the most: slots_per_gateway of at least %u would do",
			   f->slots, f->slots_per_gateway, f->gateways,
			   EG_GATEWAYS_MAX, least),
		"pool", "slots_per_gateway", "slots", err);
}

static int check_link(struct np_conf_ctx *c, struct eg_err *err)
{
	const struct eg_conf *f = c->conf;
	uint64_t need = (uint64_t)f->gateways * LINK_ADDRS;
	char text[EG_PREFIX_TEXT], pool[EG_PREFIX_TEXT];

	if (prefix_size(f->link_prefix) < need)
		return np_conf_at_key(
			c,
			eg_err_set(err, -EINVAL,
				   "[uplink] link_prefix %s is too small for the links of %u gateways (a /31 each); a /%u would do",
				   eg_prefix_format(f->link_prefix, text),
				   f->gateways, len_for(need)),
			"uplink", "link_prefix", NULL, err);
	if (!eg_prefix_overlap(f->prefix, f->link_prefix))
		return 0;
	return np_conf_at_key(
		c,
		eg_err_set(err, -EINVAL,
			   "[uplink] link_prefix %s overlaps [pool] prefix %s; choose one outside it",
			   eg_prefix_format(f->link_prefix, text),
			   eg_prefix_format(f->prefix, pool)),
		"uplink", "link_prefix", NULL, err);
}

/* Nothing of ours may lie where no packet is ever let through. */
static int check_own_denied(struct np_conf_ctx *c, struct eg_prefix p,
			    const char *section, const char *name,
			    struct eg_err *err)
{
	const struct eg_conf *f = c->conf;
	char text[EG_PREFIX_TEXT], deny[EG_PREFIX_TEXT];

	for (uint32_t i = 0; i < f->denies; i++) {
		if (f->deny[i].class == EG_DENY_PRIVATE ||
		    !eg_prefix_overlap(p, f->deny[i].dst))
			continue;
		return np_conf_at_key(
			c,
			eg_err_set(err, -EINVAL,
				   "[%s] %s %s overlaps %s, which is always denied; choose a private prefix that no one uses",
				   section, name, eg_prefix_format(p, text),
				   eg_prefix_format(f->deny[i].dst, deny)),
			section, name, NULL, err);
	}
	return 0;
}

/* @lo must not exceed @hi; both are keys of one section. */
static int check_order(struct np_conf_ctx *c, uint32_t lo, uint32_t hi,
		       const char *section, const char *lo_name,
		       const char *hi_name, struct eg_err *err)
{
	if (lo <= hi)
		return 0;
	return np_conf_at_key(
		c,
		eg_err_set(err, -EINVAL,
			   "[%s] %s = %u is above %s = %u; it may be at most that",
			   section, lo_name, lo, hi_name, hi),
		section, lo_name, hi_name, err);
}

static int check_upstream(struct np_conf_ctx *c, struct eg_err *err)
{
	const struct eg_conf *f = c->conf;
	char text[EG_ADDR_TEXT];

	for (uint32_t i = 0; i < f->upstreams; i++) {
		uint32_t a = f->upstream[i].addr;

		if (!eg_prefix_has(f->prefix, a) &&
		    !eg_prefix_has(f->link_prefix, a))
			continue;
		return np_conf_at_key(
			c,
			eg_err_set(err, -EINVAL,
				   "[dns] upstream %s is an address of egressd itself (prefix or link_prefix); name another server",
				   eg_addr_format(a, text)),
			"dns", "upstream", NULL, err);
	}
	return 0;
}

/* Sentence and place for one permit line. */
static int permit_err(struct np_conf_ctx *c, const struct eg_conf_permit *p,
		      const char *name, const char *what,
		      struct eg_prefix other, struct eg_err *err)
{
	char text[EG_PREFIX_TEXT], with[EG_PREFIX_TEXT];

	return eg_ini_err(err, -EINVAL, c->file, p->line, 1,
			  "[rules] %s %s overlaps %s %s, which nothing can permit",
			  name, eg_prefix_format(p->dst, text), what,
			  eg_prefix_format(other, with));
}

/*
 * permit_host may name the host's end of a gateway's link; permit_private
 * may name neither prefix of ours.
 */
static int check_permit(struct np_conf_ctx *c, const struct eg_conf_permit *p,
			bool host, struct eg_err *err)
{
	const char *name = host ? "permit_host" : "permit_private";
	const struct eg_conf *f = c->conf;

	if (p->proto != 1 && p->lo <= 53 && p->hi >= 53)
		return eg_ini_err(
			err, -EINVAL, c->file, p->line, 1,
			"[rules] %s names port 53, which always goes to the DNS guard; leave it out",
			name);
	if (eg_prefix_overlap(p->dst, f->prefix))
		return permit_err(c, p, name, "[pool] prefix", f->prefix, err);
	if (!host && eg_prefix_overlap(p->dst, f->link_prefix))
		return permit_err(c, p, name, "[uplink] link_prefix",
				  f->link_prefix, err);
	for (uint32_t i = 0; i < f->denies; i++)
		if (f->deny[i].class != EG_DENY_PRIVATE &&
		    eg_prefix_overlap(p->dst, f->deny[i].dst))
			return permit_err(c, p, name, "always denied",
					  f->deny[i].dst, err);
	return 0;
}

static int check_permits(struct np_conf_ctx *c, struct eg_err *err)
{
	const struct eg_conf *f = c->conf;
	int rc = 0;

	for (uint32_t i = 0; i < f->permits_private && !rc; i++)
		rc = check_permit(c, &f->permit_private[i], false, err);
	for (uint32_t i = 0; i < f->permits_host && !rc; i++)
		rc = check_permit(c, &f->permit_host[i], true, err);
	return rc;
}

/* Roles that parse hostile bytes: never root, never the same user. */
static int check_roles(struct np_conf_ctx *c, struct eg_err *err)
{
	static const struct {
		enum eg_role role;
		const char *key;
	} r[] = {{EG_ROLE_API, "api"},
		 {EG_ROLE_DNS, "dns"},
		 {EG_ROLE_AUDIT, "audit"}};
	const uint32_t *uid = c->conf->role_uid, *gid = c->conf->role_gid;

	for (size_t i = 0; i < 3; i++) {
		size_t k = (i + 1) % 3;

		if (!uid[r[i].role] || !gid[r[i].role])
			return np_conf_at_key(
				c,
				eg_err_set(err, -EINVAL,
					   "[roles] %s is root (%u:%u); it needs a user and a group of its own",
					   r[i].key, uid[r[i].role],
					   gid[r[i].role]),
				"roles", r[i].key, NULL, err);
		if (uid[r[i].role] == uid[r[k].role])
			return np_conf_at_key(
				c,
				eg_err_set(err, -EINVAL,
					   "[roles] %s and %s are both uid %u; each needs its own",
					   r[i].key, r[k].key, uid[r[i].role]),
				"roles", r[i].key, r[k].key, err);
	}
	return 0;
}

static int check_paths(struct np_conf_ctx *c, struct eg_err *err)
{
	const struct eg_conf *f = c->conf;
	size_t n = strlen(f->run);

	if (!strcmp(f->api_socket, f->read_socket))
		return np_conf_at_key(
			c,
			eg_err_set(err, -EINVAL,
				   "[api] socket and read_socket are both '%s'; the second serves GET only and needs its own path",
				   f->api_socket),
			"api", "read_socket", "socket", err);
	/* The run directory does not outlive the boot or --purge. */
	if (!strncmp(f->state, f->run, n) && (!f->state[n] || f->state[n] == '/'))
		return np_conf_at_key(
			c,
			eg_err_set(err, -EINVAL,
				   "[paths] state '%s' lies in run '%s', which is emptied; choose a place that lasts",
				   f->state, f->run),
			"paths", "state", "run", err);
	return 0;
}

int np_conf_check(struct np_conf_ctx *c, struct eg_err *err)
{
	const struct eg_conf *f = c->conf;
	int rc = check_pool(c, err);

	if (!rc)
		rc = check_gateways(c, err);
	if (!rc)
		rc = check_link(c, err);
	if (!rc)
		rc = check_own_denied(c, f->prefix, "pool", "prefix", err);
	if (!rc)
		rc = check_own_denied(c, f->link_prefix, "uplink",
				      "link_prefix", err);
	if (!rc)
		rc = check_order(c, f->min_ttl, f->max_ttl, "dns", "min_ttl",
				 "max_ttl", err);
	if (!rc)
		rc = check_order(c, f->default_ttl_s, f->max_ttl_s, "lease",
				 "default_ttl", "max_ttl", err);
	if (!rc)
		rc = check_order(c, f->dns_rate, f->dns_burst, "dns", "rate",
				 "burst", err);
	if (!rc)
		rc = check_upstream(c, err);
	if (!rc)
		rc = check_permits(c, err);
	if (!rc)
		rc = check_roles(c, err);
	return rc ? rc : check_paths(c, err);
}

int np_conf_check_host(const struct eg_conf *conf, const struct eg_prefix *host,
		       size_t n, struct eg_err *err)
{
	char a[EG_PREFIX_TEXT], b[EG_PREFIX_TEXT];

	for (size_t i = 0; i < n; i++) {
		bool pool = eg_prefix_overlap(host[i], conf->prefix);

		if (!pool && !eg_prefix_overlap(host[i], conf->link_prefix))
			continue;
		return eg_err_set(
			err, -EADDRINUSE,
			"%s: %s %s overlaps %s, which this host uses; choose another prefix",
			conf->file,
			pool ? "[pool] prefix" : "[uplink] link_prefix",
			eg_prefix_format(pool ? conf->prefix : conf->link_prefix,
					 a),
			eg_prefix_format(host[i], b));
	}
	return 0;
}
