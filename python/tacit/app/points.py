"""Arrays of real numbers that callers give, points above all, and values there that each rank computes a part of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import layout
from .._support import Array, agreed, as_array, using_threads


def reals(value: Any, what: str) -> Array:
    """Finite real numbers of any shape; TypeError or ValueError for others."""
    array = as_array(value, what)
    if array.dtype.kind not in "iuf":
        raise TypeError(f"{what} is of {array.dtype}; real numbers are needed")
    if not np.isfinite(array).all():
        raise ValueError(f"{what} has the value {array[~np.isfinite(array)].flat[0]}, which is not finite")
    return np.array(array, dtype=np.float64)


def three(value: Any, what: str, needed: str = "three numbers are needed") -> Array:
    """Three finite real numbers; ValueError for others."""
    array = as_array(value, what)
    if array.shape != (3,) or array.dtype.kind not in "iuf" or not np.isfinite(array).all():
        raise ValueError(f"{what} is {value!r}; {needed}")
    return np.array(array, dtype=np.float64)


def points_of(points: Any, what: str = "points", below: float = 1e150) -> Array:
    """Points (n, 3), or one of three numbers; TypeError or ValueError for others. `below`: squares are finite."""
    p = as_array(points, what)
    if p.dtype.kind not in "iuf":
        raise TypeError(f"{what} are of {p.dtype}; real numbers are needed")
    p = np.ascontiguousarray(p[None, :] if p.shape == (3,) else p, dtype=np.float64)
    if p.ndim != 2 or p.shape[1] != 3:
        raise ValueError(f"{what} have shape {p.shape}; shape (n, 3) is needed")
    if not (fits := np.abs(p) < below).all():
        row = int(np.argmin(fits.all(axis=1)))
        needed = "finite numbers are" if np.isinf(below) else f"numbers below {below:g} are"
        raise ValueError(f"{what} have row {row}, {p[row].tolist()}; {needed} needed")
    return p


def directions_of(given: Any, what: str = "directions") -> Array:
    """Vectors of length 1 (n, 3), from those of any length; ValueError for one of length 0."""
    d = points_of(given, what, np.inf)
    largest = np.abs(d).max(axis=1, keepdims=True)
    if not (largest > 0).all():
        raise ValueError(f"{what} has a vector of length 0")
    d = d / largest  # whose squares neither overflow nor vanish
    return np.asarray(d / np.linalg.norm(d, axis=1, keepdims=True))


def shared_out(comm: Any, threads: int, points: Array, values: Callable[[Array], Any]) -> Array:
    """The values at points that all ranks have, on all of them; each computes those of its part. Collective."""
    first = layout.blocks(len(points), comm.size)
    own = np.ascontiguousarray(points[first[comm.rank] : first[comm.rank + 1]])
    with using_threads(threads):
        mine = agreed(comm, lambda: values(own))
    return layout.gather(np.asarray(mine), comm)
