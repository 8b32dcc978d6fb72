"""Limits for the readers of meshio, which allocate memory by counts that a file declares, and may search for data
beyond its end for ever.
"""

from __future__ import annotations

import contextlib
import functools
import gzip
import io
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

# How often a reader may try to read at the end of a file: a reader that does not notice the end tries for ever.
_TRIES = 1000
# Bytes of an array allowed for each byte of the file, and in any case. Arrays may be larger than the file: tables
# indexed by node numbers with gaps, grids of which the file has only the dimensions.
_EXPANSION, _FREE = 64, 1 << 28
# The largest expansion of a compressed file.
_DEFLATE = 1032

_one_at_a_time = threading.RLock()


class Refused(Exception):
    """A request of a reader that is refused. Not a ValueError, which some readers catch and ignore."""


class _Reads:
    """The checks of the files that readers are given; mixed into one of Python's file classes."""

    guard: Guard
    tries = 0

    def _seen(self, got: Any, size: int | None) -> Any:
        if not got and size != 0:
            self.tries += 1
            if self.tries > _TRIES:
                raise Refused("the file ends where more is expected")
        return got

    def readline(self, size: int | None = -1, /) -> Any:
        return self._seen(super().readline(-1 if size is None else size), size)  # type: ignore[misc]

    def read(self, size: int | None = -1, /) -> Any:
        if size is not None and size > max(self.guard.size, 1 << 16):
            raise Refused(f"{size} bytes are announced; the file has {self.guard.size} bytes")
        return self._seen(super().read(size), size)  # type: ignore[misc]

    def close(self) -> None:
        if not self.closed:  # type: ignore[attr-defined]
            self.guard.place = self.guard.place_in(self) or self.guard.place
        super().close()  # type: ignore[misc]


class _Bytes(_Reads, io.BufferedReader):
    def read(self, size: int | None = -1, /) -> Any:
        got = super().read(size)
        if size is not None and 0 < len(got) < size:
            raise Refused(f"{size} bytes are announced, and {len(got)} are left")
        return got


class _Text(_Reads, io.TextIOWrapper):
    pass


class Guard:
    """The limits for one file, and how far it was read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = path.stat().st_size
        self.zipped = False
        self.place = ""  #: "line 3" or "byte 84", where the reader stopped

    # --- files

    def open(self, path: Any, mode: str = "r", *more: Any, **options: Any) -> Any:
        """Replaces the builtin open() for reading."""
        if mode not in ("r", "rt", "rb") or more or options:
            return open(path, mode, *more, **options)
        raw = io.FileIO(path)
        made: Any = _Bytes(raw) if mode == "rb" else _Text(io.BufferedReader(raw))
        made.guard = self
        return made

    def unzipped(self) -> Any:
        self.size, self.zipped = self.size * _DEFLATE, True
        made = _Text(io.BufferedReader(gzip.GzipFile(self.path)))
        made.guard = self
        return made

    def place_in(self, file: Any) -> str:
        if self.zipped:
            return ""
        try:
            at = file.tell()
            with open(file.name, "rb") as again:
                read, rest = again.read(at), again.read(1)
        except (OSError, ValueError, AttributeError, TypeError, OverflowError):
            return ""
        if re.search(rb"[^\t\n\r\f -~\x80-\xff]", read + rest):
            return f"byte {len(read)}"
        return f"line {read.count(10) + (read[-1:] != bytes([10]))}" if read else ""

    # --- what readers call of NumPy

    def fromfile(self, file: Any, dtype: Any = float, count: Any = -1, sep: str = "", offset: int = 0) -> Any:
        """numpy.fromfile, with Refused where less is there than is wanted. One missing item, or no item at all, is
        allowed: readers find the end of a file by it."""
        count, each = int(count), np.dtype(dtype).itemsize if not sep else 2
        left = self._left(file)
        if count * each > left + bool(sep):  # the last separator may be missing
            if count > 1:
                raise Refused(
                    f"{count} numbers are announced, which take at least {count * each} bytes; {left} bytes are left"
                )
            if isinstance(file, _Reads):
                file._seen(b"", None)
        try:
            got = np.fromfile(file, dtype, count, sep, offset=offset)
        except ValueError as error:
            raise Refused(f"{count} numbers are announced; {error}") from None
        if sep and 1 < count != len(got):
            raise Refused(f"{count} numbers are announced, and {len(got)} are there")
        return got

    def _left(self, file: Any) -> int:
        try:
            if isinstance(file, str | Path):
                return Path(file).stat().st_size
            return max(0, Path(file.name).stat().st_size - int(file.tell()))
        except (OSError, AttributeError, TypeError):
            return self.size

    def _room(self, shape: Any, dtype: Any) -> None:
        lengths = np.atleast_1d(np.asarray(shape, dtype=object)).ravel()
        needed = np.dtype(dtype).itemsize
        for length in lengths:
            needed *= max(0, int(length))
        if needed > _FREE + _EXPANSION * self.size:
            numbers = " x ".join(str(length) for length in lengths)
            raise Refused(f"{numbers} numbers are announced, for {needed} bytes; the file has {self.size} bytes")

    def empty(self, shape: Any, dtype: Any = float, **options: Any) -> Any:
        self._room(shape, dtype)
        return np.empty(shape, dtype, **options)

    def zeros(self, shape: Any, dtype: Any = float, **options: Any) -> Any:
        self._room(shape, dtype)
        return np.zeros(shape, dtype, **options)

    def ones(self, shape: Any, dtype: Any = float, **options: Any) -> Any:
        self._room(shape, dtype)
        return np.ones(shape, dtype, **options)

    def full(self, shape: Any, value: Any, dtype: Any = None, **options: Any) -> Any:
        self._room(shape, dtype or np.asarray(value).dtype)
        return np.full(shape, value, dtype, **options)

    def arange(self, *bounds: Any, **options: Any) -> Any:
        first, last, step = (0, bounds[0], 1) if len(bounds) == 1 else (*bounds, 1)[:3]
        if step:
            self._room(max(0, int((last - first) / step)), options.get("dtype") or np.int64)
        return np.arange(*bounds, **options)

    def linspace(self, first: Any, last: Any, number: Any = 50, **options: Any) -> Any:
        self._room(number, options.get("dtype") or float)
        return np.linspace(first, last, number, **options)

    @property
    def mgrid(self) -> Any:
        return _Grid(self)

    def loadtxt(self, file: Any, *more: Any, **options: Any) -> Any:
        rows = options.get("max_rows") or 0  # NumPy allocates so many rows before it reads
        self._room(rows, options.get("dtype") or float)
        got = np.loadtxt(file, *more, **options)
        if rows > 1 and len(got) != rows:
            raise Refused(f"{rows} lines of numbers are announced, and {len(got)} are there")
        return got


class _Grid:
    """numpy.mgrid for slices that start at 0."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard

    def __getitem__(self, ranges: Any) -> Any:
        self._guard._room([len(ranges), *(r.stop - r.start for r in ranges)], np.int64)
        return np.mgrid[ranges]


class _Numpy:
    """NumPy as the modules of meshio see it: in the thread that reads, some functions are those of a Guard."""

    def __init__(self, guard: Guard) -> None:
        self._guard, self._thread = guard, threading.get_ident()

    def __getattr__(self, name: str) -> Any:
        if name in _BOUNDED and threading.get_ident() == self._thread:
            return getattr(self._guard, name)
        return getattr(np, name)


_BOUNDED = ("fromfile", "empty", "zeros", "ones", "full", "arange", "linspace", "loadtxt", "mgrid")


@contextlib.contextmanager
def _in_place(guard: Guard, replaced: Replaced) -> Iterator[None]:
    """Meanwhile `np` and `open` of meshio's modules are those of the guard in this thread, unchanged in others; and its
    functions `replaced`.
    """
    here, numpy = threading.get_ident(), _Numpy(guard)

    @functools.wraps(open)
    def opened(*words: Any, **options: Any) -> Any:
        return (guard.open if threading.get_ident() == here else open)(*words, **options)

    names: list[dict[str, Any]] = [
        vars(module) for name, module in list(sys.modules.items()) if name.startswith("meshio.") and module is not None
    ]
    with_numpy = [names_of for names_of in names if names_of.get("np") is np]
    alone = [names_of for names_of in names if "open" not in names_of]
    mended = [(vars(sys.modules[module]), name, made) for module, name, made in replaced if module in sys.modules]
    before = [names_of[name] for names_of, name, _ in mended]
    try:
        for (names_of, name, made), old in zip(mended, before, strict=True):
            names_of[name] = _in_thread(here, made(old), old)
        for names_of in with_numpy:
            names_of["np"] = numpy
        for names_of in alone:
            names_of["open"] = opened
        yield
    finally:
        for names_of in with_numpy:
            names_of["np"] = np
        for names_of in alone:
            names_of.pop("open", None)
        for (names_of, name, _), old in zip(mended, before, strict=True):
            names_of[name] = old


# Functions of meshio's modules: module, name, and what makes the new function from the old one.
Replaced = Sequence[tuple[str, str, Callable[[Any], Any]]]


def _in_thread(thread: int, function: Any, otherwise: Any) -> Any:
    @functools.wraps(otherwise)
    def called(*words: Any, **options: Any) -> Any:
        return (function if threading.get_ident() == thread else otherwise)(*words, **options)

    return called


def read(meshio: Any, guard: Guard, replaced: Replaced = ()) -> Any:
    """meshio.read(guard.path), with Refused where the reader goes on beyond the end of the file, or the file declares
    more than its bytes can hold.
    """
    kinds = meshio.extension_to_filetypes.get("".join(guard.path.suffixes[-2:]).lower(), ())
    with _one_at_a_time, _in_place(guard, replaced):
        with guard.path.open("rb") as file:
            zipped = file.read(2) == b"\x1f\x8b"  # meshio writes .post.gz as plain text
        if zipped and guard.path.suffix.lower() == ".gz" and len(kinds) == 1:
            with guard.unzipped() as stream:
                return meshio.read(stream, kinds[0])
        _hdf5(guard.path)
        return meshio.read(guard.path)


def _hdf5(path: Path) -> None:
    """Refused where an array of an HDF5 file is larger than its stored bytes can expand to; also in the HDF5 files that
    an XDMF file names. h5py allocates the whole array, and fills the parts that were never written.
    """
    try:
        import h5py  # type: ignore[import-untyped, unused-ignore]
    except ImportError:
        return  # then meshio cannot read HDF5 either

    def look(name: str, found: Any) -> None:
        if isinstance(found, h5py.Dataset) and found.size:
            needed, stored = found.size * found.dtype.itemsize, found.id.get_storage_size()
            if needed > _FREE + _DEFLATE * stored:
                shape = " x ".join(map(str, found.shape))
                raise Refused(f"/{name} has {shape} numbers, {needed} bytes; {stored} bytes of it are stored")

    files = [path]
    if path.suffix.lower() in (".xdmf", ".xmf"):
        named = re.findall(rb">\s*([^<>:\n]+):/", path.read_bytes())
        files += [path.parent / os.fsdecode(name) for name in dict.fromkeys(named)]
    for file in files:
        with contextlib.suppress(OSError, RuntimeError, ValueError):  # the reader reports damaged files
            if file.is_file() and h5py.is_hdf5(file):
                with h5py.File(file, "r") as opened:
                    opened.visititems(look)
