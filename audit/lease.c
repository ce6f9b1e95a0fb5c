// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: what audit knows of each lease (see lease.h)
 */
#include "audit/lease.h"
#include "netpool/base/digest.h"
#include "netpool/base/jsonw.h"
#include "netpool/base/spec.h"
#include "netpool/base/stamp.h"
#include "netpool/base/util.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* 32 labels of key and value, each octet six characters at worst */
#define LABELS_MAX (EG_LABELS * (EG_LABEL_KEY + EG_LABEL_VALUE) * 6)
#define PREFLIGHT "preflight"

int au_leases_init(struct au_leases *t, uint32_t slots)
{
	*t = (struct au_leases){.slots = slots};
	/* NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers */
	t->at = calloc((size_t)slots * AU_GENERATIONS, sizeof(*t->at));
	return t->at ? 0 : -ENOMEM;
}

static void names_free(struct au_leases *t, struct au_lease *l)
{
	for (uint32_t i = 0; i < l->names; i++) {
		t->name_bytes -= strlen(l->name[i].text) + 1;
		free(l->name[i].text);
	}
	free(l->addr);
	free(l->name);
}

/* What describe() made. */
static void texts_free(struct au_lease *l)
{
	free(l->who);
	free(l->labels);
	free(l->all_labels);
	free(l->request);
	l->who = l->labels = l->all_labels = l->request = NULL;
}

static void lease_free(struct au_leases *t, struct au_lease *l)
{
	names_free(t, l);
	texts_free(l);
	free(l->phase);
	free(l->span);
	free(l->end);
	free(l);
}

void au_leases_done(struct au_leases *t)
{
	if (!t->at)
		return;
	for (size_t i = 0; i < (size_t)t->slots * AU_GENERATIONS; i++)
		if (t->at[i])
			lease_free(t, t->at[i]);
	free(t->at);
	t->at = NULL;
}

static struct au_lease **places(struct au_leases *t, uint32_t slot)
{
	return &t->at[(size_t)slot * AU_GENERATIONS];
}

struct au_lease *au_lease_find(struct au_leases *t, uint32_t slot,
			       uint64_t generation)
{
	if (slot >= t->slots)
		return NULL;
	for (int i = 0; i < AU_GENERATIONS; i++) {
		struct au_lease *l = places(t, slot)[i];

		if (l && l->generation == generation)
			return l;
	}
	return NULL;
}

struct au_lease *au_lease_epoch(struct au_leases *t, uint32_t slot, uint32_t epoch)
{
	if (slot >= t->slots || !epoch)
		return NULL;
	for (int i = 0; i < AU_GENERATIONS; i++) {
		struct au_lease *l = places(t, slot)[i];

		if (l && !l->sealed && eg_epoch(l->generation) == epoch)
			return l;
	}
	return NULL;
}

struct au_lease *au_lease_newest(struct au_leases *t, uint32_t slot)
{
	struct au_lease *best = NULL;

	if (slot >= t->slots)
		return NULL;
	for (int i = 0; i < AU_GENERATIONS; i++) {
		struct au_lease *l = places(t, slot)[i];

		if (l && !l->sealed && (!best || l->generation > best->generation))
			best = l;
	}
	return best;
}

void au_lease_remove(struct au_leases *t, struct au_lease *l)
{
	for (int i = 0; i < AU_GENERATIONS; i++)
		if (places(t, l->slot)[i] == l)
			places(t, l->slot)[i] = NULL;
	lease_free(t, l);
}

const char *au_lease_dir(const uint8_t uid[EG_UID], int64_t created_ns,
			 char buf[AU_DIR_TEXT])
{
	char date[EG_DATE_TEXT], text[EG_UUID_TEXT];

	(void)snprintf(buf, AU_DIR_TEXT, "%s/%s", eg_stamp_date(created_ns, date),
		       eg_uuid_format(uid, text));
	return buf;
}

/* ---- what records repeat --------------------------------------------------- */

/* Members of an object, without its braces, in memory of their own. */
static char *members(struct eg_jsonw *w)
{
	long n;

	eg_jsonw_end(w);
	n = eg_jsonw_done(w);
	return n < 0 ? NULL : strndup(w->buf + 1, (size_t)n - 2);
}

static char *make_who(const struct eg_lease *l)
{
	char buf[4096], uid[EG_UUID_TEXT];
	struct eg_jsonw w;

	eg_jsonw_init(&w, buf, sizeof(buf));
	eg_jsonw_object(&w, NULL);
	eg_jsonw_str(&w, "lease", l->req.id);
	eg_jsonw_str(&w, "uid", eg_uuid_format(l->uid, uid));
	eg_jsonw_u64(&w, "slot", l->slot);
	eg_jsonw_u64(&w, "generation", l->generation);
	eg_jsonw_str(&w, "run", l->req.run);
	eg_jsonw_str(&w, "tenant", l->req.tenant);
	return members(&w);
}

/* As many labels as fit in @cap, and how many do not. */
static char *make_labels(const struct eg_lease_req *q, char *buf, size_t cap)
{
	struct eg_jsonw w;
	unsigned int n = 0;

	eg_jsonw_init(&w, buf, cap);
	eg_jsonw_object(&w, NULL);
	eg_jsonw_object(&w, "labels");
	for (; n < q->nlabels && n < EG_LABELS; n++) {
		struct eg_jsonw before = w;

		eg_jsonw_str(&w, q->label[n].key, q->label[n].value);
		if (w.overflow || w.cap - w.len < 32) {
			w = before;
			break;
		}
	}
	eg_jsonw_end(&w);
	if (n < q->nlabels)
		eg_jsonw_u64(&w, "labels_more", q->nlabels - n);
	return members(&w);
}

static char *make_request(const struct eg_lease *l)
{
	char buf[6144], stamp[EG_STAMP_TEXT];
	struct eg_jsonw w;

	eg_jsonw_init(&w, buf, sizeof(buf));
	eg_jsonw_object(&w, NULL);
	eg_parent_write(&w, &l->req);
	if (l->revoked_ns) {
		eg_jsonw_object(&w, "revoked");
		eg_jsonw_str(&w, "time", eg_stamp_ns(l->revoked_ns, stamp));
		eg_jsonw_str(&w, "reason", l->revoked_why);
		eg_jsonw_end(&w);
	}
	eg_jsonw_object(&w, "request");
	eg_spec_write(&w, &l->req);
	eg_jsonw_end(&w);
	return members(&w);
}

static char *make_phase(const struct au_span *s)
{
	char buf[4096], digest[8 + EG_SHA256_HEX] = "sha256:";
	struct eg_jsonw w;

	(void)eg_hex(digest + 7, s->digest, EG_DIGEST);
	eg_jsonw_init(&w, buf, sizeof(buf));
	eg_jsonw_object(&w, NULL);
	eg_jsonw_str(&w, "phase", s->phase);
	eg_jsonw_str(&w, "policy", digest);
	return members(&w);
}

/* Is "preflight" one of the comma-separated names? */
static bool in_preflight(const char *phase)
{
	size_t len = sizeof(PREFLIGHT) - 1;

	for (const char *p = phase; (p = strstr(p, PREFLIGHT)); p += len)
		if ((p == phase || p[-1] == ',') && (!p[len] || p[len] == ','))
			return true;
	return false;
}

int au_lease_span(struct au_lease *l, int64_t from_ns,
		  const uint8_t digest[EG_DIGEST], const char *phase)
{
	struct au_span *s;
	char *text;

	if (l->spans == AU_SPANS) {
		l->spans_lost++; /* the last place holds the present one */
		l->spans--;
	}
	s = realloc(l->span, (l->spans + 1) * sizeof(*s));
	if (!s)
		return -ENOMEM;
	l->span = s;
	s += l->spans;
	memset(s, 0, sizeof(*s));
	s->from_ns = from_ns;
	memcpy(s->digest, digest, EG_DIGEST);
	(void)snprintf(s->phase, sizeof(s->phase), "%s", phase);
	text = make_phase(s);
	if (!text)
		return -ENOMEM;
	free(l->phase);
	l->phase = text;
	l->spans++;
	l->probe = in_preflight(phase);
	return 0;
}

/* ---- leases ---------------------------------------------------------------- */

/* What records and the manifest say of it, as of now. */
static int describe(struct au_lease *n, const struct eg_conf *conf,
		    const struct eg_lease *l)
{
	EG_CLEANUP_FREE char *big = malloc(LABELS_MAX);
	struct au_lease new = {0};
	char buf[AU_LABELS_TEXT];

	if (!big)
		return -ENOMEM;
	new.who = make_who(l);
	new.labels = make_labels(&l->req, buf, sizeof(buf));
	new.all_labels = make_labels(&l->req, big, LABELS_MAX);
	new.request = make_request(l);
	if (!new.who || !new.labels || !new.all_labels || !new.request) {
		texts_free(&new);
		return -ENOMEM;
	}
	texts_free(n);
	n->who = new.who;
	n->labels = new.labels;
	n->all_labels = new.all_labels;
	n->request = new.request;
	n->report = l->req.report;
	n->drop = l->req.deny == EG_DENY_DROP ||
		  (l->req.deny == EG_DENY_DEFAULT && conf->deny_drop);
	return 0;
}

static struct au_lease *lease_new(const struct eg_lease *l)
{
	struct au_lease *n = calloc(1, sizeof(*n));

	if (!n)
		return NULL;
	n->slot = l->slot;
	n->generation = l->generation;
	memcpy(n->uid, l->uid, EG_UID);
	memcpy(n->id, l->req.id, EG_ID);
	n->created_ns = l->created_ns;
	n->tokens = AU_FRAME_RATE;
	return n;
}

static int update(struct au_lease *l, const struct eg_ma_lease *m, int64_t wall_ns)
{
	const struct au_span *s = l->spans ? &l->span[l->spans - 1] : NULL;
	char phase[sizeof(m->phase_names)];

	memcpy(phase, m->phase_names, sizeof(phase));
	phase[sizeof(phase) - 1] = '\0';
	if (s && !strcmp(s->phase, phase) &&
	    !memcmp(s->digest, m->in_force, EG_DIGEST))
		return 0;
	return au_lease_span(l, s ? wall_ns : l->created_ns, m->in_force, phase);
}

static void terminate(struct eg_lease *l)
{
	l->req.id[EG_ID - 1] = l->req.run[EG_ID - 1] = '\0';
	l->req.tenant[EG_ID - 1] = l->req.parent_id[EG_ID - 1] = '\0';
	l->req.policy_name[EG_POLICY_NAME - 1] = '\0';
	l->req.phase[sizeof(l->req.phase) - 1] = '\0';
	l->req.guest.tap[EG_IFNAME - 1] = l->revoked_why[EG_WHY - 1] = '\0';
	for (unsigned int i = 0; i < EG_LABELS; i++) {
		l->req.label[i].key[EG_LABEL_KEY - 1] = '\0';
		l->req.label[i].value[EG_LABEL_VALUE - 1] = '\0';
	}
}

struct au_lease *au_lease_add(struct au_leases *t, const struct eg_conf *conf,
			      const struct eg_ma_lease *m, int64_t wall_ns,
			      bool *ret_new, struct eg_err *err)
{
	static struct eg_lease copy;
	struct au_lease *l = au_lease_find(t, m->lease.slot, m->lease.generation);
	struct au_lease **free_place = NULL;

	*ret_new = !l;
	if (m->lease.slot >= t->slots) {
		(void)eg_err_set(err, -EINVAL, "slot %u, there are %u",
				 m->lease.slot, t->slots);
		return NULL;
	}
	for (int i = 0; !l && i < AU_GENERATIONS; i++)
		if (!places(t, m->lease.slot)[i])
			free_place = &places(t, m->lease.slot)[i];
	if (!l && !free_place) {
		(void)eg_err_set(err, -EBUSY,
				 "slot %u: %d leases wait for their end",
				 m->lease.slot, AU_GENERATIONS);
		return NULL;
	}
	copy = m->lease;
	terminate(&copy);
	if (!l)
		l = lease_new(&copy);
	if (!l || describe(l, conf, &copy) ||
	    (!l->ending && update(l, m, wall_ns))) {
		if (l && free_place)
			lease_free(t, l);
		(void)eg_err_set(err, -ENOMEM, "no memory for lease of slot %u",
				 m->lease.slot);
		return NULL;
	}
	if (free_place)
		*free_place = l;
	return l;
}

/* ---- names ------------------------------------------------------------------- */

static int names_grow(struct au_lease *l)
{
	uint32_t cap = l->names_cap ? l->names_cap * 2 : 8;
	uint32_t *a = realloc(l->addr, cap * sizeof(*a));
	struct au_name *n;

	if (!a)
		return -ENOMEM;
	l->addr = a;
	n = realloc(l->name, cap * sizeof(*n));
	if (!n)
		return -ENOMEM;
	l->name = n;
	l->names_cap = cap;
	return 0;
}

static uint32_t oldest(const struct au_lease *l)
{
	uint32_t o = 0;

	for (uint32_t i = 1; i < l->names; i++)
		if (l->name[i].learned_ns < l->name[o].learned_ns)
			o = i;
	return o;
}

/* Place for @addr: its own, a new one, or the oldest's; names if none. */
static uint32_t name_place(struct au_leases *t, struct au_lease *l, uint32_t addr)
{
	bool full = l->names == AU_NAMES || t->name_bytes >= AU_NAME_BYTES;

	for (uint32_t i = 0; i < l->names; i++)
		if (l->addr[i] == addr)
			return i;
	if (full)
		return oldest(l);
	if (l->names == l->names_cap && names_grow(l))
		return l->names;
	l->name[l->names] = (struct au_name){0};
	return l->names++;
}

static void name_set(struct au_leases *t, struct au_lease *l, uint32_t addr,
		     const struct au_name *v)
{
	uint32_t i;
	char *text = strdup(v->text);

	if (!text)
		return; /* a record without a name is still a record */
	i = name_place(t, l, addr);
	if (i >= l->names) {
		free(text);
		return;
	}
	if (l->name[i].text)
		t->name_bytes -= strlen(l->name[i].text) + 1;
	free(l->name[i].text);
	l->name[i] = *v;
	l->name[i].text = text;
	l->addr[i] = addr;
	t->name_bytes += strlen(text) + 1;
}

void au_lease_name(struct au_leases *t, struct au_lease *l,
		   const struct eg_da_name *n, int64_t now_ns)
{
	char text[EG_NAME_TEXT];
	struct au_name v = {
		.text = text, .learned_ns = now_ns, .lifetime_s = n->lifetime_s};

	(void)eg_name_format(&n->name, text);
	v.hostname = eg_name_labels(&n->name) > 1 &&
		     eg_name_ldh(&n->name, eg_name_labels(&n->name));
	for (uint32_t i = 0; i < n->naddrs && i < EG_PIN_ADDRS; i++)
		name_set(t, l, n->addr[i], &v);
}

const struct au_name *au_lease_name_of(const struct au_lease *l, uint32_t addr)
{
	for (uint32_t i = 0; i < l->names; i++)
		if (l->addr[i] == addr)
			return &l->name[i];
	return NULL;
}

/* ---- frames ------------------------------------------------------------------ */

static bool first_of_key(struct au_lease *l, uint32_t key)
{
	for (uint32_t i = 0; i < l->nseen; i++)
		if (l->seen[i] == key)
			return false;
	if (l->nseen == AU_SEEN)
		return false;
	l->seen[l->nseen++] = key;
	return true;
}

static bool rate_allows(struct au_lease *l, int64_t now_ns)
{
	int64_t step = EG_NSEC_PER_SEC / AU_FRAME_RATE;
	int64_t n = (now_ns - l->tokens_ns) / step;

	if (n > 0) {
		l->tokens = n + l->tokens > AU_FRAME_RATE
				    ? AU_FRAME_RATE
				    : l->tokens + (uint32_t)n;
		l->tokens_ns += n * step;
	}
	if (!l->tokens)
		return false;
	l->tokens--;
	return true;
}

bool au_lease_frame(struct au_lease *l, enum eg_reason reason, uint32_t key,
		    int64_t now_ns)
{
	struct au_frames *f = &l->frame[reason];
	bool record = first_of_key(l, key) || rate_allows(l, now_ns);

	f->denied++;
	if (record) {
		f->sent++;
		return true;
	}
	f->suppressed++;
	f->held++;
	return false;
}
