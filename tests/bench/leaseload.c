// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: clients of the API that lease and release, for the bench.
 *
 *   leaseload [OPTION]... SOCKET
 *
 *     -a ACTION   cycle: lease (timed), release (timed apart)
 *                 lease: lease (timed) and keep; release: of those (timed)
 *                 get: GET /healthz (timed), what HTTP alone takes
 *     -c N        clients, each a process with a connection of its own (8)
 *     -n N        operations of all clients together (1000)
 *     -d SECONDS  stop then, whatever -n says (600)
 *     -r RATE     operations a second of all together, at random times, so
 *                 that armed slots do not run out; releasing is then done
 *                 beside it, or clients that wait for releases, which come
 *                 in groups, would all lease at the same instant.
 *                 0: one after the other, as fast as they can (0)
 *     -b          with -r: all clients do lease at the same instant
 *     -i TEXT     what ids begin with (b); never twice in a daemon's life
 *     -p POLICY   name (demo)
 *     -g MODE     veth or tap, with an owner (veth)
 *
 * Prints one JSON object: operations, seconds, percentiles of the timed part
 * in microseconds and what else was answered. A client asks, waits for the
 * answer, goes on; it never catches up on what it could not ask in time.
 */
#include "tests/bench/http.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#define CLIENTS_MAX 256
#define OPS_MAX 1000000
#define TRIES_MAX 1000	  /* a kept lease, while no slot is free */
#define PAUSE_NS 20000000 /* after "no slot is free" */
#define RELEASERS 4	  /* processes of a client at a rate */
#define ERROR_TEXT 200
#define URL_MAX 256

enum action { CYCLE, LEASE, RELEASE, GET };
static const char *const actions[] = {"cycle", "lease", "release", "get"};

static struct {
	const char *socket, *id, *policy, *guest;
	enum action action;
	uint32_t clients, ops, seconds;
	double rate;
	bool together;
} opt = {
	.id = "b",
	.policy = "demo",
	.guest = "veth",
	.clients = 8,
	.ops = 1000,
	.seconds = 600,
};

/* Shared with the parent; each process has its own. */
struct result {
	uint32_t slow, exhausted, other, failed;
	uint32_t exhausted_max; /* in units of UNIT_NS */
	char text[ERROR_TEXT];
	uint64_t busy_until;
};

static struct result *results; /* of a client, then of its releasers */
static uint32_t *latency;      /* in UNIT_NS, 68 s fit; 0: did not happen */
static uint32_t *release_;     /* the same for the release of a cycle */
static uint32_t share;	       /* operations of one client */

#define UNIT_NS 16

static uint64_t now_ns(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return ns_of(t.tv_sec, t.tv_nsec);
}

static void sleep_until(uint64_t ns)
{
	const struct timespec t = {.tv_sec = (time_t)(ns / 1000000000U),
				   .tv_nsec = (long)(ns % 1000000000U)};

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
		;
}

static void die(const char *what)
{
	perror(what);
	exit(1);
}

/* ---- one client ------------------------------------------------------------ */

/* xorshift: the same times in every run. */
static double fraction(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return (double)(*state >> 11) / (double)(1ULL << 53);
}

/* When to ask next: in the mean every clients/rate seconds. */
static uint64_t next_time(uint64_t last, uint64_t *seed)
{
	double mean = 1e9 * opt.clients / opt.rate;
	uint64_t now = now_ns(), at;

	at = last + (uint64_t)(opt.together ? mean : 2 * mean * fraction(seed));
	return at > now ? at : now;
}

static uint32_t elapsed(uint64_t from)
{
	uint64_t d = (now_ns() - from) / UNIT_NS;

	return d > UINT32_MAX ? UINT32_MAX : (uint32_t)(d ? d : 1);
}

/* Counts what was not a success. */
static bool succeeded(struct result *r, const struct http *h, int status,
		      int wanted)
{
	if (status == wanted || (status == 200 && wanted == 201)) {
		if (strstr(h->body, "\"slow\":true"))
			r->slow++;
		return true;
	}
	if (status == 503) {
		r->exhausted++;
		return false;
	}
	if (status < 0)
		r->failed++;
	else
		r->other++;
	(void)snprintf(r->text, sizeof(r->text), "%s",
		       status < 0 ? strerror(-status) : h->body);
	return false;
}

static void request(char *body, size_t size)
{
	static const char tap[] =
		",\"guest\":{\"mode\":\"tap\",\"tap\":\"tap0\",\"owner_uid\":1001,"
		"\"owner_gid\":1001,\"address\":\"172.16.0.2/30\","
		"\"gateway\":\"172.16.0.1\",\"mac\":\"06:00:ac:10:00:02\"}";

	(void)snprintf(body, size,
		       "{\"policy\":\"%s\",\"run\":\"bench\",\"ttl_s\":7200%s}",
		       opt.policy, !strcmp(opt.guest, "tap") ? tap : "");
}

/* Timed; true when it counts. A lease to be kept waits for a free slot. */
static bool timed(struct result *r, struct http *h, const char *url,
		  const char *body, uint32_t *ret)
{
	const char *method = opt.action == GET	     ? "GET"
			     : opt.action == RELEASE ? "DELETE"
						     : "PUT";
	int wanted = opt.action == CYCLE || opt.action == LEASE ? 201 : 200;
	uint32_t tries = opt.action == LEASE ? TRIES_MAX : 1;

	for (; tries; tries--) {
		uint64_t t0 = now_ns();
		int status =
			http_ask(h, method, url, wanted == 201 ? body : NULL);

		*ret = elapsed(t0);
		if (succeeded(r, h, status, wanted))
			return true;
		if (status != 503)
			return false;
		if (*ret > r->exhausted_max)
			r->exhausted_max = *ret;
		sleep_until(now_ns() + PAUSE_NS);
	}
	return false;
}

static void url_of(char url[URL_MAX], uint32_t number, uint32_t k)
{
	(void)snprintf(url, URL_MAX,
		       opt.action == GET ? "/healthz" : "/v1/leases/%s-%u-%u",
		       opt.id, number, k);
}

static void release(struct result *r, struct http *h, uint32_t number, uint32_t k)
{
	char url[URL_MAX];
	uint64_t t0 = now_ns();
	uint32_t *ret = release_ + (size_t)number * share + k;
	int status;

	url_of(url, number, k);
	status = http_ask(h, "DELETE", url, NULL);
	if (succeeded(r, h, status, 200))
		*ret = elapsed(t0);
}

/* Releases what it reads of, until the client has closed the other end. */
static void releaser(uint32_t number, uint32_t i, int from)
{
	static struct http h = {.fd = -1};
	struct result *r = &results[number * (1 + RELEASERS) + 1 + i];
	uint32_t k;

	h.path = opt.socket;
	while (read(from, &k, sizeof(k)) == sizeof(k))
		release(r, &h, number, k);
}

/* Returns where to write what is to be released. */
static int releasers_start(uint32_t number)
{
	int fd[2];

	if (pipe(fd) < 0)
		die("pipe");
	for (uint32_t i = 0; i < RELEASERS; i++) {
		pid_t p = fork();

		if (p < 0)
			die("fork");
		if (!p) {
			(void)close(fd[1]);
			releaser(number, i, fd[0]);
			_exit(0);
		}
	}
	(void)close(fd[0]);
	return fd[1];
}

/* One operation; what it leased is released at once or beside it. */
static void operation(struct result *r, struct http *h, uint32_t number,
		      uint32_t k, const char *body, int releasers)
{
	uint32_t took;
	char url[URL_MAX];

	url_of(url, number, k);
	if (!timed(r, h, url, body, &took))
		return;
	latency[(size_t)number * share + k] = took;
	if (opt.action != CYCLE)
		return;
	if (releasers < 0)
		release(r, h, number, k);
	else if (write(releasers, &k, sizeof(k)) != sizeof(k))
		r->failed++;
}

static void client(uint32_t number, uint64_t start)
{
	static struct http h = {.fd = -1};
	struct result *r = &results[number * (1 + RELEASERS)];
	uint64_t seed = 88172645463325252ULL + number * 7919ULL, at = start;
	uint64_t stop = start + opt.seconds * 1000000000ULL;
	/* What does not divide goes to the first. */
	uint32_t ops = opt.ops / opt.clients + (number < opt.ops % opt.clients);
	int releasers = -1;
	char body[512];

	h.path = opt.socket;
	request(body, sizeof(body));
	if (opt.action == CYCLE && opt.rate > 0)
		releasers = releasers_start(number);
	/* Connected before the first is timed. */
	(void)http_ask(&h, "GET", "/healthz", NULL);
	sleep_until(start);
	for (uint32_t k = 0; k < ops && now_ns() < stop; k++) {
		if (opt.rate > 0) {
			at = next_time(at, &seed);
			sleep_until(at);
		}
		operation(r, &h, number, k, body, releasers);
	}
	r->busy_until = now_ns();
	if (releasers >= 0)
		(void)close(releasers);
	while (wait(NULL) > 0)
		;
}

/* ---- what came of it ------------------------------------------------------- */

static int ascending(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

/* The times of what happened, one behind the other, sorted. */
static uint32_t gather(uint32_t *t)
{
	uint32_t n = 0;

	for (size_t i = 0; i < (size_t)opt.clients * share; i++)
		if (t[i])
			t[n++] = t[i];
	qsort(t, n, sizeof(*t), ascending);
	return n;
}

/* The smallest time that at least @permille of a thousand do not exceed. */
static double percentile(const uint32_t *t, uint32_t n, uint32_t permille)
{
	uint64_t rank = ((uint64_t)n * permille + 999) / 1000;

	return n ? (double)t[rank ? rank - 1 : 0] * UNIT_NS / 1000.0 : 0;
}

static void print_times(const char *before, const uint32_t *t, uint32_t n)
{
	static const struct {
		const char *name;
		uint32_t permille;
	} p[] = {{"p50", 500},
		 {"p90", 900},
		 {"p99", 990},
		 {"p999", 999},
		 {"max", 1000}};

	for (size_t i = 0; i < sizeof(p) / sizeof(p[0]); i++)
		(void)printf(", \"%s%s_us\": %.1f", before, p[i].name,
			     percentile(t, n, p[i].permille));
}

static int report(uint64_t start)
{
	struct result sum = {.slow = 0};
	const char *text = NULL;
	uint64_t until = start + 1;
	uint32_t n = gather(latency), released = gather(release_);

	for (uint32_t c = 0; c < opt.clients * (1 + RELEASERS); c++) {
		const struct result *r = &results[c];

		sum.slow += r->slow;
		sum.exhausted += r->exhausted;
		if (r->exhausted_max > sum.exhausted_max)
			sum.exhausted_max = r->exhausted_max;
		sum.other += r->other;
		sum.failed += r->failed;
		if (r->busy_until > until)
			until = r->busy_until;
		if (r->text[0])
			text = r->text;
	}
	(void)printf(
		"{\"action\": \"%s\", \"clients\": %u, \"ops\": %u, \"seconds\": %.3f, \"per_second\": %.1f",
		actions[opt.action], opt.clients, n,
		(double)(until - start) / 1e9,
		n / ((double)(until - start) / 1e9));
	print_times("", latency, n);
	if (released)
		print_times("release_", release_, released);
	(void)printf(
		", \"slow\": %u, \"exhausted\": %u, \"exhausted_max_us\": %.1f, \"other\": %u, \"failed\": %u}\n",
		sum.slow, sum.exhausted,
		(double)sum.exhausted_max * UNIT_NS / 1000.0, sum.other,
		sum.failed);
	if (text)
		(void)fprintf(stderr, "leaseload: an answer was: %s\n", text);
	return !n;
}

/* ---- start ----------------------------------------------------------------- */

static uint32_t number(const char *s, uint32_t max)
{
	char *rest;
	unsigned long n = strtoul(s, &rest, 10);

	if (!*s || *rest || n > max) {
		(void)fprintf(stderr, "leaseload: %s is not 0 to %u\n", s, max);
		exit(2);
	}
	return (uint32_t)n;
}

static enum action action_of(const char *s)
{
	for (unsigned int i = 0; i < sizeof(actions) / sizeof(actions[0]); i++)
		if (!strcmp(s, actions[i]))
			return (enum action)i;
	(void)fprintf(stderr, "leaseload: no action %s\n", s);
	exit(2);
}

static void option(int o)
{
	if (o == 'a')
		opt.action = action_of(optarg);
	else if (o == 'c')
		opt.clients = number(optarg, CLIENTS_MAX);
	else if (o == 'n')
		opt.ops = number(optarg, OPS_MAX);
	else if (o == 'd')
		opt.seconds = number(optarg, 86400);
	else if (o == 'r')
		opt.rate = number(optarg, 1000000);
	else if (o == 'b')
		opt.together = true;
	else if (o == 'i')
		opt.id = optarg;
	else if (o == 'p')
		opt.policy = optarg;
	else if (o == 'g')
		opt.guest = optarg;
	else
		exit(2);
}

static void *shared(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (p == MAP_FAILED)
		die("mmap");
	return p;
}

int main(int argc, char **argv)
{
	uint64_t start;
	int o;

	while ((o = getopt(argc, argv, "a:c:n:d:r:bi:p:g:")) != -1)
		option(o);
	if (optind + 1 != argc || !opt.clients || !opt.ops) {
		(void)fprintf(stderr, "usage: leaseload [OPTION]... SOCKET\n");
		return 2;
	}
	opt.socket = argv[optind];
	share = (opt.ops + opt.clients - 1) / opt.clients;
	results =
		shared((size_t)opt.clients * (1 + RELEASERS) * sizeof(*results));
	latency = shared((size_t)opt.clients * share * sizeof(*latency));
	release_ = shared((size_t)opt.clients * share * sizeof(*release_));
	start = now_ns() + 100000000; /* all are there by then */
	for (uint32_t c = 0; c < opt.clients; c++) {
		pid_t p = fork();

		if (p < 0)
			die("fork");
		if (!p) {
			client(c, start);
			_exit(0);
		}
	}
	while (wait(NULL) > 0)
		;
	return report(start);
}
