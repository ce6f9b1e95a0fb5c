// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd tests: the policy index gives what a plain pass over the entries
 * gives, at a cost that does not depend on how many there are.
 */
#include "dnsguard/policy.h"
#include "netpool/base/util.h"
#include "tests/lib/dns_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

static const char *const labels[] = {"a", "b", "c", "x_y", "com"};

static uint64_t seed = 42;

static uint32_t rng(void)
{
	seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return (uint32_t)(seed >> 33);
}

static struct eg_name random_name(unsigned int max)
{
	unsigned int n = 1 + rng() % max;
	char text[64] = "";

	for (unsigned int i = 0; i < n; i++) {
		if (i)
			strcat(text, ".");
		strcat(text, labels[rng() % EG_ARRAY_SIZE(labels)]);
	}
	return dw_name(text);
}

static bool ldh(const struct eg_name *n, unsigned int k, bool underscore)
{
	size_t i = 0;

	for (; k; k--, i += 1U + n->wire[i])
		for (uint8_t j = 1; j <= n->wire[i]; j++)
			if (n->wire[i + j] == '_' && !underscore)
				return false;
	return true;
}

static bool hits(const struct rl_entry *e, const struct eg_name *n)
{
	int k = eg_name_below(n, &e->name);

	if (e->kind == RL_EXACT)
		return !k;
	if (e->kind == RL_ONE ? k != 1 : k < 1)
		return false;
	return (e->flags & RL_F_DENY) ||
	       ldh(n, (unsigned int)k, e->flags & RL_F_UNDERSCORE);
}

/* The plain pass. */
static void plain(const struct rl_prog *p, uint32_t phases, int64_t now,
		  const struct eg_name *n, struct rl_verdict *v)
{
	memset(v, 0, sizeof(*v));
	v->wildcard = true;
	v->entry = UINT32_MAX;
	for (uint32_t i = 0; i < p->nentries; i++) {
		const struct rl_entry *e = &p->entry[i];

		if ((e->until && now >= e->until) ||
		    (e->phases != RL_PHASES_ALL && !(e->phases & phases)))
			continue;
		if (hits(e, n) && (e->flags & RL_F_DENY)) {
			v->denied = true;
		} else if (hits(e, n)) {
			v->allowed = true;
			v->wildcard &= e->kind != RL_EXACT;
			if (i < v->entry)
				v->entry = i;
		} else if (e->kind == RL_EXACT && !(e->flags & RL_F_DENY) &&
			   eg_name_below(&e->name, n) > 0) {
			v->ancestor = true;
		}
	}
	if (!v->allowed) {
		v->wildcard = false;
		v->entry = 0;
	}
	v->ancestor &= !v->allowed && !v->denied;
	v->allowed &= !v->denied;
}

static void random_entry(struct rl_entry *e)
{
	static const uint32_t flags[] = {0, 0, 0, RL_F_DENY, RL_F_UNDERSCORE};
	static const uint8_t kinds[] = {RL_EXACT, RL_EXACT, RL_ONE, RL_MANY};

	memset(e, 0, sizeof(*e));
	e->kind = kinds[rng() % 4];
	e->flags = flags[rng() % 5];
	e->phases = rng() % 2 ? RL_PHASES_ALL : 1U << rng() % 3;
	e->until = rng() % 4 ? 0 : 100 + rng() % 3;
	e->name = random_name(3);
}

static void same_as_plain(void **state)
{
	struct rl_prog *p = calloc(1, sizeof(*p) + 12 * sizeof(p->entry[0]));

	(void)state;
	for (int round = 0; round < 3000; round++) {
		struct dg_index *ix;

		p->nentries = rng() % 13;
		for (uint32_t i = 0; i < p->nentries; i++)
			random_entry(&p->entry[i]);
		assert_int_equal(dg_index_new(&ix, p), 0);
		for (int k = 0; k < 50; k++) {
			struct eg_name n = random_name(5);
			struct rl_verdict a, b;
			uint32_t phases = rng() % 8;

			plain(p, phases, 101, &n, &a);
			dg_index_lookup(ix, phases, 101, &n, &b);
			assert_int_equal(a.allowed, b.allowed);
			assert_int_equal(a.denied, b.denied);
			assert_int_equal(a.ancestor, b.ancestor);
			if (!a.allowed)
				continue;
			assert_int_equal(a.wildcard, b.wildcard);
			assert_int_equal(a.entry, b.entry);
		}
		dg_index_free(ix);
	}
	free(p);
}

static bool host_like(const struct eg_name *n)
{
	return ldh(n, eg_name_labels(n), false);
}

/*
 * The index and rl_prog_lookup() in all the guard uses. Names with other
 * octets than a host name's are left out: here a deny entry has them too.
 */
static void same_as_rules(void **state)
{
	struct rl_prog *p = calloc(1, sizeof(*p) + 12 * sizeof(p->entry[0]));

	(void)state;
	for (int round = 0; round < 3000; round++) {
		struct dg_index *ix;

		p->nentries = rng() % 13;
		for (uint32_t i = 0; i < p->nentries; i++) {
			struct rl_entry *e = &p->entry[i];

			random_entry(e);
			e->max_names = rng() % 3 * 100;
			e->nprivate = (uint8_t)(rng() % 2);
			e->private[0].addr = rng();
			if (rng() % 8 == 0) {
				e->kind = RL_HOST;
				e->flags = 0;
				e->dst.addr = rng();
			}
		}
		assert_int_equal(dg_index_new(&ix, p), 0);
		for (int k = 0; k < 50; k++) {
			struct eg_name n = random_name(5);
			struct rl_verdict a, b;
			uint32_t phases = rng() % 8;

			if (!host_like(&n))
				continue;
			rl_prog_lookup(p, phases, 101, &n, &a);
			dg_index_lookup(ix, phases, 101, &n, &b);
			assert_int_equal(a.allowed, b.allowed);
			assert_int_equal(a.denied, b.denied);
			assert_int_equal(a.ancestor, b.ancestor);
			assert_int_equal(a.has_host, b.has_host);
			if (a.has_host)
				assert_int_equal(a.host_addr, b.host_addr);
			if (!a.allowed)
				continue;
			assert_int_equal(a.wildcard, b.wildcard);
			assert_int_equal(a.entry, b.entry);
			assert_int_equal(a.flags, b.flags);
			assert_int_equal(a.max_names, b.max_names);
			assert_int_equal(a.nprivate, b.nprivate);
		}
		dg_index_free(ix);
	}
	free(p);
}

static int released;

static void count_release(const struct rl_prog *p)
{
	free((void *)(uintptr_t)p);
	released++;
}

static void shared_by_digest(void **state)
{
	struct dg_policies ps = {0};
	struct dg_policy *a, *b;
	struct rl_prog *p = calloc(1, sizeof(*p));
	uint8_t other[EG_DIGEST] = {9};

	(void)state;
	p->digest[0] = 1;
	assert_int_equal(dg_policies_add(&ps, p, count_release, &a), 0);
	b = dg_policies_get(&ps, p->digest);
	assert_ptr_equal(a, b);
	assert_null(dg_policies_get(&ps, other));
	dg_policies_put(&ps, a);
	assert_int_equal(released, 0);
	dg_policies_put(&ps, b);
	assert_int_equal(released, 1);
	assert_int_equal(ps.count, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(same_as_plain),
		cmocka_unit_test(same_as_rules),
		cmocka_unit_test(shared_by_digest),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
