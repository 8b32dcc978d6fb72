"""Filtered back-projection: an image in one step, for a quick look."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .._support import Array, choose

__all__ = ["FILTERS", "extended", "filtered", "shares"]

#: Windows of the ramp, of the frequency relative to the largest.
FILTERS: dict[str, Callable[[Array], Array]] = {
    "shepp-logan": lambda f: np.sinc(f / 2),
    "ramp": np.ones_like,
    "cosine": lambda f: np.cos(np.pi / 2 * f),
    "hamming": lambda f: 0.54 + 0.46 * np.cos(np.pi * f),
    "hann": lambda f: 0.5 + 0.5 * np.cos(np.pi * f),
}


def shares(angles: Array) -> Array:
    """The share (a,) of pi radians that each projection stands for: half the gaps to its neighbours, directions taken
    modulo half a turn. A gap of more than four usual ones, of a scan over less, is not filled.
    """
    t = np.asarray(angles, np.float64) % np.pi
    order = np.argsort(t, kind="stable")
    gaps = np.diff(t[order], append=t[order[0]] + np.pi)
    usual = float(np.median(gaps[gaps > 1e-9])) if (gaps > 1e-9).any() else np.pi
    gaps = np.where(gaps > max(4 * usual, 1e-9), usual, gaps)
    made = np.empty(len(t))
    made[order] = (gaps + np.roll(gaps, 1)) / 2
    # Projections in the same direction share what is theirs.
    same = np.round(t / max(1e-6 * usual, 1e-12)).astype(np.int64)
    _, group = np.unique(same, return_inverse=True)
    mean = np.bincount(group, made) / np.bincount(group)
    return np.asarray(mean[group])


def extended(sinograms: Any, beside: int) -> Array:
    """Sinograms (.., bins) with so many bins more on each side, their last values falling to zero like a cosine."""
    s = np.asarray(sinograms, np.float32)
    s = np.pad(s, [(0, 0)] * (s.ndim - 1) + [(beside, beside)], mode="edge")
    fall = np.cos(np.pi / 2 * np.arange(beside, dtype=np.float32) / max(1, beside)) ** 2
    s[..., s.shape[-1] - beside :] *= fall
    s[..., :beside] *= fall[::-1]
    return s


def filtered(sinograms: Any, window: str = "shepp-logan", wide: bool = False) -> Array:
    """Sinograms (.., bins) times |frequency| and a window. Local.

    The ramp is that of bins of width 1: 1/4 at 0, -1 / (pi k)^2 at odd distances k, 0 at even ones (Ramachandran and
    Lakshminarayanan 1971, doi 10.1073/pnas.68.9.2236). `wide`: the sample is wider than the detector; the sinograms
    continue beyond its ends (:func:`extended`) for its width. Cost: two FFT.
    """
    from scipy import fft

    choose("filter", window, tuple(FILTERS))
    s = np.asarray(sinograms, np.float32)
    n = s.shape[-1]
    beside = n if wide else 0
    size = fft.next_fast_len(2 * (n + 2 * beside), real=True)
    k = np.fft.fftfreq(size, 1 / size)
    ramp = np.where(k % 2 == 1, -1 / (np.pi * np.where(k == 0, 1, k)) ** 2, 0)
    ramp[0] = 0.25
    response = np.abs(fft.rfft(ramp)) * FILTERS[window](np.linspace(0, 1, size // 2 + 1))
    if wide:
        s = extended(s, beside)
    product = fft.irfft(fft.rfft(s, size, axis=-1) * response.astype(np.float32), size, axis=-1)
    return np.ascontiguousarray(product[..., beside : beside + n], np.float32)
