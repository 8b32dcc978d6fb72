"""Solves by PETSc's cg and by tacit_cg of the plug-in with the same preconditioners of PETSc: alternating runs, medians.

    python bench/compare_petsc_types.py [--build build/release] [--rounds 9] [--solves 6] [--ranks 1 2]
                                        [--only mg ...] [--json FILE]

Needs a build with TACIT_BENCH=ON on a machine with PETSc, and `tacit_petsc` (`cmake --build B --target tacit_petsc`).
One thread per rank. Both run with rtol 1e-6 of the unpreconditioned residual, from x = 0, and take the same number of
iterations. Times: the first solve of a program, and the later ones (with the same matrix and set-up); the set-up stands
beside them, since vectors are made there. PETSc's "preonly" with factors checks nothing, and stands in a row of its own.
"""

import statistics
import sys

import harness

CUBE = "-dim 3 -da_grid_x 49 -da_grid_y 49 -da_grid_z 49"
SQUARE = "-da_grid_x {0} -da_grid_y {0}"
CASES = {
    "mg": f"{CUBE} -pc_type mg -pc_mg_levels 4",
    "hypre": f"{SQUARE.format(300)} -pc_type hypre",
    "gamg": f"{SQUARE.format(300)} -pc_type gamg",
    "bjacobi": f"{SQUARE.format(300)} -pc_type bjacobi",
    "jacobi": f"{SQUARE.format(200)} -pc_type jacobi",
    "lu": f"{SQUARE.format(200)} -pc_type lu",
    "mumps": f"{SQUARE.format(200)} -pc_type lu -pc_factor_mat_solver_type mumps",
    "superlu": f"{SQUARE.format(200)} -pc_type lu -pc_factor_mat_solver_type superlu_dist",
}
FACTORS = {"lu", "mumps", "superlu"}
ONE_RANK = {"lu"}


def programs(name, options):
    """The command line of each candidate."""
    common = [*CASES[name].split(), "-ksp_rtol", "1e-6", "-solves", options.solves]
    plugin = options.build.resolve() / "src" / "petsc" / "libtacit_petsc.so"
    found = {
        "petsc": [*common, "-ksp_type", "cg", "-ksp_norm_type", "unpreconditioned"],
        "tacit": [*common, "-dll_append", plugin, "-ksp_type", "tacit_cg"],
    }
    if name in FACTORS:
        found["preonly"] = [*common, "-ksp_type", "preonly"]
    return found


def compare(name, ranks, options):
    program = options.build / "bench" / "petsc_types"
    runs = harness.turns(
        options.rounds,
        {
            who: lambda words=words: harness.facts(
                [options.mpiexec, "--bind-to", "core", "-n", ranks, program, *words], threads=1
            )
            for who, words in programs(name, options).items()
        },
    )
    row = {"case": name, "ranks": ranks}
    for who, found in runs.items():
        row[who] = {
            "setup_ms": harness.median_ms([run["setup"] for run in found]),
            "first_ms": harness.median_ms([run["seconds"][0] for run in found]),
            "later_ms": harness.median_ms(harness.joined(found, skip=1)),
            "iterations": found[-1]["iterations"],
            "residual": found[-1]["residual"],
            "reason": found[-1]["reason"],
            "seconds": [run["seconds"] for run in found],
        }
    # Of each round, whose runs stand beside each other.
    pairs = [
        statistics.median(t["seconds"][1:]) / statistics.median(p["seconds"][1:])
        for t, p in zip(runs["tacit"], runs["petsc"], strict=True)
    ]
    return row | {
        "ratio_first": row["tacit"]["first_ms"] / row["petsc"]["first_ms"],
        "ratio_later": row["tacit"]["later_ms"] / row["petsc"]["later_ms"],
        "ratio_of_rounds": statistics.median(pairs),
    }


def main():
    parser = harness.parser(__doc__, build=True, rounds=9, ranks=(1, 2))
    parser.add_argument("--solves", type=int, default=6)
    parser.add_argument("--only", nargs="+", choices=list(CASES), default=list(CASES))
    options = parser.parse_args()
    for path in ("bench/petsc_types", "src/petsc/libtacit_petsc.so"):
        if not (options.build / path).exists():
            sys.exit(f"{options.build}/{path} is missing: build the targets petsc_types and tacit_petsc")
    print(f"{'':8} ranks  {'':7} {'set-up':>9} {'first':>9} {'later':>9}   its  residual   ratio: first, later")
    rows = []
    for ranks in options.ranks:
        for name in options.only:
            if ranks > 1 and name in ONE_RANK:
                continue
            row = compare(name, ranks, options)
            rows.append(row)
            for who in ("petsc", "tacit", "preonly"):
                if who not in row:
                    continue
                one = row[who]
                end = f"{row['ratio_first']:.2f} {row['ratio_later']:.2f}" if who == "tacit" else ""
                print(
                    f"{name:8} {ranks:5}  {who:7} {one['setup_ms']:6.1f} ms {one['first_ms']:6.2f} ms"
                    f" {one['later_ms']:6.2f} ms {one['iterations']:5}  {one['residual']:.2e}   {end}",
                    flush=True,
                )
    harness.write(options.json, "petsc_types/1", rounds=options.rounds, solves=options.solves, rows=rows)


if __name__ == "__main__":
    main()
