"""The axis of rotation, found in sinograms of ellipses whose axis is known."""

from __future__ import annotations

import copy
import pickle
import warnings
from typing import Any

import numpy as np
import pytest

from tacit import tomography

Array = np.ndarray[Any, Any]

# x, y, radii, direction of the first, value
BODY = [(0, 0, 40, 30, 0.3, 0.01), (15, 10, 9, 9, 0, 0.02), (-18, 6, 7, 4, 1, -0.006), (4, -20, 5, 5, 0, 0.015)]


def sinogram(t: Array, n: int, centre: float, scale: float = 1.0, counts: float | None = None, seed: int = 0) -> Array:
    """Exact projections of BODY, averaged over bins; with photon noise where `counts` are those without the sample."""
    u = (np.arange(4 * n) + 0.5) / 4 - centre
    p = np.zeros((len(t), 4 * n))
    for x, y, a, b, phi, value in BODY:
        a, b, x, y = a * scale, b * scale, x * scale, y * scale
        half = np.hypot(a * np.cos(t - phi), b * np.sin(t - phi))[:, None]
        along = u - (x * np.cos(t) + y * np.sin(t))[:, None]
        p += 2 * value * a * b / half**2 * np.sqrt(np.maximum(half**2 - along**2, 0))
    p = p.reshape(len(t), n, 4).mean(2)
    if counts is None:
        return p
    seen = np.random.default_rng(seed).poisson(counts * np.exp(-p))
    return -np.log(np.maximum(seen, 0.5) / counts)


def degrees(last: float, count: int = 180) -> Array:
    return np.radians(np.arange(count) * last / count)


ORDERS = {
    **{f"{last}": degrees(last) for last in (120, 150, 180, 200, 270, 300, 360, 720)},
    "0 to 360 with both": np.linspace(0, 2 * np.pi, 181),
    "shuffled": np.random.default_rng(0).permutation(degrees(180)),
    "golden": (np.arange(180) * np.pi * (5**0.5 - 1) / 2) % np.pi,
    "golden, not wrapped": np.arange(180) * np.pi * (5**0.5 - 1),
}


@pytest.mark.parametrize("order", ORDERS)
def test_any_angles(order: str) -> None:
    t = ORDERS[order]
    for centre in (66.5, 57.2):
        found = tomography.find_centre(sinogram(t, 128, centre), t)
        assert found == pytest.approx(centre, abs=0.1)
        assert found.uncertainty < 0.25


@pytest.mark.filterwarnings("ignore:the axis is uncertain")
@pytest.mark.parametrize(("bins", "counts", "last"), [(128, 100, 180), (128, 500, 360), (512, 100, 180)])
def test_photon_noise(bins: int, counts: int, last: int) -> None:
    t = degrees(last)
    for seed, off in enumerate((-5.3, 7.9)):
        centre = bins / 2 + off
        found = tomography.find_centre(sinogram(t, bins, centre, bins / 128, counts, seed), t)
        assert abs(found - centre) < min(0.75, 4 * found.uncertainty + 0.02)


def test_less_than_half_a_turn_with_noise_is_told() -> None:
    t = degrees(120)
    told = 0
    for seed in range(3):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                assert tomography.find_centre(sinogram(t, 128, 66.5, 1, 300, seed), t) == pytest.approx(66.5, abs=0.75)
            except (ValueError, UserWarning) as error:
                assert "bins" in str(error)  # noqa: PT017
                told += 1
    assert told >= 2


@pytest.mark.parametrize("centre", [14.0, 100.5, 116.0])
@pytest.mark.parametrize("counts", [None, 2000])
def test_half_acquisition(centre: float, counts: float | None) -> None:
    t = degrees(360)
    found = tomography.find_centre(sinogram(t, 128, centre, 1.5, counts), t)
    assert found == pytest.approx(centre, abs=0.3)
    assert found.method == "opposite projections"


def test_wider_than_the_detector() -> None:
    half, short = degrees(180), degrees(120)
    assert tomography.find_centre(sinogram(half, 96, 55, 1.8), half) == pytest.approx(55, abs=0.3)
    with pytest.raises(ValueError, match="wider than the detector"):
        tomography.find_centre(sinogram(short, 96, 55, 1.8), short)


def test_no_axis_no_answer() -> None:
    t = degrees(180)
    noise = 0.03 * np.random.default_rng(0).standard_normal((180, 128))
    s = sinogram(t, 128, 66.5)
    few = degrees(180, 5)
    cases: list[tuple[Array, Array, dict[str, Any], str]] = [
        (np.zeros((180, 128)), t, {}, "air"),
        (noise, t, {}, "not found"),
        (noise + 0.2, t, {}, "not found"),
        (sinogram(few, 128, 66.5), few, {}, "not found"),
        (s, np.zeros(180), {}, "three different directions"),
        (s, t, {"search": 1}, "not found"),
        (s, t[1:], {}, "179 angles"),
        (s[:, :5], t, {}, "too few"),
        (s, t, {"step": 0}, "positive"),
        (np.where(s > 0.5, np.nan, s), t, {}, "not finite"),
    ]
    for given, angles, more, text in cases:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with pytest.raises(ValueError, match=text):
                tomography.find_centre(given, angles, **more)


@pytest.mark.parametrize("seed", range(2))
def test_stripes_and_hardening_move_it_little(seed: int) -> None:
    t = degrees(180)
    rng = np.random.default_rng(seed)
    s = sinogram(t, 128, 61.3)
    striped = s + 0.02 * s.max() * rng.standard_normal(128)
    hardened = 1 - np.exp(-s)
    for given in (striped, hardened):
        found = tomography.find_centre(given, t)
        assert abs(found - 61.3) < max(0.25, 3 * found.uncertainty)


def test_an_axis_is_a_number() -> None:
    t = degrees(360)
    found = tomography.find_centre(sinogram(t, 128, 66.5), t)
    for same in (copy.deepcopy(found), pickle.loads(pickle.dumps(found))):
        assert (same, same.uncertainty, same.method) == (found, found.uncertainty, found.method)
    assert tomography.projector(t, 128, centre=found).nnz > 0


def test_degrees_in_place_of_radians_are_told() -> None:
    for t in (np.arange(180.0), np.linspace(0, 360, 721), np.arange(0, 180, 0.5)):
        with pytest.warns(UserWarning, match="look like degrees"):
            tomography.projector(t, 16)
    with pytest.warns(UserWarning, match="all 90 angles"):
        tomography.projector(np.zeros(90), 16)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for t in (*ORDERS.values(), degrees(1080), np.array([0.0]), np.zeros(2)):
            tomography.projector(t, 16)
