"""Draws the activities of a rank and its reductions in flight on a common time axis.

    python bench/papers/001/overlap.py [--program build/release/bench/bench_latency] [--out FOLDER] [--n 64]
                                       [--latency 1000] [--work 600] [--from 0.3] [--products 12]

Each method solves the same Laplace problem on two ranks (threads), where reductions take `latency` microseconds
(injected) and products `work` microseconds longer (asleep), with a trace. One panel per method: the upper line is what
rank 0 computes or waits for, the lines below are its reductions, each from its start until its result is available.
--trace FILE [FILE ...] draws traces of `tacit solve --trace FILE` or `bench_latency trace=FILE` instead.
"""

import argparse
import json
import os
import pathlib
import subprocess
import tempfile

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

METHODS = {
    "gmres, one sum a vector": ["method=gmres"],
    "pipelined-gmres, depth 2": ["method=pipelined-gmres", "depth=2"],
    "pipelined-gmres, depth 5": ["method=pipelined-gmres", "depth=5"],
    "pipelined-ca-gmres, depth 2, block 5": ["method=pipelined-ca-gmres", "depth=2", "block=5"],
}
# The activities of a rank: name in the trace, label, colour. Waits are inside of products and drawn on top.
KINDS = [
    (("padded product", "csr product", "stencil product", "function"), "product", "#2b6cb0"),
    (("basis dots", "basis subtract", "block dots", "block update", "block combine", "sweep"), "vectors", "#a0aec0"),
    (("wait for halo",), "waits for its halo", "#f6ad55"),
    (("wait for sum",), "waits for a sum", "#c53030"),
]
SUM = "#38a169"


def spans(path):
    events = json.loads(pathlib.Path(path).read_text())["traceEvents"]
    return [(e["name"], e["ts"], e["ts"] + e["dur"]) for e in events if e["pid"] == 0]


def window(found, start, products):
    """The fastest `products` successive products late in the solve (least other load), in microseconds."""
    kind = next(kind for kind in KINDS[0][0] if any(name == kind for name, *_ in found))
    begins = sorted(b for name, b, _ in found if name == kind)
    first = min(int(start * len(begins)), len(begins) - products - 1)
    return min(zip(begins[first:-products], begins[first + products :], strict=True), key=lambda w: w[1] - w[0])


def draw(axes, found, limits, title):
    low, high = limits
    inside = [(name, b - low, e - low) for name, b, e in found if e > low and b < high]
    for names, label, colour in KINDS:
        bars = [(b, e - b) for name, b, e in inside if name in names]
        axes.broken_barh(
            bars,
            (0.55, 0.8),
            facecolors=colour,
            label=label,
            edgecolor="white",
            linewidth=0.8 if label == "product" else 0,
        )
    sums = sorted((max(b, 0), min(e, high - low)) for name, b, e in inside if name == "sum in flight")
    free = []  # the time when each line becomes free
    for b, e in sums:
        line = next((i for i, until in enumerate(free) if until <= b), len(free))
        free[line : line + 1] = [e]
        axes.broken_barh(
            [(b, e - b)],
            (-0.45 * (line + 1) + 0.3, 0.34),
            facecolors=SUM,
            label="a sum in flight" if b == sums[0][0] else None,
        )
    axes.set_xlim(0, high - low)
    axes.set_ylim(-0.45 * max(len(free), 2) + 0.1, 1.45)
    axes.set_yticks([0.95, 0.1], ["rank 0", "sums"])
    waited = sum(min(e, high - low) - max(b, 0) for name, b, e in inside if name == "wait for sum")
    axes.set_title(
        f"{title}: {100 * waited / (high - low):.0f} % of the time waiting for sums", loc="left", fontsize=10
    )
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/release/bench/bench_latency")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build"))
    parser.add_argument("--n", type=int, default=64)
    parser.add_argument("--latency", type=int, default=1000)
    parser.add_argument(
        "--work", type=int, default=600, help="microseconds that each product sleeps: local work of a larger problem"
    )
    parser.add_argument(
        "--from", dest="start", type=float, default=0.3, help="fraction of the solve before the picture"
    )
    parser.add_argument("--products", type=int, default=12, help="products in the picture")
    parser.add_argument("--trace", nargs="+", help="draw these traces instead")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        traces = {pathlib.Path(t).stem: t for t in options.trace or []}
        if not traces:
            for title, words in METHODS.items():
                traces[title] = f"{folder}/{len(traces)}.json"
                command = [
                    options.program,
                    f"n={options.n}",
                    f"latency={options.latency}",
                    f"work={options.work}",
                    "late=sums",
                    "iterations=180",
                    "restart=30",
                ]
                command += [*words, f"trace={traces[title]}"]
                done = subprocess.run(
                    command, check=True, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
                )
                print(done.stdout.strip())
        figure, panels = plt.subplots(len(traces), 1, figsize=(10, 1.9 * len(traces) + 0.7), squeeze=False)
        found = {title: spans(path) for title, path in traces.items()}
        limits = {title: window(f, options.start, options.products) for title, f in found.items()}
        for axes, title in zip(panels[:, 0], traces, strict=True):
            draw(axes, found[title], limits[title], title)
        longest = max(high - low for low, high in limits.values())
        for axes in panels[:, 0]:
            axes.set_xlim(0, longest)  # the same scale for all
        panels[-1, 0].set_xlabel(
            f"microseconds; {options.products} products"
            + (
                ""
                if options.trace
                else f"; a product takes {options.work} us (padded), a sum {options.latency} us (injected)"
            )
        )
        handles, labels = panels[-1, 0].get_legend_handles_labels()
        figure.legend(handles, labels, ncols=5, loc="upper center", frameon=False, fontsize=9)
        figure.tight_layout(rect=(0, 0, 1, 0.96))
        options.out.mkdir(parents=True, exist_ok=True)
        picture = options.out / "pipelined-overlap.png"
        figure.savefig(picture, dpi=110)
        print(picture)


if __name__ == "__main__":
    main()
