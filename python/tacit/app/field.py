"""How wide an image has to be: samples wider than the detector, and half acquisition."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._support import Array, as_array, real_number
from .axis import CUT, coverage, opposite
from .scans import Scan

__all__ = ["Field", "Stitched", "field_of", "stitch"]

BESIDE = 0.2  # a sample that is cut off is taken to be wider than the detector by this, and by its mean at the ends
MOST = 2.2  # and at most so many times as wide


@dataclass(frozen=True)
class Field:
    """The images of a scan: computed on `made` pixels, of which the middle `kept` ones are given to the user."""

    kept: tuple[int, int]
    made: tuple[int, int]
    half: bool  #: half acquisition: the axis is near an end of the detector, which turns all around
    wide: bool  #: the sample is wider than what the detector sees
    said: tuple[str, ...] = ()

    def crop(self, images: Array) -> Array:
        """The kept part of images (.., rows, columns)."""
        at = [(m - k) // 2 for m, k in zip(self.made, self.kept, strict=True)]
        rows, columns = (slice(a, a + k) for a, k in zip(at, self.kept, strict=True))
        return np.ascontiguousarray(images[..., rows, columns])

    def spread(self, images: Array) -> Array:
        """Images of the kept size, surrounded by zeros."""
        beside = [((m - k) // 2, m - k - (m - k) // 2) for m, k in zip(self.made, self.kept, strict=True)]
        return np.pad(images, [(0, 0)] * (images.ndim - 2) + beside)


def field_of(scan: Scan, centre: float, image: Any, pixel: float, pad: int | None) -> Field:
    """The field of a scan with this axis.

    `image` is the size that the user wants, or None: as many pixels as bins, in half acquisition those that some
    projection sees. `pad` is the number of pixels that are computed on each side of it, or None: where the sample is
    cut off by 5 % of its largest mean line integral or more and no size is wanted, the image is wider than the detector
    by 0.2 + e, with e that share, at most by 1.2. Without pixels where the rest of the sample is, iterations put its
    mass into the image, most near the rim; how far it reaches is not in the data, so an offset remains.
    """
    n = scan.detectors
    far = 0 if n - centre < centre else 1  # the end that is far from the axis
    reach = max(centre, n - centre)
    turns = coverage(scan.angles) > math.radians(340)
    half = turns and abs(centre - n / 2) > n / 8 and scan.sides[1 - far] > CUT
    cut = scan.sides[far] if half else max(scan.sides)
    wide = cut > CUT
    said = []
    if image is not None:
        kept = (image, image) if isinstance(image, int) else tuple(image)
    else:
        side = max(n, math.ceil(2 * reach / pixel)) if half else n
        kept = (side, side)
        if half:
            said.append(
                f"half acquisition: images of {side} pixels, the axis {min(centre, n - centre):.4g} bins from an end"
            )
    beside = 0 if pad is None else pad
    if pad is None and wide and image is None:
        seen = 2 * reach if half else n
        beside = max(0, math.ceil((seen * min(1 + BESIDE + cut, MOST) / pixel - kept[0]) / 2))
    if beside:
        said.append(f"images are computed with {beside} pixels more on each side, for what lies beside the detector")
    return Field(kept, (kept[0] + 2 * beside, kept[1] + 2 * beside), half, wide, tuple(said))


def stitch(sinogram: Any, angles: Any, centre: float) -> tuple[Array, Array, float]:
    """Half acquisition as a scan over half a turn: the sinogram, its angles, and its axis. Local.

    Parameters
    ----------
    sinogram : array_like, (angles, detectors)
        Line integrals of a whole turn, the axis near an end of the detector.
    angles : array_like, (a,)
        In radians, in any order.
    centre : float
        Where the axis meets the detector, in bins from its left edge.

    Returns
    -------
    tuple
        (sinogram, angles, centre): each projection of the first half turn that has an opposite one, widened by that one
        mirrored about the axis, p(t + pi, -u) = p(t, u). Where both see, they are mixed, the weight of a projection
        falling to 0 at its end; values between bins, and between two projections, are interpolated linearly.
        ValueError where fewer than 8 projections have an opposite one.
    """
    s = as_array(sinogram, "sinogram").astype(np.float32)
    t = as_array(angles, "angles").astype(np.float64).reshape(-1)
    middle = real_number(centre, "centre")
    if s.ndim != 2 or len(t) != len(s):
        raise ValueError(f"{len(t)} angles for a sinogram of shape {s.shape}; (angles, detectors) is needed")
    n = s.shape[1]
    if not 0 < middle < n:
        raise ValueError(f"the axis at {middle:g} is not on the detector of {n} bins")
    pairs = opposite(t)
    if pairs is None:
        raise ValueError(
            f"fewer than 8 of {len(t)} projections have one from the opposite side: half a turn is no half acquisition"
        )
    rows, before, after, weight = pairs
    first = rows[t[rows] % (2 * np.pi) < np.pi - 1e-9]
    at = np.searchsorted(rows, first)
    other = (1 - weight[at, None]) * s[before[at]] + weight[at, None] * s[after[at]]
    near = min(middle, n - middle)
    left = middle < n / 2
    # The new bins continue those of the first half on the side of the axis.
    more = math.ceil(n - 2 * near) if left else math.floor(n - 2 * near)
    shift = more if left else 0
    width = n + math.ceil(n - 2 * near)
    u = np.arange(width) + 0.5 - (middle + shift)
    bins = np.arange(n) + 0.5

    def seen(values: Array, place: Array) -> tuple[Array, Array]:
        """Values of a half at these distances from the axis, and their weights."""
        share = np.clip((place + near) / (2 * near) if left else (near - place) / (2 * near), 0, 1)
        share = np.where(np.abs(place + middle - n / 2) <= n / 2, share, 0)
        return np.stack([np.interp(place + middle, bins, row) for row in values]), share

    one, a = seen(s[first], u)
    two, b = seen(other, -u)
    total = np.where(a + b > 0, a + b, 1)
    return np.asarray((a * one + b * two) / total, np.float32), t[first] % (2 * np.pi), middle + shift


class Stitched(Scan):
    """A scan in half acquisition, as one over half a turn."""

    def __init__(self, scan: Scan, centre: float) -> None:
        self.inner, self.given = scan, float(centre)
        self.path, self.slices = scan.path, scan.slices
        self.assumed, self.preparation, self.repairs = scan.assumed, scan.preparation, scan.repairs
        one, self.angles, self.centre = stitch(scan.peek(scan.slices // 2), scan.angles, centre)
        self.detectors = one.shape[1]
        far = scan.sides[1] if centre < scan.detectors / 2 else scan.sides[0]
        self.sides = (far, far)

    def read(self, first: int, last: int) -> Array:
        return np.stack([stitch(s, self.inner.angles, self.given)[0] for s in self.inner.read(first, last)])

    def close(self) -> None:
        self.inner.close()
