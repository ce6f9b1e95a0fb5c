# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# The world a test runs in; sourced by tests/netns/*.sh and tests/demo.sh.
#
# A test calls world_enter first: the script starts again inside network,
# mount and PID namespaces of its own. From then on "the host" is that
# network namespace, /run, /sys and /etc/resolv.conf are private, and the
# script is process 1: when it ends, however it ends, every process it
# started dies with it and namespaces, mounts and files are gone, because
# nothing outside ever referred to them. There is no clean-up to forget.
#
# world_start then builds the rest:
#
#   host (this namespace)                 inet (namespace "inet")
#     uplink 192.0.2.10/24  ---- veth ---- inet0 192.0.2.1/24, routes for all:
#     default via 192.0.2.1                 198.51.100.53   resolver (unbound)
#     :8022 a service of the host           198.51.100.80   app.demo.example
#                                           203.0.113.66    collector.evil.example
#                                           203.0.113.8     a public resolver
#                                           169.254.169.254 metadata impostor
#                                           10.3.0.10       internal API server
#                                           198.18.0.0/15   any number of hosts
#
# A table in inet counts every destination that any packet from the host was
# for, served or not: `wire_saw ADDRESS [PORT [PROTO]]` is the proof of what left.
#
# Assertions: `check SENTENCE COMMAND...` goes on after a failure, `must` does
# not. A test ends with world_finish; exit status 0, 1, or 77 for a skip whose
# reason is the last line "skip: ...".

set -u
export LC_ALL=C
export PATH=$PATH:/usr/sbin:/sbin

WORLD_LIB=$(cd "${BASH_SOURCE[0]%/*}" && pwd)
TOP=$(cd "$WORLD_LIB/../.." && pwd)
B=${B:-build}
case $B in /*) ;; *) B=$TOP/$B ;; esac
EGRESSD=$B/egressd
EGRESSCTL=$B/egressctl
PYTHON=${PYTHON:-/usr/bin/python3}
EG="$PYTHON $WORLD_LIB/eg.py"

W=/run/world			# tmpfs of this world
CONF=$W/egressd.conf
RUN=$W/run
STATE=$W/state
AUDIT=$W/audit
POLICIES=$W/policy.d
API=$RUN/api.sock
READ=$RUN/read.sock
SERVERS_LOG=$W/servers.jsonl
DAEMON_LOG=$W/egressd.log
CA=$W/ca.pem
WORLD_FAILED=0
WORLD_CHECKS=0
DAEMON_PID=

# ---- words -------------------------------------------------------------------

say() { printf '%s\n' "$*"; }

skip() {
	say "skip: $*"
	exit 77
}

die() {
	say "FAIL: $*"
	exit 1
}

# need TOOL...: by name, with the Debian package that has it
need() {
	local t pkg
	for t in "$@"; do
		command -v "$t" >/dev/null 2>&1 && continue
		case $t in
		nft) pkg=nftables ;;
		ip | ss | tc) pkg=iproute2 ;;
		unshare | nsenter) pkg=util-linux ;;
		dig) pkg=bind9-dnsutils ;;
		*) pkg=${t##*/} ;;
		esac
		skip "$t is not installed (Debian package $pkg; \`make deps\` installs it)"
	done
}

need_daemon() {
	[ -x "$EGRESSD" ] && [ -x "$EGRESSCTL" ] ||
		die "$EGRESSD or $EGRESSCTL is not built (make)"
}

# ---- assertions --------------------------------------------------------------

# check SENTENCE COMMAND...: says what holds; shows the output when it does not
# (in this shell, so that a command may start the daemon or set a variable)
check() {
	local what=$1 st
	shift
	WORLD_CHECKS=$((WORLD_CHECKS + 1))
	"$@" >$W/check.out 2>&1
	st=$?
	if [ $st -eq 0 ]; then
		say "ok - $what"
		return 0
	fi
	say "not ok - $what"
	say "    command: $* (exit status $st)"
	head -n 40 $W/check.out | sed 's/^/    /'
	WORLD_FAILED=$((WORLD_FAILED + 1))
	return 1
}

must() { check "$@" || world_finish; }

# ! as a command, for check: check "no ..." not COMMAND
not() { ! "$@"; }

eq() {
	[ "$1" = "$2" ] && return 0
	say "got:    $1"
	say "wanted: $2"
	return 1
}

# has TEXT PATTERN...: every extended regular expression matches some line
has() {
	local text=$1 p
	shift
	for p in "$@"; do
		printf '%s\n' "$text" | grep -Eq -- "$p" && continue
		say "no line matches: $p"
		say "text: $text"
		return 1
	done
}

# exits STATUS COMMAND...
exits() {
	local want=$1 st
	shift
	"$@"
	st=$?
	[ $st -eq "$want" ] || { say "exit status $st, wanted $want"; return 1; }
}

# wait_for SECONDS COMMAND...: until it succeeds
wait_for() {
	local end=$((SECONDS + $1))
	shift
	while ! "$@" >/dev/null 2>&1; do
		[ $SECONDS -lt $end ] || { "$@"; return; }
		sleep 0.05
	done
}

# within MILLISECONDS COMMAND...: succeeds or fails, but in time
within() {
	local ms=$1 t0 t1 st
	shift
	t0=$(date +%s%N)
	"$@"
	st=$?
	t1=$(date +%s%N)
	t1=$(((t1 - t0) / 1000000))
	[ $t1 -le "$ms" ] || { say "took $t1 ms, at most $ms are accepted"; return 1; }
	return $st
}

world_finish() {
	if [ $WORLD_FAILED -ne 0 ] || [ $WORLD_CHECKS -eq 0 ]; then
		say "FAIL: $WORLD_FAILED of $WORLD_CHECKS checks failed"
		exit 1
	fi
	say "$WORLD_CHECKS checks passed"
	exit 0
}

# What a reader of a failure wants to see, before the world is gone.
world_exit() {
	local st=$?
	trap - EXIT
	if [ $st -ne 0 ] && [ $st -ne 77 ]; then
		for f in "$DAEMON_LOG" "$W/unbound.log" "$W/servers.err"; do
			[ -s "$f" ] || continue
			say "---- end of ${f##*/}"
			tail -n 60 "$f"
		done
	fi
	exit $st
}

# ---- the namespaces ----------------------------------------------------------

# world_enter SCRIPT [ARGS]: returns inside the world's namespaces
world_enter() {
	if [ "${WORLD_INSIDE:-}" = 1 ]; then
		unset WORLD_INSIDE
		world_private
		return
	fi
	[ "$(id -u)" -eq 0 ] ||
		skip "needs root for network and mount namespaces (run it with sudo)"
	need unshare ip mount
	unshare --net --mount --pid --fork true 2>/dev/null ||
		skip "kernel lacks network, mount or PID namespaces, or this container may not make them"
	WORLD_INSIDE=1 exec unshare --net --mount --pid --fork \
		--kill-child --mount-proc bash "$@"
	die "unshare failed"
}

world_private() {
	local real

	trap world_exit EXIT
	trap 'exit 130' INT TERM # process 1 has no default for them
	# Tests own umask and limits; the caller's must not decide.
	umask 022
	real=$(readlink -m /etc/resolv.conf)
	mount -t tmpfs -o mode=755 tmpfs /run || die "cannot mount a tmpfs on /run"
	mount -t sysfs sysfs /sys 2>/dev/null || : # host links stay visible: harmless
	mkdir -p $W /run/netns /run/lock
	echo "nameserver 198.51.100.53" >$W/resolv.conf
	if [ ! -e "$real" ]; then # a link into the former /run
		mkdir -p "${real%/*}" 2>/dev/null
		: >"$real" 2>/dev/null || real=
	fi
	[ -z "$real" ] || mount --bind $W/resolv.conf "$real" ||
		die "cannot mount over $real"
	ip link set lo up || die "cannot bring lo up"
}

in_inet() { nsenter --net=/run/netns/inet "$@"; }

world_links() {
	local a
	ip netns add inet &&
		ip link add uplink type veth peer name inet0 netns inet &&
		ip addr add 192.0.2.10/24 dev uplink &&
		ip link set uplink addrgenmode none &&
		in_inet ip link set inet0 addrgenmode none &&
		ip link set uplink up &&
		in_inet ip link set lo up &&
		in_inet ip addr add 192.0.2.1/24 dev inet0 &&
		in_inet ip link set inet0 up &&
		ip route add default via 192.0.2.1 || return 1
	for a in 198.51.100.53 198.51.100.80 198.51.100.81 203.0.113.66 \
		203.0.113.8 203.0.113.130 169.254.169.254 10.3.0.10; do
		in_inet ip addr add $a/32 dev lo || return 1
	done
	in_inet ip route add local 198.18.0.0/15 dev lo || return 1
	in_inet sysctl -qw net.ipv4.ip_forward=1 net.ipv4.tcp_max_syn_backlog=4096 net.core.somaxconn=4096
	in_inet nft -f - <<-NFT
	table inet wire {
		set seen {
			type ipv4_addr . inet_proto . inet_service
			flags dynamic
			size 65535
			counter
		}
		set other {
			type ipv4_addr . inet_proto
			flags dynamic
			size 65535
			counter
		}
		set from {
			type ipv4_addr
			flags dynamic
			size 65535
			counter
		}
		chain in {
			type filter hook prerouting priority -500
			iifname "inet0" meta nfproto ipv4 jump sort
		}
		chain sort {
			update @from { ip saddr }
			ip daddr 198.18.0.0/15 accept
			meta l4proto { tcp, udp } update @seen { ip daddr . meta l4proto . th dport } accept
			update @other { ip daddr . meta l4proto }
		}
	}
	NFT
}

# ---- what the Internet knows and serves ---------------------------------------

# One zone for everything; FRESH names each with an address of its own.
world_zone() {
	cat <<-'ZONE'
	$TTL 300
	@ IN SOA ns.example. root.example. 1 3600 600 86400 60
	@ IN NS ns.example.
	ns.example. A 198.51.100.53
	app.demo.example. A 198.51.100.80
	app.demo.example. TXT "not for everyone"
	two.demo.example. A 198.51.100.80
	two.demo.example. A 198.51.100.81
	other.demo.example. A 198.51.100.81
	echo.demo.example. A 198.51.100.81
	zero.demo.example. 0 A 198.51.100.80
	alias.demo.example. CNAME hop1.demo.example.
	hop1.demo.example. CNAME hop2.cdn.example.
	hop2.cdn.example. 30 A 198.51.100.80
	loop1.demo.example. CNAME loop2.demo.example.
	loop2.demo.example. CNAME loop1.demo.example.
	*.wild.demo.example. A 198.51.100.81
	k8s.internal.example. A 10.3.0.10
	collector.evil.example. A 203.0.113.66
	dns.public.example. A 203.0.113.8
	meta.rebind.example. A 169.254.169.254
	loop.rebind.example. A 127.0.0.1
	priv.rebind.example. A 10.3.0.10
	host.rebind.example. A 192.0.2.10
	mixed.rebind.example. A 198.51.100.80
	mixed.rebind.example. A 10.3.0.10
	metadata.google.internal. A 169.254.169.254
	ZONE
	awk -v n="${WORLD_FRESH:-0}" 'BEGIN {
		for (i = 0; i < n; i++)
			printf "f%05d.fresh.demo.example. A 198.18.%d.%d\n", i,
				1 + i / 250, 1 + i % 250 }'
}

world_unbound() {
	world_zone >$W/zone || return 1
	cat >$W/unbound.conf <<-CONF
	server:
		chroot: ""
		username: ""
		directory: "$W"
		pidfile: ""
		use-syslog: no
		logfile: ""
		interface: 198.51.100.53
		port: 53
		access-control: 0.0.0.0/0 allow
		do-ip6: no
		do-daemonize: no
		num-threads: 1
		module-config: "iterator"
		so-reuseport: no
		outgoing-range: 64
		num-queries-per-thread: 4096
		prefer-ip4: yes
		harden-glue: no
		edns-buffer-size: 1232
	remote-control:
		control-enable: no
	auth-zone:
		name: "."
		zonefile: "$W/zone"
		for-upstream: yes
		for-downstream: no
		fallback-enabled: no
	CONF
	# A copy: a profile of the machine for /usr/sbin/unbound knows no $W.
	cp "$(command -v unbound)" $W/unbound || return 1
	in_inet $W/unbound -d -c $W/unbound.conf >$W/unbound.log 2>&1 &
}

world_ca() {
	local d=$W/tls
	mkdir -p $d || return 1
	{
		openssl ecparam -name prime256v1 -genkey -noout -out $d/ca.key &&
			openssl req -x509 -new -key $d/ca.key -days 2 -out $CA \
				-subj "/CN=test world CA" &&
			openssl ecparam -name prime256v1 -genkey -noout -out $d/srv.key &&
			openssl req -new -key $d/srv.key -subj "/CN=demo.example" \
				-out $d/srv.csr &&
			printf 'subjectAltName=DNS:*.demo.example,DNS:*.evil.example,DNS:*.internal.example,IP:198.51.100.80,IP:203.0.113.66\n' \
				>$d/ext &&
			openssl x509 -req -in $d/srv.csr -CA $CA -CAkey $d/ca.key \
				-CAcreateserial -days 2 -extfile $d/ext -out $d/srv.pem
	} >$d/log 2>&1 || { cat $d/log; return 1; }
}

world_servers() {
	local s="$PYTHON $WORLD_LIB/servers.py --log $SERVERS_LOG --cert $W/tls/srv.pem --key $W/tls/srv.key"
	in_inet $s --ready $W/servers.ready \
		app=http:198.51.100.80:80 app=https:198.51.100.80:443 \
		app=http:198.51.100.80:8443 \
		other=http:198.51.100.81:80 \
		echo=echo:198.51.100.81:7 echo=udpecho:198.51.100.81:7 \
		collector=http:203.0.113.66:80 collector=https:203.0.113.66:443 \
		collector=http:203.0.113.66:4444 \
		resolver=dns:203.0.113.8:53 resolver=dnstcp:203.0.113.8:53 \
		resolver=sink:203.0.113.8:853 \
		fixed=echo:203.0.113.130:9000 \
		metadata=http:169.254.169.254:80 \
		internal=https:10.3.0.10:443 internal=https:10.3.0.10:6443 \
		fresh=quiet:0.0.0.0:8081 2>$W/servers.err &
	$s --ready $W/host.ready hostsvc=http:0.0.0.0:8022 \
		hostsvc=udpecho:0.0.0.0:8022 2>>$W/servers.err &
}

# Answers exactly when the whole of the Internet serves.
world_up() {
	[ -e $W/servers.ready ] && [ -e $W/host.ready ] &&
		$EG dig 198.51.100.53 app.demo.example | grep -q 198.51.100.80
}

world_start() {
	local t0
	t0=$(date +%s%N)
	need "$PYTHON" unbound openssl curl nft tcpdump nsenter
	: >$SERVERS_LOG
	world_links || die "the world's links cannot be made"
	world_ca || die "openssl cannot make the world's certificates"
	world_unbound || die "the resolver's configuration cannot be written"
	world_servers
	wait_for 10 world_up || {
		cat $W/unbound.log $W/servers.err
		die "the world's servers do not answer"
	}
	WORLD_MS=$((($(date +%s%N) - t0) / 1000000))
	world_policies
	world_conf
}

# ---- egressd in it ------------------------------------------------------------

world_policies() {
	mkdir -p $POLICIES
	cat >$POLICIES/demo.policy <<-'P'
	[policy]
	name = demo
	description = the services of the test world

	[allow]
	allow = app.demo.example tcp/443,tcp/80
	allow = two.demo.example tcp/80
	allow = alias.demo.example tcp/443
	allow = zero.demo.example tcp/80
	allow = echo.demo.example tcp/7,udp/7
	allow = *.wild.demo.example tcp/80
	allow = **.fresh.demo.example tcp/8081 max_names=20000
	allow = meta.rebind.example tcp/80
	allow = loop.rebind.example tcp/80
	allow = priv.rebind.example tcp/443
	allow = host.rebind.example tcp/8022
	allow = mixed.rebind.example tcp/80
	allow = k8s.internal.example tcp/6443 private=10.3.0.0/24
	allow = 203.0.113.128/28 tcp/9000
	P
	cat >$POLICIES/phased.policy <<-'P'
	[policy]
	name = phased

	[allow init]
	allow = app.demo.example tcp/443

	[allow plan apply]
	allow = echo.demo.example tcp/7
	P
}

# world_conf [SECTION.KEY=VALUE]...: the configuration, with these changed
world_conf() {
	local kv
	mkdir -p $AUDIT
	cat >$W/base.conf <<-C
	[pool]
	prefix = 10.200.0.0/24
	slots = 8
	slots_per_gateway = 4
	[uplink]
	link_prefix = 10.201.0.0/24
	[dns]
	upstream = 198.51.100.53
	[rules]
	permit_private = 10.3.0.0/24 tcp/6443
	[audit]
	dir = $AUDIT
	[api]
	group = 0
	read_group = 0
	[roles]
	api = 60903
	dns = 60904
	audit = 60905
	[paths]
	run = $RUN
	state = $STATE
	netns = /run/netns
	policies = $POLICIES
	C
	$EG conf $W/base.conf "$@" >$CONF || die "cannot write $CONF"
}

ready() {
	grep -q 'ready: ' "$DAEMON_LOG" &&
		[ "$(curl -s -o /dev/null -w '%{http_code}' --unix-socket $READ \
			http://egressd/readyz)" = 200 ]
}

# daemon_start: starts egressd on $CONF and waits until it is ready
daemon_start() {
	need_daemon
	[ -z "$DAEMON_PID" ] || cat "$DAEMON_LOG" >>$W/egressd.log.all
	: >"$DAEMON_LOG"
	"$EGRESSD" -c "$CONF" >>"$DAEMON_LOG" 2>&1 &
	DAEMON_PID=$!
	if ! wait_for "${1:-15}" ready; then
		kill -0 $DAEMON_PID 2>/dev/null || say "egressd has ended"
		return 1
	fi
	# Ready is from the first slot on; a test wants one it can lease.
	wait_for 5 pool_settled || :
}

# pool_settled: a slot waits to be leased, or all of them are
pool_settled() {
	curl -s --unix-socket $READ http://egressd/v1/pool |
		$EG room
}

# host_state: what a purge must leave as it was before the first start.
host_state() {
	bash "$WORLD_LIB/snapshot.sh" $RUN
	if [ -e $RUN ]; then echo "there is $RUN"; else echo "no $RUN"; fi
}

daemon_gone() { ! pgrep -x 'egressd.*' >/dev/null; }

# daemon_stop [SIGNAL]: the launcher gets it; returns when no role is left
daemon_stop() {
	kill -"${1:-TERM}" "$DAEMON_PID" || return 1
	wait "$DAEMON_PID" 2>/dev/null
	wait_for 10 daemon_gone
}

ctl() { "$EGRESSCTL" --socket $API "$@"; }

# api METHOD PATH [BODY]: prints the body, then the status on a line of its own
api() {
	local sock=${APISOCK:-$API}
	if [ $# -gt 2 ]; then
		curl -sS -m 20 --unix-socket "$sock" -X "$1" -d "$3" \
			-H 'Content-Type: application/json' \
			-w '\n%{http_code}\n' "http://egressd$2"
	else
		curl -sS -m 20 --unix-socket "$sock" -X "$1" \
			-w '\n%{http_code}\n' "http://egressd$2"
	fi
}

# j PATH <JSON: one value, dotted path; objects as JSON
j() { $EG get "$1"; }

# lease ID [ARGS]: leases and keeps the object in $W/lease.ID
lease() {
	local id=$1
	shift
	ctl --json lease --id "$id" "$@" >"$W/lease.$id" || return 1
}
of() { j "$2" <"$W/lease.$1"; }

# inside ID COMMAND...: in the lease's namespace, as a guest would
inside() {
	local id=$1
	shift
	ctl exec "$id" -- "$@"
}

# denials ID: the lease's log as of now, written out
denials() { ctl denials "$1" --format jsonl; }

# denied ID KEY=VALUE...: such a record is there (with time to be written)
denied() {
	local id=$1
	shift
	wait_for 3 denied_now "$id" "$@"
}
denied_now() {
	local id=$1
	shift
	denials "$id" | $EG match "$@"
}

# wire_saw ADDRESS [PORT [PROTO]]: did any packet of the host go there?
wire_saw() { in_inet nft -j list table inet wire | $EG wire "$@"; }

# served NAME [TEXT]: did that server log a connection (with TEXT in it)?
served() { $EG served $SERVERS_LOG "$@"; }

# ---- guests ---------------------------------------------------------------------

# with_resolver FILE COMMAND...: in the current namespace
with_resolver() {
	local f=$1
	shift
	unshare --mount sh -c 'mount --bind "$0" "$(readlink -f /etc/resolv.conf)" && exec "$@"' \
		"$f" "$@"
}

# tapguest ID: a guest behind the lease's tap, as namespace guest-ID
tapguest() {
	local id=$1 ns=guest-$1
	ip netns add "$ns" || return 1
	echo "nameserver $(of "$id" guest.gateway)" >"$W/$ns.resolv"
	$PYTHON "$WORLD_LIB/tapguest.py" --lease "$(of "$id" netns)" \
		--tap "$(of "$id" guest.tap)" --guest "/run/netns/$ns" \
		--mac "$(of "$id" guest.mac)" --ready "$W/$ns.ready" \
		>"$W/$ns.log" 2>&1 &
	wait_for 5 test -e "$W/$ns.ready" || { cat "$W/$ns.log"; return 1; }
	nsenter --net=/run/netns/"$ns" sh -c "ip link set lo up &&
		ip addr add $(of "$id" guest.address) dev eth0 &&
		ip link set eth0 up &&
		ip route add default via $(of "$id" guest.gateway)"
}

# guest ID COMMAND...: inside that guest
guest() {
	local ns=guest-$1
	shift
	nsenter --net=/run/netns/"$ns" bash -c \
		'. "$0"; with_resolver "$@"' "$WORLD_LIB/world.sh" "$W/$ns.resolv" "$@"
}
