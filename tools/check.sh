#!/usr/bin/env bash
# Run this before a commit: checks format and include arrows, builds, runs tests, and clang-tidy on changed files.
#   tools/check.sh                 format, includes, build, tests labelled quick, clang-tidy
#   tools/check.sh --full          … and the slow tests
#   tools/check.sh --cuda          … with the CUDA kernels, emulated on the CPU (tests/emulated_cuda)
#   tools/check.sh --sanitizers    … under ASan with UBSan, then under TSan (docs/errors.md says what the suppressions are for)
set -euo pipefail
cd "$(dirname "$0")/.."
full=() sanitizers=no cuda=no
for argument in "$@"; do
  case "$argument" in
    --full) full=(--full) ;;
    --cuda) cuda=yes ;;
    --sanitizers) sanitizers=yes ;;
    *) echo "check.sh: unknown argument $argument (--full, --cuda, --sanitizers)" >&2; exit 2 ;;
  esac
done

./tools/test.sh "${full[@]}"

# Files that differ from main or, on main itself, from the last commit.
base=$(git merge-base HEAD main 2>/dev/null || git rev-parse HEAD)
[ "$base" = "$(git rev-parse HEAD)" ] && base=HEAD~1
mapfile -t changed < <(git diff --name-only --diff-filter=d "$base" -- '*.cpp' ':!tests' ':!benchmarks')
if [ ${#changed[@]} -eq 0 ]; then
  echo "check.sh: no changed source for clang-tidy"
elif command -v clang-tidy >/dev/null; then
  # A separate build folder, without unity builds and precompiled headers, which Clang cannot read.
  cmake --preset dev -DMILLRACE_BUILD_BENCHMARKS=OFF >/dev/null
  # The same commands without the options that only GCC knows, and only for the files that this build has: it may be without CUDA.
  mkdir -p build/dev/clang
  sed -E 's/ -m(move|store)-max=[0-9]+//g' build/dev/compile_commands.json >build/dev/clang/compile_commands.json
  for file in "${changed[@]}"; do
    if grep -qF "\"file\": \"$PWD/$file\"" build/dev/clang/compile_commands.json; then echo "$file"; fi
  done | xargs -r -P "$(nproc)" -n 1 clang-tidy --quiet --warnings-as-errors='*' -p build/dev/clang
else
  echo "check.sh: clang-tidy is not installed, ${#changed[@]} changed sources not checked (apt-get install clang-tidy)"
fi

root=$PWD cores=$(nproc) jobs=$((cores < 4 ? cores : 4))
if [ "$cuda" = yes ]; then
  cmake --preset emulated >/dev/null && cmake --build --preset emulated
  ctest --test-dir build/emulated --output-on-failure -j "$jobs" -L quick
fi
if [ "$sanitizers" = yes ]; then
  cmake --preset asan >/dev/null && cmake --build --preset asan
  # Uses the slow unwinder, for leaks below MPI: its plugins are unloaded before leaks are searched for, and only a caller further up has a library name.
  ASAN_OPTIONS=detect_leaks=1:fast_unwind_on_malloc=0:suppressions=$root/tools/sanitizers/asan.txt LSAN_OPTIONS=suppressions=$root/tools/sanitizers/lsan.txt:print_suppressions=0 \
    UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1 ctest --test-dir build/asan --output-on-failure -j "$jobs" -L quick
  cmake --preset tsan >/dev/null && cmake --build --preset tsan
  TSAN_OPTIONS=suppressions=$root/tools/sanitizers/tsan.txt:ignore_noninstrumented_modules=1 ctest --test-dir build/tsan --output-on-failure -j "$jobs" -L quick
fi
echo "check.sh: all passed"
