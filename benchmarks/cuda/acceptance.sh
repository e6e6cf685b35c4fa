#!/usr/bin/env bash
# Checks and measures a GPU; prints rows of a markdown table: correct kernels and models, equal bits, speed, utilisation, memory as planned.
#
#     benchmarks/cuda/acceptance.sh [ROW …]          rows 1 to 5; default: all
#     benchmarks/cuda/acceptance.sh pack FOLDER      packs programs and their libraries into one archive for a bare machine, to be used there with BUILD=FOLDER
#
#     1  kernel tests, and `millrace parity` on every folder of docs/models.md that the CPU passes, fp32 and bf16, twice
#     2  training tests; every schedule with 1, 2 and 4 ranks on one GPU; compute-sanitizer on a small run
#     3  model FLOPs utilisation of configs/runs/cuda-1b.toml, best microbatch; the kernels alone; torch.compile on the same model
#     4  host time of actions, idle device within them           5  planned relative to measured device memory
#
# Environment: BUILD (build/cuda), OUT (./cuda-acceptance: logs and table.md), TIME_LIMIT (540 seconds for everything; the script says what it
# skips), GOLDEN (tests/golden; or a folder with hf/ and maxtext/), PYTHON (python3; with torch for the peer), JOBS (4
# programs at a time in rows 1 and 2), PEAK (989 TFLOP/s of bf16), BATCHES ("4 8 2 1 16" rows of a microbatch), STEP_ROWS (16 rows of a step),
# VOCABULARY (32768, of the random tokens), and additional arguments: MODEL (runs of rows 3 to 5), SMALL (runs of row 2), TORCH
# (torch_llama.py), BENCH (cuda_kernels_bench). No failure ends it early; without a GPU it says what is missing and exits with 0.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd) root=$(cd "$(dirname "$0")/../.." && pwd)
cd "$root" || exit 2
build=$(realpath -m "${BUILD:-build/cuda}") out=$(realpath -m "${OUT:-./cuda-acceptance}")
limit=${TIME_LIMIT:-540} golden=${GOLDEN:-tests/golden} python=${PYTHON:-python3} jobs=${JOBS:-4} peak=${PEAK:-989}
batches=${BATCHES:-4 8 2 1 16} step_rows=${STEP_ROWS:-16} vocabulary=${VOCABULARY:-32768}
read -ra model_words <<< "${MODEL:-}"
read -ra small_words <<< "${SMALL:-}"
read -ra torch_words <<< "${TORCH:-}"
read -ra bench_words <<< "${BENCH:-}"
millrace=$build/millrace
kernel_tests="kernels_base_test kernels_matmul_test kernels_operations_test" shards=2  # parts of each, side by side: few, since processes that share a GPU take turns on it
programs=(millrace tests/kernels/kernels_base_test tests/kernels/kernels_matmul_test tests/kernels/kernels_operations_test
  tests/training/training_device_test benchmarks/cuda/cuda_kernels_bench)

# -- packing -----------------------------------------------------------------------------

# One archive of the programs and the libraries that a bare machine lacks: not libc's, the compiler's or CUDA's.
pack() {
  local to=$1 from program path
  from=$(mktemp -d)
  mkdir -p "$to" "$from/lib" || return 1
  for program in "${programs[@]}"; do
    [ -x "$build/$program" ] || { echo "not built: $build/$program" >&2; continue; }
    mkdir -p "$from/$(dirname "$program")"
    strip -o "$from/$program" "$build/$program"
    ldd "$build/$program" | awk '/=> \//{print $3}'
  done | sort -u | grep -Ev '/(lib(c|m|dl|rt|pthread|resolv|stdc\+\+|gcc_s)|lib(cuda|cudart|cublas|cublasLt|cudnn|nv)[^/]*)\.so' |
    while read -r path; do cp -L "$path" "$from/lib/"; done
  strip --strip-unneeded "$from"/lib/* 2> /dev/null
  { grep '^CMAKE_HOME_DIRECTORY' "$build/CMakeCache.txt" && echo "MILLRACE_BUILT_IN=$build"; } > "$from/CMakeCache.txt"
  # Programs share most of their code, so a compression window that covers all of them is effective.
  tar -C "$from" -c . | xz -T1 --lzma2=preset=2,dict=192MiB > "$to/programs.tar.xz"
  du -sh "$from" "$to/programs.tar.xz"
  rm -r "$from"
}

if [ "${1:-}" = pack ]; then
  pack "$(realpath -m "${2:?a folder behind pack}")"
  exit
fi
rows=()
for word in "$@"; do
  case $word in
    [1-5]) rows+=("$word") ;;
    *) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0" >&2; exit 2 ;;
  esac
done
((${#rows[@]})) || rows=(1 2 3 4 5)

mkdir -p "$out" || exit 2
table=$out/table.md
scratch=$(mktemp -d)
links=()
# shellcheck disable=SC2317  # the trap calls it
clean() { rm -rf "$scratch" "${links[@]}"; }
trap clean EXIT
trap 'exit 130' INT TERM

# -- helpers -------------------------------------------------------------------------------

left() { echo $((limit - SECONDS)); }
# tell ROW WHAT FIGURE GOAL MET: appends a row to the table.
tell() { echo "| $1 | $2 | $3 | $4 | $5 |" | tee -a "$table"; }
# room SECONDS ROW WHAT: false, with a message, if less time is left.
room() {
  (($(left) >= $1)) && return
  tell "$2" "$3" "left out: $(left) s are left, $1 expected" "" "-"
  return 1
}
# ours LIMIT COMMAND …: runs one of our programs, with the packed libraries and its measured algorithms in $out, for at most LIMIT seconds.
ours() {
  local seconds=$1
  shift
  ((seconds < $(left))) || seconds=$(left)
  ((seconds > 0)) || return 124
  XDG_CACHE_HOME=$out/cache LD_LIBRARY_PATH=$libraries timeout --kill-after=5 "$seconds" "$@" < /dev/null
}
yes_no() { [ "$1" = 0 ] && echo yes || echo no; }
at_least() { awk "BEGIN {exit !($1 >= $2)}" && echo yes || echo no; }
below() { awk "BEGIN {exit !($1 < $2)}" && echo yes || echo no; }
within() { awk "BEGIN {d = $1 - $2; if (d < 0) d = -d; exit !(d <= $3)}" && echo yes || echo no; }
read_from() { python3 -B "$here/readings.py" "$@"; }
has_torch() { "$python" -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' > /dev/null 2>&1; }
sanitizer() {
  local path
  for path in "$(command -v compute-sanitizer)" /usr/local/cuda*/bin/compute-sanitizer /opt/nvidia/*/compute-sanitizer; do
    [ -x "$path" ] && echo "$path" && return
  done
  return 1
}
# If the loader does not find CUDA's libraries: the folders of PyTorch's or the toolkit's.
find_libraries() {
  libraries=$build/lib:${LD_LIBRARY_PATH:-}
  local name path
  while read -r name; do
    path=$(find /usr/local /opt /usr/lib "$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))' 2> /dev/null || echo /opt)" \
      -name "$name" -not -path '*/stubs/*' 2> /dev/null | head -1)
    [ -n "$path" ] && libraries=$libraries:$(dirname "$path")
  done < <(for program in "${programs[@]}"; do LD_LIBRARY_PATH=$libraries ldd "$build/$program" 2> /dev/null; done | awk '/not found/{print $1}' | sort -u)
  # cuDNN loads its sub-libraries by name at first use.
  path=$(LD_LIBRARY_PATH=$libraries ldd "$millrace" 2> /dev/null | awk '/libcudnn.so/{print $3}')
  [ -n "$path" ] && libraries=$libraries:$(dirname "$(realpath "$path")")
  LD_LIBRARY_PATH=$libraries ldd "$millrace" 2> /dev/null | awk '/not found/{print "the library " $1}'
}
# Programs contain the path of their build, for presets and tests: a link at that path leads here.
make_places() {
  local of from
  for of in CMAKE_HOME_DIRECTORY:INTERNAL MILLRACE_BUILT_IN; do
    from=$(sed -n "s|^$of=||p" "$build/CMakeCache.txt" 2> /dev/null | head -1)
    if [ -z "$from" ] || [ -e "$from" ]; then continue; fi
    mkdir -p "$(dirname "$from")"
    if [ "$of" = MILLRACE_BUILT_IN ]; then ln -sfn "$build" "$from"; else ln -sfn "$root" "$from"; fi
    links+=("$from")
  done
}
folders() { sed -n 's/^| \(\(hf\|maxtext\)_[a-z0-9_]*\) |.*/\1/p' docs/models.md; }
# folder_of NAME: the folder in tests/golden, or in a folder with hf/ and maxtext/.
folder_of() {
  local path
  for path in "$golden/$1" "$golden/${1/_//}"; do
    [ -f "$path/golden.safetensors" ] && echo "$path" && return
  done
  return 1
}
tokens() {
  [ -f "$scratch/tokens.bin" ] || "$python" -B benchmarks/peers/random_tokens.py "$scratch/tokens.bin" --vocabulary "$vocabulary" --count 4000000
  echo "$scratch/tokens.bin"
}

# -- 1: correct ------------------------------------------------------------------------------

# parity_of NAME DTYPE: the CPU, then twice the GPU; leaves "name dtype cpu first second hash hash" in the scratch folder.
parity_of() {
  local name=$1 dtype=$2 path log=$out/parity.$1.$2 status=(- - -) hashes=("" "") run
  path=$(folder_of "$name") || { echo "$name $dtype missing"; return; }
  ours 60 "$millrace" parity "$path" --dtype "$dtype" > "$log.cpu.log" 2>&1
  status[0]=$?
  if ((status[0] == 0)); then
    for run in 1 2; do
      ours 60 "$millrace" parity "$path" --dtype "$dtype" --device cuda > "$log.cuda$run.log" 2>&1
      status[run]=$?
      hashes[run]=$(sed -n 's/^hash  *//p' "$log.cuda$run.log")
    done
  fi
  echo "$name $dtype ${status[*]} ${hashes[1]:-none1} ${hashes[2]:-none2}"
}

row_1() {
  local test status passed failed shard name dtype results=$scratch/parity
  room 20 1 "kernel tests" || return
  for test in $kernel_tests; do
    for ((shard = 0; shard < shards; ++shard)); do
      {
        GTEST_TOTAL_SHARDS=$shards GTEST_SHARD_INDEX=$shard MILLRACE_TEST_DEVICE=cuda ours 200 "$build/tests/kernels/$test" > "$out/$test.$shard.log" 2>&1
        echo $? > "$scratch/$test.$shard"
      } &
    done
  done
  wait
  for test in $kernel_tests; do
    status=$(sort -n "$scratch/$test".* | tail -1)
    passed=$(sed -n 's/.*\[  PASSED  \] \([0-9]*\) test.*/\1/p' "$out/$test".*.log | awk '{n += $1} END {print n + 0}')
    failed=$(cat "$out/$test".*.log | grep -c '^\[  FAILED  \].*)$')
    tell 1 "$test on the GPU" "$passed passed, $failed failed, status $status" "all" "$(yes_no "$status")"
  done
  room 30 1 "parity" || return
  : > "$results"
  for dtype in fp32 bf16; do
    for name in $(folders); do
      while (($(jobs -rp | wc -l) >= jobs)); do wait -n; done
      (($(left) > 5)) || continue
      parity_of "$name" "$dtype" >> "$results" &
    done
  done
  wait
  cp "$results" "$out/parity.txt"
  for dtype in fp32 bf16; do
    local cpu right same all bad
    all=$(folders | wc -l)
    cpu=$(awk -v d=$dtype '$2 == d && $3 == 0' "$results" | wc -l)
    right=$(awk -v d=$dtype '$2 == d && $3 == 0 && $4 == 0 && $5 == 0' "$results" | wc -l)
    same=$(awk -v d=$dtype '$2 == d && $3 == 0 && $6 == $7' "$results" | wc -l)
    bad=$(awk -v d=$dtype '$2 == d && $3 == 0 && ($4 || $5 || $6 != $7) {print $1}' "$results" | tr '\n' ' ')
    tell 1 "parity, $dtype, $all folders of which the CPU passes $cpu" "$right within tolerance${bad:+; not: $bad}" "$cpu" \
      "$([ "$cpu" -gt 0 ] && [ "$right" = "$cpu" ]; yes_no $?)"
    tell 1 "parity, $dtype, two runs" "$same of $cpu with one hash" "$cpu" "$([ "$cpu" -gt 0 ] && [ "$same" = "$cpu" ]; yes_no $?)"
  done
}

# -- 2: equal bits ------------------------------------------------------------------------------

small=(configs/runs/tiny.toml model.layers=8 "data.text=docs" data.held_out=0 train.steps=3 train.warmup_steps=1 train.batch=2
  train.microbatches=8 train.threads=1 cuda.algorithms= "${small_words[@]}")  # each run would measure its own algorithms, which have other bits
chunks_of() {
  case $1 in
    looped-bfs | interleaved | circular | zb-v | interleaved-zb | v-half | v-min | dualpipe-v) echo 2 ;;
    *) echo 1 ;;
  esac
}
# trained NAME WORD …: a small run; leaves "name status hash loss".
trained() {
  local name=$1 status folder=$scratch/runs/$1
  shift
  ours 90 "$millrace" train "${small[@]}" run.directory="$folder" "$@" > "$out/train.$name.log" 2>&1
  status=$?
  echo "$name $status $(ours 20 "$millrace" ckpt hash "$folder" 2> /dev/null | tail -1 | awk 'NF {print $NF; found = 1} END {if (!found) print "none"}') $(
    read_from loss "$folder/metrics.jsonl" 2> /dev/null || echo none)"
  rm -rf "$folder"
}
field() { awk -v n="$1" -v f="$2" '$1 == n {print $f}' "$scratch/trained"; }

row_2() {
  local status test=$build/tests/training/training_device_test filter='*' dtype name ranks chunks parts key list
  room 30 2 "training tests" && {
    command -v mpirun > /dev/null || filter='-*process*:*in_two*:*offload_by_stage*:*NameTheGpus*'
    ours 240 "$test" --gtest_filter="$filter" > "$out/training_device_test.log" 2>&1
    status=$?
    tell 2 "training_device_test$([ "$filter" = '*' ] || echo ', those of one process')" \
      "$(sed -n 's/.*\[  PASSED  \] \([0-9]* tests\{0,1\}\).*/\1/p' "$out/training_device_test.log" | tail -1) passed, $(
        grep -c '^\[  FAILED  \].*)$' "$out/training_device_test.log") failed, status $status" "all" "$(yes_no $status)"
  }
  room 40 2 "schedules" || return
  : > "$scratch/trained"
  for dtype in fp32 bf16; do
    for parts in 1 2; do  # dualpipe has two gradient sums: its bits equal those of a run that has two as well
      for name in cpu cuda; do
        trained "$name.$dtype.$parts" device=$name train.dtype=$dtype train.accumulators=$parts >> "$scratch/trained" &
      done
    done
    wait
    list=()
    for name in $("$millrace_command" schedule list | sed -n 's/^\([a-z0-9][a-z0-9-]*\)  .*/\1/p'); do
      chunks=$(chunks_of "$name")
      for ranks in 1 2 4; do
        parts=1
        [ "$name" = dualpipe ] && parts=2
        key=("train.dtype=$dtype" "pipeline.schedule=$name" "pipeline.ranks=$ranks" "pipeline.chunks=$chunks")
        # Combinations that a CPU cannot run either are skipped.
        ours 20 "$millrace" inspect "${small[@]}" "${key[@]}" > /dev/null 2>&1 || continue
        while (($(jobs -rp | wc -l) >= jobs)); do wait -n; done
        (($(left) > 15)) || { echo "$name.$ranks" >> "$scratch/no_time.$dtype"; continue; }
        trained "$name.$ranks.$dtype" device=cuda cuda.device=0 "${key[@]}" >> "$scratch/trained" &
        list+=("$name.$ranks.$dtype/$parts")
      done
    done
    wait
    local bad="" same=0 cpu cuda tolerance=1e-4
    [ $dtype = bf16 ] && tolerance=2e-2
    for name in "${list[@]}"; do
      if [ "$(field "${name%/*}" 2)" = 0 ] && [ "$(field "${name%/*}" 3)" = "$(field "cuda.$dtype.${name#*/}" 3)" ] && [ "$(field "${name%/*}" 3)" != none ]; then
        ((++same))
      else
        bad="$bad ${name%/*}"
      fi
    done
    tell 2 "$dtype: schedules with 1, 2 and 4 ranks on one GPU, 3 steps" "$same of ${#list[@]} have the bits of one rank${bad:+; not:$bad}$(
      [ -f "$scratch/no_time.$dtype" ] && echo "; no time for $(wc -l < "$scratch/no_time.$dtype")")" "all" \
      "$([ ${#list[@]} -gt 0 ] && [ $same = ${#list[@]} ] && [ ! -f "$scratch/no_time.$dtype" ]; yes_no $?)"
    cpu=$(field "cpu.$dtype.1" 4) cuda=$(field "cuda.$dtype.1" 4)
    if [[ $cpu =~ ^[0-9.e-]+$ && $cuda =~ ^[0-9.e-]+$ ]]; then
      tell 2 "$dtype: loss of the last step, GPU less CPU" "$(awk "BEGIN {printf \"%.2e\", $cuda - $cpu}") of $cpu" "± $tolerance of it" \
        "$(within "$cuda" "$cpu" "$tolerance * $cpu")"
    else
      tell 2 "$dtype: loss of the last step, GPU less CPU" "GPU ${cuda:-none}, CPU ${cpu:-none}" "± $tolerance of it" no
    fi
  done
  cp "$scratch/trained" "$out/trained.txt"
  local tool command
  if ! command=$(sanitizer); then
    tell 2 "compute-sanitizer" "left out: not found" "" "-"
    return
  fi
  for tool in memcheck racecheck; do
    room 30 2 "compute-sanitizer $tool" || continue
    ours 150 "$command" --tool $tool --error-exitcode 66 "$millrace" train "${small[@]}" run.directory= device=cuda cuda.device=0 model.layers=2 \
      train.steps=1 train.warmup_steps=0 train.microbatches=2 train.dtype=bf16 pipeline.ranks=2 pipeline.schedule=zb-h1 > "$out/$tool.log" 2>&1
    status=$?
    tell 2 "compute-sanitizer $tool, 2 ranks, zb-h1, bf16" "$(grep -E 'ERROR SUMMARY|RACECHECK SUMMARY' "$out/$tool.log" | tail -1 | sed 's/=* *//'), status $status" \
      "0 errors" "$(yes_no $status)"
  done
}

# -- 3: speed -------------------------------------------------------------------------------

best=  # "tokens/s batch policy" of row 3
large_words() {  # BATCH POLICY
  local microbatches=$((step_rows / $1))
  echo configs/runs/cuda-1b.toml "data.tokens=$(tokens)" run.directory= "cuda.algorithms=$out/algorithms.txt" "${model_words[@]}" "train.batch=$1" \
    "train.microbatches=$((microbatches > 0 ? microbatches : 1))" "rematerialize.policy=$2"
}

row_3() {
  local batch policy status words log rate flops utilisation figure peer
  if room 60 3 "kernels alone"; then
    ours 90 "$build/benchmarks/cuda/cuda_kernels_bench" --algorithms "$out/algorithms.txt" "${bench_words[@]}" > "$out/kernels_bench.log" 2>&1
    status=$?
    tell 3 "cuda_kernels_bench" "$(grep -c ' ms ' "$out/kernels_bench.log") lines in kernels_bench.log, status $status; $(
      grep -E 'matmul square.*bf16' "$out/kernels_bench.log" | tail -1 | sed 's/  */ /g')" "" "-"
  fi
  for batch in $batches; do
    for policy in none minimal_with_context full; do
      room 45 3 "$batch rows a microbatch, $policy" || break
      read -ra words <<< "$(large_words "$batch" "$policy")"
      log=$out/large.$batch.$policy.log
      ours 120 "$millrace" inspect "${words[@]}" > "$out/inspect.log" 2>&1
      ours 120 "$millrace" train "${words[@]}" train.steps=14 train.warmup_steps=2 > "$log" 2>&1
      status=$?
      if ((status == 8)); then
        tell 3 "$batch rows a microbatch, rematerialize $policy" "does not fit" "" "-"
        continue
      fi
      if ((status)) || ! rate=$(read_from steps "$log" --skip 4) || ! flops=$(read_from flops "$out/inspect.log"); then
        tell 3 "$batch rows a microbatch, rematerialize $policy" "status $status: $(tail -1 "$log" | tr '|' '/')" "" no
        break
      fi
      utilisation=$(awk "BEGIN {printf \"%.1f\", ${rate% *} * $flops / $peak / 1e10}")
      tell 3 "$batch rows a microbatch, rematerialize $policy" "${rate% *} tokens/s, ${rate#* } s a step, $utilisation % of $peak TFLOP/s$(
        sed -n 's/.*| \(gpu [^|]*\) |.*/, \1/p' "$log" | tail -1)" "" "-"
      if [ -z "$best" ] || [ "$(at_least "${rate% *}" "${best%% *}")" = yes ]; then
        best="${rate% *} $batch $policy" figure=$utilisation
      fi
      break  # a policy with more recomputation is only tried if this one does not fit
    done
  done
  [ -n "$best" ] || { tell 3 "best microbatch" "none ran" "55 %" no; return; }
  echo "$best" > "$out/best.txt"
  tell 3 "best microbatch: ${best#* }" "$figure % model FLOPs utilisation" ">= 55 %" "$(at_least "$figure" 55)"
  if ! has_torch; then
    tell 3 "over torch.compile" "left out: $python has no torch that sees a GPU" ">= 1.1" "-"
    return
  fi
  peer=0
  for batch in $(awk '{print $2}' <<< "$best") 4 8; do  # our batch, and two that may suit it better
    [ -f "$out/torch.$batch.log" ] && [ "$out/torch.$batch.log" -nt "$out/best.txt" ] && continue
    room 75 3 "torch.compile, $batch rows" || break
    timeout --kill-after=5 "$(left)" "$python" -B "$here/torch_llama.py" --batch "$batch" --microbatches $((step_rows / batch > 0 ? step_rows / batch : 1)) \
      "${torch_words[@]}" > "$out/torch.$batch.log" 2>&1 < /dev/null
    status=$?
    rate=$(sed -n 's/.*"tokens_per_s": \([0-9.]*\).*/\1/p' "$out/torch.$batch.log")
    tell 3 "torch.compile, $batch rows a microbatch" "${rate:-no} tokens/s$([ -n "$rate" ] || echo ", status $status: $(tail -1 "$out/torch.$batch.log" | cut -c1-120)")" "" "-"
    [ -n "$rate" ] && [ "$(at_least "$rate" "$peer")" = yes ] && peer=$rate
  done
  [ "$peer" != 0 ] || return
  rate=$(awk "BEGIN {printf \"%.3f\", ${best%% *} / $peer}")
  tell 3 "over the best torch.compile" "$rate" ">= 1.1" "$(at_least "$rate" 1.1)"
}

# -- 4 and 5: from a profile ----------------------------------------------------------

profiled=  # "batch.policy"; "no": profiling failed
profile_once() {
  [ -z "$profiled" ] || { [ "$profiled" != no ]; return; }
  profiled=no
  local batch=4 policy=none words status
  [ -z "$best" ] && [ -f "$out/best.txt" ] && best=$(< "$out/best.txt")
  [ -n "$best" ] && read -r _ batch policy <<< "$best"
  room 40 "$1" "profile" || return
  read -ra words <<< "$(large_words "$batch" "$policy")"
  ours 150 "$millrace" profile "${words[@]}" --steps 3 --out "$out/profile" > "$out/profile.log" 2>&1
  status=$?
  [ -f "$out/profile/profile.json" ] || { tell "$1" "profile" "status $status: $(tail -1 "$out/profile.log" | tr '|' '/')" "" no; return 1; }
  profiled=$batch.$policy
}

row_4() {
  profile_once 4 || return
  read_from host "$out/profile/profile.json" > "$scratch/host" 2> "$scratch/why" || { tell 4 "host time, idle device" "$(< "$scratch/why")" "< 1 %" no; return; }
  local what share
  while IFS=$'\t' read -r what share; do
    # The host enqueues ahead of the device: its time is a cost only as far as the device is idle.
    case $what in
      device*) tell 4 "$what" "$share % of the actions' device time" "< 1 %" "$(below "$share" 1)" ;;
      *) tell 4 "$what" "$share % of the device's" "" "-" ;;
    esac
  done < "$scratch/host"
}

row_5() {
  local planned measured ratio what
  profile_once 5 || return
  read_from memory "$out/profile/profile.json" "$out/large.$profiled.log" > "$scratch/memory" 2> "$scratch/why" ||
    { tell 5 "planned / measured device memory" "$(< "$scratch/why")" "1.00 ± 0.01" no; return; }
  while IFS=$'\t' read -r what planned measured ratio; do
    tell 5 "planned / measured device memory, $what" "$planned / $measured = $ratio" "1.00 ± 0.01" "$(within "$ratio" 1 0.01)"
  done < "$scratch/memory"
}

# -- what is here --------------------------------------------------------------------------

if [ -f "$build/programs.tar.xz" ] && [ ! -x "$millrace" ]; then
  "$python" -c 'import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2])' "$build/programs.tar.xz" "$build" 2> "$scratch/why" ||
    cat "$scratch/why"
fi
missing=()
for program in "${programs[@]}"; do [ -x "$build/$program" ] || missing+=("$build/$program (cmake --build --preset cuda)"); done
for name in $(folders); do folder_of "$name" > /dev/null || missing+=("$golden/$name"); done
command -v python3 > /dev/null || missing+=("python3")
libraries=
while read -r name; do missing+=("$name"); done < <(find_libraries)
find_libraries > /dev/null
sanitizer > /dev/null || missing+=("compute-sanitizer (row 2 goes without)")
"$python" -c 'import torch' > /dev/null 2>&1 || missing+=("torch in $python (row 3 goes without its peer)")
for name in "${missing[@]}"; do echo "missing: $name"; done
[ -x "$millrace" ] || { echo "nothing can run without $millrace"; exit 0; }
make_places
millrace_command=$scratch/millrace
printf '#!/bin/sh\nLD_LIBRARY_PATH=%s exec %s "$@"\n' "$libraries" "$millrace" > "$millrace_command"
chmod +x "$millrace_command"
device=$("$millrace_command" doctor 2>&1 | sed -n 's/^[a-z]*  *cuda  *//p' | paste -sd ';')
if [ -z "$device" ] || [[ $device == *"is what runs"* ]]; then
  echo "no GPU here: ${device:-millrace doctor says nothing of one}. Nothing was measured."
  exit 0
fi
{
  echo "device: $device"
  nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.sm,power.limit --format=csv,noheader 2> /dev/null
  date -u +%Y-%m-%d
  echo
  echo "| row | what | figure | expected | met |"
  echo "|---|---|---|---|---|"
} | tee "$table"
for row in "${rows[@]}"; do "row_$row"; done
echo "in $SECONDS s; logs in $out"
