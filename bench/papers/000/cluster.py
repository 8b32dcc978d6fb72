"""BiCGStab with an H-matrix on clusters of GPUs: figures 10, 11, 14 to 17 and 19 of the BiCGStab paper (I. Yamazaki et
al., IPDPS 2018), SIMULATED, with the paper's values.

    python bench/papers/000/cluster.py [--figures 10,12,14,16,17,19] [--mesh ring:9,75] [--nodes 2,4,8] [--steps 3]
                                       [--gpus 1,4,8,16,32] [--program build/release/bench/bench_hmatrix_cluster]
                                       [--out FOLDER] [--json FILE]

`bench_hmatrix_cluster` runs the library's solver, product and messages on simulated ranks with virtual devices; the
rates of a P100, of its links and of the networks are the paper's own (its figures 9, 12, 13 and 18), so that the
comparison tests how they combine. 100ts in the paper's setting takes four minutes of one core and 9.2 GB for figure 19
with 32 GPUs, less with fewer. --json: draws the rows of an earlier run again.

Other figures: 4 and 5 are drawings of machines and left out; 2 is src/krylov/methods/bicgstab.hpp and
src/krylov/methods/pipelined_bicgstab.hpp; 1, 6 and 7: partition.py; 8 and 9: batching.py; 12, 13 and 18: printed here,
and counted and measured by bench_hmatrix_devices.
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

# Figure 16, 100ts on Tsubame-3: nodes -> iterations, ms of a solve, ms of them in MPI.
FIGURE_16 = {
    "per-gpu": {2: (15, 56, 11), 4: (14, 43, 11), 8: (20, 64, 26), 16: (19, 81, 40)},
    "per-socket": {2: (14, 53, 12), 4: (13, 43, 13), 8: (15, 46, 16), 16: (19, 74, 32)},
    "per-node": {2: (14, 53, 9), 4: (15, 46, 10), 8: (13, 38, 10), 16: (13, 42, 12)},
}
# Figure 19, 100ts: GPUs -> ms per iteration: block, pipe1, pipe2.
FIGURE_19 = {
    1: (18.4, 19.2, 19.3),
    4: (10.2, 10.0, 9.4),
    8: (9.1, 8.9, 7.6),
    16: (8.8, 8.6, 6.7),
    32: (10.3, 10.1, 6.8),
}
# Figure 17(b), 64 nodes with a process each: seconds redundant, hierarchical.
FIGURE_17 = {"hum4": (1.99, 1.07), "hum6": (5.23, 2.60), "100ts": (0.22, 0.17), "1ms": (1.04, 0.50)}
# The fixed time of a kernel, in the order of the program's two: that of a P100, and one fitted to the paper's "block".
KERNELS = ("a P100's kernels", "kernels as slow as the paper's")
PHASES = ("product", "messages", "copies", "vectors_ms")
COLOURS = {"product": "#2b6cb0", "messages": "#c05621", "copies": "#d69e2e", "vectors_ms": "black"}


def of(rows, **wanted):
    return [row for row in rows if all(row.get(key) == value for key, value in wanted.items())]


def kernels(rows):
    """The fixed times of kernels of figure 19 with their titles."""
    return dict(zip(sorted({row["kernel"] for row in of(rows, figure=19)}), KERNELS, strict=False))


def tables(rows):
    print("\nFig. 16 (and 17(b)): ms an iteration, SIMULATED | the paper's, 100ts; in brackets of MPI")
    for layout, paper in FIGURE_16.items():
        for row in of(rows, figure=16, layout=layout, vectors="redundant"):
            theirs = paper.get(row["nodes"])
            beside = f"{theirs[1] / theirs[0]:5.2f} ({theirs[2] / theirs[0]:4.2f})" if theirs else "    -"
            shared = of(rows, figure=16, layout=layout, vectors="shared", nodes=row["nodes"])
            note = f"   shared vectors {shared[0]['ms']:.2f}" if shared else ""
            print(f"{row['nodes']:4d} nodes {layout:<11} {row['ms']:6.2f} ({row['messages']:5.2f}) | {beside}{note}")
    print("the paper, 64 nodes: redundant / hierarchical", {k: round(a / b, 2) for k, (a, b) in FIGURE_17.items()})
    for kernel, title in kernels(rows).items():
        n = of(rows, figure=19)[0]["n"]
        print(
            f"\nFig. 19: ms an iteration, n = {n:,}, one device a process, {title} ({1e6 * kernel:g} us), SIMULATED"
            " | the paper's, 100ts, and its gains"
        )
        for gpus in sorted({row["nodes"] for row in of(rows, figure=19)}):
            ours = {row["vectors"]: row["ms"] for row in of(rows, figure=19, nodes=gpus, kernel=kernel)}
            plain = ours.pop("redundant")
            theirs = FIGURE_19.get(gpus)
            beside = "  ".join(f"{t:5.1f}" for t in theirs) if theirs else "-"
            ratio = "  ".join(f"{theirs[0] / t:4.2f}" for t in theirs[1:]) if theirs else "-"
            mine = "  ".join(f"{name} {ms:6.3f} ({plain / ms:4.2f})" for name, ms in ours.items())
            print(f"{gpus:4d} GPUs: block {plain:6.3f}  {mine} | {beside}   gains {ratio}")


STYLES = {"per-gpu": ("o", "#2b6cb0"), "per-socket": ("s", "#c05621"), "per-node": ("^", "#2f855a")}


def draw_phases(panel, rows):
    """10 and 11: phases over nodes, one device per process."""
    bars = sorted(of(rows, figure=16, layout="per-gpu", vectors="redundant"), key=lambda row: row["nodes"])
    at = np.arange(len(bars))
    below = np.zeros(len(bars))
    for phase in PHASES:
        heights = np.array([row[phase] for row in bars])
        panel.bar(at, heights, bottom=below, color=COLOURS[phase], width=0.6, label=phase.removesuffix("_ms"))
        below += heights
    host = of(rows, figure=10)
    if host:
        without = [1e3 * 2 * host[0]["bytes"] / (host[0]["socket"] * 2 * row["nodes"]) for row in bars]
        panel.plot(at, without, "o", color="#3182ce", mec="black", label="without GPUs: products alone")
        for i, row in enumerate(bars):
            panel.annotate(
                f"{without[i] / row['ms']:.1f}x", (at[i], without[i]), xytext=(6, 4), textcoords="offset points"
            )
    panel.set(
        xticks=at,
        xticklabels=[str(row["nodes"]) for row in bars],
        xlabel="nodes of 4 GPUs, a process each",
        ylabel="ms an iteration",
        ylim=(0, 1.15 * max([*below, *(without if host else [])], default=1)),
        title="Figs. 10, 11 (the paper: 8.5x on 1 node, 4.2x on 8, of which > 46% messages)",
    )
    if bars:
        panel.legend(fontsize=8)


def draw_gathers(panel, rows):
    """14 and 15."""
    for layout, (marker, colour) in STYLES.items():
        line = of(rows, figure=14, layout=layout)
        nodes = [row["nodes"] for row in line]
        for key, dash in (("messages", ":"), ("peer", "-"), ("copy", "--"), ("direct", "-.")):
            panel.plot(
                nodes,
                [row[key] or np.nan for row in line],
                dash,
                marker=marker,
                ms=4,
                color=colour,
                label=f"{layout}, {key}",
            )
    if of(rows, figure=14):
        panel.set(xscale="log", yscale="log", xlabel="nodes", ylabel="GB/s of 8 MB", title="Figs. 14, 15: a gather")
        panel.set_xticks([1, 2, 4, 8, 16], ["1", "2", "4", "8", "16"])
        panel.legend(fontsize=6, ncol=3)


def draw_layouts(panel, rows):
    """16."""
    for layout, (marker, colour) in STYLES.items():
        ours = sorted(of(rows, figure=16, layout=layout, vectors="redundant"), key=lambda row: row["nodes"])
        panel.plot([r["nodes"] for r in ours], [r["ms"] for r in ours], "-", marker=marker, color=colour, label=layout)
        shared = sorted(of(rows, figure=16, layout=layout, vectors="shared"), key=lambda row: row["nodes"])
        panel.plot(
            [r["nodes"] for r in shared],
            [r["ms"] for r in shared],
            "--",
            marker=marker,
            mfc="white",
            color=colour,
            label=f"{layout}, shared vectors (17b)" if shared else None,
        )
        paper = FIGURE_16[layout]
        panel.plot(
            list(paper),
            [t / i for i, t, _ in paper.values()],
            ":",
            marker=marker,
            color=colour,
            alpha=0.5,
            label=f"{layout}, the paper",
        )
    panel.set(
        xscale="log", xlabel="nodes of 4 GPUs", ylabel="ms an iteration", title="Fig. 16: layouts", ylim=(0, None)
    )
    panel.set_xticks([1, 2, 4, 8, 16], ["1", "2", "4", "8", "16"])
    panel.legend(fontsize=7)


def draw_pipelines(panel, rows):
    """19."""
    gpus = sorted({row["nodes"] for row in of(rows, figure=19)})
    names = ("pipe1", "pipe2")
    colours = ("#90cdf4", "#2b6cb0")
    for part, kernel in enumerate(kernels(rows)):
        for k, name in enumerate(names):
            ms = [of(rows, figure=19, nodes=g, vectors=name, kernel=kernel)[0]["ms"] for g in gpus]
            plain = [of(rows, figure=19, nodes=g, vectors="redundant", kernel=kernel)[0]["ms"] for g in gpus]
            at = np.arange(len(gpus)) + 0.2 * (k + 2 * part - 1.5)
            label = f"{name}, {'P100' if part == 0 else 'slow kernels'}"
            panel.bar(at, np.array(plain) / ms, 0.18, label=label, color=colours[k], hatch="//" if part else None)
    for k, (name, mark) in enumerate(zip(names, ("kx", "k*"), strict=True), 1):
        paper = [FIGURE_19[g][0] / FIGURE_19[g][k] if g in FIGURE_19 else np.nan for g in gpus]
        panel.plot(np.arange(len(gpus)), paper, mark, label=f"{name}, the paper")
    panel.axhline(1, color="#888", lw=0.5)
    panel.set(
        xticks=np.arange(len(gpus)),
        xticklabels=[str(g) for g in gpus],
        xlabel="GPUs, a process each, over TCP",
        ylabel="time of block over time",
        title="Fig. 19: pipelined BiCGStab",
    )
    panel.legend(fontsize=7, ncol=2)


def draw(rows, path):
    figure, axes = plt.subplots(2, 2, figsize=(14, 10))
    panels = (draw_phases, draw_gathers, draw_layouts, draw_pipelines)
    for panel, fill in zip(axes.flat, panels, strict=True):
        fill(panel, rows)
    n = next((row["n"] for row in rows if row["figure"] in (16, 19)), 0)
    figure.suptitle(f"SIMULATED ranks and devices, n = {n:,}; rates of single parts from the paper")
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    print(path)


def main():
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--figures", default="10,12,14,16,17,19", help="12 includes 13, 14 includes 15, 10 includes 11")
    words.add_argument("--mesh", default="ring:9,75")
    words.add_argument("--nodes", default="2,4,8")
    words.add_argument("--gpus", default="1,4,8,16,32")
    words.add_argument("--steps", default="3")
    words.add_argument("--out", type=pathlib.Path, default=pathlib.Path())
    words.add_argument("--json", type=pathlib.Path)
    words.add_argument("--program", default="build/release/bench/bench_hmatrix_cluster")
    o = words.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = o.json or pathlib.Path(folder) / "rows.json"
        if not o.json:
            words = [f"{name}={getattr(o, name)}" for name in ("figures", "mesh", "nodes", "gpus", "steps")]
            subprocess.run([o.program, *words, f"json={path}"], check=True)
        rows = [json.loads(line) for line in path.read_text().splitlines()]
    tables(rows)
    draw(rows, o.out / "cluster.png")


if __name__ == "__main__":
    main()
