"""Phase retrieval from one distance: line integrals of absorption from projections whose edges are enhanced."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._support import Array

__all__ = ["Paganin"]


@dataclass(frozen=True)
class Paganin:
    """The filter of Paganin et al. (2002), doi 10.1046/j.1365-2818.2002.01010.x, equation 12, for a sample of one
    material: the transmission at the sample is

        F^-1 [ F[I / I0] / (1 + d lambda delta / (4 pi beta) |k|^2) ],    k in radians per length,

    of which minus the logarithm is the line integral of the absorption. It blurs noise too, over the width
    sqrt(d lambda delta / (4 pi beta)).
    """

    pixel: float  #: side of a detector pixel, micrometres
    distance: float  #: from the sample to the detector, millimetres
    energy: float  #: of the photons, keV
    ratio: float  #: delta / beta of the material

    def __post_init__(self) -> None:
        for name in ("pixel", "distance", "energy", "ratio"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"phase retrieval: {name} is {value!r}; a positive number is needed")
        if self.width > 1000:
            raise ValueError(
                f"phase retrieval blurs over {self.width:.0f} pixels with {self}: pixel is in micrometres, distance in"
                " millimetres, energy in keV"
            )

    @property
    def width(self) -> float:
        """sqrt(d lambda delta / (4 pi beta)), in pixels."""
        wavelength = 1.239841984e-9 / self.energy  # metres
        return math.sqrt(self.distance * 1e-3 * wavelength * self.ratio / (4 * math.pi)) / (self.pixel * 1e-6)

    @property
    def margin(self) -> int:
        """Pixels beyond which the filter is below exp(-6): rows that are read beside the wanted ones."""
        return math.ceil(6 * self.width) + 1

    def __call__(self, transmission: Any) -> Array:
        """The filtered transmission, with its shape (angles, rows, bins). Beyond its edges it continues with its last
        values. Cost: an FFT in two dimensions of each projection and back.
        """
        from scipy import fft

        given = np.asarray(transmission, np.float32)
        edge, (rows, bins) = self.margin, given.shape[1:]
        shape = tuple(fft.next_fast_len(n + 2 * edge, real=True) for n in (rows, bins))
        k = [2 * np.pi * f(n) for f, n in zip((np.fft.fftfreq, np.fft.rfftfreq), shape, strict=True)]
        damping = (1 / (1 + self.width**2 * (k[0][:, None] ** 2 + k[1] ** 2))).astype(np.float32)
        pads = [(edge, shape[0] - rows - edge), (edge, shape[1] - bins - edge)]
        made = np.empty_like(given)
        for i, projection in enumerate(given):
            wide = np.pad(projection, pads, mode="edge")
            made[i] = fft.irfft2(fft.rfft2(wide) * damping, shape)[edge : edge + rows, edge : edge + bins]
        return made
