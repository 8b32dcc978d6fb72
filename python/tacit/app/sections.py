"""Potential and field in a plane and on a line."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import numpy as np

from .._support import Array, real_number, whole_number
from .mesh_by_meshio import meshio_module
from .meshes import Mesh
from .mirrors import plane_of
from .points import three


def line(start: Any, end: Any, points: int = 101) -> Array:
    """Points (n, 3) at equal distances from `start` to `end`, both included, for :meth:`Charges.potential_at`."""
    ends = [
        three(p, f"a line from {start!r} to {end!r}: an end", "three numbers each are needed") for p in (start, end)
    ]
    if whole_number(points, "points") < 2:
        raise ValueError(f"points is {points}; a line has at least 2")
    return np.asarray(np.linspace(ends[0], ends[1], int(points)))


class PlaneGrid:
    """Points on a grid in a plane around bodies: `places`, (len(v) len(u), 3)."""

    plane: tuple[int, float]
    across: tuple[int, int]
    u: Array
    v: Array

    def __init__(self, plane: Any, points: int, margin: float, vertices: Array, ends: Any = (np.nan, np.nan)) -> None:
        """`ends`: the lowest and highest coordinates where these are given, by axis; NaN elsewhere."""
        self.plane = axis, value = plane_of(plane, "section")
        self.across = (0, 2) if axis == 1 else ((axis + 1) % 3, (axis + 2) % 3)
        if whole_number(points, "points") < 2:
            raise ValueError(f"points is {points}; a section has at least 2 along its longer side")
        if not 0 <= real_number(margin, "margin") < math.inf:
            raise ValueError(f"margin is {margin}; a number from 0 is needed")
        low, high = vertices.min(axis=0), vertices.max(axis=0)
        wider = margin * float((high - low).max())
        low, high = (
            np.where(np.isnan(end), free, end) for end, free in zip(ends, (low - wider, high + wider), strict=True)
        )
        sides = [(low[d], high[d]) for d in self.across]
        step = max(end - begin for begin, end in sides) / (int(points) - 1) or 1.0
        self.u, self.v = (np.linspace(a, b, max(2, 1 + round((b - a) / step))) for a, b in sides)
        places = np.empty((len(self.v), len(self.u), 3))
        places[..., axis] = value
        places[..., self.across[0]], places[..., self.across[1]] = self.u, self.v[:, None]
        self.places = places.reshape(-1, 3)

    @property
    def _names(self) -> list[str]:
        """Of the axes along `u` and `v`."""
        return ["xyz"[d] for d in self.across]

    @property
    def _title(self) -> str:
        return f"{'xyz'[self.plane[0]]} = {self.plane[1]:g}"

    def _by_grid(self, values: Array) -> Array:
        return values.reshape(len(self.v), len(self.u))


class Section(PlaneGrid):
    """The potential in a plane, on a grid around the bodies. Made by :meth:`tacit.bem.Charges.section`.

    Attributes
    ----------
    plane : (int, float)
        The axis across the plane, and its coordinate.
    across : (int, int)
        The axes in the plane: `u` along the first, `v` along the second.
    u, v : numpy.ndarray
        The coordinates of the grid.
    places : numpy.ndarray, (len(v) len(u), 3)
        Its points.
    potential : numpy.ndarray, (len(v), len(u))
        In V.
    """

    def __init__(self, charges: Any, plane: Any, points: int, margin: float) -> None:
        s = charges.system
        vertices, triangles, _ = s.mirrors.unfolded(s.mesh, np.zeros(len(s.mesh)))
        ends = np.full((2, 3), np.nan)
        if s.plane is not None and not s.mirrors:  # up to the plane, not beyond it
            axis, ground = s.plane
            ends[int(s.mesh.centroids[0, axis] < ground), axis] = ground
        super().__init__(plane, points, margin, vertices, ends)
        self._mesh, self._charges = Mesh(vertices, triangles), charges
        self.potential: Array = self._by_grid(charges.potential_at(self.places))

    def outlines(self) -> Array:
        """Where triangles cross the plane: segments (n, 2, 2), each of two points (u, v)."""
        axis, value = self.plane
        corners = self._mesh.vertices[self._mesh.triangles]
        height = corners[..., axis] - value
        found = []
        up = height > 0
        for apex in range(3):  # the corner that is alone on its side
            others = [(apex + 1) % 3, (apex + 2) % 3]
            here = (up[:, apex] != up[:, others[0]]) & (up[:, apex] != up[:, others[1]])
            ends = []
            for other in others:
                share = height[here, apex] / (height[here, apex] - height[here, other])
                ends.append(corners[here, apex] + share[:, None] * (corners[here, other] - corners[here, apex]))
            found.append(np.stack(ends, axis=1)[..., list(self.across)])
        return np.concatenate(found)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Writes the grid with the potential in V and the field in V / m of each point: .vtu, .vtk, .. Collective; the
        first rank writes.
        """
        from .. import report

        field = self._charges.field_at(self.places) / self._charges.system.metres
        meshio = meshio_module()
        number = np.arange(self.potential.size).reshape(self.potential.shape)
        quads = [number[:-1, :-1], number[:-1, 1:], number[1:, 1:], number[1:, :-1]]
        cells = [("quad", np.stack(quads, axis=-1).reshape(-1, 4))]
        data = {"potential": self.potential.reshape(-1), "field_V_m": field}
        if self._charges.system.comm.rank == 0:
            with report.replacing(Path(path)) as temporary:
                meshio.Mesh(self.places, cells, point_data=data).write(temporary)

    def plot(self, path: str | os.PathLike[str], unit: str = "u") -> None:
        """Plots the potential, its contours, and the outlines of bodies: .png, .pdf, .svg. Local."""
        from ..plot import bem as figures

        title = f"{self._title} {unit}"
        figures.section(self.u, self.v, self.potential, self.outlines(), path, self._names, title, unit)
