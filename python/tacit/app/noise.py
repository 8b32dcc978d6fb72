"""The noise of line integrals: from counts and their frames, or from sinograms alone."""

from __future__ import annotations

import numpy as np

from .._support import Array

__all__ = ["estimated", "norms", "of_counts"]

FEWEST = 2  # frames of which the differences are noise
FAR = 5.0  # standard deviations, of differences of frames that are no noise
ABSURD = 1e3  # times the beam
MOST = 4.0  # times the median: deviations in a norm
ACROSS = 5  # projections and bins over which counts are smoothed: weights by single counts would favour low ones


def of_counts(data: Array, white: Array, dark: Array) -> Array | None:
    """The standard deviations (angles, slices, bins) of the line integrals of counts, or None where frames do not tell.

    A detector that gives g for each photon counts I = g n of n photons, of variance v = g I + s^2 with the variance s^2
    of its reading. Then -log I has the variance v / I^2 + 3/2 (v / I^2)^2, to second order; the mean of m white frames
    W adds g / (m W). g and s are those of the differences of successive white and dark frames, in which a beam that
    changes slowly cancels; at least two white ones are needed. I, without the dark counts, is smoothed over 5 x 5
    values, and is at least g.
    """
    if len(white) < FEWEST:
        return None
    none = np.nan_to_num(dark.mean(0), posinf=0, neginf=0) if len(dark) else np.zeros(data.shape[1:], np.float32)
    read = _variance(dark) if len(dark) >= FEWEST else 0.0
    there = np.isfinite(white)
    level = np.where(there, white, 0).sum(0) / np.maximum(there.sum(0), 1) - none
    light = float(np.median(level))
    gain = (_variance(white) - read) / light if light > 0 else 0.0
    if not gain > 0:
        return None
    from scipy import ndimage

    # The running sums of the filter would lose their digits in a number that is no count.
    counts = np.nan_to_num(data - none, posinf=0, neginf=0).clip(-ABSURD * light, ABSURD * light)
    counts = ndimage.uniform_filter(counts, (ACROSS, 1, ACROSS), mode="nearest")
    counts = np.maximum(counts, np.float32(gain))
    share = (np.float32(gain) * counts + np.float32(read)) / np.square(counts)
    share += np.float32(1.5) * np.square(share)
    share += np.float32(gain / len(white)) / np.maximum(level, np.float32(gain))
    return np.asarray(np.sqrt(share), np.float32)


def _variance(frames: Array) -> float:
    """The variance of a value of frames (frames, ..), without outliers."""
    apart = np.diff(frames, axis=0) / 2**0.5
    apart = apart[np.isfinite(apart)]
    usual = float(np.median(np.abs(apart))) / 0.6745 if apart.size else 0.0
    near = apart[np.abs(apart) <= FAR * usual] if usual > 0 else apart
    return float(np.mean(np.square(near, dtype=np.float64))) if near.size else 0.0


def estimated(sinograms: Array) -> Array:
    """The standard deviation (k, 1, ..) of the noise of sinograms (k, angles, ..), by second differences along the
    angle, of which a smooth sinogram has little: an upper bound where the sample has edges. At least 1e-6 of the
    largest value, and positive.
    """
    second = np.abs(sinograms[:, :-2] - 2 * sinograms[:, 1:-1] + sinograms[:, 2:])
    k = len(sinograms)
    found = np.median(second.reshape(k, -1), axis=1) / (0.6745 * 6**0.5) if second.size else np.zeros(k)
    most = np.abs(sinograms).reshape(k, -1).max(1)
    return np.asarray(np.maximum(np.maximum(found, 1e-6 * most), 1e-30).reshape(k, *(1 for _ in sinograms.shape[1:])))


def norms(deviations: Array) -> Array:
    """The norms (k,) of deviations (k, angles, ..), in which none is above :data:`MOST` times the median: dead bins
    and opaque parts of a sample, where hardly anything is known, would add more than all the others, and iterations
    would end at once.
    """
    flat = deviations.reshape(len(deviations), -1)
    usual = np.median(flat, axis=1)[:, None]
    return np.asarray(np.sqrt(np.square(np.minimum(flat, MOST * usual), dtype=np.float64).sum(1)))
