// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd: policies: every refusal with its place, canonical text against
 * golden files, what a host permits.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "netpool/conf_key.h"
#include "rules/canon.h"
#include "rules/entry.h"
#include "rules/parse.h"

#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct eg_conf *conf;
static struct rl_warnings warnings;
static struct rl_parse_env env;

static int setup(void **state)
{
	const char *deny = np_conf_deny_builtin();

	(void)state;
	conf = calloc(1, sizeof(*conf));
	conf->prefix = (struct eg_prefix){0x0ac80000, 16};
	conf->link_prefix = (struct eg_prefix){0x0ac90000, 24};
	env = (struct rl_parse_env){.conf = conf, .now = 1800000000};
	return np_conf_deny_parse(conf, "builtin", deny, strlen(deny), NULL);
}

static int teardown(void **state)
{
	(void)state;
	free(conf);
	return 0;
}

static struct rl_prog *accepts(const char *text)
{
	struct eg_err err = {0};
	struct rl_prog *p = NULL;
	int rc = rl_policy_parse(text, strlen(text), "p", &env, &p, &warnings,
				 &err);

	if (rc)
		fail_msg("refused: %s", err.text);
	assert_int_equal(rl_prog_check(p, p->size, &err), 0);
	return p;
}

static void refuses(const char *text, const char *want)
{
	struct eg_err err = {0};
	struct rl_prog *p = NULL;
	int rc = rl_policy_parse(text, strlen(text), "p", &env, &p, &warnings,
				 &err);

	if (!rc)
		fail_msg("accepted: %s", text);
	assert_null(p);
	assert_int_equal(rc, err.code);
	if (strncmp(err.text, want, strlen(want)))
		fail_msg("'%s' does not begin with '%s'", err.text, want);
}

/* "[allow]\nallow = ENTRY": line 2, entries begin in column 9. */
static void refuses_allow(const char *entry, const char *want)
{
	char text[2048];

	(void)snprintf(text, sizeof(text), "[allow]\nallow = %s\n", entry);
	refuses(text, want);
}

static struct rl_prog *accepts_allow(const char *entry)
{
	char text[2048];

	(void)snprintf(text, sizeof(text), "[allow]\nallow = %s\n", entry);
	return accepts(text);
}

static bool warned(const char *what)
{
	for (uint32_t i = 0; i < warnings.n; i++)
		if (strstr(warnings.w[i].text, what))
			return true;
	return false;
}

static void sections(void **state)
{
	(void)state;
	refuses("[alow]\n", "p:1:2: there is no section [alow]; did you mean "
			    "[allow]?");
	refuses("[zz]\n", "p:1:2: there is no section [zz]; sections are [pol");
	refuses("[deny init]\n", "p:1:7: [deny] counts in every phase");
	refuses("[host init]\n", "p:1:7: [host] counts in every phase");
	refuses("[allow Init]\n", "p:1:8: 'Init' is not a phase");
	refuses("[allow a 9]\n", "p:1:10: '9' is not a phase");
	refuses("[allow a a]\n", "p:1:10: phase 'a' stands twice");
	refuses("[allow preflight]\n", "p:1:8: phase 'preflight' is built in");
	refuses("[allow aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa]\n",
		"p:1:8: 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa' is not a phase");
	refuses("[allow a b c d e f g h]\n[allow i j k l m n o p q]\n",
		"p:2:24: 'q' is phase 17; a policy has 16 at most");
	refuses("[allow a b c d e f g h i j k l m n o p]\n",
		"p:1:2: the section names all 16 phases");
	refuses("[allow]\ndeny = a.example\n", "p:2:1: [allow] has no key");
	refuses("[deny]\nallow = a.example\n", "p:2:1: [deny] has no key");
	refuses("[policy]\nnam = x\n", "p:2:1: [policy] has no key 'nam'; did");
	refuses("[policy]\nzzzzzz = x\n", "p:2:1: [policy] has no key 'zzzzzz'");
	refuses("[policy]\nname = a b\n", "p:2:8: 'a b' is not a policy's");
	refuses("[policy]\nname = none\n", "p:2:8: policy 'none' is built in");
	refuses("[policy]\nname = a\nname = a\n", "p:3:1: the name stands");
	env.name = "stem";
	refuses("[policy]\nname = a\n", "p:2:8: the name is 'a' but the file");
	free(accepts("[policy]\nname = stem\n"));
	env.name = NULL;
}

static void destinations(void **state)
{
	static const struct {
		const char *entry, *want;
	} bad[] = {
		{"", "p:2:8: the destination is missing"},
		{"*", "p:2:9: '*': a wildcard is the whole first label"},
		{"**", "p:2:9: '**': a wildcard is the whole"},
		{"*.", "p:2:9: '*.': a wildcard is the whole"},
		{"*.com", "p:2:9: '*.com' would cover a whole top-level"},
		{"**.com", "p:2:9: '**.com' would cover a whole top-level"},
		{"*.co.uk", "p:2:9: '*.co.uk' would cover every registrant"},
		{"foo*.example.com", "p:2:9: 'foo*.example.com': a wildcard"},
		{"a.*.example.com", "p:2:9: 'a.*.example.com': a wildcard"},
		{"*example.com", "p:2:9: '*example.com': a wildcard"},
		{"*.*.example.com", "p:2:9: '*.*.example.com': a wildcard"},
		{"***.example.com", "p:2:9: '***.example.com': a wildcard"},
		{"localdomain", "p:2:9: 'localdomain' is a single label"},
		{"a..example", "p:2:9: a label of the name is empty"},
		{".example.com", "p:2:9: a label of the name is empty"},
		{"a b.example", "p:2:9: 'a' is a single label"},
		{"a.b.example c.example", "p:2:21: 'c.example' is not a"},
		{"a!.example", "p:2:9: character '!' (0x21) cannot be"},
		{"-a.example", "p:2:9: a label of '-a.example' begins or"},
		{"a-.example", "p:2:9: a label of 'a-.example' begins or"},
		{"10.0.0.0.1", "p:2:9: '10.0.0.0.1' is not an IPv4 prefix"},
		{"10.0.0", "p:2:9: '10.0.0' is not an IPv4 prefix"},
		{"010.1.1.1", "p:2:9: '010.1.1.1' is not an IPv4 prefix"},
		{"a.0x7f", "p:2:9: 'a.0x7f' ends in a number"},
		{"0x7f.1", "p:2:9: '0x7f.1' ends in a number"},
		{"203.0.113.1/24", "p:2:9: '203.0.113.1/24' has host bits"},
		{"203.0.113.1/33", "p:2:9: '203.0.113.1/33' is not an IPv4"},
		{"::1", "p:2:9: '::1' is IPv6"},
		{"[::1]:443", "p:2:9: '[::1]:443' is IPv6"},
		{"https://a.example/", "p:2:9: 'https://a.example/' is a URL"},
		{"a.example:443", "p:2:9: 'a.example:443' joins host and port; "
				  "write 'a.example tcp/443'"},
		{"a.example/x", "p:2:9: 'a.example/x' holds a '/'"},
		{"b\xc3\xbc"
		 "cher.example",
		 "p:2:9: the name is not ASCII; write its A-label: "
		 "xn--bcher-kva.example"},
		{"*.\xe4\xbe\x8b\xe3\x81\x88.\xe3\x83\x86\xe3\x82\xb9\xe3\x83"
		 "\x88",
		 "p:2:9: the name is not ASCII; write its A-label: "
		 "*.xn--r8jz45g.xn--zckzah"},
		{"a.localhost", "p:2:9: 'a.localhost' cannot be allowed: it"},
		{"*.x.onion", "p:2:9: '*.x.onion' cannot be allowed"},
		{"metadata.google.internal", "p:2:9: 'metadata.google.intern"},
		{"METADATA.google.internal.", "p:2:9: 'METADATA.google.inter"},
		{"x.metadata.goog", "p:2:9: 'x.metadata.goog' can never be"},
		{"*.metadata.google.internal", "p:2:9: '*.metadata.google.in"},
		{"169.254.169.254", "p:2:9: 169.254.169.254/32 can never be "
				    "allowed: it lies in 169.254.169.254/32, "
				    "which is metadata"},
		{"169.254.1.0/24", "p:2:9: 169.254.1.0/24 can never be"},
		{"127.0.0.1 tcp/80", "p:2:9: 127.0.0.1/32 can never be"},
		{"10.200.4.2", "p:2:9: 10.200.4.2/32 can never be allowed: it "
			       "lies in the pool's own prefix"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		refuses_allow(bad[i].entry, bad[i].want);
	free(accepts("[deny]\ndeny = com\ndeny = **.com\ndeny = 0.0.0.0/0\n"
		     "deny = 169.254.169.254\ndeny = metadata.goog\n"));
	free(accepts_allow("_dmarc.example.com types=TXT"));
}

static void long_names(void **state)
{
	char text[400];

	(void)state;
	memset(text, 'a', sizeof(text));
	memcpy(text + 64, ".example", 9);
	refuses_allow(text, "p:2:9: label 'aaaaaaaaaaaaaaaaaaaa...' is longer");
	memset(text, 'a', sizeof(text));
	for (int i = 63; i < 256; i += 64)
		text[i] = '.';
	text[254] = '\0';
	refuses_allow(text, "p:2:9: the name is longer than 255 octets");
	text[253] = '\0'; /* exactly 255 in wire form */
	free(accepts_allow(text));
	memmove(text + 2, text, 254);
	memcpy(text, "*.", 2);
	refuses_allow(text, "p:2:9: '*.aaaa");
}

static void ports(void **state)
{
	struct rl_prog *p;

	(void)state;
	refuses_allow("a.example 443", "p:2:19: '443' is not a");
	refuses_allow("a.example http", "p:2:19: 'http' is not a protocol");
	refuses_allow("a.example tcp/0", "p:2:19: 'tcp/0' names port 0");
	refuses_allow("a.example tcp/65536", "p:2:19: 'tcp/65536' is not");
	refuses_allow("a.example tcp/", "p:2:19: 'tcp/' is not a protocol");
	refuses_allow("a.example tcp/443,", "p:2:27: '' is not a protocol");
	refuses_allow("a.example tcp/443, tcp/80", "p:2:27: '' is not");
	refuses_allow("a.example tcp/443 tcp/80", "p:2:27: 'tcp/80' is not an "
						  "option; ports come once");
	refuses_allow("a.example tls=any tcp/80", "p:2:27: 'tcp/80' is not");
	refuses_allow("a.example tcp/90-80", "p:2:19: the range in 'tcp/90-80'");
	refuses_allow("a.example tcp/53", "p:2:19: 'tcp/53' names port 53");
	refuses_allow("a.example udp/50-60", "p:2:19: 'udp/50-60' names port 5");
	refuses_allow("203.0.113.0/24 tcp/1-65535", "p:2:24: 'tcp/1-65535' name");
	refuses_allow("a.example 17/53", "p:2:19: '17/53' names port 53");
	refuses_allow("a.example gre/1", "p:2:19: 'gre/1' is not a protocol");
	refuses_allow("a.example 47/1", "p:2:19: '47/1' is not a protocol");
	refuses_allow("a.example icmp/256", "p:2:19: 'icmp/256' is not an ICMP");
	refuses_allow("a.example icmp/1-3", "p:2:19: 'icmp/1-3' is not an ICMP");
	refuses_allow("a.example tcp/1000-1016", "p:2:19: a name takes at most "
						 "16 ports, not 17");
	refuses_allow("a.example tcp/1,tcp/3,tcp/5,tcp/7,tcp/9,tcp/11,tcp/13,"
		      "tcp/15,tcp/17",
		      "p:2:70: more than 8 ports and ranges");
	refuses("[deny]\ndeny = a.example tcp/80\n",
		"p:2:18: a deny entry takes");
	p = accepts_allow("203.0.113.0/24 udp/1000-9000,6/22,443/TCP,icmp/8,"
			  "udp/9001,tcp/23");
	assert_int_equal(p->entry[0].nports, 4);
	assert_int_equal(p->entry[0].port[0].proto, 1);
	assert_int_equal(p->entry[0].port[1].lo, 22);
	assert_int_equal(p->entry[0].port[1].hi, 23);
	assert_int_equal(p->entry[0].port[3].hi, 9001);
	free(p);
	p = accepts_allow("a.example");
	assert_int_equal(p->entry[0].port[0].proto, 6);
	assert_int_equal(p->entry[0].port[0].lo, 443);
	free(p);
}

static void options(void **state)
{
	struct rl_prog *p;

	(void)state;
	refuses_allow("a.example hodl=run", "p:2:19: there is no option 'hodl'; "
					    "did you mean hold=?");
	refuses_allow("a.example zzzzzz=1", "p:2:19: there is no option 'zzzzzz");
	refuses_allow("a.example hold=run hold=run", "p:2:28: hold= stands twic");
	refuses_allow("a.example hold=ever", "p:2:19: hold=ever: hold=run is");
	refuses_allow("a.example chain=x", "p:2:19: chain=x: chain=listed is");
	refuses_allow("a.example max_names=4", "p:2:19: max_names= has no mean");
	refuses_allow("*.a.example max_names=0", "p:2:21: max_names=0 is not a");
	refuses_allow("*.a.example max_names=65536", "p:2:21: max_names=65536 is");
	refuses_allow("a.example types=A,PTR", "p:2:19: types=: 'PTR' is none");
	refuses_allow("a.example types=", "p:2:19: types=: '' is none of A");
	refuses_allow("a.example tls=maybe", "p:2:19: tls=maybe is neither sni");
	refuses_allow("a.example underscore=yes", "p:2:19: underscore= has no");
	refuses_allow("*.a.example underscore=1", "p:2:21: '1' is neither yes");
	refuses_allow("a.example until=tomorrow", "p:2:19: until=tomorrow is");
	refuses_allow("a.example until=2027-02-30", "p:2:19: until=2027-02-30 i");
	refuses_allow("a.example until=2027-3-1", "p:2:19: until=2027-3-1 is");
	refuses_allow("a.example why=", "p:2:19: why= takes 1 to 119 bytes");
	refuses_allow("203.0.113.1 tls=sni", "p:2:21: tls= has no meaning for "
					     "an address");
	refuses_allow("203.0.113.1 private=10.0.0.0/8", "p:2:21: private= has");
	refuses_allow("a.example private=10.3.0.1/24", "p:2:19: '10.3.0.1/24' ");
	refuses_allow("a.example private=169.254.0.0/16", "p:2:19: private=169");
	refuses_allow("a.example private=100.64.0.0/10", "p:2:19: private=100.6");
	refuses_allow("a.example private=10.1.0.0/16,10.2.0.0/16,10.3.0.0/16,"
		      "10.4.0.0/16,10.5.0.0/16",
		      "p:2:19: private= takes at most 4 prefixes");
	refuses("[deny]\ndeny = a.example tls=sni\n",
		"p:2:18: tls= has no meaning for a deny entry");
	p = accepts_allow("*.a.example tcp/8443 until=2027-03-01 max_names=16 "
			  "why=it is = so, tcp/1 ; not this");
	assert_string_equal(p->entry[0].why, "it is = so, tcp/1");
	assert_int_equal(p->entry[0].until, 1803859200);
	assert_int_equal(p->entry[0].max_names, 16);
	assert_int_equal(warnings.n, 0);
	free(p);
	free(accepts_allow("a.example until=2020-01-01"));
	assert_true(warned("ended with until=2020-01-01"));
}

static void hosts(void **state)
{
	(void)state;
	refuses("[host]\nhost = db.example\n", "p:2:18: the address is missing");
	refuses("[host]\nhost = 10.3.0.1 db.example\n", "p:2:8: [host] wants");
	refuses("[host]\nhost = *.db.example 10.3.0.1\n", "p:2:8: '*.db.exampl");
	refuses("[host]\nhost = db.example 10.3.0.0/24\n", "p:2:19: '10.3.0.0/");
	refuses("[host]\nhost = db.example 169.254.169.254\n",
		"p:2:19: 169.254.169.254/32 can never be allowed");
	refuses("[host]\nhost = db.example 10.3.0.1 tcp/1\n",
		"p:2:28: a host entry takes no ports");
	refuses("[host]\nhost = db.example 10.3.0.1\n",
		"p:2:1: host db.example has no allow entry, so nothing could "
		"be reached there; add: allow = db.example tcp/443 "
		"private=10.3.0.1");
	refuses("[host]\nhost = db.example 10.3.0.1\n[allow]\n"
		"allow = db.example\n",
		"p:2:1: host db.example is at 10.3.0.1, a private address");
	refuses("[host]\nhost = db.example 203.0.113.1\n"
		"host = db.example 203.0.113.2\n[allow]\nallow = db.example\n",
		"p:2:1: host db.example has another address in line 3");
	free(accepts("[host]\nhost = db.example 203.0.113.1\n[allow x]\n"
		     "allow = *.db.example\nallow = db.example\n"));
}

static void warns(void **state)
{
	(void)state;
	free(accepts_allow("0.0.0.0/0"));
	assert_true(warned("the whole Internet"));
	free(accepts_allow("203.0.0.0/12"));
	assert_true(warned("203.0.0.0/12 is very broad"));
	free(accepts_allow("**.amazonaws.com"));
	assert_true(warned("anybody's S3 buckets"));
	free(accepts_allow("*.githubusercontent.com"));
	assert_true(warned("what GitHub users store"));
	free(accepts_allow("webhook.site"));
	assert_true(warned("anybody's collector"));
	free(accepts_allow("dc1.corp.local"));
	assert_true(warned("under .local"));
	free(accepts_allow("a.example types=A,TXT"));
	assert_true(warned("types=TXT"));
	free(accepts("[deny]\ndeny = a.example\n"));
	assert_true(warned("allows nothing"));
	free(accepts("[allow]\nallow = x.a.example\n[deny]\n"
		     "deny = **.a.example\n"));
	assert_true(warned("x.a.example is never allowed: the deny entry in "
			   "line 4 wins"));
	free(accepts_allow("ec2.us-east-1.amazonaws.com"));
	assert_int_equal(warnings.n, 0);
}

/* ---- includes ------------------------------------------------------------ */

static int include(void *arg, const char *name, const char **ret_text,
		   size_t *ret_len, struct eg_err *err)
{
	static const struct {
		const char *name, *text;
	} texts[] = {
		{"base", "[policy]\nname = base\ndescription = of base\n"
			 "[allow init]\nallow = base.example\n"},
		{"loop", "[policy]\ninclude = loop2\n"},
		{"loop2", "[policy]\ninclude = loop\n"},
		{"me", "[policy]\ninclude = self\n"},
		{"broken", "[allow]\n\nallow = nope\n"},
	};

	(void)arg;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		if (strcmp(texts[i].name, name))
			continue;
		*ret_text = texts[i].text;
		*ret_len = strlen(texts[i].text);
		return 0;
	}
	return eg_err_set(err, -ENOENT, "there is no policy '%s'", name);
}

static void includes(void **state)
{
	struct rl_prog *p;

	(void)state;
	refuses("[policy]\ninclude = base\n", "p:2:11: include = base: there "
					      "are no named policies here");
	env.include = include;
	p = accepts("[policy]\nname = self\n[allow]\nallow = a.example\n"
		    "[policy]\ninclude = base\n[allow init]\n"
		    "allow = b.example\n");
	assert_string_equal(p->name, "self");
	assert_string_equal(p->description, "");
	assert_int_equal(p->nentries, 3);
	assert_int_equal(p->nphases, 1);
	assert_int_equal(p->entry[1].line, 6);
	assert_int_equal(p->entry[1].phases, 1);
	assert_int_equal(p->entry[2].line, 8);
	free(p);
	refuses("[policy]\ninclude = gone\n",
		"p:2:11: include = gone: there is no policy 'gone'");
	refuses("[policy]\ninclude = none\n", "p:2:11: 'none' is not the name");
	refuses("[policy]\ninclude = ../x\n", "p:2:11: '../x' is not the name");
	refuses("[policy]\ninclude = loop\n",
		"loop2.policy:2:11: include = loop: the policy would include");
	refuses("[policy]\nname = self\ninclude = me\n",
		"me.policy:2:11: include = self: the policy would include");
	refuses("[policy]\ninclude = broken\n",
		"broken.policy:3:9: 'nope' is a single label");
	env.include = NULL;
}

/* ---- what the host permits ----------------------------------------------- */

static void permit(uint32_t addr, uint8_t len, uint16_t lo, uint16_t hi,
		   const char *tenants, bool host)
{
	struct eg_conf_permit *p =
		host ? &conf->permit_host[conf->permits_host++]
		     : &conf->permit_private[conf->permits_private++];

	*p = (struct eg_conf_permit){
		.dst = {addr, len}, .proto = 6, .lo = lo, .hi = hi};
	(void)snprintf(p->tenants, sizeof(p->tenants), "%s", tenants);
}

static void permitted(const char *entry, const char *tenant, const char *want)
{
	struct rl_prog *p = accepts_allow(entry);
	struct eg_err err = {0};
	int rc = rl_policy_permitted(p, conf, tenant, &err);

	if (rc && !want)
		fail_msg("not permitted: %s", err.text);
	if (want) {
		assert_int_equal(rc, -EPERM);
		if (!strstr(err.text, want))
			fail_msg("'%s' does not say '%s'", err.text, want);
	}
	free(p);
}

static void permits(void **state)
{
	(void)state;
	permitted("a.example", "", NULL);
	permitted("203.0.113.0/24", "", NULL);
	permitted("0.0.0.0/0", "", NULL); /* the kernel takes it apart */
	permitted("10.3.0.10 tcp/6443", "",
		  "line 2: the entry needs 10.3.0.10/32 on tcp/6443, which "
		  "this host does not permit; egressd.conf would need: "
		  "permit_private = 10.3.0.10/32 tcp/6443");
	permit(0x0a030000, 24, 6443, 6450, "acme,beta", false);
	permit(0x0a030000, 24, 6451, 6460, "beta", false);
	permitted("10.3.0.10 tcp/6443", "acme", NULL);
	permitted("10.3.0.10 tcp/6443", "beta", NULL);
	permitted("10.3.0.10 tcp/6443", "bet", "to tenant bet;");
	permitted("10.3.0.10 tcp/6443", "", "permit_private =");
	permitted("10.3.0.10 udp/6443", "acme", "on udp/6443");
	permitted("10.3.0.10 tcp/6443-6460", "beta", NULL);
	permitted("10.3.0.10 tcp/6443-6460", "acme", "tcp/6443-6460");
	permitted("10.3.0.0/23 tcp/6443", "acme", "10.3.0.0/23");
	permitted("k8s.internal tcp/6443 private=10.3.0.0/25", "acme", NULL);
	/* wider than the host permits: answers have to lie in both */
	permitted("k8s.internal tcp/6443 private=10.3.0.0/16", "acme", NULL);
	permitted("k8s.internal tcp/6443 private=10.3.0.0/25,10.4.0.0/16",
		  "acme", "k8s.internal needs 10.4.0.0/16 on tcp/6443");
	permitted("10.201.0.1 tcp/8081", "", "permit_host = 10.201.0.1/32 tcp");
	permit(0x0ac90001, 32, 8081, 8081, "", true);
	permitted("10.201.0.1 tcp/8081", "", NULL);
	permitted("10.201.0.1 tcp/8082", "", "permit_host");
	conf->permits_private = conf->permits_host = 0;
}

/* ---- golden files -------------------------------------------------------- */

static char *slurp(const char *path)
{
	char *text = calloc(1, RL_POLICY_TEXT);
	FILE *f = fopen(path, "re");

	if (!f)
		fail_msg("cannot open %s", path);
	assert_true(fread(text, 1, RL_POLICY_TEXT - 1, f) < RL_POLICY_TEXT);
	(void)fclose(f);
	return text;
}

static void golden_one(const char *path)
{
	char *text = slurp(path), *canon, *again, want[256];
	struct rl_prog *p, *q;
	size_t len;

	p = accepts(text);
	assert_int_equal(rl_canon_text(p, &canon, &len), 0);
	q = accepts(canon); /* it is a policy itself */
	assert_int_equal(rl_canon_text(q, &again, &len), 0);
	assert_string_equal(canon, again);
	assert_memory_equal(p->digest, q->digest, EG_DIGEST);
	(void)snprintf(want, sizeof(want), "%.*s.canon",
		       (int)(strlen(path) - strlen(".policy")), path);
	if (getenv("GOLDEN_WRITE")) {
		FILE *f = fopen(want, "we");

		assert_non_null(f);
		assert_true(fputs(canon, f) >= 0);
		assert_int_equal(fclose(f), 0);
	}
	free(text);
	text = slurp(want);
	if (strcmp(text, canon))
		fail_msg("%s differs; got:\n%s", want, canon);
	free(text);
	free(canon);
	free(again);
	free(p);
	free(q);
}

static void golden(void **state)
{
	glob_t g;

	(void)state;
	assert_int_equal(glob("tests/golden/rules/*.policy", 0, NULL, &g), 0);
	for (size_t i = 0; i < g.gl_pathc; i++)
		golden_one(g.gl_pathv[i]);
	globfree(&g);
	/* shipped policies parse too */
	assert_int_equal(glob("conf/policy.d/*.policy", 0, NULL, &g), 0);
	for (size_t i = 0; i < g.gl_pathc; i++) {
		char *text = slurp(g.gl_pathv[i]);

		free(accepts(text));
		free(text);
	}
	globfree(&g);
}

/* Inputs that once broke something: refused, or stable as canonical text. */
static void bogons(void **state)
{
	struct eg_err err;
	glob_t g;

	(void)state;
	assert_int_equal(glob("tests/bogons/policy/*", 0, NULL, &g), 0);
	for (size_t i = 0; i < g.gl_pathc; i++) {
		char *text = slurp(g.gl_pathv[i]), *canon;
		struct rl_prog *p, *q;
		size_t len;

		if (rl_policy_parse(text, strlen(text), "p", &env, &p, NULL,
				    &err)) {
			free(text);
			continue;
		}
		assert_int_equal(rl_canon_text(p, &canon, &len), 0);
		q = accepts(canon);
		assert_memory_equal(p->digest, q->digest, EG_DIGEST);
		free(text);
		free(canon);
		free(p);
		free(q);
	}
	globfree(&g);
}

static void same_meaning_same_digest(void **state)
{
	struct rl_prog *p, *q;

	(void)state;
	p = accepts("[allow a]\nallow = X.example 80/tcp,443/tcp\n"
		    "[allow]\nallow = y.example.\n[allow b]\n");
	q = accepts("# other\n[allow b]\n[allow]\nallow=y.example tcp/443\n"
		    "[allow a]\nallow = y.example\n"
		    "allow = x.example tcp/443,tcp/80\n");
	assert_memory_equal(p->digest, q->digest, EG_DIGEST);
	/* so one may stand for the other: the same bits mean the same */
	assert_memory_equal(p->phase, q->phase, sizeof(p->phase));
	assert_string_equal(p->phase[0], "a");
	free(q);
	q = accepts("[allow a]\nallow = x.example tcp/443,tcp/81\n"
		    "[allow]\nallow = y.example\n[allow b]\n");
	assert_memory_not_equal(p->digest, q->digest, EG_DIGEST);
	free(p);
	free(q);
}

/* Larger than a policy file may be, and read back all the same. */
static void written_out(const struct rl_prog *p)
{
	struct rl_prog *again = NULL;
	struct eg_err err = {0};
	size_t len;
	const char *text = rl_prog_text(p, &len);

	assert_true(len > RL_POLICY_TEXT);
	assert_int_equal(rl_policy_parse(text, len, "p", &env, &again, NULL,
					 &err),
			 0);
	assert_memory_equal(again->digest, p->digest, EG_DIGEST);
	free(again);
}

static void large(void **state)
{
	char *text = malloc(RL_POLICY_TEXT + 64);
	struct rl_prog *p = NULL;
	struct eg_err err = {0};
	size_t n = (size_t)sprintf(text, "[allow a b]\n");

	(void)state;
	for (int i = 0; i < RL_ENTRIES; i++)
		n += (size_t)sprintf(text + n, "allow=h%d.a.example\n", i);
	p = accepts(text);
	assert_int_equal(p->nentries, RL_ENTRIES);
	written_out(p);
	free(p);
	(void)sprintf(text + n, "allow=one.more.example\n");
	refuses(text, "p:8194:1: the policy has more than 8192 entries");
	memset(text, '\n', RL_POLICY_TEXT + 1);
	assert_int_equal(rl_policy_parse(text, RL_POLICY_TEXT + 1, "p", &env,
					 &p, NULL, &err),
			 -EFBIG);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sections),
		cmocka_unit_test(destinations),
		cmocka_unit_test(long_names),
		cmocka_unit_test(ports),
		cmocka_unit_test(options),
		cmocka_unit_test(hosts),
		cmocka_unit_test(warns),
		cmocka_unit_test(includes),
		cmocka_unit_test(permits),
		cmocka_unit_test(golden),
		cmocka_unit_test(bogons),
		cmocka_unit_test(same_meaning_same_digest),
		cmocka_unit_test(large),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
