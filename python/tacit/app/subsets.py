"""Reconstructions that take the angles in subsets: SART, OSEM and MLEM."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._support import Array
from .methods import OPTIONS
from .projectors import Projector

__all__ = ["Course", "by_subsets", "order"]

GOLDEN = 0.5 * (5**0.5 - 1)
RAISED = 1e-3  # of the mean: what pixels without a value begin with, as factors would leave them at 0


def order(angles: Array, subsets: int) -> list[Array]:
    """The angles of each subset, by their numbers: every so many of those sorted by direction, so that each subset has
    projections from everywhere. Subsets that follow each other are far apart: they are visited by steps of the golden
    section. ValueError for more subsets than angles.
    """
    if subsets > len(angles):
        raise ValueError(f"subsets is {subsets}, and there are {len(angles)} angles: at most one subset for each")
    sorted_ = np.argsort(np.asarray(angles, np.float64) % np.pi, kind="stable")
    visits = np.argsort(np.arange(subsets) * GOLDEN % 1, kind="stable")
    return [np.sort(sorted_[first::subsets]) for first in visits]


@dataclass
class Part:
    """A subset: its rows of the matrix, and the inverse sums of its rows and columns, 0 where a sum is 0."""

    at: Array
    A: Projector
    rows: Array
    columns: Array


def _inverse(sums: Array) -> Array:
    return np.divide(1, sums, out=np.zeros_like(sums), where=sums > 0)


def parts_of(P: Projector, subsets: int) -> list[Part]:
    """Collective."""
    made = []
    for at in order(P.angles, subsets) if subsets > 1 else [np.arange(len(P.angles))]:
        A = P.subset(at) if subsets > 1 else P
        rows = A.project(np.ones(A.image_shape, A.dtype))
        columns = A.backproject(np.ones(A.sinogram_shape, A.dtype))
        made.append(Part(at, A, _inverse(rows), _inverse(columns)))
    return made


class Course:
    """Which slices of a batch still run, and how their residuals fell.

    `goal`: a slice ends where its residual is at most this; 0: not. `after` is called with each iteration, the
    residuals and the seconds, and returns whether all are to end.
    """

    def __init__(self, slices: int, goal: Array, after: Callable[[int, Array, float], bool]) -> None:
        self.goal, self.after, self.begin = goal, after, time.perf_counter()
        self.on = np.ones(slices, bool)
        self.iterations, self.ends = [0] * slices, ["iterations"] * slices
        self.rows: list[Array] = []

    def note(self, iteration: int, residual: Array) -> None:
        """Records the residuals after an iteration, and ends slices by them. Collective where `after` is."""
        self.rows.append(residual)
        for c in np.flatnonzero(self.on):
            self.iterations[c] = iteration
            if not np.isfinite(residual[c]):
                self.ends[c] = "non_finite"
            elif self.goal[c] > 0 and residual[c] <= self.goal[c]:
                self.ends[c] = "discrepancy"
            self.on[c] = self.ends[c] == "iterations"
        if self.on.any() and self.after(iteration, residual, time.perf_counter() - self.begin):
            self.ends = ["callback" if on else end for on, end in zip(self.on, self.ends, strict=True)]
            self.on[:] = False

    def part(self, images: Array) -> dict[str, Any]:
        """What the compiled methods return, too."""
        table = np.array(self.rows)
        return {
            "images": images,
            "residual": table,
            "gradient": np.full_like(table, np.nan),
            "iterations": self.iterations,
            "end": self.ends,
            "final_residual": table[-1].tolist(),
        }


def _within(stack: Array) -> tuple[int, ...]:
    """The axes of an image or sinogram of a stack."""
    return tuple(range(1, stack.ndim))


def _residual(parts: list[Part], b: Array, x: Array) -> Array:
    squares = np.zeros(len(b))
    for part in parts:
        squares += np.square(b[:, part.at] - part.A.project(x), dtype=np.float64).sum(_within(b))
    return np.sqrt(squares)


def by_subsets(
    P: Projector, b: Array, x0: Array | None, o: Any, goal: Array, after: Callable[[int, Array, float], bool]
) -> dict[str, Any]:
    """The methods "sart", "osem" and "mlem" for sinograms b (k, angles, ..); see :data:`methods.METHODS`. Collective.

    An iteration is a product with each A_s and A_s^T, and another one with each A_s for the residual. With one
    subset SART is SIRT, and OSEM is MLEM. Memory: some images and sinograms of each slice, and the projectors of the
    subsets, which compute their entries unless the projector was made with another `format`.
    """
    parts = parts_of(P, 1 if o.method == "mlem" else min(o.subsets, _most(P, o.subsets)))
    step = _additive if o.method == "sart" else _factors
    if o.method != "sart":
        b = np.where(b > 0, b, np.where(np.isfinite(b), 0, b)).astype(P.dtype)
    x = _begin(P, parts, b, x0, o.method)
    course = Course(len(b), goal, after)
    course.note(0, _residual(parts, b, x))
    for iteration in range(1, o.iterations + 1):
        if not course.on.any():
            break
        on = course.on.copy()
        y = x[on]
        for part in parts:
            y = step(part, b[on][:, part.at], y, o)
        x[on] = y
        course.note(iteration, _residual(parts, b, x))
    return course.part(x)


def _most(P: Projector, subsets: int) -> int:
    """The default number of subsets is no error where there are fewer angles."""
    return len(P.angles) if subsets == OPTIONS["subsets"].default else subsets


def _additive(part: Part, b: Array, x: Array, o: Any) -> Array:
    x = x + o.relaxation * part.columns * part.A.backproject(part.rows * (b - part.A.project(x)))
    return np.maximum(x, 0) if o.nonnegative else x


def _factors(part: Part, b: Array, x: Array, o: Any) -> Array:
    there = part.A.project(x)
    factor = part.columns * part.A.backproject(np.divide(b, there, out=np.zeros_like(b), where=there > 0))
    return np.where(part.columns > 0, x * factor, x)  # as it is where no ray of the subset passes


def _begin(P: Projector, parts: list[Part], b: Array, x0: Array | None, method: str) -> Array:
    """The initial images: those given, 0, or for factors one value that has the sum of the sinogram. Pixels of a start
    that factors would leave at 0 are raised to a thousandth of the mean; images that would be 0 begin as without one.
    """
    if method == "sart":
        return np.zeros((len(b), *P.image_shape), P.dtype) if x0 is None else np.array(x0, P.dtype)
    ones = sum(part.A.project(np.ones(P.image_shape, P.dtype)).sum(dtype=np.float64) for part in parts)
    level = b.sum(_within(b), dtype=np.float64) / max(ones, 1e-300)
    plain = np.broadcast_to(level.reshape(-1, *(1 for _ in P.image_shape)), (len(b), *P.image_shape))
    if x0 is None:
        return np.ascontiguousarray(plain, P.dtype)
    above = np.maximum(x0, 0)
    raised = np.maximum(above, RAISED * above.mean(_within(above), keepdims=True))
    return np.asarray(np.where(above.any(_within(above), keepdims=True), raised, plain), P.dtype)
