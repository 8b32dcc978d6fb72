"""Preconditioners that are made by their names, as operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, TypeVar

from .. import _core
from ..op import Operator

N = TypeVar("N", bound="Named")


class Named(Operator):
    """A preconditioner made by its name. `for_cg`: whether cg may use it for a positive definite matrix.

    A pickle or copy of one that :func:`make`, :func:`amg` or :func:`inner` returned holds the matrix and the options:
    loading costs as much as making it. TypeError where the matrix has been given other values since.
    """

    __slots__ = ("_recipe", "for_cg")
    _make: ClassVar[Callable[..., Operator | None]]  # set by making.py, which needs this module

    def __init__(self, handle: Any, A: Operator, for_cg: bool) -> None:
        super().__init__(handle, A.comm, A.dtype)
        self.for_cg = for_cg
        self._recipe: _Recipe | None = None

    def _state(self) -> tuple[Any, ...]:
        if self._recipe is None:
            return super()._state()
        A, version, name, options = self._recipe
        if version != version_of(A):
            raise TypeError(
                f"the values of the matrix have changed since {name!r} was made: it can be neither pickled nor copied;"
                f" {self._cure}"
            )
        return A, name, options

    @classmethod
    def _made_from(cls, comm: _core.Communicator, *state: Any) -> Operator:
        A, name, options = state
        made = cls._make(A, name, **options)
        assert made is not None
        return made


class _Recipe(NamedTuple):
    """What a preconditioner was made of; the version is that of the matrix's values."""

    A: Operator
    version: int
    name: str
    options: dict[str, Any]


def version_of(A: Operator) -> int:
    return int(getattr(A, "_version", 0))


def noted(made: N, A: Operator, name: str, options: dict[str, Any]) -> N:
    made._recipe = _Recipe(A, version_of(A), name, options)
    return made


class Reporting(Named):
    """A preconditioner with a report of its construction, or of its inner solves."""

    __slots__ = ("_kept",)

    def __init__(self, handle: Any, A: Operator, for_cg: bool) -> None:
        super().__init__(handle, A, for_cg)
        self._kept = A

    @property
    def report(self) -> dict[str, Any]:
        """For "hlu": ``bytes``, ``dense_blocks``, ``low_rank_blocks``, ``mean_rank``, ``max_rank``,
        ``replaced_pivots``, ``precision``, ``factors`` ("lu", "cholesky"), ``shift`` (added to the diagonal, where the
        matrix was not positive definite to the tolerance), ``log_determinant``, ``sign``, ``most_bytes`` of a
        rank, ``messages`` and ``message_bytes`` of the construction, ``seconds``, ``note``. For
        "block-jacobi": ``bytes``, ``blocks``, ``note``. For "amg" (on a GPU without what is measured in cycles):
        ``levels`` (of each the ``rows`` and ``entries``, the ``prolongation_entries`` towards it, the ``ranks`` that
        have rows, and of this rank the ``setup_seconds`` until the next level was there and the ``seconds`` of cycles),
        ``cycles`` so far, ``operator_complexity``, ``grid_complexity``, ``update_bytes`` (kept by the first update for
        later ones) and then ``matrix_bytes`` (of all levels), ``note``; of the last level so far ``bottom``,
        ``bottom_choice``, ``bottom_solves``, ``bottom_iterations``, ``bottom_failures``, ``warnings``. For "inner": the
        ``solves`` so far, their ``iterations``, how many ``stopped`` before the given number of iterations, and the
        ``best_residual`` and ``worst_residual`` of a solve. Over all ranks; local.
        """
        return dict(self._handle.report)
