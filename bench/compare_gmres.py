"""GMRES and its s-step and pipelined variants compared with PETSc and Belos: alternating runs, medians, ratios.

    python bench/compare_gmres.py [--build build/release] [--rounds 3] [--ranks 1] [--only 2d5:30]
                                  [--contestant WORD ...] [--json FILE]

Needs petsc_solve and belos_solve (Debian: petsc-dev, libtrilinos-{belos,tpetra,ifpack2,xpetra,zoltan2,kokkos,
kokkos-kernels,teuchos,trilinosss}-dev; `ninja -C build/release belos_solve`); a missing peer is reported and left out.
One thread per rank. All do the same number of iterations of GMRES(m) from x = 0, b = 1. The true residual of each is
printed, to check that faster results are equally accurate. Ratios are to PETSc's best setting.
"""

import harness
from compare_petsc import run

# problem, n, restart, iterations, preconditioner (ilu0: block-Jacobi over ranks)
PROBLEMS = [
    ("2d5", 1024, 30, 120, "none"),
    ("3d7", 128, 20, 40, "none"),
    ("3d7", 128, 30, 60, "none"),
    ("3d7", 128, 60, 60, "none"),
    ("3d7", 128, 30, 60, "ilu0"),
    ("3d27", 128, 20, 40, "none"),
    ("3d27", 128, 60, 60, "none"),
    ("3d27", 128, 20, 40, "ilu0"),
]
S_STEP = ["Compute Ritz Values on Fly=true"]


def contestants(problem, restart, precond):
    """Name, program, method and arguments of each candidate."""
    m = f"restart={restart}"
    tacit = [
        ("gmres", []),
        ("ca-gmres s=5", ["step=5"]),
        ("ca-gmres s=10", ["step=10"]),
        ("ca-gmres s=10, float32 basis", ["step=10", "storage=float32"]),
        ("pipelined-gmres l=2", ["depth=2"]),
        ("pipelined-ca-gmres (2,5)", ["depth=2", "block=5"]),
    ]
    if problem in ("2d5", "3d7") and precond == "none":
        tacit += [
            ("gmres, stencil", ["format=stencil"]),
            ("ca-gmres s=10, stencil", ["step=10", "format=stencil"]),
            ("ca-gmres s=10, float32 basis, stencil", ["step=10", "storage=float32", "format=stencil"]),
        ]
    for name, options in tacit:
        yield "tacit " + name, "bench_solve", name.split()[0].rstrip(","), [m, *options]
    for name, options in (("aij", []), ("sell", ["-mat_type", "sell"])):
        yield f"petsc gmres, {name}", "petsc_solve", "gmres", ["-ksp_gmres_restart", restart, *options]
    yield "petsc pgmres", "petsc_solve", "pgmres", ["-ksp_gmres_restart", restart]
    for name, options in (
        ("S-STEP s=5", ["Step Size=5", *S_STEP]),
        ("S-STEP s=10", ["Step Size=10", *S_STEP]),
        ("SINGLE REDUCE", []),
    ):
        solver = "TPETRA GMRES " + name.split(" s=")[0]
        yield "belos " + name, "belos_solve", solver, [f"Num Blocks={restart}", *options]


def compare(case, ranks, options):
    problem, n, restart, iterations, precond = case
    candidates, absent = {}, set()
    for name, program, method, more in contestants(problem, restart, precond):
        if options.contestant and not any(word in name for word in options.contestant):
            continue
        path = options.build / "bench" / program
        if not path.exists():
            absent.add(name.split()[0])
            continue
        P = {"ilu0": "bjacobi"}.get(precond, precond) if program == "petsc_solve" else precond
        words = [problem, n, method, P, iterations, 3, *more]
        candidates[name] = lambda path=path, words=words: run(options.mpiexec, ranks, path, words)
    if absent:
        print(f"left out: {', '.join(sorted(absent))} (not built)")
    rows = {}
    for name, found in harness.turns(options.rounds, candidates).items():
        seconds = harness.joined(found, skip=1)  # the first solve includes the first use of its memory
        kept = ("iterations", "residual", "storage", "reductions", "products", "failure")
        if seconds:
            rows[name] = {"seconds": seconds, **{key: found[-1][key] for key in kept if key in found[-1]}}
            rows[name]["ms"] = harness.median_ms(seconds, rows[name]["iterations"])
    # PETSc's sell has no ILU: settings that did not do the same work are not compared.
    least = min(row["residual"] for row in rows.values())
    petsc = min(
        (row["ms"] for name, row in rows.items() if name.startswith("petsc gmres") and row["residual"] < 2 * least),
        default=None,
    )
    print(
        f"\n{problem} n = {n}, GMRES({restart}), {precond}, {iterations} iterations, {ranks} rank{'s' if ranks > 1 else ''}"
    )
    print(f"{'':42} {'ms/it':>8} {'/ PETSc':>8}  residual      sums")
    for name, row in rows.items():
        row["ratio"] = row["ms"] / petsc if petsc else None
        print(
            f"{name:42} {row['ms']:8.2f} {row['ratio'] or 0:8.2f}  {row['residual']:.6e}  {row.get('reductions', '')}"
            f"{' ' + row['failure'] if row.get('failure') else ''}",
            flush=True,
        )
    return {
        "problem": problem,
        "n": n,
        "restart": restart,
        "precond": precond,
        "iterations": iterations,
        "ranks": ranks,
        "rows": rows,
    }


def main():
    parser = harness.parser(__doc__, build=True, rounds=3, ranks=(1,))
    parser.add_argument("--only", nargs="+", help="PROBLEM, PROBLEM:RESTART or PROBLEM:RESTART:PRECOND")
    parser.add_argument("--contestant", nargs="+", help="only those whose name has one of these words")
    options = parser.parse_args()
    results = []
    for ranks in options.ranks:
        for case in PROBLEMS:
            problem, _, restart, _, precond = case
            names = (problem, f"{problem}:{restart}", f"{problem}:{restart}:{precond}")
            if options.only is None or any(name in options.only for name in names):
                results.append(compare(case, ranks, options))
    harness.write(options.json, "gmres/1", rounds=options.rounds, results=results)


if __name__ == "__main__":
    main()
