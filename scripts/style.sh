#!/bin/sh
# Checks the source: clang-format, ruff (rules and format), mypy --strict, generated files (up to date?), and shellcheck
# where it is installed. Run ./test before, since this needs its Python packages and module.
#
#   scripts/style.sh         prints differences; the last line is `N passed, N failed`
#   scripts/style.sh --fix   corrects what clang-format and ruff can correct
#
# The tools come from PyPI in the versions of requirements/develop.lock, into build/style. They are installed again when that
# file changes.
set -eu
cd "$(dirname "$0")/.."
tools=build/style
case ${1-} in
  '') fix= ;;
  --fix) fix=yes ;;
  *) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" >&2 && exit 2 ;;
esac
[ -x .venv/bin/python ] || { echo 'no .venv: ./run makes it' >&2 && exit 5; }
if ! cmp -s requirements/develop.lock "$tools/lock"; then
  .venv/bin/python -m venv --clear "$tools"
  "$tools/bin/pip" -q --disable-pip-version-check install --no-deps -r requirements/develop.lock
  cp requirements/develop.lock "$tools/lock"
fi
passed=0 failed=0
# check NAME COMMAND...
check() {
  name=$1
  shift
  if "$@"; then passed=$((passed + 1)); else
    failed=$((failed + 1))
    echo "failed: $name"
  fi
}
formatted() { git ls-files '*.hpp' '*.cpp' '*.cu' '*.cuh' '*.h' '*.c' | xargs "$tools/bin/clang-format" "$@"; }
if [ -n "$fix" ]; then
  formatted -i
  "$tools/bin/ruff" check -q --fix . || true
  "$tools/bin/ruff" format -q .
fi
check clang-format formatted --dry-run -Werror
check 'ruff check' "$tools/bin/ruff" check -q .
check 'ruff format' "$tools/bin/ruff" format -q --check .
# What follows from the tables of options: types, objects, reference pages.
check 'up to date' env PATH="$PWD/$tools/bin:$PATH" .venv/bin/python scripts/describe.py --check
check 'mypy --strict' "$tools/bin/mypy" --strict --python-executable .venv/bin/python python/tacit
if command -v shellcheck >/dev/null 2>&1; then
  check shellcheck shellcheck -x -S warning run test .ci/run .ci/nightly scripts/*.sh packaging/*.sh bench/device.sh
fi
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
