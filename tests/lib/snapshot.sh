#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Everything about the network of the namespace this runs in that egressd or a
# test could have changed, in a form that is the same when nothing has.
# snapshot.sh [DIR]...: with the trees below those directories, too.
export LC_ALL=C PATH=$PATH:/usr/sbin:/sbin

section() { printf '== %s\n' "$*"; }

section links
ip -j -d link show | sed 's/},{/},\n{/g'
section addresses
ip -j addr show | sed -E 's/"(valid|preferred)_life_time":[0-9]+,?//g; s/\},\{/},\n{/g'
section neighbours that are permanent
ip -j neigh show nud permanent
for f in -4 -6; do
	section "routes $f"
	ip $f -d route show table all | sed -E 's/ expires [0-9]+sec//'
	section "rules $f"
	ip $f rule show
done
section ruleset
if command -v nft >/dev/null; then
	nft list ruleset | sed -E 's/packets [0-9]+ bytes [0-9]+/packets N bytes N/'
fi
section "named namespaces"
ls -A /run/netns 2>/dev/null
section mounts
# Without ids, which count up; what other programs mount has nothing of ours.
awk '{ $1 = $2 = ""; print }' /proc/self/mountinfo |
	grep -E 'netns|nsfs|egress|/eg-' | sort
section sysctl
for f in /proc/sys/net/ipv4/ip_forward /proc/sys/net/ipv4/conf/*/{forwarding,rp_filter,proxy_arp,route_localnet,arp_ignore,arp_filter,send_redirects,accept_local} \
	/proc/sys/net/ipv6/conf/*/{forwarding,disable_ipv6}; do
	[ -r "$f" ] && printf '%s %s\n' "$f" "$(cat "$f")"
done
for d in "$@"; do
	section "tree $d"
	[ -d "$d" ] && (cd "$d" && find . -printf '%p %y %m %U:%G\n' | sort)
done
exit 0
