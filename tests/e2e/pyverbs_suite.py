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


def find(folder):
    """The package's tests; from the package itself where dpkg leaves out documentation."""
    if os.path.isdir(TESTS):
        return TESTS
    subprocess.run(["apt-get", "download", "-q", PACKAGE], cwd=folder, check=True)
    package = os.path.join(folder, next(name for name in os.listdir(folder) if name.endswith(".deb")))
    subprocess.run(["dpkg-deb", "-x", package, folder], check=True)
    return folder + TESTS


def unpack(folder):
    tests = shutil.copytree(find(folder), os.path.join(folder, "tests"))
    packed = [os.path.join(tests, name) for name in os.listdir(tests) if name.endswith(".gz")]
    subprocess.run(["gunzip"] + packed, check=True)
    return os.path.join(tests, "run_tests.py")


def main():
    device, minimum = sys.argv[1], int(sys.argv[2])
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([sys.executable, unpack(folder), "--dev", device, "--gid", "0", "-v"],
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
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
