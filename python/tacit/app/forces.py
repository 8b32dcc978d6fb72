"""Forces of the electric field on conductors."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from .._support import Array
from .capacitance import EPS0
from .meshes import core_function
from .points import shared_out, three


class Forces(NamedTuple):
    """Forces on conductors, and their moments."""

    newtons: Array  #: (k, 3)
    newton_metres: Array  #: (k, 3), about a point


def _of_others(charges: Any, conductor: int, here: Array) -> Array:
    """The field of everything but a conductor's own charge at the centroids of its triangles. Collective."""
    s = charges.system
    vertices, triangles, density = s.mirrors.unfolded(s.mesh, np.asarray(charges.mean_density, dtype=np.float64))
    density = density.copy()
    density[: len(s.mesh)][here] = 0  # its images stay
    places = s.mesh.centroids[here]
    # With a grounded plane alone the compiled part has the image of its own.
    field = _field(s, vertices, triangles, None if s.mirrors else s.plane, density, places)
    if s.plane is not None and not s.mirrors:
        field = field + _of_own_image(charges, here, places)
    return np.asarray(field + np.asarray(charges.field))


def _field(s: Any, vertices: Array, triangles: Array, plane: Any, density: Array, places: Array) -> Array:
    """The field of these charges at points. Collective."""
    mesh = vertices, triangles, plane, min(1e-4, s.tolerance)

    def summed(own: Array) -> Any:
        return core_function("bem_field")(*mesh, density, own, 1 / (4 * math.pi))

    return shared_out(s.comm, s.threads, places, summed)


def _of_own_image(charges: Any, here: Array, places: Array) -> Array:
    """The field of the image of a conductor's charge in a grounded plane. Collective."""
    s = charges.system
    assert s.plane is not None
    axis, value = s.plane
    vertices = s.mesh.vertices.copy()
    vertices[:, axis] = 2 * value - vertices[:, axis]
    density = np.where(here, -np.asarray(charges.mean_density, dtype=np.float64), 0.0)
    return _field(s, vertices, s.mesh.triangles, None, density, places)


def forces_on(charges: Any, about: Any = (0.0, 0.0, 0.0)) -> Forces:
    """The forces on the conductors, each in one medium. See :meth:`tacit.bem.Charges.forces`."""
    s = charges.system
    centre = three(about, "about")
    total, moment = np.zeros((s.conductors, 3)), np.zeros((s.conductors, 3))
    free = charges.mean_density * s.permittivity * s.mesh.areas
    for k in range(s.conductors):
        here = s.conductor == k
        around = np.unique(s.permittivity[here])
        if len(around) > 1:
            raise ValueError(
                f"conductor {s.names[k]!r} is in media of permittivity {around[0]:g} and {around[1]:g}; the force is"
                " that on conductors in one medium"
            )
        each = free[here, None] * _of_others(charges, k, here)
        total[k] = each.sum(axis=0)
        moment[k] = np.cross(s.mesh.centroids[here] - centre, each).sum(axis=0)
    return Forces(EPS0 * total, EPS0 * s.metres * moment)
