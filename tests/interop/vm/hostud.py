#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""hostud.py [4|6] [recv] : proof that a plain userspace UDP socket interoperates with rxe.
Run on the host inside the namespace (one.sh both '/host/peer ud_imm' 'python3 hostud.py 4').
Plays the client of peer.c's ud_imm scenario with nothing but sockets, ICRC computed on the
assumption IP ID = 0, DF = 1 (unconnected socket + IP_PMTUDISC_DO), TTL/ToS/checksums are masked anyway."""
import socket, struct, zlib, ipaddress, sys, time
v6 = len(sys.argv) > 1 and sys.argv[1] == '6'
A, B = ('fd77::1', 'fd77::2') if v6 else ('10.77.0.1', '10.77.0.2')
u = socket.socket(socket.AF_INET6 if v6 else socket.AF_INET, socket.SOCK_DGRAM)
if v6:
    u.setsockopt(socket.IPPROTO_IPV6, 23, 2)       # IPV6_MTU_DISCOVER = IPV6_PMTUDISC_DO
    u.setsockopt(17, 101, 1); u.setsockopt(17, 102, 1)  # UDP_NO_CHECK6_TX/RX : rxe sends UDP checksum 0 on IPv6
else: u.setsockopt(socket.IPPROTO_IP, 10, 2)       # IP_MTU_DISCOVER = IP_PMTUDISC_DO
u.bind((A, 4791)); u.settimeout(3)
def icrc(sa, da, sp, pay, ident=0, df=1):
    L = 8 + len(pay) + 4
    if v6: ip = struct.pack('>IHBB', 0x6fffffff, L, 17, 0xff) + socket.inet_pton(socket.AF_INET6, sa) + socket.inet_pton(socket.AF_INET6, da)
    else: ip = struct.pack('>BBHHHBBH', 0x45, 0xff, 20 + L, ident, 0x4000 * df, 0xff, 17, 0xffff) + socket.inet_aton(sa) + socket.inet_aton(da)
    p = bytearray(pay); p[4] = 0xff
    return zlib.crc32(b'\xff' * 8 + ip + struct.pack('>HHHH', sp, 4791, L, 0xffff) + bytes(p))
def ud(qpn, sqpn, psn, data, imm=None, qkey=0x11111111):
    pad = -len(data) % 4
    h = struct.pack('>BBHII', (3 << 5) | (5 if imm is not None else 4), pad << 4, 0xffff, qpn, psn) + struct.pack('>II', qkey, sqpn)
    if imm is not None: h += struct.pack('>I', imm)
    p = h + data + bytes(pad)
    u.sendto(p + struct.pack('<I', icrc(A, B, 4791, p)), (B, 4791))
if 'recv' in sys.argv:   # play the server: one.sh cap x.pcap rboth 'python3 hostud.py 4 recv' '/host/peer ud_imm --connect 10.77.0.1'
    sys.path.insert(0, __file__.rsplit('/', 1)[0]); from icrcsolve import solve, basis
    l = socket.socket(socket.AF_INET6 if v6 else socket.AF_INET); l.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); l.bind((A, 18600)); l.listen(1); t = l.accept()[0]
    t.sendall(struct.pack('<IIIIQQ', 0x123, 0x55, 0, 0, 0, 0) + socket.inet_pton(socket.AF_INET6, A if v6 else '::ffff:' + A) + bytes(16))
    pi = b''
    while len(pi) < 64: pi += t.recv(64 - len(pi))
    for _ in range(2): t.sendall(b'b'); t.recv(1)
    for _ in range(5):
        p, src = u.recvfrom(4096); c = struct.unpack('<I', p[-4:])[0]; d = icrc(src[0], A, src[1], p[:-4]) ^ c
        r = 'exact' if d == 0 else 'IP ID solved = %s' % (hex(x) if (x := solve(d, basis(8 + 20 + 8 + len(p) - 4))) is not None else 'NO SOLUTION: bad ICRC') if not v6 else 'BAD'
        print('got', len(p), 'bytes from', src[:2], 'opcode', p[0], 'ICRC', r)
    for _ in range(2): t.sendall(b'b'); t.recv(1)
    sys.exit()
t = socket.create_connection((B, 18600))
gid = socket.inet_pton(socket.AF_INET6, A if v6 else '::ffff:' + A)
t.sendall(struct.pack('<IIIIQQ', 0x123, 0x55, 0, 0, 0, 0) + gid + bytes(16))
pi = b''
while len(pi) < 64: pi += t.recv(64 - len(pi))
qpn, psn = struct.unpack('<II', pi[:8])
def barrier(): t.sendall(b'b'); t.recv(1)
barrier(); barrier()
for i, l in enumerate((0, 100, 1000, 1023)): ud(qpn, 0x123, 0x55 + i, bytes((i * 37 + j) & 255 for j in range(l)), 0x5a5a0000 + i if i & 1 else None)
print('sent 4 datagrams to qpn %#x' % qpn)
barrier(); barrier()
