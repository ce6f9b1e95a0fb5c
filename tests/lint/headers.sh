#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Every header of ours compiles by itself, twice in a row.
cd "$(dirname "$0")/../.." || exit 1
bad=0 n=0
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
for h in $(find netpool rules dnsguard audit -name '*.h' | sort); do
	n=$((n + 1))
	printf '#include "%s"\n#include "%s"\n' "$h" "$h" >"$tmp/h.c"
	${CC:-gcc} -std=gnu11 -I. -D_GNU_SOURCE -Wall -Wextra -Werror -Wundef \
		-fsyntax-only "$tmp/h.c" || {
		echo "$h: does not stand by itself"
		bad=1
	}
done
[ $bad -eq 0 ] || exit 1
echo "$n headers stand by themselves"
