"""`tacit solve` of least-squares problems: a rectangular A, or a method that is for these."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

from tacit import report
from tacit._described import LEAST_SQUARES, LEAST_SQUARES_NAMES, SOLVE, SOLVE_NAMES
from tacit.cli import arguments as cli
from tacit.cli.monitor import Monitor

#: Methods of `tacit solve` that are for these problems only.
OWN = tuple(name for name in LEAST_SQUARES_NAMES if name not in SOLVE_NAMES)
# What `tacit solve` takes besides, with its default, and these problems do not.
_REFUSED = {
    "nullspace": None, "left_nullspace": None, "near_null": None, "coordinates": None, "plot_levels": None,
    "trace": None, "report": None, "levels": None, "relative_to": "b", "path": "auto", "partition": "rows",
    "ordering": "none", "device": "host", "checkpoint": None,
}  # fmt: skip
_TAKEN = ("rtol", "max_iterations", "step")
_OF_RESULT = ("equations", "met", "ending", "gradient_norm", "residual", "gradient", "solution", "condition")


def add(a: cli.Arguments) -> None:
    a.section("least squares (a rectangular A, or --method lsmr or lsqr)")
    a.options(LEAST_SQUARES, ("damp", "condition_limit"))


def applies(arguments: argparse.Namespace, comm: Any) -> bool:
    """Whether the solve is one of these; WrongUse for options of these with a square A. Collective."""
    from tacit import io

    if arguments.method in OWN:
        return True
    header = comm.collective(lambda: io.header(arguments.file))
    if not header.dense and header.rows != header.columns:
        return True
    for name, word in (("damp", "--damp"), ("condition_limit", "--condition-limit")):
        if getattr(arguments, name) is not None:
            raise cli.WrongUse(f"{word} is for least squares, and A is square: say --method lsmr, too")
    return False


def _refuse(arguments: argparse.Namespace, method: str) -> None:
    """WrongUse for options that least-squares solves do not take."""
    for name, default in _REFUSED.items():
        if getattr(arguments, name) not in (default, None):
            raise cli.WrongUse(f"--{name.replace('_', '-')} is for square systems; here {method} minimises |b - A x|")
    for name in cli.given(arguments, SOLVE):
        if name not in _TAKEN:
            known = ", ".join(f"--{taken.replace('_', '-')}" for taken in (*_TAKEN, "damp", "condition_limit"))
            raise cli.WrongUse(
                f"--{name.replace('_', '-')} is for square systems; here {method} minimises |b - A x|, with {known}"
            )
    if (arguments.precond or {}).get("name", "none") not in ("none", "jacobi") or len(arguments.precond or {}) > 1:
        raise cli.WrongUse(
            f"--precond {arguments.precond['name']} is for square systems; {method} takes none or jacobi"
        )


def here(arguments: argparse.Namespace, comm: Any, out: Any, live: bool, write: Any) -> int:
    """The solve on every rank. `write`: writes what was asked for, on the first. Returns the exit code. Collective."""
    from tacit import files, krylov

    method = "lsmr" if arguments.method == "auto" else arguments.method
    if method not in LEAST_SQUARES_NAMES:
        known = ", ".join(LEAST_SQUARES_NAMES)
        raise cli.WrongUse(f"--method {method} is for a square A; {arguments.file} is not square: {known}")
    _refuse(arguments, method)
    watches = method in OWN
    monitor = Monitor(out, live and watches, bool(arguments.monitor) and watches)
    with monitor:
        monitor.line.now(f"reading {Path(arguments.file).name}")
        start = time.perf_counter()
        A = files.read_matrix(arguments.file, comm, arguments.scalar)
        b = files.right_hand_side(arguments.rhs, A, comm)
        x0 = None if arguments.x0 is None else files.first_guess(arguments.x0, A, b, comm)
        read_seconds = time.perf_counter() - start
        options = {name: getattr(arguments, name) for name in ("damp", "condition_limit", "max_iterations", "step")}
        given: Any = {name: value for name, value in options.items() if value is not None}
        if arguments.rtol is not None:
            given |= {"atol": arguments.rtol, "btol": arguments.rtol}
        monitor.begin(0.0)
        result = krylov.lstsq(
            A, b, x0, method=method, precond=arguments.precond, comm=comm, threads=arguments.threads,
            callback=krylov.Observer(monitor.callback) if monitor.lines or monitor.line.live else None, **given,
        )  # fmt: skip
    shape = f"{A.shape[0]:,} rows and {A.shape[1]:,} columns"
    out.print(f"note: {Path(arguments.file).name} has {shape}: {method} minimised |b - A x|")
    more: dict[str, Any] = {"file": arguments.file, "rhs": arguments.rhs, "x0": arguments.x0}
    more |= {name: getattr(result, name) for name in (*_OF_RESULT, "rtol", "atol", "projected_norm")}
    more["damp"] = arguments.damp or 0.0
    more["settings"] = {name: s._asdict() for name, s in arguments.settings.items()}
    facts = report.document(result, words=arguments.words, read_seconds=read_seconds, **more)
    written = write(arguments, result, facts, monitor, comm)
    if comm.rank == 0:
        report.show(facts | {"written": written}, out)
    return cli.OK if result.converged else cli.NOT_CONVERGED
