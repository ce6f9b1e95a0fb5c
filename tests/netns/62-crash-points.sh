#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# timeout: 2400
# Killed at every step of everything it does to the kernel and its files: one
# role alone, and all of them. What comes next converges to what is there
# without a kill, and a purge leaves nothing. tests/lib/crash.py says how.
#
# ALL=1: also at the steps that only repeat earlier ones.
# OPS="WORD...": operations with such a word in their names, "" for all of them.
# Without it the first start, and lease and release in mode veth.
. "${0%/*}/../lib/world.sh"
world_enter "$0" "$@"
need "$PYTHON" nft
[ -x $B/fault/egressd ] || die "$B/fault/egressd is not built (make fault-bin)"
[ -r /proc/net/nf_conntrack ] ||
	skip "kernel lacks /proc/net/nf_conntrack, by which flows are counted"
[ -c /dev/net/tun ] || skip "kernel lacks /dev/net/tun"
check "the product has none of the points" \
	not grep -q EGRESSD_FAULT $B/egressd
world_links
world_policies
world_conf pool.slots_per_gateway=2 pool.slots=4 pool.armed=2
: >$DAEMON_LOG
$PYTHON $WORLD_LIB/crash.py $CONF $B/fault/egressd ${OPS-first veth} | tee $W/crash.out
st=${PIPESTATUS[0]}
check "$(tail -n 1 $W/crash.out)" test $st -eq 0
[ $st -ne 0 ] || say "$(tail -n 1 $W/crash.out)"
exit $((WORLD_FAILED != 0))
