"""Reads .off files of Geomview: OFF, COFF, NOFF, STOFF and their combinations, as text."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from .._core import InputError
from .._support import Array
from .mesh_faces import Faces, numbers_in, ragged, starts_of, too_few, whole

# Vertices may have texture coordinates (ST), colours (C), normals (N), a fourth coordinate (4), any number of them (n).
_HEADER = re.compile(rb"(ST)?(C)?(N)?(4)?(n)?OFF[ \t]*(.*)", re.DOTALL)


def read(path: Path) -> Faces:
    """The faces of a .off file. Lines that begin with # and the rest of a line behind # are comments; numbers behind
    the corners of a face are its colour, numbers behind a vertex its normal or colour: they are ignored.
    """
    data = path.read_bytes()
    places, lines = _lines(data.removeprefix(b"\xef\xbb\xbf"))  # the mark of UTF-8
    if not lines:
        raise InputError(f"{path}: line {data.count(10)}: the file ends where more is expected")
    extra = _header(places, lines, path)
    if not lines:
        raise InputError(f"{path}: line {data.count(10)}: the file ends where more is expected")
    counts = numbers_in(lines[0])
    if len(counts) < 2 or (counts[:2] < 0).any() or (counts[:2] % 1 != 0).any():
        raise InputError(
            f"{path}: line {places[0]}: the numbers of vertices and faces are needed, not {lines[0][:60]!r}"
        )
    vertices, faces = int(counts[0]), int(counts[1])
    for count, what, each in ((vertices, "vertices", 6), (faces, "faces", 8)):
        if count * each > len(data) + 1:
            raise too_few(path, count, what, count * each, len(data))
    places, lines = places[1:], lines[1:]
    points = _table(lines[:vertices], vertices, 3, float)
    if points is None or len(lines) < vertices + faces:
        return _by_words(places, lines, vertices, faces, 3 + extra, path)
    return _by_lines(points[:, :3], places[vertices:], lines[vertices : vertices + faces], path)


def _lines(data: bytes) -> tuple[list[int], list[bytes]]:
    """The lines that are neither empty nor comments, and their numbers."""
    lines = data.splitlines()
    if b"#" in data:
        lines = [line.partition(b"#")[0] for line in lines]
    if all(map(bytes.strip, lines)):
        return list(range(1, len(lines) + 1)), lines
    places = [number for number, line in enumerate(lines, 1) if line.strip()]
    return places, [lines[number - 1] for number in places]


def _header(places: list[int], lines: list[bytes], path: Path) -> int:
    """Removes the word OFF, which may be missing; returns how many numbers follow the coordinates of a vertex."""
    found = _HEADER.fullmatch(lines[0].strip())
    if not found:
        if re.match(rb"\s*\d+\s+\d+", lines[0]):
            return 0
        raise InputError(f'{path}: line {places[0]}: a .off file begins with "OFF", not {lines[0][:60]!r}')
    if found[4] or found[5]:
        raise InputError(f"{path}: line {places[0]}: {lines[0].strip().decode()}: vertices of 3 coordinates are needed")
    if found[6][:6].upper() == b"BINARY":
        raise InputError(f"{path}: line {places[0]}: a binary OFF file; write it as text, or as .ply or .stl")
    if found[6]:
        lines[0] = found[6]  # the counts, in the same line
    else:
        del lines[0], places[0]
    return (3 if found[3] else 0) + (4 if found[2] else 0) + (2 if found[1] else 0)


def _table(lines: list[bytes], rows: int, least: int, expected: type) -> Array | None:
    """The numbers of lines that have equally many, as rows; None if they do not."""
    width = len(lines[0].split()) if lines else least
    numbers = numbers_in(b"\n".join(lines), expected)
    if len(lines) != rows or width < least or len(numbers) != rows * width:
        return None
    return numbers.reshape(rows, width)


def _by_lines(points: Array, places: list[int], lines: list[bytes], path: Path) -> Faces:
    table = _table(lines, len(lines), 1, int)
    if table is not None and len(table) and table.shape[1] > table[0, 0] >= 0 and (table[:, 0] == table[0, 0]).all():
        size = int(table[0, 0])
        sizes, numbers = np.full(len(table), size), table[:, 1 : 1 + size].reshape(-1)
    else:
        found, counts = list[float](), list[int]()
        for place, line in zip(places, lines, strict=False):
            words = line.split()
            try:
                size = int(words[0])
                corners = [float(word) for word in words[1 : 1 + size]]
            except ValueError:
                raise InputError(f"{path}: line {place}: no face: {line[:60]!r}") from None
            if not 0 <= size == len(corners):
                raise InputError(f"{path}: line {place}: a face of {size} vertices, and {len(corners)} are there")
            found += corners
            counts.append(size)
        sizes, numbers = np.array(counts, np.int64), np.array(found)
    corners_of = whole(numbers, path, "a vertex of a face")
    return Faces(points, starts_of(sizes), corners_of, name_of=lambda face: f"face {face} (line {places[face]})")


def _by_words(places: list[int], lines: list[bytes], vertices: int, faces: int, width: int, path: Path) -> Faces:
    """Of a file that is not divided into a line for each vertex and each face."""
    numbers = numbers_in(b"\n".join(lines))

    def refuse(what: str) -> InputError:
        words = len(numbers)
        for place, line in zip(places, lines, strict=False):
            words -= len(line.split())
            if words < 0:
                return InputError(f"{path}: line {place}: {what}, found {line[:60]!r}")
        line_number = places[-1] if places else 1
        return InputError(f"{path}: line {line_number}: the file ends where more is expected: {what}")

    if len(numbers) < vertices * width:
        raise refuse(f"{vertices * width} numbers are announced for {vertices} vertices")
    at, sizes = vertices * width, np.zeros(faces, np.int64)
    first = np.zeros(faces, np.int64)
    for face in range(faces):
        size = numbers[at] if at < len(numbers) else -1
        if not 0 <= size <= len(numbers) - at - 1:
            raise refuse(f"{faces} faces are announced, and {face} are there")
        first[face], sizes[face] = at + 1, size
        at += 1 + int(size)
    points = numbers[: vertices * width].reshape(vertices, width)[:, :3]
    corners = whole(numbers[ragged(first, sizes)], path, "a vertex of a face")
    return Faces(points, starts_of(sizes), corners)
