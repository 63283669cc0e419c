# SPDX-License-Identifier: BSD-2-Clause
"""Cases that run under valgrind, too: memcheck finds nothing in urxe that it would tell an
application's developer.
"""

import dataclasses
from pathlib import Path

from pair import named

FOUND = 77  # its exit status then
VALGRIND = ["valgrind", "--quiet", f"--error-exitcode={FOUND}", "--leak-check=full",
            "--show-leak-kinds=definite", "--errors-for-leak-kinds=definite",
            f"--suppressions={Path(__file__).resolve().with_name('rping.supp')}"]

UNDER_VALGRIND = {
    "rc_pingpong size=5000 -e -c nobody",
    "rc_pingpong size=5000 -c one node",
    "uc_pingpong size=4097 mtu=4096 -c",
    "ud_pingpong size=2000 -i 2 -c ipv6",
    "xsrq_pingpong size=4096 -n 100 -e shm",
    "rping -C 20 -S 5000 -V port 2",
    "rping -C 10 -S 1000 -V nobody shm",
    "scenario mixed loss=5%",
    "scenario mixed shm",
    "scenario on-demand",
    "scenario window-type-2",
    "example rc_over_tcp",
    "example srq_rdma ipv6",
    "example multicast_rdma",
    "example path_migration migrate",
    "example xrc",
}


def under_valgrind(cases):
    """Of @cases those that are named above, with both sides under valgrind."""
    for case in named(cases, UNDER_VALGRIND):
        yield dataclasses.replace(case, detail=f"{case.detail} valgrind",
                                  server=VALGRIND + case.server, client=VALGRIND + case.client)
