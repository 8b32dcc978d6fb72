"""Closed surfaces, and what lies within them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._support import Array

_SAMPLES = 8  # points of a part that are looked at
_AT_ONCE = 1_000_000  # triangles times points


class Parts(NamedTuple):
    """The parts of a surface that are connected across edges of two triangles."""

    of: Array  #: of each triangle, from 0
    closed: Array  #: whether a part is closed, and all of its triangles have one orientation
    volume: Array  #: enclosed, if closed; negative where normals point inwards


def normals_of(corners: Array) -> Array:
    """The normals of triangles (m, 3, 3), whose lengths are twice the areas."""
    a, b, c = corners.transpose(1, 0, 2)
    return np.cross(b - a, c - a)


def edges_of(vertices: Array, triangles: Array) -> tuple[Array, Array, Array, Array]:
    """The edges that belong to two triangles: both triangles, and whether these go round in different senses; and all
    triangles with an edge that belongs to another number. Vertices at one place are one.
    """
    number = np.unique(vertices + 0.0, axis=0, return_inverse=True)[1].reshape(-1)  # -0 is 0
    corners = number[triangles].astype(np.int64)
    start, end = corners.reshape(-1), np.roll(corners, -1, axis=1).reshape(-1)
    _, first, edge, count = np.unique(
        np.minimum(start, end) * len(vertices) + np.maximum(start, end),
        return_index=True, return_inverse=True, return_counts=True,
    )  # fmt: skip
    order = np.argsort(edge, kind="stable")
    last = order[np.cumsum(count) - 1]
    two = count == 2
    one, other = first[two], last[two]
    return one // 3, other // 3, start[one] == start[other], np.flatnonzero(count[edge] != 2) // 3


def parts_of(vertices: Array, triangles: Array) -> Parts:
    """The parts of a surface. O(n log n)."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    one, other, differ, torn = edges_of(vertices, triangles)
    graph = coo_array((np.ones(len(one), np.int8), (one, other)), shape=(len(triangles), len(triangles)))
    count, of = connected_components(graph, directed=False)
    a, b, c = (vertices[triangles] - vertices.mean(axis=0)).transpose(1, 0, 2)
    volume = np.bincount(of, (a * np.cross(b, c)).sum(axis=1) / 6, minlength=count)
    closed = volume != 0
    closed[of[torn]] = False
    closed[of[one[differ]]] = False
    return Parts(of, closed, volume)


def winding(corners: Array, points: Array) -> Array:
    """How often triangles (m, 3, 3) go round each point (n, 3): for a closed surface with normals outwards 1 within it
    and 0 outside; a triangle in which a point lies counts nothing, which leaves 1/2. O(m n).
    """
    found = np.empty(len(points))
    step = max(1, _AT_ONCE // len(corners))
    for k in range(0, len(points), step):
        a, b, c = (corners[:, i] - points[k : k + step, None] for i in range(3))
        la, lb, lc = (np.linalg.norm(edge, axis=2) for edge in (a, b, c))
        # Van Oosterom & Strackee (1983): the tangent of half the solid angle.
        numerator = (a * np.cross(b, c)).sum(axis=2)
        denominator = la * lb * lc + (a * b).sum(axis=2) * lc + (b * c).sum(axis=2) * la + (c * a).sum(axis=2) * lb
        half = np.arctan2(numerator, denominator)
        half[(denominator < 0) & (np.abs(numerator) <= 1e-9 * la * lb * lc)] = 0
        found[k : k + step] = half.sum(axis=1) / (2 * np.pi)
    return found


class Samples:
    """Some centroids of each part of a mesh, by which parts are placed within closed surfaces.

    `corners` (n, 3, 3) are those of the triangles, `parts` the numbers of the triangles of each part.
    """

    def __init__(self, corners: Array, parts: list[Array]) -> None:
        some = [p[np.unique(np.linspace(0, len(p) - 1, _SAMPLES).astype(np.int64))] for p in parts]
        self.of = np.repeat(np.arange(len(parts)), [len(own) for own in some])
        self.points = corners[np.concatenate(some)].mean(axis=1)

    def shares(self, surface: Array) -> Array:
        """The share of each part that is within a closed surface (m, 3, 3). O(m) for each sample in its box."""
        near = ((self.points > surface.min(axis=(0, 1))) & (self.points < surface.max(axis=(0, 1)))).all(axis=1)
        within = np.zeros(len(self.of))
        within[near] = np.abs(winding(surface, self.points[near])) > 0.9
        return np.asarray(np.bincount(self.of, within) / np.bincount(self.of))
