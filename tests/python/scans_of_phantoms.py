"""Scans of a phantom of ellipses: exact projections, counts with photon noise, and what goes wrong with detectors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

# x, y, radii, direction of the first, value: in bins of a detector of 128
BODY = [
    *((0, 0, 54, 40, 0.3, 0.010), (15, 10, 9, 9, 0, 0.012), (-18, 6, 7, 4, 1, -0.006), (4, -20, 5, 5, 0, 0.010)),
    *((-6, 18, 3, 3, 0, 0.02), (30, -4, 4, 8, 0.4, 0.008), (-30, -10, 6, 3, 0.1, -0.01)),
]
# Circles about the axis, whose edges stay in one bin as defects do.
TUBE = [(0, 0, 50, 50, 0, 0.02), (0, 0, 40, 40, 0, -0.015), (10, 5, 8, 8, 0, 0.01), (-12, -9, 6, 3, 0.4, 0.01)]


def half_turn(count: int) -> Array:
    return np.arange(count) * np.pi / count


def sinogram(t: Array, n: int, centre: float, scale: float = 1.0, body: Any = BODY) -> Array:
    """Exact projections, averaged over bins, of the phantom enlarged by `scale`; the largest is 1.3."""
    u = (np.arange(4 * n) + 0.5) / 4 - centre
    p = np.zeros((len(t), 4 * n))
    for x, y, a, b, phi, value in body:
        a, b, x, y, value = a * scale, b * scale, x * scale, y * scale, value / scale
        half = np.hypot(a * np.cos(t - phi), b * np.sin(t - phi))[:, None]
        along = u - (x * np.cos(t) + y * np.sin(t))[:, None]
        p += 2 * value * a * b / half**2 * np.sqrt(np.maximum(half**2 - along**2, 0))
    return np.asarray(p.reshape(len(t), n, 4).mean(2))


def image(n: int, scale: float = 1.0, body: Any = BODY) -> Array:
    """The phantom on n x n pixels."""
    at = (np.arange(4 * n) + 0.5) / 4 - n / 2
    x, y = np.meshgrid(at, -at)
    made = np.zeros_like(x)
    for px, py, a, b, phi, value in body:
        dx, dy = x - px * scale, y - py * scale
        along, across = dx * np.cos(phi) + dy * np.sin(phi), dy * np.cos(phi) - dx * np.sin(phi)
        made += value / scale * ((along / a) ** 2 + (across / b) ** 2 < scale**2)
    return np.asarray(made.reshape(n, 4, n, 4).mean((1, 3)))


def counts(
    p: Array, beam: float, seed: int = 0, rings: float = 0.0, share: float = 1.0, zingers: float = 0.0
) -> tuple[Array, Array, Array]:
    """Counts, ten white and ten dark frames of line integrals p (angles, slices, bins): photon noise of `beam` counts
    without the sample, sensitivities of a share of the bins that differ by `rings` from those of the white frames, and
    a share of `zingers` of one to eight times the beam.
    """
    rng = np.random.default_rng(seed)
    row = p.shape[1:]
    gain = 1 + rings * rng.standard_normal(row) * (rng.random(row) < share)
    profile = beam * (1 + 0.2 * np.cos(np.linspace(-1.5, 1.5, row[-1])))
    data = rng.poisson(profile * np.exp(-p)) * gain + 100 + 2 * rng.standard_normal(p.shape)
    hit = rng.random(p.shape) < zingers
    data[hit] += beam * rng.uniform(1, 8, int(hit.sum()))
    white = rng.poisson(profile, (10, *row)) + 100.0
    return np.rint(data), white, np.rint(100 + 2 * rng.standard_normal((10, *row)))


def inside(n: int) -> Array:
    """The pixels that all projections see."""
    y, x = np.mgrid[:n, :n] + 0.5 - n / 2
    return np.asarray(x * x + y * y < (n / 2) ** 2)


def correlation(found: Any, true: Array) -> float:
    here = inside(len(true))
    return float(np.corrcoef(np.asarray(found)[here], true[here])[0, 1])


def relative_error(found: Any, true: Array) -> float:
    here = inside(len(true))
    return float(np.linalg.norm((np.asarray(found) - true)[here]) / np.linalg.norm(true[here]))


def write_exchange(path: Path, data: Array, white: Array, dark: Array, t: Array) -> Path:
    """A Data Exchange file of counts (angles, slices, bins)."""
    import h5py

    with h5py.File(path, "w") as file:
        file["exchange/data"] = np.clip(data, 0, 2**32 - 1).astype(np.uint32)
        file["exchange/data_white"], file["exchange/data_dark"] = white.astype(np.float32), dark.astype(np.float32)
        file["exchange/theta"] = np.degrees(t)
        file["exchange/theta"].attrs["units"] = "degrees"
    return path
