"""Scans as the beamlines of synchrotrons write them: NXtomo files, and the format that a file has."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from .._core import InputError
from .._files import reading, refuse_unwritten
from .._support import Array
from .exchange import DataExchange, opened
from .preparation import Preparation
from .scans import Frames, largest, missing_frames
from .tiffs import TIFF, Tiffs

__all__ = ["NXtomo", "open_scan"]

PROJECTION, WHITE, DARK, INVALID = 0, 1, 2, 3


def open_scan(
    path: str,
    *,
    data: str = "counts",
    white: float | str | None = None,
    dark: float | str | None = None,
    theta: str | None = None,
    preparation: Preparation | None = None,
) -> Frames:
    """A scan by what `path` is: an HDF5 file with /exchange (:class:`exchange.DataExchange`) or of NXtomo
    (:class:`NXtomo`), or TIFF files, as a pattern (``proj_*.tif``), a folder, or one file with many pages
    (:class:`tiffs.Tiffs`). InputError for others. Options as of :class:`scans.Frames`.
    """
    more: dict[str, Any] = {"data": data, "white": white, "dark": dark, "theta": theta, "preparation": preparation}
    if glob.has_magic(path) or os.path.isdir(path) or path.lower().endswith(TIFF):
        return Tiffs(path, **more)
    with opened(path) as file, reading(path, "groups of a scan"):
        nexus = "exchange" not in file and next(_entries(file), None) is not None
    return NXtomo(path, **more) if nexus else DataExchange(path, **more)


def _entries(file: Any) -> Iterator[str]:
    """The names of the groups that have instrument/detector/data, on the first two levels."""
    import h5py

    def groups(at: Any) -> list[str]:
        return [name for name in at if isinstance(at.get(name), h5py.Group)]

    names = [name for name in groups(file)]
    names += [f"{name}/{inner}" for name in names for inner in groups(file[name])]
    for name in names:
        if isinstance(file[name].get("instrument/detector/data"), h5py.Dataset):
            yield name


class NXtomo(Frames):
    """NeXus files of the application definition NXtomo: instrument/detector/data (frames, slices, bins) with image_key
    (0 projection, 1 white, 2 dark, 3 invalid) and sample/rotation_angle. Options as of :class:`scans.Frames`.

    Of several entries the first is read, and `assumed` names the others. Levels of `white` and `dark` replace frames.
    """

    def _open(self) -> int:
        self.file, path = opened(self.path), self.path
        found = list(_entries(self.file))
        if not found:
            raise InputError(f"{path}: no group has instrument/detector/data, as those of NXtomo have")
        self.entry = found[0]
        if len(found) > 1:
            self.assumed.append(
                f"{path}: /{found[0]} is read, and {', '.join('/' + n for n in found[1:])} are left out"
            )
        self.source = f"/{self.entry}/instrument/detector/data"
        self.angle_source = f"/{self.entry}/sample/rotation_angle"
        self.data = self.file[self.source]
        if self.data.dtype.kind not in "iuf" or self.data.ndim != 3 or 0 in self.data.shape:
            raise InputError(
                f"{path}: {self.source} has shape {self.data.shape} of {self.data.dtype}; (frames, slices, bins) of"
                " numbers is needed"
            )
        frames, self.slices, self.detectors = self.data.shape
        refuse_unwritten(path, self.data, frames * self.detectors * (self.data.dtype.itemsize + 4))
        self.limit = largest(self.data.dtype)
        keys = self._keys(frames)
        self.which = {"white": np.flatnonzero(keys == WHITE), "dark": np.flatnonzero(keys == DARK)}
        self.rows = np.flatnonzero(keys == PROJECTION)
        if not len(self.rows):
            raise InputError(f"{path}: image_key has no 0: none of {frames} frames is a projection")
        if self.kind == "counts":
            for name, level in self.levels.items():
                if level is None and not len(self.which[name]):
                    raise missing_frames(path, f"{name} frame (image_key {WHITE if name == 'white' else DARK})", name)
        return len(self.rows)

    def _first(self, names: tuple[str, ...]) -> Any:
        """The first dataset of these names in the entry, or None."""
        import h5py

        with reading(self.path, f"datasets of /{self.entry}"):
            for name in names:
                found = self.file[self.entry].get(name)
                if isinstance(found, h5py.Dataset) and found.dtype.kind in "iuf":
                    return found
        return None

    def _keys(self, frames: int) -> Array:
        found = self._first(
            ("instrument/detector/image_key", "data/image_key", "instrument/detector/image_key_control")
        )
        if found is None:
            self.assumed.append(
                f"{self.path}: no image_key in /{self.entry}: all {frames} frames are taken for projections"
            )
            return np.zeros(frames, np.int64)
        keys = np.asarray(found[()]).reshape(-1)
        if len(keys) != frames:
            raise InputError(f"{self.path}: {len(keys)} values of image_key for {frames} frames")
        known = np.isin(keys, (PROJECTION, WHITE, DARK, INVALID))
        if not known.all():
            raise InputError(f"{self.path}: image_key {keys[~known][0]}; 0 (projection), 1, 2 or 3 is needed")
        if (bad := int((keys == INVALID).sum())) > 0:
            self.assumed.append(f"{self.path}: {bad} of {frames} frames are invalid by their image_key, and left out")
        return keys

    def _theta(self, count: int) -> Array:
        """The angles of the projections in radians; those of all frames or of the projections are in the file."""
        found, frames = self._first(("sample/rotation_angle", "data/rotation_angle")), len(self.data)
        if found is None:
            return self._equal_steps(count, f"no rotation_angle in /{self.entry}")
        with reading(self.path, f"angles in {self.angle_source}, with their units"):
            angles = np.asarray(found[()], np.float64).reshape(-1)
            units = found.attrs.get("units", "")
        if len(angles) not in (frames, count):
            raise InputError(
                f"{self.path}: {len(angles)} angles in rotation_angle for {frames} frames, {count} of them projections"
            )
        angles = angles[self.rows] if len(angles) == frames else angles
        if not np.isfinite(angles).all():
            raise InputError(f"{self.path}: rotation_angle of projections is not finite")
        return np.deg2rad(angles) if self._in_degrees(angles, units) else angles

    def _stored(self, first: int, last: int) -> tuple[Array, Array, Array]:
        with reading(self.path, f"slices {first} to {last - 1}, which cannot be read"):
            whole = np.asarray(self.data[:, first:last], np.float32)
        frames = []
        for name in ("white", "dark"):
            level = self.levels[name]
            if self.kind != "counts":
                frames.append(np.zeros((0, *whole.shape[1:]), np.float32))
            elif level is not None:
                frames.append(np.full((1, *whole.shape[1:]), level, np.float32))
            else:
                frames.append(whole[self.which[name]])
        return whole[self.rows], frames[0], frames[1]

    def close(self) -> None:
        self.file.close()
