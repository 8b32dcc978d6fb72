"""Solves matrix files on several numbers of ranks with the command line and tabulates the verified results.

    python bench/real_ranks.py FOLDER [--ranks 1 2 4] [--json FILE] [--rtol 1e-8] [--limit SECONDS] [--only NAME ...]

FOLDER holds NAME.petsc files. SYSTEMS has the method and preconditioner for some names; others use `auto` and `ilu0`.
b = 1, x = 0. Every residual is ||b - A x|| / ||b||, recomputed by Tacit after the solve.
"""

import pathlib
import sys

import harness

SYSTEMS = {
    "mni_rw": ("cg", "ic0"),
    "mni_cd": ("bicgstab", "ilu0"),
    "usa_B": ("cg", "ic0"),
    "peg_B": ("cg", "ic0"),
    "peg_jac": ("gmres", "ilu0"),
    "usa_jac": ("gmres", "ilu0"),
}


def solve(path, ranks, method, precond, options):
    command = [sys.executable, "-m", "tacit", "solve", path, "--ranks", ranks, "--method", method, "--precond", precond]
    command += ["--rtol", options.rtol, "--restart", 60, "--max-iterations", 3000, "--json", "-"]
    return harness.facts(command, accepted=(0, 3), timeout=options.limit, threads=None)


def main():
    parser = harness.parser(__doc__, ranks=(1, 2, 4))
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--rtol", type=float, default=1e-8)
    parser.add_argument("--limit", type=float, default=600)
    parser.add_argument("--only", nargs="+")
    options = parser.parse_args()
    print(
        f"{'system':9} {'unknowns':>9} {'nonzeros':>10} ranks method    precond  {'reason':14} {'iterations':>10} {'residual':>9} {'read':>7} {'setup':>7} {'solve':>7}  reductions  MB sent"
    )
    results = []
    for path in sorted(options.folder.glob("*.petsc")):
        if options.only and path.stem not in options.only:
            continue
        method, precond = SYSTEMS.get(path.stem, ("auto", "ilu0"))
        for ranks in options.ranks:
            r = solve(path, ranks, method, precond, options)
            r["history"] = r["history"][:: max(1, len(r["history"]) // 50)]
            r["file"] = path.name
            results.append(r)
            seconds, counts = r["seconds"], r["counts"]
            print(
                f"{path.stem:9} {r['unknowns']:9} {r['nonzeros']:10} {ranks:5} {r['method']:9} {precond:8} {r['reason']:14} {r['iterations']:10}"
                f" {r['residual_norm']:9.2e} {seconds['read']:7.2f} {seconds['setup']:7.2f} {seconds['solve']:7.2f} {counts['reductions']:11} {counts['bytes'] / 1e6:8.1f}",
                flush=True,
            )
    harness.write(options.json, "real/1", runs=results)


if __name__ == "__main__":
    main()
