"""Nanoseconds of an iteration where the system is small, in Tacit, PETSc and SciPy: of the time of a long solve less that
of a short one, so that neither the set-up nor the call counts.

    python bench/small_iterations.py [--build build/release] [--n 10 100 1000 10000] [--rounds 5] [--threads 1] [--json FILE]

The tridiagonal matrix "1d3" of model_problems.hpp and b = 1, without and with jacobi. 30 and 60 iterations (n = 10: 2 and
8), of gmres in cycles of 30; each time is the least of many solves, and the programs alternate. Needs a build with
TACIT_BENCH=ON; PETSc's column is left out where petsc_solve was not built. SciPy is called from Python.
"""

import json
import timeit
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as spl

import harness

METHODS = {"cg": "cg", "bicgstab": "bcgs", "gmres": "gmres"}  # the names in PETSc


def system(n: int) -> Any:
    main, side = 2 + np.arange(n) * 7 % 11 / 11, np.full(n - 1, -1.0)
    return sp.diags_array([side, main, side], offsets=[-1, 0, 1], format="csr"), sp.diags_array(1 / main, format="csr")


def difference(short: float, long: float, iterations: tuple[int, int]) -> float:
    return 1e9 * (long - short) / (iterations[1] - iterations[0])


def of_program(program: Any, n: int, name: str, precond: str, iterations: tuple[int, int], threads: int) -> Any:
    """The seconds of both solves by bench_solve or petsc_solve."""

    def run() -> list[list[float]]:
        repeats = 20 if n >= 10000 else 200
        words = [program, "1d3", n, name, precond, ",".join(map(str, iterations)), repeats]
        lines = harness.output(words, threads=threads).splitlines()
        found = [json.loads(line) for line in lines if line.startswith("{")]
        done = tuple(row["iterations"] for row in found)
        if done != iterations:
            raise SystemExit(f"{' '.join(map(str, words))} did {done} iterations, not {iterations}")
        return [row["seconds"] for row in found]

    return run


def of_scipy(n: int, method: str, precond: str, iterations: tuple[int, int]) -> Callable[[], list[list[float]]]:
    (A, P), b = system(n), np.ones(n)
    M = P if precond == "jacobi" else None

    def solve(k: int) -> Any:
        limits = {"restart": min(k, 30), "maxiter": -(-k // 30)} if method == "gmres" else {"maxiter": k}
        return getattr(spl, method)(A, b, rtol=0, atol=0, M=M, **limits)

    def run() -> list[list[float]]:
        with np.errstate(all="ignore"):
            return [timeit.repeat(lambda k=k: solve(k), number=1, repeat=10) for k in iterations]

    return run


def main() -> None:
    parser = harness.parser(__doc__, build=True, rounds=5, threads=1)
    parser.add_argument("--n", type=int, nargs="+", default=[10, 100, 1000, 10000])
    options = parser.parse_args()
    programs = {name: options.build / "bench" / f"{name}_solve" for name in ("bench", "petsc")}
    rows = []
    for n in options.n:
        iterations = (2, 8) if n < 60 else (30, 60)
        for method, in_petsc in METHODS.items():
            for precond in ("none", "jacobi"):
                work = {"tacit": of_program(programs["bench"], n, method, precond, iterations, options.threads)}
                if programs["petsc"].exists():
                    work["petsc"] = of_program(programs["petsc"], n, in_petsc, precond, iterations, options.threads)
                work["scipy"] = of_scipy(n, method, precond, iterations)
                found = harness.turns(options.rounds, work)
                ns = {
                    name: difference(*(min(min(run[k]) for run in runs) for k in (0, 1)), iterations)
                    for name, runs in found.items()
                }
                rows.append({"n": n, "method": method, "precond": precond, "ns": ns})
                print(
                    f"n = {n:5}, {method:8} {precond:6}: " + ", ".join(f"{name} {t:,.0f}" for name, t in ns.items()),
                    flush=True,
                )
    harness.write(options.json, "small_iterations", rows=rows)


if __name__ == "__main__":
    main()
