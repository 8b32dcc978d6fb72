"""Triangular factors of H-matrices: solves, determinants, and corrections of low rank."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from .. import _core
from .._support import Array, agreed, as_array, to_scalar, whole_number
from ..op import Composed, Operator, low_rank
from .operators import Reporting


class HFactors(Reporting):
    """Triangular factors of an H-matrix, L U or L L^H, made by :func:`factorise` or as "hlu": an approximate inverse,
    with a small tolerance a direct solver.
    """

    __slots__ = ()

    def solve(self, B: Any) -> Array:
        """A^-1 B for one vector or k columns, by the factors: ``F @ B``. They are read once for all columns.
        Collective; on several ranks as many messages as for one column, k times as long.

        :func:`tacit.solve` with ``precond=F`` has the residual checked.
        """
        return np.asarray(self @ B)

    def slogdet(self) -> tuple[Any, float]:
        """The sign (of modulus 1) and log |det| of the factors, as of :func:`numpy.linalg.slogdet`. Local.

        Raises
        ------
        ValueError
            Where pivots were replaced (A is singular to its tolerance), or the factors could not be made.

        Warns
        -----
        RuntimeWarning
            Where the diagonal was shifted (``report["shift"]``): the determinant is that of the shifted matrix.
        """
        kept = self.report
        if kept["shift"]:
            text = f"the determinant is not that of A: {kept['note']}; a larger nugget or a smaller tolerance helps"
            warnings.warn(text, RuntimeWarning, stacklevel=2)
        if kept["replaced_pivots"]:
            raise ValueError(f"no determinant of A is known: {kept['note']}, so that A is singular to its tolerance")
        if not np.isfinite(kept["log_determinant"]):
            raise ValueError(f"no determinant of A is known: {kept['note'] or 'the factors have a pivot of zero'}")
        sign = kept["sign"]
        return (sign if self.dtype.kind == "c" else sign.real), float(kept["log_determinant"])

    def updated(self, U: Any, V: Any = None) -> UpdatedFactors:
        """The inverse and the determinant of A + U V^H, by those of A: no new factors. Without V it is A + U U^H.

        (A + U V^H)^-1 = A^-1 - W S^-1 Z^H with W = A^-1 U, Z = A^-H V and S = I + V^H W; det(A + U V^H) = det A det S
        (Sherman, Morrison, Woodbury: Hager 1989, doi 10.1137/1031049).

        Parameters
        ----------
        U, V : array_like
            (n, k), or (n,) for k = 1, whole and the same on every rank: as of :func:`tacit.low_rank`.

        Returns
        -------
        UpdatedFactors
            ``A + tacit.low_rank(U, V)`` is the matrix: ``tacit.solve(A + tacit.low_rank(U, V), b, precond=F.updated(U,
            V))``. 2 k solves with F, and as many columns of memory. Collective. Where A + U V^H is much closer to
            singular than A digits are lost, as ``condition`` tells; ``factorise(A + tacit.low_rank(U, V))`` loses none.

        Raises
        ------
        ValueError
            For arrays of another shape, and where A + U V^H is singular.

        Examples
        --------
        >>> import numpy as np, tacit
        >>> x = np.linspace(0, 1, 300)
        >>> A = tacit.hmatrix(x, "matern32", length=0.1, nugget=0.1, tolerance=1e-8, symmetry="hermitian")
        >>> F = tacit.precond.factorise(A).updated(np.ones(300))
        >>> b = A @ x + x.sum()
        >>> bool(np.allclose(F.solve(b), x, atol=1e-5))
        True
        """
        return UpdatedFactors(self, U, V)

    def logdet_error(self, samples: int = 20, seed: int = 0) -> float:
        """How far log |det| of the factors is from that of A, an estimate to first order: the trace of
        1 - (L U)^-1 A by random vectors of +-1 (Hutchinson 1990, doi 10.1080/03610919008812866), its modulus and two
        standard errors; infinite where the diagonal was shifted, which is no small change. `samples` products with A
        and solves. Collective.
        """
        count = whole_number(samples, "samples")
        if count < 2:
            raise ValueError(f"samples is {samples}; at least 2 are needed for a standard error")
        if self.report["shift"] > 0:
            return float("inf")
        A, n = self._kept, self.shape[0]
        rng = np.random.default_rng(seed)
        found = np.empty(count)
        for i in range(count):
            z = rng.choice([-1.0, 1.0], n).astype(self.dtype)
            found[i] = np.real(np.vdot(z, z - np.asarray(self @ (A @ z))))
        return float(abs(found.mean()) + 2 * found.std(ddof=1) / count**0.5)


class UpdatedFactors(Composed):
    """The inverse of A + U V^H by factors of A. Made by :meth:`HFactors.updated`.

    Attributes
    ----------
    condition : float
        (1 + |V^H A^-1 U|) / the smallest singular value of S: results have up to so many times the error of F.
    """

    __slots__ = ("_given", "_sign", "condition", "for_cg")

    def __init__(self, F: HFactors, U: Any, V: Any = None) -> None:
        def look() -> tuple[Array, Array]:
            both = [_columns_of(U, "U", F), _columns_of(U if V is None else V, "V", F)]
            if both[0].shape != both[1].shape:
                raise ValueError(f"U has shape {both[0].shape} and V {both[1].shape}; both need as many columns")
            return both[0], both[1]

        u, v = agreed(F.comm, look)
        W = F.solve(u)
        Z = W if V is None and F.report["factors"] == "cholesky" else np.asarray(F.H @ v)
        part = v.conj().T @ W
        S = np.eye(u.shape[1]) + part
        least = float(np.linalg.norm(S, -2))
        self.condition = (1 + float(np.linalg.norm(part, 2))) / least if least > 0 else float("inf")
        if not self.condition < 1 / np.finfo(F.dtype).eps:
            raise ValueError("A + U V^H is singular: I + V^H A^-1 U has no inverse")
        correction = low_rank(-np.linalg.solve(S.T, W.T).T, Z, comm=F.comm, scalar=F.dtype)
        one = F.dtype.type(1).item()
        super().__init__("sum", (one, F, one, correction), F.comm, F.dtype)
        self.for_cg = F.for_cg and V is None
        self._given = F, U, V
        self._sign = np.linalg.slogdet(S)

    def solve(self, B: Any) -> Array:
        """(A + U V^H)^-1 B for one vector or k columns. Collective."""
        return np.asarray(self @ B)

    def slogdet(self) -> tuple[Any, float]:
        """The sign and log |det| of A + U V^H; as :meth:`HFactors.slogdet`. Local."""
        sign, log = self._given[0].slogdet()
        return sign * self._sign[0], log + float(self._sign[1])

    def _state(self) -> tuple[Any, ...]:
        return self._given

    @classmethod
    def _made_from(cls, comm: _core.Communicator, *state: Any) -> UpdatedFactors:
        return cls(*state)


def _columns_of(a: Any, name: str, F: Operator) -> Array:
    array = as_array(a, name)
    array = to_scalar(array.reshape(-1, 1) if array.ndim == 1 else array, F._scalar, name)
    if array.ndim != 2 or len(array) != F.shape[0] or array.shape[1] == 0:
        raise ValueError(f"{name} has shape {array.shape}; ({F.shape[0]},) or ({F.shape[0]}, k) with k > 0 is needed")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} has an element that is not finite")
    return array
