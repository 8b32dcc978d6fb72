"""Potential and field in a plane and on a line."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .._support import Array, as_array, real_number, whole_number
from .mesh_by_meshio import meshio_module
from .meshes import Mesh
from .mirrors import plane_of


def line(start: Any, end: Any, points: int = 101) -> Array:
    """Points (n, 3) at equal distances from `start` to `end`, both included, for :meth:`Charges.potential_at`."""
    ends = [np.asarray(as_array(p, "an end of the line"), dtype=np.float64) for p in (start, end)]
    if any(p.shape != (3,) or not np.isfinite(p).all() for p in ends):
        raise ValueError(f"a line from {start!r} to {end!r}; three numbers each are needed")
    if whole_number(points, "points") < 2:
        raise ValueError(f"points is {points}; a line has at least 2")
    return np.asarray(np.linspace(ends[0], ends[1], int(points)))


class Section:
    """The potential in a plane, on a grid around the bodies. Made by :meth:`tacit.bem.Charges.section`.

    Attributes
    ----------
    plane : (int, float)
        The axis across the plane, and its coordinate.
    across : (int, int)
        The axes in the plane: `u` along the first, `v` along the second.
    u, v : numpy.ndarray
        The coordinates of the grid.
    potential : numpy.ndarray, (len(v), len(u))
        In V.
    """

    def __init__(self, charges: Any, plane: Any, points: int, margin: float) -> None:
        self.plane = axis, value = plane_of(plane, "section")
        self.across = (axis + 1) % 3, (axis + 2) % 3
        if axis == 1:
            self.across = 0, 2
        if whole_number(points, "points") < 2:
            raise ValueError(f"points is {points}; a section has at least 2 along its longer side")
        if not real_number(margin, "margin") >= 0:
            raise ValueError(f"margin is {margin}; a number from 0 is needed")
        s = charges.system
        vertices, triangles, _ = s.mirrors.unfolded(s.mesh, np.zeros(len(s.mesh)))
        self._mesh = Mesh(vertices, triangles)
        low, high = vertices.min(axis=0), vertices.max(axis=0)
        wider = margin * float((high - low).max())
        sides = [(low[d] - wider, high[d] + wider) for d in self.across]
        if s.plane is not None and not s.mirrors and s.plane[0] in self.across:  # up to the plane, not beyond it
            place, ground = self.across.index(s.plane[0]), s.plane[1]
            below = float(s.mesh.centroids[0, s.plane[0]]) < ground
            sides[place] = (sides[place][0], ground) if below else (ground, sides[place][1])
        step = max(end - begin for begin, end in sides) / (int(points) - 1) or 1.0
        self.u, self.v = (np.linspace(a, b, max(2, 1 + round((b - a) / step))) for a, b in sides)
        places = np.empty((len(self.v), len(self.u), 3))
        places[..., axis] = value
        places[..., self.across[0]], places[..., self.across[1]] = self.u, self.v[:, None]
        self._places = places.reshape(-1, 3)
        self._charges = charges
        self.potential: Array = charges.potential_at(self._places).reshape(len(self.v), len(self.u))

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

        field = self._charges.field_at(self._places) / self._charges.system.metres
        meshio = meshio_module()
        number = np.arange(self.potential.size).reshape(self.potential.shape)
        quads = [number[:-1, :-1], number[:-1, 1:], number[1:, 1:], number[1:, :-1]]
        cells = [("quad", np.stack(quads, axis=-1).reshape(-1, 4))]
        data = {"potential": self.potential.reshape(-1), "field_V_m": field}
        if self._charges.system.comm.rank == 0:
            with report.replacing(Path(path)) as temporary:
                meshio.Mesh(self._places, cells, point_data=data).write(temporary)

    def plot(self, path: str | os.PathLike[str], unit: str = "u") -> None:
        """Plots the potential, its contours, and the outlines of bodies: .png, .pdf, .svg. Local."""
        from ..plot import bem as figures

        names: Sequence[str] = ["xyz"[d] for d in self.across]
        place = f"{'xyz'[self.plane[0]]} = {self.plane[1]:g} {unit}"
        figures.section(self.u, self.v, self.potential, self.outlines(), path, names, place, unit)
