#!/usr/bin/env bash
# Builds the libFuzzer targets of tests/fuzz with clang (Debian's clang and libclang-rt-dev) and runs each, as many in parallel as there are cores.
#   tools/fuzz.sh [seconds each = 600] [target …]
# Seeds come from tests/golden; findings are in build/fuzz/found, with one log per target in build/fuzz/logs. Exits with 1 if any target found something.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-600}
shift || true
targets=("$@")
[ ${#targets[@]} -gt 0 ] || targets=(tokenizer_json_fuzz tiktoken_fuzz sentence_piece_fuzz token_file_fuzz config_json_fuzz llmc_model_fuzz safetensors_fuzz)

cmake -S . -B build/fuzz -G Ninja -DCMAKE_CXX_COMPILER=clang++ -DMILLRACE_FUZZ=ON -DMILLRACE_BUILD_TESTS=OFF -DMILLRACE_BUILD_BENCHMARKS=OFF \
  -DMILLRACE_PRECOMPILE=OFF >/dev/null
cmake --build build/fuzz --target "${targets[@]}"

seeds=build/fuzz/seeds
mkdir -p build/fuzz/logs build/fuzz/found
for target in "${targets[@]}"; do mkdir -p "$seeds/$target"; done
seed() {  # TARGET FILE …: copies the files under unique names
  local target=$1 file
  shift
  [ -d "$seeds/$target" ] || return 0
  for file in "$@"; do cp "$file" "$seeds/$target/${file//\//_}"; done
}
seed tokenizer_json_fuzz tests/golden/tokenizers/*.json
seed tiktoken_fuzz tests/golden/tokenizers/*.tiktoken
seed sentence_piece_fuzz tests/golden/tokenizers/*.model
seed config_json_fuzz tests/golden/*/config.json
seed safetensors_fuzz tests/golden/hf_gemma/model.safetensors

run() {
  build/fuzz/tests/fuzz/"$1" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=2048 -malloc_limit_mb=512 -max_len=200000 \
    -artifact_prefix=build/fuzz/found/"$1"- "$seeds/$1" >build/fuzz/logs/"$1".log 2>&1 && result=sound || result="FOUND SOMETHING"
  echo "$1: $result, $(grep -E '^Done|^#[0-9]+' build/fuzz/logs/"$1".log | tail -1)"
  [ "$result" = sound ]
}
export -f run
export seconds seeds
printf '%s\n' "${targets[@]}" | xargs -P "$(nproc)" -I{} bash -c 'run {}'
