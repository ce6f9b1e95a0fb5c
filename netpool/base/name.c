// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: domain names as values (see name.h)
 */
#include "netpool/base/name.h"
#include "netpool/base/log.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static uint8_t fold(uint8_t c)
{
	return c >= 'A' && c <= 'Z' ? (uint8_t)(c + 32) : c;
}

static bool host_byte(uint8_t c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       (c >= '0' && c <= '9') || c == '-';
}

/* One label of @text up to the next dot or end; its length, or -EINVAL. */
static int label_parse(const char *text, uint8_t *dst, size_t room,
		       struct eg_err *err)
{
	size_t n = strcspn(text, ".");
	char q[32];

	if (!n)
		return eg_err_set(err, -EINVAL, "a label of the name is empty");
	if (n > EG_NAME_LABEL)
		return eg_err_set(err, -EINVAL,
				  "label '%s...' is longer than 63 octets",
				  eg_escape(q, sizeof(q), text, 20));
	if (n + 2 > room)
		return eg_err_set(err, -EINVAL,
				  "the name is longer than 255 octets");
	dst[0] = (uint8_t)n;
	for (size_t i = 0; i < n; i++) {
		uint8_t c = (uint8_t)text[i];

		if (c & 0x80)
			return eg_err_set(
				err, -EINVAL,
				"the name is not ASCII; write its A-label (xn--...)");
		if (!host_byte(c) && c != '_')
			return eg_err_set(
				err, -EINVAL,
				"character '%c' (0x%02x) cannot be in a name; letters, digits, '-' and '_' can",
				c > 0x20 && c < 0x7f ? c : '?', c);
		dst[1 + i] = fold(c);
	}
	return (int)n;
}

int eg_name_parse(const char *text, struct eg_name *ret, struct eg_err *err)
{
	struct eg_name n = {0};
	size_t used = 0;

	if (!*text)
		return eg_err_set(err, -EINVAL, "the name is empty");
	while (*text) {
		int r = label_parse(text, n.wire + used, sizeof(n.wire) - used,
				    err);

		if (r < 0)
			return r;
		used += (size_t)r + 1;
		text += r;
		if (*text == '.')
			text++;
	}
	n.wire[used] = 0;
	n.len = (uint8_t)(used + 1);
	*ret = n;
	return 0;
}

int eg_name_from_wire(const uint8_t *wire, size_t len, struct eg_name *ret)
{
	size_t i = 0;

	for (;;) {
		if (i >= len || i >= EG_NAME_WIRE)
			return -EBADMSG;
		if (wire[i] > EG_NAME_LABEL)
			return -EBADMSG;
		if (!wire[i])
			break;
		i += 1U + wire[i];
	}
	memcpy(ret->wire, wire, i + 1);
	ret->len = (uint8_t)(i + 1);
	return (int)(i + 1);
}

/* Escape one octet of a label; octets written. */
static size_t octet_format(uint8_t c, char *dst)
{
	if (host_byte(c) || c == '_') {
		dst[0] = (char)c;
		return 1;
	}
	if (c == '.') {
		dst[0] = '\\';
		dst[1] = '.';
		return 2;
	}
	dst[0] = '\\';
	dst[1] = (char)('0' + c / 100);
	dst[2] = (char)('0' + c / 10 % 10);
	dst[3] = (char)('0' + c % 10);
	return 4;
}

const char *eg_name_format(const struct eg_name *n, char buf[EG_NAME_TEXT])
{
	size_t used = 0, i = 0;

	while (i < n->len && n->wire[i]) {
		if (used)
			buf[used++] = '.';
		for (uint8_t k = 1; k <= n->wire[i]; k++)
			used += octet_format(n->wire[i + k], buf + used);
		i += 1U + n->wire[i];
	}
	if (!used)
		buf[used++] = '.';
	buf[used] = '\0';
	return buf;
}

static bool wire_equal(const uint8_t *a, const uint8_t *b, size_t len)
{
	/*
	 * Length octets are at most 63 and so below 'A': folding them
	 * changes nothing, and comparing them keeps label boundaries.
	 */
	for (size_t i = 0; i < len; i++)
		if (fold(a[i]) != fold(b[i]))
			return false;
	return true;
}

bool eg_name_equal(const struct eg_name *a, const struct eg_name *b)
{
	return a->len == b->len && wire_equal(a->wire, b->wire, a->len);
}

void eg_name_lower(struct eg_name *n)
{
	for (size_t i = 0; i < n->len; i++)
		n->wire[i] = fold(n->wire[i]);
}

unsigned int eg_name_labels(const struct eg_name *n)
{
	unsigned int labels = 0;

	for (size_t i = 0; i < n->len && n->wire[i]; i += 1U + n->wire[i])
		labels++;
	return labels;
}

int eg_name_below(const struct eg_name *n, const struct eg_name *suffix)
{
	size_t i = 0;
	int labels = 0;

	if (suffix->len > n->len)
		return -1;
	while (n->len - i > suffix->len) {
		i += 1U + n->wire[i];
		labels++;
	}
	if (n->len - i != suffix->len ||
	    !wire_equal(n->wire + i, suffix->wire, suffix->len))
		return -1;
	return labels;
}

bool eg_name_ldh(const struct eg_name *n, unsigned int labels)
{
	size_t i = 0;

	for (; labels && i < n->len && n->wire[i]; labels--) {
		for (uint8_t k = 1; k <= n->wire[i]; k++)
			if (!host_byte(n->wire[i + k]))
				return false;
		i += 1U + n->wire[i];
	}
	return true;
}

uint32_t eg_name_hash(const struct eg_name *n)
{
	uint32_t h = 2166136261U; /* FNV-1a */

	for (size_t i = 0; i < n->len; i++)
		h = (h ^ fold(n->wire[i])) * 16777619U;
	return h;
}
