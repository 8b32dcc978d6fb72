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


def nearness(vertices: Array, triangles: Array) -> float:
    """The distance within which vertices of files written in single precision are one: a millionth of the size, but at
    most a tenth of the shortest edge.
    """
    corners = vertices[triangles]
    edges = np.linalg.norm(corners - np.roll(corners, 1, axis=1), axis=2)
    size = float(np.linalg.norm(np.ptp(corners, axis=(0, 1))))
    return min(1e-6 * size, 0.1 * float(edges[edges > 0].min(initial=np.inf)))


def _merged(vertices: Array, distance: float) -> Array:
    """A number for each vertex, the same for those within a distance."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components
    from scipy.spatial import cKDTree

    places, number = np.unique(vertices + 0.0, axis=0, return_inverse=True)  # -0 is 0
    one, other = cKDTree(places).query_pairs(distance, output_type="ndarray").T
    graph = coo_array((np.ones(len(one), np.int8), (one, other)), shape=(len(places), len(places)))
    return np.asarray(connected_components(graph, directed=False)[1])[number.reshape(-1)]


def edges_of(vertices: Array, triangles: Array) -> tuple[Array, Array, Array, Array]:
    """The edges that belong to two triangles: both triangles, and whether these go round in different senses; and all
    triangles with an edge that belongs to another number. Vertices near each other are one.
    """
    corners = _merged(vertices, nearness(vertices, triangles))[triangles].astype(np.int64)
    start, end = corners.reshape(-1), np.roll(corners, -1, axis=1).reshape(-1)
    long = np.flatnonzero(start != end)
    _, edge, count = np.unique(
        np.minimum(start, end)[long] * len(vertices) + np.maximum(start, end)[long],
        return_inverse=True, return_counts=True,
    )  # fmt: skip
    edge = edge.reshape(-1)
    order = long[np.argsort(edge, kind="stable")]
    last = np.cumsum(count)[count == 2] - 1
    one, other = order[last - 1], order[last]
    return one // 3, other // 3, start[one] == start[other], long[count[edge] != 2] // 3


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

    def shares(self, surface: Array, most: float = 0.9) -> Array:
        """The share of each part that is within a closed surface (m, 3, 3), or sees more than `most` of all directions
        covered by it. O(m) for each sample in its box.
        """
        near = ((self.points > surface.min(axis=(0, 1))) & (self.points < surface.max(axis=(0, 1)))).all(axis=1)
        within = np.zeros(len(self.of))
        within[near] = np.abs(winding(surface, self.points[near])) > most
        return np.asarray(np.bincount(self.of, within) / np.bincount(self.of))
