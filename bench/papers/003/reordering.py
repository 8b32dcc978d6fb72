"""Reuse of staged columns in natural and in Hilbert order: figure 5 of the proposal on hierarchical sparse operations.

    python bench/papers/003/reordering.py [--size 16] [--angles 16] [--rows 32] [--large 256,360] [--out FOLDER]

Draws the matrix of a small projector (a) in natural order, with (b) rows, (c) columns, (d) both in Hilbert order, and
prints the reuse in blocks of `rows` rows: entries over distinct columns of a block. (Paper: 256 x 256, 93.59 % sparse,
32 rows per block, reuse 2.52 -> 4.44; its geometry is not stated.) Then the reuse of a larger matrix in both orders.
Source: Hidayetoglu, Hierarchical Computation and Communication for Distributed Sparse Operations on Supercomputers with
Multi-GPU Nodes (2021), figure 5.
"""

import argparse
import pathlib

import matplotlib
import numpy as np
import scipy.sparse as sp

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from tacit import tomography


def reuse(a, rows):
    a = sp.csr_array(a)
    distinct = sum(len(np.unique(a[r : r + rows].indices)) for r in range(0, a.shape[0], rows))
    return a.nnz / distinct


def main():
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--size", type=int, default=16)
    words.add_argument("--angles", type=int, default=16)
    words.add_argument("--rows", type=int, default=32)
    words.add_argument("--large", default="256,360")
    words.add_argument("--out", default=".")
    o = words.parse_args()
    angles = (np.arange(o.angles) * np.pi / o.angles).astype(np.float32)
    natural = tomography.projector(angles, o.size, order="natural", format="list").operator.to_scipy()
    P = tomography.projector(angles, o.size, format="list")
    rows, columns = P.ray_order, P.pixel_order
    kinds = {
        "(a) as it is": natural,
        "(b) rows": natural[rows],
        "(c) columns": natural[:, columns],
        "(d) both": natural[rows][:, columns],
    }
    figure, axes = plt.subplots(1, 4, figsize=(16, 4.4))
    print(
        f"{natural.shape[0]} x {natural.shape[1]}, {1 - natural.nnz / np.prod(natural.shape):.2%} sparse, {o.rows} rows a block"
    )
    for place, (name, a) in zip(axes, kinds.items(), strict=True):
        found = reuse(a, o.rows)
        print(f"  {name}: reuse {found:.2f}")
        place.spy(a, markersize=0.8, color="#2b6cb0")
        place.set_title(f"{name}: reuse {found:.2f}")
        place.set_xticks([]), place.set_yticks([])
        for r in range(0, a.shape[0], o.rows):
            place.axhline(r - 0.5, color="#a0aec0", linewidth=0.5)
    figure.tight_layout()
    path = pathlib.Path(o.out) / "reordering.png"
    figure.savefig(path, dpi=110)
    print(f"paper: 2.52 -> 4.44 (256 x 256, 93.59 % sparse); drawn in {path}")
    n, count = map(int, o.large.split(","))
    angles = (np.arange(count) * np.pi / count).astype(np.float32)
    for order in ("natural", "hilbert"):
        A = tomography.projector(angles, n, order=order, format="list").operator
        numbers = ", ".join(f"{r}: {A.reuse(r):.2f} / {A.reuse(r, True):.2f}" for r in (32, 128, 1024))
        print(f"{count} x {n}, {order}: reuse of A / A^T in blocks of {numbers}")


if __name__ == "__main__":
    main()
