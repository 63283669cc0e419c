# SPDX-License-Identifier: BSD-2-Clause
"""How scripts/bench runs each tool on loopback: ours, perftest, UCX's and libfabric's."""

from measure import AVERAGE, KIB, MIB, NAN, RATE, TYPICAL, Bench, perftest_figure
from pair import ucx_perftest

RSTREAM_RATE, RSTREAM_TRANSFER = 6, 7  # columns of rstream: Gb/s, us

# A packet of RDMA WRITE or SEND as UDP sees it: BTH, payload, ICRC; and as many as one call takes.
HEADERS = 16
UDP_MOST = 65507
SMALL_WRITE = 8 + HEADERS + 16  # with its RETH

TAIL = 8  # perftest's column of the 99.9th percentile
# Columns of ucx_perftest -v: the median half round trip in us, MiB/s, messages/s.
UCX_MEDIAN, UCX_AVERAGE, UCX_RATE = 1, 5, 7
SLOTS, SMALL_SLOTS = 128, 4096  # of tests/bench/ring: see there
# MiB of a stream. Each begins with some 20 ms in which threads find their CPUs and windows grow.
STREAM = 4 * KIB


class LoopbackBench(Bench):
    # --- what is without RDMA ------------------------------------------------

    def udp_stream(self, mtu):
        size = mtu + HEADERS
        return self.program("udp_stream", size, UDP_MOST // size, STREAM)

    def udp_rate(self):
        return self.program("udp_stream", "-p", SMALL_WRITE, 1, 16)

    def ring_latency(self):
        return self.program("ring", "-l", SMALL_WRITE)

    def ring_stream(self):
        return self.program("ring", 4 * KIB, SLOTS, 2 * STREAM)

    def ring_rate(self):
        return self.program("ring", "-p", SMALL_WRITE, SMALL_SLOTS, 256)

    # --- urxe ----------------------------------------------------------------

    def perftest(self, tool, size, iters, column, *options, link="udp", loss=0, environment=None):
        words = [tool, "-p", "PORT", "-x", "0", "-F", "-s", str(size), "-n", str(iters), *options]
        return self.pair(tool, words, words + ["HOST"],
                         lambda output: perftest_figure(output, column, size, iters),
                         environment={"URXE_LINK": link} | (environment or {}),
                         faults=f"seed=SEED;drop={loss}%" if loss else "")

    def latency(self, tool, *options, size=8, iters=50000, **more):
        return self.perftest(tool, size, iters, TYPICAL, *options, **more)

    def tail(self, tool, iters, **more):
        return self.perftest(tool, 8, iters, TAIL, **more)

    def bandwidth(self, tool, size, *options, mtu=4096, **more):
        return self.perftest(tool, size, STREAM * MIB // size, AVERAGE, "-m", str(mtu), *options,
                             **more)

    def rstream(self, size, transfers, iters, column):
        words = ["rstream", "-p", "PORT", "-S", str(size), "-C", str(transfers), "-I", str(iters)]
        return self.pair("rstream", words + ["-b", "SERVER"], words + ["-s", "SERVER"],
                         lambda output: perftest_figure(output, column, "custom"), manager=True)

    def rsocket_latency(self, size, iters=10000):
        return self.rstream(size, 1, iters, RSTREAM_TRANSFER)

    def rsocket_bandwidth(self, size):
        """It tells Gb/s."""
        return self.rstream(size, STREAM * MIB // 2 // size, 1, RSTREAM_RATE) * 1e9 / 8 / MIB

    def rate(self, *options, **more):
        return self.perftest("ib_write_bw", 8, 512 * 8000, RATE, "-t", "512", *options, **more)

    def flows(self, qps, threads, size=MIB, link="udp"):
        writes = STREAM * MIB // (qps * size)
        words = ["@tests/bench/flows", "-p", "PORT", "-q", str(qps), "-t", str(threads),
                 "-s", str(size), "-n", str(writes)]
        return self.pair("flows", words, words + ["HOST"], float, environment={"URXE_LINK": link})

    def idle(self, link="udp"):
        return self.pair("idle", None, ["@tests/bench/idle", "3"], float,
                         environment={"URXE_LINK": link})

    # --- others --------------------------------------------------------------

    def ucx(self, test, size, iters, column, transport, *options):
        """@transport "tcp" or "posix", its shared memory."""
        words = [*ucx_perftest(), "-p", "PORT"]

        def find(output):
            figures = output.splitlines()[-1].split(",")
            return float(figures[column]) if figures[0].strip() == str(iters) else None

        return self.pair(test, words, words + ["HOST", "-t", test, "-s", str(size), "-n", str(iters),
                                               "-w", str(iters // 10), "-f", "-v", *options],
                         find, bare=True, environment={"UCX_TLS": f"{transport},self"})

    def ucx_latency(self, test, size, iters, transport):
        return self.ucx(test, size, iters, UCX_MEDIAN, transport)

    def ucx_stream(self, test, size, transport, mebibytes):
        return self.ucx(test, size, mebibytes * MIB // size, UCX_AVERAGE, transport, "-O", "64")

    def ucx_rate(self, test, iters, transport):
        rate = self.ucx(test, 8, iters, UCX_RATE, transport, "-O", "64")
        return rate / 1e6 if rate else NAN

    def libfabric_latency(self, size, iters, provider):
        """The mean: fi_pingpong tells no other."""
        words = ["fi_pingpong", "-p", provider, "-e", "rdm", "-I", str(iters), "-S", str(size)]

        def find(output):
            rows = [line.split() for line in output.splitlines()]
            return next((float(row[6]) for row in rows if len(row) == 8 and row[6][0].isdigit()), None)

        return self.pair("fi_pingpong", words + ["-B", "PORT"], words + ["-P", "PORT", "HOST"], find,
                         bare=True)
