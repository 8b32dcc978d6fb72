"""Cells in boxes, and finite-volume operators on them. All names are in :mod:`tacit.multigrid` too."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _core, layout
from .. import comm as _comm
from .._alike import Whole, alike
from .._described import BOUNDARIES, MEANS, STENCILS
from .._support import Array, as_array, as_vector, choose, chosen_scalar, core, to_scalar
from ..op import Operator

__all__ = ["Cells", "FiniteVolume", "cells", "finite_volume", "stencils"]


def stencils() -> list[str]:
    """Names for `stencil` of :func:`finite_volume`."""
    return list(STENCILS)


class Cells:
    """The cells of a rectangular domain, or of some boxes of it, distributed over ranks. See :func:`cells`."""

    __slots__ = ("_handle", "boundary", "comm", "lengths", "shape")

    def __init__(
        self, handle: Any, comm: _core.Communicator, boundary: Sequence[tuple[str, str]], lengths: Sequence[float]
    ) -> None:
        self._handle = handle
        self.comm = comm
        self.shape: tuple[int, ...] = tuple(handle.shape)  #: cells along each axis
        self.boundary = tuple(boundary)
        self.lengths = tuple(lengths)

    @property
    def count(self) -> int:
        """The number of cells over all ranks."""
        return int(self._handle.cells)

    @property
    def patches(self) -> list[tuple[tuple[int, ...], tuple[int, ...], int]]:
        """(lower, upper, rank) of each box, after boxes of one rank that make up a larger box have been merged."""
        n = len(self.shape)
        return [(tuple(low[:n]), tuple(high[:n]), rank) for low, high, rank in self._handle.patches]

    def __repr__(self) -> str:
        shape = " x ".join(map(str, self.shape))
        part = "" if self._handle.whole else f", {self.count} of them there"
        return f"<tacit cells, {shape}{part}, {len(self._handle.patches)} patches on {self.comm.size} ranks>"

    def centres(self) -> list[Array]:
        """The coordinates x, (y, (z)) of the centres of this rank's cells, in the order of vectors."""
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
        part, _ = alike(self.comm, lambda: as_vector(own, "a vector of cells"), lambda part: {"dtype": str(part.dtype)})
        own_places = self._handle.places()
        counts = [int(n) for n in layout.gather(np.array([len(own_places)]), self.comm)]
        offsets = np.concatenate([[0], np.cumsum(counts)]).tolist()
        places = layout.gather(own_places, self.comm)
        if not layout.form(self.comm, part, offsets, "a vector of cells"):
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
        Cells of a box along each axis. The domain is divided into such boxes, and each is assigned to a rank whole.
        Default: one box for each rank.
    inside : callable, optional
        ``inside(x, y, z)``: whether the box with this centre is part of the domain. Faces to boxes that are not are
        Dirichlet faces.
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
        pairs = []
        for kind in kinds:
            low, high = (kind, kind) if isinstance(kind, str) else kind
            pairs.append((choose("boundary", low, BOUNDARIES), choose("boundary", high, BOUNDARIES)))
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

    def tell(found: tuple[list[int], list[tuple[str, str]], list[float], list[int]]) -> dict[str, Any]:
        n, pairs, extent, edge = found
        sizes = {"shape": tuple(n), "boundary": pairs, "boxes": edge if boxes is not None else None}
        return {**sizes, "lengths": Whole(np.asarray(extent), "first"), "inside": _kind(inside)}

    (n, pairs, _, edge), first = alike(on, look, tell)
    extent = first["lengths"].tolist()
    # With fewer than three axes the callable is given one argument for each axis.
    test = None if inside is None else lambda x, y, z: bool(inside(*(x, y, z)[: len(n)]))
    return Cells(core("boxes")(on, n, pairs, extent, edge, test), on, pairs, extent)


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
        """Whether A maps constants to zero: a = 0 and no Dirichlet face. Then the mean of f is subtracted, and
        solutions have mean 0.
        """
        return bool(self._handle.singular)

    def is_hermitian(self) -> bool:
        return bool(self._handle.symmetric)

    def sample(self, f: Callable[..., Any] | float) -> Array:
        """f(x, y, z) at the centres of this rank's cells; with the fourth-order stencil the averages over cells, by two
        Gauss points along each axis. `f` is a number or a function of arrays. Local.
        """
        at = self.cells.centres()
        if self.stencil == "fourth-order" and callable(f):
            values: Any = _averages(f, at, self.cells, range(len(at)))
        else:
            values = f(*at) if callable(f) else f
        return np.ascontiguousarray(np.broadcast_to(np.asarray(values, self.dtype), at[0].shape))

    def boundary_terms(self, value: Any = None, flux: Any = None) -> Array:
        """The contribution of boundary data to the right-hand side of this rank's cells: u = value(x, y, z) on
        Dirichlet faces, and beta du/dn = flux(x, y, z), n outwards, on Neumann faces. Numbers, or functions of numbers
        (not of arrays). Collective.
        """
        axes = len(self.cells.shape)

        def function(g: Any) -> Any:
            if g is None:
                return None
            return (lambda x, y, z: float(g(*(x, y, z)[:axes]))) if callable(g) else (lambda x, y, z: float(g))

        return np.asarray(self._handle.boundary_terms(function(value), function(flux)))

    def from_grid(self, values: Any) -> Array:
        return self.cells.from_grid(values).astype(self.dtype)

    def to_grid(self, own: Any, fill: float = np.nan) -> Array:
        return self.cells.to_grid(own, fill)

    def assemble(self) -> Operator:
        """The operator as a stored matrix. Collective."""
        from ..op import Csr

        return Csr(self._handle.assemble(), self.comm, self.dtype)


def _averages(f: Callable[..., Any], at: Sequence[Array], cells: Cells, axes: Any) -> Any:
    """Averages of f, a function of arrays, over the width of a cell along some axes, by two Gauss points on each."""
    total: Any = 0.0
    signs = list(itertools.product((-1, 1), repeat=len(list(axes))))
    for sign in signs:
        moved = list(at)
        for axis, s in zip(axes, sign, strict=True):
            moved[axis] = at[axis] + s * cells.lengths[axis] / cells.shape[axis] / (2 * np.sqrt(3))
        total = total + np.asarray(f(*moved))
    return total / len(signs)


def _kind(given: Any, with_numbers: bool = True) -> float | str:
    """A coefficient as ranks compare it: a number, or what kind of thing gives this rank's values."""
    if given is None or callable(given):
        return "None" if given is None else "a function"
    if np.ndim(given) > 0:
        return "this rank's values"
    return float(given) if with_numbers else "a number"


def _values(given: Any, at: Array, cells: Cells, along: Sequence[int], scalar: str, what: str) -> Array:
    """A coefficient at points (n, 3); of a function the averages along these axes."""
    if callable(given):
        given = _averages(given, [at[:, k] for k in range(len(cells.shape))], cells, along)
    return to_scalar(np.array(np.broadcast_to(as_array(given, what), (len(at),))), scalar, what)


def _cell_values(alpha: Any, cells: Cells, fourth: bool, scalar: str) -> Array:
    axes = range(len(cells.shape))
    return _values(alpha, cells._handle.centres().reshape(-1, 3), cells, axes if fourth else (), scalar, "alpha")


def _face_values(beta: Callable[..., Any], cells: Cells, fourth: bool, scalar: str) -> list[Array]:
    """beta at the faces across each axis."""
    axes = range(len(cells.shape))
    found = []
    for k in axes:
        centres, along = cells._handle.face_centres(k).reshape(-1, 3), [d for d in axes if d != k and fourth]
        found.append(_values(beta, centres, cells, along, scalar, "beta"))
    return found


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
    """The operator a alpha u - b div(beta grad u) on cells, matrix-free.

    Parameters
    ----------
    cells : Cells
    a, b : float
    alpha : float, callable or array, optional
        A number, a function ``alpha(x, y, z)`` of arrays, evaluated at centres, or values of this rank's cells.
        Default: 1.
    beta : float, callable or array, optional
        A number; a function ``beta(x, y, z)`` of arrays, evaluated at the centres of faces; or values of this rank's
        cells (``cells.from_grid``), of which a face takes the `mean` of its two cells. Default: 1.
    stencil : str
        "7-point" (3, 5 or 7 points, second order, symmetric, any boxes), "27-point" (3, 9 or 27 points, second order
        with an isotropic error; constant coefficients, cells that are cubes) or "fourth-order" (unknowns are averages
        over cells; alpha and beta are numbers or callables). The last two need all cells of a rectangle; the fourth
        order also needs boxes of at least two cells at the ends of the domain.
    mean : str
        "harmonic" (which keeps the flux continuous where beta jumps between cells) or "arithmetic".
    dtype : dtype
        float64 or float32.

    Returns
    -------
    FiniteVolume
        Collective; one exchange if beta is given by cells.
    """

    def look() -> tuple[str, float, Array | None, list[Array], str, float]:
        scalar = choose("dtype", chosen_scalar(dtype) or "float64", ("float32", "float64"))
        choose("mean", mean, MEANS)
        choose("stencil", stencil, STENCILS)
        fourth = stencil == "fourth-order"
        for name, given in (("alpha", alpha), ("beta", beta)):
            if fourth and given is not None and not callable(given) and np.ndim(given) > 0:
                raise ValueError(
                    f"{name} is an array; the fourth-order stencil takes averages of functions: a callable"
                )
        factor, shift = float(b), float(a)
        own = None if alpha is None else _cell_values(alpha, cells, fourth, scalar)
        if beta is None:
            return scalar, factor, own, [], "", shift
        if callable(beta):
            return scalar, factor, own, _face_values(beta, cells, fourth, scalar), "", shift
        if np.ndim(beta) == 0:
            return scalar, factor * float(beta), own, [], "", shift
        by_cell = as_vector(beta, "beta")
        here = len(cells._handle.places())
        if len(by_cell) != here:
            raise ValueError(f"beta has {len(by_cell)} values; this rank has {here} cells")
        return scalar, factor, own, [to_scalar(by_cell, scalar, "beta")], mean, shift

    def tell(found: tuple[str, float, Array | None, list[Array], str, float]) -> dict[str, Any]:
        scalar, factor, *_, shift = found
        kinds = {"alpha": _kind(alpha), "beta": _kind(1.0 if beta is None else beta, False)}
        return {"stencil": stencil, "mean": mean, "dtype": scalar, "a": shift, "b beta": factor, **kinds}

    (scalar, _, own, faces, how, _), first = alike(cells.comm, look, tell)
    handle = core("finite_volume", scalar)(cells._handle, first["a"], first["b beta"], own, faces, how, stencil)
    return FiniteVolume(handle, cells.comm, scalar, cells, stencil)
