#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Run under urxe what was once captured from Linux rxe, and compare the packets.

    golden.py [--keep DIR] [--verbose] [--list] [--part K/N] BUILD [REGEX]

BUILD   the build directory (the launcher is BUILD/urxe/urxe), or the launcher itself
REGEX   only the captures whose name it matches
--part  every N-th of them, beginning with the K-th
--keep  put captures and outputs there (default: a temporary folder, removed
        when everything passed)

The commands come from INDEX.txt beside the reference captures, with device
names and GID indices changed to ours, and iptables rules to URXE_FAULTS.  Both
programs run in a network namespace of their own, whose loopback interface has
the addresses and MTU of the reference machines, so nothing else on the machine
is touched and no other urxe is met.  Each node writes a capture; check_capture
judges both, compare_golden the server's.

Exits 0 if all passed, 1 if not, 77 if it can't run (no reference captures, no
namespaces).  peer*.c and cmrej.c are compiled from tests/interop/vm.
"""

import argparse
import dataclasses
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import check_capture
import compare_golden
import roce

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS / "e2e"))
import pair  # noqa: E402

KIT = TESTS / "interop" / "vm"

SERVER, CLIENT = "10.77.0.1,fd77::1", "10.77.0.2,fd77::2"
TIMEOUT = 60


def every(n, first, limit=200):
    """The fault that iptables' "--every n --packet first-1" is, for @limit packets."""
    return ";".join(f"drop#{i}@rx" for i in range(first, limit, n))


@dataclasses.dataclass
class Special:
    """How a capture departs from "run both commands and compare everything"."""

    server_faults: str = ""
    client_faults: str = ""
    lossy: bool = False
    compare: bool = True
    ignore: tuple = ()
    prefix: bool = False
    ends: bool = False
    rsockets: bool = False
    mtu: int = 1500
    server: str = ""  # the command, if it is another one
    skip: str = ""


# Versions that don't send what those of the captures did: cmtime of rdma-core 56 connects another
# way, and its server ends; perftest 25 sets an ACK timeout of its own.
LATER_CMTIME = bool(re.search("-q base_qpn|-C controller", pair.usage("cmtime")))
LATER_PERFTEST = "--bind_source_ip" in pair.usage("ib_write_lat")

SPECIAL = {
    "peer_drop_req1": Special(server_faults="drop#5@rx"),
    # Not every sixth as in the capture: with go-back-N over a multiple of six
    # packets, the same one is lost for ever (rxe never ends when run again).
    "peer_drop_req": Special(server_faults="seed=7;drop=15%@rx", lossy=True),
    "peer_drop_ack": Special(client_faults=every(2, 1), lossy=True),
    "peer_drop_read1": Special(client_faults="drop#4@rx"),
    "peer_drop_readlast": Special(client_faults="drop#8@rx"),
    "peer_drop_atomic": Special(client_faults=every(2, 1), lossy=True),
    # Random: only the outcome and the validity of the packets can be judged.
    "peer_netem_loss": Special(client_faults="seed=7;drop=10%;reorder=12%", compare=False),
    "peer_corrupt": Special(client_faults="seed=7;corrupt=20%@tx", compare=False),
    "cm_drop_req": Special(server_faults="drop#1@rx"),
    "cm_drop_rtu": Special(server_faults="drop#3@rx"),
    "rc_pingpong_mtu4096": Special(mtu=4200),
    # Completions of four QPs: chance decides which QP sends next.
    "srq_pingpong": Special(prefix=True),
    # perftest doesn't initialise the memory that it works on.
    "ib_atomic_lat_fa": Special(ignore=("original",)),
    "ib_atomic_lat_cs": Special(ignore=("original",)),
    # rxe answers a SEND that is too long with NAK 0x63; the specification wants 0x61.
    "peer_send_too_long": Special(ignore=("syndrome",)),
    # rxe's library refuses it when posted; NICs send it, and the responder NAKs.
    "peer_atomic_unaligned": Special(skip="urxe leaves the check to the responder, as NICs do"),
    "rc_pingpong_linklocal": Special(skip="no link-local GID on a loopback interface"),
    # Its server never ends.
    "cmtime": Special(
        server="timeout 4 cmtime -b 10.77.0.1 -c 3", compare=not LATER_CMTIME
    ),
    # The programs end without disconnecting.
    "ib_write_lat_cm": Special(
        ends=True, ignore=("cm_primary_ack_timeout",) * LATER_PERFTEST
    ),
    # A kernel answers for a node, here a process must, if only on another port.
    "cm_rej_nolistener": Special(server="timeout 4 rping -s -a 10.77.0.1 -p 7998"),
    "rstream": Special(ends=True, rsockets=True),
    "riostream": Special(ends=True, rsockets=True),
    "host_ud_ipv4": Special(skip="not a capture of rxe as sender"),
    "host_ud_ipv6": Special(skip="not a capture of rxe as sender"),
}

# Exit codes of client and server other than 0: refused, and a server that never ends.
EXPECTED_EXIT = {"cm_rej_nolistener": (255, 124), "cmtime": (0, 0 if LATER_CMTIME else 124)}


def read_index(folder):
    """{name: (server command, client command)} from INDEX.txt."""
    index, name, server = {}, None, None
    for line in (folder / "INDEX.txt").read_text().splitlines():
        if line.endswith(".pcap"):
            name = line[: -len(".pcap")]
            index[name] = ("", "")
        elif line.startswith("  A("):
            server = line.split(": ", 1)[1]
        elif line.startswith("  B("):
            index[name] = (server, line.split(": ", 1)[1])
    return index


def translate(command, tools):
    """A command of INDEX.txt as it has to be under urxe."""
    parts = [part.strip() for part in command.split(";")]
    parts = [p for p in parts if not re.match(r"(iptables|tc|ip link) |sleep 0", p)]
    command = " ".join(parts)
    command = command.replace("-d rxe0", "-d urxe0")
    command = re.sub(r"(?<= )(-g|-x|--gid) (\d)", lambda m: f"{m[1]} {int(m[2]) - 1}", command)
    command = re.sub(r"/host/cmrej", str(tools / "cmrej"), command)
    if "/host/peer" in command:
        command = command.replace("/host/peer", str(tools / "peer")) + " --dev urxe0"
        if "--gid" not in command:
            command += " --gid 0"
    return command.split()


def compile_tools(tools):
    for name, libraries in (("peer", ["-libverbs"]), ("cmrej", ["-lrdmacm", "-libverbs"])):
        sources = sorted((KIT / "src").glob(f"{name}*.c"))
        subprocess.run(["gcc", "-O1", "-g", "-o", tools / name, *sources, *libraries], check=True)


def find_launcher(build):
    place = build if build.is_file() else build / "urxe/urxe"
    if place.is_file() and os.access(place, os.X_OK):
        return place.resolve()
    sys.exit(f"no launcher in {build} (looked for urxe/urxe)")


def enter_namespace():
    """Run this very command again in a fresh network namespace."""
    if os.environ.get("URXE_GOLDEN_NAMESPACE"):
        return
    unshare = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--net", "--map-root-user"]
    if subprocess.run(unshare + ["true"], capture_output=True).returncode:
        roce.skip("no permission to make a network namespace")
    os.environ["URXE_GOLDEN_NAMESPACE"] = "1"
    os.execvp("unshare", unshare + [sys.executable] + sys.argv)


def prepare_namespace():
    commands = ["link set lo up"]
    for node in (SERVER, CLIENT):
        v4, v6 = node.split(",")
        commands += [f"addr add {v4}/24 dev lo", f"addr add {v6}/64 dev lo nodad"]
    for command in commands:
        subprocess.run(["ip"] + command.split(), check=True)


def listening():
    """The listening TCP sockets of this namespace."""
    run = subprocess.run(["ss", "-Hltn"], capture_output=True, text=True)
    return len(run.stdout.splitlines())


def wait_listening(process, output):
    """Until @process listens on TCP, or its log, in the file @output, says that it does by the CM."""
    end = time.monotonic() + TIMEOUT
    while time.monotonic() < end and process.poll() is None:
        if listening() or re.search(pair.READY, output.read_text(errors="replace"), re.M):
            return
        time.sleep(0.02)


class Scenario:
    def __init__(self, name, commands, golden, tools, launcher, folder):
        self.name, self.golden = name, golden
        self.special = SPECIAL.get(name, Special())
        commands = self.special.server or commands[0], commands[1]
        self.commands = [translate(command, tools) for command in commands]
        self.has_server = self.commands[0][0] != "sleep"
        self.launcher, self.folder = launcher, folder

    def start(self, role):
        node = (SERVER, CLIENT)[role]
        side = ("server", "client")[role]
        environment = dict(os.environ)
        environment["URXE_LOG"] = "info"  # which says when it listens
        environment["URXE_PCAP"] = str(self.folder / f"{self.name}.{side}.pcap")
        faults = (self.special.server_faults, self.special.client_faults)[role]
        if faults:
            environment["URXE_FAULTS"] = faults
        command = [str(self.launcher), "run", "--node", node, "--"] + self.commands[role]
        out = open(self.folder / f"{self.name}.{side}.out", "w")
        out.write("$ " + " ".join(command) + (f"   # {faults}" if faults else "") + "\n")
        out.flush()
        return subprocess.Popen(
            command, env=environment, stdout=out, stderr=out, start_new_session=True
        )

    def run(self):
        """None, or why it failed."""
        if not self.has_server:
            self.commands[0] = ["true"]
        mtu = str(self.special.mtu)
        subprocess.run(["ip", "link", "set", "lo", "mtu", mtu], check=True)
        server = self.start(0)
        if self.has_server:
            wait_listening(server, self.folder / f"{self.name}.server.out")
        client = self.start(1)
        codes = finish(client, TIMEOUT), finish(server, 25)
        if codes != EXPECTED_EXIT.get(self.name, (0, 0)):
            return f"exit codes: client {codes[0]}, server {codes[1]}"
        return self.judge()

    def judge(self):
        captures = [self.folder / f"{self.name}.{side}.pcap" for side in ("server", "client")]
        if not self.has_server:
            del captures[0]
        for path in captures:
            if not path.exists():
                return f"there is no {path.name}"
        if self.name != "peer_corrupt":  # full of bad ICRCs, and should be
            for path, (_, wrong) in check_capture.check_files(captures).items():
                if wrong:
                    return f"{path.name}: {wrong}"
        ours = captures[0]
        if not self.special.compare:
            return None
        special = self.special
        found = compare_golden.compare(
            self.golden, ours, special.lossy, special.ignore, special.prefix, special.ends,
            special.rsockets
        )
        return "\n  ".join(found) if found else None


def finish(process, seconds):
    """The exit code of @process; its whole session is killed when it takes too long."""
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return "timeout"


def parse_arguments():
    parser = argparse.ArgumentParser(description="compare urxe's packets with rxe's")
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("--verbose", action="store_true", help="show outputs of failed programs")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--part", default="1/1")
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("regex", nargs="?", default=".")
    return parser.parse_args()


def show_outputs(folder, name):
    for path in sorted(folder.glob(f"{name}.*.out")):
        print("   ", path.name)
        for line in path.read_text(errors="replace").splitlines()[-15:]:
            print("      |", line[:200])


def main():
    arguments = parse_arguments()
    index = read_index(roce.CAPTURES)
    part, parts = map(int, arguments.part.split("/"))
    names = [n for n in sorted(index) if re.search(arguments.regex, n)][part - 1::parts]
    if arguments.list:
        print("\n".join(names))
        return 0
    launcher = find_launcher(arguments.build)
    enter_namespace()
    prepare_namespace()
    folder = arguments.keep or pathlib.Path(tempfile.mkdtemp(prefix="urxe-golden-"))
    folder.mkdir(parents=True, exist_ok=True)
    compile_tools(folder)
    counts = {"passed": 0, "FAILED": 0, "skipped": 0}
    for name in names:
        golden = roce.CAPTURES / f"{name}.pcap"
        why, verdict = SPECIAL.get(name, Special()).skip, "skipped"
        if not why:
            scenario = Scenario(name, index[name], golden, folder, launcher, folder)
            why = scenario.run()
            verdict = "FAILED" if why else "passed"
        counts[verdict] += 1
        print(f"{verdict:8}{name}" + (f": {why}" if why else ""), flush=True)
        if verdict == "FAILED" and arguments.verbose:
            show_outputs(folder, name)
    print(", ".join(f"{count} {verdict}" for verdict, count in counts.items()))
    if counts["FAILED"] == 0 and not arguments.keep:
        shutil.rmtree(folder)
    else:
        print("captures and outputs are in", folder)
    return 1 if counts["FAILED"] else 0


if __name__ == "__main__":
    sys.exit(main())
