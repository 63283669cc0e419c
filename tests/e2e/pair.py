# SPDX-License-Identifier: BSD-2-Clause
"""Two programs on two emulated nodes, run to their end.

A case is a server and a client command; a node is an address, and each gets a
pair of addresses of its own, so that cases may run at the same time.  IPv6
cases run in a network namespace made here, since a machine has one IPv6
loopback address only.
"""

import functools
import itertools
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass, field

DEADLINE = 300  # seconds a case may take, on a busy machine, too; reached by a hang alone
LAUNCHER = "urxe/urxe"  # in the build directory
LIBRARY = "verbs/liburxe.so.0"
AS_NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"]
READY = r"rdma_cm: (?:listening on port|joined group) \S+$"  # logged by users of librdmacm
RETRIES_EXCEEDED = "transport retry counter exceeded"


class Skip(Exception):
    """The machine can't run this case; the text says why."""


class Fail(Exception):
    """The case ran and did not do what it should."""


class Unmeasured(Fail):
    """The tool took its CPU's clock for unsteady, so its results are "inf": says nothing of urxe."""


# Where the library logs while a line of the program's isn't finished, as perftest leaves its figures.
LOGGED_AMID = re.compile(r"(?<=.)(?=urxe\[\d+\] \w+: )")
# perftest compares the clock with gettimeofday(), and loses the CPU between the two now and then.
UNMEASURED = "Correlation coefficient r^2"
ATTEMPTS = 3  # of a case that wasn't measured


@functools.cache
def usage(program, option="-h"):
    """What a tool says of its options, which aren't the same in all versions; "" if there is none."""
    try:
        said = subprocess.run([program, option], capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return said.stdout + said.stderr


def ucx_perftest():
    """Its command. One that is built with MPI takes itself for a rank where its stdin is no terminal."""
    return ["ucx_perftest"] + ["-P", "0"] * ("MPI mode" in usage("ucx_perftest"))


@dataclass
class Case:
    group: str
    detail: str
    server: list  # command; None: only the client's command is run
    client: list
    expect_server: list = field(default_factory=list)  # regular expressions
    expect_client: list = field(default_factory=list)
    server_exit: int = 0  # None: anything but a signal
    client_exit: int = 0
    ipv6: bool = False
    nobody: bool = False  # as an ordinary user, when we are root
    faults: str = ""  # "SEED" and the nodes' addresses in it are replaced
    alternate: bool = False  # each node has a second address: alternate() of the first
    environment: dict = field(default_factory=dict)
    kill: str = ""  # "server" or "client": SIGKILL it once both are under way
    # The tool doesn't wait for its peer: when the last acknowledgement is lost, the side that sent
    # it is gone, and the other may end with its retries exceeded, having done everything.
    last_ack_lost: bool = False
    capture: bool = False  # and let tests/wire judge the packets
    one_node: bool = False  # both sides have the same address
    two_ports: bool = False  # SERVER and CLIENT are of port 2, and alternate() of port 1
    apart: bool = False  # in network namespaces of their own, with a wire between them
    alone: bool = False  # in a network namespace that no other case has: it wants fixed ports
    manager: bool = False  # the server listens on an rdma_cm id or joins a group
    datagrams: bool = False  # the server has a UDP socket
    bare: bool = False  # without urxe
    stays: bool = False  # the server never ends: it is killed after the client
    may_end: bool = False  # one that stays ends in newer versions
    lacking: str = ""  # why the tool of this machine can't do it: skipped
    beside: list = field(default_factory=list)  # cases that run at the same time, on the same nodes
    deadline: int = DEADLINE

    @property
    def name(self):
        return f"{self.group} {self.detail}".strip()


def named(cases, names):
    """Those of @cases that @names are of; all names must be."""
    chosen = [case for case in cases if case.name in names]
    missing = names - {case.name for case in chosen}
    assert not missing, f"no such cases: {missing}"
    return chosen


class Namespace:
    """A network namespace set up by @script, in a user namespace of its own or @other's."""

    def __init__(self, script, other=None):
        self.reason = ""
        self.process = None
        if other:
            words = ["nsenter", "--preserve-credentials", "--user",
                     "--target", str(other.process.pid), "--", "unshare", "--net"]
        else:
            words = ["unshare", "--net", "--map-root-user"]
        try:
            self.process = subprocess.Popen(
                words + ["sh", "-c", f"ip link set lo up && {script} && echo ready && exec sleep infinity"],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            if self.process.stdout.readline().strip() != "ready":
                self.reason = self.process.stderr.read().strip() or "unshare failed"
        except OSError as error:
            self.reason = str(error)

    def enter(self):
        if self.reason:
            raise Skip(f"no private network namespace: {self.reason}")
        return ["nsenter", "--preserve-credentials", "--user", "--net",
                "--target", str(self.process.pid), "--"]

    def run(self, script):
        result = subprocess.run(self.enter() + ["sh", "-c", script], capture_output=True, text=True)
        if result.returncode:
            self.reason = result.stderr.strip()

    def close(self):
        if self.process:
            self.process.kill()
            self.process.wait()


PAIRS = 16  # of addresses in a namespace: so many cases at a time

# fd00::1 to fd00::20, and as many alternate ones; Linux has no route for IPv6 multicasts on the loopback device.
LOOPBACK_IPV6 = " && ".join(
    [f"ip -6 addr add fd0{net}::{i:x}/128 dev lo nodad" for net in (0, 1) for i in range(1, 2 * PAIRS + 1)]
    + ["ip -6 route add local ff00::/8 dev lo table local"])


class Wire:
    """Two network namespaces and a wire; the odd addresses are at its left end."""

    HOST = "10.9.0.1"

    def __init__(self):
        self.left = Namespace("ip link add left type veth peer name right")
        self.right = Namespace("true", self.left)
        try:
            self.left.run(f"ip link set right netns {self.right.process.pid}")
            self.left.run(self.addresses("left", 1))
            self.right.run(self.addresses("right", 2))
        except Skip:
            pass  # enter() raises it

    @staticmethod
    def addresses(device, first):
        return f"ip link set {device} up" + "".join(
            f" && ip addr add 10.9.0.{i}/24 dev {device}"
            f" && ip -6 addr add fd09::{i:x}/64 dev {device} nodad"
            for i in range(first, 2 * PAIRS + 1, 2))

    def close(self):
        self.left.close()
        self.right.close()


class Runner:
    """Runs cases; safe to be called by several threads."""

    def __init__(self, build, logs, seed):
        self.build = os.path.abspath(build)
        self.logs = os.path.abspath(logs)
        self.seed = seed
        self.launcher = os.path.join(self.build, LAUNCHER)
        self.scratch = tempfile.mkdtemp(prefix="urxe-e2e-")
        os.chmod(self.scratch, 0o777)
        self.lock = threading.Lock()
        self.namespace = None
        self.wire = None
        self.alone = []
        self.public_build = ""
        self.ports = itertools.count(20000 + os.getpid() % 100 * 100)
        # 127.A.x.y with an A of our own, in case another run is testing here.
        self.pairs = itertools.count(1)
        self.net = 100 + os.getpid() % 100
        os.makedirs(self.logs, exist_ok=True)

    def close(self):
        for made in self.namespace, self.wire, *self.alone:
            if made:
                made.close()
        shutil.rmtree(self.scratch, ignore_errors=True)

    # --- in which namespace and as which user -------------------------------

    def addresses(self, case):
        with self.lock:
            number = next(self.pairs)
            pair = number % PAIRS
            if case.apart:
                if not self.wire:
                    self.wire = Wire()
                net = "fd09::{:x}" if case.ipv6 else "10.9.0.{}"
                return net.format(2 * pair + 1), net.format(2 * pair + 2)
            if case.ipv6:
                if not self.namespace:
                    self.namespace = Namespace(LOOPBACK_IPV6)
                return f"fd00::{2 * pair + 1:x}", f"fd00::{2 * pair + 2:x}"
        high, low = divmod(number % 30000, 120)
        return f"127.{self.net}.{high}.{2 * low + 1}", f"127.{self.net}.{high}.{2 * low + 2}"

    def port(self):
        while True:
            with self.lock:
                port = next(self.ports)
                if port > 32000:
                    self.ports = itertools.count(20000)
            try:
                with socket.socket() as probe:
                    probe.bind(("", port))
                return port
            except OSError:
                continue

    def prefix(self, case, side):
        if case.apart:
            return (self.wire.left if side == "server" else self.wire.right).enter()
        if case.alone:
            self.alone.append(Namespace("true"))
            return self.alone[-1].enter()
        if case.ipv6:
            return self.namespace.enter()  # its root is no root outside
        return AS_NOBODY if case.nobody and os.getuid() == 0 else []

    def build_for(self, case):
        """The build directory, or a copy of what it takes if that is out of bounds (/root)."""
        if not case.nobody or os.getuid() != 0:
            return self.build
        with self.lock:
            if not self.public_build:
                reachable = subprocess.run(AS_NOBODY + ["test", "-x", self.launcher])
                self.public_build = self.copy_build() if reachable.returncode else self.build
            return self.public_build

    def copy_build(self):
        copy = os.path.join(self.scratch, "build")
        for path in LAUNCHER, LIBRARY, "tests/e2e/scenario", "tests/e2e/multi_process", "tests/e2e/connect":
            target = os.path.join(copy, path)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            shutil.copy(os.path.join(self.build, path), target)
        for folder, _, _ in os.walk(copy):
            os.chmod(folder, 0o755)
        return copy

    def command(self, case, node, program, side, number, faults):
        if case.bare:
            return self.prefix(case, side) + program
        if case.alternate:
            node += "," + alternate(node)
        if case.two_ports:
            node = f"{alternate(node)}/{node}"
        build = self.build_for(case)
        words = self.prefix(case, side) + [os.path.join(build, LAUNCHER), "run", "--node", node]
        if faults:
            # Each side draws its own faults, the same in every run of the case.
            seed = self.seed + 2 * (sum(map(ord, case.name)) % 10007) + (side == "client")
            words += ["--faults", faults.replace("SEED", str(seed))]
        if case.capture:
            words += ["--pcap", os.path.join(self.scratch, f"{number}-{side}.pcap")]
        program = [os.path.join(build, w[1:]) if w.startswith("@") else w for w in program]
        return words + ["--"] + program

    # --- one case ----------------------------------------------------------

    def run(self, case):
        """Returns (status, reason, seconds, story); status is "ok", "FAIL" or "skip"."""
        start = time.monotonic()
        for attempt in range(1, ATTEMPTS + 1):
            status, reason, story = self.attempt(case, attempt == ATTEMPTS)
            if status:
                break
        return status, reason, time.monotonic() - start, story

    def attempt(self, case, last):
        """As run(); status is "" if the case is to be repeated."""
        log = os.path.join(self.logs, re.sub(r"[^\w=.:+-]+", "_", case.name) + ".log")
        run = PairRun(self, case)
        try:
            run.go()
            status, reason = "ok", ""
        except Skip as skip:
            status, reason = "skip", str(skip)
        except Unmeasured as unmeasured:
            status, reason = "FAIL" if last else "", str(unmeasured)
        except (Fail, OSError) as fail:
            status, reason = "FAIL", str(fail)
        finally:
            run.end()
        if status == "FAIL":
            with open(log, "w") as file:
                file.write(run.story(reason))
        elif os.path.exists(log):
            os.remove(log)
        return status, reason, run.story(reason)


def alternate(node):
    """The second address of @node: in the namespace, or in half of 127.0.0.0/8 that no run has for the first."""
    return re.sub(r"^127\.(\d+)", lambda m: f"127.{int(m[1]) % 50 + 50}", node).replace("fd00:", "fd01:")


def group_of(node):
    """A multicast group that only the cases of @node use."""
    return re.sub(r"^\d+", "239", node) if "." in node else re.sub("^[^:]*", "ff05", node)


def cpu_seconds(session):
    """What all processes of a session have used."""
    ticks = 0
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", errors="replace") as file:  # a name is any bytes
                words = file.read().rpartition(")")[2].split()
        except OSError:
            continue
        if int(words[3]) == session:
            ticks += int(words[11]) + int(words[12])
    return ticks / os.sysconf("SC_CLK_TCK")


class PairRun:
    def __init__(self, runner, case):
        self.runner, self.case = runner, case
        self.processes, self.commands, self.outputs = {}, {}, {}
        self.deadline = time.monotonic() + case.deadline

    def go(self):
        case = self.case
        if case.lacking:
            raise Skip(case.lacking)
        nodes = self.runner.addresses(case)
        if case.one_node:
            nodes = nodes[0], nodes[0]
        pairs = {"": case} | {f" {n}": other for n, other in enumerate(case.beside, 2)}
        numbers = {mark: self.runner.port() for mark in pairs}
        for mark, pair in pairs.items():
            self.start_server(pair, mark, nodes, numbers[mark])
        for mark, pair in pairs.items():
            self.start_client(pair, mark, nodes, numbers[mark])
        if case.kill:
            self.kill(case.kill)
        for mark, pair in pairs.items():
            if pair.stays:
                self.wait("client" + mark)
                self.end_server("server" + mark, pair.may_end)
        codes = {side: self.wait(side) for side in self.processes}
        for mark, pair in pairs.items():
            self.judge(pair, mark, codes)
        if case.capture:
            self.judge_captures(numbers[""])

    def fill(self, words, number, nodes):
        values = {"PORT": str(number), "HOST": Wire.HOST if self.case.apart else "127.0.0.1",
                  "SERVER": nodes[0], "CLIENT": nodes[1], "GROUP": group_of(nodes[0])}
        return [re.sub("|".join(values), lambda m: values[m[0]], word) for word in words]

    def start_server(self, case, mark, nodes, number):
        if case.server:
            program = self.fill(case.server, number, nodes)
            faults, = self.fill([case.faults], number, nodes)
            command = self.runner.command(case, nodes[0], program, "server", number, faults)
            self.start("server" + mark, command)
            self.wait_listening("server" + mark, number)

    def start_client(self, case, mark, nodes, number):
        program = self.fill(case.client, number, nodes)
        faults, = self.fill([case.faults], number, nodes)
        self.start("client" + mark, self.runner.command(case, nodes[1], program, "client", number, faults))

    def judge(self, case, mark, codes):
        codes = {side: codes[side + mark] for side in ("server", "client") if side + mark in codes}
        excused = self.excused(codes, mark) if case.last_ack_lost else None
        for side, expected in (("server", case.server_exit), ("client", case.client_exit)):
            if side in codes and side not in (case.kill, excused, "server" if case.stays else None):
                self.check_exit(side + mark, codes[side], expected)
        for side, expected in (("server", case.expect_server), ("client", case.expect_client)):
            for pattern in expected if side != excused else []:
                output = LOGGED_AMID.sub("\n", self.output(side + mark))
                if not re.search(pattern, output, re.MULTILINE):
                    kind = Unmeasured if UNMEASURED in output else Fail
                    raise kind(f"the {side + mark}'s output lacks {pattern!r}")

    def start(self, side, command):
        self.commands[side] = command
        self.outputs[side] = tempfile.TemporaryFile()
        # URXE_LINK=shm tests/e2e/run: all cases over memory
        environment = {k: v for k, v in os.environ.items() if not k.startswith("URXE_") or k == "URXE_LINK"}
        if self.case.manager:
            environment["URXE_LOG"] = "info"  # which says when it listens
        environment.update(self.case.environment)
        self.processes[side] = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=self.outputs[side],
            stderr=subprocess.STDOUT, env=environment, cwd=self.runner.scratch,
            start_new_session=True)

    def output(self, side):
        self.outputs[side].seek(0)
        return self.outputs[side].read().decode(errors="replace")

    def is_listening(self, process, port):
        # In state LISTEN, or of a UDP socket CLOSE.
        protocol, state = ("udp", "07") if self.case.datagrams else ("tcp", "0A")
        wanted = re.compile(rf"^\s*\d+: [0-9A-F]+:{port:04X} [0-9A-F]+:0000 {state} ", re.MULTILINE)
        for name in protocol, f"{protocol}6":
            try:
                with open(f"/proc/{process.pid}/net/{name}") as file:
                    if wanted.search(file.read()):
                        return True
            except OSError:
                pass
        return False

    def wait_listening(self, side, port):
        """Until the server listens: clients give up at once if it doesn't."""
        process = self.processes[side]
        while time.monotonic() < self.deadline:
            if self.case.manager and re.search(READY, self.output(side), re.MULTILINE):
                return
            if not self.case.manager and self.is_listening(process, port):
                return
            if process.poll() is not None:
                raise Fail(f"the server ended before it listened, exit {process.returncode}")
            time.sleep(0.01)
        raise Fail("the server never listened")

    def kill(self, side):
        """SIGKILL one side while data flows: once both have worked longer than starting takes."""
        while any(cpu_seconds(process.pid) < 0.4 for process in self.processes.values()):
            if time.monotonic() > self.deadline:
                raise Fail("no data flows")
            for name, process in self.processes.items():
                if process.poll() is not None:
                    raise Fail(f"the {name} ended before the kill, exit {process.returncode}")
            time.sleep(0.02)
        os.killpg(self.processes[side].pid, signal.SIGKILL)

    def end_server(self, side, may_end):
        if self.processes[side].poll() is None:
            os.killpg(self.processes[side].pid, signal.SIGKILL)
        elif not may_end:
            raise Fail(f"the {side} didn't stay")

    def wait(self, side):
        try:
            return self.processes[side].wait(max(0.1, self.deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise Fail(f"the {side} still ran after {self.case.deadline} s") from None

    def check_exit(self, side, code, expected):
        if code < 0:
            raise Fail(f"the {side} died of {signal.Signals(-code).name}")
        if expected is not None and code != expected:
            raise Fail(f"the {side} ended with {code}, not {expected}")

    def excused(self, codes, mark):
        """The side that failed for want of the last acknowledgement; the other one did not."""
        failed = [side for side, code in codes.items() if code]
        if len(failed) == 1 and codes[failed[0]] == 1 and RETRIES_EXCEEDED in self.output(
                failed[0] + mark):
            return failed[0]
        return None

    def judge_captures(self, number):
        judge = os.path.join(os.path.dirname(__file__), "..", "wire", "check_capture.py")
        files = [os.path.join(self.runner.scratch, f"{number}-{side}.pcap") for side in self.processes]
        for file in files:
            if not os.path.exists(file) or os.path.getsize(file) <= 24:
                raise Fail(f"no packets in {file}")
        result = subprocess.run([judge] + files, capture_output=True, text=True)
        if result.returncode:
            raise Fail("check_capture.py: " + (result.stdout + result.stderr).strip()[-500:])

    def end(self):
        for process in self.processes.values():
            # The group outlives its leader when a launcher forked.
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()

    def story(self, reason):
        """All that is needed to understand and repeat the case."""
        text = f"== {self.case.name}\n{reason}\n"
        for side, command in self.commands.items():
            text += f"\n-- {side}: {shlex.join(command)}\n-- {side} exit: "
            text += f"{self.processes[side].returncode}\n" if side in self.processes else "not started\n"
            text += self.output(side)
        return text
