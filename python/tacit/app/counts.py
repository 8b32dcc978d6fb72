"""Line integrals from counts."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._support import Array

__all__ = ["normalise"]


def normalise(data: Any, white: Any, dark: Any, least: float = 1e-6) -> Array:
    """Line integrals from counts: -log(max((data - dark) / (white - dark), least)), with the mean white and dark frame.

    Parameters
    ----------
    data : array_like, (angles, ..., detectors)
        Counts. NaN stays NaN.
    white, dark : array_like, (frames, ..., detectors)
        Frames with the beam but without the sample, and frames without the beam. If empty, white is 1, and dark is 0.
    least : float
        The smallest transmission; smaller ones are replaced by it.

    Notes
    -----
    In a dead bin, where white is not above dark, the transmission is interpolated linearly from the nearest live bins.
    ValueError for a line of the detector without a live bin.
    """
    counts = np.asarray(data, np.float32)
    light = np.asarray(white, np.float32)
    none = np.asarray(dark, np.float32)
    light = light.mean(0) if light.size else np.ones(counts.shape[1:], np.float32)
    none = none.mean(0) if none.size else np.zeros(counts.shape[1:], np.float32)
    dead = ~(light > none)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        share = np.asarray((counts - none) / (light - none))
    lines, bins = dead.reshape(-1, dead.shape[-1]), np.arange(dead.shape[-1])
    if lines.all(1).any():
        raise ValueError("white frames are not above the dark ones in any bin of a line of the detector")
    for line in np.flatnonzero(lines.any(1)):
        gone = lines[line]
        for row in share.reshape(len(share), *lines.shape)[:, line]:
            row[gone] = np.interp(bins[gone], bins[~gone], row[~gone])
    return np.asarray(-np.log(np.maximum(share, np.float32(least))), np.float32)
