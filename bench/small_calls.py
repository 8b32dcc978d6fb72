"""What a call costs where the system is small: microseconds of a solve, beside its products and what else must be done.

    python bench/small_calls.py [--n 10 100 1000] [--threads 1] [--rounds 5] [--json FILE]

Two systems with n unknowns and b = 1: "steps", the tridiagonal matrix of -1, 2, -1, which cg solves in n / 2 iterations,
and "one", 2 I, which every method solves in one. Each figure is the least of many runs; candidates alternate.

    product   A @ b by SciPy
    compiled  what of tacit.cg is compiled: the operator made of the three arrays, and the solve ("solve" is that alone)
    call      tacit.cg(A, b); "over" is what it costs beyond "compiled", the part that checks, places and reports
    of Csr    tacit.cg with A made once by tacit.csr, for many right-hand sides
    others    tacit.solve, tacit.gmres(maxiter=20), tacit.scipy.cg and scipy.sparse.linalg.cg
"""

import timeit
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as spl

import harness
import tacit
import tacit.scipy
from tacit import _core


def systems(n: int) -> dict[str, Any]:
    steps = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(n, n), format="csr")
    return {"steps": steps, "one": sp.csr_array(2.0 * sp.eye_array(n, format="csr"))}


def candidates(a: Any, b: Any) -> dict[str, Callable[[], Any]]:
    A, options, offsets = tacit.csr(a), _core.Options(), [0, a.shape[0]]
    options.method, options.rtol = "cg", 1e-5

    def stored() -> Any:
        return _core.csr_float64(_core.self_comm(), offsets, offsets, 0, a.indptr, a.indices, a.data, "automatic")

    def solved(handle: Any) -> Any:
        return _core.solve_float64(handle, None, b, None, options, None, False, None)

    return {
        "product": lambda: a @ b,
        "solve": lambda: solved(A._handle),
        "compiled": lambda: solved(stored()),
        "cg": lambda: tacit.cg(a, b),
        "cg of Csr": lambda: tacit.cg(A, b),
        "tacit.solve": lambda: tacit.solve(a, b),
        "tacit.solve of Csr": lambda: tacit.solve(A, b),
        "gmres": lambda: tacit.gmres(a, b, maxiter=20),
        "gmres of Csr": lambda: tacit.gmres(A, b, maxiter=20),
        "tacit.scipy.cg": lambda: tacit.scipy.cg(a, b),
        "SciPy's cg": lambda: spl.cg(a, b),
    }


def least(rounds: int, work: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """The least microseconds of each, over rounds in which each runs in short pieces, between which others may run."""

    def runs(f: Callable[[], Any]) -> Callable[[], float]:
        timer = timeit.Timer(f)
        took = max(1e-7, min(timer.repeat(5, 1)))
        once = max(1, int(3e-4 / took))
        pieces = max(1, int(0.05 / (once * took)))
        return lambda: 1e6 * min(timer.repeat(pieces, once)) / once

    found = harness.turns(rounds, {name: runs(f) for name, f in work.items()})
    return {name: min(times) for name, times in found.items()}


def main() -> None:
    parser = harness.parser(__doc__, rounds=10, threads=1)
    parser.add_argument("--n", type=int, nargs="+", default=[10, 100, 1000])
    options = parser.parse_args()
    _core.set_threads(options.threads)
    rows = []
    for n in options.n:
        for name, a in systems(n).items():
            b = np.ones(n)
            times = least(options.rounds, candidates(a, b))
            times["over"] = times["cg"] - times["compiled"]
            rows.append({"n": n, "system": name, "iterations": tacit.cg(a, b).iterations, "us": times})
            print(
                f"n = {n}, {name}, {rows[-1]['iterations']} iterations: "
                + ", ".join(f"{key} {us:.1f}" for key, us in times.items())
            )
    harness.write(options.json, "small_calls", rows=rows)


if __name__ == "__main__":
    main()
