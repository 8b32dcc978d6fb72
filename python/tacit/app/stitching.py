"""Half acquisition: projections of a whole turn, each of which sees half of the sample."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._support import Array, as_array, real_number
from .axis import opposite

__all__ = ["stitch"]


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
