// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressctl: pool: slots by state, the fill, leases, memory; once or watched.
 *
 * --watch asks once a second. On a terminal it draws over what it drew
 * before; into a pipe it writes a line a second of KEY=VALUE words, or one
 * compact JSON object a second with --json. Rates and times of leases are
 * those since the question before, so the first line has none. Ends with 0
 * on SIGINT or when nobody reads any more, with 3 when the daemon goes away.
 */
#include "netpool/base/util.h"
#include "netpool/ctl/ct.h"

#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BUCKETS 16 /* powers of two from 2 us on, the last open */
#define BAR 30	   /* characters of the progress */
#define MB 1000000

static volatile sig_atomic_t interrupted;

/* What is compared with the question before. */
struct seen {
	bool set;
	struct timespec at;
	long long leases, released;
	long long bucket[BUCKETS];
};

/* Since the question before; times are upper bounds in us, 0: no lease. */
struct rates {
	double leases, released; /* a second */
	long long p50_us, p99_us;
};

static long long bucket_at(json_t *j, size_t i)
{
	return json_integer_value(
		json_array_get(json_object_get(j, "lease_us_buckets"), i));
}

/* The bound of the bucket in which @part of the new leases are reached. */
static long long percentile(const long long n[BUCKETS], double part)
{
	long long all = 0, sum = 0;

	for (size_t i = 0; i < BUCKETS; i++)
		all += n[i];
	for (size_t i = 0; all && i < BUCKETS; i++) {
		sum += n[i];
		if ((double)sum >= part * (double)all)
			return 2LL << i;
	}
	return 0;
}

static void compare(json_t *j, struct seen *old, struct rates *ret)
{
	struct seen now = {.set = true,
			   .leases = ct_int(j, "leases_total"),
			   .released = ct_int(j, "released_total")};
	long long n[BUCKETS];
	double s;

	memset(ret, 0, sizeof(*ret));
	(void)clock_gettime(CLOCK_MONOTONIC, &now.at);
	for (size_t i = 0; i < BUCKETS; i++) {
		now.bucket[i] = bucket_at(j, i);
		n[i] = now.bucket[i] - old->bucket[i];
		if (n[i] < 0) /* main has been started again */
			old->set = false;
	}
	s = (double)(now.at.tv_sec - old->at.tv_sec) +
	    (double)(now.at.tv_nsec - old->at.tv_nsec) / 1e9;
	if (old->set && s > 0 && now.leases >= old->leases) {
		ret->leases = (double)(now.leases - old->leases) / s;
		ret->released = (double)(now.released - old->released) / s;
		ret->p50_us = percentile(n, 0.5);
		ret->p99_us = percentile(n, 0.99);
	}
	*old = now;
}

/* ---- for people ----------------------------------------------------------------- */

static void print_fill(json_t *j)
{
	long long built = ct_int(j, "built"), all = ct_int(j, "prefill");
	double s = json_number_value(json_object_get(j, "fill_s"));

	if (json_is_true(json_object_get(j, "filled")))
		(void)printf(
			"filled: %lld of %lld slots live; %lld built since the start, the fill took %.1f s\n",
			built, all, ct_int(j, "built_total"), s);
	else
		(void)printf(
			"filling: %lld of %lld slots, %lld a second, %.1f s so far\n",
			built, all, ct_int(j, "fill_rate"), s);
	if (ct_int(j, "slots_cap") < ct_int(j, "slots")) {
		(void)printf("at most %lld slots fit this host: ",
			     ct_int(j, "slots_cap"));
		ct_put(stdout, ct_str(j, "slots_cap_why"), 0);
		(void)puts(" (egressctl doctor)");
	}
}

static void print_memory(json_t *j)
{
	(void)printf("kernel memory: about %lld MB by estimate, budget %lld MB",
		     ct_int(j, "memory_estimate_bytes") / MB,
		     ct_int(j, "memory_budget_bytes") / MB);
	if (ct_int(j, "memory_slot_bytes"))
		(void)printf("; the fill was measured at %lld MB, %lld kB a slot",
			     ct_int(j, "memory_measured_bytes") / MB,
			     ct_int(j, "memory_slot_bytes") / 1000);
	(void)fputc('\n', stdout);
}

static void print_once(json_t *j)
{
	(void)printf(
		"slots %lld: leased %lld, armed %lld, idle %lld, building %lld, releasing %lld, bad %lld\n",
		ct_int(j, "slots"), ct_int(j, "leased"), ct_int(j, "armed"),
		ct_int(j, "idle"), ct_int(j, "building"),
		ct_int(j, "releasing"), ct_int(j, "bad"));
	print_fill(j);
	(void)printf(
		"gateways %lld of %lld up; leases %lld made (%lld slow), %lld released, %lld refused for want of a slot\n",
		ct_int(j, "gateways_up"), ct_int(j, "gateways"),
		ct_int(j, "leases_total"), ct_int(j, "slow_total"),
		ct_int(j, "released_total"), ct_int(j, "exhausted_total"));
	print_memory(j);
	(void)printf(
		"pins %lld, failed %lld; namespaces that lingered after a release %lld\n",
		ct_int(j, "pins_total"), ct_int(j, "pins_failed"),
		ct_int(j, "lingering"));
}

static void print_bar(json_t *j)
{
	long long built = ct_int(j, "built"), all = ct_int(j, "prefill");
	long long n = all > 0 ? built * BAR / all : BAR;

	(void)fputc('[', stdout);
	for (long long i = 0; i < BAR; i++)
		(void)fputc(i < n ? '#' : '.', stdout);
	(void)printf("] %lld %%\n",
		     all > 0 && built < all ? built * 100 / all : 100);
}

/* @lines: drawn before, to be drawn over; the new number is returned. */
static int draw(json_t *j, const struct rates *r, int lines)
{
	bool capped = ct_int(j, "slots_cap") < ct_int(j, "slots");

	if (lines)
		(void)printf("\033[%dA\033[J", lines);
	(void)fputs("\033[?7l", stdout); /* a wrapped line would be two */
	print_bar(j);
	print_once(j);
	(void)printf("now: %.0f leases/s, %.0f releases/s", r->leases,
		     r->released);
	if (r->p50_us)
		(void)printf(", a lease took p50 <= %lld us, p99 <= %lld us",
			     r->p50_us, r->p99_us);
	(void)fputs("\n\033[?7h", stdout);
	return capped ? 8 : 7;
}

/* ---- for programs ------------------------------------------------------------------ */

/* Words KEY=VALUE in this order; add at the end. */
static void print_line(json_t *j, const struct rates *r)
{
	static const char *const keys[] = {
		"slots",     "prefill", "built",     "fill_rate",
		"building",  "idle",	"armed",     "leased",
		"releasing", "bad",	"lingering",
	};
	char at[32];
	struct tm tm;
	time_t now = time(NULL);

	(void)strftime(at, sizeof(at), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &tm));
	(void)printf("time=%s", at);
	for (size_t i = 0; i < EG_ARRAY_SIZE(keys); i++)
		(void)printf(" %s=%lld", keys[i], ct_int(j, keys[i]));
	(void)printf(
		" memory_mb=%lld budget_mb=%lld leases_s=%.1f releases_s=%.1f lease_p50_us=%lld lease_p99_us=%lld\n",
		ct_int(j, "memory_estimate_bytes") / MB,
		ct_int(j, "memory_budget_bytes") / MB, r->leases, r->released,
		r->p50_us, r->p99_us);
}

static void print_object(json_t *j, const struct rates *r)
{
	(void)json_object_set_new(j, "leases_s", json_real(r->leases));
	(void)json_object_set_new(j, "releases_s", json_real(r->released));
	(void)json_object_set_new(j, "lease_p50_us", json_integer(r->p50_us));
	(void)json_object_set_new(j, "lease_p99_us", json_integer(r->p99_us));
	(void)json_dumpf(j, stdout, JSON_COMPACT | JSON_ENSURE_ASCII);
	(void)fputc('\n', stdout);
}

/* ---- the command -------------------------------------------------------------------- */

static void on_interrupt(int sig)
{
	(void)sig;
	interrupted = 1;
}

/* No SA_RESTART: what waits is woken. A reader that goes is no failure. */
static void signals(void)
{
	struct sigaction stop = {.sa_handler = on_interrupt};
	struct sigaction ignore = {.sa_handler = SIG_IGN};

	(void)sigaction(SIGINT, &stop, NULL);
	(void)sigaction(SIGTERM, &stop, NULL);
	(void)sigaction(SIGPIPE, &ignore, NULL);
}

/* Once a second by the clock, however long the question took. */
static void until_next(struct timespec *next)
{
	struct timespec now;

	next->tv_sec++;
	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	if (now.tv_sec > next->tv_sec)
		*next = now; /* was stopped meanwhile: do not catch up */
	while (!interrupted && clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME,
					       next, NULL) == EINTR)
		;
}

static int watch(void)
{
	bool terminal = !ct_json && isatty(STDOUT_FILENO);
	struct seen old = {0};
	struct timespec next;
	struct rates rates;
	int lines = 0;

	signals();
	(void)clock_gettime(CLOCK_MONOTONIC, &next);
	while (!interrupted) {
		json_t *j = NULL;
		int r = ct_ask("GET", "/v1/pool", NULL, &j);

		if (r) /* also when the signal came in the middle of it */
			return interrupted ? CT_OK : r;
		compare(j, &old, &rates);
		if (ct_json)
			print_object(j, &rates);
		else if (terminal)
			lines = draw(j, &rates, lines);
		else
			print_line(j, &rates);
		json_decref(j);
		if (fflush(stdout))
			return CT_OK;
		until_next(&next);
	}
	return CT_OK;
}

static const struct ct_option pool_options[] = {
	{"--watch", NULL, "again every second until interrupted"},
};

static int pool_run(const struct ct_args *a)
{
	json_t *j = NULL;
	int r;

	if (a->opt[0])
		return watch();
	r = ct_ask("GET", "/v1/pool", NULL, &j);
	if (r)
		return r;
	if (ct_json)
		ct_print_json(j);
	else
		print_once(j);
	json_decref(j);
	return CT_OK;
}

const struct ct_command ct_pool = {
	.name = "pool",
	.usage = "[--watch]",
	.help = "slots by state, the fill, leases made, memory",
	.options = pool_options,
	.noptions = EG_ARRAY_SIZE(pool_options),
	.run = pool_run,
};
