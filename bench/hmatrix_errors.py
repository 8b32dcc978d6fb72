"""The errors that H-matrices of random kernels report, beside their true errors: smooth kernels, cut-off radii, jumps,
kernels of compact support, and single entries that are wrong.

    python bench/hmatrix_errors.py [--points 500] [--kernels 200] [--compiled] [--json FILE]

--compiled: by a function in C (which needs a compiler), without the kernels of wrong entries. Up to 2,048 points all
entries are compared; above, errors are those that lines of blocks show.
"""

import ctypes
import functools
import subprocess
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable

import numpy as np
import scipy

import harness
import tacit

KINDS = ("exp(-r)", "1 / r", "cut off", "jump", "compact", "1 / r cut off", "0.1 % wrong", "3 wrong")


def random_kernel(kind: int, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Points and the whole matrix."""
    d = int(rng.integers(1, 4))
    p = rng.random((n, d))
    r = np.linalg.norm(p[:, None] - p[None], axis=2)
    radius, size, width = rng.uniform(0.1, 0.9) * np.sqrt(d), 10.0 ** rng.uniform(-3, 0), rng.uniform(0.05, 1)
    kernels: list[Callable[[], np.ndarray]] = [
        lambda: np.exp(-r / width),
        lambda: 1 / (r + 0.1 * width),
        lambda: np.exp(-r / width) * (r < radius),
        lambda: np.exp(-r / width) + size * (r < radius),
        lambda: np.maximum(0, 1 - r / (0.3 * width)) ** 4 * (1 + 4 * r / (0.3 * width)),
        lambda: 1 / (r + 0.01) * (r < 0.3 * width),
        lambda: np.exp(-r / width),
        lambda: np.exp(-r / width),
    ]
    a = kernels[kind]()
    if kind >= 6:
        at = rng.integers(0, n, (2, max(1, n * n // 1000) if kind == 6 else 3))
        a[at[0], at[1]] += size if kind == 6 else 1.0
    return p, a


SOURCE = """
#include <math.h>
void f(long m, const double *x, long n, const double *y, double *out, void *data) {
  const double *p = data;                               /* dimension, kind, width, radius, size */
  const long d = p[0], kind = p[1];
  for (long i = 0; i < m; ++i)
    for (long j = 0; j < n; ++j) {
      double s = 0;
      for (long c = 0; c < d; ++c) s += (x[i * d + c] - y[j * d + c]) * (x[i * d + c] - y[j * d + c]);
      const double r = sqrt(s), t = r / (0.3 * p[2]), e = exp(-r / p[2]);
      out[i * n + j] = kind == 1 ? 1 / (r + 0.1 * p[2]) : kind == 2 ? e * (r < p[3]) : kind == 3 ? e + p[4] * (r < p[3])
                       : kind == 4 ? (t < 1 ? pow(1 - t, 4) * (1 + 4 * t) : 0)
                       : kind == 5 ? (r < 0.3 * p[2] ? 1 / (r + 0.01) : 0) : e;
    }
}
"""
COMPILED = 6  # of KINDS


@functools.cache
def compiled_function() -> ctypes._CFuncPtr:
    folder = tempfile.mkdtemp()
    with open(f"{folder}/k.c", "w") as out:
        out.write(SOURCE)
    subprocess.run(["cc", "-O3", "-shared", "-fPIC", "-o", f"{folder}/k.so", f"{folder}/k.c", "-lm"], check=True)
    function = ctypes.CDLL(f"{folder}/k.so").f
    number, numbers = ctypes.c_long, ctypes.POINTER(ctypes.c_double)
    function.argtypes, function.restype = [number, numbers, number, numbers, numbers, ctypes.c_void_p], None
    return function


def random_compiled(kind: int, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points, the whole matrix, and the numbers that the function in C takes."""
    d = int(rng.integers(1, 4))
    p = rng.random((n, d))
    data = np.array([d, kind, rng.uniform(0.05, 1), rng.uniform(0.1, 0.9) * np.sqrt(d), 10.0 ** rng.uniform(-3, 0)])
    a = np.empty((n, n))
    at = [v.ctypes.data_as(ctypes.POINTER(ctypes.c_double)) for v in (p, a)]
    compiled_function()(n, at[0], n, at[0], at[1], data.ctypes.data)
    return p, a, data


def main() -> None:
    words = harness.parser(__doc__)
    words.add_argument("--points", type=int, default=500)
    words.add_argument("--kernels", type=int, default=200)
    words.add_argument("--compiled", action="store_true")
    o = words.parse_args()
    n, count = o.points, o.kernels
    warnings.simplefilter("ignore", RuntimeWarning)
    rng = np.random.default_rng(5)
    seen: dict[str, Counter[str]] = {kind: Counter() for kind in KINDS}
    kinds = KINDS[:COMPILED] if o.compiled else KINDS
    for k in range(count):
        kind = k % len(kinds)
        p, a, *data = (random_compiled if o.compiled else random_kernel)(kind, n, rng)
        tolerance = 10.0 ** -int(rng.integers(3, 8))
        if o.compiled:
            entries = scipy.LowLevelCallable(compiled_function(), ctypes.c_void_p(data[0].ctypes.data))
        else:
            entries = lambda i, j, a=a: a[np.ix_(i, j)]  # noqa: E731
        A = tacit.hmatrix(p, entries, tolerance=tolerance, leaf_size=32)
        true = np.linalg.norm(A @ np.eye(n) - a) / np.linalg.norm(a)
        report = A.report
        reported = report["error_bound"]
        seen[kinds[kind]].update(
            matrices=1,
            warned=int(bool(report["warnings"])),
            above=int(true > tolerance),
            under=int(3 * reported < true and not report["warnings"]),
        )
    print(f"{n} points. under: the reported error is below a third of the true one, without a warning")
    print(f"{'kernel':15} {'matrices':>9} {'above tolerance':>16} {'warned':>7} {'under':>6}")
    for name, s in seen.items():
        if s:
            print(f"{name:15} {s['matrices']:9} {s['above']:16} {s['warned']:7} {s['under']:6}")
    rows = [{"kernel": name} | dict(s) for name, s in seen.items() if s]
    harness.write(o.json, "hmatrix_errors/1", points=n, rows=rows)


if __name__ == "__main__":
    main()
