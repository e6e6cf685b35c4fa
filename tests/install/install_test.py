#!/usr/bin/env python3
"""Installs the build into a folder, moves the folder, and uses it as a newcomer would: presets by name from another folder, and examples/outside, which finds
the package with CMake, compiles, and trains with its own loss, data and callback.

    install_test.py CMAKE BUILD_FOLDER MPIEXEC
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[2]
INSTALLED = ["bin/millrace", "share/millrace/configs/models/tiny.toml", "share/millrace/configs/runs/quickstart.toml", "share/doc/millrace/README.md",
             "share/doc/millrace/LICENSE", "share/doc/millrace/docs/words.md", "share/doc/millrace/examples/outside/train_sums.cpp",
             "share/bash-completion/completions/millrace", "share/zsh/vendor-completions/_millrace", "share/man/man1/millrace.1", "lib/cmake/millrace/millrace-config.cmake",
             "include/millrace/actors/jobs/training.hpp", "include/millrace/kernels/base/devices.inc"]


def check(condition, what):
    if not condition:
        raise AssertionError(what)


def run(words, folder, expected=0):
    """Runs a command in a folder; returns what it printed."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith("MILLRACE_")}
    result = subprocess.run([str(word) for word in words], cwd=folder, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    check(result.returncode == expected, f"{' '.join(map(str, words))} ended with {result.returncode}, expected {expected}:\n{result.stdout[-4000:]}")
    return result.stdout


def install(cmake, build, folder):
    """Installs, and moves what was installed: nothing in it may depend on where it was."""
    run([cmake, "--install", build, "--prefix", folder / "first"], folder)
    prefix = folder / "moved"
    (folder / "first").rename(prefix)
    for name in INSTALLED:
        check((prefix / name).is_file(), f"{name} was not installed")
    for file in (prefix / "lib/cmake/millrace").iterdir():
        for place in (str(SOURCE), str(build), str(folder / "first")):
            check(place not in file.read_text(), f"{file.name} names {place}")
    completions = subprocess.run(["bash", "-n", prefix / "share/bash-completion/completions/millrace"])
    check(completions.returncode == 0, "the completions are no script for bash")
    return prefix


def follow_links(documents):
    """Every relative link of the installed documents leads to something that is installed."""
    pages = sorted(documents.rglob("*.md"))
    check(len(pages) > 20, f"{len(pages)} documents in {documents}, expected those of docs/")
    followed = 0
    for page in pages:
        for target in re.findall(r"\]\(([^()\s]+)\)", page.read_text()):
            if re.match(r"#|[a-z]+:", target):
                continue
            followed += 1
            check((page.parent / target.split("#")[0]).exists(), f"{page}: its link {target} leads nowhere")
    check(followed > 100, f"{followed} links were followed, expected more")
    check("](../tests/" not in "".join(page.read_text() for page in pages), "a link to tests/, which is not installed")


def use_presets(prefix, folder):
    millrace = prefix / "bin/millrace"
    check(f"in {prefix}/share/millrace/configs/models" in run([millrace, "doctor"], folder), "doctor does not name the installed presets")
    (folder / "text").write_text("the mill turns as long as water runs through the race. " * 200)
    words = ["train.steps=1", "train.warmup_steps=1", "evaluate.batches=1", "data.text=text", "run.directory="]
    check("step 1/1 " in run([millrace, "train", "tiny", *words], folder), "the installed run tiny does not train")
    message = run([millrace, "train", "quickstrt"], folder, expected=3)
    check(f"runs in {prefix}/share/millrace/configs/runs" in message and "did you mean quickstart?" in message, message)


def train_outside(cmake, prefix, mpiexec, folder):
    shutil.copytree(prefix / "share/doc/millrace/examples/outside", folder / "outside")
    outside = folder / "outside"
    run([cmake, "-S", outside, "-B", outside / "build", f"-DCMAKE_PREFIX_PATH={prefix}"], folder)
    run([cmake, "--build", outside / "build"], folder)
    command = [outside / "build/train_sums", outside / "sums.toml"]
    printed = run([*command, f"run.directory={folder / 'run'}"], folder)
    calls = re.findall(r"^callback: step (\d+) of 100, focal loss (\S+)$", printed, re.M)
    check([int(step) for step, _ in calls] == list(range(10, 101, 10)), f"the callback was called for {calls}")
    # ln 128 times (1 - 1/128)^2 is what a model without knowledge has.
    first, last = float(re.search(r"^step 1/100 +\| loss +(\S+)", printed, re.M)[1]), float(calls[-1][1])
    check(4 < first < 6 and last < first / 10, f"the loss went from {first} to {last}")
    check("7+8=15" in printed, "it did not learn that 7+8=15")
    # The same bits in two processes.
    launch = [mpiexec, "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-np", "2"]
    check(re.findall(r"^callback: .*$", run([*launch, *command], folder), re.M) == re.findall(r"^callback: .*$", printed, re.M), "two processes have other losses")
    check("train.loss = focl" in (text := run([*command, "train.loss=focl"], folder, expected=3)) and "did you mean focal?" in text, text)
    text = run([*command, f"run.directory={folder / 'run'}", "train.loss=cross_entropy"], folder, expected=6)
    check('train.loss was "focal", now "cross_entropy"' in text, text)
    text = run([*command, "data.tokens=some.bin", "sample.tokens=0"], folder, expected=3)
    check("expected neither data.text nor data.tokens" in text, text)


def main():
    cmake, build, mpiexec = sys.argv[1], pathlib.Path(sys.argv[2]).resolve(), sys.argv[3]
    folder = pathlib.Path(tempfile.mkdtemp(prefix="millrace_install_")).resolve()
    try:
        prefix = install(cmake, build, folder)
        follow_links(prefix / "share/doc/millrace")
        use_presets(prefix, folder)
        train_outside(cmake, prefix, mpiexec, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


main()
