#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# timeout: 300
# What a former run left: other numbers, other prefixes, dead pins, lost links.
# One start finds it. And a second daemon finds that there is a first.
. "${0%/*}/../lib/world.sh"
world_enter "$0" "$@"
world_links
world_policies
: >$DAEMON_LOG

all_built() {
	api GET /v1/pool | head -n 1 | $PYTHON -c 'import json, sys
p = json.load(sys.stdin)
sys.exit(not (p["idle"] + p["armed"] + p["leased"] == p["slots"]
	and p["armed"] + p["leased"] == p["slots"]
	and p["gateways"] == p["gateways_up"] and not p["bad"] + p["lost"]))'
}
kill_all() {
	kill -9 $(pgrep -x 'egressd.*') 2>/dev/null
	wait "$DAEMON_PID" 2>/dev/null
	wait_for 10 daemon_gone
}
# Everything but what counts up: as it is after a first start.
facts() {
	bash "$WORLD_LIB/snapshot.sh" $RUN | sed -E \
		"s/eg-([0-9]{5})\.[0-9]+/eg-\1.GEN/g; s/\"ifindex\":[0-9]+//g
		s/\"link_netnsid\":[0-9]+//g; s/\"link_index\":[0-9]+//g
		/^\.\/leases\/.*\.tomb/d; s/(valid|preferred).*sec//; s/net:\[[0-9]+\]//; s/shared:[0-9]+//
		s/\},\{/\n/g; s/^\[\{|\}\]$//g" | sort
	for n in /run/netns/eg-*; do
		echo "== $(basename "$n" | sed 's/\..*//')"
		nsenter --net="$n" bash -c 'ip -o link; ip -o -4 addr; ip route show table all
			ip neigh; ip rule' |
			sed -E 's/@if[0-9]+//g; s/link-netns[a-z]* [^ ]+//; s/ state [A-Z]+//
				s/ nud .*//; s/\\.*inet6.*//' | sort
	done
}
conf() { # SLOTS PER_GATEWAY [MORE]
	local s=$1 g=$2
	shift 2
	world_conf pool.slots="$s" pool.slots_per_gateway="$g" pool.armed=64 "$@"
}
purge() { "$EGRESSD" -c $CONF --purge; }
fresh() { # what this configuration looks like when nothing was there before
	purge >/dev/null && daemon_start && wait_for 20 all_built &&
		facts >$W/fresh && daemon_stop TERM && purge >/dev/null
}
same() {
	facts >$W/now
	diff -u $W/fresh $W/now
}

# change WHAT LINES...: a start under $CONF after the run that is there now
change() {
	local what=$1
	must "$what: it starts" daemon_start
	must "$what: the pool is whole" wait_for 20 all_built
	check "$what: as if nothing else had ever been there" wait_for 5 same
}

for to in "6 2" "8 4" "12 4" "3 4" "8 1"; do
	conf $to
	must "slots and slots_per_gateway $to, fresh" fresh
	conf 8 2
	must "  after a run with 8 2" daemon_start
	must "  which is whole" wait_for 20 all_built
	must "  and killed" kill_all
	conf $to
	change "8 2 -> $to"
	daemon_stop TERM
	purge >/dev/null
done

conf 8 4 pool.prefix=10.210.0.0/24 uplink.link_prefix=10.211.0.0/24
must "another prefix, fresh" fresh
conf 8 4
must "  after a run with the usual one" daemon_start
must "  which is whole" wait_for 20 all_built
must "  and killed" kill_all
conf 8 4 pool.prefix=10.210.0.0/24 uplink.link_prefix=10.211.0.0/24
change "another prefix"
daemon_stop TERM
purge >/dev/null

# ---- things that broke while nobody looked ------------------------------------

conf 8 4
must "fresh" fresh
must "it starts" daemon_start
must "it is whole" wait_for 20 all_built
must "it is killed" kill_all
for dead in eg-00003.77777 eg-00005.1 eg-00099.5 eg-gw-07; do
	: >/run/netns/$dead # a file, nothing mounted
done
ip link add eg-gw-09 group 3693 type veth peer name left0 # a gateway no more
ip netns exec eg-gw-00 ip link del eg-00001
ip link del eg-gw-01
set -- /run/netns/eg-00002.*
umount "$1" && rm "$1"
change "dead pins, deleted links, a name gone"
check "  the table of the second gateway is there" has \
	"$(ip netns exec eg-gw-01 nft list tables)" egressd
must "a link of an armed slot is deleted while it runs" \
	ip netns exec eg-gw-00 ip link del eg-00000
sleep 0.3
must "  the slot comes back" wait_for 20 all_built
check "  as it was" wait_for 5 same

# A record that cannot be read: the slot was somebody's, so nobody else gets it.
must "a lease" lease broken --policy demo
slot=$(of broken slot)
must "it is killed" kill_all
echo "not a record" >"$RUN/leases/$slot.$(of broken generation)"
must "it starts over a broken record" daemon_start
must "it is whole" wait_for 20 all_built
check "the broken record's namespace is gone" test ! -e "$(of broken netns)"
check "  and the record kept" test -e \
	"$RUN/leases/$slot.$(of broken generation).bad"
rm -f "$RUN"/leases/*.bad
check "the rest is as it was" wait_for 5 same

# ---- leases that would not fit any more -------------------------------------------

must "a lease" lease keep --policy demo
must "it is killed" kill_all
facts >$W/fresh
for change in pool.slots_per_gateway=2 pool.prefix=10.210.0.0/24 pool.slots=4; do
	set -- pool.armed=64 "$change"
	# The lease is in one of the first slots: only for fewer it must be high.
	[ "$change" != pool.slots=4 ] || [ "$(of keep slot)" -ge 4 ] || continue
	conf 8 4 "$@"
	check "$change with a lease is refused" exits 1 timeout 20 \
		"$EGRESSD" -c $CONF
	cp $W/check.out $W/said
	check "  with what to do" grep -Eq 'leases? .*--purge' $W/said
	check "  and nothing is changed" same
done
conf 8 4
must "the former settings start" daemon_start
must "the pool is whole" wait_for 20 all_built
check "and have the lease" eq "$(ctl --json show keep | j uid)" "$(of keep uid)"

# ---- a second daemon ------------------------------------------------------------------

second() { # SENTENCE PATTERN COMMAND...
	local what=$1 pattern=$2
	shift 2
	facts >$W/fresh
	check "a second daemon with $what is refused" exits 1 timeout 20 "$@"
	cp $W/check.out $W/said
	check "  saying why" grep -Eq "$pattern" $W/said
	check "  and changes nothing" same
	check "  the lease is as it was" eq "$(ctl --json show keep | j state)" leased
}
second "the same files" "pid $DAEMON_PID\)" "$EGRESSD" -c $CONF
$EG conf $CONF paths.run=$W/run2 paths.state=$W/state2 paths.netns=$W/netns2 \
	audit.dir=$W/audit2 >$W/second.conf
second "directories of its own on this host" "another egressd" \
	"$EGRESSD" -c $W/second.conf
check "  not even directories" test ! -e $W/run2 -a ! -e $W/state2
second "directories of its own, to purge," "another egressd" \
	"$EGRESSD" -c $W/second.conf --purge
$EG conf $CONF paths.run=$W/run2 paths.netns=$W/netns2 audit.dir=$W/audit2 \
	>$W/third.conf
second "the same state in another network namespace" "state in $STATE" \
	unshare --net "$EGRESSD" -c $W/third.conf
daemon_stop TERM
world_finish
