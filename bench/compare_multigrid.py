"""Tacit's multigrid compared with PETSc's PCMG and hypre's PFMG on one problem: alternating runs, best of each, ratios.

    python bench/compare_multigrid.py [--n 128] [--rounds 3] [--ranks 1 2] [--root DIR] [--json FILE]

Periodic Helmholtz, a = b = 0.9, triangle wave, to 1e-10 (PETSc and hypre by their own test in the 2-norm; every
residual is recomputed in the max norm). Two problems with the same values: "constant", where Tacit and hypre know that
no coefficient varies (hypre by HYPRE_StructMatrixSetConstantEntries), and "stored", where every cell has its own
coefficients; PETSc stores a matrix in both cases. Seconds of the set-up (grid, operator or matrix, and solver; the
coefficients of the cells exist before) and of the solve; ratios to the best peer on the same problem for the solve and
for both together. One thread per rank; for two ranks Tacit also runs on one rank with two threads.

Needs petsc-dev or libhypre-dev; a missing library is left out. --root: where packages have been unpacked without being
installed (dpkg -x). The peers' programs and Tacit are compiled with -O3 -march=native; Debian's libraries, in which the
peers spend their time, with -O2 for any x86-64 processor.
"""

import argparse
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import harness

HERE = pathlib.Path(__file__).resolve().parent
PROBLEMS = ("constant", "stored")
PETSC = ["-ksp_type", "cg", "-pc_type", "mg", "-ksp_rtol", "1e-10", "-ksp_norm_type", "unpreconditioned"]
PETSC += ["-mg_levels_ksp_type", "richardson", "-mg_levels_ksp_max_it", "2", "-mg_levels_pc_type", "sor"]


def peers(folder: pathlib.Path, n: int, repeat: int, root: pathlib.Path) -> dict:
    """The commands of the peers that could be built, by name and problem."""
    made: dict = {}
    compiler = ["-O3", "-march=native"]
    if shutil.which("pkg-config") and not subprocess.run(["pkg-config", "--exists", "PETSc"], check=False).returncode:
        flags = harness.output(["pkg-config", "--cflags", "--libs", "PETSc"]).split()
        program = folder / "petsc_multigrid"
        subprocess.run(["mpicxx", *compiler, HERE / "peers/petsc_multigrid.cpp", "-o", program, *flags], check=True)
        levels = max(2, (n & -n).bit_length() - 1)
        command = [program, "-n", n, "-repeat", repeat, *PETSC, "-pc_mg_levels", levels - 1]
        made |= {("PETSc cg + PCMG", problem): command for problem in PROBLEMS}
    if (root / "usr/include/hypre").exists():
        program = folder / "hypre_multigrid"
        flags = ["-I", root / "usr/include/hypre", "-lHYPRE", "-lm"]
        for libraries in (root / "usr/lib").glob("*-linux-gnu") if root != pathlib.Path("/") else ():
            flags += ["-L", libraries, f"-Wl,-rpath,{libraries}", "-Wl,--disable-new-dtags"]
        subprocess.run(["mpicc", *compiler, HERE / "peers/hypre_multigrid.c", "-o", program, *flags], check=True)
        for problem in PROBLEMS:
            for name, method in (("hypre PFMG", "pfmg"), ("hypre cg + PFMG", "cg")):
                made[name, problem] = [program, n, repeat, method, 2, 1e-10, problem]
    return made


def worker(n: int, problem: str, threads: int) -> None:
    """Runs Tacit on every rank and prints a JSON line like those of the peers' programs."""
    import numpy as np

    from tacit import multigrid as mg

    def wave(t: np.ndarray) -> np.ndarray:
        return np.abs(4 * (t - np.floor(t)) - 2) - 1

    beta = None if problem == "constant" else np.ones(len(mg.cells((n,) * 3, "periodic").centres()[0]))
    begin = time.perf_counter()
    cells = mg.cells((n,) * 3, "periodic")
    A = mg.finite_volume(cells, 0.9, 0.9, beta=beta)
    M = mg.multigrid(A)
    setup = time.perf_counter() - begin
    f = A.sample(lambda *at: np.prod([wave(c + 0.25) for c in at], axis=0))
    runs = [M.solve(f, rtol=1e-10, threads=threads) for _ in range(3)]
    best = min(run.seconds["solve"] for run in runs)
    setup = cells.comm.all_max_real(setup)
    if cells.comm.rank == 0:
        facts = {"setup": setup, "seconds": best, "iterations": runs[0].cycles, "residual": runs[0].residual_norm}
        print(json.dumps(facts), flush=True)


def tacit(n: int, ranks: int, threads: int, problem: str) -> dict:
    own = [HERE / "compare_multigrid.py", "--worker", problem, "--n", n, "--threads", threads]
    start = [sys.executable, *([] if ranks == 1 else ["-m", "tacit", "mpirun", "-n", ranks])]
    return harness.facts([*start, *own], threads=threads)


def show(n: int, ranks: int, best: dict) -> None:
    print(f"\n{n}^3, {ranks} ranks; in brackets: times of the best peer's seconds of the same problem")
    print(f"{'':9} {'':28} cycles residual  {'set-up':>8} {'solve':>17} {'both':>17}")
    for problem in PROBLEMS:
        rows = {name: row for (name, its), row in best.items() if its == problem}
        rivals = [row for name, row in rows.items() if not name.startswith("Tacit")]
        for name, row in rows.items():
            texts = []
            for seconds in (lambda r: r["seconds"], lambda r: r["setup"] + r["seconds"]):
                ratio = f" ({seconds(row) / min(map(seconds, rivals)):.2f})" if rivals else ""
                texts.append(f"{seconds(row):.4f}{ratio}")
            print(
                f"{problem:9} {name:28} {row['iterations']:6d}  {row['residual']:.1e} {row['setup']:9.4f}"
                f" {texts[0]:>17} {texts[1]:>17}",
                flush=True,
            )


def main() -> None:
    parser = harness.parser(__doc__, rounds=3, ranks=(1, 2))
    parser.add_argument("--n", type=int, default=128)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path("/"))
    parser.add_argument("--worker", choices=PROBLEMS, help=argparse.SUPPRESS)
    parser.add_argument("--threads", type=int, default=1, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        return worker(given.n, given.worker, given.threads)
    document = []
    with tempfile.TemporaryDirectory() as folder:
        others = peers(pathlib.Path(folder), given.n, 3, given.root)
        for ranks in given.ranks:
            runs = {
                key: lambda c=c, ranks=ranks: harness.facts([given.mpiexec, "-n", ranks, *c])
                for key, c in others.items()
            }
            for problem in PROBLEMS:
                runs["Tacit", problem] = lambda p=problem, ranks=ranks: tacit(given.n, ranks, 1, p)
                if ranks > 1:
                    name = f"Tacit, 1 rank, {ranks} threads"
                    runs[name, problem] = lambda p=problem, ranks=ranks: tacit(given.n, 1, ranks, p)
            best = {}
            for key, found in harness.turns(given.rounds, runs).items():
                best[key] = found[-1] | {part: min(run[part] for run in found) for part in ("setup", "seconds")}
            show(given.n, ranks, best)
            for (name, problem), row in best.items():
                document.append({"n": given.n, "ranks": ranks, "name": name, "problem": problem, **row})
    harness.write(given.json, "multigrid/1", rounds=given.rounds, rows=document)


if __name__ == "__main__":
    main()
