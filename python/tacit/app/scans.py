"""Scans that are read batch by batch, so that they need not fit in memory: what all formats have in common."""

from __future__ import annotations

import contextlib
import os
import queue
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .._core import InputError
from .._support import Array, choose
from . import noise
from .axis import CUT, doubtful_angles, ends
from .preparation import AS_GIVEN, Preparation, doubts

#: What the numbers of a scan are: counts of the detector; their ratio to those without the sample; minus its logarithm.
DATA = ("counts", "transmission", "line-integrals")


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
    _usual: int | None = None

    @property
    def usual(self) -> int:
        """The slice of which questions about the scan are asked: the middle one, or another where that is black."""
        return self.slices // 2 if self._usual is None else self._usual

    def read(self, first: int, last: int) -> Array:
        raise NotImplementedError

    def measure(self, first: int, last: int) -> tuple[Array, Array | None]:
        """(what :meth:`read` returns, the standard deviations of its noise, or None where they are not known)."""
        return self.read(first, last), None

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
            self.sides = ends(self.peek(self.usual))
        except InputError:
            return  # raised again when it is reconstructed
        if max(self.sides) > CUT:
            self.assumed.append(
                f"{self.path}: the sample is wider than the detector, or the background is not 0 (slice"
                f" {self.usual}: mean line integrals at the ends of the detector are {self.sides[0]:.0%} and"
                f" {self.sides[1]:.0%} of the largest)"
            )

    def close(self) -> None:
        """Closes the files."""


class Frames(Scan):
    """A scan of projections with white and dark frames; how they are stored is the format's part: :meth:`_open`,
    :meth:`_theta` and :meth:`_stored`.

    Parameters
    ----------
    path : str
    data : str
        What the numbers are (DATA). Counts are converted to line integrals by white and dark frames; InputError where
        there are none.
    white, dark : float or str, optional
        Levels in place of these frames; for TIFF projections also files of frames.
    theta : str, optional
        A file of angles that replaces those of the scan: raw float32 in radians; .txt, .csv, .dat: degrees. Where there
        are neither, equal steps over half a turn are assumed, and `assumed` says so.
    preparation : Preparation, optional
        Default: all repairs for counts and transmissions, none for line integrals.
    """

    kind: str  #: one of DATA
    taken: Array
    limit: float | None = None  #: the largest number of the type of the counts
    source = "the projections"  #: what the messages call the projections, their angles and the frames
    angle_source = "the angles"
    frames_in_files = False  #: whether `white` and `dark` may be files
    _last: tuple[tuple[int, int], tuple[Array, Array, Array]] | None = None

    def __init__(
        self,
        path: str,
        *,
        data: str = "counts",
        white: float | str | None = None,
        dark: float | str | None = None,
        theta: str | None = None,
        preparation: Preparation | None = None,
    ) -> None:
        self.levels = {"white": white, "dark": dark}
        self.path, self.kind, self.assumed, self.repairs = path, choose("data", data, DATA), [], Counter()
        self._check_levels()
        count = self._open()
        if theta is None:
            self.angles = self._theta(count)
        else:
            self.angles = _angles_of(theta)
            if len(self.angles) != count:
                raise InputError(f"{theta}: {len(self.angles)} angles for the {count} projections of {path}")
        self.preparation = preparation or (AS_GIVEN if data == "line-integrals" else Preparation())
        self._look(path if theta is None else theta)

    def _open(self) -> int:
        """Opens the files, sets `slices`, `detectors` and `limit`, and returns the number of projections."""
        raise NotImplementedError

    def _theta(self, count: int) -> Array:
        """The angles of the files in radians, or :meth:`_equal_steps`."""
        raise NotImplementedError

    def _stored(self, first: int, last: int) -> tuple[Array, Array, Array]:
        """Projections, white and dark frames (.., slices, bins) of these slices, as they are."""
        raise NotImplementedError

    def _check_levels(self) -> None:
        """ValueError for levels of frames that do not fit what the numbers are."""
        given = {name: level for name, level in self.levels.items() if level is not None}
        if given and self.kind != "counts":
            raise ValueError(f'white and dark frames are of counts, and the data are "{self.kind}"')
        for name, level in given.items():
            if isinstance(level, str) and not self.frames_in_files:
                raise ValueError(
                    f'{name} is "{level}": frames in files are for TIFF projections; {self.path} takes a number'
                )
        white, dark = (None if isinstance(level, str) else level for level in self.levels.values())
        if white is not None and not white > (dark or 0):
            raise ValueError(f"white is {white:g} and dark is {dark or 0:g}: with the beam a detector counts more")

    def _equal_steps(self, count: int, why: str) -> Array:
        self.assumed.append(
            f"{self.path}: {why}: {count} angles evenly over half a turn are assumed, 0 to 180 degrees in steps of"
            f" {180 / count:.6g}, without the last; --theta FILE gives others"
        )
        return np.arange(count) * np.pi / count

    def _look(self, angle_file: str) -> None:
        """Leaves out what was not taken, and adds doubts to `assumed`."""
        self.taken = self._taken()
        self.angles = self.angles[self.taken]
        if self.kind == "counts":
            data, white, dark = self._raw(self.usual, self.usual + 1)
            self.assumed += [f"{self.path}: {text}" for text in doubts(data[self.taken], white, dark, self.limit)]
        elif self.kind == "transmission":
            data = self._raw(self.usual, self.usual + 1)[0][self.taken]
            usual = float(np.nanmedian(np.nanmax(data, axis=(1, 2))))
            if not 0 < usual < 2:
                self.assumed.append(
                    f"{self.path}: the largest transmission of a usual projection is {usual:.4g}: it is at most 1, but"
                    " for noise. Are these percent, counts or line integrals?"
                )
        self._doubt(angle_file)

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
        count, n = len(self.angles), self.slices
        # The row in the middle, and others where the sample or the detector leaves that one black.
        for row in dict.fromkeys((n // 2, n // 4, 3 * n // 4, 0, n - 1)):
            gone = self._gone(row)
            if not gone.all():
                self._usual = row
                break
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

    def _gone(self, row: int) -> Array:
        """Which projections have not been taken, by a row."""
        data, _, dark = self._raw(row, row + 1)
        data = data.reshape(len(self.angles), -1)
        least, most = np.fmin.reduce(data, 1), np.fmax.reduce(data, 1)
        alike = ~(least < most)
        if self.kind == "line-integrals":
            return np.asarray(~np.isfinite(most) | (alike & (most == 0) & ~alike.all()))
        low = float(dark.mean()) if dark.size else 0.0
        beam = data.mean(1, dtype=np.float64) - low
        seen = beam[~alike & np.isfinite(beam)]
        usual = float(np.median(seen)) if len(seen) else 0.0
        return np.asarray(~np.isfinite(most) | (alike & (most <= 0)) | ((usual > 0) & (beam < 0.002 * usual)))

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
        return self._prepared(first, last, False)[0]

    def measure(self, first: int, last: int) -> tuple[Array, Array | None]:
        return self._prepared(first, last, self.kind == "counts" and self.preparation.phase is None)

    def _prepared(self, first: int, last: int, noisy: bool) -> tuple[Array, Array | None]:
        """Sinograms of these slices, and if wanted and known the standard deviations of their noise."""
        prepared, edge = self.preparation, self.preparation.margin
        low, high = max(0, first - edge), min(self.slices, last + edge)
        data, white, dark = self._raw(low, high)
        data = data[self.taken]  # a copy
        tally, deviations = self.repairs, None
        if self.kind != "line-integrals":
            try:
                data, white, dark = prepared.counts(data, white, dark, self.angles, tally)
                if noisy:
                    deviations = noise.of_counts(data, white, dark)
                data = prepared.integrals(data, white, dark, tally)
            except ValueError as error:
                raise InputError(f"{self.path}: slices {first} to {last - 1}: {error}") from None
        else:
            data = prepared.given(data, tally)
        s = np.array(data[:, first - low : last - low].transpose(1, 0, 2), order="C")
        if deviations is not None:
            deviations = np.ascontiguousarray(deviations.transpose(1, 0, 2))
        return prepared.sinograms(s, tally), deviations


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


def ahead(read: Callable[[int, int], Any], ranges: list[tuple[int, int]]) -> Iterator[tuple[tuple[int, int], Any]]:
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
