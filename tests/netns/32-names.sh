#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Names that lie: answers into private, metadata and loopback ranges; and the
# questions a guest may not ask.
. "${0%/*}/../lib/world.sh"
world_enter "$0" "$@"
. "$WORLD_LIB/rules.sh"
world_start
must "egressd starts" daemon_start
must "a lease" lease a --policy demo

while read -r name address reason; do
	check "$name keeps no address" not has "$(resolve a $name)" "$address"
	check "  recorded as $reason with the address" denied a layer=dns \
		reason=$reason qname=$name addr=$address
done <<'N'
meta.rebind.example 169.254.169.254 metadata
loop.rebind.example 127.0.0.1 rebind
priv.rebind.example 10.3.0.10 rebind
host.rebind.example 192.0.2.10 rebind
N
check "of a mixed answer the public address stays" \
	eq "$(resolve a mixed.rebind.example)" "NOERROR 198.51.100.80"
check "  and works" eq "$(fetch a http://mixed.rebind.example/)" \
	"hello from app:80"
check "no pin leads to a private address" refused a 10.3.0.10 443
check "metadata.google.internal does not exist" \
	not has "$(resolve a metadata.google.internal)" 169.254
check "  whatever the case" \
	not has "$(resolve a MetaData.Google.INTERNAL)" 169.254
check "  recorded as metadata" denied a layer=dns reason=metadata
check "a listed name in any case resolves" \
	eq "$(resolve a ApP.DeMo.ExAmPlE)" "NOERROR 198.51.100.80"
check "AAAA of a listed name: no address, no error" \
	eq "$(resolve a app.demo.example AAAA)" NOERROR
check "TXT of a listed name carries nothing" not has \
	"$(resolve a app.demo.example TXT)" everyone
check "NULL is not relayed" has "$(resolve a app.demo.example NULL)" \
	'^(NOERROR|NXDOMAIN|REFUSED|NOTIMP)$'
check "ANY is not relayed" not has "$(resolve a app.demo.example ANY)" \
	everyone
check "a loop of aliases ends" has "$(resolve a loop1.demo.example)" \
	'^(NXDOMAIN|SERVFAIL)$'
check "a name with two addresses gives both" has \
	"$(resolve a two.demo.example | tr ' ' '\n' | sort | tr '\n' ' ')" \
	'198.51.100.80 198.51.100.81'
for d in 198.51.100.80 198.51.100.81; do
	check "  both pinned ($d)" inside a $EG connect $d 80
done
check "a name in another one's data: its record holds the question" \
	denied a reason=metadata qname=metadata.google.internal
# Rubbish is answered or dropped, never relayed, and the guard lives.
check "rubbish to port 53" inside a $PYTHON -c '
import socket, os, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for n in (0, 1, 11, 12, 13, 40, 200, 512, 1400):
    s.sendto(os.urandom(n), (sys.argv[1], 53))
s.sendto(b"\0\1\1\0\0\1\0\0\0\0\0\0\xc0\x0c\0\1\0\1", (sys.argv[1], 53))
s.sendto(b"\0\1\1\0\0\2\0\0\0\0\0\0\1a\0\0\1\0\1\1b\0\0\1\0\1", (sys.argv[1], 53))
' "$(of a dns.0)"
check "the guard lives" eq "$(resolve a app.demo.example)" \
	"NOERROR 198.51.100.80"
check "malformed questions are recorded" denied a reason=dns-malformed
check "every packet of a record holds" wait_for 3 sh -c "
	'$EGRESSCTL' --socket $API denials a --format jsonl >/dev/null
	$EG evidence $(of a audit)"
daemon_stop TERM
world_finish
