#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Run a program on all reference captures:  on_captures.py PROGRAM [ARGS]

For "meson test": exits with the program's code, or 77 when there are none.
"""

import subprocess
import sys

import roce

shared = roce.shared_folder()
if shared is None:
    roce.skip(roce.NO_SHARED)
captures = sorted(str(path) for path in (shared / "pcaps").glob("*.pcap"))
sys.exit(subprocess.run(sys.argv[1:] + captures).returncode)
