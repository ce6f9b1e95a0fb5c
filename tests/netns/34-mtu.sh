#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# timeout: 120
# The uplink's MTU reaches every guest, and where a hop beyond it is narrower
# its "fragmentation needed" gets back to whoever has to send smaller packets:
# without it a large transfer hangs after a handshake that worked.
#
#   host 1400 -- inet -- 1200 -- mid -- 1500 -- far 198.51.100.90
#
# Neither end of a connection sits on the narrow link, so no MSS gives it away.
. "${0%/*}/../lib/world.sh"
world_enter "$0" "$@"
. "$WORLD_LIB/rules.sh"
FAR=198.51.100.90
world_start

far_path() {
	ip netns add mid && ip netns add far &&
		ip -n inet link add mid0 mtu 1200 type veth peer name inet1 mtu 1200 netns mid &&
		ip -n mid link add far0 type veth peer name mid1 netns far &&
		ip -n inet addr add 10.77.0.1/30 dev mid0 &&
		ip -n mid addr add 10.77.0.2/30 dev inet1 &&
		ip -n mid addr add 10.77.1.1/30 dev far0 &&
		ip -n far addr add 10.77.1.2/30 dev mid1 &&
		ip -n far addr add $FAR/32 dev lo &&
		for i in inet/mid0 mid/inet1 mid/far0 far/mid1 far/lo; do
			ip -n ${i%/*} link set ${i#*/} up || return 1
		done &&
		ip netns exec mid sysctl -qw net.ipv4.ip_forward=1 &&
		ip -n inet route add $FAR via 10.77.0.2 &&
		ip -n mid route add $FAR via 10.77.1.2 &&
		ip -n mid route add default via 10.77.0.1 &&
		ip -n far route add default via 10.77.1.1 || return 1
	nsenter --net=/run/netns/far $PYTHON "$WORLD_LIB/servers.py" \
		--log $W/far.jsonl --cert $W/tls/srv.pem --key $W/tls/srv.key \
		--ready $W/far.ready far=echo:$FAR:9000 far=udpecho:$FAR:9000 \
		2>>$W/servers.err &
	wait_for 5 test -e $W/far.ready
}
must "a path with a narrow hop" far_path
ip link set uplink mtu 1400
in_inet ip link set inet0 mtu 1400
cat >$POLICIES/far.policy <<P
[policy]
name = far

[allow]
allow = app.demo.example tcp/443
allow = $FAR tcp/9000,udp/9000
P
must "egressd starts" daemon_start

mtu_of() { # ID LINK: in the lease's namespace
	nsenter --net="$(of "$1" netns)" ip -o link show "$2" |
		sed -n 's/.* mtu \([0-9]*\) .*/\1/p'
}
forget() { # ID: what its kernel has learnt of paths, and the server's (its MSS)
	run "$1" ip route flush cache
	ip -n far route flush cache
}
learnt() { # ID: the MTU to FAR its kernel has learnt, by its route
	run "$1" ip route get $FAR | sed -n 's/.* mtu \([0-9]*\).*/\1/p'
}

narrow() { # ID: as AS says
	local id=$1
	check "a small packet gets through" run "$id" $EG connect $FAR 9000 udp
	check "a packet that may not be fragmented is too large, and is told so" \
		eq "$(run "$id" $EG pmtu $FAR 9000 1400)" 1200
	check "  the guest's route has learnt it" eq "$(learnt "$id")" 1200
	forget "$id"
	check "a large transfer works, both ways" run "$id" $EG bulk $FAR 9000 2000000
	check "  its kernel has learnt of the narrow hop" eq "$(learnt "$id")" 1200
	check "names and HTTPS work" eq \
		"$(fetch "$id" https://app.demo.example/)" "hello from app:443"
}
not_denied() { # ID: nothing of it was taken for something to deny
	eq "$(ctl --json show "$1" | j denied)" "{}"
}

must "a lease" lease v --policy far
check "the lease says the uplink's MTU" eq "$(of v mtu)" 1400
check "eth0 has it" eq "$(mtu_of v eth0)" 1400
for g in /run/netns/eg-gw-*; do
	check "so have all links of ${g##*/}" eq "$(ip -n ${g##*/} -o link show type veth |
		sed 's/.* mtu \([0-9]*\) .*/\1/' | sort -u)" 1400
done
narrow v
check "nothing of it was denied" not_denied v

# A hop's word counts for flows that are allowed, and for nothing else.
must "a lease of policy none" lease n --policy none
check "a lease that may nothing learns nothing" not inside n $EG pmtu $FAR 9000 1400
check "  no MTU" eq "$(AS=inside learnt n)" ""

ip netns add mine
must "a lease in mode adopt" lease a --policy far --guest adopt --netns /run/netns/mine
check "the lease says the uplink's MTU" eq "$(of a mtu)" 1400
check "its link has it" eq "$(mtu_of a eth0)" 1400
narrow a

if [ -c /dev/net/tun ]; then
	AS=guest
	for mode in tap route; do
		must "a lease in mode $mode" lease $mode --policy far \
			--guest $mode --tap tap0
		check "the lease says the uplink's MTU" eq "$(of $mode mtu)" 1400
		check "the tap has it" eq "$(mtu_of $mode tap0)" 1400
		must "the guest boots" tapguest $mode
		nsenter --net=/run/netns/guest-$mode ip link set eth0 mtu "$(of $mode mtu)"
		narrow $mode
		check "nothing of it was denied" not_denied $mode
		# A snapshot that insists on 1500.
		nsenter --net=/run/netns/guest-$mode ip link set eth0 mtu 1500
		forget $mode
		check "a guest that sends more than the tap's MTU is told" eq \
			"$(guest $mode $EG pmtu 198.51.100.90 9000 1500)" 1400
		forget $mode
		check "  and its transfers work" guest $mode $EG bulk $FAR 9000 2000000
	done
else
	say "kernel lacks /dev/net/tun: tap and route were left out"
fi
daemon_stop TERM

# A restart on another MTU: what is there keeps its own, which the lease says.
world_conf uplink.mtu=1300
ip link set uplink mtu 1500
must "a start with another MTU" daemon_start
check "a lease that was there has its own" eq "$(ctl --json show v | j mtu)" 1400
must "a new one" lease w --policy far
check "the lease says what its link has" eq "$(of w mtu)" "$(mtu_of w eth0)"
daemon_stop TERM
"$EGRESSD" -c $CONF --purge >/dev/null 2>&1
must "a start from nothing" daemon_start
must "a lease" lease x --policy far
check "the configured MTU counts" eq "$(of x mtu) $(mtu_of x eth0)" "1300 1300"
daemon_stop TERM
world_finish
