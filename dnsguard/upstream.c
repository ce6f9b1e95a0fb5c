// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: asking upstream (see upstream.h)
 */
#include "dnsguard/upstream.h"
#include "netpool/base/util.h"

#include <errno.h>
#include <string.h>

#define MS 1000000LL
#define FOLDERS 256 /* names remembered for folding case; a slot each */

struct req {
	bool used, tcp;
	bool exact; /* the reply's question must have our case */
	uint8_t server, sends, bad;
	enum dg_ede why;
	uint16_t id;
	int64_t deadline, total; /* ns */
	struct eg_name name;	 /* as sent */
};

struct folder {
	struct eg_name name;
	uint8_t times;
};

struct dg_up {
	const struct dg_up_ops *ops;
	void *arg;
	uint32_t nservers, preferred, active, hint;
	struct dg_up_stats stats;
	struct req req[DG_UP_REQUESTS];
	struct folder folder[FOLDERS];
};

int dg_up_new(struct dg_up **ret, uint32_t nservers,
	      const struct dg_up_ops *ops, void *arg)
{
	struct dg_up *up = calloc(1, sizeof(*up));

	if (!up)
		return -ENOMEM;
	up->nservers = eg_min_u32(nservers, EG_CONF_UPSTREAMS);
	up->ops = ops;
	up->arg = arg;
	*ret = up;
	return 0;
}

void dg_up_free(struct dg_up *up)
{
	if (!up)
		return;
	for (uint32_t i = 0; i < DG_UP_REQUESTS; i++)
		if (up->req[i].used)
			up->ops->close(up->arg, i);
	free(up);
}

const struct dg_up_stats *dg_up_stats(const struct dg_up *up)
{
	return &up->stats;
}

static struct folder *folder_of(struct dg_up *up, const struct eg_name *name)
{
	return &up->folder[eg_name_hash(name) % FOLDERS];
}

static bool folds(struct dg_up *up, const struct eg_name *name)
{
	const struct folder *f = folder_of(up, name);

	return f->times >= DG_UP_EXEMPT && eg_name_equal(&f->name, name);
}

static void note_folded(struct dg_up *up, const struct eg_name *name)
{
	struct folder *f = folder_of(up, name);

	if (!f->times || !eg_name_equal(&f->name, name)) {
		f->name = *name;
		f->times = 0;
	}
	if (f->times < DG_UP_EXEMPT)
		f->times++;
	up->stats.folded++;
}

static uint32_t max_sends(const struct dg_up *up)
{
	return up->nservers >= DG_UP_SENDS ? DG_UP_SENDS : 2;
}

/* Make the question anew and send it to r->server. */
static int transmit(struct dg_up *up, struct req *r, bool tcp, int64_t now)
{
	uint8_t msg[DG_ASK_MAX];
	size_t len;

	r->tcp = tcp;
	r->bad = 0;
	r->exact = !tcp && !folds(up, &r->name);
	if (r->exact)
		dg_build_case(&r->name);
	else
		eg_name_lower(&r->name);
	dg_random(&r->id, sizeof(r->id));
	len = dg_build_ask(r->id, &r->name, msg);
	r->deadline = now + (tcp ? DG_UP_TCP_MS : DG_UP_UDP_MS) * MS;
	if (r->deadline > r->total)
		r->deadline = r->total;
	if (tcp)
		up->stats.over_tcp++;
	return up->ops->send(up->arg, (uint32_t)(r - up->req), r->server, tcp,
			     msg, len);
}

static void finish(struct dg_up *up, struct req *r, const struct dg_reply *rep)
{
	uint32_t i = (uint32_t)(r - up->req);

	up->ops->close(up->arg, i);
	r->used = false;
	up->active--;
	up->hint = i;
	if (rep) {
		up->preferred = r->server;
		up->stats.answered++;
	} else {
		up->stats.failed++;
	}
	up->ops->done(up->arg, i, rep, rep ? DG_EDE_NONE : r->why);
}

/* Try servers until one takes the datagram; false: none is left. */
static bool send_somewhere(struct dg_up *up, struct req *r, int64_t now)
{
	while (r->sends < max_sends(up) && now < r->total) {
		r->sends++;
		if (!transmit(up, r, false, now))
			return true;
		r->why = DG_EDE_NETWORK;
		r->server = (uint8_t)((r->server + 1U) % up->nservers);
	}
	return false;
}

static void next_server(struct dg_up *up, struct req *r, enum dg_ede why,
			int64_t now)
{
	if (up->preferred == r->server)
		up->preferred = (up->preferred + 1) % up->nservers;
	r->server = (uint8_t)((r->server + 1U) % up->nservers);
	r->why = why;
	if (!send_somewhere(up, r, now))
		finish(up, r, NULL);
}

static void over_tcp(struct dg_up *up, struct req *r, int64_t now)
{
	if (now >= r->total || transmit(up, r, true, now))
		next_server(up, r, DG_EDE_NETWORK, now);
}

int dg_up_ask(struct dg_up *up, const struct eg_name *name, int64_t now)
{
	uint32_t i = up->hint;
	struct req *r;

	if (!up->nservers)
		return -EHOSTUNREACH;
	if (up->active == DG_UP_REQUESTS)
		return -EBUSY;
	while (up->req[i].used)
		i = (i + 1) % DG_UP_REQUESTS;
	r = &up->req[i];
	*r = (struct req){ .used = true,
			   .server = (uint8_t)up->preferred,
			   .why = DG_EDE_UNREACHABLE,
			   .total = now + DG_UP_TOTAL_MS * MS,
			   .name = *name };
	up->active++;
	up->hint = (i + 1) % DG_UP_REQUESTS;
	up->stats.asked++;
	if (!send_somewhere(up, r, now))
		r->deadline = now; /* fails in the next tick */
	return (int)i;
}

static struct req *live(struct dg_up *up, uint32_t i)
{
	return i < DG_UP_REQUESTS && up->req[i].used ? &up->req[i] : NULL;
}

/* A well-formed reply to our question. */
static void take_reply(struct dg_up *up, struct req *r,
		       const struct dg_reply *rep, int64_t now)
{
	if (rep->rcode == DG_NOERROR || rep->rcode == DG_NXDOMAIN)
		finish(up, r, rep);
	else
		next_server(up, r, DG_EDE_NETWORK, now);
}

void dg_up_on_datagram(struct dg_up *up, uint32_t i, const uint8_t *msg,
		       size_t len, int64_t now)
{
	struct req *r = live(up, i);
	struct dg_reply rep;

	if (!r || r->tcp)
		return;
	switch (dg_walk_reply(msg, len, r->id, &r->name, r->exact, &rep)) {
	case DG_REPLY_OK:
		take_reply(up, r, &rep, now);
		break;
	case DG_REPLY_CASE:
		note_folded(up, &r->name);
		over_tcp(up, r, now);
		break;
	case DG_REPLY_TC:
		over_tcp(up, r, now);
		break;
	case DG_REPLY_BAD:
		next_server(up, r, DG_EDE_NETWORK, now);
		break;
	case DG_REPLY_IGNORE:
	case DG_REPLY_VERDICT_COUNT:
		up->stats.ignored++;
		if (++r->bad >= DG_UP_BAD)
			over_tcp(up, r, now);
		break;
	}
}

void dg_up_on_stream(struct dg_up *up, uint32_t i, const uint8_t *msg,
		     size_t len, int64_t now)
{
	struct req *r = live(up, i);
	struct dg_reply rep;

	if (!r || !r->tcp)
		return;
	if (dg_walk_reply(msg, len, r->id, &r->name, false, &rep) ==
	    DG_REPLY_OK)
		take_reply(up, r, &rep, now);
	else
		next_server(up, r, DG_EDE_NETWORK, now);
}

void dg_up_on_error(struct dg_up *up, uint32_t i, int64_t now)
{
	struct req *r = live(up, i);

	if (r)
		next_server(up, r, DG_EDE_NETWORK, now);
}

void dg_up_tick(struct dg_up *up, int64_t now)
{
	for (uint32_t i = 0; up->active && i < DG_UP_REQUESTS; i++) {
		struct req *r = live(up, i);

		if (!r || r->deadline > now)
			continue;
		up->stats.timeouts++;
		next_server(up, r,
			    r->why == DG_EDE_NETWORK ? DG_EDE_NETWORK :
						       DG_EDE_UNREACHABLE,
			    now);
	}
}

int64_t dg_up_next(const struct dg_up *up)
{
	int64_t next = INT64_MAX;
	uint32_t left = up->active;

	for (uint32_t i = 0; left && i < DG_UP_REQUESTS; i++) {
		if (!up->req[i].used)
			continue;
		left--;
		if (up->req[i].deadline < next)
			next = up->req[i].deadline;
	}
	return next;
}
