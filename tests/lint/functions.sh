#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The budget of a function: none over 80 lines, median at most 20, nine of ten
# at most 60, counted from the brace in column 0 to its end.
cd "$(dirname "$0")/../.." || exit 1
export LC_ALL=C
find netpool rules dnsguard audit -name '*.c' | sort | while read -r f; do
	awk -v f="$f" '/^[{]/ { b = NR } /^[}]/ { if (b) print NR - b, f ":" b; b = 0 }' "$f"
done | sort -n | awk '
	{ n++; len[n] = $1; if ($1 > 80) { print $2 ": " $1 " lines, over 80"; bad = 1 } }
	END {
		if (!n) { print "no functions found"; exit 1 }
		m = len[int((n + 1) / 2)]; p = len[int(n * 0.9 + 0.999)]
		if (m > 20) { print "median " m " lines, over 20"; bad = 1 }
		if (p > 60) { print "p90 " p " lines, over 60"; bad = 1 }
		printf "%d functions, median %d lines, p90 %d, longest %d\n", n, m, p, len[n]
		exit bad }'
