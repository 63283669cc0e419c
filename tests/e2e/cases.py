# SPDX-License-Identifier: BSD-2-Clause
"""The cases: what the stock tools are asked to do, and what they must say.

PORT, HOST, the nodes' addresses SERVER and CLIENT, and a GROUP of theirs in a command are replaced; a leading "@" names
a program in the build directory.
"""

import dataclasses
import itertools
import os

from example_cases import example_cases
from manager_cases import both, cmtime, manager_cases, rping
from pair import DEADLINE, RETRIES_EXCEEDED, Case, ucx_perftest, usage
from profile_cases import profile_cases
from rsocket_cases import rsocket_cases
from shm_cases import over_shm
from valgrind_cases import under_valgrind

MTUS = (256, 512, 1024, 2048, 4096)
LOSS = {
    "loss=1%": "seed=SEED;drop=1%;dup=0.5%;reorder=0.5%",
    "loss=5%": "seed=SEED;drop=5%;dup=1%;reorder=1%",
}

# --- what the device says of itself -----------------------------------------

# Limits of Linux rxe that ours must reach (ibv_devinfo -v of a Debian 12 kernel).
RXE_LIMITS = {
    "max_qp": 1048560, "max_qp_wr": 1048576, "max_sge": 32, "max_sge_rd": 32, "max_cq": 1048576,
    "max_cqe": 32767, "max_mr": 524287, "max_pd": 1048576, "max_qp_rd_atom": 128,
    "max_res_rd_atom": 258048, "max_qp_init_rd_atom": 128, "max_ah": 32767, "max_srq": 917503,
    "max_srq_wr": 1048576, "max_srq_sge": 27, "max_pkeys": 1, "phys_port_cnt": 1,
}


def at_least(name, value):
    """A regular expression: "name: N" with N >= value, for the numbers above."""
    digits = str(value)
    options = [f"[1-9][0-9]{{{len(digits)},}}", digits]
    for i, digit in enumerate(digits):
        if digit != "9":
            options.append(digits[:i] + f"[{int(digit) + 1}-9]" + f"[0-9]{{{len(digits) - i - 1}}}")
    return rf"^\s*{name}:\s+(?:{'|'.join(options)})$"


def device_cases():
    yield Case("ibv_devices", "", None, ["ibv_devices"], expect_client=[r"^\s*urxe0\s+[0-9a-f]{16}$"])
    yield Case("ibv_devinfo", "-l", None, ["ibv_devinfo", "-l"], expect_client=["1 HCA.*found", "urxe0"])
    for nobody in (False, True):
        yield Case(
            "ibv_devinfo", "-v" + " nobody" * nobody, None, ["ibv_devinfo", "-v"], nobody=nobody,
            expect_client=[r"hca_id:\s+urxe0", r"transport:\s+InfiniBand \(0\)", r"state:\s+PORT_ACTIVE",
                           r"max_mtu:\s+4096", r"active_mtu:\s+4096", r"link_layer:\s+Ethernet",
                           r"GID\[\s*0\]:\s+::ffff:127\.\d+\.\d+\.\d+, RoCE v2",
                           r"atomic_cap:\s+ATOMIC_HCA \(1\)"]
            + [at_least(name, value) for name, value in RXE_LIMITS.items()])
    yield Case("ibv_devinfo", "-v ipv6", None, ["ibv_devinfo", "-v"], ipv6=True,
               expect_client=[r"GID\[\s*0\]:\s+fd00::[0-9a-f]+, RoCE v2"])


# --- on the second port -----------------------------------------------------


def port_cases():
    gid = r"GID\[\s*0\]:\s+::ffff:127\.\d+\.\d+\.\d+, RoCE v2"
    yield Case("ibv_devinfo", "-v two ports", None, ["ibv_devinfo", "-v"], two_ports=True,
               expect_client=[r"phys_port_cnt:\s+2",
                              rf"port:\s+1\n(?:.*\n)*.*{gid}\n(?:.*\n)*.*port:\s+2\n(?:.*\n)*.*{gid}"])
    yield Case("ibv_devinfo", "-i 2", None, ["ibv_devinfo", "-i", "2"], two_ports=True,
               expect_client=[r"port:\s+2", "PORT_ACTIVE"])
    yield Case("ibv_devinfo", "-i 2 without", None, ["ibv_devinfo", "-i", "2"], client_exit=None,
               expect_client=["not found|does not exist|Invalid|[Ff]ailed"])
    for ipv6 in (False, True):
        for kind, extra in (("rc", ()), ("uc", ()), ("srq", ("-q", "8")), ("ud", ())):
            yield pingpong(kind, 2000, 100, "-i", "2", "-c", *extra, two_ports=True, ipv6=ipv6)
    yield pingpong("rc", 5000, 50, "-i", "2", "-c", two_ports=True, detail="capture", capture=True)
    for tool in "ib_send_bw", "ib_write_bw", "ib_read_lat":
        yield perftest(tool, "-i", "2", "-s", "65536", sizes=[65536], iters=100, two_ports=True)
    yield perftest("ib_send_lat", "-i", "2", "-c", "UD", "-s", "1024", sizes=[1024], iters=200, two_ports=True)
    for ipv6 in (False, True):
        yield rping("-C", "20", "-S", "5000", "-V", detail="port 2", two_ports=True, ipv6=ipv6)
    yield both("udaddy", "-c", "3", detail="port 2", two_ports=True)


# --- pingpongs --------------------------------------------------------------


def pingpong(kind, size, iters, *options, mtu=None, detail="", **more):
    """Both sides validate with -c as soon as it is among the options."""
    words = [f"ibv_{kind}_pingpong", "-p", "PORT", "-g", "0", "-s", str(size), "-n", str(iters)]
    words += ["-m", str(mtu)] if mtu else []
    words += list(options)
    expect = [r"^\d+ bytes in [\d.]+ seconds", rf"^{iters} iters in [\d.]+ seconds"]
    text = [f"size={size}"] + ([f"mtu={mtu}"] if mtu else []) + list(options)
    text += [detail] if detail else []
    text += ["ipv6"] if more.get("ipv6") else []
    text += ["nobody"] if more.get("nobody") else []
    return Case(f"{kind}_pingpong", " ".join(text), words, words + ["HOST"], expect_server=expect,
                expect_client=expect, last_ack_lost="faults" in more, **more)


def iterations(size):
    return 200 if size <= 4096 else 100 if size <= 65536 else 10


def pingpong_cases():
    sizes = (1, 64, 1000, 4096, 4097, 65536, 1 << 20)
    for kind in "rc", "uc", "srq":
        extra = ("-q", "8") if kind == "srq" else ()
        for size, mtu in itertools.product(sizes, MTUS):
            yield pingpong(kind, size, iterations(size), "-c", *extra, mtu=mtu)
        for size in (1, 4096, 65536):
            yield pingpong(kind, size, iterations(size) // 2, "-e", *extra)
            yield pingpong(kind, size, iterations(size) // 2, "-e", "-c", *extra)
            yield pingpong(kind, size, iterations(size) // 2, *extra)
        for size in (1, 5000, 1 << 20):
            yield pingpong(kind, size, 10, "-c", *extra, mtu=1024, ipv6=True)
        yield pingpong(kind, 5000, 100, "-e", "-c", *extra, ipv6=True)
        yield pingpong(kind, 5000, 100, "-e", "-c", *extra, nobody=True)
        yield pingpong(kind, 5000, 10, "-c", *extra, detail="capture", capture=True)
        yield pingpong(kind, 5000, 100, "-c", *extra, detail="one node", one_node=True)
    for size in (1, 64, 1000, 2048, 4096):
        for options in ((), ("-e",), ("-c",), ("-e", "-c")):
            yield pingpong("ud", size, 200, *options)
        yield pingpong("ud", size, 100, "-e", "-c", ipv6=True)
    yield pingpong("ud", 2048, 100, "-e", "-c", nobody=True)
    yield pingpong("ud", 2048, 20, "-c", detail="capture", capture=True)
    yield pingpong("ud", 2048, 20, "-c", detail="capture", capture=True, ipv6=True)
    # The new post-send API, which only ibv_rc_pingpong knows.
    for size, mtu in itertools.product((1, 4096, 1 << 20), (256, 1024, 4096)):
        yield pingpong("rc", size, iterations(size), "-N", "-c", mtu=mtu)
    for options in (("-N",), ("-N", "-e"), ("-N", "-e", "-c")):
        yield pingpong("rc", 4096, 100, *options)
        yield pingpong("rc", 4096, 100, *options, ipv6=True)
    yield pingpong("rc", 5000, 10, "-c", detail="capture", mtu=1024, capture=True, ipv6=True)
    # Hardly any receives posted: receiver-not-ready is the rule.
    yield pingpong("rc", 64, 2000, "-c", "-r", "4")
    yield pingpong("rc", 64, 2000, "-e", "-c", "-r", "4")


def xrc_pingpong(size, *options, detail="", **more):
    """It says nothing as long as all is well, but when the clients' tests begin and end."""
    words = ["ibv_xsrq_pingpong", "-p", "PORT", "-g", "0", "-s", str(size), *options]
    return Case("xsrq_pingpong", " ".join([f"size={size}", *options, detail]).strip(), words + ["-c", "1"],
                words + ["HOST"], last_ack_lost="faults" in more, **more)


def xrc_cases():
    for size in 1, 4096, 65536:
        yield xrc_pingpong(size, "-n", "100")
    yield xrc_pingpong(4096, "-n", "100", "-e")
    yield xrc_pingpong(4096, "-n", "20", detail="capture", capture=True)
    yield perftest("ib_send_bw", "-c", "XRC", "-a", sizes=ALL, iters=10)
    for tool in "ib_send_bw", "ib_write_bw", "ib_read_bw":
        yield perftest(tool, "-c", "XRC", "-s", "1048576", sizes=[1048576], iters=10)
        yield perftest(tool, "-c", "XRC", "-q", "8", "-b", "-s", "65536", sizes=[65536], iters=20)
        yield perftest(tool, "-c", "XRC", "-s", "8192", sizes=[8192], iters=10, detail="capture", capture=True)
    yield perftest("ib_send_bw", "-c", "XRC", "-e", "-s", "4096", sizes=[4096], iters=200)
    yield perftest("ib_send_lat", "-c", "XRC", "-e", sizes=[2], iters=500)
    for tool in "ib_send_lat", "ib_write_lat", "ib_read_lat":
        yield perftest(tool, "-c", "XRC", "-s", "64", sizes=[64], iters=500)
    for tool in "ib_atomic_bw", "ib_atomic_lat":
        yield perftest(tool, "-c", "XRC", sizes=[8], iters=500)
    yield perftest("ib_atomic_lat", "-c", "XRC", sizes=[8], iters=20, detail="capture", capture=True)
    for name, faults in LOSS.items():
        yield xrc_pingpong(65536, "-n", "20", detail=name, faults=faults)
        for tool in "ib_send_bw", "ib_write_bw", "ib_read_bw":
            yield perftest(tool, "-c", "XRC", "-s", "65536", sizes=[65536], iters=40, detail=name, faults=faults)
        yield perftest("ib_atomic_bw", "-c", "XRC", sizes=[8], iters=200, detail=name, faults=faults)


def lossy_pingpong_cases():
    for name, faults in LOSS.items():
        for size, mtu, iters in ((1, 1024, 200), (4096, 1024, 100), (65536, 1024, 20),
                                 (65536, 4096, 40), (1 << 20, 4096, 5)):
            for kind, extra in (("rc", ()), ("srq", ("-q", "8"))):
                yield pingpong(kind, size, iters, "-c", *extra, mtu=mtu, detail=name, faults=faults)
        yield pingpong("rc", 5000, 100, "-e", "-c", detail=name, faults=faults)
        yield pingpong("rc", 5000, 50, "-N", "-c", detail=name, faults=faults)
        yield pingpong("rc", 5000, 50, "-c", detail=name, faults=faults, ipv6=True)
        yield pingpong("rc", 5000, 50, "-c", detail=name, faults=faults, nobody=True)
        yield pingpong("srq", 5000, 100, "-e", "-c", "-q", "8", detail=name, faults=faults)


# --- perftest ---------------------------------------------------------------


def perftest(tool, *options, sizes=None, detail="", iters=None, **more):
    """A perftest tool prints one row a size; each must be there, with a result."""
    words = [tool, "-p", "PORT", "-x", "0", "-F"]
    words += ["-n", str(iters)] if iters else []
    words += list(options)
    # "#bytes #iterations result result ..."; the last is a positive rate or time.
    rows = [rf"^\s*{size}\s+\d+(?:\s+\S+)*\s+(?=[\d.]*[1-9])[\d.]+\s*$" for size in sizes or []]
    text = list(options) + ([detail] if detail else [])
    text += ["ipv6"] if more.get("ipv6") else []
    text += ["nobody"] if more.get("nobody") else []
    more.setdefault("expect_client", rows)
    return Case(tool, " ".join(text), words, words + ["HOST"], **more)


ALL = [2 << i for i in range(23)]
ALL_UD = [2 << i for i in range(12)]


def perftest_cases():
    # For each size the tools measure the CPU's clock, which takes longer than the rest: -a is for a few.
    for tool, options in ("ib_send_bw", ()), ("ib_write_bw", ("-b",)), ("ib_read_bw", ()):
        yield perftest(tool, "-a", *options, sizes=ALL, iters=10)
    for tool in "ib_send_bw", "ib_write_bw", "ib_read_bw":
        yield perftest(tool, "-b", "-s", "1048576", sizes=[1048576], iters=20)
        yield perftest(tool, "-q", "8", "-s", "65536", sizes=[65536], iters=50)
        if tool != "ib_write_bw":  # which has no events
            yield perftest(tool, "-e", "-s", "65536", sizes=[65536], iters=100)
        if tool == "ib_send_bw":  # by default one request in 100 is signaled
            yield perftest(tool, "-Q", "1", "-s", "4096", sizes=[4096], iters=1000)
        yield perftest(tool, "-l", "8", "-s", "256", sizes=[256], iters=400)
        yield perftest(tool, "-s", "64", sizes=[64], iters=5000)
        yield perftest(tool, "-s", "65536", "--use_old_post_send", sizes=[65536], iters=100)
        yield perftest(tool, "-s", "65536", "-m", "256", sizes=[65536], iters=20)
        yield perftest(tool, "-s", "65536", sizes=[65536], iters=100, ipv6=True)
        yield perftest(tool, "-s", "65536", sizes=[65536], iters=100, nobody=True)
        yield perftest(tool, "-q", "8", "-b", "-l", "4", "-s", "8192", sizes=[8192], iters=64)
        yield perftest(tool, "-s", "8192", "-t", "4", sizes=[8192], iters=10, detail="capture",
                       capture=True)
    yield perftest("ib_send_lat", "-a", sizes=ALL, iters=5)
    for tool in "ib_send_lat", "ib_write_lat", "ib_read_lat":
        yield perftest(tool, "-s", "1048576", sizes=[1048576], iters=20)
        yield perftest(tool, "-s", "8", sizes=[8], iters=2000)
        yield perftest(tool, "-s", "8", "--use_old_post_send", sizes=[8], iters=500)
        yield perftest(tool, "-s", "5000", sizes=[5000], iters=100, ipv6=True)
        yield perftest(tool, "-s", "5000", sizes=[5000], iters=100, nobody=True)
    for tool in "ib_send_lat", "ib_read_lat":
        yield perftest(tool, "-e", "-s", "64", sizes=[64], iters=200)
    for tool in "ib_send_bw", "ib_send_lat", "ib_write_bw", "ib_write_lat":
        yield perftest(tool, "-I", "64", "-s", "64", sizes=[64], iters=500)
        yield perftest(tool, "-I", "0", "-s", "64", sizes=[64], iters=500)
        yield perftest(tool, "-c", "UC", "-s", "5000", sizes=[5000], iters=100, ipv6=True)
    yield perftest("ib_send_bw", "-c", "UC", "-a", sizes=ALL, iters=5)
    for tool in "ib_send_bw", "ib_write_bw":
        yield perftest(tool, "-c", "UC", "-s", "1048576", sizes=[1048576], iters=10)
        yield perftest(tool, "-c", "UC", "-b", "-q", "8", "-s", "4096", sizes=[4096], iters=40)
    yield perftest("ib_send_bw", "-c", "UC", "-e", "-s", "4096", sizes=[4096], iters=200)
    # Datagrams: no more than fit the receive queue, since nothing holds the sender back.
    for tool in "ib_send_bw", "ib_send_lat":
        yield perftest(tool, "-c", "UD", "-e", "-s", "1024", sizes=[1024], iters=200)
        yield perftest(tool, "-c", "UD", "-I", "64", "-s", "64", sizes=[64], iters=200)
        yield perftest(tool, "-c", "UD", "-s", "2048", sizes=[2048], iters=200, ipv6=True)
        yield perftest(tool, "-c", "UD", "-s", "2048", sizes=[2048], iters=200, nobody=True)
    yield perftest("ib_send_bw", "-c", "UD", "-a", sizes=ALL_UD, iters=100)
    yield perftest("ib_send_bw", "-c", "UD", "-b", "-s", "2048", sizes=[2048], iters=200)
    yield perftest("ib_send_bw", "-c", "UD", "-q", "8", "-s", "1024", sizes=[1024], iters=50)
    yield perftest("ib_send_bw", "-c", "UD", "-l", "8", "-s", "1024", sizes=[1024], iters=200)
    # To its own group, which is one of IPv6.
    yield perftest("ib_send_bw", "-c", "UD", "-g", "-s", "1024", sizes=[1024], iters=200, ipv6=True)
    for options in ((), ("-q", "8"), ("-q", "8", "-e")):
        yield perftest("ib_send_bw", "--use-srq", "-s", "4096", *options, sizes=[4096], iters=200)
    yield perftest("ib_send_bw", "--use-srq", "-c", "UD", "-s", "1024", sizes=[1024], iters=200)
    yield perftest("ib_send_lat", "--use-srq", "-s", "64", sizes=[64], iters=500)
    yield perftest("ib_send_bw", "-l", "16", "--recv_post_list=16", "-s", "1024", sizes=[1024], iters=512)
    for kind in "FETCH_AND_ADD", "CMP_AND_SWAP":
        yield perftest("ib_atomic_bw", "-A", kind, sizes=[8], iters=2000)
        yield perftest("ib_atomic_bw", "-A", kind, "-b", "-q", "8", sizes=[8], iters=200)
        yield perftest("ib_atomic_bw", "-A", kind, "-l", "8", sizes=[8], iters=400)
        yield perftest("ib_atomic_bw", "-A", kind, "-e", sizes=[8], iters=200)
        yield perftest("ib_atomic_lat", "-A", kind, sizes=[8], iters=1000)
        yield perftest("ib_atomic_lat", "-A", kind, sizes=[8], iters=100, ipv6=True)
        yield perftest("ib_atomic_lat", "-A", kind, sizes=[8], iters=20, detail="capture", capture=True)
    yield perftest("ib_atomic_bw", sizes=[8], iters=200, nobody=True)
    yield perftest("ib_read_bw", "-o", "1", "-s", "4096", sizes=[4096], iters=100)
    yield perftest("ib_read_bw", "-q", "8", "-o", "16", "-s", "65536", sizes=[65536], iters=32)


def lossy_perftest_cases():
    for name, faults in LOSS.items():
        for tool in "ib_send_bw", "ib_write_bw", "ib_read_bw":
            yield perftest(tool, "-s", "65536", sizes=[65536], iters=40, detail=name, faults=faults)
            yield perftest(tool, "-q", "8", "-b", "-s", "4096", sizes=[4096], iters=20, detail=name,
                           faults=faults)
        for tool in "ib_send_lat", "ib_write_lat", "ib_read_lat":
            yield perftest(tool, "-s", "64", sizes=[64], iters=200, detail=name, faults=faults)
        yield perftest("ib_send_bw", "-e", "-s", "65536", sizes=[65536], iters=40, detail=name, faults=faults)
        yield perftest("ib_send_bw", "--use-srq", "-q", "8", "-s", "4096", sizes=[4096], iters=20,
                       detail=name, faults=faults)
        yield perftest("ib_atomic_bw", sizes=[8], iters=500, detail=name, faults=faults)
        yield perftest("ib_atomic_lat", "-A", "CMP_AND_SWAP", sizes=[8], iters=200, detail=name,
                       faults=faults)


# --- one node dies ----------------------------------------------------------


def kill_cases():
    """Not with pingpongs: while it waits for the pong, a side has nothing to retry."""
    exceeded = rf"{RETRIES_EXCEEDED}|[Ss]tatus 12\b"
    for tool in "ib_write_bw", "ib_read_bw", "ib_send_bw", "ib_atomic_bw":
        size = [] if tool == "ib_atomic_bw" else ["-s", "65536"]
        yield perftest(tool, *size, "-N", iters=10000000, detail="kill server", kill="server",
                       client_exit=None, expect_client=[exceeded])
        # The server has requests of its own under way only when traffic goes both ways;
        # ib_send_bw's looks at its flushed receives first.
        if tool != "ib_send_bw":
            yield perftest(tool, *size, "-N", "-b", iters=10000000, detail="kill client",
                           kill="client", server_exit=None, expect_client=[],
                           expect_server=[exceeded])


# --- our own programs -------------------------------------------------------

# What scenario.c does, and under which faults it must still succeed.
SCENARIOS_DATA = ("send", "send-srq", "send-events", "write", "write-imm", "read", "atomic",
                  "mixed", "zero-length", "atomic-write", "flush")
SCENARIOS_DATAGRAM = ("uc-send", "uc-write", "ud-send")
SCENARIOS_ERROR = ("bad-rkey-write", "bad-rkey-read", "bad-rkey-atomic", "out-of-bounds",
                   "no-permission", "other-pd", "unaligned-atomic", "send-too-long",
                   "bad-receive-sge", "bad-lkey", "rnr-exhausted", "rnr-recovers", "flush-order",
                   "flush-persistent", "flush-not-allowed", "flush-bad-rkey",
                   "flush-out-of-bounds")
SCENARIOS_QUEUE = ("srq-limit", "solicited", "moderation", "timestamps", "overrun-ignored",
                   "unsignaled", "queue-full", "wr-api")
SCENARIOS_MULTICAST = ("multicast", "multicast-own", "multicast-errors", "multicast-events")
SCENARIOS_MEMORY = ("window-type-1", "window-type-2", "window-zero-based", "window-bounds",
                    "on-demand", "device-memory", "null-region")


def scenario(name, *options, detail="", **more):
    words = ["@tests/e2e/scenario", *options, name, "PORT"]
    text = [name, *options] + ([detail] if detail else [])
    text += [mark for mark in ("ipv6", "apart") if more.get(mark)]
    text += ["nobody"] if more.get("nobody") else []
    good = [rf"^{name}: ok$"]
    more.setdefault("expect_server", good)
    more.setdefault("expect_client", good)
    return Case("scenario", " ".join(text), words, words + ["HOST"], **more)


def scenario_cases():
    for name in SCENARIOS_DATA + SCENARIOS_DATAGRAM + SCENARIOS_ERROR + SCENARIOS_QUEUE + SCENARIOS_MULTICAST:
        yield scenario(name)
    for name in SCENARIOS_DATA:
        yield scenario(name, ipv6=True)
        yield scenario(name, detail="capture", capture=True)
        for loss, faults in LOSS.items():
            yield scenario(name, detail=loss, faults=faults)
            yield scenario(name, "-m", "256", detail=loss, faults=faults)
    for name in SCENARIOS_MEMORY:
        yield scenario(name)
        for loss, faults in LOSS.items() if name != "window-bounds" else ():
            yield scenario(name, "-l", detail=loss, faults=faults)
    for name in SCENARIOS_DATAGRAM:
        yield scenario(name, ipv6=True)
        for loss, faults in LOSS.items():
            yield scenario(name, "-l", detail=loss, faults=faults)
    for name in SCENARIOS_MULTICAST:
        yield scenario(name, ipv6=True)
        yield scenario(name, apart=True)
        yield scenario(name, ipv6=True, apart=True)
    for ipv6 in False, True:
        yield scenario("migrate-dead-path", alternate=True, faults="drop#500+[CLIENT]", ipv6=ipv6)
        yield scenario("migrate-on-demand", alternate=True, ipv6=ipv6)
        for loss, faults in LOSS.items():
            yield scenario("migrate-on-demand", detail=loss, alternate=True, faults=faults, ipv6=ipv6)
    yield scenario("migrate-on-demand", detail="capture", alternate=True, capture=True)
    yield scenario("ud-stopped-receiver")
    for ipv6 in False, True:
        yield scenario("congested", detail="mark", faults="seed=SEED;mark=10%/RC_RDMA_WRITE", ipv6=ipv6)
    for name in ("write", "read", "bad-rkey-write", "flush-order", "multicast"):
        yield scenario(name, nobody=True)
    yield scenario("multicast", detail="capture", capture=True)
    for name in ("bad-rkey-write", "bad-rkey-read", "send-too-long", "rnr-exhausted"):
        yield scenario(name, detail="capture", capture=True)
    for victim in "server", "client":
        yield scenario("peer-dies", detail=f"kill {victim}", kill=victim,
                       **{f"expect_{victim}": []})


# --- programs of the old API --------------------------------------------------


def legacy_cases():
    """Compiled with the headers of include/legacy."""
    for name in "exp-operations", "exp-clocks", "ofa-xrc":
        yield scenario(name)
        yield scenario(name, ipv6=True)
        for loss, faults in LOSS.items():
            yield scenario(name, detail=loss, faults=faults)


# --- many processes on one address --------------------------------------------


def together(detail, *cases, **more):
    """Cases that run at the same time, all processes on the very same address."""
    first, *others = cases
    return dataclasses.replace(first, group="together", detail=detail, one_node=True, beside=others,
                               **more)


def together_cases():
    for ipv6 in (False, True):
        where = {"ipv6": ipv6}
        mark = " ipv6" * ipv6
        yield together("pingpongs" + mark, *(
            pingpong(kind, size, 1000, "-c", **where)
            for kind, size in (("rc", 5000), ("ud", 2048), ("uc", 5000), ("rc", 65536))))
        yield together("perftest" + mark,
                       perftest("ib_send_bw", "-s", "65536", sizes=[65536], iters=500, **where),
                       perftest("ib_send_bw", "-c", "UC", "-s", "4096", sizes=[4096], iters=500, **where),
                       perftest("ib_send_bw", "-c", "UD", "-s", "1024", sizes=[1024], iters=200, **where),
                       perftest("ib_write_bw", "-q", "8", "-s", "65536", sizes=[65536], iters=100, **where),
                       perftest("ib_read_lat", "-s", "4096", sizes=[4096], iters=2000, **where))
    yield together("the same four times", *(
        perftest("ib_write_bw", "-s", "65536", sizes=[65536], iters=500) for _ in range(4)))
    yield together("events nobody", *(
        pingpong("rc", 5000, 500, "-c", "-e", nobody=True) for _ in range(4)))
    for ipv6 in (False, True):
        where = {"ipv6": ipv6}
        yield together("rdma_cm" + " ipv6" * ipv6, *(rping("-C", "50", "-V", **where) for _ in range(3)),
                       both("udaddy", "-c", "10", **where), both("ucmatose", "-c", "50", **where))
        yield together("cmtime" + " ipv6" * ipv6, cmtime(200, **where))
    for name in ("mixed", "flush-order", "rnr-recovers"):
        yield together(name, *(scenario(name) for _ in range(4)))
    for name, faults in LOSS.items():
        yield together(f"pingpongs {name}", *(
            pingpong("rc", 5000, 100, "-c", faults=faults) for _ in range(4)))


def multi_process(kind, *options, detail="", **more):
    """Many processes, which the program starts itself."""
    words = ["@tests/e2e/multi_process", *options, kind]
    text = [kind, *options[:2]] if "-a" in options else [kind, *options]
    text += [detail] if detail else []
    text += [word for word in ("ipv6", "nobody") if more.get(word) and "-a" not in options]
    return Case("multi-process", " ".join(text), None, words, expect_client=[rf"^{kind}: ok$"],
                **more)


def own_nodes(net, count):
    """One for each member; in a namespace, where no other process has them."""
    return ";".join(f"127.0.{net}.{i}" for i in range(1, count + 1))


def multi_process_cases():
    yield multi_process("all-to-all", "-n", "64", "-a", own_nodes(1, 64), detail="64 nodes", ipv6=True)
    yield multi_process("chaos", "-n", "6", "-r", "15", "-a", own_nodes(2, 6), detail="6 nodes", ipv6=True)
    # Of another address or another user nothing but the sockets is different.
    for where, chaos, forks in ({}, "15", "8"), ({"ipv6": True}, "4", "2"), ({"nobody": True}, "4", "2"):
        yield multi_process("all-to-all", "-n", "64", **where)
        yield multi_process("chaos", "-n", "12", "-r", chaos, **where)
        yield multi_process("open-close", "-n", "6", "-r", "6", **where)
        yield multi_process("fork", "-n", "3", "-r", forks, **where)
    for name, faults in LOSS.items():
        yield multi_process("all-to-all", "-l", "-n", "16", detail=name, faults=faults)
        yield multi_process("chaos", "-l", "-n", "6", "-r", "15", detail=name, faults=faults)
    yield multi_process("open-close", "-n", "32", "-r", "2")
    yield multi_process("stranger", "-r", "3")


def scale_cases():
    # A tenth of what the device is to bear; the program by itself does it all.
    sizes = ["-q", "1000", "-m", "10000", "-c", "100", "-d", "100000"]
    for detail, more in ("", {}), ("ipv6", {"ipv6": True}):
        yield Case("scale", " ".join(sizes[:4] + [detail]), None, ["@tests/bench/scale", *sizes],
                   expect_client=["^scale: ok$"], **more)


# --- UCX, on which MPI stands --------------------------------------------------


def ucx(test, size, transports, options=(), **more):
    # The server of newer versions doesn't learn the device from its client.
    words = [*ucx_perftest(), "-p", "PORT", "-t", test, *options]
    built = usage("ucx_info", "-b")
    if built and "HAVE_IB " not in built:  # one that isn't there fails, as any tool
        more["lacking"] = "UCX is built without verbs"
    return Case("ucx", f"{test} {size} {transports}" + " one node" * more.get("one_node", False),
                words, words + ["HOST", "-s", str(size), "-n", "500", "-w", "10"],
                environment={"UCX_TLS": f"{transports},self", "UCX_LOG_LEVEL": "warn"},
                expect_client=[r"^Final:\s+500\s"], **more)


def ucx_cases():
    # Endpoints of its RC transport get to know each other by datagrams.
    connected = "rc_verbs,ud_verbs"
    for transports in connected, "ud_verbs":
        for size in 8, 1 << 20:
            yield ucx("tag_lat", size, transports)
        yield ucx("tag_bw", 65536, transports)
    for test, size in ("ucp_put_bw", 65536), ("ucp_get", 4096), ("ucp_fadd", 8):
        yield ucx(test, size, connected)
    yield ucx("tag_bw", 65536, connected, one_node=True)
    # Not emulated by messages, as UCP's would be on a device without atomics.
    yield ucx("fadd", 8, "rc_verbs", options=["-d", "urxe0:1", "-x", "rc_verbs"])


# --- under the checker ---------------------------------------------------------


def check_cases():
    """
    Each report ends the process with 41. perftest never frees the list of devices; ibv_rc_pingpong -c writes into
    the one buffer that it has also posted as receives.
    """
    silent, kept = {"URXE_CHECK": "exit=41"}, {"URXE_CHECK": "exit=41,no-leaks"}
    for kind, *options in ("rc", "-e"), ("rc", "-N"), ("uc",), ("srq", "-q", "8"):
        yield pingpong(kind, 4096, 50, *options, detail="check", environment=silent)
    yield rping("-C", "5", "-S", "100", "-v", "-q", detail="check", environment=silent)
    for tool in "ib_write_lat", "ib_read_bw":
        yield perftest(tool, "-s", "64", sizes=[64], iters=100, detail="check", environment=kept)
    shared = pingpong("rc", 4096, 50, "-c", detail="check", environment=silent)
    yield dataclasses.replace(shared, client_exit=41, expect_client=shared.expect_client + [
        "check: 0x7102 RECEIVE_BUFFER_CHANGED"])
    for case in example_cases():
        if not case.capture and not case.faults:
            yield dataclasses.replace(case, detail=f"{case.detail} check", environment=silent)


# --- rdma-core's own tests ------------------------------------------------------

# Of 273. The others are for mlx5 and EFA, or for what the device says it doesn't have.
PYVERBS_MINIMUM = 130


def pyverbs_cases():
    suite = os.path.join(os.path.dirname(os.path.abspath(__file__)), "pyverbs_suite.py")
    # A datagram that is lost stays lost, and the suite waits for it: RC alone.
    loss = "seed=SEED;drop=1%/RC_;dup=0.5%/RC_;reorder=0.5%/RC_"
    for name, faults in ("", ""), ("loss=1% of RC", loss):
        yield Case("pyverbs", name, None, [suite, "urxe0", str(PYVERBS_MINIMUM)], faults=faults,
                   expect_client=[r"^\d+ of \d+ tests executed, status 0$"], alone=True,
                   deadline=3 * DEADLINE)


def udp_cases():
    for cases in (device_cases, port_cases, pingpong_cases, xrc_cases, lossy_pingpong_cases, perftest_cases,
                  lossy_perftest_cases, kill_cases, scenario_cases, together_cases, multi_process_cases,
                  scale_cases, manager_cases, rsocket_cases, profile_cases, legacy_cases, example_cases, ucx_cases,
                  check_cases, pyverbs_cases):
        yield from cases()


def all_cases():
    cases = list(udp_cases())
    cases += over_shm(cases)
    return cases + list(under_valgrind(cases))
