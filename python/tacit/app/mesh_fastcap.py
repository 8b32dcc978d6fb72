"""Reads FastCap's and FasterCap's input: lists of surfaces (.lst), and surfaces of triangles and quadrangles (.qui)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from .._core import InputError
from .._support import Array, core
from .enclosures import Samples, edges_of, nearness, normals_of, parts_of, winding
from .mesh_faces import Faces, starts_of

_CORNERS = {"T": 3, "Q": 4}


@dataclass
class _Surface:
    """The panels of a surface file: the name of the conductor and the corners of each, and its line."""

    names: list[str] = field(default_factory=list)
    corners: list[list[list[float]]] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)


@dataclass
class _Made:
    """What a list of surfaces adds up to, by panel."""

    corners: list[Array] = field(default_factory=list)
    conductors: list[tuple[str, str]] = field(default_factory=list)  #: name and group; empty on interfaces
    outside: list[float] = field(default_factory=list)
    inside: list[float] = field(default_factory=list)
    places: list[str] = field(default_factory=list)


class _Interface(NamedTuple):
    """A D line: its number, the point, whether this is on the side of the first permittivity, and its panels."""

    line: int
    point: Array
    first: bool
    panels: Array


def _wrong(path: Path, line: int, expected: str, words: list[str]) -> InputError:
    return InputError(f"{path}: line {line}: expected {expected}, found {' '.join(words)[:60]!r}")


def _numbers(words: list[str], count: int, path: Path, line: int, expected: str) -> list[float]:
    try:
        found = [float(word) for word in words[:count]]
    except ValueError:
        found = []
    if len(found) < count or not all(map(math.isfinite, found)):
        raise _wrong(path, line, expected, words)
    return found


def _surface(lines: list[tuple[int, str]], path: Path) -> _Surface:
    """A surface: its title behind a 0, then T and Q (panels), N (a conductor's new name) and * or % (comments)."""
    made, renamed = _Surface(), dict[str, str]()
    for place, (line, text) in enumerate(lines):
        words = text.split()
        kind = words[0].upper() if words else "*"
        if place == 0:
            if kind != "0":
                raise _wrong(
                    path, line, "the title of a surface behind a 0 (neutral files of PATRAN are not read)", words
                )
            continue
        if kind[0] in "*%":
            continue
        if kind in _CORNERS and len(words) > 1:
            corners = _CORNERS[kind]
            expected = f"{kind}, a conductor and {3 * corners} coordinates"
            found = _numbers(words[2:], 3 * corners, path, line, expected)
            made.names.append(words[1])
            made.corners.append([found[k : k + 3] for k in range(0, len(found), 3)])
            made.lines.append(line)
        elif kind == "N" and len(words) >= 3:
            renamed[words[1]] = words[2]
        else:
            raise _wrong(path, line, "T, Q, N or *", words)
    made.names = [renamed.get(name, name) for name in made.names]
    return made


def _lines(path: Path) -> list[tuple[int, str]]:
    text = path.read_bytes().decode("latin-1")
    return [(k + 1, line) for k, line in enumerate(text.splitlines()) if line.strip()]


def _apart(lines: list[tuple[int, str]], path: Path) -> tuple[list[tuple[int, str]], dict[str, list[tuple[int, str]]]]:
    """The lines of a list, and of the files that stand in it between "File NAME" and "End"."""
    own, files = list[tuple[int, str]](), dict[str, list[tuple[int, str]]]()
    name: str | None = None
    for line, text in lines:
        words = text.split()
        if words[0].lower() == "file" and len(words) > 1 and name is None:
            name = words[1]
            files[name] = []
        elif words[0].lower() == "end" and name is not None:
            name = None
        elif name is not None:
            files[name].append((line, text))
        else:
            own.append((line, text))
    if name is not None:
        raise InputError(f'{path}: the file ends within {name!r}; a line "End" is needed')
    return own, files


def _triangles(corners: list[Array]) -> tuple[Array, Array, Array]:
    """The vertices, triangles and panels of triangles of polygons."""
    starts = np.cumsum([0, *map(len, corners)])
    made = [(s, s + k, s + k + 1) for s, p in zip(starts, corners, strict=False) for k in range(1, len(p) - 1)]
    panel = np.repeat(np.arange(len(corners)), [len(p) - 2 for p in corners])
    return np.concatenate(corners), np.array(made, np.int32), panel


def _sides_of_closed(interface: _Interface, corners: list[Array], path: Path) -> Array:
    """For each panel of an interface 1 where its normal points to the first permittivity, -1 where it points away; 0 on
    parts that are not closed.
    """
    vertices, triangles, panel = _triangles([corners[k] for k in interface.panels])
    found = np.zeros(len(interface.panels))
    points, alike, kept = core("bem", "mend")(vertices, triangles, nearness(vertices, triangles))[:3]
    parts, at = parts_of(points, alike), points[alike]
    closed = [np.flatnonzero(parts.of == k) for k in np.flatnonzero(parts.closed)]
    if not closed:
        return found
    turns = np.array([winding(at[part], interface.point[None])[0] for part in closed])
    if (np.abs(turns - np.rint(turns)) > 0.1).any():
        place = ", ".join(f"{x:g}" for x in interface.point)
        raise InputError(f"{path}: line {interface.line}: the point {place} lies on the interface; give one beside it")
    samples = Samples(at, closed)
    around = sum((samples.shares(at[part]) == 1).astype(int) for part in closed)
    # Across each surface the first permittivity changes to the second or back, also where one lies within another.
    first = ((np.rint(turns).sum() - around) % 2 == 0) == interface.first
    for part, outwards in zip(closed, first, strict=True):
        own = kept[part]
        same = (normals_of(at[part]) * normals_of(vertices[triangles[own]])).sum(axis=1) > 0
        found[panel[own]] = np.where(same == outwards, 1, -1)
    return found


def _orient(made: _Made, interfaces: list[_Interface], path: Path) -> None:
    """Turns the panels of interfaces so that normals point to the first permittivity. On that side is the point of the
    D line, behind a - on the other: of closed parts as a whole, else of each panel. InputError where neighbours in an
    open part then go round in different senses.
    """
    of, open_panel = np.full(len(made.corners), -1), np.zeros(len(made.corners), bool)
    for number, interface in enumerate(interfaces):
        sides = _sides_of_closed(interface, made.corners, path)
        of[interface.panels] = number
        open_panel[interface.panels] = sides == 0
        for panel, side in zip(interface.panels, sides, strict=True):
            p = made.corners[panel]
            if side == 0:
                side = float(np.cross(p[2] - p[0], p[-1] - p[1]) @ (interface.point - p.mean(axis=0)))
                side = side if interface.first else -side
            if side < 0:
                made.corners[panel] = p[::-1]
    vertices, triangles, panel = _triangles(made.corners)
    one, other, differ, _ = edges_of(vertices, triangles)
    one, other = panel[one], panel[other]
    wrong = np.flatnonzero(differ & (of[one] == of[other]) & open_panel[one] & open_panel[other])
    if len(wrong):
        a, b = one[wrong[0]], other[wrong[0]]
        interface = interfaces[of[a]]
        place = ", ".join(f"{x:g}" for x in interface.point)
        raise InputError(
            f"{path}: line {interface.line}: the point {place} is before {made.places[a]} and behind its neighbour,"
            f" {made.places[b]}, and the interface is not closed: give a point that is on one side of all panels, or"
            " divide the interface into D lines with a point each"
        )


class _List:
    """The surfaces of a list file, one line after the other."""

    def __init__(self, path: Path) -> None:
        self.path, self.made = path, _Made()
        self.own, self.files = _apart(_lines(path), path)
        self.surfaces: dict[str, tuple[Path, _Surface]] = {}
        self.interfaces: list[_Interface] = []
        self.group, self.number = "GROUP1", 1

    def surface(self, name: str, line: int) -> tuple[Path, _Surface]:
        if name not in self.surfaces:
            if name in self.files:
                self.surfaces[name] = self.path, _surface(self.files[name], self.path)
            else:
                other = self.path.parent / name
                if not other.is_file():
                    raise InputError(f"{self.path}: line {line}: there is no file {other}")
                self.surfaces[name] = other, _surface(_lines(other), other)
        return self.surfaces[name]

    def read(self) -> _Made:
        for line, text in self.own:
            words = text.split()
            kind = words[0].upper()
            if kind[0] in "*%":
                continue
            if kind == "G" and len(words) > 1:
                self.group = words[1]
            elif kind == "C" and len(words) > 1:
                self.conductors(words, line)
            elif kind == "D" and len(words) > 1:
                self.interface(words, line)
            elif kind == "B":
                raise InputError(
                    f"{self.path}: line {line}: a conductor between two dielectrics (B), which is not read here; give"
                    " its two sides as conductors (C) a thickness apart"
                )
            else:
                raise _wrong(self.path, line, "C, D, G, * or File", words)
        if self.interfaces:
            _orient(self.made, self.interfaces, self.path)
        return self.made

    def conductors(self, words: list[str], line: int) -> None:
        expected = "C, a file, a relative permittivity and an offset of three numbers"
        permittivity, *offset = _numbers(words[2:], 4, self.path, line, expected)
        self.add(words[1], line, offset, self.group, permittivity, math.nan)
        if words[-1] != "+":
            self.number += 1
            self.group = f"GROUP{self.number}"

    def interface(self, words: list[str], line: int) -> None:
        expected = "D, a file, the relative permittivities outside and inside, an offset and a point outside"
        outside, inside, *rest = _numbers(words[2:], 8, self.path, line, expected)
        first = len(self.made.corners)
        self.add(words[1], line, rest[:3], "", outside, inside)
        panels = np.arange(first, len(self.made.corners))
        if len(panels):
            self.interfaces.append(_Interface(line, np.array(rest[3:]), words[-1] != "-", panels))

    def add(self, name: str, line: int, offset: list[float], group: str, outside: float, inside: float) -> None:
        for value in (outside, inside):
            if value <= 0:
                raise InputError(f"{self.path}: line {line}: a relative permittivity of {value:g}; above 0 is needed")
        path, surface = self.surface(name, line)
        made = self.made
        made.corners += [np.array(panel) + offset for panel in surface.corners]
        made.conductors += [(own, group) if group else ("", "") for own in surface.names]
        made.outside += [outside] * len(surface.names)
        made.inside += [inside] * len(surface.names)
        made.places += [f"the panel in line {number} of {path}" for number in surface.lines]


def _faces(made: _Made) -> Faces:
    sizes = np.array([len(panel) for panel in made.corners], np.int64)
    points = np.concatenate(made.corners) if made.corners else np.zeros((0, 3))
    vertices, corners = np.unique(points + 0.0, axis=0, return_inverse=True)  # -0 is 0
    # A name in several groups is one conductor in each.
    known = list(dict.fromkeys(pair for pair in made.conductors if pair[1]))
    plain = [name for name, _ in known]
    names = {k: name if plain.count(name) == 1 else f"{name}%{group}" for k, (name, group) in enumerate(known)}
    number = {pair: k for k, pair in enumerate(known)} | {("", ""): -1}
    data = {
        "conductor": np.array([number[pair] for pair in made.conductors], np.int64),
        "permittivity": np.array(made.outside),
        "permittivity_inside": np.array(made.inside),
    }
    return Faces(
        vertices, starts_of(sizes), corners.reshape(-1), data, made.places.__getitem__, names={"conductor": names}
    )


def read_list(path: Path) -> Faces:
    """The panels of a list file. ``cell_data``: "conductor" (-1 on interfaces between dielectrics), with names;
    "permittivity" outside of each panel, and "permittivity_inside" (not a number on conductors). The normal of an
    interface points outwards.
    """
    return _faces(_List(path).read())


def read_surface(path: Path) -> Faces:
    """The panels of a surface file, as conductors."""
    surface, made = _surface(_lines(path), path), _Made()
    made.corners = [np.array(panel) for panel in surface.corners]
    made.conductors = [(name, "GROUP1") for name in surface.names]
    made.places = [f"the panel in line {line}" for line in surface.lines]
    made.outside, made.inside = [1.0] * len(surface.names), [math.nan] * len(surface.names)
    faces = _faces(made)
    return Faces(
        faces.vertices, faces.starts, faces.corners, {"conductor": faces.cell_data["conductor"]}, faces.name_of,
        names=faces.names,
    )  # fmt: skip
