"""Reads .ply files (Turk 1994): text and binary in both byte orders, elements and properties of any name and order."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .._core import InputError
from .._support import Array
from .mesh_faces import Faces, line_of_word, numbers_in, ragged, starts_of, too_few, whole

_TYPES = {
    "char": "i1", "int8": "i1", "uchar": "u1", "uint8": "u1", "short": "i2", "int16": "i2", "ushort": "u2",
    "uint16": "u2", "int": "i4", "int32": "i4", "uint": "u4", "uint32": "u4", "long": "i8", "int64": "i8",
    "ulong": "u8", "uint64": "u8", "float": "f4", "float32": "f4", "double": "f8", "float64": "f8",
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


# --- text


def _text(data: bytes, body: int, elements: list[_Element], path: Path) -> Iterator[tuple[str, _Table]]:
    text = re.sub(rb"(?m)^[ \t]*(?:comment|obj_info)\b.*$", b"", data[body:])
    numbers = numbers_in(text)
    at = 0
    for element in elements:
        made, at = _rows(numbers, at, element)
        if made is None:
            line = line_of_word(text, len(numbers), data[:body].count(b"\n") + 1)
            is_end = len(text.split(None, len(numbers))) <= len(numbers) if len(numbers) else not text.strip()
            what = "the file ends where more is expected" if is_end else "no number"
            raise InputError(f"{path}: line {line}: {what}; the header has {element.count} of element {element.name}")
        yield element.name, made


def _rows(numbers: Array, at: int, element: _Element) -> tuple[_Table | None, int]:
    """The values of an element from number `at` on, None where numbers are missing; where the next element begins."""
    lists = [p.count != "" for p in element.properties]
    if not element.count:
        return _Table({p.name: numbers[:0] for p in element.properties},
                      {p.name: starts_of(numbers[:0]) for p in element.properties if p.count}), at  # fmt: skip
    counts = np.zeros((element.count, len(lists)), np.int64)  # numbers of each property in each row
    width = 0
    for k, is_list in enumerate(lists):  # as if all rows were like the first
        if at + width >= len(numbers):
            return None, at
        size = numbers[at + width] if is_list else 0
        counts[:, k] = int(size) if 0 <= size < len(numbers) else -1
        width += 1 + counts[0, k]
    firsts = at + width * np.arange(element.count)
    alike = width > 0 and firsts[-1] + width <= len(numbers)
    offset = 0
    for k, is_list in enumerate(lists):
        alike = alike and (not is_list or bool((numbers[firsts + offset] == counts[:, k]).all()))
        offset += 1 + counts[0, k]
    places = np.zeros_like(counts)  # where each property of each row begins
    if alike:
        places[:] = firsts[:, None] + np.concatenate([[0], np.cumsum(1 + counts[0])[:-1]])
        end = int(firsts[-1]) + int(width)
    elif not any(lists):
        return None, at
    else:
        end = _walk(numbers, at, lists, counts, places)
        if end < 0:
            return None, at
    table = _Table({}, {}, places[:, 0])
    for k, p in enumerate(element.properties):
        if p.count:
            table.starts[p.name] = starts_of(counts[:, k])
            table.values[p.name] = numbers[ragged(places[:, k] + 1, counts[:, k])]
        else:
            table.values[p.name] = numbers[places[:, k]]
    return table, end


def _walk(numbers: Array, at: int, lists: list[bool], counts: Array, places: Array) -> int:
    """Fills counts and places row by row; returns the end, -1 where numbers are missing."""
    all_numbers, total = numbers.tolist(), len(numbers)
    for row in range(len(counts)):
        for k, is_list in enumerate(lists):
            if at >= total:
                return -1
            size = all_numbers[at] if is_list else 0
            if not 0 <= size <= total:
                return -1
            places[row, k], counts[row, k] = at, size
            at += 1 + int(size)
    return at if at <= total else -1


# --- binary


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


def _lists(data: bytes, at: int, order: str, element: _Element, path: Path) -> tuple[_Table, int]:
    """An element with lists. Rows whose lists are as long as those of the first are read together; if there are
    others, the lengths are looked at row by row first.
    """
    sizes = [
        (np.dtype(order + p.count).itemsize if p.count else 0, np.dtype(p.kind).itemsize) for p in element.properties
    ]
    counts = np.zeros((element.count, len(sizes)), np.int64)
    places = np.zeros_like(counts)
    if element.count:
        first = _look(data, at, order, element, sizes, counts[:1], places[:1])
        if first < 0:
            raise _ends(data, element, 0, path)
        width = first - at
        end = at + width * element.count
        alike = end <= len(data)
        for k, p in enumerate(element.properties):
            counts[:, k], places[:, k] = counts[0, k], places[0, k] + width * np.arange(element.count)
            if alike and p.count:
                found = _values(data, places[:, k] - sizes[k][0], order + p.count)
                alike = bool((found == counts[0, k]).all())
        if not alike:
            end = _look(data, at, order, element, sizes, counts, places)
            if end < 0:
                raise _ends(data, element, -1 - end, path)
        at = end
    table = _Table({}, {})
    for k, p in enumerate(element.properties):
        where = ragged_bytes(places[:, k], counts[:, k], sizes[k][1])
        table.values[p.name] = _values(data, where, order + p.kind)
        if p.count:
            table.starts[p.name] = starts_of(counts[:, k])
    return table, at


def ragged_bytes(first: Array, counts: Array, size: int) -> Array:
    """The place of each value of lists of values of `size` bytes."""
    starts = starts_of(counts)
    return np.asarray(size * np.arange(starts[-1]) + np.repeat(first - size * starts[:-1], counts))


def _values(data: bytes, places: Array, kind: str) -> Array:
    """The values that begin at these bytes."""
    size = np.dtype(kind).itemsize
    if len(places) == 0:
        return np.zeros(0, kind)
    octets = np.frombuffer(data, np.uint8)
    rows = np.lib.stride_tricks.as_strided(octets, (len(octets) - size + 1, size), (1, 1))[places]
    return np.ascontiguousarray(rows).view(kind)[:, 0]


def _look(
    data: bytes, at: int, order: str, element: _Element, sizes: list[tuple[int, int]], counts: Array, places: Array
) -> int:
    """Fills, row by row, the number of values of each property and the place of the first; returns the end, or -1 - r
    where the file ends in row r.
    """
    byteorder, total = ("big" if order == ">" else "little"), len(data)
    signed = [p.count[:1] == "i" for p in element.properties]
    for row in range(len(counts)):
        for k, (before, each) in enumerate(sizes):
            size = int.from_bytes(data[at : at + before], byteorder, signed=signed[k]) if before else 1  # type: ignore[arg-type]
            at += before
            if size < 0 or at + size * each > total:
                return -1 - row
            counts[row, k], places[row, k] = size, at
            at += size * each
    return at


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
