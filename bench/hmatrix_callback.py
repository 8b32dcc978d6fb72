"""Assembly of an H-matrix from a Python function: seconds and calls, beside all entries by slabs of rows; then from
kernels by name, in processor seconds of all threads.

python bench/hmatrix_callback.py [--points 20000] [--dimensions 2] [--normal] [--pairwise] [--names NAME,..] [--tolerance 1e-4]
    [--length 1] [--nugget 100] [--json FILE]
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
    words.add_argument("--names", default="", help="kernels by name, in place of the function")
    words.add_argument("--normal", action="store_true", help="normal points, in place of uniform ones in a cube")
    words.add_argument("--tolerance", type=float, default=1e-4)
    words.add_argument("--length", type=float, default=1.0, help="of kernels by name")
    words.add_argument("--nugget", type=float, default=100.0, help="of kernels by name")
    o = words.parse_args()
    n, d = o.points, o.dimensions
    rng = np.random.default_rng(0)
    p = rng.standard_normal((n, d)) if o.normal else rng.random((n, d))
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

    rows = []
    for name in filter(None, o.names.split(",")):
        given = {} if name in tacit.op.kernels.TENSORS else {"length": o.length}
        times, walls = [], []
        for _ in range(3):
            began, wall = time.process_time(), time.perf_counter()
            A = tacit.hmatrix(p, name, nugget=o.nugget, tolerance=o.tolerance, **given)
            times.append(time.process_time() - began)
            walls.append(time.perf_counter() - wall)
        r = A.report
        print(
            f"{name}: {min(times):.3f} processor seconds, {min(walls):.3f} s, {r['bytes'] / 1e6:.1f} MB, error"
            f" {r['error_bound']:.1e}, {r['entries_evaluated']:.3f} of the entries"
        )
        row = {"kernel": name, "points": n, "dimensions": d, "normal": o.normal, "tolerance": o.tolerance}
        row |= {
            "length": o.length,
            "processor_seconds": min(times),
            "seconds": min(walls),
            "megabytes": r["bytes"] / 1e6,
        }
        rows.append(row | {"error_bound": r["error_bound"], "entries_evaluated": r["entries_evaluated"]})
    if o.names:
        harness.write(o.json, "hmatrix_callback/1", rows=rows)
        return
    began = time.perf_counter()
    A = tacit.hmatrix(p, entries, tolerance=o.tolerance, pairwise=o.pairwise)
    seconds = time.perf_counter() - began
    print(f"{n} points in {d} dimensions, {o.tolerance:g}: {seconds:.2f} s, of which {inside:.2f} s in the function")
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
