"""`tacit solve`: A x = b with the matrix of a file."""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

from tacit import launch, report
from tacit._described import PRECOND_NAMES, SOLVE, SOLVE_NAMES
from tacit.cli import poisson, simulate
from tacit.cli.arguments import (
    NOT_CONVERGED,
    OK,
    OUTPUTS,
    PLOTS,
    SCALARS,
    THREADS,
    WrongUse,
    add_json,
    add_options,
    choice,
    destination,
    given,
    preconditioner,
    right_hand_side,
    whole,
)
from tacit.cli.monitor import Monitor
from tacit.cli.ranks import on_ranks


def add(p: argparse.ArgumentParser) -> None:
    p.add_argument("file", metavar="FILE", help="the matrix: Matrix Market (.mtx, .mtx.gz), PETSc binary, SciPy's .npz")
    p.add_argument("--rhs", default="ones", type=right_hand_side, metavar="FILE|ones|random:SEED", help="b [ones]")
    g = p.add_argument_group("method (in brackets: what is taken when nothing is said)")
    choice(g, "--method", "method", SOLVE_NAMES)
    g.add_argument(
        "--precond",
        default=("none", {}),
        type=preconditioner,
        metavar="NAME[:OPTION=VALUE,...]",
        help=f"{', '.join(PRECOND_NAMES)}; say polynomial:degree=6 [none]",
    )
    add_options(g, SOLVE, [name for name in SOLVE if name not in ("history", *poisson.SCHEDULE)])
    g = p.add_argument_group("where it runs")
    g.add_argument("--ranks", type=whole(1), metavar="N", help="MPI ranks, started here [1, or those of mpiexec]")
    g.add_argument("--threads", type=whole(1), metavar="N", help=THREADS)
    choice(g, "--partition", "partition", ("rows", "graph"), "how rows go to ranks: ")
    choice(g, "--ordering", "ordering", ("none", "rcm"), "of the unknowns: ")
    choice(g, "--scalar", "scalar", SCALARS, default="as the file needs")
    choice(g, "--device", "device", ("host", "cuda"))
    poisson.add_where(g)
    simulate.add(g)
    g = p.add_argument_group("what it leaves")
    g.add_argument("--monitor", action="store_true", help="show the residual while it runs")
    g.add_argument("--output", type=destination(OUTPUTS), metavar="FILE", help="write x: .mtx, .npy, .npz, .petsc")
    add_json(g)
    g.add_argument("--plot", type=destination(PLOTS), metavar="FILE", help="plot the convergence: .png, .pdf, .svg")
    g.add_argument("--trace", type=destination(()), metavar="FILE", help="write what ran when, for ui.perfetto.dev")


def _check_files(arguments: argparse.Namespace) -> None:
    """No two outputs are one file, and none is an input."""
    files = {"FILE": arguments.file}
    if os.path.exists(arguments.rhs):
        files["--rhs"] = arguments.rhs
    for name in ("output", "json", "plot", "trace"):
        path = getattr(arguments, name)
        if path is None or path == "-":
            continue
        for other, taken in files.items():
            if os.path.realpath(path) == os.path.realpath(taken):
                raise WrongUse(f"--{name} and {other} are the same file, {path}")
        files[f"--{name}"] = path


def run(arguments: argparse.Namespace) -> int:
    _check_files(arguments)
    simulate.check(arguments)
    if arguments.simulate is not None:
        return OK if simulate.run(arguments) else NOT_CONVERGED
    return on_ranks(arguments, _here)


def _here(arguments: argparse.Namespace, comm: Any) -> int:
    """The solve itself, on every rank. Only the first prints and writes."""
    from tacit import _core, files, krylov, layout, op
    from tacit._support import utf8

    first = comm.rank == 0
    if arguments.levels:
        comm.set_levels(utf8(arguments.levels))
    out = report.console(stderr=arguments.json == "-", quiet=not first)
    start = time.perf_counter()
    A = files.read_matrix(arguments.file, comm, arguments.scalar)
    if A.shape[0] != A.shape[1]:
        raise _core.InputError(f"{arguments.file}: expected a square matrix, found {A.shape[0]} x {A.shape[1]}")
    if A.shape[0] == 0:
        raise _core.InputError(f"{arguments.file}: expected a matrix with rows, found 0 x 0")
    b = files.right_hand_side(arguments.rhs, A, comm)
    read_seconds = time.perf_counter() - start

    monitor = Monitor(arguments, out, live=bool(os.environ.get(launch.TERMINAL)) or out.is_terminal)
    with monitor:
        result = krylov.solve(
            A,
            b,
            method=arguments.method,
            precond={"name": arguments.precond[0], **arguments.precond[1]},
            path=arguments.path,
            partition=arguments.partition,
            ordering=arguments.ordering,
            threads=arguments.threads,
            device=arguments.device,
            scalar=arguments.scalar,
            trace=arguments.trace is not None,
            comm=comm,
            callback=krylov.Observer(monitor.callback) if arguments.monitor or arguments.plot else None,
            **given(arguments, SOLVE),
        )

    written = {}
    if arguments.output:
        x = layout.gather(result.x, comm)
        if first:
            op.write(arguments.output, x)
        written["solution"] = arguments.output
    if arguments.trace:
        if first:
            result.save_trace(arguments.trace)
        written["trace"] = arguments.trace
    if first:
        facts = report.document(
            result,
            command=["tacit", *arguments.words],
            read_seconds=read_seconds,
            file=arguments.file,
            rhs=arguments.rhs,
            rtol=result.rtol,
            atol=result.atol,
        )
        if arguments.plot:
            from tacit.plot import plotting

            label = facts["method"] + ("" if facts["precond"] == "none" else f" + {facts['precond']}")
            curve = plotting.Curve(label, result.history, monitor.times(facts), facts["residual_norm"])
            title = f"{Path(arguments.file).name}: {report.count(facts['unknowns'])} unknowns"
            plotting.convergence([curve], arguments.plot, title=title, goal=result.rtol)
            written["plot"] = arguments.plot
        if arguments.json:
            report.write_json(facts, arguments.json)
            if arguments.json != "-":
                written["result"] = arguments.json
        report.show(facts | {"written": written}, out)
    return OK if result.converged else NOT_CONVERGED
