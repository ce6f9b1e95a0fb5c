// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: the body of a lease request, from JSON to a message.
 *
 * One table row a member; an unknown one is refused by name with the list of
 * those that are known. Pure: no socket, no state.
 */
#include "netpool/api_http.h"
#include "netpool/base/adopt.h"
#include "netpool/base/digest.h"
#include "netpool/base/plan.h"
#include "netpool/base/util.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>


struct req {
	struct eg_lease_req *q;
	char *policy;
	char **text;
	const char *path_id;
};

typedef int (*member_fn)(struct req *r, const json_t *v, struct eg_err *err);

struct member {
	const char *name;
	member_fn parse;
};

static bool grammar(const char *s, const char *extra)
{
	size_t n = strlen(s);

	if (!n || n >= EG_ID)
		return false;
	for (size_t i = 0; i < n; i++) {
		char c = s[i];
		bool alnum = (c >= '0' && c <= '9') ||
			     (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');

		if (!alnum && (!i || !strchr(extra, c)))
			return false;
	}
	return true;
}

bool api_id_ok(const char *id)
{
	return grammar(id, "._-") && id[strlen(id) - 1] != '.';
}

static int type_error(struct eg_err *err, const char *name, const char *want)
{
	return eg_err_set(err, -EINVAL, "%s: %s is accepted", name, want);
}

static int get_text(const json_t *v, const char *name, char *dst, size_t cap,
		    struct eg_err *err)
{
	const char *s = json_string_value(v);

	if (!s || strlen(s) != json_string_length(v))
		return type_error(err, name, "a string");
	if (strlen(s) >= cap)
		return eg_err_set(err, -EINVAL,
				  "%s: longer than %zu octets", name, cap - 1);
	memcpy(dst, s, strlen(s) + 1);
	return 0;
}

static int get_u32(const json_t *v, const char *name, uint32_t min,
		   uint32_t max, uint32_t *ret, struct eg_err *err)
{
	json_int_t n = json_integer_value(v);

	if (!json_is_integer(v) || n < min || n > max)
		return eg_err_set(err, -EINVAL,
				  "%s: a whole number from %u to %u is accepted",
				  name, min, max);
	*ret = (uint32_t)n;
	return 0;
}

/* One of a few words to its index. */
static int get_word(const json_t *v, const char *name,
		    const char *const *words, size_t n, uint8_t *ret,
		    struct eg_err *err)
{
	const char *s = json_string_value(v);
	char list[128] = "";
	size_t used = 0;

	for (size_t i = 0; s && i < n; i++)
		if (!strcmp(s, words[i])) {
			*ret = (uint8_t)i;
			return 0;
		}
	for (size_t i = 0; i < n && used < sizeof(list); i++)
		used += (size_t)snprintf(list + used, sizeof(list) - used,
					 "%s%s", i ? ", " : "", words[i]);
	return eg_err_set(err, -EINVAL, "%s '%.40s': %s are accepted", name,
			  s ? s : "(not a string)", list);
}

/* ---- members ------------------------------------------------------------------------ */

static int m_id(struct req *r, const json_t *v, struct eg_err *err)
{
	char id[EG_ID];
	int e = get_text(v, "id", id, sizeof(id), err);

	if (e)
		return e;
	if (!api_id_ok(id))
		return eg_err_set(err, -EINVAL,
				  "id '%.40s': letters, digits, '.', '_', '-', at most 127, not ending in '.', are accepted",
				  id);
	if (r->path_id && strcmp(r->path_id, id) != 0)
		return eg_err_set(err, -EINVAL,
				  "id '%.40s' is not the one of the path", id);
	memcpy(r->q->id, id, sizeof(id));
	return 0;
}

static int m_policy(struct req *r, const json_t *v, struct eg_err *err)
{
	return get_text(v, "policy", r->policy, 256, err);
}

static int m_policy_text(struct req *r, const json_t *v, struct eg_err *err)
{
	const char *s = json_string_value(v);

	if (!s || strlen(s) != json_string_length(v))
		return type_error(err, "policy_text", "a string without NUL");
	free(*r->text);
	*r->text = strdup(s);
	return *r->text ? 0 : eg_err_set(err, -ENOMEM, "out of memory");
}

static int m_phase(struct req *r, const json_t *v, struct eg_err *err)
{
	return get_text(v, "phase", r->q->phase, sizeof(r->q->phase), err);
}

static int m_ttl(struct req *r, const json_t *v, struct eg_err *err)
{
	return get_u32(v, "ttl_s", 1, 365 * 86400, &r->q->ttl_s, err);
}

static int m_on_expiry(struct req *r, const json_t *v, struct eg_err *err)
{
	static const char *const words[] = { "release", "hold" };

	return get_word(v, "on_expiry", words, 2, &r->q->on_expiry, err);
}

static int m_enforce(struct req *r, const json_t *v, struct eg_err *err)
{
	static const char *const words[] = { "enforce" };

	if (json_is_string(v) && !strcmp(json_string_value(v), "report"))
		return eg_err_set(err, -EINVAL,
				  "enforce 'report' is not served yet; enforce is accepted");
	return get_word(v, "enforce", words, 1, &r->q->report, err);
}

static int m_deny(struct req *r, const json_t *v, struct eg_err *err)
{
	static const char *const words[] = { "default", "reject", "drop" };

	return get_word(v, "deny", words, 3, &r->q->deny, err);
}

static int tagged(const json_t *v, const char *name, char dst[EG_ID],
		  struct eg_err *err)
{
	int e = get_text(v, name, dst, EG_ID, err);

	if (!e && !grammar(dst, "._:@/+=-"))
		e = eg_err_set(err, -EINVAL,
			       "%s '%.40s': a letter or digit, then letters, digits and ._:@/+=-, at most 127, are accepted",
			       name, dst);
	return e;
}

static int m_run(struct req *r, const json_t *v, struct eg_err *err)
{
	return tagged(v, "run", r->q->run, err);
}

static int m_tenant(struct req *r, const json_t *v, struct eg_err *err)
{
	return tagged(v, "tenant", r->q->tenant, err);
}

/* Of a spec: the lease it was forked from. */
static int m_parent(struct req *r, const json_t *v, struct eg_err *err)
{
	const char *id, *uid;

	if (json_is_null(v))
		return 0;
	if (json_unpack((json_t *)(uintptr_t)v, "{s:s, s:s!}", "id", &id, "uid",
			&uid) ||
	    !api_id_ok(id) || !api_uid_parse(uid, r->q->parent_uid))
		return type_error(err, "parent",
				  "null or an object with id and uid of a lease");
	(void)snprintf(r->q->parent_id, sizeof(r->q->parent_id), "%s", id);
	return 0;
}

/*
 * Of a spec: the names that led the lease somewhere, and where. Information:
 * nothing is pinned by it, each name is resolved anew when it is asked for.
 */
static int m_names(struct req *r, const json_t *v, struct eg_err *err)
{
	const char *name;
	json_t *list, *e;
	size_t i;

	(void)r;
	json_array_foreach((json_t *)(uintptr_t)v, i, e)
		if (json_unpack(e, "{s:s, s:o!}", "name", &name, "addresses",
				&list) ||
		    !json_is_array(list))
			break;
	if (!json_is_array(v) || i < json_array_size(v))
		return type_error(err, "names",
				  "an array of objects with name and addresses");
	return 0;
}

static int m_labels(struct req *r, const json_t *v, struct eg_err *err)
{
	uint32_t n;
	int e = api_labels_parse(v, r->q->label, &n, err);

	if (!e)
		r->q->nlabels = (uint8_t)n;
	return e;
}

int api_labels_parse(const json_t *v, struct eg_label label[EG_LABELS],
		     uint32_t *ret_n, struct eg_err *err)
{
	const char *key;
	json_t *value;
	unsigned int n = 0;

	if (!json_is_object(v))
		return type_error(err, "labels", "an object of strings");
	json_object_foreach((json_t *)(uintptr_t)v, key, value) {
		struct eg_label *l = &label[n];

		if (n >= EG_LABELS)
			return eg_err_set(err, -EINVAL,
					  "labels: at most %d are accepted",
					  EG_LABELS);
		if (!*key || strlen(key) >= EG_LABEL_KEY)
			return eg_err_set(err, -EINVAL,
					  "labels: a key has 1 to %d octets",
					  EG_LABEL_KEY - 1);
		memcpy(l->key, key, strlen(key) + 1);
		if (get_text(value, key, l->value, EG_LABEL_VALUE, err))
			return eg_err_wrap(err, "labels");
		n++;
	}
	*ret_n = n;
	return 0;
}

static int m_limits(struct req *r, const json_t *v, struct eg_err *err)
{
	const char *key;
	json_t *value;

	if (!json_is_object(v))
		return type_error(err, "limits", "an object");
	json_object_foreach((json_t *)(uintptr_t)v, key, value) {
		uint32_t *to = !strcmp(key, "flows")	   ? &r->q->flows :
			       !strcmp(key, "new_flows_s") ? &r->q->new_flows_s :
			       !strcmp(key, "log_s")	   ? &r->q->log_s :
							     NULL;

		if (!to)
			return eg_err_set(err, -EINVAL,
					  "limits: there is no '%.40s'; flows, new_flows_s and log_s are accepted",
					  key);
		if (get_u32(value, key, 1, 1000000, to, err))
			return eg_err_wrap(err, "limits");
	}
	return 0;
}

/* ---- guest ---------------------------------------------------------------------------- */

static int g_mode(struct req *r, const json_t *v, struct eg_err *err)
{
	static const char *const words[] = { "veth", "tap", "route", "adopt" };

	return get_word(v, "guest.mode", words, 4, &r->q->guest.mode, err);
}

static int g_tap(struct req *r, const json_t *v, struct eg_err *err)
{
	char *tap = r->q->guest.tap;
	int e = get_text(v, "guest.tap", tap, EG_IFNAME, err);

	if (!e && (!*tap || !grammar(tap, "._-") || !strcmp(tap, "lo") ||
		   !strcmp(tap, "eth0")))
		e = eg_err_set(err, -EINVAL,
			       "guest.tap '%s': an interface name other than lo and eth0, at most 15 octets, is accepted",
			       tap);
	return e;
}

static int g_owner_uid(struct req *r, const json_t *v, struct eg_err *err)
{
	return get_u32(v, "guest.owner_uid", 0, UINT32_MAX - 1,
		       &r->q->guest.owner_uid, err);
}

static int g_owner_gid(struct req *r, const json_t *v, struct eg_err *err)
{
	return get_u32(v, "guest.owner_gid", 0, UINT32_MAX - 1,
		       &r->q->guest.owner_gid, err);
}

static int g_address(struct req *r, const json_t *v, struct eg_err *err)
{
	char text[32], *slash;
	struct eg_prefix p;

	if (get_text(v, "guest.address", text, sizeof(text), err))
		return -EINVAL;
	slash = strchr(text, '/');
	if (slash) {
		char zero[40];

		*slash = '\0';
		(void)snprintf(zero, sizeof(zero), "0.0.0.0/%s", slash + 1);
		if (eg_prefix_parse(zero, &p, NULL) || p.len < 8 || p.len > 31)
			return eg_err_set(err, -EINVAL,
					  "guest.address: /%s is not a length from 8 to 31",
					  slash + 1);
		r->q->guest.addr_len = p.len;
	}
	return eg_addr_parse(text, &r->q->guest.address, err) ?
		       eg_err_wrap(err, "guest.address") : 0;
}

static int g_gateway(struct req *r, const json_t *v, struct eg_err *err)
{
	char text[32];

	if (get_text(v, "guest.gateway", text, sizeof(text), err))
		return -EINVAL;
	return eg_addr_parse(text, &r->q->guest.gateway, err) ?
		       eg_err_wrap(err, "guest.gateway") : 0;
}

static int g_mac(struct req *r, const json_t *v, struct eg_err *err)
{
	char text[32];

	if (get_text(v, "guest.mac", text, sizeof(text), err))
		return -EINVAL;
	return eg_mac_parse(text, r->q->guest.mac, err) ?
		       eg_err_wrap(err, "guest.mac") : 0;
}

static int g_netns(struct req *r, const json_t *v, struct eg_err *err)
{
	char *path = r->q->guest.netns_path;
	int e = get_text(v, "guest.netns_path", path, EG_NETNS_PATH, err);

	return e ? e : eg_adopt_text(path, err);
}

static int g_interface(struct req *r, const json_t *v, struct eg_err *err)
{
	char *name = r->q->guest.ifname;
	int e = get_text(v, "guest.interface", name, EG_IFNAME, err);

	if (!e && !eg_ifname_ok(name))
		e = eg_err_set(err, -EINVAL,
			       "guest.interface '%s': an interface name other than lo, at most 15 octets, is accepted",
			       name);
	return e;
}

static const struct member guest_members[] = {
	{ "mode", g_mode },	      { "tap", g_tap },
	{ "owner_uid", g_owner_uid }, { "owner_gid", g_owner_gid },
	{ "address", g_address },     { "gateway", g_gateway },
	{ "mac", g_mac },	      { "netns_path", g_netns },
	{ "interface", g_interface },
};

static int members_parse(struct req *r, const json_t *o, const char *what,
			 const struct member *m, size_t n, struct eg_err *err)
{
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)(uintptr_t)o, key, value) {
		char list[240] = "";
		size_t i, used = 0;
		int e;

		for (i = 0; i < n; i++)
			if (!strcmp(m[i].name, key))
				break;
		if (i < n) {
			e = m[i].parse(r, value, err);
			if (e)
				return e;
			continue;
		}
		for (i = 0; i < n && used < sizeof(list); i++)
			used += (size_t)snprintf(list + used,
						 sizeof(list) - used, "%s%s",
						 i ? ", " : "", m[i].name);
		return eg_err_set(err, -EINVAL,
				  "there is no member '%.40s'%s; %s are accepted",
				  key, what, list);
	}
	return 0;
}

static int m_guest(struct req *r, const json_t *v, struct eg_err *err)
{
	if (!json_is_object(v))
		return type_error(err, "guest", "an object");
	return members_parse(r, v, " in guest", guest_members,
			     EG_ARRAY_SIZE(guest_members), err);
}

static const struct member members[] = {
	{ "id", m_id },		    { "policy", m_policy },
	{ "policy_text", m_policy_text }, { "phase", m_phase },
	{ "ttl_s", m_ttl },	    { "on_expiry", m_on_expiry },
	{ "run", m_run },	    { "tenant", m_tenant },
	{ "labels", m_labels },	    { "enforce", m_enforce },
	{ "deny", m_deny },	    { "limits", m_limits },
	{ "guest", m_guest },	    { "parent", m_parent },
	{ "names", m_names },
};

/* The values every snapshot of ours has, unless the caller says otherwise. */
static void guest_default(struct eg_guest *g)
{
	static const uint8_t mac[EG_MAC_LEN] = { 0x06, 0, 0xac, 0x10, 0, 2 };

	g->owner_uid = g->owner_gid = UINT32_MAX;
	g->address = 0xac100002;
	g->gateway = 0xac100001;
	g->addr_len = 30;
	memcpy(g->mac, mac, sizeof(mac));
	memcpy(g->tap, "tap0", 5);
}

/* A namespace of the caller's belongs to mode adopt, and adopt has to have it */
static int adopt_check(struct eg_guest *g, struct eg_err *err)
{
	if (g->mode == EG_GUEST_ADOPT && !*g->netns_path)
		return eg_err_set(
			err, -EINVAL,
			"guest.mode adopt needs guest.netns_path, the path of a network namespace below [lease] adopt_from");
	if (g->mode != EG_GUEST_ADOPT && (*g->netns_path || *g->ifname))
		return eg_err_set(
			err, -EINVAL,
			"guest.%s belongs to guest.mode adopt",
			*g->netns_path ? "netns_path" : "interface");
	if (g->mode == EG_GUEST_ADOPT && !*g->ifname)
		memcpy(g->ifname, EG_SLOT_IFNAME, sizeof(EG_SLOT_IFNAME));
	return 0;
}

static int guest_check(const struct eg_guest *g, struct eg_err *err)
{
	uint32_t mask = eg_prefix_mask(g->addr_len);

	if (g->mode == EG_GUEST_TAP && ((g->address & mask) !=
					(g->gateway & mask) ||
					g->address == g->gateway))
		return eg_err_set(err, -EINVAL,
				  "guest.gateway is not another address of guest.address's /%u",
				  g->addr_len);
	return 0;
}

/* Sorted keys, no blanks: the same request has the same digest. */
static int request_digest(const json_t *j, uint8_t ret[EG_DIGEST])
{
	char *text = json_dumps(j, JSON_SORT_KEYS | JSON_COMPACT);

	if (!text)
		return -ENOMEM;
	eg_sha256_of(text, strlen(text), ret);
	free(text);
	return 0;
}

static int object_parse(struct req *r, const json_t *j, struct eg_err *err)
{
	int e;

	if (!json_is_object(j))
		return eg_err_set(err, -EINVAL, "the body is not a JSON object");
	e = members_parse(r, j, "", members, EG_ARRAY_SIZE(members), err);
	if (e)
		return e;
	if (!*r->policy && !*r->text)
		return eg_err_set(err, -EINVAL,
				  "one of policy and policy_text is needed");
	if (*r->policy && *r->text && !strstr(r->policy, "sha256:"))
		return eg_err_set(
			err, -EINVAL,
			"policy '%.80s' and policy_text together: policy then says the text's digest, NAME@sha256:HEX or sha256:HEX",
			r->policy);
	if (request_digest(j, r->q->request_digest))
		return eg_err_set(err, -ENOMEM, "out of memory");
	e = adopt_check(&r->q->guest, err);
	return e ? e : guest_check(&r->q->guest, err);
}

int api_request_parse(const char *body, size_t len, const char *id,
		      struct eg_lease_req *ret, char policy[256],
		      char **ret_text, struct eg_err *err)
{
	struct req r = { .q = ret, .policy = policy, .text = ret_text,
			 .path_id = id };
	json_error_t je;
	json_t *j;
	int e;

	memset(ret, 0, sizeof(*ret));
	policy[0] = '\0';
	*ret_text = NULL;
	guest_default(&ret->guest);
	if (id)
		(void)snprintf(ret->id, sizeof(ret->id), "%s", id);
	j = json_loadb(body, len, JSON_REJECT_DUPLICATES, &je);
	if (!j)
		return eg_err_set(err, -EINVAL,
				  "the body is not JSON: line %d, column %d: %.150s",
				  je.line, je.column, je.text);
	e = object_parse(&r, j, err);
	json_decref(j);
	if (e) {
		free(*ret_text);
		*ret_text = NULL;
	}
	return e;
}
