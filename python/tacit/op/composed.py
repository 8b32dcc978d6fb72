"""Operators made of others: transposes, products, sums, multiples and shifts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from .. import _core
from .._support import core
from .base import Operator
from .stored import Csr


class Composed(Operator):
    """An operator made from others, which it refers to: products with it are products with these.

    Attributes
    ----------
    how : str
        "adjoint", "transpose", "product", "sum", "multiple" or "shift".
    parts : tuple
        What it is made from: (A,), (A,), (A, B), (alpha, A, beta, B), (alpha, A), (A, sigma).
    """

    __slots__ = ("_assembled", "how", "parts")
    _compressed: ClassVar[Callable[[Any, float | None], Any]]  # set by algebra.py, which needs this module

    def __init__(self, how: str, parts: tuple[Any, ...], comm: _core.Communicator, dtype: npt.DTypeLike) -> None:
        scalar = np.dtype(dtype).name
        for part in parts:
            if isinstance(part, Operator) and not part._composes:
                raise ValueError(
                    f"the {part.name} operator, on {part.device}, multiplies and is solved with, and nothing is made of"
                    f" it (here: {how}); A.to('host') is the operator in host memory"
                )
        handles = [part._handle if isinstance(part, Operator) else part for part in parts]
        if how == "multiple":
            handle = core("product", scalar)(core("multiple", scalar)(handles[1], handles[0]), handles[1])
        else:
            handle = core(how, scalar)(*handles)
        super().__init__(handle, comm, dtype)
        self.how = how
        self.parts = parts
        self._assembled: tuple[Any, Csr] | None = None

    @property
    def name(self) -> str:
        """From the names of the parts: "transpose of csr", "csr @ stencil", "2 * csr - csr"."""
        names: list[Any] = [_in_brackets(p, self.how) if isinstance(p, Operator) else p for p in self.parts]
        if self.how in ("adjoint", "transpose"):
            return f"{self.how} of {names[0]}"
        if self.how == "product":
            return f"{names[0]} @ {names[1]}"
        if self.how == "multiple":
            return _multiple(*names)
        if self.how == "shift":
            return f"{names[0]} + {names[1]:g} I"
        alpha, a, beta, b = names
        real = not isinstance(beta, complex) and beta < 0
        return f"{_multiple(alpha, a)} {'-' if real else '+'} {_multiple(-beta if real else beta, b)}"

    @property
    def nnz(self) -> int:
        """Entries, for a transpose or a multiple; 0 for others, which may have other entries than their parts."""
        operators = [p for p in self.parts if isinstance(p, Operator)]
        return operators[0].nnz if self.how in ("adjoint", "transpose", "multiple") else 0

    @property
    def H(self) -> Operator:
        is_back = self.how == "adjoint" or (self.how == "transpose" and self.dtype.kind != "c")
        return self.parts[0] if is_back else super().H

    @property
    def T(self) -> Operator:
        is_back = self.how == "transpose" or (self.how == "adjoint" and self.dtype.kind != "c")
        return self.parts[0] if is_back else super().T

    def is_hermitian(self) -> bool:
        """Whether A equals its conjugate transpose, as far as its parts tell: transposes, sums, real multiples and
        shifts of Hermitian operators, and products that read the same from both ends (``A.H @ A``, ``P.H @ A @ P`` for
        a Hermitian A). Collective.
        """
        if self.shape[0] != self.shape[1] or any(isinstance(p, complex) and p.imag != 0 for p in self.parts):
            return False
        if self.how != "product":
            return all(p.is_hermitian() for p in self.parts if isinstance(p, Operator))
        factors = _factors(self)
        pairs = [(factors[i], factors[-1 - i]) for i in range((len(factors) + 1) // 2)]
        return all(_are_adjoint(a, b) for a, b in pairs)

    def assemble(self) -> Csr:
        """The same matrix, stored, where all parts have entries (stored matrices, stencils, and what is composed of
        them). It is kept until a part's values change. Collective; on several ranks a product fetches the rows of its
        right factor that this rank needs, and a transpose sends its entries. Memory: the result, and about twice that
        while it is made.

        Raises
        ------
        ValueError
            A part knows products only.
        """
        versions = self._versions()
        if self._assembled is None or self._assembled[0] != versions:
            self._assembled = (versions, _assembled(self))
        return self._assembled[1]

    def compressed(self, tolerance: float | None = None) -> Any:
        """The same matrix as one :class:`HMatrix`, where it is made of H-matrices, :func:`tacit.low_rank`, diagonal
        matrices (:func:`tacit.csr`) and numbers, by sums, products, multiples and shifts. No entry is evaluated.

        Parameters
        ----------
        tolerance : float, optional
            Each block of low rank is truncated to this error, relative to its norm (Frobenius), in each sum and
            product. Default: the largest tolerance of the H-matrices.

        Returns
        -------
        HMatrix
            ``report["estimated_error"]`` has the errors of its parts and of the last truncation, relative to its norm.
            Sums, multiples and shifts keep the symmetry of their parts, which have the same; products have none. Sums
            cost O(k^2 n) operations for ranks k, products O(k^2 n log^2 n). Collective: sums on several ranks send the
            blocks of one of the matrices, products those of both.

        Raises
        ------
        ValueError
            On every rank: for any other operator in it, H-matrices of other points or trees or of two sets of points,
            symmetries that differ, a correction that does not have the symmetry of the matrix.

        Examples
        --------
        >>> import numpy as np, tacit
        >>> x = np.linspace(0, 1, 500)
        >>> A, B = (tacit.hmatrix(x, "matern32", length=length, tolerance=1e-8) for length in (0.1, 1.0))
        >>> C = (2 * A + A @ B).shifted(0.5).compressed(1e-6)
        >>> y = 2 * (A @ x) + A @ (B @ x) + 0.5 * x
        >>> bool(np.linalg.norm(C @ x - y) < 1e-5 * np.linalg.norm(y)), C.report["entries_evaluated"]
        (True, 0.0)
        """
        return type(self)._compressed(self, tolerance)

    def _structure(self) -> str:
        parts = (f"({p._structure()})" if isinstance(p, Operator) else repr(p) for p in self.parts)
        return f"{self.how} of {', '.join(parts)}"

    def _has_entries(self) -> bool:
        return all(p._has_entries() for p in self.parts if isinstance(p, Operator))

    def _versions(self) -> tuple[Any, ...]:
        return tuple(p._versions() for p in self.parts if isinstance(p, Operator))

    def _stored(self) -> Csr:
        made: Csr = self.assemble() if self._gpu is None else super()._stored()
        return made

    def _multiple_of(self) -> tuple[Any, Operator]:
        return self.parts if self.how == "multiple" else super()._multiple_of()

    def to_scipy(self) -> Any:
        """The whole matrix as a scipy.sparse.csr_array on every rank, which needs memory for all of it. Collective."""
        return self.assemble().to_scipy()

    def _state(self) -> tuple[Any, ...]:
        return self._scalar, self.how, self.parts

    @classmethod
    def _made_from(cls, comm: _core.Communicator, *state: Any) -> Composed:
        scalar, how, parts = state
        return Composed(how, parts, comm, scalar)


Operator._composition = Composed


def _multiple(alpha: Any, name: str) -> str:
    return name if alpha == 1 else f"-{name}" if alpha == -1 else f"{alpha:g} * {name}"


def _in_brackets(a: Operator, around: str) -> str:
    tight = {"product": ("sum", "shift"), "sum": (), "shift": ()}.get(around, ("sum", "shift", "product", "multiple"))
    return f"({a.name})" if isinstance(a, Composed) and a.how in tight else a.name


def _factors(a: Operator) -> list[Operator]:
    """The factors of a product, without numbers."""
    if isinstance(a, Composed) and a.how == "product":
        return [f for part in a.parts for f in _factors(part)]
    if isinstance(a, Composed) and a.how == "multiple" and a.parts[0].imag == 0:
        return _factors(a.parts[1])
    return [a]


def _are_adjoint(a: Operator, b: Operator) -> bool:
    """Whether b is A^H, as far as is known. Collective."""
    for x, y in ((a, b), (b, a)):
        if not isinstance(x, Composed) or x.parts[0] is not y:
            continue
        if x.how == "adjoint" or (x.how == "transpose" and x.dtype.kind != "c"):
            return True
    return a is b and a.is_hermitian()


def _assembled(a: Composed) -> Csr:
    """Collective."""
    from scipy.sparse import csr_array, eye_array

    comm, scalar = a.comm, a._scalar
    if not a._has_entries():
        raise ValueError(f"the entries of the matrix are needed; the {a.name} operator knows products only")
    # The parts in their order: assembling is collective.
    parts: list[Any] = [p._stored() if isinstance(p, Operator) else p for p in a.parts]
    rows, columns = a._handle.range_offsets, a._handle.domain_offsets
    if a.how in ("adjoint", "transpose"):
        start, column, value = parts[0].local_rows()
        row = np.repeat(np.arange(*parts[0].own_range, dtype=np.int64), np.diff(start))
        value = value.conj() if a.how == "adjoint" else value
        return Csr(core("assemble", scalar)(comm, rows, columns, column, row, value), comm, scalar)

    def own(b: Csr) -> Any:
        start, column, value = b.local_rows()
        return csr_array((value, column, start), shape=(len(start) - 1, b.shape[1]))

    if a.how == "product":
        left, right = parts
        start, column, value = left.local_rows()
        needed, place = np.unique(column, return_inverse=True)
        there = core("rows_of_others", scalar)(right._handle, needed)
        fetched = csr_array((there[2], there[1], there[0]), shape=(len(needed), right.shape[1]))
        found = csr_array((value, place, start), shape=(len(start) - 1, len(needed))) @ fetched
    elif a.how == "sum":
        alpha, left, beta, right = parts
        found = own(left) * a.dtype.type(alpha) + own(right) * a.dtype.type(beta)
    elif a.how == "multiple":
        found = own(parts[1]) * a.dtype.type(parts[0])
    else:
        begin, end = a.own_range
        found = own(parts[0])
        found = found + eye_array(end - begin, a.shape[1], k=begin, dtype=a.dtype, format="csr") * a.dtype.type(
            parts[1]
        )
    found = found.tocsr()
    found.sum_duplicates()
    start, column = found.indptr.astype(np.int64), found.indices.astype(np.int64)
    value = found.data.astype(scalar, copy=False)
    made = core("csr", scalar)(comm, rows, columns, a.own_range[0], start, column, value, "automatic")
    return Csr(made, comm, scalar)
