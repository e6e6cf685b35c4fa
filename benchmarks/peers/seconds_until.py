#!/usr/bin/env python3
"""Seconds from the start of a command to the first line that it prints with some text, as one line of JSON. The command may then continue to its end.

    python3 seconds_until.py TEXT COMMAND …
    python3 seconds_until.py "" COMMAND …        to its end
"""
import json
import subprocess
import sys
import time


def main():
    text, command = sys.argv[1], sys.argv[2:]
    begin = time.perf_counter()
    seconds = None
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            if text and text in line and seconds is None:
                seconds = time.perf_counter() - begin
    if not text:
        seconds = time.perf_counter() - begin
    if process.returncode or seconds is None:
        sys.exit(f"status {process.returncode}, {'no' if seconds is None else 'a'} line with {text!r}: {' '.join(command)}")
    print(json.dumps({"seconds": round(seconds, 4)}))


if __name__ == "__main__":
    main()
