#!/usr/bin/env python3
"""Prints the last lines of CTest's output: how many cases were skipped, and why. CTest calls it (cmake/tests.cmake): skipped_cases.py BUILD_FOLDER

Reads the newest log of the folder. A test program prints a line "skipped: NAME: SENTENCE" for each case that it skipped, and so does a test
that is a script.
"""

import collections
import os
import re
import sys


def newest_log(build):
    folder = os.path.join(build, "Testing", "Temporary")
    logs = [os.path.join(folder, name) for name in ("LastTest.log.tmp", "LastTest.log")]
    return max((log for log in logs if os.path.exists(log)), key=os.path.getmtime, default=None)


def skipped_cases(lines):
    """{reason: {test program: names of cases}}. If several processes of one test report the same case, it counts once."""
    reasons = collections.defaultdict(lambda: collections.defaultdict(set))
    program = ""
    for line in lines:
        if found := re.match(r"\d+/\d+ Testing: (.+)", line):
            program = found[1]
        elif found := re.match(r"skipped: (\S+): (.+)", line):
            reasons[found[2]][program].add(found[1])
        elif found := re.match(r"skipped: (.+)", line):
            reasons[found[1]][program].add("all")
    return reasons


def summary(reasons):
    count = sum(len(cases) for programs in reasons.values() for cases in programs.values())
    if count == 0:
        return ["0 cases were skipped"]
    lines = [f"{count} cases were skipped:"]
    for reason, programs in sorted(reasons.items()):
        lines.append(f"  {reason}")
        for program, cases in sorted(programs.items()):
            shown = sorted(cases)
            more = f", and {len(shown) - 4} more" if len(shown) > 4 else ""
            lines.append(f"    {program}: {', '.join(shown[:4])}{more}")
    return lines


def main():
    log = newest_log(sys.argv[1])
    if log is None:
        sys.exit(f"skipped_cases.py: {sys.argv[1]} has no log of CTest")
    with open(log, errors="replace") as lines:
        print("\n" + "\n".join(summary(skipped_cases(lines))))


if __name__ == "__main__":
    main()
