#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Time: a lease ends by the clock alone and what it had ends with it.
. "${0%/*}/../lib/world.sh"
world_enter "$0" "$@"
world_start
must "egressd starts" daemon_start

gone() { [ "$(api GET /v1/leases/"$1" | tail -n 1)" != 200 ]; }
events() { curl -s --unix-socket $READ -H 'Accept: application/x-ndjson' \
	http://e/v1/events; }

must "a lease of 3 seconds" lease brief --policy demo --ttl 3s
must "one that is renewed" lease kept --policy demo --ttl 3s
check "it works" eq "$(inside brief curl -sS -m 2 http://app.demo.example/)" \
	"hello from app:80"
# A process that sits in it and a flow that runs when it ends.
nsenter --net="$(of brief netns)" $EG flow 198.51.100.81 7 20 $W/flow.log \
	>/dev/null 2>&1 &
inside brief $EG dig "$(of brief dns.0)" echo.demo.example >/dev/null
nsenter --net="$(of brief netns)" $EG flow 198.51.100.81 7 20 $W/flow.log \
	>$W/flow.out 2>&1 &
flow=$!
wait_for 2 grep -q connected $W/flow.log
check "renewed in time" ctl renew kept --ttl 1h
check "it ends by itself" wait_for 6 gone brief
check "  its path is gone" test ! -e "$(of brief netns)"
check "  the event says why" sh -c "curl -s --unix-socket $READ \
	-H 'Accept: application/x-ndjson' http://e/v1/events |
	$EG match type=released lease=brief cause=expiry"
wait $flow
check "  its running flow was cut" test $? -ne 0
check "  its evidence is sealed" test -s "$(of brief audit)/manifest.json"
check "the renewed one lives" eq "$(api GET /v1/leases/kept | tail -n 1)" 200
check "  and works" eq "$(inside kept curl -sS -m 2 http://app.demo.example/)" \
	"hello from app:80"

# The clock runs while the daemon does not.
must "a lease of 4 seconds" lease asleep --policy demo --ttl 4s
daemon_stop TERM
sleep 5
must "egressd starts after its end" daemon_start
check "it is released at once" wait_for 3 gone asleep
check "  its path is gone" test ! -e "$(of asleep netns)"
check "the other is still there" eq "$(api GET /v1/leases/kept | tail -n 1)" 200
daemon_stop TERM
world_finish
