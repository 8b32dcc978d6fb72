"""The parts of a reconstruction's time on several ranks, by precision: figure 8 of the proposal on hierarchical sparse
operations.

    python bench/papers/003/end_to_end.py [--sizes 128,180 256,360] [--ranks 8] [--groups 2,4] [--columns 4]
                                          [--iterations 10] [--out FOLDER]

CGLS of several slices on ranks that are threads of this process and share its cores: seconds are sums over the ranks.
For double (float64), single (float32) and mixed precision (float32 sums, float16 values and vectors), with direct and
with hierarchical reductions: seconds of products (kernel), of reductions, of waiting, and of everything else; MB that
leave nodes (groups of the last size) in a product. (Paper, 24 and 768 GPUs: hierarchical reductions save 60 % of the
communication time and 50 % of the total.)
"""

import argparse
import pathlib

import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import tacit
from tacit import tomography

PRECISIONS = {
    "double": {"dtype": "float64"},
    "single": {"dtype": "float32"},
    "mixed": {"dtype": "float32", "values": "float16", "vectors": "float16"},
}
COMMUNICATION = ("reduce", "spread", "wait for halo", "wait for sum")
COLOURS = {"products": "#2b6cb0", "sums": "#c53030", "rest": "#a0aec0"}


def covered(spans):
    """The length of a union of intervals: waiting inside of a reduction counts once."""
    total, end = 0.0, -np.inf
    for first, last in sorted(spans):
        total += max(0.0, last - max(first, end))
        end = max(end, last)
    return total


def measure(o, n, count, groups, precision):
    angles = (np.arange(count) * np.pi / count).astype(np.float32)
    images = np.random.default_rng(0).random((o.columns, n, n))

    def rank(comm):
        P = tomography.projector(
            angles, n, comm=comm, groups=groups, format="list", columns=o.columns, **PRECISIONS[precision]
        )
        b = P.project(images.astype(P.dtype))
        tacit._core.trace_rank()
        if comm.rank == 0:
            tacit._core.trace_start()
        comm.barrier()
        begin = tacit._core.wall_time()
        r = tomography.reconstruct(b, projector=P, iterations=o.iterations)
        comm.barrier()
        seconds = tacit._core.wall_time() - begin
        spent = {"products": 0.0, "sums": 0.0}
        if comm.rank == 0:
            tacit._core.trace_stop()
            for other in range(comm.size):
                events = [(e[0], e[2], e[3]) for e in tacit._core.take_events(other, 0.0)]
                spent["products"] += covered((b, e) for name, b, e in events if name == "tiled product")
                spent["sums"] += covered((b, e) for name, b, e in events if name in COMMUNICATION)
        spent["rest"] = max(0.0, seconds * comm.size - sum(spent.values()))
        sent = [v["sent"] for v in P.operator.volumes()]
        return spent, sent[-1] * o.columns * P.dtype.itemsize / 1e6, float(r.final_residual[0])

    return tacit.comm.run_threads(o.ranks, rank)[0]


def main():
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--sizes", nargs="+", default=["128,180", "256,360"])
    words.add_argument("--ranks", type=int, default=8)
    words.add_argument("--groups", default="2,4")
    words.add_argument("--columns", type=int, default=4)
    words.add_argument("--iterations", type=int, default=10)
    words.add_argument("--out", default=".")
    o = words.parse_args()
    tacit._core.set_threads(1)
    levels = tuple(int(g) for g in o.groups.split(","))
    figure, axes = plt.subplots(1, len(o.sizes), figsize=(6 * len(o.sizes), 4.2), squeeze=False)
    for place, size in zip(axes[0], o.sizes, strict=True):
        n, count = map(int, size.split(","))
        print(
            f"{count} angles x {n}, {o.columns} slices, {o.iterations} iterations, {o.ranks} ranks; seconds of all ranks"
        )
        names, parts = [], []
        for precision in PRECISIONS:
            for groups, how in (((), "direct"), (levels, f"by {o.groups}")):
                spent, sent, residual = measure(o, n, count, groups, precision)
                print(
                    f"  {precision:6s} {how:9s}: products {spent['products']:6.2f}, sums {spent['sums']:6.2f}, rest"
                    f" {spent['rest']:6.2f}; last level {sent:.1f} MB a product; |b - A x| {residual:.4g}",
                    flush=True,
                )
                names.append(f"{precision}\n{how}"), parts.append(spent)
        bottom = np.zeros(len(parts))
        for kind, colour in COLOURS.items():
            height = np.array([p[kind] for p in parts])
            place.bar(names, height, bottom=bottom, color=colour, label=kind)
            bottom += height
        place.set_title(f"{count} x {n}, {o.ranks} ranks"), place.set_ylabel("seconds of all ranks"), place.legend()
        place.tick_params(axis="x", labelsize=7)
    figure.tight_layout()
    path = pathlib.Path(o.out) / "end_to_end.png"
    figure.savefig(path, dpi=110)
    print(f"drawn in {path}")


if __name__ == "__main__":
    main()
