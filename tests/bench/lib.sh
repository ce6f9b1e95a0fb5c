# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# What the groups of the bench share; sourced by tests/bench/run, see there.

TOOLS=$B/tests/bench
SETTLE_S=${BENCH_SETTLE:-120} # the longest the kernel is waited for
SLOT_KB=600                    # memory that must be there for each slot
FILL_S=600                     # the longest a pool may take to fill

progress() { printf '%s %s\n' "$(date +%H:%M:%S)" "$*" >&2; }

# ratio A B: A/B, "-" where one of them was not measured
ratio() {
	[ "$1" != - ] && [ "$2" != - ] || { echo -; return; }
	awk -v a="$1" -v b="$2" 'BEGIN { if (b + 0) printf "%.3f", a / b; else print "-" }'
}

least() { printf '%s\n' "$@" | grep -v '^-$' | sort -g | head -n 1 | grep . || echo -; }

# ---- figures ---------------------------------------------------------------------

# judged VALUE RATIO TARGET: what the target is about
judged() {
	case $3 in - | *[a-zA-Z]*) echo "$1" ;; *) echo "$2" ;; esac
}

# verdict JUDGED TARGET; what was not measured is short of anything
verdict() {
	[ "$1" != - ] || { echo short; return; }
	[ "$2" != - ] || { echo ok; return; }
	awk -v a="$1" -v t="$2" 'BEGIN {
		b = substr(t, 3) + 0 # without the unit
		print((t ~ /^>/ ? a + 0 >= b : a + 0 <= b) ? "ok" : "short") }'
}

# figure NAME VALUE UNIT REFERENCE RATIO TARGET
figure() {
	local shown=$6 what
	what=$(judged "$2" "$5" "$6")
	[ "$what" != - ] || FAILED=1
	if [[ $6 =~ ^([<>]=)([0-9.]+)(.*)$ ]]; then
		shown="${BASH_REMATCH[1]} ${BASH_REMATCH[2]}"
		[ -z "${BASH_REMATCH[3]}" ] || shown="$shown ${BASH_REMATCH[3]}"
	fi
	printf '%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$1" "$2" "$3" "$4" "$5" "$shown" \
		"$(verdict "$what" "$6")" | tee -a "$RAW/$GROUP.figures" >&3
}

# note NAME JSON
note() { printf '%s\t%s\n' "$1" "$2" >>"$RAW/$GROUP.notes"; }

# json NAME VALUE ...: an object; VALUE is JSON already, - is null
json() {
	local out='' sep='' v
	while [ $# -ge 2 ]; do
		v=$2
		[ "$v" != - ] || v=null
		out="$out$sep\"$1\": $v"
		sep=', '
		shift 2
	done
	echo "{$out}"
}

# ---- worlds ------------------------------------------------------------------------

# in_world LOG FUNCTION [ARGUMENTS]
in_world() {
	local log=$RAW/$1.log
	shift
	bash "$BENCH/run" --world "$GROUP" "$@" >"$log" 2>&1 </dev/null && return
	progress "$* failed; the end of $log:"
	tail -n 15 "$log" | sed 's/^/    | /' >&2
	return 1
}

SLAB=/sys/kernel/slab/net_namespace

# Network namespaces the kernel holds, dead ones included. Freed objects that a
# processor keeps for itself count until the cache is shrunk.
namespaces() {
	echo 1 2>/dev/null >$SLAB/shrink
	if [ -r $SLAB/objects ]; then
		cut -d' ' -f1 $SLAB/objects
	else
		awk '$1 == "net_namespace" { n = $2 } END { print n + 0 }' /proc/slabinfo
	fi
}

# Is the kernel's one thread that takes namespaces apart at it?
dismantling() { cat /proc/[0-9]*/comm 2>/dev/null | grep -q '^kworker.*+netns'; }

# settle: until what former measurements made is gone. One thread of the kernel
# takes namespaces apart, all that have ended in one batch, long after their
# end, and lets go of a batch only when the next one comes: so one more is made
# and ended at each turn. What others on the machine make cannot be waited for
# for ever; where the number does not come to rest, it is said and gone on.
settle() {
	local end=$((SECONDS + SETTLE_S)) n=0 last=-1 still=0
	while [ $SECONDS -lt $end ]; do
		unshare --net true 2>/dev/null
		sleep 0.5
		n=$(namespaces)
		if ! dismantling && [ $last -ge 0 ] && [ $((n - last)) -lt 20 ] &&
			[ $((last - n)) -lt 20 ]; then
			still=$((still + 1))
		else
			still=0
		fi
		last=$n
		[ $still -lt 4 ] || break
	done
	[ "$n" -le 100 ] ||
		progress "$n network namespaces of others are there; going on beside them"
}

# room SLOTS: is there memory for so many, and more than they take? What others
# or a slow end of namespaces hold is waited for; then no attempt is made, since
# a machine out of memory is nobody's gain.
room() {
	local need=$(($1 * SLOT_KB + 500000)) end=$((SECONDS + SETTLE_S)) have
	while :; do
		have=$(awk '$1 == "MemAvailable:" { print $2 }' /proc/meminfo)
		[ "$have" -lt $need ] || return 0
		[ $SECONDS -lt $end ] || break
		sleep 2
	done
	progress "$1 slots want $((need / 1024)) MiB of memory, $((have / 1024)) MiB are available"
	return 1
}

# busy_ns: time the machine's processors have spent on anything, since its start
busy_ns() {
	awk -v hz="$(getconf CLK_TCK)" '$1 == "cpu" {
		printf "%.0f\n", ($2 + $3 + $4 + $7 + $8) * 1e9 / hz }' /proc/stat
}

# ---- inside a world ------------------------------------------------------------------

# now_ns: CLOCK_REALTIME, without starting a process
now_ns() { NOW_NS=${EPOCHREALTIME/[.,]/}000; }

# memory FILE: what the kernel has, when nothing of it is cache
memory() {
	if [ "$SETTLE_S" -gt 0 ]; then
		sync
		sleep 1
		echo 3 >/proc/sys/vm/drop_caches
		sleep 1
	fi
	cat /proc/meminfo >"$1"
	cat /proc/slabinfo >"$1.slab" 2>/dev/null
	echo "NetNamespaces: $(namespaces)" >>"$1"
}

# bench_conf SLOTS [SECTION.KEY=VALUE]...: a pool of that size, prebuilt, in a
# world with an uplink
bench_conf() {
	local n=$1
	shift
	world_links || die "the world's links cannot be made"
	world_policies
	world_conf pool.prefix=10.200.0.0/16 pool.slots="$n" \
		pool.slots_per_gateway=256 pool.prefill=all "$@"
}

# bench_fill SLOTS MARKS: starts egressd and returns when all slots are built
bench_fill() {
	local st busy watch
	need_daemon
	: >"$DAEMON_LOG"
	busy=$(busy_ns)
	now_ns
	"$EGRESSD" -c "$CONF" >>"$DAEMON_LOG" 2>&1 &
	DAEMON_PID=$!
	"$TOOLS/poolwatch" $READ "$1" "$NOW_NS" $FILL_S >"$2" &
	watch=$!
	wait -n $DAEMON_PID $watch # a daemon that ends will not fill it
	kill -0 $DAEMON_PID 2>/dev/null || kill $watch 2>/dev/null
	wait $watch
	st=$?
	echo "busy $(($(busy_ns) - busy))" >>"$2"
	echo "cpu $(daemon_cpu)" >>"$2"
	cp "$DAEMON_LOG" "$2.egressd.log"
	[ $st -eq 0 ] || say "the pool was not filled"
	return $st
}

daemon_pids() { pgrep -x 'egressd.*'; }

# daemon_cpu: nanoseconds all its processes have used
daemon_cpu() {
	local p
	for p in $(daemon_pids); do
		sed 's/.*) //' /proc/"$p"/stat
	done | awk -v hz="$(getconf CLK_TCK)" '{ t += $12 + $13 }
		END { printf "%.0f\n", t * 1e9 / hz }'
}

# daemon_rss: "RSS PSS" of all its processes in kB
daemon_rss() {
	local p
	for p in $(daemon_pids); do
		cat /proc/"$p"/smaps_rollup
	done | awk '$1 == "Rss:" { r += $2 } $1 == "Pss:" { p += $2 }
		END { print r + 0, p + 0 }'
}
