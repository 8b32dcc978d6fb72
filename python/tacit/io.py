"""Files of matrices and vectors, read strictly: invalid content is refused, with the file and the line or byte.

The kind of a file follows from its first bytes, whatever its name: Matrix Market (plain or gzip), PETSc binary, SciPy's
``save_npz`` layout, and NumPy's ``.npy`` (vectors). Nothing in a file is ever executed. :func:`tacit.read` makes an
operator of a matrix file; the functions here are local to a process.
"""

from __future__ import annotations

import io as _io
import os
import zipfile
import zlib
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt

from . import _core, report
from ._support import Array, as_array, chosen_scalar, core, scalar_name, to_scalar

__all__ = ["Header", "Share", "detect", "header", "read_share", "read_vector", "write_entries", "write_vector"]

# The largest size that a compressed array may claim, as a multiple of its file (beyond 1 MiB).
_EXPANSION = 1100
# The longest header of a NumPy array that is accepted.
_HEADER = 4096


class Header(NamedTuple):
    """Kind, size and scalar of a matrix file, as stated by the file."""

    kind: str  #: "matrix_market", "petsc_binary", "npz" or "npy"
    rows: int
    columns: int
    entries: int  #: number of entries stored in the file
    scalar: str  #: "float64" or "complex128" for text and PETSc files; for NumPy files that of the array
    dense: bool


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


def _refuse(path: str, text: str) -> NoReturn:
    raise _core.InputError(f"{path}: {text}")


def _path(path: Any) -> str:
    text = os.fspath(path)
    return os.fsdecode(text)


def detect(path: str | os.PathLike[str]) -> str:
    """The kind of a file by its first bytes: "matrix_market", "petsc_binary", "npz", "npy" or "unknown"."""
    name = _path(path)
    if not os.path.exists(name):
        raise FileNotFoundError(f"{name}: no such file")
    return _core.detect(name)


def _known(path: str) -> str:
    kind = detect(path)
    if kind == "unknown":
        _refuse(path, "expected a Matrix Market, PETSc binary, .npz or .npy file; its first bytes are of none of these")
    return kind


# --- NumPy's files ----------------------------------------------------------------------------------------------------


def _read_header(path: str, stream: Any, what: str) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """(shape, whether in Fortran's order, dtype, bytes of the header) of an array in NumPy's format."""
    begin = stream.tell()
    try:
        version = np.lib.format.read_magic(stream)
        if version not in ((1, 0), (2, 0), (3, 0)):
            _refuse(path, f"{what} has version {version} of NumPy's format; 1.0, 2.0 or 3.0 is needed")
        reader = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = reader(stream, max_header_size=_HEADER)
    except _core.Error:
        raise
    except Exception as e:
        _refuse(path, f"{what} has a damaged header: {e}")
    if dtype.hasobject:
        _refuse(path, f"{what} holds pickled objects, which are never loaded")
    if any(n < 0 for n in shape):
        _refuse(path, f"{what} has the shape {shape}")
    return shape, fortran, dtype, stream.tell() - begin


def _read_npy(path: str, stream: Any, size: int, what: str) -> Array:
    """One array in NumPy's format from a stream of `size` bytes; the size that it claims is checked before memory is
    allocated.
    """
    shape, fortran, dtype, _ = _read_header(path, stream, what)
    count = 1
    for n in shape:
        count *= n
    if count * dtype.itemsize > size:
        _refuse(path, f"{what} claims {count} elements of {dtype.itemsize} bytes, but there are {size} bytes at most")
    data = stream.read(count * dtype.itemsize)
    if len(data) != count * dtype.itemsize:
        _refuse(path, f"{what} ends after {len(data)} of {count * dtype.itemsize} bytes")
    if stream.read(1):
        _refuse(path, f"{what} has something behind its last element")
    array = np.frombuffer(data, dtype).reshape(shape, order="F" if fortran else "C")
    return array.astype(dtype.newbyteorder("="), copy=False)


class NpzRows(NamedTuple):
    """A matrix in csr in an .npz file whose arrays are read by _core.read_npz_*: nothing but their headers is known."""

    rows: int
    columns: int
    scalar: str  #: of the file
    arrays: list[tuple[Any, ...]]  #: of indptr, indices and data: the members of tacit::io::NpzArray


_SMALL = 4096  # bytes of the arrays "format" and "shape", with their headers


def npz_rows(path: str | os.PathLike[str], scalar: str | None = None) -> NpzRows | None:
    """Where the arrays of a matrix in the layout of scipy.sparse.save_npz are in their file, if it is in csr, and its
    arrays have the types that SciPy writes on this computer. None for all other files, and for damaged ones, which
    :func:`read_matrix` reads or refuses. Local.
    """
    name = _path(path)
    if _known(name) != "npz":
        return None
    try:
        with zipfile.ZipFile(name) as archive, open(name, "rb") as file:
            entries = {e.filename.removesuffix(".npy"): e for e in archive.infolist()}
            if len(entries) != len(archive.infolist()) or not {"format", "shape", *_CSR} <= set(entries):
                return None
            small = {}
            for what in ("format", "shape"):
                if entries[what].file_size > _SMALL:
                    return None
                with archive.open(entries[what]) as stream:
                    small[what] = _read_npy(name, stream, entries[what].file_size, what)
            found = {what: _npz_array(name, archive, file, entries[what]) for what in _CSR}
    except (zipfile.BadZipFile, zlib.error, OSError, EOFError, NotImplementedError, RuntimeError, ValueError):
        return None
    word, shape = small["format"], small["shape"]
    arrays = [array for array in found.values() if array is not None]
    if word.shape != () or word.item() not in (b"csr", "csr") or shape.shape != (2,) or len(arrays) != len(_CSR):
        return None
    rows, columns = (int(n) for n in shape)
    start, index, data = arrays
    of_file = {"f4": "float32", "f8": "float64", "c8": "complex64", "c16": "complex128"}.get(f"{data[1]}{data[2]}")
    fits = (
        0 <= rows == start[3] - 1
        and columns >= 0
        and index[3] == data[3]
        and max(rows, columns) <= 2**24 + 64 * data[3]
    )
    if of_file is None or not fits or start[1] != "i" or index[1] != "i":
        return None
    if data[1] == "c" and not (scalar or "complex").startswith("complex"):
        return None
    return NpzRows(rows, columns, of_file, arrays)


_CSR = ("indptr", "indices", "data")


def _npz_array(path: str, archive: zipfile.ZipFile, file: Any, entry: zipfile.ZipInfo) -> tuple[Any, ...] | None:
    """The members of tacit::io::NpzArray for a list in an archive; None where that cannot read it."""
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or entry.flag_bits & 1:
        return None
    with archive.open(entry) as stream:  # which compares the local header with the directory
        shape, _, dtype, header = _read_header(path, stream, entry.filename)
    if len(shape) != 1 or not dtype.isnative or dtype.kind not in "ifc" or dtype.itemsize not in (4, 8, 16):
        return None
    if dtype.itemsize == 16 and dtype.kind != "c":
        return None
    deflated = entry.compress_type == zipfile.ZIP_DEFLATED
    size = header + shape[0] * dtype.itemsize
    if entry.file_size != size or (not deflated and entry.compress_size != size):
        return None
    if size > _EXPANSION * os.path.getsize(path) + (1 << 20):
        return None
    file.seek(entry.header_offset + 26)
    lengths = file.read(4)
    at = entry.header_offset + 30 + int.from_bytes(lengths[:2], "little") + int.from_bytes(lengths[2:], "little")
    what = entry.filename.removesuffix(".npy")
    return (what, dtype.kind, dtype.itemsize, shape[0], at, entry.compress_size, deflated, header, entry.CRC)


def _open_npz(path: str) -> dict[str, Array]:
    arrays: dict[str, Array] = {}
    limit = _EXPANSION * os.path.getsize(path) + (1 << 20)
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
            if len(entries) > 64 or sum(e.file_size for e in entries) > limit:
                _refuse(
                    path,
                    f"expected a few arrays, found {len(entries)} that claim {sum(e.file_size for e in entries)} bytes",
                )
            for entry in entries:
                name = entry.filename.removesuffix(".npy")
                if name in arrays:
                    _refuse(path, f"{name} is there twice")
                with archive.open(entry) as stream:
                    arrays[name] = _read_npy(path, stream, entry.file_size, name)
    except (
        zipfile.BadZipFile,
        zlib.error,
        EOFError,
        NotImplementedError,
        OSError,
        RuntimeError,
        ValueError,
        OverflowError,
    ) as e:
        if isinstance(e, _core.Error):
            raise
        _refuse(path, f"damaged archive: {e}")
    return arrays


def _indices(path: str, arrays: dict[str, Array], name: str, low: int, high: int) -> Array:
    """A list of integers from low to high, as they are stored."""
    if name not in arrays:
        _refuse(path, f"expected an array {name}; found {', '.join(sorted(arrays)) or 'none'}")
    array = arrays[name]
    if array.ndim != 1 or array.dtype.kind not in "iu":
        _refuse(path, f"{name} has shape {array.shape} and type {array.dtype}; a list of integers is needed")
    if len(array) and (array.min() < low or array.max() > high):
        wrong = np.flatnonzero((array < low) | (array > high))
        _refuse(path, f"{name}[{wrong[0]}] is {array[wrong[0]]}; it runs from {low} to {high}")
    return array


def _integers(path: str, arrays: dict[str, Array], name: str, low: int, high: int) -> npt.NDArray[np.int64]:
    return _indices(path, arrays, name, low, high).astype(np.int64)


def _npz_matrix(path: str) -> tuple[int, int, Rows | Share]:
    """A matrix in the layout of scipy.sparse.save_npz: the rows of csr, all entries of csc, coo, bsr and dia."""
    arrays = _open_npz(path)
    missing = [name for name in ("format", "shape", "data") if name not in arrays]
    if missing:
        _refuse(path, f"expected the layout of scipy.sparse.save_npz; there is no array {missing[0]}")
    word = arrays["format"]
    if word.shape != () or word.dtype.kind not in "SU":
        _refuse(path, "format is no word")
    kind = word.item().decode("ascii", "replace") if word.dtype.kind == "S" else str(word.item())
    if arrays["shape"].shape != (2,):
        _refuse(path, f"shape has {arrays['shape'].size} numbers; 2 are needed")
    rows, columns = (int(n) for n in _integers(path, arrays, "shape", 0, 2**62))
    data = arrays["data"]
    if max(rows, columns) > 2**24 + 64 * data.size:
        _refuse(path, f"a matrix of {rows} by {columns} with {data.size} values")
    if data.dtype.kind not in "biufc":
        _refuse(path, f"data has type {data.dtype}; numbers are needed")

    def compressed(lines: int, others: int) -> tuple[Array, Array]:
        start = _indices(path, arrays, "indptr", 0, len(data))
        index = _indices(path, arrays, "indices", 0, others - 1)
        if len(start) != lines + 1 or start[0] != 0 or start[-1] != len(index) or len(index) != len(data):
            _refuse(
                path,
                f"indptr has {len(start)} numbers up to {start[-1] if len(start) else 0} for {lines} rows or columns"
                f" and {len(index)} indices with {len(data)} values",
            )
        fall = np.flatnonzero(start[1:] < start[:-1])
        if len(fall):
            _refuse(path, f"indptr falls behind position {fall[0]}")
        return start, index

    def entries(lines: int, others: int) -> tuple[Array, Array]:
        start, index = compressed(lines, others)
        return _lines(start), index.astype(np.int64)

    if kind in ("csr", "csc", "coo") and data.ndim != 1:
        _refuse(path, f"data has shape {data.shape}; a list is needed")
    if kind == "csr":
        start, index = compressed(rows, columns)
        integer = np.int32 if start.dtype == index.dtype == np.int32 else np.int64
        return rows, columns, Rows(start.astype(integer, copy=False), index.astype(integer, copy=False), data)
    if kind == "csc":
        column, row = entries(columns, rows)
    elif kind == "coo":
        row, column = _integers(path, arrays, "row", 0, rows - 1), _integers(path, arrays, "col", 0, columns - 1)
        if not len(row) == len(column) == len(data):
            _refuse(path, f"{len(row)} rows, {len(column)} columns and {len(data)} values")
    elif kind == "bsr":
        if data.ndim != 3 or not all(data.shape[1:]) or rows % data.shape[1] or columns % data.shape[2]:
            _refuse(path, f"blocks of shape {data.shape[1:]} in a matrix of {rows} by {columns}")
        high, wide = data.shape[1:]
        brow, bcolumn = entries(rows // high, columns // wide)
        i, j = np.arange(high, dtype=np.int64)[:, None], np.arange(wide, dtype=np.int64)[None, :]
        row = np.broadcast_to(brow[:, None, None] * high + i, data.shape).ravel()
        column = np.broadcast_to(bcolumn[:, None, None] * wide + j, data.shape).ravel()
        data = data.ravel()
    elif kind == "dia":
        offsets = _integers(path, arrays, "offsets", -(2**62), 2**62)
        if data.ndim != 2 or len(data) != len(offsets) or len(set(offsets.tolist())) != len(offsets):
            _refuse(path, f"{len(offsets)} offsets and diagonals of shape {data.shape}")
        column = np.broadcast_to(np.arange(data.shape[1], dtype=np.int64), data.shape)
        row = column - offsets[:, None]
        inside = (row >= 0) & (row < rows) & (column < columns)
        row, column, data = row[inside], column[inside], data[inside]
    else:
        _refuse(path, f"format {kind!r}; csr, csc, coo, bsr or dia is needed")
    return rows, columns, Share(row, column, data, len(data))


def _lines(start: Array) -> Array:
    """The row (or column) of each entry of a compressed matrix."""
    counts: Array = np.diff(start.astype(np.int64))
    return np.repeat(np.arange(len(start) - 1, dtype=np.int64), counts)


def _npz_entries(path: str) -> tuple[int, int, Share]:
    """All entries of a matrix in the layout of scipy.sparse.save_npz."""
    rows, columns, held = _npz_matrix(path)
    if isinstance(held, Rows):
        held = Share(_lines(held.start), held.column.astype(np.int64), held.value, len(held.value))
    return rows, columns, held


def _numpy_vector(path: str, kind: str) -> Array:
    if kind == "npy":
        with open(path, "rb") as stream:
            return _read_npy(path, _io.BytesIO(stream.read()), os.path.getsize(path), "the array")
    arrays = _open_npz(path)
    if len(arrays) != 1:
        _refuse(path, f"expected one array, found {len(arrays)}{': ' if arrays else ''}{', '.join(sorted(arrays))}")
    return next(iter(arrays.values()))


# --- all kinds --------------------------------------------------------------------------------------------------------


def header(path: str | os.PathLike[str]) -> Header:
    """The :class:`Header` of a matrix or vector file. Reads only the file's header, except for NumPy files."""
    name = _path(path)
    kind = _known(name)
    if kind == "npy":
        a = _numpy_vector(name, kind)
        shape = (*a.shape, 1) if a.ndim == 1 else a.shape
        if len(shape) != 2:
            _refuse(name, f"the array has shape {a.shape}; a vector or a matrix is needed")
        return Header(kind, *shape, a.size, scalar_name(a.dtype, name), True)
    if kind == "npz":
        rows, columns, held = _npz_matrix(name)
        return Header(kind, rows, columns, len(held.value), scalar_name(held.value.dtype, name), False)
    rows, columns, entries, field, dense = _core.read_header(name, kind == "petsc_binary")
    return Header(kind, rows, columns, entries, "complex128" if field == "complex" else "float64", dense)


def read_matrix(
    path: str | os.PathLike[str], scalar: str | None = None, part: int = 0, parts: int = 1
) -> tuple[int, int, Rows | Share]:
    """Reads a matrix as its file stores it: all its rows from an .npz file in csr, else a share of the entries
    (:func:`read_share`). `scalar`: None for :func:`default_scalar`. Returns (rows, columns, what was read). Local.
    """
    name = _path(path)
    if _known(name) != "npz":
        return read_share(name, scalar or default_scalar(header(name).scalar), part, parts)
    rows, columns, held = _npz_matrix(name)
    value = _taken(held.value, scalar or default_scalar(scalar_name(held.value.dtype, name)), name)
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
            array = _numpy_vector(name, kind)
            if array.ndim != 2:
                _refuse(
                    name, f"the array has shape {array.shape}; a matrix is needed (tacit.read_vector reads vectors)"
                )
            rows, columns = array.shape
            row, column = np.nonzero(array)
            all_ = Share(row, column, array[row, column], len(row))
        return rows, columns, _part(all_._replace(value=_taken(all_.value, scalar, name)), part, parts)
    petsc = is_petsc_matrix(name)
    rows, columns, _, _, dense = _core.read_header(name, petsc)
    if dense:
        rows, columns, values = core("read_dense", scalar)(name, False)
        table = values.reshape((rows, columns), order="F")
        row, column = np.nonzero(table)
        return rows, columns, _part(Share(row, column, table[row, column], len(row)), part, parts)
    row, column, value, parsed = core("read_triplets", scalar)(name, petsc, part, parts)
    return rows, columns, Share(row, column, value, parsed)


def check_count(path: str | os.PathLike[str], total: int) -> None:
    """ValueError unless `total`, the number of entries in all shares, is the one in the header of a Matrix Market file.
    Other kinds of files need no such check.
    """
    name = _path(path)
    if detect(name) == "matrix_market" and not _core.read_header(name, False)[4]:
        _core.check_entry_count(name, total)


def read_vector(path: str | os.PathLike[str], scalar: npt.DTypeLike | None = None) -> Array:
    """A vector (or dense block) from a Matrix Market, PETSc Vec, .npy or .npz file.

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
            return to_scalar(array, wanted or scalar_name(array.dtype, name), name)
        except TypeError as e:
            _refuse(name, str(e))
    petsc = kind == "petsc_binary"
    rows, columns, _, field, dense = _core.read_header(name, petsc)
    if petsc and not dense:
        _refuse(name, "expected a vector, found a PETSc matrix (tacit.read reads those)")
    wanted = wanted or ("complex128" if field == "complex" else "float64")
    rows, columns, values = core("read_dense", wanted)(name, petsc)
    array = values if columns == 1 else np.ascontiguousarray(values.reshape((rows, columns), order="F"))
    return array


def _written_kind(path: str) -> str:
    """The kind of file to write, by the suffix of the name."""
    name = Path(path).name
    for ending, kind in (
        (".mtx", "mtx"),
        (".mtx.gz", "mtx"),
        (".npz", "npz"),
        (".npy", "npy"),
        (".petsc", "petsc"),
        (".dat", "petsc"),
        (".bin", "petsc"),
    ):
        if name.endswith(ending):
            return kind
    raise ValueError(
        f"{path}: the ending tells what to write: .mtx, .mtx.gz, .npz, .npy (vectors), or .petsc, .dat, .bin (PETSc)"
    )


def write_vector(path: str | os.PathLike[str], vector: Any) -> None:
    """Writes a vector or dense block in the format given by the suffix of `path`. Local."""
    name = _path(path)
    kind = _written_kind(name)
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
    kind = _written_kind(name)
    rows, columns = shape
    if kind == "npy":
        raise ValueError(f"{name}: .npy holds vectors; write a matrix as .mtx, .mtx.gz, .npz or .petsc")
    if kind == "npz":
        narrow = np.int32 if max(rows, columns, len(column)) < 2**31 else np.int64
        with report.replacing(name) as temporary, open(temporary, "wb") as stream:
            np.savez_compressed(
                stream,
                format=np.array(b"csr"),
                shape=np.array([rows, columns]),
                data=value,
                indices=column.astype(narrow),
                indptr=start.astype(narrow),
            )
        return
    row = np.repeat(np.arange(rows, dtype=np.int64), np.diff(start))
    write = core("write_triplets", value.dtype.name)
    write(name, kind == "petsc", rows, columns, row, np.ascontiguousarray(column, np.int64), value)
