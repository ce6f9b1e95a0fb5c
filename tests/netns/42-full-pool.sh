#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# timeout: 2400
#
# The pool at its full size. All 16,384 slots are built; then twenty thousand
# leases come and go, then every slot is leased at once and all are released.
# After each the daemon and the kernel hold what they held before: descriptors,
# memory, links, routes, neighbours, names, set elements. Speeds are printed,
# never judged. FULL_SLOTS and FULL_CYCLES make it smaller.
. "${0%/*}/../lib/world.sh"
world_enter "$0" "$@"
need_daemon
need "$PYTHON" nft

SLOTS=${FULL_SLOTS:-16384}
CYCLES=${FULL_CYCLES:-20000}
LEASES="$PYTHON $WORLD_LIB/leases.py"

# A slot takes up to 480 kB: a machine that cannot hold them all says so.
fits=$(awk '/^MemAvailable:/ { print int($2 / 520) }' /proc/meminfo)
if [ "$fits" -lt "$SLOTS" ]; then
	say "memory for $fits of $SLOTS slots: going on with those"
	SLOTS=$fits
fi

need ip
world_links || die "the world's links cannot be made"
host_before=$(host_state)
mkdir -p $POLICIES
world_conf pool.prefix=10.200.0.0/16 pool.slots="$SLOTS" pool.prefill=all \
	pool.slots_per_gateway=256 pool.memory_budget=95%
must "the daemon starts" daemon_start

pool() { ctl --json pool | j "$1"; }
all_built() { [ "$(($(pool idle) + $(pool armed)))" -eq "$SLOTS" ]; }

# ---- filling, and leasing meanwhile ---------------------------------------------

t0=$(date +%s%N)
during=$($LEASES probe "$API" 5)
must "all $SLOTS slots are built" wait_for 300 all_built
say "   built in $((($(date +%s%N) - t0) / 1000000)) ms"
after=$($LEASES probe "$API" 5)
check "no lease fails while the pool fills" \
	eq "$(echo "$during" | $EG get errors)" "{}"
say "   lease while it fills: $(echo "$during" | $EG get lease), slow $(echo "$during" | $EG get slow)"
say "   lease when it is full: $(echo "$after" | $EG get lease)"
must "the probe's slots are built again" wait_for 60 all_built

# ---- what is held ------------------------------------------------------------------

daemon_pids() { pgrep -x 'egressd.*'; }

# Everything that must be the same after as before; one line a thing.
holdings() {
	local pid g n=0 neigh=0 routes=0 nft=0
	for pid in $(daemon_pids | sort -un); do
		echo "$(tr '\0' ' ' </proc/$pid/cmdline) descriptors $(find /proc/$pid/fd -mindepth 1 | wc -l)"
	done | sort
	for g in /run/netns/eg-gw-*; do
		n=$((n + $(nsenter --net="$g" ip -o link | wc -l)))
		neigh=$((neigh + $(nsenter --net="$g" ip -4 neigh | wc -l)))
		routes=$((routes + $(nsenter --net="$g" ip -4 route show table all | wc -l)))
		nft=$((nft + $(nsenter --net="$g" nft -a list table inet egressd 2>/dev/null | grep -c .)))
		nft=$((nft + $(nsenter --net="$g" nft -a list table ip egressd 2>/dev/null | grep -c .)))
	done
	echo "gateways: links $n neighbours $neigh routes $routes lines of rules $nft"
	echo "host: links $(ip -o link | wc -l) routes $(ip route | wc -l)"
	echo "names: $(find /run/netns -name 'eg-*' | wc -l) mounts: $(grep -c ' /run/netns/eg-' /proc/self/mountinfo)"
	echo "records: $(find $RUN/leases -name '*.*' ! -name '*.prog' ! -name '*.tombs' | wc -l)"
	echo "slots: built $(($(pool idle) + $(pool armed))) armed $(pool armed) bad $(pool bad)"
}

rss_kib() {
	local pid sum=0
	for pid in $(daemon_pids | sort -un); do
		sum=$((sum + $(awk '/^VmRSS:/ { print $2 }' /proc/$pid/status)))
	done
	echo $sum
}

at_rest() {
	all_built && [ "$(pool armed)" -eq "$armed" ] &&
		[ "$(pool releasing)" -eq 0 ] && [ "$(pool leased)" -eq 0 ]
}
armed=$(pool armed)
before=$(holdings)
rss0=$(rss_kib)
say "$before"
say "resident: $rss0 KiB"

# ---- coming and going -----------------------------------------------------------------

got=$($LEASES cycles "$API" "$CYCLES" 32)
say "   $CYCLES cycles: $got"
check "each of $CYCLES leases was made and released" \
	eq "$(echo "$got" | $EG get done)" "$CYCLES"
check "no generation was given twice" \
	eq "$(echo "$got" | $EG get generations)" "$CYCLES"
must "the pool is whole again" wait_for 400 at_rest
check "nothing is held that was not before" eq "$(holdings)" "$before"
rss1=$(rss_kib)
say "resident: $rss1 KiB"
# 20,000 tombstones of some 110 octets, 60,000 events of the same size, and
# buffers that have grown for so many clients.
check "memory did not drift" [ $((rss1 - rss0)) -lt 32768 ]

# ---- all at once ------------------------------------------------------------------------

got=$($LEASES take "$API" "$SLOTS" 16)
say "   $SLOTS leases: $got"
check "all slots are leased at once" eq "$(pool leased)" "$SLOTS"
check "each slot to one lease" eq "$(echo "$got" | $EG get slots)" "$SLOTS"
exhausted() {
	local out
	out=$(api PUT /v1/leases/one-more '{"policy":"none"}')
	has "$out" '"exhausted"'
}
check "one more is refused at once" within 1000 exhausted
say "resident with all leased: $(rss_kib) KiB"

memory_free() { awk '/^MemAvailable:/ { print $2 }' /proc/meminfo; }
low=$(memory_free)
: >$W/sampling
( while [ -e $W/sampling ]; do memory_free; sleep 0.25; done >$W/memory ) &
$LEASES drop "$API" $((SLOTS - 1)) 32 >$W/dropped 2>&1 &
drop=$!
sleep 1
$LEASES probe "$API" 10 >$W/probed
wait $drop
got=$(tail -n 1 $W/dropped)
say "   released: $got"
say "   lease meanwhile: $(cat $W/probed)"
check "every release is answered" \
	eq "$(echo "$got" | $EG get done)" "$((SLOTS - 1))"
api DELETE /v1/leases/take-$((SLOTS - 1)) >/dev/null
must "the pool is whole again after all of it" wait_for 400 at_rest
rm $W/sampling
say "   memory available: $low KiB with all leased, at least $(sort -n $W/memory | head -n 1) while they went"
# Dying namespaces that pile up would take memory beside the new ones.
check "namespaces die as fast as new ones are made" \
	[ $((low - $(sort -n $W/memory | head -n 1))) -lt 2000000 ]
check "nothing is held that was not before, again" eq "$(holdings)" "$before"

must "the daemon stops" daemon_stop
check "a purge takes all of it" timeout 120 "$EGRESSD" -c $CONF --purge
check "and leaves the host as it was" eq "$(host_state)" "$host_before"
world_finish
