"""Ellipsoids with exact line integrals, for fan and cone beams: of tests and benches."""

from __future__ import annotations

import numpy as np

from tacit import tomography
from tacit._support import Array


def turn(n: int) -> Array:
    return np.linspace(0, 2 * np.pi, n, endpoint=False)


def rays(P: tomography.Projector) -> tuple[Array, Array]:
    """Sources and directions (rays, 3), from the views alone."""
    *_, columns = P.sinogram_shape
    rows = P.sinogram_shape[1] if len(P.sinogram_shape) == 3 else 1
    views = P.views
    assert views is not None
    if views.shape[1] == 6:
        three = np.zeros((len(views), 4, 3))
        three[:, :3, :2] = views.reshape(-1, 3, 2)
    else:
        three = views.reshape(-1, 4, 3)
    source, middle, u, v = (three[:, n, None, None] for n in range(4))
    i, j = np.arange(rows)[:, None, None] - (rows - 1) / 2, np.arange(columns)[:, None] - (columns - 1) / 2
    to = middle + i * v + j * u - source
    return np.broadcast_to(source, to.shape).reshape(-1, 3), to.reshape(-1, 3)


#: Middle, half axes, turn about z, value of ellipsoids within a ball of radius 1.
ELLIPSOIDS = [
    ((0.0, 0.0, 0.0), (0.7, 0.85, 0.8), 0.2, 1.0),
    ((0.25, 0.1, 0.1), (0.2, 0.35, 0.3), -0.4, -0.4),
    ((-0.3, 0.2, -0.2), (0.15, 0.2, 0.25), 0.7, 0.5),
    ((0.0, -0.45, 0.25), (0.12, 0.12, 0.12), 0.0, 1.0),
]


def _turned(p: Array, angle: float) -> Array:
    c, s = np.cos(angle), np.sin(angle)
    return p @ np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]])


def integrals(P: tomography.Projector, radius: float) -> Array:
    """The exact line integrals of the ellipsoids, `radius` times as large."""
    source, to = rays(P)
    total = np.zeros(len(to))
    for middle, axes, angle, value in ELLIPSOIDS:
        d = _turned(to, angle) / (radius * np.array(axes))
        o = _turned(source - radius * np.array(middle), angle) / (radius * np.array(axes))
        a, b, c = (d * d).sum(1), (d * o).sum(1), (o * o).sum(1) - 1
        total += value * 2 * np.sqrt(np.maximum(b * b - a * c, 0)) / a * np.linalg.norm(to, axis=1)
    return total.reshape(P.sinogram_shape)


def volume_of(n: int, finer: int = 3) -> Array:
    """The ellipsoids in n^3 voxels of a cube around the ball: means over finer^3 points of each."""
    at = (np.arange(n * finer) + 0.5) / (n * finer) * 2 - 1
    z, y, x = np.meshgrid(at, -at, at, indexing="ij")
    p, total = np.stack([x, y, z], -1), np.zeros(x.shape)
    for middle, axes, angle, value in ELLIPSOIDS:
        total += value * ((_turned(p - np.array(middle), angle) / np.array(axes)) ** 2).sum(-1).__le__(1)
    return np.asarray(total.reshape(n, finer, n, finer, n, finer).mean((1, 3, 5)))
