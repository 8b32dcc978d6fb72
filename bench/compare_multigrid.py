"""Multigrid of Tacit beside PETSc's PCMG and hypre's PFMG on one problem, in turns: best of each, ratios.

    python bench/compare_multigrid.py [--build build/release] [--n 128] [--rounds 3] [--ranks 1 2] [--json FILE]

Periodic Helmholtz, a = b = 0.9, triangle wave, to 1e-10 (PETSc and hypre in the 2-norm by their own test; every
residual is recomputed, in the largest magnitude). The peers know constant coefficients (hypre by its matrix); Tacit
runs once knowing them and once with all coefficients stored. Needs petsc-dev or libhypre-dev; what is not there is
left out. One thread a rank; Tacit on two ranks, and, for two, on one rank with two threads as well.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
}
PETSC = ["-ksp_type", "cg", "-pc_type", "mg", "-ksp_rtol", "1e-10", "-ksp_norm_type", "unpreconditioned"]
PETSC += ["-mg_levels_ksp_type", "richardson", "-mg_levels_ksp_max_it", "2", "-mg_levels_pc_type", "sor"]


def output(words: list, **more: str) -> str:
    return subprocess.run(words, env=os.environ | ENVIRONMENT | more, check=True, capture_output=True, text=True).stdout


def peers(folder: pathlib.Path, n: int, repeat: int) -> dict:
    """Commands of what could be built."""
    made = {}
    if shutil.which("pkg-config") and not subprocess.run(["pkg-config", "--exists", "PETSc"], check=False).returncode:
        flags = output(["pkg-config", "--cflags", "--libs", "PETSc"]).split()
        program = folder / "petsc_multigrid"
        subprocess.run(
            ["mpicxx", "-O3", "-march=native", HERE / "peers/petsc_multigrid.cpp", "-o", program, *flags], check=True
        )
        levels = max(2, (n & -n).bit_length() - 1)
        made["PETSc cg + PCMG"] = [program, "-n", n, "-repeat", repeat, *PETSC, "-pc_mg_levels", levels - 1]
    if pathlib.Path("/usr/include/hypre").exists():
        program = folder / "hypre_multigrid"
        source = HERE / "peers/hypre_multigrid.c"
        subprocess.run(
            ["mpicc", "-O3", "-march=native", source, "-o", program, "-I/usr/include/hypre", "-lHYPRE", "-lm"],
            check=True,
        )
        made["hypre PFMG"] = [program, n, repeat, "pfmg", 2, 1e-10]
        made["hypre cg + PFMG"] = [program, n, repeat, "cg", 2, 1e-10]
    return made


def tacit(n: int, ranks: int, threads: int, *more: str) -> dict:
    words = [sys.executable, "-m", "tacit", "multigrid", "--n", str(n), "--json", "-", "--threads", str(threads), *more]
    best: dict = {}
    for _ in range(2):
        facts = json.loads(output(words + (["--ranks", str(ranks)] if ranks > 1 else []), OMP_NUM_THREADS=str(threads)))
        if not best or facts["seconds"]["solve"] < best["seconds"]:
            best = {
                "seconds": facts["seconds"]["solve"],
                "iterations": facts["cycles"],
                "residual": facts["residual_norm"],
            }
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--json")
    given = parser.parse_args()
    document = []
    with tempfile.TemporaryDirectory() as folder:
        others = peers(pathlib.Path(folder), given.n, 3)
        for ranks in given.ranks:
            best: dict = {}
            for _ in range(given.rounds):
                runs = {
                    name: lambda c=c, ranks=ranks: json.loads(output(["mpiexec", "-n", str(ranks), *map(str, c)]))
                    for name, c in others.items()
                }
                for coefficient in ("constant", "stored"):
                    how = f"Tacit, {coefficient}"
                    runs[how] = lambda c=coefficient, ranks=ranks: tacit(given.n, ranks, 1, "--coefficient", c)
                    if ranks > 1:
                        runs[f"{how}, {ranks} threads"] = lambda c=coefficient, ranks=ranks: tacit(
                            given.n, 1, ranks, "--coefficient", c
                        )
                for name, run in runs.items():
                    seen = run()
                    if name not in best or seen["seconds"] < best[name]["seconds"]:
                        best[name] = seen
            slowest = [b["seconds"] for name, b in best.items() if not name.startswith("Tacit")]
            for name, b in best.items():
                rate = given.n**3 / b["seconds"] * 1e-6
                ratio = (
                    f"  {min(slowest) / b['seconds']:.2f} times the best peer"
                    if slowest and name.startswith("Tacit")
                    else ""
                )
                print(
                    f"{given.n}^3, {ranks} ranks  {name:28s} {b['iterations']:3d} cycles  residual {b['residual']:.1e}  {b['seconds']:.4f} s  {rate:6.2f} Mdof/s{ratio}",
                    flush=True,
                )
                document.append({"n": given.n, "ranks": ranks, "name": name, **b})
    if given.json:
        pathlib.Path(given.json).write_text(json.dumps(document, indent=1))


if __name__ == "__main__":
    main()
