#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# golden.sh [REGEX] - run the wire scenarios on the two VMs (two.sh up first), one pcap each in $OUT/pcap, and an index.
set -u
KIT=$(cd "$(dirname "$0")" && pwd); export WORK=${WORK:-${XDG_CACHE_HOME:-$HOME/.cache}/rxe-vm}; OUT=${OUT:-$WORK/out}
P=$OUT/pcap; L=$OUT/pcap-logs; mkdir -p $P $L $OUT/index.d
RE=${1:-.}

cp $WORK/bin/* $WORK/run/va/share/ 2>/dev/null;  cp $WORK/bin/* $WORK/run/vb/share/ 2>/dev/null
N=0
sc() { # name note server client [filter]
  local n=$1 note=$2 s=$3 c=$4 f=${5:-udp port 4791}; N=$((N+1))
  [[ $n =~ $RE ]] || return
  $KIT/two.sh cap $P/$n.pcap "$s" "$c" "$f" > $L/$n.log 2>&1; local r=$?
  { printf '%s\n  note   : %s\n  A(srv 10.77.0.1): %s\n  B(cli 10.77.0.2): %s\n  filter : %s   client rc %s   %s bytes, %s packets\n' "$n.pcap" "$note" "$s" "$c" "$f" $r "$(stat -c %s $P/$n.pcap)" "$(tcpdump -nr $P/$n.pcap 2>/dev/null | wc -l)"; } > $OUT/index.d/$n
  echo "$n rc=$r $(stat -c %s $P/$n.pcap) bytes $(tcpdump -nr $P/$n.pcap 2>/dev/null | wc -l) pkts"
}
D='-d rxe0'; G='-d rxe0 -g 1'; X='-d rxe0 -x 1 -F'; X6='-d rxe0 -x 2 -F'; a=10.77.0.1; a6=fd77::1
# ---- rdma-core examples
sc rc_pingpong_s64      "RC SEND_ONLY both ways + ACK; IPv4 GID"  "ibv_rc_pingpong $G -m 1024 -s 64 -n 10"   "ibv_rc_pingpong $G -m 1024 -s 64 -n 10 $a"
sc rc_pingpong_s5000    "RC SEND FIRST/MIDDLE/LAST, path mtu 1024, 5000 bytes = 5 packets"  "ibv_rc_pingpong $G -m 1024 -s 5000 -n 10"   "ibv_rc_pingpong $G -m 1024 -s 5000 -n 10 $a"
sc rc_pingpong_s5000_mtu256 "same with path mtu 256 (20 packets per message)"  "ibv_rc_pingpong $G -m 256 -s 5000 -n 4"   "ibv_rc_pingpong $G -m 256 -s 5000 -n 4 $a"
sc rc_pingpong_events   "RC, completion events (-e)"  "ibv_rc_pingpong $G -m 1024 -s 64 -n 10 -e"   "ibv_rc_pingpong $G -m 1024 -s 64 -n 10 -e $a"
sc rc_pingpong_ipv6     "RC over IPv6 GID (gid index 2), 2500 bytes"  "ibv_rc_pingpong $D -g 2 -m 1024 -s 2500 -n 5"   "ibv_rc_pingpong $D -g 2 -m 1024 -s 2500 -n 5 $a"
sc rc_pingpong_linklocal "RC over the link-local GID (gid index 0 = fe80::<eui64 of mac>)"  "ibv_rc_pingpong $D -g 0 -m 1024 -s 100 -n 5"   "ibv_rc_pingpong $D -g 0 -m 1024 -s 100 -n 5 $a"
sc uc_pingpong_s64      "UC SEND_ONLY" "ibv_uc_pingpong $G -m 1024 -s 64 -n 10"   "ibv_uc_pingpong $G -m 1024 -s 64 -n 10 $a"
sc uc_pingpong_s5000    "UC SEND FIRST/MIDDLE/LAST" "ibv_uc_pingpong $G -m 1024 -s 5000 -n 5"   "ibv_uc_pingpong $G -m 1024 -s 5000 -n 5 $a"
sc ud_pingpong          "UD SEND_ONLY (DETH, qkey 0x11111111)" "ibv_ud_pingpong $G -s 64 -n 10"   "ibv_ud_pingpong $G -s 64 -n 10 $a"
sc ud_pingpong_ipv6     "UD over IPv6" "ibv_ud_pingpong $D -g 2 -s 1000 -n 5"   "ibv_ud_pingpong $D -g 2 -s 1000 -n 5 $a"
sc srq_pingpong         "SRQ, 4 RC QPs (-q 4)" "ibv_srq_pingpong $G -m 1024 -s 512 -q 4 -r 32 -n 16"   "ibv_srq_pingpong $G -m 1024 -s 512 -q 4 -r 32 -n 16 $a"
# ---- perftest
sc ib_write_lat_s8      "RC WRITE_ONLY 8 bytes" "ib_write_lat $X -m 1024 -s 8 -n 5"  "ib_write_lat $X -m 1024 -s 8 -n 5 $a"
sc ib_write_bw_s4096    "RC WRITE FIRST/MIDDLE/LAST, 4 packets" "ib_write_bw $X -m 1024 -s 4096 -n 5"  "ib_write_bw $X -m 1024 -s 4096 -n 5 $a"
sc ib_write_bw_s5001    "RC WRITE, 5001 bytes: pad count 3 in LAST" "ib_write_bw $X -m 1024 -s 5001 -n 5"  "ib_write_bw $X -m 1024 -s 5001 -n 5 $a"
sc ib_read_lat_s8       "RC READ request/response ONLY" "ib_read_lat $X -m 1024 -s 8 -n 5"  "ib_read_lat $X -m 1024 -s 8 -n 5 $a"
sc ib_read_bw_s4096     "RC READ responses FIRST/MIDDLE/LAST" "ib_read_bw $X -m 1024 -s 4096 -n 5"  "ib_read_bw $X -m 1024 -s 4096 -n 5 $a"
sc ib_read_bw_s8190_ipv6 "RC READ over IPv6, 8190 bytes (pad 2)" "ib_read_bw $X6 -m 1024 -s 8190 -n 5"  "ib_read_bw $X6 -m 1024 -s 8190 -n 5 $a"
sc ib_send_lat_s8       "RC SEND" "ib_send_lat $X -m 1024 -s 8 -n 5"  "ib_send_lat $X -m 1024 -s 8 -n 5 $a"
sc ib_send_bw_uc_s3000  "UC SEND" "ib_send_bw $X -c UC -m 1024 -s 3000 -n 5"  "ib_send_bw $X -c UC -m 1024 -s 3000 -n 5 $a"
sc ib_write_bw_uc_s3000 "UC WRITE FIRST/MIDDLE/LAST" "ib_write_bw $X -c UC -m 1024 -s 3000 -n 5"  "ib_write_bw $X -c UC -m 1024 -s 3000 -n 5 $a"
sc ib_send_lat_ud       "UD SEND" "ib_send_lat $X -c UD -s 256 -n 5"  "ib_send_lat $X -c UD -s 256 -n 5 $a"
sc ib_atomic_lat_fa     "FETCH_AND_ADD" "ib_atomic_lat $X -A FETCH_AND_ADD -n 5"  "ib_atomic_lat $X -A FETCH_AND_ADD -n 5 $a"
sc ib_atomic_lat_cs     "CMP_AND_SWAP" "ib_atomic_lat $X -A CMP_AND_SWAP -n 5"  "ib_atomic_lat $X -A CMP_AND_SWAP -n 5 $a"
sc ib_write_lat_cm      "perftest with rdma_cm connection (-R)" "ib_write_lat $X -R -s 8 -n 5"  "ib_write_lat $X -R -s 8 -n 5 $a"
# ---- rdma_cm examples
sc rping                "rdma_cm REQ/REP/RTU + SEND/WRITE/READ + DREQ/DREP" "timeout 20 rping -s -a $a -C 3 -S 200 -v"  "timeout 20 rping -c -a $a -C 3 -S 200 -v"
sc rping_ipv6           "the same over IPv6" "timeout 20 rping -s -a $a6 -C 3 -S 2000 -v"  "timeout 20 rping -c -a $a6 -C 3 -S 2000 -v"
sc udaddy               "rdma_cm SIDR_REQ/SIDR_REP + UD (qkey 0x01234567 = RDMA_UDP_QKEY)" "timeout 20 udaddy -b $a -C 4 -S 100 -c 1"  "timeout 20 udaddy -b 10.77.0.2 -s $a -C 4 -S 100 -c 1"
sc ucmatose             "rdma_cm, 2 connections, 4 messages" "timeout 20 ucmatose -b $a -c 2 -C 4 -S 100"  "timeout 20 ucmatose -s $a -b 10.77.0.2 -c 2 -C 4 -S 100"
sc ucmatose_tos         "rdma_cm with set_tos 0x28 (traffic class)" "timeout 20 ucmatose -b $a -c 1 -C 2 -S 100 -t 0x28"  "timeout 20 ucmatose -s $a -b 10.77.0.2 -c 1 -C 2 -S 100 -t 0x28"
sc cm_rej_nolistener    "rdma_cm REQ to a port with no listener -> REJ reason 8 (invalid service id)" "sleep 6"  "timeout 20 rping -c -a $a -p 7999 -C 1 -v"
sc mckey                "multicast join (ip multicast 239.77.1.1) + UD multicast; filter also IGMP" "timeout 20 mckey -m 239.77.1.1 -b $a -C 5 -S 100 -c 1"  "timeout 20 mckey -m 239.77.1.1 -b 10.77.0.2 -s -C 5 -S 100 -c 1" "udp port 4791 or igmp"
sc rstream              "rsockets stream: RC WRITE_WITH_IMM (credits)" "timeout 30 rstream -b $a -S 1024 -I 1 -C 3"  "timeout 30 rstream -s $a -S 1024 -I 1 -C 3"
sc riostream            "rsockets riomap/riowrite" "timeout 30 riostream -b $a -S 1024 -I 1 -C 3"  "timeout 30 riostream -s $a -S 1024 -I 1 -C 3"
sc rdma_server_client   "rdma_server / rdma_client example" "timeout 20 rdma_server -p 7471"  "timeout 20 rdma_client -s $a -p 7471"
sc rdma_xserver         "rdma_xserver RC" "timeout 20 rdma_xserver -c r"  "timeout 20 rdma_xclient -s $a -c r"
sc cmtime               "cmtime 3 connections" "timeout 20 cmtime -b $a -c 3"  "timeout 20 cmtime -s $a -b 10.77.0.2 -c 3"
# ---- src/peer.c
peer() { sc "peer_$1" "$2" "${4:-}/host/peer $1 ${3:-}" "${5:-}/host/peer $1 ${3:-} --connect $a"; }
peer send_sizes    "RC SENDs of 0,1,2,3,4,5,7,1023,1024,1025,2048,2049 bytes (pad, zero length)"
peer long_send "one 40000-byte SEND, path mtu 256 = 157 packets: where rxe sets AckReq inside a message" "--mtu 256"
peer send_imm      "RC SEND_WITH_IMM: SEND_ONLY_IMM and SEND_LAST_IMM, SE bit set on one"
peer send_inv      "bind type-2 MW at A, B: WRITE through the MW rkey, SEND_WITH_INV of it, then WRITE again -> remote access NAK"
peer write_imm     "RC WRITE_WITH_IMM: 0, 100, 3000 bytes"
peer write_sizes   "RC WRITEs of 0,1,3,1024,1025,4097 bytes"
peer read_sizes    "RC READs of 0,1,3,1024,1025,4097,65536/8 bytes"
peer atomics       "RC FETCH_ADD, CMP_SWP success, CMP_SWP fail (values in log)"
peer uc_imm        "UC SEND_WITH_IMM and WRITE_WITH_IMM (ONLY and multi-packet)"
peer ud_imm        "UD SEND and SEND_WITH_IMM; GRH bytes seen by the receiver in the log"
peer ud_imm6       "UD over IPv6: SEND and SEND_WITH_IMM; GRH bytes in the log" "--gid 2"
peer tclass        "RC with traffic_class 0x2a hop_limit 17 (IPv4)"
peer tclass6       "RC with traffic_class 0x2a hop_limit 17 flow_label 0x12345 (IPv6)" "--gid 2"
peer psn_wrap      "RC SENDs with starting PSN 0xfffffe, 3000 bytes each"
peer rnr           "RNR NAK (min_rnr_timer 22 = 20.48 ms) then resend succeeds"
peer rnr_exhaust   "rnr_retry 2 and no receive: RNR_RETRY_EXC_ERR"
peer bad_rkey_write "WRITE with a wrong rkey: NAK remote access error"
peer bad_rkey_read  "READ with a wrong rkey: NAK remote access error"
peer bad_perm_write "WRITE to a QP whose qp_access_flags lack REMOTE_WRITE: NAK invalid request"
peer bad_mrperm_write "QP allows, MR lacks REMOTE_WRITE: NAK remote access error"
peer bad_mrperm_read "READ; QP allows, MR lacks REMOTE_READ: NAK remote access error"
peer bad_bounds_write "WRITE of 3000 bytes past MR end: NAK remote access error"
peer atomic_unaligned "FETCH_ADD on an unaligned address: NAK remote invalid request"
peer send_too_long  "SEND larger than the posted receive: NAK invalid request"
peer retry_exceeded "no such QP at the peer: timeouts and retransmissions until RETRY_EXC_ERR (timeout 14, retry 3)"
peer atomic_write "ATOMIC_WRITE (opcode 29; needs kernel >= 6.2 rxe)"
peer mixed         "SEND, WRITE, READ, FETCH_ADD, WRITE_IMM posted in one go (pipelining, MSN counting)"
DROP='iptables -F INPUT; iptables -A INPUT -p udp --dport 4791 -m statistic --mode nth'; F='iptables -F INPUT'
sc peer_drop_req1 "A drops only the 5th request packet: one NAK PSN sequence error, go-back-N" "$DROP --every 100000 --packet 4 -j DROP; /host/peer drop_req; $F" "$F; /host/peer drop_req --connect $a"
sc peer_drop_req  "A drops every 6th request packet" "$DROP --every 6 --packet 2 -j DROP; /host/peer drop_req; $F" "$F; /host/peer drop_req --connect $a"
sc peer_drop_ack  "B drops every 2nd packet it receives (ACKs): timeouts, duplicate requests re-ACKed" "$F; /host/peer drop_ack" "$DROP --every 2 --packet 0 -j DROP; /host/peer drop_ack --connect $a; $F"
sc peer_drop_read1 "B drops only the 4th packet it receives (a READ response MIDDLE): requester re-reads" "$F; /host/peer drop_read" "$DROP --every 100000 --packet 3 -j DROP; /host/peer drop_read --connect $a; $F"
sc peer_drop_readlast "B drops only the 8th packet it receives (READ response LAST): timeout, re-read" "$F; /host/peer drop_read" "$DROP --every 100000 --packet 7 -j DROP; /host/peer drop_read --connect $a; $F"
sc peer_drop_atomic "B drops every 2nd packet (atomic responses): duplicate atomics answered from the responder's saved results" "$F; /host/peer drop_atomic" "$DROP --every 2 --packet 0 -j DROP; /host/peer drop_atomic --connect $a; $F"
sc peer_netem_loss "tc netem on B's eth0: 10% loss, 25% reordered" "$F; /host/peer drop_req" "$F; tc qdisc add dev eth0 root netem delay 2ms reorder 25% 50% loss 10%; /host/peer drop_req --connect $a; tc qdisc del dev eth0 root"
sc peer_corrupt "tc netem corrupt 20% on B's eth0 (single bit errors): rxe must drop on ICRC, retransmit (expect some BAD ICRC here)" "$F; /host/peer drop_req" "$F; tc qdisc add dev eth0 root netem corrupt 20%; /host/peer drop_req --connect $a; tc qdisc del dev eth0 root"
sc cm_drop_req "A drops the first packet (CM REQ): REQ retried after the CM timeout" "$DROP --every 100000 --packet 0 -j DROP; timeout 40 /host/cmrej -s $a; $F" "timeout 40 /host/cmrej -c $a"
sc cm_drop_rtu "A drops the RTU (5th CM packet to A): first data or REP retry establishes" "$DROP --every 100000 --packet 2 -j DROP; timeout 40 /host/cmrej -s $a; $F" "timeout 40 /host/cmrej -c $a"
MT='ip link set eth0 mtu 4200; sleep 0.5'; MR='ip link set eth0 mtu 1500'
sc rc_pingpong_mtu4096 "RC, netdev MTU 4200, path mtu 4096, 10000 bytes" "$MT; ibv_rc_pingpong $G -m 4096 -s 10000 -n 3; $MR" "$MT; ibv_rc_pingpong $G -m 4096 -s 10000 -n 3 $a; $MR"
sc cm_rej_consumer "rdma_cm: server calls rdma_reject with private data 'no thanks' -> REJ reason 28" "timeout 20 /host/cmrej -s $a" "timeout 20 /host/cmrej -c $a"
cat $OUT/index.d/* > $OUT/pcap/INDEX.txt
