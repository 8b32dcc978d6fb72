# shellcheck shell=bash
# Read by .ci/run and .ci/nightly, with the limit in minutes: part NAME COMMAND..., and at the end totals, whose last line is
# `N passed, N failed`. Needs no input and no terminal.
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 5
export CI=true GTEST_COLOR=no NO_COLOR=1 PY_COLORS=0
budget=$((${TACIT_CI_MINUTES:-$1} * 60))
passed=0 failed=0
names=$(mktemp)
trap 'rm -f "$names"' EXIT

# part NAME COMMAND...: runs it for at most the time that is left and adds its last line `N passed, N failed` to the totals.
part() {
  local name=$1 limit=$((budget - SECONDS)) log start=$SECONDS status line
  shift
  if ((limit <= 0)); then
    echo "failed: $name: no time left" >>"$names"
    failed=$((failed + 1))
    return
  fi
  log=$(mktemp)
  echo "=== $name: $* (at most $limit s)"
  timeout --kill-after=20 "$limit" "$@" </dev/null 2>&1 | tee "$log"
  status=${PIPESTATUS[0]}
  line=$(grep -E '^[0-9]+ passed, [0-9]+ failed$' "$log" | tail -n 1)
  sed -n "s/^failed:/failed: $name:/p" "$log" >>"$names"
  rm -f "$log"
  [[ $status == 0 ]] || echo "failed: $name: exit code $status" >>"$names"
  if [[ $line =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed$ ]]; then
    passed=$((passed + BASH_REMATCH[1]))
    failed=$((failed + BASH_REMATCH[2]))
    if [[ $status != 0 && ${BASH_REMATCH[2]} == 0 ]]; then failed=$((failed + 1)); fi
  elif [[ $status == 0 ]]; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
  fi
  echo "=== $name: exit code $status, $((SECONDS - start)) s"
}

totals() {
  cat "$names"
  echo "$SECONDS s in all"
  echo "$passed passed, $failed failed"
  ((failed == 0 && passed > 0))
}
