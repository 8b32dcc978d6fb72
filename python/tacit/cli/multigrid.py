"""The command `tacit multigrid`: a grid problem, a hierarchy, cycles, and what they took by level and operation."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING, Any

from tacit import report
from tacit._described import MULTIGRID
from tacit.cli.arguments import (
    NOT_CONVERGED,
    OK,
    PLOTS,
    WrongUse,
    add_json,
    add_options,
    choice,
    destination,
    given,
    real,
    whole,
)
from tacit.cli.ranks import on_ranks

if TYPE_CHECKING:
    from rich.console import Console

PROBLEMS = ("helmholtz", "projection", "gravity", "diffusion")
COEFFICIENTS = ("constant", "stored", "bubble")
BOUNDARIES = ("periodic", "dirichlet", "neumann")
STENCILS = ("7-point", "27-point", "fourth-order")
# Options of one problem.
_OF_PROBLEM = {
    "coefficient": "helmholtz",
    "boundary": "helmholtz",
    "rhs": "helmholtz",
    "stencil": "helmholtz",
    "jump": "projection",
    "ell": "projection",
    "growth": "gravity",
}


def add(p: argparse.ArgumentParser) -> None:
    g = p.add_argument_group("problem (in brackets: what is taken when nothing is said)")
    choice(g, "--problem", "problem", PROBLEMS)
    g.add_argument("--n", default=64, type=whole(1), metavar="N", help="cells along each axis [64]")
    g.add_argument("--axes", default=3, type=whole(1), metavar="D", help="1, 2 or 3 [3]")
    choice(g, "--coefficient", "coefficient", COEFFICIENTS, "beta of helmholtz: ")
    choice(g, "--boundary", "boundary", BOUNDARIES, "of helmholtz: ")
    choice(g, "--rhs", "right-hand side", ("triangle", "manufactured"), "of helmholtz: ")
    choice(g, "--stencil", "stencil", STENCILS, "of helmholtz: ")
    g.add_argument("--jump", default=10.0, type=real(0, True), metavar="R", help="projection: ratio of densities [10]")
    g.add_argument("--ell", action="store_true", help="projection: on an L-shaped level")
    g.add_argument("--growth", default=0.1, type=real(0), help="gravity: how far matter has clustered [0.1]")
    g.add_argument("--boxes", type=whole(1), metavar="N", help="cells of a box along each axis [one box a rank]")
    p.set_defaults(problem_defaults={name: p.get_default(name) for name in _OF_PROBLEM})
    g = p.add_argument_group("method")
    add_options(g, MULTIGRID, list(MULTIGRID))
    choice(g, "--precondition", "Krylov method", ("none", "cg", "bicgstab", "gmres"), "one cycle preconditions it: ")
    g.add_argument("--rtol", default=1e-10, type=real(0), help="of the residual, as recomputed [1e-10]")
    choice(g, "--norm", "norm", ("max", "2"), "of the residual: ")
    g.add_argument("--max-cycles", default=50, type=whole(0), metavar="N", help="[50]")
    g = p.add_argument_group("where it runs")
    g.add_argument("--ranks", type=whole(1), metavar="N", help="MPI ranks, started here [1, or those of mpiexec]")
    g.add_argument("--threads", type=whole(1), metavar="N", help="threads of a rank [the cores, shared by the ranks]")
    choice(g, "--device", "device", ("host", "cuda", "virtual"), "virtual: its kernels on the processor: ")
    g = p.add_argument_group("what it leaves")
    add_json(g)
    g.add_argument("--plot", type=destination(PLOTS), metavar="FILE", help="solution, residuals, time by level")


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
    return problems.helmholtz(
        a.n,
        axes=a.axes,
        coefficient=a.coefficient,
        boundary=a.boundary,
        rhs=a.rhs,
        boxes=a.boxes,
        stencil=a.stencil,
        comm=comm,
    )


def _largest(comm: Any, values: Any) -> float:
    import numpy as np

    return float(comm.all_max_real(float(np.max(np.abs(values))) if len(values) else 0.0))


def _here(a: argparse.Namespace, comm: Any) -> int:
    from tacit import _support
    from tacit.app import multigrid as mg
    from tacit.krylov import solve

    first = comm.rank == 0
    out = report.console(stderr=a.json == "-", quiet=not first)
    begin = time.perf_counter()
    problem = _problem(a, comm)
    A = problem.A
    krylov = a.precondition
    options = given(a, MULTIGRID)
    if krylov == "cg":
        options.setdefault("symmetric", True)
    M = mg.multigrid(A, **options) if a.device == "host" else None
    setup = time.perf_counter() - begin
    facts: dict[str, Any] = {
        "command": ["tacit", *a.words],
        "problem": a.problem,
        "stencil": a.stencil,
        "shape": list(A.cells.shape),
        "unknowns": A.shape[0],
        "ranks": comm.size,
        "threads": a.threads or _support.default_threads(comm),
        **{name: options.get(name, MULTIGRID[name].default) for name in ("cycle", "smoother", "bottom")},
        "device": a.device,
    }
    if M is None or krylov == "none":
        solving: dict[str, Any] = dict(rtol=a.rtol, norm=a.norm, max_cycles=a.max_cycles, threads=a.threads)
        if M is None:
            solved = mg.solve(A, problem.f, device=a.device, **options, **solving)
            setup += solved.seconds["setup"]
        else:
            solved = M.solve(problem.f, **solving)
        x, done = solved.x, solved.converged
        facts |= {
            k: solved.report[k] for k in ("bottom", "cycles", "converged", "reason", "advice", "residual_norm", "norm")
        }
        facts |= {
            k: solved.report[k]
            for k in ("bottom_choice", "bottom_solves", "bottom_iterations", "bottom_failures", "history", "counts")
        }
        facts |= {"levels": solved.levels, "warnings": solved.warnings, "dofs_per_second": solved.dofs_per_second}
        facts["seconds"] = solved.seconds | {"setup": setup}
    else:
        result = solve(
            A,
            problem.f,
            method=krylov,
            precond=M,
            rtol=a.rtol,
            norm=a.norm,
            max_iterations=a.max_cycles,
            threads=a.threads,
            comm=comm,
        )
        x, done = result.x, result.converged
        done_below = M.take_report()
        levels = done_below["levels"]
        facts |= {"cycles": result.counts["preconditioner_applies"], "iterations": result.iterations, "method": krylov}
        facts |= {"converged": done, "reason": result.reason, "residual_norm": result.residual_norm, "norm": a.norm}
        facts |= {"history": list(map(float, result.history)), "counts": result.counts, "levels": levels}
        facts |= {
            k: done_below[k]
            for k in ("bottom", "bottom_choice", "bottom_solves", "bottom_iterations", "bottom_failures")
        }
        facts["advice"] = result.advice
        bottom = sum(level["seconds"]["bottom"] for level in levels)
        facts["seconds"] = {"setup": setup, "solve": result.seconds["solve"], "bottom": bottom}
        facts["dofs_per_second"] = A.shape[0] / result.seconds["solve"]
        facts["warnings"] = [*result.warnings, *done_below["warnings"]]
    facts["error_norm"] = None
    if problem.exact is not None:
        facts["error_norm"] = _largest(comm, x - problem.exact)
        facts["error_of"] = (
            "the discrete solution" if problem.is_discrete else "the solution of the differential equation"
        )
    facts["machine"] = report.machine()
    if a.plot:
        from tacit.plot import multigrid as figures

        grid, left = A.to_grid(x), A.to_grid(problem.f - A.matvec(x))
        if first:
            figures.overview(facts, grid, left, a.plot)
    if first:
        if a.json:
            report.write_json(facts, a.json)
        _show(facts, out)
    return OK if done else NOT_CONVERGED


def _show(facts: dict[str, Any], out: Console) -> None:
    shape = " x ".join(map(str, facts["shape"]))
    seconds = facts["seconds"]
    rows: list[tuple[str, str]] = [
        ("problem", f"{facts['problem']}, {shape}: {report.count(facts['unknowns'])} cells"),
        ("result", f"{facts['reason']} after {facts['cycles']} cycles"),
        ("residual", f"{facts['residual_norm']:.2e} of the right-hand side, recomputed ({facts['norm']} norm)"),
    ]
    if facts["error_norm"] is not None:
        rows.append(("error", f"{facts['error_norm']:.3e} from {facts['error_of']}"))
    if "bottom_iterations" in facts:
        text = f"{facts['bottom']}, {facts['bottom_iterations']} iterations in {facts['bottom_solves']} solves"
        if facts["bottom_choice"]:
            text += f" ({facts['bottom_choice']})"
        rows.append(("bottom", text + (f", {facts['bottom_failures']} failed" if facts["bottom_failures"] else "")))
    share = 100 * seconds["bottom"] / seconds["solve"] if seconds["solve"] else 0
    rows.append(
        ("time", f"{seconds['solve']:.3f} s, {share:.1f} % of it the bottom; set up in {seconds['setup']:.3f} s")
    )
    rows.append(("speed", f"{facts['dofs_per_second'] / 1e6:.2f} million cells a second"))
    report.print_facts(rows, out)
    names = ("down", "up", "smooth", "residual_and_restriction", "interpolation", "exchange", "move", "bottom")
    out.print(
        f"{'level':>18s} ranks " + " ".join(f"{name.split('_')[0]:>12s}" for name in names) + "   (ms)", soft_wrap=True
    )
    for level in facts["levels"]:
        cells = " x ".join(str(c) for c in level["cells"][: len(facts["shape"])])
        times = " ".join(f"{1e3 * level['seconds'][name]:12.2f}" for name in names)
        out.print(f"{cells:>18s} {level['ranks']:5d} {times}", soft_wrap=True)
    for warning in facts["warnings"]:
        out.print(f"note: {warning}", soft_wrap=True)
    if not facts["converged"] and facts.get("advice"):
        out.print(f"advice: {facts['advice']}", soft_wrap=True)
