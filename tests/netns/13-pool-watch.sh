#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# timeout: 240
# The fill of the pool can be watched: egressctl pool --watch on a terminal,
# in a pipe and as JSON; metrics; and the log says what it took.
. "${0%/*}/../lib/world.sh"
world_enter "$0" "$@"
world_start
need_daemon

SLOTS=2048
MB=$((SLOTS * 480000 / 1000000))
full() { [ "$(ctl --json pool | j filled)" = true ]; }
# watch SECONDS ARGS...: interrupted after that, as by ^C; its exit status
watch() {
	local s=$1 pid st
	shift
	"$EGRESSCTL" --socket $API "$@" pool --watch >$W/watch 2>$W/watch.err &
	pid=$!
	sleep "$s"
	kill -INT $pid
	wait $pid
	st=$?
	cat $W/watch
	return $st
}
words() { # KEY: its values, one a line
	grep -Eo " $1=[0-9.]+" $W/watch | cut -d= -f2
}
grows() { # numbers on stdin that never shrink and grow in all
	awk 'NR > 1 && $1 < last { bad = 1 } NR == 1 { first = $1 }
		{ last = $1; print } END { exit bad || NR < 2 || last <= first }'
}
metric() { ctl metrics | awk -v m="$1" '$1 == m { print $2 }'; }
at_least() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a + 0 >= b + 0) }'; }

world_conf pool.slots=$SLOTS pool.slots_per_gateway=256 \
	pool.prefix=10.200.0.0/19 pool.armed=32 pool.memory_budget=1G
must "it starts with $SLOTS slots" daemon_start
check "watched while it fills: SIGINT ends it with 0" watch 2.5
check "  a line a second" eq "$(wc -l <$W/watch)" 3
check "  of KEY=VALUE words only" not grep -Evq \
	'^time=[0-9T:Z-]+( [a-z0-9_]+=[0-9.]+){17}$' $W/watch
check "  without a control character" not grep -q '[[:cntrl:]]' $W/watch
check "  that grows" eval 'words built | grows'
check "  with the rate of that second" at_least \
	"$(words fill_rate | sort -n | tail -n 1)" 50
must "the fill ends" wait_for 40 full
check "the log says what was estimated" has "$(cat $DAEMON_LOG)" \
	"pool: $SLOTS slots, $SLOTS to be prebuilt, about $MB MB"
check "  and what was used" has "$(cat $DAEMON_LOG)" \
	"pool: $SLOTS slots built in [0-9.]+ s, about [0-9]+ MB used( \([0-9]+ kB a slot\)|, hidden by what others gave back), estimated $MB MB$"

ctl --json pool >$W/pool
check "the API has the fill" eval \
	'$EG keys prefill built built_total fill_rate fill_s filled slots_cap \
		memory_budget_bytes memory_prefill_bytes memory_estimate_bytes \
		memory_measured_bytes memory_slot_bytes lease_us_buckets <$W/pool'
check "  budget" eq "$(j memory_budget_bytes <$W/pool)" 1073741824
check "  all are there" eq "$(j built <$W/pool) $(j built_total <$W/pool)" \
	"$SLOTS $SLOTS"
# Of the whole machine: other tests take and give back beside this one.
slot=$(j memory_slot_bytes <$W/pool)
check "  memory measured, and a slot's share of it ($slot)" eq "$slot" \
	"$(($(j memory_measured_bytes <$W/pool) / SLOTS))"
check "for people, too" has "$(ctl pool)" "^filled: $SLOTS of $SLOTS slots" \
	"^kernel memory: about $MB MB by estimate, budget 1073 MB"

check "metrics: HELP, TYPE, base units" has "$(ctl metrics)" \
	'^# HELP egressd_pool_builds_total ' \
	'^# TYPE egressd_pool_builds_total counter$' \
	'^# TYPE egressd_pool_fill_rate gauge$' \
	"^egressd_pool_prefill_slots $SLOTS$" \
	'^egressd_pool_memory_budget_bytes 1073741824$'
check "  the built ones are the sum of their states" eq \
	"$(metric egressd_pool_built_slots)" \
	"$(ctl metrics | awk '/^egressd_slots\{/ && !/building|bad/ { n += $2 }
		END { print n }')"
check "  filled" eq "$(metric egressd_pool_filled)" 1
check "  each has one HELP and one TYPE" eval \
	'ctl metrics | awk "/^# (HELP|TYPE)/ { n[\$2 \" \" \$3]++ }
		END { for (k in n) if (n[k] != 1) { print k, n[k]; bad = 1 } exit bad }"'

# Leases beside the watch: their rate and how long they took.
leases() {
	local i
	for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
		ctl lease --id "w$i" --policy none >/dev/null || return 1
		sleep 0.05
	done
}
(sleep 0.3; leases) &
check "JSON: an object a second" watch 3.3 --json
wait $!
check "  each on a line" eq "$($EG count slots=$SLOTS <$W/watch)" 4
check "  leases a second" at_least "$("$PYTHON" -c 'import json, sys
print(max(json.loads(l)["leases_s"] for l in sys.stdin))' <$W/watch)" 3
check "  p99 not below p50, above nothing" "$PYTHON" -c 'import json, sys
seen = [json.loads(l) for l in open(sys.argv[1])]
seen = [s for s in seen if s["leases_s"] > 0]
assert seen, "no second with leases"
for s in seen:
    assert 0 < s["lease_p50_us"] <= s["lease_p99_us"], s' $W/watch

if command -v script >/dev/null; then
	check "on a terminal: drawn over itself" eval \
		'timeout -s INT 3.5 script -qefc \
			"$EGRESSCTL --socket $API pool --watch" /dev/null \
			</dev/null >$W/tty; grep -q "\[####*\] 100 %" $W/tty &&
		grep -q "$(printf "\033")\[7A" $W/tty && grep -q "leases/s" $W/tty'
fi
check "a reader that has seen enough ends it" within 5000 eval \
	'[ "$(ctl pool --watch | head -n 1 | wc -l)" = 1 ]'
check "without a daemon: exit 3" exits 3 \
	"$EGRESSCTL" --socket $W/nosuch.sock pool --watch

"$EGRESSCTL" --socket $API pool --watch >$W/watch 2>$W/watch.err &
pid=$!
sleep 1.2
daemon_stop TERM
check "the daemon goes away: exit 3" exits 3 wait $pid
check "  and it says so" has "$(cat $W/watch.err)" 'cannot be reached'

# A pool of a few slots: no figure for one.
"$EGRESSD" -c $CONF --purge >/dev/null 2>&1
world_conf pool.prefill=4
must "it starts with prefill 4 of 8" daemon_start
must "  the fill ends" wait_for 10 full
check "  the log says that it cannot tell" has "$(cat $DAEMON_LOG)" \
	'pool: 4 slots built in [0-9.]+ s, about [0-9]+ MB used, too few to tell of one, estimated 1 MB'
check "  so does the API" eq "$(ctl --json pool | j memory_slot_bytes)" 0
daemon_stop TERM
world_finish
