#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# one.sh - ONE rxe VM on a tap device inside its own host network namespace.
#   one.sh up            namespace $NS (default rxens), tap $TAP: host 10.77.0.1/24 fd77::1/64, VM 10.77.0.2/24 fd77::2/64
#   one.sh vm  'cmd'     run cmd in the VM
#   one.sh host 'cmd'    run cmd on the host inside the namespace (bind UDP 4791 on 10.77.0.1 there)
#   one.sh both 'vmcmd' 'hostcmd'   start vmcmd in the VM, then hostcmd on the host, wait for both
#   one.sh rboth 'hostcmd' 'vmcmd'  the other way round
#   one.sh cap FILE.pcap 'cmd...'   = tcpdump on the tap while running  one.sh cmd...
#   one.sh down
# Environment: MTU=1500 (e.g. 4200 to let the RoCE mtu be 4096), NAME, NS, TAP
set -u
KIT=$(cd "$(dirname "$0")" && pwd); export WORK=${WORK:-${XDG_CACHE_HOME:-$HOME/.cache}/rxe-vm}
NAME=${NAME:-one} NS=${NS:-rxens} TAP=${TAP:-rxetap0} MTU=${MTU:-1500}
c=${1:?}; shift
case $c in
up)
  ip netns list | grep -qw $NS || ip netns add $NS
  ip -n $NS link set lo up
  ip -n $NS tuntap add dev $TAP mode tap 2>/dev/null
  ip netns exec $NS sysctl -qw net.ipv6.conf.$TAP.accept_dad=0 net.ipv6.conf.$TAP.accept_ra=0 2>/dev/null
  ip -n $NS link set $TAP address 52:54:00:77:00:01 mtu $MTU up
  ip -n $NS addr add 10.77.0.1/24 dev $TAP 2>/dev/null; ip -n $NS -6 addr add fd77::1/64 dev $TAP nodad 2>/dev/null
  ip -n $NS route add 224.0.0.0/4 dev $TAP 2>/dev/null
  $KIT/vm.sh start $NAME --tap $TAP --netns $NS --ip 10.77.0.2/24 --ip6 fd77::2/64 --mac 52:54:00:77:00:02 --mtu $MTU "$@" ;;
vm) $KIT/vm.sh exec $NAME "$@" ;;
host) ip netns exec $NS bash -c "$1" ;;
both) id=$($KIT/vm.sh spawn $NAME "$1"); sleep ${DELAY:-2}; ip netns exec $NS bash -c "$2"; r=$?; echo "--- VM:"; $KIT/vm.sh join $NAME $id -t 60; exit $r ;;
rboth) ip netns exec $NS bash -c "$1" & h=$!; sleep ${DELAY:-1}; $KIT/vm.sh exec $NAME -t 60 "$2"; r=$?; wait $h; exit $r ;;   # host first, then VM
cap) f=$1; shift; ip netns exec $NS tcpdump -i $TAP -s 0 -U --immediate-mode -w "$f" 'udp port 4791' 2>/dev/null & tp=$!; sleep 1
  "$0" "$@"; r=$?; sleep 1; kill $tp; wait $tp 2>/dev/null; exit $r ;;
down) $KIT/vm.sh stop $NAME; ip -n $NS link del $TAP 2>/dev/null; ip netns del $NS 2>/dev/null ;;
esac
