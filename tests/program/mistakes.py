#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What urxe says to a user who mistypes: what is wrong, in a line, and the exit status that the manual has."""

import os
import pathlib
import pty
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

URXE = os.path.abspath(sys.argv.pop(1))
DEADLINE = 120  # seconds, reached by a hang alone
NODE = f"127.85.{os.getpid() >> 8 & 255}.{os.getpid() & 255}"  # another run of this on the machine has another one
NOBODY = 65534
NO_PROCESS = 2**31 - 1  # more than the kernel gives (pid_max)

# Neither what a test is run with, nor a session of its own.
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("URXE_")}

# Status, what is said of it, and the command.
MISTAKES = [
    (2, 'no command nothing; see urxe --help', "nothing"),
    (2, 'no command ""', ""),
    (2, "unrecognized option '--node'", "--node", NODE, "run", "true"),
    (2, "no program to run", "run"),
    (2, '"": no such program', "run", ""),
    (2, "nothing-there: no such program", "run", "nothing-there"),
    (2, "./folder: it isn't an executable file", "run", "./folder"),
    (2, "./text: it isn't an executable file", "stat", "./text"),
    (2, "option '--node' requires an argument", "run", "--node"),
    (2, "--node needs a value", "devices", "--node", ""),
    (2, '"nowhere" is not a list', "devices", "--node", "nowhere"),
    (2, "devices takes no argument: x", "devices", "x"),
    (2, "./folder:", "devices", "--profile", "./folder"),
    (2, '"" is no process id', "ps", ""),
    (2, "-1 is no process id", "ps", "--", "-1"),
    (2, "99999999999 is no process id", "ps", "99999999999"),
    (1, f"there is no process {NO_PROCESS}", "ps", str(NO_PROCESS)),
    (2, "no process; see urxe ctl --help", "ctl"),
    (2, f"there is no process {NO_PROCESS}; see urxe ps", "ctl", str(NO_PROCESS), "faults"),
    (2, 'at "drip": expected a fault', "ctl", "1", "faults", "drip"),
    (2, "--count: 1.5 is no whole number", "top", "--count", "1.5"),
    (2, "--count: -1 is no whole number", "top", "-n", "-1"),
    (2, "--count: 99999999999999999999 is no whole number", "top", "-n", "99999999999999999999"),
    (2, '--count: "" is no whole number', "top", "-n", ""),
    (2, "--interval: 0 is no number", "top", "-i", "0"),
    (2, "--interval: nan is no number", "top", "-i", "nan"),
    (2, '--interval: "" is no number', "top", "-i", ""),
    (2, "top takes no argument: 5", "top", "5"),
    (2, "Usage: urxe explain", "explain"),
    (1, "nothing is known of \u2603; see urxe explain --list", "explain", "\u2603"),
    (1, 'nothing is known of ""', "explain", ""),
    (2, "take no argument: EINVAL", "explain", "--list", "EINVAL"),
    (2, "take no argument: EINVAL", "explain", "EINVAL", "--markdown"),
    (1, 'there is no profile ""; urxe profiles lists them', "profiles", ""),
    (1, "there is no profile \u2603", "profiles", "\u2603"),
    (1, "./folder: Is a directory", "profiles", "./folder"),
    (1, "./nosuch: No such file or directory", "profiles", "./nosuch"),
    (2, "takes no argument: cx5", "profiles", "--markdown", "cx5"),
    (2, "no help about nothing; see urxe help --help", "help", "nothing"),
    (2, 'no help about ""', "help", ""),
    (2, "no help about run.7", "help", "run.7"),
    (2, "no help about run(1", "help", "run(1"),
    (2, "no help about ../../README.md", "help", "../../README.md"),
    (2, "Too many arguments", "help", "run", "stat"),
    (2, "no captures to read", "trace"),
    (2, '"": No such file', "trace", ""),
    (2, "nothing.pcap: No such file", "trace", "nothing.pcap"),
    (2, "--qp takes the number of a queue pair, and not x", "trace", "--qp", "x", "text"),
    (2, "--from: -1 is no number from 0 to 1000000000000", "trace", "--from", "-1", "text"),
    (2, "--to: 1e13 is no number", "trace", "--to", "1e13", "text"),
    (2, "--format is table, diagram, svg or json, and not pdf", "trace", "--format", "pdf", "text"),
    (2, "--timeout: 0 is no number", "fuzz", "--timeout", "0", "true"),
    (2, "--seeds: 1.5 is no whole number", "fuzz", "--seeds", "1.5", "true"),
    (2, '--only: there is an empty word in "calls,"', "fuzz", "--only", "calls,", "true"),
    (2, "./text: Not a directory", "fuzz", "--output", "./text", "true"),
    (2, "/nonexistent/folder: No such file", "fuzz", "--output", "/nonexistent/folder", "true"),
    (2, '"": no such program', "fuzz", ""),
    (2, "the program makes no call of verbs", "fuzz", "true"),
]
# tshark has a line of its own.
CAPTURES = [
    (2, "no RoCE packets in empty", "trace", "empty"),
    (2, "no RoCE packets in any of these files", "trace", "empty", "empty"),
    (2, "text can't be read", "trace", "text"),
    (2, "folder can't be read", "trace", "folder"),
]
# Only another user than root can't read it.
UNREADABLE = [
    (1, "./secret: Permission denied", "profiles", "./secret"),
    (2, "secret: Permission denied", "trace", "secret"),
    (2, "./secret: Permission denied", "devices", "--profile", "./secret"),
    (2, "./closed: Permission denied", "fuzz", "--output", "./closed", "true"),
]


class Mistakes(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        folder = pathlib.Path(self.folder.name)
        folder.chmod(0o755)
        for name, text in ("empty", ""), ("text", "not a capture, nor a profile\n"), ("secret", "secret\n"):
            (folder / name).write_text(text)
        (folder / "folder").mkdir()
        (folder / "closed").mkdir()
        (folder / "secret").chmod(0)
        (folder / "closed").chmod(0o500)
        self.addCleanup(self.folder.cleanup)

    def urxe(self, *words, **options):
        return subprocess.run([URXE, *words], env=ENVIRONMENT, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=DEADLINE, cwd=self.folder.name, **options)

    def check(self, rows, lines=1, **options):
        for status, said, *words in rows:
            with self.subTest(words):
                run = self.urxe(*words, **options)
                self.assertEqual((run.returncode, run.stdout), (status, ""), run.stderr)
                self.assertIn(said, run.stderr)
                # What argp(3) objects to has a line about --help.
                self.assertEqual(run.stderr.count("\n"), lines + ("\nTry `urxe" in run.stderr))

    def test_each_is_a_line(self):
        self.check([*MISTAKES, (1, f"process {os.getpid()} has no device", "ps", str(os.getpid()))])

    def test_captures(self):
        if not shutil.which("tshark"):
            self.skipTest("no tshark")
        self.check(CAPTURES[:2])
        self.check(CAPTURES[2:], lines=2)

    def as_nobody(self):
        """How another user than root runs it, who can read the build."""
        if os.geteuid():
            return {}
        options = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
        try:
            self.assertEqual(self.urxe("run", "--node", NODE, "true", **options).returncode, 0)
        except OSError:
            self.skipTest("another user can't read the build")
        return options

    def test_of_an_ordinary_user(self):
        options = self.as_nobody()
        if options:
            self.check(MISTAKES, **options)
        self.check(UNREADABLE, **options)
        if options or not os.access("/proc/1/fd", os.R_OK):
            self.check([(2, "process 1 is another user's; see urxe ps", "ctl", "1", "faults"),
                        (1, "process 1 is another user's", "ps", "1")], **options)

    def test_of_root_about_another_user_s_process(self):
        options = self.as_nobody()
        if not options:
            self.skipTest("not root")
        with subprocess.Popen(["sleep", "1000"], **options) as process:
            theirs = [(1, f"process {process.pid} is another user's", "ps", str(process.pid)),
                      (2, f"process {process.pid} is another user's", "ctl", str(process.pid), "faults")]
            try:
                self.check(theirs)
            finally:
                process.kill()

    # --- help ----------------------------------------------------------------------

    def test_help_is_short_anywhere(self):
        """-h is --help, behind other options, too, but not behind a program."""
        for words in (["-h"], ["ps", "-v", "-h"], ["top", "-n", "3", "-h"], ["run", "--node", NODE, "-h"],
                      ["stat", "-h"], ["fuzz", "--seeds", "1", "-h"], ["ctl", "-h"], ["explain", "EINVAL", "-h"],
                      ["help", "-h"], ["devices", "--link", "shm", "-h"], ["profiles", "-h"],
                      ["trace", "x.pcap", "-h"]):
            with self.subTest(words):
                run = self.urxe(*words)
                self.assertEqual((run.returncode, run.stderr), (0, ""))
                self.assertTrue(run.stdout.startswith("Usage: urxe "), run.stdout)
                self.assertIn("--help", run.stdout)
        self.assertEqual(self.urxe("run", "--node", NODE, "echo", "-h").stdout, "-h\n")

    # --- streams -------------------------------------------------------------------

    def closed(self, redirections, *words):
        return subprocess.run(["sh", "-c", f'exec "$@" {redirections}', "sh", URXE, *words], env=ENVIRONMENT,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=DEADLINE,
                              cwd=self.folder.name)

    def test_closed_output(self):
        """What is lost is told, and goes to no file that has its number."""
        for words in (["--help"], ["ps", "--json"], ["explain", "--list"], ["profiles"], ["help", "faults"],
                      ["devices", "--node", NODE], ["top", "-n", "1", "-i", "0.01"]):
            for redirections in ">&-", ">&- <&-":
                with self.subTest(words):
                    run = self.closed(redirections, *words)
                    self.assertEqual((run.returncode, run.stderr), (2, "urxe: the output can't be written\n"))

    def test_closed_streams(self):
        """A program that can't have the devices isn't started, though nothing can be said; and one that can finds
        closed what was."""
        for redirections in "2>&-", ">&- 2>&-", "<&- >&- 2>&-":
            with self.subTest(redirections):
                run = self.closed(redirections, "run", "--node", "192.0.2.1", "--", "touch", "ran")
                self.assertEqual((run.returncode, os.path.exists(f"{self.folder.name}/ran")), (2, False))
        run = self.closed(">&- <&-", "run", "--node", NODE, "--", "sh", "-c", "[ ! -e /proc/$$/fd/1 ] && echo so >&2")
        self.assertEqual((run.returncode, run.stderr), (0, "so\n"))

    def test_output_that_no_one_reads(self):
        """The files of a session that finds much are removed all the same."""
        script = 'i=0; while [ $i -lt 60 ]; do ibv_devinfo >/dev/null 2>&1 || kill -ABRT $$; i=$((i + 1)); done'
        temporary = pathlib.Path(self.folder.name, "temporary")
        temporary.mkdir()
        words = "fuzz", "--json", "--no-check", "--only", "ibv_open_device", "--node", NODE, "--", "sh", "-c", script
        with subprocess.Popen([URXE, *words], env={**ENVIRONMENT, "TMPDIR": str(temporary)}, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) as fuzz:
            fuzz.stdout.close()
            said = fuzz.stderr.read()
            self.assertEqual((fuzz.wait(timeout=DEADLINE), said), (2, "urxe: the output can't be written\n"))
        self.assertEqual(os.listdir(temporary), [])

    # --- terminals -----------------------------------------------------------------

    def top(self, kind, columns):
        """What urxe top writes to a terminal of this kind."""
        master, terminal = pty.openpty()
        environment = {name: value for name, value in ENVIRONMENT.items() if name != "TERM"}
        if kind is not None:
            environment["TERM"] = kind
        subprocess.run(["stty", "cols", str(columns), "rows", "500"], stdin=terminal, check=True)
        top = subprocess.Popen([URXE, "top", "-a", "-i", "0.1", "-n", "1"], stdin=terminal, stdout=terminal,
                               stderr=terminal, env=environment, start_new_session=True)
        os.close(terminal)
        said = b""
        try:
            while more := os.read(master, 4096):
                said += more
        except OSError:
            pass  # the other end is closed
        os.close(master)
        self.assertEqual(top.wait(timeout=DEADLINE), 0)
        return said.decode()

    def test_terminals_that_obey_nothing(self):
        for kind in None, "", "dumb":
            with self.subTest(kind):
                self.assertRegex(self.top(kind, 80), r"^\d+ process(es)?, .*\r\n +PID .* COMMAND\r\n")
                self.assertNotIn("\x1b", self.top(kind, 80))

    def test_narrow_terminals(self):
        """Lines end with the last column, or before: in whole characters."""
        program = pathlib.Path(self.folder.name, "\u2603\u2603\u2603\u2603\u2603\u2603")
        shutil.copy(shutil.which("ibv_rc_pingpong"), program)
        with subprocess.Popen([URXE, "run", "--node", NODE, "--", f"./{program.name}", "-g", "0", "-p",
                               str(20000 + os.getpid() % 10000)], env=ENVIRONMENT, cwd=self.folder.name,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
            try:
                end = time.monotonic() + DEADLINE
                while program.name not in self.urxe("ps", str(server.pid)).stdout:
                    self.assertLess(time.monotonic(), end)
                    time.sleep(0.02)
                for columns in 1, 20, 80, 81:
                    with self.subTest(columns):
                        said = self.top("xterm", columns)
                        lines = [line.rpartition("\x1b[K")[2] for line in said.split("\r") if "\x1b[K" in line]
                        self.assertGreater(len(lines), 2)
                        self.assertEqual([line for line in lines if len(line) > columns], [])
                        self.assertEqual(any("./\u2603\u2603" in line for line in lines), columns >= 80)
            finally:
                server.send_signal(signal.SIGKILL)


if __name__ == "__main__":
    unittest.main(verbosity=2)
