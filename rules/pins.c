// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: user-space shadow of a pin set (see pins.h)
 */
#include "rules/pins.h"

#include <errno.h>
#include <stdlib.h>

#define PINS_FIRST 16 /* most leases pin a dozen addresses */

static size_t slot_of(const struct rl_pins *p, uint32_t addr, uint8_t proto,
		      uint16_t port)
{
	uint64_t h = ((uint64_t)addr << 24 | (uint64_t)port << 8 | proto) *
		     0x9e3779b97f4a7c15ULL;
	size_t i = (size_t)(h >> 40) & (p->cap - 1);

	while (p->v[i].until_ms && (p->v[i].addr != addr || p->v[i].port != port ||
				    p->v[i].proto != proto))
		i = (i + 1) & (p->cap - 1);
	return i;
}

struct rl_pin_ent *rl_pins_find(const struct rl_pins *p, uint32_t addr,
				uint8_t proto, uint16_t port)
{
	size_t i;

	if (!p->cap)
		return NULL;
	i = slot_of(p, addr, proto, port);
	return p->v[i].until_ms ? &p->v[i] : NULL;
}

size_t rl_pins_live(const struct rl_pins *p, int64_t now_ms)
{
	size_t n = 0;

	for (size_t i = 0; i < p->cap; i++)
		n += p->v[i].until_ms > now_ms;
	return n;
}

int rl_pins_room(struct rl_pins *p, size_t n, int64_t now_ms)
{
	struct rl_pins next = {0};
	size_t live;

	if (2 * (p->used + n) <= p->cap && p->used + n <= RL_PINS_MAX)
		return 0;
	live = rl_pins_live(p, now_ms);
	if (live + n > RL_PINS_MAX)
		return -ENOSPC;
	next.cap = PINS_FIRST;
	while (next.cap < 4 * (live + n))
		next.cap *= 2;
	next.v = calloc(next.cap, sizeof(*next.v));
	if (!next.v)
		return -ENOMEM;
	for (size_t i = 0; i < p->cap; i++)
		if (p->v[i].until_ms > now_ms)
			rl_pins_put(&next, &p->v[i]);
	free(p->v);
	*p = next;
	return 0;
}

void rl_pins_put(struct rl_pins *p, const struct rl_pin_ent *e)
{
	size_t i = slot_of(p, e->addr, e->proto, e->port);
	uint16_t phases = e->phases;

	if (!p->v[i].until_ms)
		p->used++;
	else if (p->v[i].until_ms > 1) /* 1: dropped by a change of phase */
		phases |= p->v[i].phases;
	p->v[i] = *e;
	p->v[i].phases = phases;
}

void rl_pins_clear(struct rl_pins *p)
{
	free(p->v);
	*p = (struct rl_pins){0};
}
