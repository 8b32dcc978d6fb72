"""Time per iteration of Tacit and PETSc on the same matrices: alternating runs, medians, ratios.

    python bench/compare_petsc.py [--build build/release] [--rounds 5] [--ranks 1 2] [--only 2d5:cg ...]
                                  [--json FILE]

Needs a build with TACIT_BENCH=ON on a machine with PETSc (Debian: petsc-dev); `petsc_solve` is then built next to
`bench_solve`. Debian's PETSc is compiled with -O2 for any x86-64 processor, Tacit with -O3 -march=native. One thread
per rank for both; ranks pinned by mpiexec. PETSc runs with each of the settings below, of which the best median counts;
Tacit runs with its defaults; its s-step methods are compared with PETSc's classical ones. Both do the same number of
iterations from x = 0, b = 1, and both residuals are printed, to check that faster results are equally accurate. PETSc's
is recomputed from b - A x; Tacit's is the recurrence residual of the last iterate, next to the recomputed one of the x
that it returns (bicgstab returns its best iterate, not its last).
"""

import os
import statistics
import sys

import harness
from tacit import _core

# problem, n, Tacit method, PETSc method, preconditioner, iterations
CASES = [
    ("2d5", 1024, "cg", "cg", "none", 200),
    ("2d5", 1024, "bicgstab", "bcgs", "none", 100),
    ("2d5", 1024, "gmres", "gmres", "none", 120),
    ("2d5", 1024, "ca-cg", "cg", "none", 200),
    ("2d5", 1024, "ca-gmres", "gmres", "none", 120),
    ("2d5", 1024, "cg", "cg", "ic0", 60),
    ("2d5", 1024, "gmres", "gmres", "ilu0", 60),
    ("3d7", 128, "cg", "cg", "none", 100),
    ("3d7", 128, "bicgstab", "bcgs", "none", 50),
    ("3d7", 128, "gmres", "gmres", "none", 60),
    ("3d7", 128, "ca-cg", "cg", "none", 100),
    ("3d7", 128, "ca-gmres", "gmres", "none", 60),
    ("3d7", 128, "cg", "cg", "ic0", 30),
    ("3d7", 128, "gmres", "gmres", "ilu0", 30),
    ("3d7", 128, "richardson", "richardson", "jacobi", 100),
    # Elasticity, three unknowns per node: hexahedra in natural order, tetrahedra as mesh generators number them.
    ("hex3", 48, "product", "product", "none", 30),
    ("tet3", 56, "product", "product", "none", 30),
    ("hex3", 48, "cg", "cg", "none", 30),
    # Restricted additive Schwarz with one level of overlap, ILU(0) inside: the default of both.
    ("2d5", 512, "gmres", "gmres", "schwarz", 60),
]
PETSC_PRECONDS = {"schwarz": "asm", "ilu0": "bjacobi", "ic0": "bjacobi"}  # PETSc's names where they differ
PETSC_SETTINGS = {
    "aij": [],
    "sell": ["-mat_type", "sell"],
    "aij, fused": ["-ksp_cg_single_reduction"],
    "baij": ["-mat_type", "baij"],
    "baij, fused": ["-mat_type", "baij", "-ksp_cg_single_reduction"],
    "aij, right": ["-ksp_pc_side", "right"],  # Tacit's side
    "aij, icc": ["-sub_pc_type", "icc"],
}


def run(mpiexec, ranks, program, arguments):
    """The JSON line of a run with one thread per rank. An OpenBLAS older than the processor has to know which kernels to
    use, as Tacit does only for itself."""
    kernels = os.environ.get("OPENBLAS_CORETYPE") or _core.blas_kernels()
    more = {"OPENBLAS_CORETYPE": kernels} if kernels else {}
    return harness.facts([mpiexec, "--bind-to", "core", "-n", ranks, program, *arguments], **more)


def settings_for(problem, method, precond):
    """The PETSc settings that apply to this problem, method and preconditioner."""
    only = {"schwarz": "aij, right", "ilu0": "aij, right", "ic0": "aij, icc"}.get(precond)
    if only:
        return {only: PETSC_SETTINGS[only]}
    blocks = problem in ("hex3", "tet3")
    return {
        k: v
        for k, v in PETSC_SETTINGS.items()
        if not k.endswith(("right", "icc"))
        and ("fused" not in k or method in ("cg", "ca-cg"))
        and ("baij" not in k or blocks)
    }


def compare(case, ranks, options, mpiexec):
    problem, n, method, ksp, precond, iterations = case
    programs = {"tacit": ["bench_solve", method, precond, []]}
    pc = PETSC_PRECONDS.get(precond, precond)
    programs |= {
        name: ["petsc_solve", ksp, pc, words] for name, words in settings_for(problem, method, precond).items()
    }
    runs = harness.turns(
        options.rounds,
        {
            name: lambda program=program, its=its, pc=pc, words=words: run(
                mpiexec, ranks, options.build / "bench" / program, [problem, n, its, pc, iterations, 3, *words]
            )
            for name, (program, its, pc, words) in programs.items()
        },
    )
    mine, last = runs["tacit"][-1], {name: found[-1] for name, found in runs.items()}
    ours = harness.joined(runs.pop("tacit"))
    theirs = {name: harness.joined(found) for name, found in runs.items()}
    best = min(theirs, key=lambda name: statistics.median(theirs[name]))
    tacit_ms = harness.median_ms(ours, mine["iterations"])
    petsc_ms = harness.median_ms(theirs[best], last[best]["iterations"])
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
    parser = harness.parser(__doc__, build=True, rounds=5, ranks=(1, 2))
    parser.add_argument(
        "--only", nargs="+", default=[], help="PROBLEM:METHOD or PROBLEM:METHOD:PRECONDITIONER, several"
    )
    options = parser.parse_args()
    if not (options.build / "bench/petsc_solve").exists():
        sys.exit(f"{options.build}/bench/petsc_solve is missing: install petsc-dev and build with -DTACIT_BENCH=ON")
    named = [{f"{c[0]}:{c[2]}", f"{c[0]}:{c[2]}:{c[4]}"} for c in CASES]
    unknown = set(options.only) - set().union(*named)
    if unknown:
        parser.error(f"--only {sorted(unknown)[0]}; there are {', '.join(max(words, key=len) for words in named)}")
    cases = [c for c, words in zip(CASES, named, strict=True) if not options.only or words & set(options.only)]
    bandwidth = {n: harness.facts([options.build / "bench/bench_bandwidth"], threads=n) for n in (1, 2)}
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
    harness.write(options.json, "petsc/1", bandwidth=bandwidth, rounds=options.rounds, rows=rows)


if __name__ == "__main__":
    main()
