// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: policy text to program (see parse.h): sections, includes, and the
 * checks that need the whole policy
 */
#include "rules/parse.h"
#include "netpool/base/digest.h"
#include "netpool/base/ini.h"
#include "netpool/base/log.h"
#include "netpool/base/util.h"
#include "netpool/base/value.h"
#include "rules/canon.h"
#include "rules/entry.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define QUOTE 80
#define HOSTS 1024   /* each is compared with every allow entry */
#define SHADOWS 256  /* deny entries compared with every allow entry */
#define FIRST_CAP 64 /* entries allocated at first */

enum section { SEC_POLICY, SEC_HOST, SEC_ALLOW, SEC_DENY, SEC_COUNT };

static const char *const section_names[] = {
	[SEC_POLICY] = "policy",
	[SEC_HOST] = "host",
	[SEC_ALLOW] = "allow",
	[SEC_DENY] = "deny",
};
_Static_assert(EG_ARRAY_SIZE(section_names) == SEC_COUNT, "sections");

struct parser {
	const struct rl_parse_env *env;
	const char *file; /* of the outermost policy */
	struct rl_prog *p;
	uint32_t cap;
	struct rl_warnings *w;
	bool has_name, has_description;
	bool canon;    /* the text being read is a canonical one */
	uint32_t twin; /* where joins() begins to look */
	/* of the text being read */
	enum section section;
	uint32_t phases;
	uint32_t include_line; /* in the outermost policy; 0: it itself */
	/* of the includes that lead to it */
	uint32_t depth, includes, hosts;
	char stack[RL_INCLUDE_DEPTH][EG_POLICY_NAME];
};

/* ---- sections and phases ------------------------------------------------- */

/* Bit of a phase, which is added when it is new; 0 after an error. */
static uint32_t phase_bit(struct parser *s, const struct eg_ini_entry *e,
			  const char *name, size_t n, uint32_t col,
			  struct eg_err *err)
{
	struct rl_prog *p = s->p;
	uint32_t i = 0;

	if (!n || n >= EG_PHASE || name[0] < 'a' || name[0] > 'z' ||
	    strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") < n) {
		(void)eg_ini_err(
			err, -EINVAL, e->file, e->line, col,
			"'%.*s' is not a phase; a phase is a lower-case letter and up to %d lower-case letters, digits and '-'",
			(int)n, name, EG_PHASE - 2);
		return 0;
	}
	if (n == 9 && !memcmp(name, "preflight", 9)) {
		(void)eg_ini_err(
			err, -EINVAL, e->file, e->line, col,
			"phase 'preflight' is built in (all phases together); choose another name");
		return 0;
	}
	while (i < p->nphases &&
	       (strlen(p->phase[i]) != n || memcmp(p->phase[i], name, n)))
		i++;
	if (i == EG_PHASES) {
		(void)eg_ini_err(err, -EINVAL, e->file, e->line, col,
				 "'%.*s' is phase %d; a policy has %d at most",
				 (int)n, name, EG_PHASES + 1, EG_PHASES);
		return 0;
	}
	if (i == p->nphases) {
		memcpy(p->phase[i], name, n);
		p->nphases++;
	}
	return 1U << i;
}

static int parse_phases(struct parser *s, const struct eg_ini_entry *e,
			const char *text, struct eg_err *err)
{
	uint32_t bits = 0;

	while (*text) {
		size_t n = strcspn(text, " ");
		uint32_t col = e->col + (uint32_t)(text - e->section);
		uint32_t bit = phase_bit(s, e, text, n, col, err);

		if (!bit)
			return -EINVAL;
		if (bits & bit)
			return eg_ini_err(err, -EINVAL, e->file, e->line, col,
					  "phase '%.*s' stands twice", (int)n,
					  text);
		bits |= bit;
		text += n + (text[n] ? 1 : 0);
	}
	if (bits == RL_PHASES_ALL)
		return eg_ini_err(
			err, -EINVAL, e->file, e->line, e->col,
			"the section names all %d phases there can be; write [allow] for every phase",
			EG_PHASES);
	s->phases = bits;
	return 0;
}

static int on_section(void *arg, const struct eg_ini_entry *e, struct eg_err *err)
{
	size_t n = strcspn(e->section, " ");
	struct parser *s = arg;
	char word[EG_INI_SECTION + 1];
	const char *near;

	memcpy(word, e->section, n);
	word[n] = '\0';
	for (s->section = 0; s->section < SEC_COUNT; s->section++)
		if (!strcmp(word, section_names[s->section]))
			break;
	s->phases = RL_PHASES_ALL;
	if (s->section == SEC_COUNT) {
		near = eg_nearest(word, section_names, SEC_COUNT);
		return eg_ini_err(
			err, -EINVAL, e->file, e->line, e->col,
			"there is no section [%s]; %s%s%s", e->section,
			near ? "did you mean ["
			     : "sections are [policy], [host], [allow], [allow PHASE...] and [deny",
			near ? near : "", near ? "]?" : "]");
	}
	if (!e->section[n])
		return 0;
	if (s->section != SEC_ALLOW)
		return eg_ini_err(
			err, -EINVAL, e->file, e->line, e->col + (uint32_t)n + 1,
			"[%s] counts in every phase; only [allow PHASE...] names phases",
			word);
	return parse_phases(s, e, e->section + n + 1, err);
}

/* ---- [policy] ------------------------------------------------------------ */

static bool name_valid(const char *s)
{
	static const char first[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
	size_t n = strlen(s);

	if (!n || n >= EG_POLICY_NAME || !strchr(first, s[0]))
		return false;
	for (size_t i = 1; i < n; i++)
		if (!strchr(first, s[i]) && !strchr("._-", s[i]))
			return false;
	return true;
}

static int set_name(struct parser *s, const struct eg_ini_entry *e,
		    struct eg_err *err)
{
	char q[QUOTE];

	if (!name_valid(e->value))
		return eg_ini_err(
			err, -EINVAL, e->file, e->line, e->col,
			"'%s' is not a policy's name; a letter or digit and up to %d letters, digits, '.', '_' and '-' are",
			eg_escape(q, sizeof(q), e->value, strlen(e->value)),
			EG_POLICY_NAME - 2);
	if (!strcmp(e->value, "none"))
		return eg_ini_err(
			err, -EINVAL, e->file, e->line, e->col,
			"policy 'none' is built in (it denies everything); choose another name");
	if (s->include_line)
		return 0;
	if (s->has_name)
		return eg_ini_err(err, -EINVAL, e->file, e->line, 1,
				  "the name stands twice");
	if (s->env->name && strcmp(s->env->name, e->value))
		return eg_ini_err(
			err, -EINVAL, e->file, e->line, e->col,
			"the name is '%s' but the file is '%s.policy'; make them the same",
			e->value, s->env->name);
	s->has_name = true;
	memcpy(s->p->name, e->value, strlen(e->value) + 1);
	return 0;
}

static int set_description(struct parser *s, const struct eg_ini_entry *e,
			   struct eg_err *err)
{
	size_t n = strlen(e->value);

	if (n >= sizeof(s->p->description))
		return eg_ini_err(err, -EINVAL, e->file, e->line, e->col,
				  "the description is longer than %zu bytes",
				  sizeof(s->p->description) - 1);
	if (s->include_line)
		return 0;
	if (s->has_description)
		return eg_ini_err(err, -EINVAL, e->file, e->line, 1,
				  "the description stands twice");
	s->has_description = true;
	memcpy(s->p->description, e->value, n + 1);
	return 0;
}

static int parse_text(struct parser *s, const char *file, const char *text,
		      size_t len, struct eg_err *err);

/* Is it on the way to where we are? */
static bool including(const struct parser *s, const char *name)
{
	if (s->env->name && !strcmp(s->env->name, name))
		return true;
	if (s->has_name && !strcmp(s->p->name, name))
		return true;
	for (uint32_t i = 0; i < s->depth; i++)
		if (!strcmp(s->stack[i], name))
			return true;
	return false;
}

static int check_include(const struct parser *s, const struct eg_ini_entry *e,
			 struct eg_err *err)
{
	char q[QUOTE];

	if (!name_valid(e->value) || !strcmp(e->value, "none"))
		return eg_ini_err(
			err, -EINVAL, e->file, e->line, e->col,
			"'%s' is not the name of a policy that can be included",
			eg_escape(q, sizeof(q), e->value, strlen(e->value)));
	if (!s->env->include)
		return eg_ini_err(
			err, -EINVAL, e->file, e->line, e->col,
			"include = %s: there are no named policies here; write its entries out",
			e->value);
	if (including(s, e->value))
		return eg_ini_err(err, -ELOOP, e->file, e->line, e->col,
				  "include = %s: the policy would include itself",
				  e->value);
	if (s->depth == RL_INCLUDE_DEPTH || s->includes == RL_INCLUDES)
		return eg_ini_err(err, -ELOOP, e->file, e->line, e->col,
				  "include = %s: more than %d deep or %d in all",
				  e->value, RL_INCLUDE_DEPTH, RL_INCLUDES);
	return 0;
}

static int do_include(struct parser *s, const struct eg_ini_entry *e,
		      struct eg_err *err)
{
	enum section section = s->section;
	uint32_t phases = s->phases, line = s->include_line;
	char file[EG_POLICY_NAME + 8];
	const char *text = NULL;
	size_t len = 0;
	int rc = check_include(s, e, err);

	if (rc)
		return rc;
	rc = s->env->include(s->env->arg, e->value, &text, &len, err);
	if (rc) {
		(void)eg_err_wrap(err, "include = %s", e->value);
		(void)eg_ini_at(err, e->file, e->line, e->col);
		return rc;
	}
	memcpy(s->stack[s->depth++], e->value, strlen(e->value) + 1);
	s->includes++;
	if (!line)
		s->include_line = e->line;
	(void)snprintf(file, sizeof(file), "%s.policy", e->value);
	rc = parse_text(s, file, text, len, err);
	s->include_line = line;
	s->depth--;
	s->section = section;
	s->phases = phases;
	return rc;
}

static int on_policy_key(struct parser *s, const struct eg_ini_entry *e,
			 struct eg_err *err)
{
	static const char *const names[] = {"name", "description", "include"};
	const char *near;

	if (!strcmp(e->key, "name"))
		return set_name(s, e, err);
	if (!strcmp(e->key, "description"))
		return set_description(s, e, err);
	if (!strcmp(e->key, "include"))
		return do_include(s, e, err);
	near = eg_nearest(e->key, names, EG_ARRAY_SIZE(names));
	return eg_ini_err(err, -EINVAL, e->file, e->line, 1,
			  "[policy] has no key '%s'; %s%s%s", e->key,
			  near ? "did you mean '"
			       : "its keys are name, description and include",
			  near ? near : "", near ? "'?" : "");
}

/* ---- entries ------------------------------------------------------------- */

static struct rl_entry *new_entry(struct parser *s)
{
	struct rl_prog *p = s->p;

	if (p->nentries == s->cap) {
		uint32_t cap = s->cap * 2 < RL_ENTRIES ? s->cap * 2 : RL_ENTRIES;

		p = realloc(p, sizeof(*p) + cap * sizeof(p->entry[0]));
		if (!p)
			return NULL;
		s->p = p;
		s->cap = cap;
	}
	return &p->entry[p->nentries];
}

/*
 * In a canonical text each phase repeats what it shares with others: back to
 * one entry with the phases of all. Sections are sorted, so the next line's
 * twin is mostly the one behind the last line's.
 */
static bool joins(struct parser *s, struct rl_entry *one)
{
	struct rl_prog *p = s->p;

	for (uint32_t i = 0; s->canon && i < p->nentries; i++) {
		uint32_t at = (s->twin + i) % p->nentries;
		struct rl_entry *e = &p->entry[at];
		uint32_t phases = one->phases, line = one->line;
		bool same;

		if (e->phases == RL_PHASES_ALL || phases == RL_PHASES_ALL)
			continue;
		one->phases = e->phases;
		one->line = e->line;
		same = !memcmp(one, e, sizeof(*e));
		one->phases = phases;
		one->line = line;
		/* All sixteen together are not the same as all there are. */
		if (!same || (e->phases | phases) == RL_PHASES_ALL)
			continue;
		e->phases |= phases;
		s->twin = at + 1;
		return true;
	}
	return false;
}

static int entry_add(struct parser *s, const struct eg_ini_entry *e,
		     struct rl_entry *one, struct eg_err *err)
{
	struct rl_entry *to;

	if (joins(s, one))
		return 0;
	if (s->p->nentries == RL_ENTRIES)
		return eg_ini_err(
			err, -E2BIG, e->file, e->line, 1,
			"the policy has more than %d entries; split it",
			RL_ENTRIES);
	to = new_entry(s);
	if (!to)
		return eg_err_sys(err, -ENOMEM, "policy '%s'", e->file);
	*to = *one;
	s->p->nentries++;
	return 0;
}

static int on_entry(void *arg, const struct eg_ini_entry *e, struct eg_err *err)
{
	struct parser *s = arg;
	struct rl_line l = {
		.e = e, .env = s->env, .phases = s->phases, .w = s->w, .err = err};
	struct rl_entry one;
	int rc;

	if (s->section == SEC_POLICY)
		return on_policy_key(s, e, err);
	if (strcmp(e->key, section_names[s->section]))
		return eg_ini_err(
			err, -EINVAL, e->file, e->line, 1,
			"[%s] has no key '%s'; write %s = DESTINATION ...",
			e->section, e->key, section_names[s->section]);
	if (s->section == SEC_HOST && s->hosts++ == HOSTS)
		return eg_ini_err(
			err, -E2BIG, e->file, e->line, 1,
			"the policy has more than %d host entries; split it",
			HOSTS);
	l.list = s->section == SEC_HOST	  ? RL_LIST_HOST
		 : s->section == SEC_DENY ? RL_LIST_DENY
					  : RL_LIST_ALLOW;
	l.line = s->include_line ? s->include_line : e->line;
	rc = rl_entry_parse(&l, &one);
	return rc ? rc : entry_add(s, e, &one, err);
}

static int parse_text(struct parser *s, const char *file, const char *text,
		      size_t len, struct eg_err *err)
{
	static const struct eg_ini_ops ops = {on_section, on_entry};

	/* Written out, phase by phase, a policy may be larger than its file. */
	s->canon = rl_canon_is(text, len);
	if (len > (s->canon ? RL_CANON_TEXT : RL_POLICY_TEXT))
		return eg_err_set(
			err, -EFBIG,
			"%s: the policy is larger than %d bytes; split it",
			file, RL_POLICY_TEXT);
	return eg_ini_parse(file, text, len, &ops, s, err);
}

/* ---- the whole ----------------------------------------------------------- */

/* Does an allow entry carry this host entry, and may its address be pinned? */
static int check_host(const struct parser *s, const struct rl_entry *h,
		      struct eg_err *err)
{
	const struct eg_conf_deny *d =
		s->env->conf ? eg_conf_denied(s->env->conf, h->dst.addr) : NULL;
	char name[EG_NAME_TEXT], addr[EG_ADDR_TEXT];
	bool allowed = false, fits = !d;

	(void)eg_name_format(&h->name, name);
	(void)eg_addr_format(h->dst.addr, addr);
	for (uint32_t i = 0; i < s->p->nentries; i++) {
		const struct rl_entry *e = &s->p->entry[i];

		if (e->kind == RL_HOST && e->dst.addr != h->dst.addr &&
		    eg_name_equal(&e->name, &h->name))
			return eg_ini_err(
				err, -EINVAL, s->file, h->line, 1,
				"host %.100s has another address in line %u; it takes one",
				name, e->line);
		if (rl_entry_list(e) != RL_LIST_ALLOW ||
		    !rl_entry_matches(e, &h->name))
			continue;
		allowed = true;
		for (uint8_t k = 0; k < e->nprivate; k++)
			fits = fits ||
			       eg_prefix_has(e->private[k], h -> dst.addr);
	}
	if (!allowed)
		return eg_ini_err(
			err, -EINVAL, s->file, h->line, 1,
			"host %.100s has no allow entry, so nothing could be reached there; add: allow = %.100s tcp/443%s%s",
			name, name, d ? " private=" : "", d ? addr : "");
	if (!fits)
		return eg_ini_err(
			err, -EINVAL, s->file, h->line, 1,
			"host %.100s is at %s, a private address, and no allow entry of it has that in private=; add private=%s",
			name, addr, addr);
	return 0;
}

/* Allow entries that a deny entry makes void. */
static void warn_shadowed(const struct parser *s)
{
	const struct rl_prog *p = s->p;
	char name[EG_NAME_TEXT];
	uint32_t left = SHADOWS;

	for (uint32_t i = 0; i < p->nentries && left; i++) {
		const struct rl_entry *d = &p->entry[i];

		if (!(d->flags & RL_F_DENY) || d->kind == RL_PREFIX)
			continue;
		left--;
		for (uint32_t k = 0; k < p->nentries; k++) {
			const struct rl_entry *e = &p->entry[k];

			if (e->kind == RL_EXACT && !(e->flags & RL_F_DENY) &&
			    rl_entry_matches(d, &e->name))
				rl_warn(s->w, e->line,
					"%.100s is never allowed: the deny entry in line %u wins",
					eg_name_format(&e->name, name), d->line);
		}
	}
}

/*
 * Phases in the order of their names: two programs of one digest, whoever
 * wrote the text in whatever order, then mean the same by the same bits, and
 * one may stand for the other.
 */
static void number_phases(struct rl_prog *p)
{
	char was[EG_PHASES][EG_PHASE];
	uint32_t to[EG_PHASES];

	memcpy(was, p->phase, sizeof(was));
	for (uint32_t i = 0; i < p->nphases; i++) {
		to[i] = 0;
		for (uint32_t k = 0; k < p->nphases; k++)
			to[i] += strcmp(was[k], was[i]) < 0;
		memcpy(p->phase[to[i]], was[i], EG_PHASE);
	}
	for (uint32_t i = 0; i < p->nentries; i++) {
		struct rl_entry *e = &p->entry[i];
		uint32_t phases = 0;

		if (e->phases == RL_PHASES_ALL)
			continue;
		for (uint32_t k = 0; k < p->nphases; k++)
			if (e->phases & 1U << k)
				phases |= 1U << to[k];
		e->phases = phases;
	}
}

/* The canonical text goes behind the entries; its digest is the policy's. */
static int carry_text(struct parser *s, struct eg_err *err)
{
	EG_CLEANUP_FREE char *text = NULL;
	struct rl_prog *p;
	size_t len;
	int rc = rl_canon_text(s->p, &text, &len);

	if (rc)
		return eg_err_sys(err, rc, "policy '%s'", s->file);
	if (len > RL_CANON_TEXT)
		return eg_err_set(
			err, -EFBIG,
			"%s: written out for each phase, the policy is larger than %d bytes; split it",
			s->file, RL_CANON_TEXT);
	p = realloc(s->p, s->p->size + len);
	if (!p)
		return eg_err_sys(err, -ENOMEM, "policy '%s'", s->file);
	s->p = p;
	eg_sha256_of(text, len, p->digest);
	memcpy((char *)p + p->size, text, len);
	p->text_len = len;
	p->size += len;
	return 0;
}

static int finish(struct parser *s, struct eg_err *err)
{
	struct rl_prog *p = s->p;
	bool allows = false;
	int rc;

	if (!s->has_name && s->env->name)
		(void)snprintf(p->name, sizeof(p->name), "%s", s->env->name);
	for (uint32_t i = 0; i < p->nentries; i++) {
		if (p->entry[i].kind == RL_HOST) {
			rc = check_host(s, &p->entry[i], err);
			if (rc)
				return rc;
		}
		allows = allows || rl_entry_list(&p->entry[i]) == RL_LIST_ALLOW;
	}
	if (!allows)
		rl_warn(s->w, 0, "the policy allows nothing");
	warn_shadowed(s);
	number_phases(p);
	p->magic = RL_PROG_MAGIC;
	p->version = RL_PROG_VERSION;
	p->size = sizeof(*p) + p->nentries * sizeof(p->entry[0]);
	rc = carry_text(s, err);
	return rc ? rc : rl_prog_check(s->p, s->p->size, err);
}

int rl_policy_parse(const char *text, size_t len, const char *file,
		    const struct rl_parse_env *env, struct rl_prog **ret,
		    struct rl_warnings *w, struct eg_err *err)
{
	struct parser s = {.env = env, .file = file, .w = w, .cap = FIRST_CAP};
	int rc;

	if (w)
		w->n = w->more = 0;
	s.p = calloc(1, sizeof(*s.p) + s.cap * sizeof(s.p->entry[0]));
	if (!s.p)
		return eg_err_sys(err, -ENOMEM, "policy '%s'", file);
	rc = parse_text(&s, file, text, len, err);
	if (!rc)
		rc = finish(&s, err);
	if (rc) {
		free(s.p);
		return rc;
	}
	*ret = s.p;
	return 0;
}
