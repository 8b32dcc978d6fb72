"""Volume of reductions over ranks, directly and by levels: figures 9 to 11 of the proposal on hierarchical sparse
operations.

    python bench/papers/003/hierarchy.py [--size 256] [--angles 360] [--ranks 24] [--groups 3,6] [--columns 4]
                                         [--order hilbert] [--time] [--out FOLDER]

Ranks are threads of this process and stand for the paper's GPUs. Prints the values per column by level (including those
that stay on their rank), the values that cross nodes, and, with --time, seconds of the parts of one product for
float64, float32 and float16 values; draws the rays of which ranks, sockets and nodes hold partial sums (figure 9) and
the volume between ranks, by level (figure 10). (Paper, 24 GPUs of 4 nodes: 1.35 GB -> 768 MB within sockets -> 492 MB
within nodes, 64 % less between nodes.)
"""

import argparse
import pathlib

import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import tacit
from tacit import tomography


def options():
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--size", type=int, default=256)
    words.add_argument("--angles", type=int, default=360)
    words.add_argument("--ranks", type=int, default=24)
    words.add_argument("--groups", default="3,6")
    words.add_argument("--columns", type=int, default=4)
    words.add_argument("--order", default="hilbert")
    words.add_argument("--time", action="store_true")
    words.add_argument("--out", default=".")
    return words.parse_args()


def owners(n, ranks):
    """The rank of each of n elements in equal blocks."""
    return np.searchsorted([n // ranks * r + min(r, n % ranks) for r in range(1, ranks)], np.arange(n), "right")


def held_by(touched, size):
    """The rows that each group of so many ranks touches."""
    return touched.reshape(len(touched), -1, size).any(2)


def touched_rows(o, P, groups):
    """(rows that each rank touches, the owner of each row): every column belongs to the rank that owns it."""
    whole = P.operator.to_scipy()
    m, n = whole.shape
    owner = owners(m, o.ranks)
    touched = np.zeros((m, o.ranks), bool)
    touched[np.repeat(np.arange(m), np.diff(whole.indptr)), owners(n, o.ranks)[whole.indices]] = True
    node = groups[-1]
    names = ["rank", *(f"group of {g}" for g in groups)]
    print(f"{whole.nnz:,} entries, {m:,} rows, {o.ranks} ranks, {o.order} order; values a column")
    first = None
    for name, size in zip(names, (1, *groups), strict=True):
        held = held_by(touched, size)
        total = int(held.sum())
        away = int(held[(np.arange(o.ranks // size) * size // node)[None, :] != (owner // node)[:, None]].sum())
        first = first or (total, away)
        print(
            f"  per {name:11s}: {total:9,} ({1 - total / first[0]:5.1%} fewer), between nodes {away:9,} ({1 - away / first[1]:5.1%} fewer)"
        )
    print("  paper: 1.35 GB, 768 MB (43 % fewer), 492 MB (64 % fewer)")
    return touched, owner


def plans(o, angles, groups):
    """The same from the library's own plans, on ranks that are threads; the results equal the direct ones."""
    x = np.random.default_rng(0).random((o.columns, o.size, o.size)).astype(np.float32)

    def rank(comm, hierarchical):
        P = tomography.projector(angles, o.size, order=o.order, groups=groups if hierarchical else (), comm=comm)
        return P.project(x), P.operator.volumes()

    tacit._core.set_threads(1)
    direct, hierarchical = (tacit.comm.run_threads(o.ranks, lambda comm, h=h: rank(comm, h))[0] for h in (False, True))
    for name, (_, volumes) in (("direct", direct), ("hierarchical", hierarchical)):
        levels = (
            f"level of {v['group']}: {v['touched']:,} held, {v['sent']:,} sent, {v['messages']} messages"
            for v in volumes
        )
        print(f"  {name}: " + "; ".join(levels))
    difference = np.abs(direct[0] - hierarchical[0]).max() / np.abs(direct[0]).max()
    print(f"  hierarchical - direct: {difference:.1e} of the largest value")
    return x


def save(o, figure, name):
    figure.tight_layout()
    path = pathlib.Path(o.out) / name
    figure.savefig(path, dpi=110)
    print(f"drawn in {path}")


def draw_volumes(o, groups, touched, owner):
    """The volume from each rank to each other one."""
    figure, axes = plt.subplots(1, 1 + len(groups) + 1, figsize=(5 * (2 + len(groups)), 4.6))

    def draw(place, held, inner, outer, title):
        matrix = np.zeros((o.ranks, o.ranks))
        for g in range(held.shape[1]):
            rows = np.flatnonzero(held[:, g])
            holder = g * inner + owner[rows] % inner
            to = holder // outer * outer + owner[rows] % outer
            np.add.at(matrix, (holder, to), 1)
        shown = place.imshow(np.where(matrix > 0, matrix, np.nan), cmap="viridis")
        place.set_title(title), place.set_xlabel("to rank"), place.set_ylabel("from rank")
        figure.colorbar(shown, ax=place, shrink=0.8)

    draw(axes[0], touched, 1, o.ranks, f"direct: {int(touched.sum()):,} values")
    inner = 1
    for place, outer in zip(axes[1:], (*groups, o.ranks), strict=True):
        held = held_by(touched, inner)
        draw(place, held, inner, outer, f"level of {outer}: {int(held.sum()):,} values")
        inner = outer
    save(o, figure, "hierarchy.png")


def draw_partial_sums(o, groups, P, touched):
    """The rays of which a rank or a group holds a partial sum, in the sinogram."""
    m = len(touched)
    figure, axes = plt.subplots(1, 2 + len(groups), figsize=(4.6 * (2 + len(groups)), 4.6))
    rays = np.empty(m, int)
    rays[P.ray_order] = np.arange(m)
    some = [r * o.ranks // 4 for r in range(4)]
    shown = np.zeros((m, 3))
    for r, colour in zip(some, plt.get_cmap("tab10").colors, strict=False):
        shown[touched[:, r]] += 0.5 * np.array(colour)
    axes[0].imshow(np.clip(shown[rays], 0, 1).reshape(o.angles, o.size, 3), aspect="auto")
    axes[0].set_title(f"(a) partial sums of ranks {', '.join(map(str, some))}")
    for place, letter, size in zip(axes[1:], "bcd", (1, *groups), strict=False):
        held = held_by(touched, size).sum(1)
        drawn = place.imshow(held[rays].reshape(o.angles, o.size), aspect="auto", cmap="viridis", vmin=1)
        figure.colorbar(drawn, ax=place, shrink=0.8)
        what = "ranks" if size == 1 else f"groups of {size}"
        place.set_title(f"({letter}) {what} that hold a ray: {held.mean():.2f}")
    for place in axes:
        place.set_xlabel("bin"), place.set_ylabel("angle")
    save(o, figure, "partials.png")


def trace_products(o, angles, groups, x):
    """A trace of some products: the parts of all ranks' time (they share the cores of this machine)."""

    def traced(comm, dtype, values):
        P = tomography.projector(
            angles, o.size, order=o.order, groups=groups, comm=comm, dtype=dtype, values=values, format="list"
        )
        tacit._core.trace_rank()
        P.project(x)
        if comm.rank == 0:
            tacit._core.trace_start()
        comm.barrier()
        for _ in range(3):
            P.project(x)
        comm.barrier()
        found = {}
        if comm.rank == 0:
            tacit._core.trace_stop()
            for r in range(comm.size):
                for name, _, begin, end, *_ in tacit._core.take_events(r, 0.0):
                    found[name] = found.get(name, 0.0) + end - begin
        return found, sum(v["sent"] for v in P.operator.volumes()) * o.columns * np.dtype(dtype).itemsize

    for dtype, values in (("float64", "full"), ("float32", "full"), ("float32", "float16")):
        found, sent = tacit.comm.run_threads(o.ranks, lambda comm, d=dtype, v=values: traced(comm, d, v))[0]
        parts = ", ".join(
            f"{name} {seconds / 3 * 1e3:.1f} ms" for name, seconds in sorted(found.items(), key=lambda f: -f[1])[:4]
        )
        print(f"  {dtype} vectors, {values} values: {sent / 1e6:.1f} MB sent a product; of all ranks: {parts}")


def main():
    o = options()
    angles = (np.arange(o.angles) * np.pi / o.angles).astype(np.float32)
    groups = tuple(int(g) for g in o.groups.split(","))
    P = tomography.projector(angles, o.size, order=o.order, format="list")
    touched, owner = touched_rows(o, P, groups)
    x = plans(o, angles, groups)
    draw_volumes(o, groups, touched, owner)
    draw_partial_sums(o, groups, P, touched)
    if o.time:
        trace_products(o, angles, groups, x)


if __name__ == "__main__":
    main()
