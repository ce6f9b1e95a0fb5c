// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: what the host lets a tenant's policy list (see parse.h)
 */
#include "netpool/base/value.h"
#include "rules/entry.h"

#include <errno.h>
#include <string.h>

/* Is @tenant one of a comma-separated list? The empty list is everyone. */
static bool tenant_in(const char *list, const char *tenant)
{
	size_t len = strlen(tenant);

	if (!*list)
		return true;
	while (*list) {
		size_t n = strcspn(list, ",");

		if (n == len && !memcmp(list, tenant, n))
			return true;
		list += n + (list[n] ? 1 : 0);
	}
	return false;
}

static bool inside(struct eg_prefix p, struct eg_prefix outer)
{
	return outer.len <= p.len && eg_prefix_has(outer, p.addr);
}

/*
 * Do these lines let @tenant reach @dst on @port? All of it; or, for a name's
 * private=, a part: an answer has to lie in both, whatever the policy allows
 * itself beyond that. Lines of one destination may share a range of ports
 * between them.
 */
static bool covered(const struct eg_conf_permit *list, uint32_t n,
		    struct eg_prefix dst, bool part,
		    const struct eg_port *port, const char *tenant)
{
	uint32_t next = port->lo, before;

	do {
		before = next;
		for (uint32_t i = 0; i < n; i++)
			if (list[i].proto == port->proto && list[i].lo <= next &&
			    list[i].hi >= next &&
			    (inside(dst, list[i].dst) ||
			     (part && eg_prefix_overlap(dst, list[i].dst))) &&
			    tenant_in(list[i].tenants, tenant))
				next = list[i].hi + 1U;
	} while (next != before && next <= port->hi);
	return next > port->hi;
}

/* The private range around @p, if it is one. */
static const struct eg_conf_deny *private_around(const struct eg_conf *conf,
						 struct eg_prefix p)
{
	for (uint32_t i = 0; i < conf->denies; i++)
		if (conf->deny[i].class == EG_DENY_PRIVATE &&
		    inside(p, conf->deny[i].dst))
			return &conf->deny[i];
	return NULL;
}

static int refuse(const struct rl_prog *p, const struct rl_entry *e,
		  const char *key, struct eg_prefix dst,
		  const struct eg_port *port, const char *tenant,
		  struct eg_err *err)
{
	char prefix[EG_PREFIX_TEXT], text[EG_PORT_TEXT], name[EG_NAME_TEXT];

	return eg_err_set(
		err, -EPERM,
		"policy '%s' line %u: %.80s needs %s on %s, which this host does not permit%s%.64s; egressd.conf would need: %s = %s %s",
		p->name, e->line,
		e->kind == RL_PREFIX ? "the entry"
				     : eg_name_format(&e->name, name),
		eg_prefix_format(dst, prefix), eg_port_format(port, text),
		*tenant ? " to tenant " : "", tenant, key,
		eg_prefix_format(dst, prefix), eg_port_format(port, text));
}

/* One destination of one entry on all its ports. */
static int check_dst(const struct rl_prog *p, const struct rl_entry *e,
		     const struct eg_conf *conf, struct eg_prefix dst,
		     const char *tenant, struct eg_err *err)
{
	bool link = inside(dst, conf->link_prefix);
	bool part = e->kind != RL_PREFIX;

	if (!link && !private_around(conf, dst))
		return 0;
	for (uint8_t i = 0; i < e->nports; i++) {
		const struct eg_port *port = &e->port[i];

		if (covered(conf->permit_host, conf->permits_host, dst, part,
			    port, tenant) ||
		    (!link && covered(conf->permit_private,
				      conf->permits_private, dst, part, port,
				      tenant)))
			continue;
		return refuse(p, e, link ? "permit_host" : "permit_private",
			      dst, port, tenant, err);
	}
	return 0;
}

int rl_policy_permitted(const struct rl_prog *p, const struct eg_conf *conf,
			const char *tenant, struct eg_err *err)
{
	for (uint32_t i = 0; i < p->nentries; i++) {
		const struct rl_entry *e = &p->entry[i];
		int rc = 0;

		if (rl_entry_list(e) != RL_LIST_ALLOW)
			continue;
		if (e->kind == RL_PREFIX)
			rc = check_dst(p, e, conf, e->dst, tenant, err);
		for (uint8_t k = 0; k < e->nprivate && !rc; k++)
			rc = check_dst(p, e, conf, e->private[k], tenant, err);
		if (rc)
			return rc;
	}
	return 0;
}
