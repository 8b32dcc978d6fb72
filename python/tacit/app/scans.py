"""Files of tomography: reads scans and writes images batch by batch, so that neither has to fit in memory."""

from __future__ import annotations

import contextlib
import io
import os
import queue
import re
import struct
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from .. import report
from .._core import InputError
from .._files import reading, refuse_unwritten
from .._support import Array, choose
from .axis import CERTAIN, CUT, Axis, doubtful_angles, ends, find_centre
from .preparation import AS_GIVEN, Preparation, doubts

OUTPUTS = (".tif", ".tiff", ".h5", ".hdf5", ".npy", ".png")
#: What the numbers of a scan are: counts of the detector; their ratio to those without the sample; minus its logarithm.
DATA = ("counts", "transmission", "line-integrals")
APART = 1.5  # bins by which the axes of slices may differ


class Scan:
    """A scan, read by slices: ``read(first, last)`` returns sinograms (k, angles, detectors) as float32, prepared as
    `preparation` says.
    """

    angles: Array
    slices: int
    detectors: int
    path: str
    assumed: list[str]  #: assumptions about what the files do not state, and doubts about what they do, as sentences
    preparation: Preparation = AS_GIVEN
    sides: tuple[float, float] = (0.0, 0.0)  #: mean line integrals at the ends of the detector, relative to the largest
    repairs: Counter[str]  #: what has been repaired so far

    def read(self, first: int, last: int) -> Array:
        raise NotImplementedError

    def peek(self, at: int) -> Array:
        """The sinogram (angles, detectors) of a slice, whose repairs are not counted."""
        counted, self.repairs = self.repairs, Counter()
        try:
            return np.asarray(self.read(at, at + 1)[0])
        finally:
            self.repairs = counted

    def _doubt(self, source: str) -> None:
        """Adds doubts about the angles and the width of the sample to `assumed`."""
        said = doubtful_angles(self.angles)
        if said:
            self.assumed.append(f"{source}: {said}")
        try:
            self.sides = ends(self.peek(self.slices // 2))
        except InputError:
            return  # raised again when it is reconstructed
        if max(self.sides) > CUT:
            self.assumed.append(
                f"{self.path}: the sample is wider than the detector, or the background is not 0 (slice"
                f" {self.slices // 2}: mean line integrals at the ends of the detector are {self.sides[0]:.0%} and"
                f" {self.sides[1]:.0%} of the largest)"
            )

    def close(self) -> None:
        """Closes the files."""


class Frames(Scan):
    """A scan of projections with white and dark frames; how they are stored is the format's part, `_stored`."""

    kind: str  #: one of DATA
    taken: Array
    limit: float | None = None  #: the largest number of the type of the counts
    source = "the projections"  #: what the messages call the projections, their angles and the frames
    angle_source = "the angles"
    _last: tuple[tuple[int, int], tuple[Array, Array, Array]] | None = None

    def _stored(self, first: int, last: int) -> tuple[Array, Array, Array]:
        """Projections, white and dark frames (.., slices, bins) of these slices, as they are."""
        raise NotImplementedError

    def _begin(self, theta: str | None, preparation: Preparation | None) -> None:
        """Leaves out what was not taken, and adds doubts to `assumed`."""
        self.preparation = preparation or (AS_GIVEN if self.kind == "line-integrals" else Preparation())
        self.repairs = Counter()
        if theta is not None:
            rows = len(self.angles)
            self.angles = _angles_of(theta)
            if len(self.angles) != rows:
                raise InputError(f"{theta}: {len(self.angles)} angles for the {rows} projections of {self.path}")
        self.taken = self._taken()
        self.angles = self.angles[self.taken]
        if self.kind == "counts":
            data, white, dark = self._raw(self.slices // 2, self.slices // 2 + 1)
            self.assumed += [f"{self.path}: {text}" for text in doubts(data[self.taken], white, dark, self.limit)]
        elif self.kind == "transmission":
            data = self._raw(self.slices // 2, self.slices // 2 + 1)[0][self.taken]
            usual = float(np.nanmedian(np.nanmax(data, axis=(1, 2))))
            if not 0 < usual < 2:
                self.assumed.append(
                    f"{self.path}: the largest transmission of a usual projection is {usual:.4g}: it is at most 1, but"
                    " for noise. Are these percent, counts or line integrals?"
                )
        self._doubt(self.path if theta is None else theta)

    def _in_degrees(self, angles: Array, units: Any) -> bool:
        """Whether angles are in degrees, by the attribute `units`: a text or an array of one, in capitals, brackets, ..
        Degrees by the standard; without units, angles of at most 2 pi are taken as radians.
        """
        for _ in range(2):
            if isinstance(units, np.ndarray | list | tuple):
                units = (
                    units.flat[0] if isinstance(units, np.ndarray) and units.size else units[0] if len(units) else ""
                )
        text = units.decode("utf-8", "replace") if isinstance(units, bytes) else str(units)
        word = re.sub(r"[^a-z\u00b0]", "", text.lower())
        widest = float(np.abs(angles).max(initial=0))
        small = widest <= 2 * np.pi
        if word in ("r", "rad", "rads", "radian", "radians"):
            return False
        if word not in ("", "d", "\u00b0", "deg", "degs", "degree", "degrees"):
            kind = "radians, as they are at most 2 pi" if small else "degrees"
            self.assumed.append(
                f'{self.path}: units "{text.strip()}" of {self.angle_source} are unknown: {kind} are assumed'
            )
            return not small
        if word and small and len(angles) > 2:
            self.assumed.append(
                f'{self.path}: {self.angle_source} ends at {widest:.4g} "{text.strip()}": if these are radians, correct'
                " its units"
            )
        return bool(word) or not small

    def _taken(self) -> Array:
        """The numbers of the projections that have been taken. Others have one value everywhere (a file of a virtual
        dataset is missing, a scan was aborted), are NaN, or have hardly any beam (a shutter, a dropped frame).
        """
        count = len(self.angles)
        middle = self.slices // 2
        data, _, dark = self._raw(middle, middle + 1)
        data = data.reshape(count, -1)
        least, most = np.fmin.reduce(data, 1), np.fmax.reduce(data, 1)
        alike = ~(least < most)
        if self.kind == "line-integrals":
            gone = ~np.isfinite(most) | (alike & (most == 0) & ~alike.all())
        else:
            low = float(dark.mean()) if dark.size else 0.0
            beam = data.mean(1, dtype=np.float64) - low
            seen = beam[~alike & np.isfinite(beam)]
            usual = float(np.median(seen)) if len(seen) else 0.0
            gone = ~np.isfinite(most) | (alike & (most <= 0)) | ((usual > 0) & (beam < 0.002 * usual))
        taken = np.flatnonzero(~gone)
        if len(taken) == 0:
            raise InputError(
                f"{self.path}: none of the {count} projections in {self.source} has been taken: all are empty"
            )
        if gone.any():
            self.assumed.append(
                f"{self.path}: {int(gone.sum())} of {count} projections are empty or without beam"
                f" ({_ranges(np.flatnonzero(gone))}, from 0): they are left out"
            )
        return taken

    def _raw(self, first: int, last: int) -> tuple[Array, Array, Array]:
        """:meth:`_stored`, the numbers as float32. One slice is kept, since several questions are asked of the middle
        one, and a slice can cost as much as the whole file.
        """
        if self._last is not None and self._last[0] == (first, last):
            return self._last[1]
        data, white, dark = (np.asarray(part, np.float32) for part in self._stored(first, last))
        if last - first == 1:
            self._last = (first, last), (data, white, dark)
        return data, white, dark

    def read(self, first: int, last: int) -> Array:
        prepared, edge = self.preparation, self.preparation.margin
        low, high = max(0, first - edge), min(self.slices, last + edge)
        data, white, dark = self._raw(low, high)
        data = data[self.taken]  # a copy
        tally = self.repairs
        if self.kind != "line-integrals":
            try:
                data, white, dark = prepared.counts(data, white, dark, self.angles, tally)
                data = prepared.integrals(data, white, dark, tally)
            except ValueError as error:
                raise InputError(f"{self.path}: slices {first} to {last - 1}: {error}") from None
        else:
            data = prepared.given(data, tally)
        s = np.array(data[:, first - low : last - low].transpose(1, 0, 2), order="C")
        return prepared.sinograms(s, tally)


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
    (2014), doi 10.1107/S160057751401604X.

    `data` says what the numbers are (DATA). Counts are converted to line integrals by white and dark frames, or by the
    levels `white` and `dark` in their place; InputError where there is neither. `theta` is a file of float32 in radians
    that replaces /exchange/theta; where there is neither, equal steps over half a turn are assumed, and `assumed` says
    so. `preparation`: its default is all repairs for counts and transmission, and none for line integrals.
    """

    source, angle_source = "/exchange/data", "/exchange/theta"

    def __init__(
        self,
        path: str,
        *,
        data: str = "counts",
        white: float | None = None,
        dark: float | None = None,
        theta: str | None = None,
        preparation: Preparation | None = None,
    ) -> None:
        check_levels(data, white, dark)
        self.file = opened(path)
        self.path, self.kind, self.assumed = path, data, []
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
        self.white = self._frames("data_white", white) if data == "counts" else None
        self.dark = self._frames("data_dark", dark) if data == "counts" else None
        self.angles = self._theta(rows) if theta is None else np.zeros(rows)
        self._begin(theta, preparation)

    def _theta(self, rows: int) -> Array:
        """The angles of the file, or those that are assumed, in radians."""
        found, path = self._dataset("theta"), self.path
        if found is None:
            self.assumed.append(
                f"{path}: no /exchange/theta: {rows} angles evenly over half a turn are assumed, 0 to 180 degrees in"
                f" steps of {180 / rows:.6g}, without the last; --theta FILE gives others"
            )
            return np.arange(rows) * np.pi / rows
        refuse_unwritten(path, found)
        with reading(path, "angles in /exchange/theta, with their units"):
            angles = np.asarray(found[()], np.float64).reshape(-1)
            units = found.attrs.get("units", "")
        if len(angles) != rows:
            raise InputError(f"{path}: {len(angles)} angles in /exchange/theta for {rows} projections")
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

    def _frames(self, name: str, level: float | None) -> Any:
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


def check_levels(data: str, white: float | None, dark: float | None) -> None:
    """ValueError for levels of frames that do not fit what the numbers are."""
    choose("data", data, DATA)
    if data != "counts" and not (white is None and dark is None):
        raise ValueError(f'levels of white and dark frames are of counts, and the data are "{data}"')
    if white is not None and not white > (dark or 0):
        raise ValueError(f"white is {white:g} and dark is {dark or 0:g}: with the beam a detector counts more")


def largest(dtype: Any) -> float | None:
    """The largest number of a type of whole numbers."""
    return float(np.iinfo(dtype).max) if dtype.kind in "iu" else None


def missing_frames(path: str, where: str, short: str) -> InputError:
    """The error for counts without white or dark frames."""
    return InputError(
        f"{path}: no {where}: counts become line integrals by white and dark frames. --{short} LEVEL gives what the"
        f" detector counts without the {'sample' if short == 'white' else 'beam'}; --data transmission or"
        " line-integrals says that these are no counts"
    )


def _ranges(numbers: Array) -> str:
    """Numbers in ascending order as text: "3, 7 to 9"."""
    runs = np.split(numbers, np.flatnonzero(np.diff(numbers) > 1) + 1)
    texts = [f"{r[0]}" if len(r) == 1 else f"{r[0]} to {r[-1]}" for r in runs]
    return ", ".join(texts[:8]) + (", .." if len(texts) > 8 else "")


def _angles_of(path: str) -> Array:
    """Angles in radians, of a raw file of little-endian float32 in radians, or of a text file (.txt, .csv, .dat) in
    degrees.
    """
    if not os.path.exists(path):
        raise FileNotFoundError(f"{path}: no such file")
    if path.lower().endswith((".txt", ".csv", ".dat")):
        try:
            with open(path, encoding="utf-8") as file:
                words = re.split(r"[\s,;]+", re.sub(r"#.*", "", file.read()).strip())
            angles: Array = np.deg2rad(np.array([float(word) for word in words if word], np.float64))
        except ValueError as error:
            raise InputError(f"{path}: a number of degrees on each line is needed ({error})") from None
    else:
        angles = np.fromfile(path, "<f4").astype(np.float64)
    if not np.isfinite(angles).all():
        raise InputError(f"{path}: angles that are not finite")
    return angles


class Raw(Scan):
    """Pairs of raw little-endian float32 files: sinogram [slice][angle][detector], line integrals; theta in radians."""

    def __init__(
        self, sinogram: str, theta: str, shape: tuple[int, int], *, preparation: Preparation | None = None
    ) -> None:
        if not os.path.exists(sinogram):
            raise FileNotFoundError(f"{sinogram}: no such file")
        self.path = sinogram
        rows, self.detectors = shape
        self.assumed, self.repairs = [], Counter()
        self.preparation = preparation or AS_GIVEN
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
        self._doubt(theta)

    def read(self, first: int, last: int) -> Array:
        s = self.preparation.given(np.array(self.data[first:last], np.float32), self.repairs)
        return self.preparation.sinograms(s, self.repairs)


def centre_of(scan: Scan, given: str | None) -> float | Axis:
    """The rotation axis: a number, "auto" (from some slices), or nothing (the middle of the detector). ValueError
    for an axis that is not on the detector.
    """
    if given is None:
        return scan.detectors / 2
    if given != "auto":
        centre = float(given)
        if not 0 <= centre <= scan.detectors:
            raise ValueError(
                f"the rotation axis at {centre:g} lies beside the detector; 0 to {scan.detectors} bins are possible"
            )
        return centre
    return _found(scan)


def _found(scan: Scan) -> Axis:
    """The axis by three slices, or by others where none of these has one that is certain: their mean, each weighted by
    its error, with the error of the mean or half of what they differ by. InputError where there is none, and where
    slices differ by more than 1.5 bins.
    """
    n = scan.slices
    usual, others = (n // 2, n // 4, 3 * n // 4), (n // 8, 7 * n // 8)
    failed: dict[int, str] = {}
    found: dict[int, Axis] = {}
    for at in dict.fromkeys((*usual, *others)):
        if at not in usual and found:
            break
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", UserWarning)
                found[at] = find_centre(scan.peek(at), scan.angles)
        except (ValueError, UserWarning) as error:
            failed[at] = str(error)
    if not found:
        raise InputError(f"{scan.path}: slice {n // 2}: {failed[n // 2]}; --centre BINS gives the axis")
    if n // 2 in failed:
        named = " and ".join(map(str, sorted(found)))
        slices = "slice" if len(found) == 1 else "slices"
        scan.assumed.append(f"{scan.path}: slice {n // 2}: {failed[n // 2]}; the axis is that of {slices} {named}")
    return _mean_axis(scan, found)


def _mean_axis(scan: Scan, found: dict[int, Axis]) -> Axis:
    """The mean of the axes of these slices."""
    if len(found) == 1:
        return next(iter(found.values()))
    weights = np.array([1 / axis.uncertainty**2 for axis in found.values()])
    places = np.array([float(axis) for axis in found.values()])
    apart = float(np.ptp(places))
    listed = ", ".join(
        f"{float(axis):.2f} +- {axis.uncertainty:.2g} (slice {at})" for at, axis in sorted(found.items())
    )
    if apart > APART:
        raise InputError(
            f"{scan.path}: slices disagree about the axis: {listed}. Is the detector tilted, or one of them wrong?"
            " --slices FIRST:END with --centre BINS reconstructs some with an axis of their own"
        )
    middle = float((weights * places).sum() / weights.sum())
    error = float(weights.sum() ** -0.5)
    if apart > 3 * max(axis.uncertainty for axis in found.values()) and apart > CERTAIN:
        error = max(error, apart / 2)
        scan.assumed.append(f"{scan.path}: the axis moves over the slices: {listed}; images are about their mean")
    return Axis(middle, error, found[min(found)].method)


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
    """Writes images to a file, slices in any order; to a .png only the middle slice of the stack. The space for all of
    them is taken at once, so that a disk that is too small is found before the first.
    """

    def __init__(self, path: str, slices: int, shape: tuple[int, int]) -> None:
        self.path, self.slices, self.shape = Path(path), slices, shape
        self.suffix = self.path.suffix.lower()
        if self.suffix not in OUTPUTS:
            raise ValueError(f"{path} must end in one of {', '.join(OUTPUTS)}")
        if self.suffix in (".h5", ".hdf5"):
            import h5py
        self.file = report.Replacement(self.path)
        self.written = self.suffix != ".png"
        self.hdf: Any = None
        self.stream: Any = None
        try:
            if self.suffix in (".h5", ".hdf5"):
                with self.file.naming():
                    self.hdf = h5py.File(self.file.path, "w")
                    creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
                    creation.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
                    creation.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
                    self.target = self.hdf.create_dataset("exchange/data", (slices, *shape), np.float32, dcpl=creation)
                    self.hdf.flush()
                self._reserve(os.path.getsize(self.file.path))
            elif self.suffix != ".png":
                begin = npy_header(slices, shape) if self.suffix == ".npy" else tiff_header(slices, shape)
                self.begin, self.step = len(begin[0]), begin[1]
                self._reserve(self.begin + slices * self.step)
                self.stream = open(self.file.path, "r+b", buffering=0)  # noqa: SIM115
                with self.file.naming():
                    _write(self.stream, begin[0])
        except BaseException:
            self.close(keep=False)
            raise

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
            elif self.hdf is not None:
                self.target[first : first + len(images)] = images
            else:
                for i, image in enumerate(np.ascontiguousarray(images, "<f4"), first):
                    self.stream.seek(self.begin + i * self.step)
                    if self.suffix != ".npy":
                        _write(self.stream, tiff_directory(i, self.slices, self.shape))
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


# A TIFF file here is its header, and for each image its directory and its rows as one strip; all places are known
# before the first image. Above 4 GiB it is a BigTIFF file, with 64-bit places.
_TAGS = 10


def _big(slices: int, shape: tuple[int, int]) -> bool:
    return 8 + slices * (2 + 12 * _TAGS + 4 + 2 + 4 * shape[0] * shape[1]) >= 2**32


def tiff_header(slices: int, shape: tuple[int, int]) -> tuple[bytes, int]:
    """(what a TIFF file of float32 images begins with, bytes of an image with its directory)."""
    begin = struct.pack("<2sHHHQ", b"II", 43, 8, 0, 16) if _big(slices, shape) else struct.pack("<2sHI", b"II", 42, 8)
    return begin, len(tiff_directory(0, slices, shape)) + 4 * shape[0] * shape[1]


def tiff_directory(i: int, slices: int, shape: tuple[int, int]) -> bytes:
    """The directory of image i, in front of it."""
    big = _big(slices, shape)
    rows, columns = shape
    # Directories begin at even places.
    count, entry, place, length = ("<Q", "<HHQQ", "<Q", 8 + 20 * _TAGS + 8) if big else ("<H", "<HHII", "<I", 128)
    here = (16 if big else 8) + i * (length + 4 * rows * columns)
    wide = 16 if big else 4  # the type of a place
    short, word = 3, 4
    tags = [
        (256, word, columns),
        (257, word, rows),
        (258, short, 32),  # bits
        (259, short, 1),  # not compressed
        (262, short, 1),  # 0 is black
        (273, wide, here + length),
        (277, short, 1),  # values of a pixel
        (278, word, rows),  # in a strip
        (279, wide, 4 * rows * columns),
        (339, short, 3),  # floating point
    ]
    text = struct.pack(count, _TAGS) + b"".join(struct.pack(entry, tag, kind, 1, value) for tag, kind, value in tags)
    text += struct.pack(place, here + length + 4 * rows * columns if i + 1 < slices else 0)
    return text.ljust(length, b"\0")


def picture(image: Array, path: str | Path) -> None:
    """Writes a grey-scale .png with black and white at the 0.5 and 99.5 percentiles of the values."""
    from PIL import Image

    values = np.asarray(image, np.float64)
    low, high = np.percentile(values, (0.5, 99.5))
    grey = np.clip((values - low) / max(high - low, 1e-300), 0, 1)
    Image.fromarray(np.round(255 * grey).astype(np.uint8)).save(path, format="PNG")
