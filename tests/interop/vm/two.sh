#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# two.sh - TWO rxe VMs joined by a private L2 wire (QEMU socket netdev on loopback).
#   two.sh up | down
#   two.sh a 'cmd'       run in VM A (10.77.0.1, fd77::1)        two.sh b 'cmd'   in VM B (10.77.0.2, fd77::2)
#   two.sh pair 'serverA' 'clientB'    start serverA in A, (DELAY=1.5 s) then clientB in B, wait for both
#   two.sh cap OUT.pcap 'serverA' 'clientB' ['tcpdump filter']   same, capturing on A's eth0
# Environment: MTU (1500), PORT (17791), PA/PB (name prefix)
set -u
KIT=$(cd "$(dirname "$0")" && pwd); export WORK=${WORK:-${XDG_CACHE_HOME:-$HOME/.cache}/rxe-vm}
A=${A:-va} B=${B:-vb} PORT=${PORT:-17791} MTU=${MTU:-1500}
c=${1:?}; shift
V=$KIT/vm.sh
pair() { local ia ib r; ia=$($V spawn $A "$1"); sleep ${DELAY:-1.5}; ib=$($V spawn $B "$2"); 
  echo "--- B: $2"; $V join $B $ib -t ${T:-60}; r=$?; echo "[B rc $r]"; echo "--- A: $1"; $V join $A $ia -t ${TA:-15}; echo "[A rc $?]"; return $r; }
case $c in
up) $V start $A --listen $PORT --ip 10.77.0.1/24 --ip6 fd77::1/64 --mac 52:54:00:77:00:01 --mtu $MTU --nowait "$@"; sleep 1
    $V start $B --connect $PORT --ip 10.77.0.2/24 --ip6 fd77::2/64 --mac 52:54:00:77:00:02 --mtu $MTU "$@"; $V wait $A ;;
a) $V exec $A "$@" ;; b) $V exec $B "$@" ;;
pair) pair "$@" ;;
cap) f=$1; F=${3:-}; : "${4:-}"; filt=${4:-udp port 4791}
   # tcpdump in A, written to the share
   tid=$($V spawn $A "tcpdump -i eth0 -s 0 -U --immediate-mode -B 16384 -w /host/cap.pcap '$filt' & echo \$! > /tmp/cap.pid; wait"); sleep 1.2
   pair "$2" "$3"; r=$?; sleep 0.7
   $V exec $A 'kill -INT $(cat /tmp/cap.pid)'; $V join $A $tid -t 10
   cp $WORK/run/$A/share/cap.pcap "$f"; ls -la "$f"; exit $r ;;
down) $V stop $B; $V stop $A ;;
esac
