"""What a report shows of a scan: images, sinograms before and after repairs, residuals, images about other axes."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .. import comm as _comm
from .._support import Array
from . import tomography
from .field import Field
from .preparation import AS_GIVEN
from .scans import Scan

__all__ = ["STEPS", "Views", "trial_axes"]

STEPS = (-4.0, -2.0, -1.0, 0.0, 1.0, 2.0, 4.0)  #: bins from the axis found, of the trial axes


def trial_axes(sinogram: Any, angles: Any, centre: float, side: int, wide: bool = False) -> list[tuple[float, Array]]:
    """(axis, image) by filtered back-projection about axes up to 4 bins from `centre`: where the axis is wrong, edges
    are double, or open to one side. Local.
    """
    made = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # doubts about the angles have been stated
        for step in STEPS:
            how: dict[str, Any] = {"image": side, "centre": centre + step, "comm": _comm.self_()}
            made.append((centre + step, tomography.fbp(sinogram, angles, wide=wide, **how).images))
    return made


@dataclass
class Views:
    """Of the slice `at` and of some images; :meth:`look` is called before the scan is read, the others after it."""

    at: int
    wanted: tuple[int, ...]  #: slices whose images are kept
    images: dict[int, Array] = field(default_factory=dict)
    whole: Array | None = None  #: the image of `at` with the pixels beside it
    given: Array = field(default_factory=lambda: np.zeros((0, 0)))  #: the sinogram (angles, detectors) before repairs
    prepared: Array = field(default_factory=lambda: np.zeros((0, 0)))  #: and after them
    residual: Array | None = None  #: b - A x
    strip: list[tuple[float, Array]] = field(default_factory=list)

    def look(self, scan: Scan) -> None:
        """Reads the slice `at`, twice. Local."""
        self.prepared = scan.peek(self.at)
        inner = getattr(scan, "inner", scan)
        usual, inner.preparation = inner.preparation, AS_GIVEN
        try:
            self.given = scan.peek(self.at)
        finally:
            inner.preparation = usual

    def keep(self, first: int, images: Array) -> None:
        """Keeps those that are wanted of these slices."""
        self.images |= {at: np.array(images[at - first]) for at in self.wanted if first <= at < first + len(images)}

    def finish(self, scan: Scan, centre: float, field: Field, pixel: float) -> None:
        """Computes residual and trial axes. Local."""
        if self.whole is not None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                how: dict[str, Any] = {"image": field.made, "centre": centre, "pixel": pixel, "comm": _comm.self_()}
                P = tomography.projector(scan.angles, scan.detectors, **how)
            self.residual = self.prepared - P.project(self.whole)
        side = max(scan.detectors, field.kept[0] if field.half else 0)
        if np.isfinite(self.prepared).all():
            self.strip = trial_axes(self.prepared, scan.angles, centre, side, field.wide)
