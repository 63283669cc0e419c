#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""urxe fuzz finds what is wrong in small programs that have one defect each, and nothing in one that has none."""

import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import unittest

URXE, PROGRAMS = sys.argv.pop(1), pathlib.Path(sys.argv.pop(1))
DEADLINE = 300  # seconds, reached by a defect alone

PORT = 20000 + os.getpid() % 10000  # another run of this on the machine has another one

ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("URXE_")}

# What hangs does so for ever, and needs but the time to get there on a busy machine; what must not be taken for a hang
# needs patience.
HANGS, PATIENT = ("--timeout", "5"), ("--timeout", "120")
CRASHES = (*PATIENT, "--no-check")

# The program; options; the places that are found: by their outcome, with a regular expression for the detail of it.
PLANTED = [
    ("unchecked_mr", (*CRASHES, "--only", "calls"), {"fail(ENOMEM)#2/ibv_reg_mr": ("crash", "SIGSEGV")}),
    ("double_free", (*CRASHES, "--only", "calls"), {"fail(ENOMEM)#2/ibv_create_cq": ("crash", "SIGABRT")}),
    ("names_qp", (*CRASHES, "--only", "ibv_create_qp"), {"fail(ENOMEM)#3/ibv_create_qp": ("crash", "SIGSEGV")}),
    ("negative_poll", (*CRASHES, "--only", "ibv_poll_cq"), {"fail(EINVAL)#1/ibv_poll_cq": ("crash", "SIGSEGV"),
                                                            "fail(EINVAL)#1+/ibv_poll_cq": ("crash", "SIGSEGV")}),
    ("trusted_message", (*CRASHES, "--only", "completions"),
     {"complete(LOC_PROT_ERR)#1/RECV": ("crash", "SIGSEGV")}),
    ("leaked_pd", (*PATIENT, "--only", "ibv_reg_mr,ibv_alloc_pd"),
     {"fail(ENOMEM)#2/ibv_reg_mr": ("leak", r"made at leaked_pd\.c:\d+ \(use_another_domain\)")}),
    ("ignored_post", (*HANGS, "--no-check", "--only", "ibv_post"),
     {"fail(ENOMEM)#1/ibv_post_send": ("hang", "ibv_poll_cq"),
      "fail(ENOMEM)#1/ibv_post_recv": ("hang", "ibv_poll_cq")}),
    ("endless_retry", (*HANGS, "--no-check", "--only", "ibv_post_send"),
     {"fail(ENOMEM)#1+/ibv_post_send": ("hang", "ibv_post_send")}),
    ("awaited_success", (*HANGS, "--no-check", "--only", "completions"),
     {"complete(LOC_LEN_ERR)#1/SEND": ("hang", "ibv_poll_cq")}),
    ("unacked_event", (*HANGS, "--no-check", "--only", "events"),
     {"event(QP_FATAL)#1": ("hang", "ibv_destroy_qp")}),
    ("refused_connection", (*HANGS, "--no-check", "--only", "connections"),
     {"reject#1/CM_REP": ("hang", "rdma_get_cm_event")}),
]
FINDINGS = "crash", "hang", "peer crash", "leak", "misuse"


def fuzz(*words, environment=ENVIRONMENT, **options):
    """What it says; of its files nothing is left."""
    with tempfile.TemporaryDirectory() as folder:
        said = subprocess.run([URXE, "fuzz", *map(str, words)], env={**environment, "TMPDIR": folder},
                              capture_output=True, text=True, timeout=DEADLINE, **options)
        assert os.listdir(folder) == [], (os.listdir(folder), said)
    return said


def program(name):
    return PROGRAMS / f"fuzzed_{name}"


def places(said):
    return {place["fault"]: place for place in json.loads(said.stdout)["places"]}


def findings(said):
    return {fault: place for fault, place in places(said).items() if place["outcome"] in FINDINGS}


def detail_of(place):
    """What happened there: not the fault itself, which names a call, too."""
    if place["outcome"] == "leak":
        return place["report"]
    return place["last_call"] if place["outcome"] == "hang" else place["program"]["signal"]


class Planted(unittest.TestCase):
    def check(self, name, said, expected):
        self.assertEqual(said.returncode, 1, said.stderr)
        found = findings(said)
        for fault, (outcome, detail) in expected.items():
            self.assertIn(fault, found, name)
            self.assertEqual(found[fault]["outcome"], outcome, found[fault])
            self.assertRegex(detail_of(found[fault]), detail)

    def test_each_is_found(self):
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            runs = [(name, expected, pool.submit(fuzz, "--json", *options, "--", program(name)))
                    for name, options, expected in PLANTED]
            for name, expected, run in runs:
                with self.subTest(name):
                    self.check(name, run.result(), expected)
                    # Where patience excludes other findings there are no others.
                    if name in ("unchecked_mr", "double_free", "names_qp", "leaked_pd"):
                        self.assertEqual(set(findings(run.result())), set(expected))

    def test_nothing_is_found_where_nothing_is_wrong(self):
        said = fuzz("--json", *PATIENT, "--seeds", "2", "--", program("clean"))
        self.assertEqual((findings(said), said.returncode), ({}, 0), said.stderr)
        tried = places(said)
        for fault in ("fail(ENOMEM)#2/ibv_create_qp", "fail(EINVAL)#6/ibv_modify_qp", "complete(RETRY_EXC_ERR)#2/SEND",
                      "event(DEVICE_FATAL)#1", "remove#1", "down(100ms)#1"):
            self.assertIn(fault, tried)
        self.assertEqual(tried["fail(ENOMEM)#1/ibv_reg_mr"]["outcome"], "reported")
        self.assertEqual(tried["fail(ENOMEM)#1/ibv_reg_mr"]["program"], {"exit_status": 1})
        self.assertEqual(json.loads(said.stdout)["outcomes"]["untried"], 0)

    def repeat(self, command, environment):
        words = shlex.split(command)
        # It is for a shell, which has the variables, and urxe in PATH.
        self.assertEqual(words.count("urxe"), 1, command)
        words[words.index("urxe")] = URXE
        return subprocess.run(["env", *words], env=environment, capture_output=True, text=True, timeout=DEADLINE)

    def test_commands_repeat_reports(self):
        """With the checker, and with the devices: of a node with options, or of a list in the environment."""
        for environment, options, begins in (
                (ENVIRONMENT, ("--profile", "cx5", "--link", "shm"),
                 "urxe run --node 127.0.0.2 --link shm --profile cx5 --check --faults "),
                ({**ENVIRONMENT, "URXE_DEVICES": "rail0=127.0.0.2", "URXE_CHECK": "order"}, (),
                 "URXE_DEVICES=rail0=127.0.0.2 urxe run --check=order --faults ")):
            with self.subTest(begins):
                said = fuzz("--json", *PATIENT, *options, "--only", "ibv_reg_mr", "--", program("leaked_pd"),
                            environment=environment)
                self.assertEqual(said.returncode, 1, said.stderr)
                found = findings(said)["fail(ENOMEM)#2/ibv_reg_mr"]
                self.assertEqual(found["command"][:len(begins)], begins)
                self.assertIn("OBJECT_DESTROYED_IN_USE", self.repeat(found["command"], environment).stderr)

    def test_peer_has_a_node_where_the_program_has_a_list(self):
        environment = {**ENVIRONMENT, "URXE_DEVICES": "rail0=127.0.0.2"}
        server = f"ibv_rc_pingpong -d urxe0 -g 0 -p {PORT} -n 5"
        said = fuzz("--json", *PATIENT, "--no-check", "--only", "ibv_alloc_pd", "--peer", server, "--",
                    "ibv_rc_pingpong", "-d", "rail0", "-g", "0", "-p", PORT, "-n", "5", "127.0.0.1",
                    environment=environment)
        self.assertEqual(said.returncode, 0, said.stderr)
        self.assertTrue(json.loads(said.stdout)["peer"].startswith("env -u URXE_DEVICES urxe run --node 127.0.0.1 "))

    def test_commands_repeat_findings(self):
        with tempfile.TemporaryDirectory() as folder:
            said = fuzz(*CRASHES, "--only", "ibv_create_qp", "--output", folder, "--", program("names_qp"))
            self.assertEqual(said.returncode, 1, said.stderr)
            lines = said.stdout.splitlines()
            self.assertRegex(lines[0], r"^crash +fail\(ENOMEM\)#3/ibv_create_qp +SIGSEGV, its last call was ibv_create")
            command = shlex.split(lines[1])
            self.assertEqual(command[:2], ["urxe", "run"])
            again = subprocess.run([URXE, *command[1:]], env=ENVIRONMENT, capture_output=True, timeout=DEADLINE)
            self.assertEqual(again.returncode, -11)
            self.assertEqual([str(path) for path in pathlib.Path(folder).iterdir()], [lines[2].strip()])

    def test_sessions_share_a_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            script = f"{shlex.quote(str(program('leaked_pd')))}; echo $1"
            sessions = []
            for name in "first", "second":
                said = fuzz("--json", *PATIENT, "--only", "ibv_reg_mr", "--output", folder, "--",
                            "sh", "-c", script, "sh", name)
                self.assertEqual(said.returncode, 1, said.stderr)
                sessions.append([pathlib.Path(place["output"]) for place in findings(said).values()])
            for name, files in zip(("first", "second"), sessions):
                self.assertEqual({file.read_text().split()[-1] for file in files}, {name})
            self.assertEqual(len(list(pathlib.Path(folder).iterdir())), sum(map(len, sessions)))

    def test_files_that_are_there_are_kept(self):
        fault = "fail(ENOMEM)#2/ibv_reg_mr"
        with tempfile.TemporaryDirectory() as folder:
            kept = [pathlib.Path(folder, name) for name in ("counts", "reports", "0.txt")]
            for path in kept:
                path.write_text("kept")
            said = fuzz("--json", *PATIENT, "--only", "ibv_reg_mr", "--output", folder, "--", program("leaked_pd"))
            self.assertEqual([path.read_text() for path in kept], ["kept"] * len(kept))
            self.assertEqual({*pathlib.Path(folder).iterdir()},
                             {*kept, *(pathlib.Path(place["output"]) for place in findings(said).values())})
            self.assertIn(fault, findings(said))

    def test_sessions_share_a_folder_at_once(self):
        """None has files of the other's, and so both find what one does."""
        with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor() as threads:
            words = "--json", *PATIENT, "--only", "ibv_reg_mr,ibv_alloc_pd", "--", program("leaked_pd")
            alone = {fault: place["outcome"] for fault, place in places(fuzz(*words)).items()}
            for run in [threads.submit(fuzz, "--output", folder, *words) for _ in range(2)]:
                self.assertEqual({fault: place["outcome"] for fault, place in places(run.result()).items()}, alone)

    def test_names_that_are_no_utf_8(self):
        """In JSON, which has no others, they don't hide what is found."""
        with tempfile.TemporaryDirectory() as folder:
            renamed = pathlib.Path(folder, os.fsdecode("ê".encode() + b"leaked_p\xe9"))
            renamed.write_bytes(program("leaked_pd").read_bytes().replace(b"leaked_pd.c", b"leaked_p\xe9.c"))
            renamed.chmod(0o700)
            said = fuzz("--json", *PATIENT, "--only", "ibv_reg_mr", "--", renamed)
            found = findings(said)["fail(ENOMEM)#2/ibv_reg_mr"]
            self.assertRegex(found["report"], r"made at leaked_p\?\.c:")
            self.assertTrue(found["command"].endswith("/êleaked_p?'"), found["command"])


class Commands(unittest.TestCase):
    def refused(self, said, *words, **options):
        run = fuzz(*words, **options)
        self.assertEqual(run.returncode, 2, run.stdout)
        self.assertIn(said, run.stderr)

    def test_what_cannot_be_fuzzed(self):
        self.refused("exit status 3", "--", "sh", "-c", "exit 3")
        self.refused("crashes without any fault: Segmentation fault", "--", "sh", "-c", "kill -SEGV $$")
        self.refused("makes no call of verbs", "--", "true")
        self.refused("no such program", "--", "/nonexistent")
        self.refused("no program")
        self.refused("--only: nonsense", "--only", "calls,nonsense", "--", "true")
        self.refused("does nothing that could fail", "--only", "connections", "--", program("clean"))
        self.refused("--timeout", "--timeout", "x", "--", "true")
        self.refused("--seeds", "--seeds", "-1", "--", "true")
        for option in "--peer", "--peer-node", "--output":
            self.refused(f"{option} needs a value", option, "", "--", "true")

    def test_status_where_ended_children_are_ignored(self):
        """As a parent leaves it that wants none of its own."""
        self.refused("exit status 3", "--", "sh", "-c", "exit 3",
                     preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))

    def test_folder_with_a_comma(self):
        with tempfile.TemporaryDirectory() as folder:
            comma = pathlib.Path(folder, "a,b")
            comma.mkdir()
            said = subprocess.run([URXE, "fuzz", "--", "true"], env={**ENVIRONMENT, "TMPDIR": comma},
                                  capture_output=True, text=True, timeout=DEADLINE)
            self.assertEqual((said.returncode, os.listdir(comma)), (2, []), said.stderr)
            self.assertIn("has a comma", said.stderr)

    def test_folder_that_goes(self):
        """A run that can't be made isn't one in which nothing was found."""
        with tempfile.TemporaryDirectory() as folder:
            kept = pathlib.Path(folder, "kept")
            script = f"{shlex.quote(str(program('clean')))}; rm -r {kept}"
            said = fuzz("--json", *PATIENT, "--no-check", "--only", "ibv_alloc_pd", "--output", kept, "--",
                        "sh", "-c", script)
        self.assertEqual(said.returncode, 2, said.stdout)
        self.assertEqual(said.stderr, f"urxe: {kept}/1.txt: No such file or directory\n")
        self.assertEqual({place["outcome"] for place in places(said).values()}, {"untried"})

    def test_no_folder_for_files(self):
        self.refused("/dev/null: ", "--output", "/dev/null", "--", "true")
        said = subprocess.run([URXE, "fuzz", "--", "sh", "-c", "readlink /proc/self/fd/1; exit 1"],
                              env={**ENVIRONMENT, "TMPDIR": ""}, capture_output=True, text=True, timeout=DEADLINE)
        self.assertRegex(said.stderr, r"^/tmp/urxe-fuzz-\w+/0\.txt\n")

    def test_waiting_as_long_as_rdma_cm_does_is_no_hang(self):
        """By default; how long it is is librdmacm's to say."""
        port = ["-p", str(PORT)]
        said = fuzz("--json", "--no-check", "--only", "connections", "--peer", f"rping -s {' '.join(port)}", "--",
                    "rping", "-c", "-a", "127.0.0.1", "-C", "1", *port)
        self.assertEqual(places(said)["drop#1+/CM_REQ@tx"]["outcome"], "reported", said.stdout)

    def test_peer_is_started_for_each_run(self):
        server = f"ibv_rc_pingpong -g 0 -p {PORT} -n 5"
        said = fuzz("--json", *PATIENT, "--no-check", "--only", "ibv_alloc_pd,ibv_create_qp", "--peer", server, "--",
                    "ibv_rc_pingpong", "-g", "0", "-p", PORT, "-n", "5", "127.0.0.1")
        self.assertEqual(said.returncode, 0, said.stderr + said.stdout)
        self.assertEqual(places(said)["fail(ENOMEM)#1/ibv_alloc_pd"]["outcome"], "reported")
        self.assertIn(server, json.loads(said.stdout)["peer"])

    def test_peer_crashes(self):
        with tempfile.TemporaryDirectory() as folder:
            # Each time but the first.
            server = (f"[ -e {folder}/begun ] && kill -SEGV $$; touch {folder}/begun; "
                      f"ibv_rc_pingpong -g 0 -p {PORT} -n 5")
            said = fuzz("--json", *PATIENT, "--no-check", "--only", "ibv_alloc_pd", "--peer", server, "--",
                        "ibv_rc_pingpong", "-g", "0", "-p", PORT, "-n", "5", "127.0.0.1")
        self.assertEqual(said.returncode, 1, said.stderr)
        self.assertEqual({(place["outcome"], place["peer"]["signal"]) for place in findings(said).values()},
                         {("peer crash", "SIGSEGV")})

    def test_nothing_is_left_behind(self):
        left = f"urxe-fuzz-left-behind-{os.getpid()}"
        script = f"{shlex.quote(str(program('names_qp')))} || {{ setsid sh -c 'sleep 1000; : {left}' & exit 1; }}"
        said = fuzz("--json", *CRASHES, "--only", "ibv_alloc_pd", "--", "sh", "-c", script)
        self.assertEqual(places(said)["fail(ENOMEM)#1/ibv_alloc_pd"]["outcome"], "reported", said.stderr)
        alive = [path for path in pathlib.Path("/proc").glob("[0-9]*/cmdline") if left in read(path)]
        self.assertEqual(alive, [])

    def test_calls_by_their_name_or_its_beginning(self):
        def tried(only):
            said = fuzz("--json", *PATIENT, "--no-check", "--only", only, "--", "ibv_devinfo")
            self.assertEqual(said.returncode, 0, said.stderr)
            return {fault.partition("/")[2] for fault in places(said)}

        # What fails calls of ibv_query_device fails those of ibv_query_device_ex, too.
        self.assertEqual(tried("ibv_query_device"), {"ibv_query_device"})
        self.assertEqual(tried("ibv_query_device_ex"), {"ibv_query_device_ex"})
        self.assertEqual(tried("ibv_query_device_ex,ibv_query_dev"), {"ibv_query_device"})

    def test_many_calls_are_sampled(self):
        said = fuzz("--json", *PATIENT, "--no-check", "--only", "ibv_query_gid", "--", "ibv_devinfo", "-v")
        left_out = json.loads(said.stdout)["left_out"]
        self.assertEqual([one["call"] for one in left_out], ["ibv_query_gid"])
        self.assertGreater(left_out[0]["calls"], left_out[0]["tried"])
        numbers = [int(re.search(r"#(\d+)/", fault)[1]) for fault in places(said) if "+" not in fault]
        self.assertEqual(len(numbers), left_out[0]["tried"])
        self.assertEqual(numbers[:4] + numbers[-1:], [1, 2, 4, 8, left_out[0]["calls"]])


def read(path):
    try:
        return path.read_text()
    except OSError:
        return ""


if __name__ == "__main__":
    unittest.main(verbosity=2)
