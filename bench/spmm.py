"""Products of stored matrices with k columns against MKL, SciPy and plain compressed rows.

    python bench/spmm.py [--plain LIBRARY] [--mkl LIBRARY] [--real FOLDER] [--systems p7 v7 ..] [--columns 1 2 4 ..]
                         [--types float64 float32] [--sides A T] [--threads 1] [--rounds 5] [--json FILE]

Systems: 7 points on 64^3 (p7: constant coefficients, v7: log-normal ones); q1: trilinear elements of elasticity on 24^3
(3 unknowns in a node); g2: a Delaunay mesh; rmat: R-MAT of 2^17 vertices, 16 edges each; random: 16 entries in each of
200,000 rows; projector: 180 x 256 rays. --real: a folder of matrices of scipy.sparse.save_npz, by name. A user's calls:
`A @ X` and `A.T @ X` with X in rows as NumPy makes it. Peers have their result allocated before, except SciPy, and for
A^T the transposed matrix stored in rows. plain: the library of the target plain_csr (peers/plain_csr.cpp). mkl:
libmkl_rt.so, with hints and optimisation before.

Candidates alternate; the least time of the rounds. The ratio is the best peer's time over ours.
"""

from __future__ import annotations

import ctypes
import math
import os
import pathlib
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.spatial import Delaunay

import harness
import tacit
from tacit import _core, tomography

Product = Callable[[], Any]


def system(name: str, real: pathlib.Path | None) -> sp.csr_array:
    if real and (real / f"{name}.npz").exists():
        a = sp.csr_array(sp.load_npz(real / f"{name}.npz"))
    else:
        a = sp.csr_array(MADE[name]())
    a.sum_duplicates()
    a.sort_indices()
    return a


def grid(n: int, varying: bool) -> Any:
    line = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(n, n))
    a = line
    for _ in range(2):
        a = sp.kron(a, sp.eye_array(n)) + sp.kron(sp.eye_array(a.shape[0]), line)
    if varying:
        d = sp.diags_array(np.exp(0.5 * np.random.default_rng(7).standard_normal(a.shape[0])))
        a = d @ a @ d
    return a


def elasticity(n: int) -> Any:
    """27 nodes in a row, with dense blocks of 3 x 3."""
    line = sp.diags_array([1.0, 1.0, 1.0], offsets=[-1, 0, 1], shape=(n, n))
    a = sp.csr_array(sp.kron(sp.kron(line, sp.kron(line, line)), np.ones((3, 3))))
    a.data = np.random.default_rng(7).standard_normal(a.nnz)
    return a


def mesh(n: int) -> Any:
    rng = np.random.default_rng(7)
    triangles = Delaunay(rng.random((n, 2))).simplices
    ends = np.concatenate([triangles[:, pair] for pair in ([0, 1], [1, 2], [2, 0])])
    a = sp.coo_array((rng.random(len(ends)), tuple(ends.T)), shape=(n, n)).tocsr()
    order = sp.csgraph.reverse_cuthill_mckee(sp.csr_matrix(a + a.T), symmetric_mode=True)
    return (a + a.T + sp.eye_array(n, format="csr"))[order][:, order]


def rmat(scale: int) -> Any:
    """Graph 500: quadrants 0.57, 0.19, 0.19, 0.05."""
    rng, edges = np.random.default_rng(7), 16 << scale
    i, j = np.zeros((2, edges), np.int64)
    for _ in range(scale):
        u = rng.random(edges)
        i, j = 2 * i + (u >= 0.76), 2 * j + (((u >= 0.57) & (u < 0.76)) | (u >= 0.95))
    names = rng.permutation(1 << scale)
    return sp.coo_array((rng.random(edges), (names[i], names[j])), shape=(1 << scale, 1 << scale))


def scattered(n: int, entries: int) -> Any:
    rng = np.random.default_rng(7)
    row = np.repeat(np.arange(n), entries)
    return sp.coo_array((rng.random(n * entries), (row, rng.integers(0, n, n * entries))), shape=(n, n))


def projector() -> Any:
    angles = (np.arange(180) * np.pi / 180).astype(np.float32)
    return tomography.projector(angles, 256, format="plain").operator.to_scipy()


MADE: dict[str, Callable[[], Any]] = {
    "p7": lambda: grid(64, False),
    "v7": lambda: grid(64, True),
    "q1": lambda: elasticity(24),
    "g2": lambda: mesh(300_000),
    "rmat": lambda: rmat(17),
    "random": lambda: scattered(200_000, 16),
    "projector": projector,
}


class Mkl:
    """mkl_sparse_*_mv and _mm by ctypes; layout in rows, hints and optimisation for each number of columns."""

    ROWS, GENERAL, PLAIN = 101, 20, 10

    class Description(ctypes.Structure):
        _fields_ = (("kind", ctypes.c_int), ("mode", ctypes.c_int), ("diagonal", ctypes.c_int))

    def __init__(self, path: str, threads: int) -> None:
        os.environ["MKL_THREADING_LAYER"] = "GNU" if threads > 1 else "SEQUENTIAL"
        self.library = ctypes.CDLL(path)
        self.library.MKL_Set_Num_Threads(threads)

    def product(self, a: sp.csr_array, x: np.ndarray, y: np.ndarray) -> Product:
        letter, real = ("d", ctypes.c_double) if a.dtype == np.float64 else ("s", ctypes.c_float)
        matrix, about = ctypes.c_void_p(), self.Description(self.GENERAL, 0, 0)
        start, column = a.indptr.astype(np.int32), a.indices.astype(np.int32)
        pointer = [ctypes.c_void_p(part.ctypes.data) for part in (start, start[1:], column, a.data)]
        n, k = a.shape[1], x.size // a.shape[1]

        def call(name: str, *given: Any) -> None:
            if status := getattr(self.library, name)(*given):
                raise SystemExit(f"{name} returned {status}")

        call(f"mkl_sparse_{letter}_create_csr", ctypes.byref(matrix), 0, a.shape[0], n, *pointer)
        if k == 1:
            call("mkl_sparse_set_mv_hint", matrix, self.PLAIN, about, 1000)
        else:
            call("mkl_sparse_set_mm_hint", matrix, self.PLAIN, about, self.ROWS, k, 1000)
        call("mkl_sparse_optimize", matrix)
        vectors = [ctypes.c_void_p(v.ctypes.data) for v in (x, y)]
        kept = (start, column, a, x, y)

        def run() -> Any:
            if k == 1:
                call(f"mkl_sparse_{letter}_mv", self.PLAIN, real(1), matrix, about, vectors[0], real(0), vectors[1])
            else:
                call(f"mkl_sparse_{letter}_mm", self.PLAIN, real(1), matrix, about, self.ROWS, vectors[0], k, k, real(0),
                     vectors[1], k)  # fmt: skip
            return kept[-1]

        return run


def plain(path: str, a: sp.csr_array, x: np.ndarray, y: np.ndarray, threads: int) -> Product:
    function = getattr(ctypes.CDLL(path), f"plain_csr_{a.dtype.name}")
    parts = (a.indptr.astype(np.int32), a.indices.astype(np.int32), a.data, x, y)
    pointers = [ctypes.c_void_p(part.ctypes.data) for part in parts]
    k = x.size // a.shape[1]

    def run() -> Any:
        if function(ctypes.c_int64(a.shape[0]), *pointers, k, threads):
            raise SystemExit(f"the plain product has no kernel for {k} columns")
        return parts[-1]

    return run


def clock(work: Product, threads: int) -> Callable[[], float]:
    """Seconds of a product, as the mean of so many in a row that they take 2 ms. With one thread its processor time, in
    which the turns of other programs do not count."""
    repeats = 0
    now = time.thread_time if threads == 1 else time.perf_counter

    def run() -> float:
        nonlocal repeats
        if not repeats:
            begin = now()
            work()
            repeats = max(1, min(1000, int(2e-3 / (now() - begin))))
        work()  # the caches as a product leaves them, not as the candidate before did
        begin = now()
        for _ in range(repeats):
            work()
        return (now() - begin) / repeats

    return run


def compare(o: Any, name: str, side: str, a: sp.csr_array, ours: Any, k: int, mkl: Mkl | None) -> dict[str, Any]:
    """`a` is the matrix of this side, in rows; `ours` the operator."""
    shape = (a.shape[1], k) if k > 1 else (a.shape[1],)
    x = np.random.default_rng(k).standard_normal(shape).astype(a.dtype)
    y = np.empty((a.shape[0], k) if k > 1 else a.shape[0], a.dtype)
    work: dict[str, Product] = {"ours": lambda: ours @ x, "out": lambda: ours.matvec(x, out=y)}
    work["scipy"] = lambda: a @ x
    expected = work["scipy"]()
    if o.plain:
        work["plain"] = plain(o.plain, a, x, y, o.threads)
    if mkl:
        work["mkl"] = mkl.product(a, x, y)
    bound = np.finfo(a.dtype).eps * 50 * (abs(a) @ abs(x))
    for label, run in work.items():
        assert (abs(run() - expected) <= bound + 1e-30).all(), f"{name} {side} {k}: {label} differs"
    best = {
        label: min(s) for label, s in harness.turns(o.rounds, {n: clock(w, o.threads) for n, w in work.items()}).items()
    }
    peers = {label: s for label, s in best.items() if label not in ("ours", "out")}
    ratio = min(peers.values()) / best["ours"]
    row = {"system": name, "side": side, "type": a.dtype.name, "columns": k, "storage": ours_storage(ours)}
    row |= {f"{label}_ms": round(1e3 * s, 4) for label, s in best.items()} | {"ratio": round(ratio, 3)}
    times = ", ".join(f"{label} {1e3 * s:8.3f}" for label, s in best.items())
    mark = " <" if ratio < 0.98 else ""
    print(f"{name:10s} {side} {a.dtype.name} {k:3d}: {times}; {ratio:5.2f}{mark}", flush=True)
    return row


def ours_storage(ours: Any) -> str:
    return str(ours.storage if ours.storage != "none" else "transpose")


def main() -> None:
    words = harness.parser(__doc__, rounds=5, threads=1)
    words.add_argument("--plain")
    words.add_argument("--mkl")
    words.add_argument("--real", type=pathlib.Path)
    words.add_argument("--systems", nargs="+", default=list(MADE))
    words.add_argument("--columns", type=int, nargs="+", default=[1, 2, 4, 8, 16, 32, 64])
    words.add_argument("--types", nargs="+", default=["float64", "float32"])
    words.add_argument("--sides", nargs="+", default=["A", "T"])
    o = words.parse_args()
    _core.set_threads(o.threads)
    mkl = Mkl(o.mkl, o.threads) if o.mkl else None
    rows = []
    for name in o.systems:
        for dtype in o.types:
            a = system(name, o.real).astype(dtype)
            A = tacit.csr(a)
            print(f"{name}: {a.shape[0]} x {a.shape[1]}, {a.nnz} entries, {A.storage}", flush=True)
            for side in o.sides:
                matrix = a if side == "A" else sp.csr_array(a.T)
                matrix.sort_indices()
                ours = A if side == "A" else A.T
                rows += [compare(o, name, side, matrix, ours, k, mkl) for k in o.columns]
    ratios = [row["ratio"] for row in rows]
    mean, worst = math.exp(statistics.fmean(map(math.log, ratios))), min(ratios)
    below = sum(r < 0.98 for r in ratios)
    print(f"{len(rows)} products: mean {mean:.2f} (geometric), least {worst:.2f}, {below} below 0.98")
    harness.write(o.json, "spmm-stored/1", threads=o.threads, mean=mean, rows=rows)


if __name__ == "__main__":
    main()
