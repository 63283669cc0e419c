#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Whose librdmacm a program gets, by mode and by what can be opened, and what is said of it.
#
#   modes.sh LAUNCHER LIST MANAGES REAL-MANAGER

set -eu
launcher=$1 list=$2 manages=$3 real_manager=$(readlink -f "$4")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset "${!URXE_@}" LD_LIBRARY_PATH
address=127.89.$(($$ / 256 % 256)).$(($$ % 256))
ln -s "$real_manager" "$work/librdmacm.so.1"

fail() {
	echo "FAILED: $*" >&2
	cat "$work/out" "$work/err" >&2
	exit 1
}

# With the library that stands for the real one in its place.
through() {
	URXE_MODE=$1 LD_LIBRARY_PATH=$work "$launcher" run --node "$address" -- "${@:2}" \
		>"$work/out" 2>"$work/err" || fail "$*: exit status"
}

real='real: rdma_create_event_channel
real: rdma_create_id
real: rdma_destroy_id
real: rdma_destroy_event_channel
done'

expect() {
	[ "$(cat "$work/out")" = "$1" ] || fail "not $1"
}

quiet() {
	[ ! -s "$work/err" ] || fail "not silent"
}

through emu "$manages"
expect done
quiet
through both "$manages"
expect done
quiet

# No hardware is said in the same words to programs of verbs and of rdma_cm.
if [ -z "$(ls /sys/class/infiniband 2>/dev/null)" ]; then
	words() {
		sed 's/^urxe\[[0-9]*\] //' "$work/err"
	}
	through hw "$list"
	said=$(words)
	[ "$(wc -l <"$work/err")" = 1 ] || fail "hw says nothing"
	through hw "$manages"
	expect "$real"
	[ "$(words)" = "$said" ] || fail "hw: not $said"
	URXE_MODE=hw "$launcher" run -- "$manages" >"$work/out" 2>"$work/err" || fail "hw: exit status"
	grep -q '^rdma_create_event_channel: ' "$work/out" || fail "hw has an event channel"
	[ "$(words | head -n 1)" = "$said" ] || fail "hw: not $said"
fi

# In mode both the kernel's names may be those of real devices.
for expected in emu:uverbs0 both:urxe0; do
	through "${expected%:*}" ls /dev/infiniband
	grep -qx "${expected#*:}" "$work/out" || fail "no ${expected#*:}"
done

# Another program has the address: our device doesn't open.
coproc owner {
	exec python3 -c 'import socket, sys
owner = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
owner.bind((sys.argv[1], 4791))
print("ready", flush=True)
sys.stdin.read()' "$address"
}
read -r _ <&"${owner[0]}"
through emu "$manages"
expect done
through both "$manages"
expect "$real"
grep -q 'real devices' "$work/err" || fail "both doesn't say what it does"
