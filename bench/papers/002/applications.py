"""Figures 7 and 8 of the paper on s-step bottom solvers: projections of a flame-like flow (LMC) and gravity (Nyx).

Counted in real solves of every time step, each starting from the previous phi: V-cycles, iterations and failures of the
coarsest-level ("bottom") solver. Boxes stay on n^d ranks and are coarsened to 2 cells along an axis, as in BoxLib.
Modelled from these counts: seconds of bottom solves and whole solves on n^d ranks, by the constants in figures.py,
where the work above the bottom is that of the paper's boxes of 64 cells along an axis. In a hybrid run a rank has six
cores, so that this work takes a sixth of the time.
"""

import argparse
import json
import math
import pathlib

import matplotlib.pyplot as plt
import numpy as np

from tacit import grid_problems as problems
from tacit import multigrid as mg

LMC = [0.0, 1.0, 2.0, 3.0, 4.0]  # times
NYX = [0.05, 0.1, 0.15, 0.2, 0.25, 0.3]  # growth
PAPER = {
    "LMC, 3-D": "bottom up to 2.5, solve up to 1.5; classical bottom below 43 % (flat), 54 % (hybrid) of the solve",
    "LMC, 2-D": "solve 1.5 at 64 cores; classical bottom below 35 %",
    "Nyx, 3-D": "flat: bottom 2, share 26 %, solve 1.15; hybrid: bottom 1.6, share 41 %, solve 1.14",
}
SWEEPS = 3


def problem(name: str, n: int, box: int, t: float):
    if name == "Nyx, 3-D":
        return problems.gravity(n * box, growth=t, boxes=box)
    axes = 3 if name.endswith("3-D") else 2
    whole = problems.projection(n * box, axes=axes, jump=10, time=t)
    # The same cells in boxes that are not agglomerated: one per rank.
    cells = mg.cells(whole.A.cells.shape, whole.A.cells.boundary, boxes=box)
    return problems.projection(n * box, axes=axes, jump=10, time=t, cells=cells)


def solved(name: str, n: int, box: int, bottom: str, step: int | None) -> dict:
    x, total = None, {"cycles": 0, "iterations": 0, "solves": 0, "failures": 0}
    for t in NYX if name.startswith("Nyx") else LMC:
        p = problem(name, n, box, t)
        r = mg.solve(p.A, p.f, x0=x, cycle="U", smallest_box=2, bottom=bottom, step=step, pre=SWEEPS, post=SWEEPS,
                     max_cycles=1000)  # fmt: skip
        assert r.converged, (name, n, bottom, r)
        x = r.x
        total["cycles"] += r.cycles
        total["iterations"] += r.bottom_iterations
        total["solves"] += r.bottom_solves
        total["failures"] += r.bottom_failures
        if p.exact is not None:
            assert np.abs(x - p.exact).max() <= 1e-8 * np.abs(p.exact).max()
    return total


def modelled(name: str, n: int, axes: int, classical: dict, avoiding: dict, figures) -> dict:
    """How many times faster the bottom and the solve are by the model, on n^axes ranks."""
    m = figures.MACHINES["published"]
    ranks, face = n**axes, 8 * 2 ** (axes - 1)
    sides = axes / 3  # of a box's messages in three dimensions
    seconds = []
    for total, counts in ((classical, figures.classical_six), (avoiding, figures.s_step(4, True))):
        sums, halos = counts(total["iterations"], total["solves"])
        scaled = [h * face / figures.FACE for h in halos]
        seconds.append(
            sum(figures.sum_time(m, ranks, size) for size in sums)
            + sides * sum(figures.halo_time(m, size) for size in scaled)
        )
    # Boxes of 64 to 2 cells: five levels above the bottom, an exchange for each half sweep, residual and
    # interpolation.
    halo = sum((4 * SWEEPS + 2) * sides * figures.halo_time(m, 8 * (64 >> level) ** (axes - 1)) for level in range(5))
    work = figures.V_CYCLE * SWEEPS / 2 * (64**axes * 2**axes / (2**axes - 1)) / (64**3 * 8 / 7)
    row = {"case": name, "ranks": ranks, "classical": classical, "avoiding": avoiding}
    for mode, cores in (("hybrid", 1), ("flat", 6)):
        # V_CYCLE is measured with six cores.
        above = [t["cycles"] * (work * cores + halo) for t in (classical, avoiding)]
        row[mode] = {
            "bottom": seconds[0] / seconds[1],
            "solve": (above[0] + seconds[0]) / (above[1] + seconds[1]),
            "share": seconds[0] / (above[0] + seconds[0]),
        }
    return row


def draw(names: list[str], rows: list[dict], which: int, path: pathlib.Path) -> None:
    figure, panels = plt.subplots(1, len(names), figsize=(5.2 * len(names), 3.8), squeeze=False)
    for axes, name in zip(panels[0], names, strict=True):
        mine = [r for r in rows if r["case"] == name]
        ranks = [r["ranks"] for r in mine]
        axes.plot(ranks, [r["flat"]["bottom"] for r in mine], "o-", color="#38a169", label="bottom")
        for mode, colour in (("hybrid", "#2b6cb0"), ("flat", "#c53030")):
            axes.plot(ranks, [r[mode]["solve"] for r in mine], "s--", color=colour, label=f"solve, {mode}")
        axes.set_xscale("log", base=2)
        axes.set_xticks(ranks, [str(r) for r in ranks])
        axes.axhline(1, color="#a0aec0", linewidth=0.8)
        paper = {"LMC, 3-D": (2.5, 1.5), "LMC, 2-D": (None, 1.5), "Nyx, 3-D": (2.0, 1.15)}[name]
        for value, text in zip(paper, ("bottom", "solve"), strict=True):
            if value:
                axes.axhline(value, color="#718096", linestyle=":", linewidth=1)
                axes.annotate(f"paper, {text}, most ranks", (0.01, value), xycoords=("axes fraction", "data"),
                              fontsize=7, va="bottom")  # fmt: skip
        axes.set_xlabel("ranks"), axes.set_ylabel("times faster than bicgstab, model"), axes.legend(fontsize=7)
        axes.set_title(f"{name}, as figure {which}", loc="left")
    figure.tight_layout()
    figure.savefig(path, dpi=150)
    plt.close(figure)


def scaling(arguments: argparse.Namespace, out: pathlib.Path, which: int, figures) -> None:
    """`figures`: the module figures.py, with the model."""
    m = figures.MACHINES["published"]
    names = ["LMC, 3-D", "LMC, 2-D"] if which == 7 else ["Nyx, 3-D"]
    rows = []
    print(f"\nFigure {which}: {len(LMC) if which == 7 else len(NYX)} time steps, bicgstab against ca-bicgstab s = 4")
    print(f"  seconds by the model {m}")
    for name in names:
        axes = 3 if name.endswith("3-D") else 2
        box = 16 if axes == 3 else 32
        print(f"  {name}; paper: {PAPER[name]}")
        print(
            "    ranks   V-cycles    iterations      failed | hybrid: bottom  solve  share | flat: bottom  solve  share"
        )
        for n in (2, 4, 8, 16):
            if n > arguments.largest * (2 if axes == 2 else 1):
                continue
            classical = solved(name, n, box, "bicgstab", None)
            avoiding = solved(name, n, box, "ca-bicgstab", 4)
            row = modelled(name, n, axes, classical, avoiding, figures)
            rows.append(row)
            ranks = row["ranks"]
            text = " | ".join(
                f"{row[k]['bottom']:14.2f} {row[k]['solve']:6.2f} {100 * row[k]['share']:5.0f} %"
                for k in ("hybrid", "flat")
            )
            print(
                f"    {ranks:5d} {classical['cycles']:5d} {avoiding['cycles']:5d} {classical['iterations']:7d}"
                f" {avoiding['iterations']:7d} {classical['failures']:5d} {avoiding['failures']:3d}  | {text}"
            )
    (out / f"figure{which}_scaling.json").write_text(json.dumps(rows, indent=1))
    draw(names, rows, which, out / f"figure{which}.png")
    assert all(math.isfinite(r["flat"]["bottom"]) for r in rows)
    assert all(r["classical"]["failures"] == r["avoiding"]["failures"] == 0 for r in rows), "a bottom solve failed"
