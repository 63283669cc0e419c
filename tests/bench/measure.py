# SPDX-License-Identifier: BSD-2-Clause
"""What the scripts that measure have in common: running, rounds, and the table.

Every round runs everything once, one after the other, so that a machine that
is busy for a while is so for all.  Figures are medians over the rounds; ratios
are medians of the ratio within a round, and only they mean anything on another
machine.  Nothing else should run meanwhile, but that isn't checked.
"""

import argparse
import os
import platform
import statistics
import subprocess
import sys
from dataclasses import dataclass, field

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))
from pair import Case, Fail, PairRun, Runner  # noqa: E402

NAN = float("nan")
MIB, KIB = 1 << 20, 1 << 10
TYPICAL, AVERAGE, RATE = 4, 3, 4  # columns of perftest: us; MiB/s, millions of messages/s


class Bench:
    """Runs programs, or pairs of them, for the numbers that they print."""

    def __init__(self, build):
        self.build = os.path.abspath(build)
        self.runner = Runner(self.build, os.path.join(self.build, "bench-logs"), seed=1)

    def close(self):
        self.runner.close()

    def program(self, *words):
        command = [os.path.join(self.build, "tests", "bench", words[0]), *map(str, words[1:])]
        return float(subprocess.run(command, check=True, capture_output=True, timeout=120).stdout)

    def outputs(self, case):
        """Of the processes, by side; none if the case failed, which is told."""
        run = PairRun(self.runner, case)
        try:
            run.go()
            return {side: run.output(side) for side in run.processes}
        except (Fail, OSError) as fail:  # an OSError is a tool that isn't installed
            print(run.story(str(fail)), file=sys.stderr)
            return {}
        finally:
            run.end()

    def pair(self, name, server, client, find, **more):
        """find(the client's output) is the result; None or a failed run: not a number."""
        outputs = self.outputs(Case("bench", name, server, client, **more))
        result = find(outputs["client"]) if outputs else NAN
        if result is None:
            print(f"{name} printed no result:\n{outputs['client']}", file=sys.stderr)
        return NAN if result is None else result


def perftest_figure(output, column, *begin):
    """In perftest's line that begins with @begin: a size, and maybe the iterations."""
    begin = [str(word) for word in begin]
    rows = [line.split() for line in output.splitlines()]
    return next((float(row[column]) for row in rows if row[:len(begin)] == begin), None)


@dataclass
class Measurement:
    name: str
    unit: str
    run: object  # of a Bench; returns the figure
    # (name of another measurement, sign, limit of the ratio), or ("", sign, limit of the figure);
    # a sign of "" is no goal
    goals: list = field(default_factory=list)
    group: str = ""  # which it may be selected by


def select(everything, words):
    """Those with one of @words in their names or as their group, and what they are compared with."""
    names = {m.name for m in everything
             if not words or any(word in m.name or word == m.group for word in words)}
    if not names:
        sys.exit("no measurement has such a name")
    for m in everything:
        if m.name in names:
            names.update(other for other, _, _ in m.goals if other)
    return [m for m in everything if m.name in names]


def median(values):
    """Of the rounds that succeeded; not a number when most did not."""
    good = [value for value in values if value == value]
    return statistics.median(good) if 2 * len(good) > len(values) else NAN


def met(sign, value, limit):
    if not sign:
        return ""
    if value != value:
        return "NO"
    return "yes" if (value <= limit if sign == "<=" else value >= limit) else "NO"


def number(value):
    if value >= 100 or float(value).is_integer():
        return f"{value:.0f}"
    return f"{value:.2f}" if value >= 0.1 else f"{value:.4f}"


def table(chosen, results):
    """Rows of text: name, figure, compared with, ratio, goal, met."""
    for m in chosen:
        figure = median(results[m.name])
        text = f"{number(figure)} {m.unit}".rstrip()
        goals = [goal for goal in m.goals if not goal[0] or goal[0] in results]
        if not goals:
            yield m.name, text, "", "", "", ""
        for other, sign, limit in goals:
            value, ratio = figure, ""
            if other:
                value = median([a / b for a, b in zip(results[m.name], results[other])])
                ratio = f"{value:.2f}"
            yield m.name, text, other, ratio, f"{sign} {limit}" if sign else "", met(sign, value,
                                                                                    limit)


def cell(name, ours, results):
    """The median, and how @ours relates to it."""
    if name not in results:
        return ""
    text = number(median(results[name]))
    if name != ours and ours in results:
        text += f" ({median([a / b for a, b in zip(results[ours], results[name])]):.2f})"
    return text


HEAD = "measured", "median", "compared with", "ratio", "goal", "met"


def show(rows, markdown):
    """@rows begin with the head."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    if markdown:
        rows.insert(1, tuple("-" * width for width in widths))
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths)]
        print("| " + " | ".join(cells) + " |" if markdown else "  ".join(cells).rstrip())


def beside(columns, lines, results, options):
    """
    A table of @lines, names of measurements by what was measured, in @columns. The first line is the
    one that the others are compared with; what wasn't measured stays empty.
    """
    ours, *_ = lines.values()
    rows = [(title, *(cell(name, own, results) for name, own in zip(names, ours)))
            for title, names in lines.items()]
    if any(text for row in rows for text in row[1:]):
        print()
        show([("", *columns), *rows], options.markdown)


def parser(description, rounds):
    """Of the options that every such script has."""
    made = argparse.ArgumentParser(description=description,
                                   formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("-n", "--rounds", type=int, default=rounds)
    made.add_argument("--only", action="append", default=[], metavar="WORD",
                      help="what has WORD in its name, and what that is compared with")
    made.add_argument("--markdown", action="store_true")
    made.add_argument("--cpus", type=int, metavar="N", help="run all on the first N CPUs")
    made.add_argument("--build", help="a directory that is built already")
    return made


def built(options):
    """The directory of the options, or one that is built now."""
    if options.build:
        return options.build
    build = os.path.join(ROOT, "build", "bench")
    subprocess.run([os.path.join(ROOT, "scripts", "setup"), "bench"], check=True)
    subprocess.run([os.path.join(ROOT, "scripts", "build"), build, "--buildtype=release",
                    "-Db_lto=true"], check=True)
    return build


def use_cpus(options):
    """Have what is started from now on run on so many of the CPUs."""
    usable = sorted(os.sched_getaffinity(0))
    if options.cpus:
        if options.cpus > len(usable):
            sys.exit(f"there are {len(usable)} CPUs to use")
        os.sched_setaffinity(0, usable[:options.cpus])


def measure(bench, chosen, options):
    """All rounds, and the table of them; returns the figures of the rounds by name."""
    results = {m.name: [] for m in chosen}
    try:
        for turn in range(options.rounds):
            bench.runner.seed = turn + 1
            for m in chosen:
                if sys.stderr.isatty():
                    print(f"\r\033[Kround {turn + 1}: {m.name}", end="", file=sys.stderr)
                results[m.name].append(m.run(bench))
    finally:
        if sys.stderr.isatty():
            print("\r\033[K", end="", file=sys.stderr)

    print(f"{options.rounds} rounds on Linux {platform.release()}, "
          f"{len(os.sched_getaffinity(0))} of {os.cpu_count()} CPUs\n")
    show([HEAD, *table(chosen, results)], options.markdown)
    return results
