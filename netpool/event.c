// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: events: a ring of the last NP_EVENTS, read by cursor.
 *
 * Kept packed: the fixed part of struct eg_event, then both texts without
 * their room. As they travel they would take 20 MB, so they take some 7.
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

#define FIXED offsetof(struct eg_event, lease)

/* An event that finds no memory is missing from the ring: a number skipped. */
static void event_keep(struct np_main *m, const struct eg_event *e)
{
	size_t id = strlen(e->lease) + 1, text = strlen(e->text) + 1;
	uint8_t **at = &m->event[e->seq % NP_EVENTS];

	free(*at);
	*at = malloc(FIXED + id + text);
	if (!*at)
		return;
	memcpy(*at, e, FIXED);
	memcpy(*at + FIXED, e->lease, id);
	memcpy(*at + FIXED + id, e->text, text);
}

bool np_event_get(const struct np_main *m, uint64_t seq, struct eg_event *ret)
{
	const uint8_t *at = m->event[seq % NP_EVENTS];
	size_t id;

	memset(ret, 0, sizeof(*ret));
	if (!at)
		return false;
	memcpy(ret, at, FIXED);
	id = strlen((const char *)at + FIXED) + 1;
	memcpy(ret->lease, at + FIXED, id);
	at += FIXED + id;
	memcpy(ret->text, at, strlen((const char *)at) + 1);
	return ret->seq == seq;
}

void np_events_free(struct np_main *m)
{
	for (uint32_t i = 0; m->event && i < NP_EVENTS; i++)
		free(m->event[i]);
	free(m->event);
	m->event = NULL;
}

void np_event(struct np_main *m, enum eg_event_type type, enum eg_cause cause,
	      const struct np_lease *l, const char *fmt, ...)
{
	struct eg_event e = {.seq = ++m->event_seq,
			     .time_ns = eg_wall_ns(),
			     .type = (uint8_t)type,
			     .cause = (uint8_t)cause};
	va_list ap;

	if (l) {
		e.has_lease = 1;
		e.slot = l->l.slot;
		e.generation = l->l.generation;
		memcpy(e.uid, l->l.uid, EG_UID);
		memcpy(e.lease, l->l.req.id, EG_ID);
	}
	va_start(ap, fmt);
	(void)vsnprintf(e.text, sizeof(e.text), fmt, ap);
	va_end(ap);
	event_keep(m, &e);
	eg_info("event %s%s%s%s%s", np_event_name(type), l ? " lease " : "",
		l ? l->l.req.id : "", e.text[0] ? ": " : "", e.text);
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
		struct eg_event e;

		end.last_seq = s;
		if (!np_event_get(m, s, &e) ||
		    (q->type >= 0 && e.type != q->type))
			continue;
		(void)eg_role_send(m->ctx, EG_ROLE_API, EG_MP_EVENT, cookie, &e,
				   sizeof(e), -1);
		sent++;
	}
	(void)eg_role_send(m->ctx, EG_ROLE_API, EG_MP_END, cookie, &end,
			   sizeof(end), -1);
}
