"""Repairs of a scan before images are made of it: zingers, rings, dead pixels, phase retrieval."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from scans_of_phantoms import BODY, TUBE, correlation, counts, half_turn, image, sinogram, write_exchange

from tacit import tomography
from tacit.app import preparation, repairs, rings
from tacit.app.exchange import DataExchange
from tacit.app.preparation import AS_GIVEN, Preparation

pytest.importorskip("h5py")
N = 256
T = half_turn(360)


def made(path: Path, how: Preparation | None = None, centre: float = 128.0) -> tuple[float, DataExchange]:
    scan = DataExchange(str(path), preparation=how)
    P = tomography.projector(scan.angles, scan.detectors, centre=centre)
    found = tomography.reconstruct(scan.read(0, 1), projector=P, iterations=12).images[0]
    scan.close()
    return correlation(found, image(N, 2)), scan


@pytest.mark.parametrize("share", [0.05, 1.0])
def test_rings_and_zingers(tmp_path: Path, share: float) -> None:
    p = sinogram(T, N, 128, 2)[:, None]
    spoilt = counts(p, 1e6, rings=0.05, share=share, zingers=2e-4)
    path = write_exchange(tmp_path / "s.h5", *spoilt, T)
    before, _ = made(path, AS_GIVEN)
    after, scan = made(path)
    assert before < 0.98
    assert after > 0.99
    assert abs(scan.repairs["zingers"] - 2e-4 * p.size) < 5
    assert scan.repairs["rings"] > 0.5 * share * N


@pytest.mark.parametrize("body", [BODY, TUBE])
@pytest.mark.parametrize("centre", [128.0, 121.3])
def test_what_is_right_stays(tmp_path: Path, body: object, centre: float) -> None:
    """Of a scan without defects, also of circles about the axis, hardly anything changes."""
    p = sinogram(T, N, centre, 2, body)
    path = write_exchange(tmp_path / "s.h5", *counts(p[:, None], 1e5), T)
    before, after = (DataExchange(str(path), preparation=how) for how in (AS_GIVEN, Preparation()))
    moved = after.read(0, 1) - before.read(0, 1)
    assert after.repairs["zingers"] <= 1
    assert np.sqrt((moved**2).mean()) < 0.003 * p.max()


def test_zingers_between_golden_angles_and_in_frames() -> None:
    t = (np.arange(360) * np.pi * (5**0.5 - 1) / 2) % np.pi
    data, white, dark = counts(sinogram(t, N, 128, 2)[:, None], 1e4, zingers=1e-3)
    true = counts(sinogram(t, N, 128, 2)[:, None], 1e4)[0]
    white[3, 0, 17] *= 3
    tally: Counter[str] = Counter()
    data, white, _ = Preparation().counts(data.astype(np.float32), white, dark, t, tally)
    assert tally["frame zingers"] == 1
    assert white[3, 0, 17] < 1.02 * np.median(white[:, 0, 17])
    assert abs(tally["zingers"] - 1e-3 * data.size) < 0.3e-3 * data.size
    assert (data > 1.3 * true).mean() < 1e-4


def test_one_projection_with_a_gap_between_plates_has_no_zingers() -> None:
    """A bright line of many bins in one projection is the sample."""
    data = np.full((90, 1, 64), 1000, np.float32) + np.random.default_rng(0).normal(0, 30, (90, 1, 64)).astype("f4")
    data[40, 0, 20:40] += 2000
    assert repairs.replace_zingers(data, np.zeros((1, 64), np.float32), half_turn(90), 8) == 0
    data[41, 0, 30] += 2000
    assert repairs.replace_zingers(data, np.zeros((1, 64), np.float32), half_turn(90), 8) <= 1


def test_dead_bins_and_numbers_that_are_none(tmp_path: Path) -> None:
    p = sinogram(T, N, 128, 2)[:, None]
    data, white, dark = counts(p, 1e5)
    white[:, 0, 40:42] = dark[:, 0, 40:42]
    path = write_exchange(tmp_path / "s.h5", data, white, dark, T)
    import h5py

    with h5py.File(path, "r+") as f:
        changed = f["exchange/data"][()].astype(np.float32)
        changed[:, 0, 100:106] = np.nan  # in all projections
        changed[7, 0, 60] = np.nan
        changed[8, 0, 60:90] = np.nan  # too wide
        del f["exchange/data"]
        f["exchange/data"] = changed
    scan = DataExchange(str(path))
    s = scan.read(0, 1)[0]
    assert scan.repairs["dead"] == 2
    assert scan.repairs["no numbers"] == 6 * 360 + 1
    assert np.isnan(s).sum() == 30
    assert np.nanmax(np.abs(s - p[:, 0])) < 0.3
    kept = DataExchange(str(path), preparation=Preparation(dead="none"))
    assert np.isnan(kept.read(0, 1)[0]).sum() >= 8 * 360
    assert sum(kept.repairs[k] for k in ("dead", "no numbers")) == 2
    assert "6 bins" not in " ".join(preparation.sentences(scan.repairs))
    assert any(text.startswith("2161 values") for text in preparation.sentences(scan.repairs))


def test_one_ring_is_not_its_own_mirror_image() -> None:
    """Wherever it is: also in the middle, where the axis may be."""
    s = sinogram(T, N, 128, 2)
    for at in (60, 100, 127, 128, 180):
        stripe = np.where(np.arange(N) == at, 0.3, 0)
        assert abs(rings.offsets(s + stripe)[at] - 0.3) < 0.05


@pytest.mark.parametrize("method", rings.RINGS)
def test_each_way_with_rings(method: str) -> None:
    if method not in ("offset", "none"):
        pytest.importorskip("algotom")
    s = sinogram(T, N, 128, 2).astype(np.float32)
    rng = np.random.default_rng(0)
    stripes = (0.2 * rng.standard_normal(N) * (rng.random(N) < 0.1)).astype(np.float32)
    left = rings.remove_rings(s + stripes, method) - s
    before, after = (float(np.sqrt((e**2).mean())) for e in (stripes, left))
    assert after == pytest.approx(before) if method == "none" else after < 0.7 * before


def test_rings_without_algotom(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "algotom.prep", None)
    with pytest.raises(ImportError, match="pip install algotom"):
        rings.remove_rings(np.zeros((4, 16)), "sorting")
    with pytest.raises(ValueError, match="offset"):
        rings.remove_rings(np.zeros((4, 16)), "ofset")


def test_paganin_inverts_what_edges_do(tmp_path: Path) -> None:
    """I = (1 - w^2 laplacian) T is what propagation makes of a transmission T: the filter gives T back."""
    phase = preparation.Paganin(pixel=1.0, distance=100.0, energy=20.0, ratio=200.0)
    y, x = np.mgrid[:96, :128] - 48.0
    thickness = 0.5 * np.exp(-(x**2 + y**2) / 300) + 0.2
    k = [2 * np.pi * np.fft.fftfreq(n) for n in thickness.shape]
    inverse = 1 + phase.width**2 * (k[0][:, None] ** 2 + k[1] ** 2)
    seen = np.fft.ifft2(np.fft.fft2(np.exp(-thickness)) * inverse).real[None]
    assert np.abs(seen[0] - np.exp(-thickness)).max() > 0.02
    inner = np.s_[24:72, 24:72]  # the thickness is not the same on opposite sides, which it is for the FFT above
    assert np.abs(-np.log(phase(seen)[0]) - thickness)[inner].max() < 1e-3
    # Slices are the same whether they are read together or one by one.
    data = np.repeat(seen, 12, 0) * 1e4
    frames = np.full((2, *data.shape[1:]), 1e4), np.zeros((2, *data.shape[1:]))
    path = write_exchange(tmp_path / "s.h5", data, *frames, half_turn(12))
    scan = DataExchange(str(path), preparation=Preparation(phase=phase, rings="none"))
    whole = scan.read(0, 96)
    np.testing.assert_allclose(whole[40, :, 24:72], thickness[40, 24:72][None].repeat(12, 0), atol=2e-3)
    np.testing.assert_allclose(scan.read(40, 41)[0], whole[40], atol=3e-3)


@pytest.mark.parametrize(("name", "value"), [("pixel", 1e-3), ("distance", -1.0), ("energy", 0.0), ("ratio", np.nan)])
def test_paganin_refuses(name: str, value: float) -> None:
    given = {"pixel": 1.0, "distance": 100.0, "energy": 20.0, "ratio": 200.0} | {name: value}
    with pytest.raises(ValueError, match="phase retrieval"):
        preparation.Paganin(**given)


def test_frames_that_cannot_be_right(tmp_path: Path) -> None:
    data, white, dark = counts(sinogram(T, N, 128, 2)[:, None], 1e4)

    def said(data: np.ndarray, white: np.ndarray, dark: np.ndarray) -> str:
        scan = DataExchange(str(write_exchange(tmp_path / "s.h5", data, white, dark, T)))
        scan.close()
        return " ".join(scan.assumed)

    assert said(data, white, dark) == ""
    assert said(*counts(sinogram(T, N, 128, 2)[:, None], 100)) == ""
    assert "brighter than the white frames (2" in said(2 * data, white, dark)
    assert "shutter" in said(data, white, 0.9 * white)
    assert "weaker" in said(100 + (data - 100) / 40, white, dark)
    drift = white * np.linspace(1, 1.3, 10)[:, None, None]
    assert "the beam changes" in said(data, drift, dark)
    import h5py

    full = np.clip(data, 0, 255)
    path = write_exchange(tmp_path / "s.h5", full, white, dark, T)
    with h5py.File(path, "r+") as f:
        del f["exchange/data"]
        f["exchange/data"] = full.astype(np.uint8)
    assert "saturated" in " ".join(DataExchange(str(path)).assumed)


def test_line_integrals_are_taken_as_they_are(tmp_path: Path) -> None:
    import h5py

    s = np.random.default_rng(0).random((40, 2, 32), np.float32)
    with h5py.File(tmp_path / "s.h5", "w") as f:
        f["exchange/data"], f["exchange/theta"] = s, np.degrees(half_turn(40))
    path = str(tmp_path / "s.h5")
    np.testing.assert_array_equal(DataExchange(path, data="line-integrals").read(0, 2), s.transpose(1, 0, 2))
    with pytest.raises(ValueError, match="zingers needs counts"):
        DataExchange(path, data="line-integrals", preparation=Preparation(zingers=5)).read(0, 1)
    for wrong in ({"zingers": -1.0}, {"ring_width": 1}, {"rings": "no"}, {"dead": "alive"}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            Preparation(**wrong)  # type: ignore[arg-type]
