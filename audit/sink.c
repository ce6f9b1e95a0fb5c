// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: from a denied packet, frame or query to its record.
 *
 * Whose it is: a packet is of the slot whose link it came in by and of the
 * epoch in its mark; a frame of the slot's newest lease; a query of the
 * lease the guard named. What has no lease (any more) goes to the host's own
 * file and is counted for its gateway as unattributed, never into another
 * lease's file.
 */
#include "audit/core.h"
#include "audit/frame.h"
#include "netpool/base/log.h"
#include "netpool/base/plan.h"
#include "netpool/base/stamp.h"
#include "netpool/base/util.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define STAMP_SANE_NS (60 * EG_NSEC_PER_SEC) /* a kernel stamp older is odd */

static void tell_first(struct au *au, struct au_lease *l, enum au_layer layer,
		       enum eg_reason reason)
{
	struct eg_am_first m = {
		.slot = l->slot, .reason = reason, .generation = l->generation};

	if (l->first[layer] >> reason & 1)
		return;
	l->first[layer] |= 1U << reason;
	/* Once per lease and reason, whichever layer saw it first. */
	if (l->first[layer == AU_DNS ? AU_PACKET : AU_DNS] >> reason & 1)
		return;
	if (!au->ctx->peer[EG_ROLE_MAIN] ||
	    eg_chan_send(au->ctx->peer[EG_ROLE_MAIN], EG_AM_FIRST, 0, &m,
			 sizeof(m), -1))
		l->first[layer] &= ~(1U << reason); /* at the next one */
}

/* The file of today for what has no lease. */
static struct au_log *host_log(struct au *au, int64_t wall_ns)
{
	char dir[AU_DIR_TEXT], date[EG_DATE_TEXT];
	struct eg_err err = {0};

	(void)snprintf(dir, sizeof(dir), "host/%s", eg_stamp_date(wall_ns, date));
	if (!strcmp(dir, au->host.dir))
		return &au->host;
	au_log_close(au->files, &au->host);
	if (au_log_init(au->files, &au->host, dir, &err))
		eg_warning("%s", err.text);
	return &au->host;
}

static void refused(struct au *au, struct au_lease *l, int r)
{
	if (r != -EDQUOT) {
		au_trouble(au, r);
		return;
	}
	if (l && !l->capped_said)
		eg_warning("slot %u generation %llu: max_lease_bytes is reached; further denials are counted as lost",
			   l->slot, (unsigned long long)l->generation);
	if (l)
		l->capped_said = true;
}

/* The record @r, backed by @cap if there is one. */
static void put(struct au *au, struct au_lease *l, struct au_record *r,
		const struct au_cap *cap)
{
	struct au_log *log = l ? &l->log : host_log(au, r->wall_ns);
	uint64_t offset;
	int room = au_log_room(au->files, log, cap ? cap->caplen : 0, &offset);
	long n;

	if (room) {
		refused(au, l, room);
		return;
	}
	r->lease = l;
	r->has_cap = cap;
	r->pcap_no = log->pcap_no;
	r->offset = offset;
	r->caplen = cap ? cap->caplen : 0;
	n = au_record_build(r, log->seq + 1, au->line, AU_RECORD_ROOM);
	if (n < 0) { /* its parts have their bounds, so this is a bug */
		log->disk_lost++;
		eg_error("a record of reason %s is too long",
			 eg_reason_name(r->reason));
		return;
	}
	au_log_put(au->files, log, r->layer, r->reason, au->line, (size_t)n, cap);
	au_flush_soon(au);
	if (l)
		tell_first(au, l, r->layer, r->reason);
}

/* ---- packets ------------------------------------------------------------------ */

/* The mark's low octet; where a rule could not set it, its prefix. */
static enum eg_reason packet_reason(const struct au_source *s,
				    const struct au_nflog_pkt *p)
{
	uint32_t low = p->mark & EG_MARK_LOW;
	enum eg_reason r;

	if (low > EG_REASON_NONE && low < EG_REASON_COUNT)
		return (enum eg_reason)low;
	r = eg_reason_by_name(p->prefix);
	if (r != EG_REASON_COUNT)
		return r;
	return s->gateway == UINT32_MAX ? EG_REASON_HOST : EG_REASON_INVALID;
}

/* In the host a slot is known by its address alone. */
static uint32_t packet_slot(const struct au *au, const struct au_source *s,
			    const struct au_nflog_pkt *p,
			    const struct au_decoded *d)
{
	const struct eg_conf *c = au->conf;
	uint32_t slot;

	if (s->gateway != UINT32_MAX)
		return eg_plan_slot(c, s->gateway, p->indev);
	if (!d->has_ip4 || !eg_prefix_has(c->prefix, d->src))
		return UINT32_MAX;
	slot = (d->src - c->prefix.addr) / 4;
	return slot < c->slots ? slot : UINT32_MAX;
}

/* The kernel's stamp when it has a plausible one; both clocks agree. */
static void packet_times(const struct au_nflog_pkt *p, struct au_record *r)
{
	int64_t late;

	r->wall_ns = eg_wall_ns();
	r->mono_ns = eg_boot_ns();
	late = r->wall_ns - p->time_ns;
	if (!p->time_ns || late < 0 || late > STAMP_SANE_NS)
		return;
	r->wall_ns -= late;
	r->mono_ns -= late;
}

static void packet_name(struct au_record *r, const struct au_lease *l)
{
	r->name = r->d->has_ip4 ? au_lease_name_of(l, r->d->dst) : NULL;
	if (r->name && r->reason == EG_REASON_NOT_ALLOWED &&
	    r->mono_ns >
		    r->name->learned_ns + r->name->lifetime_s * EG_NSEC_PER_SEC)
		r->detail = "pin-expired";
}

/* Its message was sent before its first packet could be: look once more. */
static struct au_lease *packet_lease(struct au *au, uint32_t slot, uint32_t epoch)
{
	struct au_lease *l = au_lease_epoch(&au->leases, slot, epoch);

	if (l || !epoch)
		return l;
	eg_chan_drain(au->ctx->peer[EG_ROLE_MAIN]);
	return au_lease_epoch(&au->leases, slot, epoch);
}

void au_sink_packet(void *arg, const struct au_nflog_pkt *p)
{
	struct au_source *s = arg;
	struct au *au = s->au;
	struct au_record r = {.layer = AU_PACKET,
			      .gateway = s->gateway,
			      .reason = packet_reason(s, p)};
	uint32_t epoch = p->mark >> EG_EPOCH_SHIFT;
	struct au_decoded d;
	struct au_cap cap;
	struct au_lease *l = NULL;

	au_decode_ip4(p->payload, p->caplen, &d);
	r.d = &d;
	r.slot = packet_slot(au, s, p, &d);
	packet_times(p, &r);
	if (s->gateway != UINT32_MAX && r.slot != UINT32_MAX)
		l = packet_lease(au, r.slot, epoch);
	if (l)
		packet_name(&r, l);
	else if (s->gateway != UINT32_MAX && epoch) {
		s->unattributed++;
		r.detail = "lease-sealed";
	}
	r.verdict = au_verdict(l, r.reason);
	cap.data = au->frame;
	cap.wall_ns = r.wall_ns;
	cap.caplen =
		(uint32_t)au_frame_ip4(au->frame, sizeof(au->frame), p->hw,
				       p->hwlen, r.slot, p->payload, p->caplen);
	if (!d.has_ip4) {
		au_decode_frame(au->frame, cap.caplen, &d);
		r.frame = true;
	}
	cap.len = eg_max_u32(cap.caplen, d.wire_len + AU_ETH_LEN);
	put(au, l, &r, &cap);
}

/* ---- frames --------------------------------------------------------------------- */

/* What makes a frame distinct: type, and whom it is for. */
static uint32_t frame_key(const struct au_decoded *d)
{
	uint32_t h = 2166136261U ^ d->ethertype ^ (uint32_t)d->has_vlan << 16;
	const uint8_t *p = d->has_ip6 ? d->dst6 : d->dmac;
	size_t len = d->has_ip6 ? sizeof(d->dst6) : sizeof(d->dmac);

	for (size_t i = 0; i < len; i++)
		h = (h ^ p[i]) * 16777619U;
	return h;
}

/* Frames of slots nobody leases: the kernel's own noise, mostly. */
static bool stray_allowed(struct au_source *s, int64_t mono_ns)
{
	if (mono_ns / EG_NSEC_PER_SEC != s->strays_s) {
		s->strays_s = mono_ns / EG_NSEC_PER_SEC;
		s->strays = 0;
	}
	return s->strays++ < AU_STRAY_RATE;
}

void au_sink_frame(void *arg, const struct au_frame_in *f)
{
	struct au_source *s = arg;
	struct au *au = s->au;
	struct au_record r = {.layer = AU_PACKET,
			      .reason = f->reason,
			      .gateway = s->gateway,
			      .frame = true};
	struct au_cap cap = {.data = f->data,
			     .caplen = (uint32_t)f->caplen,
			     .len = (uint32_t)f->len};
	struct au_decoded d;
	struct au_lease *l;

	r.slot = eg_plan_slot(au->conf, s->gateway, f->ifindex);
	if (r.slot == UINT32_MAX)
		return; /* the uplink's; the filter leaves them out */
	l = au_lease_newest(&au->leases, r.slot);
	if (!l) {
		eg_chan_drain(au->ctx->peer[EG_ROLE_MAIN]);
		l = au_lease_newest(&au->leases, r.slot);
	}
	r.wall_ns = cap.wall_ns = eg_wall_ns();
	r.mono_ns = eg_boot_ns();
	au_decode_frame(f->data, f->caplen, &d);
	r.d = &d;
	r.verdict = au_verdict(l, r.reason);
	if (!l) {
		if (stray_allowed(s, r.mono_ns))
			put(au, NULL, &r, &cap);
		return;
	}
	if (!au_lease_frame(l, f->reason, frame_key(&d), r.mono_ns))
		return;
	r.suppressed = l->frame[f->reason].held;
	l->frame[f->reason].held = 0;
	put(au, l, &r, &cap);
}

/* ---- queries ---------------------------------------------------------------------- */

void au_sink_dns(struct au *au, const struct eg_da_denial *d)
{
	struct au_lease *l = au_lease_find(&au->leases, d->slot, d->generation);
	struct au_record r = {.layer = AU_DNS,
			      .reason = (enum eg_reason)d->reason,
			      .slot = d->slot,
			      .wall_ns = d->time_ns,
			      .mono_ns = d->mono_ns,
			      .suppressed = d->suppressed,
			      .dns = d,
			      .rebuilt = true};
	uint32_t gw = eg_plan_gateway(au->conf, d->slot);
	struct au_cap cap = {.data = au->frame, .wall_ns = d->time_ns};

	r.gateway = gw;
	if (l && l->sealed)
		l = NULL;
	if (!l) {
		au->source[gw].unattributed++;
		r.detail = "lease-sealed";
	}
	r.verdict = au_verdict_dns(l, d->rcode);
	cap.caplen = cap.len = (uint32_t)au_frame_dns(au->frame, d);
	put(au, l, &r, &cap);
}

/* ---- markers ---------------------------------------------------------------------- */

static void put_log(struct au *au, struct au_log *log, long n)
{
	if (n < 0) {
		log->disk_lost++;
		return;
	}
	au_log_put(au->files, log, AU_LOG, EG_REASON_NONE, au->line, (size_t)n,
		   NULL);
	au_flush_soon(au);
}

static void gap(struct au *au, struct au_source *s, const char *what,
		uint64_t lost)
{
	int64_t wall = eg_wall_ns();
	struct au_log *log = host_log(au, wall);
	uint64_t offset;
	int r = au_log_room(au->files, log, 0, &offset);

	if (r) {
		au_trouble(au, r);
		return;
	}
	put_log(au, log,
		au_record_gap(s->gateway, log->seq + 1, wall, eg_boot_ns(),
			      what, lost, au->line, AU_RECORD_ROOM));
}

void au_sink_gaps(struct au *au, struct au_source *s)
{
	uint64_t lost = s->gap_before + s->nflog.gap;
	uint64_t drops;

	if (lost > s->gap_said) {
		gap(au, s, "nflog-gap", lost - s->gap_said);
		s->gap_said = lost;
	}
	if (s->packet_fd >= 0)
		au_packet_stats(&s->packet);
	drops = s->drops_before + s->packet.dropped;
	if (drops > s->drops_said) {
		gap(au, s, "frames-dropped", drops - s->drops_said);
		s->drops_said = drops;
	}
}

void au_sink_summary(struct au *au, struct au_lease *l,
		     const struct au_seal_facts *facts)
{
	uint64_t offset;
	int r = au_log_room(au->files, &l->log, 0, &offset);

	if (r) {
		refused(au, l, r);
		return;
	}
	put_log(au, &l->log,
		au_record_summary(l, l->log.seq + 1, facts->wall_ns,
				  eg_boot_ns(), facts->packet, facts->dns,
				  au->line, AU_RECORD_ROOM));
}
