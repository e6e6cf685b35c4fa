"""The tests that judge mutants: which case executes which mutant, and whether the cases that do notice it."""

import collections
import contextlib
import hashlib
import json
import os
import shutil
import signal
import subprocess

MAX_MUTANTS = 1 << 16
SHORT = 200  # milliseconds; a case below this meets a mutant first
MEMORY = 12 << 30  # bytes of address space that a test may have: a mutant may ask for all there is


class Case(collections.namedtuple('Case', 'test name milliseconds reached')):
    """One GoogleTest case of a CTest entry, with the mutants that it executes."""


class Suite:
    def __init__(self, tree, label):
        self.tree = tree
        shown = subprocess.run(['ctest', '--test-dir', tree.build, '--show-only=json-v1', '-L', label], capture_output=True, text=True, check=True)
        self.tests = {}
        for test in json.JSONDecoder().raw_decode(shown.stdout)[0]['tests']:  # after it CTest prints the skipped cases
            command = test.get('command')
            if command and any(os.path.dirname(word).startswith(tree.build) for word in command):  # a binary of the build; browser tests do not execute C++
                properties = {entry['name']: entry['value'] for entry in test.get('properties', [])}
                environment = dict(pair.split('=', 1) for pair in properties.get('ENVIRONMENT', []))
                self.tests[test['name']] = (command, properties.get('WORKING_DIRECTORY', tree.build), environment)

    # -- running ------------------------------------------------------------------------------------------------------------------------------

    def command(self, words):
        """As root, in a place of its own: the rest of the disk is read-only, /tmp is empty, and nothing outlives it. A mutant may delete files and kill processes."""
        limited = ['prlimit', f'--as={MEMORY}', '--core=0', '--'] + words
        if os.geteuid() != 0 or shutil.which('unshare') is None:
            return limited
        script = 'mount --bind "$1" "$1" && mount -o remount,bind,ro / && mount -t tmpfs -o size=6g tmpfs /tmp && mkdir /tmp/home && shift && exec "$@"'
        return ['unshare', '--mount', '--pid', '--fork', '--kill-child', '--mount-proc', 'sh', '-c', script, 'sh', self.tree.folder] + limited

    def run(self, test, environment, filter=None, seconds=None):
        """Whether the test passed; None if it did not end in time."""
        words, folder, own = self.tests[test]
        words = list(words) + ['--gtest_fail_fast'] * (filter is not None)
        variables = {**os.environ, 'TMPDIR': '/tmp', **own, **environment}
        if filter is not None:
            variables['GTEST_FILTER'] = filter
        with subprocess.Popen(self.command(words), cwd=folder, env=variables, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              start_new_session=True) as process:
            try:
                return process.wait(seconds) == 0
            except subprocess.TimeoutExpired:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                return None

    def programs(self, test):
        """A hash of the binaries that a test runs: its own, and the command, which many tests start."""
        digest = hashlib.sha256()
        for word in [*self.tests[test][0], os.path.join(self.tree.build, 'millrace')]:
            if word.startswith(self.tree.build) and os.path.isfile(word):
                with open(word, 'rb') as file:
                    digest.update(hashlib.file_digest(file, 'sha256').digest())
        return digest.hexdigest()

    def record(self, test):
        """Runs a test as written. Returns the cases that pass and the names of those that fail; no cases for a program that does not use GoogleTest."""
        map_path, cases_path = (os.path.join(self.tree.build, f'mutation-{test}.{end}') for end in ('reached', 'cases'))
        with open(map_path, 'wb') as file:
            file.truncate(MAX_MUTANTS)
        if os.path.exists(cases_path):
            os.remove(cases_path)
        self.run(test, {'MILLRACE_MUTANT_REACHED': map_path, 'MILLRACE_MUTANT_CASES': cases_path})
        os.remove(map_path)
        cases, failed = [], []
        if not os.path.exists(cases_path):
            return cases, failed
        with open(cases_path) as file:
            for line in file:
                name, verdict, milliseconds, *reached = line.split()
                if verdict == 'failed':
                    failed.append(name)
                else:
                    cases.append(Case(test, name, int(milliseconds), frozenset(map(int, reached))))
        os.remove(cases_path)
        return cases, failed

    # -- judging ------------------------------------------------------------------------------------------------------------------------------

    def judge(self, identifier, cases, max_seconds):
        """Runs the cases that execute a mutant, until they take `max_seconds` together: first the quick cases of every binary, which are
        usually the closest tests of the mutated code, then the others, the quickest binaries first. Returns ('killed' | 'time-out' | 'survived', test or number of cases that ran)."""
        by_test = collections.defaultdict(list)
        for case in cases:
            by_test[case.milliseconds > SHORT, case.test].append(case)
        spent, ran = 0, 0
        for (_, test), some in sorted(by_test.items(), key=lambda pair: (pair[0][0], sum(case.milliseconds for case in pair[1]))):
            spent += sum(case.milliseconds for case in some) / 1000
            if spent > max_seconds and ran > 0:
                break
            ran += len(some)
            names = ':'.join(case.name for case in some)
            seconds = 20 + 6 * sum(case.milliseconds for case in some) / 1000
            passed = self.run(test, {'MILLRACE_MUTANT': str(identifier)}, names if len(names) < 100_000 else '*', seconds)
            if passed is None:
                return 'time-out', test
            if not passed:
                return 'killed', test
        return 'survived', ran
