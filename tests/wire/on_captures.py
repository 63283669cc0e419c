#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Run a program on all reference captures:  on_captures.py PROGRAM [ARGS]

For "meson test": exits with the program's code.
"""

import subprocess
import sys

import roce

captures = sorted(str(path) for path in roce.CAPTURES.glob("*.pcap"))
sys.exit(subprocess.run(sys.argv[1:] + captures).returncode)
