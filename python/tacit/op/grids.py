"""Operators on regular grids."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _core
from .. import comm as _comm
from .._alike import Whole, alike
from .._described import BOUNDARIES, CONVECTIONS
from .._support import Array, as_array, choose, chosen_scalar, common_scalar, core, scalar_name, to_scalar
from .base import FromHandle, Operator
from .stored import Csr


class Stencil(Operator):
    """A matrix with constant coefficients on a regular grid, applied without being stored. See
    :func:`tacit.stencil`.
    """

    __slots__ = ("grid",)

    def __init__(self, handle: Any, comm: _core.Communicator, dtype: npt.DTypeLike, grid: Sequence[int]) -> None:
        super().__init__(handle, comm, dtype)
        self.grid = tuple(grid)  #: points along each axis

    nnz = FromHandle(int, "entries")  #: entries that the stored matrix would have

    @property
    def storage(self) -> str:
        return "stencil"

    def is_hermitian(self) -> bool:
        if self._hermitian is None:
            self._hermitian = bool(self._handle.is_hermitian())
        return self._hermitian

    def assemble(self) -> Csr:
        """The same matrix, stored. Collective."""
        return Csr(self._handle.assemble(), self.comm, self.dtype)

    def _has_entries(self) -> bool:
        return True

    def _stored(self) -> Csr:
        return self.assemble()

    def _state(self) -> tuple[Any, ...]:
        return self._scalar, self.grid, self._handle.boundary, self._handle.weights

    @classmethod
    def _made_from(cls, comm: _core.Communicator, *state: Any) -> Stencil:
        scalar, grid, boundary, weights = state
        return Stencil(core("stencil", scalar)(comm, list(grid[::-1]), boundary, weights), comm, scalar, grid)

    def to_scipy(self) -> Any:
        """The whole matrix as a scipy.sparse.csr_array on every rank, which needs memory for all of it. Collective."""
        return self.assemble().to_scipy()


def _per_axis(value: Any, d: int, what: str) -> list[Any]:
    values = list(value) if isinstance(value, (list, tuple, np.ndarray)) else [value] * d
    if len(values) != d:
        raise ValueError(f"{what} has {len(values)} values; one, or {d} for a grid of {d} dimensions, are needed")
    return values


def _grid(shape: Any, boundary: Any) -> tuple[list[int], list[str]]:
    """Points and boundary of each axis of a NumPy shape, the fastest axis first, as in the compiled part."""
    points = [int(n) for n in (shape if isinstance(shape, (list, tuple, np.ndarray)) else [shape])]
    if not 1 <= len(points) <= 3 or min(points) < 1:
        raise ValueError(f"shape is {tuple(points)}; 1 to 3 axes of at least one point are needed")
    kinds = [choose("boundary", k, BOUNDARIES) for k in _per_axis(boundary, len(points), "boundary")]
    return points[::-1], kinds[::-1]


def _shared(points: list[int], kinds: list[str], scalar: str) -> dict[str, Any]:
    """What all ranks must give alike of a grid."""
    return {"shape": tuple(points[::-1]), "boundary": ", ".join(kinds[::-1]), "scalar": scalar}


def stencil(
    shape: int | Sequence[int],
    weights: Any,
    *,
    boundary: str | Sequence[str] = "dirichlet",
    comm: Any = None,
    scalar: npt.DTypeLike | None = None,
) -> Stencil:
    """A matrix with the same coefficients in every row, on a regular grid of 1 to 3 dimensions; applied, not stored.

    Parameters
    ----------
    shape : int or sequence of int
        Points along each axis. Unknowns are numbered as NumPy stores an array of this shape (the last axis fastest).
    weights : array_like
        Shape (3,) * d: ``weights[1 + i, 1 + j]`` multiplies the neighbour at (i, j). Or up to d + 1 numbers: the
        weights of the point itself, and of neighbours that differ along one, two and three axes; missing ones are 0.
    boundary : str or sequence of str
        The value of neighbours outside of the grid: "dirichlet" (zero), "neumann" (that of the nearest point inside) or
        "periodic". One name, or one for each axis.
    comm : communicator, optional
        Whole slabs of the first axis are spread over its ranks.
    scalar : dtype, optional
        Default: that of `weights`.

    Returns
    -------
    Stencil
        Collective. Needs memory for the halo only.

    Examples
    --------
    >>> import numpy as np, tacit
    >>> A = tacit.stencil(4, [2.0, -1.0])
    >>> A.to_scipy().toarray()
    array([[ 2., -1.,  0.,  0.],
           [-1.,  2., -1.,  0.],
           [ 0., -1.,  2., -1.],
           [ 0.,  0., -1.,  2.]])
    """
    on = _comm.resolve(comm)

    def look() -> tuple[list[int], list[str], str, Array]:
        points, kinds = _grid(shape, boundary)
        d = len(points)
        given = as_array(weights, "weights")
        chosen = chosen_scalar(scalar) or scalar_name(given.dtype, "weights")
        given = to_scalar(given, chosen, "weights")
        table = np.zeros((3, 3, 3), chosen)  # [dz, dy, dx]: the last axis of the array is the fastest
        place = (1,) * (3 - d)
        if given.ndim == 1 and d == 1 and given.shape == (3,):
            table[place] = given
        elif given.ndim == 1 and 1 <= len(given) <= d + 1:
            distance = np.abs(np.indices((3,) * d) - 1).sum(axis=0)
            table[place] = np.append(given, np.zeros(d + 1 - len(given), chosen))[distance]
        elif given.shape == (3,) * d:
            table[place] = given
        else:
            raise ValueError(f"weights have shape {given.shape}; {(3,) * d}, or 1 to {d + 1} numbers, are needed")
        return points, kinds, chosen, table.ravel()

    def tell(found: tuple[list[int], list[str], str, Array]) -> dict[str, Any]:
        points, kinds, chosen, table = found
        return {**_shared(points, kinds, chosen), "weights": Whole(table.reshape(3, 3, 3), "first")}

    (points, kinds, chosen, _), first = alike(on, look, tell)
    table = first["weights"].ravel()
    return Stencil(core("stencil", chosen)(on, points, kinds, table), on, chosen, points[::-1])


def poisson(
    shape: int | Sequence[int],
    *,
    spacing: float | Sequence[float] = 1.0,
    boundary: str | Sequence[str] = "dirichlet",
    shift: complex = 0.0,
    velocity: float | Sequence[float] | None = None,
    convection: str = "upwind",
    isotropic: bool = False,
    assembled: bool = False,
    comm: Any = None,
    scalar: npt.DTypeLike = np.float64,
) -> Operator:
    """-Laplace u + velocity . grad u + shift u on a regular grid, by finite differences: the standard test problem.

    Parameters
    ----------
    shape : int or sequence of int
        Points along each of 1 to 3 axes, numbered as NumPy stores an array of this shape.
    spacing : float or sequence of float
        Distance of points: one number, or one for each axis.
    boundary : str or sequence of str
        "dirichlet", "neumann" or "periodic".
    shift : number
        Added to the diagonal; minus the square of a wave number gives the Helmholtz operator.
    velocity : float or sequence of float, optional
        Velocity of a flow; the matrix is then not symmetric.
    convection : str
        "upwind" or "central" differences for the term with the velocity.
    isotropic : bool
        The Laplacian with 9 or 27 points instead of 5 or 7; needs the same spacing along all axes.
    assembled : bool
        True: a stored matrix (:class:`tacit.Csr`), which preconditioners need; False: a matrix-free
        :class:`tacit.Stencil`.
    comm : communicator, optional
        Whole slabs of the first axis are spread over its ranks.
    scalar : dtype, optional

    Returns
    -------
    Stencil or Csr
        Collective.

    Examples
    --------
    >>> import numpy as np, tacit
    >>> A = tacit.poisson((50, 50))
    >>> result = tacit.solve(A, np.ones(2500))
    >>> result.converged
    True
    """
    on = _comm.resolve(comm)

    def look() -> tuple[list[int], list[str], list[float], list[float], str]:
        points, kinds = _grid(shape, boundary)
        d = len(points)
        spaces = [float(h) for h in _per_axis(spacing, d, "spacing")]
        if not all(h > 0 and math.isfinite(h) for h in spaces):
            raise ValueError(f"spacing is {spacing}; positive numbers are needed")
        if isotropic and len(set(spaces)) > 1:
            raise ValueError("isotropic needs the same spacing along all axes")
        flow = [] if velocity is None else [float(v) for v in _per_axis(velocity, d, "velocity")]
        choose("convection", convection, CONVECTIONS)
        chosen = chosen_scalar(scalar) or "float64"
        if np.iscomplexobj(shift) and not chosen.startswith("complex"):
            chosen = common_scalar(chosen, "complex64")
        return points, kinds, spaces[::-1], flow[::-1], chosen

    def tell(found: tuple[list[int], list[str], list[float], list[float], str]) -> dict[str, Any]:
        points, kinds, spaces, flow, chosen = found
        forms = {"convection": convection, "isotropic": str(bool(isotropic)), "assembled": str(bool(assembled))}
        numbers = {"spacing": spaces, "velocity": flow, "shift": [shift]}
        arrays = {name: Whole(np.asarray(values), "first") for name, values in numbers.items()}
        return {**_shared(points, kinds, chosen), **forms, **arrays}

    (points, kinds, _, _, chosen), first = alike(on, look, tell)
    spaces, flow = first["spacing"].tolist(), first["velocity"].tolist()
    make = core("poisson", chosen)
    handle = make(on, points, kinds, spaces, flow, convection, isotropic, np.dtype(chosen).type(first["shift"][0]))
    made = Stencil(handle, on, chosen, points[::-1])
    return made.assemble() if assembled else made
