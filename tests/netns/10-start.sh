#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# egressd starts, says what each role holds, and is what it says; it is usable
# from its first slot on, and its sockets belong to whom the configuration says.
. "${0%/*}/../lib/world.sh"
world_enter "$0" "$@"
world_start
need_daemon

mode() { stat -c '%a %u:%g' "$1"; }
status() { api GET "$1" | tail -n 1; }
pool_full() { [ "$(ctl --json pool | j idle)" -ge 0 ] &&
	[ "$(ctl --json pool | $EG get building)" = 0 ]; }

must "it starts and says it is ready" daemon_start
check "each role holds what its line says, what the table allows, no more" \
	$EG roles $DAEMON_LOG
check "version of the daemon and of egressctl agree" \
	eq "$("$EGRESSD" --version | awk '{ print $2 }')" \
	"$(ctl version | grep -Eo '[0-9]+\.[0-9]+\.[0-9]+' | head -n 1)"
check "the socket that changes things" eq "$(mode $API)" "660 0:0"
check "the socket that only reads" eq "$(mode $READ)" "660 0:0"
check "the read socket refuses to change things" \
	has "$(APISOCK=$READ api PUT /v1/leases/x '{"policy":"none"}')" \
	'^40[35]$'
check "healthz" eq "$(status /healthz)" 200
check "readyz" eq "$(status /readyz)" 200
check "metrics are served" has "$(api GET /metrics)" '^egressd_build_info'
check "the pool has the slots of the configuration" \
	eq "$(ctl --json pool | j slots)" 8
check "in gateways of slots_per_gateway" eq "$(ctl --json pool | j gateways)" 2
check "a gateway is a namespace with a name" \
	has "$(ls /run/netns)" '^eg-gw-00$' '^eg-gw-01$'
check "an administrator's nft sees its table" \
	has "$(ip netns exec eg-gw-00 nft list tables)" 'egressd'
check "the host has one link for each gateway" \
	eq "$(ip -o link show | grep -c ' eg-gw-')" 2
check "and none for a slot" \
	eq "$(ip -o link show | grep -cE ' eg-[0-9]')" 0
check "host_id is kept" test -s $STATE/host_id
check "SIGHUP with the configuration broken keeps it running" \
	sh -c "cp $CONF $W/ok.conf; echo nonsense >>$CONF; kill -HUP $DAEMON_PID;
		sleep 0.5; cp $W/ok.conf $CONF; kill -0 $DAEMON_PID"
check "  and says what is wrong" \
	has "$(cat $DAEMON_LOG)" 'reload: .*egressd.conf:[0-9]+'

host_id=$(cat $STATE/host_id)
must "SIGTERM ends it" daemon_stop TERM
must "it starts again" daemon_start
check "host_id is the same" eq "$(cat $STATE/host_id)" "$host_id"
daemon_stop TERM

# A pool that takes a while: leases are served before it is full.
"$EGRESSD" -c $CONF --purge >/dev/null 2>&1
world_conf pool.slots=256 pool.slots_per_gateway=64 pool.prefix=10.200.0.0/22
must "it starts with 256 slots" daemon_start
check "a lease is answered at once" within 1000 lease early --policy none
check "and the pool fills in the background" wait_for 20 pool_full
daemon_stop TERM
world_finish
