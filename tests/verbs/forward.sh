#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Objects of the real library go to it untouched: with a phantom rxe0 of the
# real provider, alone (hw) and beside ours (both).
#
#   forward.sh LAUNCHER LIST PHANTOM      exit status 77: this host has no rxe provider

set -eu
launcher=$1 list=$2 phantom=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset "${!URXE_@}"
export URXE_NODE=127.88.$(($$ / 256 % 256)).$(($$ % 256))
export SYSFS_PATH=$work/sys

# Device number 1:3 is /dev/null.
mkdir -p "$work/sys/class/infiniband_verbs/uverbs0" "$work/sys/class/infiniband/rxe0"
echo 6 >"$work/sys/class/infiniband_verbs/abi_version"
echo rxe0 >"$work/sys/class/infiniband_verbs/uverbs0/ibdev"
echo 1 >"$work/sys/class/infiniband_verbs/uverbs0/abi_version"
echo 1:3 >"$work/sys/class/infiniband_verbs/uverbs0/dev"
echo "1: CA" >"$work/sys/class/infiniband/rxe0/node_type"
echo 5054:00ff:fe77:0003 >"$work/sys/class/infiniband/rxe0/node_guid"

used='open query_device=0 alloc_pd=yes dealloc_pd=0 close=0'

expect() {
	if [ "$(cat "$work/out")" != "$1" ]; then
		echo "FAILED: not \"$1\":" >&2
		cat "$work/out" "$work/err" >&2
		exit 1
	fi
}

# Without us: is there a provider to forward to?
LD_PRELOAD=$phantom "$list" -o >"$work/out" 2>"$work/err" || true
grep -q rxe0 "$work/out" || exit 77

through() {
	URXE_MODE=$1 LD_PRELOAD=$phantom "$launcher" run -- "${@:2}" >"$work/out" 2>"$work/err"
}
through hw "$list" -o
expect "1 devices
rxe0 $used"
through both "$list" -o
expect "2 devices
urxe0 $used
rxe0 $used"
through emu "$list" -o
expect "1 devices
urxe0 $used"

# A program that reads what libibverbs keeps private of its objects.
if command -v ibv_devinfo >/dev/null; then
	through both ibv_devinfo -v || true
	grep hca_id "$work/out" >"$work/ids"
	mv "$work/ids" "$work/out"
	expect "hca_id:	urxe0
hca_id:	rxe0"
fi

# What `urxe devices` says of a real device whose table of GIDs has holes. The kernel's
# files are made up in a mount namespace of our own, where there may be one.
real=$work/class/infiniband/rxe0/ports/1
mkdir -p "$real/gids" "$real/gid_attrs/types" "$real/gid_attrs/ndevs"
echo "4: ACTIVE" >"$real/state"
echo "25 Gb/sec (4X)" >"$real/rate"
gid() {
	echo "$2" >"$real/gids/$1"
	echo "${3-}" >"$real/gid_attrs/types/$1"
	echo "${4-}" >"$real/gid_attrs/ndevs/$1"
}
gid 0 fe80:0000:0000:0000:5054:00ff:fe77:0003 "RoCE v2" eth7
gid 1 0000:0000:0000:0000:0000:0000:0000:0000
gid 2 0000:0000:0000:0000:0000:ffff:c0a8:0a01 "RoCE v2" eth7
gid 3 0000:0000:0000:0000:0000:0000:0000:0000
if ! unshare --mount --map-root-user true 2>"$work/err"; then
	echo "no mount namespace, \"urxe devices\" isn't looked at: $(cat "$work/err")" >&2
	exit 0
fi
URXE_MODE=both unshare --mount --map-root-user sh -c \
	'mount --bind "$1/class" /sys/class && "$2" devices' sh "$work" "$launcher" \
	>"$work/out" 2>"$work/err"
expect "rxe0  port 1 ACTIVE, 25 Gb/sec (4X)
    GID 0   fe80::5054:ff:fe77:3  RoCE v2  eth7
    GID 2   192.168.10.1  RoCE v2  eth7
urxe0  port 1 ACTIVE, 100 Gb/sec (4X EDR)
    GID 0   $URXE_NODE  RoCE v2  lo"
