"""Products in minibatches that overlap with each other's reductions: figure 12 of the proposal on hierarchical sparse
operations.

    python bench/papers/003/pipelining.py [--size 128] [--angles 180] [--ranks 4] [--groups 2] [--columns 32]
                                          [--minibatch 0,8] [--out FOLDER]

Ranks are threads of this process. For every size of the minibatch (0: all columns at once) a trace of a few products is
recorded, drawn for rank 0 (products, parts of reductions, waiting) and written for ui.perfetto.dev. Prints the seconds
of a product and how many of its minibatches are multiplied while reductions are in flight. (Paper: about 30 % less in
total on 768 GPUs, whose messages travel between nodes; here a message is a copy in memory, so that the order of work is
shown, but no gain.)
"""

import argparse
import json
import pathlib

import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import tacit
from tacit import tomography

COLOURS = {"tiled product": "#2b6cb0", "reduce": "#a0aec0", "wait for halo": "#c53030"}


def show(o, place, minibatch, seconds, events):
    """Draws, prints and writes the products and sums of rank 0."""
    found = [(name, b, e) for name, _, b, e, *_ in events if e > 0]
    for line, (name, colour) in enumerate(COLOURS.items()):
        place.broken_barh([(b * 1e3, (e - b) * 1e3) for n, b, e in found if n == name], (line, 0.8), color=colour)
    place.set_yticks(np.arange(len(COLOURS)) + 0.4, list(COLOURS))
    place.set_title(f"minibatch {minibatch or o.columns}: {seconds * 1e3:.1f} ms"), place.set_xlabel("ms")
    products = [(b, e) for n, b, e in found if n == "tiled product"]
    sums = [(b, e) for n, b, e in found if n == "reduce"]
    first = min(b for b, _ in sums)
    hidden = sum(b > first for b, _ in products)
    print(
        f"minibatch {minibatch or o.columns}: {seconds * 1e3:.1f} ms, {len(products)} products, of which {hidden} run while"
        " sums of the one before are under way"
    )
    path = pathlib.Path(o.out) / f"pipelining-{minibatch}.json"
    path.write_text(
        json.dumps(
            {
                "traceEvents": [
                    {"name": n, "ph": "X", "pid": 0, "tid": 0, "ts": b * 1e6, "dur": (e - b) * 1e6} for n, b, e in found
                ]
            }
        )
    )


def main():
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--size", type=int, default=128)
    words.add_argument("--angles", type=int, default=180)
    words.add_argument("--ranks", type=int, default=4)
    words.add_argument("--groups", default="2")
    words.add_argument("--columns", type=int, default=32)
    words.add_argument("--minibatch", default="0,8")
    words.add_argument("--out", default=".")
    o = words.parse_args()
    angles = (np.arange(o.angles) * np.pi / o.angles).astype(np.float32)
    x = np.random.default_rng(0).random((o.columns, o.size, o.size)).astype(np.float32)
    tacit._core.set_threads(1)
    sizes = [int(m) for m in o.minibatch.split(",")]
    figure, axes = plt.subplots(len(sizes), 1, figsize=(12, 2.2 * len(sizes)), squeeze=False)
    for place, minibatch in zip(axes[:, 0], sizes, strict=True):

        def rank(comm, minibatch=minibatch):
            groups = tuple(int(g) for g in o.groups.split(",") if g)
            P = tomography.projector(angles, o.size, comm=comm, groups=groups, minibatch=minibatch, columns=o.columns)
            P.project(x)
            comm.barrier()
            tacit._core.trace_rank()
            if comm.rank == 0:
                tacit._core.trace_start()
            comm.barrier()
            begin = tacit._core.wall_time()
            P.project(x)
            comm.barrier()
            end = tacit._core.wall_time()
            if comm.rank == 0:
                tacit._core.trace_stop()
                return end - begin, tacit._core.take_events(0, begin)
            return None

        seconds, events = tacit.comm.run_threads(o.ranks, rank)[0]
        show(o, place, minibatch, seconds, events)
    figure.tight_layout()
    path = pathlib.Path(o.out) / "pipelining.png"
    figure.savefig(path, dpi=110)
    print(f"drawn in {path}")


if __name__ == "__main__":
    main()
