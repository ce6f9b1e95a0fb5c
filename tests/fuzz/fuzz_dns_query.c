// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd fuzzing: octets from a guest through the whole guard, up to the
 * answer and the record; names allowed, denied and above allowed ones.
 */
#include "tests/lib/dns_world.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct dw *w;
	struct dg_client c;
	struct dg_query q;
	enum dg_query_verdict v;

	if (!w) {
		w = dw_new();
		(void)dw_entry(w, RL_EXACT, "a.ok.example");
		(void)dw_entry(w, RL_MANY, "w.example");
		w->conf.dns_rate = w->conf.dns_burst = 1000000000;
		dw_lease(w, 1, 1, 0);
	}
	c = dw_client(w, 1);
	v = dg_walk_query(data, size, &q);
	dg_guard_query(w->guard, &c, data, size);
	/* What is well-formed is answered or asked; a reply never is. */
	if (v == DG_QUERY_DROP && w->nreplies)
		abort();
	if (v != DG_QUERY_OK && w->nsends)
		abort();
	w->nreplies = w->nsends = w->npins = w->ndenials = w->nnames = 0;
	dw_advance(w, 1000);
	w->nreplies = w->nsends = w->ndenials = 0;
	return 0;
}
