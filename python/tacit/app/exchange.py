"""HDF5 files of Data Exchange."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from .._core import InputError
from .._files import reading, refuse_unwritten
from .._support import Array
from .scans import Frames, largest, missing_frames

__all__ = ["DataExchange", "opened"]


def opened(path: str) -> Any:
    try:
        import h5py
    except ImportError:
        raise ImportError("HDF5 files are read by h5py: pip install h5py") from None
    if not os.path.exists(path):
        raise FileNotFoundError(f"{path}: no such file")
    try:
        return h5py.File(path, "r")
    except OSError as error:
        raise InputError(f"{path}: not an HDF5 file ({error})") from None


class DataExchange(Frames):
    """HDF5 Data Exchange: /exchange/data (angles, slices, detectors), data_white, data_dark, theta; De Carlo et al.
    (2014), doi 10.1107/S160057751401604X. Options as of :class:`scans.Frames`.
    """

    source, angle_source = "/exchange/data", "/exchange/theta"

    def _open(self) -> int:
        self.file, path = opened(self.path), self.path
        self.data = self._dataset("data")
        if self.data is None:
            raise InputError(f"{path}: no dataset /exchange/data; an HDF5 Data Exchange or NXtomo file is needed")
        if self.data.ndim != 3 or 0 in self.data.shape:
            raise InputError(
                f"{path}: /exchange/data has shape {self.data.shape}; (angles, slices, detectors) is needed"
            )
        rows, self.slices, self.detectors = self.data.shape
        # What a slice takes, whose numbers become float32; slices are read in batches.
        refuse_unwritten(path, self.data, rows * self.detectors * (self.data.dtype.itemsize + 4))
        self.limit = largest(self.data.dtype)
        self.white = self._frames("data_white", self.levels["white"]) if self.kind == "counts" else None
        self.dark = self._frames("data_dark", self.levels["dark"]) if self.kind == "counts" else None
        return int(rows)

    def _theta(self, count: int) -> Array:
        found, path = self._dataset("theta"), self.path
        if found is None:
            return self._equal_steps(count, "no /exchange/theta")
        refuse_unwritten(path, found)
        with reading(path, "angles in /exchange/theta, with their units"):
            angles = np.asarray(found[()], np.float64).reshape(-1)
            units = found.attrs.get("units", "")
        if len(angles) != count:
            raise InputError(f"{path}: {len(angles)} angles in /exchange/theta for {count} projections")
        if not np.isfinite(angles).all():
            raise InputError(f"{path}: /exchange/theta has angles that are not finite")
        return np.deg2rad(angles) if self._in_degrees(angles, units) else angles

    def _dataset(self, name: str) -> Any:
        """The dataset /exchange/name, or None."""
        import h5py

        with reading(self.path, f"a dataset /exchange/{name}"):  # links may lead nowhere, or in a circle
            group = self.file.get("exchange")
            found = group.get(name) if isinstance(group, h5py.Group) else None
        if found is None:
            return None
        if not isinstance(found, h5py.Dataset) or found.dtype.kind not in "iuf":
            raise InputError(f"{self.path}: /exchange/{name} is no dataset of numbers")
        return found

    def _frames(self, name: str, level: Any) -> Any:
        """The frames /exchange/name, or `level` in their place."""
        if level is not None:
            return np.full((1, self.slices, self.detectors), level, np.float32)
        frames = self._dataset(name)
        if frames is None or len(frames) == 0:
            raise missing_frames(self.path, f"/exchange/{name}", name.removeprefix("data_"))
        if frames.ndim != 3 or frames.shape[1:] != self.data.shape[1:]:
            raise InputError(
                f"{self.path}: /exchange/{name} has shape {frames.shape} where"
                f" (frames, {self.slices}, {self.detectors}) is needed"
            )
        refuse_unwritten(self.path, frames)
        return frames

    def _stored(self, first: int, last: int) -> tuple[Array, Array, Array]:
        rows = slice(first, last)
        no_frames = np.zeros((0, last - first, self.detectors), np.float32)
        with reading(self.path, f"slices {first} to {last - 1}, which cannot be read"):
            data = np.asarray(self.data[:, rows], np.float32)
            white = no_frames if self.white is None else self.white[:, rows]
            dark = no_frames if self.dark is None else self.dark[:, rows]
        return data, white, dark

    def close(self) -> None:
        self.file.close()
