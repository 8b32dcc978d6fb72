#!/bin/sh
# test_paths.sh [BUILD...] - the paths of exchanges and the levels, as threads and on 1 to 8 processes (more than there are
# cores is fine), under the MPI of each build [build/release and, where it is there, build/release-mpich].
#
#   RANKS="1 2 3 4 6 8"   numbers of processes
#   FILTER=...            a GoogleTest filter
set -u
cd "$(dirname "$0")/.." || exit 2
if [ $# -eq 0 ]; then
  set -- build/release
  if [ -d build/release-mpich/tests ]; then set -- "$@" build/release-mpich; fi
fi
filter=${FILTER:-Paths.*:Windows.*:Gather.*:Topology.*:Places.*:Exchange.*:Pattern.*:SparseReduction.*}
export OMP_NUM_THREADS=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_mpi_yield_when_idle=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
failed=0
for build in "$@"; do
  program=$build/tests/comm/test_comm
  launcher=$(sed -n 's/^MPIEXEC_EXECUTABLE:FILEPATH=//p' "$build/CMakeCache.txt")
  if [ ! -x "$program" ] || [ -z "$launcher" ]; then
    echo "test_paths: $build has no $program (cmake --build $build --target test_comm) or no MPI" >&2
    exit 2
  fi
  log=$(mktemp)
  say() { printf '%-24s %-10s %s\n' "$build" "$1" "$2"; }
  if "$program" --gtest_filter="$filter" >"$log" 2>&1; then say threads "$(grep -c '  OK \]' "$log") passed"
  else say threads FAILED && cat "$log" && failed=1; fi
  for ranks in ${RANKS:-1 2 3 4 6 8}; do
    if TACIT_TEST_MPI=1 timeout 600 "$launcher" -n "$ranks" "$program" --gtest_filter="$filter" >"$log" 2>&1; then
      say "$ranks ranks" "$(grep -a '  PASSED  ' "$log" | head -n 1 | tr -cd '0-9a-z ')"
    else say "$ranks ranks" FAILED && cat "$log" && failed=1; fi
  done
  rm -f "$log"
done
exit $failed
