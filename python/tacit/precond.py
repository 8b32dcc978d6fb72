"""Preconditioners: operators that approximate the inverse of a matrix.

``precond=`` of :func:`tacit.solve` takes a name, a ``dict(name=..., option=...)``, anything that stands for an
operator, or a preconditioner made by :func:`make` or :func:`inner` (which can be used in several solves).

For stored matrices: "none", "jacobi", "block-jacobi", "ilu0", "ic0", "iluk", "ick", "ilut", "spai", "fsai",
"polynomial", "schwarz", "amg" and "direct"; the classes here (:class:`Jacobi`, :class:`Ilu0`, ..) say what each does
and which options it takes; docs/reference/preconditioners.md has the table. For any operator: "inner", a few iterations
of another method (:func:`inner`).

For :func:`tacit.hmatrix` operators:

================== ========================================================================== ========================
jacobi             divides by the diagonal                                                    absolute
block-jacobi       inverts the near field of clusters of at most `size` points (400)          size, precision
hlu                approximate triangular factors in hierarchical form; with a small          tolerance, rank,
                   tolerance a direct solver (:func:`factorise`)                              leaf_size, factors,
                                                                                              precision
inner              20 iterations of bicgstab, with jacobi, on a copy of the matrix whose      see :func:`inner`
                   low-rank blocks are cut to rank one
================== ========================================================================== ========================

`precision` is "auto" (single where the tolerance allows it, since the factors are approximate), "single" or "full".

For matrices in the memory of a GPU (:class:`tacit.DeviceCsr`): all those of stored matrices but "direct". Incomplete
factors and the levels of "amg" are made by the host; their solves and cycles stay there. For H-matrices on GPUs
(:class:`tacit.DeviceHMatrix`): "jacobi".
"""

from __future__ import annotations

import os
import warnings
from typing import Any, NamedTuple, TypeVar

import numpy as np

from . import _core, _preconds, layout, report
from . import comm as _comm
from ._alike import alike
from ._described import HMATRIX_PRECOND, HMATRIX_PRECOND_NAMES, PRECOND, PRECOND_NAMES
from ._options import Described, Preconditioner, agree, fill, of_its_kind
from ._preconds import *  # noqa: F403
from ._support import Array, agreed, as_array, choose, core, refuse_unknown, to_scalar, utf8, vectors_of, whole_number
from .op import Composed, Csr, DeviceCsr, DeviceHMatrix, HMatrix, Operator, as_operator, low_rank, stored

__all__ = [
    "HFactors",
    "Reporting",
    "UpdatedFactors",
    "amg",
    "build",
    "factorise",
    "inner",
    "make",
    "names",
    "rigid_body_modes",
]
__all__ += _preconds.__all__

N = TypeVar("N", bound="Named")

# What amg takes beside the options of its table: arrays, whole or a rank's own part.
AMG_ARRAYS = ("near_null", "coordinates")

# Those of H-matrices on GPUs.
_ON_GPUS = ("none", "jacobi")

# Preconditioners of H-matrices that are Hermitian positive definite when the matrix is, so that cg may use them.
_SYMMETRIC_OF_HMATRICES = {"none", "jacobi", "block-jacobi"}


class Named(Operator):
    """A preconditioner made by its name. `for_cg`: whether cg may use it for a positive definite matrix.

    A pickle or copy of one that :func:`make`, :func:`amg` or :func:`inner` returned holds the matrix and the options:
    loading costs as much as making it. TypeError where the matrix has been given other values since.
    """

    __slots__ = ("_recipe", "for_cg")

    def __init__(self, handle: Any, A: Operator, for_cg: bool) -> None:
        super().__init__(handle, A.comm, A.dtype)
        self.for_cg = for_cg
        self._recipe: _Recipe | None = None

    def _state(self) -> tuple[Any, ...]:
        if self._recipe is None:
            return super()._state()
        A, version, name, options = self._recipe
        if version != _version(A):
            raise TypeError(
                f"the values of the matrix have changed since {name!r} was made: it can be neither pickled nor copied;"
                " make it anew" + (", or update() it" if isinstance(self, Multilevel) else "")
            )
        return A, name, options

    @classmethod
    def _made_from(cls, comm: _core.Communicator, *state: Any) -> Operator:
        A, name, options = state
        made = make(A, name, **options)
        assert made is not None
        return made


class _Recipe(NamedTuple):
    """What a preconditioner was made of; the version is that of the matrix's values."""

    A: Operator
    version: int
    name: str
    options: dict[str, Any]


def _version(A: Operator) -> int:
    return int(getattr(A, "_version", 0))


def _noted(made: N, A: Operator, name: str, options: dict[str, Any]) -> N:
    made._recipe = _Recipe(A, _version(A), name, options)
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


class Multilevel(Reporting):
    """Algebraic multigrid: ``print(M)`` shows its levels, ``M.plot(path)`` draws them; ``M.update()``: new values."""

    __slots__ = ()

    def update(self) -> bool:
        """Takes the values that the matrix has now, after its ``update_values``.

        Aggregates and the places of all entries of the levels' matrices stay, and their numbers are made anew: those of
        new levels (real ones to the bit) where the strong couplings are the same. The first update also finds the
        places of all products, and takes longer than :func:`amg`; later ones take 0.25 to 0.45 of it
        (measured). A matrix that is Hermitian now and was not, or the other way round, one of whose entries many were
        zero, and classical coarsening, get new levels.

        Returns
        -------
        bool
            Whether the levels were kept.

        Raises
        ------
        tacit.InputError
            For values that are not finite.
        ValueError
            On a GPU; and as :func:`amg`, where new levels are made. The object has no levels then, until an update
            succeeds.

        Notes
        -----
        Collective.

        Examples
        --------
        >>> import numpy as np, tacit
        >>> A = tacit.poisson((50, 50), assembled=True)
        >>> M = tacit.precond.amg(A)
        >>> A.update_values(3 * A.local_rows()[2])
        >>> M.update(), tacit.solve(A, np.ones(2500), method="cg", precond=M).iterations < 20
        (True, True)
        """
        if self._gpu is not None:
            raise ValueError("amg on a GPU cannot take new values: make it anew with tacit.precond.amg(A)")
        kept = bool(self._handle.update())
        if self._recipe is not None:
            self._recipe = self._recipe._replace(version=_version(self._recipe.A))
        return kept

    def __str__(self) -> str:
        return f"{self!r}\n" + report.levels_table(self.report)

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Plots unknowns, entries and seconds of each level to a file (needs matplotlib). Local; rank 0 writes."""
        if self.comm.rank == 0:
            from .plot import amg as picture

            picture.levels(self.report, path)


def names() -> list[str]:
    """The names that ``precond=`` takes for stored matrices; those for H-matrices are in the module's docstring.

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


NONE = {"name": "none"}  #: what ``precond=None`` stands for; not to be changed


def is_none(given: Any) -> bool:
    """Whether ``precond=given`` certainly stands for none; so that small solves need not look further. Local."""
    return given is NONE or given is None or (type(given) in (str, dict) and given in ("none", NONE))


def node_of(given: Any) -> int:
    """Rows that ``precond=given`` needs on one rank: a node of amg's. Local."""
    if not isinstance(given, (str, dict, Described)) or is_none(given):
        return 1
    name, options = split(given)
    if name != "amg":
        return 1
    if options.get("coordinates") is not None:
        return int(_points(options["coordinates"]).shape[1])
    return max(1, int(_filled(name, options).block or 1))


def _filled(name: str, options: dict[str, Any]) -> Any:
    """The options as an object of the compiled part, checked."""
    taken = {key: option for key, option in PRECOND.items() if name in option.takers or name not in PRECOND_NAMES}
    arrays = AMG_ARRAYS if name == "amg" else ()
    given = {key: value for key, value in options.items() if key not in arrays}
    return fill(_core.PrecondOptions(), f"precond {name!r}", taken, given, arrays)


def _of_hmatrix(name: str, options: dict[str, Any]) -> Any:
    """The same for a preconditioner of H-matrices."""
    taken = {key: option for key, option in HMATRIX_PRECOND.items() if name in option.takers}
    o = fill(core("HMatrixPrecondOptions")(), f"precond {name!r}", taken, options)
    _core.check_hmatrix_precond(o, name)
    return o


def refuse_on_gpus(given: Any, cure: str) -> None:
    """ValueError, which ends with the `cure`, where ``precond=given`` does not work with an H-matrix on GPUs. Local."""
    if isinstance(given, Operator):
        if given.device == "host":
            raise ValueError(
                f"precond is in host memory and A on GPUs; tacit.precond.make(A, 'jacobi') makes one there: {cure}"
            )
        return
    if given is not None and not isinstance(given, (str, dict, Described)):
        raise ValueError(f"precond is a {type(given).__name__}; with an H-matrix on GPUs it is named: {cure}")
    name, _ = split(given)
    if name not in _ON_GPUS:
        raise ValueError(
            f"precond {name!r} works in host memory; an H-matrix on GPUs has {', '.join(_ON_GPUS)}: {cure}"
        )


def _operator(A: Any) -> Operator:
    """An operator of Tacit, made of what stands for a matrix. Collective."""
    return A if isinstance(A, Operator) else as_operator(A)


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
    A = _operator(A)
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
            return chosen, _of_hmatrix(chosen, options), HMATRIX_PRECOND
        if A.device != "host" and (chosen == "inner" or not isinstance(A, DeviceCsr)):
            raise ValueError(
                f"precond {chosen!r} works in host memory, and the {A.name} operator is in that of {A.device}; for a"
                f" DeviceCsr there are {', '.join(n for n in PRECOND_NAMES if n != 'none')}"
            )
        if (isinstance(A, HMatrix) and chosen != "jacobi") or chosen == "hlu":
            choose("preconditioner of an H-matrix", chosen, HMATRIX_PRECOND_NAMES)
            return chosen, _of_hmatrix(chosen, options), HMATRIX_PRECOND
        return chosen, _filled(chosen, options), PRECOND

    chosen, o, table = agreed(on, look)
    if chosen == "amg":
        return amg(A, **options)
    agree(on, o, table, precond=chosen)
    if chosen == "none":
        return None
    if chosen == "inner":
        return inner(A, **options)
    return _noted(_made(A, chosen, o), A, chosen, options)


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
        return Reporting(core("block_diagonal", scalar)(A._handle, o), A, chosen in _SYMMETRIC_OF_HMATRICES)
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


def amg(A: Any, near_null: Any = None, coordinates: Any = None, **options: Any) -> Multilevel:
    """Algebraic multigrid by smoothed aggregation: levels from the entries of a stored matrix.

    Parameters
    ----------
    A : Operator
        A stored matrix, or one of SciPy, NumPy or petsc4py. For one in the memory of a GPU the levels are made by the
        host and stay there, and so does the cycle. Smoothers there: "spai0", "jacobi", "l1-jacobi", "chebyshev".
    near_null : array of shape (n,) or (n, k), optional
        Vectors that A nearly maps to zero, whole or this rank's own part. Default: for each of the ``block`` unknowns
        of a node the vector that is constant there.
    coordinates : array of shape (n / d, d), optional
        Of elasticity in d = 2 or 3 dimensions: the nodes, whole or this rank's own part; rows d i to d i + d - 1 of A
        are the displacements of node i. The near-null vectors are then the :func:`rigid_body_modes`, ``block`` is d.
    **options
        ``coarsening``, ``strength``, ``interpolation``, ``p_max``, ``aggressive``, ``smoother``, ``cycle``, ``sweeps``,
        ``coarsest``, ``block``: docs/reference/preconditioners.md.

    Returns
    -------
    Multilevel
        An apply is one cycle from zero; ``print`` shows the levels, ``update()`` takes new values of A. Collective.
        Cost and memory: ``include/tacit/precond/amg.hpp``.

    Raises
    ------
    ValueError, TypeError
        For an option out of range; for `near_null` or `coordinates` of another size or with values that are not finite,
        both of them, a vector of zeros, another `block` than d, or ranks that do not begin with whole nodes.

    References
    ----------
    Vanek, Mandel, Brezina (1996), doi 10.1007/BF02238511.

    Examples
    --------
    >>> import numpy as np, tacit
    >>> A = tacit.poisson((50, 50), assembled=True)
    >>> M = tacit.precond.amg(A, smoother="gauss-seidel")
    >>> tacit.solve(A, np.ones(2500), method="cg", precond=M).iterations < 20, len(M.report["levels"])
    (True, 3)
    """
    A = _operator(A)
    arrays = {"near_null": near_null, "coordinates": coordinates}
    given = {**options, **{name: array for name, array in arrays.items() if array is not None}}
    return _noted(_amg(A, None, near_null, coordinates, options), A, "amg", given)


def _amg(
    A: Operator,
    renumbered: tuple[Operator, _core.Renumbering] | None,
    near_null: Any,
    coordinates: Any,
    options: dict[str, Any],
) -> Multilevel:
    """:func:`amg`, with arrays in the user's numbering where the rows of `A` have been renumbered."""
    on = A.comm
    if isinstance(near_null, str) and near_null == "constant" and coordinates is None:  # the default
        near_null = None

    def look() -> tuple[Any, Any, Any]:
        if near_null is not None and coordinates is not None:
            raise ValueError("near_null and coordinates are both given; coordinates stand for the rigid-body modes")
        points = None if coordinates is None else _points(coordinates)
        o = _filled("amg", options)
        block = o.block or 1 if points is None else points.shape[1]
        if o.block not in (None, block):
            raise ValueError(f"block is {o.block}, and coordinates has {block} columns; each node has as many unknowns")
        if renumbered is not None and block > 1:
            raise ValueError(
                f"amg with nodes of {block} unknowns needs the rows in the order given; partition='graph' and "
                "ordering='rcm' take the unknowns of a node apart"
            )
        found = vectors_of(near_null, "near_null")
        if found is not None and found.shape[1] == 0:
            raise ValueError(f"near_null has shape {found.shape}; at least one vector is needed")
        return found, points, o

    vectors, points, o = agreed(on, look)
    arrays = {"near_null": "none" if vectors is None else f"{vectors.shape[1]} vectors"}
    arrays["coordinates"] = "none" if points is None else f"of {points.shape[1]} dimensions"
    agree(on, o, PRECOND, precond="amg", **arrays)
    if points is not None:
        o.block = points.shape[1]
    if not isinstance(A, DeviceCsr):
        A = stored(A, "the preconditioner 'amg'")
    offsets = A._handle.range_offsets if renumbered is None else renumbered[0]._handle.range_offsets
    if points is not None:
        vectors = _modes_of(points, on, offsets)
        whole = False
    elif vectors is not None:
        whole = layout.form(on, vectors, offsets, "near_null")
    own = None
    if vectors is not None:
        part = layout.own_part(vectors, on, offsets, whole)
        own = agreed(on, lambda: np.ascontiguousarray(to_scalar(part, A._scalar, "near_null")))
        if renumbered is not None:
            forward = getattr(renumbered[1], f"forward_{A._scalar}")
            own = np.stack([forward(on, np.ascontiguousarray(own[:, c])) for c in range(own.shape[1])], axis=1)
            own = np.ascontiguousarray(own)
    return Multilevel(core("amg", A._scalar)(A._handle, own, o), A, _core.precond_is_symmetric("amg", o))


def _points(coordinates: Any) -> Array:
    """The nodes, (nodes, 2 or 3), float64."""
    points = as_array(coordinates, "coordinates")
    if points.ndim != 2 or points.shape[1] not in (2, 3):
        raise ValueError(f"coordinates has shape {points.shape}; (nodes, 2) or (nodes, 3) is needed")
    return to_scalar(points, "float64", "coordinates")


def _modes_of(points: Array, on: Any, offsets: Any) -> Array:
    """This rank's rows of the rigid-body modes of nodes that are given whole or in parts. Collective."""
    d = points.shape[1]
    for rank, begin in enumerate(offsets):
        if begin % d:
            what = f"rank {rank} begins at row {begin}" if rank < on.size else f"A has {begin} rows"
            raise ValueError(f"coordinates has {d} columns, and {what}, no multiple of it; give each rank whole nodes")
    nodes = [begin // d for begin in offsets]
    whole = layout.form(on, points, nodes, "coordinates")
    part = np.ascontiguousarray(layout.own_part(points, on, nodes, whole))
    return np.asarray(core("rigid_body_modes")(on, part))


def rigid_body_modes(coordinates: Any, comm: Any = None) -> Array:
    """What elasticity without supports maps to zero: small motions of a rigid body, as ``near_null`` of :func:`amg`.

    With y = (x - c) / L, where c is the centre of the box around all nodes and 2 L its longest edge, the displacements
    of a node at x are: translations e_1 .. e_d; then rotations, in two dimensions (-y_2, y_1), in three (0, -y_3, y_2),
    (y_3, 0, -y_1) and (-y_2, y_1, 0). Rotations that move no node (about the line on which all nodes lie) are left
    out.

    Parameters
    ----------
    coordinates : array of shape (nodes, d)
        d = 2 or 3; on several ranks all nodes on each of them, or each rank's own.
    comm : communicator, optional
        The ranks that have nodes of the same body. Default: as of :func:`tacit.csr`.

    Returns
    -------
    ndarray of shape (d nodes, k)
        k = 3 or 6, fewer for nodes on a line. Row d i + j is displacement j of node i. Collective.

    Raises
    ------
    ValueError
        For another shape, or a coordinate that is not finite.

    Examples
    --------
    >>> import tacit
    >>> tacit.precond.rigid_body_modes([[0, 0], [2, 0], [2, 2], [0, 2]])[:4]
    array([[ 1.,  0.,  1.],
           [ 0.,  1., -1.],
           [ 1.,  0.,  1.],
           [ 0.,  1.,  1.]])
    """
    on = _comm.resolve(comm)
    points, _ = alike(on, lambda: _points(coordinates), lambda points: {"coordinates": f"{points.shape[1]} columns"})
    return np.asarray(core("rigid_body_modes")(on, points))


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
    A = _operator(A)

    def look() -> Any:
        if A.device != "host":
            raise ValueError(f"precond 'inner' works in host memory, and A is in that of {A.device}")
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
    handle = core("inner", A._scalar)(matrix._handle, None if M is None else M._handle, o, hermitian)
    return _noted(Reporting(handle, matrix, False), A, "inner", options)


class NamedChoice(NamedTuple):
    """What ``precond=given`` stands for where only names are taken."""

    name: str
    options: _core.PrecondOptions
    of_hmatrices: _core.HMatrixPrecondOptions
    symmetric: bool  #: whether cg may use it for a positive definite matrix


def named(given: Any, where: str, hierarchical: bool = False) -> NamedChoice:
    """The name and options that ``precond=given`` stands for, of stored matrices or of H-matrices. `where`: what
    accepts names only, for the error.
    """
    if given is not None and not isinstance(given, (str, dict, Described)):
        raise ValueError(f"precond is a {type(given).__name__}; {where} it is given by name")
    name, options = split(given)
    plain, of_hmatrices = _core.PrecondOptions(), core("HMatrixPrecondOptions")()
    if not hierarchical:
        filled = _filled(name, options)
        return NamedChoice(name, filled, of_hmatrices, _core.precond_is_symmetric(name, filled))
    known = [kind for kind in HMATRIX_PRECOND_NAMES if kind != "inner"]
    if name == "inner":
        raise ValueError(f"precond 'inner' solves with another matrix; {where} there are {', '.join(known)}")
    choose("preconditioner of an H-matrix", name, known)
    of_hmatrices = _of_hmatrix(name, options)
    return NamedChoice(name, plain, of_hmatrices, name in _SYMMETRIC_OF_HMATRICES)


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
            return make(A, name, **options), name in _SYMMETRIC_OF_HMATRICES
        if name == "amg":
            near_null, coordinates = (options.pop(key, None) for key in AMG_ARRAYS)
            levels = _amg(A, renumbered, near_null, coordinates, options)
            return levels, levels.for_cg
        made = make(A, name, **options)
        return made, _core.precond_is_symmetric(name, _filled(name, options))
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
