"""Reads VTK's XML files of polygonal data (.vtp): text, base64 or raw bytes, with or without zlib or lzma."""

from __future__ import annotations

import base64
import binascii
import lzma
import re
import xml.etree.ElementTree as tree
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from .._core import InputError
from .._files import EXPANSION, FREE
from .._support import Array
from .mesh_faces import Faces, numbers_in, starts_of
from .mesh_vtk import faces_of

_KINDS = {
    "Int8": "i1", "UInt8": "u1", "Int16": "i2", "UInt16": "u2", "Int32": "i4", "UInt32": "u4", "Int64": "i8",
    "UInt64": "u8", "Float32": "f4", "Float64": "f8",
}  # fmt: skip
# In the order of the cells' data: VTK's numbers of types.
_SECTIONS = {"Verts": 2, "Lines": 4, "Polys": 7, "Strips": 6}


class _Document:
    """The arrays of a file."""

    def __init__(self, path: Path) -> None:
        self.path, data = path, path.read_bytes()
        self.size = len(data)
        self.appended, self.encoding = b"", ""
        if begin := re.search(rb"<AppendedData[^>]*>\s*_", data):
            found = re.search(rb'encoding\s*=\s*"(\w+)"', begin[0])
            self.encoding = found[1].decode() if found else "base64"
            self.appended = data[begin.end() :]
            data = data[: begin.start()] + b"</VTKFile>"
        try:
            self.root = tree.fromstring(data)
        except (tree.ParseError, ValueError, LookupError) as error:
            raise InputError(f"{path}: not XML: {error}") from None
        if self.root.tag != "VTKFile" or self.root.get("type") != "PolyData":
            raise self.refuse(f"a VTKFile of PolyData is needed, found {self.root.tag} of {self.root.get('type')}")
        self.order = ">" if self.root.get("byte_order") == "BigEndian" else "<"
        self.header = np.dtype(self.order + _KINDS.get(self.root.get("header_type", "UInt32"), "u4"))
        self.compressor = self.root.get("compressor", "")

    def refuse(self, text: str) -> InputError:
        return InputError(f"{self.path}: {text}")

    def array(self, element: tree.Element | None, what: str) -> Array:
        """The numbers of a DataArray."""
        if element is None:
            raise self.refuse(f"no DataArray of {what}")
        kind = _KINDS.get(element.get("type", ""))
        if kind is None:
            raise self.refuse(f"{what} of type {element.get('type')}")
        form = element.get("format", "ascii")
        if form == "ascii":
            made = numbers_in((element.text or "").encode(), float if kind[0] == "f" else int)
            return made.astype(kind)
        if form == "appended":
            offset = element.get("offset", "")
            if not offset.isdigit() or int(offset) > len(self.appended):
                raise self.refuse(f"{what} at byte {offset} of {len(self.appended)} bytes of appended data")
            raw, text = self.appended[int(offset) :], self.encoding == "base64"
        else:
            raw, text = (element.text or "").strip().encode(), True
        content = self.bytes_of(raw, text, what)
        item = np.dtype(self.order + kind)
        return np.frombuffer(content, item, len(content) // item.itemsize).astype(kind)

    def bytes_of(self, raw: bytes, text: bool, what: str) -> bytes:
        """The bytes of an array, behind a header that says how many there are."""
        try:
            if not self.compressor:
                head = _decoded(raw, self.header.itemsize, text)
                size = int(np.frombuffer(head, self.header, 1)[0])
                found = _decoded(raw, self.header.itemsize + size, text)[self.header.itemsize :]
                if len(found) < size:
                    raise self.refuse(f"{size} bytes of {what} are announced, and {len(found)} are there")
                return found
            return self.unpacked(raw, text, what)
        except (ValueError, IndexError, binascii.Error, zlib.error, lzma.LZMAError) as error:
            raise self.refuse(f"{what}: {error}") from None

    def unpacked(self, raw: bytes, text: bool, what: str) -> bytes:
        """The same of compressed blocks: their number, their size, that of the last one, and their packed sizes."""
        width = self.header.itemsize
        blocks = int(np.frombuffer(_decoded(raw, width, text), self.header, 1)[0])
        if blocks * width > self.size:
            raise self.refuse(f"{blocks} blocks of {what} are announced; the file has {self.size} bytes")
        head = width * (3 + blocks)
        _, size, last, *packed = np.frombuffer(_decoded(raw, head, text), self.header, 3 + blocks).tolist()
        if blocks * size > FREE + EXPANSION * self.size:
            raise self.refuse(f"{blocks} blocks of {size} bytes are announced; the file has {self.size} bytes")
        if text:
            begin = 4 * -(-head // 3)
            raw, head = _decoded(raw[begin:], sum(packed), True), 0
        made, at = [], head
        for number, length in enumerate(packed):
            most = last if last and number == blocks - 1 else size
            made.append(self.one_block(raw[at : at + length], most))
            at += length
        return b"".join(made)

    def one_block(self, packed: bytes, most: int) -> bytes:
        if "ZLib" in self.compressor:
            return zlib.decompressobj().decompress(packed, most)
        if "LZMA" in self.compressor:
            return lzma.LZMADecompressor().decompress(packed, most)
        raise self.refuse(f"compressed by {self.compressor}; zlib and lzma are read: write it by one of these")


def _decoded(raw: bytes, count: int, text: bool) -> bytes:
    """The first `count` bytes, from base64 where they are text."""
    if not text:
        return raw[:count]
    digits = re.match(rb"[A-Za-z0-9+/=\s]*", raw[: 4 * -(-count // 3)])
    found = digits[0] if digits else b""
    return base64.b64decode(found[: len(found) // 4 * 4])[:count]


def _piece(
    document: _Document, piece: tree.Element
) -> tuple[Array, list[Array], list[Array], list[Array], dict[str, Array]]:
    """Points, then of each section nodes, sizes and types, and the values of cells."""
    points = document.array(piece.find("Points/DataArray"), "points").astype(np.float64)
    if len(points) % 3:
        raise document.refuse(f"{len(points)} coordinates of points, which are no triples")
    nodes, sizes, types = list[Array](), list[Array](), list[Array]()
    for name, kind in _SECTIONS.items():
        section = piece.find(name)
        arrays = {one.get("Name"): one for one in section.findall("DataArray")} if section is not None else {}
        if not arrays:
            continue
        ends = document.array(arrays.get("offsets"), f"offsets of {name}").astype(np.int64)
        connectivity = document.array(arrays.get("connectivity"), f"connectivity of {name}").astype(np.int64)
        used = int(ends[-1]) if len(ends) else 0
        if (np.diff(ends, prepend=0) < 0).any() or used > len(connectivity):
            raise document.refuse(f"the offsets of {name} do not fit {len(connectivity)} nodes")
        nodes.append(connectivity[:used])
        sizes.append(np.diff(ends, prepend=0))
        types.append(np.full(len(ends), kind))
    data = {
        str(one.get("Name")): document.array(one, f"values {one.get('Name')}")
        for one in piece.findall("CellData/DataArray")
        if one.get("NumberOfComponents", "1") == "1" and one.get("type") in _KINDS
    }
    return points.reshape(-1, 3), nodes, sizes, types, data


def read(path: Path) -> Faces:
    """The faces of a file, of all its pieces."""
    document = _Document(path)
    parts = [_piece(document, piece) for piece in document.root.iter("Piece")]
    if not parts:
        raise document.refuse("no Piece")
    shifts = np.cumsum([0, *(len(part[0]) for part in parts)])

    def joined(arrays: list[Any]) -> Array:
        return np.concatenate([np.zeros(0, np.int64), *arrays])

    nodes = joined([np.where(n < 0, n, n + shift) for part, shift in zip(parts, shifts, strict=False) for n in part[1]])
    sizes, types = (joined([array for part in parts for array in part[k]]) for k in (2, 3))
    names = [name for name in parts[0][4] if all(name in part[4] for part in parts)]
    data = {name: np.concatenate([part[4][name] for part in parts]) for name in names}
    for name, values in data.items():
        if len(values) != len(sizes):
            raise document.refuse(f"the values {name} are {len(values)} for {len(sizes)} cells")
    points = np.concatenate([part[0] for part in parts])
    return faces_of(points, nodes, starts_of(sizes), types, data, path)
