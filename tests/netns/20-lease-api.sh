#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Leases over HTTP, as an orchestrator makes them: shapes, idempotence, fences,
# owners, cursors.
. "${0%/*}/../lib/world.sh"
world_enter "$0" "$@"
world_start
must "egressd starts" daemon_start

code() { tail -n 1; }
body() { sed '$d'; }
put() { api PUT "/v1/leases/$1" "$2"; }
REQ='{"policy":"demo","run":"r1","tenant":"acme","labels":{"commit":"4f1c"},"ttl_s":600}'

out=$(put one "$REQ")
check "PUT makes a lease: 201" eq "$(code <<<"$out")" 201
obj=$(body <<<"$out")
check "the object has every member of the interface" $EG keys \
	id uid slot generation state gateway owner subnet address \
	gateway_address dns netns netns_volatile interface mtu guest policy \
	enforced_digest request_digest run tenant labels parent warnings \
	created expires ttl_left_s audit <<<"$obj"
g() { $EG get "$1" <<<"$obj"; }
check "id, run, tenant, labels are those asked for" \
	eq "$(g id) $(g run) $(g tenant) $(g labels.commit) $(g state)" \
	"one r1 acme 4f1c leased"
check "uid is a UUIDv7" has "$(g uid)" \
	'^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$'
check "the namespace's path has slot and generation" eq "$(g netns)" \
	"/run/netns/eg-$(printf %05d "$(g slot)").$(g generation)"
check "  and exists" test -e "$(g netns)"
check "addresses are arithmetic on the slot" \
	eq "$(g subnet) $(g gateway_address) $(g address) $(g dns.0)" \
	"10.200.0.$((4 * $(g slot)))/30 10.200.0.$((4 * $(g slot) + 1)) 10.200.0.$((4 * $(g slot) + 2)) 10.200.0.$((4 * $(g slot) + 1))"
check "inside is eth0 with that address" has \
	"$(ip netns exec "$(basename "$(g netns)")" ip -o addr show)" \
	"eth0 .*inet $(g address)/30"
check "the owner is the caller" eq "$(g owner)" 0
check "digests are SHA-256" \
	has "$(g policy.digest) $(g enforced_digest) $(g request_digest)" \
	'^sha256:[0-9a-f]{64} sha256:[0-9a-f]{64} sha256:[0-9a-f]{64}$'
check "the audit directory is named after the lease" \
	has "$(g audit)" "^$AUDIT/[0-9]{4}-[0-9]{2}-[0-9]{2}/$(g uid)$"

again=$(put one "$REQ")
check "the same PUT again: 200" eq "$(code <<<"$again")" 200
check "  the same lease" eq "$(body <<<"$again" | $EG get uid)" "$(g uid)"
check "  also with the members in another order" eq \
	"$(put one '{"ttl_s":600,"labels":{"commit":"4f1c"},"tenant":"acme","run":"r1","policy":"demo"}' | code)" 200
out=$(put one '{"policy":"demo","run":"r2"}')
check "another body: 409 exists" has "$out" '^409$' '"exists"'
check "POST makes an id" has \
	"$(api POST /v1/leases '{"policy":"none"}')" '^201$' '"id"'

check "GET gives the lease" eq \
	"$(api GET /v1/leases/one | body | $EG get uid)" "$(g uid)"
check "  with traffic, pins, flows and denied" sh -c \
	"curl -s --unix-socket $READ http://e/v1/leases/one | $EG keys traffic pins denied"
check "  and by uid" eq \
	"$(api GET "/v1/leases/uid:$(g uid)" | body | $EG get id)" one
check "one that is not there: 404" has "$(api GET /v1/leases/nosuch)" \
	'^404$' '"not-found"'
check "the list has both" sh -c "curl -s --unix-socket $READ \
	-H 'Accept: application/x-ndjson' http://e/v1/leases |
	$EG count state=leased | grep -qx 2"
check "  filtered by run" sh -c "curl -s --unix-socket $READ \
	-H 'Accept: application/x-ndjson' 'http://e/v1/leases?run=r1' |
	$EG count | grep -qx 1"
check "  filtered by label" sh -c "curl -s --unix-socket $READ \
	-H 'Accept: application/x-ndjson' 'http://e/v1/leases?label=commit=nope' |
	$EG count | grep -qx 0"

h() { curl -s -I --unix-socket $READ "http://e$1" | tr -d '\r'; }
check "an argument there is none of: 400 with those there are" has \
	"$(api GET '/v1/leases?bogus=1')" '^400$' "'bogus'" 'run tenant label state limit after'
check "  on a path that takes none" has "$(api GET '/v1/pool?x')" '^400$' "'x'" 'takes none'
check "  also when something is changed" has "$(api DELETE '/v1/leases/one?generatoin=1')" \
	'^400$' 'generation uid'
check "  one that is given twice" has "$(api GET '/v1/leases?run=a&run=b')" '^400$' twice
check "  a state there is none of" has "$(api GET '/v1/leases?state=bogus')" '^400$' leased
check "  a label that is none" has "$(api GET '/v1/leases?label=bogus')" '^400$' KEY=VALUE
check "another method: 405 with Allow" has \
	"$(curl -s -i --unix-socket $API -X PATCH http://e/v1/leases/one | tr -d '\r')" \
	'^HTTP/1.1 405' '^Allow: PUT, GET, HEAD, DELETE$' '"method-not-allowed"'
check "  also where something can only be done" has \
	"$(curl -s -i --unix-socket $API http://e/v1/leases/one/renew | tr -d '\r')" \
	'^HTTP/1.1 405' '^Allow: POST$'
check "HEAD is GET without a body" has "$(h /v1/leases/one)" '^HTTP/1.1 200' \
	'^Content-Length: [1-9]' '^Content-Type: application/json'
check "  of what is not there: 404" has "$(h /v1/leases/nosuch)" '^HTTP/1.1 404'
check "  where there is no GET: 405" has "$(h /v1/leases/one/renew)" '^HTTP/1.1 405' '^Allow: POST$'
check "renew" has "$(api POST /v1/leases/one/renew '{"ttl_s":1200}')" '^200$'
left=$(api GET /v1/leases/one | body | $EG get ttl_left_s)
check "  is counted from now" test "$left" -gt 1190
check "  and PUT still compares with the first request" \
	eq "$(put one "$REQ" | code)" 200
check "phases together" has \
	"$(put ph '{"policy":"phased","phase":"init,plan"}')" '^201$' '"init,plan"'
check "phase moves on" has \
	"$(api POST /v1/leases/ph/phase '{"phase":"apply"}')" '^200$' '"apply"'
check "  not to one there is none of" has \
	"$(api POST /v1/leases/ph/phase '{"phase":"nope"}')" '^422$' 'bad-phase'

check "a stale fence: 409" has \
	"$(api DELETE "/v1/leases/one?generation=$(($(g generation) + 1))")" \
	'^409$' 'stale-generation'
check "another uid's fence: 409" has \
	"$(api DELETE "/v1/leases/one?uid=00000000-0000-7000-8000-000000000000")" \
	'^409$' 'stale-generation'

# Only the owner, or an administrator, changes a lease.
chmod 666 $API
nobody() { setpriv --reuid 65534 --regid 65534 --clear-groups curl -sS \
	--unix-socket $API -w '\n%{http_code}\n' "$@"; }
check "another user's DELETE: 403" has \
	"$(nobody -X DELETE http://e/v1/leases/one)" '^403$' 'forbidden'
out=$(nobody -X PUT -d '{"policy":"none"}' http://e/v1/leases/his)
check "his own lease is his" eq "$(body <<<"$out" | $EG get owner)" 65534
check "  to release" has "$(nobody -X DELETE http://e/v1/leases/his)" '^200$'

path=$(g netns)
out=$(api DELETE "/v1/leases/one?generation=$(g generation)&uid=$(g uid)")
check "DELETE with the right fence: 200" eq "$(code <<<"$out")" 200
check "  the namespace's path is gone" test ! -e "$path"
check "  its evidence is sealed, though there was none" \
	test -s "$(g audit)/manifest.json"
check "  again: 410 gone" has "$(api DELETE /v1/leases/one)" '^410$' '"gone"'
check "  a late PUT of it makes no second lease" has "$(put one "$REQ")" '^410$'

check "the events tell the story" sh -c "curl -s --unix-socket $READ \
	-H 'Accept: application/x-ndjson' http://e/v1/events >$W/events &&
	$EG match type=leased lease=one <$W/events &&
	$EG match type=renewed lease=one <$W/events &&
	$EG match type=released lease=one cause=api <$W/events"
cursor=$(tail -n 1 $W/events | $EG get cursor)
check "after the last cursor there is nothing" sh -c "curl -s --unix-socket $READ \
	-H 'Accept: application/x-ndjson' 'http://e/v1/events?after=$cursor' |
	$EG count | grep -qx 0"

# All slots taken.
n=0
while put "fill$n" '{"policy":"none"}' | grep -qx 201; do
	n=$((n + 1))
	[ $n -lt 20 ] || break
done
check "when all slots are leased: 503 exhausted with Retry-After" has \
	"$(curl -si --unix-socket $API -X PUT -d '{"policy":"none"}' http://e/v1/leases/toomany | tr -d '\r')" \
	'^HTTP/1.1 503' '^Retry-After: ' 'exhausted'
ctl release fill0 >/dev/null
check "a released one can be leased again" wait_for 5 \
	sh -c "curl -s -o /dev/null -w '%{http_code}' --unix-socket $API -X PUT \
		-d '{\"policy\":\"none\"}' http://e/v1/leases/after | grep -qx 201"
daemon_stop TERM

world_conf api.require_fence=yes
must "egressd starts with every slot leased" daemon_start
check "leases are still there" has "$(api GET /v1/leases/after)" '^200$'
check "a change without a fence is refused" has \
	"$(api DELETE /v1/leases/after)" '^4[0-9][0-9]$'
gen=$(api GET /v1/leases/after | body | $EG get generation)
check "with one it is done" has \
	"$(api DELETE "/v1/leases/after?generation=$gen")" '^200$'
daemon_stop TERM
world_finish
