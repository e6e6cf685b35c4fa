#!/usr/bin/env bash
# Tokens per second of `millrace train` on bench-32m beside a PyTorch trainer of the same model, taking turns.
#
#     benchmarks/pipeline/against_torch.sh TORCH_TRAIN.py [eager|compile|all]
#
# TORCH_TRAIN.py takes --dtype fp32|autocast|bf16, --compile, --threads N, --steps N, --batch, --seq and prints one line of JSON with
# "tokens_per_s". Environment: MILLRACE (build/release/millrace), PYTHON (python3 with torch), THREADS (2), STEPS (10), ROUNDS (3).
#
# METER=cpu counts tokens per second of processor time instead of wall time, with THREADS=1: what is left to compare on a machine that
# others use too, where the wall time is mostly theirs.
set -euo pipefail
torch_train=${1:?the path of a torch_train.py}
variants=${2:-all}
here=$(cd "$(dirname "$0")" && pwd)
millrace=${MILLRACE:-$here/../../build/release/millrace}
python=${PYTHON:-python3}
steps=${STEPS:-10} rounds=${ROUNDS:-3} meter=${METER:-wall}
threads=${THREADS:-2}
[ "$meter" = wall ] || threads=1
batch=4 sequence=512
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

python3 "$here/random_tokens.py" "$scratch/tokens.bin" --vocabulary 8192
cat > "$scratch/bench.toml" <<TOML
[model]
preset = "bench-32m"
[data]
tokens = "$scratch/tokens.bin"
[train]
batch = $batch
sequence = $sequence
microbatches = 1
threads = $threads
TOML

# train DTYPE STEPS: the log of a run.
train() { "$millrace" train "$scratch/bench.toml" run.directory= train.dtype="$1" train.steps="$2"; }

# Seconds of processor time, user and system, of a run of $2 steps.
cpu_seconds() {
  local TIMEFORMAT='%U %S'
  { time train "$1" "$2" > /dev/null; } 2>&1 | awk '{print $1 + $2}'
}

# The median step of the log; the first three warm up. CPU: what more steps cost more.
ours() {
  if [ "$meter" = cpu ]; then
    local few many
    few=$(cpu_seconds "$1" 2)
    many=$(cpu_seconds "$1" $((2 + steps)))
    awk -v a="$few" -v b="$many" -v t=$((steps * batch * sequence)) 'BEGIN {printf "%.0f\n", t / (b - a)}'
  else
    train "$1" $((steps + 3)) | grep -o '[0-9.]* tok/s' | tail -n +4 | sort -n | awk '{v[NR] = $1} END {print v[int((NR + 1) / 2)]}'
  fi
}

# torch DTYPE [--compile]
torch() {
  local clock=perf_counter
  [ "$meter" = wall ] || clock=process_time
  OMP_NUM_THREADS=$threads "$python" - "$torch_train" "$clock" --dtype "$@" --threads "$threads" --steps "$steps" --batch $batch --seq $sequence <<'PY'
import json, runpy, sys, time, io, contextlib
path, clock = sys.argv[1], sys.argv[2]
time.perf_counter = getattr(time, clock)
sys.argv = [path] + sys.argv[3:]
out = io.StringIO()
with contextlib.redirect_stdout(out):
    runpy.run_path(path, run_name="__main__")
print(json.loads(out.getvalue().strip().splitlines()[-1])["tokens_per_s"])
PY
}

measure() {  # NAME COMMAND …
  local name=$1 value
  shift
  value=$("$@" 2> "$scratch/errors") || { tail -3 "$scratch/errors" >&2; value=0; }
  printf '%-22s %8s tokens/s (%s)  load %s\n' "$name" "$value" "$meter" "$(cut -d' ' -f1 /proc/loadavg)"
  echo "$name $value" >> "$scratch/results"
}

for ((round = 1; round <= rounds; ++round)); do
  for dtype in fp32 bf16; do
    measure "millrace $dtype" ours $dtype
    for mode in eager compile; do
      [ "$variants" = all ] || [ "$variants" = $mode ] || continue
      flag=$([ $mode = compile ] && echo --compile || true)
      measure "torch $dtype $mode" torch $dtype $flag
      [ $dtype = fp32 ] || measure "torch autocast $mode" torch autocast $flag
    done
  done
done

awk '
  {name = $1 " " $2 " " $3; sub(/ [0-9.]+$/, "", name); if ($NF + 0 > best[name]) best[name] = $NF + 0}
  END {
    for (name in best) if (name ~ /^torch/ && best[name] > peer) {peer = best[name]; who = name}
    for (name in best) if (name ~ /^millrace/ && peer > 0) printf "%s: %.0f, %.2f x the best of PyTorch (%s, %.0f)\n", name, best[name], best[name] / peer, who, peer
  }' "$scratch/results"
