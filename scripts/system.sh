# shellcheck shell=sh disable=SC2154  # root, log and mpi_from are those of scripts/setup.sh
# Read by scripts/setup.sh: what this system has, and what its package manager has to add. Sets python, compiler, missing,
# as_root and can_install.

# oldest NAME: the oldest version of gcc, clang or python that will do.
oldest() { awk -v name="$1" '$1 == name { print $2 }' "$root/cmake/oldest.txt"; }

# at_least VERSION OLDEST: of numbers with points between them.
at_least() { awk -v a="$1" -v b="$2" 'BEGIN { split(a, x, "."); split(b, y, "."); exit !(x[1] > y[1] || (x[1] == y[1] && x[2] >= y[2])) }' </dev/null; }

# What Tacit cannot be built for, in one line.
refuse_unsupported() {
  case $(uname -s) in Linux) ;; *) stop "this is $(uname -s); Tacit runs on Linux only (a container or a virtual machine will do)" /dev/null ;; esac
  case $(uname -m) in
    x86_64 | aarch64) ;;
    *) stop "this processor is $(uname -m); Tacit runs on x86_64 and aarch64 only" /dev/null ;;
  esac
}

# --- Python and compiler ----------------------------------------------------------------------------------------------

# python_version PYTHON: as 3.11, nothing where it does not run.
python_version() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null; }

# python_lacks PYTHON: packages without which it makes no venv, or compiles no module.
python_lacks() {
  "$1" -c '
import importlib.util as u, os, sys, sysconfig
if not (u.find_spec("venv") and (u.find_spec("ensurepip") or sys.argv[1])):
    print("python3-venv")
if not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")):
    print("python3-dev")' "$(command -v uv)" 2>/dev/null || echo python3-venv python3-dev
}

# python_is WHAT PYTHON: version (new enough), complete (lacks nothing).
python_is() {
  have "$2" && at_least "$(python_version "$2")" "$(oldest python)" || return 1
  [ "$1" = version ] || [ -z "$(python_lacks "$2")" ]
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

# --- packages ---------------------------------------------------------------------------------------------------------

cmake_is_new() {
  have cmake || return 1
  cmake --version | head -n 1 | awk '{ split($3, v, "."); exit !(v[1] > 3 || (v[1] == 3 && v[2] >= 22)) }'
}

# A header that the compiler finds; without a compiler, one that stands in the usual place.
header() {
  if have "$compiler"; then printf '#include <%s>\n' "$1" | "$compiler" -E -x c++ - >/dev/null 2>&1; else [ -e "/usr/include/$1" ]; fi
}

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

# Sets missing to all packages that are missing, of Debian's names.
list_missing() {
  installed=
  if have dpkg-query; then
    # shellcheck disable=SC2016  # the braces are dpkg's
    installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' libgtest-dev libmetis-dev libsuitesparse-dev libeigen3-dev libopenblas-dev zlib1g-dev 2>/dev/null |
      awk '$1 == "installed" { printf "%s ", $2 }')
  fi
  missing=
  if ! find_python complete; then
    if find_python version; then missing=$(python_lacks "$python" | awk '{ printf " %s", $0 }'); else missing=' python3-venv python3-dev'; fi
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

# of_kind KIND PACKAGE...: those packages that are needed, pypi or optional (scripts/packages.txt).
of_kind() {
  kind=$1
  shift
  for package; do
    if [ "$(awk -v name="$package" '$1 == name { print $2 }' "$root/scripts/packages.txt")" = "$kind" ]; then printf ' %s' "$package"; fi
  done
}

# without LIST PACKAGE...: the list without them.
without() {
  list=" $1 "
  shift
  for package; do list=$(printf '%s' "$list" | sed "s/ $package / /"); done
  # shellcheck disable=SC2086  # words
  printf '%s' "$(printf ' %s' $list)" | sed 's/^ $//'
}

# The line that installs these packages here, in the names of this system.
install_line() {
  for manager in apt-get dnf zypper pacman; do
    if have "$manager"; then break; fi
  done
  case $manager in
    dnf) words='dnf install' column=3 ;;
    zypper) words='zypper install' column=3 ;;
    pacman) if have pacman; then words='pacman -S' column=4; else words='apt-get install --no-install-recommends' column=1; fi ;;
    *) words='apt-get install --no-install-recommends' column=1 ;;
  esac
  names=$(for package; do awk -v name="$package" -v column="$column" '$1 == name { print $column }' "$root/scripts/packages.txt"; done | awk '!seen[$0]++ { printf " %s", $0 }')
  say "as root: $words$names"
}

# How to become root: empty for root, sudo if it may be used, "no" otherwise.
find_root_command() {
  as_root=no
  if [ "$(id -u)" = 0 ]; then
    as_root=
  elif have sudo; then
    if sudo -n true 2>/dev/null || { [ -t 0 ] && [ "${CI:-}" != true ]; }; then as_root=sudo; fi
  fi
  can_install=yes
  if ! have apt-get || [ "$as_root" = no ]; then can_install=no; fi
}

# apt_version PACKAGE: what apt would install, nothing where it does not know.
apt_version() { apt-cache policy "$1" 2>/dev/null | awk '$1 == "Candidate:" && $2 ~ /^[0-9]/ { sub(/^[0-9]+:/, "", $2); print $2 }'; }

# apt_update: updates the lists of packages, once; fails where apt may not be used.
apt_update() {
  if [ "$can_install" = no ]; then return 1; fi
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
