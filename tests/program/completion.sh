#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# What bash would offer of urxe's command line, by urxe/completion.bash.
#
#   completion.sh PROGRAM COMPLETION

set -u
program=$(readlink -f "$1")
# shellcheck source=/dev/null
. "$2"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
mkdir folder
touch one.pcap one.pcap.faults two.pcapng other.txt
failed=0

# words WORD...: the command line, whose last word is being completed.
words() {
	COMP_WORDS=("$program" "$@")
	COMP_CWORD=$#
	_urxe
}

# offers "EXPECTED..." WORD...: exactly these, in any order.
offers() {
	local expected=$1 got
	shift
	words "$@"
	got=$(printf '%s\n' "${COMPREPLY[@]}" | sort | tr '\n' ' ')
	# shellcheck disable=SC2086
	[ "$got" = "$(printf '%s\n' $expected | sort | tr '\n' ' ')" ] || {
		echo "FAILED: urxe $*: \"$got\" and not \"$expected\"" >&2
		failed=1
	}
}

# includes "EXPECTED..." WORD...: among others.
includes() {
	local expected=$1 word
	shift
	words "$@"
	for word in $expected; do
		[[ " ${COMPREPLY[*]} " == *" $word "* ]] || {
			echo "FAILED: urxe $*: \"${COMPREPLY[*]}\" without $word" >&2
			failed=1
		}
	done
}

includes "run ctl devices profiles explain ps top stat trace help --help --version" ""
offers "devices" de
offers "explain" ex
offers "" list # the program's own command
offers "--version" --v
offers "--node" run --no
includes "--node --pcap --faults --explain --check --help" run --
includes "--node --faults" devices -
includes "--list --markdown" explain --
includes "cx5 irdma rxe strict" profiles ""
offers "irdma" profiles irdm
offers "table diagram svg json" trace --format ""
offers "svg" trace --format = s

# Nodes: the last address of a list, behind the option or its "=".
includes "127.0.0.1 127.0.0.2 localhost lo" run --node ""
offers "127.0.0.1,localhost" run --node 127.0.0.1,loc
offers "127.0.0.1/localhost" run --node 127.0.0.1/loc
offers "localhost" devices --node = loc

offers "drop= drop# dup= dup# delay( down(" run --faults d
offers "fail= fail# fail(" run --faults fa
offers "drop= drop#" run --faults = dr
words run --faults "'seed=7;drop=1%;du"
[ "${COMPREPLY[*]}" = "seed=7;drop=1%;dup= seed=7;drop=1%;dup#" ] || {
	echo "FAILED: faults: ${COMPREPLY[*]}" >&2
	failed=1
}
offers "drop=1%/RC_ACKNOWLEDGE" run --faults drop=1%/RC_ACK
offers "drop#1/CM_RTU" run --faults drop#1/CM_RT
offers "fail(EIO)#1/ibv_destroy_qp" run --faults "fail(EIO)#1/ibv_destroy_q"
offers "late(1s)#1/RECV" run --faults "late(1s)#1/REC"
offers "connection(ROUTE_ERROR" run --faults "connection(RO"
offers "reject#1/CM_REQ reject#1/CM_REP" run --faults "reject#1/"
offers "drop=1%;complete(RETRY_EXC_ERR" run --faults "drop=1%;complete(RETRY"
offers "event(PORT_ERR event(PORT_ACTIVE" run --faults "event(PORT"
offers "reject(NO_QP reject(NO_RESOURCES" run --faults "reject(NO"
offers "one.pcap two.pcapng folder" run --pcap ""
words run --pcap o
offers "one.pcap" run --pcap o
offers "one.pcap two.pcapng folder" trace ""
offers "diagram" trace --format d

# The program, then its arguments, which are left to the program's completion.
includes "mktemp" run mkte
includes "mktemp" run --node 127.0.0.1 --explain mkte
includes "mktemp" stat --json mkte
includes "mktemp" run --node = 127.0.0.1 -- mkte
includes "mktemp" run --check mkte
includes "mktemp" run --check = exit = 1 mkte
includes "mktemp" run --link shm mkte
includes "mktemp" run --faults drop = 1% --link = shm mkte
offers "--node" run --link shm --no
offers "--node" run --link = shm --no
offers "--node" run --check --no
offers "--node" run --check = exit = 1 --no
offers "--node" run --check = json = file,no-leaks --no
offers "exit=" run --check = ex
offers "order,json=" run --check = order,js
offers "" run --check = exit = mkte
offers "udp shm" run --link = ""
offers "" run --node 127.0.0.1 ls --no
offers "" run -- ls --no
offers "" run ls --node ""

includes "0x2101 REMOTE_KEY_UNKNOWN" explain ""
offers "REMOTE_KEY_UNKNOWN" explain 0x2101 REMOTE_KEY_U
includes "mktemp" fuzz --timeout 3 --only calls mkte
offers "" fuzz --timeout ""
offers "folder" fuzz --output ""
offers "" trace --qp ""
offers "" top -n ""
includes "calls packets ibv_reg_mr" fuzz --only ""
offers "calls,rdma_connect" fuzz --only calls,rdma_conn
includes "faults log explain" ctl 1 ""
includes "none drop= drop#" ctl 1 faults ""
offers "debug" ctl 1 log d
offers "on off" ctl 1 explain ""
includes "run faults urxe.7" help ""
offers "urxe-faults.7" help urxe-f
offers "faults" help fa
complete -p urxe >/dev/null || failed=1
exit $failed
