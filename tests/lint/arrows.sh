#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Who may include whom. One line a folder: what stands before the colon may
# include headers that begin with what stands after it, and nothing else of
# ours. The longest matching line counts. check.c and doctor.c are the
# exceptions of ctl: they check files and the host without a daemon, so they
# need the parsers and the preflight the daemon has. Third-party headers: one line a
# library, the only places that may include it, and no header ever.
cd "$(dirname "$0")/../.." || exit 1
export LC_ALL=C

arrows='
netpool/base/: netpool/base/
netpool/ctl/: netpool/base/ netpool/ctl/
netpool/ctl/check.c: netpool/base/ netpool/ctl/ netpool/conf\.h rules/(parse|canon)\.h
netpool/ctl/doctor.c: netpool/base/ netpool/ctl/ netpool/(conf|launcher|main_probe)\.h
netpool/cni/: netpool/base/ netpool/cni/
netpool/pool: netpool/base/ netpool/[a-z_]*\.h
netpool/main.c: netpool/ rules/ dnsguard/ audit/
netpool/main_: netpool/base/ netpool/[a-z_]*\.h rules/
netpool/api: netpool/base/ netpool/[a-z_]*\.h rules/(parse|policy|canon)\.h
netpool/: netpool/base/ netpool/[a-z_]*\.h
rules/allowlist/: netpool/base/ rules/
rules/: netpool/base/ rules/[a-z_]*\.h
dnsguard/: netpool/base/ rules/policy\.h dnsguard/
audit/: netpool/base/ audit/
'
libraries='
libnftnl/: rules/
libmnl/: rules/ netpool/ audit/
netlink/(addr|attr|cache|errno|msg|netlink|route|socket|types|utils|handlers|list|object): netpool/
ldns/: dnsguard/
pcap: audit/
ini\.h: netpool/base/ini.c
event2/: netpool/base/loop.c
microhttpd: netpool/
jansson: netpool/ rules/allowlist/ audit/
curl/: netpool/ctl/ netpool/cni/
cap-ng: netpool/
seccomp: netpool/
nettle/: netpool/base/ netpool/ audit/
'
bad=0
say() { echo "$*"; bad=$((bad + 1)); }

sources() { find netpool rules dnsguard audit -name '*.[ch]' 2>/dev/null | sort; }

for f in $(sources); do
	may=$(printf '%s' "$arrows" | awk -v f="$f" -F': ' 'length($1) &&
		index(f, $1) == 1 && length($1) > n { n = length($1); m = $2 }
		END { print m }')
	[ -n "$may" ] || { say "$f: lies where no arrow begins"; continue; }
	pattern="^($(echo "$may" | sed 's/ /|/g'))"
	sed -n 's/^#[ \t]*include[ \t]*"\([^"]*\)".*/\1/p' "$f" | while read -r i; do
		[[ $i =~ $pattern ]] || echo "$f: may not include $i (only $may)"
	done
done >"${tmp:=$(mktemp)}"
[ -s "$tmp" ] && { cat "$tmp"; bad=1; }
rm -f "$tmp"

while IFS= read -r row; do
	[ -n "$row" ] || continue
	lib=${row%%: *}
	places=${row#*: }
	while IFS=: read -r f _; do
		[ -n "$f" ] || continue
		case $f in *.h) say "$f: a third-party header (<$lib>) inside one of ours" ;; esac
		ok=
		for p in $places; do
			case $f in "$p"*) ok=1 ;; esac
		done
		[ -n "$ok" ] || say "$f: <$lib> belongs to $places only"
	done < <(sources | xargs -r grep -HE "^#[ \t]*include[ \t]*<$lib" /dev/null)
done <<<"$libraries"

[ $bad -eq 0 ] || exit 1
echo "$(sources | wc -l) files obey the arrows"
