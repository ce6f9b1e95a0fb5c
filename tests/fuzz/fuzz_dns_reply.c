// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd fuzzing: octets from an upstream. The input is what follows the id
 * and the question of a reply to `ok.example`: flags, counts, records.
 */
#include "dnsguard/vet.h"
#include "tests/lib/dns_world.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Whatever came, what main is asked to pin is public. */
static void check(struct dw *w)
{
	for (size_t i = 0; i < w->npins; i++)
		for (uint32_t k = 0; k < w->pin[i].m.naddrs; k++)
			if (dg_vet_addr(&w->conf, w->pin[i].m.addr[k], NULL, 0))
				abort();
	if (w->npins > 1)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t buf[20000];
	static uint64_t generation;
	static struct dw *w;
	struct eg_name name = dw_name("ok.example");
	struct dg_client c;
	size_t len, qlen;
	uint8_t q[100];

	if (!w) {
		w = dw_new();
		(void)dw_entry(w, RL_ONE, "example");
		w->conf.dns_rate = w->conf.dns_burst = 1000000000;
	}
	dw_lease(w, 1, ++generation, 0); /* a wildcard's cache goes with it */
	if (size < 8 || size > 16000)
		return 0;
	c = dw_client(w, 1);
	qlen = dw_query(q, 1, &name, DG_T_A, DG_C_IN, true);
	dg_guard_query(w->guard, &c, q, qlen);
	for (int part = 0; part < 3 && w->nsends; part++) {
		struct dw_send s = w->send[0];

		dw_shift(w->send, w->nsends);
		len = s.len - 11;
		memcpy(buf, s.msg, len);
		memcpy(buf + 2, data, 2);
		memcpy(buf + 6, data + 2, 6);
		memcpy(buf + len, data + 8, size - 8);
		len += size - 8;
		if (s.tcp)
			dg_up_on_stream(dg_guard_up(w->guard), s.req, buf, len,
					w->now);
		else
			dg_up_on_datagram(dg_guard_up(w->guard), s.req, buf,
					  len, w->now);
		check(w);
	}
	dw_advance(w, 4000);
	w->nreplies = w->nsends = w->npins = w->ndenials = w->nnames = 0;
	return 0;
}
