# SPDX-License-Identifier: BSD-2-Clause
"""Cases of rsockets: librdmacm's tools, and programs of TCP under its librspreload."""

import dataclasses
import glob

from manager_cases import managed
from pair import Case

LOSS = "seed=SEED;drop=5%;dup=1%;reorder=1%"
# name, bytes of a transfer, transfers, iterations, bytes in all, time, Gb/s, us a transfer
FIGURES = r"^\S+ +\S+ +\S+ +\d+ +\S+ +[\d.]+s +[\d.]+ +[\d.]+$"


def streaming(tool, *options, test="", size=5000, transfers=50, **more):
    """rstream and riostream, which say what they measured, and with -T v check each byte."""
    common = [tool, "-p", "PORT", "-S", str(size), "-C", str(transfers), "-I", "5",
              *[word for letter in test for word in ("-T", letter)], *options]
    text = ([f"-T {test}"] if test else []) + [f"-S {size}", *options]
    return managed(tool, *text, server=common + ["-b", "SERVER"], client=common + ["-s", "SERVER"],
                   expect_server=[FIGURES], expect_client=[FIGURES], **more)


def stream_cases():
    for tool in "rstream", "riostream":
        for test in "", "a", "b", "n", "v", "av", "bv", "nv":
            yield streaming(tool, test=test)
        for size in 1, 64, 65, 65536:
            yield streaming(tool, test="v", size=size)
        yield streaming(tool, test="v", size=1 << 20, transfers=5)
        yield streaming(tool, "-B", "8192", test="v", size=100000, transfers=2)
        for size in 5000, 65536:  # with the immediate data in the last packet, and in one of its own
            yield streaming(tool, test="v", size=size, transfers=5, capture=True)
        yield streaming(tool, test="v", size=50000, detail="loss=5%", faults=LOSS)
        yield streaming(tool, test="v", nobody=True)
    yield streaming("rstream", test="vr")
    yield streaming("rstream", "-k", "1", test="v")
    yield streaming("rstream", "-f", "ipv6", test="v", ipv6=True)
    yield streaming("rstream", "-f", "ipv6", test="rv", transfers=5, ipv6=True, capture=True)
    yield streaming("rstream", "-f", "gid", test="v", ipv6=True)


def copy_cases():
    """A copy of a file of some MB, and then of one that is empty, which end up with the client's name."""
    script = ("dd if=/dev/urandom of=SERVER.from bs=123457 count=30 status=none"
              " && rcopy SERVER.from SERVER:SERVER.to -p PORT && cmp SERVER.from SERVER.to && echo the same")
    for detail, faults in ("", ""), ("loss=5%", LOSS):
        yield managed("rcopy", server=["rcopy", "-p", "PORT"], client=["sh", "-c", script], stays=True,
                      expect_client=["^the same$"], detail=detail, faults=faults)


def pong(*options, **more):
    """udpong's server never ends; a datagram may be lost, and the client says so."""
    common = ["udpong", "-p", "PORT", "-C", "200", *options]
    return Case("udpong", " ".join(options), common + ["-b", "SERVER"], common + ["-s", "SERVER"],
                datagrams=True, stays=True, expect_client=[r"^\S+ +\S+ +\S+ +\S+ +[\d.]+s +[\d.]+ +[\d.]+$"], **more)


def pong_cases():
    for test in "a", "b", "n", "e":
        yield pong("-T", test)
    yield pong("-S", "64")


def kill_cases():
    """The other side's connection fails when its retries are used up, or it has ended before it noticed."""
    common = ["rstream", "-p", "PORT", "-T", "b", "-S", "50000", "-C", "100000", "-I", "100"]
    for side in "server", "client":
        yield managed("rstream", "kill", side, server=common + ["-b", "SERVER"], client=common + ["-s", "SERVER"],
                      kill=side, client_exit=None, server_exit=None,
                      **{"expect_server" if side == "client" else "expect_client": [
                          "(rsend|rrecv): (Connection timed out|Connection reset by peer|Broken pipe)"]})


# --- programs of TCP ----------------------------------------------------------------------------

PRELOAD = (glob.glob("/usr/lib/*/rsocket/librspreload.so") or ["librspreload.so"])[0]

FORKING_SERVER = """
import http.server, socketserver
class Server(socketserver.ForkingTCPServer):
    allow_reuse_address = True
with Server(("SERVER", PORT), http.server.SimpleHTTPRequestHandler) as server:
    server.serve_forever()
"""


def under_preload(case, **environment):
    return dataclasses.replace(case, detail=f"{case.detail} preloaded".strip(),
                               environment={"LD_PRELOAD": PRELOAD, **environment})


def preload_cases():
    data = "dd if=/dev/urandom of=CLIENT.data bs=123457 count=20 status=none && "
    here = ["-p", "PORT"]
    for options in (), ("-R",), ("-P", "4"):
        yield under_preload(managed(
            "iperf3", *options, server=["iperf3", "-s", "-1", "-B", "SERVER", *here],
            client=["iperf3", "-c", "SERVER", "-n", "20M", *options, *here], expect_client=["receiver$"]))
    yield under_preload(managed(
        "nc", server=["sh", "-c", "exec nc -l SERVER PORT >SERVER.got"],
        client=["sh", "-c", data + "nc -N SERVER PORT <CLIENT.data && cmp CLIENT.data SERVER.got && echo the same"],
        expect_client=["^the same$"]))
    yield under_preload(managed(
        "socat", server=["socat", "-u", "TCP-LISTEN:PORT,bind=SERVER", "OPEN:SERVER.got,creat"],
        client=["sh", "-c", data + "socat -U TCP:SERVER:PORT OPEN:CLIENT.data && echo done"],
        expect_client=["^done$"]))
    yield under_preload(managed(
        "http.server", server=["/usr/bin/python3", "-m", "http.server", "--bind", "SERVER", "PORT"],
        client=["sh", "-c", data + "curl -sS -o CLIENT.got http://SERVER:PORT/CLIENT.data"
                " && cmp CLIENT.data CLIENT.got && echo the same"],
        stays=True, expect_client=["^the same$"], expect_server=["GET /.*200"]))
    words = r"printf 'set key 0 0 5\r\nvalue\r\nget key\r\nquit\r\n' | nc SERVER PORT"
    yield under_preload(managed(
        "memcached", server=["memcached", "-u", "root", "-U", "0", "-l", "SERVER", *here],
        client=["sh", "-c", words], stays=True, expect_client=["^STORED", "^VALUE key 0 5", "^END"]),
        EVENT_NOEPOLL="1")  # its threads poll sockets together with pipes of their own
    # Forked servers begin with TCP, and become rsockets in the child.
    forked = ["rstream", "-T", "f", "-S", "5000", "-C", "50", "-I", "5", *here]
    yield under_preload(Case("rstream", "-T f", forked + ["-b", "SERVER"], forked + ["-s", "SERVER"],
                             expect_client=[FIGURES]), RDMAV_FORK_SAFE="1")
    # Python connects without O_NONBLOCK, so that librspreload sees at once what becomes of it.
    fetch = ("/usr/bin/python3 -c 'import urllib.request as request;"
             " request.urlretrieve(\"http://SERVER:PORT/CLIENT.data\", \"CLIENT.got\")' && cmp CLIENT.data CLIENT.got")
    # The node refuses an rsocket, as the server has TCP alone: the client goes back to that.
    yield under_preload(Case(
        "http.server", "of TCP",
        server=["env", "-u", "LD_PRELOAD", "/usr/bin/python3", "-m", "http.server", "--bind", "SERVER", "PORT"],
        client=["sh", "-c", data + fetch + " && echo the same"],
        one_node=True, stays=True, expect_client=["^the same$"], expect_server=["GET /.*200"]))
    # Python's sockets have SOCK_CLOEXEC: of a server that forks they stay TCP's.
    yield under_preload(Case(
        "http.server", "forks", server=["/usr/bin/python3", "-c", FORKING_SERVER],
        client=["sh", "-c", data + " && ".join([fetch] * 3) + " && echo the same"],
        stays=True, expect_client=["^the same$"], expect_server=["GET /.*200"]), RDMAV_FORK_SAFE="1")


def rsocket_cases():
    for cases in stream_cases, copy_cases, pong_cases, kill_cases, preload_cases:
        yield from cases()
