"""Assembly of an H-matrix from a Python function: seconds and calls, beside all entries by slabs of rows.

python bench/hmatrix_callback.py [points [dimensions]]
"""

import sys
import time

import numpy as np

import tacit


def main() -> None:
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    d = int(sys.argv[2]) if len(sys.argv) > 2 else 2
    p = np.random.default_rng(0).random((n, d))
    calls = 0
    numbers = 0
    inside = 0.0

    def entries(i: np.ndarray, j: np.ndarray) -> np.ndarray:
        nonlocal calls, numbers, inside
        began = time.perf_counter()
        r = np.linalg.norm(p[i][:, None] - p[None, j], axis=2)
        a = np.where(r > 0, 1 / np.maximum(r, 1e-300), 100.0)
        calls += 1
        numbers += a.size
        inside += time.perf_counter() - began
        return a

    began = time.perf_counter()
    A = tacit.hmatrix(p, entries, tolerance=1e-4)
    seconds = time.perf_counter() - began
    print(f"{n} points in {d} dimensions, 1e-4: {seconds:.2f} s, of which {inside:.2f} s in the function")
    print(f"{calls} calls, {numbers / calls:.0f} entries a call, {numbers / n**2:.4f} of all")
    print(f"measured error {A.report['measured_error']:.2e}, {A.report['bytes'] / 1e6:.1f} MB")
    began = time.perf_counter()
    for first in range(0, n, 64):
        entries(np.arange(first, min(n, first + 64)), np.arange(n))
    print(f"all entries by slabs: {time.perf_counter() - began:.2f} s")


if __name__ == "__main__":
    main()
