#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# timeout: 300
# The bench, at a size that shows that it measures and what it prints; how fast
# anything was is not looked at. Its worlds lie inside this one.
. "${0%/*}/../lib/world.sh"
world_enter "$0" "$@"
need_daemon
OUT=/mnt/bench # the worlds inside have a /run of their own
mount -t tmpfs tmpfs /mnt || die "cannot mount a tmpfs"

bench() { # STDOUT [GROUP]...
	local out=$1
	shift
	BENCH_OUT=$OUT BENCH_SETTLE=0 BENCH_SLOTS=64 BENCH_ROUNDS=1 BENCH_OPS=40 \
		BENCH_SECONDS=1 BENCH_PEER_OPS=2 \
		bash "$TOP/tests/bench/run" "$@" >"$out" 2>"$out.err"
}

# every_line_right FILE: seven fields, the last one of two words
every_line_right() {
	awk -F'\t' 'NF != 7 || $1 !~ /^[a-z]+\.[a-z0-9_]+$/ || $7 !~ /^(ok|short)$/ ||
		$2 !~ /^-?[0-9.]+$/ || $5 !~ /^(-|-?[0-9.]+)$/ { print; bad = 1 }
		END { exit bad || !NR }' "$1"
}

# said FILE NAME...: a line for each
said() {
	local f=$1 n
	shift
	for n in "$@"; do
		cut -f1 "$f" | grep -qx "$n" || { echo "no line $n"; return 1; }
	done
}

# json_right GROUP LINES: one file, with the machine and the same figures
json_right() {
	"$PYTHON" - "$1" "$2" $OUT/"$1"-*.json <<-'PY'
	import json, sys
	group, lines, path = sys.argv[1:]
	o = json.load(open(path))
	for k in ("machine", "kernel", "cpus", "memory_kB", "date", "commit"):
	    assert k in o, k
	rows = [l.rstrip("\n").split("\t") for l in open(lines)]
	assert [r[0] for r in rows] == [f["name"] for f in o["figures"]]
	assert all(f["verdict"] == r[6] for f, r in zip(o["figures"], rows))
	assert o["group"] == group and o["notes"]
	PY
}

check "the pool is measured" bench $W/pool pool
check "  each line has its seven fields" every_line_right $W/pool
check "  every promised figure is there" said $W/pool pool.fill pool.growth \
	pool.memory pool.rss pool.fill_4 pool.fill_16 pool.fill_64
check "  and the JSON file says the same" json_right pool $W/pool
check "the head of the table is on stderr" grep -q "^name	value	unit" $W/pool.err

# Without CNI's plugins (`tests/deps.sh --bench`) that one figure has no ratio.
want=0
[ -x /usr/lib/cni/ptp ] || want=1
check "leases are measured" exits $want bench $W/lease lease
check "  each line has its seven fields" every_line_right $W/lease
check "  every promised figure is there" said $W/lease lease.p50 lease.p99 \
	lease.p999 lease.p50_0 lease.p50_50 lease.p50_99 lease.tap_p50 \
	lease.tap_p99 lease.churn_p99 lease.cycles lease.vs_cni lease.vs_script
check "  and the JSON file says the same" json_right lease $W/lease

check "a group that is not there is refused" exits 2 bench $W/none nonsense
check "  by the names of those that are" grep -q 'lease.*pool' $W/none.err
check "so is a pool of no size" exits 2 env BENCH_SLOTS=0 \
	bash "$TOP/tests/bench/run" pool
world_finish
