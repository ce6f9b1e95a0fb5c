/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: a domain name as a value, in uncompressed wire form.
 *
 * Every comparison is label by label on the wire form with ASCII-only case
 * folding (RFC 4343 section 3): a dot or a NUL inside a label is data and
 * can never make one name look like another. Text is for people: what does
 * not belong in a host name is escaped as in RFC 1035 section 5.1 (\. \DDD),
 * so the text form is injective and safe on a terminal.
 */
#ifndef EG_NAME_H
#define EG_NAME_H

#include "netpool/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EG_NAME_WIRE 255 /* RFC 1035 section 2.3.4 */
#define EG_NAME_LABEL 63
#define EG_NAME_TEXT 1024 /* 255 octets, each as \DDD at worst */

struct eg_name {
	uint8_t len;		    /* octets used, root label included */
	uint8_t wire[EG_NAME_WIRE]; /* length-prefixed labels, ends with 0 */
};

/**
 * eg_name_parse() - host name text (as written in a policy) to a name
 * @text:	letters, digits, hyphens, underscores; one trailing dot allowed
 *
 * U-labels, empty or over-long labels, and names over 255 octets are
 * refused with a sentence. The result is in lower case.
 */
int eg_name_parse(const char *text, struct eg_name *ret, struct eg_err *err);

/**
 * eg_name_from_wire() - take a name from uncompressed wire octets
 * @wire:	at most @len octets; must hold a whole name without pointers
 *
 * Case is kept. Return: octets consumed, or -EBADMSG.
 */
int eg_name_from_wire(const uint8_t *wire, size_t len, struct eg_name *ret);

/* eg_name_format() - escaped text without the trailing dot ("." for root). */
const char *eg_name_format(const struct eg_name *n, char buf[EG_NAME_TEXT]);

bool eg_name_equal(const struct eg_name *a, const struct eg_name *b);

/* eg_name_lower() - fold ASCII letters in place. */
void eg_name_lower(struct eg_name *n);

/* eg_name_labels() - labels, the root's not counted. */
unsigned int eg_name_labels(const struct eg_name *n);

/**
 * eg_name_below() - how many labels @n has in front of @suffix
 *
 * Return: 0 when equal, k > 0 when @n is k labels below, -1 when it is not
 * below @suffix.
 */
int eg_name_below(const struct eg_name *n, const struct eg_name *suffix);

/* eg_name_ldh() - the first @labels labels hold only letters, digits, '-'. */
bool eg_name_ldh(const struct eg_name *n, unsigned int labels);

/* eg_name_hash() - case-insensitive hash of the wire form. */
uint32_t eg_name_hash(const struct eg_name *n);

#endif
