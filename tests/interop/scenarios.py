# SPDX-License-Identifier: BSD-2-Clause
"""
The scenarios of scripts/interop: what both ends run, which packets they lose, and what they must
say and end with. No state; which end is urxe and which is rxe is for the caller to choose.
"""

import dataclasses
import random

TIMEOUT = 60  # of one program; rxe under emulation is slow
PINGPONG_PORT, PERFTEST_PORT, PEER_PORT = 18515, 18515, 18600


@dataclasses.dataclass
class Fault:
    """
    Packets that one end loses: received ones by number or at random, or its own.
    Steady drops suit only one packet at a time: with go-back-N over a multiple
    of @every packets, the same one would be lost for ever. A program that ends with its last
    completion, as ibv_rc_pingpong does, repeats no acknowledgement to a peer that lost it, and rxe
    waits for one for ever: @until lets the last messages through.
    """

    once: int = 0
    message: int = 0  # of the connection manager's
    every: int = 0
    first: int = 1
    random: float = 0
    until: int = 0  # that packet, about; 0: to the end
    loss: bool = False
    corrupt: bool = False
    deaf: bool = False  # to everything

    def iptables(self):
        """Shell commands around a program in the VM: (before, after)."""
        if self.loss or self.corrupt:
            what = "corrupt 20%" if self.corrupt else "delay 2ms reorder 25% 50% loss 10%"
            return f"tc qdisc add dev eth0 root netem {what};", "tc qdisc del dev eth0 root;"
        if self.deaf:
            return "iptables -A INPUT -p udp --dport 4791 -j DROP;", "iptables -F INPUT;"
        once = self.once or self.message
        every, packet = (100000, once - 1) if once else (self.every, self.first - 1)
        mode = f"nth --every {every} --packet {packet}"
        if self.random:
            mode = f"random --probability {self.random}"
        # IPv4, UDP, BTH, DETH, MAD, ICRC: the statistic counts what has come so far in the rule.
        length = "-m length --length 308" if self.message else ""
        quota = f"-m quota --quota {1000 * self.until}" if self.until else ""
        rule = f"-p udp --dport 4791 {length} {quota} -m statistic --mode {mode}"
        return f"iptables -F INPUT; iptables -A INPUT {rule} -j DROP;", "iptables -F INPUT;"

    def urxe_faults(self):
        if self.corrupt:
            return "seed=7;corrupt=20%"
        if self.loss:
            # What urxe sent twice itself judge_naks() couldn't tell from an injected copy.
            return "seed=7;drop=10%;reorder=10%;dup=5%@rx"
        if self.deaf:
            return "drop=100%@rx"
        if self.random and not self.until:
            return f"seed=7;drop={self.random}@rx"
        if self.message:
            return f"drop#{self.message}/UD_SEND@rx"
        if self.until:
            numbers = random.Random(7).sample(range(1, self.until), int(self.random * self.until))
        else:
            numbers = [self.once] if self.once else range(self.first, 200, self.every)
        return ";".join(f"drop#{n}@rx" for n in numbers)


@dataclasses.dataclass
class Expect:
    """
    What peer.c must print: the completion statuses of each end in order, with
    "a/b" for alternatives in one place and " | " between whole alternatives; a
    dict of these when it depends on which side plays the server ("rxe" or "urxe").
    Then patterns (or such dicts of them), each of which must occur.
    """

    client: object = ""
    server: object = ""
    client_has: tuple = ()
    server_has: tuple = ()
    may_starve: bool = False  # "NO COMPLETION" is expected


@dataclasses.dataclass
class Scenario:
    name: str
    server: str  # {dev} {gid} {gid6} {self} {self6}, and for the client {peer} {peer6}
    client: str
    port: int = 0  # where the server listens; 0: on an rdma_cm id
    expect: Expect = None
    server_fault: Fault = None
    client_fault: Fault = None
    client_codes: tuple = (0,)
    server_codes: tuple = (0,)
    client_says: str = ""  # patterns, each of which must occur
    server_says: str = ""
    traffic_class: int = 0  # of the connection: of all its packets
    ready: str = ""  # a shell command that succeeds when the server is there
    seconds: int = TIMEOUT
    hardware: bool = False  # one end is rxe as hardware, with urxe preloaded
    lists: bool = False  # no packets: both ends print the same

    @property
    def corrupts(self):
        return any(f and f.corrupt for f in (self.server_fault, self.client_fault))


def pair(name, command, port, **more):
    """Server and client take the same arguments, the client the address too."""
    return Scenario(name, command, command + " {peer}", port, **more)


def pingpong(kind, size, mtu, options="", six=False, count=20):
    gid = "{gid6}" if six else "{gid}"
    command = f"ibv_{kind}_pingpong -d {{dev}} -g {gid} -s {size} -n {count}"
    command += f" -m {mtu}" if mtu else ""
    name = f"{kind}_pingpong_s{size}" + (f"_mtu{mtu}" if mtu else "") + ("_ipv6" if six else "")
    name += options.replace(" -", "_").replace(" ", "")
    return pair(name, command + options, PINGPONG_PORT)


def pingpongs():
    for size, mtu in ((1, 1024), (64, 256), (1000, 512), (5000, 256), (5000, 1024)):
        yield pingpong("rc", size, mtu)
    for size, mtu in ((20000, 2048), (100000, 4096)):
        yield pingpong("rc", size, mtu, count=5)
    for size, mtu in ((64, 1024), (5000, 1024), (10000, 4096)):
        yield pingpong("rc", size, mtu, six=True)
    for options in (" -c", " -e", " -c -e", " -N", " -N -c"):
        yield pingpong("rc", 4097, 1024, options)
    for size, mtu in ((1, 1024), (64, 256), (5000, 1024), (30000, 4096)):
        yield pingpong("uc", size, mtu, count=10)
    yield pingpong("uc", 5000, 1024, six=True)
    for options in (" -c", " -e"):
        yield pingpong("uc", 2049, 1024, options)
    for size in (1, 64, 1000, 2048):
        yield pingpong("ud", size, 0)
    yield pingpong("ud", 1000, 0, six=True)
    for options in (" -c", " -e", " -c -e"):
        yield pingpong("ud", 777, 0, options)
    for options in ("", " -e", " -c"):
        yield pingpong("srq", 512, 1024, " -q 4 -r 32" + options, count=64)
    yield pingpong("srq", 3000, 1024, " -q 8 -r 64", six=True, count=64)


def perftests():
    def one(name, options, six=False):
        program = name.split("-")[0]
        gid = "{gid6}" if six else "{gid}"
        command = f"{program} -d {{dev}} -x {gid} -F {options}"
        return pair(name + ("-ipv6" if six else ""), command, PERFTEST_PORT)

    yield one("ib_write_lat", "-m 1024 -s 8 -n 50")
    yield one("ib_write_lat-s5001", "-m 1024 -s 5001 -n 20")
    yield one("ib_write_lat", "-m 1024 -s 8 -n 20", six=True)
    yield one("ib_write_bw", "-m 1024 -s 4096 -n 20")
    yield one("ib_write_bw-s65536-mtu4096", "-m 4096 -s 65536 -n 20")
    yield one("ib_write_bw-qps", "-m 1024 -s 5001 -n 20 -q 4")
    yield one("ib_write_bw-bidirectional", "-m 1024 -s 4096 -n 20 -b")
    yield one("ib_write_bw-uc", "-c UC -m 1024 -s 3000 -n 10")
    yield one("ib_read_lat", "-m 1024 -s 8 -n 50")
    yield one("ib_read_bw", "-m 1024 -s 4096 -n 20")
    yield one("ib_read_bw-s65536-mtu4096", "-m 4096 -s 65536 -n 20")
    yield one("ib_read_bw", "-m 1024 -s 8190 -n 20", six=True)
    yield one("ib_send_lat", "-m 1024 -s 8 -n 50")
    yield one("ib_send_lat-events", "-m 1024 -s 8 -n 20 -e")
    yield one("ib_send_bw", "-m 1024 -s 5001 -n 20")
    yield one("ib_send_lat-uc", "-c UC -m 1024 -s 3000 -n 20")
    yield one("ib_send_lat-ud", "-c UD -s 256 -n 20")
    yield one("ib_send_lat-ud", "-c UD -s 1024 -n 20", six=True)
    yield one("ib_atomic_lat-fetch_add", "-A FETCH_AND_ADD -n 50")
    yield one("ib_atomic_lat-compare_swap", "-A CMP_AND_SWAP -n 50")
    yield one("ib_atomic_bw-fetch_add", "-A FETCH_AND_ADD -n 50")


ERROR_STATE = (r"qp state now 6",)
ALL_DATA_OK = (r"data ok",)
ATOMIC_VALUES = (r"(?s)orig 1000\n.*orig 1007\n.*orig 1122334455667788\n.*orig 1122334455667788\n",)
REFUSED = dict(server="5?", client_has=ERROR_STATE, server_has=ERROR_STATE)
IPV4_GRH = (r"GRH area: (00 ){20}45 00 00 34", r"len=40 ", r"len=140 ", r"len=1040 ", r"len=1064 ")
IPV6_GRH = (r"GRH area: 60 00 00 00 00 20 11 40", r"len=140 ", r"len=1040 ", r"len=1064 ")
IMM = (r"imm=5a5a0001", r"imm=5a5a0003")

PEER = {
    "send_sizes": Expect("0 " * 12, "0 " * 12, server_has=ALL_DATA_OK),
    "long_send --mtu 256": Expect("0", "0", server_has=ALL_DATA_OK),
    "send_imm": Expect("0 " * 4, "0 " * 4, server_has=("imm=cafe0000", "imm=cafe0003")),
    "write_imm": Expect("0 " * 3, "0 " * 3, server_has=ALL_DATA_OK + ("imm=beef0002",)),
    "write_sizes": Expect("0 " * 6, "", server_has=ALL_DATA_OK),
    "read_sizes": Expect("0 " * 7, "", client_has=ALL_DATA_OK),
    "atomics": Expect(
        "0 " * 4, "", client_has=ATOMIC_VALUES, server_has=("final target 1122334455667787",)
    ),
    "uc_imm": Expect("0 " * 5, "0 " * 5, server_has=("imm=abcd0000", "imm=abcd0004")),
    "ud_imm": Expect(
        "0 " * 5,
        "0 " * 4,
        server_has=IPV4_GRH + IMM + (r"rc 0: dgid ::ffff:{client} sgid_index {gid} ",),
    ),
    "ud_imm6 six": Expect(
        "0 " * 5, "0 " * 4, server_has=IPV6_GRH + IMM + (r"rc 0: dgid {client6} sgid_index {gid6} ",)
    ),
    "tclass": Expect("0 " * 3, "0 " * 3, server_has=ALL_DATA_OK),
    "tclass6 six": Expect("0 " * 3, "0 " * 3, server_has=ALL_DATA_OK),
    "psn_wrap": Expect("0 " * 3, "0 " * 3, server_has=ALL_DATA_OK),
    "mixed": Expect("0 " * 7, "0 " * 3),
    # rxe hands out the kernel's flag for "with invalidate", which verbs.h calls IP_CSUM_OK.
    "send_inv": Expect(
        "0 0 0 10",
        "0 0 0",
        client_has=ERROR_STATE,
        server_has=({"urxe": r"len=2500 flags=[89] inv_rkey=", "rxe": r"len=2500 flags=5 "},),
    ),
    "rnr": Expect("0 0", "0", client_has=("qp state now 3",), server_has=ALL_DATA_OK),
    "rnr_exhaust": Expect("13 5", "", client_has=ERROR_STATE, server_has=("qp state now 3",)),
    "bad_rkey_write": Expect("10 5", **REFUSED),
    "bad_rkey_read": Expect("10 5", **REFUSED),
    "bad_perm_write": Expect("9 5", **REFUSED),
    "bad_mrperm_write": Expect("10 5", **REFUSED),
    "bad_mrperm_read": Expect("10 5", **REFUSED),
    "bad_bounds_write": Expect("10 5", **REFUSED),
    # Refused when posted (rxe), or by the responder.
    "atomic_unaligned": Expect("9 5 | 0", "5?", may_starve=True),
    # The specification: NAK 0x61 and LOC_LEN_ERR; rxe: NAK 0x63 and LOC_QP_OP_ERR.
    "send_too_long": Expect(
        {"urxe": "9", "rxe": "11"},
        {"urxe": "1", "rxe": "2"},
        client_has=ERROR_STATE,
        server_has=ERROR_STATE,
    ),
    "retry_exceeded": Expect("12", "", client_has=ERROR_STATE),
}

DROP_REQUEST = Expect("0 " * 12, "0 " * 12, server_has=ALL_DATA_OK)
DROP_ACK = Expect("0 " * 6, "0 " * 6)
DROP_READ = Expect("0 " * 3, "", client_has=ALL_DATA_OK)
DROP_ATOMIC = Expect(
    "0 " * 5, "", client_has=("orig 1000", "orig 1004"), server_has=("final target 3ed",)
)
# name, scenario of peer.c, expectation, fault of the server, fault of the client
PEER_FAULTS = (
    ("drop_req1", "drop_req", DROP_REQUEST, Fault(once=5), None),
    ("drop_req", "drop_req", DROP_REQUEST, Fault(random=0.15), None),
    ("drop_ack", "drop_ack", DROP_ACK, None, Fault(every=2, first=1)),
    ("drop_read1", "drop_read", DROP_READ, None, Fault(once=4)),
    ("drop_readlast", "drop_read", DROP_READ, None, Fault(once=8)),
    ("drop_atomic", "drop_atomic", DROP_ATOMIC, None, Fault(every=2, first=1)),
    ("loss_client", "drop_req", DROP_REQUEST, None, Fault(loss=True)),
    ("loss_server", "drop_req", DROP_REQUEST, Fault(loss=True), None),
    ("loss_both", "drop_req", DROP_REQUEST, Fault(loss=True), Fault(loss=True)),
    ("loss_read", "drop_read", DROP_READ, Fault(loss=True), None),
    ("corrupt_client", "drop_req", DROP_REQUEST, None, Fault(corrupt=True)),
    ("corrupt_server", "drop_req", DROP_REQUEST, Fault(corrupt=True), None),
)


def peer_scenario(name, arguments, expect, server_fault=None, client_fault=None):
    gid = "{gid6}" if arguments.endswith(" six") else "{gid}"
    command = f"{{tools}}/peer {arguments.removesuffix(' six')} --dev {{dev}} --gid {gid}"
    client = command + " --connect {peer}"
    return Scenario(
        "peer_" + name, command, client, PEER_PORT, expect, server_fault, client_fault
    )


def peers():
    for arguments, expect in PEER.items():
        yield peer_scenario(arguments.split()[0], arguments, expect)
    for row in PEER_FAULTS:
        yield peer_scenario(*row)


GROUP = "239.77.1.1"
NEVER_ENDS = (0, 124, 143)


def utilities():
    """rdmacm-utils and perftest's -R."""

    def one(name, server, client, **more):
        return Scenario(name, "timeout 30 " + server, "timeout 30 " + client, **more)

    for name, options in (
        ("rping", "-C 5 -S 200"), ("rping_s64", "-C 20 -S 64"), ("rping_s65535", "-C 3 -S 65535"),
        ("rping_q", "-q -C 5 -S 5000"),
    ):
        yield one(name, f"rping -s -a {{self}} {options} -V", f"rping -c -a {{peer}} {options} -V")
    yield one("rping_ipv6", "rping -s -a {self6} -C 3 -S 2000 -V", "rping -c -a {peer6} -C 3 -S 2000 -V")
    yield one("rping_wildcard", "rping -s -C 3 -V", "rping -c -a {peer} -C 3 -V")
    yield one("rping_wildcard_ipv6", "rping -s -a :: -C 3 -V", "rping -c -a {peer6} -C 3 -V")
    client = "sh -c 'for i in 1 2 3; do rping -c -a {peer} -C 2 -S 100 -V || exit 1; done'"
    yield one("rping_persistent", "timeout 8 rping -s -P -a {self} -C 2 -S 100 -V", client,
              server_codes=NEVER_ENDS)
    for program in "ucmatose", "udaddy":
        for name, options, traffic_class in (
            ("", "-c 2 -C 4 -S 100", 0), ("_many", "-c 20 -C 10 -S 1000", 0),
            ("_tos", "-c 2 -C 4 -S 100 -t 40", 40),
        ):
            command = f"{program} -b {{self}} {options}"
            yield one(program + name, command, command + " -s {peer}", traffic_class=traffic_class)
        command = f"{program} -b {{self6}} -c 2 -C 4 -S 100"
        yield one(program + "_ipv6", command, command + " -s {peer6}")
    command = "ucmatose -b {self} -c 3 -C 4 -S 100 -m"
    yield one("ucmatose_migrate", command, command + " -s {peer}")
    for name, options in ("mckey", ""), ("mckey_sendonly", " -o"):
        yield one(name, f"mckey -m {GROUP} -b {{self}} -C 5",
                  f"mckey -m {GROUP} -b {{self}} -s -C 5{options}",
                  ready=f"ip maddr show | grep -q {GROUP}")
    yield one("rdma_server", "rdma_server -p 7471", "rdma_client -s {peer} -p 7471")
    yield one("rdma_server_ipv6", "rdma_server -s {self6} -p 7471", "rdma_client -s {peer6} -p 7471")
    yield one("rdma_xserver", "rdma_xserver -c r", "rdma_xclient -s {peer} -c r")
    # The server of cmtime never ends by itself.
    for count, seconds in (3, 6), (100, 20):
        yield one(f"cmtime_{count}", f"timeout {seconds} cmtime -b {{self}} -c {count}",
                  f"cmtime -s {{peer}} -b {{self}} -c {count}", server_codes=NEVER_ENDS)
    # Not udpong, which fails between two rxes, too. Not -T a and n: librdmacm's rpoll() tells that
    # the server has left before its last bytes are read, which rstream takes for a failure.
    for name, options in (
            ("rstream", "rstream -S 1024 -I 1 -C 3"),
            ("rstream_large", "rstream -S 300000 -I 1 -C 5"),
            ("rstream_blocking", "rstream -T b -S 65536 -I 1 -C 10"),
            ("rstream_verify", "rstream -T b -T v -S 100000 -I 1 -C 5"),
            ("rstream_ipv6", "rstream -S 1024 -I 1 -C 3"),
            ("riostream", "riostream -T b -S 1024 -I 1 -C 3"),
            ("riostream_large", "riostream -T b -S 300000 -I 1 -C 5")):
        address = "6" if name.endswith("ipv6") else ""
        yield one(name, f"{options} -b {{self{address}}}", f"{options} -s {{peer{address}}}")
    # The client connects twice, the second time when the server is only about to listen.
    for program in "ib_write_lat", "ib_send_bw", "ib_read_lat", "ib_send_lat -c UD":
        command = program + " -d {dev} -x {gid} -F -R -s 8 -n 5"
        yield one(program.replace(" ", "") + "-cm", command, command + " {peer}")


def conversations():
    """What the protocol has beyond that, by tests/interop/manager.c and the kit's cmrej."""

    def one(name, scenario, address="", **more):
        command = "{tools}/manager " + scenario
        return Scenario(
            f"cm_{name}", f"{command} --bind {{self{address}}}",
            f"{command} --connect {{peer{address}}}", **more
        )

    yield Scenario("cm_reject", "{tools}/cmrej -s {self}", "{tools}/cmrej -c {peer}")
    for name in (
        "private", "datagram", "terms", "client_disconnects", "server_disconnects",
        "both_disconnect", "client_destroys", "client_exits", "server_exits", "slow", "forgetful",
        "impatient",
    ):
        yield one(name, name)
    for name in "private", "datagram", "both_disconnect":
        yield one(name + "_ipv6", name, "6")
    # What is lost comes again. The server hears REQ, RTU, and DREQ, the client REP.
    for name, server, client in (
        ("lost_req", 1, 0), ("lost_rtu", 2, 0), ("lost_rep", 0, 1), ("lost_dreq", 3, 0),
    ):
        yield one(name, "client_disconnects",
                  server_fault=Fault(message=server) if server else None,
                  client_fault=Fault(message=client) if client else None)
    yield one("lost_sidr_req", "datagram", server_fault=Fault(message=1))
    client = "rping -c -a {peer} -p 7999 -C 1"
    for name, address in ("", ""), ("_ipv6", "6"):
        yield Scenario("cm_no_listener" + name, "timeout 8 rping -s -p 7471",
                       client.replace("{peer}", f"{{peer{address}}}"), server_codes=NEVER_ENDS,
                       client_codes=(255,), client_says="RDMA_CM_EVENT_REJECTED, error 8")
    for name in "silent", "silent_datagram":
        yield one(name, name, server_fault=Fault(deaf=True), server_codes=(124, -9, "timeout"),
                  client_says="UNREACHABLE status -110", seconds=150)


def lossy():
    """
    Stock tools while both ends lose packets: rxe goes back N and drops what comes behind a gap,
    urxe keeps it and repeats one packet until it knows its peer.
    """
    tools = (
        "ib_write_bw -d {dev} -x {gid} -F -m 1024 -s 65536 -n 50",
        "ib_read_bw -d {dev} -x {gid} -F -m 1024 -s 65536 -n 50",
        "ib_send_bw -d {dev} -x {gid} -F -m 1024 -s 30000 -n 50",
        "ib_atomic_lat -d {dev} -x {gid} -F -n 100",
    )
    ping_pong = "ibv_rc_pingpong -d {dev} -g {gid} -s 100000 -n 30 -m 1024"

    def lose(percent, **kind):
        fault = Fault(random=percent / 100, **kind)
        return dict(server_fault=fault, client_fault=fault, seconds=120)

    for percent in 1, 3, 5:
        yield pair(f"lossy_rc_pingpong_{percent}", ping_pong, PINGPONG_PORT,
                   **lose(percent, until=2000))
        for command in tools:
            yield pair(f"lossy_{command.split()[0]}_{percent}", command, PERFTEST_PORT,
                       **lose(percent))
        yield Scenario(f"lossy_rping_{percent}", "rping -s -a {self} -C 20 -S 30000 -V",
                       "rping -c -a {peer} -C 20 -S 30000 -V", **lose(percent))


def shared_addresses():
    """Several processes on one address, each with its own port."""
    ports = range(7471, 7475)

    def all_of(commands):
        """A shell that succeeds when all of @commands, side by side, do."""
        return ("sh -c '" + " ".join(f"{c} & p{i}=$!;" for i, c in enumerate(commands))
                + " && ".join(f" wait $p{i}" for i in range(len(commands))) + "'")

    options = "-C 20 -S 3000 -V"
    yield Scenario(
        "shared_rping", all_of([f"rping -s -a {{self}} -p {p} {options}" for p in ports]),
        all_of([f"rping -c -a {{peer}} -p {p} {options}" for p in ports]),
    )
    yield Scenario(
        "shared_programs",
        all_of(["rping -s -a {self} -p 7480 " + options, "ucmatose -b {self} -c 5 -C 10 -S 1000",
                "udaddy -b {self} -c 5 -C 10 -S 100", "rdma_server -s {self} -p 7482"]),
        all_of(["rping -c -a {peer} -p 7480 " + options, "ucmatose -b {self} -s {peer} -c 5 -C 10 -S 1000",
                "udaddy -b {self} -s {peer} -c 5 -C 10 -S 100", "rdma_client -s {peer} -p 7482"]),
    )


def real_devices():
    """Stock tools on rxe as hardware, with urxe preloaded."""

    def one(name, server, client, port=0, **more):
        return Scenario("hw_" + name, server, client, port, seconds=150, hardware=True, **more)

    for name, command in ("devices", "ibv_devices"), ("devinfo", "ibv_devinfo -v -d rxe0"):
        yield one(name, command, command, ready="true", lists=True)
    command = "ibv_rc_pingpong -d {dev} -g {gid} -s 5000 -n 20 -c -e"
    yield one("rc_pingpong", command, command + " {peer}", PINGPONG_PORT, client_says="20 iters in")
    command = "ib_write_bw -d {dev} -x {gid} -F -m 1024 -s 4096 -n 20"
    yield one("ib_write_bw", command, command + " {peer}", PERFTEST_PORT, client_says=r"\n 4096 +20 ")
    yield one("rping", "rping -s -a {self} -C 5 -S 200 -V", "rping -c -a {peer} -C 5 -S 200 -Vv",
              client_says="(?s)(ping data: rdma-ping-.*){5}")


def scenarios():
    for source in (
        pingpongs, perftests, peers, utilities, conversations, lossy, shared_addresses, real_devices
    ):
        yield from source()
