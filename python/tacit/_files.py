"""Arrays, tables and HDF5 datasets of files: what a file declares is compared with its bytes before memory is taken,
and whatever a library raises on the content of a file becomes an InputError with its name and what was expected.
"""

from __future__ import annotations

import contextlib
import errno
import gzip
import os
import re
import stat
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt

from . import _core

Array = npt.NDArray[Any]

#: What compressed data may expand to: so many times their bytes (deflate reaches 1032), and these bytes in any case.
EXPANSION, FREE = 1100, 1 << 20
_HEADER = 4096  # the longest header of a NumPy array that is accepted
_ARRAYS = 64  # the most arrays of an archive
_BLOCK = 1 << 20  # bytes read at a time


def refuse(path: str, text: str) -> NoReturn:
    raise _core.InputError(f"{path}: {text}")


@contextlib.contextmanager
def reading(path: str, expected: str) -> Iterator[None]:
    """InputError, "PATH: expected .. (what the library said)", for any exception of a library that reads the content
    of a file. Those of the operating system, and running out of memory, stay what they are.
    """
    try:
        yield
    except (_core.Error, MemoryError):
        raise
    except Exception as error:
        # Libraries raise OSError without a number, too, and seek to where a damaged file says (an invalid argument).
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            error.filename = error.filename or path
            raise
        refuse(path, f"expected {expected} ({str(error) or type(error).__name__})")


def existing(path: str | os.PathLike[str]) -> str:
    """The path as a text. FileNotFoundError where there is no such file; nothing is ever fetched."""
    name = os.fsdecode(os.fspath(path))
    if not os.path.exists(name):
        raise FileNotFoundError(f"{name}: no such file")
    return name


# --- what a file is ---------------------------------------------------------------------------------------------------

_UNPACK = "unpack it first, and give the file inside"
_MAGIC: tuple[tuple[int, bytes, str], ...] = (
    (0, b"BZh", f"it is compressed by bzip2: {_UNPACK}"),
    (0, b"\xfd7zXZ\0", f"it is compressed by xz: {_UNPACK}"),
    (0, b"\x28\xb5\x2f\xfd", f"it is compressed by zstd: {_UNPACK}"),
    (0, b"7z\xbc\xaf\x27\x1c", f"it is a 7-Zip archive: {_UNPACK}"),
    (257, b"ustar", f"it is a tar archive: {_UNPACK}"),
    (0, b"\x89HDF\r\n\x1a\n", "it is an HDF5 file (or one of MATLAB's, version 7.3)"),
    (0, b"MATLAB 5.0 MAT-file", "it is a MATLAB file: scipy.io.loadmat reads it, tacit.write writes the matrix"),
    (0, b"CDF", "it is a NetCDF file"),
    (0, b"%PDF", "it is a PDF document"),
    (0, b"<!DOCTYPE", "it is a web page"),
    (0, b"<!doctype", "it is a web page"),
    (0, b"<html", "it is a web page"),
    (0, b"version https://git-lfs", "it is a pointer of Git LFS: `git lfs pull` fetches the file itself"),
    (0, b"\xef\xbb\xbf%%MatrixMarket", "a byte order mark is in front of the banner; save it without"),
    (0, b"\xff\xfe", "it is text in UTF-16; save it as ASCII"),
    (0, b"\xfe\xff", "it is text in UTF-16; save it as ASCII"),
    (0, b"%MatrixMarket", "its banner has one percent sign, and needs two"),
    (0, b"\x50\x7b\x12\x00", "it begins like a PETSc file in little-endian order; PETSc writes big-endian numbers"),
)


def description(path: str) -> str:
    """What a file of no known kind is, by its first bytes, and what to do."""
    with open(path, "rb") as file:
        start = file.read(512)
    if not start:
        return "it is empty"
    if start[:2] == b"\x1f\x8b":
        inside = b""
        with contextlib.suppress(OSError, EOFError, zlib.error), gzip.open(path) as unpacked:
            inside = unpacked.read(512)
        for at, magic, text in _MAGIC:
            if inside[at:].startswith(magic):
                return f"inside gzip, {text}"
        return "it is compressed by gzip, and damaged or no Matrix Market file inside"
    for at, magic, text in _MAGIC:
        if start[at:].startswith(magic):
            return text
    if re.match(rb"[^\n]*\n[^\n]*\n[RCPI][SUHZR][AE]\s", start.upper()):
        return "it begins as a Harwell-Boeing file, but lines 2 to 4 are no header of one"
    return "its first bytes are of none of these"


# --- NumPy's files ----------------------------------------------------------------------------------------------------


class ArrayHeader(NamedTuple):
    """What the header of an array in NumPy's format says."""

    shape: tuple[int, ...]
    fortran: bool  #: whether in Fortran's order
    dtype: np.dtype[Any]
    length: int  #: bytes of the header itself

    @property
    def size(self) -> int:
        count = 1
        for n in self.shape:
            count *= n
        return count


def array_header(path: str, stream: Any, what: str) -> ArrayHeader:
    """The header at which a stream stands. InputError for a damaged one, and for pickled objects."""
    begin = stream.tell()
    with reading(path, f"{what} in NumPy's format; its header is damaged"):
        version = np.lib.format.read_magic(stream)
        if version not in ((1, 0), (2, 0), (3, 0)):
            refuse(path, f"{what} has version {version} of NumPy's format; 1.0, 2.0 or 3.0 is needed")
        reader = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of headers written by Python 2
            shape, fortran, dtype = reader(stream, max_header_size=_HEADER)
    if dtype.hasobject:
        refuse(path, f"{what} holds pickled objects, which are never loaded")
    if any(n < 0 for n in shape) or len(shape) > 32:
        refuse(path, f"{what} has the shape {shape}")
    return ArrayHeader(shape, fortran, dtype, stream.tell() - begin)


def _read_array(path: str, stream: Any, size: int, what: str) -> Array:
    """The array at which a stream of `size` bytes stands."""
    head = array_header(path, stream, what)
    needed = head.size * head.dtype.itemsize
    if needed > size:
        elements = f"{head.size} elements of {head.dtype.itemsize} bytes"
        refuse(path, f"{what} declares {elements}, but there are {size} bytes at most")
    data, have = np.empty(needed, np.uint8), 0  # which takes memory where it is written only
    while have < needed:
        got = stream.read(min(_BLOCK, needed - have))
        if not got:
            refuse(path, f"{what} ends after {have} of {needed} bytes")
        data[have : have + len(got)] = np.frombuffer(got, np.uint8)
        have += len(got)
    if stream.read(1):
        refuse(path, f"{what} has something behind its last element")
    if head.dtype == np.bool_ and needed and data.max() > 1:
        refuse(path, f"{what} has {data.max()} for a truth value; 0 or 1 is needed")
    flat = data.view(head.dtype) if needed else np.zeros(head.size if head.dtype.itemsize else 0, head.dtype)
    if flat.size != head.size:
        refuse(path, f"{what} has elements of no bytes")
    return flat.reshape(head.shape, order="F" if head.fortran else "C").astype(head.dtype.newbyteorder("="), copy=False)


def read_npy(path: str) -> Array:
    """The array of a .npy file."""
    with open(path, "rb") as stream:
        return _read_array(path, stream, os.fstat(stream.fileno()).st_size, "the array")


class Place(NamedTuple):
    """Where an array of an archive is in the file."""

    at: int  #: offset of its first byte
    stored: int  #: bytes there
    size: int  #: bytes when expanded
    deflated: bool
    crc: int


class Archive:
    """The arrays of an .npz file by name. Their headers are read at once, their elements where they are asked for. A
    context manager.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._entries: dict[str, zipfile.ZipInfo] = {}
        self._headers: dict[str, ArrayHeader] = {}
        self._open = contextlib.ExitStack()
        with reading(path, _ARCHIVE):
            self._file = self._open.enter_context(zipfile.ZipFile(path))
        try:
            self._look()
        except BaseException:
            self._open.close()
            raise

    def _look(self) -> None:
        entries, path = self._file.infolist(), self.path
        declared = sum(entry.file_size for entry in entries)
        if len(entries) > _ARRAYS or declared > EXPANSION * os.path.getsize(path) + FREE:
            refuse(path, f"expected a few arrays, found {len(entries)} that declare {declared} bytes")
        for entry in entries:
            name = entry.filename.removesuffix(".npy")
            if name in self._entries:
                refuse(path, f"{name} is there twice")
            if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                refuse(path, f"{name} is compressed by method {entry.compress_type}; NumPy stores or deflates")
            with reading(path, _ARCHIVE), self._file.open(entry) as stream:
                head = self._headers[name] = array_header(path, stream, name)
            if head.size * head.dtype.itemsize > entry.file_size:
                elements = f"{head.size} elements of {head.dtype.itemsize} bytes"
                refuse(path, f"{name} declares {elements}, but there are {entry.file_size} bytes at most")
            self._entries[name] = entry

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *_: Any) -> None:
        self._open.close()

    @property
    def names(self) -> list[str]:
        return list(self._entries)

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    def __len__(self) -> int:
        return len(self._entries)

    def header(self, name: str) -> ArrayHeader:
        return self._headers[name]

    def __getitem__(self, name: str) -> Array:
        entry = self._entries[name]
        with reading(self.path, _ARCHIVE), self._file.open(entry) as stream:
            return _read_array(self.path, stream, entry.file_size, name)

    def place(self, name: str) -> Place:
        """Where the bytes of an array are, whose local header has been compared with the directory."""
        entry = self._entries[name]
        with reading(self.path, _ARCHIVE), open(self.path, "rb") as file:
            file.seek(entry.header_offset + 26)
            lengths = file.read(4)
        at = entry.header_offset + 30 + int.from_bytes(lengths[:2], "little") + int.from_bytes(lengths[2:], "little")
        deflated = entry.compress_type == zipfile.ZIP_DEFLATED
        return Place(at, entry.compress_size, entry.file_size, deflated, entry.CRC)

    def only(self) -> str:
        """The name of the only array; InputError where there are others or none."""
        if len(self) != 1:
            found = f": {', '.join(sorted(self._entries))}" if self._entries else ""
            refuse(self.path, f"expected one array, found {len(self)}{found}")
        return self.names[0]


_ARCHIVE = "an archive of NumPy arrays (.npz); it is damaged"


def _only_array(path: str) -> Array:
    with Archive(path) as archive:
        return archive[archive.only()]


def load_arrays(path: str | os.PathLike[str]) -> Array | dict[str, Array]:
    """The array of a .npy file, or a dict with the arrays of a .npz file, by its content."""
    name = existing(path)
    kind = _core.detect(name)
    if kind == "npy":
        return read_npy(name)
    if kind == "npz":
        with Archive(name) as archive:
            return {key: archive[key] for key in archive.names}
    refuse(name, f"expected arrays of NumPy (.npy or .npz); {description(name)}")


# --- numbers in lines of text -----------------------------------------------------------------------------------------


class _Bounded:
    """The lines of a gzip file, up to the largest expansion."""

    def __init__(self, path: str) -> None:
        self._path, self._left = path, EXPANSION * os.path.getsize(path) + FREE

    def __iter__(self) -> Iterator[str]:
        with gzip.open(self._path, "rb") as file:
            while line := file.readline(self._left + 1):
                self._left -= len(line)
                if self._left < 0:
                    refuse(self._path, f"expands to more than {EXPANSION} times its size")
                yield line.decode("latin-1")


def read_numbers(
    path: str | os.PathLike[str], what: str, dtype: npt.DTypeLike = np.float64, delimiter: str | None = None
) -> Array:
    """The numbers of a file as rows, an array of two dimensions: lines of text, plain or gzip, with blanks or tabs
    between the numbers (or `delimiter`), or an array of NumPy's (.npy, or .npz with one array; one dimension becomes a
    column). InputError, which says that `what` was expected, for anything else, and for what `dtype` cannot hold.
    """
    name = existing(path)
    kind, start = "unknown", b""
    if not stat.S_ISFIFO(os.stat(name).st_mode):  # a pipe brings text, and can be read once
        kind = _core.detect(name)
        with open(name, "rb") as file:
            start = file.read(512)
    if kind in ("npy", "npz"):
        found = read_npy(name) if kind == "npy" else _only_array(name)
        if found.ndim not in (1, 2) or found.dtype.kind not in "biuf":
            refuse(name, f"an array of shape {found.shape} and type {found.dtype}; {what} are needed")
        return _whole(name, found if found.ndim == 2 else found[:, None], np.dtype(dtype), what)
    zipped = start[:2] == b"\x1f\x8b"
    if not zipped and (b"\0" in start or start.startswith((b"BZh", b"\xfd7zXZ"))):
        refuse(name, f"expected {what}, as text or an array of NumPy; {description(name)}")
    with reading(name, what), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a file without lines
        if zipped:
            return np.loadtxt(_Bounded(name), dtype=dtype, delimiter=delimiter, ndmin=2)
        with open(name, encoding="latin-1") as lines:
            return np.loadtxt(lines, dtype=dtype, delimiter=delimiter, ndmin=2)


def _whole(path: str, values: Array, dtype: np.dtype[Any], what: str) -> Array:
    """The values as `dtype`; InputError where a number is not the same in it."""
    with np.errstate(all="ignore"):
        taken = values.astype(dtype)
    if dtype.kind in "iu" and not np.array_equal(taken, values):
        wrong = int(np.flatnonzero((taken != values).ravel())[0])
        refuse(path, f"number {wrong + 1} is {values.ravel()[wrong]}; {what} are needed")
    return taken


# --- HDF5 -------------------------------------------------------------------------------------------------------------


def refuse_unwritten(path: str, dataset: Any, needed: int | None = None) -> None:
    """InputError where so many bytes of memory (default: those of the whole dataset of h5py) are more than what is
    stored of it can expand to: h5py allocates an array by the declared shape, and fills the parts never written.
    """
    size = int(dataset.size) * int(dataset.dtype.itemsize) if needed is None else needed
    if size <= _UNWRITTEN:
        return
    stored = int(dataset.id.get_storage_size())
    if dataset.is_virtual:
        sources = {source.file_name for source in dataset.virtual_sources()}
        beside = (path if name == "." else os.path.join(os.path.dirname(path), name) for name in sources)
        stored = sum(os.path.getsize(name) for name in beside if os.path.isfile(name))
    if size > _UNWRITTEN + EXPANSION * stored:
        shape = " x ".join(map(str, dataset.shape))
        refuse(path, f"{dataset.name} declares {shape} numbers, for {size} bytes of memory; {stored} bytes are stored")


_UNWRITTEN = 1 << 28
