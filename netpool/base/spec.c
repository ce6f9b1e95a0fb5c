// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: what a lease was asked with (see spec.h)
 */
#include "netpool/base/spec.h"
#include "netpool/base/digest.h"
#include "netpool/base/stamp.h"
#include "netpool/base/util.h"

#include <stdio.h>
#include <string.h>

static const char *const modes[] = {
	[EG_GUEST_VETH] = "veth",
	[EG_GUEST_TAP] = "tap",
	[EG_GUEST_ROUTE] = "route",
	[EG_GUEST_ADOPT] = "adopt",
};
_Static_assert(EG_ARRAY_SIZE(modes) == EG_GUEST_COUNT, "guest modes");

static const char *const denies[] = {
	[EG_DENY_DEFAULT] = "default",
	[EG_DENY_REJECT] = "reject",
	[EG_DENY_DROP] = "drop",
};

const char *eg_policy_ref(const struct eg_lease_req *q, char buf[EG_POLICY_REF])
{
	char digest[EG_DIGEST_TEXT];

	(void)snprintf(buf, EG_POLICY_REF, "%s%s%s", q->policy_name,
		       q->policy_name[0] ? "@" : "",
		       eg_digest_format(q->policy_digest, digest));
	return buf;
}

static void put_limits(struct eg_jsonw *w, const struct eg_lease_req *q)
{
	const struct {
		const char *name;
		uint32_t value;
	} all[] = {{"flows", q->flows},
		   {"new_flows_s", q->new_flows_s},
		   {"log_s", q->log_s}};

	eg_jsonw_object(w, "limits");
	for (size_t i = 0; i < EG_ARRAY_SIZE(all); i++)
		if (all[i].value) /* 0: the host's default */
			eg_jsonw_u64(w, all[i].name, all[i].value);
	eg_jsonw_end(w);
}

/* The fixed addresses are the guest's own in tap mode only. */
static void put_addresses(struct eg_jsonw *w, const struct eg_guest *g)
{
	char a[EG_ADDR_TEXT], cidr[EG_ADDR_TEXT + 4];

	(void)snprintf(cidr, sizeof(cidr), "%s/%u",
		       eg_addr_format(g->address, a), g->addr_len);
	eg_jsonw_str(w, "address", cidr);
	eg_jsonw_str(w, "gateway", eg_addr_format(g->gateway, a));
}

static void put_guest(struct eg_jsonw *w, const struct eg_guest *g)
{
	char mac[EG_MAC_TEXT];

	eg_jsonw_object(w, "guest");
	eg_jsonw_str(w, "mode", g->mode < EG_GUEST_COUNT ? modes[g->mode] : "?");
	if (g->mode == EG_GUEST_TAP || g->mode == EG_GUEST_ROUTE) {
		eg_jsonw_str(w, "tap", g->tap);
		if (g->owner_uid != UINT32_MAX)
			eg_jsonw_u64(w, "owner_uid", g->owner_uid);
		if (g->owner_gid != UINT32_MAX)
			eg_jsonw_u64(w, "owner_gid", g->owner_gid);
		eg_jsonw_str(w, "mac", eg_mac_format(g->mac, mac));
	}
	if (g->mode == EG_GUEST_TAP)
		put_addresses(w, g);
	if (g->mode == EG_GUEST_ADOPT) {
		eg_jsonw_str(w, "netns_path", g->netns_path);
		eg_jsonw_str(w, "interface", g->ifname);
	}
	eg_jsonw_end(w);
}

void eg_spec_write(struct eg_jsonw *w, const struct eg_lease_req *q)
{
	char ref[EG_POLICY_REF];

	eg_jsonw_str(w, "policy", eg_policy_ref(q, ref));
	eg_jsonw_str(w, "phase", q->phase);
	eg_jsonw_u64(w, "ttl_s", q->ttl_s);
	eg_jsonw_str(w, "on_expiry",
		     q->on_expiry == EG_EXPIRY_HOLD ? "hold" : "release");
	eg_jsonw_str(w, "enforce", q->report ? "report" : "enforce");
	eg_jsonw_str(w, "deny",
		     denies[q->deny < EG_ARRAY_SIZE(denies) ? q->deny : 0]);
	put_limits(w, q);
	put_guest(w, &q->guest);
}

bool eg_parent_has(const struct eg_lease_req *q)
{
	static const uint8_t none[EG_UID];

	return q->parent_id[0] || memcmp(q->parent_uid, none, EG_UID) != 0;
}

void eg_parent_write(struct eg_jsonw *w, const struct eg_lease_req *q)
{
	char uid[EG_UUID_TEXT];

	if (!eg_parent_has(q)) {
		eg_jsonw_null(w, "parent");
		return;
	}
	eg_jsonw_object(w, "parent");
	eg_jsonw_str(w, "id", q->parent_id);
	eg_jsonw_str(w, "uid", eg_uuid_format(q->parent_uid, uid));
	eg_jsonw_end(w);
}
