#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# timeout: 180
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
# Who may open a tap: its owner, its group, nobody else; and root.
need setpriv
mknod $W/tun c 10 200 && chmod 666 $W/tun # here every user may open the device
opens() { # ID UID GID: may that user attach to the lease's tap?
	nsenter --net="$(of "$1" netns)" setpriv --reuid "$2" --regid "$3" \
		--clear-groups --bounding-set -all --inh-caps -all -- \
		$EG tap $W/tun tap0
}
owned() { # ID GUEST: a lease through the API, egressctl names no group
	api PUT "/v1/leases/$1" '{"policy":"demo","guest":{"mode":"tap","tap":"tap0",'"$2"'}}' |
		sed '$d' >"$W/lease.$1"
	eq "$(of "$1" state)" leased
}
must "a tap with an owner" owned o1 '"owner_uid":1001'
check "its owner opens it" opens o1 1001 1001
check "  whatever the group" opens o1 1001 65534
check "another user does not" eq "$(opens o1 1002 1002 2>&1)" "Operation not permitted"
check "  nor does one of the same group number" not opens o1 1002 1001
must "a tap with a group" owned o2 '"owner_gid":1003'
check "a member of the group opens it" opens o2 1002 1003
check "another does not" eq "$(opens o2 1003 1002 2>&1)" "Operation not permitted"
must "a tap with both" owned o3 '"owner_uid":1001,"owner_gid":1003'
check "who is both opens it" opens o3 1001 1003
check "the owner in another group does not" not opens o3 1001 1001
check "nor another user of the group" not opens o3 1002 1003
must "a tap with neither" owned o4 '"address":"172.16.0.2/30"'
check "is root's alone" not opens o4 1001 1001
check "  and root's" nsenter --net="$(of o4 netns)" $EG tap /dev/net/tun tap0
check "the same name in every slot" eq "$(for i in a b o1 o2 o3 o4; do
	of $i guest.tap; done | sort -u)" tap0
check "one lease's owner does not open another's" not opens o2 1001 1001
for i in o1 o2 o3 o4; do ctl release $i >/dev/null; done
must "a third" lease c --policy demo --guest tap --tap tap0
check "defaults are said in the lease" has "$(cat $W/lease.c)" '"tap0"'
check "release while the guest runs" ctl release a
check "  it reaches nothing" not guest a $EG connect 198.51.100.80 443
daemon_stop TERM
world_finish
