"""Matrices of MATLAB's files: version 5 to 7, and 7.3, which is HDF5.

SciPy's loadmat ends the process on some damaged files, and knows nothing of version 7.3.
"""

from __future__ import annotations

import os
import zlib
from typing import Any, NamedTuple

import numpy as np

from .._files import EXPANSION, FREE, description, reading, refuse, refuse_unwritten
from .._support import Array

_HDF5 = b"\x89HDF\r\n\x1a\n"
_NUMBERS = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
_MATRIX, _COMPRESSED = 14, 15
_SPARSE, _NUMERIC = 5, range(6, 16)  # classes of arrays
_LOGICAL, _COMPLEX = 0x0200, 0x0800


class Found(NamedTuple):
    """A matrix as a file has it. A full one is made sparse; the arrays of a sparse one are not checked."""

    shape: tuple[int, int]
    start: Array
    row: Array
    value: Array

    def arrays(self) -> dict[str, Any]:
        """In the words of scipy.sparse.save_npz."""
        return {"format": "csc", "shape": self.shape, "indptr": self.start, "indices": self.row, "data": self.value}


def is_hdf5(path: str) -> bool:
    """By the first bytes, before which MATLAB puts 512 of its own."""
    with open(path, "rb") as file:
        start = file.read(520)
    return _HDF5 in (start[:8], start[512:])


def is_matlab(path: str) -> bool:
    """Whether a file of any name is one of MATLAB's, or HDF5."""
    with open(path, "rb") as file:
        start = file.read(10)
    return start == b"MATLAB 5.0" or is_hdf5(path)


def matrices(path: str) -> dict[str, Found]:
    """The sparse matrices and the full ones of numbers in a file, by their names."""
    if is_hdf5(path):
        return _of_hdf5(path)
    with open(path, "rb") as file:
        content = memoryview(file.read())
    if bytes(content[:10]) != b"MATLAB 5.0" or len(content) < 128 or bytes(content[126:128]) not in (b"IM", b"MI"):
        refuse(path, f"expected a MATLAB file of version 5 to 7.3 (MATLAB's save); {description(path)}")
    order = "<" if content[126] == ord("I") else ">"
    found: dict[str, Found] = {}
    elements = _Elements(path, content[128:], order)
    while elements.left():
        kind, data = elements.next()
        if kind == _COMPRESSED:
            kind, data = _Elements(path, memoryview(_expanded(path, data)), order).next()
        if kind == _MATRIX:
            found |= _matrix(path, data, order)
    return found


def _expanded(path: str, data: memoryview) -> bytes:
    most = EXPANSION * len(data) + FREE
    with reading(path, "compressed data of MATLAB; they are damaged"):
        made = zlib.decompressobj().decompress(data, most)
    if len(made) == most:
        refuse(path, f"expands to more than {EXPANSION} times its size")
    return made


class _Elements:
    """Data elements one after the other."""

    def __init__(self, path: str, data: memoryview, order: str) -> None:
        self.path, self.order = path, order
        self._data, self._at = data, 0

    def left(self) -> bool:
        return self._at < len(self._data)

    def next(self) -> tuple[int, memoryview]:
        """The type of the next element, and its bytes."""
        tag = np.frombuffer(self._take(8), f"{self.order}u4")
        kind, size = int(tag[0]), int(tag[1])
        if kind >> 16:  # up to four bytes within the tag
            kind, size = kind & 0xFFFF, kind >> 16
            if size > 4:
                refuse(self.path, f"a small element of {size} bytes in a MATLAB file; it is damaged")
            return kind, self._data[self._at - 4 : self._at - 4 + size]
        data = self._take(size)
        if kind != _COMPRESSED:
            self._at = min(len(self._data), self._at + -size % 8)
        return kind, data

    def numbers(self) -> Array:
        kind, data = self.next()
        if kind not in _NUMBERS:
            refuse(self.path, f"an element of type {kind} where numbers are expected in a MATLAB file; it is damaged")
        dtype = np.dtype(self.order + _NUMBERS[kind])
        numbers = np.frombuffer(data, dtype, len(data) // dtype.itemsize)
        return numbers.astype(dtype.newbyteorder("="), copy=False)

    def _take(self, size: int) -> memoryview:
        if size > len(self._data) - self._at:
            refuse(self.path, f"an element of {size} bytes in a MATLAB file ends after {len(self._data) - self._at}")
        self._at += size
        return self._data[self._at - size : self._at]


def _matrix(path: str, data: memoryview, order: str) -> dict[str, Found]:
    """The matrix of an element, if it is one of real numbers and of two dimensions."""
    elements = _Elements(path, data, order)
    if not elements.left():
        return {}
    flags, shape = elements.numbers(), elements.numbers()
    if len(flags) < 1 or flags.dtype.kind not in "iu" or shape.dtype.kind not in "iu" or (shape < 0).any():
        refuse(path, "an array without flags or sizes in a MATLAB file; it is damaged")
    name, kind = bytes(elements.next()[1]).decode("latin-1"), int(flags[0]) & 0xFF
    if len(shape) != 2 or int(flags[0]) & _COMPLEX or (kind != _SPARSE and kind not in _NUMERIC):
        return {}
    size = (int(shape[0]), int(shape[1]))
    if kind != _SPARSE:
        return {name: _full(path, elements.numbers(), size)}
    row, start, number, value = elements.numbers(), elements.numbers(), elements._at, elements.numbers()
    if int(flags[0]) & _LOGICAL and len(value) < len(row):  # MATLAB says double and stores bytes
        elements._at = number
        value = np.frombuffer(elements.next()[1], np.uint8)
    count = min(len(row), len(value))  # which may be more than are used
    return {name: Found(size, start, row[:count], value[:count])}


def _full(path: str, numbers: Array, shape: tuple[int, int]) -> Found:
    if len(numbers) != shape[0] * shape[1]:
        refuse(path, f"a matrix of {shape[0]} x {shape[1]} with {len(numbers)} numbers in a MATLAB file; it is damaged")
    return sparse(numbers.reshape(shape, order="F"))


def sparse(matrix: Array) -> Found:
    import scipy.sparse as sp

    made = sp.csc_array(matrix)
    return Found(matrix.shape, made.indptr, made.indices, made.data)


def _of_hdf5(path: str) -> dict[str, Found]:
    with reading(path, "a MATLAB file of version 7.3 (which takes h5py)"):
        import h5py  # type: ignore[import-untyped, unused-ignore]

        found: dict[str, Found] = {}
        with h5py.File(path, "r") as file:
            for name, item in file.items():
                if isinstance(item, h5py.Dataset):
                    if item.ndim == 2 and item.dtype.kind in "biuf":
                        refuse_unwritten(path, item)
                        found[name] = sparse(item[()].T)
                elif "MATLAB_sparse" in item.attrs:
                    # A matrix without entries has neither data nor ir.
                    parts = [_stored(path, item, part) for part in ("data", "ir", "jc")]
                    found[name] = Found((int(item.attrs["MATLAB_sparse"]), len(parts[2]) - 1), *parts[::-1])
        return found


def _stored(path: str, group: Any, name: str) -> Array:
    if name not in group:
        return np.zeros(0, np.int64)
    refuse_unwritten(path, group[name])
    return np.asarray(group[name][()])


def write(path: str | os.PathLike[str], name: str, matrix: Any) -> None:
    """Writes a sparse matrix. MATLAB and Octave read sparse matrices of doubles only."""
    import scipy.io
    import scipy.sparse as sp

    with open(path, "wb") as file:
        scipy.io.savemat(file, {name: sp.csc_matrix(matrix.astype(np.float64))})
