// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressctl: denials: what a lease was refused, as a table, lines or capture.
 */
#include "netpool/base/reason.h"
#include "netpool/base/util.h"
#include "netpool/ctl/ct.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>

static const struct ct_option options[] = {
	{ "--format", "F", "table, jsonl or pcap" },
	{ "-o", "FILE", "write there" },
	{ "--reason", "X", "only this reason" },
	{ "--group", "BY", "counts by name, dst or reason" },
};

static int denials_run(const struct ct_args *a);

const struct ct_command ct_denials = {
	.name = "denials",
	.usage = "ID [--format table|jsonl|pcap] [-o FILE] [--reason X] [--group name|dst|reason]",
	.help = "what a lease was refused, and why",
	.options = options, .noptions = EG_ARRAY_SIZE(options),
	.min = 1, .max = 1, .run = denials_run,
};

static const char *name_of(json_t *r)
{
	const char *name = ct_str(r, "qname");

	return *name ? name : ct_str(r, "name");
}

/* "tcp 203.0.113.66:443", "A collector.example" */
static void what(json_t *r, char *buf, size_t cap)
{
	if (!strcmp(ct_str(r, "layer"), "dns"))
		(void)snprintf(buf, cap, "%s %s", ct_str(r, "qtype"),
			       ct_str(r, "qname"));
	else if (json_object_get(r, "dport"))
		(void)snprintf(buf, cap, "%s %s:%lld", ct_str(r, "proto"),
			       ct_str(r, "dst"), ct_int(r, "dport"));
	else
		(void)snprintf(buf, cap, "%s %s", ct_str(r, "proto"),
			       ct_str(r, "dst"));
}

static void row(FILE *f, json_t *r)
{
	char text[400], time[16];

	(void)snprintf(time, sizeof(time), "%.12s", strlen(ct_str(r, "time")) > 11 ?
		       ct_str(r, "time") + 11 : "");
	what(r, text, sizeof(text));
	(void)fprintf(f, "%s %-6s %-13s ", time, ct_str(r, "layer"),
		      ct_str(r, "reason"));
	ct_put(f, text, 38);
	(void)fputc(' ', f);
	ct_put(f, strcmp(ct_str(r, "layer"), "dns") ? ct_str(r, "name") : "",
	       24);
	if (*ct_str(r, "hint")) {
		(void)fputs(" hint: ", f);
		ct_put(f, ct_str(r, "hint"), 0);
	}
	(void)fputc('\n', f);
}

static int page(const char *id, const char *reason, long long after,
		json_t **ret)
{
	EG_CLEANUP_FREE char *base = ct_path("/v1/leases/%s/denials", id);
	EG_CLEANUP_FREE char *why = reason ? ct_path("&reason=%s", reason) :
					     NULL;
	char path[1200];

	(void)snprintf(path, sizeof(path), "%s?after=%lld%s", base ? base : "",
		       after, why ? why : "");
	return ct_ask("GET", path, NULL, ret);
}

static int lines(const struct ct_args *a, FILE *f, bool json)
{
	long long after = 0;
	bool head = false;

	do {
		json_t *j = NULL, *r;
		size_t i;
		int e = page(a->pos[0], a->opt[2], after, &j);

		if (e)
			return e;
		json_array_foreach(json_object_get(j, "denials"), i, r) {
			if (json) {
				(void)json_dumpf(r, f, JSON_COMPACT |
						 JSON_ENSURE_ASCII);
				(void)fputc('\n', f);
				continue;
			}
			if (!head)
				(void)fprintf(f, "%-12s %-6s %-13s %-38s %s\n",
					      "TIME", "LAYER", "REASON",
					      "WHAT", "LAST NAME");
			head = true;
			row(f, r);
		}
		after = ct_int(j, "next");
		json_decref(j);
	} while (after);
	return CT_OK;
}

static int grouped(const struct ct_args *a, FILE *f, const char *by)
{
	json_t *counts = json_object(), *v;
	long long after = 0;
	const char *key;

	if (strcmp(by, "name") != 0 && strcmp(by, "dst") != 0 &&
	    strcmp(by, "reason") != 0) {
		json_decref(counts);
		return ct_usage(&ct_denials,
				"--group '%s': name, dst or reason is accepted",
				by);
	}
	do {
		json_t *j = NULL, *r;
		size_t i;
		int e = page(a->pos[0], a->opt[2], after, &j);

		if (e) {
			json_decref(counts);
			return e;
		}
		json_array_foreach(json_object_get(j, "denials"), i, r) {
			key = !strcmp(by, "name") ? name_of(r) : ct_str(r, by);
			(void)json_object_set_new(counts, *key ? key : "-",
				json_integer(ct_int(counts, *key ? key : "-") +
					     1));
		}
		after = ct_int(j, "next");
		json_decref(j);
	} while (after);
	if (ct_json)
		ct_print_json(counts);
	else
		json_object_foreach(counts, key, v) {
			(void)fprintf(f, "%8lld ",
				      (long long)json_integer_value(v));
			ct_put(f, key, 0);
			(void)fputc('\n', f);
		}
	json_decref(counts);
	return CT_OK;
}

static int capture(const struct ct_args *a, FILE *f)
{
	EG_CLEANUP_FREE char *path = ct_path("/v1/leases/%s/denials.pcap",
					     a->pos[0]);
	struct ct_reply r;
	int e = path ? ct_call("GET", path, NULL, &r) : CT_FAILED;

	if (e)
		return e;
	if (r.status != 200) {
		(void)fprintf(stderr, "egressctl: %s", r.text ? r.text : "\n");
		e = CT_FAILED;
	} else if (fwrite(r.text ? r.text : "", 1, r.len, f) != r.len) {
		(void)fprintf(stderr, "egressctl: write: %s\n",
			      strerror(errno));
		e = CT_FAILED;
	}
	ct_reply_free(&r);
	return e;
}

static int denials_run(const struct ct_args *a)
{
	const char *format = a->opt[0] ? a->opt[0] : ct_json ? "jsonl" : "table";
	FILE *f = stdout;
	int r;

	if (a->opt[2] && eg_reason_by_name(a->opt[2]) == EG_REASON_COUNT)
		return ct_usage(&ct_denials,
				"--reason '%s': there is no such reason; metadata, private, not-allowed, dns-denied ... are",
				a->opt[2]);
	if (a->opt[1] && !(f = fopen(a->opt[1], "we"))) {
		(void)fprintf(stderr, "egressctl: %s: %s\n", a->opt[1],
			      strerror(errno));
		return CT_FAILED;
	}
	if (a->opt[3])
		r = grouped(a, f, a->opt[3]);
	else if (!strcmp(format, "table") || !strcmp(format, "jsonl"))
		r = lines(a, f, !strcmp(format, "jsonl"));
	else if (!strcmp(format, "pcap"))
		r = capture(a, f);
	else
		r = ct_usage(&ct_denials,
			     "--format '%s': table, jsonl or pcap is accepted",
			     format);
	if (f != stdout && fclose(f) && !r) {
		(void)fprintf(stderr, "egressctl: %s: %s\n", a->opt[1],
			      strerror(errno));
		r = CT_FAILED;
	}
	return r;
}
