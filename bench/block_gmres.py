"""Many right-hand sides of any square matrix: block-gmres against gmres, and against SciPy's gmres in a loop.

    python bench/block_gmres.py [FILE.npz ...] [--columns 1 4 8 16] [--precond none ilu0 ilut] [--restart 30]
                                [--grids 150x150 30x30x30] [--inclusions 100] [--function 50] [--rtol 1e-8]
                                [--rounds 3] [--most-scipy 4] [--json FILE]

Convection and diffusion on grids, by 5 and 7 points; diffusion on a grid of --inclusions^2 cells with discs of a larger
coefficient; the same of --function^2 cells as a function, which multiplies by the dense matrix, so that products cost
more than anything else; matrices of SciPy's save_npz. Random right-hand sides. Milliseconds of the processor for a
column, the preconditioner made before, of one thread (OMP_NUM_THREADS=1), and products with A for a column; medians of
rounds in which the ways alternate:

    single      gmres, one call for each column
    together    gmres, one call for all columns: in lockstep, where that saves something
    block       block-gmres, one call
    scipy       scipy.sparse.linalg.gmres, column after column, with the same preconditioner (of at most --most-scipy columns)

The iterations are those of the slowest column. -1 stands for a way in which a column did not reach rtol, by b - A x.
"""

from __future__ import annotations

import pathlib
import statistics
import time
import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as spla

import harness
import tacit


def convection(shape: tuple[int, ...], strength: float = 0.4) -> Any:
    """-Laplace u + convection along all axes, by central differences."""
    total = sp.csr_array((1, 1))
    for axis, n in enumerate(shape):
        one = sp.diags_array([-1 - strength, 2.0, -1 + strength], offsets=[-1, 0, 1], shape=(n, n))
        before, after = int(np.prod(shape[:axis])), int(np.prod(shape[axis + 1 :]))
        whole = sp.kron(sp.kron(sp.eye_array(before), one), sp.eye_array(after), format="csr")
        total = whole if axis == 0 else total + whole
    return sp.csr_array(total)


def layered(n: int, inclusions: int = 12, contrast: float = 1e4) -> Any:
    """Diffusion on n x n cells with discs of a far larger coefficient, each with a small eigenvalue, and convection."""
    rng = np.random.default_rng(1)
    y, x = np.mgrid[0:n, 0:n] / n
    k = np.ones((n, n))
    for cx, cy in rng.random((inclusions, 2)):
        k[(x - cx) ** 2 + (y - cy) ** 2 < 0.06**2] = contrast
    at = np.arange(n * n).reshape(n, n)
    total = sp.csr_array(1e-3 * sp.eye_array(n * n))
    for one, other, a, b in ((at[:, :-1], at[:, 1:], k[:, :-1], k[:, 1:]), (at[:-1], at[1:], k[:-1], k[1:])):
        weight = (2 * a * b / (a + b)).ravel()
        i, j = one.ravel(), other.ravel()
        rows, columns = np.concatenate([i, j, i, j]), np.concatenate([j, i, i, j])
        values = np.concatenate([-0.8 * weight, -1.2 * weight, weight, weight])
        total = total + sp.csr_array(sp.coo_array((values, (rows, columns)), shape=total.shape))
    return sp.csr_array(total)


def cases(given: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if given.inclusions:
        found[f"{given.inclusions}^2, discs"] = layered(given.inclusions)
    if given.function:
        found[f"{given.function}^2, function"] = layered(given.function).toarray()
    for grid in given.grids:
        shape = tuple(map(int, grid.split("x")))
        found[f"{grid}, {2 * len(shape) + 1} points"] = convection(shape)
    for file in given.files:
        found[file.stem] = sp.csr_array(sp.load_npz(file))
    return found


class Ways:
    """The ways to solve A X = B; each returns iterations, products and X."""

    def __init__(self, S: Any, precond: str, given: Any) -> None:
        self.S, self.A, self.P = S, S, None
        if isinstance(S, np.ndarray):  # A and P are functions
            d = S.diagonal()
            self.A = spla.LinearOperator(S.shape, lambda x: S @ x, dtype=S.dtype)
            self.P = spla.LinearOperator(S.shape, lambda x: x / d, dtype=S.dtype)
        else:
            self.A = tacit.csr(S)
            self.P = None if precond == "none" else tacit.precond.make(self.A, precond)
        self.given = given
        self.fixed = {"precond": self.P or "none", "rtol": given.rtol, "restart": given.restart}
        self.fixed |= {"max_iterations": 5000, "fallbacks": False, "history": False, "explain": False}

    def single(self, B: Any) -> tuple[int, int, Any]:
        all_ = [tacit.solve(self.A, np.ascontiguousarray(b), method="gmres", **self.fixed) for b in B.T]
        X = np.stack([r.x for r in all_], axis=1)
        return max(r.iterations for r in all_), sum(r.counts["operator_applies"] for r in all_), X

    def together(self, B: Any, method: str = "gmres") -> tuple[int, int, Any]:
        r = tacit.solve(self.A, B, method=method, **self.fixed)
        columns = r.columns if B.shape[1] > 1 else [r]
        return max(c.iterations for c in columns), r.counts["operator_applies"], r.x

    def block(self, B: Any) -> tuple[int, int, Any]:
        return self.together(B, "block-gmres")

    def scipy(self, B: Any) -> tuple[int, int, Any]:
        products = 0

        def multiply(v: Any) -> Any:
            nonlocal products
            products += 1
            return self.S @ v

        n, dtype = self.S.shape[0], self.S.dtype
        A = spla.LinearOperator((n, n), multiply, dtype=dtype)
        M = self.P and spla.LinearOperator((n, n), self.P.matvec, dtype=dtype)
        m, rtol = self.given.restart, self.given.rtol
        X = [spla.gmres(A, b, rtol=rtol, atol=0, restart=m, maxiter=5000 // m + 1, M=M)[0] for b in B.T]
        return -(-products // B.shape[1]), products, np.stack(X, axis=1)


def measure(ways: Ways, B: Any, given: Any) -> dict[str, Any]:
    of: dict[str, Any] = {"single": ways.single, "together": ways.together, "block": ways.block, "scipy": ways.scipy}
    spent: dict[str, list[float]] = {name: [] for name in of}
    found: dict[str, Any] = {}
    for _ in range(given.rounds):
        for name, way in of.items():
            some = B[:, : given.most_scipy] if name == "scipy" else B
            begin = time.process_time()
            iterations, products, X = way(some if some.shape[1] > 1 or name != "together" else some[:, :1])
            spent[name].append(1e3 * (time.process_time() - begin) / some.shape[1])
            left = np.linalg.norm(some - ways.S @ X.reshape(some.shape), axis=0) / np.linalg.norm(some, axis=0)
            factor = 10 if name == "scipy" else 1.001  # SciPy's goal is that of the preconditioned residual
            reached = bool(np.all(left <= factor * given.rtol))
            found[name] = {"iterations": iterations if reached else -1, "products": products / some.shape[1]}
    for name, times in spent.items():
        found[name]["milliseconds"] = statistics.median(times)
    return found


def main() -> None:
    options = harness.parser(__doc__, rounds=3)
    options.add_argument("files", type=pathlib.Path, nargs="*")
    options.add_argument("--grids", nargs="*", default=["150x150", "30x30x30"])
    options.add_argument("--inclusions", type=int, default=100)
    options.add_argument("--function", type=int, default=50)
    options.add_argument("--columns", type=int, nargs="+", default=[1, 4, 8, 16])
    options.add_argument("--precond", nargs="+", default=["none", "ilu0", "ilut"])
    options.add_argument("--restart", type=int, default=30)
    options.add_argument("--rtol", type=float, default=1e-8)
    options.add_argument("--most-scipy", type=int, default=4)
    given = options.parse_args()
    warnings.filterwarnings("ignore", category=DeprecationWarning)
    rng = np.random.default_rng(0)
    names = ("single", "together", "block", "scipy")
    print(f"{'':20} {'':6} {'k':>3} " + " ".join(f"{name + ': its, products, ms':>26}" for name in names))
    rows = []
    for name, S in cases(given).items():
        for precond in ["jacobi"] if isinstance(S, np.ndarray) else given.precond:
            ways = Ways(S, precond, given)
            for k in given.columns:
                found = measure(ways, rng.standard_normal((S.shape[0], k)), given)
                cells = [
                    f"{found[one]['iterations']:6} {found[one]['products']:9.1f} {found[one]['milliseconds']:9.2f}"
                    for one in names
                ]
                print(f"{name:20} {precond:6} {k:3} " + " ".join(cells), flush=True)
                rows.append({"matrix": name, "precond": precond, "columns": k} | found)
    harness.write(given.json, "block_gmres/1", rows=rows)


if __name__ == "__main__":
    main()
