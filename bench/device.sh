#!/bin/sh
# Tests and times what Tacit does on a GPU, in steps: what is worth most comes first, and each step leaves its record even
# if the next one ends badly.
#
#   bench/device.sh [run] [--kit FOLDER] [--minutes 10] [--steps 'NAME ..'] [--quick]
#   bench/device.sh pack [FOLDER]    the programs that need the whole library, with the libraries that they need, into
#                                    FOLDER (build/device-kit), for a machine that has a driver and little else; needs nvcc
#   bench/device.sh dry              the same steps with programs whose kernels the processor runs (tests/cuda_on_host):
#                                    shows that the script works, and times nothing; a missing program is a failure
#
# Steps, in this order (a step without its program, and what no time is left for, is recorded as left out):
#   contracts   operators, preconditioners and solvers in device memory (test_device of the kit)
#   kernels     each kernel beside the host's on random input (device_test)
#   memcheck, racecheck    of small runs of both, and of the assembly, by compute-sanitizer
#   rates       each kernel beside cuBLAS and cuSPARSE, and the time that its bytes need (device_bench)
#   hmatrix, multigrid, assembly    the problems of the papers
#   amg         cg with amg beside cg with jacobi in device memory: set-up, iterations, seconds (device_amg of the kit)
#
# Programs are those of the kit; the others are built here by nvcc (TACIT_DEVICE_BUILD, build/device; JOBS compilers).
# Needs no network. $OUT (bench/results) gets device-NAME-steps.json, and -contracts.json and -rates.json of these steps;
# logs go to $OUT or, without it, to the build folder. Exit code 77: no GPU; 1: a build or a step failed; 2: wrong use.
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
build=${TACIT_DEVICE_BUILD:-$root/build/device}
kit=$root/build/device-kit
out=${OUT:-$root/bench/results}
logs=${OUT:-$build}
minutes=10 steps='' quick='' small='' what=run
usage() {
  sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" >&2
  exit 2
}
case ${1:-} in run | pack | dry) what=$1 && shift ;; esac
if [ $what = pack ] && [ $# = 1 ]; then kit=$1 && shift; fi
while [ $# -gt 0 ]; do
  case $1 in
    --quick) quick=--quick ;;
    --kit | --minutes | --steps)
      [ $# -gt 1 ] || usage
      case $1 in --kit) kit=$2 ;; --minutes) minutes=$2 ;; --steps) steps=$2 ;; esac
      shift
      ;;
    *) usage ;;
  esac
  shift
done
case $minutes in '' | *[!0-9]*) usage ;; esac
for one in $steps; do
  case $one in contracts | build | kernels | memcheck | racecheck | rates | hmatrix | multigrid | assembly | amg) ;; *) usage ;; esac
done
PATH=$PATH:/usr/local/cuda/bin
export PATH
begin=$(date +%s)
elapsed() { echo $(($(date +%s) - begin)); }
say() { printf '[%4s s] %s\n' "$(elapsed)" "$*"; }

commit_of_tree() {
  printf '%s' "$(git -C "$root" rev-parse --short HEAD 2>/dev/null || echo unknown)"
  if [ -n "$(git -C "$root" status --porcelain 2>/dev/null)" ]; then echo -modified; else echo; fi
}
if [ $what = pack ]; then
  target=$root/build/cuda packed='test_device device_test device_multigrid device_assembly device_amg'
  rm -rf "${kit:?}/lib"
  mkdir -p "$kit/lib" "$target"
  # shellcheck disable=SC2086  # a list of names
  if ! { (cd "$root" && cmake --preset cuda -DTACIT_TESTS=ON -DTACIT_BENCH=ON) &&
    cmake --build "$target" -j "${JOBS:-$(nproc)}" --target $packed; } >"$kit/build.log" 2>&1; then
    say "the build failed:"
    tail -n 40 "$kit/build.log"
    exit 1
  fi
  for name in $packed; do
    file=$(find "$target" -type f -name "$name" -perm -u+x | head -n 1)
    { cp "$file" "$kit/$name" && strip "$kit/$name"; } || exit 1
    if ldd "$file" | grep 'not found'; then exit 1; fi
    # All libraries but those of the C library and the driver, which belong to the machine.
    for library in $(ldd "$file" | awk '$3 ~ /^\// { print $3 }' |
      grep -vE '/(libc|libm|libdl|libpthread|librt|libcuda|ld-linux[^/]*)\.so'); do
      cp -L "$library" "$kit/lib/" || exit 1
    done
  done
  commit_of_tree >"$kit/commit"
  rm -f "$kit/build.log"
  du -ch "$kit"/* | tail -n 12
  exit 0
fi

if [ $what = dry ]; then
  name=dry-run driver=none capability=host
  build=${TACIT_DEVICE_BUILD:-$root/build/cuda-host}
  logs=${OUT:-$build/dry-run} out=${OUT:-$build/dry-run} kit=$build quick=--dry small=--small
else
  if ! command -v nvidia-smi >/dev/null 2>&1 || ! nvidia-smi -L 2>/dev/null | grep -q '^GPU'; then
    echo "no GPU"
    exit 77
  fi
  name=$(nvidia-smi --query-gpu=name --format=csv,noheader | head -n 1 | tr 'A-Z' 'a-z' | tr -cs 'a-z0-9\n' '-' | sed 's/-$//')
  driver=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader | head -n 1)
  capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -n 1 | tr -d .)
fi
commit=$(commit_of_tree)
mkdir -p "$out" "$build" "$logs"
log=$logs/device-$name.log
records=$out/device-$name-steps.json
: >"$log"
rm -f "$records" "$out/device-$name-contracts.json" "$out/device-$name-rates.json"
say "$name, driver $driver, compute capability $capability, commit $commit" | tee -a "$log"

failed=0 lines=''
# record NAME EXIT SECONDS TEXT: the file is written anew, so that it is whole after every step.
record() {
  text=$(printf '%s' "$4" | tr '\n\t' '  ' | tr -cd '\040-\176' | cut -c1-400 | sed 's/\\/\\\\/g; s/"/\\"/g')
  [ -z "$lines" ] || lines="$lines,
"
  lines="$lines    {\"step\": \"$1\", \"exit\": $2, \"seconds\": $3, \"said\": \"$text\"}"
  printf '{\n  "schema": "tacit.bench.device-steps",\n  "gpu": "%s",\n  "driver": "%s",\n  "commit": "%s",\n  "date": "%s",\n  "steps": [\n%s\n  ]\n}\n' \
    "$name" "$driver" "$commit" "$(date +%F)" "$lines" >"$records"
}
wanted() {
  [ -z "$steps" ] && return 0
  case " $steps " in *" $1 "*) return 0 ;; esac
  return 1
}
# missing STEP WHY: a step that cannot run; in the dry run, which is to have all, it is a failure.
missing() {
  if [ $what = dry ]; then
    failed=1
    record "$1" 1 0 "$2"
  else
    record "$1" null 0 "left out: $2"
  fi
  say "$1: $2" | tee -a "$log"
}
# step NAME SECONDS COMMAND...: for at most so long, and no longer than time is left.
step() {
  step=$1 limit=$2
  shift 2
  wanted "${step%%:*}" || return 0
  left=$((60 * minutes - $(elapsed)))
  if [ "$left" -lt 10 ]; then
    missing "$step" 'no time'
    return 0
  fi
  [ $what = run ] || limit=$((4 * limit)) # of a GPU's speed
  [ "$limit" -le "$left" ] || limit=$left
  from=$(elapsed) status=0
  timeout -k 10 "$limit" "$@" >"$logs/device-$step.log" 2>&1 || status=$?
  last=$(grep -v '^$' "$logs/device-$step.log" | tail -n 1)
  case $status in
    0) ;;
    124 | 137) last="stopped after $limit s; last: $last" ;;
    77) if [ $what != dry ]; then last="left out: $last" status=null; fi ;;
  esac
  case $step in
    memcheck:* | racecheck:*) # a tool that cannot run on this machine is told apart from one that has found something
      if grep -q 'Device not supported' "$logs/device-$step.log"; then last="left out: $last" status=null; fi
      ;;
  esac
  case $status in 0 | null) ;; *) failed=1 ;; esac
  say "$step: exit code $status; $last" | tee -a "$log"
  record "$step" "$status" "$(($(elapsed) - from))" "$last"
}
# The program of the build, which is of this commit, or of the kit; of the dry run, wherever it lies.
program() {
  for file in "$build/$1" "$build/tests/device/$1" "$build/bench/device/$1" "$kit/$1"; do
    [ -f "$file" ] && [ -x "$file" ] && echo "$file" && return 0
  done
  return 1
}
# Libraries of the kit serve its own programs only: tools of the machine may need newer ones.
libraries_for() { case $1 in "$kit"/*) echo "LD_LIBRARY_PATH=$kit/lib" ;; *) echo "TACIT_KIT=none" ;; esac }
# run_step NAME SECONDS PROGRAM WORDS...
run_step() {
  wanted "${1%%:*}" || return 0
  run_name=$1 run_limit=$2 run_program=$3
  shift 3
  if file=$(program "$run_program"); then step "$run_name" "$run_limit" env "$(libraries_for "$file")" "$file" "$@"
  else missing "$run_name" "$run_program is not built"
  fi
}
sanitize() {
  tool=$1 of=$2
  shift 2
  wanted "$tool" || return 0
  if [ $what = dry ]; then record "$tool:$of" null 0 "left out: the stand-in checks by itself"
  elif ! command -v compute-sanitizer >/dev/null 2>&1; then record "$tool:$of" null 0 "left out: no compute-sanitizer"
  elif file=$(program "$of"); then
    # Memory that is kept for later arrays would hide a use after free.
    step "$tool:$of" 90 env TACIT_KEEP_DEVICE_MEMORY=0 "$(libraries_for "$file")" compute-sanitizer --tool "$tool" --error-exitcode 9 "$file" "$@"
  else missing "$tool:$of" "$of is not built"
  fi
}

if [ $what = run ] && [ -f "$kit/commit" ] && [ "$(cat "$kit/commit")" != "$commit" ]; then
  say "the kit in $kit is of $(cat "$kit/commit"), the tree of $commit: pack it again" | tee -a "$log"
  kit=$build
fi
if [ $what = run ]; then rm -f "$build/device_test" "$build/device_bench" "$build/device_hmatrix" "$build/device_multigrid" "$build/device_assembly" "$build/device_amg"; fi
# ctest runs all of them on the stand-in: here some that take seconds.
contracts='*'
[ $what = run ] || contracts='Operators/1*'
run_step contracts 240 test_device "--gtest_filter=$contracts" "--gtest_output=json:$out/device-$name-contracts.json"
if [ $what = run ] && command -v nvcc >/dev/null 2>&1; then
  generator=
  command -v ninja >/dev/null 2>&1 && generator="-G Ninja"
  # At most half of the time that is left.
  step build $(((60 * minutes - $(elapsed)) / 2)) sh -c 'cmake $1 -S "$2" -B "$3" -DCMAKE_BUILD_TYPE=Release \
    "-DTACIT_CUDA_ARCHITECTURES=$4" && cmake --build "$3" -j "$5"' \
    sh "$generator" "$root/bench/device" "$build" "$capability" "${JOBS:-$(nproc)}"
fi
run_step kernels 120 device_test $small
for tool in memcheck racecheck; do
  sanitize $tool device_test --small --seed 1
  sanitize $tool device_assembly --check
  sanitize $tool test_device --gtest_filter='Operators/1*:Preconditioners/1*'
done
run_step rates 240 device_bench "$out/device-$name-rates.json" --commit "$commit" $quick
run_step hmatrix 120 device_hmatrix $quick
run_step multigrid 120 device_multigrid $quick
run_step assembly 120 device_assembly $quick
run_step amg 60 device_amg $quick
say "done, failed=$failed; $records" | tee -a "$log"
exit $failed
