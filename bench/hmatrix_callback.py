"""Assembly of an H-matrix from a Python function: seconds and calls, beside all entries by slabs of rows.

python bench/hmatrix_callback.py [--points 20000] [--dimensions 2] [--json FILE]
"""

import time

import numpy as np

import harness
import tacit


def main() -> None:
    words = harness.parser(__doc__)
    words.add_argument("--points", type=int, default=20_000)
    words.add_argument("--dimensions", type=int, default=2)
    o = words.parse_args()
    n, d = o.points, o.dimensions
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
    made = {"calls": calls, "entries": numbers}
    print(f"{calls} calls, {numbers / calls:.0f} entries a call, {numbers / n**2:.4f} of all")
    print(f"measured error {A.report['measured_error']:.2e}, {A.report['bytes'] / 1e6:.1f} MB")
    began = time.perf_counter()
    for first in range(0, n, 64):
        entries(np.arange(first, min(n, first + 64)), np.arange(n))
    slabs = time.perf_counter() - began
    print(f"all entries by slabs: {slabs:.2f} s")
    row = {"points": n, "dimensions": d, "seconds": seconds, "in_function": inside, "slabs": slabs}
    harness.write(o.json, "hmatrix_callback/1", rows=[row | made | {"measured_error": A.report["measured_error"]}])


if __name__ == "__main__":
    main()
