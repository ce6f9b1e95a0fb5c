// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: finding leases: what a live one is described as, and an ended
 * one's id in a chain of several pieces.
 */
#include "audit/find.h"
#include "netpool/base/stamp.h"
#include "netpool/base/util.h"
#include "tests/lib/au_world.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define LINES 20000 /* some 4 MB: several pieces */

struct world {
	struct eg_conf *conf;
	char path[64];
	struct au_files *files;
};

static void line(FILE *f, unsigned int n, const char *id)
{
	uint8_t uid[EG_UID] = {1};
	char text[EG_UUID_TEXT];

	uid[12] = (uint8_t)(n >> 24);
	uid[13] = (uint8_t)(n >> 16);
	uid[14] = (uint8_t)(n >> 8);
	uid[15] = (uint8_t)n;
	/* of many lengths, so that pieces begin anywhere in a line */
	fprintf(f, "{\"v\":1,\"kind\":\"seal\",\"n\":%u,\"uid\":\"%s\",\"lease\":\"%s\",\"dir\":\"%.*s\"}\n",
		n, eg_uuid_format(uid, text), id, (int)(n % 97),
		"2026-11-30/0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789");
}

static int setup(void **state)
{
	struct world *w = calloc(1, sizeof(*w));
	char path[96], id[32];
	FILE *f;
	int fd = au_world_dir(w->path);

	w->conf = au_world_conf();
	snprintf(path, sizeof(path), "%s/" AU_CHAIN_FILE, w->path);
	f = fopen(path, "we");
	assert_non_null(f);
	for (unsigned int n = 1; n <= LINES; n++) {
		snprintf(id, sizeof(id), "run-%u", n % 15000);
		line(f, n, id);
	}
	fprintf(f, "{\"v\":1,\"uid\":\"00000000-0000-7000-8000-000000000000\",\"lease\":\"cut\",");
	fclose(f);
	assert_int_equal(au_files_new(&w->files, w->conf, fd, NULL), 0);
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	au_files_free(w->files);
	au_world_rmdir(w->path);
	free(w->conf);
	free(w);
	return 0;
}

/* The line an id was last found in; negative: errno. */
static long find(struct world *w, const char *id, unsigned int *steps)
{
	uint8_t uid[EG_UID];
	struct au_find s;
	int r = au_find_begin(&s, w->files, id);

	*steps = 0;
	if (r)
		return r;
	do {
		r = au_find_step(&s, uid);
		++*steps;
	} while (r > 0);
	au_find_end(&s);
	return r ? r : (long)(uid[13] << 16 | uid[14] << 8 | uid[15]);
}

static void the_last_of_an_id(void **state)
{
	struct world *w = *state;
	unsigned int steps;
	char id[32];

	for (unsigned int n = 0; n < 15000; n += 499) {
		snprintf(id, sizeof(id), "run-%u", n);
		assert_int_equal(find(w, id, &steps),
				 n + 15000 <= LINES ? n + 15000 : n);
	}
	assert_int_equal(find(w, "run-5000", &steps), 20000);
	assert_int_equal(steps, 1); /* recent ones are found at once */
	assert_int_equal(find(w, "run-0", &steps), 15000);
	assert_int_equal(find(w, "run", &steps), -ENOENT);
	assert_true(steps > 2);
	assert_int_equal(find(w, "nobody", &steps), -ENOENT);
	assert_int_equal(find(w, "cut", &steps), -ENOENT);
}

static void no_chain(void **state)
{
	struct world *w = *state;
	unsigned int steps;
	char path[96];

	snprintf(path, sizeof(path), "%s/" AU_CHAIN_FILE, w->path);
	assert_int_equal(truncate(path, 0), 0);
	assert_int_equal(find(w, "run-1", &steps), -ENOENT);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(find(w, "run-1", &steps), -ENOENT);
}

/* ---- a live one ------------------------------------------------------------- */

static struct eg_ma_lease *message(void)
{
	struct eg_ma_lease *m = calloc(1, sizeof(*m));
	struct eg_lease_req *q = &m->lease.req;

	m->lease.slot = 3;
	m->lease.generation = 7;
	snprintf(q->id, EG_ID, "child");
	snprintf(q->policy_name, EG_POLICY_NAME, "demo");
	snprintf(q->phase, sizeof(q->phase), "init,plan");
	snprintf(q->parent_id, EG_ID, "mother");
	memset(q->parent_uid, 0x22, EG_UID);
	q->ttl_s = 600;
	q->on_expiry = EG_EXPIRY_HOLD;
	q->deny = EG_DENY_DROP;
	q->log_s = 5;
	q->guest = (struct eg_guest){.mode = EG_GUEST_TAP,
				     .addr_len = 30,
				     .address = 0xac100002,
				     .gateway = 0xac100001,
				     .owner_uid = 1001,
				     .owner_gid = UINT32_MAX,
				     .tap = "tap0"};
	return m;
}

static json_t *doc(const struct au_lease *l)
{
	int fd = au_doc_open(l);
	json_t *j;

	assert_true(fd >= 0);
	j = json_loadfd(fd, 0, NULL);
	close(fd);
	assert_non_null(j);
	return j;
}

static void learn(struct au_leases *t, struct au_lease *l, const char *name,
		  uint32_t addr)
{
	struct eg_da_name n = {.naddrs = 1, .addr = {addr}, .lifetime_s = 60};

	assert_int_equal(eg_name_parse(name, &n.name, NULL), 0);
	au_lease_name(t, l, &n, 1);
}

static void a_live_one(void **state)
{
	static const char want[] =
		"{\"policy\":\"demo@sha256:0000000000000000000000000000000000000000000000000000000000000000\","
		"\"phase\":\"init,plan\",\"ttl_s\":600,\"on_expiry\":\"hold\",\"enforce\":\"enforce\",\"deny\":\"drop\","
		"\"limits\":{\"log_s\":5},"
		"\"guest\":{\"mode\":\"tap\",\"tap\":\"tap0\",\"owner_uid\":1001,\"mac\":\"00:00:00:00:00:00\","
		"\"address\":\"172.16.0.2/30\",\"gateway\":\"172.16.0.1\"}}";
	struct world *w = *state;
	struct eg_ma_lease *m = message();
	struct au_leases t;
	struct au_lease *l;
	bool is_new;
	json_t *j, *names;
	char *text;

	assert_int_equal(au_leases_init(&t, w->conf->slots), 0);
	l = au_lease_add(&t, w->conf, m, 1, &is_new, NULL);
	assert_non_null(l);
	assert_ptr_equal(au_lease_id(&t, "child"), l);
	assert_null(au_lease_id(&t, "mother"));
	assert_ptr_equal(au_lease_uid(&t, m->lease.uid), l);
	learn(&t, l, "b.example", 2);
	learn(&t, l, "a.example", 1);
	learn(&t, l, "b.example", 3);
	j = doc(l);
	text = json_dumps(json_object_get(j, "request"), JSON_COMPACT);
	assert_string_equal(text, want);
	free(text);
	assert_string_equal(json_string_value(json_object_get(
				    json_object_get(j, "parent"), "id")),
			    "mother");
	names = json_object_get(j, "names");
	text = json_dumps(names, JSON_COMPACT);
	assert_string_equal(
		text,
		"[{\"name\":\"b.example\",\"addresses\":[\"0.0.0.2\",\"0.0.0.3\"]},"
		"{\"name\":\"a.example\",\"addresses\":[\"0.0.0.1\"]}]");
	free(text);
	json_decref(j);
	/* announced again with other labels: they hold at once */
	m->lease.req.nlabels = 1;
	snprintf(m->lease.req.label[0].key, EG_LABEL_KEY, "k");
	snprintf(m->lease.req.label[0].value, EG_LABEL_VALUE, "v");
	assert_ptr_equal(au_lease_add(&t, w->conf, m, 2, &is_new, NULL), l);
	assert_false(is_new);
	j = doc(l);
	assert_int_equal(json_object_size(json_object_get(j, "labels")), 1);
	json_decref(j);
	au_leases_done(&t);
	free(m);
}

/* More names than a manifest has room for are counted. */
static void many_names(void **state)
{
	struct world *w = *state;
	struct eg_ma_lease *m = message();
	struct au_leases t;
	struct au_lease *l;
	char name[200];
	bool is_new;
	json_t *j;
	size_t n;

	assert_int_equal(au_leases_init(&t, w->conf->slots), 0);
	l = au_lease_add(&t, w->conf, m, 1, &is_new, NULL);
	for (uint32_t i = 0; i < AU_NAMES; i++) {
		snprintf(name, sizeof(name),
			 "n%u.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb.example",
			 i);
		learn(&t, l, name, i + 1);
	}
	j = doc(l);
	n = json_array_size(json_object_get(j, "names"));
	assert_true(n > 50 && n < AU_NAMES);
	assert_int_equal(json_integer_value(json_object_get(j, "names_more")),
			 AU_NAMES - n);
	json_decref(j);
	au_leases_done(&t);
	free(m);
}

#define T(x) cmocka_unit_test_setup_teardown(x, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(the_last_of_an_id),
		T(no_chain),
		T(a_live_one),
		T(many_names),
	};

	return cmocka_run_group_tests_name("audit/find", tests, NULL, NULL);
}
