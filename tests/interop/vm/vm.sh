#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# vm.sh - drive one rxe VM.
#   vm.sh start NAME [--tap IF [--netns NS] | --listen PORT | --connect PORT | --nonet]
#                    [--ip A/N] [--ip6 A/N] [--mac M] [--mtu N] [--mem MB] [--smp N] [--rdma rxe|none] [--kargs "..."] [--vmopts "..."] [--nowait]
#   vm.sh wait  NAME                     wait until the VM says it is ready
#   vm.sh exec  NAME [-t SEC] 'command'  run a shell command in the VM, print output, return its rc
#   vm.sh spawn NAME 'command'           run in background; prints a job id
#   vm.sh join  NAME ID [-t SEC]         wait for a spawned job, print its output
#   vm.sh push/pull: just use the shared folder  $WORK/run/NAME/share  (= /host in the VM)
#   vm.sh stop  NAME                     power off (falls back to killing that VM's own pid)
set -u
KIT=$(cd "$(dirname "$0")" && pwd); WORK=${WORK:-${XDG_CACHE_HOME:-$HOME/.cache}/rxe-vm}; IMG=${IMG:-$WORK/img}
cmd=${1:?}; NAME=${2:?}; shift 2
R=$WORK/run/$NAME; S=$R/share
alive() { [ -f $R/pid ] && kill -0 "$(cat $R/pid)" 2>/dev/null; }
do_wait() { # seconds
  local t0=$SECONDS lim=${1:-180}
  while [ ! -e $S/ready ]; do
    alive || { echo "VM $NAME died:"; tail -20 $R/console.log $R/qemu.log; return 1; }
    [ $((SECONDS-t0)) -gt $lim ] && { echo "VM $NAME: not ready after $lim s"; tail -20 $R/console.log; return 1; }
    sleep 0.1
  done
}
submit() { mkdir -p $S/q; local id; id=$(date +%s%N)$RANDOM; printf '%s\n' "$1" > $S/q/$id.tmp; mv $S/q/$id.tmp $S/q/$id.sh; echo $id; }
join() { # id, seconds
  local t0=$SECONDS
  while [ ! -e $S/q/$1.rc ]; do
    alive || { echo "VM $NAME died"; cat $S/q/$1.out 2>/dev/null; return 125; }
    [ $((SECONDS-t0)) -gt ${2:-600} ] && { cat $S/q/$1.out 2>/dev/null; echo "[vm.sh: timeout]"; return 124; }
    sleep 0.05
  done
  cat $S/q/$1.out; return $(cat $S/q/$1.rc)
}
case $cmd in
start)
  TAP= NS= LISTEN= CONNECT= IP= IP6= MAC=52:54:00:77:00:02 MTU= MEM=1024 SMP=2 RDMA=rxe KARGS= OPTS= WAIT=1 NONET=
  while [ $# -gt 0 ]; do case $1 in
    --tap) TAP=$2; shift 2;; --netns) NS=$2; shift 2;; --listen) LISTEN=$2; shift 2;; --connect) CONNECT=$2; shift 2;;
    --nonet) NONET=1; shift;;
    --ip) IP=$2; shift 2;; --ip6) IP6=$2; shift 2;; --mac) MAC=$2; shift 2;; --mtu) MTU=$2; shift 2;; --mem) MEM=$2; shift 2;;
    --smp) SMP=$2; shift 2;; --rdma) RDMA=$2; shift 2;; --kargs) KARGS=$2; shift 2;; --vmopts) OPTS=$2; shift 2;; --nowait) WAIT=; shift;;
    *) echo "bad option $1"; exit 2;; esac; done
  alive && { echo "VM $NAME already runs"; exit 1; }
  rm -rf $R; mkdir -p $S/q
  NET=()
  if [ -n "$TAP" ]; then NET=(-netdev tap,id=n0,ifname=$TAP,script=no,downscript=no)
  elif [ -n "$LISTEN" ]; then NET=(-netdev socket,id=n0,listen=127.0.0.1:$LISTEN)
  elif [ -n "$CONNECT" ]; then NET=(-netdev socket,id=n0,connect=127.0.0.1:$CONNECT); fi
  [ ${#NET[@]} -gt 0 ] && NET+=(-device virtio-net-pci,netdev=n0,mac=$MAC,romfile=)
  PRE=(); [ -n "$NS" ] && PRE=(ip netns exec $NS)
  A="console=ttyS0 quiet panic=-1 mitigations=off net.ifnames=0 tsc=reliable kit.name=$NAME kit.rdma=$RDMA"
  [ -n "$IP" ] && A="$A kit.ip=$IP"; [ -n "$IP6" ] && A="$A kit.ip6=$IP6"; [ -n "$MTU" ] && A="$A kit.mtu=$MTU"
  T0=$(date +%s.%N)
  "${PRE[@]}" qemu-system-x86_64 -accel tcg,thread=multi,tb-size=192 -M q35 -cpu max -smp $SMP -m $MEM -nodefaults -no-user-config \
    -display none -no-reboot -serial file:$R/console.log \
    -kernel $IMG/vmlinuz -initrd $IMG/initrd.img -append "$A $KARGS" \
    -drive if=none,id=d0,file=$IMG/rootfs.ext4,format=raw,snapshot=on,cache=unsafe -device virtio-blk-pci,drive=d0 \
    -virtfs local,path=$S,mount_tag=host,security_model=none \
    -device virtio-rng-pci "${NET[@]}" $OPTS > $R/qemu.log 2>&1 &
  echo $! > $R/pid
  if [ -n "$WAIT" ]; then do_wait || exit 1; echo "VM $NAME ready in $(echo "$(date +%s.%N) $T0" | awk '{printf "%.1f", $1-$2}') s (pid $(cat $R/pid))"; fi ;;
wait) do_wait "$@" ;;
exec) T=600; [ "${1:-}" = -t ] && { T=$2; shift 2; }; id=$(submit "$1"); join $id $T ;;
spawn) submit "$1" ;;
join) id=$1; T=600; [ "${2:-}" = -t ] && T=$3; join $id $T ;;
stop)
  alive || exit 0
  touch $S/poweroff
  for i in $(seq 80); do alive || exit 0; sleep 0.1; done
  kill "$(cat $R/pid)" ;;
*) echo "bad command"; exit 2;;
esac
