#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Calls that are never made, and those made in one place only. Comments and
# strings do not count.
cd "$(dirname "$0")/../.." || exit 1
export LC_ALL=C

never='system|popen|pthread_[a-z_]+|strcpy|strcat|stpcpy|sprintf|vsprintf|gets|atoi|atol|atoll|strtok|strtok_r|alloca|tmpnam|mktemp|tempnam|rand|srand|signal_r'
# Processes are made by the launcher; egressctl's exec becomes another program.
process='fork|vfork|posix_spawnp?|clone|execve?|execvp?e?|execlp?e?|fexecve|execveat'
process_in='^(netpool/launcher\.c|netpool/ctl/|netpool/cni/)'
bad=0

bare() { # the file without comments and strings, line numbers kept
	"${CC:-gcc}" -fpreprocessed -dD -E -w "$1" 2>/dev/null |
		awk '/^# [0-9]+ "/ { n = $2 - 1; next } { n++; print n ":" $0 }' |
		sed -E "s/\"([^\"\\\\]|\\\\.)*\"/\"\"/g"
}

for f in $(find netpool rules dnsguard audit -name '*.[ch]' | sort); do
	text=$(bare "$f")
	found=$(printf '%s\n' "$text" | grep -E "(^|[^A-Za-z0-9_.>])($never)[ \t]*\(")
	[[ $f =~ $process_in ]] ||
		found+=$'\n'$(printf '%s\n' "$text" |
			grep -E "(^|[^A-Za-z0-9_.>])($process)[ \t]*\(")
	found=$(printf '%s\n' "$found" | sed '/^$/d')
	[ -z "$found" ] && continue
	printf '%s\n' "$found" | sed "s|^|$f:|"
	bad=1
done
[ $bad -eq 0 ] || exit 1
echo "no forbidden call"
