# SPDX-License-Identifier: BSD-2-Clause
"""Cases of programs that connect through librdmacm.

The client of a persistent server is a shell's loop of clients.
"""

import dataclasses

from pair import Case, usage

LOSS = "seed=SEED;drop=5%;dup=1%;reorder=1%"


def managed(group, *options, server, client, detail="", **more):
    text = [*options] + ([detail] if detail else [])
    text += [name for name in ("ipv6", "apart", "nobody", "capture") if more.get(name)]
    return Case(group, " ".join(text), server, client, manager=True, **more)


def again(count, words):
    """The same command several times, as long as it succeeds."""
    return ["sh", "-c", " && ".join([" ".join(words)] * count)]


# --- rdmacm-utils ---------------------------------------------------------------


def rping(*options, persistent=0, only_server=(), only_client=(), **more):
    server = ["rping", "-s", "-a", "SERVER", "-p", "PORT", *options, *only_server]
    client = ["rping", "-c", "-a", "SERVER", "-p", "PORT", *options, *only_client]
    words = [*options, *only_server, *only_client]
    if persistent:
        server.insert(2, "-P")
        client = again(persistent, client)
        words.append(f"persistent {persistent} clients")
    return managed("rping", *words, server=server, client=client, stays=bool(persistent), **more)


def rping_cases():
    for size in 23, 64, 100, 4096, 5000, 65535:
        yield rping("-C", "10", "-S", str(size), "-V")
    yield rping("-C", "500", "-V")
    yield rping("-C", "3", "-S", "200", "-v", expect_client=["ping data: rdma-ping-2"],
                expect_server=["server ping data: rdma-ping-2"])
    yield rping("-C", "20", "-S", "5000", "-V", "-q")
    for size in 64, 5000:
        yield rping("-C", "10", "-S", str(size), "-V", ipv6=True)
    yield rping("-C", "10", "-S", "1000", "-V", nobody=True)
    yield rping("-C", "10", "-S", "1000", "-V", capture=True)
    yield rping("-C", "10", "-S", "1000", "-V", capture=True, ipv6=True)
    yield rping("-C", "10", "-V", only_client=("-I", "CLIENT"))
    yield rping("-C", "10", "-V", persistent=5)
    yield rping("-C", "10", "-V", persistent=3, ipv6=True)
    yield rping("-C", "50", "-S", "1000", "-V", detail="loss=5%", faults=LOSS)
    yield managed("rping", "wildcard", server=["rping", "-s", "-p", "PORT", "-C", "5", "-V"],
                  client=["rping", "-c", "-a", "SERVER", "-p", "PORT", "-C", "5", "-V"])
    yield managed("rping", "no listener", server=["rping", "-s", "-a", "SERVER", "-p", "PORT"],
                  client=["rping", "-c", "-a", "SERVER", "-p", "1", "-C", "5"], stays=True,
                  client_exit=None, expect_client=["RDMA_CM_EVENT_REJECTED, error 8"])


def both(tool, *options, more_expected=(), bound=True, mapped="", **more):
    """ucmatose and udaddy: the same options on both sides. udaddy's port is its own choice."""
    common = [tool, *(["-p", "PORT"] if tool == "ucmatose" else []), *options]
    client = common + ["-s", mapped + "SERVER"] + (["-b", mapped + "CLIENT"] if bound else [])
    expect = ["^test complete", "return status 0$", *more_expected]
    return managed(tool, *options, *([] if bound else ["unbound"]),
                   server=common + ["-b", mapped + "SERVER"], client=client, expect_server=expect,
                   expect_client=expect, **more)


def gid_cases():
    """Addresses of InfiniBand's family."""
    for tool in "ucmatose", "udaddy":
        yield both(tool, "-f", "gid", "-c", "3", mapped="::ffff:")
        yield both(tool, "-f", "gid", "-c", "3", mapped="::ffff:", bound=False)
        yield both(tool, "-f", "gid", "-c", "3", ipv6=True)
    yield both("ucmatose", "-f", "gid", "-P", "ib", "-c", "3", mapped="::ffff:")
    yield both("ucmatose", "-f", "gid", "-c", "5", "-C", "20", mapped="::ffff:", detail="loss=5%",
               faults=LOSS)
    everywhere = ["ucmatose", "-p", "PORT", "-f", "gid"]
    yield managed("ucmatose", "-f gid wildcard", server=everywhere,
                  client=everywhere + ["-s", "::ffff:SERVER"], expect_server=["return status 0$"],
                  expect_client=["return status 0$"])


def both_cases():
    for tool in "ucmatose", "udaddy":
        yield both(tool)
        yield both(tool, bound=False)
        yield both(tool, "-c", "10", "-C", "20", "-S", "1000")
        yield both(tool, "-c", "10", ipv6=True)
        yield both(tool, "-c", "3", nobody=True)
        yield both(tool, "-c", "3", capture=True)
        yield both(tool, "-c", "10", "-t", "40")
        yield both(tool, "-c", "100", "-C", "2")
    yield both("ucmatose", "-c", "10", "-m", more_expected=["migrating"])
    yield both("ucmatose", "-c", "10", "-a", "14")
    yield both("ucmatose", "-P", "ib", "-c", "3")
    yield both("ucmatose", "-c", "200", "-C", "1", "-S", "16")
    yield both("ucmatose", "-c", "5", "-C", "20", detail="loss=5%", faults=LOSS)
    yield both("udaddy", "-P", "ipoib", "-c", "3")


def mckey(*options, sender=(), bound=True, **more):
    """The sender pauses for three seconds, for receivers to join."""
    common = ["mckey", "-m", "GROUP", *options]
    expect = [r"joined dgid: \S+ mlid 0x0 sl 0$", "^data transfers complete", "return status 0$"]
    return managed("mckey", *options, *sender, *([] if bound else ["unbound"]),
                   server=common + (["-b", "SERVER"] if bound else []),
                   client=common + ["-s", "-b", "CLIENT", *sender],
                   expect_server=expect, expect_client=expect, **more)


def mckey_cases():
    yield mckey()
    yield mckey(bound=False)
    yield mckey("-c", "5", "-C", "20", "-S", "1000")
    yield mckey("-C", "100", "-S", "4096")
    yield mckey(sender=["-o"])
    yield mckey("-p", "0x0002")
    yield mckey(ipv6=True)
    yield mckey("-S", "1000", apart=True)
    yield mckey(ipv6=True, apart=True)
    yield mckey(nobody=True)
    yield mckey(capture=True)
    nowhere = ["mckey", "-m", "0.0.0.0", "-b", "CLIENT"]
    yield managed("mckey", "no group", server=None, client=nowhere, client_exit=None,
                  expect_client=["mckey: failure joining: Invalid argument"])
    unmapped = ["mckey", "-M", "::ffff:GROUP", "-C", "3"]
    yield managed("mckey", "unmapped", server=unmapped + ["-b", "SERVER"],
                  client=unmapped + ["-b", "CLIENT", "-s"],
                  expect_server=["return status 0$"], expect_client=["return status 0$"])


def cmtime(count, **more):
    """In three versions of its own: with a colon before the columns, with out-of-band sockets of IPv4, with a controller."""
    expect = [rf"^{step}\s*:?\s+[\d.]+" for step in ("create id", "bind addr", "resolve addr",
                                                    "resolve route", "create qp", "(?:cm )?connect",
                                                    "disconnect", "destroy(?: id)?")]
    options = ["-p", "PORT", "-c", str(count)]
    known = usage("cmtime")
    if "-C controller_address" in known:
        words = ["cmtime", "-C", "HOST", *options]
        return dataclasses.replace(managed("cmtime", str(count), server=[*words, "-L", "-b", "SERVER"],
                                           client=[*words, "-b", "CLIENT"], expect_client=expect, **more),
                                   manager=False)
    if "-q base_qpn" in known and more.get("ipv6"):
        more["lacking"] = "this version of cmtime has no IPv6"
    return managed("cmtime", str(count), server=["cmtime", "-b", "SERVER", *options],
                   client=["cmtime", "-s", "SERVER", "-b", "CLIENT", *options], stays=True, may_end=True,
                   expect_client=expect, **more)


def examples():
    done = {"expect_server": ["rdma_server: end 0"], "expect_client": ["rdma_client: end 0"]}
    for where in {}, {"ipv6": True}, {"nobody": True}, {"capture": True}:
        yield managed("rdma_client", server=["rdma_server", "-s", "SERVER", "-p", "PORT"],
                      client=["rdma_client", "-s", "SERVER", "-p", "PORT"], **done, **where)
    yield managed("rdma_client", "wildcard", server=["rdma_server", "-p", "PORT"],
                  client=["rdma_client", "-s", "SERVER", "-p", "PORT"], **done)
    done = {"expect_server": ["rdma_xserver: end 0"], "expect_client": ["rdma_xclient: end 0"]}
    for kind, more in ("r", {}), ("x", {}), ("x", {"capture": True}):
        yield managed("rdma_xclient", "-c", kind, server=["rdma_xserver", "-p", "PORT", "-c", kind],
                      client=["rdma_xclient", "-s", "SERVER", "-p", "PORT", "-c", kind], **done,
                      **more)


# --- our own ----------------------------------------------------------------------


def connect(count, threads, orderly=True, killed=False, **more):
    # A disconnect that overtakes what establishes a connection is one of its ends, too.
    established = count if orderly else r"\d+"
    words = ["@tests/e2e/connect", "-n", str(count), "-t", str(threads)]
    client = words + ["-k"] * killed
    return managed("connect", " ".join(client[1:]), server=words + ["-l", "SERVER", "PORT"],
                   client=client + ["SERVER", "PORT"],
                   expect_server=[rf"^{established} established, {count} ended$"],
                   expect_client=[rf"^{count} connections"], **more)


def connect_cases():
    yield connect(10000, 1)
    yield connect(4000, 8)
    yield connect(5, 1, killed=True)
    yield connect(5, 1, killed=True, one_node=True, detail="one node")
    yield connect(200, 4, ipv6=True)
    yield connect(200, 4, nobody=True)
    yield connect(40, 4, orderly=False, detail="loss=5%", faults=LOSS)


def together_cases():
    """Servers in processes of their own listen on one address; each gets its own requests."""
    for where in {}, {"ipv6": True}, {"nobody": True}:
        first, *others = (
            rping("-C", "100", "-S", "1000", "-V", **where), rping("-C", "100", "-S", "5000", "-V", **where),
            rping("-C", "10", "-V", persistent=5, **where), both("ucmatose", "-c", "10", "-C", "20", **where),
            connect(400, 4, orderly=False, **where), connect(100, 1, orderly=False, **where))
        mark = "".join(f" {name}" for name in where)
        yield dataclasses.replace(first, group="together", detail="rdma_cm mixture" + mark, one_node=True,
                                  beside=others)


# --- perftest -R, which has no IPv6 there -------------------------------------------


def perftest(tool, *options, size=None, **more):
    words = [tool, "-R", "-p", "PORT", "-x", "0", "-F", *options]
    words += ["-s", str(size)] if size else []
    row = rf"^\s*{size or 8}\s+\d+(?:\s+\S+)*\s+(?=[\d.]*[1-9])[\d.]+\s*$"
    return managed(tool, "-R", *options, server=words, client=words + ["SERVER"],
                   expect_client=[row], **more)


def perftest_cases():
    for tool in "ib_send_bw", "ib_write_bw", "ib_read_bw":
        yield perftest(tool, "-n", "100", size=65536)
        yield perftest(tool, "-n", "50", "-q", "4", size=4096)
    for tool in "ib_send_lat", "ib_write_lat", "ib_read_lat":
        yield perftest(tool, "-n", "500", size=64)
    yield perftest("ib_atomic_bw", "-n", "200")
    yield perftest("ib_atomic_lat", "-n", "200")
    yield perftest("ib_send_bw", "-n", "100", "-c", "UD", size=1024)
    yield perftest("ib_send_lat", "-n", "100", "-c", "UD", size=1024)
    yield perftest("ib_write_bw", "-n", "100", "-T", "40", size=4096)
    yield perftest("ib_write_lat", "-n", "20", size=8, capture=True)


def manager_cases():
    yield from rping_cases()
    yield from both_cases()
    yield from gid_cases()
    yield from mckey_cases()
    for count in 1, 100, 1000:
        yield cmtime(count)
    yield cmtime(100, ipv6=True)
    yield from examples()
    yield from connect_cases()
    yield from together_cases()
    yield from perftest_cases()
