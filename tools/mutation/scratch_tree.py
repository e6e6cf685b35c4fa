"""A copy of the tree in which all drawn mutants are compiled into one build."""

import collections
import json
import os
import re
import shlex
import shutil
import subprocess

LISTENER = 'tests/mutation/listener.cpp'
HEADER = b'#include "tests/mutation/mutant.hpp"\n#line 1\n'


class ScratchTree:
    def __init__(self, root, folder):
        self.root, self.folder, self.build = root, folder, os.path.join(folder, 'build', 'release')

    def copy(self):
        """Updates the copy from the tree: every file known to git, in its current state."""
        files = subprocess.run(['git', 'ls-files', '-z', '--cached', '--others', '--exclude-standard'], cwd=self.root, capture_output=True, check=True).stdout
        names = [name for name in files.decode().split('\0') if name and os.path.isfile(os.path.join(self.root, name))]
        self.drop_missing(set(names))
        for name in names:
            self.write(name, self.read(name))
        path = 'cmake/tests.cmake'
        text = self.read(path).decode()
        changed = text.replace('add_executable(${name} ${ARG_SOURCES})', 'add_executable(${name} ${ARG_SOURCES} ${PROJECT_SOURCE_DIR}/' + LISTENER + ')', 1)
        if changed == text:
            raise SystemExit(f'mutate.py: {path} no longer has the line to which the test listener is added')
        self.write(path, changed.encode())

    def read(self, name):
        with open(os.path.join(self.root, name), 'rb') as file:
            return file.read()

    def write(self, name, content):
        """Writes a file of the copy; leaves a file with the same content unchanged, so that it is not compiled again."""
        path = os.path.join(self.folder, name)
        if os.path.isfile(path):
            with open(path, 'rb') as file:
                if file.read() == content:
                    return
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, 'wb') as file:
            file.write(content)
        shutil.copymode(os.path.join(self.root, name), path)

    def drop_missing(self, names):
        for folder, folders, files in os.walk(self.folder):
            if folder == self.folder:
                folders[:] = [name for name in folders if name not in ('build', '.git')]
            for file in files:
                path = os.path.join(folder, file)
                if os.path.relpath(path, self.folder) not in names:
                    os.remove(path)

    def configure(self):
        """Configures one object per source, as the mutants' lines and the compiler cache require."""
        subprocess.run(['cmake', '-S', self.folder, '-B', self.build, '-G', 'Ninja', '-DCMAKE_BUILD_TYPE=Release', '-DMILLRACE_PRECOMPILE=OFF', '-DMILLRACE_JOIN=OFF',
                        '-DMILLRACE_BUILD_BENCHMARKS=OFF'], check=True, stdout=subprocess.DEVNULL)

    def compilations(self):
        """{source: arguments that Clang needs to parse it}, for every source that is compiled."""
        with open(os.path.join(self.build, 'compile_commands.json')) as file:
            entries = json.load(file)
        commands = {}
        for entry in entries:
            words, arguments = shlex.split(entry['command']), []
            for index, word in enumerate(words):
                if word == '-isystem':
                    arguments += words[index:index + 2]
                elif word.startswith(('-I', '-D', '-std=', '-march=')):
                    arguments.append(word)
            commands[os.path.relpath(entry['file'], self.folder)] = arguments  # the last one: the widest instruction set
        return commands

    def plant(self, mutants):
        """Writes the changed sources. `mutants`: {identifier: Site}; sites of one file do not overlap."""
        by_file = collections.defaultdict(list)
        for identifier, site in mutants.items():
            by_file[site.path].append((site, identifier))
        for path in set(by_file) | getattr(self, 'planted', set()):
            source = self.read(path)
            for site, identifier in sorted(by_file[path], key=lambda pair: -pair[0].begin):
                source = source[:site.begin] + site.replacement.format(id=identifier).encode() + source[site.end:]
            self.write(path, HEADER + source if by_file[path] else source)
        self.planted = set(by_file)

    def compile(self, jobs):
        """Builds everything. Returns the lines of changed sources that the compiler refused: {source: {line}}; raises for any other error."""
        done = subprocess.run(['ninja', '-C', self.build, '-k', '0', '-j', str(jobs)], capture_output=True, text=True)
        if done.returncode == 0:
            return {}
        refused = collections.defaultdict(set)
        for path, line in re.findall(r'^(?:.*/)?((?:kernels|runtime|layers|cluster|actors|configs|tools)/[\w/.]+):(\d+):\d+: (?:error|fatal error):', done.stdout, re.MULTILINE):
            refused[path].add(int(line))
        # An error in a header, caused by a template call in a changed source.
        for path, line in re.findall(r'((?:kernels|runtime|layers|cluster|actors|configs|tools)/[\w/.]+\.cpp):(\d+):\d+:   required from here', done.stdout):
            refused[path].add(int(line))
        refused = {path: lines for path, lines in refused.items() if path in self.planted}
        if not refused:
            raise SystemExit('mutate.py: the scratch tree does not build, for no reason that lies in a mutant:\n' + done.stdout[-4000:])
        return refused
