#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Installs what building and testing need and is not there yet; `make deps`.
# With --bench as first argument, what `make bench` compares with, too.
# The one list of Debian packages: `tests/deps.sh [--bench] --list` prints it.
set -u
export PATH=$PATH:/usr/sbin:/sbin

build="make gcc libc6-dev pkg-config libnftnl-dev libmnl-dev libnl-3-dev
	libnl-route-3-dev libldns-dev libpcap-dev libinih-dev libevent-dev
	libmicrohttpd-dev libjansson-dev libcap-ng-dev libseccomp-dev
	nettle-dev libcurl4-gnutls-dev"
test="libcmocka-dev iproute2 util-linux procps nftables unbound python3
	openssl curl tcpdump tshark cppcheck"
bench="containernetworking-plugins"

# Another package may do the same job; then it is not asked for.
instead_of() {
	case $1 in
	libcurl4-gnutls-dev) echo "libcurl4-openssl-dev libcurl4-nss-dev" ;;
	gcc) echo clang ;;
	esac
}

installed() {
	[ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

there() {
	local p
	for p in "$1" $(instead_of "$1"); do
		installed "$p" && return 0
	done
	return 1
}

wanted="$build $test"
if [ "${1:-}" = --bench ]; then
	wanted="$wanted $bench"
	shift
fi
if [ "${1:-}" = --list ]; then
	printf '%s\n' $wanted
	exit 0
fi

missing=
for p in $wanted; do
	there "$p" || missing="$missing $p"
done
[ -z "$missing" ] && exit 0
if ! command -v apt-get >/dev/null; then
	echo "deps: this is no Debian; what these packages hold is needed:$missing" >&2
	exit 0
fi

as_root=
if [ "$(id -u)" -ne 0 ]; then
	as_root=sudo
	command -v sudo >/dev/null || {
		echo "deps: needs root or sudo to install:$missing" >&2
		exit 1
	}
fi
echo "installing:$missing"
# unbound's package would start a resolver of the machine's own: it is only
# needed as a program here.
policy=/usr/sbin/policy-rc.d
made=
if [ ! -e $policy ] && [[ $missing == *" unbound"* ]]; then
	printf '#!/bin/sh\nexit 101\n' | $as_root tee $policy >/dev/null &&
		$as_root chmod 755 $policy && made=1
fi
log=$(mktemp)
$as_root sh -c "DEBIAN_FRONTEND=noninteractive; export DEBIAN_FRONTEND
	apt-get update && apt-get install -y --no-install-recommends $missing" \
	>"$log" 2>&1
st=$?
[ -z "$made" ] || $as_root rm -f $policy
if [[ $missing == *" unbound"* ]] && command -v systemctl >/dev/null; then
	$as_root systemctl disable unbound >/dev/null 2>&1
fi
[ $st -eq 0 ] || { tail -n 20 "$log"; echo "deps: apt-get failed" >&2; }
rm -f "$log"
exit $st
