"""`tacit simulate`: a solve on a grid of simulated ranks, each with a box of cells."""

from __future__ import annotations

import argparse
from typing import Any

from tacit import report
from tacit._described import PRECOND, PRECOND_NAMES, SOLVE, SOLVE_NAMES
from tacit.cli import arguments as cli
from tacit.cli import simulated_solve

TEXT = "say what a solve would take on a grid of many ranks, each with a box of cells, by simulated clocks"
_OPTIONS = ["rtol", "max_iterations", "restart", "step", "depth", "block"]


def _numbers(*found: str | None) -> tuple[int, ...]:
    return tuple(int(number) for number in found if number is not None)


grid = cli.matching(r"([1-9]\d*)(?:x([1-9]\d*))?(?:x([1-9]\d*))?", "a grid like 16x16x16 or 64", _numbers)


def add(a: cli.Arguments) -> None:
    a("--cells NxNxN", "cells of a rank's box [4x4x4]", grid, (4, 4, 4))
    a("--grid NxNxN", "ranks, as many along each axis [8x8x8]", grid, (8, 8, 8))
    a("--periodic", "ranks at opposite sides are neighbours; needs a --shift")
    a("--shift X", "the system is (X - Laplacian) u = b, with 2 d + 1 points and mesh width 1 [0]", cli.real(0), 0.0)
    a("--machine NAME|FILE.json", "a known machine, or parameters [modern]")
    a("--replay NxNxN", "simulate the solve on this grid, and play what these ranks did on all, without numbers", grid)
    a("--iterations N", "of --replay: how many are played [those of the small solve]", cli.whole(1))
    a.section("method")
    a.choice("--method", (*SOLVE_NAMES,))
    named = cli.preconditioner(PRECOND, PRECOND_NAMES)
    a("--precond NAME[:OPTION=VALUE,...]", f"one of {', '.join(PRECOND_NAMES)} [none]", named, known=PRECOND_NAMES)
    a.options(SOLVE, _OPTIONS)
    a.section("what it leaves")
    a.json("times by phase, counts, all parameters")


def run(arguments: argparse.Namespace) -> int:
    a = arguments
    if a.iterations is not None and a.replay is None:
        raise cli.WrongUse("--iterations is of --replay; a solve that is simulated whole ends where it has converged")
    for name in ("grid", "replay"):
        if (value := getattr(a, name)) is not None and len(value) != len(a.cells):
            raise cli.WrongUse(f"--{name} has {len(value)} numbers and --cells {len(a.cells)}; they need as many")
    if a.periodic and a.shift == 0:
        raise cli.WrongUse("--periodic needs a --shift above 0: else the matrix is singular")
    from tacit import simulate
    from tacit._progress import Line

    out = report.console(stderr=a.json == "-")
    how: dict[str, Any] = {"machine": a.machine or "modern", "method": a.method, "precond": a.precond}
    how |= cli.given(a, SOLVE, _OPTIONS)
    A, b = simulate.boxes(a.cells, a.replay or a.grid, periodic=a.periodic, shift=a.shift)
    with Line(out, shown=out.is_terminal and not out.quiet) as line:
        line.now(f"{' x '.join(map(str, a.grid))} simulated ranks")
        if a.replay is None:
            made: Any = simulate.solve(A, b, ranks=simulate.ranks_of(a.grid), **how)
        else:
            grids: Any = {"ranks": a.grid, "recorded": a.replay, "iterations": a.iterations, "periodic": a.periodic}
            made = simulate.replay(A, b, **grids, progress=lambda share: line.update(share), **how)
    solve = made if a.replay is None else made.recorded
    out.print(made.summary(), markup=False, highlight=False, soft_wrap=True)
    if a.json:
        given = {name: getattr(a, name) for name in ("cells", "grid", "periodic", "shift", "replay")}
        iterations = solve.result.iterations if a.replay is None else made.iterations
        facts = report.header("tacit.simulate-grid/1", a.words) | given | simulated_solve.document(made)
        facts |= {"iterations": iterations, "period": 0 if a.replay is None else made.period}
        facts |= {"set_ups": 0 if a.replay is None else made.set_ups}
        facts |= {name: getattr(solve.result, name) for name in ("method", "precond", "converged", "reason")}
        report.write_json(facts, a.json)
    return cli.OK if solve.result.converged else cli.NOT_CONVERGED
