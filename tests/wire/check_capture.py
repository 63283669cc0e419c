#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Check that every packet of a capture is valid RoCEv2.

    check_capture.py [--offload] [--no-tshark] FILE.pcap...

Three judges that share no code with urxe look at each packet:
  - our own rules: IP and UDP lengths, IPv4 header checksum, don't-fragment, UDP
    checksum, BTH fields, payload length and pad count per opcode, ICRC (zlib);
  - scapy recomputes the ICRC of IPv4 packets;
  - tshark decodes without "malformed" and without any expert warning.

--offload    the capture is from an interface with checksum offload (a tap, a
             veth): don't look at UDP checksums
--no-tshark  skip the third judge (faster)

Exits 1 at the first bad packet, naming it by its number; 0 if all are good.
Needs Debian's python3-scapy and tshark.  Make captures with URXE_PCAP=FILE.
"""

import argparse
import logging
import re
import struct
import subprocess
import sys

import roce

logging.getLogger("scapy.runtime").setLevel(logging.ERROR)
from scapy.contrib.roce import BTH  # noqa: E402
from scapy.layers.inet import IP  # noqa: E402

MTUS = (256, 512, 1024, 2048, 4096)


def need(condition, text):
    if not condition:
        raise roce.Malformed(text)


def check_ip(p):
    head = p.frame[14 : p.udp_start]
    if p.ip_version == 4:
        need(p.frame[14] >> 4 == 4, "EtherType says IPv4, version field doesn't")
        need(len(head) == 20, "IPv4 header with options")
        need(roce.checksum(head) == 0, "IPv4 header checksum is wrong")
        need(struct.unpack(">H", head[6:8])[0] == 0x4000, "fragment field is not just DF")
    else:
        need(p.frame[14] >> 4 == 6, "EtherType says IPv6, version field doesn't")
    need(p.ttl > 0, "TTL or hop limit is 0")
    trailer = len(p.frame) - p.end
    need(trailer == 0 or len(p.frame) <= 60, f"{trailer} bytes after the IP packet")


def check_udp(p, offload):
    length = struct.unpack(">H", p.frame[p.udp_start + 4 : p.udp_start + 6])[0]
    need(length == p.end - p.udp_start, f"UDP length {length}, IP says {p.end - p.udp_start}")
    if p.udp_checksum == 0 or offload:
        return
    addresses = p.frame[26:34] if p.ip_version == 4 else p.frame[22:54]
    pseudo = addresses + struct.pack(">HH", 17, length)
    need(roce.checksum(pseudo + p.frame[p.udp_start : p.end]) == 0, "UDP checksum is wrong")


def check_bth(p):
    need(p.tver == 0, f"transport version {p.tver}")
    need(p.dqp != 0, "destination QP 0")
    need(p.pkey & 0x7FFF, "P_Key 0")
    need(p.reserved & 0x3F == 0 and p.reserved7 == 0, "reserved bits of the BTH are set")
    need(not any(p.pad_bytes), "pad bytes are not zero")
    need(p.pad == -len(p.payload) & 3, f"pad count {p.pad} for {len(p.payload)} bytes")
    need((p.end - p.udp_start) % 4 == 0, "UDP length is not a multiple of four")
    need(not (p.is_response and p.ack_request), "a response asks for an acknowledge")
    need(not p.solicited or p.position in "LO" and not p.is_response, "SE on the wrong packet")
    if p.transport == roce.UC:
        need(p.operation <= 0x0B, "not an operation of UC")
    if p.transport == roce.UD:
        need(p.operation in (4, 5), "not an operation of UD")
        need(p.headers["source_qp"] >> 24 == 0, "reserved byte of the DETH is set")


def check_xrceth(p, srqs):
    """All packets of a message name one SRQ, in 24 bits. @srqs: by flow, of the message in progress."""
    number, flow = p.headers.get("xrceth"), (p.source, p.destination, p.dqp)
    if number is None:
        return
    need(number >> 24 == 0, "reserved byte of the XRCETH is set")
    if p.position in "ML":
        need(srqs.get(flow, number) == number, f"{p.name} for SRQ {number:#x}, its message is for {srqs.get(flow)}")
    srqs[flow] = number


def check_length(p, mtus):
    """Payload length against the opcode (IBA 9.7.4.1.6), and one path MTU per flow."""
    length, place = len(p.payload), p.position
    if place == "A":
        need(length == 0, f"{p.name} with {length} bytes of payload")
    elif place in "FM":
        need(length in MTUS, f"{p.name} with {length} bytes: not a path MTU")
        known = mtus.setdefault((p.source, p.destination, p.dqp), length)
        need(known == length, f"{p.name} with {length} bytes, path MTU is {known}")
    else:
        known = mtus.get((p.source, p.destination, p.dqp), MTUS[-1])
        need(length <= known, f"{p.name} with {length} bytes, path MTU is {known}")
        need(length or place == "O", f"{p.name} without payload")
    dma_length = p.headers.get("dma_length")
    if dma_length is not None and p.operation not in (roce.READ_REQUEST, roce.FLUSH):
        enough = dma_length == length if place == "O" else dma_length > length
        need(enough, f"{p.name} of {length} bytes announces {dma_length}")


def check_aeth(p):
    syndrome = p.headers.get("syndrome")
    if syndrome is None:
        return
    kind, value = syndrome >> 5, syndrome & 0x1F
    need(kind in (0, 1, 3), f"AETH syndrome {syndrome:#x} is reserved")
    need(kind != 3 or value <= 4, f"NAK code {value} is reserved")
    need(kind == 0 or p.operation == roce.ACKNOWLEDGE, f"{p.name} carries a NAK")


def check_icrc(p):
    need(p.icrc == p.icrc_expected(), f"ICRC {p.icrc.hex()}, should be {p.icrc_expected().hex()}")
    if p.ip_version == 4:
        theirs = IP(p.frame[14 : p.end])[BTH].compute_icrc(b"")
        need(p.icrc == theirs, f"ICRC {p.icrc.hex()}, scapy says {theirs.hex()}")


def check_packets(path, offload=False):
    """What is not tshark's: (packets, None) or (packets, "packet N: what is wrong")."""
    mtus, srqs, count, number = {}, {}, 0, 0
    try:
        for number, time, frame in roce.records(path):
            if not roce.is_roce(frame):
                continue
            count += 1
            p = roce.decode(number, time, frame)
            check_ip(p)
            check_udp(p, offload)
            check_icrc(p)
            if p.transport != roce.CNP:
                check_bth(p)
                check_xrceth(p, srqs)
                check_length(p, mtus)
                check_aeth(p)
    except roce.Malformed as error:
        return count, f"packet {number}: {error}"
    return count, None if count else "no RoCEv2 packet in it"


def run_tshark(paths):
    """A line for each packet. All files at once: it takes longer to start than to read most of them."""
    command = ["tshark", "-r", "-", "-o", "udp.check_checksum:FALSE"]
    command += ["-o", "ip.check_checksum:TRUE", "-o", "udp.ignore_ipv6_zero_checksum:TRUE"]
    # These guess at the payload, which is arbitrary here.
    for guess in ("rpcordma", "infiniband.eoib"):
        command += ["--disable-protocol", guess]
    fields = ("frame.protocols", "_ws.malformed", "_ws.expert.message")
    command += ["-T", "fields"] + [word for f in fields for word in ("-e", f)]
    merge = ["mergecap", "-a", "-F", "pcap", "-w", "-", *paths]
    merged = subprocess.run(merge, capture_output=True, check=True)
    run = subprocess.run(command, input=merged.stdout, capture_output=True, check=True)
    return run.stdout.decode().splitlines()


def check_tshark(paths):
    """Return (path, packet number, text) of what tshark finds wrong first, or None."""
    packets = [(path, number) for path in paths for number, _, _ in roce.records(path)]
    try:
        lines = run_tshark(paths)
    except subprocess.CalledProcessError as error:
        return paths[0], 0, f"{error.cmd[0]}: {error.stderr.decode().strip()}"
    if len(lines) != len(packets):
        return paths[0], 0, f"tshark sees {len(lines)} packets of {len(packets)}"
    for (path, number), line in zip(packets, lines):
        protocols, malformed, expert = (line.split("\t") + [""] * 2)[:3]
        # tshark guesses, too, at what begins with an EtherType's number and two zeros.
        guessed = ":infiniband:ethertype:" in protocols
        if (malformed or expert) and not guessed:
            return path, number, f"tshark: {malformed} {expert}"
        if ":udp:" in protocols and not re.search(r":udp:infiniband\b", protocols):
            return path, number, f"tshark sees no RoCE: {protocols}"
    return None


def check_files(paths, offload=False, tshark=True):
    """Returns {path: (packets, None or "packet N: what is wrong")}, up to the first that is wrong."""
    results = {}
    for path in paths:
        results[path] = check_packets(path, offload)
        if results[path][1]:
            return results
    found = check_tshark(paths) if tshark else None
    if found:
        path, number, text = found
        results[path] = results[path][0], f"packet {number}: {text}"
    return results


def check_file(path, offload=False, tshark=True):
    """As check_files(), of one."""
    return check_files([path], offload, tshark)[path]


def main():
    parser = argparse.ArgumentParser(description="check RoCEv2 captures")
    parser.add_argument("--offload", action="store_true")
    parser.add_argument("--no-tshark", action="store_true")
    parser.add_argument("files", nargs="+")
    arguments = parser.parse_args()
    checked = check_files(arguments.files, arguments.offload, not arguments.no_tshark)
    for path, (count, error) in checked.items():
        print(f"{path}: {error or f'{count} packets, all good'}")
    return 1 if any(error for _, error in checked.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
