"""`tacit solve`: A x = b with the matrix of a file."""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

from tacit import launch, report
from tacit._described import PRECOND, PRECOND_NAMES, SOLVE, SOLVE_NAMES
from tacit.cli import arguments as cli
from tacit.cli import least_squares, poisson, simulated_solve
from tacit.cli.monitor import Monitor
from tacit.cli.ranks import on_ranks

# Files of arrays for --precond amg.
AMG_ARRAYS = ("near_null", "coordinates")
TEXT = "solve A x = b with the matrix of a file, or minimise |b - A x|"


def add(a: cli.Arguments) -> None:
    a("file FILE", "the matrix: Matrix Market (.mtx, .mtx.gz), PETSc binary, SciPy's .npz, Rutherford-Boeing")
    a("--rhs FILE|ones|random:SEED", "b; a file of several vectors as columns is solved with all of them",
      cli.right_hand_side, "ones", also=["--b"], known=("ones", "random:0"))  # fmt: skip
    a("--x0 FILE", "the initial guess, of the shape of b [zero]")
    a("--nullspace FILE|constant", "what a singular A maps to zero: vectors (columns), or all ones")
    a("--left-nullspace FILE|constant", "the same for A^H, where it differs")
    a.section("method (in brackets: what is taken when nothing is said)")
    a.choice("--method", (*SOLVE_NAMES, *least_squares.OWN))
    named = cli.preconditioner(PRECOND, ("auto", *PRECOND_NAMES))
    text = f"auto (tries several), {', '.join(PRECOND_NAMES)}; say polynomial:degree=6 [auto; with a --method: none]"
    a("--precond NAME[:OPTION=VALUE,...]", text, named, known=("auto", *PRECOND_NAMES))
    a("--near-null FILE", "of --precond amg: vectors (columns) that A nearly maps to zero [constants]")
    a("--coordinates FILE", "of --precond amg, for elasticity: the nodes (rows), for rigid-body modes")
    a.options(SOLVE, [name for name in SOLVE if name not in ("history", *poisson.SCHEDULE)])
    a.choice("--relative-to", ("b", "first"), "what rtol is relative to: |b|, or |b - A x0|")
    least_squares.add(a)
    a.section("where it runs")
    a.where()
    a.choice("--partition", ("rows", "graph"), "how rows go to ranks")
    a.choice("--ordering", ("none", "rcm"), "of the unknowns")
    a.choice("--scalar", cli.SCALARS, default="as the file needs")
    a.device()
    poisson.add_where(a)
    simulated_solve.add(a)
    a.section("what it leaves")
    a("--monitor", "print the residual while it runs (a terminal always shows progress)")
    a("--checkpoint FILE", "keep x there while it runs, and start from it where it exists: .npz",
      cli.destination((".npz",)))  # fmt: skip
    a("--every N", "of --checkpoint: iterations between two writings [100]", int)
    a("--output FILE", "write x: .mtx, .npy, .npz, .petsc", cli.destination(cli.OUTPUTS))
    a.json()
    a.plot("plot the convergence: .png, .pdf, .svg")
    a("--plot-levels FILE", "of --precond amg: plot unknowns, entries and seconds by level", cli.destination(cli.PLOTS))
    a("--report FILE", "write a page on this solve: convergence, time, traffic, advice", cli.destination((".html",)))
    a("--trace FILE", "write what ran when, for ui.perfetto.dev", cli.destination(()))


def run(arguments: argparse.Namespace) -> int:
    inputs = ("file", "rhs", "x0", "nullspace", "left_nullspace", *AMG_ARRAYS)
    cli.check_files(arguments, inputs, ("output", "json", "plot", "plot_levels", "report", "trace", "checkpoint"))
    simulated_solve.check(arguments)
    _check_checkpoint(arguments)
    for name in (*AMG_ARRAYS, "plot_levels"):
        if getattr(arguments, name) is not None and (arguments.precond or {}).get("name") != "amg":
            raise cli.WrongUse(f"--{name.replace('_', '-')} is for --precond amg")
    if arguments.simulate is not None:
        return cli.OK if simulated_solve.run(arguments) else cli.NOT_CONVERGED
    return on_ranks(arguments, _here)


def _check_checkpoint(arguments: argparse.Namespace) -> None:
    if arguments.every is not None and arguments.checkpoint is None:
        raise cli.WrongUse("--every is for --checkpoint FILE")
    if arguments.checkpoint is not None and arguments.simulate is not None:
        raise cli.WrongUse("--checkpoint keeps numbers of a solve, and --simulate computes none on these ranks")


def _here(arguments: argparse.Namespace, comm: Any, out: Any) -> int:
    """The solve on every rank; only the first prints and writes. Returns the exit code."""
    from tacit import _core, krylov
    from tacit._support import utf8

    if arguments.levels:
        comm.set_levels(utf8(arguments.levels))
    # Ranks have a callback alike; of these only the first may have a terminal.
    live = comm.all_max_real(float(bool(os.environ.get(launch.TERMINAL)) or (out.is_terminal and not out.quiet))) > 0
    if least_squares.applies(arguments, comm):
        return least_squares.here(arguments, comm, out, live, _write)
    monitor = Monitor(out, live, bool(arguments.monitor))
    same = ("method", "path", "partition", "ordering", "threads", "device", "scalar", "relative_to")
    with monitor:
        monitor.line.now(f"reading {Path(arguments.file).name}")
        start = time.perf_counter()
        A, b, x0, spaces, precond = _system(arguments, comm, out)
        read_seconds = time.perf_counter() - start
        wanted = live or arguments.monitor or arguments.plot
        observed = krylov.Observer(monitor.callback) if wanted else None
        how = {name: getattr(arguments, name) for name in same} | {
            "trace": bool(arguments.trace or arguments.report),
            **spaces,
        }
        monitor.begin(_core.default_rtol(A.dtype.name) if arguments.rtol is None else float(arguments.rtol))
        keep = (
            None
            if arguments.checkpoint is None
            else krylov.Checkpoint(arguments.checkpoint, 100 if arguments.every is None else arguments.every)
        )
        how |= {"checkpoint": keep, "callback": observed, "comm": comm, "precond": precond}
        result = krylov.solve(A, b, x0, **how, **cli.given(arguments, SOLVE))
    more: dict[str, Any] = {"file": arguments.file, "rhs": arguments.rhs, "x0": arguments.x0}
    if keep is not None:
        more["resumed"] = {"iterations": keep.resumed, "residual_norm": keep.resumed_residual}
        if keep.resumed:
            out.print(f"{keep.path}: went on after {keep.resumed:,} iterations, residual {keep.resumed_residual:.2e}")
    more |= {"settings": {name: s._asdict() for name, s in arguments.settings.items()}}
    more |= {name: getattr(result, name) for name in ("rtol", "atol", "projected_norm")}
    facts = report.document(result, words=arguments.words, read_seconds=read_seconds, **more)
    written = _write(arguments, result, facts, monitor, comm)
    if comm.rank == 0:
        report.show(facts | {"written": written}, out)
    return cli.OK if result.converged else cli.NOT_CONVERGED


def _system(arguments: argparse.Namespace, comm: Any, out: Any) -> tuple[Any, Any, Any, dict[str, Any], Any]:
    """A, b, x0, the null spaces and the preconditioner, from files. Collective."""
    from tacit import files
    from tacit.precond import node_of

    near_null = {name: getattr(arguments, name) for name in AMG_ARRAYS if getattr(arguments, name) is not None}
    precond = arguments.precond
    for name, path in near_null.items():
        precond = precond | {name: comm.collective(lambda path=path: files.rows_of(path))}
    A = files.read_square(arguments.file, comm, arguments.scalar, node_of(precond))
    files.check_near_null(A, near_null, precond)
    if arguments.rhs == "ones" and comm.collective(lambda: files.has_vector(arguments.file)):
        out.print(f"note: {arguments.file} holds a vector, too; --rhs {arguments.file} takes it for b")
    b = files.right_hand_side(arguments.rhs, A, comm)
    x0 = None if arguments.x0 is None else files.first_guess(arguments.x0, A, b, comm)
    spaces = {name: files.null_space(getattr(arguments, name), A, comm) for name in ("nullspace", "left_nullspace")}
    return A, b, x0, spaces, precond


def _write(arguments: argparse.Namespace, result: Any, facts: Any, monitor: Monitor, comm: Any) -> dict[str, str]:
    """Writes what was asked for, on the first rank; returns the files. Collective."""
    from tacit import layout, op

    written = {}
    if arguments.output:
        x = layout.gather(result.x, comm)
        if comm.rank == 0:
            op.write(arguments.output, x)
        written["solution"] = arguments.output
    if comm.rank != 0:
        return written
    if arguments.trace:
        result.save_trace(arguments.trace)
        written["trace"] = arguments.trace
    if arguments.plot:
        from tacit.plot import plotting

        label = facts["method"] + ("" if facts["precond"] in ("none", facts["method"]) else f" + {facts['precond']}")
        curve = plotting.Curve(label, result.history, monitor.times(facts), facts["residual_norm"])
        title = f"{Path(arguments.file).name}: {report.count(facts['unknowns'])} unknowns"
        plotting.convergence([curve], arguments.plot, title=title, goal=result.rtol)
        written["plot"] = arguments.plot
    if arguments.report:
        from tacit.plot import solve_page

        solve_page.write_page(arguments.report, facts, result.trace, Path(arguments.file).name)
        written["report"] = arguments.report
    if arguments.plot_levels:
        from tacit.plot import amg

        amg.levels(result.levels or {}, arguments.plot_levels, Path(arguments.file).name)
        written["levels"] = arguments.plot_levels
    if arguments.json:
        report.write_json(facts, arguments.json)
        if arguments.json != "-":
            written["result"] = arguments.json
    return written
