"""Reads .stl files, binary and text."""

from __future__ import annotations

import itertools
import re
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from .._core import InputError
from .._support import Array
from .mesh_faces import Faces, numbers_in, starts_of, too_few

_FACETS = re.compile(rb"\bendfacet\b", re.IGNORECASE)
_PART = 1 << 24  # bytes of text that are looked at together
_WORDS = re.compile(rb"^[ \t]*(?:vertex[ \t]+([^\r\n]*)|(endloop)\b)", re.IGNORECASE | re.MULTILINE)


def read(path: Path) -> Faces:
    """The facets of a .stl file. Corners at one point become one vertex. A file is binary if it has the size that the
    count in its header needs, also if it begins with "solid" (as some programs write); a text may have several
    solids and words in capitals.
    """
    data = path.read_bytes()
    start = data[:512].lstrip()
    count = struct.unpack_from("<I", data, 80)[0] if len(data) >= 84 else -1
    is_text = start[:5].lower() == b"solid" and (b"facet" in start.lower() or not _not_text(start))
    if len(data) == 84 + 50 * count or (not is_text and _not_text(start)):
        return _binary(data, count, path)
    if not is_text:
        raise InputError(f'{path}: line 1: a .stl file of text begins with "solid"; found {start[:60]!r}')
    return _text(data, path)


def _not_text(start: bytes) -> bool:
    return re.search(rb"[^\t\n\r\f -\xff]", start) is not None


def _binary(data: bytes, count: int, path: Path) -> Faces:
    if count < 0:
        raise InputError(f"{path}: a binary STL file begins with 84 bytes; the file has {len(data)} bytes")
    if len(data) != 84 + 50 * count:
        raise too_few(path, count, "triangles", 84 + 50 * count, len(data))
    rows = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])
    corners = np.frombuffer(data, rows, count, 84)["corners"].reshape(-1, 3)
    return _faces(corners.astype(np.float64), np.full(count, 3))


def _text(data: bytes, path: Path) -> Faces:
    if not re.search(rb"endsolid", data[-4096:], re.IGNORECASE):
        raise InputError(f"{path}: line {data.count(10) + 1}: the file ends without endsolid")
    if b"\n" not in data:
        data = data.replace(b"\r", b"\n")
    points, sizes = list[Array](), list[Array]()
    for part, line in _parts(data):
        found = _WORDS.findall(part)
        ends = np.array([bool(words[1]) for words in found], bool)
        numbers = numbers_in(b"\n".join(words[0] for words in found if not words[1]))
        if len(numbers) != 3 * np.count_nonzero(~ends):
            raise _no_vertex(part, line, path)
        points.append(numbers.reshape(-1, 3))
        # Corners before each end of a loop.
        sizes.append(np.diff(np.flatnonzero(np.concatenate([[True], ends]))) - 1)
        facets = len(_FACETS.findall(part))
        if facets != np.count_nonzero(ends) or (len(found) and not ends[-1]):
            raise InputError(
                f"{path}: line {line} to {line + part.count(10)}: {facets} facets and {np.count_nonzero(ends)} ends of"
                " loops; each of facet, outer loop, vertex, endloop, endfacet begins a line"
            )
    every = np.concatenate(points) if points else np.zeros((0, 3))
    faces = _faces(every, np.concatenate(sizes) if sizes else np.zeros(0, np.int64))
    faces.name_of = lambda facet: f"facet {facet} (line {_line_of_facet(data, facet)})"
    return faces


def _parts(data: bytes) -> Iterator[tuple[bytes, int]]:
    """Parts of the text that end with a facet, and the numbers of their first lines."""
    at, line = 0, 1
    while at < len(data):
        found = _FACETS.search(data, at + _PART)
        end = found.end() if found else len(data)
        yield data[at:end], line
        line += data.count(10, at, end)
        at = end


def _line_of_facet(data: bytes, facet: int) -> int:
    """The line in which its loop ends."""
    ends = (found for found in _WORDS.finditer(data) if found[2])
    found = next(itertools.islice(ends, facet, None), None)
    return data.count(10, 0, found.start()) + 1 if found else 1


def _no_vertex(part: bytes, line: int, path: Path) -> InputError:
    for found in _WORDS.finditer(part):
        words = found[0].split()
        if not found[2] and (len(words) != 4 or len(numbers_in(b" ".join(words[1:]))) != 3):
            at = line + part.count(10, 0, found.start())
            return InputError(f"{path}: line {at}: three coordinates are needed, found {found[0][:60]!r}")
    return InputError(f"{path}: line {line}: three coordinates are needed at each vertex")


def _faces(corners: Array, sizes: Array) -> Faces:
    """Corners at one point become one vertex, in the order in which they come."""
    corners = corners + 0.0  # -0 is 0
    order = np.lexsort(corners.T)
    new = np.ones(len(order), bool)
    new[1:] = (corners[order[1:]] != corners[order[:-1]]).any(axis=1)
    first = order[new]  # lexsort is stable: the first of equal corners
    of_group = np.empty(len(first), np.int64)
    by_place = np.argsort(first)
    of_group[by_place] = np.arange(len(first))
    number = np.empty(len(order), np.int64)
    number[order] = of_group[np.cumsum(new) - 1]
    return Faces(corners[first[by_place]], starts_of(sizes), number)
