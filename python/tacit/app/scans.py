"""Files of tomography: reads scans and writes images batch by batch, so that neither has to fit in memory."""

from __future__ import annotations

import contextlib
import os
import queue
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from .. import report
from .._core import InputError
from .._support import Array, choose
from .tomography import find_centre, normalise

OUTPUTS = (".tif", ".tiff", ".h5", ".hdf5", ".npy", ".png")
#: What the numbers of a scan are: counts of the detector; their ratio to those without the sample; minus its logarithm.
DATA = ("counts", "transmission", "line-integrals")


class Scan:
    """A scan, read by slices: ``read(first, last)`` returns sinograms (k, angles, detectors) as float32."""

    angles: Array
    slices: int
    detectors: int
    path: str
    assumed: list[str]  #: assumptions about what the files do not state, as sentences

    def read(self, first: int, last: int) -> Array:
        raise NotImplementedError

    def close(self) -> None:
        """Closes the files."""


class DataExchange(Scan):
    """HDF5 Data Exchange: /exchange/data (angles, slices, detectors), data_white, data_dark, theta; De Carlo et al.
    (2014), doi 10.1107/S160057751401604X.

    `data` says what the numbers are (DATA). Counts are converted to line integrals by white and dark frames, or by the
    levels `white` and `dark` in their place; InputError where there is neither. `theta` is a file of float32 in radians
    that replaces /exchange/theta; where there is neither, equal steps over half a turn are assumed, and `assumed` says
    so.
    """

    def __init__(
        self,
        path: str,
        *,
        data: str = "counts",
        white: float | None = None,
        dark: float | None = None,
        theta: str | None = None,
    ) -> None:
        choose("data", data, DATA)
        if data != "counts" and not (white is None and dark is None):
            raise ValueError(f'levels of white and dark frames are of counts, and the data are "{data}"')
        if white is not None and not white > (dark or 0):
            raise ValueError(f"white is {white:g} and dark is {dark or 0:g}: with the beam a detector counts more")
        try:
            import h5py
        except ImportError:
            raise ImportError("HDF5 files are read by h5py: pip install h5py") from None
        if not os.path.exists(path):
            raise FileNotFoundError(f"{path}: no such file")
        try:
            self.file = h5py.File(path, "r")
        except OSError as error:
            raise InputError(f"{path}: not an HDF5 file ({error})") from None
        self.path, self.kind = path, data
        self.data = self._dataset("data")
        if self.data is None:
            raise InputError(f"{path}: no dataset /exchange/data; an HDF5 Data Exchange file is needed")
        if self.data.ndim != 3 or 0 in self.data.shape:
            raise InputError(
                f"{path}: /exchange/data has shape {self.data.shape}; (angles, slices, detectors) is needed"
            )
        rows, self.slices, self.detectors = self.data.shape
        self.white = self._frames("data_white", white) if data == "counts" else None
        self.dark = self._frames("data_dark", dark) if data == "counts" else None
        self.assumed = []
        found = self._dataset("theta") if theta is None else None
        if theta is not None:
            self.angles = _angles_of(theta)
            if len(self.angles) != rows:
                raise InputError(f"{theta}: {len(self.angles)} angles for the {rows} projections of {path}")
        elif found is None:
            self.angles = np.arange(rows) * np.pi / rows
            self.assumed.append(
                f"{path}: no /exchange/theta: {rows} angles evenly over half a turn are assumed, 0 to 180 degrees in"
                f" steps of {180 / rows:.6g}, without the last; --theta FILE gives others"
            )
        else:
            self.angles = np.asarray(found[()], np.float64).reshape(-1)
            if len(self.angles) != rows:
                raise InputError(f"{path}: {len(self.angles)} angles in /exchange/theta for {rows} projections")
            if not np.isfinite(self.angles).all():
                raise InputError(f"{path}: /exchange/theta has angles that are not finite")
            unit = found.attrs.get("units", b"")
            unit = unit.decode() if isinstance(unit, bytes) else str(unit)
            # Degrees by the standard; without units, angles of at most 2 pi are taken as radians.
            if not (unit.startswith("rad") or (not unit and np.abs(self.angles).max() <= 2 * np.pi)):
                self.angles = np.deg2rad(self.angles)

    def _dataset(self, name: str) -> Any:
        """The dataset /exchange/name, or None."""
        import h5py

        group = self.file.get("exchange")
        found = group.get(name) if isinstance(group, h5py.Group) else None
        if found is None:
            return None
        if not isinstance(found, h5py.Dataset) or found.dtype.kind not in "iuf":
            raise InputError(f"{self.path}: /exchange/{name} is no dataset of numbers")
        return found

    def _frames(self, name: str, level: float | None) -> Any:
        """The frames /exchange/name, or `level` in their place."""
        if level is not None:
            return np.full((1, self.slices, self.detectors), level, np.float32)
        frames = self._dataset(name)
        if frames is None or len(frames) == 0:
            short = name.removeprefix("data_")
            raise InputError(
                f"{self.path}: no /exchange/{name}: counts become line integrals by white and dark frames. --{short}"
                f" LEVEL gives what the detector counts without the {'sample' if short == 'white' else 'beam'};"
                " --data transmission or line-integrals says that these are no counts"
            )
        if frames.ndim != 3 or frames.shape[1:] != self.data.shape[1:]:
            raise InputError(
                f"{self.path}: /exchange/{name} has shape {frames.shape} where"
                f" (frames, {self.slices}, {self.detectors}) is needed"
            )
        return frames

    def read(self, first: int, last: int) -> Array:
        rows = slice(first, last)
        no_frames = np.zeros((0, last - first, self.detectors), np.float32)
        try:
            data = np.asarray(self.data[:, rows], np.float32)
            white = no_frames if self.white is None else self.white[:, rows]
            dark = no_frames if self.dark is None else self.dark[:, rows]
        except OSError as error:
            raise InputError(f"{self.path}: slices {first} to {last - 1} cannot be read ({error})") from None
        if self.kind != "line-integrals":
            try:
                data = normalise(data, white, dark)
            except ValueError as error:
                raise InputError(f"{self.path}: slices {first} to {last - 1}: {error}") from None
        return np.ascontiguousarray(data.transpose(1, 0, 2))

    def close(self) -> None:
        self.file.close()


def _angles_of(path: str) -> Array:
    """Angles of a raw file of little-endian float32, in radians."""
    if not os.path.exists(path):
        raise FileNotFoundError(f"{path}: no such file")
    angles = np.fromfile(path, "<f4").astype(np.float64)
    if not np.isfinite(angles).all():
        raise InputError(f"{path}: angles that are not finite")
    return angles


class Raw(Scan):
    """Pairs of raw little-endian float32 files: sinogram [slice][angle][detector], theta in radians."""

    def __init__(self, sinogram: str, theta: str, shape: tuple[int, int]) -> None:
        if not os.path.exists(sinogram):
            raise FileNotFoundError(f"{sinogram}: no such file")
        self.path = sinogram
        rows, self.detectors = shape
        self.assumed = []
        self.angles = _angles_of(theta)
        if len(self.angles) != rows:
            raise InputError(f"{theta}: {len(self.angles)} angles where --shape says {rows}")
        size, one = os.path.getsize(sinogram), 4 * rows * self.detectors
        if size == 0 or size % one:
            raise InputError(
                f"{sinogram}: {size} bytes are no whole number of sinograms of {rows} x {self.detectors} float32"
            )
        self.slices = size // one
        self.data = np.memmap(sinogram, "<f4", "r", shape=(self.slices, rows, self.detectors))

    def read(self, first: int, last: int) -> Array:
        return np.array(self.data[first:last], np.float32)


def centre_of(scan: Scan, wish: str | None) -> float:
    """The rotation axis: a number, "auto" (from the middle slice), or nothing (the middle of the detector). ValueError
    for an axis that is not on the detector.
    """
    if wish is None:
        return scan.detectors / 2
    if wish != "auto":
        centre = float(wish)
        if not 0 <= centre <= scan.detectors:
            raise ValueError(
                f"the rotation axis at {centre:g} lies beside the detector; 0 to {scan.detectors} bins are possible"
            )
        return centre
    middle = scan.slices // 2
    try:
        return find_centre(scan.read(middle, middle + 1)[0], scan.angles)
    except ValueError as error:
        raise InputError(f"{scan.path}: slice {middle}: {error}") from None


def ahead(read: Callable[[int, int], Array], ranges: list[tuple[int, int]]) -> Iterator[tuple[tuple[int, int], Array]]:
    """Yields each range with what `read` returns for it. The next batch is read while the caller works on the last, so
    that two are in memory.
    """
    box: queue.Queue[Any] = queue.Queue(maxsize=1)
    ended = threading.Event()

    def work() -> None:
        for item in ranges:
            if ended.is_set():
                return
            try:
                found: Any = (item, read(*item))
            except BaseException as error:  # raised again in the caller's thread
                found = error
            while not ended.is_set():
                with contextlib.suppress(queue.Full):
                    box.put(found, timeout=0.1)
                    break
            if isinstance(found, BaseException):
                return

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        for _ in ranges:
            found = box.get()
            if isinstance(found, BaseException):
                raise found
            yield found
    finally:
        ended.set()
        thread.join()


class Writer:
    """Writes images to a file, slices in any order; to a .png only the middle slice of the stack."""

    def __init__(self, path: str, slices: int, shape: tuple[int, int]) -> None:
        self.path, self.slices, self.shape = Path(path), slices, shape
        self.suffix = self.path.suffix.lower()
        if self.suffix not in OUTPUTS:
            raise ValueError(f"{path} must end in one of {', '.join(OUTPUTS)}")
        if self.suffix in (".h5", ".hdf5"):
            import h5py
        self.file = report.Replacement(self.path)
        self.written = self.suffix != ".png"
        self.target: Any = None
        self.waiting: dict[int, Array] = {}
        self.next = 0
        if self.suffix == ".npy":
            self.target = np.lib.format.open_memmap(self.file.path, "w+", np.float32, (slices, *shape))
        elif self.suffix in (".h5", ".hdf5"):
            self.hdf = h5py.File(self.file.path, "w")
            self.target = self.hdf.create_dataset("exchange/data", (slices, *shape), np.float32)
        elif self.suffix in (".tif", ".tiff"):
            from PIL import TiffImagePlugin

            self.target = TiffImagePlugin.AppendingTiffWriter(str(self.file.path), True)

    def write(self, first: int, images: Array) -> None:
        if self.suffix == ".png":
            at = self.slices // 2 - first
            if 0 <= at < len(images):
                picture(images[at], self.file.path)
                self.written = True
        elif self.suffix in (".tif", ".tiff"):
            from PIL import Image

            self.waiting[first] = np.array(images, np.float32)
            while self.next in self.waiting:
                block = self.waiting.pop(self.next)
                for one in block:
                    Image.fromarray(one, mode="F").save(self.target, format="TIFF")
                    self.target.newFrame()
                self.next += len(block)
        else:
            self.target[first : first + len(images)] = images

    def close(self, keep: bool = True) -> None:
        if self.suffix == ".npy":
            self.target.flush()
            del self.target
        elif self.suffix in (".h5", ".hdf5"):
            self.hdf.close()
        elif self.suffix in (".tif", ".tiff"):
            self.target.close()
        if keep and self.written:
            self.file.keep()
        self.file.drop()


def picture(image: Array, path: str | Path) -> None:
    """Writes a grey-scale .png with black and white at the 0.5 and 99.5 percentiles of the values."""
    from PIL import Image

    values = np.asarray(image, np.float64)
    low, high = np.percentile(values, (0.5, 99.5))
    grey = np.clip((values - low) / max(high - low, 1e-300), 0, 1)
    Image.fromarray(np.round(255 * grey).astype(np.uint8)).save(path, format="PNG")
