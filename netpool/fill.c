// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: the fill of the pool: progress, rate and the memory it takes.
 *
 * Memory is measured, not only estimated: Slab and Percpu of the host, read
 * when building starts and again until the fill is over; of what a slot
 * takes all but 1 % is counted there (tried: 337 of 340 kB). It is the whole
 * host's figure, so whatever else happens on the host meanwhile is in it, and
 * a gateway's own memory is in the share of its slots. With fewer than
 * FEW slots that would say nothing about one of them, and nothing is said.
 * Frozen when the fill is over: what is built later replaces what was
 * released.
 */
#include "netpool/base/log.h"
#include "netpool/base/plan.h"
#include "netpool/base/util.h"
#include "netpool/preflight.h"
#include "netpool/state.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define FEW 64
#define MEMINFO 8192 /* some 60 lines of 28 octets */
#define MB 1000000U

void np_fill_open(struct np_fill *f)
{
	/* Without it nothing is measured. */
	f->meminfo = open("/proc/meminfo", O_RDONLY | O_CLOEXEC);
}

static uint64_t field(const char *text, const char *name)
{
	const char *p = strstr(text, name);

	return p ? strtoull(p + strlen(name), NULL, 10) * 1024 : 0;
}

/* Slab and Percpu of the host in octets; 0: not known. */
static uint64_t kernel_memory(const struct np_fill *f)
{
	char buf[MEMINFO];
	ssize_t n = f->meminfo < 0 ? -1
				   : pread(f->meminfo, buf, sizeof(buf) - 1, 0);

	if (n <= 0)
		return 0;
	buf[n] = '\0';
	return field(buf, "\nSlab:") + field(buf, "\nPercpu:");
}

void np_fill_begin(struct np_main *m)
{
	m->fill.begin_ns = eg_boot_ns();
	m->fill.base = kernel_memory(&m->fill);
}

void np_fill_built(struct np_main *m)
{
	m->fill.built++;
	m->fill.last_ns = eg_boot_ns();
}

static void measure(struct np_fill *f)
{
	uint64_t now = kernel_memory(f);

	f->taken = f->base && now > f->base ? now - f->base : 0;
	f->slot = f->built >= FEW ? f->taken / f->built : 0;
}

/* Living slots; @ret_bad: those that cannot be built now. */
static uint32_t living(const struct np_main *m, uint32_t *ret_bad)
{
	uint32_t n = 0, bad = 0;

	for (uint32_t k = 0; k < m->conf->slots; k++) {
		uint8_t s = m->slot[k].state;

		bad += s == NP_BAD;
		n += s != NP_EMPTY && s != NP_BAD && s != NP_BUILDING;
	}
	*ret_bad = bad;
	return n;
}

static void say(const struct np_main *m, uint32_t bad)
{
	const struct np_fill *f = &m->fill;
	uint64_t estimate = f->built * EG_SLOT_BYTES / MB;
	char each[64] = ", too few to tell of one", fail[40] = "";

	if (f->built >= FEW)
		(void)snprintf(each, sizeof(each),
			       ", hidden by what others gave back");
	if (f->slot)
		(void)snprintf(each, sizeof(each), " (%" PRIu64 " kB a slot)",
			       f->slot / 1000);
	if (bad)
		(void)snprintf(fail, sizeof(fail), ", %u failed", bad);
	eg_notice("pool: %" PRIu64 " slots built in %.1f s, about %" PRIu64
		  " MB used%s, estimated %" PRIu64 " MB%s",
		  f->built, (double)(f->end_ns - f->begin_ns) / 1e9,
		  f->taken / MB, each, estimate, fail);
}

/* Over when nothing is left that could be built. */
static void over(struct np_main *m)
{
	struct np_fill *f = &m->fill;
	uint32_t bad, n = living(m, &bad);

	if (m->building || !m->loaded || n + bad < m->prefill)
		return;
	f->over = true;
	f->end_ns = f->built ? f->last_ns : f->begin_ns;
	if (f->built)
		say(m, bad);
}

void np_fill_tick(struct np_main *m, int64_t now)
{
	struct np_fill *f = &m->fill;

	f->sample[f->at].ns = now;
	f->sample[f->at].built = f->built;
	f->at = (f->at + 1) % NP_FILL_SAMPLES;
	if (f->over || !f->begin_ns)
		return;
	measure(f);
	over(m);
}

/* Slots a second, over the time the samples cover. */
static uint32_t rate(const struct np_fill *f)
{
	const int64_t now = eg_boot_ns();
	int64_t ns = now - f->sample[f->at].ns;
	uint64_t n = f->built - f->sample[f->at].built;

	if (!f->sample[f->at].ns) /* the first second */
		ns = now - f->begin_ns;
	return ns > 0 ? (uint32_t)((double)n * 1e9 / (double)ns + 0.5) : 0;
}

void np_fill_count(struct np_main *m, struct eg_mp_pool *p)
{
	const struct np_fill *f = &m->fill;
	uint64_t total = (uint64_t)sysconf(_SC_PHYS_PAGES) *
			 (uint64_t)sysconf(_SC_PAGESIZE);

	p->slots_cap = m->conf->slots_cap ? m->conf->slots_cap : m->conf->slots;
	p->prefill = m->prefill;
	p->built = p->idle + p->armed + p->leased + p->releasing;
	p->filled = f->over;
	p->fill_rate = f->begin_ns ? rate(f) : 0;
	p->built_total = f->built;
	p->fill_ns = 0;
	if (f->begin_ns)
		p->fill_ns = (uint64_t)((f->over ? f->end_ns : eg_boot_ns()) -
					f->begin_ns);
	p->memory_budget = np_budget(m->conf, total);
	p->memory_used = (uint64_t)p->built * EG_SLOT_BYTES;
	p->memory_prefill = (uint64_t)m->prefill * EG_SLOT_BYTES;
	p->memory_measured = f->taken;
	p->memory_slot = f->slot;
}
