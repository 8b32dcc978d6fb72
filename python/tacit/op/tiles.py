"""Sparse matrices for products with many columns."""

from __future__ import annotations

from typing import Any, Unpack, overload

import numpy as np

from .. import _core
from .. import device as _device
from .._described import TILED, TiledOptions
from .._options import agree, fill
from .._support import agreed, core
from .base import FromHandle, Operator
from .matrices import csr
from .stored import Csr


class TiledSpmm(Operator):
    """A sparse matrix and its transpose, for products with many columns. Either stored (:func:`tiled`), or with entries
    that are computed in every product (:func:`tacit.tomography.projector`); to_scipy, staging and reuse need a stored
    matrix.
    """

    __slots__ = ("_options",)
    _options: dict[str, Any]

    nnz = FromHandle(int, "entries")

    @property
    def storage(self) -> str:
        return str(self._handle.facts["storage"])

    @property
    def order(self) -> str:
        """The order in which this rank's rows and columns are stored: "natural", or the clustering that was chosen."""
        return str(self._handle.facts["order"])

    @property
    def nbytes(self) -> int:
        """The bytes of this rank's part of A and A^T that products read."""
        return int(self._handle.facts["bytes"])

    def _state(self) -> tuple[Any, ...]:
        """The values that are stored, which rounding leaves as they are, and the options."""
        if self.comm.size > 1 or not hasattr(self, "_options"):
            return super()._state()
        return self.to_scipy(), self._options

    @classmethod
    def _made_from(cls, comm: _core.Communicator, *state: Any) -> TiledSpmm:
        matrix, options = state
        made: TiledSpmm = tiled(matrix, comm=comm, **options)
        return made

    def volumes(self) -> list[dict[str, int]]:
        """The communication of the reductions over ranks, by level from the smallest groups to the largest: "group"
        (ranks that exchange), "touched" (partial sums for each column that ranks hold before the level), "sent" (those
        that are sent to other ranks), "messages". Over all ranks. Collective.
        """
        return list(self._handle.volumes())

    def to_scipy(self) -> Any:
        """The matrix as a scipy.sparse.csr_array with the rounded values that are stored. On one rank only."""
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
        """Statistics of staging this rank's part in blocks of `rows` rows and buffers of `capacity` columns: "reuse"
        (entries over staged columns), "stages" (of a block), "warp_padding" (entries over nonzeros when each 32 rows
        are padded to the longest in every stage). Local.
        """
        found = self._handle.staging(int(rows), int(capacity), bool(adjoint))
        return dict(zip(("reuse", "stages", "warp_padding"), map(float, found), strict=True))

    def reuse(self, rows: int, adjoint: bool = False) -> float:
        """Entries over distinct columns in blocks of `rows` rows, for this rank's part. Local."""
        return float(self._handle.reuse(rows, adjoint))


class DeviceTiledSpmm(Operator):
    """The same in the memory of a GPU, always stored. Made by :func:`tiled` with ``device=``."""

    __slots__ = ()

    nnz = FromHandle(int, "entries")
    storage = FromHandle(str, "storage")
    nbytes = FromHandle(int, "bytes")  #: of this rank's part of A and A^T, in the memory of the GPU


@overload
def tiled(a: Any, *, comm: Any = None, **options: Unpack[TiledOptions]) -> TiledSpmm: ...
@overload
def tiled(a: Any, *, comm: Any = None, device: str, **options: Unpack[TiledOptions]) -> TiledSpmm | DeviceTiledSpmm: ...
def tiled(
    a: Any, *, comm: Any = None, device: str = "host", **options: Unpack[TiledOptions]
) -> TiledSpmm | DeviceTiledSpmm:
    """A sparse matrix for products with many columns: A and A^T in blocks of rows with 16-bit column numbers.

    Parameters
    ----------
    a : sparse matrix or Csr
        As for :func:`tacit.csr`; real.
    comm : communicator, optional
    device : str
        "host"; "cuda": in the memory of this rank's GPU; "cuda:1": of that one. Stored there in its own blocks, with
        values "full", "float32" or "float16" and vectors "full" or "float16"; other options of storage, an order
        and ``minibatch`` are refused.
    **options
        ``values`` ("full", "float32", "float16", "bfloat16": how entries are stored), ``vectors`` (what products read:
        "full", or 16 bits), ``order`` (how rows and columns are stored: "natural", "clustered", ..; vectors keep their
        numbers; see :func:`tacit.layout.cluster`), ``cluster_rows``, ``format`` ("list", "bitmap", "plain",
        "automatic"), ``columns`` (expected number of columns in a product), ``block_rows``, ``tile``, ``groups``,
        ``minibatch``, ``tune``: see docs/reference/tiled.md.

    Returns
    -------
    TiledSpmm or DeviceTiledSpmm
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
        return _device.kind_of(device), filled("tiled", options, ("comm", "device"))

    kind, o = agreed(stored_a.comm, look)
    agree(stored_a.comm, o, TILED, device=kind)
    gpu = -1 if kind == "host" else _device.number(device, stored_a.comm)
    handle = core("tiled", stored_a._scalar)(stored_a._handle, o, gpu)
    if gpu >= 0:
        return DeviceTiledSpmm(handle, stored_a.comm, stored_a.dtype)
    made = TiledSpmm(handle, stored_a.comm, stored_a.dtype)
    made._options = dict(options)
    return made


def filled(who: str, options: Any, beside: tuple[str, ...] = ()) -> Any:
    """The options of "tiled" or "projector" as an object of the compiled part, checked."""
    table = {name: option for name, option in TILED.items() if who in option.takers}
    o = fill(core("TiledOptions")(), who, table, options, beside)
    _core.check_tiled(o, who)
    return o
