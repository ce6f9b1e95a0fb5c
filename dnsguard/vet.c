// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: address vetting (see vet.h)
 */
#include "dnsguard/vet.h"
#include "netpool/base/util.h"

#include <string.h>

/* Never a destination, whatever the always-deny file says (RFC 6890). */
static const struct eg_prefix never[] = {
	{ 0x00000000, 8 },  /* this network */
	{ 0x7f000000, 8 },  /* loopback */
	{ 0xa9fe0000, 16 }, /* link local */
	{ 0xe0000000, 3 },  /* multicast, reserved, broadcast */
};

/* The gravest class of the always-deny file; EG_DENY_CLASS_COUNT: none. */
static enum eg_deny_class deny_class(const struct eg_conf *conf, uint32_t addr)
{
	bool hit[EG_DENY_CLASS_COUNT] = { false };

	for (uint32_t i = 0; i < conf->denies; i++)
		if (eg_prefix_has(conf->deny[i].dst, addr) &&
		    conf->deny[i].class < EG_DENY_CLASS_COUNT)
			hit[conf->deny[i].class] = true;
	if (hit[EG_DENY_METADATA])
		return EG_DENY_METADATA;
	if (hit[EG_DENY_RESERVED])
		return EG_DENY_RESERVED;
	return hit[EG_DENY_PRIVATE] ? EG_DENY_PRIVATE : EG_DENY_CLASS_COUNT;
}

static bool within(const struct eg_prefix *p, size_t n, uint32_t addr)
{
	for (size_t i = 0; i < n; i++)
		if (eg_prefix_has(p[i], addr))
			return true;
	return false;
}

/* The run's entry and the host's operator both have to say yes. */
static bool private_ok(const struct eg_conf *conf, uint32_t addr,
		       const struct eg_prefix *private, size_t nprivate)
{
	if (!within(private, nprivate, addr))
		return false;
	for (uint32_t i = 0; i < conf->permits_private; i++)
		if (eg_prefix_has(conf->permit_private[i].dst, addr))
			return true;
	return false;
}

enum eg_reason dg_vet_addr(const struct eg_conf *conf, uint32_t addr,
			   const struct eg_prefix *private, size_t nprivate)
{
	enum eg_deny_class class = deny_class(conf, addr);

	if (class == EG_DENY_METADATA)
		return EG_REASON_METADATA;
	if (class == EG_DENY_RESERVED ||
	    within(never, EG_ARRAY_SIZE(never), addr))
		return EG_REASON_RESERVED;
	if (conf->prefix.len && eg_prefix_has(conf->prefix, addr))
		return EG_REASON_NEIGHBOUR;
	if (conf->link_prefix.len && eg_prefix_has(conf->link_prefix, addr))
		return EG_REASON_HOST;
	for (uint32_t i = 0; i < conf->upstreams && i < EG_CONF_UPSTREAMS; i++)
		if (conf->upstream[i].addr == addr)
			return EG_REASON_HOST;
	if (class == EG_DENY_PRIVATE &&
	    !private_ok(conf, addr, private, nprivate))
		return EG_REASON_PRIVATE;
	return EG_REASON_NONE;
}

struct block6 {
	uint8_t len;
	uint8_t addr[16];
};

/* Special blocks of 2000::/3 (IANA registry; RFC 9637, 6676, 4380, 3056). */
static const struct block6 special6[] = {
	{ 23, { 0x20, 0x01, 0x00 } },		  /* protocols, Teredo too */
	{ 32, { 0x20, 0x01, 0x0d, 0xb8 } },	  /* documentation */
	{ 16, { 0x20, 0x02 } },			  /* 6to4 */
	{ 20, { 0x3f, 0xff, 0x00 } },		  /* documentation */
	{ 48, { 0x26, 0x20, 0x00, 0x4f, 0x80 } }, /* AS112 delegation */
};

/* Metadata endpoints of clouds that have IPv6. */
static const struct block6 metadata6[] = {
	{ 128, { 0xfd, 0x00, 0x0e, 0xc2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x02,
		 0x54 } }, /* EC2 */
	{ 128, { 0xfd, 0x20, 0x00, 0xce, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x02,
		 0x54 } }, /* GCE */
};

static bool in_block6(const struct block6 *b, const uint8_t a[16])
{
	unsigned int whole = b->len / 8, rest = b->len % 8;

	if (memcmp(a, b->addr, whole))
		return false;
	return !rest || !((a[whole] ^ b->addr[whole]) >> (8 - rest));
}

static uint32_t be32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 |
	       (uint32_t)p[2] << 8 | p[3];
}

/* The IPv4 address inside, for the forms that have one. */
static bool embedded4(const uint8_t a[16], uint32_t *ret)
{
	static const uint8_t zero[12];
	static const uint8_t nat64[8] = { 0x00, 0x64, 0xff, 0x9b };
	static const uint8_t isatap[3] = { 0x00, 0x5e, 0xfe };

	if (!memcmp(a, zero, 10) &&
	    ((a[10] == 0xff && a[11] == 0xff) || (!a[10] && !a[11])))
		*ret = be32(a + 12); /* ::ffff:a.b.c.d, ::a.b.c.d */
	else if (!memcmp(a, nat64, 4))
		*ret = be32(a + 12); /* 64:ff9b::/96, 64:ff9b:1::/48 */
	else if (a[0] == 0x20 && a[1] == 0x02)
		*ret = be32(a + 2); /* 6to4 */
	else if (a[0] == 0x20 && a[1] == 0x01 && !a[2] && !a[3])
		*ret = ~be32(a + 12); /* Teredo client, RFC 4380 section 4 */
	else if (!(a[8] & 0xfd) && !memcmp(a + 9, isatap, 3))
		*ret = be32(a + 12); /* ISATAP, with or without the u bit */
	else
		return false;
	return true;
}

enum eg_reason dg_vet_addr6(const struct eg_conf *conf, const uint8_t a[16])
{
	uint32_t v4;

	for (size_t i = 0; i < EG_ARRAY_SIZE(metadata6); i++)
		if (in_block6(&metadata6[i], a))
			return EG_REASON_METADATA;
	if (embedded4(a, &v4)) {
		enum eg_reason r = dg_vet_addr(conf, v4, NULL, 0);

		return r == EG_REASON_NONE ? EG_REASON_RESERVED : r;
	}
	if ((a[0] & 0xfe) == 0xfc)
		return EG_REASON_PRIVATE; /* unique local */
	if ((a[0] & 0xe0) != 0x20)
		return EG_REASON_RESERVED;
	for (size_t i = 0; i < EG_ARRAY_SIZE(special6); i++)
		if (in_block6(&special6[i], a))
			return EG_REASON_RESERVED;
	return EG_REASON_NONE;
}
