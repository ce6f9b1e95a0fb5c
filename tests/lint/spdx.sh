#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Every source says its licence in one of its first two lines, and our C
# sources say next what the file is for.
cd "$(dirname "$0")/../.." || exit 1
bad=0 n=0
for f in Makefile tests/run-tests .ci/run \
	$(find netpool rules dnsguard audit tests -name '*.[ch]' -o -name '*.sh' -o -name '*.py' | sort); do
	[ -e "$f" ] || continue
	n=$((n + 1))
	head -n 2 "$f" | grep -q 'SPDX-License-Identifier: GPL-2.0-or-later' || {
		echo "$f: no SPDX line"
		bad=1
	}
	case $f in
	*.[ch]) sed -n 2p "$f" | grep -q '^/\*' || {
		echo "$f: no head that says what it is for"
		bad=1
	} ;;
	esac
done
[ $bad -eq 0 ] || exit 1
echo "$n files"
