// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: policy programs: checked, searched, sealed (see policy.h)
 *
 * rl_prog_check() is a trust boundary: the block may come from a sibling that
 * has been taken over. It reads each field once, from sealed memory that can
 * change no more, and refuses what is out of range by name.
 */
#include "rules/policy.h"
#include "netpool/base/util.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

static bool has_ports(uint8_t proto)
{
	return proto == IPPROTO_TCP || proto == IPPROTO_UDP ||
	       proto == IPPROTO_SCTP || proto == IPPROTO_DCCP ||
	       proto == IPPROTO_UDPLITE;
}

static bool prefix_ok(struct eg_prefix p)
{
	return p.len <= 32 && !(p.addr & ~eg_prefix_mask(p.len));
}

static bool name_ok(const struct eg_name *n)
{
	struct eg_name copy;

	return n->len && eg_name_from_wire(n->wire, n->len, &copy) == n->len;
}

static const char *entry_check(const struct rl_entry *e)
{
	if (e->kind >= RL_KIND_COUNT)
		return "kind";
	if (e->nports > RL_PORTS)
		return "nports";
	if (e->nprivate > RL_PRIVATE)
		return "nprivate";
	if (!e->phases || e->phases > RL_PHASES_ALL)
		return "phases";
	for (unsigned int i = 0; i < e->nports; i++) {
		const struct eg_port *p = &e->port[i];

		if (p->lo > p->hi)
			return "port";
		if (has_ports(p->proto) && p->lo <= 53 && p->hi >= 53 &&
		    (p->proto == IPPROTO_TCP || p->proto == IPPROTO_UDP))
			return "port 53";
	}
	for (unsigned int i = 0; i < e->nprivate; i++)
		if (!prefix_ok(e->private[i]))
			return "private";
	if (!prefix_ok(e->dst))
		return "dst";
	if (e->kind != RL_PREFIX && !name_ok(&e->name))
		return "name";
	return NULL;
}

static const char *head_check(const struct rl_prog *p, size_t size)
{
	if (size < sizeof(*p) || p->magic != RL_PROG_MAGIC)
		return "magic";
	if (p->version != RL_PROG_VERSION)
		return "version";
	if (p->nentries > RL_ENTRIES || p->size != size ||
	    size != sizeof(*p) + (size_t)p->nentries * sizeof(p->entry[0]))
		return "size";
	if (p->nphases > EG_PHASES)
		return "nphases";
	if (!memchr(p->name, 0, sizeof(p->name)) ||
	    !memchr(p->description, 0, sizeof(p->description)))
		return "name";
	for (uint32_t i = 0; i < p->nphases; i++)
		if (!p->phase[i][0] || !memchr(p->phase[i], 0, EG_PHASE))
			return "phase";
	return NULL;
}

int rl_prog_check(const struct rl_prog *p, size_t size, struct eg_err *err)
{
	const char *bad = head_check(p, size);

	if (bad)
		return eg_err_set(err, -EBADMSG,
				  "policy program: %s out of range", bad);
	for (uint32_t i = 0; i < p->nentries; i++) {
		bad = entry_check(&p->entry[i]);
		if (bad)
			return eg_err_set(err, -EBADMSG,
					  "policy program: %s of entry %u out of range",
					  bad, i);
		if (!memchr(p->entry[i].why, 0, RL_WHY))
			return eg_err_set(err, -EBADMSG,
					  "policy program: text of entry %u out of range",
					  i);
	}
	return 0;
}

/* ---- looking a name up ------------------------------------------------------------- */

static bool entry_matches(const struct rl_entry *e, const struct eg_name *name)
{
	int labels;

	if (e->kind == RL_PREFIX)
		return false;
	if (e->kind == RL_EXACT || e->kind == RL_HOST)
		return eg_name_equal(&e->name, name);
	labels = eg_name_below(name, &e->name);
	if (labels < 1 || (e->kind == RL_ONE && labels != 1))
		return false;
	/* What a wildcard lets through looks like a host name, no more. */
	return e->flags & RL_F_UNDERSCORE ||
	       eg_name_ldh(name, (unsigned int)labels);
}

static void port_add(struct rl_verdict *v, struct eg_port p)
{
	for (uint32_t i = 0; i < v->nports; i++) {
		struct eg_port *q = &v->port[i];

		if (q->proto != p.proto || p.lo > (uint32_t)q->hi + 1 ||
		    q->lo > (uint32_t)p.hi + 1)
			continue;
		/* Overlapping or adjacent: one range; may meet others now. */
		p.lo = p.lo < q->lo ? p.lo : q->lo;
		p.hi = p.hi > q->hi ? p.hi : q->hi;
		*q = v->port[--v->nports];
		port_add(v, p);
		return;
	}
	if (v->nports < EG_ARRAY_SIZE(v->port))
		v->port[v->nports++] = p;
}

static void ports_sort(struct rl_verdict *v)
{
	for (uint32_t i = 1; i < v->nports; i++)
		for (uint32_t k = i; k; k--) {
			struct eg_port *a = &v->port[k - 1], *b = &v->port[k];
			struct eg_port t = *a;

			if (a->proto < b->proto ||
			    (a->proto == b->proto && a->lo <= b->lo))
				break;
			*a = *b;
			*b = t;
		}
}

static void allow_add(struct rl_verdict *v, const struct rl_entry *e,
		      uint32_t index)
{
	bool exact = e->kind == RL_EXACT;

	if (!v->allowed) {
		v->entry = index;
		v->wildcard = !exact;
		v->max_names = e->max_names;
	}
	if (exact)
		v->wildcard = false;
	v->allowed = true;
	v->flags |= e->flags & ~RL_F_DENY;
	v->types |= e->types;
	if (e->max_names > v->max_names)
		v->max_names = e->max_names;
	for (unsigned int i = 0; i < e->nports; i++)
		port_add(v, e->port[i]);
	for (unsigned int i = 0; i < e->nprivate; i++)
		if (v->nprivate < EG_ARRAY_SIZE(v->private))
			v->private[v->nprivate++] = e->private[i];
}

void rl_prog_lookup(const struct rl_prog *p, uint32_t phases, int64_t now,
		    const struct eg_name *name, struct rl_verdict *ret)
{
	memset(ret, 0, sizeof(*ret));
	for (uint32_t i = 0; i < p->nentries; i++) {
		const struct rl_entry *e = &p->entry[i];

		if ((e->phases != RL_PHASES_ALL && !(e->phases & phases)) ||
		    (e->until && now >= e->until))
			continue;
		if (e->kind == RL_EXACT && !(e->flags & RL_F_DENY) &&
		    eg_name_below(&e->name, name) > 0)
			ret->ancestor = true;
		if (!entry_matches(e, name))
			continue;
		if (e->flags & RL_F_DENY) {
			ret->denied = true;
		} else if (e->kind == RL_HOST) {
			ret->has_host = true;
			ret->host_addr = e->dst.addr;
		} else {
			allow_add(ret, e, i);
		}
	}
	ports_sort(ret);
	if (ret->denied)
		ret->allowed = ret->has_host = false;
	if (ret->allowed || ret->denied)
		ret->ancestor = false;
}

/* ---- phases --------------------------------------------------------------------------- */

static int phase_unknown(const struct rl_prog *p, const char *text, size_t n,
			 struct eg_err *err)
{
	char list[300] = "none";
	size_t used = 0;

	for (uint32_t i = 0; i < p->nphases && used < sizeof(list); i++)
		used += (size_t)snprintf(list + used, sizeof(list) - used,
					 "%s%s", used ? ", " : "",
					 p->phase[i]);
	return eg_err_set(err, -EINVAL,
			  "policy %s has no phase '%.*s'; it has %s", p->name,
			  (int)(n < 64 ? n : 64), text, list);
}

int rl_prog_phases(const struct rl_prog *p, const char *text, uint32_t *ret,
		   struct eg_err *err)
{
	uint32_t bits = 0;

	while (*text) {
		size_t n = strcspn(text, ",");
		uint32_t i;

		for (i = 0; i < p->nphases; i++)
			if (strlen(p->phase[i]) == n &&
			    !strncmp(p->phase[i], text, n))
				break;
		if (i == p->nphases)
			return phase_unknown(p, text, n, err);
		bits |= 1U << i;
		text += n + (text[n] == ',');
	}
	*ret = bits;
	return 0;
}

/* ---- memory ------------------------------------------------------------------------------ */

size_t rl_prog_none(const struct rl_prog **ret)
{
	/* SHA-256 of its canonical text, "canon 1\npolicy none\n". */
	static const struct rl_prog none = {
		.magic = RL_PROG_MAGIC,
		.version = RL_PROG_VERSION,
		.size = sizeof(none),
		.name = "none",
		.description = "denies everything",
		.digest = { 0xae, 0x7a, 0x68, 0x4b, 0xd9, 0x5d, 0xa9, 0x62,
			    0x68, 0xc0, 0x6b, 0xe9, 0xc5, 0x9a, 0x6a, 0x6e,
			    0x6c, 0x8d, 0xea, 0x4e, 0x90, 0xde, 0x31, 0x9c,
			    0x82, 0xed, 0x99, 0x38, 0x11, 0x31, 0xca, 0xf0 },
	};

	*ret = &none;
	return sizeof(none);
}

int rl_prog_seal(const struct rl_prog *p)
{
	EG_CLEANUP_FD int fd = memfd_create("policy", MFD_CLOEXEC |
					    MFD_ALLOW_SEALING);
	const char *at = (const char *)p;
	size_t left = p->size;

	if (fd < 0)
		return -errno;
	while (left) {
		ssize_t n = write(fd, at, left);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -EIO;
		at += n;
		left -= (size_t)n;
	}
	if (fcntl(fd, F_ADD_SEALS, SEALS) < 0)
		return -errno;
	return eg_steal_fd(&fd);
}

int rl_prog_map(int fd, const struct rl_prog **ret, struct eg_err *err)
{
	struct stat st;
	void *p;
	int r;

	if (fd < 0 || (fcntl(fd, F_GET_SEALS) & SEALS) != SEALS)
		return eg_err_set(err, -EBADMSG,
				  "the policy program is not in sealed memory");
	if (fstat(fd, &st) < 0)
		return eg_err_sys(err, -errno, "policy program");
	if ((size_t)st.st_size < sizeof(struct rl_prog) ||
	    (size_t)st.st_size > sizeof(struct rl_prog) +
				 RL_ENTRIES * sizeof(struct rl_entry))
		return eg_err_set(err, -EBADMSG,
				  "policy program: size out of range");
	p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		return eg_err_sys(err, -errno, "map policy program");
	r = rl_prog_check(p, (size_t)st.st_size, err);
	if (r) {
		(void)munmap(p, (size_t)st.st_size);
		return r;
	}
	*ret = p;
	return 0;
}

void rl_prog_unmap(const struct rl_prog *p)
{
	if (p)
		(void)munmap((void *)(uintptr_t)p, p->size);
}
