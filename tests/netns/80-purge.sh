#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# timeout: 120
# --purge leaves the host as it was before the first start; only evidence and
# the state that must outlive everything stay.
. "${0%/*}/../lib/world.sh"
world_enter "$0" "$@"
world_start
# Things of others, which must not be touched.
nft -f - <<'N'
table inet filter { chain input { type filter hook input priority 0; policy accept; } }
table ip nat { chain post { type nat hook postrouting priority 100; } }
N
ip netns add bystander
ip link add br0 type bridge

as_before() {
	host_state >$W/after
	diff -u $W/before $W/after
}
purge() { timeout 60 "$EGRESSD" -c $CONF --purge; }

host_state >$W/before
must "egressd starts" daemon_start
must "a lease" lease a --policy demo
[ ! -c /dev/net/tun ] || must "one with a tap" lease t --policy demo \
	--guest tap --tap tap0
inside a curl -sS -m 5 --cacert $CA https://app.demo.example/ >/dev/null
inside a $EG connect 203.0.113.66 443 >/dev/null
denied a dst=203.0.113.66 >/dev/null
nsenter --net="$(of a netns)" sleep 100 & # it may linger, not stay
check "purge while it runs is refused" exits 1 purge
check "  and says who runs" has "$(purge 2>&1)" "pid $DAEMON_PID"
check "  the lease is untouched" eq "$(ctl --json show a | j state)" leased

daemon_stop TERM
check "SIGTERM alone leaves things in place" test -e "$(of a netns)"
check "purge after SIGTERM" purge
check "the host is as before" as_before
check "evidence stays" test -s "$(of a audit)/denials.jsonl"
check "the generation counter stays" test -s $STATE/generation
check "purge again finds nothing to do" purge
check "the host is as before" as_before

must "it starts again" daemon_start
must "a lease" lease b --policy demo
check "generations went on" test "$(of b generation)" -gt "$(of a generation)"
kill -9 $(pgrep -x 'egressd.*')
wait_for 5 daemon_gone
check "purge after kill -9 of all" purge
check "the host is as before" as_before

# Killed in the middle of building.
world_conf pool.slots=512 pool.slots_per_gateway=128 pool.prefix=10.200.0.0/21
"$EGRESSD" -c $CONF >>$DAEMON_LOG 2>&1 &
sleep 0.4
kill -9 $(pgrep -x 'egressd.*')
wait_for 5 daemon_gone
check "purge after kill -9 while it was building" purge
check "the host is as before" as_before
check "what others have is there" test -e /run/netns/bystander
world_finish
