"""How wide an image has to be: samples wider than the detector, and half acquisition."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._support import Array
from .axis import CUT, coverage
from .scans import Scan
from .stitching import stitch

__all__ = ["Field", "Stitched", "field_of"]

BESIDE = (
    0.5  # a sample that is cut off is taken to be wider than the detector by this, and by half of its mean at the ends
)


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
    by (1 + e) / 2, with e that share. Without pixels where the rest of the sample is, iterations put its mass into the
    image, most near the rim; how far it reaches is not in the data, so an offset remains.
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
        beside = max(0, math.ceil((seen * (1 + BESIDE + min(cut, 1) / 2) / pixel - kept[0]) / 2))
    if beside and pad is None:
        said.append(f"images are computed with {beside} pixels more on each side, for what lies beside the detector")
    return Field(kept, (kept[0] + 2 * beside, kept[1] + 2 * beside), half, wide, tuple(said))


class Stitched(Scan):
    """A scan in half acquisition, as one over half a turn."""

    def __init__(self, scan: Scan, centre: float) -> None:
        self.inner, self.given = scan, float(centre)
        self.path, self.slices = scan.path, scan.slices
        self.assumed, self.preparation, self.repairs = scan.assumed, scan.preparation, scan.repairs
        one, self.angles, self.centre = stitch(scan.peek(scan.usual), scan.angles, centre)
        self.detectors = one.shape[1]
        far = scan.sides[1] if centre < scan.detectors / 2 else scan.sides[0]
        self.sides = (far, far)

    def read(self, first: int, last: int) -> Array:
        return np.stack([stitch(s, self.inner.angles, self.given)[0] for s in self.inner.read(first, last)])

    def peek(self, at: int) -> Array:
        return stitch(self.inner.peek(at), self.inner.angles, self.given)[0]

    def close(self) -> None:
        self.inner.close()
