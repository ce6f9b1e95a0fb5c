// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: rules/ behind the enforcer ops (see state.h and rules/kernel.h).
 *
 * Here a message becomes a decision: what dns asks to be pinned is looked up
 * again in the lease's own policy, address by address, and pinned on the
 * ports found there, never on ports somebody names.
 */
#include "netpool/main_enforce.h"
#include "netpool/base/digest.h"
#include "netpool/base/log.h"
#include "netpool/base/util.h"
#include "rules/kernel.h"
#include "rules/policy.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static struct rl_gw *gw_of(struct np_main *m, const struct np_lease *l)
{
	return m->gw[l->l.gateway].handle;
}

static struct rl_lease lease_of(const struct np_main *m, const struct np_lease *l)
{
	bool drop = m->conf->deny_drop;

	if (l->l.req.deny != EG_DENY_DEFAULT)
		drop = l->l.req.deny == EG_DENY_DROP;
	return (struct rl_lease){.slot = l->l.slot,
				 .generation = l->l.generation,
				 .phases = l->phases,
				 .drop = drop,
				 .report = l->l.req.report,
				 .revoked = l->l.state == EG_LEASE_REVOKED,
				 .tenant = l->l.req.tenant,
				 .flows = l->l.req.flows,
				 .new_flows_s = l->l.req.new_flows_s,
				 .log_s = l->l.req.log_s};
}

static int gateway_open(struct np_main *m, uint32_t g, int fd, bool adopted,
			struct eg_err *err)
{
	struct rl_gw *gw;
	int r;

	if (m->gw[g].handle)
		rl_gw_close(m->gw[g].handle);
	m->gw[g].handle = NULL;
	r = rl_gw_open(&gw, m->conf, g, fd, err);
	if (r)
		return r;
	r = adopted ? rl_gw_adopt(gw, err) : -ENOENT;
	if (r && adopted)
		eg_warning("gateway %u: its table is not as we left it: %s; made anew",
			   g, err->text);
	if (r)
		r = rl_gw_install(gw, err);
	if (r) {
		rl_gw_close(gw);
		return r;
	}
	m->gw[g].handle = gw;
	return 0;
}

static void gateway_close(struct np_main *m, uint32_t g)
{
	rl_gw_close(m->gw[g].handle);
	m->gw[g].handle = NULL;
}

static int host(struct np_main *m, int fd, struct eg_err *err)
{
	struct rl_host *h;
	int r = rl_host_open(&h, m->conf, fd, err);

	if (r)
		return r;
	r = rl_host_install(h, err);
	if (r)
		rl_host_close(h);
	else
		m->host_handle = h;
	return r;
}

static int host_addrs(struct np_main *m, uint32_t g, struct eg_err *err)
{
	return rl_gw_host(m->gw[g].handle, m->host_addr, m->host_naddrs, err);
}

static int prog_map(struct np_main *m, int fd, struct np_prog *p,
		    struct eg_err *err)
{
	const struct rl_prog *prog;
	int r = rl_prog_map(fd, &prog, err);

	(void)m;
	if (r)
		return r;
	p->map = prog;
	/*
	 * The identity is computed here over the block as it is: a sibling
	 * that lies about a digest only gets a mapping of its own.
	 */
	eg_sha256_of(prog, prog->size, p->digest);
	return 0;
}

static void prog_unmap(struct np_prog *p)
{
	rl_prog_unmap(p->map);
	p->map = NULL;
}

/* Where its text lies; nothing here looks at what is in it. */
static bool prog_text(const struct np_prog *np, struct eg_ma_policy *ret)
{
	const struct rl_prog *p = np->map;
	size_t len;
	const char *text = rl_prog_text(p, &len);

	*ret = (struct eg_ma_policy){
		.offset = (uint64_t)(text - (const char *)p), .len = len};
	memcpy(ret->digest, p->digest, EG_DIGEST);
	return len;
}

static int prog_none(int *ret_fd)
{
	const struct rl_prog *p;
	int fd;

	(void)rl_prog_none(&p);
	fd = rl_prog_seal(p);
	if (fd < 0)
		return fd;
	*ret_fd = fd;
	return 0;
}

static void phase_names(const struct np_prog *np, uint32_t phases,
			char buf[EG_PHASES * EG_PHASE])
{
	const struct rl_prog *p = np->map;
	size_t cap = (size_t)EG_PHASES * EG_PHASE, n = 0;

	buf[0] = '\0';
	for (uint32_t i = 0; i < p->nphases && n < cap; i++)
		if (phases & 1U << i)
			n += (size_t)snprintf(buf + n, cap - n, "%s%.31s",
					      n ? "," : "", p->phase[i]);
}

/* Digest of what is enforced: the entries in force and the phases. */
static void digest(const struct np_prog *np, uint32_t phases,
		   uint8_t ret[EG_DIGEST])
{
	const struct rl_prog *p = np->map;
	struct eg_sha256 h;

	eg_sha256_init(&h);
	for (uint32_t i = 0; i < p->nentries; i++) {
		const struct rl_entry *e = &p->entry[i];

		if (e->phases == RL_PHASES_ALL || e->phases & phases)
			eg_sha256_add(&h, e, sizeof(*e));
	}
	eg_sha256_done(&h, ret);
}

static int lease(struct np_main *m, struct np_lease *l, struct eg_err *err)
{
	struct rl_lease rl = lease_of(m, l);

	return rl_gw_lease(gw_of(m, l), &rl, l->prog->map, err);
}

static int rephase(struct np_main *m, struct np_lease *l, struct eg_err *err)
{
	struct rl_lease rl = lease_of(m, l);
	const struct rl_prog *p = l->prog->map;

	if (p->nphases < EG_PHASES && l->phases >> p->nphases)
		return eg_err_set(err, -EINVAL,
				  "a phase the policy does not have");
	return rl_gw_rephase(gw_of(m, l), &rl, p, err);
}

static int unlease(struct np_main *m, struct np_lease *l, struct eg_err *err)
{
	return rl_gw_unlease(gw_of(m, l), l->l.slot, l->l.generation, err);
}

static int scrub(struct np_main *m, struct np_lease *l, struct eg_err *err)
{
	return rl_gw_scrub(gw_of(m, l), l->l.slot, l->l.generation, err);
}

static int take_over(struct np_main *m, struct np_lease *l, struct eg_err *err)
{
	struct rl_lease rl = lease_of(m, l);

	return rl_gw_take_over(gw_of(m, l), &rl, l->prog->map, NULL, NULL, err);
}

static bool permit_has(const struct eg_conf *c, const struct np_lease *l,
		       uint32_t addr, const struct eg_port *port)
{
	for (uint32_t i = 0; i < c->permits_private; i++) {
		const struct eg_conf_permit *p = &c->permit_private[i];

		if (eg_prefix_has(p->dst, addr) && p->proto == port->proto &&
		    p->lo <= port->lo && p->hi >= port->hi &&
		    eg_tenant_listed(p->tenants, l->l.req.tenant))
			return true;
	}
	return false;
}

/*
 * May this name lead to that private address, say policy and host together?
 * Every port it would be pinned on has to be permitted there.
 */
static bool private_ok(const struct eg_conf *c, const struct np_lease *l,
		       const struct rl_verdict *v, uint32_t addr)
{
	bool listed = false;

	for (uint32_t i = 0; i < v->nprivate; i++)
		if (eg_prefix_has(v->private[i], addr))
			listed = true;
	for (uint32_t i = 0; listed && i < v->nports; i++)
		if (!permit_has(c, l, addr, &v->port[i]))
			listed = false;
	return listed;
}

static bool host_has(const struct np_main *m, uint32_t addr)
{
	for (uint32_t i = 0; i < m->host_naddrs; i++)
		if (m->host_addr[i] == addr)
			return true;
	return false;
}

static int pin_check(struct np_main *m, const struct np_lease *l,
		     const struct rl_verdict *v, const struct eg_dm_pin *q,
		     struct eg_err *err)
{
	char a[EG_ADDR_TEXT];

	if (!v->allowed || !v->nports)
		return eg_err_set(err, -EPERM,
				  "the name is not in the lease's policy");
	for (uint32_t i = 0; i < q->naddrs; i++) {
		enum eg_reason r = rl_addr_denied(m->conf, q->addr[i]);

		if (rl_prog_denies(l->prog->map, eg_wall_ns() / EG_NSEC_PER_SEC,
				   q->addr[i]))
			r = EG_REASON_NOT_ALLOWED;
		if (host_has(m, q->addr[i]))
			r = EG_REASON_HOST;

		if (r == EG_REASON_PRIVATE &&
		    private_ok(m->conf, l, v, q->addr[i]))
			continue;
		if (r != EG_REASON_NONE)
			return eg_err_set(err, -EACCES, "%s is denied: %s",
					  eg_addr_format(q->addr[i], a),
					  eg_reason_name(r));
	}
	return 0;
}

/* Remember which name led there; a lost memory costs a name in `show`. */
static void recent_add(struct np_lease *l, const struct eg_dm_pin *q)
{
	struct np_recent *r = l->recent;

	if (!r)
		r = l->recent = calloc(1, sizeof(*r));
	for (uint32_t i = 0; r && i < q->naddrs; i++) {
		uint32_t at = 0;

		while (at < NP_RECENT && r->addr[at] != q->addr[i])
			at++;
		if (at == NP_RECENT)
			at = r->next++ % NP_RECENT;
		r->addr[at] = q->addr[i];
		r->name[at] = q->name;
	}
}

static void recent_find(const struct np_lease *l, uint32_t addr,
			struct eg_name *ret)
{
	for (uint32_t i = 0; l->recent && i < NP_RECENT; i++)
		if (l->recent->addr[i] == addr)
			*ret = l->recent->name[i];
}

static int pin(struct np_main *m, struct np_lease *l, const struct eg_dm_pin *q,
	       struct eg_err *err)
{
	struct rl_pin_name who;
	struct rl_verdict v;
	struct eg_name name;
	int r;

	if (!q->naddrs || q->naddrs > EG_PIN_ADDRS || !q->lifetime_s ||
	    q->lifetime_s > m->conf->max_ttl + m->conf->grace ||
	    eg_name_from_wire(q->name.wire, q->name.len, &name) != q->name.len)
		return eg_err_set(err, -EBADMSG, "a pin out of range");
	rl_prog_lookup(l->prog->map, l->phases, eg_wall_ns() / EG_NSEC_PER_SEC,
		       &name, &v);
	r = pin_check(m, l, &v, q, err);
	if (r)
		return r;
	who = (struct rl_pin_name){ .prog = l->prog->map, .name = &name };
	r = rl_gw_pin(gw_of(m, l), l->l.slot, l->l.generation, &who, q->addr,
		      q->naddrs, v.port, v.nports, q->lifetime_s, err);
	if (!r)
		recent_add(l, q);
	return r;
}

static int counters(struct np_main *m, struct np_lease *l,
		    struct eg_reason_counts *c, uint64_t *unattributed,
		    struct eg_err *err)
{
	return rl_gw_counters(gw_of(m, l), l->l.slot, l->l.generation, c,
			      unattributed, err);
}

static void stats(struct np_main *m, struct np_lease *l, struct eg_mp_stats *s)
{
	struct rl_pin pins[EG_ARRAY_SIZE(s->pin)];
	struct eg_err err = {0};
	size_t n;

	if (rl_gw_traffic(gw_of(m, l), l->l.slot, l->l.generation, &s->tx_bytes,
			  &s->tx_packets, &s->rx_bytes, &s->rx_packets, &err))
		eg_warning("traffic of slot %u: %s", l->l.slot, err.text);
	n = rl_gw_pins(gw_of(m, l), l->l.slot, pins, EG_ARRAY_SIZE(pins));
	s->npins = (uint32_t)n;
	for (size_t i = 0; i < n && i < EG_ARRAY_SIZE(pins); i++) {
		s->pin[i].addr = pins[i].addr;
		s->pin[i].port = pins[i].port;
		s->pin[i].proto = pins[i].proto;
		s->pin[i].left_s = pins[i].left_s;
		recent_find(l, pins[i].addr, &s->pin[i].name);
	}
}

const struct np_enforcer np_enforcer_kernel = {
	.gateway_open = gateway_open,
	.gateway_close = gateway_close,
	.host = host,
	.host_addrs = host_addrs,
	.prog_map = prog_map,
	.prog_unmap = prog_unmap,
	.prog_text = prog_text,
	.prog_none = prog_none,
	.phase_names = phase_names,
	.digest = digest,
	.lease = lease,
	.rephase = rephase,
	.unlease = unlease,
	.scrub = scrub,
	.take_over = take_over,
	.pin = pin,
	.counters = counters,
	.stats = stats,
};
