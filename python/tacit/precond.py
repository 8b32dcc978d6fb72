"""Preconditioners: operators that approximate the inverse of a matrix.

``precond=`` of :func:`tacit.solve` takes a name, a ``dict(name=..., option=...)``, anything that stands for an
operator, or what the functions here make (to be used more than once).

Of stored matrices: "none", "jacobi", "block-jacobi", "ilu0", "ic0", "spai", "fsai", "polynomial" and more; the classes
here (:class:`Jacobi`, :class:`Ilu0`, ..) say what each does and which options it takes;
docs/reference/preconditioners.md has the table. Of any operator: "inner", a few iterations of another method
(:func:`inner`).

Of :func:`tacit.hmatrix` operators there are:

================== ========================================================================== ========================
jacobi             divides by the diagonal                                                    absolute
block-jacobi       inverts the near field of clusters of at most `size` points (400)          size, precision
hlu                approximate triangular factors in hierarchical form: the strong one, a     tolerance, rank,
                   direct solver where its tolerance is small. On several ranks of each       leaf_size, precision
                   rank's diagonal block
inner              20 iterations of bicgstab on a copy of rank one (the paper's), scaled by   as above
                   its diagonal
================== ========================================================================== ========================

`precision` is "auto" (single where the tolerance allows it: the factors are approximate anyway), "single" or "full".
"""

from __future__ import annotations

from typing import Any

from . import _core, _preconds
from ._described import HMATRIX_PRECOND, HMATRIX_PRECOND_NAMES, PRECOND, PRECOND_NAMES
from ._options import Described, Preconditioner, agree, fill, of_its_kind
from ._preconds import *  # noqa: F403
from ._support import agreed, choose, core, refuse_unknown, utf8
from .op import Csr, HMatrix, Operator, as_operator, stored

__all__ = ["Reporting", "build", "inner", "make", "names", *_preconds.__all__]

# Of H-matrices, those that are Hermitian positive definite when the matrix is, so that cg may use them.
_SYMMETRIC_OF_HMATRICES = {"none", "jacobi", "block-jacobi"}


class Reporting(Operator):
    """A preconditioner that tells how it was made, or how its solves went."""

    __slots__ = ("_kept",)

    def __init__(self, handle: Any, A: Operator) -> None:
        super().__init__(handle, A.comm, A.dtype)
        self._kept = A

    @property
    def report(self) -> dict[str, Any]:
        """Of "hlu" ``bytes``, ``dense_blocks``, ``low_rank_blocks``, ``mean_rank``, ``max_rank``,
        ``replaced_pivots``, ``precision``, ``seconds``, ``note``; of "block-jacobi" ``bytes``, ``blocks``, ``note``;
        of "inner" ``solves`` so far, their ``iterations``, how many ``stopped`` before these were done,
        ``best_residual`` and ``worst_residual`` of a solve. Over all ranks; local.
        """
        return dict(self._handle.report)


def names() -> list[str]:
    """The names that ``precond=`` knows for stored matrices; those of H-matrices are in the module's text.

    Examples
    --------
    >>> import tacit
    >>> "jacobi" in tacit.precond.names()
    True
    """
    return list(PRECOND_NAMES)


def split(given: str | dict[str, Any] | Described | None) -> tuple[str, dict[str, Any]]:
    """The name and the options that ``precond=given`` stands for."""
    if given is None:
        return "none", {}
    if isinstance(given, Described):
        of_its_kind("precond", given, Preconditioner)
        return given.name, given.given()
    if isinstance(given, str):
        given = {"name": given}
    options = dict(given)
    name = options.pop("name", None)
    if not isinstance(name, str):
        raise ValueError(f"precond is {given!r}; dict(name=..., ...) is needed")
    return utf8(name.replace("_", "-")), options


def _filled(name: str, options: dict[str, Any]) -> Any:
    """The options as the compiled part has them."""
    taken = {key: option for key, option in PRECOND.items() if name in option.takers or name not in PRECOND_NAMES}
    return fill(_core.PrecondOptions(), f"precond {name!r}", taken, options)


def _of_hmatrix(name: str, options: dict[str, Any]) -> Any:
    """The same of a preconditioner of H-matrices."""
    taken = {key: option for key, option in HMATRIX_PRECOND.items() if name in option.takers}
    o = fill(core("HMatrixPrecondOptions")(), f"precond {name!r}", taken, options)
    _core.check_hmatrix_precond(o, name)
    return o


def make(A: Operator, name: str, **options: Any) -> Operator | None:
    """The preconditioner of this name for `A`; None for "none".

    Parameters
    ----------
    A : Csr, Stencil or HMatrix
        A Stencil is assembled for it, except by "jacobi" and "inner".
    name : str
    **options
        See the table above.

    Returns
    -------
    Operator
        Collective. Its cost and memory: ``include/tacit/precond``.

    Raises
    ------
    ValueError
        For a name or an option that does not exist, a zero on the diagonal and the like (with the row), and an operator
        without entries.

    Examples
    --------
    >>> import numpy as np, tacit
    >>> A = tacit.poisson((20, 20), assembled=True)
    >>> M = tacit.precond.make(A, "polynomial", degree=3)
    >>> tacit.solve(A, np.ones(400), precond=M).converged
    True
    """

    on = A.comm

    def look() -> tuple[str, Any, Any]:
        if not isinstance(name, str):
            raise TypeError(f"the name of a preconditioner is {name!r}; a string is needed")
        chosen = utf8(name.replace("_", "-"))
        if chosen == "none":
            refuse_unknown("precond 'none'", options, ())
        if chosen in ("none", "inner"):
            return chosen, None, {}
        if chosen == "hlu" and not isinstance(A, HMatrix):
            raise ValueError(f"precond 'hlu' is of tacit.hmatrix operators; this is a {A.name} operator")
        if isinstance(A, HMatrix) and chosen != "jacobi":
            choose("preconditioner of an H-matrix", chosen, HMATRIX_PRECOND_NAMES)
            return chosen, _of_hmatrix(chosen, options), HMATRIX_PRECOND
        return chosen, _filled(chosen, options), PRECOND

    chosen, o, table = agreed(on, look)
    agree(on, o, table, precond=chosen)
    scalar = A.dtype.name
    if chosen == "none":
        return None
    if chosen == "inner":
        return inner(A, **options)
    if chosen == "jacobi" and not isinstance(A, Csr):
        return Operator(core("jacobi", scalar)(A._handle, bool(o.absolute)), on, A.dtype)
    if isinstance(A, HMatrix):
        return Reporting(core("hlu" if chosen == "hlu" else "block_diagonal", scalar)(A._handle, o), A)
    A = stored(A, f"the preconditioner {chosen!r}")
    return Operator(core("precondition", scalar)(A._handle, chosen, o), on, A.dtype)


def inner(A: Operator, **options: Any) -> Reporting:
    """A few iterations of a method as a preconditioner (inner-outer iteration, variable preconditioning).

    Parameters
    ----------
    A : Operator
        What the iterations solve with. Of an H-matrix a coarse copy is made first.
    method : str or object of :mod:`tacit.methods`
        Any of these but "auto". Default: "bicgstab".
    iterations : int
        At most so many for each solve. Default: 20.
    rtol : float
        A solve ends earlier where its residual has fallen by this. Default: 0.
    precond : optional
        Of the inner iterations. Default: "jacobi" for an H-matrix, else none.
    rank, tolerance
        Of the coarse copy, see :meth:`tacit.HMatrix.coarse`; rank=None and tolerance=0: the matrix itself. Default: 1,
        1e-2.

    Returns
    -------
    Reporting
        Not linear: for bicgstab, and gmres with side="flexible" (which :func:`tacit.solve` takes by itself). Each use
        costs a solve. Collective.

    References
    ----------
    Ida, Iwashita, Mifune, Takahashi (2016), doi 10.1109/TMAG.2015.2464104.

    Examples
    --------
    >>> import numpy as np, tacit
    >>> A = tacit.poisson((30, 30))
    >>> P = tacit.precond.inner(A, method="cg", iterations=10)
    >>> r = tacit.solve(A, np.ones(900), method="gmres", side="flexible", precond=P)
    >>> r.converged, P.report["iterations"] == 10 * P.report["solves"]
    (True, True)
    """

    def look() -> Any:
        given = {key: value for key, value in options.items() if key != "precond"}
        if given.get("rank", 1) is None:
            given["rank"] = 0
        return _of_hmatrix("inner", given)

    o = agreed(A.comm, look)
    agree(A.comm, o, HMATRIX_PRECOND)
    matrix, precond = A, options.get("precond")
    if isinstance(A, HMatrix):
        rank = 1 if o.rank is None else o.rank
        if rank or o.tolerance:
            matrix = A.coarse(rank or None, o.tolerance)
        precond = "jacobi" if precond is None else precond
    M, symmetric = build(matrix, precond)
    hermitian = symmetric and matrix.is_hermitian()
    handle = core("inner", A.dtype.name)(matrix._handle, None if M is None else M._handle, o, hermitian)
    return Reporting(handle, matrix)


def named(given: Any, where: str = "on the device") -> tuple[str, _core.PrecondOptions, bool]:
    """The name and options that ``precond=given`` stands for, and whether cg may use it for a positive definite
    matrix. `where`: of the error, what takes names only.
    """
    if given is not None and not isinstance(given, (str, dict, Described)):
        raise ValueError(f"precond is a {type(given).__name__}; {where} it is given by name")
    name, options = split(given)
    filled = _filled(name, options)
    return name, filled, _core.precond_is_symmetric(name, filled)


def build(
    A: Operator, given: Any, renumbered: tuple[Operator, _core.Renumbering] | None = None
) -> tuple[Operator | None, bool]:
    """The operator that ``precond=given`` stands for, and whether cg may use it when `A` is positive definite.

    `renumbered`: the matrix in the user's numbers, where `A` has others, and the numbers. Collective.
    """
    if given is None or isinstance(given, (str, dict, Described)):
        name, options = agreed(A.comm, lambda: split(given))
        if name == "inner" or isinstance(A, HMatrix):
            return make(A, name, **options), name in _SYMMETRIC_OF_HMATRICES
        made = make(A, name, **options)
        return made, _core.precond_is_symmetric(name, _filled(name, options))
    users = A if renumbered is None else renumbered[0]
    if isinstance(given, Operator):
        M = as_operator(given, scalar=A.dtype, what="precond")
    else:
        M = as_operator(given, A.comm, A.dtype, what="precond", offsets=users._handle.range_offsets)
    if M.shape != A.shape:
        raise ValueError(f"precond has shape {M.shape}; the matrix has {A.shape}")
    if renumbered is not None:
        M = Operator(core("in_numbers_of", A.dtype.name)(A._handle, M._handle, renumbered[1]), A.comm, A.dtype)
    return M, True
