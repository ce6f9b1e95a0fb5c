#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# A virtual machine behind a tap, as a snapshot restores it: the same fixed
# address in every clone, its own gateway for a resolver.
. "${0%/*}/../lib/world.sh"
world_enter "$0" "$@"
AS=guest
. "$WORLD_LIB/rules.sh"
[ -c /dev/net/tun ] || skip "kernel lacks /dev/net/tun"
world_start
must "egressd starts" daemon_start

tap() { lease "$1" --policy demo --guest tap --tap tap0 --owner 1001 \
	--guest-address 172.16.0.2/30 --guest-gateway 172.16.0.1 \
	--guest-mac 06:00:ac:10:00:02; }
must "a lease in tap mode" tap a
must "another with the very same guest" tap b
check "the lease says what the guest needs" eq \
	"$(of a guest.address) $(of a guest.gateway) $(of a guest.dns.0) $(of a guest.mac)" \
	"172.16.0.2/30 172.16.0.1 172.16.0.1 06:00:ac:10:00:02"
check "the gateway's hardware address is the same for all" \
	eq "$(of a guest.gateway_mac)" "$(of b guest.gateway_mac)"
must "the guest boots" tapguest a
must "and its clone" tapguest b
check "the gateway answers with that hardware address" sh -c \
	"nsenter --net=/run/netns/guest-a ip neigh flush dev eth0
	nsenter --net=/run/netns/guest-a $EG dig 172.16.0.1 app.demo.example &&
	nsenter --net=/run/netns/guest-a ip neigh show 172.16.0.1 |
	grep -qi $(of a guest.gateway_mac)"

allowed_works a
check "its clone works beside it" eq \
	"$(fetch b https://app.demo.example/)" "hello from app:443"
names_stay_in a
packets_stay_in a b
check "records name the slot's address" denied a reason=metadata \
	src="$(of a address)"
check "the clone's record is the clone's" sh -c "
	'$EGRESSCTL' --socket $API denials b --format jsonl | $EG count | grep -qx 0"
# The slot's own namespace is not a way around.
check "the tap's address serves nothing but names" refused a 172.16.0.1 8022
must "a third" lease c --policy demo --guest tap --tap tap0
check "defaults are said in the lease" has "$(cat $W/lease.c)" '"tap0"'
check "release while the guest runs" ctl release a
check "  it reaches nothing" not guest a $EG connect 198.51.100.80 443
daemon_stop TERM
world_finish
