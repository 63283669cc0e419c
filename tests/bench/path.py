# SPDX-License-Identifier: BSD-2-Clause
"""Two network namespaces, and between them a path with a round trip and losses.

    left ---- near-left   delay_bridge   near-right ---- right
    10.9.0.1, .3, ...                            10.9.0.2, .4, ...

Both wires are veth pairs whose near ends are in a third namespace.  All three
belong to one user namespace, so an ordinary user can make them.  Without a
bridge, left and right are the ends of one veth pair.
"""

import subprocess

from pair import Namespace, Skip, Wire

# Enough for the largest bandwidth-delay product, for autotuning to choose from.
TCP_BUFFERS = " && ".join(f"echo 4096 131072 {64 << 20} >/proc/sys/net/ipv4/tcp_{name}"
                          for name in ("rmem", "wmem"))


class Path:
    """To be a Runner's wire."""

    def __init__(self, mtu, bridged=True):
        self.near = Namespace("true")
        self.left = Namespace(TCP_BUFFERS, self.near)
        self.right = Namespace(TCP_BUFFERS, self.near)
        try:
            self.connect(mtu, bridged)
        except Skip:
            self.close()
            raise

    def connect(self, mtu, bridged):
        for namespace in self.near, self.left, self.right:
            namespace.enter()  # raises why there is none
        ends = [f"{name} mtu {mtu} netns {end.process.pid}"
                for name, end in (("left", self.left), ("right", self.right))]
        if not bridged:
            self.set_up(self.near, f"ip link add {ends[0]} type veth peer name {ends[1]}")
        for end in ends if bridged else []:
            name = "near-" + end.split()[0]
            self.set_up(self.near, f"ip link add {name} mtu {mtu} type veth peer name {end} && "
                                   f"ip link set {name} addrgenmode none up")
        self.set_up(self.left, Wire.addresses("left", 1))
        self.set_up(self.right, Wire.addresses("right", 2))

    @staticmethod
    def set_up(namespace, script):
        namespace.run(script)
        namespace.enter()  # raises what went wrong

    def close(self):
        for namespace in self.left, self.right, self.near:
            namespace.close()

    def packets_lost(self):
        """Since the namespaces were made, by full receive buffers of UDP sockets."""
        return sum(int(self.snmp(end, "Udp", "RcvbufErrors")) for end in (self.left, self.right))

    @staticmethod
    def snmp(namespace, protocol, name):
        text = subprocess.run(namespace.enter() + ["cat", "/proc/net/snmp"], check=True,
                              capture_output=True, text=True).stdout
        names, values = (line.split() for line in text.splitlines()
                         if line.startswith(protocol + ":"))
        return values[names.index(name)]


class Bridge:
    """A delay_bridge on a path, while the with statement runs; then it has counters."""

    def __init__(self, path, program, rtt_ms=0.0, loss=0.0, **options):
        options = {"delay": rtt_ms * 1000 / 2, "loss": loss} | options
        words = [f"--{name}={value}" for name, value in options.items() if value]
        self.path = path
        self.command = path.near.enter() + [program, *words, "near-left", "near-right"]
        self.process = None
        self.lines = []

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, text=True,
                                        start_new_session=True)
        if self.process.stdout.readline() != "ready\n":
            raise Skip(f"delay_bridge ended with {self.process.wait()}")
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.lines = self.process.communicate()[0].splitlines()

    def lost(self):
        """In both directions; each line is "left to right: NAME N NAME N ..."."""
        words = " ".join(self.lines).split()
        return sum(int(words[i + 1]) for i, word in enumerate(words)
                   if word in ("dropped", "overflowed", "missed"))
