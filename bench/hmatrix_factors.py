"""Gaussian processes: factors of a covariance matrix, its determinant and a solve, beside LAPACK's Cholesky factors.

    python bench/hmatrix_factors.py [--sizes 4000 8000] [--dimensions 3] [--tolerance 1e-8] [--json FILE]

n points at random in a cube, Matern 3/2 with length 0.2, nugget 0.01. H-matrix: tacit.hmatrix of the kernel's name, then
tacit.precond.factorise. Dense: SciPy's cho_factor of NumPy's entries. Seconds by the clock and of all processors ("cpu"),
megabytes of the factors (of the dense ones: a triangle), and the error of log det A relative to the dense one.
"""

import time

import numpy as np
import scipy.linalg as la
from scipy.spatial.distance import cdist

import harness
import tacit

LENGTH, NUGGET = 0.2, 1e-2


class Timed:
    """Seconds of a block of statements, by the clock and of all processors."""

    def __enter__(self):
        self._at = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *error):
        self.wall, self.cpu = time.perf_counter() - self._at[0], time.process_time() - self._at[1]

    def facts(self, what):
        return {f"{what}_seconds": self.wall, f"{what}_cpu": self.cpu}


def hierarchical(points, b, tolerance):
    with Timed() as build:
        A = tacit.hmatrix(points, "matern32", length=LENGTH, nugget=NUGGET, tolerance=tolerance, symmetry="hermitian")
    with Timed() as factor:
        F = tacit.precond.factorise(A)
        log = F.slogdet()[1]
    with Timed() as solve:
        result = tacit.solve(A, b, precond=F, rtol=1e-10)
    facts = build.facts("build") | factor.facts("factor") | solve.facts("solve")
    facts |= {"log_determinant": log, "error_by_estimate": F.logdet_error(), "iterations": int(result.iterations)}
    facts |= {"residual": float(result.residual_norm), "matrix_mb": A.report["bytes"] / 1e6}
    return facts | {"mb": F.report["bytes"] / 1e6, "mean_rank": F.report["mean_rank"], "shift": F.report["shift"]}


def dense(points, b):
    with Timed() as build:
        a = cdist(points, points)
        a *= 3**0.5 / LENGTH
        a = (1 + a) * np.exp(-a)
        a[np.diag_indices(len(a))] += NUGGET
    with Timed() as factor:
        c = la.cho_factor(a, lower=True, overwrite_a=True, check_finite=False)
        log = 2 * float(np.log(np.diag(c[0])).sum())
    with Timed() as solve:
        la.cho_solve(c, b, check_finite=False)
    facts = build.facts("build") | factor.facts("factor") | solve.facts("solve")
    return facts | {"log_determinant": log, "mb": 4e-6 * len(b) * (len(b) + 1)}


def main():
    parser = harness.parser(__doc__, build=False)
    parser.add_argument("--sizes", type=int, nargs="+", default=[4000, 8000])
    parser.add_argument("--dimensions", type=int, default=3)
    parser.add_argument("--tolerance", type=float, default=1e-8)
    a = parser.parse_args()
    print(f"{'n':>6} {'':6} {'build':>7} {'factor':>7} {'cpu':>7} {'solve':>7} {'MB':>7}  log det A")
    found = []
    for n in a.sizes:
        points = np.random.default_rng(0).random((n, a.dimensions))
        b = np.random.default_rng(1).standard_normal(n)
        row = {"n": n, "hmatrix": hierarchical(points, b, a.tolerance), "dense": dense(points, b)}
        row["log_determinant_error"] = abs(row["hmatrix"]["log_determinant"] / row["dense"]["log_determinant"] - 1)
        row["ratio"] = row["hmatrix"]["factor_cpu"] / row["dense"]["factor_cpu"]
        for name in ("hmatrix", "dense"):
            f = row[name]
            times = " ".join(f"{f[k]:7.2f}" for k in ("build_seconds", "factor_seconds", "factor_cpu", "solve_seconds"))
            print(f"{n:6} {name[:6]:6} {times} {f['mb']:7.0f}  {f['log_determinant']:.8f}")
        print(f"{n:6} error of log det {row['log_determinant_error']:.1e}, cpu of factors {row['ratio']:.2f} of dense")
        found.append(row)
    harness.write(a.json, "hmatrix_factors/1", dimensions=a.dimensions, tolerance=a.tolerance, rows=found)


if __name__ == "__main__":
    main()
