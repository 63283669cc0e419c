#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""urxe ps, top, stat and ctl: stock tools on two nodes, and what is seen of them."""

import contextlib
import fcntl
import json
import os
import pathlib
import pty
import re
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest

URXE, NO_SHM, PEER_ENDS = (sys.argv.pop(1) for _ in range(3))
DEADLINE = 120  # seconds, reached by a hang alone
# Another run of this on the machine has others.
SERVER, CLIENT = (f"127.{network}.{os.getpid() >> 8 & 255}.{os.getpid() & 255}" for network in (83, 84))
PORT = 20000 + os.getpid() % 10000

# Neither what a test is run with, nor a session of its own.
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("URXE_")}


def urxe(*words, **variables):
    """What it says of other processes of the machine may have any bytes: names of programs do."""
    return subprocess.run([URXE, *words], env={**ENVIRONMENT, **variables}, capture_output=True, text=True,
                          errors="replace", timeout=DEADLINE)


def processes(*words):
    """What urxe ps says of the processes at our two addresses."""
    said = urxe("ps", "--json", *words)
    assert said.returncode == 0, said.stderr
    found = json.loads(said.stdout)["processes"]
    return [one for one in found
            if any({SERVER, CLIENT} & set(device["addresses"]) for device in one["devices"])]


def wait_for(condition, what):
    end = time.monotonic() + DEADLINE
    while time.monotonic() < end:
        result = condition()
        if result:
            return result
        time.sleep(0.02)
    raise AssertionError(f"{what}; there is {processes()}")


def listening():
    """Whether a TCP socket listens on PORT."""
    tables = [pathlib.Path("/proc/net", name).read_text() for name in ("tcp", "tcp6")]
    return any(re.search(rf":{PORT:04X} [0-9A-F:]+ 0A ", table) for table in tables)


class Programs(unittest.TestCase):
    def setUp(self):
        self.started = []

    def tearDown(self):
        for process in self.started:
            # With what urxe stat has started, which holds the other end of our pipe.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
        wait_for(lambda: not processes(), "all processes have ended")

    def start(self, node, *command, how=("run",), **options):
        process = subprocess.Popen([URXE, *how, "--node", node, "--", *command], env=ENVIRONMENT,
                                   stdout=subprocess.DEVNULL, text=True, start_new_session=True,
                                   **{"stderr": subprocess.DEVNULL, **options})
        self.started.append(process)
        return process

    def at(self, process):
        """The process @process is, if it shows a device."""
        return next((one for one in processes() if one["pid"] == process.pid), None)

    def wait_for_qp(self, process, state):
        def look():
            one = self.at(process)
            return one if one and one["qps"] and one["qps"][0]["state"] == state else None
        return wait_for(look, f"{process.pid} has a QP in {state}")

    def pingpong(self, iterations, how=("run",), before=(), **options):
        command = ["ibv_rc_pingpong", "-g", "0", "-p", str(PORT), "-s", "4096", "-n", str(iterations)]
        server = self.start(SERVER, *command)
        self.wait_for_qp(server, "INIT")
        wait_for(listening, "the server listens")
        return server, self.start(CLIENT, *before, *command, SERVER, how=how, **options)

    # --- urxe ps -------------------------------------------------------------------

    def test_objects_of_both_ends(self):
        server, client = self.pingpong(10**8)
        ends = {}
        for node, process in ((SERVER, server), (CLIENT, client)):
            ends[node] = one = self.wait_for_qp(process, "RTS")
            self.assertEqual(one["state"], "running")
            self.assertIn("ibv_rc_pingpong", one["command"])
            self.assertEqual(one["devices"][0]["addresses"], [node])
            self.assertEqual([cq["device"] for cq in one["cqs"]], ["urxe0"])
            self.assertEqual([region["length"] for region in one["regions"]], [4096])
            self.assertEqual(one["devices"][0]["region_bytes"], 4096)
        a, b = ends[SERVER]["qps"][0], ends[CLIENT]["qps"][0]
        self.assertEqual((a["type"], a["local"], a["peer"], a["peer_qpn"]), ("RC", SERVER, CLIENT, b["qpn"]))
        self.assertEqual((b["type"], b["local"], b["peer"], b["peer_qpn"]), ("RC", CLIENT, SERVER, a["qpn"]))
        self.assertEqual(a["receive_queue"]["capacity"], 500)
        self.assertEqual(a["requester"]["retry_count"], 7)
        self.assertEqual(b["last_error"], None)

    def test_objects_as_text(self):
        """Of a process that waits for its peer."""
        server = self.start(SERVER, "ibv_rc_pingpong", "-g", "0", "-p", str(PORT), "-s", "4096")
        one = wait_for(lambda: next((one for one in [self.at(server)] if one and one["qps"] and
                                     one["qps"][0]["receive_queue"]["outstanding"] == 500), None), "it has posted")
        (qp,), (cq,), (region,) = one["qps"], one["cqs"], one["regions"]
        brief = (f"  urxe0 {SERVER}  regions: 1, 4.10kB\n"
                 f"  QP 0x{qp['qpn']:06x} RC       INIT  to {'-':28} send {'0/1':11} receive {'500/500':11} "
                 "in flight 0B, sent 0 (0B), received 0 (0B)\n"
                 f"  CQ {cq['cqn']:<8} completions 0/501, 0 in all, 0 events\n")
        self.assertTrue(urxe("ps", str(server.pid)).stdout.endswith(f"  {one['command']}\n{brief}"))
        self.assertTrue(urxe("ps", "--verbose", str(server.pid)).stdout.endswith(
            f"  MR 0x{int(region['key'], 0):08x} 4096 bytes at {region['address']}, access 0x1\n"))

    def test_losses_as_text(self):
        client = self.pingpong(10**8, how=("run", "--faults", "seed=1;drop=5%"))[1]
        wait_for(lambda: re.search(r"\n {10}packets sent again: [1-9].*, sequence NAKs: [1-9]",
                                   urxe("ps", str(client.pid)).stdout), "packets are sent again")

    def test_address_of_rdma_cm(self):
        other = SERVER.replace(".83.", ".82.")
        server = self.start(SERVER, "rping", "-s", "-a", other, "-p", str(PORT))
        wait_for(lambda: [device["addresses"] for device in (self.at(server) or {"devices": []})["devices"]] ==
                 [[SERVER, other]], f"{server.pid} has {other}, too")

    def test_stopped_and_killed(self):
        server, _ = self.pingpong(10**8)
        self.wait_for_qp(server, "RTS")
        server.send_signal(signal.SIGSTOP)
        one = wait_for(lambda: (self.at(server) or {}).get("state") == "stopped" and self.at(server),
                       "the server is stopped")
        self.assertEqual(one["qps"][0]["state"], "RTS")
        self.assertRegex(urxe("ps", str(server.pid)).stdout, r"(?m)^\d+  .*ibv_rc_pingpong.*  stopped$")
        server.kill()
        server.wait()
        self.assertIsNone(self.at(server))
        ended = [one for one in processes("--ended") if one["pid"] == server.pid]
        self.assertEqual([(one["state"], one["qps"][0]["state"]) for one in ended], [("ended", "RTS")])

    def test_connections_and_listeners(self):
        server = self.start(SERVER, "rping", "-s", "-P", "-a", SERVER, "-p", str(PORT))
        listener = wait_for(lambda: [one for one in (self.at(server) or {}).get("connections", [])
                                     if one["state"] == "LISTEN"], "the server listens")
        self.assertEqual([(one["local"], one["service"]) for one in listener], [(SERVER, f"port {PORT} (TCP)")])
        client = self.start(CLIENT, "rping", "-c", "-a", SERVER, "-I", CLIENT, "-p", str(PORT), "-C", "100000000")
        ends = {}
        for node, process in ((SERVER, server), (CLIENT, client)):
            ends[node] = wait_for(lambda: [one for one in (self.at(process) or {}).get("connections", [])
                                           if one["state"] == "ESTABLISHED"], f"{node} is connected")[0]
        self.assertEqual((ends[SERVER]["local"], ends[SERVER]["peer"]), (SERVER, CLIENT))
        self.assertEqual((ends[CLIENT]["qpn"], ends[CLIENT]["peer_qpn"]),
                         (ends[SERVER]["peer_qpn"], ends[SERVER]["qpn"]))
        self.assertEqual(ends[CLIENT]["qpn"], self.at(client)["qps"][0]["qpn"])
        self.assertRegex(urxe("ps").stdout, rf"listener at {SERVER}, port {PORT} \(TCP\)")
        self.assertIn(f"  connection ESTABLISHED {CLIENT} to {SERVER}, port {PORT} (TCP), QP "
                      f"0x{ends[CLIENT]['qpn']:06x} to 0x{ends[CLIENT]['peer_qpn']:06x}\n",
                      urxe("ps", str(client.pid)).stdout)

    def test_no_such_process(self):
        said = urxe("ps", str(os.getpid()))
        self.assertIn(f"process {os.getpid()} has no device", said.stderr)
        self.assertEqual((said.returncode, said.stdout), (1, ""))
        self.assertEqual(urxe("ps", "x").returncode, 2)

    def test_one_of_two_is_missing(self):
        server, _ = self.pingpong(10**8)
        self.wait_for_qp(server, "RTS")
        self.assertEqual(urxe("ps", str(server.pid)).returncode, 0)
        said = urxe("ps", str(os.getpid()), str(server.pid))
        self.assertIn(f"process {os.getpid()} has no device", said.stderr)
        self.assertIn(str(server.pid), said.stdout)
        self.assertEqual(said.returncode, 1)

    def test_process_of_another_network_namespace(self):
        """It is listed when it is named."""
        if subprocess.run(["unshare", "--net", "true"], stderr=subprocess.DEVNULL).returncode:
            self.skipTest("network namespaces can't be made")
        program = f"ip link set lo up && exec {URXE} run --node {SERVER} -- ibv_rc_pingpong -g 0"
        server = subprocess.Popen(["unshare", "--net", "sh", "-c", program], env=ENVIRONMENT, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL, start_new_session=True)
        self.started.append(server)
        wait_for(lambda: processes("--all"), "it has a device")
        self.assertEqual(processes(), [])
        self.assertEqual([one["pid"] for one in processes(str(server.pid))], [server.pid])

    def test_process_of_another_time_namespace(self):
        """Its clock is ahead of ours: how long it has been idle can't be told."""
        apart = ["unshare", "--time", "--monotonic", "1000000", "--fork", "--kill-child"]
        if subprocess.run([*apart, "true"], stderr=subprocess.DEVNULL).returncode:
            self.skipTest("no time namespaces")
        self.start(SERVER, *apart, "ibv_rc_pingpong", "-g", "0", "-p", str(PORT))
        wait_for(listening, "the server listens")
        one = processes()[0]
        self.assertEqual([qp["idle_ns"] for qp in one["qps"]], [None])
        self.assertIn("idle for ?\n", urxe("ps", "--verbose", str(one["pid"])).stdout)

    def test_output_that_is_lost(self):
        with open("/dev/full", "w") as full:
            said = subprocess.run([URXE, "ps", "--json"], env=ENVIRONMENT, stdout=full, stderr=subprocess.PIPE,
                                  text=True, timeout=DEADLINE)
        self.assertEqual((said.returncode, said.stderr), (2, "urxe: the output can't be written\n"))

    # --- urxe top ------------------------------------------------------------------

    def test_rates(self):
        server, client = self.pingpong(10**8)
        for process in server, client:
            self.wait_for_qp(process, "RTS")

        def look():
            said = urxe("top", "--json", "--count", "2", "--interval", "0.2")
            readings = [json.loads(line) for line in said.stdout.splitlines()]
            self.assertEqual(len(readings), 2)
            rates = {one["pid"]: one["rates"] for one in readings[1]["processes"]}
            return all(rates.get(process.pid, {}).get("sent_bytes", 0) > 0 for process in (server, client))

        wait_for(look, "there is traffic both ways")
        text = urxe("top", "--count", "1", "--interval", "0.2").stdout.splitlines()
        self.assertRegex(text[0], r"^\d+ process(es)?, sent .*B/s, received .*B/s$")
        self.assertTrue(any(re.match(rf" *{client.pid} .*ibv_rc_pingpong", line) for line in text))

    def check_terminal(self, interval, end, status, last):
        """It is as it was when @end, called with the process and the other end of its terminal, has ended it."""
        master, terminal = pty.openpty()
        usual = termios.tcgetattr(terminal)
        top = subprocess.Popen([URXE, "top", "--interval", interval], env={**ENVIRONMENT, "TERM": "xterm"},
                               stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True,
                               preexec_fn=lambda: fcntl.ioctl(terminal, termios.TIOCSCTTY))
        said = b""
        while b"ERRORS" not in said:
            said += os.read(master, 4096)
        end(top, master)
        self.assertEqual(top.wait(timeout=DEADLINE), status)
        self.assertEqual(termios.tcgetattr(terminal), usual)
        while not said.endswith(b"\x1b[?25h\x1b[?1049l" + last):
            said += os.read(master, 4096)
        os.close(master)
        os.close(terminal)

    def test_terminal_is_as_it_was(self):
        for key in b"q", b"\x03", b"\x1c":  # the last two make signals
            with self.subTest(key=key):
                self.check_terminal("60", lambda _, terminal: os.write(terminal, key), 0, b"")

    def test_terminal_is_as_it_was_after_an_error(self):
        """Which is said on the usual screen."""
        self.check_terminal("0.1", lambda top, _: resource.prlimit(top.pid, resource.RLIMIT_NOFILE, (3, 3)), 2,
                            b"urxe: /dev/shm: Too many open files\r\n")

    def test_wide_characters_fit_into_the_terminal(self):
        name = "\u30a2" * 60
        program = f"import os; os.execvp('ibv_rc_pingpong', ['{name}', '-g', '0', '-p', '{PORT}'])"
        server = self.start(SERVER, "python3", "-c", program)
        wait_for(lambda: name in (self.at(server) or {}).get("command", ""), "the server has its name")
        master, terminal = pty.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("4H", 1000, 80, 0, 0))
        top = subprocess.Popen([URXE, "top", "--interval", "0.1", "--count", "1"],
                               env={**ENVIRONMENT, "TERM": "xterm"}, stdin=terminal, stdout=terminal, stderr=terminal)
        said = b""
        while not said.endswith(b"\x1b[?1049l"):
            said += os.read(master, 4096)
        self.assertEqual(top.wait(timeout=DEADLINE), 0)
        os.close(master)
        os.close(terminal)
        line = re.search(rf" *{server.pid} .*\u30a2", said.decode(errors="replace"))[0]
        self.assertIn(len(line) + line.count("\u30a2"), (79, 80))

    # --- urxe stat -----------------------------------------------------------------

    def check_summary(self, one):
        self.assertEqual(one["traffic"], {"sent_messages": 100, "sent_bytes": 409600,
                                          "received_messages": 100, "received_bytes": 409600})
        sends = one["requests"]["SEND"]
        self.assertEqual((sends["messages"], sends["bytes"]), (100, 409600))
        self.assertEqual(sum(bucket["count"] for bucket in sends["histogram"]), 100)
        self.assertGreaterEqual(sends["longest_ns"] * 100, sends["total_ns"])
        self.assertEqual(one["requests"]["READ"]["messages"], 0)
        self.assertEqual(one["qps"], [])

    def test_summary(self):
        _, client = self.pingpong(100, how=("stat", "--json"), stderr=subprocess.PIPE)
        said = client.communicate(timeout=DEADLINE)[1]
        self.assertEqual(client.returncode, 0)
        summary = json.loads(said[said.index("{\n"):])["processes"]
        self.assertEqual(len(summary), 1)
        self.check_summary(summary[0])

    def test_summary_as_text(self):
        _, client = self.pingpong(100, how=("run", "--stat"), stderr=subprocess.PIPE)
        said = client.communicate(timeout=DEADLINE)[1]
        self.assertRegex(said, r"sent +100 messages +409600 bytes\n  received +100 messages +409600 bytes")
        self.assertRegex(said, r"SEND +100 of 409600 bytes; mean .*, longest ")

    def test_half_of_two_requests(self):
        """It is the faster one."""
        client = self.pingpong(2, how=("stat",), stderr=subprocess.PIPE)[1]
        said = client.communicate(timeout=DEADLINE)[1]
        units = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}
        half, unit, begins, unit_of_begin = re.search(r"50% within (\S+) (\w+),.*\n +from +(\S+) (\w+)", said).groups()
        within, begins = float(half) * units[unit], float(begins) * units[unit_of_begin]
        self.assertLess(within, 2.01 * begins)

    def test_summary_of_a_bad_network(self):
        _, client = self.pingpong(100, how=("stat", "--faults", "seed=1;corrupt=20%@rx"), stderr=subprocess.PIPE)
        said = client.communicate(timeout=DEADLINE)[1]
        self.assertRegex(said, r"    icrc_errors +[1-9]")

    def test_summary_of_what_is_killed(self):
        server = self.start(SERVER, "sh", "-c", f"ibv_rc_pingpong -g 0 -p {PORT} & wait",
                            how=("stat", "--json"), stderr=subprocess.PIPE)
        tool = wait_for(lambda: [one for one in processes() if one["qps"] and one["qps"][0]["state"] == "INIT"],
                        "the tool has a QP in INIT")[0]
        os.kill(tool["pid"], signal.SIGKILL)
        said = server.communicate(timeout=DEADLINE)[1]
        summary = json.loads(said[said.index("{\n"):])["processes"]
        self.assertEqual([(one["pid"], one["state"]) for one in summary], [(tool["pid"], "ended")])
        self.assertEqual(summary[0]["qps"][0]["state"], "INIT")

    def test_inner_programs_belong_to_the_session(self):
        command = [URXE, "run", "--node", SERVER, "--", "ibv_devinfo", "-d", "urxe0"]
        said = urxe("stat", "--json", "--node", SERVER, "--", *command)
        summary = json.loads(said.stderr[said.stderr.index("{\n"):])["processes"]
        self.assertEqual([one["command"] for one in summary], ["ibv_devinfo -d urxe0"])

    def test_summary_of_one_that_looked_at_the_device_first(self):
        """Twice: it is told of once, by what it has done then, and one that does no more by the last look."""
        looks = ("import ctypes, os, sys; v = ctypes.CDLL(None); v.ibv_get_device_list.restype = ctypes.c_void_p; "
                 "v.ibv_open_device.restype = ctypes.c_void_p; v.ibv_open_device.argtypes = [ctypes.c_void_p]; "
                 "v.ibv_close_device.argtypes = [ctypes.c_void_p]; "
                 "one = ctypes.cast(v.ibv_get_device_list(None), ctypes.POINTER(ctypes.c_void_p))[0]; "
                 "[v.ibv_close_device(v.ibv_open_device(one)) for _ in range(2)]; "
                 "sys.argv[1:] and os.execvp(sys.argv[1], sys.argv[1:])")
        looked = urxe("stat", "--json", "--node", SERVER, "--", "python3", "-c", looks).stderr
        self.assertEqual(len(json.loads(looked[looked.index("{\n"):])["processes"]), 1)
        client = self.pingpong(100, how=("stat", "--json"), before=("python3", "-c", looks), stderr=subprocess.PIPE)[1]
        said = client.communicate(timeout=DEADLINE)[1]
        summary = json.loads(said[said.index("{\n"):])["processes"]
        self.assertEqual(len(summary), 1)
        self.check_summary(summary[0])

    def test_no_work_requests(self):
        said = urxe("stat", "--node", SERVER, "--", "ibv_devinfo").stderr
        self.assertRegex(said, r"sent +0 messages +0 bytes")
        self.assertNotIn("work requests", said)

    def test_status_is_the_program_s(self):
        self.assertEqual(urxe("stat", "--node", SERVER, "--", "sh", "-c", "exit 7").returncode, 7)
        said = urxe("stat", "--node", SERVER, "--", "sh", "-c", "kill -9 $$")
        self.assertEqual(said.returncode, 128 + 9)
        self.assertIn("no process had a device open", said.stderr)

    def test_program_that_cannot_be_started(self):
        """As with urxe run: what isn't started has no summary."""
        nothing = "--node", SERVER, "--", "/nonexistent"
        ran = urxe("run", *nothing)
        self.assertEqual(ran.returncode, 2)
        for summary in (), ("--json",):
            said = urxe("stat", *summary, *nothing)
            self.assertEqual((said.returncode, said.stderr), (ran.returncode, ran.stderr))

    def test_status_where_ended_children_are_ignored(self):
        """As a parent leaves it that wants none of its own."""
        ignoring = subprocess.run([URXE, "stat", "--node", SERVER, "--", "sh", "-c", "exit 7"], env=ENVIRONMENT,
                                  preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN),
                                  stderr=subprocess.DEVNULL, timeout=DEADLINE)
        self.assertEqual(ignoring.returncode, 7)

    # --- without /dev/shm --------------------------------------------------------------

    def test_status_is_the_program_s_without_figures(self):
        said = urxe("stat", "--node", SERVER, "--", "sh", "-c", "exit 7", LD_PRELOAD=NO_SHM)
        self.assertEqual((said.returncode, said.stderr.count("\n")), (7, 1), said.stderr)
        self.assertIn("/dev/shm: No such file or directory", said.stderr)
        self.assertEqual(urxe("ps", LD_PRELOAD=NO_SHM).returncode, 2)

    def test_device_is_open_without_figures(self):
        """As with a /dev/shm that can't be written."""
        said = urxe("stat", "--node", SERVER, "--", "sh", "-c", "ulimit -f 0; exec ibv_devinfo").stderr
        self.assertIn("urxe stat has no figures of this process", said)
        self.assertIn("or could leave its figures", said)

    def test_faults_are_tried_without_figures(self):
        with tempfile.TemporaryDirectory() as folder:
            said = urxe("fuzz", "--json", "--only", "ibv_open_device", "--", "ibv_devinfo", LD_PRELOAD=NO_SHM,
                        TMPDIR=folder)
            self.assertEqual((said.returncode, os.listdir(folder)), (0, []), said.stderr)
            self.assertIn("/dev/shm: No such file or directory", said.stderr)

    # --- urxe ctl ------------------------------------------------------------------

    def control(self, *words, status=0, **variables):
        said = urxe("ctl", *map(str, words), **variables)
        self.assertEqual(said.returncode, status, said.stderr)
        self.assertEqual(said.stderr.count("\n"), 1 if status else 0)
        return said.stderr or said.stdout

    def test_running_process_is_told(self):
        server = self.start(SERVER, "ibv_rc_pingpong", "-g", "0", "-p", str(PORT), stderr=subprocess.PIPE)
        self.wait_for_qp(server, "INIT")
        self.control(server.pid, "log", "info")
        self.control(server.pid, "explain on")
        self.assertIn("no command x", self.control(server.pid, "x", status=2))
        self.assertEqual(self.control(server.pid, "faults"), "")
        self.control(server.pid, "faults", "fail#1/ibv_reg_mr;drop#1000000")
        self.assertIn("expected a fault", self.control(server.pid, "faults", "drip=1%", status=2))
        self.assertEqual(self.control(server.pid, "faults"),
                         "fail#1/ibv_reg_mr: 0 of 0 calls\ndrop#1000000: 0 of 0 packets of urxe0\n")
        self.control(server.pid, "faults", "none")
        self.assertEqual(self.control(server.pid, "faults"), "")
        client = self.start(CLIENT, "ibv_rc_pingpong", "-g", "0", "-p", str(PORT), SERVER)
        client.wait(timeout=DEADLINE)
        self.assertIn("] info: ", server.communicate(timeout=DEADLINE)[1])

    def test_process_that_cannot_be_told(self):
        server = self.start(SERVER, "ibv_rc_pingpong", "-g", "0", "-p", str(PORT))
        self.wait_for_qp(server, "INIT")
        self.assertIn("no command for process", self.control(server.pid, status=2))
        self.assertIn("no process", self.control(status=2))
        self.assertIn("no process id", self.control("12x", "log", "info", status=2))
        self.assertIn("at most", self.control(server.pid, "x" * 5000, status=2))
        server.send_signal(signal.SIGSTOP)
        wait_for(lambda: (self.at(server) or {}).get("state") == "stopped", "the server is stopped")
        self.assertIn("is stopped", self.control(server.pid, "log", "info", status=2))
        server.kill()
        server.wait()
        self.assertIn(f"no process {server.pid}", self.control(server.pid, "log", "info", status=2))
        self.assertIn("no device", self.control(os.getpid(), "log", "info", status=2))

    def test_process_that_ends_before_it_is_told(self):
        server = self.start(SERVER, "ibv_rc_pingpong", "-g", "0", "-p", str(PORT))
        self.wait_for_qp(server, "INIT")
        said = self.control(server.pid, "log", "info", status=2, LD_PRELOAD=PEER_ENDS, ENDING=str(server.pid))
        self.assertIn("see urxe ps", said)


if __name__ == "__main__":
    unittest.main(verbosity=2)
