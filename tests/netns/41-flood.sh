#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# timeout: 120
# A guest that floods: what it is denied is accounted to the last packet, and
# the lease beside it, behind the same gateway, neither waits nor loses.
. "${0%/*}/../lib/world.sh"
world_enter "$0" "$@"
world_start

cat >$W/flood.py <<'P'
import os, socket, sys, time
kind, count = sys.argv[1], int(sys.argv[2])
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setblocking(False)
query = (b"\0\1\1\0\0\1\0\0\0\0\0\0\3app\4demo\7example\0\0\1\0\1")
sent = 0
for i in range(count):
    to = (sys.argv[3], 53) if kind == "dns" else \
        ("203.0.113.%d" % (i % 250 + 1), 1024 + i % 60000)
    try:
        s.sendto(os.urandom(2) + query[2:] if kind == "dns" else b"x", to)
        sent += 1
    except OSError:
        pass        # an ICMP error of an earlier one
print(sent)
P
flood() { inside a $PYTHON $W/flood.py "$@"; }
# The law, per reason: total = logged + suppressed + lost, nothing without a name.
law() {
	ctl --json show "$1" | $PYTHON -c '
import json, sys
j = json.load(sys.stdin)
for r, c in j["denied"].items():
    if c["total"] != c["logged"] + c["suppressed"] + c["lost"]:
        sys.exit("%s: %s" % (r, c))
if j["unattributed"]:
    sys.exit("unattributed: %d" % j["unattributed"])
print(sum(c["total"] for c in j["denied"].values()))'
}
total() { ctl --json show a | $PYTHON -c '
import json, sys
print(json.load(sys.stdin)["denied"].get(sys.argv[1], {}).get("total", 0))' "$1"; }
neighbour() { # 20 questions and a connection; the slowest answer in ms
	inside b $PYTHON - "$(of b dns.0)" <<'P'
import os, socket, sys, time
worst = 0
for i in range(20):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.settimeout(2)
    t = time.monotonic()
    s.sendto(os.urandom(2) + b"\1\0\0\1\0\0\0\0\0\0\3app\4demo\7example\0\0\1\0\1",
             (sys.argv[1], 53))
    s.recv(512)
    worst = max(worst, time.monotonic() - t)
    time.sleep(0.05)
print("slowest answer %d ms" % (worst * 1000))
P
}

must "egressd starts" daemon_start
must "the lease that floods" lease a --policy demo
must "the lease beside it" lease b --policy demo

sent=$(flood udp 30000)
check "each of $sent denied packets is counted" wait_for 5 \
	sh -c "[ \$('$EGRESSCTL' --socket $API --json show a | $PYTHON -c '
import json, sys
print(json.load(sys.stdin)[\"denied\"][\"not-allowed\"][\"total\"])') = $sent ]"
check "logged, suppressed or lost, to the last one" law a
check "most of them only counted" test "$(wc -l <"$(of a audit)/denials.jsonl")" -lt 2000

flood dns 50000 "$(of a dns.0)" >/dev/null &
check "the neighbour's questions are all answered meanwhile" neighbour
wait $!
check "the questions above the rate are denied as rate" test "$(total rate)" -gt 0
check "the law holds for them, too" law a

flood udp 200000 >/dev/null &
check "and while packets are flooded" neighbour
check "the neighbour's own denial is recorded at once" sh -c \
	"nsenter --net='$(of b netns)' $PYTHON -c '
import socket
s = socket.socket(); s.settimeout(1)
s.connect_ex((\"203.0.113.66\", 4444))'"
check "  in its own log" wait_for 3 denied b dst=203.0.113.66 dport=4444
wait $!
check "the law after all of it" law a
check "and for the neighbour" law b
daemon_stop TERM
world_finish
