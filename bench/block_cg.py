"""Many right-hand sides: block-cg, whose columns share a search space, against cg with the columns in lockstep.

    python bench/block_cg.py [FILE.npz ...] [--columns 4 8 16 32] [--precond none jacobi ic0] [--rounds 3] [--rtol 1e-8]
                             [--grids 300x300 60x60x60] [--json FILE]

Grids by 5 and 7 points, and matrices of SciPy's save_npz (Hermitian positive definite); random right-hand sides. For
each: iterations of the slowest column, and milliseconds of the processor for a column (the preconditioner and all), of one
thread (OMP_NUM_THREADS=1). The two methods alternate, and medians are printed. A setting is skipped where cg does not
converge; -1: block-cg does not.
"""

from __future__ import annotations

import pathlib
import statistics
import time
from typing import Any

import numpy as np
import scipy.sparse as sp

import harness
import tacit


def cases(given: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for grid in given.grids:
        shape = tuple(map(int, grid.split("x")))
        found[f"{'x'.join(map(str, shape))}, {2 * len(shape) + 1} points"] = tacit.poisson(shape, assembled=True)
    for file in given.files:
        found[file.stem] = tacit.csr(sp.csr_array(sp.load_npz(file)))
    return found


def measure(A: Any, B: Any, precond: str, rounds: int, rtol: float) -> dict[str, Any] | None:
    fixed = {"precond": precond, "rtol": rtol, "max_iterations": 20000, "fallbacks": False, "history": False}
    seconds: dict[str, list[float]] = {"cg": [], "block-cg": []}
    iterations = {}
    for _ in range(rounds):
        for method, spent in seconds.items():
            begin = time.process_time()
            r = tacit.solve(A, B, method=method, **fixed)
            spent.append(1e3 * (time.process_time() - begin) / B.shape[1])
            iterations[method] = max(c.iterations for c in r.columns)
            if not r.converged:
                if method == "cg":
                    return None
                iterations[method] = -1
    medians = {method: statistics.median(spent) for method, spent in seconds.items()}
    return {"iterations": iterations, "milliseconds": medians}


def main() -> None:
    options = harness.parser(__doc__, rounds=3)
    options.add_argument("files", type=pathlib.Path, nargs="*")
    options.add_argument("--grids", nargs="*", default=["300x300", "60x60x60"])
    options.add_argument("--columns", type=int, nargs="+", default=[4, 8, 16, 32])
    options.add_argument("--precond", nargs="+", default=["none", "jacobi", "ic0"])
    options.add_argument("--rtol", type=float, default=1e-8)
    given = options.parse_args()
    rng = np.random.default_rng(0)
    print(f"{'':22} {'entries':>7} {'':8} {'k':>3} {'iterations':>13} {'ms a column':>17} {'gain':>5}")
    rows = []
    for name, A in cases(given).items():
        entries = A.nnz / A.shape[0]
        for precond in given.precond:
            for k in given.columns:
                found = measure(A, rng.standard_normal((A.shape[0], k)), precond, given.rounds, given.rtol)
                if found is None:
                    continue
                (its, block_its), (ms, block_ms) = found["iterations"].values(), found["milliseconds"].values()
                print(
                    f"{name:22} {entries:7.1f} {precond:8} {k:3} {its:6} {block_its:6} {ms:8.2f} {block_ms:8.2f} "
                    f"{ms / block_ms:5.2f}",
                    flush=True,
                )
                rows.append({"matrix": name, "entries": entries, "precond": precond, "columns": k} | found)
    harness.write(given.json, "block_cg/1", rows=rows)


if __name__ == "__main__":
    main()
