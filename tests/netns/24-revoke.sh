#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Revoked: nothing of a lease passes any more, established flows included, what
# it tries is recorded, and it stays so over restarts until it is released.
. "${0%/*}/../lib/world.sh"
world_enter "$0" "$@"
. "$WORLD_LIB/rules.sh"
world_start
must "egressd starts" daemon_start

code() { tail -n 1; }
events() { curl -s --unix-socket $READ -H 'Accept: application/x-ndjson' \
	"http://e/v1/events?type=$1"; }
gone() { [ "$(api GET "/v1/leases/$1" | code)" != 200 ]; }
denied_by() { # ID REASON: how many, in the lease object
	api GET "/v1/leases/$1" | $EG first "denied.$2.total" || echo 0
}

must "a lease" lease bad --policy demo --run r1 --ttl 1h
must "another beside it" lease good --policy demo --ttl 1h
for l in bad good; do
	inside $l $EG dig "$(of $l dns.0)" echo.demo.example >/dev/null
	inside $l $EG dig "$(of $l dns.0)" app.demo.example >/dev/null
	nsenter --net="$(of $l netns)" $EG flow 198.51.100.81 7 60 $W/flow.$l \
		>/dev/null 2>&1 &
	eval "flow_$l=$!"
	wait_for 3 grep -q connected $W/flow.$l
done
check "both reach what they may" eq \
	"$(fetch bad https://app.demo.example/)$(fetch good https://app.demo.example/)" \
	"hello from app:443hello from app:443"

check "another user may not revoke it: 403" has "$(chmod 666 $API
	setpriv --reuid 65534 --regid 65534 --clear-groups curl -sS --unix-socket $API \
	-w '\n%{http_code}\n' -X POST http://e/v1/leases/bad/revoke)" '^403$' forbidden
check "a stale fence revokes nothing: 409" has \
	"$(api POST "/v1/leases/bad/revoke?generation=999999")" '^409$' stale-generation
check "a reason of several lines is refused" has \
	"$(api POST /v1/leases/bad/revoke '{"reason":"a\nb"}')" '^400$' 'reason: '
check "  and another member" has \
	"$(api POST /v1/leases/bad/revoke '{"why":"x"}')" '^400$' "'why'"
out=$(api POST /v1/leases/bad/revoke '{"reason":"INC-4417"}')
check "revoke: 200, after the kernel has it" eq "$(code <<<"$out")" 200
check "  the lease says so" eq \
	"$($EG first state <<<"$out") $($EG first revoked.reason <<<"$out") $($EG first policy.name <<<"$out")" \
	"revoked INC-4417 demo"
wait $flow_bad
check "  its running flow was cut" test $? -ne 0
check "  at once" has "$(tail -n 1 $W/flow.bad)" 'broken|closed'
check "  an address it had is refused at once" within 1000 not inside bad \
	$EG connect 198.51.100.80 443
check "  an address of its policy, too" not inside bad $EG connect 203.0.113.130 9000
check "  which is recorded for its reason" denied bad layer=packet reason=revoked \
	dst=198.51.100.80 dport=443
check "  and counted" test "$(denied_by bad revoked)" -ge 2
check "  a name is denied" has "$(inside bad $EG dig "$(of bad dns.0)" \
	app.demo.example)" NXDOMAIN
check "  which is recorded, too" denied bad layer=dns reason=revoked \
	qname=app.demo.example
inside bad $EG connect 169.254.169.254 80 >/dev/null
check "  metadata stays metadata" denied bad reason=metadata dst=169.254.169.254
check "  it has no pin left" eq "$(api GET /v1/leases/bad | $EG first pins)" '[]'
check "  its namespace stays" test -e "$(of bad netns)"
check "  the event tells why" sh -c "curl -s --unix-socket $READ \
	-H 'Accept: application/x-ndjson' 'http://e/v1/events?type=revoked' |
	$EG match lease=bad text=INC-4417"
check "renew: 403 revoked" has "$(api POST /v1/leases/bad/renew '{"ttl_s":99}')" \
	'^403$' '"revoked"' INC-4417
check "phase: 403 revoked" has "$(api POST /v1/leases/bad/phase '{"phase":""}')" \
	'^403$' '"revoked"'
check "again: 200, the first reason stays" has \
	"$(api POST /v1/leases/bad/revoke '{"reason":"other"}')" '^200$' INC-4417
check "PUT with its first body gives it as it is" has "$(api PUT /v1/leases/bad \
	'{"policy":"demo","run":"r1","ttl_s":3600}')" '^200$' '"state":"revoked"'
check "ls shows it" eq "$(ctl ls --state revoked -q)" bad
check "the other works on" eq "$(fetch good https://app.demo.example/)" \
	"hello from app:443"
check "  and its flow runs" kill -0 $flow_good

# Whoever dies: it stays revoked.
main=$($EG rolepid $DAEMON_LOG main)
kill -9 "$main"
back() { [ "$($EG rolepid $DAEMON_LOG main)" != "$main" ] && ready; }
must "main is back" wait_for 5 back
state_is() { [ "$(api GET "/v1/leases/$1" | $EG first state)" = "$2" ]; }
check "it is still revoked" wait_for 5 state_is bad revoked
check "  refused" not inside bad $EG connect 198.51.100.80 443
kill -9 "$($EG rolepid $DAEMON_LOG dns)"
still_denied() { has "$(inside bad $EG dig "$(of bad dns.0)" app.demo.example)" NXDOMAIN; }
check "a new dns denies it every name" wait_for 5 still_denied
daemon_stop KILL
check "with no daemon it is refused" not inside bad $EG connect 198.51.100.80 443
must "egressd starts again" daemon_start
check "it is still revoked, and why" eq "$(wait_for 5 state_is bad revoked;
	api GET /v1/leases/bad | $EG first revoked.reason)" INC-4417
check "  refused" not inside bad $EG connect 198.51.100.80 443
check "  no name" has "$(inside bad $EG dig "$(of bad dns.0)" app.demo.example)" NXDOMAIN
check "  the other works" eq "$(fetch good https://app.demo.example/)" \
	"hello from app:443"
check "release" has "$(api DELETE /v1/leases/bad)" '^200$'
m=$(of bad audit)/manifest.json
check "  sealed with time and reason of the revocation" eq \
	"$($EG get revoked.reason <"$m")" INC-4417
check "  and what was tried after it" test "$($EG get counts.packet.revoked.denied <"$m")" -ge 3
check "  whose law holds" eq "$($EG get counts.packet.revoked.lost <"$m")" 0
check "  its policy, then none" eq "$($EG get policies.0.policy <"$m")" "$(of bad policy.digest)"
check "    of which the last was in force when it ended" not eq \
	"$($EG get policies.1.policy <"$m")" "$(of bad policy.digest)"
check "  its spec is what it was leased with" eq "$(api GET /v1/leases/bad/spec |
	$EG first policy)" "demo@$(of bad policy.digest)"
kill $flow_good

# Others.
must "a lease with phases" lease ph --policy phased --phase init --ttl 3s
check "egressctl revoke" has "$(ctl revoke ph --reason 'a test')" 'revoked ph'
check "  ends with its time" wait_for 6 gone ph
must "a held one" lease held --policy demo --on-expiry hold --ttl 2s
wait_for 5 state_is held expired
check "one that is held can be revoked" has "$(ctl --json revoke held | $EG get state)" revoked
check "  and is not held again" has "$(ctl release held)" released

# Labels.
must "a lease with a label" lease lab --policy none --label a=1 --label b=2
check "annotate adds and replaces" eq "$(api POST /v1/leases/lab/annotate \
	'{"labels":{"b":"3","c":"4"}}' | $EG first labels)" '{"a": "1", "b": "3", "c": "4"}'
check "  by egressctl" eq "$(ctl --json annotate lab --label d=5 | $EG get labels.d)" 5
check "  found by the new ones" eq "$(ctl ls --label b=3 -q)" lab
check "  not by the old" eq "$(ctl ls --label b=2 -q)" ""
inside lab $EG connect 198.51.100.80 443 >/dev/null
check "  records have them" denied lab labels.b=3 labels.d=5
many=$(seq -s, -f '"k%g":"v"' 28)
check "  up to 32" eq "$(api POST /v1/leases/lab/annotate "{\"labels\":{$many}}" | code)" 200
check "  not more" has "$(api POST /v1/leases/lab/annotate '{"labels":{"one":"more"}}')" \
	'^400$' '32'
check "  a value can still be replaced" eq "$(api POST /v1/leases/lab/annotate \
	'{"labels":{"a":"9"}}' | code)" 200
check "  of which a failed one changes nothing" eq "$(api GET /v1/leases/lab | $EG first labels.one)" \
	"no such value labels.one: KeyError('one')"
check "  values have their limit" has "$(api POST /v1/leases/lab/annotate \
	"{\"labels\":{\"a\":\"$(printf 'x%.0s' $(seq 257))\"}}")" '^400$' 256
check "  an object is needed" has "$(api POST /v1/leases/lab/annotate '{"labels":[]}')" '^400$' labels
check "  PUT still compares with the first request" eq "$(api PUT /v1/leases/lab \
	'{"policy":"none","labels":{"a":"1","b":"2"}}' | code)" 200
daemon_stop KILL
must "egressd starts again" daemon_start
check "labels are kept over a restart" eq "$(wait_for 5 state_is lab leased;
	api GET /v1/leases/lab | $EG first labels.a)" 9
ctl release lab >/dev/null
check "the manifest has them all" eq "$($EG get labels.a <"$(of lab audit)/manifest.json")" 9
daemon_stop TERM
world_finish
