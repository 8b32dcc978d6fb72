"""Planes of symmetry and at potential 0, by images of the charges on their other side."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import _core
from .._support import Array, choose, real_number
from .meshes import Mesh

AXES = ("x", "y", "z")


def plane_of(given: Any, what: str) -> tuple[int, float]:
    """The axis of a plane ("z", 0.0), by number, and its coordinate."""
    if not isinstance(given, tuple | list) or len(given) != 2:
        raise ValueError(f"{what} is {given!r}; an axis and a coordinate, as ('z', 0.0), are needed")
    axis, value = choose(f"axis of the {what}", given[0], AXES), real_number(given[1], f"the {what}")
    if not math.isfinite(value):
        raise ValueError(f"{what} is {given!r}; a finite coordinate is needed")
    return AXES.index(axis), value


class Mirrors:
    """A grounded plane and planes of symmetry, at most one across each axis. `alone`: without images, where the
    compiled part sees to the plane.

    Attributes
    ----------
    images : list of (list of bool, float)
        The axes that an image is mirrored across, and its sign.
    at : list of float
        The coordinates of the planes, 0 where there is none.
    """

    def __init__(self, plane: tuple[int, float] | None, mirror: Sequence[Any], alone: bool = False) -> None:
        planes = [(*plane, -1.0)] if plane is not None else []
        planes += [(*plane_of(one, "mirror"), 1.0) for one in mirror]
        axes = [axis for axis, _, _ in planes]
        for axis in axes:
            if axes.count(axis) > 1:
                raise ValueError(f"two planes across {AXES[axis]}; one is needed: mirrored in both, charges never end")
        self.planes = planes
        self.at = [0.0, 0.0, 0.0]
        for axis, value, _ in planes:
            self.at[axis] = value
        self.images: list[tuple[list[bool], float]] = []
        for count in range(1, 1 if alone else len(planes) + 1):
            for some in itertools.combinations(planes, count):
                across = [any(axis == own for own, _, _ in some) for axis in range(3)]
                self.images.append((across, float(np.prod([sign for _, _, sign in some]))))

    def __bool__(self) -> bool:
        return bool(self.images)

    def placed(self, mesh: Mesh) -> Mesh:
        """The mesh, with vertices in a plane where they are within rounding errors of it. InputError with the first
        triangle that is beyond a plane, on which side the first one tells, or in it.
        """
        vertices, size = mesh.vertices.copy(), float(np.ptp(mesh.vertices, axis=0).max())
        for axis, value, sign in self.planes:
            height = vertices[:, axis] - value
            height[np.abs(height) < 1e-9 * size] = 0
            vertices[:, axis] = height + value
            corners = height[mesh.triangles]
            middle = corners.mean(axis=1)
            side = 1.0 if middle[np.argmax(np.abs(middle) > 0)] > 0 else -1.0
            name = f"the {'mirror' if sign > 0 else 'grounded plane'} {AXES[axis]} = {value:g}"
            beyond = np.flatnonzero((side * corners < 0).any(axis=1) | (corners == 0).all(axis=1))
            if len(beyond):
                what = "lies in" if (corners[beyond[0]] == 0).all() else "reaches beyond"
                raise _core.InputError(f"triangle {beyond[0]} {what} {name}; all have to be on one side of it")
        return Mesh(vertices, mesh.triangles, mesh.cell_data, mesh.names)

    def refuse_field(self, field: Array) -> None:
        """ValueError for a uniform field that the planes turn into another one."""
        for axis, value, sign in self.planes:
            across, along = field[axis] != 0, np.delete(field, axis).any()
            name = f"{AXES[axis]} = {value:g}"
            if sign < 0 and along:
                raise ValueError(
                    f"field is {tuple(field.tolist())}; over the grounded plane {name} it is along {AXES[axis]}"
                )
            if sign > 0 and across:
                raise ValueError(f"field is {tuple(field.tolist())}; with the mirror {name} it is along the mirror")

    def unfolded(self, mesh: Mesh, density: Array) -> tuple[Array, Array, Array]:
        """Vertices, triangles and densities with those of all images."""
        vertices, triangles, densities = [mesh.vertices], [mesh.triangles], [density]
        for across, sign in self.images:
            shift = len(vertices) * len(mesh.vertices)
            vertices.append(np.where(across, 2 * np.array(self.at) - mesh.vertices, mesh.vertices))
            triangles.append(mesh.triangles + np.int32(shift))
            densities.append(sign * density)
        return np.concatenate(vertices), np.concatenate(triangles), np.concatenate(densities)
