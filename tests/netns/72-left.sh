#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# timeout: 150
# After a release nothing is left of a lease: in the gateway, the host, the
# mounts and the daemon's descriptors. Also when a virtual machine holds the
# tap, or a process sits in the namespace.
. "${0%/*}/../lib/world.sh"
world_enter "$0" "$@"
. "$WORLD_LIB/rules.sh"
. "$WORLD_LIB/left.sh"
need ip nft nsenter
[ -r /proc/net/nf_conntrack ] || skip "kernel lacks /proc/net/nf_conntrack"
world_start
world_conf pool.slots=2 pool.slots_per_gateway=2
must "egressd starts" daemon_start

lingering() { api GET /v1/pool | $EG first lingering; }
armed() { [ "$(api GET /v1/pool | $EG first armed)" = "$1" ]; }

# As much of everything as a lease can have.
live_it_up() { # ID
	local a
	inside "$1" $EG dig "$(of "$1" dns.0)" app.demo.example
	inside "$1" $EG dig "$(of "$1" dns.0)" echo.demo.example
	inside "$1" $EG dig "$(of "$1" dns.0)" x1.wild.demo.example
	inside "$1" $EG dig "$(of "$1" dns.0)" collector.evil.example
	inside "$1" $EG dig "$(of "$1" dns.0)" app.demo.example A tcp
	fetch "$1" https://app.demo.example/
	for a in 1.2.3.4 169.254.169.254 10.3.0.10 224.0.0.1 127.0.0.1; do
		inside "$1" $EG connect $a 443
		inside "$1" $EG connect $a 5000 udp
	done
	nsenter --net="$(of "$1" netns)" $EG flow 198.51.100.81 7 300 "$W/flow.$1" &
	wait_for 3 grep -q connected "$W/flow.$1"
} >/dev/null 2>&1

# One before, so that what is made once is there.
lease first --policy demo --ttl 1h && live_it_up first
pkill -f "flow 198.51.100.81" # ours: all of this world
ctl release first >/dev/null
must "both slots wait to be leased" wait_for 5 armed 2
wait_for 3 eq "$(flows_of '10\.200\.0\.[0-9]+')" ""
sleep 1
traces >$W/before

for round in 1 2 3; do
	must "round $round: a lease" lease "r$round" --policy demo --ttl 1h --label a=b
	live_it_up "r$round"
	[ $round -gt 1 ] || check "the helper sees what is there" sh -c \
		"[ \$(wc -l <$W/before) -gt 10 ]"
	[ $round -gt 1 ] || check "  such as elements, flows and a record" has \
		"$(slot_left_nothing "$(of r1 slot)")" 'element live' 'element p00' \
		'element denied' '^eg-gw-00 ipv4.*10\.200' '^host ipv4.*10\.200' '^record'
	pkill -f "flow 198.51.100.81"
	[ $round != 2 ] || ctl revoke r2 >/dev/null
	check "  is released" ctl release "r$round"
	check "  nothing of it is left the moment that answers" \
		slot_left_nothing "$(of "r$round" slot)"
	wait_for 5 armed 2
	check "  all is as before it, in the daemon too" wait_for 5 traces_as $W/before
done
check "nothing lingers" eq "$(lingering)" 0

# A process sits in it and has a flow.
must "a lease with a process in it" lease sit --policy demo --ttl 1h
live_it_up sit
exec 8<"$(of sit netns)"
check "release answers in time" within 15000 ctl release sit
check "  nothing is left" slot_left_nothing "$(of sit slot)"
check "  the process is counted" eq "$(lingering)" 1
check "  it has no link" eq "$(nsenter --net=/proc/self/fd/8 ip -o link show | grep -vc ' lo:')" 0
check "  and no way out" not nsenter --net=/proc/self/fd/8 $EG connect 198.51.100.81 7
wait_for 5 armed 2
check "  the slot is built anew" eq "$(ls /run/netns | grep -c '^eg-0000[01]\.')" 2
pkill -f "flow 198.51.100.81"
exec 8<&-
check "  and all is as before once it is gone" wait_for 5 traces_as $W/before

if [ ! -c /dev/net/tun ]; then
	say "no /dev/net/tun: guests left out"
	daemon_stop TERM
	world_finish
fi

# A guest: the tap loses its carrier, comes back, and is held at the end.
gone_events() { curl -s --unix-socket $READ -H 'Accept: application/x-ndjson' \
	'http://e/v1/events?type=guest-gone' | $EG match lease=vm "text=$1"; }
must "a lease with a tap" lease vm --policy demo --ttl 1h --guest tap --tap tap0
must "a guest boots" tapguest vm
AS=guest
check "it works" eq "$(fetch vm https://app.demo.example/)" "hello from app:443"
check "nobody says it is gone" not gone_events 'carrier lost'
vmm=$(pgrep -f "tapguest.py.*--guest /run/netns/guest-vm")
kill "$vmm"
check "the VMM ends: guest-gone" wait_for 5 gone_events 'carrier lost'
check "  the lease is still there" has "$(api GET /v1/leases/vm)" '"leased"'
ip netns del guest-vm
rm -f $W/guest-vm.ready
must "it boots again" tapguest vm
check "  and that is told, too" wait_for 5 gone_events 'carrier is back'
check "  and works" eq "$(fetch vm https://app.demo.example/)" "hello from app:443"
guest vm $EG flow 198.51.100.81 7 300 $W/flow.vm >/dev/null 2>&1 &
guest vm $EG dig 172.16.0.1 echo.demo.example >/dev/null
guest vm $EG flow 198.51.100.81 7 300 $W/flow.vm >/dev/null 2>&1 &
flow=$!
wait_for 3 grep -q connected $W/flow.vm
n=$(lingering)
check "release while the VMM holds the tap" within 15000 ctl release vm
check "  nothing is left" slot_left_nothing "$(of vm slot)"
check "  what it holds is counted" eq "$(lingering)" $((n + 1))
wait $flow
check "  its flow was cut" test $? -ne 0
check "  it reaches nothing" not guest vm $EG connect 198.51.100.81 7
must "the slot is leased anew" wait_for 5 lease next --policy demo --guest tap --tap tap0
must "  and the other" wait_for 5 lease next2 --policy demo
check "  one of them is that slot" has "$(of next slot) $(of next2 slot)" "$(of vm slot)"
must "  with a guest of its own" tapguest next
check "  that works" eq "$(fetch next https://app.demo.example/)" "hello from app:443"
check "  while the old one still reaches nothing" not guest vm $EG connect 198.51.100.80 443
check "    nor gets a name" not guest vm $EG dig 172.16.0.1 app.demo.example
ctl release next >/dev/null
ctl release next2 >/dev/null
for p in $(pgrep -f tapguest.py); do kill "$p"; done
ip netns del guest-vm
ip netns del guest-next
wait_for 5 armed 2
check "all is as before once they are gone" wait_for 5 traces_as $W/before
daemon_stop TERM
world_finish
