#!/bin/sh
# Tests and times what Tacit does on a GPU, in steps: what is worth most comes first, and each step leaves its record even
# if the next one ends badly.
#
#   bench/device.sh [run] [--kit FILE] [--minutes 9] [--steps 'NAME ..'] [--quick]
#   bench/device.sh pack [FILE]      the programs of all steps, with the libraries that they need, in one archive
#                                    (build/device-kit.tar.gz), for a machine that has a driver and little else: processors
#                                    as from x86-64-v3 on, GPUs of TACIT_CUDA_ARCHITECTURES (90). Needs nvcc, no GPU
#   bench/device.sh build            the programs for this machine and its GPU, into build/cuda
#   bench/device.sh dry              the same steps with programs whose kernels the processor runs (tests/cuda_on_host):
#                                    shows that the script works, and times nothing; a missing program is a failure
#
# Steps, in this order (a step without its program, and what no time is left for, is recorded as left out):
#   contracts   operators, preconditioners and solvers in device memory (test_device)
#   kernels     each kernel beside the host's on random input (device_test)
#   rates       each kernel, beside cuBLAS and cuSPARSE where they are, and the time that its bytes need (device_bench)
#   amg         cg with amg beside cg with jacobi in device memory: set-up, iterations, seconds (device_amg)
#   multigrid, hmatrix, assembly    the problems of the papers
#   memcheck, racecheck, synccheck  of small runs of device_test, of the assembly and of contracts, by compute-sanitizer
#
# Programs are those of the archive, which has to be of these sources. Where there is none, they are built first (JOBS
# compilers at a time), which takes many minutes. Needs no network. $OUT (bench/results) gets device-NAME-steps.json,
# -contracts.json, -rates.json, and .log with what every step said. Exit code 77: no GPU; 1: a build or a step failed; 2:
# wrong use, or an archive of other sources.
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
kit=$root/build/device-kit.tar.gz
out=${OUT:-$root/bench/results}
minutes=9 steps='' quick='' small='' what=run
usage() {
  sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" >&2
  exit 2
}
case ${1:-} in run | pack | build | dry) what=$1 && shift ;; esac
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
  case $one in contracts | build | kernels | rates | amg | multigrid | hmatrix | assembly | memcheck | racecheck | synccheck) ;; *) usage ;; esac
done
PATH=$PATH:/usr/local/cuda/bin:/usr/local/nvidia/bin
export PATH
begin=$(date +%s)
elapsed() { echo $(($(date +%s) - begin)); }
say() { printf '[%4s s] %s\n' "$(elapsed)" "$*"; }

commit_of_tree() {
  printf '%s' "$(git -C "$root" rev-parse --short HEAD 2>/dev/null || echo unknown)"
  if [ -n "$(git -C "$root" status --porcelain 2>/dev/null)" ]; then echo -modified; else echo; fi
}
# What the programs are made of: git may be missing on the machine, or refuse a folder of another user.
sources_of_tree() {
  (cd "$root" && find CMakeLists.txt CMakePresets.json cmake src include tests bench -type f \
    \( -name '*.cpp' -o -name '*.hpp' -o -name '*.cu' -o -name '*.cuh' -o -name '*.h' -o -name '*.def' -o -name '*.cmake' -o -name 'CMake*' \) |
    LC_ALL=C sort | xargs sha256sum | sha256sum | cut -c1-16)
}
programs='test_device device_test device_bench device_hmatrix device_multigrid device_assembly device_amg'
# build_in FOLDER OPTION...: all programs, and those with rivals where CMake has found these.
build_in() {
  to=$1
  shift
  # shellcheck disable=SC2086  # a list of names
  (cd "$root" && cmake --preset cuda -B "$to" -DTACIT_TESTS=ON -DTACIT_BENCH=ON "$@") &&
    cmake --build "$to" -j "${JOBS:-$(nproc)}" --target $programs &&
    { ! ninja -C "$to" -t query device_bench_rivals >/dev/null 2>&1 ||
      cmake --build "$to" -j "${JOBS:-$(nproc)}" --target device_bench_rivals device_hmatrix_rivals; }
}
if [ $what = pack ]; then
  target=$root/build/device-pack
  folder=$target/device-kit
  rm -rf "$folder"
  mkdir -p "$folder/lib"
  portable=-DTACIT_NATIVE=OFF
  [ "$(uname -m)" != x86_64 ] || portable=-DTACIT_ARCH=x86-64-v3
  # Libraries are found beside the program, those of libraries too: a path in the environment would be that of compute-sanitizer
  # as well, and hide where a container says that the driver is.
  # shellcheck disable=SC2016  # the loader's $ORIGIN
  if ! build_in "$target" "$portable" "-DTACIT_CUDA_ARCHITECTURES=${TACIT_CUDA_ARCHITECTURES:-90}" \
    '-DCMAKE_BUILD_RPATH=$ORIGIN/lib' -DCMAKE_EXE_LINKER_FLAGS=-Wl,--disable-new-dtags >"$target/build.log" 2>&1; then
    say "the build failed:"
    tail -n 40 "$target/build.log"
    exit 1
  fi
  for name in $programs device_bench_rivals device_hmatrix_rivals; do
    file=$(find "$target" -path "$folder" -prune -o -type f -name "$name" -perm -u+x -print | head -n 1)
    case $name:$file in *_rivals:) continue ;; esac
    { cp "$file" "$folder/$name" && strip "$folder/$name"; } || exit 1
    # All libraries but those of the C library and the driver, which belong to the machine, and the rivals, which are too large.
    for library in $(ldd "$file" | awk '$3 ~ /^\// { print $3 }' |
      grep -vE '/(libc|libm|libdl|libpthread|librt|libcuda|ld-linux[^/]*|libcublas|libcublasLt|libcusparse|libnvJitLink)\.so'); do
      cp -L "$library" "$folder/lib/" || exit 1
    done
    if ldd "$file" | grep 'not found'; then exit 1; fi
  done
  commit_of_tree >"$folder/commit"
  sources_of_tree >"$folder/sources"
  (cd "$folder" && du -a . | sort -k2) || exit 1
  tar -czf "$kit" -C "$target" device-kit || exit 1
  say "$kit: $(($(wc -c <"$kit") / 1048576)) MiB, commit $(cat "$folder/commit"), sources $(cat "$folder/sources")"
  exit 0
fi

if [ $what != dry ]; then
  if ! command -v nvidia-smi >/dev/null 2>&1 || ! nvidia-smi -L 2>/dev/null | grep -q '^GPU'; then
    echo "no GPU"
    exit 77
  fi
  name=$(nvidia-smi --query-gpu=name --format=csv,noheader | head -n 1 | tr 'A-Z' 'a-z' | tr -cs 'a-z0-9\n' '-' | sed 's/-$//')
  driver=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader | head -n 1)
  capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -n 1 | tr -d .)
  build=$root/build/cuda logs=$root/build/device-logs
fi
if [ $what = build ]; then
  build_in "$build" "-DTACIT_CUDA_ARCHITECTURES=$capability"
  exit
fi
commit=$(commit_of_tree)
if [ $what = dry ]; then
  name=dry-run driver=none capability=host
  build=${TACIT_DEVICE_BUILD:-$root/build/cuda-host}
  logs=$build/dry-run out=${OUT:-$build/dry-run} quick=--dry small=--small
elif [ -f "$kit" ]; then
  build=$root/build/device-run
  rm -rf "$build"
  mkdir -p "$build"
  tar -xzf "$kit" -C "$build" --strip-components=1 || exit 2
  if [ "$(cat "$build/sources")" != "$(sources_of_tree)" ]; then
    say "$kit is of other sources than these (commit $(cat "$build/commit")): pack it again"
    exit 2
  fi
  commit=$(cat "$build/commit")
fi
mkdir -p "$out" "$build" "$logs"
log=$out/device-$name.log
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
  from=$(elapsed) status=0 said=$logs/device-$step.log
  timeout -k 10 "$limit" "$@" >"$said" 2>&1 || status=$?
  last=$(grep -v '^$' "$said" | tail -n 1)
  case $status in
    0) ;;
    124 | 137) last="stopped after $limit s; last: $last" ;;
    77) if [ $what != dry ]; then last="left out: $last" status=null; fi ;;
  esac
  case $step in
    *check:*) # a tool that cannot run on this machine is distinguished from one that has found something
      if grep -q 'Device not supported' "$said"; then last="left out: $last" status=null; fi
      ;;
  esac
  case $status in 0 | null) ;; *) failed=1 ;; esac
  # One file: few may come back from a machine.
  { printf '\n==== %s\n' "$step" && tail -c 1000000 "$said"; } >>"$log"
  say "$step: exit code $status; $last" | tee -a "$log"
  record "$step" "$status" "$(($(elapsed) - from))" "$last"
}
# The program, wherever it lies in the build folder.
program() {
  for file in "$build/$1" "$build/tests/device/$1" "$build/bench/device/$1"; do
    [ -f "$file" ] && [ -x "$file" ] && echo "$file" && return 0
  done
  return 1
}
# Where cuBLAS and cuSPARSE may be: in the toolkit, or in PyPI's wheels.
rivals=${LD_LIBRARY_PATH:-}
for folder in /usr/local/cuda/lib64 $(python3 -c "import importlib.util as u; s = u.find_spec('nvidia')
print(*[p + t for p in (s.submodule_search_locations if s else []) for t in ('/cu13/lib', '/cublas/lib', '/cusparse/lib', '/nvjitlink/lib')])" 2>/dev/null); do
  if [ -d "$folder" ]; then rivals=${rivals:+$rivals:}$folder; fi
done
# The program beside its rivals, if they are all found, else the one without them.
with_rivals() {
  if file=$(program "$1_rivals") && ! LD_LIBRARY_PATH=$rivals ldd "$file" 2>/dev/null | grep -q 'not found'; then
    echo "$1_rivals"
  else
    echo "$1"
  fi
}
# run_step NAME SECONDS PROGRAM WORDS...
run_step() {
  wanted "${1%%:*}" || return 0
  run_name=$1 run_limit=$2 run_program=$3
  shift 3
  if ! file=$(program "$run_program"); then
    missing "$run_name" "$run_program is not built"
  else
    case $run_program in
      *_rivals) step "$run_name" "$run_limit" env "LD_LIBRARY_PATH=$rivals" "$file" "$@" ;;
      *) step "$run_name" "$run_limit" "$file" "$@" ;;
    esac
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
    step "$tool:$of" 90 env TACIT_KEEP_DEVICE_MEMORY=0 compute-sanitizer --tool "$tool" --error-exitcode 9 "$file" "$@"
  else missing "$tool:$of" "$of is not built"
  fi
}

if [ $what = run ] && ! [ -f "$kit" ]; then
  if ! command -v nvcc >/dev/null 2>&1; then
    say "no programs: neither $kit (bench/device.sh pack) nor nvcc"
    exit 2
  fi
  step build $((30 * minutes)) "$0" build # half of the time at most
fi
# ctest runs all of them on the stand-in: here some that take seconds.
contracts='*'
[ $what = run ] || contracts='Operators/1*'
run_step contracts 240 test_device "--gtest_filter=$contracts" "--gtest_output=json:$out/device-$name-contracts.json"
run_step kernels 120 device_test $small
run_step rates 240 "$(with_rivals device_bench)" "$out/device-$name-rates.json" --commit "$commit" $quick
run_step amg 60 device_amg $quick
run_step multigrid 120 device_multigrid $quick
run_step hmatrix 60 "$(with_rivals device_hmatrix)" $quick
run_step assembly 120 device_assembly $quick
for tool in memcheck racecheck synccheck; do
  sanitize $tool device_test --small --seed 1
  sanitize $tool device_assembly --check
  sanitize $tool test_device --gtest_filter='Operators/1*:Preconditioners/1*'
done
say "done, failed=$failed; $records" | tee -a "$log"
exit $failed
