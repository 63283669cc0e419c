# SPDX-License-Identifier: BSD-2-Clause
"""ibv_rc_pingpong, on a good network and on a bad one."""

import pytest


@pytest.mark.parametrize("faults", [[], ["--faults", "seed=7;drop=2%;reorder=2%"]], ids=["good", "bad"])
def test_pingpong(nodes, port, faults):
    server, client = nodes(2)
    pingpong = ["ibv_rc_pingpong", "-g", "0", "-c", "-n", "200", "-p", str(port)]
    with server.start(*pingpong, port=port):
        assert "200 iters" in client.run(*pingpong, server.address, options=faults)
