# SPDX-License-Identifier: BSD-2-Clause
"""Cases that run over the link of shared memory, too: some of each kind of traffic.

URXE_LINK=shm tests/e2e/run runs all of them over it.
"""

import dataclasses

from pair import named

OVER_SHM = {
    "rc_pingpong size=65536 mtu=1024 -c",
    "uc_pingpong size=4097 mtu=4096 -c",
    "ud_pingpong size=2048 -e -c",
    "srq_pingpong size=4096 mtu=1024 -c -q 8",
    "rc_pingpong size=4096 -N -e -c",
    "rc_pingpong size=5000 -e -c nobody",
    "rc_pingpong size=5000 -c capture",
    "rc_pingpong size=65536 mtu=4096 -c loss=5%",
    "xsrq_pingpong size=4096 -n 100 -e",
    "ib_atomic_bw -A FETCH_AND_ADD -b -q 8",
    "ib_write_bw -q 8 -b -l 4 -s 8192",
    "ib_read_bw -q 8 -o 16 -s 65536",
    "ib_send_bw --use-srq -s 4096 -q 8 -e",
    "scenario mixed",
    "scenario mixed loss=5%",
    "scenario send-events",
    "scenario rnr-recovers",
    "scenario bad-rkey-write",
    "rping -C 10 -S 1000 -V nobody",
    "connect -n 200 -t 4 nobody",
    "ucx tag_bw 65536 rc_verbs,ud_verbs",
    "multi-process all-to-all -n 64",
    "multi-process chaos -n 12 -r 15",
    "multi-process chaos -l -n 6 -r 15 loss=5%",
    "multi-process fork -n 3 -r 8",
}


def over_shm(cases):
    """Of @cases those that are named above, over shared memory."""
    for case in named(cases, OVER_SHM):
        yield dataclasses.replace(case, detail=f"{case.detail} shm".strip(),
                                  environment=case.environment | {"URXE_LINK": "shm"})
