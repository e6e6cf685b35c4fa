#!/usr/bin/env python3
"""Rehearses every schedule and prints the table of docs/schedules.md.

    tools/rehearse_schedules.py build/release/millrace [--ranks 4,8] [--microbatches 16] [--costs 20,20,20] [--steps 9]
                                [--schedules 1f1b,zb-v] [--tries 1]

Each line is the fastest of the steps. "as timed" is the ratio to a prediction from the measured durations of the actions: what exceeds 1 is
the runtime's overhead. A schedule is late if its ratio exceeds 1.03 or its bubble exceeds the prediction by more than 1.5 points. On a shared
machine the late timers may be the cause: --tries N rehearses a late schedule up to N times, and the last column has the number. The exit code
is 1 if a schedule was late each time.
"""
import argparse
import json
import subprocess
import sys

SCHEDULES = ("gpipe 1f1b looped-bfs interleaved circular zb-h1 zb-h2 zb-v interleaved-zb v-half v-min dualpipe dualpipe-v auto").split()


def rehearse(options, schedule, ranks):
    words = [options.millrace, "rehearse", schedule, "--ranks", ranks, "--microbatches", options.microbatches, "--costs", options.costs,
             "--steps", options.steps, "--fastest", "--json"]
    result = subprocess.run(words, capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"{' '.join(words)}: ended with {result.returncode}: {result.stderr.strip()}")
    return json.loads(result.stdout)


def late(found):
    return found["ratio"] > 1.03 or found["measured_bubble"] - found["predicted_bubble"] > 0.015


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("millrace")
    parser.add_argument("--ranks", default="4,8")
    parser.add_argument("--microbatches", default="16")
    parser.add_argument("--costs", default="20,20,20")
    parser.add_argument("--steps", default="9")
    parser.add_argument("--schedules", default=",".join(SCHEDULES))
    parser.add_argument("--tries", type=int, default=1)
    options = parser.parse_args()
    good = True
    print("| schedule | ranks | predicted, ms | measured, ms | ratio | bubble predicted | measured | as timed | tries |")
    print("|---|---|---|---|---|---|---|---|---|")
    for ranks in options.ranks.split(","):
        for schedule in options.schedules.split(","):
            for tries in range(1, options.tries + 1):
                found = rehearse(options, schedule, ranks)
                if not late(found):
                    break
            good = good and not late(found)
            print(f"| {schedule} | {ranks} | {found['predicted']:.1f} | {found['measured']:.1f} | {found['ratio']:.3f} "
                  f"| {100 * found['predicted_bubble']:.1f} % | {100 * found['measured_bubble']:.1f} % | {found['ratio_as_timed']:.3f} | {tries} |",
                  flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
