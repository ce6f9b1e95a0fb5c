// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: events: a ring of the last NP_EVENTS, read by cursor.
 */
#include "netpool/base/log.h"
#include "netpool/base/util.h"
#include "netpool/state.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define EVENTS_A_CALL 256 /* messages queued for one question */

static const char *const names[] = {
	[EG_EV_LEASED] = "leased",
	[EG_EV_PHASE] = "phase",
	[EG_EV_POLICY] = "policy",
	[EG_EV_RENEWED] = "renewed",
	[EG_EV_EXPIRING] = "expiring",
	[EG_EV_EXPIRED] = "expired",
	[EG_EV_REVOKED] = "revoked",
	[EG_EV_RELEASED] = "released",
	[EG_EV_SEALED] = "sealed",
	[EG_EV_FIRST_DENIAL] = "first-denial",
	[EG_EV_GUEST_GONE] = "guest-gone",
	[EG_EV_WATCHDOG] = "watchdog",
	[EG_EV_LOSS] = "loss",
	[EG_EV_POOL] = "pool",
	[EG_EV_ROLE] = "role",
};
_Static_assert(EG_ARRAY_SIZE(names) == EG_EV_COUNT, "event names");

const char *np_event_name(enum eg_event_type type)
{
	return (unsigned int)type < EG_EV_COUNT ? names[type] : "?";
}

void np_event(struct np_main *m, enum eg_event_type type, enum eg_cause cause,
	      const struct np_lease *l, const char *fmt, ...)
{
	struct eg_event *e = &m->event[++m->event_seq % NP_EVENTS];
	va_list ap;

	memset(e, 0, sizeof(*e));
	e->seq = m->event_seq;
	e->time_ns = eg_wall_ns();
	e->type = (uint8_t)type;
	e->cause = (uint8_t)cause;
	if (l) {
		e->has_lease = 1;
		e->slot = l->l.slot;
		e->generation = l->l.generation;
		memcpy(e->uid, l->l.uid, EG_UID);
		memcpy(e->lease, l->l.req.id, EG_ID);
	}
	va_start(ap, fmt);
	(void)vsnprintf(e->text, sizeof(e->text), fmt, ap);
	va_end(ap);
	eg_info("event %s%s%s%s%s", np_event_name(type), l ? " lease " : "",
		l ? l->l.req.id : "", e->text[0] ? ": " : "", e->text);
}

void np_event_list(struct np_main *m, uint64_t cookie,
		   const struct eg_pm_events *q)
{
	uint64_t kept = m->event_seq - m->event_base;
	uint64_t oldest = kept >= NP_EVENTS ? m->event_seq - NP_EVENTS + 1 :
					      m->event_base + 1;
	uint64_t first = q->after + 1 > oldest ? q->after + 1 : oldest;
	uint32_t sent = 0, limit = eg_min_u32(q->limit, EVENTS_A_CALL);
	struct eg_mp_end end = {
		.status = EG_OK, .oldest_seq = oldest - 1,
		.last_seq = q->after > m->event_base ? q->after : m->event_base};

	/* A number that is still to come is of a clock that was set back. */
	if (q->after && (q->after + 1 < oldest || q->after > m->event_seq))
		end.status = EG_E_CURSOR_GONE;
	for (uint64_t s = first;
	     end.status == EG_OK && s <= m->event_seq && sent < limit; s++) {
		const struct eg_event *e = &m->event[s % NP_EVENTS];

		end.last_seq = s;
		if (q->type >= 0 && e->type != q->type)
			continue;
		(void)eg_role_send(m->ctx, EG_ROLE_API, EG_MP_EVENT, cookie, e,
				   sizeof(*e), -1);
		sent++;
	}
	(void)eg_role_send(m->ctx, EG_ROLE_API, EG_MP_END, cookie, &end,
			   sizeof(end), -1);
}
