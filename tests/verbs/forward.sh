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
