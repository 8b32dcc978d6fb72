"""Orders without geometry: reuse, padding and seconds of clusterings of a projector with shuffled rays and pixels; an
open question related to figure 5 of the proposal on hierarchical sparse operations.

    python bench/papers/003/clustering.py [--size 256] [--angles 360] [--block 1024] [--ways spectral] [--columns 16]

--ways: a list of spectral, greedy, metis. For the Hilbert order (which uses the geometry), the shuffled matrix and each
clustering of it: reuse of a staged column in blocks of 128 and of `block` rows, stages per block, and entries over
nonzeros after padding to warps of 32 rows (buffers of 48 KB, `columns` columns of floats), all for A / A^T; wall and
CPU seconds of the clustering; Gflop/s of A stored in this order.
Source: Hidayetoglu, Hierarchical Computation and Communication for Distributed Sparse Operations on Supercomputers with
Multi-GPU Nodes (2021), section 2.5 and figure 5.
"""

import argparse
import time

import numpy as np

import tacit
from tacit import layout, tomography


def line(name, A, block, capacity, x, nnz, note):
    s, t = A.staging(block, capacity), A.staging(block, capacity, True)
    seconds = float("inf")
    for _ in range(5):
        begin = time.perf_counter()
        A @ x
        seconds = min(seconds, time.perf_counter() - begin)
    print(
        f"{name:10s} reuse at 128 rows {A.reuse(128):5.2f} / {A.reuse(128, True):5.2f}, at {block} {s['reuse']:5.2f} / {t['reuse']:5.2f};"
        f" stages {s['stages']:4.1f} / {t['stages']:4.1f}, ELL {s['warp_padding']:.3f} / {t['warp_padding']:.3f};"
        f" {2e-9 * nnz * x.shape[1] / seconds:5.1f} Gflop/s{note}",
        flush=True,
    )


def main():
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--size", type=int, default=256)
    words.add_argument("--angles", type=int, default=360)
    words.add_argument("--block", type=int, default=1024)
    words.add_argument("--ways", default="spectral")
    words.add_argument("--columns", type=int, default=16)
    o = words.parse_args()
    angles = (np.arange(o.angles) * np.pi / o.angles).astype(np.float32)
    capacity = 48 * 1024 // 4 // o.columns
    hilbert = tomography.projector(angles, o.size, format="list").operator
    rng = np.random.default_rng(1)
    x = rng.random((hilbert.shape[1], o.columns), np.float32)
    print(f"{hilbert.nnz:,} entries, {tacit._core.threads()} threads; of A / A^T")
    line("hilbert", hilbert, o.block, capacity, x, hilbert.nnz, " (knows the geometry)")
    a = hilbert.to_scipy()
    a = a[rng.permutation(a.shape[0])][:, rng.permutation(a.shape[1])]
    line("shuffled", tacit.tiled(a, format="list"), o.block, capacity, x, a.nnz, "")
    for how in o.ways.split(","):
        best = (1e9, 1e9)
        for _ in range(1 if how != "spectral" else 3):
            begin = time.perf_counter(), time.process_time()
            found = layout.cluster(a, o.block, how)
            best = min(best[0], time.perf_counter() - begin[0]), min(best[1], time.process_time() - begin[1])
        A = tacit.tiled(a, format="list", order=how, cluster_rows=o.block)
        assert found.how == A.order
        note = f"; found in {best[0]:.2f} s ({best[1]:.2f} s of the processors)"
        line(how, A, o.block, capacity, x, a.nnz, note)
    print("goals: reuse 25.6 / 28 at 1024 rows, ELL 1.35, 1 s for 28 M nonzeros on two processors")


if __name__ == "__main__":
    main()
