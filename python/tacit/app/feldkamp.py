"""Filtered back-projection of fan and cone beams on a circle (FDK)."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from .._support import Array, core
from .axis import coverage
from .beams import sizes_of
from .filtering import filtered, shares
from .projectors import Projector

__all__ = ["Circle", "circle_of", "feldkamp"]

ASIDE = 1.05  # ratio of the detector's sides of the axis, from which rays are taken to be seen once or twice


class Circle(NamedTuple):
    """A source that turns about the z axis, with a detector across the line to it."""

    source: float
    detector: float
    pitch: tuple[float, float]  # height and width of a pixel
    across: Array  # (views, columns), along the detector from the foot of the axis
    above: Array  # (views, rows), from the plane of the source


def circle_of(P: Projector) -> Circle:
    """The circle of a projector's views; ValueError where they have none, or are less than a whole turn."""
    _, (rows, columns), _, twelve = sizes_of(P)
    source, middle, u, v = (part[:, 0] for part in np.split(twelve.reshape(-1, 4, 3), 4, 1))
    near = np.linalg.norm(source, axis=1)
    back = -source / near[:, None]
    far = (middle * back).sum(1)
    wide, high = np.linalg.norm(u, axis=1), np.linalg.norm(v, axis=1)
    size = near[0] + abs(far[0])
    off = [np.abs(source[:, 2]), np.abs(near - near[0]), np.abs(far - far[0]), size * np.abs((u * back).sum(1)) / wide]
    off += [size * np.abs(u[:, 2]) / wide, size * np.hypot(*v[:, :2].T) / high]
    off += [size * np.abs(part / part[0] - 1) for part in (wide, high)]
    worst = float(np.max(off, axis=0).max())
    if not worst < 1e-6 * size:
        raise ValueError(
            "fbp is of a source on a circle about the z axis with a detector across it, and these views are not"
            f" (by {worst:.3g}, where distances are {size:.3g}): take iterations, such as reconstruct(method='cgls')"
        )
    turn = coverage(P.angles)
    if turn < 2 * np.pi - 1e-6:
        raise ValueError(
            f"fbp of a fan or cone beam is of a whole turn, and the views cover {math.degrees(turn):.4g} degrees: take"
            " iterations, such as reconstruct(method='cgls')"
        )
    above = middle[:, 2] * np.sign(v[:, 2])
    places = [
        foot[:, None] + (np.arange(n) - (n - 1) / 2) * step[:, None]
        for foot, n, step in (((middle * u).sum(1) / wide, columns, wide), (above, rows, high))
    ]
    return Circle(float(near[0]), float(far[0]), (float(high[0]), float(wide[0])), *places)


def feldkamp(P: Projector, b: Array, window: str, wide: bool) -> Array:
    """Images of sinograms b (k, angles, ..) of a whole turn: Feldkamp, Davis and Kress (1984), doi
    10.1364/JOSAA.1.000612.

    Line integrals are weighted by the cosine of the ray's angle and filtered along the rows; a voxel is the sum over
    the views of these where it is seen, linearly between pixels, times (source / its distance from the source)^2. Where
    the axis is far from the middle of the detector, rays that are seen once count twice, with a smooth transition (Wang
    2002, X-ray micro-CT with a displaced detector array). The transpose of the projector would not do: a voxel has a
    ray or two of a view, whose number does not change with the view along the axis of rotation, so that images would
    have steps. Every rank computes all of it; about the cost of a product.
    """
    c = circle_of(P)
    length = c.source + c.detector
    cosine = length / np.sqrt(length**2 + c.across[:, None, :] ** 2 + c.above[:, :, None] ** 2)
    once, share = _seen_once(c, length), shares(P.angles)[:, None, None]
    k, shape = len(b), (len(b), len(P.angles), -1, P.sinogram_shape[-1])
    q = b.reshape(shape) * (cosine * once[:, None]).astype(np.float32)
    volume, (rows, columns), sides, views = sizes_of(P)
    if (once != 1).any():  # what is filtered goes on where the detector ends, and views from opposite have it
        missing = math.ceil((c.across.max() + c.across.min()) / c.pitch[1])
        q = np.pad(q, [(0, 0)] * 3 + [(max(0, missing), max(0, -missing))])
        twelve = views.reshape(-1, 12).copy()
        twelve[:, 3:6] -= missing / 2 * twelve[:, 6:9]
        columns, views = columns + abs(missing), twelve.reshape(-1)
    q = filtered(q, window, wide)
    # The filter is of bins of width 1: at the axis they have pitch source / length.
    scale = share * length / (c.pitch[1] * c.source) * (c.source / length) ** 2
    q = np.ascontiguousarray(q * scale, P.dtype).reshape(k, -1)
    images = core("cone_back_project", str(P.dtype))(volume, (rows, columns), sides, views, q)
    return np.asarray(images).reshape(k, *P.image_shape)


def _seen_once(c: Circle, length: float) -> Array:
    """The weight (views, columns) of rays that are seen twice in a turn, or once: two opposite ones have the sum 2."""
    low, high = -c.across.min(), c.across.max()
    least, most = sorted((low, high))
    if most <= ASIDE * least:
        return np.ones_like(c.across)
    if least < c.pitch[1]:
        raise ValueError(
            f"the axis is beside the detector, which sees from {-low:.4g} to {high:.4g} of it: fbp has no rays through"
            " the axis; take iterations, such as reconstruct(method='cgls')"
        )
    part = np.arctan(c.across / length) / np.arctan(least / length) * (1 if high > low else -1)
    return np.asarray(1 + np.sin(np.pi / 2 * np.clip(part, -1, 1)))
