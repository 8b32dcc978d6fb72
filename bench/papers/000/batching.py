"""The product of an H-matrix as batches of small products: figures 7, 8 and 9 of the BiCGStab paper, on this processor.

    python bench/papers/000/batching.py [--points 8000] [--count 2000] [--repeat 5] [--out FOLDER]

Two spheres, 1 / r, blocks as in HACApK (leaves of 15, min diameter <= 2 distances, ACA+ to 1e-3 of each block, no
recompression, float64). Fig. 9: Gflop/s of one product for each way of batching, with a thread for each queue; next to
the paper's rate on a P100 for 100ts. Figs. 7 and 8, for four orders: the rows of each batch, its rate, and the fraction
of the thread blocks that have work, if a GPU kernel starts as many for each task as the largest one needs.
"""

import argparse
import pathlib
import time

import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import tacit

FINE = (8, *range(32, 4096, 32))
WAYS = (  # name, plan, Gflop/s in the paper
    ("one launch a task, 5 queues (cuBLAS)", {"order": "none", "cut": "count", "count": 1, "queues": 5}, 0.42),
    ("5K fixed count, padded", {"order": "grouped", "cut": "count", "padded": True, "share": 0.25}, 53.00),
    ("20K fixed count", {"order": "grouped", "cut": "count"}, 65.21),
    ("20K variable count, 1 queue", {"order": "grouped", "cut": "ranges", "ranges": FINE}, 51.43),
    ("20K variable count, 2 queues", {"order": "grouped", "cut": "ranges", "ranges": FINE, "queues": 2}, 81.12),
    ("20K variable count, 3 queues", {"order": "grouped", "cut": "ranges", "ranges": FINE, "queues": 3}, 84.13),
    ("20K fixed count, not sorted", {"order": "none", "cut": "count"}, None),
    ("20K fixed count, by rows", {"order": "rows", "cut": "count"}, None),
    ("20K fixed count, where columns begin", {"order": "columns", "cut": "count"}, None),
)
PANELS = (
    ("(a) by rows", {"order": "rows", "cut": "count"}),
    ("(b) grouped", {"order": "grouped", "cut": "count"}),
    ("(c) grouped, variable count", {"order": "grouped", "cut": "ranges", "ranges": (8, 32)}),
    ("(d) not sorted", {"order": "none", "cut": "count"}),
)


def pair_of_spheres(n):
    k = np.arange(n // 2)
    z = 1 - (2 * k + 1) / (n // 2)
    r, angle = np.sqrt(1 - z * z), 2.399963229728653 * k
    sphere = 0.25 * np.stack([r * np.cos(angle), r * np.sin(angle), z], axis=1)
    return np.concatenate([sphere, sphere + [1.0, 0, 0]])


def best_of(A, x, repeat):
    best = np.inf
    for _ in range(repeat):
        begin = time.perf_counter()
        A @ x
        best = min(best, time.perf_counter() - begin)
    return best


def draw(o, A, x):
    """The batches of four plans: rows, rates and thread blocks with work."""
    figure, axes = plt.subplots(3, 4, figsize=(16, 9), sharex="col")
    for column, (name, plan) in enumerate(PANELS):
        A.use_batches(**{"count": o.count, **plan})
        rates = []
        for _ in range(o.repeat):
            A @ x
            rates.append([2 * b["numbers"] / max(b["seconds"], 1e-9) / 1e9 for b in A.batches["batches"]])
        batches = A.batches["batches"]
        at = np.arange(len(batches))
        colour = ["#2b6cb0" if b["list"] == 0 else "#c05621" for b in batches]
        axes[0, column].vlines(
            at, [b["rows"][0] for b in batches], [b["rows"][1] + 1 for b in batches], colors=colour, lw=3
        )
        axes[1, column].bar(at, np.max(rates, axis=0), color=colour)
        axes[2, column].bar(at, [b["thread_blocks"][0] / b["thread_blocks"][1] for b in batches], color=colour)
        axes[0, column].set(title=name, yscale="log")
        axes[2, column].set(xlabel="batch", ylim=(0, 1.05))
    axes[0, 0].set_ylabel("rows (Fig. 7)")
    axes[1, 0].set_ylabel("Gflop/s (Fig. 8)")
    axes[2, 0].set_ylabel("thread blocks with work")
    figure.suptitle("blue: dense blocks and factors V, brown: factors U")
    figure.tight_layout()
    path = pathlib.Path(o.out) / "batching.png"
    figure.savefig(path, dpi=110)
    print(path)


def main():
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--points", type=int, default=8000)
    words.add_argument("--count", type=int, default=2000, help="tasks of a batch: the paper's 20K, for fewer blocks")
    words.add_argument("--repeat", type=int, default=5)
    words.add_argument("--out", default=".")
    o = words.parse_args()
    p = pair_of_spheres(o.points)
    least = 0.5 / np.sqrt(o.points)

    def entries(i, j):
        d = p[i][:, None, :] - p[None, j, :]
        return 1 / np.maximum(np.sqrt(np.einsum("ijk,ijk->ij", d, d)), least)

    how = {"tolerance": 1e-3, "measure": "block", "leaf_size": 15, "eta": 2.0, "bisection": "midpoint"}
    A = tacit.hmatrix(p, entries, **how, recompress=False, storage="full")
    r = A.report
    numbers = r["bytes"] / 8
    print(
        f"n = {o.points:,}: {r['dense_blocks']:,} dense and {r['low_rank_blocks']:,} low-rank blocks, mean rank"
        f" {r['mean_rank']:.1f}, {r['bytes'] / 1e6:.1f} MB, error {r['measured_error']:.1e}"
    )
    x = np.random.default_rng(0).standard_normal(o.points)
    y = A @ x
    print(f"{'':40} batches   stored  work  Gflop/s   paper's")
    own = best_of(A, x, o.repeat)
    print(f"{'ours: panels, all threads':40} {'-':>7} {1:8.2f} {1:5.2f} {2 * numbers / own / 1e9:8.2f}")
    for name, plan, paper in WAYS:
        plan = dict(plan)
        share = plan.pop("share", 1)
        batches = A.use_batches(**{"count": max(1, int(o.count * share)), **plan})
        assert np.linalg.norm(A @ x - y) < 1e-10 * np.linalg.norm(y)
        seconds = best_of(A, x, o.repeat)
        working, started = np.sum([b["thread_blocks"] for b in batches["batches"]], axis=0)
        print(
            f"{name:40} {len(batches['batches']):7} {batches['padded_bytes'] / batches['bytes']:8.2f} {working / started:5.2f}"
            f" {2 * numbers / seconds / 1e9:8.2f} {'' if paper is None else f'{paper:9.2f}'}"
        )
    draw(o, A, x)


if __name__ == "__main__":
    main()
