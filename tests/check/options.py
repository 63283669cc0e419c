#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The options of URXE_CHECK, by cases of test_check.

    options.py TEST_CHECK LAUNCHER UNOPTIMIZED...
"""
import json
import os
import re
import subprocess
import sys
import tempfile

CASES, LAUNCHER, *UNOPTIMIZED = (os.path.abspath(argument) for argument in sys.argv[1:])
LEAKS = "leak_regions"  # 12 regions in leak_regions(), and what they need in rig_open()
failed = False


def check(condition, what):
    global failed
    if not condition:
        print("FAILED:", what)
        failed = True


def run(case, options, command=()):
    environment = {**os.environ}
    if options is not None:
        environment["URXE_CHECK"] = options
    done = subprocess.run([*command, CASES, case], env=environment, capture_output=True, text=True,
                          timeout=300)
    return done.returncode, done.stderr


def reports(said):
    return said.count("check: 0x")


def test_status():
    status, said = run(LEAKS, "1")
    check(status == 0 and reports(said), f"1: {status} {said}")
    for value in (1, 255):
        status, said = run(LEAKS, f"exit={value}")
        check(status == value and reports(said), f"exit={value}: {status} {said}")
    for options in (None, "0", "no-leaks,exit=9"):
        status, said = run(LEAKS, options)
        check((status, said) == (0, ""), f"{options}: {status} {said}")
    status, said = run("child_repeats", "exit=9")
    check(status == 9 and said.count("check: 1 misuse, 1 occurrence\n") == 2, f"a child: {status} {said}")
    status, said = run("use_destroyed_cq", "no-leaks,exit=9")
    check(status == 9, f"what isn't a leak: {status} {said}")


def test_errors(folder):
    unreadable = f"{folder}/wrong"
    with open(unreadable, "w") as file:
        file.write("OBJECT_LEAKED\n")
    for options in ("exit", "exit=", "exit=0", "exit=256", "exit=1x", "leaks", "1=1", "json",
                    "json=/nowhere/file", "json=/", "suppress=/nowhere", f"suppress={unreadable}",
                    f"suppress={folder}", "exit=3,2", "order=", "portability="):
        status, said = run("destroy_each_once", options)
        lines = [line for line in said.splitlines() if "URXE_CHECK" in line]
        check(status != 0 and len(lines) == 1 and "no devices" in lines[0], f"{options}: {said}")


def read(path):
    with open(path) as file:
        return [json.loads(line) for line in file]


def test_json(folder):
    run(LEAKS, f"json={folder}/%p.json")
    run("use_destroyed_qp", f"json={folder}/%p.json")
    files = [f for f in os.listdir(folder) if f.endswith(".json")]
    check(len(files) == 2 and all(f[:-5].isdigit() for f in files), f"%p: {files}")
    status, said = run("destroy_each_once", f"json={folder}/none.json")
    check(status == 0 and not os.path.exists(f"{folder}/none.json"), f"a file of no reports: {said}")
    run("use_destroyed_cq", None, (LAUNCHER, "run", "--node", "127.85.0.1", f"--check=json={folder}/run-%p", "--"))
    check(len([f for f in os.listdir(folder) if f.startswith("run-")]) == 1, "%p of urxe run")
    both = [report for file in files for report in read(f"{folder}/{file}")]
    leak, = [r for r in both if r["name"] == "OBJECT_LEAKED" and r["count"] == 12]
    check(leak["cause"] == "0x7020" and leak["title"] and "12 memory regions" in leak["found"], leak)
    place, = leak["places"]
    check(place["what"] == "made" and "objects.c:" in place["frames"][0] and
          place["frames"][0].endswith("(leak_regions)") and len(place["frames"]) == 2, place)
    used = next(r for r in both if r["name"] == "OBJECT_USED_DESTROYED")
    check([p["what"] for p in used["places"]] == ["used", "destroyed", "made"], used)
    # Several processes append; and a name is of the folder where the program began.
    os.chdir(folder)
    for _ in range(2):
        run(LEAKS, "json=one")
    check(len({r["pid"] for r in read(f"{folder}/one")}) == 2, "two processes")


def test_suppressions(folder):
    path = f"{folder}/suppressions"
    for text, silent in (("OBJECT_LEAKED leak_regions", True),  # of the callers of rig_open(), too
                         ("0x7020 objects.c", True),
                         ("OBJECT_* test_che*", True),
                         ("* rig*.c", False),
                         ("# a comment\n\n* *  # all\n", True),
                         ("OBJECT_LEAKED leak", False),
                         ("EVENTS_LEFT *", False),
                         ("", False)):
        with open(path, "w") as file:
            file.write(text + "\n")
        status, said = run(LEAKS, f"exit=9,suppress={path}")
        if silent:
            check(status == 0 and reports(said) == 0, f"{text}: {status} {said}")
        else:
            check(status == 9 and reports(said), f"{text}: {status} {said}")


# Next to nothing, and so all that is asked for is more.
LEAST = {
    "1": ("max_pd", "max_mr", "max_cq", "max_srq", "max_qp", "max_ah", "max_mr_size", "max_cqe", "max_srq_wr",
          "max_srq_sge", "max_qp_wr", "max_sge", "max_qp_rd_atom", "max_qp_init_rd_atom"),
    "0": ("device_cap_flags", "qp_types", "create_flags"),
    "no": ("odp", "resize_cq"), "none": ("atomic_cap",), "fails": ("send_with_invalidate",),
}
ASKED = {
    "COUNT": ("alloc_pd(): the number of protection domains is 2",
              "reg_mr(): the number of memory regions and windows is 2",
              "create_srq_ex(): the number of shared receive queues is 2",
              "create_cq_ex(): the number of completion queues is 2",
              "create_qp_ex(): the number of queue pairs is 2"),
    "LENGTH": ("reg_mr_iova(): length is 7",),
    "ODP": ("reg_mr(): on-demand paging",),
    "WINDOW": ("alloc_mw(): memory windows of type 2",),
    "QUEUE": ("create_cq_ex(): cqe is 9", "resize_cq(): cqe is 11", "create_srq(): max_wr is 6",
              "create_srq_ex(): max_wr is 6", "create_qp_ex(): max_send_wr is 2", "create_qp_ex(): max_recv_wr is 3"),
    "SGE": ("create_srq(): max_sge is 7", "create_srq_ex(): max_sge is 7", "create_qp_ex(): max_send_sge is 4",
            "create_qp_ex(): max_recv_sge is 5"),
    "XRC": ("open_xrcd(): XRC",),
    "QP_TYPE": ("create_qp_ex(): this type of queue pair",),
    "ATOMICS": ("create_qp_ex(): atomic operations",),
    "OPERATION": ("resize_cq(): ibv_resize_cq()", "create_qp_ex(): SEND with invalidate",
                  "create_qp_ex(): create_flags"),
    "RD_ATOMIC": ("modify_qp(): max_dest_rd_atomic is 4",),
}


def test_portability(folder):
    with open(f"{folder}/least.profile", "w") as file:
        file.writelines(f"{key} = {value}\n" for value, keys in LEAST.items() for key in keys)
    run("ask_for_all", f"json={folder}/asked,portability={folder}/least.profile")
    found = set()
    for report in read(f"{folder}/asked"):
        call, _, asked = report["found"].partition(": ")
        found |= {(report["name"], f"{call}: {one}") for one in asked.split("\n    ")}
    for cause, asked in ASKED.items():
        for one in asked:
            check(any(name == f"NOT_PORTABLE_{cause}" and text.startswith(f"ibv_{one}") for name, text in found),
                  f"{cause}: {one}: {found}")
    windows = [text for name, text in found if name == "NOT_PORTABLE_WINDOW"]
    check(len(windows) == 1, f"those of one type: {windows}")


# To look for a function's name takes long enough for forks to meet the report.
def test_forks(folder):
    path = f"{folder}/suppressions"
    with open(path, "w") as file:
        file.write("* no_function\n")
    with open(f"{folder}/said", "w+") as said:  # the case waits for it to grow
        done = subprocess.run([CASES, "wait_unarmed_beside_forks"], stderr=said, timeout=300,
                              env={**os.environ, "URXE_CHECK": f"exit=9,suppress={path}"})
        said.seek(0)
        check(done.returncode == 9 and reports(said.read()) == 1, f"forks: {done.returncode}")


def test_launcher():
    command = (LAUNCHER, "run", "--node", "127.85.0.1")
    status, said = run("use_destroyed_cq", None, (*command, "--check=exit=5", "--"))
    check(status == 5 and reports(said) == 3, f"--check=exit=5: {status} {said}")
    status, said = run("use_destroyed_cq", None, (*command, "--check", "--"))
    check(status == 0 and reports(said) == 3, f"--check: {status} {said}")


# Each place is reported, though the innermost function of them all is ibv_post_send() or another one
# of the headers'.
def test_inline_functions():
    for program in UNOPTIMIZED:
        done = subprocess.run([LAUNCHER, "run", "--node", "127.85.0.1", "--check", "--", program],
                              capture_output=True, text=True, timeout=300)
        said = done.stderr
        for what, function in (("used", "post_first"), ("used", "post_second"),
                               ("made", "leak_first"), ("made", "leak_second")):
            check(re.search(rf"\n    {what} at .*\b{function}\b", said), f"{program}: {function}: {said}")
        check(" at ibv_" not in said and " at __ibv_" not in said, f"{program}: {said}")


for test in (test_status, test_launcher, test_inline_functions):
    test()
for test in (test_errors, test_json, test_suppressions, test_portability, test_forks):
    with tempfile.TemporaryDirectory() as scratch:
        test(scratch)
sys.exit(failed)
