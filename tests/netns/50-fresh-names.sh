#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# timeout: 240
# The pin is in the kernel before the answer leaves: 10,000 names never asked
# for before, each with an address of its own, each connected to in the moment
# the answer is there; no SYN is denied. Four leases of 2,500 each, since a
# lease holds at most 4,096 pins at a time.
. "${0%/*}/../lib/world.sh"
world_enter "$0" "$@"
WORLD_FRESH=10000
world_start
# The bulk prefix is reserved (benchmarks), and so always denied, elsewhere.
printf '%s\n' '169.254.0.0/16 metadata' '127.0.0.0/8 reserved' \
	'10.0.0.0/8 private' >$W/always-deny
world_conf dns.rate=1000000 dns.burst=1000000 rules.always_deny_file=$W/always-deny
must "egressd starts" daemon_start

for i in 0 1 2 3; do
	must "lease $i" lease "f$i" --policy demo
	out=$(inside "f$i" $EG fresh "$(of "f$i" dns.0)" $((2500 * i)) 2500)
	check "lease $i: $(head -n 1 <<<"$out")" has "$out" ' 0 failed$'
	check "  and no denial at all" \
		eq "$(ctl --json show "f$i" | $EG total)" 0
	check "  and none in the log" eq "$(denials "f$i" | $EG count)" 0
done
check "one lease's names are not another's: its addresses are denied there" \
	not inside f1 $EG connect 198.18.1.1 8081
daemon_stop TERM
world_finish
