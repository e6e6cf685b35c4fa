#!/usr/bin/python3
"""Changes one place of the core at a time and asks whether a test notices.

    tools/mutate.py                          300 mutants over all rooms, drawn with seed 1
    tools/mutate.py --seed 7 --count 400     another draw
    tools/mutate.py --rooms engine,links     of some rooms
    tools/mutate.py --list                   prints the draw and ends
    tools/mutate.py --seconds 60             each mutant meets at most 60 s of tests, quickest first; if it survives these, it is a survivor
    tools/mutate.py --seed 7 --count 400 --again    the same draw after new tests: meets the survivors of its last run only, and prints the whole table

Changes: a statement dropped, two arguments swapped, a number off by one, another sign, another comparison, another logic. All mutants of a draw are compiled into one
build in build/mutation (a copy: the tree itself is not touched), where an environment variable chooses the active one. First every test runs as written and records which
case executes which mutant; then each mutant meets exactly those cases. The table names what survived, with file and line; it is also left in build/mutation-table.txt.
A mutant that no test can notice, because the program does the same, is explained in tests/mutation/explained.txt and meets no test.

Needs Debian's python3-clang-14 beside what the build needs. As root, mutants run where the disk is read-only. Exit code 1: more than --limit of the mutants survived.
"""

import argparse
import collections
import concurrent.futures
import fnmatch
import hashlib
import os
import pickle
import random
import re
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), 'mutation'))
try:
    import sites
except ImportError:
    sys.exit('mutate.py: no module clang: apt-get install python3-clang-14 libclang-common-14-dev')
import scratch_tree
import suite

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# The core: code that computes, decides, moves or stores. Room: (share of the sample, sources, sources that only measure or describe the machine).
ROOMS = {
    'kernels': (5, ['kernels/*.cpp', 'kernels/base/*.cpp', 'kernels/cpu/*.cpp', 'kernels/reference/*.cpp'],
                ['kernels/peak.cpp', 'kernels/bandwidth.cpp', 'kernels/base/dot_product_rate.cpp']),
    'operation rules': (4, ['runtime/program/ops/*.cpp'], []),
    'programs': (4, ['runtime/program/*.cpp', 'runtime/passes/*.cpp'], []),
    'engine': (3, ['runtime/engine/*.cpp'], []),
    'schedules': (2, ['runtime/schedule/*.cpp', 'runtime/schedule/generators/*.cpp', 'runtime/schedule/simulator/*.cpp'], ['runtime/schedule/simulator/svg_picture.cpp']),
    'rank control': (3, ['actors/rank/*.cpp', 'actors/coordinator.cpp', 'actors/jobs/evaluation.cpp', 'actors/checkpoint_actor.cpp'], []),
    'checkpoint': (4, ['runtime/io/*.cpp', 'runtime/checkpoint/*.cpp'], []),
    'links': (3, ['cluster/links/*.cpp', 'cluster/control/wire_format.cpp'], []),
    'data': (2, ['runtime/data/*.cpp'], []),
    'tokenizers': (3, ['runtime/data/tokenizers/*.cpp'], []),
    'optimizers': (1, ['runtime/optimizers/*.cpp'], []),
}


with open(sites.__file__, 'rb') as _file:
    FINDER = _file.read()


def say(text):
    print(f'mutate.py: {text}', file=sys.stderr, flush=True)


def sources_of(room, known):
    _, patterns, without = ROOMS[room]
    # fnmatch's * also matches slashes, so the folder is compared separately.
    fits = lambda path, pattern: os.path.dirname(path) == os.path.dirname(pattern) and fnmatch.fnmatch(path, pattern)
    return sorted(path for path in known if any(fits(path, pattern) for pattern in patterns) and not any(fits(path, pattern) for pattern in without))


def find(arguments):
    """The sites of one source, kept beside the build under a hash of the source, since Clang takes seconds for some."""
    path, absolute, words = arguments
    with open(absolute, 'rb') as file:
        key = hashlib.sha256(file.read() + repr((path, words)).encode() + FINDER).hexdigest()
    kept = os.path.join(ROOT, 'build', 'mutation-sites', key)
    if os.path.exists(kept):
        with open(kept, 'rb') as file:
            return pickle.load(file)
    found = sites.find_sites(path, absolute, words)
    os.makedirs(os.path.dirname(kept), exist_ok=True)
    with open(kept + f'.{os.getpid()}', 'wb') as file:
        pickle.dump(found, file)
    os.replace(file.name, kept)
    return found


def find_all(tree, rooms, jobs):
    """{room: its sites}, in the order of files and places."""
    known = tree.compilations()
    found = {}
    with concurrent.futures.ProcessPoolExecutor(jobs) as pool:
        for room in rooms:
            paths = sources_of(room, known)
            lists = pool.map(find, [(path, os.path.join(ROOT, path), [word.replace(tree.folder, ROOT) for word in known[path]]) for path in paths])
            found[room] = [site for sites_of_file in lists for site in sites_of_file]
    return found


class Draw:
    """Draws a number of sites from the rooms by their shares, no two of which overlap; replaces those that do not compile."""

    def __init__(self, found, count, seed):
        self.order = {room: random.Random(f'{seed} {room}').sample(all_sites, len(all_sites)) for room, all_sites in found.items()}
        self.taken = collections.defaultdict(list)
        total = sum(ROOMS[room][0] for room in found)
        self.left = {room: round(count * ROOMS[room][0] / total) for room in found}
        self.next_id = 1

    def free(self, site):
        return all(site.end <= other.begin or other.end <= site.begin for other in self.taken[site.path])

    def more(self):
        drawn = {}
        for room, order in self.order.items():
            while self.left[room] > 0 and order:
                site = order.pop()
                if self.free(site):
                    self.taken[site.path].append(site)
                    drawn[self.next_id] = (room, site)
                    self.next_id += 1
                    self.left[room] -= 1
        return drawn

    def put_back(self, room, site):
        self.taken[site.path].remove(site)
        self.left[room] += 1


def plant(tree, draw, jobs):
    """Compiles the sample; mutants that do not compile (a type without that operator, a constant expression) are replaced by others. Returns {identifier: (room, Site)}."""
    mutants = draw.more()
    refused_sites = 0
    while True:
        tree.plant({identifier: site for identifier, (_, site) in mutants.items()})
        say(f'compiling {len(mutants)} mutants in {len({site.path for _, site in mutants.values()})} files')
        refused = tree.compile(jobs)
        if not refused:
            say(f'{refused_sites} places did not compile and were replaced')
            return mutants
        dropped = []
        for identifier, (_, site) in mutants.items():
            lines = range(site.line, site.line + site.before.count('\n') + 1)
            if any(line in refused.get(site.path, ()) for line in lines):
                dropped.append(identifier)
        if not dropped:  # errors elsewhere in a changed file: drop all of that file's mutants
            dropped = [identifier for identifier, (_, site) in mutants.items() if site.path in refused]
        for identifier in dropped:
            draw.put_back(*mutants.pop(identifier))
        refused_sites += len(dropped)
        mutants.update(draw.more())


def explanations():
    """{(path, operator, code before, its line): why no test can detect it}, from lines with these five parts."""
    known = {}
    path = os.path.join(ROOT, 'tests/mutation/explained.txt')
    if os.path.exists(path):
        with open(path) as file:
            for number, line in enumerate(file, 1):
                if line.strip() and not line.startswith('#'):
                    parts = [part.strip() for part in line.split(' | ')]
                    if len(parts) != 5:
                        sys.exit(f'{path}:{number}: found {len(parts)} parts, expected 5: path | operator | code before | its line | why')
                    known[tuple(parts[:4])] = parts[4]
    return known


def key_of(site):
    """The key of a mutant in explanations and tables, without the line number, which may change."""
    return site.path, site.operator, ' '.join(site.before.split()), site.context


VERDICTS, CASES = (os.path.join(ROOT, 'build', name) for name in ('mutation-verdicts', 'mutation-cases'))


def load(path):
    """What an earlier run left in this file; empty if there was none."""
    if not os.path.exists(path):
        return {}
    with open(path, 'rb') as file:
        return pickle.load(file)


def store(path, content):
    with open(path + '.new', 'wb') as file:
        pickle.dump(content, file)
    os.replace(path + '.new', path)


def identity_of(site):
    """A key that is equal in every run for the same change of the same source."""
    with open(os.path.join(ROOT, site.path), 'rb') as file:
        return site.path, hashlib.sha256(file.read()).hexdigest(), site.begin, site.end, site.replacement


def recorded_cases(tests):
    """The cases of every test, run as written. A test whose programs are those of an earlier run is not recorded again."""
    known, kept, cases = load(CASES), {}, []
    for number, test in enumerate(sorted(tests.tests), 1):
        begin, programs = time.monotonic(), tests.programs(test)
        if test in known and known[test][0] == programs:
            recorded, failed, how = *known[test][1:], 'by an earlier run'
        else:
            recorded, failed = tests.record(test)
            how = f'{time.monotonic() - begin:.0f} s'
        kept[test] = programs, recorded, failed
        fails = f'; FAIL as written and judge nothing: {", ".join(failed)}' if failed else ''
        say(f'recorded {number}/{len(tests.tests)} {test}: {len(recorded)} cases, {how}{fails}')
        cases += recorded
    store(CASES, kept)
    return cases


def judge_all(tests, mutants, cases, jobs, seconds, earlier):
    """{identifier: (verdict, test or number of cases)}. An explained mutant is counted as a survivor and not run. `earlier`: the verdicts of an earlier run by identity_of; what
    was killed then is not run again."""
    known = explanations()
    reaching = collections.defaultdict(list)
    for case in cases:
        for identifier in case.reached:
            reaching[identifier].append(case)
    verdicts, begin = {}, time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        futures = {}
        for identifier in mutants:
            if not reaching[identifier]:
                verdicts[identifier] = ('not reached', 0)
            elif key_of(mutants[identifier][1]) in known:
                verdicts[identifier] = ('survived', len(reaching[identifier]))
            elif earlier.get(identity_of(mutants[identifier][1]), ('', 0))[0] in ('killed', 'time-out'):
                verdicts[identifier] = earlier[identity_of(mutants[identifier][1])]
            else:
                futures[pool.submit(tests.judge, identifier, reaching[identifier], seconds)] = identifier
        for future in concurrent.futures.as_completed(futures):
            identifier = futures[future]
            try:
                verdicts[identifier] = future.result()
            except Exception:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
            done = len(verdicts)
            left = (time.monotonic() - begin) / max(1, done) * (len(mutants) - done)
            alive = sum(verdict[0] in ('survived', 'not reached') for verdict in verdicts.values())
            mark = 'SURVIVED' if verdicts[identifier][0] == 'survived' else verdicts[identifier][0]
            say(f'{done}/{len(mutants)}, {alive} alive, about {left / 60:.0f} min left: {mark}: {mutants[identifier][1].text()}')
    return verdicts


def table(mutants, verdicts, seed):
    known = explanations()
    lines, alive, explained = [], 0, 0
    counts = collections.defaultdict(collections.Counter)
    for identifier, (room, site) in sorted(mutants.items(), key=lambda pair: (list(ROOMS).index(pair[1][0]), pair[1][1].path, pair[1][1].begin)):
        verdict, detail = verdicts[identifier]
        if verdict in ('survived', 'not reached'):
            why = known.get(key_of(site))
            if why:
                verdict, explained = 'explained', explained + 1
                lines.append(f'{site.text()}\n    explained: {why}')
            else:
                alive += 1
                lines.append(f'{site.text()}\n    {verdict}' + (f' ({detail} cases execute it)' if detail else ': no case executes it') + f'; in: {site.context}')
        counts[room][verdict] += 1
    kinds = ['killed', 'time-out', 'survived', 'not reached', 'explained']
    revision = subprocess.run(['git', 'describe', '--always', '--dirty'], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    text = f'{len(mutants)} mutants, seed {seed}, at {revision}\n\n' + '\n'.join(lines) + f'\n\n{"room":<16}' + ''.join(f'{kind:>13}' for kind in kinds) + '\n'
    for room in ROOMS:
        if room in counts:
            text += f'{room:<16}' + ''.join(f'{counts[room][kind]:>13}' for kind in kinds) + '\n'
    total = sum(counts.values(), collections.Counter())
    text += f'{"all":<16}' + ''.join(f'{total[kind]:>13}' for kind in kinds) + '\n'
    share = alive / max(1, len(mutants) - explained)
    text += f'\n{alive} of {len(mutants) - explained} mutants survive without an explanation: {100 * share:.1f} %'
    return text, share


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n\n')[0], epilog='See the head of this file for examples.')
    parser.add_argument('--count', type=int, default=300, help='mutants in all (default 300)')
    parser.add_argument('--seed', type=int, default=1, help='of the draw (default 1)')
    parser.add_argument('--rooms', default=','.join(ROOMS), help=f'comma separated, of: {", ".join(ROOMS)}')
    parser.add_argument('--label', default='quick', help='tests that judge (default: label quick)')
    parser.add_argument('--without', default='', help='tests that do not judge, comma separated')
    parser.add_argument('--seconds', type=float, default=float('inf'), help='of tests that each mutant meets, the quickest first (default: all)')
    parser.add_argument('--jobs', type=int, default=os.cpu_count(), help='tests at a time (default: all cores)')
    parser.add_argument('--limit', type=float, default=5, help='per cent that may survive without an explanation (default 5)')
    parser.add_argument('--list', action='store_true', help='print the draw and end')
    parser.add_argument('--again', action='store_true', help='what the last run on these sources killed counts as killed: only its survivors meet the tests')
    options = parser.parse_args()
    rooms = [room.strip() for room in options.rooms.split(',')]
    for room in rooms:
        if room not in ROOMS:
            parser.error(f'no room "{room}"; expected some of: {", ".join(ROOMS)}')

    tree = scratch_tree.ScratchTree(ROOT, os.path.join(ROOT, 'build', 'mutation'))
    tree.copy()
    tree.configure()
    found = find_all(tree, rooms, options.jobs)
    say('places that can be changed: ' + ', '.join(f'{room} {len(all_sites)}' for room, all_sites in found.items()))
    draw = Draw(found, options.count, options.seed)
    if options.list:
        for room, site in draw.more().values():
            print(f'{room}: {site.text()}')
        return
    mutants = plant(tree, draw, options.jobs)

    tests = suite.Suite(tree, options.label)
    for name in filter(None, options.without.split(',')):
        tests.tests.pop(name.strip())
    cases = recorded_cases(tests)
    verdicts = judge_all(tests, mutants, cases, options.jobs, options.seconds, load(VERDICTS) if options.again else {})
    store(VERDICTS, {identity_of(site): verdicts[identifier] for identifier, (_, site) in mutants.items()})
    text, share = table(mutants, verdicts, options.seed)
    print(text)
    with open(os.path.join(ROOT, 'build', 'mutation-table.txt'), 'w') as file:
        file.write(text + '\n')
    sys.exit(100 * share > options.limit)


if __name__ == '__main__':
    main()
