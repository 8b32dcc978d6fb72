"""Arithmetic of H-matrices: what is composed of them as one H-matrix, truncated."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._alike import alike
from .._support import Array, core, real_number
from .base import Operator
from .composed import Composed
from .factors import LowRank
from .hierarchical import HMatrix
from .stored import Csr


class Affine(NamedTuple):
    """scale A + shift I + diag(d) + a sum of U V^H; A may be none, and d None."""

    scale: complex
    matrix: HMatrix | None
    shift: complex = 0
    diagonal: Array | None = None  # this rank's part
    low: tuple[tuple[complex, LowRank], ...] = ()


def affine(a: Operator, tolerance: float) -> Affine:
    """An expression in this form; sums and products of H-matrices in it are made, and truncated. Collective.

    ValueError where it has another operator.
    """
    if isinstance(a, HMatrix):
        return Affine(1, a)
    if isinstance(a, LowRank):
        return Affine(0, None, low=((1, a),))
    if isinstance(a, Csr):
        return Affine(0, None, diagonal=_diagonal_of(a))
    if isinstance(a, Composed):
        if a.how == "multiple":
            return _times(a.parts[0], affine(a.parts[1], tolerance))
        if a.how == "shift":
            found = affine(a.parts[0], tolerance)
            return found._replace(shift=found.shift + a.parts[1])
        if a.how == "sum":
            alpha, left, beta, right = a.parts
            return _sum(_times(alpha, affine(left, tolerance)), _times(beta, affine(right, tolerance)), tolerance)
        if a.how == "product":
            left, right = (_made(affine(part, tolerance), tolerance) for part in a.parts)
            handle = core("product_of_hmatrices", left._scalar)(left._handle, right._handle, tolerance)
            return Affine(1, _wrapped(handle, left, tolerance, "none"))
        if _is_itself(a):
            return affine(a.parts[0], tolerance)
    raise ValueError(
        f"the {a.name} operator has no hierarchical form: that is made of H-matrices, numbers, tacit.low_rank and"
        " diagonal matrices, by sums, products, multiples and shifts"
    )


def _is_itself(a: Composed) -> bool:
    """Whether a transpose is the matrix itself."""
    part = a.parts[0]
    if not isinstance(part, HMatrix):
        return False
    real = part.dtype.kind != "c"
    return part.symmetry == ("hermitian" if a.how == "adjoint" else "symmetric") or (real and part.symmetry != "none")


def _times(alpha: complex, a: Affine) -> Affine:
    low = tuple((alpha * scale, factors) for scale, factors in a.low)
    return Affine(alpha * a.scale, a.matrix, alpha * a.shift, None if a.diagonal is None else alpha * a.diagonal, low)


def _sum(a: Affine, b: Affine, tolerance: float) -> Affine:
    if a.diagonal is None or b.diagonal is None:
        diagonal = b.diagonal if a.diagonal is None else a.diagonal
    else:
        diagonal = a.diagonal + b.diagonal
    rest = Affine(0, None, a.shift + b.shift, diagonal, a.low + b.low)
    if a.matrix is None or b.matrix is None:
        one = b if a.matrix is None else a
        return rest._replace(scale=one.scale, matrix=one.matrix)
    number = a.matrix._factor
    handle = core("sum_of_hmatrices", a.matrix._scalar)(
        number(a.scale), a.matrix._handle, number(b.scale), b.matrix._handle, tolerance
    )
    return rest._replace(scale=1, matrix=_wrapped(handle, a.matrix, tolerance, a.matrix.symmetry))


def _wrapped(handle: Any, like: HMatrix, tolerance: float, symmetry: str) -> HMatrix:
    return HMatrix(handle, like.comm, like.dtype, tolerance, symmetry)


def _diagonal_of(a: Csr) -> Array:
    """This rank's part of a diagonal matrix. Collective."""
    start, column, value = a.local_rows()
    begin, end = a.own_range
    row = np.repeat(np.arange(begin, end), np.diff(start))
    off = int(np.count_nonzero(value[row != column]))
    if a.comm.all_max(off) > 0:
        raise ValueError(
            "a stored matrix in a sum of H-matrices has entries beside its diagonal; only diagonal ones are added"
        )
    own = np.zeros(end - begin, a.dtype)
    np.add.at(own, row[row == column] - begin, value[row == column])
    return own


def _made(a: Affine, tolerance: float) -> HMatrix:
    """The expression as an H-matrix. Collective."""
    A = a.matrix
    if A is None:
        raise ValueError("an expression without an H-matrix has no blocks to be stored in")
    scalar = A._scalar
    if a.scale != 1 or a.shift != 0 or a.diagonal is not None:
        begin, end = A.own_range
        d = np.zeros((end - begin, 0 if a.diagonal is None else 1), A.dtype)
        if a.diagonal is not None:
            d[:, 0] = a.diagonal
        made = core("shifted_hmatrix", scalar)(A._handle, A._factor(a.scale), A._factor(a.shift), d)
        A = _wrapped(made, A, A.tolerance, A.symmetry)
    for scale, factors in a.low:
        U, V = _factors_of(factors, scale, A)
        A = _wrapped(core("hmatrix_and_low_rank", scalar)(A._handle, U, V, tolerance), A, tolerance, A.symmetry)
    return A


def _factors_of(a: LowRank, scale: complex, A: HMatrix) -> tuple[Array, Array]:
    """This rank's rows of factors U, V that are added to A. Collective."""
    U, V = a._factors
    if A.symmetry != "none":
        same = V is None and (A.symmetry == "hermitian" or A.dtype.kind != "c")
        turned = V is not None and A.symmetry == "symmetric" and bool(np.array_equal(V, U.conj()))
        kept = (same or turned) and (A.symmetry == "symmetric" or scale.imag == 0)
        if not A.comm.all_min(int(kept)):
            raise ValueError(
                f"A is stored by one triangle, as {A.symmetry}, and this U V^H is not: tacit.low_rank(U) is hermitian,"
                " and for complex symmetric matrices tacit.low_rank(U, U.conj()) is symmetric"
            )
    return np.ascontiguousarray(A._factor(scale) * U), np.ascontiguousarray(U if V is None else V)


def compressed(a: Operator, tolerance: float | None) -> HMatrix:
    """:meth:`Composed.compressed`."""
    default = max((m.tolerance for m in _matrices(a)), default=0.0)
    wanted = _tolerance(a, default if tolerance is None else tolerance)
    return _made(affine(a, wanted), wanted)


def _tolerance(a: Operator, tolerance: Any) -> float:
    def look() -> float:
        value = real_number(tolerance, "tolerance")
        if not 0 < value < 1:
            raise ValueError(f"tolerance is {tolerance}; a number above 0 and below 1 is needed")
        return value

    _, first = alike(a.comm, look, lambda value: {"tolerance": value, "A": a._structure()})
    return float(first["tolerance"])


def _matrices(a: Operator) -> list[HMatrix]:
    if isinstance(a, HMatrix):
        return [a]
    parts = a.parts if isinstance(a, Composed) else ()
    return [m for part in parts if isinstance(part, Operator) for m in _matrices(part)]


def inverse(A: HMatrix, tolerance: float | None) -> HMatrix:
    """:meth:`HMatrix.inverse`."""
    wanted = _tolerance(A, A.tolerance if tolerance is None else tolerance)
    return _wrapped(core("inverse_of_hmatrix", A._scalar)(A._handle, wanted), A, wanted, "none")


Composed._compressed = staticmethod(compressed)
HMatrix._inverse = staticmethod(inverse)
