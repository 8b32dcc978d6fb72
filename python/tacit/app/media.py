"""Dielectrics around conductors: the permittivities on both sides of each triangle."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from .. import _core
from .._support import Array, real_number
from .conductors import place_of, placed
from .enclosures import Samples, parts_of
from .meshes import Mesh
from .mirrors import Mirrors

#: The share of all directions that an interface with a hole covers, seen from what lies within it.
_NEARLY = 0.75
#: Who gave a permittivity: nobody (that around everything was taken), the file, or the caller.
_NOBODY, _FILE, _CALLER = 0, 1, 2


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
    mirrors: Mirrors,
) -> tuple[Media, list[str]]:
    """The media of :func:`tacit.bem.assemble`, and notes on them; `conductor` and `names` are those of all surfaces,
    `mirrors` have all images.
    """
    around = 1.0 if permittivity is None else _relative(permittivity, "permittivity")
    outside, inside = np.full(len(mesh), around), np.full(len(mesh), np.nan)
    giver = np.full(len(mesh), _NOBODY)
    if permittivity is None and "permittivity" in mesh.cell_data:
        outside, giver[:] = np.array(mesh.cell_data["permittivity"], dtype=np.float64), _FILE
    if "permittivity_inside" in mesh.cell_data:
        inside = np.where(conductor < 0, mesh.cell_data["permittivity_inside"], np.nan)
    without = np.flatnonzero((conductor < 0) & ~(inside > 0))
    if len(without):
        raise ValueError(f"triangle {without[0]} is no conductor's, and has no permittivity_inside in the cell data")
    for place, name, value in placed(media, names, "media of"):
        outside[conductor == place], giver[conductor == place] = _relative(value, f"media of {name!r}"), _CALLER
    interfaces = set[int]()
    for place, name, value in placed(dielectrics, names, "dielectric"):
        within, beyond = value if isinstance(value, tuple | list) else (value, around)
        here = conductor == place
        _oriented(mesh, here, name)
        inside[here] = _relative(within, f"the permittivity inside {name!r}")
        outside[here] = _relative(beyond, f"the permittivity outside {name!r}")
        giver[here] = _CALLER if isinstance(value, tuple | list) else _NOBODY
        interfaces.add(place)
    kept = [place for place in range(len(names)) if place not in interfaces]
    number = np.full(len(names) + 1, -1, dtype=np.int32)  # the last one is that of -1
    number[kept] = np.arange(len(kept))
    notes = _enclosed(mesh, conductor, names, number[conductor] < 0, mirrors, outside, inside, giver)
    own, left = _joined(number[conductor], [names[place] for place in kept], join)
    return Media(own, left, outside, inside), notes


class _Bodies:
    """The parts of conductors and the closed parts of interfaces, with images, and what lies within which."""

    def __init__(self, mesh: Mesh, conductor: Array, interface: Array, mirrors: Mirrors) -> None:
        n = len(mesh)
        vertices, triangles = mirrors.unfolded(mirrors.placed(mesh), np.ones(n))[:2]
        for k, (across, _) in enumerate(mirrors.images, 1):
            if sum(across) % 2:
                triangles[k * n : (k + 1) * n] = triangles[k * n : (k + 1) * n, ::-1]
        self.surfaces: list[Array] = []  #: closed ones
        self.volumes: list[float] = []
        open_ones: list[Array] = []
        for kind in (interface, ~interface):
            here = np.flatnonzero(np.tile(kind, len(triangles) // n))
            if len(here) == 0:
                continue
            parts = parts_of(vertices, triangles[here])
            found = np.split(here[np.argsort(parts.of, kind="stable")], np.cumsum(np.bincount(parts.of))[:-1])
            for part, closed, volume in zip(found, parts.closed, parts.volume, strict=True):
                if closed:
                    self.surfaces.append(part)
                    self.volumes.append(float(volume))
                elif kind is interface:
                    open_ones.append(part)
        self.is_interface = [bool(interface[part[0] % n]) for part in self.surfaces]
        #: Triangles of the mesh: parts of conductors, and closed interfaces by their place among the surfaces.
        self.parts = [(part, -1) for part in _split(conductor, mesh.component, ~interface)]
        own = [(part[part < n], k) for k, part in enumerate(self.surfaces) if self.is_interface[k]]
        self.parts += [(part, k) for part, k in own if len(part)]
        corners = vertices[triangles]
        samples = Samples(corners, [part for part, _ in self.parts] + open_ones)
        #: The smallest closed surface around each part, -1 where there is none or it is not known.
        self.around = np.full(len(self.parts), -1)
        for k in sorted(range(len(self.surfaces)), key=lambda k: -abs(self.volumes[k])):
            share = samples.shares(corners[self.surfaces[k]])
            # An open interface within may have another medium behind it.
            known = self.is_interface[k] and not share[len(self.parts) :].any()
            self.around[share[: len(self.parts)] == 1] = k if known else -1
        self.surfaces = [part % n for part in self.surfaces]
        #: Open interfaces, and which parts they nearly enclose: more than the half that a plane covers.
        self.torn = [(part % n, samples.shares(corners[part], _NEARLY)[: len(self.parts)] == 1) for part in open_ones]


def _split(conductor: Array, component: Array, chosen: Array) -> list[Array]:
    """The triangles of each component of each conductor."""
    here = np.flatnonzero(chosen)
    if len(here) == 0:
        return []
    order = here[np.lexsort((component[here], conductor[here]))]
    new = (np.diff(component[order]) != 0) | (np.diff(conductor[order]) != 0)
    return np.split(order, np.flatnonzero(new) + 1)


def _enclosed(
    mesh: Mesh,
    conductor: Array,
    names: list[str],
    interface: Array,
    mirrors: Mirrors,
    outside: Array,
    inside: Array,
    giver: Array,
) -> list[str]:
    """Puts what lies within a closed interface in the medium there, in `outside`, where nobody gave another. Notes say
    of what, and where the caller gave another. InputError where the file did.
    """
    if not interface.any() or mesh._media_known:
        return []
    bodies = _Bodies(mesh, conductor, interface, mirrors)
    found: dict[tuple[str, float, float, bool], list[str]] = {}

    def name_of(part: Array) -> str:
        k = conductor[part[0]]
        return "a closed interface" if k < 0 else f"{'dielectric' if interface[part[0]] else 'conductor'} {names[k]!r}"

    for (part, own), k in zip(bodies.parts, bodies.around, strict=True):
        if k < 0:
            continue
        side = inside if bodies.volumes[k] > 0 else outside
        if np.ptp(side[bodies.surfaces[k]]) > 0:
            continue
        medium = float(side[bodies.surfaces[k][0]])
        outwards = own < 0 or bodies.volumes[own] > 0
        has = outside if outwards else inside
        wrong = part[~np.isclose(has[part], medium, rtol=1e-6, atol=0)]
        if len(wrong) == 0:
            continue
        by = giver[wrong[0]] if outwards else max(giver[wrong[0]], _FILE)
        inner, outer, before = name_of(part), name_of(bodies.surfaces[k]), float(has[wrong[0]])
        if by == _FILE:
            raise _core.InputError(
                f"{inner} has permittivity {before:g} around it and lies within {outer}, whose inside has {medium:g}:"
                " the file has the wrong permittivity, or the wrong side of an interface (of a FastCap list: the point"
                " of a D line is on the side of the first permittivity, with a - behind it on the other side)"
            )
        found.setdefault((outer, medium, before, by == _NOBODY), []).append(inner)
        if by == _NOBODY:
            has[wrong] = medium
    notes = [_sentence(list(dict.fromkeys(inner)), *key) for key, inner in found.items()]
    for surface, within in bodies.torn:
        parts = [part for (part, _), here, k in zip(bodies.parts, within, bodies.around, strict=True) if here and k < 0]
        left = [part for part in parts if giver[part[0]] == _NOBODY]
        held = dict.fromkeys(map(name_of, left))
        if held:
            notes.append(
                f"{_subject(list(held))} within {name_of(surface)} but for a hole in it, so that permittivity"
                f" {outside[left[0][0]]:g} is taken there; --media and media= give another, and --mend --merge closes"
                " gaps between vertices"
            )
    return notes


def _subject(inner: list[str]) -> str:
    """What lies somewhere, with the verb."""
    shown = ", ".join(inner[:4]) + (f", .. ({len(inner)})" if len(inner) > 4 else "")
    return f"{shown} {'lies' if len(inner) == 1 else 'lie'}"


def _sentence(inner: list[str], outer: str, medium: float, before: float, changed: bool) -> str:
    """A sentence on parts within a closed interface."""
    if changed:
        return (
            f"{_subject(inner)} within {outer}: permittivity {medium:g}, that inside, is taken there, not {before:g};"
            " --media, media= and the OUT of a dielectric give another"
        )
    return f"{_subject(inner)} within {outer}, whose inside has permittivity {medium:g}, and keeps the {before:g} given"


def _oriented(mesh: Mesh, here: Array, name: Any) -> None:
    """InputError where the normals of a closed interface do not all point outwards."""
    surface = Mesh(mesh.vertices, mesh.triangles[here]).surface
    if not surface["oriented"] or (surface["closed"] and surface["volume"] < 0):
        raise _core.InputError(
            f"the normals of the dielectric {name!r} do not all point outwards, from its inside: mended(), --mend turn"
            " those of closed surfaces"
        )
