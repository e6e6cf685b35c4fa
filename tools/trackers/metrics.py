"""What the trackers have in common: they read a run's metrics.jsonl as it grows, and hand every record to a tracker once.

A record is a step or an evaluation. What was sent is kept in RUN/trackers/NAME.json, by the last step of each kind: a script that is started
again goes on behind it, in the same run of the tracker. A run that is resumed from a checkpoint repeats some steps with the same numbers;
they are not sent twice. Python's standard library alone is needed here.
"""
import argparse
import json
import os
import pathlib
import time

LAST_LOOKS = 12  # for an evaluation behind the last step

def arguments(tracker, add=lambda parser: None):
    parser = argparse.ArgumentParser(description=f"Sends the metrics of a millrace run to {tracker} while it trains.")
    parser.add_argument("run", type=pathlib.Path, help="the run directory (run.directory)")
    parser.add_argument("--name", help="name of the run; default: the run directory's")
    parser.add_argument("--once", action="store_true", help="send what is there and end; default: follow until the last step, or Ctrl-C")
    parser.add_argument("--interval", type=float, default=5, help="seconds between looks at the file; default 5")
    parser.add_argument("--dry-run", action="store_true", help="print what would be sent, as JSON lines; send and keep nothing")
    add(parser)
    given = parser.parse_args()
    if not given.run.is_dir():
        parser.error(f"{given.run}: there is no such run directory")
    if not (given.run / "run.toml").is_file():
        parser.error(f"{given.run} has no run.toml, expected the run.directory of a run")
    if given.interval <= 0:
        parser.error(f"--interval {given.interval}, expected seconds above 0")
    given.name = given.name or given.run.resolve().name
    return given


def read_config(run):
    """The keys and values of RUN/run.toml, which millrace writes with one key on a line; values are JSON's, too."""
    path = run / "run.toml"
    config = {}
    for line in path.read_text().splitlines() if path.exists() else []:
        key, equals, value = line.partition(" = ")
        if not equals or line.startswith("#"):
            continue
        try:
            config[key] = json.loads(value)
        except ValueError:  # inf, nan
            config[key] = value
    return config


def as_line(value):
    """JSON on one line; numbers that are not finite, which JSON does not have, become texts."""
    return json.dumps(json.loads(json.dumps(value), parse_constant=str))


def scalars(record):
    """The numbers of a record by name: without bit patterns, lists and texts. Values that are not finite come back as such."""
    found = {}
    for name, value in record.items():
        if name == "step" or name.endswith("_hex"):
            continue
        if value in ("nan", "inf", "-inf"):
            value = float(value)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            found[name] = value
    return found


class State:
    """What was sent: the id of the tracker's run, and the last step of each kind of record."""

    def __init__(self, run, tracker, keep):
        self.path = run / "trackers" / f"{tracker}.json"
        self.keep = keep
        self.values = json.loads(self.path.read_text()) if keep and self.path.exists() else {}

    @property
    def run_id(self):
        return self.values.get("run_id")

    def set_run(self, run_id):
        self.values["run_id"] = run_id
        self.write()

    def is_sent(self, kind, step):
        return step <= self.values.get(kind, 0)

    def sent(self, kind, step):
        self.values[kind] = step
        self.write()

    def write(self):
        if not self.keep:
            return
        self.path.parent.mkdir(exist_ok=True)
        temporary = self.path.with_suffix(".tmp")
        temporary.write_text(json.dumps(self.values) + "\n")
        os.replace(temporary, self.path)


class GrowingFile:
    """The complete lines of a file that grows, and that is replaced by a shorter one when a run is resumed from an older step."""

    def __init__(self, path):
        self.path = path
        self.file = None
        self.rest = b""

    def lines(self):
        if not self.path.exists():
            return
        status = self.path.stat()
        if self.file and (os.fstat(self.file.fileno()).st_ino != status.st_ino or status.st_size < self.file.tell()):
            self.file.close()
            self.file = None
        if not self.file:
            self.file, self.rest = open(self.path, "rb"), b""
        while block := self.file.read(1 << 20):
            *complete, self.rest = (self.rest + block).split(b"\n")
            yield from complete


def records(file):
    """(kind, step, numbers) of every line that is a record."""
    for line in file.lines():
        try:
            record = json.loads(line)
        except ValueError:
            raise SystemExit(f"{file.path}: a line that is no JSON: {line[:80]!r}")
        if "kind" in record and record.get("kind") != "millrace.metrics":
            raise SystemExit(f"{file.path}: kind {record['kind']}, expected millrace.metrics")
        if isinstance(record.get("step"), int):
            kind = "evaluation" if "evaluation_loss" in record else "step"
            yield kind, record["step"], scalars(record)


def is_over(file, state, last, evaluates, quiet, interval):
    """Whether nothing follows the last step any more. Its evaluation may follow after a while: so long that 12 looks saw nothing new."""
    if not evaluates or state.is_sent("evaluation", last):
        return True
    return quiet >= LAST_LOOKS or time.time() - file.path.stat().st_mtime > LAST_LOOKS * interval


def follow(given, tracker, open_tracker):
    """Sends the records. open_tracker(config, state) returns (send, close): send(kind, step, numbers) for each record."""
    config = read_config(given.run)
    state = State(given.run, tracker, keep=not given.dry_run)
    if given.dry_run:
        def send(kind, step, numbers):
            print(as_line({"kind": kind, "step": step, "metrics": numbers}), flush=True)

        print(as_line({"tracker": tracker, "name": given.name, "config": config}), flush=True)
        close = lambda: None
    else:
        try:
            send, close = open_tracker(config, state)
        except ModuleNotFoundError as error:
            raise SystemExit(f"to_{tracker}.py needs Python's package {error.name}, which is not installed: pip install {error.name}")
    last = config.get("train.steps", 0)
    evaluates = config.get("data.held_out", 1) != 0 or bool(config.get("data.validation"))
    file = GrowingFile(given.run / "metrics.jsonl")
    quiet = 0  # looks without anything new since the last step
    try:
        while True:
            quiet += 1
            for kind, step, numbers in records(file):
                quiet = 0
                if not state.is_sent(kind, step):
                    send(kind, step, numbers)
                    state.sent(kind, step)
            if given.once or (last and state.is_sent("step", last) and is_over(file, state, last, evaluates, quiet, given.interval)):
                break
            time.sleep(given.interval)
    except KeyboardInterrupt:
        pass
    finally:
        close()
