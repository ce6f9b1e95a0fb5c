#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# timeout: 180
# The daemon ends, nicely or not: flows go on, what is denied stays denied, and
# the next start takes the leases over as they were.
. "${0%/*}/../lib/world.sh"
world_enter "$0" "$@"
. "$WORLD_LIB/rules.sh"
[ -c /dev/net/tun ] && TAP=1 || TAP=
world_start
must "egressd starts" daemon_start
must "a lease" lease a --policy demo --run r1
must "another" lease b --policy none
[ -z "$TAP" ] || { must "one with a tap" lease t --policy demo --guest tap --tap tap0 \
	--guest-address 172.16.0.2/30 --guest-gateway 172.16.0.1 \
	--guest-mac 06:00:ac:10:00:02 && must "its guest" tapguest t; }

facts() { # what must not change
	ctl --json ls 2>/dev/null >$W/ls.json
	for i in a b ${TAP:+t}; do
		ctl --json show $i | $PYTHON -c 'import json, sys
o = json.load(sys.stdin)
print([o[k] for k in ("id", "uid", "slot", "generation", "state", "netns",
	"address", "expires", "request_digest", "run", "owner")])'
	done
}
last_seq() { denials a | tail -n 1 | $EG get seq; }
flow() { # a flow through whatever happens
	nsenter --net="$(of a netns)" $EG flow 198.51.100.81 7 "$1" $W/flow.log \
		>$W/flow.out 2>&1 &
	FLOW=$!
	wait_for 3 grep -q connected $W/flow.log
}
kill_tree() { # every process of it at once
	kill -9 $(pgrep -x 'egressd.*') 2>/dev/null
	wait_for 5 daemon_gone
}

through() { # HOW COMMAND...: with the daemon away
	local how=$1 before seq
	shift
	resolve a echo.demo.example >/dev/null
	resolve a app.demo.example >/dev/null
	inside a $EG connect 169.254.169.254 80 >/dev/null
	denied a reason=metadata >/dev/null
	before=$(facts)
	seq=$(last_seq)
	rm -f $W/flow.log
	flow 8
	must "$how: the daemon is gone" "$@"
	check "$how: an address pinned before still works" \
		nsenter --net="$(of a netns)" $EG connect 198.51.100.80 443
	check "$how: a raw address stays denied" \
		not nsenter --net="$(of a netns)" $EG connect 203.0.113.66 443
	check "$how: the metadata address stays denied" \
		not nsenter --net="$(of a netns)" $EG connect 169.254.169.254 80
	check "$how: another lease stays denied" \
		not nsenter --net="$(of b netns)" $EG connect 198.51.100.80 443
	check "$how: the namespaces are there" test -e "$(of a netns)"
	must "$how: the next start is ready" daemon_start
	check "$how: it took over the same leases" eq "$(facts)" "$before"
	wait $FLOW
	check "$how: the flow went on ($(cat $W/flow.out))" test $? -eq 0
	check "$how: names resolve again" eq \
		"$(resolve a two.demo.example | cut -d' ' -f1)" NOERROR
	check "$how: and connect" eq \
		"$(fetch a https://app.demo.example/)" "hello from app:443"
	[ -z "$TAP" ] || check "$how: behind the tap, too" eq \
		"$(AS=guest fetch t https://app.demo.example/)" "hello from app:443"
	inside a $EG connect 203.0.113.66 80 >/dev/null
	check "$how: the log goes on" denied a reason=not-allowed \
		dst=203.0.113.66 dport=80
	check "$how: with the numbers it had" test "$(last_seq)" -gt "$seq"
	check "$how: and the evidence holds over the gap" \
		$EG evidence "$(of a audit)"
	check "$how: nothing has reached anyone" \
		not served 'collector|metadata|hostsvc'
}

through "SIGTERM" daemon_stop TERM
through "kill -9 of the launcher" daemon_stop KILL
through "kill -9 of all" kill_tree

gen=$(of b generation)
check "release of one taken over" ctl release b
must "a new lease" lease c --policy demo
check "its generation is one never had" test "$(of c generation)" -gt "$gen"

# The run directory empties over a boot; the counter must not start again.
daemon_stop TERM
gen=$(of c generation)
"$EGRESSD" -c $CONF --purge >/dev/null 2>&1
rm -rf $RUN
must "a start on an empty run directory" daemon_start
must "a lease" lease d --policy demo
check "its generation is one never had" test "$(of d generation)" -gt "$gen"
daemon_stop TERM
world_finish
