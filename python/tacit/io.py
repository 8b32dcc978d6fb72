"""Files of matrices and vectors, read strictly: invalid content is refused, with the file and the line or byte.

The kind of a file follows from its first bytes, whatever its name: Matrix Market (plain or gzip), PETSc binary, SciPy's
``save_npz`` layout, NumPy's ``.npy`` (vectors), and Rutherford-Boeing, which is only read. Nothing in a file is ever
executed. :func:`tacit.read` makes an operator of a matrix file; the functions here are local to a process.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from . import _core, _harwell, report
from ._files import Archive, description, existing, read_npy
from ._files import refuse as _refuse
from ._support import Array, as_array, chosen_scalar, core, scalar_name, to_scalar

__all__ = ["Header", "Share", "detect", "header", "read_share", "read_vector", "write_entries", "write_vector"]


RUTHERFORD = "rutherford_boeing"


class Header(NamedTuple):
    """Kind, size and scalar of a matrix file, as stated by the file."""

    kind: str  #: "matrix_market", "petsc_binary", "npz", "npy" or "rutherford_boeing"
    rows: int
    columns: int
    entries: int  #: number of entries stored in the file
    scalar: str  #: "float64" or "complex128" for text and PETSc files; for NumPy files that of the array
    dense: bool
    vectors: int = 0  #: of a PETSc matrix: vectors that follow it in its file


class Share(NamedTuple):
    """Entries of a matrix: value[k] at (row[k], column[k]), from 0; duplicates are to be added."""

    row: npt.NDArray[np.int64]
    column: npt.NDArray[np.int64]
    value: Array
    parsed: int  #: entries of the file that were read for this share


class Rows(NamedTuple):
    """Compressed rows: row i has value[start[i]:start[i + 1]] in these columns; in any order, duplicates are added."""

    start: Array  #: int32 or int64, as `column`
    column: Array
    value: Array


def _path(path: Any) -> str:
    text = os.fspath(path)
    return os.fsdecode(text)


def detect(path: str | os.PathLike[str]) -> str:
    """The kind of a file by its first bytes: "matrix_market", "petsc_binary", "npz", "npy", "rutherford_boeing" or
    "unknown".
    """
    name = existing(path)
    kind = _core.detect(name)
    return RUTHERFORD if kind == "unknown" and os.path.isfile(name) and _harwell.recognised(name) else kind


def _known(path: str) -> str:
    kind = detect(path)
    if kind == "unknown":
        _refuse(
            path, f"expected a Matrix Market, PETSc binary, Rutherford-Boeing, .npz or .npy file; {description(path)}"
        )
    return kind


# --- NumPy's files ----------------------------------------------------------------------------------------------------


class NpzRows(NamedTuple):
    """A matrix in csr in an .npz file whose arrays are read by _core.read_npz_*: nothing but their headers is known."""

    rows: int
    columns: int
    scalar: str  #: of the file
    arrays: list[tuple[Any, ...]]  #: of indptr, indices and data: the members of tacit::io::NpzArray


def npz_rows(path: str | os.PathLike[str], scalar: str | None = None) -> NpzRows | None:
    """Where the arrays of a matrix in the layout of scipy.sparse.save_npz are in their file, if it is in csr, and its
    arrays have the types that SciPy writes on this computer. None for all other files, and for damaged ones, which
    :func:`read_matrix` reads or refuses. Local.
    """
    name = _path(path)
    if _known(name) != "npz":
        return None
    try:
        with Archive(name) as archive:
            if not all(what in archive for what in ("format", "shape", *_CSR)):
                return None
            if max(archive.header(what).size for what in ("format", "shape")) > 2:
                return None
            word, shape = archive["format"], archive["shape"]
            arrays = [array for what in _CSR if (array := _npz_array(archive, what)) is not None]
    except (_core.InputError, OSError):
        return None
    if word.shape != () or word.item() not in (b"csr", "csr") or shape.shape != (2,) or shape.dtype.kind not in "iu":
        return None
    if len(arrays) != len(_CSR):
        return None
    rows, columns = (int(n) for n in shape)
    start, index, data = arrays
    of_file = {"f4": "float32", "f8": "float64", "c8": "complex64", "c16": "complex128"}.get(f"{data[1]}{data[2]}")
    fits = (
        0 <= rows == start[3] - 1
        and columns >= 0
        and index[3] == data[3]
        and max(rows, columns) <= _core.largest_dimension(data[3])
    )
    if of_file is None or not fits or start[1] != "i" or index[1] != "i":
        return None
    if data[1] == "c" and not (scalar or "complex").startswith("complex"):
        return None
    return NpzRows(rows, columns, of_file, arrays)


_CSR = ("indptr", "indices", "data")


def _npz_array(archive: Archive, what: str) -> tuple[Any, ...] | None:
    """The members of tacit::io::NpzArray for a list in an archive; None where that cannot read it."""
    found, place = archive.header(what), archive.place(what)
    dtype = found.dtype
    if len(found.shape) != 1 or not dtype.isnative or dtype.kind not in "ifc" or dtype.itemsize not in (4, 8, 16):
        return None
    if dtype.itemsize == 16 and dtype.kind != "c":
        return None
    size = found.length + found.size * dtype.itemsize
    if place.size != size or (not place.deflated and place.stored != size):
        return None
    return (
        what, dtype.kind, dtype.itemsize, found.size, place.at, place.stored, place.deflated, found.length, place.crc
    )  # fmt: skip


def _listed(path: str, archive: Archive, name: str) -> int:
    """The length of a list of integers, by its header."""
    if name not in archive:
        _refuse(path, f"expected an array {name}; found {', '.join(sorted(archive.names)) or 'none'}")
    shape, dtype = archive.header(name).shape, archive.header(name).dtype
    if len(shape) != 1 or dtype.kind not in "iu":
        _refuse(path, f"{name} has shape {shape} and type {dtype}; a list of integers is needed")
    return shape[0]


def _indices(path: str, archive: Archive, name: str, low: int, high: int, count: int | None = None) -> Array:
    """A list of integers from low to high, as they are stored; of these the first `count`."""
    _listed(path, archive, name)
    array = archive[name][:count]
    if len(array) and (array.min() < low or array.max() > high):
        wrong = np.flatnonzero((array < low) | (array > high))
        _refuse(path, f"{name}[{wrong[0]}] is {array[wrong[0]]}; it runs from {low} to {high}")
    return array


def _integers(path: str, archive: Archive, name: str, low: int, high: int) -> npt.NDArray[np.int64]:
    return _indices(path, archive, name, low, high).astype(np.int64)


def _compressed(path: str, archive: Archive, lines: int, others: int) -> tuple[Array, Array]:
    """indptr and indices of a compressed matrix. SciPy keeps room for more entries behind the last line in some
    matrices; what is there is no entry.
    """
    lengths = [_listed(path, archive, name) for name in ("indptr", "indices")] + [archive.header("data").shape[0]]
    start: Array = np.zeros(1, np.int64)
    if lengths[0] == lines + 1 and lengths[1] == lengths[2]:
        start = _indices(path, archive, "indptr", 0, lengths[2])
    if lengths[0] != lines + 1 or lengths[1] != lengths[2] or start[0] != 0:
        _refuse(
            path,
            f"indptr has {lengths[0]} numbers from {start[0]} for {lines} rows or columns, and there are {lengths[1]}"
            f" indices with {lengths[2]} values; one number more than rows, from 0, and as many values are needed",
        )
    fall = np.flatnonzero(start[1:] < start[:-1])
    if len(fall):
        _refuse(path, f"indptr falls behind position {fall[0]}")
    return start, _indices(path, archive, "indices", 0, others - 1, int(start[-1]))


def _npz_form(path: str, archive: Archive) -> tuple[str, int, int]:
    """The format, the rows and the columns of a matrix in SciPy's layout."""
    missing = [name for name in ("format", "shape", "data") if name not in archive]
    if missing:
        wanted = "expected the layout of scipy.sparse.save_npz, or one dense array; there is no array"
        _refuse(path, f"{wanted} {missing[0]}, found {', '.join(sorted(archive.names)) or 'none'}")
    word, data = archive.header("format"), archive.header("data")
    if word.shape != () or word.dtype.kind not in "SU":
        _refuse(path, "format is no word")
    if archive.header("shape").shape != (2,):
        _refuse(path, f"shape has {archive.header('shape').size} numbers; 2 are needed")
    rows, columns = (int(n) for n in _integers(path, archive, "shape", 0, 2**62))
    if max(rows, columns) > _core.largest_dimension(data.size):
        _refuse(path, f"a matrix of {rows} by {columns} with {data.size} values")
    if data.dtype.kind not in "biufc":
        _refuse(path, f"data has type {data.dtype}; numbers are needed")
    kind = archive["format"].item()
    kind = kind.decode("ascii", "replace") if isinstance(kind, bytes) else str(kind)
    if kind in ("csr", "csc", "coo") and len(data.shape) != 1:
        _refuse(path, f"data has shape {data.shape}; a list is needed")
    return kind, rows, columns


def _npz_matrix(path: str) -> tuple[int, int, Rows | Share, bool]:
    """A matrix, and whether it is a dense array, the only one of its archive: the rows of csr, all entries of csc, coo,
    bsr, dia in the layout of scipy.sparse.save_npz and of dense arrays. Elements are read when all that headers say of
    their arrays fits together.
    """
    with Archive(path) as archive:
        if len(archive) == 1 and len(archive.header(archive.only()).shape) <= 2:
            return *_dense_matrix(path, archive[archive.only()]), True
        kind, rows, columns = _npz_form(path, archive)
        if kind == "csr":
            start, index = _compressed(path, archive, rows, columns)
            integer = np.int32 if start.dtype == index.dtype == np.int32 else np.int64
            start, index = (a.astype(integer, copy=False) for a in (start, index))
            return rows, columns, Rows(start, index, archive["data"][: len(index)]), False
        readers = {"csc": _npz_csc, "coo": _npz_coo, "bsr": _npz_bsr, "dia": _npz_dia}
        if kind not in readers:
            _refuse(path, f"format {kind!r}; csr, csc, coo, bsr or dia is needed")
        return rows, columns, readers[kind](path, archive, rows, columns), False


def _npz_csc(path: str, archive: Archive, rows: int, columns: int) -> Share:
    start, row = _compressed(path, archive, columns, rows)
    return Share(row.astype(np.int64), _lines(start), archive["data"][: len(row)], len(row))


def _npz_coo(path: str, archive: Archive, rows: int, columns: int) -> Share:
    lengths = [_listed(path, archive, name) for name in ("row", "col")] + [archive.header("data").shape[0]]
    if not lengths[0] == lengths[1] == lengths[2]:
        _refuse(path, f"{lengths[0]} rows, {lengths[1]} columns and {lengths[2]} values")
    row, column = _integers(path, archive, "row", 0, rows - 1), _integers(path, archive, "col", 0, columns - 1)
    return Share(row, column, archive["data"], len(row))


def _npz_bsr(path: str, archive: Archive, rows: int, columns: int) -> Share:
    shape = archive.header("data").shape
    if len(shape) != 3 or not all(shape[1:]) or rows % shape[1] or columns % shape[2]:
        _refuse(path, f"blocks of shape {shape[1:]} in a matrix of {rows} by {columns}")
    high, wide = shape[1:]
    start, index = _compressed(path, archive, rows // high, columns // wide)
    data = archive["data"][: len(index)]
    i, j = np.arange(high, dtype=np.int64)[:, None], np.arange(wide, dtype=np.int64)[None, :]
    row = np.broadcast_to(_lines(start)[:, None, None] * high + i, data.shape).ravel()
    column = np.broadcast_to(index.astype(np.int64)[:, None, None] * wide + j, data.shape).ravel()
    return Share(row, column, data.ravel(), data.size)


def _npz_dia(path: str, archive: Archive, rows: int, columns: int) -> Share:
    shape, count = archive.header("data").shape, _listed(path, archive, "offsets")
    if len(shape) != 2 or shape[0] != count:
        _refuse(path, f"{count} offsets and diagonals of shape {shape}")
    offsets = _integers(path, archive, "offsets", -(2**62), 2**62)
    if len(set(offsets.tolist())) != count:
        _refuse(path, f"{count} offsets, of which some are equal")
    column = np.broadcast_to(np.arange(shape[1], dtype=np.int64), shape)
    row = column - offsets[:, None]
    inside = (row >= 0) & (row < rows) & (column < columns)
    return Share(row[inside], column[inside], archive["data"][inside], int(inside.sum()))


def _dense_matrix(path: str, array: Array) -> tuple[int, int, Share]:
    """The entries other than zero of an array of two dimensions."""
    if array.ndim != 2 or array.dtype.kind not in "biufc":
        found = f"an array of shape {array.shape} and type {array.dtype}"
        _refuse(path, f"{found}; a matrix of numbers is needed (tacit.read_vector reads vectors)")
    row, column = np.nonzero(array)
    return *array.shape, Share(row, column, array[row, column], len(row))


def _lines(start: Array) -> Array:
    """The row (or column) of each entry of a compressed matrix."""
    counts: Array = np.diff(start.astype(np.int64))
    return np.repeat(np.arange(len(start) - 1, dtype=np.int64), counts)


def _npz_entries(path: str) -> tuple[int, int, Share]:
    """All entries of a matrix in an .npz file."""
    rows, columns, held, _ = _npz_matrix(path)
    if isinstance(held, Rows):
        held = Share(_lines(held.start), held.column.astype(np.int64), held.value, len(held.value))
    return rows, columns, held


def _numpy_vector(path: str, kind: str) -> Array:
    """The array of a .npy file, or the only one of an .npz file."""
    if kind == "npy":
        return read_npy(path)
    with Archive(path) as archive:
        return archive[archive.only()]


# --- all kinds --------------------------------------------------------------------------------------------------------


def header(path: str | os.PathLike[str]) -> Header:
    """The :class:`Header` of a matrix or vector file. Reads only the file's header, except for NumPy files."""
    name = _path(path)
    kind = _known(name)
    if kind == "npy" or (kind == "npz" and _is_one_array(name)):
        a = _numpy_vector(name, kind)
        shape = (*a.shape, 1) if a.ndim == 1 else a.shape
        if len(shape) != 2:
            _refuse(name, f"the array has shape {a.shape}; a vector or a matrix is needed")
        return Header(kind, *shape, a.size, _scalar(name, a), True)
    if kind == "npz":
        rows, columns, held, _ = _npz_matrix(name)
        return Header(kind, rows, columns, len(held.value), _scalar(name, held.value), False)
    if kind == RUTHERFORD:
        boeing = _harwell.read_header(name)
        return Header(kind, boeing.rows, boeing.columns, boeing.entries, boeing.scalar, False)
    rows, columns, entries, field, dense, vectors = _core.read_header(name, kind == "petsc_binary")
    scalar = "complex128" if field == "complex" else "float64"
    return Header(kind, rows, columns, entries, scalar, dense, vectors)


def _is_one_array(path: str) -> bool:
    with Archive(path) as archive:
        return len(archive) == 1


def _scalar(path: str, array: Array) -> str:
    """The scalar of an array of a file."""
    try:
        return scalar_name(array.dtype, path)
    except TypeError as error:
        _refuse(path, str(error))


def read_matrix(
    path: str | os.PathLike[str], scalar: str | None = None, part: int = 0, parts: int = 1
) -> tuple[int, int, Rows | Share]:
    """Reads a matrix as its file stores it: all its rows from an .npz file in csr, else a share of the entries
    (:func:`read_share`). `scalar`: None for :func:`default_scalar`. Returns (rows, columns, what was read). Local.
    """
    name = _path(path)
    if _known(name) != "npz":
        return read_share(name, scalar or default_scalar(header(name).scalar), part, parts)
    rows, columns, held, _ = _npz_matrix(name)
    value = _taken(held.value, scalar or default_scalar(_scalar(name, held.value)), name)
    if isinstance(held, Rows):
        return rows, columns, held._replace(value=value)
    return rows, columns, _part(held._replace(value=value), part, parts)


def default_scalar(of_file: str) -> str:
    """The scalar that a file is read in: double precision for files in single precision, too."""
    return "complex128" if of_file.startswith("complex") else "float64"


def is_petsc_matrix(path: str | os.PathLike[str]) -> bool:
    """Whether it is a PETSc binary file. ValueError where that holds a vector. Local."""
    name = _path(path)
    if _known(name) != "petsc_binary":
        return False
    if header(name).dense:
        _refuse(name, "expected a matrix, found a PETSc vector (tacit.read_vector reads those)")
    return True


def kind_of_matrix(path: str | os.PathLike[str]) -> str | None:
    """The function of _core that makes an operator of this file: "read_petsc", "read_matrix_market" (of entries with
    32-bit indices), or None. Local.
    """
    if is_petsc_matrix(path):
        return "read_petsc"
    name = _path(path)
    if _known(name) != "matrix_market":
        return None
    found = header(name)
    return None if found.dense or max(found.rows, found.columns) >= 2**31 else "read_matrix_market"


def _taken(value: Array, scalar: str, path: str) -> Array:
    if value.dtype.kind in "iu" and value.dtype.itemsize == 8 and len(value):
        # Integers that no double has are refused, as in text.
        double = value.astype(np.float64)
        same = double < 2.0 ** (64 if value.dtype.kind == "u" else 63)
        same[same] = double[same].astype(value.dtype) == value[same]
        if not same.all():
            k = int(np.flatnonzero(~same.ravel())[0])
            _refuse(path, f"value {k} is {value.ravel()[k]}, an integer that float64 does not hold exactly")
    try:
        return to_scalar(value, scalar, path)
    except TypeError as e:
        _refuse(path, str(e))


def _part(all_: Share, part: int, parts: int) -> Share:
    """The `part`-th of `parts` equal ranges of the entries."""
    mine = slice(all_.parsed * part // parts, all_.parsed * (part + 1) // parts)
    row, column = (np.ascontiguousarray(index[mine], dtype=np.int64) for index in (all_.row, all_.column))
    value = np.ascontiguousarray(all_.value[mine])
    return Share(row, column, value, len(value))


def read_share(path: str | os.PathLike[str], scalar: str, part: int = 0, parts: int = 1) -> tuple[int, int, Share]:
    """Reads the `part`-th of `parts` shares of a matrix file's entries.

    Parameters
    ----------
    path : path-like
    scalar : str
        "float32", "float64", "complex64" or "complex128".
    part, parts : int
        Which share, from 0; all shares together contain each entry of the file once.

    Returns
    -------
    rows, columns : int
        Of the matrix.
    share : Share

    Raises
    ------
    ValueError
        When the file cannot be accepted, with the file and the line (or byte).

    Notes
    -----
    Local. From text files each part parses its own range of bytes, from PETSc files its own rows; NumPy files are read
    whole.
    """
    name = _path(path)
    kind = _known(name)
    if kind in ("npz", "npy"):
        if kind == "npz":
            rows, columns, all_ = _npz_entries(name)
        else:
            rows, columns, all_ = _dense_matrix(name, read_npy(name))
        return rows, columns, _part(all_._replace(value=_taken(all_.value, scalar, name)), part, parts)
    if kind == RUTHERFORD:
        boeing, row, column, value = _harwell.read(name)
        all_ = Share(row, column, _taken(value, scalar, name), len(value))
        return boeing.rows, boeing.columns, _part(all_, part, parts)
    petsc = is_petsc_matrix(name)
    found = header(name)
    if found.dense:
        rows, columns, values = core("read_dense", scalar)(name, False)
        table = values.reshape((rows, columns), order="F")
        row, column = np.nonzero(table)
        return rows, columns, _part(Share(row, column, table[row, column], len(row)), part, parts)
    row, column, value, parsed = core("read_triplets", scalar)(name, petsc, part, parts)
    return found.rows, found.columns, Share(row, column, value, parsed)


def check_count(path: str | os.PathLike[str], total: int) -> None:
    """ValueError unless `total`, the number of entries in all shares, is the one in the header of a Matrix Market file.
    Other kinds of files need no such check.
    """
    name = _path(path)
    if detect(name) == "matrix_market" and not header(name).dense:
        _core.check_entry_count(name, total)


def read_vector(path: str | os.PathLike[str], scalar: npt.DTypeLike | None = None) -> Array:
    """A vector (or dense block) from a Matrix Market, PETSc Vec, .npy or .npz file. Of a PETSc file with a matrix and
    one vector behind it (a right-hand side), that vector.

    Parameters
    ----------
    path : path-like
    scalar : dtype, optional
        float32, float64, complex64 or complex128; default: what the file holds.

    Returns
    -------
    ndarray
        Shape (n,), or (n, k) for a block of k columns. The whole vector, on every rank that calls. Local.

    Raises
    ------
    ValueError
        When the file cannot be accepted, with the file and the line (or byte).

    Examples
    --------
    >>> import os, tempfile, numpy as np, tacit
    >>> path = os.path.join(tempfile.mkdtemp(), "b.mtx")
    >>> tacit.write(path, np.array([1.0, 2.5]))
    >>> tacit.read_vector(path)
    array([1. , 2.5])
    """
    name = _path(path)
    kind = _known(name)
    wanted = chosen_scalar(scalar)
    if kind in ("npy", "npz"):
        array = _numpy_vector(name, kind)
        if array.dtype.kind not in "biufc" or array.ndim not in (1, 2):
            _refuse(name, f"an array of shape {array.shape} and type {array.dtype}; a vector of numbers is needed")
        try:
            return to_scalar(array, wanted or _scalar(name, array), name)
        except TypeError as e:
            _refuse(name, str(e))
    if kind == RUTHERFORD:
        _refuse(name, "expected a vector, found a Rutherford-Boeing matrix (tacit.read reads it)")
    petsc = kind == "petsc_binary"
    found = header(name)
    if petsc and not found.dense and found.vectors != 1:
        beside = f" with {found.vectors} vectors behind it" if found.vectors else ""
        _refuse(name, f"expected a vector, found a PETSc matrix{beside} (tacit.read reads the matrix)")
    wanted = wanted or found.scalar
    rows, columns, values = core("read_dense", wanted)(name, petsc)
    array = values if columns == 1 else np.ascontiguousarray(values.reshape((rows, columns), order="F"))
    return array


_PETSC = (".petsc", ".dat", ".bin")


def written_kind(path: str) -> str:
    """The kind of file to write, by the suffix of the name."""
    kinds = {".mtx": "mtx", ".mtx.gz": "mtx", ".npz": "npz", ".npy": "npy"} | dict.fromkeys(_PETSC, "petsc")
    for ending, kind in kinds.items():
        if Path(path).name.endswith(ending):
            return kind
    raise ValueError(
        f"{path}: the ending tells what to write: .mtx, .mtx.gz, .npz, .npy (vectors), or .petsc, .dat, .bin (PETSc)"
    )


def write_vector(path: str | os.PathLike[str], vector: Any) -> None:
    """Writes a vector or dense block in the format given by the suffix of `path`. Local."""
    name = _path(path)
    kind = written_kind(name)
    array = as_array(vector, "the vector")
    if array.ndim not in (1, 2):
        raise ValueError(f"the vector has shape {array.shape}; (n,) or (n, k) is needed")
    scalar = scalar_name(array.dtype, "the vector")
    array = to_scalar(array, scalar, "the vector")
    if kind in ("npy", "npz"):
        with report.replacing(name) as temporary, open(temporary, "wb") as stream:
            if kind == "npy":
                np.save(stream, array, allow_pickle=False)
            else:
                np.savez_compressed(stream, x=array)
        return
    rows, columns = array.shape[0], 1 if array.ndim == 1 else array.shape[1]
    if kind == "petsc" and columns != 1:
        raise ValueError(f"a PETSc vector has one column; this block has {columns}")
    core("write_dense", scalar)(name, kind == "petsc", rows, columns, np.ascontiguousarray(array.ravel(order="F")))


def write_entries(
    path: str | os.PathLike[str], shape: tuple[int, int], start: Array, column: Array, value: Array
) -> None:
    """Writes a matrix in compressed rows in the format given by the suffix of `path`. Local."""
    name = _path(path)
    kind = written_kind(name)
    rows, columns = shape
    if kind == "npy":
        raise ValueError(f"{name}: .npy holds vectors; write a matrix as .mtx, .mtx.gz, .npz or .petsc")
    if kind == "npz":
        narrow = np.int32 if max(rows, columns, len(column)) < 2**31 else np.int64
        with report.replacing(name) as temporary, open(temporary, "wb") as stream:
            lists: Any = {"data": value, "indices": column.astype(narrow), "indptr": start.astype(narrow)}
            np.savez_compressed(stream, format=np.array(b"csr"), shape=np.array([rows, columns]), **lists)
        return
    row = np.repeat(np.arange(rows, dtype=np.int64), np.diff(start))
    write = core("write_triplets", value.dtype.name)
    write(name, kind == "petsc", rows, columns, row, np.ascontiguousarray(column, np.int64), value)
