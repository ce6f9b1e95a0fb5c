#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# A namespace is never handed to a second tenant: one slot, leased again and
# again. What the first tenant held leads nowhere.
. "${0%/*}/../lib/world.sh"
world_enter "$0" "$@"
. "$WORLD_LIB/rules.sh"
world_start
world_conf pool.slots=1 pool.slots_per_gateway=1
must "egressd starts with one slot" daemon_start
must "the first tenant" lease one --policy demo
old=$(of one netns)
check "it reaches its service" eq \
	"$(fetch one https://app.demo.example/)" "hello from app:443"
# He keeps the path, the namespace itself, and a process in it.
exec 9<"$old"
nsenter --net="$old" sleep 60 &
nsenter --net="$old" $EG flow 198.51.100.80 80 30 $W/flow.log >/dev/null 2>&1 &
wait_for 3 test -s $W/flow.log

check "release answers although a process is left inside" \
	within 15000 ctl release one
check "the path is gone" test ! -e "$old"
check "joining by the path fails" not nsenter --net="$old" true
check "ip netns finds nothing" not ip netns exec "$(basename "$old")" true
check "in the namespace he still holds there is no link" \
	eq "$(nsenter --net=/proc/self/fd/9 ip -o link show | grep -vc ' lo:')" 0
check "  and no way out" not nsenter --net=/proc/self/fd/9 \
	$EG connect 198.51.100.80 443
check "it is counted as lingering" test \
	"$(ctl --json pool | j lingering)" -ge 1

must "the next tenant of the same slot" wait_for 5 lease two --policy demo
check "the slot is the same" eq "$(of two slot)" "$(of one slot)"
check "the generation is higher" \
	test "$(of two generation)" -gt "$(of one generation)"
check "so the path is another" not eq "$(of two netns)" "$old"
check "the uid is another" not eq "$(of two uid)" "$(of one uid)"
check "the namespace is another" not eq \
	"$(stat -Lc %i "$(of two netns)")" "$(stat -Lc %i /proc/self/fd/9)"
check "it starts without pins" refused two 198.51.100.80 443
check "  and with one denial, that one" eq \
	"$(wait_for 3 denied_now two dport=443 >/dev/null; ctl --json show two | $EG total)" 1
check "  and no flow of the former tenant" not has \
	"$(ip netns exec eg-gw-00 cat /proc/net/nf_conntrack 2>/dev/null)" \
	'sport=.*dport=80 '
check "the old path still leads nowhere" not nsenter --net="$old" true
check "a stale fence does not release it" has "$(api DELETE \
	"/v1/leases/two?generation=$(of one generation)")" '^409$'
check "it works" eq "$(fetch two https://app.demo.example/)" "hello from app:443"
check "the first tenant's namespace still has no link" \
	eq "$(nsenter --net=/proc/self/fd/9 ip -o link show | grep -vc ' lo:')" 0
check "the first tenant's evidence is sealed and apart" \
	test -s "$(of one audit)/manifest.json" -a \
	"$(of one audit)" != "$(of two audit)"

exec 9<&-
gen=$(of two generation)
ctl release two
for i in 1 2 3 4 5 6 7 8 9 10; do
	wait_for 5 lease "n$i" --policy none || break
	[ "$(of "n$i" generation)" -gt "$gen" ] || break
	[ ! -e "$old" ] || break
	gen=$(of "n$i" generation)
	ctl release "n$i" >/dev/null || break
done
check "ten more tenants, each with a generation of its own" eq $i 10
daemon_stop TERM
world_finish
