// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: the audit role as a whole, with fake siblings on real channels
 * and real kernel logging in a namespace of the test's own: records, the
 * law, seals, restarts.
 */
#include "audit/audit.h"
#include "audit/core.h"
#include "netpool/base/digest.h"
#include "netpool/base/log.h"
#include "netpool/base/plan.h"
#include "netpool/base/stamp.h"
#include "netpool/base/util.h"
#include "tests/lib/au_world.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <linux/netlink.h>
#include <net/if.h>
#include <pcap/pcap.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define CREATED 1796072645123000000LL /* 2026-11-30T21:04:05.123Z */
#define DAY "2026-11-30"

struct world {
	struct eg_conf *conf;
	char path[64];
	struct eg_role_ctx ctx;
	struct eg_timer *deadline;
	/* the siblings' ends */
	struct eg_chan *sib[EG_ROLE_COUNT];
	/* what they were told */
	struct eg_am_stats stats;
	struct eg_am_sealed sealed;
	struct eg_am_first first[16];
	unsigned int nstats, nsealed, nfirst, nopen;
	uint64_t cookie;
	struct eg_ap_open open;
	struct eg_ap_lease which;
	int open_fd;
};

static void sib_on_msg(void *arg, struct eg_chan *c, struct eg_msg *m)
{
	struct world *w = arg;

	(void)c;
	w->cookie = m->cookie;
	if (m->type == EG_AM_STATS) {
		memcpy(&w->stats, m->body, sizeof(w->stats));
		w->nstats++;
	} else if (m->type == EG_AM_SEALED) {
		memcpy(&w->sealed, m->body, sizeof(w->sealed));
		w->nsealed++;
	} else if (m->type == EG_AM_FIRST) {
		assert_true(w->nfirst < 16);
		memcpy(&w->first[w->nfirst++], m->body, sizeof(w->first[0]));
		return;
	} else if (m->type == EG_AP_OPEN) {
		memcpy(&w->open, m->body, sizeof(w->open));
		w->open_fd = m->fd;
		m->fd = -1;
		w->nopen++;
	} else if (m->type == EG_AP_LEASE) {
		memcpy(&w->which, m->body, sizeof(w->which));
		eg_close_p(&w->open_fd);
		w->open_fd = m->fd;
		m->fd = -1;
	}
	eg_loop_stop(w->ctx.loop);
}

static void au_on_msg(void *arg, struct eg_chan *c, struct eg_msg *m)
{
	struct world *w = arg;

	for (unsigned int i = 0; i < EG_ROLE_COUNT; i++)
		if (w->ctx.peer[i] == c)
			au_role_ops.on_msg(&w->ctx, (enum eg_role)i, m);
}

static void on_close(void *arg, struct eg_chan *c, const char *why)
{
	(void)arg;
	(void)c;
	fail_msg("channel closed: %s", why);
}

static const struct eg_chan_ops sib_ops = {sib_on_msg, on_close};
static const struct eg_chan_ops au_ops = {au_on_msg, on_close};

static void on_deadline(void *arg)
{
	struct world *w = arg;

	eg_loop_stop(w->ctx.loop);
}

/* Until something answers, or for @ms. */
static void run(struct world *w, int ms)
{
	eg_timer_set(w->deadline, ms * 1000LL);
	assert_int_equal(eg_loop_run(w->ctx.loop), 0);
	eg_timer_cancel(w->deadline);
}

static void start(struct world *w)
{
	static const enum eg_role sib[] = {EG_ROLE_MAIN, EG_ROLE_DNS,
					   EG_ROLE_API};
	struct eg_err err = {0};
	int fd;

	assert_int_equal(eg_loop_new(&w->ctx.loop), 0);
	w->deadline = eg_timer_new(w->ctx.loop, on_deadline, w);
	w->ctx.conf = w->conf;
	w->ctx.ops = &au_role_ops;
	fd = open(w->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (au_start_at(&w->ctx, fd, &err))
		fail_msg("%s", err.text);
	for (unsigned int i = 0; i < EG_ARRAY_SIZE(sib); i++) {
		int pair[2];

		assert_int_equal(eg_chan_pair(pair), 0);
		assert_int_equal(eg_chan_new(&w->ctx.peer[sib[i]], w->ctx.loop,
					     pair[0], &au_ops, w),
				 0);
		assert_int_equal(eg_chan_new(&w->sib[sib[i]], w->ctx.loop,
					     pair[1], &sib_ops, w),
				 0);
		au_role_ops.on_peer(&w->ctx, sib[i]);
	}
	w->nstats = w->nsealed = w->nfirst = w->nopen = 0;
}

static void stop(struct world *w)
{
	au_done(&w->ctx);
	for (unsigned int i = 0; i < EG_ROLE_COUNT; i++) {
		eg_chan_free(w->ctx.peer[i]);
		eg_chan_free(w->sib[i]);
		w->ctx.peer[i] = w->sib[i] = NULL;
	}
	eg_timer_free(w->deadline);
	eg_loop_free(w->ctx.loop);
}

static int setup(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	eg_log_init("test", EG_LOG_ERROR);
	w->conf = au_world_conf();
	w->open_fd = -1;
	close(au_world_dir(w->path));
	start(w);
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	stop(w);
	au_world_rmdir(w->path);
	if (w->open_fd >= 0)
		close(w->open_fd);
	free(w->conf);
	free(w);
	return 0;
}

static void tell(struct world *w, enum eg_role from, uint16_t type,
		 uint64_t cookie, const void *body, size_t len)
{
	assert_int_equal(eg_chan_send(w->sib[from], type, cookie, body, len, -1),
			 0);
}

static void lease(struct world *w, uint32_t slot, uint64_t generation,
		  const char *phase)
{
	static struct eg_ma_lease m;

	memset(&m, 0, sizeof(m));
	m.lease.slot = slot;
	m.lease.generation = generation;
	m.lease.created_ns = CREATED;
	memset(m.lease.uid, 0x11, EG_UID);
	m.lease.uid[15] = (uint8_t)generation;
	snprintf(m.lease.req.id, EG_ID, "run-%llu-plan",
		 (unsigned long long)generation);
	snprintf(m.lease.req.run, EG_ID, "run-8f2");
	snprintf(m.lease.req.tenant, EG_ID, "acme");
	m.lease.req.nlabels = 2;
	snprintf(m.lease.req.label[0].key, EG_LABEL_KEY, "commit");
	snprintf(m.lease.req.label[0].value, EG_LABEL_VALUE,
		 "\x1b[31m\"\xff\xe2\x80\xae");
	snprintf(m.lease.req.label[1].key, EG_LABEL_KEY, "layer");
	snprintf(m.lease.req.label[1].value, EG_LABEL_VALUE, "dns");
	memset(m.lease.req.policy_digest, 0x5a, EG_DIGEST);
	memset(m.in_force, 0x5a, EG_DIGEST);
	snprintf(m.phase_names, sizeof(m.phase_names), "%s", phase);
	tell(w, EG_ROLE_MAIN, EG_MA_LEASE, 0, &m, sizeof(m));
	run(w, 5);
}

static void make_dir(const struct world *w, uint64_t generation, char *buf)
{
	uint8_t uid[EG_UID];
	char text[EG_UUID_TEXT];

	memset(uid, 0x11, sizeof(uid));
	uid[15] = (uint8_t)generation;
	snprintf(buf, 200, "%s/" DAY "/%s", w->path, eg_uuid_format(uid, text));
}

static void denial(struct world *w, uint32_t slot, uint64_t generation,
		   const char *name, enum eg_reason reason, bool tcp)
{
	static const uint8_t query[] = "\x12\x34\x01\0\0\1\0\0\0\0\0\0"
				       "\7evil\x1b[2\7example\3com\0\0\1\0\1";
	struct eg_da_denial d = {.slot = slot,
				 .generation = generation,
				 .reason = (uint8_t)reason,
				 .rcode = 3,
				 .tcp = tcp,
				 .time_ns = eg_wall_ns(),
				 .mono_ns = eg_boot_ns(),
				 .src = eg_plan_addr(w->conf, slot),
				 .dst = 0x08080808,
				 .sport = 40000,
				 .dport = 53,
				 .qtype = 1,
				 .len = sizeof(query) - 1};

	assert_int_equal(eg_name_parse(name, &d.name, NULL), 0);
	memcpy(d.query, query, d.len);
	tell(w, EG_ROLE_DNS, EG_DA_DENIAL, 0, &d,
	     offsetof(struct eg_da_denial, query) + d.len);
}

static void ask_stats(struct world *w, uint32_t slot, uint64_t generation)
{
	struct eg_ma_stats m = {.slot = slot, .generation = generation};
	unsigned int was = w->nstats;

	tell(w, EG_ROLE_MAIN, EG_MA_STATS, 77, &m, sizeof(m));
	run(w, 2000);
	assert_int_equal(w->nstats, was + 1);
	assert_int_equal(w->cookie, 77);
}

static void end(struct world *w, struct eg_ma_end *m)
{
	unsigned int was = w->nsealed;

	m->cause = EG_CAUSE_API;
	tell(w, EG_ROLE_MAIN, EG_MA_END, 99, m, sizeof(*m));
	run(w, 5000);
	assert_int_equal(w->nsealed, was + 1);
	assert_int_equal(w->cookie, 99);
}

static const char *str(json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));

	return s ? s : "(none)";
}

static json_int_t num(json_t *o, const char *key)
{
	json_t *v = json_object_get(o, key);

	return json_is_integer(v) ? json_integer_value(v) : -1;
}

static void file_digest(const char *dir, const char *name, char hex[65])
{
	char path[256];
	uint8_t buf[65536], d[32];
	struct eg_sha256 h;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "%.200s/%.40s", dir, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	eg_sha256_init(&h);
	while ((n = read(fd, buf, sizeof(buf))) > 0)
		eg_sha256_add(&h, buf, (size_t)n);
	close(fd);
	eg_sha256_done(&h, d);
	eg_hex(hex, d, 32);
}

/* The manifest fits its files and the chain; returns it. */
static json_t *check_manifest(struct world *w, const char *dir,
			      const char *previous)
{
	json_t *lines = au_world_lines(dir, "manifest.json"), *m, *f, *chain;
	char hex[65], text[80];
	size_t i;

	assert_int_equal(json_array_size(lines), 1);
	m = json_incref(json_array_get(lines, 0));
	json_decref(lines);
	json_array_foreach(json_object_get(m, "files"), i, f)
	{
		file_digest(dir, str(f, "name"), hex);
		assert_string_equal(str(f, "sha256"), hex);
	}
	file_digest(dir, "manifest.json", hex);
	snprintf(text, sizeof(text), "sha256:%s", hex);
	chain = au_world_lines(w->path, "chain.jsonl");
	assert_string_equal(str(json_array_get(chain, json_array_size(chain) - 1),
				"manifest"),
			    text);
	if (previous)
		assert_string_equal(str(m, "previous"), previous);
	json_decref(chain);
	eg_hex(hex, w->sealed.manifest, 32);
	assert_string_equal(text + 7, hex);
	return m;
}

static void test_dns(void **state)
{
	struct world *w = *state;
	struct eg_ma_end e = {.slot = 3, .generation = 7};
	uint64_t offset[8];
	uint32_t caplen[8];
	char dir[200];
	json_t *l, *r, *m;

	lease(w, 3, 7, "plan");
	denial(w, 3, 7, "Evil.example.com", EG_REASON_DNS_DENIED, false);
	denial(w, 3, 7, "metadata.google.internal", EG_REASON_METADATA, true);
	denial(w, 3, 7, "evil.example.com", EG_REASON_DNS_DENIED, false);
	ask_stats(w, 3, 7);
	assert_int_equal(w->stats.known, 1);
	assert_int_equal(w->stats.dns_logged[EG_REASON_DNS_DENIED], 2);
	assert_int_equal(w->stats.dns_logged[EG_REASON_METADATA], 1);
	assert_int_equal(w->nfirst, 2);
	make_dir(w, 7, dir);
	l = au_world_lines(dir, AU_JSONL);
	assert_int_equal(json_array_size(l), 3);
	r = json_array_get(l, 0);
	assert_int_equal(num(r, "v"), 1);
	assert_string_equal(str(r, "kind"), "denial");
	assert_string_equal(str(r, "layer"), "dns");
	assert_string_equal(str(r, "reason"), "dns-denied");
	assert_string_equal(str(r, "verdict"), "nxdomain");
	assert_string_equal(str(r, "qname"), "evil.example.com");
	assert_string_equal(str(r, "qtype"), "A");
	assert_string_equal(str(r, "rcode"), "NXDOMAIN");
	assert_string_equal(str(r, "lease"), "run-7-plan");
	assert_string_equal(str(r, "phase"), "plan");
	assert_string_equal(str(r, "src"), "10.200.0.14");
	assert_string_equal(str(r, "hint"), "allow = evil.example.com tcp/443");
	assert_true(json_is_true(json_object_get(r, "rebuilt")));
	assert_true(json_is_false(json_object_get(r, "probe")));
	assert_string_equal(str(json_object_get(r, "labels"), "commit"),
			    "\x1b[31m\"\\xff\xe2\x80\xae");
	r = json_array_get(l, 1);
	assert_string_equal(str(r, "proto"), "tcp");
	assert_null(json_object_get(r, "hint"));
	json_decref(l);
	assert_int_equal(au_world_pcap(dir, "denials.pcap", offset, caplen, 8),
			 3);
	e.dns[EG_REASON_DNS_DENIED] = (struct eg_reason_counts){
		.denied = 12, .suppressed = 9, .sent = 3};
	e.dns[EG_REASON_METADATA] =
		(struct eg_reason_counts){.denied = 1, .sent = 1};
	end(w, &e);
	assert_int_equal(w->sealed.error, 0);
	l = au_world_lines(dir, AU_JSONL); /* with a summary now */
	assert_int_equal(json_array_size(l), 4);
	r = json_array_get(l, 3);
	assert_string_equal(str(r, "layer"), "log");
	assert_int_equal(num(r, "lost"), 1);
	assert_int_equal(num(r, "suppressed"), 9);
	json_decref(l);
	m = check_manifest(w, dir, NULL);
	r = json_object_get(json_object_get(m, "counts"), "dns");
	assert_int_equal(num(json_object_get(r, "dns-denied"), "lost"), 1);
	assert_int_equal(num(json_object_get(r, "metadata"), "lost"), 0);
	assert_int_equal(json_array_size(json_object_get(m, "files")), 2);
	json_decref(m);
}

/* tshark finds nothing wrong with the rebuilt frames. */
static void test_rebuilt(void **state)
{
	struct world *w = *state;
	char dir[200], cmd[512];

	if (geteuid())
		skip(); /* needs root */
	lease(w, 3, 7, "plan");
	denial(w, 3, 7, "evil.example.com", EG_REASON_DNS_DENIED, false);
	denial(w, 3, 7, "evil.example.com", EG_REASON_DNS_DENIED, true);
	ask_stats(w, 3, 7);
	make_dir(w, 7, dir);
	if (au_world_run("command -v tshark")) {
		print_message("SKIP audit/role rebuilt: no tshark\n");
		skip();
	}
	snprintf(cmd, sizeof(cmd),
		 "test $(tshark -n -o ip.check_checksum:TRUE -o udp.check_checksum:TRUE -o tcp.check_checksum:TRUE -r %s/denials.pcap -Y 'dns.qry.type == 1 && ip.checksum.status == 1 && (udp.checksum.status == 1 || tcp.checksum.status == 1)' | wc -l) = 2",
		 dir);
	assert_int_equal(au_world_run(cmd), 0);
}

static void test_open(void **state)
{
	struct world *w = *state;
	struct eg_pa_open q = {.created_ns = CREATED, .flush = 1};
	struct stat st;

	memset(q.uid, 0x11, EG_UID);
	q.uid[15] = 7;
	lease(w, 3, 7, "plan");
	tell(w, EG_ROLE_API, EG_PA_OPEN, 5, &q, sizeof(q));
	run(w, 1000);
	assert_int_equal(w->nopen, 1);
	assert_int_equal(w->open.error, -ENOENT);
	assert_int_equal(w->open_fd, -1);
	denial(w, 3, 7, "evil.example.com", EG_REASON_DNS_DENIED, false);
	run(w, 5);
	tell(w, EG_ROLE_API, EG_PA_OPEN, 6, &q, sizeof(q));
	run(w, 1000);
	assert_int_equal(w->nopen, 2);
	assert_int_equal(w->open.error, 0);
	assert_int_equal(fstat(w->open_fd, &st), 0);
	assert_int_equal(st.st_size, w->open.size);
	assert_true(st.st_size > 100);
	assert_int_equal(write(w->open_fd, "x", 1), -1);
}

/* Counts and numbers over a restart; phases too. */
static void test_restart(void **state)
{
	struct world *w = *state;
	struct eg_ma_end e = {.slot = 3, .generation = 7};
	char dir[200];
	json_t *l, *r, *m, *p;
	size_t i;

	for (int round = 0; round < 3; round++) {
		lease(w, 3, 7, round ? "apply" : "init");
		for (int k = 0; k < 10; k++)
			denial(w, 3, 7, "evil.example.com",
			       EG_REASON_DNS_DENIED, false);
		ask_stats(w, 3, 7);
		assert_int_equal(w->stats.dns_logged[EG_REASON_DNS_DENIED],
				 (round + 1) * 10);
		assert_int_equal(w->nfirst, round ? 0 : 1);
		if (!round)
			lease(w, 3, 7, "apply");
		stop(w);
		start(w);
	}
	lease(w, 3, 7, "apply");
	make_dir(w, 7, dir);
	l = au_world_lines(dir, AU_JSONL);
	assert_int_equal(json_array_size(l), 30);
	json_array_foreach(l, i, r)
	{
		assert_int_equal(num(r, "seq"), i + 1);
		assert_int_equal(num(r, "hseq"), i + 1);
	}
	json_decref(l);
	end(w, &e);
	m = check_manifest(w, dir, NULL);
	p = json_object_get(m, "policies");
	assert_int_equal(json_array_size(p), 2);
	assert_string_equal(str(json_array_get(p, 0), "phase"), "init");
	assert_string_equal(str(json_array_get(p, 1), "phase"), "apply");
	assert_string_equal(str(json_array_get(p, 0), "to"),
			    str(json_array_get(p, 1), "from"));
	json_decref(m);
	/* sealed before a restart: the same answer, no second manifest */
	{
		uint8_t was[EG_DIGEST];

		memcpy(was, w->sealed.manifest, EG_DIGEST);
		stop(w);
		start(w);
		lease(w, 3, 7, "apply");
		end(w, &e);
		assert_memory_equal(was, w->sealed.manifest, EG_DIGEST);
		l = au_world_lines(w->path, "chain.jsonl");
		assert_int_equal(json_array_size(l), 1);
		json_decref(l);
	}
}

/* The chain over three leases and a restart; a lease without denials too. */
static void test_chain(void **state)
{
	struct world *w = *state;
	char dir[200], hex[80] = "sha256:", prev[80] = "sha256:";
	json_t *m;

	memset(prev + 7, '0', 64);
	prev[71] = '\0';
	for (uint64_t g = 1; g <= 3; g++) {
		struct eg_ma_end e = {.slot = 9, .generation = g};

		lease(w, 9, g, "plan");
		if (g == 2)
			denial(w, 9, g, "evil.example.com",
			       EG_REASON_DNS_DENIED, false);
		run(w, 10);
		end(w, &e);
		assert_int_equal(w->sealed.error, 0);
		make_dir(w, g, dir);
		m = check_manifest(w, dir, prev);
		assert_int_equal(num(m, "n"), g);
		json_decref(m);
		eg_hex(hex + 7, w->sealed.manifest, 32);
		memcpy(prev, hex, sizeof(prev));
		if (g == 2) {
			stop(w);
			start(w);
		}
	}
	/* never heard of */
	{
		struct eg_ma_end e = {.slot = 9, .generation = 44};

		end(w, &e);
		assert_int_equal(w->sealed.error, -ENOENT);
	}
}

/* ---- with the kernel ------------------------------------------------------- */

/*
 * This namespace plays gateway 0; s3 (index 1003) is slot 3's link, whose
 * other end lives in a namespace of its own, as a sandbox does.
 */
static bool kernel(struct world *w, const char *test)
{
	struct eg_err err = {0};
	int fd;

	if (!au_world_netns() ||
	    au_world_run(
		    "ip link add s3 index 1003 address 0a:e6:00:00:03:01 type veth peer name p3 &&"
		    "echo 1 > /proc/sys/net/ipv6/conf/s3/disable_ipv6;"
		    "echo 1 > /proc/sys/net/ipv6/conf/p3/disable_ipv6;"
		    "ip link set p3 address 0a:e6:00:00:03:02;"
		    "ip link set s3 arp off; ip link set p3 arp off;"
		    "ip link set s3 up; ip link set p3 up;"
		    "ip addr add 10.200.0.14/30 dev p3 &&"
		    "ip route add 198.51.100.0/24 dev p3 &&"
		    "nft add table inet t &&"
		    "nft 'add chain inet t c { type filter hook prerouting priority -150; }' &&"
		    "nft 'add rule inet t c iif 1003 tcp dport 1-10000 meta mark set 0x000704 log group 1 drop' &&"
		    "nft 'add rule inet t c iif 1003 udp dport 1-10000 meta mark set 0x000904 log group 1 drop' &&"
		    "nft 'add rule inet t c iif 1003 meta mark set 0x000005 log group 1 drop'")) {
		print_message("SKIP audit/role %s: no namespace or no nft\n",
			      test);
		return false;
	}
	fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK,
		    NETLINK_NETFILTER);
	if (au_nflog_bind(fd, EG_NFLOG_GROUP, 128, &err))
		fail_msg("%s", err.text);
	au_role_ops.on_fd(&w->ctx, EG_FD_NFLOG, 0, &fd);
	assert_int_equal(fd, -1);
	fd = au_packet_open(&err);
	assert_true(fd >= 0);
	au_role_ops.on_fd(&w->ctx, EG_FD_PACKET, 0, &fd);
	assert_int_equal(fd, -1);
	return true;
}

static void send_raw(const void *frame, size_t len)
{
	struct sockaddr_ll to = {.sll_family = AF_PACKET,
				 .sll_halen = 6,
				 .sll_ifindex = (int)if_nametoindex("p3")};
	int s = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);

	assert_int_equal(
		sendto(s, frame, len, 0, (struct sockaddr *)&to, sizeof(to)),
		(ssize_t)len);
	close(s);
}

/* @proto and port towards 198.51.100.@last, from slot 3. */
static void send_ip(uint8_t proto, uint16_t dport, uint8_t last)
{
	uint8_t f[74] = {0x0a,
			 0xe6,
			 0,
			 0,
			 3,
			 1,
			 0x0a,
			 0xe6,
			 0,
			 0,
			 3,
			 2,
			 8,
			 0,
			 0x45,
			 0,
			 0,
			 60,
			 0,
			 1,
			 0x40,
			 0,
			 64,
			 proto,
			 0,
			 0,
			 10,
			 200,
			 0,
			 14,
			 198,
			 51,
			 100,
			 last,
			 0x9d,
			 0x78,
			 (uint8_t)(dport >> 8),
			 (uint8_t)dport};
	uint32_t s = 0;

	f[46] = 0xa0;
	f[47] = 2; /* SYN */
	if (proto == 17)
		f[39] = 40;
	for (int i = 14; i < 34; i += 2)
		s += (uint32_t)(f[i] << 8 | f[i + 1]);
	s = (s & 0xffff) + (s >> 16);
	s = ~(s + (s >> 16));
	f[24] = (uint8_t)(s >> 8);
	f[25] = (uint8_t)s;
	send_raw(f, sizeof(f));
}

static void name_of(struct world *w, uint64_t generation, uint8_t last,
		    const char *name, uint32_t lifetime)
{
	struct eg_da_name n = {.slot = 3,
			       .generation = generation,
			       .naddrs = 1,
			       .lifetime_s = lifetime};

	n.addr[0] = 0xc6336400 | last;
	assert_int_equal(eg_name_parse(name, &n.name, NULL), 0);
	tell(w, EG_ROLE_DNS, EG_DA_NAME, 0, &n, sizeof(n));
	run(w, 5);
}

static void test_kernel(void **state)
{
	struct world *w = *state;
	struct eg_ma_end e = {.slot = 3, .generation = 7};
	uint64_t offset[64];
	uint32_t caplen[64];
	char dir[200], hostdir[200], date[EG_DATE_TEXT];
	json_t *l, *r, *m;

	if (!kernel(w, "kernel"))
		skip();
	lease(w, 3, 7, "plan");
	name_of(w, 7, 7, "collector.example.dev", 600);
	name_of(w, 7, 8, "lapsed.example.dev", 0);
	run(w, 20);
	send_ip(6, 443, 7);
	send_ip(6, 443, 8);
	send_ip(6, 443, 9);
	send_ip(17, 443, 9);  /* epoch 9: no such lease */
	send_ip(6, 20000, 9); /* unmarked epoch */
	ask_stats(w, 3, 7);
	assert_int_equal(w->stats.packet_logged[EG_REASON_NOT_ALLOWED], 3);
	assert_int_equal(w->stats.gw_gap, 0);
	assert_int_equal(w->stats.gw_unattributed, 1);
	make_dir(w, 7, dir);
	l = au_world_lines(dir, AU_JSONL);
	assert_int_equal(json_array_size(l), 3);
	r = json_array_get(l, 0);
	assert_string_equal(str(r, "layer"), "packet");
	assert_string_equal(str(r, "reason"), "not-allowed");
	assert_string_equal(str(r, "verdict"), "reject");
	assert_string_equal(str(r, "proto"), "tcp");
	assert_string_equal(str(r, "src"), "10.200.0.14");
	assert_string_equal(str(r, "dst"), "198.51.100.7");
	assert_int_equal(num(r, "sport"), 40312);
	assert_int_equal(num(r, "dport"), 443);
	assert_string_equal(str(r, "flags"), "S");
	assert_string_equal(str(r, "name"), "collector.example.dev");
	assert_int_equal(num(r, "name_age_s"), 0);
	assert_string_equal(str(r, "hint"),
			    "allow = collector.example.dev tcp/443");
	assert_int_equal(num(json_object_get(r, "pcap"), "offset"), 24);
	assert_int_equal(num(json_object_get(r, "pcap"), "caplen"), 74);
	r = json_array_get(l, 1);
	assert_string_equal(str(r, "detail"), "pin-expired");
	assert_string_equal(str(r, "name"), "lapsed.example.dev");
	assert_null(json_object_get(r, "hint"));
	r = json_array_get(l, 2);
	assert_string_equal(str(r, "hint"), "allow = 198.51.100.9/32 tcp/443");
	json_decref(l);
	assert_int_equal(au_world_pcap(dir, "denials.pcap", offset, caplen, 64),
			 3);
	run(w, 60);
	snprintf(hostdir, sizeof(hostdir), "%s/host/%s", w->path,
		 eg_stamp_date(eg_wall_ns(), date));
	l = au_world_lines(hostdir, AU_JSONL);
	assert_int_equal(json_array_size(l), 2);
	r = json_array_get(l, 0);
	assert_string_equal(str(r, "detail"), "lease-sealed");
	assert_int_equal(num(r, "slot"), 3);
	json_decref(l);
	e.packet[EG_REASON_NOT_ALLOWED] =
		(struct eg_reason_counts){.denied = 3, .sent = 3};
	end(w, &e);
	m = check_manifest(w, dir, NULL);
	json_decref(m);
}

/* A late packet goes to its own lease until that is sealed, then aside. */
static void test_late(void **state)
{
	struct world *w = *state;
	struct eg_ma_end e = {.slot = 3, .generation = 7};
	char dir[200];
	json_t *l;

	if (!kernel(w, "late"))
		skip();
	lease(w, 3, 7, "plan");
	lease(w, 3, 9, "plan");
	run(w, 10);
	send_ip(6, 443, 7);
	send_ip(17, 443, 7);
	ask_stats(w, 3, 7);
	assert_int_equal(w->stats.packet_logged[EG_REASON_NOT_ALLOWED], 1);
	ask_stats(w, 3, 9);
	assert_int_equal(w->stats.packet_logged[EG_REASON_NOT_ALLOWED], 1);
	/* sent after END was asked for, before it settles: still counted */
	tell(w, EG_ROLE_MAIN, EG_MA_END, 99, &e, sizeof(e));
	run(w, 3);
	send_ip(6, 443, 8);
	run(w, 3000);
	assert_int_equal(w->nsealed, 1);
	assert_int_equal(w->sealed.packet_logged[EG_REASON_NOT_ALLOWED], 2);
	send_ip(6, 443, 9);
	ask_stats(w, 3, 9);
	assert_int_equal(w->stats.packet_logged[EG_REASON_NOT_ALLOWED], 1);
	assert_int_equal(w->stats.gw_unattributed, 1);
	make_dir(w, 7, dir);
	l = au_world_lines(dir, AU_JSONL);
	assert_int_equal(json_array_size(l), 2);
	json_decref(l);
}

/* The law under a flood through a buffer that is too small. */
static void test_law(void **state)
{
	struct world *w = *state;
	struct au *au = w->ctx.priv;
	struct eg_ma_end e = {.slot = 3, .generation = 7};
	char dir[200];
	json_t *l, *m;
	int size = 65536;
	uint64_t logged;

	if (!kernel(w, "law"))
		skip();
	lease(w, 3, 7, "plan");
	assert_int_equal(setsockopt(au->source[0].log_fd, SOL_SOCKET,
				    SO_RCVBUFFORCE, &size, sizeof(size)),
			 0);
	run(w, 20);
	send_ip(6, 443, 1);
	ask_stats(w, 3, 7);
	for (int i = 0; i < 5000; i++) {
		send_ip(6, 443, (uint8_t)i);
		if (i % 1000 == 0)
			run(w, 1);
	}
	ask_stats(w, 3, 7);
	send_ip(6, 443, 1); /* shows the gap in front of it */
	ask_stats(w, 3, 7);
	logged = w->stats.packet_logged[EG_REASON_NOT_ALLOWED];
	print_message("logged %llu, gap %llu\n", (unsigned long long)logged,
		      (unsigned long long)w->stats.gw_gap);
	assert_true(w->stats.gw_gap > 0);
	assert_int_equal(logged + w->stats.gw_gap, 5002);
	e.packet[EG_REASON_NOT_ALLOWED] =
		(struct eg_reason_counts){.denied = 5002, .sent = 5002};
	end(w, &e);
	make_dir(w, 7, dir);
	m = check_manifest(w, dir, NULL);
	json_decref(m);
	l = au_world_lines(dir, AU_JSONL);
	assert_int_equal(json_array_size(l), logged + 1);
	json_decref(l);
}

static void test_frames(void **state)
{
	struct world *w = *state;
	uint8_t f[70] = {0x33, 0x33, 0, 0,  0,	  2,	0x0a, 0xe6,
			 0,    0,    3, 2,  0x86, 0xdd, 0x60, 0,
			 0,    0,    0, 16, 58,	  255,	0xfe, 0x80};
	char dir[200];
	json_t *l, *r;

	if (!kernel(w, "frames"))
		skip();
	lease(w, 3, 7, "plan");
	run(w, 300); /* reading begins */
	f[38] = 0xff;
	f[39] = 2;
	f[54] = 133;
	for (int i = 0; i < 500; i++) {
		f[53] = (uint8_t)(i % 5); /* five destinations */
		send_raw(f, sizeof(f));
	}
	f[12] = 0x08;
	f[13] = 0x06;
	send_raw(f, 60);
	ask_stats(w, 3, 7);
	assert_int_equal(w->stats.packet_denied[EG_REASON_IPV6], 500);
	assert_int_equal(w->stats.packet_denied[EG_REASON_NEIGHBOUR], 1);
	assert_int_equal(w->stats.packet_logged[EG_REASON_NEIGHBOUR], 1);
	assert_int_equal(w->stats.packet_logged[EG_REASON_IPV6],
			 500 - w->stats.packet_suppressed[EG_REASON_IPV6]);
	assert_true(w->stats.packet_logged[EG_REASON_IPV6] >= 55);
	assert_true(w->stats.packet_logged[EG_REASON_IPV6] < 120);
	assert_int_equal(w->stats.gw_frames_lost, 0);
	make_dir(w, 7, dir);
	l = au_world_lines(dir, AU_JSONL);
	r = json_array_get(l, 0);
	assert_string_equal(str(r, "reason"), "ipv6");
	assert_string_equal(str(r, "verdict"), "drop");
	assert_string_equal(str(r, "proto"), "icmpv6");
	assert_string_equal(str(r, "ethertype"), "0x86dd");
	assert_string_equal(str(r, "dst"), "ff02::");
	json_decref(l);
}

/* ---- what policies said ------------------------------------------------------ */

static const char TEXT[] = "# \"canon\":1\n[policy]\n";

/* As main does it: the text lies somewhere in a program. */
static void policy(struct world *w, const uint8_t digest[EG_DIGEST],
		   const char *text)
{
	struct eg_ma_policy m = {.offset = 7, .len = strlen(text)};
	int fd = memfd_create("program", MFD_CLOEXEC);

	memcpy(m.digest, digest, EG_DIGEST);
	assert_int_equal(pwrite(fd, text, m.len, 7), m.len);
	assert_int_equal(eg_chan_send(w->sib[EG_ROLE_MAIN], EG_MA_POLICY, 0, &m,
				      sizeof(m), fd),
			 0);
	close(fd);
	run(w, 5);
}

static int32_t ask_text(struct world *w, const uint8_t digest[EG_DIGEST],
			char *buf, size_t cap)
{
	struct eg_pa_open q = {.file = EG_FILE_POLICY};
	ssize_t n;

	memcpy(q.digest, digest, EG_DIGEST);
	eg_close_p(&w->open_fd);
	tell(w, EG_ROLE_API, EG_PA_OPEN, 5, &q, sizeof(q));
	run(w, 1000);
	if (w->open.error)
		return w->open.error;
	n = read(w->open_fd, buf, cap - 1);
	assert_true(n >= 0);
	buf[n] = '\0';
	return 0;
}

static void test_policy_text(void **state)
{
	struct world *w = *state;
	uint8_t digest[EG_DIGEST];
	char buf[128], path[128], hex[EG_SHA256_HEX];

	eg_sha256_of(TEXT, strlen(TEXT), digest);
	assert_int_equal(ask_text(w, digest, buf, sizeof(buf)), -ENOENT);
	policy(w, digest, "not that text");
	assert_int_equal(ask_text(w, digest, buf, sizeof(buf)), -ENOENT);
	policy(w, digest, TEXT);
	assert_int_equal(ask_text(w, digest, buf, sizeof(buf)), 0);
	assert_string_equal(buf, TEXT);
	stop(w);
	start(w); /* kept */
	assert_int_equal(ask_text(w, digest, buf, sizeof(buf)), 0);
	assert_string_equal(buf, TEXT);
	/* one that was cut is written again */
	snprintf(path, sizeof(path), "%s/policies/%s.policy", w->path,
		 eg_hex(hex, digest, EG_DIGEST));
	assert_int_equal(truncate(path, 3), 0);
	policy(w, digest, TEXT);
	assert_int_equal(ask_text(w, digest, buf, sizeof(buf)), 0);
	assert_string_equal(buf, TEXT);
}

/* A disk that refuses gets it later. */
static void test_policy_text_waits(void **state)
{
	struct world *w = *state;
	uint8_t digest[EG_DIGEST];
	char buf[128], path[96];

	snprintf(path, sizeof(path), "%s/policies", w->path);
	assert_int_equal(mkdir(path, 0700), 0);
	snprintf(path, sizeof(path), "%s/policies/.new", w->path);
	assert_int_equal(mkdir(path, 0700), 0); /* in its way, for root too */
	eg_sha256_of(TEXT, strlen(TEXT), digest);
	policy(w, digest, TEXT);
	assert_int_equal(ask_text(w, digest, buf, sizeof(buf)), -ENOENT);
	assert_int_equal(rmdir(path), 0);
	run(w, 1000);
	assert_int_equal(ask_text(w, digest, buf, sizeof(buf)), 0);
	assert_string_equal(buf, TEXT);
}

/* ---- which lease --------------------------------------------------------------- */

/* Its object; NULL with the error in w->which. */
static json_t *which(struct world *w, const char *id, const uint8_t *uid)
{
	struct eg_pa_lease q = {.has_uid = uid != NULL};

	if (uid)
		memcpy(q.uid, uid, EG_UID);
	else
		snprintf(q.id, sizeof(q.id), "%s", id);
	tell(w, EG_ROLE_API, EG_PA_LEASE, 5, &q, sizeof(q));
	run(w, 2000);
	return w->which.error ? NULL : json_loadfd(w->open_fd, 0, NULL);
}

/* Live, ended, and after a restart, by id and by uid, the same is said. */
static void test_which(void **state)
{
	struct world *w = *state;
	struct eg_ma_end e = {.slot = 3, .generation = 7};
	struct au_lease *l;
	uint8_t uid[EG_UID];
	json_t *live, *j;

	assert_null(which(w, "run-7-plan", NULL));
	assert_int_equal(w->which.error, -ENOENT);
	lease(w, 3, 7, "plan");
	/* its directory must follow from its uid, as it really does */
	l = au_lease_find(&((struct au *)w->ctx.priv)->leases, 3, 7);
	for (int i = 0; i < 6; i++)
		l->uid[i] = (uint8_t)(CREATED / 1000000 >> (40 - 8 * i));
	memcpy(uid, l->uid, EG_UID);
	(void)au_lease_dir(uid, CREATED, l->log.dir);
	live = which(w, "run-7-plan", NULL);
	assert_non_null(live);
	assert_true(w->which.live);
	assert_memory_equal(w->which.uid, uid, EG_UID);
	assert_int_equal(num(live, "generation"), 7);
	end(w, &e);
	for (int round = 0; round < 4; round++) {
		if (round == 2) {
			stop(w);
			start(w);
		}
		j = which(w, "run-7-plan", round % 2 ? uid : NULL);
		assert_non_null(j);
		assert_false(w->which.live);
		assert_memory_equal(w->which.uid, uid, EG_UID);
		assert_true(json_equal(json_object_get(j, "request"),
				       json_object_get(live, "request")));
		json_decref(j);
	}
	json_decref(live);
	uid[15]++;
	assert_null(which(w, NULL, uid));
	assert_int_equal(w->which.error, -ENOENT);
}

#define T(x) cmocka_unit_test_setup_teardown(x, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_dns),	 T(test_rebuilt), T(test_open),
		T(test_restart), T(test_chain),	  T(test_kernel),
		T(test_late),	 T(test_law),	  T(test_frames),
		T(test_policy_text), T(test_policy_text_waits), T(test_which),
	};

	return cmocka_run_group_tests_name("audit/role", tests, NULL, NULL);
}
