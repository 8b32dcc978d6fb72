"""Many right-hand sides: time for a column when k are solved together, against one solve for each.

    python bench/columns.py [--columns 1 4 8 16] [--iterations 30] [--repeats 5] [--json FILE]

Grids of 262,144 points: 5 points in the plane, 7 and 27 in space. Every solve does the same number of iterations. The
two ways alternate, and medians are printed. Products alone: k columns at once, against k products.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import numpy as np

import harness
import tacit

GRIDS: dict[str, tuple[tuple[int, ...], bool]] = {
    "512^2, 5 points": ((512, 512), False),
    "64^3, 7 points": ((64, 64, 64), False),
    "64^3, 27 points": ((64, 64, 64), True),
}
SOLVES = (("cg", "none"), ("cg", "ic0"), ("bicgstab", "none"), ("bicgstab", "ilu0"))


def seconds_of(f: Any) -> float:
    begin = time.perf_counter()
    f()
    return time.perf_counter() - begin


def alternate(repeats: int, *ways: Any) -> list[float]:
    """The medians of the seconds that the ways give, called in turn."""
    found: list[list[float]] = [[] for _ in ways]
    for _ in range(repeats):
        for way, of in zip(ways, found, strict=True):
            of.append(way())
    return [statistics.median(of) for of in found]


def compare(name: str, what: str, run: Any, B: Any, repeats: int) -> dict[str, Any]:
    """`run` returns the seconds for one column or several."""
    k = B.shape[1]
    columns = [np.ascontiguousarray(b) for b in B.T]
    alone, together = alternate(
        repeats, lambda: sum(run(b) for b in columns) / k, lambda: run(B if k > 1 else columns[0]) / k
    )
    print(f"{name:16} {what:20} {k:3} {1e3 * alone:9.1f} {1e3 * together:9.1f}   {alone / together:.2f}", flush=True)
    return {"grid": name, "what": what, "columns": k, "alone": alone, "together": together}


def solver(A: Any, method: str, precond: str, iterations: int) -> Any:
    fixed: dict[str, Any] = {"method": method, "precond": precond, "max_iterations": iterations}
    fixed |= {"rtol": 1e-15, "fallbacks": False, "history": False}
    return lambda b: tacit.solve(A, b, **fixed).seconds["solve"]


def multiplier(A: Any) -> Any:
    return lambda b: seconds_of(lambda: A @ b)


def main() -> None:
    options = harness.parser(__doc__)
    options.add_argument("--columns", type=int, nargs="+", default=[1, 4, 8, 16])
    options.add_argument("--iterations", type=int, default=30)
    options.add_argument("--repeats", type=int, default=5)
    given = options.parse_args()
    rng = np.random.default_rng(0)
    print(f"{'':16} {'':20} {'k':>3} {'alone':>9} {'together':>9}   ms for a column")
    rows = []
    for name, (shape, isotropic) in GRIDS.items():
        A: Any = tacit.poisson(shape, isotropic=isotropic, assembled=True)
        for k in given.columns:
            B = rng.standard_normal((A.shape[0], k))
            rows.append(compare(name, "product", multiplier(A), B, given.repeats))
            for method, precond in SOLVES:
                run = solver(A, method, precond, given.iterations)
                rows.append(compare(name, f"{method}, {precond}", run, B, given.repeats))
    harness.write(given.json, "columns/1", rows=rows)


if __name__ == "__main__":
    main()
