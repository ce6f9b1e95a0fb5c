#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# A process in a leased namespace: what is listed works at once, all else is
# denied, recorded, and never leaves.
. "${0%/*}/../lib/world.sh"
world_enter "$0" "$@"
. "$WORLD_LIB/rules.sh"
wire_saw_from_pool() {
	in_inet nft list set inet wire from | grep -q '10\.20[01]\.'
}

world_start
must "egressd starts" daemon_start
must "a lease" lease a --policy demo --run r1
must "another, of the same gateway or the next" lease b --policy demo

allowed_works a
check "the server saw the host's address, not the sandbox's" \
	served app 'Host: app.demo.example'
check "  in every packet" not wire_saw_from_pool
names_stay_in a
packets_stay_in a b

# A frame no honest kernel sends.
frame() { # KIND
	inside a $EG frame "$1" eth0 "$(of a address)" 203.0.113.66 \
		"$(nsenter --net="$(of a netns)" ip neigh show dev eth0 |
			sed -n 's/.*lladdr \([0-9a-f:]*\).*/\1/p' | head -n 1)"
}
while read -r kind reason what; do
	frame $kind
	check "$what is recorded as $reason" denied a layer=packet reason=$reason
done <<'K'
ipv6 ipv6 IPv6
arp neighbour ARP
vlan ethertype a VLAN tag
lldp ethertype another EtherType
spoofed spoofed a source that is another's
mac spoofed a hardware address that is another's
fragment fragment a fragment
options invalid a source route
ttl invalid a packet at the end of its life
K
check "none of them left" not wire_saw 203.0.113.66

# Nothing, for a lease that may nothing; and phases.
must "a lease of policy none" lease n --policy none
check "none resolves nothing" eq "$(resolve n app.demo.example)" NXDOMAIN
check "  and reaches nothing" refused n 198.51.100.80 443
must "a lease in phase init" lease p --policy phased --phase init
check "a name of the phase works" eq \
	"$(fetch p https://app.demo.example/)" "hello from app:443"
check "one of another does not" eq "$(resolve p echo.demo.example)" NXDOMAIN
check "phase plan" ctl phase p plan
check "now the other does" eq "$(resolve p echo.demo.example)" \
	"NOERROR 198.51.100.81"
check "  and the first no longer" eq "$(resolve p app.demo.example)" NXDOMAIN
check "  nor its address" refused p 198.51.100.80 443

# CAP_NET_ADMIN inside opens nothing: the choke point lies outside.
check "flushing rules and adding addresses inside changes nothing" sh -c \
	"nsenter --net=$(of a netns) sh -c 'nft flush ruleset;
		ip addr add 10.200.0.250/24 dev eth0; ip route flush cache' ; exit 0"
check "  a raw address stays denied" refused a 203.0.113.66 443
check "  the metadata address stays denied" refused a 169.254.169.254 80
check "a foreign flush on the host changes nothing inside the gateways" \
	sh -c "nft flush ruleset; exit 0"
check "  a raw address stays denied" refused a 203.0.113.66 80
check "  the metadata address stays denied" refused a 169.254.169.254 80
check "nothing has reached the collector, the host or the metadata service" \
	not served 'collector|hostsvc|metadata'
daemon_stop TERM
world_finish
