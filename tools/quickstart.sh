#!/usr/bin/env bash
# From a bare Debian 12 to a trained model: installs, builds, and runs the main job. Four ranks under mpirun train a byte-level Llama on the C++ standard
# library's headers, evaluate on held-out files, save checkpoints and print what the model writes.
#   ./tools/quickstart.sh [key=value …]      e.g. train.steps=200
set -euo pipefail
cd "$(dirname "$0")/.."

started=$(date +%s)
./tools/install_dependencies.sh
installed=$(date +%s)
cmake --preset release -DMILLRACE_BUILD_TESTS=OFF -DMILLRACE_BUILD_BENCHMARKS=OFF >/dev/null
cmake --build --preset release --target millrace
built=$(date +%s)
echo "installed in $((installed - started)) s, built in $((built - installed)) s"

mpirun --allow-run-as-root --oversubscribe --bind-to none -np 4 build/release/millrace train configs/runs/quickstart.toml "$@"
echo "trained in $(($(date +%s) - built)) s; everything took $(($(date +%s) - started)) s"
