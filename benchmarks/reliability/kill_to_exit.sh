#!/usr/bin/env bash
# kill_to_exit.sh BUILD [TRIALS]: the time from SIGKILL to one process until the survivors have exited, and until mpirun has. Prints p50 and
# p95 in seconds; the goal is a p95 of at most 2 s for the survivors. It trains the smallest model on four ranks and kills a different process each time, at a different step.
set -euo pipefail
build=$(realpath "$1"); trials=${2:-20}
cd "$(dirname "$0")/../.."
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
survivors=() launchers=()
for ((trial = 0; trial < trials; ++trial)); do
  run=$folder/$trial
  mpirun --allow-run-as-root --oversubscribe --bind-to none -np 4 "$build/millrace" train configs/runs/tiny.toml run.directory="$run" \
    data.text=configs train.steps=2000 train.batch=1 train.sequence=32 train.threads=1 pipeline.ranks=4 cluster.timeout_ms=20000 log.every=1 >"$run.out" 2>"$run.err" &
  launcher=$!
  until grep -q "step $((trial + 2))/" "$run.out" 2>/dev/null; do sleep 0.01; kill -0 $launcher; done
  mapfile -t members < <(pgrep -P $launcher)
  victim=${members[$((trial % 4))]}
  begin=$(date +%s%N); kill -KILL "$victim"
  for member in "${members[@]}"; do until [[ "$(cut -d' ' -f3 "/proc/$member/stat" 2>/dev/null || echo Z)" == Z ]]; do sleep 0.005; done; done
  survivors+=($((($(date +%s%N) - begin) / 1000000)))
  code=0; wait $launcher || code=$?
  launchers+=($((($(date +%s%N) - begin) / 1000000)))
  grep -q "was lost" "$run.err" || echo "trial $trial: no message (code $code)" >&2
done
summary() {
  local who=$1; shift
  printf '%s\n' "$@" | sort -n | awk -v who="$who" '{t[NR] = $1}
    END {n = NR; printf "%-9s gone after %d kills: p50 %.3f s, p95 %.3f s, longest %.3f s\n", who, n, t[int((n + 1) / 2)] / 1000, t[int(n * 0.95 + 0.5)] / 1000, t[n] / 1000}'
}
summary survivors "${survivors[@]}"
summary mpirun "${launchers[@]}"
