"""The base class of operators, stored matrices (Csr) and stencils."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _core, layout
from .._support import Array, agreed, as_array, choose, chosen_scalar, core, refuse_unlike, to_scalar

FORMATS: list[str] = _core.choices_formats()  #: storage formats of a matrix


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
    __slots__ = ("_handle", "_hermitian", "_mirror", "comm", "dtype", "shape")

    def __init__(self, handle: Any, comm: _core.Communicator, dtype: npt.DTypeLike) -> None:
        self._handle = handle
        self._hermitian: bool | None = None
        self._mirror: Operator | None = None  # what this operator is the transpose of
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
        """Entries of the matrix over all ranks; 0 when the operator does not know their number. Local."""
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
            # The messages of the product depend on these, so all ranks must have the same.
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
        """A product, after all ranks have agreed on real or complex and on the number of columns."""
        handle, comm = self._handle, self.comm
        scalar = self.dtype.name
        offsets, back = handle.domain_offsets, handle.range_offsets
        if adjoint:
            offsets, back = back, offsets
        whole = layout.is_whole(comm, len(array), offsets, "x")
        own = to_scalar(layout.own_part(array, comm, offsets, whole), scalar, "x")
        if conjugate:
            own = own.conj()
        if own.ndim == 2 and own.shape[1] == 0:
            return np.zeros((back[-1] if whole else back[comm.rank + 1] - back[comm.rank], 0), scalar)
        y: Array = handle.apply(own, adjoint)
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
        """A x for an array x; the operator x -> A (B x) for an operator B."""
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
        """The conjugate transpose, as an operator that refers to this one. ValueError if this operator has no adjoint
        product.
        """
        return self._mirrored("adjoint")

    @property
    def T(self) -> Operator:
        """The transpose, as an operator that refers to this one. ValueError if this operator has no adjoint product."""
        return self._mirrored("transpose")

    def _mirrored(self, how: str) -> Operator:
        made = self._composed(how, self._handle)
        made._mirror = self
        return made

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
        """Whether A equals its conjugate transpose to rounding, as far as the operator knows its entries; A.T and A.H
        ask A. Collective.
        """
        return self._mirror is not None and self._mirror.is_hermitian()


class Csr(Operator):
    """A sparse matrix whose rows are spread over ranks in blocks.

    Attributes
    ----------
    nnz : int
        Stored entries over all ranks.
    format : str
        The storage format that was requested, "automatic" by default; see :func:`tacit.csr`.
    storage : str
        How this rank's entries in its own columns are stored, such as "sell-8 (16-bit offsets)".
    """

    __slots__ = ("_automatic",)

    def __init__(self, handle: Any, comm: _core.Communicator, dtype: npt.DTypeLike) -> None:
        super().__init__(handle, comm, dtype)
        # By method: what solves with preconditioners chosen by trial have learnt (include/tacit/precond/automatic.hpp).
        self._automatic: dict[str, Any] = {}

    def automatic(self, method: str) -> Any:
        """What chooses preconditioners for this matrix, and keeps what it has found. Collective."""
        if method not in self._automatic:
            self._automatic[method] = core("Automatic", self.dtype.name)(self._handle, method)
        return self._automatic[method]

    @property
    def nnz(self) -> int:
        return int(self._handle.entries)

    @property
    def format(self) -> str:
        return str(self._handle.format)

    @property
    def storage(self) -> str:
        return str(self._handle.storage)

    def is_hermitian(self) -> bool:
        if self._hermitian is None:
            self._hermitian = bool(self._handle.is_hermitian())
        return self._hermitian

    def local_rows(self) -> tuple[Array, Array, Array]:
        """This rank's rows as compressed rows: (starts, global columns, values), columns ascending. Local; a copy."""
        start, column, value = self._handle.local_rows()
        return start, column, value

    def to_scipy(self) -> Any:
        """The whole matrix as a scipy.sparse.csr_array on every rank, which needs memory for all of it. Collective."""
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
        name = agreed(self.comm, lambda: chosen_scalar(scalar))
        refuse_unlike(self.comm, scalar=name or self.dtype.name)
        if name is None or name == self.dtype.name:
            return self
        return self._made_anew(name, self.format)

    def stored_as(self, format: str) -> Csr:
        """This matrix in another storage format of :func:`tacit.csr`, as a copy. Collective."""
        chosen = agreed(self.comm, lambda: choose("format", format, FORMATS))
        refuse_unlike(self.comm, format=chosen)
        return self if chosen == self.format else self._made_anew(self.dtype.name, chosen)

    def _made_anew(self, scalar: str, format: str) -> Csr:
        start, column, value = self.local_rows()
        value = agreed(self.comm, lambda: to_scalar(value, scalar, "the matrix"))
        handle = self._handle
        made = core("csr", scalar)(
            self.comm, handle.range_offsets, handle.domain_offsets, self.own_range[0], start, column, value, format
        )
        return Csr(made, self.comm, scalar)


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
        """The number of entries that the stored matrix would have."""
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
        """The whole matrix as a scipy.sparse.csr_array on every rank, which needs memory for all of it. Collective."""
        return self.assemble().to_scipy()
