"""Where a command runs: in this process, or on ranks that it starts."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tacit import launch, report
from tacit.cli.arguments import WrongUse


def own_command() -> list[str]:
    """The command that runs this Tacit from any folder. -P: a folder `tacit` there is not imported instead."""
    home = Path(__file__).resolve().parent.parent.parent
    return [sys.executable, *([] if home == Path.cwd() else ["-P"]), "-m", "tacit"]


def communicator(ranks: int | None) -> Any:
    """All ranks if mpiexec started this process, else this process alone."""
    from tacit import comm

    place = launch.launched()
    if place is None:
        return comm.self_()
    expected = int(os.environ.get(launch.RANKS, place[1]))
    if ranks is not None and ranks != place[1]:
        raise WrongUse(f"--ranks {ranks}, but mpiexec started {place[1]}: leave --ranks out, or mpiexec")
    if place[1] > 1 and not comm.library():
        raise launch.LaunchError(f"mpiexec started {place[1]} ranks of a Tacit without MPI: see tacit doctor")
    world = comm.world()
    if world.size != expected:
        raise launch.LaunchError(
            f"mpiexec started {expected} ranks, but each finds {world.size}: mpiexec is not of {comm.library()},"
            " the MPI that Tacit uses; see tacit doctor"
        )
    return world


def on_ranks(arguments: argparse.Namespace, work: Callable[[argparse.Namespace, Any, Any], int]) -> int:
    """Runs work(arguments, comm, out) on every rank, on --ranks ranks that are started here or on those that mpiexec
    has started, and returns the exit code. `out` prints on the first rank only.
    """
    if arguments.ranks is not None and arguments.ranks > 1 and launch.launched() is None:
        return launch.run(arguments.ranks, [*own_command(), *arguments.words], arguments.threads)
    comm = communicator(arguments.ranks)
    out = report.console(stderr=arguments.json == "-", quiet=comm.rank != 0)
    return int(comm.collective(lambda: work(arguments, comm, out)))
