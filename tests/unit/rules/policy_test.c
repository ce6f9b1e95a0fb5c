// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: policy programs: lookup, phases, sealed memory, and that every
 * field of a program from a sibling is looked at.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "netpool/base/digest.h"
#include "rules/canon.h"
#include "rules/entry.h"
#include "rules/parse.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static const char policy[] =
	"[policy]\nname = t\n"
	"[host]\nhost = db.internal.example 203.0.113.5\n" /* 0 */
	"[allow]\n"
	"allow = api.example.com tcp/443\n"			  /* 1 */
	"allow = *.one.example.com tcp/8443 max_names=4\n"	  /* 2 */
	"allow = a.one.example.com tcp/443 private=10.1.0.0/16\n" /* 3 */
	"allow = **.many.example.com tcp/443\n"			  /* 4 */
	"allow = *.under.example.com underscore=yes\n"		  /* 5 */
	"allow = ends.example.com until=2027-01-01\n"		  /* 6 */
	"allow = db.internal.example tcp/5432\n"		  /* 7 */
	"allow = 203.0.113.0/24 tcp/22\n"			  /* 8 */
	"allow = deep.er.under.registry.example\n"		  /* 9 */
	"[allow init]\n"
	"allow = registry.example tcp/443\n"	  /* 10 */
	"allow = api.example.com tcp/444,udp/9\n" /* 11 */
	"[allow plan apply]\n"
	"allow = state.example tcp/443 types=A,SRV\n" /* 12 */
	"[deny]\n"
	"deny = evil.many.example.com\n"	      /* 13 */
	"deny = **.bad.many.example.com\n"	      /* 14 */
	"deny = 203.0.113.128/25 until=2027-01-01\n"; /* 15 */

static struct rl_prog *prog;

static struct rl_prog *make(const char *text)
{
	static const struct rl_parse_env env;
	struct eg_err err = {0};
	struct rl_prog *p;

	if (rl_policy_parse(text, strlen(text), "t", &env, &p, NULL, &err))
		fail_msg("%s", err.text);
	return p;
}

static int setup(void **state)
{
	(void)state;
	prog = make(policy);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	free(prog);
	return 0;
}

static struct rl_verdict look(uint32_t phases, const char *text)
{
	struct rl_verdict v;
	struct eg_name n;

	assert_int_equal(eg_name_parse(text, &n, NULL), 0);
	rl_prog_lookup(prog, phases, 1000, &n, &v);
	return v;
}

/* Names as labels with their lengths in front, as a guest may send them. */
static struct rl_verdict look_wire(const char *wire, size_t len)
{
	struct rl_verdict v;
	struct eg_name n;

	assert_true(eg_name_from_wire((const uint8_t *)wire, len, &n) > 0);
	rl_prog_lookup(prog, 0, 1000, &n, &v);
	return v;
}

static void exact(void **state)
{
	struct rl_verdict v = look(0, "api.example.com");

	(void)state;
	assert_true(v.allowed && !v.wildcard && !v.denied && !v.ancestor);
	assert_int_equal(v.entry, 1);
	assert_int_equal(v.nports, 1);
	assert_int_equal(v.port[0].lo, 443);
	assert_int_equal(v.types, RL_TYPES_DEFAULT);
	assert_true(look(0, "API.Example.COM").allowed);
	assert_true(look(0, "api.example.com.").allowed);
	assert_false(look(0, "x.api.example.com").allowed);
	assert_false(look(0, "api.example.com.evil.net").allowed);
	assert_false(look(0, "xapi.example.com").allowed);
	assert_false(look(0, "pi.example.com").allowed);
	assert_true(look_wire("\3ApI\7eXaMpLe\3cOm", 17).allowed);
}

static void ancestors(void **state)
{
	(void)state;
	assert_true(look(0, "example.com").ancestor);
	assert_true(look(0, "com").ancestor);
	assert_true(look(0, "EXAMPLE.com").ancestor);
	assert_true(look(0, "er.under.registry.example").ancestor);
	assert_true(look(0, "registry.example").ancestor); /* until init */
	assert_false(look(2, "registry.example").ancestor);
	assert_true(look(2, "registry.example").allowed);
	assert_false(look(0, "xample.com").ancestor);
	assert_false(look(0, "net").ancestor);
	/* above a wildcard only: nothing is known to exist there */
	assert_false(look(0, "many.example.com").allowed);
	assert_false(look(0, "many.example.com").ancestor);
	assert_false(look(0, "evil.many.example.com").ancestor);
}

static void wildcards(void **state)
{
	struct rl_verdict v = look(0, "x.one.example.com");

	(void)state;
	assert_true(v.allowed && v.wildcard);
	assert_int_equal(v.max_names, 4);
	assert_int_equal(v.entry, 2);
	assert_false(look(0, "one.example.com").allowed);
	assert_false(look(0, "ONE.example.com").allowed);
	assert_false(look(0, "x.y.one.example.com").allowed);
	assert_false(look(0, "xone.example.com").allowed);
	assert_true(look(0, "x.many.example.com").allowed);
	assert_true(look(0, "x.y.z.MANY.example.com").allowed);
	assert_false(look(0, "many.example.com").allowed);
	/* union of an exact name and a wildcard */
	v = look(0, "a.one.example.com");
	assert_true(v.allowed && !v.wildcard);
	assert_int_equal(v.nports, 2);
	assert_int_equal(v.port[0].lo, 443);
	assert_int_equal(v.port[1].lo, 8443);
	assert_int_equal(v.nprivate, 1);
}

static void odd_labels(void **state)
{
	(void)state;
	assert_false(look(0, "a_b.one.example.com").allowed);
	assert_true(look(0, "a_b.under.example.com").allowed);
	/* a dot, a NUL, a blank, a byte above ASCII inside a label */
	assert_false(look_wire("\5a.one\7example\3com", 19).allowed);
	assert_false(look_wire("\3a.b\3one\7example\3com", 21).allowed);
	assert_false(look_wire("\3a\0b\3one\7example\3com", 21).allowed);
	assert_false(look_wire("\3a b\3one\7example\3com", 21).allowed);
	assert_false(look_wire("\3a\303b\3one\7example\3com", 21).allowed);
	assert_false(look_wire("\3a%b\5under\7example\3com", 23).allowed);
	assert_false(look_wire("\14evil.example\3com", 18).allowed);
	assert_false(look_wire("", 1).allowed);
	/* a deny entry covers odd labels as well */
	assert_true(look_wire("\1_\3bad\4many\7example\3com", 24).denied);
}

static void deny_wins(void **state)
{
	struct rl_verdict v = look(0, "evil.many.example.com");

	(void)state;
	assert_true(v.denied && !v.allowed);
	assert_int_equal(v.entry, 13);
	assert_int_equal(v.nports, 0);
	assert_false(look(0, "x.evil.many.example.com").denied);
	assert_true(look(0, "x.y.bad.many.example.com").denied);
	assert_true(look(0, "bad.many.example.com").allowed);
	assert_true(rl_prog_denies(prog, 1000, 0xcb007180));
	assert_false(rl_prog_denies(prog, 1000, 0xcb00717f));
	assert_false(rl_prog_denies(prog, 1800000000, 0xcb007180));
}

static void phases(void **state)
{
	struct rl_verdict v = look(2, "api.example.com"); /* apply, init, plan */
	struct eg_err err = {0};
	uint32_t bits = 99;

	(void)state;
	/* common and init together; 443 and 444 are one range */
	assert_int_equal(v.nports, 2);
	assert_int_equal(v.port[0].hi, 444);
	assert_false(look(0, "state.example").allowed);
	assert_false(look(2, "state.example").allowed);
	assert_true(look(1, "state.example").allowed);
	assert_true(look(4, "state.example").allowed);
	assert_int_equal(look(4, "state.example").types, 5);
	assert_int_equal(rl_prog_phases(prog, "", &bits, &err), 0);
	assert_int_equal(bits, 0);
	assert_int_equal(rl_prog_phases(prog, "init,plan", &bits, &err), 0);
	assert_int_equal(bits, 6);
	assert_int_equal(rl_prog_phases(prog, "apply", &bits, &err), 0);
	assert_int_equal(bits, 1);
	bits = 99;
	assert_int_equal(rl_prog_phases(prog, "init,pl\n", &bits, &err), -EINVAL);
	assert_string_equal(err.text, "policy 't' has no phase 'pl\\x0a'; its "
				      "phases: apply, init, plan");
	assert_int_equal(rl_prog_phases(prog, "init,", &bits, &err), -EINVAL);
	assert_int_equal(rl_prog_phases(prog, ",init", &bits, &err), -EINVAL);
	assert_int_equal(rl_prog_phases(prog, "ini", &bits, &err), -EINVAL);
	assert_int_equal(rl_prog_phases(prog, "preflight", &bits, &err), -EINVAL);
	assert_int_equal(bits, 99);
}

static void until(void **state)
{
	struct rl_verdict v;
	struct eg_name n;
	int64_t end = prog->entry[6].until;

	(void)state;
	assert_int_equal(end, 1798761600);
	assert_int_equal(eg_name_parse("ends.example.com", &n, NULL), 0);
	rl_prog_lookup(prog, 0, end - 1, &n, &v);
	assert_true(v.allowed);
	rl_prog_lookup(prog, 0, end, &n, &v);
	assert_false(v.allowed);
}

static void hosts(void **state)
{
	struct rl_verdict v = look(0, "DB.internal.example");

	(void)state;
	assert_true(v.has_host && v.allowed);
	assert_int_equal(v.host_addr, 0xcb007105);
	assert_int_equal(v.port[0].lo, 5432);
	assert_int_equal(v.entry, 7);
	assert_false(look(0, "api.example.com").has_host);
}

static void ports_union(void **state)
{
	struct eg_port list[4] = {0};
	static const struct eg_port add[] = {
		{6, 0, 10, 20}, {6, 0, 30, 40},	      {17, 0, 1, 1},
		{6, 0, 22, 28}, {6, 0, 65535, 65535},
	};
	uint32_t n = 0;
	struct eg_port join = {6, 0, 21, 29}, same = {6, 0, 12, 13};

	(void)state;
	for (size_t i = 0; i < 4; i++)
		assert_true(rl_ports_add(list, &n, 4, &add[i]));
	assert_int_equal(n, 4);
	assert_false(rl_ports_add(list, &n, 4, &add[4]));
	assert_true(rl_ports_add(list, &n, 4, &same));
	assert_int_equal(n, 4);
	assert_true(rl_ports_add(list, &n, 4, &join));
	assert_int_equal(n, 2);
	assert_int_equal(list[0].lo, 10);
	assert_int_equal(list[0].hi, 40);
	assert_int_equal(list[1].proto, 17);
	assert_true(rl_ports_add(list, &n, 4, &add[4]));
	assert_int_equal(list[1].lo, 65535);
}

static void none(void **state)
{
	const struct rl_prog *p;
	struct eg_err err = {0};
	size_t n = rl_prog_none(&p);
	uint8_t digest[EG_DIGEST];
	struct rl_verdict v;
	struct eg_name name;

	(void)state;
	assert_int_equal(rl_prog_check(p, n, &err), 0);
	assert_string_equal(p->name, "none");
	assert_int_equal(rl_canon_digest(p, digest), 0);
	assert_memory_equal(p->digest, digest, EG_DIGEST);
	assert_int_equal(eg_name_parse("a.example", &name, NULL), 0);
	rl_prog_lookup(p, RL_PHASES_ALL, 0, &name, &v);
	assert_false(v.allowed || v.denied || v.ancestor);
}

/* The text a program carries is the one its digest is of. */
static void carries_its_text(void **state)
{
	const struct rl_prog *none_p;
	uint8_t digest[EG_DIGEST];
	const char *text;
	size_t len;

	(void)state;
	text = rl_prog_text(prog, &len);
	assert_true(len && rl_canon_is(text, len));
	assert_ptr_equal(text + len, (const char *)prog + prog->size);
	eg_sha256_of(text, len, digest);
	assert_memory_equal(digest, prog->digest, EG_DIGEST);
	(void)rl_prog_none(&none_p);
	(void)rl_prog_text(none_p, &len);
	assert_int_equal(len, 0);
	assert_false(rl_canon_is("[policy]", 8) || rl_canon_is("", 0));
}

static void sealed(void **state)
{
	const struct rl_prog *map = NULL;
	struct eg_err err = {0};
	int fd = rl_prog_seal(prog), bare;

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	assert_true(write(fd, "x", 1) < 0);
	assert_true(ftruncate(fd, 0) < 0);
	assert_int_equal(rl_prog_map(fd, &map, &err), 0);
	assert_memory_equal(map, prog, prog->size);
	rl_prog_unmap(map);
	rl_prog_unmap(NULL);
	close(fd);

	map = NULL;
	bare = memfd_create("x", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_int_equal(write(bare, prog, prog->size), prog->size);
	assert_int_equal(rl_prog_map(bare, &map, &err), -EBADMSG);
	assert_non_null(strstr(err.text, "not in sealed memory"));
	assert_int_equal(fcntl(bare, F_ADD_SEALS,
			       F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW),
			 0);
	assert_int_equal(rl_prog_map(bare, &map, &err), -EBADMSG);
	close(bare);
	bare = memfd_create("x", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_int_equal(
		fcntl(bare, F_ADD_SEALS,
		      F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE),
		0);
	assert_int_equal(rl_prog_map(bare, &map, &err), -EBADMSG);
	close(bare);
	bare = open("/dev/null", O_RDONLY | O_CLOEXEC);
	assert_int_equal(rl_prog_map(bare, &map, &err), -EBADMSG);
	close(bare);
	assert_null(map);
}

/* ---- a sibling that lies -------------------------------------------------- */

static struct rl_prog *copy;

#define LIE(field, value, want)                                                \
	do {                                                                   \
		struct eg_err err_ = {0};                                      \
		memcpy(copy, prog, prog->size);                                \
		copy->field = (value);                                         \
		assert_int_equal(rl_prog_check(copy, prog->size, &err_),       \
				 -EBADMSG);                                    \
		if (!strstr(err_.text, want))                                  \
			fail_msg(#field ": '%s'", err_.text);                  \
	} while (0)

static void lies_head(void **state)
{
	struct eg_err err = {0};

	(void)state;
	copy = malloc(prog->size);
	LIE(magic, 1, "magic");
	LIE(version, 2, "version");
	LIE(size, 1, "size");
	LIE(nentries, prog->nentries + 1, "size");
	LIE(nentries, UINT32_MAX, "nentries");
	LIE(nphases, 17, "nphases");
	LIE(nphases, 4, "phase 3");
	LIE(nphases, 2, "phases of entry 12");
	LIE(name[0], '/', "name");
	free(copy);
	copy = NULL;
	assert_int_equal(rl_prog_check(prog, 8, &err), -EBADMSG);
	assert_int_equal(rl_prog_check(prog, prog->size - 1, &err), -EBADMSG);
}

static void lies_text(void **state)
{
	(void)state;
	copy = malloc(prog->size);
	memcpy(copy, prog, prog->size);
	memset(copy->name, 'a', sizeof(copy->name));
	assert_int_equal(rl_prog_check(copy, prog->size, NULL), -EBADMSG);
	memcpy(copy, prog, prog->size);
	memset(copy->description, 'a', sizeof(copy->description));
	assert_int_equal(rl_prog_check(copy, prog->size, NULL), -EBADMSG);
	memcpy(copy, prog, prog->size);
	memset(copy->phase[0], 'a', sizeof(copy->phase[0]));
	assert_int_equal(rl_prog_check(copy, prog->size, NULL), -EBADMSG);
	memcpy(copy, prog, prog->size);
	memset(copy->entry[1].why, 'a', sizeof(copy->entry[1].why));
	assert_int_equal(rl_prog_check(copy, prog->size, NULL), -EBADMSG);
	LIE(description[0], '\n', "description");
	LIE(text_len, 1, "size");
	LIE(text_len, UINT64_MAX, "text_len");
	LIE(phase[1][0], 'X', "phase 1");
	LIE(entry[1].why[0], 0x1b, "why of entry 1");
	free(copy);
}

static void lies_entries(void **state)
{
	(void)state;
	copy = malloc(prog->size);
	LIE(entry[1].kind, RL_KIND_COUNT, "kind of entry 1");
	LIE(entry[1].flags, 0x80, "flags of entry 1");
	LIE(entry[0].flags, RL_F_DENY, "flags of entry 0");
	LIE(entry[1].phases, 0, "phases of entry 1");
	LIE(entry[1].phases, 8, "phases of entry 1");
	LIE(entry[13].phases, 1, "phases of entry 13");
	LIE(entry[1].nports, 9, "ports of entry 1");
	LIE(entry[1].nports, 0, "ports of entry 1");
	LIE(entry[13].nports, 1, "ports of entry 13");
	LIE(entry[1].port[0].lo, 0, "ports of entry 1");
	LIE(entry[1].port[0].lo, 444, "ports of entry 1");
	LIE(entry[1].port[0].lo, 53, "ports of entry 1");
	free(copy);
}

static void lies_more(void **state)
{
	(void)state;
	copy = malloc(prog->size);
	LIE(entry[1].port[0].hi, 500, "ports of entry 1");
	LIE(entry[1].port[0].proto, 47, "ports of entry 1");
	LIE(entry[1].port[0].pad, 1, "ports of entry 1");
	LIE(entry[3].nprivate, 5, "private of entry 3");
	LIE(entry[3].private[0].len, 33, "private of entry 3");
	LIE(entry[3].private[0].len, 8, "private of entry 3");
	LIE(entry[8].nprivate, 1, "private of entry 8");
	LIE(entry[1].tls, 3, "tls of entry 1");
	LIE(entry[1].types, 64, "types of entry 1");
	LIE(entry[1].max_names, 1, "max_names of entry 1");
	LIE(entry[2].max_names, 65536, "max_names of entry 2");
	LIE(entry[1].until, -1, "until of entry 1");
	LIE(entry[1].until, INT64_MAX, "until of entry 1");
	LIE(entry[8].dst.len, 33, "dst of entry 8");
	LIE(entry[8].dst.addr, 1, "dst of entry 8");
	LIE(entry[0].dst.len, 31, "dst of entry 0");
	LIE(entry[1].name.len, 0, "name of entry 1");
	LIE(entry[1].name.len, 255, "name of entry 1");
	LIE(entry[1].name.len, 16, "name of entry 1");
	LIE(entry[1].name.wire[0], 0, "name of entry 1");
	LIE(entry[1].name.wire[0], 64, "name of entry 1");
	LIE(entry[1].name.wire[0], 0xc0, "name of entry 1");
	LIE(entry[1].name.wire[1], 'A', "name of entry 1");
	LIE(entry[1].name.wire[1], '.', "name of entry 1");
	LIE(entry[1].name.wire[16], 1, "name of entry 1");
	free(copy);
}

/* Any single octet changed: never a crash, whatever the check says. */
static void any_octet(void **state)
{
	struct rl_verdict v;
	struct eg_name n;

	(void)state;
	copy = malloc(prog->size);
	assert_int_equal(eg_name_parse("x.y.many.example.com", &n, NULL), 0);
	for (size_t i = 0; i < prog->size; i++) {
		static const uint8_t flip[] = {0xff, 0x01, 0x80};

		for (size_t k = 0; k < sizeof(flip); k++) {
			memcpy(copy, prog, prog->size);
			((uint8_t *)copy)[i] ^= flip[k];
			if (!rl_prog_check(copy, prog->size, NULL))
				rl_prog_lookup(copy, 7, 0, &n, &v);
		}
	}
	free(copy);
}

static void digests(void **state)
{
	char text[EG_DIGEST_TEXT];
	uint8_t d[EG_DIGEST], back[EG_DIGEST];
	struct eg_sha256 h;

	(void)state;
	eg_sha256_of("abc", 3, d); /* FIPS 180-2, B.1 */
	assert_string_equal(eg_digest_format(d, text),
			    "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396"
			    "177a9cb410ff61f20015ad");
	eg_sha256_init(&h);
	eg_sha256_add(&h, "a", 1);
	eg_sha256_add(&h, "bc", 2);
	eg_sha256_done(&h, back);
	assert_memory_equal(d, back, EG_DIGEST);
	memset(back, 0, sizeof(back));
	assert_true(eg_digest_parse(text, back));
	assert_memory_equal(d, back, EG_DIGEST);
	text[10] = 'G';
	assert_false(eg_digest_parse(text, back));
	assert_false(eg_digest_parse("sha256:", back));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(exact),       cmocka_unit_test(ancestors),
		cmocka_unit_test(wildcards),   cmocka_unit_test(odd_labels),
		cmocka_unit_test(deny_wins),   cmocka_unit_test(phases),
		cmocka_unit_test(until),       cmocka_unit_test(hosts),
		cmocka_unit_test(ports_union), cmocka_unit_test(none),
		cmocka_unit_test(carries_its_text),
		cmocka_unit_test(sealed),      cmocka_unit_test(lies_head),
		cmocka_unit_test(lies_text),   cmocka_unit_test(lies_entries),
		cmocka_unit_test(lies_more),   cmocka_unit_test(any_octet),
		cmocka_unit_test(digests),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
