#!/bin/sh
# with_delay.sh DELAY_US[,RATE_MBIT[,JITTER_US]] PROGRAM [ARGUMENTS...] - runs an MPI program of two ranks over a slow wire.
#
#   scripts/with_delay.sh 500 tacit poisson --n 65 --schedule jobs
#   MPI=openmpi or mpich: the MPI that the program was built with [openmpi where there is mpirun.openmpi]
#   TUNDELAY=path: the wire, compiled [bench/rig/tundelay.c is compiled for this run]
#
# Connects two network namespaces, with one rank each on a core of its own, by an emulated wire, which adds some 45 us of its own.
# Returns the program's exit code, or 77 where namespaces or TUN devices cannot be made (root is needed).
set -u
here=$(cd "$(dirname "$0")" && pwd)
[ $# -ge 2 ] || { sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit 2; }
wire=$(echo "$1" | tr ',' ' '); shift
a=tacit$$a b=tacit$$b
work=$(mktemp -d)
line=
clean() {
  [ -n "$line" ] && kill "$line" 2>/dev/null && wait "$line" 2>/dev/null
  ip netns del $a 2>/dev/null; ip netns del $b 2>/dev/null
  rm -rf "$work"
}
trap clean EXIT
trap 'exit 130' INT TERM
if ! { [ "$(uname)" = Linux ] && command -v ip >/dev/null && [ -e /dev/net/tun ] && ip netns add $a 2>/dev/null && ip netns add $b 2>/dev/null; }; then
  echo "with_delay: cannot make network namespaces here (root, iproute2 and /dev/net/tun are needed), skipped" >&2
  exit 77
fi
if [ -z "${TUNDELAY:-}" ]; then
  TUNDELAY=$work/tundelay
  "${CC:-cc}" -O2 "$here/../bench/rig/tundelay.c" -o "$TUNDELAY" -lm || exit 2
fi
# shellcheck disable=SC2086
"$TUNDELAY" $a $b 10.77.0.1 10.77.0.2 $wire 2>"$work/line.log" & line=$!
for _ in 1 2 3 4 5 6 7 8 9 10; do sleep 0.1; grep -q "up, one way" "$work/line.log" 2>/dev/null && break; done
kill -0 "$line" 2>/dev/null || { cat "$work/line.log" >&2; echo "with_delay: no wire, skipped" >&2; exit 77; }
pin0='' pin1=''
[ "$(nproc)" -ge 2 ] && command -v taskset >/dev/null && pin0="taskset -c 0" pin1="taskset -c 1"
mpi=${MPI:-$(command -v mpirun.openmpi >/dev/null && echo openmpi || echo mpich)}
case $mpi in
  mpich) # its launcher speaks to the ranks by inherited descriptors, which need no network
    launcher=$(command -v mpirun.mpich || command -v mpirun)
    UCX_TLS=tcp,self UCX_NET_DEVICES=dl0 UCX_RNDV_THRESH=${UCX_RNDV_THRESH:-inf} MPIR_CVAR_NOLOCAL=1 FI_PROVIDER=${FI_PROVIDER:-tcp} \
      "$launcher" -np 1 ip netns exec $a $pin0 "$@" : -np 1 ip netns exec $b $pin1 "$@" ;;
  openmpi) # a "remote shell" that enters the namespace of an address; its two daemons would bind both ranks to one core
    launcher=$(command -v mpirun.openmpi || command -v mpirun)
    printf '#!/bin/sh\nh=$1; shift\ncase $h in 10.77.0.1) n=%s;; *) n=%s;; esac\nexec ip netns exec $n %s /bin/sh -c "$*"\n' $a $b "$pin1" >"$work/rsh"
    chmod +x "$work/rsh"; printf '10.77.0.1\n10.77.0.2\n' >"$work/hosts"
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    ip netns exec $a $pin0 "$launcher" -np 2 --hostfile "$work/hosts" --map-by node --bind-to none --mca plm_rsh_agent "$work/rsh" \
      --mca btl tcp,self --mca pml ob1 --mca btl_tcp_if_include dl0 --mca oob_tcp_if_include dl0 ${OMP_NUM_THREADS:+-x OMP_NUM_THREADS} "$@" ;;
  *) echo "with_delay: MPI is \"$mpi\"; openmpi or mpich is needed" >&2; exit 2 ;;
esac
status=$?
kill "$line" 2>/dev/null; wait "$line" 2>/dev/null; line=
cat "$work/line.log" >&2
exit $status
