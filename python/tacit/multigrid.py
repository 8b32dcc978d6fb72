"""Geometric multigrid: cells in boxes, finite volumes on them, cycles, and solvers for the coarsest level.

>>> import numpy as np, tacit
>>> cells = tacit.multigrid.cells((32, 32, 32), "periodic")
>>> A = tacit.multigrid.finite_volume(cells, a=1.0, b=0.1)
>>> f = A.sample(lambda x, y, z: np.sin(2 * np.pi * x))
>>> result = tacit.multigrid.solve(A, f)
>>> result.converged
True
>>> A.to_grid(result.x).shape
(32, 32, 32)

Operators are those of :mod:`tacit.op` (``A @ x``, :func:`tacit.solve`), and what :func:`multigrid` makes is a
preconditioner for every Krylov method: ``tacit.solve(A, f, method="cg", precond=M)``.
"""

from __future__ import annotations

import inspect
import itertools
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _core, layout
from . import comm as _comm
from ._support import (
    Array,
    agreed,
    as_array,
    as_vector,
    choose,
    chosen_scalar,
    core,
    default_threads,
    to_scalar,
    using_threads,
)
from .op import Operator

__all__ = [
    "Cells",
    "FiniteVolume",
    "Multigrid",
    "Result",
    "bottoms",
    "cells",
    "cycles",
    "finite_volume",
    "multigrid",
    "smoothers",
    "solve",
    "stencils",
]


def bottoms() -> list[str]:
    """Names of solvers for the coarsest level."""
    return list(_core.bottom_names())


def cycles() -> list[str]:
    return list(_core.cycle_names())


def smoothers() -> list[str]:
    return list(_core.smoother_names())


def stencils() -> list[str]:
    return list(_core.cell_stencil_names())


class Cells:
    """The cells of a rectangular domain that are there, in boxes on ranks. See :func:`cells`."""

    __slots__ = ("_handle", "boundary", "comm", "lengths", "shape")

    def __init__(
        self,
        handle: Any,
        comm: _core.Communicator,
        boundary: Sequence[tuple[str, str]],
        lengths: Sequence[float],
    ) -> None:
        self._handle = handle
        self.comm = comm
        self.shape: tuple[int, ...] = tuple(handle.shape)  #: cells along each axis
        self.boundary = tuple(boundary)
        self.lengths = tuple(lengths)

    @property
    def count(self) -> int:
        """Cells over all ranks."""
        return int(self._handle.cells)

    @property
    def patches(self) -> list[tuple[tuple[int, ...], tuple[int, ...], int]]:
        """(lower, upper, rank) of each box, after those of one rank that make up a larger one were merged."""
        n = len(self.shape)
        return [(tuple(low[:n]), tuple(high[:n]), rank) for low, high, rank in self._handle.patches]

    def __repr__(self) -> str:
        shape = " x ".join(map(str, self.shape))
        part = "" if self._handle.whole else f", {self.count} of them there"
        return f"<tacit cells, {shape}{part}, {len(self._handle.patches)} patches on {self.comm.size} ranks>"

    def centres(self) -> list[Array]:
        """x, (y, (z)) of this rank's cells, in the order of vectors."""
        at = self._handle.centres().reshape(-1, 3)
        return [np.ascontiguousarray(at[:, k]) for k in range(len(self.shape))]

    def from_grid(self, values: Any) -> Array:
        """This rank's elements of a vector from an array of the domain's shape, indexed [x, y, z]."""
        grid = as_array(values, "values")
        if grid.shape != self.shape:
            raise ValueError(f"values have shape {grid.shape}; that of the cells is {self.shape}")
        return np.ascontiguousarray(grid.ravel(order="F")[self._handle.places()])

    def to_grid(self, own: Any, fill: float = np.nan) -> Array:
        """A vector (whole, or this rank's part) as an array indexed [x, y, z], on every rank; `fill` where there is no
        cell. Collective.
        """
        part = agreed(self.comm, lambda: as_vector(own, "a vector of cells"))
        own_places = self._handle.places()
        counts = [int(n) for n in layout.gather(np.array([len(own_places)]), self.comm)]
        offsets = np.concatenate([[0], np.cumsum(counts)]).tolist()
        places = layout.gather(own_places, self.comm)
        if not layout.is_whole(self.comm, len(part), offsets, "a vector of cells"):
            part = layout.gather(part, self.comm)
        grid = np.full(int(np.prod(self.shape)), fill, part.dtype)
        grid[places] = part
        return grid.reshape(self.shape, order="F")


def cells(
    shape: int | Sequence[int],
    boundary: str | Sequence[Any] = "periodic",
    *,
    lengths: Sequence[float] | None = None,
    boxes: int | Sequence[int] | None = None,
    inside: Callable[..., bool] | None = None,
    comm: Any = None,
) -> Cells:
    """Cells of equal width on [0, lengths], 1 to 3 axes.

    Parameters
    ----------
    shape : int or sequence of int
        Cells along each axis.
    boundary : str or sequence
        "periodic", "dirichlet" or "neumann": everywhere, or for each axis, or (low, high) for each axis.
    lengths : sequence of float, optional
        Of the domain. Default: 1.
    boxes : int or sequence of int, optional
        The domain is cut into boxes of so many cells, which are dealt to the ranks and are never cut. Default: one
        box a
        rank.
    inside : callable, optional
        ``inside(x, y, z)``: whether the box with this middle is there; faces to boxes that are not are Dirichlet.
    comm : communicator, optional

    Returns
    -------
    Cells
        Collective.
    """
    on = _comm.resolve(comm)

    def look() -> tuple[list[int], list[tuple[str, str]], list[float], list[int]]:
        n = [int(shape)] if np.ndim(shape) == 0 else [int(v) for v in shape]  # type: ignore[arg-type,union-attr]
        kinds: list[Any] = [boundary] * len(n) if isinstance(boundary, str) else list(boundary)
        if len(kinds) != len(n):
            raise ValueError(f"{len(kinds)} boundaries for {len(n)} axes")
        names = ("periodic", "dirichlet", "neumann")
        pairs = []
        for kind in kinds:
            low, high = (kind, kind) if isinstance(kind, str) else kind
            pairs.append((choose("boundary", low, names), choose("boundary", high, names)))
        extent = [1.0] * len(n) if lengths is None else [float(v) for v in lengths]
        edge = [0, 0, 0]
        if boxes is not None:
            given = [int(v) for v in (np.full(len(n), boxes) if np.ndim(boxes) == 0 else np.asarray(boxes))]
            if len(given) != len(n) or min(given) < 1:
                raise ValueError(f"boxes is {boxes!r}; a positive number, or one for each axis, is needed")
            edge = given + [1] * (3 - len(given))
        if inside is not None and boxes is None:
            raise ValueError("inside chooses among boxes: say boxes=, the cells of one along each axis")
        return n, pairs, extent, edge

    n, pairs, extent, edge = agreed(on, look)
    # With fewer than three axes the callable is given the axes that there are.
    test = None if inside is None else lambda x, y, z: bool(inside(*(x, y, z)[: len(n)]))
    return Cells(_core.boxes(on, n, pairs, extent, edge, test), on, pairs, extent)


class FiniteVolume(Operator):
    """a alpha u - b div(beta grad u) on cells. See :func:`finite_volume`.

    Vectors hold the cells rank by rank and patch by patch; :meth:`from_grid` and :meth:`to_grid` turn arrays of the
    domain's shape into vectors and back.
    """

    __slots__ = ("cells", "stencil")

    def __init__(
        self, handle: Any, comm: _core.Communicator, dtype: npt.DTypeLike, cells: Cells, stencil: str = "7-point"
    ) -> None:
        super().__init__(handle, comm, dtype)
        self.cells = cells
        self.stencil = stencil

    @property
    def singular(self) -> bool:
        """A maps constants to zero: a = 0 and nothing is Dirichlet. Solutions have mean 0, that of f is removed."""
        return bool(self._handle.singular)

    def is_hermitian(self) -> bool:
        return bool(self._handle.symmetric)

    def sample(self, f: Callable[..., Any] | float) -> Array:
        """f(x, y, z) at the centres of this rank's cells; with the fourth-order stencil its averages over them, by two
        Gauss points an axis. `f` takes arrays.
        """
        at = self.cells.centres()
        if self.stencil == "fourth-order" and callable(f):
            values: Any = _averages(f, at, self.cells, range(len(at)))
        else:
            values = f(*at) if callable(f) else f
        return np.ascontiguousarray(np.broadcast_to(np.asarray(values, self.dtype), at[0].shape))

    def boundary_terms(self, value: Any = None, flux: Any = None) -> Array:
        """What the data of the boundary add to the right-hand side of this rank's cells: u = value(x, y, z) on
        Dirichlet
        faces, beta du/dn = flux(x, y, z), outwards, on Neumann faces. Numbers or functions of numbers. Collective.
        """
        axes = len(self.cells.shape)

        def function(g: Any) -> Any:
            if g is None:
                return None
            return (lambda x, y, z: float(g(*(x, y, z)[:axes]))) if callable(g) else (lambda x, y, z: float(g))

        terms: Array = self._handle.boundary_terms(function(value), function(flux))
        return terms

    def from_grid(self, values: Any) -> Array:
        return self.cells.from_grid(values).astype(self.dtype)

    def to_grid(self, own: Any, fill: float = np.nan) -> Array:
        return self.cells.to_grid(own, fill)

    def assemble(self) -> Operator:
        """The same as a sparse matrix. Collective."""
        from .op import Csr

        return Csr(self._handle.assemble(), self.comm, self.dtype)


def _averages(f: Callable[..., Any], at: Sequence[Array], cells: Cells, axes: Any) -> Any:
    """f of arrays, averaged along some axes over the width of a cell by two Gauss points each."""
    total: Any = 0.0
    signs = list(itertools.product((-1, 1), repeat=len(list(axes))))
    for sign in signs:
        moved = list(at)
        for axis, s in zip(axes, sign, strict=True):
            moved[axis] = at[axis] + s * cells.lengths[axis] / cells.shape[axis] / (2 * np.sqrt(3))
        total = total + np.asarray(f(*moved))
    return total / len(signs)


def finite_volume(
    cells: Cells,
    a: float = 0.0,
    b: float = 1.0,
    alpha: Any = None,
    beta: Any = None,
    *,
    stencil: str = "7-point",
    mean: str = "harmonic",
    dtype: npt.DTypeLike = "float64",
) -> FiniteVolume:
    """The operator a alpha u - b div(beta grad u) on cells, without a matrix.

    Parameters
    ----------
    cells : Cells
    a, b : float
    alpha : float, callable or array, optional
        At centres: a number, ``alpha(x, y, z)`` of arrays, or values of this rank's cells. Default: 1.
    beta : float, callable or array, optional
        A callable is asked at the centres of faces. An array holds this rank's cells (``cells.from_grid``), and faces
        take the `mean` of the two beside them. Default: 1.
    stencil : str
        "7-point" (3, 5 or 7 points, second order, symmetric, any boxes), "27-point" (3, 9 or 27 points, second
        order with an error alike in all directions; a, b alone, on cubes) or "fourth-order" (averages over cells;
        alpha and beta numbers or callables). The last two need a whole rectangle; the fourth order also boxes of two
        cells and more at its ends.
    mean : str
        "harmonic" (the flux stays continuous where beta jumps) or "arithmetic".
    dtype : dtype
        float64 or float32.

    Returns
    -------
    FiniteVolume
        Collective; with beta by cells, one exchange.
    """
    axes = len(cells.shape)

    def values(given: Any, at: Array, scalar: str, what: str) -> Array:
        result = given(*(at[:, k] for k in range(axes))) if callable(given) else given
        return to_scalar(np.array(np.broadcast_to(as_array(result, what), (len(at),))), scalar, what)

    def averaged(given: Any, along: Any) -> Any:
        if stencil != "fourth-order" or not callable(given):
            return given
        return lambda *at: _averages(given, at, cells, along)

    def look() -> tuple[str, float, Array | None, list[Array], str]:
        scalar = choose("dtype", chosen_scalar(dtype) or "float64", ("float32", "float64"))
        choose("mean", mean, ("harmonic", "arithmetic"))
        choose("stencil", stencil, stencils())
        fourth = stencil == "fourth-order"
        for name, given in (("alpha", alpha), ("beta", beta)):
            if fourth and given is not None and not callable(given) and np.ndim(given) > 0:
                raise ValueError(
                    f"{name} is an array; the fourth-order stencil takes averages of functions: a callable"
                )
        centres = cells._handle.centres().reshape(-1, 3)
        factor = float(b)
        own = None if alpha is None else values(averaged(alpha, range(axes)), centres, scalar, "alpha")
        if beta is None:
            return scalar, factor, own, [], ""
        if callable(beta):
            faces = [
                values(
                    averaged(beta, [d for d in range(axes) if d != k]),
                    cells._handle.face_centres(k).reshape(-1, 3),
                    scalar,
                    "beta",
                )
                for k in range(axes)
            ]
            return scalar, factor, own, faces, ""
        if np.ndim(beta) == 0:
            return scalar, factor * float(beta), own, [], ""
        by_cell = as_vector(beta, "beta")
        if len(by_cell) != len(centres):
            raise ValueError(f"beta has {len(by_cell)} values; this rank has {len(centres)} cells")
        return scalar, factor, own, [to_scalar(by_cell, scalar, "beta")], mean

    scalar, factor, own, faces, how = agreed(cells.comm, look)
    handle = core("finite_volume", scalar)(cells._handle, float(a), factor, own, faces, how, stencil)
    return FiniteVolume(handle, cells.comm, scalar, cells, stencil)


class Result:
    """How a multigrid solve ended.

    Attributes
    ----------
    x : numpy.ndarray
        The solution, in the form of the right-hand side (whole, or this rank's part).
    converged, reason, advice
        reason: "converged", "max_cycles", "stagnated", "diverged", "non_finite".
    cycles : int
    residual_norm : float
        ||f - A x|| / ||f||, recomputed by the operator.
    history : list of float
        ||r|| / ||f|| before the first cycle and after each.
    bottom, bottom_choice, bottom_solves, bottom_iterations, bottom_failures
        bottom_choice: why it was taken, and why cells moved to fewer ranks or did not, where that was left open.
    levels : list of dict
        cells, patches, ranks, half_sweeps, exchanges, and seconds by operation (this rank's).
    counts : dict
        reductions, exchanges (this rank's), messages, bytes (all ranks').
    seconds : dict
        "setup", "solve", "bottom".
    dofs_per_second : float
    warnings : list of str
    """

    def __init__(self, x: Array, report: dict[str, Any], setup: float, unknowns: int) -> None:
        self.x = x
        self.report = report
        for name in (
            "converged",
            "reason",
            "advice",
            "norm",
            "cycles",
            "residual_norm",
            "history",
            "bottom",
            "bottom_choice",
            "warnings",
        ):
            setattr(self, name, report[name])
        for name in ("bottom_solves", "bottom_iterations", "bottom_failures", "levels", "counts"):
            setattr(self, name, report[name])
        bottom = sum(level["seconds"]["bottom"] for level in report["levels"])
        self.seconds = {"setup": setup, "solve": report["seconds"], "bottom": bottom}
        self.unknowns = unknowns

    converged: bool
    reason: str
    advice: str
    norm: str
    cycles: int
    residual_norm: float
    history: list[float]
    bottom: str
    bottom_choice: str
    bottom_solves: int
    bottom_iterations: int
    bottom_failures: int
    levels: list[dict[str, Any]]
    counts: dict[str, int]
    warnings: list[str]

    @property
    def dofs_per_second(self) -> float:
        return float(self.unknowns / self.seconds["solve"]) if self.seconds["solve"] > 0 else 0.0

    def __repr__(self) -> str:
        return (
            f"<{self.reason} after {self.cycles} cycles, residual {self.residual_norm:.2e} ({self.norm} norm), "
            f"bottom {self.bottom}: {self.bottom_iterations} iterations, {self.seconds['solve']:.3f} s>"
        )


class Multigrid(Operator):
    """One cycle from zero as an operator (``precond=`` of :func:`tacit.solve`), and a solver. See :func:`multigrid`."""

    __slots__ = ("A", "options", "setup_seconds")

    def __init__(self, handle: Any, A: FiniteVolume, options: dict[str, Any], seconds: float) -> None:
        super().__init__(handle, A.comm, A.dtype)
        self.A = A
        self.options = options
        self.setup_seconds = seconds

    @property
    def levels(self) -> int:
        return int(self._handle.levels)

    def take_report(self) -> dict[str, Any]:
        """What levels and bottom have done since the last solve or the last call: levels, bottom, bottom_choice,
        bottom_solves, bottom_iterations, bottom_failures, warnings, as in :class:`Result`. Of cycles as a
        preconditioner."""
        return {"levels": self._handle.take_levels(), **self._handle.take_bottom()}

    def solve(
        self,
        f: Any,
        x0: Any = None,
        *,
        rtol: float = 1e-10,
        atol: float = 0.0,
        max_cycles: int = 50,
        norm: str = "max",
        threads: int | None = None,
    ) -> Result:
        """Cycles from x0 until ||f - A x|| <= max(rtol ||f||, atol), in the largest magnitude ("max") or the 2-norm
        ("2"),
        which the operator confirms. Collective.
        """

        def run(*given: Any) -> tuple[Array, dict[str, Any], float]:
            x, report = self._handle.solve(*given)
            return x, report, self.setup_seconds

        return _solved(self.A, f, run, x0, rtol=rtol, atol=atol, max_cycles=max_cycles, norm=norm, threads=threads)


def _solved(
    A: FiniteVolume,
    f: Any,
    run: Callable[..., tuple[Array, dict[str, Any], float]],
    x0: Any = None,
    *,
    rtol: float = 1e-10,
    atol: float = 0.0,
    max_cycles: int = 50,
    norm: str = "max",
    threads: int | None = None,
) -> Result:
    """Looks at what was given, takes this rank's part of it to `run`, and gathers x where f was whole."""
    on, scalar = A.comm, A.dtype.name
    offsets = A._handle.range_offsets

    def look() -> tuple[Array, Array | None]:
        choose("norm", norm, _core.norm_names())
        for name, value in (("rtol", rtol), ("atol", atol), ("max_cycles", max_cycles)):
            if not (np.isfinite(value) and value >= 0):
                raise ValueError(f"{name} is {value}; a number >= 0 is needed")
        return as_vector(f, "f"), None if x0 is None else as_vector(x0, "x0")

    right, guess = agreed(on, look)
    whole = layout.is_whole(on, len(right), offsets, "f")
    own = to_scalar(layout.own_part(right, on, offsets, whole), scalar, "f")
    start = None
    if guess is not None:
        whole_guess = layout.is_whole(on, len(guess), offsets, "x0")
        start = to_scalar(layout.own_part(guess, on, offsets, whole_guess), scalar, "x0")
    with using_threads(default_threads(on) if threads is None else int(threads)):
        x, report, setup = run(own, start, float(rtol), float(atol), int(max_cycles), norm)
    x = layout.gather(x, on) if whole and on.size > 1 else x
    return Result(x, report, setup, A.shape[0])


def multigrid(
    A: FiniteVolume,
    *,
    cycle: str = "V",
    smoother: str = "gauss-seidel",
    interpolation: str | None = None,
    restriction: str = "constant",
    full_interpolation: str | None = None,
    pre: int = 2,
    post: int = 2,
    symmetric: bool = False,
    bottom: str = "automatic",
    bottom_reduction: float = 1e-3,
    bottom_norm: str = "max",
    bottom_max_iterations: int = 1000,
    step: int | None = None,
    basis: str | None = None,
    powers: str | None = None,
    depth: int | None = None,
    smallest_box: int | None = None,
    agglomerate_below: int | None = None,
    levels: int = 0,
    single_levels: bool = False,
    relaxation: float | None = None,
    chebyshev_range: float | None = None,
) -> Multigrid:
    """Multigrid for a finite-volume operator.

    Parameters
    ----------
    A : FiniteVolume
    cycle : str
        "V", "W", "F" (full multigrid; a solve goes on with V) or "U" (ends where boxes have `smallest_box` cells
        along an
        axis: no box moves to another rank).
    smoother : str
        "gauss-seidel" (red-black), "chebyshev", "jacobi", "l1-jacobi".
    interpolation : str, optional
        Of corrections: "constant", "linear", "quadratic", "cubic", "quartic". Above linear: exact for averages
        over cells. [constant; quadratic with the fourth-order stencil]
    restriction : str
        Of residuals: the adjoint of this interpolation; "constant" sums them over the children.
    full_interpolation : str, optional
        Of solutions, by the F-cycle. [linear; quartic with the fourth-order stencil]
    pre, post : int
        Sweeps before and after the coarser level.
    symmetric : bool
        Sweeps after mirror those before: for cg.
    bottom : str
        "automatic" (direct for few cells, else the cheapest of bicgstab and ca-bicgstab by measured sums and products,
        and whether levels move to fewer ranks is decided by predicted time too; ``Result.bottom_choice`` tells),
        "direct", "smoother" or a Krylov method: "bicgstab", "cg", "ca-bicgstab", "ca-cg",
        "pipelined-bicgstab", .. (:func:`bottoms`). One that fails is followed by its smaller steps, by the classical
        method, by the smoother; ``Result.warnings`` tells.
    bottom_reduction, bottom_norm, bottom_max_iterations
        A bottom solve reduces its residual by this factor, in this norm ("max", "2").
    step, basis, powers, depth
        Of the Krylov bottom, as in :func:`tacit.solve`; refused where `bottom` names none.
    smallest_box : int, optional
        An axis is coarsened while its boxes have at least twice as many cells. [2; 4 for "U"]
    agglomerate_below : int, optional
        Levels with fewer cells a rank move to fewer ranks; 0: none moves. [4096; 0 for "U"; with the automatic bottom
        they stay where a Krylov method on all ranks is predicted to be cheaper]
    levels : int
        At most; 0: as many as go.
    single_levels : bool
        Levels in float32, residuals and solutions in float64.
    relaxation : float, optional
        Of "jacobi", refused with another smoother. [6/7]
    chebyshev_range : float, optional
        "chebyshev" smooths [lambda_max / range, lambda_max]; refused with another smoother. [4]

    Returns
    -------
    Multigrid
        Collective.
    """
    options = {k: v for k, v in locals().items() if k != "A"}

    def look() -> None:
        choose("cycle", cycle, cycles())
        choose("smoother", smoother, smoothers())
        names = list(_core.interpolation_names())
        choose("restriction", restriction, names)
        for what, given in (("interpolation", interpolation), ("full_interpolation", full_interpolation)):
            if given is not None:
                choose(what, given, names)
        choose("bottom", bottom, bottoms())
        choose("bottom_norm", bottom_norm, _core.norm_names())
        if not isinstance(A, FiniteVolume):
            raise TypeError(f"A is a {type(A).__name__}; what finite_volume() makes is needed")

    agreed(A.comm, look)
    begin = time.perf_counter()
    handle = core("multigrid", A.dtype.name)(A._handle, options)
    return Multigrid(handle, A, options, time.perf_counter() - begin)


_SOLVE = ("x0", "rtol", "atol", "max_cycles", "norm", "threads")
_MAKE = tuple(name for name in inspect.signature(multigrid).parameters if name != "A")


def solve(A: FiniteVolume, f: Any, *, device: str = "host", **options: Any) -> Result:
    """``multigrid(A, ...).solve(f, ...)``: options of both.

    Parameters
    ----------
    device : str
        "host"; "cuda": levels, vectors and cycles in the memory of the GPU, which has V-, W- and U-cycles of 3, 5 and 7
        points on one rank, interpolates constantly or linearly, and solves the bottom (the first level of at most
        `bottom_cells` = 4096 cells) by bicgstab in one launch; other options are refused. "virtual": the same
        kernels, played by the processor.
    """
    from ._support import refuse_unknown

    making = _MAKE if device == "host" else (*_MAKE, "bottom_cells")
    unknown = {k: v for k, v in options.items() if k not in _SOLVE and k not in making}

    def look() -> None:
        choose("device", device, ["host", "cuda", "virtual"])
        refuse_unknown("multigrid.solve", unknown, [*_SOLVE, *making])
        if device == "cuda" and not (_core.cuda_built and _core.device_available()):
            why = "no GPU answers" if _core.cuda_built else "this Tacit was built without CUDA"
            raise _core.EnvironmentFailure(f"device='cuda': {why}")

    agreed(A.comm, look)
    made = {k: v for k, v in options.items() if k in making}
    solving = {k: v for k, v in options.items() if k in _SOLVE}
    if device == "host":
        return multigrid(A, **made).solve(f, **solving)

    def run(*given: Any) -> tuple[Array, dict[str, Any], float]:
        done: tuple[Array, dict[str, Any], float] = core("multigrid_on_device", A.dtype.name)(
            A._handle, made, device, *given
        )
        return done

    return _solved(A, f, run, **solving)
