#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Compare a capture of ours with one of Linux rxe, header field by header field.

    compare_golden.py [--lossy] [--prefix] [--ends] [--rsockets] [--ignore FIELD,...] GOLDEN.pcap OURS.pcap

The packets are sorted into flows: one per direction, destination QP and kind
(requests or responses).  Directions are matched by address order (the node
with the lower address in one file is the node with the lower address in the
other), QPs by order of appearance.  Then, per flow:

  - what must differ between runs is made comparable: PSNs count from the first
    request of their flow, virtual addresses from the first with their R_Key,
    R_Keys and source QPs are numbered in order of appearance, immediate data
    that is the sender's QP number is shown as that;
  - requests are compared in PSN order of first transmission; retransmissions
    only have to repeat the original;
  - read responses and atomic acknowledges likewise;
  - bare ACKs may be coalesced differently: the last must be the same, and each
    must carry the MSN that the requests before its PSN imply;
  - NAKs are compared without repetitions; requests behind the one that a fatal
    NAK refuses may or may not have left before it came;
  - AckReq is not compared on FIRST and MIDDLE packets;
  - messages of the connection manager (QP1) are compared bit by bit, see
    cm_mads.py, each connection's by themselves; DREQs and DREPs without regard
    to the side that sent them, because which side disconnects first is a race;
  - of TOS and traffic class the DSCP is compared, not the two bits of ECN: we
    reduce our rate when packets are marked and say so (ECT(0)), rxe doesn't;
  - UDP source ports are not compared (they are entropy), nor QP1's PSNs, which
    count what the whole node has sent.

--lossy            random loss or steady drops: don't compare NAKs
--prefix           chance decides how much each QP sends: compare what both have
--ends             the programs end without disconnecting: DREQs have no answer
                   any more, which a kernel does; don't compare DREPs
--rsockets         addresses and R_Keys in the private data of both sides differ; that a side
                   disconnects, which is its last message, it doesn't say if the other was faster
--ignore a,b       fields that may differ, for example "ttl"

Exits 1 and prints the first difference of each flow; 0 if there is none.
"""

import argparse
import collections
import ipaddress
import re
import sys

import cm_mads
import roce

PSN_HALF = 1 << 23
DSCP = 0xFC  # of the TOS or traffic class; the rest is ECN
NAK_PSN_SEQUENCE, RNR_NAK = 0x60, 1
RSOCKET_DISCONNECT = 0xE0000000  # immediate data
# In the hex digits of an rsocket's private data: of its target list and of its buffer.
RSOCKET_PLACES = re.compile("^(.{16}).{24}(.{8}).{24}(.{8})", re.ASCII)
IP_HEADER = 76  # digits before it in a REQ: the addresses of rdma_cm, whose port is spelled out
FATAL_NAKS = range(0x61, 0x80)


def distance(a, b):
    """PSN a - b as a signed 24-bit number (IBA 9.7.1)."""
    return ((a - b + PSN_HALF) & 0xFFFFFF) - PSN_HALF


class Numbering(dict):
    """Give each new value the next number."""

    def __missing__(self, value):
        self[value] = len(self)
        return self[value]


def span(p, mtu):
    """How many PSNs request @p takes."""
    if p.operation != roce.READ_REQUEST:
        return 1
    return max(1, -(-p.headers["dma_length"] // mtu))


class Capture:
    """The flows of one file: flows[(direction, qp index, kind)] = packets in order."""

    def __init__(self, path):
        self.path = path
        self.packets = list(roce.packets(path))
        unicast = [p for p in self.packets if p.dqp != 0xFFFFFF]
        ends = {p.source for p in self.packets} | {p.destination for p in unicast}
        hosts = sorted(ends, key=address_key)
        self.direction = {host: index for index, host in enumerate(hosts)}
        self.mtu = path_mtu(unicast)
        self.raw = collections.OrderedDict()
        for p in self.packets:
            kind = "responses" if p.is_response else "requests"
            self.raw.setdefault((self.direction[p.source], p.dqp, kind), []).append(p)
        self.number_qps()
        self.bases = self.psn_bases()
        self.conversations = cm_mads.Conversations(self.packets)

    def number_qps(self):
        """QPs in order of appearance, per direction; QP1 and multicast keep their number."""
        counters = collections.defaultdict(Numbering)
        self.qp_index = {}
        for direction, dqp, _ in self.raw:
            fixed = dqp == 1 or dqp == 0xFFFFFF
            index = -dqp if fixed else counters[direction][dqp]
            self.qp_index[direction, dqp] = index

    def psn_bases(self):
        """First PSN of each flow; of responses: that of the requests they answer."""
        bases = {key: flow[0].psn for key, flow in self.raw.items() if key[2] == "requests"}
        for key, flow in self.raw.items():
            if key[2] == "responses":
                answered = self.requests_for(key)
                bases[key] = bases[answered] if answered else flow[0].psn
        return bases

    def requests_for(self, key):
        """The request flow that the responses of flow @key answer: most PSNs in common."""
        psns = {p.psn for p in self.raw[key]}
        best, score = None, 0
        for other, flow in self.raw.items():
            if other[2] == "requests" and other[0] != key[0]:
                common = sum(1 for p in flow if p.psn in psns)
                if common > score:
                    best, score = other, common
        return best

    def refused(self, key):
        """The PSN, from the flow's base, that a fatal NAK refused in request flow @key."""
        for other, flow in self.raw.items():
            if other[2] == "responses" and other[0] != key[0] and self.requests_for(other) == key:
                for p in flow:
                    if p.headers.get("syndrome", 0) in FATAL_NAKS:
                        return distance(p.psn, self.bases[key])
        return None

    def flow_name(self, key):
        direction, dqp, kind = key
        qp = {1: "QP1", 0xFFFFFF: "multicast"}.get(dqp, f"QP#{self.qp_index[direction, dqp]}")
        arrow = "low>high" if direction == 0 else "high>low"
        return f"{arrow} {qp} {kind}"


def address_key(text):
    address = ipaddress.ip_address(text)
    return address.version, int(address)


def path_mtu(packets):
    sizes = [len(p.payload) for p in packets if p.transport != roce.CNP and p.position in "FM"]
    return max(sizes, default=1024)


# --- One packet as a row of comparable fields ---------------------------------


class Row:
    """Turns the packets of one flow into comparable rows."""

    def __init__(self, capture, key):
        self.base = capture.bases[key]
        self.rkeys, self.qps = Numbering(), Numbering()
        self.first_va = {}
        self.conversations = capture.conversations

    def __call__(self, p):
        row = {
            "opcode": p.name,
            "psn": distance(p.psn, self.base),
            "length": len(p.payload),
            "pad": p.pad,
            "solicited": p.solicited,
            "migreq": p.migreq,
            "tver": p.tver,
            "pkey": p.pkey,
            "fecn_becn": p.reserved,
            "reserved7": p.reserved7,
            "tos": p.tos & DSCP,
            "ttl": p.ttl,
        }
        row["df" if p.ip_version == 4 else "flow_label"] = (
            p.df if p.ip_version == 4 else p.flow_label
        )
        if p.transport == roce.UD or p.position not in "FM":
            row["ack_request"] = p.ack_request
        self.extensions(p, row)
        if cm_mads.is_cm(p):
            del row["psn"]
            row.update(self.conversations.row(p))
        return row

    def extensions(self, p, row):
        for name, value in p.headers.items():
            if name == "va":
                value -= self.first_va.setdefault(p.headers["rkey"], value)
            elif name in ("rkey", "ieth"):
                name, value = name, self.rkeys[value]
            elif name == "source_qp":
                value = 1 if value == 1 else self.qps[value] + 2
            elif name == "imm" and value == p.headers.get("source_qp"):
                value = "the source QP"
            row[name] = value


# --- Flows ----------------------------------------------------------------------


def first_transmissions(rows, mtu):
    """Split request rows into the first transmission of each PSN and the repetitions."""
    first, again, expected = [], [], 0
    for row in rows:
        length = row.get("dma_length", 0) if row["opcode"].endswith("READ_REQUEST") else 0
        if row["psn"] >= expected:
            first.append(row)
            expected = row["psn"] + max(1, -(-length // mtu))
        else:
            again.append(row)
    return first, again


def check_repetitions(first, again):
    """A retransmission repeats the request; only a READ may ask for its remaining part."""
    originals = {row["psn"]: row for row in first}
    for row in again:
        original = originals.get(row["psn"])
        if row["opcode"].endswith("READ_REQUEST") or original is None:
            continue
        for name in ("opcode", "length", "pad", "va", "dma_length", "rkey"):
            if row.get(name) != original.get(name):
                return f"the retransmission of PSN +{row['psn']} has another {name}"
    return None


def implied_msn(first):
    """The function PSN -> MSN: messages that are complete up to and including that PSN."""
    ends = []
    for row in first:
        name = row["opcode"]
        if any(part in name for part in ("LAST", "ONLY", "READ", "SWAP", "ADD", "ATOMIC", "FLUSH")):
            ends.append(row["psn"])
    return lambda psn: sum(1 for end in ends if end <= psn) & 0xFFFFFF


def split_responses(rows):
    """Data responses by PSN, ACKs, and NAKs without repetitions."""
    data, acks, naks, seen, rnr = [], [], [], set(), set()
    for row in rows:
        if not row["opcode"].endswith("_ACKNOWLEDGE") or "ATOMIC" in row["opcode"]:
            if row["psn"] not in seen:
                data.append(row)
            seen.add(row["psn"])
        elif row["syndrome"] >> 5 == 0:
            acks.append(row)
        else:
            # After an RNR NAK rxe adds a sequence NAK for the same PSN; others keep silent.
            if row["syndrome"] >> 5 == RNR_NAK:
                rnr.add(row["psn"])
            elif row["syndrome"] == NAK_PSN_SEQUENCE and row["psn"] in rnr:
                continue
            if not any(same(row, nak, ()) for nak in naks):
                naks.append(row)
    return data, acks, naks


def same(a, b, ignored):
    return all(a.get(n) == b.get(n) for n in set(a) | set(b) if n not in ignored)


def show(row):
    if row is None:
        return "(no packet)"
    return " ".join(f"{k}={hex(v) if k == 'syndrome' else v}" for k, v in row.items())


def show_differences(golden, ours, names):
    """The rows in full, or of a message with its many fields only what differs."""
    if golden and ours and "mad_attribute" in golden:
        golden, ours = ({n: row.get(n) for n in ["mad_attribute", *names]} for row in (golden, ours))
    return f"    golden: {show(golden)}\n    ours:   {show(ours)}"


def compare_rows(what, golden, ours, ignored):
    for i in range(max(len(golden), len(ours))):
        g = golden[i] if i < len(golden) else None
        o = ours[i] if i < len(ours) else None
        if g and o and same(g, o, ignored):
            continue
        names = [n for n in {**(g or {}), **(o or {})} if n not in ignored]
        if g and o:
            names = [n for n in names if g.get(n) != o.get(n)]
        fields = ", ".join(names) if g and o else "a packet"
        return (
            f"{what} {i + 1} of {len(golden)} (ours: {len(ours)}) differs in {fields}\n"
            + show_differences(g, o, names)
        )
    return None


def compare_acks(golden, ours, msn, ignored):
    """ACKs may be coalesced, but the last one and every MSN are determined."""
    if not golden and not ours:
        return None
    template = {k: v for k, v in (golden or ours)[0].items() if k not in ("psn", "msn")}
    for row in ours:
        if not same({k: v for k, v in row.items() if k not in ("psn", "msn")}, template, ignored):
            return f"an ACK differs\n    golden: {show((golden or ours)[0])}\n    ours:   {show(row)}"
        if msn and "msn" not in ignored and row["msn"] != msn(row["psn"]):
            return f"ACK of PSN +{row['psn']} has MSN {row['msn']}, should be {msn(row['psn'])}"
    last = [(max(rows, key=lambda r: r["psn"]) if rows else None) for rows in (golden, ours)]
    if None in last or not same(last[0], last[1], ignored):
        return f"the last ACK differs\n    golden: {show(last[0])}\n    ours:   {show(last[1])}"
    return None


def unique(rows):
    """Messages without the repetitions of a hasty timer."""
    rows = list(rows)
    return [row for i, row in enumerate(rows) if row not in rows[:i]]


def disconnects(row):
    return row.get("mad_attribute") in cm_mads.DISCONNECTS


def without_places(row):
    """A REQ or REP without the addresses and R_Keys that an rsocket tells its peer."""
    if row["mad_attribute"] not in ("REQ", "REP"):
        return row
    start = IP_HEADER if row["mad_attribute"] == "REQ" else 0
    private = row["cm_private"]
    return row | {"cm_private": private[:start] + RSOCKET_PLACES.sub(r"\1-\2-\3", private[start:])}


def by_connection(rows):
    """What is said of one connection doesn't wait for what is said of another."""
    ids = [row.get("cm_local_id") for row in rows]
    return sorted(rows, key=lambda row: ids.index(row.get("cm_local_id")))


def compare_mads(golden, ours, options):
    golden, ours = (by_connection(unique(r for r in rows if not disconnects(r)))
                    for rows in (golden, ours))
    if options.rsockets:
        golden, ours = ([without_places(r) for r in rows] for rows in (golden, ours))
    return compare_rows("MAD", golden, ours, options.ignore)


def compare_disconnects(captures, options):
    """All DREQs and DREPs of both directions."""
    both = []
    for capture in captures:
        rows = [Row(capture, k)(p) for k in capture.raw if k[1] == 1 for p in capture.raw[k]]
        rows = [r for r in rows if disconnects(r)]
        if options.ends:
            rows = [r for r in rows if r["mad_attribute"] == "DREQ"]
        both.append(unique(sorted(rows, key=str)))
    return compare_rows("DREQ or DREP", *both, options.ignore)


def compare_flow(captures, keys, options):
    """The first difference between flow @keys[0] of golden and @keys[1] of ours, or None."""
    flows = []
    for capture, key in zip(captures, keys):
        make = Row(capture, key)
        flows.append([make(p) for p in capture.raw[key]])
    golden, ours = flows
    ignored = options.ignore
    if keys[0][2] == "requests":
        if keys[0][1] == 1:
            return compare_mads(golden, ours, options)
        if golden and golden[0]["opcode"].startswith("RC"):
            golden, _ = first_transmissions(golden, captures[0].mtu)
            ours, again = first_transmissions(ours, captures[1].mtu)
            wrong = check_repetitions(ours, again)
            if wrong:
                return wrong
        least = 0 if options.prefix else captures[0].refused(keys[0])
        if least is not None:
            shorter = max(min(len(golden), len(ours)), sum(row["psn"] <= least for row in golden))
            golden, ours = golden[:shorter], ours[:shorter]
        if options.rsockets:
            golden, ours = ([r for r in rows if r.get("imm") != RSOCKET_DISCONNECT] for rows in (golden, ours))
        return compare_rows("request", golden, ours, ignored)
    answered = captures[1].requests_for(keys[1])
    msn = None
    if answered:
        make = Row(captures[1], answered)
        rows = [make(p) for p in captures[1].raw[answered]]
        msn = implied_msn(first_transmissions(rows, captures[1].mtu)[0])
    (g_data, g_acks, g_naks), (o_data, o_acks, o_naks) = map(split_responses, flows)
    if options.prefix or options.rsockets:
        last = min(max((r["psn"] for r in acks), default=-1) for acks in (g_acks, o_acks))
        g_acks, o_acks = ([r for r in acks if r["psn"] <= last] for acks in (g_acks, o_acks))
    return (
        compare_rows("response", g_data, o_data, ignored)
        or (not options.lossy and compare_rows("NAK", g_naks, o_naks, ignored))
        or compare_acks(g_acks, o_acks, msn, ignored)
    )


def compare(golden_path, ours_path, lossy=False, ignore=(), prefix=False, ends=False,
            rsockets=False):
    """A list of texts, one per flow that differs."""
    options = argparse.Namespace(lossy=lossy, ignore=set(ignore), prefix=prefix, ends=ends,
                                 rsockets=rsockets)
    captures = [Capture(golden_path), Capture(ours_path)]
    named = [
        collections.OrderedDict((c.flow_name(key), key) for key in c.raw) for c in captures
    ]
    differences = []
    for name in list(named[0]) + [n for n in named[1] if n not in named[0]]:
        keys = [n.get(name) for n in named]
        if None in keys:
            which = "ours" if keys[1] is None else "golden"
            differences.append(f"{name}: absent from {which}")
            continue
        wrong = compare_flow(captures, keys, options)
        if wrong:
            differences.append(f"{name}: {wrong}")
    if rsockets and not any(p.headers.get("imm") == RSOCKET_DISCONNECT for p in captures[1].packets):
        differences.append("no rsocket says that it disconnects")
    wrong = compare_disconnects(captures, options)
    return differences + ([f"both ways: {wrong}"] if wrong else [])


def main():
    parser = argparse.ArgumentParser(description="compare a capture with a golden one")
    for flag in ("--lossy", "--prefix", "--ends", "--rsockets"):
        parser.add_argument(flag, action="store_true")
    parser.add_argument("--ignore", default="", help="fields, separated by commas")
    parser.add_argument("golden")
    parser.add_argument("ours")
    arguments = parser.parse_args()
    ignore = [name for name in arguments.ignore.split(",") if name]
    differences = compare(
        arguments.golden, arguments.ours, arguments.lossy, ignore, arguments.prefix, arguments.ends,
        arguments.rsockets
    )
    for text in differences:
        print(text)
    print(f"{arguments.ours}: {len(differences) or 'no'} difference(s) from {arguments.golden}")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
