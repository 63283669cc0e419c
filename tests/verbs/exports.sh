#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Compare what liburxe.so exports with the symbols and versions of libibverbs and
# librdmacm, and with those that Debian's package says it has.
#
#   exports.sh LIBRARY LIST [PACKAGE]      LIST: symbol, tab, version ("-": none)

set -eu
library=$1 list=$2 package=${3-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

nm -D --defined-only --with-symbol-versions "$library" | awk '{ print $3 }' | sort >"$work/have"
awk -F'\t' '!/^#/ { print $2 == "-" ? $1 : $1 "@@" $2 }' "$list" | sort >"$work/want"
[ "$(wc -l <"$work/want")" -ge 170 ] || { echo "the list is too short" >&2; exit 1; }
if [ -n "$(comm -13 "$work/have" "$work/want")" ]; then
	echo "missing:" >&2
	comm -13 "$work/have" "$work/want" >&2
	exit 1
fi

# Nothing else may be taken over from the two libraries: those stay their own.
if comm -23 "$work/have" "$work/want" | grep -E '^_*(ibv_|rdma_|verbs_|mult_|mbps_)'; then
	echo "exported without being public" >&2
	exit 1
fi

# dpkg-gensymbols refuses those that are gone, and no more than mentions new ones.
if [ "$package" ]; then
	sed -n 's/^ \([^ ]*\) .*/\1/p' "$package" | sort >"$work/listed"
	nm -D --defined-only --with-symbol-versions "$library" | awk '$2 != "A" { print $3 }' |
		sed 's/@@/@/; /@/!s/$/@Base/' | sort >"$work/exported"
	if comm -23 "$work/exported" "$work/listed" | grep .; then
		echo "not in $package" >&2
		exit 1
	fi
fi

readelf -d "$library" >"$work/dynamic"
grep -q 'SONAME.*\[liburxe\.so\.0\]' "$work/dynamic" || { echo "wrong SONAME" >&2; exit 1; }
if grep -E 'NEEDED.*(libibverbs|librdmacm)' "$work/dynamic"; then
	echo "depends on rdma-core" >&2
	exit 1
fi
# libev defines functions of libevent: a program's own must not come behind them.
if grep -E 'NEEDED.*libev' "$work/dynamic"; then
	echo "puts libev in front of libevent" >&2
	exit 1
fi
# It brings libdbus and libsystemd along: loaded for a capture.
if grep -E 'NEEDED.*libpcap' "$work/dynamic"; then
	echo "has libpcap in every process" >&2
	exit 1
fi
