"""Files of H-matrices: one file with a part for each rank.

    bytes 0 to 7: b"TACITHM1"; 8 to 15: length of the text that follows, a little-endian number
    text (JSON): version, ranks, scalar, tolerance, symmetry, and offset and bytes of each rank's part
    a part, at a multiple of 4096: length and text as above, [name, offset, bytes, crc32] of each array; then the
    arrays, at multiples of 64, from which offsets count

A version is that of this layout; the arrays have one of their own (src/op/hmatrix/saved.cpp).
"""

from __future__ import annotations

import json
import os
import zlib
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from .. import _core
from .._files import existing, refuse
from .._support import Array, agreed

_MAGIC, _VERSION, _PAGE, _LINE = b"TACITHM1", 1, 4096, 64
_LONGEST = 1 << 24  # bytes of a text, at most
_WHAT = "a file of HMatrix.save"


class Saved(NamedTuple):
    scalar: str
    tolerance: float
    symmetry: str
    parts: dict[str, Array]


def _up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


def _text(content: Any, magic: bytes = b"") -> bytes:
    text = json.dumps(content).encode()
    return magic + len(text).to_bytes(8, "little") + text


def _table(parts: dict[str, Array]) -> tuple[list[list[Any]], int]:
    """Name, offset after the text, bytes and checksum of each array; and the bytes of all."""
    rows: list[list[Any]] = []
    at = 0
    for name, array in parts.items():
        rows.append([name, at, array.nbytes, zlib.crc32(array.data)])
        at = _up(at + array.nbytes, _LINE)
    return rows, at


def write(path: str | os.PathLike[str], comm: _core.Communicator, saved: Saved) -> None:
    """Collective. The file appears when all ranks have written their parts."""
    name = os.fsdecode(os.fspath(path))
    table, length = _table(saved.parts)
    head = _text(table)
    begin = _up(len(head), _LINE)
    own = begin + length
    sizes = [comm.all_sum(own if rank == comm.rank else 0) for rank in range(comm.size)]
    whole = {
        "version": _VERSION,
        "ranks": comm.size,
        "scalar": saved.scalar,
        "tolerance": saved.tolerance,
        "symmetry": saved.symmetry,
        "parts": [[0, 0]] * comm.size,
    }
    at = _up(len(_text(whole, _MAGIC)) + 40 * comm.size, _PAGE)
    places = []
    for size in sizes:
        places.append([at, size])
        at = _up(at + size, _PAGE)
    whole["parts"] = places
    new = f"{name}.part"

    def create() -> None:
        if comm.rank == 0:
            with open(new, "wb") as out:
                out.write(_text(whole, _MAGIC))
                out.truncate(at)

    def fill() -> None:
        with open(new, "r+b") as out:
            first = places[comm.rank][0]
            out.seek(first)
            out.write(head)
            for (_, offset, _, _), array in zip(table, saved.parts.values(), strict=True):
                out.seek(first + begin + offset)
                out.write(array.data)

    def rename() -> None:
        if comm.rank == 0:
            os.replace(new, name)

    for step in (create, fill, rename):
        agreed(comm, step)


def _header(path: str, stream: BinaryIO, at: int, end: int, magic: bytes = b"") -> tuple[Any, int]:
    """The text at a position, and where it ends; InputError where it does not fit."""
    stream.seek(at)
    first = stream.read(len(magic) + 8)
    length = int.from_bytes(first[len(magic) :], "little")
    if first[: len(magic)] != magic or len(first) < len(magic) + 8:
        refuse(path, f"expected {_WHAT}; it does not begin with {magic!r}")
    if length > min(_LONGEST, end - at):
        refuse(path, f"expected {_WHAT}; a text of {length} bytes at byte {at} does not fit: the file is damaged")
    try:
        return json.loads(stream.read(length)), at + len(first) + length
    except ValueError as error:
        refuse(path, f"expected {_WHAT}; the text at byte {at} is damaged ({error})")


def _places(path: str, whole: Any, comm: _core.Communicator) -> list[int]:
    try:
        version, ranks, place = whole["version"], whole["ranks"], whole["parts"][min(comm.rank, whole["ranks"] - 1)]
        first, size = int(place[0]), int(place[1])
        _ = whole["scalar"] + whole["symmetry"], float(whole["tolerance"])
    except (KeyError, TypeError, ValueError, IndexError) as error:
        refuse(path, f"expected {_WHAT}; its first text is damaged ({error!r})")
    if version != _VERSION:
        refuse(path, f"its version is {version}, and this Tacit reads version {_VERSION}; save it anew")
    if ranks != comm.size:
        refuse(path, f"it was saved on {ranks} ranks and cannot be loaded on {comm.size}: use as many ranks")
    return [first, size]


def read(path: str | os.PathLike[str], comm: _core.Communicator, check: bool) -> Saved:
    """This rank's part, mapped into memory. Collective. InputError on every rank for a damaged file."""

    def look() -> Saved:
        name = existing(path)
        end = os.path.getsize(name)
        with open(name, "rb") as stream:
            whole, _ = _header(name, stream, 0, end, _MAGIC)
            first, size = _places(name, whole, comm)
            if first < 0 or size < 0 or first + size > end:
                refuse(name, f"the part of rank {comm.rank} ends at byte {first + size}, and the file at {end}")
            table, begin = _header(name, stream, first, first + size)
        data = np.memmap(name, np.uint8, mode="r", offset=first, shape=(size,)) if size else np.zeros(0, np.uint8)
        begin = _up(begin - first, _LINE)
        parts: dict[str, Array] = {}
        try:
            for part, offset, length, sum_ in table:
                array = data[begin + offset : begin + offset + length]
                if offset < 0 or len(array) != length:
                    refuse(name, f"its array {part!r} is outside of the file: the file is damaged")
                if check and zlib.crc32(array.data) != sum_:
                    refuse(name, f"the checksum of its array {part!r} is not what was saved: the file is damaged")
                parts[str(part)] = array
        except (TypeError, ValueError) as error:
            refuse(name, f"expected {_WHAT}; the table of its arrays is damaged ({error})")
        return Saved(whole["scalar"], whole["tolerance"], whole["symmetry"], parts)

    return agreed(comm, look)
