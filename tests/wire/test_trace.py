#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""urxe trace on captures that are made here, on those of Linux rxe, and on those of a run:

    test_trace.py PROGRAM [TEST...]
"""

import json
import os
import pathlib
import resource
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import xml.etree.ElementTree as ElementTree
import zlib

import roce

PROGRAM = ""
FOLDER = tempfile.TemporaryDirectory()
PROFILES = pathlib.Path(__file__).resolve().parents[2] / "urxe" / "wireshark"
A, B = (10, 0, 0, 1), (10, 0, 0, 2)
SENT, RECEIVED = 0, 1
START = 1_000_000_000_000_000  # ns
MTU = 256
SEND_ONLY, WRITE_FIRST, WRITE_MIDDLE, WRITE_LAST, READ, READ_ONLY, ACK, UC_SEND_ONLY = 4, 6, 7, 8, 12, 16, 17, 0x24


def ip(address):
    return ".".join(str(number) for number in address)


def packet(source, destination, opcode, qpn, psn, payload=b"", headers=b""):
    """From the IP header on."""
    bth = struct.pack(">BBHII", opcode, 0, 0xFFFF, qpn, psn)
    data = bth + headers + payload
    data += struct.pack("<I", zlib.crc32(bytes(source) + data))
    udp = struct.pack(">HHHH", 0xC123, roce.PORT, 8 + len(data), 0)
    head = struct.pack(">BBHHHBBH4B4B", 0x45, 0, 28 + len(data), 0, 0x4000, 64, 17, 0, *source, *destination)
    return head + udp + data


def ipv6(protocol, source, destination, data):
    """From the IP header on: between 2001:db8::@source and 2001:db8::@destination."""
    ends = [b"\x20\x01\x0d\xb8" + bytes([0] * 11 + [end]) for end in (source, destination)]
    return struct.pack(">IHBB", 6 << 28, len(data), protocol, 64) + b"".join(ends) + data


def request(opcode, psn, length=0, source=A, destination=B, qpn=0x22):
    headers = struct.pack(">QII", 0x1000, 0x77, length) if opcode in (WRITE_FIRST, READ) else b""
    size = 0 if opcode == READ else min(length, MTU)
    return packet(source, destination, opcode, qpn, psn, bytes(size), headers)


def answer(psn, syndrome=0x1F, opcode=ACK, length=0, source=B, destination=A, qpn=0x11):
    return packet(source, destination, opcode, qpn, psn, bytes(length), struct.pack(">I", syndrome << 24 | psn & 0xFF))


def write_message(first, last, psns=None):
    """The packets of a WRITE with these PSNs, or those of @psns."""
    for psn in psns or range(first, last + 1):
        opcode = WRITE_FIRST if psn == first else WRITE_LAST if psn == last else WRITE_MIDDLE
        yield request(opcode, psn, (last + 1 - first) * MTU if psn == first else MTU)


def own_addresses(frame, side):
    """As urxe makes them up: the end that captures is 02:00, its peer 02:01."""
    ends = [b"\2" + bytes([side]) + frame[12:16], b"\2" + bytes([not side]) + frame[16:20]]
    return ends[1] + ends[0] + b"\x08\0"


LINUX_ADDRESSES = b"\x52\x54\0\0\0\2" + b"\x52\x54\0\0\0\1" + b"\x08\0"


class Captures:
    """Two captures: of the ends A and B."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(dir=FOLDER.name)
        self.records = ([], [])
        self.faults = ([], [])

    def path(self, end):
        return pathlib.Path(self.folder) / ("ab"[end] + ".pcap")

    def add(self, us, frame, delay=10, arrivals=1, fault="", source_fault=""):
        """@frame leaves at @us and arrives @delay later, @arrivals times. What faults do of it."""
        end = 0 if frame[12:16] == bytes(A) else 1
        for count in range(1 + arrivals):
            here = end if count == 0 else 1 - end
            now = START + (us + (delay + count - 1 if count else 0)) * 1000
            data = own_addresses(frame, SENT if count == 0 else RECEIVED) + frame
            self.records[here].append((now, data))
            text = source_fault if count == 0 else fault
            if text:
                note = f"{now // 10**9}.{now % 10**9:09} sent RC_SEND QP 0x1 PSN 1: {text}\n"
                self.faults[here].append(note)

    def both(self):
        """The path of one file of both ends, as when two processes were given one name."""
        self.records[0].extend(self.records[1])
        self.faults[0].extend(self.faults[1])
        return self.write()[0]

    def write(self):
        for end in (0, 1):
            with open(self.path(end), "wb") as out:
                out.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262144, 1))  # nanoseconds
                for now, data in sorted(self.records[end]):
                    out.write(struct.pack("<IIII", now // 10**9, now % 10**9, len(data), len(data)) + data)
            if self.faults[end]:
                notes = "".join(self.faults[end])
                pathlib.Path(f"{self.path(end)}.faults").write_text(notes, errors="surrogateescape")
        return [self.path(0), self.path(1)]


def run(*arguments, environment=None, output=subprocess.PIPE):
    command = [PROGRAM, "trace", *map(str, arguments)]
    return subprocess.run(command, stdout=output, stderr=subprocess.PIPE, text=True, timeout=100, env=environment)


def trace(*arguments):
    done = run(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def rows(text):
    """Those of a table, from the first conversation on, without the summary."""
    return [line for line in text.split("\n     FROM")[0].splitlines() if line[:10].strip()[:1].isdigit()]


def lossy():
    """
    A WRITE of five packets: 102 is dropped, 103 comes twice; the NAK has 102 and what follows sent
    again. Then a SEND, whose acknowledge is lost, so that it is sent once more.
    """
    captures = Captures()
    for psn, frame in zip(range(100, 105), write_message(100, 104)):
        dropped = psn == 102
        captures.add(psn - 100, frame, arrivals=0 if dropped else 2 if psn == 103 else 1,
                     source_fault="dropped by drop#3/RC_RDMA_WRITE" if dropped else "")
    captures.add(30, answer(102, 0x60))
    for psn, frame in zip(range(102, 105), write_message(100, 104, range(102, 105))):
        captures.add(psn - 52, frame)
    captures.add(70, answer(104))
    captures.add(100, request(SEND_ONLY, 105, 64))
    captures.add(120, answer(105), arrivals=0)
    captures.add(4100, request(SEND_ONLY, 105, 64))
    captures.add(4120, answer(105))
    return captures


LOSSY = """\
RC  10.0.0.1 QP 0x11 -> 10.0.0.2 QP 0x22

        MS      MESSAGE                      BYTES  PSN       PACKETS  LOST  RESENT  NOTES
     0.000  ->  WRITE                         1280  100..104        5     1       3  PSN 102 dropped by drop#3/RC_RDMA_WRITE; PSN 103 arrived twice; acknowledged after 80.0 us
     0.030  <-  NAK PSN sequence error              102             1
     0.050  ->  resent WRITE                   768  102..104        3                after NAK PSN sequence error
     0.070  <-  ACK                                 104             1
     0.100  ->  SEND                            64  105             1             1  acknowledged after 4.030 ms
     0.120  <-  ACK                                 105             1     1          lost
     4.100  ->  resent SEND                     64  105             1                after 3.980 ms of silence
     4.120  <-  ACK                                 105             1

     FROM                         TO                           MESSAGES        BYTES  PACKETS   LOST RESENT    DUP  NAK  RNR  PAUSE
RC   10.0.0.1 QP 0x11             10.0.0.2 QP 0x22                    2         1344       10      1      4      1    1    0  3.980 ms
RC   10.0.0.2 QP 0x22             10.0.0.1 QP 0x11                    0            0        4      1      0      0    0    0  -
"""


class BothEnds(unittest.TestCase):
    maxDiff = None

    def test_table(self):
        self.assertEqual(trace(*lossy().write()), LOSSY)

    def test_order_of_files_does_not_matter(self):
        captures = lossy()
        self.assertEqual(trace(*reversed(captures.write())), LOSSY)

    def test_files_given_twice(self):
        captures = lossy().write()
        self.assertEqual(trace(*captures, captures[0]), LOSSY)

    def test_one_file_of_both_ends(self):
        self.assertEqual(trace(lossy().both()), LOSSY)

    def test_files_that_do_not_say_whose_they_are(self):
        """The packets' times tell, though one clock is a second ahead."""
        for ahead in (0, 10**9):
            with self.subTest(ahead):
                captures = lossy()
                for end in (0, 1):
                    captures.records[end][:] = [
                        (now + ahead * end, LINUX_ADDRESSES + data[14:]) for now, data in captures.records[end]]
                captures.faults[0].clear()
                found = rows(trace(*captures.write()))
                self.assertIn("PSN 102 lost; PSN 103 arrived twice", found[0])
                self.assertEqual([line[:70] for line in found], [line[:70] for line in rows(LOSSY)])

    def test_clocks_and_an_answer_that_takes_long(self):
        """Its delay is no difference of the clocks."""
        captures = Captures()
        for psn in range(3):
            captures.add(1000 * psn, request(SEND_ONLY, psn, 9))
            captures.add(1000 * psn + 20, answer(psn), delay=500 if psn == 1 else 10)
        captures.records[1][:] = [(now + 10**9, data) for now, data in captures.records[1]]
        delays = [line.split("arrived after ")[1] for line in rows(trace("--packets", *captures.write()))]
        self.assertEqual(delays, ["10.0 us"] * 3 + ["500.0 us"] + ["10.0 us"] * 2)

    def test_clocks_that_drift_apart(self):
        """No packet arrives, or is acknowledged, before it is sent, whatever they say."""
        captures = Captures()
        for psn in range(100):
            captures.add(1000 * psn, request(SEND_ONLY, psn, 9))
            captures.add(1000 * psn + 20, answer(psn))
        captures.records[1][:] = [(now + (now - START) // 1000, data) for now, data in captures.records[1]]
        text = trace("--packets", *captures.write())
        self.assertIn("arrived after", text)
        self.assertNotRegex(text, r"after [\d.]+ s")
        del captures.records[0][-2]  # that the last request is sent
        self.assertNotRegex(trace(*captures.write()), r"after [\d.]+ s")

    def test_icmp_errors(self):
        """They have the packet in them that they are about."""
        captures = lossy()
        refused = request(SEND_ONLY, 105, 64)
        error = struct.pack(">BBHI", 3, 3, 0, 0) + refused
        head = struct.pack(">BBHHHBBH4B4B", 0x45, 0, 20 + len(error), 0, 0, 64, 1, 0, *B, *A)
        captures.add(60, head + error)
        refused = ipv6(17, 1, 2, refused[20:])
        error = ipv6(58, 2, 1, struct.pack(">BBHI", 1, 4, 0, 0) + refused)
        captures.records[0].append((START + 60000, LINUX_ADDRESSES[:12] + b"\x86\xdd" + error))
        self.assertEqual(trace(*captures.write()), LOSSY)

    def test_tunnels(self):
        """What is in them counts: here VXLAN, between addresses of the other version."""
        frame = request(SEND_ONLY, 5, 64)
        udp = frame[20:]
        for inner in (b"\x08\0" + frame, b"\x86\xdd" + ipv6(17, 1, 2, udp)):
            with self.subTest(inner[:2]):
                captures = Captures()
                data = struct.pack(">BBHI", 8, 0, 0, 0x100) + LINUX_ADDRESSES[:12] + inner
                data = struct.pack(">HHHH", 0xC123, 4789, 8 + len(data), 0) + data
                if inner.startswith(b"\x08"):
                    outer, ends = b"\x86\xdd" + ipv6(17, 3, 4, data), "10.0.0.1 QP ? -> 10.0.0.2 QP 0x22"
                else:
                    head = struct.pack(">BBHHHBBH4B4B", 0x45, 0, 20 + len(data), 0, 0, 64, 17, 0, *A, *B)
                    outer, ends = b"\x08\0" + head + data, "2001:db8::1 QP ? -> 2001:db8::2 QP 0x22"
                captures.records[0].append((START, LINUX_ADDRESSES[:12] + outer))
                text = trace(captures.both())
                self.assertIn(ends, text)
                self.assertIn("SEND             64  5 ", text)

    def test_long_addresses(self):
        """The columns of the summary stand below each other all the same."""
        captures = Captures()
        frame = ipv6(17, 1, 2, request(SEND_ONLY, 5, 64)[20:])
        frame = frame[:8] + b"\x20\x01" * 8 + b"\x20\x02" * 8 + frame[40:]
        captures.records[0].append((START, LINUX_ADDRESSES[:12] + b"\x86\xdd" + frame))
        head, line = trace(captures.both()).splitlines()[-2:]
        self.assertEqual(line[:head.index("PACKETS") + 7].split()[-3:], ["1", "64", "1"])

    def test_one_end_loses_nothing(self):
        """Of the sender alone it isn't known what was lost, but for what faults say."""
        captures = lossy()
        captures.write()
        sender, receiver = rows(trace(captures.path(0))), rows(trace(captures.path(1)))
        self.assertIn("PSN 102 dropped by drop#3", sender[0])
        self.assertNotIn("lost", "".join(sender))
        self.assertNotIn("lost", "".join(receiver))

    def test_late(self):
        captures = Captures()
        for us, delay, frame in zip((0, 1, 2, 3), (10, 30, 10, 10), write_message(7, 10)):
            captures.add(us, frame, delay=delay)
        captures.add(50, answer(10))
        self.assertIn("PSN 8 arrived late; acknowledged", rows(trace(captures.both()))[0])

    def test_faults_of_the_receiver(self):
        captures = Captures()
        captures.add(0, request(SEND_ONLY, 5, 9), fault="dropped by drop#1@rx")
        captures.add(50, request(SEND_ONLY, 5, 9), fault="delayed by delay(1ms)#2@rx")
        captures.add(2000, answer(5))
        found = rows(trace(captures.both()))
        self.assertEqual(len(found), 3)
        self.assertIn("  1       1  dropped by drop#1@rx; acknowledged after", found[0])
        self.assertIn("resent SEND", found[1])
        self.assertIn("delayed by delay(1ms)#2@rx", found[1])

    def test_copies_and_packets_held_back_are_not_resent(self):
        captures = Captures()
        frames = list(write_message(7, 10))
        captures.add(0, frames[0])
        captures.add(1, frames[0], source_fault="duplicated by dup#1")
        captures.add(2, frames[2])
        captures.add(3, frames[1], source_fault="held back by reorder#2")
        captures.add(4, frames[3])
        captures.add(50, answer(10))
        text = trace(captures.both())
        self.assertEqual(len(rows(text)), 2)
        self.assertIn("  7..10        4                PSN 7 duplicated by dup#1; PSN 8 held back by reorder#2", text)

    def test_psns_wrap(self):
        captures = Captures()
        psns = [0xFFFFFE, 0xFFFFFF, 0, 1]
        for us, psn in enumerate(psns):
            opcode = WRITE_FIRST if us == 0 else WRITE_LAST if us == 3 else WRITE_MIDDLE
            captures.add(us, request(opcode, psn, 4 * MTU if us == 0 else MTU), arrivals=psn != 0)
        captures.add(30, answer(0, 0x60))
        captures.add(40, request(WRITE_MIDDLE, 0, MTU))
        captures.add(60, answer(1))
        found = rows(trace(captures.both()))
        self.assertIn("16777214..1        4     1       1  PSN 0 lost; acknowledged", found[0])
        self.assertIn("resent WRITE", found[2])

    def test_forged_psns(self):
        """They take no memory for all that are between them."""
        captures = Captures()
        for count in range(20):
            captures.add(count, request(SEND_ONLY, count * 5_000_000 % 2**24, 9))
        self.assertEqual(len(rows(trace("--packets", captures.both()))), 20)
        self.assertLess(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, 2**20)  # KiB

    def test_a_forged_psn_in_a_message(self):
        """The message isn't longer for that, and is acknowledged."""
        captures = Captures()
        for us, frame in enumerate(write_message(100, 104)):
            captures.add(us, frame)
        captures.add(2, request(WRITE_MIDDLE, 102 + 2**22, MTU))
        captures.add(50, answer(104))
        self.assertRegex(rows(trace(captures.both()))[0], r"WRITE +1280  100..104 +5 +acknowledged after")

    def test_an_answer_to_what_was_not_sent(self):
        """Two ends with other PSNs: the message that was sent isn't acknowledged."""
        captures = Captures()
        captures.add(0, request(SEND_ONLY, 5, 9))
        captures.add(20, answer(999))
        self.assertNotIn("acknowledged", trace(captures.both()))

    def test_rnr(self):
        captures = Captures()
        captures.add(0, request(SEND_ONLY, 5, 9))
        captures.add(20, answer(5, 0x2C))
        captures.add(700, request(SEND_ONLY, 5, 9))
        captures.add(720, answer(5))
        text = trace(captures.both())
        self.assertIn("RNR NAK                  5          1                not before 640.0 us; sent again after 680.0 us", text)
        self.assertIn("after RNR NAK", rows(text)[2])
        self.assertRegex(text, r"2      0      1      0    0    1  680\.0 us\n")

    def test_lost_naks_have_no_effect(self):
        for syndrome in 0x60, 0x20:
            captures = Captures()
            captures.add(0, request(SEND_ONLY, 5, 64))
            captures.add(1, request(SEND_ONLY, 6, 65), arrivals=0)
            captures.add(2, request(SEND_ONLY, 7, 66))
            captures.add(20, answer(6, syndrome), arrivals=0)
            for psn in 5, 6, 7:
                captures.add(4995 + psn, request(SEND_ONLY, psn, 59 + psn))
            captures.add(5100, answer(7))
            lines = rows(trace(*captures.write()))
            self.assertIn("acknowledged after 5.110 ms", lines[0])
            self.assertIn("after 4.980 ms of silence", lines[4])
            self.assertNotIn("sent again after", lines[3])

    def test_equal_messages_are_one_row(self):
        captures = Captures()
        for i in range(100):
            captures.add(i * 40, request(SEND_ONLY, i, 200))
            captures.add(i * 40 + 20, answer(i))
        path = captures.both()
        text = trace(path)
        self.assertEqual(len(rows(text)), 2)
        self.assertRegex(text, r"100        20000      100 .* 20\.0 us\n")  # that it was idle is no pause
        self.assertIn("100 x SEND       20000  0..99      100                200 B each, in 3.960 ms", text)
        self.assertEqual(len(rows(trace("--packets", path))), 200)

    def test_equal_messages_of_both_ends_are_rows_of_their_own(self):
        captures = Captures()
        for i in range(10):
            captures.add(i * 40, request(SEND_ONLY, i, 200))
            captures.add(i * 40 + 20, request(SEND_ONLY, 5000 + i, 200, source=B, destination=A, qpn=0x11))
        text = trace(captures.both())
        self.assertRegex(text, r"(RC +10\.0\.0\.\d .* 10 +2000 +10 .*\n){2}")
        self.assertNotIn(" x SEND", text)

    def test_equal_messages_out_of_order_are_one_row(self):
        """The receiver's capture alone doesn't tell that one was overtaken."""
        captures = Captures()
        for us, first in enumerate((14, 10, 18, 22, 26)):
            for i, frame in enumerate(write_message(first, first + 3)):
                captures.add(us * 10 + i, frame)
        captures.write()
        found = json.loads(trace("--json", captures.path(1)))["conversations"][0]["rows"]
        self.assertEqual([(row["messages"], row["packets"], row["psns"]) for row in found], [(5, 20, [[10, 29]])])

    def test_equal_responses_are_one_row(self):
        captures = Captures()
        for i in range(5):
            captures.add(i, request(READ, i, 100))
            captures.add(100 + i, answer(i, opcode=READ_ONLY, length=100), arrivals=i != 0)
        captures.add(200, request(READ, 0, 100))
        captures.add(220, answer(0, opcode=READ_ONLY, length=100))
        found = [line[14:48].strip() for line in rows(trace(captures.both()))]
        self.assertEqual([line.split("  ")[0] for line in found],
                         ["READ", "4 x READ", "READ response", "READ response", "resent READ", "resent READ response"])
        self.assertEqual(found[3].split()[-1], "400")

    def test_a_long_transfer_is_one_row(self):
        captures = Captures()
        for us, frame in enumerate(write_message(1000, 5095)):
            captures.add(us, frame, arrivals=us % 1000 != 999)
        found = rows(trace("--format", "table", captures.both()))
        self.assertEqual(len(found), 1)
        self.assertIn("1048576  1000..5095     4096     4          PSN 1999, 2999, 3999, 4999 lost", found[0])

    def test_several_connections(self):
        """Between the same addresses: which flow answers which is found by the PSNs."""
        captures = Captures()
        for i in range(4):
            captures.add(i, request(SEND_ONLY, 1000 * i + 7, 30, qpn=0x20 + i))
        for i in (2, 0, 3, 1):
            captures.add(100 + i, answer(1000 * i + 7, qpn=0x10 + i))
        path = captures.both()
        text = trace(path)
        for i in range(4):
            self.assertIn(f"RC  10.0.0.1 QP 0x1{i} -> 10.0.0.2 QP 0x2{i}\n", text)
        one = trace("--qp", "0x22", path)
        self.assertEqual(trace("--qp", "034", path), one)
        self.assertIn("QP 0x12 -> 10.0.0.2 QP 0x22", one)
        self.assertNotIn("0x21", one)

    def test_connections_that_nothing_tells_apart(self):
        """Of UC, which acknowledges nothing."""
        captures = Captures()
        for i in range(2):
            captures.add(i, request(UC_SEND_ONLY, 7, 30, qpn=0x20 + i))
            captures.add(10 + i, request(UC_SEND_ONLY, 9, 30, source=B, destination=A, qpn=0x10 + i))
        text = trace(captures.both())
        for end, other, qpn in (1, 2, 0x20), (1, 2, 0x21), (2, 1, 0x10), (2, 1, 0x11):
            self.assertIn(f"UC  10.0.0.{end} QP ? -> 10.0.0.{other} QP {qpn:#x}\n", text)


class Output(unittest.TestCase):
    def test_diagram(self):
        found = trace("--format", "diagram", lossy().both()).splitlines()
        self.assertRegex(found[-3], r"^ +FROM .* PAUSE$")
        self.assertIn("|--- WRITE 1280 B, PSN 100..104, 5 packets, 1 lost, resent 3 ------------->|  PSN 102 dropped", found[1])
        self.assertIn("|<-- NAK PSN sequence error, PSN 102 --", found[2])
        self.assertIn("|                  X-- ACK, PSN 105 -", found[6])

    def test_json(self):
        found = json.loads(trace("--json", lossy().both()))
        self.assertEqual(found["start"], "1000000.000000000")
        (conversation,) = found["conversations"]
        self.assertEqual(conversation["transport"], "RC")
        a, b = conversation["ends"]
        self.assertEqual([(end["address"], end["qpn"], end["captured"]) for end in (a, b)],
                         [("10.0.0.1", 0x11, True), ("10.0.0.2", 0x22, True)])
        self.assertEqual(a["sent"], {"messages": 2, "bytes": 1344, "packets": 10, "lost": 1, "resent": 4, "duplicates": 1,
                                     "naks": 1, "rnr_naks": 0, "pause_ns": 3_980_000})
        rows = conversation["rows"]
        self.assertEqual([(row["from"], row["kind"]) for row in rows],
                         [(0, "message"), (1, "nak"), (0, "resent"), (1, "ack"),
                          (0, "message"), (1, "ack"), (0, "resent"), (1, "ack")])
        self.assertEqual(rows[0], {
            "kind": "message", "from": 0, "time_ns": 0, "until_ns": 4000, "what": "WRITE", "bytes": 1280,
            "psns": [[100, 104]], "acknowledged_after_ns": 80_000, "messages": 1, "packets": 5, "lost": 1, "resent": 3,
            "marks": [{"what": "dropped by drop#3/RC_RDMA_WRITE", "psns": [[102, 102]]},
                      {"what": "arrived twice", "psns": [[103, 103]]}],
            "notes": "PSN 102 dropped by drop#3/RC_RDMA_WRITE; PSN 103 arrived twice; acknowledged after 80.0 us"})
        self.assertEqual((rows[5]["lost"], rows[5]["acknowledged_after_ns"]), (1, None))

    def test_json_of_what_is_not_known(self):
        captures = Captures()
        captures.add(0, request(SEND_ONLY, 0xFFFFFF, 9), arrivals=0)
        captures.faults[0].append(f"{START // 10**9}.{START % 10**9:09} sent RC_SEND QP 0x1 PSN 1: dropped by \udcff\n")
        captures.write()
        (conversation,) = json.loads(trace("--json", captures.path(0)))["conversations"]
        self.assertEqual([(end["qpn"], end["captured"]) for end in conversation["ends"]], [(None, True), (0x22, False)])
        self.assertIsNone(conversation["ends"][1]["sent"])
        (row,) = conversation["rows"]
        self.assertEqual(row["marks"], [{"what": "dropped by ?", "psns": [[0xFFFFFF, 0xFFFFFF]]}])

    def test_svg(self):
        text = trace("--format", "svg", lossy().both())
        root = ElementTree.fromstring(text)
        name = "{http://www.w3.org/2000/svg}"
        arrows = root.findall(name + "path")
        self.assertEqual(root.tag, name + "svg")
        self.assertEqual([arrow.get("class") for arrow in arrows],
                         ["message", "nak", "resent", "ack", "message", "ack lost", "resent", "ack"])
        labels = [label.text for label in root.findall(name + "text") if label.get("class") == "label"]
        self.assertEqual(labels[0], "WRITE 1280 B, PSN 100..104, 5 packets, 1 lost, resent 3")

    def test_svg_is_escaped(self):
        captures = Captures()
        captures.add(0, request(SEND_ONLY, 5, 9), arrivals=0, source_fault="dropped by drop#1>17[<&>]")
        root = ElementTree.fromstring(trace("--format", "svg", captures.both()))
        self.assertIn("dropped by drop#1>17[<&>]", [text.text for text in root.iter()])

    def test_svg_of_many_rows(self):
        captures = Captures()
        for i in range(100):
            captures.add(i * 40, request(SEND_ONLY, i, i + 1))
            captures.add(i * 40 + 20, answer(i))
        root = ElementTree.fromstring(trace("--format", "svg", captures.both()))
        places = [int(text.get("y")) for text in root.iter() if text.get("class") == "label"]
        self.assertEqual(len(places), 200)
        self.assertTrue(all(after - before >= 20 for before, after in zip(places, places[1:])))
        self.assertLess(places[-1], int(root.get("height")))

    def test_window(self):
        path = lossy().both()
        self.assertEqual(len(rows(trace("--from", "0.1", path))), 4)
        self.assertEqual(len(rows(trace("--from", "0.04", "--to", "0.1", path))), 3)

    def test_packets(self):
        found = rows(trace("--packets", lossy().both()))
        self.assertEqual(len(found), 14)
        self.assertIn("RC_RDMA_WRITE_MIDDLE", found[2])
        self.assertIn("dropped by drop#3/RC_RDMA_WRITE", found[2])
        self.assertIn("arrived twice; arrived after 10.0 us", found[3])

    def test_mistakes(self):
        path = lossy().write()[0]
        for arguments, said in (
            (["--format", "picture", path], "and not picture"),
            (["--qp", "x", path], "and not x"),
            (["--qp", "77", path], f"no packets from or to queue pair 0x4d in {path}"),
            (["--from", "-1", path], "-1 is no number"),
            (["--from", "0.2", "--to", "0.1", path], "--from is later than --to"),
            (["/nonexistent.pcap"], "/nonexistent.pcap: No such file"),
            ([__file__], "can't be read"),
            ([], "no captures"),
        ):
            with self.subTest(arguments):
                done = run(*arguments)
                self.assertEqual(done.returncode, 2)
                self.assertIn(said, done.stderr)
        done = run(path, environment={**os.environ, "PATH": "/nonexistent"})
        self.assertEqual(done.returncode, 2)
        self.assertIn("apt-get install tshark", done.stderr)

    def test_output_that_is_lost(self):
        path = lossy().write()[0]
        for form in "table", "diagram", "svg", "json":
            with self.subTest(form), open("/dev/full", "w") as full:
                done = run("--format", form, path, output=full)
                self.assertEqual((done.returncode, done.stderr), (2, "urxe: the output can't be written\n"))


class LinuxRxe(unittest.TestCase):
    """One capture of each, at one place between the ends."""

    def test_connection(self):
        found = trace(roce.CAPTURES / "rping.pcap").splitlines()
        self.assertEqual(found[0], "RC  10.77.0.2 QP 0x2d -> 10.77.0.1 QP 0x2d")
        messages = [line[16:].split("  ")[0] for line in found[3:8]]
        self.assertEqual(messages, ["CM REQ", "CM REP", "CM RTU", "SEND", "ACK"])
        self.assertIn("port 7174; QP 0x2d, from PSN 8950713", found[3])
        self.assertIn("CM DREQ", "\n".join(found))
        self.assertNotIn("QP 0x1 ", "\n".join(found))

    def test_connection_of_two_ends_with_one_address(self):
        """As of two processes on one node: the ids tell who says what."""
        path = pathlib.Path(FOLDER.name, "one-address.pcap")
        for name in "rping.pcap", "cm_rej_nolistener.pcap":
            with self.subTest(name):
                capture = (roce.CAPTURES / name).read_bytes()
                path.write_bytes(capture.replace(bytes([10, 77, 0, 2]), bytes([10, 77, 0, 1])))
                said = [[line[12:22] for line in rows(trace(one)) if " CM " in line]
                        for one in (roce.CAPTURES / name, path)]
                self.assertEqual(said[0], said[1])
                self.assertEqual({line[:2] for line in said[0]}, {"->", "<-"})

    def test_rejected(self):
        text = trace(roce.CAPTURES / "cm_rej_nolistener.pcap")
        self.assertIn("UD  10.77.0.2 QP 0x1 -> 10.77.0.1 QP 0x1\n", text)
        self.assertIn("reason 8", text)

    def test_repeated_request(self):
        found = rows(trace(roce.CAPTURES / "cm_drop_req.pcap"))
        messages = [line[16:].split("  ")[0] for line in found]
        self.assertEqual(messages[:4], ["CM REQ", "CM REQ again", "CM REJ", "CM REQ"])

    def test_reads(self):
        found = rows(trace(roce.CAPTURES / "ib_read_bw_s4096.pcap"))
        self.assertEqual(len(found), 2)
        self.assertIn("5 x READ", found[0])
        self.assertIn("READ response       20480  7847054..7847073       20", found[1])

    def test_resumed_read(self):
        text = "\n".join(rows(trace(roce.CAPTURES / "peer_drop_read1.pcap")))
        self.assertIn("resent READ ", text)
        self.assertIn("resent READ response", text)

    def test_retries(self):
        found = rows(trace(roce.CAPTURES / "peer_retry_exceeded.pcap"))
        self.assertEqual([line[16:].split("  ")[0] for line in found], ["SEND"] + 3 * ["resent SEND"])
        self.assertIn("after 67.355 ms of silence", found[1])


class Run(unittest.TestCase):
    """What a run with faults leaves."""

    def pingpong(self, node, *arguments, **options):
        command = [PROGRAM, "run", "--node", node, "--pcap", f"{FOLDER.name}/{node}.pcap"]
        command += options.get("faults", []) + ["--", "ibv_rc_pingpong", "-g", "0", "-p", "18642", "-s", "5000", "-n", "20"]
        return subprocess.Popen(command + list(arguments), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def test_faults_are_shown(self):
        server = self.pingpong("127.0.6.1", faults=["--faults", "drop#9@rx/RC_SEND"])
        deadline = time.monotonic() + 100
        while True:  # until the server listens
            client = self.pingpong("127.0.6.2", "127.0.6.1", faults=["--faults", "drop#4/RC_SEND;dup#12/RC_SEND"])
            output, _ = client.communicate(timeout=100)
            if client.returncode == 0 or time.monotonic() > deadline or server.poll() is not None:
                break
            time.sleep(0.1)
        said, _ = server.communicate(timeout=100)
        self.assertEqual((client.returncode, server.returncode), (0, 0), output + said)
        text = trace(f"{FOLDER.name}/127.0.6.1.pcap", f"{FOLDER.name}/127.0.6.2.pcap")
        found = rows(text)
        for fault in ("dropped by drop#9@rx/RC_SEND", "dropped by drop#4/RC_SEND", "duplicated by dup#12/RC_SEND"):
            with self.subTest(fault):
                self.assertEqual(len([line for line in found if fault in line]), 1, text)
        self.assertRegex(text, r"\n.* SEND +5000 .* 5     1 .*PSN \d+ dropped by drop#4/RC_SEND; acknowledged after")
        self.assertIn("resent SEND", text)


class Profile(unittest.TestCase):
    """The profile for Wireshark: tshark takes it, and shows its columns and colors."""

    def packets(self, name):
        """The columns of each packet, and with them its background."""
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "profiles").symlink_to(PROFILES)
            done = subprocess.run(
                ["tshark", "-n", "-C", "RoCEv2", "--color", "-T", "psml", "-r", roce.CAPTURES / name],
                capture_output=True, text=True, timeout=100, env={**os.environ, "WIRESHARK_CONFIG_DIR": folder})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("WARNING", done.stderr)
        root = ElementTree.fromstring(done.stdout)
        names = [section.text for section in root.find("structure")]
        for line in root.findall("packet"):
            yield dict(zip(names, [section.text for section in line]), background=line.get("background"))

    def test_columns_and_colors(self):
        first, rnr, *_, nak = list(self.packets("peer_rnr.pcap"))[:6]
        self.assertEqual((first["QP"], first["PSN"], first["Syndrome"]), ("0x00004c", "662316", None))
        self.assertEqual((rnr["QP"], rnr["PSN"], rnr["Syndrome"], rnr["MSN"]), ("0x00004d", "662316", "54", "0"))
        self.assertEqual(nak["Syndrome"], "96")
        self.assertEqual([packet["background"] for packet in (first, rnr, nak)], ["#ffffff", "#ffdc99", "#ffb2b2"])

    def test_connection_manager(self):
        req = next(self.packets("rping.pcap"))
        self.assertEqual((req["QP"], req["background"], req["Info"]), ("0x000001", "#e6deff", "CM: ConnectRequest"))


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
