# SPDX-License-Identifier: BSD-2-Clause
"""
A fixture for tests of RDMA programs: nodes of this machine to run them on.

    def test_something(nodes):
        server, client = nodes(2)
        with server.start("my-server"):
            client.run("my-client", server.address)

The variable URXE names the program, if it isn't in the PATH.
"""

import contextlib
import itertools
import os
import pathlib
import subprocess
import tempfile
import time

import pytest

TIMEOUT = 60  # seconds


class Node:
    def __init__(self, address):
        self.address = address

    def command(self, words, options):
        return [os.environ.get("URXE", "urxe"), "run", "--node", self.address, *options, "--", *words]

    def run(self, *words, options=()):
        """Run a program to its end and return what it said; it has to succeed."""
        done = subprocess.run(self.command(words, options), text=True, timeout=TIMEOUT,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        assert done.returncode == 0, done.stdout
        return done.stdout

    @contextlib.contextmanager
    def start(self, *words, options=(), port=None):
        """Run a program beside what follows, which it has to survive, from when it listens on TCP @port."""
        with tempfile.TemporaryFile("w+") as said:  # a full pipe would stop it
            process = subprocess.Popen(self.command(words, options), stdout=said, stderr=subprocess.STDOUT)
            try:
                wait_listening(process, port)
                yield process
                process.wait(timeout=TIMEOUT)
                said.seek(0)
                assert process.returncode == 0, said.read()
            finally:
                process.kill()
                process.wait()


def wait_listening(process, port):
    end = time.monotonic() + TIMEOUT
    while port and process.poll() is None and not listens(port):
        assert time.monotonic() < end, f"nothing listens on port {port}"
        time.sleep(0.05)


def listens(port):
    """Does some process, on any address? Connecting would disturb it."""
    tables = [pathlib.Path("/proc/net/tcp"), pathlib.Path("/proc/net/tcp6")]
    lines = [line.split() for table in tables if table.exists() for line in table.read_text().splitlines()]
    return any(line[1].endswith(f":{port:04X}") and line[3] == "0A" for line in lines)


@pytest.fixture
def nodes():
    """A function: that many nodes, whose addresses no other process's tests have."""
    numbers = itertools.count(1)
    process = os.getpid()

    def make(count):
        return [Node(f"127.{100 + process // 256 % 100}.{process % 256}.{next(numbers)}")
                for _ in range(count)]

    return make


@pytest.fixture
def port():
    """A TCP port that nothing listens on."""
    return next(number for number in range(20000 + os.getpid() % 20000, 65536) if not listens(number))
