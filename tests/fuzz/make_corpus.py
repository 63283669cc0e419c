#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Write the seed corpus: conversations that go well, and ones that just don't.
What fuzzing has found stands beside them as found_*, which this leaves alone.

    tests/fuzz/make_corpus.py [DIRECTORY]      default: corpus, next to this file

The layout of an input of fuzz_packet is what make_machine() and the steps in
fuzz_packet.c read; that of fuzz_connect is its steps;
that of fuzz_calls is the order of its table, and what each call picks.
"""
import struct
import sys
from pathlib import Path

RC, UC, UD, XRC_RECV = range(4)
RC_BITS, UC_BITS, UD_BITS, XRC_BITS = 0x00, 0x20, 0x60, 0xa0
SRQ, SMALL_CQ, SIGNAL_ALL, ALL_ACCESS, MORE = 4, 8, 16, 32, 64
PLACED_LATE, DROPS_OUT_OF_ORDER, CHECKS_RKEY, SHARED, MARKED, EXPLAINED = (1 << i for i in range(6))

# Which fields the target puts right.
QP, PSN, KEY, PAYLOAD, PAD, QKEY, OTHER_SOURCE, BAD_ICRC = (1 << i for i in range(8))
GOOD = QP | PSN | KEY | PAD | QKEY
FULL = GOOD | PAYLOAD

SEND_FIRST, SEND_MIDDLE, SEND_LAST, SEND_LAST_IMM, SEND_ONLY, SEND_ONLY_IMM = range(6)
WRITE_FIRST, WRITE_MIDDLE, WRITE_LAST, WRITE_LAST_IMM, WRITE_ONLY, WRITE_ONLY_IMM = range(6, 12)
READ_REQUEST, READ_FIRST, READ_MIDDLE, READ_LAST, READ_ONLY = range(0x0c, 0x11)
ACKNOWLEDGE, ATOMIC_ACKNOWLEDGE, COMPARE_SWAP, FETCH_ADD = range(0x11, 0x15)
SEND_LAST_INVALIDATE, SEND_ONLY_INVALIDATE = 0x16, 0x17
FLUSH, ATOMIC_WRITE = 0x1c, 0x1d

# enum ibv_wr_opcode
WR_WRITE, WR_WRITE_IMM, WR_SEND, WR_SEND_IMM, WR_READ, WR_SWAP, WR_ADD = range(7)
WR_LOCAL_INV, WR_BIND, WR_SEND_INV = 7, 8, 9
WR_FLUSH, WR_ATOMIC_WRITE = 14, 15
FENCE, SIGNALED, SOLICITED, INLINE, EXTENDED = 1, 2, 4, 8, 128

# Regions, then windows, for keys to choose from.
ALL, READABLE, LOCAL, WINDOW_1, WINDOW_2 = range(5)
# Lengths of requests, by their place in lengths[].
ZERO, ONE, EIGHT, B255, B256, B300, B1024, B4096, B5000, B20000, B64, B3 = range(12)


def config(kind, flags=ALL_ACCESS, mtu=0, retries=0x77, options=0):
    # With max_rd_atomic and max_dest_rd_atomic 3; limits % 5 is the path MTU.
    limits = 0xf0 + mtu
    more = [options] if options else []
    return bytes([kind | flags | (MORE if more else 0), limits, retries] + more)


def packet(opcode, headers=b'', payload=b'', put=GOOD, distance=0, ack=True, solicited=False,
           migrates=False):
    bth = struct.pack('>BBHII', opcode, solicited << 7 | migrates << 6, 0xffff, 17,
                      (0x80000000 if ack else 0) | distance & 0xff)
    data = bth + headers + payload
    return bytes([0, put, len(data)]) + data


def reth(length, key=ALL, offset=0):
    return struct.pack('>QII', offset, key, length)


def atomiceth(value, compare=0, key=ALL, offset=0):
    return struct.pack('>QIQQ', offset, key, value, compare)


def aeth(syndrome, msn=1):
    return struct.pack('>I', syndrome << 24 | msn)


def deth(qkey=0):
    return struct.pack('>II', qkey, 33)


IMM = b'\1\2\3\4'
XRCETH = bytes(4)


def ieth(key):
    return struct.pack('>I', key)


def sges(length, region=ALL, two=False):
    return length | region << 4 | (64 if two else 0)


def send(opcode, length, flags=SIGNALED, remote=0, region=ALL):
    return bytes([2, opcode, flags, sges(length, region), remote])


def recv(length=B20000, region=ALL, two=False):
    return bytes([3, sges(length, region, two)])


def time(exponent=None):
    return bytes([4, 0 if exponent is None else 0x80 | exponent])


POLL = bytes([5, 15])
TO_ERROR, TO_RESET, TO_SQD, TO_RTS, TOGGLE_ACCESS = (bytes([6, i]) for i in range(5))
REARM, MIGRATE = bytes([6, 8]), bytes([6, 9])


def toggle_region(region):
    return bytes([7, region])


def drop_window(window):
    return bytes([7, 64 | window])


def conversations():
    """(name, input of fuzz_packet)"""
    data = b'0123456789abcdef'
    for kind, bits, name in (RC, RC_BITS, 'rc'), (UC, UC_BITS, 'uc'):
        start = config(kind)
        yield f'{name}_send', start + recv() * 3 + packet(bits | SEND_ONLY, payload=data) + \
            packet(bits | SEND_ONLY_IMM, IMM, data[:3], solicited=True) + \
            packet(bits | SEND_ONLY) + POLL
        yield f'{name}_send_long', start + recv(two=True) + \
            packet(bits | SEND_FIRST, put=FULL) + packet(bits | SEND_MIDDLE, put=FULL) + \
            packet(bits | SEND_MIDDLE, put=FULL) + packet(bits | SEND_LAST, payload=data) + POLL
        yield f'{name}_send_too_long', start + recv(B300) + packet(bits | SEND_FIRST, put=FULL) + \
            packet(bits | SEND_LAST, put=FULL) + POLL
        yield f'{name}_write', start + packet(bits | WRITE_ONLY, reth(16), data) + \
            packet(bits | WRITE_FIRST, reth(256 + 16), put=FULL) + \
            packet(bits | WRITE_LAST, payload=data) + recv() + \
            packet(bits | WRITE_ONLY_IMM, reth(16) + IMM, data) + POLL
        yield f'{name}_write_elsewhere', start + recv() + \
            packet(bits | WRITE_ONLY, reth(16, READABLE), data) + POLL
        yield f'{name}_gap', start + recv() * 2 + packet(bits | SEND_FIRST, put=FULL) + \
            packet(bits | SEND_LAST, payload=data, distance=1) + \
            packet(bits | SEND_ONLY, payload=data, distance=2) + \
            packet(bits | SEND_ONLY, payload=data) + POLL
        yield f'{name}_gap_filled', start + recv() * 3 + \
            packet(bits | SEND_LAST, payload=data, distance=2) + \
            packet(bits | SEND_MIDDLE, put=FULL, distance=1) + \
            packet(bits | WRITE_ONLY, reth(16), data, distance=4) + \
            packet(bits | SEND_FIRST, put=FULL) + \
            packet(bits | SEND_ONLY, payload=data) + time() + POLL
        yield f'{name}_gap_not_filled', start + recv() + \
            packet(bits | SEND_ONLY, payload=data, distance=1) + \
            packet(bits | SEND_ONLY, payload=data, distance=127) + \
            packet(bits | SEND_LAST, payload=data, distance=2) + \
            packet(bits | WRITE_ONLY, reth(16, READABLE), data, distance=3) + \
            packet(bits | SEND_ONLY, payload=data) + POLL + recv() * 3 + \
            packet(bits | SEND_ONLY, payload=data) + TO_RESET + POLL
        yield f'{name}_overrun', config(kind, ALL_ACCESS | SMALL_CQ) + recv() * 7 + \
            packet(bits | SEND_ONLY, payload=data) * 7 + POLL
        yield f'{name}_bind_overrun', config(kind, ALL_ACCESS | SMALL_CQ) + \
            send(WR_SEND, EIGHT) * 6 + bytes([2, WR_BIND, SIGNALED, 0, 1]) + time(20) + POLL
        yield f'{name}_window', start + bytes([2, WR_BIND, SIGNALED, 0, 2 | 1]) + recv() + \
            packet(bits | WRITE_ONLY, reth(16, WINDOW_2), data) + \
            send(WR_LOCAL_INV, ZERO, remote=WINDOW_2) + drop_window(1) + POLL
        yield f'{name}_requests', start + b''.join(
            send(op, length, flags) for op, length, flags in [
                (WR_SEND, ZERO, 0), (WR_SEND_IMM, B64, SIGNALED | INLINE),
                (WR_WRITE, B5000, SIGNALED), (WR_WRITE_IMM, B300, SIGNALED | SOLICITED)]) + \
            time() * 3 + POLL
        yield f'{name}_sqd', start + send(WR_SEND, B1024) + TO_SQD + send(WR_SEND, ONE) + \
            TO_RTS + TO_ERROR + send(WR_SEND, ONE) + recv() + POLL
        yield f'{name}_reset', start + send(WR_WRITE, B1024) + recv() + TO_RESET + recv() + \
            packet(bits | SEND_ONLY, payload=data) + POLL
        yield f'{name}_memory_gone', start + recv() + send(WR_WRITE, B20000) + toggle_region(ALL) + \
            packet(bits | SEND_ONLY, payload=data) + time(20) + POLL + toggle_region(ALL)

    start = config(RC)
    yield 'rc_srq', config(RC, ALL_ACCESS | SRQ) + recv() * 2 + \
        packet(SEND_FIRST, put=FULL) + TO_ERROR + POLL
    yield 'rc_read', start + packet(READ_REQUEST, reth(1000)) + \
        packet(READ_REQUEST, reth(0)) + packet(READ_REQUEST, reth(1000), distance=-5) + \
        packet(READ_REQUEST, reth(256, offset=256), distance=-4) + time(10)
    yield 'rc_read_too_many', start + packet(READ_REQUEST, reth(20000)) * 5 + toggle_region(ALL)
    yield 'rc_atomics', start + packet(FETCH_ADD, atomiceth(1)) + \
        packet(COMPARE_SWAP, atomiceth(7, 5)) + packet(FETCH_ADD, atomiceth(1), distance=-2) + \
        packet(FETCH_ADD, atomiceth(1, offset=3))
    yield 'rc_invalidate', start + bytes([2, WR_BIND, SIGNALED, 0, 2 | 1]) + recv() * 2 + \
        packet(SEND_ONLY_INVALIDATE, ieth(WINDOW_2), data) + \
        packet(SEND_ONLY_INVALIDATE, ieth(WINDOW_2), data) + POLL
    yield 'rc_rnr', start + packet(SEND_ONLY, payload=data) + recv() + \
        packet(SEND_ONLY, payload=data) + POLL
    yield 'rc_strangers', start + packet(SEND_ONLY, put=GOOD | OTHER_SOURCE) + \
        packet(SEND_ONLY, put=GOOD | BAD_ICRC) + packet(SEND_ONLY, put=GOOD & ~QP) + \
        packet(UD_BITS | SEND_ONLY, deth()) + packet(0x81, bytes(16)) + packet(0x1f)

    # What the QP asked for is answered. The distance is from the oldest unacknowledged PSN.
    ack = packet(ACKNOWLEDGE, aeth(0x1f))
    yield 'rc_acknowledged', start + send(WR_SEND, EIGHT) + ack + \
        send(WR_WRITE, B1024) + packet(ACKNOWLEDGE, aeth(0x1f), distance=1) + \
        packet(ACKNOWLEDGE, aeth(0x1f), distance=1) + POLL
    yield 'rc_answered', start + send(WR_READ, B5000) + \
        packet(READ_FIRST, aeth(0x1f), put=FULL) + packet(READ_MIDDLE, put=FULL) * 18 + \
        packet(READ_LAST, aeth(0x1f), bytes(136)) + send(WR_ADD, EIGHT) + \
        packet(ATOMIC_ACKNOWLEDGE, aeth(0x1f) + bytes(8)) + send(WR_READ, EIGHT) + \
        packet(READ_ONLY, aeth(0x1f), bytes(8)) + POLL
    yield 'rc_answered_wrongly', start + send(WR_READ, B300) + \
        packet(READ_ONLY, aeth(0x1f), bytes(8)) + POLL
    yield 'rc_response_unasked', start + send(WR_SEND, EIGHT) + \
        packet(READ_ONLY, aeth(0x1f), bytes(8)) + POLL
    yield 'rc_response_lost', start + send(WR_READ, EIGHT) + send(WR_SEND, EIGHT) + \
        packet(ACKNOWLEDGE, aeth(0x1f), distance=1) * 2 + packet(READ_ONLY, aeth(0x1f), bytes(8)) + \
        ack + POLL
    for name, syndrome in [('sequence', 0x60), ('invalid', 0x61), ('access', 0x62),
                           ('operation', 0x63), ('rd', 0x64), ('rnr', 0x21), ('reserved', 0x40)]:
        yield f'rc_nak_{name}', start + send(WR_SEND, B1024) * 2 + \
            packet(ACKNOWLEDGE, aeth(syndrome), distance=1) + time() + \
            packet(ACKNOWLEDGE, aeth(syndrome), distance=1) + ack + POLL
    flush, word = struct.pack('>I', 1), bytes(8)
    flush_region = struct.pack('>I', 0x11)
    yield 'rc_flush', config(RC) + packet(WRITE_ONLY, reth(16), data) + \
        packet(FLUSH, flush + reth(16)) + packet(FLUSH, flush_region + reth(0)) + \
        packet(ATOMIC_WRITE, reth(8), word) + packet(FLUSH, flush + reth(16), distance=0xfe) + \
        packet(ATOMIC_WRITE, reth(8), word, distance=0xff) + \
        packet(FLUSH, flush + reth(16)) * 4 + packet(FLUSH, struct.pack('>I', 2) + reth(16)) + POLL
    yield 'rc_post_flush', config(RC) + send(WR_WRITE, EIGHT) + \
        send(WR_FLUSH, ZERO, SIGNALED | EXTENDED) + send(WR_ATOMIC_WRITE, EIGHT) + \
        packet(READ_ONLY, aeth(0x1f), distance=1) + packet(READ_ONLY, aeth(0x1f)) + \
        send(WR_FLUSH, ZERO) + send(WR_FLUSH, ZERO, EXTENDED) + time() + POLL
    yield 'rc_retries_exceeded', config(RC, retries=0x11) + send(WR_SEND, B1024) + time() * 3 + POLL
    yield 'rc_fence', start + send(WR_READ, B1024) + send(WR_SEND, EIGHT, SIGNALED | FENCE) + \
        send(WR_LOCAL_INV, ZERO, remote=WINDOW_2) + POLL
    yield 'rc_overrun_in_flight', config(RC, ALL_ACCESS | SMALL_CQ) + \
        send(WR_SEND, EIGHT) * 7 + send(WR_READ, EIGHT) + \
        packet(READ_ONLY, aeth(0x1f), bytes(8), distance=7) + POLL
    yield 'rc_access', start + packet(WRITE_ONLY, reth(16), data) + TOGGLE_ACCESS + \
        packet(WRITE_ONLY, reth(16), data) + POLL

    # What the options change.
    yield 'rc_placed_late', config(RC, options=PLACED_LATE | EXPLAINED) + recv() * 2 + \
        packet(WRITE_FIRST, reth(512 + 16), put=FULL) + packet(WRITE_MIDDLE, put=FULL) + \
        packet(WRITE_LAST, payload=data) + packet(WRITE_ONLY, reth(16, offset=8), data) + \
        packet(READ_REQUEST, reth(1000)) + packet(WRITE_ONLY, reth(16, WINDOW_2), data) + \
        packet(SEND_ONLY, payload=data) + send(WR_READ, B300) + toggle_region(ALL) + time(10) + POLL
    yield 'rc_read_placed_late', config(RC, options=PLACED_LATE) + send(WR_READ, B300) + \
        packet(READ_FIRST, aeth(0x1f), put=FULL) + packet(READ_LAST, aeth(0x1f), bytes(44)) + \
        send(WR_SEND, B300, SIGNALED | FENCE) + POLL + time() + POLL
    yield 'rc_drops', config(RC, options=DROPS_OUT_OF_ORDER | EXPLAINED) + recv() + \
        packet(SEND_ONLY, payload=data, distance=1) + packet(SEND_ONLY, payload=data) * 2 + \
        send(WR_READ, EIGHT) * 2 + packet(READ_ONLY, aeth(0x1f), bytes(8), distance=1) + \
        packet(READ_ONLY, aeth(0x1f), bytes(8)) + time() + POLL
    yield 'rc_checks_rkey', config(RC, options=CHECKS_RKEY | EXPLAINED) + \
        packet(WRITE_ONLY, reth(0)) + packet(READ_REQUEST, reth(0)) + \
        packet(WRITE_ONLY, reth(0, 99), put=GOOD & ~KEY)
    yield 'rc_shared', config(RC, options=SHARED | MARKED) + recv() * 2 + \
        packet(SEND_ONLY, payload=data) + packet(SEND_ONLY, payload=data, distance=1) + \
        packet(WRITE_FIRST, reth(256 + 16), put=FULL) + packet(WRITE_LAST, payload=data) + \
        packet(SEND_ONLY, put=GOOD | BAD_ICRC) + packet(FETCH_ADD, atomiceth(1)) + \
        send(WR_READ, EIGHT) + packet(READ_ONLY, aeth(0x1f), bytes(8)) + \
        packet(0x81, bytes(16)) + time(20) + packet(READ_REQUEST, reth(1000)) + POLL
    # A packet arms it; the peer migrates, then the application does, then it has to.
    elsewhere = GOOD | OTHER_SOURCE
    yield 'rc_migrates', config(RC, retries=0x11, options=EXPLAINED) + REARM + recv() * 5 + \
        packet(SEND_ONLY, payload=data) + packet(SEND_ONLY, put=elsewhere, migrates=True) + \
        packet(SEND_ONLY, payload=data) + REARM + packet(SEND_ONLY, put=elsewhere) + MIGRATE + \
        packet(SEND_ONLY, migrates=True) + REARM + packet(SEND_ONLY) + send(WR_SEND, B64) + \
        time() * 8 + POLL
    yield 'uc_migration_refused', config(UC, options=EXPLAINED) + REARM + \
        packet(UC_BITS | SEND_ONLY, put=elsewhere, migrates=True) * 2 + MIGRATE + REARM

    # What fails, and is explained.
    def each(*steps):
        return b''.join(step + POLL + TO_RESET for step in steps)

    writes = [packet(WRITE_ONLY, reth(*where), data) for where in (
        (16, ALL, 19990), (16, ALL, 30000), (16, READABLE), (16, LOCAL), (16, WINDOW_1), (20,), (0x90000000,))]
    yield 'rc_refuses', config(RC, options=EXPLAINED) + each(
        *writes, toggle_region(ALL) + writes[0] + toggle_region(ALL), packet(SEND_LAST, payload=data),
        recv() + packet(SEND_FIRST, payload=data), recv(B300, READABLE) + packet(SEND_ONLY, payload=data),
        packet(FETCH_ADD, atomiceth(1, offset=3)), packet(FLUSH, bytes(4) + reth(16)))
    bind, response = bytes([2, WR_BIND, SIGNALED, 0, 2 | 1]), packet(READ_ONLY, aeth(0x1f), data)
    yield 'rc_fails', config(RC, retries=0x11, options=EXPLAINED) + each(
        toggle_region(ALL) + send(WR_SEND, EIGHT) + toggle_region(ALL), bind * 2,
        bytes([2, WR_BIND, SIGNALED, 0, 4 | 1]), send(WR_LOCAL_INV, ZERO), send(WR_READ, B300) + response,
        send(WR_READ, EIGHT, region=READABLE) + packet(READ_ONLY, aeth(0x1f), data[:8]),
        send(WR_SEND, EIGHT) + response, send(WR_SEND, EIGHT) + (packet(ACKNOWLEDGE, aeth(0x21)) + time()) * 3,
        send(WR_SEND, EIGHT) + time() * 3)

    def request(opcode, headers=b'', payload=b'', **named):
        return packet(XRC_BITS | opcode, XRCETH + headers, payload, **named)

    for name, options in ('xrc', 0), ('xrc_optional', 0x3f):
        yield name, config(XRC_RECV, options=options) + recv() * 4 + \
            request(SEND_FIRST, put=FULL) + request(SEND_LAST, payload=data) + \
            request(SEND_ONLY_IMM, IMM, data) + request(WRITE_ONLY, reth(16), data) + \
            request(WRITE_ONLY_IMM, reth(0) + IMM) + request(FETCH_ADD, atomiceth(1)) + \
            request(READ_REQUEST, reth(1000)) + request(READ_REQUEST, reth(1000), distance=-4) + \
            request(SEND_ONLY, payload=data, distance=1) + request(SEND_ONLY, payload=data) + \
            request(SEND_ONLY, put=GOOD & ~KEY) + POLL + request(SEND_ONLY, payload=data) + POLL
    yield 'xrc_not_ready', config(XRC_RECV, options=EXPLAINED) + request(SEND_ONLY, payload=data) + \
        recv(B64) + request(SEND_FIRST, put=FULL) + REARM + TO_ERROR + request(SEND_ONLY) + POLL

    start = config(UD)
    datagram = packet(UD_BITS | SEND_ONLY, deth(), data)
    yield 'ud', start + recv() * 3 + datagram + packet(UD_BITS | SEND_ONLY_IMM, deth() + IMM, data) + \
        packet(UD_BITS | SEND_ONLY, deth(5), data, put=GOOD & ~QKEY) + \
        send(WR_SEND, B300) + send(WR_SEND_IMM, B64, SIGNALED | INLINE) + POLL
    yield 'ud_too_long', start + recv(B64) + recv() + \
        packet(UD_BITS | SEND_ONLY, deth(), put=FULL) + send(WR_SEND, B20000) + POLL
    yield 'ud_srq', config(UD, SRQ) + recv(EIGHT) + datagram * 2 + POLL
    # At first the receiver is full, as it looks to stub_rcvbuf_space().
    yield 'ud_paced', start + send(WR_SEND, B255) * 3 + time() * 4 + time(20) + POLL
    yield 'ud_error', start + toggle_region(LOCAL) + send(WR_SEND, EIGHT, region=LOCAL) + \
        send(WR_SEND, EIGHT) + TO_RTS + send(WR_SEND, EIGHT) + POLL


# fuzz_connect: which fields of a message are put right, and the steps of applications.
REMOTE, LOCAL, RIGHT_QPN, SERVICE, GID, ANSWER, OTHER_SENDER, RAW = (1 << i for i in range(8))
REQ, MRA, REJ, REP, RTU, DREQ, DREP, SIDR_REQ, SIDR_REP, LAP, APR = range(11)
TO_OUR_ID = REMOTE | LOCAL | RIGHT_QPN


def message(attribute, flags, slot=0, body=b''):
    return bytes([0, flags, attribute, slot, len(body)]) + body


def connect(slot=0, qpn=1, life_time=16, datagram=False, alternate=False, xrc=False):
    return bytes([3, slot | qpn << 3 | datagram << 7, life_time | alternate << 5 | xrc << 6])


def answer(what, slot=0, length=0, high=1):
    return bytes([4, slot, what | high << 4, length])


(SEND_REP, SEND_RTU, SEND_REJ, SEND_MRA, SEND_DREQ, SEND_DREP, SEND_SIDR_REP, NOTIFY,
 SEND_LAP) = range(9)
THERE = 7 # stands for the number of the QP that there is


def listen(datagram=False, early=False):
    return bytes([6, (2 if datagram else 0) | (8 if early else 0)])


def destroy(slot=0):
    return bytes([5, slot])


def wait(exponent=None):
    return bytes([7, 0 if exponent is None else 0x80 | exponent])


def comm_id(number, qpn=0, xrc=False):
    """The beginning of a REQ, with a response timeout, an MTU and retries."""
    body = bytearray(96)
    body[3] = number
    body[32:35] = qpn.to_bytes(3, 'big')
    body[47], body[50], body[51], body[95] = 0xa7, 0x37, 0x30, 0x88
    if xrc:
        body[36:39], body[43], body[51] = body[32:35], 3 << 1, body[51] | 1
    return bytes(body)


ELSEWHERE = bytes(10) + b'\xff\xff\x0a\0\0\3' # another address of the peer


def connections():
    """(name, input of fuzz_connect)"""
    rep = message(REP, ANSWER, body=bytes(3) + b'\5' + bytes(8) + b'\0\0\2' + bytes(11) + b'\x78')
    request = message(REQ, SERVICE | GID, body=comm_id(3, 4))
    active = connect() + rep + answer(SEND_RTU)
    passive = listen() + request + answer(SEND_REP) + message(RTU, TO_OUR_ID)
    yield 'active', active + answer(SEND_DREQ) + message(DREP, TO_OUR_ID) + wait()
    yield 'active_left', active + message(DREQ, TO_OUR_ID) + answer(SEND_DREP) + wait() * 2
    yield 'active_again', active + rep + message(REP, TO_OUR_ID) + message(LAP, TO_OUR_ID) + \
        message(APR, TO_OUR_ID) + destroy() + message(DREQ, TO_OUR_ID)
    yield 'active_crossing', active + answer(SEND_DREQ) + message(DREQ, TO_OUR_ID) + \
        answer(SEND_DREP) + message(DREP, TO_OUR_ID) + message(DREQ, TO_OUR_ID)
    yield 'active_silence', connect(life_time=0) + wait() * 20
    yield 'active_slow', connect() + message(MRA, ANSWER, body=bytes(9) + b'\xa0') + wait() * 2 + \
        rep + answer(SEND_MRA, length=20) + rep + answer(SEND_REJ, length=28)
    yield 'active_rejected', connect() + message(REJ, ANSWER, body=bytes(10) + b'\0\x1c') + \
        connect() + message(REJ, ANSWER, body=bytes(10) + b'\0\x0a') + wait()
    yield 'active_destroyed', connect() + destroy() + connect() + rep + destroy() + active + destroy()
    yield 'active_stale', active + connect(1) + rep + destroy(1)
    yield 'passive', passive + message(DREQ, TO_OUR_ID) + answer(SEND_DREP) + request + wait()
    yield 'passive_again', listen() + request * 2 + answer(SEND_REP) + request + wait() + \
        message(RTU, TO_OUR_ID) * 2
    yield 'passive_notified', listen() + request + answer(SEND_REP) + answer(NOTIFY) * 2 + \
        message(RTU, TO_OUR_ID) + answer(SEND_DREQ) + wait() * 20
    yield 'passive_silence', listen() + request + answer(SEND_REP) + wait() * 20
    yield 'passive_rejects', listen() + request + answer(SEND_REJ, length=28) + request + \
        answer(SEND_REP, length=200) + answer(SEND_REP) + answer(SEND_REJ, length=3) + request
    yield 'passive_stale', passive + message(REQ, SERVICE | GID, body=comm_id(5, 4)) + wait()
    yield 'passive_many', listen() + b''.join(
        message(REQ, SERVICE | GID, body=comm_id(i % 8, i % 7)) for i in range(12)) + listen()
    yield 'passive_timeout_reject', listen() + request + answer(SEND_REP) + message(
        REJ, LOCAL, body=bytes(10) + b'\0\4' + bytes(7) + b'\2')
    yield 'early', listen(early=True) + request * 3 + message(SIDR_REQ, SERVICE)
    yield 'before_listening', request * 2 + listen() + destroy(7)
    yield 'nobody', request + message(REQ, GID) + message(REQ, SERVICE) + message(SIDR_REQ, 0) + \
        b''.join(message(attribute, 0, body=b'\1' * 8) for attribute in range(11))
    yield 'datagram', connect(datagram=True, life_time=1) + wait() + message(SIDR_REP, ANSWER) + \
        connect(datagram=True) + wait() * 20
    yield 'datagram_served', listen(True) + message(SIDR_REQ, SERVICE, body=b'\0\0\0\1') * 2 + \
        answer(SEND_SIDR_REP) + message(SIDR_REQ, SERVICE, body=b'\0\0\0\2') + destroy()
    lap = message(LAP, TO_OUR_ID | GID, body=bytes(24) + ELSEWHERE)
    yield 'alternate', connect(qpn=THERE, alternate=True) + rep + answer(SEND_RTU) + \
        answer(SEND_LAP) * 2 + message(APR, TO_OUR_ID) + answer(SEND_LAP) + wait() * 20 + lap * 2 + \
        answer(SEND_LAP) + message(APR, TO_OUR_ID, body=bytes(9) + b'\5') + message(DREQ, TO_OUR_ID)
    yield 'alternate_passive', listen() + \
        message(REQ, SERVICE | GID, body=comm_id(3, 4) + bytes(4) + ELSEWHERE) + \
        answer(SEND_REP, high=THERE) + message(RTU, TO_OUR_ID) + lap + answer(SEND_LAP) + wait() + \
        message(APR, TO_OUR_ID) + answer(SEND_DREQ) + wait() * 20
    yield 'xrc', connect(xrc=True) + rep + answer(SEND_RTU) + destroy() + listen() + \
        message(REQ, SERVICE | GID, body=comm_id(3, 4, xrc=True)) + answer(SEND_REP) + \
        message(RTU, TO_OUR_ID)
    yield 'raw', message(0, RAW, body=bytes([1, 7, 2, 3]) + bytes(13) + b'\x13' + bytes(60)) + \
        message(0, RAW, body=bytes([1, 3, 2, 3])) + message(REQ, OTHER_SENDER | SERVICE)


def parses():
    """(name, input of fuzz_parse): flags, identification, UDP payload."""
    vectors = {
        'acknowledge': '1140ffff00000011000000801f000001c0ffee01',
        'send': '0400ffff00000011800000016461746100000000',
        'write_last_imm': '0910ffff00000011800000020102030401020300aabbccdd',
        'read_request': '0c00ffff0000001180000003000000001000000000000100000003e8a1b2c3d4',
        'compare_swap': '1300ffff00000011800000040000000000001000000001000000000000000007'
                        '00000000000000050badf00d',
        'datagram': '6400ffff000000110000000511111111000000210badcafe',
        'congestion': '8100ffff400000110000000000000000000000000000000000000000deadbeef',
        'headers_missing': '0c00ffff0000001180000003deadbeef',
        'pad_missing': '0430ffff0000001180000003deadbeef',
        'short': '0400ffff0000001180000001000000',
        'version': '0401ffff000000118000000100000000',
    }
    for name, text in vectors.items():
        data = bytes.fromhex(text)
        yield name, bytes([4, 0x12, 0x34]) + data
        yield name + '_6', bytes([5, 0, 0]) + data
        yield name + '_unknown', bytes([2, 0, 0]) + data


def faults():
    """(name, input of fuzz_faults)"""
    for i, text in enumerate([
            '', 'drop=1%', 'seed=7;drop=1%;dup=0.5%;reorder=0.5%', 'drop#3/RC_ACKNOWLEDGE@rx',
            'corrupt=100%@rx', 'delay(500us)=0.5/RC_SEND>17,dup#2@tx', 'reorder=100%;delay(1s)=100%@rx',
            'seed=18446744073709551615 , drop=0.0001', 'drop=1.1', 'drop#0', 'delay(1h)=1%',
            'drop=1%/NOTHING', 'drop=1%>0xffffff;corrupt#18446744073709551615', 'drop#2+[10.0.0.1];dup=1%[fd00::1]@rx',
            'drop#2*/CM_REP;delay(2s)#1/CM_RTU/RC_SEND', 'fail#1;fail(ENOMEM)#3/ibv_reg_mr;fail(12)=1%/rdma_',
            'complete(RETRY_EXC_ERR)#10/RDMA_WRITE>17;late(2ms)#7*/RECV', 'event(PORT_ERR)@2s;event(QP_FATAL)#3/SEND>17',
            'down(500ms)@2s;remove#1000;reject(NO_RESOURCES)#1/CM_REQ;reject(28)#2', 'coalesce(4);spurious#3;coalesce(2)=1%',
            'fail(EFOO)#3', 'complete(SUCCESS)#1', 'event(PORT_ERR)', 'fail#1/RC_SEND', 'reject#1/CM_RTU', 'down(1s']):
        yield f'{i:02}', text.encode()


# fuzz_calls: the end, and then the calls in the order of their table.
(OBJECTS, CREATE_QP, CONNECT_QP, POST_RECV, POST_SEND, POLL_CQ, POLL_ALL, MODIFY_QP, DESTROY_QP,
 QUERY_QP, WR, BIND_MW, ALLOC_PD, DEALLOC_PD, REG_MR, REREG_MR, DEREG_MR, ALLOC_MW, DEALLOC_MW,
 CREATE_AH, DESTROY_AH, OPEN_XRCD, CLOSE_XRCD, CREATE_CHANNEL, DESTROY_CHANNEL, CREATE_CQ,
 RESIZE_CQ, MODIFY_CQ, DESTROY_CQ, CREATE_SRQ, MODIFY_SRQ, DESTROY_SRQ, POST_SRQ_RECV,
 ATTACH_MCAST, DETACH_MCAST, REQ_NOTIFY, GET_CQ_EVENT, ACK_CQ_EVENTS, GET_ASYNC_EVENT,
 ACK_ASYNC_EVENTS, ALLOC_PARENT_DOMAIN, DRAIN, OPEN_QP,
 MODIFY_HANDLE, CLOSE_HANDLE, REG_MR_IOVA, ALLOC_DM, COPY_DM, FREE_DM, REG_DM_MR, ALLOC_NULL_MR,
 REG_DMABUF_MR, ADVISE_MR, ALLOC_TD, DEALLOC_TD, ALLOC_THREADS_DOMAIN, ECE, IMPORT_MR,
 UNIMPORT_MR) = range(59)
DRAINED, CLOSED_FIRST = 1, 2
QP_UC, QP_UD, QP_XRC_SEND, QP_XRC_RECV, WITH_SRQ, ALL_SIGNALED, WITH_BUILDER = 1, 2, 3, 4, 8, 16, 32
(OP_SEND, OP_WRITE, OP_SEND_IMM, OP_READ, OP_WRITE_IMM, OP_COMPARE, OP_ADD, OP_SEND_INV, OP_INV,
 OP_BIND, OP_ATOMIC_WRITE, OP_TSO, OP_FLUSH, OP_UNKNOWN, OP_BUILT_FLUSH) = range(15)
ZERO_BASED, ON_DEMAND, ZERO_BASED_BOUND = 7, 9, 12 # of accesses[]


def qp_call(what=0, caps=0, cqs=(0, 1), pd=0):
    return bytes([CREATE_QP, what, caps, pd, cqs[0], cqs[1]]) + (b'\0' if what & WITH_SRQ else b'') + b'\0'


def staged(op, flags=SIGNALED, choice=0, lkey=0, rkey=0, source=1, kind=0, bind=0):
    """As stage() reads it."""
    data = b'' if op in (OP_INV, OP_BIND) and choice & 0xc0 != 0xc0 else bytes([source, lkey])
    far = bytes([0, bind, 0]) if op == OP_BIND else b'' if kind == QP_UD else bytes([rkey])
    return bytes([op, flags, choice]) + data + far + bytes([0, 1])


def flushed(how, flags=SIGNALED, rkey=0):
    """Of FLUSH: placement, selectivity and length in @how."""
    return bytes([OP_BUILT_FLUSH, flags, 0, how, rkey, 0, 1])


def posted(*requests, qp=0):
    return bytes([POST_SEND, qp, len(requests) - 1]) + b''.join(requests)


def built(*requests, qp=0, abort=False):
    return bytes([WR, qp, len(requests) | (0x80 if abort else 0)]) + b''.join(requests)


def received(count=1, qp=1, choice=0, lkey=0):
    return bytes([POST_RECV, qp, count - 1]) + bytes([choice, lkey]) * count


def modified(state, mask, qp=0, peer=1, value=0, more=0):
    return bytes([MODIFY_QP, qp, peer, state, value, mask >> 8, mask & 255, more])


TO_STATE_ERR, TO_STATE_RESET, TO_STATE_SQD, TO_STATE_RTS = (modified(s, 1) for s in (6, 0, 4, 3))


def programs():
    """(name, input of fuzz_calls)"""
    connect, poll = bytes([CONNECT_QP, 0, 1]), bytes([POLL_ALL])
    events = bytes([GET_ASYNC_EVENT, 0, GET_CQ_EVENT, 0])
    for end in range(4):
        yield f'end_{end}', bytes([end, OBJECTS, 0]) + qp_call() * 2 + connect + received(3) + \
            posted(staged(OP_SEND), staged(OP_WRITE), staged(OP_READ)) + poll + received(2)
    for name, kind in [('rc', 0), ('uc', QP_UC), ('ud', QP_UD)]:
        start = bytes([DRAINED, OBJECTS, 0]) + qp_call(kind) * 2 + connect
        yield f'{name}_operations', start + b''.join(
            received() + posted(staged(op, choice=choice, kind=kind)) + poll
            for op in range(14) for choice in (0, 5, 0x26))
        yield f'{name}_states', start + received(4) + b''.join(
            move + posted(staged(OP_SEND, kind=kind), staged(OP_SEND, 0, kind=kind)) + received(1) + poll
            for move in (TO_STATE_SQD, TO_STATE_RTS, TO_STATE_ERR, TO_STATE_RESET, connect))
        yield f'{name}_full', start + posted(*[staged(OP_SEND, flags=0, kind=kind)] * 4) + \
            posted(staged(OP_SEND, kind=kind)) + received(4) + received(2) + poll
        yield f'{name}_wrong', start + received(4) + posted(
            staged(OP_SEND, kind=kind), staged(OP_SEND, lkey=0xff, kind=kind), staged(OP_SEND, kind=kind)) + \
            poll + posted(staged(OP_SEND, choice=0xc1, kind=kind)) + events
        yield f'{name}_built', bytes([DRAINED, OBJECTS, 0]) + qp_call(kind | WITH_BUILDER) * 2 + connect + \
            received(4) + built(staged(OP_SEND, kind=kind), staged(OP_SEND_IMM, flags=2 | 8, kind=kind)) + \
            built(staged(OP_SEND, kind=kind), abort=True) + built() + poll + \
            posted(staged(OP_SEND, kind=kind)) + built(*[staged(OP_SEND, kind=kind)] * 4) + poll
        yield f'{name}_small_cq', bytes([DRAINED, OBJECTS, 0, CREATE_CQ, 0, 0, 2]) + \
            qp_call(kind | ALL_SIGNALED, cqs=(2, 2)) * 2 + connect + received(4) + \
            posted(*[staged(OP_SEND, kind=kind)] * 4) + poll + events
        yield f'{name}_srq', bytes([DRAINED, OBJECTS, 0, CREATE_SRQ, 0, 0x0c]) + \
            qp_call(kind | WITH_SRQ) * 2 + connect + bytes([MODIFY_SRQ, 0, 0x42]) + \
            bytes([POST_SRQ_RECV, 0, 3]) + bytes(8) + posted(*[staged(OP_SEND, kind=kind)] * 3) + poll + \
            TO_STATE_ERR + bytes([DESTROY_SRQ, 0, GET_ASYNC_EVENT, 0, DESTROY_QP, 0])
    start = bytes([DRAINED, OBJECTS, 0])
    yield 'windows', start + qp_call() * 2 + connect + bytes([ALLOC_MW, 0, 1]) + \
        posted(staged(OP_BIND)) + poll + posted(staged(OP_WRITE, rkey=0x42), qp=1) + poll + \
        posted(staged(OP_INV, rkey=0x42)) + bytes([BIND_MW, 0, 2, 0, 0, 1]) + poll + \
        posted(staged(OP_READ, rkey=0x40)) + poll + posted(staged(OP_WRITE, rkey=0x42), qp=1) + poll + bytes([DEREG_MR, 0, DEALLOC_MW, 0, DEREG_MR, 0])
    yield 'events', start + qp_call(cqs=(0, 2)) * 2 + connect + bytes([CREATE_CQ, 0, 3, 0, 0]) + \
        bytes([REQ_NOTIFY, 0, 0, REQ_NOTIFY, 1, 1]) + received() + posted(staged(OP_SEND)) + poll + \
        events + bytes([ACK_CQ_EVENTS, 0, ACK_ASYNC_EVENTS, MODIFY_CQ, 0, 0x15, RESIZE_CQ, 0, 3])
    yield 'groups', start + qp_call(QP_UD) * 2 + connect + bytes([CREATE_AH, 0, 2, ATTACH_MCAST, 1, 0]) + \
        received(2) + bytes([DESTROY_QP, 1]) + posted(staged(OP_SEND, kind=QP_UD)) + poll + \
        bytes([DETACH_MCAST, 1, 0])
    yield 'xrc', start + bytes([CREATE_SRQ, 0, 0x8c, 0, 0]) + qp_call(QP_XRC_SEND) + qp_call(QP_XRC_RECV) + \
        connect + bytes([POST_SRQ_RECV, 0, 3]) + bytes(8) + posted(staged(OP_SEND), staged(OP_SEND_IMM)) + \
        poll + bytes([CLOSE_XRCD, 0, DESTROY_SRQ, 0, DESTROY_QP, 1, CLOSE_XRCD, 0])
    opened = bytes([OPEN_QP, 1, 0, 0])
    yield 'opened', start + bytes([CREATE_SRQ, 0, 0x8c, 0, 0]) + qp_call(QP_XRC_SEND) + qp_call(QP_XRC_RECV) + \
        connect + opened * 2 + bytes([POST_SRQ_RECV, 0, 3]) + bytes(8) + bytes([DESTROY_QP, 1]) + \
        posted(staged(OP_SEND), staged(OP_SEND_IMM)) + poll + bytes([CLOSE_HANDLE, 0, CLOSE_XRCD, 0]) + \
        bytes([OPEN_QP, 0, 0, 2, 0, MODIFY_HANDLE, 0, 0]) + events + bytes([CLOSE_HANDLE, 0, CLOSE_HANDLE, 1])
    users = {'mr': DEREG_MR, 'mw': DEALLOC_MW, 'ah': DESTROY_AH}
    for name in users:
        yield f'in_use_{name}', start + b''.join(
            bytes([call, 0]) for other, call in users.items() if other != name) + bytes([DEALLOC_PD, 0])
    yield 'in_use', start + qp_call() + bytes([DEALLOC_PD, 0, DESTROY_CQ, 0, DESTROY_CQ, 1,
                                               DESTROY_CHANNEL, 0, REREG_MR, 0, 0, 4, 0, 1])
    for name, kind in [('rc', 0), ('uc', QP_UC), ('ud', QP_UD)]:
        yield f'{name}_two_devices', start + bytes([OBJECTS, 1]) + qp_call(kind) + \
            qp_call(kind, cqs=(2, 3), pd=1) + connect + bytes([POST_RECV, 1, 3]) + b'\0\1' * 4 + \
            b''.join(posted(staged(op, choice=8, rkey=1, kind=kind)) + poll for op in range(8)) + \
            bytes([DESTROY_QP, 1]) + posted(staged(OP_SEND, kind=kind)) + poll
    drain = bytes([DRAIN, 0, 1])
    yield 'drained', start + qp_call() * 2 + connect + received(4) + posted(staged(OP_SEND)) + poll + drain + \
        posted(staged(OP_SEND)) + drain + poll + drain + bytes([GET_ASYNC_EVENT, 0])
    asked = [staged(op, rkey=0xe0) for op in (OP_WRITE, OP_READ, OP_ADD, OP_COMPARE)]
    yield 'dead_keys', start + qp_call() * 2 + b''.join(connect + posted(one) + poll for one in asked) + \
        bytes([DEALLOC_MW, 0, DEREG_MR, 0, REG_MR, 0, 0, 0]) + \
        b''.join(connect + posted(one) + poll for one in asked)
    yield 'invalidated', start + qp_call() * 2 + connect + received(3, qp=0) + posted(staged(OP_BIND)) + poll + \
        posted(staged(OP_WRITE, rkey=0x42), qp=1) + posted(staged(OP_SEND_INV, rkey=0x42), qp=1) + poll + \
        posted(staged(OP_WRITE, rkey=0x42), qp=1) + poll
    yield 'atomics', start + qp_call() * 2 + connect + \
        b''.join(posted(staged(OP_ADD), staged(OP_COMPARE), staged(OP_ADD), staged(OP_COMPARE), qp=i % 2) + poll
                 for i in range(4))
    # Operations by the second region, on either side.
    operations = [OP_SEND, OP_WRITE, OP_READ, OP_WRITE_IMM, OP_COMPARE, OP_ADD, OP_ATOMIC_WRITE]
    regions = {
        'iova': bytes([REG_MR_IOVA, 0, 0, 0, 0]),
        'zero_based': bytes([REG_MR, 0, 0, ZERO_BASED]),
        'on_demand': bytes([REG_MR, 0, 0, ON_DEMAND, ADVISE_MR, 0, 1, 0]),
        'device_memory': bytes([ALLOC_DM, 0, 0, REG_DM_MR, 0, 0, ZERO_BASED, 0, COPY_DM, 0, 0, COPY_DM, 0, 0x42]),
        'null_region': bytes([ALLOC_NULL_MR, 0]),
    }
    for name, region in regions.items():
        yield name, start + region + qp_call(WITH_BUILDER) * 2 + b''.join(
            connect + received(lkey=far) + each([staged(op, choice=choice, lkey=near, rkey=far)]) + poll
            for op in operations for choice in (0, 3) for near, far in ((1, 0), (0, 1), (1, 1))
            for each in (lambda list: posted(*list), lambda list: built(*list))) + \
            bytes([FREE_DM, 0, DEREG_MR, 1, FREE_DM, 0, REREG_MR, 0, 0, 3, 0, 0])
    yield 'windows_iova', start + bytes([REG_MR_IOVA, 0, 0, 0, 1]) + qp_call() * 2 + connect + b''.join(
        posted(bytes([OP_BIND, SIGNALED, 0, 1, bind, 0, 0, 0])) + poll +
        posted(staged(OP_WRITE, rkey=0x42), staged(OP_READ, rkey=0x42), qp=1) + poll +
        posted(staged(OP_INV, rkey=0x42)) + poll for bind in (0, 8))
    yield 'flushes', start + qp_call(WITH_BUILDER) * 2 + connect + b''.join(
        connect + built(staged(OP_WRITE, flags=0, choice=5), flushed(how)) + poll
        for how in (1, 0x29, 2, 3, 0xa1, 8, 4, 0x11)) + posted(flushed(1)) + poll + \
        connect + bytes([DEREG_MR, 0]) + built(flushed(9, rkey=0xe0)) + poll
    imported = bytes([IMPORT_MR, 0, 1])
    yield 'imports', start + bytes([ALLOC_PD, 0]) + imported * 3 + bytes([DEREG_MR, 0, UNIMPORT_MR, 0, DEALLOC_PD, 1, ALLOC_PD, 1]) + \
        bytes([REG_MR, 0, 0, 0]) + imported + bytes([UNIMPORT_MR, 1]) + bytes([IMPORT_MR, 0, 0])
    yield 'domains', start + bytes([ALLOC_TD, 0, 0, ALLOC_TD, 1, 1, ALLOC_THREADS_DOMAIN, 0, 0, DEALLOC_TD, 0]) + \
        qp_call(pd=1) * 2 + connect + received() + posted(staged(OP_SEND)) + bytes([ECE, 0, 1, ECE, 0, 0x80]) + \
        poll + bytes([REG_DMABUF_MR, 0, 0, 0, DEALLOC_PD, 1, DEALLOC_TD, 0])
    yield 'to_itself', start + qp_call() + bytes([CONNECT_QP, 0, 0]) + received(2, qp=0) + \
        posted(staged(OP_SEND), staged(OP_READ)) + poll


def main():
    top = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / 'corpus'
    for target, seeds in [('packet', conversations()), ('connect', connections()),
                          ('parse', parses()), ('faults', faults()),
                          ('calls', programs())]:
        (top / target).mkdir(parents=True, exist_ok=True)
        for name, data in seeds:
            (top / target / name).write_bytes(data)


if __name__ == '__main__':
    main()
