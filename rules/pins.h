/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: user-space shadow of one slot's pin set (pure).
 *
 * Knowing what the kernel holds lets a pin that is still good cost nothing
 * and lets a request over the cap be refused before a batch is sent. Open
 * addressing, linear probing, sizes a power of two, at most half full of
 * live or dead entries; a dead (expired) entry is dropped when the table is
 * rebuilt. Times are milliseconds of CLOCK_BOOTTIME.
 */
#ifndef RL_PINS_H
#define RL_PINS_H

#include <stddef.h>
#include <stdint.h>

#define RL_PINS_MAX 4096 /* live pins of a slot (design: dns caps) */

struct rl_pin_ent {
	int64_t until_ms; /* 0: unused */
	uint32_t addr;
	uint16_t port;	 /* as in the set key */
	uint16_t phases; /* in which some name leads here; 0: not known */
	uint8_t proto;
};

struct rl_pins {
	struct rl_pin_ent *v;
	size_t cap, used; /* used counts dead ones */
};

/* rl_pins_find() - the entry, dead or live; NULL when there is none. */
struct rl_pin_ent *rl_pins_find(const struct rl_pins *p, uint32_t addr,
				uint8_t proto, uint16_t port);

/**
 * rl_pins_room() - make sure @n more entries fit without allocation
 *
 * Return: 0, -ENOSPC when live ones and @n exceed RL_PINS_MAX, -ENOMEM.
 */
int rl_pins_room(struct rl_pins *p, size_t n, int64_t now_ms);

/* rl_pins_put() - insert, or set the end and add phases; room must have been
 * made. */
void rl_pins_put(struct rl_pins *p, const struct rl_pin_ent *e);

size_t rl_pins_live(const struct rl_pins *p, int64_t now_ms);
void rl_pins_clear(struct rl_pins *p);

#endif
