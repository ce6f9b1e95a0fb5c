// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd tests: a DNS guard in a world without sockets (see dns_world.h)
 */
#include "tests/lib/dns_world.h"
#include "netpool/base/plan.h"
#include "netpool/base/util.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define DIE(...)                                                               \
	do {                                                                   \
		fprintf(stderr, __VA_ARGS__);                                  \
		fputc('\n', stderr);                                           \
		abort();                                                       \
	} while (0)

static void op_reply(void *arg, const struct dg_client *to, const uint8_t *msg,
		     size_t len)
{
	struct dw *w = arg;

	if (w->nreplies == DW_LIST)
		return; /* floods: the first are enough */
	w->reply[w->nreplies].to = *to;
	w->reply[w->nreplies].len = len;
	memcpy(w->reply[w->nreplies++].msg, msg, len);
}

static void op_silence(void *arg, const struct dg_client *to)
{
	struct dw *w = arg;

	(void)to;
	w->nsilences++;
}

static int op_pin(void *arg, uint64_t cookie, const struct eg_dm_pin *m)
{
	struct dw *w = arg;

	if (w->main_away)
		return -ENOTCONN;
	if (w->npins == DW_LIST)
		DIE("too many pins");
	w->pin[w->npins].cookie = cookie;
	w->pin[w->npins++].m = *m;
	return 0;
}

static int op_denial(void *arg, const struct eg_da_denial *m)
{
	struct dw *w = arg;

	if (w->audit_full)
		return -ENOBUFS;
	if (w->ndenials == DW_LIST)
		DIE("too many records");
	w->denial[w->ndenials++] = *m;
	return 0;
}

static void op_name(void *arg, const struct eg_da_name *m)
{
	struct dw *w = arg;

	if (w->nnames < DW_LIST)
		w->name[w->nnames++] = *m;
}

static const struct dg_ops ops = {
	.reply = op_reply,
	.silence = op_silence,
	.pin = op_pin,
	.denial = op_denial,
	.name = op_name,
};

static int up_send(void *arg, uint32_t req, uint32_t server, bool tcp,
		   const uint8_t *msg, size_t len)
{
	struct dw *w = arg;
	struct dw_send *s;

	if (w->nsends == DW_LIST)
		DIE("too many upstream queries");
	s = &w->send[w->nsends++];
	s->req = req;
	s->server = server;
	s->tcp = tcp;
	s->len = len;
	memcpy(s->msg, msg, len);
	return 0;
}

static void up_close(void *arg, uint32_t req)
{
	(void)arg;
	(void)req;
}

static void add_deny(struct eg_conf *c, const char *prefix,
		     enum eg_deny_class class)
{
	struct eg_conf_deny *d = &c->deny[c->denies++];

	d->class = (uint8_t) class;
	if (eg_prefix_parse(prefix, &d->dst, NULL))
		DIE("bad prefix %s", prefix);
}

static void default_denies(struct eg_conf *c)
{
	add_deny(c, "169.254.169.254/32", EG_DENY_METADATA);
	add_deny(c, "100.100.100.200/32", EG_DENY_METADATA);
	add_deny(c, "168.63.129.16/32", EG_DENY_METADATA);
	add_deny(c, "192.0.0.192/32", EG_DENY_METADATA);
	add_deny(c, "169.254.0.0/16", EG_DENY_RESERVED);
	add_deny(c, "127.0.0.0/8", EG_DENY_RESERVED);
	add_deny(c, "198.18.0.0/15", EG_DENY_RESERVED);
	add_deny(c, "192.0.0.0/24", EG_DENY_RESERVED);
	add_deny(c, "10.0.0.0/8", EG_DENY_PRIVATE);
	add_deny(c, "172.16.0.0/12", EG_DENY_PRIVATE);
	add_deny(c, "192.168.0.0/16", EG_DENY_PRIVATE);
	add_deny(c, "100.64.0.0/10", EG_DENY_PRIVATE);
	if (eg_name_parse("metadata.google.internal", &c->deny_name[0].name,
			  NULL) ||
	    eg_name_parse("instance-data", &c->deny_name[1].name, NULL))
		DIE("bad name");
	c->deny_name[0].class = c->deny_name[1].class = EG_DENY_METADATA;
	c->deny_names = 2;
}

struct dw *dw_new(void)
{
	struct dw *w = calloc(1, sizeof(*w));
	struct eg_conf *c;

	if (!w)
		DIE("out of memory");
	c = &w->conf;
	w->now = 1000 * EG_NSEC_PER_SEC;
	w->wall = 1800000000LL * EG_NSEC_PER_SEC;
	c->slots = 512;
	c->slots_per_gateway = 256;
	c->gateways = 2;
	c->prefix = (struct eg_prefix){0x0ac80000, 16};
	c->link_prefix = (struct eg_prefix){0x0ac90000, 24};
	c->upstreams = 2;
	c->upstream[0] = (struct eg_conf_upstream){0xc0000201, 53};
	c->upstream[1] = (struct eg_conf_upstream){0xc0000202, 53};
	c->min_ttl = 60;
	c->max_ttl = 3600;
	c->grace = 60;
	c->max_ttl_s = 86400;
	default_denies(c);
	w->prog = calloc(1, sizeof(*w->prog) +
				    DW_ENTRIES * sizeof(struct rl_entry));
	return w;
}

static void release(const struct rl_prog *p)
{
	free((void *)(uintptr_t)p);
}

void dw_free(struct dw *w)
{
	dg_guard_free(w->guard);
	free(w->prog);
	free(w);
}

void dw_start(struct dw *w)
{
	if (w->guard)
		return;
	if (dg_guard_new(&w->guard, &w->conf, &ops, up_send, up_close, w))
		DIE("no guard");
	dg_guard_time(w->guard, w->now, w->wall);
}

struct rl_entry *dw_entry(struct dw *w, enum rl_kind kind, const char *name)
{
	struct rl_entry *e = &w->prog->entry[w->prog->nentries++];

	if (w->prog->nentries > DW_ENTRIES)
		DIE("too many entries");
	e->kind = (uint8_t)kind;
	e->phases = RL_PHASES_ALL;
	e->name = dw_name(name);
	eg_name_lower(&e->name);
	return e;
}

void dw_lease(struct dw *w, uint32_t slot, uint64_t generation, uint32_t phases)
{
	struct eg_md_lease m = {
		.slot = slot, .generation = generation, .phases = phases};
	size_t size =
		sizeof(*w->prog) + w->prog->nentries * sizeof(struct rl_entry);
	struct dg_policies *ps;
	struct rl_prog *copy;
	struct dg_policy *p;

	dw_start(w);
	ps = dg_guard_policies(w->guard);
	memset(w->prog->digest, (int)w->prog->nentries, EG_DIGEST);
	memcpy(m.digest, w->prog->digest, EG_DIGEST);
	p = dg_policies_get(ps, m.digest);
	if (!p) {
		copy = malloc(size);
		if (!copy)
			DIE("out of memory");
		memcpy(copy, w->prog, size);
		if (dg_policies_add(ps, copy, release, &p))
			DIE("no policy");
	}
	if (dg_guard_lease(w->guard, &m, p))
		DIE("no lease");
}

void dw_advance(struct dw *w, int64_t ms)
{
	int64_t end = w->now + ms * 1000000;

	for (;;) {
		int64_t next = dg_guard_next(w->guard);

		if (next > end)
			break;
		if (next > w->now) {
			w->wall += next - w->now;
			w->now = next;
		}
		dg_guard_time(w->guard, w->now, w->wall);
		dg_guard_tick(w->guard);
	}
	w->wall += end - w->now;
	w->now = end;
	dg_guard_time(w->guard, w->now, w->wall);
}

struct dg_client dw_client(const struct dw *w, uint32_t slot)
{
	return (struct dg_client){.slot = slot,
				  .src = eg_plan_addr(&w->conf, slot),
				  .dst = eg_plan_gw_addr(&w->conf, slot),
				  .sport = 40000,
				  .dport = 53};
}

static const char *octet_of(const char *t, uint8_t *ret)
{
	if (*t != '\\') {
		*ret = (uint8_t)*t;
		return t + 1;
	}
	if (t[1] >= '0' && t[1] <= '9' && t[2] && t[3]) {
		*ret = (uint8_t)((t[1] - '0') * 100 + (t[2] - '0') * 10 +
				 (t[3] - '0'));
		return t + 4;
	}
	*ret = (uint8_t)t[1];
	return t + 2;
}

struct eg_name dw_name(const char *t)
{
	struct eg_name n = {0};
	size_t len = 0, at = 1;

	if (!strcmp(t, "."))
		t++;
	while (*t && at < EG_NAME_WIRE) {
		if (*t == '.') {
			n.wire[len] = (uint8_t)(at - len - 1);
			len = at++;
			t++;
			continue;
		}
		t = octet_of(t, &n.wire[at]);
		at++;
	}
	if (at - len > 1) {
		n.wire[len] = (uint8_t)(at - len - 1);
		len = at;
	}
	n.wire[len] = 0;
	n.len = (uint8_t)(len + 1);
	return n;
}

size_t dw_query(uint8_t *buf, uint16_t id, const struct eg_name *name,
		uint16_t type, uint16_t class, bool edns)
{
	static const uint8_t opt[11] = {0, 0, 41, 4, 0xd0};
	size_t n = DG_HDR;

	memset(buf, 0, DG_HDR);
	dg_put16(buf, id);
	dg_put16(buf + 2, DG_RD);
	dg_put16(buf + 4, 1);
	memcpy(buf + n, name->wire, name->len);
	n += name->len;
	dg_put16(buf + n, type);
	dg_put16(buf + n + 2, class);
	n += 4;
	if (edns) {
		buf[11] = 1;
		memcpy(buf + n, opt, sizeof(opt));
		n += sizeof(opt);
	}
	return n;
}
