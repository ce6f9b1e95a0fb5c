#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# timeout: 200
# What comes late, when the slot is the next tenant's: an upstream's answer, a
# query that waited, a release, a second deletion. One slot, leased again and
# again; everything is fenced by the generation.
. "${0%/*}/../lib/world.sh"
world_enter "$0" "$@"
. "$WORLD_LIB/rules.sh"
. "$WORLD_LIB/left.sh"
world_start
in_inet ip addr add 198.51.100.54/32 dev lo
in_inet $PYTHON "$WORLD_LIB/servers.py" --log $W/late.jsonl --ready $W/late.ready \
	late=late:198.51.100.54:53 &
wait_for 5 test -e $W/late.ready
world_conf pool.slots=1 pool.slots_per_gateway=1 dns.upstream=198.51.100.54
must "egressd starts" daemon_start

role() { $EG rolepid $DAEMON_LOG "$1"; }
asked() { # NAME: how often upstream was asked for it
	$EG asked $W/late.jsonl "$1"
}
answered_after() { # NAME ID: the answer went out after that lease was made
	$EG answered $W/late.jsonl "$1" "$(of "$2" created)"
}
one_query() { [ "$(asked "$1")" -ge "${2:-1}" ]; }
tenant() { wait_for 10 lease "$1" --policy demo --ttl 1h; }
# hear ID: a socket of the tenant on the port the former one asked from
hear() {
	nsenter --net="$(of "$1" netns)" $EG hear 5353 "$2" >$W/heard 2>&1 &
	heard=$!
	wait_for 3 grep -q hearing $W/heard
}
pins_of() { api GET "/v1/leases/$1" | $EG first pins; }
clean() { # ID: nothing came to it and it may go nowhere
	check "  it heard nothing of it" wait $heard
	check "  has no pin" eq "$(pins_of "$1")" '[]'
	check "  and cannot go there" not inside "$1" $EG connect 198.51.100.80 443
}

# ---- the answer of an upstream -------------------------------------------------------
# It comes 0.7 s after the question; by then the slot has to be another's.
late_answer() { # NAME TAG
	local try
	for try in 1 2 3 4 5 6 7 8; do
		tenant "$2a$try" || return 1
		nsenter --net="$(of "$2a$try" netns)" $EG ask \
			"$(of "$2a$try" dns.0)" "$1" 5353
		ctl release "$2a$try" >/dev/null
		tenant "$2b$try" || return 1
		hear "$2b$try" 2
		sleep 0.8
		! answered_after "$1" "$2b$try" || break
		[ $try -lt 8 ] || break
		kill $heard
		ctl release "$2b$try" >/dev/null
	done
	answered_after "$1" "$2b$try" ||
		say "# never in time to be late; the next are, whatever the machine"
	check "$1 is asked for by one and answered to nobody" one_query "$1"
	clean "$2b$try"
	ctl release "$2b$try" >/dev/null
}
late_answer app.demo.example p
late_answer nothing.wild.demo.example n

# ---- a guard that was held up: it finds the answer and the news at once ----------------
held_up() { # NAME TAG BEFORE-OR-AFTER THE QUESTION WENT ON
	local dns
	dns=$(role dns)
	tenant "$2a"
	[ "$3" = after ] || kill -STOP "$dns"
	nsenter --net="$(of "$2a" netns)" $EG ask "$(of "$2a" dns.0)" "$1" 5353
	[ "$3" = before ] || wait_for 2 one_query "$1"
	kill -STOP "$dns"
	check "release goes on without the guard" within 12000 ctl release "$2a"
	must "  the next tenant is there" tenant "$2b"
	hear "$2b" 3
	kill -CONT "$dns"
	sleep 1
	[ "$3" = before ] || check "$1 is answered, the guard held up" one_query "$1"
	clean "$2b"
	check "  it can ask for itself" has "$(inside "$2b" $EG dig \
		"$(of "$2b" dns.0)" app.demo.example)" 198.51.100.80
	check "  and go there" eq "$(fetch "$2b" https://app.demo.example/)" \
		"hello from app:443"
	ctl release "$2b" >/dev/null
	: >$W/late.jsonl
}
: >$W/late.jsonl
held_up nothing2.wild.demo.example h after
held_up y.wild.demo.example i after
[ "$(uname -r | cut -d. -f1)" -lt 6 ] || held_up z.wild.demo.example j before

# ---- what one asked through a wildcard, the next asks anew -------------------------------
must "a tenant" tenant w1
for i in 1 2 3; do
	inside w1 $EG dig "$(of w1 dns.0)" c.wild.demo.example >/dev/null
done
check "it asks upstream once" eq "$(asked c.wild.demo.example)" 1
ctl release w1 >/dev/null
must "the next" tenant w2
check "its answer is not the former's" has "$(inside w2 $EG dig "$(of w2 dns.0)" \
	c.wild.demo.example)" 198.51.100.80
check "  upstream was asked anew" eq "$(asked c.wild.demo.example)" 2

# ---- a late release ----------------------------------------------------------------------
check "a late DELETE by generation: 409" has "$(api DELETE \
	"/v1/leases/w2?generation=$(of w1 generation)")" '^409$' stale-generation
check "  by uid: 409" has "$(api DELETE "/v1/leases/w2?uid=$(of w1 uid)")" \
	'^409$' stale-generation
check "  of the uid itself: 410" has "$(api DELETE "/v1/leases/uid:$(of w1 uid)")" '^410$'
check "  of its id: 410" has "$(api DELETE /v1/leases/w1)" '^410$'
check "the tenant is still there" has "$(api GET /v1/leases/w2)" '"leased"'
ctl release w2 >/dev/null

# ---- orders that are given twice -----------------------------------------------------------
# build sleeps while main waits for it, is asked again after 5 s, and does it
# all when it wakes: the second time with a lease of the next in its way.
again() { # ROLE-THAT-SLEEPS-FIRST TAG
	local first build
	first=$(role "$1")
	build=$(role build)
	tenant "$2a"
	nsenter --net="$(of "$2a" netns)" $EG dig "$(of "$2a" dns.0)" \
		echo.demo.example >/dev/null
	kill -STOP "$first"
	ctl release "$2a" >/dev/null &
	release=$!
	sleep 1
	kill -STOP "$build"
	[ "$1" = build ] || kill -CONT "$first"
	sleep 6
	kill -CONT "$build"
	check "with $1 asleep: it is released all the same" wait $release
	must "  the next tenant is there" tenant "$2b"
	inside "$2b" $EG dig "$(of "$2b" dns.0)" echo.demo.example >/dev/null
	nsenter --net="$(of "$2b" netns)" $EG flow 198.51.100.80 80 1 /dev/null >/dev/null 2>&1
	check "  works" eq "$(fetch "$2b" https://app.demo.example/)" "hello from app:443"
	check "  its flows are its own" has "$(flows_of '10\.200\.0\.2')" '^eg-gw-00 ' '^host '
	sleep 2
	check "  and stay" has "$(flows_of '10\.200\.0\.2')" '^eg-gw-00 ' '^host '
	check "  it is leased" has "$(api GET "/v1/leases/$2b")" '"leased"'
	check "  release" ctl release "$2b"
	check "  leaves nothing" slot_left_nothing 0
}
again build d # a second DOWN
again audit s # a second SCRAP: conntrack, link, name
daemon_stop TERM
world_finish
