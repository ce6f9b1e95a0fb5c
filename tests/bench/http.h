/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: the bench's HTTP client: one keep-alive connection to a unix
 * socket, one question at a time, nothing allocated. It does as little as
 * possible between a question and its answer, since that time is measured.
 */
#ifndef BENCH_HTTP_H
#define BENCH_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HTTP_MAX 65536 /* of one answer, head and body */
#define HTTP_TIMEOUT_S 30

struct http {
	const char *path; /* of the socket */
	int fd;		  /* -1: connects at the next question */
	size_t len;
	const char *body; /* of the last answer, ends with a zero */
	char buf[HTTP_MAX + 1];
};

/**
 * http_ask() - one question and its answer
 * @body:	NULL: none
 *
 * A connection the other side has closed since the last answer is made anew
 * once. Return: HTTP status; negative errno.
 */
int http_ask(struct http *h, const char *method, const char *url,
	     const char *body);

/* http_number() - the number after "KEY": in the last answer, else -1. */
long http_number(const struct http *h, const char *key);

static inline uint64_t ns_of(int64_t s, int64_t ns)
{
	return (uint64_t)s * 1000000000U + (uint64_t)ns;
}

#endif
