// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: denial reasons (see reason.h)
 */
#include "netpool/base/reason.h"
#include "netpool/base/util.h"

#include <string.h>

static const char *const names[] = {
	[EG_REASON_NONE] = "none",
	[EG_REASON_METADATA] = "metadata",
	[EG_REASON_PRIVATE] = "private",
	[EG_REASON_RESERVED] = "reserved",
	[EG_REASON_NOT_ALLOWED] = "not-allowed",
	[EG_REASON_UNLEASED] = "unleased",
	[EG_REASON_SPOOFED] = "spoofed",
	[EG_REASON_HOST] = "host",
	[EG_REASON_NEIGHBOUR] = "neighbour",
	[EG_REASON_IPV6] = "ipv6",
	[EG_REASON_ETHERTYPE] = "ethertype",
	[EG_REASON_FRAGMENT] = "fragment",
	[EG_REASON_INVALID] = "invalid",
	[EG_REASON_RATE] = "rate",
	[EG_REASON_DNS_DENIED] = "dns-denied",
	[EG_REASON_DNS_TYPE] = "dns-type",
	[EG_REASON_DNS_MALFORMED] = "dns-malformed",
	[EG_REASON_REBIND] = "rebind",
	[EG_REASON_PIN_EXPIRED] = "pin-expired",
	[EG_REASON_QUOTA] = "quota",
	[EG_REASON_REVOKED] = "revoked",
	[EG_REASON_SNI] = "sni",
};
_Static_assert(EG_ARRAY_SIZE(names) == EG_REASON_COUNT, "reason names");
_Static_assert(EG_REASON_COUNT < EG_MARK_DNS, "reasons fit the low octet");

const char *eg_reason_name(enum eg_reason r)
{
	return (unsigned int)r < EG_REASON_COUNT ? names[r] : "none";
}

enum eg_reason eg_reason_by_name(const char *name)
{
	for (unsigned int i = 1; i < EG_REASON_COUNT; i++)
		if (!strcmp(names[i], name))
			return (enum eg_reason)i;
	return EG_REASON_COUNT;
}
