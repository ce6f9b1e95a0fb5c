#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# A host that lacks something: egressd refuses to start, naming the key, its
# value, the value needed and what to type, and leaves nothing behind; or it
# starts with fewer slots and says so in the log, in egressctl pool and in
# doctor. The keys are covered by files of this world's mount namespace: the
# machine's own are never written.
# timeout: 240
. "${0%/*}/../lib/world.sh"
world_enter "$0" "$@"
world_start
need_daemon

state() { bash "$WORLD_LIB/snapshot.sh" $RUN $STATE; }
doctor() { "$EGRESSCTL" "$@" doctor $CONF; }
finding() { # NAME KEY, of the doctor's JSON on stdin
	"$PYTHON" -c 'import json, sys
for f in json.load(sys.stdin)["findings"]:
    if f["check"] == sys.argv[1]:
        print(f[sys.argv[2]])' "$1" "$2"
}
cover() { # FILE VALUE: what a reader of FILE sees from now on
	echo "$2" >"$W/cover.${1##*/}" &&
		mount --bind "$W/cover.${1##*/}" "$1"
}
uncover() { umount "$1"; }

refuses() { # WRAPPER WHAT PATTERN...
	local wrap=$1 what=$2 out st
	shift 2
	state >$W/before
	ls /run/netns >>$W/before
	out=$($wrap timeout 20 "$EGRESSD" -c $CONF 2>&1)
	st=$?
	check "$what: refused" eq $st 1
	check "  in one sentence" eq "$(printf '%s\n' "$out" | wc -l)" 1
	check "  with key, value, value needed and what to type" has "$out" "$@"
	state >$W/after
	ls /run/netns >>$W/after
	check "  and nothing is left in the kernel or on disk" \
		diff $W/before $W/after
	check "  no process either" daemon_gone
	check "doctor says so, too" exits 1 $wrap "$EGRESSCTL" doctor $CONF
	check "  in the same words" has \
		"$($wrap "$EGRESSCTL" doctor $CONF)" '^FIX .*\(refused\)$' \
		'does not start here'
}
plainly() { "$@"; }
files() { # N COMMAND...
	(ulimit -Sn "$1" && ulimit -Hn "$1" && shift && exec "$@")
}
files_256() { files 256 "$@"; }

# ---- in order --------------------------------------------------------------------

check "doctor on a host in order: exit 0" doctor
check "  it lists what it looked at" has "$(doctor)" '^OK +nftables' \
	'^OK +neighbours .*gc_thresh' 'egressd starts here$'
check "  JSON has the verdict" has "$(doctor --json | j ok) $(doctor --json | j severity)" \
	"^true (none|info)$"
check "  and each finding with its key" eq \
	"$(doctor --json | finding descriptors key)" RLIMIT_NOFILE
check "  --json may stand behind the command" eq \
	"$("$EGRESSCTL" doctor $CONF --json | j slots_that_fit)" 8
check "doctor as somebody else tries nothing and says so" has \
	"$(setpriv --reuid 65534 --regid 65534 --clear-groups \
		"$EGRESSCTL" doctor $CONF)" '^NOTE +nftables.*not tried'
check "doctor on a configuration that is none: exit 1" exits 1 \
	"$EGRESSCTL" doctor $W/nosuch.conf

# ---- refused ---------------------------------------------------------------------

refuses files_256 "too few descriptors" \
	'RLIMIT_NOFILE is 256, needed: 308;.*LimitNOFILE=308.*ulimit -Hn 308'
key=/proc/sys/user/max_net_namespaces
must "a limit of 60 namespaces" cover $key 60
refuses plainly "too few namespaces" \
	'user.max_net_namespaces is 60, needed: 74;.*sysctl -w user.max_net_namespaces=82'
uncover $key
must "/proc/sys/net read-only" sh -c \
	'mount --bind /proc/sys/net /proc/sys/net &&
	mount -o remount,ro,bind /proc/sys/net'
refuses plainly "sysctls that cannot be written" \
	'/proc/sys/net is Read-only file system, needed: writable;.*remount,rw'
uncover /proc/sys/net
no_netns() {
	unshare --user --map-root-user sh -c \
		'echo 0 >/proc/sys/user/max_net_namespaces && exec "$@"' sh "$@"
}
if unshare --user --map-root-user true 2>/dev/null; then
	refuses no_netns "a kernel that gives no namespace" \
		'user.max_net_namespaces is 0, needed: 74;.*sysctl -w'
	userns() { unshare --user --map-root-user "$@"; }
	refuses userns "root of a user namespace" \
		'user namespace is one of its own.*SO_RCVBUFFORCE'
fi

# ---- fewer slots -------------------------------------------------------------------

pool_is_built() {
	[ "$(ctl --json pool | j built)" = "$1" ] &&
		[ "$(ctl --json pool | j building)" = 0 ]
}
fewer() { # SLOTS PATTERN: the daemon is up; what it says everywhere
	local n=$1
	shift
	check "it builds $n slots" wait_for 20 pool_is_built "$n"
	sleep 0.5
	check "  and no more" pool_is_built "$n"
	check "  none is bad" eq "$(ctl --json pool | j bad)" 0
	check "  the log says how many and why" has "$(cat $DAEMON_LOG)" \
		"preflight: $1" "pool: .* $n to be prebuilt"
	check "  egressctl pool says so" has "$(ctl pool)" "at most $n.*$1"
	check "  the API says so" eq "$(ctl --json pool | j slots_cap)" "$n"
	check "  doctor says so" has "$(doctor)" "^FIX .*$1" \
		"egressd starts here with $n of 64 slots"
	check "  with exit 1" exits 1 "$EGRESSCTL" doctor $CONF
	check "  a lease is served" lease one --policy demo
	check "  and works" inside one curl -sf --max-time 5 -o /dev/null \
		http://app.demo.example/
	ctl release one >/dev/null
	check "  what was released is built again" wait_for 20 pool_is_built "$n"
}

# Lease every slot, so that one more is what it cannot give. A slot that is
# being named is not to be had for that moment.
exhaust() { # SLOTS
	local i
	for ((i = 0; i < $1; i++)); do
		wait_for 5 ctl lease --id "x$i" --policy none || return 1
	done
	! ctl lease --id over --policy none 2>$W/over || return 1
	has "$(cat $W/over)" 'exhausted'
}

world_conf pool.slots=64 pool.slots_per_gateway=16 pool.armed=4
must "a limit of 100 namespaces for 64 slots" cover $key 100
must "it starts all the same" daemon_start
fewer 32 'user.max_net_namespaces.* is 100, needed: 132|user.max_net_namespaces: 100, needed: 132'
check "  all of them can be leased, the next is refused at once" \
	within 20000 exhaust 32
daemon_stop TERM
check "  and with all of them leased it starts again" daemon_start
check "  nothing was lost" eq "$(ctl --json pool | j leased)" 32
daemon_stop TERM
uncover $key
"$EGRESSD" -c $CONF --purge >/dev/null 2>&1

start_340() {
	: >$DAEMON_LOG
	(ulimit -Sn 340 && ulimit -Hn 340 && exec "$EGRESSD" -c $CONF) \
		>>$DAEMON_LOG 2>&1 &
	DAEMON_PID=$!
	wait_for 15 ready
}
must "340 descriptors for 64 slots: it starts" start_340
check "  with that limit" has "$(cat /proc/$DAEMON_PID/limits)" 'Max open files +340 +340'
fewer 28 'RLIMIT_NOFILE.* is 340, needed: 376|RLIMIT_NOFILE: 340, needed: 376'
check "  though the shell doctor runs in may have more" eq \
	"$(doctor --json | finding descriptors value)" 340
check "  no role ran out of them" not grep -Eq 'Too many open files|EMFILE' \
	$DAEMON_LOG
daemon_stop TERM
"$EGRESSD" -c $CONF --purge >/dev/null 2>&1

# ---- worth knowing -------------------------------------------------------------------

world_conf
noted() { # CHECK SEVERITY PATTERN: in a list that is otherwise good
	has "$(doctor | grep -A 2 "^[A-Z]* *$1 ")" "$2" "$3"
}
must "few flows and threads" eval \
	'cover /proc/sys/kernel/pid_max 20 &&
	cover /proc/sys/net/netfilter/nf_conntrack_max 100'
check "conntrack maximum: to fix" noted flows '^FIX.*nf_conntrack_max: 100' \
	'sysctl -w net.netfilter.nf_conntrack_max=1024'
check "pid_max: a hint" noted processes '^NOTE.*pid_max: 20, needed: 32' \
	'sysctl -w kernel.pid_max=32'
check "  start is told of the first alone" daemon_start
check "  by name" has "$(cat $DAEMON_LOG)" 'preflight: net.netfilter.nf_conntrack_max is 100'
check "  and not of the hint" not grep -q 'preflight: .*pid_max' $DAEMON_LOG
check "ip_forward is on by then" noted forwarding '^OK.*ip_forward: 1' .
check "  a link that does not forward: to fix" eval \
	'sysctl -qw net.ipv4.conf.uplink.forwarding=0 &&
	noted uplink "^FIX.*conf.uplink.forwarding: 0" \
		"sysctl -w net.ipv4.conf.uplink.forwarding=1"'
daemon_stop TERM
world_finish
