// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: canonical policy text (see canon.h)
 *
 * Each entry is formatted once; entries with equal text are joined into one
 * with the union of their phases. A bit of its own stands for "every phase",
 * so that the union of sixteen named phases is not mistaken for it.
 */
#include "rules/canon.h"
#include "netpool/base/digest.h"
#include "netpool/base/util.h"
#include "rules/entry.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define COMMON (1U << 31)
#define CANON_HEAD "# \"canon\":"

struct item {
	char *text; /* heap */
	enum rl_list list;
	uint32_t phases;
};

static int by_list_and_text(const void *a, const void *b)
{
	const struct item *x = a, *y = b;

	if (x->list != y->list)
		return x->list < y->list ? -1 : 1;
	return strcmp(x->text, y->text);
}

static void items_free(struct item *items, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(items[i].text);
	free(items);
}

/* Sort and join; how many are left. */
static size_t items_join(struct item *items, size_t n)
{
	size_t keep = 0;

	if (n)
		qsort(items, n, sizeof(*items), by_list_and_text);
	for (size_t i = 0; i < n; i++) {
		if (keep && !by_list_and_text(&items[keep - 1], &items[i])) {
			items[keep - 1].phases |= items[i].phases;
			free(items[i].text);
			continue;
		}
		items[keep++] = items[i];
	}
	return keep;
}

static struct item *items_make(const struct rl_prog *p, size_t *ret_n)
{
	struct item *items = calloc(p->nentries + 1, sizeof(*items));
	char text[RL_ENTRY_TEXT];

	for (uint32_t i = 0; items && i < p->nentries; i++) {
		const struct rl_entry *e = &p->entry[i];

		(void)rl_entry_format(e, text);
		items[i].text = strdup(text);
		items[i].list = rl_entry_list(e);
		items[i].phases = e->phases == RL_PHASES_ALL ? COMMON : e->phases;
		if (!items[i].text) {
			items_free(items, i);
			return NULL;
		}
	}
	if (items)
		*ret_n = items_join(items, p->nentries);
	return items;
}

/* One section: its head (if there is anything, or @always) and lines. */
static void print_section(FILE *f, const char *head, const char *key,
			  const struct item *items, size_t n, enum rl_list list,
			  uint32_t mask, bool always)
{
	bool head_done = false;

	for (size_t i = 0; i < n || (always && !head_done); i++) {
		bool mine = i < n && items[i].list == list &&
			    (items[i].phases & mask) &&
			    (mask == COMMON || !(items[i].phases & COMMON));

		if (!head_done && (mine || always))
			fprintf(f, "\n[%s]\n", head);
		head_done = head_done || mine || always;
		if (mine)
			fprintf(f, "%s = %s\n", key, items[i].text);
	}
}

/* Phase numbers in the order of their names. */
static void sort_phases(const struct rl_prog *p, uint32_t order[EG_PHASES])
{
	for (uint32_t i = 0; i < p->nphases; i++) {
		uint32_t k = i;

		for (; k && strcmp(p->phase[order[k - 1]], p->phase[i]) > 0; k--)
			order[k] = order[k - 1];
		order[k] = i;
	}
}

static void print_all(const struct rl_prog *p, FILE *f,
		      const struct item *items, size_t n)
{
	uint32_t order[EG_PHASES] = {0};
	char head[EG_PHASE + 8];

	fprintf(f, CANON_HEAD "%d\n[policy]\n", RL_CANON_VERSION);
	if (p->name[0])
		fprintf(f, "name = %s\n", p->name);
	if (p->description[0])
		fprintf(f, "description = %s\n", p->description);
	print_section(f, "host", "host", items, n, RL_LIST_HOST, COMMON, false);
	print_section(f, "allow", "allow", items, n, RL_LIST_ALLOW, COMMON,
		      false);
	sort_phases(p, order);
	for (uint32_t i = 0; i < p->nphases; i++) {
		(void)snprintf(head, sizeof(head), "allow %s",
			       p->phase[order[i]]);
		print_section(f, head, "allow", items, n, RL_LIST_ALLOW,
			      1U << order[i], true);
	}
	print_section(f, "deny", "deny", items, n, RL_LIST_DENY, COMMON, false);
}

int rl_policy_print(const struct rl_prog *p, FILE *f)
{
	struct item *items;
	size_t n = 0;

	items = items_make(p, &n);
	if (!items)
		return -ENOMEM;
	print_all(p, f, items, n);
	items_free(items, n);
	return ferror(f) ? -EIO : 0;
}

int rl_canon_text(const struct rl_prog *p, char **ret, size_t *ret_len)
{
	EG_CLEANUP_FREE char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);
	int rc;

	if (!f)
		return -ENOMEM;
	rc = rl_policy_print(p, f);
	if (fclose(f) && !rc)
		rc = -ENOMEM;
	if (rc)
		return rc;
	*ret = text;
	*ret_len = len;
	text = NULL;
	return 0;
}

bool rl_canon_is(const char *text, size_t len)
{
	size_t n = strlen(CANON_HEAD);

	return len > n && !memcmp(text, CANON_HEAD, n);
}

int rl_canon_digest(const struct rl_prog *p, uint8_t ret[EG_DIGEST])
{
	EG_CLEANUP_FREE char *text = NULL;
	size_t len;
	int rc = rl_canon_text(p, &text, &len);

	if (!rc)
		eg_sha256_of(text, len, ret);
	return rc;
}
