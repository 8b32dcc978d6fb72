"""What :mod:`tacit.jax` and :mod:`tacit.torch` share: A as a function of its entries, and solves with A or A^T."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from . import op
from ._support import Array
from .krylov import solve


def _full(n: int) -> Any:
    """A sparse matrix with all n^2 entries, row after row."""
    from scipy.sparse import csr_array

    return csr_array((np.ones(n * n), np.tile(np.arange(n), n), np.arange(n + 1) * n), shape=(n, n))


class Entries:
    """A x = b with entries that are given anew for each solve, in fixed places; or with an A that does not change.

    `rows` and `columns` are the places of the entries; empty where A does not change.
    """

    def __init__(self, A: Any, vary: bool, options: Mapping[str, Any]) -> None:
        self._options = {"raise_on_failure": True, **options}
        if "x0" in options:
            raise TypeError("x0 is no argument here: a gradient must not depend on a guess")
        self.rows = self.columns = np.zeros(0, np.int64)
        self._fixed: dict[bool, op.Operator] = {}
        if not vary:
            self._fixed[False] = op.as_operator(A)
            self.shape = self._fixed[False].shape
            return
        if not hasattr(A, "tocsr"):
            raise TypeError(f"A is a {type(A).__name__}; with values a sparse matrix of SciPy gives their places")
        csr = A.tocsr()
        self.shape = csr.shape
        self._start, self.columns = csr.indptr, csr.indices
        self.rows = np.repeat(np.arange(csr.shape[0]), np.diff(csr.indptr))

    @classmethod
    def of(
        cls, A: Any, b: Any, values: Any, options: Mapping[str, Any], kind: type, array: Callable[[Any], Any]
    ) -> tuple[Entries, Any, Any]:
        """What ``solve(A, b, values, **options)`` of a library means, whose arrays are of this `kind` and made by
        `array`: the task, b, and the values, None where A does not change. A dense A of the library has all n^2.
        """
        b = array(b)
        if isinstance(A, kind) and values is None:
            shape = tuple(A.shape)  # type: ignore[attr-defined]
            if len(shape) != 2 or shape[0] != shape[1]:
                raise ValueError(f"A has shape {shape}; a square matrix is needed")
            task, values = cls(_full(shape[0]), True, options), A.reshape(-1)  # type: ignore[attr-defined]
        else:
            task = cls(A, values is not None, options)
            values = None if values is None else array(values)
        task.check(values, b)
        return task, b, values

    @property
    def dtype(self) -> Any:
        """Of an A that does not change."""
        return self._fixed[False].dtype

    def check(self, values: Any, b: Any) -> None:
        """ValueError for shapes that do not fit; of `values` None says that A does not change."""
        n = self.shape[0]
        if values is not None and tuple(values.shape) != self.rows.shape:
            raise ValueError(f"values have shape {tuple(values.shape)}; A has {len(self.rows)} entries")
        if len(b.shape) not in (1, 2) or b.shape[0] != n:
            raise ValueError(f"A has shape {self.shape} and b {tuple(b.shape)}; ({n},) or ({n}, k) fits")

    def solve(self, transposed: bool, values: Array | None, b: Array) -> Array:
        """A^-1 b or A^-T b, in the type of b."""
        options = dict(self._options)
        P = options.get("precond")
        if transposed and P is not None and hasattr(P, "T"):  # an operator or a matrix, not a name
            options["precond"] = P.T
        result = solve(self._matrix(transposed, values), b, **options)
        return np.asarray(result.x, b.dtype)

    def _matrix(self, transposed: bool, values: Array | None) -> Any:
        if values is None:
            if transposed not in self._fixed:
                self._fixed[True] = op.worth_storing(self._fixed[False].T)
            return self._fixed[transposed]
        from scipy.sparse import csr_array

        A = csr_array((values, self.columns, self._start), shape=self.shape)
        return A.T.tocsr() if transposed else A
