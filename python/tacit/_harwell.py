"""Files of the Harwell-Boeing and Rutherford-Boeing collections: a header of four lines (five where right-hand sides
follow), then pointers, row numbers and values of compressed columns in fields of fixed width.

Duff, Grimes, Lewis, The Rutherford-Boeing sparse matrix collection (1997), RAL-TR-97-031.
"""

from __future__ import annotations

import math
import re
from typing import Any, NamedTuple, NoReturn

import numpy as np

from . import _core, _files
from ._files import Array

_FORMAT = re.compile(r"\(\s*(?:(-?\d+)\s*P\s*,?\s*)?(\d*)\s*([IEDFG])\s*(\d+)(?:\.\d+)?(?:E\d+)?\s*\)")
_TYPE = re.compile(rb"[rcpiq][suhzr][ae](?=\s)", re.I)
_HEAD = 4096  # bytes in which the header ends


class Header(NamedTuple):
    """What the first lines of a file say."""

    type: str  #: three letters: real, complex, pattern, integer; symmetry; assembled or elements
    rows: int
    columns: int
    entries: int
    lines: tuple[int, ...]  #: of pointers, row numbers and values
    formats: tuple[str, str, str]
    first: int  #: the first line of the pointers, from 0

    @property
    def scalar(self) -> str:
        return "complex128" if self.type[0] == "c" else "float64"


def recognised(path: str) -> bool:
    """Whether the third line of a file names a kind of matrix, between lines of counts and of formats. Local."""
    with open(path, "rb") as file:
        lines = file.read(_HEAD).splitlines()
    if len(lines) < 4 or not lines[1].strip() or not _TYPE.match(lines[2]):
        return False
    return all(word.isdigit() for word in lines[1].split()) and lines[3].lstrip().startswith(b"(")


def refuse(path: str, text: str) -> NoReturn:
    """InputError that also says what the file was taken for."""
    _files.refuse(path, f"a Harwell-Boeing file: {text}")


def read_header(path: str) -> Header:
    """The header; InputError for one that does not fit together, or for what is not read."""
    with open(path, "rb") as file:
        lines = [line.decode("ascii", "replace") for line in file.read(_HEAD).splitlines()]
    counts, words = [int(word) for word in lines[1].split()], lines[2].split()
    kind = words[0].lower()
    if len(counts) not in (4, 5):
        refuse(path, f"line 2 has {len(counts)} numbers; 4 or 5 counts of lines are needed")
    if kind[2] == "e":
        refuse(
            path, f'type "{words[0]}": the matrix is stored as elements; an assembled one ("{words[0][:2]}a") is needed'
        )
    if len(words) < 4 or not all(word.isdigit() for word in words[1:]):
        refuse(path, f'expected a type, rows, columns and entries in line 3, found "{lines[2].strip()[:60]}"')
    rows, columns, entries = (int(word) for word in words[1:4])
    if max(rows, columns) > _core.largest_dimension(entries):
        refuse(path, f"a matrix of {rows} by {columns} with {entries} entries")
    if kind[1] in "shz" and rows != columns:
        refuse(path, f'type "{words[0]}" and {rows} x {columns}: a symmetric matrix is square')
    formats = lines[3][:16].strip(), lines[3][16:32].strip(), lines[3][32:52].strip()
    right = len(counts) == 5 and counts[4] > 0
    return Header(kind, rows, columns, entries, tuple(counts[1:4]), formats, 5 if right else 4)


def _a_column_short(block: list[bytes], count: int, each: int, width: int) -> bool:
    """Whether all lines have fields of width - 1: so SciPy's hb_write writes real numbers, whatever its header says."""
    last = count - each * (len(block) - 1)
    lengths = [each * (width - 1)] * (len(block) - 1) + [last * (width - 1)]
    return [len(line) for line in block] == lengths


class _Fields:
    """The fields of a file, block after block."""

    def __init__(self, path: str, header: Header) -> None:
        with open(path, "rb") as file:
            self._lines = file.read().splitlines()
        self._path, self._next = path, header.first

    def take(self, what: str, count: int, lines: int, form: str) -> tuple[Array, int]:
        """The texts of `count` fields in these lines, and the scale factor of their format."""
        found = _FORMAT.fullmatch(form.upper().replace(" ", ""))
        if found is None or int(found[4]) == 0:
            refuse(self._path, f'line 4: format "{form}" of the {what}; one like (16I5) or (4E20.12) is needed')
        each, width = int(found[2] or 1), int(found[4])
        needed = math.ceil(count / each) if each else -1
        if needed != lines:
            refuse(self._path, f"{count} {what} in format {form} take {needed} lines; line 2 says {lines}")
        block = self._lines[self._next : self._next + lines]
        if len(block) < lines:
            refuse(self._path, f"the file ends after line {len(self._lines)}, within the {what}")
        self._next += lines
        if found[3] in "DE" and min(count, each) > 1 and _a_column_short(block, count, each, width):
            width -= 1
        text = b"".join(line[: each * width].ljust(each * width) for line in block)
        return np.frombuffer(text, f"S{width}")[:count], int(found[1] or 0)

    def integers(self, what: str, count: int, lines: int, form: str, low: int, high: int) -> Array:
        """Whole numbers from low to high."""
        texts, _ = self.take(what, count, lines, form)
        try:
            values = texts.astype(np.int64)
        except (ValueError, OverflowError):
            refuse(self._path, f"{what}: {self._wrong(texts, int)} is no whole number")
        bad = np.flatnonzero((values < low) | (values > high))
        if len(bad):
            refuse(self._path, f"{what}: number {bad[0] + 1} is {values[bad[0]]}; it runs from {low} to {high}")
        return values

    def reals(self, count: int, lines: int, form: str) -> Array:
        """Real numbers as Fortran writes them: exponents with D, or without a letter (1.5-120)."""
        texts, scale = self.take("values", count, lines, form)
        width = texts.dtype.itemsize
        letters = np.frombuffer(texts.tobytes(), np.uint8).copy()
        letters[(letters == ord("D")) | (letters == ord("d"))] = ord("E")
        texts = letters.view(f"S{width}")
        if scale and len(texts) and not all(re.search(rb"[Ee]|\d[+-]", text) for text in texts[:1]):
            refuse(self._path, f"values in format {form} have no exponents, so that its factor 10^{scale} would count")
        try:
            return texts.astype(np.float64)
        except ValueError:
            pass
        mended = np.array([re.sub(rb"(?<=[\d.])([+-])(?=\d)", rb"E\1", text) for text in texts])
        try:
            return mended.astype(np.float64)
        except ValueError:
            refuse(self._path, f"values: {self._wrong(mended, float)} is no number")

    @staticmethod
    def _wrong(texts: Array, kind: Any) -> str:
        """The first field that is no number, with its place."""
        for k, text in enumerate(texts):
            try:
                kind(text)
            except ValueError:
                return f'number {k + 1}, "{text.decode("ascii", "replace").strip()}",'
        return "one"


def read(path: str) -> tuple[Header, Array, Array, Array]:
    """The header, and row, column and value of all entries from 0, both halves of a symmetric matrix. Local.

    InputError for a damaged file. Right-hand sides that follow the matrix are not read.
    """
    header = read_header(path)
    fields, n = _Fields(path, header), header.entries
    start = fields.integers("pointers", header.columns + 1, header.lines[0], header.formats[0], 1, n + 1) - 1
    if start[0] != 0 or start[-1] != n or (np.diff(start) < 0).any():
        refuse(path, f"pointers from {start[0] + 1} to {start[-1] + 1}; they must not fall, from 1 to {n + 1}")
    row = fields.integers("row numbers", n, header.lines[1], header.formats[1], 1, header.rows) - 1
    column = np.repeat(np.arange(header.columns, dtype=np.int64), np.diff(start))
    value: Array
    if header.type[0] == "p":
        value = np.ones(n)
    elif header.type[0] == "c":
        value = fields.reals(2 * n, header.lines[2], header.formats[2]).view(np.complex128)
    elif "I" in header.formats[2].upper():
        whole = 2**53
        value = fields.integers("values", n, header.lines[2], header.formats[2], -whole, whole).astype(np.float64)
    else:
        value = fields.reals(n, header.lines[2], header.formats[2])
    return header, *_mirrored(path, header, row, column, value)


def _mirrored(path: str, header: Header, row: Array, column: Array, value: Array) -> tuple[Array, Array, Array]:
    symmetry = header.type[1]
    if symmetry not in "shz":
        return row, column, value
    if (row < column).any():
        k = int(np.flatnonzero(row < column)[0])
        refuse(path, f"entry ({row[k] + 1}, {column[k] + 1}) of a symmetric matrix is above the diagonal")
    if symmetry == "z" and value[row == column].any():
        refuse(path, "a skew-symmetric matrix has entries other than zero on its diagonal")
    below = row != column
    other = value[below].conj() if symmetry == "h" else -value[below] if symmetry == "z" else value[below]
    return (
        np.concatenate([row, column[below]]),
        np.concatenate([column, row[below]]),
        np.concatenate([value, other]),
    )
