"""Files of images: slices are written in any order, so that the whole volume is never in memory."""

from __future__ import annotations

import io
import os
import struct
from pathlib import Path
from typing import Any

import numpy as np

from .. import report
from .._support import Array

__all__ = ["BITS", "OUTPUTS", "Scale", "Writer", "picture"]

OUTPUTS = (".tif", ".tiff", ".h5", ".hdf5", ".npy", ".zarr", ".png")
BITS = (8, 16, 32)
TAILS = (0.1, 99.9)  # percentiles of the first images that are written: the range of whole numbers, where none is given


class Scale:
    """How values become whole numbers of 8 or 16 bits: the range from `low` to `high` is 0 to 2^bits - 1, and values
    beyond its ends are these. 32 bits: values as they are.
    """

    def __init__(self, bits: int = 32, span: tuple[float, float] | None = None, unit: str = "detector bin") -> None:
        if bits not in BITS:
            raise ValueError(f"bits is {bits}; 8, 16 or 32 is needed")
        if span is not None and bits == 32:
            raise ValueError("a range of values is for 8 or 16 bits; with 32 values stay as they are")
        if span is not None and not (np.isfinite(span).all() and span[0] < span[1]):
            raise ValueError(f"the range of values is {span[0]:g} to {span[1]:g}; two numbers in ascending order")
        self.bits, self.span, self.values, self.clipped = bits, span, 0, 0
        self.unit = unit  # of lengths
        self.dtype = np.dtype({8: "u1", 16: "<u2", 32: "<f4"}[bits])

    def __call__(self, images: Array) -> Array:
        images = np.ascontiguousarray(images, np.float32)
        if self.bits == 32:
            return np.asarray(images, "<f4")
        if self.span is None:
            finite = images[np.isfinite(images)]
            low, high = (float(v) for v in np.percentile(finite, TAILS)) if finite.size else (0.0, 1.0)
            self.span = low, high if high > low else low + 1.0
        low, high = self.span
        self.values += images.size
        self.clipped += int(((images < low) | (images > high)).sum())
        top = 2**self.bits - 1
        made = (np.clip(np.where(np.isnan(images), low, images), low, high) - low) * (top / (high - low))
        return np.asarray(np.round(made), self.dtype)

    @property
    def step(self) -> float:
        """What 1 stands for."""
        return 1.0 if self.span is None else (self.span[1] - self.span[0]) / (2**self.bits - 1)

    def text(self) -> str:
        """How the numbers of a file become values, as a sentence in that file."""
        if self.bits == 32 or self.span is None:
            return f"attenuation per {self.unit}"
        return f"attenuation per {self.unit} = {self.span[0]:.9g} + {self.step:.9g} * number"

    def facts(self) -> dict[str, Any]:
        """For the JSON document."""
        outside = self.clipped / self.values if self.values else 0.0
        return {"bits": self.bits, "range": list(self.span) if self.span else None, "outside": outside}


class Writer:
    """Writes images to a file, slices in any order; to a .png only the middle slice of the stack. The space for all of
    them is taken at once, so that a disk that is too small is found before the first; not for .zarr, a folder with a
    compressed chunk for each slice, which must not exist.
    """

    def __init__(self, path: str, slices: int, shape: tuple[int, int], scale: Scale | None = None) -> None:
        self.path, self.slices, self.shape = Path(path), slices, shape
        self.suffix = self.path.suffix.lower()
        if self.suffix not in OUTPUTS:
            raise ValueError(f"{path} must end in one of {', '.join(OUTPUTS)}")
        self.scale = scale or Scale()
        if self.scale.bits != 32 and self.suffix not in (".tif", ".tiff"):
            raise ValueError(f"{path}: {self.scale.bits} bits are for .tif; {self.suffix} has 32")
        self._package()
        self.file: Any = (report.NewFolder if self.suffix == ".zarr" else report.Replacement)(self.path)
        self.written = self.suffix != ".png"
        self.hdf: Any = None
        self.target: Any = None
        self.stream: Any = None
        try:
            with self.file.naming():
                self._begin()
        except BaseException:
            self.close(keep=False)
            raise

    def _package(self) -> None:
        """Finds the package of the format before anything is written."""
        if self.suffix in (".h5", ".hdf5"):
            import h5py  # noqa: F401
        elif self.suffix == ".zarr":
            try:
                import zarr  # noqa: F401
            except ImportError:
                raise ImportError("Zarr volumes are written by zarr: pip install zarr") from None

    def _begin(self) -> None:
        if self.suffix in (".h5", ".hdf5"):
            self._begin_hdf()
        elif self.suffix == ".zarr":
            import zarr

            shape = (self.slices, *self.shape)
            how: dict[str, Any] = {"chunks": (1, *self.shape), "dtype": "float32", "dimension_names": ("z", "y", "x")}
            self.target = zarr.create_array(str(self.file.path), shape=shape, **how)
            self.target.attrs["description"] = self.scale.text()
        elif self.suffix != ".png":
            size = self.scale.dtype.itemsize
            begin = npy_header(self.slices, self.shape)
            if self.suffix != ".npy":
                begin = tiff_header(self.slices, self.shape, size)
            self.begin, self.step = len(begin[0]), begin[1]
            self._reserve(self.begin + self.slices * self.step)
            self.stream = open(self.file.path, "r+b", buffering=0)  # noqa: SIM115
            _write(self.stream, begin[0])

    def _begin_hdf(self) -> None:
        import h5py

        self.hdf = h5py.File(self.file.path, "w")
        creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        creation.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
        creation.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
        shape = (self.slices, *self.shape)
        self.target = self.hdf.create_dataset("exchange/data", shape, np.float32, dcpl=creation)
        self.hdf.flush()
        self._reserve(os.path.getsize(self.file.path))

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, kind: Any, *_: object) -> None:
        self.close(keep=kind is None)

    def _reserve(self, size: int) -> None:
        report.reserve(self.file.path, size, self.path)

    def write(self, first: int, images: Array) -> None:
        with self.file.naming():
            if self.suffix == ".png":
                at = self.slices // 2 - first
                if 0 <= at < len(images):
                    picture(images[at], self.file.path)
                    self.written = True
            elif self.target is not None:
                self.target[first : first + len(images)] = images
            else:
                for i, image in enumerate(self.scale(images), first):
                    self.stream.seek(self.begin + i * self.step)
                    if self.suffix != ".npy":
                        size = self.scale.dtype.itemsize
                        _write(self.stream, tiff_directory(i, self.slices, self.shape, size, self.scale.text()))
                    _write(self.stream, image.data)

    def close(self, keep: bool = True) -> None:
        try:
            with self.file.naming():
                if self.hdf is not None:
                    self.hdf.close()
                if self.stream is not None:
                    self.stream.close()
            if keep and self.written:
                self.file.keep()
        finally:
            self.file.drop()


def _write(stream: Any, data: Any) -> None:
    """All of the bytes; a single write may take fewer."""
    rest = memoryview(data).cast("B")
    while len(rest):
        rest = rest[stream.write(rest) :]


def npy_header(slices: int, shape: tuple[int, int]) -> tuple[bytes, int]:
    """(what a .npy file of float32 images begins with, bytes of an image)."""
    text = io.BytesIO()
    head = {"descr": "<f4", "fortran_order": False, "shape": (slices, *shape)}
    np.lib.format.write_array_header_1_0(text, head)
    return text.getvalue(), 4 * shape[0] * shape[1]


# A TIFF file here is its header, and for each image its directory, a sentence on the values, and its rows as one strip;
# all places are known before the first image. Above 4 GiB it is a BigTIFF file, with 64-bit places.
_TAGS = 11
_SENTENCE = 80  # bytes of the sentence, with the 0 at its end


def _ahead_of(big: bool) -> tuple[int, int]:
    """(bytes of a directory, bytes before an image's rows): directories begin at even places."""
    directory = 8 + 20 * _TAGS + 8 if big else 2 + 12 * _TAGS + 4
    return directory, directory + _SENTENCE


def _big(slices: int, shape: tuple[int, int], size: int = 4) -> bool:
    step = _ahead_of(False)[1] + size * shape[0] * shape[1]
    return 8 + slices * (step + step % 2) >= 2**32


def tiff_header(slices: int, shape: tuple[int, int], size: int = 4) -> tuple[bytes, int]:
    """(what a TIFF file of images begins with, bytes of an image with its directory); `size`: bytes of a value."""
    big = _big(slices, shape, size)
    begin = struct.pack("<2sHHHQ", b"II", 43, 8, 0, 16) if big else struct.pack("<2sHI", b"II", 42, 8)
    step = _ahead_of(big)[1] + size * shape[0] * shape[1]
    return begin, step + step % 2


def tiff_directory(i: int, slices: int, shape: tuple[int, int], size: int = 4, said: str = "") -> bytes:
    """The directory of image i, in front of it, and what is said of the values."""
    big = _big(slices, shape, size)
    rows, columns = shape
    count, entry, place = ("<Q", "<HHQQ", "<Q") if big else ("<H", "<HHII", "<I")
    begin, step = tiff_header(slices, shape, size)
    directory, length = _ahead_of(big)
    here = len(begin) + i * step
    sentence = said.encode("ascii", "replace")[: _SENTENCE - 1].ljust(_SENTENCE, b"\0")
    wide = 16 if big else 4  # the type of a place
    text, short, word = 2, 3, 4
    tags = [
        (256, word, 1, columns),
        (257, word, 1, rows),
        (258, short, 1, 8 * size),  # bits
        (259, short, 1, 1),  # not compressed
        (262, short, 1, 1),  # 0 is black
        (270, text, _SENTENCE, here + directory),
        (273, wide, 1, here + length),
        (277, short, 1, 1),  # values of a pixel
        (278, word, 1, rows),  # in a strip
        (279, wide, 1, size * rows * columns),
        (339, short, 1, 3 if size == 4 else 1),  # floating point, or whole numbers from 0
    ]
    made = struct.pack(count, _TAGS) + b"".join(struct.pack(entry, *tag) for tag in tags)
    return made + struct.pack(place, here + step if i + 1 < slices else 0) + sentence


def picture(image: Array, path: str | Path) -> None:
    """Writes a grey-scale .png with black and white at the 0.5 and 99.5 percentiles of the values."""
    from PIL import Image

    values = np.asarray(image, np.float64)
    low, high = np.percentile(values, (0.5, 99.5))
    grey = np.clip((values - low) / max(high - low, 1e-300), 0, 1)
    Image.fromarray(np.round(255 * grey).astype(np.uint8)).save(path, format="PNG")
