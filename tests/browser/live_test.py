#!/usr/bin/env python3
"""Opens the live page of a job that trains, in headless Chromium: the ranks, the curve that grows, light and dark, the end of the job.

    live_test.py MILLRACE MPIEXEC [--screenshots FOLDER]

Exit code 77 where no browser is installed: skipped. Every line of the console above "info" fails the test while the job lives, and so does
any request to another place.
"""
import pathlib
import re
import subprocess
import sys
import tempfile
import time

from browser import Browser, missing
from layout import look_at_widths

SOURCE = pathlib.Path(__file__).resolve().parents[2]
RANKS = 4
RUN = ["train", "configs/runs/tiny.toml", f"pipeline.ranks={RANKS}", "train.threads=1", "train.steps=100000", "data.text=docs", "data.held_out=0",
       "sample.tokens=0", "checkpoint.every=0", "status.port=0"]


def check(condition, what):
    if not condition:
        raise AssertionError(what)


def start(millrace, mpiexec, output):
    """Starts the job. Returns it and the URL of its page."""
    words = [mpiexec, "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-np", "2", millrace, *RUN, f"run.directory={output.parent / 'run'}"]
    with open(output, "wb") as file:
        job = subprocess.Popen(words, cwd=SOURCE, stdout=file, stderr=subprocess.STDOUT)
    for _ in range(600):
        found = re.search(r"^status +(http://\S+)", output.read_text(), re.M)
        if found:
            return job, found.group(1)
        check(job.poll() is None, "the job ended without telling its page:\n" + output.read_text())
        time.sleep(0.1)
    job.terminate()
    raise AssertionError("the job did not tell its page in a minute:\n" + output.read_text())


def end(job):
    job.terminate()
    job.wait(30)


def look(browser, address, shots, name):
    browser.open(address)
    rows = "document.querySelectorAll('#ranks tbody tr')"
    browser.wait(f"return {rows}.length === {RANKS} && document.querySelector('#loss polyline')", what="ranks and a curve")
    ranks = browser.run(f"return [...{rows}].map((row) => row.cells[0].textContent)")
    check(ranks == [str(rank) for rank in range(RANKS)], f"the ranks are {ranks}")
    browser.wait(f"return [...{rows}].every((row) => row.cells[1].textContent !== 'has not reported')", what="all ranks to tell what they do")
    first = browser.run("return Number(document.title.split(' ')[0])")
    browser.wait("return Number(document.title.split(' ')[0]) > arguments[0]", first, what="the next steps")
    widths = browser.run(f"return [...{rows}].map((row) => [...row.cells[7].querySelectorAll('.shares div')].reduce((sum, bar) => sum + parseFloat(bar.style.width), 0))")
    check(all(98 < width < 102 for width in widths), f"the shares of the last step fill {widths} of 100 %")
    box = browser.run("const box = document.getElementById('loss').getBoundingClientRect(); return [box.left + box.width / 2, box.top + box.height / 2]")
    browser.hover(*box)
    browser.wait("return /^step \\d+: /.test(document.getElementById('reading').textContent)", what="a reading of the curve")
    browser.run("document.getElementById('profile').click()")
    browser.wait("return document.getElementById('asked').textContent.startsWith('a profile of the last steps goes to ')", what="the answer to the button")
    places = browser.run("return performance.getEntriesByType('resource').map((entry) => entry.name)")
    check(places and all(place.startswith(address) for place in places), f"the page asked for {set(places)}")
    check(browser.run("return document.documentElement.scrollWidth <= innerWidth"), "the page is wider than the window")
    look_at_widths(browser, "the live page", {1400: ["ranks-box"]}, shots and (lambda what: browser.screenshot(str(shots / f"live_{what}.png"), True)))
    same_colours(browser)
    bad = [line for line in browser.log() if line["level"] not in ("INFO", "DEBUG")]
    check(not bad, f"the console says {bad}")
    return browser.run("return getComputedStyle(document.body).backgroundColor")


def same_colours(browser):
    """A kind of time has the colour that it has on the profile page: that of the palette."""
    palette = dict(re.findall(r"--(\w+): light-dark\((#\w+), ", (SOURCE / "runtime/profile/report/palette.css").read_text()))
    browser.prefer("light")
    shown = browser.run("return [...document.querySelectorAll('#legend span')].map((entry) => [entry.textContent, getComputedStyle(entry.querySelector('i')).backgroundColor])")
    for text, colour in shown:
        kind = {"transfer and credit": "transfer"}.get(text, text)
        check(colour == "rgb({}, {}, {})".format(*bytes.fromhex(palette[kind][1:])), f"the legend shows {text} as {colour}, expected {palette[kind]}")
    check(len(shown) == 7, f"the legend is {shown}")
    browser.prefer(None)


def main():
    if why := missing():
        print(why)
        return 77
    millrace, mpiexec = str(pathlib.Path(sys.argv[1]).resolve()), sys.argv[2]
    shots = pathlib.Path(sys.argv[4]) if sys.argv[3:4] == ["--screenshots"] else None
    with tempfile.TemporaryDirectory(prefix="millrace_live_") as folder:
        watch(*start(millrace, mpiexec, pathlib.Path(folder) / "output"), shots)
    return 0


def watch(job, address, shots):
    try:
        colours = []
        for name in ("light", "dark"):
            with Browser(dark=name == "dark") as browser:
                colours.append(look(browser, address, shots, name))
                if name == "dark":
                    end(job)
                    browser.wait("return document.getElementById('state').classList.contains('gone')", seconds=20, what="the page to say that the run is gone")
        check(colours[0] != colours[1], f"light and dark pages are both {colours[0]}")
    finally:
        if job.poll() is None:
            end(job)
    print(f"{address}: {RANKS} ranks, light and dark")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    try:
        sys.exit(main())
    except AssertionError as error:
        print(f"live_test.py: {error}", file=sys.stderr)
        sys.exit(1)
