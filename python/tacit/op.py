"""Operators: linear maps whose rows are spread over ranks.

Every operator has ``shape``, ``dtype``, ``comm`` and ``own_range``; ``A @ x``, ``A.T @ x`` and ``A.H @ x`` multiply.
On several ranks a vector is given either whole (the same on every rank) or as this rank's own part, on all ranks
alike, and with the same number of columns (checked; complex on one rank is complex on all); what comes back has the
same form. Products are collective.
"""

from __future__ import annotations

import json
import math
import os
import warnings
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _core, io, layout
from . import comm as _comm
from ._support import (
    Array,
    agreed,
    as_array,
    choose,
    chosen_scalar,
    common_scalar,
    core,
    one_for_all,
    real_number,
    refuse_differences,
    scalar_name,
    to_scalar,
    whole_number,
)

__all__ = [
    "Csr",
    "HMatrix",
    "Operator",
    "Stencil",
    "as_operator",
    "csr",
    "function",
    "hmatrix",
    "poisson",
    "read",
    "stencil",
    "tiled",
    "write",
]


class Operator:
    """A linear map over the ranks of a communicator. Made by :func:`tacit.read`, :func:`tacit.csr`,
    :func:`tacit.poisson`, :func:`tacit.stencil`, :func:`tacit.hmatrix` and :func:`tacit.function`.

    Attributes
    ----------
    shape : tuple of int
    dtype : numpy.dtype
        float32, float64, complex64 or complex128.
    comm : tacit.comm.Communicator
    own_range : tuple of int
        This rank owns rows ``own_range[0] <= i < own_range[1]``.
    name : str
    """

    __array_ufunc__ = None  # NumPy leaves `array @ operator` to the operator
    __slots__ = ("_handle", "_hermitian", "comm", "dtype", "shape")

    def __init__(self, handle: Any, comm: _core.Communicator, dtype: npt.DTypeLike) -> None:
        self._handle = handle
        self._hermitian: bool | None = None
        self.comm = comm
        self.dtype = np.dtype(dtype)
        self.shape: tuple[int, int] = (handle.rows, handle.columns)

    ndim = 2

    @property
    def name(self) -> str:
        return str(self._handle.name)

    @property
    def own_range(self) -> tuple[int, int]:
        offsets = self._handle.range_offsets
        return offsets[self.comm.rank], offsets[self.comm.rank + 1]

    @property
    def nnz(self) -> int:
        """Entries of the matrix over all ranks; 0 when the operator does not know. Local."""
        return 0

    @property
    def storage(self) -> str:
        return "none"

    def __repr__(self) -> str:
        entries = f", {self.nnz} entries" if self.nnz else ""
        ranks = f" on {self.comm.size} ranks" if self.comm.size > 1 else ""
        return f"<tacit {self.name} operator of {self.shape[0]} x {self.shape[1]}{entries}, {self.dtype}{ranks}>"

    # -- products ------------------------------------------------------------------------------------------------------

    def _apply(self, x: Any, adjoint: bool, conjugate: bool = False) -> Array:
        """A x, or A^H x, or with `conjugate` A^T x."""
        comm = self.comm

        def prepare() -> Array:
            array = as_array(x, "x")
            if array.ndim not in (1, 2):
                raise ValueError(f"x has shape {array.shape}; (n,) or (n, k) is needed")
            return array

        array = agreed(comm, prepare)
        is_complex = array.dtype.kind == "c"
        if comm.size > 1:
            # What follows sends messages by these, so all ranks must see the same.
            columns = array.shape[1] if array.ndim == 2 else -1
            given = layout.gather(np.array([[columns, is_complex]], np.int64), comm)
            is_complex = bool(given[:, 1].any())
            for r in np.flatnonzero(given[:, 0] != given[0, 0])[:1]:
                first, other = ("one dimension" if k < 0 else f"{k} columns" for k in (given[0, 0], given[r, 0]))
                raise ValueError(f"x has {first} on rank 0 and {other} on rank {r}; all ranks must give the same")
        if is_complex and self.dtype.kind != "c":
            # A real operator takes the real and imaginary parts one by one.
            real, imaginary = (self._product(part, adjoint, False) for part in (array.real, array.imag))
            return real + 1j * imaginary
        return self._product(array, adjoint, conjugate)

    def _product(self, array: Array, adjoint: bool, conjugate: bool) -> Array:
        """_apply, where all ranks agree on kind and columns."""
        handle, comm = self._handle, self.comm
        scalar = self.dtype.name
        offsets, back = handle.domain_offsets, handle.range_offsets
        if adjoint:
            offsets, back = back, offsets
        whole = layout.is_whole(comm, len(array), offsets, "x")
        own = to_scalar(layout.own_part(array, comm, offsets, whole), scalar, "x")
        if conjugate:
            own = own.conj()
        if own.ndim == 2 and isinstance(handle, (core("Csr", scalar), core("HMatrix", scalar))):
            y = (
                handle.apply(own, adjoint)
                if own.shape[1]
                else np.zeros((back[comm.rank + 1] - back[comm.rank], 0), scalar)
            )
        elif own.ndim == 2:
            columns = [handle.apply(np.ascontiguousarray(own[:, k]), adjoint) for k in range(own.shape[1])]
            rows = back[comm.rank + 1] - back[comm.rank]
            y = np.stack(columns, axis=1) if columns else np.zeros((rows, 0), scalar)
        else:
            y = handle.apply(own, adjoint)
        if conjugate:
            y = y.conj()
        return layout.gather(y, comm) if whole else y

    def matvec(self, x: Any) -> Array:
        """A x, for one vector or k columns. Collective; one product."""
        return self._apply(x, False)

    def rmatvec(self, x: Any) -> Array:
        """A^H x, the product with the conjugate transpose. Collective; one product."""
        return self._apply(x, True)

    matmat, rmatmat = matvec, rmatvec

    def __matmul__(self, x: Any) -> Any:
        """A x for an array, the operator x -> A (B x) for an operator B."""
        if isinstance(x, Operator):
            self._fits(x)
            return self._composed("product", self._handle, x._handle)
        return self._apply(x, False)

    def __rmatmul__(self, x: Any) -> Array:
        y: Array = self._apply(np.asarray(x).T, True, conjugate=True).T
        return y

    # -- new operators from old ----------------------------------------------------------------------------------------

    def _composed(self, how: str, *arguments: Any) -> Operator:
        return Operator(core(how, self.dtype.name)(*arguments), self.comm, self.dtype)

    @property
    def H(self) -> Operator:
        """The conjugate transpose, as an operator that refers to this one. ValueError when there is no adjoint
        product.
        """
        return self._composed("adjoint", self._handle)

    @property
    def T(self) -> Operator:
        """The transpose, as an operator that refers to this one. ValueError when there is no adjoint product."""
        return self._composed("transpose", self._handle)

    def shifted(self, sigma: complex) -> Operator:
        """A + sigma I. Collective."""
        return self._composed("shift", self._handle, self._factor(sigma))

    def _factor(self, value: Any) -> Any:
        """A number as this operator's scalar."""
        if isinstance(value, (complex, np.complexfloating)) and self.dtype.kind != "c":
            raise TypeError(f"{value!r} is complex, the operator is {self.dtype}")
        return self.dtype.type(value).item()

    def _fits(self, other: Operator) -> None:
        if other.dtype != self.dtype:
            raise TypeError(f"operators of {self.dtype} and {other.dtype}; both must have one scalar type")

    def __mul__(self, alpha: Any) -> Any:
        if not isinstance(alpha, (int, float, complex, np.number)):
            return NotImplemented
        multiple = core("multiple", self.dtype.name)(self._handle, self._factor(alpha))
        return self._composed("product", multiple, self._handle)

    __rmul__ = __mul__

    def __neg__(self) -> Any:
        return self * -1

    def __add__(self, other: Any) -> Any:
        return self._sum(other, 1)

    def __sub__(self, other: Any) -> Any:
        return self._sum(other, -1)

    def _sum(self, other: Any, beta: int) -> Any:
        if not isinstance(other, Operator):
            return NotImplemented
        self._fits(other)
        return self._composed("sum", 1, self._handle, beta, other._handle)

    def diagonal(self) -> Array:
        """The diagonal, whole, on every rank. Collective."""
        return layout.gather(agreed(self.comm, self._handle.diagonal), self.comm)

    def aslinearoperator(self) -> Any:
        """This operator as a scipy.sparse.linalg.LinearOperator; on several ranks its calls are collective."""
        from scipy.sparse.linalg import LinearOperator

        return LinearOperator(
            self.shape,
            matvec=self.matvec,
            rmatvec=self.rmatvec,
            matmat=self.matmat,
            rmatmat=self.rmatmat,
            dtype=self.dtype,
        )

    def is_hermitian(self) -> bool:
        """Whether A equals its conjugate transpose to rounding, as far as the operator knows its entries.
        Collective.
        """
        return False


class Csr(Operator):
    """A sparse matrix whose rows are spread over ranks in blocks.

    Attributes
    ----------
    nnz : int
        Stored entries over all ranks.
    storage : str
        How this rank's square part is kept, as "sell-8 (16-bit offsets)".
    """

    __slots__ = ()

    @property
    def nnz(self) -> int:
        return int(self._handle.entries)

    @property
    def storage(self) -> str:
        return str(self._handle.storage)

    def is_hermitian(self) -> bool:
        if self._hermitian is None:
            self._hermitian = bool(self._handle.is_hermitian())
        return self._hermitian

    def local_rows(self) -> tuple[Array, Array, Array]:
        """This rank's rows: (starts, global columns, values), columns ascending. Local; memory of the rows."""
        start, column, value = self._handle.local_rows()
        return start, column, value

    def to_scipy(self) -> Any:
        """The whole matrix as a scipy.sparse.csr_array, on every rank. Collective; the memory of all of it."""
        from scipy.sparse import csr_array

        start, column, value = self._whole()
        return csr_array((value, column, start), shape=self.shape)

    def _whole(self) -> tuple[Array, Array, Array]:
        start, column, value = self.local_rows()
        counts = layout.gather(np.diff(start), self.comm)
        return (
            np.concatenate([[0], np.cumsum(counts)]),
            layout.gather(column, self.comm),
            layout.gather(value, self.comm),
        )

    def astype(self, scalar: npt.DTypeLike) -> Csr:
        """This matrix with values of another scalar type. Collective."""
        name = chosen_scalar(scalar)
        if name is None or name == self.dtype.name:
            return self
        start, column, value = self.local_rows()
        value = agreed(self.comm, lambda: to_scalar(value, name, "the matrix"))
        handle = self._handle
        made = core("csr", name)(
            self.comm, handle.range_offsets, handle.domain_offsets, self.own_range[0], start, column, value
        )
        return Csr(made, self.comm, name)


class Stencil(Operator):
    """A matrix with constant coefficients on a regular grid, applied without being stored. See
    :func:`tacit.stencil`.
    """

    __slots__ = ("grid",)

    def __init__(self, handle: Any, comm: _core.Communicator, dtype: npt.DTypeLike, grid: Sequence[int]) -> None:
        super().__init__(handle, comm, dtype)
        self.grid = tuple(grid)  #: points along each axis

    @property
    def nnz(self) -> int:
        """Entries that the stored matrix would have."""
        return int(self._handle.entries)

    @property
    def storage(self) -> str:
        return "stencil"

    def is_hermitian(self) -> bool:
        if self._hermitian is None:
            self._hermitian = bool(self._handle.is_hermitian())
        return self._hermitian

    def assemble(self) -> Csr:
        """The same matrix, stored. Collective."""
        return Csr(self._handle.assemble(), self.comm, self.dtype)

    def to_scipy(self) -> Any:
        """The whole matrix as a scipy.sparse.csr_array, on every rank. Collective; the memory of all of it."""
        return self.assemble().to_scipy()


class HMatrix(Operator):
    """A dense matrix in hierarchical form. See :func:`tacit.hmatrix`."""

    __slots__ = ("symmetry", "tolerance")

    def __init__(
        self,
        handle: Any,
        comm: _core.Communicator,
        dtype: npt.DTypeLike,
        tolerance: float,
        symmetry: str = "none",
    ) -> None:
        super().__init__(handle, comm, dtype)
        self.tolerance = tolerance  #: the relative error that was asked for
        self.symmetry = symmetry  #: "none", "symmetric" or "hermitian", as it was made

    def is_hermitian(self) -> bool:
        return self.symmetry == "hermitian" or (self.symmetry == "symmetric" and self.dtype.kind != "c")

    def use_batches(
        self,
        order: str = "grouped",
        cut: str = "ranges",
        count: int = 20000,
        ranges: Sequence[int] = (8, 32),
        padded: bool = False,
        queues: int = 1,
    ) -> dict[str, Any]:
        """Products (not adjoint ones) from now on by batches of small matrix-vector products, as GPU libraries do
        them: the variants of Yamazaki et al. (2018), to compare with. The same numbers to rounding.

        Parameters
        ----------
        order : str
            Of the tasks of a list: "none", "rows" (ascending), "grouped" (rows in groups of 8, then columns) or
            "columns" (where they begin).
        cut : str
            "count": a batch has `count` tasks; "ranges": also rows of one range.
        ranges : sequence of int
            The least rows of each range but the first.
        padded : bool
            All tasks of a batch as large as its largest.
        queues : int
            Batches go round over so many threads. With several, parts of y are added atomically: the order, and the
            last bits, change.

        Returns
        -------
        dict
            Of this rank: ``tasks``, ``bytes``, ``padded_bytes``, and ``batches``, each with its ``list`` (0: dense
            blocks and factors V; 1: factors U), ``tasks``, ``rows`` and ``columns`` (least, most), ``numbers``,
            ``stored`` (with padding), ``thread_blocks`` (with work, started; 32 rows each) and ``seconds`` in the last
            product: ``A.batches`` afterwards. Local; a copy of the matrix.

        Examples
        --------
        >>> import numpy as np, tacit
        >>> x = np.linspace(0, 1, 500)
        >>> A = tacit.hmatrix(x, lambda i, j: 1 / (0.01 + np.abs(x[i, None] - x[None, j])))
        >>> y = A @ x
        >>> plan = A.use_batches(order="rows", padded=True)
        >>> bool(np.allclose(A @ x, y)), plan["padded_bytes"] >= plan["bytes"]
        (True, True)
        """
        self._handle.use_batches(
            choose("order", order, ("none", "rows", "grouped", "columns")),
            choose("cut", cut, ("count", "ranges")) == "ranges",
            whole_number(count, "count"),
            [whole_number(r, "ranges") for r in ranges],
            bool(padded),
            whole_number(queues, "queues"),
        )
        plan = self.batches
        assert plan is not None
        return plan

    def use_own_product(self) -> None:
        """The operator's own product again. Local."""
        self._handle.use_own_product()

    @property
    def batches(self) -> dict[str, Any] | None:
        """The plan of :meth:`use_batches` with the seconds of its last product; None without. Local."""
        plan = self._handle.batches
        return None if plan is None else dict(plan)

    def coarse(self, rank: int | None = 1, tolerance: float = 1e-2) -> HMatrix:
        """A coarse copy to precondition with: the same blocks, those of low rank cut. No entry is asked for again.

        Parameters
        ----------
        rank : int or None
            Low-rank blocks keep at most so many terms; None: any number.
        tolerance : float
            They keep what is above this part of their norm.

        Returns
        -------
        HMatrix
            Its report's ``measured_error`` is 0: nothing was measured. Collective.

        Examples
        --------
        >>> import numpy as np, tacit
        >>> x = np.linspace(0, 1, 1000)
        >>> A = tacit.hmatrix(x, lambda i, j: 1 / (0.01 + np.abs(x[i, None] - x[None, j])))
        >>> A.coarse().report["max_rank"]
        1
        """

        def look() -> tuple[int, float]:
            most = 0 if rank is None else whole_number(rank, "rank")
            if rank is not None and most < 1:
                raise ValueError(f"rank is {rank}; a positive number is needed")
            return most, real_number(tolerance, "tolerance")

        most, kept = agreed(self.comm, look)
        handle = core("coarse_hmatrix", self.dtype.name)(self._handle, most, kept)
        return HMatrix(handle, self.comm, self.dtype, kept, self.symmetry)

    @property
    def report(self) -> dict[str, Any]:
        """What the matrix turned out to be, over all ranks. Local.

        ``bytes`` of stored numbers (``bytes_float64``, ``bytes_float32``, ``bytes_int16`` of these, ``index_bytes``
        beside them), ``dense_fraction`` of the bytes of the full matrix; ``dense_blocks``, ``low_rank_blocks``,
        ``ranks`` (how many low-rank blocks have rank 0, 1, ...), ``mean_rank``, ``max_rank``; ``entries_evaluated``,
        over all there are; ``norm`` (Frobenius); ``estimated_error`` and ``measured_error`` (on sampled rows, with a
        random vector; ``measured_error_ones`` with ones), relative; ``seconds``; ``least_bytes`` and ``most_bytes`` of
        a rank; ``warnings``.
        """
        return dict(self._handle.report)

    @property
    def storage(self) -> str:
        report = self.report
        kinds = [k for k in ("float64", "float32", "int16") if report[f"bytes_{k}"] > 0]
        return f"hierarchical ({', '.join(kinds) or 'empty'})"


# --- making operators -------------------------------------------------------------------------------------------------


class TiledSpmm(Operator):
    """A sparse matrix stored for products with many columns, and its transpose beside it; see :func:`tiled`."""

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
        """Of this rank's part of A and A^T."""
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
) -> dict[str, Any]:
    """The options of a tiled matrix as the compiled part takes them."""
    return {
        "values": choose("values", values, ("full", "float32", "float16", "bfloat16")),
        "vectors": choose("vectors", vectors, ("full", "float16", "bfloat16")),
        "order": order,
        "cluster_rows": int(cluster_rows),
        "format": choose("format", format, ("automatic", "list", "bitmap", "plain")),
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
        column scaled by a power of two of its own, and sum in float32.
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


def _is_sparse(a: Any) -> bool:
    return hasattr(a, "tocsr") and hasattr(a, "format") and hasattr(a, "shape")


def _shape_of(a: Any, what: str) -> tuple[int, int]:
    try:
        rows, columns = (int(n) for n in a.shape)
    except (TypeError, ValueError):
        raise ValueError(f"{what} has shape {getattr(a, 'shape', None)!r}; a matrix has two dimensions") from None
    if rows < 0 or columns < 0:
        raise ValueError(f"{what} has shape {(rows, columns)}")
    return rows, columns


def scalar_of(a: Any, what: str) -> str | None:
    """The scalar that `a` brings along; None where it does not say."""
    dtype = getattr(a, "dtype", None)
    if dtype is None:
        return None
    try:
        return scalar_name(dtype, what)
    except TypeError:
        # Another library's name of a type (torch.float64): NumPy's view of the array knows.
        return (
            scalar_name(as_array(a, what).dtype, what) if hasattr(a, "__dlpack__") or hasattr(a, "__array__") else None
        )


def _compressed(a: Any, what: str) -> tuple[tuple[int, int], Array, Array, Array]:
    """(shape, starts, columns, values) of a SciPy sparse or dense matrix; the arrays of a csr matrix itself,
    uncopied.
    """
    if _is_sparse(a):
        shape = _shape_of(a, what)
        a = a.tocsr()
        start, column, value = a.indptr, a.indices, a.data
        if start.dtype != column.dtype or start.dtype not in (np.int32, np.int64):
            start, column = start.astype(np.int64), column.astype(np.int64)
        return shape, np.ascontiguousarray(start), np.ascontiguousarray(column), value
    dense = as_array(a, what)
    shape = _shape_of(dense, what)
    row, column = np.nonzero(dense)
    start = np.zeros(shape[0] + 1, np.int64)
    np.cumsum(np.bincount(row, minlength=shape[0]), out=start[1:])
    return shape, start, np.ascontiguousarray(column, dtype=np.int64), dense[row, column]


def _is_matrix(a: Any) -> bool:
    return (
        _is_sparse(a)
        or isinstance(a, (np.ndarray, list, tuple))
        or (not hasattr(a, "matvec") and (hasattr(a, "__dlpack__") or hasattr(a, "__array__")))
    )


def _user_product(call: Callable[[Any], Any], what: str, scalar: str, size: int) -> Callable[[Array], Array]:
    def product(x: Array) -> Array:
        y = as_array(call(x), f"the result of {what}")
        if y.size != size:
            raise ValueError(f"{what} gave an array of shape {y.shape}; {size} elements are needed")
        return to_scalar(y.reshape(-1), scalar, f"the result of {what}")

    return product


def as_operator(
    a: Any,
    comm: Any = None,
    scalar: npt.DTypeLike | None = None,
    *,
    what: str = "A",
    offsets: Sequence[int] | None = None,
) -> Operator:
    """An operator from whatever stands for a matrix: an operator of Tacit, a SciPy sparse matrix of any format, a
    dense array, or anything with ``shape`` that has ``matvec`` or can be called.

    Parameters
    ----------
    a : object
        On several ranks the same on every rank; the rows that a rank owns are taken from it. Something with
        ``matvec`` maps whole vectors, which are gathered for it.
    comm : communicator, optional
    scalar : dtype, optional
        Default: that of `a`; integers and booleans become float64.
    what : str
        How errors call it.
    offsets : sequence of int, optional
        Rank r owns rows ``offsets[r] <= i < offsets[r + 1]``; default: equal blocks.

    Returns
    -------
    Operator
        Collective. An operator of Tacit with this scalar is returned as it is.
    """
    if isinstance(a, Operator):
        if comm is not None and _comm.resolve(comm) != a.comm:
            raise ValueError(f"{what} lives on another communicator than the one given as comm=")
        return a if scalar is None else _converted(a, scalar, what)
    on = _comm.resolve(comm)
    name = chosen_scalar(scalar)

    def look() -> Any:
        if _is_matrix(a):
            shape, start, column, value = _compressed(a, what)
            chosen = name or scalar_name(value.dtype, what)
            return shape, chosen, start, column, value
        call = getattr(a, "matvec", None) or (a if callable(a) else None)
        if call is None and hasattr(a, "shape") and hasattr(a, "__matmul__"):
            call = a.__matmul__
        if call is None or not hasattr(a, "shape"):
            raise TypeError(f"{what} is a {type(a).__name__}; a matrix, or something with shape and matvec, is needed")
        return _shape_of(a, what), name or scalar_of(a, what) or "float64", call, getattr(a, "rmatvec", None)

    found = agreed(on, look)
    rows, columns = found[0]
    chosen = name or one_for_all(on, found[0], found[1], what)
    by_row = list(offsets) if offsets is not None and offsets[-1] == rows else layout.blocks(rows, on.size)
    by_column = by_row if columns == rows else layout.blocks(columns, on.size)
    if len(found) == 5:
        start, column, value = found[2], found[3], agreed(on, lambda: to_scalar(found[4], chosen, what))
        return Csr(core("csr", chosen)(on, by_row, by_column, 0, start, column, value), on, chosen)
    call, adjoint = found[2:]
    label = type(a).__name__ if hasattr(a, "matvec") else getattr(a, "__name__", type(a).__name__)
    product = _user_product(call, f"{what}'s product", chosen, rows)
    back = None if adjoint is None else _user_product(adjoint, f"{what}'s adjoint product", chosen, columns)
    return Operator(core("function", chosen)(on, by_row, by_column, label, product, back, True), on, chosen)


def _converted(a: Operator, scalar: npt.DTypeLike, what: str) -> Operator:
    name = chosen_scalar(scalar)
    if name is None or name == a.dtype.name:
        return a
    if isinstance(a, Csr):
        return a.astype(name)
    if isinstance(a, Stencil) and a.dtype.kind == "f":
        return a.assemble().astype(name)
    raise TypeError(f"{what} is a {a.name} operator of {a.dtype}; {name} is needed and it cannot be converted")


def stored(a: Operator, what: str) -> Csr:
    """The operator as a stored matrix, which `what` needs. Collective."""
    if isinstance(a, Stencil):
        a = a.assemble()
    if not isinstance(a, Csr):
        raise ValueError(f"{what} needs the entries of the matrix; the {a.name} operator knows products only")
    return a


def renumbered(a: Operator, graph: bool, rcm: bool) -> tuple[Csr, _core.Renumbering]:
    """The matrix with its rows spread so that ranks share few entries (`graph`), and in reverse Cuthill-McKee order
    within each rank (`rcm`); and the numbers. Collective; entries travel once or twice."""
    a = stored(a, "partition and ordering")
    on, scalar = a.comm, a.dtype.name
    numbers: _core.Renumbering | None = None
    for wanted, find in ((graph, _core.renumber_by_graph), (rcm, _core.renumber_inside)):
        if not wanted:
            continue
        start, column, _ = a.local_rows()
        step = find(on, a._handle.range_offsets, start, column)
        a = Csr(core("renumbered", scalar)(a._handle, step), on, scalar)
        numbers = step if numbers is None else numbers.then(on, step)
    assert numbers is not None
    return a, numbers


def csr(
    a: Any,
    shape: tuple[int, int] | None = None,
    *,
    own_rows: bool = False,
    comm: Any = None,
    scalar: npt.DTypeLike | None = None,
) -> Csr:
    """A sparse matrix over the ranks of a communicator.

    Parameters
    ----------
    a : matrix or tuple
        A SciPy sparse matrix or array of any format, a dense array, or ``(data, indices, indptr)`` with `shape`. The
        same on every rank, which takes its own rows.
    shape : tuple of int, optional
        With arrays only.
    own_rows : bool
        `a` holds this rank's own rows alone, with global column numbers: the matrix is those of rank 0, below them
        those of rank 1, and so on. Ranks may have different numbers of rows, and none.
    comm : communicator, optional
    scalar : dtype, optional

    Returns
    -------
    Csr
        Entries at one place are added. Collective; memory of this rank's rows.

    Raises
    ------
    ValueError, TypeError
        Arrays that are no matrix, with the row; on every rank.

    Examples
    --------
    >>> import numpy as np, tacit
    >>> A = tacit.csr(np.array([[2.0, 1.0], [0.0, 4.0]]))
    >>> A @ np.array([1.0, 1.0])
    array([3., 4.])
    >>> A.nnz, A.shape
    (3, (2, 2))
    """
    arrays = isinstance(a, tuple) and len(a) == 3
    if not arrays and not own_rows:
        made = as_operator(a, comm, scalar)
        if not isinstance(made, Csr):
            raise TypeError(f"csr takes a matrix; {type(a).__name__} is known by its products only")
        return made
    on = _comm.resolve(comm)
    wanted = chosen_scalar(scalar)

    def look() -> tuple[tuple[int, int], str, Array, Array, Array]:
        if arrays:
            found = _given_arrays(a, shape)
        elif _is_matrix(a):
            found = _compressed(a, "the matrix")
        else:
            raise TypeError(f"own_rows=True takes a matrix; {type(a).__name__} is none")
        size, start, column, value = found
        return size, wanted or scalar_name(value.dtype, "the matrix"), start, column, value

    (rows, columns), chosen, start, column, given = agreed(on, look)
    if own_rows:
        by_row, chosen = _stacked(on, rows, columns, chosen)
    else:
        chosen = one_for_all(on, (rows, columns), chosen, "the matrix")
        by_row = layout.blocks(rows, on.size)
    by_column = by_row if by_row[-1] == columns else layout.blocks(columns, on.size)
    value = agreed(on, lambda: to_scalar(given, chosen, "data"))
    first = by_row[on.rank] if own_rows else 0
    return Csr(core("csr", chosen)(on, by_row, by_column, first, start, column, value), on, chosen)


def _given_arrays(
    a: tuple[Any, Any, Any], shape: tuple[int, int] | None
) -> tuple[tuple[int, int], Array, Array, Array]:
    """(shape, starts, columns, values) of (data, indices, indptr)."""
    if shape is None:
        raise TypeError("csr of (data, indices, indptr) needs the shape of the matrix")
    names = ("data", "indices", "indptr")
    value, column, start = (as_array(part, name) for part, name in zip(a, names, strict=True))
    for array, name in ((value, "data"), (column, "indices"), (start, "indptr")):
        if array.ndim != 1 or (name != "data" and array.dtype.kind not in "iu"):
            raise ValueError(f"{name} has shape {array.shape} and type {array.dtype}")
    rows, columns = int(shape[0]), int(shape[1])
    if len(start) != rows + 1:
        raise ValueError(f"indptr has {len(start)} numbers; {rows + 1} are needed for {rows} rows")
    wide = np.int32 if column.dtype == start.dtype == np.int32 else np.int64
    return (rows, columns), np.ascontiguousarray(start, wide), np.ascontiguousarray(column, wide), value


def _stacked(on: _core.Communicator, rows: int, columns: int, scalar: str) -> tuple[list[int], str]:
    """Where each rank's rows begin when they lie below each other, and the scalar for all. Collective."""
    told = [part.decode().split() for part in on.all_gather(f"{rows} {columns} {scalar}".encode())]
    for rank, (_, width, _) in enumerate(told):
        if int(width) != int(told[0][1]):
            raise ValueError(
                f"the rows of rank 0 have {told[0][1]} columns and those of rank {rank} {width}; all need the columns"
                " of the whole matrix"
            )
    begin = [0]
    for count, _, _ in told:
        begin.append(begin[-1] + int(count))
    return begin, common_scalar(*(part[2] for part in told))


def function(
    shape: tuple[int, int],
    matvec: Callable[[Array], Any],
    *,
    rmatvec: Callable[[Array], Any] | None = None,
    dtype: npt.DTypeLike = np.float64,
    comm: Any = None,
    local: bool = False,
    offsets: Sequence[int] | None = None,
    name: str = "function",
) -> Operator:
    """An operator that is a Python function.

    Parameters
    ----------
    shape : tuple of int
    matvec, rmatvec : callable
        The product with A, and with its conjugate transpose; from an array of one dimension to one.
    dtype : dtype
        float32, float64, complex64 or complex128.
    comm : communicator, optional
    local : bool
        False: the function maps whole vectors, which are gathered for it on every rank. True: it maps this rank's
        part to this rank's part, and what it exchanges with other ranks is its own affair.
    offsets : sequence of int, optional
        Rank r owns ``offsets[r] <= i < offsets[r + 1]``; default: equal blocks.
    name : str

    Returns
    -------
    Operator
        An exception that a function raises on one rank arrives on all of them.

    Examples
    --------
    >>> import numpy as np, tacit
    >>> A = tacit.function((3, 3), lambda x: 2 * x)
    >>> A @ np.ones(3)
    array([2., 2., 2.])
    """
    on = _comm.resolve(comm)

    def look() -> tuple[str, list[int], list[int], int, int]:
        if not callable(matvec) or (rmatvec is not None and not callable(rmatvec)):
            raise TypeError("matvec and rmatvec are functions of one array")
        rows, columns = int(shape[0]), int(shape[1])
        by_row = list(offsets) if offsets is not None else layout.blocks(rows, on.size)
        if len(by_row) != on.size + 1 or by_row[-1] != rows:
            raise ValueError(f"offsets are {by_row}; {on.size + 1} numbers from 0 to {rows} are needed")
        by_column = by_row if rows == columns else layout.blocks(columns, on.size)
        r = on.rank
        sizes = (by_row[r + 1] - by_row[r], by_column[r + 1] - by_column[r]) if local else (rows, columns)
        return chosen_scalar(dtype) or "float64", by_row, by_column, *sizes

    scalar, by_row, by_column, to, back = agreed(on, look)
    forward = _user_product(matvec, f"the product of {name}", scalar, to)
    adjoint = None if rmatvec is None else _user_product(rmatvec, f"the adjoint product of {name}", scalar, back)
    return Operator(core("function", scalar)(on, by_row, by_column, name, forward, adjoint, not local), on, scalar)


def _places(value: Any, what: str) -> Array:
    """Points of 1 to 3 coordinates as rows of three."""
    points = as_array(value, what)
    if points.ndim == 1:
        points = points[:, None]
    if points.ndim != 2 or not 1 <= points.shape[1] <= 3 or not len(points):
        raise ValueError(f"{what} has shape {points.shape}; (n, d) with d = 1, 2 or 3 is needed")
    if points.dtype.kind == "c":
        raise TypeError(f"{what} is complex; coordinates are real")
    whole = np.zeros((len(points), 3))
    whole[:, : points.shape[1]] = points
    return whole


def _extents(value: Any, what: str, points: Array) -> Array:
    """Boxes (n, 2, d) as rows of six; none as an empty array."""
    if value is None:
        return np.zeros((0, 6))
    boxes = as_array(value, what)
    if boxes.ndim != 3 or boxes.shape[:2] != (len(points), 2) or not 1 <= boxes.shape[2] <= 3:
        raise ValueError(f"{what} has shape {boxes.shape}; ({len(points)}, 2, d), low and high corners, is needed")
    whole = np.zeros((len(points), 2, 3))
    whole[:, :, : boxes.shape[2]] = boxes
    return whole.reshape(-1, 6)


def hmatrix(
    points: Any,
    entries: Callable[[Array, Array], Any],
    *,
    tolerance: float = 1e-4,
    sources: Any = None,
    boxes: Any = None,
    source_boxes: Any = None,
    measure: str = "matrix",
    storage: str = "automatic",
    compression: str = "aca+",
    admissibility: str = "smaller",
    eta: float = 3.0,
    leaf_size: int = 64,
    bisection: str = "median",
    recompress: bool = True,
    verify: bool = True,
    max_rank: int | None = None,
    cut_rank: int | None = None,
    symmetry: str = "none",
    sampled_rows: int = 32,
    dtype: npt.DTypeLike | None = None,
    comm: Any = None,
) -> HMatrix:
    """A dense matrix given by its entries, in O(n log n) memory: blocks whose points are far apart become products of
    low rank (an H-matrix).

    Parameters
    ----------
    points : array_like, (m, d)
        Where each row's target is, d = 1, 2 or 3. The same on every rank.
    entries : callable
        ``entries(i, j)``, arrays of row and of column numbers, gives the array A[i][:, j] of shape
        ``(len(i), len(j))``. It has to be smooth where points are far from each other.
    tolerance : float
        Relative error of the matrix, in the Frobenius norm.
    sources : array_like, (n, d), optional
        Where each column's source is; default: `points`.
    boxes, source_boxes : array_like, (m, 2, d) and (n, 2, d), optional
        Low and high corners around the elements that rows and columns stand for, where these have an extent.
    measure : str
        "matrix": the error of the whole matrix; "block": of every block by itself, which is stricter.
    storage : str
        "automatic" (the lowest of float64, float32, 16 bits that keeps the tolerance, block by block and column by
        column), "single" (without 16 bits) or "full".
    compression : str
        "aca+", "aca" (crosses) or "svd" (all entries).
    admissibility : str
        Blocks are far where the "smaller" or the "larger" diameter is at most `eta` times the distance; "weak":
        where they do not overlap; "none": nowhere.
    eta : float
    leaf_size : int
        Points in a cluster that is not cut any more.
    bisection : str
        "median" or "midpoint".
    recompress, verify : bool
        Singular values of each low-rank block; a look at rows and columns that the crosses left out.
    max_rank : int, optional
        Blocks that need more stay dense.
    cut_rank : int, optional
        Low-rank blocks are cut to this rank, whatever the error: a matrix to precondition with, made quickly. (From a
        finer matrix: :meth:`HMatrix.coarse`.)
    symmetry : str
        "symmetric" (A = A^T) or "hermitian": blocks above the diagonal are neither evaluated nor kept, which halves
        assembly and memory; the sampled rows are compared with their columns. `sources` must be left out. "none".
    sampled_rows : int
        By which the norm is estimated and the error measured.
    dtype : dtype, optional
        Default: that of what `entries` gives.
    comm : communicator, optional
        Rows are compressed on its ranks, in parts of equal bytes; vectors are spread in equal blocks.

    Returns
    -------
    HMatrix
        With ``report``. Collective; an exception that `entries` raises on one rank arrives on all of them.

    Raises
    ------
    tacit.InputError
        For an entry that is not finite, with its row and column.
    ValueError, TypeError
        For an option that is not what it has to be; when options, dtype or places are not the same on all ranks; for
        a symmetry that the matrix does not have.

    Warns
    -----
    RuntimeWarning
        On rank 0, when the error measured on sampled rows is above three tolerances; ``report["warnings"]`` on all.
        It is first tried to mend that: blocks are made again and looked at in more places, which takes longer.

    Examples
    --------
    >>> import numpy as np, tacit
    >>> x = np.linspace(0, 1, 1000)
    >>> A = tacit.hmatrix(x, lambda i, j: np.exp(-np.abs(x[i, None] - x[None, j])), tolerance=1e-6)
    >>> A.report["measured_error"] < 1e-6
    True
    >>> A.report["dense_fraction"] < 0.1
    True
    """
    on = _comm.resolve(comm)

    def look() -> tuple[list[Array], str, dict[str, Any]]:
        if not callable(entries):
            raise TypeError("entries is a function of row and column numbers")
        rows = _places(points, "points")
        columns = np.zeros((0, 3)) if sources is None else _places(sources, "sources")
        if sources is None and source_boxes is not None:
            raise ValueError("source_boxes without sources; boxes are those of both")
        places = [rows, _extents(boxes, "boxes", rows), columns, _extents(source_boxes, "source_boxes", columns)]
        scalar = chosen_scalar(dtype) or scalar_name(
            as_array(entries(np.zeros(1, np.int64), np.zeros(1, np.int64)), "the result of entries").dtype,
            "the result of entries",
        )
        options = {
            "tolerance": real_number(tolerance, "tolerance"),
            "measure": choose("measure", measure, ("matrix", "block")),
            "storage": choose("storage", storage, ("automatic", "single", "full")),
            "compression": choose("compression", compression, ("aca+", "aca", "svd")),
            "admissibility": choose("admissibility", admissibility, ("smaller", "larger", "weak", "none")),
            "bisection": choose("bisection", bisection, ("median", "midpoint")),
            "eta": real_number(eta, "eta"),
            "leaf_size": whole_number(leaf_size, "leaf_size"),
            "recompress": bool(recompress),
            "verify": bool(verify),
            "max_rank": 0 if max_rank is None else whole_number(max_rank, "max_rank"),
            "cut_rank": 0 if cut_rank is None else whole_number(cut_rank, "cut_rank"),
            "symmetry": choose("symmetry", symmetry, ("none", "symmetric", "hermitian")),
            "sampled_rows": whole_number(sampled_rows, "sampled_rows"),
        }
        for name, given in (("max_rank", max_rank), ("cut_rank", cut_rank)):
            if given is not None and given < 1:
                raise ValueError(f"{name} is {given}; a positive number is needed")
        if symmetry != "none" and sources is not None:
            raise ValueError(f"symmetry={symmetry!r} with sources; rows and columns must be the same points")
        return places, scalar, options

    places, scalar, options = agreed(on, look)
    if on.size > 1:
        # The trees, and with them all messages, follow from these; numbers are those of rank 0.
        told = {"dtype": scalar, **{k: v if isinstance(v, (int, float)) else str(v) for k, v in options.items()}}
        for name, array in zip(("points", "boxes", "sources", "source_boxes"), places, strict=True):
            told[name] = f"an array of {len(array)} rows with the checksum {zlib.crc32(array.tobytes()):08x}"
        all_told = [json.loads(part) for part in on.all_gather(json.dumps(told).encode())]
        refuse_differences(all_told)
        options = {k: all_told[0][k] if isinstance(v, float) else v for k, v in options.items()}

    def by_columns(i: Array, j: Array) -> Array:
        block = as_array(entries(i, j), "the result of entries")
        if block.shape != (len(i), len(j)):
            raise ValueError(f"entries gave an array of shape {block.shape} where {(len(i), len(j))} is needed")
        return to_scalar(block.T, scalar, "the result of entries").reshape(-1)

    A = HMatrix(
        core("hmatrix", scalar)(on, *places, by_columns, options), on, scalar, options["tolerance"], options["symmetry"]
    )
    if on.rank == 0:
        for text in A.report["warnings"]:
            warnings.warn(text, RuntimeWarning, stacklevel=2)
    return A


def read(path: str | os.PathLike[str], comm: Any = None, scalar: npt.DTypeLike | None = None) -> Csr:
    """A matrix from a Matrix Market (.mtx, .mtx.gz), PETSc binary or .npz file (scipy.sparse.save_npz), by its content.

    Parameters
    ----------
    path : path-like
        Seen by every rank.
    comm : communicator, optional
    scalar : dtype, optional
        float32, float64, complex64 or complex128; default float64, or complex128 for a complex file.

    Returns
    -------
    Csr
        Rows in equal blocks; symmetric files are expanded and entries at one place added. Collective: every rank parses
        its share of the file, and entries travel to the owners of their rows.

    Raises
    ------
    FileNotFoundError, ValueError
        On every rank, with the file and the line (or byte).

    Examples
    --------
    >>> import os, tempfile, tacit
    >>> path = os.path.join(tempfile.mkdtemp(), "a.mtx")
    >>> tacit.write(path, tacit.poisson(4))
    >>> tacit.read(path).nnz
    10
    """
    on = _comm.resolve(comm)

    def share() -> tuple[str, int, int, io.Share]:
        wanted = chosen_scalar(scalar)
        if wanted is None:
            # Files of one precision lower are still computed with in double: float64 is the default.
            wanted = "complex128" if io.header(path).scalar.startswith("complex") else "float64"
        return wanted, *io.read_share(path, wanted, on.rank, on.size)

    wanted, rows, columns, mine = agreed(on, share)
    total = on.all_sum(mine.parsed)
    agreed(on, lambda: io.check_count(path, total))
    by_row = layout.blocks(rows, on.size)
    by_column = by_row if rows == columns else layout.blocks(columns, on.size)
    return Csr(core("assemble", wanted)(on, by_row, by_column, mine.row, mine.column, mine.value), on, wanted)


def write(path: str | os.PathLike[str], a: Any) -> None:
    """Writes a matrix or a vector; the ending of `path` says how: .mtx, .mtx.gz, .npz, .npy (vectors), .petsc, .dat,
    .bin.

    Parameters
    ----------
    path : path-like
    a : Csr, Stencil, SciPy sparse matrix, ndarray
        An array of one dimension (or n x k) is written as a vector (or dense block).

    Notes
    -----
    With an operator on several ranks collective: the matrix is gathered and rank 0 writes. Otherwise local. The file
    appears complete or not at all.

    Examples
    --------
    >>> import os, tempfile, tacit
    >>> path = os.path.join(tempfile.mkdtemp(), "a.npz")
    >>> tacit.write(path, tacit.poisson((3, 3)))
    >>> tacit.read(path).shape
    (9, 9)
    """
    if isinstance(a, Stencil):
        a = a.assemble()
    if isinstance(a, Csr):
        start, column, value = a._whole()

        def one() -> None:
            if a.comm.rank == 0:
                io.write_entries(path, a.shape, start, column, value)

        agreed(a.comm, one)
    elif _is_sparse(a):
        shape, start, column, value = _compressed(a, "the matrix")
        scalar = scalar_name(value.dtype, "the matrix")
        a = a.tocsr(copy=True)
        a.sum_duplicates()
        io.write_entries(path, shape, a.indptr, a.indices, to_scalar(a.data, scalar, "the matrix"))
    elif isinstance(a, Operator):
        raise TypeError(f"a {type(a).__name__} operator has no entries to write")
    else:
        io.write_vector(path, a)


# --- regular grids ----------------------------------------------------------------------------------------------------

_BOUNDARIES = ("dirichlet", "neumann", "periodic")


def _per_axis(value: Any, d: int, what: str) -> list[Any]:
    values = list(value) if isinstance(value, (list, tuple, np.ndarray)) else [value] * d
    if len(values) != d:
        raise ValueError(f"{what} has {len(values)} values; one, or {d} for a grid of {d} dimensions, are needed")
    return values


def _grid(shape: Any, boundary: Any) -> tuple[list[int], list[str]]:
    """The axes of a NumPy-like shape, fastest first, as the compiled part numbers them."""
    points = [int(n) for n in (shape if isinstance(shape, (list, tuple, np.ndarray)) else [shape])]
    if not 1 <= len(points) <= 3 or min(points) < 1:
        raise ValueError(f"shape is {tuple(points)}; 1 to 3 axes of at least one point are needed")
    kinds = [choose("boundary", k, _BOUNDARIES) for k in _per_axis(boundary, len(points), "boundary")]
    return points[::-1], kinds[::-1]


def stencil(
    shape: int | Sequence[int],
    weights: Any,
    *,
    boundary: str | Sequence[str] = "dirichlet",
    comm: Any = None,
    scalar: npt.DTypeLike | None = None,
) -> Stencil:
    """A matrix with the same coefficients in every row, on a regular grid of 1 to 3 dimensions; applied, not stored.

    Parameters
    ----------
    shape : int or sequence of int
        Points along each axis. Unknowns are numbered as NumPy stores an array of this shape (the last axis fastest).
    weights : array_like
        Shape (3,) * d: ``weights[1 + i, 1 + j]`` multiplies the neighbour at (i, j). Or d + 1 numbers at most: the
        point itself, its neighbours along one axis, those off along two, off along three.
    boundary : str or sequence of str
        What stands for neighbours outside: "dirichlet" (zero), "neumann" (the nearest point inside) or "periodic";
        one, or one for each axis.
    comm : communicator, optional
        Whole slabs of the first axis are spread over its ranks.
    scalar : dtype, optional
        Default: that of `weights`.

    Returns
    -------
    Stencil
        Collective; no memory but the halo.

    Examples
    --------
    >>> import numpy as np, tacit
    >>> A = tacit.stencil(4, [2.0, -1.0])
    >>> A.to_scipy().toarray()
    array([[ 2., -1.,  0.,  0.],
           [-1.,  2., -1.,  0.],
           [ 0., -1.,  2., -1.],
           [ 0.,  0., -1.,  2.]])
    """
    on = _comm.resolve(comm)

    def look() -> tuple[list[int], list[str], str, Array]:
        points, kinds = _grid(shape, boundary)
        d = len(points)
        given = as_array(weights, "weights")
        chosen = chosen_scalar(scalar) or scalar_name(given.dtype, "weights")
        given = to_scalar(given, chosen, "weights")
        table = np.zeros((3, 3, 3), chosen)  # [dz, dy, dx]: the last axis of the array is the fastest
        place = (1,) * (3 - d)
        if given.ndim == 1 and d == 1 and given.shape == (3,):
            table[place] = given
        elif given.ndim == 1 and 1 <= len(given) <= d + 1:
            distance = np.abs(np.indices((3,) * d) - 1).sum(axis=0)
            table[place] = np.append(given, np.zeros(d + 1 - len(given), chosen))[distance]
        elif given.shape == (3,) * d:
            table[place] = given
        else:
            raise ValueError(f"weights have shape {given.shape}; {(3,) * d}, or 1 to {d + 1} numbers, are needed")
        return points, kinds, chosen, table.ravel()

    points, kinds, chosen, table = agreed(on, look)
    return Stencil(core("stencil", chosen)(on, points, kinds, table), on, chosen, points[::-1])


def poisson(
    shape: int | Sequence[int],
    *,
    spacing: float | Sequence[float] = 1.0,
    boundary: str | Sequence[str] = "dirichlet",
    shift: complex = 0.0,
    velocity: float | Sequence[float] | None = None,
    convection: str = "upwind",
    isotropic: bool = False,
    assembled: bool = False,
    comm: Any = None,
    scalar: npt.DTypeLike = np.float64,
) -> Operator:
    """-Laplace u + velocity . grad u + shift u on a regular grid, by finite differences: the standard test problem.

    Parameters
    ----------
    shape : int or sequence of int
        Points along each of 1 to 3 axes, numbered as NumPy stores an array of this shape.
    spacing : float or sequence of float
        Distance of points; one, or one for each axis.
    boundary : str or sequence of str
        "dirichlet", "neumann" or "periodic".
    shift : number
        Added to the diagonal; minus a squared wave number makes it Helmholtz.
    velocity : float or sequence of float, optional
        Of a flow: the matrix is then unsymmetric.
    convection : str
        "upwind" or "central" differences for it.
    isotropic : bool
        9 or 27 points instead of 5 or 7 (one spacing for all axes).
    assembled : bool
        True: a stored matrix (:class:`tacit.Csr`), which preconditioners need; False: a matrix-free
        :class:`tacit.Stencil`.
    comm : communicator, optional
        Whole slabs of the first axis are spread over its ranks.
    scalar : dtype, optional

    Returns
    -------
    Stencil or Csr
        Collective.

    Examples
    --------
    >>> import numpy as np, tacit
    >>> A = tacit.poisson((50, 50))
    >>> result = tacit.solve(A, np.ones(2500))
    >>> result.converged
    True
    """
    on = _comm.resolve(comm)

    def look() -> tuple[list[int], list[str], list[float], list[float], str]:
        points, kinds = _grid(shape, boundary)
        d = len(points)
        spaces = [float(h) for h in _per_axis(spacing, d, "spacing")]
        if not all(h > 0 and math.isfinite(h) for h in spaces):
            raise ValueError(f"spacing is {spacing}; positive numbers are needed")
        if isotropic and len(set(spaces)) > 1:
            raise ValueError("isotropic needs the same spacing along all axes")
        flow = [] if velocity is None else [float(v) for v in _per_axis(velocity, d, "velocity")]
        choose("convection", convection, ("upwind", "central"))
        chosen = chosen_scalar(scalar) or "float64"
        if np.iscomplexobj(shift) and not chosen.startswith("complex"):
            chosen = common_scalar(chosen, "complex64")
        return points, kinds, spaces[::-1], flow[::-1], chosen

    points, kinds, spaces, flow, chosen = agreed(on, look)
    make = core("poisson", chosen)
    handle = make(on, points, kinds, spaces, flow, convection == "central", isotropic, np.dtype(chosen).type(shift))
    made = Stencil(handle, on, chosen, points[::-1])
    return made.assemble() if assembled else made
