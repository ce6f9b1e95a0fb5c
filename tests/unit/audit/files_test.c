// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: tests of evidence files: offsets, restarts, crashes at every
 * octet, the host-wide sequence, many logs, full and read-only disks.
 */
#include "audit/files.h"
#include "tests/lib/au_world.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define DIR1 "2026-11-30/0192f1c4-0000-7000-8000-000000000001"
#define DIR2 "2026-11-30/0192f1c4-0000-7000-8000-000000000002"

struct world {
	struct eg_conf *conf;
	char path[64];
	struct au_files *f;
};

static struct au_files *open_files(struct world *w)
{
	struct au_files *f;
	int fd = open(w->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(au_files_new(&f, w->conf, fd, NULL), 0);
	return f;
}

static int setup(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	w->conf = au_world_conf();
	close(au_world_dir(w->path));
	w->f = open_files(w);
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	au_files_free(w->f);
	au_world_rmdir(w->path);
	free(w->conf);
	free(w);
	return 0;
}

/* A record with a packet of @caplen octets (0: none). */
static int put(struct au_files *f, struct au_log *log, uint32_t caplen)
{
	static uint8_t data[AU_PACKET_MAX];
	struct au_cap cap = {.wall_ns = 1796072645123456789LL,
			     .data = data,
			     .caplen = caplen,
			     .len = caplen + 1000};
	char line[512], name[AU_PCAP_NAME], pcap[128] = "";
	uint64_t at;
	int r = au_log_room(f, log, caplen, &at);

	if (r)
		return r;
	if (caplen)
		snprintf(pcap, sizeof(pcap),
			 "\"pcap\":{\"file\":\"%s\",\"offset\":%llu,\"caplen\":%u},",
			 au_pcap_name(log->pcap_no, name),
			 (unsigned long long)at, caplen);
	snprintf(line, sizeof(line),
		 "{\"seq\":%llu,\"time\":\"2026-11-30T21:04:05.000000000Z\","
		 "\"labels\":{\"x\":\"y\",\"layer\":\"dns\",\"reason\":\"rate\"},"
		 "\"layer\":\"packet\",\"reason\":\"not-allowed\",%s"
		 "\"suppressed\":2}",
		 (unsigned long long)log->seq + 1, pcap);
	au_log_put(f, log, AU_PACKET, EG_REASON_NOT_ALLOWED, line, strlen(line),
		   caplen ? &cap : NULL);
	return 0;
}

static void dir_of(const struct world *w, const char *dir, char *buf)
{
	snprintf(buf, 256, "%s/%s", w->path, dir);
}

/*
 * Every line's packet is where it says, numbers are dense, and both files
 * are whole. Returns the number of lines.
 */
static size_t check(const struct world *w, const char *dir)
{
	uint64_t offset[2048];
	uint32_t caplen[2048];
	char path[256];
	json_t *lines, *l;
	size_t i;

	dir_of(w, dir, path);
	lines = au_world_lines(path, AU_JSONL);
	json_array_foreach(lines, i, l)
	{
		json_t *p = json_object_get(l, "pcap");
		const char *file = json_string_value(json_object_get(p, "file"));
		json_int_t at = json_integer_value(json_object_get(p, "offset"));
		bool found = false;
		size_t n;

		assert_int_equal(json_integer_value(json_object_get(l, "seq")),
				 i + 1);
		if (!p)
			continue;
		n = au_world_pcap(path, file, offset, caplen, 2048);
		for (size_t k = 0; k < n && k < 2048; k++)
			if (offset[k] == (uint64_t)at) {
				found = true;
				assert_int_equal(
					caplen[k],
					json_integer_value(
						json_object_get(p, "caplen")));
			}
		assert_true(found);
	}
	i = json_array_size(lines);
	json_decref(lines);
	return i;
}

static void test_offsets(void **state)
{
	struct world *w = *state;
	static struct au_log a; /* outlives the test: closed in teardown */

	assert_int_equal(au_log_init(w->f, &a, DIR1, NULL), 0);
	for (uint32_t i = 0; i < 200; i++)
		assert_int_equal(put(w->f, &a, i % 7 ? 60 + i : 0), 0);
	assert_int_equal(au_files_flush(w->f), 0);
	assert_false(au_files_dirty(w->f));
	assert_int_equal(check(w, DIR1), 200);
	assert_int_equal(a.logged[AU_PACKET][EG_REASON_NOT_ALLOWED], 200);
	assert_int_equal(a.hseq_last - a.hseq_first, 199);
}

static void test_modes(void **state)
{
	struct world *w = *state;
	static struct au_log a; /* outlives the test: closed in teardown */
	char path[256], file[300];
	struct stat st;

	if (geteuid())
		skip(); /* needs root */
	w->conf->read_gid = 4242;
	umask(0);
	assert_int_equal(au_log_init(w->f, &a, DIR1, NULL), 0);
	assert_int_equal(put(w->f, &a, 60), 0);
	dir_of(w, DIR1, path);
	snprintf(file, sizeof(file), "%s/denials.jsonl", path);
	assert_int_equal(stat(file, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0640);
	assert_int_equal(st.st_gid, 4242);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0750);
	umask(022);
}

/* No link is followed, whoever put it there. */
static void test_symlink(void **state)
{
	struct world *w = *state;
	char path[256], file[300], target[300];
	static struct au_log a; /* outlives the test: closed in teardown */
	struct stat st;

	dir_of(w, "2026-11-30", path);
	assert_int_equal(mkdir(path, 0755), 0);
	dir_of(w, DIR1, path);
	assert_int_equal(mkdir(path, 0755), 0);
	snprintf(file, sizeof(file), "%s/denials.jsonl", path);
	snprintf(target, sizeof(target), "%s/target", w->path);
	assert_int_equal(symlink(target, file), 0);
	assert_int_not_equal(au_log_init(w->f, &a, DIR1, NULL), 0);
	assert_int_not_equal(put(w->f, &a, 60), 0);
	assert_int_equal(a.disk_lost, 1);
	assert_int_equal(stat(target, &st), -1);
}

static void test_restart(void **state)
{
	struct world *w = *state;
	static struct au_log a, b; /* outlives the test: closed in teardown */

	for (int round = 0; round < 5; round++) {
		assert_int_equal(au_log_init(w->f, &a, DIR1, NULL), 0);
		assert_int_equal(au_log_init(w->f, &b, DIR2, NULL), 0);
		assert_int_equal(a.seq, round * 10);
		assert_int_equal(a.logged[AU_PACKET][EG_REASON_NOT_ALLOWED],
				 round * 10);
		assert_int_equal(a.suppressed[AU_PACKET][EG_REASON_NOT_ALLOWED],
				 round * 20);
		for (int i = 0; i < 10; i++) {
			assert_int_equal(put(w->f, &a, 90), 0);
			assert_int_equal(put(w->f, &b, 70), 0);
		}
		assert_int_equal(au_files_flush(w->f), 0);
		au_files_free(w->f);
		w->f = open_files(w);
		assert_int_equal(au_files_state(w->f)->next,
				 (round + 1) * 20 + 1);
	}
	assert_int_equal(check(w, DIR1), 50);
	assert_int_equal(check(w, DIR2), 50);
}

static void copy_dir(const char *from, const char *to)
{
	char cmd[1024];

	snprintf(cmd, sizeof(cmd), "rm -rf %s && cp -a %s %s", to, from, to);
	assert_int_equal(au_world_run(cmd), 0);
}

/*
 * A crash leaves any prefix of what was being written: cut the last record's
 * line (packets were first, so they are whole), or the last packet and no
 * line, at every octet. All complete records stay, new ones go on.
 */
static void cut_at_every_octet(struct world *w, const char *file,
			       size_t lines_whole, bool line_there)
{
	char path[256], keep[280], name[320];
	struct stat st;
	off_t from;

	dir_of(w, DIR1, path);
	snprintf(keep, sizeof(keep), "%s.keep", path);
	copy_dir(path, keep);
	snprintf(name, sizeof(name), "%s/%s", path, file);
	assert_int_equal(stat(name, &st), 0);
	from = st.st_size - (line_there ? 260 : 76);
	for (off_t at = from; at < st.st_size; at++) {
		struct au_log log;

		copy_dir(keep, path);
		assert_int_equal(truncate(name, at), 0);
		assert_int_equal(au_log_init(w->f, &log, DIR1, NULL), 0);
		assert_true(log.seq >= lines_whole - 1);
		assert_int_equal(log.seq, check(w, DIR1));
		assert_int_equal(put(w->f, &log, 60), 0);
		assert_int_equal(put(w->f, &log, 61), 0);
		au_log_close(w->f, &log);
		assert_int_equal(check(w, DIR1), log.seq);
		assert_true(log.seq >= lines_whole + 1);
	}
	copy_dir(keep, path);
}

static void test_crash_json(void **state)
{
	struct world *w = *state;
	static struct au_log a; /* outlives the test: closed in teardown */

	assert_int_equal(au_log_init(w->f, &a, DIR1, NULL), 0);
	for (int i = 0; i < 5; i++)
		assert_int_equal(put(w->f, &a, 60), 0);
	au_log_close(w->f, &a);
	cut_at_every_octet(w, AU_JSONL, 5, true);
}

/* The last packet has no line yet: a line is removed by hand. */
static void test_crash_pcap(void **state)
{
	struct world *w = *state;
	static struct au_log a; /* outlives the test: closed in teardown */
	char cmd[400], path[256];

	assert_int_equal(au_log_init(w->f, &a, DIR1, NULL), 0);
	for (int i = 0; i < 5; i++)
		assert_int_equal(put(w->f, &a, 60), 0);
	au_log_close(w->f, &a);
	dir_of(w, DIR1, path);
	snprintf(cmd, sizeof(cmd), "sed -i '$d' %s/denials.jsonl", path);
	assert_int_equal(au_world_run(cmd), 0);
	cut_at_every_octet(w, "denials.pcap", 4, false);
}

/* Power loss: lines without their packets. An offset is never used twice. */
static void test_packets_gone(void **state)
{
	struct world *w = *state;
	char path[256], file[300];
	static struct au_log a; /* outlives the test: closed in teardown */
	uint64_t offset[16];
	uint32_t caplen[16];

	assert_int_equal(au_log_init(w->f, &a, DIR1, NULL), 0);
	for (int i = 0; i < 5; i++)
		assert_int_equal(put(w->f, &a, 60), 0);
	au_log_close(w->f, &a);
	dir_of(w, DIR1, path);
	snprintf(file, sizeof(file), "%s/denials.pcap", path);
	assert_int_equal(truncate(file, 24 + 76 * 3 + 20), 0);
	assert_int_equal(au_log_init(w->f, &a, DIR1, NULL), 0);
	assert_int_equal(a.seq, 5);
	assert_int_equal(a.pcap_no, 2);
	assert_int_equal(put(w->f, &a, 60), 0);
	au_log_close(w->f, &a);
	assert_int_equal(au_world_pcap(path, "denials.pcap", offset, caplen, 16),
			 3);
	assert_int_equal(
		au_world_pcap(path, "denials-2.pcap", offset, caplen, 16), 1);
	assert_int_equal(offset[0], 24);
	/* and the restart after that goes on in the second */
	assert_int_equal(au_log_init(w->f, &a, DIR1, NULL), 0);
	assert_int_equal(a.seq, 6);
	assert_int_equal(put(w->f, &a, 60), 0);
	au_log_close(w->f, &a);
	assert_int_equal(
		au_world_pcap(path, "denials-2.pcap", offset, caplen, 16), 2);
}

static void test_foreign_pcap(void **state)
{
	struct world *w = *state;
	char path[256], cmd[400];
	static struct au_log a; /* outlives the test: closed in teardown */

	assert_int_equal(au_files_mkdir(w->f, DIR1), 0);
	dir_of(w, DIR1, path);
	snprintf(cmd, sizeof(cmd),
		 "printf 'somebody else was here, and wrote this' > %s/denials.pcap",
		 path);
	assert_int_equal(au_world_run(cmd), 0);
	assert_int_equal(au_log_init(w->f, &a, DIR1, NULL), 0);
	assert_int_equal(put(w->f, &a, 60), 0);
	au_log_close(w->f, &a);
	assert_int_equal(a.pcap_no, 2);
	assert_int_equal(check(w, DIR1), 1);
}

/* More logs than may be open: none is lost, descriptors stay bounded. */
static void test_many(void **state)
{
	struct world *w = *state;
	enum { N = AU_OPEN_MAX + 100 };
	struct au_log *log = calloc(N, sizeof(*log));
	char dir[AU_DIR_TEXT];
	int fd;

	for (int i = 0; i < N; i++) {
		snprintf(dir, sizeof(dir), "2026-11-30/lease-%04d", i);
		assert_int_equal(au_log_init(w->f, &log[i], dir, NULL), 0);
	}
	for (int round = 0; round < 2; round++)
		for (int i = 0; i < N; i++)
			assert_int_equal(put(w->f, &log[i], 60), 0);
	fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	assert_true(fd < 2 * AU_OPEN_MAX + 64);
	close(fd);
	assert_int_equal(au_files_flush(w->f), 0);
	for (int i = 0; i < N; i++) {
		au_log_close(w->f, &log[i]);
		assert_int_equal(log[i].logged[AU_PACKET][EG_REASON_NOT_ALLOWED],
				 2);
	}
	assert_int_equal(check(w, "2026-11-30/lease-0000"), 2);
	assert_int_equal(au_files_state(w->f)->next, 2 * N + 1);
	free(log);
}

/*
 * kill -9 while writing: a child writes until it is killed, many times over.
 * Afterwards every line is whole, has its packet, and host-wide numbers are
 * dense over both logs.
 */
static void writer(struct world *w)
{
	struct au_files *f = open_files(w);
	static struct au_log a, b; /* outlives the test: closed in teardown */

	if (au_log_init(f, &a, DIR1, NULL) || au_log_init(f, &b, DIR2, NULL))
		_exit(1);
	for (;;) {
		if (put(f, &a, 60) || put(f, &b, 100) || au_files_flush(f))
			_exit(1);
	}
}

static int compare(const void *a, const void *b)
{
	json_int_t x = *(const json_int_t *)a, y = *(const json_int_t *)b;

	return x < y ? -1 : x > y;
}

static void check_dense(struct world *w)
{
	size_t cap = 1 << 20, n = 0, i;
	json_int_t *v = malloc(cap * sizeof(*v));
	const char *dirs[] = {DIR1, DIR2};
	char path[256];
	json_t *lines, *l;

	for (int k = 0; k < 2; k++) {
		dir_of(w, dirs[k], path);
		lines = au_world_lines(path, AU_JSONL);
		json_array_foreach(lines, i, l)
		{
			assert_true(n < cap);
			v[n++] = json_integer_value(json_object_get(l, "hseq"));
		}
		json_decref(lines);
	}
	qsort(v, n, sizeof(*v), compare);
	for (i = 0; i < n; i++)
		assert_int_equal(v[i], i + 1);
	free(v);
}

static void test_kill(void **state)
{
	struct world *w = *state;
	unsigned int seed = 3;

	au_files_free(w->f);
	for (int round = 0; round < 60; round++) {
		pid_t pid = fork();
		int status;

		assert_true(pid >= 0);
		if (!pid)
			writer(w);
		usleep(1000 + (useconds_t)rand_r(&seed) % 4000);
		assert_int_equal(kill(pid, SIGKILL), 0);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFSIGNALED(status));
	}
	w->f = open_files(w);
	for (int k = 0; k < 2; k++) {
		struct au_log log;

		assert_int_equal(au_log_init(w->f, &log, k ? DIR2 : DIR1, NULL),
				 0);
		assert_int_equal(log.damaged, 0);
		assert_int_equal(log.pcap_no, 1);
		assert_true(log.seq > 0);
	}
	check_dense(w);
}

/* Another boot without an orderly end: numbers are left out, not reused. */
static void test_power_loss(void **state)
{
	struct world *w = *state;
	struct au_state *st;
	static struct au_log a; /* outlives the test: closed in teardown */
	uint64_t next;

	assert_int_equal(au_log_init(w->f, &a, DIR1, NULL), 0);
	assert_int_equal(put(w->f, &a, 60), 0);
	assert_int_equal(au_files_flush(w->f), 0);
	next = au_files_state(w->f)->next;
	close(au_files_state(w->f)->fd); /* it never closes in order */
	au_files_state(w->f)->fd = -1;
	au_files_free(w->f);
	memset(w->conf->boot_id, 0xc3, sizeof(w->conf->boot_id));
	w->f = open_files(w);
	st = au_files_state(w->f);
	assert_int_equal(st->skipped_from, next);
	assert_true(st->next > next && st->next == st->skipped_to);
	assert_true(st->next <= next + 2 * AU_STATE_BLOCK);
}

static void test_cap(void **state)
{
	struct world *w = *state;
	static struct au_log a; /* outlives the test: closed in teardown */
	int r = 0;

	w->conf->max_lease_bytes = 20000;
	assert_int_equal(au_log_init(w->f, &a, DIR1, NULL), 0);
	for (int i = 0; i < 1000; i++) {
		r = put(w->f, &a, 60);
		au_files_flush(w->f);
	}
	assert_int_equal(r, -EDQUOT);
	assert_true(a.capped);
	assert_true(a.json_size + a.pcap_size < 20000 + 600);
	assert_int_equal(a.seq + a.disk_lost, 1000);
	assert_int_equal(check(w, DIR1), a.seq);
}

/* A disk of 256 kB: what does not fit is counted, the rest is whole. */
static void test_full(void **state)
{
	struct world *w = *state;
	static struct au_log a; /* outlives the test: closed in teardown */
	char cmd[200];
	uint64_t lost = 0;

	if (unshare(CLONE_NEWNS) ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL)) {
		print_message("SKIP audit/files full disk: no mount namespace\n");
		skip();
	}
	au_files_free(w->f);
	assert_int_equal(mount("tmpfs", w->path, "tmpfs", 0, "size=256k"), 0);
	w->f = open_files(w);
	assert_int_equal(au_log_init(w->f, &a, DIR1, NULL), 0);
	for (int i = 0; i < 2000; i++)
		lost += put(w->f, &a, 60) != 0;
	assert_true(lost > 0);
	assert_int_equal(a.disk_lost, lost);
	assert_int_not_equal(au_files_flush(w->f), 0);
	assert_int_equal(check(w, DIR1),
			 a.logged[AU_PACKET][EG_REASON_NOT_ALLOWED]);
	/* room again: what was buffered comes first, nothing is missing */
	snprintf(cmd, sizeof(cmd), "mount -o remount,size=4m %s", w->path);
	assert_int_equal(au_world_run(cmd), 0);
	assert_int_equal(put(w->f, &a, 60), 0);
	assert_int_equal(au_files_flush(w->f), 0);
	assert_int_equal(check(w, DIR1), a.seq);
	assert_int_equal(a.seq + a.disk_lost, 2001);
	/* read-only */
	snprintf(cmd, sizeof(cmd), "mount -o remount,ro %s", w->path);
	au_log_close(w->f, &a);
	close(au_files_state(w->f)->fd);
	au_files_state(w->f)->fd = -1;
	if (!au_world_run(cmd)) {
		assert_int_equal(put(w->f, &a, 60), -EROFS);
		snprintf(cmd, sizeof(cmd), "mount -o remount,rw %s", w->path);
		assert_int_equal(au_world_run(cmd), 0);
	}
	au_files_free(w->f);
	assert_int_equal(umount2(w->path, MNT_DETACH), 0);
	w->f = open_files(w);
}

#define T(x) cmocka_unit_test_setup_teardown(x, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_offsets),      T(test_modes),	    T(test_symlink),
		T(test_restart),      T(test_crash_json),   T(test_crash_pcap),
		T(test_packets_gone), T(test_foreign_pcap), T(test_many),
		T(test_kill),	      T(test_power_loss),   T(test_cap),
		T(test_full),
	};

	return cmocka_run_group_tests_name("audit/files", tests, NULL, NULL);
}
