"""`tacit solve --simulate`: the same solve on simulated ranks."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from tacit import report
from tacit._described import SOLVE
from tacit.cli.arguments import Arguments, WrongUse, given, whole

# Options of `tacit solve` for real ranks, their threads and messages, which are refused with --simulate.
REAL = ["ranks", "threads", "levels", "monitor", "plot", "engine", "schedule", "remote_threads", "job_rows"]
_OF_RESULT = (
    "converged", "reason", "detail", "advice", "method", "precond", "iterations", "residual_norm", "counts", "warnings",
)  # fmt: skip
DEFAULTS = {"relative_to": "b", "path": "auto", "partition": "rows", "ordering": "none", "device": "host"}


def add(a: Arguments) -> None:
    a("--simulate RANKS", "on so many simulated ranks; times are theirs", whole(1))
    a("--machine NAME|FILE.json", "of --simulate: a known machine, or parameters [modern]")


def check_machine(arguments: argparse.Namespace) -> None:
    if arguments.simulate is None and arguments.machine is not None:
        raise WrongUse("--machine describes what --simulate RANKS runs on, which is not there")


def check(arguments: argparse.Namespace) -> None:
    check_machine(arguments)
    if arguments.simulate is None:
        return
    for name in ("x0", "nullspace", "left_nullspace", "near_null", "coordinates", "plot_levels", "report"):
        if getattr(arguments, name) is not None:
            raise WrongUse(f"--{name.replace('_', '-')} needs real ranks, and --simulate is there")
    for name in [*REAL, *DEFAULTS]:
        value = getattr(arguments, name)
        if value != DEFAULTS.get(name) and value not in (None, False):
            raise WrongUse(f"--{name.replace('_', '-')} {value} is for real ranks, and --simulate is there")


def _ideal(made: Any, solve: Callable[[dict[str, Any]], Any]) -> float:
    """The simulated seconds with messages that advance by themselves, for methods that do anything meanwhile."""
    if made.machine["progress"] == "ideal" or not made.result.method.startswith("pipelined-"):
        return float(made.seconds)
    return float(solve(made.machine | {"progress": "ideal"}).seconds)


def document(made: Any) -> dict[str, Any]:
    """What a JSON document says of a simulated solve."""
    return {
        "simulated": True,
        **{name: getattr(made, name) for name in ("ranks", "machine", "seconds", "messages", "bytes")},
        "phases": [phase._asdict() for phase in made.phases],
    }


def run(arguments: argparse.Namespace) -> bool:
    """Solves, prints and writes; returns whether the solve has converged."""
    from tacit import comm, files, op, simulate

    out = report.console(stderr=arguments.json == "-")
    alone = comm.self_()
    A = files.read_square(arguments.file, alone, arguments.scalar)
    b = files.right_hand_side(arguments.rhs, A, alone)
    how = {name: getattr(arguments, name) for name in ("precond", "method", "scalar")}
    how |= {"machine": arguments.machine or "modern", "trace": arguments.trace is not None}
    options = given(arguments, SOLVE)
    made = simulate.solve(A, b, ranks=arguments.simulate, **how, **options)
    r = made.result
    how |= {"trace": False}
    ideal = _ideal(made, lambda m: simulate.solve(A, b, ranks=arguments.simulate, **how | {"machine": m}, **options))
    out.print(made.summary())
    if ideal != made.seconds:
        out.print(f"  {ideal:.4g} s if messages advanced by themselves (progress ideal)")
    if arguments.output:
        op.write(arguments.output, r.x)
    if arguments.trace:
        r.save_trace(arguments.trace)
    if arguments.json:
        facts = report.header("tacit.simulate/1", arguments.words) | {
            **document(made),
            "seconds_ideal": ideal,
            **{name: getattr(r, name) for name in _OF_RESULT},
            "file": arguments.file,
            "rhs": arguments.rhs,
        }
        report.write_json(facts, arguments.json)
    return bool(r.converged)
