#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# timeout: 120
# One role at a time is killed: it comes back, the leases do not notice.
. "${0%/*}/../lib/world.sh"
world_enter "$0" "$@"
. "$WORLD_LIB/rules.sh"
world_start
must "egressd starts" daemon_start
must "a lease" lease a --policy demo
resolve a echo.demo.example >/dev/null
nsenter --net="$(of a netns)" $EG flow 198.51.100.81 7 60 $W/flow.log \
	>$W/flow.out 2>&1 &

back() { # ROLE OLDPID: a new process has said what it holds
	local pid
	pid=$($EG rolepid $DAEMON_LOG "$1")
	[ "$pid" != "$2" ] && kill -0 "$pid"
}
n=0
for role in main api dns audit build; do
	pid=$($EG rolepid $DAEMON_LOG $role)
	must "$role is killed" kill -9 "$pid"
	check "$role: a raw address stays denied meanwhile" not nsenter \
		--net="$(of a netns)" $EG connect 203.0.113.66 443
	must "$role comes back" wait_for 10 back $role "$pid"
	check "$role: the roles hold what they should" $EG roles $DAEMON_LOG
	check "$role: it answers" wait_for 10 ready
	check "$role: the lease is as it was" \
		eq "$(ctl --json show a | j uid)" "$(of a uid)"
	check "$role: names resolve" wait_for 5 \
		sh -c "[ \"\$('$EGRESSCTL' --socket $API exec a -- $EG dig $(of a dns.0) app.demo.example)\" = 'NOERROR 198.51.100.80' ]"
	check "$role: a fresh name is pinned" eq \
		"$(fetch a http://n$n.wild.demo.example/)" "hello from other:80"
	inside a $EG connect 203.0.113.66 $((1000 + n)) >/dev/null
	check "$role: denials are recorded" denied a dport=$((1000 + n))
	must "$role: a new lease works" lease "n$n" --policy demo
	check "$role: and is released" ctl release "n$n"
	n=$((n + 1))
done
check "the evidence holds" $EG evidence "$(of a audit)"
check "a flow went on through all of it" not grep -Eq 'closed|broken' $W/flow.log
check "the restarts since main began are counted" \
	test "$(api GET /metrics | awk '/^egressd_role_restarts_total/ { n += $2 } END { print n + 0 }')" -ge 4
check "nothing has reached anyone" not served 'collector|metadata|hostsvc'
daemon_stop TERM
world_finish
