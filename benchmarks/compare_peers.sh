#!/usr/bin/env bash
# Compares millrace with its alternatives on this machine, alternating; prints one table of ratios with their spread and whether each goal is met.
#
#     benchmarks/compare_peers.sh [--markdown FILE] [GOAL …]
#
#      1  train step of bench-32m relative to PyTorch's        6  actors relative to plain loop, trace ring on to off
#      2  its model FLOPs relative to the best matmul          7  link relative to bare MPI while both ranks compute
#      3  GPT-2 124M relative to plain C loops                 8  peak memory of 1 relative to PyTorch's
#      4  2 ranks relative to PyTorch's pipelines              9  start to the first step, minus mpirun alone
#      5  2 ranks of 1 thread relative to 1 rank of 2         10  growth with sequence, layers, microbatches, stages
#     11  train step of a mixture relative to transformers'   12  gated delta rule relative to transformers'
#     13  2 copies relative to PyTorch's DDP, ZeRO-1 and FSDP2 14  experts on 2 ranks relative to 1 rank of 2 threads
#
# Environment: ROUNDS (3): rounds in which every alternative runs; STEPS (10): timed steps per round (fewer if steps are long, more if they are short);
# MILLRACE (build/release/millrace; the other programs are beside it); PEERS (folder of torch_train.py and torch_pipeline.py; default shared/peers beside
# the repository); PYTHON (a Python with torch, for 11 and 12 also transformers; by default one is installed under build/peers and kept); CC (cc); LIMIT (1800): seconds that one program
# may take. The script says what it skips. Results stay in build/peers/readings.jsonl until the next call; peers/goals.py lists the comparisons and their
# expected values, peers/table.py computes the table.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd) root=$(cd "$(dirname "$0")/.." && pwd)
programs=$here/peers
markdown=() goals=()
while (($#)); do
  case $1 in
    --markdown) markdown=(--markdown "${2:?a file after --markdown}"); shift ;;
    [1-9] | 1[0-4]) goals+=("$1") ;;
    *) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0" >&2; exit 2 ;;
  esac
  shift
done
((${#goals[@]})) || goals=({1..14})

rounds=${ROUNDS:-3} steps=${STEPS:-10} limit=${LIMIT:-1800}
few=$(((steps + 1) / 2))
millrace=$(realpath "${MILLRACE:-$root/build/release/millrace}")
benches=$(dirname "$millrace")/benchmarks
peers=${PEERS:-$root/../shared/peers}
build=$root/build/peers
mkdir -p "$build"
scratch=$(mktemp -d)
child=
trap '[ -z "$child" ] || kill "$child" 2> /dev/null; rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM
readings=$build/readings.jsonl
: > "$readings"
[ -x "$millrace" ] || { echo "compare_peers.sh: no program $millrace; build it, or name it in MILLRACE" >&2; exit 1; }
# Open MPI yields the processor only if there are more processes than cores, with or without this option.
mpi=(mpirun --allow-run-as-root --oversubscribe --bind-to none)

# -- rounds --------------------------------------------------------------------------------

load() { cut -d' ' -f1 /proc/loadavg; }
# Seconds of processor time since the start: of the whole machine, including time taken by its host; and of the programs that this script ran.
machine_seconds() { awk -v tick="$(getconf CLK_TCK)" '/^cpu / {printf "%.2f\n", ($2 + $3 + $4 + $7 + $8 + $9) / tick}' /proc/stat; }
own_seconds() {
  times > "$scratch/times"  # not in a subshell, which has no child times
  awk -F'[ms ]+' '{sum += $1 * 60 + $2 + $3 * 60 + $4} END {printf "%.3f\n", sum}' "$scratch/times"
}
wanted() { [[ " ${goals[*]} " == *" $1 "* ]]; }
note() { python3 -c 'import json, sys; print(json.dumps({sys.argv[1]: sys.argv[2]}))' "$1" "$2" >> "$readings"; }
left_out() { echo "  left out: $1"; note left_out "$1"; }

# take SET WHO COMMAND …: stores the last line of JSON that the command prints as this round's result, with the share of the cores that other programs had meanwhile.
take() {
  local set=$1 who=$2 line status=0 others
  shift 2
  own_seconds > "$scratch/own"
  others=$(date +%s.%N)\ $(machine_seconds)\ $(< "$scratch/own")
  timeout "$limit" "$@" > "$scratch/out" 2> "$scratch/errors" < /dev/null &
  child=$!  # a process group of its own, which timeout kills as a whole
  wait "$child" || status=$?
  child=
  own_seconds > "$scratch/own"
  others=$(echo "$others $(date +%s.%N) $(machine_seconds) $(< "$scratch/own") $(getconf _NPROCESSORS_ONLN)" |
    awk '{share = (($5 - $2) - ($6 - $3)) / ($4 - $1) / $7; printf "%.3f", share < 0 ? 0 : share}')
  line=$(grep -o '{.*}' "$scratch/out" | tail -1 || true)  # another rank may have written to the same line
  if ((status)) || [ -z "$line" ]; then
    tail -5 "$scratch/errors" >&2
    if ((status == 124)); then
      left_out "$who of $set in round $round: not through in $limit s"
    else
      left_out "$who of $set in round $round: ended with status $status"
    fi
    return 0
  fi
  printf '{"set": "%s", "round": %d, "who": "%s", "others": %s, "values": %s}\n' "$set" "$round" "$who" "$others" "$line" >> "$readings"
  printf '  %-26s others %2.0f %%  %.110s\n' "$who" "$(awk "BEGIN {print 100 * $others}")" "$line"
}

# in_turns FUNCTION …: runs every alternative of the function once per round.
in_turns() {
  for ((round = 1; round <= rounds; ++round)); do
    echo "  round $round of $rounds"
    "$@"
  done
}

# tokens VOCABULARY: the path of a file of random tokens.
tokens() {
  [ -f "$scratch/tokens.$1.bin" ] || python3 "$programs/random_tokens.py" "$scratch/tokens.$1.bin" --vocabulary "$1"
  echo "$scratch/tokens.$1.bin"
}

# run_file PRESET VOCABULARY BATCH SEQUENCE MICROBATCHES: the path of a run description.
run_file() {
  local file=$scratch/$1.$3.$4.$5.toml
  printf '[model]\npreset = "%s"\n[data]\ntokens = "%s"\nheld_out = 0\n[train]\nbatch = %d\nsequence = %d\nmicrobatches = %d\n' \
    "$1" "$(tokens "$2")" "$3" "$4" "$5" > "$file"
  echo "$file"
}

# trained SKIP STEPS [LAUNCHER … --] RUN.toml key=value …: a millrace training, timed after the first SKIP steps.
trained() {
  local skip=$1 count=$2
  shift 2
  local launcher=()
  while [[ " $* " == *" -- "* ]]; do
    [ "$1" = -- ] || launcher+=("$1")
    shift
  done
  command=(python3 "$programs/timed_train.py" --skip "$skip" "${launcher[@]}" "$millrace" train "$1" run.directory= train.steps=$((skip + count)) "${@:2}")
}

# -- PyTorch -------------------------------------------------------------------------------

torch_python=
# Sets torch_python, or prints once why there is none.
find_torch() {
  [ -z "$torch_python" ] || { [ "$torch_python" != none ]; return; }
  torch_python=none
  if [ ! -f "$peers/torch_train.py" ]; then
    left_out "PyTorch: no torch_train.py in $peers; PEERS names the folder"
    return 1
  fi
  local python=${PYTHON:-$build/venv/bin/python}
  if [ -z "${PYTHON:-}" ] && ! "$python" -c 'import torch, numpy' 2> "$scratch/errors"; then
    echo "  installing torch and numpy under build/peers/venv"
    if ! { python3 -m venv "$build/venv" && "$python" -m pip install --quiet torch numpy; } > "$scratch/errors" 2>&1; then
      tail -3 "$scratch/errors" >&2
      left_out "PyTorch: it could not be installed; is there a network? PYTHON may name a Python that has it"
      return 1
    fi
  fi
  if ! "$python" -c 'import torch, numpy' 2> "$scratch/errors"; then
    left_out "PyTorch: $python does not import torch and numpy"
    return 1
  fi
  torch_python=$python
  note machine "PyTorch $("$python" -c 'import torch; print(torch.__version__)'), Python $("$python" -c 'import platform; print(platform.python_version())')"
}

# -- goals ---------------------------------------------------------------------------------

# Goals 1, 2 and 8 use the same runs.
bench_32m() {
  [ -z "${bench_32m_done:-}" ] || { echo "  from the runs above"; return 0; }
  bench_32m_done=yes
  local file torch=
  file=$(run_file bench-32m 8192 4 512 1)
  if find_torch; then torch=yes; fi
  in_turns bench_32m_round
}
bench_32m_round() {
  local dtype kind kinds peer
  for dtype in fp32 bf16; do
    if wanted 2; then
      take bench-32m "matmul $dtype ours, oneDNN" "$benches/kernels/peak_bench" 2 $dtype
      [ -z "$torch" ] || OMP_NUM_THREADS=2 take bench-32m "matmul $dtype torch" "$torch_python" "$programs/torch_matmul.py" --threads 2 --dtype $dtype
    fi
    trained 3 "$steps" "$file" train.threads=2 train.dtype=$dtype
    take bench-32m "millrace $dtype" "${command[@]}"
    if wanted 8; then
      trained 3 "$steps" "$file" train.threads=2 train.dtype=$dtype rematerialize.policy=minimal_with_context
      take bench-32m "recomputing $dtype" "${command[@]}"
    fi
    if [ -z "$torch" ] || ! { wanted 1 || wanted 8; }; then continue; fi
    kinds=(fp32)
    [ $dtype = fp32 ] || kinds=(bf16 autocast)
    for kind in "${kinds[@]}"; do
      peer=("$torch_python" "$peers/torch_train.py" --dtype "$kind" --threads 2 --steps "$steps" --batch 4 --seq 512)
      OMP_NUM_THREADS=2 take bench-32m "torch $kind eager" "${peer[@]}"
      OMP_NUM_THREADS=2 take bench-32m "torch $kind compile" "${peer[@]}" --compile
    done
  done
}
goal_1() { bench_32m; }
goal_2() { bench_32m; }
goal_8() { bench_32m; }

goal_3() {
  local cc=${CC:-cc} plain=$scratch/plain_gpt2
  if ! "$cc" -Ofast -march=native -fopenmp "$programs/plain_gpt2.c" -lm -o "$plain" 2> "$scratch/errors" || ! "$plain" check > "$scratch/check"; then
    left_out "plain C loops: plain_gpt2.c was not compiled, or its gradients are wrong"
    plain=
  fi
  in_turns gpt2_round 64 $((2 * steps)) 2  # steps of a second or less
  in_turns gpt2_round 1024 1 1
}
gpt2_round() {  # SEQUENCE STEPS SKIP
  local dtype file
  file=$(run_file gpt2 50257 4 "$1" 1)
  for dtype in fp32 bf16; do
    trained "$3" "$2" "$file" train.threads=2 train.dtype=$dtype
    take "gpt2 4 x $1" "millrace $dtype" "${command[@]}"
  done
  # The control has touched all its memory before, so that a step of minutes needs no warm-up step.
  [ -z "$plain" ] || OMP_NUM_THREADS=2 take "gpt2 4 x $1" "plain C" "$plain" 4 "$1" "$2" $(($1 < 1024 ? 1 : 0))
}

goal_4() {
  local file torch=
  file=$(run_file bench-32m 8192 2 256 8)
  if find_torch; then torch=yes; fi
  in_turns two_ranks_round
}
# plan_of RUN.toml DTYPE SCHEDULES: the path of a plan for two ranks of one thread, with costs measured here; created once.
plan_of() {
  local plan
  plan=$scratch/plan.$(basename "$1" .toml).$2.${3//,/.}.toml
  [ -f "$plan" ] || "$millrace" plan "$1" --measure --schedules "$3" --out "$plan" train.threads=1 train.dtype="$2" pipeline.ranks=2 > "$scratch/plan" 2>&1
  echo "$plan"
}
two_ranks_round() {
  local ours=(1f1b interleaved zb-h1 zb-v) theirs=(1F1B GPipe Interleaved1F1B ZBV InterleavedZeroBubble DualPipeV)
  local dtype i peer plan
  for dtype in fp32 bf16; do
    for i in "${!theirs[@]}"; do
      if ((i < ${#ours[@]})); then
        plan=$(plan_of "$file" $dtype "${ours[i]}")
        trained 3 "$few" "${mpi[@]}" -np 2 -- "$file" train.threads=1 train.dtype=$dtype "pipeline.plan=$plan"
        take "2 ranks" "millrace $dtype ${ours[i]}" "${command[@]}"
      fi
      [ -n "$torch" ] || continue
      peer=("$torch_python" -m torch.distributed.run --standalone --nproc-per-node 2 "$peers/torch_pipeline.py")
      OMP_NUM_THREADS=1 GLOO_SOCKET_IFNAME=${GLOO_SOCKET_IFNAME:-lo} take "2 ranks" "torch $dtype ${theirs[i]}" "${peer[@]}" \
        --schedule "${theirs[i]}" --dtype $dtype --microbatches 8 --batch 2 --seq 256 --threads 1 --steps "$few"
    done
  done
}

goal_5() { in_turns ranks_round; }
ranks_round() {
  local dtype file plan
  file=$(run_file bench-32m 8192 2 256 16)
  for dtype in fp32 bf16; do
    plan=$(plan_of "$file" $dtype zb-v)
    trained 2 "$few" "${mpi[@]}" -np 2 -- "$file" train.threads=1 train.dtype=$dtype "pipeline.plan=$plan"
    take "ranks for threads" "2 ranks $dtype" "${command[@]}"
    trained 2 "$few" "$file" train.threads=2 train.dtype=$dtype
    take "ranks for threads" "1 rank $dtype" "${command[@]}"
  done
}

goal_6() { in_turns overhead_round; }
overhead_round() {
  take actors actors python3 "$programs/pair_ratios.py" "$benches/pipeline/actors_vs_straight_bench" steps=$((4 * steps)) threads=2
  take ring ring python3 "$programs/pair_ratios.py" "$benches/pipeline/trace_ring_bench" steps=$((20 * steps))
}

goal_7() { in_turns link_round; }
link_round() {
  take link told "${mpi[@]}" -np 2 "$benches/links/busy_link_bench" "$few"
  take link untold "${mpi[@]}" -np 2 "$benches/links/busy_link_bench" "$few" untold
}

goal_9() {
  if [ ! -d /usr/include/c++ ]; then
    left_out "start: configs/runs/quickstart.toml reads /usr/include/c++, which is not here"
    return 0
  fi
  in_turns start_round
}
start_round() {
  rm -rf "$scratch/start"
  cd "$root"
  # Settings that follow override those of the file.
  take start millrace python3 "$programs/seconds_until.py" "step 1/" "${mpi[@]}" -np 4 "$millrace" train configs/runs/quickstart.toml run.directory="$scratch/start" \
    train.steps=2 train.warmup_steps=0 evaluate.every=0 evaluate.batches=1 sample.tokens=0
  take start "mpirun alone" python3 "$programs/seconds_until.py" "" "${mpi[@]}" -np 4 "$benches/peers/mpi_alone"
}

# Here the points alternate, more often than others since their runs take milliseconds, and the law is fitted to the minimum of each.
goal_10() {
  local law round=1
  for law in sequence layers microbatches stages; do
    take growth $law python3 "$programs/growth.py" $law --millrace "$millrace" --tokens "$(tokens 512)" --rounds $((3 * rounds)) --steps $((2 * steps)) --threads 2
  done
}

# Sets torch_python if it has transformers too, or prints why not.
find_transformers() {
  find_torch || return 1
  "$torch_python" -c 'import transformers' 2> "$scratch/errors" && return
  if [ -n "${PYTHON:-}" ]; then
    left_out "transformers: $PYTHON does not import it"
    return 1
  fi
  echo "  installing transformers under build/peers/venv"
  if ! "$torch_python" -m pip install --quiet transformers > "$scratch/errors" 2>&1; then
    tail -3 "$scratch/errors" >&2
    left_out "transformers: it could not be installed; is there a network?"
    return 1
  fi
}

goal_11() {
  local file transformers=
  file=$(run_file bench-moe-100m 8192 4 512 1)
  if find_transformers; then transformers=yes; fi
  in_turns mixture_round
}
mixture_round() {
  local dtype kind experts kinds peer
  for dtype in fp32 bf16; do
    trained 3 "$few" "$file" train.threads=2 train.dtype=$dtype
    take mixture "millrace $dtype" "${command[@]}"
    [ -n "$transformers" ] || continue
    kinds=(fp32)
    [ $dtype = fp32 ] || kinds=(bf16 autocast)
    for kind in "${kinds[@]}"; do
      for experts in eager grouped_mm; do
        peer=("$torch_python" "$programs/transformers_mixture.py" --dtype "$kind" --experts $experts --threads 2 --steps "$few")
        OMP_NUM_THREADS=2 take mixture "transformers $kind $experts" "${peer[@]}"
      done
      OMP_NUM_THREADS=2 take mixture "transformers $kind compile" "${peer[@]}" --compile
    done
  done
}

goal_12() {
  local transformers=
  if find_transformers; then transformers=yes; fi
  in_turns delta_rule_round
}
delta_rule_round() {
  take "delta rule" millrace "$benches/kernels/delta_bench" 2 json
  [ -z "$transformers" ] || OMP_NUM_THREADS=2 take "delta rule" transformers "$torch_python" "$programs/transformers_delta_rule.py" --threads 2
}

goal_13() {
  local file torch=
  file=$(run_file bench-32m 8192 2 256 8)
  if find_torch; then torch=yes; fi
  in_turns copies_round
}
# Ours: what a copy divides, in stages of a layer each where they take turns with gradients or weights.
copies_round() {
  local dtype kind mode kinds peer shard keys
  local by_layer=(train.leaf=microbatch pipeline.chunks=10 pipeline.schedule=looped-bfs "pipeline.layout=E | t | t | t | t | t | t | t | t | H")
  for dtype in fp32 bf16; do
    trained 2 "$few" "$file" train.threads=2 train.dtype=$dtype
    take copies "one rank $dtype" "${command[@]}"
    for shard in none optimizer gradients parameters; do
      keys=(train.accumulators=2)
      [[ $shard != gradients && $shard != parameters ]] || keys=("${by_layer[@]}")
      trained 2 "$few" "${mpi[@]}" -np 2 -- "$file" train.threads=1 train.dtype=$dtype mesh.data=2 "mesh.shard=$shard" "${keys[@]}"
      take copies "millrace $dtype $shard" "${command[@]}"
    done
    [ -n "$torch" ] || continue
    kinds=("fp32 ddp" "fp32 zero1" "fp32 fsdp2")
    [ $dtype = fp32 ] || kinds=("autocast ddp" "autocast zero1" "bf16 fsdp2")
    for kind in "${kinds[@]}"; do
      mode=${kind#* }
      peer=("$torch_python" -m torch.distributed.run --standalone --nproc-per-node 2 "$programs/torch_copies.py" --peers "$peers")
      OMP_NUM_THREADS=1 GLOO_SOCKET_IFNAME=${GLOO_SOCKET_IFNAME:-lo} take copies "torch $kind" "${peer[@]}" \
        --mode "$mode" --dtype "${kind% *}" --microbatches 8 --batch 2 --seq 256 --threads 1 --steps "$few"
    done
  done
}

# A mixture whose experts 2 ranks share: actions one after another, and neighbouring ones woven.
goal_14() {
  local file
  file=$(run_file bench-moe-100m 8192 2 256 8)
  in_turns shared_experts_round
}
shared_experts_round() {
  local dtype weave
  for dtype in fp32 bf16; do
    trained 2 "$few" "$file" train.threads=2 train.dtype=$dtype train.accumulators=2
    take "shared experts" "one rank $dtype" "${command[@]}"
    for weave in off neighbours; do
      trained 2 "$few" "${mpi[@]}" -np 2 -- "$file" train.threads=1 train.dtype=$dtype train.accumulators=2 mesh.expert=2 "pipeline.weave=$weave"
      take "shared experts" "2 ranks $dtype $weave" "${command[@]}"
    done
  done
}

# -- main ----------------------------------------------------------------------------------

note machine "$("$millrace" doctor | sed -nE 's/^ok +(processor|cores|libraries) +(.*)/\2/p' | paste -sd ';' | sed 's/;/; /g')"
for goal in "${goals[@]}"; do
  echo "goal $goal | $(date '+%F %T') | load $(load)"
  "goal_$goal"
done
echo
python3 "$programs/table.py" "$readings" "${goals[@]}" "${markdown[@]}"
