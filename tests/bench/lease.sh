# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# Group lease: what a caller of the API feels, on a full pool.
#
# leaseload.c is eight clients, each of which leases at random times, so many a
# second that slots of the armed reserve do not run out; the time from the first
# octet of the question to the last of the answer counts. Others release what
# was leased. That is done with no other lease, with half of the pool leased and
# with 99 % of it; the worst of the three is the figure. Its reference is what
# GET /healthz takes the same clients: the price of HTTP and of the scheduler.
#
# Beside that stand, without a target: lease.burst_*, all eight at the same
# instant (the last waits for the other seven); lease.closed_*, all eight lease
# and release in turn as fast as they can.
#
# The peers do less: CNI's ptp and host-local give a link and an address, in a
# namespace made beforehand, and no rules; the script of `ip` and `nft` commands
# gives a namespace, a link and rules by address. Both run alone, in a world
# without egressd.

OPS=${BENCH_OPS:-4000}		# timed leases of one percentile
RATE=${BENCH_RATE:-200}		# a second, of all clients
CYCLES_S=${BENCH_SECONDS:-20}	# of lease.cycles
CYCLERS=64			# its clients: a release is mostly waiting
PEER_OPS=${BENCH_PEER_OPS:-60}
CNI=/usr/lib/cni

# ---- in a world: egressd ----------------------------------------------------------------

pool_value() { curl -s -m 5 --unix-socket $READ http://egressd/v1/pool | $EG get "$1"; }

# Armed again up to the reserve, or as far as free slots go, nothing under way?
pool_rests() {
	curl -s -m 5 --unix-socket $READ http://egressd/v1/pool |
		"$PYTHON" -c 'import json, sys
p = json.load(sys.stdin)
busy = p["building"] + p["releasing"]
sys.exit(busy > 0 or p["armed"] < min(256, p["idle"] + p["armed"]))'
}

# measure TAG LEASELOAD-OPTION...: leaves lease-TAG.json
measure() {
	local tag=$1 slow
	shift
	wait_for 60 pool_rests || say "the pool does not come to rest before $tag"
	slow=$(pool_value slow_total)
	"$TOOLS/leaseload" -d 120 -i "$tag" "$@" $API >"$RAW/lease-$tag.load" || say "$tag failed"
	"$PYTHON" - "$RAW/lease-$tag.load" $(($(pool_value slow_total) - slow)) \
		>"$RAW/lease-$tag.json" <<-'PY'
	import json, sys
	o = json.load(open(sys.argv[1]))
	o["slow"] = int(sys.argv[2])
	print(json.dumps(o))
	PY
	say "$tag: $(cat "$RAW/lease-$tag.json")"
}

churn() { # SECONDS
	"$TOOLS/churn" net "$1" >"$RAW/lease-churn.net" &
	"$TOOLS/churn" mnt "$1" >"$RAW/lease-churn.mnt" &
}

# occupy PERCENT: so much of the pool is leased, by leases that stay
occupy() {
	local have want
	have=$(pool_value leased)
	want=$((BENCH_SLOTS * $1 / 100 - have))
	[ $want -gt 0 ] || return 0
	measure "fill$1" -a lease -c $CYCLERS -n $want
}

lease_egressd() {
	local p
	bench_conf "$BENCH_SLOTS"
	bench_fill "$BENCH_SLOTS" "$RAW/lease.marks" || die "the pool did not fill"
	measure warm -n 40
	measure http -a get -r "$RATE" -n "$OPS"
	for p in 0 50 99; do
		occupy $p
		measure veth$p -r "$RATE" -n "$OPS"
		measure tap$p -g tap -r "$RATE" -n $(((OPS + 1) / 2))
		[ $p = 0 ] && measure burst -b -r "$RATE" -n $(((OPS + 1) / 2)) &&
			measure closed -n $(((OPS + 1) / 2))
		[ $p = 50 ] || continue
		churn $((OPS / RATE + 2))
		measure churn -r "$RATE" -n "$OPS"
		wait_for $((OPS / RATE + 10)) not pgrep -x churn
	done
	# Room for the cycles; the same clients, since they are in the ids.
	"$TOOLS/leaseload" -a release -c $CYCLERS -i fill99 \
		-n $((BENCH_SLOTS * 99 / 100 - BENCH_SLOTS * 50 / 100)) $API \
		>"$RAW/lease-release.json"
	measure cycles -c $CYCLERS -d "$CYCLES_S" -n 400000
	curl -s --unix-socket $READ http://egressd/metrics >"$RAW/lease.metrics"
	curl -s --unix-socket $READ http://egressd/v1/pool >"$RAW/lease.pool.json"
	daemon_rss >"$RAW/lease.rss"
	cp "$DAEMON_LOG" "$RAW/lease.egressd.log"
}

# ---- in a world: the peers ----------------------------------------------------------------

# timed FILE COMMAND...: appends its microseconds
timed() {
	local t0 t1 file=$1
	shift
	t0=${EPOCHREALTIME/[.,]/}
	"$@" >$W/timed.out 2>&1 || { cat $W/timed.out; return 1; }
	t1=${EPOCHREALTIME/[.,]/}
	echo $((t1 - t0)) >>"$file"
}

cni_add() { # NAME
	CNI_COMMAND=ADD CNI_CONTAINERID=$1 CNI_NETNS=/run/netns/$1 \
		CNI_IFNAME=eth0 CNI_PATH=$CNI $CNI/ptp <$W/cni.json
}

lease_cni() {
	local k
	world_links || die "the world's links cannot be made"
	cat >$W/cni.json <<-J
	{"cniVersion": "0.4.0", "name": "bench", "type": "ptp", "ipMasq": false,
	 "ipam": {"type": "host-local", "dataDir": "$W/cni",
	          "subnet": "10.22.0.0/16", "routes": [{"dst": "0.0.0.0/0"}]}}
	J
	for ((k = 0; k < PEER_OPS; k++)); do
		ip netns add cni$k || die "ip netns add"
		timed "$RAW/lease-cni.us" cni_add cni$k || die "CNI's ADD"
	done
}

# What an orchestrator without egressd would run for each sandbox.
sandbox_script() {
	cat <<-'S'
	#!/bin/sh
	set -e
	n=$1
	gw=10.23.$((n / 64)).$((n % 64 * 4 + 1)) me=10.23.$((n / 64)).$((n % 64 * 4 + 2))
	ip netns add sb$n
	ip link add sb$n type veth peer name eth0 netns sb$n
	ip addr add $gw/30 dev sb$n
	ip link set sb$n up
	ip -n sb$n link set lo up
	ip -n sb$n addr add $me/30 dev eth0
	ip -n sb$n link set eth0 up
	ip -n sb$n route add default via $gw
	nft -f - <<N
	table inet sb$n {
		set allowed { type ipv4_addr . inet_service; elements = { 198.51.100.80 . 443, 198.51.100.80 . 80 }; }
		chain forward {
			type filter hook forward priority 0; policy accept;
			iifname "sb$n" ct state established,related accept
			iifname "sb$n" ip saddr $me ip daddr . tcp dport @allowed accept
			iifname "sb$n" reject
		}
	}
	N
	S
}

lease_script() {
	local k
	world_links || die "the world's links cannot be made"
	sandbox_script >$W/sandbox.sh
	for ((k = 0; k < PEER_OPS; k++)); do
		timed "$RAW/lease-script.us" sh $W/sandbox.sh $k || die "the script"
	done
}

# ---- what came of it ------------------------------------------------------------------------

value() { # TAG KEY
	[ -s "$RAW/lease-$1.json" ] || { echo -; return; }
	$EG get "$2" <"$RAW/lease-$1.json" | grep -x '[0-9.]*' || echo -
}

most() { printf '%s\n' "$@" | grep -v '^-$' | sort -g | tail -n 1 | grep . || echo -; }

p50_us() { sort -g "$RAW/lease-$1.us" 2>/dev/null | awk '{ v[NR] = $1 }
	END { if (NR) print v[int((NR + 1) / 2)]; else print "-" }'; }

# worst NAME MODE KEY TARGET: the figure, then each occupancy
worst() {
	local p at=() http
	http=$(value http "$3"_us)
	for p in 0 50 99; do
		at+=("$(value "$2$p" "$3"_us)")
	done
	# One that is missing is not hidden behind the others.
	case " ${at[*]} " in *' - '*) p=- ;; *) p=$(most "${at[@]}") ;; esac
	figure "$1" "$p" us "$http" "$(ratio "$p" "$http")" "$4"
	figure "$1_0" "${at[0]}" us "$http" "$(ratio "${at[0]}" "$http")" -
	figure "$1_50" "${at[1]}" us "$http" "$(ratio "${at[1]}" "$http")" -
	figure "$1_99" "${at[2]}" us "$http" "$(ratio "${at[2]}" "$http")" -
	[ "$1" != lease.p50 ] || OURS=$p
}

# beside TAG KEY: a figure without a target
beside() {
	local v http
	v=$(value "$1" "$2"_us)
	http=$(value http "$2"_us)
	figure "lease.$1_$2" "$v" us "$http" "$(ratio "$v" "$http")" -
}

bench_lease() {
	local t v built OURS=-
	settle
	progress "leases on a pool of $SLOTS"
	room "$SLOTS" && in_world lease-egressd lease_egressd
	settle
	progress "CNI and the script, $PEER_OPS times each"
	if [ -x $CNI/ptp ]; then
		in_world lease-cni lease_cni
	else
		progress "$CNI/ptp is not there: tests/deps.sh --bench installs it"
	fi
	in_world lease-script lease_script

	worst lease.p50 veth p50 '<=250us'
	worst lease.p99 veth p99 '<=1000us'
	worst lease.p999 veth p999 '<=5000us'
	worst lease.tap_p50 tap p50 '<=250us'
	worst lease.tap_p99 tap p99 '<=1000us'
	v=$(value churn p99_us)
	figure lease.churn_p99 "$v" us "$(value veth50 p99_us)" \
		"$(ratio "$v" "$(value veth50 p99_us)")" '<=2000us'
	built=$(awk -v n="$SLOTS" '$1 == "mark" { t = $3 }
		END { if (t) printf "%.1f\n", n * 1e9 / t; else print "-" }' "$RAW/lease.marks" 2>/dev/null || echo -)
	v=$(value cycles per_second)
	figure lease.cycles "$v" cycles/s "$built" "$(ratio "$v" "$built")" '>=500cycles/s'
	figure lease.cycles_slow "$(value cycles slow)" leases - - -
	figure lease.cycles_exhausted "$(value cycles exhausted)" leases - - -
	for t in burst closed; do
		beside "$t" p50
		beside "$t" p99
	done
	v=$(p50_us cni)
	figure lease.vs_cni "$OURS" us "$v" "$(ratio "$v" "$OURS")" '>=10'
	v=$(p50_us script)
	figure lease.vs_script "$OURS" us "$v" "$(ratio "$v" "$OURS")" '>=10'
	for t in warm http veth0 tap0 burst closed fill50 veth50 tap50 churn fill99 veth99 tap99 release cycles; do
		[ ! -s "$RAW/lease-$t.json" ] || note "$t" "$(cat "$RAW/lease-$t.json")"
	done
	note churn_turns "$(json net "$(cat "$RAW/lease-churn.net" 2>/dev/null || echo -)" \
		mnt "$(cat "$RAW/lease-churn.mnt" 2>/dev/null || echo -)")"
}
