#!/bin/sh
# Builds Tacit with CUDA for sm_90, without a GPU: every .cu file but those of tests (a register spill is a failure; the registers and memory
# of each kernel are written to build/cuda-check/kernels.txt), a program with the whole library, all programs of bench, and
# the Python module, which is imported. Where there is a GPU, device_test runs too.
#
#   scripts/cuda_compile_check.sh [FILE.cu...]     only these files are compiled, and nothing is linked
#
# nvcc and all else as for ./run (TACIT_JOBS: compilers at a time). Of the host's part, objects of build/release are taken
# where ./run build or ./test has made them; the rest is compiled without optimisation. The last line is
# `N passed, N failed`: one for each file, program and the module.
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P)
# shellcheck source=scripts/setup.sh disable=SC2154
. "$root/scripts/setup.sh"
export TACIT_CUDA=OFF # the host's part is that of the build without CUDA
cuda_build=$root/build/cuda-check
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
setup_begin

find_nvcc
"$nvcc" --version | tail -n 2 | head -n 1

# Objects of the release build, if it has the applications and MPI as here.
objects=
if [ -n "$(find "$build/python/tacit" -name '_core*.so' 2>/dev/null)" ] && grep -qxF 'TACIT_APPLICATIONS:BOOL=ON' "$build/CMakeCache.txt" &&
  grep -qx 'TACIT_CUDA:[A-Z]*=OFF' "$build/CMakeCache.txt"; then
  objects=$build
  ninja -C "$build" tacit_python >>"$log/compile.log" 2>&1 </dev/null || stop 'compile (build/release)' "$log/compile.log"
fi
with_mpi setup_configure "$cuda_build" "$log/configure-cuda.log" --preset cuda -DTACIT_MPI=ON "-DTACIT_OBJECTS_FROM=$objects" "-DCMAKE_CUDA_COMPILER=$nvcc" -DTACIT_CUDA_ARCHITECTURES=90 \
  '-DTACIT_DEVICE_SCALARS=double;complex<double>' \
  -DTACIT_PYTHON=ON -DTACIT_PYTHON_LINK=OFF "-DPython_EXECUTABLE=$venv/bin/python" -DTACIT_TESTS=OFF -DTACIT_WERROR=ON \
  -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG=-O0 '-DCMAKE_CUDA_FLAGS_DEBUG=-O3 -Xcompiler=-O0'

# The object of every .cu file, by what ninja would do.
ninja -C "$cuda_build" -t targets all | sed -n 's/^\(.*\.cu\.o\): CUDA_COMPILER.*/\1/p' >"$work/objects"
# object_of FILE.cu: CMake puts the name of the target between the folder and the rest.
object_of() { awk -v file="$1" '{ path = $0; sub(/CMakeFiles\/[^\/]*\.dir\//, "", path); if (path == file ".o") print }' "$work/objects"; }

programs='tacit_whole device_test device_bench device_hmatrix device_multigrid device_assembly device_amg'
for file in "$root"/bench/*.cpp; do
  name=${file##*/}
  programs="$programs bench_${name%.cpp}"
done
# Where cuBLAS and cuSPARSE are.
if ninja -C "$cuda_build" -t query device_bench_rivals >/dev/null 2>&1; then programs="$programs device_bench_rivals device_hmatrix_rivals"; fi
if [ $# -gt 0 ]; then
  files=$* programs=
else
  files=$(cd "$root" && find src python bench -name '*.cu' | sort)
fi
targets=$programs
passed=0 failed=0
fail() {
  echo "failed: $1"
  failed=$((failed + 1))
}
for file in $files; do
  object=$(object_of "$file")
  if [ -n "$object" ]; then
    targets="$targets $object"
    rm -f "$cuda_build/$object" # compiled again: the compiler then says what kernels use
  fi
done
[ -z "$programs" ] || targets="$targets tacit_python"
start=$(now)
# shellcheck disable=SC2086  # a list of targets
ninja -C "$cuda_build" -k 0 -j "$(jobs)" $targets >"$work/log" 2>&1 </dev/null || true
report 'CUDA: compile and link' $(($(now) - start))

# Lines "object registers shared stack spilled-stores spilled-loads kernel" of what ptxas said.
awk '/^\[[0-9]+\/[0-9]+\] / { object = $NF }
  /Compiling entry function/ { split($0, part, "\047"); kernel = part[2] }
  /bytes stack frame/ { stack = $1; stores = $5; loads = $9 }
  / Used [0-9]+ registers/ {
    for (i = 2; i <= NF; i++) if ($i ~ /^registers/) registers = $(i - 1)
    shared = 0
    for (i = 2; i <= NF; i++) if ($i ~ /^smem/) shared = $(i - 2)
    if (kernel != "") print object, registers, shared, stack, stores, loads, kernel
    kernel = ""
  }' "$work/log" | c++filt | sed 's/void tacit::exec::run_kernel<//; s/ >(.*$//; s/>(.*$//; s/tacit:://g; s/exec:://g; s/op:://g; s/(int)//g; s/(bool)//g;
    s/std::integer_sequence<[^>]*>/_/g' >"$work/use"

for file in $files; do
  object=$(object_of "$file")
  if [ -z "$object" ]; then
    fail "$file: no part of the build"
  elif ! [ -f "$cuda_build/$object" ]; then
    fail "$file: does not compile"
  elif awk -v object="$object" '$1 == object && $5 + $6 > 0' "$work/use" | grep .; then
    fail "$file: kernels that spill registers"
  else
    passed=$((passed + 1))
  fi
done
# The program, where it lies in the build folder.
program() { find "$cuda_build" -maxdepth 3 -type f -name "$1" -perm -u+x -newer "$work/objects"; }
for name in $programs; do
  if [ -n "$(program "$name")" ]; then passed=$((passed + 1)); else fail "$name: does not link"; fi
done
grep -E 'error[: ]|warning[: ]|undefined reference|FAILED' "$work/log" | sort | uniq -c | sort -rn | head -n 40 || true

# works COMMAND...: counts it; what a failed one said is shown.
works() {
  if "$@" >"$work/said" 2>&1 </dev/null; then
    passed=$((passed + 1))
  else
    fail "$*"
    tail -n 20 "$work/said"
  fi
}
if [ -n "$programs" ]; then
  # A package of its own: the one in the source folder keeps its module.
  mkdir "$work/packages"
  cp -R "$root/python/tacit" "$work/packages/tacit"
  rm -f "$work/packages/tacit/"_core*.so
  cp "$cuda_build"/python/tacit/_core*.so "$work/packages/tacit/" || true
  export PYTHONPATH="$work/packages"
  works "$venv/bin/python" -c 'from tacit import _core; raise SystemExit(not (_core.cuda_built and _core.lapack_works()))'
  works "$venv/bin/python" -m tacit doctor
  grep gpu "$work/said" || true
  device_test=$(program device_test)
  if [ -n "$device_test" ]; then
    status=0
    "$device_test" >"$work/said" 2>&1 </dev/null || status=$?
    tail -n 20 "$work/said"
    case $status in
      0) passed=$((passed + 1)) ;;
      77) ;;
      *) fail device_test ;;
    esac
  fi
fi
setup_end
if [ -s "$work/use" ]; then
  {
    echo "registers shared stack spill-stores spill-loads kernel"
    cut -d ' ' -f 2- "$work/use" | sort -u | sort -rn |
      awk '{ printf "%9d %6d %5d %12d %11d ", $1, $2, $3, $4, $5; $1 = $2 = $3 = $4 = $5 = ""; print substr($0, 6, 180) }'
  } >"$cuda_build/kernels.txt"
fi
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
