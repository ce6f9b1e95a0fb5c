// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * egressd tests: address vetting.
 */
#include "dnsguard/vet.h"
#include "netpool/base/util.h"
#include "tests/lib/dns_world.h"

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static uint32_t a4(const char *t)
{
	uint32_t a = 0;

	assert_int_equal(eg_addr_parse(t, &a, NULL), 0);
	return a;
}

static void v4(void **state)
{
	static const struct {
		const char *addr;
		enum eg_reason want;
	} t[] = {
		{"203.0.113.7", EG_REASON_NONE},
		{"8.8.8.8", EG_REASON_NONE},
		{"169.254.169.254", EG_REASON_METADATA},
		{"100.100.100.200", EG_REASON_METADATA},
		{"168.63.129.16", EG_REASON_METADATA},
		{"192.0.0.192", EG_REASON_METADATA},
		{"169.254.169.123", EG_REASON_RESERVED},
		{"192.0.0.1", EG_REASON_RESERVED},
		{"198.18.0.1", EG_REASON_RESERVED},
		{"0.0.0.0", EG_REASON_RESERVED},
		{"127.0.0.1", EG_REASON_RESERVED},
		{"224.0.0.1", EG_REASON_RESERVED},
		{"240.0.0.1", EG_REASON_RESERVED},
		{"255.255.255.255", EG_REASON_RESERVED},
		{"10.0.0.1", EG_REASON_PRIVATE},
		{"172.31.255.255", EG_REASON_PRIVATE},
		{"172.32.0.1", EG_REASON_NONE},
		{"192.168.1.1", EG_REASON_PRIVATE},
		{"100.64.0.1", EG_REASON_PRIVATE},
		{"10.200.3.2", EG_REASON_NEIGHBOUR},
		{"10.201.0.1", EG_REASON_HOST},
		{"192.0.2.1", EG_REASON_HOST}, /* an upstream */
	};
	struct dw *w = dw_new();

	(void)state;
	for (size_t i = 0; i < EG_ARRAY_SIZE(t); i++)
		assert_int_equal(dg_vet_addr(&w->conf, a4(t[i].addr), NULL, 0),
				 t[i].want);
	dw_free(w);
}

/* private= opens nothing without permit_private, and never metadata. */
static void private_entries(void **state)
{
	struct eg_prefix all = {0, 0};
	struct eg_prefix p = {0x0a140000, 16};
	struct dw *w = dw_new();
	struct eg_conf *c = &w->conf;

	(void)state;
	assert_int_equal(dg_vet_addr(c, a4("10.20.1.1"), &p, 1),
			 EG_REASON_PRIVATE);
	c->permit_private[c->permits_private++].dst = p;
	assert_int_equal(dg_vet_addr(c, a4("10.20.1.1"), &p, 1), EG_REASON_NONE);
	assert_int_equal(dg_vet_addr(c, a4("10.21.0.1"), &p, 1),
			 EG_REASON_PRIVATE);
	assert_int_equal(dg_vet_addr(c, a4("10.20.1.1"), NULL, 0),
			 EG_REASON_PRIVATE);
	c->permit_private[0].dst = all;
	assert_int_equal(dg_vet_addr(c, a4("169.254.169.254"), &all, 1),
			 EG_REASON_METADATA);
	assert_int_equal(dg_vet_addr(c, a4("127.0.0.1"), &all, 1),
			 EG_REASON_RESERVED);
	assert_int_equal(dg_vet_addr(c, a4("10.200.0.1"), &all, 1),
			 EG_REASON_NEIGHBOUR);
	dw_free(w);
}

static void v6(void **state)
{
	static const struct {
		const char *addr;
		enum eg_reason want;
	} t[] = {
		{"2600:1f18::1", EG_REASON_NONE},
		{"2a00:1450:4001:80b::200e", EG_REASON_NONE},
		{"::ffff:10.0.0.1", EG_REASON_PRIVATE},
		{"::ffff:8.8.8.8", EG_REASON_RESERVED},
		{"::10.0.0.1", EG_REASON_PRIVATE},
		{"64:ff9b::a9fe:a9fe", EG_REASON_METADATA},
		{"64:ff9b::808:808", EG_REASON_RESERVED},
		{"64:ff9b:1::a00:1", EG_REASON_PRIVATE},
		{"2002:a00:1::1", EG_REASON_PRIVATE},
		{"2002:808:808::1", EG_REASON_RESERVED},
		{"2001:0:4136:e378:8000:63bf:5601:5601", EG_REASON_METADATA},
		{"fe80::5efe:a00:1", EG_REASON_PRIVATE},
		{"2600::5efe:a9fe:a9fe", EG_REASON_METADATA},
		{"2600::200:5efe:a00:1", EG_REASON_PRIVATE},
		{"::", EG_REASON_RESERVED},
		{"::1", EG_REASON_RESERVED},
		{"fc00::1", EG_REASON_PRIVATE},
		{"fd00:ec2::254", EG_REASON_METADATA},
		{"fec0::1", EG_REASON_RESERVED},
		{"fe80::1", EG_REASON_RESERVED},
		{"ff02::1", EG_REASON_RESERVED},
		{"100::1", EG_REASON_RESERVED},
		{"2001:db8::1", EG_REASON_RESERVED},
		{"2001:10::1", EG_REASON_RESERVED},
		{"3fff::1", EG_REASON_RESERVED},
		{"5f00::1", EG_REASON_RESERVED},
	};
	struct dw *w = dw_new();

	(void)state;
	for (size_t i = 0; i < EG_ARRAY_SIZE(t); i++) {
		uint8_t a[16];

		assert_int_equal(inet_pton(AF_INET6, t[i].addr, a), 1);
		if (dg_vet_addr6(&w->conf, a) != t[i].want)
			fail_msg("%s is %s", t[i].addr,
				 eg_reason_name(dg_vet_addr6(&w->conf, a)));
	}
	dw_free(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(v4),
		cmocka_unit_test(private_entries),
		cmocka_unit_test(v6),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
