# SPDX-License-Identifier: BSD-2-Clause
"""The programs of docs/examples, built against rdma-core's own libraries."""

from pair import Case


def example(name, server, client, expect_server, expect_client, **more):
    program = f"@docs/examples/{name}"
    marks = [mark for mark in ("ipv6", "apart", "capture") if more.get(mark)]
    detail = " ".join([name, *more.pop("detail", []), *marks])
    return Case("example", detail, [program, *server], [program, *client],
                expect_server=expect_server, expect_client=expect_client, **more)


def rc_over_tcp(**more):
    return example("rc_over_tcp", ["PORT"], ["PORT", "HOST"],
                   ["^in my memory: written by the client$"],
                   ["^received: a message$", "^read: for you to read$"], **more)


def multicast(name, bound=True, **more):
    local = (["SERVER"], ["CLIENT"]) if bound else ([], [])
    return example(name, ["receive", "GROUP", *local[0]], ["send", "GROUP", *local[1]],
                   [rf"^\d+ bytes.*: multicast {i}$" for i in range(10)], ["^sent 10$"],
                   manager=True, detail=[] if bound else ["unbound"], **more)


def srq_rdma(**more):
    answers = [rf"^connection {i}: the server says thank you$" for i in range(4)]
    messages = [rf"^client \d, buffer \d: message {k} of connection {i}$"
                for k in range(8) for i in range(4)]
    return example("srq_rdma", ["server", "SERVER", "PORT"], ["client", "SERVER", "PORT"],
                   messages, answers, manager=True, **more)


def xrc(**more):
    messages = [rf"^short queue: 64 bytes, message {i}$" for i in range(0, 16, 2)]
    messages += [rf"^long queue: 4096 bytes, message {i}$" for i in range(1, 16, 2)]
    return example("xrc", ["PORT"], ["PORT", "HOST"], messages, ["^sent 16 messages over one connection$"],
                   **more)


def path_migration(role, **more):
    """The client's first address is dead from the middle on, or its program doesn't wait for that."""
    migrated = ["^event: path migrated$", "^the path leads to .*, the alternate address$"]
    return example("path_migration", ["server", "SERVER", "PORT"], [role, "SERVER", "PORT"],
                   ["^received 1000 messages$", *migrated], ["^sent 1000 messages$", *migrated],
                   manager=True, alternate=True, detail=[role], **more)


def example_cases():
    for where in {}, {"ipv6": True}:
        yield xrc(**where)
        yield path_migration("client", faults="drop#500+[CLIENT]", **where)
        yield path_migration("migrate", **where)
    for where in {}, {"ipv6": True}, {"capture": True}:
        yield rc_over_tcp(**where)
        yield srq_rdma(**where)
    for name in "multicast_verbs", "multicast_rdma":
        for where in {}, {"ipv6": True}, {"apart": True}:
            yield multicast(name, **where)
        yield multicast(name, bound=False)
