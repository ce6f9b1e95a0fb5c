#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Bad input: refused with one sentence that names the thing and what would be
# accepted, and nothing half done.
. "${0%/*}/../lib/world.sh"
world_enter "$0" "$@"
world_start
need_daemon

state() { bash "$WORLD_LIB/snapshot.sh" $RUN $STATE; }

# refuses WHAT PATTERN...: the daemon does not start on $CONF, says one line
refuses() {
	local what=$1 out st
	shift
	state >$W/before
	out=$(timeout 20 "$EGRESSD" -c $CONF 2>&1)
	st=$?
	check "$what: refused" eq $st 1
	check "  in one sentence" eq "$(printf '%s\n' "$out" | wc -l)" 1
	check "  that says what and what else" has "$out" "$@"
	state >$W/after
	check "  and nothing was made" diff $W/before $W/after
}

mkdir -p $RUN $STATE
: >$RUN/lock # what any start makes first; none of these leaves more

world_conf pool.slotz=8
refuses "an unknown key" "egressd.conf:[0-9]+.*slotz.*did you mean 'slots'"
world_conf pol.slots=8
refuses "an unknown section" 'egressd.conf:[0-9]+.*\[pol\].*pool'
world_conf pool.slots=zero
refuses "a number that is none" 'egressd.conf:[0-9]+:[0-9]+: .*slots.*zero.*1 to 16384'
world_conf pool.prefix=10.200.0.0/30
refuses "a prefix too small for its slots" '10.200.0.0/30.*slots is 8.*/27'
world_conf pool.prefix=10.200.0.1/24
refuses "a prefix with host bits" 'egressd.conf:[0-9]+.*10.200.0.1/24'
world_conf uplink.link_prefix=10.200.0.0/25
refuses "prefixes that overlap" 'link_prefix 10.200.0.0/25.*10.200.0.0/24'
world_conf uplink.link_prefix=10.201.0.0/31
refuses "a link prefix too small" 'link_prefix 10.201.0.0/31.*2 gateways.*/30'
world_conf pool.prefix=192.0.2.0/24
refuses "a prefix that overlaps an address of the host" \
	'192.0.2.0/24.*192.0.2.10'
world_conf dns.upstream=10.200.0.5
refuses "a resolver that is one of our own addresses" 'upstream.*10.200.0.5'
world_conf dns.min_ttl=2h
refuses "limits the wrong way round" 'min_ttl = 7200.*max_ttl = 3600'
world_conf 'rules.permit_private=169.254.169.254/32 tcp/80'
refuses "a permit that nothing may give" \
	'permit_private 169.254.169.254/32.*always denied'
world_conf roles.dns=nosuchuser
refuses "a user who is not there" 'dns.*nosuchuser.*create it'

# What inih would bend in silence.
world_conf
{ cat $CONF; printf '[pool]\n  armed = 4\n'; } >$W/c && cp $W/c $CONF
refuses "an indented line" 'egressd.conf:[0-9]+.*indent|egressd.conf:[0-9]+.*blank'
world_conf
{ cat $CONF; printf '[pool]\narmed: 4\n'; } >$W/c && cp $W/c $CONF
refuses "a colon for an equals sign" "egressd.conf:[0-9]+.*="
world_conf
{ cat $CONF; printf '[%060d]\n' 0; } >$W/c && cp $W/c $CONF
refuses "a section longer than inih reads" 'egressd.conf:[0-9]+.*48'
world_conf
{ cat $CONF; printf '[pool]\narmed = %01100d\n' 4; } >$W/c && cp $W/c $CONF
refuses "a line longer than is read" 'egressd.conf:[0-9]+.*1024'

CONF=$W/none.conf
refuses "a configuration that is not there" "$CONF.*No such file"
CONF=$W/egressd.conf

# Limits and features of the host.
world_conf
refuses_with() { # WRAPPER WHAT PATTERN...
	local wrap=$1 what=$2 out st
	shift 2
	state >$W/before
	out=$($wrap "$EGRESSD" -c $CONF 2>&1)
	st=$?
	check "$what: refused" eq $st 1
	check "  in one sentence" eq "$(printf '%s\n' "$out" | wc -l)" 1
	check "  that says what and what else" has "$out" "$@"
	state >$W/after
	check "  and nothing was made" diff $W/before $W/after
}
few_files() { (ulimit -Sn 64 && ulimit -Hn 64 && exec timeout 20 "$@"); }
no_netns() { # a user namespace that may make no network namespace
	unshare --user --map-root-user sh -c \
		'echo 0 >/proc/sys/user/max_net_namespaces && exec timeout 20 "$@"' sh "$@"
}
unprivileged() {
	setpriv --reuid 65534 --regid 65534 --clear-groups timeout 20 "$@"
}
refuses_with few_files "too low a RLIMIT_NOFILE" 'RLIMIT_NOFILE.*64.*LimitNOFILE'
if unshare --user --map-root-user true 2>/dev/null; then
	refuses_with no_netns "a kernel that gives no network namespace" \
		'network namespace.*(CONFIG_NET_NS|max_net_namespaces)'
fi
refuses_with unprivileged "a user who is not root" 'root'

check "--check says the same without starting" sh -c \
	"sed 's/^slots = 8/slots = 0/' $CONF >$W/bad.conf; ! '$EGRESSD' --check -c $W/bad.conf 2>$W/err;
	grep -q 'slots.*1 to 16384' $W/err"
check "--check of a good one" "$EGRESSD" --check -c $CONF
check "--print-config prints what --check accepts" sh -c \
	"'$EGRESSD' --print-config -c $CONF >$W/printed.conf && '$EGRESSD' --check -c $W/printed.conf"
check "an unknown option" exits 2 "$EGRESSD" --frobnicate

# Policies and leases.
cat >$POLICIES/broken.policy <<'P'
[policy]
name = broken
[allow]
allow = app.demo.example tcp/443
allow = other.demo.example tcp/99999
P
check "check-policy of a good one" ctl check-policy $POLICIES/phased.policy
out=$("$EGRESSCTL" check-policy $POLICIES/broken.policy 2>&1)
check "check-policy of one bad entry: exit 1" \
	exits 1 "$EGRESSCTL" check-policy $POLICIES/broken.policy
check "  with file, line and column and what is accepted" \
	has "$out" 'broken.policy:5:[0-9]+: .*99999'
check "check-config of a bad one" \
	exits 1 "$EGRESSCTL" check-config $W/bad.conf

must "the daemon starts beside a broken policy file" daemon_start
check "  and says where it is broken" \
	has "$(cat $DAEMON_LOG)" 'broken.policy:5:[0-9]+'
check "a second daemon on the same run directory" exits 1 \
	timeout 10 "$EGRESSD" -c $CONF
check "  is told which one runs" has "$(timeout 10 "$EGRESSD" -c $CONF 2>&1)" \
	"another egressd \(pid $DAEMON_PID\) runs on $RUN"
check "  and the first goes on" eq "$(api GET /readyz | tail -n 1)" 200

bad_lease() { # WHAT STATUS BODY PATTERN...
	local what=$1 status=$2 out
	out=$(api PUT /v1/leases/bad "$3")
	shift 3
	check "$what: $status" eq "$(printf '%s\n' "$out" | tail -n 1)" "$status"
	check "  with a code and a sentence" \
		has "$out" '"error"' '"code"' '"message"' "$@"
}
bad_lease "a policy nobody knows" 422 '{"policy":"nosuch"}' nosuch bad-policy
bad_lease "a policy that is broken" 422 '{"policy":"broken"}' broken
bad_lease "a text with a bad entry" 422 \
	'{"policy_text":"[policy]\nname = x\n[allow]\nallow = a.example udp/53\n"}' \
	bad-policy 53
bad_lease "a phase the policy lacks" 422 \
	'{"policy":"phased","phase":"destroy"}' bad-phase destroy init
bad_lease "a member that is none" 400 '{"policy":"demo","polcy":1}' polcy
bad_lease "no JSON" 400 '{"policy":' bad-request
bad_lease "a TTL past the limit" 400 '{"policy":"demo","ttl_s":100000}' 86400
bad_lease "a guest mode that is none" 400 \
	'{"policy":"demo","guest":{"mode":"vhost"}}' vhost tap
bad_lease "no policy at all" 400 '{}' policy
check "an id that is none" \
	has "$(api PUT /v1/leases/-x '{"policy":"demo"}')" '^400$'
check "none of them holds a slot" eq "$(ctl --json pool | j leased)" 0
check "egressctl: a refusal is exit 1" \
	exits 1 ctl lease --id x --policy nosuch
check "egressctl: a usage error is exit 2" exits 2 ctl lease --frobnicate
check "egressctl: no daemon is exit 3" \
	exits 3 "$EGRESSCTL" --socket $W/nosuch.sock ls
daemon_stop TERM
world_finish
