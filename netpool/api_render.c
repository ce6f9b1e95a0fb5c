// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: objects of the API as JSON. Pure.
 */
#include "netpool/api_http.h"
#include "netpool/base/digest.h"
#include "netpool/base/plan.h"
#include "netpool/base/util.h"

#include <jansson.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static const char *const state_names[] = {
	[EG_LEASE_NONE] = "none",	  [EG_LEASE_LEASED] = "leased",
	[EG_LEASE_EXPIRED] = "expired",	  [EG_LEASE_REVOKED] = "revoked",
	[EG_LEASE_RELEASING] = "releasing", [EG_LEASE_LOST] = "lost",
	[EG_LEASE_RELEASED] = "released",
};
_Static_assert(EG_ARRAY_SIZE(state_names) == EG_LEASE_STATE_COUNT, "states");

static const char *const mode_names[] = {
	[EG_GUEST_VETH] = "veth",
	[EG_GUEST_TAP] = "tap",
	[EG_GUEST_ROUTE] = "route",
	[EG_GUEST_ADOPT] = "adopt",
};
_Static_assert(EG_ARRAY_SIZE(mode_names) == EG_GUEST_COUNT, "guest modes");

static const char *const cause_names[] = {
	[EG_CAUSE_API] = "api",		[EG_CAUSE_EXPIRY] = "expiry",
	[EG_CAUSE_REVOCATION] = "revocation", [EG_CAUSE_RESTART] = "restart",
	[EG_CAUSE_PURGE] = "purge",	[EG_CAUSE_KERNEL] = "kernel",
};
_Static_assert(EG_ARRAY_SIZE(cause_names) == EG_CAUSE_COUNT, "causes");

static const char *const event_names[] = {
	"leased",  "phase",    "policy", "renewed",	 "expiring",
	"expired", "revoked",  "released", "sealed",	 "first-denial",
	"guest-gone", "watchdog", "loss", "pool", "role",
};
_Static_assert(EG_ARRAY_SIZE(event_names) == EG_EV_COUNT, "events");

/* The tap's own address for every guest, so that a snapshot's ARP cache is right. */
#define GATEWAY_MAC "06:00:ac:10:00:01"

void api_uid_format(const uint8_t u[EG_UID], char buf[37])
{
	(void)snprintf(buf, 37,
		       "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
		       u[0], u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8],
		       u[9], u[10], u[11], u[12], u[13], u[14], u[15]);
}

bool api_uid_parse(const char *text, uint8_t uid[EG_UID])
{
	char back[37];
	unsigned int v[EG_UID];

	if (strlen(text) != 36 ||
	    sscanf(text,
		   "%2x%2x%2x%2x-%2x%2x-%2x%2x-%2x%2x-%2x%2x%2x%2x%2x%2x",
		   &v[0], &v[1], &v[2], &v[3], &v[4], &v[5], &v[6], &v[7],
		   &v[8], &v[9], &v[10], &v[11], &v[12], &v[13], &v[14],
		   &v[15]) != EG_UID)
		return false;
	for (int i = 0; i < EG_UID; i++)
		uid[i] = (uint8_t)v[i];
	api_uid_format(uid, back);
	return !strcmp(back, text);
}

void api_time_format(int64_t ns, char buf[32])
{
	time_t s = ns / EG_NSEC_PER_SEC;
	char date[24] = "";
	struct tm tm;

	if (gmtime_r(&s, &tm))
		(void)strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &tm);
	(void)snprintf(buf, 32, "%s.%03dZ", date,
		       (int)(ns % EG_NSEC_PER_SEC / 1000000));
}

static json_t *digest_json(const uint8_t d[EG_DIGEST])
{
	char text[EG_DIGEST_TEXT];

	return json_string(eg_digest_format(d, text));
}

static json_t *addr_json(uint32_t addr)
{
	char b[EG_ADDR_TEXT];

	return json_string(eg_addr_format(addr, b));
}

static json_t *opt_string(const char *s)
{
	return *s ? json_string(s) : json_null();
}

static json_t *guest_json(const struct eg_conf *c, const struct eg_lease *l)
{
	const struct eg_guest *g = &l->req.guest;
	char mac[EG_MAC_TEXT], cidr[EG_ADDR_TEXT + 4], a[EG_ADDR_TEXT];
	json_t *j = json_pack("{s:s}", "mode", mode_names[g->mode]);
	uint32_t gw = g->gateway, addr = g->address;

	if (g->mode == EG_GUEST_ADOPT) {
		(void)json_object_set_new(j, "netns_path",
					  json_string(g->netns_path));
		(void)json_object_set_new(j, "interface",
					  json_string(g->ifname));
	}
	if (g->mode == EG_GUEST_VETH || g->mode == EG_GUEST_ADOPT)
		return j;
	if (g->mode == EG_GUEST_ROUTE) {
		addr = eg_plan_addr(c, l->slot);
		gw = eg_plan_gw_addr(c, l->slot);
	}
	(void)snprintf(cidr, sizeof(cidr), "%s/%u", eg_addr_format(addr, a),
		       g->addr_len);
	(void)json_object_set_new(j, "tap", json_string(g->tap));
	(void)json_object_set_new(j, "address", json_string(cidr));
	(void)json_object_set_new(j, "gateway", addr_json(gw));
	(void)json_object_set_new(j, "gateway_mac", json_string(GATEWAY_MAC));
	(void)json_object_set_new(j, "mac",
				  json_string(eg_mac_format(g->mac, mac)));
	(void)json_object_set_new(j, "dns", json_pack("[o]", addr_json(gw)));
	if (g->owner_uid != UINT32_MAX)
		(void)json_object_set_new(j, "owner_uid",
					  json_integer(g->owner_uid));
	if (g->owner_gid != UINT32_MAX)
		(void)json_object_set_new(j, "owner_gid",
					  json_integer(g->owner_gid));
	return j;
}

static void addresses(json_t *j, const struct eg_conf *c, uint32_t slot)
{
	struct eg_prefix p = { eg_plan_subnet(c, slot), 30 };
	char b[EG_PREFIX_TEXT];

	(void)json_object_set_new(j, "subnet",
				  json_string(eg_prefix_format(p, b)));
	(void)json_object_set_new(j, "address", addr_json(eg_plan_addr(c, slot)));
	(void)json_object_set_new(j, "gateway_address",
				  addr_json(eg_plan_gw_addr(c, slot)));
	(void)json_object_set_new(j, "dns",
				  json_pack("[o]", addr_json(eg_plan_gw_addr(
							   c, slot))));
}

static void who(json_t *j, const struct eg_lease *l)
{
	json_t *labels = json_object();

	for (unsigned int i = 0; i < l->req.nlabels; i++)
		(void)json_object_set_new(labels, l->req.label[i].key,
					  json_string(l->req.label[i].value));
	(void)json_object_set_new(j, "run", opt_string(l->req.run));
	(void)json_object_set_new(j, "tenant", opt_string(l->req.tenant));
	(void)json_object_set_new(j, "labels", labels);
	(void)json_object_set_new(j, "parent", json_null());
	(void)json_object_set_new(j, "warnings", json_array());
}

static void times(json_t *j, const struct eg_conf *c, const struct eg_lease *l)
{
	int64_t left = (l->expires_boot_ns - eg_boot_ns()) / EG_NSEC_PER_SEC;
	char at[32], uid[37], dir[EG_PATH + 64];

	api_time_format(l->created_ns, at);
	(void)json_object_set_new(j, "created", json_string(at));
	api_uid_format(l->uid, uid);
	(void)snprintf(dir, sizeof(dir), "%s/%.10s/%s", c->audit_dir, at, uid);
	api_time_format(l->expires_ns, at);
	(void)json_object_set_new(j, "expires", json_string(at));
	(void)json_object_set_new(j, "ttl_left_s",
				  json_integer(left > 0 ? left : 0));
	(void)json_object_set_new(j, "audit", json_string(dir));
}

/* Where the rules for the lease lie, for an administrator to look at. */
static json_t *gateway_netns(const struct eg_conf *c, const struct eg_lease *l)
{
	char path[EG_PATH + EG_IFNAME + 1], name[EG_IFNAME];

	(void)snprintf(path, sizeof(path), "%s/%s", c->netns,
		       eg_plan_gw_name(name, l->gateway));
	return json_string(path);
}

json_t *api_lease_json(const struct eg_conf *c, const struct eg_lease *l)
{
	static const char *const deny[] = { "default", "reject", "drop" };
	char uid[37];
	json_t *j, *policy;

	api_uid_format(l->uid, uid);
	policy = json_pack("{s:s, s:s}", "name", l->req.policy_name, "phase",
			   l->req.phase);
	(void)json_object_set_new(policy, "digest",
				  digest_json(l->req.policy_digest));
	j = json_pack("{s:s, s:s, s:i, s:I, s:s, s:i, s:I}", "id", l->req.id,
		      "uid", uid, "slot", (int)l->slot, "generation",
		      (json_int_t)l->generation, "state",
		      state_names[l->state < EG_LEASE_STATE_COUNT ? l->state :
								    0],
		      "gateway", (int)l->gateway, "owner",
		      (json_int_t)l->req.owner);
	addresses(j, c, l->slot);
	(void)json_object_set_new(j, "gateway_netns", gateway_netns(c, l));
	(void)json_object_set_new(j, "netns", json_string(l->netns));
	(void)json_object_set_new(j, "netns_volatile",
				  json_boolean(l->netns_volatile));
	(void)json_object_set_new(j, "interface",
				  json_string(l->req.guest.mode ==
							      EG_GUEST_ADOPT ?
						      l->req.guest.ifname :
						      EG_SLOT_IFNAME));
	(void)json_object_set_new(j, "mtu", json_integer(l->mtu));
	(void)json_object_set_new(j, "guest", guest_json(c, l));
	(void)json_object_set_new(j, "policy", policy);
	(void)json_object_set_new(j, "enforced_digest",
				  digest_json(l->enforced_digest));
	(void)json_object_set_new(j, "request_digest",
				  digest_json(l->req.request_digest));
	(void)json_object_set_new(j, "on_expiry",
				  json_string(l->req.on_expiry ? "hold" :
								 "release"));
	(void)json_object_set_new(j, "enforce", json_string("enforce"));
	(void)json_object_set_new(j, "deny",
				  json_string(deny[l->req.deny < 3 ?
							   l->req.deny : 0]));
	who(j, l);
	times(j, c, l);
	return j;
}

static json_t *counts_json(const struct eg_reason_counts *c)
{
	return json_pack("{s:I, s:I, s:I, s:I}", "total",
			 (json_int_t)c->denied, "logged",
			 (json_int_t)c->logged, "suppressed",
			 (json_int_t)c->suppressed, "lost",
			 (json_int_t)c->lost);
}

static json_t *pin_json(const struct eg_pin_info *p)
{
	char name[EG_NAME_TEXT], a[EG_ADDR_TEXT];

	return json_pack("{s:o, s:s, s:s, s:i, s:i}", "name",
			 p->name.len ? json_string(eg_name_format(&p->name,
								  name)) :
				       json_null(),
			 "address", eg_addr_format(p->addr, a), "proto",
			 p->proto == IPPROTO_TCP ? "tcp" :
			 p->proto == IPPROTO_UDP ? "udp" :
			 p->proto == IPPROTO_ICMP ? "icmp" : "other",
			 "port", p->port, "left_s", (int)p->left_s);
}

void api_stats_json(json_t *lease, const struct eg_mp_stats *s)
{
	json_t *denied = json_object(), *pins = json_array();

	for (unsigned int i = 1; i < EG_REASON_COUNT; i++) {
		struct eg_reason_counts c = s->packet[i];

		/* One vocabulary: a reason may have packets and names. */
		c.denied += s->dns[i].denied;
		c.logged += s->dns[i].logged;
		c.suppressed += s->dns[i].suppressed;
		c.lost += s->dns[i].lost;
		if (c.denied)
			(void)json_object_set_new(denied,
						  eg_reason_name((enum eg_reason)i),
						  counts_json(&c));
	}
	for (uint32_t i = 0; i < s->npins && i < EG_ARRAY_SIZE(s->pin); i++)
		(void)json_array_append_new(pins, pin_json(&s->pin[i]));
	/* Counting a slot's flows means walking conntrack: not here. */
	(void)json_object_set_new(lease, "flows", json_null());
	(void)json_object_set_new(lease, "denied", denied);
	(void)json_object_set_new(lease, "unattributed",
				  json_integer((json_int_t)s->unattributed));
	(void)json_object_set_new(lease, "pins", pins);
	(void)json_object_set_new(lease, "traffic",
				  json_pack("{s:I, s:I, s:I, s:I}", "tx_bytes",
					    (json_int_t)s->tx_bytes,
					    "tx_packets",
					    (json_int_t)s->tx_packets,
					    "rx_bytes",
					    (json_int_t)s->rx_bytes,
					    "rx_packets",
					    (json_int_t)s->rx_packets));
}

/* The fill, and what it takes; *_bytes of the kernel's memory. */
static void pool_fill_json(json_t *j, const struct eg_conf *conf,
			   const struct eg_mp_pool *p)
{
	json_t *us = json_array();
	json_t *more = json_pack(
		"{s:i, s:i, s:i, s:b, s:i, s:f, s:I, s:I, s:I, s:I, s:I, s:I}",
		"slots_cap", (int)p->slots_cap, "prefill", (int)p->prefill,
		"built", (int)p->built, "filled", (int)p->filled, "fill_rate",
		(int)p->fill_rate, "fill_s", (double)p->fill_ns / 1e9,
		"built_total", (json_int_t)p->built_total,
		"memory_budget_bytes", (json_int_t)p->memory_budget,
		"memory_prefill_bytes", (json_int_t)p->memory_prefill,
		"memory_estimate_bytes", (json_int_t)p->memory_used,
		"memory_measured_bytes", (json_int_t)p->memory_measured,
		"memory_slot_bytes", (json_int_t)p->memory_slot);

	(void)json_object_update(j, more);
	json_decref(more);
	if (conf->slots_cap)
		(void)json_object_set_new(j, "slots_cap_why",
					  json_string(conf->slots_cap_why));
	/* bucket i counts leases made in less than 2^(i+1) us, the last all */
	for (size_t i = 0; i < EG_ARRAY_SIZE(p->lease_us_bucket); i++)
		(void)json_array_append_new(
			us, json_integer((json_int_t)p->lease_us_bucket[i]));
	(void)json_object_set_new(j, "lease_us_buckets", us);
}

json_t *api_pool_json(const struct eg_conf *conf, const struct eg_mp_pool *p)
{
	char at[32];
	json_t *j = json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i}",
			      "slots", (int)p->slots, "building",
			      (int)p->building, "idle", (int)p->idle, "armed",
			      (int)p->armed, "leased", (int)p->leased,
			      "releasing", (int)p->releasing, "bad",
			      (int)p->bad, "lost", (int)p->lost);
	json_t *more = json_pack("{s:i, s:i, s:i, s:b, s:I, s:I, s:I, s:I, s:I, s:I}",
				 "gateways", (int)p->gateways, "gateways_up",
				 (int)p->gateways_up, "lingering",
				 (int)p->lingering, "ready", (int)p->ready,
				 "leases_total", (json_int_t)p->leases_total,
				 "released_total",
				 (json_int_t)p->released_total, "slow_total",
				 (json_int_t)p->slow_total, "exhausted_total",
				 (json_int_t)p->exhausted_total, "pins_total",
				 (json_int_t)p->pins_total, "pins_failed",
				 (json_int_t)p->pins_failed);

	(void)json_object_update(j, more);
	json_decref(more);
	pool_fill_json(j, conf, p);
	api_time_format(p->started_ns, at);
	(void)json_object_set_new(j, "started", json_string(at));
	return j;
}

json_t *api_event_json(const struct eg_conf *c, const struct eg_event *e)
{
	char at[32], uid[37], cursor[64], boot[9];
	json_t *j;

	(void)snprintf(boot, sizeof(boot), "%02x%02x%02x%02x", c->boot_id[0],
		       c->boot_id[1], c->boot_id[2], c->boot_id[3]);
	(void)snprintf(cursor, sizeof(cursor), "%s.%llu", boot,
		       (unsigned long long)e->seq);
	api_time_format(e->time_ns, at);
	j = json_pack("{s:i, s:s, s:s, s:s, s:s}", "v", 1, "cursor", cursor,
		      "time", at, "type",
		      e->type < EG_EV_COUNT ? event_names[e->type] : "?",
		      "cause",
		      e->cause < EG_CAUSE_COUNT ? cause_names[e->cause] : "?");
	if (e->has_lease) {
		api_uid_format(e->uid, uid);
		(void)json_object_set_new(j, "lease", json_string(e->lease));
		(void)json_object_set_new(j, "uid", json_string(uid));
		(void)json_object_set_new(j, "slot", json_integer(e->slot));
		(void)json_object_set_new(j, "generation",
					  json_integer((json_int_t)e->generation));
	}
	if (e->text[0])
		(void)json_object_set_new(j, "text", json_string(e->text));
	return j;
}
