"""Communicators: groups of ranks that work together.

A communicator is given to Tacit as ``comm=``: one of this module's, or mpi4py's. Without one, Tacit takes all ranks
if the program was started by mpiexec, and one rank otherwise. Importing Tacit starts no MPI; the first communicator
over MPI initialises MPI.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, TypeVar

from . import _core, launch

__all__ = ["Communicator", "launched", "library", "resolve", "run_threads", "self_", "world"]

T = TypeVar("T")
Communicator = _core.Communicator


@functools.cache
def self_() -> Communicator:
    """One rank, no messages.

    Examples
    --------
    >>> import tacit
    >>> tacit.comm.self_().size
    1
    """
    return _core.self_comm()


@functools.cache
def world() -> Communicator:
    """All ranks that mpiexec started; initialises MPI if that has not been done. Collective over them.

    Raises
    ------
    RuntimeError
        In a build without MPI, and when mpiexec belongs to another MPI than the one Tacit was built with.
    """
    return _core.mpi_world()


def launched() -> bool:
    """Whether mpiexec started this process, or MPI is initialised already. Does not initialise MPI."""
    return _core.mpi_launched()


def library() -> str:
    """The MPI that Tacit was built with, such as "Open MPI 4.1.4"; "" in a build without MPI."""
    return _core.mpi_library()


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
        return world() if _core.mpi_built() and launched() else self_()
    if isinstance(comm, Communicator):
        return comm
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is not None and isinstance(comm, mpi.Comm):
        return _of_mpi4py(comm)
    raise TypeError(f"comm is {comm!r}; a communicator of tacit.comm or of mpi4py is needed")
