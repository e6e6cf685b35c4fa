#!/usr/bin/env bash
# Installs, checks format and include arrows, builds and runs the tests labelled quick; --full adds the slow ones. Prints CTest's summary, and after
# it how many cases were skipped and why.
set -euo pipefail
cd "$(dirname "$0")/.."
label=(-L quick)
[ "${1:-}" = "--full" ] && label=()

./tools/install_dependencies.sh
find kernels runtime layers cluster actors configs tools tests benchmarks examples \( -name '*.cpp' -o -name '*.hpp' -o -name '*.cu' -o -name '*.cuh' -o -name '*.h' \) -print0 | xargs -0 clang-format --dry-run --Werror
python3 tools/check_includes.py
cmake --preset release -DMILLRACE_BUILD_TESTS=ON >/dev/null
cmake --build --preset release
cores=$(nproc)
ctest --test-dir build/release --output-on-failure -j $((cores < 4 ? cores : 4)) "${label[@]}"
