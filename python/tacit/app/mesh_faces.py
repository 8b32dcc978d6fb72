"""Faces of a mesh file before they are divided into triangles, and what readers of such files share."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from .._core import InputError
from .._support import Array


@dataclass
class Faces:
    """Polygons in space: face f has the corners ``corners[starts[f] : starts[f + 1]]``."""

    vertices: Array  #: (n, 3)
    starts: Array  #: one more than faces
    corners: Array  #: numbers of vertices
    cell_data: dict[str, Array] = field(default_factory=dict)  #: one value a face
    #: The name of a face for messages, such as "face 3 (line 17)".
    name_of: Callable[[int], str] = "face {}".format
    notes: list[str] = field(default_factory=list)  #: what was read otherwise than one may expect
    others: list[str] = field(default_factory=list)  #: kinds of the cells that are no faces, where there are only such
    block: Array | None = None  #: of each face; see order_of(); None: a new one where the number of corners changes
    names: dict[str, dict[int, str]] = field(default_factory=dict)  #: of whole numbers in cell data

    def __len__(self) -> int:
        return len(self.starts) - 1


def order_of(faces: Faces, face: Array) -> Array | None:
    """The order of triangles, given the face of each, in a mesh: that of the faces, but of a block of quadrangles first
    one triangle of each, then the other; None where they have it.
    """
    sizes = np.diff(faces.starts)
    if not (sizes == 4).any():
        return None
    block = faces.block
    if block is None:
        block = np.concatenate([[0], np.cumsum(sizes[1:] != sizes[:-1])])
    first = np.ones(len(face), bool)
    first[1:] = face[1:] != face[:-1]
    second = ~first & (sizes[face] == 4)
    return np.lexsort((second, block[face]))


def starts_of(sizes: Array) -> Array:
    """The first corner of each face, and the end of the last one, from the numbers of corners."""
    starts = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=starts[1:])
    return starts


def ragged(first: Array, sizes: Array, step: int = 1) -> Array:
    """first[f], first[f] + step, .., first[f] + (sizes[f] - 1) step for each f, one after the other."""
    starts = starts_of(sizes)
    return np.asarray(step * np.arange(starts[-1]) + np.repeat(first - step * starts[:-1], sizes))


def numbers_in(text: bytes, expected: type = float) -> Array:
    """The numbers of a text, separated by blanks, up to the first word that is none. Faster for whole numbers where int
    is expected; the result is of float all the same where others are met.
    """
    if not text.strip():
        return np.zeros(0, expected)
    decoded = text.decode("latin-1")
    with warnings.catch_warnings():
        # At a word that is no number, NumPy warns before version 2.3 and raises an error from then on.
        warnings.simplefilter("error", DeprecationWarning)
        with contextlib.suppress(ValueError, DeprecationWarning):
            return np.fromstring(decoded, expected, sep=" ")
    numbers = list[float]()
    for word in decoded.split():
        try:
            numbers.append(float(word))
        except ValueError:
            break
    return np.array(numbers)


def line_of_word(text: bytes, number: int, first_line: int = 1) -> int:
    """The line, from `first_line`, in which word `number` of a text is, from 0."""
    for place, line in enumerate(text.split(b"\n")):
        number -= len(line.split())
        if number < 0:
            return first_line + place
    return first_line + text.count(b"\n")


def whole(values: Array, path: Path, what: str) -> Array:
    """The numbers as int64; InputError with the first that is not whole."""
    made: Array = np.zeros(0, np.int64)
    if len(values):
        with np.errstate(invalid="ignore"):
            made = values.astype(np.int64)
        wrong = np.flatnonzero(made != values)
        if len(wrong):
            raise InputError(f"{path}: {what} is {values[wrong[0]]}; a whole number is needed")
    return made


def too_few(path: Path, count: int, what: str, least: int, size: int) -> InputError:
    """The refusal of a count that the bytes of the file cannot hold."""
    return InputError(
        f"{path}: says that it holds {count} {what}, which take at least {least} bytes; the file has {size} bytes"
    )
