#!/usr/bin/env python3
"""The table of compare_peers.sh: each comparison's ratio with its spread over the rounds, the expected value, and whether it is met.

    python3 table.py READINGS.jsonl [--markdown FILE] [GOAL …]

Readings are JSON lines: {"set", "round", "who", "others", "values"}, and {"left_out"} or {"machine"} with a sentence. A ratio is of two readings of one
round; its median over the rounds is what is compared with the goal. "others" is the share of all cores' time that went to other programs, or to other
guests of the host, while the reading was taken: where it is not small, a ratio says little.
"""
import argparse
import collections
import dataclasses
import json
import pathlib
import statistics

import goals

HEAD = ["goal", "measured", "millrace", "control", "median (minimum – maximum)", "expected", "", "other programs had"]


@dataclasses.dataclass
class Reading:
    set: str
    round: int
    who: str
    others: float
    values: dict


def read(file):
    readings, notes = [], collections.defaultdict(list)
    for line in map(json.loads, pathlib.Path(file).read_text().splitlines()):
        if "set" in line:
            readings.append(Reading(**line))
        else:
            for kind, text in line.items():
                if text not in notes[kind]:
                    notes[kind].append(text)
    return readings, notes


def number(value):
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}" if abs(value) < 10 else f"{value:.1f}"


def plural(rounds):
    return f"{rounds} round{'s' * (rounds != 1)}"


def spread(values, form=number):
    if len(values) == 1:
        return form(values[0])
    return f"{form(statistics.median(values))} ({form(min(values))} – {form(max(values))})"


def best(readings, comparison, side):
    """Name and values by round of the alternative on that side with the best median; None if nothing was measured."""
    by_name = collections.defaultdict(dict)
    for r in readings:
        if r.set == comparison.set and r.who.startswith(side.who) and side.field in r.values:
            by_name[r.who][r.round] = r.values[side.field] * side.factor
    if not by_name:
        return None, {}
    worth = comparison.better if side.peak else statistics.median
    name, rounds = comparison.better(by_name.items(), key=lambda item: worth(item[1].values()))
    return name, dict.fromkeys(range(1, 1 + max(r.round for r in readings)), worth(rounds.values())) if side.peak else rounds


def outcomes(comparison, ours, control):
    """By round, for the rounds in which everything that it needs was measured."""
    if comparison.how == "value":
        return list(ours.values())
    pairs = [(ours[n], control[n]) for n in ours if n in control]
    return [a / b if comparison.how == "ratio" else a - b for a, b in pairs]


def row(readings, comparison):
    name, ours = best(readings, comparison, comparison.ours)
    other, control = best(readings, comparison, comparison.control) if comparison.control else (None, {})
    shown = lambda who, values: f"{number(statistics.median(values.values()))} {comparison.unit} ({who})".replace("  ", " ") if values else "–"
    results = outcomes(comparison, ours, control)
    unit = "" if comparison.how == "ratio" or not comparison.unit else " " + comparison.unit
    expected = f"{'≥' if comparison.at_least else '≤'} {comparison.expected:g}{unit}"
    had = [100 * r.others for r in readings if r.set == comparison.set and r.who in (name, other)]
    others = f"{spread(had, lambda share: f'{share:.0f}')} %" if had else ""
    if not results:
        return [str(comparison.goal), comparison.what, shown(name, ours), shown(other, control), "–", expected, "left out", others]
    median = statistics.median(results)
    met = median >= comparison.expected if comparison.at_least else median <= comparison.expected
    verdict = "cannot be: disturbed" if median > comparison.possible else "met" if met else "not met"
    form = (lambda value: f"{value:.3f}") if comparison.how == "ratio" or not comparison.unit else number
    millrace = shown(name, ours) if comparison.control else "–"
    return [str(comparison.goal), comparison.what, millrace, shown(other, control), spread(results, form) + unit, expected, verdict, others]


def as_text(rows):
    widths = [max(len(cell) for cell in column) for column in zip(*rows)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(cells, widths)).rstrip() for cells in rows)


def as_markdown(rows):
    lines = ["| " + " | ".join(cells) + " |" for cells in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0])] + lines[1:])


def all_alternatives(readings, chosen):
    """All measurements and comparisons, including those of alternatives that were not the best."""
    fields = {(c.set, side.field) for c in chosen for side in (c.ours, c.control) if side}
    by_name = collections.defaultdict(list)
    for r in readings:
        for field, value in r.values.items():
            if (r.set, field) in fields:
                by_name[r.set, r.who, field].append(value)
    return [[*key, spread(values), plural(len(values))] for key, values in by_name.items()]


def growth_points(readings):
    for r in readings:
        for x, seconds, fitted in r.values["points"] if r.set == "growth" else ():
            yield [r.who, r.values["law"], str(x), f"{seconds * 1e3:.2f} ms", f"law {fitted * 1e3:.2f} ms", f"{100 * (seconds / fitted - 1):+.1f} %"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("readings")
    parser.add_argument("goals", type=int, nargs="*", metavar="GOAL")
    parser.add_argument("--markdown", metavar="FILE")
    arguments = parser.parse_args()
    readings, notes = read(arguments.readings)
    chosen = [c for c in goals.COMPARISONS if not arguments.goals or c.goal in arguments.goals]
    rows = [HEAD] + [row(readings, comparison) for comparison in chosen]
    rounds = max((r.round for r in readings), default=0)
    head = [f"{plural(rounds)}, each ratio of two readings of one round.", *notes["machine"]]
    tail = [f"Left out: {text}" for text in notes["left_out"]]
    blocks = ["\n".join(head), as_text(rows)]
    others = all_alternatives(readings, chosen)
    points = list(growth_points(readings)) if any(c.set == "growth" for c in chosen) else []
    blocks += [title + "\n" + as_text(part) for title, part in (("all alternatives: median (minimum – maximum)", others), ("points of growth", points)) if part]
    print("\n\n".join(blocks + (["\n".join(tail)] if tail else [])))
    if arguments.markdown:
        pathlib.Path(arguments.markdown).write_text("\n\n".join([*head, as_markdown(rows), *tail]) + "\n")


if __name__ == "__main__":
    main()
