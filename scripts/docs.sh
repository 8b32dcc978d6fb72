#!/bin/sh
# Makes the site of the documents: build/docs/html/index.html. Runs the blocks of the guide, notebooks of some pages and the
# gallery's examples, which takes some minutes the first time, and is repeated for pages that have changed, or all of them where
# the package has. Warnings are errors: a link that leads nowhere, a page in no list, a docstring that is no valid text.
#
#   scripts/docs.sh           what ./run docs does after it has built the module
#   scripts/docs.sh --clean   from nothing
#
# Its Python packages are those of requirements/docs.lock, in build/docs-venv, on top of .venv. Where there is doxygen the
# reference of C++ is complete, else it only lists headers.
set -eu
cd "$(dirname "$0")/.."
root=$PWD out=$PWD/build/docs venv=$PWD/build/docs-venv
case ${1-} in
  '') ;;
  --clean) rm -rf "$out" ;;
  *) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" >&2 && exit 2 ;;
esac
[ -x .venv/bin/python ] || { echo 'no .venv: ./run makes it' >&2 && exit 5; }
if ! cmp -s requirements/docs.lock "$venv/lock"; then
  .venv/bin/python -m venv --clear "$venv"
  "$venv/bin/pip" -q --disable-pip-version-check install --no-deps -r requirements/docs.lock
  # What is not installed here is taken from .venv.
  .venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
    >"$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/tacit.pth"
  cp requirements/docs.lock "$venv/lock"
fi
export PYTHONPATH="$root/python" TACIT_ROOT="$root" TACIT_DOCS_BUILD="$out" MPLBACKEND=Agg
"$venv/bin/python" docs/site/prepare.py "$out/source" "$out/shown"
"$venv/bin/python" -m sphinx -q -W --keep-going -c docs/site -d "$out/doctrees" "$out/source" "$out/html"
"$venv/bin/python" docs/site/check.py "$out/html"
echo "the site: $out/html/index.html"
