// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: policy programs: validation, lookup, sealed memory (see policy.h)
 *
 * rl_prog_check() stands between main, which holds capabilities, and whoever
 * wrote the program: a sibling that may have been taken over. It looks at
 * every field, padding included where it is named, and trusts nothing before
 * it has been compared with the size of the mapping.
 */
#include "rules/policy.h"
#include "netpool/base/log.h"
#include "netpool/base/util.h"
#include "netpool/base/value.h"
#include "rules/canon.h"
#include "rules/entry.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)
#define FLAGS_ALL                                                              \
	(RL_F_DENY | RL_F_HOLD_RUN | RL_F_CHAIN_LISTED | RL_F_UNDERSCORE |     \
	 RL_F_BROAD)
#define YEAR_10000 253402300800LL /* what four digits of a year can say */

/* ---- validation ---------------------------------------------------------- */

static size_t prog_size(uint32_t nentries)
{
	return sizeof(struct rl_prog) + nentries * sizeof(struct rl_entry);
}

const char *rl_prog_text(const struct rl_prog *p, size_t *ret_len)
{
	*ret_len = (size_t)p->text_len;
	return (const char *)p + prog_size(p->nentries);
}

/* Text that ends inside its field and holds no control characters. */
static bool text_valid(const char *s, size_t cap)
{
	size_t n = strnlen(s, cap);

	if (n == cap)
		return false;
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)s[i] < 0x20 || s[i] == 0x7f)
			return false;
	return true;
}

static bool phase_valid(const char *s)
{
	size_t n = strnlen(s, EG_PHASE);

	return n && n < EG_PHASE && s[0] >= 'a' && s[0] <= 'z' &&
	       strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == n;
}

static bool policy_name_valid(const char *s)
{
	size_t n = strnlen(s, EG_POLICY_NAME);

	for (size_t i = 0; i < n && n < EG_POLICY_NAME; i++)
		if (!((s[i] >= 'a' && s[i] <= 'z') ||
		      (s[i] >= 'A' && s[i] <= 'Z') ||
		      (s[i] >= '0' && s[i] <= '9') || (i && strchr("._-", s[i]))))
			return false;
	return n < EG_POLICY_NAME;
}

/* A whole name in lower case, of octets a policy can write. */
static bool name_valid(const struct eg_name *n)
{
	size_t i = 0;

	while (i < n->len && i < EG_NAME_WIRE && n->wire[i]) {
		uint8_t len = n->wire[i];

		if (len > EG_NAME_LABEL || i + len + 1U >= EG_NAME_WIRE)
			return false;
		for (uint8_t k = 1; k <= len; k++) {
			uint8_t c = n->wire[i + k];

			if (!(c >= 'a' && c <= 'z') &&
			    !(c >= '0' && c <= '9') && c != '-' && c != '_')
				return false;
		}
		i += len + 1U;
	}
	return i && i < EG_NAME_WIRE && !n->wire[i] && n->len == i + 1;
}

static bool prefix_valid(struct eg_prefix p)
{
	return p.len <= 32 && !(p.addr & ~eg_prefix_mask(p.len));
}

static bool ports_valid(const struct rl_entry *e)
{
	uint32_t total = 0;

	for (uint8_t i = 0; i < e->nports; i++) {
		const struct eg_port *p = &e->port[i];

		if (!eg_port_valid(p) ||
		    ((p->proto == IPPROTO_TCP || p->proto == IPPROTO_UDP) &&
		     p->lo <= EG_GUEST_DNS_PORT && p->hi >= EG_GUEST_DNS_PORT))
			return false;
		total += p->hi - p->lo + 1U;
	}
	return e->kind == RL_PREFIX || total <= RL_NAME_PORTS;
}

/* What is wrong with an entry, NULL: nothing. */
static const char *entry_fault(const struct rl_prog *p, const struct rl_entry *e)
{
	bool wild = e->kind == RL_ONE || e->kind == RL_MANY;
	bool allow;

	if (e->kind >= RL_KIND_COUNT)
		return "kind";
	if (e->flags & ~FLAGS_ALL || (e->kind == RL_HOST && e->flags & RL_F_DENY))
		return "flags";
	allow = rl_entry_list(e) == RL_LIST_ALLOW;
	if (e->phases != RL_PHASES_ALL &&
	    (!allow || !e->phases || e->phases >> p->nphases))
		return "phases";
	if (e->nports > RL_PORTS || (e->nports == 0) == allow || !ports_valid(e))
		return "ports";
	if (e->nprivate > RL_PRIVATE ||
	    (e->nprivate && (!allow || e->kind == RL_PREFIX)))
		return "private";
	for (uint8_t i = 0; i < e->nprivate; i++)
		if (!prefix_valid(e->private[i]))
			return "private";
	if (e->tls > RL_TLS_SNI)
		return "tls";
	if (e->types & ~RL_TYPES_ALL)
		return "types";
	if (e->max_names > RL_MAX_NAMES || (e->max_names && !wild))
		return "max_names";
	if (e->until < 0 || e->until >= YEAR_10000)
		return "until";
	if (!prefix_valid(e->dst) || (e->kind == RL_HOST && e->dst.len != 32))
		return "dst";
	if (e->kind != RL_PREFIX && !name_valid(&e->name))
		return "name";
	if (wild && e->name.len + 2 > EG_NAME_WIRE)
		return "name";
	return text_valid(e->why, sizeof(e->why)) ? NULL : "why";
}

static int check_head(const struct rl_prog *p, size_t size, struct eg_err *err)
{
	const char *fault = NULL;

	if (size < sizeof(*p))
		return eg_err_set(err, -EBADMSG,
				  "policy program of %zu octets is too short",
				  size);
	if (p->magic != RL_PROG_MAGIC)
		fault = "magic";
	else if (p->version != RL_PROG_VERSION)
		fault = "version";
	else if (p->nentries > RL_ENTRIES)
		fault = "nentries";
	else if (p->text_len > RL_CANON_TEXT)
		fault = "text_len";
	else if (p->size != size ||
		 size != prog_size(p->nentries) + p->text_len)
		fault = "size";
	else if (p->nphases > EG_PHASES)
		fault = "nphases";
	else if (!policy_name_valid(p->name))
		fault = "name";
	else if (!text_valid(p->description, sizeof(p->description)))
		fault = "description";
	if (!fault)
		return 0;
	return eg_err_set(err, -EBADMSG, "policy program: field %s is invalid",
			  fault);
}

int rl_prog_check(const struct rl_prog *p, size_t size, struct eg_err *err)
{
	int rc = check_head(p, size, err);

	if (rc)
		return rc;
	for (uint32_t i = 0; i < p->nphases; i++) {
		bool bad = !phase_valid(p->phase[i]);

		for (uint32_t k = 0; k < i && !bad; k++)
			bad = !strcmp(p->phase[k], p->phase[i]);
		if (bad)
			return eg_err_set(err, -EBADMSG,
					  "policy program: phase %u is invalid",
					  i);
	}
	for (uint32_t i = 0; i < p->nentries; i++) {
		const char *fault = entry_fault(p, &p->entry[i]);

		if (fault)
			return eg_err_set(
				err, -EBADMSG,
				"policy program: field %s of entry %u is invalid",
				fault, i);
	}
	return 0;
}

/* ---- lookup -------------------------------------------------------------- */

/* What a wildcard may stand for: host name labels. */
static bool labels_plain(const struct eg_name *n, unsigned int labels,
			 bool underscore)
{
	size_t i = 0;

	if (!underscore)
		return eg_name_ldh(n, labels);
	for (; labels && n->wire[i]; labels--) {
		for (uint8_t k = 1; k <= n->wire[i]; k++) {
			uint8_t c = n->wire[i + k];

			if (!((c | 0x20) >= 'a' && (c | 0x20) <= 'z') &&
			    !(c >= '0' && c <= '9') && c != '-' && c != '_')
				return false;
		}
		i += 1U + n->wire[i];
	}
	return true;
}

bool rl_entry_matches(const struct rl_entry *e, const struct eg_name *name)
{
	int below;

	switch ((enum rl_kind)e->kind) {
	case RL_EXACT:
	case RL_HOST:
		return eg_name_equal(&e->name, name);
	case RL_ONE:
	case RL_MANY:
		below = eg_name_below(name, &e->name);
		if (below < 1 || (e->kind == RL_ONE && below > 1))
			return false;
		/* A deny entry covers odd labels as well. */
		return (e->flags & RL_F_DENY) ||
		       labels_plain(name, (unsigned int)below,
				    e->flags & RL_F_UNDERSCORE);
	case RL_PREFIX:
	case RL_KIND_COUNT:
		break;
	}
	return false;
}

/* Add what an allow entry grants. */
static void grant(const struct rl_entry *e, uint32_t index, struct rl_verdict *v)
{
	bool wild = e->kind != RL_EXACT;

	if (!v->allowed) {
		v->entry = index;
		v->wildcard = true;
	}
	v->allowed = true;
	v->wildcard = v->wildcard && wild;
	v->flags |= e->flags;
	v->types |= e->types;
	v->max_names = eg_max_u32(v->max_names, e->max_names);
	/* What finds no room is left out: denied, never the reverse. */
	for (uint8_t i = 0; i < e->nports; i++)
		(void)rl_ports_add(v->port, &v->nports, EG_ARRAY_SIZE(v->port),
				   &e->port[i]);
	for (uint8_t i = 0; i < e->nprivate; i++)
		(void)rl_prefixes_add(v->private, &v->nprivate,
				      EG_ARRAY_SIZE(v->private), e->private[i]);
}

static bool above_exact(const struct rl_entry *e, const struct eg_name *name)
{
	return e->kind == RL_EXACT && eg_name_below(&e->name, name) > 0;
}

void rl_prog_lookup(const struct rl_prog *p, uint32_t phases, int64_t now,
		    const struct eg_name *name, struct rl_verdict *ret)
{
	struct rl_verdict v = {0};
	bool above = false;

	for (uint32_t i = 0; i < p->nentries; i++) {
		const struct rl_entry *e = &p->entry[i];

		if (e->kind == RL_PREFIX || (e->until && now >= e->until) ||
		    (e->phases != RL_PHASES_ALL && !(e->phases & phases)))
			continue;
		if (e->flags & RL_F_DENY) {
			if (!v.denied && rl_entry_matches(e, name)) {
				v = (struct rl_verdict){.denied = true,
							.entry = i};
			}
			continue;
		}
		if (v.denied)
			continue;
		if (e->kind == RL_HOST && rl_entry_matches(e, name)) {
			v.has_host = true;
			v.host_addr = e->dst.addr;
		} else if (e->kind != RL_HOST && rl_entry_matches(e, name)) {
			grant(e, i, &v);
		} else {
			above = above || above_exact(e, name);
		}
	}
	v.ancestor = above && !v.allowed && !v.denied;
	*ret = v;
}

static bool entry_has_port(const struct rl_entry *e, uint8_t proto,
			   uint16_t port)
{
	for (uint8_t i = 0; i < e->nports; i++)
		if (e->port[i].proto == proto && e->port[i].lo <= port &&
		    e->port[i].hi >= port)
			return true;
	return false;
}

uint32_t rl_prog_name_phases(const struct rl_prog *p, int64_t now,
			     const struct eg_name *name, uint8_t proto,
			     uint16_t port)
{
	uint32_t phases = 0;

	for (uint32_t i = 0; i < p->nentries; i++) {
		const struct rl_entry *e = &p->entry[i];

		if (e->kind == RL_PREFIX || e->kind == RL_HOST ||
		    (e->until && now >= e->until) || !rl_entry_matches(e, name))
			continue;
		if (e->flags & RL_F_DENY)
			return 0;
		if (entry_has_port(e, proto, port))
			phases |= e->phases;
	}
	return phases;
}

bool rl_prog_denies(const struct rl_prog *p, int64_t now, uint32_t addr)
{
	for (uint32_t i = 0; i < p->nentries; i++) {
		const struct rl_entry *e = &p->entry[i];

		if (e->kind == RL_PREFIX && (e->flags & RL_F_DENY) &&
		    (!e->until || now < e->until) && eg_prefix_has(e->dst, addr))
			return true;
	}
	return false;
}

/* ---- phases -------------------------------------------------------------- */

/* "init, plan" of what there is; "none" when there is nothing. */
static const char *phase_list(const struct rl_prog *p, char *buf, size_t cap)
{
	size_t used = 0;

	(void)snprintf(buf, cap, "none");
	for (uint32_t i = 0; i < p->nphases && used < cap; i++)
		used += (size_t)snprintf(buf + used, cap - used, "%s%s",
					 i ? ", " : "", p->phase[i]);
	return buf;
}

int rl_prog_phases(const struct rl_prog *p, const char *text, uint32_t *ret,
		   struct eg_err *err)
{
	char list[200], q[2 * EG_PHASE];
	uint32_t bits = 0;

	while (*text) {
		size_t n = strcspn(text, ",");
		uint32_t i = 0;

		while (i < p->nphases && (strlen(p->phase[i]) != n ||
					  strncmp(p->phase[i], text, n)))
			i++;
		if (i == p->nphases)
			return eg_err_set(
				err, -EINVAL,
				"policy '%s' has no phase '%s'; its phases: %s",
				p->name, eg_escape(q, sizeof(q), text, n),
				phase_list(p, list, sizeof(list)));
		bits |= 1U << i;
		text += n;
		if (*text && !*++text)
			return eg_err_set(err, -EINVAL,
					  "the list of phases ends with a comma");
	}
	*ret = bits;
	return 0;
}

size_t rl_prog_none(const struct rl_prog **ret)
{
	static struct rl_prog none = {
		.magic = RL_PROG_MAGIC,
		.version = RL_PROG_VERSION,
		.size = sizeof(none),
		.name = "none",
		.description = "denies everything",
	};
	static bool digested;

	/* Out of memory leaves it zero and is tried again. */
	if (!digested)
		digested = !rl_canon_digest(&none, none.digest);
	*ret = &none;
	return sizeof(none);
}

/* ---- sealed memory ------------------------------------------------------- */

int rl_prog_seal(const struct rl_prog *p)
{
	unsigned int flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
	EG_CLEANUP_FD int fd = -1;
	size_t done = 0;

#ifdef MFD_NOEXEC_SEAL
	fd = memfd_create("egressd-policy", flags | MFD_NOEXEC_SEAL);
#endif
	/* Before Linux 6.3 that flag is EINVAL. */
	if (fd < 0)
		fd = memfd_create("egressd-policy", flags);
	if (fd < 0)
		return -errno;
	while (done < p->size) {
		ssize_t n = write(fd, (const char *)p + done, p->size - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		done += (size_t)n;
	}
	if (fcntl(fd, F_ADD_SEALS, SEALS) < 0)
		return -errno;
	return eg_steal_fd(&fd);
}

int rl_prog_map(int fd, const struct rl_prog **ret, struct eg_err *err)
{
	int seals = fcntl(fd, F_GET_SEALS), rc;
	struct stat st;
	void *map;

	if (seals < 0 || (seals & SEALS) != SEALS)
		return eg_err_set(err, -EBADMSG,
				  "policy program is not in sealed memory");
	if (fstat(fd, &st) < 0)
		return eg_err_sys(err, -errno, "policy program");
	if (st.st_size < (off_t)sizeof(struct rl_prog) ||
	    st.st_size > (off_t)prog_size(RL_ENTRIES) + RL_CANON_TEXT)
		return eg_err_set(
			err, -EBADMSG,
			"policy program of %lld octets; %zu to %zu are possible",
			(long long)st.st_size, sizeof(struct rl_prog),
			prog_size(RL_ENTRIES) + RL_CANON_TEXT);
	map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return eg_err_sys(err, -errno, "cannot map policy program");
	rc = rl_prog_check(map, (size_t)st.st_size, err);
	if (rc) {
		(void)munmap(map, (size_t)st.st_size);
		return rc;
	}
	*ret = map;
	return 0;
}

void rl_prog_unmap(const struct rl_prog *p)
{
	union {
		const struct rl_prog *c;
		void *m;
	} u = {.c = p};

	if (p)
		(void)munmap(u.m, (size_t)p->size);
}
