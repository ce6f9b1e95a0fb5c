// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: address and prefix values (see addr.h)
 */
#include "netpool/base/addr.h"
#include "netpool/base/log.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define QUOTE 68 /* octets of a wrong value shown in its error */

/* Foreign text, made printable; its tail is of no use in a sentence. */
static const char *quote(char buf[QUOTE], const char *text)
{
	return eg_escape(buf, QUOTE, text, strlen(text));
}

/* One decimal number of at most three digits, no leading zero. */
static bool octet(const char **p, unsigned int max, unsigned int *ret)
{
	unsigned int v = 0;
	int n = 0;

	while (isdigit((unsigned char)(*p)[n]) && n < 4) {
		v = v * 10 + (unsigned int)((*p)[n] - '0');
		n++;
	}
	if (!n || n > 3 || v > max || (n > 1 && **p == '0'))
		return false;
	*p += n;
	*ret = v;
	return true;
}

static bool dotted(const char **p, uint32_t *ret)
{
	uint32_t a = 0;
	unsigned int v;

	for (int i = 0; i < 4; i++) {
		if (i && *(*p)++ != '.')
			return false;
		if (!octet(p, 255, &v))
			return false;
		a = a << 8 | v;
	}
	*ret = a;
	return true;
}

int eg_addr_parse(const char *text, uint32_t *ret, struct eg_err *err)
{
	const char *p = text;
	char q[QUOTE];
	uint32_t a;

	if (!dotted(&p, &a) || *p)
		return eg_err_set(
			err, -EINVAL,
			"'%s' is not an IPv4 address; write four decimal numbers such as 192.0.2.1",
			quote(q, text));
	*ret = a;
	return 0;
}

const char *eg_addr_format(uint32_t addr, char buf[EG_ADDR_TEXT])
{
	(void)snprintf(buf, EG_ADDR_TEXT, "%u.%u.%u.%u", addr >> 24 & 255,
		       addr >> 16 & 255, addr >> 8 & 255, addr & 255);
	return buf;
}

int eg_prefix_parse(const char *text, struct eg_prefix *ret, struct eg_err *err)
{
	char good[EG_PREFIX_TEXT], q[QUOTE];
	const char *p = text;
	struct eg_prefix v;
	unsigned int len = 32;
	uint32_t a;

	if (!dotted(&p, &a) || (*p && (*p++ != '/' || !octet(&p, 32, &len))) ||
	    *p)
		return eg_err_set(
			err, -EINVAL,
			"'%s' is not an IPv4 prefix; write one such as 192.0.2.0/24 or a single address",
			quote(q, text));
	v.len = (uint8_t)len;
	v.addr = a & eg_prefix_mask(v.len);
	if (a != v.addr)
		return eg_err_set(err, -EINVAL,
				  "'%s' has host bits set; the prefix would be %s",
				  quote(q, text), eg_prefix_format(v, good));
	ret->addr = v.addr;
	ret->len = v.len;
	return 0;
}

const char *eg_prefix_format(struct eg_prefix p, char buf[EG_PREFIX_TEXT])
{
	(void)snprintf(buf, EG_PREFIX_TEXT, "%u.%u.%u.%u/%u",
		       p.addr >> 24 & 255, p.addr >> 16 & 255,
		       p.addr >> 8 & 255, p.addr & 255, p.len);
	return buf;
}

static int hexval(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

int eg_mac_parse(const char *text, uint8_t ret[EG_MAC_LEN], struct eg_err *err)
{
	static const uint8_t zero[EG_MAC_LEN];
	uint8_t mac[EG_MAC_LEN];
	char q[QUOTE];

	if (strlen(text) != EG_MAC_TEXT - 1)
		goto bad;
	for (int i = 0; i < EG_MAC_LEN; i++) {
		int hi = hexval(text[3 * i]), lo = hexval(text[3 * i + 1]);

		if (hi < 0 || lo < 0 || (i < 5 && text[3 * i + 2] != ':'))
			goto bad;
		mac[i] = (uint8_t)(hi << 4 | lo);
	}
	if (mac[0] & 1)
		return eg_err_set(
			err, -EINVAL,
			"'%s' is a multicast address; a guest needs a unicast one (even first octet)",
			text);
	if (!memcmp(mac, zero, EG_MAC_LEN))
		goto bad; /* no station has it: IEEE 802, and the kernel */
	memcpy(ret, mac, EG_MAC_LEN);
	return 0;
bad:
	return eg_err_set(
		err, -EINVAL,
		"'%s' is not an Ethernet address; write one such as 06:00:ac:10:00:02",
		quote(q, text));
}

const char *eg_mac_format(const uint8_t mac[EG_MAC_LEN], char buf[EG_MAC_TEXT])
{
	(void)snprintf(buf, EG_MAC_TEXT, "%02x:%02x:%02x:%02x:%02x:%02x",
		       mac[0], mac[1], mac[2], mac[3], mac[4], mac[5]);
	return buf;
}

bool eg_tenant_listed(const char *list, const char *tenant)
{
	size_t n = strlen(tenant);

	if (!*list)
		return true;
	while (*list) {
		size_t k = strcspn(list, ",");

		if (n && k == n && !strncmp(list, tenant, n))
			return true;
		list += k + (list[k] == ',');
	}
	return false;
}
