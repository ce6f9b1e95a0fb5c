// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: the audit role (see audit.h): messages, questions, seals
 */
#include "audit/audit.h"
#include "audit/core.h"
#include "audit/phases.h"
#include "netpool/base/digest.h"
#include "netpool/base/log.h"
#include "netpool/base/plan.h"
#include "netpool/base/stamp.h"
#include "netpool/base/util.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define QUIET_NS (200 * 1000000LL)	    /* main has announced all it has */
#define QUIET_MAX_NS (10 * EG_NSEC_PER_SEC) /* then read, main or not */
#define QUIET_TICK_US 50000
#define REQUESTS_SPARE 4096  /* questions beside one end for each slot */
#define SEAL_BYTES (4 << 20) /* hashed in a turn: some 10 ms */

/* ---- the disk ----------------------------------------------------------------- */

void au_trouble(struct au *au, int r)
{
	if (r && !au->trouble)
		eg_error("evidence cannot be written (%s); denials are counted as lost until it can, forwarding and DNS go on",
			 strerror(-r));
	else if (!r && au->trouble)
		eg_notice("evidence is being written again");
	au->trouble = r;
}

void au_flush_soon(struct au *au)
{
	if (au->flush_armed)
		return;
	au->flush_armed = true;
	eg_timer_set(au->flush_timer, au->trouble ? AU_RETRY_US : AU_FLUSH_US);
}

static int write_all(struct au *au)
{
	int r = au_files_flush(au->files);
	int t = au_texts_retry(&au->texts, au->files);

	return r ? r : t;
}

static void on_flush(void *arg)
{
	struct au *au = arg;

	au->flush_armed = false;
	au_trouble(au, write_all(au));
	if (au->trouble)
		au_flush_soon(au);
}

/* ---- sources -------------------------------------------------------------------- */

static void source_close_log(struct au_source *s)
{
	eg_io_free(s->log_io);
	s->log_io = NULL;
	eg_close_p(&s->log_fd);
	s->gap_before += s->nflog.gap;
	s->nflog.gap = 0;
}

static void source_close_packet(struct au_source *s)
{
	eg_io_free(s->packet_io);
	s->packet_io = NULL;
	eg_close_p(&s->packet_fd);
	s->drops_before += s->packet.dropped;
	s->packet.dropped = 0;
}

static void read_log(struct au_source *s, int max)
{
	int r = s->log_fd < 0 ? 0 : au_nflog_read(&s->nflog, max);

	if (r < 0) {
		eg_error("log socket of gateway %d: %s", (int)s->gateway,
			 strerror(-r));
		source_close_log(s);
	}
	if (s->gap_before + s->nflog.gap > s->gap_said)
		au_sink_gaps(s->au, s);
}

static void read_packets(struct au_source *s, int max)
{
	int r = s->packet_fd < 0 ? 0 : au_packet_read(&s->packet, max);

	if (r < 0) {
		eg_error("packet socket of gateway %d: %s", (int)s->gateway,
			 strerror(-r));
		source_close_packet(s);
	}
}

static void on_log(void *arg, int fd, int what)
{
	(void)fd;
	(void)what;
	read_log(arg, AU_TURN);
}

static void on_packet(void *arg, int fd, int what)
{
	(void)fd;
	(void)what;
	read_packets(arg, AU_TURN_FRAMES);
}

static void source_arm(struct au_source *s)
{
	struct eg_loop *loop = s->au->ctx->loop;

	if (!s->au->reading)
		return;
	if (s->log_fd >= 0 && !s->log_io)
		s->log_io = eg_io_new(loop, s->log_fd, EG_READ, on_log, s);
	if (s->packet_fd >= 0 && !s->packet_io)
		s->packet_io =
			eg_io_new(loop, s->packet_fd, EG_READ, on_packet, s);
	if ((s->log_fd >= 0 && !s->log_io) ||
	    (s->packet_fd >= 0 && !s->packet_io))
		eg_error("no memory to read gateway %d", (int)s->gateway);
}

static void start_reading(struct au *au)
{
	if (au->reading)
		return;
	au->reading = true;
	for (unsigned int i = 0; i <= EG_GATEWAYS_MAX; i++)
		source_arm(&au->source[i]);
}

static void on_read_timer(void *arg)
{
	struct au *au = arg;
	int64_t now = eg_boot_ns();

	if (au->reading)
		return;
	if ((au->last_lease_ns && now - au->last_lease_ns >= QUIET_NS) ||
	    now - au->started_ns >= QUIET_MAX_NS)
		start_reading(au);
	else
		eg_timer_set(au->read_timer, QUIET_TICK_US);
}

/* What the gateway's sockets hold now is read, and no more than that. */
static void drain(struct au *au, struct au_source *s)
{
	read_log(s, AU_DRAIN);
	read_packets(s, AU_DRAIN_FRAMES);
	au_sink_gaps(au, s);
}

/* ---- leases -------------------------------------------------------------------- */

static bool has_manifest(struct au *au, const char *dir)
{
	EG_CLEANUP_FD int fd = au_files_read(au->files, dir, AU_MANIFEST);

	return fd >= 0;
}

/* Files of an earlier audit: numbers, counts and phases go on. */
static void take_over(struct au *au, struct au_lease *l)
{
	char dir[AU_DIR_TEXT];
	struct eg_err err = {0};
	int r;

	(void)au_lease_dir(l->uid, l->created_ns, dir);
	if (au_log_init(au->files, &l->log, dir, &err))
		eg_warning("slot %u: %s", l->slot, err.text);
	r = au_phases_load(au->files, l, eg_wall_ns());
	if (r)
		eg_warning("slot %u: earlier phases: %s", l->slot, strerror(-r));
	for (unsigned int i = 0; i < EG_REASONS; i++) {
		struct au_frames *f = &l->frame[i];

		for (unsigned int k = 0; k < AU_LAYER_COUNT; k++)
			if (l->log.logged[k][i])
				l->first[k] |= 1U << i;
		if (i != EG_REASON_IPV6 && i != EG_REASON_NEIGHBOUR &&
		    i != EG_REASON_ETHERTYPE)
			continue;
		f->sent = l->log.logged[AU_PACKET][i];
		f->suppressed = l->log.suppressed[AU_PACKET][i];
		f->denied = f->sent + f->suppressed;
	}
	if (has_manifest(au, dir))
		l->sealed = au_chain_find(au->files, l->uid, l->manifest);
}

static void on_lease(struct au *au, const struct eg_ma_lease *m)
{
	struct eg_err err = {0};
	struct au_lease *l;
	uint32_t spans;
	bool is_new;
	int r;

	l = au_lease_find(&au->leases, m->lease.slot, m->lease.generation);
	spans = l ? l->spans + l->spans_lost : 0;
	au->last_lease_ns = eg_boot_ns();
	l = au_lease_add(&au->leases, au->conf, m, eg_wall_ns(), &is_new, &err);
	if (!l) {
		eg_error("%s", err.text);
		return;
	}
	if (is_new) {
		take_over(au, l);
		return;
	}
	if (l->spans + l->spans_lost == spans || l->sealed)
		return;
	r = au_phases_store(au->files, l);
	if (r)
		au_trouble(au, r);
}

static void on_policy(struct au *au, struct eg_msg *m)
{
	int r = au_texts_keep(&au->texts, au->files, m->body, &m->fd);

	if (r == -EBADMSG || r == -ENOBUFS)
		eg_error("a policy's text is not kept: %s",
			 r == -EBADMSG ? "it is not the one of its digest"
				       : "too many wait for the disk");
	else if (r) {
		au_trouble(au, r);
		au_flush_soon(au);
	}
}

static void on_name(struct au *au, const struct eg_da_name *m)
{
	struct au_lease *l = au_lease_find(&au->leases, m->slot, m->generation);
	struct eg_da_name n = *m;

	if (l &&
	    eg_name_from_wire(m->name.wire, sizeof(m->name.wire), &n.name) > 0)
		au_lease_name(&au->leases, l, &n, eg_boot_ns());
}

static void on_denial(struct au *au, const struct eg_msg *m)
{
	static struct eg_da_denial d;

	memset(&d, 0, sizeof(d));
	memcpy(&d, m->body, m->len);
	if (d.slot >= au->conf->slots || d.reason == EG_REASON_NONE ||
	    d.reason >= EG_REASON_COUNT ||
	    m->len != offsetof(struct eg_da_denial, query) + d.len) {
		eg_error("a denial of dns makes no sense; left out");
		return;
	}
	if (d.name.len &&
	    eg_name_from_wire(d.name.wire, sizeof(d.name.wire), &d.name) < 0)
		d.name.len = 0;
	if (!au_lease_find(&au->leases, d.slot, d.generation))
		eg_chan_drain(au->ctx->peer[EG_ROLE_MAIN]);
	au_sink_dns(au, &d);
}

/* ---- answers to main -------------------------------------------------------------- */

static void say_main(struct au *au, uint16_t type, uint64_t cookie,
		     const void *body, size_t len)
{
	struct eg_chan *c = au->ctx->peer[EG_ROLE_MAIN];
	int r = c ? eg_chan_send(c, type, cookie, body, len, -1) : -ENOTCONN;

	if (r) /* main asks again, or is a new one that asks anew */
		eg_warning("%s to main: %s", eg_msg_spec[type].name,
			   strerror(-r));
}

static void put_logged(const struct au_log *g, uint64_t packet[EG_REASONS],
		       uint64_t dns[EG_REASONS])
{
	memcpy(packet, g->logged[AU_PACKET], EG_REASONS * sizeof(*packet));
	memcpy(dns, g->logged[AU_DNS], EG_REASONS * sizeof(*dns));
}

static void answer_stats(struct au *au, const struct au_request *q)
{
	struct au_lease *l = au_lease_find(&au->leases, q->slot, q->generation);
	struct au_source *s = &au->source[eg_plan_gateway(au->conf, q->slot)];
	struct eg_am_stats m = {.slot = q->slot, .generation = q->generation};

	if (l) {
		int r = au_log_flush(au->files, &l->log);

		if (r)
			au_trouble(au, r);
		m.known = 1;
		put_logged(&l->log, m.packet_logged, m.dns_logged);
		for (unsigned int i = 0; i < EG_REASONS; i++) {
			m.packet_denied[i] = l->frame[i].denied;
			m.packet_suppressed[i] = l->frame[i].suppressed;
		}
	}
	m.gw_gap = s->gap_before + s->nflog.gap;
	m.gw_frames_lost = s->drops_before + s->packet.dropped;
	m.gw_unattributed = s->unattributed;
	say_main(au, EG_AM_STATS, q->cookie, &m, sizeof(m));
}

static void answer_sealed(struct au *au, const struct au_request *q,
			  const struct au_lease *l, int error,
			  const uint8_t *manifest)
{
	struct eg_am_sealed m = {
		.slot = q->slot, .error = error, .generation = q->generation};

	if (l)
		put_logged(&l->log, m.packet_logged, m.dns_logged);
	if (manifest)
		memcpy(m.manifest, manifest, sizeof(m.manifest));
	say_main(au, EG_AM_SEALED, q->cookie, &m, sizeof(m));
}

/* ---- seals -------------------------------------------------------------------------- */

static void settle(struct eg_reason_counts *c, uint64_t logged)
{
	c->logged = logged;
	c->lost = c->sent > logged ? c->sent - logged : 0;
}

static void seal_facts(struct au *au, const struct au_lease *l,
		       struct au_seal_facts *f)
{
	*f = (struct au_seal_facts){.conf = au->conf,
				    .wall_ns = eg_wall_ns(),
				    .cause = l->end->cause};
	memcpy(f->packet, l->end->packet, sizeof(f->packet));
	memcpy(f->dns, l->end->dns, sizeof(f->dns));
	for (unsigned int i = 0; i < EG_REASONS; i++) {
		const struct au_frames *fr = &l->frame[i];

		if (fr->denied) {
			f->packet[i].denied = fr->denied;
			f->packet[i].suppressed = fr->suppressed;
			f->packet[i].sent = fr->sent;
		}
		settle(&f->packet[i], l->log.logged[AU_PACKET][i]);
		settle(&f->dns[i], l->log.logged[AU_DNS][i]);
	}
}

static bool worth_a_summary(const struct au_seal_facts *f)
{
	for (unsigned int i = 0; i < EG_REASONS; i++)
		if (f->packet[i].suppressed || f->packet[i].lost ||
		    f->dns[i].suppressed || f->dns[i].lost)
			return true;
	return false;
}

static void job_done(struct au *au, struct au_job *j, int r,
		     const uint8_t *manifest)
{
	struct au_lease *l = j->lease;
	struct au_request q = {.slot = l->slot,
			       .generation = l->generation,
			       .cookie = l->end_cookie};
	char hex[EG_SHA256_HEX], uid[EG_UUID_TEXT];

	if (!r)
		eg_info("sealed %s manifest sha256:%s number %llu",
			eg_uuid_format(l->uid, uid),
			eg_hex(hex, manifest, EG_DIGEST),
			(unsigned long long)au->chain.n);
	answer_sealed(au, &q, l, r, r ? NULL : manifest);
	au->jobs = j->next;
	if (!au->jobs)
		au->jobs_tail = &au->jobs;
	au_seal_free(j->seal);
	free(j);
	au_lease_remove(&au->leases, l);
}

static int job_step(struct au *au, struct au_job *j, uint8_t *manifest,
		    size_t bytes)
{
	struct eg_err err = {0};
	int r;

	if (au->chain_bad)
		return -EBADMSG; /* said at the start */
	r = au_seal_step(j->seal, au->files, &au->chain, bytes, manifest, &err);
	if (r < 0)
		eg_error("%s", err.text);
	return r;
}

/* One job a turn, in the order they came. */
static void on_seal(void *arg)
{
	struct au *au = arg;
	uint8_t manifest[EG_DIGEST];
	int r;

	if (!au->jobs)
		return;
	r = job_step(au, au->jobs, manifest, SEAL_BYTES);
	if (r <= 0)
		job_done(au, au->jobs, r, manifest);
	if (au->jobs)
		eg_timer_set(au->seal_timer, 0);
}

static void seal_start(struct au *au, struct au_lease *l)
{
	struct au_seal_facts *f = malloc(sizeof(*f));
	struct au_job *j = calloc(1, sizeof(*j));
	struct au_request q = {.slot = l->slot,
			       .generation = l->generation,
			       .cookie = l->end_cookie};
	int r = au_log_flush(au->files, &l->log);

	if (r)
		au_trouble(au, r);
	if (f && j) {
		seal_facts(au, l, f);
		if (worth_a_summary(f))
			au_sink_summary(au, l, f);
		au_log_close(au->files, &l->log);
		j->lease = l;
		j->seal = au_seal_begin(l, f);
	}
	free(f);
	if (!j || !j->seal) {
		au_log_close(au->files, &l->log);
		free(j);
		answer_sealed(au, &q, l, -ENOMEM, NULL);
		au_lease_remove(&au->leases, l);
		return;
	}
	l->sealed = true; /* what comes now is late: host file */
	*au->jobs_tail = j;
	au->jobs_tail = &j->next;
	eg_timer_set(au->seal_timer, 0);
}

/* ---- questions ----------------------------------------------------------------------- */

static void request_run(struct au *au, const struct au_request *q)
{
	struct au_lease *l = au_lease_find(&au->leases, q->slot, q->generation);

	start_reading(au);
	drain(au, &au->source[eg_plan_gateway(au->conf, q->slot)]);
	if (!q->end)
		answer_stats(au, q);
	else if (l && l->end && !l->sealed)
		seal_start(au, l);
}

static void on_request(void *arg)
{
	struct au *au = arg;
	int64_t now = eg_boot_ns();

	while (au->requests) {
		struct au_request q = au->request[au->request_head];

		if (q.due_ns > now) {
			eg_timer_set(au->request_timer,
				     (q.due_ns - now) / 1000 + 1);
			return;
		}
		au->request_head = (au->request_head + 1) % au->request_cap;
		au->requests--;
		request_run(au, &q);
	}
}

/* All wait equally long, so the ring is in order of time. */
static void request_add(struct au *au, struct au_request q)
{
	uint32_t at;

	if (au->requests >= (q.end ? au->request_cap : REQUESTS_SPARE)) {
		/*
		 * Only questions can be so many. Nothing is read here: this
		 * may run inside a reader that looked for a lease.
		 */
		if (!q.end)
			answer_stats(au, &q);
		return;
	}
	q.due_ns = eg_boot_ns() + AU_SETTLE_US * 1000LL;
	at = (au->request_head + au->requests++) % au->request_cap;
	au->request[at] = q;
	if (au->requests == 1)
		eg_timer_set(au->request_timer, AU_SETTLE_US);
}

static void on_stats(struct au *au, const struct eg_msg *m)
{
	const struct eg_ma_stats *q = m->body;

	if (q->slot < au->conf->slots)
		request_add(au, (struct au_request){.slot = q->slot,
						    .generation = q->generation,
						    .cookie = m->cookie});
}

static void on_end(struct au *au, const struct eg_msg *m)
{
	const struct eg_ma_end *e = m->body;
	struct au_request q = {.slot = e->slot,
			       .end = true,
			       .generation = e->generation,
			       .cookie = m->cookie};
	struct au_lease *l = au_lease_find(&au->leases, e->slot, e->generation);

	if (!l) {
		answer_sealed(au, &q, NULL, -ENOENT, NULL);
		return;
	}
	if (l->sealed && !l->end) { /* before a restart */
		answer_sealed(au, &q, l, 0, l->manifest);
		au_lease_remove(&au->leases, l);
		return;
	}
	l->end_cookie = m->cookie;
	if (l->end)
		return; /* asked twice: one answer, to the later cookie */
	l->end = malloc(sizeof(*e));
	if (!l->end) {
		answer_sealed(au, &q, l, -ENOMEM, NULL);
		return;
	}
	*l->end = *e;
	l->ending = true;
	request_add(au, q);
}

/* ---- readers ------------------------------------------------------------------------- */

static const char *const evidence_names[] = {
	[EG_FILE_DENIALS] = AU_JSONL,
	[EG_FILE_PCAP] = "denials.pcap",
	[EG_FILE_ACCESS] = "access.jsonl",
	[EG_FILE_MANIFEST] = AU_MANIFEST,
	[EG_FILE_POLICY] = AU_POLICIES, /* by digest, not by name */
};
_Static_assert(EG_ARRAY_SIZE(evidence_names) == EG_FILE_COUNT, "files");

/* A uid of zeros means the host's own file of that day. */
static int evidence_open(struct au *au, const struct eg_pa_open *q)
{
	static const uint8_t nobody[EG_UID];
	char dir[AU_DIR_TEXT], date[EG_DATE_TEXT];

	if (q->file >= EG_FILE_COUNT)
		return -EINVAL;
	if (q->file == EG_FILE_POLICY)
		return au_texts_open(au->files, q->digest);
	if (memcmp(q->uid, nobody, EG_UID))
		(void)au_lease_dir(q->uid, q->created_ns, dir);
	else
		(void)snprintf(dir, sizeof(dir), "host/%s",
			       eg_stamp_date(q->created_ns, date));
	if (q->flush)
		au_trouble(au, au_files_flush(au->files));
	return au_files_read(au->files, dir, evidence_names[q->file]);
}

static void on_open(struct au *au, const struct eg_msg *m)
{
	const struct eg_pa_open *q = m->body;
	struct eg_ap_open a = {.file = q->file};
	EG_CLEANUP_FD int fd = evidence_open(au, q);
	struct stat st;

	if (fd >= 0 && !fstat(fd, &st))
		a.size = (uint64_t)st.st_size;
	if (fd < 0)
		a.error = fd;
	(void)eg_chan_send(au->ctx->peer[EG_ROLE_API], EG_AP_OPEN, m->cookie,
			   &a, sizeof(a), fd < 0 ? -1 : fd);
}

/* ---- a lease, live or ended ------------------------------------------------------------ */

/* What is in @fd, which is taken; negative: why there is nothing. */
static void answer_lease(struct au *au, uint64_t cookie, const uint8_t *uid,
			 bool live, int fd)
{
	struct eg_ap_lease a = {.error = fd < 0 ? fd : 0, .live = live};
	struct stat st;

	if (uid)
		memcpy(a.uid, uid, EG_UID);
	if (fd >= 0 && !fstat(fd, &st))
		a.size = (uint64_t)st.st_size;
	(void)eg_chan_send(au->ctx->peer[EG_ROLE_API], EG_AP_LEASE, cookie, &a,
			   sizeof(a), fd);
	eg_close_p(&fd);
}

/* UUIDv7: its first 48 bits are the milliseconds of its creation. */
static int manifest_open(struct au *au, const uint8_t uid[EG_UID])
{
	char dir[AU_DIR_TEXT];
	int64_t ms = 0;

	for (int i = 0; i < 6; i++)
		ms = ms << 8 | uid[i];
	(void)au_lease_dir(uid, ms * 1000000, dir);
	return au_files_read(au->files, dir, AU_MANIFEST);
}

/* A live one answers at once. */
static bool answer_live(struct au *au, const struct eg_pa_lease *q,
			uint64_t cookie)
{
	const struct au_lease *l = q->has_uid
					   ? au_lease_uid(&au->leases, q->uid)
					   : au_lease_id(&au->leases, q->id);

	if (l)
		answer_lease(au, cookie, l->uid, true, au_doc_open(l));
	return l;
}

/* One step; false: there is more to do. */
static bool search_step(struct au *au, struct au_search *s)
{
	uint8_t uid[EG_UID];
	int r;

	if (!s->begun && answer_live(au, &s->q, s->cookie))
		return true;
	if (s->q.has_uid) {
		answer_lease(au, s->cookie, s->q.uid, false,
			     manifest_open(au, s->q.uid));
		return true;
	}
	r = s->begun ? 0 : au_find_begin(&s->find, au->files, s->q.id);
	s->begun = !r;
	if (!r)
		r = au_find_step(&s->find, uid);
	if (r > 0)
		return false;
	answer_lease(au, s->cookie, r ? NULL : uid, false,
		     r ? r : manifest_open(au, uid));
	if (s->begun)
		au_find_end(&s->find);
	return true;
}

/* Until main has said which leases there are, a dead one may be alive. */
static void on_find(void *arg)
{
	struct au *au = arg;

	if (au->searches && !au->reading) {
		eg_timer_set(au->find_timer, QUIET_TICK_US);
		return;
	}
	if (au->searches && search_step(au, &au->search[0]))
		memmove(au->search, au->search + 1,
			--au->searches * sizeof(au->search[0]));
	if (au->searches)
		eg_timer_set(au->find_timer, 0);
}

static void on_which(struct au *au, const struct eg_msg *m)
{
	struct au_search s = {.cookie = m->cookie};

	memcpy(&s.q, m->body, sizeof(s.q));
	s.q.id[EG_ID - 1] = '\0';
	/* main said it before its answer reached who asks now */
	if (au->ctx->peer[EG_ROLE_MAIN])
		eg_chan_drain(au->ctx->peer[EG_ROLE_MAIN]);
	if (answer_live(au, &s.q, s.cookie))
		return;
	if (au->searches == AU_FINDS) {
		answer_lease(au, s.cookie, NULL, false, -EBUSY);
		return;
	}
	au->search[au->searches] = s;
	if (!au->searches++)
		eg_timer_set(au->find_timer, 0);
}

/* ---- the role ------------------------------------------------------------------------- */

static void on_msg(struct eg_role_ctx *ctx, enum eg_role from, struct eg_msg *m)
{
	struct au *au = ctx->priv;

	if (!au)
		return; /* stopped */
	if (from == EG_ROLE_MAIN) {
		if (m->type == EG_MA_LEASE || m->type == EG_MA_PHASE)
			on_lease(au, m->body);
		else if (m->type == EG_MA_POLICY)
			on_policy(au, m);
		else if (m->type == EG_MA_STATS)
			on_stats(au, m);
		else if (m->type == EG_MA_END)
			on_end(au, m);
	} else if (from == EG_ROLE_DNS) {
		if (m->type == EG_DA_DENIAL)
			on_denial(au, m);
		else if (m->type == EG_DA_NAME)
			on_name(au, m->body);
	} else if (from == EG_ROLE_API && m->type == EG_PA_OPEN) {
		on_open(au, m);
	} else if (from == EG_ROLE_API && m->type == EG_PA_LEASE) {
		on_which(au, m);
	}
}

static void on_fd(struct eg_role_ctx *ctx, enum eg_fd_kind kind, uint32_t index,
		  int *fd)
{
	struct au *au = ctx->priv;
	struct au_source *s;

	if (!au)
		return;
	if (kind == EG_FD_HOST_LOG)
		index = EG_GATEWAYS_MAX;
	else if ((kind != EG_FD_NFLOG && kind != EG_FD_PACKET) ||
		 index >= au->conf->gateways || index >= EG_GATEWAYS_MAX)
		return;
	s = &au->source[index];
	if (kind == EG_FD_PACKET) {
		source_close_packet(s);
		s->packet_fd = eg_steal_fd(fd);
		au_packet_init(&s->packet, s->packet_fd, au->conf->snaplen,
			       au_sink_frame, s);
	} else {
		source_close_log(s);
		s->log_fd = eg_steal_fd(fd);
		au_nflog_init(&s->nflog, s->log_fd, au_sink_packet, s);
	}
	source_arm(s);
}

static void on_peer(struct eg_role_ctx *ctx, enum eg_role peer)
{
	struct au *au = ctx->priv;

	if (peer == EG_ROLE_MAIN && !au->reading) {
		au->last_lease_ns = eg_boot_ns();
		eg_timer_set(au->read_timer, QUIET_TICK_US);
	}
}

static int make_timers(struct au *au)
{
	struct eg_loop *loop = au->ctx->loop;

	au->read_timer = eg_timer_new(loop, on_read_timer, au);
	au->flush_timer = eg_timer_new(loop, on_flush, au);
	au->request_timer = eg_timer_new(loop, on_request, au);
	au->seal_timer = eg_timer_new(loop, on_seal, au);
	au->find_timer = eg_timer_new(loop, on_find, au);
	if (!au->read_timer || !au->flush_timer || !au->request_timer ||
	    !au->seal_timer || !au->find_timer)
		return -ENOMEM;
	eg_timer_set(au->read_timer, QUIET_TICK_US);
	return 0;
}

static int make_tables(struct au *au, struct eg_err *err)
{
	for (uint32_t i = 0; i <= EG_GATEWAYS_MAX; i++)
		au->source[i] = (struct au_source){
			.au = au,
			.gateway = i == EG_GATEWAYS_MAX ? UINT32_MAX : i,
			.log_fd = -1,
			.packet_fd = -1,
		};
	au->jobs_tail = &au->jobs;
	au->request_cap = au->conf->slots * AU_GENERATIONS + REQUESTS_SPARE;
	au->request = calloc(au->request_cap, sizeof(*au->request));
	if (!au->request || au_leases_init(&au->leases, au->conf->slots) ||
	    make_timers(au))
		return eg_err_set(err, -ENOMEM, "no memory for %u slots",
				  au->conf->slots);
	return 0;
}

static void free_all(struct au *au)
{
	struct au_job *j;

	for (unsigned int i = 0; i <= EG_GATEWAYS_MAX; i++) {
		if (!au->source[i].au)
			continue;
		source_close_log(&au->source[i]);
		source_close_packet(&au->source[i]);
	}
	au_texts_done(&au->texts);
	au_files_free(au->files); /* closes the logs the leases own */
	while ((j = au->jobs)) {
		au->jobs = j->next;
		au_seal_free(j->seal);
		free(j);
	}
	au_leases_done(&au->leases);
	eg_timer_free(au->read_timer);
	eg_timer_free(au->flush_timer);
	eg_timer_free(au->request_timer);
	eg_timer_free(au->seal_timer);
	eg_timer_free(au->find_timer);
	while (au->searches)
		if (au->search[--au->searches].begun)
			au_find_end(&au->search[au->searches].find);
	free(au->request);
	free(au);
}

int au_start_at(struct eg_role_ctx *ctx, int dirfd, struct eg_err *err)
{
	struct au *au = calloc(1, sizeof(*au));
	struct eg_err chain_err = {0};
	struct au_state *st;
	int r;

	if (!au)
		return eg_err_set(err, -ENOMEM, "no memory");
	au->ctx = ctx;
	au->conf = ctx->conf;
	au->started_ns = eg_boot_ns();
	r = make_tables(au, err);
	if (!r)
		r = au_files_new(&au->files, au->conf, dirfd, err);
	if (r) {
		free_all(au);
		return r;
	}
	ctx->priv = au;
	if (au_chain_load(au->files, &au->chain, &chain_err)) {
		au->chain_bad = true;
		eg_error("nothing can be sealed: %s", chain_err.text);
	}
	st = au_files_state(au->files);
	r = au_files_ready(au->files);
	if (r)
		au_trouble(au, r); /* a full disk may have room later */
	else if (st->skipped_to > st->skipped_from)
		eg_warning("the host went down: host-wide record numbers %llu to %llu are left out",
			   (unsigned long long)st->skipped_from,
			   (unsigned long long)st->skipped_to - 1);
	return 0;
}

static int start(struct eg_role_ctx *ctx, struct eg_err *err)
{
	EG_CLEANUP_FD int fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r;

	if (fd < 0)
		return eg_err_sys(err, -errno, "the audit directory");
	r = au_start_at(ctx, fd, err);
	if (!r)
		(void)eg_steal_fd(&fd);
	return r;
}

void au_done(struct eg_role_ctx *ctx)
{
	struct au *au = ctx->priv;
	uint8_t manifest[EG_DIGEST];

	if (!au)
		return;
	/* What cannot be attributed yet stays with the kernel for the next. */
	for (uint32_t g = 0; au->reading && g <= EG_GATEWAYS_MAX; g++)
		drain(au, &au->source[g]);
	for (uint32_t i = 0; i < au->requests; i++)
		request_run(
			au,
			&au->request[(au->request_head + i) % au->request_cap]);
	au->requests = 0;
	while (au->jobs) {
		int r = job_step(au, au->jobs, manifest, SIZE_MAX);

		job_done(au, au->jobs, r, manifest);
	}
	free_all(au);
	ctx->priv = NULL;
}

const struct eg_role_ops au_role_ops = {
	.role = EG_ROLE_AUDIT,
	.start = start,
	.on_fd = on_fd,
	.on_peer = on_peer,
	.on_msg = on_msg,
	.stop = au_done,
};
