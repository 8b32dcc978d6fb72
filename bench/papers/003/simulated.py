"""Products, reductions and messages on simulated GPUs in sockets and nodes: figures 8, 11 and 12 of the proposal on
hierarchical sparse operations. SIMULATED: the library's products, reductions and messages run; times come from the
model that is printed.

    python bench/papers/003/simulated.py [--program build/release/bench/bench_simulated_tomography] [--size 256]
                                         [--angles 360] [--scans 24,12,12:2048 96,48,48:6613] [--columns 32]
                                         [--minibatch 8] [--products 61] [--slices 1792] [--out FOLDER]

A scan is given by its ranks for double, single and mixed precision (float16 values and vectors, messages of 16 bits;
floats are summed), and the number of bins that it models: a scan of --size bins, with a machine scaled so that products and
reductions take as long as at that size. Seconds are for all slices of a scan on as many GPUs as double precision uses:
where a precision needs fewer to hold the matrix, the others process other slices. (Paper, 24 and 768 V100: hierarchical
reductions save about 60 % of the time between nodes, add 4.1 % within sockets and 0.95 % within nodes, and save 45 to
50 % of the total; pipelining another 30 %.)
"""

import argparse
import json
import pathlib
import subprocess
import tempfile

import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt

PRECISIONS = ("double", "single", "mixed")
COLOURS = {"products": "#2b6cb0", "within sockets": "#38a169", "within nodes": "#d69e2e", "between nodes": "#c53030"}


def run(o, precision, ranks, groups, like, minibatch=0, spans=None):
    command = [o.program, "--size", o.size, "--angles", o.angles, "--ranks", ranks, "--groups", groups]
    command += ["--columns", o.columns, "--precision", precision, "--like", like, "--minibatch", minibatch]
    command += ["--spans", spans] if spans else []
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    found = json.loads(done.stdout)
    # Levels from the innermost to the outermost, which is between nodes.
    names = list(COLOURS)[1:]
    names = names[: len(found["levels"]) - 1] + names[-1:]  # groups of all ranks are no level of their own
    found["levels"] = dict(zip(names, found["levels"], strict=True))
    parts = {name: found["parts"].get(f"sums, level {i + 1}", 0.0) for i, name in enumerate(names)}
    found["parts"] = {"products": found["parts"]["tiled product"]} | parts
    return found


def runs(o, ranks, like):
    """(seconds by part of each run, volumes of each level, spans of rank 0 in single precision, the machine). Prints."""
    bars, volumes, kept = [], [], {}
    for precision, count in zip(PRECISIONS, ranks, strict=True):
        # The other GPUs process other slices.
        whole = o.products * o.slices / o.columns * count / ranks[0]
        for groups, how, minibatch in (("", "direct", 0), ("3,6", "by levels", 0), ("3,6", "pipelined", o.minibatch)):
            with tempfile.TemporaryDirectory() as folder:
                spans = pathlib.Path(folder) / "spans"
                r = run(o, precision, count, groups, like, minibatch, spans)
                if precision == "single":
                    kept[how] = [line.split("\t") for line in spans.read_text().splitlines()]
            seconds = {name: whole * s for name, s in r["parts"].items()}
            total = whole * r["seconds"]
            bars.append((f"{precision}\n{how}", seconds, total))
            first = next(b for b in bars if b[0] == f"{precision}\ndirect")
            less = f", {1 - total / first[2]:.0%} less than direct" if how != "direct" else ""
            print(f"  {precision:6s} {how:9s} on {count} ranks: {total:7.1f} s{less}; "
                  + ", ".join(f"{n} {s:.1f}" for n, s in seconds.items()), flush=True)  # fmt: skip
            if minibatch == 0:
                for name, v in r["levels"].items():
                    rate = v["bytes"] / r["parts"][name] / count / 1e9
                    volumes.append((f"{precision}, {how}\n{name}", v["bytes"] / 1e9, rate))
                    print(f"         {name}: {v['sent']:,} values a column sent of {v['touched']:,}, "
                          f"{v['bytes'] / 1e9:.2f} GB a product, {rate:.1f} GB/s a rank")  # fmt: skip
    return bars, volumes, kept, r["machine"]


def draw_seconds(place, bars, ranks, like):
    bottom = np.zeros(len(bars))
    for name, colour in COLOURS.items():
        height = np.array([b[1].get(name, 0.0) for b in bars])
        place.bar([b[0] for b in bars], height, bottom=bottom, color=colour, label=name)
        bottom += height
    place.plot([b[0] for b in bars], [b[2] for b in bars], "k_", markersize=16, label="until the last rank is done")
    place.set_title(f"figures 8, 11a: {ranks[0]} simulated GPUs, {like} bins")
    place.set_ylabel("simulated seconds"), place.legend(fontsize=7), place.tick_params(axis="x", labelsize=6)


def draw_volumes(place, volumes):
    at = np.arange(len(volumes))
    place.bar(at, [v[1] for v in volumes], color="#a0aec0")
    place.set_xticks(at, [v[0] for v in volumes], rotation=75, fontsize=6), place.set_ylabel("GB a product, sent")
    beside = place.twinx()
    beside.plot(at, [v[2] for v in volumes], "o", color="#c53030"), beside.set_yscale("log")
    beside.set_ylabel("GB/s a rank (o)"), place.set_title("figure 11b: volume and bandwidth by level, simulated")


def draw_spans(place, kept, o):
    colours = {"tiled product": "products", "sums, level 1": "within sockets", "sums, level 2": "within nodes",
               "sums, level 3": "between nodes"}  # fmt: skip
    rows = ("by levels", "pipelined")
    for line, how in enumerate(rows):
        begin = min(float(b) for _, b, _ in kept[how])
        for name, b, e in kept[how]:
            if name in colours:
                place.broken_barh([((float(b) - begin) * 1e3, (float(e) - float(b)) * 1e3)], (line + 0.1, 0.8),
                                  color=COLOURS[colours[name]])  # fmt: skip
    place.set_yticks(np.arange(len(rows)) + 0.5, rows), place.set_xlabel("simulated ms")
    place.set_title(f"figure 12: rank 0, {o.columns} slices at once or by {o.minibatch}, single precision")


def main():
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--program", default="build/release/bench/bench_simulated_tomography")
    words.add_argument("--size", type=int, default=256)
    words.add_argument("--angles", type=int, default=360)
    words.add_argument("--scans", nargs="+", default=["24,12,12:2048"])
    words.add_argument("--columns", type=int, default=32)
    words.add_argument("--minibatch", type=int, default=8)
    words.add_argument("--products", type=int, default=61, help="products of a reconstruction, as in the paper")
    words.add_argument("--slices", type=int, default=1792)
    words.add_argument("--out", default=".")
    o = words.parse_args()
    out = pathlib.Path(o.out)
    figure, axes = plt.subplots(len(o.scans), 3, figsize=(18, 4.6 * len(o.scans)), squeeze=False)
    for row, scan in zip(axes, o.scans, strict=True):
        ranks, like = scan.split(":")
        ranks = [int(r) for r in ranks.split(",")]
        print(f"SIMULATED: {o.angles} x {o.size} standing for {like} bins, {o.columns} slices at once; seconds of "
              f"{o.products} products of {o.slices} slices on {ranks[0]} GPUs")  # fmt: skip
        bars, volumes, kept, machine = runs(o, ranks, like)
        print(f"  machine: {machine}")
        draw_seconds(row[0], bars, ranks, like)
        draw_volumes(row[1], volumes)
        draw_spans(row[2], kept, o)
    figure.tight_layout()
    figure.savefig(out / "simulated.png", dpi=110)
    print(f"drawn in {out / 'simulated.png'}")


if __name__ == "__main__":
    main()
