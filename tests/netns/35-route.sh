#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# timeout: 180
# A virtual machine behind a tap that has the slot's own address .2: its gateway
# and resolver is .1, which is on no link of the slot but answered for.
. "${0%/*}/../lib/world.sh"
world_enter "$0" "$@"
AS=guest
. "$WORLD_LIB/rules.sh"
[ -c /dev/net/tun ] || skip "kernel lacks /dev/net/tun"
need tcpdump
world_start
must "egressd starts" daemon_start

must "a lease in route mode" lease a --policy demo --guest route --tap tap0 \
	--guest-mac 06:00:ac:10:00:02
must "another" lease b --policy demo --guest route --tap tap0
check "the lease says what the guest needs: the slot's own addresses" eq \
	"$(of a guest.address) $(of a guest.gateway) $(of a guest.dns.0)" \
	"$(of a address)/30 $(of a gateway_address) $(of a gateway_address)"
check "  another's are others" not eq "$(of a guest.address)" "$(of b guest.address)"
check "  the gateway's hardware address is the same for all" \
	eq "$(of a guest.gateway_mac)" "$(of b guest.gateway_mac)"
check "the tap has the same name in every slot" eq \
	"$(of a guest.tap) $(of b guest.tap)" "tap0 tap0"
check "the slot itself has no address" eq \
	"$(inside a ip -4 -o addr show scope global)" ""
must "the guest boots" tapguest a
must "another beside it" tapguest b
check "the gateway answers ARP by its constant address" sh -c \
	"nsenter --net=/run/netns/guest-a $EG dig $(of a gateway_address) app.demo.example &&
	nsenter --net=/run/netns/guest-a ip neigh show $(of a gateway_address) |
	grep -qi $(of a guest.gateway_mac)"

# The packets of the guest itself, untranslated, are what the gateway sees.
nsenter --net="$(of a gateway_netns)" tcpdump -Z root -nn -c 1 -i "eg-$(printf %05d "$(of a slot)")" \
	tcp dst port 9000 >$W/dump 2>$W/dump.err &
dump=$!
wait_for 5 grep -q 'listening on' $W/dump.err
guest a $EG connect 203.0.113.130 9000 >/dev/null
wait $dump
check "the guest's own address reaches the gateway" has "$(cat $W/dump)" \
	"IP $(of a address)\.[0-9]+ > 203.0.113.130.9000"
check "nothing in the slot translates it" eq "$(inside a nft list ruleset)" ""

allowed_works a
check "the other works beside it" eq \
	"$(fetch b https://app.demo.example/)" "hello from app:443"
names_stay_in a
packets_stay_in a b
check "records name the slot's address" denied a reason=metadata src="$(of a address)"
check "the other's record is its own" sh -c "
	'$EGRESSCTL' --socket $API denials b --format jsonl | $EG count | grep -qx 0"
check "the gateway's address serves nothing but names" refused a "$(of a gateway_address)" 8022

# Another address than .2 is forged, whatever the guest thinks it has.
nsenter --net=/run/netns/guest-a ip addr add 172.16.0.2/32 dev lo
check "a source that is not .2 gets nowhere" not guest a curl -sS -m 2 \
	--interface 172.16.0.2 http://198.51.100.80/
nsenter --net=/run/netns/guest-a $EG frame mac eth0 "$(of b address)" 203.0.113.66 \
	"$(of a guest.gateway_mac)"
check "  nor does another slot's, by name or by address" not wire_saw 203.0.113.66

# Restarts and the end.
kill -9 $(pgrep -x 'egressd.*')
wait_for 5 daemon_gone
must "a start after kill -9 of all" daemon_start
check "the guest works on" eq \
	"$(fetch a https://app.demo.example/)" "hello from app:443"
check "release while the guest runs" ctl release a
check "  it reaches nothing" not guest a $EG connect 198.51.100.80 443
check "  the other works" eq \
	"$(fetch b https://app.demo.example/)" "hello from app:443"
check "nothing has reached the collector, the host or the metadata service" \
	not served 'collector|hostsvc|metadata'
daemon_stop TERM
world_finish
