"""Assembly of an H-matrix from a Python function: seconds and calls, beside all entries by slabs of rows; then from
kernels by name, in processor seconds of all threads.

python bench/hmatrix_callback.py [--points 20000] [--dimensions 2] [--pairwise] [--names NAME,..] [--json FILE]
"""

import time

import numpy as np

import harness
import tacit


def main() -> None:
    words = harness.parser(__doc__)
    words.add_argument("--points", type=int, default=20_000)
    words.add_argument("--dimensions", type=int, default=2)
    words.add_argument("--pairwise", action="store_true")
    words.add_argument("--names", default="")
    o = words.parse_args()
    n, d = o.points, o.dimensions
    p = np.random.default_rng(0).random((n, d))
    calls = 0
    numbers = 0
    inside = 0.0

    def entries(i: np.ndarray, j: np.ndarray) -> np.ndarray:
        nonlocal calls, numbers, inside
        began = time.perf_counter()
        r = np.linalg.norm(p[i] - p[j] if i.shape == j.shape and o.pairwise else p[i][:, None] - p[None, j], axis=-1)
        a = np.where(r > 0, 1 / np.maximum(r, 1e-300), 100.0)
        calls += 1
        numbers += a.size
        inside += time.perf_counter() - began
        return a

    for name in filter(None, o.names.split(",")):
        times = []
        for _ in range(3):
            began = time.process_time()
            A = tacit.hmatrix(p, name, nugget=100.0, tolerance=1e-4)
            times.append(time.process_time() - began)
        print(
            f"{name}: {min(times):.3f} processor seconds, {A.report['bytes'] / 1e6:.1f} MB, error {A.report['error_bound']:.1e}"
        )
    if o.names:
        return
    began = time.perf_counter()
    A = tacit.hmatrix(p, entries, tolerance=1e-4, pairwise=o.pairwise)
    seconds = time.perf_counter() - began
    print(f"{n} points in {d} dimensions, 1e-4: {seconds:.2f} s, of which {inside:.2f} s in the function")
    made = {"calls": calls, "entries": numbers}
    print(f"{calls} calls, {numbers / calls:.0f} entries a call, {numbers / n**2:.4f} of all")
    print(f"measured error {A.report['measured_error']:.2e}, {A.report['bytes'] / 1e6:.1f} MB")
    began = time.perf_counter()
    for first in range(0, n, 64):
        i, j = np.arange(first, min(n, first + 64)), np.arange(n)
        entries(*(np.repeat(i, n), np.tile(j, len(i))) if o.pairwise else (i, j))
    slabs = time.perf_counter() - began
    print(f"all entries by slabs: {slabs:.2f} s")
    row = {"points": n, "dimensions": d, "seconds": seconds, "in_function": inside, "slabs": slabs}
    harness.write(o.json, "hmatrix_callback/1", rows=[row | made | {"measured_error": A.report["measured_error"]}])


if __name__ == "__main__":
    main()
