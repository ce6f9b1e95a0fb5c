#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# A lease as the model of others: its spec is a request anywhere, a fork is
# made from it, live or ended, whatever has become of the named policy.
. "${0%/*}/../lib/world.sh"
world_enter "$0" "$@"
. "$WORLD_LIB/rules.sh"
world_start
must "egressd starts" daemon_start

code() { tail -n 1; }
body() { sed '$d'; }
spec() { api GET "/v1/leases/$1/spec" | body; }
g() { $EG get "$1" <<<"$2"; }

REQ='{"policy":"demo","run":"r1","tenant":"acme","labels":{"commit":"4f1c","é":"ü \"q\""},
	"ttl_s":600,"on_expiry":"hold","deny":"drop","limits":{"flows":64,"log_s":7},
	"guest":{"mode":"tap","tap":"vm0","owner_uid":1001,"address":"172.16.9.2/29","gateway":"172.16.9.3","mac":"06:00:ac:10:00:09"}}'
if [ ! -c /dev/net/tun ]; then
	REQ=${REQ//tap\",\"tap/veth\",\"tap}
fi
out=$(api PUT /v1/leases/mother "$REQ")
must "a lease with everything one can say" eq "$(code <<<"$out")" 201
body <<<"$out" >$W/lease.mother
one=$(spec mother)
check "its spec has every member of a request" $EG keys policy policy_text phase \
	ttl_s on_expiry run tenant labels enforce deny limits guest parent names <<<"$one"
check "  as it was asked with" eq \
	"$(g run "$one") $(g tenant "$one") $(g ttl_s "$one") $(g on_expiry "$one") $(g deny "$one") $(g limits.flows "$one") $(g limits.log_s "$one") $(g labels.commit "$one") $(g parent "$one")" \
	"r1 acme 600 hold drop 64 7 4f1c null"
check "  with the policy by name and digest" eq "$(g policy "$one")" \
	"demo@$(of mother policy.digest)"
check "  and by its text, which the digest is of" \
	eq "$($EG sha256 policy_text <<<"$one")" "$(of mother policy.digest)"
check "  and the guest" eq "$(g guest.mode "$one") $(g guest.mac "$one")" \
	"$(of mother guest.mode) $([ -c /dev/net/tun ] && of mother guest.mac || echo)"
check "readers may ask for it" sh -c \
	"curl -s --unix-socket $READ http://e/v1/leases/mother/spec | $EG keys policy_text"
check "by uid it is the same" eq "$(spec "uid:$(of mother uid)")" "$one"
check "a fence that is another's: 409" has \
	"$(api GET "/v1/leases/mother/spec?generation=999999")" '^409$' stale-generation
check "of a lease that never was: 404" has "$(api GET /v1/leases/nobody/spec)" \
	'^404$' not-found

# Posted back as it is.
out=$(api POST /v1/leases "$one")
check "the spec is a request as it is" eq "$(code <<<"$out")" 201
twin=$(body <<<"$out")
check "  for the same policy" eq "$(g policy.digest "$twin") $(g policy.name "$twin")" \
	"$(of mother policy.digest) demo"
check "  and its spec is the same again" eq "$(spec "$(g id "$twin")")" "$one"
ctl release "$(g id "$twin")" >/dev/null
check "with another text under that digest: 422" has "$(api POST /v1/leases \
	"$($EG same policy_text='[policy]
name = demo' <<<"$one")")" '^422$' bad-policy
check "with a name that is not the text's: 422" has "$(api POST /v1/leases \
	"$($EG same policy="other@$(of mother policy.digest)" <<<"$one")")" \
	'^422$' bad-policy
check "policy without digest beside a text is refused" has "$(api POST /v1/leases \
	"$($EG same policy=demo <<<"$one")")" '^400$' 'NAME@sha256:HEX'
check "a parent that is none is refused" has "$(api POST /v1/leases \
	'{"policy":"none","parent":{"id":"x"}}')" '^400$' 'parent: '
lease nothing --policy none
check "the built-in policy round trips" has "$(api POST /v1/leases "$(spec nothing)")" '^201$'
ctl release nothing >/dev/null

# Forks of a live lease.
lease par --policy phased --phase init --run r9 --tenant acme --label k=v --ttl 10m
inside par $EG dig "$(of par dns.0)" app.demo.example >/dev/null
pin_named() { $EG get names.0.name <<<"$(spec par)" | grep -qx app.demo.example; }
check "the spec tells the names that led somewhere" wait_for 3 pin_named
out=$(api POST /v1/leases/par/fork '{"id":"kid","ttl_s":300,"phase":"plan,apply"}')
check "a fork of a live lease: 201" eq "$(code <<<"$out")" 201
body <<<"$out" >$W/lease.kid
check "  is its parent's child" eq "$(of kid parent.uid) $(of kid parent.id)" \
	"$(of par uid) par"
check "  with what was said of it" eq "$(of kid policy.phase) $(of kid ttl_left_s | sed 's/29[0-9]/300/')" \
	"plan,apply 300"
check "  and the rest inherited" eq \
	"$(of kid run) $(of kid tenant) $(of kid labels.k) $(of kid policy.digest)" \
	"r9 acme v $(of par policy.digest)"
check "  the same again is the same lease" eq "$(api POST /v1/leases/par/fork \
	'{"phase":"plan,apply","ttl_s":300,"id":"kid"}' | $EG first uid)" "$(of kid uid)"
check "  another body: 409 exists" has "$(api POST /v1/leases/par/fork \
	'{"id":"kid","ttl_s":301}')" '^409$' '"exists"'
check "  nor is it another parent's" has "$(api POST /v1/leases/mother/fork \
	'{"phase":"plan,apply","ttl_s":300,"id":"kid"}')" '^4[0-9][0-9]$'
check "  the event tells of whom" sh -c "curl -s --unix-socket $READ \
	-H 'Accept: application/x-ndjson' http://e/v1/events?type=leased |
	grep '\"lease\":\"kid\"' | grep -q 'forked from uid:$(of par uid)'"
check "a fork without a word gets an id" has "$(api POST /v1/leases/par/fork)" \
	'^201$' '"id":"l-'
check "a phase the policy has none of: 422" has \
	"$(api POST /v1/leases/par/fork '{"phase":"nope"}')" '^422$' bad-phase
check "names that cannot be served yet are refused by name" has \
	"$(api POST /v1/leases/par/fork '{"names":"resolve"}')" '^400$' 'resolve'
check "  none can" has "$(api POST /v1/leases/par/fork '{"id":"n","names":"none"}')" '^201$'
ctl release n >/dev/null
check "other members are refused by name" has \
	"$(api POST /v1/leases/par/fork '{"policy":"none"}')" '^400$' "'policy'" 'id, ttl_s, phase'
check "it works under the phases of its own" has \
	"$(inside kid $EG dig "$(of kid dns.0)" echo.demo.example)" 198.51.100.81

# The named policy changes, then goes; the parent ends; everything restarts.
spec par >$W/par.spec
sed -i 's/app\.demo/other.demo/' $POLICIES/phased.policy
kill -HUP $DAEMON_PID
changed() { [ "$(api GET /v1/policies/phased | $EG first digest)" != "$(of par policy.digest)" ]; }
wait_for 3 changed || { daemon_stop TERM; rm $POLICIES/phased.policy; daemon_start; }
out=$(api POST /v1/leases/par/fork '{"id":"after-change","phase":"init"}')
check "a fork has the parent's policy though the named one has changed" eq \
	"$($EG first policy.digest <<<"$out")" "$(of par policy.digest)"
ctl release par >/dev/null
ctl release after-change >/dev/null
ctl release mother >/dev/null
rm -f $POLICIES/phased.policy $POLICIES/demo.policy
daemon_stop TERM
must "egressd starts without the named policies" daemon_start
check "the child is still its parent's" eq \
	"$(api GET /v1/leases/kid | $EG first parent.uid)" "$(of par uid)"
check "  and moves between phases of a policy only its digest is left of" has \
	"$(api POST /v1/leases/kid/phase '{"phase":"init"}')" '^200$'
check "the ended parent's spec is what it was" eq \
	"$(spec par | $EG same)" "$($EG same <$W/par.spec)"
check "  by its uid as well" eq "$(spec "uid:$(of par uid)" | $EG same)" \
	"$($EG same <$W/par.spec)"
check "an ended lease with everything says it still" eq "$(spec mother | $EG same)" \
	"$($EG same <<<"$one")"
out=$(api POST /v1/leases/par/fork '{"id":"late","phase":"init"}')
check "a fork of an ended lease: 201" eq "$(code <<<"$out")" 201
body <<<"$out" >$W/lease.late
check "  by the parent's digest" eq "$(of late policy.digest) $(of late parent.uid)" \
	"$(of par policy.digest) $(of par uid)"
check "  works" eq "$(inside late curl -sS -m 5 --cacert $CA https://app.demo.example/)" \
	"hello from app:443"
check "  the same again is the same lease" eq "$(api POST /v1/leases/par/fork \
	'{"id":"late","phase":"init"}' | $EG first uid)" "$(of late uid)"
check "the text of the policy can be had by digest" eq \
	"$(api GET "/v1/policies/$(of par policy.digest)" | $EG sha256 text)" \
	"$(of par policy.digest)"
check "  one that never was: 404" has "$(api GET "/v1/policies/sha256:$(printf '0%.0s' $(seq 64))")" \
	'^404$' not-found
check "  and leased by" has "$(api PUT /v1/leases/by-digest \
	"{\"policy\":\"$(of mother policy.digest)\"}")" '^201$'
check "its file is named by its own digest" sh -c "cd $AUDIT/policies && for f in *.policy; do
	[ \"\$(sha256sum <\$f | cut -c1-64).policy\" = \"\$f\" ] || exit 1; done"

# Its id leased again: the latest of that id is meant; without a tombstone too.
ctl release late >/dev/null
check "the manifest seals request and parent" sh -c \
	"$EG keys request parent names <$(of late audit)/manifest.json &&
	$EG get parent.id <$(of late audit)/manifest.json | grep -qx par"
ctl release kid >/dev/null
daemon_stop TERM
"$EGRESSD" -c $CONF --purge >/dev/null || say "purge failed"
must "egressd starts anew after a purge" daemon_start
check "an ended lease is found by id when all of the run directory is gone" eq \
	"$(spec par | $EG same)" "$($EG same <$W/par.spec)"
check "  its evidence, too" has "$(api GET /v1/leases/par/manifest)" '^200$' "$(of par uid)"
out=$(api POST /v1/leases/par/fork '{"id":"par","phase":"init"}')
check "its id is free, and a fork may have it" eq "$(code <<<"$out")" 201
check "  then the live one is meant" eq "$(spec par | $EG get parent.uid)" "$(of par uid)"
ctl release par >/dev/null
check "  and after its end that one" eq "$(spec par | $EG get parent.uid)" "$(of par uid)"
daemon_stop TERM

# Another host: another state, another pool, nothing of the first.
AUDIT=$W/audit2 STATE=$W/state2
world_conf pool.prefix=10.210.0.0/24 uplink.link_prefix=10.211.0.0/24
"$EGRESSD" -c $W/egressd.conf --purge >/dev/null 2>&1
rm -f $POLICIES/*.policy
must "another host" daemon_start
out=$(api POST /v1/leases "$one")
check "the spec is valid there" eq "$(code <<<"$out")" 201
check "  with the same policy" eq "$($EG first policy.digest <<<"$out")" \
	"$(of mother policy.digest)"
check "  and the same spec" eq "$(spec "$($EG first id <<<"$out")" | $EG same)" \
	"$($EG same <<<"$one")"
daemon_stop TERM
world_finish
