"""Checks the counts in mesh files against the size of the file: readers allocate memory by them before they read."""

from __future__ import annotations

import mmap
import re
import struct
from collections.abc import Iterator
from pathlib import Path

from .._core import InputError
from .mesh_faces import too_few

#: Nodes of an element, by gmsh's number of its type.
_GMSH_NODES = {1: 2, 2: 3, 3: 4, 4: 4, 5: 8, 6: 6, 7: 5, 8: 3, 9: 6, 10: 9, 11: 10, 12: 27, 13: 18, 14: 14, 15: 1} | {
    16: 8, 17: 20, 18: 15, 19: 13, 20: 9, 21: 10, 26: 4, 27: 5, 29: 20
}  # fmt: skip

# What a file declares: a count, of what, and the least number of bytes of each.
Count = tuple[int, str, int]


def check(path: Path) -> None:
    """InputError, naming the file, the count and the bytes, where a count of a .msh file is larger than what its bytes
    can hold, or a .wkt file is no list of triangles."""
    counts = _COUNTS.get(path.suffix.lower())
    size = path.stat().st_size
    if counts is None or size == 0:
        return
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        for count, what, each in counts(data, path):
            if count * each > size + 1:  # the last separator may be missing
                raise too_few(path, count, what, count * each, size)


def _msh(data: mmap.mmap, path: Path) -> Iterator[Count]:
    found = re.search(rb"^\$MeshFormat\s+([\d.]+)\s+([01])\s+(\d+)", data, re.MULTILINE)
    if not found:
        return
    version, text, width = found[1], found[2] == b"0", int(found[3])
    for section in re.finditer(rb"^\$(Nodes|Elements)[ \t\r]*\n", data, re.MULTILINE):
        nodes, at = section[1] == b"Nodes", section.end()
        if version[:1] < b"4":
            yield from _msh2(data, at, nodes, text)
        elif text:
            yield from _msh4_text(data, at, nodes, version != b"4.0")
        elif version != b"4.0" and width == 8:
            yield from _msh4_binary(data, at, nodes)


def _msh2(data: mmap.mmap, at: int, nodes: bool, text: bool) -> Iterator[Count]:
    found = re.compile(rb"\s*(\d+)[^\n]*\n?").match(data, at)
    if not found:
        return
    total = int(found[1])
    if nodes:
        yield total, "nodes", 8 if text else 28
        return
    yield total, "elements", 8
    at, done = found.end(), 0
    while not text and done < total and at + 12 <= len(data):
        kind, count, tags = struct.unpack_from("<3i", data, at)
        if kind not in _GMSH_NODES or count < 1 or tags < 0:
            return  # the reader reports types that it does not know
        each = 4 * (1 + tags + _GMSH_NODES[kind])
        yield count, "elements", each
        at, done = at + 12 + count * each, done + count


def _msh4_text(data: mmap.mmap, at: int, nodes: bool, apart: bool) -> Iterator[Count]:
    what, each = ("nodes", 8) if nodes else ("elements", 4)
    data.seek(at)
    numbers = [int(n) for n in data.readline().split() if n.isdigit()]
    if len(numbers) < 2:
        return
    yield numbers[1], what, each
    for _ in range(numbers[0]):
        line = data.readline()
        last = line.split()[-1:]
        if not last or not last[0].isdigit():
            return
        count = int(last[0])
        yield count, what, each
        for _ in range(
            count * (2 if nodes and apart else 1)
        ):  # `apart`: numbers and coordinates are on lines of their own
            if not data.readline():
                return


def _msh4_binary(data: mmap.mmap, at: int, nodes: bool) -> Iterator[Count]:
    what = "nodes" if nodes else "elements"
    if at + 32 > len(data):
        return
    blocks, total = struct.unpack_from("<2Q", data, at)
    yield total, what, 32 if nodes else 16
    at += 32
    for _ in range(blocks):
        if at + 20 > len(data):
            return
        kind, count = struct.unpack_from("<8xiQ", data, at)
        if not nodes and kind not in _GMSH_NODES:
            return
        each = 32 if nodes else 8 * (1 + _GMSH_NODES[kind])
        yield count, what, each
        at += 20 + count * each


_NUMBER = rb"[+-]?(?:\d+(?:\.\d*)?|\.\d+)"
_CORNER = rb"\s+".join([_NUMBER] * 3) + rb"(?:\s+" + _NUMBER + rb")?"
_TRIANGLE = re.compile(rb"\s*\(\s*\(\s*" + rb"\s*,\s*".join([_CORNER] * 4) + rb"\s*\)\s*\)\s*,?")


def _wkt(data: mmap.mmap, path: Path) -> Iterator[Count]:
    # meshio matches the whole file by one regular expression, which may take for ever on a file that does not match.
    start = re.match(rb"\s*TIN\s*\(", data)
    at, triangles = start.end() if start else 0, 0
    while found := _TRIANGLE.match(data, at):
        at, triangles = found.end(), triangles + 1
    if not start or not re.compile(rb"\s*\)").match(data, at):
        line = data[:at].count(b"\n") + 1
        expected = "TIN (((x y z, x y z, x y z, x y z)), ..)" if not start else "a triangle or a closing parenthesis"
        raise InputError(
            f"{path}: line {line}: expected {expected} behind {triangles} triangles, found {data[at : at + 24]!r}"
        )
    yield from ()


_COUNTS = {".msh": _msh, ".wkt": _wkt}
