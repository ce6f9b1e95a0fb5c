// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: evidence of one lease: audit passes a descriptor, we read it.
 *
 * The records are our own lines of JSON; they are filtered and paged here and
 * never changed. A capture or a manifest goes out as it is on disk.
 */
#include "netpool/api_http.h"
#include "netpool/base/util.h"

#include <errno.h>
#include <jansson.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_MAX_OCTETS 8192 /* a record is at most 4 KiB */

static bool record_wanted(struct call *c, const json_t *r, uint64_t after)
{
	static const char *const keys[] = { "reason", "layer", "phase", "name" };
	json_int_t seq = json_integer_value(json_object_get(r, "seq"));

	if (after && seq <= (json_int_t)after)
		return false;
	for (size_t i = 0; i < EG_ARRAY_SIZE(keys); i++) {
		const char *want = api_arg(c, keys[i]);
		const char *have = json_string_value(json_object_get(r,
								     keys[i]));

		if (!strcmp(keys[i], "name") && !have)
			have = json_string_value(json_object_get(r, "qname"));
		if (want && (!have || strcmp(want, have) != 0))
			return false;
	}
	return true;
}

static void denials_read(struct call *c, FILE *f, uint64_t after)
{
	char line[LINE_MAX_OCTETS];
	json_t *list = json_array(), *next = json_null();

	while (fgets(line, sizeof(line), f)) {
		json_t *r = json_loads(line, 0, NULL);

		if (r && record_wanted(c, r, after)) {
			if (json_array_size(list) >= c->limit) {
				json_t *last = json_array_get(
					list, json_array_size(list) - 1);

				json_decref(next);
				next = json_incref(json_object_get(last,
								   "seq"));
				json_decref(r);
				break;
			}
			(void)json_array_append(list, r);
		}
		json_decref(r);
	}
	if (!c->ndjson) {
		api_json(c, 200,
			 json_pack("{s:o, s:o}", "denials", list, "next",
				   next));
		return;
	}
	{
		char *out = NULL;
		size_t len = 0, i;
		json_t *v;
		FILE *m = open_memstream(&out, &len);

		json_array_foreach(list, i, v) {
			if (!m)
				break;
			(void)json_dumpf(v, m, JSON_COMPACT);
			(void)fputc('\n', m);
		}
		if (m)
			(void)fclose(m);
		json_decref(list);
		json_decref(next);
		api_text(c, 200, "application/x-ndjson", out, len);
	}
}

static bool nothing_yet(struct call *c)
{
	if (c->evidence == EG_FILE_DENIALS) {
		if (c->ndjson)
			api_text(c, 200, "application/x-ndjson", NULL, 0);
		else
			api_json(c, 200, json_pack("{s:[], s:n}", "denials",
						   "next"));
		return true;
	}
	api_error(c, EG_E_NOT_FOUND, NULL,
		  c->evidence == EG_FILE_PCAP ?
			  "nothing was denied, so there is no capture" :
			  "there is no manifest: the lease has not ended, or is unknown");
	return true;
}

static bool evidence_opened(struct api *a, struct call *c, struct eg_msg *m)
{
	const struct eg_ap_open *o = m->body;
	uint64_t after = c->next_slot;
	FILE *f;

	(void)a;
	if (m->type != EG_AP_OPEN)
		return false;
	if (o->error == -ENOENT || (!o->error && m->fd < 0))
		return nothing_yet(c);
	if (o->error) {
		api_error(c, EG_E_INTERNAL, NULL, "evidence: %s",
			  strerror(-o->error));
		return true;
	}
	if (c->evidence != EG_FILE_DENIALS) {
		c->file = eg_steal_fd(&m->fd);
		c->file_size = o->size;
		c->status = 200;
		c->type = c->evidence == EG_FILE_PCAP ?
				  "application/vnd.tcpdump.pcap" :
				  "application/json";
		c->done = true;
		return true;
	}
	f = fdopen(m->fd, "r");
	if (!f) {
		api_error(c, EG_E_INTERNAL, NULL, "out of memory");
		return true;
	}
	m->fd = -1;
	denials_read(c, f, after);
	(void)fclose(f);
	return true;
}

/* Milliseconds since 1970 are the first six octets (RFC 9562). */
static int64_t uid_created_ns(const uint8_t uid[EG_UID])
{
	int64_t ms = 0;

	for (int i = 0; i < 6; i++)
		ms = ms << 8 | uid[i];
	return ms * 1000000;
}

bool api_evidence_open(struct api *a, struct call *c, const struct eg_lease *l)
{
	struct eg_pa_open q = { .file = c->evidence, .flush = 1 };
	uint64_t after;
	const char *reason = api_arg(c, "reason");

	(void)a;
	if (reason && eg_reason_by_name(reason) == EG_REASON_COUNT) {
		api_error(c, EG_E_BAD_REQUEST, NULL,
			  "there is no reason '%.40s'", reason);
		return true;
	}
	if (!api_page_args(c, &after))
		return true;
	c->next_slot = after > UINT32_MAX ? UINT32_MAX : (uint32_t)after;
	memcpy(q.uid, l->uid, EG_UID);
	q.created_ns = uid_created_ns(l->uid);
	api_ask(c, EG_ROLE_AUDIT, EG_PA_OPEN, &q, sizeof(q), -1, API_WAIT_NS,
		evidence_opened);
	return c->done;
}
