#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# timeout: 900
# The kernel's limits of its neighbour table (gc_thresh1, 2, 3) are one for the
# whole host, however many namespaces there are, and by default 128, 512 and
# 1,024: with ARP, a pool of that many slots that talk at once would fill it
# and the host's own neighbours would go. Here more slots than that are up and
# all talk, twice as many entries are in the table, and nothing overflows,
# because each of them is permanent and those are not counted.
#
#   NEIGH_SLOTS=N   slots (1,536); 16384 is the whole pool
SLOTS=${NEIGH_SLOTS:-1536}

# The limits and the counters are shown in the host's initial namespace only:
# read from outside, through what is opened before the world is entered.
if [ "${WORLD_INSIDE:-}" != 1 ]; then
	export NEIGH_THRESH
	NEIGH_THRESH=$(cat /proc/sys/net/ipv4/neigh/default/gc_thresh3 2>/dev/null)
	if [ -r /proc/net/stat/arp_cache ]; then
		exec 9</proc/net/stat/arp_cache
	else
		exec 9</dev/null
	fi
fi
. "${0%/*}/../lib/world.sh"
world_enter "$0" "$@"
world_start
need_daemon

# One counter of the table, over all CPUs; nothing when they are not shown.
counter() { # NAME
	awk -v name="$1" '
		function hex(s, i, v) {
			for (i = 1; i <= length(s); i++)
				v = v * 16 + index("0123456789abcdef", substr(s, i, 1)) - 1
			return v + 0
		}
		NR == 1 { for (i = 1; i <= NF; i++) if ($i == name) c = i; next }
		c && name == "entries" { n = hex($c); next } # each CPU has the whole
		c { n += hex($c) }
		END { if (c) print n }' /proc/self/fd/9
}
overflows() { dmesg 2>/dev/null | grep -c 'neighbor table overflow'; }
full() { [ "$(ctl --json pool | j filled)" = true ]; }
seen() { j "$1" <$W/neigh; }
at_least() { [ "$1" -ge "$2" ] || { say "$1, wanted at least $2"; false; }; }

if [ -w /proc/sys/net/ipv4/neigh/default/gc_thresh3 ]; then
	# A kernel that has them for each namespace: low ones, in this world.
	sysctl -qw net.ipv4.neigh.default.gc_thresh1=16 \
		net.ipv4.neigh.default.gc_thresh2=32 \
		net.ipv4.neigh.default.gc_thresh3=64
	NEIGH_THRESH=64
fi
say "gc_thresh3 ${NEIGH_THRESH:-not shown here}; $SLOTS slots"

world_conf pool.slots="$SLOTS" pool.slots_per_gateway=256 pool.armed=64 \
	pool.prefix=10.200.0.0/16 pool.prefill=all
gateways=$(((SLOTS + 255) / 256))
before=$(counter table_fulls)
forced=$(counter forced_gc_runs)
logged=$(overflows)
must "it starts with $SLOTS slots" daemon_start 30
must "  all are built" wait_for 240 full
say "$(grep -o 'pool: .* built in .*' $DAEMON_LOG)"
must "all are leased and talk" eval \
	'"$PYTHON" "$WORLD_LIB/neigh.py" $API /run/netns "$SLOTS" \
		app.demo.example 198.51.100.80 >$W/neigh'
during=$(counter entries)
say "$(cat $W/neigh)"
say "entries in the kernel's one table: ${during:-not shown here}"

check "every one" eq "$(seen leases)" "$SLOTS"
check "  is answered by its guard" eq "$(seen unanswered)" '[]'
check "  and every 16th connects to what it may" eq "$(seen refused)" '[]'
check "a slot has one neighbour" eq "$(seen slot_entries)" "$SLOTS"
check "a gateway its slots and the host" eq "$(seen gateway_entries)" \
	$((SLOTS + gateways))
check "the host its gateways" eq "$(seen host_entries)" "$gateways"
check "all of them permanent" eq "$(seen permanent)" "$(seen entries)"
check "  nothing was learned by ARP" eq "$(seen others)" '[]'
if [ -n "$during" ]; then
	check "they are in the host's table" at_least "$during" \
		$((2 * SLOTS + 2 * gateways))
	[ -z "$NEIGH_THRESH" ] || [ "$NEIGH_THRESH" -ge "$SLOTS" ] ||
		check "  which is past gc_thresh3 ($NEIGH_THRESH)" \
			at_least "$during" $((NEIGH_THRESH + 1))
	check "  and was never full" eq "$(counter table_fulls)" "$before"
	check "  nor had to collect garbage by force" eq \
		"$(counter forced_gc_runs)" "$forced"
fi
check "the kernel logged no overflow" eq "$(overflows)" "$logged"
check "doctor says that the limits are not needed" has \
	"$("$EGRESSCTL" doctor $CONF)" '^OK +neighbours .*gc_thresh3'
daemon_stop TERM
world_finish
