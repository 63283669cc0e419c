#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# What the environment says is obeyed, or refused with one line on stderr: by the
# library with an empty list, by the launcher before the program starts. With a
# program that is linked with the real libibverbs.
#
#   environment.sh LAUNCHER LIST STATIC-PROGRAM LOADER PLAIN-LOADER LINKED-LIST

set -eu
launcher=$1 list=$2 static=$3 loaders=("$4" "$5") linked=$6
library=$(readlink -f "$(dirname "$launcher")/../verbs/liburxe.so.0")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset "${!URXE_@}"
# meson sets it for what it built; the plugin must be found by RUNPATH alone.
unset LD_LIBRARY_PATH
address=127.87.$(($$ / 256 % 256)).$(($$ % 256))

fail() {
	echo "FAILED: $*" >&2
	cat "$work/out" "$work/err" >&2
	exit 1
}

# run [VARIABLE=VALUE...] -- ARGUMENT...: the launcher with a list program
run() {
	local variables=()
	while [ "$1" != -- ]; do
		variables+=("$1")
		shift
	done
	shift
	env "${variables[@]}" "$launcher" "$@" >"$work/out" 2>"$work/err"
}

one_line() {
	[ "$(wc -l <"$work/err")" = 1 ] || fail "$*: not one line on stderr"
}

# The launcher ends with 2, starts nothing and says a line with the word $1.
declined() {
	local word=$1 status=0
	shift
	run "$@" || status=$?
	[ $status = 2 ] || fail "$*: exit status $status"
	[ ! -s "$work/out" ] || fail "$*: it ran"
	one_line "$@"
	grep -q -e "$word" "$work/err" || fail "$*: the line says nothing of $word"
}

refused() {
	declined "${1%%=*}\|device" "$@" -- run -- "$list"
	env LD_PRELOAD="$library" "$@" "$list" >"$work/out" 2>"$work/err" || fail "$*: exit status"
	[ "$(cat "$work/out")" = "0 devices" ] || fail "$*: there are devices"
	one_line "$@"
	grep -q "${1%%=*}\|device" "$work/err" || fail "$*: the line says nothing"
}

accepted() {
	local names=$1
	shift
	run "$@" -- run -- "$list" || fail "$*: exit status"
	[ "$(sed 1d "$work/out" | cut -d' ' -f1 | tr '\n' ' ')" = "$names " ] || fail "$*: not $names"
	[ ! -s "$work/err" ] || fail "$*: not silent"
}

accepted urxe0 URXE_NODE=$address
accepted urxe0 URXE_NODE=$address,::1 URXE_MODE=emu URXE_LOG=error URXE_RCVBUF=4M URXE_NO_GSO=1 URXE_EXPLAIN=1
accepted urxe0 URXE_NODE=$address URXE_FAULTS='seed=7;drop=1%' URXE_NO_GSO=0 URXE_RCVBUF=65536
accepted urxe0 URXE_NODE=lo
accepted urxe0 URXE_NODE=localhost
accepted urxe0 URXE_NODE= URXE_MODE= URXE_FAULTS=
accepted "rail0 rail1" "URXE_DEVICES=rail0=127.0.0.1;rail1=127.0.0.2,127.0.0.3"
accepted urxe0 URXE_NODE=$address/127.0.0.2,::1
accepted "hca0 hca1" "URXE_DEVICES=hca0=127.0.0.1/127.0.0.2;hca1=127.0.0.3"

accepted urxe0 URXE_NODE=$address URXE_PROFILE=strict
run -- devices --node $address --profile rxe || fail "devices --profile rxe"
grep -q '^urxe0  port 1 ACTIVE, 2.5 Gb/sec (1X SDR), profile rxe$' "$work/out" || fail "the profile isn't shown"

refused URXE_PROFILE=nothing
refused URXE_NODE=127.0.0
refused URXE_NODE=127.0.0.1,
refused URXE_NODE=192.0.2.77
refused URXE_NODE=no-such-host
refused URXE_MODE=software
refused URXE_LOG=loud
refused URXE_RCVBUF=lots
refused URXE_RCVBUF=0
refused URXE_RCVBUF=4G
refused URXE_RCVBUF=-1
refused URXE_NO_GSO=maybe
refused URXE_EXPLAIN=2
refused URXE_FAULTS=drop
refused URXE_FAULTS=drop=1
refused URXE_FAULTS=drop=1%/RC_NOTHING
refused URXE_DEVICES=rail0
refused "URXE_DEVICES=rail0=127.0.0.1;rail0=127.0.0.2"
refused "URXE_DEVICES=a/b=127.0.0.1"
refused "URXE_DEVICES=rail0=127.0.0.1;rail1=no"
refused URXE_NODE=127.0.0.1/
refused URXE_NODE=/127.0.0.1
refused URXE_NODE=127.0.0.1/8
refused URXE_NODE=127.0.0.1/192.0.2.77
refused URXE_NODE=127.0.0.1/127.0.0.2/127.0.0.3
refused URXE_NODE=127.0.0.1/127.0.0.2,127.0.0.1
refused URXE_NODE=lo/127.0.0.1
refused URXE_DEVICES=hca0=127.0.0.1/127.0.0.1
refused URXE_DEVICES=a=127.0.0.1 URXE_NODE=127.0.0.1

declined '"8"' URXE_NODE=127.0.0.1/8 -- run -- "$list"
declined '2 ports' URXE_NODE=127.0.0.1/127.0.0.2/127.0.0.3 -- run -- "$list"
declined 'other port' URXE_NODE=127.0.0.1/127.0.0.2,127.0.0.1 -- run -- "$list"

# What is wrong is said of a long value, too.
long=$(printf '127.0.0.1,%.0s' $(seq 1000))
declined 'is not a list of IP addresses' "URXE_NODE=$long" -- run -- "$list"
declined 'is not udp or shm' "URXE_LINK=$long" -- run -- "$list"
refused "URXE_DEVICES=$long"
declined '"127.0.0.1?x" is not a list' "URXE_NODE=127.0.0.1
x" -- run -- "$list"
refused "URXE_LINK=
shm"

# Two ports, each with its own table.
run -- devices --node "$address,127.0.0.1/127.0.0.2" || fail "devices with two ports"
sed 's/, .*//; s/  *RoCE.*//' "$work/out" >"$work/ports"
[ "$(cat "$work/ports")" = "urxe0  port 1 ACTIVE
    GID 0   $address
    GID 1   127.0.0.1
urxe0  port 2 ACTIVE
    GID 0   127.0.0.2" ] || fail "devices with two ports"

# A name misspelt doesn't stop anything.
run URXE_NODE=$address URXE_NOED=1 URXE_LOGLEVEL=info -- run -- "$list" || fail "unknown variables"
[ "$(head -n 1 "$work/out")" = "1 devices" ] || fail "unknown variables: no device"
one_line "unknown variables"
grep -q 'URXE_NOED\b' "$work/err" && grep -q 'URXE_LOGLEVEL\b' "$work/err" ||
	fail "unknown variables aren't named"
accepted urxe0 URXE_NODE=$address URXE_NOED=1 URXE_LOG=error

# Every node has a GUID of its own, always the same.
guid() {
	run "URXE_NODE=$1" -- run -- "$list"
	sed -n 2p "$work/out"
}
[ "$(guid 127.0.0.1)" = "$(guid 127.0.0.1)" ] || fail "the GUID changes"
[ "$(guid 127.0.0.1)" != "$(guid 127.0.0.2)" ] || fail "two nodes have the same GUID"

# Another process owns the address: the open fails and the line names it.
run -- run --node "$address" -- sh -c '"$1" -o && exec "$1" -o' sh "$list" || fail "open"
grep -q 'urxe0 open query_device=0 alloc_pd=yes dealloc_pd=0 close=0' "$work/out" || fail "open"
python3 - "$address" "$launcher" "$list" >"$work/out" 2>"$work/err" <<'EOF' || fail "two owners"
import socket, subprocess, sys
address, launcher, program = sys.argv[1:]
owner = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
owner.bind((address, 4791))
done = subprocess.run([launcher, "run", "--node", address, "--", program, "-o"],
                      capture_output=True, text=True)
assert done.stdout == "1 devices\nurxe0 open: Address already in use\n", done.stdout
assert address in done.stderr and done.stderr.count("\n") == 1, done.stderr
EOF

# hw never falls back to us.
if [ -z "$(ls /sys/class/infiniband 2>/dev/null)" ]; then
	run URXE_MODE=hw "URXE_NODE=$address" -- run -- "$list" || fail "hw"
	[ "$(cat "$work/out")" = "0 devices" ] || fail "hw has devices"
	[ "$(grep -c 'URXE_MODE=hw' "$work/err")" = 1 ] || fail "hw doesn't say why"
	! run URXE_MODE=hw -- devices || fail "devices of hw"
	[ "$(grep -c 'URXE_MODE=hw' "$work/err")" = 1 ] || fail "devices of hw doesn't say why"
	accepted urxe0 URXE_MODE=both "URXE_NODE=$address"
fi

# The launcher itself.
run -- --version && grep -q '^urxe [0-9]' "$work/out" || fail "--version"
run -- --help && grep -q -- '--faults' "$work/out" || fail "--help"
run -- run -h && grep -q -- '--faults' "$work/out" || fail "run -h"
run -- devices --node "$address" && grep -q '^urxe0 .*ACTIVE' "$work/out" || fail "devices"
grep -q "GID 0   $address  RoCE v2  lo" "$work/out" || fail "devices: no GID"
for arguments in "" "run" "run --node" "run --bad x" "run no-such-program-here" "fly" "devices x"; do
	# shellcheck disable=SC2086
	! run -- $arguments || fail "urxe $arguments succeeded"
	[ -s "$work/err" ] || fail "urxe $arguments: no message"
done
declined 192.0.2.77 -- run --node 192.0.2.77 -- "$list"
declined URXE_FAULTS -- run --faults drop=1 -- "$list"
declined '"1;dup' -- run --faults "drop=1;dup=1%" -- "$list"
declined "at its end: expected =RATE" -- devices --faults=drop
declined "urxe help faults" -- devices --faults=drop
declined '"EFOO)#3": expected an errno' -- run --faults "fail(EFOO)#3" -- "$list"
declined '"min)@2s": expected a unit' -- run --faults "dup=1%;down(1min)@2s" -- "$list"
declined "--node needs a value" -- run --node= -- "$list"
declined 192.0.2.77 -- devices --node 192.0.2.77

# Programs that ld.so preloads nothing for: static, of another class or machine, privileged.
declined static -- run "$static"
# ld.so itself, which has no interpreter either.
interpreter=$(readelf --program-headers "$list" | sed -n 's/.*interpreter: \(.*\)]$/\1/p')
run -- run --node "$address" "$interpreter" "$list" || fail "ld.so as the program"
grep -q urxe0 "$work/out" || fail "ld.so as the program: no device"
: >"$work/plain"
declined "executable file" -- run "$work/plain"
printf '#! %s -x\n' "$static" >"$work/script"
printf '\177ELF\1' | cat - <(tail -c +6 "$list") >"$work/class"
cp "$list" "$work/machine"
printf '\377' | dd of="$work/machine" bs=1 seek=18 conv=notrunc status=none
chmod +x "$work/script" "$work/class" "$work/machine"
declined static -- run "$work/script"
declined 32-bit -- run "$work/class"
declined "another machine" -- run "$work/machine"
if [ "$UID" = 0 ]; then
	for mode in 4755 2755; do
		rm -f "$work/privileged"
		cp "$list" "$work/privileged"
		chmod "$mode" "$work/privileged"
		run -- run --node "$address" "$work/privileged" || fail "our own setuid program"
		chown 65534:65534 "$work/privileged" # which takes the bits away
		chmod "$mode" "$work/privileged"
		declined setuid -- run "$work/privileged"
	done
else
	declined setuid -- run su --version
fi

# A folder that ld.so takes for two.
for name in "a b" a:b; do
	mkdir -p "$work/$name/scripts" "$work/$name/verbs"
	cp "$launcher" "$work/$name/scripts/urxe"
	cp "$library" "$work/$name/verbs/liburxe.so.0"
	beside=$launcher launcher=$work/$name/scripts/urxe
	declined ld.so -- run -- "$list"
	declined ld.so -- devices
	launcher=$beside
done
# One that isn't a library.
mkdir -p "$work/bad/scripts" "$work/bad/verbs"
cp "$launcher" "$work/bad/scripts/urxe"
echo "not a library" >"$work/bad/verbs/liburxe.so.0"
beside=$launcher launcher=$work/bad/scripts/urxe
declined liburxe -- run -- "$list"
launcher=$beside

# ends STATUS WHAT COMMAND...
ends() {
	local status=0
	run -- run "${@:3}" || status=$?
	[ $status = "$1" ] || fail "$2: exit status $status"
}

ends 7 "a status of its own" sh -c 'exit 7'
printf '#!/no/such/interpreter\n' >"$work/orphan"
chmod +x "$work/orphan"
ends 127 "a script without its interpreter" "$work/orphan"
grep -q 'orphan: its interpreter "/no/such/interpreter" ' "$work/err" || fail "a script without its interpreter: $(cat "$work/err")"
printf '#!/dev/null\n' >"$work/inert"
chmod +x "$work/inert"
ends 126 "a script whose interpreter isn't executable" "$work/inert"
grep -qx "urxe: $work/inert: Permission denied" "$work/err" || fail "a script whose interpreter isn't executable: $(cat "$work/err")"
run LD_PRELOAD=/also -- run --explain sh -c 'echo "$URXE_EXPLAIN $LD_PRELOAD"' || fail "--explain"
grep -qx "1 $library:/also" "$work/out" || fail "--explain, and what was preloaded before"
run -- run --pcap="$work/x-%p.pcap" --node "$address" -- "$list" -o || fail "--pcap"
[ -n "$(find "$work" -name 'x-*.pcap')" ] || fail "no capture"

# libpcap is in processes that capture, and its symbols are none of the program's.
open_device='
import ctypes, sys
verbs = ctypes.CDLL("libibverbs.so.1")
verbs.ibv_get_device_list.restype = ctypes.POINTER(ctypes.c_void_p)
verbs.ibv_open_device.restype = ctypes.c_void_p
assert verbs.ibv_open_device(ctypes.c_void_p(verbs.ibv_get_device_list(None)[0]))
assert ("libpcap" in open("/proc/self/maps").read()) == (sys.argv[1] == "yes")
assert not hasattr(ctypes.CDLL(None), "pcap_close")
'
run -- run --node "$address" -- python3 -c "$open_device" no || fail "libpcap without a capture"
run -- run --node "$address" --pcap "$work/y.pcap" -- python3 -c "$open_device" yes ||
	fail "libpcap for a capture"
# Where it isn't: an empty file is what ld.so finds first.
mkdir "$work/empty"
: >"$work/empty/libpcap.so.0.8"
: >"$work/empty/libpcap.so.1"
declined 'libpcap0\.8' LD_LIBRARY_PATH="$work/empty" -- run --pcap "$work/z.pcap" -- "$list"
LD_LIBRARY_PATH=$work/empty accepted urxe0 URXE_NODE=$address

# Programs that load the library by name.
for loader in "${loaders[@]}"; do
	run -- run --node "$address" -- "$loader" libibverbs.so.1 libibverbs.so \
		/no/such/folder/libibverbs.so.1 || fail "$loader"
	[ "$(grep -c urxe0 "$work/out")" = 3 ] || fail "$loader"
done

# A program that is linked with the library and has privileges which its user hasn't reads and writes no file that
# the user names. It takes root, and a build directory that another user can read.
privileged() {
	env URXE_NODE="$address" "$@" "$work/privileged" >"$work/out" 2>"$work/err"
}
cp "$linked" "$work/privileged"
if [ "$(id -u)" = 0 ] && chmod 755 "$work" && chown 65534 "$work/privileged" && chmod 4755 "$work/privileged" &&
	privileged && grep -q urxe0 "$work/out"; then
	install -d -o 65534 "$work/theirs"
	for value in URXE_PCAP="$work/theirs/a.pcap" URXE_PROFILE="$work/err" URXE_CHECK=suppressions="$work/err" \
		URXE_CALLS="$work/theirs/calls" URXE_STAT=1; do
		privileged "$value" || true
		grep -q "${value%%=*} isn't obeyed" "$work/err" && ! grep -q urxe0 "$work/out" || fail "privileged with $value"
		one_line "privileged with $value"
	done
	[ -z "$(ls "$work/theirs")" ] || fail "a privileged program has written a file"
fi
