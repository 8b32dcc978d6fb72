"""The page of a scan and its pictures, and the axis of several slices."""

from __future__ import annotations

import base64
import io
import re
from pathlib import Path

import numpy as np
import pytest
from scans_of_phantoms import correlation, counts, half_turn, sinogram, write_exchange
from scans_of_phantoms import image as phantom

import tacit
from tacit import cli
from tacit.app import exchange, scan_axis, views

pytest.importorskip("h5py")
N = 128
T = half_turn(120)


def tilted(path: Path, by: float, beam: float = 1e5) -> exchange.DataExchange:
    p = np.stack([sinogram(T, N, 62 + by * k / 7) for k in range(8)], 1)
    return exchange.DataExchange(str(write_exchange(path, *counts(p, beam), T)))


@pytest.mark.slow
def test_the_axis_of_several_slices(tmp_path: Path) -> None:
    straight = tilted(tmp_path / "a.h5", 0)
    axis = scan_axis.centre_of(straight, "auto")
    assert axis == pytest.approx(62, abs=0.1)
    assert straight.assumed == []
    little = tilted(tmp_path / "b.h5", 2.0, 1e6)
    axis = scan_axis.centre_of(little, "auto")
    assert isinstance(axis, scan_axis.Axis)
    assert axis == pytest.approx(63.1, abs=0.3)
    assert axis.uncertainty > 0.3
    assert "moves over the slices" in " ".join(little.assumed)
    with pytest.raises(tacit.InputError, match="slices disagree about the axis"):
        scan_axis.centre_of(tilted(tmp_path / "c.h5", 6), "auto")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("beam", [100, 300])
def test_few_photons_rings_and_zingers_move_the_axis_little(tmp_path: Path, beam: float, seed: int) -> None:
    """Within 0.75 bins, or refused."""
    p = np.stack([sinogram(T, N, 58.4, k) for k in (0.8, 0.9, 1.0)], 1)
    spoilt = counts(p, beam, seed, rings=0.05, share=0.1, zingers=2e-4)
    scan = exchange.DataExchange(str(write_exchange(tmp_path / "s.h5", *spoilt, T)))
    try:
        assert abs(scan_axis.centre_of(scan, "auto") - 58.4) < 0.75
    except tacit.InputError as error:
        assert "axis" in str(error)  # noqa: PT017


def test_wrong_axes_are_less_sharp() -> None:
    strip = views.trial_axes(sinogram(T, N, 62), T, 62.0, N)
    assert [axis - 62 for axis, _ in strip] == list(views.STEPS)
    alike = [correlation(image, phantom(N)) for _, image in strip]
    assert np.argmax(alike) == len(views.STEPS) // 2


@pytest.mark.slow
@pytest.mark.parametrize(
    "words", [("--method", "fbp"), ("--iterations", "5", "--slices", "1:3"), ("--pad", "8", "--iterations", "3")]
)
def test_page(tmp_path: Path, words: tuple[str, ...]) -> None:
    from PIL import Image

    p = np.stack([sinogram(T, N, 60.0, k) for k in (0.8, 0.9, 1.0, 1.05)], 1)
    path = write_exchange(tmp_path / "s.h5", *counts(p, 1e4, rings=0.05, share=0.1, zingers=3e-4), T)
    page = tmp_path / "page.html"
    more = ["--centre", "auto", "--report", str(page), "--threads", "1"]
    assert cli.main(["reconstruct", str(path), *more, *words]) == 0
    text = page.read_text()
    pictures = re.findall(r'base64,([^"]+)"', text)
    assert len(pictures) == 3
    for picture in pictures:
        with Image.open(io.BytesIO(base64.b64decode(picture))) as image:
            grey = np.asarray(image.convert("L"), float)
        assert min(image.size) > 200
        assert grey.std() > 20
    for said in ("zingers replaced", "corrected for rings", "axis at 6", "8 standard deviations", "tacit reconstruct"):
        assert said in text
    assert "Warnings" not in text.replace("RuntimeWarnings", "")
