// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: metrics in the text format of Prometheus. Names are promises;
 * never a lease, run, name or address as a label.
 */
#include "netpool/api_http.h"
#include "netpool/base/util.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static void head(FILE *f, const char *name, const char *type, const char *help)
{
	(void)fprintf(f, "# HELP %s %s\n# TYPE %s %s\n", name, help, name,
		      type);
}

static void states(FILE *f, const struct eg_mp_pool *p)
{
	const struct {
		const char *state;
		uint32_t n;
	} s[] = { { "building", p->building },	 { "idle", p->idle },
		  { "armed", p->armed },	 { "leased", p->leased },
		  { "releasing", p->releasing }, { "bad", p->bad } };

	head(f, "egressd_slots", "gauge", "Slots of the pool by state.");
	for (size_t i = 0; i < EG_ARRAY_SIZE(s); i++)
		(void)fprintf(f, "egressd_slots{state=\"%s\"} %" PRIu32 "\n",
			      s[i].state, s[i].n);
	head(f, "egressd_leases", "gauge", "Leases by state.");
	(void)fprintf(f, "egressd_leases{state=\"leased\"} %" PRIu32 "\n"
			 "egressd_leases{state=\"releasing\"} %" PRIu32 "\n"
			 "egressd_leases{state=\"lost\"} %" PRIu32 "\n",
		      p->leased, p->releasing, p->lost);
}

static void lease_seconds(FILE *f, const struct eg_mp_pool *p)
{
	uint64_t sum = 0;

	head(f, "egressd_lease_seconds", "histogram",
	     "Time main took to make a lease, in seconds.");
	for (unsigned int i = 0; i < EG_ARRAY_SIZE(p->lease_us_bucket); i++) {
		sum += p->lease_us_bucket[i];
		(void)fprintf(f,
			      "egressd_lease_seconds_bucket{le=\"%g\"} %" PRIu64 "\n",
			      (double)(2ULL << i) / 1e6, sum);
	}
	(void)fprintf(f,
		      "egressd_lease_seconds_bucket{le=\"+Inf\"} %" PRIu64 "\n"
		      "egressd_lease_seconds_count %" PRIu64 "\n",
		      sum, sum);
}

/* A gauge or counter without labels; octets and seconds, nothing derived. */
struct plain {
	const char *name, *type, *help;
	double value;
};

static void pool(FILE *f, const struct eg_mp_pool *p)
{
	const struct plain m[] = {
		{"egressd_pool_slots", "gauge",
		 "Slots the configuration asks for.", p->slots},
		{"egressd_pool_slots_cap", "gauge",
		 "Slots the host has room for (egressctl doctor).",
		 p->slots_cap},
		{"egressd_pool_prefill_slots", "gauge",
		 "Slots the pool is filled to.", p->prefill},
		{"egressd_pool_built_slots", "gauge",
		 "Slots that live: idle, armed, leased, releasing.", p->built},
		{"egressd_pool_builds_total", "counter",
		 "Slots built since main started.", (double)p->built_total},
		{"egressd_pool_fill_rate", "gauge",
		 "Slots built in the last second.", p->fill_rate},
		{"egressd_pool_fill_seconds", "gauge",
		 "Time the fill has taken.", (double)p->fill_ns / 1e9},
		{"egressd_pool_filled", "gauge", "1 when the fill is over.",
		 p->filled},
		{"egressd_pool_memory_budget_bytes", "gauge",
		 "Kernel memory the pool may take (memory_budget).",
		 (double)p->memory_budget},
		{"egressd_pool_memory_estimate_bytes", "gauge",
		 "Kernel memory of the slots that live, estimated.",
		 (double)p->memory_used},
		{"egressd_pool_memory_measured_bytes", "gauge",
		 "Growth of the host's Slab and Percpu during the fill.",
		 (double)p->memory_measured},
	};

	for (size_t i = 0; i < EG_ARRAY_SIZE(m); i++) {
		head(f, m[i].name, m[i].type, m[i].help);
		(void)fprintf(f, "%s %.15g\n", m[i].name, m[i].value);
	}
}

static void roles(FILE *f, const struct eg_mp_pool *p)
{
	head(f, "egressd_role_restarts_total", "counter",
	     "Times a role was started again, as main saw it.");
	for (unsigned int i = EG_ROLE_BUILD; i < EG_ROLE_COUNT; i++)
		(void)fprintf(f,
			      "egressd_role_restarts_total{role=\"%s\"} %" PRIu64 "\n",
			      eg_role_name((enum eg_role)i),
			      p->role_restarts[i]);
}

void api_metrics(struct call *c, const struct eg_mp_pool *p)
{
	char *out = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&out, &len);

	if (!f) {
		api_error(c, EG_E_INTERNAL, NULL, "out of memory");
		return;
	}
	head(f, "egressd_build_info", "gauge", "Version of egressd.");
	(void)fprintf(f, "egressd_build_info{version=\"%s\"} 1\n", EG_VERSION);
	states(f, p);
	pool(f, p);
	lease_seconds(f, p);
	head(f, "egressd_pin_commit_seconds", "summary",
	     "Time of the kernel's commits of pins, in seconds.");
	(void)fprintf(f, "egressd_pin_commit_seconds_sum %.9f\n"
			 "egressd_pin_commit_seconds_count %" PRIu64 "\n",
		      (double)p->pin_ns_sum / 1e9, p->pins_total);
	roles(f, p);
	(void)fclose(f);
	api_text(c, 200, "text/plain; version=0.0.4", out, len);
}
