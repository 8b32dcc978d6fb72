"""The axis of rotation of a parallel-beam scan, found in one sinogram, with its uncertainty."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._support import Array, as_array, real_number

__all__ = ["CERTAIN", "CUT", "WORST", "Axis", "coverage", "doubtful_angles", "ends", "find_centre", "opposite"]

CERTAIN = 0.25  #: standard error, in bins, above which an axis comes with a warning
WORST = 1.0  #: and above which there is none
DISTINCT = 20.0  #: how much less likely, in -2 log likelihood, an axis elsewhere has to be
CUT = 0.05  #: mean line integral at an end of the detector, relative to the largest, above which the sample is cut off
HARMONICS = 160  #: highest order along the angle
FREQUENCIES = 64  #: number of frequencies along the detector


class Axis(float):
    """Where the axis of rotation meets the detector, in bins from its left edge: a number with

    ``uncertainty``, its standard error in bins, and ``method``, how it was found.
    """

    uncertainty: float
    method: str

    def __new__(cls, centre: float, uncertainty: float, method: str) -> Axis:
        made = super().__new__(cls, centre)
        made.uncertainty, made.method = uncertainty, method
        return made

    def __getnewargs__(self) -> tuple[float, float, str]:  # type: ignore[override]
        return float(self), self.uncertainty, self.method


@dataclass
class Found:
    """The best axis of a method, its standard error, and by how much -2 log likelihood is larger elsewhere."""

    centre: float
    error: float
    lead: float
    method: str


def find_centre(sinogram: Any, angles: Any, search: float | None = None, step: float = 0.05) -> Axis:
    """Finds where the rotation axis meets the detector, in bins from its left edge. Angles may be in any order and over
    any part of the turn, or of several turns. Local.

    Parameters
    ----------
    sinogram : array_like, (angles, detectors)
        Line integrals.
    angles : array_like, (a,)
        In radians.
    search : float, optional
        Bins to either side of the middle within which the axis is accepted; default: the whole detector. An axis
        beyond that is more likely: ValueError.
    step : float
        Bins to which the most likely position is computed.

    Returns
    -------
    Axis
        A float, with ``uncertainty`` (one standard error, in bins) and ``method``. From 0.25 to 1 bins of uncertainty
        there is a warning; beyond, and where an axis elsewhere is nearly as likely (-2 log likelihood within 20),
        ValueError.

    Notes
    -----
    *The sample fits on the detector.* The Fourier transform along the detector at frequency w, shifted to the axis, is
    a sum of harmonics exp(i k t) of the angle whose coefficients fulfil a(-k) = (-1)^k conj a(k), as p(t + pi, -u) =
    p(t, u), and vanish like J_k(w R) for |k| > w R, for a sample of radius R (Rattey and Lindgren 1981,
    IEEE Trans. ASSP 29, 994; the conditions of Helgason and Ludwig are the limit of small w). For each axis the
    coefficients are fitted to the given angles with these variances; the most likely axis leaves the least residuals,
    each frequency weighted by its own. Cost: O(a H^2 + F H^3), with H = 160 orders and F = 64 frequencies.

    *The sample is wider than the detector.* Where projections from opposite sides exist (more than half a turn), they
    are compared on the bins that both see, which includes half acquisition, with the axis near an end of the detector.
    From half a turn alone the double wedge of the sinogram within a window around the axis is used (Vo et al. 2014, doi
    10.1364/OE.22.019078); noise makes this fail first.
    """
    s, t, low, high, resolution = _checked(sinogram, angles, search, step)
    n = s.shape[1]
    sides = ends(s)
    cut = max(sides) > CUT
    pairs = opposite(t) if cut else None
    if not cut:
        found = _by_consistency(s, t, low, high, resolution)
    elif pairs is not None:
        found = _by_opposites(s, pairs, low, high, resolution)
    elif coverage(t) >= math.radians(170):
        found = _by_windows(s, t, low, high, resolution)
    else:
        raise ValueError(
            f"the axis was not found: the sample is wider than the detector (the mean line integral at its ends is"
            f" {sides[0]:.0%} and {sides[1]:.0%} of the largest), and {_seen(t)} have too few from opposite sides"
        )
    return _judged(found, t, low, high, n)


def _checked(sinogram: Any, angles: Any, search: float | None, step: float) -> tuple[Array, Array, float, float, float]:
    s = as_array(sinogram, "sinogram").astype(np.float64)
    t = as_array(angles, "angles").astype(np.float64).reshape(-1)
    if s.ndim != 2 or 0 in s.shape:
        raise ValueError(f"the sinogram has shape {s.shape}; (angles, detectors) is needed")
    if len(t) != len(s):
        raise ValueError(f"{len(t)} angles for a sinogram of {len(s)} rows")
    if not np.isfinite(t).all():
        raise ValueError("angles that are not finite")
    if not np.isfinite(s).all():
        raise ValueError("the sinogram has values that are not finite: no axis can be found in it")
    said = doubtful_angles(t)
    if said:
        warnings.warn(said, UserWarning, stacklevel=3)
    n = s.shape[1]
    reach = n / 2 if search is None else real_number(search, "search")
    resolution = real_number(step, "step")
    if not (reach > 0 and resolution > 0):
        raise ValueError(f"search is {reach:g} and step is {resolution:g}; positive numbers are needed")
    if n < 8:
        raise ValueError(f"the axis was not found: {n} bins are too few, 8 are needed")
    if len(t) < 3 or np.ptp(t % np.pi) < 1e-3:
        raise ValueError(f"the axis was not found: {_seen(t)}; three different directions are needed")
    if np.ptp(s) <= 1e-12 * np.abs(s).max():
        raise ValueError("the axis was not found: all values of the sinogram are equal (a slice of air?)")
    return s, t, max(0.0, n / 2 - reach), min(float(n), n / 2 + reach), resolution


def _judged(found: Found, t: Array, low: float, high: float, n: int) -> Axis:
    """The axis, with a warning where it is uncertain; ValueError where it is too uncertain, or not the only one."""
    text = f"{found.centre:.2f} +- {found.error:.2g} bins by {found.method} from {_seen(t)}"
    if found.centre <= low + 0.5 or found.centre >= high - 0.5:
        raise ValueError(f"the axis was not found between {low:g} and {high:g} bins: the best is an end, {text}")
    if not found.lead >= DISTINCT:
        raise ValueError(f"the axis was not found: {text}, but others are as likely (noise, or a slice of air?)")
    if not found.error <= WORST:
        raise ValueError(f"the axis was not found: {text}; at most {WORST:g} is accepted")
    if found.error > CERTAIN:
        warnings.warn(f"the axis is uncertain: {text}", UserWarning, stacklevel=3)
    return Axis(found.centre, found.error, found.method)


def coverage(t: Array) -> float:
    """The angle that the projections cover, at most a turn."""
    around = np.sort(t % (2 * np.pi))
    gaps = np.diff(around, append=around[0] + 2 * np.pi)
    widest = float(gaps.max())
    rest = np.delete(gaps, int(gaps.argmax()))
    step = float(rest[rest > 1e-9].mean()) if (rest > 1e-9).any() else 0.0
    return 2 * np.pi if widest <= 1.5 * step else 2 * np.pi - widest + step


def _seen(t: Array) -> str:
    return f"{len(t)} projections over {math.degrees(coverage(t)):.0f} degrees"


def doubtful_angles(t: Array) -> str | None:
    """What is doubtful about angles in radians, if anything is: all alike, or degrees by the look of them."""
    if len(t) < 3 or not np.isfinite(t).all():
        return None
    around = np.unique(t)
    if len(around) == 1:
        return f"all {len(t)} angles are {around[0]:g}: an image needs different directions"
    span = float(around[-1] - around[0])
    steps = np.diff(around)
    step = float(np.median(steps))
    even = float(np.abs(steps - step).max()) < 0.25 * step
    eighths = np.array([span, span + step]) / 45
    round_ones = np.abs(eighths - np.round(eighths)) * 45 < 0.1 * step
    if span > 4 * np.pi and even and round_ones.any():
        return f"angles from {around[0]:.5g} to {around[-1]:.5g}, in radians: these look like degrees (np.deg2rad)"
    return None


def ends(s: Array) -> tuple[float, float]:
    """Mean line integrals at both ends of the detector, relative to the largest mean of a bin; 0 without any."""
    finite = np.isfinite(s).all(1)
    mean = s[finite].mean(0) if finite.any() else np.zeros(s.shape[1])
    m = max(2, s.shape[1] // 64)
    top = float(np.abs(mean).max())
    return (abs(float(mean[:m].mean())) / top, abs(float(mean[-m:].mean())) / top) if top > 0 else (0.0, 0.0)


# --- harmonics of the angle -------------------------------------------------------------------------------------------


def decay(k: Array, x: float) -> Array:
    """A bound of J_k(x)^2: 1 for k <= x, Debye's exponential beyond."""
    beyond = np.arccosh(np.maximum(k / max(x, 1e-12), 1.0))
    return np.asarray(np.exp(-2 * k * (beyond - np.tanh(beyond))))


class Harmonics:
    """Even and odd harmonics of the angle, and fits of them with given variances of their coefficients.

    For real p the conditions separate: the real part of a transform about the axis has even orders only, the imaginary
    part odd ones.
    """

    def __init__(self, t: Array, highest: int = HARMONICS) -> None:
        self.order: list[Array] = []
        self.basis: list[Array] = []
        for first in (0, 1):
            k = np.arange(first, highest + 1, 2)
            waves = np.hstack([np.cos(np.outer(t, k)), np.sin(np.outer(t, k[k > 0]))])
            self.order.append(np.concatenate([k, k[k > 0]]))
            self.basis.append(waves)
        self.gram = [b.T @ b for b in self.basis]
        self.rows = len(t)

    def fit(self, parity: int, x: float, energy: float, noise: float) -> tuple[Array, Array, float]:
        """(used harmonics, M, degrees of freedom left): the residual of data d is |d|^2 - |M B^T d|^2."""
        variance = energy / 2 * decay(self.order[parity], x)
        used = np.flatnonzero(variance > 1e-6 * noise / self.rows)
        scale = np.sqrt(variance[used] / noise)
        gram = scale[:, None] * self.gram[parity][np.ix_(used, used)] * scale
        lower = np.linalg.cholesky(gram + np.eye(len(used)))
        inverse = np.linalg.inv(lower)
        # trace of gram (gram + 1)^-1
        spent = len(used) - float((inverse**2).sum())
        return used, inverse * scale, self.rows - spent


def residuals(F: Array, C: list[Array], fits: list[tuple[Array, Array, float]]) -> tuple[Array, Array, Array]:
    """(P, S, X) of the data F at one frequency, (a,) or (a, cases), with C = B^T F: at the phase f = w c it is
    P cos^2 f + S sin^2 f + 2 X sin f cos f.
    """
    parts = []
    for parity in (0, 1):
        used, M, _ = fits[parity]
        z = M @ C[parity][used]
        pairs = ((F.real, F.real, z.real, z.real), (F.imag, F.imag, z.imag, z.imag), (F.real, F.imag, z.real, z.imag))
        parts.append([(a * b).sum(0) - (x * y).sum(0) for a, b, x, y in pairs])
    (even_rr, even_ii, even_ri), (odd_rr, odd_ii, odd_ri) = parts
    return even_rr + odd_ii, even_ii + odd_rr, odd_ri - even_ri


# --- the sample fits on the detector ----------------------------------------------------------------------------------


def _spectrum(s: Array, w: Array) -> tuple[Array, Array, float]:
    """(transform at the frequencies w, mean energy at each, energy of the noise by the highest frequencies)."""
    place = np.arange(s.shape[1]) + 0.5
    F = s @ np.exp(-1j * np.outer(place, w))
    energy = (np.abs(F) ** 2).mean(0)
    high = np.abs(s @ np.exp(-1j * np.outer(place, np.linspace(0.7, 1.0, 16) * np.pi))) ** 2
    return F, energy, max(float(np.median(high)) / 2, 1e-12 * float(energy.max()))


class Consistency:
    """-2 log likelihood of an axis, from the transform of whole projections at the lowest frequencies."""

    PAD = 2  # frequencies are twice as dense as independent ones

    def __init__(self, s: Array, t: Array) -> None:
        n = s.shape[1]
        self.s = s
        self.harmonics = Harmonics(t)
        unit = np.pi * 2 / (self.PAD * n)
        top = min(self.PAD * n // 3, FREQUENCIES)
        self.w = unit * np.arange(1, top + 1)
        self.F, self.energy, noise = _spectrum(s, self.w)
        self.C = [b.T @ self.F for b in self.harmonics.basis]
        self.noise = np.full(top, noise)

    def fit(self, radius: float) -> None:
        """Computes the residuals as functions of the axis, for a sample of this radius."""
        P: list[Array] = []
        S: list[Array] = []
        X: list[Array] = []
        left: list[float] = []
        for m, w in enumerate(self.w):
            fits = [self.harmonics.fit(p, radius * w, self.energy[m], self.noise[m]) for p in (0, 1)]
            found = residuals(self.F[:, m], [c[:, m] for c in self.C], fits)
            for kept, value in zip((P, S, X), found, strict=True):
                kept.append(value)
            left.append(fits[0][2] + fits[1][2])
        self.P, self.S, self.X, self.left = map(np.array, (P, S, X, left))

    def residual(self, c: Array) -> Array:
        phase = np.outer(np.atleast_1d(c), self.w)
        cos, sin = np.cos(phase), np.sin(phase)
        found = cos**2 * self.P + sin**2 * self.S + 2 * sin * cos * self.X
        return np.asarray(np.maximum(found, 1e-14 * (self.P + self.S)))

    def terms(self, c: Array) -> Array:
        """-2 log likelihood (axes, frequencies), with the variance of each frequency unknown."""
        return np.asarray(self.left * np.log(self.residual(c)) / self.PAD)

    def unlikely(self, c: Array) -> Array:
        return np.asarray(self.terms(c).sum(1))


def minimum(f: Callable[[Array], Array], low: float, high: float, coarse: float, fine: float) -> tuple[float, float]:
    """(where f is least, its second derivative there): on a grid, then on finer ones about the best."""
    grid = np.linspace(low, high, max(3, math.ceil((high - low) / coarse) + 1))
    while True:
        best = float(grid[int(np.argmin(f(grid)))])
        width = float(grid[1] - grid[0])
        if width <= fine:
            break
        grid = np.clip(best + np.linspace(-width, width, 17), low, high)
    h = max(0.1, fine)
    before, at, after = f(np.array([best - h, best, best + h]))
    bend = float(before - 2 * at + after) / h**2
    if bend > 0:
        best -= float(np.clip((after - before) / (2 * h) / bend, -fine, fine))
    return best, bend


def _by_consistency(s: Array, t: Array, low: float, high: float, step: float) -> Found:
    n = s.shape[1]
    m = max(2, n // 64)
    # What is left of the background is the same on both sides of the sample.
    s = s - (s[:, :m].mean() + s[:, -m:].mean()) / 2
    model = Consistency(s, t)
    model.fit(n / 2)
    best, _ = minimum(model.unlikely, low, high, 0.25, 0.25)
    model.noise = np.maximum(model.residual(np.array([best]))[0] / model.left, 1e-12 * model.energy.max())
    mean = np.abs(s.mean(0))
    inside = np.flatnonzero(mean > 0.01 * mean.max())
    radius = max(best - inside[0], inside[-1] + 1 - best)
    model.fit(float(np.clip(1.02 * radius + 1, n / 16, n)))
    best, bend = minimum(model.unlikely, low, high, 0.25, step)
    error = math.sqrt(2 / bend) if bend > 0 else math.inf
    grid = np.arange(0, n + 0.125, 0.25)
    apart = grid[np.abs(grid - best) > max(2.0, 4 * error)]
    lead = float((model.unlikely(apart) - model.unlikely(np.array([best]))).min()) if len(apart) else 0.0
    error = _widened(model, best, error, step, coverage(t) < math.radians(170))
    return Found(best, error, lead, "consistency of all projections")


def _widened(model: Consistency, best: float, error: float, step: float, partial: bool) -> float:
    """The standard error, and where low and high frequencies disagree by more than theirs (stripes, a background, a
    sample that is cut off, ..), half of their distance. From less than half a turn (`partial`), where small errors of
    the model move the axis far, all of their distance in any case.
    """
    before, at, after = model.terms(best + np.array([-0.1, 0.0, 0.1]))
    share = np.cumsum(np.maximum(before - 2 * at + after, 0))
    middle = int(np.searchsorted(share, share[-1] / 2)) + 1
    if not (middle < len(share) and math.isfinite(error)):
        return error
    reach = max(2.0, 4 * error)
    places, variance = [], 0.0
    for part in (slice(0, middle), slice(middle, None)):

        def unlikely(c: Array, part: slice = part) -> Array:
            return np.asarray(model.terms(c)[:, part].sum(1))

        place, bend = minimum(unlikely, best - reach, best + reach, 0.1, step)
        places.append(place)
        variance += 2 / bend if bend > 0 else math.inf
    apart = abs(places[0] - places[1])
    if partial:
        return max(error, apart)
    return max(error, apart / 2) if apart > 3 * math.sqrt(variance) else error


# --- the sample is wider than the detector ----------------------------------------------------------------------------


def smooth(s: Array, width: float) -> Array:
    """Running mean of each row by a Gaussian of this standard deviation; rows continue with their last values."""
    n, r = s.shape[1], math.ceil(3 * width)
    x = np.arange(-r, r + 1)
    kernel = np.exp(-0.5 * (x / width) ** 2)
    padded = np.pad(s, ((0, 0), (r, r)), mode="edge")
    size = padded.shape[1] + 2 * r
    product = np.fft.rfft(padded, size, axis=1) * np.fft.rfft(kernel / kernel.sum(), size)
    return np.asarray(np.fft.irfft(product, size, axis=1)[:, 2 * r : 2 * r + n])


def opposite(t: Array) -> tuple[Array, Array, Array, Array] | None:
    """(rows, their opposites before and after, weights of those after), where projections from opposite sides exist;
    None for fewer than 8.
    """
    order = np.argsort(t % (2 * np.pi), kind="stable")
    around = (t % (2 * np.pi))[order]
    wanted = (t + np.pi) % (2 * np.pi)
    after = np.searchsorted(around, wanted - 1e-9) % len(t)
    before = (after - 1) % len(t)
    left, gap = (wanted - around[before]) % (2 * np.pi), (around[after] - around[before]) % (2 * np.pi)
    weight = np.clip(np.where(gap > 0, left / np.where(gap > 0, gap, 1), 0), 0, 1)
    steps = np.diff(around)
    usual = float(np.median(steps[steps > 1e-9])) if (steps > 1e-9).any() else 0.0
    near = np.minimum(left, gap - left) < 1e-3 * usual
    rows = np.flatnonzero((gap <= 2.5 * usual) | near)
    if len(rows) < 8:
        return None
    return rows, order[before[rows]], order[after[rows]], weight[rows]


def _noise(s: Array) -> Array:
    """The variance of the error of each bin as opposite projections see it: its noise, by second differences; half of
    the change to the next bin, for an axis between two places of the search; and one percent, of whatever kind.
    """
    n = s.shape[1]
    noise = np.median(np.abs(np.diff(s, 2, axis=1)), axis=0) ** 2 / (0.6745**2 * 6)
    change = (np.diff(s, axis=1) ** 2).mean(0) / 8
    found = np.pad(noise, 1, mode="edge") + np.pad(change, (0, 1), mode="edge") + 1e-4 * (s**2).mean(0)
    return np.asarray(smooth(found[None], max(1.0, n / 64))[0] + 1e-9 * float((s**2).mean()))


def _by_opposites(s: Array, pairs: tuple[Array, Array, Array, Array], low: float, high: float, step: float) -> Found:
    """The axis about which opposite projections mirror each other on the bins that both see, by a likelihood ratio: two
    values are one signal with two errors, rather than two signals.
    """
    rows, before, after, weight = pairs
    n = s.shape[1]
    noise = _noise(s)
    a = s[rows]
    b = (1 - weight[:, None]) * s[before] + weight[:, None] * s[after]
    signal = np.maximum((s**2).mean(0) - noise, 1e-3 * noise)

    def unlikely(j: int) -> float:
        """-2 log of the ratio for the axis at j / 2 bins: bin i is the mirror of bin j - 1 - i."""
        here = slice(max(0, j - n), min(n, j))
        there = slice(j - here.stop, j - here.start)
        x, y = a[:, here], b[:, there][:, ::-1]
        xx, yy, xy = (x * x).mean(0), (y * y).mean(0), (x * y).mean(0)
        alone = signal[here] + noise[here], signal[there][::-1] + noise[there][::-1]
        common = (signal[here] + signal[there][::-1]) / 2
        va, vb = common + noise[here], common + noise[there][::-1]
        left = va * vb - common**2
        together = (vb * xx + va * yy - 2 * common * xy) / left + np.log(left)
        apart = xx / alone[0] + yy / alone[1] + np.log(alone[0] * alone[1])
        # Each pair is met twice.
        return float((together - apart).sum()) * len(rows) / 2

    places = np.arange(8, 2 * n - 7)
    values = np.array([unlikely(int(j)) for j in places])
    allowed = (places >= 2 * low) & (places <= 2 * high)
    at = int(np.argmin(np.where(allowed, values, np.inf)))
    if not allowed.any() or values[at] >= 0:
        return Found((low + high) / 2, math.inf, 0.0, "opposite projections")
    best = float(places[at]) / 2
    far = np.abs(places / 2 - best) > max(3.0, n / 16)
    second = min(0.0, float(values[far].min(initial=0.0)))
    lead = float(second - values[at]) if values[at] < 1.2 * second or second == 0 else 0.0
    best, error = _refined(a, b, noise, best, low, high)
    half = min(best, n - best)
    mean = np.abs(s.mean(0))
    seen = mean[max(0, int(best - half)) : math.ceil(best + half)]
    if len(seen) == 0 or seen.mean() < 0.1 * mean.max():  # a background mirrors itself anywhere
        lead = 0.0
    return Found(best, max(error, step), lead, "opposite projections")


def _refined(a: Array, b: Array, noise: Array, best: float, low: float, high: float) -> tuple[float, float]:
    """(axis, standard error) near `best`: the squared difference of projections a and mirrored opposites b, on as many
    bins for each axis, fitted by a parabola. The likelihood ratio itself leans towards axes with more bins in common.
    """
    n = a.shape[1]
    reach, error = 4, math.inf
    for _ in range(8):
        centre = round(2 * best)
        half = min(centre, 2 * n - centre) // 2 - reach // 2
        if half < 3:
            return best, math.inf
        places = centre + np.arange(-reach, reach + 1)
        values = []
        for j in places:
            here = slice(max(0, (j + 1) // 2 - half), min(n, j // 2 + half))
            there = slice(j - here.stop, j - here.start)
            if there.start < 0 or there.stop > n:
                return best, math.inf
            weight = 1 / (noise[here] + noise[there][::-1])
            mean = ((a[:, here] - b[:, there][:, ::-1]) ** 2 * weight).mean()
            values.append(float(mean) * half * len(a))  # each pair is met twice
        bend, slope, _ = np.polyfit(places / 2 - centre / 2, values, 2)
        if bend <= 0:
            return best, math.inf
        moved = centre / 2 + float(np.clip(-slope / (2 * bend), -reach / 2, reach / 2))
        error = math.sqrt(1 / bend)
        if not low <= moved <= high:
            return best, math.inf
        if round(2 * moved) == centre:
            return moved, error
        best = moved
    return best, error


def _by_windows(s: Array, t: Array, low: float, high: float, step: float) -> Found:
    """The axis about which the sinogram of half a turn, within a window about it, is consistent with a full turn."""
    n = s.shape[1]
    fine = s - smooth(s, n / 24)
    harmonics = Harmonics(t)
    w = 2 * np.pi / n * np.arange(1, min(n // 3, 36) + 1)
    place = np.arange(n) + 0.5
    _, energy, noise = _spectrum(fine, w)
    # A window widens the wedge by a few orders.
    fits = [[harmonics.fit(p, n / 2 * x + 4, energy[m], noise) for p in (0, 1)] for m, x in enumerate(w)]
    left = np.array([f[0][2] + f[1][2] for f in fits])

    def ratio(c: Array) -> Array:
        """Mean log of the residual relative to that of any phase, for each axis."""
        F = np.empty((len(w), len(t), len(c)), complex)
        for i, x in enumerate(c):
            half = min(x, n - x)
            window = np.where(np.abs(place - x) < half, np.cos(np.pi / 2 * np.clip((place - x) / half, -1, 1)) ** 2, 0)
            F[:, :, i] = ((fine * window) @ np.exp(-1j * np.outer(place - x, w))).T
        logs = np.zeros(len(c))
        for m in range(len(w)):
            P, S, _ = residuals(F[m], [b.T @ F[m] for b in harmonics.basis], fits[m])
            logs += left[m] * np.log(2 * P / (P + S))
        return np.asarray(logs / left.sum())

    grid = np.arange(8.0, n - 8 + 1e-9, max(1.0, n / 128))
    allowed = (grid >= low) & (grid <= high)
    if not allowed.any():
        return Found((low + high) / 2, math.inf, 0.0, "the double wedge")
    values = ratio(grid)
    at = int(np.argmin(np.where(allowed, values, np.inf)))
    best, width = float(grid[at]), float(grid[1] - grid[0])
    second = float(values[np.abs(grid - best) > 3 * width].min(initial=0.0))
    while width > max(step, 0.05):
        near = np.clip(best + np.linspace(-width, width, 9), grid[0], grid[-1])
        best, width = float(near[int(np.argmin(ratio(near)))]), width / 4
    # Noise makes wrong axes distinct, so that the right one has to explain nearly all.
    certain = values[at] < -0.5 and values[at] < 1.2 * second
    half = min(best, n - best)
    independent = float(left.sum()) * half / n
    return Found(best, 0.1 if certain else math.inf, independent * (second - values[at]), "the double wedge")
