"""Distribution of indices over ranks, and orders of rows and columns. A vector is given in one of two forms: whole on
every rank, or this rank's own part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import _core
from ._alike import Whole
from ._support import Array, as_array, choose, core, whole_number

__all__ = ["Clusters", "blocks", "cluster", "gather", "hilbert", "is_whole", "own_part", "reuse"]


def blocks(n: int, ranks: int, node: int = 1) -> list[int]:
    """Offsets of `ranks` ranges of `n` indices whose lengths differ by at most one: rank r owns [o[r], o[r + 1]). With
    `node` > 1 so many indices stay together, and the numbers of such nodes differ by at most one.

    Examples
    --------
    >>> import tacit
    >>> tacit.layout.blocks(10, 3)
    [0, 4, 7, 10]
    >>> tacit.layout.blocks(15, 2, node=3)
    [0, 9, 15]
    """
    if type(node) is int and node == 1:
        return _core.block_offsets(n, ranks)
    if whole_number(node, "node") < 1:
        raise ValueError(f"node is {node}; at least 1 index is needed")
    return [min(n, node * offset) for offset in _core.block_offsets(-(-n // node), ranks)]


def is_whole(comm: _core.Communicator, given: int, offsets: Sequence[int], what: str) -> bool:
    """True if all ranks give the whole vector, False if all give their own parts; `given` is the number of elements on
    this rank.

    Collective. ValueError on every rank if neither holds.
    """
    return _form(comm, given, None, offsets, what)


def form(comm: _core.Communicator, array: Array, offsets: Sequence[int], what: str) -> bool:
    """:func:`is_whole` for the rows of `array`; ValueError on every rank also where whole arrays differ between ranks
    by more than rounding. Collective; one small reduction, and each rank reads its array once.
    """
    if comm.size == 1 and len(array) == offsets[-1]:
        return True
    return _form(comm, len(array), Whole(array), offsets, what)


def _form(comm: _core.Communicator, given: int, content: Whole | None, offsets: Sequence[int], what: str) -> bool:
    total, own = offsets[-1], offsets[comm.rank + 1] - offsets[comm.rank]
    if comm.size == 1:
        if given != total:
            raise ValueError(f"{what} has {given} elements; {total} are needed")
        return True

    def look() -> tuple[int, int, int, int]:
        digest = content.checksum() if content is not None and given == total else 0
        return digest, ~digest, int(given == total), int(given == own)

    digest, inverse, all_whole, all_own = comm.least(look)
    if all_whole:
        if content is not None and digest != ~inverse:
            content.settle(comm, what)
        return True
    if all_own:
        return False

    def refuse() -> None:
        if given not in (own, total):
            raise ValueError(f"{what} has {given} elements; {total} (whole) or {own} (this rank's own) are needed")

    comm.collective(refuse)
    counts = [int.from_bytes(part, "little") for part in comm.all_gather(given.to_bytes(8, "little"))]
    part = next(rank for rank, count in enumerate(counts) if count != total)
    raise ValueError(
        f"{what} has {total} elements on rank {counts.index(total)} (whole) and {counts[part]} on rank {part} (its own"
        " part); all ranks must give the same form"
    )


def own_part(array: Array, comm: _core.Communicator, offsets: Sequence[int], whole: bool) -> Array:
    """This rank's elements of an array in either form; a view."""
    return array[offsets[comm.rank] : offsets[comm.rank + 1]] if whole else array


def gather(own: Array, comm: _core.Communicator) -> Array:
    """The parts of all ranks concatenated in rank order, on every rank. Collective."""
    if comm.size == 1:
        return own
    parts = [np.frombuffer(part, own.dtype) for part in comm.all_gather(np.ascontiguousarray(own).tobytes())]
    return np.concatenate(parts).reshape(-1, *own.shape[1:])


@dataclass
class Clusters:
    """Orders of a matrix's rows and columns; position i is taken by row ``rows[i]``."""

    rows: Array
    columns: Array
    how: str  #: "spectral", "greedy" or "metis"; "natural" if clustering gains nothing


def cluster(a: Any, block: int = 1024, how: str = "clustered") -> Clusters:
    """Orders of a sparse matrix in which rows that read the same columns form blocks of `block` rows, and columns
    likewise. They depend on the pattern of the matrix only. Local; docs/theory/tiled.md describes the algorithms.

    Parameters
    ----------
    a : SciPy sparse matrix
    block : int
    how : str
        "spectral": for long rows, at a cost of O(entries); "greedy": for few entries a row and column; "metis": a
        partition of the graph of rows and columns; "clustered": one of the first two, or the given order if the gain
        is small.

    Examples
    --------
    >>> import scipy.sparse as sp, tacit
    >>> a = sp.random_array((60, 60), density=0.1, rng=0, format="csr")
    >>> sorted(tacit.layout.cluster(a, block=8).rows.tolist()) == list(range(60))
    True
    """
    choose("how", how, ("clustered", "spectral", "greedy", "metis"))
    return Clusters(*core("cluster")(*_pattern(a), how, int(block)))


def reuse(a: Any, block: int = 1024, order: Any = None, columns: bool = False) -> float:
    """Entries over distinct columns in blocks of `block` rows of a sparse matrix, with its rows in `order`: how often a
    block uses each column that it loads. With `columns`, entries over distinct rows in blocks of columns, with the
    columns in `order`.
    """
    given = np.empty(0, np.int32) if order is None else np.ascontiguousarray(order, np.int32)
    start, column, n = _pattern(a)
    wanted = n if columns else len(start) - 1
    if len(given) not in (0, wanted) or (len(given) and not np.array_equal(np.sort(given), np.arange(wanted))):
        raise ValueError(f"order has {len(given)} numbers; each of 0 to {wanted - 1} is needed once")
    return float(core("reuse")(start, column, n, given, int(block), bool(columns)))


def _pattern(a: Any) -> tuple[Array, Array, int]:
    if not hasattr(a, "tocsr"):
        raise TypeError(f"a is a {type(a).__name__}; a sparse matrix of SciPy is needed")
    c = a.tocsr()
    return np.ascontiguousarray(c.indptr, np.int64), np.ascontiguousarray(c.indices, np.int32), int(c.shape[1])


def hilbert(of: Any) -> Array:
    """The order of cells of a rectangle or box, or of points, along Hilbert's curve: elements that are close in this
    order are close in space.

    Parameters
    ----------
    of : tuple of 2 or 3 int, or array_like (n, 2) or (n, 3)
        A tuple: the size of a rectangle or box, in which cell (x, y, z) has the number ``x + width (y + height z)``. An
        array: points.

    Returns
    -------
    array of int
        The number of the cell or point at each position of the order.

    Examples
    --------
    >>> import tacit
    >>> tacit.layout.hilbert((2, 2, 2)).tolist()
    [0, 2, 6, 4, 5, 7, 3, 1]
    """
    if isinstance(of, tuple) and len(of) in (2, 3) and all(isinstance(n, (int, np.integer)) for n in of):
        sizes = [int(n) for n in of]
        return np.asarray(_core.hilbert_rectangle(*sizes) if len(sizes) == 2 else _core.hilbert_box(*sizes))
    points = as_array(of, "points")
    if points.ndim != 2 or points.shape[1] not in (2, 3):
        raise ValueError(f"points has shape {points.shape}; (n, 2) or (n, 3) is needed")
    flat = np.ascontiguousarray(points, np.float64).reshape(-1)
    return np.asarray(_core.hilbert_points(flat, points.shape[1]))
