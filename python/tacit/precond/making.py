"""Makes preconditioners: by name, and what ``precond=`` of a solve stands for."""

from __future__ import annotations

from typing import Any

from .. import _core
from .._described import HMATRIX_PRECOND, HMATRIX_PRECOND_NAMES, PRECOND, PRECOND_NAMES
from .._options import Described, agree
from .._support import agreed, choose, core, refuse_unknown, utf8
from ..op import Composed, Csr, DeviceCsr, DeviceHMatrix, HMatrix, Operator, as_operator, stored
from .choices import AMG_ARRAYS, SYMMETRIC_OF_HMATRICES, filled, is_none, of_hmatrix, refuse_on_gpus, split
from .factors import HFactors
from .levels import amg, amg_in_numbers, operator_of
from .operators import Named, Reporting, noted


def make(A: Any, name: str, **options: Any) -> Operator | None:
    """Constructs the preconditioner of this name for `A`; None for "none".

    Parameters
    ----------
    A : Csr, DeviceCsr, Stencil or HMatrix
        "jacobi" takes any operator that knows its diagonal, "inner" any operator. For the others a Stencil is
        assembled. For a DeviceCsr the preconditioner is made in the memory of its GPU, for any number of solves.
        A matrix of SciPy, NumPy or petsc4py is stored by Tacit first (:func:`tacit.csr`), of which the preconditioner
        keeps a copy.
    name : str
        One of :func:`names`, "inner", or for an H-matrix those of the module's docstring.
    **options
        See docs/reference/preconditioners.md.

    Returns
    -------
    Operator
        Collective. The headers of ``include/tacit/precond`` state cost and memory.

    Raises
    ------
    ValueError
        For an unknown name or option; for a matrix that does not allow the construction, such as one with a zero on the
        diagonal (with the row); and for an operator whose entries are not known.

    Examples
    --------
    >>> import numpy as np, tacit
    >>> A = tacit.poisson((20, 20), assembled=True)
    >>> M = tacit.precond.make(A, "polynomial", degree=3)
    >>> tacit.solve(A, np.ones(400), precond=M).converged
    True
    """
    A = operator_of(A)
    on = A.comm

    def look() -> tuple[str, Any, Any]:
        if not isinstance(name, str):
            raise TypeError(f"the name of a preconditioner is {name!r}; a string is needed")
        chosen = utf8(name.replace("_", "-"))
        if chosen == "none":
            refuse_unknown("precond 'none'", options, ())
        if chosen in ("none", "inner"):
            return chosen, None, {}
        if chosen == "hlu" and _multiple_and_shift(A) is None:
            raise ValueError(
                f"precond 'hlu' is of tacit.hmatrix operators, their multiples and shifts; this is a {A.name} operator"
                + (": compressed() makes one H-matrix of others" if isinstance(A, Composed) else "")
            )
        if isinstance(A, DeviceHMatrix):
            refuse_on_gpus(chosen, "A.to('host') has others")
            return chosen, of_hmatrix(chosen, options), HMATRIX_PRECOND
        if A.device != "host" and (chosen == "inner" or not isinstance(A, DeviceCsr)):
            raise ValueError(
                f"precond {chosen!r} works in host memory, and the {A.name} operator is in that of {A.device}; for a"
                f" DeviceCsr there are {', '.join(n for n in PRECOND_NAMES if n != 'none')}"
            )
        if (isinstance(A, HMatrix) and chosen != "jacobi") or chosen == "hlu":
            choose("preconditioner of an H-matrix", chosen, HMATRIX_PRECOND_NAMES)
            return chosen, of_hmatrix(chosen, options), HMATRIX_PRECOND
        return chosen, filled(chosen, options), PRECOND

    chosen, o, table = agreed(on, look)
    if chosen == "amg":
        return amg(A, **options)
    agree(on, o, table, precond=chosen)
    if chosen == "none":
        return None
    if chosen == "inner":
        return inner(A, **options)
    return noted(_made(A, chosen, o), A, chosen, options)


Named._make = staticmethod(make)


def _multiple_and_shift(A: Operator) -> tuple[complex, HMatrix, complex] | None:
    """scale, H and shift for A = scale H + shift I with an H-matrix H; None for any other A. Local."""
    if isinstance(A, HMatrix):
        return 1, A, 0
    if not isinstance(A, Composed) or A.how not in ("multiple", "shift"):
        return None
    part, number = A.parts if A.how == "shift" else A.parts[::-1]
    found = _multiple_and_shift(part)
    if found is None:
        return None
    scale, matrix, shift = found
    return (scale, matrix, shift + number) if A.how == "shift" else (number * scale, matrix, number * shift)


def _made(A: Operator, chosen: str, o: Any) -> Named:
    """The preconditioner of this name, with options that have been checked. Collective."""
    scalar = A._scalar
    if isinstance(A, DeviceCsr):
        return Named(core("precondition", scalar)(A._handle, chosen, o), A, _core.precond_is_symmetric(chosen, o))
    if chosen == "jacobi" and not isinstance(A, Csr):
        return Named(core("jacobi", scalar)(A._handle, bool(o.absolute)), A, True)
    if chosen == "hlu":
        found = _multiple_and_shift(A)
        assert found is not None
        scale, matrix, shift = found
        made = core("hlu", scalar)(matrix._handle, o, complex(scale), complex(shift))
        return HFactors(made, A, made.report["factors"] == "cholesky")
    if isinstance(A, HMatrix):
        return Reporting(core("block_diagonal", scalar)(A._handle, o), A, chosen in SYMMETRIC_OF_HMATRICES)
    A = stored(A, f"the preconditioner {chosen!r}")
    return Named(core("precondition", scalar)(A._handle, chosen, o), A, _core.precond_is_symmetric(chosen, o))


def factorise(A: Operator, tolerance: float | None = None, **options: Any) -> HFactors:
    """Triangular factors of an H-matrix, in hierarchical form: for solves, and for its determinant. Collective.

    Parameters
    ----------
    A : HMatrix, or composed of H-matrices
        Of a multiple and a shift, ``factorise((2 * A).shifted(0.1))``, the factors are made from the numbers of A, for
        which no entry is evaluated and nothing is stored. Other sums and products become one H-matrix first
        (:meth:`Composed.compressed`).
    tolerance : float, optional
        Of the truncation of low-rank blocks at each step, relative to their norm; default: that of A.
    **options
        ``factors`` ("auto": Cholesky factors of a matrix stored as hermitian, else L U), ``leaf_size``, ``rank``,
        ``precision``: those of "hlu", docs/reference/preconditioners.md.

    Returns
    -------
    HFactors
        F: ``tacit.solve(A, b, precond=F)`` (verified), ``F.solve(b)`` or ``F @ b`` (one solve with the factors),
        ``F.slogdet()``, ``F.logdet_error()``, ``F.updated(U, V)``, ``F.report``. Cost: O(n log^2 n) times the square of
        ranks; memory some times that of the matrix. Ranks share both; results agree to the tolerance.

    References
    ----------
    Grasedyck, Hackbusch (2003), doi 10.1007/s00607-003-0019-1.

    Examples
    --------
    >>> import numpy as np, tacit
    >>> x = np.sort(np.random.default_rng(0).random(1000))
    >>> def covariance(i, j):
    ...     return np.exp(-np.abs(x[i, None] - x[None, j]) / 0.1) + 0.1 * (i[:, None] == j[None])
    >>> A = tacit.hmatrix(x, covariance, symmetry="hermitian", tolerance=1e-8)
    >>> F = tacit.precond.factorise(A)
    >>> tacit.solve(A, np.ones(1000), precond=F).converged
    True
    >>> sign, log = F.slogdet()
    >>> everything = np.arange(1000)
    >>> bool(np.isclose(log, np.linalg.slogdet(covariance(everything, everything))[1], rtol=1e-6))
    True
    """
    if not isinstance(A, (HMatrix, Composed)):
        raise TypeError(
            f"factorise takes a tacit.hmatrix operator, or one composed of them; this is a {type(A).__name__}"
        )
    found = _multiple_and_shift(A)
    if found is None:
        assert isinstance(A, Composed)
        matrix: HMatrix = A.compressed(tolerance)
        A = matrix
    else:
        matrix = found[1]
    made = make(A, "hlu", tolerance=matrix.tolerance if tolerance is None else tolerance, **options)
    assert isinstance(made, HFactors)
    return made


def inner(A: Any, **options: Any) -> Reporting:
    """A few iterations of a method as a preconditioner (inner-outer iteration, variable preconditioning).

    Parameters
    ----------
    A : Operator
        The operator of the inner iterations. For an H-matrix a coarse copy of it is used.
    method : str or object of :mod:`tacit.methods`
        Any method but "auto". Default: "bicgstab".
    iterations : int
        The largest number in an inner solve. Default: 20.
    rtol : float
        An inner solve ends earlier when its residual has fallen by this factor. Default: 0.
    precond : optional
        Preconditioner of the inner iterations. Default: "jacobi" for an H-matrix, else none.
    rank, tolerance
        Of the coarse copy, see :meth:`tacit.HMatrix.coarse`; with rank=None and tolerance=0 the matrix itself is used.
        Default: 1, 1e-2.

    Returns
    -------
    Reporting
        It is not a linear map: use it with bicgstab, or with gmres and side="flexible" (which :func:`tacit.solve`
        chooses by itself). Each apply costs an inner solve. Collective.

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
    A = operator_of(A)

    def look() -> Any:
        if A.device != "host":
            raise ValueError(f"precond 'inner' works in host memory, and A is in that of {A.device}")
        given = {key: value for key, value in options.items() if key != "precond"}
        if given.get("rank", 1) is None:
            given["rank"] = 0
        return of_hmatrix("inner", given)

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
    handle = core("inner", A._scalar)(matrix._handle, None if M is None else M._handle, o, hermitian)
    return noted(Reporting(handle, matrix, False), A, "inner", options)


def _is_with(given: Operator, A: Operator) -> None:
    if given.device != A.device:
        raise ValueError(
            f"precond is in the memory of {given.device} and A in that of {A.device}; tacit.precond.make(A, name) makes"
            " one where A is"
        )


def build(
    A: Operator, given: Any, renumbered: tuple[Operator, _core.Renumbering] | None = None
) -> tuple[Operator | None, bool]:
    """The operator that ``precond=given`` stands for, and whether cg may use it when `A` is positive definite.

    `renumbered`: if the rows of `A` have been renumbered, the matrix in the user's numbering, and the renumbering.
    Collective.
    """
    if is_none(given) and not isinstance(A, (DeviceHMatrix, HMatrix)):
        return None, True
    if given is None or isinstance(given, (str, dict, Described)):
        name, options = agreed(A.comm, lambda: split(given))
        if A.device != "host" and not isinstance(A, DeviceCsr) and name == "none":
            return None, True
        if isinstance(A, DeviceHMatrix):
            return make(A, name, **options), True
        if name in ("inner", "hlu") or isinstance(A, HMatrix):
            return make(A, name, **options), name in SYMMETRIC_OF_HMATRICES
        if name == "amg":
            near_null, coordinates = (options.pop(key, None) for key in AMG_ARRAYS)
            levels = amg_in_numbers(A, renumbered, near_null, coordinates, options)
            return levels, levels.for_cg
        made = make(A, name, **options)
        return made, _core.precond_is_symmetric(name, filled(name, options))
    users = A if renumbered is None else renumbered[0]
    if A.device != "host" and not isinstance(given, Operator):
        raise ValueError(
            f"precond is a {type(given).__name__}; for a matrix in the memory of {A.device} it is a name, or what"
            " tacit.precond.make(A, name) makes of it"
        )
    if isinstance(A, DeviceHMatrix) and isinstance(given, Operator) and not hasattr(given._handle, "gpus"):
        raise ValueError(
            f"precond is a {given.name} operator on one GPU; for an H-matrix on GPUs tacit.precond.make(A, 'jacobi')"
            " makes one"
        )
    if isinstance(given, Operator) and "host" not in (given.device, A.device):
        agreed(A.comm, lambda: _is_with(given, A))  # which GPU is a rank's own affair
    elif isinstance(given, Operator):
        _is_with(given, A)
    if renumbered is not None and A.device != "host" and isinstance(given, Operator):
        raise ValueError("a preconditioner made on a GPU does not go with partition or ordering; name it")
    if isinstance(given, Operator):
        M = as_operator(given, scalar=A.dtype, what="precond")
    else:
        M = as_operator(given, A.comm, A.dtype, what="precond", offsets=users._handle.range_offsets)
    if M.shape != A.shape:
        raise ValueError(f"precond has shape {M.shape}; the matrix has {A.shape}")
    if renumbered is not None:
        M = Operator(core("in_numbers_of", A._scalar)(A._handle, M._handle, renumbered[1]), A.comm, A.dtype)
    return M, getattr(given, "for_cg", True)
