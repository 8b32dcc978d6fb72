"""Sparse matrices for products with many columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._support import (
    agreed,
    choose,
    core,
)
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


def tiled_options(
    values: str,
    format: str,
    columns: int,
    block_rows: int,
    tile: int,
    groups: Sequence[int],
    minibatch: int,
    tune: bool,
    vectors: str = "full",
    order: str = "natural",
    cluster_rows: int = 1024,
    formats: Sequence[str] = ("automatic", "list", "bitmap", "plain"),
) -> dict[str, Any]:
    """The options of a tiled matrix as the compiled part takes them."""
    return {
        "values": choose("values", values, ("full", "float32", "float16", "bfloat16")),
        "vectors": choose("vectors", vectors, ("full", "float16", "bfloat16")),
        "order": order,
        "cluster_rows": int(cluster_rows),
        "format": choose("format", format, formats),
        "columns": int(columns),
        "block_rows": int(block_rows),
        "tile": int(tile),
        "groups": [int(g) for g in groups],
        "minibatch": int(minibatch),
        "tune": bool(tune),
    }


ORDERS = ("natural", "clustered", "spectral", "greedy", "metis")


def tiled(
    a: Any,
    *,
    values: str = "full",
    vectors: str = "full",
    order: str = "natural",
    cluster_rows: int = 1024,
    format: str = "automatic",
    columns: int = 1,
    block_rows: int = 0,
    tile: int = 0,
    groups: Sequence[int] = (),
    minibatch: int = 0,
    tune: bool = False,
    comm: Any = None,
) -> TiledSpmm:
    """A sparse matrix for products with many columns: A and A^T in blocks of rows with 16-bit column numbers.

    Parameters
    ----------
    a : sparse matrix or Csr
        As :func:`tacit.csr` takes it; real.
    values : str
        "full", "float32", "float16" or "bfloat16": how entries are stored (scaled by a power of two for each block);
        sums are formed in the matrix's own scalar.
    vectors : str
        "full", or "float16", "bfloat16": products of a float32 matrix read a copy of the vectors in 16 bits, each
        column scaled by a power of two of its own, and sum in float32. What rounding takes from a number the next ones
        of its column get, up to half a unit of their own last place.
    order : str
        How rows and columns are stored; vectors keep their numbers. "natural": as they come. "clustered": rows that
        read the same columns together, and columns likewise, where nothing is known of their geometry; by "spectral"
        (long rows), "greedy" (short ones) or "metis" where these are named. See :func:`tacit.layout.cluster`.
    cluster_rows : int
        Rows of a cluster; of the orders that have any.
    format : str
        "list" (fastest), "bitmap" (fewer bytes where neighbouring columns come together), "plain" (as a csr matrix;
        where rows are short and columns many) or "automatic".
    columns : int
        Columns at once, as expected; decides the automatic format.
    block_rows, tile : int
        Rows of a block, columns whose sums are kept in registers; 0: Tacit's choice.
    groups : sequence of int
        Ranks of nested groups within which partial sums are added before they travel farther, inside out.
    minibatch : int
        Columns to a message; 0: all.
    tune : bool
        Format, block_rows and tile are chosen by timing products of `columns` columns with a sample of the rows, where
        they were left open; what was found is kept in ``~/.cache/tacit/tiled.tsv``.
    comm : communicator, optional

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

    def look() -> dict[str, Any]:
        if stored_a.dtype.kind == "c":
            raise TypeError(f"a tiled matrix is real; this one is {stored_a.dtype}")
        choose("order", order, ORDERS)
        if order == "natural" and cluster_rows != 1024:
            raise ValueError(f'cluster_rows is {cluster_rows}, and the order "natural" has no clusters')
        return tiled_options(
            values, format, columns, block_rows, tile, groups, minibatch, tune, vectors, order, cluster_rows
        )

    options = agreed(stored_a.comm, look)
    handle = core("tiled", stored_a.dtype.name)(stored_a._handle, options)
    return TiledSpmm(handle, stored_a.comm, stored_a.dtype)
