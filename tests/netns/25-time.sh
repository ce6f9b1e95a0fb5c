#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# What a lease's time does: warnings at 80 % and 60 s before the end, release or
# hold at the end, and nothing but the clock decides.
. "${0%/*}/../lib/world.sh"
world_enter "$0" "$@"
. "$WORLD_LIB/rules.sh"
world_start
world_conf lease.max_ttl=70 lease.default_ttl=70
must "egressd starts" daemon_start

events() { curl -s --unix-socket $READ -H 'Accept: application/x-ndjson' \
	"http://e/v1/events?type=$1"; }
told() { # TYPE ID TEXT: how often
	events "$1" | grep "\"lease\":\"$2\"" | grep -c "$3"
}
told_once() { [ "$(told "$@")" = 1 ]; }
state_is() { [ "$(api GET "/v1/leases/$1" | $EG first state)" = "$2" ]; }
gone() { [ "$(api GET /v1/leases/"$1" | tail -n 1)" != 200 ]; }

t0=$(date +%s%N)
must "a lease of 63 s, which nobody uses" lease long --policy demo --ttl 63s
must "one of 5 s that is held" lease held --policy demo --ttl 5s --on-expiry hold
must "one of 5 s that is released" lease brief --policy demo --ttl 5s
must "one that is held to the last" lease last --policy phased --phase init --ttl 1s \
	--on-expiry hold
for l in held brief; do
	inside $l $EG dig "$(of $l dns.0)" echo.demo.example >/dev/null
	nsenter --net="$(of $l netns)" $EG flow 198.51.100.81 7 12 $W/flow.$l \
		>$W/out.$l 2>&1 &
	eval "flow_$l=$!"
done
wait_for 3 grep -q connected $W/flow.held
check "a warning at 60 s" wait_for 6 told_once expiring long '60 s left'
took=$((($(date +%s%N) - t0) / 1000000))
check "  not before" test $took -ge 2800
check "  80 % is far" eq "$(told expiring long '80 %')" 0
check "renewed to 62 s" ctl renew long --ttl 62s
check "  it is warned again" wait_for 5 eval "[ \$(told expiring long '60 s left') = 2 ]"
check "longer than max_ttl is refused" exits 1 ctl renew long --ttl 71s
check "a warning at 80 %" wait_for 5 told_once expiring brief '80 %'
check "  short leases have no other" eq "$(told expiring brief '60 s')" 0
check "the end: released" wait_for 5 gone brief
check "  said" told_once expired brief ''
check "  for that cause" sh -c "curl -s --unix-socket $READ \
	-H 'Accept: application/x-ndjson' 'http://e/v1/events?type=released' |
	$EG match lease=brief cause=expiry"
wait $flow_brief
check "  its flow was cut" test $? -ne 0

check "the end: held" wait_for 5 state_is held expired
check "  said" told_once expired held 'established flows may finish'
check "  a new connection is refused at once" within 6000 not inside held \
	$EG connect 198.51.100.81 7
check "  also to an address of the policy" not inside held $EG connect 203.0.113.130 9000
check "  and recorded" denied held layer=packet reason=not-allowed dst=198.51.100.81
check "  a new name is denied" has "$(inside held $EG dig "$(of held dns.0)" \
	app.demo.example)" NXDOMAIN
check "  and one it had" has "$(inside held $EG dig "$(of held dns.0)" \
	echo.demo.example)" NXDOMAIN
check "  and recorded" denied held layer=dns reason=dns-denied qname=app.demo.example
check "  it cannot be renewed" has "$(api POST /v1/leases/held/renew '{"ttl_s":60}')" \
	'^410$' expired
check "  nor moved to another phase" has "$(api POST /v1/leases/held/phase '{"phase":""}')" \
	'^410$' expired
kill -9 "$($EG rolepid $DAEMON_LOG dns)"
still() { has "$(inside held $EG dig "$(of held dns.0)" app.demo.example)" NXDOMAIN; }
check "  a new dns gives it no name either" wait_for 5 still
wait $flow_held
check "  its flow went on to its end" has "$? $(cat $W/out.held)" '^0 [0-9]+ echoes'
check "  with a phase, too" state_is last expired
daemon_stop TERM
must "egressd starts again" daemon_start
check "what was held is held" wait_for 3 state_is held expired
check "  and refused" not inside held $EG connect 198.51.100.81 7
check "  release" ctl release held
check "    its manifest tells when" eq "$($EG get policies.0.policy \
	<"$(of held audit)/manifest.json")" "$(of held policy.digest)"
check "the one nobody used is still there" state_is long leased
check "  and works" eq "$(fetch long https://app.demo.example/)" "hello from app:443"
daemon_stop TERM

# Held leases end with max_ttl all the same.
world_conf lease.max_ttl=4 lease.default_ttl=4
must "egressd starts with a short max_ttl" daemon_start
must "a lease held for ever" lease ever --policy demo --ttl 1s --on-expiry hold
check "is held" wait_for 3 state_is ever expired
check "  until max_ttl" wait_for 6 gone ever
check "  which is a release" sh -c "curl -s --unix-socket $READ \
	-H 'Accept: application/x-ndjson' 'http://e/v1/events?type=released' |
	$EG match lease=ever cause=expiry"
daemon_stop TERM
world_finish
