#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Test the judges: check_capture and compare_golden must see what they claim to see.

    test_tools.py

Every reference capture passes and equals itself; copies with one changed bit
or one changed header field must be found out, and at the right packet.  Run by
"meson test"; skipped (exit 77) when the reference captures are absent.
"""

import dataclasses
import pathlib
import struct
import sys
import tempfile
import unittest

import check_capture
import cm_mads
import compare_golden
import roce

GOLDEN = sorted(roce.CAPTURES.glob("*.pcap"))
CORRUPT = "peer_corrupt"  # bit errors made on purpose
OFFLOAD = "host_ud_ipv4"  # captured where the UDP checksum wasn't filled in yet
REORDERED = "peer_netem_loss"  # no "first transmission" in a reordered capture


def capture(name):
    return roce.CAPTURES / f"{name}.pcap"


def mutate(name, change, number, reseal=True):
    """A copy of capture @name with change(frame, packet) done to packet @number."""
    frames = []
    for n, time, frame in roce.records(capture(name)):
        if n == number:
            frame, p = bytearray(frame), roce.decode(n, time, frame)
            change(frame, p)
            if reseal:
                seal(frame, p)
        frames.append((time, bytes(frame)))
    path = pathlib.Path(TEMPORARY.name) / f"{name}.{number}.pcap"
    roce.write(path, frames)
    return path


def seal(frame, p):
    """Make checksum and ICRC right again."""
    if p.ip_version == 4:
        frame[24:26] = b"\0\0"
        frame[24:26] = struct.pack(">H", roce.checksum(bytes(frame[14:34])))
    frame[p.end - 4 : p.end] = roce.icrc(frame, 14, p.udp_start, p.end)


def put(offset, data):
    """The change that writes @data at @offset from the BTH."""

    def change(frame, p):
        frame[p.bth + offset : p.bth + offset + len(data)] = data

    return change


def flip(offset, bits):
    def change(frame, p):
        frame[p.bth + offset] ^= bits

    return change


def put_ip(offset, data):
    def change(frame, p):
        frame[14 + offset : 14 + offset + len(data)] = data

    return change


# Capture, packet, and which bytes of the message may be anything: its sender's CA
# GUID, its port where no flow label has to fit, a comm id that is never heard again. And
# the high halves of all transaction ids.
GUID_OF_REQ, GUID_OF_REP = range(40, 48), range(52, 60)
MESSAGES = (
    ("rping", 1, GUID_OF_REQ), ("rping", 2, GUID_OF_REP), ("rping", 3, ()),
    ("rping", 40, ()), ("rping", 41, ()), ("cm_rej_consumer", 2, range(24, 28)),
    ("udaddy", 1, range(42, 44)), ("udaddy", 2, ()),
)


def message_rows(packets):
    conversations = cm_mads.Conversations(packets)
    return [conversations.row(p) for p in packets if cm_mads.is_cm(p)]


class CheckCapture(unittest.TestCase):
    def test_golden_captures_pass(self):
        for path in GOLDEN:
            with self.subTest(path.stem):
                _, wrong = check_capture.check_packets(path, offload=path.stem == OFFLOAD)
                if path.stem == CORRUPT:
                    self.assertIn("ICRC", wrong)
                else:
                    self.assertIsNone(wrong)
        self.assertIsNone(check_capture.check_tshark([p for p in GOLDEN if p.stem != CORRUPT]))

    def found(self, name, change, number, text, reseal=True):
        path = mutate(name, change, number, reseal)
        _, wrong = check_capture.check_file(str(path), tshark=False)
        self.assertIsNotNone(wrong, text)
        self.assertIn(f"packet {number}:", wrong)
        self.assertIn(text, wrong)

    def test_every_single_bit_is_covered(self):
        frame = next(f for n, _, f in roce.records(capture("peer_mixed")) if n == 1)
        p = roce.decode(1, 0, frame)
        free = {p.udp_start + 6, p.udp_start + 7, p.bth + 4, 15, 22, 24, 25}
        for i in set(range(14, len(frame))) - free:
            bad = bytearray(frame)
            bad[i] ^= 1 << i % 8
            self.assertNotEqual(roce.icrc(bad, 14, p.udp_start, p.end), bytes(bad[p.end - 4 :]), i)

    def test_bad_icrc(self):
        self.found("rc_pingpong_s64", flip(20, 1), 7, "ICRC", reseal=False)
        self.found("rc_pingpong_ipv6", flip(20, 1), 3, "ICRC", reseal=False)

    def test_bad_ip(self):
        self.found("rc_pingpong_s64", put_ip(10, b"\0\1"), 2, "header checksum", reseal=False)
        self.found("rc_pingpong_s64", put_ip(6, b"\0\0"), 2, "fragment")
        self.found("rc_pingpong_s64", put_ip(8, b"\0"), 2, "TTL")
        self.found("rc_pingpong_s64", put(-4, b"\0\x10"), 2, "UDP length")
        self.found("rc_pingpong_s64", put(-2, b"\0\x10"), 2, "UDP checksum")

    def test_bad_bth(self):
        self.found("rc_pingpong_s64", flip(1, 0x01), 1, "version")
        self.found("rc_pingpong_s64", flip(1, 0x20), 1, "pad")
        self.found("rc_pingpong_s64", put(2, b"\0\0"), 1, "P_Key")
        self.found("rc_pingpong_s64", flip(4, 0x01), 1, "reserved")
        self.found("rc_pingpong_s64", put(5, b"\0\0\0"), 1, "destination QP")
        self.found("rc_pingpong_s64", put(0, b"\x1f"), 1, "opcode")

    def test_bad_lengths_and_extensions(self):
        self.found("peer_write_sizes", flip(27, 0x04), 1, "announces")
        self.found("rc_pingpong_s64", put(0, b"\x0c"), 1, "bytes of payload")
        self.found("peer_atomics", put(12, b"\x45"), 2, "reserved")
        self.found("rc_pingpong_s64", put(0, b"\x00"), 1, "not a path MTU")

    # Computed without urxe.
    XRC_SEND_ONLY_IMM = bytes.fromhex("a500ffff0000001180000001000000050000000164617461" "6127d7dd")

    def xrc(self, change=None):
        """A capture of that packet; @change gets its bytes, and it is sealed again."""
        ip = struct.pack(">BBHHHBBH4B4B", 0x45, 0, 28 + len(self.XRC_SEND_ONLY_IMM), 0, 0x4000, 64, 17, 0,
                         192, 168, 0, 1, 192, 168, 0, 2)
        udp = struct.pack(">HHHH", 0xC000, roce.PORT, 8 + len(self.XRC_SEND_ONLY_IMM), 0)
        frame = bytearray(b"\2" * 12 + b"\x08\0" + ip + udp + self.XRC_SEND_ONLY_IMM)
        frame[24:26] = struct.pack(">H", roce.checksum(bytes(frame[14:34])))
        if change:
            p = roce.decode(1, 0, bytes(frame))
            change(frame, p)
            seal(frame, p)
        path = pathlib.Path(TEMPORARY.name) / "xrc.pcap"
        roce.write(path, [(0, bytes(frame))])
        return path

    def test_xrc(self):
        """The headers behind the BTH only we read; ICRC and everything around it scapy and tshark check, too."""
        path = self.xrc()
        self.assertEqual(check_capture.check_file(str(path)), (1, None))
        packet = next(roce.packets(path))
        self.assertEqual(packet.name, "XRC_SEND_ONLY_IMM")
        self.assertEqual(packet.headers, {"xrceth": 5, "imm": 1})
        self.assertEqual(packet.payload, b"data")

    def test_bad_xrceth(self):
        _, wrong = check_capture.check_file(str(self.xrc(flip(12, 0x01))), tshark=False)
        self.assertIn("XRCETH", wrong)
        _, wrong = check_capture.check_file(str(self.xrc(put(0, b"\xb1"))), tshark=False)
        self.assertIsNotNone(wrong)  # a response has none

    def test_tshark_finds_a_bad_checksum(self):
        path = mutate("rc_pingpong_s64", put_ip(10, b"\0\1"), 4, reseal=False)
        good = GOLDEN[0]
        found = check_capture.check_tshark([good, path])
        self.assertEqual(found[:2], (path, 4))

    def test_empty_capture_is_not_good(self):
        path = pathlib.Path(TEMPORARY.name) / "empty.pcap"
        roce.write(path, [])
        self.assertIsNotNone(check_capture.check_file(str(path))[1])


class CompareGolden(unittest.TestCase):
    def test_each_equals_itself(self):
        for path in GOLDEN:
            if path.stem not in (REORDERED, CORRUPT):
                with self.subTest(path.stem):
                    self.assertEqual(compare_golden.compare(path, path), [])

    def test_two_runs_of_the_same_exchange(self):
        # Same packets with and without completion events; other QPNs, PSNs and keys.
        first, second = capture("rc_pingpong_s64"), capture("rc_pingpong_events")
        self.assertEqual(compare_golden.compare(first, second), [])

    def test_different_exchanges_differ(self):
        for other in ("uc_pingpong_s64", "rc_pingpong_s5000", "ud_pingpong"):
            found = compare_golden.compare(capture("rc_pingpong_s64"), capture(other))
            self.assertTrue(found, other)

    def differs(self, name, change, number, field):
        path = mutate(name, change, number)
        found = compare_golden.compare(capture(name), path)
        self.assertTrue(found, f"{name}: change of {field} not found")
        self.assertIn(field, found[0])

    def test_each_field_is_compared(self):
        table = (
            ("uc_pingpong_s64", put(0, b"\x25"), 3, "opcode"),
            ("uc_pingpong_s64", flip(1, 0x80), 3, "solicited"),
            ("uc_pingpong_s64", flip(1, 0x40), 3, "migreq"),
            ("uc_pingpong_s64", flip(1, 0x01), 3, "tver"),
            ("uc_pingpong_s64", flip(1, 0x10), 3, "pad"),
            ("uc_pingpong_s64", flip(2, 0x80), 3, "pkey"),
            ("uc_pingpong_s64", flip(4, 0x40), 3, "fecn_becn"),
            ("uc_pingpong_s64", flip(8, 0x80), 3, "ack_request"),
            ("uc_pingpong_s64", flip(11, 0x08), 3, "psn"),
            ("uc_pingpong_s64", put_ip(1, b"\x04"), 3, "tos"),
            ("uc_pingpong_s64", put_ip(8, b"\x3f"), 3, "ttl"),
            ("uc_pingpong_s64", flip(-22, 0x40), 3, "df"),
            ("peer_send_imm", flip(14, 0x01), 1, "imm"),
            ("peer_ud_imm", flip(14, 0x01), 2, "qkey"),
            ("peer_write_sizes", flip(27, 0x01), 7, "dma_length"),
            ("peer_write_sizes", flip(18, 0x01), 7, "va"),
            ("peer_write_sizes", flip(22, 0x01), 7, "rkey"),
            ("peer_rnr", flip(12, 0x01), 2, "syndrome"),
            ("peer_bad_rkey_read", flip(12, 0x01), 3, "syndrome"),
            ("peer_atomics", flip(25, 0x01), 1, "swap_add"),
            ("peer_atomics", flip(23, 0x01), 2, "original"),
        )
        for name, change, number, field in table:
            with self.subTest(field):
                self.differs(name, change, number, field)

    def test_ecn_is_not_compared(self):
        path = mutate("uc_pingpong_s64", put_ip(1, b"\x02"), 3)
        self.assertEqual(compare_golden.compare(capture("uc_pingpong_s64"), path), [])

    def test_every_bit_of_a_message_is_compared(self):
        for name, number, free in MESSAGES:
            packets = list(roce.packets(capture(name)))
            golden = message_rows(packets)
            at = next(i for i, p in enumerate(packets) if p.number == number)
            for byte in set(range(256)) - set(range(8, 12)) - set(free):
                bits = 0x80 >> byte % 8  # all eight take too long
                if (name, number, byte) == ("rping", 1, 24 + 95):
                    bits = 0x80  # 19 and 17 are the same ACK timeout
                with self.subTest(name=name, number=number, byte=byte):
                    data = bytearray(packets[at].payload)
                    data[byte] ^= bits
                    changed = packets[:]
                    changed[at] = dataclasses.replace(packets[at], payload=bytes(data))
                    self.assertTrue(message_rows(changed) != golden)

    def test_wrong_msn_of_an_ack(self):
        self.differs("rc_pingpong_s64", flip(15, 0x04), 2, "MSN")

    def test_missing_packets(self):
        name = "peer_send_sizes"
        frames = [(t, f) for _, t, f in roce.records(capture(name))]
        path = pathlib.Path(TEMPORARY.name) / "missing.pcap"
        roce.write(path, frames[:-1])
        self.assertIn("last ACK", compare_golden.compare(capture(name), path)[0])
        roce.write(path, frames[:2] + frames[3:])
        self.assertIn("request 2", compare_golden.compare(capture(name), path)[0])

    def test_coalesced_acks_are_the_same(self):
        name = "peer_psn_wrap"
        frames = [(t, f) for _, t, f in roce.records(capture(name))]
        decoded = [roce.decode(0, t, f) for t, f in frames]
        acks = [i for i, p in enumerate(decoded) if p.is_response]
        path = pathlib.Path(TEMPORARY.name) / "coalesced.pcap"
        roce.write(path, [f for i, f in enumerate(frames) if i != acks[0]])
        self.assertEqual(compare_golden.compare(capture(name), path), [])

    def test_retransmissions_are_the_same(self):
        name = "peer_psn_wrap"
        frames = [(t, f) for _, t, f in roce.records(capture(name))]
        path = pathlib.Path(TEMPORARY.name) / "again.pcap"
        roce.write(path, frames[:2] + frames[:2] + frames[2:])
        self.assertEqual(compare_golden.compare(capture(name), path), [])


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        TEMPORARY = type("Folder", (), {"name": folder})
        sys.exit(not unittest.main(exit=False).result.wasSuccessful())
