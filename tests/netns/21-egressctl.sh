#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Every command of egressctl this version has, as a person types it.
. "${0%/*}/../lib/world.sh"
world_enter "$0" "$@"
world_start
must "egressd starts" daemon_start

check "lease" lease one --policy demo --run r1 --ttl 10m --tenant acme \
	--label commit=4f1c
check "  the same again is the same lease" eq "$(ctl --json lease --id one \
	--policy demo --run r1 --ttl 10m --tenant acme --label commit=4f1c | j uid)" \
	"$(of one uid)"
check "lease for a person says where" has \
	"$(ctl lease --id two --policy none --ttl 1h)" two 10.200.0. /run/netns/eg-
check "lease with the text of a policy" sh -c \
	"printf '[policy]\nname = inline\n[allow]\nallow = app.demo.example tcp/443\n' >$W/i.policy &&
	'$EGRESSCTL' --socket $API lease --id three --policy-file $W/i.policy"
check "  works" eq "$(inside three curl -sS -m 5 --cacert $CA \
	https://app.demo.example/)" "hello from app:443"
check "ls" has "$(ctl ls)" one two three demo
check "ls by run" eq "$(ctl ls --run r1 -q)" one
check "ls by label" eq "$(ctl ls --label commit=4f1c -q)" one
check "show" has "$(ctl show one)" one leased demo 10.200.0.
check "show --json" eq "$(ctl --json show one | j run)" r1
check "renew" ctl renew one --ttl 2h
check "  lengthens it" test "$(ctl --json show one | j ttl_left_s)" -gt 7100
check "pool" has "$(ctl pool)" 8 leased
check "exec runs inside" eq \
	"$(ctl exec one -- ip -o -4 addr show eth0 | awk '{ print $4 }')" \
	"$(of one address)/30"
check "  with the lease's resolver" eq \
	"$(ctl exec one -- cat /etc/resolv.conf | grep nameserver)" \
	"nameserver $(of one dns.0)"
check "  exit status is the command's" exits 7 ctl exec one -- sh -c 'exit 7'
check "  of a lease that is none: 1" exits 1 ctl exec nosuch -- true

inside one $EG connect 169.254.169.254 80 >/dev/null
inside one $EG dig "$(of one dns.0)" collector.evil.example >/dev/null
has_both_reasons() { has "$(ctl denials one)" metadata dns-denied; }
check "denials as a table" wait_for 3 has_both_reasons
check "denials as JSON lines" denied one reason=metadata dst=169.254.169.254
check "denials by reason" has "$(ctl denials one --reason metadata)" \
	169.254.169.254
check "denials as a savefile" sh -c "'$EGRESSCTL' --socket $API denials one \
	--format pcap -o $W/one.pcap && tcpdump -nr $W/one.pcap 2>/dev/null |
	grep -q '169.254.169.254'"
check "events" has "$(ctl events)" leased one
check "version" has "$(ctl version)" '[0-9]+\.[0-9]+\.[0-9]+'
check "check-config" "$EGRESSCTL" check-config $CONF
check "check-policy" "$EGRESSCTL" check-policy $POLICIES/demo.policy
check "check-policy --print shows the canonical form" has \
	"$("$EGRESSCTL" check-policy $POLICIES/demo.policy --print)" \
	'"canon": ?1' 'app.demo.example'
check "annotate" has "$(ctl --json annotate one --label owner=me)" '"owner": "me"'
check "  without a label: 2" exits 2 ctl annotate one
check "fork" has "$(ctl fork one --id kid --ttl 5m)" kid '^parent +one'
check "  the same again is the same lease" has "$(ctl fork one --id kid --ttl 5m)" kid
check "  a time that is none: 2" exits 2 ctl fork one --ttl soon
check "spec" eq "$(ctl spec kid | j parent.id)" one
check "  is a request" sh -c "'$EGRESSCTL' --socket $API spec kid |
	curl -s --unix-socket $API -d @- http://e/v1/leases | $EG get parent.id | grep -qx one"
check "revoke" has "$(ctl revoke kid --reason INC-1)" '^revoked kid'
check "  show tells why" has "$(ctl show kid)" 'revoked' 'INC-1'
check "  of a lease that is none: 1" exits 1 ctl revoke nosuch
check "release" ctl release one
check "  it is gone" exits 1 ctl show one
check "help names every command" has "$("$EGRESSCTL" --help)" \
	lease release renew spec fork revoke annotate ls show pool exec denials check-config \
	check-policy version
check "quiet in a pipe: no escape sequences" sh -c \
	"! '$EGRESSCTL' --socket $API ls | grep -q \$(printf '\033')"
daemon_stop TERM
world_finish
