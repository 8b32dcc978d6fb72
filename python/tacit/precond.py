"""Preconditioners: operators that approximate the inverse of a matrix.

``precond=`` of :func:`tacit.solve` takes a name, a ``dict(name=..., option=...)``, anything that stands for an
operator, or what the functions here make (to be used more than once).

================== ========================================================================== ========================
name               what it does                                                               options
================== ========================================================================== ========================
none               nothing
jacobi             divides by the diagonal                                                    absolute
block-jacobi       works on each rank's diagonal block, no messages                           solver, blocks
ilu0, ic0          incomplete factors of each rank's block (ic0: Hermitian positive definite)  blocks
spai, fsai         a sparse approximate inverse: an apply is a product (fsai: for cg)         local
polynomial         a polynomial in the matrix: no reductions, as parallel as the matrix       kind, degree, lambda_min,
                                                                                              lambda_max, relaxation
================== ========================================================================== ========================
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import _core
from ._support import agreed, choose, core, refuse_unknown
from .op import Csr, Operator, as_operator, stored

__all__ = ["build", "make", "names"]

# Those that are Hermitian positive definite when the matrix is, so that cg may use them.
_SYMMETRIC = {"none", "jacobi", "block-jacobi", "ilu0", "ic0", "fsai", "polynomial"}


def names() -> list[str]:
    """The names that ``precond=`` knows.

    Examples
    --------
    >>> import tacit
    >>> "jacobi" in tacit.precond.names()
    True
    """
    return list(_core.precond_names())


def _text(value: Any) -> str:
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    return repr(float(value)) if isinstance(value, (float, np.floating)) else str(value)


def make(A: Operator, name: str, **options: Any) -> Operator | None:
    """The preconditioner of this name for `A`; None for "none".

    Parameters
    ----------
    A : Csr or Stencil
        A Stencil is assembled for it, except by "jacobi".
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

    def check() -> str:
        if not isinstance(name, str):
            raise TypeError(f"the name of a preconditioner is {name!r}; a string is needed")
        return name.replace("_", "-")

    chosen = agreed(A.comm, check)
    scalar = A.dtype.name
    if chosen == "none":
        agreed(A.comm, lambda: refuse_unknown("precond 'none'", options, ()))
        return None
    if chosen == "jacobi" and not isinstance(A, Csr):
        others = {key: value for key, value in options.items() if key != "absolute"}

        def absolute() -> bool:
            refuse_unknown("precond 'jacobi'", others, ["absolute"])
            return choose("absolute", _text(options.get("absolute", False)), ["false", "true"]) == "true"

        return Operator(core("jacobi", scalar)(A._handle, agreed(A.comm, absolute)), A.comm, A.dtype)
    A = stored(A, f"the preconditioner {chosen!r}")
    handle = core("precondition", scalar)(A._handle, chosen, {key: _text(value) for key, value in options.items()})
    return Operator(handle, A.comm, A.dtype)


def named(given: Any) -> tuple[str, dict[str, str], bool]:
    """The name and options that ``precond=given`` stands for, and whether cg may use it for a positive definite
    matrix.
    """
    if given is None:
        return "none", {}, True
    if isinstance(given, str):
        given = {"name": given}
    if not isinstance(given, dict):
        raise ValueError(f"precond is a {type(given).__name__}; on the device it is given by name")
    options = dict(given)
    name = options.pop("name", None)
    if not isinstance(name, str):
        raise ValueError(f"precond is {given!r}; dict(name=..., ...) is needed")
    name = name.replace("_", "-")
    texts = {key: _text(value) for key, value in options.items()}
    return name, texts, name in _SYMMETRIC and options.get("solver") != "spai"


def build(
    A: Operator, given: Any, renumbered: tuple[Operator, _core.Renumbering] | None = None
) -> tuple[Operator | None, bool]:
    """The operator that ``precond=given`` stands for, and whether cg may use it when `A` is positive definite.

    `renumbered`: the matrix in the user's numbers, where `A` has others, and the numbers. Collective.
    """
    if given is None or isinstance(given, (str, dict)):
        name, options, symmetric = agreed(A.comm, lambda: named(given))
        return make(A, name, **options), symmetric
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
