// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: how a pool fills, for the bench.
 *
 *   poolwatch SOCKET SLOTS FROM_NS LIMIT_S
 *
 * Asks for /v1/pool every 10 ms until SLOTS are built and prints a line
 * "mark BUILT NANOSECONDS" for each answer that says more than the last one,
 * since FROM_NS (CLOCK_REALTIME, taken before the daemon was started), then
 * "done"; the socket may not be there yet. Exit status 1 after LIMIT_S.
 */
#include "tests/bench/http.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define EVERY_NS 10000000

static uint64_t now_ns(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_REALTIME, &t);
	return ns_of(t.tv_sec, t.tv_nsec);
}

/* Slots that can be leased or are; -1: no answer. */
static long built(struct http *h)
{
	long idle, armed, leased;

	if (http_ask(h, "GET", "/v1/pool", NULL) != 200)
		return -1;
	idle = http_number(h, "idle");
	armed = http_number(h, "armed");
	leased = http_number(h, "leased");
	return idle < 0 || armed < 0 || leased < 0 ? -1 : idle + armed + leased;
}

int main(int argc, char **argv)
{
	static struct http h = {.fd = -1};
	const struct timespec pause = {.tv_nsec = EVERY_NS};
	uint64_t from, limit;
	long slots, seen = -1;

	if (argc != 5) {
		(void)fprintf(stderr,
			      "usage: poolwatch SOCKET SLOTS FROM_NS LIMIT_S\n");
		return 2;
	}
	h.path = argv[1];
	slots = strtol(argv[2], NULL, 10);
	from = strtoull(argv[3], NULL, 10);
	limit = from + strtoull(argv[4], NULL, 10) * 1000000000U;
	while (seen < slots && now_ns() < limit) {
		uint64_t asked = now_ns();
		long n = built(&h);

		if (n > seen) {
			(void)printf("mark %ld %" PRIu64 "\n", n, asked - from);
			seen = n;
		}
		if (seen < slots)
			(void)nanosleep(&pause, NULL);
	}
	(void)printf("%s\n", seen < slots ? "late" : "done");
	return seen < slots;
}
