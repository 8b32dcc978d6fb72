"""`tacit multigrid`: solves a problem on a grid by multigrid, and prints times by level and operation."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tacit import report
from tacit._described import BOUNDARIES, MULTIGRID, MULTIGRID_SOLVE, STENCILS
from tacit._progress import working
from tacit.cli.arguments import NOT_CONVERGED, OK, Arguments, WrongUse, given, real, whole
from tacit.cli.ranks import on_ranks

if TYPE_CHECKING:
    from rich.console import Console

PROBLEMS = ("helmholtz", "projection", "gravity", "diffusion")
COEFFICIENTS = ("constant", "stored", "bubble")
# The options that belong to one problem only.
_OF_PROBLEM = dict.fromkeys(("coefficient", "boundary", "rhs", "stencil"), "helmholtz")
_OF_PROBLEM |= {"jump": "projection", "ell": "projection", "growth": "gravity"}


TEXT = "solve a problem on a grid by multigrid"


def add(a: Arguments) -> None:
    a.section("problem (in brackets: what is taken when nothing is said)")
    a.choice("--problem", PROBLEMS)
    a("--n N", "cells along each axis", whole(1), 64)
    a("--axes D", "1, 2 or 3", whole(1), 3)
    a.choice("--coefficient", COEFFICIENTS, "beta of helmholtz")
    a.choice("--boundary", sorted(BOUNDARIES, reverse=True), "of helmholtz")
    a.choice("--rhs", ("triangle", "manufactured"), "of helmholtz", what="right-hand side")
    a.choice("--stencil", STENCILS, "of helmholtz")
    a("--jump R", "projection: ratio of densities", real(0, True), 10.0)
    a("--ell", "projection: on an L-shaped level")
    a("--growth X", "gravity: how far matter has clustered", real(0), 0.1)
    a("--boxes N", "cells of a box along each axis [one box a rank]", whole(1))
    a.parser.set_defaults(problem_defaults={name: a.parser.get_default(name) for name in _OF_PROBLEM})
    a.section("method")
    a.options(MULTIGRID)
    a.choice("--precondition", ("none", "cg", "bicgstab", "gmres"), "one cycle preconditions it", what="Krylov method")
    a.options(MULTIGRID_SOLVE, ("rtol", "norm", "max_cycles"))
    a.section("where it runs")
    a.where()
    a.device("host; cuda: each rank's GPU; cuda:N: that GPU; virtual: its kernels on the processor", other="virtual")
    a.section("what it leaves")
    a.json()
    a.plot("solution, residuals, time by level")


def run(arguments: argparse.Namespace) -> int:
    if arguments.axes > 3:
        raise WrongUse(f"--axes {arguments.axes}: 1, 2 or 3 axes are needed")
    for name, problem in _OF_PROBLEM.items():
        if problem != arguments.problem and getattr(arguments, name) != arguments.problem_defaults[name]:
            raise WrongUse(f"--{name} is of --problem {problem}, and this is {arguments.problem}")
    if arguments.problem == "gravity" and arguments.axes != 3:
        raise WrongUse("--problem gravity has three axes")
    if arguments.problem == "projection" and arguments.axes == 1:
        raise WrongUse("--problem projection has two or three axes")
    if arguments.problem == "projection" and arguments.boxes:
        raise WrongUse("--problem projection chooses its boxes: n/8 cells with --ell, one a rank without")
    if arguments.device != "host" and arguments.precondition != "none":
        raise WrongUse(f"--device {arguments.device} solves by cycles alone: leave out --precondition")
    return on_ranks(arguments, _here)


def _problem(a: argparse.Namespace, comm: Any) -> Any:
    from tacit.app import grid_problems as problems

    if a.problem == "projection":
        return problems.projection(a.n, axes=a.axes, jump=a.jump, ell=a.ell, comm=comm)
    if a.problem == "gravity":
        return problems.gravity(a.n, growth=a.growth, boxes=a.boxes, comm=comm)
    if a.problem == "diffusion":
        return problems.diffusion(a.n, axes=a.axes, boxes=a.boxes, comm=comm)
    more = {"axes": a.axes, "coefficient": a.coefficient, "boundary": a.boundary, "rhs": a.rhs, "boxes": a.boxes}
    return problems.helmholtz(a.n, stencil=a.stencil, comm=comm, **more)


def _largest(comm: Any, values: Any) -> float:
    import numpy as np

    return float(comm.all_max_real(float(np.max(np.abs(values))) if len(values) else 0.0))


_OF_RESULT = ("converged", "reason", "advice", "residual_norm", "norm", "history", "counts", "warnings")
_OF_BOTTOM = ("bottom", "bottom_choice", "bottom_solves", "bottom_iterations", "bottom_failures", "levels")


def _preconditioned(
    A: Any, f: Any, M: Any, method: str, solving: dict[str, Any], threads: int | None
) -> tuple[Any, dict[str, Any]]:
    """The result of a Krylov method with cycles as its preconditioner, and its facts. Collective."""
    from tacit import _core
    from tacit.krylov import solve

    goal = {name: solving.get(name, MULTIGRID_SOLVE[name].default) for name in ("norm", "max_cycles")}
    goal["rtol"] = solving.get("rtol", _core.default_multigrid_rtol(A.dtype.name))
    goal["max_iterations"] = goal.pop("max_cycles")
    result = solve(A, f, method=method, precond=M, threads=threads, comm=A.comm, **goal)
    below = M.take_report()
    return result, {
        **{name: getattr(result, name) for name in _OF_RESULT},
        **{name: below[name] for name in _OF_BOTTOM},
        "cycles": result.counts["preconditioner_applies"],
        "iterations": result.iterations,
        "method": method,
        "seconds": {
            "solve": result.seconds["solve"],
            "bottom": sum(level["seconds"]["bottom"] for level in below["levels"]),
        },
        "dofs_per_second": A.shape[0] / result.seconds["solve"],
        "warnings": [*result.warnings, *below["warnings"]],
    }


def _here(a: argparse.Namespace, comm: Any, out: Console) -> int:
    from tacit import _support
    from tacit.app import multigrid as mg

    begin = time.perf_counter()
    with working("making the problem", out, comm.rank == 0):
        problem = _problem(a, comm)
    A = problem.A
    krylov = a.precondition
    options = given(a, MULTIGRID)
    if krylov == "cg":
        options.setdefault("symmetric", True)
    solving = given(a, MULTIGRID_SOLVE)
    with working("setting up", out, comm.rank == 0):
        M = mg.multigrid(A, **options) if a.device == "host" else None
    setup = time.perf_counter() - begin
    facts: dict[str, Any] = report.header("tacit.multigrid/1", a.words) | {
        "problem": a.problem,
        "stencil": a.stencil,
        "shape": list(A.cells.shape),
        "unknowns": A.shape[0],
        "ranks": comm.size,
        "threads": a.threads or _support.default_threads(comm),
        **{name: options.get(name, MULTIGRID[name].default) for name in ("cycle", "smoother", "bottom")},
        "device": a.device,
    }
    result: Any
    if M is None or krylov == "none":
        if M is None:
            result = mg.solve(A, problem.f, device=a.device, threads=a.threads, **options, **solving)
            setup += result.seconds["setup"]
        else:
            result = M.solve(problem.f, threads=a.threads, **solving)
        facts |= {name: getattr(result, name) for name in (*_OF_RESULT, *_OF_BOTTOM, "cycles", "dofs_per_second")}
        facts["seconds"] = result.seconds | {"setup": setup}
    else:
        result, more = _preconditioned(A, problem.f, M, krylov, solving, a.threads)
        facts |= more
        facts["seconds"]["setup"] = setup
    x = result.x
    facts["error_norm"] = None
    if problem.exact is not None:
        facts["error_norm"] = _largest(comm, x - problem.exact)
        facts["error_of"] = (
            "the discrete solution" if problem.is_discrete else "the solution of the differential equation"
        )
    if a.plot:
        from tacit.plot import multigrid as figures

        grid, left = A.to_grid(x), A.to_grid(problem.f - A.matvec(x))
        if comm.rank == 0:
            figures.overview(facts, grid, left, a.plot)
    if comm.rank == 0:
        if a.json:
            report.write_json(facts, a.json)
        _show(facts, out)
    return OK if result.converged else NOT_CONVERGED


def _rows(facts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What is printed, by name."""
    seconds = facts["seconds"]
    shape = " x ".join(map(str, facts["shape"]))
    yield "problem", f"{facts['problem']}, {shape}: {report.count(facts['unknowns'])} cells"
    yield "result", f"{facts['reason']} after {facts['cycles']} cycles"
    yield "residual", f"{facts['residual_norm']:.2e} of the right-hand side, recomputed ({facts['norm']} norm)"
    if facts["error_norm"] is not None:
        yield "error", f"{facts['error_norm']:.3e} from {facts['error_of']}"
    if "bottom_iterations" in facts:
        text = f"{facts['bottom']}, {facts['bottom_iterations']} iterations in {facts['bottom_solves']} solves"
        choice = f" ({facts['bottom_choice']})" if facts["bottom_choice"] else ""
        yield "bottom", text + choice + (f", {facts['bottom_failures']} failed" if facts["bottom_failures"] else "")
    share = 100 * seconds["bottom"] / seconds["solve"] if seconds["solve"] else 0
    yield "time", f"{seconds['solve']:.3f} s, {share:.1f} % of it the bottom; set up in {seconds['setup']:.3f} s"
    yield "speed", f"{facts['dofs_per_second'] / 1e6:.2f} million cells a second"


def _show(facts: dict[str, Any], out: Console) -> None:
    report.print_facts(_rows(facts), out)
    names = ("down", "up", "smooth", "residual_and_restriction", "interpolation", "exchange", "move", "bottom")
    out.print(f"{'level':>18s} ranks " + " ".join(f"{name.split('_')[0]:>12s}" for name in names) + "   (ms)")
    for level in facts["levels"]:
        cells = " x ".join(str(c) for c in level["cells"][: len(facts["shape"])])
        times = " ".join(f"{1e3 * level['seconds'][name]:12.2f}" for name in names)
        out.print(f"{cells:>18s} {level['ranks']:5d} {times}")
    for warning in facts["warnings"]:
        out.print(f"note: {warning}")
    if not facts["converged"] and facts.get("advice"):
        out.print(f"advice: {facts['advice']}")
