"""Communicators: groups of ranks that work together.

A communicator is given to Tacit as ``comm=``: one of this module's, or mpi4py's. Without one, Tacit takes all ranks
if the program was started by mpiexec, and one rank otherwise. Importing Tacit starts no MPI; the first communicator
over MPI initialises MPI.

Threads: on one rank any function of Tacit may be called from any thread. Operators are on communicators of their own
unless they were made from one another, or used together; threads that use separate ones run at the same time, and those
that use the same ones wait for each other. On several ranks one thread at a time may use a communicator: another one's
call raises ValueError, and the communicator cannot be used any more. See the section "Threads" of the guide's page on
ranks.
"""

from __future__ import annotations

import atexit
import copyreg
import functools
import os
import sys
from collections.abc import Callable
from typing import Any, TypeVar

from . import _core, _mpi, launch

__all__ = ["Communicator", "launched", "library", "resolve", "run_threads", "self_", "world"]

T = TypeVar("T")
Communicator = _core.Communicator


def _reduce(comm: Communicator) -> tuple[Any, ...]:
    """A pickle of a communicator has its number of ranks: one, or all that mpiexec started."""
    if comm.size > 1 and not (launched() and comm == world()):
        raise TypeError(
            f"a communicator of {comm.size} ranks can be pickled where these are all ranks of mpiexec"
            " (tacit.comm.world()); make another one where the pickle is loaded"
        )
    return of_ranks, (comm.size, "this communicator")


def of_ranks(ranks: int, what: str) -> Communicator:
    """The communicator for `what` was pickled on so many ranks: one of one rank, or all that mpiexec started."""
    comm = self_() if ranks == 1 else resolve()
    if comm.size != ranks:
        raise ValueError(f"{what} was pickled on {ranks} ranks and cannot be loaded on {comm.size}")
    return comm


copyreg.pickle(Communicator, _reduce)
# Before mpi4py finalises MPI: ranks that wait for this one in a further call learn that it has ended.
atexit.register(_core.mpi_depart)


def self_() -> Communicator:
    """One rank, no messages: a new communicator at each call, so that threads need not wait for each other. All of them
    are equal.

    Examples
    --------
    >>> import tacit
    >>> tacit.comm.self_().size
    1
    >>> tacit.comm.self_() == tacit.comm.self_()
    True
    """
    return _core.self_comm()


@functools.cache
def _world(_process: int) -> Communicator:
    made = _core.mpi_world()
    os.environ[launch.RANK_PROCESS] = str(os.getpid())
    return made


def world() -> Communicator:
    """All ranks that mpiexec started; initialises MPI if that has not been done. Collective over them.

    Raises
    ------
    RuntimeError
        Without an MPI, when mpiexec belongs to another MPI than the one Tacit uses, and in a process
        that a rank has started (a worker of multiprocessing, say), which is no rank itself: ``comm=self_()`` there.
    """
    _mpi.ready()
    if _core.mpi_launched() and not _core.mpi_initialized() and launch.inherited():
        if not launch.alone():
            raise _core.EnvironmentFailure(
                "this process was started by a rank of mpiexec, or is a worker of multiprocessing, and is no rank"
                " itself: comm=tacit.comm.self_() is one rank, which is also the default here"
            )
        launch.drop_process_variables(os.environ)
    return _world(os.getpid())


def launched() -> bool:
    """Whether mpiexec started this process, or MPI is initialised already. Does not initialise MPI. False in processes
    that a rank starts: workers of multiprocessing, forks, and, once the rank has initialised MPI by Tacit, others.
    """
    if not (_core.mpi_built() or (_mpi.modules() and _mpi.ready(search=launch.launched() is not None))):
        return False
    return _core.mpi_launched() and (_core.mpi_initialized() or not launch.inherited())


def library() -> str:
    """The MPI that Tacit was built with, or that a wheel has found, such as "Open MPI 4.1.4"; "" without MPI."""
    return launch.library()


def run_threads(n: int, f: Callable[[Communicator], T]) -> list[T]:
    """Calls ``f(comm)`` on `n` threads, each a rank of one communicator: several ranks without mpiexec, for tests.

    Parameters
    ----------
    n : int
        Number of ranks: at most 16 for each processor of this machine, and 64 on any.
    f : callable
        Called once on every rank, with its communicator.

    Returns
    -------
    list
        What f returned, by rank.

    Raises
    ------
    Exception
        If f raises on any rank, what it raised, with the rank in its text (on one rank: unchanged).

    Notes
    -----
    The ranks share Python's interpreter lock: Python code runs on one rank at a time, Tacit's compiled code on all.

    Examples
    --------
    >>> import tacit
    >>> tacit.comm.run_threads(3, lambda comm: comm.rank)
    [0, 1, 2]
    """
    launch.refuse_crowds(n, 1)
    results: dict[int, T] = {}

    def rank(comm: Communicator) -> None:
        results[comm.rank] = f(comm)

    _core.run_threads(n, rank)
    return [results[r] for r in range(n)]


@functools.cache
def _keyval() -> int:
    from mpi4py import MPI

    keyval: int = MPI.Comm.Create_keyval()
    return keyval


def _of_mpi4py(comm: Any) -> Communicator:
    """Tacit's duplicate of an mpi4py communicator, made at the first call and stored with the communicator. Collective
    the first time.
    """
    from mpi4py import MPI

    if comm == MPI.COMM_NULL:
        raise ValueError("comm is MPI.COMM_NULL; this process is no rank of it")
    kept = comm.Get_attr(_keyval())
    if isinstance(kept, Communicator):
        return kept
    _mpi.ready()
    made = _core.mpi_from_fortran(comm.py2f(), MPI.Get_library_version())
    comm.Set_attr(_keyval(), made)
    return made


def resolve(comm: Any = None) -> Communicator:
    """The communicator that `comm` stands for: one of Tacit's, one of mpi4py's, or None for the default.

    Parameters
    ----------
    comm : tacit.comm.Communicator, mpi4py.MPI.Comm or None

    Raises
    ------
    TypeError
        When it is neither.
    RuntimeError
        When mpi4py uses another MPI than Tacit.
    """
    if comm is None:
        if launched() and (whole := world()).size > 1:
            return whole
        return self_()  # the world is one object for all threads
    if isinstance(comm, Communicator):
        return comm
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is not None and isinstance(comm, mpi.Comm):
        return _of_mpi4py(comm)
    raise TypeError(f"comm is {comm!r}; a communicator of tacit.comm or of mpi4py is needed")
