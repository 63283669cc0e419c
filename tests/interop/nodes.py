# SPDX-License-Identifier: BSD-2-Clause
"""
The two ends of scripts/interop: the VM and what drives it, rxe in it, urxe on the host, and rxe as
the hardware of programs that have urxe preloaded. Each knows how a program is run on it, how to
find out that a server listens, and what to look at besides the program's output.
"""

import functools
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import time

from scenarios import TIMEOUT

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
ENVIRONMENT = {"NAME": "interop", "NS": "urxe-interop", "TAP": "urxetap0", "MTU": "4200"}
IN_VM = "/tmp/urxe"  # the launcher's and the library's folder there


class Machine:
    """The VM, its namespace, and what drives them: the kit's one.sh."""

    def __init__(self, kit, running):
        self.one, self.running = kit / "one.sh", running
        for name, value in ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        self.namespace, self.tap = os.environ["NS"], os.environ["TAP"]
        cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache"))
        work = pathlib.Path(os.environ.get("WORK", cache / "rxe-vm"))
        self.programs, self.sdk = work / "bin", work / "sdk"
        self.share = work / "run" / os.environ["NAME"] / "share"
        if not (work / "img" / "rootfs.ext4").exists() or not (self.programs / "peer").exists():
            sys.exit(f"no VM in {work}: run build.sh and build-peers.sh of {kit} first")

    def __enter__(self):
        if not self.running:
            subprocess.run([self.one, "up"], check=True)
        for name in ("peer", "cmrej"):
            shutil.copy(self.programs / name, self.share / name)
        library = self.sdk / "usr/lib/x86_64-linux-gnu"
        compile_manager(
            self.share / "manager", "-I", self.sdk / "usr/include", "-L", library,
            f"-Wl,-rpath-link,{library}:{self.sdk}/lib/x86_64-linux-gnu",
        )
        return self

    def __exit__(self, *_):
        if not self.running:
            subprocess.run([self.one, "down"], check=False)

    @functools.cache
    def install(self, launcher):
        """
        The launcher, the library, and what it needs beyond the C library, into the VM.
        None, or why they can't run there.
        """
        command = [launcher, "run", "--node", "127.0.0.1", "--", "sh", "-c", "echo $LD_PRELOAD"]
        library = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
        needed = subprocess.run(["ldd", library], check=True, capture_output=True, text=True).stdout
        files = {"urxe/urxe": launcher, "verbs/liburxe.so.0": library}
        for path in map(pathlib.Path, re.findall(r"=> (/\S+)", needed)):
            if not re.match(r"libc\.|libm\.|ld-linux", path.name):
                files[f"lib/{path.name}"] = path
        for name, source in files.items():
            place = self.share / "urxe" / name
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, place)
        command = (
            f"rm -rf {IN_VM}; cp -r /host/urxe {IN_VM} && "
            f"cp {IN_VM}/lib/* /usr/local/lib && ldconfig && "
            f"LD_PRELOAD={IN_VM}/verbs/liburxe.so.0 URXE_MODE=hw true"
        )
        test = subprocess.run(self.in_vm(command), capture_output=True, text=True)
        said = (test.stdout + test.stderr).strip()
        return said or (f"exit code {test.returncode}" if test.returncode else None)

    def in_vm(self, command, seconds=TIMEOUT):
        return [self.one, "vm", "-t", str(seconds + 10), command]

    def in_vm_now(self, command):
        subprocess.run(self.in_vm(command), capture_output=True)

    def in_namespace(self, *command):
        return ["ip", "netns", "exec", self.namespace, *command]


class RxeNode:
    kind, dev, gid, gid6, tools = "rxe", "rxe0", 1, 2, "/host"
    address, address6 = "10.77.0.2", "fd77::2"

    def __init__(self, machine):
        self.machine = machine

    def command(self, text, fault, role, seconds):
        before, after = fault.iptables() if fault else ("", "")
        shell = (
            f"{before} timeout -k 2 {seconds} {text} & echo $! > /tmp/interop.{role}; "
            f"wait $!; r=$?; {after} exit $r"
        )
        return self.machine.in_vm(shell, seconds), {}

    def clean(self):
        """After a failure: end what still runs, and let all packets through."""
        self.machine.in_vm_now(
            "kill $(cat /tmp/interop.*); iptables -F INPUT; tc qdisc del dev eth0 root; sleep 0.5"
        )

    def wait_ready(self, scenario):
        """Until the server listens; one command in the VM, since each costs a second."""
        test = f"ss -Hltn | grep -q ':{scenario.port} '"
        if scenario.ready:
            test = scenario.ready
        elif not scenario.port:
            test = "rdma resource show cm_id | grep -q LISTEN"
        loop = f"for i in $(seq 200); do {test} && exit 0; sleep 0.1; done; exit 1"
        self.machine.in_vm_now(loop)


class PreloadedNode(RxeNode):
    """rxe as the hardware of a program in the VM that has urxe preloaded, in mode hw or both."""

    def __init__(self, machine, mode):
        super().__init__(machine)
        self.kind = mode

    def command(self, text, _, role, seconds):
        traced = "strace --seccomp-bpf -f -ff -qq -e trace=execve,openat,bind -e signal=none"
        trace = f"/tmp/trace.{role}"
        counter = f"/sys/class/infiniband/{self.dev}/ports/1/hw_counters/sent_pkts"
        shell = (
            f"rm -f {trace}.* /host/trace.{role}; before=$(cat {counter}); "
            f"URXE_MODE={self.kind} timeout -k 2 {seconds} {traced} -o {trace} "
            f"{IN_VM}/urxe/urxe run -- {text} & echo $! > /tmp/interop.{role}; wait $!; r=$?; "
            f"tail -n +1 {trace}.* > /host/trace.{role}; "
            f"echo {self.dev} sent $(($(cat {counter}) - before)) packets; exit $r"
        )
        return self.machine.in_vm(shell, seconds), {}

    def judge_hardware(self, role, scenario, output):
        """None, or what shows that @role's program wasn't on the real device alone."""
        trace = (self.machine.share / f"trace.{role}").read_text(errors="replace")
        bound = re.findall(r"^bind\(.*htons\(4791\).* = (\S+.*)$", trace, re.MULTILINE)
        if self.kind == "hw" and bound or "0" in bound:
            return f"a socket on RoCE's port: {bound}"
        # The program itself, and not the launcher before it in the same process.
        name = getattr(scenario, role).split()[0]
        program = rf'^execve\("[^"]*/{name}", .* = 0\n((?:(?!execve\(|==> ).*\n)*)'
        found = re.search(program, trace, re.MULTILINE)
        if not found or not re.search(r'/liburxe\.so\.0", .* = \d', found[1]):
            return "the library wasn't loaded"
        if scenario.lists:
            return None
        if not re.search(r'"/dev/infiniband/uverbs0", .* = \d', trace):
            return f"{self.dev} wasn't opened"
        if not re.search(rf"^{self.dev} sent [1-9]\d* packets$", output, re.MULTILINE):
            return f"no packet left by {self.dev}"
        if self.kind == "both" and not scenario.port and not any("EADDRINUSE" in b for b in bound):
            return "rdma_cm is the kernel's, but not because urxe0 can't open"
        return None

    def judge_lists(self, plain, preloaded):
        """None, or how the output with urxe differs from the one without."""
        lines = [line for line in preloaded.splitlines()[1:] if not re.match(r"rxe0 sent ", line)]
        ours = [line for line in lines if re.match(r"\s*urxe0\s", line)]
        if self.kind == "both" and "ibv_devices" in preloaded:
            if not ours:
                return "no urxe0 in the list"
            lines = [line for line in lines if line not in ours]
        return None if lines == plain.splitlines()[1:] else "the output isn't what it is without urxe"


class UrxeNode:
    kind, dev, gid, gid6 = "urxe", "urxe0", 0, 1
    address, address6 = addresses = "10.77.0.1", "fd77::1"

    def __init__(self, machine, launcher, tools):
        self.machine, self.launcher, self.tools = machine, launcher, tools

    def command(self, text, fault, _, seconds):
        run = [self.launcher, "run", "--node", f"{self.address},{self.address6}", "--"]
        words = self.machine.in_namespace("timeout", str(seconds), *run, *shlex.split(text))
        return words, {"URXE_FAULTS": fault.urxe_faults()} if fault else {}

    def clean(self):
        pass  # finish() has ended whatever ran

    def wait_ready(self, scenario):
        if not scenario.port:
            time.sleep(1)
            return
        for _ in range(400):
            listening = subprocess.run(
                self.machine.in_namespace("ss", "-Hltn"), capture_output=True, text=True
            )
            if f":{scenario.port} " in listening.stdout:
                return
            time.sleep(0.05)


def compile_tools(kit, folder):
    """peer, cmrej and manager for this machine, whose C library may differ from the VM's."""
    for name, libraries in (("peer", ["-libverbs"]), ("cmrej", ["-lrdmacm", "-libverbs"])):
        sources = sorted((kit / "src").glob(f"{name}*.c"))
        subprocess.run(["gcc", "-O1", "-g", "-o", folder / name, *sources, *libraries], check=True)
    compile_manager(folder / "manager")


def compile_manager(path, *options):
    source = REPOSITORY / "tests" / "interop" / "manager.c"
    command = ["gcc", "-O1", "-g", "-o", path, source, *options, "-lrdmacm", "-libverbs"]
    subprocess.run(command, check=True)
