"""Williams, Lijewski, Almgren, Van Straalen, Carson, Knight, Demmel, s-step Krylov subspace methods as bottom solvers
for geometric multigrid, IPDPS 2014, doi 10.1109/IPDPS.2014.119.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from .. import grid_problems as problems
from .. import multigrid as mg
from . import programs
from .row import Claim, Ours, Row

PAPER = "s-step bottom solvers of multigrid (Williams, Lijewski, Almgren, Van Straalen, Carson, Knight, Demmel 2014)"
SIX, S_STEP = "textbook bicgstab (6 sums)", "ca-bicgstab 4"
V_CYCLE = 17e-3  # seconds above the bottom of a box of 64^3 cells: its bytes at the 12 GB/s of `hopper`


def figures_4_and_5(ranks: int) -> dict[str, Ours]:
    words = ["bottom", "machine=hopper", f"ranks={ranks}", f"only={SIX},{S_STEP}"]
    found = {row["name"]: row for row in programs.rows("bench_scale", *words)}
    six, avoiding = found[SIX], found[S_STEP]
    gains = {
        "bottom solves": six["seconds"] / avoiding["seconds"],
        "whole solve": (V_CYCLE + six["seconds"]) / (V_CYCLE + avoiding["seconds"]),
        "time in reductions, less by": six["sum"] / avoiding["sum"],
        "time in exchanges, more by": avoiding["halo"] / six["halo"],
    }
    return {name: Ours(None, gain, gain) for name, gain in gains.items()}  # no sum is started before it is awaited


def figure_6(n: int, box: int) -> dict[str, Ours]:
    p = problems.helmholtz(n * box, boxes=box, coefficient="constant")
    bottoms: tuple[tuple[Any, int | None], ...] = (("bicgstab", None), ("ca-bicgstab", 4))
    classical, avoiding = (
        mg.solve(p.A, p.f, cycle="U", smallest_box=4, bottom=bottom, step=step, bottom_norm="max")
        for bottom, step in bottoms
    )
    both_have = min(len(classical.history), len(avoiding.history))
    last = avoiding.history[both_have - 1] / classical.history[both_have - 1]
    iterations = avoiding.bottom_iterations / classical.bottom_iterations
    return {
        "V-cycles over those with bicgstab": Ours(avoiding.cycles / classical.cycles),
        "residual after the last V-cycle over that with bicgstab": Ours(float(last)),
        "bottom iterations over those of bicgstab": Ours(iterations),
    }


def _steps(ps: Iterable[problems.Problem], bottom: Any, step: int | None) -> tuple[int, int]:
    """(V-cycles, bottom iterations) of successive time steps, each from the solution of the one before."""
    x, cycles, iterations = None, 0, 0
    for p in ps:
        made = mg.solve(p.A, p.f, x0=x, cycle="U", smallest_box=2, bottom=bottom, step=step, pre=3, post=3,
                        max_cycles=1000)  # fmt: skip
        x, cycles, iterations = made.x, cycles + made.cycles, iterations + made.bottom_iterations
    return cycles, iterations


def _counts(ps: list[problems.Problem], where: str) -> dict[str, Ours]:
    classical, avoiding = _steps(ps, "bicgstab", None), _steps(ps, "ca-bicgstab", 4)
    names = ("V-cycles over those with bicgstab", "bottom iterations over those of bicgstab")
    return {f"{name}, {where}": Ours(a / c) for name, a, c in zip(names, avoiding, classical, strict=True)}


def figure_7(n: int, box: int, steps: int) -> dict[str, Ours]:
    made: dict[str, Ours] = {}
    for axes in (2, 3):
        cells, edge = n * box if axes == 3 else 2 * n * box, box if axes == 3 else 2 * box
        ps = []
        for t in np.arange(steps, dtype=float):
            whole = problems.projection(cells, axes=axes, jump=10, time=t)
            split = mg.cells(whole.A.cells.shape, whole.A.cells.boundary, boxes=edge)
            ps.append(problems.projection(cells, axes=axes, jump=10, time=t, cells=split))
        made |= _counts(ps, f"{axes}D")
    return made


def figure_8(n: int, box: int, steps: int) -> dict[str, Ours]:
    return _counts([problems.gravity(n * box, growth=0.05 * (k + 1), boxes=box) for k in range(steps)], "3D")


_AT = "ours is at 512 ranks, on another machine, with fewer reductions"
_APPLICATION = (
    "the applications, their meshes and coefficients are not published; the problems here are made like them, so that"
    " counts compare and seconds do not"
)

ROWS = (
    Row(
        "002/figure-2",
        "Weak scaling of multigrid with BiCGStab at the bottom",
        why="A plot without numbers; what the text says of it is in figures 4 and 5.",
    ),
    Row(
        "002/figure-3",
        "What the bottom solves spend their time on",
        why="A plot without numbers; what the text says of it is in figures 4 and 5.",
    ),
    Row(
        "002/figure-4",
        "s-step bottom solver (s = 4) over BiCGStab with six reductions",
        (
            Claim("bottom solves", 4.2, "x", _AT),
            Claim(
                "whole solve",
                2.5,
                "x",
                "17 ms of a V-cycle above the bottom are assumed, more than its bottom solves by bicgstab take",
            ),
            Claim(
                "time in reductions, less by",
                11.2,
                "x",
                "ours sends one triangle of the Gram matrix, and two reductions beside those of blocks",
            ),
            Claim(
                "time in exchanges, more by",
                2.0,
                "x",
                "ours sends the ghosts of both vectors in one message: as many exchanges as bicgstab's, of twice the"
                " bytes, where miniGMG's are twice as many",
            ),
        ),
        figures_4_and_5,
        {"ranks": 8},
        {"ranks": 512},
        how="Figures 4 and 5. Simulated bottom solves of 4^3 cells a rank down to 1e-3, mean of nine, 512 ranks"
        " (paper: 4096), on `hopper`: latency and bandwidth as published, overhead and noise assumed, none fitted to"
        " this paper.",
        needs=("bench_scale",),
    ),
    Row("002/figure-5", "Time by kind of work at 24,576 cores", why="Its numbers are those of the row of figure 4."),
    Row(
        "002/figure-6",
        "Residuals after each V-cycle with the s-step bottom solver",
        (
            Claim("V-cycles over those with bicgstab", 1.0, "x"),
            Claim(
                "residual after the last V-cycle over that with bicgstab",
                1.0,
                "x",
                "both are far below the goal by then",
            ),
            Claim("bottom iterations over those of bicgstab", 1.0, "x", "blocks of 4 end where they reach the goal"),
        ),
        figure_6,
        {"n": 2, "box": 8},
        {"n": 8, "box": 16},
        how="Solves of a Helmholtz problem on 8^3 boxes, whose bottom is that of the paper's 512 ranks.",
    ),
    Row(
        "002/figure-7",
        "Projections of a flame-like flow (LMC), five time steps",
        (
            *(Claim(f"V-cycles over those with bicgstab, {d}D", 1.0, "x") for d in (2, 3)),
            *(Claim(f"bottom iterations over those of bicgstab, {d}D", 1.0, "x") for d in (2, 3)),
            Claim("bottom solves at most cores", 2.5, "x", _APPLICATION),
            Claim("3D solve", 1.5, "x", _APPLICATION),
        ),
        figure_7,
        {"n": 2, "box": 4, "steps": 2},
        {"n": 4, "box": 16, "steps": 5},
        how='Counted in solves of every time step on 64 boxes; the paper: "within 10 %" and "the same".',
    ),
    Row(
        "002/figure-8",
        "Gravity of clustered matter (Nyx), six time steps",
        (
            Claim("V-cycles over those with bicgstab, 3D", 1.0, "x"),
            Claim("bottom iterations over those of bicgstab, 3D", 1.0, "x"),
            Claim("bottom solves", 2.0, "x", _APPLICATION),
            Claim("solve", 1.15, "x", _APPLICATION),
        ),
        figure_8,
        {"n": 2, "box": 8, "steps": 2},
        {"n": 4, "box": 16, "steps": 6},
        how='Counted in solves of every time step on 64 boxes; the paper: "exactly the same number of V-cycles".',
    ),
)
