#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Checks docs/statuses.md: every status and event of the headers is there, and the tests it names exist.

    statuses.py [INCLUDE-DIRECTORY]     default: /usr/include
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
# The first and the last that the tables are to have; later ones are extensions that RoCE's tests have elsewhere.
TABLES = (("infiniband/verbs.h", "IBV_WC_", "SUCCESS", "GENERAL_ERR", 22),
          ("infiniband/verbs.h", "IBV_EVENT_", "CQ_ERR", "GID_CHANGE", 19),
          ("rdma/rdma_cma.h", "RDMA_CM_EVENT_", "ADDR_RESOLVED", "TIMEWAIT_EXIT", 16))


def names_of(header, prefix, first, last):
    found = re.findall(rf"^\s*{prefix}(\w+)", header.read_text(), re.MULTILINE)
    return found[found.index(first):found.index(last) + 1]


def exists(reference):
    where, name = reference.split(":")
    if where == "e2e":
        return any(f'"{name}"' in file.read_text() for file in (ROOT / "tests/e2e").glob("*.c"))
    file = ROOT / "tests" / f"{where}.c"
    pattern = rf"START_TEST\((?:test_)?{name}\)|^static void (?:test_)?{name}\("
    return file.exists() and re.search(pattern, file.read_text(), re.MULTILINE)


def main():
    include = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "/usr/include")
    text = (ROOT / "docs/statuses.md").read_text()
    wrong = []
    for path, prefix, first, last, count in TABLES:
        table = text.partition(f"| {prefix} |")[2].partition("\n\n")[0]
        rows = re.findall(r"^\| (\w+) \|(.*)$", table, re.MULTILINE)
        names = names_of(include / path, prefix, first, last)
        if len(names) != count or [name for name, _ in rows] != names:
            wrong.append(f"the table of {prefix} isn't {' '.join(names)}")
        wrong += [f"{prefix}{name} has neither a test nor a reason" for name, row in rows
                  if "`" not in row and "never:" not in row]
    references = re.findall(r"`((?:\w+/\w+|e2e):[\w-]+)`", text)
    wrong += [f"there is no test {reference}" for reference in references if not exists(reference)]
    print("\n".join(wrong) or f"{len(references)} tests")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
