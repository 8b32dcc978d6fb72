"""Sparse matrices for products with many columns."""

from __future__ import annotations

from typing import Any, Unpack

import numpy as np

from .. import _core
from .._described import TILED, TiledOptions
from .._options import agree, fill
from .._support import agreed, core
from .matrices import csr
from .operators import Csr, Operator


class TiledSpmm(Operator):
    """A sparse matrix for products with many columns, and its transpose beside it: stored (:func:`tiled`), or entries
    that are computed in every product (:func:`tacit.tomography.projector`), of which to_scipy, staging and reuse know
    nothing."""

    __slots__ = ()

    @property
    def nnz(self) -> int:
        return int(self._handle.entries)

    @property
    def storage(self) -> str:
        return str(self._handle.facts["storage"])

    @property
    def order(self) -> str:
        """How this rank's rows and columns are stored: "natural", or the clustering that was taken."""
        return str(self._handle.facts["order"])

    @property
    def nbytes(self) -> int:
        """That products read of this rank's part of A and A^T."""
        return int(self._handle.facts["bytes"])

    def volumes(self) -> list[dict[str, int]]:
        """What the sums over ranks move, by level from the inside out: "group" (ranks that exchange), "touched" (values
        a column that ranks hold before), "sent" (of them, to other ranks), "messages". Over all ranks. Collective."""
        return list(self._handle.volumes())

    def to_scipy(self) -> Any:
        """The matrix as a scipy.sparse.csr_array of the rounded values that are stored. Of one rank."""
        import scipy.sparse as sp

        if self.comm.size > 1:
            raise ValueError("a tiled matrix of several ranks has no rows of its own to give")
        start, column, value = self._handle.stored_rows(False)
        rows, columns = self._handle.orders
        if len(rows):
            stored_a = sp.csr_array((value, columns[column], start), shape=self.shape)
            place = np.empty_like(rows)
            place[rows] = np.arange(len(rows), dtype=rows.dtype)
            return stored_a[place]
        return sp.csr_array((value, column, start), shape=self.shape)

    def staging(self, rows: int, capacity: int, adjoint: bool = False) -> dict[str, float]:
        """What staging in blocks of so many rows and buffers of so many columns would come to, of this rank's part:
        "reuse" (entries over columns staged), "stages" of a block, "warp_padding" (entries over nonzeros where 32 rows
        are padded to the longest, stage by stage). Local."""
        found = self._handle.staging(int(rows), int(capacity), bool(adjoint))
        return dict(zip(("reuse", "stages", "warp_padding"), map(float, found), strict=True))

    def reuse(self, rows: int, adjoint: bool = False) -> float:
        """Entries over distinct columns in blocks of so many rows, of this rank's part. Local."""
        return float(self._handle.reuse(rows, adjoint))


def tiled(a: Any, *, comm: Any = None, **options: Unpack[TiledOptions]) -> TiledSpmm:
    """A sparse matrix for products with many columns: A and A^T in blocks of rows with 16-bit column numbers.

    Parameters
    ----------
    a : sparse matrix or Csr
        As :func:`tacit.csr` takes it; real.
    comm : communicator, optional
    **options
        ``values`` ("full", "float32", "float16", "bfloat16": how entries are stored), ``vectors`` (what products read:
        "full", or 16 bits), ``order`` (how rows and columns are stored: "natural", "clustered", ..; vectors keep their
        numbers; see :func:`tacit.layout.cluster`), ``cluster_rows``, ``format`` ("list", "bitmap", "plain",
        "automatic"), ``columns`` (at once, as expected), ``block_rows``, ``tile``, ``groups``, ``minibatch``, ``tune``:
        docs/reference/tiled.md says what each is.

    Returns
    -------
    TiledSpmm
        Collective.

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp, tacit
    >>> A = tacit.tiled(sp.random_array((200, 100), density=0.1, rng=0), columns=16)
    >>> (A @ np.ones((100, 16))).shape
    (200, 16)
    """
    stored_a = a if isinstance(a, Csr) else csr(a, comm=comm)

    def look() -> Any:
        if stored_a.dtype.kind == "c":
            raise TypeError(f"a tiled matrix is real; this one is {stored_a.dtype}")
        return filled("tiled", options, ("comm",))

    o = agreed(stored_a.comm, look)
    agree(stored_a.comm, o, TILED)
    return TiledSpmm(core("tiled", stored_a.dtype.name)(stored_a._handle, o), stored_a.comm, stored_a.dtype)


def filled(who: str, options: Any, beside: tuple[str, ...] = ()) -> Any:
    """The options of "tiled" or "projector" as the compiled part has them, checked."""
    table = {name: option for name, option in TILED.items() if who in option.takers}
    o = fill(core("TiledOptions")(), who, table, options, beside)
    _core.check_tiled(o, who)
    return o
