#!/bin/sh
# with_delay.sh DELAY_US[,RATE_MBIT[,JITTER_US]] PROGRAM [ARGUMENTS...] - runs an MPI program over slow wires.
#
#   scripts/with_delay.sh 500 tacit poisson --n 65 --schedule jobs
#   RANKS=4: how many ranks, 2 to 16 [2]
#   MPI=openmpi or mpich: the MPI that the program was built with [openmpi where there is mpirun.openmpi]
#   TUNDELAY=path: the wire, compiled [bench/rig/tundelay.c is compiled for this run]
#
# Connects network namespaces, with one rank each on a core of its own as far as there are cores, by emulated wires, which
# add some 45 us of their own. Returns the program's exit code, or 77 where namespaces or TUN devices cannot be made (root
# is needed).
set -u
here=$(cd "$(dirname "$0")" && pwd)
[ $# -ge 2 ] || { sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit 2; }
wire=$1; shift
ranks=${RANKS:-2}
case $ranks in [2-9]|1[0-6]) ;; *) echo "with_delay: RANKS is \"$ranks\"; a number from 2 to 16 is needed" >&2; exit 2 ;; esac
all=$(seq "$ranks")
work=$(mktemp -d)
line=
clean() {
  [ -n "$line" ] && kill "$line" 2>/dev/null && wait "$line" 2>/dev/null
  for i in $all; do ip netns del "tacit$$x$i" 2>/dev/null; done
  rm -rf "$work"
}
trap clean EXIT
trap 'exit 130' INT TERM
if ! { [ "$(uname)" = Linux ] && command -v ip >/dev/null && [ -e /dev/net/tun ] && ip netns add "tacit$$x1" 2>/dev/null; }; then
  echo "with_delay: cannot make network namespaces here (root, iproute2 and /dev/net/tun are needed), skipped" >&2
  exit 77
fi
ends=
for i in $all; do
  [ "$i" = 1 ] || ip netns add "tacit$$x$i" || exit 77
  ends="$ends tacit$$x$i=10.77.0.$i"
done
if [ -z "${TUNDELAY:-}" ]; then
  TUNDELAY=$work/tundelay
  "${CC:-cc}" -O2 "$here/../bench/rig/tundelay.c" -o "$TUNDELAY" -lm || exit 2
fi
# shellcheck disable=SC2086
"$TUNDELAY" "$wire" $ends 2>"$work/line.log" & line=$!
for _ in 1 2 3 4 5 6 7 8 9 10; do sleep 0.1; grep -q "up, one way" "$work/line.log" 2>/dev/null && break; done
kill -0 "$line" 2>/dev/null || { cat "$work/line.log" >&2; echo "with_delay: no wire, skipped" >&2; exit 77; }
# `enter I COMMAND...` runs a command in namespace I, on a core of its own.
{
  printf '#!/bin/sh\ni=$1; shift\npin=\n'
  [ "$(nproc)" -ge 2 ] && command -v taskset >/dev/null && printf 'pin="taskset -c $(( (i - 1) %% %d ))"\n' "$(nproc)"
  printf 'exec ip netns exec tacit%sx$i $pin "$@"\n' $$
} >"$work/enter"
chmod +x "$work/enter"
mpi=${MPI:-$(command -v mpirun.openmpi >/dev/null && echo openmpi || echo mpich)}
case $mpi in
  mpich) # its launcher speaks to the ranks by inherited descriptors, which need no network
    launcher=$(command -v mpirun.mpich || command -v mpirun)
    printf '#!/bin/sh\nexec "%s/enter" $((PMI_RANK + 1)) "$@"\n' "$work" >"$work/by_rank"
    chmod +x "$work/by_rank"
    UCX_TLS=tcp,self UCX_NET_DEVICES=dl0 UCX_RNDV_THRESH=${UCX_RNDV_THRESH:-inf} MPIR_CVAR_NOLOCAL=1 FI_PROVIDER=${FI_PROVIDER:-tcp} \
      "$launcher" -np "$ranks" "$work/by_rank" "$@" ;;
  openmpi) # a "remote shell" that enters the namespace of an address; daemons would bind all ranks to one core
    launcher=$(command -v mpirun.openmpi || command -v mpirun)
    printf '#!/bin/sh\ni=${1##*.}; shift\nexec "%s/enter" $i /bin/sh -c "$*"\n' "$work" >"$work/rsh"
    chmod +x "$work/rsh"
    for i in $all; do echo "10.77.0.$i"; done >"$work/hosts"
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    "$work/enter" 1 "$launcher" -np "$ranks" --hostfile "$work/hosts" --map-by node --bind-to none --mca plm_rsh_agent "$work/rsh" \
      --mca btl tcp,self --mca pml ob1 --mca btl_tcp_if_include dl0 --mca oob_tcp_if_include dl0 ${OMP_NUM_THREADS:+-x OMP_NUM_THREADS} "$@" ;;
  *) echo "with_delay: MPI is \"$mpi\"; openmpi or mpich is needed" >&2; exit 2 ;;
esac
status=$?
kill "$line" 2>/dev/null; wait "$line" 2>/dev/null; line=
cat "$work/line.log" >&2
exit $status
