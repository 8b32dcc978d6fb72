"""How indices are spread over ranks, and the two forms in which vectors come: whole, or this rank's own part."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from . import _core
from ._support import Array

__all__ = ["blocks", "gather", "is_whole", "own_part"]


def blocks(n: int, ranks: int) -> list[int]:
    """Offsets of `ranks` ranges of `n` indices whose lengths differ by at most one: rank r owns [o[r], o[r + 1]).

    Examples
    --------
    >>> import tacit
    >>> tacit.layout.blocks(10, 3)
    [0, 4, 7, 10]
    """
    return _core.block_offsets(n, ranks)


def is_whole(comm: _core.Communicator, given: int, offsets: Sequence[int], what: str) -> bool:
    """Whether `given` elements on this rank are the whole vector (on all ranks), or this rank's own part (on all
    ranks).

    Collective. ValueError on every rank when they are neither.
    """
    total, own = offsets[-1], offsets[comm.rank + 1] - offsets[comm.rank]
    if comm.size == 1:
        if given != total:
            raise ValueError(f"{what} has {given} elements; {total} are needed")
        return True
    if comm.all_min(int(given == total)):
        return True
    if comm.all_min(int(given == own)):
        return False

    def refuse() -> None:
        if given not in (own, total):
            raise ValueError(f"{what} has {given} elements; {total} (whole) or {own} (this rank's own) are needed")

    comm.collective(refuse)
    raise ValueError(f"{what} is whole on some ranks and the own part on others; all ranks must give the same form")


def own_part(array: Array, comm: _core.Communicator, offsets: Sequence[int], whole: bool) -> Array:
    """This rank's elements of an array in either form; a view."""
    return array[offsets[comm.rank] : offsets[comm.rank + 1]] if whole else array


def gather(own: Array, comm: _core.Communicator) -> Array:
    """The parts of all ranks one behind the other, on every rank. Collective."""
    if comm.size == 1:
        return own
    parts = [np.frombuffer(part, own.dtype) for part in comm.all_gather(np.ascontiguousarray(own).tobytes())]
    return np.concatenate(parts).reshape(-1, *own.shape[1:])
