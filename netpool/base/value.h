/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * egressd: the words people write in files and on command lines: numbers,
 * durations, sizes, yes and no, protocol and port; and the nearest accepted
 * word to one that is not.
 */
#ifndef EG_VALUE_H
#define EG_VALUE_H

#include "netpool/base/err.h"
#include "netpool/base/proto.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EG_DURATION_TEXT 16 /* "4294967295s" */
#define EG_SIZE_TEXT 24
#define EG_PORT_TEXT 32 /* "sctp/65535-65535" */
#define EG_GUEST_DNS_PORT 53

/* eg_uint_parse() - decimal digits only, within [min, max]. */
int eg_uint_parse(const char *text, uint64_t min, uint64_t max, uint64_t *ret,
		  struct eg_err *err);

/* eg_duration_parse() - seconds: "90", "90s", "10m", "1h", "30d". */
int eg_duration_parse(const char *text, uint32_t min, uint32_t max,
		      uint32_t *ret, struct eg_err *err);
/* eg_duration_format() - in the largest unit that leaves no rest. */
const char *eg_duration_format(uint32_t s, char buf[EG_DURATION_TEXT]);

/* eg_size_parse() - bytes: "4096", "64K", "10M", "2G", "1T" (of 1024). */
int eg_size_parse(const char *text, uint64_t *ret, struct eg_err *err);
const char *eg_size_format(uint64_t n, char buf[EG_SIZE_TEXT]);

/* eg_bool_parse() - "yes" or "no". */
int eg_bool_parse(const char *text, bool *ret, struct eg_err *err);

/**
 * eg_port_parse() - "tcp/443", "443/tcp", "udp/5000-5010", "icmp/8"
 *
 * Protocols: tcp, udp, sctp, icmp, or their numbers in front of the slash.
 * Port 0 is refused; for icmp the number is the type.
 */
int eg_port_parse(const char *text, struct eg_port *ret, struct eg_err *err);
const char *eg_port_format(const struct eg_port *p, char buf[EG_PORT_TEXT]);

/* eg_port_valid() - what eg_port_parse() could have made. */
bool eg_port_valid(const struct eg_port *p);

/* eg_proto_name() - "tcp"; NULL when it is none we filter by port. */
const char *eg_proto_name(uint8_t proto);

/**
 * eg_nearest() - the name that @text was probably meant to be
 *
 * Return: one of @names, or NULL when none is within a third of its length.
 */
const char *eg_nearest(const char *text, const char *const *names, size_t n);

#endif
