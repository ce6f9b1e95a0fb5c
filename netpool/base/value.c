// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: words as values (see value.h)
 */
#include "netpool/base/value.h"
#include "netpool/base/log.h"
#include "netpool/base/util.h"

#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define QUOTE 96	/* of a wrong value, in a message */
#define NEAREST_LEN 48U /* longest word eg_nearest() compares */

static const char *quote(char *buf, const char *text)
{
	return eg_escape(buf, QUOTE, text, strlen(text));
}

/*
 * Leading digits of @text; how many there were. More than 19 digits, which
 * 64 bits do not always hold, come back as UINT64_MAX.
 */
static size_t digits(const char *text, uint64_t *ret)
{
	size_t n = strspn(text, "0123456789");
	uint64_t v = 0;

	for (size_t i = 0; i < n && i < 19; i++)
		v = v * 10 + (uint64_t)(text[i] - '0');
	*ret = n > 19 ? UINT64_MAX : v;
	return n;
}

int eg_uint_parse(const char *text, uint64_t min, uint64_t max, uint64_t *ret,
		  struct eg_err *err)
{
	char q[QUOTE];
	uint64_t v;
	size_t n = digits(text, &v);

	if (!n || text[n] || v < min || v > max)
		return eg_err_set(err, -EINVAL,
				  "'%s' is not a number from %" PRIu64
				  " to %" PRIu64,
				  quote(q, text), min, max);
	*ret = v;
	return 0;
}

static const struct unit {
	char suffix;
	uint32_t s;
} units[] = {{'d', 86400}, {'h', 3600}, {'m', 60}, {'s', 1}};

int eg_duration_parse(const char *text, uint32_t min, uint32_t max,
		      uint32_t *ret, struct eg_err *err)
{
	char q[QUOTE], lo[EG_DURATION_TEXT], hi[EG_DURATION_TEXT];
	uint64_t v, mul = 0;
	size_t n = digits(text, &v);

	if (n && !text[n])
		mul = 1;
	for (size_t i = 0; n && i < EG_ARRAY_SIZE(units); i++)
		if (text[n] == units[i].suffix && !text[n + 1])
			mul = units[i].s;
	if (!mul)
		return eg_err_set(
			err, -EINVAL,
			"'%s' is not a duration; write 90s, 10m, 1h or 30d",
			quote(q, text));
	if (v > UINT32_MAX || v * mul < min || v * mul > max)
		return eg_err_set(err, -EINVAL,
				  "'%s' is out of range; %s to %s is accepted",
				  quote(q, text), eg_duration_format(min, lo),
				  eg_duration_format(max, hi));
	*ret = (uint32_t)(v * mul);
	return 0;
}

const char *eg_duration_format(uint32_t s, char buf[EG_DURATION_TEXT])
{
	size_t i = 0;

	while (s && units[i].s > 1 && s % units[i].s)
		i++;
	if (!s)
		i = EG_ARRAY_SIZE(units) - 1;
	(void)snprintf(buf, EG_DURATION_TEXT, "%u%c", s / units[i].s,
		       units[i].suffix);
	return buf;
}

int eg_size_parse(const char *text, uint64_t *ret, struct eg_err *err)
{
	static const char suffix[] = "KMGT";
	unsigned int shift = 0;
	char q[QUOTE];
	uint64_t v;
	size_t n = digits(text, &v);
	const char *s = text[n] ? strchr(suffix, text[n]) : NULL;

	if (s)
		shift = 10 * (unsigned int)(s - suffix + 1);
	if (!n || (text[n] && (!s || text[n + 1])))
		return eg_err_set(
			err, -EINVAL,
			"'%s' is not a size; write bytes, or a number and K, M, G or T",
			quote(q, text));
	if (v > (UINT64_MAX >> 1 >> shift))
		return eg_err_set(err, -EINVAL, "size '%s' is too large",
				  quote(q, text));
	*ret = v << shift;
	return 0;
}

const char *eg_size_format(uint64_t n, char buf[EG_SIZE_TEXT])
{
	static const char suffix[] = "KMGT";
	int i = -1;

	while (n && !(n & 1023) && i < 3) {
		n >>= 10;
		i++;
	}
	(void)snprintf(buf, EG_SIZE_TEXT, "%" PRIu64 "%.*s", n, i >= 0,
		       i >= 0 ? &suffix[i] : "");
	return buf;
}

int eg_bool_parse(const char *text, bool *ret, struct eg_err *err)
{
	char q[QUOTE];

	if (strcmp(text, "yes") && strcmp(text, "no"))
		return eg_err_set(err, -EINVAL, "'%s' is neither yes nor no",
				  quote(q, text));
	*ret = text[0] == 'y';
	return 0;
}

static const struct proto {
	const char *name;
	uint8_t number;
} protos[] = {
	{"tcp", IPPROTO_TCP},
	{"udp", IPPROTO_UDP},
	{"sctp", IPPROTO_SCTP},
	{"icmp", IPPROTO_ICMP},
};

const char *eg_proto_name(uint8_t proto)
{
	for (size_t i = 0; i < EG_ARRAY_SIZE(protos); i++)
		if (protos[i].number == proto)
			return protos[i].name;
	return NULL;
}

/* Number of the protocol named in @text[0..n), 0 when it is none of ours. */
static uint8_t proto_word(const char *text, size_t n, bool number)
{
	uint64_t v;

	for (size_t i = 0; i < EG_ARRAY_SIZE(protos); i++)
		if (strlen(protos[i].name) == n &&
		    !strncasecmp(text, protos[i].name, n))
			return protos[i].number;
	if (!number || !n || digits(text, &v) != n || v > 255 ||
	    !eg_proto_name((uint8_t)v))
		return 0;
	return (uint8_t)v;
}

/* "443" or "443-445" of @n octets. */
static bool port_range(const char *text, size_t n, uint16_t *lo, uint16_t *hi)
{
	uint64_t a, b;
	size_t k = digits(text, &a);

	if (!k || k > n || a > 65535)
		return false;
	b = a;
	if (k < n) {
		size_t m;

		if (text[k] != '-')
			return false;
		m = digits(text + k + 1, &b);
		if (!m || k + 1 + m != n || b > 65535)
			return false;
	}
	*lo = (uint16_t)a;
	*hi = (uint16_t)b;
	return true;
}

bool eg_port_valid(const struct eg_port *p)
{
	if (p->pad || p->lo > p->hi)
		return false;
	if (p->proto == IPPROTO_ICMP)
		return p->lo == p->hi && p->hi <= 255;
	return eg_proto_name(p->proto) && p->lo;
}

int eg_port_parse(const char *text, struct eg_port *ret, struct eg_err *err)
{
	const char *slash = strchr(text, '/'), *range;
	struct eg_port p = {0};
	size_t first, second;
	char q[QUOTE];

	if (!slash)
		goto bad;
	first = (size_t)(slash - text);
	second = strlen(slash + 1);
	p.proto = proto_word(text, first, true);
	range = slash + 1;
	if (!p.proto || !port_range(range, second, &p.lo, &p.hi)) {
		p.proto = proto_word(slash + 1, second, false);
		range = text;
		second = first;
	}
	if (!p.proto || !port_range(range, second, &p.lo, &p.hi))
		goto bad;
	if (p.lo > p.hi)
		return eg_err_set(err, -EINVAL,
				  "the range in '%s' ends before it begins",
				  quote(q, text));
	if (!eg_port_valid(&p))
		return eg_err_set(
			err, -EINVAL, "'%s' %s", quote(q, text),
			p.proto == IPPROTO_ICMP
				? "is not an ICMP type; write icmp/0 to icmp/255"
				: "names port 0; ports are 1 to 65535");
	*ret = p;
	return 0;
bad:
	return eg_err_set(
		err, -EINVAL,
		"'%s' is not a protocol and port; write tcp/443, udp/5000-5010, sctp/N or icmp/TYPE",
		quote(q, text));
}

const char *eg_port_format(const struct eg_port *p, char buf[EG_PORT_TEXT])
{
	const char *name = eg_proto_name(p->proto);

	if (!name)
		name = "?";
	if (p->lo == p->hi)
		(void)snprintf(buf, EG_PORT_TEXT, "%s/%u", name, p->lo);
	else
		(void)snprintf(buf, EG_PORT_TEXT, "%s/%u-%u", name, p->lo, p->hi);
	return buf;
}

/* Levenshtein distance of two words of at most NEAREST_LEN octets. */
static unsigned int distance(const char *a, size_t n, const char *b, size_t m)
{
	unsigned int row[NEAREST_LEN + 1], diag, up;

	for (unsigned int j = 0; j <= m; j++)
		row[j] = j;
	for (size_t i = 0; i < n; i++) {
		diag = row[0];
		row[0] = (unsigned int)i + 1;
		for (size_t j = 0; j < m; j++) {
			up = row[j + 1];
			row[j + 1] = eg_min_u32(diag + (a[i] != b[j]),
						eg_min_u32(up, row[j]) + 1);
			diag = up;
		}
	}
	return row[m];
}

const char *eg_nearest(const char *text, const char *const *names, size_t n)
{
	size_t len = strlen(text);
	const char *best = NULL;
	unsigned int least = (unsigned int)len / 3 + 1;

	if (len > NEAREST_LEN)
		return NULL;
	for (size_t i = 0; i < n; i++) {
		size_t m = strlen(names[i]);
		unsigned int d;

		if (m > NEAREST_LEN)
			continue;
		d = distance(text, len, names[i], m);
		if (d <= least && (!best || d < least)) {
			best = names[i];
			least = d;
		}
	}
	return best;
}
