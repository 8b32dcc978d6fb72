#!/bin/sh
# Builds, tests and times the device's kernels on this machine's GPU:  bench/device.sh [--quick]
#
# Writes device-<name>.json (kernels) and logs (device_hmatrix, device_multigrid, device_assembly as tables) to $OUT where that is set; else the JSON to
# bench/results/ and the logs to the build folder. TACIT_DEVICE_BUILD names the build folder (build/device), JOBS the jobs (all cores). Needs nvcc and CMake; no
# network. Meant to take less than 8 minutes on an H200.
# Exit code 77: no GPU. 1: a build, a test or a sanitizer failed (what could be measured is still written).
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
build=${TACIT_DEVICE_BUILD:-$root/build/device}
out=${OUT:-$root/bench/results}
logs=${OUT:-$build}
quick=
[ "${1:-}" = --quick ] && quick=--quick
failed=0
begin=$(date +%s)
say() { printf '[%4s s] %s\n' "$(($(date +%s) - begin))" "$*"; }

if ! command -v nvidia-smi >/dev/null 2>&1 || ! nvidia-smi -L 2>/dev/null | grep -q '^GPU'; then
  echo "no GPU"
  exit 77
fi
name=$(nvidia-smi --query-gpu=name --format=csv,noheader | head -n 1 | tr 'A-Z' 'a-z' | tr -cs 'a-z0-9\n' '-' | sed 's/-$//')
driver=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader | head -n 1)
capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -n 1 | tr -d .)
commit=$(git -C "$root" rev-parse --short HEAD 2>/dev/null || echo unknown)
[ -z "$(git -C "$root" status --porcelain 2>/dev/null)" ] || commit=$commit-modified
mkdir -p "$out" "$build" "$logs"
log=$logs/device-$name.log
: >"$log"
say "$name, driver $driver, compute capability $capability, commit $commit" | tee -a "$log"

PATH=$PATH:/usr/local/cuda/bin
export PATH
generator=
command -v ninja >/dev/null 2>&1 && generator="-G Ninja"
# shellcheck disable=SC2086
if ! { cmake $generator -S "$root/bench/device" -B "$build" -DCMAKE_BUILD_TYPE=Release -DTACIT_CUDA_ARCHITECTURES="$capability" &&
  cmake --build "$build" -j "${JOBS:-$(nproc)}"; } >"$logs/device-build.log" 2>&1; then
  say "the build failed:"
  tail -n 40 "$logs/device-build.log"
  exit 1
fi
say "built" | tee -a "$log"
grep -q 'runs without rivals' "$logs/device-build.log" && say "no cuBLAS or cuSPARSE here: no rivals" | tee -a "$log"

timeout 120 "$build/device_test" >"$logs/device-test.log" 2>&1 || failed=1
tail -n 3 "$logs/device-test.log" | tee -a "$log"
say "tests done" | tee -a "$log"

# $1: the sanitizer's tool; $2 and on: the program and its options. A tool that cannot run on this machine is told apart from one that found something.
sanitize() {
  if ! command -v compute-sanitizer >/dev/null 2>&1; then
    say "no compute-sanitizer here" | tee -a "$log"
    return
  fi
  tool=$1 name_of=$2
  shift 2
  found=$logs/$name_of-$tool.log
  timeout 90 compute-sanitizer --tool "$tool" --error-exitcode 9 "$build/$name_of" "$@" >"$found" 2>&1
  code=$?
  if grep -q 'Device not supported' "$found"; then say "$tool cannot run on this machine" | tee -a "$log"
  elif [ $code -eq 124 ]; then say "$tool of $name_of was stopped after 90 seconds; nothing found until then" | tee -a "$log"
  elif [ $code -eq 0 ]; then say "$tool of $name_of found nothing" | tee -a "$log"
  else
    failed=1
    say "$tool of $name_of failed, exit code $code:" | tee -a "$log"
    grep -v '^$' "$found" | head -n 20 | tee -a "$log"
  fi
}
for tool in memcheck racecheck; do
  sanitize $tool device_test --small --seed 1
  sanitize $tool device_assembly --check
done

timeout 240 "$build/device_bench" "$out/device-$name.json" --commit "$commit" $quick >"$logs/device-bench.log" 2>&1 || failed=1
cat "$logs/device-bench.log" | tee -a "$log"
for program in device_hmatrix device_multigrid device_assembly; do
  timeout 120 "$build/$program" $quick >"$logs/$program.log" 2>&1 || failed=1
  tee -a "$log" <"$logs/$program.log"
done
say "done, failed=$failed" | tee -a "$log"
exit $failed
