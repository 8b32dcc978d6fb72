"""Dielectrics around conductors: the permittivities on both sides of each triangle."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from .. import _core
from .._support import Array, real_number
from .conductors import place_of
from .meshes import Mesh


class Media(NamedTuple):
    """The media of a mesh, and its conductors without the surfaces that are interfaces between two."""

    conductor: Array  #: of each triangle, from 0; -1 on interfaces
    names: list[str]  #: of the conductors
    outside: Array  #: relative permittivity outside each triangle, on the side of the normal of an interface
    inside: Array  #: the same on the other side; NaN on conductors

    @property
    def contrast(self) -> Array:
        """(outside - inside) / (outside + inside) on interfaces, NaN on conductors; empty without interfaces."""
        if (self.conductor >= 0).all():
            return np.zeros(0)
        return np.asarray((self.outside - self.inside) / (self.outside + self.inside))


def _relative(value: Any, what: str) -> float:
    number = real_number(value, what)
    if not 0 < number < math.inf:
        raise ValueError(f"{what} is {value!r}; a relative one is a number above 0")
    return number


def _joined(conductor: Array, names: list[str], join: Mapping[str, Any]) -> tuple[Array, list[str]]:
    """Conductors and names after groups became one conductor each, in the place of the first of its groups."""
    number, made = np.arange(len(names) + 1), list(names)
    number[-1] = -1
    for name, groups in join.items():
        if isinstance(groups, str) or not len(groups):
            raise ValueError(f"join of {name!r} is {groups!r}; a list of conductors is needed")
        places = [place_of(group, names, f"conductor to join in {name!r}") for group in groups]
        if any(number[place] != place for place in places):
            raise ValueError(f"join of {name!r}: one of {', '.join(map(str, groups))} is joined twice")
        number[places] = places[0]
        made[places[0]] = name
    kept = [place for place in range(len(names)) if number[place] == place]
    again = np.full(len(names) + 1, -1, dtype=np.int32)
    again[kept] = np.arange(len(kept))
    return again[number[conductor]], [made[place] for place in kept]


def media_of(
    mesh: Mesh,
    conductor: Array,
    names: list[str],
    permittivity: Any,
    media: Mapping[Any, Any],
    dielectrics: Any,
    join: Mapping[str, Any],
) -> Media:
    """The media of :func:`tacit.bem.assemble`; `conductor` and `names` are those of all surfaces."""
    around = 1.0 if permittivity is None else _relative(permittivity, "permittivity")
    outside, inside = np.full(len(mesh), around), np.full(len(mesh), np.nan)
    if permittivity is None and "permittivity" in mesh.cell_data:
        outside = np.array(mesh.cell_data["permittivity"], dtype=np.float64)
    if "permittivity_inside" in mesh.cell_data:
        inside = np.where(conductor < 0, mesh.cell_data["permittivity_inside"], np.nan)
    without = np.flatnonzero((conductor < 0) & ~(inside > 0))
    if len(without):
        raise ValueError(f"triangle {without[0]} is no conductor's, and has no permittivity_inside in the cell data")
    for name, value in media.items():
        outside[conductor == place_of(name, names, "media of")] = _relative(value, f"media of {name!r}")
    interfaces = set[int]()
    for name, value in dielectrics.items():
        place = place_of(name, names, "dielectric")
        within, beyond = value if isinstance(value, tuple | list) else (value, around)
        here = conductor == place
        _oriented(mesh, here, name)
        inside[here] = _relative(within, f"the permittivity inside {name!r}")
        outside[here] = _relative(beyond, f"the permittivity outside {name!r}")
        interfaces.add(place)
    kept = [place for place in range(len(names)) if place not in interfaces]
    number = np.full(len(names) + 1, -1, dtype=np.int32)  # the last one is that of -1
    number[kept] = np.arange(len(kept))
    own, left = _joined(number[conductor], [names[place] for place in kept], join)
    return Media(own, left, outside, inside)


def _oriented(mesh: Mesh, here: Array, name: Any) -> None:
    """InputError where the normals of a closed interface do not all point outwards."""
    surface = Mesh(mesh.vertices, mesh.triangles[here]).surface
    if not surface["oriented"] or (surface["closed"] and surface["volume"] < 0):
        raise _core.InputError(
            f"the normals of the dielectric {name!r} do not all point outwards, from its inside: mended(), --mend turn"
            " those of closed surfaces"
        )
