"""Reads .ply files (Turk 1994): text and binary in both byte orders, elements and properties of any name and order."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .._core import InputError
from .._support import Array
from .mesh_faces import Faces, line_of_word, numbers_in, ragged, starts_of, too_few, whole

_TYPES = {
    "char": "i1", "int8": "i1", "uchar": "u1", "uint8": "u1", "short": "i2", "int16": "i2", "ushort": "u2",
    "uint16": "u2", "int": "i4", "int32": "i4", "uint": "u4", "uint32": "u4", "long": "i8", "int64": "i8",
    "ulong": "u8", "uint64": "u8", "float": "f4", "float32": "f4", "double": "f8", "float64": "f8",
}  # fmt: skip
_CODES = {
    "i1": "b", "u1": "B", "i2": "h", "u2": "H", "i4": "i", "u4": "I", "i8": "q", "u8": "Q", "f4": "f", "f8": "d",
}  # fmt: skip
_ORDERS = {"ascii": "", "binary_little_endian": "<", "binary_big_endian": ">"}


@dataclass
class _Property:
    name: str
    kind: str  #: NumPy's name of the type
    count: str = ""  #: of a list: the type of its length


@dataclass
class _Element:
    name: str
    count: int
    properties: list[_Property]


@dataclass
class _Table:
    """The values of an element: an array for each property; a list's values one after the other, with their starts."""

    values: dict[str, Array]
    starts: dict[str, Array]
    rows: Array | None = None  #: text: the first word of each row


def read(path: Path) -> Faces:
    """The faces of a .ply file: the lists ``vertex_indices`` or ``vertex_index`` of its faces, and its strips of
    triangles. Properties of a face with one value become cell data.
    """
    data = path.read_bytes()
    order, elements, body = _header(data, path)
    for element in elements:
        least = element.count * max(1, sum(1 if not order else _least(p, "") for p in element.properties))
        if least > len(data) + 1:
            raise too_few(path, element.count, f"elements of kind {element.name}", least, len(data))
    tables = dict(_binary(data, body, order, elements, path) if order else _text(data, body, elements, path))
    if "vertex" not in tables:
        raise InputError(f"{path}: no element vertex in the header")
    names = {name.lower(): name for name in tables["vertex"].values}
    if "x" not in names or "y" not in names:
        raise InputError(f"{path}: vertices have the properties {', '.join(names)}; x, y and z are needed")
    columns = [tables["vertex"].values[names[c]] for c in "xyz" if c in names]
    vertices = np.zeros((len(columns[0]), 3))
    for axis, column in enumerate(columns):
        vertices[:, axis] = column
    if "face" in tables and ("tristrips" not in tables or any(len(s) > 1 for s in tables["face"].starts.values())):
        return _faces(vertices, tables["face"], data[body:] if not order else b"", data[:body].count(b"\n") + 1, path)
    if "tristrips" in tables:
        return _strips(vertices, tables["tristrips"], path)
    raise InputError(f"{path}: no triangles: the header has no element face, only {', '.join(tables)}")


def _header(data: bytes, path: Path) -> tuple[str, list[_Element], int]:
    """The byte order ("" for text), the elements, and where the values begin."""
    found = re.search(rb"^[ \t]*end_header[ \t]*(\r\n|\n|\r)?", data, re.MULTILINE)
    if not re.match(rb"ply\s", data):
        raise InputError(f'{path}: line 1: a .ply file begins with the line "ply"')
    if not found:
        lines = data.count(b"\n")
        raise InputError(f"{path}: line {lines}: the file ends where more is expected: no end_header")
    order, elements = None, list[_Element]()
    for number, line in enumerate(data[: found.start()].splitlines(), 1):
        words = line.decode("latin-1").split()
        if words[:1] == ["format"] and len(words) >= 2 and words[1] in _ORDERS:
            order = _ORDERS[words[1]]
        elif words[:1] == ["element"] and len(words) == 3 and words[2].isdigit():
            elements.append(_Element(words[1], int(words[2]), []))
        elif words[:1] == ["property"] and elements and _property(words):
            elements[-1].properties.append(_property(words))  # type: ignore[arg-type]
        elif words[:1] not in ([], ["ply"], ["comment"], ["obj_info"]):
            raise InputError(f"{path}: line {number}: not understood in the header of a .ply file: {line[:60]!r}")
    if order is None:
        raise InputError(f"{path}: no format in the header; ascii, binary_little_endian or binary_big_endian is needed")
    return order, elements, found.end()


def _property(words: list[str]) -> _Property | None:
    if len(words) == 3 and words[1] in _TYPES:
        return _Property(words[2], _TYPES[words[1]])
    if len(words) == 5 and words[1] == "list" and words[2] in _TYPES and words[3] in _TYPES:
        return _Property(words[4], _TYPES[words[3]], _TYPES[words[2]])
    return None


def _least(p: _Property, order: str) -> int:
    return np.dtype(order + (p.count or p.kind)).itemsize


# --- rows of an element -----------------------------------------------------------------------------------------------

# Of each property: the units that the length of its list takes (0: it is no list), and those of a value. Units are
# the numbers of a text, or bytes.
_Sizes = list[tuple[int, int]]


def _places(
    total: int,
    at: int,
    rows: int,
    sizes: _Sizes,
    lengths: Callable[[Array, int], Array],
    length: list[Callable[[int], Any]],
) -> tuple[Array, Array, int]:
    """Of each property (columns) in rows from `at` on: how many values it has, where the first is; and the end, or
    -1 - r where the data, of `total` units, end in row r. `lengths(places, k)` and `length[k](place)` are lengths of
    lists of property k. Rows like the first are found together; if there are others, row by row.
    """
    counts = np.zeros((rows, len(sizes)), np.int64)
    places = np.zeros_like(counts)
    first = _walk(total, at, sizes, length, counts[:1], places[:1])
    if first < 0 or not rows:
        return counts, places, first
    width = first - at
    end = at + width * rows
    alike = end <= total
    for k, (before, _) in enumerate(sizes):
        counts[:, k], places[:, k] = counts[0, k], places[0, k] + width * np.arange(rows)
        alike = alike and (not before or bool((lengths(places[:, k] - before, k) == counts[0, k]).all()))
    return counts, places, end if alike else _walk(total, at, sizes, length, counts, places)


def _walk(total: int, at: int, sizes: _Sizes, length: list[Callable[[int], Any]], counts: Array, places: Array) -> int:
    for row in range(len(counts)):
        for k, (before, each) in enumerate(sizes):
            if before:
                size = length[k](at) if at + before <= total else -1
                at += before
            else:
                size = 1
            if not 0 <= size * each <= total - at:
                return -1 - row
            counts[row, k], places[row, k] = size, at
            at += int(size) * each
    return at


def _table(
    element: _Element, counts: Array, places: Array, sizes: _Sizes, values: Callable[[Array, int], Array]
) -> _Table:
    table = _Table({}, {})
    for k, p in enumerate(element.properties):
        table.values[p.name] = values(ragged(places[:, k], counts[:, k], sizes[k][1]), k)
        if p.count:
            table.starts[p.name] = starts_of(counts[:, k])
    return table


def _text(data: bytes, body: int, elements: list[_Element], path: Path) -> Iterator[tuple[str, _Table]]:
    text = re.sub(rb"(?m)^[ \t]*(?:comment|obj_info)\b.*$", b"", data[body:])
    numbers = numbers_in(text)
    at = 0
    for element in elements:
        sizes = [(int(p.count != ""), 1) for p in element.properties]
        counts, places, end = _places(
            len(numbers), at, element.count, sizes, lambda where, _: numbers[where], [numbers.item] * len(sizes)
        )
        if end < 0 or (element.count and not sizes):
            line = line_of_word(text, len(numbers), data[:body].count(b"\n") + 1)
            is_end = len(text.split(None, len(numbers))) <= len(numbers) if len(numbers) else not text.strip()
            what = "the file ends where more is expected" if is_end else "no number"
            raise InputError(f"{path}: line {line}: {what}; the header has {element.count} of element {element.name}")
        table = _table(element, counts, places, sizes, lambda where, _: numbers[where])
        table.rows = places[:, 0] - sizes[0][0] if sizes else None
        yield element.name, table
        at = end


def _binary(data: bytes, at: int, order: str, elements: list[_Element], path: Path) -> Iterator[tuple[str, _Table]]:
    for element in elements:
        plain = not any(p.count for p in element.properties)
        table, at = (_fixed if plain else _lists)(data, at, order, element, path)
        yield element.name, table


def _ends(data: bytes, element: _Element, row: int, path: Path) -> InputError:
    return InputError(
        f"{path}: byte {len(data)}: the file ends where more is expected: it says that it holds {element.count}"
        f" elements of kind {element.name}; {row} are there"
    )


def _fixed(data: bytes, at: int, order: str, element: _Element, path: Path) -> tuple[_Table, int]:
    """An element without lists."""
    row = np.dtype([(f"f{k}", order + p.kind) for k, p in enumerate(element.properties)])
    end = at + element.count * row.itemsize
    if end > len(data):
        raise _ends(data, element, (len(data) - at) // row.itemsize, path)
    rows = np.frombuffer(data, row, element.count, at) if row.itemsize else np.zeros(element.count, row)
    return _Table({p.name: rows[f"f{k}"] for k, p in enumerate(element.properties)}, {}), end


def _length(data: bytes, order: str, p: _Property) -> Callable[[int], Any]:
    """The length of a list of this property, from its place."""
    if p.count == "u1":
        return data.__getitem__
    take = struct.Struct(order + _CODES.get(p.count, "B")).unpack_from
    return lambda place: take(data, place)[0]


def _lists(data: bytes, at: int, order: str, element: _Element, path: Path) -> tuple[_Table, int]:
    """An element with lists."""
    properties = element.properties
    sizes = [(np.dtype(p.count).itemsize if p.count else 0, np.dtype(p.kind).itemsize) for p in properties]
    length = [_length(data, order, p) for p in properties]
    counts, places, end = _places(
        len(data), at, element.count, sizes, lambda where, k: _values(data, where, order + properties[k].count), length
    )
    if end < 0:
        raise _ends(data, element, -1 - end, path)
    return _table(
        element, counts, places, sizes, lambda where, k: _values(data, where, order + properties[k].kind)
    ), end


def _values(data: bytes, places: Array, kind: str) -> Array:
    """The values that begin at these bytes."""
    size = np.dtype(kind).itemsize
    if len(places) == 0:
        return np.zeros(0, kind)
    octets = np.frombuffer(data, np.uint8)
    rows = np.lib.stride_tricks.as_strided(octets, (len(octets) - size + 1, size), (1, 1))[places]
    return np.ascontiguousarray(rows).view(kind)[:, 0]


# --- faces


def _corners(table: _Table, path: Path) -> str:
    """The name of the list of the corners."""
    lists = list(table.starts)
    named = [name for name in lists if re.match(r"vertex_?(ind|list)", name.lower())]
    if not named and len(lists) != 1:
        raise InputError(f"{path}: faces have the lists {lists}; vertex_indices or vertex_index is needed")
    return named[0] if named else lists[0]


def _faces(vertices: Array, table: _Table, text: bytes, line: int, path: Path) -> Faces:
    name = _corners(table, path)

    def name_of(face: int) -> str:
        if table.rows is None:
            return f"face {face}"
        return f"face {face} (line {line_of_word(text, int(table.rows[face]), line)})"

    scalars = {key: np.ascontiguousarray(v) for key, v in table.values.items() if key not in table.starts}
    corners = whole(table.values[name], path, "a vertex of a face")
    return Faces(vertices, table.starts[name], corners, scalars, name_of)


def _strips(vertices: Array, table: _Table, path: Path) -> Faces:
    """Strips of triangles: each corner makes one with the two before it; -1 ends a strip."""
    name = _corners(table, path)
    along = whole(table.values[name], path, "a vertex of a strip")
    begin = np.zeros(len(along) + 1, bool)
    begin[table.starts[name]] = True
    begin[1:] |= along < 0
    # The place of each corner in its strip.
    place = np.arange(len(along)) - np.maximum.accumulate(np.where(begin[:-1], np.arange(len(along)), 0))
    last = np.flatnonzero((place >= 2) & (along >= 0))
    triangles = np.stack([along[last - 2], along[last - 1], along[last]], axis=1)
    odd = place[last] % 2 == 1
    triangles[odd] = triangles[odd][:, [1, 0, 2]]
    return Faces(vertices, starts_of(np.full(len(triangles), 3)), triangles.reshape(-1))
