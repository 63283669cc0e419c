#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""icrcsolve.py FILE.pcap : can a receiver that does NOT see the IPv4 ID (plain UDP socket) still check the ICRC?
CRC is linear: flipping ID bits changes the CRC by a known XOR per bit, so 'wire ICRC xor ICRC(ID=0)' must lie in a
16-dimensional subspace of the 32-bit space; solving gives the ID back, and a corrupt packet passes with chance 2^-16."""
import sys, struct, zlib
def basis(total):  # delta of the crc for each of the 16 ID bits, for a message of `total` bytes with ID at bytes 12..13 (8 ff + ip[4:6])
    z = zlib.crc32(bytes(total)); out = []
    for b in range(16):
        m = bytearray(total); m[12 + (0 if b >= 8 else 1)] = 1 << (b & 7); out.append(zlib.crc32(bytes(m)) ^ z)
    return out
def solve(delta, bas):
    rows = []
    for i, v in enumerate(bas):
        c = 1 << i
        for (p, w, d) in rows:
            if v >> p & 1: v ^= w; c ^= d
        if v: rows.append((v.bit_length() - 1, v, c))
    x = 0
    for (p, w, d) in rows:
        if delta >> p & 1: delta ^= w; x ^= d
    return x if delta == 0 else None
if __name__ == '__main__':
    n = ok = 0; b = open(sys.argv[1], 'rb').read(); o = 24
    while o < len(b):
        cl = struct.unpack('<I', b[o + 8:o + 12])[0]; f = b[o + 16:o + 16 + cl]; o += 16 + cl
        if f[12:14] != b'\x08\x00' or f[23] != 17: continue
        ip = bytearray(f[14:34]); end = 14 + struct.unpack('>H', ip[2:4])[0]; real = struct.unpack('>H', ip[4:6])[0]
        ip[1] = ip[8] = 0xff; ip[10] = ip[11] = 0xff; ip[4] = ip[5] = 0
        udp = bytearray(f[34:42]); udp[6] = udp[7] = 0xff; p = bytearray(f[42:end - 4]); p[4] = 0xff
        msg = b'\xff' * 8 + bytes(ip) + bytes(udp) + bytes(p); n += 1
        d = zlib.crc32(msg) ^ struct.unpack('<I', f[end - 4:end])[0]
        ok += solve(d, basis(len(msg))) == real
    print(f'{sys.argv[1]}: {n} packets, IP ID recovered from the ICRC in {ok}')
