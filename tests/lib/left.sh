# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# Proof that a lease left nothing; sourced after world.sh.
#
# slot_left_nothing SLOT   no element, pin, counter, flow or file of the slot is
#                          anywhere, and its link and routes are those of a
#                          slot nobody has leased
# daemon_fds               descriptors of every process of the daemon, by kind
# traces                   all a lease could leave, one line each: the same
#                          before a lease and after its end

CONNTRACK=$(command -v conntrack || :)

gateways() { (cd /run/netns && ls -d eg-gw-* 2>/dev/null); }
in_gw() { # NAME COMMAND...
	local gw=$1
	shift
	nsenter --net=/run/netns/"$gw" "$@"
}

# Flows of a slot's, or of any slot's, address: gateway by gateway, then the host
flows_of() { # ADDRESS-PATTERN
	local gw
	for gw in $(gateways); do
		in_gw "$gw" cat /proc/net/nf_conntrack | sed "s/^/$gw /"
	done 2>/dev/null | grep -E "(src|dst)=$1 "
	sed 's/^/host /' /proc/net/nf_conntrack 2>/dev/null | grep -E "(src|dst)=$1 "
	return 0
}

# "eg-00517.90211" names a lease; without the generation it names the slot
no_generation() { sed -E 's/(eg-[0-9]{5})\.[0-9]+/\1.G/g'; }

daemon_fds() {
	local p
	for p in $(pgrep -x 'egressd.*'); do
		printf '%s' "$(tr '\0' ' ' <"/proc/$p/cmdline" | sed 's/^[^ ]* //; s/ $//')"
		find "/proc/$p/fd" -type l -printf ' %l\n' 2>/dev/null |
			sed -E '/\/audit\/host\//d; s/\[[0-9]+\]//; s/^ (socket|pipe|net|mnt|anon_inode):.*/ \1/; s/ \/memfd:.*/ memfd/' |
			sort | uniq -c | awk '{ printf " %s*%s", $2, $1 } END { print "" }'
	done | sort
}

traces() { traces_unsorted | sort; }

traces_unsorted() {
	local gw
	for gw in $(gateways); do
		in_gw "$gw" nft -j list ruleset | $EG elements | sed "s/^/$gw /"
		in_gw "$gw" ip -o link show | sed "s/^/$gw /; s/ link-netnsid [0-9]*//"
		in_gw "$gw" ip neigh show | sed "s/^/$gw neigh /"
		in_gw "$gw" ip route show table all | sed "s/^/$gw route /"
	done | no_generation
	flows_of "${POOL_ADDR:-10\.200\.0\.[0-9]+}"
	nft -j list ruleset | $EG elements | sed 's/^/host /'
	ip -o link show | sed -E 's/^/host /; s/ link-netnsid [0-9]*//'
	ip neigh show nud permanent | sed 's/^/host neigh /'
	ip route show table all | sed 's/^/host route /'
	ls /run/netns | no_generation | sed 's/^/name /'
	grep -c ' /run/netns/' /proc/mounts | sed 's/^/mounts /'
	(cd $RUN/leases && ls | grep -v '\.tomb$') | sed 's/^/record /'
	daemon_fds
}

# What a lease must not have changed: say what it did.
traces_as() { # FILE
	traces | diff "$1" -
}

slot_left_nothing() { # SLOT
	local slot link gw addr of
	of=$(sed -n 's/^slots_per_gateway *= *//p' "$CONF")
	of=$(printf %03d $(($1 % of)))
	slot=$(printf %05d "$1")
	link=eg-$slot
	addr=10.200.$(($1 * 4 / 256)).$(($1 * 4 % 256 + 2))
	for gw in $(gateways); do
		in_gw "$gw" nft -j list ruleset | $EG elements |
			grep -E "\"$link\"|\"$addr\"|^[px]$of " | sed "s/^/$gw element /"
		in_gw "$gw" ip neigh show dev "$link" 2>/dev/null |
			grep -v "^$addr lladdr .* PERMANENT" | sed "s/^/$gw neighbour /"
		in_gw "$gw" ip route show dev "$link" 2>/dev/null |
			grep -v "^$addr proto static scope link" | sed "s/^/$gw route /"
	done >$W/left
	flows_of "${addr//./\\.}" >>$W/left
	(cd $RUN/leases && ls | grep "^$1\\.") | sed 's/^/record /' >>$W/left
	[ -s $W/left ] || return 0
	cat $W/left
	return 1
}
