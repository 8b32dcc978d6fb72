"""Projections as TIFF files."""

from __future__ import annotations

import glob
import os
import re
from typing import Any

import numpy as np

from .._core import InputError
from .._support import Array
from .scans import Frames, largest, missing_frames

__all__ = ["TIFF", "Stack", "Tiffs"]

TIFF = (".tif", ".tiff", ".btf")


def _tifffile() -> Any:
    try:
        import tifffile
    except ImportError:
        raise ImportError("TIFF files are read by tifffile: pip install tifffile") from None
    return tifffile


def _natural(name: str) -> list[Any]:
    """So that 2 comes before 10."""
    return [int(part) if part.isdigit() else part.lower() for part in re.split(r"(\d+)", name)]


class Stack:
    """The images of TIFF files (of a pattern, a folder, or one file), each page one image, in the order of the numbers
    in their names. Only the rows that are wanted are read of files that are not compressed.
    """

    def __init__(self, pattern: str) -> None:
        tifffile = _tifffile()
        if os.path.isdir(pattern):
            names = [os.path.join(pattern, n) for n in os.listdir(pattern) if n.lower().endswith(TIFF)]
        else:
            names = glob.glob(pattern) if glob.has_magic(pattern) else [pattern]
        if not names:
            raise FileNotFoundError(f"{pattern}: no such files")
        self.pages: list[tuple[str, int, bool]] = []  # file, page, whether its rows can be read by themselves
        self.shape: tuple[int, int] = (0, 0)
        for name in sorted(names, key=_natural):
            if not os.path.exists(name):
                raise FileNotFoundError(f"{name}: no such file")
            try:
                with tifffile.TiffFile(name) as file:
                    for i, page in enumerate(file.pages):
                        self._add(name, i, page)
            except (tifffile.TiffFileError, ValueError, OSError, IndexError, KeyError) as error:
                if isinstance(error, InputError):
                    raise
                raise InputError(f"{name}: not a TIFF file ({error})") from None

    def _add(self, name: str, number: int, page: Any) -> None:
        if len(page.shape) != 2 or page.dtype is None or page.dtype.kind not in "iuf":
            raise InputError(
                f"{name}: page {number} has shape {page.shape} of {page.dtype}; one value for each pixel is needed (no"
                " colours)"
            )
        if not self.pages:
            self.shape, self.dtype = page.shape, page.dtype
        elif page.shape != self.shape:
            raise InputError(
                f"{name}: page {number} has {page.shape[0]} x {page.shape[1]} pixels where {self.pages[0][0]} has"
                f" {self.shape[0]} x {self.shape[1]}"
            )
        self.pages.append((name, number, bool(page.is_memmappable)))

    def __len__(self) -> int:
        return len(self.pages)

    def rows(self, first: int, last: int) -> Array:
        """Rows first to last - 1 of all images (images, rows, columns), as float32."""
        tifffile = _tifffile()
        made = np.empty((len(self.pages), last - first, self.shape[1]), np.float32)
        for i, (name, page, mapped) in enumerate(self.pages):
            try:
                if mapped:
                    made[i] = tifffile.memmap(name, page=page, mode="r")[first:last]
                else:
                    made[i] = tifffile.imread(name, key=page)[first:last]
            except (tifffile.TiffFileError, ValueError, OSError) as error:
                raise InputError(f"{name}: page {page} cannot be read ({error})") from None
        return made


class Tiffs(Frames):
    """Projections, one page of a TIFF file each (8, 16 or 32 bits, BigTIFF too): rows are slices. `path` is a pattern,
    a folder or a file; `white` and `dark` are likewise, or levels. Other options as of :class:`scans.Frames`.
    """

    frames_in_files = True

    def _open(self) -> int:
        self.stack = Stack(self.path)
        self.slices, self.detectors = self.stack.shape
        self.limit = largest(self.stack.dtype)
        self.frames: list[Stack | float] = []
        for name, value in self.levels.items() if self.kind == "counts" else ():
            if value is None:
                raise missing_frames(self.path, f"{name} frames (--{name} 'FILES')", name)
            self.frames.append(Stack(value) if isinstance(value, str) else float(value))
            if isinstance(made := self.frames[-1], Stack) and made.shape != self.stack.shape:
                raise InputError(
                    f"{value}: {made.shape[0]} x {made.shape[1]} pixels where the projections have"
                    f" {self.slices} x {self.detectors}"
                )
        return len(self.stack)

    def _theta(self, count: int) -> Array:
        return self._equal_steps(count, "TIFF files have no angles")

    def _stored(self, first: int, last: int) -> tuple[Array, Array, Array]:
        shape = (last - first, self.detectors)
        made = [self.stack.rows(first, last)]
        for frames in self.frames:
            made.append(
                frames.rows(first, last) if isinstance(frames, Stack) else np.full((1, *shape), frames, np.float32)
            )
        empty = np.zeros((0, *shape), np.float32)
        made += [empty] * (3 - len(made))
        return made[0], made[1], made[2]
