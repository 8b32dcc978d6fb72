"""Blocks of an H-matrix: figures 1, 6(b) and 7 of the BiCGStab paper, from a file that `bench_hmatrix_devices` writes.

    build/release/bench/bench_hmatrix_devices figures=0 mesh=ring:9,30 nodes=1 blocks=blocks.txt
    python bench/papers/000/partition.py blocks.txt [--out FOLDER]

Fig. 1: dense and low-rank blocks (the darker, the higher the rank), and the rows of four ranks, which do not overlap
(those of HACApK do). Fig. 6(b): rows and columns of every product with dense blocks and factors V, and with factors U.
Fig. 7: the same sizes in the order of the launches, by rows and by groups of 8 rows.
"""

import argparse
import pathlib

import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.collections import PolyCollection


def main():
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("blocks", type=pathlib.Path)
    words.add_argument("--out", type=pathlib.Path, default=pathlib.Path())
    o = words.parse_args()
    cuts, rows = [], []
    for line in o.blocks.read_text().splitlines():
        if line.startswith("cuts"):
            cuts.append([int(word) for word in line.split()[1:]])
        else:
            rows.append([int(word) for word in line.split()])
    at, height, left, width, rank = np.array(rows).T
    n = int((at + height).max())
    dense = rank < 0
    numbers = np.where(dense, height * width, rank * (height + width))
    print(
        f"n = {n:,}: {dense.sum():,} dense and {(~dense).sum():,} low-rank blocks, mean rank {rank[~dense].mean():.2f},"
        f" largest {rank.max()}, {numbers.sum() / (n * np.log2(n)):.1f} n log2 n numbers ({numbers.sum() / n**2:.2%} of n^2)"
    )
    figure, axes = plt.subplots(1, 3, figsize=(19, 6))
    right, below = left + width, at + height
    corners = np.stack([left, at, right, at, right, below, left, below], 1).reshape(-1, 4, 2)
    shade = np.where(dense, 1.0, 0.15 + 0.6 * rank / max(1, rank.max()))
    axes[0].add_collection(PolyCollection(corners, facecolors=plt.cm.Blues(shade), edgecolors="#888", linewidths=0.1))
    for row in (cuts[0] if cuts else [])[1:-1]:
        axes[0].axhline(row, color="#c05621", lw=1.5)
    axes[0].set(xlim=(0, n), ylim=(n, 0), aspect="equal", title="blocks, and the rows of ranks (Fig. 1)")

    low = ~dense & (rank > 0)
    first = np.concatenate([np.stack([height[dense], width[dense]], 1), np.stack([rank[low], width[low]], 1)])
    second = np.stack([height[low], rank[low]], 1)
    axes[1].loglog(first[:, 0], first[:, 1], ".", ms=2, color="#2b6cb0", label="dense, V$^H$")
    axes[1].loglog(second[:, 0], second[:, 1], ".", ms=2, color="#c05621", label="U")
    axes[1].set(xlabel="rows", ylabel="columns", title="sizes of products (Fig. 6b)")
    axes[1].legend(loc="upper right")

    everything = np.concatenate([first, second])
    by_rows = np.argsort(everything[:, 0], kind="stable")
    by_groups = np.lexsort((everything[:, 1], (everything[:, 0] - 1) // 8))
    for order, colour, label in ((by_rows, "#2b6cb0", "by rows (a)"), (by_groups, "#c05621", "in groups of 8 (b)")):
        axes[2].semilogy(everything[order, 1], lw=0.6, color=colour, alpha=0.6, label=f"columns, {label}")
    axes[2].semilogy(everything[by_rows, 0], color="black", lw=1, label="rows")
    axes[2].set(xlabel="product", title="in the order of launch (Fig. 7)")
    axes[2].legend(loc="upper center")
    figure.tight_layout()
    path = o.out / "partition.png"
    figure.savefig(path, dpi=110)
    print(path)


if __name__ == "__main__":
    main()
