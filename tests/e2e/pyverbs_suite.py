#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""rdma-core's own tests, as Debian packages them with python3-pyverbs, on one device.

    pyverbs_suite.py DEVICE MINIMUM

The suite skips what a device doesn't say that it supports. So failures alone don't judge:
at least MINIMUM tests must have run to their end. Started by Debian's Python, whose
package it is.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile

PACKAGE = "python3-pyverbs"
TESTS = "/usr/share/doc/rdma-core/tests"  # some of its files are compressed, as documentation is


def unpack(folder):
    # There is no network here to fetch them.
    if not os.path.isdir(TESTS):
        sys.exit(f"{TESTS} isn't there, as where dpkg leaves out documentation; purge {PACKAGE} and run scripts/setup")
    tests = shutil.copytree(TESTS, os.path.join(folder, "tests"))
    packed = [os.path.join(tests, name) for name in os.listdir(tests) if name.endswith(".gz")]
    subprocess.run(["gunzip"] + packed, check=True)
    return os.path.join(tests, "run_tests.py")


def without_kernel(folder):
    """An environment whose rdma(8) knows no links: newer versions ask it, which the kernel answers, before sysfs."""
    rdma = os.path.join(folder, "rdma")
    with open(rdma, "w", encoding="utf-8") as script:
        script.write("#!/bin/sh\necho '[]'\n")
    os.chmod(rdma, 0o755)
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}


def main():
    device, minimum = sys.argv[1], int(sys.argv[2])
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([sys.executable, unpack(folder), "--dev", device, "--gid", "0", "-v"],
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=without_kernel(folder))
    ran = re.search(r"^Ran (\d+) tests? in", done.stderr, re.MULTILINE)
    skipped = re.search(r"^(?:OK|FAILED) \(.*\bskipped=(\d+)", done.stderr, re.MULTILINE)
    if not ran:
        sys.exit(done.stderr + f"\nit ended early, with {done.returncode}")
    executed = int(ran[1]) - (int(skipped[1]) if skipped else 0)
    # The bodies of failures stand behind the list of the tests.
    if done.returncode or executed < minimum:
        print(done.stderr)
    print(f"{executed} of {ran[1]} tests executed, status {done.returncode}")
    sys.exit(done.returncode or (3 if executed < minimum else 0))


if __name__ == "__main__":
    main()
