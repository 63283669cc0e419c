# SPDX-License-Identifier: BSD-2-Clause
"""Decode RoCEv2 packets from capture files, for the tests in this folder.

Written from the specification and not from net/wire/wire.h: a mistake there must
not repeat itself here.  Imported by check_capture.py, compare_golden.py and
test_tools.py; the command

    python3 roce.py FILE...

prints one line a packet.
"""

import dataclasses
import ipaddress
import pathlib
import struct
import sys
import zlib

PORT = 4791
RC, UC, RD, UD, CNP, XRC = 0, 1, 2, 3, 4, 5
TRANSPORTS = ("RC", "UC", "RD", "UD", "CNP", "XRC", "?6", "?7")

# Operation (low five bits of the opcode): name, extension headers, position in
# its message (F first, M middle, L last, O only) or "A" for what answers without data.
OPERATIONS = {
    0x00: ("SEND_FIRST", (), "F"),
    0x01: ("SEND_MIDDLE", (), "M"),
    0x02: ("SEND_LAST", (), "L"),
    0x03: ("SEND_LAST_IMM", ("imm",), "L"),
    0x04: ("SEND_ONLY", (), "O"),
    0x05: ("SEND_ONLY_IMM", ("imm",), "O"),
    0x06: ("WRITE_FIRST", ("reth",), "F"),
    0x07: ("WRITE_MIDDLE", (), "M"),
    0x08: ("WRITE_LAST", (), "L"),
    0x09: ("WRITE_LAST_IMM", ("imm",), "L"),
    0x0A: ("WRITE_ONLY", ("reth",), "O"),
    0x0B: ("WRITE_ONLY_IMM", ("reth", "imm"), "O"),
    0x0C: ("READ_REQUEST", ("reth",), "A"),
    0x0D: ("READ_RESPONSE_FIRST", ("aeth",), "F"),
    0x0E: ("READ_RESPONSE_MIDDLE", (), "M"),
    0x0F: ("READ_RESPONSE_LAST", ("aeth",), "L"),
    0x10: ("READ_RESPONSE_ONLY", ("aeth",), "O"),
    0x11: ("ACKNOWLEDGE", ("aeth",), "A"),
    0x12: ("ATOMIC_ACKNOWLEDGE", ("aeth", "original"), "A"),
    0x13: ("COMPARE_SWAP", ("atomic",), "A"),
    0x14: ("FETCH_ADD", ("atomic",), "A"),
    0x16: ("SEND_LAST_INVALIDATE", ("ieth",), "L"),
    0x17: ("SEND_ONLY_INVALIDATE", ("ieth",), "O"),
    0x1C: ("FLUSH", ("feth", "reth"), "A"),
    0x1D: ("ATOMIC_WRITE", ("reth",), "O"),
}
SIZES = {"deth": 8, "xrceth": 4, "feth": 4, "reth": 16, "atomic": 28, "aeth": 4, "original": 8, "imm": 4, "ieth": 4}
RESPONSES = {0x0D, 0x0E, 0x0F, 0x10, 0x11, 0x12}
READ_REQUEST, ACKNOWLEDGE, FLUSH = 0x0C, 0x11, 0x1C
ATOMICS = {0x13, 0x14}


class Malformed(Exception):
    """The packet breaks a rule; the text says which."""


@dataclasses.dataclass
class Packet:
    number: int = 0
    time: float = 0.0
    frame: bytes = b""
    ip_version: int = 4
    ip_start: int = 14
    udp_start: int = 34
    end: int = 0  # of the UDP datagram within the frame
    source: str = ""
    destination: str = ""
    tos: int = 0
    ttl: int = 0
    df: bool = False
    flow_label: int = 0
    udp_checksum: int = 0
    source_port: int = 0
    transport: int = 0
    operation: int = 0
    solicited: bool = False
    migreq: bool = False
    pad: int = 0
    tver: int = 0
    pkey: int = 0
    reserved: int = 0  # byte 4 of the BTH: FECN, BECN, reserved
    dqp: int = 0
    ack_request: bool = False
    reserved7: int = 0
    psn: int = 0
    headers: dict = dataclasses.field(default_factory=dict)
    payload: bytes = b""
    pad_bytes: bytes = b""

    @property
    def name(self):
        operation = OPERATIONS.get(self.operation, (hex(self.operation),))[0]
        return TRANSPORTS[self.transport] + "_" + operation

    @property
    def position(self):
        return OPERATIONS[self.operation][2]

    @property
    def is_response(self):
        return self.operation in RESPONSES and self.transport in (RC, RD, XRC)

    @property
    def bth(self):
        return self.udp_start + 8

    @property
    def icrc(self):
        return self.frame[self.end - 4 : self.end]

    def icrc_expected(self):
        return icrc(self.frame, self.ip_start, self.udp_start, self.end)

    def describe(self):
        text = (
            f"{self.source}>{self.destination} {self.name} dqp={self.dqp:#x} psn={self.psn:#08x}"
            f" A={self.ack_request:d} SE={self.solicited:d} pad={self.pad} len={len(self.payload)}"
        )
        for key, value in self.headers.items():
            text += f" {key}={value:#x}"
        return text


def icrc(frame, ip_start, udp_start, end):
    """The ICRC of the packet in @frame (IBA 7.8.1, A17.3.3), as it lies on the wire."""
    masked = bytearray(frame[ip_start : end - 4])
    udp, bth = udp_start - ip_start, udp_start - ip_start + 8
    if masked[0] >> 4 == 4:
        for i in (1, 8, 10, 11):
            masked[i] = 0xFF
    else:
        masked[0] |= 0x0F
        for i in (1, 2, 3, 7):
            masked[i] = 0xFF
    for i in (udp + 6, udp + 7, bth + 4):
        masked[i] = 0xFF
    return struct.pack("<I", zlib.crc32(b"\xff" * 8 + masked))


def records(path):
    """Yield (number, time, frame) of a classic pcap file of Ethernet frames."""
    data = pathlib.Path(path).read_bytes()
    if len(data) < 24:
        raise Malformed(f"{path}: shorter than a pcap header")
    magic = data[:4]
    orders = {
        b"\xd4\xc3\xb2\xa1": ("<", 1e-6),
        b"\x4d\x3c\xb2\xa1": ("<", 1e-9),
        b"\xa1\xb2\xc3\xd4": (">", 1e-6),
        b"\xa1\xb2\x3c\x4d": (">", 1e-9),
    }
    if magic not in orders:
        raise Malformed(f"{path}: not a pcap file")
    order, unit = orders[magic]
    linktype = struct.unpack(order + "I", data[20:24])[0] & 0xFFFF
    if linktype != 1:
        raise Malformed(f"{path}: link type {linktype}, not Ethernet")
    offset, number = 24, 0
    while offset + 16 <= len(data):
        seconds, fraction, captured, original = struct.unpack(
            order + "IIII", data[offset : offset + 16]
        )
        offset += 16
        number += 1
        frame = data[offset : offset + captured]
        if len(frame) != captured or captured != original:
            raise Malformed(f"{path}: packet {number} is cut short")
        yield number, seconds + fraction * unit, frame
        offset += captured


def checksum(data):
    """The Internet checksum (RFC 1071) over @data."""
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def is_roce(frame):
    """
    Whether @frame is UDP to port 4791, judged leniently: the strict part is decode(). By a BTH alone,
    all zeros, urxe has the host look for its neighbour (verbs/neighbour.c).
    """
    kind = frame[12:14]
    if kind == b"\x08\x00" and len(frame) >= 34 and frame[23] == 17:
        udp = 14 + (frame[14] & 15) * 4
    elif kind == b"\x86\xdd" and len(frame) >= 54 and frame[20] == 17:
        udp = 54
    else:
        return False
    port, length = struct.unpack(">HH", frame[udp + 2 : udp + 6].ljust(4, b"\0"))
    return port == PORT and frame[udp + 8 : udp + length] != bytes(12)


def decode_ip(p):
    frame = p.frame
    if frame[12:14] == b"\x08\x00":
        head = frame[14 : 14 + (frame[14] & 15) * 4]
        p.ip_version, p.udp_start = 4, 14 + len(head)
        p.tos, p.ttl = head[1], head[8]
        p.df = bool(head[6] & 0x40)
        p.end = 14 + struct.unpack(">H", head[2:4])[0]
        p.source = str(ipaddress.IPv4Address(head[12:16]))
        p.destination = str(ipaddress.IPv4Address(head[16:20]))
    else:
        word = struct.unpack(">I", frame[14:18])[0]
        p.ip_version, p.udp_start = 6, 54
        p.tos, p.flow_label, p.ttl = (word >> 20) & 0xFF, word & 0xFFFFF, frame[21]
        p.end = 54 + struct.unpack(">H", frame[18:20])[0]
        p.source = str(ipaddress.IPv6Address(frame[22:38]))
        p.destination = str(ipaddress.IPv6Address(frame[38:54]))
    if p.end > len(frame):
        raise Malformed(f"IP length goes {p.end - len(frame)} bytes past the frame")


def decode_extensions(p, body):
    """Split @body (after the BTH, before the ICRC) into extension headers, payload and pad."""
    names = OPERATIONS[p.operation][1]
    if p.transport == UD:
        names = ("deth",) + names
    if p.transport == XRC and p.operation not in RESPONSES:
        names = ("xrceth",) + names
    at = 0
    for name in names:
        raw = body[at : at + SIZES[name]]
        if len(raw) < SIZES[name]:
            raise Malformed(f"{p.name}: too short for its {name}")
        at += SIZES[name]
        h = p.headers
        if name == "deth":
            h["qkey"], h["source_qp"] = struct.unpack(">II", raw)
        elif name == "reth":
            h["va"], h["rkey"], h["dma_length"] = struct.unpack(">QII", raw)
        elif name == "atomic":
            h["va"], h["rkey"], h["swap_add"], h["compare"] = struct.unpack(">QIQQ", raw)
        elif name == "aeth":
            word = struct.unpack(">I", raw)[0]
            h["syndrome"], h["msn"] = word >> 24, word & 0xFFFFFF
        else:
            h[name] = int.from_bytes(raw, "big")
    if len(body) - at < p.pad:
        raise Malformed(f"pad count {p.pad} but only {len(body) - at} bytes after the headers")
    p.payload = body[at : len(body) - p.pad]
    p.pad_bytes = body[len(body) - p.pad :]


def decode(number, time, frame):
    """The packet in @frame; raises Malformed where a field can't be read."""
    p = Packet(number=number, time=time, frame=frame)
    decode_ip(p)
    udp = frame[p.udp_start : p.udp_start + 8]
    p.source_port, _, _, p.udp_checksum = struct.unpack(">HHHH", udp)
    data = frame[p.udp_start + 8 : p.end]
    if len(data) < 16:
        raise Malformed(f"UDP payload of {len(data)} bytes can't hold BTH and ICRC")
    opcode, flags, p.pkey, qp_word, psn_word = struct.unpack(">BBHII", data[:12])
    p.transport, p.operation = opcode >> 5, opcode & 31
    p.solicited, p.migreq = bool(flags & 0x80), bool(flags & 0x40)
    p.pad, p.tver = (flags >> 4) & 3, flags & 15
    p.reserved, p.dqp = qp_word >> 24, qp_word & 0xFFFFFF
    p.ack_request, p.reserved7 = bool(psn_word >> 31), (psn_word >> 24) & 0x7F
    p.psn = psn_word & 0xFFFFFF
    if p.transport == CNP:
        p.payload = data[12:-4]
        return p
    if p.operation not in OPERATIONS or p.transport not in (RC, UC, RD, UD, XRC):
        raise Malformed(f"opcode {opcode:#04x} is not one that RoCE NICs speak")
    decode_extensions(p, data[12:-4])
    return p


def packets(path):
    """All RoCEv2 packets of a capture file."""
    for number, time, frame in records(path):
        if is_roce(frame):
            yield decode(number, time, frame)


def write(path, frames):
    """Write @frames, pairs of (time, bytes), as a pcap file."""
    with open(path, "wb") as out:
        out.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, 1))
        for time, frame in frames:
            out.write(struct.pack("<IIII", int(time), int(time % 1 * 1e6), len(frame), len(frame)))
            out.write(frame)


# Of Linux rxe talking to itself: what INDEX.txt there says.
CAPTURES = pathlib.Path(__file__).resolve().parent / "captures"

SKIPPED = 77  # the exit code that meson counts as "skipped"


def skip(why):
    print("SKIPPED:", why)
    sys.exit(SKIPPED)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print("==", name)
        for packet in packets(name):
            bad = "" if packet.icrc == packet.icrc_expected() else " ICRC BAD"
            print(f"{packet.number:5} {packet.time:.6f} {packet.describe()}{bad}")
