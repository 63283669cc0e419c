#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Checks docs/statuses.md: every status and event of the headers is there, the tests it names exist, and it has the
causes that docs/errors.md gives for each.

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


# What the application sees of each cause, by its number. Injected faults (0x6000 and on) can have any status, and the
# checker's reports are no cause of one.
def causes():
    text = (ROOT / "docs/errors.md").read_text()
    found = re.findall(r"^### (0x\w+) .*?^\*What the application sees\*: (.*?)$", text, re.MULTILINE | re.DOTALL)
    return {int(number, 16): sees for number, sees in found if int(number, 16) < 0x6000}


def numbers(first, last):
    return range(int(first, 16), int(last or first, 16) + 1)


# Those in parentheses: "(0x1401; the responder: 0x2301 to 0x230d but 0x2303 to 0x2305, 0x2503)".
def causes_of(row, known):
    said = set()
    for part in re.split("[;,]", ";".join(re.findall(r"\(([^()]*0x[^()]*)\)", row))):
        named, _, left_out = part.partition(" but ")
        for text, change in ((named, said.update), (left_out, said.difference_update)):
            for limits in re.findall(r"(0x\w+)(?: to (0x\w+))?", text):
                change(known.keys() & set(numbers(*limits)))
    return said


def wrong_causes(status, row, known):
    said = causes_of(row, known)
    expected = {number for number, sees in known.items() if re.search(rf"\b{status}\b", sees)}
    return [f"{status}: docs/errors.md {'lacks' if number in said else 'has'} 0x{number:04x}"
            for number in sorted(said ^ expected)]


def main():
    include = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "/usr/include")
    text = (ROOT / "docs/statuses.md").read_text()
    wrong, known = [], causes()
    for path, prefix, first, last, count in TABLES:
        table = text.partition(f"| {prefix} |")[2].partition("\n\n")[0]
        rows = re.findall(r"^\| (\w+) \|(.*)$", table, re.MULTILINE)
        names = names_of(include / path, prefix, first, last)
        if len(names) != count or [name for name, _ in rows] != names:
            wrong.append(f"the table of {prefix} isn't {' '.join(names)}")
        wrong += [f"{prefix}{name} has neither a test nor a reason" for name, row in rows
                  if "`" not in row and "never:" not in row]
        # The table of rdma_cm's events has none.
        for name, row in rows if prefix.startswith("IBV_") else ():
            wrong += wrong_causes(prefix + name, row, known)
    references = re.findall(r"`((?:\w+/\w+|e2e):[\w-]+)`", text)
    wrong += [f"there is no test {reference}" for reference in references if not exists(reference)]
    print("\n".join(wrong) or f"{len(references)} tests")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
