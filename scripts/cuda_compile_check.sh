#!/bin/sh
# Compiles every .cu file of the project for sm_90 and prints what each kernel uses; a register spill is a failure.
#
#   scripts/cuda_compile_check.sh [FILE.cu...]
#
# nvcc comes from the PATH or /usr/local/cuda, else from PyPI, pinned, into $TACIT_CUDA_VENV (build/cuda-venv).
# JOBS: files compiled at a time (all processors). No GPU is needed. The last line is `N passed, N failed`, one for each file.
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
venv=${TACIT_CUDA_VENV:-$root/build/cuda-venv}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$root" || exit 1

nvcc=$(command -v nvcc || true)
[ -n "$nvcc" ] || ! [ -x /usr/local/cuda/bin/nvcc ] || nvcc=/usr/local/cuda/bin/nvcc
if [ -z "$nvcc" ]; then
  find_nvcc() { find "$venv" -path '*/nvidia/*/bin/nvcc' 2>/dev/null | head -n 1; }
  nvcc=$(find_nvcc)
  if [ -z "$nvcc" ]; then
    echo "no nvcc on the PATH: installing 13.0 from PyPI into $venv"
    if ! { python3 -m venv "$venv" && "$venv/bin/pip" -q install 'nvidia-cuda-nvcc==13.0.*' 'nvidia-cuda-crt==13.0.*' \
      'nvidia-nvvm==13.0.*' 'nvidia-cuda-runtime==13.0.*' 'nvidia-cuda-cccl==13.0.*'; } >"$work/install.log" 2>&1; then
      tail -n 20 "$work/install.log"
      echo "0 passed, 1 failed"
      exit 1
    fi
    nvcc=$(find_nvcc)
  fi
fi
"$nvcc" --version | tail -n 2 | head -n 1

rivals=
include=$(dirname "$(dirname "$nvcc")")/include
[ ! -e "$include/cublas_v2.h" ] || [ ! -e "$include/cusparse.h" ] || rivals=-DTACIT_BENCH_RIVALS

# One file: its log, then its exit code in a file beside it.
export nvcc rivals work
# shellcheck disable=SC2016  # expanded by the shell that xargs starts
compile='
  key=$(echo "$0" | tr / _)
  "$nvcc" -std=c++20 -O3 -gencode arch=compute_90,code=sm_90 -Xptxas=-v -diag-suppress=20013,20015 -Werror=all-warnings \
    -Xcompiler=-Wall,-Wextra,-Werror,-fopenmp -DTACIT_HAVE_CUDA $rivals -Iinclude -c "$0" -o "$work/$key.o" >"$work/$key.log" 2>&1
  echo $? >"$work/$key.code"'
if [ $# -gt 0 ]; then files=$*; else files=$(find src python bench tests -name '*.cu' | sort); fi
# shellcheck disable=SC2086  # a list of files
printf '%s\n' $files | xargs -P "${JOBS:-$(nproc)}" -n 1 sh -c "$compile"

# Lines "registers shared stack spilled-stores spilled-loads kernel" of a log of ptxas.
usage() {
  awk '/Compiling entry function/ { split($0, part, "\047"); kernel = part[2] }
    /bytes stack frame/ { stack = $1; stores = $5; loads = $9 }
    / Used [0-9]+ registers/ {
      for (i = 2; i <= NF; i++) if ($i ~ /^registers/) registers = $(i - 1)
      shared = 0
      for (i = 2; i <= NF; i++) if ($i ~ /^smem/) shared = $(i - 2)
      if (kernel != "") print registers, shared, stack, stores, loads, kernel
      kernel = ""
    }' "$1" | c++filt | sed 's/void tacit::exec::run_kernel<//; s/ >(.*$//; s/>(.*$//; s/tacit:://g; s/exec:://g; s/op:://g; s/(int)//g; s/(bool)//g;
      s/std::integer_sequence<[^>]*>/_/g'
}

passed=0 failed=0
for file in $files; do
  key=$(echo "$file" | tr / _)
  if [ "$(cat "$work/$key.code")" != 0 ]; then
    echo "$file: does not compile"
    grep -E 'error|warning' "$work/$key.log" | head -n 20
    failed=$((failed + 1))
    continue
  fi
  usage "$work/$key.log" >"$work/$key.use"
  cat "$work/$key.use" >>"$work/all.use"
  spilled=$(awk '$4 + $5 > 0' "$work/$key.use")
  if [ -n "$spilled" ]; then
    echo "$file: kernels that spill registers"
    echo "$spilled"
    failed=$((failed + 1))
  else
    passed=$((passed + 1))
  fi
done
if [ -s "$work/all.use" ]; then
  echo "registers shared stack spill-stores spill-loads kernel"
  sort -u "$work/all.use" | sort -rn | awk '{ printf "%9d %6d %5d %12d %11d ", $1, $2, $3, $4, $5; $1 = $2 = $3 = $4 = $5 = ""; print substr($0, 6, 180) }'
fi
echo "$passed passed, $failed failed"
[ $failed -eq 0 ] && [ $passed -gt 0 ]
