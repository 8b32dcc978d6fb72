"""Products and Krylov methods against the time in which memory brings what they read and write.

    python bench/floors.py [--threads 1] [--rounds 5] [--systems p5 v5 p7 v7 P5 V5 P7 f7 g2 d2 b3] [--json FILE]

Systems: 5 points on 1024 x 1024, 7 points on 100^3; P5, V5, P7: on 3000 x 3000 and 200^3, whose vectors are larger than
a share of the last cache. p: constant coefficients, v: log-normal ones, f: the same rounded to float32. Laplacians + I of
a Delaunay mesh of 600,000 points, in the order of reverse Cuthill-McKee; g2: integer weights, d2: real ones. b3: three
unknowns in each node of 7 points on 40^3, dense blocks. For each kernel

    MB       what it moves, by the formula of docs/theory/methods.md and the bytes that the stored matrix has
    floor    MB / bandwidth: that of b += a on arrays as long as four vectors, measured between the candidates
    ours     milliseconds of a product, or of a whole solve for one of its iterations, set-up and the check of b - A x included
    ratios   ours to the floor, to SciPy (its cg), and of a method to our cg; of the set-up to a product

Candidates alternate; medians. Methods run to the same tolerance, which the recomputed residual meets.
"""

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as spl
from scipy.sparse.csgraph import reverse_cuthill_mckee
from scipy.spatial import Delaunay

import harness
import tacit
from tacit import _core

TOLERANCE = {"p5": 1e-5, "v5": 1e-3, "p7": 1e-6, "v7": 1e-4, "P5": 1e-5, "V5": 1e-3, "P7": 1e-5}
TOLERANCE |= {"f7": 1e-4, "g2": 1e-6, "d2": 1e-6, "b3": 1e-6}
PRODUCTS = ("f7", "g2", "d2", "b3")  # of these products and cg only
KERNELS = ("product", "product, 4 columns", "set-up")
METHODS: dict[str, dict[str, Any]] = {
    "cg": {"method": "cg"},
    "ca-cg 4": {"method": "ca-cg", "step": 4},
    "ca-cg 8": {"method": "ca-cg", "step": 8},
    "ca-cg 12": {"method": "ca-cg", "step": 12},
    "ca-cg 8, stored basis": {"method": "ca-cg", "step": 8, "basis": "newton"},
    "bicgstab": {"method": "bicgstab"},
    "ca-bicgstab": {"method": "ca-bicgstab"},
    "ca-bicgstab 4": {"method": "ca-bicgstab", "step": 4},
    "ca-bicgstab 4, stored basis": {"method": "ca-bicgstab", "step": 4, "powers": "kernel"},
}


def system(name: str) -> sp.csr_array:
    a = mesh(name) if name in ("g2", "d2") else grid(name)
    if name == "f7":
        a.data = a.data.astype(np.float32).astype(np.float64)
    a.sort_indices()
    return a


def grid(name: str) -> sp.csr_array:
    """Dirichlet second differences; not "p": D A D with log-normal D, which keeps the pattern and the symmetry."""
    dimensions = 2 if name[1] == "5" else 3
    n = {"p5": 1024, "v5": 1024, "P5": 3000, "V5": 3000, "P7": 200, "b3": 40}.get(name, 100)
    line = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(n, n))
    a = line
    for _ in range(dimensions - 1):
        a = sp.kron(a, sp.eye_array(n)) + sp.kron(sp.eye_array(a.shape[0]), line)
    if name == "b3":
        a = sp.kron(a, [[2.0, 0.5, 0.25], [0.5, 2.0, 0.5], [0.25, 0.5, 2.0]])
    if name[0] not in "pP":
        d = sp.diags_array(np.exp(0.5 * np.random.default_rng(7).standard_normal(a.shape[0])))
        a = d @ a @ d
    return sp.csr_array(a)


def mesh(name: str) -> sp.csr_array:
    """L + I of the edges of a Delaunay mesh."""
    rng, n = np.random.default_rng(7), 600_000
    triangles = Delaunay(rng.random((n, 2))).simplices
    ends = np.sort(np.concatenate([triangles[:, pair] for pair in ([0, 1], [1, 2], [2, 0])]), axis=1)
    i, j = np.unique(ends, axis=0).T
    weight = rng.integers(1, 10, i.size).astype(float) if name == "g2" else 0.5 + rng.random(i.size)
    a = sp.csr_array(sp.coo_array((weight, (i, j)), shape=(n, n)))
    a = a + a.T
    order = reverse_cuthill_mckee(sp.csr_matrix(a), symmetric_mode=True)
    a = sp.csr_array(a)[order][:, order]
    return sp.csr_array(sp.diags_array(np.asarray(a.sum(axis=1)) + 1) - a)


def clock(work: Callable[[], Any]) -> Callable[[], tuple[float, Any]]:
    def run() -> tuple[float, Any]:
        begin = time.perf_counter()
        result = work()
        return time.perf_counter() - begin, result

    return run


def moved(name: str, result: Any, stored: float, vector: float) -> float | None:
    """Bytes of an iteration; None where there is no formula for it here."""
    if name.startswith("product"):
        return stored + (8 if "4" in name else 2) * vector
    if name == "cg":
        return stored + 10 * vector
    if name == "bicgstab":
        return 2 * stored + 18 * vector
    if name.startswith("ca-cg") and "stored" not in name:  # blocks are as many as the products of p and r in them need
        blocks = max(1, result.counts["reductions"])
        return blocks * (2 * stored + 17 * vector) / max(1, result.iterations)
    return None


def measure(name: str, rounds: int) -> list[dict[str, Any]]:
    a = system(name)
    A, n = tacit.csr(a), a.shape[0]
    x = np.random.default_rng(3).standard_normal(n)
    b = a @ x
    vector = 8.0 * n
    stored = A._handle.cost()[1] - 2 * vector
    left, right = np.ones(4 * n), np.ones(4 * n)
    rtol = TOLERANCE[name]
    block = np.random.default_rng(4).standard_normal((n, 4))
    methods = {"cg": METHODS["cg"]} if name in PRODUCTS else METHODS
    work: dict[str, Callable[[], Any]] = {
        "bandwidth": lambda: np.add(left, right, out=right),
        "product": lambda: _first(A @ x),
        "product, SciPy": lambda: _first(a @ x),
        "product, 4 columns": lambda: _first(A @ block),
        "product, 4 columns, SciPy": lambda: _first(a @ block),
        "set-up": lambda: len(tacit.csr(a).storage),
        "cg, SciPy": lambda: _scipy_cg(a, b, rtol),
    }
    work |= {
        label: (lambda o=options: tacit.solve(A, b, rtol=rtol, precond="none", **o))
        for label, options in methods.items()
    }
    found = harness.turns(rounds, {label: clock(run) for label, run in work.items()})
    ms = {label: 1e3 * statistics.median(t for t, _ in runs) for label, runs in found.items()}
    bandwidth = 12 * vector / ms["bandwidth"] * 1e3
    print(f"{name}: {A.storage}, {stored / n:.1f} bytes a row, {bandwidth / 1e9:.1f} GB/s")
    rows = []
    for label in [*KERNELS, *methods]:
        result = found[label][0][1]
        iterations = 1 if label in KERNELS else result.iterations
        assert label in KERNELS or result.converged, f"{name}, {label}: {result.reason}"
        bytes_ = moved(label, result, stored, vector)
        peer = label + ", SciPy" if label in ("product", "product, 4 columns") else "cg, SciPy"
        steps = 1 if label in KERNELS else found[peer][0][1]
        row = {
            "system": name,
            "kernel": label,
            "iterations": iterations,
            "MB": bytes_ and bytes_ / 1e6,
            "floor_ms": bytes_ and 1e3 * bytes_ / bandwidth,
            "ms": ms[label] / iterations,
        }
        if label == "set-up":
            row["of_product"] = ms[label] / ms["product"]
        else:
            row["of_scipy"] = ms[label] / iterations / (ms[peer] / steps)
        if label not in KERNELS:
            row["of_cg"] = row["ms"] / (ms["cg"] / found["cg"][0][1].iterations)
        rows.append(row)
        floor = f"{row['MB']:7.1f} MB, floor {row['floor_ms']:6.2f} ms, " if bytes_ else " " * 32
        shares = f"of the floor {row['ms'] / row['floor_ms']:5.2f}, " if bytes_ else " " * 20
        names = {"of_scipy": "of SciPy's", "of_cg": "of cg", "of_product": "products"}
        ratios = ", ".join(f"{text} {row[key]:5.2f}" for key, text in names.items() if key in row)
        print(f"  {label:22s} {iterations:4d} iterations, {floor}ours {row['ms']:6.2f} ms, {shares}{ratios}")
    return rows


def _first(y: Any) -> float:
    """A result that does not keep y: a new array would wait for its pages."""
    return float(y.flat[0])


def _scipy_cg(a: Any, b: Any, rtol: float) -> int:
    count = [0]

    def step(_: Any) -> None:
        count[0] += 1

    _, info = spl.cg(a, b, rtol=rtol, callback=step)
    assert info == 0
    return count[0]


def main() -> None:
    parser = harness.parser(__doc__, rounds=5, threads=1)
    parser.add_argument("--systems", nargs="+", choices=list(TOLERANCE), default=list(TOLERANCE))
    options = parser.parse_args()
    _core.set_threads(options.threads)
    rows = [row for name in options.systems for row in measure(name, options.rounds)]
    harness.write(options.json, "floors", threads=options.threads, rows=rows)


if __name__ == "__main__":
    main()
