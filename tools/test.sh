#!/usr/bin/env bash
# Installs, builds and runs the tests labelled quick; --full adds the slow ones. Prints CTest's own closing lines.
set -euo pipefail
cd "$(dirname "$0")/.."
label=(-L quick)
[ "${1:-}" = "--full" ] && label=()

./tools/install_dependencies.sh
cmake --preset release -DMILLRACE_BUILD_TESTS=ON >/dev/null
cmake --build --preset release
python3 tools/check_includes.py
cores=$(nproc)
ctest --test-dir build/release --output-on-failure -j $((cores < 4 ? cores : 4)) "${label[@]}"
