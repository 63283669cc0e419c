# run inside ONE VM: perftest rxe-to-itself, then TCP/UDP loopback with qperf and iperf3.  Raw output on stdout.
# SPDX-License-Identifier: BSD-2-Clause
A=${A:-10.77.0.4}; ROUNDS=${ROUNDS:-2}
pt() { echo "#### $*"; "$@" > /tmp/srv.out 2>&1 & s=$!; sleep 1.2; timeout 60 "$@" $A 2>&1 | grep -vE '^$|^-+$'; wait $s; }
for m in ${MTUS:-1024 4096}; do
 [ $m = 4096 ] && { ip link set eth0 mtu 4200; sleep 1; }
 for r in $(seq $ROUNDS); do echo "######## round $r path mtu $m"; 
  for t in send write read; do pt ib_${t}_lat -d rxe0 -x 1 -F -m $m -s 8 -n 1000; done
  pt ib_send_lat -d rxe0 -x 1 -F -c UD -s 8 -n 1000
  pt ib_atomic_lat -d rxe0 -x 1 -F -n 500
  for t in send write read; do for sn in 64:3000 4096:1500 65536:200 1048576:15; do pt ib_${t}_bw -d rxe0 -x 1 -F -m $m -s ${sn%:*} -n ${sn#*:}; done; done
  echo "######## sockets round $r"
  qperf & q=$!; sleep 1
  for sz in 8; do echo "#### qperf -m $sz lat"; timeout 60 qperf -t 3 -m $sz $A tcp_lat udp_lat; done
  for sz in 64 4096 65536; do echo "#### qperf -m $sz bw"; timeout 60 qperf -t 3 -m $sz $A tcp_bw; done
  for sz in 64 1024 4096 32768; do echo "#### qperf -m $sz udp_bw"; timeout 60 qperf -t 3 -m $sz $A udp_bw; done
  kill $q; wait $q 2>/dev/null
  [ $m = 1024 ] || continue
  iperf3 -s -D -I /tmp/ip.pid; sleep 1
  echo "#### iperf3 tcp"; iperf3 -c $A -t 4 | tail -4
  echo "#### iperf3 udp -l 1024"; iperf3 -c $A -u -b 0 -l 1024 -t 3 | tail -4
  echo "#### iperf3 udp -l 4096"; iperf3 -c $A -u -b 0 -l 4096 -t 3 | tail -4
  kill $(tr -d '\0' < /tmp/ip.pid)
 done
done
ip link set eth0 mtu 1500
grep . /sys/class/infiniband/rxe0/ports/1/hw_counters/* | sed 's#.*/##'
