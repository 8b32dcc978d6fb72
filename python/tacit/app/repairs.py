"""Single values of a scan that are wrong: zingers, gaps without counts, values that are no numbers."""

from __future__ import annotations

import numpy as np

from .._support import Array

__all__ = ["GAP", "fill", "flawed_frames", "replace_zingers"]

GAP = 3  # bins without counts in a row that are interpolated; a wider gap is an opaque part of the sample
BRIGHTER = 1.05  # a zinger has at least so many times the counts expected


def _noise(a: Array) -> float:
    """The standard deviation of white noise in a (angles, ..), by second differences along the angle."""
    second = np.abs(a[:-2] - 2 * a[1:-1] + a[2:])
    second = second[np.isfinite(second)]
    return float(np.median(second)) / (0.6745 * 6**0.5) if second.size else 0.0


def replace_zingers(data: Array, dark: Array, angles: Array, least: float) -> int:
    """Replaces zingers in place, and returns how many: values above those of the projections before and after (by
    angle), and above the median of the bins beside them. In 2 sqrt(counts), where the noise of counts is the same
    everywhere, both excesses are at least `least` standard deviations; counts are also a twentieth above those
    expected.

    data : (angles, slices, bins), counts; dark : (slices, bins); the new value is the mean of the two projections'.
    Cost: a few passes.
    """
    order = np.argsort(angles % (2 * np.pi), kind="stable")
    if len(order) < 3:
        return 0
    beside = np.stack([order[np.arange(-1, len(order) - 1)], order[np.r_[1 : len(order), 0]]])
    # The first and the last one have the next two on their side.
    beside[0, 0], beside[1, -1] = order[2], order[-3]
    signal = 2 * np.sqrt(np.maximum(data - dark, 0))
    noise = _noise(signal[order])
    found = 0
    for i, (a, b) in zip(order, beside.T, strict=True):
        expected = np.maximum(signal[a], signal[b])
        with np.errstate(invalid="ignore"):
            high = signal[i] - expected > least * noise
            high &= signal[i] > BRIGHTER**0.5 * expected
        where = np.argwhere(high)
        for row, bin_ in where:
            near = signal[i, row, max(0, bin_ - 4) : bin_ + 5]
            level = float(np.nanmedian(near))
            if signal[i, row, bin_] - level > least * noise and signal[i, row, bin_] > BRIGHTER**0.5 * level:
                data[i, row, bin_] = (data[a, row, bin_] + data[b, row, bin_]) / 2
                found += 1
    return found


def flawed_frames(frames: Array, least: float) -> tuple[Array, int]:
    """Frames (frames, slices, bins) whose zingers are the median of the frames, and their number. With fewer than three
    frames nothing can be compared.
    """
    if len(frames) < 3 or not least:
        return frames, 0
    frames = np.asarray(frames, np.float32)
    middle = np.median(frames, axis=0)
    apart = frames - middle
    noise = float(np.median(np.abs(apart))) / 0.6745 or 1.0
    wrong = (apart > least * noise) & (frames > BRIGHTER * middle)
    return np.where(wrong, middle, frames), int(wrong.sum())


def fill(p: Array, wrong: Array, widest: int | None = GAP) -> int:
    """Interpolates the wrong values of p (.., bins) linearly from those beside, in gaps of at most `widest` bins (None:
    of any); returns their number. Wider gaps are left as they are.
    """
    rows, full = p.reshape(-1, p.shape[-1]), wrong.reshape(-1, p.shape[-1])
    filled = 0
    bins = np.arange(rows.shape[1])
    for i in np.flatnonzero(full.any(1)):
        narrow = full[i].copy()
        if widest is not None:
            edges = np.diff(np.concatenate([[0], full[i].astype(np.int8), [0]]))
            for start, stop in zip(np.flatnonzero(edges > 0), np.flatnonzero(edges < 0), strict=True):
                narrow[start:stop] = stop - start <= widest
        known = ~full[i] & np.isfinite(rows[i])
        if known.any() and narrow.any():
            rows[i, narrow] = np.interp(bins[narrow], bins[known], rows[i, known])
            filled += int(narrow.sum())
    return filled
