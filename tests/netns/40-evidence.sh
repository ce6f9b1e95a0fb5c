#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Evidence: every denial has its packet, counters equal the log, also under a
# flood; tcpdump and tshark open the savefile; the lease's end seals it.
. "${0%/*}/../lib/world.sh"
world_enter "$0" "$@"
need tshark
world_start
must "egressd starts" daemon_start
must "a lease" lease a --policy demo --run r1 --tenant acme --label commit=4f1c
DIR=$(of a audit)

show() { ctl --json show a; }
settled() { # counters do not move any more
	local x y
	x=$(show | $EG total) && sleep 0.3 && y=$(show | $EG total)
	[ "$x" = "$y" ]
}

inside a $EG dig "$(of a dns.0)" collector.evil.example >/dev/null
inside a $EG connect 169.254.169.254 80 >/dev/null
inside a $EG connect 203.0.113.66 443 >/dev/null
inside a $EG connect 203.0.113.66 4444 udp >/dev/null
inside a $EG dig "$(of a dns.0)" app.demo.example >/dev/null
inside a $EG connect 198.51.100.80 8443 >/dev/null
inside a $EG frame ipv6 eth0 "$(of a address)" 0.0.0.0 33:33:00:00:00:01
check "records say whose they are" denied a reason=metadata run=r1 \
	tenant=acme labels.commit=4f1c lease=a uid="$(of a uid)" \
	slot="$(of a slot)" generation="$(of a generation)" verdict=reject
check "a denial of a known address has its name" denied a \
	reason=not-allowed dst=198.51.100.80 dport=8443 name=app.demo.example
check "and says what would allow it" has \
	"$(denials a | grep 8443)" 'app.demo.example tcp/8443'
wait_for 3 settled
check "each record is backed by the packet it names" $EG evidence "$DIR"
check "counters equal the log" sh -c "'$EGRESSCTL' --socket $API --json show a |
	$EG law $DIR/denials.jsonl metadata=1 dns-denied=1 not-allowed ipv6=1"
check "tcpdump reads the savefile" has \
	"$(tcpdump -nr "$DIR/denials.pcap" 2>/dev/null)" \
	'> 169.254.169.254.80: Flags \[S\]' '> 203.0.113.66.4444: UDP' \
	'collector.evil.example'
check "tshark reads the savefile, nothing malformed" eq \
	"$(tshark -r "$DIR/denials.pcap" -Y '_ws.malformed' 2>/dev/null)" ""
check "  with as many packets as records" eq \
	"$(tshark -r "$DIR/denials.pcap" 2>/dev/null | wc -l)" \
	"$($EG count <"$DIR/denials.jsonl")"
check "  and the names asked for" has "$(tshark -r "$DIR/denials.pcap" \
	-T fields -e dns.qry.name 2>/dev/null)" collector.evil.example
check "files are not for everyone" eq \
	"$(stat -c %a "$DIR/denials.jsonl") $(stat -c %a "$DIR/denials.pcap")" \
	"640 640"

# A flood: not all of it can be logged, none of it is forgotten.
check "a flood of 20,000 packets and 500 names" inside a $PYTHON -c '
import socket, sys
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
u.setblocking(False)
for i in range(20000):
    for _ in range(3):
        try:
            u.sendto(b"x", ("203.0.113.%d" % (i % 120), 1000 + i % 7))
            break
        except OSError:
            pass
for i in range(500):
    try:
        u.sendto(b"\0\1\1\0\0\1\0\0\0\0\0\0\6n%05d\4evil\0\0\1\0\1" % i, (sys.argv[1], 53))
    except OSError:
        pass
' "$(of a dns.0)"
wait_for 10 settled
check "counters equal logged and suppressed, nothing lost" sh -c "
	'$EGRESSCTL' --socket $API --json show a | $EG law $DIR/denials.jsonl"
check "every packet is counted" test "$(show | $EG total)" -gt 15000
check "each record is still backed" $EG evidence "$DIR"
check "the log is bounded" test "$($EG count <"$DIR/denials.jsonl")" -lt 15000
check "a second lease is not disturbed" lease b --policy demo
check "  it resolves" eq \
	"$(inside b $EG dig "$(of b dns.0)" app.demo.example)" \
	"NOERROR 198.51.100.80"

# The end.
last=$(show)
check "release" ctl release a
check "the manifest is there" test -s "$DIR/manifest.json"
check "the law holds for what was sealed" sh -c "
	printf '%s' '$last' | $EG law $DIR/denials.jsonl"
check "the evidence is complete" $EG evidence "$DIR"
for f in denials.jsonl denials.pcap; do
	check "the manifest has the hash of $f" has "$(cat "$DIR/manifest.json")" \
		"$(sha256sum "$DIR/$f" | cut -d' ' -f1)"
done
check "host-wide sequence, host and boot are in each" sh -c \
	"$EG match host_id=$(tr -d - <$STATE/host_id) <$DIR/denials.jsonl || $EG match \
	host_id=\$(sed -E 's/(.{8})(.{4})(.{4})(.{4})/\\1-\\2-\\3-\\4-/' $STATE/host_id) <$DIR/denials.jsonl"
check "nothing of all this reached anyone" not served 'collector|metadata|resolver'
daemon_stop TERM
world_finish
