"""Rings of an image are stripes of its sinogram: bins whose sensitivity differs from that of the white frames."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .._support import Array, choose

__all__ = ["RINGS", "offsets", "remove_rings"]

#: "offset" is below; the others are algotom's, of the same names as there.
RINGS = ("offset", "none", "sorting", "filtering", "wavelet", "all")
SYMMETRIC = 0.45  # correlation of the offsets with their mirror image from which they are taken for the sample's own,
CHANCE = 2.2  # unless few stripes are alike by chance: times the root of how many bins it is of
INDEPENDENT = 32  # angles so many to the turn are taken to be independent: neighbours see the same edges
FEWEST = 64  # bins


def remove_rings(sinogram: Any, method: str = "offset", width: int = 21) -> Array:
    """A sinogram without stripes. Local.

    Parameters
    ----------
    sinogram : array_like, (angles, detectors)
        Line integrals.
    method : str
        "offset" subtracts :func:`offsets`; "none" nothing. "sorting", "filtering", "wavelet" and "all" are
        ``remove_stripe_based_sorting``, ``.._filtering``, ``.._wavelet_fft`` and ``remove_all_stripe`` of algotom (Vo,
        Atwood and Drakopoulos 2018, doi 10.1364/OE.26.028396), for stripes that change with the angle; they change
        values without stripes more. ImportError where algotom is not installed.
    width : int
        Bins across which the sinogram is smoothed: stripes that are wider than half of it stay.
    """
    choose("rings", method, RINGS)
    s = np.asarray(sinogram, np.float32)
    if s.ndim != 2:
        raise ValueError(f"the sinogram has shape {s.shape}; (angles, detectors) is needed")
    if method == "none" or not np.isfinite(s).all():
        return s
    if method == "offset":
        return np.asarray(s - offsets(s, width), np.float32)
    with np.errstate(invalid="ignore", divide="ignore"):
        found = np.asarray(_algotom(method, width)(s), np.float32)
    return np.where(np.isfinite(found), found, s)  # "all" divides by the mean of bins, which is 0 in air without noise


def offsets(sinogram: Any, width: int = 21) -> Array:
    """What every bin (detectors,) adds to all of its line integrals, as far as its neighbours tell. Local.

    A wrong sensitivity g adds -log g to all values of a bin. With f the sinogram smoothed along the detector (running
    median, then a Gaussian), the offset is the median over the angles of p - f, shrunk where p - f varies with the
    angle by more than an offset would; with fewer than 64 bins, where stripes look like the sample, there is none. Of
    edges of the sample that median is small, as they move from bin to bin, except for those of circles about the axis.
    Such edges come in pairs that mirror each other about the axis, and defects of bins do not: where the offsets
    correlate with their mirror image about some bin, by more than chance, what both sides share is the sample's.
    Cost: O(angles detectors width).
    """
    from scipy import ndimage

    s = np.asarray(sinogram, np.float32)
    n = s.shape[1]
    if n < FEWEST:
        return np.zeros(n, np.float32)
    across = min(width, n // 8) | 1
    # Beyond its ends a sinogram goes on as steeply as within, or the slope of a cut-off sample would look like stripes.
    level = np.pad(s, ((0, 0), (across, across)), mode="reflect", reflect_type="odd")
    level = np.stack([ndimage.median_filter(row, across, mode="nearest") for row in level])  # faster than (1, across)
    level = ndimage.gaussian_filter1d(level, across / 6, axis=1, mode="nearest")[:, across:-across]
    above = s - level
    found = np.median(above, axis=0).astype(np.float64)
    spread = np.median(np.abs(above - found), axis=0) / 0.6745 / min(INDEPENDENT, len(s)) ** 0.5
    size = np.abs(found)
    found *= 1 - np.divide(spread, size, out=np.ones(n), where=size > spread) ** 2
    return np.asarray(found - _symmetric(found), np.float32)


def _symmetric(d: Array) -> Array:
    """The part of d that it has in common with its mirror image about the bin where that resembles it most."""
    n = len(d)
    sums = np.arange(n // 2, 2 * n - 1 - n // 2)  # bin i mirrors bin sum - i, and at least half of the bins have one
    products = np.convolve(d, d)[sums]
    for k in range(-2, 3):  # without those that are their own mirror image, or beside it
        even = np.flatnonzero((sums + k) % 2 == 0)
        i = (sums[even] + k) // 2
        inner = (i >= 0) & (i < n) & (i - k >= 0) & (i - k < n)
        products[even[inner]] -= d[i[inner]] * d[i[inner] - k]
    first, last = np.maximum(0, sums - n + 1), np.minimum(n - 1, sums) + 1
    energy = np.concatenate([[0.0], np.cumsum(d * d)])
    energy = energy[last] - energy[first]
    like = products / np.where(energy > 0, energy, np.inf)
    common = np.zeros(n)
    at = int(np.argmax(like))
    bins = np.arange(first[at], last[at])
    bins = bins[np.abs(2 * bins - sums[at]) > 2]
    mirror, here = sums[at] - bins, d[bins]
    each = here * d[mirror]
    pairs = float(each.sum() ** 2 / max((each**2).sum(), 1e-300))  # how many bins the likeness is of
    if not (like[at] > SYMMETRIC and like[at] * pairs**0.5 > CHANCE):
        return common
    # The axis is hardly ever in the middle or at the end of a bin: a bin beside the mirrored one will do.
    near = np.stack([d[np.clip(mirror + k, 0, n - 1)] for k in (-1, 0, 1)])
    common[bins] = np.where(here > 0, np.minimum(here, near.max(0).clip(0)), np.maximum(here, near.min(0).clip(max=0)))
    return common


def _algotom(method: str, width: int) -> Callable[[Array], Any]:
    try:
        from algotom.prep import removal
    except ImportError:
        raise ImportError(
            f'rings="{method}" is of algotom: pip install algotom (or "offset", which needs no package)'
        ) from None
    known: dict[str, Callable[[Array], Any]] = {
        "sorting": lambda s: removal.remove_stripe_based_sorting(s, size=width, dim=1),
        "filtering": lambda s: removal.remove_stripe_based_filtering(s, sigma=3, size=width, dim=1),
        "wavelet": lambda s: removal.remove_stripe_based_wavelet_fft(s, level=5, size=1),
        "all": lambda s: removal.remove_all_stripe(s, snr=3.0, la_size=max(51, 2 * width + 1), sm_size=width),
    }
    return known[method]
