# SPDX-License-Identifier: BSD-2-Clause
"""Turn the connection manager's messages of a capture into comparable rows.

Imported by compare_golden.py.  Every bit of a MAD is in its row: the fields of
LAYOUTS (IBA 12.6, tables 106 to 120), the private data, and as "reserved" what
no field covers.  What differs from run to run is replaced by what it stands for:

  comm ids      the number of their connection, if they are where they belong:
                the sender's as local id, the receiver's as remote id
  transaction   whose comm id its low word is: the "sender's" or the "receiver's"
  QPN           the number of its connection, and whether data went to it
  starting PSN  how far the first request to that QP is from it
  CA GUID       "sender's", when it is the same in all of the sender's messages
  source port   "a port" (in the private data of REQ and SIDR_REQ)
  flow label    "of ports", when it is what Linux makes of the two ports

An ACK timeout is compared as Linux computes it since 6.2: a path's packet life
time was 18 before, and is 16 now, which is 2 less in REQ.
"""

import struct

import roce

REQ, MRA, REJ, REP, RTU, DREQ, DREP, SIDR_REQ, SIDR_REP = range(0x10, 0x19)
DISCONNECTS = ("DREQ", "DREP")
NAMES = dict(enumerate("REQ MRA REJ REP RTU DREQ DREP SIDR_REQ SIDR_REP LAP APR".split(), REQ))
MAD_LENGTH, HEADER_LENGTH, CLASS_CM = 256, 24, 7
OLD_LIFE_TIME, LIFE_TIME = 18, 16

IDS = (("local_id", 0, 0, 32), ("remote_id", 4, 0, 32))


def path(at):
    """The fields of a path in REQ: name, byte, bit from the most significant, width."""
    which = "primary" if at == 52 else "alternate"
    fields = (
        ("local_lid", 0, 0, 16), ("remote_lid", 2, 0, 16), ("local_gid", 4, 0, 128),
        ("remote_gid", 20, 0, 128), ("flow_label", 36, 0, 20), ("rate", 39, 2, 6),
        ("traffic_class", 40, 0, 8), ("hop_limit", 41, 0, 8), ("sl", 42, 0, 4),
        ("subnet_local", 42, 4, 1), ("ack_timeout", 43, 0, 5),
    )
    return tuple((f"{which}_{name}", at + byte, bit, width) for name, byte, bit, width in fields)


# Attribute: its fields, and where its private data begins.
LAYOUTS = {
    REQ: (
        (
            ("local_id", 0, 0, 32), ("vendor_id", 5, 0, 24), ("service_id", 8, 0, 64),
            ("ca_guid", 16, 0, 64), ("qkey", 28, 0, 32), ("qpn", 32, 0, 24),
            ("responder_resources", 35, 0, 8), ("local_eecn", 36, 0, 24),
            ("initiator_depth", 39, 0, 8), ("remote_eecn", 40, 0, 24),
            ("remote_response_timeout", 43, 0, 5), ("transport", 43, 5, 2),
            ("flow_control", 43, 7, 1), ("starting_psn", 44, 0, 24),
            ("local_response_timeout", 47, 0, 5), ("retry_count", 47, 5, 3),
            ("pkey", 48, 0, 16), ("mtu", 50, 0, 4), ("rdc_exists", 50, 4, 1),
            ("rnr_retry_count", 50, 5, 3), ("max_retries", 51, 0, 4), ("srq", 51, 4, 1),
            ("extended_transport", 51, 5, 3), *path(52), *path(96),
        ),
        140,
    ),
    MRA: ((*IDS, ("answered", 8, 0, 2), ("service_timeout", 9, 0, 5)), 10),
    REJ: (
        (*IDS, ("answered", 8, 0, 2), ("info_length", 9, 0, 7), ("reason", 10, 0, 16),
         ("info", 12, 0, 576)),
        84,
    ),
    REP: (
        (
            *IDS, ("qkey", 8, 0, 32), ("qpn", 12, 0, 24), ("vendor_id_high", 15, 0, 8),
            ("eecn", 16, 0, 24), ("vendor_id_middle", 19, 0, 8), ("starting_psn", 20, 0, 24),
            ("vendor_id_low", 23, 0, 8), ("responder_resources", 24, 0, 8),
            ("initiator_depth", 25, 0, 8), ("ack_delay", 26, 0, 5), ("failover", 26, 5, 2),
            ("flow_control", 26, 7, 1), ("rnr_retry_count", 27, 0, 3), ("srq", 27, 3, 1),
            ("ca_guid", 28, 0, 64),
        ),
        36,
    ),
    RTU: (IDS, 8),
    DREQ: ((*IDS, ("qpn", 8, 0, 24)), 12),
    DREP: (IDS, 8),
    SIDR_REQ: ((("local_id", 0, 0, 32), ("pkey", 4, 0, 16), ("service_id", 8, 0, 64)), 16),
    SIDR_REP: (
        (
            ("remote_id", 0, 0, 32), ("status", 4, 0, 8), ("info_length", 5, 0, 8),
            ("vendor_id_high", 6, 0, 16), ("qpn", 8, 0, 24), ("vendor_id_low", 11, 0, 8),
            ("service_id", 12, 0, 64), ("qkey", 20, 0, 32), ("info", 24, 0, 576),
        ),
        96,
    ),
}
CMA_HEADER = {REQ, SIDR_REQ}  # whose private data begins with the addresses (annex A11)


def is_cm(p):
    return p.transport == roce.UD and p.dqp == 1 and len(p.payload) == MAD_LENGTH


def begins(p):
    """Whether @p is a message of a connection that is being made."""
    return is_cm(p) and struct.unpack(">H", p.payload[16:18])[0] in (REQ, REP, RTU, SIDR_REQ)


def header(data):
    """The MAD header (IBA 13.4.3) but for the transaction id."""
    base, kind, version, method, status, special = struct.unpack(">BBBBHH", data[:8])
    attribute, reserved, modifier = struct.unpack(">HHI", data[16:24])
    return {
        "mad_attribute": NAMES.get(attribute, hex(attribute)) if kind == CLASS_CM else hex(attribute),
        "mad_versions": (base, kind, version),
        "mad_method": method,
        "mad_status": (status, special),
        "mad_reserved": reserved,
        "mad_modifier": modifier,
    }


def split(attribute, data):
    """The fields of @data, with "private" as bytes and "reserved" as what is left."""
    fields, private = LAYOUTS[attribute]
    body = data[HEADER_LENGTH:]
    whole, found = int.from_bytes(body, "big"), {}
    for name, byte, bit, width in fields:
        shift = len(body) * 8 - byte * 8 - bit - width
        found[name] = whole >> shift & (1 << width) - 1
        whole &= ~(((1 << width) - 1) << shift)
    rest = whole.to_bytes(len(body), "big")
    found["reserved"] = int.from_bytes(rest[:private], "big")
    found["private"] = body[private:]
    return found


class Conversations:
    """Which side is which in the messages of one capture: its @packets in their order."""

    def __init__(self, packets):
        self.connections, self.qps, self.guids = {}, {}, {}
        self.named = set()  # the ends of connections whose comm id is known
        self.first_psn = {}
        for p in packets:
            if not p.is_response:
                self.first_psn.setdefault((p.destination, p.dqp), p.psn)
        self.reached = {(p.destination, p.dqp) for p in packets}
        for p in filter(is_cm, packets):
            self.learn(p, struct.unpack(">H", p.payload[16:18])[0])

    def learn(self, p, attribute):
        if p.payload[1] != CLASS_CM or attribute not in LAYOUTS:
            return
        m = split(attribute, p.payload)
        number = self.connection(p, m)
        if number is None:
            number = len(set(self.connections.values()))
        if m.get("local_id") and (p.source, number) not in self.named:
            self.named.add((p.source, number))
            self.connections[p.source, m["local_id"]] = number
        if "qpn" in m and attribute != DREQ:
            self.qps.setdefault((p.source, m["qpn"]), number)
        if "ca_guid" in m:
            self.guids.setdefault(p.source, m["ca_guid"])

    def connection(self, p, m):
        """The number of the connection that message @m is about, None before its first."""
        known = self.connections.get((p.destination, m.get("remote_id")))
        return self.connections.get((p.source, m.get("local_id"))) if known is None else known

    def row(self, p):
        """Message @p without what is the run's own."""
        row = header(p.payload)
        attribute = struct.unpack(">H", p.payload[16:18])[0]
        if p.payload[1] != CLASS_CM or attribute not in LAYOUTS:
            return row | {"mad_data": p.payload[24:].hex()}
        m = split(attribute, p.payload)
        row["cm_transaction"] = self.transaction(p, self.connection(p, m))
        if attribute in CMA_HEADER:
            self.hide_port(m)
        if "qpn" in m:
            self.name_qp(p, attribute, m)
        for name, end in (("local_id", p.source), ("remote_id", p.destination)):
            if m.get(name):
                m[name] = f"#{self.connections.get((end, m[name]), '?')}"
        if "ca_guid" in m:
            m["ca_guid"] = self.name_guid(p, m["ca_guid"])
        if m.get("primary_ack_timeout", 0) > OLD_LIFE_TIME:
            m["primary_ack_timeout"] -= OLD_LIFE_TIME - LIFE_TIME
        m["private"] = m["private"].hex()
        row.update({f"cm_{name}": value for name, value in m.items()})
        return row

    def transaction(self, p, connection):
        """Linux puts the comm id there in the host's byte order."""
        words = struct.unpack(">I", p.payload[12:16]) + struct.unpack("<I", p.payload[12:16])
        for end, whose in ((p.source, "sender's"), (p.destination, "receiver's")):
            if any(self.connections.get((end, word), -1) == connection for word in words):
                return whose
        return "?"

    @staticmethod
    def hide_port(m):
        port = struct.unpack(">H", m["private"][2:4])[0]
        label = (port * 31 + (m["service_id"] & 0xFFFF)) & 0xFFFFF
        if m.get("primary_flow_label") == label:
            m["primary_flow_label"] = "of ports"
        shown = b"port" if port else b"zero"
        m["private"] = m["private"][:2] + shown + m["private"][4:]

    def name_qp(self, p, attribute, m):
        owner = (p.destination if attribute == DREQ else p.source, m["qpn"])
        m["qpn"] = f"of #{self.qps.get(owner, '?')}" if m["qpn"] else 0
        if owner in self.reached:
            m["qpn"] += ", used"
        if "starting_psn" in m:
            first = self.first_psn.get(owner)
            m["starting_psn"] = "unused" if first is None else first - m["starting_psn"]

    def name_guid(self, p, guid):
        others = [g for end, g in self.guids.items() if end != p.source]
        return "sender's" if guid and guid == self.guids[p.source] not in others else hex(guid)
