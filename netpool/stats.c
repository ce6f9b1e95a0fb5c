// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: the numbers of one lease: kernel, guard and log put together.
 *
 * The kernel's counters are read first, then dns and audit are asked; audit
 * drains its socket before it answers. So `logged` is never behind what had
 * been `sent` at the read-out, unless records were lost: lost = sent - logged.
 */
#include "netpool/base/util.h"
#include "netpool/state.h"

#include <stdio.h>
#include <string.h>

#define STATS_NS (2 * EG_NSEC_PER_SEC) /* then answer with what there is */

static void finish(struct np_main *m, struct np_pending *p)
{
	(void)eg_role_send(m->ctx, EG_ROLE_API, EG_MP_STATS, p->cookie, &p->s,
			   sizeof(p->s), -1);
	p->cookie = 0;
}

static void refuse(struct np_main *m, uint64_t cookie, const char *why)
{
	static struct eg_mp_stats s;

	memset(&s, 0, sizeof(s));
	s.status = EG_E_UNAVAILABLE;
	(void)snprintf(s.text, sizeof(s.text), "%s", why);
	(void)eg_role_send(m->ctx, EG_ROLE_API, EG_MP_STATS, cookie, &s,
			   sizeof(s), -1);
}

static void stats_status(struct np_main *m, uint64_t cookie, uint32_t status)
{
	static struct eg_mp_stats s;

	memset(&s, 0, sizeof(s));
	s.status = status;
	(void)eg_role_send(m->ctx, EG_ROLE_API, EG_MP_STATS, cookie, &s,
			   sizeof(s), -1);
}

static struct np_pending *pending_new(struct np_main *m)
{
	for (unsigned int i = 0; i < NP_PENDING; i++)
		if (!m->pending[i].cookie)
			return &m->pending[i];
	return NULL;
}

void np_stats_request(struct np_main *m, uint64_t cookie,
		      const struct eg_pm_which *w)
{
	struct np_lease *l =
		w->has_uid ? np_lease_uid(m, w->uid) : np_lease_find(m, w->id);
	struct np_pending *p = pending_new(m);
	struct eg_md_unlease d;
	struct eg_ma_stats a;
	struct eg_err err = {0};

	if (!l || l->step == NP_STEP_ARM || l->step == NP_STEP_GUEST) {
		stats_status(m, cookie, EG_E_NOT_FOUND);
		return;
	}
	if (!p || !cookie) {
		refuse(m, cookie, "too many statistics are under way");
		return;
	}
	memset(p, 0, sizeof(*p));
	p->cookie = cookie;
	p->slot = p->s.slot = l->l.slot;
	p->generation = p->s.generation = l->l.generation;
	p->deadline = eg_boot_ns() + STATS_NS;
	if (m->k->counters(m, l, p->s.packet, &p->s.unattributed, &err)) {
		refuse(m, cookie, err.text);
		p->cookie = 0;
		return;
	}
	m->k->stats(m, l, &p->s);
	d = (struct eg_md_unlease){.slot = p->slot, .generation = p->generation};
	a = (struct eg_ma_stats){.slot = p->slot, .generation = p->generation};
	/* dns first: what it has sent to audit is then there to be drained */
	p->dns = !eg_role_send(m->ctx, EG_ROLE_DNS, EG_MD_STATS, cookie, &d,
			       sizeof(d), -1);
	if (!p->dns)
		p->audit = !eg_role_send(m->ctx, EG_ROLE_AUDIT, EG_MA_STATS,
					 cookie, &a, sizeof(a), -1);
	if (!p->dns && !p->audit)
		finish(m, p);
}

static struct np_pending *pending_find(struct np_main *m, uint64_t cookie)
{
	for (unsigned int i = 0; cookie && i < NP_PENDING; i++)
		if (m->pending[i].cookie == cookie)
			return &m->pending[i];
	return NULL;
}

void np_stats_dns(struct np_main *m, uint64_t cookie, const struct eg_dm_stats *s)
{
	struct np_pending *p = pending_find(m, cookie);
	struct eg_ma_stats a = {.slot = s->slot, .generation = s->generation};

	if (!p || !p->dns || p->generation != s->generation)
		return;
	p->dns = false;
	for (unsigned int i = 0; i < EG_REASONS; i++) {
		p->s.dns[i].denied = s->dns[i].denied;
		p->s.dns[i].suppressed = s->dns[i].suppressed;
		p->s.dns[i].sent = s->dns[i].sent;
	}
	p->audit = !eg_role_send(m->ctx, EG_ROLE_AUDIT, EG_MA_STATS, cookie, &a,
				 sizeof(a), -1);
	if (!p->audit)
		finish(m, p);
}

static void logged_put(struct eg_reason_counts *c, uint64_t logged)
{
	/* More than was sent at the read-out came later: not counted yet. */
	c->logged = logged < c->sent ? logged : c->sent;
	c->lost = c->sent - c->logged;
}

void np_stats_audit(struct np_main *m, uint64_t cookie,
		    const struct eg_am_stats *s)
{
	struct np_pending *p = pending_find(m, cookie);

	if (!p || !p->audit || p->generation != s->generation)
		return;
	for (unsigned int i = 0; i < EG_REASONS; i++) {
		/*
		 * What audit itself sees (frames that are not IPv4) has no
		 * kernel counter: the log is the count.
		 */
		if (i == EG_REASON_IPV6 || i == EG_REASON_NEIGHBOUR ||
		    i == EG_REASON_ETHERTYPE) {
			p->s.packet[i].denied = s->packet_denied[i];
			p->s.packet[i].suppressed = s->packet_suppressed[i];
			p->s.packet[i].sent =
				s->packet_denied[i] - s->packet_suppressed[i];
		}
		logged_put(&p->s.packet[i], s->packet_logged[i]);
		logged_put(&p->s.dns[i], s->dns_logged[i]);
	}
	finish(m, p);
}

void np_stats_tick(struct np_main *m, int64_t now)
{
	for (unsigned int i = 0; i < NP_PENDING; i++)
		if (m->pending[i].cookie && now >= m->pending[i].deadline)
			finish(m, &m->pending[i]);
}
