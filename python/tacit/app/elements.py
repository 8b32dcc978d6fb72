"""Functions on a mesh: constant on each triangle, or continuous and linear on triangles."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._support import Array, choose
from .meshes import Mesh

KINDS = ("constant", "linear")


def welded(mesh: Mesh) -> tuple[Mesh, Array]:
    """The mesh with one vertex at each point, without vertices of no triangle, and the new number of each old vertex
    (-1 for those). Triangles, their data and what was known of the mesh stay.
    """
    used = np.unique(mesh.triangles)
    points, number = np.unique(mesh.vertices[used] + 0.0, axis=0, return_inverse=True)  # + 0.0: -0 is 0
    place = np.full(len(mesh.vertices), -1, dtype=np.int32)
    place[used] = number.reshape(-1)
    made = Mesh(points, place[mesh.triangles], mesh.cell_data, mesh.names)
    made._notes, made._media_known, made._onto = list(mesh._notes), mesh._media_known, mesh._onto
    return made, place


class Elements:
    """The functions of a mesh.

    Attributes
    ----------
    kind : str
        "constant": one for each triangle, or "linear": one for each vertex.
    places : numpy.ndarray, (n, 3)
        Centroids, or vertices.
    integrals : numpy.ndarray, (n,)
        Of the functions.
    """

    def __init__(self, kind: str, mesh: Mesh) -> None:
        self.kind, self.mesh = choose("elements", kind, KINDS), mesh
        self.linear = kind == "linear"
        self.places: Array = mesh.vertices if self.linear else mesh.centroids
        self.integrals: Array = self.gathered(np.repeat(mesh.areas[:, None] / 3, 3, axis=1))

    def __len__(self) -> int:
        return len(self.places)

    @property
    def what(self) -> str:
        return "vertices" if self.linear else "triangles"

    def gathered(self, by_corner: Array) -> Array:
        """The sum over corners (m, 3) of triangles, by function."""
        if not self.linear:
            return np.asarray(by_corner.sum(axis=1))
        at = self.mesh.triangles.reshape(-1)

        def total(values: Array) -> Array:
            return np.bincount(at, values.reshape(-1), minlength=len(self.mesh.vertices))

        if by_corner.dtype.kind == "c":
            return np.asarray(total(by_corner.real) + 1j * total(by_corner.imag))
        return total(by_corner)

    def at_corners(self, values: Array) -> Array:
        """(m, 3): the values of a function at the corners of triangles."""
        return np.asarray(values[self.mesh.triangles] if self.linear else np.repeat(values[:, None], 3, axis=1))

    def on_triangles(self, values: Array) -> Array:
        """The mean over each triangle."""
        return np.asarray(self.at_corners(values).mean(axis=1) if self.linear else values)

    def tested(self, values: Array) -> Array:
        """The integrals of a function, given by its values, times each basis function: the mass matrix."""
        if not self.linear:
            return np.asarray(values * self.integrals)
        corners = self.at_corners(values)
        return self.gathered(self.mesh.areas[:, None] / 12 * (corners + corners.sum(axis=1, keepdims=True)))

    def of_triangles(self, values: Array, what: str) -> Array:
        """Values by function from those by triangle. ValueError where triangles with a vertex in common differ."""
        if not self.linear:
            return values
        made = np.empty(len(self), dtype=values.dtype)
        made[self.mesh.triangles] = values[:, None]
        wrong = np.flatnonzero((made[self.mesh.triangles] != values[:, None]).any(axis=1))
        if len(wrong):
            raise ValueError(
                f"{what} of triangle {wrong[0]} is not that of a neighbour with a vertex in common; linear elements are"
                " continuous there, take elements='constant'"
            )
        return made


def tested_function(mesh: Mesh, elements: Elements, function: Any) -> Array:
    """The integrals of function(points, normals) times each basis function, by seven points on each triangle."""
    weights, places = _SEVEN
    corners = mesh.vertices[mesh.triangles]
    normals = mesh.normals / mesh.areas[:, None]
    shares: Any = np.zeros((len(mesh), 3))
    for weight, at in zip(weights, places, strict=True):
        value = function(np.einsum("k,mkd->md", at, corners), normals) * mesh.areas * weight
        shares = shares + value[:, None] * (at if elements.linear else np.full(3, 1 / 3))
    return elements.gathered(shares)


def _seven() -> tuple[list[float], list[Array]]:
    """Weights and barycentric coordinates of the rule of degree 5 (Radon 1948)."""
    root = 15**0.5
    weights, places = [9 / 40], [np.full(3, 1 / 3)]
    for sign in (1, -1):
        near = (6 - sign * root) / 21
        for corner in range(3):
            at = np.full(3, near)
            at[corner] = 1 - 2 * near
            weights.append((155 - sign * root) / 1200)
            places.append(at)
    return weights, places


_SEVEN = _seven()
