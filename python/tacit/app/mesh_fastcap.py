"""Reads FastCap's and FasterCap's input: lists of surfaces (.lst), and surfaces of triangles and quadrangles (.qui)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from .._core import InputError
from .._support import Array
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


class _List:
    """The surfaces of a list file, one line after the other."""

    def __init__(self, path: Path) -> None:
        self.path, self.made = path, _Made()
        self.own, self.files = _apart(_lines(path), path)
        self.surfaces: dict[str, tuple[Path, _Surface]] = {}
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
        # The point is on the side of the first permittivity, behind a - on that of the second.
        side = -1 if words[-1] == "-" else 1
        for panel in range(first, len(self.made.corners)):
            p = self.made.corners[panel]
            normal = np.cross(p[2] - p[0], p[-1] - p[1])
            if side * float(normal @ (np.array(rest[3:]) - p.mean(axis=0))) < 0:
                self.made.corners[panel] = p[::-1]

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
