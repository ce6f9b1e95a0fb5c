#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# timeout: 240
# kill -9 of the whole daemon with a thousand leases, three of them with a
# packet a millisecond in TCP and in UDP: no packet is lost, every lease is taken
# over, the rest of the pool comes back by itself. How long it takes until the
# next lease and the next name is printed, not judged here.
#
# LEASES=N: with so many.
. "${0%/*}/../lib/world.sh"
world_enter "$0" "$@"
. "$WORLD_LIB/rules.sh"
LEASES=${LEASES:-1000}
SLOTS=$((LEASES + LEASES / 5))
R="$PYTHON $WORLD_LIB/restart.py"
FAR=203.0.113.131
world_start
cat >$POLICIES/traffic.policy <<-P
	[policy]
	name = traffic
	[allow]
	allow = 203.0.113.128/28 tcp/9000,udp/9000
	allow = *.wild.demo.example tcp/80
P
in_inet ip addr add $FAR/32 dev lo
in_inet $R serve $FAR 9000 &
world_conf pool.prefix=10.16.0.0/12 pool.slots=$SLOTS \
	pool.slots_per_gateway=256 pool.prefill=all pool.armed=256

all_built() { # nothing is missing and nothing on its way
	api GET /v1/pool | head -n 1 | $PYTHON -c 'import json, sys
p = json.load(sys.stdin)
sys.exit(not (p["idle"] + p["armed"] + p["leased"] == p["slots"]
	and not p["bad"] + p["lost"] + p["releasing"]))'
}
kill_all() {
	kill -9 $(pgrep -x 'egressd.*') 2>/dev/null
	wait_for 10 daemon_gone
}
spaces() { ip netns list | grep -c '^eg-'; }

ulimit -n "$(ulimit -Hn)"
must "egressd starts" daemon_start 60
must "$LEASES leases" $R lease $API 0 $LEASES traffic
must "the rest of $SLOTS slots is there" wait_for 60 all_built
for i in 0 $((LEASES / 2)) $((LEASES - 1)); do
	ctl --json show load-$i >"$W/lease.load-$i"
	set -- "$@" "$(of load-$i netns)"
done
$R flows $W/flows $W/flows.stop $FAR 9000 "$@" >$W/flows.err 2>&1 &
FLOWS=$!
must "flows in three of them" wait_for 10 grep -q flowing $W/flows
$R leases $API | sort >$W/before

for round in 1 2; do
	sleep 0.5
	must "kill -9 of all" kill_all
	sleep 0.5 # on their own
	cat $DAEMON_LOG >>$W/egressd.log.all
	$R clock $API load-after-$round traffic "$1" "$(of load-0 dns.0)" \
		n$round.wild.demo.example >$W/clock 2>&1 &
	CLOCK=$!
	must "the next start is ready" daemon_start 60
	wait $CLOCK
	check "it serves: $(cat $W/clock)" test $? -eq 0
	$R leases $API | grep -v ' load-after\|^load-after' | sort >$W/after
	check "every lease as it was" cmp $W/before $W/after
	check "the rest of the pool comes back" wait_for 60 all_built
	check "nothing was said to be wrong" not grep -E \
		' (error|warning): [^f]' $DAEMON_LOG # but a first denial
	ctl release load-after-$round >/dev/null
	wait_for 30 all_built
	check "a denied address stays denied" not nsenter --net="$1" \
		$EG connect 203.0.113.66 443
done

touch $W/flows.stop
wait $FLOWS
check "the flows ended by themselves" test $? -eq 0
sed 's/^/  /' $W/flows $W/flows.err
check "no packet was lost" not grep -Ev ' lost 0 twice 0 ' $W/flows
daemon_stop TERM
world_finish
