// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: leases: made, found, renewed, moved between phases, taken over.
 *
 * Making one: an armed slot is taken (an idle one is named first: `slow`), a
 * tap made where one is asked for, the policy put in the kernel in one batch,
 * the record written to memory-backed storage, dns and audit told, and only
 * then the caller answered. dns and audit may meet a packet of the lease
 * before they have read the message; it was sent first, and they look into
 * their channel before they call a slot unleased (eg_chan_drain).
 *
 * In mode adopt build wires the slot into the caller's namespace in the step
 * that makes taps in the other modes. That link is then the lease: while it
 * is there the lease lives, over restarts, too, and when it has gone with its
 * namespace the lease is `lost` until it is released or expires.
 *
 * Whatever fails on the way, the slot is scrapped and the caller told; a
 * namespace that was named for a lease is never given to another.
 */
#include "netpool/base/adopt.h"
#include "netpool/base/log.h"
#include "netpool/base/plan.h"
#include "netpool/base/spec.h"
#include "netpool/base/stamp.h"
#include "netpool/base/util.h"
#include "netpool/state.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#define LIST_A_CALL 256 /* leases answered to one question */

size_t np_lease_size(unsigned int nlabels)
{
	return offsetof(struct np_lease, l.req.label) +
	       nlabels * sizeof(struct eg_label);
}

void np_lease_free(struct np_lease *l)
{
	if (l)
		free(l->recent);
	free(l);
}

/* ---- the id index ----------------------------------------------------------- */

static uint32_t id_bucket(const struct np_main *m, const char *id)
{
	uint32_t h = 2166136261U;

	for (; *id; id++)
		h = (h ^ (uint8_t)*id) * 16777619U;
	return h % m->conf->slots;
}

/* The last octets of a UUIDv7 are random. */
static uint32_t uid_bucket(const struct np_main *m, const uint8_t uid[EG_UID])
{
	uint32_t h;

	memcpy(&h, uid + (EG_UID - sizeof(h)), sizeof(h));
	return h % m->conf->slots;
}

struct np_lease *np_lease_find(struct np_main *m, const char *id)
{
	uint32_t k = m->id_hash[id_bucket(m, id)];

	while (k) {
		struct np_lease *l = m->slot[k - 1].lease;

		if (!strcmp(l->l.req.id, id))
			return l;
		k = l->hash_next;
	}
	return NULL;
}

struct np_lease *np_lease_uid(struct np_main *m, const uint8_t uid[EG_UID])
{
	uint32_t k = m->uid_hash[uid_bucket(m, uid)];

	while (k) {
		struct np_lease *l = m->slot[k - 1].lease;

		if (!memcmp(l->l.uid, uid, EG_UID))
			return l;
		k = l->uid_next;
	}
	return NULL;
}

struct np_lease *np_lease_at(struct np_main *m, uint32_t slot, uint64_t generation)
{
	struct np_lease *l;

	if (slot >= m->conf->slots)
		return NULL;
	l = m->slot[slot].lease;
	return l && l->l.generation == generation ? l : NULL;
}

int np_lease_insert(struct np_main *m, struct np_lease *l)
{
	uint32_t *b = &m->id_hash[id_bucket(m, l->l.req.id)];
	uint32_t *u = &m->uid_hash[uid_bucket(m, l->l.uid)];

	if (l->l.slot >= m->conf->slots || m->slot[l->l.slot].lease ||
	    np_lease_find(m, l->l.req.id))
		return -EEXIST;
	m->slot[l->l.slot].lease = l;
	l->hash_next = *b;
	*b = l->l.slot + 1;
	l->uid_next = *u;
	*u = l->l.slot + 1;
	return 0;
}

static void lease_unlink(struct np_main *m, struct np_lease *l)
{
	uint32_t *b = &m->id_hash[id_bucket(m, l->l.req.id)];

	while (*b && m->slot[*b - 1].lease != l)
		b = &m->slot[*b - 1].lease->hash_next;
	if (*b)
		*b = l->hash_next;
	b = &m->uid_hash[uid_bucket(m, l->l.uid)];
	while (*b && m->slot[*b - 1].lease != l)
		b = &m->slot[*b - 1].lease->uid_next;
	if (*b)
		*b = l->uid_next;
	m->slot[l->l.slot].lease = NULL;
}

/* The end of a lease object: out of the index, freed. */
void np_lease_expired(struct np_main *m, struct np_lease *l)
{
	lease_unlink(m, l);
	np_prog_put(m, l->prog);
	np_lease_free(l);
}

/* ---- answers -------------------------------------------------------------------- */

void np_lease_reply(struct np_main *m, uint64_t cookie, enum eg_status st,
		    const struct eg_lease *l, const char *fmt, ...)
{
	static struct eg_mp_lease a; /* large; every use fills it anew */
	va_list ap;

	memset(&a, 0, sizeof(a));
	a.status = st;
	va_start(ap, fmt);
	(void)vsnprintf(a.text, sizeof(a.text), fmt, ap);
	va_end(ap);
	if (l)
		memcpy(&a.lease, l,
		       offsetof(struct eg_lease, req.label) +
			       l->req.nlabels * sizeof(struct eg_label));
	(void)eg_role_send(m->ctx, EG_ROLE_API, EG_MP_LEASE, cookie, &a,
			   sizeof(a), -1);
}

struct np_lease *np_lease_which(struct np_main *m, uint64_t cookie,
				const struct eg_pm_which *w, bool change)
{
	const struct np_tomb *tomb;
	struct np_lease *l =
		w->has_uid ? np_lease_uid(m, w->uid) : np_lease_find(m, w->id);

	tomb = l	    ? NULL :
	       w->has_uid ? np_tombs_uid(m->tombs, w->uid) :
			    np_tombs_id(m->tombs, w->id);
	if (tomb) {
		/* Its evidence can still be asked for, so say its uid. */
		struct eg_lease gone = { .generation = tomb->generation,
					 .state = EG_LEASE_RELEASED };

		memcpy(gone.uid, tomb->uid, EG_UID);
		memcpy(gone.req.id, tomb->id, strlen(tomb->id));
		np_lease_reply(m, cookie, EG_E_GONE, &gone,
			       "lease %s has been released", tomb->id);
		return NULL;
	}
	if (!l) {
		np_lease_reply(m, cookie, EG_E_NOT_FOUND, NULL,
			       "there is no such lease");
		return NULL;
	}
	if (w->generation && w->generation != l->l.generation) {
		np_lease_reply(m, cookie, EG_E_STALE, NULL,
			       "generation %llu is not this lease's, which is %llu",
			       (unsigned long long)w->generation,
			       (unsigned long long)l->l.generation);
		return NULL;
	}
	if (w->has_fence_uid && memcmp(w->fence_uid, l->l.uid, EG_UID)) {
		np_lease_reply(m, cookie, EG_E_STALE, NULL,
			       "uid is not this lease's");
		return NULL;
	}
	if (change && w->peer_uid && !w->admin && w->peer_uid != l->l.req.owner) {
		np_lease_reply(m, cookie, EG_E_FORBIDDEN, NULL,
			       "the lease belongs to uid %u, you are uid %u",
			       l->l.req.owner, w->peer_uid);
		return NULL;
	}
	return l;
}

/* ---- checking a request, once more --------------------------------------------------- */

static bool text_ok(const char *s, size_t cap, const char *extra, bool empty)
{
	size_t n = strnlen(s, cap);

	if (n == cap || (!n && !empty))
		return false;
	for (size_t i = 0; i < n; i++) {
		char c = s[i];
		bool alnum = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
			     (c >= 'A' && c <= 'Z');

		if (!alnum && (!i || !strchr(extra, c)))
			return false;
	}
	return true;
}

static const char *req_check(const struct eg_lease_req *q)
{
	if (!text_ok(q->id, EG_ID, "._-", true) ||
	    !text_ok(q->run, EG_ID, "._:@/+=-", true) ||
	    !text_ok(q->tenant, EG_ID, "._:@/+=-", true) ||
	    !text_ok(q->parent_id, EG_ID, "._-", true))
		return "id, run, tenant or parent is not of the accepted form";
	if (q->nlabels > EG_LABELS)
		return "more than 32 labels";
	if (q->guest.mode >= EG_GUEST_COUNT)
		return "unknown guest mode";
	if (memchr(q->phase, 0, sizeof(q->phase)) == NULL ||
	    memchr(q->policy_name, 0, sizeof(q->policy_name)) == NULL)
		return "a text of the request is not terminated";
	return NULL;
}

/* A caller's namespace: who asks, and for what. */
static enum eg_status adopt_check(const struct eg_conf *conf,
				  const struct eg_lease_req *q,
				  struct eg_err *err)
{
	const char *rel;
	uint32_t dir;

	if (q->guest.mode != EG_GUEST_ADOPT)
		return EG_OK;
	if (!eg_adopt_may(conf, q->owner)) {
		(void)eg_err_set(
			err, -EPERM,
			"guest.mode adopt is allowed to root and to [api] adopt_uids; you are uid %u",
			q->owner);
		return EG_E_FORBIDDEN;
	}
	if (!eg_ifname_ok(q->guest.ifname)) {
		(void)eg_err_set(err, -EINVAL,
				 "guest.interface is not a name of a link");
		return EG_E_BAD_REQUEST;
	}
	return eg_adopt_path(conf, q->guest.netns_path, &dir, &rel, err) ?
		       EG_E_BAD_REQUEST :
		       EG_OK;
}

/* ---- making one ------------------------------------------------------------------------ */

/* UUIDv7 (RFC 9562 section 5.7): 48 bits of milliseconds, then random. */
static int uid_make(uint8_t uid[EG_UID], int64_t wall_ns)
{
	uint64_t ms = (uint64_t)(wall_ns / 1000000);

	if (getrandom(uid, EG_UID, 0) != EG_UID)
		return -EIO;
	for (int i = 0; i < 6; i++)
		uid[i] = (uint8_t)(ms >> (40 - 8 * i));
	uid[6] = (uint8_t)(0x70 | (uid[6] & 0x0f));
	uid[8] = (uint8_t)(0x80 | (uid[8] & 0x3f));
	return 0;
}

static void id_make(char id[EG_ID], const uint8_t uid[EG_UID])
{
	(void)snprintf(id, EG_ID,
		       "l-%02x%02x%02x%02x%02x%02x%02x%02x%02x%02x%02x%02x",
		       uid[0], uid[1], uid[2], uid[3], uid[4], uid[5], uid[8],
		       uid[9], uid[10], uid[11], uid[12], uid[13]);
}

/* A caller's path may lead elsewhere, or nowhere, at any time. */
static void lease_netns(const struct np_main *m, struct eg_lease *o)
{
	char name[EG_NETNS_NAME];

	o->netns_volatile = o->req.guest.mode == EG_GUEST_ADOPT;
	if (o->netns_volatile)
		memcpy(o->netns, o->req.guest.netns_path, sizeof(o->netns));
	else
		(void)snprintf(o->netns, sizeof(o->netns), "%.80s/%s",
			       m->conf->netns,
			       eg_plan_netns(name, o->slot, o->generation));
}

static struct np_lease *lease_new(struct np_main *m,
				  const struct eg_lease_req *q, uint32_t slot)
{
	struct np_lease *l = calloc(1, np_lease_size(q->nlabels));
	struct eg_lease *o;
	uint32_t ttl = q->ttl_s ? q->ttl_s : m->conf->default_ttl_s;

	if (!l)
		return NULL;
	o = &l->l;
	memcpy(&o->req, q,
	       offsetof(struct eg_lease_req, label) +
		       q->nlabels * sizeof(struct eg_label));
	o->slot = slot;
	o->gateway = eg_plan_gateway(m->conf, slot);
	o->generation = m->slot[slot].generation;
	o->state = EG_LEASE_LEASED;
	o->mtu = m->gw[o->gateway].mtu;
	o->created_ns = eg_wall_ns();
	o->created_boot_ns = eg_boot_ns();
	o->expires_ns = o->created_ns + ttl * EG_NSEC_PER_SEC;
	o->expires_boot_ns = o->created_boot_ns + ttl * EG_NSEC_PER_SEC;
	o->req.ttl_s = ttl;
	lease_netns(m, o);
	if (uid_make(o->uid, o->created_ns)) {
		free(l);
		return NULL;
	}
	if (!o->req.id[0])
		id_make(o->req.id, o->uid);
	l->phases = q->phases;
	return l;
}

/* A lease that was not completed: nobody has heard of it. */
static void lease_fail(struct np_main *m, struct np_lease *l, enum eg_status st,
		       const char *why)
{
	uint32_t slot = l->l.slot;

	for (unsigned int i = 0; i < NP_WAITERS; i++)
		if (l->waiter[i].set)
			np_lease_reply(m, l->waiter[i].cookie, st, NULL, "%s",
				       why);
	np_record_remove(m, l);
	/* Half of a guest may be there: a new main must not lease it either. */
	if (l->l.req.guest.mode != EG_GUEST_VETH)
		(void)np_record_making(m, l, NULL);
	np_lease_expired(m, l);
	np_pool_scrap(m, slot);
}

/* No name for it: it has expired and is held, or it is revoked. */
static uint8_t closed_for(const struct np_lease *l)
{
	return l->l.state == EG_LEASE_REVOKED ? EG_REASON_REVOKED :
	       l->l.state == EG_LEASE_EXPIRED ? EG_REASON_DNS_DENIED :
						EG_REASON_NONE;
}

void np_lease_announce(struct np_main *m, struct np_lease *l, bool dns, bool audit)
{
	static struct eg_ma_lease a;
	struct eg_ma_policy text;
	struct eg_md_lease d = {.slot = l->l.slot,
				.phases = l->phases,
				.generation = l->l.generation,
				.report = l->l.req.report,
				.closed = closed_for(l)};

	memcpy(d.digest, l->l.req.policy_digest, EG_DIGEST);
	if (dns)
		(void)eg_role_send(m->ctx, EG_ROLE_DNS, EG_MD_LEASE, 0, &d,
				   sizeof(d), l->prog->fd);
	if (!audit)
		return;
	np_prog_tell(m, l->prog); /* first: what the lease then names */
	memset(&a, 0, sizeof(a));
	memcpy(&a.lease, &l->l,
	       offsetof(struct eg_lease, req.label) +
		       l->l.req.nlabels * sizeof(struct eg_label));
	m->k->phase_names(l->prog, l->phases, a.phase_names);
	(void)m->k->prog_text(l->prog, &text);
	memcpy(a.in_force, text.digest, EG_DIGEST);
	(void)eg_role_send(m->ctx, EG_ROLE_AUDIT, EG_MA_LEASE, 0, &a, sizeof(a),
			   -1);
}

static void lease_time(struct np_main *m, const struct np_lease *l)
{
	uint64_t us = (uint64_t)(eg_boot_ns() - l->l.created_boot_ns) / 1000;
	unsigned int b = 0;

	while (b + 1 < EG_ARRAY_SIZE(m->count.lease_us_bucket) &&
	       us >= 1ULL << (b + 1))
		b++;
	m->count.lease_us_bucket[b]++;
}

static void lease_event(struct np_main *m, const struct np_lease *l)
{
	char uid[EG_UUID_TEXT];

	if (eg_parent_has(&l->l.req))
		np_event(m, EG_EV_LEASED, EG_CAUSE_API, l,
			 "slot %u, forked from uid:%s", l->l.slot,
			 eg_uuid_format(l->l.req.parent_uid, uid));
	else
		np_event(m, EG_EV_LEASED, EG_CAUSE_API, l, "slot %u",
			 l->l.slot);
}

/* Last step: kernel, record, siblings, caller. */
static void lease_finish(struct np_main *m, struct np_lease *l)
{
	struct eg_err err = {0};

	l->step = NP_STEP_NONE;
	m->k->digest(l->prog, l->phases, l->l.enforced_digest);
	if (np_record_prog(m, l->prog, &err) || np_record_write(m, l, &err)) {
		lease_fail(m, l, EG_E_INTERNAL, err.text);
		return;
	}
	if (m->k->lease(m, l, &err)) {
		eg_error("lease %s slot %u: %s", l->l.req.id, l->l.slot,
			 err.text);
		lease_fail(m, l, EG_E_INTERNAL, err.text);
		return;
	}
	np_lease_announce(m, l, true, true);
	m->count.leases_total++;
	m->busy_ns = eg_boot_ns();
	if (l->l.slow)
		m->count.slow_total++;
	lease_time(m, l);
	for (unsigned int i = 0; i < NP_WAITERS; i++)
		if (l->waiter[i].set)
			np_lease_reply(m, l->waiter[i].cookie, EG_OK_CREATED,
				       &l->l, "%s", "");
	memset(l->waiter, 0, sizeof(l->waiter));
	lease_event(m, l);
	np_pool_run(m);
}

static void lease_continue(struct np_main *m, struct np_lease *l)
{
	struct eg_mb_guest q = {.slot = l->l.slot,
				.generation = l->l.generation,
				.guest = l->l.req.guest};
	struct eg_err err = {0};

	if (l->l.req.guest.mode == EG_GUEST_VETH ||
	    (l->l.req.guest.mode != EG_GUEST_ADOPT && m->slot[l->l.slot].tap)) {
		lease_finish(m, l);
		return;
	}
	l->step = NP_STEP_GUEST;
	l->step_deadline = eg_boot_ns() + NP_STEP_NS;
	if (np_record_making(m, l, &err)) {
		lease_fail(m, l, EG_E_INTERNAL, err.text);
		return;
	}
	if (eg_role_send(m->ctx, EG_ROLE_BUILD, EG_MB_GUEST, 0, &q, sizeof(q), -1))
		lease_fail(m, l, EG_E_UNAVAILABLE,
			   "the role that makes taps is starting again");
}

void np_lease_armed(struct np_main *m, uint32_t slot, int error)
{
	struct np_lease *l = m->slot[slot].lease;

	if (error)
		lease_fail(m, l, EG_E_INTERNAL,
			   "the namespace could not be named");
	else
		lease_continue(m, l);
}

/* What a caller's namespace is refused for is the caller's to know. */
static enum eg_status guest_status(const struct np_lease *l, int error)
{
	if (l->l.req.guest.mode != EG_GUEST_ADOPT)
		return EG_E_INTERNAL;
	return error == -EINVAL ? EG_E_BAD_REQUEST :
	       error == -EEXIST ? EG_E_EXISTS :
				  EG_E_INTERNAL;
}

void np_lease_guest(struct np_main *m, const struct eg_bm_slot *a)
{
	struct np_lease *l = np_lease_at(m, a->slot, a->generation);

	if (!l || l->step != NP_STEP_GUEST)
		return;
	if (a->error)
		lease_fail(m, l, guest_status(l, a->error),
			   a->text[0] ? a->text : "the tap could not be made");
	else
		lease_finish(m, l);
}

/* build did not answer in time while the lease was being made. */
void np_lease_late(struct np_main *m, struct np_lease *l)
{
	lease_fail(m, l, EG_E_UNAVAILABLE,
		   "the role that makes namespaces did not answer in time");
}

/* The same id again: same body, same lease; anything else is a conflict. */
static bool request_repeated(struct np_main *m, uint64_t cookie,
			     const struct eg_lease_req *q)
{
	struct np_lease *l;

	if (!q->id[0])
		return false;
	if (np_tombs_id(m->tombs, q->id)) {
		np_lease_reply(
			m, cookie, EG_E_GONE, NULL,
			"lease id %s was released a short while ago; a new lease needs a new id",
			q->id);
		return true;
	}
	l = np_lease_find(m, q->id);
	if (!l)
		return false;
	if (memcmp(l->l.req.request_digest, q->request_digest, EG_DIGEST))
		np_lease_reply(m, cookie, EG_E_EXISTS, NULL,
			       "lease id %s exists and was made by another request",
			       q->id);
	else if (l->step != NP_STEP_NONE || m->slot[l->l.slot].state != NP_LEASED)
		np_lease_reply(m, cookie, EG_E_BUSY, NULL,
			       "lease id %s is being made or released; ask again",
			       q->id);
	else
		np_lease_reply(m, cookie, EG_OK, &l->l, "%s", "");
	return true;
}

/* Is there anything to be said against it, or has it been answered before? */
static bool request_refused(struct np_main *m, uint64_t cookie,
			    const struct eg_lease_req *req)
{
	const char *bad = req_check(req);
	struct eg_err err = {0};
	enum eg_status st;

	if (bad) {
		np_lease_reply(m, cookie, EG_E_BAD_REQUEST, NULL, "%s", bad);
		return true;
	}
	if (req->ttl_s > m->conf->max_ttl_s) {
		np_lease_reply(m, cookie, EG_E_BAD_REQUEST, NULL,
			       "ttl_s %u is more than [lease] max_ttl, %u",
			       req->ttl_s, m->conf->max_ttl_s);
		return true;
	}
	st = adopt_check(m->conf, req, &err);
	if (st) {
		np_lease_reply(m, cookie, st, NULL, "%s", err.text);
		return true;
	}
	return request_repeated(m, cookie, req);
}

void np_lease_request(struct np_main *m, uint64_t cookie, int *fd,
		      const struct eg_lease_req *req)
{
	struct np_prog *prog;
	struct np_lease *l;
	struct eg_err err = {0};
	uint32_t slot;
	bool slow, named;

	if (request_refused(m, cookie, req))
		return;
	if (np_prog_get(m, fd, &prog, &err)) {
		np_lease_reply(m, cookie, EG_E_BAD_POLICY, NULL, "%s", err.text);
		return;
	}
	slot = !m->loaded ? UINT32_MAX :
	       req->guest.mode == EG_GUEST_ADOPT ?
			    np_pool_take_bare(m, &slow) :
			    np_pool_take(m, &req->guest, &slow);
	if (slot == UINT32_MAX) {
		m->count.exhausted_total += m->ready_said;
		np_lease_reply(
			m, cookie,
			m->ready_said ? EG_E_EXHAUSTED : EG_E_UNAVAILABLE, NULL,
			m->ready_said
				? "no slot is free: %u of %u are built and all are leased; ask again later"
				: "the pool is starting: %u of %u slots are built; ask again in a moment",
			m->ready_said ? m->prefill : 0, m->conf->slots);
		np_prog_put(m, prog);
		return;
	}
	l = lease_new(m, req, slot);
	if (!l || np_lease_insert(m, l)) {
		np_lease_free(l);
		np_prog_put(m, prog);
		np_pool_scrap(m, slot);
		np_lease_reply(m, cookie, EG_E_INTERNAL, NULL, "out of memory");
		return;
	}
	named = m->slot[slot].state != NP_IDLE;
	np_slot_set(m, slot, NP_LEASED);
	l->prog = prog;
	l->l.slow = slow;
	l->waiter[0] = (struct np_waiter){.cookie = cookie, .set = true};
	if (named || req->guest.mode == EG_GUEST_ADOPT) {
		lease_continue(m, l);
		return;
	}
	l->step = NP_STEP_ARM;
	l->step_deadline = eg_boot_ns() + NP_STEP_NS;
}

/* ---- a live one ------------------------------------------------------------------------------ */

/* Only a lease at rest can be changed. */
static bool at_rest(struct np_main *m, uint64_t cookie, struct np_lease *l)
{
	if (l->step == NP_STEP_NONE && m->slot[l->l.slot].state == NP_LEASED)
		return true;
	np_lease_reply(m, cookie, EG_E_BUSY, NULL,
		       "the lease is being made or released");
	return false;
}

/* Only one in force can be renewed or moved to another phase. */
static bool changeable(struct np_main *m, uint64_t cookie,
		       const struct np_lease *l)
{
	if (l->l.state == EG_LEASE_LEASED)
		return true;
	if (l->l.state == EG_LEASE_REVOKED)
		np_lease_reply(m, cookie, EG_E_REVOKED, NULL,
			       "lease %s has been revoked%s%s", l->l.req.id,
			       l->l.revoked_why[0] ? ": " : "",
			       l->l.revoked_why);
	else
		np_lease_reply(m, cookie, EG_E_GONE, NULL,
			       "lease %s has %s and cannot be changed any more",
			       l->l.req.id,
			       l->l.state == EG_LEASE_LOST ?
				       "lost its namespace" :
				       "expired");
	return false;
}

void np_lease_renew(struct np_main *m, uint64_t cookie,
		    const struct eg_pm_which *w)
{
	struct np_lease *l = np_lease_which(m, cookie, w, true);
	struct eg_err err = {0};
	int64_t ttl = w->ttl_s * EG_NSEC_PER_SEC;

	if (!l || !at_rest(m, cookie, l))
		return;
	if (!w->ttl_s || w->ttl_s > m->conf->max_ttl_s) {
		np_lease_reply(m, cookie, EG_E_BAD_REQUEST, NULL,
			       "ttl_s %u is not between 1 and [lease] max_ttl, %u",
			       w->ttl_s, m->conf->max_ttl_s);
		return;
	}
	if (!changeable(m, cookie, l))
		return;
	l->l.expires_ns = eg_wall_ns() + ttl;
	l->l.expires_boot_ns = eg_boot_ns() + ttl;
	l->l.req.ttl_s = w->ttl_s;
	l->said_80 = l->said_60 = false;
	if (np_record_write(m, l, &err))
		eg_error("record of %s: %s", l->l.req.id, err.text);
	np_lease_announce(m, l, false, true); /* its request says ttl_s */
	np_event(m, EG_EV_RENEWED, EG_CAUSE_API, l, "for %u s", w->ttl_s);
	np_lease_reply(m, cookie, EG_OK, &l->l, "%s", "");
}

void np_lease_phase(struct np_main *m, uint64_t cookie,
		    const struct eg_pm_which *w)
{
	struct np_lease *l = np_lease_which(m, cookie, w, true);
	struct eg_err err = {0};
	uint32_t old;

	if (!l || !at_rest(m, cookie, l) || !changeable(m, cookie, l))
		return;
	if (memchr(w->phase, 0, sizeof(w->phase)) == NULL) {
		np_lease_reply(m, cookie, EG_E_BAD_REQUEST, NULL,
			       "the phase is not terminated");
		return;
	}
	old = l->phases;
	l->phases = w->phases;
	if (m->k->rephase(m, l, &err)) {
		l->phases = old;
		np_lease_reply(m, cookie, EG_E_INTERNAL, NULL, "%s", err.text);
		return;
	}
	memcpy(l->l.req.phase, w->phase, sizeof(l->l.req.phase));
	l->l.req.phases = w->phases;
	m->k->digest(l->prog, l->phases, l->l.enforced_digest);
	if (np_record_write(m, l, &err))
		eg_error("record of %s: %s", l->l.req.id, err.text);
	np_lease_announce(m, l, true, true);
	np_event(m, EG_EV_PHASE, EG_CAUSE_API, l, "%.100s", l->l.req.phase);
	np_lease_reply(m, cookie, EG_OK, &l->l, "%s", "");
}

/*
 * np_lease_close() - from here on nothing new, for @state REVOKED nothing
 *
 * `none` takes the policy's place in one batch with the rest; the lease keeps
 * the policy's name and digest, which are what it was leased with. On failure
 * the lease is as it was.
 */
int np_lease_close(struct np_main *m, struct np_lease *l,
		   enum eg_lease_state state, struct eg_err *err)
{
	struct np_prog *none = NULL, *old = l->prog;
	uint8_t was = l->l.state;
	uint32_t phases = l->phases;
	int fd = -1, r = m->k->prog_none(&fd);

	if (r)
		return eg_err_sys(err, r, "sealed memory");
	r = np_prog_get(m, &fd, &none, err);
	eg_close_p(&fd);
	if (r)
		return r;
	l->prog = none;
	l->phases = 0;
	l->l.state = (uint8_t)state;
	r = m->k->rephase(m, l, err);
	if (r) {
		l->prog = old;
		l->phases = phases;
		l->l.state = was;
		np_prog_put(m, none);
		return r;
	}
	m->k->digest(l->prog, l->phases, l->l.enforced_digest);
	if (np_record_prog(m, none, err) || np_record_write(m, l, err))
		eg_error("record of %s: %s", l->l.req.id, err->text);
	np_lease_announce(m, l, true, true);
	np_record_unprog(m, old);
	np_prog_put(m, old);
	return 0;
}

static bool why_ok(const char why[EG_WHY])
{
	size_t n = strnlen(why, EG_WHY);

	for (size_t i = 0; i < n; i++)
		if ((unsigned char)why[i] < 0x20 || why[i] == 0x7f)
			return false;
	return n < EG_WHY;
}

void np_lease_revoke(struct np_main *m, uint64_t cookie,
		     const struct eg_pm_which *w)
{
	struct np_lease *l = np_lease_which(m, cookie, w, true);
	struct eg_err err = {0};
	int64_t was;

	if (!l || !at_rest(m, cookie, l))
		return;
	if (l->l.state == EG_LEASE_REVOKED) { /* the first reason stays */
		np_lease_reply(m, cookie, EG_OK, &l->l, "%s", "");
		return;
	}
	if (!why_ok(w->why)) {
		np_lease_reply(m, cookie, EG_E_BAD_REQUEST, NULL,
			       "the reason is not a line of text");
		return;
	}
	was = l->l.revoked_ns;
	l->l.revoked_ns = eg_wall_ns();
	memcpy(l->l.revoked_why, w->why, EG_WHY);
	if (np_lease_close(m, l, EG_LEASE_REVOKED, &err)) {
		l->l.revoked_ns = was;
		np_lease_reply(m, cookie, EG_E_INTERNAL, NULL, "%s", err.text);
		return;
	}
	np_event(m, EG_EV_REVOKED, EG_CAUSE_API, l, "%s", l->l.revoked_why);
	np_lease_reply(m, cookie, EG_OK, &l->l, "%s", "");
}

/* ---- labels ---------------------------------------------------------------------------------- */

/* Where a key is among the labels, or its new place; NULL: no room. */
static struct eg_label *label_at(struct eg_lease_req *q, const char *key)
{
	for (unsigned int i = 0; i < q->nlabels; i++)
		if (!strncmp(q->label[i].key, key, EG_LABEL_KEY))
			return &q->label[i];
	return q->nlabels < EG_LABELS ? &q->label[q->nlabels++] : NULL;
}

/* The lease with more labels, in the place of the one there was. */
static struct np_lease *relabel(struct np_main *m, struct np_lease *l,
				const struct eg_lease_req *q)
{
	struct np_lease *n = realloc(l, np_lease_size(q->nlabels));

	if (!n)
		return NULL;
	m->slot[n->l.slot].lease = n;
	n->l.req.nlabels = q->nlabels;
	memcpy(n->l.req.label, q->label, q->nlabels * sizeof(q->label[0]));
	return n;
}

static const char *annotate_check(const struct eg_pm_annotate *q)
{
	if (q->nlabels > EG_LABELS)
		return "more than 32 labels";
	for (uint32_t i = 0; i < q->nlabels; i++)
		if (!q->label[i].key[0] ||
		    !memchr(q->label[i].key, 0, EG_LABEL_KEY) ||
		    !memchr(q->label[i].value, 0, EG_LABEL_VALUE))
			return "a label is not terminated or has no key";
	return NULL;
}

void np_lease_annotate(struct np_main *m, uint64_t cookie,
		       const struct eg_pm_annotate *q)
{
	static struct eg_lease_req all; /* large; every use fills it anew */
	struct np_lease *l = np_lease_which(m, cookie, &q->which, true);
	const char *bad = annotate_check(q);
	struct eg_err err = {0};

	if (!l || !at_rest(m, cookie, l))
		return;
	all.nlabels = l->l.req.nlabels;
	memcpy(all.label, l->l.req.label, all.nlabels * sizeof(all.label[0]));
	for (uint32_t i = 0; !bad && i < q->nlabels; i++) {
		struct eg_label *to = label_at(&all, q->label[i].key);

		if (to)
			*to = q->label[i];
		else
			bad = "the lease would have more than 32 labels; 32 are accepted, a key that is there is replaced";
	}
	if (bad) {
		np_lease_reply(m, cookie, EG_E_BAD_REQUEST, NULL, "%s", bad);
		return;
	}
	l = relabel(m, l, &all);
	if (!l) {
		np_lease_reply(m, cookie, EG_E_INTERNAL, NULL, "out of memory");
		return;
	}
	if (np_record_write(m, l, &err))
		eg_error("record of %s: %s", l->l.req.id, err.text);
	np_lease_announce(m, l, false, true);
	np_lease_reply(m, cookie, EG_OK, &l->l, "%s", "");
}

void np_lease_get(struct np_main *m, uint64_t cookie, const struct eg_pm_which *w)
{
	struct np_lease *l = np_lease_which(m, cookie, w, false);

	if (l)
		np_lease_reply(m, cookie, EG_OK, &l->l, "%s", "");
}

void np_lease_list(struct np_main *m, uint64_t cookie, const struct eg_pm_list *q)
{
	uint32_t limit = eg_min_u32(q->limit, LIST_A_CALL), sent = 0, k;
	struct eg_mp_end end = {.status = EG_OK};

	for (k = q->after; k < m->conf->slots && sent < limit; k++) {
		const struct np_lease *l = m->slot[k].lease;

		if (!l || l->step == NP_STEP_ARM || l->step == NP_STEP_GUEST)
			continue;
		np_lease_reply(m, cookie, EG_OK, &l->l, "%s", "");
		sent++;
	}
	end.next = k < m->conf->slots ? k : 0;
	(void)eg_role_send(m->ctx, EG_ROLE_API, EG_MP_END, cookie, &end,
			   sizeof(end), -1);
}

/* ---- after a restart ---------------------------------------------------------------------------- */

/*
 * The gateway is up and the lease's record was there. Its name must be, too:
 * a lease whose namespace has gone is lost, said and released. Of an adopted
 * namespace there is a link or none: build looks and tells (pool.c, on_event).
 */
int np_lease_take_over(struct np_main *m, struct np_lease *l)
{
	struct np_slot *s = &m->slot[l->l.slot];
	struct eg_err err = {0};
	int r;

	np_slot_set(m, l->l.slot, NP_LEASED);
	s->generation = l->l.generation;
	if (l->l.state == EG_LEASE_RELEASING) {
		l->l.state = EG_LEASE_LEASED;
		np_release(m, l, EG_CAUSE_RESTART);
		return 0;
	}
	if (s->scan != 1 + EG_SCAN_NAMED &&
	    l->l.req.guest.mode != EG_GUEST_ADOPT) {
		l->l.state = EG_LEASE_LOST;
		eg_warning("lease %s: its namespace %s is gone", l->l.req.id,
			   l->l.netns);
		np_release(m, l, EG_CAUSE_RESTART);
		return -ENOENT;
	}
	r = m->k->take_over(m, l, &err);
	if (r) {
		eg_error("lease %s slot %u cannot be taken over: %s",
			 l->l.req.id, l->l.slot, err.text);
		np_release(m, l, EG_CAUSE_RESTART);
		return r;
	}
	np_lease_announce(m, l, true, true);
	if (l->l.req.guest.mode == EG_GUEST_ADOPT)
		(void)np_pool_ask(m, EG_MB_ADOPTED, l->l.slot);
	eg_info("lease %s slot %u generation %llu taken over", l->l.req.id,
		l->l.slot, (unsigned long long)l->l.generation);
	return 0;
}
