"""Preconditioners: operators that approximate the inverse of a matrix.

``precond=`` of :func:`tacit.solve` takes a name, a ``dict(name=..., option=...)``, anything that stands for an operator, or what
the functions here make (to be used more than once).

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

from . import _core
from ._support import agreed, core, refuse_unknown
from .op import Csr, Operator, Stencil, as_operator

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
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, float) else str(value)


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
        agreed(
            A.comm,
            lambda: refuse_unknown(
                "precond 'jacobi'", {k: v for k, v in options.items() if k != "absolute"}, ["absolute"]
            ),
        )
        return Operator(core("jacobi", scalar)(A._handle, bool(options.get("absolute", False))), A.comm, A.dtype)
    if isinstance(A, Stencil):
        A = A.assemble()
    if not isinstance(A, Csr):
        raise ValueError(
            f"the preconditioner {chosen!r} needs the entries of the matrix; the {A.name} operator knows products only"
        )
    handle = core("precondition", scalar)(A._handle, chosen, {key: _text(value) for key, value in options.items()})
    return Operator(handle, A.comm, A.dtype)


def build(A: Operator, given: Any) -> tuple[Operator | None, bool]:
    """The operator that ``precond=given`` stands for, and whether cg may use it when `A` is positive definite. Collective."""
    if given is None:
        return None, True
    if isinstance(given, str):
        given = {"name": given}
    if isinstance(given, dict):
        options = dict(given)

        def name_of() -> str:
            if "name" not in options:
                raise ValueError(f"precond is {given!r}; dict(name=..., ...) is needed")
            return str(options.pop("name"))

        name = agreed(A.comm, name_of)
        made = make(A, name, **options)
        name = name.replace("_", "-")
        plain = name in _SYMMETRIC and options.get("solver") != "spai"
        return made, plain
    if isinstance(given, Operator):
        M = as_operator(given, scalar=A.dtype, what="precond")
    else:
        M = as_operator(given, A.comm, A.dtype, what="precond", offsets=A._handle.range_offsets)
    if M.shape != A.shape:
        raise ValueError(f"precond has shape {M.shape}; the matrix has {A.shape}")
    return M, True
