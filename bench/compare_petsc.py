"""Time per iteration of Tacit and PETSc on the same matrices: interleaved runs, medians, ratios.

    python bench/compare_petsc.py [--build build/release] [--rounds 5] [--ranks 1 2] [--only 2d5:cg] [--json FILE]

Needs a build with TACIT_BENCH=ON on a machine with PETSc (Debian: petsc-dev); `petsc_solve` is then built beside
`bench_solve`. Debian's PETSc is compiled with -O2 for any x86-64 processor, Tacit with -O3 -march=native. One thread a
rank for both; ranks pinned by mpiexec. PETSc runs with each of its settings below and its best median counts; Tacit runs as it comes. Both do the same number of iterations from x = 0, b = 1, and both residuals are
printed: a faster result is checked to be the same result. PETSc's is recomputed from b - A x; Tacit's is that of the last
iterate by the recurrence, beside the recomputed one of what it returns (bicgstab returns its best iterate, not its last).
"""

import argparse
import json
import os
import pathlib
import platform
import shutil
import statistics
import subprocess
import sys

from tacit import _core

# problem, n, Tacit method, PETSc method, preconditioner, iterations
CASES = [
    ("2d5", 1024, "cg", "cg", "none", 200),
    ("2d5", 1024, "bicgstab", "bcgs", "none", 100),
    ("2d5", 1024, "gmres", "gmres", "none", 120),
    ("3d7", 128, "cg", "cg", "none", 100),
    ("3d7", 128, "bicgstab", "bcgs", "none", 50),
    ("3d7", 128, "gmres", "gmres", "none", 60),
    ("3d7", 128, "richardson", "richardson", "jacobi", 100),
]
PETSC_SETTINGS = {
    "aij": [],
    "sell": ["-mat_type", "sell"],
    "aij, fused": ["-ksp_cg_single_reduction"],
}


def environment():
    """What all codes run under: one thread a rank; the variables without which Open MPI refuses root and many ranks; an
    OpenBLAS that does not know the processor told which one it is, as Tacit would do for itself alone."""
    env = dict(os.environ, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
    if kernels := _core.blas_kernels():
        env.setdefault("OPENBLAS_CORETYPE", kernels)
    env.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_rmaps_base_oversubscribe="1")
    return env


def run(mpiexec, ranks, program, arguments):
    """One run's JSON line."""
    command = [mpiexec, "--bind-to", "core", "-n", str(ranks), str(program), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0 or not lines:
        raise SystemExit(f"{' '.join(command)} failed with {done.returncode}:\n{done.stdout}{done.stderr}")
    return json.loads(lines[-1])


def settings_for(method):
    return {k: v for k, v in PETSC_SETTINGS.items() if "single_reduction" not in " ".join(v) or method == "cg"}


def compare(case, ranks, options, mpiexec):
    problem, n, method, ksp, precond, iterations = case
    ours, theirs = [], {name: [] for name in settings_for(method)}
    mine = None
    last = {}
    for _ in range(options.rounds):
        mine = run(mpiexec, ranks, options.build / "bench/bench_solve", [problem, n, method, precond, iterations, 3])
        ours += mine["seconds"]
        for name in theirs:
            peer = run(
                mpiexec,
                ranks,
                options.build / "bench/petsc_solve",
                [problem, n, ksp, precond, iterations, 3, *settings_for(method)[name]],
            )
            theirs[name] += peer["seconds"]
            last[name] = peer
    best = min(theirs, key=lambda name: statistics.median(theirs[name]))
    tacit_ms = 1e3 * statistics.median(ours) / mine["iterations"]
    petsc_ms = 1e3 * statistics.median(theirs[best]) / last[best]["iterations"]
    return {
        "problem": problem,
        "n": n,
        "method": method,
        "precond": precond,
        "ranks": ranks,
        "iterations": {"tacit": mine["iterations"], "petsc": last[best]["iterations"]},
        "residual": {
            "tacit": mine["recurrence_residual"],
            "tacit_recomputed": mine["residual"],
            "petsc": last[best]["residual"],
        },
        "tacit_ms": tacit_ms,
        "petsc_ms": petsc_ms,
        "ratio": tacit_ms / petsc_ms,
        "petsc_setting": best,
        "tacit_best_ms": 1e3 * min(ours) / mine["iterations"],
        "petsc_best_ms": 1e3 * min(theirs[best]) / last[best]["iterations"],
        "tacit_seconds": ours,
        "petsc_seconds": theirs,
        "storage": mine["storage"],
        "petsc": last[best]["code"],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/release"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--only", help="PROBLEM:METHOD")
    parser.add_argument("--mpiexec", default=shutil.which("mpiexec.openmpi") or shutil.which("mpiexec"))
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    if not (options.build / "bench/petsc_solve").exists():
        sys.exit(f"{options.build}/bench/petsc_solve is missing: install petsc-dev and build with -DTACIT_BENCH=ON")
    cases = [c for c in CASES if options.only in (None, f"{c[0]}:{c[2]}")]
    bandwidth = {}
    for threads in (1, 2):
        done = subprocess.run(
            [options.build / "bench/bench_bandwidth"],
            capture_output=True,
            text=True,
            check=True,
            env=dict(environment(), OMP_NUM_THREADS=str(threads)),
        )
        bandwidth[threads] = json.loads(done.stdout)
    print(f"read bandwidth: {bandwidth[1]['read_GB_per_s']} GB/s with 1 thread, {bandwidth[2]['read_GB_per_s']} with 2")
    print(
        f"{'problem':9} {'method':11} {'precond':7} ranks  {'Tacit':>9} {'PETSc':>9} {'ratio':>6} {'best':>6}   residuals (same iterations)"
    )
    rows = []
    for ranks in options.ranks:
        for case in cases:
            row = compare(case, ranks, options, options.mpiexec)
            rows.append(row)
            print(
                f"{row['problem']:3} {row['n']:5} {row['method']:11} {row['precond']:7} {ranks:5}  {row['tacit_ms']:6.2f} ms {row['petsc_ms']:6.2f} ms"
                f" {row['ratio']:6.2f} {row['tacit_best_ms'] / row['petsc_best_ms']:6.2f}   {row['residual']['tacit']:.4e} {row['residual']['petsc']:.4e}  [{row['petsc_setting']}]",
                flush=True,
            )
    if options.json:
        commit = subprocess.run(
            ["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False
        ).stdout.strip()
        result = {
            "schema": "tacit.bench.petsc/1",
            "machine": platform.processor() or platform.machine(),
            "cores": os.cpu_count(),
            "commit": commit,
            "bandwidth": bandwidth,
            "rounds": options.rounds,
            "rows": rows,
        }
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
