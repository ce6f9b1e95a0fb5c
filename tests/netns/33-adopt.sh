#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# timeout: 300
# A slot wired into a namespace the caller made: by its descriptor, once; what
# is nobody's to have is refused by name; undone when the lease ends, also when
# the namespace has ended before; found again after kill -9 of everything.
. "${0%/*}/../lib/world.sh"
world_enter "$0" "$@"
. "$WORLD_LIB/rules.sh"
need setpriv

world_start
# A copy of the tree others keep theirs in, so that adopt_from has two.
DOCKER=/run/docker/netns
mkdir -p $DOCKER /run/elsewhere
world_conf lease.adopt_from=/run/netns:$DOCKER api.adopt_uids=1001
must "egressd starts" daemon_start

adopt() { lease "$1" --policy demo --guest adopt --netns "$2" "${@:3}"; }
in_ns() { nsenter --net=/run/netns/"$1" "${@:2}"; }
kill_tree() { # every process of it at once
	kill -9 $(pgrep -x 'egressd.*') 2>/dev/null
	wait_for 5 daemon_gone
}
is_lost() { eq "$(ctl --json show "$1" | j state)" lost; }
facts_of() { # NAMESPACE: all a lease could leave in it
	in_ns "$1" sh -c 'ip -o link; ip -o addr; ip route show table all; ip neigh
		ip rule; nft list ruleset; sysctl -a 2>/dev/null | grep -v -e random \
			-e nf_conntrack_count -e "fs\.\|kernel\.\|vm\.\|dev\."'
}

# ---- ordinary use ------------------------------------------------------------

ip netns add mine
in_ns mine ip link set lo up
facts_of mine >$W/mine.before
must "a namespace of ours is adopted" adopt a /run/netns/mine
check "the lease says where it is" eq \
	"$(of a netns) $(of a interface) $(of a guest.mode) $(of a guest.netns_path)" \
	"/run/netns/mine eth0 adopt /run/netns/mine"
check "  and that the path is not egressd's to keep" eq "$(of a netns_volatile)" true
check "egressctl show says it" has "$(ctl show a)" '^netns +/run/netns/mine$' \
	'^guest +adopt'
check "the link has the address" has "$(in_ns mine ip -4 -o addr show eth0)" \
	"inet $(of a address)/30"
check "the default route leads to the gateway" has "$(in_ns mine ip route)" \
	"^default via $(of a gateway_address) dev eth0"
check "no address of IPv6" eq "$(in_ns mine ip -6 -o addr show dev eth0)" ""
check "the neighbour is permanent" has "$(in_ns mine ip neigh)" \
	"^$(of a gateway_address) dev eth0 lladdr .* PERMANENT"
must "a lease beside it" lease b --policy demo
allowed_works a
names_stay_in a
packets_stay_in a b
check "the record says whose it was" denied a reason=metadata src="$(of a address)"
check "the same request again gives the same lease" eq \
	"$(ctl --json lease --id a --policy demo --guest adopt --netns /run/netns/mine | j uid)" \
	"$(of a uid)"
check "the same id for another namespace does not" exits 1 \
	ctl lease --id a --policy demo --guest adopt --netns /run/netns/inet
check "egressctl debug finds its gateway" ctl debug a -- ip link show up0
check "SIGTERM of the sandbox's own link is an event" sh -c \
	"nsenter --net=/run/netns/mine ip link set eth0 down; sleep 0.3
	nsenter --net=/run/netns/mine ip link set eth0 up
	nsenter --net=/run/netns/mine ip route add default via $(of a gateway_address)"
check "  said for the lease" has "$(ctl --json events)" '"guest-gone"'

# ---- refusals: nothing is touched ------------------------------------------------

refused_as() { # STATUS PATTERN PATH [MEMBERS]
	local out
	out=$(api PUT /v1/leases/no '{"policy":"demo","guest":{"mode":"adopt","netns_path":"'"$3"'"'"${4:-}"'}}')
	has "$out" "^$1$" && has "$out" "$2"
}
ip netns add spare
ip netns add taken
in_ns taken ip link add eth0 type bridge
ip netns add routed
in_ns routed sh -c 'ip link add d0 type bridge; ip addr add 10.9.9.1/24 dev d0
	ip link set d0 addrgenmode none; ip link set d0 up; ip route add default via 10.9.9.2'
# Not below /run/netns: ip(8) opens every file there, a FIFO for ever.
cd $DOCKER || exit 1
touch file host one uts gwcopy slotcopy /run/elsewhere/outside
mkfifo fifo
mknod null c 1 3
mkdir dir
mount --bind /proc/self/ns/net host
mount --bind /proc/1/ns/net one
mount --bind /proc/self/ns/uts uts
mount --bind /run/netns/eg-gw-01 gwcopy
mount --bind "$(of b netns)" slotcopy
mount --bind /run/netns/spare /run/elsewhere/outside
ln -s /run/netns/spare link
ln -s /run/elsewhere linkdir
ln -s /proc/self/ns/net magic
armed=$(ls /run/netns | grep -m 1 '^eg-0')
facts_of spare >$W/spare.before
facts_of taken >$W/taken.before
facts_of routed >$W/routed.before
host_before=$(ip -o link | sort; ip -o addr; ip route)
while IFS='|' read -r path pattern what; do
	check "$what is refused" refused_as 400 "'$path' .*$pattern" "$path"
done <<T
$DOCKER/host|is the host's; a network namespace of yours|the host's namespace
$DOCKER/one|is [a-z0-9 ]*'s; a network|process 1's
/run/netns/eg-gw-00|is a gateway's|a gateway's by its name
$DOCKER/gwcopy|is a gateway's|  and by another
$(of b netns)|is a slot's|another lease's
$DOCKER/slotcopy|is a slot's|  by another name
/run/netns/$armed|is a slot's|an armed slot's
$DOCKER/file|is not a namespace|a regular file
$DOCKER/fifo|is not a namespace|a FIFO
$DOCKER/null|is not a namespace|a device
$DOCKER/dir|is not a namespace|a directory
$DOCKER/uts|is a namespace of another kind|a namespace of another kind
$DOCKER/link|leads through a symbolic link|a symbolic link
$DOCKER/linkdir/outside|leads through a symbolic link|one in the middle
$DOCKER/magic|leads through a symbolic link|one into /proc
/run/netns/none|does not exist|what is not there
$DOCKER/file/x|leads through what is no directory|what is below a file
/run/netns/../netns/spare|component '.' or '..'|a way with ..
/run/netns/./spare|component '.' or '..'|a way with .
/run/netns//spare|empty component|a way with //
/run/elsewhere/outside|not below .*/run/netns, $DOCKER|a path outside
/run/netnsx/spare|not below|a directory that only begins alike
/run/netns|not below|the directory itself
/proc/1/ns/net|not below|a path in /proc
run/netns/spare|is not absolute|a path that is not absolute
/run/netns/taken|has a link named eth0 already; another guest.interface|a namespace with an eth0 of its own
/run/netns/routed|has a default route already|one with a default route
T
check "a path with a newline is refused" refused_as 400 'not ASCII' '/run/netns/a\nb'
check "a path of 128 octets is refused" refused_as 400 'longer than 127' \
	"/run/netns/$(printf '%0128d' 0)"
check "a path with NUL is refused" refused_as 400 'u0000 is not allowed' '/run/netns/spare\u0000x'
check "a name no link can have is refused" refused_as 400 "guest.interface 'a/b'" \
	/run/netns/spare ',"interface":"a/b"'
check "lo is refused" refused_as 400 "guest.interface 'lo'" \
	/run/netns/spare ',"interface":"lo"'
check "adopt without a path is refused" has \
	"$(api PUT /v1/leases/no '{"policy":"demo","guest":{"mode":"adopt"}}')" \
	'needs guest.netns_path' '^400$'
check "a path in another mode is refused" has \
	"$(api PUT /v1/leases/no '{"policy":"demo","guest":{"mode":"veth","netns_path":"/run/netns/spare"}}')" \
	'belongs to guest.mode adopt' '^400$'
check "a namespace has one lease at a time" refused_as 409 \
	"'/run/netns/mine' has a link of egressd's already, eth0" /run/netns/mine
check "  whatever the link would be called" refused_as 409 'link of egressd' \
	/run/netns/mine ',"interface":"eth7"'
for i in spare taken routed; do
	facts_of $i >$W/$i.after
	check "nothing is left in $i of the attempts" diff $W/$i.before $W/$i.after
done
check "nor in the host" eq "$(ip -o link | sort; ip -o addr; ip route)" "$host_before"
check "the lease beside was not disturbed" eq \
	"$(fetch b https://app.demo.example/)" "hello from app:443"
check "none of them is a lease" eq "$(ctl ls -q | sort | tr '\n' ' ')" "a b "

# Another name where eth0 is taken; the caller's own is not touched.
must "the namespace with an eth0 is adopted under another name" \
	adopt t /run/netns/taken --interface net1
check "  the lease says which" eq "$(of t interface)" net1
check "  it works" eq "$(fetch t https://app.demo.example/)" "hello from app:443"
check "  its eth0 is as it was" has "$(in_ns taken ip -d link show eth0)" bridge
check "  release" ctl release t
facts_of taken >$W/taken.after
check "  nothing is left in it" diff $W/taken.before $W/taken.after

# ---- who ---------------------------------------------------------------------

as() { # UID COMMAND...
	setpriv --reuid "$1" --regid 0 --clear-groups -- "${@:2}"
}
put_as() {
	as "$1" curl -sS --unix-socket $API -X PUT -w '\n%{http_code}\n' -d \
		'{"policy":"demo","guest":{"mode":"adopt","netns_path":"/run/netns/spare"}}' \
		"http://egressd/v1/leases/$2"
}
check "a user who is not in adopt_uids is refused" has "$(put_as 1002 u2)" '^403$' \
	'adopt_uids; you are uid 1002' '"forbidden"'
check "  a lease of its own it may have" has "$(as 1002 curl -sS --unix-socket $API \
	-X PUT -w '\n%{http_code}\n' -d '{"policy":"demo"}' \
	http://egressd/v1/leases/u2)" '^201$'
check "  which it may release" as 1002 curl -sSf --unix-socket $API -X DELETE \
	-o /dev/null http://egressd/v1/leases/u2
check "one who is may adopt" has "$(put_as 1001 u1)" '^201$'
check "  and release" as 1001 curl -sSf --unix-socket $API -X DELETE -o /dev/null \
	http://egressd/v1/leases/u1
facts_of spare >$W/spare.after
check "  nothing is left" diff $W/spare.before $W/spare.after

# ---- a path that changes while it is looked up ------------------------------------

# cur is now a directory with a namespace of the caller's in it, now a link to
# one below which the host's lies. Whatever is found, it is never the host's.
mkdir $DOCKER/real /run/elsewhere/bad
touch $DOCKER/real/x /run/elsewhere/bad/x
ip netns add good
mount --bind /run/netns/good $DOCKER/real/x
ip netns add decoy
mount --bind /run/netns/decoy /run/elsewhere/bad/x
ln -s /run/elsewhere/bad $DOCKER/cur
facts_of decoy >$W/decoy.before
$PYTHON - $DOCKER/real $DOCKER/cur <<'P' &
import ctypes, sys
libc = ctypes.CDLL(None)
a, b = (p.encode() for p in sys.argv[1:3])
while True:
    libc.renameat2(-100, a, -100, b, 2)  # RENAME_EXCHANGE
P
racer=$!
yes=0 no=0
for i in $(seq 1 60); do
	out=$(api PUT /v1/leases/race$i '{"policy":"demo","guest":{"mode":"adopt","netns_path":"'$DOCKER'/cur/x"}}')
	case ${out##*$'\n'} in
	201)
		yes=$((yes + 1))
		in_ns good ip link show eth0 >/dev/null 2>&1 || say "race$i: not in good"
		ctl release race$i >/dev/null
		;;
	400) no=$((no + 1)) ;;
	*) say "$out" ;;
	esac
done >$W/race.out 2>&1
kill $racer
wait $racer 2>/dev/null
check "a path that changes under it was answered each time ($yes adopted, $no refused)" \
	test $((yes + no)) -eq 60
check "  and only ever led to what it may" eq "$(cat $W/race.out)" ""
check "  both happened" test $yes -gt 0 -a $no -gt 0
facts_of decoy >$W/decoy.after
check "  never to where the link points" diff $W/decoy.before $W/decoy.after
check "  nor to the host" eq "$(ip -o link | sort; ip -o addr; ip route)" "$host_before"

# ---- its end -----------------------------------------------------------------

nsenter --net=/run/netns/mine $EG flow 198.51.100.81 7 30 $W/flow.log >/dev/null 2>&1 &
check "release while a flow runs" ctl release a
check "  it reaches nothing" not in_ns mine $EG connect 198.51.100.80 443
check "  a second time it is gone" exits 1 ctl release a
facts_of mine >$W/mine.after
check "nothing is left in the namespace" diff $W/mine.before $W/mine.after
check "nor a flow in the gateways or the host" not sh -c "
	for g in /run/netns/eg-gw-*; do
		nsenter --net=\$g cat /proc/net/nf_conntrack 2>/dev/null; done |
		grep -q 'src=$(of a address) '"
check "the evidence is sealed" $EG evidence "$(of a audit)"

must "the same namespace can be adopted again" adopt a2 /run/netns/mine
check "  under a new generation" test "$(of a2 generation)" -gt "$(of a generation)"
check "  and works" eq "$(fetch a2 https://app.demo.example/)" "hello from app:443"
check "expiry undoes it, too" ctl renew a2 --ttl 1s
check "  in time" wait_for 5 not in_ns mine ip link show eth0
facts_of mine >$W/mine.after
check "  nothing is left" diff $W/mine.before $W/mine.after

ip netns add gone
must "a namespace that will end" adopt g /run/netns/gone
check "its owner deletes it" ip netns del gone
check "the lease is lost" wait_for 20 is_lost g
check "  which is an event" has "$(ctl --json events)" '"guest-gone".*"g"|"g".*"guest-gone"'
check "  a process elsewhere did not notice" eq \
	"$(fetch b https://app.demo.example/)" "hello from app:443"
check "  renewing it is refused" exits 1 ctl renew g --ttl 1h
check "release works all the same" ctl release g
check "  no link of it is left" not sh -c "nsenter --net=$(of g gateway_netns) \
	ip link show eg-$(printf %05d "$(of g slot)") | grep -q 'group 3695'"

# Every slot, one after the other, comes back.
check "the pool is whole: every slot can still be adopted with" sh -c "
	for i in \$(seq 1 20); do
		'$EGRESSCTL' --socket $API lease --id p\$i --policy none --guest adopt \
			--netns /run/netns/mine >/dev/null || exit 1
		'$EGRESSCTL' --socket $API release p\$i >/dev/null || exit 1
	done"

# ---- restart -----------------------------------------------------------------

must "a lease" adopt r /run/netns/mine
ip netns add short
must "another, whose namespace ends meanwhile" adopt s /run/netns/short
resolve r echo.demo.example >/dev/null
resolve r app.demo.example >/dev/null
rm -f $W/flow.log
nsenter --net=/run/netns/mine $EG flow 198.51.100.81 7 8 $W/flow.log >$W/flow.out 2>&1 &
FLOW=$!
wait_for 3 grep -q connected $W/flow.log
kill_tree
ip netns del short
check "with the daemon dead a pinned address works" in_ns mine $EG connect 198.51.100.80 443
check "  a raw one stays denied" not in_ns mine $EG connect 203.0.113.66 443
must "the next start is ready" daemon_start
check "it took the lease over" eq "$(ctl --json show r | j state)" leased
check "  as it was" eq "$(ctl --json show r | j generation)" "$(of r generation)"
wait $FLOW
check "  the flow went on ($(cat $W/flow.out))" test $? -eq 0
check "  names resolve" eq "$(fetch r http://zero.demo.example/)" "hello from app:80"
check "the one whose namespace ended meanwhile is lost" wait_for 20 is_lost s
check "  and can be released" ctl release s
check "the namespace is still taken" refused_as 409 'link of egressd' /run/netns/mine
for role in build main; do
	kill -9 "$($EG rolepid $DAEMON_LOG $role)"
	sleep 0.5
	must "$role is killed and comes back" wait_for 10 ready
	check "  the lease is there" eq "$(ctl --json show r | j state)" leased
	check "  and works" wait_for 5 in_ns mine $EG connect 198.51.100.80 443
	check "  a slot's namespace is still refused" wait_for 5 refused_as 400 "is a slot's" "$(of b netns)"
done
ip netns add late
must "one more lease" adopt l /run/netns/late
kill -9 "$($EG rolepid $DAEMON_LOG build)"
ip netns del late
check "what ended while build was away is lost, too" wait_for 20 is_lost l
check "  and can be released" wait_for 5 ctl release l
check "release of what was taken over" ctl release r
facts_of mine >$W/mine.after
check "  nothing is left" diff $W/mine.before $W/mine.after

# ---- a crash between wiring and record, and a purge ---------------------------------

must "a lease" adopt c /run/netns/mine
kill_tree
rm $RUN/leases/"$(of c slot).$(of c generation)"
must "a start without its record" daemon_start
check "unwires what nobody has a record of" wait_for 5 not in_ns mine ip link show eth0
facts_of mine >$W/mine.after
check "  nothing is left" diff $W/mine.before $W/mine.after
check "  its slot is free again" wait_for 5 sh -c "
	'$EGRESSCTL' --socket $API lease --id c2 --policy none --guest adopt --netns /run/netns/mine"
daemon_stop TERM
check "SIGTERM leaves the link" in_ns mine ip link show eth0
check "purge" timeout 60 "$EGRESSD" -c $CONF --purge
check "takes it away" not in_ns mine ip link show eth0
check "  and leaves the namespace" test -e /run/netns/mine
facts_of mine >$W/mine.after
check "  as it was" diff $W/mine.before $W/mine.after
check "nothing has reached the collector, the host or the metadata service" \
	not served 'collector|hostsvc|metadata'
world_finish
