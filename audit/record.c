// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: one denial as a line of JSON (see record.h)
 */
#include "audit/record.h"
#include "netpool/base/conf.h"
#include "netpool/base/jsonw.h"
#include "netpool/base/loop.h"
#include "netpool/base/stamp.h"
#include "netpool/base/util.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char *const class_names[] = {
	[EG_DENY_METADATA] = "metadata",
	[EG_DENY_PRIVATE] = "private",
	[EG_DENY_RESERVED] = "reserved",
};
_Static_assert(EG_ARRAY_SIZE(class_names) == EG_DENY_CLASS_COUNT, "classes");

const char *au_verdict(const struct au_lease *l, enum eg_reason reason)
{
	switch (reason) {
	case EG_REASON_NOT_ALLOWED:
		if (l && l->report)
			return "report"; /* all else is denied as ever */
		break;
	/* Never answered: what sends them is no connection to tell. */
	case EG_REASON_SPOOFED:
	case EG_REASON_NEIGHBOUR:
	case EG_REASON_IPV6:
	case EG_REASON_ETHERTYPE:
	case EG_REASON_FRAGMENT:
	case EG_REASON_INVALID:
	case EG_REASON_RATE:
	case EG_REASON_UNLEASED:
		return "drop";
	case EG_REASON_NONE:
	case EG_REASON_METADATA:
	case EG_REASON_PRIVATE:
	case EG_REASON_RESERVED:
	case EG_REASON_HOST:
	case EG_REASON_DNS_DENIED:
	case EG_REASON_DNS_TYPE:
	case EG_REASON_DNS_MALFORMED:
	case EG_REASON_REBIND:
	case EG_REASON_PIN_EXPIRED:
	case EG_REASON_QUOTA:
	case EG_REASON_REVOKED:
	case EG_REASON_SNI:
	case EG_REASON_COUNT:
		break;
	}
	return !l || l->drop ? "drop" : "reject";
}

const char *au_verdict_dns(const struct au_lease *l, uint8_t rcode)
{
	switch (rcode) { /* a number of RFC 6895, not an enumeration of ours */
	case 0:
		/* answered without what was denied, or only reported */
		return l && l->report ? "report" : "reject";
	case 2:
		return "servfail";
	case 3:
		return "nxdomain";
	case 0xff: /* no answer at all */
		return "drop";
	default:
		return "refused";
	}
}

/* ---- parts --------------------------------------------------------------------- */

static void put_who(struct eg_jsonw *w, const struct au_record *r, bool labels)
{
	const struct au_lease *l = r->lease;

	if (l) {
		eg_jsonw_members(w, l->who, strlen(l->who));
		if (labels)
			eg_jsonw_members(w, l->labels, strlen(l->labels));
		else
			eg_jsonw_bool(w, "labels_cut", true);
		eg_jsonw_members(w, l->phase, strlen(l->phase));
		return;
	}
	eg_jsonw_null(w, "lease");
	eg_jsonw_null(w, "uid");
	if (r->slot != UINT32_MAX)
		eg_jsonw_u64(w, "slot", r->slot);
	if (r->gateway != UINT32_MAX)
		eg_jsonw_u64(w, "gateway", r->gateway);
}

static void put_times(struct eg_jsonw *w, uint64_t seq, int64_t wall_ns,
		      int64_t mono_ns)
{
	char stamp[EG_STAMP_TEXT];

	eg_jsonw_u64(w, "seq", seq);
	eg_jsonw_str(w, "time", eg_stamp_ns(wall_ns, stamp));
	eg_jsonw_i64(w, "mono_ns", mono_ns);
}

static void put_addr(struct eg_jsonw *w, const char *key, uint32_t addr)
{
	char text[EG_ADDR_TEXT];

	eg_jsonw_str(w, key, eg_addr_format(addr, text));
}

static void put_addr6(struct eg_jsonw *w, const char *key, const uint8_t a[16])
{
	char text[INET6_ADDRSTRLEN];

	if (inet_ntop(AF_INET6, a, text, sizeof(text)))
		eg_jsonw_str(w, key, text);
}

static void put_proto(struct eg_jsonw *w, const struct au_decoded *d)
{
	const char *name = au_proto_name(d->proto);
	char number[8];

	if (d->has_arp)
		name = "arp";
	if (!name) {
		(void)snprintf(number, sizeof(number), "%u", d->proto);
		name = number;
	}
	if (d->has_ip4 || d->has_ip6 || d->has_arp)
		eg_jsonw_str(w, "proto", name);
}

static void put_ethernet(struct eg_jsonw *w, const struct au_decoded *d)
{
	char text[EG_MAC_TEXT];

	(void)snprintf(text, sizeof(text), "0x%04x", d->ethertype);
	eg_jsonw_str(w, "ethertype", text);
	if (d->has_vlan)
		eg_jsonw_u64(w, "vlan", d->vlan & 0xfffU);
	eg_jsonw_str(w, "smac", eg_mac_format(d->smac, text));
	eg_jsonw_str(w, "dmac", eg_mac_format(d->dmac, text));
}

static void put_packet(struct eg_jsonw *w, const struct au_record *r)
{
	const struct au_decoded *d = r->d;
	char flags[AU_TCP_TEXT];

	put_proto(w, d);
	if (d->has_ip6)
		put_addr6(w, "src", d->src6);
	else if (d->has_ip4 || d->has_arp)
		put_addr(w, "src", d->src);
	if (d->has_ports)
		eg_jsonw_u64(w, "sport", d->sport);
	if (d->has_ip6)
		put_addr6(w, "dst", d->dst6);
	else if (d->has_ip4 || d->has_arp)
		put_addr(w, "dst", d->dst);
	if (d->has_ports)
		eg_jsonw_u64(w, "dport", d->dport);
	if (d->has_flags)
		eg_jsonw_str(w, "flags", au_flags_format(d->flags, flags));
	if (d->has_icmp) {
		eg_jsonw_u64(w, "icmp_type", d->icmp_type);
		eg_jsonw_u64(w, "icmp_code", d->icmp_code);
	}
	if (d->has_arp)
		eg_jsonw_u64(w, "arp_op", d->arp_op);
	if (r->frame)
		put_ethernet(w, d);
}

static const char *type_name(uint16_t type, char buf[16])
{
	static const struct {
		uint16_t type;
		const char *name;
	} known[] = {
		{1, "A"},      {2, "NS"},     {5, "CNAME"},  {6, "SOA"},
		{10, "NULL"},  {12, "PTR"},   {15, "MX"},    {16, "TXT"},
		{28, "AAAA"},  {33, "SRV"},   {35, "NAPTR"}, {39, "DNAME"},
		{43, "DS"},    {46, "RRSIG"}, {47, "NSEC"},  {48, "DNSKEY"},
		{52, "TLSA"},  {64, "SVCB"},  {65, "HTTPS"}, {251, "IXFR"},
		{252, "AXFR"}, {255, "ANY"},  {256, "URI"},  {257, "CAA"},
	};

	for (size_t i = 0; i < EG_ARRAY_SIZE(known); i++)
		if (known[i].type == type)
			return known[i].name;
	(void)snprintf(buf, 16, "TYPE%u", type); /* RFC 3597 */
	return buf;
}

static const char *rcode_name(uint8_t rcode, char buf[16])
{
	static const char *const name[] = {"NOERROR",  "FORMERR", "SERVFAIL",
					   "NXDOMAIN", "NOTIMP",  "REFUSED"};

	if (rcode < EG_ARRAY_SIZE(name))
		return name[rcode];
	if (rcode == 0xff)
		return "NONE";
	(void)snprintf(buf, 16, "RCODE%u", rcode);
	return buf;
}

static void put_dns(struct eg_jsonw *w, const struct eg_da_denial *d)
{
	char name[EG_NAME_TEXT], num[16];

	eg_jsonw_str(w, "proto", d->tcp ? "tcp" : "udp");
	put_addr(w, "src", d->src);
	eg_jsonw_u64(w, "sport", d->sport);
	put_addr(w, "dst", d->dst);
	eg_jsonw_u64(w, "dport", d->dport);
	if (d->name.len)
		eg_jsonw_str(w, "qname", eg_name_format(&d->name, name));
	else
		eg_jsonw_null(w, "qname"); /* malformed: there was none */
	eg_jsonw_str(w, "qtype", type_name(d->qtype, num));
	eg_jsonw_str(w, "rcode", rcode_name(d->rcode, num));
	if (d->reason == EG_REASON_REBIND && d->deny_class < EG_DENY_CLASS_COUNT)
		eg_jsonw_str(w, "class", class_names[d->deny_class]);
	if (d->has_addr)
		put_addr(w, "addr", d->addr);
}

static void put_name(struct eg_jsonw *w, const struct au_record *r)
{
	int64_t age = (r->mono_ns - r->name->learned_ns) / EG_NSEC_PER_SEC;

	eg_jsonw_str(w, "name", r->name->text);
	eg_jsonw_i64(w, "name_age_s", age < 0 ? 0 : age);
}

static void put_cap(struct eg_jsonw *w, const struct au_record *r)
{
	char name[AU_PCAP_NAME];

	eg_jsonw_object(w, "pcap");
	eg_jsonw_str(w, "file", au_pcap_name(r->pcap_no, name));
	eg_jsonw_u64(w, "offset", r->offset);
	eg_jsonw_u64(w, "caplen", r->caplen);
	eg_jsonw_end(w);
	if (r->rebuilt)
		eg_jsonw_bool(w, "rebuilt", true);
}

/* ---- the hint ------------------------------------------------------------------- */

static void hint_packet(struct eg_jsonw *w, const struct au_record *r)
{
	const struct au_decoded *d = r->d;
	const char *proto = au_proto_name(d->proto);
	char text[EG_NAME_TEXT + 64], addr[EG_ADDR_TEXT];

	/* Policies name ports of transports only; 53 is always the guard's. */
	if (!d->has_ip4 || !d->has_ports || !proto || d->dport == 53 || r->detail)
		return;
	(void)eg_addr_format(d->dst, addr);
	if (r->reason == EG_REASON_NOT_ALLOWED && r->name && r->name->hostname)
		(void)snprintf(text, sizeof(text), "allow = %s %s/%u",
			       r->name->text, proto, d->dport);
	else if (r->reason == EG_REASON_NOT_ALLOWED && !r->name)
		(void)snprintf(text, sizeof(text), "allow = %s/32 %s/%u", addr,
			       proto, d->dport);
	else if (r->reason == EG_REASON_PRIVATE && r->name && r->name->hostname)
		(void)snprintf(text, sizeof(text),
			       "allow = %s %s/%u private=%s/32", r->name->text,
			       proto, d->dport, addr);
	else
		return;
	eg_jsonw_str(w, "hint", text);
}

static void hint_dns(struct eg_jsonw *w, const struct eg_da_denial *d)
{
	char name[EG_NAME_TEXT], text[EG_NAME_TEXT + 32];

	/* The question does not say for which port: the usual one. */
	if (d->reason != EG_REASON_DNS_DENIED || eg_name_labels(&d->name) < 2 ||
	    !eg_name_ldh(&d->name, eg_name_labels(&d->name)))
		return;
	(void)snprintf(text, sizeof(text), "allow = %s tcp/443",
		       eg_name_format(&d->name, name));
	eg_jsonw_str(w, "hint", text);
}

/* ---- whole records ---------------------------------------------------------------- */

static long build(const struct au_record *r, uint64_t seq, char *buf,
		  size_t cap, bool labels)
{
	struct eg_jsonw w;

	eg_jsonw_init(&w, buf, cap);
	eg_jsonw_object(&w, NULL);
	put_times(&w, seq, r->wall_ns, r->mono_ns);
	put_who(&w, r, labels);
	eg_jsonw_str(&w, "layer", au_layer_name(r->layer));
	eg_jsonw_str(&w, "reason", eg_reason_name(r->reason));
	if (r->detail)
		eg_jsonw_str(&w, "detail", r->detail);
	eg_jsonw_str(&w, "verdict", r->verdict);
	eg_jsonw_bool(&w, "probe", r->lease && r->lease->probe);
	if (r->dns)
		put_dns(&w, r->dns);
	else if (r->d)
		put_packet(&w, r);
	if (r->name)
		put_name(&w, r);
	if (r->has_cap)
		put_cap(&w, r);
	eg_jsonw_u64(&w, "suppressed", r->suppressed);
	if (r->lease && r->dns)
		hint_dns(&w, r->dns);
	else if (r->lease && r->d)
		hint_packet(&w, r);
	eg_jsonw_end(&w);
	return eg_jsonw_done(&w);
}

long au_record_build(const struct au_record *r, uint64_t seq, char *buf,
		     size_t cap)
{
	long n = build(r, seq, buf, cap, true);

	return n < 0 ? build(r, seq, buf, cap, false) : n;
}

void au_counts_write(struct eg_jsonw *w, const char *key,
		     const struct eg_reason_counts c[EG_REASONS])
{
	eg_jsonw_object(w, key);
	for (unsigned int i = 0; i < EG_REASON_COUNT; i++) {
		if (!c[i].denied && !c[i].sent && !c[i].logged)
			continue;
		eg_jsonw_object(w, eg_reason_name((enum eg_reason)i));
		eg_jsonw_u64(w, "denied", c[i].denied);
		eg_jsonw_u64(w, "suppressed", c[i].suppressed);
		eg_jsonw_u64(w, "sent", c[i].sent);
		eg_jsonw_u64(w, "logged", c[i].logged);
		eg_jsonw_u64(w, "lost", c[i].lost);
		eg_jsonw_end(w);
	}
	eg_jsonw_end(w);
}

/* Reasons are 21 and most leases see three; all of both layers still fit. */
long au_record_summary(const struct au_lease *l, uint64_t seq, int64_t wall_ns,
		       int64_t mono_ns,
		       const struct eg_reason_counts packet[EG_REASONS],
		       const struct eg_reason_counts dns[EG_REASONS], char *buf,
		       size_t cap)
{
	const struct au_record r = {.lease = l};
	uint64_t lost = 0, suppressed = 0;
	struct eg_jsonw w;

	for (unsigned int i = 0; i < EG_REASONS; i++) {
		lost += packet[i].lost + dns[i].lost;
		suppressed += packet[i].suppressed + dns[i].suppressed;
	}
	for (int detail = 1; detail >= 0; detail--) {
		eg_jsonw_init(&w, buf, cap);
		eg_jsonw_object(&w, NULL);
		put_times(&w, seq, wall_ns, mono_ns);
		put_who(&w, &r, false);
		eg_jsonw_str(&w, "layer", "log");
		eg_jsonw_str(&w, "what", "summary");
		eg_jsonw_u64(&w, "suppressed", suppressed);
		eg_jsonw_u64(&w, "lost", lost);
		if (detail) {
			au_counts_write(&w, "packet", packet);
			au_counts_write(&w, "dns", dns);
		}
		eg_jsonw_end(&w);
		if (!w.overflow)
			break;
	}
	return eg_jsonw_done(&w);
}

long au_record_gap(uint32_t gateway, uint64_t seq, int64_t wall_ns,
		   int64_t mono_ns, const char *what, uint64_t lost, char *buf,
		   size_t cap)
{
	const struct au_record r = {.slot = UINT32_MAX, .gateway = gateway};
	struct eg_jsonw w;

	eg_jsonw_init(&w, buf, cap);
	eg_jsonw_object(&w, NULL);
	put_times(&w, seq, wall_ns, mono_ns);
	put_who(&w, &r, false);
	eg_jsonw_str(&w, "layer", "log");
	eg_jsonw_str(&w, "what", what);
	eg_jsonw_u64(&w, "lost", lost);
	eg_jsonw_end(&w);
	return eg_jsonw_done(&w);
}
