"""Scans of a fan or cone beam, from file to file: volumes of a cone beam, slices of a fan."""

from __future__ import annotations

import time
import warnings
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from . import tomography
from .field import Field
from .reconstruction import Grid, ScanReconstruction, shares_of_noise
from .scans import Scan

__all__ = ["Beam", "BeamReconstruction"]


class Beam(NamedTuple):
    """The geometry of a scanner, in any one unit of length."""

    source: float  #: its distance from the axis of rotation
    detector: float  #: likewise
    pitch: tuple[float, float]  #: height and width of a detector's pixel
    fan: bool = False  #: every row is a scan of its own, in its plane
    row: float | None = None  #: where the source's plane meets the detector, in rows from its first; None: the middle
    reverse: bool = False  #: the sample turns the other way


class _Projections(Scan):
    """A scan whose slices are the images of a volume, each of which needs all rows of the detector."""

    def __init__(self, scan: Scan, images: int) -> None:
        self.inner, self.rows, self.slices = scan, scan.slices, images
        self.path, self.angles, self.detectors = scan.path, scan.angles, scan.detectors
        self.assumed, self.preparation, self.repairs = scan.assumed, scan.preparation, scan.repairs

    def measure(self, first: int, last: int) -> tuple[Any, Any]:
        return self.inner.measure(0, self.rows)

    def close(self) -> None:
        self.inner.close()


class BeamReconstruction(ScanReconstruction):
    """As :class:`ScanReconstruction`, of a fan's slices, or of the volume of a cone beam, which is one batch: the whole
    scan and the volume are in memory.
    """

    def __init__(
        self,
        scan: Scan,
        grid: Grid,
        beam: Beam,
        slices: tuple[int, int | None] | None,
        centre: str | None,
        start: str | None,
    ) -> None:
        super().__init__(scan, grid, slices, centre, start)
        self.beam = beam

    def build(self, batch: int, *, pad: int | None = None, method: str = "cgls", **options: Any) -> None:
        """Makes the projector, with the options of :func:`tomography.cone_projector`; ``image`` and ``pixel`` as for a
        parallel beam, a pixel in shadows of a bin at the axis. Collective.
        """
        begin, beam, scan = time.perf_counter(), self.beam, self.scan
        image, pixel = options.pop("image", None), options.pop("pixel", 1.0)
        sides = (scan.detectors,) * 2 if image is None else (image,) * 2 if isinstance(image, int) else tuple(image)
        self.field = Field(sides, sides, False, False)
        self.outer, self.batch = None, batch
        options.pop("device", None)
        how: dict[str, Any] = {"source": beam.source, "detector": beam.detector, "comm": self.grid.comm, **options}
        shadow = pixel * beam.source / (beam.source + beam.detector)
        angles = -scan.angles if beam.reverse else scan.angles
        high, wide = beam.pitch
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # doubts about the angles are in scan.assumed
            if beam.fan:
                how |= {"bin": wide, "centre": self.axis, "image": sides, "pixel": shadow * wide}
                self.projector = tomography.fan_projector(angles, scan.detectors, **how)
            else:
                rows = scan.slices
                row = rows / 2 if beam.row is None else beam.row
                how |= {"pitch": beam.pitch, "centre": (row, self.axis), "volume": (rows, *sides)}
                how |= {"voxel": (shadow * high, shadow * wide, shadow * wide)}
                self.projector = tomography.cone_projector(angles, (rows, scan.detectors), **how)
                self.scan, self.count, self.batch = _Projections(scan, rows), rows, rows
        self.seconds["build"] = time.perf_counter() - begin
        if self.start is not None and self.start.shape != (self.count, *sides):
            raise ValueError(f"{self.start_file} has shape {self.start.shape} where {(self.count, *sides)} is needed")

    def _batch(
        self, slices: tuple[int, int], measured: tuple[Any, Any], options: dict[str, Any]
    ) -> tuple[int, Any, list[Any], Any, list[float]]:
        if self.beam.fan:
            return super()._batch(slices, measured, options)
        b, deviations = (None if part is None else np.ascontiguousarray(part.transpose(1, 0, 2)) for part in measured)
        how = {"projector": self.projector, "batch": 1, **options}
        if how["method"] == "fbp":
            result = tomography.fbp(b, projector=self.projector, **{n: how[n] for n in ("filter",) if n in how})
        else:
            how |= {"start": self.start, "deviations": deviations if self.noise else None}
            images = range(self.count)
            result = tomography.reconstruct(b, callback=lambda s: self._progress(0, replace(s, slices=images)), **how)
        self.interrupted = result.interrupted
        history = result.residual[:, 0], result.slice_iterations[0], result.end[0], result.final_residual[0]
        assert b is not None
        noise = [] if deviations is None else shares_of_noise(b[None], deviations[None])
        return 0, result.images, [history] * self.count, None, noise

    def facts(self) -> dict[str, Any]:
        beam = self.beam._asdict() | {"pitch": list(self.beam.pitch)}
        rows = [] if self.beam.fan else [self.count]
        return super().facts() | {"beam": beam, "detector_shape": [*rows, self.scan.detectors]}
