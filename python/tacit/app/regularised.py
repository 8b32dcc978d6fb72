"""Reconstructions with a penalty beside the residual: Tikhonov's, and total variation."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import op
from .._support import Array
from ..krylov import lstsq
from .projectors import Projector
from .subsets import Course

__all__ = ["divergence", "gradient", "regularised"]

STEPS = 10  # of LSQR in an iteration
FIRST, NEXT, LAST = 0.5, 0.6, 1e-3  # the gradient below which tv is smooth, relative to the mean one at the start


def gradient(x: Array) -> Array:
    """Differences (2, rows, columns) of an image to the pixel below and to the right, of a volume (3, ..) also to the
    next image; 0 at the last ones.
    """
    made = np.zeros((x.ndim, *x.shape), x.dtype)
    for axis, part in enumerate(made):
        np.moveaxis(part, axis, 0)[:-1] = np.diff(np.moveaxis(x, axis, 0), axis=0)
    return made


def divergence(g: Array) -> Array:
    """Minus the adjoint of :func:`gradient`."""
    made = np.zeros(g.shape[1:], g.dtype)
    for axis, part in enumerate(g):
        to, rows = np.moveaxis(made, axis, 0), np.moveaxis(part, axis, 0)[:-1]
        to[:-1] += rows
        to[1:] -= rows
    return made


def stack(P: Projector, w: Array, v: Array, penalty: str) -> op.Operator:
    """The operator (w A; v L) of one slice, w (angles, ..), v (rows, columns) or of a volume, L the gradient or 1."""
    rays, pixels, shape = w.size, v.size, P.image_shape
    parts = len(shape) if penalty == "gradient" else 1

    def product(x: Array) -> Array:
        image = x.reshape(shape)
        beside = v * gradient(image) if penalty == "gradient" else v * image
        return np.concatenate([(w * P.project(image)).reshape(-1), beside.reshape(-1)])

    def adjoint(y: Array) -> Array:
        image = P.backproject(w * y[:rays].reshape(w.shape))
        beside = v * y[rays:].reshape(-1, *shape)
        return np.asarray(image + (-divergence(beside) if penalty == "gradient" else beside[0])).reshape(-1)

    n = rays + parts * pixels
    return op.function((n, pixels), product, rmatvec=adjoint, dtype=P.dtype, comm=P.comm, name="projector and penalty")


def regularised(
    P: Projector,
    b: Array,
    x0: Array | None,
    rough: Array,
    o: Any,
    deviations: Array,
    after: Callable[[int, Array, float], bool],
    threads: int | None,
) -> dict[str, Any]:
    """The methods "tikhonov" and "tv" for the sinogram b (1, angles, bins) of a slice with noise of these standard
    deviations (1, angles, bins); see :data:`methods.METHODS`. `rough`: an image (rows, columns) whose L x is of the
    usual size, by which the weight of the penalty is scaled, and the start where there is none. Collective.

    An iteration is :data:`STEPS` steps of LSQR, a product with A and one with A^T each, and a product for the residual.
    tv replaces |g| by g^2 / (2 (|g_k|^2 + e^2)^(1/2)) in each iteration, with the last gradient g_k and an e that
    falls: its goal falls in every iteration, if LSQR gets that far. Memory: a dozen images and sinograms.
    """
    x, sinogram = np.array(rough if x0 is None else x0[0], P.dtype), b[0]
    penalty = "gradient" if o.method == "tv" else o.penalty
    course = Course(1, np.zeros(1), after)

    def note(iteration: int) -> None:
        course.note(iteration, np.array([np.linalg.norm((sinogram - P.project(x)).astype(np.float64))]))

    if not sinogram.any():  # which the image 0 has, without a penalty
        x[:] = 0
    note(0)
    size = _sizes(rough, penalty)
    usual = float(np.sqrt(np.mean(np.square(size, dtype=np.float64))))
    if not (course.on[0] and usual > 0):
        return course.part(x[None])
    # The goal is that of 1 / deviations times a constant, in numbers near 1.
    w = (np.median(deviations[0]) / np.asarray(deviations[0], np.float64)).astype(P.dtype)
    weight = o.regularisation or (2.0 if o.method == "tv" else 1.0)
    weight *= float(np.sqrt(np.mean(P.backproject(w * w), dtype=np.float64))) * float(np.median(deviations[0]))
    flat = FIRST * float(size.mean())
    least = LAST * flat
    for iteration in range(1, o.iterations + 1):
        if not course.on[0]:
            break
        if o.method == "tv":
            v = np.sqrt(weight / np.hypot(_sizes(x, penalty), flat)).astype(P.dtype)
            flat = max(least, NEXT * flat)
        else:
            v = np.full(x.shape, np.sqrt(weight / usual), P.dtype)
        K = stack(P, w, v, penalty)
        right = np.zeros(K.shape[0], P.dtype)
        right[: w.size] = (w * sinogram).reshape(-1)
        how: dict[str, Any] = {"method": "lsqr", "max_iterations": STEPS, "atol": 0.0, "btol": 0.0, "history": False}
        x = lstsq(K, right, x.reshape(-1), threads=threads, **how).x.reshape(x.shape)
        note(iteration)
    return course.part(x[None])


def _sizes(x: Array, penalty: str) -> Array:
    """|L x| at each pixel."""
    if penalty != "gradient":
        return np.abs(x)
    return np.asarray(functools.reduce(np.hypot, gradient(x)))
